//! The server's identity for push services: a key that is generated once, and short-lived tokens
//! signed with it (RFC 8292).

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD as BASE64URL};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

/// The name of its file in the data folder.
pub const FILE: &str = "push.key";

/// Validity of a token, seconds: half of the maximum in RFC 8292 2.
const GOOD_S: u64 = 12 * 3_600;

/// Maximum number of cached tokens, one per origin; beyond that, all are recreated.
const TOKENS_MAX: usize = 1_024;

/// Maximum size of the key file, bytes.
const FILE_BYTES_MAX: u64 = 4_096;

/// The server's key, and the tokens made with it.
pub struct Vapid {
    pair: EcdsaKeyPair,
    /// Contact for push services: a `mailto:` or `https:` address.
    contact: String,
    /// By origin, with the second since 1970 at which each expires.
    tokens: Mutex<HashMap<String, (String, u64)>>,
}

impl std::fmt::Debug for Vapid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vapid({})", self.key())
    }
}

fn unusable(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Generates a key, if there is none; the file is created atomically.
fn make(file: &Path) -> io::Result<()> {
    let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
    let made = made.map_err(|_| io::Error::other("no key could be made"))?;
    let text = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(made.as_ref()));
    let unfinished = file.with_extension("unfinished");
    let mut out = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(&unfinished, file)?;
    // Pages that register are bound to the key: it must not be lost.
    File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

impl Vapid {
    /// Loads the key from this file, or generates it if the file does not exist.
    ///
    /// # Errors
    /// The system's; or the file does not contain a key.
    pub fn open(file: &Path, contact: &str) -> io::Result<Vapid> {
        if !file.try_exists()? {
            make(file)?;
        }
        let mut text = Vec::new();
        File::open(file)?.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
        let key = rustls_pemfile::pkcs8_private_keys(&mut &text[..]).next();
        let key = key.ok_or_else(|| unusable("it contains no private key (PKCS#8 in PEM)"))??;
        let (algorithm, bytes) = (&ECDSA_P256_SHA256_FIXED_SIGNING, key.secret_pkcs8_der());
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, bytes, &SystemRandom::new());
        let pair = pair.map_err(|_| unusable("its key is not on the curve P-256"))?;
        Ok(Vapid { pair, contact: contact.into(), tokens: Mutex::default() })
    }

    /// The public key, as given to pages (RFC 8292 3.2).
    pub fn key(&self) -> String {
        BASE64URL.encode(self.pair.public_key().as_ref())
    }

    /// The authorization header for a push service of this origin (RFC 8292 3), at a time in
    /// seconds since 1970.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn authorization(&self, origin: &str, now_s: u64) -> io::Result<String> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        // A token that expires soon is not sent, nor one created before the clock was set back.
        if let Some((token, over_s)) = tokens.get(origin)
            && (now_s + GOOD_S / 2..=now_s + GOOD_S).contains(over_s)
        {
            return Ok(token.clone());
        }
        let over_s = now_s + GOOD_S;
        let claims = serde_json::json!({ "aud": origin, "exp": over_s, "sub": self.contact });
        let part = |text: &str| BASE64URL.encode(text);
        let signed = format!("{}.{}", part(r#"{"typ":"JWT","alg":"ES256"}"#), part(&claims.to_string()));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_| io::Error::other("the system has no randomness"))?;
        let token = format!("vapid t={signed}.{}, k={}", BASE64URL.encode(signature.as_ref()), self.key());
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(origin.into(), (token.clone(), over_s));
        Ok(token)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    /// RFC 8292 2 and 3.
    #[test]
    fn a_token_is_of_the_key_for_one_origin_and_half_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let vapid = Vapid::open(&file, "mailto:admin@example.org").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Vapid::open(&file, "").unwrap().key(), vapid.key(), "it is made once");
        let now_s = 1_700_000_000;
        let first = vapid.authorization("https://push.example", now_s).unwrap();
        let (token, key) = first.strip_prefix("vapid t=").unwrap().split_once(", k=").unwrap();
        assert_eq!(key, vapid.key());
        let (signed, signature) = token.rsplit_once('.').unwrap();
        let key = BASE64URL.decode(key).unwrap();
        assert_eq!((key.len(), key[0]), (65, 4));
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key);
        assert!(public.verify(signed.as_bytes(), &BASE64URL.decode(signature).unwrap()).is_ok());
        let claims = BASE64URL.decode(signed.split_once('.').unwrap().1).unwrap();
        let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
        let expected = serde_json::json!({
            "aud": "https://push.example", "exp": now_s + 43_200, "sub": "mailto:admin@example.org"
        });
        assert_eq!(claims, expected);
        let at = |origin, now_s| vapid.authorization(origin, now_s).unwrap();
        assert_eq!(at("https://push.example", now_s + 21_600), first);
        assert_ne!(at("https://push.example", now_s + 21_601), first);
        assert_ne!(at("https://other.example", now_s), first);
    }

    #[test]
    fn what_is_no_key_is_said_to_be_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        for bad in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
            fs::write(&file, bad).unwrap();
            assert_eq!(Vapid::open(&file, "").unwrap_err().kind(), io::ErrorKind::InvalidData);
            assert_eq!(fs::read_to_string(&file).unwrap(), bad, "nothing is written over it");
        }
    }
}

//! The client's side of SASL: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677) without channel binding.
//!
//! It must never know a stream: it turns names, passwords and challenges into texts in base64.
//!
//! A SCRAM login costs a PBKDF2 derivation of so many iterations as the server says, unless its outcome is in the cache:
//! one derivation a (password, salt, iterations), so one in all for accounts that share a salt
//! (`--write-accounts` makes such) and one a user else. 4,096 iterations of SHA-256 take about a millisecond of a core,
//! during which the worker does nothing else.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};

/// Derivations kept, about 350 bytes each.
const CACHE_MAX: usize = 1 << 16;

/// Most iterations done for a server that asks for them: some seconds of a core.
const ITERATIONS_MAX: u32 = 10_000_000;

/// How to log in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// RFC 4616.
    Plain,
    /// RFC 5802.
    ScramSha1,
    /// RFC 7677.
    ScramSha256,
    /// The same with SHA-512.
    ScramSha512,
}

impl Mechanism {
    /// The registered name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::ScramSha1 => "SCRAM-SHA-1",
            Mechanism::ScramSha256 => "SCRAM-SHA-256",
            Mechanism::ScramSha512 => "SCRAM-SHA-512",
        }
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Mechanism::ScramSha1 => pbkdf2::PBKDF2_HMAC_SHA1,
            Mechanism::ScramSha512 => pbkdf2::PBKDF2_HMAC_SHA512,
            _ => pbkdf2::PBKDF2_HMAC_SHA256,
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            Mechanism::ScramSha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Mechanism::ScramSha512 => hmac::HMAC_SHA512,
            _ => hmac::HMAC_SHA256,
        }
    }

    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Mechanism::ScramSha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Mechanism::ScramSha512 => &digest::SHA512,
            _ => &digest::SHA256,
        }
    }
}

/// What PLAIN says at once (RFC 4616 2).
pub(crate) fn plain(name: &str, password: &str) -> String {
    STANDARD.encode(format!("\0{name}\0{password}"))
}

/// What an account's proofs are made of (RFC 5802 3); as many bytes of each as the hash has are used.
#[derive(Clone, Copy)]
struct Keys {
    client: [u8; 64],
    stored: [u8; 64],
    server: [u8; 64],
}

fn mac(mechanism: Mechanism, key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(mechanism.hmac(), key), data).as_ref().to_vec()
}

/// The keys of a password, derived or from the cache.
fn derived(mechanism: Mechanism, password: &str, salt: &[u8], iterations: NonZeroU32) -> Keys {
    type Key = (u8, u32, Box<[u8]>, Box<str>);
    static CACHE: OnceLock<Mutex<HashMap<Key, Keys>>> = OnceLock::new();
    let cache = CACHE.get_or_init(Mutex::default);
    let key: Key = (mechanism as u8, iterations.get(), salt.into(), password.into());
    if let Some(found) = cache.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return *found;
    }
    let mut salted = [0; 64];
    let salted = &mut salted[..length(mechanism)];
    pbkdf2::derive(mechanism.pbkdf2(), iterations, salt, password.as_bytes(), salted);
    let padded = |bytes: &[u8]| {
        let mut out = [0; 64];
        out[..bytes.len()].copy_from_slice(bytes);
        out
    };
    let client = mac(mechanism, salted, b"Client Key");
    let stored = digest::digest(mechanism.digest(), &client);
    let server = mac(mechanism, salted, b"Server Key");
    let keys = Keys { client: padded(&client), stored: padded(stored.as_ref()), server: padded(&server) };
    let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    if cache.len() < CACHE_MAX {
        cache.insert(key, keys);
    }
    keys
}

fn length(mechanism: Mechanism) -> usize {
    mechanism.digest().output_len()
}

/// One exchange, from the first message to the server's proof.
#[derive(Debug)]
pub(crate) struct Scram {
    mechanism: Mechanism,
    /// `n=..,r=..`
    first_bare: String,
    nonce_at: usize,
    /// What the server has to prove, once its challenge is answered.
    expected: Option<String>,
}

impl Scram {
    /// An exchange with a fresh nonce.
    pub(crate) fn new(mechanism: Mechanism, name: &str) -> Scram {
        let mut nonce = [0; 18];
        SystemRandom::new().fill(&mut nonce).expect("the kernel has entropy");
        Scram::with_nonce(mechanism, name, &STANDARD.encode(nonce))
    }

    fn with_nonce(mechanism: Mechanism, name: &str, nonce: &str) -> Scram {
        let name = name.replace('=', "=3D").replace(',', "=2C");
        let first_bare = format!("n={name},r={nonce}");
        Scram { mechanism, nonce_at: first_bare.len() - nonce.len(), first_bare, expected: None }
    }

    /// Which mechanism it is.
    pub(crate) fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// `client-first-message` (RFC 5802 7).
    pub(crate) fn first(&self) -> String {
        STANDARD.encode(format!("n,,{}", self.first_bare))
    }

    /// `client-final-message` for the server's challenge; none if that is not one, or not to this exchange.
    pub(crate) fn answer(&mut self, password: &str, challenge: &str) -> Option<String> {
        let challenge = String::from_utf8(STANDARD.decode(challenge.trim()).ok()?).ok()?;
        let field = |key: &str| challenge.split(',').find_map(|part| part.strip_prefix(key));
        let nonce = field("r=").filter(|nonce| nonce.starts_with(&self.first_bare[self.nonce_at..]))?;
        let salt = STANDARD.decode(field("s=")?).ok()?;
        let iterations = NonZeroU32::new(field("i=")?.parse().ok()?).filter(|count| count.get() <= ITERATIONS_MAX)?;
        let keys = derived(self.mechanism, password, &salt, iterations);
        let bytes = length(self.mechanism);
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{challenge},{without_proof}", self.first_bare);
        let signature = mac(self.mechanism, &keys.stored[..bytes], signed.as_bytes());
        let proof: Vec<u8> = keys.client[..bytes].iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server = mac(self.mechanism, &keys.server[..bytes], signed.as_bytes());
        self.expected = Some(format!("v={}", STANDARD.encode(server)));
        Some(STANDARD.encode(format!("{without_proof},p={}", STANDARD.encode(proof))))
    }

    /// Whether the server has proved that it knows the account (RFC 5802 3, ServerSignature).
    pub(crate) fn verify(&self, success: &str) -> bool {
        let said = STANDARD.decode(success.trim()).ok().and_then(|said| String::from_utf8(said).ok());
        self.expected.is_some() && said.as_deref().and_then(|said| said.split(',').next()) == self.expected.as_deref()
    }
}

/// Keys of an account in the form that `throng user import` takes (RFC 5803), for all hashes, of one salt and count.
pub fn keys(password: &str, salt: &[u8], iterations: NonZeroU32) -> String {
    let part = |mechanism: Mechanism| {
        let keys = derived(mechanism, password, salt, iterations);
        let [stored, server] = [&keys.stored, &keys.server].map(|key| STANDARD.encode(&key[..length(mechanism)]));
        let salt = STANDARD.encode(salt);
        format!("{{{}${iterations}:{salt}${stored}:{server}}}", mechanism.name())
    };
    part(Mechanism::ScramSha512) + &part(Mechanism::ScramSha256) + &part(Mechanism::ScramSha1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(mechanism: Mechanism, nonce: &str, challenge: &str) -> (String, Scram) {
        let mut scram = Scram::with_nonce(mechanism, "user", nonce);
        let answer = scram.answer("pencil", &STANDARD.encode(challenge)).expect("an answer");
        (String::from_utf8(STANDARD.decode(answer).expect("base64")).expect("text"), scram)
    }

    #[test]
    fn the_example_of_rfc_5802_5() {
        let (answer, scram) = exchange(
            Mechanism::ScramSha1,
            "fyko+d2lbbFgONRv9qkxdawL",
            "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        );
        assert_eq!(answer, "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=");
        assert!(scram.verify(&STANDARD.encode("v=rmF9pqV8S7suAoZWja4dJRkFsKQ=")));
        assert!(!scram.verify(&STANDARD.encode("v=rmF9pqV8S7suAoZWja4dJRkFsKR=")));
    }

    #[test]
    fn the_example_of_rfc_7677_3() {
        let (answer, scram) = exchange(
            Mechanism::ScramSha256,
            "rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        );
        assert_eq!(
            answer,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert!(scram.verify(&STANDARD.encode("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")));
    }

    #[test]
    fn the_example_of_draft_melnikov_scram_sha_512() {
        let (answer, scram) = exchange(
            Mechanism::ScramSha512,
            "rOprNGfwEbeRWgbNEkqO",
            "r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,\
             s=Yin2FuHTt/M0kJWb0t9OI32n2VmOGi3m+JfjOvuDF88=,i=4096",
        );
        assert_eq!(
            answer,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO02431b08-2f89-4bad-a4e6-80c0564ec865,\
             p=Hc5yec3NmCD7t+kFRw4/3yD6/F3SQHc7AVYschRja+Bc3sbdjlA0eH1OjJc0DD4ghn1tnXN5/Wr6qm9xmaHt4A=="
        );
        let proof = "v=BQuhnKHqYDwQWS5jAw4sZed+C9KFUALsbrq81bB0mh+bcUUbbMPNNmBIupnS2AmyyDnG5CTBQtkjJ9kyY4kzmw==";
        assert!(scram.verify(&STANDARD.encode(proof)));
    }

    #[test]
    fn a_challenge_to_another_exchange_is_not_answered() {
        let mut scram = Scram::with_nonce(Mechanism::ScramSha1, "user", "mine");
        assert_eq!(scram.answer("pencil", &STANDARD.encode("r=other,s=QSXCR+Q6sek8bf92,i=4096")), None);
        assert_eq!(scram.answer("pencil", &STANDARD.encode("r=mine1,s=QSXCR+Q6sek8bf92,i=0")), None);
        assert!(!scram.verify(&STANDARD.encode("v=")), "nothing is proved before it was asked for");
    }

    #[test]
    fn plain_has_no_authorization_identity() {
        // RFC 4616 4, first example.
        assert_eq!(STANDARD.decode(plain("tim", "tanstaaftanstaaf")).expect("base64"), b"\0tim\0tanstaaftanstaaf");
    }
}

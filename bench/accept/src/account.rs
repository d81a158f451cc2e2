//! Accounts in great number: all have one password, one salt and so the same keys, which are derived once on both sides.
//!
//! This room knows SCRAM's arithmetic (RFC 5802 3) and the import's form, and nothing of connections.

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// The password of every account.
pub(crate) const PASSWORD: &str = "correct horse battery staple";
const SALT: &[u8; 16] = b"acceptance-salt!";
const ITERATIONS: u32 = 4_096;

fn salted(algorithm: pbkdf2::Algorithm, out: &mut [u8]) {
    let iterations = NonZeroU32::new(ITERATIONS).expect("not zero");
    pbkdf2::derive(algorithm, iterations, SALT, PASSWORD.as_bytes(), out);
}

fn mac(algorithm: hmac::Algorithm, key: &[u8], data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(algorithm, key), data).as_ref().to_vec()
}

/// The salted password for SCRAM-SHA-256.
fn salted_sha256() -> &'static [u8; 32] {
    static SALTED: OnceLock<[u8; 32]> = OnceLock::new();
    SALTED.get_or_init(|| {
        let mut out = [0; 32];
        salted(pbkdf2::PBKDF2_HMAC_SHA256, &mut out);
        out
    })
}

/// The keys of all accounts as the import takes them (RFC 5803's form).
fn keys() -> String {
    let mut sha1 = [0; 20];
    salted(pbkdf2::PBKDF2_HMAC_SHA1, &mut sha1);
    let part = |name: &str, mechanism, hash, salted: &[u8]| {
        let stored = digest::digest(hash, &mac(mechanism, salted, b"Client Key"));
        let server = mac(mechanism, salted, b"Server Key");
        let [salt, stored, server] = [&SALT[..], stored.as_ref(), &server].map(|bytes| STANDARD.encode(bytes));
        format!("{{{name}${ITERATIONS}:{salt}${stored}:{server}}}")
    };
    part("SCRAM-SHA-256", hmac::HMAC_SHA256, &digest::SHA256, salted_sha256())
        + &part("SCRAM-SHA-1", hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &digest::SHA1_FOR_LEGACY_USE_ONLY, &sha1)
}

/// Writes an import file.
pub(crate) fn write_csv(path: &Path, names: impl Iterator<Item = String>) -> io::Result<()> {
    let keys = keys();
    let mut out = io::BufWriter::new(std::fs::File::create(path)?);
    for name in names {
        writeln!(out, "{name},{keys}")?;
    }
    out.flush()
}

/// The client's first message, base64, for SCRAM-SHA-256 without channel binding (RFC 5802 5).
pub(crate) fn first_message(name: &str, nonce: &str) -> String {
    STANDARD.encode(format!("n,,n={name},r={nonce}"))
}

/// The client's answer to the server's challenge, both base64. `None` if the challenge is none.
pub(crate) fn final_message(name: &str, nonce: &str, challenge: &str) -> Option<String> {
    let challenge = String::from_utf8(STANDARD.decode(challenge.trim()).ok()?).ok()?;
    let field = |key: &str| challenge.split(',').find_map(|part| part.strip_prefix(key));
    let combined = field("r=").filter(|combined| combined.starts_with(nonce))?;
    // Other salts would need a derivation a login: then the accounts are not these.
    let ours = STANDARD.decode(field("s=")?).ok()? == SALT && field("i=")?.parse() == Ok(ITERATIONS);
    let without_proof = format!("c=biws,r={combined}");
    let message = format!("n={name},r={nonce},{challenge},{without_proof}");
    let client_key = mac(hmac::HMAC_SHA256, salted_sha256(), b"Client Key");
    let stored = digest::digest(&digest::SHA256, &client_key);
    let signature = mac(hmac::HMAC_SHA256, stored.as_ref(), message.as_bytes());
    let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
    ours.then(|| STANDARD.encode(format!("{without_proof},p={}", STANDARD.encode(proof))))
}

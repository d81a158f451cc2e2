//! What is around the content of every object of a backup: a checksum, or encryption.
//!
//! ```text
//! plain   "THRONGOB", 1, 0, XXH3-128 of the name, NUL and the content, content
//! sealed  "THRONGOB", 1, 1, salt of 32 bytes, AES-256-GCM of the content
//! ```
//!
//! Both bind the content to the object's name, so an object that was moved or swapped is refused.
//! Each sealed object has a key of its own, derived from the operator's key and the salt by
//! HKDF-SHA256 (RFC 5869), so a nonce is never used twice. With a key, plain objects are refused.

use std::path::Path;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use xxhash_rust::xxh3::Xxh3;

use crate::entropy::Entropy;

const MAGIC: &[u8; 9] = b"THRONGOB\x01";
const PLAIN: u8 = 0;
const SEALED: u8 = 1;
/// Bytes before the checksum or the salt.
const HEAD_BYTES: usize = MAGIC.len() + 1;
const CHECKSUM_BYTES: usize = 16;
const SALT_BYTES: usize = 32;
const INFO: &[u8] = b"throng backup object";
/// Bytes of the operator's key.
const KEY_BYTES: usize = 32;

/// The operator's key, if there is one.
#[derive(Clone, Default)]
pub struct Seal(Option<[u8; KEY_BYTES]>);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "sealed" } else { "plain" })
    }
}

impl Seal {
    /// The key in a file: 64 hexadecimal digits.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(file: &Path) -> Result<Seal, String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Seal::parse(text.trim()).ok_or_else(|| {
            format!(
                "{} is no key: it must hold 64 hexadecimal digits, as `openssl rand -hex 32` writes",
                file.display()
            )
        })
    }

    fn parse(text: &str) -> Option<Seal> {
        let mut key = [0; KEY_BYTES];
        if text.len() != 2 * KEY_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in key.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Seal(Some(key)))
    }

    /// Whether objects are encrypted.
    pub fn encrypts(&self) -> bool {
        self.0.is_some()
    }

    /// An object with this name and content.
    ///
    /// # Errors
    /// The system has no entropy.
    pub(super) fn close(&self, name: &str, content: &[u8]) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(HEAD_BYTES + SALT_BYTES + content.len() + AES_256_GCM.tag_len());
        out.extend_from_slice(MAGIC);
        let Some(key) = &self.0 else {
            out.push(PLAIN);
            out.extend_from_slice(&checksum(name, content).to_le_bytes());
            out.extend_from_slice(content);
            return Ok(out);
        };
        out.push(SEALED);
        let salt: [u8; SALT_BYTES] =
            Entropy::open().and_then(|mut entropy| entropy.fresh()).map_err(|error| error.to_string())?;
        out.extend_from_slice(&salt);
        let start = out.len();
        out.extend_from_slice(content);
        let tag = own_key(key, &salt).seal_in_place_separate_tag(nonce(), Aad::from(name), &mut out[start..]);
        out.extend_from_slice(tag.map_err(|_| "encryption failed".to_owned())?.as_ref());
        Ok(out)
    }

    /// The content of an object.
    ///
    /// # Errors
    /// Why it is not an object of this name and key.
    pub(super) fn open(&self, name: &str, mut object: Vec<u8>) -> Result<Vec<u8>, String> {
        let wrong = |what: &str| Err(format!("{name} {what}"));
        if !object.starts_with(MAGIC) || object.len() <= HEAD_BYTES {
            return wrong("is no object of a backup, or of one by a later version");
        }
        match (&self.0, object[MAGIC.len()]) {
            (Some(_), PLAIN) => wrong("is not encrypted, although a key is given"),
            (None, SEALED) => wrong("is encrypted: give the key with --backup-key"),
            (None, PLAIN) => match object.split_at_checked(HEAD_BYTES + CHECKSUM_BYTES) {
                Some((head, content)) if head[HEAD_BYTES..] == checksum(name, content).to_le_bytes() => {
                    object.drain(..HEAD_BYTES + CHECKSUM_BYTES);
                    Ok(object)
                }
                _ => wrong("is damaged, or was moved from another place"),
            },
            (Some(key), SEALED) if object.len() >= HEAD_BYTES + SALT_BYTES => {
                let mut content = object.split_off(HEAD_BYTES + SALT_BYTES);
                let opened = own_key(key, &object[HEAD_BYTES..]).open_in_place(nonce(), Aad::from(name), &mut content);
                match opened.map(|content| content.len()) {
                    Ok(bytes) => {
                        content.truncate(bytes);
                        Ok(content)
                    }
                    Err(_) => wrong("is damaged, was moved from another place, or has another key"),
                }
            }
            _ => wrong("is damaged"),
        }
    }
}

fn checksum(name: &str, content: &[u8]) -> u128 {
    let mut hash = Xxh3::new();
    for part in [name.as_bytes(), &[0], content] {
        hash.update(part);
    }
    hash.digest128()
}

/// The key of one object.
fn own_key(key: &[u8; KEY_BYTES], salt: &[u8]) -> LessSafeKey {
    let derived = Salt::new(HKDF_SHA256, salt).extract(key);
    let derived = derived.expand(&[INFO], &AES_256_GCM).expect("the length is the algorithm's");
    LessSafeKey::new(UnboundKey::from(derived))
}

/// Always the same: no key is used twice.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(digit: char) -> Seal {
        Seal::parse(&digit.to_string().repeat(64)).expect("a key")
    }

    #[test]
    fn an_object_opens_under_its_own_name_and_key_only() {
        for seal in [Seal::default(), key('a')] {
            let object = seal.close("g/journal/1", b"three rows").expect("closed");
            assert_eq!(object.windows(5).any(|part| part == b"three"), !seal.encrypts());
            assert_eq!(seal.open("g/journal/1", object.clone()), Ok(b"three rows".to_vec()));
            assert!(seal.open("g/journal/2", object.clone()).unwrap_err().contains("moved from another place"));
            for at in 0..object.len() {
                let mut damaged = object.clone();
                damaged[at] ^= 1;
                assert!(seal.open("g/journal/1", damaged).is_err(), "byte {at}");
                assert!(seal.open("g/journal/1", object[..at].to_vec()).is_err(), "cut at {at}");
            }
        }
        let (plain, sealed) = (Seal::default().close("a", b"x").unwrap(), key('a').close("a", b"x").unwrap());
        assert!(key('a').open("a", plain).unwrap_err().contains("not encrypted, although a key is given"));
        assert!(Seal::default().open("a", sealed.clone()).unwrap_err().contains("--backup-key"));
        assert!(key('b').open("a", sealed.clone()).unwrap_err().contains("another key"));
        assert_ne!(sealed, key('a').close("a", b"x").unwrap(), "each has a salt of its own");
    }

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        assert!(Seal::parse(&"aF".repeat(32)).is_some());
        for wrong in ["", "abc", &"g".repeat(64), &"a".repeat(63), &"\u{e4}".repeat(32)] {
            assert!(Seal::parse(wrong).is_none(), "{wrong}");
        }
    }
}

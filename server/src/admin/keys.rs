//! SCRAM keys as text: what is stored instead of a password, in the form of RFC 5803.
//!
//! `{SCRAM-SHA-256$4096:salt$stored:server}{SCRAM-SHA-1$4096:salt$stored:server}` with base64 parts. This module knows
//! the form only; deriving keys from a password is the engine's.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use throng_engine::limits::{SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_SALT_BYTES_MAX};
use throng_engine::store::account::Credentials;
use throng_engine::store::hash::HashKind;

use crate::log::Secret;

/// The keys of an account: of SCRAM-SHA-256 and SCRAM-SHA-1, with one salt and one count. Prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys(Credentials);

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramKeys(***)")
    }
}

impl ScramKeys {
    /// Derives the keys of a password; takes a millisecond per 4,096 iterations or so.
    ///
    /// # Errors
    /// Why the password cannot be used, without repeating it.
    pub fn derive(password: &Secret, iterations: u32, salt: &[u8; 16]) -> Result<ScramKeys, String> {
        let derived = Credentials::derive(password.reveal(), iterations, salt, 0);
        derived.map(ScramKeys).map_err(|error| error.to_string())
    }

    /// Keys that the engine has derived.
    pub fn of(credentials: &Credentials) -> ScramKeys {
        ScramKeys(credentials.clone())
    }

    /// The engine's form, stamped with its making in microseconds since the Unix epoch. Which account of its name they are of
    /// is for whoever stores them to say.
    pub fn credentials(&self, created_us: u64) -> Credentials {
        self.0.clone().made_at(created_us)
    }

    /// Whether a CSV field is keys and not a password.
    pub fn looks_like(text: &str) -> bool {
        text.starts_with("{SCRAM-SHA-")
    }

    /// Reads the text form. Both mechanisms must be there, with the same salt and count.
    ///
    /// # Errors
    /// What is wrong, without repeating the text.
    pub fn parse(text: &str) -> Result<ScramKeys, &'static str> {
        let (mut sha256, mut sha1) = (None, None);
        let mut rest = text.trim();
        while !rest.is_empty() {
            let inner = rest.strip_prefix('{').ok_or("keys must be {SCRAM-..$..}")?;
            let (inner, after) = inner.split_once('}').ok_or("a } is missing in the keys")?;
            let (name, value) = inner.split_once('$').ok_or("a $ is missing in the keys")?;
            let (slot, bytes) = match name {
                "SCRAM-SHA-256" => (&mut sha256, 32),
                "SCRAM-SHA-1" => (&mut sha1, 20),
                _ => return Err("only SCRAM-SHA-256 and SCRAM-SHA-1 keys are known"),
            };
            if slot.replace(Key::read(value, bytes)?).is_some() {
                return Err("a mechanism stands twice in the keys");
            }
            rest = after.trim_start();
        }
        let (Some(sha256), Some(sha1)) = (sha256, sha1) else {
            return Err("keys of both SCRAM-SHA-256 and SCRAM-SHA-1 are needed");
        };
        if (sha256.iterations, &sha256.salt) != (sha1.iterations, &sha1.salt) {
            return Err("both mechanisms need the same salt and iterations");
        }
        let mut record = Vec::new();
        encode_record(&[sha256, sha1], &mut record);
        Credentials::decode(&record).map(ScramKeys).map_err(|_| "the keys cannot be stored")
    }

    /// The text form, which [`ScramKeys::parse`] takes back. It is as secret as a password's hash.
    pub fn reveal(&self) -> String {
        let [sha256, sha1] = self.parts();
        sha256.write("SCRAM-SHA-256") + &sha1.write("SCRAM-SHA-1")
    }

    fn parts(&self) -> [Key; 2] {
        [HashKind::Sha256, HashKind::Sha1].map(|kind| {
            let keys = self.0.keys(kind);
            Key {
                iterations: self.0.iterations(),
                salt: self.0.salt().to_vec(),
                stored: keys.stored.as_bytes().to_vec(),
                server: keys.server.as_bytes().to_vec(),
            }
        })
    }
}

/// The engine's record of keys, in its first version: SHA-1 stands before SHA-256 there.
fn encode_record([sha256, sha1]: &[Key; 2], out: &mut Vec<u8>) {
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&sha256.iterations.to_be_bytes());
    out.extend_from_slice(&[0; 8]);
    out.push(u8::try_from(sha256.salt.len()).expect("at most 64 bytes"));
    for bytes in [&sha256.salt, &sha1.stored, &sha1.server, &sha256.stored, &sha256.server] {
        out.extend_from_slice(bytes);
    }
}

impl Serialize for ScramKeys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.reveal())
    }
}

impl<'de> Deserialize<'de> for ScramKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ScramKeys, D::Error> {
        let text = String::deserialize(deserializer)?;
        ScramKeys::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Keys of one mechanism (RFC 5802 3, RFC 7677 3).
struct Key {
    iterations: u32,
    salt: Vec<u8>,
    stored: Vec<u8>,
    server: Vec<u8>,
}

impl Key {
    /// Reads what follows the mechanism's name; its keys have `bytes` bytes.
    fn read(value: &str, bytes: usize) -> Result<Key, &'static str> {
        let (head, tail) = value.split_once('$').ok_or("a $ is missing in the keys")?;
        let (iterations, salt) = head.split_once(':').ok_or("a : is missing in the keys")?;
        let (stored, server) = tail.split_once(':').ok_or("a : is missing in the keys")?;
        let decode = |text: &str| STANDARD.decode(text).ok();
        let iterations = iterations.parse().ok();
        let iterations = iterations.filter(|count| (SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(count));
        let salt = decode(salt).filter(|salt| (1..=SCRAM_SALT_BYTES_MAX).contains(&salt.len()));
        let exact = |text: &str| decode(text).filter(|key| key.len() == bytes);
        Ok(Key {
            iterations: iterations.ok_or("the iterations of the keys are not 4096 to 1000000")?,
            salt: salt.ok_or("the salt of the keys is not base64 of 1 to 64 bytes")?,
            stored: exact(stored).ok_or("the stored key is not base64 of the mechanism's length")?,
            server: exact(server).ok_or("the server key is not base64 of the mechanism's length")?,
        })
    }

    fn write(&self, name: &str) -> String {
        let [salt, stored, server] = [&self.salt, &self.stored, &self.server].map(|bytes| STANDARD.encode(bytes));
        format!("{{{name}${}:{salt}${stored}:{server}}}", self.iterations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The salt and password of the example of RFC 7677 3, whose keys are the ones in the test's text.
    fn pencil() -> ScramKeys {
        let salt: [u8; 16] = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64").try_into().expect("16 bytes");
        ScramKeys::derive(&Secret::new("pencil"), 4096, &salt).expect("a good password")
    }

    #[test]
    fn derived_keys_are_those_of_rfc_7677_and_their_text_is_read_back() {
        let text = pencil().reveal();
        let sha256 = "{SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                      wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=}";
        assert!(text.starts_with(sha256), "{text}");
        assert_eq!(ScramKeys::parse(&text), Ok(pencil()));
        assert!(!format!("{:?}", pencil()).contains("WG5d"));
        let json = serde_json::to_string(&pencil()).expect("JSON");
        assert_eq!(serde_json::from_str::<ScramKeys>(&json).expect("keys"), pencil());
    }

    #[test]
    fn the_keys_are_the_engines_own_with_the_stamp() {
        let salt = *pencil().0.salt().first_chunk::<16>().expect("16 bytes");
        let engine = Credentials::derive("pencil", 4096, &salt, 77).expect("good");
        assert_eq!(pencil().credentials(77), engine);
        assert_eq!(ScramKeys::parse(&pencil().reveal()).map(|keys| keys.credentials(77)), Ok(engine));
    }

    #[test]
    fn broken_keys_are_refused_without_being_repeated() {
        let text = pencil().reveal();
        let changes = [
            ("256$", "512$"),
            ("4096", "4095"),
            ("4096", "4097"),
            ("4096", "x"),
            ("W22Z", "W2"),
            ("WG5d", ""),
            ("}", ""),
        ];
        for (from, to) in changes {
            let reason = ScramKeys::parse(&text.replacen(from, to, 1)).expect_err(from);
            assert!(!reason.contains("WG5d"));
        }
        let one = text.split_inclusive('}').next().expect("two");
        for text in ["", one, &format!("{text}{one}"), &format!("{text}x")] {
            assert!(ScramKeys::parse(text).is_err());
        }
    }
}

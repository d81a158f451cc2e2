//! SCRAM keys as text: what is stored instead of a password, in the form of RFC 5803.
//!
//! `{SCRAM-SHA-256$4096:salt$stored:server}{SCRAM-SHA-1$4096:salt$stored:server}` with base64
//! parts, and likewise for SCRAM-SHA-512; at least one of the three. This module handles the form
//! only; the engine derives keys from passwords.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use throng_engine::limits::{SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_SALT_BYTES_MAX};
use throng_engine::store::account::{Credentials, KeySet};
use throng_engine::store::hash::{HashKind, Hashes, Tag};

use crate::log::Secret;

/// The keys of an account, for one mechanism or more, all derived from one password. Prints as
/// `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys(Credentials);

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramKeys(***)")
    }
}

impl ScramKeys {
    /// Derives the keys from a password; takes about a millisecond per 4,096 iterations.
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

    /// The engine's form, with the creation time in microseconds since the Unix epoch. The caller
    /// that stores the keys states which account of that name they belong to.
    pub fn credentials(&self, created_us: u64) -> Credentials {
        self.0.clone().made_at(created_us)
    }

    /// Whether a CSV field holds keys rather than a password.
    pub fn looks_like(text: &str) -> bool {
        text.starts_with("{SCRAM-SHA-")
    }

    /// The hash functions for which there are keys.
    pub fn hashes(&self) -> Hashes {
        self.0.hashes()
    }

    /// Reads the text form: keys of at least one mechanism, each with its own salt and count.
    ///
    /// # Errors
    /// What is wrong, without repeating the text.
    pub fn parse(text: &str) -> Result<ScramKeys, &'static str> {
        let mut sets: Vec<KeySet> = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let inner = rest.strip_prefix('{').ok_or("keys must be {SCRAM-..$..}")?;
            let (inner, after) = inner.split_once('}').ok_or("the keys lack a }")?;
            let (name, value) = inner.split_once('$').ok_or("the keys lack a $")?;
            let known = HashKind::ALL.into_iter().find(|kind| mechanism(*kind) == name);
            let kind = known.ok_or("only keys for SCRAM-SHA-512, SCRAM-SHA-256 and SCRAM-SHA-1 are supported")?;
            if sets.iter().any(|set| set.kind() == kind) {
                return Err("the keys name a mechanism twice");
            }
            sets.push(read(kind, value)?);
            rest = after.trim_start();
        }
        Credentials::of_keys(sets, 0).map(ScramKeys).ok_or("keys for at least one mechanism are required")
    }

    /// The text form, which [`ScramKeys::parse`] reads. It is as secret as a password hash.
    pub fn reveal(&self) -> String {
        let newest_first = HashKind::ALL.into_iter().rev();
        newest_first.filter_map(|kind| self.0.keys(kind)).map(write).collect()
    }
}

fn mechanism(kind: HashKind) -> &'static str {
    match kind {
        HashKind::Sha1 => "SCRAM-SHA-1",
        HashKind::Sha256 => "SCRAM-SHA-256",
        HashKind::Sha512 => "SCRAM-SHA-512",
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

/// Reads the part after the name of a mechanism (RFC 5802 3, RFC 7677 3).
fn read(kind: HashKind, value: &str) -> Result<KeySet, &'static str> {
    let (head, tail) = value.split_once('$').ok_or("the keys lack a $")?;
    let (iterations, salt) = head.split_once(':').ok_or("the keys lack a :")?;
    let (stored, server) = tail.split_once(':').ok_or("the keys lack a :")?;
    let decode = |text: &str| STANDARD.decode(text).ok();
    let iterations = iterations.parse().ok();
    let iterations = iterations.filter(|count| (SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(count));
    let salt = decode(salt).filter(|salt| (1..=SCRAM_SALT_BYTES_MAX).contains(&salt.len()));
    let exact = |text: &str| Tag::from_bytes(kind, &decode(text)?);
    let iterations = iterations.ok_or("the iterations of the keys must be 4096 to 1000000")?;
    let salt = salt.ok_or("the salt of the keys must be base64 of 1 to 64 bytes")?;
    let keys = throng_engine::store::account::ScramKeys {
        stored: exact(stored).ok_or("the stored key is not base64 of the mechanism's length")?,
        server: exact(server).ok_or("the server key is not base64 of the mechanism's length")?,
    };
    KeySet::new(kind, iterations, &salt, keys).ok_or("the keys cannot be stored")
}

fn write(set: &KeySet) -> String {
    let keys = set.keys();
    let parts = [set.salt(), keys.stored.as_bytes(), keys.server.as_bytes()];
    let [salt, stored, server] = parts.map(|bytes| STANDARD.encode(bytes));
    format!("{{{}${}:{salt}${stored}:{server}}}", mechanism(set.kind()), set.iterations())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The salt and password of the example in RFC 7677 3; the keys in the test's text derive from
    /// them.
    fn pencil() -> ScramKeys {
        let salt: [u8; 16] = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64").try_into().expect("16 bytes");
        ScramKeys::derive(&Secret::new("pencil"), 4096, &salt).expect("a good password")
    }

    #[test]
    fn derived_keys_are_those_of_rfc_7677_and_their_text_is_read_back() {
        let text = pencil().reveal();
        let sha256 = "{SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                      wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=}";
        assert!(text.starts_with("{SCRAM-SHA-512$4096:") && text.contains(sha256), "{text}");
        assert_eq!(ScramKeys::parse(&text), Ok(pencil()));
        assert!(!format!("{:?}", pencil()).contains("WG5d"));
        let json = serde_json::to_string(&pencil()).expect("JSON");
        assert_eq!(serde_json::from_str::<ScramKeys>(&json).expect("keys"), pencil());
    }

    #[test]
    fn the_keys_are_the_engines_own_with_the_stamp() {
        let salt = *pencil().0.anchor().salt().first_chunk::<16>().expect("16 bytes");
        let engine = Credentials::derive("pencil", 4096, &salt, 77).expect("good");
        assert_eq!(pencil().credentials(77), engine);
        assert_eq!(ScramKeys::parse(&pencil().reveal()).map(|keys| keys.credentials(77)), Ok(engine));
    }

    #[test]
    fn broken_keys_are_refused_without_being_repeated() {
        let text = pencil().reveal();
        let changes = [
            ("512$", "384$"),
            ("256$", "512$"),
            ("4096", "4095"),
            ("4096", "x"),
            ("W22Z", "W2"),
            ("}{SCRAM-SHA-256", ""),
            ("}", ""),
        ];
        for (from, to) in changes {
            let reason = ScramKeys::parse(&text.replacen(from, to, 1)).expect_err(from);
            assert!(!reason.contains("WG5d"));
        }
        let sets: Vec<&str> = text.split_inclusive('}').collect();
        for text in ["", &format!("{text}{}", sets[0]), &format!("{text}x")] {
            assert!(ScramKeys::parse(text).is_err());
        }
        // An account may have only one of them: keys from other servers do.
        for one in sets {
            let keys = ScramKeys::parse(one).expect("keys");
            assert_eq!((keys.hashes().iter().count(), keys.reveal().as_str()), (1, one));
        }
    }
}

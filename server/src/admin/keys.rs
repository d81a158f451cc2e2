//! SCRAM keys as text: what is stored instead of a password, in the form of RFC 5803.
//!
//! `{SCRAM-SHA-256$4096:salt$stored:server}{SCRAM-SHA-1$4096:salt$stored:server}` with base64 parts. The room knows the
//! form only; deriving keys from a password is the engine's.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Longest salt, in bytes.
pub const SALT_BYTES_MAX: usize = 64;

/// Keys of one mechanism (RFC 5802 3, RFC 7677 3).
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKey<const BYTES: usize> {
    /// PBKDF2 iterations.
    pub iterations: u32,
    /// Salt, 1 to [`SALT_BYTES_MAX`] bytes.
    pub salt: Vec<u8>,
    /// `H(ClientKey)`.
    pub stored: [u8; BYTES],
    /// `HMAC(SaltedPassword, "Server Key")`.
    pub server: [u8; BYTES],
}

/// The keys of an account, one set a mechanism; at least one is there. Prints as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys {
    /// SCRAM-SHA-256.
    pub sha256: Option<ScramKey<32>>,
    /// SCRAM-SHA-1.
    pub sha1: Option<ScramKey<20>>,
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramKeys(***)")
    }
}

impl ScramKeys {
    /// Whether a CSV field is keys and not a password.
    pub fn looks_like(text: &str) -> bool {
        text.starts_with("{SCRAM-SHA-")
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// What is wrong, without repeating the text.
    pub fn parse(text: &str) -> Result<ScramKeys, &'static str> {
        let mut keys = ScramKeys { sha256: None, sha1: None };
        let mut rest = text.trim();
        while !rest.is_empty() {
            let inner = rest.strip_prefix('{').ok_or("keys must be {SCRAM-..$..}")?;
            let (inner, after) = inner.split_once('}').ok_or("a } is missing in the keys")?;
            let (name, value) = inner.split_once('$').ok_or("a $ is missing in the keys")?;
            match name {
                "SCRAM-SHA-256" if keys.sha256.is_none() => keys.sha256 = Some(read_key(value)?),
                "SCRAM-SHA-1" if keys.sha1.is_none() => keys.sha1 = Some(read_key(value)?),
                "SCRAM-SHA-256" | "SCRAM-SHA-1" => return Err("a mechanism stands twice in the keys"),
                _ => return Err("only SCRAM-SHA-256 and SCRAM-SHA-1 keys are known"),
            }
            rest = after.trim_start();
        }
        if keys.sha256.is_none() && keys.sha1.is_none() {
            return Err("there are no keys");
        }
        Ok(keys)
    }

    /// The text form, which [`ScramKeys::parse`] takes back. It is as secret as a password's hash.
    pub fn reveal(&self) -> String {
        let sha256 = self.sha256.as_ref().map(|key| write_key("SCRAM-SHA-256", key)).unwrap_or_default();
        let sha1 = self.sha1.as_ref().map(|key| write_key("SCRAM-SHA-1", key)).unwrap_or_default();
        sha256 + &sha1
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

fn read_key<const BYTES: usize>(value: &str) -> Result<ScramKey<BYTES>, &'static str> {
    let (head, tail) = value.split_once('$').ok_or("a $ is missing in the keys")?;
    let (iterations, salt) = head.split_once(':').ok_or("a : is missing in the keys")?;
    let (stored, server) = tail.split_once(':').ok_or("a : is missing in the keys")?;
    let iterations = iterations.parse().ok().filter(|n| (1..=10_000_000).contains(n));
    let salt = decode(salt).filter(|salt| (1..=SALT_BYTES_MAX).contains(&salt.len()));
    let fixed = |text: &str| decode(text).and_then(|bytes| <[u8; BYTES]>::try_from(bytes).ok());
    Ok(ScramKey {
        iterations: iterations.ok_or("the iterations of the keys are not 1 to 10000000")?,
        salt: salt.ok_or("the salt of the keys is not base64 of 1 to 64 bytes")?,
        stored: fixed(stored).ok_or("the stored key is not base64 of the mechanism's length")?,
        server: fixed(server).ok_or("the server key is not base64 of the mechanism's length")?,
    })
}

fn write_key<const BYTES: usize>(name: &str, key: &ScramKey<BYTES>) -> String {
    let (salt, stored, server) = (encode(&key.salt), encode(&key.stored), encode(&key.server));
    format!("{{{name}${}:{salt}${stored}:{server}}}", key.iterations)
}

fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677 3: user "user", password "pencil".
    const RFC7677: &str = "{SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=}";

    #[test]
    fn keys_are_read_and_written_in_the_form_of_rfc_5803() {
        let keys = ScramKeys::parse(RFC7677).expect("good");
        let sha256 = keys.sha256.as_ref().expect("there");
        assert_eq!((sha256.iterations, sha256.salt.len(), keys.sha1.is_none()), (4096, 16, true));
        assert_eq!(keys.reveal(), RFC7677);
        assert!(!format!("{keys:?}").contains("WG5d"));
        let both = ScramKeys {
            sha1: Some(ScramKey { iterations: 5000, salt: vec![1, 2], stored: [3; 20], server: [4; 20] }),
            ..keys
        };
        assert_eq!(ScramKeys::parse(&both.reveal()), Ok(both.clone()));
        let json = serde_json::to_string(&both).expect("JSON");
        assert_eq!(serde_json::from_str::<ScramKeys>(&json).expect("keys"), both);
    }

    #[test]
    fn broken_keys_are_refused_without_being_repeated() {
        for (from, to) in [("256$", "512$"), ("4096", "0"), ("4096", "x"), ("W22Z", "W2"), ("WG5d", ""), ("}", ""), ("$WG", "WG")] {
            let text = RFC7677.replacen(from, to, 1);
            let reason = ScramKeys::parse(&text).expect_err(&text);
            assert!(!reason.contains("WG5d"));
        }
        assert!(ScramKeys::parse("").is_err());
        assert!(ScramKeys::parse(&format!("{RFC7677}{RFC7677}")).is_err());
        assert!(ScramKeys::parse(&format!("{RFC7677}x")).is_err());
    }
}

//! The credentials record: what an account keeps of a password, one row of [`Table::Accounts`](super::Table).
//!
//! Only the keys of SCRAM are kept (RFC 5802 9, "StoredKey" and "ServerKey"): who reads the store can neither log in nor
//! learn the password. This file knows nothing of connections or of who is asking.

use std::fmt;

use super::hash::{HashKind, SecretKey, Tag};
use super::password::{self, PasswordError};
use crate::limits::{SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_SALT_BYTES_MAX};

/// Version of the encoding that is written; the first byte of the record.
const VERSION: u8 = 2;

/// The version before accounts had an [`Incarnation`]: still read.
const VERSION_WITHOUT_INCARNATION: u8 = 1;

/// Flag bit: the account is out of use, logins fail with `<account-disabled/>`.
const DISABLED: u8 = 1;

/// All flag bits that are known.
const KNOWN_FLAGS: u8 = DISABLED;

/// Which of the accounts that have had a name one after the other: drawn when an account is made, kept when its password
/// changes. Who has authenticated against one account is nobody at the next of that name.
///
/// It is a number without order, not a time: clocks step back, and two accounts can be made in one microsecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incarnation(u64);

impl Incarnation {
    /// That of accounts whose record is older than incarnations: one account a name at the most, for each one made since
    /// has another.
    pub const UNNUMBERED: Incarnation = Incarnation(0);

    /// One that no account of the name has had, from fresh entropy: two are the same once in 2^64.
    pub fn drawn(entropy: u64) -> Incarnation {
        Incarnation(entropy.max(1))
    }

    /// The number, to make something of that is for this account alone.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The one with this number.
    pub fn from_bytes(bytes: [u8; 8]) -> Incarnation {
        Incarnation(u64::from_be_bytes(bytes))
    }

    /// That of a record, whether the rest of it can be read or not: who cannot log in is there all the same.
    pub fn of_record(record: &[u8]) -> Incarnation {
        let number = record.strip_prefix(&[VERSION]).and_then(|rest| rest.get(INCARNATION_AT..)?.first_chunk());
        number.map_or(Incarnation::UNNUMBERED, |number| Incarnation(u64::from_be_bytes(*number)))
    }
}

/// Bytes between a record's version and its incarnation: flags, iterations, time.
const INCARNATION_AT: usize = 1 + 4 + 8;

/// The keys of one hash function (RFC 5802 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScramKeys {
    /// `H(ClientKey)`: checks the client's proof.
    pub stored: Tag,
    /// Signs the server's answer.
    pub server: Tag,
}

impl ScramKeys {
    /// The keys of a salted password (RFC 5802 3).
    pub fn of(kind: HashKind, salted_password: &Tag) -> ScramKeys {
        let client = kind.hmac(salted_password.as_bytes(), &[b"Client Key"]);
        ScramKeys {
            stored: kind.digest(&[client.as_bytes()]),
            server: kind.hmac(salted_password.as_bytes(), &[b"Server Key"]),
        }
    }
}

/// What an account keeps of its password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    iterations: u32,
    salt: Box<[u8]>,
    sha1: ScramKeys,
    sha256: ScramKeys,
    created_us: u64,
    incarnation: Incarnation,
    disabled: bool,
}

/// Why keys could not be derived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeriveError {
    /// The password cannot be used.
    Password(PasswordError),
    /// Outside of 4,096 to 1,000,000 (RFC 7677 4).
    Iterations(u32),
    /// Outside of 8 to 64 bytes.
    SaltLength(usize),
}

/// Why a record could not be read. Never the peer's fault: the store, or a newer version of this server, wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// A version that this code does not know.
    UnknownVersion(u8),
    /// A flag that this code does not know, so it cannot tell what it would be ignoring.
    UnknownFlags(u8),
    /// Cut short, too long, or a field out of its bounds.
    Malformed,
}

impl fmt::Display for DeriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeriveError::Password(error) => error.fmt(f),
            DeriveError::Iterations(given) => {
                write!(f, "{given} iterations are not within {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS_MAX}")
            }
            DeriveError::SaltLength(given) => {
                write!(f, "a salt of {given} bytes is not within {SALT_BYTES_MIN} to {SCRAM_SALT_BYTES_MAX}")
            }
        }
    }
}

impl std::error::Error for DeriveError {}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::UnknownVersion(version) => {
                write!(f, "the account's record has version {version}, newer than {VERSION}, the last one known here")
            }
            DecodeError::UnknownFlags(flags) => write!(f, "the account's record has unknown flags {flags:#04x}"),
            DecodeError::Malformed => f.write_str("the account's record is damaged"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Shortest salt in bytes of a new account.
const SALT_BYTES_MIN: usize = 8;

impl Credentials {
    /// Derives the keys of both hash functions from a password. Pure and expensive, milliseconds by intent: run it as a
    /// job, never on a shard.
    ///
    /// # Errors
    /// If the password cannot be used ([`password::prepare`]), the iteration count is outside of 4,096 to 1,000,000, or
    /// the salt outside of 8 to 64 bytes.
    pub fn derive(password: &str, iterations: u32, salt: &[u8], created_us: u64) -> Result<Credentials, DeriveError> {
        if !(SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&iterations) {
            return Err(DeriveError::Iterations(iterations));
        }
        if !(SALT_BYTES_MIN..=SCRAM_SALT_BYTES_MAX).contains(&salt.len()) {
            return Err(DeriveError::SaltLength(salt.len()));
        }
        let password = password::prepare(password).map_err(DeriveError::Password)?;
        let keys = |kind: HashKind| ScramKeys::of(kind, &kind.salted_password(&password, salt, iterations));
        Ok(Credentials {
            iterations,
            salt: salt.into(),
            sha1: keys(HashKind::Sha1),
            sha256: keys(HashKind::Sha256),
            created_us,
            incarnation: Incarnation::UNNUMBERED,
            disabled: false,
        })
    }

    /// Makes up the credentials of an account that does not exist: the same ones each time for a name, and told apart
    /// from real ones by nobody without the secret. No password fits them (RFC 5802 has no answer to this; without it
    /// the salt tells which names exist).
    pub fn decoy(secret: &SecretKey, localpart: &str, iterations: u32) -> Credentials {
        let made_up = |what: &str| secret.tag(&[what.as_bytes(), localpart.as_bytes()]);
        let short = |what: &str| HashKind::Sha1.digest(&[made_up(what).as_bytes()]);
        Credentials {
            iterations,
            salt: made_up("salt").as_bytes()[..16].into(),
            sha1: ScramKeys { stored: short("stored 1"), server: short("server 1") },
            sha256: ScramKeys { stored: made_up("stored 256"), server: made_up("server 256") },
            created_us: 0,
            incarnation: Incarnation::UNNUMBERED,
            disabled: false,
        }
    }

    /// PBKDF2 iterations.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// The salt, 1 to 64 bytes.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// The keys of a hash function.
    pub fn keys(&self, kind: HashKind) -> &ScramKeys {
        match kind {
            HashKind::Sha1 => &self.sha1,
            HashKind::Sha256 => &self.sha256,
        }
    }

    /// When the account was created, microseconds since the Unix epoch.
    pub fn created_us(&self) -> u64 {
        self.created_us
    }

    /// The same keys, made at another time.
    #[must_use]
    pub fn made_at(self, created_us: u64) -> Credentials {
        Credentials { created_us, ..self }
    }

    /// Which account of its name they are of; [`Incarnation::UNNUMBERED`] until they are written for one.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Which account they are of, and a number that stands for their keys: another password has another one, nearly always.
    pub fn identity(&self) -> (Incarnation, u64) {
        let key = self.sha256.stored.as_bytes().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        (self.incarnation, key)
    }

    /// The same keys for this account.
    #[must_use]
    pub fn of(self, incarnation: Incarnation) -> Credentials {
        Credentials { incarnation, ..self }
    }

    /// Whether the account is out of use.
    pub fn is_disabled(&self) -> bool {
        self.disabled
    }

    /// Takes the account out of use, or back.
    pub fn set_disabled(&mut self, disabled: bool) {
        self.disabled = disabled;
    }

    /// Appends the record: version, flags, iterations (u32), created (u64), incarnation (u64; not in version 1), salt's
    /// length and salt, StoredKey and ServerKey for SHA-1, the same for SHA-256; numbers big endian. 143 bytes with a salt
    /// of 16.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.push(if self.disabled { DISABLED } else { 0 });
        out.extend_from_slice(&self.iterations.to_be_bytes());
        out.extend_from_slice(&self.created_us.to_be_bytes());
        out.extend_from_slice(&self.incarnation.0.to_be_bytes());
        out.push(self.salt.len() as u8);
        out.extend_from_slice(&self.salt);
        for keys in [&self.sha1, &self.sha256] {
            out.extend_from_slice(keys.stored.as_bytes());
            out.extend_from_slice(keys.server.as_bytes());
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    /// If it is damaged, or of a version or with a flag that this code does not know.
    pub fn decode(record: &[u8]) -> Result<Credentials, DecodeError> {
        let (&version, rest) = record.split_first().ok_or(DecodeError::Malformed)?;
        if !(VERSION_WITHOUT_INCARNATION..=VERSION).contains(&version) {
            return Err(DecodeError::UnknownVersion(version));
        }
        let mut reader = Reader(rest);
        let [flags] = reader.array()?;
        if flags & !KNOWN_FLAGS != 0 {
            return Err(DecodeError::UnknownFlags(flags));
        }
        let iterations = u32::from_be_bytes(reader.array()?);
        let created_us = u64::from_be_bytes(reader.array()?);
        let incarnation = match version {
            VERSION_WITHOUT_INCARNATION => Incarnation::UNNUMBERED,
            _ => Incarnation(u64::from_be_bytes(reader.array()?)),
        };
        let [salt_length] = reader.array()?;
        let salt: Box<[u8]> = reader.take(usize::from(salt_length))?.into();
        let sha1 = reader.keys(HashKind::Sha1)?;
        let sha256 = reader.keys(HashKind::Sha256)?;
        let in_bounds =
            (1..=SCRAM_ITERATIONS_MAX).contains(&iterations) && (1..=SCRAM_SALT_BYTES_MAX).contains(&salt.len());
        if !in_bounds || !reader.0.is_empty() {
            return Err(DecodeError::Malformed);
        }
        Ok(Credentials { iterations, salt, sha1, sha256, created_us, incarnation, disabled: flags & DISABLED != 0 })
    }
}

/// The rest of a record.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(DecodeError::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.take(N).map(|taken| taken.try_into().expect("as many as were taken"))
    }

    fn keys(&mut self, kind: HashKind) -> Result<ScramKeys, DecodeError> {
        let mut tag = || Tag::from_bytes(kind, self.take(kind.len())?).ok_or(DecodeError::Malformed);
        Ok(ScramKeys { stored: tag()?, server: tag()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Credentials {
        Credentials::derive("pencil", 4096, b"0123456789abcdef", 1_700_000_000_000_000).unwrap()
    }

    #[test]
    fn a_record_reads_back_as_written() {
        for disabled in [false, true] {
            let mut credentials = sample().of(Incarnation::drawn(7));
            credentials.set_disabled(disabled);
            let mut record = Vec::new();
            credentials.encode(&mut record);
            assert_eq!(record.len(), 143);
            assert_eq!(Incarnation::of_record(&record), Incarnation(7));
            assert_eq!(Credentials::decode(&record), Ok(credentials));
            for end in 0..record.len() {
                assert_eq!(Credentials::decode(&record[..end]), Err(DecodeError::Malformed), "cut at {end}");
            }
            record.push(0);
            assert_eq!(Credentials::decode(&record), Err(DecodeError::Malformed));
        }
    }

    /// The stored form is fixed: accounts written once must read for ever.
    #[test]
    fn old_versions_stay_as_they_are() {
        let mut record = vec![1, 0, 0, 0, 0x27, 0x10, 0, 0, 0, 0, 0, 0, 0, 9, 2, 0xaa, 0xbb];
        record.extend((1..=104).collect::<Vec<u8>>());
        let credentials = Credentials::decode(&record).unwrap();
        assert_eq!((credentials.iterations(), credentials.created_us()), (10_000, 9));
        assert_eq!(credentials.salt(), [0xaa, 0xbb]);
        assert_eq!(credentials.keys(HashKind::Sha1).server.as_bytes(), (21..=40).collect::<Vec<u8>>());
        assert_eq!(credentials.keys(HashKind::Sha256).stored.as_bytes(), (41..=72).collect::<Vec<u8>>());
        assert_eq!(credentials.incarnation(), Incarnation::UNNUMBERED);
        assert_eq!(Incarnation::of_record(&record), Incarnation::UNNUMBERED);
        let mut again = Vec::new();
        credentials.of(Incarnation(0x1122)).encode(&mut again);
        let incarnation = [0, 0, 0, 0, 0, 0, 0x11, 0x22];
        assert_eq!(again, [&[2], &record[1..14], &incarnation, &record[14..]].concat());
        assert_eq!(Credentials::decode(&again).unwrap().incarnation(), Incarnation(0x1122));
        record[1] = 0x82;
        assert_eq!(Credentials::decode(&record), Err(DecodeError::UnknownFlags(0x82)));
        record[0] = 3;
        assert_eq!(Credentials::decode(&record), Err(DecodeError::UnknownVersion(3)));
    }

    #[test]
    fn what_cannot_be_derived_from_is_refused() {
        let salt = [1; 16];
        assert_eq!(Credentials::derive("", 4096, &salt, 0), Err(DeriveError::Password(PasswordError::Empty)));
        assert_eq!(Credentials::derive("x", 4095, &salt, 0), Err(DeriveError::Iterations(4095)));
        assert_eq!(Credentials::derive("x", 1_000_001, &salt, 0), Err(DeriveError::Iterations(1_000_001)));
        assert_eq!(Credentials::derive("x", 4096, &[1; 7], 0), Err(DeriveError::SaltLength(7)));
        assert_eq!(Credentials::derive("x", 4096, &[1; 65], 0), Err(DeriveError::SaltLength(65)));
    }

    #[test]
    fn a_decoy_is_the_same_each_time_and_differs_by_name_and_secret() {
        let (a, b) = (SecretKey::new(&[1; 32]), SecretKey::new(&[2; 32]));
        assert_eq!(Credentials::decoy(&a, "romeo", 10_000), Credentials::decoy(&a, "romeo", 10_000));
        assert_ne!(Credentials::decoy(&a, "romeo", 10_000).salt(), Credentials::decoy(&a, "juliet", 10_000).salt());
        assert_ne!(Credentials::decoy(&a, "romeo", 10_000).salt(), Credentials::decoy(&b, "romeo", 10_000).salt());
        assert_eq!(Credentials::decoy(&a, "romeo", 10_000).salt().len(), 16);
    }

    #[test]
    fn no_secret_is_in_the_debug_form() {
        let (credentials, password) = (sample(), "pencil");
        let text = format!("{credentials:?}");
        assert!(text.contains("Tag(20 bytes)") && !text.contains(password), "{text}");
    }

    proptest! {
        #[test]
        fn no_record_panics(record in proptest::collection::vec(any::<u8>(), 0..200), valid in any::<bool>()) {
            let mut record = record;
            if valid && record.len() > 1 {
                (record[0], record[1]) = (2, 0);
            }
            let _ = Incarnation::of_record(&record);
            if let Ok(credentials) = Credentials::decode(&record) {
                let mut again = Vec::new();
                credentials.encode(&mut again);
                prop_assert_eq!(Credentials::decode(&again), Ok(credentials));
            }
        }
    }
}

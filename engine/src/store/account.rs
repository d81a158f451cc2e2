//! The credentials record: the password-derived keys of an account, one row of
//! [`Table::Accounts`](super::Table).
//!
//! Only the keys of SCRAM are stored (RFC 5802 9, "StoredKey" and "ServerKey"): a reader of the
//! store can neither log in nor learn the password. This file knows nothing about connections or
//! about the client that authenticates.

use std::fmt;

use super::hash::{HashKind, Hashes, SecretKey, Tag};
pub use super::keys::{DeriveError, KeySet, ScramKeys};
use super::{Batch, Table, keys};

/// Version of the encoding that is written; the first byte of the record.
const VERSION: u8 = 3;

/// The version with keys of SHA-1 and SHA-256 that share one salt and iteration count: still read.
const VERSION_OF_TWO: u8 = 2;

/// The version before accounts had an [`Incarnation`]: still read.
const VERSION_WITHOUT_INCARNATION: u8 = 1;

/// Sort key of the row in [`Table::Meta`] that lists the hash functions of which every account of
/// the store has keys, one bit each as in [`Hashes`]. Without the row this is unknown. Writing a
/// record that lacks some of these keys removes the row.
pub const COMPLETE_KEY: &[u8] = b"complete-keys";

/// Writes an account's record.
pub fn put(batch: &mut Batch, account: &str, credentials: &Credentials) {
    let mut record = Vec::with_capacity(320);
    credentials.encode(&mut record);
    batch.put(Table::Accounts, account.as_bytes(), &[], &[&record]);
    if !credentials.hashes().others().is_empty() {
        batch.delete(Table::Meta, b"", COMPLETE_KEY);
    }
}

/// Flag bit: the account waits for an administrator's approval.
const APPLIES: u8 = 1;

/// Flag bit: the operator has suspended the account.
const SUSPENDED: u8 = 2;

/// All known flag bits.
const KNOWN_FLAGS: u8 = APPLIES | SUSPENDED;

/// Offset of the flags in records of all versions.
const FLAGS_AT: usize = 1;

/// Whether an account may be used. A login to an account that is out of use fails with
/// `<account-disabled/>` (RFC 6120 6.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub enum Standing {
    /// The account may be used.
    #[default]
    InUse,
    /// The account waits for an administrator's approval.
    Applies,
    /// The operator has suspended the account.
    Suspended,
}

impl Standing {
    fn of_flags(flags: u8) -> Standing {
        match flags {
            flags if flags & SUSPENDED != 0 => Standing::Suspended,
            flags if flags & APPLIES != 0 => Standing::Applies,
            _ => Standing::InUse,
        }
    }

    fn flags(self) -> u8 {
        match self {
            Standing::InUse => 0,
            Standing::Applies => APPLIES,
            Standing::Suspended => SUSPENDED,
        }
    }

    /// Reads the standing from a record, whether or not the rest of it can be read.
    pub fn of_record(record: &[u8]) -> Standing {
        record.get(FLAGS_AT).map_or(Standing::InUse, |flags| Standing::of_flags(*flags))
    }

    /// Overwrites the standing in a record, if this one is more up to date than the record.
    pub fn correct(self, record: &mut [u8]) {
        if let Some(flags) = record.get_mut(FLAGS_AT) {
            *flags = self.flags();
        }
    }
}

/// Distinguishes the accounts that have had the same name one after another. It is drawn when an
/// account is created, and does not change with the password. A session authenticated against one
/// account has no rights to the next account of that name.
///
/// It is a number without order, not a time: clocks step back, and two accounts can be created
/// within one microsecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Incarnation(u64);

impl Incarnation {
    /// The value for accounts whose record predates incarnations: at most one account per name,
    /// because every account created since has another value.
    pub const UNNUMBERED: Incarnation = Incarnation(0);

    /// Makes an incarnation from fresh entropy. The probability that two are equal is 2^-64.
    pub fn drawn(entropy: u64) -> Incarnation {
        Incarnation(entropy.max(1))
    }

    /// The number as bytes, to derive values that belong to this account alone.
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }

    /// The incarnation with this number.
    pub fn from_bytes(bytes: [u8; 8]) -> Incarnation {
        Incarnation(u64::from_be_bytes(bytes))
    }

    /// Reads the incarnation from a record, whether or not the rest of it can be read: an account
    /// that cannot log in exists all the same.
    pub fn of_record(record: &[u8]) -> Incarnation {
        let (at, rest) = match record.split_first() {
            Some((&VERSION, rest)) => (INCARNATION_AT, rest),
            Some((&VERSION_OF_TWO, rest)) => (INCARNATION_AT_OF_TWO, rest),
            _ => return Incarnation::UNNUMBERED,
        };
        let number = rest.get(at..).and_then(|rest| rest.first_chunk());
        number.map_or(Incarnation::UNNUMBERED, |number| Incarnation(u64::from_be_bytes(*number)))
    }
}

/// Bytes between a record's version and its incarnation: flags, time.
const INCARNATION_AT: usize = 1 + 8;

/// The same in version 2: flags, iterations, time.
const INCARNATION_AT_OF_TWO: usize = 1 + 4 + 8;

/// The password-derived keys of an account, of at least one hash function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// Indexed by hash function. The entry of `anchor` is always present.
    sets: [Option<KeySet>; HashKind::ALL.len()],
    /// The hash function whose keys identify the password: everything that depends on the password
    /// depends on these keys. It does not change when keys of another hash function are added.
    anchor: HashKind,
    created_us: u64,
    incarnation: Incarnation,
    standing: Standing,
}

/// They are written as the account's record, which has versions of its own.
impl serde::Serialize for Credentials {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut record = Vec::new();
        self.encode(&mut record);
        to.serialize_bytes(&record)
    }
}

impl<'de> serde::Deserialize<'de> for Credentials {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Credentials, D::Error> {
        Credentials::decode(<&[u8]>::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// Why a record could not be read. Never the peer's fault: the store, or a newer version of this
/// server, wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// This code does not know the version.
    UnknownVersion(u8),
    /// This code does not know the flag, and cannot tell what it would be ignoring.
    UnknownFlags(u8),
    /// The record is truncated, too long, or has a field out of range.
    Malformed,
}

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

impl Credentials {
    /// Derives the keys of all hash functions from a password. This is pure and expensive
    /// (milliseconds, by intent): run it as a job, never on a shard.
    ///
    /// # Errors
    ///
    /// If the password cannot be used ([`prepare`](super::password::prepare)), the iteration count
    /// is outside 4,096 to 1,000,000, or the salt is outside 8 to 64 bytes.
    pub fn derive(password: &str, iterations: u32, salt: &[u8], created_us: u64) -> Result<Credentials, DeriveError> {
        let password = keys::check(password, iterations, salt)?;
        let sets = HashKind::ALL.map(|kind| Some(KeySet::of_prepared(kind, &password, iterations, salt)));
        Ok(Credentials::of_all(sets, created_us))
    }

    fn of_all(sets: [Option<KeySet>; HashKind::ALL.len()], created_us: u64) -> Credentials {
        let (anchor, incarnation) = (HashKind::Sha256, Incarnation::UNNUMBERED);
        Credentials { sets, anchor, created_us, incarnation, standing: Standing::InUse }
    }

    /// Builds credentials from keys that were derived elsewhere, all from one password. If a hash
    /// function occurs twice, the later keys win. The anchor is SHA-256, or else SHA-512 or SHA-1.
    /// Returns `None` if there are no keys.
    pub fn of_keys(given: impl IntoIterator<Item = KeySet>, created_us: u64) -> Option<Credentials> {
        let mut sets = HashKind::ALL.map(|_| None);
        for set in given {
            let place = set.kind() as usize;
            sets[place] = Some(set);
        }
        let by_preference = [HashKind::Sha256, HashKind::Sha512, HashKind::Sha1];
        let anchor = by_preference.into_iter().find(|kind| sets[*kind as usize].is_some())?;
        Some(Credentials { anchor, ..Credentials::of_all(sets, created_us) })
    }

    /// Makes up the credentials of an account that does not exist. They are the same each time for
    /// a name, and cannot be told apart from real ones without the secret. No password matches
    /// them. RFC 5802 has no answer to this; without it, the salt reveals which names exist. As
    /// with new accounts, all hash functions share one salt. A name can have 2,047 bytes, so it is
    /// hashed only once.
    pub fn decoy(secret: &SecretKey, account: &str, iterations: u32) -> Credentials {
        let name = secret.tag(&[b"decoy", account.as_bytes()]);
        let made_up = [&b"salt"[..], b"stored", b"server"].map(|what| secret.tag(&[what, name.as_bytes()]));
        let sets = HashKind::ALL.map(|kind| Some(KeySet::decoy(kind, iterations, &made_up)));
        Credentials::of_all(sets, 0)
    }

    /// The keys of a hash function, if the account has them.
    pub fn keys(&self, kind: HashKind) -> Option<&KeySet> {
        self.sets[kind as usize].as_ref()
    }

    /// The keys that identify the password.
    pub fn anchor(&self) -> &KeySet {
        self.keys(self.anchor).expect("the anchor's keys are there")
    }

    /// The hash functions of which the account has keys.
    pub fn hashes(&self) -> Hashes {
        self.sets.iter().flatten().map(KeySet::kind).collect()
    }

    /// Adds keys of a hash function of which the account has none (XEP-0480 3). Returns whether
    /// they were added.
    pub fn gain(&mut self, set: KeySet) -> bool {
        let place = &mut self.sets[set.kind() as usize];
        let lacks = place.is_none();
        if lacks {
            *place = Some(set);
        }
        lacks
    }

    /// When the account was created, microseconds since the Unix epoch.
    pub fn created_us(&self) -> u64 {
        self.created_us
    }

    /// The same keys with another creation time.
    #[must_use]
    pub fn made_at(self, created_us: u64) -> Credentials {
        Credentials { created_us, ..self }
    }

    /// The account that they belong to; [`Incarnation::UNNUMBERED`] until they are written for one.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The account that they belong to, and a number derived from the keys. Another password has
    /// another number, with high probability.
    pub fn identity(&self) -> (Incarnation, u64) {
        let stored = &self.anchor().keys().stored;
        let key = stored.as_bytes().first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        (self.incarnation, key)
    }

    /// The same keys for this account.
    #[must_use]
    pub fn of(self, incarnation: Incarnation) -> Credentials {
        Credentials { incarnation, ..self }
    }

    /// Whether the account may be used.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Suspends the account, or puts it back in use.
    pub fn set_standing(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// Appends the record: version, flags, creation time (u64), incarnation (u64), number of the
    /// anchor's hash function, number of key sets, and each set. A set is: number of the hash
    /// function, iterations (u32), salt's length and salt, StoredKey and ServerKey. Numbers are big
    /// endian. A record with all three sets and 16-byte salts has 318 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.push(self.standing.flags());
        out.extend_from_slice(&self.created_us.to_be_bytes());
        out.extend_from_slice(&self.incarnation.0.to_be_bytes());
        out.push(self.anchor as u8);
        out.push(self.sets.iter().flatten().count() as u8);
        for set in self.sets.iter().flatten() {
            out.push(set.kind() as u8);
            out.extend_from_slice(&set.iterations().to_be_bytes());
            out.push(set.salt().len() as u8);
            out.extend_from_slice(set.salt());
            out.extend_from_slice(set.keys().stored.as_bytes());
            out.extend_from_slice(set.keys().server.as_bytes());
        }
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// If it is damaged, or has a version or a flag that this code does not know.
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
        let read = if version == VERSION { reader.keys()? } else { reader.keys_of_two(version)? };
        match reader.0 {
            [] => Ok(Credentials { standing: Standing::of_flags(flags), ..read }),
            _ => Err(DecodeError::Malformed),
        }
    }
}

/// The unread rest of a record.
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

    fn hash(&mut self) -> Result<HashKind, DecodeError> {
        let [number] = self.array()?;
        HashKind::ALL.get(usize::from(number)).copied().ok_or(DecodeError::Malformed)
    }

    fn salt(&mut self) -> Result<&'a [u8], DecodeError> {
        let [length] = self.array()?;
        self.take(usize::from(length))
    }

    fn set(&mut self, kind: HashKind, iterations: u32, salt: &[u8]) -> Result<KeySet, DecodeError> {
        let mut tag = || Tag::from_bytes(kind, self.take(kind.len())?).ok_or(DecodeError::Malformed);
        let keys = ScramKeys { stored: tag()?, server: tag()? };
        KeySet::new(kind, iterations, salt, keys).ok_or(DecodeError::Malformed)
    }

    /// Reads what follows the flags in version 3. The hash functions are in order, each at most
    /// once.
    fn keys(&mut self) -> Result<Credentials, DecodeError> {
        let created_us = u64::from_be_bytes(self.array()?);
        let incarnation = Incarnation(u64::from_be_bytes(self.array()?));
        let anchor = self.hash()?;
        let [count] = self.array()?;
        let (mut sets, mut last) = (HashKind::ALL.map(|_| None), None);
        for _ in 0..count {
            let kind = self.hash()?;
            if last.replace(kind as u8).is_some_and(|last| last >= kind as u8) {
                return Err(DecodeError::Malformed);
            }
            let iterations = u32::from_be_bytes(self.array()?);
            let salt = self.salt()?;
            sets[kind as usize] = Some(self.set(kind, iterations, salt)?);
        }
        match &sets[anchor as usize] {
            Some(_) => Ok(Credentials { sets, anchor, created_us, incarnation, standing: Standing::InUse }),
            None => Err(DecodeError::Malformed),
        }
    }

    /// Reads what follows the flags in versions 1 and 2: iterations (u32), creation time (u64),
    /// incarnation (u64; not in version 1), salt's length and salt, StoredKey and ServerKey for
    /// SHA-1, the same for SHA-256.
    fn keys_of_two(&mut self, version: u8) -> Result<Credentials, DecodeError> {
        let iterations = u32::from_be_bytes(self.array()?);
        let created_us = u64::from_be_bytes(self.array()?);
        let incarnation = match version {
            VERSION_WITHOUT_INCARNATION => Incarnation::UNNUMBERED,
            _ => Incarnation(u64::from_be_bytes(self.array()?)),
        };
        let salt = self.salt()?;
        let mut set = |kind| self.set(kind, iterations, salt).map(Some);
        let sets = [set(HashKind::Sha1)?, set(HashKind::Sha256)?, None];
        Ok(Credentials { incarnation, ..Credentials::of_all(sets, created_us) })
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;

//! The credentials record: what an account keeps of a password, one row of [`Table::Accounts`](super::Table).
//!
//! Only the keys of SCRAM are kept (RFC 5802 9, "StoredKey" and "ServerKey"): who reads the store can neither log in nor
//! learn the password. This file knows nothing of connections or of who is asking.

use std::fmt;

use super::hash::{HashKind, Hashes, SecretKey, Tag};
pub use super::keys::{DeriveError, KeySet, ScramKeys};
use super::{Batch, Table, keys};

/// Version of the encoding that is written; the first byte of the record.
const VERSION: u8 = 3;

/// The version with keys of SHA-1 and SHA-256 by one salt and count: still read.
const VERSION_OF_TWO: u8 = 2;

/// The version before accounts had an [`Incarnation`]: still read.
const VERSION_WITHOUT_INCARNATION: u8 = 1;

/// Sort key of the row in [`Table::Meta`] that says of which hash functions all accounts of the store have keys, a bit each as in
/// [`Hashes`]. Without it nobody knows: whoever writes a record that lacks some takes it away.
pub const COMPLETE_KEY: &[u8] = b"complete-keys";

/// Asks that an account's record is written.
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

/// All flag bits that are known.
const KNOWN_FLAGS: u8 = APPLIES | SUSPENDED;

/// Where the flags are in records of all versions.
const FLAGS_AT: usize = 1;

/// Whether an account may be used. Logins to one that may not fail with `<account-disabled/>` (RFC 6120 6.5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Standing {
    /// It may.
    #[default]
    InUse,
    /// It waits for an administrator's approval.
    Applies,
    /// The operator has suspended it.
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

    /// That of a record, whether the rest of it can be read or not.
    pub fn of_record(record: &[u8]) -> Standing {
        record.get(FLAGS_AT).map_or(Standing::InUse, |flags| Standing::of_flags(*flags))
    }

    /// Changes a record to this one, if it is known better than what was read.
    pub fn correct(self, record: &mut [u8]) {
        if let Some(flags) = record.get_mut(FLAGS_AT) {
            *flags = self.flags();
        }
    }
}

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

/// What an account keeps of its password: keys of at least one hash function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// By hash function. Those of `anchor` are there.
    sets: [Option<KeySet>; HashKind::ALL.len()],
    /// The hash function whose keys stand for the password: what rests on the password rests on them. It stays the same when
    /// keys of another one are added.
    anchor: HashKind,
    created_us: u64,
    incarnation: Incarnation,
    standing: Standing,
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
    /// Derives the keys of all hash functions from a password. Pure and expensive, milliseconds by intent: run it as a job,
    /// never on a shard.
    ///
    /// # Errors
    /// If the password cannot be used ([`prepare`](super::password::prepare)), the iteration count is outside of 4,096 to
    /// 1,000,000, or the salt outside of 8 to 64 bytes.
    pub fn derive(password: &str, iterations: u32, salt: &[u8], created_us: u64) -> Result<Credentials, DeriveError> {
        let password = keys::check(password, iterations, salt)?;
        let sets = HashKind::ALL.map(|kind| Some(KeySet::of_prepared(kind, &password, iterations, salt)));
        Ok(Credentials::of_all(sets, created_us))
    }

    fn of_all(sets: [Option<KeySet>; HashKind::ALL.len()], created_us: u64) -> Credentials {
        let (anchor, incarnation) = (HashKind::Sha256, Incarnation::UNNUMBERED);
        Credentials { sets, anchor, created_us, incarnation, standing: Standing::InUse }
    }

    /// Of keys that were derived elsewhere, all from one password; the later of two of a hash function. What rests on the
    /// password will rest on those of SHA-256, or of SHA-512 or SHA-1 if there are none. `None` if there are no keys.
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

    /// Makes up the credentials of an account that does not exist: the same ones each time for a name, and told apart
    /// from real ones by nobody without the secret. No password fits them (RFC 5802 has no answer to this; without it
    /// the salt tells which names exist). As with new accounts, all hash functions have one salt. A name can have 2,047
    /// bytes, so that it is hashed once.
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

    /// The keys that stand for the password.
    pub fn anchor(&self) -> &KeySet {
        self.keys(self.anchor).expect("the anchor's keys are there")
    }

    /// The hash functions that the account has keys of.
    pub fn hashes(&self) -> Hashes {
        self.sets.iter().flatten().map(KeySet::kind).collect()
    }

    /// Adds keys of a hash function that the account has none of (XEP-0480 3). Whether they were added.
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

    /// Takes the account out of use, or back.
    pub fn set_standing(&mut self, standing: Standing) {
        self.standing = standing;
    }

    /// Appends the record: version, flags, created (u64), incarnation (u64), the number of the anchor's hash function, how many
    /// sets of keys follow, and each of them: number of the hash function, iterations (u32), salt's length and salt,
    /// StoredKey and ServerKey; numbers big endian. 318 bytes with all three and salts of 16.
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
        let read = if version == VERSION { reader.keys()? } else { reader.keys_of_two(version)? };
        match reader.0 {
            [] => Ok(Credentials { standing: Standing::of_flags(flags), ..read }),
            _ => Err(DecodeError::Malformed),
        }
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

    /// What follows the flags in version 3. The hash functions come in order, each once.
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

    /// What follows the flags in versions 1 and 2: iterations (u32), created (u64), incarnation (u64; not in version 1), salt's
    /// length and salt, StoredKey and ServerKey for SHA-1, the same for SHA-256.
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

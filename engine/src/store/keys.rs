//! The keys derived from a password with one hash function (RFC 5802 3), with their salt and
//! iteration count.

use std::fmt;

use super::hash::{HashKind, Tag};
use super::password::{self, PasswordError};
use crate::limits::{SCRAM_ITERATIONS_MAX, SCRAM_ITERATIONS_MIN, SCRAM_SALT_BYTES_MAX};

/// The keys of one hash function (RFC 5802 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
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

/// The keys of one hash function, and the parameters that derive them from the password.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct KeySet {
    kind: HashKind,
    iterations: u32,
    salt: Box<[u8]>,
    keys: ScramKeys,
}

/// Why keys could not be derived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeriveError {
    /// The password cannot be used.
    Password(PasswordError),
    /// The iteration count is outside 4,096 to 1,000,000 (RFC 7677 4).
    Iterations(u32),
    /// The salt is outside 8 to 64 bytes.
    SaltLength(usize),
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

/// Minimum length in bytes of the salt for a new password.
const SALT_BYTES_MIN: usize = 8;

impl KeySet {
    /// Takes keys that were derived elsewhere; `None` if the count is outside 1 to 1,000,000, or
    /// the salt outside 1 to 64 bytes.
    pub fn new(kind: HashKind, iterations: u32, salt: &[u8], keys: ScramKeys) -> Option<KeySet> {
        let in_bounds =
            (1..=SCRAM_ITERATIONS_MAX).contains(&iterations) && (1..=SCRAM_SALT_BYTES_MAX).contains(&salt.len());
        let lengths = [&keys.stored, &keys.server].iter().all(|tag| tag.as_bytes().len() == kind.len());
        (in_bounds && lengths).then(|| KeySet { kind, iterations, salt: salt.into(), keys })
    }

    /// Derives the keys from a prepared password. This is pure and expensive (milliseconds, by
    /// intent): run it as a job, never on a shard.
    pub(crate) fn of_prepared(kind: HashKind, password: &str, iterations: u32, salt: &[u8]) -> KeySet {
        let keys = ScramKeys::of(kind, &kind.salted_password(password, salt, iterations));
        KeySet { kind, iterations, salt: salt.into(), keys }
    }

    /// The keys of a name without an account, with a salt and two keys of made-up bytes: see
    /// [`Credentials::decoy`](super::account::Credentials::decoy).
    pub(super) fn decoy(kind: HashKind, iterations: u32, [salt, stored, server]: &[Tag; 3]) -> KeySet {
        let key = |made_up: &Tag| kind.digest(&[made_up.as_bytes()]);
        let keys = ScramKeys { stored: key(stored), server: key(server) };
        KeySet { kind, iterations, salt: salt.as_bytes()[..16].into(), keys }
    }

    /// The hash function of the keys.
    pub fn kind(&self) -> HashKind {
        self.kind
    }

    /// The number of PBKDF2 iterations.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// The salt, 1 to 64 bytes.
    pub fn salt(&self) -> &[u8] {
        &self.salt
    }

    /// The derived keys.
    pub fn keys(&self) -> &ScramKeys {
        &self.keys
    }
}

/// Checks the parameters of a derivation, and prepares the password.
pub(super) fn check(password: &str, iterations: u32, salt: &[u8]) -> Result<Box<str>, DeriveError> {
    if !(SCRAM_ITERATIONS_MIN..=SCRAM_ITERATIONS_MAX).contains(&iterations) {
        return Err(DeriveError::Iterations(iterations));
    }
    if !(SALT_BYTES_MIN..=SCRAM_SALT_BYTES_MAX).contains(&salt.len()) {
        return Err(DeriveError::SaltLength(salt.len()));
    }
    password::prepare(password).map(Into::into).map_err(DeriveError::Password)
}

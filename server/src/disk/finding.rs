//! Descriptions of damaged or missing parts of a store, and the affected users.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use throng_engine::store::key;

use super::blocks::Hole;
use super::pieces::Lost;

/// Users that one finding names; further ones are only counted.
pub(super) const USERS_MAX: usize = 100;

/// Two flat keys; `None`: the beginning or the end of all keys.
pub(super) type Between = (Option<Vec<u8>>, Option<Vec<u8>>);

/// A damaged or missing part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// The offset in the file, bytes; `None`: all of it, or unknown.
    pub at: Option<u64>,
    /// Its length, bytes.
    pub bytes: u64,
    /// A description.
    pub what: String,
    /// Whether the file is missing.
    pub missing: bool,
    /// Whether it may be the trace of a power failure, in which case nothing acknowledged is lost.
    pub may_be_torn: bool,
    /// The flat keys between which rows are unreadable, as far as known.
    pub(super) keys: Option<Between>,
    /// Affected users (bare JIDs), as far as known; at most `USERS_MAX`.
    pub users: BTreeSet<String>,
    /// Number of further users that may be affected.
    pub more_users: u64,
}

impl Finding {
    pub(super) fn new(file: PathBuf, what: &str) -> Finding {
        Finding { file, what: what.to_owned(), ..Finding::default() }
    }

    pub(super) fn missing(file: PathBuf) -> Finding {
        Finding { missing: true, ..Finding::new(file, "it is missing") }
    }

    pub(super) fn at(file: &Path, at: u64, bytes: u64, what: &str) -> Finding {
        Finding { at: Some(at), bytes, ..Finding::new(file.to_owned(), what) }
    }

    pub(super) fn of_journal(file: &Path, lost: Lost) -> Finding {
        let may_be_torn = lost.may_be_torn;
        let mut found = Finding::at(file, lost.at as u64, lost.bytes as u64, &lost.what);
        found.may_be_torn = may_be_torn;
        lost.actors.iter().for_each(|actor| found.name(actor));
        found
    }

    /// Adds a user by name.
    pub(super) fn name(&mut self, actor: &[u8]) {
        let user = String::from_utf8_lossy(actor).into_owned();
        if user.is_empty() || self.users.contains(&user) {
            // The server's own rows have no user.
        } else if self.users.len() < USERS_MAX {
            self.users.insert(user);
        } else {
            self.more_users += 1;
        }
    }

    /// Whether rows of more users than those at its ends may be lost.
    pub(super) fn is_wide(&self) -> bool {
        let Some((after, last)) = &self.keys else { return false };
        let ends = |key: &Option<Vec<u8>>| key.as_deref().and_then(key::decode).map(|(t, p, _)| (t, p.to_vec()));
        after.is_none() || last.is_none() || ends(after) != ends(last)
    }

    /// Whether a row with this flat key may be lost.
    pub(super) fn may_hold(&self, row: &[u8]) -> bool {
        let Some((after, last)) = &self.keys else { return false };
        after.as_deref().is_none_or(|after| after < row) && last.as_deref().is_none_or(|last| row <= last)
    }

    /// Whether a row of the actor with this prefix of flat keys may be lost.
    pub(super) fn may_hold_of(&self, prefix: &[u8]) -> bool {
        let Some((after, last)) = &self.keys else { return false };
        let begins_before_end = last.as_deref().is_none_or(|last| prefix <= last);
        let ends_behind_begin = after.as_deref().is_none_or(|after| after < prefix || after.starts_with(prefix));
        begins_before_end && ends_behind_begin
    }
}

/// Describes a hole in a table.
pub(super) fn of_hole(hole: &Hole) -> Finding {
    let mut found = Finding::at(&hole.file, hole.at, hole.bytes, &hole.what);
    for key in [&hole.after, &hole.last].into_iter().flatten() {
        if let Some((_, actor, _)) = key::decode(key) {
            found.name(actor);
        }
    }
    found.keys = Some((hole.after.clone(), hole.last.clone()));
    found
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(at) = self.at {
            write!(f, " at byte {at}")?;
            if self.bytes > 0 {
                write!(f, " ({} bytes)", self.bytes)?;
            }
        }
        write!(f, ": {}", self.what)?;
        if !self.users.is_empty() {
            let users: Vec<&str> = self.users.iter().map(String::as_str).collect();
            write!(f, "; rows of {}", users.join(", "))?;
            if self.more_users > 0 {
                write!(f, " and {} more users", self.more_users)?;
            }
        }
        if let Some((after, last)) = &self.keys
            && (after.is_none() || last.is_none())
        {
            f.write_str(" and of others may be lost: the range of rows in this part is unknown")?;
        }
        Ok(())
    }
}

//! What an import or export has done, and what it has not.

use std::collections::BTreeMap;

use throng_engine::limits::beginning;
use throng_engine::portable::{Counts, Word};

/// Bytes of a text of a note.
const TEXT_BYTES_MAX: usize = 512;

/// What a file says goes to a terminal: without control characters, and no longer than can be read.
pub(super) fn shown(text: &str) -> String {
    let cut = beginning(text, TEXT_BYTES_MAX);
    let mut out: String = cut.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
    if cut.len() < text.len() {
        out.push_str(" ...");
    }
    out
}

/// Kinds of notes that are told apart; more are only counted.
const NOTES_MAX: usize = 1_000;

/// Something that was not taken, or changed, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// What, such as `contact`.
    pub what: &'static str,
    /// Why.
    pub why: String,
    /// How often.
    pub times: u64,
    /// The first time: the account, and where in which file.
    pub first: String,
}

/// The outcome.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Accounts that were taken, or written.
    pub users: u64,
    /// Accounts that were there already, and were left alone.
    pub there: u64,
    /// Accounts that were not taken.
    pub left: u64,
    /// Accounts that have no password that this server could check: nobody can log in until they get one.
    pub without_password: u64,
    /// Accounts that can log in by SCRAM-SHA-1 alone, until they have logged in by PLAIN.
    pub only_sha1: u64,
    /// What they have.
    pub counts: Counts,
    /// Bytes of files.
    pub bytes: u64,
    notes: BTreeMap<(&'static str, String), (u64, String)>,
    more: u64,
}

impl Summary {
    /// Adds words about an account.
    pub(super) fn note(&mut self, words: Vec<Word>, first: &dyn Fn() -> String) {
        for Word { what, why } in words {
            self.one(what, why, first);
        }
    }

    pub(super) fn one(&mut self, what: &'static str, why: String, first: &dyn Fn() -> String) {
        let (key, full) = ((what, shown(&why)), self.notes.len() == NOTES_MAX);
        match self.notes.get_mut(&key) {
            Some((times, _)) => *times += 1,
            None if full => self.more += 1,
            None => drop(self.notes.insert(key, (1, shown(&first())))),
        }
    }

    /// What was noted, sorted.
    pub fn notes(&self) -> impl Iterator<Item = Note> {
        self.notes.iter().map(|((what, why), (times, first))| Note {
            what,
            why: why.clone(),
            times: *times,
            first: first.clone(),
        })
    }

    /// Notes that there was no room for.
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Whether everything was taken or written as it was.
    pub fn is_whole(&self) -> bool {
        self.notes.is_empty() && self.left == 0
    }
}

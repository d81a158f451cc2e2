//! The results of an import or export, and what it left out.

use std::collections::BTreeMap;

use throng_engine::limits::beginning;
use throng_engine::portable::{Counts, Word};

/// Most bytes of a text in a note.
const TEXT_BYTES_MAX: usize = 512;

/// Text from a file for a terminal: without control characters, and cut to a readable length.
pub(super) fn shown(text: &str) -> String {
    let cut = beginning(text, TEXT_BYTES_MAX);
    let mut out: String = cut.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
    if cut.len() < text.len() {
        out.push_str(" ...");
    }
    out
}

/// Most distinct notes; further ones are only counted.
const NOTES_MAX: usize = 1_000;

/// Something that was left out or changed, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The kind, such as `contact`.
    pub what: &'static str,
    /// The reason.
    pub why: String,
    /// The number of occurrences.
    pub times: u64,
    /// The first occurrence: the account, and the position in the file.
    pub first: String,
}

/// The outcome.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Accounts imported or exported.
    pub users: u64,
    /// Existing accounts or rooms that were left alone.
    pub there: u64,
    /// Accounts or rooms left out.
    pub left: u64,
    /// Accounts without a password that this server can check: logins fail until they get one.
    pub without_password: u64,
    /// Accounts that can log in only by SCRAM-SHA-1, until they have logged in by PLAIN.
    pub only_sha1: u64,
    /// Rooms imported or exported.
    pub rooms: u64,
    /// Users with an affiliation or a reserved nick in these.
    pub affiliations: u64,
    /// Their data, by kind.
    pub counts: Counts,
    /// Bytes of files.
    pub bytes: u64,
    notes: BTreeMap<(&'static str, String), (u64, String)>,
    more: u64,
}

impl Summary {
    /// Adds notes about an account.
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

    /// The notes, sorted.
    pub fn notes(&self) -> impl Iterator<Item = Note> {
        self.notes.iter().map(|((what, why), (times, first))| Note {
            what,
            why: why.clone(),
            times: *times,
            first: first.clone(),
        })
    }

    /// Number of notes that did not fit.
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Whether everything was imported or exported faithfully.
    pub fn is_whole(&self) -> bool {
        self.notes.is_empty() && self.left == 0
    }
}

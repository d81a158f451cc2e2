//! Presence of occupants that the others have not been sent yet, in rooms with many sessions.
//!
//! With more than [`ROOM_COALESCED_SEATS`](crate::limits::ROOM_COALESCED_SEATS) sessions, the others
//! are told of what occupants do themselves (enter, change, rename, leave) at most once per
//! [`ROOM_COALESCED_MS`], and of the last state only. Between two such moments one occupant costs the
//! others one stanza, however often it comes and goes. The first change after a quiet interval is sent
//! at once.
//!
//! - An entry is a nick that has changed: what others see under it, and how that ended. What they are
//!   sent is the difference to the present state.
//! - An occupant's own sessions are always told at once.
//! - What others do to an occupant (a role, a kick), and what it says to all, is in order with its
//!   presence: the entries of its nick are sent first.

use crate::limits::{ROOM_COALESCED_MS, ROOM_UNSAID_MAX};
use crate::rooms::rank::{Rank, Role};
use crate::wire::jid::bare_of;

/// What the others have not been sent.
#[derive(Debug, Default)]
pub(super) struct Unsaid {
    /// In the order of the first change; at most [`ROOM_UNSAID_MAX`] and those of one stanza.
    entries: Vec<Entry>,
    /// Before this time (monotonic milliseconds) the others are not told again.
    quiet_until_ms: u64,
    /// Whether the room waits for its time.
    pub(super) is_due: bool,
}

/// A nick that has changed.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) nick: Box<str>,
    /// The user whom others see under it (bare JID).
    pub(super) seen: Option<Box<str>>,
    /// How that ended.
    pub(super) gone: Option<Gone>,
    /// Whether its cost is counted.
    is_charged: bool,
}

/// The end of a visit, or of a nick.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gone {
    /// The full JID.
    pub(super) jid: Box<str>,
    pub(super) rank: Rank,
    /// The role that decides who sees it.
    pub(super) role: Role,
    pub(super) presence: Box<[u8]>,
    pub(super) new_nick: Option<Box<str>>,
    /// Whether the others may take it for a change of the nick (status 303). Not if they still see
    /// somebody under the new one: two who swap nicks would become one.
    pub(super) is_rename: bool,
}

impl Gone {
    fn leads_to(&self, nick: &str) -> bool {
        self.new_nick.as_deref() == Some(nick)
    }
}

impl Unsaid {
    /// Whether the others know everything.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether the others may be told now. A room that waits for its time tells
    /// them then: twice in an interval would be too often.
    pub(super) fn may_tell(&self, now_ms: u64) -> bool {
        (now_ms >= self.quiet_until_ms && !self.is_due) || self.entries.len() >= ROOM_UNSAID_MAX
    }

    /// A nick is about to change. `seen` is the user who has it.
    pub(super) fn note(&mut self, nick: &str, seen: Option<&str>) {
        if !self.entries.iter().any(|entry| *entry.nick == *nick) {
            self.entries.push(Entry { nick: nick.into(), seen: seen.map(Into::into), gone: None, is_charged: false });
        }
    }

    /// Whether the nick is noted, and if so, whether that is to be charged, which it is once.
    pub(super) fn charges(&mut self, nick: &str) -> Option<bool> {
        let entry = self.entries.iter_mut().find(|entry| *entry.nick == *nick)?;
        Some(!std::mem::replace(&mut entry.is_charged, true))
    }

    /// The user of a nick has left it. Nicks that the user had before, and others still see, have
    /// ended in the same way. Returns sessions of the user that had left these nicks before: their
    /// ends are not told any more.
    pub(super) fn leave(&mut self, nick: &str, mut end: Gone) -> Vec<Box<str>> {
        let is_seen = |new: &str| self.entries.iter().any(|entry| *entry.nick == *new && entry.seen.is_some());
        end.is_rename = end.new_nick.as_deref().is_some_and(|new| !is_seen(new));
        let bare = bare_of(&end.jid);
        let mut former = Vec::new();
        for entry in &mut self.entries {
            let came_from = entry.gone.as_ref().is_some_and(|gone| gone.leads_to(nick));
            if (came_from || *entry.nick == *nick) && entry.seen.as_deref() == Some(bare) {
                former.extend(entry.gone.replace(end.clone()).map(|gone| gone.jid));
            }
        }
        former.retain(|jid| !self.entries.iter().any(|entry| entry.gone.as_ref().is_some_and(|gone| gone.jid == *jid)));
        former
    }

    /// The nick under which the others still see a session that has left.
    pub(super) fn seen_as(&self, full: &str) -> Option<&str> {
        let has_left = |gone: &Gone| *gone.jid == *full;
        let sees = |entry: &&Entry| entry.seen.is_some() && entry.gone.as_ref().is_some_and(has_left);
        self.entries.iter().find(sees).map(|entry| &*entry.nick)
    }

    /// Forgets a nick that is nobody's, and that others have not seen.
    pub(super) fn tidy(&mut self, nick: &str) {
        self.entries.retain(|entry| *entry.nick != *nick || entry.seen.is_some());
    }

    /// Takes everything out. The others are told at `now_ms`.
    pub(super) fn take(&mut self, now_ms: u64) -> Vec<Entry> {
        self.quiet_until_ms = now_ms + ROOM_COALESCED_MS;
        std::mem::take(&mut self.entries)
    }

    /// Takes out what concerns a nick: the entry of the nick from which its user has come, and that
    /// to which its former user has gone.
    pub(super) fn take_of(&mut self, nick: &str) -> Vec<Entry> {
        let former = self.entries.iter().find(|entry| *entry.nick == *nick).and_then(|entry| entry.gone.as_ref());
        let next = former.and_then(|gone| gone.new_nick.clone());
        let concerns = |entry: &mut Entry| {
            let comes_from = entry.gone.as_ref().is_some_and(|gone| gone.leads_to(nick));
            *entry.nick == *nick || comes_from || Some(&entry.nick) == next.as_ref()
        };
        self.entries.extract_if(.., concerns).collect()
    }
}

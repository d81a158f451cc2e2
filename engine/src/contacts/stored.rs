//! Rows of sessions that may be resumed after a restart (XEP-0198 5): written here, where all that they say is known.
//!
//! A login writes one, a second or two after it; see [`streams::stored`](crate::streams::stored) for when others are due.

use crate::contacts::Contacts;
use crate::extension::{TABLE, WAKER, places};
use crate::id::{SessionId, mark};
use crate::router::users::RosterStep;
use crate::session::sm::Rows;
use crate::store::sessions::{self, Counts, DIRECTED_KEPT_MAX, Kept};
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::written::read_back;

/// Rounds of rows that are not due with their turn are so far apart, milliseconds.
const ROUND_MS: u64 = 1_000;

impl Contacts {
    /// Writes the rows that are due with this turn.
    pub(crate) fn write_owed_sessions(&mut self) {
        while let Some(id) = self.owed.pop() {
            match self.take_due(id) {
                Rows::Counts => self.write_counts(id),
                Rows::All | Rows::Soon => self.write_session(id),
                Rows::None => {}
            }
        }
    }

    /// Writes the rows of sessions that have changed, if it is time.
    pub(crate) fn write_restless_sessions(&mut self) {
        if self.now.mono_ms.saturating_sub(self.stored_ms) < ROUND_MS || self.shutting_down {
            return;
        }
        self.stored_ms = self.now.mono_ms;
        for id in self.take_restless() {
            self.take_due(id);
            self.write_session(id);
        }
    }

    /// Writes all of a session.
    pub(crate) fn write_session(&mut self, id: SessionId) {
        let Some((key, incarnation, resume_s)) = self.stored_as(id) else { return };
        let Some(counts) = self.placed_counts(id) else { return };
        let Some(session) = self.sessions.get(id) else { return };
        let marked = places(session.marks & !(1 << WAKER));
        let kept = Kept {
            life: self.life,
            incarnation,
            resume_s,
            resource: session.resource.clone(),
            presence: session.presence.map(|presence| self.presence_table.get(presence).into()),
            priority: session.priority,
            interested: session.interested,
            follows: session.follows,
            marks: marked.map(|place| TABLE[place].name.into()).collect(),
            directed: session.directed().iter().take(DIRECTED_KEPT_MAX).cloned().collect(),
            lang: session.extra.as_ref().and_then(|extra| extra.lang.clone()),
        };
        let bare = self.bare_of_user(session.user);
        let before = self.writes.bytes();
        kept.put(&counts, &mut self.writes, &bare, key);
        self.wrote_row(id, before);
    }

    fn write_counts(&mut self, id: SessionId) {
        let Some((key, ..)) = self.stored_as(id) else { return };
        let Some(counts) = self.placed_counts(id) else { return };
        let Some(session) = self.sessions.get(id) else { return };
        let bare = self.bare_of_user(session.user);
        let before = self.writes.bytes();
        counts.put(&mut self.writes, &bare, key);
        self.wrote_row(id, before);
    }

    /// A client that asks for acknowledgements again and again, and leaves much unacknowledged itself, pays for its rows.
    fn wrote_row(&mut self, id: SessionId, before: usize) {
        self.counters.session_rows.one();
        let bytes = self.writes.bytes().saturating_sub(before);
        self.tell(id, Down::Charge(work(1, bytes)));
    }

    fn placed_counts(&mut self, id: SessionId) -> Option<Counts> {
        let session = self.sessions.get(id)?;
        let (user, follows) = (session.user, session.follows);
        // One that follows no more is not handed again what it had when it did.
        let top = if follows { 0 } else { self.top(id) };
        let seen = self.position(user, id).max(top);
        self.counts(id).map(|counts| Counts { seen, ..counts })
    }

    /// A session of an earlier process is as available as it was. Who sees it has seen it before, or asks.
    pub(crate) fn show_restored(&mut self, id: SessionId, presence: &[u8]) {
        let Ok(interned) = self.presence_table.intern(presence) else { return };
        read_back(presence, |element| self.note_capabilities(interned, element));
        self.sessions.set_presence(id, Some(interned));
    }

    /// A session of an earlier process has its client again: what nobody could keep for it meanwhile is asked for.
    pub(crate) fn refresh(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let user = session.user;
        if !session.is_available() {
            return;
        }
        session.extra.get_or_insert_default().missed = Some("".into());
        self.roster_step(user, RosterStep::Renew { session: id });
        self.roster_step(user, RosterStep::Catch { session: id });
        self.interests_announced(id, None);
    }

    /// Removes the rows of a session that ends.
    pub(crate) fn forget_stored(&mut self, id: SessionId) {
        if !self.is_stored(id) {
            return;
        }
        let (Some((key, ..)), Some(session)) = (self.stored_as(id), self.sessions.get(id)) else { return };
        let bare = self.bare_of_user(session.user);
        if self.is_restored(id) {
            self.ended_restored.insert(key.0);
        }
        sessions::delete(&mut self.writes, &bare, key);
    }
}

/// Up to where a session has received what waits for all: of what it was sent and has not acknowledged, what it has not.
pub(crate) fn received(counts: &Counts) -> u64 {
    let waits = counts.held.iter().map(|(_, id)| *id).filter(|&id| id & mark::APART == 0).map(mark::number).min();
    waits.map_or(counts.seen, |first| counts.seen.min(first - 1))
}

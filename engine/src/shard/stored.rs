//! Rows of sessions that may be resumed after a restart (XEP-0198 5). They record what several
//! modules know of a session.
//!
//! A login writes one row, a second or two later. `streams::stored` describes when other rows are
//! due.

use crate::extension::{TABLE, WAKER, places};
use crate::id::{SessionId, mark};
use crate::session::sm::Rows;
use crate::shard::Shard;
use crate::store::sessions::{Counts, DIRECTED_KEPT_MAX, Kept};
use crate::streams::half::Down;
use crate::streams::work::work;

/// Interval between rounds of rows that are not due with their turn, milliseconds.
const ROUND_MS: u64 = 1_000;

impl Shard {
    /// Writes the rows that are due with this turn.
    pub(super) fn write_owed_sessions(&mut self) {
        while let Some(id) = self.cx.owed.pop() {
            match self.cx.take_due(id) {
                Rows::Counts => self.write_counts(id),
                Rows::All | Rows::Soon => self.write_session(id),
                Rows::None => {}
            }
        }
    }

    /// Writes the rows of changed sessions, if it is time.
    pub(super) fn write_restless_sessions(&mut self) {
        let now_ms = self.cx.kernel.now.mono_ms;
        if now_ms.saturating_sub(self.stored_ms) < ROUND_MS || self.cx.kernel.shutting_down {
            return;
        }
        self.stored_ms = now_ms;
        for id in self.cx.take_restless() {
            self.cx.take_due(id);
            self.write_session(id);
        }
    }

    /// Writes all rows of a session.
    fn write_session(&mut self, id: SessionId) {
        // The session has ended since, or is not stored any more.
        let Some(((key, incarnation, resume_s), counts)) = self.cx.stored_as(id).zip(self.placed_counts(id)) else {
            return;
        };
        let session = self.actors.sessions.get(id).expect("it has counts");
        let marked = places(session.marks & !(1 << WAKER));
        let kept = Kept {
            life: self.cx.kernel.life,
            incarnation,
            resume_s,
            resource: session.resource.clone(),
            presence: session.presence.map(|presence| self.contacts.presence_table.get(presence).into()),
            priority: session.priority,
            interested: session.interested,
            follows: session.follows,
            marks: marked.map(|place| TABLE[place].name.into()).collect(),
            directed: session.directed().iter().take(DIRECTED_KEPT_MAX).cloned().collect(),
            lang: session.extra.as_ref().and_then(|extra| extra.lang.clone()),
        };
        let bare = self.actors.bare_of_user(session.user);
        let before = self.cx.kernel.writes.bytes();
        kept.put(&counts, &mut self.cx.kernel.writes, &bare, key);
        self.wrote_row(id, before);
    }

    fn write_counts(&mut self, id: SessionId) {
        // The session has ended since, or is not stored any more.
        let Some(((key, ..), counts)) = self.cx.stored_as(id).zip(self.placed_counts(id)) else { return };
        let session = self.actors.sessions.get(id).expect("it has counts");
        let bare = self.actors.bare_of_user(session.user);
        let before = self.cx.kernel.writes.bytes();
        counts.put(&mut self.cx.kernel.writes, &bare, key);
        self.wrote_row(id, before);
    }

    /// A client that keeps requesting acknowledgements while it leaves much unacknowledged itself
    /// pays for its rows.
    fn wrote_row(&mut self, id: SessionId, before: usize) {
        self.cx.kernel.counters.session_rows.one();
        let bytes = self.cx.kernel.writes.bytes().saturating_sub(before);
        self.cx.tell(id, Down::Charge(work(1, bytes)));
    }

    fn placed_counts(&mut self, id: SessionId) -> Option<Counts> {
        let session = self.actors.sessions.get(id)?;
        let (user, follows) = (session.user, session.follows);
        // A session that no longer follows the log is not handed its earlier messages again.
        let top = if follows { 0 } else { self.cx.top(id) };
        let seen = self.logs.position(&self.cx, &self.actors, user, id).max(top);
        self.cx.counts(id).map(|counts| Counts { seen, ..counts })
    }
}

/// The position up to which a session has received the messages for all followers, derived from the
/// messages that it was sent and has not acknowledged.
pub(crate) fn received(counts: &Counts) -> u64 {
    let waits = counts.held.iter().map(|(_, id)| *id).filter(|&id| id & mark::APART == 0).map(mark::number).min();
    waits.map_or(counts.seen, |first| counts.seen.min(first - 1))
}

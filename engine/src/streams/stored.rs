//! The stored state of the stream half of a session that may be resumed after a restart (XEP-0198
//! 5), and when it is written.
//!
//! Rows are written a second or two after a change to what they record. They are written with the
//! turn when a client is sent a count that could not be reproduced from rows and logs, and when the
//! session loses its connection. A message alone causes no row: its log entry records the session
//! and the message's place in the session's count ([`Trail`](crate::store::sessions::Trail)).

use crate::id::{SessionId, mark};
use crate::session::sm::{Had, Managed, Rows, TOKEN_BYTES};
use crate::store::sessions::{Counts, Key, Step};
use crate::streams::Streams;

/// A session whose counts have changed is stored again after this many seconds of quiet.
const REST_S: u32 = 30;

/// Roster pushes that are stored per session.
const PUSHES_MAX: usize = 64;

impl Streams {
    /// Schedules the rows of a session to be written, if it is stored.
    pub(crate) fn rows_due(&mut self, id: SessionId, due: Rows) {
        let Some(managed) = self.halves.managed_mut(id) else { return };
        if managed.tag == 0 || managed.is_dormant() || (due == Rows::Counts && managed.serial == 0) {
            return;
        }
        let before = managed.due;
        managed.due = match (before, due) {
            (Rows::None, due) => due,
            (before, Rows::None) => before,
            (Rows::Soon, Rows::Soon) => Rows::Soon,
            (Rows::Counts, Rows::Counts) => Rows::Counts,
            _ => Rows::All,
        };
        let now = managed.due;
        if now == Rows::Soon && before == Rows::None {
            self.restless[0].push(id);
        } else if matches!(now, Rows::Counts | Rows::All) && !matches!(before, Rows::Counts | Rows::All) {
            self.owed.push(id);
        }
    }

    /// The stored state of a session has changed.
    pub(crate) fn changed(&mut self, id: SessionId) {
        self.rows_due(id, Rows::Soon);
    }

    /// Takes the sessions whose rows are to be written at the end of a round.
    pub(crate) fn take_restless(&mut self) -> Vec<SessionId> {
        let ripe = std::mem::take(&mut self.restless[1]);
        self.restless.swap(0, 1);
        ripe.into_iter()
            .filter(|&id| self.halves.managed(id).is_some_and(|managed| managed.due == Rows::Soon))
            .collect()
    }

    /// Takes what is to be written of a session now, and clears it.
    pub(crate) fn take_due(&mut self, id: SessionId) -> Rows {
        self.halves.managed_mut(id).map_or(Rows::None, |managed| std::mem::take(&mut managed.due))
    }

    /// Returns the key under which a session is stored, and the account that it began with; `None`
    /// if it is not stored.
    pub(crate) fn stored_as(&self, id: SessionId) -> Option<(Key, u64, u32)> {
        let managed = self.halves.managed(id).filter(|managed| managed.tag != 0)?;
        Some((managed.key(), managed.incarnation, managed.resume_s))
    }

    /// Whether the store has rows of a session.
    pub(crate) fn is_stored(&self, id: SessionId) -> bool {
        self.halves.managed(id).is_some_and(|managed| managed.serial > 0)
    }

    /// Whether a session began before this process.
    pub(crate) fn is_restored(&self, id: SessionId) -> bool {
        self.halves.managed(id).is_some_and(|managed| managed.restored)
    }

    /// Whether a session has been waiting since before this process began.
    pub(crate) fn is_dormant(&self, id: SessionId) -> bool {
        self.halves.managed(id).is_some_and(Managed::is_dormant)
    }

    /// The highest entry number such that everything up to it was sent to the session.
    pub(crate) fn top(&self, id: SessionId) -> u64 {
        self.halves.managed(id).map_or(0, Managed::top)
    }

    /// The tag by which logs identify a session, if it is stored.
    pub(crate) fn tag(&self, id: SessionId) -> Option<u32> {
        self.halves.managed(id).map(|managed| managed.tag).filter(|&tag| tag != 0)
    }

    /// What to record in an entry that was just handed to a session; `None` if nothing.
    #[inline]
    pub(crate) fn handed(&self, id: SessionId, mark: u64) -> Option<Step> {
        let managed = self.halves.managed(id).filter(|managed| managed.tag != 0 && !managed.is_dormant())?;
        // The session may have held the message back.
        (managed.last_sent() == mark).then(|| Step::Handed { tag: managed.tag, count: managed.sent() })
    }

    /// What to record in the entry of a stanza that has just arrived from a session.
    #[inline]
    pub(crate) fn logged(&mut self, id: SessionId, seq: u32) -> Option<Step> {
        self.halves.managed_mut(id)?.logged(seq)
    }

    /// The entry that a stanza of a session already has from before a crash.
    #[inline]
    pub(crate) fn had(&mut self, id: SessionId, seq: u32) -> Option<u64> {
        self.halves.managed_mut(id)?.had(seq)
    }

    /// A session was sent a roster push, which is repeated after a restart because the client has
    /// no other way to learn of the change. Returns the number of the push if the session has been
    /// waiting since before this process began.
    pub(crate) fn pushed(&mut self, id: SessionId) -> Option<u32> {
        let managed = self.halves.managed_mut(id).filter(|managed| managed.tag != 0)?;
        let number = managed.pushed();
        if managed.is_dormant() {
            return u32::try_from(number).ok();
        }
        self.rows_due(id, Rows::Counts);
        None
    }

    /// The mark of a copy for a session.
    pub(crate) fn copy_mark(&self, id: SessionId, number: u64) -> u64 {
        match self.tag(id) {
            Some(_) if number != 0 => number | mark::COPY,
            _ => 0,
        }
    }

    /// Records the account incarnation of a stored session.
    pub(crate) fn note_incarnation(&mut self, id: SessionId, incarnation: u64) {
        if let Some(managed) = self.halves.managed_mut(id) {
            managed.incarnation = incarnation;
        }
    }

    /// Returns the counts of a session for its rows. The caller adds its position in the log.
    pub(crate) fn counts(&mut self, id: SessionId) -> Option<Counts> {
        let (last_number, now) = (self.kernel.last_number, self.kernel.now);
        let half = self.halves.get_mut(id)?;
        let (since_s, detached) = (half.since_s, half.conn().is_none());
        let managed = half.managed.as_mut()?;
        let from = managed.prove(last_number);
        let waited_s = u64::from(now.mono_s().saturating_sub(since_s));
        let detached_s = if detached { (now.wall_us / 1_000_000).saturating_sub(waited_s).max(1) } else { 0 };
        let held = managed.held().collect();
        let pushes = managed.pushes().take(PUSHES_MAX).map(|(count, push)| (count, push.into())).collect();
        let (serial, handled, sent) = (managed.serial, managed.handled(), managed.sent());
        Some(Counts { serial, handled, from, sent, number: last_number, seen: 0, detached_s, held, pushes })
    }

    /// Writes the counts of an idle session if they have changed since they were written.
    pub(crate) fn rest(&mut self, id: SessionId) {
        let now_s = self.kernel.now.mono_s();
        let Some(half) = self.halves.get(id) else { return };
        let quiet_s = half.conn().map_or(0, |conn| now_s.saturating_sub(self.conns.last_s(conn)));
        let Some(managed) = &half.managed else { return };
        if managed.moved_far() || (managed.moved() && quiet_s >= REST_S) {
            self.rows_due(id, Rows::Counts);
        }
    }

    /// A session from before this process waits for its client.
    pub(crate) fn attach_dormant(&mut self, id: SessionId, managed: Managed) {
        let now_ms = self.kernel.now.mono_ms;
        self.halves.open_dormant(id, managed, now_ms);
    }

    /// The client of a dormant session has returned, on a connection that waits to resume it.
    pub(crate) fn awake(
        &mut self,
        id: SessionId,
        token: [u8; TOKEN_BYTES],
        (h, handled): (u32, u32),
        had: Had,
        pushes: Vec<Box<[u8]>>,
        seen: u64,
    ) {
        let last_number = self.kernel.last_number;
        if let Some(managed) = self.halves.managed_mut(id) {
            let before = managed.unacked_bytes();
            managed.set_top(seen);
            managed.awake(token, h, handled, last_number, had, pushes);
            let more = managed.unacked_bytes() - before;
            self.unacked_bytes += more;
            self.halves.woke();
        }
    }

    /// A session loses its rows when the account's password changes; others may be written.
    pub(crate) fn unstored(&mut self, id: SessionId) {
        if let Some(managed) = self.halves.managed_mut(id) {
            managed.serial = 0;
        }
        self.rows_due(id, Rows::All);
    }
}

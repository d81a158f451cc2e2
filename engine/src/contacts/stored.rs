//! Rows of sessions that may be resumed after a restart (XEP-0198 5). They are written here because
//! this module knows all that they record.
//!
//! A login writes one row, a second or two later. [`streams::stored`](crate::streams::stored)
//! describes when other rows are due.

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension::{TABLE, WAKER, places};
use crate::id::{SessionId, mark};
use crate::logs::Logs;
use crate::router::users::RosterStep;
use crate::session::sm::Rows;
use crate::store::sessions::{self, Counts, DIRECTED_KEPT_MAX, Kept};
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::written::read_back;

/// Interval between rounds of rows that are not due with their turn, milliseconds.
const ROUND_MS: u64 = 1_000;

impl Contacts {
    /// Writes the rows that are due with this turn.
    pub(crate) fn write_owed_sessions(&mut self, cx: &mut Streams, actors: &mut Actors, logs: &mut Logs) {
        while let Some(id) = cx.owed.pop() {
            match cx.take_due(id) {
                Rows::Counts => self.write_counts(cx, actors, logs, id),
                Rows::All | Rows::Soon => self.write_session(cx, actors, logs, id),
                Rows::None => {}
            }
        }
    }

    /// Writes the rows of changed sessions, if it is time.
    pub(crate) fn write_restless_sessions(&mut self, cx: &mut Streams, actors: &mut Actors, logs: &mut Logs) {
        if cx.kernel.now.mono_ms.saturating_sub(self.stored_ms) < ROUND_MS || cx.kernel.shutting_down {
            return;
        }
        self.stored_ms = cx.kernel.now.mono_ms;
        for id in cx.take_restless() {
            cx.take_due(id);
            self.write_session(cx, actors, logs, id);
        }
    }

    /// Writes all rows of a session.
    pub(crate) fn write_session(&mut self, cx: &mut Streams, actors: &mut Actors, logs: &mut Logs, id: SessionId) {
        let Some((key, incarnation, resume_s)) = cx.stored_as(id) else { return };
        let Some(counts) = self.placed_counts(cx, actors, logs, id) else { return };
        let Some(session) = actors.sessions.get(id) else { return };
        let marked = places(session.marks & !(1 << WAKER));
        let kept = Kept {
            life: cx.kernel.life,
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
        let bare = actors.bare_of_user(session.user);
        let before = cx.kernel.writes.bytes();
        kept.put(&counts, &mut cx.kernel.writes, &bare, key);
        self.wrote_row(cx, id, before);
    }

    fn write_counts(&mut self, cx: &mut Streams, actors: &mut Actors, logs: &mut Logs, id: SessionId) {
        let Some((key, ..)) = cx.stored_as(id) else { return };
        let Some(counts) = self.placed_counts(cx, actors, logs, id) else { return };
        let Some(session) = actors.sessions.get(id) else { return };
        let bare = actors.bare_of_user(session.user);
        let before = cx.kernel.writes.bytes();
        counts.put(&mut cx.kernel.writes, &bare, key);
        self.wrote_row(cx, id, before);
    }

    /// A client that keeps requesting acknowledgements while it leaves much unacknowledged itself
    /// pays for its rows.
    fn wrote_row(&mut self, cx: &mut Streams, id: SessionId, before: usize) {
        cx.kernel.counters.session_rows.one();
        let bytes = cx.kernel.writes.bytes().saturating_sub(before);
        cx.tell(id, Down::Charge(work(1, bytes)));
    }

    fn placed_counts(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        logs: &mut Logs,
        id: SessionId,
    ) -> Option<Counts> {
        let session = actors.sessions.get(id)?;
        let (user, follows) = (session.user, session.follows);
        // A session that no longer follows the log is not handed its earlier messages again.
        let top = if follows { 0 } else { cx.top(id) };
        let seen = logs.position(cx, actors, user, id).max(top);
        cx.counts(id).map(|counts| Counts { seen, ..counts })
    }

    /// A session of an earlier process is as available as it was. Contacts have already seen its
    /// presence, or will probe.
    pub(crate) fn show_restored(&mut self, actors: &mut Actors, id: SessionId, presence: &[u8]) {
        let Ok(interned) = self.presence_table.intern(presence) else { return };
        read_back(presence, |element| self.note_capabilities(interned, element));
        actors.sessions.set_presence(id, Some(interned));
    }

    /// A session of an earlier process has its client again. Requests the state that could not be
    /// retained for it meanwhile.
    pub(crate) fn refresh(&mut self, cx: &mut Streams, actors: &mut Actors, id: SessionId) {
        let Some(session) = actors.sessions.get_mut(id) else { return };
        let user = session.user;
        if !session.is_available() {
            return;
        }
        session.extra.get_or_insert_default().missed = Some("".into());
        self.roster_step(cx, actors, user, RosterStep::Renew { session: id });
        self.roster_step(cx, actors, user, RosterStep::Catch { session: id });
        self.interests_announced(cx, actors, id, None);
    }

    /// Removes the rows of a session that ends.
    pub(crate) fn forget_stored(&mut self, cx: &mut Streams, actors: &mut Actors, id: SessionId) {
        if !cx.is_stored(id) {
            return;
        }
        let (Some((key, ..)), Some(session)) = (cx.stored_as(id), actors.sessions.get(id)) else { return };
        let bare = actors.bare_of_user(session.user);
        if cx.is_restored(id) {
            self.ended_restored.insert(key.0);
        }
        sessions::delete(&mut cx.kernel.writes, &bare, key);
    }
}

/// The position up to which a session has received the messages for all followers, derived from the
/// messages that it was sent and has not acknowledged.
pub(crate) fn received(counts: &Counts) -> u64 {
    let waits = counts.held.iter().map(|(_, id)| *id).filter(|&id| id & mark::APART == 0).map(mark::number).min();
    waits.map_or(counts.seen, |first| counts.seen.min(first - 1))
}

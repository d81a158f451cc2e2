//! The beginning and end of sessions. The end of a session is recorded first, like that of a
//! stream.

use crate::actors::Actors;
use crate::extension::{WAKER, push};
use crate::id::{ConnId, SessionId};
use crate::observers::trace::News;
use crate::session::sm::Managed;
use crate::session::table::Session;
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::streams::ending::Due;
use crate::streams::half::Down;
use crate::wire::error::StreamCondition;

impl Actors {
    /// Inserts a new session. It comes first in its user's list.
    pub(crate) fn insert_session(&mut self, cx: &mut Streams, session: Session, conn: ConnId) -> SessionId {
        let id = self.sessions.insert(session);
        cx.attach(id, conn);
        self.users.link(&mut self.sessions, id);
        id
    }

    /// Inserts a session of an earlier process, which waits for its client.
    pub(crate) fn insert_dormant(&mut self, cx: &mut Streams, session: Session, managed: Managed) -> SessionId {
        let id = self.sessions.insert(session);
        cx.attach_dormant(id, managed);
        self.users.link(&mut self.sessions, id);
        id
    }

    /// Removes a session from all lists. Returns it with its full JID.
    pub(crate) fn take_session(&mut self, cx: &mut Streams, id: SessionId) -> Option<(String, Session)> {
        self.sessions.get(id)?;
        if self.observers.is_some() {
            self.tap_news(cx, id, News::Ended);
        }
        let full = self.full_jid(id);
        self.users.unlink(&mut self.sessions, id);
        let presence = self.sessions.set_presence(id, None);
        let mut session = self.sessions.remove(id)?;
        session.presence = presence;
        // The mark is noted with the account if the account has a record in memory.
        if session.marks & 1 << WAKER != 0
            && let Some(state) = &mut self.users.get_mut(session.user).state
        {
            state.notes.put(WAKER, Some(push::registered()));
        }
        Some((full, session))
    }

    /// Ends a session with this error, and its connection if it has one.
    pub(crate) fn end_session_with(
        &mut self,
        cx: &mut Streams,
        id: SessionId,
        why: Ended,
        condition: StreamCondition,
        text: &str,
    ) {
        cx.tell(id, Down::End(why, condition, text));
    }

    /// Ends the sessions of a user whose account was removed. With `erase`, all rows of the account
    /// are then deleted.
    pub(crate) fn end_removed(&mut self, cx: &mut Streams, user: u32, erase: bool) {
        let sessions: Vec<_> = self.users.sessions(&self.sessions, user).map(|(id, _)| id).collect();
        for id in sessions {
            cx.tell(id, Down::Removed);
        }
        if erase {
            cx.endings.due.push_back(Due::Account(user));
        }
    }

    /// Charges a session for the work done since `before`.
    pub(crate) fn charge_since(&mut self, cx: &mut Streams, session: SessionId, before: u64) {
        let work = cx.done_so_far().saturating_sub(before);
        cx.tell(session, Down::Charge(work));
    }

    /// Starts a send of a connection's pending output, unless one is in flight.
    pub(crate) fn flush_one(&mut self, cx: &mut Streams, id: ConnId) {
        if cx.flush(id) && self.observers.is_some() {
            self.tap_sending(cx, id);
        }
    }

    /// Ends a turn: starts one send for each connection with pending output.
    pub(crate) fn flush_outbound(&mut self, cx: &mut Streams) {
        if self.observers.is_none() {
            return cx.flush_all(|_| {});
        }
        let mut named = Vec::new();
        cx.flush_all(|conn| named.push(conn));
        named.into_iter().for_each(|conn| self.tap_sending(cx, conn));
    }
}

//! Sessions come and go. That one is to end is recorded, as it is for streams.

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
    /// A session is there: its user's first one from now on.
    pub(crate) fn insert_session(&mut self, cx: &mut Streams, session: Session, conn: ConnId) -> SessionId {
        let id = self.sessions.insert(session);
        cx.attach(id, conn);
        self.users.link(&mut self.sessions, id);
        id
    }

    /// A session of an earlier process is there, and waits for its client.
    pub(crate) fn insert_dormant(&mut self, cx: &mut Streams, session: Session, managed: Managed) -> SessionId {
        let id = self.sessions.insert(session);
        cx.attach_dormant(id, managed);
        self.users.link(&mut self.sessions, id);
        id
    }

    /// Takes a session out of all lists, with its full JID.
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
        // What its mark says is noted beside the account, where one is in memory.
        if session.marks & 1 << WAKER != 0
            && let Some(state) = &mut self.users.get_mut(session.user).state
        {
            state.notes.put(WAKER, Some(push::registered()));
        }
        Some((full, session))
    }

    /// A session is to end, with its connection if it has one: with this error.
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

    /// The sessions of a user whose account is gone are to end; with `erase` all rows of the account go then.
    pub(crate) fn end_removed(&mut self, cx: &mut Streams, user: u32, erase: bool) {
        let sessions: Vec<_> = self.users.sessions(&self.sessions, user).map(|(id, _)| id).collect();
        for id in sessions {
            cx.tell(id, Down::Removed);
        }
        if erase {
            cx.endings.due.push_back(Due::Account(user));
        }
    }

    /// A session has set off what was done since.
    pub(crate) fn charge_since(&mut self, cx: &mut Streams, session: SessionId, before: u64) {
        let work = cx.done_so_far().saturating_sub(before);
        cx.tell(session, Down::Charge(work));
    }

    /// Makes a send of what waits for a connection, unless one is under way.
    pub(crate) fn flush_one(&mut self, cx: &mut Streams, id: ConnId) {
        if cx.flush(id) && self.observers.is_some() {
            self.tap_sending(cx, id);
        }
    }

    /// The end of a turn: one send for each connection that has something to take.
    pub(crate) fn flush_outbound(&mut self, cx: &mut Streams) {
        if self.observers.is_none() {
            return cx.flush_all(|_| {});
        }
        let mut named = Vec::new();
        cx.flush_all(|conn| named.push(conn));
        named.into_iter().for_each(|conn| self.tap_sending(cx, conn));
    }
}

//! Sessions come and go. That one is to end is recorded, as it is for streams.

use crate::actors::Actors;
use crate::id::SessionId;
use crate::session::table::Session;
use crate::streams::ended::Ended;
use crate::streams::ending::Due;
use crate::watch::trace::News;
use crate::wire::error::StreamCondition;

impl Actors {
    /// A session is there: its user's first one from now on.
    pub(crate) fn insert_session(&mut self, session: Session) -> SessionId {
        let id = self.sessions.insert(session);
        self.users.link(&mut self.sessions, id);
        id
    }

    /// Takes a session out of all lists, with its full JID.
    pub(crate) fn take_session(&mut self, id: SessionId) -> Option<(String, Session)> {
        self.sessions.get(id)?;
        if self.watch.is_some() {
            self.watch_news(id, News::Ended);
        }
        let full = self.full_jid(id);
        self.users.unlink(&mut self.sessions, id);
        let presence = self.sessions.set_presence(id, None);
        let mut session = self.sessions.remove(id)?;
        session.presence = presence;
        Some((full, session))
    }

    /// A session is to end, with its connection if it has one: with this error.
    pub(crate) fn end_session_with(&mut self, id: SessionId, why: Ended, condition: StreamCondition, text: &str) {
        match self.sessions.get(id).map(|session| session.conn) {
            Some(Some(conn)) => self.fail_stream_with(conn, why, condition, Some(text), None),
            Some(None) => self.endings.due.push_back(Due::Session(id)),
            None => {}
        }
    }

    /// The sessions of a user whose account is gone are to end; with `erase` all rows of the account go then.
    pub(crate) fn end_removed(&mut self, user: u32, erase: bool) {
        let sessions: Vec<_> = self.users.sessions(&self.sessions, user).map(|(id, s)| (id, s.conn)).collect();
        for (id, conn) in sessions {
            match conn {
                Some(conn) => self.fail_removed(conn),
                None => self.endings.due.push_back(Due::Session(id)),
            }
        }
        if erase {
            self.endings.due.push_back(Due::Account(user));
        }
    }
}

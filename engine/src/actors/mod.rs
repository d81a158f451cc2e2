//! Users whose home is this shard, what is known about them, and the user halves of their sessions.
//! This module knows no messages, rosters or passwords.

pub(crate) mod asker;
pub(crate) mod debt;
pub(crate) mod hooks;
pub(crate) mod pace;
pub(crate) mod safe;
pub(crate) mod send;
pub(crate) mod session;
pub(crate) mod taps;
pub(crate) mod waiting;

use std::sync::Arc;

use crate::id::{Domains, SessionId};
use crate::observers::Observers;
use crate::router::users::Users;
use crate::session::table::Sessions;
use crate::streams::Streams;
use crate::wire::jid::resource_of;

/// The users of a shard and their sessions.
#[derive(Debug)]
pub(crate) struct Actors {
    pub(crate) sessions: Sessions,
    pub(crate) users: Users,
    /// Number of stanzas and steps that wait for an account, a log or a roster.
    pub(crate) parked: usize,
    /// What an operator observes; usually none.
    pub(crate) observers: Option<Box<Observers>>,
}

impl Actors {
    /// Creates the table without users. `users_key` is secret and keys the index of users.
    pub(crate) fn new(domains: Arc<Domains>, users_key: [u8; 16]) -> Actors {
        Actors { sessions: Sessions::default(), users: Users::new(domains, users_key), parked: 0, observers: None }
    }

    /// Whether a session follows its user's log.
    pub(crate) fn follows(&self, session: SessionId) -> bool {
        self.sessions.get(session).is_some_and(|session| session.follows)
    }

    /// Sets the gauges of users and sessions.
    pub(crate) fn publish_actors(&self, cx: &Streams) {
        let c = &cx.kernel.counters;
        c.sessions.set(self.sessions.len() as u64);
        c.sessions_available.set(self.sessions.available() as u64);
        c.users_loaded.set(self.users.len() as u64);
        c.parked.set(self.parked as u64);
    }

    pub(crate) fn bare_of_user(&self, user: u32) -> String {
        self.users.bare(user)
    }

    pub(crate) fn full_jid(&self, id: SessionId) -> String {
        self.full_jid_parts(id).concat()
    }

    /// Writes the full JID of a session into memory that is reused.
    pub(crate) fn write_full_jid(&self, id: SessionId, full: &mut String) {
        full.clear();
        full.extend(self.full_jid_parts(id));
    }

    fn full_jid_parts(&self, id: SessionId) -> [&str; 5] {
        let session = self.sessions.slot(id.slot);
        [self.users.local(session.user), "@", self.users.domain(session.user), "/", &*session.resource]
    }

    /// Returns the sessions of a bare JID, or the one of a full JID.
    pub(crate) fn sessions_of(&self, jid: &str) -> Vec<SessionId> {
        let Some(user) = self.users.find(jid) else { return Vec::new() };
        let resource = resource_of(jid);
        let of_user = self.users.sessions(&self.sessions, user);
        of_user.filter(|(_, s)| resource.is_none_or(|r| *s.resource == *r)).map(|(id, _)| id).collect()
    }

    /// The language that a session's stanzas inherit from their stream, if it must be declared (RFC
    /// 6120 8.1.5).
    pub(crate) fn lang(&self, session: SessionId) -> Option<Box<str>> {
        self.sessions.get(session)?.extra.as_ref()?.lang.clone()
    }
}

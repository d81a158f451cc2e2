//! The actors' floor: users whose home this shard is, what is known of them, and their sessions. It knows no messages, rosters or
//! passwords.

pub(crate) mod asker;
pub(crate) mod hooks;
pub(crate) mod management;
pub(crate) mod safe;
pub(crate) mod send;
pub(crate) mod session;
pub(crate) mod taps;
pub(crate) mod waiting;
pub(crate) mod work;

use crate::floor::stands_on;
use crate::id::{ConnId, SessionId};
use crate::router::users::Users;
use crate::session::table::Sessions;
use crate::streams::Streams;
use crate::watch::Watch;

/// The users of a shard and their sessions.
#[derive(Debug)]
pub struct Actors {
    streams: Streams,
    pub(crate) sessions: Sessions,
    pub(crate) users: Users,
    /// Stanzas and steps that wait for an account, a log or a roster.
    pub(crate) parked: usize,
    /// Sessions that are not read from until work is paid off; each once.
    pub(crate) paying: Vec<SessionId>,
    /// What sessions have not acknowledged (XEP-0198), bytes.
    pub(crate) unacked_bytes: usize,
    /// What an operator looks at; none most of the time.
    pub(crate) watch: Option<Box<Watch>>,
}

stands_on!(Actors, streams: Streams);

/// What a session may leave unacknowledged before messages stay in its user's log, when all together leave too much, bytes.
const UNACKED_CROWDED_BYTES: usize = 4_096;

impl Actors {
    /// Nobody. `users_key` is secret, and keys the index of users.
    pub(crate) fn new(streams: Streams, users_key: [u8; 16]) -> Actors {
        Actors {
            sessions: Sessions::default(),
            users: Users::new(streams.settings.domains.clone(), users_key),
            streams,
            parked: 0,
            paying: Vec::new(),
            unacked_bytes: 0,
            watch: None,
        }
    }

    /// Sets the gauges of users and sessions.
    pub(crate) fn publish_actors(&self) {
        let c = &self.counters;
        c.sessions.set(self.sessions.len() as u64);
        c.sessions_detached.set(self.sessions.detached() as u64);
        c.sessions_available.set(self.sessions.available() as u64);
        c.users_loaded.set(self.users.len() as u64);
        c.parked.set(self.parked as u64);
    }

    /// The bare JID of a user.
    pub(crate) fn bare_of_user(&self, user: u32) -> String {
        self.users.bare(user)
    }

    /// The full JID of a session.
    pub(crate) fn full_jid(&self, id: SessionId) -> String {
        let session = self.sessions.slot(id.slot);
        let (local, domain) = (self.users.local(session.user), self.users.domain(session.user));
        [local, "@", domain, "/", &*session.resource].concat()
    }

    /// The sessions of a bare JID, or the one of a full JID, with their connections.
    pub(crate) fn sessions_of(&self, jid: &str) -> Vec<(SessionId, Option<ConnId>)> {
        let Some(user) = self.users.find(jid) else { return Vec::new() };
        let resource = jid.split_once('/').map(|(_, r)| r);
        let of_user = self.users.sessions(&self.sessions, user);
        of_user.filter(|(_, s)| resource.is_none_or(|r| *s.resource == *r)).map(|(id, s)| (id, s.conn)).collect()
    }

    /// The language that a session's stanzas inherit from their stream, if it has to be said (RFC 6120 8.1.5).
    pub(crate) fn lang(&self, session: SessionId) -> Option<Box<str>> {
        self.sessions.get(session)?.extra.as_ref()?.lang.clone()
    }

    /// Whether a session has too much to take already. What is for it waits in the log, if it may.
    pub(crate) fn is_busy(&mut self, session: SessionId) -> bool {
        let (soft, most) = (self.settings.outbound_bytes_soft, self.settings.unacked_max);
        let Some(state) = self.sessions.get(session) else { return true };
        // Where all together leave too much, nobody leaves much.
        let all = self.settings.unacked_bytes_max / u64::from(self.settings.shards().max(1));
        let crowded = all > 0 && self.unacked_bytes as u64 > all;
        let soft = if crowded { soft.min(UNACKED_CROWDED_BYTES) } else { soft };
        let unacked = state.managed.as_ref().is_some_and(|m| m.unacked_len() >= most || m.unacked_bytes() > soft);
        let conn = state.conn;
        unacked || conn.is_some_and(|conn| self.is_heavy(conn))
    }
}

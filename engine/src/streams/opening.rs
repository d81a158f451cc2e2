//! Connections from their acceptance until they have a session.

use std::net::IpAddr;

use crate::id::{ConnId, SessionId};
use crate::io::{ListenerKind, TlsFacts};
use crate::limits::EARLY_REQUESTS_MAX;
use crate::session::conn::{Opening, Stage, StreamExpect};
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::wire::error::StreamCondition;
use crate::wire::limit::{Held, Limit};

/// Language of the server's text, and of stanzas on its streams that declare none (RFC 6120 4.7.4).
pub(crate) const SERVER_LANG: &str = "en";

/// Answer to a stream management request that is too early or repeated (XEP-0198 3).
pub(crate) const SM_UNEXPECTED: &[u8] =
    b"<failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";

/// A listener that does not accept logins.
pub(crate) fn closed_listener() -> ListenerKind {
    ListenerKind { direct_tls: false, starttls: false, plain_auth: false, registration: false }
}

/// State of a connection whose session was resumed elsewhere. It only waits for the close.
pub(crate) fn replaced() -> Opening {
    let mut opening = Opening::new(closed_listener(), IpAddr::from([0, 0, 0, 0]), 0, Stage::ExpectHeader);
    opening.blocked = true;
    opening
}

/// Whether a connection may carry credentials.
pub(crate) fn is_private(opening: &Opening) -> bool {
    opening.secured || opening.listener.plain_auth
}

impl Streams {
    pub(crate) fn accepted(&mut self, id: ConnId, listener: ListenerKind, peer: IpAddr) {
        let stage = if listener.direct_tls { Stage::ExpectHandshake } else { Stage::ExpectHeader };
        self.accepted_for(id, listener, peer, stage);
    }

    /// A connection was accepted; `state` is what is expected of it.
    pub(crate) fn accepted_for(&mut self, id: ConnId, listener: ListenerKind, peer: IpAddr, stage: Stage) {
        self.kernel.counters.accepted.one();
        let now_s = self.kernel.now.mono_s();
        self.conns.insert(id, Opening::new(listener, peer, now_s, stage), now_s);
        if self.kernel.shutting_down {
            self.fail_stream(id, StreamCondition::SystemShutdown, None);
        }
        self.bound_opening(id, peer);
    }

    /// Enforces the limit of connections per address that have not logged in.
    fn bound_opening(&mut self, id: ConnId, peer: IpAddr) {
        // Shards share the connections of a port evenly.
        let share = self.opening_share();
        self.bound_by(id, peer, share);
    }

    fn opening_share(&self) -> u32 {
        self.kernel.settings.opening_per_address_max.div_ceil(u32::from(self.kernel.settings.shards().max(1)))
    }

    /// Enforces the same limit for a connection from another shard. Such connections are not
    /// distributed evenly: one shard may have as many as all shards together, and reports when it
    /// has its share.
    pub(crate) fn bound_arrived(&mut self, id: ConnId, peer: IpAddr) -> bool {
        self.bound_by(id, peer, self.kernel.settings.opening_per_address_max);
        let share = self.opening_share();
        share > 0 && self.conns.opening_from(peer) > share
    }

    fn bound_by(&mut self, id: ConnId, peer: IpAddr, most: u32) {
        if most > 0 && self.conns.opening_from(peer) > most {
            let held = Held::by(Limit::Unauthenticated);
            self.kernel.limited(held.into(), || peer.to_string());
            let text = held.to_string();
            self.fail_stream_with(id, Ended::Refused, StreamCondition::ResourceConstraint, Some(&text), None);
        }
    }

    /// Records the client's address. Login attempts count against it.
    pub(crate) fn client(&mut self, id: ConnId, peer: IpAddr) {
        self.conns.set_peer(id, peer);
        self.bound_opening(id, peer);
    }

    pub(crate) fn secured(&mut self, id: ConnId, tls: Box<TlsFacts>) {
        let Some(conn) = self.conns.get(id) else { return };
        conn.expect = StreamExpect::Opening;
        conn.header_sent = false;
        conn.partial = None;
        if let Some(opening) = conn.opening() {
            opening.secured = true;
            opening.tls = Some(tls);
            self.conns.set_stage(id, Stage::ExpectHeader);
        }
    }

    /// Returns the opening of a connection whose input is being handled. It always exists: such a
    /// connection has no session, and endings are carried out later.
    pub(crate) fn heard(&mut self, id: ConnId) -> &mut Opening {
        self.opening(id).expect("a connection that is heard before it has a session is there")
    }

    pub(crate) fn opening(&mut self, id: ConnId) -> Option<&mut Opening> {
        self.conns.get(id)?.opening()
    }

    /// Counts a request made before there is a session. Their number is limited because each is
    /// answered. Returns whether it may be answered; if not, the stream has ended.
    pub(crate) fn early_request(&mut self, id: ConnId) -> bool {
        let Some(opening) = self.opening(id) else { return false };
        opening.requests = opening.requests.saturating_add(1);
        let may = opening.requests <= EARLY_REQUESTS_MAX;
        if !may {
            let text = "too many requests before a resource is bound";
            self.fail_stream(id, StreamCondition::PolicyViolation, Some(text));
        }
        may
    }

    /// Whether the shard has released a connection that is still to be handed over. Its input is
    /// not for this shard; see [`Effect::Depart`](crate::io::Effect::Depart).
    pub(crate) fn is_departing(&mut self, conn: ConnId) -> bool {
        self.conns.get(conn).is_some_and(|c| matches!(c.state(), crate::session::conn::ConnState::Departing))
    }

    /// The client's address where the host cannot know it: a proxy has named the client in an HTTP
    /// header (`X-Forwarded-For`), or the connection is a BOSH session without a socket.
    pub(crate) fn client_of(&self, conn: ConnId) -> Option<IpAddr> {
        self.conns.client(conn)
    }

    /// Returns the id of the session behind a connection.
    pub(crate) fn session_of(&mut self, conn: ConnId) -> Option<SessionId> {
        match self.conns.get(conn)?.state() {
            crate::session::conn::ConnState::Bound(session) => Some(*session),
            _ => None,
        }
    }
}

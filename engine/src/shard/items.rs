//! What is to be known of the next item of a stream, and whom it is for: the same for all transports.

use crate::id::ConnId;
use crate::limits;
use crate::session::conn::{Conn, ConnState, StreamExpect};
use crate::shard::Shard;
use crate::wire::Element;

impl Shard {
    /// Whether nothing of the connection is looked at: it is to end, what it asked for waits to be taken by it, or an answer
    /// from elsewhere decides what comes next.
    #[inline]
    pub(super) fn is_blocked(conn: &Conn) -> bool {
        conn.ending
            || conn.is_unread()
            || match conn.state() {
                ConnState::Opening(opening) => opening.blocked || opening.awaited().is_some(),
                ConnState::Bound(_) | ConnState::Component(_) => false,
                _ => true,
            }
    }

    /// Longest next item of a stream.
    #[inline]
    pub(super) fn item_bytes_max(conn: &Conn, stanza_max: usize) -> usize {
        match (conn.expect, conn.state()) {
            (StreamExpect::Opening | StreamExpect::Header, _) => limits::wire::MAX_HEADER_BYTES,
            (StreamExpect::Content, ConnState::Opening(_)) => limits::PREAUTH_BYTES_MAX.min(stanza_max),
            (StreamExpect::Content, _) => stanza_max,
        }
    }

    /// A first-level element has come. `behind` is what came with it.
    pub(super) fn element(&mut self, id: ConnId, element: &Element<'_>, behind: &[u8]) {
        match *self.cx.conns.heard(id).state() {
            ConnState::Bound(session) => self.from_session(id, session, element),
            ConnState::Component(domain) => self.from_component(id, domain, element),
            ConnState::Opening(_) => self.from_opening(id, element, behind),
            ConnState::Free | ConnState::Closing { .. } | ConnState::Departing => {}
        }
    }
}

//! The next item of a stream: whether it may be processed, and which module it is for. Common to
//! all transports.

use crate::id::ConnId;
use crate::limits;
use crate::session::conn::{Conn, ConnState, StreamExpect};
use crate::shard::Shard;
use crate::wire::Element;

impl Shard {
    /// Whether no input of the connection is processed: its end is due, its output is not read, or
    /// an outstanding answer decides how it continues.
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

    /// Maximum length of a stream's next item.
    #[inline]
    pub(super) fn item_bytes_max(conn: &Conn, stanza_max: usize) -> usize {
        match (conn.expect, conn.state()) {
            (StreamExpect::Opening | StreamExpect::Header, _) => limits::wire::MAX_HEADER_BYTES,
            (StreamExpect::Content, ConnState::Opening(_)) => limits::PREAUTH_BYTES_MAX.min(stanza_max),
            (StreamExpect::Content, _) => stanza_max,
        }
    }

    /// A first-level element has arrived. `behind` is the input that follows it.
    pub(super) fn element(&mut self, id: ConnId, element: &Element<'_>, behind: &[u8]) {
        match *self.cx.conns.heard(id).state() {
            ConnState::Bound(session) => self.from_session(id, session, element),
            ConnState::Component(domain) => self.from_component(id, domain, element),
            ConnState::Opening(_) => self.from_opening(id, element, behind),
            ConnState::Free | ConnState::Closing { .. } | ConnState::Departing => {}
        }
    }
}

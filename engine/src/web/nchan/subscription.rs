//! What a subscriber of Nchan's protocol wants.

use crate::web::handshake::Accept;

/// How a subscriber is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// One message, for which it waits so many seconds.
    Poll(u32),
    /// One message, if there is one.
    Ask,
    /// All, as server-sent events.
    Events,
    /// All, as messages of a WebSocket, whose opening handshake is answered with this; by the subprotocol [`META`](super::META) or not.
    Socket(Box<Accept>, bool),
}

/// What a subscriber wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// How.
    pub way: Way,
    /// Messages of earlier seconds are not wanted, of channels of which it says no more than the time.
    pub since_s: u64,
    /// Where it says it stands: the second, and the tags.
    pub from: Option<(u64, Box<str>)>,
}

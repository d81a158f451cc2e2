//! A subscription by Nchan's protocol.

use crate::web::handshake::Accept;

/// How messages are delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// One message, for which the client waits.
    Poll,
    /// One message, if there is one.
    Ask,
    /// All messages, as server-sent events.
    Events,
    /// All messages, on a WebSocket whose opening handshake is answered with this value; `true`
    /// with the subprotocol [`META`](super::META).
    Socket(Box<Accept>, bool),
}

/// The parameters of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// How messages are delivered.
    pub way: Way,
    /// In channels for which only a time is given, messages before this second are not wanted.
    pub since_s: u64,
    /// The client's position: the second, and the tags.
    pub from: Option<(u64, Box<str>)>,
}

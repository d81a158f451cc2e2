//! What goes along when a connection moves to its user's home shard.

use std::net::IpAddr;

use super::bosh::Bosh;
use super::facts::ListenerKind;
use super::inline::Inline;
use super::sasl::Authenticated;
use crate::id::DomainId;
use crate::web::Transport;
use crate::wire::StreamScope;

/// State of a connection between the two shards: authenticated, without a session yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// Whose it is, proven.
    pub owner: Authenticated,
    /// What its listener said.
    pub listener: ListenerKind,
    /// The other end.
    pub peer: IpAddr,
    /// The host cannot know it: a proxy has named it, or there is no socket.
    pub named: bool,
    /// The stream is encrypted.
    pub secured: bool,
    /// Second (monotonic) when it was accepted: the time to bind a resource runs on.
    pub accepted_s: u32,
    /// How its bytes are read and written: from the next one on, since the last message has been used up.
    pub transport: Transport,
    /// Bytes received and not yet looked at; at most one read.
    pub leftover: Vec<u8>,
    /// The stream goes on (XEP-0388 2.6.1); if not, it is restarted (RFC 6120 6.4.6).
    pub stream: Option<Box<MovedStream>>,
}

/// A stream that goes on at another shard.
#[derive(Clone, Debug, PartialEq)]
pub struct MovedStream {
    /// What its header declared.
    pub scope: StreamScope,
    /// Language of its stanzas, where it is not the server's own.
    pub lang: Option<Box<str>>,
    /// The domain that it is with.
    pub domain: DomainId,
    /// What came with the authentication, and is to be done.
    pub inline: Box<Inline>,
}

/// What goes along when a session of BOSH moves, behind which there is no socket.
#[derive(Clone, Debug, PartialEq)]
pub struct Handover {
    /// The stream.
    pub moved: Moved,
    /// The requests.
    pub bosh: Bosh,
    /// What the stream has sent and no request has taken.
    pub pending: Vec<u8>,
}

//! What accompanies a connection that moves to another shard: to its user's home, or to the home of
//! the channel that it waits for.

use std::net::IpAddr;

use super::bosh::Bosh;
use super::facts::{ListenerKind, TlsFacts};
use super::inline::Inline;
use super::sasl::Authenticated;
use crate::id::{Border, Crosses, DomainId, ShardId};
use crate::web::Transport;
use crate::wire::StreamScope;

/// Why a connection moves, and therefore to which home.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Errand {
    /// Its peer has proven an identity: authenticated, without a session yet.
    Login(Authenticated),
    /// It is to wait for the items of a channel with few subscribers.
    Channel(Box<Follower>),
}

/// An HTTP connection that moves to the home of its channel. Its request is in the leftover bytes
/// again, and is read there.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Follower {
    /// The channel's node.
    pub node: Box<str>,
    /// The shard that it comes from.
    pub from: ShardId,
    /// How many requests wait for channels at that shard.
    pub waiting: u32,
    /// Facts of its TLS handshake, which a later request may need.
    pub tls: Option<Box<TlsFacts>>,
    /// The proxy that named its client.
    pub proxy: Option<IpAddr>,
}

/// State of a connection in transit between two shards.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Moved {
    /// The reason for the move.
    pub errand: Errand,
    /// Properties of its listener.
    pub listener: ListenerKind,
    /// The peer's address.
    pub peer: IpAddr,
    /// Whether the host cannot know the address: a proxy named it, or there is no socket.
    pub named: bool,
    /// The stream is encrypted.
    pub secured: bool,
    /// Second (monotonic) when it was accepted. The time limit for binding a resource keeps
    /// running.
    pub accepted_s: u32,
    /// How its bytes are read and written. It applies from the next message, because the last one
    /// has been used up.
    pub transport: Transport,
    /// Bytes received and not yet processed; at most one read.
    pub leftover: Vec<u8>,
    /// The stream, if it continues (XEP-0388 2.6.1); if `None`, it restarts (RFC 6120 6.4.6).
    pub stream: Option<Box<MovedStream>>,
}

impl Moved {
    /// Whether it belongs to a component (XEP-0114).
    pub fn is_component(&self) -> bool {
        matches!(&self.errand, Errand::Login(owner) if owner.is_component())
    }

    /// The actor whose home it moves to.
    pub fn home(&self) -> &str {
        match &self.errand {
            Errand::Login(owner) => owner.bare(),
            Errand::Channel(follower) => &follower.node,
        }
    }
}

/// A stream that continues at another shard.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct MovedStream {
    /// Declarations of its header.
    pub scope: StreamScope,
    /// Language of its stanzas, if it differs from the server's.
    pub lang: Option<Box<str>>,
    /// The domain of the stream.
    pub domain: DomainId,
    /// Inlined requests that are to be carried out.
    pub inline: Box<Inline>,
}

/// What accompanies a BOSH session that moves; it has no socket.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Handover {
    /// The stream.
    pub moved: Moved,
    /// The requests.
    pub bosh: Bosh,
    /// Output of the stream that no request has taken.
    pub pending: Vec<u8>,
}

impl Crosses for Moved {
    fn cross(&mut self, border: Border) {
        border.past_s(&mut self.accepted_s);
    }
}

impl Crosses for Handover {
    fn cross(&mut self, border: Border) {
        self.moved.cross(border);
        self.bosh.cross(border);
    }
}

//! What goes along when a connection moves to another shard: to its user's home, or to that of the channel for which it waits.

use std::net::IpAddr;

use super::bosh::Bosh;
use super::facts::{ListenerKind, TlsFacts};
use super::inline::Inline;
use super::sasl::Authenticated;
use crate::id::{DomainId, ShardId};
use crate::web::Transport;
use crate::wire::StreamScope;

/// Why a connection moves, and so to which home.
#[derive(Clone, Debug, PartialEq)]
pub enum Errand {
    /// Its peer has proven whose it is: authenticated, without a session yet.
    Login(Authenticated),
    /// It is to wait for the items of one channel, which few do.
    Channel(Box<Follower>),
}

/// A connection of HTTP that goes where its channel is. Its request has come back into what is left over, and is read there.
#[derive(Clone, Debug, PartialEq)]
pub struct Follower {
    /// The channel's node.
    pub node: Box<str>,
    /// Where it comes from.
    pub from: ShardId,
    /// How many requests wait there for channels.
    pub waiting: u32,
    /// Facts of its TLS handshake, which a later request may ask for.
    pub tls: Option<Box<TlsFacts>>,
    /// The proxy that has named its client.
    pub proxy: Option<IpAddr>,
}

/// State of a connection between the two shards.
#[derive(Clone, Debug, PartialEq)]
pub struct Moved {
    /// What for.
    pub errand: Errand,
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

impl Moved {
    /// Whether it is a component's (XEP-0114).
    pub fn is_component(&self) -> bool {
        matches!(&self.errand, Errand::Login(owner) if owner.is_component())
    }

    /// The actor to whose home it goes.
    pub fn home(&self) -> &str {
        match &self.errand {
            Errand::Login(owner) => owner.bare(),
            Errand::Channel(follower) => &follower.node,
        }
    }
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

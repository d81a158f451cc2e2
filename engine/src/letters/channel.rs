//! Letters about channels.

use std::net::IpAddr;

use crate::id::{ConnId, PushId};
use crate::letters::{ConnRef, Name, Span};
use crate::wire::limit::Refusal;

/// Letters between shards about channels.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum ChannelLetter {
    /// A client publishes over HTTP to a channel of this home. [`ChannelLetter::Answer`] has the
    /// result.
    Publish {
        /// The connection.
        conn: ConnRef,
        /// The request's number at the connection's shard.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The publisher's network: an IPv4 address, or the first address of an IPv6 /64. Empty if
        /// the publisher has presented the operator's token.
        from: Name,
        /// The content type.
        kind: Name,
        /// The publisher's name for it; empty for none.
        key: Name,
        /// For each item the key by which it replaces an earlier one, separated by line feeds;
        /// empty if no item has one.
        keys: Name,
        /// The content.
        body: Span,
        /// Whether the channel may be created if it does not exist.
        makes: bool,
        /// Whether the publisher has presented a token that permits it.
        granted: bool,
        /// Each line of the content is an item.
        batch: bool,
    },
    /// Requests items of a channel of this home for a connection, and watches the channel from now
    /// on. [`ChannelLetter::Answer`] has the existing items, [`ChannelLetter::News`] later ones.
    Read {
        /// The connection.
        conn: ConnRef,
        /// The request's number at the connection's shard.
        number: u32,
        /// The node's actor.
        node: Name,
        /// After the item of this number; `u64::MAX` requests only the channel's position.
        after: u64,
        /// How many connections of this shard watch it.
        watchers: u32,
        /// How many channels the request is for.
        share: u8,
    },
    /// Requests items of a channel of this home once. [`ChannelLetter::Answer`] has them.
    History {
        /// The connection.
        conn: ConnRef,
        /// The request's number at the connection's shard.
        number: u32,
        /// The node's actor.
        node: Name,
        /// After the item of this number.
        after: u64,
        /// Before the item of this number, newest first; 0 for oldest first.
        before: u64,
        /// Maximum number of items; 0 requests only the channel's position.
        items: u32,
    },
    /// The answer of a channel's home to a connection.
    Answer {
        /// The connection.
        conn: ConnId,
        /// The request's number at the connection's shard.
        number: u32,
        /// The reason of a refusal, if it is refused.
        refused: Option<Box<Refusal>>,
        /// The answer.
        body: Span,
    },
    /// An item was published to a channel that this shard watches.
    News {
        /// The node's actor.
        node: Name,
        /// The item's number, or that of the last item if it is empty.
        number: u64,
        /// The key by which it replaces an earlier item; empty for none.
        key: Name,
        /// The item in the form that subscribers are sent.
        item: Span,
    },
    /// Whether the shard still watches a channel of this home.
    Watch {
        /// The node's actor.
        node: Name,
        /// The number of the last item that it has received.
        heard: u64,
        /// How many connections watch it there; 0 if the shard no longer watches it.
        watchers: u32,
    },
    /// Connections that wait for a channel of the sending shard must not move there for a while.
    Stay {
        /// The node's actor; empty for any channel.
        node: Name,
    },
    /// An item from this address was sent to this many subscribers.
    Charge {
        /// The publisher's address. The connection's shard charges it.
        address: IpAddr,
        /// Number of subscribers.
        told: u32,
    },
    /// The subscribers of a channel of this home at the sending shard. A complete report of a shard
    /// that listens is answered by [`ChannelLetter::Occupied`] at once; any other report, if it
    /// changes something.
    Present {
        /// The node's actor.
        node: Name,
        /// Number of subscribers.
        subscribers: u32,
        /// Names with their numbers: all of them, or those that have changed, with 0 for a name
        /// that is gone.
        names: Span,
        /// Whether all names are included.
        whole: bool,
        /// Whether there are more names.
        more: bool,
        /// Whether the shard has clients that receive occupancy.
        listens: bool,
    },
    /// The subscribers of a channel at all shards, for clients of this one that receive occupancy.
    Occupied {
        /// The node's actor.
        node: Name,
        /// Number of subscribers.
        subscribers: u32,
        /// All names with their numbers; empty if there are too many to report.
        names: Span,
        /// Whether there are more names.
        more: bool,
    },
    /// A connection requests the occupancy of a channel of this home. [`ChannelLetter::Answer`] has
    /// it.
    Count {
        /// The connection.
        conn: ConnRef,
        /// The request's number at the connection's shard.
        number: u32,
        /// The node's actor.
        node: Name,
    },
    /// A page registers for pushes at a channel of this home. [`ChannelLetter::Answer`] has the
    /// result.
    Register {
        /// The connection.
        conn: ConnRef,
        /// The request's number at the connection's shard.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The network of the page.
        from: Name,
        /// The registration.
        id: PushId,
        /// Its row.
        row: Span,
        /// Whether registrations are permitted before the channel exists.
        makes: bool,
    },
    /// A page cancels its registration for pushes. [`ChannelLetter::Answer`] confirms it.
    Unregister {
        /// The connection.
        conn: ConnRef,
        /// The request's number at the connection's shard.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The network of the page.
        from: Name,
        /// The registration.
        id: PushId,
    },
    /// A page that has registered at a channel of this home begins or ceases to listen to it at the
    /// sending shard.
    Listens {
        /// The node's actor.
        node: Name,
        /// The registration.
        id: PushId,
        /// Whether it listens.
        listens: bool,
    },
    /// A publisher using Nchan's protocol requests information about a channel of this home.
    /// [`ChannelLetter::Answer`] has it.
    Info {
        /// The connection.
        conn: ConnRef,
        /// The request's number at the connection's shard.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The requester's address; empty if it has presented the operator's token.
        from: Name,
        /// Whether the requester has presented a token that permits publishing there.
        granted: bool,
        /// Whether the channel's items are to be deleted.
        deletes: bool,
    },
    /// A channel that this shard watches was deleted by Nchan's protocol. Its Nchan subscribers are
    /// informed.
    Gone {
        /// The node's actor.
        node: Name,
        /// Only subscribers behind this connection; `None` for all.
        behind: Option<ConnId>,
    },
}

//! Letters about channels.

use std::net::IpAddr;

use crate::id::{ConnId, PushId};
use crate::letters::{ConnRef, Name, Span};
use crate::wire::limit::Refusal;

/// What shards say to each other about channels.
#[derive(Clone, Debug, PartialEq)]
pub enum ChannelLetter {
    /// Somebody publishes by HTTP at a channel of this home: [`ChannelLetter::Answer`] says what came of it.
    Publish {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The network of who publishes: an address, of IPv6 the first of its /64. Empty for who has shown the operator's token.
        from: Name,
        /// The content type.
        kind: Name,
        /// What the publisher knows it by; empty for nothing.
        key: Name,
        /// Of each item the key by which it replaces the one before, with line feeds between them; empty for none of any.
        keys: Name,
        /// The content.
        body: Span,
        /// The channel may be made, if it is not there.
        makes: bool,
        /// Who publishes has shown a token that grants it.
        granted: bool,
        /// Each line of the content is an item.
        batch: bool,
    },
    /// Items of a channel of this home are wanted for a connection, and the shard watches it from now on: [`ChannelLetter::Answer`]
    /// has those that are there, [`ChannelLetter::News`] those that come.
    Read {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// Behind the item of this number; `u64::MAX`: only where the channel stands.
        after: u64,
        /// How many of this shard's watch it.
        watchers: u32,
        /// For so many channels at once.
        share: u8,
    },
    /// Items of a channel of this home are wanted once: [`ChannelLetter::Answer`] has them.
    History {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// Behind the item of this number.
        after: u64,
        /// Before this one, the last one first; 0: in their order.
        before: u64,
        /// So many at the most; 0: only where the channel stands.
        items: u32,
    },
    /// What the home of a channel answers to a connection.
    Answer {
        /// The connection.
        conn: ConnId,
        /// What its shard knows the request by.
        number: u32,
        /// Why not, if not.
        refused: Option<Box<Refusal>>,
        /// The answer.
        body: Span,
    },
    /// An item was published at a channel that this shard watches.
    News {
        /// The node's actor.
        node: Name,
        /// The item's number, or that of the last one, if it is empty.
        number: u64,
        /// The key by which it replaces the one before; empty for none.
        key: Name,
        /// It, as it is told.
        item: Span,
    },
    /// The shard watches a channel of this home still, or does not any more.
    Watch {
        /// The node's actor.
        node: Name,
        /// The number of the last item that it has heard of.
        heard: u64,
        /// How many watch it there: none, if it does not.
        watchers: u32,
    },
    /// Connections that wait for a channel of the sending shard are not to go there for a while.
    Stay {
        /// The node's actor; empty: that of any.
        node: Name,
    },
    /// What an address has published was told to so many.
    Charge {
        /// The connection's shard counts it.
        address: IpAddr,
        /// How many.
        told: u32,
    },
    /// Who subscribes to a channel of this home at the sending shard. [`ChannelLetter::Occupied`] follows a whole report of one that
    /// listens at once, and any of another when it changes something.
    Present {
        /// The node's actor.
        node: Name,
        /// How many.
        subscribers: u32,
        /// Names with their numbers: all of them, or those that have changed, 0 for one that is gone.
        names: Span,
        /// It is all of them.
        whole: bool,
        /// There are more names.
        more: bool,
        /// Some there are told who subscribes.
        listens: bool,
    },
    /// Who subscribes to a channel at all shards, for those of this one who are told.
    Occupied {
        /// The node's actor.
        node: Name,
        /// How many.
        subscribers: u32,
        /// All names with their numbers; none, if there are more than are told.
        names: Span,
        /// There are more names.
        more: bool,
    },
    /// A connection asks who subscribes to a channel of this home: [`ChannelLetter::Answer`] says it.
    Count {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
    },
    /// A page registers for pushes at a channel of this home: [`ChannelLetter::Answer`] says what came of it.
    Register {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The network of the page.
        from: Name,
        /// The registration.
        id: PushId,
        /// Its row.
        row: Span,
        /// There may be registrations if there is no such channel yet.
        makes: bool,
    },
    /// A page does not want pushes any more: [`ChannelLetter::Answer`] says when it is done.
    Unregister {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The network of the page.
        from: Name,
        /// The registration.
        id: PushId,
    },
    /// A page that has registered at a channel of this home listens to it at the sending shard, or does not any more.
    Listens {
        /// The node's actor.
        node: Name,
        /// The registration.
        id: PushId,
        /// It does.
        listens: bool,
    },
    /// A publisher by Nchan's protocol asks what there is to tell of a channel of this home: [`ChannelLetter::Answer`] says it.
    Info {
        /// The connection.
        conn: ConnRef,
        /// What its shard knows the request by.
        number: u32,
        /// The node's actor.
        node: Name,
        /// The address of who asks; empty for who has shown the operator's token.
        from: Name,
        /// Who asks has shown a token that grants to publish there.
        granted: bool,
        /// And its items are to be deleted.
        deletes: bool,
    },
    /// A channel that this shard watches was deleted by Nchan's protocol: its subscribers by that are told.
    Gone {
        /// The node's actor.
        node: Name,
        /// Those behind this connection; `None`: all.
        behind: Option<ConnId>,
    },
}

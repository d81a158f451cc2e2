//! The results of hooks: closed values that say what follows.

use super::photo::Photo;
use super::pubsub::event::Event;
use super::pubsub::notice::{News, Notice};
use super::pubsub::service::known::Known;
use super::push::row::Registration;
use crate::store::Batch;
use crate::store::room::Alert;

/// The direction of a stanza from the user's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From another address to the user.
    In,
    /// From one of the user's sessions to another address.
    Out,
}

/// The fate of a stanza that is about to be sent to a session.
#[derive(Debug, PartialEq, Eq)]
pub enum Going {
    /// It is sent.
    Goes,
    /// These are sent first, in this order, and then the stanza.
    After(Vec<Vec<u8>>),
    /// It is not sent now. The hook has stored what it needs of it. Never used for a message that
    /// waits in a log.
    Kept,
}

/// A request from the server to a client (RFC 6120 8.2.3). The answer goes to the extension that
/// sent the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The type: true for `set`, false for `get`.
    pub set: bool,
    /// The payload, one element.
    pub payload: Vec<u8>,
}

/// What a first-level element that is no stanza, an answer, or a resumption changes in its session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SessionChange {
    /// Whether the extension's mark on the session is set or removed; `None` leaves it unchanged.
    pub mark: Option<bool>,
    /// Stanzas for the session, in this order.
    pub send: Vec<Vec<u8>>,
    /// Requests to its client. Of the unanswered requests the latest
    /// [`ASKED_MAX`](crate::limits::ASKED_MAX) are remembered.
    pub ask: Vec<Ask>,
    /// The client's capabilities, verified by their hash.
    pub capable: Option<Capable>,
}

/// The capabilities that belong to a verification string (XEP-0115 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capable {
    /// The verification string, computed from the client's answer.
    pub ver: Box<str>,
    /// Nodes that the client is interested in (XEP-0060 9.2), sorted.
    pub interests: Box<[Box<str>]>,
}

/// What a request changes (see [`Step::Change`](super::Step::Change)).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Change {
    /// Sets or removes the extension's mark on the requesting session.
    Mark(bool),
    /// Sets or removes the extension's mark on all sessions of the user.
    MarkAll(bool),
    /// Replaces the extension's record of the user; an empty one removes it.
    Record(Vec<u8>),
    /// Sends an IQ of type `set` with this payload to all of the user's sessions with the mark.
    Push(Vec<u8>),
    /// Sends unavailable presence to the contacts that match this JID
    /// ([`jid::matches`](crate::wire::jid::matches)) and may see the user's presence.
    Hide(Box<str>),
    /// Sends the user's current presence to them.
    Show(Box<str>),
    /// Writes this.
    Write(Batch),
    /// Tells a room for which messages the user is woken while absent; `None` for none.
    Alert {
        /// The room.
        room: Box<str>,
        /// When.
        alert: Option<Alert>,
    },
    /// Notifies those who may see this event and are interested in it.
    Event(Box<Event>),
    /// Sends these a notice about a node of a service.
    Notice(Box<Notice>),
    /// Delivers this item of a node to the HTTP clients that wait for it.
    News(Box<News>),
    /// Caches facts about a node of a service, once all writes are done.
    Known {
        /// The node's actor.
        node: Box<str>,
        /// The facts.
        known: Box<Known>,
    },
    /// A browser has registered for Web Push at this node of a service.
    Awaited(Box<str>),
    /// Informs clients that wait by Nchan's protocol that the items of this node were deleted.
    Gone(Box<str>),
    /// A node of a service has been deleted.
    Deleted {
        /// The node's actor.
        node: Box<str>,
        /// The number of its last publication.
        last: u64,
    },
    /// Sends an unaddressed message of type `normal` to a user (bare JID). It may wait there.
    Message {
        /// The sender.
        from: Box<str>,
        /// The user.
        to: Box<str>,
        /// The message.
        xml: Vec<u8>,
    },
    /// Informs the home of a user or of a service about a node of the service.
    Belongs {
        /// The user (bare JID), or the service.
        to: Box<str>,
        /// The node: its actor for a user, its name for the service.
        node: Box<str>,
        /// Whether the user requested it.
        own: bool,
        /// The user's relation to the node; empty for none.
        row: Vec<u8>,
    },
    /// Sends a user the items of a node that it has missed.
    CaughtUp {
        /// The node's actor.
        node: Box<str>,
        /// The service.
        from: Box<str>,
        /// The user (bare JID).
        user: Box<str>,
        /// A page of messages, without addresses.
        page: Vec<u8>,
    },
    /// Charges the requester for this many letters with this many bytes in all.
    Charge {
        /// Receivers.
        count: usize,
        /// Bytes over all of them.
        bytes: usize,
    },
    /// Sets the user's photo (XEP-0398 4), which is shown to everyone who sees the user's presence.
    /// The row is written separately.
    Photo(Photo),
    /// The user's registrations, which the server has requested.
    Registered(Vec<Registration>),
    /// One of the user's registrations has ended.
    Dropped(Box<Dropped>),
}

/// A user's registration that has ended because of its service's answer (XEP-0357 7.1).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Dropped {
    /// The service's JID.
    pub service: Box<str>,
    /// The reason: a condition of RFC 6120 8.3.3, or `no-answer`.
    pub reason: Box<str>,
}

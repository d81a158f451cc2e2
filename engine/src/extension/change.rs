//! What hooks answer: the closed values that say what should follow.

use super::photo::Photo;
use super::pubsub::event::Event;
use super::pubsub::notice::{News, Notice};
use super::pubsub::service::known::Known;
use super::push::row::Registration;
use crate::store::Batch;

/// Which way a stanza goes, seen from the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From another address to the user.
    In,
    /// From one of the user's sessions to another address.
    Out,
}

/// What becomes of a stanza that is about to go to a session.
#[derive(Debug, PartialEq, Eq)]
pub enum Going {
    /// It goes.
    Goes,
    /// These go first, in this order, and then it goes.
    After(Vec<Vec<u8>>),
    /// It does not go now. The hook has kept what it needs of it. Never said of a message that waits in a log.
    Kept,
}

/// A request of the server's own to a client (RFC 6120 8.2.3): what comes back goes to the extension that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// `set`, or else `get`.
    pub set: bool,
    /// The payload, one element.
    pub payload: Vec<u8>,
}

/// What a first-level element that is no stanza, an answer, or a resumption, changes of its session.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SessionChange {
    /// Whether the extension has a mark on the session from now on; `None` leaves it as it is.
    pub mark: Option<bool>,
    /// Stanzas for the session, in this order.
    pub send: Vec<Vec<u8>>,
    /// Requests to its client. Of those that are not answered the latest [`ASKED_MAX`](crate::limits::ASKED_MAX) are remembered.
    pub ask: Vec<Ask>,
    /// What the client can do, which it has proved.
    pub capable: Option<Capable>,
}

/// What capabilities with a verification string stand for (XEP-0115 5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capable {
    /// The verification string, made from what the client has answered.
    pub ver: Box<str>,
    /// Nodes that it is interested in (XEP-0060 9.2), sorted.
    pub interests: Box<[Box<str>]>,
}

/// What a request changes (see [`Step::Change`](super::Step::Change)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Whether the extension has a mark on the session that asks.
    Mark(bool),
    /// Whether the extension has a mark on all sessions of the user.
    MarkAll(bool),
    /// The extension's record of the user is this; empty removes it.
    Record(Vec<u8>),
    /// An IQ of type `set` with this payload goes to all of the user's sessions with the mark.
    Push(Vec<u8>),
    /// Contacts that this JID matches, and may see the user's presence, see it go ([`jid::matches`](crate::wire::jid::matches)).
    Hide(Box<str>),
    /// They see it as it is.
    Show(Box<str>),
    /// This is written.
    Write(Batch),
    /// Those who may see it, and want to, are told of this.
    Event(Box<Event>),
    /// These are told of something at a node of a service.
    Notice(Box<Notice>),
    /// Whoever waits by HTTP for items of a node of a service is told of this one.
    News(Box<News>),
    /// This is known of a node of a service when all that is written has been.
    Known {
        /// The node's actor.
        node: Box<str>,
        /// What.
        known: Box<Known>,
    },
    /// A page has registered for pushes of this node of a service.
    Awaited(Box<str>),
    /// Whoever waits by Nchan's protocol for items of this node of a service is told that they were deleted.
    Gone(Box<str>),
    /// A node of a service is gone, whose last publication had this number.
    Deleted {
        /// The node's actor.
        node: Box<str>,
        /// The number.
        last: u64,
    },
    /// A message of type `normal`, unaddressed, goes to a user (bare JID), and may wait there.
    Message {
        /// Whom it is from.
        from: Box<str>,
        /// The user.
        to: Box<str>,
        /// The message.
        xml: Vec<u8>,
    },
    /// The home of a user, or of a service, hears of a node of the service.
    Belongs {
        /// The user (bare JID), or the service.
        to: Box<str>,
        /// The node: its actor for a user, its name for the service.
        node: Box<str>,
        /// The user has asked for it.
        own: bool,
        /// What it is there; empty for nothing.
        row: Vec<u8>,
    },
    /// Who asks is charged for so many letters with so many bytes in all.
    Charge {
        /// Receivers.
        count: usize,
        /// Bytes for all of them.
        bytes: usize,
    },
    /// The user's photo is this one (XEP-0398 4): those who see the user's presence are shown it. The row is written beside.
    Photo(Photo),
    /// The user's registrations, which the server has asked for.
    Registered(Vec<Registration>),
    /// One of them has ended.
    Dropped(Box<Dropped>),
}

/// A registration of a user's that has ended because of what its service has answered (XEP-0357 7.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The service's JID.
    pub service: Box<str>,
    /// Why: a condition of RFC 6120 8.3.3, or `no-answer`.
    pub reason: &'static str,
}

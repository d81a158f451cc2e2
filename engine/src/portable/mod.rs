//! Accounts in the exchange format of other servers: the Portable Import/Export Format (XEP-0227),
//! on data alone.
//!
//! [`Arrival`] takes the parts of one `<user/>` element in sequence and writes the rows of an
//! account. [`export`] does the reverse. Neither accesses the file: the host reads it, element by
//! element, and carries out the writes. The memory per user is bounded: rosters, waiting messages,
//! private XML, and the ids of items of nodes.
//!
//! Data that cannot be imported is skipped with a warning, a [`Word`] (XEP-0227 4: "SHOULD ignore
//! the unknown data, SHOULD notify the operator").

mod arrival;
mod export;
mod keys;
mod message;
mod nodes;
mod records;
mod roster;
mod xml;

pub use arrival::{Arrival, Arrived};
pub use export::{Departed, Keys, Portion, export};

/// The format's own namespace.
pub const NS: &str = "urn:xmpp:pie:0";
const NS_SCRAM: &str = "urn:xmpp:pie:0#scram";
const NS_ARCHIVE: &str = "urn:xmpp:pie:0#mam";
const NS_CLIENT: &str = "jabber:client";
const NS_ROSTER: &str = "jabber:iq:roster";
const NS_PRIVATE: &str = "jabber:iq:private";
const NS_PRIVACY: &str = "jabber:iq:privacy";
const NS_VCARD: &str = "vcard-temp";
const NS_NODES: &str = "http://jabber.org/protocol/pubsub";
const NS_OWNER: &str = "http://jabber.org/protocol/pubsub#owner";
const NS_MAM: &str = "urn:xmpp:mam:2";
const NS_FORWARD: &str = "urn:xmpp:forward:0";
const NS_DELAY: &str = "urn:xmpp:delay";

/// Maximum number of a user's messages that wait for a first session: far more than a server
/// allows.
pub const WAITING_MAX: usize = 10_000;

/// Maximum bytes of these messages.
pub const WAITING_BYTES_MAX: usize = 32 << 20;

/// Children of a `<user/>` element whose own children are processed one by one, however many there
/// are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Container {
    /// `<query xmlns='jabber:iq:roster'/>` (XEP-0227 4.4).
    Roster,
    /// `<offline-messages/>` (4.5).
    Waiting,
    /// `<query xmlns='jabber:iq:private'/>` (4.6).
    Private,
    /// `<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'/>` (4.10.1).
    Owner,
    /// `<pubsub xmlns='http://jabber.org/protocol/pubsub'/>` (4.10.2): its children are containers,
    /// too.
    Nodes,
    /// `<archive xmlns='urn:xmpp:pie:0#mam'/>` (4.11).
    Archive,
}

/// The container that an element represents as a child of `<user/>`, if any.
pub fn container(namespace: &str, name: &str) -> Option<Container> {
    Some(match (namespace, name) {
        (NS_ROSTER, "query") => Container::Roster,
        (NS, "offline-messages") => Container::Waiting,
        (NS_PRIVATE, "query") => Container::Private,
        (NS_OWNER, "pubsub") => Container::Owner,
        (NS_NODES, "pubsub") => Container::Nodes,
        (NS_ARCHIVE, "archive") => Container::Archive,
        _ => return None,
    })
}

/// The position of a complete element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place<'a> {
    /// A child of `<user/>` that is not a container.
    User,
    /// A child of a container.
    In(Container),
    /// A child of `<items/>` of this node.
    Node(&'a str),
}

/// A warning about data that was skipped or changed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Word {
    /// The kind of data, such as `contact`.
    pub what: &'static str,
    /// The reason, and how the data was treated.
    pub why: String,
}

impl Word {
    fn new(what: &'static str, why: impl Into<String>) -> Word {
        Word { what, why: why.into() }
    }
}

/// Number of items of each kind that were imported or exported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Contacts in rosters.
    pub contacts: u64,
    /// Subscription requests that wait for an answer.
    pub requests: u64,
    /// Messages in archives.
    pub archived: u64,
    /// Messages that wait for a first session.
    pub waiting: u64,
    /// Elements of private XML.
    pub private: u64,
    /// vCards.
    pub vcards: u64,
    /// Nodes.
    pub nodes: u64,
    /// Items of nodes.
    pub items: u64,
    /// Blocked addresses.
    pub blocked: u64,
}

impl Counts {
    /// All counts by name.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("contacts", self.contacts),
            ("requests", self.requests),
            ("archived", self.archived),
            ("waiting", self.waiting),
            ("private", self.private),
            ("vcards", self.vcards),
            ("nodes", self.nodes),
            ("items", self.items),
            ("blocked", self.blocked),
        ]
    }

    /// Adds other counts.
    pub fn add(&mut self, other: &Counts) {
        self.contacts += other.contacts;
        self.requests += other.requests;
        self.archived += other.archived;
        self.waiting += other.waiting;
        self.private += other.private;
        self.vcards += other.vcards;
        self.nodes += other.nodes;
        self.items += other.items;
        self.blocked += other.blocked;
    }
}

//! The definition of an extension: one row of the table, with a hook for each point at which it
//! takes part.
//!
//! Hooks are functions. They read their arguments, may change the note that their extension keeps
//! for a session, and return closed values that say what follows. They never read the store, write
//! or send, and never call another extension. An absent hook costs nothing. A hook costs something
//! only where its extension has a mark on a session or a record of a user.

use super::caps::Identity;
use super::change::{Ask, Going, SessionChange, Way};
use super::iq::{Context, Feature, IqRequest, ServerFacts, Step};
use super::note::Note;
use crate::id::{Domains, Service};
use crate::store::Batch;
use crate::store::archive::Entry;
use crate::store::ids::Ids;
use crate::wire::Element;
use crate::wire::limit::Refusal;

/// See [`Extension::serves`].
pub type Serves = fn(&Context<'_>, &IqRequest<'_>, Discovery<'_>) -> Option<Step>;

/// The note of an extension for a session, if any.
pub type Kept = Option<Box<dyn Note>>;

/// First-level elements that are not stanzas.
#[derive(Debug)]
pub struct Nonza {
    /// Their namespace.
    pub namespace: &'static str,
    /// Handles one by its name; `None` if there is no such element (RFC 6120 4.9.3.24). The note is
    /// the session's.
    pub handle: fn(&mut Kept, &str) -> Option<SessionChange>,
}

/// Sees stanzas that are about to be sent to a session with the extension's mark.
#[derive(Debug)]
pub struct Gate {
    /// Decides about a stanza. `logged` means that it is a message that waits in a log.
    pub pass: fn(&mut Kept, &Element<'_>, logged: bool) -> Going,
    /// The session has been resumed on another connection (XEP-0198 5).
    pub resumed: fn(&mut Kept) -> SessionChange,
}

/// Copies of a user's messages for sessions that have the extension's mark and do not receive the
/// message itself.
#[derive(Debug)]
pub struct Copies {
    /// Whether a message is to be copied.
    pub takes: fn(&Element<'_>) -> bool,
    /// Appends the copy of a complete message for a session of the user.
    pub write: fn(&mut Vec<u8>, &Original<'_>),
}

/// A message to be copied.
#[derive(Clone, Copy, Debug)]
pub struct Original<'a> {
    /// The complete message.
    pub xml: &'a [u8],
    /// Its type; empty if it has none.
    pub kind: &'a str,
    /// Whether the user received it or one of the user's sessions sent it.
    pub way: Way,
    /// The user's bare JID.
    pub user: &'a str,
    /// Full JID of the session that receives the copy.
    pub to: &'a str,
    /// For a late copy, the complete element with the time of the message (XEP-0203); otherwise
    /// empty.
    pub delay: &'a [u8],
}

/// A row that an extension stores per user. It is in memory whenever the user's account is, or the
/// user has a session.
#[derive(Debug)]
pub struct Record {
    /// Decodes the row; `None` if it is unreadable.
    pub load: fn(&[u8]) -> Option<Box<dyn Note>>,
    /// Whether a stanza between the user and an address (bare JID, full JID or domain) is refused.
    /// `Actors::guards` decides what that means for each kind of stanza.
    pub refuses: fn(&dyn Note, Way, &str) -> Option<Refusal>,
    /// Whether a message between the user and an address may be archived for the user. The first
    /// address is the user's bare JID.
    pub archives: fn(&dyn Note, &str, &str) -> bool,
    /// Called when the user's roster may have changed, with its contacts (bare JIDs). Returns the
    /// new record if it differs.
    pub roster: fn(&dyn Note, &mut dyn Iterator<Item = &str>) -> Option<Vec<u8>>,
    /// Whether it has to stay in memory as long as the user has a session.
    pub stays: bool,
}

impl Record {
    /// A record that can be read but decides nothing.
    pub const fn of(load: fn(&[u8]) -> Option<Box<dyn Note>>) -> Record {
        Record { load, refuses: |_, _, _| None, archives: |_, _, _| true, roster: |_, _| None, stays: true }
    }
}

/// What an extension records about entries of archives.
#[derive(Debug)]
pub struct Archived {
    /// An entry with this number is being archived for a user (bare JID), in the same commit, by a
    /// server with these domains.
    pub archived: fn(&mut Batch, &Domains, &str, u64, &Entry<'_>),
    /// The entry expires, like all before it.
    pub expired: fn(&mut Batch, &str, u64, &Entry<'_>),
}

/// See [`Extension::bound`].
pub type Bound = fn(&ServerFacts, &str, Ids) -> Option<Step>;

/// See [`Extension::unseen`].
pub type Unseen = fn(&IqRequest<'_>) -> Option<Vec<u8>>;

/// See [`Extension::discovers`].
pub type Discovers = fn(&Context<'_>, &IqRequest<'_>, Discovery<'_>) -> Step;
/// See [`Extension::joins`].
pub type Joins = fn(&Context<'_>, &IqRequest<'_>, Step) -> Step;

/// A question of service discovery (XEP-0030) about an account beyond its features.
#[derive(Clone, Copy, Debug)]
pub enum Discovery<'a> {
    /// The items of the account, or of this node.
    Items(Option<&'a str>),
    /// Information about this node.
    Info(&'a str),
}

/// A service with a domain of its own (XEP-0030), as described in service discovery.
#[derive(Debug)]
pub struct Entity {
    /// The service.
    pub service: Service,
    /// Its identity.
    pub identity: Identity,
    /// Its features in addition to service discovery, sorted.
    pub vars: &'static [&'static str],
    /// Appends its extended information as complete forms (XEP-0128).
    pub forms: fn(&ServerFacts, &mut Vec<u8>),
    /// Set if its nodes are actors with homes of their own: service discovery about nodes and items
    /// continues there and is answered by this.
    pub nodes: Option<Discovers>,
}

/// Requests from the server to clients.
#[derive(Debug)]
pub struct Asks {
    /// The request to a client from which nothing has arrived for
    /// [`idle_s_max`](crate::settings::Settings::idle_s_max), if any.
    pub idle: Option<fn() -> Ask>,
    /// The request to a client whose capabilities with this node and verification string (XEP-0115)
    /// are unknown.
    pub capable: Option<fn(&str, &str) -> Ask>,
    /// Handles a client's answer: a result or an error. The note is the session's.
    pub answered: fn(&mut Kept, &Element<'_>) -> SessionChange,
}

/// An implemented specification, complete except for what
/// `docs/decisions/0005-what-the-texts-leave.md` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xep {
    /// Its number.
    pub number: u16,
    /// The version that was implemented.
    pub version: &'static str,
    /// Its title.
    pub title: &'static str,
}

/// One extension.
#[derive(Debug)]
pub struct Extension {
    /// Its name for operators (`--without`). It must never change.
    pub name: &'static str,
    /// What it implements beyond RFC 6121. `docs/compliance.md` is generated from it.
    pub xeps: &'static [Xep],
    /// Whether RFC 6121 requires it, so that it cannot be switched off.
    pub needed: bool,
    /// IQ requests that it answers. Service discovery advertises it by them.
    pub requests: &'static [Feature],
    /// Appends the features that a stream offers after authentication.
    pub stream_feature: Option<fn(&ServerFacts, &mut Vec<u8>)>,
    /// Its first-level elements.
    pub nonza: Option<Nonza>,
    /// Its elements in the request for a session (XEP-0386 2.2), which enable it from the start of
    /// the session.
    pub inline: Option<Nonza>,
    /// Information about the account for a client whose session begins with the authentication
    /// (XEP-0386 2.2): an element of `<bound/>`, which is read for the bare JID. It reads
    /// ([`Step::Read`]) and ends with a result; without one the session begins all the same. Its
    /// argument is the id scheme of the account's messages.
    pub bound: Option<Bound>,
    /// Controls what is sent to a session with its mark.
    pub gate: Option<Gate>,
    /// Copies messages for sessions with its mark.
    pub copies: Option<Copies>,
    /// Its record of a user.
    pub record: Option<Record>,
    /// What it records about entries of archives, whether it is switched on or not.
    pub archived: Option<Archived>,
    /// Whether its mark on a session means that the user is not looking at the client.
    pub rests: bool,
    /// Whether its mark on a session and its note of a user mean that the user's devices can be
    /// woken for a waiting message (XEP-0357).
    pub wakes: bool,
    /// Its requests to clients.
    pub asks: Option<Asks>,
    /// The identities that it adds to accounts besides "registered" (XEP-0030 3.1).
    pub identities: &'static [Identity],
    /// The service that it provides. Requests to it have the target
    /// [`Service`](super::Target::Service).
    pub entity: Option<Entity>,
    /// Its part of service discovery about an account.
    pub discovers: Option<Discovers>,
    /// Its part of service discovery about nodes of the server's domain; `None` for nodes of
    /// others.
    pub serves: Option<Serves>,
    /// The answer to a request for an account that does not exist, where the usual error would
    /// differ from that of an existing one.
    pub unseen: Option<Unseen>,
    /// Handles a form (XEP-0004) in a message to the user's own account, to a service or to an
    /// actor of it; `None` if the form is not for the extension.
    pub submits: Option<fn(&Context<'_>, &IqRequest<'_>) -> Option<Step>>,
    /// The features that it adds to an account, besides the requests that it answers (XEP-0030).
    pub account_vars: fn(&ServerFacts) -> &'static [&'static str],
    /// Extends a user's request to their own account that another extension answers with this step:
    /// returns the step unchanged, or one that does more (`Step::join`). All writes are one commit,
    /// and the added writes trigger nothing more.
    pub joins: Option<Joins>,
    /// A namespace: a request with it from another user to one of a user's sessions is delivered
    /// only if the sender may see the user's presence, whether the extension is switched on or not.
    pub guards_sessions: Option<&'static str>,
    /// Called when the last available session of a user becomes unavailable; writes what is to be
    /// stored about that. The arguments are the user's bare JID, microseconds since the Unix epoch,
    /// and the status of the unavailable presence.
    pub logged_out: Option<fn(&mut Batch, &str, u64, &str)>,
}

impl Extension {
    /// An extension without hooks, to be filled in.
    pub const NONE: Extension = Extension {
        name: "",
        xeps: &[],
        needed: false,
        requests: &[],
        stream_feature: None,
        nonza: None,
        inline: None,
        bound: None,
        gate: None,
        copies: None,
        record: None,
        archived: None,
        rests: false,
        wakes: false,
        asks: None,
        identities: &[],
        entity: None,
        discovers: None,
        serves: None,
        unseen: None,
        submits: None,
        account_vars: |_| &[],
        joins: None,
        guards_sessions: None,
        logged_out: None,
    };
}

//! What an extension can be: one row of the table, with a hook for each occasion that it cares for.
//!
//! Hooks are functions. They read what they are handed, may change the note that their extension keeps of a session, and return
//! closed values that say what should follow: they never read, write or send, and never call another extension. A hook that is not
//! there costs nothing, and one that is there costs something only where its extension has a mark on a session or a record of a
//! user.

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

/// What a session keeps for an extension, if it keeps anything.
pub type Kept = Option<Box<dyn Note>>;

/// First-level elements that are no stanzas.
#[derive(Debug)]
pub struct Nonza {
    /// Their namespace.
    pub namespace: &'static str,
    /// Handles one by its name; `None` if there is no such element (RFC 6120 4.9.3.24). The note is that of the session.
    pub handle: fn(&mut Kept, &str) -> Option<SessionChange>,
}

/// Stanzas that are about to go to a session that has the extension's mark.
#[derive(Debug)]
pub struct Gate {
    /// Says what becomes of one. `logged` says that it is a message that waits in a log.
    pub pass: fn(&mut Kept, &Element<'_>, logged: bool) -> Going,
    /// The session has another connection (XEP-0198 5).
    pub resumed: fn(&mut Kept) -> SessionChange,
}

/// Copies of a user's messages for sessions that have the extension's mark and do not get the message itself.
#[derive(Debug)]
pub struct Copies {
    /// Whether a message is one to copy.
    pub takes: fn(&Element<'_>) -> bool,
    /// Appends the copy of a message, given complete, for a session of the user.
    pub write: fn(&mut Vec<u8>, &Original<'_>),
}

/// A message that is copied.
#[derive(Clone, Copy, Debug)]
pub struct Original<'a> {
    /// The message, complete.
    pub xml: &'a [u8],
    /// Its type; empty if it has none.
    pub kind: &'a str,
    /// Whether it came to the user or was sent by one of the user's sessions.
    pub way: Way,
    /// The user's bare JID.
    pub user: &'a str,
    /// Full JID of the session that gets the copy.
    pub to: &'a str,
    /// If the copy comes late, what says when the message was (XEP-0203), complete; or nothing.
    pub delay: &'a [u8],
}

/// A row that an extension keeps of a user: at hand whenever the user's account is known or the user has a session.
#[derive(Debug)]
pub struct Record {
    /// What the row says; `None` if it cannot be read.
    pub load: fn(&[u8]) -> Option<Box<dyn Note>>,
    /// Whether a stanza between the user and an address (bare, full, or a domain) is refused; what that means for each kind of
    /// stanza is not for the hook to say: see `Actors::guards`.
    pub refuses: fn(&dyn Note, Way, &str) -> Option<Refusal>,
    /// Whether a message between the user and an address may stay in the user's archive. The user's bare JID comes first.
    pub archives: fn(&dyn Note, &str, &str) -> bool,
    /// The user's roster may have changed, and lists these contacts (bare JIDs): what the record says now, if it says anything else.
    pub roster: fn(&dyn Note, &mut dyn Iterator<Item = &str>) -> Option<Vec<u8>>,
    /// Whether what it says has to be in memory as long as the user has a session.
    pub stays: bool,
}

impl Record {
    /// One that can be read and judges nothing.
    pub const fn of(load: fn(&[u8]) -> Option<Box<dyn Note>>) -> Record {
        Record { load, refuses: |_, _, _| None, archives: |_, _, _| true, roster: |_, _| None, stays: true }
    }
}

/// What an extension notes of the entries of archives.
#[derive(Debug)]
pub struct Archived {
    /// An entry with this number is archived for a user (bare JID), in the same commit, by a server of these domains.
    pub archived: fn(&mut Batch, &Domains, &str, u64, &Entry<'_>),
    /// It goes because it is too old, as all before it have gone.
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

/// What service discovery (XEP-0030) wants to know of an account beyond its features.
#[derive(Clone, Copy, Debug)]
pub enum Discovery<'a> {
    /// The items of the account, or of this node.
    Items(Option<&'a str>),
    /// What this node is.
    Info(&'a str),
}

/// A service with a domain of its own (XEP-0030): what it is said to be.
#[derive(Debug)]
pub struct Entity {
    /// Which.
    pub service: Service,
    /// What it is.
    pub identity: Identity,
    /// Its features beside service discovery, sorted.
    pub vars: &'static [&'static str],
    /// Appends its extended information, complete forms (XEP-0128).
    pub forms: fn(&ServerFacts, &mut Vec<u8>),
    /// What it has are actors with homes of their own: what service discovery asks of its nodes, and of its items, goes on there, and is
    /// answered by this.
    pub nodes: Option<Discovers>,
}

/// Requests of the server's own to clients.
#[derive(Debug)]
pub struct Asks {
    /// What a client is asked of which nothing was heard for [`idle_s_max`](crate::settings::Settings::idle_s_max), if anything.
    pub idle: Option<fn() -> Ask>,
    /// What a client is asked whose capabilities of this node and verification string (XEP-0115) nobody knows.
    pub capable: Option<fn(&str, &str) -> Ask>,
    /// A client has answered: with a result, or with an error. The note is that of the session.
    pub answered: fn(&mut Kept, &Element<'_>) -> SessionChange,
}

/// A text that is implemented, complete but for what `docs/decisions/0005-what-the-texts-leave.md` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xep {
    /// Its number.
    pub number: u16,
    /// The version that was read.
    pub version: &'static str,
    /// Its title.
    pub title: &'static str,
}

/// One extension.
#[derive(Debug)]
pub struct Extension {
    /// Its name, for operators (`--without`): stable.
    pub name: &'static str,
    /// What it implements, unless RFC 6121 has all of it. `docs/compliance.md` is made from it.
    pub xeps: &'static [Xep],
    /// Whether RFC 6121 asks for it, so that it cannot be switched off.
    pub needed: bool,
    /// IQ requests that it answers. Service discovery tells of it by them.
    pub requests: &'static [Feature],
    /// Appends what a stream offers behind authentication.
    pub stream_feature: Option<fn(&ServerFacts, &mut Vec<u8>)>,
    /// First-level elements of its own.
    pub nonza: Option<Nonza>,
    /// Elements of its own in the request for a session (XEP-0386 2.2), by which the session begins with them.
    pub inline: Option<Nonza>,
    /// What a client is told of the account when its session begins with the authentication (XEP-0386 2.2): an element of `<bound/>`,
    /// which is read for the bare JID. It reads ([`Step::Read`]) and comes to a result; without one the session
    /// begins all the same. It is given how messages of the account are called.
    pub bound: Option<Bound>,
    /// What goes to a session with its mark.
    pub gate: Option<Gate>,
    /// Copies of messages for sessions with its mark.
    pub copies: Option<Copies>,
    /// Its record of a user.
    pub record: Option<Record>,
    /// What it notes of the entries of archives, whether it is switched on or not.
    pub archived: Option<Archived>,
    /// Its mark on a session says that nobody looks at the client.
    pub rests: bool,
    /// Its mark on a session, and its note of a user, say that the user's devices can be woken when a message waits (XEP-0357).
    pub wakes: bool,
    /// What it asks clients.
    pub asks: Option<Asks>,
    /// What accounts are beside registered ones, because of it (XEP-0030 3.1).
    pub identities: &'static [Identity],
    /// The service that it provides. Requests for it have the target [`Service`](super::Target::Service).
    pub entity: Option<Entity>,
    /// What service discovery tells of an account by it.
    pub discovers: Option<Discovers>,
    /// What service discovery tells by it of nodes of the server's domain; none for nodes of others.
    pub serves: Option<Serves>,
    /// The answer to a request for an account that is not there, where the usual error would tell it from one that is.
    pub unseen: Option<Unseen>,
    /// A form (XEP-0004) comes in a message to the own account, to a service, or to an actor of it; none if it is not for the extension.
    pub submits: Option<fn(&Context<'_>, &IqRequest<'_>) -> Option<Step>>,
    /// What an account has because of it, beside requests that it answers (XEP-0030).
    pub account_vars: fn(&ServerFacts) -> &'static [&'static str],
    /// What a request of a user's for the own account, which an extension is about to answer with this, leads to beside that: the step
    /// as it is, or one that does more (`Step::join`). So all of it is one commit, and what it writes leads to nothing more.
    pub joins: Option<Joins>,
    /// A namespace: a request with it from another user to one of a user's sessions goes only to those who may see the user's presence,
    /// whether the extension is switched on or not.
    pub guards_sessions: Option<&'static str>,
    /// The last available session of a user is not available any more: writes of it what is to be kept. The arguments are the user's
    /// bare JID, microseconds since the Unix epoch, and the status of the unavailable presence.
    pub logged_out: Option<fn(&mut Batch, &str, u64, &str)>,
}

impl Extension {
    /// One without any hook, to be filled in.
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

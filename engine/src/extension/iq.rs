//! What a feature is asked and what it may answer: the closed types between the features and the shard.

use std::sync::Arc;

use super::adhoc::act::Act;
use super::adhoc::sessions::Sessions;
use super::bytestreams::stream::{Activation, StreamHost};
use super::change::Change;
use super::contact::Contact;
use super::invite::may::Invitations;
use super::note::Note;
use super::pending::Pending;
use super::service::Services;
use super::upload::slot::Upload;
use crate::id::{Domains, Now, Service};
use crate::store::ids::Ids;
use crate::store::report::Report;
use crate::store::{Batch, Query};

/// Whom a request addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The server's domain.
    Server,
    /// The sender's own bare JID, or nobody (RFC 6120 10.3.3).
    Own,
    /// The bare JID of another account of this server; the request is answered at that account's home.
    Other,
    /// A service with a domain of its own; the request is answered at the sender's home.
    Service(Service),
    /// An actor of such a service; the request is answered at the actor's home.
    Node,
}

/// An IQ request that the server has to answer itself (RFC 6120 8.2.3, RFC 6121 8.5.1, 8.5.2.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IqRequest<'a> {
    /// `set`, or else `get`.
    pub set: bool,
    /// Whom it addresses.
    pub target: Target,
    /// The sender's full JID.
    pub from: &'a str,
    /// The address asked: for [`Target::Server`] the domain.
    pub to: &'a str,
    /// The addressed account's bare JID, or the actor; the sender's own bare JID for
    /// [`Target::Server`] and [`Target::Service`].
    pub account: &'a str,
    /// Namespace of the payload.
    pub namespace: &'a str,
    /// Local name of the payload.
    pub name: &'a str,
    /// The payload: the request's one child element (RFC 6120 8.2.3), complete.
    pub payload: &'a [u8],
}

/// What the server says of itself, fixed while the shard runs but for what the operator sets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerFacts {
    /// Version of the software (XEP-0092).
    pub version: Box<str>,
    /// Operating system, if it is to be told (XEP-0092 5).
    pub os: Option<Box<str>>,
    /// Whether accounts can be made in band (XEP-0077 3.1).
    pub registration: bool,
    /// Who may make one, if so.
    pub rule: Rule,
    /// Whether users may change their password and cancel their account in-band (XEP-0077 3.2, 3.3).
    pub account_changes: bool,
    /// Whom to write to about the service, sorted (XEP-0157).
    pub contacts: Arc<[Contact]>,
    /// Services outside XMPP that clients are told of (XEP-0215).
    pub services: Services,
    /// Whether messages stay in their users' archives; given by the [`Settings`](crate::settings::Settings).
    pub archive: bool,
    /// Services with a domain of their own, and which domain it is; given by [`Settings`](crate::settings::Settings).
    pub entities: Arc<[(Box<str>, Service)]>,
    /// Domains of components that are connected (XEP-0114), sorted; the shard keeps them as they come and go.
    pub components: Vec<Box<str>>,
    /// What the operator says of the publish-subscribe service.
    pub pubsub: super::pubsub::rules::Rules,
    /// Where files are uploaded to (XEP-0363), if anywhere.
    pub upload: Option<Arc<Upload>>,
    /// Where the proxy of bytestreams is (XEP-0065), if there is one.
    pub bytestreams: Option<Arc<StreamHost>>,
    /// Extensions that the operator has switched off, a bit for each place in the table.
    pub without: u32,
}

/// Who may make an account in band.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rule {
    /// Anybody.
    #[default]
    Open,
    /// Who shows an invitation (XEP-0445).
    Invite,
    /// Anybody, but an administrator has to approve of it, unless it is by an invitation of somebody who decides of accounts.
    Approval,
}

impl ServerFacts {
    /// Whether the extension in this place of the table is switched on.
    pub fn has(&self, extension: usize) -> bool {
        self.without & 1 << extension == 0
    }
}

/// What a feature may know beside the request.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The turn's time.
    pub now: Now,
    /// The server.
    pub server: &'a ServerFacts,
    /// The domains that it serves.
    pub domains: &'a Arc<Domains>,
    /// How the messages of the sender's own account are called.
    pub ids: Ids,
    /// Whether the sender may see the presence of [`IqRequest::account`]: it is the sender's own, or it exists and its
    /// roster has the sender's bare JID in a state with "from". The shard loads the roster where [`Feature::asks_roster`].
    pub authorized: bool,
    /// Groups of the account's roster in which the sender is, where [`Context::authorized`] is by the roster.
    pub groups: &'a [Box<str>],
    /// Whether the account has a connected session.
    pub online: bool,
    /// Whether the sender's connection is encrypted or local, fit to carry a password.
    pub secure: bool,
    /// Whether the operator has named the sender an administrator.
    pub admin: bool,
    /// A name that nobody can guess, for a request to [`Target::Service`]; otherwise empty.
    pub fresh: &'a str,
    /// Whether the sender may invite to accounts.
    pub inviter: bool,
    /// What everybody may invite to.
    pub invitations: Invitations,
    /// For how long invitations are good, seconds.
    pub invitation_s: u64,
    /// Open sessions of commands.
    pub adhoc: &'a Sessions,
    /// The announcement for those who log in later; empty if there is none.
    pub motd: &'a str,
    /// What accounts that are made are sent; empty for nothing.
    pub welcome: &'a str,
    /// Bytes of stanzas that an answer may have beside its result ([`Step::Send`]); one stanza always goes.
    pub room: usize,
    /// What the extension's record says of the sender, where the request is for the sender's own account.
    pub note: Option<&'a dyn Note>,
    /// Normalises a bare JID (RFC 7622); `None` if it is none or has a resource.
    pub bare: fn(&str) -> Option<Box<str>>,
    /// Normalises any JID (RFC 7622); `None` if it is none.
    pub jid: fn(&str) -> Option<Box<str>>,
    /// Normalises a localpart (RFC 7622 3.3); `None` if it is none.
    pub local: fn(&str) -> Option<Box<str>>,
}

impl<'a> Context<'a> {
    /// What of it is the same for all requests.
    pub fn around(&self) -> Around<'a> {
        Around { server: self.server, domains: self.domains, bare: self.bare }
    }
}

/// What a feature may know beside what was found, when it goes on.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// The server.
    pub server: &'a ServerFacts,
    /// The domains that it serves.
    pub domains: &'a Arc<Domains>,
    /// See [`Context::bare`].
    pub bare: fn(&str) -> Option<Box<str>>,
}

pub use crate::wire::error::StanzaCondition as Condition;
pub use crate::wire::limit::{Limit, Refusal};

/// What follows from a request, or from what it has read.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// The answer: the result's payload, which may be empty.
    Result(Vec<u8>),
    /// The answer: a stanza error.
    Error(Refusal),
    /// It goes on with what these bring.
    Read(Vec<Query>, Pending),
    /// It goes on with what these bring, after these writes. They save later requests work and are done once, so nobody is charged for
    /// them and for what is read for them.
    Prepare(Batch, Vec<Query>, Pending),
    /// These stanzas for who asks, in their order, and then the answer.
    Send(Vec<Vec<u8>>, Vec<u8>),
    /// It goes on when it is this one's turn: of the sessions of one user one such request at a time, and when there is room for
    /// [`ARCHIVE_PAGE_BYTES_MAX`](crate::limits::ARCHIVE_PAGE_BYTES_MAX) in what the session leaves unread and unacknowledged.
    Paced(Box<Step>),
    /// The same, one after another for each account: until it has come to an end, no other one for the account reads. So what is
    /// written rests on what was read. Those of the account's own sessions go before others.
    InTurn(Vec<Query>, Pending),
    /// Writes, and then the answer, which must not leave before they are durable.
    Write(Batch, Vec<u8>),
    /// These follow in their order, and then the answer.
    Change(Vec<Change>, Vec<u8>),
    /// The same, and it goes on without whoever has asked. Only in a turn ([`Step::InTurn`]), which it keeps.
    Then(Box<Then>),
    /// These follow in their order. The operator's list gets the reports, and then the result follows, which is empty (XEP-0377 4).
    Report(Vec<Change>, Vec<Report>),
    /// The answer is an error, and these follow all the same.
    Refuse(Vec<Change>, Refusal),
    /// It goes on at the home of an actor of the service that was asked, after these writes.
    Route {
        /// The service's domain, or an actor of it: `service/node`.
        to: Box<str>,
        /// `set`, or else `get`.
        set: bool,
        /// The payload of the request.
        payload: Box<[u8]>,
        /// What is written before.
        batch: Batch,
    },
    /// A request for the sender's roster.
    Roster(RosterRequest),
    /// Something to do with an account, whose outcome the shard answers.
    Account(AccountAction),
    /// What follows from a request for a command.
    Command(Box<Act>),
    /// A bytestream is to begin: the host says what came of it, and that is the answer.
    Activate(Activation),
}

/// How a request goes on that is answered.
#[derive(Clone, PartialEq, Debug)]
pub struct Then {
    /// These follow first, in their order.
    pub changes: Vec<Change>,
    /// The answer, if it is not given yet.
    pub answer: Option<Vec<u8>>,
    /// What it reads then.
    pub queries: Vec<Query>,
    /// With which it goes on.
    pub pending: Pending,
}

impl Step {
    /// Whether it changes anything, so that what was read before it must have been read in turn.
    pub(crate) fn is_change(&self) -> bool {
        match self {
            Step::Write(batch, _) | Step::Route { batch, .. } => !batch.is_empty(),
            Step::Change(changes, _) | Step::Refuse(changes, _) | Step::Report(changes, _) => !changes.is_empty(),
            _ => false,
        }
    }

    /// This with more changes, if it is one that ends without an error.
    pub fn with(self, mut more: Vec<Change>) -> Step {
        match self {
            step if more.is_empty() => step,
            Step::Result(answer) => Step::Change(more, answer),
            Step::Write(batch, answer) => {
                more.insert(0, Change::Write(batch));
                Step::Change(more, answer)
            }
            Step::Change(mut changes, answer) => {
                changes.append(&mut more);
                Step::Change(changes, answer)
            }
            Step::Then(mut then) => {
                then.changes.append(&mut more);
                Step::Then(then)
            }
            step => step,
        }
    }

    /// What it writes when it is carried out.
    pub fn writes(&self) -> impl Iterator<Item = &Batch> {
        let (one, changes) = match self {
            Step::Write(batch, _) => (Some(batch), &[][..]),
            Step::Change(changes, _) => (None, &changes[..]),
            Step::Then(then) => (None, &then.changes[..]),
            _ => (None, &[][..]),
        };
        let changed = changes.iter().filter_map(|change| match change {
            Change::Write(batch) => Some(batch),
            _ => None,
        });
        one.into_iter().chain(changed)
    }
}

/// A roster request of the roster's owner, read but not yet held against the roster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RosterRequest {
    /// Roster get, with the version that the client has, if it knows of versions (RFC 6121 2.6.2).
    Get {
        /// The `ver` attribute.
        ver: Option<Box<str>>,
    },
    /// Adds or changes an item (RFC 6121 2.3, 2.4).
    Set(SetItem),
    /// Removes the item of this bare JID (RFC 6121 2.5).
    Remove(Box<str>),
}

/// What a client asks to write (RFC 6121 2.3).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SetItem {
    /// The contact's bare JID, normalised.
    pub jid: Box<str>,
    /// The handle; empty for none.
    pub name: Box<str>,
    /// The groups, without duplicates.
    pub groups: Vec<Box<str>>,
}

/// What in-band registration asks of the accounts (XEP-0077).
#[derive(Clone, PartialEq, Eq)]
pub enum AccountAction {
    /// Make an account. Answers: empty result, or [`Condition::Conflict`] if it exists.
    Create {
        /// The normalised localpart.
        local: Box<str>,
        /// The password as it was sent.
        password: Box<str>,
    },
    /// Change the sender's password. Answers: empty result.
    ChangePassword {
        /// The password as it was sent.
        password: Box<str>,
    },
    /// Remove the sender's account and all that belongs to it, cancel its subscriptions, and after the empty result
    /// close its streams with `<not-authorized/>` (XEP-0077 3.2).
    Remove,
}

impl std::fmt::Debug for AccountAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No passwords, however it comes to be printed.
        match self {
            AccountAction::Create { local, .. } => write!(f, "Create({local})"),
            AccountAction::ChangePassword { .. } => f.write_str("ChangePassword"),
            AccountAction::Remove => f.write_str("Remove"),
        }
    }
}

/// One line of the features' table.
#[derive(Debug)]
pub struct Feature {
    /// Namespace of the payload that it answers.
    pub namespace: &'static str,
    /// Local name of that payload.
    pub name: &'static str,
    /// Whom a request for it may address.
    pub targets: &'static [Target],
    /// Whether there is a `get`, and a `set`.
    pub verbs: Verbs,
    /// Whether it is offered with these facts; if not, it is not advertised and not answered.
    pub offered: fn(&ServerFacts) -> bool,
    /// Whether [`Context::authorized`] matters for [`Target::Other`], so that the shard has to have the roster.
    pub asks_roster: bool,
    /// What service discovery says of it for the server's domain (XEP-0030).
    pub server_vars: &'static [&'static str],
    /// What service discovery says of it for an account's bare JID.
    pub account_vars: &'static [&'static str],
    /// Answers.
    pub handle: fn(&Context<'_>, &IqRequest<'_>) -> Step,
}

/// The verbs that a payload is defined for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verbs {
    /// `get` only.
    Get,
    /// `set` only.
    Set,
    /// Both.
    GetSet,
}

/// For [`Feature::offered`]: in every set-up.
pub fn always(_: &ServerFacts) -> bool {
    true
}

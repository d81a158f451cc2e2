//! Requests to features and their possible answers: the closed types between the features and the
//! shard.

use std::sync::Arc;

use super::adhoc::act::Act;
use super::adhoc::sessions::Sessions;
use super::bytestreams::stream::{Activation, StreamHost};
use super::change::Change;
use super::contact::Contact;
use super::inbox::missed::Asked;
use super::invite::may::Invitations;
use super::note::Note;
use super::pending::Pending;
use super::service::Services;
use super::upload::slot::Upload;
use super::written::nested;
use crate::id::{Domains, Now, Service};
use crate::store::ids::Ids;
use crate::store::report::Report;
use crate::store::{Batch, Query};

/// The addressee of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The server's domain.
    Server,
    /// The sender's own bare JID, or no address (RFC 6120 10.3.3).
    Own,
    /// The bare JID of another account of this server; the request is answered at that account's
    /// home.
    Other,
    /// A service with a domain of its own; the request is answered at the sender's home.
    Service(Service),
    /// An actor of such a service; the request is answered at the actor's home.
    Node,
    /// A room that has decided that the sender may ask; the request is answered at the room's home.
    Room,
}

/// An IQ request that the server itself has to answer (RFC 6120 8.2.3, RFC 6121 8.5.1, 8.5.2.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IqRequest<'a> {
    /// The type: true for `set`, false for `get`.
    pub set: bool,
    /// Whom it addresses.
    pub target: Target,
    /// The sender's full JID.
    pub from: &'a str,
    /// The address of the request: for [`Target::Server`] the domain.
    pub to: &'a str,
    /// The addressed account's bare JID, or the actor; the sender's own bare JID for
    /// [`Target::Server`] and [`Target::Service`].
    pub account: &'a str,
    /// Namespace of the payload.
    pub namespace: &'a str,
    /// Local name of the payload.
    pub name: &'a str,
    /// The payload: the complete child element of the request (RFC 6120 8.2.3).
    pub payload: &'a [u8],
}

/// Facts about the server. They are fixed while the shard runs, except for those that the operator
/// sets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServerFacts {
    /// Version of the software (XEP-0092).
    pub version: Box<str>,
    /// Operating system, if it is to be published (XEP-0092 5).
    pub os: Option<Box<str>>,
    /// Whether accounts can be registered in-band (XEP-0077 3.1).
    pub registration: bool,
    /// Who may register one.
    pub rule: Rule,
    /// Whether users may change their password and cancel their account in-band (XEP-0077 3.2,
    /// 3.3).
    pub account_changes: bool,
    /// Contact addresses of the service, sorted (XEP-0157).
    pub contacts: Arc<[Contact]>,
    /// Services outside XMPP that are offered to clients (XEP-0215).
    pub services: Services,
    /// Whether messages stay in their users' archives; set from the
    /// [`Settings`](crate::settings::Settings).
    pub archive: bool,
    /// Services with a domain of their own, and that domain; set from the
    /// [`Settings`](crate::settings::Settings).
    pub entities: Arc<[(Box<str>, Service)]>,
    /// Domains with rooms (XEP-0045); set from the [`Settings`](crate::settings::Settings).
    pub rooms: Arc<[Box<str>]>,
    /// Domains of the connected components (XEP-0114), sorted; the shard maintains them.
    pub components: Vec<Box<str>>,
    /// The operator's rules for the publish-subscribe service.
    pub pubsub: super::pubsub::rules::Rules,
    /// The upload service (XEP-0363), if there is one.
    pub upload: Option<Arc<Upload>>,
    /// The proxy of bytestreams (XEP-0065), if there is one.
    pub bytestreams: Option<Arc<StreamHost>>,
    /// Extensions that the operator has switched off, one bit per place in the table.
    pub without: u32,
}

/// Who may register an account in-band.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rule {
    /// Everybody.
    #[default]
    Open,
    /// Those who present an invitation (XEP-0445).
    Invite,
    /// Everybody, but an administrator has to approve, unless the applicant has an invitation from
    /// somebody who may approve.
    Approval,
}

impl ServerFacts {
    /// Whether the extension at this place of the table is switched on.
    pub fn has(&self, extension: usize) -> bool {
        self.without & 1 << extension == 0
    }
}

/// What a feature may know besides the request.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The turn's time.
    pub now: Now,
    /// The server.
    pub server: &'a ServerFacts,
    /// The domains that it serves.
    pub domains: &'a Arc<Domains>,
    /// The id scheme of the messages of the sender's account.
    pub ids: Ids,
    /// Whether the sender may see the presence of [`IqRequest::account`]: it is the sender's own,
    /// or it exists and its roster has the sender's bare JID in a state with "from". The shard
    /// loads the roster if [`Feature::asks_roster`] is set.
    pub authorized: bool,
    /// Groups of the account's roster that include the sender, where the roster decides
    /// [`Context::authorized`].
    pub groups: &'a [Box<str>],
    /// Whether the account has a connected session.
    pub online: bool,
    /// Whether the sender's connection may carry a password: it is encrypted or local.
    pub secure: bool,
    /// Whether the operator has made the sender an administrator.
    pub admin: bool,
    /// An unguessable name for a request to [`Target::Service`]; otherwise empty.
    pub fresh: &'a str,
    /// Whether the sender may issue invitations to accounts.
    pub inviter: bool,
    /// The invitations that every user may issue.
    pub invitations: Invitations,
    /// How long invitations are valid, in seconds.
    pub invitation_s: u64,
    /// Open sessions of commands.
    pub adhoc: &'a Sessions,
    /// The announcement for users who log in later; empty if there is none.
    pub motd: &'a str,
    /// The message sent to new accounts; empty for none.
    pub welcome: &'a str,
    /// Limit of the bytes of stanzas that an answer may have besides its result ([`Step::Send`]);
    /// one stanza is always sent.
    pub room: usize,
    /// The extension's record of the sender, if the request is to the sender's own account.
    pub note: Option<&'a dyn Note>,
    /// Normalises a bare JID (RFC 7622); `None` if it is invalid or has a resource.
    pub bare: fn(&str) -> Option<Box<str>>,
    /// Normalises any JID (RFC 7622); `None` if it is invalid.
    pub jid: fn(&str) -> Option<Box<str>>,
    /// Normalises a localpart (RFC 7622 3.3); `None` if it is invalid.
    pub local: fn(&str) -> Option<Box<str>>,
}

impl<'a> Context<'a> {
    /// The part that is the same for all requests.
    pub fn around(&self) -> Around<'a> {
        Around { server: self.server, domains: self.domains, bare: self.bare }
    }
}

/// What a feature may know, besides the results, when it continues after a read.
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

/// What follows from a request, or from its reads.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub enum Step {
    /// Answers with a result of this payload, which may be empty.
    Result(Vec<u8>),
    /// Answers with a stanza error.
    Error(Refusal),
    /// Reads these, and continues with the results.
    Read(Vec<Query>, Pending),
    /// Writes this, reads these, and continues with the results. The writes save work for later
    /// requests and are done once, so neither they nor the reads for them are charged.
    Prepare(Batch, Vec<Query>, Pending),
    /// Sends these stanzas to the requester in this order, and then the answer.
    Send(Vec<Vec<u8>>, Vec<u8>),
    /// Continues when it is this request's turn: one such request at a time over all sessions of a
    /// user, and only while the session's unread and unacknowledged output has room for
    /// [`ARCHIVE_PAGE_BYTES_MAX`](crate::limits::ARCHIVE_PAGE_BYTES_MAX).
    Paced(#[serde(deserialize_with = "nested")] Box<Step>),
    /// Reads these in turn: until this request has ended, no other one in turn reads for the same
    /// account. So the writes are based on what was read. Requests of the account's own sessions go
    /// first.
    InTurn(Vec<Query>, Pending),
    /// Writes, and then answers. The answer must not leave before the writes are durable.
    Write(Batch, Vec<u8>),
    /// Makes these changes in this order, and then answers.
    Change(Vec<Change>, Vec<u8>),
    /// The same, but it continues after the requester has its answer. Only in a turn
    /// ([`Step::InTurn`]), which it keeps.
    Then(Box<Then>),
    /// Makes these changes in this order, adds the reports to the operator's list, and then answers
    /// with an empty result (XEP-0377 4).
    Report(Vec<Change>, Vec<Report>),
    /// Answers with an error, and makes these changes all the same.
    Refuse(Vec<Change>, Refusal),
    /// Continues at the home of an actor of the addressed service, after these writes.
    Route {
        /// The service's domain, or an actor of it: `service/node`.
        to: Box<str>,
        /// The type: true for `set`, false for `get`.
        set: bool,
        /// The payload of the request.
        payload: Box<[u8]>,
        /// Written before that.
        batch: Batch,
    },
    /// A request for the sender's roster.
    Roster(RosterRequest),
    /// An action on an account. The shard answers with its outcome.
    Account(AccountAction),
    /// The result of a request for a command.
    Command(Box<Act>),
    /// Starts a bytestream. The host reports the outcome, which is the answer.
    Activate(Activation),
    /// Asks the homes of rooms what the sender has missed there, and continues with what they say.
    Missed(Asked),
}

/// How an answered request continues.
#[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Then {
    /// Changes that are made first, in this order.
    pub changes: Vec<Change>,
    /// The answer, unless it was given before.
    pub answer: Option<Vec<u8>>,
    /// What it reads next.
    pub queries: Vec<Query>,
    /// The state with which it continues.
    pub pending: Pending,
}

impl Step {
    /// Whether it changes anything, which requires that its reads were done in turn.
    pub(crate) fn is_change(&self) -> bool {
        match self {
            Step::Write(batch, _) | Step::Route { batch, .. } => !batch.is_empty(),
            Step::Change(changes, _) | Step::Refuse(changes, _) | Step::Report(changes, _) => !changes.is_empty(),
            _ => false,
        }
    }

    /// Adds changes to this step, if it ends without an error.
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

    /// The writes of this step.
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

/// A parsed roster request of the roster's owner, not yet compared with the roster.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub enum RosterRequest {
    /// Roster get, with the client's version if it supports versioning (RFC 6121 2.6.2).
    Get {
        /// The `ver` attribute.
        ver: Option<Box<str>>,
    },
    /// Adds or changes an item (RFC 6121 2.3, 2.4).
    Set(SetItem),
    /// Removes the item of this bare JID (RFC 6121 2.5).
    Remove(Box<str>),
}

/// A change to an item that a client requests (RFC 6121 2.3).
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct SetItem {
    /// The contact's bare JID, normalised.
    pub jid: Box<str>,
    /// The handle; empty for none.
    pub name: Box<str>,
    /// The groups, without duplicates.
    pub groups: Vec<Box<str>>,
}

/// A request of in-band registration (XEP-0077).
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum AccountAction {
    /// Creates an account. Answers: empty result, or [`Condition::Conflict`] if it exists.
    Create {
        /// The normalised localpart.
        local: Box<str>,
        /// The password as received.
        password: Box<str>,
    },
    /// Changes the sender's password. Answers: empty result.
    ChangePassword {
        /// The password as received.
        password: Box<str>,
    },
    /// Removes the sender's account with all its data, cancels its subscriptions, and after the
    /// empty result closes its streams with `<not-authorized/>` (XEP-0077 3.2).
    Remove,
}

impl std::fmt::Debug for AccountAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Passwords are never printed.
        match self {
            AccountAction::Create { local, .. } => write!(f, "Create({local})"),
            AccountAction::ChangePassword { .. } => f.write_str("ChangePassword"),
            AccountAction::Remove => f.write_str("Remove"),
        }
    }
}

/// One row of the features' table.
#[derive(Debug)]
pub struct Feature {
    /// Namespace of the request's payload.
    pub namespace: &'static str,
    /// Local name of that payload.
    pub name: &'static str,
    /// The possible addressees.
    pub targets: &'static [Target],
    /// Whether `get` and `set` are defined.
    pub verbs: Verbs,
    /// Whether it is offered with these facts; otherwise it is neither advertised nor answered.
    pub offered: fn(&ServerFacts) -> bool,
    /// Whether [`Context::authorized`] matters for [`Target::Other`], so that the shard must load
    /// the roster.
    pub asks_roster: bool,
    /// Features that it advertises for the server's domain (XEP-0030).
    pub server_vars: &'static [&'static str],
    /// Features that it advertises for an account's bare JID.
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

/// For [`Feature::offered`]: always.
pub fn always(_: &ServerFacts) -> bool {
    true
}

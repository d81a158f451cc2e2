//! Nodes (XEP-0060) on accounts: personal eventing (XEP-0163). A user publishes items; interested
//! entities that may see them are notified. Clients store public data there (XEP-0222) and private
//! data (XEP-0223), such as bookmarks (XEP-0402) and read markers (XEP-0490).
//!
//! The engine of nodes consists of functions over rows: a request names the rows that it needs, and
//! computes from them an answer, writes, and an [`Event`]. An actor is an entity with nodes: an
//! account has all of its own, and each node of a service with a domain of its own ([`service`]) is
//! an actor. They differ in who is an owner, who may publish, and how subscribers are stored and
//! notified.

pub mod approve;
pub mod disco;
pub mod error;
pub mod event;
pub mod form;
pub mod items;
pub mod keep;
pub mod member;
pub mod node;
pub mod notice;
pub mod owner;
pub mod publish;
pub mod rules;
pub mod service;
pub mod subscribe;

use minidom::Element;

use super::change::Change;
use super::hook::{Asks, Extension, Xep};
use super::iq::{Around, Context, Feature, IqRequest, Step, Target, Verbs, always};
use super::{caps, xml};
use crate::id::Wall;
use crate::limits::{NODE_ID_BYTES_MAX, NODE_NAME_BYTES_MAX};
use crate::store::{Batch, Found, Query, nodes as rows};
use crate::wire::jid::bare_of;
use error::Error;
pub use event::Event;
use member::Member;
pub use node::Directory;
use node::{Affiliates, Affiliation, Node, PublishModel, Viewer};

/// Namespace of requests.
pub const NS: &str = "http://jabber.org/protocol/pubsub";
/// Namespace of owner requests.
pub const NS_OWNER: &str = "http://jabber.org/protocol/pubsub#owner";

/// The features of an account's nodes (XEP-0060 10): exactly what is implemented.
const FEATURES: &[&str] = &[
    NS,
    "http://jabber.org/protocol/pubsub#access-authorize",
    "http://jabber.org/protocol/pubsub#access-open",
    "http://jabber.org/protocol/pubsub#access-presence",
    "http://jabber.org/protocol/pubsub#access-roster",
    "http://jabber.org/protocol/pubsub#access-whitelist",
    "http://jabber.org/protocol/pubsub#auto-create",
    "http://jabber.org/protocol/pubsub#auto-subscribe",
    "http://jabber.org/protocol/pubsub#config-node",
    "http://jabber.org/protocol/pubsub#config-node-max",
    "http://jabber.org/protocol/pubsub#create-and-configure",
    "http://jabber.org/protocol/pubsub#create-nodes",
    "http://jabber.org/protocol/pubsub#delete-items",
    "http://jabber.org/protocol/pubsub#delete-nodes",
    "http://jabber.org/protocol/pubsub#filtered-notifications",
    "http://jabber.org/protocol/pubsub#item-ids",
    "http://jabber.org/protocol/pubsub#last-published",
    "http://jabber.org/protocol/pubsub#manage-subscriptions",
    "http://jabber.org/protocol/pubsub#member-affiliation",
    "http://jabber.org/protocol/pubsub#meta-data",
    "http://jabber.org/protocol/pubsub#modify-affiliations",
    "http://jabber.org/protocol/pubsub#multi-items",
    "http://jabber.org/protocol/pubsub#outcast-affiliation",
    "http://jabber.org/protocol/pubsub#persistent-items",
    "http://jabber.org/protocol/pubsub#publish",
    "http://jabber.org/protocol/pubsub#publish-options",
    "http://jabber.org/protocol/pubsub#pubsub-on-a-jid",
    "http://jabber.org/protocol/pubsub#purge-nodes",
    "http://jabber.org/protocol/pubsub#retrieve-default",
    "http://jabber.org/protocol/pubsub#retrieve-items",
    "http://jabber.org/protocol/pubsub#retrieve-subscriptions",
    "http://jabber.org/protocol/pubsub#rsm",
    "http://jabber.org/protocol/pubsub#subscribe",
];

/// XEP-0060 5 to 7, and the creation of nodes in 8.
const NODES: Feature = Feature {
    namespace: NS,
    name: "pubsub",
    targets: &[Target::Own, Target::Other],
    verbs: Verbs::GetSet,
    offered: always,
    asks_roster: true,
    server_vars: &[],
    account_vars: FEATURES,
    handle,
};

/// XEP-0060 8.
const OWNER: Feature = Feature { namespace: NS_OWNER, account_vars: &[], handle: handle_owner, ..NODES };

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "pep",
    xeps: &[
        Xep { number: 163, version: "1.2.2", title: "Personal Eventing Protocol" },
        Xep { number: 222, version: "1.0", title: "Persistent Storage of Public Data via PubSub" },
        Xep { number: 223, version: "1.1.1", title: "Persistent Storage of Private Data via PubSub" },
        Xep { number: 490, version: "1.0.1", title: "Message Displayed Synchronization" },
    ],
    requests: &[NODES, OWNER],
    identities: &[("pubsub", "pep", "")],
    discovers: Some(disco::discovers),
    submits: Some(approve::own),
    asks: Some(Asks { idle: None, capable: Some(caps::ask), answered: caps::answered }),
    ..Extension::NONE
};

/// The state of a request to nodes that waits for a read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(super) enum Pending {
    Approve(approve::Pending),
    Disco(disco::Pending),
    Items(items::Pending),
    Owner(owner::Pending),
    Publish(publish::Pending),
    Service(service::Pending),
    Subscribe(subscribe::Pending),
}

impl Pending {
    pub(super) fn go_on(self, _: &Around<'_>, found: &[Found]) -> Step {
        step(match self {
            Pending::Approve(pending) => pending.go_on(found),
            Pending::Disco(pending) => pending.go_on(found),
            Pending::Items(pending) => pending.go_on(found),
            Pending::Owner(pending) => pending.go_on(found),
            Pending::Publish(pending) => pending.go_on(found),
            Pending::Service(pending) => pending.go_on(found),
            Pending::Subscribe(pending) => pending.go_on(found),
        })
    }
}

/// A request, with the facts that all kinds have in common.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Asked {
    /// The owner of the nodes: an account, or a node of a service.
    actor: Box<str>,
    /// The address of the request: that of an account or a service.
    jid: Box<str>,
    /// Whether the actor is a node of a service.
    service: bool,
    /// Full JID of the requester.
    from: Box<str>,
    /// Whether it is the owner, or an administrator of the service.
    owner: bool,
    /// Whether it may see the owner's presence.
    presence: bool,
    /// Groups of the owner's roster that include it.
    groups: Vec<Box<str>>,
    now: Wall,
}

impl Asked {
    /// A request at a node of a service without a requester: permission was decided elsewhere.
    fn of_service(actor: &str, service: &str, now: Wall) -> Asked {
        Asked {
            actor: actor.into(),
            jid: service.into(),
            service: true,
            from: "".into(),
            owner: false,
            presence: true,
            groups: Vec::new(),
            now,
        }
    }

    fn new(context: &Context<'_>, request: &IqRequest<'_>) -> Asked {
        let service = request.target == Target::Node;
        let owner = request.target == Target::Own || (service && context.admin);
        Asked {
            actor: request.account.into(),
            jid: if service { request.to } else { request.account }.into(),
            service,
            from: request.from.into(),
            owner,
            presence: owner || service || context.authorized,
            groups: context.groups.to_vec(),
            now: context.now.wall(),
        }
    }

    /// The name of the node in a request.
    fn name(&self, element: &Element) -> Result<Box<str>, Error> {
        match self.actor.split_once('/') {
            Some((_, node)) if self.service => Ok(node.into()),
            _ => name(element).map_err(|why| self.refuse(why)),
        }
    }

    /// Bare JID of the requester.
    fn bare(&self) -> &str {
        bare_of(&self.from)
    }

    /// The query for subscriptions and affiliations: at a service, only those of the requester.
    fn people(&self, node: &str) -> Query {
        match self.service {
            true => rows::member(&self.actor, self.bare()),
            false => rows::affiliates(&self.actor, node),
        }
    }

    /// Decodes its result.
    fn found_people(&self, found: Option<&Found>) -> Result<Affiliates, Error> {
        if !self.service {
            return affiliates(found);
        }
        let member = found.and_then(row).and_then(Member::decode).ok_or(error::UNREADABLE)?;
        Ok(member.alone(self.bare()))
    }

    fn viewer<'a>(&'a self, affiliates: &Affiliates) -> Viewer<'a> {
        let owner = self.owner || affiliates.affiliation(self.bare()) == Some(Affiliation::Owner);
        Viewer { jid: &self.from, owner, presence: self.presence, groups: &self.groups }
    }

    /// The error for something that does not exist or may not be seen: a requester who may not see
    /// the presence gets the answer for an account that does not exist.
    fn refuse(&self, why: Error) -> Error {
        if self.presence { why } else { error::UNSEEN }
    }

    /// Requires the owner of an account. The owners of a service's node are in its directory:
    /// [`Asked::owns`].
    fn must_own(&self) -> Result<(), Error> {
        if self.owner || self.service { Ok(()) } else { Err(self.refuse(error::FORBIDDEN)) }
    }

    /// The node, of which the requester must be an owner.
    fn owns<'a>(&self, directory: &'a mut Directory, name: &str) -> Result<&'a mut Node, Error> {
        let node = directory.get_mut(name).ok_or(error::NOT_FOUND)?;
        let owns = self.owner || node.owners.iter().any(|owner| **owner == *self.bare());
        if owns { Ok(node) } else { Err(error::FORBIDDEN) }
    }

    /// Whether the requester may publish (XEP-0060 7.1.3.1). For an account this was checked
    /// before.
    fn may_publish(&self, node: Option<&Node>, affiliates: &Affiliates) -> Result<(), Error> {
        if !self.service {
            return Ok(());
        }
        let node = node.ok_or(error::NOT_FOUND)?;
        let may = match (affiliates.affiliation(self.bare()), node.config.publish) {
            (Some(Affiliation::Owner | Affiliation::Publisher), _) => true,
            (Some(Affiliation::Outcast), _) => false,
            (_, PublishModel::Publishers) => false,
            (_, PublishModel::Subscribers) => affiliates.is_subscribed(self.bare()),
            (_, PublishModel::Open) => true,
        };
        if may || self.owner { Ok(()) } else { Err(error::FORBIDDEN) }
    }

    /// The node of this name, which the requester must be allowed to see.
    fn seen<'a>(&self, directory: &'a Directory, affiliates: &Affiliates, name: &str) -> Result<&'a Node, Error> {
        let node = directory.get(name).ok_or_else(|| self.refuse(error::NOT_FOUND))?;
        let may = node::may(node.config.access, &node.config.groups, affiliates, self.viewer(affiliates));
        may.map_err(|denied| self.refuse(denied.into()))?;
        Ok(node)
    }

    /// Writes, notifies subscribers if there is an event, and answers.
    fn done(&self, node: &Node, batch: Batch, event: Option<Event>, answer: Vec<u8>) -> Step {
        match (self.service, event) {
            (true, Some(event)) => service::notify::notify(self, node, batch, vec![event], answer),
            (_, event) => done(batch, event, answer),
        }
    }
}

/// An answer, or the error.
type Answered = Result<Step, Error>;

fn step(answered: Answered) -> Step {
    answered.unwrap_or_else(Step::Error)
}

/// The directory, and the other results that were read with it.
fn found_directory(found: &[Found]) -> Result<(Directory, &[Found]), Error> {
    let directory = found.split_first().and_then(|(first, rest)| Some((Directory::decode(row(first)?)?, rest)));
    directory.ok_or(error::UNREADABLE)
}

/// The row in a result; `None` if the result is not one row.
fn row(found: &Found) -> Option<Option<&[u8]>> {
    match found {
        Found::Value(value) => Some(value.as_deref()),
        _ => None,
    }
}

/// The rows in a result.
fn range(found: Option<&Found>) -> Result<(&[crate::store::Row], bool), Error> {
    match found {
        Some(Found::Rows { rows, more }) => Ok((rows, *more)),
        _ => Err(error::UNREADABLE),
    }
}

fn affiliates(found: Option<&Found>) -> Result<Affiliates, Error> {
    found.and_then(row).and_then(Affiliates::decode).ok_or(error::UNREADABLE)
}

fn place(found: Option<&Found>) -> Result<Option<rows::Place>, Error> {
    match found.and_then(row).ok_or(error::UNREADABLE)? {
        Some(row) => rows::Place::decode(row).map(Some).ok_or(error::UNREADABLE),
        None => Ok(None),
    }
}

/// Reads, for others than the owner in turn, so that many requests do not cause many reads at once.
fn reading(others: bool, queries: Vec<Query>, pending: Pending) -> Step {
    if others { Step::InTurn(queries, pending.into()) } else { Step::Read(queries, pending.into()) }
}

/// Writes, notifies subscribers if there is an event, and answers.
fn done(batch: Batch, event: Option<Event>, answer: Vec<u8>) -> Step {
    let event = event.map(|event| Change::Event(Box::new(event)));
    Step::Change([Change::Write(batch)].into_iter().chain(event).collect(), answer)
}

/// The required name of a node in an element.
fn name(element: &Element) -> Result<Box<str>, Error> {
    match element.attr("node").filter(|name| !name.is_empty()) {
        Some(name) if name.len() > NODE_NAME_BYTES_MAX => Err(error::NOT_ACCEPTABLE),
        Some(name) => Ok(name.into()),
        None => Err(error::NODE_REQUIRED),
    }
}

/// The id of an item, if it has one.
fn id(element: &Element) -> Result<Option<Box<str>>, Error> {
    match element.attr("id").filter(|id| !id.is_empty()) {
        Some(id) if id.len() > NODE_ID_BYTES_MAX => Err(error::NOT_ACCEPTABLE),
        id => Ok(id.map(Into::into)),
    }
}

/// A payload: the request's element, and the one that it contains.
fn parse(request: &IqRequest<'_>) -> Option<(Element, Element)> {
    let pubsub = xml::parse(request.payload)?;
    let first = pubsub.children().find(|child| child.ns() == request.namespace)?.clone();
    Some((pubsub, first))
}

/// Opens an answer: `<pubsub><name node='..'>`.
fn open(namespace: &str, name: &str, node: Option<&str>) -> Vec<u8> {
    let mut out = format!("<pubsub xmlns='{namespace}'><{name}").into_bytes();
    if let Some(node) = node {
        xml::attribute(&mut out, "node", node);
    }
    out.push(b'>');
    out
}

fn close(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(format!("</{name}></pubsub>").as_bytes());
}

fn handle(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let Some((pubsub, asked)) = parse(request) else { return Step::Error(error::BAD_REQUEST) };
    if let Target::Service(_) = request.target {
        return step(service::route(context, request, &asked));
    }
    let asker = Asked::new(context, request);
    step(match (request.set, asked.name()) {
        (true, "publish") => publish::publish(asker, &pubsub, &asked),
        (true, "retract") => publish::retract(asker, &asked),
        (true, "create") if asker.service => service::create(asker, &pubsub),
        (true, "create") => owner::create(asker, &pubsub, &asked),
        (true, "subscribe") => subscribe::subscribe(context, asker, &asked),
        (true, "unsubscribe") => subscribe::unsubscribe(context, asker, &asked),
        (false, "items") => items::items(asker, &pubsub, &asked),
        (false, "subscriptions") if asker.service => service::own::subscriptions(asker),
        (false, "affiliations") if asker.service => service::own::affiliations(asker),
        (false, "subscriptions") => subscribe::subscriptions(asker, &asked),
        (_, "options" | "default") => Err(asker.refuse(error::NO_OPTIONS)),
        (false, "affiliations") => Err(asker.refuse(error::NO_AFFILIATIONS)),
        _ => Err(asker.refuse(error::BAD_REQUEST)),
    })
}

fn handle_owner(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let asker = Asked::new(context, request);
    if let Target::Service(_) = request.target {
        let asked = parse(request).ok_or(error::BAD_REQUEST);
        return step(asked.and_then(|(_, asked)| service::route(context, request, &asked)));
    }
    if let Err(refused) = asker.must_own() {
        return Step::Error(refused);
    }
    let Some((pubsub, asked)) = parse(request) else { return Step::Error(error::BAD_REQUEST) };
    step(match (request.set, asked.name()) {
        (_, "collection") => Err(error::NO_COLLECTIONS),
        (false, "default") if asked.attr("type") == Some("collection") => Err(error::NO_COLLECTIONS),
        (false, "default") => Ok(owner::default()),
        (false, "configure") => owner::configuration(asker, &asked),
        (true, "configure") => owner::configure(asker, &asked),
        (false, "affiliations") if asker.service => service::owner::affiliations(asker),
        (true, "affiliations") if asker.service => service::owner::affiliate(context, asker, &asked),
        (false, "subscriptions") if asker.service => service::owner::subscriptions(asker, &pubsub),
        (true, "subscriptions") if asker.service => service::owner::subscribe(context, asker, &asked),
        (true, "delete") => owner::delete(asker, &asked),
        (true, "purge") => owner::purge(asker, &asked),
        (false, "affiliations") => owner::affiliations(asker, &asked),
        (true, "affiliations") => owner::affiliate(context, asker, &asked),
        (false, "subscriptions") => owner::subscriptions(asker, &asked),
        (true, "subscriptions") => owner::subscribe(context, asker, &asked),
        _ => Err(error::BAD_REQUEST),
    })
}

#[cfg(test)]
mod tests;

//! A service of nodes on a domain of its own (XEP-0060). Each node is an actor, `service/node`,
//! with a home of its own, so nodes are spread over the shards like users. A request starts at the
//! requester's home, continues at the node's, and is answered from there.
//!
//! A user's own nodes and subscriptions are also recorded in rows of the user: they list and limit
//! them, and end them with the account. Such a row is written before the request leaves, so none is
//! missing after a crash; the node reports the outcome afterwards.

pub mod catch_up;
pub mod channel;
mod halves;
pub mod in_memory;
pub mod info;
pub mod known;
pub mod notify;
pub mod own;
pub mod owner;
pub mod registration;
pub mod said;

use minidom::Element;

use super::super::change::Change;
use super::super::hook::{Entity, Extension, Xep};
use super::super::iq::{Context, Feature, IqRequest, ServerFacts, Step, Target};
use super::super::xml;
use super::form::{self, Submitted};
use super::member::{Member, State};
use super::node::{Access, Affiliation, Config, SendLast};
use super::rules::Makers;
use super::{Answered, Asked, NS, NS_OWNER, close, error, found_directory, open, range, row};
use crate::extension;
use crate::id::Service;
use crate::limits::{NODE_MEMBERSHIPS_BYTES_MAX, NODE_MEMBERSHIPS_MAX};
use crate::store::nodes::{self as rows, Named};
use crate::store::{Batch, Found};
use crate::wire::jid::bare_of;
use crate::wire::limit::Limit;
use said::{belongs, show, to};

/// XEP-0060 5 to 8 at the service, and at each of its nodes.
const NODES: Feature = Feature {
    targets: &[Target::Service(Service::PubSub), Target::Node],
    asks_roster: false,
    account_vars: &[],
    ..super::NODES
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "pubsub",
    xeps: &[Xep { number: 60, version: "1.30.0", title: "Publish-Subscribe" }],
    requests: &[NODES, Feature { namespace: NS_OWNER, handle: super::handle_owner, ..NODES }],
    submits: Some(super::approve::at_service),
    entity: Some(Entity {
        service: Service::PubSub,
        identity: ("pubsub", "service", "Publish-Subscribe"),
        vars: FEATURES,
        forms: |_: &ServerFacts, _| {},
        nodes: Some(super::disco::discovers),
    }),
    ..Extension::NONE
};

/// The features of the service (XEP-0060 10): exactly what is implemented.
const FEATURES: &[&str] = &[
    "http://jabber.org/protocol/pubsub",
    "http://jabber.org/protocol/pubsub#access-authorize",
    "http://jabber.org/protocol/pubsub#access-open",
    "http://jabber.org/protocol/pubsub#access-whitelist",
    "http://jabber.org/protocol/pubsub#config-node",
    "http://jabber.org/protocol/pubsub#config-node-max",
    "http://jabber.org/protocol/pubsub#create-and-configure",
    "http://jabber.org/protocol/pubsub#create-nodes",
    "http://jabber.org/protocol/pubsub#delete-items",
    "http://jabber.org/protocol/pubsub#delete-nodes",
    "http://jabber.org/protocol/pubsub#instant-nodes",
    "http://jabber.org/protocol/pubsub#item-ids",
    "http://jabber.org/protocol/pubsub#last-published",
    "http://jabber.org/protocol/pubsub#manage-subscriptions",
    "http://jabber.org/protocol/pubsub#member-affiliation",
    "http://jabber.org/protocol/pubsub#meta-data",
    "http://jabber.org/protocol/pubsub#modify-affiliations",
    "http://jabber.org/protocol/pubsub#multi-owner",
    "http://jabber.org/protocol/pubsub#outcast-affiliation",
    "http://jabber.org/protocol/pubsub#persistent-items",
    "http://jabber.org/protocol/pubsub#publish",
    "http://jabber.org/protocol/pubsub#publish-options",
    "http://jabber.org/protocol/pubsub#publisher-affiliation",
    "http://jabber.org/protocol/pubsub#purge-nodes",
    "http://jabber.org/protocol/pubsub#retrieve-affiliations",
    "http://jabber.org/protocol/pubsub#retrieve-default",
    "http://jabber.org/protocol/pubsub#retrieve-items",
    "http://jabber.org/protocol/pubsub#retrieve-subscriptions",
    "http://jabber.org/protocol/pubsub#rsm",
    "http://jabber.org/protocol/pubsub#subscribe",
    "http://jabber.org/protocol/pubsub#subscription-notifications",
];

/// The state of a request to a service's node that waits for a read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    CatchUp(catch_up::Pending),
    Channel(channel::Pending),
    /// Waits for the user's memberships.
    Claim(Claiming),
    /// Waits for the node that is to be created, if this configuration is permitted.
    Create {
        asked: Asked,
        node: Box<str>,
        config: Result<Config, error::Error>,
    },
    /// Waits for a node that a removed user is to be deleted from.
    Forget {
        actor: Box<str>,
        user: Box<str>,
    },
    Info(info::Question),
    Own(own::Pending),
    Owner(owner::Pending),
    Registration(registration::Pending),
    Notify(notify::Pending),
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::CatchUp(pending) => pending.go_on(found),
            Pending::Channel(pending) => pending.go_on(found),
            Pending::Claim(claiming) => claim_found(claiming, found),
            Pending::Create { asked, node, config } => create_found(asked, &node, config, found),
            Pending::Forget { actor, user } => forget_found(&actor, &user, found),
            Pending::Info(question) => question.go_on(found),
            Pending::Own(pending) => pending.go_on(found),
            Pending::Owner(pending) => pending.go_on(found),
            Pending::Registration(pending) => pending.go_on(found),
            Pending::Notify(pending) => pending.go_on(found),
        }
    }
}

impl From<Pending> for extension::Pending {
    fn from(pending: Pending) -> extension::Pending {
        super::Pending::Service(pending).into()
    }
}

/// The name of an actor's node; empty for the service itself.
fn node_of(actor: &str) -> &str {
    actor.split_once('/').map_or("", |(_, node)| node)
}

/// The configuration of a node created without one: open, with the maximum number of items.
fn defaults() -> Config {
    Config { access: Access::Open, send_last: SendLast::OnSub, items_max: u32::MAX, ..Config::default() }
}

/// Handles a request to the service at the requester's home.
pub(super) fn route(context: &Context<'_>, request: &IqRequest<'_>, asked: &Element) -> Answered {
    let domain = (context.bare)(request.to).ok_or(error::BAD_REQUEST)?;
    let named = asked.attr("node").is_some_and(|node| !node.is_empty());
    match (request.namespace == NS_OWNER, request.set, asked.name()) {
        (true, _, "collection") => return Err(error::NO_COLLECTIONS),
        (_, false, "default") if asked.attr("type") == Some("collection") => return Err(error::NO_COLLECTIONS),
        (_, false, "default") => return Ok(default()),
        (false, _, "options") => return Err(error::NO_OPTIONS),
        (false, true, "create") => return make(context, request, &domain, asked),
        (false, true, "subscribe") => {
            let actor: Box<str> = format!("{domain}/{}", super::name(asked)?).into();
            return Ok(claim(context, request, actor, Claim::Subscribe));
        }
        (false, false, "subscriptions") if !named => return Ok(own::all(request, &domain, own::What::Subscriptions)),
        (false, false, "affiliations") if !named => return Ok(own::all(request, &domain, own::What::Affiliations)),
        _ => {}
    }
    Ok(to(format!("{domain}/{}", super::name(asked)?).into(), request, Batch::new()))
}

/// XEP-0060 8.3.
fn default() -> Step {
    let mut out = open(NS_OWNER, "default", None);
    form::write(&mut out, &defaults(), "form", true);
    close(&mut out, "default");
    Step::Result(out)
}

/// XEP-0060 8.1: checks who may create a node, and generates a missing name.
fn make(context: &Context<'_>, request: &IqRequest<'_>, domain: &str, create: &Element) -> Answered {
    let rules = &context.server.pubsub;
    let may = match rules.makers {
        Makers::Users => true,
        Makers::Admins => context.admin,
        Makers::Nobody => false,
    };
    if !may {
        return Err(error::FORBIDDEN);
    }
    let node = match create.attr("node").filter(|node| !node.is_empty()) {
        Some(_) => super::name(create)?,
        None => context.fresh.into(),
    };
    if !context.admin && rules.reserved.iter().any(|begins| node.starts_with(&**begins)) {
        return Err(error::FORBIDDEN);
    }
    Ok(claim(context, request, format!("{domain}/{node}").into(), Claim::Make(rules.nodes_max)))
}

/// The relation to a node that a user is about to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Claim {
    /// It requests a subscription.
    Subscribe,
    /// It requests creation, and may own this many nodes.
    Make(u32),
}

/// Records that the user is about to have a relation to a node, unless there is one already, and
/// continues at the node. Administrators have no limit.
fn claim(context: &Context<'_>, request: &IqRequest<'_>, actor: Box<str>, claim: Claim) -> Step {
    let most = NODE_MEMBERSHIPS_MAX + 1;
    let user: Box<str> = bare_of(request.from).into();
    let queries = vec![Named::Own.after(&user, "", most, NODE_MEMBERSHIPS_BYTES_MAX)];
    let (set, payload) = (request.set, request.payload.into());
    let pending = Pending::Claim(Claiming { user, actor, claim, bounded: !context.admin, set, payload });
    Step::InTurn(queries, pending.into())
}

/// Waits for the memberships of a user who is about to have a relation to a node.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Claiming {
    user: Box<str>,
    actor: Box<str>,
    claim: Claim,
    /// Whether the limit applies: the user is not an administrator.
    bounded: bool,
    /// The request, which continues at the node.
    set: bool,
    payload: Box<[u8]>,
}

fn claim_found(claiming: Claiming, found: &[Found]) -> Answered {
    let Claiming { user, actor, claim, bounded, set, payload } = claiming;
    let (rows, more) = range(found.first())?;
    let own = rows.iter().find(|row| rows::named(&row.sort) == Some(&actor));
    let own = own.map(|row| Member::decode(Some(&row.value)).unwrap_or_default());
    let there = own.is_some();
    let owned = |row: &&crate::store::Row| {
        Member::decode(Some(&row.value)).is_some_and(|m| m.affiliation == Some(Affiliation::Owner))
    };
    if let Claim::Make(nodes_max) = claim
        && bounded
        && rows.iter().filter(owned).count() as u32 >= nodes_max
    {
        return Err(Limit::Nodes.into());
    }
    // The answer to the pending subscription would remove the record of the node to be created,
    // which would then not be counted.
    if let (Claim::Make(_), Some(Member { affiliation: None, state: State::UnderWay, .. })) = (claim, &own) {
        return Err(Limit::Waiting.into());
    }
    if bounded && !there && (more || rows.len() as u32 >= NODE_MEMBERSHIPS_MAX) {
        return Err(Limit::Memberships.into());
    }
    let mut batch = Batch::new();
    if !there {
        let affiliation = matches!(claim, Claim::Make(_)).then_some(Affiliation::Owner);
        let row = Member { affiliation, state: State::UnderWay, ..Member::default() }.encode();
        Named::Own.put(&mut batch, &user, &actor, &row);
    }
    Ok(Step::Route { to: actor, set, payload, batch })
}

/// XEP-0060 8.1, at the node's home.
pub(super) fn create(asked: Asked, pubsub: &Element) -> Answered {
    let node = asked.name(pubsub)?;
    let form = match pubsub.get_child("configure", NS) {
        Some(configure) => Submitted::configuration(configure),
        None => Ok(None),
    };
    let config = form.and_then(|form| form.map_or(Ok(defaults()), |form| form.apply(&defaults(), true)));
    let queries = vec![rows::directory(&asked.actor), asked.people(&node)];
    Ok(Step::InTurn(queries, Pending::Create { asked, node, config }.into()))
}

fn create_found(asked: Asked, node: &str, config: Result<Config, error::Error>, found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let there = directory.get(node).is_some();
    let bare = asked.bare();
    let before = match there {
        true => found.first().and_then(row).and_then(Member::decode).ok_or(error::UNREADABLE)?,
        false => Member::default(),
    };
    let config = match (config, there) {
        (Ok(config), false) => config,
        (Err(why), false) => return Ok(Step::Refuse(vec![belongs(&asked.actor, bare, &before)], why)),
        (_, true) => return Ok(Step::Refuse(vec![belongs(&asked.actor, bare, &before)], error::CONFLICT)),
    };
    let mut batch = Batch::new();
    // Rows left by an interrupted deletion do not belong to the new node.
    [Named::Members, Named::Affiliated].into_iter().for_each(|kind| kind.delete_all(&mut batch, &asked.actor));
    let entry = directory.configure(node, config);
    entry.owners = vec![bare.into()];
    let owner = Member { affiliation: Some(Affiliation::Owner), ..Member::default() };
    owner.put(&mut batch, &asked.actor, bare);
    let shown = show(&asked, entry);
    directory.put(&mut batch, &asked.actor)?;
    let mut answer = format!("<pubsub xmlns='{NS}'><create").into_bytes();
    xml::attribute(&mut answer, "node", node);
    answer.extend_from_slice(b"/></pubsub>");
    let changes = vec![Change::Write(batch), belongs(&asked.actor, bare, &owner), shown];
    Ok(Step::Change(changes, answer))
}

/// Removes a deleted account from the node.
pub fn forget(actor: &str, user: &str) -> Step {
    let (actor, user): (Box<str>, Box<str>) = (actor.into(), user.into());
    let queries = vec![rows::directory(&actor), rows::member(&actor, &user)];
    Step::InTurn(queries, Pending::Forget { actor, user }.into())
}

fn forget_found(actor: &str, user: &str, found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let before = found.first().and_then(row).and_then(Member::decode).ok_or(error::UNREADABLE)?;
    let mut batch = Batch::new();
    Member::default().put(&mut batch, actor, user);
    let node = node_of(actor);
    if let Some(entry) = directory.get_mut(node) {
        super::subscribe::count(entry, &before, &Member::default());
        entry.owners.retain(|owner| **owner != *user);
        directory.put(&mut batch, actor)?;
    }
    Ok(Step::Change(vec![Change::Write(batch)], Vec::new()))
}

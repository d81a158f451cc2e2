//! Service Discovery (XEP-0030): identities and features of the server and its accounts, assembled
//! from the features' table.

use super::caps::{self, Form, Identity};
use super::hook::{Extension, Xep};
use super::iq::{Condition, Context, Feature, IqRequest, ServerFacts, Step, Target, Verbs, always};
use super::{Discovery, account_vars, discovers, entity, identities, offered, serves, version, xml};
use crate::id::Service;
use crate::limits::NODE_NAME_BYTES_MAX;
use crate::store::Batch;

const INFO_NS: &str = "http://jabber.org/protocol/disco#info";
const ITEMS_NS: &str = "http://jabber.org/protocol/disco#items";

/// The targets that answer service discovery.
const ENTITIES: &[Target] = &[
    Target::Server,
    Target::Own,
    Target::Other,
    Target::Service(Service::Upload),
    Target::Service(Service::Bytestreams),
    Target::Service(Service::PubSub),
    Target::Node,
];

/// An entity's identities and features (XEP-0030 3).
pub const INFO: Feature = Feature {
    namespace: INFO_NS,
    name: "query",
    targets: ENTITIES,
    verbs: Verbs::Get,
    offered: always,
    asks_roster: true,
    // Entity capabilities and offline storage have no requests of their own, so they are listed
    // here (XEP-0115 7, XEP-0160 4).
    server_vars: &[INFO_NS, caps::NS, "msgoffline"],
    // XEP-0359 5: the account assigns ids to incoming messages, and removes ids forged in its name.
    account_vars: &[INFO_NS, crate::ns::STANZA_ID],
    handle: info,
};

/// An entity's items (XEP-0030 4).
pub const ITEMS: Feature = Feature {
    namespace: ITEMS_NS,
    name: "query",
    targets: ENTITIES,
    verbs: Verbs::Get,
    offered: always,
    asks_roster: true,
    server_vars: &[ITEMS_NS],
    account_vars: &[ITEMS_NS],
    handle: items,
};

/// The extension.
pub const EXTENSION: Extension = Extension {
    name: "disco",
    xeps: &[
        Xep { number: 30, version: "2.5.0", title: "Service Discovery" },
        Xep { number: 115, version: "1.6.0", title: "Entity Capabilities" },
        Xep { number: 128, version: "1.0.1", title: "Service Discovery Extensions" },
        Xep { number: 157, version: "1.1.1", title: "Contact Addresses for XMPP Services" },
    ],
    requests: &[INFO, ITEMS],
    stream_feature: Some(stream_feature),
    unseen: Some(unseen),
    ..Extension::NONE
};

/// The server's identity.
const SERVER: Identity = ("server", "im", version::SOFTWARE);

/// The type of the form with information about the server (XEP-0157 2).
const SERVER_INFO: &str = "http://jabber.org/network/serverinfo";

/// An account's identity (XEP-0030 3.1).
const ACCOUNT: Identity = ("account", "registered", "");

/// The features of the server's domain or of an account, sorted and without duplicates.
fn vars(server: &ServerFacts, account: bool) -> Vec<&'static str> {
    let vars = offered(server).flat_map(|feature| if account { feature.account_vars } else { feature.server_vars });
    let mut vars: Vec<_> = vars.copied().collect();
    vars.extend(account_vars(server).filter(|_| account));
    vars.sort_unstable();
    vars.dedup();
    vars
}

/// The verification string of the server's capabilities (XEP-0115 5.1).
fn verification(server: &ServerFacts) -> String {
    caps::verification(&[SERVER], &vars(server, false), &forms(server))
}

/// Extended information about the server (XEP-0128): the contact addresses (XEP-0157).
fn forms(server: &ServerFacts) -> Vec<Form<'_>> {
    let mut fields: Vec<(&str, Vec<&str>)> = Vec::new();
    for contact in server.contacts.iter() {
        match fields.last_mut() {
            Some((field, uris)) if *field == contact.role.field() => uris.push(&contact.uri),
            _ => fields.push((contact.role.field(), vec![&contact.uri])),
        }
    }
    if fields.is_empty() { Vec::new() } else { vec![(SERVER_INFO, fields)] }
}

fn write_form(out: &mut Vec<u8>, (kind, fields): &Form<'_>) {
    out.extend_from_slice(b"<x xmlns='jabber:x:data' type='result'><field var='FORM_TYPE' type='hidden'>");
    xml::text_element(out, "value", kind);
    out.extend_from_slice(b"</field>");
    for (var, values) in fields {
        out.extend_from_slice(b"<field");
        xml::attribute(out, "var", var);
        xml::attribute(out, "type", "list-multi");
        out.push(b'>');
        values.iter().for_each(|value| xml::text_element(out, "value", value));
        out.extend_from_slice(b"</field>");
    }
    out.extend_from_slice(b"</x>");
}

/// Entity capabilities (XEP-0115 6.3).
fn stream_feature(server: &ServerFacts, out: &mut Vec<u8>) {
    caps::stream_feature(&verification(server), out);
}

/// XEP-0030 8: an account answers only those who may see its presence. To others it looks as if it
/// did not exist.
fn is_hidden(context: &Context<'_>, request: &IqRequest<'_>) -> bool {
    request.target == Target::Other && !context.authorized
}

/// XEP-0030 8: an account that does not exist has no items, with or without a node. An account that
/// the sender may not see answers the same.
fn unseen(request: &IqRequest<'_>) -> Option<Vec<u8>> {
    let asks = request.namespace == ITEMS_NS && !request.set;
    let node = asks.then(|| node(request).ok()).flatten()?;
    Some(no_items(node.as_deref()))
}

/// The services of the server (XEP-0030 4).
fn entities(server: &ServerFacts) -> Vec<u8> {
    let mut out = open(ITEMS_NS, None);
    for (domain, service) in server.entities.iter() {
        if let Some(entity) = entity(server, *service) {
            out.extend_from_slice(b"<item");
            xml::attribute(&mut out, "jid", domain);
            xml::attribute(&mut out, "name", entity.identity.2);
            out.extend_from_slice(b"/>");
        }
    }
    for domain in server.rooms.iter() {
        out.extend_from_slice(b"<item");
        xml::attribute(&mut out, "jid", domain);
        xml::attribute(&mut out, "name", "Group chat");
        out.extend_from_slice(b"/>");
    }
    for domain in &server.components {
        out.extend_from_slice(b"<item");
        xml::attribute(&mut out, "jid", domain);
        out.extend_from_slice(b"/>");
    }
    out.extend_from_slice(b"</query>");
    out
}

/// An answer without items.
fn no_items(node: Option<&str>) -> Vec<u8> {
    let mut out = open(ITEMS_NS, node);
    out.extend_from_slice(b"</query>");
    out
}

/// The node of a request, or the error for an invalid payload.
fn node(request: &IqRequest<'_>) -> Result<Option<String>, Condition> {
    let query = xml::parse(request.payload).ok_or(Condition::BadRequest)?;
    Ok(query.attr("node").filter(|node| !node.is_empty()).map(str::to_owned))
}

/// Information about a service with a domain of its own.
fn entity_info(server: &ServerFacts, service: Service, node: Option<&str>) -> Step {
    let Some(entity) = entity(server, service) else { return Step::Error(Condition::ServiceUnavailable.into()) };
    if node.is_some() {
        return Step::Error(Condition::ItemNotFound.into());
    }
    let mut out = open(INFO_NS, None);
    identity(&mut out, &entity.identity);
    [INFO_NS, ITEMS_NS].iter().chain(entity.vars).for_each(|var| feature(&mut out, var));
    (entity.forms)(server, &mut out);
    out.extend_from_slice(b"</query>");
    Step::Result(out)
}

/// A request about a node that has its own home continues there.
fn at_node(context: &Context<'_>, request: &IqRequest<'_>, service: Service, node: Option<&str>) -> Option<Step> {
    entity(context.server, service)?.nodes?;
    if node.is_some_and(|node| node.len() > NODE_NAME_BYTES_MAX) {
        return None;
    }
    let domain = (context.bare)(request.to)?;
    let to = node.map_or(domain.clone(), |node| format!("{domain}/{node}").into());
    Some(Step::Route { to, set: false, payload: request.payload.into(), batch: Batch::new() })
}

fn identity(out: &mut Vec<u8>, (category, kind, name): &Identity) {
    out.extend_from_slice(b"<identity");
    xml::attribute(out, "category", category);
    xml::attribute(out, "type", kind);
    if !name.is_empty() {
        xml::attribute(out, "name", name);
    }
    out.extend_from_slice(b"/>");
}

fn feature(out: &mut Vec<u8>, var: &str) {
    out.extend_from_slice(b"<feature");
    xml::attribute(out, "var", var);
    out.extend_from_slice(b"/>");
}

fn info(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let account = request.target != Target::Server;
    let node = match node(request) {
        Ok(node) => node,
        Err(_) if is_hidden(context, request) => return Step::Error(Condition::ServiceUnavailable.into()),
        Err(condition) => return Step::Error(condition.into()),
    };
    if let Target::Service(service) = request.target {
        return match (at_node(context, request, service, node.as_deref()), &node) {
            (Some(step), Some(_)) => step,
            _ => entity_info(context.server, service, node.as_deref()),
        };
    }
    if let Some(node) = node.as_deref().filter(|_| account)
        && let Some(step) = discovers(context, request, Discovery::Info(node))
    {
        return step;
    }
    if is_hidden(context, request) {
        return Step::Error(Condition::ServiceUnavailable.into());
    }
    if let Some(node) = node.as_deref().filter(|_| !account)
        && let Some(step) = serves(context, request, Discovery::Info(node))
    {
        return step;
    }
    // XEP-0115 6.2: the node named in the stream features is the server itself.
    if node.as_deref().is_some_and(|node| account || node != caps::full_node(&verification(context.server))) {
        return Step::Error(Condition::ItemNotFound.into());
    }
    let mut out = open(INFO_NS, node.as_deref());
    let more = identities(context.server).filter(|_| account);
    [if account { ACCOUNT } else { SERVER }]
        .iter()
        .chain(&more.collect::<Vec<_>>())
        .for_each(|is| identity(&mut out, is));
    vars(context.server, account).iter().for_each(|var| feature(&mut out, var));
    if !account {
        forms(context.server).iter().for_each(|form| write_form(&mut out, form));
    }
    out.extend_from_slice(b"</query>");
    Step::Result(out)
}

fn items(context: &Context<'_>, request: &IqRequest<'_>) -> Step {
    let hidden = is_hidden(context, request);
    let node = match node(request) {
        Err(_) if hidden => return Step::Error(Condition::ServiceUnavailable.into()),
        Err(condition) => return Step::Error(condition.into()),
        Ok(node) => node,
    };
    let told = match request.target {
        Target::Server => serves(context, request, Discovery::Items(node.as_deref())),
        Target::Own | Target::Other | Target::Node | Target::Room => {
            discovers(context, request, Discovery::Items(node.as_deref()))
        }
        Target::Service(service) => at_node(context, request, service, node.as_deref()),
    };
    if let Some(step) = told {
        return step;
    }
    match node {
        Some(_) if !hidden => Step::Error(Condition::ItemNotFound.into()),
        // XEP-0030 7: without items the answer is empty, not an error.
        None if request.target == Target::Server => Step::Result(entities(context.server)),
        node => Step::Result(no_items(node.as_deref())),
    }
}

/// XEP-0030 3.2: the answer repeats the requested node.
fn open(namespace: &str, node: Option<&str>) -> Vec<u8> {
    let mut out = b"<query".to_vec();
    xml::attribute(&mut out, "xmlns", namespace);
    if let Some(node) = node {
        xml::attribute(&mut out, "node", node);
    }
    out.push(b'>');
    out
}

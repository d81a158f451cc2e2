//! Nodes in service discovery (XEP-0060 5.2 to 5.5): an entity discovers the nodes that it may see.

use super::super::hook::Discovery;
use super::super::iq::{Context, IqRequest, Step};
use super::super::xml;
use super::error;
use super::form;
use super::node::{self, Affiliates};
use super::{Answered, Asked, NS, found_directory, range};
use crate::limits::NODE_PAGE_BYTES_MAX;
use crate::store::nodes::{self as rows, Item, Span};
use crate::store::{Found, Query};

const INFO_NS: &str = "http://jabber.org/protocol/disco#info";
const ITEMS_NS: &str = "http://jabber.org/protocol/disco#items";

/// The reads about nodes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    /// The list of nodes.
    Nodes(Asked),
    /// The items of the node with this name.
    Items { asked: Asked, name: Box<str> },
    /// The items themselves, listed under this address; those published before `gone_us` have
    /// expired.
    Rows { jid: Box<str>, name: Box<str>, gone_us: u64 },
    /// Information about the node with this name.
    Info { asked: Asked, name: Box<str> },
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::Nodes(asked) => nodes_found(asked, found),
            Pending::Items { asked, name } => items_found(asked, name, found),
            Pending::Rows { jid, name, gone_us } => rows_found(jid, name, gone_us, found),
            Pending::Info { asked, name } => info_found(asked, name, found),
        }
    }
}

/// Items of an account, items of one of its nodes, and information about a node.
pub(super) fn discovers(context: &Context<'_>, request: &IqRequest<'_>, what: Discovery<'_>) -> Step {
    let asked = Asked::new(context, request);
    match what {
        Discovery::Items(_) if asked.service && !asked.actor.contains('/') => {
            super::service::own::shown(asked, request.payload)
        }
        Discovery::Items(None) if asked.service => Step::Error(error::NOT_FOUND),
        Discovery::Items(None) => nodes(asked),
        Discovery::Items(Some(node)) => items(asked, node.into()),
        Discovery::Info(node) => info(asked, node.into()),
    }
}

/// XEP-0060 5.2. Only the owner sees the names of nodes for members. A requester who may see none
/// gets the answer for an account that does not exist.
fn nodes(asked: Asked) -> Step {
    let (queries, others) = (vec![rows::directory(&asked.actor)], !asked.owner);
    reading(others, queries, Pending::Nodes(asked))
}

fn nodes_found(asked: Asked, found: &[Found]) -> Answered {
    let (directory, _) = found_directory(found)?;
    let mut out = format!("<query xmlns='{ITEMS_NS}'>").into_bytes();
    let nobody = Affiliates::default();
    for node in directory.nodes() {
        if node::may(node.config.access, &node.config.groups, &nobody, asked.viewer(&nobody)).is_err() {
            continue;
        }
        out.extend_from_slice(b"<item");
        xml::attribute(&mut out, "jid", &asked.actor);
        xml::attribute(&mut out, "node", &node.name);
        if !node.config.title.is_empty() {
            xml::attribute(&mut out, "name", &node.config.title);
        }
        out.extend_from_slice(b"/>");
    }
    out.extend_from_slice(b"</query>");
    Ok(Step::Result(out))
}

fn reading(others: bool, queries: Vec<Query>, pending: Pending) -> Step {
    super::reading(others, queries, super::Pending::Disco(pending))
}

fn open(namespace: &str, node: &str) -> Vec<u8> {
    let mut out = format!("<query xmlns='{namespace}'").into_bytes();
    xml::attribute(&mut out, "node", node);
    out.push(b'>');
    out
}

/// XEP-0060 5.5.
fn items(asked: Asked, name: Box<str>) -> Step {
    let queries = vec![rows::directory(&asked.actor), asked.people(&name)];
    let others = !asked.owner && !asked.service;
    reading(others, queries, Pending::Items { asked, name })
}

fn items_found(asked: Asked, name: Box<str>, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    let node = match asked.seen(&directory, &asked.found_people(found.first())?, &name) {
        Ok(node) => node,
        // XEP-0030 8: the answer for an account that does not exist.
        Err(_) if !asked.presence => return Ok(Step::Result([&*open(ITEMS_NS, &name), b"</query>"].concat())),
        Err(why) => return Err(why),
    };
    let gone_us = node.config.gone_before_us(asked.now);
    let span = Span { reverse: true, ..Span::all(crate::limits::NODE_PAGE_ITEMS_MAX, NODE_PAGE_BYTES_MAX) };
    let query = rows::items(&asked.actor, &name, span);
    Ok(Step::Read(vec![query], super::Pending::Disco(Pending::Rows { jid: asked.jid, name, gone_us }).into()))
}

fn rows_found(jid: Box<str>, name: Box<str>, gone_us: u64, found: &[Found]) -> Answered {
    let mut out = open(ITEMS_NS, &name);
    for row in range(found.first())?.0.iter().rev() {
        let item = Item::decode(&row.value).ok_or(error::UNREADABLE)?;
        if item.at_us < gone_us {
            continue;
        }
        out.extend_from_slice(b"<item");
        xml::attribute(&mut out, "jid", &jid);
        xml::attribute(&mut out, "name", item.id);
        out.extend_from_slice(b"/>");
    }
    out.extend_from_slice(b"</query>");
    Ok(Step::Result(out))
}

/// XEP-0060 5.3, 5.4.
fn info(asked: Asked, name: Box<str>) -> Step {
    let queries = vec![rows::directory(&asked.actor), asked.people(&name)];
    let others = !asked.owner && !asked.service;
    reading(others, queries, Pending::Info { asked, name })
}

fn info_found(asked: Asked, name: Box<str>, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    let node = asked.seen(&directory, &asked.found_people(found.first())?, &name)?;
    let mut out = open(INFO_NS, &name);
    out.extend_from_slice(b"<identity category='pubsub' type='leaf'/>");
    for var in [INFO_NS, ITEMS_NS, NS] {
        out.extend_from_slice(b"<feature");
        xml::attribute(&mut out, "var", var);
        out.extend_from_slice(b"/>");
    }
    form::write_metadata(&mut out, node, (!asked.service).then_some(&asked.jid));
    out.extend_from_slice(b"</query>");
    Ok(Step::Result(out))
}

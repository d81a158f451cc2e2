//! Users' lists of their own subscriptions and affiliations (XEP-0060 5.6, 5.7): for one node from
//! the node, for all nodes from the user's own rows.

use minidom::Element;

use super::super::super::iq::{IqRequest, Step};
use super::super::items::NS_RSM;
use super::super::member::{self, Member, State};
use super::super::{Answered, Asked, NS, close, error, found_directory, open, range, row, subscribe, xml};
use crate::limits::{NODE_MEMBERSHIPS_BYTES_MAX, NODE_MEMBERSHIPS_MAX, NODE_PAGE_BYTES_MAX, NODE_PAGE_ITEMS_MAX};
use crate::store::nodes::{self as rows, Named};
use crate::store::{Found, Row};
use crate::wire::jid::bare_of;

/// The kind of list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum What {
    Subscriptions,
    Affiliations,
}

impl What {
    /// The element with the list.
    pub(super) fn name(self) -> &'static str {
        match self {
            What::Subscriptions => "subscriptions",
            What::Affiliations => "affiliations",
        }
    }
}

/// The reads for a user's subscriptions or affiliations, or for the listed nodes.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    /// The user's rows of all nodes, for a list of those of one service.
    All { domain: Box<str>, what: What },
    /// The user's relation to one node.
    One { node: Box<str>, what: What },
    /// A page of the nodes that this address lists, with at most this many.
    Shown { jid: Box<str>, page: Page, most: u32 },
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::All { domain, what } => all_found(&domain, what, found),
            Pending::One { node, what } => one_found(&node, what, found),
            Pending::Shown { jid, page, most } => shown_found(&jid, &page, most, found),
        }
    }
}

fn subscription(member: &Member) -> Option<&'static str> {
    match member.state {
        State::Subscribed => Some("subscribed"),
        State::Pending => Some("pending"),
        State::None | State::Withdrawn | State::UnderWay => None,
    }
}

fn write(out: &mut Vec<u8>, what: What, node: &str, member: &Member) {
    match what {
        What::Subscriptions => {
            if let Some(state) = subscription(member) {
                subscribe::write(out, node, &member.address, state);
            }
        }
        What::Affiliations => {
            if member.affiliation.is_some() && member.state != State::UnderWay {
                out.extend_from_slice(b"<affiliation");
                xml::attribute(out, "node", node);
                xml::attribute(out, "affiliation", member::name(member.affiliation));
                out.extend_from_slice(b"/>");
            }
        }
    }
}

/// For all nodes of a service, at the requester's home.
pub(super) fn all(request: &IqRequest<'_>, domain: &str, what: What) -> Step {
    let (user, domain): (Box<str>, Box<str>) = (bare_of(request.from).into(), domain.into());
    let bytes = NODE_MEMBERSHIPS_BYTES_MAX;
    let queries = [Named::Own, Named::Given].map(|kind| kind.after(&user, "", NODE_MEMBERSHIPS_MAX, bytes)).into();
    Step::Read(queries, super::Pending::Own(Pending::All { domain, what }).into())
}

fn all_found(domain: &str, what: What, found: &[Found]) -> Answered {
    let mut out = open(NS, what.name(), None);
    for found in found {
        for row in range(Some(found))?.0 {
            let actor = rows::named(&row.sort).and_then(|actor| actor.split_once('/'));
            let member = Member::decode(Some(&row.value)).ok_or(error::UNREADABLE)?;
            if let Some((_, node)) = actor.filter(|(of, _)| *of == domain) {
                write(&mut out, what, node, &member);
            }
        }
    }
    close(&mut out, what.name());
    Ok(Step::Result(out))
}

/// For one node.
fn at(asked: Asked, what: What) -> Answered {
    let node: Box<str> = super::node_of(&asked.actor).into();
    let queries = vec![rows::directory(&asked.actor), asked.people(&node)];
    Ok(Step::Read(queries, super::Pending::Own(Pending::One { node, what }).into()))
}

fn one_found(node: &str, what: What, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    directory.get(node).ok_or(error::NOT_FOUND)?;
    let member = found.first().and_then(row).and_then(Member::decode).ok_or(error::UNREADABLE)?;
    let mut out = open(NS, what.name(), Some(node));
    write(&mut out, what, node, &member);
    close(&mut out, what.name());
    Ok(Step::Result(out))
}

/// XEP-0060 5.6.
pub(in crate::extension::pubsub) fn subscriptions(asked: Asked) -> Answered {
    at(asked, What::Subscriptions)
}

/// XEP-0060 5.7.
pub(in crate::extension::pubsub) fn affiliations(asked: Asked) -> Answered {
    at(asked, What::Affiliations)
}

/// A page of a list in ascending order (XEP-0059).
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Page {
    /// Whether a page was requested.
    asked: bool,
    pub(super) max: Option<u32>,
    pub(super) after: Box<str>,
}

impl Page {
    /// Reads it in a request.
    pub(super) fn of(query: &Element) -> Result<Page, error::Error> {
        let Some(set) = query.get_child("set", NS_RSM) else { return Ok(Page::default()) };
        let text = |name| set.get_child(name, NS_RSM).map(Element::text);
        // Lists that change are read from the front.
        if text("before").is_some() {
            return Err(error::NOT_ACCEPTABLE);
        }
        let max = text("max").map(|max| max.trim().parse().map_err(|_| error::BAD_REQUEST)).transpose()?;
        let after = text("after").unwrap_or_default();
        if after.len() > crate::limits::NODE_ID_BYTES_MAX || after.contains('\0') {
            return Err(error::NOT_FOUND);
        }
        Ok(Page { asked: true, max, after: after.into() })
    }

    /// Describes the page, if one was requested or the list is incomplete.
    pub(super) fn write(&self, out: &mut Vec<u8>, first: Option<Box<str>>, last: Option<Box<str>>, more: bool) {
        if !self.asked && !more {
            return;
        }
        out.extend_from_slice(format!("<set xmlns='{NS_RSM}'>").as_bytes());
        for (name, value) in [("first", first), ("last", last)] {
            if let Some(value) = value {
                xml::text_element(out, name, &value);
            }
        }
        out.extend_from_slice(b"</set>");
    }
}

/// XEP-0060 5.2: the listed nodes, by pages (XEP-0059).
pub(in crate::extension::pubsub) fn shown(asked: Asked, payload: &[u8]) -> Step {
    let Some(query) = xml::parse(payload) else { return Step::Error(error::BAD_REQUEST) };
    let page = match Page::of(&query) {
        Ok(page) => page,
        Err(wrong) => return Step::Error(wrong),
    };
    let most = page.max.unwrap_or(NODE_PAGE_ITEMS_MAX).min(NODE_PAGE_ITEMS_MAX);
    let queries = vec![Named::Shown.after(&asked.actor, &page.after, most.max(1), NODE_PAGE_BYTES_MAX)];
    Step::Read(queries, super::Pending::Own(Pending::Shown { jid: asked.jid, page, most }).into())
}

fn shown_found(jid: &str, page: &Page, most: u32, found: &[Found]) -> Answered {
    let (rows, more) = range(found.first())?;
    let mut out = b"<query xmlns='http://jabber.org/protocol/disco#items'>".to_vec();
    let rows = if most == 0 { &[] } else { rows };
    for row in rows {
        let node = rows::named(&row.sort).ok_or(error::UNREADABLE)?;
        let mut title = super::super::node::Reader(&row.value);
        title.byte();
        out.extend_from_slice(b"<item");
        xml::attribute(&mut out, "jid", jid);
        xml::attribute(&mut out, "node", node);
        if let Some(title) = title.text().filter(|title| !title.is_empty()) {
            xml::attribute(&mut out, "name", &title);
        }
        out.extend_from_slice(b"/>");
    }
    let name = |row: Option<&Row>| row.and_then(|row| rows::named(&row.sort).map(Box::from));
    page.write(&mut out, name(rows.first()), name(rows.last()), more);
    out.extend_from_slice(b"</query>");
    Ok(Step::Result(out))
}

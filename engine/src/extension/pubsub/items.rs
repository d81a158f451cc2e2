//! Retrieval of items (XEP-0060 6.5): all, the most recent ones, by their ids, or by pages
//! (XEP-0059).

use minidom::Element;

use super::super::iq::Step;
use super::error::{self, Error};
use super::event::write_item;
use super::node::Node;
use super::{Answered, Asked, NS, close, found_directory, id, open, place, range, reading, xml};
use crate::limits::{NODE_ASKED_ITEMS_MAX, NODE_PAGE_BYTES_MAX, NODE_PAGE_ITEMS_MAX};
use crate::store::nodes::{self as rows, Item, Place, Span};
use crate::store::{Found, Query};

pub(super) use crate::ns::RSM as NS_RSM;

/// The reads about the items of a node.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    /// The node, and the places of the requested items.
    Node { asked: Asked, node: Box<str>, wanted: Wanted },
    /// A range of items.
    Span { actor: Box<str>, span: Span, answer: Answer },
    /// Items by their places. Those published before `gone_us` have expired.
    Ids { node: Box<str>, gone_us: u64 },
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::Node { asked, node, wanted } => node_found(asked, &node, &wanted, found),
            Pending::Span { actor, span, answer } => span_found(actor, span, answer, found),
            Pending::Ids { node, gone_us } => ids_found(&node, gone_us, found),
        }
    }
}

/// The requested items.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Wanted {
    /// All, or this many of the most recent ones.
    Recent(Option<u32>),
    /// Those with these ids.
    Ids(Vec<Box<str>>),
    /// A page (XEP-0059 2).
    Page(Page),
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Page {
    max: Option<u32>,
    edge: Edge,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum Edge {
    First,
    Last,
    After(Box<str>),
    Before(Box<str>),
}

impl Wanted {
    fn of(pubsub: &Element, items: &Element) -> Result<Wanted, Error> {
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| error::BAD_REQUEST);
        let ids: Vec<_> = items.children().filter(|child| child.is("item", NS)).collect();
        if ids.len() > NODE_ASKED_ITEMS_MAX {
            return Err(error::NOT_ACCEPTABLE);
        }
        if !ids.is_empty() {
            let ids = ids.into_iter().map(|item| id(item)?.ok_or(error::BAD_REQUEST));
            return Ok(Wanted::Ids(ids.collect::<Result<_, _>>()?));
        }
        let Some(set) = pubsub.get_child("set", NS_RSM) else {
            return Ok(Wanted::Recent(items.attr("max_items").map(number).transpose()?));
        };
        let text = |name| set.get_child(name, NS_RSM).map(Element::text);
        let max = text("max").map(|max| number(&max)).transpose()?;
        let edge = match (text("after"), text("before")) {
            (None, None) => Edge::First,
            (None, Some(before)) if before.is_empty() => Edge::Last,
            (None, Some(before)) => Edge::Before(before.into()),
            (Some(after), None) => Edge::After(after.into()),
            (Some(_), Some(_)) => return Err(error::BAD_REQUEST),
        };
        Ok(Wanted::Page(Page { max, edge }))
    }

    /// The ids whose places must be known.
    fn ids(&self) -> &[Box<str>] {
        match self {
            Wanted::Ids(ids) => ids,
            Wanted::Page(Page { edge: Edge::After(id) | Edge::Before(id), .. }) => std::slice::from_ref(id),
            Wanted::Recent(_) | Wanted::Page(_) => &[],
        }
    }

    fn is_page(&self) -> bool {
        matches!(self, Wanted::Page(_))
    }
}

/// XEP-0060 6.5.
pub(super) fn items(asked: Asked, pubsub: &Element, items: &Element) -> Answered {
    let node = asked.name(items)?;
    let wanted = Wanted::of(pubsub, items).map_err(|why| asked.refuse(why))?;
    let mut queries = vec![rows::directory(&asked.actor), asked.people(&node)];
    queries.extend(wanted.ids().iter().map(|id| rows::place(&asked.actor, &node, id)));
    let others = !asked.owner && !asked.service;
    Ok(reading(others, queries, super::Pending::Items(Pending::Node { asked, node, wanted })))
}

fn node_found(asked: Asked, node: &str, wanted: &Wanted, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    let node = asked.seen(&directory, &asked.found_people(found.first())?, node)?;
    let places: Vec<_> = found[1..].iter().map(|found| place(Some(found))).collect::<Result<_, _>>()?;
    read(&asked, node, wanted, &places)
}

/// Reads the items of a node that the requester may see.
fn read(asked: &Asked, node: &Node, wanted: &Wanted, places: &[Option<Place>]) -> Answered {
    let (actor, gone_us) = (&*asked.actor, node.config.gone_before_us(asked.now));
    let page = |max: Option<u32>| max.unwrap_or(u32::MAX).min(NODE_PAGE_ITEMS_MAX);
    let all = |max| Span::all(page(max), NODE_PAGE_BYTES_MAX);
    let edge = || places.first().copied().flatten().map(|place| place.number).ok_or(error::NOT_FOUND);
    let span = match wanted {
        Wanted::Ids(_) => return read_ids(actor, node, gone_us, places),
        Wanted::Recent(max) => Span { reverse: true, ..all(*max) },
        Wanted::Page(Page { max, edge: Edge::First }) => all(*max),
        Wanted::Page(Page { max, edge: Edge::Last }) => Span { reverse: true, ..all(*max) },
        Wanted::Page(Page { max, edge: Edge::After(_) }) => Span { after: edge()?, ..all(*max) },
        Wanted::Page(Page { max, edge: Edge::Before(_) }) => Span { before: edge()?, reverse: true, ..all(*max) },
    };
    let answer = Answer {
        node: node.name.clone(),
        // The number of expired items among them is unknown.
        count: (node.config.expire_s == 0).then_some(node.items),
        gone_us,
        reverse: span.reverse,
        page: wanted.is_page(),
        // The position of the first item is known if the page touches an end (XEP-0059 2.6).
        from_start: matches!(wanted, Wanted::Page(Page { edge: Edge::First, .. })),
        to_end: matches!(wanted, Wanted::Recent(_) | Wanted::Page(Page { edge: Edge::Last, .. })),
        asked_all: matches!(wanted, Wanted::Recent(None)),
    };
    if span.rows_max == 0 {
        return Ok(Step::Result(answer.write(&[], false)?));
    }
    Ok(read_span(actor.into(), span, answer))
}

fn read_span(actor: Box<str>, span: Span, answer: Answer) -> Step {
    let query = rows::items(&actor, &answer.node, span);
    Step::Read(vec![query], super::Pending::Items(Pending::Span { actor, span, answer }).into())
}

fn span_found(actor: Box<str>, span: Span, answer: Answer, found: &[Found]) -> Answered {
    let (rows, more) = range(found.first())?;
    let last = rows.last().map(|row| (rows::number_of(&row.sort), Item::decode(&row.value)));
    if let (true, Some((number, item))) = (more && !span.reverse, last) {
        let (number, item) = (number.ok_or(error::UNREADABLE)?, item.ok_or(error::UNREADABLE)?);
        if item.at_us < answer.gone_us {
            // All of these have expired; live ones follow them.
            return Ok(read_span(actor, Span { after: number, ..span }, answer));
        }
    }
    Ok(Step::Result(answer.write(rows, more)?))
}

/// Reads items by their places, up to the limit of one answer; missing ones are skipped.
fn read_ids(actor: &str, node: &Node, gone_us: u64, places: &[Option<Place>]) -> Answered {
    let (mut bytes, mut queries): (u32, Vec<Query>) = (0, Vec::new());
    for place in places.iter().flatten() {
        if bytes >= NODE_PAGE_BYTES_MAX {
            break;
        }
        bytes = bytes.saturating_add(place.bytes);
        let (after, before) = (place.number - 1, place.number + 1);
        queries.push(rows::items(actor, &node.name, Span { after, before, ..Span::all(1, place.bytes) }));
    }
    if queries.is_empty() {
        return Err(error::NOT_FOUND);
    }
    let pending = Pending::Ids { node: node.name.clone(), gone_us };
    Ok(Step::Read(queries, super::Pending::Items(pending).into()))
}

fn ids_found(node: &str, gone_us: u64, found: &[Found]) -> Answered {
    let (mut out, mut count) = (open(NS, "items", Some(node)), 0);
    for found in found {
        let Some(row) = range(Some(found))?.0.first() else { continue };
        let item = Item::decode(&row.value).ok_or(error::UNREADABLE)?;
        if item.at_us >= gone_us {
            out.extend_from_slice(&write_item(&item, true));
            count += 1;
        }
    }
    if count == 0 {
        return Err(error::NOT_FOUND);
    }
    close(&mut out, "items");
    Ok(Step::Result(out))
}

/// How to answer with a node's items.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Answer {
    node: Box<str>,
    /// Number of items of the node, if known.
    count: Option<u32>,
    /// Items published before this time have expired, microseconds since the Unix epoch.
    gone_us: u64,
    /// Whether they were read from the last backwards.
    reverse: bool,
    /// Whether a page was requested.
    page: bool,
    from_start: bool,
    to_end: bool,
    /// Whether no number of items was given, so that the answer must say if there are more.
    asked_all: bool,
}

impl Answer {
    /// Writes the items in order of publication.
    fn write(&self, found: &[crate::store::Row], more: bool) -> Result<Vec<u8>, Error> {
        let mut all: Vec<Item<'_>> =
            found.iter().map(|row| Item::decode(&row.value).ok_or(error::UNREADABLE)).collect::<Result<_, _>>()?;
        all.retain(|item| item.at_us >= self.gone_us);
        if self.reverse {
            all.reverse();
        }
        let mut out = open(NS, "items", Some(&self.node));
        for item in &all {
            out.extend_from_slice(&write_item(item, true));
        }
        out.extend_from_slice(b"</items>");
        // XEP-0060 6.5.4: the answer also says that items were left out.
        if self.page || (self.asked_all && more) {
            self.write_set(&mut out, &all);
        }
        out.extend_from_slice(b"</pubsub>");
        Ok(out)
    }

    fn write_set(&self, out: &mut Vec<u8>, all: &[Item<'_>]) {
        out.extend_from_slice(format!("<set xmlns='{NS_RSM}'>").as_bytes());
        if let (Some(first), Some(last)) = (all.first(), all.last()) {
            let index = match (self.from_start, self.to_end) {
                (true, _) => Some(0),
                (_, true) => self.count.and_then(|count| count.checked_sub(all.len() as u32)),
                _ => None,
            };
            match index {
                Some(index) => out.extend_from_slice(format!("<first index='{index}'>").as_bytes()),
                None => out.extend_from_slice(b"<first>"),
            }
            xml::escape(out, first.id);
            out.extend_from_slice(b"</first>");
            xml::text_element(out, "last", last.id);
        }
        if let Some(count) = self.count {
            xml::text_element(out, "count", &count.to_string());
        }
        out.extend_from_slice(b"</set>");
    }
}

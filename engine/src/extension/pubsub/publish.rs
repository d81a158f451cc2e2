//! Publishing and removing items (XEP-0060 7).

use minidom::Element;

use super::super::iq::Step;
use super::error;
use super::event::Event;
use super::form::Submitted;
use super::node::{Affiliation, Audience, Config};
use super::service::channel;
use super::{Answered, Asked, NS, found_directory, id, keep, open, place, range, xml};
use crate::limits::NODE_ITEM_BYTES_MAX;
use crate::store::nodes::{self as rows, Item, Span};
use crate::store::{Batch, Found};

/// The id of the item in a node with a single item (XEP-0060 12.20).
const SINGLE: &str = "current";

/// A publication or retraction that waits for the node.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    Publish(Publishing),
    /// Removes the item with this id. The owner may decide whether subscribers are notified.
    Retract {
        asked: Asked,
        node: Box<str>,
        id: Box<str>,
        notify: Option<bool>,
    },
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::Publish(publishing) => publish_found(publishing, found),
            Pending::Retract { asked, node, id, notify } => retract_found(asked, &node, &id, notify, found),
        }
    }
}

/// A publication.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Publishing {
    asked: Asked,
    node: Box<str>,
    has_item: bool,
    /// The item's id, if the publisher has assigned one.
    given: Option<Box<str>>,
    /// The id under which it was looked up.
    looked: Box<str>,
    payload: Vec<u8>,
    options: Option<Submitted>,
}

/// XEP-0060 7.1. A missing node is created.
pub(super) fn publish(asked: Asked, pubsub: &Element, publish: &Element) -> Answered {
    asked.must_own()?;
    let node = asked.name(publish)?;
    let mut items = publish.children().filter(|child| child.is("item", NS));
    let (item, more) = (items.next(), items.next());
    if more.is_some() {
        return Err(error::ONE_ITEM);
    }
    let given = match item {
        Some(item) => id(item)?,
        None => None,
    };
    let payload = match item {
        Some(item) => payload(item)?,
        None => Vec::new(),
    };
    let options = match pubsub.get_child("publish-options", NS) {
        Some(options) => Some(Submitted::options(options)?),
        None => None,
    };
    let looked = given.clone().unwrap_or_else(|| SINGLE.into());
    let queries = vec![
        rows::directory(&asked.actor),
        asked.people(&node),
        rows::place(&asked.actor, &node, &looked),
        // The item that is dropped if the node is full.
        rows::items(&asked.actor, &node, Span::all(1, 1)),
    ];
    let publishing = Publishing { has_item: item.is_some(), asked, node, given, looked, payload, options };
    Ok(Step::InTurn(queries, super::Pending::Publish(Pending::Publish(publishing)).into()))
}

fn publish_found(publishing: Publishing, found: &[Found]) -> Answered {
    let Publishing { asked, node, has_item, given, looked, payload, options } = publishing;
    let (mut directory, found) = found_directory(found)?;
    let affiliates = asked.found_people(found.first())?;
    asked.may_publish(directory.get(&node), &affiliates)?;
    let config = match (directory.get(&node), options) {
        (Some(node), Some(options)) => {
            options.demand(&node.config)?;
            node.config.clone()
        }
        (Some(node), None) => node.config.clone(),
        (None, Some(options)) => options.made()?,
        (None, None) => Config::default(),
    };
    fits(&config, has_item, &payload)?;
    directory.last += 1;
    let number = directory.last;
    let id: Box<str> = match given {
        Some(id) => id,
        None if config.items_max() == 1 => SINGLE.into(),
        None => format!("{:x}-{number:x}", asked.now.wall_us).into(),
    };
    let mut batch = Batch::new();
    let entry = match directory.get_mut(&node) {
        Some(entry) => entry,
        None => directory.configure(&node, config.clone()),
    };
    let item = Item { at_us: asked.now.wall_us, id: &id, payload: &payload };
    if config.persist {
        let there = if id == looked { place(found.get(1))? } else { None };
        let oldest = range(found.get(2))?.0.first().and_then(keep::Oldest::of);
        let gone_us = entry.config.gone_before_us(asked.now);
        keep::store(entry, &mut batch, &asked.actor, (&item, "", gone_us), number, there, oldest.as_ref())?;
    } else {
        entry.lose(number);
    }
    directory.put(&mut batch, &asked.actor)?;
    let entry = directory.get(&node).ok_or(error::NOT_FOUND)?;
    let audience = Audience::of(&config, affiliates);
    let told = has_item.then_some(&item);
    let news = told.and_then(|item| channel::news(&asked, &config, number, item));
    let event =
        || Event::published(&node, &config, audience, told).numbered(if asked.service { number } else { 0 }, &config);
    let event = config.notifications.then(event);
    let mut answer = open(NS, "publish", Some(&node));
    if has_item {
        answer.extend_from_slice(b"<item");
        xml::attribute(&mut answer, "id", &id);
        answer.extend_from_slice(b"/>");
    }
    super::close(&mut answer, "publish");
    Ok(asked.done(entry, batch, event, answer).with(news.into_iter().collect()))
}

/// The payload of an item: at most one element.
fn payload(item: &Element) -> Result<Vec<u8>, error::Error> {
    let mut children = item.children();
    let (payload, more) = (children.next(), children.next());
    if more.is_some() {
        return Err(error::INVALID_PAYLOAD);
    }
    let out = payload.map(xml::written).unwrap_or_default();
    if out.len() > NODE_ITEM_BYTES_MAX {
        return Err(error::PAYLOAD_TOO_BIG);
    }
    Ok(out)
}

/// Checks that the node accepts a publication (XEP-0060 7.1.3.6).
fn fits(config: &Config, has_item: bool, payload: &[u8]) -> Result<(), error::Error> {
    match (config.persist, config.payloads) {
        (false, false) if has_item => Err(error::ITEM_FORBIDDEN),
        (false, false) => Ok(()),
        _ if !has_item => Err(error::ITEM_REQUIRED),
        (_, true) if payload.is_empty() => Err(error::PAYLOAD_REQUIRED),
        _ => Ok(()),
    }
}

/// XEP-0060 7.2.
pub(super) fn retract(asked: Asked, retract: &Element) -> Answered {
    asked.must_own()?;
    let node = asked.name(retract)?;
    let mut items = retract.children().filter(|child| child.is("item", NS));
    let id = match (items.next(), items.next()) {
        (Some(item), None) => id(item)?.ok_or(error::ITEM_REQUIRED)?,
        _ => return Err(error::ITEM_REQUIRED),
    };
    let notify = retract.attr("notify").map(|notify| matches!(notify, "1" | "true"));
    let queries = vec![rows::directory(&asked.actor), asked.people(&node), rows::place(&asked.actor, &node, &id)];
    Ok(Step::InTurn(queries, super::Pending::Publish(Pending::Retract { asked, node, id, notify }).into()))
}

fn retract_found(asked: Asked, node: &str, id: &str, notify: Option<bool>, found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let affiliates = asked.found_people(found.first())?;
    // XEP-0060 4.1: a publisher may do this, too.
    if affiliates.affiliation(asked.bare()) != Some(Affiliation::Publisher) {
        asked.owns(&mut directory, node)?;
    }
    let entry = directory.get_mut(node).ok_or(error::NOT_FOUND)?;
    if !entry.config.persist {
        return Err(error::NO_ITEMS);
    }
    let place = place(found.get(1))?.ok_or(error::NOT_FOUND)?;
    let mut batch = Batch::new();
    keep::remove(entry, &mut batch, &asked.actor, id, place);
    let told = entry.config.notifications && notify.unwrap_or(entry.config.notify_retract);
    let audience = Audience::of(&entry.config, affiliates);
    directory.put(&mut batch, &asked.actor)?;
    let entry = directory.get(node).ok_or(error::NOT_FOUND)?;
    Ok(asked.done(entry, batch, told.then(|| Event::retracted(node, audience, id)), Vec::new()))
}

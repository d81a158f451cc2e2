//! Requests of a node's owner (XEP-0060 8).

use minidom::Element;

use super::super::change::Change;
use super::super::iq::{Context, Step};
use super::error;
use super::event::Event;
use super::form::{self, Submitted};
use super::node::{Affiliates, Affiliation, Audience, Config, Directory, Node};
use super::service::{notify, said};
use super::{
    Answered, Asked, NS, NS_OWNER, affiliates, close, done, found_directory, keep, name, open, range, subscribe, xml,
};
use crate::extension;
use crate::limits::{NODE_AFFILIATES_MAX, NODE_ASKED_ITEMS_MAX, NODE_BYTES_MAX, NODE_ID_BYTES_MAX};
use crate::store::nodes::{self as rows, Item, Place, Span};
use crate::store::{Batch, Found};

/// An owner's request that waits for the node.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pending {
    asked: Asked,
    node: Box<str>,
    what: What,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
enum What {
    Create(Config),
    Configuration,
    /// `None` for a cancelled form.
    Configure(Option<Submitted>),
    /// The node has a new configuration in this directory; waits for the items that exceed the new
    /// limit.
    Trim {
        directory: Directory,
        event: Option<Event>,
    },
    Delete {
        redirect: Option<Box<str>>,
    },
    Purge,
    Affiliations,
    Affiliate(Vec<(Box<str>, Option<Affiliation>)>),
    Subscriptions,
    Subscribe(Vec<(Box<str>, bool)>),
}

fn pending(asked: Asked, node: Box<str>, what: What) -> extension::Pending {
    super::Pending::Owner(Pending { asked, node, what }).into()
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        let Pending { asked, node, what } = self;
        match what {
            What::Create(config) => create_found(asked, &node, config, found),
            What::Configuration => configuration_found(asked, &node, found),
            What::Configure(form) => configure_found(asked, node, form, found),
            What::Trim { directory, event } => trim(&asked, &node, directory, event, found),
            What::Delete { redirect } => delete_found(asked, &node, redirect.as_deref(), found),
            What::Purge => purge_found(asked, &node, found),
            What::Affiliations => affiliations_found(asked, &node, found),
            What::Affiliate(changes) => affiliate_found(asked, &node, changes, found),
            What::Subscriptions => subscriptions_found(&node, found),
            What::Subscribe(changes) => subscribe_found(asked, &node, changes, found),
        }
    }
}

/// XEP-0060 8.1.
pub(super) fn create(asked: Asked, pubsub: &Element, create: &Element) -> Answered {
    asked.must_own()?;
    if create.attr("node").is_none_or(str::is_empty) {
        return Err(error::NO_INSTANT_NODES);
    }
    let node = name(create)?;
    let form = match pubsub.get_child("configure", NS) {
        Some(configure) => Submitted::configuration(configure)?,
        None => None,
    };
    let config = match form {
        Some(form) => form.apply(&Config::default(), false)?,
        None => Config::default(),
    };
    let queries = vec![rows::directory(&asked.actor)];
    Ok(Step::InTurn(queries, pending(asked, node, What::Create(config))))
}

fn create_found(asked: Asked, node: &str, config: Config, found: &[Found]) -> Answered {
    let (mut directory, _) = found_directory(found)?;
    if directory.get(node).is_some() {
        return Err(error::CONFLICT);
    }
    directory.configure(node, config);
    let mut batch = Batch::new();
    directory.put(&mut batch, &asked.actor)?;
    Ok(Step::Write(batch, Vec::new()))
}

/// XEP-0060 8.3.
pub(super) fn default() -> Step {
    let mut out = open(NS_OWNER, "default", None);
    form::write(&mut out, &Config::default(), "form", false);
    close(&mut out, "default");
    Step::Result(out)
}

/// XEP-0060 8.2.1.
pub(super) fn configuration(asked: Asked, configure: &Element) -> Answered {
    let node = asked.name(configure)?;
    let queries = vec![rows::directory(&asked.actor)];
    Ok(Step::Read(queries, pending(asked, node, What::Configuration)))
}

fn configuration_found(asked: Asked, node: &str, found: &[Found]) -> Answered {
    let (mut directory, _) = found_directory(found)?;
    let entry = asked.owns(&mut directory, node)?;
    let mut out = open(NS_OWNER, "configure", Some(node));
    form::write(&mut out, &entry.config, "form", asked.service);
    close(&mut out, "configure");
    Ok(Step::Result(out))
}

/// XEP-0060 8.2.4.
pub(super) fn configure(asked: Asked, configure: &Element) -> Answered {
    let node = asked.name(configure)?;
    let form = Submitted::configuration(configure)?;
    let queries = vec![rows::directory(&asked.actor), asked.people(&node)];
    Ok(Step::InTurn(queries, pending(asked, node, What::Configure(form))))
}

fn configure_found(asked: Asked, node: Box<str>, form: Option<Submitted>, found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let entry = asked.owns(&mut directory, &node)?;
    // XEP-0004 3.2: a cancelled form changes nothing.
    let Some(form) = form else { return Ok(Step::Result(Vec::new())) };
    let config = form.apply(&entry.config, asked.service)?;
    let affiliates = asked.found_people(found.first())?;
    entry.config = config.clone();
    let most = if config.persist { config.items_max() } else { 0 };
    let excess = entry.items.saturating_sub(most);
    let event = config.notify_config && config.notifications;
    let event = event.then(|| Event::configured(&node, Audience::of(&config, affiliates), &config, asked.service));
    if excess == 0 {
        let mut batch = Batch::new();
        directory.put(&mut batch, &asked.actor)?;
        let entry = directory.get(&node).ok_or(error::NOT_FOUND)?;
        return Ok(asked.configured(entry, batch, event));
    }
    // The oldest items are removed.
    let query = rows::items(&asked.actor, &node, Span::all(excess, NODE_BYTES_MAX as u32 + 1));
    Ok(Step::Read(vec![query], pending(asked, node, What::Trim { directory, event })))
}

/// Removes the items in the results.
fn trim(asked: &Asked, node: &str, mut directory: Directory, event: Option<Event>, found: &[Found]) -> Answered {
    let (actor, (oldest, _)) = (&*asked.actor, range(found.first())?);
    let entry = directory.get_mut(node).ok_or(error::NOT_FOUND)?;
    let mut batch = Batch::new();
    for row in oldest {
        let number = rows::number_of(&row.sort).ok_or(error::UNREADABLE)?;
        let item = Item::decode(&row.value).ok_or(error::UNREADABLE)?;
        keep::remove(entry, &mut batch, actor, item.id, Place { number, bytes: item.bytes() });
    }
    directory.put(&mut batch, actor)?;
    let entry = directory.get(node).ok_or(error::NOT_FOUND)?;
    Ok(asked.configured(entry, batch, event))
}

impl Asked {
    /// Writes a node's changed configuration. Informs its service whether the node is listed.
    fn configured(&self, node: &Node, mut batch: Batch, event: Option<Event>) -> Step {
        let done = self.done(node, std::mem::take(&mut batch), event, Vec::new());
        if self.service { said::with(done, [said::show(self, node)]) } else { done }
    }
}

/// XEP-0060 8.4.
pub(super) fn delete(asked: Asked, delete: &Element) -> Answered {
    let node = asked.name(delete)?;
    let redirect = delete.get_child("redirect", NS_OWNER).and_then(|redirect| redirect.attr("uri"));
    if redirect.is_some_and(|uri| uri.is_empty() || uri.len() > NODE_ID_BYTES_MAX) {
        return Err(error::BAD_REQUEST);
    }
    let redirect: Option<Box<str>> = redirect.map(Into::into);
    let queries = vec![rows::directory(&asked.actor), asked.people(&node)];
    Ok(Step::InTurn(queries, pending(asked, node, What::Delete { redirect })))
}

fn delete_found(asked: Asked, node: &str, redirect: Option<&str>, found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let actor = &asked.actor;
    asked.owns(&mut directory, node)?;
    let entry = directory.remove(node).ok_or(error::NOT_FOUND)?;
    let audience = Audience::of(&entry.config, asked.found_people(found.first())?);
    let mut batch = Batch::new();
    rows::delete_items(&mut batch, actor, node);
    let told = entry.config.notify_delete && entry.config.notifications;
    let event = told.then(|| Event::deleted(node, audience, redirect));
    if asked.service {
        rows::put_directory(&mut batch, actor, b"");
        rows::delete_pushes(&mut batch, actor);
        return Ok(notify::deleted(&asked, (&entry, directory.last), batch, event));
    }
    Affiliates::default().put(&mut batch, actor, node)?;
    directory.put(&mut batch, actor)?;
    Ok(done(batch, event, Vec::new()))
}

/// XEP-0060 8.5.
pub(super) fn purge(asked: Asked, purge: &Element) -> Answered {
    let node = asked.name(purge)?;
    let queries = vec![rows::directory(&asked.actor), asked.people(&node)];
    Ok(Step::InTurn(queries, pending(asked, node, What::Purge)))
}

fn purge_found(asked: Asked, node: &str, found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let last = directory.last;
    let entry = asked.owns(&mut directory, node)?;
    if !entry.config.persist {
        return Err(error::NO_ITEMS);
    }
    let audience = Audience::of(&entry.config, asked.found_people(found.first())?);
    let told = entry.config.notifications && entry.config.notify_retract;
    (entry.items, entry.bytes) = (0, 0);
    entry.lose(last);
    let mut batch = Batch::new();
    rows::delete_items(&mut batch, &asked.actor, node);
    directory.put(&mut batch, &asked.actor)?;
    let entry = directory.get(node).ok_or(error::NOT_FOUND)?;
    Ok(asked.done(entry, batch, told.then(|| Event::purged(node, audience)), Vec::new()))
}

/// XEP-0060 8.9.1.
pub(super) fn affiliations(asked: Asked, affiliations: &Element) -> Answered {
    let node = name(affiliations)?;
    let queries = vec![rows::directory(&asked.actor), rows::affiliates(&asked.actor, &node)];
    Ok(Step::Read(queries, pending(asked, node, What::Affiliations)))
}

fn affiliations_found(asked: Asked, node: &str, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    directory.get(node).ok_or(error::NOT_FOUND)?;
    let mut out = open(NS_OWNER, "affiliations", Some(node));
    let mut write = |jid: &str, affiliation: &str| {
        out.extend_from_slice(b"<affiliation");
        xml::attribute(&mut out, "jid", jid);
        xml::attribute(&mut out, "affiliation", affiliation);
        out.extend_from_slice(b"/>");
    };
    write(&asked.actor, "owner");
    for (jid, affiliation) in &affiliates(found.first())?.affiliations {
        write(jid, super::member::name(Some(*affiliation)));
    }
    close(&mut out, "affiliations");
    Ok(Step::Result(out))
}

/// XEP-0060 8.9.2.
pub(super) fn affiliate(context: &Context<'_>, asked: Asked, affiliations: &Element) -> Answered {
    let node = name(affiliations)?;
    let mut changes: Vec<(Box<str>, Option<Affiliation>)> = Vec::new();
    for change in affiliations.children().filter(|child| child.is("affiliation", NS_OWNER)) {
        let jid = change.attr("jid").and_then(context.bare).ok_or(error::BAD_REQUEST)?;
        if changes.iter().any(|(other, _)| *other == jid) {
            return Err(error::BAD_REQUEST);
        }
        let affiliation = match change.attr("affiliation") {
            None => continue,
            Some("owner") if jid == asked.actor => continue,
            // There is always exactly one owner.
            Some("owner") => return Err(error::NOT_ACCEPTABLE),
            Some(_) if jid == asked.actor => return Err(error::NOT_ACCEPTABLE),
            Some("member") => Some(Affiliation::Member),
            Some("outcast") => Some(Affiliation::Outcast),
            Some("none") => None,
            Some("publisher" | "publish-only") => return Err(error::NO_PUBLISHERS),
            Some(_) => return Err(error::BAD_REQUEST),
        };
        if changes.len() == NODE_AFFILIATES_MAX {
            return Err(error::NOT_ACCEPTABLE);
        }
        changes.push((jid, affiliation));
    }
    let queries = vec![rows::directory(&asked.actor), rows::affiliates(&asked.actor, &node)];
    Ok(Step::InTurn(queries, pending(asked, node, What::Affiliate(changes))))
}

fn affiliate_found(
    asked: Asked,
    node: &str,
    changes: Vec<(Box<str>, Option<Affiliation>)>,
    found: &[Found],
) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let entry = directory.get_mut(node).ok_or(error::NOT_FOUND)?;
    let mut all = affiliates(found.first())?;
    for (jid, affiliation) in &changes {
        all.affiliate(jid, *affiliation);
        // XEP-0163 7.1: a user who may no longer see the node is unsubscribed.
        if *affiliation == Some(Affiliation::Outcast) {
            all.end(jid);
        }
    }
    entry.listed = !all.is_empty();
    let mut batch = Batch::new();
    all.put(&mut batch, &asked.actor, node)?;
    directory.put(&mut batch, &asked.actor)?;
    Ok(Step::Write(batch, Vec::new()))
}

/// XEP-0060 8.8.1. Pending requests are not included.
pub(super) fn subscriptions(asked: Asked, subscriptions: &Element) -> Answered {
    let node = name(subscriptions)?;
    let queries = vec![rows::directory(&asked.actor), rows::affiliates(&asked.actor, &node)];
    Ok(Step::Read(queries, pending(asked, node, What::Subscriptions)))
}

fn subscriptions_found(node: &str, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    directory.get(node).ok_or(error::NOT_FOUND)?;
    let mut out = open(NS_OWNER, "subscriptions", Some(node));
    for jid in &affiliates(found.first())?.subscribers {
        subscribe::write_of(&mut out, jid, "subscribed");
    }
    close(&mut out, "subscriptions");
    Ok(Step::Result(out))
}

/// The subscriptions that an owner changes, and whether each is to exist (XEP-0060 8.8.2).
pub(super) fn wanted(context: &Context<'_>, subscriptions: &Element) -> Result<Vec<(Box<str>, bool)>, error::Error> {
    let mut changes: Vec<(Box<str>, bool)> = Vec::new();
    for change in subscriptions.children().filter(|child| child.is("subscription", NS_OWNER)) {
        let jid = change.attr("jid").and_then(context.jid).ok_or(error::BAD_REQUEST)?;
        if changes.iter().any(|(other, _)| *other == jid) {
            return Err(error::BAD_REQUEST);
        }
        match change.attr("subscription") {
            None => continue,
            Some("subscribed") => changes.push((jid, true)),
            Some("none") => changes.push((jid, false)),
            Some(_) => return Err(error::NOT_ACCEPTABLE),
        }
        if changes.len() > NODE_ASKED_ITEMS_MAX {
            return Err(error::NOT_ACCEPTABLE);
        }
    }
    Ok(changes)
}

/// XEP-0060 8.8.2. A user who has not requested a subscription cannot be subscribed.
pub(super) fn subscribe(context: &Context<'_>, asked: Asked, subscriptions: &Element) -> Answered {
    let node = name(subscriptions)?;
    let changes = wanted(context, subscriptions)?;
    let queries = vec![rows::directory(&asked.actor), rows::affiliates(&asked.actor, &node)];
    Ok(Step::InTurn(queries, pending(asked, node, What::Subscribe(changes))))
}

fn subscribe_found(asked: Asked, node: &str, changes: Vec<(Box<str>, bool)>, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    let entry = directory.get(node).ok_or(error::NOT_FOUND)?;
    let mut all = affiliates(found.first())?;
    let mut told = Vec::new();
    for (jid, on) in &changes {
        if let Some((jid, state)) = super::member::change(&mut all, jid, *on)? {
            let audience = Audience::of(&entry.config, Affiliates::default());
            told.push(Change::Event(Box::new(Event::subscription(node, audience, &jid, state))));
        }
    }
    let mut batch = Batch::new();
    all.put(&mut batch, &asked.actor, node)?;
    Ok(Step::Change([Change::Write(batch)].into_iter().chain(told).collect(), Vec::new()))
}

//! What the owner of nodes does with them (XEP-0060 8).

use minidom::Element;

use super::super::iq::{Context, Resume, Step};
use super::error;
use super::event::Event;
use super::form::{self, Submitted};
use super::node::{Affiliates, Affiliation, Audience, Config, Directory};
use super::{Answered, Asked, NS, NS_OWNER, affiliates, close, done, go_on, name, open, range, step, xml};
use crate::limits::{NODE_AFFILIATES_MAX, NODE_BYTES_MAX, NODE_ID_BYTES_MAX};
use crate::store::Batch;
use crate::store::nodes::{self as rows, Item, Span};

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
        Some(form) => form.apply(&Config::default())?,
        None => Config::default(),
    };
    let actor = asked.actor;
    let queries = vec![rows::directory(&actor)];
    let go_on = go_on(move |mut directory, _| {
        if directory.get(&node).is_some() {
            return Err(error::CONFLICT);
        }
        directory.configure(&node, config.clone());
        let mut batch = Batch::new();
        directory.put(&mut batch, &actor)?;
        Ok(Step::Write(batch, Vec::new()))
    });
    Ok(Step::InTurn(queries, go_on))
}

/// XEP-0060 8.3.
pub(super) fn default() -> Step {
    let mut out = open(NS_OWNER, "default", None);
    form::write(&mut out, &Config::default(), "form");
    close(&mut out, "default");
    Step::Result(out)
}

/// XEP-0060 8.2.1.
pub(super) fn configuration(asked: Asked, configure: &Element) -> Answered {
    let node = name(configure)?;
    let queries = vec![rows::directory(&asked.actor)];
    let go_on = go_on(move |directory, _| {
        let entry = directory.get(&node).ok_or(error::NOT_FOUND)?;
        let mut out = open(NS_OWNER, "configure", Some(&node));
        form::write(&mut out, &entry.config, "form");
        close(&mut out, "configure");
        Ok(Step::Result(out))
    });
    Ok(Step::Read(queries, go_on))
}

/// XEP-0060 8.2.4.
pub(super) fn configure(asked: Asked, configure: &Element) -> Answered {
    let node = name(configure)?;
    let form = Submitted::configuration(configure)?;
    let actor = asked.actor;
    let queries = vec![rows::directory(&actor), rows::affiliates(&actor, &node)];
    let go_on = go_on(move |mut directory, found| {
        let entry = directory.get_mut(&node).ok_or(error::NOT_FOUND)?;
        // XEP-0004 3.2: a form that was cancelled changes nothing.
        let Some(form) = &form else { return Ok(Step::Result(Vec::new())) };
        let config = form.apply(&entry.config)?;
        let affiliates = affiliates(found.first())?;
        entry.config = config.clone();
        let most = if config.persist { config.items_max() } else { 0 };
        let excess = entry.items.saturating_sub(most);
        let event = config.notify_config && config.notifications;
        let event = event.then(|| Event::configured(&node, Audience::of(&config, affiliates), &config));
        if excess == 0 {
            let mut batch = Batch::new();
            directory.put(&mut batch, &actor)?;
            return Ok(done(batch, event, Vec::new()));
        }
        // Those that were published first go.
        let query = rows::items(&actor, &node, Span::all(excess, NODE_BYTES_MAX as u32 + 1));
        let (actor, node, directory) = (actor.clone(), node.clone(), directory);
        let go_on = Resume::with(move |found| step(trim(&actor, &node, directory.clone(), event.clone(), found)));
        Ok(Step::Read(vec![query], go_on))
    });
    Ok(Step::InTurn(queries, go_on))
}

/// Removes the items that were read.
fn trim(
    actor: &str,
    node: &str,
    mut directory: Directory,
    event: Option<Event>,
    found: &[crate::store::Found],
) -> Answered {
    let (oldest, _) = range(found.first())?;
    let entry = directory.get_mut(node).ok_or(error::NOT_FOUND)?;
    let mut batch = Batch::new();
    for row in oldest {
        let number = rows::number_of(&row.sort).ok_or(error::UNREADABLE)?;
        let item = Item::decode(&row.value).ok_or(error::UNREADABLE)?;
        rows::delete_item(&mut batch, actor, node, item.id, number);
        entry.items = entry.items.saturating_sub(1);
        entry.bytes = entry.bytes.saturating_sub(item.bytes().into());
    }
    directory.put(&mut batch, actor)?;
    Ok(done(batch, event, Vec::new()))
}

/// XEP-0060 8.4.
pub(super) fn delete(asked: Asked, delete: &Element) -> Answered {
    let node = name(delete)?;
    let redirect = delete.get_child("redirect", NS_OWNER).and_then(|redirect| redirect.attr("uri"));
    if redirect.is_some_and(|uri| uri.is_empty() || uri.len() > NODE_ID_BYTES_MAX) {
        return Err(error::BAD_REQUEST);
    }
    let redirect: Option<Box<str>> = redirect.map(Into::into);
    let actor = asked.actor;
    let queries = vec![rows::directory(&actor), rows::affiliates(&actor, &node)];
    let go_on = go_on(move |mut directory, found| {
        let entry = directory.remove(&node).ok_or(error::NOT_FOUND)?;
        let audience = Audience::of(&entry.config, affiliates(found.first())?);
        let mut batch = Batch::new();
        rows::delete_items(&mut batch, &actor, &node);
        Affiliates::default().put(&mut batch, &actor, &node)?;
        directory.put(&mut batch, &actor)?;
        let told = entry.config.notify_delete && entry.config.notifications;
        let event = told.then(|| Event::deleted(&node, audience, redirect.as_deref()));
        Ok(done(batch, event, Vec::new()))
    });
    Ok(Step::InTurn(queries, go_on))
}

/// XEP-0060 8.5.
pub(super) fn purge(asked: Asked, purge: &Element) -> Answered {
    let node = name(purge)?;
    let actor = asked.actor;
    let queries = vec![rows::directory(&actor), rows::affiliates(&actor, &node)];
    let go_on = go_on(move |mut directory, found| {
        let entry = directory.get_mut(&node).ok_or(error::NOT_FOUND)?;
        if !entry.config.persist {
            return Err(error::NO_ITEMS);
        }
        let audience = Audience::of(&entry.config, affiliates(found.first())?);
        let told = entry.config.notifications && entry.config.notify_retract;
        (entry.items, entry.bytes) = (0, 0);
        let mut batch = Batch::new();
        rows::delete_items(&mut batch, &actor, &node);
        directory.put(&mut batch, &actor)?;
        Ok(done(batch, told.then(|| Event::purged(&node, audience)), Vec::new()))
    });
    Ok(Step::InTurn(queries, go_on))
}

/// XEP-0060 8.9.1.
pub(super) fn affiliations(asked: Asked, affiliations: &Element) -> Answered {
    let node = name(affiliations)?;
    let actor = asked.actor;
    let queries = vec![rows::directory(&actor), rows::affiliates(&actor, &node)];
    let go_on = go_on(move |directory, found| {
        directory.get(&node).ok_or(error::NOT_FOUND)?;
        let mut out = open(NS_OWNER, "affiliations", Some(&node));
        let mut write = |jid: &str, affiliation: &str| {
            out.extend_from_slice(b"<affiliation");
            xml::attribute(&mut out, "jid", jid);
            xml::attribute(&mut out, "affiliation", affiliation);
            out.extend_from_slice(b"/>");
        };
        write(&actor, "owner");
        for (jid, affiliation) in &affiliates(found.first())?.affiliations {
            write(jid, if *affiliation == Affiliation::Member { "member" } else { "outcast" });
        }
        close(&mut out, "affiliations");
        Ok(Step::Result(out))
    });
    Ok(Step::Read(queries, go_on))
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
            // There is one owner, always.
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
    let actor = asked.actor;
    let queries = vec![rows::directory(&actor), rows::affiliates(&actor, &node)];
    let go_on = go_on(move |mut directory, found| {
        let entry = directory.get_mut(&node).ok_or(error::NOT_FOUND)?;
        let mut all = affiliates(found.first())?;
        for (jid, affiliation) in &changes {
            all.affiliate(jid, *affiliation);
            // XEP-0163 7.1: who may not see the node any more is not subscribed any more.
            if *affiliation == Some(Affiliation::Outcast) {
                all.subscribers.retain(|subscriber| crate::wire::jid::bare_of(subscriber) != &**jid);
            }
        }
        entry.listed = !all.is_empty();
        let mut batch = Batch::new();
        all.put(&mut batch, &actor, &node)?;
        directory.put(&mut batch, &actor)?;
        Ok(Step::Write(batch, Vec::new()))
    });
    Ok(Step::InTurn(queries, go_on))
}

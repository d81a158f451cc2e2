//! Explicit subscriptions (XEP-0060 6.1, 6.2, 5.6). Contacts need none: they are told by what their clients are interested in.

use minidom::Element;

use super::super::iq::{Context, Step};
use super::error;
use super::event::Event;
use super::node::{Affiliates, Audience, SendLast};
use super::{Answered, Asked, NS, affiliates, close, done, go_on, name, open, range, reading, xml};
use crate::limits::NODES_MAX;
use crate::store::Batch;
use crate::store::nodes::{self as rows, Item, Span};
use crate::wire::jid::bare_of;

/// The address that is to be subscribed: one of the asker's (XEP-0060 6.1.3.1).
fn subscriber(context: &Context<'_>, asked: &Asked, element: &Element) -> Result<Box<str>, error::Error> {
    let jid = element.attr("jid").and_then(context.jid).ok_or(error::INVALID_JID)?;
    if bare_of(&jid) == bare_of(&asked.from) { Ok(jid) } else { Err(error::INVALID_JID) }
}

fn write(out: &mut Vec<u8>, node: &str, jid: &str, state: &str) {
    out.extend_from_slice(b"<subscription");
    for (name, value) in [("node", node), ("jid", jid), ("subscription", state)] {
        xml::attribute(out, name, value);
    }
    out.extend_from_slice(b"/>");
}

fn answer(node: &str, jid: &str, state: &str) -> Vec<u8> {
    let mut out = format!("<pubsub xmlns='{NS}'>").into_bytes();
    write(&mut out, node, jid, state);
    out.extend_from_slice(b"</pubsub>");
    out
}

/// XEP-0060 6.1.
pub(super) fn subscribe(context: &Context<'_>, asked: Asked, subscribe: &Element) -> Answered {
    let node = name(subscribe).map_err(|why| asked.refuse(why))?;
    let jid = subscriber(context, &asked, subscribe).map_err(|why| asked.refuse(why))?;
    let queries = vec![
        rows::directory(&asked.actor),
        rows::affiliates(&asked.actor, &node),
        rows::items(&asked.actor, &node, Span::LAST),
    ];
    let go_on = go_on(move |mut directory, found| {
        let mut all = affiliates(found.first())?;
        let entry = asked.seen(&directory, &all, &node)?;
        all.subscribe(&jid);
        let (last, _) = range(found.get(1))?;
        let gone_us = entry.config.gone_before_us(asked.now_us);
        let last = last.first().and_then(|row| Item::decode(&row.value)).filter(|item| item.at_us >= gone_us);
        let shown = entry.config.send_last != SendLast::Never && entry.config.notifications;
        let event = last.filter(|_| shown).map(|item| {
            let audience = Audience::of(&entry.config, Affiliates::default());
            Event::last(&asked.actor, entry, audience, &item, &jid)
        });
        let mut batch = Batch::new();
        all.put(&mut batch, &asked.actor, &node)?;
        if let Some(entry) = directory.get_mut(&node).filter(|entry| !entry.listed) {
            entry.listed = true;
            directory.put(&mut batch, &asked.actor)?;
        }
        Ok(done(batch, event, answer(&node, &jid, "subscribed")))
    });
    Ok(Step::InTurn(queries, go_on))
}

/// XEP-0060 6.2.
pub(super) fn unsubscribe(context: &Context<'_>, asked: Asked, unsubscribe: &Element) -> Answered {
    let node = name(unsubscribe).map_err(|why| asked.refuse(why))?;
    let jid = subscriber(context, &asked, unsubscribe).map_err(|why| asked.refuse(why))?;
    let queries = vec![rows::directory(&asked.actor), rows::affiliates(&asked.actor, &node)];
    let go_on = go_on(move |mut directory, found| {
        let mut all = affiliates(found.first())?;
        let entry = directory.get_mut(&node).ok_or_else(|| asked.refuse(error::NOT_FOUND))?;
        if !all.unsubscribe(&jid) {
            // XEP-0060 6.2.3.2; who may not see the node hears nothing of it.
            let audience = Audience::of(&entry.config, all);
            let may = audience.may(asked.viewer()).map_err(|denied| asked.refuse(denied.into()));
            return Err(may.err().unwrap_or(error::NOT_SUBSCRIBED));
        }
        let mut batch = Batch::new();
        all.put(&mut batch, &asked.actor, &node)?;
        if all.is_empty() {
            entry.listed = false;
            directory.put(&mut batch, &asked.actor)?;
        }
        Ok(Step::Write(batch, answer(&node, &jid, "none")))
    });
    Ok(Step::InTurn(queries, go_on))
}

/// XEP-0060 5.6: those of the asker.
pub(super) fn subscriptions(asked: Asked, subscriptions: &Element) -> Answered {
    let others = !asked.owner;
    let only: Option<Box<str>> = subscriptions.attr("node").map(Into::into);
    let queries = vec![rows::directory(&asked.actor), rows::all_affiliates(&asked.actor, NODES_MAX as u32)];
    let go_on = go_on(move |_, found| {
        let (found, _) = range(found.first())?;
        let mut all = Vec::new();
        for row in found {
            let Some(node) = rows::affiliates_node(&row.sort) else { continue };
            if only.as_deref().is_some_and(|only| only != node) {
                continue;
            }
            let affiliates = Affiliates::decode(Some(&row.value)).ok_or(error::UNREADABLE)?;
            let own = affiliates.subscribers.iter().filter(|jid| bare_of(jid) == bare_of(&asked.from));
            own.for_each(|jid| write(&mut all, node, jid, "subscribed"));
        }
        if all.is_empty() && !asked.presence {
            return Err(error::UNSEEN);
        }
        let mut out = open(NS, "subscriptions", only.as_deref());
        out.extend_from_slice(&all);
        close(&mut out, "subscriptions");
        Ok(Step::Result(out))
    });
    Ok(reading(others, queries, go_on))
}

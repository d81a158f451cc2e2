//! Explicit subscriptions (XEP-0060 6.1, 6.2, 5.6). Contacts of an account need none: they are
//! notified according to their clients' interests. Where an owner has to approve subscriptions
//! (4.5, `authorize`), they stay pending until then ([`approve`]).

use minidom::Element;

use super::super::change::Change;
use super::super::iq::{Context, Step};
use super::event::Event;
use super::member::Member;
use super::node::{self, Affiliates, Audience, Denied, Directory, Node, SendLast};
use super::service::said;
use super::{Answered, Asked, NS, approve, close, error, found_directory, open, range, reading, xml};
use crate::limits::{NODE_SUBSCRIBERS_MAX, NODES_MAX};
use crate::store::nodes::{self as rows, Item, Span};
use crate::store::{Batch, Found};
use crate::wire::jid::bare_of;
use crate::wire::limit::Limit;

/// The reads for a request: one node, or all subscriptions of the requester.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    /// Subscribes this address.
    Subscribe { asked: Asked, node: Box<str>, jid: Box<str> },
    /// Unsubscribes this address.
    Unsubscribe { asked: Asked, node: Box<str>, jid: Box<str> },
    /// Lists the requester's subscriptions, at one node or at all.
    Subscriptions { asked: Asked, only: Option<Box<str>> },
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::Subscribe { asked, node, jid } => subscribe_found(asked, &node, &jid, found),
            Pending::Unsubscribe { asked, node, jid } => unsubscribe_found(asked, &node, &jid, found),
            Pending::Subscriptions { asked, only } => subscriptions_found(asked, only.as_deref(), found),
        }
    }
}

/// The address in the request; it must be the requester's, or the request is refused with `others`.
fn subscriber(
    context: &Context<'_>,
    asked: &Asked,
    element: &Element,
    others: error::Error,
) -> Result<Box<str>, error::Error> {
    let jid = element.attr("jid").and_then(context.jid).ok_or(error::INVALID_JID);
    let own = jid.and_then(|jid| if bare_of(&jid) == asked.bare() { Ok(jid) } else { Err(others) });
    own.map_err(|why| asked.refuse(why))
}

/// Writes a subscription of a list that names the node.
pub(super) fn write_of(out: &mut Vec<u8>, jid: &str, state: &str) {
    out.extend_from_slice(b"<subscription");
    for (name, value) in [("jid", jid), ("subscription", state)] {
        xml::attribute(out, name, value);
    }
    out.extend_from_slice(b"/>");
}

pub(super) fn write(out: &mut Vec<u8>, node: &str, jid: &str, state: &str) {
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

impl Asked {
    /// Writes a user's new relation to a node, and the node's directory. Returns what else follows.
    ///
    /// # Errors
    /// [`Limit::Nodes`] if there are too many.
    pub(super) fn put_people(
        &self,
        batch: &mut Batch,
        directory: &mut Directory,
        name: &str,
        bare: &str,
        (before, all): (&Member, &Affiliates),
    ) -> Result<Vec<Change>, error::Error> {
        let entry = directory.get_mut(name).ok_or(error::NOT_FOUND)?;
        if !self.service {
            all.put(batch, &self.actor, name)?;
            if entry.listed == all.is_empty() {
                entry.listed = !all.is_empty();
                directory.put(batch, &self.actor)?;
            }
            return Ok(Vec::new());
        }
        let now = Member::of(all, bare);
        now.put(batch, &self.actor, bare);
        if count(entry, before, &now) {
            if entry.subscribers > NODE_SUBSCRIBERS_MAX && now.counts() {
                return Err(Limit::Nodes.into());
            }
            directory.put(batch, &self.actor)?;
        }
        Ok(vec![said::belongs(&self.actor, bare, &now)])
    }
}

/// Updates the counts of a service's node for a user's change. Returns whether anything changed.
pub(super) fn count(entry: &mut Node, before: &Member, now: &Member) -> bool {
    let turned = |number: &mut u32, was: bool, is: bool| match (was, is) {
        (false, true) => *number += 1,
        (true, false) => *number = number.saturating_sub(1),
        _ => {}
    };
    turned(&mut entry.subscribers, before.counts(), now.counts());
    turned(&mut entry.affiliated, before.is_listed(), now.is_listed());
    before.counts() != now.counts() || before.is_listed() != now.is_listed()
}

/// XEP-0060 6.1.
pub(super) fn subscribe(context: &Context<'_>, asked: Asked, subscribe: &Element) -> Answered {
    let node = asked.name(subscribe)?;
    // 6.1.3.1.
    let jid = subscriber(context, &asked, subscribe, error::INVALID_JID)?;
    let queries =
        vec![rows::directory(&asked.actor), asked.people(&node), rows::items(&asked.actor, &node, Span::LAST)];
    Ok(Step::InTurn(queries, super::Pending::Subscribe(Pending::Subscribe { asked, node, jid }).into()))
}

fn subscribe_found(asked: Asked, node: &str, jid: &str, found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let mut all = asked.found_people(found.first())?;
    let before = Member::of(&all, asked.bare());
    let refused = |why: error::Error| match asked.service {
        true => Ok(Step::Refuse(vec![said::belongs(&asked.actor, asked.bare(), &before)], why)),
        false => Err(asked.refuse(why)),
    };
    let Some(entry) = directory.get(node) else { return refused(error::NOT_FOUND) };
    let config = entry.config.clone();
    let mut ask = false;
    match node::may(config.access, &config.groups, &all, asked.viewer(&all)) {
        Ok(()) => all.subscribe(jid),
        // XEP-0060 6.1.4: an owner is asked once. 6.1.3.7: a requester whose request is pending
        // gets an error.
        Err(Denied::Unsubscribed) if all.pending(asked.bare()).is_some() => match asked.service {
            true => return refused(error::PENDING),
            false => return Err(error::PENDING),
        },
        Err(Denied::Unsubscribed) => ask = all.want(jid),
        Err(denied) => return refused(denied.into()),
    }
    let subscribed = all.is_subscribed(asked.bare());
    let owners = if asked.service { entry.owners.clone() } else { vec![asked.actor.clone()] };
    let mut batch = Batch::new();
    let more = match asked.put_people(&mut batch, &mut directory, node, asked.bare(), (&before, &all)) {
        Ok(more) => more,
        Err(why) => return refused(why),
    };
    let mut changes = vec![Change::Write(batch)];
    changes.extend(more);
    if subscribed && config.send_last != SendLast::Never && config.notifications {
        let (last, _) = range(found.get(1))?;
        let gone_us = config.gone_before_us(asked.now);
        let last = last.first().and_then(|row| Item::decode(&row.value)).filter(|item| item.at_us >= gone_us);
        if let (Some(item), Some(entry)) = (last, directory.get(node)) {
            let audience = Audience::of(&config, Affiliates::default());
            changes.push(asked.single(Event::last(&asked.jid, entry, audience, &item, jid)));
        }
    }
    if ask {
        changes.extend(owners.iter().map(|owner| approve::ask(&asked, node, jid, owner)));
    }
    let state = if subscribed { "subscribed" } else { "pending" };
    Ok(Step::Change(changes, answer(node, jid, state)))
}

/// XEP-0060 6.2.
pub(super) fn unsubscribe(context: &Context<'_>, asked: Asked, unsubscribe: &Element) -> Answered {
    let node = asked.name(unsubscribe)?;
    // 6.2.3.3.
    let jid = subscriber(context, &asked, unsubscribe, error::FORBIDDEN)?;
    let queries = vec![rows::directory(&asked.actor), asked.people(&node)];
    Ok(Step::InTurn(queries, super::Pending::Subscribe(Pending::Unsubscribe { asked, node, jid }).into()))
}

fn unsubscribe_found(asked: Asked, node: &str, jid: &str, found: &[Found]) -> Answered {
    let (mut directory, found) = found_directory(found)?;
    let mut all = asked.found_people(found.first())?;
    let before = Member::of(&all, asked.bare());
    let refused = |why: error::Error| match asked.service {
        true => Ok(Step::Refuse(vec![said::belongs(&asked.actor, asked.bare(), &before)], why)),
        false => Err(asked.refuse(why)),
    };
    let Some(entry) = directory.get(node) else { return refused(error::NOT_FOUND) };
    if !all.unsubscribe(jid) {
        // XEP-0060 6.2.3.2; a requester who may not see the node learns nothing about it.
        let may = node::may(entry.config.access, &entry.config.groups, &all, asked.viewer(&all));
        return match may {
            Ok(()) | Err(Denied::Unsubscribed) => refused(error::NOT_SUBSCRIBED),
            Err(denied) => refused(denied.into()),
        };
    }
    let mut batch = Batch::new();
    let more = asked.put_people(&mut batch, &mut directory, node, asked.bare(), (&before, &all))?;
    let changes = [Change::Write(batch)].into_iter().chain(more).collect();
    Ok(Step::Change(changes, answer(node, jid, "none")))
}

/// XEP-0060 5.6: those of the requester.
pub(super) fn subscriptions(asked: Asked, subscriptions: &Element) -> Answered {
    let others = !asked.owner;
    let only: Option<Box<str>> = subscriptions.attr("node").map(Into::into);
    let queries = vec![rows::directory(&asked.actor), rows::all_affiliates(&asked.actor, NODES_MAX as u32)];
    Ok(reading(others, queries, super::Pending::Subscribe(Pending::Subscriptions { asked, only })))
}

fn subscriptions_found(asked: Asked, only: Option<&str>, found: &[Found]) -> Answered {
    let (_, found) = found_directory(found)?;
    let (found, _) = range(found.first())?;
    let mut all = Vec::new();
    for row in found {
        let Some(node) = rows::affiliates_node(&row.sort) else { continue };
        if only.is_some_and(|only| only != node) {
            continue;
        }
        let affiliates = Affiliates::decode(Some(&row.value)).ok_or(error::UNREADABLE)?;
        for (list, state) in [(&affiliates.subscribers, "subscribed"), (&affiliates.pending, "pending")] {
            let own = list.iter().filter(|jid| bare_of(jid) == asked.bare());
            own.for_each(|jid| write(&mut all, node, jid, state));
        }
    }
    if all.is_empty() && !asked.presence {
        return Err(error::UNSEEN);
    }
    let mut out = open(NS, "subscriptions", only);
    out.extend_from_slice(&all);
    close(&mut out, "subscriptions");
    Ok(Step::Result(out))
}

//! Notifies the subscribers of a service's node (XEP-0060 7.1.2): they are read in pages, and those
//! of a page are notified by one letter per shard. So a node with very many subscribers blocks
//! nobody, and there is one copy of the notification. The next request that changes the node waits
//! until all are notified: so every subscriber gets each event once and in order.

use std::sync::Arc;

use super::super::super::change::Change;
use super::super::super::iq::{Step, Then};
use super::super::event::Event;
use super::super::member::{Member, State};
use super::super::node::{Access, Affiliation, Node};
use super::super::notice::Notice;
use super::super::{Answered, Asked, range};
use super::said::{belongs, with};
use crate::extension;
use crate::limits::{MEMBERSHIP_BYTES, NODE_TOLD_AT_ONCE};
use crate::store::nodes::{self as rows, Named};
use crate::store::{Batch, Found, Query, Row};

/// Events for all subscribers of a node, or its end.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
struct Notification {
    actor: Box<str>,
    jid: Box<str>,
    access: Access,
    /// In this order, each with the number of its item if those that are away get it later, and
    /// otherwise 0.
    messages: Box<[(u64, Arc<[u8]>)]>,
    /// Whether the node has been deleted: all relations to it end.
    ends: bool,
}

impl Notification {
    fn new(asked: &Asked, node: &Node, events: impl IntoIterator<Item = Event>, ends: bool) -> Notification {
        let message = |event: Event| (event.number, event.brief.unwrap_or(event.message).into());
        let messages = events.into_iter().map(message).collect();
        Notification { actor: asked.actor.clone(), jid: asked.jid.clone(), access: node.config.access, messages, ends }
    }

    /// Whether a member is to be notified.
    fn is_for(&self, member: &Member) -> bool {
        // XEP-0060 8.4.2: pending subscribers are notified that the node is gone.
        let ends = self.ends && member.state == State::Pending && member.affiliation != Some(Affiliation::Outcast);
        ends || gets_items(member, self.access)
    }
}

/// Whether a member gets the items of a node with this access model.
pub(super) fn gets_items(member: &Member, access: Access) -> bool {
    match (member.state, member.affiliation) {
        (_, Some(Affiliation::Outcast)) => false,
        (State::Subscribed, affiliation) => access != Access::Whitelist || affiliation.is_some(),
        _ => false,
    }
}

/// Answers, and notifies the subscribers of a node of one event after the other. The requester is
/// charged for all of them.
pub(in crate::extension::pubsub) fn notify(
    asked: &Asked,
    node: &Node,
    batch: Batch,
    events: Vec<Event>,
    answer: Vec<u8>,
) -> Step {
    if node.subscribers == 0 || events.is_empty() {
        return Step::Change(vec![Change::Write(batch)], answer);
    }
    begin(Notification::new(asked, node, events, false), node, batch, answer)
}

/// The same for a deleted node.
pub(super) fn end(asked: &Asked, node: &Node, batch: Batch, event: Option<Event>) -> Step {
    begin(Notification::new(asked, node, event, true), node, batch, Vec::new())
}

fn begin(notification: Notification, node: &Node, batch: Batch, answer: Vec<u8>) -> Step {
    let receivers = node.subscribers as usize + if notification.ends { node.affiliated as usize } else { 0 };
    let bytes: usize = notification.messages.iter().map(|(_, message)| message.len()).sum();
    let charge = Change::Charge { count: receivers * notification.messages.len().max(1), bytes: receivers * bytes };
    let changes = vec![Change::Write(batch), charge];
    let (queries, pending) = page(notification, "");
    Step::Then(Box::new(Then { changes, answer: Some(answer), queries, pending }))
}

/// Waits for the next page of a node's members.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pending(Notification);

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        range(found.first()).map(|(rows, more)| page_found(self.0, rows, more))
    }
}

/// Reads the next page of its members.
fn page(notification: Notification, after: &str) -> (Vec<Query>, extension::Pending) {
    let most = NODE_TOLD_AT_ONCE;
    let queries = vec![Named::Members.after(&notification.actor, after, most, most * MEMBERSHIP_BYTES)];
    (queries, super::Pending::Notify(Pending(notification)).into())
}

fn page_found(notification: Notification, found: &[Row], more: bool) -> Step {
    let (mut to, mut changes, mut batch) = (Vec::new(), Vec::new(), Batch::new());
    // A subscriber that is behind reads items later.
    let waits = notification.messages.iter().all(|(number, _)| *number > 0);
    for row in found {
        // An unreadable row is skipped.
        let (Some(bare), Some(member)) = (rows::named(&row.sort), Member::decode(Some(&row.value))) else { continue };
        if !notification.messages.is_empty() && notification.is_for(&member) && !(waits && member.follower.is_behind())
        {
            to.push(member.address.clone());
        }
        if notification.ends {
            Member::default().put(&mut batch, &notification.actor, bare);
            changes.push(belongs(&notification.actor, bare, &Member::default()));
        }
    }
    if notification.ends {
        changes.push(Change::Write(batch));
    }
    for (number, message) in notification.messages.iter().filter(|_| !to.is_empty()) {
        let (node, from, to) = (notification.actor.clone(), notification.jid.clone(), to.clone());
        let notice = Notice { node, from, to, number: *number, message: message.clone() };
        changes.push(Change::Notice(Box::new(notice)));
    }
    match found.last().and_then(|row| rows::named(&row.sort)).filter(|_| more) {
        Some(last) => {
            let (queries, pending) = page(notification, last);
            Step::Then(Box::new(Then { changes, answer: None, queries, pending }))
        }
        None => Step::Change(changes, Vec::new()),
    }
}

/// Removes a deleted node, whose last publication had this number, with all its members.
pub(in crate::extension::pubsub) fn deleted(
    asked: &Asked,
    (node, last): (&Node, u64),
    batch: Batch,
    event: Option<Event>,
) -> Step {
    let gone = Change::Belongs { to: asked.jid.clone(), node: node.name.clone(), own: true, row: Vec::new() };
    with(end(asked, node, batch, event), [gone, Change::Deleted { node: asked.actor.clone(), last }])
}

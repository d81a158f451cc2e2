//! Subscribers of a service's node that were away follow its items from behind.
//!
//! A subscriber at the head gets each item when it is published, and costs no write. When its home
//! reports that it is away, its row gets its position, and the node sends it no more items. When it
//! is back, it is sent the items after the position, and is at the head again. All this takes place
//! in the node's turn, so each item is sent once and in order. Whether the subscriber may still see
//! the node is decided at that time.

use std::borrow::Cow;

use super::super::super::change::Change;
use super::super::super::iq::Step;
use super::super::event;
use super::super::member::Member;
use super::super::{Answered, error, found_directory, range, row};
use super::{node_of, notify};
use crate::follow::{Page, names};
use crate::id::Wall;
use crate::limits::{MEMBERSHIP_BYTES, NODE_MISSED_BYTES_MAX, NODE_MISSED_ITEMS_MAX, NODE_TOLD_AT_ONCE};
use crate::store::nodes::{self as rows, Item, Named, Span};
use crate::store::{Batch, Found};

/// The reads about subscribers that are behind.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Pending {
    /// These users (bare JIDs) have missed the item with this number.
    Missed { actor: Box<str>, number: u64, users: Box<str> },
    /// This user is back.
    Back(Back),
    /// The items that it has missed, which it may see.
    Items { back: Back, member: Member, payloads: bool, last: u64, gone_us: u64 },
}

/// A user that is back.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Back {
    actor: Box<str>,
    user: Box<str>,
    now: Wall,
}

impl Pending {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        match self {
            Pending::Missed { actor, number, users } => missed_found(&actor, number, &users, found),
            Pending::Back(back) => back_found(back, found),
            Pending::Items { back, member, payloads, last, gone_us } => {
                items_found(&back, member, payloads, last, gone_us, found)
            }
        }
    }
}

/// Users of one home have missed an item. They are sorted: their home was sent them like this, from
/// one page of the node's members.
pub fn missed(actor: &str, number: u64, users: &str) -> Step {
    // All of them are among as many rows.
    let first = names(users).next().unwrap_or_default();
    let most = NODE_TOLD_AT_ONCE;
    let queries = vec![Named::Members.from_name(actor, first, most, most * MEMBERSHIP_BYTES)];
    let pending = Pending::Missed { actor: actor.into(), number, users: users.into() };
    Step::InTurn(queries, super::Pending::CatchUp(pending).into())
}

fn missed_found(actor: &str, number: u64, users: &str, found: &[Found]) -> Answered {
    let (found, _) = range(found.first())?;
    let mut batch = Batch::new();
    let mut users = names(users).peekable();
    for row in found {
        let (Some(bare), Some(mut member)) = (rows::named(&row.sort), Member::decode(Some(&row.value))) else {
            continue;
        };
        while users.next_if(|user| *user < bare).is_some() {}
        let before = member.follower;
        if users.next_if_eq(&bare).is_some() && *member.address == *bare {
            member.follower.miss(number);
        }
        if member.follower != before {
            Named::Members.put(&mut batch, actor, bare, &member.encode());
        }
    }
    Ok(Step::Change(vec![Change::Write(batch)], Vec::new()))
}

/// A user that has missed items is back.
pub fn catch_up(actor: &str, user: &str, now: Wall) -> Step {
    let queries = vec![rows::directory(actor), rows::member(actor, user)];
    let back = Back { actor: actor.into(), user: user.into(), now };
    Step::InTurn(queries, super::Pending::CatchUp(Pending::Back(back)).into())
}

fn back_found(back: Back, found: &[Found]) -> Answered {
    let (directory, found) = found_directory(found)?;
    let member = found.first().and_then(row).and_then(Member::decode).ok_or(error::UNREADABLE)?;
    let node = directory.get(node_of(&back.actor));
    // It gets nothing that it may not see any more.
    let sends = |config: &super::Config| config.catches_up() && notify::gets_items(&member, config.access);
    let (true, Some(node)) = (member.follower.is_behind(), node.filter(|node| sends(&node.config))) else {
        return Ok(caught_up(&back, member, &Page::default()));
    };
    // The latest ones, if there are too many.
    let bounds = Span::all(NODE_MISSED_ITEMS_MAX, NODE_MISSED_BYTES_MAX);
    let span = Span { after: member.follower.at, reverse: true, ..bounds };
    let queries = vec![rows::items(&back.actor, &node.name, span)];
    let (payloads, gone_us) = (node.config.payloads, node.config.gone_before_us(back.now));
    let pending = Pending::Items { back, member, payloads, last: directory.last, gone_us };
    Ok(Step::Read(queries, super::Pending::CatchUp(pending).into()))
}

fn items_found(back: &Back, member: Member, payloads: bool, last: u64, gone_us: u64, found: &[Found]) -> Answered {
    let (found, gap) = range(found.first())?;
    let service = service_of(&back.actor);
    let message = |row: &crate::store::Row| {
        let (number, item) = (rows::number_of(&row.sort)?, Item::decode(&row.value)?);
        let message = || event::last(service, node_of(&back.actor), payloads, &item);
        (item.at_us >= gone_us).then(|| (number, Cow::Owned(message())))
    };
    let items: Vec<(u64, Cow<'_, [u8]>)> = found.iter().rev().filter_map(message).collect();
    Ok(caught_up(back, member, &Page { last, upto: last, more: false, gap, items }))
}

/// It is at the head again.
fn caught_up(back: &Back, mut member: Member, page: &Page<'_>) -> Step {
    let mut batch = Batch::new();
    if member.follower.is_behind() {
        member.follower.read(page.last, false);
        Named::Members.put(&mut batch, &back.actor, &back.user, &member.encode());
    }
    let (node, from, user) = (back.actor.clone(), service_of(&back.actor).into(), back.user.clone());
    let caught_up = Change::CaughtUp { node, from, user, page: page.encode() };
    Step::Change(vec![Change::Write(batch), caught_up], Vec::new())
}

/// The domain of an actor's service.
fn service_of(actor: &str) -> &str {
    actor.split_once('/').map_or(actor, |(service, _)| service)
}

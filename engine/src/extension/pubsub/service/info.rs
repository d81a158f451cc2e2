//! The state of a channel for publishers by Nchan's protocol, and its deletion (docs/nchan.md).
//! Deletion removes the items but continues the numbers: a client that returns with the number of a
//! deleted item misses none of the later ones.

use super::super::event::Event;
use super::super::node::{Access, Audience};
use super::super::{Answered, Asked, error, found_directory, range};
use super::node_of;
use super::notify;
use crate::extension::change::Change;
use crate::extension::iq::Step;
use crate::id::Wall;
use crate::store::nodes::{self as rows, Item, Span};
use crate::store::{Batch, Found};

/// The state of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Whether somebody has published there.
    pub there: bool,
    /// Number of stored items.
    pub kept: u32,
    /// The number of the last one, and its time in seconds.
    pub last: (u64, u64),
    /// Number of subscribers.
    pub subscribers: u32,
    /// Seconds since a subscriber's last request; `None` if not recently.
    pub requested_s: Option<u32>,
}

impl Info {
    /// Appends its encoding, for another shard.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.there));
        [self.kept, self.subscribers, self.requested_s.unwrap_or(u32::MAX)]
            .iter()
            .for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
        [self.last.0, self.last.1].iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
    }

    /// Decodes the output of [`Info::encode`].
    pub fn decode(bytes: &[u8]) -> Option<Info> {
        let (&[there, ref numbers @ ..], last) = bytes.split_first_chunk::<13>()?;
        let mut numbers = numbers.chunks_exact(4).map(|four| u32::from_be_bytes([four[0], four[1], four[2], four[3]]));
        let (kept, subscribers, requested) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let (number, time_s) = last.split_first_chunk::<8>()?;
        Some(Info {
            there: there != 0,
            kept,
            subscribers,
            requested_s: (requested != u32::MAX).then_some(requested),
            last: (u64::from_be_bytes(*number), u64::from_be_bytes(*time_s.first_chunk()?)),
        })
    }
}

/// A question about a channel.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Question {
    /// The node's actor.
    pub actor: Box<str>,
    /// Whether the requester has presented the operator's token: it may ask and delete, whatever
    /// the node's configuration.
    pub operator: bool,
    /// Likewise for a token that permits publishing, except that it may not delete a node with an
    /// owner.
    pub granted: bool,
    /// Whether the items are to be deleted.
    pub deletes: bool,
    /// Number of subscribers, and seconds since the last request of one.
    pub crowd: (u32, Option<u32>),
    /// The turn's time.
    pub now: Wall,
}

/// Answers with the current state, or for a deletion the one before it.
pub fn ask(question: Question) -> Step {
    let node = node_of(&question.actor);
    let queries = vec![rows::directory(&question.actor), rows::items(&question.actor, node, Span::LAST)];
    let deletes = question.deletes;
    let pending = super::Pending::Info(question).into();
    if deletes { Step::InTurn(queries, pending) } else { Step::Read(queries, pending) }
}

impl Question {
    pub(super) fn go_on(self, found: &[Found]) -> Answered {
        info_found(&self, found)
    }
}

fn info_found(question: &Question, found: &[Found]) -> Answered {
    let node = node_of(&question.actor);
    let (mut directory, found) = found_directory(found)?;
    let (subscribers, requested_s) = question.crowd;
    let gone = Change::Gone(question.actor.clone());
    let last = directory.last;
    let answer = |info: Info| {
        let mut out = Vec::new();
        info.encode(&mut out);
        out
    };
    let Some(entry) = directory.get_mut(node) else {
        let info = answer(Info { subscribers, requested_s, ..Info::default() });
        return Ok(if question.deletes { Step::Change(vec![gone], info) } else { Step::Result(info) });
    };
    let is_open = entry.config.access == Access::Open;
    let may = match question.deletes {
        true => question.granted && entry.owners.is_empty(),
        false => question.granted || is_open,
    };
    if !question.operator && !may {
        return Err(error::FORBIDDEN);
    }
    let row = range(found.first())?.0.first();
    // Of an item that is no longer stored only the number is known, and the number is what matters.
    let at_us = row.and_then(|row| Item::decode(&row.value)).map_or(question.now.wall_us, |item| item.at_us);
    let time_s = if last > 0 { at_us / 1_000_000 } else { 0 };
    let info = Info { there: true, kept: entry.items, last: (last, time_s), subscribers, requested_s };
    if !question.deletes {
        return Ok(Step::Result(answer(info)));
    }
    let told = entry.config.notifications && entry.config.notify_retract && entry.items > 0;
    let audience = Audience::of(&entry.config, Default::default());
    (entry.items, entry.bytes) = (0, 0);
    entry.lose(last);
    let mut batch = Batch::new();
    rows::delete_items(&mut batch, &question.actor, node);
    directory.put(&mut batch, &question.actor)?;
    let entry = directory.get(node).ok_or(error::NOT_FOUND)?;
    let service = question.actor.split_once('/').map_or("", |(service, _)| service);
    let asked = Asked::of_service(&question.actor, service, question.now);
    let events = told.then(|| Event::purged(node, audience)).into_iter().collect();
    Ok(notify::notify(&asked, entry, batch, events, answer(info)).with(vec![gone]))
}

#[cfg(test)]
mod tests {
    use super::Info;

    #[test]
    fn it_goes_from_shard_to_shard() {
        for requested_s in [None, Some(7)] {
            let info = Info { there: true, kept: 3, last: (9, 1_795_690_167), subscribers: 2, requested_s };
            let mut bytes = Vec::new();
            info.encode(&mut bytes);
            assert_eq!(Info::decode(&bytes), Some(info));
            (0..bytes.len()).for_each(|end| assert_eq!(Info::decode(&bytes[..end]), None));
        }
    }
}

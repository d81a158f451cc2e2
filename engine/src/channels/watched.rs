//! A channel that some of this shard's connections wait for, as data: the requests, and the few
//! items that are held until all of them have been served.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use crate::follow::Head;
use crate::id::ConnId;
use crate::limits::{NOTIFY_RECENT_BYTES_MAX, NOTIFY_RECENT_MAX};
use crate::web::dialect::binary;

/// An item that is held until all requests have been served.
#[derive(Debug)]
struct Held {
    item: Box<[u8]>,
    /// Its binary form, created when a request first needs it.
    binary: OnceCell<Box<[u8]>>,
}

impl Held {
    fn as_told(&self, binary: bool) -> &[u8] {
        match binary {
            true => self.binary.get_or_init(|| binary::of(&self.item).into()),
            false => &self.item,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The connections that wait for it.
    pub(super) listeners: BTreeSet<ConnId>,
    /// Its last items, until all requests have been served; bounded by [`NOTIFY_RECENT_MAX`] and
    /// [`NOTIFY_RECENT_BYTES_MAX`].
    head: Head<Held>,
    /// Requests after this one are left to serve in the current round.
    pub(super) telling: Option<Option<ConnId>>,
    /// More items have arrived since the round began.
    pub(super) again: bool,
}

impl Watched {
    /// How many requests wait.
    pub(super) fn len(&self) -> u32 {
        self.listeners.len() as u32
    }

    /// The number of the channel's last known item.
    pub(super) fn heard(&self) -> u64 {
        self.head.last()
    }

    /// Records that the channel has reached this number.
    pub(super) fn reach(&mut self, number: u64) {
        self.head.reach(number);
    }

    /// Records an item, or only its number. Returns whether it is new.
    pub(super) fn hear(&mut self, number: u64, (key, item): (&str, &[u8])) -> bool {
        let held = || (item.len(), Held { item: item.into(), binary: OnceCell::new() });
        let held = (!item.is_empty()).then(held);
        self.head.append(number, key, held, (NOTIFY_RECENT_MAX, NOTIFY_RECENT_BYTES_MAX))
    }

    /// Whether the current or the next round will serve a request at this position from the held
    /// items.
    pub(super) fn comes_round(&self, at: u64) -> bool {
        self.telling.is_some() && self.head.has_after(at)
    }

    /// Drops the held items.
    pub(super) fn forget_recent(&mut self) {
        self.head.forget();
    }

    /// The next requests after `last`, at most `most`.
    pub(super) fn next_behind(&self, last: Option<ConnId>, most: usize) -> Vec<ConnId> {
        let from = last.map_or(Unbounded, Excluded);
        self.listeners.range((from, Unbounded)).take(most).copied().collect()
    }

    /// All items after a position, if they are held; as text or in the format of [`binary`].
    pub(super) fn behind(&self, at: u64, binary: bool) -> Option<impl Iterator<Item = (u64, &[u8])>> {
        Some(self.head.after(at)?.map(move |(number, held)| (number, held.as_told(binary))))
    }
}

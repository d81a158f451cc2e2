//! A channel that some of this shard's connections wait for, as data: the requests, and the few
//! items that are held until all of them have been served.

use std::cell::OnceCell;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use crate::id::ConnId;
use crate::limits::{NOTIFY_RECENT_BYTES_MAX, NOTIFY_RECENT_MAX};
use crate::web::dialect::binary;

/// An item that is held until all requests have been served.
#[derive(Debug)]
struct Held {
    /// The item is the next one after this position. The items in between were replaced by others
    /// with their keys.
    since: u64,
    number: u64,
    /// The key by which it replaces others; empty for none.
    key: Box<str>,
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
    /// The number of the channel's last known item.
    pub(super) heard: u64,
    /// The last items without a gap, until all requests have been served; bounded by
    /// [`NOTIFY_RECENT_MAX`].
    recent: VecDeque<Held>,
    recent_bytes: usize,
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

    /// Records an item, or only its number. Returns whether it is new.
    pub(super) fn hear(&mut self, number: u64, (key, item): (&str, &[u8])) -> bool {
        if number <= self.heard {
            return false;
        }
        if number != self.heard + 1 || item.is_empty() {
            // The items in between may have been lost with their letters. Requests that lack them
            // ask for them.
            self.forget_recent();
        }
        self.heard = number;
        if !item.is_empty() {
            self.recent_bytes += item.len();
            let (since, own, item) = (number - 1, key.into(), item.into());
            self.recent.push_back(Held { since, number, key: own, item, binary: OnceCell::new() });
            self.replace(key);
        }
        while self.recent.len() > NOTIFY_RECENT_MAX || self.recent_bytes > NOTIFY_RECENT_BYTES_MAX {
            let gone = self.recent.pop_front();
            self.recent_bytes -= gone.map_or(0, |held| held.item.len());
        }
        true
    }

    /// Replaces the earlier item with this key. Requests that have not received it get only the
    /// later one.
    fn replace(&mut self, key: &str) {
        let others = self.recent.len().saturating_sub(1);
        let before = self.recent.iter().take(others).position(|held| !key.is_empty() && *held.key == *key);
        let Some(before) = before.and_then(|at| Some((at, self.recent.remove(at)?))) else { return };
        let (at, before) = before;
        self.recent_bytes -= before.item.len();
        if let Some(next) = self.recent.get_mut(at) {
            next.since = before.since;
        }
    }

    /// Whether the current or the next round will serve a request at this position from the held
    /// items.
    pub(super) fn comes_round(&self, at: u64) -> bool {
        self.telling.is_some() && self.recent.front().is_some_and(|held| held.since <= at)
    }

    /// Drops the held items.
    pub(super) fn forget_recent(&mut self) {
        (self.recent, self.recent_bytes) = (VecDeque::new(), 0);
    }

    /// The next requests after `last`, at most `most`.
    pub(super) fn next_behind(&self, last: Option<ConnId>, most: usize) -> Vec<ConnId> {
        let from = last.map_or(Unbounded, Excluded);
        self.listeners.range((from, Unbounded)).take(most).copied().collect()
    }

    /// All items after a position, if they are held; as text or in the format of [`binary`].
    pub(super) fn behind(&self, at: u64, binary: bool) -> Option<impl Iterator<Item = (u64, &[u8])>> {
        let is_held = self.recent.front()?.since <= at;
        let held = self.recent.iter().filter(move |held| held.number > at);
        is_held.then(|| held.map(move |held| (held.number, held.as_told(binary))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded_and_has_no_holes() {
        let mut watched = Watched::default();
        let held =
            |watched: &Watched, at| watched.behind(at, false).map(|items| items.map(|(number, _)| number).collect());
        for number in 1..=3 {
            assert!(
                watched.hear(number, ("", b"x")) && !watched.hear(number, ("", b"x")),
                "what comes again is no news"
            );
        }
        assert_eq!(held(&watched, 1), Some(vec![2, 3]));
        // A letter was lost: the held items start again, and requests before them have to ask.
        assert!(watched.hear(5, ("", b"x")));
        assert_eq!((held(&watched, 3), held(&watched, 4)), (None, Some(vec![5])));
        (6..200).for_each(|number| assert!(watched.hear(number, ("", b"x"))));
        assert_eq!(
            held(&watched, 199 - NOTIFY_RECENT_MAX as u64).map(|all: Vec<_>| all.len()),
            Some(NOTIFY_RECENT_MAX)
        );
        assert_eq!(held(&watched, 198 - NOTIFY_RECENT_MAX as u64), None);
        assert!(watched.hear(200, ("", &[b'x'; NOTIFY_RECENT_BYTES_MAX])));
        assert_eq!((held(&watched, 199), held(&watched, 198)), (Some(vec![200]), None));
        assert!(watched.hear(201, ("", b"")), "only a number");
        assert_eq!(held(&watched, 200), None);
    }

    #[test]
    fn of_what_is_held_the_last_of_a_key_is_left() {
        let mut watched = Watched::default();
        let held =
            |watched: &Watched, at| watched.behind(at, false).map(|items| items.map(|(number, _)| number).collect());
        let hear = |watched: &mut Watched, number, key| assert!(watched.hear(number, (key, &[b'x'; 1_000])));
        for (number, key) in [(1, "a"), (2, ""), (3, "b"), (4, "a"), (5, ""), (6, "b")] {
            hear(&mut watched, number, key);
        }
        assert_eq!(held(&watched, 0), Some(vec![2, 4, 5, 6]), "the first one has gone, and nothing is missing");
        assert_eq!((held(&watched, 2), held(&watched, 5)), (Some(vec![4, 5, 6]), Some(vec![6])));
        // However often one key is published, the other items are retained.
        (7..7_000).for_each(|number| hear(&mut watched, number, "a"));
        assert_eq!(held(&watched, 1), Some(vec![2, 5, 6, 6_999]));
        assert_eq!((watched.recent.len(), watched.recent_bytes), (4, 4_000));
        // A letter was lost.
        hear(&mut watched, 7_001, "c");
        assert_eq!((held(&watched, 6_999), held(&watched, 7_000)), (None, Some(vec![7_001])));
    }
}

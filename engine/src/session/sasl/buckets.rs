//! Token buckets by key: how much of a limit each key has used up, and which keys are held.
//!
//! A bucket is stored as the time at which it is full again; a full bucket has no row. The table is
//! bounded. When it is full, the row nearest to expiry is evicted, but never one with a larger
//! penalty than the new row. To flush a penalty, an attacker would have to earn a larger one in
//! every other row. Charges without a row are counted together in one bucket, as deep as
//! [`REST_SHARE`] of the others. When it is empty, it holds all keys without a row.

use std::collections::BTreeSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use hashbrown::HashMap;

use super::cache::Given;

/// How many buckets the shared bucket is worth.
const REST_SHARE: u64 = 64;

/// The number of held keys whose identity and start time are recorded; of others it is only known
/// that they are held.
const NAMED_MAX: usize = 256;

/// Keyed hashes of an address and an account; 0 for a part that does not apply.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) address: u64,
    pub(super) account: u64,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.address ^ self.account.rotate_left(32));
    }
}

/// A key that is held: refused until a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holding {
    /// An address, an account, or both separated by a space.
    pub who: String,
    /// When it was first refused, milliseconds of the shard's clock.
    pub since_ms: u64,
    /// How long it remains held, milliseconds.
    pub left_ms: u64,
    /// How often it was refused.
    pub refused: u64,
}

struct Named {
    who: String,
    since_ms: u64,
    refused: u64,
}

type Rows<T> = HashMap<Key, T, BuildHasherDefault<Given>>;

/// One limit's buckets.
pub(super) struct Buckets {
    burst: u64,
    refill_ms: u64,
    rows_max: usize,
    full_at: Rows<u64>,
    /// The rows as (full at, key): the first is nearest to expiry.
    order: BTreeSet<(u64, Key)>,
    /// When the shared bucket is full again.
    rest_full_at: u64,
    /// At most [`NAMED_MAX`].
    named: Rows<Named>,
}

impl Buckets {
    /// Creates empty buckets. Each permits `burst` charges in a row (0 for no limit) and refills by
    /// one each `refill_ms`.
    pub(super) fn new(burst: u32, refill_ms: u32, rows_max: usize) -> Buckets {
        Buckets {
            burst: u64::from(burst),
            refill_ms: u64::from(refill_ms.max(1)),
            rows_max,
            full_at: Rows::default(),
            order: BTreeSet::new(),
            rest_full_at: 0,
            named: Rows::default(),
        }
    }

    /// Changes the limits, also for earlier charges: each row retains its charges, not its time.
    pub(super) fn turn(&mut self, now_ms: u64, burst: u32, refill_ms: u32, rows_max: usize) {
        let (burst, refill_ms) = (u64::from(burst), u64::from(refill_ms.max(1)));
        self.rows_max = rows_max;
        if (burst, refill_ms) == (self.burst, self.refill_ms) {
            return;
        }
        let rows = std::mem::take(&mut self.full_at);
        self.order.clear();
        let (old_ms, deepest_ms) = (self.refill_ms, burst * refill_ms);
        let rescaled = |full_at: u64| {
            let charged = u128::from(full_at.saturating_sub(now_ms)) * u128::from(refill_ms) / u128::from(old_ms);
            now_ms + u64::try_from(charged).unwrap_or(u64::MAX).min(deepest_ms)
        };
        self.rest_full_at = rescaled(self.rest_full_at);
        for (key, full_at) in rows {
            let full_at = rescaled(full_at);
            if full_at > now_ms {
                self.put(key, None, full_at);
            }
        }
        (self.burst, self.refill_ms) = (burst, refill_ms);
    }

    /// How long the key remains held, milliseconds; `None` if it is not held. Changes nothing.
    pub(super) fn held(&self, now_ms: u64, key: Key) -> Option<u64> {
        let (full_at, spare_ms) = match self.full_at.get(&key) {
            Some(full_at) => (*full_at, self.refill_ms),
            None => (self.rest_full_at, self.rest_refill_ms()),
        };
        let missing_ms = full_at.saturating_sub(now_ms);
        let allowed_ms = (self.burst * self.refill_ms).saturating_sub(spare_ms);
        (self.burst > 0 && missing_ms > allowed_ms).then(|| missing_ms - allowed_ms)
    }

    /// Does the same for a key that is about to be refused, and records its identity. The flag is
    /// true if it was not recorded before.
    pub(super) fn refuse(&mut self, now_ms: u64, key: Key, who: impl FnOnce() -> String) -> Option<(u64, bool)> {
        let left_ms = self.held(now_ms, key)?;
        if let Some(named) = self.named.get_mut(&key) {
            named.refused += 1;
            return Some((left_ms, false));
        }
        if self.named.len() >= NAMED_MAX {
            self.forget_free(now_ms);
        }
        let room = self.named.len() < NAMED_MAX;
        if room {
            self.named.insert(key, Named { who: who(), since_ms: now_ms, refused: 1 });
        }
        Some((left_ms, room))
    }

    pub(super) fn charge(&mut self, now_ms: u64, key: Key) {
        if self.burst == 0 {
            return;
        }
        let before = self.full_at.get(&key).copied();
        // A bucket is at least empty, so a penalty ends in bounded time.
        let lowest = now_ms + self.burst * self.refill_ms;
        let full_at = (before.unwrap_or(0).max(now_ms) + self.refill_ms).min(lowest);
        if before.is_some() || self.make_room(now_ms, full_at) {
            self.put(key, before, full_at);
        } else {
            self.rest_full_at = (self.rest_full_at.max(now_ms) + self.rest_refill_ms()).min(lowest);
        }
    }

    /// Returns one charge, also if it was made to the shared bucket.
    pub(super) fn refund(&mut self, now_ms: u64, key: Key) {
        let Some(before) = self.full_at.get(&key).copied() else {
            self.rest_full_at = self.rest_full_at.saturating_sub(self.rest_refill_ms());
            return;
        };
        let full_at = before.saturating_sub(self.refill_ms);
        if full_at > now_ms {
            self.put(key, Some(before), full_at);
        } else {
            self.remove(key, before);
        }
    }

    /// Releases all keys that match. Returns how many were held.
    pub(super) fn release(&mut self, now_ms: u64, wanted: impl Fn(Key) -> bool) -> u32 {
        let rows: Vec<_> = self.full_at.iter().map(|(key, full_at)| (*key, *full_at)).collect();
        let mut released = 0;
        for (key, full_at) in rows.into_iter().filter(|(key, _)| wanted(*key)) {
            released += u32::from(self.held(now_ms, key).is_some());
            self.remove(key, full_at);
        }
        self.named.retain(|key, _| !wanted(*key));
        released
    }

    /// Releases all keys. Returns how many were held.
    pub(super) fn release_all(&mut self, now_ms: u64) -> u32 {
        self.rest_full_at = 0;
        self.release(now_ms, |_| true)
    }

    /// The recorded keys that are held now.
    pub(super) fn holdings(&mut self, now_ms: u64) -> Vec<Holding> {
        self.forget_free(now_ms);
        let holding = |(key, named): (&Key, &Named)| {
            let Named { who, since_ms, refused } = named;
            let left_ms = self.held(now_ms, *key).unwrap_or_default();
            Holding { who: who.clone(), since_ms: *since_ms, left_ms, refused: *refused }
        };
        self.named.iter().map(holding).collect()
    }

    /// Number of rows in use.
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.full_at.len(), self.order.len());
        self.full_at.len()
    }

    fn rest_refill_ms(&self) -> u64 {
        (self.refill_ms / REST_SHARE).max(1)
    }

    fn forget_free(&mut self, now_ms: u64) {
        let mut named = std::mem::take(&mut self.named);
        named.retain(|key, _| self.held(now_ms, *key).is_some());
        self.named = named;
    }

    /// Whether a new row that expires at `full_at` has a place. Evicts expired rows, and then the
    /// one nearest to expiry.
    fn make_room(&mut self, now_ms: u64, full_at: u64) -> bool {
        while self.full_at.len() >= self.rows_max {
            match self.order.first() {
                Some(&(first, key)) if first <= now_ms.max(full_at) => self.remove(key, first),
                _ => return false,
            }
        }
        true
    }

    fn put(&mut self, key: Key, before: Option<u64>, full_at: u64) {
        if let Some(before) = before {
            self.order.remove(&(before, key));
        }
        self.order.insert((full_at, key));
        self.full_at.insert(key, full_at);
    }

    fn remove(&mut self, key: Key, full_at: u64) {
        self.order.remove(&(full_at, key));
        self.full_at.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(address: u64) -> Key {
        Key { address, account: 0 }
    }

    /// A table full of penalties does not bypass the limit: charges without a row are counted
    /// together.
    #[test]
    fn charges_that_find_no_place_are_counted_together() {
        let mut buckets = Buckets::new(2, 1_000, 100);
        for n in 0..100 {
            (0..2).for_each(|_| buckets.charge(0, key(n)));
        }
        let mut let_through = 0;
        for n in 1_000..2_000 {
            if buckets.held(0, key(n)).is_none() {
                buckets.charge(0, key(n));
                let_through += 1;
            }
        }
        assert!((64..=2 * 64 + 8).contains(&let_through), "{let_through} of 1,000");
        assert!(buckets.held(0, key(5_000)).is_some());
        assert_eq!(buckets.held(2_000, key(5_000)), None, "time gives it back");
        buckets.release_all(0);
        assert_eq!(buckets.held(0, key(5_000)), None);
    }

    #[test]
    fn other_limits_count_what_was_charged_before_by_their_own_measure() {
        let mut buckets = Buckets::new(20, 180_000, 100);
        (0..20).for_each(|_| buckets.charge(0, key(1)));
        assert_eq!(buckets.refuse(0, key(1), || "192.0.2.1".into()), Some((180_000, true)));
        assert_eq!(buckets.refuse(0, key(1), || unreachable!("known")), Some((180_000, false)));
        assert_eq!(buckets.holdings(0)[0].refused, 2);
        buckets.turn(0, 1_000_000, 3, 100);
        assert_eq!(buckets.held(0, key(1)), None, "a raised limit lets go at once");
        assert_eq!(buckets.holdings(0), []);
        buckets.turn(0, 20, 180_000, 100);
        assert_eq!(buckets.held(0, key(1)), Some(180_000), "and the old one holds again: nothing was forgotten");
        buckets.turn(0, 5, 10_000, 100);
        assert_eq!(buckets.held(0, key(1)), Some(10_000), "a lower one is no deeper than empty");
        buckets.turn(0, 0, 1, 100);
        assert_eq!(buckets.held(0, key(1)), None);
    }

    #[test]
    fn of_those_that_are_held_a_bounded_number_is_known_by_name() {
        let mut buckets = Buckets::new(1, 1_000, 10_000);
        for n in 0..1_000 {
            buckets.charge(0, key(n));
            assert!(buckets.refuse(0, key(n), || n.to_string()).is_some());
        }
        assert_eq!(buckets.holdings(0).len(), NAMED_MAX);
        buckets.charge(5_000, key(9_999));
        assert_eq!(buckets.refuse(5_000, key(9_999), || "late".into()), Some((1_000, true)), "expired ones make room");
        assert_eq!(buckets.holdings(5_000).len(), 1);
        assert_eq!(buckets.release(5_000, |key| key.address == 9_999), 1);
        assert_eq!(buckets.held(5_000, key(9_999)), None);
    }
}

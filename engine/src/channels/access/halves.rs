//! A cache of a shard's findings, keyed by a hash of the request. It has two generations. When the
//! young one is full, it replaces the old one, which drops all entries that were not used since.

use hashbrown::HashMap;

use crate::kernel::Fixed;

/// A value with a known memory cost.
pub(super) trait Weighs: Clone {
    /// Size of the value, in bytes.
    fn bytes(&self) -> usize;
}

type Half<V> = HashMap<[u8; 32], V, Fixed>;

/// The two generations of the cache.
#[derive(Debug)]
pub(super) struct Halves<V> {
    young: Half<V>,
    old: Half<V>,
    young_bytes: usize,
    /// Limit on the size of both generations together.
    bytes_max: usize,
}

/// Overhead of an entry beyond its value, in bytes.
const ENTRY_BYTES: usize = 64;

impl<V: Weighs> Halves<V> {
    /// Creates an empty cache of at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Halves<V> {
        Halves { young: Half::default(), old: Half::default(), young_bytes: 0, bytes_max }
    }

    /// Upper bound of the memory used, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let old = if self.old.is_empty() { 0 } else { self.bytes_max / 2 };
        self.young_bytes + old
    }

    /// Looks up a hash.
    pub(crate) fn find(&mut self, hash: &[u8; 32]) -> Option<V> {
        if let Some(value) = self.young.get(hash) {
            return Some(value.clone());
        }
        let value = self.old.remove(hash)?;
        self.keep(*hash, value.clone());
        Some(value)
    }

    /// Stores a value under a hash and replaces the earlier one.
    pub(super) fn keep(&mut self, hash: [u8; 32], value: V) {
        let bytes = value.bytes() + ENTRY_BYTES;
        if self.young_bytes + bytes > self.bytes_max / 2 {
            (self.old, self.young_bytes) = (std::mem::take(&mut self.young), 0);
        }
        self.young_bytes += bytes;
        if let Some(before) = self.young.insert(hash, value) {
            self.young_bytes -= before.bytes() + ENTRY_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weighs for usize {
        fn bytes(&self) -> usize {
            *self
        }
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_asked_for_stays() {
        let mut halves = Halves::new(2_000);
        let hash = |number: u8| [number; 32];
        for number in 0..100 {
            halves.keep(hash(number), 136);
            assert!(halves.find(&hash(0)).is_some() && halves.memory_bytes() <= 2_000, "{number}");
        }
        let known = (0..100).filter(|number| halves.find(&hash(*number)).is_some()).count();
        assert!((5..=10).contains(&known), "{known}");
        // An entry that is stored again is counted once.
        let mut halves = Halves::new(2_000);
        (0..100).for_each(|_| halves.keep(hash(1), 136));
        assert_eq!((halves.memory_bytes(), halves.old.len()), (200, 0));
    }
}

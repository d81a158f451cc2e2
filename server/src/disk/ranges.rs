//! Ranges of removed keys: a memory table's record of range deletes.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Ranges of flat keys, `from <= key < until`, that neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<Vec<u8>, Vec<u8>>);

impl Ranges {
    /// Adds a range, merging it with those it overlaps or touches.
    pub(super) fn add(&mut self, mut from: Vec<u8>, mut until: Vec<u8>) {
        if from >= until {
            return;
        }
        while let Some((start, end)) = self.last_from(&until).filter(|(_, end)| **end >= from) {
            let (start, end) = (start.clone(), end.clone());
            self.0.remove(&start);
            from = from.min(start);
            until = until.max(end);
        }
        self.0.insert(from, until);
    }

    /// Whether one of them contains a key.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        self.last_from(key).is_some_and(|(_, until)| key < until.as_slice())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// All ranges, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(from, until)| (from.as_slice(), until.as_slice()))
    }

    /// Bytes of all their keys.
    pub(super) fn bytes(&self) -> usize {
        self.iter().map(|(from, until)| from.len() + until.len()).sum()
    }

    /// The ranges that overlap `from..until`, in order.
    pub(super) fn within(&self, from: &[u8], until: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        let first = self.last_from(from).filter(|(_, end)| end.as_slice() > from).map_or(from, |(start, _)| start);
        let until = until.max(first).to_vec();
        let found = self.0.range::<[u8], _>((Bound::Included(first), Bound::Excluded(until.as_slice())));
        found.map(|(from, until)| (from.as_slice(), until.as_slice())).collect::<Vec<_>>().into_iter()
    }

    /// The parts of `from..until` outside of them, in order.
    pub(super) fn outside(&self, from: &[u8], until: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut parts = Vec::new();
        let mut next = from;
        if let Some((_, end)) = self.last_from(from).filter(|(_, end)| end.as_slice() > from) {
            next = end;
        }
        let behind = (Bound::Excluded(from), Bound::Excluded(until.max(from)));
        if from < until {
            for (start, end) in self.0.range::<[u8], _>(behind) {
                if next < start.as_slice() {
                    parts.push((next.to_vec(), start.clone()));
                }
                next = end;
            }
        }
        if next < until {
            parts.push((next.to_vec(), until.to_vec()));
        }
        parts
    }

    /// The last range that begins at or before a key.
    fn last_from(&self, key: &[u8]) -> Option<(&Vec<u8>, &Vec<u8>)> {
        self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_hold_what_each_range_added_holds(added in prop::collection::vec((0_u8..40, 0_u8..40), 0..12), from in 0_u8..40, until in 0_u8..40) {
            let mut ranges = Ranges::default();
            for (from, until) in &added {
                ranges.add(vec![*from], vec![*until]);
            }
            let holds = |key: u8| added.iter().any(|(from, until)| (*from..*until).contains(&key));
            for key in 0..41 {
                prop_assert_eq!(ranges.holds(&[key]), holds(key), "{}", key);
            }
            let kept: Vec<_> = ranges.iter().map(|(from, until)| (from[0], until[0])).collect();
            prop_assert!(kept.iter().all(|(from, until)| from < until));
            prop_assert!(kept.windows(2).all(|pair| pair[0].1 < pair[1].0), "{:?}", kept);
            let outside: Vec<u8> = ranges.outside(&[from], &[until]).iter().flat_map(|(from, until)| from[0]..until[0]).collect();
            let expected: Vec<u8> = (from..until).filter(|key| !holds(*key)).collect();
            prop_assert_eq!(outside, expected);
        }
    }
}

//! The head of a log in memory: its last number, and the latest entries while receivers need them.

use std::collections::VecDeque;

/// An entry at the head.
#[derive(Debug)]
struct Recent<T> {
    /// It is the next entry after this position: those in between were replaced by later ones with
    /// their keys.
    since: u64,
    number: u64,
    /// The key by which it replaces others; empty for none.
    key: Box<str>,
    bytes: usize,
    entry: T,
}

/// The head of a log. Its entries have no gap: those after a position are either all here, or have
/// to be read.
#[derive(Debug)]
pub struct Head<T> {
    last: u64,
    /// Bounded by what [`Head::append`] is told.
    recent: VecDeque<Recent<T>>,
    bytes: usize,
}

impl<T> Default for Head<T> {
    fn default() -> Head<T> {
        Head { last: 0, recent: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Head<T> {
    /// The number of the last known entry.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Records that the log has reached this number.
    pub fn reach(&mut self, number: u64) {
        self.last = self.last.max(number);
    }

    /// Appends an entry of this size, which replaces the earlier one with its key. `None` stands
    /// for an entry of which only the number is known. At most `entries_max` entries are held, and
    /// at most `bytes_max` bytes. Returns whether the entry is new.
    pub fn append(
        &mut self,
        number: u64,
        key: &str,
        entry: Option<(usize, T)>,
        (entries_max, bytes_max): (usize, usize),
    ) -> bool {
        if number <= self.last {
            return false;
        }
        if number != self.last + 1 || entry.is_none() {
            // Entries in between may have been lost. Followers that lack them read.
            self.forget();
        }
        self.last = number;
        if let Some((bytes, entry)) = entry {
            self.bytes += bytes;
            self.recent.push_back(Recent { since: number - 1, number, key: key.into(), bytes, entry });
            self.replace(key);
        }
        while self.recent.len() > entries_max || self.bytes > bytes_max {
            let gone = self.recent.pop_front();
            self.bytes -= gone.map_or(0, |gone| gone.bytes);
        }
        true
    }

    /// Drops the earlier entry with this key. Followers that have not got it get only the later
    /// one.
    fn replace(&mut self, key: &str) {
        let others = self.recent.len().saturating_sub(1);
        let before = self.recent.iter().take(others).position(|recent| !key.is_empty() && *recent.key == *key);
        let Some((at, before)) = before.and_then(|at| Some((at, self.recent.remove(at)?))) else { return };
        self.bytes -= before.bytes;
        if let Some(next) = self.recent.get_mut(at) {
            next.since = before.since;
        }
    }

    /// Drops the entries: all followers at the head have got them.
    pub fn forget(&mut self) {
        (self.recent, self.bytes) = (VecDeque::new(), 0);
    }

    /// Whether all entries after a position are here, and there are any.
    pub fn has_after(&self, at: u64) -> bool {
        self.recent.front().is_some_and(|first| first.since <= at)
    }

    /// All entries after a position, if they are here.
    pub fn after(&self, at: u64) -> Option<impl Iterator<Item = (u64, &T)>> {
        let after = self.recent.iter().filter(move |recent| recent.number > at);
        self.has_after(at).then(|| after.map(|recent| (recent.number, &recent.entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES_MAX: usize = 64;
    const BYTES_MAX: usize = 128 << 10;

    fn append(head: &mut Head<()>, number: u64, key: &str, bytes: usize) -> bool {
        head.append(number, key, (bytes > 0).then_some((bytes, ())), (ENTRIES_MAX, BYTES_MAX))
    }

    fn after(head: &Head<()>, at: u64) -> Option<Vec<u64>> {
        head.after(at).map(|entries| entries.map(|(number, ())| number).collect())
    }

    #[test]
    fn entries_are_bounded_and_have_no_holes() {
        let mut head = Head::default();
        for number in 1..=3 {
            assert!(append(&mut head, number, "", 1) && !append(&mut head, number, "", 1), "a repetition is no entry");
        }
        assert_eq!(after(&head, 1), Some(vec![2, 3]));
        // An entry was lost: the head starts again, and followers before it have to read.
        assert!(append(&mut head, 5, "", 1));
        assert_eq!((after(&head, 3), after(&head, 4)), (None, Some(vec![5])));
        (6..200).for_each(|number| assert!(append(&mut head, number, "", 1)));
        assert_eq!(after(&head, 199 - ENTRIES_MAX as u64).map(|all| all.len()), Some(ENTRIES_MAX));
        assert_eq!(after(&head, 198 - ENTRIES_MAX as u64), None);
        assert!(append(&mut head, 200, "", BYTES_MAX));
        assert_eq!((after(&head, 199), after(&head, 198)), (Some(vec![200]), None));
        assert!(append(&mut head, 201, "", 0), "only a number");
        assert_eq!((after(&head, 200), head.last()), (None, 201));
        head.reach(200);
        assert_eq!(head.last(), 201);
    }

    #[test]
    fn the_last_entry_of_a_key_is_left() {
        let mut head = Head::default();
        for (number, key) in [(1, "a"), (2, ""), (3, "b"), (4, "a"), (5, ""), (6, "b")] {
            assert!(append(&mut head, number, key, 1_000));
        }
        assert_eq!(after(&head, 0), Some(vec![2, 4, 5, 6]), "the first one was replaced, and nothing is missing");
        assert_eq!((after(&head, 2), after(&head, 5)), (Some(vec![4, 5, 6]), Some(vec![6])));
        // However often one key is published, the other entries are retained.
        (7..7_000).for_each(|number| assert!(append(&mut head, number, "a", 1_000)));
        assert_eq!(after(&head, 1), Some(vec![2, 5, 6, 6_999]));
        assert_eq!((head.recent.len(), head.bytes), (4, 4_000));
        // An entry was lost.
        assert!(append(&mut head, 7_001, "c", 1_000));
        assert_eq!((after(&head, 6_999), after(&head, 7_000)), (None, Some(vec![7_001])));
    }
}

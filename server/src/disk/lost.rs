//! Key ranges with lost rows, from damaged blocks of quarantined tables, and the store's own record
//! of them.
//!
//! A lost row is no newer than its table: sequence numbers are those of memory tables. So a row or
//! tombstone with a higher number was written afterwards and is valid for its key. Any other key of
//! the range may have had a newer row or a tombstone: this cannot be known, and a query for it gets
//! an error. That holds whatever happens to the tables around the range. The record has one row per
//! range, after the keys of all tables, like the journal's next group. It is therefore listed
//! together with the tables that it describes, and is merged and verified like them.

use std::collections::VecDeque;
use std::path::Path;

use lsm_tree::{SeqNo, Slice};

use super::DiskError;
use super::blocks::Hole;

/// The prefix of the store's own rows: after the keys of all tables, where no query looks.
pub(super) const OWN: u8 = u8::MAX;

/// The key prefix of these rows.
pub(super) const LOST_PREFIX: &[u8] = &[OWN, b'h'];

/// The first key after them.
pub(super) const LOST_END: &[u8] = &[OWN, b'h' + 1];

/// Facts about a table other than its rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Its first key, or an earlier one.
    pub(super) first: Option<Vec<u8>>,
    /// Its last key, or a later one.
    pub(super) last: Option<Vec<u8>>,
    /// The highest sequence number of its rows, or a higher one.
    pub(super) newest: SeqNo,
    /// Its number of rows.
    pub(super) rows: Option<u64>,
}

/// A range with lost rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lost {
    /// Name of the quarantined file.
    pub(super) file: String,
    /// The offset of the unreadable part, bytes.
    pub(super) at: u64,
    /// Its length, bytes.
    pub(super) bytes: u64,
    /// First key of the range.
    pub(super) from: Vec<u8>,
    /// First key after it.
    pub(super) until: Vec<u8>,
    /// No lost row has a higher sequence number.
    pub(super) newest: SeqNo,
    /// Why it cannot be read, in a few words.
    pub(super) what: String,
}

/// The key right after a key.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl Lost {
    /// The lost range of a hole in a table that is quarantined as `file`. `Ok(None)` if it holds
    /// only the store's own rows.
    ///
    /// # Errors
    /// If it is unknown where its rows begin or end.
    pub(super) fn of(hole: &Hole, file: &str, facts: &Facts) -> Result<Option<Lost>, &'static str> {
        let from = hole.after.as_deref().map(behind).or_else(|| facts.first.clone());
        let last = hole.last.as_ref().or(facts.last.as_ref());
        let (Some(from), Some(last)) = (from, last) else {
            return Err("the range of its lost rows is unknown");
        };
        let until = behind(last).min(vec![OWN, 0]);
        let lost = Lost {
            file: file.to_owned(),
            at: hole.at,
            bytes: hole.bytes,
            from,
            until,
            newest: facts.newest,
            what: hole.what.clone(),
        };
        Ok(Some(lost).filter(|lost| lost.from < lost.until))
    }

    /// Key and value of its record.
    pub(super) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let key = [LOST_PREFIX, self.file.as_bytes(), &[0], &self.at.to_be_bytes()].concat();
        let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
        let numbers = [self.newest.to_le_bytes(), self.bytes.to_le_bytes()].concat();
        let bounds = [&length(&self.from), &self.from[..], &length(&self.until), &self.until].concat();
        (key, [numbers, bounds, self.what.as_bytes().to_vec()].concat())
    }

    /// Decodes such a record; `None` if it is not one.
    pub(super) fn decode(key: &[u8], value: &[u8]) -> Option<Lost> {
        let (name, at) = key.strip_prefix(LOST_PREFIX)?.split_last_chunk::<8>()?;
        let file = String::from_utf8(name.strip_suffix(&[0])?.to_vec()).ok()?;
        let (newest, value) = value.split_first_chunk::<8>()?;
        let (bytes, mut value) = value.split_first_chunk::<8>()?;
        let mut bound = || {
            let (length, rest) = value.split_first_chunk::<4>()?;
            let (bound, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            value = rest;
            Some(bound.to_vec())
        };
        let (from, until) = (bound()?, bound()?);
        let what = String::from_utf8_lossy(value).into_owned();
        let (newest, bytes) = (u64::from_le_bytes(*newest), u64::from_le_bytes(*bytes));
        Some(Lost { file, at: u64::from_be_bytes(*at), bytes, from, until, newest, what })
    }

    /// The same as a hole of the file in `folder`; it may be one key larger at its ends.
    pub(super) fn hole(&self, folder: &Path) -> Hole {
        let mut last = self.until.clone();
        last.pop_if(|end| *end == 0);
        Hole {
            file: folder.join(&self.file),
            at: self.at,
            bytes: self.bytes,
            after: Some(self.from[..self.from.len().saturating_sub(1)].to_vec()),
            last: Some(last),
            what: format!("{}; the table was quarantined, and its other rows are in place", self.what),
        }
    }

    fn error(&self) -> DiskError {
        DiskError::Unreadable(format!(
            "rows were lost at byte {} of table {}, which was quarantined: {}",
            self.at, self.file, self.what
        ))
    }
}

/// All lost ranges of a store.
#[derive(Debug, Default)]
pub(super) struct LostRanges {
    /// Ordered by first key; they may overlap.
    all: Vec<Lost>,
    /// For each range, the furthest end of it and all before it.
    reach: Vec<Vec<u8>>,
}

impl LostRanges {
    pub(super) fn new(mut all: Vec<Lost>) -> LostRanges {
        all.sort_by(|a, b| a.from.cmp(&b.from));
        let mut furthest = Vec::new();
        let reach = all.iter().map(|lost| {
            furthest = lost.until.clone().max(std::mem::take(&mut furthest));
            furthest.clone()
        });
        LostRanges { reach: reach.collect(), all }
    }

    pub(super) fn all(&self) -> &[Lost] {
        &self.all
    }

    /// Ranges with keys in `from..until`, the last one first.
    fn within(&self, from: &[u8], until: &[u8]) -> impl Iterator<Item = &Lost> {
        let end = self.all.partition_point(|lost| *lost.from < *until);
        let near = (0..end).rev().take_while(move |at| *self.reach[*at] > *from);
        near.map(|at| &self.all[at]).filter(move |lost| *lost.until > *from)
    }

    /// Checks that the result of a lookup in tables, with the sequence number of the row or
    /// tombstone found, is the newest version of the key.
    ///
    /// # Errors
    /// [`DiskError::Unreadable`] if a newer one may be lost.
    pub(super) fn vouch(&self, key: &[u8], found: Option<SeqNo>) -> Result<(), DiskError> {
        let newer = |lost: &&Lost| found.is_none_or(|number| number <= lost.newest);
        self.within(key, &behind(key)).find(newer).map_or(Ok(()), |lost| Err(lost.error()))
    }

    /// Checks that no row of `from..until` is lost.
    ///
    /// # Errors
    /// [`DiskError::Unreadable`] if there may be such a row.
    pub(super) fn none_within(&self, from: &[u8], until: &[u8]) -> Result<(), DiskError> {
        self.within(from, until).next().map_or(Ok(()), |lost| Err(lost.error()))
    }

    /// Rows of `from..until` in order, with an error where a range with lost rows begins.
    pub(super) fn past<I>(&self, from: &[u8], until: &[u8], rows: I) -> Past<I>
    where
        I: DoubleEndedIterator<Item = Result<(Slice, Slice), DiskError>>,
    {
        let mut gaps: VecDeque<Lost> = VecDeque::new();
        self.within(from, until).for_each(|lost| gaps.push_front(lost.clone()));
        Past { rows, front: None, back: None, gaps }
    }
}

/// The iterator of [`LostRanges::past`]. If it is continued after an error, it yields the rows
/// after the range.
pub(super) struct Past<I: Iterator> {
    rows: I,
    front: Option<I::Item>,
    back: Option<I::Item>,
    /// Ordered by first key; at most as many as there are lost ranges.
    gaps: VecDeque<Lost>,
}

impl<I> Iterator for Past<I>
where
    I: DoubleEndedIterator<Item = Result<(Slice, Slice), DiskError>>,
{
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let row = self.front.take().or_else(|| self.rows.next()).or_else(|| self.back.take());
        let key = row.as_ref().map(|row| row.as_ref().ok().map(|(key, _)| key));
        // An error is yielded at once.
        let passed = |lost: &Lost| key.is_none_or(|key| key.is_some_and(|key| **key >= *lost.from));
        match self.gaps.front().is_some_and(passed).then(|| self.gaps.pop_front()).flatten() {
            Some(lost) => {
                self.front = row;
                Some(Err(lost.error()))
            }
            None => row,
        }
    }
}

impl<I> DoubleEndedIterator for Past<I>
where
    I: DoubleEndedIterator<Item = Result<(Slice, Slice), DiskError>>,
{
    fn next_back(&mut self) -> Option<I::Item> {
        let row = self.back.take().or_else(|| self.rows.next_back()).or_else(|| self.front.take());
        let key = row.as_ref().map(|row| row.as_ref().ok().map(|(key, _)| key));
        let passed = |lost: &Lost| key.is_none_or(|key| key.is_some_and(|key| **key < *lost.until));
        // They may overlap: the one that ends last need not be the one that begins last.
        let last = (0..self.gaps.len()).find(|at| passed(&self.gaps[*at]));
        match last.and_then(|at| self.gaps.remove(at)) {
            Some(lost) => {
                self.back = row;
                Some(Err(lost.error()))
            }
            None => row,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(from: &str, until: &str, newest: SeqNo) -> Lost {
        let (from, until) = (from.as_bytes().to_vec(), until.as_bytes().to_vec());
        Lost { file: "7".into(), at: 9, bytes: 8192, from, until, newest, what: "rotten".into() }
    }

    #[test]
    fn a_row_says_what_was_lost() {
        let lost = Lost { what: String::new(), at: 1 << 40, ..lost("a", "b\0", 3) };
        let (key, value) = lost.encode();
        assert!(*key > *LOST_PREFIX && *key < *LOST_END);
        assert_eq!(Lost::decode(&key, &value), Some(lost));
        for cut in 0..value.len() {
            assert_eq!(Lost::decode(&key, &value[..cut]), None);
        }
        assert_eq!(Lost::decode(&key[..5], &value), None);
        assert_eq!(Lost::decode(b"", b""), None);
    }

    #[test]
    fn a_key_of_a_lost_range_is_answered_for_by_what_is_newer_alone() {
        let ranges = LostRanges::new(vec![lost("m", "p", 5), lost("a", "z", 3), lost("b", "c", 9)]);
        let damaged = |key: &str, found| ranges.vouch(key.as_bytes(), found).is_err();
        assert!(damaged("a", None) && damaged("y", Some(3)) && damaged("o", Some(5)) && damaged("b", Some(9)));
        assert!(!damaged("y", Some(4)) && !damaged("o", Some(6)) && !damaged("c", Some(4)));
        assert!(!damaged("A", None) && !damaged("z", None), "beside it");
    }

    #[test]
    fn rows_of_a_range_are_not_passed_by_what_is_lost_between_them() {
        let ranges = LostRanges::new(vec![lost("c", "e", 5), lost("cc", "cd", 5), lost("x", "z", 3)]);
        let come = |from: &str, until: &str, reverse: bool| -> Vec<String> {
            let row = |key: &str| Ok((Slice::from(key.as_bytes()), Slice::from("")));
            let rows: Vec<_> = ["a", "b", "d", "f", "k"]
                .into_iter()
                .filter(|key| (from..until).contains(key))
                .map(row)
                .collect::<Vec<Result<_, DiskError>>>();
            let past = ranges.past(from.as_bytes(), until.as_bytes(), rows.into_iter());
            let name = |row: Result<(Slice, Slice), DiskError>| {
                row.map_or("!".to_owned(), |(key, _)| String::from_utf8(key.to_vec()).unwrap())
            };
            if reverse { past.rev().map(name).collect() } else { past.map(name).collect() }
        };
        assert_eq!(come("a", "zz", false), ["a", "b", "!", "!", "d", "f", "k", "!"]);
        assert_eq!(come("a", "zz", true), ["!", "k", "f", "!", "d", "!", "b", "a"]);
        assert_eq!(come("d", "x", false), ["!", "d", "f", "k"]);
        assert_eq!(come("f", "x", true), ["k", "f"]);
        assert_eq!(come("cb", "cc", false), ["!"], "nothing is there, and nothing is known");
    }
}

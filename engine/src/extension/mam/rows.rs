//! Going over an archive row by row, from either end, without losing what lies across the edge of a read.

use crate::limits::ARCHIVE_PAGE_BYTES_MAX;
use crate::store::archive::is_void;
use crate::store::{Found, Query, Row, Table};

/// Rows of a read at the most.
const ROWS_MAX: usize = 256;

/// Bytes of a read.
const BYTES_MAX: u32 = 2 * ARCHIVE_PAGE_BYTES_MAX as u32;

/// A place in a range of rows, and what has been read there and cannot be judged yet.
///
/// What makes an entry void stands before the row with the entry. Forwards the last rows of a read may be of the row behind them;
/// backwards the first row with entries may have more of such rows before it. They are kept until the next read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Walk {
    back: bool,
    /// First sort key that may be read, and the first that may not.
    from: Box<[u8]>,
    until: Option<Box<[u8]>>,
    /// In the order of their keys.
    kept: Vec<Row>,
}

/// What a walk has come to.
pub(super) struct Reached<'a> {
    back: bool,
    /// Those of earlier reads, in the order of their keys.
    kept: Vec<Row>,
    /// Those of this read, in the order in which they were read.
    found: &'a [Row],
    /// There may be more.
    pub(super) more: bool,
}

impl Reached<'_> {
    /// Rows in the order of their keys, each with all that makes its entries void.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        let (ahead, behind) = if self.back { (&[][..], self.found) } else { (self.found, &[][..]) };
        behind.iter().rev().chain(&self.kept).chain(ahead)
    }
}

impl Walk {
    /// From the row with the first entry that has at least this number, up to the row with the entry `high`.
    pub(super) fn forward(low: u64) -> Walk {
        Walk { back: false, from: key(low), until: None, kept: Vec::new() }
    }

    /// From the last row to the one with the first entry that has at least the number `low`.
    pub(super) fn back_from_end(low: u64) -> Walk {
        Walk { back: true, from: key(low), until: None, kept: Vec::new() }
    }

    /// The same from the row with the entry `high`, which [`seek`](crate::store::archive::seek) has found: it may hold entries
    /// before that one.
    pub(super) fn back_from(low: u64, high: u64, found: &Found) -> Walk {
        let Found::Rows { rows, .. } = found else { return Walk::back_from_end(low) };
        // What comes behind the first row with entries is none of it.
        let end = rows.iter().position(|row| !is_void(&row.value)).map_or(rows.len(), |at| at + 1);
        Walk { back: true, from: key(low), until: Some(key(high)), kept: rows[..end].to_vec() }
    }

    /// The first number that it goes to or begins with.
    pub(super) fn low(&self) -> u64 {
        self.from.first_chunk().map_or(0, |low| u64::from_be_bytes(*low))
    }

    /// The next read, if so many entries are wanted.
    pub(super) fn query(&self, user: &str, wanted: usize) -> Query {
        Query::Range {
            table: Table::Archive,
            actor: user.as_bytes().into(),
            from: self.from.clone(),
            until: self.until.clone(),
            reverse: self.back,
            rows_max: wanted.clamp(8, ROWS_MAX) as u32,
            bytes_max: BYTES_MAX,
        }
    }

    /// The next read is as large as one may be: nearly nothing of what comes is wanted.
    pub(super) fn query_most(&self, user: &str) -> Query {
        self.query(user, ROWS_MAX)
    }

    /// Goes on with what was found. `None` for what is no answer to a range.
    pub(super) fn found<'a>(&mut self, found: &'a Found) -> Option<Reached<'a>> {
        let Found::Rows { rows, more } = found else { return None };
        let (back, more) = (self.back, *more && !rows.is_empty());
        if let Some(last) = rows.last() {
            match back {
                true => self.until = Some(last.sort.clone()),
                false => self.from = [&*last.sort, &[0]].concat().into(),
            }
        }
        let mut kept = std::mem::take(&mut self.kept);
        if !more {
            return Some(Reached { back, kept, found: rows, more });
        }
        let last = rows.iter().rposition(|row| !is_void(&row.value));
        // Forwards the last row with entries has all that is of it, backwards it may be the one that has not.
        let (found, keep) = match last {
            Some(last) => rows.split_at(if back { last } else { last + 1 }),
            None => (&[][..], &rows[..]),
        };
        let held = if last.is_none() { std::mem::take(&mut kept) } else { Vec::new() };
        self.kept = match back {
            true => keep.iter().rev().cloned().chain(held).collect(),
            false => held.into_iter().chain(keep.iter().cloned()).collect(),
        };
        Some(Reached { back, kept, found, more })
    }
}

fn key(number: u64) -> Box<[u8]> {
    number.to_be_bytes().as_slice().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::archive::{Entry, live_entries, put_void};
    use crate::store::{Batch, OpView};

    /// Rows of 60 entries in which every third is void.
    fn stored() -> Vec<Row> {
        let mut batch = Batch::new();
        for number in 1..=60u64 {
            let entry =
                Entry { incoming: true, waits: true, time_ms: number, peer: "b@x", xml: b"<message/>", trail: b"" };
            entry.put(&mut batch, "a@x", number);
            if number.is_multiple_of(7) {
                batch.delete(Table::Waiting, b"a@x", b"so that the next one begins a row");
            }
        }
        (1..=60u64).filter(|number| number.is_multiple_of(3)).for_each(|number| put_void(&mut batch, "a@x", number));
        let puts = batch.iter().filter_map(|op| match op {
            OpView::Put { sort, value, .. } => Some(Row { sort: sort.into(), value: value.into() }),
            _ => None,
        });
        let mut rows: Vec<Row> = puts.collect();
        rows.sort_by(|a, b| a.sort.cmp(&b.sort));
        rows
    }

    fn read(rows: &[Row], query: &Query, rows_max: usize) -> Found {
        let Query::Range { from, until, reverse, .. } = query else { panic!("a range") };
        let within = |row: &&Row| row.sort >= *from && until.as_ref().is_none_or(|until| row.sort < *until);
        let mut found: Vec<Row> = rows.iter().filter(within).cloned().collect();
        if *reverse {
            found.reverse();
        }
        let more = found.len() > rows_max;
        found.truncate(rows_max);
        Found::Rows { rows: found, more }
    }

    /// All live numbers, in the order in which a walk comes to them by reads of so many rows.
    fn walked(mut walk: Walk, back: bool, rows_max: usize) -> Vec<u64> {
        let (rows, mut all) = (stored(), Vec::new());
        loop {
            let found = read(&rows, &walk.query("a@x", 1), rows_max);
            let reached = walk.found(&found).expect("rows");
            let mut numbers: Vec<u64> = live_entries(reached.rows()).expect("whole").iter().map(|(n, _)| *n).collect();
            if back {
                numbers.reverse();
            }
            all.extend(numbers);
            if !reached.more {
                return all;
            }
        }
    }

    #[test]
    fn a_walk_meets_each_entry_once_and_none_that_is_void_however_little_is_read_at_once() {
        let live = |range: std::ops::RangeInclusive<u64>| range.filter(|number| !number.is_multiple_of(3));
        for rows_max in 1..40 {
            assert!(walked(Walk::forward(1), false, rows_max).into_iter().eq(live(1..=60)), "{rows_max} forwards");
            assert!(
                walked(Walk::back_from_end(0), true, rows_max).into_iter().eq(live(1..=60).rev()),
                "{rows_max} back"
            );
            for high in [1, 21, 22, 25, 60, 61] {
                let found = read(&stored(), &crate::store::archive::seek("a@x", high), 256);
                let all = walked(Walk::back_from(0, high, &found), true, rows_max);
                let up_to = all.into_iter().skip_while(|number| *number > high);
                assert!(up_to.eq(live(1..=high.min(60)).rev()), "{rows_max} back from {high}");
            }
        }
    }
}

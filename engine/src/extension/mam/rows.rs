//! Scans an archive row by row in either direction, without losing what crosses the boundary of a
//! read.

use crate::limits::ARCHIVE_PAGE_BYTES_MAX;
use crate::store::archive::is_void;
use crate::store::{Found, Query, Row, Table};

/// Limit of rows per read.
const ROWS_MAX: usize = 256;

/// Limit of bytes per read.
const BYTES_MAX: u32 = 2 * ARCHIVE_PAGE_BYTES_MAX as u32;

/// A position in a range of rows, with the rows that were read there but cannot be evaluated yet.
///
/// The rows that void entries precede the row with the entries. Forwards, the last rows of a read
/// may belong to the following row; backwards, the first row with entries may have more such rows
/// before it. They are kept until the next read.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Walk {
    back: bool,
    /// The inclusive start and the exclusive end of the remaining sort keys.
    from: Box<[u8]>,
    until: Option<Box<[u8]>>,
    /// In key order.
    kept: Vec<Row>,
}

/// The rows that a walk has reached.
pub(super) struct Reached<'a> {
    back: bool,
    /// Those of earlier reads, in key order.
    kept: Vec<Row>,
    /// Those of this read, in the order in which they were read.
    found: &'a [Row],
    /// Whether there may be more.
    pub(super) more: bool,
}

impl Reached<'_> {
    /// Rows in key order, each with all rows that void its entries.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        let (ahead, behind) = if self.back { (&[][..], self.found) } else { (self.found, &[][..]) };
        behind.iter().rev().chain(&self.kept).chain(ahead)
    }
}

impl Walk {
    /// From the row with the first entry at or after this number, up to the row with the entry
    /// `high`.
    pub(super) fn forward(low: u64) -> Walk {
        Walk { back: false, from: key(low), until: None, kept: Vec::new() }
    }

    /// From the last row back to the one with the first entry at or after the number `low`.
    pub(super) fn back_from_end(low: u64) -> Walk {
        Walk { back: true, from: key(low), until: None, kept: Vec::new() }
    }

    /// The same from the row with the entry `high`, which [`seek`](crate::store::archive::seek) has
    /// found: it may also have earlier entries.
    pub(super) fn back_from(low: u64, high: u64, found: &Found) -> Walk {
        let Found::Rows { rows, .. } = found else { return Walk::back_from_end(low) };
        // Rows after the first row with entries do not belong to it.
        let end = rows.iter().position(|row| !is_void(&row.value)).map_or(rows.len(), |at| at + 1);
        Walk { back: true, from: key(low), until: Some(key(high)), kept: rows[..end].to_vec() }
    }

    /// The lowest number of the walk.
    pub(super) fn low(&self) -> u64 {
        self.from.first_chunk().map_or(0, |low| u64::from_be_bytes(*low))
    }

    /// The next read, if this many entries are wanted.
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

    /// The next read with the maximum size: few of the following rows will match.
    pub(super) fn query_most(&self, user: &str) -> Query {
        self.query(user, ROWS_MAX)
    }

    /// Continues with the result. `None` if it is not the result of a range.
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
        // Forwards, the last row with entries is complete; backwards, it may be incomplete.
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

    /// Rows of 60 entries of which every third is void.
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

    /// All live numbers in the order of a walk with this many rows per read.
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

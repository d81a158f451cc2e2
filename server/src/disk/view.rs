//! One view of rows in several sources: memory tables, newest first, and the tables below them. The
//! newest version of a key counts, and a memory table's ranges hide older rows.

use std::iter::Peekable;

use lsm_tree::Slice;
use throng_engine::store::{Found, Table};

use super::DiskError;
use super::memory::{Collector, flat, range_bounds};
use super::memtable::Rows;
use super::ranges::Ranges;
use super::tables::Tables;

/// A row during a merge: `None` if it is removed.
pub(super) type Seen<K, V> = Result<(K, Option<V>), DiskError>;

/// A row of the store: flat key and value.
pub(super) type Row = Result<(Slice, Slice), DiskError>;

type Boxed<'a, K, V> = Box<dyn Iterator<Item = Seen<K, V>> + 'a>;

/// Two sorted sources as one; of rows with the same key only the newer source's is yielded.
pub(super) struct Merge<N: Iterator, O: Iterator> {
    newer: Peekable<N>,
    older: Peekable<O>,
    reverse: bool,
}

/// Merges in ascending or descending order.
pub(super) fn merge<K, V, N, O>(newer: N, older: O, reverse: bool) -> Merge<N, O>
where
    N: Iterator<Item = Seen<K, V>>,
    O: Iterator<Item = Seen<K, V>>,
{
    Merge { newer: newer.peekable(), older: older.peekable(), reverse }
}

impl<K: Ord, V, N, O> Iterator for Merge<N, O>
where
    N: Iterator<Item = Seen<K, V>>,
    O: Iterator<Item = Seen<K, V>>,
{
    type Item = Seen<K, V>;

    fn next(&mut self) -> Option<Seen<K, V>> {
        let (Some(newer), Some(older)) = (self.newer.peek(), self.older.peek()) else {
            return self.newer.next().or_else(|| self.older.next());
        };
        let (Ok((newer, _)), Ok((older, _))) = (newer, older) else {
            // An error is yielded at once.
            return if newer.is_err() { self.newer.next() } else { self.older.next() };
        };
        let order = if self.reverse { older.cmp(newer) } else { newer.cmp(older) };
        if order.is_gt() {
            return self.older.next();
        }
        if order.is_eq() {
            self.older.next();
        }
        self.newer.next()
    }
}

/// What a memory table adds to tables, in the order of the flat keys: its rows, and a tombstone for
/// every existing row in one of its ranges.
pub(super) fn to_write<'a>(
    rows: &'a Rows,
    order: &'a [u32],
    tables: &'a Tables,
) -> impl Iterator<Item = Seen<Slice, &'a [u8]>> {
    let gone = rows.ranges().iter().flat_map(|(from, until)| tables.doomed(from, until));
    merge(rows.flat(order).map(Ok), gone.map(|key| Ok((key?, None))), false)
}

/// All rows of memory tables, newest first and each with its order, above those of `tables`.
pub(super) fn all<'a>(
    layers: impl DoubleEndedIterator<Item = (&'a Rows, &'a [u32])>,
    tables: impl Iterator<Item = Row> + 'a,
) -> impl Iterator<Item = Row> + 'a {
    let mut seen: Boxed<'a, Slice, Slice> = Box::new(tables.map(|row| row.map(|(key, value)| (key, Some(value)))));
    for (rows, order) in layers.rev() {
        let own = rows.flat(order).map(|(key, value)| Ok((key, value.map(Slice::from))));
        seen = Box::new(merge(own, outside(seen, rows.ranges()), false));
    }
    seen.filter_map(present)
}

/// A requested range of one actor.
pub(super) struct Asked<'a> {
    pub(super) table: Table,
    pub(super) actor: &'a [u8],
    pub(super) from: &'a [u8],
    pub(super) until: Option<&'a [u8]>,
    pub(super) reverse: bool,
    pub(super) rows_max: u32,
    pub(super) bytes_max: u32,
}

/// The memory tables' knowledge of a range.
pub(super) struct Overlay {
    /// Flat keys and values in the requested order, up to the query's limits.
    rows: Vec<(Slice, Option<Slice>)>,
    /// The parts of the range in which rows of tables count.
    parts: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Asked<'_> {
    /// Copies what the memory tables, newest first, know.
    pub(super) fn overlay(&self, layers: &[&Rows]) -> Overlay {
        let mut seen: Boxed<'_, &[u8], &[u8]> = Box::new(std::iter::empty());
        let (from, until) = range_bounds(self.table, self.actor, self.from, self.until);
        let mut hidden = Ranges::default();
        for rows in layers.iter().rev() {
            let own = rows.range(self.table, self.actor, self.from, self.until).map(Ok);
            let own: Boxed<'_, &[u8], &[u8]> = if self.reverse { Box::new(own.rev()) } else { Box::new(own) };
            if !rows.ranges().is_empty() {
                rows.ranges().within(&from, &until).for_each(|(from, until)| hidden.add(from.to_vec(), until.to_vec()));
                let ranges = rows.ranges();
                let hides = |sort: &[u8]| ranges.holds(&flat(self.table, self.actor, sort));
                seen = Box::new(seen.filter(move |row| !row.as_ref().is_ok_and(|(sort, _)| hides(sort))));
            }
            seen = Box::new(merge(own, seen, self.reverse));
        }
        let mut limit = Collector::new(self.rows_max, self.bytes_max);
        let mut rows = Vec::new();
        for (sort, value) in seen.map_while(Result::ok) {
            let key = flat(self.table, self.actor, sort);
            let full = value.is_some_and(|value| limit.take(&key, value).is_break());
            rows.push((key.into(), value.map(Slice::from)));
            if full {
                break;
            }
        }
        Overlay { rows, parts: hidden.outside(&from, &until) }
    }
}

impl Overlay {
    /// Finds the rows, including those that `tables` has now. Tables are read when the result is
    /// run, from the tables of this moment.
    pub(super) fn over(self, asked: &Asked<'_>, tables: &Tables) -> impl FnOnce() -> Result<Found, DiskError> + use<> {
        let prefix = flat(asked.table, asked.actor, b"");
        let part = |(from, until): &(Vec<u8>, Vec<u8>)| tables.actor_range(&prefix, from, until);
        let mut parts: Vec<_> = self.parts.iter().map(part).collect();
        let (reverse, mut found) = (asked.reverse, Collector::new(asked.rows_max, asked.bytes_max));
        move || {
            let older: Boxed<'_, Slice, Slice> = if reverse {
                parts.reverse();
                Box::new(parts.into_iter().flat_map(|part| part.rev()).map(|row| row.map(|(k, v)| (k, Some(v)))))
            } else {
                Box::new(parts.into_iter().flatten().map(|row| row.map(|(k, v)| (k, Some(v)))))
            };
            for row in merge(self.rows.into_iter().map(Ok), older, reverse).filter_map(present) {
                let (key, value) = row?;
                if found.take(&key, &value).is_break() {
                    break;
                }
            }
            Ok(found.finish())
        }
    }
}

/// Rows outside the ranges.
fn outside<'a>(rows: Boxed<'a, Slice, Slice>, ranges: &'a Ranges) -> Boxed<'a, Slice, Slice> {
    match ranges.is_empty() {
        true => rows,
        false => Box::new(rows.filter(|row| !row.as_ref().is_ok_and(|(key, _)| ranges.holds(key)))),
    }
}

fn present<K, V>(row: Seen<K, V>) -> Option<Result<(K, V), DiskError>> {
    match row {
        Ok((key, value)) => value.map(|value| Ok((key, value))),
        Err(error) => Some(Err(error)),
    }
}

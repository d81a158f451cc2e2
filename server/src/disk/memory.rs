//! The engine for tests: a sorted map. It is neither durable nor fast; it defines correct results.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Mutex;

use throng_engine::store::{Batch, Found, OpView, Query, Row, Table, key};

use super::{DiskError, Engine, Figures, KeyRange, Memory, Seen, StoreCounters, Visit};

/// Rows in a sorted map.
#[derive(Debug, Default)]
pub struct MemoryEngine {
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    seen: Seen<StoreCounters>,
}

/// Flat key of a row.
pub(crate) fn flat(table: Table, actor: &[u8], sort: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(actor.len() + sort.len() + 2);
    key::encode(&mut out, table, actor, sort);
    out
}

/// First flat key after all rows of an actor.
pub(crate) fn actor_end(table: Table, actor: &[u8]) -> Vec<u8> {
    let mut out = flat(table, actor, b"");
    // The NUL after the actor becomes 1: after each of its rows, before those of any longer name.
    *out.last_mut().expect("a flat key ends in NUL here") = 1;
    out
}

/// Flat bounds of a range within an actor.
pub(crate) fn range_bounds(table: Table, actor: &[u8], from: &[u8], until: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
    let until = until.map_or_else(|| actor_end(table, actor), |until| flat(table, actor, until));
    (flat(table, actor, from), until)
}

/// Bounds of the rows that a delete removes; `None` for other operations.
pub(crate) fn delete_bounds(op: &OpView<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    match *op {
        OpView::DeleteRange { table, actor, from, until } => Some(range_bounds(table, actor, from, Some(until))),
        OpView::DeleteActor { table, actor } => Some(range_bounds(table, actor, b"", None)),
        OpView::Put { .. } | OpView::Delete { .. } => None,
    }
}

/// Collects rows up to a query's limits.
pub(crate) struct Collector {
    rows: Vec<Row>,
    bytes: u64,
    rows_max: u32,
    bytes_max: u32,
    more: bool,
}

impl Collector {
    pub(crate) fn new(rows_max: u32, bytes_max: u32) -> Collector {
        Collector { rows: Vec::new(), bytes: 0, rows_max, bytes_max, more: false }
    }

    /// Whether the limits permit no further row.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= self.rows_max as usize || (!self.rows.is_empty() && self.bytes >= u64::from(self.bytes_max))
    }

    /// Takes the next row, or records that there are more.
    pub(crate) fn take(&mut self, flat_key: &[u8], value: &[u8]) -> Visit {
        if self.is_full() {
            self.more = true;
            return Visit::Break(());
        }
        if let Some((_, _, sort)) = key::decode(flat_key) {
            self.bytes += value.len() as u64;
            self.rows.push(Row { sort: sort.into(), value: value.into() });
        }
        Visit::Continue(())
    }

    pub(crate) fn finish(self) -> Found {
        Found::Rows { rows: self.rows, more: self.more }
    }
}

/// Answers a query by flat keys: `value` finds one row, `rows` passes those of a range to the
/// collector, in reverse order if requested.
pub(crate) fn answer(
    query: &Query,
    value: impl FnOnce(&[u8]) -> Result<Option<Box<[u8]>>, DiskError>,
    rows: impl FnOnce(&[u8], &[u8], bool, &mut Collector) -> Result<(), DiskError>,
) -> Result<Found, DiskError> {
    match query {
        Query::Get { table, actor, sort } => value(&flat(*table, actor, sort)).map(Found::Value),
        Query::Range { table, actor, from, until, reverse, rows_max, bytes_max } => {
            let (from, until) = range_bounds(*table, actor, from, until.as_deref());
            let mut found = Collector::new(*rows_max, *bytes_max);
            if from < until {
                rows(&from, &until, *reverse, &mut found)?;
            }
            Ok(found.finish())
        }
    }
}

impl MemoryEngine {
    /// An empty store.
    pub fn new() -> MemoryEngine {
        MemoryEngine::default()
    }
}

impl Engine for MemoryEngine {
    fn commit(&self, batches: &[Batch]) -> Result<(), DiskError> {
        let mut rows = self.rows.lock().expect("no panic while held");
        for op in batches.iter().flat_map(Batch::iter) {
            match op {
                OpView::Put { table, actor, sort, value } => {
                    rows.insert(flat(table, actor, sort), value.to_vec());
                }
                OpView::Delete { table, actor, sort } => {
                    rows.remove(&flat(table, actor, sort));
                }
                OpView::DeleteRange { .. } | OpView::DeleteActor { .. } => {
                    let (from, until) = delete_bounds(&op).expect("a range");
                    if from < until {
                        let gone: Vec<_> = rows.range(from..until).map(|(key, _)| key.clone()).collect();
                        for key in gone {
                            rows.remove(&key);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn read(&self, query: &Query) -> Result<Found, DiskError> {
        let all = self.rows.lock().expect("no panic while held");
        answer(
            query,
            |key| Ok(all.get(key).map(|value| value.as_slice().into())),
            |from, until, reverse, found| {
                let range = all.range(from.to_vec()..until.to_vec());
                let mut take = |(key, value): (&Vec<u8>, &Vec<u8>)| found.take(key, value);
                // Stopping early is not an error.
                let _: Visit = if reverse { range.rev().try_for_each(&mut take) } else { { range }.try_for_each(take) };
                Ok(())
            },
        )
    }

    fn for_each_actor(
        &self,
        table: Table,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8]) -> Visit,
    ) -> Result<(), DiskError> {
        let rows = self.rows.lock().expect("no panic while held");
        let mut from = after.map_or_else(|| vec![table as u8], |after| actor_end(table, after));
        loop {
            let next = rows.range::<[u8], _>((Bound::Included(&from[..]), Bound::Unbounded)).next();
            match next.and_then(|(key, _)| key::decode(key)) {
                Some((found, actor, _)) if found == table => {
                    if visit(actor).is_break() {
                        return Ok(());
                    }
                    from = actor_end(table, actor);
                }
                _ => return Ok(()),
            }
        }
    }

    fn scan_within(&self, ranges: &[KeyRange], visit: &mut dyn FnMut(&[u8], &[u8]) -> Visit) -> Result<(), DiskError> {
        let rows = self.rows.lock().expect("no panic while held");
        let mut within = ranges.iter().flat_map(|range| rows.range(range.clone()));
        let _: Visit = within.try_for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn copy_to(&self, dir: &Path, _progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
        Err(DiskError::from_io(
            format!("{}: the store in memory cannot be copied to a folder", dir.display()),
            std::io::ErrorKind::Unsupported.into(),
        ))
    }

    fn counters(&self) -> &Seen<StoreCounters> {
        &self.seen
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }

    fn figures(&self) -> Result<Figures, DiskError> {
        let rows = self.rows.lock().expect("no panic while held");
        let buffer_bytes = rows.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        Ok(Figures { buffer_bytes, ..Figures::default() })
    }

    fn compact(&self) -> Result<(), DiskError> {
        Ok(())
    }
}

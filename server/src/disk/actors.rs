//! Iterates over the actors that have rows in tables, skipping those whose rows are all lost.

use throng_engine::store::{Table, key};

use super::DiskError;
use super::memory::flat;
use super::tables::Tables;
use super::view::Row;

/// Rows of one actor skipped one by one before the iterator seeks to the next actor.
const ROWS_BEFORE_SEEK: u32 = 16;

/// Iterates over the actors that have rows in tables.
pub(super) struct NextActor<'a> {
    tables: &'a Tables,
    until: Vec<u8>,
    rows: Option<(Vec<u8>, Box<dyn Iterator<Item = Row> + 'a>)>,
}

impl<'a> NextActor<'a> {
    pub(super) fn new(tables: &'a Tables, table: Table) -> NextActor<'a> {
        NextActor { tables, until: vec![table as u8 + 1], rows: None }
    }

    /// The beginning of the first actor at or after a key.
    pub(super) fn from(&mut self, from: &[u8]) -> Result<Option<Vec<u8>>, DiskError> {
        let mut passed = 0;
        while let Some((row, rows)) = self.rows.as_mut().filter(|(row, _)| row.as_slice() < from) {
            let next = if passed < ROWS_BEFORE_SEEK { rows.next() } else { None };
            passed += 1;
            match next {
                Some(next) => *row = next?.0.to_vec(),
                None => self.rows = None,
            }
        }
        if self.rows.is_none() {
            let mut rows = self.tables.whole_range(from, &self.until);
            let Some(first) = rows.next() else { return Ok(None) };
            self.rows = Some((first?.0.to_vec(), Box::new(rows)));
        }
        let (row, _) = self.rows.as_ref().expect("just seen");
        let begins = |(table, actor, _): (Table, &[u8], &[u8])| flat(table, actor, b"");
        key::decode(row).map(begins).map(Some).ok_or_else(|| DiskError::Corrupt("a key is none of a table".into()))
    }
}

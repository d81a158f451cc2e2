//! `store check`: walks every row, with all checksums verified on the way, and says what it found.

use throng_engine::store::{Table, key};

use super::{DiskError, Engine, Visit};

/// Problems kept in a report; further ones are only counted.
const PROBLEMS_MAX: usize = 20;

/// Rows between two calls of the progress callback.
const PROGRESS_ROWS: u64 = 8192;

/// Decodes the value of a row: `Err` says in a few words what is wrong with it (never its content).
pub type ValueCheck<'a> = &'a dyn Fn(Table, &[u8], &[u8], &[u8]) -> Result<(), String>;

/// What one table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCount {
    /// The table.
    pub table: Table,
    /// Rows.
    pub rows: u64,
    /// Partition keys.
    pub partitions: u64,
    /// Bytes of keys.
    pub key_bytes: u64,
    /// Bytes of values.
    pub value_bytes: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// One a table, in the order of their numbers.
    pub tables: Vec<TableCount>,
    /// Number of problems.
    pub problems: u64,
    /// The first problems, in words.
    pub first_problems: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems == 0
    }

    /// All rows.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }

    fn problem(&mut self, what: String) {
        self.problems += 1;
        if self.first_problems.len() < PROBLEMS_MAX {
            self.first_problems.push(what);
        }
    }
}

/// Walks the whole store. `progress` gets the rows seen so far. Damage goes into the report.
///
/// # Errors
/// Those that say nothing about the store itself: the file system's, a full disk.
pub fn check(engine: &dyn Engine, value: ValueCheck<'_>, progress: &mut dyn FnMut(u64)) -> Result<Report, DiskError> {
    let mut report = Report { tables: Table::ALL.map(empty_count).to_vec(), ..Report::default() };
    let mut seen = 0;
    let mut last = Vec::new();
    let walked = engine.scan(&mut |flat, row| {
        seen += 1;
        if seen % PROGRESS_ROWS == 0 {
            progress(seen);
        }
        if seen > 1 && last.as_slice() >= flat {
            report.problem(format!("row {seen} stands out of order"));
        }
        let Some((table, partition, sort)) = key::decode(flat) else {
            report.problem(format!("row {seen}: the key of {} bytes is not one of a known table", flat.len()));
            return Visit::Continue(());
        };
        let same = key::decode(&last).is_some_and(|(t, p, _)| t == table && p == partition);
        let count = &mut report.tables[table as usize];
        count.rows += 1;
        count.partitions += u64::from(!same);
        count.key_bytes += flat.len() as u64;
        count.value_bytes += row.len() as u64;
        if let Err(what) = value(table, partition, sort, row) {
            report.problem(format!("{table:?}, partition {}: {what}", String::from_utf8_lossy(partition)));
        }
        last.clear();
        last.extend_from_slice(flat);
        Visit::Continue(())
    });
    match walked {
        Err(DiskError::Corrupt(what)) => report.problem(format!("after row {seen}: {what}")),
        other => other?,
    }
    progress(seen);
    Ok(report)
}

fn empty_count(table: Table) -> TableCount {
    TableCount { table, rows: 0, partitions: 0, key_bytes: 0, value_bytes: 0 }
}

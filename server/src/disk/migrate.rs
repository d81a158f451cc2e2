//! Migrates a store to this program's format, in place, before it is opened for use.
//!
//! Each step (`format::Step`) visits its tables in key order, in chunks. The changed rows and the
//! progress are one commit: a row in [`Table::Meta`] has the next key to visit. So after a crash a
//! step resumes at the last commit, and changes no row twice. At the end of a step the row with the
//! format is written together with the removal of that row.
//!
//! A store with lost rows is not migrated: the remedies (docs/damage.md) require the program that
//! wrote it.

use std::path::Path;
use std::time::Duration;

use throng_engine::id::PARTITIONS;
use throng_engine::store::{Batch, Found, OpView, Query, Table, key};

use super::format::{self, Formats, Step, StoredRow};
use super::memory::flat;
use super::{DiskError, Engine, Visit};

/// Sort key of the row with a step's progress.
pub(super) const MIGRATION_KEY: &[u8] = b"migration";

/// Version byte of that row.
const VERSION: u8 = 1;

/// How often, and after which pause, a commit without space is retried: tables are merged
/// meanwhile.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Progress of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The format that the present step starts from.
    pub from: u32,
    /// The format that it leads to.
    pub to: u32,
    /// The step's description.
    pub what: &'static str,
    /// Thousandths of the step, by the order of keys.
    pub permille: u32,
    /// Rows visited in the step, including those before a crash.
    pub rows: u64,
}

/// A step's progress, as stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The format that the step starts from.
    pub(super) from: u32,
    /// The index of its present table.
    table: u8,
    /// Rows visited.
    rows: u64,
    /// The next key to visit in that table; empty: its beginning.
    next: Vec<u8>,
}

impl State {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.from.to_le_bytes());
        out.push(self.table);
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.next);
        out
    }

    /// Decodes such a row; `None` if it is not one.
    pub(super) fn decode(row: &[u8]) -> Option<State> {
        let (from, rest) = row.strip_prefix(&[VERSION])?.split_first_chunk::<4>()?;
        let (&table, rest) = rest.split_first()?;
        let (rows, next) = rest.split_first_chunk::<8>()?;
        let (from, rows) = (u32::from_le_bytes(*from), u64::from_le_bytes(*rows));
        Some(State { from, table, rows, next: next.to_vec() })
    }

    /// Completed thousandths of the step.
    fn permille(&self, step: &Step) -> u32 {
        let place = self.next.get(1..3).map_or(0, |place| u16::from_be_bytes([place[0], place[1]]).min(PARTITIONS));
        let tables = step.tables.len().max(1) as u32;
        (u32::from(self.table) * 1000 + u32::from(place) * 1000 / u32::from(PARTITIONS)) / tables
    }
}

/// Runs all steps from the format of the rows, `found`, to the current one. Durable on return.
///
/// # Errors
/// [`DiskError::OutOfSpace`], those of reading: completed changes stay, and the next call resumes.
pub(super) fn run(
    engine: &dyn Engine,
    dir: &Path,
    found: u32,
    formats: &Formats,
    tell: &mut dyn FnMut(&Progress),
) -> Result<(), DiskError> {
    let begun = state(engine)?;
    if begun.is_none()
        && let Some(damage) = engine.damage().first()
    {
        return Err(DiskError::Corrupt(format!(
            "it cannot be migrated from format {found} to {}, because rows are lost ({damage}); \
             nothing was changed",
            formats.known
        )));
    }
    // From here on programs that do not know the new format refuse the store.
    format::mark(dir, formats.known)?;
    for step in formats.steps.iter().filter(|step| step.from >= found) {
        take(engine, step, formats.chunk_bytes, tell)?;
    }
    Ok(())
}

/// Runs one step, from its recorded progress.
fn take(
    engine: &dyn Engine,
    step: &Step,
    chunk_bytes: usize,
    tell: &mut dyn FnMut(&Progress),
) -> Result<(), DiskError> {
    let begun = state(engine)?.filter(|state| state.from == step.from);
    let mut state = begun.unwrap_or(State { from: step.from, ..State::default() });
    let progress = |state: &State| {
        let (permille, rows) = (state.permille(step), state.rows);
        Progress { from: step.from, to: step.to, what: step.what, permille, rows }
    };
    tell(&progress(&state));
    while let Some(table) = step.tables.get(usize::from(state.table)) {
        let mut batch = Batch::new();
        let whole = chunk(engine, step, *table, chunk_bytes, &mut state, &mut batch)?;
        if whole {
            (state.table, state.next) = (state.table + 1, Vec::new());
        }
        batch.put(Table::Meta, b"", MIGRATION_KEY, &[&state.encode()]);
        commit(engine, &batch)?;
        tell(&progress(&state));
    }
    let mut last = Batch::new();
    format::put(&mut last, step.to);
    last.delete(Table::Meta, b"", MIGRATION_KEY);
    commit(engine, &last)
}

/// Visits the next rows of a table, and collects their changes; returns whether they were the last.
fn chunk(
    engine: &dyn Engine,
    step: &Step,
    table: Table,
    chunk_bytes: usize,
    state: &mut State,
    batch: &mut Batch,
) -> Result<bool, DiskError> {
    let from = if state.next.is_empty() { vec![table as u8] } else { state.next.clone() };
    let (mut bytes, mut whole, mut fault, mut own) = (0, true, None, Batch::new());
    engine.scan_within(&[from..vec![table as u8 + 1]], &mut |row, value| {
        let (_, actor, sort) = key::decode(row).expect("a row within a table");
        own.clear();
        if let Err(what) = (step.change)(&StoredRow { table, actor, sort, value }, &mut own) {
            fault = Some(format!("{table:?}, {}: {what}", String::from_utf8_lossy(actor)));
            return Visit::Break(());
        }
        for op in own.iter() {
            assert!(is_fit(&op, step, usize::from(state.table), row), "a step writes rows that it looks at later");
        }
        batch.append(&own);
        state.rows += 1;
        state.next = [row, &[0]].concat();
        bytes += row.len() + value.len();
        whole = bytes < chunk_bytes;
        if whole { Visit::Continue(()) } else { Visit::Break(()) }
    })?;
    match fault {
        None => Ok(whole),
        Some(what) => Err(DiskError::Corrupt(format!(
            "a row cannot be migrated from format {} to {}: {what}",
            step.from, step.to
        ))),
    }
}

/// Whether an operation does not touch rows that the step has yet to visit.
fn is_fit(op: &OpView<'_>, step: &Step, turn: usize, row: &[u8]) -> bool {
    match *op {
        OpView::Put { table, actor, sort, .. } | OpView::Delete { table, actor, sort } => {
            !step.tables[turn..].contains(&table) || flat(table, actor, sort) == row
        }
        OpView::DeleteRange { table, .. } | OpView::DeleteActor { table, .. } => !step.tables[turn..].contains(&table),
    }
}

/// Commits, and retries for a while if there is no space.
fn commit(engine: &dyn Engine, batch: &Batch) -> Result<(), DiskError> {
    for _ in 1..TRIES {
        match engine.commit(std::slice::from_ref(batch)) {
            Err(error) if error.is_out_of_space() => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    engine.commit(std::slice::from_ref(batch))
}

/// The progress of a migration, if one was interrupted.
fn state(engine: &dyn Engine) -> Result<Option<State>, DiskError> {
    let query = Query::Get { table: Table::Meta, actor: Box::default(), sort: MIGRATION_KEY.into() };
    let Found::Value(row) = engine.read(&query)? else { unreachable!("a get finds a value") };
    let unread = || DiskError::Corrupt("the progress of its migration cannot be read".into());
    row.map(|row| State::decode(&row).ok_or_else(unread)).transpose()
}

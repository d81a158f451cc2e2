//! Changes a store to the format of this program, in place, before anybody uses it.
//!
//! Each step (`format::Step`) goes over its tables in the order of their keys, some rows at a time. What becomes of them and how
//! far it has come are one commit: a row in [`Table::Meta`] has the first key that is still to be looked at. So a step goes
//! on after a crash where the last commit was, and changes no row twice. The row with the format is written with the
//! removal of that row, when a step has come to its end.
//!
//! A store of which rows are lost is not begun with: what could be done about it (docs/damage.md) is done with the program that
//! wrote it.

use std::path::Path;
use std::time::Duration;

use throng_engine::id::PARTITIONS;
use throng_engine::store::{Batch, Found, OpView, Query, Table, key};

use super::format::{self, Formats, Step, StoredRow};
use super::memory::flat;
use super::{DiskError, Engine, Visit};

/// Sort key of the row that says how far a step has come.
pub(super) const MIGRATION_KEY: &[u8] = b"migration";

/// Version byte of that row.
const VERSION: u8 = 1;

/// How often, and after which pause each time, a commit is tried again for which there is no space: tables are merged meanwhile.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// How far a migration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The format that the step under way began with.
    pub from: u32,
    /// The format that it leads to.
    pub to: u32,
    /// What it does.
    pub what: &'static str,
    /// Thousandths of the step, by the order of keys.
    pub permille: u32,
    /// Rows looked at in the step, those before a crash included.
    pub rows: u64,
}

/// How far a step has come, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The format that the step began with.
    pub(super) from: u32,
    /// Which of its tables is next.
    table: u8,
    /// Rows looked at.
    rows: u64,
    /// The first key to be looked at in that table; none: from its beginning on.
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

    /// Of such a row; `None` if it is none.
    pub(super) fn decode(row: &[u8]) -> Option<State> {
        let (from, rest) = row.strip_prefix(&[VERSION])?.split_first_chunk::<4>()?;
        let (&table, rest) = rest.split_first()?;
        let (rows, next) = rest.split_first_chunk::<8>()?;
        let (from, rows) = (u32::from_le_bytes(*from), u64::from_le_bytes(*rows));
        Some(State { from, table, rows, next: next.to_vec() })
    }

    /// Thousandths of the step that are behind it.
    fn permille(&self, step: &Step) -> u32 {
        let place = self.next.get(1..3).map_or(0, |place| u16::from_be_bytes([place[0], place[1]]).min(PARTITIONS));
        let tables = step.tables.len().max(1) as u32;
        (u32::from(self.table) * 1000 + u32::from(place) * 1000 / u32::from(PARTITIONS)) / tables
    }
}

/// Takes all steps from the format of the rows, `found`, to the one that is known. Durable on return.
///
/// # Errors
/// [`DiskError::OutOfSpace`], those of reading: what has been changed stays, and the next call goes on from there.
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
            "it cannot be changed from format {found} to {}, because rows of it are lost ({damage}); nothing was changed",
            formats.known
        )));
    }
    // From here on programs that do not know the new format keep away.
    format::mark(dir, formats.known)?;
    for step in formats.steps.iter().filter(|step| step.from >= found) {
        take(engine, step, formats.chunk_bytes, tell)?;
    }
    Ok(())
}

/// Takes one step, from where it was left.
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

/// Looks at the next rows of a table, and collects what becomes of them; whether they were the last.
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
        Some(what) => {
            Err(DiskError::Corrupt(format!("a row cannot be changed from format {} to {}: {what}", step.from, step.to)))
        }
    }
}

/// Whether an operation leaves alone what the step has still to look at.
fn is_fit(op: &OpView<'_>, step: &Step, turn: usize, row: &[u8]) -> bool {
    match *op {
        OpView::Put { table, actor, sort, .. } | OpView::Delete { table, actor, sort } => {
            !step.tables[turn..].contains(&table) || flat(table, actor, sort) == row
        }
        OpView::DeleteRange { table, .. } | OpView::DeleteActor { table, .. } => !step.tables[turn..].contains(&table),
    }
}

/// Commits, and waits for a while if there is no space.
fn commit(engine: &dyn Engine, batch: &Batch) -> Result<(), DiskError> {
    for _ in 1..TRIES {
        match engine.commit(std::slice::from_ref(batch)) {
            Err(error) if error.is_out_of_space() => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
    engine.commit(std::slice::from_ref(batch))
}

/// How far a migration has come, if one is under way.
fn state(engine: &dyn Engine) -> Result<Option<State>, DiskError> {
    let query = Query::Get { table: Table::Meta, actor: Box::default(), sort: MIGRATION_KEY.into() };
    let Found::Value(row) = engine.read(&query)? else { unreachable!("a get finds a value") };
    let unread = || DiskError::Corrupt("how far its migration has come cannot be read".into());
    row.map(|row| State::decode(&row).ok_or_else(unread)).transpose()
}

//! The engine on fjall: a journal that is synced once a group, rows in memory, tables on disk (log-structured).
//!
//! One keyspace holds all tables, because the flat key begins with the table's number: rows of all tables leave memory
//! together, so journals never wait for a table that is seldom written, and recovery stays short. One worker thread: with
//! more, fjall's first worker spins while another compacts. Figures: docs/decisions/0001-storage-engine.md.
//!
//! The engine decides by itself when rows in memory become a table (`FjallEngine::turn_over`). fjall would ask its
//! worker for that after every commit over the limit: during a long compaction the requests fill the worker's queue, and
//! the worker then waits for room in its own queue, for ever. It also waits itself, where fjall would sleep without
//! noticing that the worker has failed on a full disk (`FjallEngine::make_room`). Tables are written beside merges by
//! `flush`, and commits slow down before merges are so far behind that they would have to stop (`Pace`).

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use fjall::compaction::filter::Factory;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, PartitioningPolicy,
    PinningPolicy,
};
use fjall::{
    AbstractTree, CompressionType, Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Readable,
};
use throng_engine::store::{Batch, Found, OpView, Query, Table, key};

use super::flush::Flusher;
use super::journal::InTables;
use super::memory::{Collector, delete_bounds, flat, partition_end, range_bounds};
use super::merge::{MergeFilters, MergeSpace};
use super::sweep::{OWN_PREFIX, Pending, ROWS_PER_STEP, visible};
use super::{DiskError, Engine, Figures, Options, Visit, journal};

/// Rows of one partition passed one by one before the iterator seeks to the next partition.
const ROWS_BEFORE_SEEK: u32 = 16;

/// The engine may be opened anew this many times in [`REOPEN_PERIOD`] with space on the device.
const REOPENS_MAX: usize = 5;

/// See [`REOPENS_MAX`].
const REOPEN_PERIOD: Duration = Duration::from_secs(60);

/// Tables of the first level above which commits wait for the worker; fjall stops commits at 20 and 30.
const FIRST_LEVEL_MAX: usize = 18;

/// Tables of the first level from which on they are merged: each merge writes all that it meets of the next level anew.
const FIRST_LEVEL_MERGE: u8 = 12;

/// Tables of the first level from which on commits slow down.
const FIRST_LEVEL_SLOW: usize = 14;

/// Bytes a second that may be committed with [`FIRST_LEVEL_SLOW`] tables in the first level.
const PACE_BYTES_S: f64 = (64 << 20) as f64;

/// Longest pause after a commit, seconds.
const PAUSE_S_MAX: f64 = 0.1;

/// A part of the buffer, from which on rows that have been in memory for [`REST_AFTER`] become a table.
const REST_PART: u64 = 4;

/// See [`REST_PART`].
const REST_AFTER: Duration = Duration::from_secs(10);

/// Pause while commits wait for the worker.
const WORKER_PAUSE: Duration = Duration::from_millis(1);

/// Free space above which a failure cannot be for want of space, bytes.
const PLENTY_BYTES: u64 = 1 << 30;

/// Number of the one keyspace: fjall counts from 1.
const ROWS_KEYSPACE: u64 = 1;

/// Fields are dropped in this order: the database waits for whoever still uses it.
struct Open {
    flusher: Flusher,
    rows: Keyspace,
    db: Database,
    space: Arc<MergeSpace>,
}

impl Drop for Open {
    fn drop(&mut self) {
        // The database waits for its worker, which may be waiting for space.
        self.space.close();
    }
}

/// The durable engine.
pub struct FjallEngine {
    dir: PathBuf,
    options: Options,
    /// `None` between the loss of the engine to a full disk and its reopening.
    open: RwLock<Option<Open>>,
    /// Asks long readers to let go, because the engine is to be opened anew.
    yielding: AtomicBool,
    /// Ranges of dead rows. Changed only under `writer`.
    pending: ArcSwap<Vec<Pending>>,
    next_pending: AtomicU64,
    /// Held by whoever commits; the committer's thread, so that nobody ever waits for it.
    writer: Mutex<Pace>,
    /// Whether the background writer has failed since the last opening.
    poisoned: AtomicBool,
    /// When the engine was opened anew after that.
    reopened: Mutex<VecDeque<Instant>>,
}

/// Called with each row's flat key and value.
type RowVisit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<Visit, DiskError>;

impl FjallEngine {
    /// Opens the engine in its own folder, or makes it; recovers what was acknowledged.
    ///
    /// # Errors
    /// The file system's; [`DiskError::Corrupt`] if a journal is damaged elsewhere than at its end.
    pub fn open(dir: &Path, options: &Options) -> Result<FjallEngine, DiskError> {
        let open = open_database(dir, options)?;
        let engine = FjallEngine {
            dir: dir.to_owned(),
            options: options.clone(),
            open: RwLock::new(None),
            yielding: AtomicBool::new(false),
            pending: ArcSwap::default(),
            next_pending: AtomicU64::new(0),
            writer: Mutex::new(Pace::start()),
            poisoned: AtomicBool::new(false),
            reopened: Mutex::default(),
        };
        engine.install(open)?;
        Ok(engine)
    }

    /// A write that failed. A poisoned database is one whose background writer failed, which is how a full disk shows
    /// itself there: everything acknowledged is in the journal, so the engine can be opened anew.
    fn write_error(&self, error: fjall::Error) -> DiskError {
        match error {
            fjall::Error::Poisoned => {
                self.poisoned.store(true, Ordering::Relaxed);
                DiskError::OutOfSpace("a table could not be written".into())
            }
            other => other.into(),
        }
    }

    /// Puts a freshly opened database in place and reads the pending ranges from it.
    fn install(&self, open: Open) -> Result<(), DiskError> {
        let mut pending = Vec::new();
        for row in open.rows.range(vec![OWN_PREFIX]..) {
            let (key, value) = row.into_inner()?;
            pending.extend(Pending::decode(&key, &value));
        }
        let next = pending.iter().map(|range| range.id + 1).max().unwrap_or(0);
        self.next_pending.fetch_max(next, Ordering::Relaxed);
        self.pending.store(Arc::new(pending));
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = Some(open);
        Ok(())
    }

    fn writer(&self) -> MutexGuard<'_, Pace> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self) -> RwLockReadGuard<'_, Option<Open>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a read. A range that a sweep finishes meanwhile would show its dead rows to an older view, and hide new
    /// ones from a newer view: so a read during which the pending ranges change is made again.
    fn reading<T>(&self, mut read: impl FnMut(&Open, &[Pending]) -> Result<T, DiskError>) -> Result<T, DiskError> {
        let guard = self.opened();
        let open = guard.as_ref().ok_or_else(waiting)?;
        loop {
            let pending = self.pending.load_full();
            let found = read(open, &pending)?;
            if Arc::ptr_eq(&pending, &self.pending.load_full()) {
                return Ok(found);
            }
        }
    }

    /// Visits rows of `from..until` from one view, for as long as the engine need not be opened anew.
    fn scan_range(&self, from: Vec<u8>, until: Vec<u8>, visit: RowVisit<'_>) -> Result<(), DiskError> {
        let guard = self.opened();
        let open = guard.as_ref().ok_or_else(waiting)?;
        // Holding the writer for the moment makes view and pending ranges agree.
        let (view, pending) = {
            let _writer = self.writer();
            (open.db.snapshot(), self.pending.load_full())
        };
        for (from, until) in visible(from, until, &pending) {
            for row in view.range(&open.rows, from..until) {
                let (key, value) = row.into_inner()?;
                if visit(&key, &value)?.is_break() {
                    return Ok(());
                }
                if self.yielding.load(Ordering::Relaxed) {
                    return Err(DiskError::OutOfSpace("a long read was given up: the disk is full".into()));
                }
            }
        }
        Ok(())
    }

    /// Waits while rows come faster than they are written to tables and merged. Memory is bounded by this: the buffer
    /// being filled, and one on its way to a table; and so is what an opening after a crash has to read again.
    fn make_room(&self, open: &Open, pace: &mut Pace) -> Result<(), DiskError> {
        let tree = &open.rows.tree;
        std::thread::sleep(pace.due());
        let behind = || {
            tree.l0_run_count() >= FIRST_LEVEL_MAX
                || (tree.active_memtable().size() >= self.options.buffer_bytes && tree.sealed_memtable_count() > 0)
        };
        while behind() || open.flusher.failure().is_some() {
            if open.space.is_starved() {
                return Err(DiskError::OutOfSpace("tables wait for space to be merged".into()));
            }
            self.look_for_failure(open)?;
            std::thread::sleep(WORKER_PAUSE);
        }
        self.turn_over(open, pace);
        Ok(())
    }

    /// Whether rows in memory could not be written to a table.
    fn look_for_failure(&self, open: &Open) -> Result<(), DiskError> {
        if let Some(why) = open.flusher.failure() {
            self.poisoned.store(true, Ordering::Relaxed);
            return Err(DiskError::OutOfSpace(format!("a table could not be written: {why}")));
        }
        // Writes nothing; it only says whether the worker has failed.
        open.db.persist(PersistMode::Buffer).map_err(|error| self.write_error(error))
    }

    /// Hands the rows in memory on, once they are enough for a table, or old enough for a small one.
    fn turn_over(&self, open: &Open, pace: &mut Pace) {
        let tree = &open.rows.tree;
        let size = tree.active_memtable().size();
        let full = size >= self.options.buffer_bytes;
        let old = || size >= self.options.buffer_bytes / REST_PART && pace.turned_over.elapsed() >= REST_AFTER;
        if tree.sealed_memtable_count() > 0 || !(full || old()) {
            return;
        }
        pace.turned_over = Instant::now();
        open.space.set_table_bytes(open.rows.disk_space() + self.options.buffer_bytes);
        if let Err(error) = open.rows.rotate_memtable() {
            // The commit before is durable. If the engine is broken, the next one says so.
            tracing::warn!(%error, "rows in memory could not be handed on");
        }
        open.flusher.wake();
    }

    /// Finishes the pending ranges that one of the puts falls into.
    fn clear_way(&self, open: &Open, batches: &[Batch]) -> Result<(), DiskError> {
        let mut scratch = Vec::new();
        for op in batches.iter().flat_map(Batch::iter) {
            let OpView::Put { table, partition, sort, .. } = op else { continue };
            scratch.clear();
            key::encode(&mut scratch, table, partition, sort);
            while self.pending.load().iter().any(|range| range.holds(&scratch)) {
                self.sweep_step(open, |range| range.holds(&scratch))?;
            }
        }
        Ok(())
    }

    /// Removes some rows of the first pending range that is wanted.
    fn sweep_step(&self, open: &Open, wanted: impl Fn(&Pending) -> bool) -> Result<(), DiskError> {
        let mut pending = Vec::clone(&self.pending.load());
        let Some(at) = pending.iter().position(wanted) else { return Ok(()) };
        let range = &mut pending[at];
        let mut batch =
            OwnedWriteBatch::with_capacity(open.db.clone(), ROWS_PER_STEP + 1).durability(Some(PersistMode::SyncData));
        let mut rows = open.rows.range(range.from.clone()..range.until.clone());
        for row in rows.by_ref().take(ROWS_PER_STEP) {
            batch.remove(&open.rows, row.key()?);
        }
        match rows.next() {
            Some(row) => {
                range.from = row.key()?.to_vec();
                batch.insert(&open.rows, Pending::key(range.id), range.encode());
            }
            None => {
                batch.remove(&open.rows, Pending::key(range.id));
                pending.remove(at);
            }
        }
        drop(rows);
        batch.commit().map_err(|error| self.write_error(error))?;
        self.pending.store(Arc::new(pending));
        Ok(())
    }

    /// Commits a group without range deletes.
    fn commit_plain(&self, open: &Open, batches: &[Batch]) -> Result<(), DiskError> {
        let ops = batches.iter().map(Batch::len).sum();
        let mut batch = OwnedWriteBatch::with_capacity(open.db.clone(), ops).durability(Some(PersistMode::SyncData));
        let mut scratch = Vec::with_capacity(128);
        for op in batches.iter().flat_map(Batch::iter) {
            scratch.clear();
            // Rows of one group carry one sequence number: of two on the same key the later one stays.
            match op {
                OpView::Put { table, partition, sort, value } => {
                    key::encode(&mut scratch, table, partition, sort);
                    batch.insert(&open.rows, &scratch[..], value);
                }
                OpView::Delete { table, partition, sort } => {
                    key::encode(&mut scratch, table, partition, sort);
                    batch.remove(&open.rows, &scratch[..]);
                }
                OpView::DeleteRange { .. } | OpView::DeletePartition { .. } => unreachable!("resolved elsewhere"),
            }
        }
        batch.commit().map_err(|error| self.write_error(error))
    }

    /// Commits a group with range deletes.
    fn commit_resolved(&self, open: &Open, batches: &[Batch]) -> Result<(), DiskError> {
        let (overlay, pending) = self.resolve(open, batches)?;
        let mut batch = OwnedWriteBatch::with_capacity(open.db.clone(), overlay.len() + pending.len())
            .durability(Some(PersistMode::SyncData));
        for (key, value) in overlay {
            match value {
                Some(value) => batch.insert(&open.rows, key, value),
                None => batch.remove(&open.rows, key),
            }
        }
        for range in &pending {
            batch.insert(&open.rows, Pending::key(range.id), range.encode());
        }
        batch.commit().map_err(|error| self.write_error(error))?;
        if !pending.is_empty() {
            let mut all = Vec::clone(&self.pending.load());
            all.extend(pending);
            self.pending.store(Arc::new(all));
        }
        Ok(())
    }

    /// The group with range deletes resolved: the last word on each key, and what becomes pending.
    fn resolve(&self, open: &Open, batches: &[Batch]) -> Result<(Overlay, Vec<Pending>), DiskError> {
        let mut overlay = Overlay::new();
        let mut pending = Vec::new();
        let ops: Vec<OpView<'_>> = batches.iter().flat_map(Batch::iter).collect();
        for (at, op) in ops.iter().enumerate() {
            match *op {
                OpView::Put { table, partition, sort, value } => {
                    overlay.insert(flat(table, partition, sort), Some(value.to_vec()));
                }
                OpView::Delete { table, partition, sort } => {
                    overlay.insert(flat(table, partition, sort), None);
                }
                OpView::DeleteRange { .. } | OpView::DeletePartition { .. } => {
                    let (from, until) = delete_bounds(op).expect("a range");
                    self.delete_range(open, from, until, &ops[at + 1..], &mut overlay, &mut pending)?;
                }
            }
        }
        Ok((overlay, pending))
    }

    fn delete_range(
        &self,
        open: &Open,
        from: Vec<u8>,
        until: Vec<u8>,
        later: &[OpView<'_>],
        overlay: &mut Overlay,
        pending: &mut Vec<Pending>,
    ) -> Result<(), DiskError> {
        if from >= until {
            return Ok(());
        }
        for (_, value) in overlay.range_mut(from.clone()..until.clone()) {
            *value = None;
        }
        for (from, until) in visible(from, until, &self.pending.load()) {
            let range = Pending { id: self.next_pending.fetch_add(1, Ordering::Relaxed), from, until };
            // What is put into the range later in the same group must stay: then all of it goes at once.
            let at_once = later.iter().any(|op| {
                matches!(*op, OpView::Put { table, partition, sort, .. } if range.holds(&flat(table, partition, sort)))
            });
            let rows_max = if at_once { usize::MAX } else { ROWS_PER_STEP };
            let mut rows = open.rows.range(range.from.clone()..range.until.clone());
            for row in rows.by_ref().take(rows_max) {
                overlay.insert(row.key()?.to_vec(), None);
            }
            if let Some(row) = rows.next() {
                pending.push(Pending { from: row.key()?.to_vec(), ..range });
            }
        }
        Ok(())
    }
}

/// How fast commits may come. While merges fall behind, each commit is followed by a pause in proportion to its bytes:
/// who writes much is slowed down, and nobody ever waits for a whole merge.
struct Pace {
    /// When rows in memory were last handed on.
    turned_over: Instant,
    /// Not before this is the next commit.
    next: Instant,
}

impl Pace {
    fn start() -> Pace {
        Pace { turned_over: Instant::now(), next: Instant::now() }
    }

    /// Notes a commit while the first level has so many runs.
    fn committed(&mut self, bytes: usize, runs: usize) {
        if runs >= FIRST_LEVEL_SLOW {
            self.next = Instant::now() + pause(bytes, runs);
        }
    }

    /// Time to wait before the next commit.
    fn due(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }
}

/// Pause after a commit: each run more takes a quarter of the rate.
fn pause(bytes: usize, runs: usize) -> Duration {
    let over = runs.saturating_sub(FIRST_LEVEL_SLOW).min(FIRST_LEVEL_MAX - FIRST_LEVEL_SLOW);
    let rate = PACE_BYTES_S * 0.75_f64.powi(over as i32);
    Duration::from_secs_f64((bytes as f64 / rate).min(PAUSE_S_MAX))
}

/// The last word on each key of a group: a value, or gone.
type Overlay = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn waiting() -> DiskError {
    DiskError::OutOfSpace("the store waits for space".into())
}

fn database_builder(dir: &Path, options: &Options) -> fjall::DatabaseBuilder<Database> {
    Database::builder(dir)
        .cache_size(options.cache_bytes)
        .manual_journal_persist(true)
        .worker_threads(1)
        .max_cached_files(Some(256))
        .max_journaling_size(options.journal_bytes_max.max(64 << 20))
        .journal_compression(CompressionType::None)
}

fn open_rows(db: &Database) -> Result<Keyspace, fjall::Error> {
    db.keyspace("rows", || {
        KeyspaceCreateOptions::default()
            .manual_journal_persist(true)
            .max_memtable_size(u64::MAX)
            .data_block_size_policy(BlockSizePolicy::all(8 << 10))
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
            .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(8.0))))
            .filter_block_pinning_policy(PinningPolicy::all(false))
            .index_block_pinning_policy(PinningPolicy::all(false))
            // The index of a table being written refers to a key in each block that was read for it and so keeps the
            // block: all 64 MB of a merge, unless the index is written in parts.
            .index_block_partitioning_policy(PartitioningPolicy::all(true))
            .compaction_strategy(Arc::new(
                fjall::compaction::Leveled::default()
                    .with_table_target_size(64 << 20)
                    .with_l0_threshold(FIRST_LEVEL_MERGE),
            ))
    })
}

/// Opens the database; a journal whose last group is torn is cut to its last whole group.
fn open_database(dir: &Path, options: &Options) -> Result<Open, DiskError> {
    let prepared = journal::prepare(dir, in_tables(dir)?)?;
    if prepared.cut > 0 {
        let cut = prepared.cut;
        tracing::warn!(cut, "the journal ended in a group that was never acknowledged; it was cut off");
    }
    let space = MergeSpace::new(dir.to_owned(), options.min_free_bytes / 2, options.give_back);
    let filters: Arc<dyn Factory> = Arc::new(MergeFilters(space.clone()));
    let db = database_builder(dir, options)
        .with_compaction_filter_factories(Arc::new(move |_| Some(filters.clone())))
        .open()?;
    let rows = open_rows(&db)?;
    space.set_table_bytes(rows.disk_space());
    let flusher = Flusher::start(db.clone(), rows.clone(), options.give_back)?;
    // What the journals brought back becomes tables at once if it is much.
    flusher.wake();
    Ok(Open { flusher, rows, db, space })
}

/// Which rows of the journals stand in tables already; `None` for a store that is yet to be made.
fn in_tables(dir: &Path) -> Result<Option<InTables>, DiskError> {
    let path = dir.join("keyspaces").join(ROWS_KEYSPACE.to_string());
    // Without this file the engine takes the tables for unfinished, and opening them would make them anew.
    if !path.join("current").exists() {
        return Ok(None);
    }
    let tables =
        lsm_tree::Config::new(path, Default::default(), Default::default()).open().map_err(fjall::Error::from)?;
    let sequence = tables.get_highest_persisted_seqno();
    Ok(sequence.map(|sequence| InTables { keyspace: ROWS_KEYSPACE, sequence }))
}

impl Engine for FjallEngine {
    fn commit(&self, batches: &[Batch]) -> Result<(), DiskError> {
        let guard = self.opened();
        let open = guard.as_ref().ok_or_else(waiting)?;
        let mut pace = self.writer();
        self.make_room(open, &mut pace)?;
        if !self.pending.load().is_empty() {
            self.clear_way(open, batches)?;
        }
        let ranges = batches
            .iter()
            .flat_map(Batch::iter)
            .any(|op| matches!(op, OpView::DeleteRange { .. } | OpView::DeletePartition { .. }));
        if ranges {
            self.commit_resolved(open, batches)?
        } else {
            self.commit_plain(open, batches)?
        }
        pace.committed(batches.iter().map(Batch::bytes).sum(), open.rows.tree.l0_run_count());
        self.turn_over(open, &mut pace);
        Ok(())
    }

    fn read(&self, query: &Query) -> Result<Found, DiskError> {
        self.reading(|open, pending| match query {
            Query::Get { table, partition, sort } => {
                let key = flat(*table, partition, sort);
                if pending.iter().any(|range| range.holds(&key)) {
                    return Ok(Found::Value(None));
                }
                Ok(Found::Value(open.rows.get(&key)?.map(|value| value[..].into())))
            }
            Query::Range { table, partition, from, until, reverse, rows_max, bytes_max } => {
                let (from, until) = range_bounds(*table, partition, from, until.as_deref());
                let mut found = Collector::new(*rows_max, *bytes_max);
                let mut parts = visible(from, until, pending);
                if *reverse {
                    parts.reverse();
                }
                let view = open.db.snapshot();
                'parts: for (from, until) in parts {
                    let mut rows = view.range(&open.rows, from..until);
                    while let Some(row) = if *reverse { rows.next_back() } else { rows.next() } {
                        let (key, value) = row.into_inner()?;
                        if found.take(&key, &value).is_break() {
                            break 'parts;
                        }
                    }
                }
                Ok(found.finish())
            }
        })
    }

    fn for_each_partition(
        &self,
        table: Table,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8]) -> Visit,
    ) -> Result<(), DiskError> {
        let mut from = after.map_or_else(|| vec![table as u8], |after| partition_end(table, after));
        let table_end = vec![table as u8 + 1];
        loop {
            let (mut last, mut passed, mut done): (Option<Vec<u8>>, u32, bool) = (None, 0, true);
            self.scan_range(from.clone(), table_end.clone(), &mut |key, _| {
                let Some((_, partition, _)) = key::decode(key) else { return Ok(Visit::Continue(())) };
                if last.as_deref() == Some(partition) {
                    passed += 1;
                    done = passed < ROWS_BEFORE_SEEK;
                    return Ok(if done { Visit::Continue(()) } else { Visit::Break(()) });
                }
                (last, passed) = (Some(partition.to_vec()), 0);
                Ok(visit(partition))
            })?;
            match last {
                Some(last) if !done => from = partition_end(table, &last),
                _ => return Ok(()),
            }
        }
    }

    fn scan(&self, visit: &mut dyn FnMut(&[u8], &[u8]) -> Visit) -> Result<(), DiskError> {
        self.scan_range(Vec::new(), vec![OWN_PREFIX], &mut |key, value| Ok(visit(key, value)))
    }

    fn sweep(&self) -> Result<bool, DiskError> {
        let guard = self.opened();
        let open = guard.as_ref().ok_or_else(waiting)?;
        let mut pace = self.writer();
        if !self.pending.load().is_empty() {
            self.make_room(open, &mut pace)?;
            self.sweep_step(open, |_| true)?;
            self.turn_over(open, &mut pace);
        }
        Ok(!self.pending.load().is_empty())
    }

    fn rest(&self) {
        let guard = self.opened();
        if let Some(open) = guard.as_ref() {
            self.turn_over(open, &mut self.writer());
        }
    }

    fn reopen(&self) -> Result<(), DiskError> {
        let mut reopened = self.reopened.lock().unwrap_or_else(PoisonError::into_inner);
        reopened.retain(|at| at.elapsed() < REOPEN_PERIOD);
        let plenty = super::space::free_bytes(&self.dir)? > PLENTY_BYTES;
        if plenty && reopened.len() >= REOPENS_MAX {
            return Err(DiskError::Io {
                what: "the store's tables cannot be written".into(),
                source: std::io::Error::other("its background writer fails again and again, with space on the disk"),
            });
        }
        if self.poisoned.swap(false, Ordering::Relaxed) {
            reopened.push_back(Instant::now());
        }
        if reopened.len() > REOPENS_MAX {
            reopened.pop_front();
        }
        self.yielding.store(true, Ordering::Relaxed);
        // The old database has to be gone before the new one can have its lock.
        drop(self.open.write().unwrap_or_else(PoisonError::into_inner).take());
        self.yielding.store(false, Ordering::Relaxed);
        self.install(open_database(&self.dir, &self.options)?)
    }

    fn copy_to(&self, dir: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
        let db = database_builder(dir, &self.options).open()?;
        let rows = open_rows(&db)?;
        let mut target = rows.start_ingestion()?;
        let mut count = 0;
        self.scan_range(Vec::new(), vec![OWN_PREFIX], &mut |key, value| {
            target.write(key, value)?;
            count += 1;
            if count % 4096 == 0 {
                progress(count);
            }
            Ok(Visit::Continue(()))
        })?;
        target.finish()?;
        db.persist(PersistMode::SyncAll)?;
        progress(count);
        Ok(count)
    }

    fn is_starved(&self) -> bool {
        self.opened().as_ref().is_some_and(|open| open.space.is_starved())
    }

    fn figures(&self) -> Result<Figures, DiskError> {
        let guard = self.opened();
        let open = guard.as_ref().ok_or_else(waiting)?;
        Ok(Figures {
            table_bytes: open.rows.disk_space(),
            journal_bytes: open.db.journal_disk_space()?,
            buffer_bytes: open.rows.tree.get_version_history_lock().memtable_size_sum(),
            cache_bytes: open.db.cache_size(),
            pending_ranges: self.pending.load().len() as u64,
        })
    }

    fn compact(&self) -> Result<(), DiskError> {
        while self.sweep()? {}
        let guard = self.opened();
        let open = guard.as_ref().ok_or_else(waiting)?;
        open.rows.rotate_memtable()?;
        open.flusher.wake();
        while open.rows.tree.sealed_memtable_count() > 0 {
            self.look_for_failure(open)?;
            std::thread::sleep(WORKER_PAUSE);
        }
        open.rows.major_compact().map_err(|error| self.write_error(error))
    }
}

impl std::fmt::Debug for FjallEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FjallEngine").field("dir", &self.dir).finish_non_exhaustive()
    }
}

//! The durable engine: a journal that is synced once a group, memory tables, and tables on disk (log-structured).
//!
//! ```text
//! commit ──> journal: one write, one sync ──> memory table ──full──> sealed ──flush──> tables ──merge──> tables
//!            segment n                        n                      n                 the segment goes
//! ```
//!
//! A memory table and its segment of the journal have one number, and so have its rows in tables. One memory table is
//! being filled and one is on its way to a table; when there are two, commits wait. Reads ask the memory tables, newest
//! first, and then the tables: they never wait for a commit, and a commit waits for them no longer than they copy rows.
//!
//! **A full disk** stops nothing for good: a group that the journal has no space for leaves no trace and is tried again by
//! the committer; so is a table by the thread that writes it, and its rows stay in memory and in the journal meanwhile.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use throng_engine::store::{Batch, Found, Query, Table, key};

use super::journal::{self, Journal};
use super::memory::{flat, partition_end};
use super::memtable::{Known, Memtable, Rows};
use super::merge::MergeSpace;
use super::pace::{FIRST_LEVEL_MAX, Pace};
use super::space::free_bytes;
use super::tables::Tables;
use super::view::{self, Asked};
use super::worker::Worker;
use super::{DiskError, Engine, Figures, Options, Visit};
use crate::entropy::Entropy;

/// Rows of one partition passed one by one before the iterator seeks to the next partition.
const ROWS_BEFORE_SEEK: u32 = 16;

/// A part of the buffer from which on rows become a table when nothing is committed for a while.
const REST_PART: usize = 4;

/// Pause while commits wait for a table to be written.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// The durable engine.
pub struct LsmEngine {
    // Threads end first.
    flusher: Worker,
    merger: Arc<Worker>,
    store: Arc<Stored>,
    /// Held by whoever commits; the committer's thread, so that nobody ever waits for it.
    writer: Mutex<Writer>,
    buffer_bytes: usize,
}

struct Writer {
    journal: Journal,
    pace: Pace,
}

/// What the threads share.
struct Stored {
    layers: ArcSwap<Layers>,
    tables: Tables,
    space: Arc<MergeSpace>,
    /// Where the journal is.
    journal: PathBuf,
    /// Memory for the next memory table.
    spare: Mutex<Option<Rows>>,
    /// Nothing has been committed for a while: memory is not kept.
    resting: AtomicBool,
    give_back: fn(),
}

/// The memory tables. Replaced as a whole, so that who reads sees whether they changed meanwhile.
#[derive(Clone)]
struct Layers {
    /// The one that is written.
    active: Arc<Memtable>,
    /// Those on their way to tables, newest first.
    sealed: Vec<Arc<Memtable>>,
}

impl Layers {
    /// All of them, newest first.
    fn newest_first(&self) -> impl DoubleEndedIterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}

impl LsmEngine {
    /// Opens the engine in its own folder, or makes it; recovers what was acknowledged.
    ///
    /// # Errors
    /// The file system's; [`DiskError::Corrupt`] if the journal is damaged elsewhere than at its end.
    pub fn open(dir: &Path, options: &Options) -> Result<LsmEngine, DiskError> {
        std::fs::create_dir_all(dir).map_err(DiskError::at(dir))?;
        let space = MergeSpace::new(dir.to_owned(), options.min_free_bytes / 2);
        let tables = Tables::open(&dir.join("tree"), options.cache_bytes, &space)?;
        space.set_table_bytes(tables.disk_bytes());
        let buffer_bytes = usize::try_from(options.buffer_bytes).unwrap_or(usize::MAX).min(BUFFER_BYTES_MAX);
        let seed = random().map_err(DiskError::at(dir))?;
        let rows = || Rows::with_capacity(buffer_bytes, seed);
        let folder = dir.join("journal");
        let mut recovered: Vec<Arc<Memtable>> = Vec::new();
        let journal = Journal::open(&folder, tables.newest(), random, &mut |segment| {
            let memtable = Memtable::new(segment.number, rows());
            if !segment.groups().all(|group| memtable.apply(group)) {
                return Err(DiskError::Corrupt(format!(
                    "segment {} of the journal holds no operations",
                    segment.number
                )));
            }
            recovered.insert(0, Arc::new(memtable));
            Ok(())
        })?;
        // The newest segment is written on, unless nothing of it could be read.
        let active = match recovered.first().is_some_and(|newest| newest.number == journal.number()) {
            true => recovered.remove(0),
            false => Arc::new(Memtable::new(journal.number(), rows())),
        };
        let store = Arc::new(Stored {
            layers: ArcSwap::from_pointee(Layers { active, sealed: recovered }),
            tables,
            space,
            journal: folder,
            spare: Mutex::new(None),
            resting: AtomicBool::new(false),
            give_back: options.give_back,
        });
        let own = store.clone();
        let merger = Arc::new(Worker::start("throng-merge", move || own.merge())?);
        let (own, wakes) = (store.clone(), merger.clone());
        let mut retiring = None;
        let flusher = Worker::start("throng-flush", move || own.flush(&mut retiring, &wakes))?;
        merger.wake();
        flusher.wake();
        let writer = Mutex::new(Writer { journal, pace: Pace::start() });
        Ok(LsmEngine { flusher, merger, store, writer, buffer_bytes })
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while rows come faster than they are written to tables and merged, and makes room for a group. Memory is
    /// bounded by this, and so is what an opening has to read again.
    fn make_room(&self, writer: &mut Writer, bytes: usize) -> Result<(), DiskError> {
        std::thread::sleep(writer.pace.due());
        loop {
            self.look_for_failure()?;
            let layers = self.store.layers.load();
            let size = layers.active.read().size();
            let full = size > 0 && size + bytes > self.buffer_bytes;
            if !full {
                return Ok(());
            }
            if layers.sealed.is_empty() && self.store.tables.first_level_runs() < FIRST_LEVEL_MAX {
                return self.seal(writer);
            }
            if self.is_starved() {
                return Err(DiskError::OutOfSpace("rows wait for space to become tables".into()));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn look_for_failure(&self) -> Result<(), DiskError> {
        self.flusher.failure().or_else(|| self.merger.failure()).map_or(Ok(()), Err)
    }

    /// Hands the rows in memory on to become a table.
    fn seal(&self, writer: &mut Writer) -> Result<(), DiskError> {
        writer.journal.rotate()?;
        let spare = self.store.spare().take();
        let rows = spare.unwrap_or_else(|| self.store.layers.load().active.read().sibling(self.buffer_bytes));
        let active = Arc::new(Memtable::new(writer.journal.number(), rows));
        self.store.layers.rcu(|layers| {
            let sealed = layers.newest_first().cloned().collect();
            Layers { active: active.clone(), sealed }
        });
        self.flusher.wake();
        Ok(())
    }
}

/// No memory table is larger than this and a group: offsets in it have 32 bits.
const BUFFER_BYTES_MAX: usize = 1 << 30;

fn random() -> io::Result<u64> {
    Ok(u64::from_le_bytes(Entropy::open()?.fresh()?))
}

impl Drop for LsmEngine {
    fn drop(&mut self) {
        self.store.space.close();
    }
}

impl Stored {
    fn spare(&self) -> MutexGuard<'_, Option<Rows>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the oldest sealed memory table to tables, and lets its segment go; `false` if there is none. `retiring` is
    /// the segment that is to go before the next table is written: an older one must never outlive a newer one.
    fn flush(&self, retiring: &mut Option<u64>, merger: &Worker) -> Result<bool, DiskError> {
        if let Some(number) = *retiring {
            journal::retire(&self.journal, number)?;
            *retiring = None;
        }
        let Some(oldest) = self.layers.load().sealed.last().cloned() else { return Ok(false) };
        {
            let rows = oldest.read();
            let expected = rows.size() as u64 * 5 / 4;
            if free_bytes(&self.journal)? < expected {
                return Err(DiskError::OutOfSpace("a table would not fit".into()));
            }
            let order = rows.order();
            self.tables.write(oldest.number, view::to_write(&rows, &order, &self.tables))?;
            self.space.set_table_bytes(self.tables.disk_bytes() + expected);
        }
        self.layers.rcu(|layers| {
            let sealed = layers.sealed.iter().filter(|layer| layer.number != oldest.number).cloned().collect();
            Layers { active: layers.active.clone(), sealed }
        });
        *retiring = Some(oldest.number);
        merger.wake();
        // Whoever still reads it gives its memory back later.
        if let Some(memtable) = Arc::into_inner(oldest)
            && !self.resting.load(Ordering::Relaxed)
        {
            *self.spare() = Some(memtable.into_spare());
        } else {
            (self.give_back)();
        }
        Ok(true)
    }

    fn merge(&self) -> Result<bool, DiskError> {
        let merged = self.tables.merge();
        self.space.set_table_bytes(self.tables.disk_bytes());
        if !matches!(merged, Ok(false)) {
            (self.give_back)();
        }
        merged
    }

    /// Runs `read` on the memory tables and tables of one moment. Rows that become a table meanwhile could be missed, or
    /// newer ones be seen: so what begins while memory tables change begins again.
    fn at_one_moment<T>(&self, mut read: impl FnMut(&Layers) -> Result<T, DiskError>) -> Result<T, DiskError> {
        loop {
            let layers = self.layers.load_full();
            let found = read(&layers)?;
            if Arc::ptr_eq(&layers, &self.layers.load()) {
                return Ok(found);
            }
        }
    }

    fn get(&self, table: Table, partition: &[u8], sort: &[u8]) -> Result<Found, DiskError> {
        self.at_one_moment(|layers| {
            for layer in layers.newest_first() {
                match layer.read().get(table, partition, sort) {
                    Known::Value(value) => return Ok(Found::Value(Some(value.into()))),
                    Known::Gone => return Ok(Found::Value(None)),
                    Known::Nothing => {}
                }
            }
            let value = self.tables.get(&flat(table, partition, sort))?;
            Ok(Found::Value(value.map(|value| value[..].into())))
        })
    }

    fn range(&self, asked: &Asked<'_>) -> Result<Found, DiskError> {
        let answer = self.at_one_moment(|layers| {
            let rows: Vec<_> = layers.newest_first().map(|layer| layer.read()).collect();
            let overlay = asked.overlay(&rows.iter().map(|rows| &**rows).collect::<Vec<_>>());
            // Nobody waits while tables are looked for.
            drop(rows);
            Ok(overlay.over(asked, &self.tables))
        })?;
        answer()
    }

    /// Hands all rows of one moment to `take`, in order of their flat keys.
    fn all<T>(
        &self,
        take: impl FnOnce(&mut dyn Iterator<Item = view::Row>) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        // What is being written is copied, so that writing goes on.
        let (active, sealed, tables) = self.at_one_moment(|layers| {
            let active = layers.active.read().clone();
            Ok((active, layers.sealed.clone(), self.tables.range(&[], &[u8::MAX])))
        })?;
        let sealed: Vec<_> = sealed.iter().map(|layer| layer.read()).collect();
        let layers: Vec<&Rows> = std::iter::once(&active).chain(sealed.iter().map(|rows| &**rows)).collect();
        let orders: Vec<Vec<u32>> = layers.iter().map(|rows| rows.order()).collect();
        let layers = layers.iter().copied().zip(orders.iter().map(Vec::as_slice));
        take(&mut view::all(layers.collect::<Vec<_>>().into_iter(), tables))
    }
}

/// Goes over the partitions of a table that stand in tables.
struct NextPartition<'a> {
    tables: &'a Tables,
    until: Vec<u8>,
    rows: Option<(Vec<u8>, Box<dyn Iterator<Item = view::Row> + 'a>)>,
}

impl<'a> NextPartition<'a> {
    fn new(tables: &'a Tables, table: Table) -> NextPartition<'a> {
        NextPartition { tables, until: vec![table as u8 + 1], rows: None }
    }

    /// The beginning of the first partition at or behind a key.
    fn from(&mut self, from: &[u8]) -> Result<Option<Vec<u8>>, DiskError> {
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
            let mut rows = self.tables.range(from, &self.until);
            let Some(first) = rows.next() else { return Ok(None) };
            self.rows = Some((first?.0.to_vec(), Box::new(rows)));
        }
        let (row, _) = self.rows.as_ref().expect("just seen");
        let begins = |(table, partition, _): (Table, &[u8], &[u8])| flat(table, partition, b"");
        key::decode(row).map(begins).map(Some).ok_or_else(|| DiskError::Corrupt("a key is none of a table".into()))
    }
}

impl Engine for LsmEngine {
    fn commit(&self, batches: &[Batch]) -> Result<(), DiskError> {
        let mut writer = self.writer();
        let bytes = batches.iter().map(Batch::bytes).sum();
        self.make_room(&mut writer, bytes)?;
        let group = writer.journal.append(batches)?;
        let applied = self.store.layers.load().active.apply(group);
        assert!(applied, "a group reads as it was written");
        writer.pace.committed(bytes, self.store.tables.first_level_runs());
        self.store.resting.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn read(&self, query: &Query) -> Result<Found, DiskError> {
        match query {
            Query::Get { table, partition, sort } => self.store.get(*table, partition, sort),
            Query::Range { table, partition, from, until, reverse, rows_max, bytes_max } => self.store.range(&Asked {
                table: *table,
                partition,
                from,
                until: until.as_deref(),
                reverse: *reverse,
                rows_max: *rows_max,
                bytes_max: *bytes_max,
            }),
        }
    }

    fn for_each_partition(
        &self,
        table: Table,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8]) -> Visit,
    ) -> Result<(), DiskError> {
        let mut from = after.map_or_else(|| vec![table as u8], |after| partition_end(table, after));
        let layers = self.store.layers.load_full();
        // Those with a row in memory, by their flat keys; what is in memory may also hide all rows of any other.
        let mut in_memory: Vec<Vec<u8>> = Vec::new();
        for layer in layers.newest_first() {
            in_memory.extend(layer.read().names(table).map(|name| flat(table, name, b"")).filter(|key| *key >= from));
        }
        in_memory.sort_unstable();
        in_memory.dedup();
        let mut in_memory = in_memory.into_iter().peekable();
        let mut in_tables = NextPartition::new(&self.store.tables, table);
        loop {
            let stored = in_tables.from(&from)?;
            while in_memory.next_if(|key| *key < from).is_some() {}
            let next = match (stored, in_memory.peek()) {
                (Some(stored), Some(memory)) => stored.min(memory.clone()),
                (Some(next), None) => next,
                (None, Some(next)) => next.clone(),
                (None, None) => return Ok(()),
            };
            let Some((_, partition, _)) = key::decode(&next) else {
                return Err(DiskError::Corrupt("a key is none of a table".into()));
            };
            let first = Asked { table, partition, from: b"", until: None, reverse: false, rows_max: 1, bytes_max: 1 };
            let found = self.store.range(&first)?;
            if matches!(found, Found::Rows { rows, .. } if !rows.is_empty()) && visit(partition).is_break() {
                return Ok(());
            }
            from = partition_end(table, partition);
        }
    }

    fn scan(&self, visit: &mut dyn FnMut(&[u8], &[u8]) -> Visit) -> Result<(), DiskError> {
        self.store.all(|rows| {
            for row in rows {
                let (key, value) = row?;
                if visit(&key, &value).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    fn rest(&self) {
        let mut writer = self.writer();
        self.store.resting.store(true, Ordering::Relaxed);
        drop(self.store.spare().take());
        writer.journal.rest();
        let layers = self.store.layers.load();
        let many = layers.active.read().size() >= self.buffer_bytes / REST_PART;
        if !many || !layers.sealed.is_empty() {
            layers.active.shrink();
        } else if let Err(error) = self.seal(&mut writer) {
            // Nothing is lost by it. If the engine is broken, the next commit says so.
            tracing::warn!(%error, "rows in memory could not be handed on");
        }
    }

    fn copy_to(&self, dir: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
        let space = MergeSpace::new(dir.to_owned(), 0);
        let copy = Tables::open(&dir.join("tree"), 1 << 20, &space)?;
        let mut count = 0;
        self.store.all(|rows| {
            let counted = rows.map(|row| {
                count += 1;
                if count % 4096 == 0 {
                    progress(count);
                }
                row.map(|(key, value)| (key, Some(value)))
            });
            copy.write(1, counted)
        })?;
        progress(count);
        Ok(count)
    }

    fn is_starved(&self) -> bool {
        self.flusher.is_starved() || self.merger.is_starved()
    }

    fn figures(&self) -> Result<Figures, DiskError> {
        let layers = self.store.layers.load();
        Ok(Figures {
            table_bytes: self.store.tables.disk_bytes(),
            journal_bytes: journal::disk_bytes(&self.store.journal)?,
            buffer_bytes: layers.newest_first().map(|layer| layer.read().size() as u64).sum(),
            cache_bytes: self.store.tables.cache_bytes(),
        })
    }

    fn compact(&self) -> Result<(), DiskError> {
        let mut writer = self.writer();
        if !self.store.layers.load().active.read().is_empty() {
            self.seal(&mut writer)?;
        }
        drop(writer);
        while !self.store.layers.load().sealed.is_empty() {
            self.look_for_failure()?;
            std::thread::sleep(PAUSE);
        }
        self.store.tables.merge_all()
    }
}

impl std::fmt::Debug for LsmEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LsmEngine").field("tables", &self.store.tables).finish_non_exhaustive()
    }
}

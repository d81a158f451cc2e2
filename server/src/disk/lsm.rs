//! The durable engine: a journal that is synced once per group, memory tables, and tables on disk
//! (log-structured).
//!
//! ```text
//! commit ──> journal: one write, one sync ──> memory table ──full──> sealed ──flush──> tables ──merge──> tables
//!            segment n                        n                      n                 segment retired
//! ```
//!
//! A memory table, its segment of the journal, and its rows in tables share one number. One memory
//! table is being filled and one is being written to a table; if both are full, commits wait. Reads
//! query the memory tables, newest first, and then the tables. They never wait for a commit, and a
//! commit waits for them only while they copy rows.
//!
//! **A full disk** is never fatal: a group without space in the journal leaves no trace and is
//! retried by the committer. A table is retried by the thread that writes it, and its rows stay in
//! memory and in the journal meanwhile.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwap;
use throng_engine::store::{Batch, Found, Query, Table, key};

use super::actors::NextActor;
use super::apart::put_apart;
use super::copy;
use super::counters::add_us;
use super::journal::{self, InTables, Journal, random};
use super::leaving::Leaving;
use super::listing::TABLES;
use super::memory::{actor_end, flat};
use super::memtable::{Memtable, Rows};
use super::merge::MergeSpace;
use super::pace::{self, Pace};
use super::shipping;
use super::space::{accepting_bytes, sync_dir};
use super::stored::{Flushing, Layers, Stored};
use super::tables::{self, Tables};
use super::view::Asked;
use super::worker::Worker;
use super::{DiskError, Engine, Figures, KeyRange, Memory, Options, Seen, StoreCounters, Tuning, Visit, all_keys};
use crate::waits::{self, Mutex, MutexGuard, Place};

/// Fraction of the buffer at which rows become a table when nothing is committed for a while.
const REST_PART: usize = 4;

/// Pause while commits wait for a table to be written.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);

/// The durable engine.
pub struct LsmEngine {
    // The threads must end first.
    flusher: Worker,
    merger: Arc<Worker>,
    leaver: Arc<Worker>,
    store: Arc<Stored>,
    /// Locked to commit; only the committer's thread does so, so it is never contended.
    writer: Mutex<Writer>,
    buffer_bytes: usize,
    /// Number of groups read back from the journal.
    replayed: u64,
}

struct Writer {
    journal: Journal,
    pace: Pace,
}

impl LsmEngine {
    /// Opens the engine in its own folder, or creates it; recovers what was acknowledged.
    ///
    /// # Errors
    /// The file system's; [`DiskError::Corrupt`] if the journal is damaged elsewhere than at its
    /// end.
    pub fn open(dir: &Path, options: &Options) -> Result<LsmEngine, DiskError> {
        std::fs::create_dir_all(dir).map_err(DiskError::at(dir))?;
        let space = MergeSpace::new(dir.to_owned(), options.free_bytes, options.min_free_bytes);
        let tables = Tables::open(&dir.join("tree"), options.cache_bytes, options.table_bytes, &space)?;
        let buffer_bytes = usize::try_from(options.buffer_bytes).unwrap_or(usize::MAX).min(BUFFER_BYTES_MAX);
        let seed = random().map_err(DiskError::at(dir))?;
        let rows = || Rows::with_capacity(buffer_bytes, seed);
        let folder = dir.join("journal");
        let (mut recovered, mut replayed) = (Vec::<Arc<Memtable>>::new(), 0);
        let in_tables = InTables { newest: tables.newest(), next_group: tables.next_group()? };
        match options.shipping {
            Some(_) => shipping::keep_all(&folder, in_tables.newest)?,
            None if folder.exists() => shipping::drop_kept(&folder).map_err(DiskError::at(&folder))?,
            None => {}
        }
        let journal = Journal::open(&folder, in_tables, random, &mut |segment| {
            let memtable = Memtable::new(segment.number, segment.first(), rows());
            if !segment.groups().all(|group| memtable.apply(group)) {
                return Err(DiskError::Corrupt(format!(
                    "segment {} of the journal holds no operations",
                    segment.number
                )));
            }
            replayed += segment.groups().count() as u64;
            recovered.insert(0, Arc::new(memtable));
            Ok(())
        })?;
        if let Some(shipping) = &options.shipping {
            shipping.set_synced(journal.next());
        }
        // The names of both folders, without which their content is not found.
        sync_dir(dir)?;
        // The newest segment is continued, unless nothing of it could be read.
        let active = match recovered.first().is_some_and(|newest| newest.number == journal.number()) {
            true => recovered.remove(0),
            false => Arc::new(Memtable::new(journal.number(), journal.first(), rows())),
        };
        let store = Arc::new(Stored {
            layers: ArcSwap::from_pointee(Layers { active, sealed: recovered }),
            tables,
            space,
            free_bytes: options.free_bytes,
            journal: folder,
            spare: Mutex::new(Place::LockSpare, None),
            resting: AtomicBool::new(false),
            calm: AtomicBool::new(false),
            wide: AtomicBool::new(false),
            bytes_s: AtomicU64::new(u64::MAX),
            wide_bytes: wide_bytes(options),
            shipping: options.shipping.clone(),
            give_back: options.give_back,
            seen: Seen::default(),
        });
        store.seen.counters.damaged.set(store.tables.damages().count());
        let (own, mut leaving) = (store.clone(), Leaving::new(dir.join("tree").join(TABLES)));
        let leave = move || {
            let (list, tables) = own.tables.named();
            Ok(leaving.step(list, tables, |bytes| own.space.has_room(bytes)))
        };
        let leaver = Arc::new(Worker::start("throng-free", true, leave)?);
        let (own, wakes) = (store.clone(), leaver.clone());
        let merge = move || {
            // First for tables that have been written and can be merged at once; later for removed
            // ones.
            wakes.wake();
            let merged = own.merge();
            wakes.wake();
            merged
        };
        let merger = Arc::new(Worker::start("throng-merge", true, merge)?);
        let (own, wakes) = (store.clone(), merger.clone());
        let mut flushing = Flushing::default();
        // Logins after a restart need the filters at once, and the merger, which builds them too,
        // stands back.
        let flush = move || Ok(own.flush(&mut flushing, &wakes)? || own.tables.complete_filters());
        let flusher = Worker::start("throng-flush", false, flush)?;
        leaver.wake();
        merger.wake();
        flusher.wake();
        let writer = Mutex::new(Place::LockLsm, Writer { journal, pace: Pace::start() });
        Ok(LsmEngine { flusher, merger, leaver, store, writer, buffer_bytes, replayed })
    }

    /// Number of commits read back from the journal at opening: those whose rows were in no table
    /// yet.
    pub(super) fn replayed(&self) -> u64 {
        self.replayed
    }

    fn find(&self, query: &Query) -> Result<Found, DiskError> {
        match query {
            Query::Get { table, actor, sort } => self.store.get(*table, actor, sort),
            Query::Range { table, actor, from, until, reverse, rows_max, bytes_max } => self.store.range(&Asked {
                table: *table,
                actor,
                from,
                until: until.as_deref(),
                reverse: *reverse,
                rows_max: *rows_max,
                bytes_max: *bytes_max,
            }),
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }

    /// Waits while rows arrive faster than they are written to tables and merged, and makes room
    /// for a group. This bounds the memory, and what an opening must replay.
    fn make_room(&self, writer: &mut Writer, bytes: usize) -> Result<(), DiskError> {
        let pause = writer.pace.due();
        if !pause.is_zero() {
            let _at = waits::at(Place::MergePace);
            std::thread::sleep(pause);
            add_us(&self.store.seen.counters.stalled_us, pause);
        }
        loop {
            self.look_for_failure()?;
            let layers = self.store.layers.load();
            let size = layers.active.read().size();
            let full = size > 0 && size + bytes > self.buffer_bytes;
            if !full {
                return Ok(());
            }
            // A merge that lacks space waits until some is freed. Until then new messages are
            // refused, and other commits end up in unmerged tables.
            let runs = self.store.tables.first_level_runs();
            let damaged = self.store.tables.damages().pending() > 0;
            if damaged && runs >= RUNS_MAX {
                return Err(DiskError::OutOfSpace(
                    "compaction is paused because damaged tables could not be quarantined, and \
                     there are too many tables"
                        .into(),
                ));
            }
            let merged = runs < self.store.limits().most || self.merger.is_starved() || damaged;
            if layers.sealed.is_empty() && merged {
                return self.seal(writer);
            }
            if self.flusher.is_starved() {
                return Err(DiskError::OutOfSpace("rows wait for space to become tables".into()));
            }
            let _at = waits::at(Place::TableRoom);
            std::thread::sleep(PAUSE);
            add_us(&self.store.seen.counters.stalled_us, PAUSE);
        }
    }

    fn look_for_failure(&self) -> Result<(), DiskError> {
        self.flusher.failure().or_else(|| self.merger.failure()).map_or(Ok(()), Err)
    }

    /// Seals the rows in memory, to become a table.
    fn seal(&self, writer: &mut Writer) -> Result<(), DiskError> {
        writer.journal.rotate()?;
        let spare = self.store.spare().take();
        let rows = spare.unwrap_or_else(|| self.store.layers.load().active.read().sibling(self.buffer_bytes));
        let active = Arc::new(Memtable::new(writer.journal.number(), writer.journal.first(), rows));
        self.store.layers.rcu(|layers| {
            let sealed = layers.newest_first().cloned().collect();
            Layers { active: active.clone(), sealed }
        });
        self.flusher.wake();
        Ok(())
    }
}

/// Runs of the first level at which merges no longer yield to other threads: twice the number at
/// which one begins.
const HURRY_RUNS: usize = 48;

/// Runs of the first level at which no more tables are written while damage prevents merging: the
/// list of tables has room for 255.
const RUNS_MAX: usize = 200;

/// Free space at which the first level may become long: a merge of all of it fits beside the
/// accepting limit.
fn wide_bytes(options: &Options) -> u64 {
    let tables = pace::WIDE.most as u64 * (options.buffer_bytes + options.buffer_bytes / 4);
    accepting_bytes(options.min_free_bytes) + tables + tables::second_level_bytes_max(options.table_bytes)
}

/// Maximum size of a memory table, apart from one more group: offsets in it have 32 bits.
const BUFFER_BYTES_MAX: usize = 1 << 30;

impl Drop for LsmEngine {
    fn drop(&mut self) {
        self.store.space.close();
    }
}

impl Engine for LsmEngine {
    fn commit(&self, batches: &[Batch]) -> Result<(), DiskError> {
        let mut writer = self.writer();
        let bytes = batches.iter().map(Batch::bytes).sum();
        self.make_room(&mut writer, bytes)?;
        let began = Instant::now();
        writer.journal.append(batches)?;
        if let Some(shipping) = &self.store.shipping {
            shipping.set_synced(writer.journal.next());
        }
        let group = writer.journal.last();
        let counters = &self.store.seen.counters;
        counters.syncs.one();
        add_us(&counters.sync_us, began.elapsed());
        counters.journal_bytes.add(group.len() as u64);
        let applied = self.store.layers.load().active.apply(group);
        assert!(applied, "a group reads as it was written");
        let (tables, seen) = (&self.store.tables, &self.store.seen.counters);
        // Waiting is pointless if no merge will come.
        let runs = if tables.damages().pending() > 0 { 0 } else { tables.first_level_runs() };
        let bytes_s = pace::bytes_s(runs, self.store.limits());
        writer.pace.committed(bytes, bytes_s);
        self.store.bytes_s.store(bytes_s.map_or(u64::MAX, |bytes_s| bytes_s as u64), Ordering::Relaxed);
        self.store.space.hurry(runs >= HURRY_RUNS);
        seen.damaged.set(tables.damages().count());
        self.store.resting.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn read(&self, query: &Query) -> Result<Found, DiskError> {
        let tables = &self.store.tables;
        let asked = tables.opened();
        let found = self.find(query);
        let Err(DiskError::Unreadable(_)) = &found else { return found };
        if tables.damages().take_fresh() {
            self.merger.wake();
        }
        let replaced = !Arc::ptr_eq(&asked, &tables.opened());
        drop(asked);
        // A table may have been replaced during this read when it was quarantined.
        if replaced { self.find(query) } else { found }
    }

    fn for_each_actor(
        &self,
        table: Table,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8]) -> Visit,
    ) -> Result<(), DiskError> {
        let mut from = after.map_or_else(|| vec![table as u8], |after| actor_end(table, after));
        let layers = self.store.layers.load_full();
        // Actors with a row in memory, by their flat keys; memory may also hide all rows of any
        // other.
        let mut in_memory: Vec<Vec<u8>> = Vec::new();
        for layer in layers.newest_first() {
            in_memory.extend(layer.read().names(table).map(|name| flat(table, name, b"")).filter(|key| *key >= from));
        }
        in_memory.sort_unstable();
        in_memory.dedup();
        let mut in_memory = in_memory.into_iter().peekable();
        let begin = from.clone();
        let none_lost = |until: &[u8]| self.store.tables.none_lost(&begin, until);
        let mut in_tables = NextActor::new(&self.store.tables, table);
        loop {
            let stored = in_tables.from(&from)?;
            while in_memory.next_if(|key| *key < from).is_some() {}
            let next = match (stored, in_memory.peek()) {
                (Some(stored), Some(memory)) => stored.min(memory.clone()),
                (Some(next), None) => next,
                (None, Some(next)) => next.clone(),
                (None, None) => return none_lost(&[table as u8 + 1]),
            };
            let Some((_, actor, _)) = key::decode(&next) else {
                return Err(DiskError::Corrupt("a key is none of a table".into()));
            };
            let first = Asked { table, actor, from: b"", until: None, reverse: false, rows_max: 1, bytes_max: 1 };
            let found = match self.store.range(&first) {
                Ok(found) => matches!(found, Found::Rows { rows, .. } if !rows.is_empty()),
                // Some of its rows exist.
                Err(DiskError::Unreadable(_)) => true,
                Err(error) => return Err(error),
            };
            from = actor_end(table, actor);
            if found && visit(actor).is_break() {
                return none_lost(&from);
            }
        }
    }

    fn scan_within(&self, ranges: &[KeyRange], visit: &mut dyn FnMut(&[u8], &[u8]) -> Visit) -> Result<(), DiskError> {
        self.store.within(ranges, |rows| {
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
        if many
            && layers.sealed.is_empty()
            && let Err(error) = self.seal(&mut writer)
        {
            // Nothing is lost. If the engine is broken, the next commit reports it.
            tracing::warn!(%error, "rows in memory could not be handed over");
        }
        // Also the one just begun: it has room for a whole buffer.
        self.store.layers.load().active.shrink();
        self.store.calm.store(true, Ordering::Relaxed);
        self.merger.wake();
        self.leaver.wake();
    }

    fn copy_to(&self, dir: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
        self.store.within(&[all_keys()], |rows| copy::write_store(dir, rows, progress))
    }

    fn bytes_s(&self) -> Option<u64> {
        Some(self.store.bytes_s.load(Ordering::Relaxed)).filter(|bytes_s| *bytes_s < u64::MAX)
    }

    fn is_starved(&self) -> bool {
        self.flusher.is_starved() || self.merger.is_starved()
    }

    fn wanted_free_bytes(&self) -> u64 {
        self.store.space.wanted_bytes()
    }

    fn counters(&self) -> &Seen<StoreCounters> {
        &self.store.seen
    }

    fn damage(&self) -> Vec<String> {
        self.store.tables.damages().named()
    }

    fn memory(&self) -> Memory {
        let layers = self.store.layers.load();
        let spare = self.store.spare().as_ref().map_or(0, Rows::kept_bytes);
        let memtables = layers.newest_first().map(|layer| layer.read().size()).sum::<usize>() + spare;
        let (blocks, filters) = (self.store.tables.cache_bytes(), self.store.tables.filter_bytes());
        Memory { memtables: memtables as u64, blocks, filters }
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

    fn tune(&self, tuning: &Tuning) {
        self.store.space.tune(tuning.min_free_bytes, tuning.merges);
        self.merger.wake();
    }

    fn compact(&self) -> Result<(), DiskError> {
        let mut writer = self.writer();
        if !self.store.layers.load().active.read().is_empty() {
            self.seal(&mut writer)?;
        }
        drop(writer);
        while !self.store.layers.load().sealed.is_empty() {
            self.look_for_failure()?;
            let _at = waits::at(Place::TableRoom);
            std::thread::sleep(PAUSE);
        }
        let tables = &self.store.tables;
        loop {
            // Not held: the thread that quarantines tables waits for holders.
            let tried = Arc::downgrade(&tables.opened());
            let Err(error) = tables.merge_all() else { return Ok(()) };
            // The damage that it failed on is quarantined, by this thread or the merging one, and
            // everything else is merged.
            if tables.look_for_damage() {
                put_apart(tables)?;
            }
            if tried.as_ptr() == Arc::as_ptr(&tables.opened()) {
                return Err(error);
            }
        }
    }
}

impl std::fmt::Debug for LsmEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LsmEngine").field("tables", &self.store.tables).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::space::FreeBytes;
    use crate::disk::testing::{get, put, small, wait_until};

    /// A read of many rows looks into each run of the first level, so idle time is used to merge
    /// them.
    #[test]
    fn tables_are_merged_early_when_nothing_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = LsmEngine::open(folder.path(), &small()).expect("it opens");
        let runs = || engine.store.tables.first_level_runs();
        // Not while the operator has paused merges, unless there are so many runs that commits
        // would slow down.
        let tuning = |merges| Tuning { group_bytes_max: 4 << 20, min_free_bytes: 0, merges };
        engine.tune(&tuning(false));
        // Names in random order: tables with adjacent rows would be one run.
        let names = (0..4000_u32).map(|n| format!("user{:08x}", n.wrapping_mul(0x9e37_79b9)));
        for name in names.take_while(|_| runs() < 8) {
            engine.commit(&[put(Table::Accounts, &name, b"", &[7; 1000])]).expect("there is room");
        }
        engine.rest();
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(runs() >= 8, "{} runs", runs());
        engine.tune(&tuning(true));
        wait_until("tables are merged", || runs() < 4);
        assert_eq!(get(&engine, Table::Accounts, "user00000000", b""), Some(vec![7; 1000]));
    }

    /// An idle store holds no empty row buffers, whether it has few rows in memory or seals many.
    #[test]
    fn at_rest_no_room_is_kept_for_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = LsmEngine::open(folder.path(), &small()).expect("it opens");
        let room = || engine.store.layers.load().active.read().kept_bytes();
        assert!(room() >= engine.buffer_bytes);
        for rows in [1, engine.buffer_bytes / REST_PART / 1000 + 1] {
            for n in 0..rows {
                engine.commit(&[put(Table::Accounts, &format!("user{n}"), b"", &[7; 1000])]).expect("there is room");
            }
            engine.rest();
            wait_until("sealed tables are written", || engine.store.layers.load().sealed.is_empty());
            assert!(room() < 4000, "{} bytes of {} after {rows} rows", room(), engine.buffer_bytes);
            assert_eq!(get(&engine, Table::Accounts, "user0", b""), Some(vec![7; 1000]));
        }
    }

    /// A long first level takes a large merge: only where there is space for it.
    #[test]
    fn the_first_level_becomes_long_only_with_the_space_to_merge_it() {
        let few: FreeBytes = |_| Ok(8 << 20);
        let many: FreeBytes = |_| Ok(1 << 40);
        for (free_bytes, limits) in [(few, pace::NARROW), (many, pace::WIDE)] {
            let folder = tempfile::tempdir().expect("a folder");
            let engine = LsmEngine::open(folder.path(), &Options { free_bytes, ..small() }).expect("it opens");
            assert_eq!(engine.store.limits(), pace::NARROW);
            let flushed = || engine.counters().counters.flushes.get() > 0;
            for name in (0..).map(|n| format!("user{n}")).take_while(|_| !flushed()) {
                engine.commit(&[put(Table::Accounts, &name, b"", &[7; 1000])]).expect("there is room");
            }
            assert_eq!(engine.store.limits(), limits);
        }
    }
}

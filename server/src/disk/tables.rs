//! The tables on disk: `lsm_tree` with its own memory table unused. Sorted rows are written, read
//! and merged.
//!
//! Each row carries the number of its memory table as its sequence number; of rows with one key the
//! highest is the newest. So the highest number in tables determines which segments of the journal
//! are still needed, and there are no snapshots: an iterator keeps the tables that it began with,
//! and merges need not preserve old versions. Reads of one actor skip the tables of the first level
//! that have no row of it (`filters`).

use std::collections::BTreeSet;
use std::io;
use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use lsm_tree::compaction::Leveled;
use lsm_tree::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, PartitioningPolicy,
    PinningPolicy, RestartIntervalPolicy,
};
use lsm_tree::merge::Merger;
use lsm_tree::mvcc_stream::MvccStream;
use lsm_tree::table::filter::standard_bloom::Builder;
use lsm_tree::{
    AbstractTree, AnyTree, BoxedIterator, Cache, CompressionType, Config, DescriptorTable, Guard, InternalValue, SeqNo,
    Slice, Table, TableId, ValueType,
};
use smallvec::SmallVec;

use super::DiskError;
use super::arriving::Arriving;
use super::damage::Damages;
use super::filters::{Actors, Filters};
use super::leftovers::Leftovers;
use super::lost::{LOST_END, LOST_PREFIX, Lost, LostRanges, OWN};
use super::mend::{BLOCK_BYTES, FILTER_BITS, RESTART_ROWS, apart_folder, has_put_apart, mend};
use super::merge::{MergeFilters, MergeSpace};
use super::worker::give_way;
use crate::waits::{self, Mutex, MutexGuard, Place, RwLock};

/// All rows are visible, and no older version is preserved.
const ALL: SeqNo = SeqNo::MAX;

/// Fractions of a table's usual size that merges try in turn when space is scarce. The second level
/// may have this size times the number of tables in the first; a larger one is left alone, and a
/// new level is created before it. So the output of a merge shrinks with the size, and tables are
/// rewritten once or twice more on their way down.
const TABLE_PARTS: [u64; 4] = [1, 2, 4, 8];

/// Approximate number of tables that a merge between lower levels may write: the few that one
/// overlaps.
const DEEPER_TABLES: u64 = 4;

/// Maximum number of descriptors kept open for reading tables.
pub const FILES_MAX: usize = 256;

/// Number of tables in the first level at which they are merged: each merge rewrites everything
/// that overlaps in the next level.
const FIRST_LEVEL_MERGE: u8 = 24;

/// The same under low load: a read of many rows looks into each table of the first level.
const FIRST_LEVEL_CALM: u8 = 4;

/// Maximum size of the second level, as a multiple of the first, for early merging to be cheap.
/// With 4 tables of 8 MB and 1.5 GB below them, each incoming byte would be written some fifty
/// times.
const CALM_TIMES: u64 = 8;

/// Approximate maximum size of the second level when the first is finally merged, bytes.
pub(super) fn second_level_bytes_max(table_bytes: u64) -> u64 {
    table_bytes * u64::from(FIRST_LEVEL_MERGE) * 3 / 2
}

/// Pause between checks for readers of a replaced list.
const PAUSE: Duration = Duration::from_millis(1);

/// Key of the row with the journal's next group: number of the memory table that it was written
/// with, and the group's sequence number, u64 each. It is registered atomically with that memory
/// table's rows. It follows the keys of all tables, where no query looks.
pub(super) const NEXT_GROUP_KEY: &[u8] = &[OWN, b'j'];

/// The next group in the row of [`NEXT_GROUP_KEY`], if it belongs to the memory table `newest`.
pub(super) fn next_group_of(value: &[u8], newest: u64) -> Option<u64> {
    let number = |at: usize| Some(u64::from_le_bytes(value.get(at..at + 8)?.try_into().ok()?));
    number(8).filter(|_| number(0) == Some(newest))
}

/// The tables that a list names, and the key ranges with lost rows. Replaced as a whole when a
/// table is quarantined.
pub(super) struct Opened {
    pub(super) tree: AnyTree,
    pub(super) lost: LostRanges,
}

/// The tables of one store.
pub(super) struct Tables {
    opened: ArcSwap<Opened>,
    /// The folder of the list of tables and their files.
    pub(super) dir: PathBuf,
    cache: Arc<Cache>,
    descriptors: Arc<DescriptorTable>,
    /// Approximate bytes of a table that a merge writes.
    table_bytes: u64,
    pub(super) space: Arc<MergeSpace>,
    filters: Filters,
    damages: Arc<Damages>,
    /// Number of runs of the first level. Each commit reads it, and must not wait for the list's
    /// own lock, which is held while a merge's tables and the list itself are synced.
    runs: AtomicUsize,
    /// Locked for reading while tables are written.
    pub(super) writing: RwLock<()>,
    /// Locked for reading during full scans, which may take long.
    pub(super) scanning: RwLock<()>,
    /// Locked while tables are quarantined.
    pub(super) putting_apart: Mutex<()>,
    /// Numbers given to tables during a failed write.
    litter: Mutex<Vec<Range<TableId>>>,
    /// Whether the list on disk differs from the one in memory: then nothing may be written any
    /// more.
    torn: AtomicBool,
}

/// A row in tables: flat key and value.
pub(super) type TableRow = (Slice, Slice);

impl Tables {
    /// Opens the tables in their own folder, or creates it. Merges respect `space`. A table that
    /// cannot be opened is rewritten if none of its rows is lost.
    ///
    /// # Errors
    /// The file system's; [`DiskError::Corrupt`].
    pub(super) fn open(
        dir: &Path,
        cache_bytes: u64,
        table_bytes: u64,
        space: &Arc<MergeSpace>,
    ) -> Result<Tables, DiskError> {
        mend(dir)?;
        let leftovers = Leftovers::find(dir)?;
        let cache = Arc::new(Cache::with_capacity_bytes(cache_bytes));
        let descriptors = Arc::new(DescriptorTable::new(FILES_MAX));
        let tree = open_tree(dir, &cache, &descriptors, space)?;
        leftovers.remember(tree.current_version().id(), tree.next_table_id())?;
        let lost = lost_ranges(&tree, dir)?;
        let damages = Arc::new(Damages::none());
        damages.name_apart(&apart_folder(dir), lost.all());
        let runs = AtomicUsize::new(tree.l0_run_count());
        Ok(Tables {
            opened: ArcSwap::from_pointee(Opened { tree, lost }),
            dir: dir.to_owned(),
            cache,
            descriptors,
            table_bytes,
            space: space.clone(),
            filters: Filters::default(),
            damages,
            runs,
            writing: RwLock::new(Place::LockTables, ()),
            scanning: RwLock::new(Place::LockTables, ()),
            putting_apart: Mutex::new(Place::LockTables, ()),
            litter: Mutex::new(Place::LockTables, Vec::new()),
            torn: AtomicBool::new(false),
        })
    }

    /// The present tables. While a caller holds them, tables of a newer list are not merged.
    pub(super) fn opened(&self) -> Arc<Opened> {
        self.opened.load_full()
    }

    /// Replaces the list on disk and continues with it, and with these lost ranges. Returns when no
    /// reader uses the previous list. No tables may be written meanwhile.
    ///
    /// # Errors
    /// The file system's: either nothing has changed, or the list on disk no longer matches memory,
    /// and nothing may be written then.
    pub(super) fn replace_list(
        &self,
        replace: impl FnOnce() -> Result<(), DiskError>,
        lost: LostRanges,
    ) -> Result<(), DiskError> {
        let opened = replace().and_then(|()| open_tree(&self.dir, &self.cache, &self.descriptors, &self.space));
        let tree = opened.inspect_err(|_| self.torn.store(self.list_is_torn(), Ordering::Release))?;
        self.damages.name_apart(&apart_folder(&self.dir), lost.all());
        let before = self.opened.swap(Arc::new(Opened { tree, lost }));
        drop(self.count_runs());
        // A merge removes files that it has read, which readers of the previous list would not
        // find.
        while Arc::strong_count(&before) > 1 && !self.space.is_closing() {
            let _at = waits::at(Place::LockTables);
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// The highest number of a memory table in tables; zero if there is none. Memory tables are
    /// written in order.
    pub(super) fn newest(&self) -> u64 {
        self.opened().tree.get_highest_persisted_seqno().unwrap_or(0)
    }

    /// The value of a flat key.
    ///
    /// # Errors
    /// [`DiskError::Unreadable`] if its newest version may be in a damaged part.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Slice>, DiskError> {
        let opened = self.opened();
        let version = opened.tree.current_version();
        let hash = Builder::get_hash(key);
        // No filter is locked while a table is read.
        let tables: SmallVec<[&Table; 8]> = {
            let may_hold = self.filters.looker(key);
            let runs = version.iter_levels().enumerate().flat_map(|(n, level)| level.iter().map(move |run| (n, run)));
            let tables = runs.filter_map(|(level, run)| Some((level, run.get_for_key(key)?)));
            tables.filter(|(level, table)| *level > 0 || may_hold(table.id())).map(|(_, table)| table).collect()
        };
        for table in tables {
            let found = table.get(key, ALL, hash).or_else(|error| {
                self.damages.note(&table.path, &error);
                // The table's own filter may be damaged: the row is looked up without it.
                let only = Slice::from(key);
                table.range(only.clone()..=only).next().transpose()
            });
            match found {
                Ok(None) => {}
                Ok(Some(row)) => {
                    opened.lost.vouch(key, Some(row.key.seqno))?;
                    return Ok((!row.key.value_type.is_tombstone()).then_some(row.value));
                }
                Err(error) => return Err(DiskError::Unreadable(error.to_string())),
            }
        }
        opened.lost.vouch(key, None)?;
        Ok(None)
    }

    /// The present rows of `from..until`, in the order of their flat keys.
    pub(super) fn range(
        &self,
        from: &[u8],
        until: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<TableRow, DiskError>> + use<> {
        let opened = self.opened();
        let rows = self.newest_of(&opened, from, until, &|_, _| true);
        opened.lost.past(from, until, rows)
    }

    /// The same within the actor whose keys all begin with `prefix`. Tables of the first level
    /// without rows of it are skipped.
    pub(super) fn actor_range(
        &self,
        prefix: &[u8],
        from: &[u8],
        until: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<TableRow, DiskError>> + use<> {
        let may_hold = self.filters.looker(prefix);
        let opened = self.opened();
        let rows = self.newest_of(&opened, from, until, &|level, table| level > 0 || may_hold(table));
        opened.lost.past(from, until, rows)
    }

    /// The present rows of `from..until`, whatever is lost between them.
    pub(super) fn whole_range(
        &self,
        from: &[u8],
        until: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<TableRow, DiskError>> + use<> {
        self.newest_of(&self.opened(), from, until, &|_, _| true)
    }

    /// Checks that no row of `from..until` is lost.
    ///
    /// # Errors
    /// [`DiskError::Unreadable`] if there may be such a row.
    pub(super) fn none_lost(&self, from: &[u8], until: &[u8]) -> Result<(), DiskError> {
        self.opened().lost.none_within(from, until)
    }

    /// The newest rows of the tables selected by `asked`, by level and number, whatever is lost
    /// between them.
    fn newest_of(
        &self,
        opened: &Arc<Opened>,
        from: &[u8],
        until: &[u8],
        asked: &dyn Fn(usize, TableId) -> bool,
    ) -> impl DoubleEndedIterator<Item = Result<TableRow, DiskError>> + use<> {
        let tables = overlapping(opened, from, until, asked);
        let opened = opened.clone();
        let bounds = (Bound::Included(Slice::from(from)), Bound::Excluded(Slice::from(until)));
        let sources = tables.into_iter().map(|table| -> BoxedIterator<'static> {
            let (rows, damages) = (table.range(bounds.clone()), self.damages.clone());
            // A table's file exists as long as the table is referenced.
            Box::new(rows.inspect(move |row| {
                if let Err(error) = row {
                    damages.note(&table.path, error);
                }
            }))
        });
        let newest = MvccStream::new(Merger::new(sources.collect::<Vec<_>>()));
        let rows = newest.filter(|row| row.as_ref().map_or(true, |row| !row.key.value_type.is_tombstone()));
        rows.map(move |row| {
            let _held = &opened;
            row.map(|row| (row.key.user_key, row.value)).map_err(|error| DiskError::Unreadable(error.to_string()))
        })
    }

    /// Whether the list on disk differs from the one in memory: then nothing may be written any
    /// more.
    pub(super) fn is_torn(&self) -> bool {
        self.torn.load(Ordering::Acquire)
    }

    /// Keys of the rows of a range that are to be removed. Once losses or damage are known, this
    /// continues past them. Lost parts of the range stay lost.
    pub(super) fn doomed(&self, from: &[u8], until: &[u8]) -> Box<dyn Iterator<Item = Result<Slice, DiskError>>> {
        if self.damages.pending() == 0 {
            return Box::new(self.whole_range(from, until).map(|row| Ok(row?.0)));
        }
        let bounds = (Bound::Included(Slice::from(from)), Bound::Excluded(Slice::from(until)));
        let tables = overlapping(&self.opened(), from, until, &|_, _| true);
        let keys = tables.iter().flat_map(|table| table.range(bounds.clone()).filter_map(Result::ok));
        let keys: BTreeSet<Slice> = keys.map(|row| row.key.user_key).collect();
        Box::new(keys.into_iter().map(Ok))
    }

    /// Damage found since the opening.
    pub(super) fn damages(&self) -> &Damages {
        &self.damages
    }

    /// After a failed merge: reads all tables and records damaged ones; returns whether there are
    /// any.
    pub(super) fn look_for_damage(&self) -> bool {
        let opened = self.opened();
        let version = opened.tree.current_version();
        for table in version.iter_tables() {
            let mut count = 0;
            let read = table.scan().and_then(|mut rows| {
                rows.try_for_each(|row| {
                    give_way(&mut count);
                    row.map(drop)
                })
            });
            if let Err(error) = read {
                self.damages.note(&table.path, &error);
            }
        }
        self.damages.pending() > 0
    }

    /// Sequence number of the first group of the journal whose rows are not in tables. `None` if
    /// the newest tables were written by a program that did not record it, or if it cannot be read:
    /// damage is reported where its rows are needed.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn next_group(&self) -> Result<Option<u64>, DiskError> {
        let found = match self.get(NEXT_GROUP_KEY) {
            Err(DiskError::Unreadable(what)) => {
                tracing::warn!(what, "the journal may be incomplete");
                return Ok(None);
            }
            found => found?,
        };
        Ok(found.and_then(|value| next_group_of(&value, self.newest())))
    }

    /// Writes rows, in the order of their flat keys and without a value if removed, as those of the
    /// memory table `number`, after which the journal continues with `next_group`. They are durable
    /// and visible on return.
    ///
    /// # Errors
    /// [`DiskError::OutOfSpace`] if there was no space: nothing was changed. Otherwise the file
    /// system's.
    pub(super) fn write<K: Into<Slice>, V: Into<Slice>>(
        &self,
        number: u64,
        next_group: u64,
        rows: impl Iterator<Item = Result<(K, Option<V>), DiskError>>,
    ) -> Result<(), DiskError> {
        self.writing(|tree| {
            let (mut count, mut actors) = (0, Actors::default());
            let mut arriving = Arriving::begin(self.dir.clone());
            let rows = rows.map(|row| {
                give_way(&mut count);
                let row = match row {
                    Ok((key, Some(value))) => InternalValue::from_components(key, value, number, ValueType::Value),
                    Ok((key, None)) => InternalValue::new_tombstone(key, number),
                    Err(error) => return Err(lsm_tree::Error::Io(io::Error::other(error))),
                };
                arriving.wrote(row.key.user_key.len() + row.value.len());
                actors.add(&row.key.user_key);
                Ok(row)
            });
            let value = [number.to_le_bytes(), next_group.to_le_bytes()].concat();
            let next = InternalValue::from_components(NEXT_GROUP_KEY, value, number, ValueType::Value);
            let rows = rows.chain([Ok(next)]);
            let tables = tree.flush_to_tables(rows)?.map_or(Vec::new(), |(tables, _)| tables);
            if !tables.is_empty() {
                self.filters.set(tables.iter().map(|table| table.id()), Some(&actors));
                tree.register_tables(&tables, None, None, &[], ALL)?;
            }
            Ok(())
        })
    }

    /// Builds the filter of one table of the first level that lacks it, and drops filters that are
    /// no longer needed; `false` if there was no such table.
    pub(super) fn complete_filters(&self) -> bool {
        let opened = self.opened();
        let version = opened.tree.current_version();
        let first_level = || version.l0().iter().flat_map(|run| run.iter());
        let Some(table) = first_level().find(|table| !self.filters.has(table.id())) else {
            let kept: Vec<TableId> = first_level().map(|table| table.id()).collect();
            // A table that has been written and is not listed yet is newer than all of them.
            let newest = version.iter_tables().map(|table| table.id()).max();
            self.filters.keep(|table| kept.contains(&table) || Some(table) > newest);
            return false;
        };
        let (mut count, mut actors) = (0, Actors::default());
        let read = table.scan().and_then(|mut rows| {
            rows.try_for_each(|row| {
                give_way(&mut count);
                row.map(|row| actors.add(&row.key.user_key))
            })
        });
        // Damage in it is reported where its rows are needed.
        self.filters.set([table.id()], read.is_ok().then_some(&actors));
        true
    }

    /// Merges tables if there are enough of them; fewer suffice in `calm` times. `false` if there
    /// were not.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub(super) fn merge(&self, calm: bool) -> Result<bool, DiskError> {
        // Damaged tables must be neither rewritten nor dropped, and a merge of others could
        // resurrect what they hide.
        if self.damages.pending() > 0 {
            return Ok(false);
        }
        let enough = if calm { FIRST_LEVEL_CALM } else { FIRST_LEVEL_MERGE };
        let version = self.opened().tree.current_version();
        let [first, second] = self.first_levels_bytes();
        // All of the first level, and the maximum size of the next when the first has so many
        // tables that commits stop.
        let most = |table_bytes: u64| {
            let deeper = (first + second).min(DEEPER_TABLES * self.table_bytes);
            (first + second.min(table_bytes * u64::from(enough) * 3 / 2)).max(deeper)
        };
        let many = version.l0().table_count() >= usize::from(enough);
        let mut sizes =
            TABLE_PARTS.iter().map(|part| self.table_bytes / part).take(if many { TABLE_PARTS.len() } else { 1 });
        let fitting = sizes.find(|table_bytes| self.space.has_room(most(*table_bytes)));
        if fitting.is_none() && !many {
            // Merges below the first level can wait.
            return Ok(false);
        }
        let table_bytes = fitting.unwrap_or(self.table_bytes / TABLE_PARTS[TABLE_PARTS.len() - 1]);
        self.space.room(most(table_bytes))?;
        let strategy = Leveled::default().with_table_target_size(table_bytes).with_l0_threshold(enough);
        let before = version.id();
        if let Err(error) = self.writing(|tree| Ok(tree.compact(Arc::new(strategy), ALL)?)) {
            let torn = self.is_torn();
            // This is also the result of a merge that was aborted because the store is being
            // closed.
            let given_up =
                matches!(&error, DiskError::Io { source, .. } if source.kind() == io::ErrorKind::Interrupted);
            // The damage that it failed on is quarantined before it is retried.
            return if torn || given_up || error.is_out_of_space() || !self.look_for_damage() {
                Err(error)
            } else {
                Ok(true)
            };
        }
        Ok(self.opened().tree.current_version().id() != before)
    }

    /// Merges all tables into one run.
    ///
    /// # Errors
    /// As [`Tables::write`].
    pub(super) fn merge_all(&self) -> Result<(), DiskError> {
        self.space.room(self.disk_bytes())?;
        self.writing(|tree| Ok(tree.major_compact(self.table_bytes, ALL)?))
    }

    /// The number of the list of tables, and what it names, the first level first.
    pub(super) fn named(&self) -> (u64, impl FnOnce() -> Vec<TableId> + use<>) {
        let version = self.opened().tree.current_version();
        let list = version.id();
        let tables = move || {
            let runs = version.iter_levels().flat_map(|level| level.iter());
            runs.flat_map(|run| run.iter()).map(|table| table.id()).collect()
        };
        (list, tables)
    }

    /// Number of runs of tables that may overlap: each read may have to look into each.
    pub(super) fn first_level_runs(&self) -> usize {
        self.runs.load(Ordering::Acquire)
    }

    /// Recounts the runs after a change of the list. The lock ensures that the last change is
    /// counted last.
    fn count_runs(&self) -> MutexGuard<'_, Vec<Range<TableId>>> {
        let litter = self.litter.lock();
        self.runs.store(self.opened().tree.l0_run_count(), Ordering::Release);
        litter
    }

    /// Whether a merge of the first level rewrites little besides it.
    pub(super) fn is_first_level_cheap(&self) -> bool {
        let [first, second] = self.first_levels_bytes();
        second <= CALM_TIMES * first
    }

    /// Bytes of the first level, and of the first non-empty one below it.
    fn first_levels_bytes(&self) -> [u64; 2] {
        let version = self.opened().tree.current_version();
        let mut sizes = version.iter_levels().map(|level| -> u64 {
            level.iter().flat_map(|run| run.iter()).map(|table| table.metadata.file_size).sum()
        });
        [sizes.next().unwrap_or(0), sizes.find(|bytes| *bytes > 0).unwrap_or(0)]
    }

    /// Bytes of all tables.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.opened().tree.disk_space()
    }

    /// Bytes of cached blocks.
    pub(super) fn cache_bytes(&self) -> u64 {
        self.cache.size()
    }

    /// Bytes of the filters of tables of the first level.
    pub(super) fn filter_bytes(&self) -> u64 {
        self.filters.bytes()
    }

    /// Runs code that writes tables. Files it leaves half written are removed, then or by the next
    /// call, once there are no writers.
    ///
    /// The exception: if the list of tables had already been replaced on disk when it failed. That
    /// list names new tables, and perhaps no longer those that they were made of. It must not be
    /// overwritten either, so the failure is final.
    fn writing<T>(&self, write: impl FnOnce(&AnyTree) -> Result<T, DiskError>) -> Result<T, DiskError> {
        // While this is held the list of tables is not replaced.
        let writing = self.writing.read();
        if self.is_torn() {
            return Err(DiskError::from_io("the list of tables", io::Error::other("a change of it failed halfway")));
        }
        let opened = self.opened();
        let tree = &opened.tree;
        let first = tree.next_table_id();
        let written = write(tree);
        drop(writing);
        let mut litter = self.count_runs();
        let written = match written {
            Err(error) if self.list_is_torn() => {
                self.torn.store(true, Ordering::Release);
                return Err(DiskError::Io { what: "the list of tables".into(), source: io::Error::other(error) });
            }
            Err(error) => {
                litter.push(first..tree.next_table_id());
                Err(error)
            }
            written => written,
        };
        if !litter.is_empty()
            && let Some(_nobody) = self.writing.try_write()
        {
            let opened = self.opened();
            let version = opened.tree.current_version();
            let kept: Vec<TableId> = version.iter_tables().map(|table| table.id()).collect();
            for number in litter.drain(..).flatten().filter(|number| !kept.contains(number)) {
                // Most of these numbers have no file.
                let _ = std::fs::remove_file(self.dir.join("tables").join(number.to_string()));
            }
        }
        written
    }

    /// Whether the list on disk is newer than the one in memory. No replacement is in progress when
    /// the latter is read, so a list that was read from disk before is in memory by then, unless
    /// the replacement failed.
    fn list_is_torn(&self) -> bool {
        let listed = std::fs::read(self.dir.join("current"));
        let listed = listed.ok().and_then(|file| Some(u64::from_le_bytes(*file.first_chunk()?)));
        listed.is_none_or(|listed| listed > self.opened().tree.current_version().id())
    }
}

fn open_tree(
    dir: &Path,
    cache: &Arc<Cache>,
    descriptors: &Arc<DescriptorTable>,
    space: &Arc<MergeSpace>,
) -> Result<AnyTree, DiskError> {
    let bloom = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(FILTER_BITS));
    let merges = MergeFilters { space: space.clone(), tree: dir.to_owned() };
    let tree = Config::new(dir, Default::default(), Default::default())
        .use_cache(cache.clone())
        .use_descriptor_table(Some(descriptors.clone()))
        .data_block_size_policy(BlockSizePolicy::all(BLOCK_BYTES))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(RESTART_ROWS))
        .filter_policy(FilterPolicy::all(bloom))
        // Each lookup of a row consults all tables of the first level that have rows of its actor.
        .filter_block_pinning_policy(PinningPolicy::new([true, false]))
        .index_block_pinning_policy(PinningPolicy::all(false))
        // The index of a table being written refers to a key in each block read for it and so keeps
        // the block: all 64 MB of a merge, unless the index is written in parts.
        .index_block_partitioning_policy(PartitioningPolicy::all(true))
        .with_compaction_filter_factory(Some(Arc::new(merges)))
        .open()?;
    Ok(tree)
}

/// The store's own record of lost ranges.
fn lost_ranges(tree: &AnyTree, dir: &Path) -> Result<LostRanges, DiskError> {
    let corrupt = |what: &str| DiskError::Corrupt(format!("the record of lost rows: {what}"));
    let mut found = Vec::new();
    for row in tree.range(LOST_PREFIX..LOST_END, ALL, None) {
        let (key, value) = match row.into_inner() {
            Ok(row) => row,
            // Nothing has been lost before.
            Err(_) if !has_put_apart(dir) => break,
            Err(error) => return Err(corrupt(&error.to_string())),
        };
        found.push(Lost::decode(&key, &value).ok_or_else(|| corrupt("it has an unknown format"))?);
    }
    Ok(LostRanges::new(found))
}

/// Tables with keys in a range that are selected by `asked`.
fn overlapping(opened: &Opened, from: &[u8], until: &[u8], asked: &dyn Fn(usize, TableId) -> bool) -> Vec<Table> {
    let version = opened.tree.current_version();
    let runs = version.iter_levels().enumerate().flat_map(|(n, level)| level.iter().map(move |run| (n, run)));
    let mut found = Vec::new();
    for (level, run) in runs {
        let Some((first, last)) = run.range_overlap_indexes(&(from..until)) else { continue };
        found.extend(run[first..=last].iter().filter(|table| asked(level, table.id())).cloned());
    }
    found
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tables").field("dir", &self.dir).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::memory::{flat, range_bounds};
    use throng_engine::store::Table;

    fn opened(dir: &Path) -> Tables {
        let space = MergeSpace::new(dir.to_owned(), crate::disk::space::free_bytes, 0);
        Tables::open(dir, 1 << 20, 64 << 20, &space).unwrap()
    }

    type Written = Result<(Vec<u8>, Option<Vec<u8>>), DiskError>;

    fn rows(names: &[&str]) -> Vec<Written> {
        names.iter().map(|name| Ok((name.as_bytes().to_vec(), Some(b"value".to_vec())))).collect()
    }

    fn found(tables: &Tables) -> Vec<String> {
        let rows = tables.range(b"", &[u8::MAX]).map(|row| String::from_utf8(row.unwrap().0.to_vec()).unwrap());
        rows.collect()
    }

    fn copy(from: &Path, to: &Path) {
        assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    }

    /// A store with one table, and its twin after a second one was written.
    fn twins(dir: &Path) -> (Tables, std::path::PathBuf, std::path::PathBuf) {
        let (path, twin) = (dir.join("tree"), dir.join("twin"));
        opened(&path).write(1, 2, rows(&["a"]).into_iter()).unwrap();
        copy(&path, &twin);
        opened(&twin).write(2, 3, rows(&["b"]).into_iter()).unwrap();
        (opened(&path), path, twin)
    }

    /// Replaces the store's list by the twin's, as `lsm_tree` does before it syncs the folder.
    fn rename_list(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
            }
        }
    }

    #[test]
    fn tables_that_the_list_on_the_disk_names_stay_when_its_sync_has_failed() {
        for kind in [io::ErrorKind::Other, io::ErrorKind::StorageFull] {
            let dir = tempfile::tempdir().unwrap();
            let (tables, path, twin) = twins(dir.path());
            let failed = tables.writing(|_| {
                let row = InternalValue::from_components(b"b", b"value", 2, ValueType::Value);
                tables.opened().tree.flush_to_tables([Ok(row)].into_iter())?;
                rename_list(&twin, &path);
                Err::<(), _>(DiskError::from_io("tables", io::Error::from(kind)))
            });
            let crashed = dir.path().join("crashed");
            copy(&path, &crashed);
            assert_eq!(found(&opened(&crashed)), ["a", "b"]);
            // A retry would overwrite the list that the next start reads.
            assert!(matches!(failed, Err(DiskError::Io { .. })), "{failed:?}");
            assert!(matches!(tables.write(2, 3, rows(&["b"]).into_iter()), Err(DiskError::Io { .. })));
            assert!(matches!(tables.merge_all(), Err(DiskError::Io { .. })));
            drop(tables);
            assert_eq!(found(&opened(&path)), ["a", "b"]);
        }
    }

    /// A row of each user.
    fn of_users(users: impl Iterator<Item = u32>) -> Vec<Written> {
        let key = |user: u32| flat(Table::Roster, format!("user{user:05}@localhost").as_bytes(), b"contact");
        let keys: BTreeSet<Vec<u8>> = users.map(key).collect();
        keys.into_iter().map(|key| Ok((key, Some(b"row".to_vec())))).collect()
    }

    /// Number of tables of the first level that a range of the user is looked up in.
    fn asked(tables: &Tables, user: u32) -> usize {
        let may_hold = tables.filters.looker(&flat(Table::Roster, format!("user{user:05}@localhost").as_bytes(), b""));
        let version = tables.opened().tree.current_version();
        version.l0().iter().flat_map(|run| run.iter()).filter(|table| may_hold(table.id())).count()
    }

    #[test]
    fn a_table_is_not_looked_into_for_those_of_whom_it_holds_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tree");
        let tables = opened(&path);
        for (number, first) in [(1, 0), (2, 1), (3, 2), (4, 3)] {
            tables.write(number, number + 1, of_users((first..4_000).step_by(4)).into_iter()).unwrap();
        }
        let rows = |tables: &Tables, user: u32| {
            let (prefix, until) = range_bounds(Table::Roster, format!("user{user:05}@localhost").as_bytes(), b"", None);
            tables.actor_range(&prefix, &prefix, &until).map(Result::unwrap).count()
        };
        // Ten bits per actor: at most two of a hundred lookups are in vain.
        let looks = |tables: &Tables| (0..4_000).map(|user| asked(tables, user)).sum::<usize>();
        assert!((4_000..4_000 + 240).contains(&looks(&tables)), "{}", looks(&tables));
        assert!((0..4_000).all(|user| rows(&tables, user) == 1));
        assert!((5_000..6_000).map(|user| asked(&tables, user)).sum::<usize>() < 80);
        drop(tables);
        // Tables found by an opening are searched until their filters are rebuilt.
        let tables = opened(&path);
        assert_eq!(looks(&tables), 16_000);
        assert_eq!(rows(&tables, 7), 1);
        for _ in 0..4 {
            assert!(tables.complete_filters());
        }
        assert!(!tables.complete_filters());
        assert!((4_000..4_000 + 240).contains(&looks(&tables)), "{}", looks(&tables));
        assert!((0..4_000).all(|user| rows(&tables, user) == 1));
        // Filters of removed tables are dropped.
        tables.merge_all().unwrap();
        assert!(!tables.complete_filters());
        assert!(tables.filters.is_empty());
        assert!((0..4_000).all(|user| rows(&tables, user) == 1));
    }

    /// Four tables above 1.5 GB would be rewritten fifty times over.
    #[test]
    fn a_merge_before_its_time_writes_little_beside_the_first_level() {
        let dir = tempfile::tempdir().unwrap();
        let tables = opened(dir.path());
        let many = |users: u32| of_users(0..users).into_iter();
        tables.write(1, 2, many(50_000)).unwrap();
        assert!(tables.is_first_level_cheap());
        tables.merge_all().unwrap();
        tables.write(2, 3, many(1_000)).unwrap();
        assert!(!tables.is_first_level_cheap());
        tables.write(3, 4, many(20_000)).unwrap();
        assert!(tables.is_first_level_cheap());
    }

    /// The list's lock is held while the last table of a merge is synced, which took 50 ms beside
    /// commits that read this.
    #[test]
    fn runs_are_counted_without_the_lock_of_the_list() {
        let dir = tempfile::tempdir().unwrap();
        let tables = opened(dir.path());
        let opened = tables.opened();
        for number in 1..4 {
            let list = opened.tree.get_version_history_lock();
            assert_eq!(tables.first_level_runs(), number - 1);
            drop(list);
            tables.write(number as u64, number as u64 + 1, rows(&["a", "b"]).into_iter()).unwrap();
        }
        tables.merge_all().unwrap();
        let _list = opened.tree.get_version_history_lock();
        assert_eq!(tables.first_level_runs(), 0);
    }

    #[test]
    fn tables_that_no_list_names_go_when_they_could_not_be_finished() {
        let dir = tempfile::tempdir().unwrap();
        let (tables, path, _) = twins(dir.path());
        let files = || std::fs::read_dir(path.join("tables")).unwrap().count();
        for again in [false, true] {
            let full = || DiskError::from_io("tables", io::ErrorKind::StorageFull.into());
            let failed = match again {
                false => tables.write(2, 3, rows(&["b"]).into_iter().chain([Err(full())])),
                true => tables.writing(|_| {
                    let row = InternalValue::from_components(b"b", b"value", 2, ValueType::Value);
                    tables.opened().tree.flush_to_tables([Ok(row)].into_iter())?;
                    Err(full())
                }),
            };
            assert!(failed.is_err());
            assert_eq!(files(), 1, "the finished table stays alone");
        }
        tables.write(2, 3, rows(&["b"]).into_iter()).unwrap();
        assert_eq!(found(&tables), ["a", "b"]);
    }
}

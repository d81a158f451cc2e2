//! State shared by the engine's threads: the memory tables, the tables on disk, and consistent
//! reads of both.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use throng_engine::counters::Counter;
use throng_engine::store::{Found, Table};

use super::apart::put_apart;
use super::counters::add_us;
use super::memory::flat;
use super::memtable::{Known, Memtable, Rows};
use super::merge::MergeSpace;
use super::pace::{Limits, NARROW, WIDE};
use super::ranges::Ranges;
use super::shipping::{self, Shipping};
use super::space::FreeBytes;
use super::tables::Tables;
use super::view::{self, Asked};
use super::worker::Worker;
use super::{DiskError, KeyRange, Seen, StoreCounters, journal};
use crate::waits::{self, Mutex, MutexGuard, Place};

/// The shared state.
pub(super) struct Stored {
    pub(super) layers: ArcSwap<Layers>,
    pub(super) tables: Tables,
    pub(super) space: Arc<MergeSpace>,
    /// The journal's folder.
    pub(super) journal: PathBuf,
    /// Memory for the next memory table.
    pub(super) spare: Mutex<Option<Rows>>,
    /// Whether nothing has been committed for a while: then memory is not kept.
    pub(super) resting: AtomicBool,
    /// Whether so little is written that tables are merged early.
    pub(super) calm: AtomicBool,
    /// Whether there is space for merging the longest permitted first level.
    pub(super) wide: AtomicBool,
    /// The free space that this requires.
    pub(super) wide_bytes: u64,
    /// Bytes per second that may be committed.
    pub(super) bytes_s: AtomicU64,
    /// What a continuous backup still needs of the journal.
    pub(super) shipping: Option<Arc<Shipping>>,
    pub(super) give_back: fn(),
    pub(super) free_bytes: FreeBytes,
    /// Its counters.
    pub(super) seen: Seen<StoreCounters>,
}

/// Time between two full memory tables from which on load counts as calm: below, early merges would
/// cost more than reads save.
const CALM: Duration = Duration::from_secs(8);

/// State of the thread that writes tables.
#[derive(Default)]
pub(super) struct Flushing {
    /// The segment to retire before the next table is written: an older one must never outlive a
    /// newer one.
    retiring: Option<Retiring>,
    /// When it last wrote a table.
    last: Option<Instant>,
}

/// A segment whose rows are in tables, and the group after its last one.
#[derive(Clone, Copy)]
struct Retiring {
    number: u64,
    end: u64,
}

/// The memory tables. Replaced as a whole, so that a reader notices whether they changed meanwhile.
#[derive(Clone)]
pub(super) struct Layers {
    /// The active one.
    pub(super) active: Arc<Memtable>,
    /// Those being written to tables, newest first.
    pub(super) sealed: Vec<Arc<Memtable>>,
}

impl Layers {
    /// All of them, newest first.
    pub(super) fn newest_first(&self) -> impl DoubleEndedIterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(&self.sealed)
    }
}

/// Work in progress: a gauge of 1 for as long as this is held.
struct Running<'a> {
    gauge: &'a Counter,
    since: Instant,
}

impl Running<'_> {
    fn begin(gauge: &Counter) -> Running<'_> {
        gauge.set(1);
        Running { gauge, since: Instant::now() }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.gauge.set(0);
    }
}

impl Stored {
    pub(super) fn spare(&self) -> MutexGuard<'_, Option<Rows>> {
        self.spare.lock()
    }

    /// The present limits of the first level.
    pub(super) fn limits(&self) -> Limits {
        if self.wide.load(Ordering::Relaxed) { WIDE } else { NARROW }
    }

    /// Writes the oldest sealed memory table to tables, and retires its segment; `false` if there
    /// is none.
    pub(super) fn flush(&self, flushing: &mut Flushing, merger: &Worker) -> Result<bool, DiskError> {
        if let Some(Retiring { number, end }) = flushing.retiring {
            match &self.shipping {
                Some(shipping) if shipping.needs(end) => shipping::keep(&self.journal, number)?,
                _ => journal::retire(&self.journal, number)?,
            }
            flushing.retiring = None;
        }
        let layers = self.layers.load();
        let Some(oldest) = layers.sealed.last().cloned() else { return Ok(false) };
        // The active one comes first, so there always is one after it.
        let behind = layers.newest_first().rev().nth(1).map_or(oldest.first, |behind| behind.first);
        drop(layers);
        let counters = &self.seen.counters;
        let running = Running::begin(&counters.flushing);
        {
            let rows = oldest.read();
            let expected = rows.size() as u64 * 5 / 4;
            let free = (self.free_bytes)(&self.journal)?;
            self.wide.store(free >= self.wide_bytes, Ordering::Relaxed);
            if free < expected {
                return Err(DiskError::OutOfSpace("a table would not fit".into()));
            }
            let order = rows.order();
            let _at = waits::at(Place::TableWrite);
            let known = self.tables.damages().pending();
            let written = self.tables.write(oldest.number, behind, view::to_write(&rows, &order, &self.tables));
            // Range deletes are looked up in tables: if damage was met, it is skipped from now on.
            if written.is_err() && self.tables.damages().pending() > known {
                return Ok(true);
            }
            written?;
        }
        counters.flushes.one();
        add_us(&counters.flush_us, running.since.elapsed());
        drop(running);
        self.layers.rcu(|layers| {
            let sealed = layers.sealed.iter().filter(|layer| layer.number != oldest.number).cloned().collect();
            Layers { active: layers.active.clone(), sealed }
        });
        flushing.retiring = Some(Retiring { number: oldest.number, end: behind });
        let before = flushing.last.replace(Instant::now());
        let calm = self.resting.load(Ordering::Relaxed) || before.is_some_and(|before| before.elapsed() > CALM);
        self.calm.store(calm, Ordering::Relaxed);
        merger.wake();
        // If another thread is still reading it, that one frees its memory later. In calm times it
        // would be kept for long before it is needed.
        if let Some(memtable) = Arc::into_inner(oldest)
            && !calm
        {
            *self.spare() = Some(memtable.into_spare());
        } else {
            (self.give_back)();
        }
        Ok(true)
    }

    /// Merges tables if there are enough of them; returns whether there may be more. While the
    /// operator has paused merges, only if commits would slow down otherwise.
    pub(super) fn merge(&self) -> Result<bool, DiskError> {
        if self.tables.damages().pending() > 0 && put_apart(&self.tables)? {
            return Ok(true);
        }
        if self.space.is_paused() && self.tables.first_level_runs() < self.limits().slow {
            return Ok(false);
        }
        let counters = &self.seen.counters;
        let running = Running::begin(&counters.merging);
        let at = waits::at(Place::TableMerge);
        let mut merged = self.tables.merge(false);
        let resting = self.resting.load(Ordering::Relaxed);
        if let Ok(false) = merged
            && self.calm.load(Ordering::Relaxed)
            && (resting || self.tables.is_first_level_cheap())
        {
            // These merges are optional: without space for them everything continues as before.
            merged =
                self.tables.merge(true).or_else(|error| if error.is_out_of_space() { Ok(false) } else { Err(error) });
        }
        drop(at);
        if let Ok(true) = merged {
            counters.merges.one();
            add_us(&counters.merge_us, running.since.elapsed());
        }
        drop(running);
        if let Ok(false) = merged {
            merged = Ok(self.tables.complete_filters());
        }
        if !matches!(merged, Ok(false)) {
            (self.give_back)();
        }
        merged
    }

    /// Runs `read` on a consistent view of memory tables and tables. Rows that become a table
    /// meanwhile could be missed, or newer ones be seen: if memory tables change during the start
    /// of a read, it is restarted.
    fn at_one_moment<T>(&self, mut read: impl FnMut(&Layers) -> Result<T, DiskError>) -> Result<T, DiskError> {
        loop {
            let layers = self.layers.load_full();
            let found = read(&layers)?;
            if Arc::ptr_eq(&layers, &self.layers.load()) {
                return Ok(found);
            }
        }
    }

    pub(super) fn get(&self, table: Table, actor: &[u8], sort: &[u8]) -> Result<Found, DiskError> {
        self.at_one_moment(|layers| {
            for layer in layers.newest_first() {
                match layer.read().get(table, actor, sort) {
                    Known::Value(value) => return Ok(Found::Value(Some(value.into()))),
                    Known::Gone => return Ok(Found::Value(None)),
                    Known::Nothing => {}
                }
            }
            let value = self.tables.get(&flat(table, actor, sort))?;
            Ok(Found::Value(value.map(|value| value[..].into())))
        })
    }

    pub(super) fn range(&self, asked: &Asked<'_>) -> Result<Found, DiskError> {
        let answer = self.at_one_moment(|layers| {
            let rows: Vec<_> = layers.newest_first().map(|layer| layer.read()).collect();
            let overlay = asked.overlay(&rows.iter().map(|rows| &**rows).collect::<Vec<_>>());
            // The lock is not held while tables are searched.
            drop(rows);
            Ok(overlay.over(asked, &self.tables))
        })?;
        answer()
    }

    /// Passes the rows of these ranges, from one consistent view, to `take`, in the order of their
    /// flat keys.
    pub(super) fn within<T>(
        &self,
        ranges: &[KeyRange],
        take: impl FnOnce(&mut dyn Iterator<Item = view::Row>) -> Result<T, DiskError>,
    ) -> Result<T, DiskError> {
        let _scanning = self.tables.scanning.read();
        // The active memory table is copied, so that writing continues.
        let (active, sealed, tables) = self.at_one_moment(|layers| {
            let active = layers.active.read().clone();
            // No table is quarantined during a full scan, so all these see one list.
            let tables: Vec<_> = ranges.iter().map(|range| self.tables.range(&range.start, &range.end)).collect();
            Ok((active, layers.sealed.clone(), tables))
        })?;
        let mut wanted = Ranges::default();
        ranges.iter().for_each(|range| wanted.add(range.start.clone(), range.end.clone()));
        let sealed: Vec<_> = sealed.iter().map(|layer| layer.read()).collect();
        let layers: Vec<&Rows> = std::iter::once(&active).chain(sealed.iter().map(|rows| &**rows)).collect();
        let orders: Vec<Vec<u32>> = layers.iter().map(|rows| rows.order_within(&wanted)).collect();
        let layers = layers.iter().copied().zip(orders.iter().map(Vec::as_slice));
        let rows = view::all(layers.collect::<Vec<_>>().into_iter(), tables.into_iter().flatten());
        take(&mut rows.filter(|row| row.as_ref().map_or(true, |(key, _)| wanted.holds(key))))
    }
}

//! The thread that merges tables, and what keeps merging from eating the space that commits need.
//!
//! A merge writes its result before it drops what it read, so on a device that is nearly full it would take the rest of
//! the space, fail, and begin again, for ever. So a merge begins only when its result fits, and is given up when space runs
//! low on the way. While one waits the engine is *starved*, which the committer takes for a full disk. `lsm_tree` has no
//! switch for this; a compaction filter, which keeps every row, is called at the right places.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lsm_tree::compaction::filter::{CompactionFilter, Context, Factory, ItemAccessor, Verdict};

use super::space::free_bytes;
use super::worker::give_way;

/// Rows between two looks at the free space: below a megabyte even of large messages.
const ROWS_PER_LOOK: u32 = 128;

/// No merge is expected to need more than this at once, bytes.
const MERGE_BYTES_MAX: u64 = 1 << 30;

/// What merges know of the space that they may take.
#[derive(Debug)]
pub(super) struct MergeSpace {
    dir: PathBuf,
    /// Free space that merges leave alone, bytes; zero lets them do what they want.
    floor_bytes: AtomicU64,
    /// All tables, bytes: no merge writes more.
    table_bytes: AtomicU64,
    closing: AtomicBool,
    /// The operator wants no merges that are not urgent.
    paused: AtomicBool,
}

impl MergeSpace {
    pub(super) fn new(dir: PathBuf, floor_bytes: u64) -> Arc<MergeSpace> {
        let (table_bytes, closing) = (AtomicU64::new(0), AtomicBool::new(false));
        let (floor_bytes, paused) = (AtomicU64::new(floor_bytes), AtomicBool::new(false));
        Arc::new(MergeSpace { dir, floor_bytes, table_bytes, closing, paused })
    }

    /// Leaves so much space alone from now on, and merges or not.
    pub(super) fn tune(&self, floor_bytes: u64, merges: bool) {
        self.floor_bytes.store(floor_bytes, Ordering::Relaxed);
        self.paused.store(!merges, Ordering::Relaxed);
    }

    /// Whether merges that are not urgent are to wait.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Tells the size of all tables.
    pub(super) fn set_table_bytes(&self, bytes: u64) {
        self.table_bytes.store(bytes, Ordering::Relaxed);
    }

    /// A merge on its way is given up: the store is being closed.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Whether a merge may begin.
    pub(super) fn may_begin(&self) -> bool {
        self.fits(self.table_bytes.load(Ordering::Relaxed).min(MERGE_BYTES_MAX))
    }

    fn fits(&self, bytes: u64) -> bool {
        // If the free space cannot be known, the merge finds out by itself.
        let floor_bytes = self.floor_bytes.load(Ordering::Relaxed);
        floor_bytes == 0 || free_bytes(&self.dir).map_or(true, |free| free >= floor_bytes + bytes)
    }
}

/// Makes the filter of each merge.
pub(super) struct MergeFilters(pub(super) Arc<MergeSpace>);

impl Factory for MergeFilters {
    fn name(&self) -> &str {
        "merge-space"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(MergeFilter { space: self.0.clone(), rows: 0, turn: 0 })
    }
}

struct MergeFilter {
    space: Arc<MergeSpace>,
    rows: u32,
    turn: u32,
}

impl CompactionFilter for MergeFilter {
    fn filter_item(&mut self, _: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        if self.rows.is_multiple_of(ROWS_PER_LOOK) {
            let fits = if self.rows == 0 { self.space.may_begin() } else { self.space.fits(0) };
            if !fits {
                return Err(io::Error::from(io::ErrorKind::StorageFull).into());
            }
            if self.space.closing.load(Ordering::Relaxed) {
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
        }
        self.rows = self.rows.wrapping_add(1).max(1);
        give_way(&mut self.turn);
        Ok(Verdict::Keep)
    }
}

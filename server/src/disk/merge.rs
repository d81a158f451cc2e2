//! Keeps the merging of tables from eating the space that commits need.
//!
//! A merge writes its result before it drops what it read, so on a device that is nearly full it would take the rest of
//! the space, fail, and begin again, for ever. It is stopped before: a merge begins only when its result fits, and
//! pauses when space runs low on the way. Meanwhile the engine is *starved*, which the committer takes for a full disk.
//! fjall has no switch for this; a compaction filter, which keeps every row, is called at the right places.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use fjall::compaction::filter::{CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict};

use super::space::free_bytes;

/// Rows between two looks at the free space: below a megabyte even of large messages.
const ROWS_PER_LOOK: u32 = 128;

/// How long a merge waits before it looks again.
const PAUSE: Duration = Duration::from_millis(100);

/// No merge is expected to need more than this at once, bytes.
const MERGE_BYTES_MAX: u64 = 1 << 30;

/// What merges and the engine know of each other.
#[derive(Debug)]
pub(super) struct MergeSpace {
    dir: PathBuf,
    /// Free space that merges leave alone, bytes; zero lets them do what they want.
    floor_bytes: u64,
    /// All tables, bytes: no merge writes more.
    table_bytes: AtomicU64,
    starved: AtomicU32,
    closing: AtomicBool,
    give_back: fn(),
}

impl MergeSpace {
    pub(super) fn new(dir: PathBuf, floor_bytes: u64, give_back: fn()) -> Arc<MergeSpace> {
        Arc::new(MergeSpace {
            dir,
            floor_bytes,
            table_bytes: AtomicU64::new(0),
            starved: AtomicU32::new(0),
            closing: AtomicBool::new(false),
            give_back,
        })
    }

    /// Tells the size of all tables.
    pub(super) fn set_table_bytes(&self, bytes: u64) {
        self.table_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Whether a merge waits for space.
    pub(super) fn is_starved(&self) -> bool {
        self.starved.load(Ordering::Acquire) > 0
    }

    /// Lets waiting merges go, because the database is being closed and waits for them.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Returns when `bytes` are free above the floor.
    fn wait_for(&self, bytes: u64) {
        // If the free space cannot be known, the merge finds out by itself.
        let short = || free_bytes(&self.dir).is_ok_and(|free| free < self.floor_bytes + bytes);
        if self.floor_bytes == 0 || !short() {
            return;
        }
        self.starved.fetch_add(1, Ordering::AcqRel);
        while !self.closing.load(Ordering::Acquire) && short() {
            std::thread::sleep(PAUSE);
        }
        self.starved.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Makes the filter of each merge.
pub(super) struct MergeFilters(pub(super) Arc<MergeSpace>);

impl Factory for MergeFilters {
    fn name(&self) -> &str {
        "merge-space"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        // Not here: the tree is locked while filters are made.
        Box::new(MergeFilter { space: self.0.clone(), rows: 0 })
    }
}

struct MergeFilter {
    space: Arc<MergeSpace>,
    rows: u32,
}

impl CompactionFilter for MergeFilter {
    fn filter_item(&mut self, _: ItemAccessor<'_>, _: &Context) -> CompactionFilterResult {
        if self.rows == 0 {
            self.space.wait_for(self.space.table_bytes.load(Ordering::Relaxed).min(MERGE_BYTES_MAX));
        } else if self.rows.is_multiple_of(ROWS_PER_LOOK) {
            self.space.wait_for(0);
        }
        self.rows = self.rows.wrapping_add(1).max(1);
        Ok(Verdict::Keep)
    }
}

impl Drop for MergeFilter {
    fn drop(&mut self) {
        // The merge is over, and its thread may have nothing to do for long.
        (self.space.give_back)();
    }
}

//! The space that merges may use, so that they leave enough for commits.
//!
//! A merge writes its result before it drops its inputs. On a nearly full device it would use up
//! the space, fail, and start again, forever. So a merge begins only if its result fits beside the
//! free space at which messages are accepted. It is aborted before messages would have to be
//! refused because of other files. While a required merge waits for space the engine is *starved*,
//! which the committer treats as a full disk. `lsm_tree` has no setting for this; a compaction
//! filter that keeps every row is called at the right places.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lsm_tree::compaction::filter::{CompactionFilter, Context, Factory, ItemAccessor, Verdict};

use super::DiskError;
use super::arriving::Arriving;
use super::space::{FreeBytes, accepting_bytes};
use super::worker::give_way;

/// Rows between two checks of the free space: less than a megabyte even of large messages.
const ROWS_PER_LOOK: u32 = 128;

/// A merge that lacked space begins once there is this fraction more than it needs, so that small
/// changes of the free space do not make messages be accepted and refused in turn.
const SPARE_PART: u64 = 8;

/// The limits of merges.
#[derive(Debug)]
pub(super) struct MergeSpace {
    dir: PathBuf,
    free_bytes: FreeBytes,
    /// Free space below which new messages are refused, bytes; zero means no limit.
    least_bytes: AtomicU64,
    /// Whether a required merge lacked space, and none has begun since.
    lacking: AtomicBool,
    /// Free space that it needs, bytes; 0 if none lacks any.
    wanted_bytes: AtomicU64,
    closing: AtomicBool,
    /// Whether the operator has paused merges that are not urgent.
    paused: AtomicBool,
    /// Whether commits slow down because merges are behind: then merges do not yield.
    urgent: AtomicBool,
}

impl MergeSpace {
    /// Limits for merges in `dir`, where messages are refused below `least_bytes` of free space.
    pub(super) fn new(dir: PathBuf, free_bytes: FreeBytes, least_bytes: u64) -> Arc<MergeSpace> {
        let [lacking, closing, paused, urgent] = [const { AtomicBool::new(false) }; 4];
        Arc::new(MergeSpace {
            dir,
            free_bytes,
            least_bytes: AtomicU64::new(least_bytes),
            lacking,
            wanted_bytes: AtomicU64::new(0),
            closing,
            paused,
            urgent,
        })
    }

    /// Sets the free space to keep, and whether to merge.
    pub(super) fn tune(&self, least_bytes: u64, merges: bool) {
        self.least_bytes.store(least_bytes, Ordering::Relaxed);
        self.paused.store(!merges, Ordering::Relaxed);
    }

    /// Whether merges that are not urgent are paused.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Sets whether commits slow down because merges are behind.
    pub(super) fn hurry(&self, urgent: bool) {
        self.urgent.store(urgent, Ordering::Relaxed);
    }

    /// Aborts a running merge: the store is being closed.
    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
    }

    /// Whether the store is being closed.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Whether a merge that writes this many bytes may begin, without affecting the acceptance of
    /// messages.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let least = self.least_bytes.load(Ordering::Relaxed);
        // If the free space is unknown, the merge is tried.
        least == 0 || self.free().is_none_or(|free| free >= self.needed(least, bytes))
    }

    /// Checks the same for the smallest merge that is sufficient.
    ///
    /// # Errors
    /// [`DiskError::OutOfSpace`] with the space it needs.
    pub(super) fn room(&self, bytes: u64) -> Result<(), DiskError> {
        let has_room = self.has_room(bytes);
        self.lacking.store(!has_room, Ordering::Relaxed);
        if has_room {
            self.wanted_bytes.store(0, Ordering::Relaxed);
            return Ok(());
        }
        let needed = self.needed(self.least_bytes.load(Ordering::Relaxed), bytes);
        self.wanted_bytes.store(needed, Ordering::Relaxed);
        Err(DiskError::OutOfSpace(format!(
            "tables must be compacted, which needs {needed} bytes of free space; {} are free",
            self.free().unwrap_or(0)
        )))
    }

    /// Free space that a waiting merge needs, bytes; 0 if none waits.
    pub(super) fn wanted_bytes(&self) -> u64 {
        self.wanted_bytes.load(Ordering::Relaxed)
    }

    fn needed(&self, least: u64, bytes: u64) -> u64 {
        let spare = if self.lacking.load(Ordering::Relaxed) { bytes / SPARE_PART } else { 0 };
        accepting_bytes(least) + bytes + spare
    }

    fn free(&self) -> Option<u64> {
        (self.free_bytes)(&self.dir).ok()
    }

    /// Whether a running merge may continue.
    fn may_go_on(&self) -> bool {
        let least = self.least_bytes.load(Ordering::Relaxed);
        least == 0 || self.free().is_none_or(|free| free >= least)
    }
}

/// Creates the filter of each merge.
pub(super) struct MergeFilters {
    pub(super) space: Arc<MergeSpace>,
    /// Folder of the list of tables.
    pub(super) tree: PathBuf,
}

impl Factory for MergeFilters {
    fn name(&self) -> &str {
        "merge-space"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        let arriving = Arriving::begin(self.tree.clone());
        Box::new(MergeFilter { space: self.space.clone(), arriving, rows: 0, turn: 0 })
    }
}

struct MergeFilter {
    space: Arc<MergeSpace>,
    arriving: Arriving,
    rows: u32,
    turn: u32,
}

impl CompactionFilter for MergeFilter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        if self.rows.is_multiple_of(ROWS_PER_LOOK) {
            if !self.space.may_go_on() {
                return Err(io::Error::from(io::ErrorKind::StorageFull).into());
            }
            if self.space.is_closing() {
                return Err(io::Error::from(io::ErrorKind::Interrupted).into());
            }
        }
        self.rows = self.rows.wrapping_add(1).max(1);
        self.arriving.wrote(item.key().len() + item.value().map_or(0, |value| value.len()));
        if !self.space.urgent.load(Ordering::Relaxed) {
            give_way(&mut self.turn);
        }
        Ok(Verdict::Keep)
    }
}

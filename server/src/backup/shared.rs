//! What the tasks of a backup's thread share: the plan, how far the backup is, and the notes on
//! durable groups.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::bucket::Bucket;
use super::pieces::{Group, Mark};
use super::standing::Standing;
use super::{Paths, now_ms};
use crate::disk::journal_folder;
use crate::disk::shipping::{self, Shipping};
use crate::disk::space::free_bytes;
use crate::waits::{Mutex, Place};

/// Marks in memory; while there are more, every second one is given up.
const MARKS_MAX: usize = 8192;

/// What is backed up, where, and within which bounds.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The place.
    pub bucket: Bucket,
    /// The data folder.
    pub folder: PathBuf,
    /// A folder of files that never change (`files`).
    pub files: Option<PathBuf>,
    /// Configuration, certificates and keys.
    pub settings: Paths,
    /// Time between two full pieces.
    pub full_every: Duration,
    /// Time to which a store can be restored.
    pub keep: Duration,
    /// Bytes of the journal that may stay on disk because they are not in the backup.
    pub journal_bytes_max: u64,
    /// Free space below which no such bytes stay.
    pub free_bytes_min: u64,
}

/// What the tasks of the thread share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) shipping: Arc<Shipping>,
    pub(super) standing: Arc<Standing>,
    /// Notes of groups that are not in the backup yet: at most [`MARKS_MAX`].
    marks: Mutex<VecDeque<Mark>>,
    /// The group after the last one in the backup.
    shipped: AtomicU64,
    /// Raised when groups that are not in the backup were given up.
    given_up: AtomicU64,
    stopping: AtomicBool,
}

impl Shared {
    pub(super) fn new(plan: Plan, shipping: Arc<Shipping>, standing: Arc<Standing>) -> Shared {
        Shared {
            plan,
            shipping,
            standing,
            marks: Mutex::new(Place::LockBackup, VecDeque::new()),
            shipped: AtomicU64::new(0),
            given_up: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// The newest note on a group that is not in the backup.
    pub(super) fn last_mark(&self) -> Option<Mark> {
        self.marks.lock().back().copied()
    }

    pub(super) fn journal(&self) -> PathBuf {
        journal_folder(&self.plan.folder)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn given_up(&self) -> u64 {
        self.given_up.load(Ordering::Acquire)
    }

    /// The group after the last one in the backup.
    pub(super) fn shipped(&self) -> Group {
        self.shipped.load(Ordering::Acquire)
    }

    pub(super) fn set_shipped(&self, next: Group) {
        let mut marks = self.marks.lock();
        while marks.front().is_some_and(|mark| mark.next <= next) {
            marks.pop_front();
        }
        self.standing.set_behind(marks.front().map(|mark| mark.time_ms));
        drop(marks);
        self.shipped.store(next, Ordering::Release);
        self.shipping.set_shipped(next);
    }

    /// Notes which groups are durable.
    pub(super) fn mark(&self, time_ms: u64) {
        let next = self.shipping.synced();
        let mut marks = self.marks.lock();
        let before = marks.back().copied();
        if next <= before.map_or(self.shipped(), |mark| mark.next) {
            return;
        }
        marks.push_back(Mark { time_ms: before.map_or(time_ms, |mark| mark.time_ms.max(time_ms)), next });
        if marks.len() > MARKS_MAX {
            // The later one of two holds for both.
            let mut at = 0;
            marks.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        self.standing.set_behind(marks.front().map(|mark| mark.time_ms));
    }

    /// The notes on the groups before `end`: the last one is on all of them.
    pub(super) fn marks_before(&self, end: Group) -> Vec<Mark> {
        let marks = self.marks.lock();
        let mut found: Vec<Mark> = marks.iter().take_while(|mark| mark.next <= end).copied().collect();
        if found.last().is_none_or(|last| last.next < end) {
            let time_ms = marks.get(found.len()).map_or_else(now_ms, |mark| mark.time_ms);
            found.push(Mark { time_ms, next: end });
        }
        found
    }

    /// Gives back shipped segments, and gives up the others if they take too much space.
    pub(super) fn look_at_disk(&self) -> io::Result<()> {
        let dir = self.journal();
        shipping::release_kept(&dir, self.shipped())?;
        let mut kept = shipping::kept_bytes(&dir)?;
        let scarce = || free_bytes(&dir).is_ok_and(|free| free < 2 * self.plan.free_bytes_min);
        if kept > self.plan.journal_bytes_max || (kept > 0 && scarce()) {
            tracing::error!(
                bytes = kept,
                "the backup lags too far behind: the journal it lacks is given up, and it begins anew with a full piece"
            );
            self.given_up.fetch_add(1, Ordering::AcqRel);
            shipping::drop_kept(&dir)?;
            self.standing.counters.restarts.one();
            kept = 0;
        }
        self.standing.counters.kept_bytes.set(kept);
        Ok(())
    }
}

//! The traces of users' stanzas, so that the end of abandoned ones is recorded, too.

use std::time::{Duration, Instant};

use throng_engine::observers::trace::ABANDONED_MS;

use crate::waits::{Mutex, MutexGuard, Place};

/// A trace in progress, or not yet ended.
pub(super) struct Open {
    pub(super) id: u64,
    pub(super) shard: usize,
    pub(super) jid: String,
    pub(super) bodies: bool,
    pub(super) until: Instant,
    pub(super) asked: Instant,
    pub(super) stanzas: u64,
    pub(super) dropped: u64,
}

impl Open {
    /// When it ends if it is not fetched from.
    pub(super) fn abandoned(&self) -> Instant {
        self.asked.min(self.until) + Duration::from_millis(ABANDONED_MS)
    }
}

/// The traces of the server, at most [`TRACES_MAX`](throng_engine::observers::TRACES_MAX).
pub(super) struct Traces {
    open: Mutex<(u64, Vec<Open>)>,
}

impl Default for Traces {
    fn default() -> Traces {
        Traces { open: Mutex::new(Place::LockTraces, (0, Vec::new())) }
    }
}

impl Traces {
    pub(super) fn open(&self) -> MutexGuard<'_, (u64, Vec<Open>)> {
        self.open.lock()
    }

    pub(super) fn take(&self, id: u64) -> Option<Open> {
        let mut open = self.open();
        let at = open.1.iter().position(|trace| trace.id == id)?;
        Some(open.1.remove(at))
    }

    /// Takes the abandoned traces, or all.
    pub(super) fn take_abandoned(&self, now: Instant, all: bool) -> Vec<Open> {
        self.open().1.extract_if(.., |trace| all || trace.abandoned() <= now).collect()
    }
}

//! What the open store has met that is damaged: said once in the log, and kept for whoever asks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::waits::{Mutex, Place};

/// Damaged files that are named; further ones are only counted.
const NAMED_MAX: usize = 100;

/// Files of tables that have been found damaged since the store was opened. They are never merged, so nothing in them is
/// dropped or written anew.
#[derive(Debug)]
pub(super) struct Damages {
    files: Mutex<BTreeMap<Arc<Path>, String>>,
    count: AtomicU64,
}

impl Damages {
    pub(super) fn none() -> Damages {
        Damages { files: Mutex::new(Place::LockTables, BTreeMap::new()), count: AtomicU64::new(0) }
    }

    /// Notes what was met in a file; said the first time only.
    pub(super) fn note(&self, file: &Path, what: &dyn std::fmt::Display) {
        let mut files = self.files.lock();
        if files.contains_key(file) || files.len() >= NAMED_MAX {
            return;
        }
        files.insert(file.into(), what.to_string());
        self.count.store(files.len() as u64, Ordering::Release);
        drop(files);
        tracing::error!(
            file = %file.display(),
            %what,
            "a table is damaged: who asks for a row that cannot be read gets an error, all other rows are served, and \
             tables are not merged any more; stop the server and run `throng store check`, then `throng store salvage` \
             or `throng store restore`"
        );
    }

    /// How many files.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// A line for each file.
    pub(super) fn named(&self) -> Vec<String> {
        self.files.lock().iter().map(|(file, what)| format!("{}: {what}", file.display())).collect()
    }
}

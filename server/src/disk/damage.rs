//! What the open store has met that is damaged: said once in the log, and kept for whoever asks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::lost::Lost;
use crate::waits::{Mutex, Place};

/// Damaged files that are named; further ones are only counted.
const NAMED_MAX: usize = 100;

/// Files of tables that have been found damaged. Those that have not been put apart yet are never merged, so nothing in them
/// is dropped or written anew.
#[derive(Debug)]
pub(super) struct Damages {
    files: Mutex<Files>,
    /// How many have not been put apart.
    pending: AtomicU64,
    /// How many have.
    apart: AtomicU64,
    /// One has been met since somebody last tried to put them apart.
    fresh: AtomicBool,
}

#[derive(Debug, Default)]
struct Files {
    pending: BTreeMap<Arc<Path>, String>,
    apart: BTreeMap<PathBuf, String>,
}

impl Damages {
    pub(super) fn none() -> Damages {
        let files = Mutex::new(Place::LockTables, Files::default());
        let [pending, apart] = [const { AtomicU64::new(0) }; 2];
        Damages { files, pending, apart, fresh: AtomicBool::new(false) }
    }

    /// Notes what was met in a file; said the first time only.
    pub(super) fn note(&self, file: &Path, what: &dyn std::fmt::Display) {
        let mut files = self.files.lock();
        if files.pending.contains_key(file) || files.pending.len() >= NAMED_MAX {
            return;
        }
        files.pending.insert(file.into(), what.to_string());
        self.pending.store(files.pending.len() as u64, Ordering::Release);
        drop(files);
        self.fresh.store(true, Ordering::Release);
        tracing::error!(
            file = %file.display(),
            %what,
            "a table is damaged: who asks for a row that cannot be read gets an error, all other rows are served; tables \
             are not merged until it is put apart"
        );
    }

    /// These files are damaged no more, or are no part of the store: they have been put apart, or went.
    pub(super) fn settle(&self, settled: &[Arc<Path>]) {
        let mut files = self.files.lock();
        files.pending.retain(|file, _| !settled.contains(file));
        self.pending.store(files.pending.len() as u64, Ordering::Release);
    }

    /// Names the files, in this folder, that have been put apart with these ranges lost.
    pub(super) fn name_apart(&self, folder: &Path, lost: &[Lost]) {
        let mut apart = BTreeMap::new();
        for lost in lost {
            let (parts, bytes) = apart.entry(folder.join(&lost.file)).or_insert((0_u64, 0_u64));
            (*parts, *bytes) = (*parts + 1, *bytes + lost.bytes);
        }
        let line = |(file, (parts, bytes))| {
            let what = format!(
                "{bytes} bytes in {parts} places cannot be read: their rows are lost, and the table was put apart; run \
                 `throng store check` on the stopped store, then `throng store salvage` or `throng store restore`"
            );
            (file, what)
        };
        self.apart.store(apart.len() as u64, Ordering::Release);
        self.files.lock().apart = apart.into_iter().map(line).collect();
    }

    /// How many files have not been put apart.
    pub(super) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }

    /// Which files these are.
    pub(super) fn pending_files(&self) -> Vec<Arc<Path>> {
        self.files.lock().pending.keys().cloned().collect()
    }

    /// Whether there are new ones since the last call.
    pub(super) fn take_fresh(&self) -> bool {
        self.fresh.load(Ordering::Acquire) && self.fresh.swap(false, Ordering::AcqRel)
    }

    /// How many files, put apart or not.
    pub(super) fn count(&self) -> u64 {
        self.pending() + self.apart.load(Ordering::Acquire)
    }

    /// A line for each file, `NAMED_MAX` of each kind at the most.
    pub(super) fn named(&self) -> Vec<String> {
        let files = self.files.lock();
        let pending = files.pending.iter().map(|(file, what)| format!("{}: {what}", file.display()));
        let apart = files.apart.iter().take(NAMED_MAX).map(|(file, what)| format!("{}: {what}", file.display()));
        apart.chain(pending).collect()
    }
}

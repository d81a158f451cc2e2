//! The damage that the open store has met: logged once, and recorded for queries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::lost::Lost;
use crate::waits::{Mutex, Place};

/// Damaged files that are named; further ones are only counted.
const NAMED_MAX: usize = 100;

/// Table files that were found damaged. Until they are quarantined, they are never merged, so
/// nothing in them is dropped or rewritten.
#[derive(Debug)]
pub(super) struct Damages {
    files: Mutex<Files>,
    /// Number of damaged files that are not quarantined.
    pending: AtomicU64,
    /// Number of quarantined files.
    apart: AtomicU64,
    /// Whether damage was found since the last attempt to quarantine.
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

    /// Records damage of a file; logged the first time only.
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
            "a table is damaged: reads of its damaged rows fail, other rows are served; compaction \
             pauses until the table is quarantined"
        );
    }

    /// Removes files that are no longer damaged or part of the store: they have been quarantined or
    /// removed.
    pub(super) fn settle(&self, settled: &[Arc<Path>]) {
        let mut files = self.files.lock();
        files.pending.retain(|file, _| !settled.contains(file));
        self.pending.store(files.pending.len() as u64, Ordering::Release);
    }

    /// Names the files in this folder that were quarantined with these lost ranges.
    pub(super) fn name_apart(&self, folder: &Path, lost: &[Lost]) {
        let mut apart = BTreeMap::new();
        for lost in lost {
            let (parts, bytes) = apart.entry(folder.join(&lost.file)).or_insert((0_u64, 0_u64));
            (*parts, *bytes) = (*parts + 1, *bytes + lost.bytes);
        }
        let line = |(file, (parts, bytes))| {
            let what = format!(
                "{bytes} bytes in {parts} places cannot be read: their rows are lost, and the \
                 table was quarantined; stop the server and run `throng store check`, then `throng \
                 store salvage` or `throng store restore`"
            );
            (file, what)
        };
        self.apart.store(apart.len() as u64, Ordering::Release);
        self.files.lock().apart = apart.into_iter().map(line).collect();
    }

    /// Number of damaged files that are not quarantined.
    pub(super) fn pending(&self) -> u64 {
        self.pending.load(Ordering::Acquire)
    }

    /// The damaged files that are not quarantined.
    pub(super) fn pending_files(&self) -> Vec<Arc<Path>> {
        self.files.lock().pending.keys().cloned().collect()
    }

    /// Whether there are new ones since the last call.
    pub(super) fn take_fresh(&self) -> bool {
        self.fresh.load(Ordering::Acquire) && self.fresh.swap(false, Ordering::AcqRel)
    }

    /// Number of damaged files, quarantined or not.
    pub(super) fn count(&self) -> u64 {
        self.pending() + self.apart.load(Ordering::Acquire)
    }

    /// A line per file, at most `NAMED_MAX` of each kind.
    pub(super) fn named(&self) -> Vec<String> {
        let files = self.files.lock();
        let pending = files.pending.iter().map(|(file, what)| format!("{}: {what}", file.display()));
        let apart = files.apart.iter().take(NAMED_MAX).map(|(file, what)| format!("{}: {what}", file.display()));
        apart.chain(pending).collect()
    }
}

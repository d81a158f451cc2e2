//! The state of a running backup, for operators: written by its thread, read by others.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use throng_engine::counter_table;

use super::now_ms;

counter_table! {
    /// Counters of the continuous backup. Its thread is their only writer.
    BackupCounters:
    lag_ms Gauge "Age of the oldest commit that is not in the backup yet, in milliseconds; 0 if there is none.";
    kept_bytes Gauge "Bytes of the journal kept on disk only because they are not in the backup yet.";
    journal_pieces Count "Pieces of the journal written to the backup.";
    journal_bytes Count "Bytes of these pieces.";
    full_pieces Count "Full pieces completed.";
    full_bytes Count "Bytes written for full pieces, complete or not.";
    full_age_s Gauge "Seconds since the newest full piece was completed; 0 if there is none.";
    restarts Count "Times the backup had to begin with a new full piece, because the journal it lacked was given up.";
    failures Count "Requests to the place of the backup that have failed.";
    files Count "Uploaded files written to the backup.";
    file_bytes Count "Bytes written for uploaded files, complete or not.";
    pruned Count "Objects removed because they were older than backup_keep_seconds.";
}

/// The state.
#[derive(Debug, Default)]
pub struct Standing {
    pub(super) counters: BackupCounters,
    /// What is wrong, as a sentence, while something is.
    trouble: ArcSwapOption<String>,
    /// Why the last full piece was not completed.
    full_trouble: ArcSwapOption<String>,
    /// Why uploaded files, or settings, are not in the backup.
    files_trouble: ArcSwapOption<String>,
    /// Time of the newest full piece, milliseconds since 1970; 0 if there is none.
    full_ms: AtomicU64,
    /// The time of the oldest commit that is not in the backup; 0 if there is none.
    behind_ms: AtomicU64,
}

impl Standing {
    /// Its counters, as of now.
    pub fn counters(&self) -> &BackupCounters {
        self.counters.lag_ms.set(self.lag_ms());
        let full_ms = self.full_ms.load(Ordering::Relaxed);
        self.counters.full_age_s.set(if full_ms == 0 { 0 } else { now_ms().saturating_sub(full_ms) / 1000 });
        &self.counters
    }

    /// Age of the oldest commit that is not in the backup, milliseconds.
    pub fn lag_ms(&self) -> u64 {
        match self.behind_ms.load(Ordering::Relaxed) {
            0 => 0,
            behind_ms => now_ms().saturating_sub(behind_ms),
        }
    }

    /// Time of the newest full piece in seconds since 1970, if there is one.
    pub fn full_s(&self) -> Option<u64> {
        Some(self.full_ms.load(Ordering::Relaxed) / 1000).filter(|full_s| *full_s > 0)
    }

    /// What is wrong, in words.
    pub fn trouble(&self) -> Option<Arc<String>> {
        let others = [&self.full_trouble, &self.files_trouble];
        self.trouble.load_full().or_else(|| others.into_iter().find_map(ArcSwapOption::load_full))
    }

    /// Uploaded files or settings could not be written, or were.
    pub(super) fn set_files_trouble(&self, what: Option<String>) {
        let what = what.map(|what| format!("uploaded files or settings are not in the backup: {what}"));
        if what.as_ref() != self.files_trouble.load().as_deref()
            && let Some(what) = &what
        {
            self.counters.failures.one();
            tracing::error!("{what}");
        }
        self.files_trouble.store(what.map(Arc::new));
    }

    /// The last full piece was not completed, or was.
    pub(super) fn fail_full(&self, what: Option<String>) {
        if let Some(what) = &what {
            tracing::error!("the backup has no new full piece: {what}");
        }
        self.full_trouble.store(what.map(|what| Arc::new(format!("a full piece was not completed: {what}"))));
    }

    pub(super) fn set_behind(&self, time_ms: Option<u64>) {
        self.behind_ms.store(time_ms.unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn set_full(&self, time_ms: u64) {
        self.full_ms.store(time_ms, Ordering::Relaxed);
    }

    /// Something is wrong: logged when it begins, and when it changes.
    pub(super) fn fail(&self, what: &str) {
        self.counters.failures.one();
        if self.trouble.load().as_deref().is_none_or(|before| before != what) {
            tracing::error!("the backup has failed, and goes on trying: {what}");
            self.trouble.store(Some(Arc::new(what.to_owned())));
        }
    }

    pub(super) fn recover(&self) {
        if self.trouble.swap(None).is_some() {
            tracing::info!("the backup works again");
        }
    }
}

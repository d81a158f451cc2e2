//! Writes rows in memory to tables, beside the merging of tables.
//!
//! fjall has one queue for both: during a long merge full memories would pile up, and commits wait for seconds. This
//! thread takes them first. It also drops what fjall keeps longer than it has to: rows that have become a table stay
//! referenced by older versions of the tree until the next memory is full.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use fjall::{AbstractTree, Database, Keyspace};

use super::DiskError;

/// The thread. Ends when dropped, after the table that it is writing.
pub(super) struct Flusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    wanted: bool,
    closing: bool,
    failed: Option<String>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Flusher {
    /// Starts the thread.
    pub(super) fn start(db: Database, rows: Keyspace, give_back: fn()) -> Result<Flusher, DiskError> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let thread = std::thread::Builder::new()
            .name("throng-flush".into())
            .spawn(move || run(&own, &db, &rows, give_back))
            .map_err(|e| DiskError::from_io("the thread that writes tables", e))?;
        Ok(Flusher { shared, thread: Some(thread) })
    }

    /// Full memories are there to be written.
    pub(super) fn wake(&self) {
        self.shared.state().wanted = true;
        self.shared.changed.notify_one();
    }

    /// Why a table could not be written; then the engine has to be opened anew.
    pub(super) fn failure(&self) -> Option<String> {
        self.shared.state().failed.clone()
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.state().closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // What it panicked with was said when it did, and nothing waits for it any more.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared, db: &Database, rows: &Keyspace, give_back: fn()) {
    let _guard = super::commit::AbortOnPanic;
    loop {
        let mut state = shared.state();
        while !state.wanted && !state.closing {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closing {
            return;
        }
        state.wanted = false;
        drop(state);
        if let Err(error) = write(db, rows) {
            shared.state().failed = Some(error.to_string());
        }
        give_back();
    }
}

fn write(db: &Database, rows: &Keyspace) -> Result<(), fjall::Error> {
    let tree = &rows.tree;
    {
        // fjall's worker takes the same lock: whoever comes second finds nothing left.
        let lock = tree.get_flush_lock();
        tree.flush(&lock, db.supervisor.snapshot_tracker.get_seqno_safe_to_gc())?;
    }
    release(db, rows);
    Ok(())
}

/// Drops versions of the tree that no read can ask for any more, and with them rows that stand in tables.
fn release(db: &Database, rows: &Keyspace) {
    let snapshots = &db.supervisor.snapshot_tracker;
    // Read before the snapshots are counted: one that is opened later is of this number or a higher one, and the last
    // version below this number stays for it.
    let visible = snapshots.get();
    if snapshots.open_snapshots() > 0 {
        return;
    }
    let mut versions = rows.tree.get_version_history_lock();
    if let Err(error) = versions.maintenance(rows.path(), visible) {
        tracing::warn!(%error, "old versions of the tables' list could not be removed");
    }
}

//! A thread of the engine that does one kind of work on request.
//!
//! There are three: one writes memory tables to tables, one merges tables, one frees the space of
//! merged ones. A merge may take seconds, and full memory tables must not wait for it, because
//! commits would wait for them. The first two yield to threads that messages wait for: where cores
//! are few, such a thread would otherwise wait for a tick of the kernel (4 ms at 250 Hz) behind a
//! merge. The one that writes tables does not lower its priority in addition: commits wait for it
//! when two buffers are full, and in a storm that saturates all cores it would starve.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::DiskError;
use crate::waits::{self, Condvar, Mutex, MutexGuard, Place};

/// Rows after which a thread that writes tables yields its core ([`give_way`]): about a tenth of a
/// millisecond.
const ROWS_PER_TURN: u32 = 64;

/// Pause before work that lacked space is retried.
const PAUSE: Duration = Duration::from_millis(100);

/// Called for each row written to a table, with a counter of its own. Niceness alone does not help
/// a thread that wakes up: the kernel lets the running thread finish a slice, which it checks once
/// per tick.
pub(super) fn give_way(rows: &mut u32) {
    *rows = rows.wrapping_add(1);
    if rows.is_multiple_of(ROWS_PER_TURN) {
        std::thread::yield_now();
    }
}

/// The thread. When dropped, it ends after its present piece of work.
pub(super) struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Whether the thread has failed: each commit checks this, without a lock.
    has_failed: AtomicBool,
}

#[derive(Default)]
struct State {
    wanted: bool,
    closing: bool,
    starved: bool,
    failed: Option<DiskError>,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            state: Mutex::new(Place::LockWorker, State::default()),
            changed: Condvar::default(),
            has_failed: AtomicBool::new(false),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Worker {
    /// Starts the thread; if it `stands_back`, with lower priority ([`waits::stand_back`]). `work`
    /// does a piece of work and returns whether there may be more.
    pub(super) fn start(
        name: &str,
        stands_back: bool,
        mut work: impl FnMut() -> Result<bool, DiskError> + Send + 'static,
    ) -> Result<Worker, DiskError> {
        let shared = Arc::new(Shared::default());
        let own = shared.clone();
        let run = move || {
            let _guard = super::commit::AbortOnPanic;
            if stands_back {
                waits::stand_back();
            }
            #[cfg(debug_assertions)]
            crate::plant::pass(std::thread::current().name().unwrap_or_default());
            while wait(&own) {
                let result = work();
                let mut state = own.state();
                state.starved = result.as_ref().is_err_and(DiskError::is_out_of_space);
                match result {
                    Ok(more) => state.wanted |= more,
                    Err(DiskError::OutOfSpace(_)) => state.wanted = true,
                    Err(error) => {
                        state.failed = Some(error);
                        own.has_failed.store(true, Ordering::Release);
                        return;
                    }
                }
            }
        };
        let thread = waits::spawn(name, run);
        let thread = thread.map_err(|e| DiskError::from_io(format!("the thread {name}"), e))?;
        Ok(Worker { shared, thread: Some(thread) })
    }

    /// Requests work.
    pub(super) fn wake(&self) {
        self.shared.state().wanted = true;
        self.shared.changed.notify_one();
    }

    /// Whether the work lacks space on the device.
    pub(super) fn is_starved(&self) -> bool {
        self.shared.state().starved
    }

    /// Why the thread has ended; the first caller gets the full error.
    pub(super) fn failure(&self) -> Option<DiskError> {
        let failed = self.shared.has_failed.load(Ordering::Acquire);
        let again = || DiskError::from_io("the store", std::io::Error::other("one of its threads has already failed"));
        failed.then(|| self.shared.state().failed.take().unwrap_or_else(again))
    }

    /// Asks the thread to end.
    pub(super) fn close(&self) {
        self.shared.state().closing = true;
        self.shared.changed.notify_one();
    }
}

/// Waits for a request, or while there is no space for the work; `false` at the end.
fn wait(shared: &Shared) -> bool {
    let mut state = shared.state();
    if state.starved && !state.closing {
        state = shared.changed.wait_timeout(Place::DiskSpace, state, PAUSE);
    }
    while !state.wanted && !state.closing {
        state = shared.changed.wait(Place::TableWork, state);
    }
    state.wanted = false;
    !state.closing
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // Its panic was reported when it happened, and nothing waits for it any more.
            let _ = thread.join();
        }
    }
}

//! A thread that repeats its work periodically.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::place::Place;
use super::slot::{at, spawn};

/// The thread; when this is dropped, it ends after its present piece of work.
#[derive(Debug)]
pub struct Repeated {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts a registered thread that runs `work` after each pause of `every`.
///
/// # Errors
/// The system's, if a thread cannot be created.
pub fn repeat(name: &str, every: Duration, mut work: impl FnMut() + Send + 'static) -> io::Result<Repeated> {
    let (stop, stopped) = sync_channel::<()>(0);
    let pause = move || {
        let _at = at(Place::Interval);
        stopped.recv_timeout(every)
    };
    let thread = spawn(name, move || {
        while pause() == Err(RecvTimeoutError::Timeout) {
            work();
        }
    })?;
    Ok(Repeated { stop: Some(stop), thread: Some(thread) })
}

impl Drop for Repeated {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

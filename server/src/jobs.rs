//! Threads for work that is long on purpose (PBKDF2), so that it never stands in a shard's turn.
//!
//! Logins wait here, not messages: a plain queue with a lock does.

use std::sync::mpsc::{Receiver, RecvError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use throng_engine::io::{Job, JobDone};

use crate::disk::Wake;
use crate::waits::{self, Place};

/// Jobs that may wait for a thread; shards keep what is beyond.
const QUEUE_JOBS_MAX: usize = 1024;

struct Order {
    shard: usize,
    token: u64,
    job: Job,
}

/// A shard's end.
pub struct JobPort {
    shard: usize,
    orders: SyncSender<Order>,
    done: Receiver<(u64, JobDone)>,
    /// Jobs that the queue had no room for: at most one a connection.
    kept: std::collections::VecDeque<(u64, Job)>,
    /// Jobs handed out and not back yet: most turns have none, and look into no queue.
    under_way: usize,
}

impl JobPort {
    /// Hands a job out.
    pub fn submit(&mut self, token: u64, job: Job) {
        self.kept.push_back((token, job));
        self.push_on();
    }

    /// Tries again to hand out what was kept.
    pub fn push_on(&mut self) {
        while let Some((token, job)) = self.kept.pop_front() {
            let order = Order { shard: self.shard, token, job };
            match self.orders.try_send(order) {
                Ok(()) => self.under_way += 1,
                Err(TrySendError::Full(order) | TrySendError::Disconnected(order)) => {
                    self.kept.push_front((order.token, order.job));
                    return;
                }
            }
        }
    }

    /// A finished job.
    pub fn poll(&mut self) -> Option<(u64, JobDone)> {
        if self.under_way == 0 {
            return None;
        }
        let done = self.done.try_recv().ok()?;
        self.under_way -= 1;
        Some(done)
    }

    /// Jobs that wait here for room in the queue.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }
}

/// Waits for a job, behind the threads that waited before: all of them rest.
fn next(queue: &Mutex<Receiver<Order>>) -> Result<Order, RecvError> {
    let _at = waits::at(Place::Jobs);
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv()
}

/// Starts `threads` threads; they end when the last port is dropped.
///
/// # Errors
/// The system's when there can be no thread.
pub fn start(threads: usize, wakes: &[Arc<dyn Wake>]) -> std::io::Result<Vec<JobPort>> {
    let (orders, queue) = sync_channel::<Order>(QUEUE_JOBS_MAX);
    let queue = Arc::new(Mutex::new(queue));
    let mut ports = Vec::new();
    let mut answers = Vec::new();
    for shard in 0..wakes.len() {
        // As many as may be in the queue and at work can be done before a shard looks.
        let (done_in, done) = sync_channel(QUEUE_JOBS_MAX + threads);
        answers.push(done_in);
        ports.push(JobPort {
            shard,
            orders: orders.clone(),
            done,
            kept: std::collections::VecDeque::new(),
            under_way: 0,
        });
    }
    for _ in 0..threads.max(1) {
        let (queue, answers, wakes) = (queue.clone(), answers.clone(), wakes.to_vec());
        waits::spawn("throng-job", move || {
            loop {
                let Ok(Order { shard, token, job }) = next(&queue) else { return };
                #[cfg(debug_assertions)]
                crate::plant::pass("throng-job");
                let done = job.run();
                if answers[shard].send((token, done)).is_ok() {
                    wakes[shard].wake();
                }
            }
        })?;
    }
    Ok(ports)
}

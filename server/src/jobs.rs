//! Threads for deliberately slow work (PBKDF2), so that it never runs in a shard's turn.
//!
//! Logins wait for it, messages do not: a plain queue with a lock suffices. There are two lanes, so
//! that a client that keeps changing passwords or creating accounts delays no login.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use throng_engine::io::{Job, JobDone};

use crate::disk::Wake;
use crate::port::{self, Entry, Given, Port};
use crate::waits::{self, Place};

/// Maximum number of jobs per lane; shards keep what is beyond.
const LANE_JOBS_MAX: usize = 512;

/// One in this many jobs is taken from the other lane, if logins wait as well.
const TURNS: u32 = 8;

type Order = Given<Job>;

/// The lane of a job.
fn lane(job: &Job) -> usize {
    match job {
        Job::CheckPassword(_) => LOGINS,
        Job::DeriveKeys { .. } => CHANGES,
    }
}

/// Password verification.
const LOGINS: usize = 0;
/// Key derivation for new passwords and accounts.
const CHANGES: usize = 1;

#[derive(Default)]
struct Lanes {
    /// Bounded each by [`LANE_JOBS_MAX`].
    waiting: [VecDeque<Order>; 2],
    taken: u32,
    /// Number of ports; the threads end when it is zero.
    ports: usize,
}

impl Lanes {
    fn take(&mut self) -> Option<Order> {
        self.taken = self.taken.wrapping_add(1);
        let first = if self.taken.is_multiple_of(TURNS) { CHANGES } else { LOGINS };
        self.waiting[first].pop_front().or_else(|| self.waiting[1 - first].pop_front())
    }
}

#[derive(Default)]
struct Queue {
    lanes: Mutex<Lanes>,
    came: Condvar,
}

impl Queue {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job: idle threads block in this call. `None` when no port is left.
    fn next(&self) -> Option<Order> {
        let _at = waits::at(Place::Jobs);
        let mut lanes = self.lanes();
        loop {
            match lanes.take() {
                None if lanes.ports > 0 => {
                    lanes = self.came.wait(lanes).unwrap_or_else(PoisonError::into_inner);
                }
                order => return order,
            }
        }
    }
}

/// A shard's entry to the threads.
pub struct Way {
    queue: Arc<Queue>,
    /// Jobs that did not fit into their lane: at most one per connection.
    kept: [VecDeque<Order>; 2],
}

/// A shard's port.
pub type JobPort = Port<Way>;

impl Entry for Way {
    type What = Job;
    type Answer = JobDone;

    fn give(&mut self, given: Order) -> Result<(), JobDone> {
        self.kept[lane(&given.what)].push_back(given);
        self.push_on();
        Ok(())
    }
}

impl Way {
    fn push_on(&mut self) {
        if self.kept() == 0 {
            return;
        }
        let mut lanes = self.queue.lanes();
        for (waiting, kept) in lanes.waiting.iter_mut().zip(&mut self.kept) {
            let room = LANE_JOBS_MAX.saturating_sub(waiting.len()).min(kept.len());
            waiting.extend(kept.drain(..room));
            (0..room).for_each(|_| self.queue.came.notify_one());
        }
    }

    fn kept(&self) -> usize {
        self.kept.iter().map(VecDeque::len).sum()
    }
}

impl JobPort {
    /// Retries the jobs that were kept.
    pub fn push_on(&mut self) {
        self.entry.push_on();
    }

    /// Jobs that wait for room in the queue.
    pub fn kept(&self) -> usize {
        self.entry.kept()
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        self.queue.lanes().ports -= 1;
        self.queue.came.notify_all();
    }
}

/// Starts `threads` threads; they end when the last port is dropped.
///
/// # Errors
/// The system's, if a thread cannot be created.
pub fn start(threads: usize, wakes: &[Arc<dyn Wake>]) -> std::io::Result<Vec<JobPort>> {
    let queue = Arc::new(Queue::default());
    queue.lanes().ports = wakes.len();
    // All jobs in the queue and in progress may finish before a shard takes an answer.
    let room = 2 * LANE_JOBS_MAX + threads;
    let (ports, answers) = port::ports(wakes, room, || Way { queue: queue.clone(), kept: Default::default() });
    for _ in 0..threads.max(1) {
        let (queue, answers) = (queue.clone(), answers.clone());
        waits::spawn("throng-job", move || {
            // Messages have priority on a host without spare cores.
            waits::stand_back();
            while let Some(Given { shard, token, what: job }) = queue.next() {
                #[cfg(debug_assertions)]
                crate::plant::pass("throng-job");
                answers.answer(shard, token, job.run());
            }
        })?;
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    /// A login behind a full lane of password changes finishes long before they do.
    #[test]
    fn changes_hold_up_no_login() {
        let mut lanes = Lanes::default();
        let order = |lane: usize| {
            let job = Job::DeriveKeys { password: "p".into(), salt: [1].into(), iterations: 1, created_us: 0 };
            Order { shard: 0, token: lane as u64, what: job }
        };
        for (lane, jobs) in [(CHANGES, 100), (LOGINS, 14)] {
            lanes.waiting[lane].extend((0..jobs).map(|_| order(lane)));
        }
        let first: Vec<u64> = (0..16).filter_map(|_| lanes.take()).map(|order| order.token).collect();
        assert_eq!(first.iter().filter(|lane| **lane == LOGINS as u64).count(), 14, "{first:?}");
        assert_eq!(std::iter::from_fn(|| lanes.take()).count(), 98, "and the others come, too");
    }

    /// Jobs that do not fit into their lane are kept and eventually done; the threads end with the
    /// ports.
    #[test]
    fn more_jobs_than_fit_are_all_done() {
        let wakes: Vec<Arc<dyn Wake>> = vec![Arc::new(Nobody)];
        let mut port = start(2, &wakes).expect("threads").remove(0);
        let jobs = LANE_JOBS_MAX as u64 * 3;
        for token in 0..jobs {
            let job = Job::DeriveKeys { password: "p".into(), salt: [1].into(), iterations: 1, created_us: 0 };
            port.submit(token, job);
        }
        let mut done = Vec::new();
        while done.len() < jobs as usize {
            port.push_on();
            done.extend(std::iter::from_fn(|| port.poll()).map(|(token, _)| token));
            std::thread::yield_now();
        }
        done.sort_unstable();
        assert!(done.into_iter().eq(0..jobs) && port.kept() == 0);
        let queue = Arc::downgrade(&port.entry.queue);
        drop(port);
        while queue.strong_count() > 0 {
            std::thread::yield_now();
        }
    }
}

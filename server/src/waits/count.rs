//! Counting of waits: switched on and off while the server runs, for all threads and places or for
//! some by name.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::pattern::{COUNTED, Pattern, mask};
use super::place::PLACES;
use super::slot::{BUCKETS, Registered, Waits, threads};

fn tell_threads() {
    for thread in threads().iter() {
        thread.slot.counted.store(mask(&thread.name), Ordering::Relaxed);
    }
}

/// Waits are counted until this is dropped.
#[derive(Debug)]
pub struct Counting(());

impl Counting {
    /// Counts the waits that match `pattern`. Only one count runs at a time: a second replaces the
    /// first.
    pub fn start(pattern: Pattern) -> Counting {
        for thread in threads().iter() {
            thread.slot.waits.iter().for_each(|waits| waits.worst_ns.store(0, Ordering::Relaxed));
        }
        COUNTED.store(Some(Arc::new(pattern)));
        tell_threads();
        Counting(())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        COUNTED.store(None);
        tell_threads();
    }
}

/// The waits of a thread at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Count {
    /// Number of waits that have ended.
    pub count: u64,
    /// Their total time.
    pub total: Duration,
    /// The longest since counting began.
    pub worst: Duration,
    buckets: [u32; BUCKETS],
}

impl Count {
    /// The waits since `before`.
    #[must_use]
    pub fn since(&self, before: &Count) -> Count {
        let mut buckets = self.buckets;
        buckets.iter_mut().zip(before.buckets).for_each(|(now, then)| *now = now.wrapping_sub(then));
        Count {
            count: self.count.saturating_sub(before.count),
            total: self.total.saturating_sub(before.total),
            worst: self.worst,
            buckets,
        }
    }

    /// Adds the waits of another thread.
    pub fn add(&mut self, other: &Count) {
        self.count += other.count;
        self.total += other.total;
        self.worst = self.worst.max(other.worst);
        self.buckets.iter_mut().zip(other.buckets).for_each(|(now, more)| *now = now.saturating_add(more));
    }

    /// The time that 99 of 100 waits did not exceed, to a factor of four; `None` without waits.
    pub fn p99(&self) -> Option<Duration> {
        let all: u64 = self.buckets.iter().map(|n| u64::from(*n)).sum();
        let mut left = all - all / 100;
        let at = self.buckets.iter().position(|n| {
            left = left.saturating_sub(u64::from(*n));
            left == 0
        });
        let at = at.filter(|_| all > 0)?;
        let bound = Duration::from_micros(1 << (2 * at));
        Some(if at + 1 < BUCKETS { bound.min(self.worst) } else { self.worst })
    }
}

/// The counted waits of one thread since it began.
#[derive(Clone, Debug)]
pub struct Tally {
    /// The thread's name.
    pub thread: Arc<str>,
    /// The thread's id in the kernel.
    pub tid: i32,
    /// By place.
    pub counts: [Count; PLACES],
}

/// The waits of all threads, read without a lock: a wait that ends during the call may be in one
/// figure of a place and not yet in another.
pub fn tallies() -> Vec<Tally> {
    let count = |waits: &Waits| Count {
        count: waits.count.load(Ordering::Relaxed),
        total: Duration::from_nanos(waits.total_ns.load(Ordering::Relaxed)),
        worst: Duration::from_nanos(waits.worst_ns.load(Ordering::Relaxed)),
        buckets: std::array::from_fn(|at| waits.buckets[at].load(Ordering::Relaxed)),
    };
    let tally = |thread: &Registered| Tally {
        thread: thread.name.clone(),
        tid: thread.tid,
        counts: std::array::from_fn(|place| count(&thread.slot.waits[place])),
    };
    threads().iter().map(tally).collect()
}

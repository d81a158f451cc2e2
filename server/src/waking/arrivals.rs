//! A queue that its reader looks into only when it has been rung for.

use super::sync::{AtomicBool, Mutex, Ordering, Place};

/// Things from other threads, with their keys.
pub struct Arrivals<T> {
    queue: Mutex<Vec<(u64, T)>>,
    /// Whether there are some: each waking looks, and takes no lock for it.
    some: AtomicBool,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Arrivals<T> {
        Arrivals { queue: Mutex::new(Place::LockArrivals, Vec::new()), some: AtomicBool::new(false) }
    }
}

impl<T> Arrivals<T> {
    /// Adds one; the reader's [`Bell::ring`](super::Bell::ring) follows.
    pub fn push(&self, key: u64, thing: T) {
        let mut queue = self.queue.lock();
        queue.push((key, thing));
        self.some.store(true, Ordering::Release);
    }

    /// All that came before the last [`Bell::wakes_up`](super::Bell::wakes_up), at least.
    pub fn take(&self) -> Vec<(u64, T)> {
        if !self.some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut queue = self.queue.lock();
        self.some.store(false, Ordering::Release);
        std::mem::take(&mut *queue)
    }
}

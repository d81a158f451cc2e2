//! A queue that its reader checks only after its bell was rung.

use super::sync::{AtomicBool, Mutex, Ordering, Place};

/// Items from other threads, with their keys.
pub struct Arrivals<T> {
    queue: Mutex<Vec<(u64, T)>>,
    /// Whether there are some: each wake-up checks this without a lock.
    some: AtomicBool,
}

impl<T> Default for Arrivals<T> {
    fn default() -> Arrivals<T> {
        Arrivals { queue: Mutex::new(Place::LockArrivals, Vec::new()), some: AtomicBool::new(false) }
    }
}

impl<T> Arrivals<T> {
    /// Adds one; the caller then calls the reader's [`Bell::ring`](super::Bell::ring).
    pub fn push(&self, key: u64, thing: T) {
        let mut queue = self.queue.lock();
        queue.push((key, thing));
        self.some.store(true, Ordering::Release);
    }

    /// Takes at least all items that were added before the last
    /// [`Bell::wakes_up`](super::Bell::wakes_up).
    pub fn take(&self) -> Vec<(u64, T)> {
        if !self.some.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut queue = self.queue.lock();
        self.some.store(false, Ordering::Release);
        std::mem::take(&mut *queue)
    }
}

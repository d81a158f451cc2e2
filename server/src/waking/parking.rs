//! A thread that parks while its queues are empty.

use super::sync::{AtomicBool, Ordering, fence};

/// A parking place; see the module. One thread sleeps, any number put something into its queues.
///
/// Both sides write, then read what the other one writes, with a fence between. Either the sleeper
/// sees the new item in its queue, or the producer sees that the sleeper sleeps.
#[derive(Debug, Default)]
pub struct Parking {
    parked: AtomicBool,
}

impl Parking {
    /// Whether the sleeper must be unparked; called after an item was put into one of its queues.
    /// True once per sleep.
    #[inline]
    #[must_use = "the sleeper sleeps on"]
    pub fn must_unpark(&self) -> bool {
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::AcqRel)
    }

    /// Sleeps with `park`, unless the queues turn out not to be `empty` after the sleep was
    /// announced. It may return spuriously: the caller checks its queues and calls it again.
    pub fn sleep(&self, empty: impl FnOnce() -> bool, park: impl FnOnce()) {
        self.parked.store(true, Ordering::Release);
        // Pairs with the fence in `must_unpark`.
        fence(Ordering::SeqCst);
        if empty() {
            park();
        }
        self.parked.store(false, Ordering::Release);
    }
}

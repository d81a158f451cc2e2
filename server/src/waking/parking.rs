//! A thread that parks when its queues are empty.

use super::sync::{AtomicBool, Ordering, fence};

/// See the module. One thread sleeps, any number put something into its queues.
///
/// Both sides write, then look at what the other one writes, with a fence between: either the sleeper sees what was put
/// into its queue, or who put it there sees the sleeper.
#[derive(Debug, Default)]
pub struct Parking {
    parked: AtomicBool,
}

impl Parking {
    /// Whether the sleeper has to be unparked, asked after something was put into a queue of its. True once a sleep.
    #[inline]
    #[must_use = "the sleeper sleeps on"]
    pub fn must_unpark(&self) -> bool {
        // Pairs with the fence in `sleep`.
        fence(Ordering::SeqCst);
        self.parked.load(Ordering::Relaxed) && self.parked.swap(false, Ordering::AcqRel)
    }

    /// The sleeper sleeps by `park`, unless its queues turn out not to be `empty` once everybody knows that it will. It
    /// may return without a reason: whoever calls it looks and calls it again.
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

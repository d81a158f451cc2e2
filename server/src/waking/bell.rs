//! The bell of a thread that sleeps in a system call: who rings makes a system call only if it sleeps.

use super::sync::{AtomicU8, Ordering};

/// At work: it will look before it sleeps, no need for a system call.
const AWAKE: u8 = 0;
/// In the kernel: it has to be woken.
const ASLEEP: u8 = 1;
/// Rung already.
const NOTIFIED: u8 = 2;

/// See the module. One thread sleeps, any number ring.
///
/// All changes are read-modify-writes of one atomic, so they have one order. A ring comes either before the sleeper's
/// [`Bell::wakes_up`], and then the sleeper sees what was written before it, or after it, and then the sleeper cannot fall
/// asleep until it has woken up again.
#[derive(Debug, Default)]
pub struct Bell(AtomicU8);

impl Bell {
    /// Rings. What was written before is seen by the sleeper after its next [`Bell::wakes_up`], which comes at once: if
    /// this is true, as soon as the caller has made the sleeper's system call return.
    #[inline]
    #[must_use = "the sleeper sleeps on"]
    pub fn ring(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP
    }

    /// The sleeper is about to sleep. False when it was rung for since it woke up: it must not.
    #[inline]
    pub fn falls_asleep(&self) -> bool {
        self.0.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The sleeper looks at what there is after this, whether it has slept or not. True when it was rung for since the
    /// last time.
    #[inline]
    pub fn wakes_up(&self) -> bool {
        self.0.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }
}

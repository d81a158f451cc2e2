//! The bell of a thread that sleeps in a system call: ringing costs a system call only if it
//! sleeps.

use super::sync::{AtomicU8, Ordering};

/// Awake: it checks before it sleeps, and no system call is needed.
const AWAKE: u8 = 0;
/// In the kernel: it must be woken.
const ASLEEP: u8 = 1;
/// Already rung.
const NOTIFIED: u8 = 2;

/// A bell; see the module. One thread sleeps, any number ring.
///
/// All changes are read-modify-writes of one atomic, so they have one order. A ring may precede the
/// sleeper's [`Bell::wakes_up`]: then the sleeper sees what was written before the ring. Or it
/// follows: then the sleeper cannot fall asleep until it has woken up again.
#[derive(Debug, Default)]
pub struct Bell(AtomicU8);

impl Bell {
    /// Rings. The sleeper sees prior writes after its next [`Bell::wakes_up`]. If this returns
    /// true, the caller must make the sleeper's system call return; otherwise the sleeper wakes up
    /// by itself.
    #[inline]
    #[must_use = "the sleeper sleeps on"]
    pub fn ring(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP
    }

    /// Called by the sleeper before it sleeps. False if it was rung since it woke up: it must not
    /// sleep.
    #[inline]
    pub fn falls_asleep(&self) -> bool {
        self.0.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Called by the sleeper before it checks its queues, whether it has slept or not. True if it
    /// was rung since the last call.
    #[inline]
    pub fn wakes_up(&self) -> bool {
        self.0.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }
}

//! The files of `server/src/waking`, compiled over the atomics of a model checker (`loom`), and the threads that use them.
//!
//! The model plays every order of the threads' steps, up to a bound of how often one interrupts another, and lets each load
//! see every value that the memory model allows, so that an ordering that is too weak is found on a host whose processor
//! would forgive it. A wake-up that is lost ends a play with all threads asleep, which fails.
//!
//! Each module below has the same files over other atomics: the model's as they are, or with a fault planted, which shows
//! that the plays can fail. `LOOM_MAX_PREEMPTIONS=5 cargo test --release -p throng-waking` plays more than the usual ones.

#![forbid(unsafe_code)]
#![allow(clippy::duplicate_mod, reason = "the same files over other atomics are what this crate is")]

use std::sync::atomic::Ordering;

/// The model's lock, with the face of the server's.
#[derive(Debug)]
pub struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// Where threads wait is of no interest here.
    pub fn new(_: Place, value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("a play that panics is over")
    }
}

/// The model does not know that a store of a thread comes behind a read-modify-write of another's that has read an earlier
/// store of the first one, and lets a later load see the two in the wrong order, which C++ forbids ([atomics.order]). It
/// knows that of two read-modify-writes: stores here are swaps, with the ordering of the store.
macro_rules! ordered {
    ($name:ident, $value:ty) => {
        /// The model's, with stores in one order.
        #[derive(Debug, Default)]
        pub struct $name(loom::sync::atomic::$name);

        impl $name {
            /// Has this value.
            pub fn new(value: $value) -> $name {
                $name(loom::sync::atomic::$name::new(value))
            }

            /// As std's.
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }

            /// As std's.
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.swap(value, order);
            }

            /// As std's.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, order)
            }

            /// As std's.
            ///
            /// # Errors
            /// The value, if it is not `from`.
            pub fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                good: Ordering,
                bad: Ordering,
            ) -> Result<$value, $value> {
                self.0.compare_exchange(from, to, good, bad)
            }
        }
    };
}

ordered!(AtomicBool, bool);
ordered!(AtomicU64, u64);

/// Stands for the server's names of places.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// The one place that the files name.
    LockArrivals,
}

/// As it is in the server.
#[path = "../../../server/src/waking"]
pub mod real {
    mod sync {
        pub(super) use crate::{AtomicBool, AtomicU64, Mutex, Place};
        pub(super) use loom::sync::atomic::{AtomicU8, Ordering, fence};
    }
    mod arrivals;
    mod bell;
    mod gates;
    #[path = "../../../tests/waking/src/models.rs"]
    pub mod models;
    mod parking;

    pub use arrivals::Arrivals;
    pub use bell::Bell;
    pub use gates::Gates;
    pub use parking::Parking;
}

/// Planted: the fences do nothing.
#[path = "../../../server/src/waking"]
pub mod fenceless {
    mod sync {
        pub(super) use crate::{AtomicBool, AtomicU64, Mutex, Place};
        pub(super) use loom::sync::atomic::{AtomicU8, Ordering};

        pub(super) fn fence(_: Ordering) {}
    }
    mod arrivals;
    mod bell;
    mod gates;
    #[path = "../../../tests/waking/src/models.rs"]
    pub mod models;
    mod parking;

    pub use arrivals::Arrivals;
    pub use bell::Bell;
    pub use gates::Gates;
    pub use parking::Parking;
}

/// Planted: the sleeper looks at its bell, and falls asleep later, whatever has happened between.
#[path = "../../../server/src/waking"]
pub mod torn {
    mod sync {
        pub(super) use crate::torn_bell::AtomicU8;
        pub(super) use crate::{AtomicBool, AtomicU64, Mutex, Place};
        pub(super) use loom::sync::atomic::{Ordering, fence};
    }
    mod arrivals;
    mod bell;
    mod gates;
    #[path = "../../../tests/waking/src/models.rs"]
    pub mod models;
    mod parking;

    pub use arrivals::Arrivals;
    pub use bell::Bell;
    pub use gates::Gates;
    pub use parking::Parking;
}

/// Planted: a ring carries nothing of what was written before it.
#[path = "../../../server/src/waking"]
pub mod relaxed {
    mod sync {
        pub(super) use crate::relaxed_bell::AtomicU8;
        pub(super) use crate::{AtomicBool, AtomicU64, Mutex, Place};
        pub(super) use loom::sync::atomic::{Ordering, fence};
    }
    mod arrivals;
    mod bell;
    mod gates;
    #[path = "../../../tests/waking/src/models.rs"]
    pub mod models;
    mod parking;

    pub use arrivals::Arrivals;
    pub use bell::Bell;
    pub use gates::Gates;
    pub use parking::Parking;
}

mod torn_bell {
    use super::Ordering;

    #[derive(Debug, Default)]
    pub(crate) struct AtomicU8(loom::sync::atomic::AtomicU8);

    impl AtomicU8 {
        pub(crate) fn swap(&self, value: u8, order: Ordering) -> u8 {
            self.0.swap(value, order)
        }

        pub(crate) fn compare_exchange(&self, from: u8, to: u8, _: Ordering, _: Ordering) -> Result<u8, u8> {
            let seen = self.0.load(Ordering::Acquire);
            if seen != from {
                return Err(seen);
            }
            self.0.store(to, Ordering::Release);
            Ok(seen)
        }
    }
}

mod relaxed_bell {
    use super::Ordering;

    #[derive(Debug, Default)]
    pub(crate) struct AtomicU8(loom::sync::atomic::AtomicU8);

    impl AtomicU8 {
        pub(crate) fn swap(&self, value: u8, _: Ordering) -> u8 {
            self.0.swap(value, Ordering::Relaxed)
        }

        pub(crate) fn compare_exchange(&self, from: u8, to: u8, _: Ordering, _: Ordering) -> Result<u8, u8> {
            self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
        }
    }
}

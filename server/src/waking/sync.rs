//! The synchronisation primitives of this module; `tests/waking` replaces them with the model's.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};

pub(super) use crate::waits::{Mutex, Place};

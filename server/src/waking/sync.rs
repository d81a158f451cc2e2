//! What the rest of the module is made of. In its place `tests/waking` puts the model's.

pub(super) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};

pub(super) use crate::waits::{Mutex, Place};

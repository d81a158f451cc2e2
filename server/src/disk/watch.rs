//! What the committer tells everybody without a lock: how far commits are durable, and whether there is space.
//!
//! One writer (the committer's thread), any number of readers. A party that waits for a gate says so in its own slot;
//! the committer wakes only those whose gate it has passed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

use throng_engine::id::Gate;

/// How a sleeping party is woken. Called from the committer's and readers' threads; must not block.
pub trait Wake: Send + Sync {
    /// Makes the party look at its gates and rings soon.
    fn wake(&self);
}

impl<F: Fn() + Send + Sync> Wake for F {
    fn wake(&self) {
        self();
    }
}

/// Whether new messages may be accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageState {
    /// There is space.
    Ok,
    /// Free space is below the limit: commits in flight get through, new messages are to be refused.
    Full,
}

/// Nothing waited for.
const NOTHING: u64 = u64::MAX;

/// Each slot on its own cache line: its owner writes it often.
#[repr(align(128))]
struct Slot {
    waits_for: AtomicU64,
    wake: Arc<dyn Wake>,
}

pub(crate) struct Shared {
    durable: AtomicU64,
    state: AtomicU8,
    /// What the committer goes by, looked at once a group: most bytes of one, and least free space.
    pub(super) group_bytes_max: AtomicU64,
    pub(super) min_free_bytes: AtomicU64,
    slots: Box<[Slot]>,
}

impl Shared {
    pub(crate) fn new(wakes: Vec<Arc<dyn Wake>>) -> Arc<Shared> {
        let slots = wakes.into_iter().map(|wake| Slot { waits_for: AtomicU64::new(NOTHING), wake }).collect();
        Arc::new(Shared {
            durable: AtomicU64::new(0),
            state: AtomicU8::new(StorageState::Ok as u8),
            group_bytes_max: AtomicU64::new(0),
            min_free_bytes: AtomicU64::new(0),
            slots,
        })
    }

    /// Committer only: moves the durable gate on and wakes those who waited for it.
    pub(crate) fn publish(&self, gate: u64) {
        self.durable.store(gate, Ordering::Release);
        // Pairs with the fence in `wake_at`: either the waiter sees the new gate, or this thread sees the waiter.
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            let waits_for = slot.waits_for.load(Ordering::Relaxed);
            // A waiter that meanwhile asked for a later gate keeps its request.
            if waits_for <= gate
                && slot.waits_for.compare_exchange(waits_for, NOTHING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                slot.wake.wake();
            }
        }
    }

    /// Committer only: tells a new state to all.
    pub(crate) fn set_state(&self, state: StorageState) {
        self.state.store(state as u8, Ordering::Release);
        for slot in &self.slots {
            slot.wake.wake();
        }
    }

    pub(crate) fn state(&self) -> StorageState {
        if self.state.load(Ordering::Acquire) == StorageState::Ok as u8 { StorageState::Ok } else { StorageState::Full }
    }

    pub(crate) fn durable(&self) -> Gate {
        Gate(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn wake(&self, slot: usize) {
        self.slots[slot].wake.wake();
    }

    /// Whether `gate` is durable; if not, the slot's party will be woken once it is.
    pub(crate) fn wake_at(&self, slot: usize, gate: Gate) -> bool {
        if self.durable() >= gate {
            return true;
        }
        self.slots[slot].waits_for.store(gate.0, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.durable() >= gate {
            self.slots[slot].waits_for.store(NOTHING, Ordering::Release);
            return true;
        }
        false
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("durable", &self.durable()).field("state", &self.state()).finish()
    }
}

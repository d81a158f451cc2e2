//! What the committer tells everybody without a lock: how far commits are durable, and whether there is space.
//!
//! One writer (the committer's thread), any number of readers. A party that waits for a gate says so in its own slot;
//! the committer wakes only those whose gate it has passed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use throng_engine::id::Gate;

use crate::waking::Gates;

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

pub(crate) struct Shared {
    gates: Gates<Arc<dyn Wake>>,
    state: AtomicU8,
    /// What the committer goes by, looked at once a group: most bytes of one, and least free space.
    pub(super) group_bytes_max: AtomicU64,
    pub(super) min_free_bytes: AtomicU64,
    /// Bytes that have to be freed before messages are accepted again; 0 while they are.
    pub(super) lacking_bytes: AtomicU64,
    /// Most bytes that each shard may have waiting while commits are slowed down; otherwise no bound.
    pub(super) queue_bytes_max: AtomicU64,
}

impl Shared {
    pub(crate) fn new(wakes: Vec<Arc<dyn Wake>>) -> Arc<Shared> {
        Arc::new(Shared {
            gates: Gates::new(wakes),
            state: AtomicU8::new(StorageState::Ok as u8),
            group_bytes_max: AtomicU64::new(0),
            min_free_bytes: AtomicU64::new(0),
            lacking_bytes: AtomicU64::new(0),
            queue_bytes_max: AtomicU64::new(u64::MAX),
        })
    }

    /// Committer only: moves the durable gate on and wakes those who waited for it.
    pub(crate) fn publish(&self, gate: u64) {
        self.gates.publish(gate, |wake| wake.wake());
    }

    /// Committer only: tells a new state to all.
    pub(crate) fn set_state(&self, state: StorageState) {
        self.state.store(state as u8, Ordering::Release);
        self.gates.wakes().for_each(|wake| wake.wake());
    }

    pub(crate) fn state(&self) -> StorageState {
        if self.state.load(Ordering::Acquire) == StorageState::Ok as u8 { StorageState::Ok } else { StorageState::Full }
    }

    pub(crate) fn durable(&self) -> Gate {
        Gate(self.gates.durable())
    }

    pub(crate) fn slots(&self) -> usize {
        self.gates.wakes().len()
    }

    pub(crate) fn wake(&self, slot: usize) {
        self.gates.wake_of(slot).wake();
    }

    /// Whether `gate` is durable; if not, the slot's party will be woken once it is.
    pub(crate) fn wake_at(&self, slot: usize, gate: Gate) -> bool {
        self.gates.wake_at(slot, gate.0)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("durable", &self.durable()).field("state", &self.state()).finish()
    }
}

//! The committer's published state, read without a lock: the durable gate, and whether there is
//! space.
//!
//! One writer (the committer's thread), any number of readers. A party that waits for a gate
//! records it in its own slot; the committer wakes only those whose gate it has passed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use throng_engine::id::Gate;

use crate::waking::Gates;

/// Wakes a sleeping party. Called from the committer's and readers' threads; must not block.
pub trait Wake: Send + Sync {
    /// Makes the party check its gates and rings soon.
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
    /// Free space is below the limit: commits in flight succeed, new messages must be refused.
    Full,
}

pub(crate) struct Shared {
    gates: Gates<Arc<dyn Wake>>,
    state: AtomicU8,
    /// The committer's settings, read once per group: maximum bytes of a group, and minimum free
    /// space.
    pub(super) group_bytes_max: AtomicU64,
    pub(super) min_free_bytes: AtomicU64,
    /// Bytes that must be freed before messages are accepted again; 0 while they are.
    pub(super) lacking_bytes: AtomicU64,
    /// Maximum bytes that each shard may have waiting while commits are slowed down; otherwise
    /// unlimited.
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

    /// Called by the committer only: advances the durable gate and wakes those who waited for it.
    pub(crate) fn publish(&self, gate: u64) {
        self.gates.publish(gate, |wake| wake.wake());
    }

    /// Called by the committer only: publishes a new state and wakes all parties.
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

    /// Whether `gate` is durable; if not, the slot's party is woken once it is.
    pub(crate) fn wake_at(&self, slot: usize, gate: Gate) -> bool {
        self.gates.wake_at(slot, gate.0)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("durable", &self.durable()).field("state", &self.state()).finish()
    }
}

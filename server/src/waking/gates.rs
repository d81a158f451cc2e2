//! The gate up to which commits are durable, and the threads that wait for it.

use super::sync::{AtomicU64, Ordering, fence};

/// No gate is waited for.
const NOTHING: u64 = u64::MAX;

/// Each slot has its own cache line: its owner writes it often.
#[repr(align(128))]
struct Slot<W> {
    waits_for: AtomicU64,
    wake: W,
}

/// The durable gate; see the module. One thread advances it. Each waiter has its own slot, and `W`
/// is its waker.
pub struct Gates<W> {
    durable: AtomicU64,
    slots: Box<[Slot<W>]>,
}

impl<W> Gates<W> {
    /// Nothing is durable. Creates one slot for each of `wakes`.
    pub fn new(wakes: Vec<W>) -> Gates<W> {
        let slots = wakes.into_iter().map(|wake| Slot { waits_for: AtomicU64::new(NOTHING), wake }).collect();
        Gates { durable: AtomicU64::new(0), slots }
    }

    /// All commits up to this one are durable.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// The wakers of all waiters.
    pub fn wakes(&self) -> impl ExactSizeIterator<Item = &W> {
        self.slots.iter().map(|slot| &slot.wake)
    }

    /// The waker of one waiter.
    pub fn wake_of(&self, slot: usize) -> &W {
        &self.slots[slot].wake
    }

    /// Called by the only writer: advances to `gate`, and calls `wake` for each waiter that it
    /// satisfies.
    pub fn publish(&self, gate: u64, wake: impl Fn(&W)) {
        self.durable.store(gate, Ordering::Release);
        // Pairs with the fence in `wake_at`: either the waiter sees the new gate, or this thread
        // sees the waiter.
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            let waits_for = slot.waits_for.load(Ordering::Relaxed);
            // A waiter that has asked for a later gate in the meantime keeps its request.
            if waits_for <= gate
                && slot.waits_for.compare_exchange(waits_for, NOTHING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                wake(&slot.wake);
            }
        }
    }

    /// Whether `gate` is durable; if not, the slot's waiter is woken once it is.
    pub fn wake_at(&self, slot: usize, gate: u64) -> bool {
        if self.durable() >= gate {
            return true;
        }
        self.slots[slot].waits_for.store(gate, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.durable() >= gate {
            self.slots[slot].waits_for.store(NOTHING, Ordering::Release);
            return true;
        }
        false
    }
}

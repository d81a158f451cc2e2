//! How far commits are durable, and who waits for that.

use super::sync::{AtomicU64, Ordering, fence};

/// Nothing waited for.
const NOTHING: u64 = u64::MAX;

/// Each slot on its own cache line: its owner writes it often.
#[repr(align(128))]
struct Slot<W> {
    waits_for: AtomicU64,
    wake: W,
}

/// See the module. One thread moves it on; each party that waits has a slot of its own, and `W` is how it is woken.
pub struct Gates<W> {
    durable: AtomicU64,
    slots: Box<[Slot<W>]>,
}

impl<W> Gates<W> {
    /// Nothing is durable. One slot for each of `wakes`.
    pub fn new(wakes: Vec<W>) -> Gates<W> {
        let slots = wakes.into_iter().map(|wake| Slot { waits_for: AtomicU64::new(NOTHING), wake }).collect();
        Gates { durable: AtomicU64::new(0), slots }
    }

    /// All commits up to this one are durable.
    #[inline]
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// How each party is woken.
    pub fn wakes(&self) -> impl ExactSizeIterator<Item = &W> {
        self.slots.iter().map(|slot| &slot.wake)
    }

    /// How one party is woken.
    pub fn wake_of(&self, slot: usize) -> &W {
        &self.slots[slot].wake
    }

    /// The one writer: moves it on to `gate`, and calls `wake` for those who wait for that much.
    pub fn publish(&self, gate: u64, wake: impl Fn(&W)) {
        self.durable.store(gate, Ordering::Release);
        // Pairs with the fence in `wake_at`: either the waiter sees the new gate, or this thread sees the waiter.
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            let waits_for = slot.waits_for.load(Ordering::Relaxed);
            // A waiter that meanwhile asked for a later gate keeps its request.
            if waits_for <= gate
                && slot.waits_for.compare_exchange(waits_for, NOTHING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                wake(&slot.wake);
            }
        }
    }

    /// Whether `gate` is durable; if not, the slot's party will be woken once it is.
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

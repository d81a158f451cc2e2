//! Samples allocations after a number of allocated bytes per thread, and tracks which of the
//! sampled blocks are still live.
//!
//! The allocator checks [`is_sampled`] at each allocation and free: a plain load and a branch while
//! sampling is off. While it is on, each thread counts down the bytes that it allocates and takes a
//! sample whenever the count reaches zero. A block of n bytes is thus sampled with a probability of
//! n by the mean step, and a sample represents the bytes of the steps that it took. The steps vary
//! by half, so that they do not resonate with the program's allocation pattern.

use std::alloc::Layout;
use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Sample, Samples, note};

/// Maximum number of tracked blocks; 512 KiB, which are untouched zero pages until sampling starts.
const PLACES: usize = 1 << 16;

/// Slots in which a block may be stored.
const PROBES: usize = 8;

/// Bits of a slot that identify the block: its address without the three lowest. The rest is a
/// generation.
const PIECE: u64 = (1 << 45) - 1;

/// Mean bytes between two samples of a thread; 0 while sampling is off.
static STEP: AtomicU64 = AtomicU64::new(0);

/// The tracked blocks that have not been freed.
static FOLLOWED: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

thread_local! {
    /// Bytes until the next sample; `None` before the first counted allocation.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    /// State of the thread's random steps.
    static RANDOM: Cell<u64> = const { Cell::new(0) };
    /// Whether the thread is excluded.
    static LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

/// A handle of a tracked block; the default is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    place: usize,
    word: u64,
}

impl Kept {
    /// Whether it has not been freed. Meaningless for none, and after the sampler's end.
    pub fn is_there(self) -> bool {
        self.word != 0 && FOLLOWED[self.place].load(Ordering::Relaxed) == self.word
    }

    /// Whether there was room to track it.
    pub fn is_followed(self) -> bool {
        self.word != 0
    }

    /// Tracks a block from now on, if one of its slots is free.
    fn follow(at: *mut u8) -> Kept {
        let piece = piece(at);
        for place in places(piece) {
            let before = FOLLOWED[place].load(Ordering::Relaxed);
            let word = (before & !PIECE).wrapping_add(PIECE + 1) | piece;
            if before & PIECE == 0
                && FOLLOWED[place].compare_exchange(before, word, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return Kept { place, word };
            }
        }
        Kept::default()
    }
}

fn piece(at: *mut u8) -> u64 {
    (at as u64 >> 3) & PIECE
}

fn places(piece: u64) -> impl Iterator<Item = usize> {
    let first = (piece.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    (0..PROBES).map(move |probe| (first + probe) % PLACES)
}

/// Whether [`allocated`] and [`freed`] must be called.
#[inline(always)]
pub(crate) fn is_sampled() -> bool {
    STEP.load(Ordering::Relaxed) != 0
}

/// Reports an allocated block. Called by the allocator, so it must not allocate.
#[cold]
#[inline(never)]
pub(crate) fn allocated(at: *mut u8, layout: Layout) {
    let step = STEP.load(Ordering::Relaxed);
    if step == 0 || at.is_null() || LEFT_OUT.get() {
        return;
    }
    let size = layout.size() as u64;
    let left = LEFT.get().unwrap_or_else(|| random() % step);
    if size < left {
        return LEFT.set(Some(left - size));
    }
    let beyond = size - left;
    let next = step / 2 + random() % step;
    let steps = 1 + beyond / step;
    LEFT.set(Some(next.max(1)));
    let mut context = MaybeUninit::<libc::ucontext_t>::uninit();
    // SAFETY: it fills its argument with this thread's present registers, and is not returned to.
    let context = unsafe {
        if libc::getcontext(context.as_mut_ptr()) != 0 {
            return;
        }
        context.assume_init_ref()
    };
    note(context, steps * step, Kept::follow(at));
}

/// Reports that a block is about to be freed.
#[cold]
#[inline(never)]
pub(crate) fn freed(at: *mut u8) {
    let piece = piece(at);
    for place in places(piece) {
        let word = FOLLOWED[place].load(Ordering::Relaxed);
        if word & PIECE == piece {
            // No other thread frees it, and its slot is taken only while it is free.
            return FOLLOWED[place].store(word & !PIECE, Ordering::Relaxed);
        }
    }
}

/// A pseudorandom number (xorshift64, Marsaglia 2003), from the thread's own state.
fn random() -> u64 {
    RANDOM.with(|state| {
        let mut x = match state.get() {
            // The addresses of their states differ between threads.
            0 => std::ptr::from_ref(state) as u64 | 1,
            x => x,
        };
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        state.set(x);
        x
    })
}

/// Samples allocations of the process's threads until it is dropped. At most one of this and
/// [`super::TimeSampler`] exists.
pub struct HeapSampler {
    samples: Samples,
}

impl HeapSampler {
    /// Starts sampling about every `step` bytes (at least 8) of a thread's allocations; the calling
    /// thread is excluded.
    ///
    /// # Errors
    /// `ResourceBusy` if there is another sampler.
    pub fn start(step: u64) -> io::Result<HeapSampler> {
        let samples = Samples::start()?;
        // Blocks tracked earlier are discarded; generations stay, so that no old handle is taken
        // for a new one.
        for place in &FOLLOWED {
            place.store(place.load(Ordering::Relaxed) & !PIECE, Ordering::Relaxed);
        }
        LEFT_OUT.set(true);
        STEP.store(step.max(8), Ordering::SeqCst);
        Ok(HeapSampler { samples })
    }

    /// Takes out the available samples.
    pub fn drain(&mut self, each: impl FnMut(Sample<'_>)) {
        self.samples.drain(each);
    }

    /// Number of samples lost for lack of room since the start.
    pub fn dropped(&self) -> u64 {
        self.samples.dropped()
    }
}

impl Drop for HeapSampler {
    fn drop(&mut self) {
        STEP.store(0, Ordering::SeqCst);
        LEFT_OUT.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_followed_until_it_is_freed_and_its_place_may_be_taken_again() {
        // Addresses that no allocator returns, so that they do not collide with other threads'
        // blocks.
        let at = |n: u64| (0x7fff_0000_0000 + n * 16) as *mut u8;
        let first = Kept::follow(at(1));
        assert!(first.is_followed() && first.is_there());
        freed(at(2));
        assert!(first.is_there(), "another piece");
        freed(at(1));
        assert!(!first.is_there());
        let again = Kept::follow(at(1));
        assert!(again.is_there() && !first.is_there(), "another piece at the same address");
        freed(at(1));
        assert!(!Kept::default().is_there() && !Kept::default().is_followed());
        who_finds_no_place_is_not_followed_and_harms_nobody();
    }

    /// In the same test, because all share the slots.
    fn who_finds_no_place_is_not_followed_and_harms_nobody() {
        let at = |n: u64| (0x7ffe_0000_0000 + n * 16) as *mut u8;
        let kept: Vec<_> = (0..2 * PLACES as u64).map(|n| Kept::follow(at(n))).collect();
        assert!(kept.iter().any(|kept| !kept.is_followed()));
        assert!(kept.iter().filter(|kept| kept.is_followed()).all(|kept| kept.is_there()));
        (0..2 * PLACES as u64).for_each(|n| freed(at(n)));
        assert!(kept.iter().all(|kept| !kept.is_there()));
    }
}

//! A thread's own slot, and the list of all threads.
//!
//! A slot has one writer, its thread, and is read by any thread without a lock. One word holds the
//! thread's position: a number that grows with each step, and the place. This needs no clock: an
//! observer that sees the same word twice knows that the thread has not moved in between (`look`).

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::pattern::mask;
use super::place::{ALWAYS, LOCKS, PLACES, Place, Sort};

/// No place: the thread works, or sleeps outside any declared place.
const NOWHERE: u8 = u8::MAX;

/// Buckets of the histogram of waits: a microsecond, four, sixteen, ..; the last has all longer
/// ones.
pub(super) const BUCKETS: usize = 12;

/// The waits of a thread at a place.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) count: AtomicU64,
    pub(super) total_ns: AtomicU64,
    pub(super) worst_ns: AtomicU64,
    pub(super) buckets: [AtomicU32; BUCKETS],
}

/// The bucket of a wait.
fn bucket(ns: u64) -> usize {
    let micros = ns / 1_000;
    let fours = (u64::BITS - micros.leading_zeros()).div_ceil(2) as usize;
    fours.min(BUCKETS - 1)
}

impl Waits {
    fn note(&self, waited: Duration) {
        let ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        // There is one writer: a load and a store suffice.
        let add = |counter: &AtomicU64, n| counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.count, 1);
        add(&self.total_ns, ns);
        if ns > self.worst_ns.load(Ordering::Relaxed) {
            self.worst_ns.store(ns, Ordering::Relaxed);
        }
        let bucket = &self.buckets[bucket(ns)];
        bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn clear(&self) {
        for counter in [&self.count, &self.total_ns, &self.worst_ns] {
            counter.store(0, Ordering::Relaxed);
        }
        self.buckets.iter().for_each(|bucket| bucket.store(0, Ordering::Relaxed));
    }
}

/// The position of one thread. On its own cache lines, as its thread writes it often.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Slot {
    /// Steps, and the place in the lowest byte.
    at: AtomicU64,
    /// Places whose waits are counted, one bit each.
    pub(super) counted: AtomicU64,
    /// By lock: steps, and in the lowest byte the number of these that it holds.
    held: [AtomicU32; LOCKS],
    pub(super) waits: [Waits; PLACES],
}

impl Slot {
    fn new() -> Slot {
        Slot {
            at: AtomicU64::new(u64::from(NOWHERE)),
            counted: AtomicU64::new(ALWAYS),
            held: [const { AtomicU32::new(0) }; LOCKS],
            waits: std::array::from_fn(|_| Waits::default()),
        }
    }

    fn clear(&self) {
        self.at.store(u64::from(NOWHERE), Ordering::Relaxed);
        self.held.iter().for_each(|held| held.store(0, Ordering::Relaxed));
        self.waits.iter().for_each(Waits::clear);
    }

    /// The present word, and its place.
    pub(super) fn place(&self) -> (u64, Option<Place>) {
        let word = self.at.load(Ordering::Acquire);
        (word, Place::from_number(word as u8))
    }

    /// The word of a lock, and whether the thread holds it.
    pub(super) fn holds(&self, lock: usize) -> (u32, bool) {
        let word = self.held[lock].load(Ordering::Acquire);
        (word, word as u8 > 0)
    }

    fn step(&self, place: u8) {
        let steps = self.at.load(Ordering::Relaxed) >> 8;
        self.at.store((steps + 1) << 8 | u64::from(place), Ordering::Release);
    }

    fn hold(&self, lock: usize, more: i8) {
        let word = self.held[lock].load(Ordering::Relaxed);
        let depth = (word as u8).saturating_add_signed(more);
        self.held[lock].store((word >> 8).wrapping_add(1) << 8 | u32::from(depth), Ordering::Release);
    }
}

/// A thread of the server.
#[derive(Clone, Debug)]
pub(super) struct Registered {
    pub(super) name: Arc<str>,
    /// Its id in the kernel.
    pub(super) tid: i32,
    /// Whether it is a thread that is never outside a place for long.
    pub(super) turns: bool,
    pub(super) slot: &'static Slot,
}

/// All threads; replaced as a whole, so that readers never wait.
static THREADS: LazyLock<ArcSwap<Vec<Registered>>> = LazyLock::new(ArcSwap::default);

/// Slots of threads that have ended, for reuse: slots are never freed, and there are as many as
/// there were threads at once. Also held while the list is changed, and always briefly.
static FREE: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: Cell<Option<&'static Slot>> = const { Cell::new(None) };
}

/// All threads now.
pub(super) fn threads() -> Arc<Vec<Registered>> {
    THREADS.load_full()
}

/// Removes the calling thread from the list when dropped.
#[derive(Debug)]
pub struct Registration {
    slot: &'static Slot,
    of_this_thread: PhantomData<*const ()>,
}

fn register(name: &str, turns: bool) -> Registration {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let slot: &'static Slot = free.pop().unwrap_or_else(|| Box::leak(Box::new(Slot::new())));
    slot.clear();
    slot.counted.store(mask(name), Ordering::Relaxed);
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    let own = Registered { name: name.into(), tid, turns, slot };
    THREADS.store(Arc::new(THREADS.load().iter().cloned().chain([own]).collect()));
    OWN.set(Some(slot));
    Registration { slot, of_this_thread: PhantomData }
}

impl Drop for Registration {
    fn drop(&mut self) {
        OWN.set(None);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let others = THREADS.load().iter().filter(|other| !std::ptr::eq(other.slot, self.slot)).cloned().collect();
        THREADS.store(Arc::new(others));
        free.push(self.slot);
    }
}

/// Registers the calling thread under this name, until the result is dropped.
pub fn enter(name: &str) -> Registration {
    register(name, false)
}

/// The same for a thread that turns: it calls [`turned`] often, or waits at a place.
pub fn enter_turning(name: &str) -> Registration {
    register(name, true)
}

/// Starts a registered thread.
///
/// # Errors
/// The system's, if a thread cannot be created.
pub fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> io::Result<JoinHandle<T>> {
    let own = name.to_owned();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _on_the_list = enter(&own);
        work()
    })
}

/// Time slice of a thread that messages wait for. When it wakes, it preempts a thread with a longer
/// slice, and need not wait until that slice is over. With 100 us the server's clients and its own
/// threads on the same cores interrupted one another more often than it helped (decision 0008).
const SLICE: Duration = Duration::from_millis(1);

/// Niceness of background threads relative to the process: each has a tenth of a shard's weight.
/// Raising niceness takes no privilege, unlike lowering it.
const NICER: i32 = 10;

/// How late a nap of a thread that messages wait for may end, nanoseconds: the kernel's default
/// bound is as long as the nap.
const SLACK_NS: NonZeroU64 = NonZeroU64::new(1_000).expect("not zero");

/// Marks the calling thread as one that messages wait for: it runs in short slices, and its naps
/// end on time. Kernels before 6.12 have no per-thread slice, and ignore it.
pub fn in_short_slices() {
    let _ = throng_sys::calls::set_slice(niceness(), SLICE);
    let _ = rustix::thread::set_current_timer_slack(Some(SLACK_NS));
}

/// Lowers the priority of the calling thread where cores are few: it reads, merges or derives keys,
/// and threads that messages wait for run first.
pub fn stand_back() {
    // For this thread only. If it is refused, the thread runs at the normal priority.
    let _ = rustix::process::setpriority_process(None, niceness() + NICER);
}

/// The niceness of the calling thread.
fn niceness() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or(0)
}

/// Keeps the calling thread at a place until dropped.
#[derive(Debug)]
#[must_use = "the wait is over when this is dropped"]
pub struct At {
    slot: Option<&'static Slot>,
    place: Place,
    /// Its previous place.
    before: u8,
    /// When the wait began, if it is counted.
    came: Option<Instant>,
    of_this_thread: PhantomData<*const ()>,
}

/// The calling thread waits at `place` until the result is dropped: one store now and one then, and
/// nothing else unless waits are counted.
#[inline]
pub fn at(place: Place) -> At {
    let slot = OWN.get();
    let (mut before, mut came) = (NOWHERE, None);
    if let Some(slot) = slot {
        before = slot.at.load(Ordering::Relaxed) as u8;
        slot.step(place as u8);
        if slot.counted.load(Ordering::Relaxed) >> place as u8 & 1 == 1 {
            came = Some(Instant::now());
        }
    }
    At { slot, place, before, came, of_this_thread: PhantomData }
}

impl Drop for At {
    #[inline]
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        slot.step(self.before);
        if let Some(came) = self.came {
            slot.waits[self.place as usize].note(came.elapsed());
        }
    }
}

/// Records that the calling thread has turned once more: one store.
#[inline]
pub fn turned() {
    if let Some(slot) = OWN.get() {
        slot.step(NOWHERE);
    }
}

/// Marks a lock as held by the calling thread until dropped.
#[derive(Debug)]
pub(super) struct Held {
    slot: Option<&'static Slot>,
    place: Place,
    of_this_thread: PhantomData<*const ()>,
}

impl Held {
    pub(super) fn note(place: Place) -> Held {
        debug_assert_eq!(place.sort(), Sort::Lock);
        let slot = OWN.get();
        if let Some(slot) = slot {
            slot.hold(place as usize, 1);
        }
        Held { slot, place, of_this_thread: PhantomData }
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            slot.hold(self.place as usize, -1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_four_times_as_wide_as_the_one_before() {
        let buckets = [0, 999, 1_000, 3_999, 4_000, 15_999, 16_000, 1_000_000_000, u64::MAX].map(bucket);
        assert_eq!(buckets, [0, 0, 1, 1, 2, 2, 3, 10, 11]);
    }
}

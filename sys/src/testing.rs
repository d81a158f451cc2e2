//! Unsafe code for tests and benchmarks: counting allocators, and stopping a thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use mimalloc::MiMalloc;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static COUNTS: Cell<bool> = const { Cell::new(true) };
}

/// The system's allocator, which counts the memory that each thread holds.
pub struct Counting;

impl Counting {
    /// Bytes that this thread has allocated and not freed.
    pub fn live() -> isize {
        LIVE.with(Cell::get)
    }

    /// Runs work whose allocations are not counted; it must free them itself.
    pub fn uncounted<T>(work: impl FnOnce() -> T) -> T {
        let before = COUNTS.with(|counts| counts.replace(false));
        let done = work();
        COUNTS.with(|counts| counts.set(before));
        done
    }

    fn count(bytes: isize) {
        // The counter of an ending thread may be gone; its memory is irrelevant.
        let _ = COUNTS.try_with(|counts| {
            if counts.get() {
                LIVE.with(|live| live.set(live.get() + bytes));
            }
        });
    }
}

// SAFETY: each call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::count(layout.size() as isize);
        // SAFETY: as of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        Counting::count(-(layout.size() as isize));
        // SAFETY: as of this function.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Counting::count(size as isize - layout.size() as isize);
        // SAFETY: as of this function.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Sizes up to here have classes of 8 bytes, larger ones of a power of two.
const FINE_BYTES_MAX: usize = 1024;
const FINE: usize = FINE_BYTES_MAX / 8;
const CLASSES: usize = FINE + 1 + usize::BITS as usize;

/// Live blocks and bytes of each class.
static BLOCKS: [AtomicI64; CLASSES] = [const { AtomicI64::new(0) }; CLASSES];
static BYTES: [AtomicI64; CLASSES] = [const { AtomicI64::new(0) }; CLASSES];

/// The program's allocator, which counts live blocks by size. Each allocation pays for two shared
/// counters.
pub struct Weighing;

impl Weighing {
    /// Calls back for each size class with its upper bound, and its live blocks and bytes.
    pub fn each_class(mut each: impl FnMut(u64, i64, i64)) {
        for class in 0..CLASSES {
            each(bound(class), BLOCKS[class].load(Relaxed), BYTES[class].load(Relaxed));
        }
    }

    fn count(size: usize, blocks: i64) {
        BLOCKS[class(size)].fetch_add(blocks, Relaxed);
        BYTES[class(size)].fetch_add(blocks * size as i64, Relaxed);
    }
}

fn class(size: usize) -> usize {
    if size <= FINE_BYTES_MAX { size.div_ceil(8) } else { FINE + size.next_power_of_two().trailing_zeros() as usize }
}

/// Upper bound of a class in bytes.
fn bound(class: usize) -> u64 {
    if class <= FINE { 8 * class as u64 } else { 1 << (class - FINE) }
}

// SAFETY: every call is forwarded unchanged.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { MiMalloc.alloc(layout) };
        Weighing::count(layout.size(), i64::from(!block.is_null()));
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { MiMalloc.alloc_zeroed(layout) };
        Weighing::count(layout.size(), i64::from(!block.is_null()));
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        Weighing::count(layout.size(), -1);
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let moved = unsafe { MiMalloc.realloc(block, layout, size) };
        if !moved.is_null() {
            Weighing::count(layout.size(), -1);
            Weighing::count(size, 1);
        }
        moved
    }
}

/// Stops a thread, like a tracer, until the calling thread ends.
///
/// # Errors
/// The kernel's, if tracing is not permitted.
pub fn stop_thread(tid: i32) -> io::Result<()> {
    for request in [libc::PTRACE_SEIZE, libc::PTRACE_INTERRUPT] {
        // SAFETY: neither request reads or writes memory of this process.
        if unsafe { libc::ptrace(request, tid, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

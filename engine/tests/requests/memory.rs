//! Memory that is held by what a thread does, counted by the allocator of this test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static COUNTS: Cell<bool> = const { Cell::new(true) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

fn count(bytes: isize) {
    // A thread that ends may have lost them; its memory is nobody's question.
    let _ = COUNTS.try_with(|counts| {
        if counts.get() {
            LIVE.with(|live| live.set(live.get() + bytes));
        }
    });
}

// SAFETY: each call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as of this function.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as of this function.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// Bytes that this thread has taken and not given back.
pub(super) fn live() -> isize {
    LIVE.with(Cell::get)
}

/// Does something whose memory is not the server's: what it takes it gives back here, too.
pub(super) fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let before = COUNTS.with(|counts| counts.replace(false));
    let done = work();
    COUNTS.with(|counts| counts.set(before));
    done
}

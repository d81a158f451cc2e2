//! The program's allocator, the orders that it is given, and its one figure. It is not the network's; it stands here because unsafe
//! code stands in this room only.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_long};

use mimalloc::MiMalloc;

use super::sampler::{allocated, freed, is_sampled};

/// mimalloc, which can be looked at while the program runs ([`super::HeapSampler`]). While nobody looks, that costs a comparison and
/// a branch for each piece: what else there is to do stands apart, so that the way to mimalloc has no frame of its own.
pub struct Allocator;

// SAFETY: mimalloc does it all, and what is told besides does not touch the memory.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's word.
        let alloc = |layout| unsafe { MiMalloc.alloc(layout) };
        if is_sampled() { alloc_told(layout, alloc) } else { alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's word.
        let alloc = |layout| unsafe { MiMalloc.alloc_zeroed(layout) };
        if is_sampled() { alloc_told(layout, alloc) } else { alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's word.
        unsafe { if is_sampled() { dealloc_told(at, layout) } else { MiMalloc.dealloc(at, layout) } }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's word.
        unsafe { if is_sampled() { realloc_told(at, layout, size) } else { MiMalloc.realloc(at, layout, size) } }
    }
}

#[cold]
#[inline(never)]
fn alloc_told(layout: Layout, alloc: impl FnOnce(Layout) -> *mut u8) -> *mut u8 {
    let at = alloc(layout);
    allocated(at, layout);
    at
}

/// # Safety
/// As of [`GlobalAlloc::dealloc`].
#[cold]
#[inline(never)]
unsafe fn dealloc_told(at: *mut u8, layout: Layout) {
    // Before another thread may get the same piece.
    freed(at);
    // SAFETY: the caller's word.
    unsafe { MiMalloc.dealloc(at, layout) }
}

/// # Safety
/// As of [`GlobalAlloc::realloc`].
#[cold]
#[inline(never)]
unsafe fn realloc_told(at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    freed(at);
    // SAFETY: the caller's word.
    let moved = unsafe { MiMalloc.realloc(at, layout, size) };
    // The caller's word is that the size is one that a layout may have.
    allocated(moved, Layout::from_size_align(size, layout.align()).unwrap_or(layout));
    moved
}

unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_process_info(
        elapsed_ms: *mut usize,
        user_ms: *mut usize,
        system_ms: *mut usize,
        rss: *mut usize,
        peak_rss: *mut usize,
        commit: *mut usize,
        peak_commit: *mut usize,
        page_faults: *mut usize,
    );
}

/// `mi_option_purge_delay`: milliseconds for which free pages stay with the process.
const PURGE_DELAY: c_int = 15;

/// From here on pages that become free go back to the system at once. Otherwise they do only when their thread asks for
/// memory again later, which a thread that has done a large piece of work and waits for the next may never do. It costs the
/// committer a fault for each page, a fifth of its time; kept for 10 or 100 ms, they took 49 or 65 MiB at the most instead
/// of 33 while a gigabyte came for a receiver that does not read.
pub fn keep_no_free_pages() {
    // SAFETY: a number of the library's own table, and a value that it allows.
    unsafe { mi_option_set(PURGE_DELAY, 0) }
}

/// Memory that the allocator may write to without asking the kernel, bytes: what is in use, and what it keeps. Of what was never
/// written to the kernel has no page.
pub fn committed_memory() -> u64 {
    let mut told = [0_usize; 8];
    let [elapsed, user, system, rss, peak_rss, commit, peak_commit, faults] = &mut told;
    // SAFETY: each is written once, to a place of its own.
    unsafe { mi_process_info(elapsed, user, system, rss, peak_rss, commit, peak_commit, faults) }
    *commit as u64
}

/// Takes back what other threads have freed of this thread's memory, and gives back the pages that are free then.
pub fn give_back_memory() {
    // SAFETY: takes nothing, and concerns this thread's memory only.
    unsafe { mi_collect(false) }
}

//! The program's allocator, the orders that it is given, and its one figure.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;

use crate::sampler::{allocated, freed, is_sampled};

/// mimalloc, which can be looked at while the program runs ([`crate::HeapSampler`]). While nobody looks, that costs a comparison and
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

/// A page of the allocator's: blocks of one size that one thread gives out (`mi_heap_area_t`).
#[repr(C)]
struct Area {
    /// The first block.
    blocks: *mut u8,
    reserved: usize,
    /// Bytes of blocks that have been given out or may be next.
    committed: usize,
    /// Blocks that are not free.
    used: usize,
    block_size: usize,
    /// Bytes from one block to the next.
    full_block_size: usize,
    page: *mut c_void,
}

/// Called for a page, without a block, or for a block that is not free (`mi_block_visit_fun`).
type Visit = unsafe extern "C" fn(*const c_void, *const Area, *mut c_void, usize, *mut c_void) -> bool;

unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_theap_get_default() -> *mut c_void;
    fn mi_theap_visit_blocks(heap: *const c_void, blocks: bool, visit: Visit, arg: *mut c_void) -> bool;
    // The only one that is not public.
    fn _mi_theap_area_visit_blocks(area: *const Area, page: *mut c_void, visit: Visit, arg: *mut c_void) -> bool;
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

/// How often a thread gives back free blocks of pages that are in use. Each costs a system call, and faults when it is used again.
const HOLES_EVERY: Duration = Duration::from_secs(1);

/// Free blocks of these sizes are given back. Of a smaller one the larger part is the page of the kernel's in which its link to the
/// next free block is; of the larger ones each has a page of its own. No page has more than 64 of these.
const HOLES: RangeInclusive<usize> = 12 << 10..=512 << 10;

thread_local! {
    /// When this thread last gave back free blocks of pages that are in use.
    static HOLES_GIVEN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Takes back what other threads have freed of this thread's memory, and gives back what is free then: pages of which all blocks
/// are, and large blocks of others. Without the latter one block that lives keeps up to 4 MiB, for each thread and class of sizes.
/// Pages that were full are no thread's until a block of theirs is wanted, and have no part in this.
pub fn give_back_memory() {
    // SAFETY: takes nothing, and concerns this thread's memory only.
    unsafe { mi_collect(false) }
    let now = Instant::now();
    if HOLES_GIVEN.get().is_none_or(|given| now.duration_since(given) >= HOLES_EVERY) {
        HOLES_GIVEN.set(Some(now));
        let mut page = rustix::param::page_size();
        // SAFETY: visits this thread's pages, of which nobody else takes blocks meanwhile, and `give_back_holes` allocates nothing.
        unsafe { mi_theap_visit_blocks(mi_theap_get_default(), false, give_back_holes, (&raw mut page).cast()) };
    }
}

/// Gives back the free blocks of a page, but for the beginning of each, where the allocator keeps the link to the next.
///
/// # Safety
/// For [`mi_theap_visit_blocks`], with a page of this thread's, and the bytes of one of the kernel's.
unsafe extern "C" fn give_back_holes(
    _: *const c_void,
    area: *const Area,
    _: *mut c_void,
    _: usize,
    page: *mut c_void,
) -> bool {
    // SAFETY: the caller's word.
    let (area, page) = unsafe { (&*area, *page.cast::<usize>()) };
    let size = area.full_block_size;
    if !HOLES.contains(&size) {
        return true;
    }
    let blocks = area.committed / size;
    if area.used >= blocks || blocks > u64::BITS as usize {
        return true;
    }
    let mut used = 0_u64;
    // SAFETY: the page is the area's, and `note_block` is given what it wants. What other threads free from here on counts as used.
    unsafe { _mi_theap_area_visit_blocks(area, area.page, note_block, (&raw mut used).cast()) };
    for number in (0..blocks).filter(|number| used & 1 << number == 0) {
        let block = area.blocks as usize + number * size;
        let (from, until) = ((block + size_of::<usize>()).next_multiple_of(page), (block + size) / page * page);
        if from < until {
            // SAFETY: all of it is within a free block, of which nothing is read but its beginning: it may become zeros.
            unsafe { libc::madvise(from as *mut c_void, until - from, libc::MADV_DONTNEED) };
        }
    }
    true
}

/// Notes that a block is not free.
///
/// # Safety
/// For [`_mi_theap_area_visit_blocks`], with a page of at most 64 blocks and a `u64` to note them in.
unsafe extern "C" fn note_block(
    _: *const c_void,
    area: *const Area,
    block: *mut c_void,
    _: usize,
    used: *mut c_void,
) -> bool {
    // SAFETY: the caller's word.
    let (area, used) = unsafe { (&*area, &mut *used.cast::<u64>()) };
    *used |= 1 << ((block as usize - area.blocks as usize) / area.full_block_size);
    true
}

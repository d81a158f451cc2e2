//! The program's allocator, its maintenance calls, and its one figure.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use mimalloc::MiMalloc;

use crate::sampler::{allocated, freed, is_sampled};

/// mimalloc, which can be sampled while the program runs ([`crate::HeapSampler`]). While it is not,
/// this costs a comparison and a branch per allocation: the sampling code is out of line, so that
/// the path to mimalloc needs no stack frame of its own.
pub struct Allocator;

// SAFETY: mimalloc does all the work, and reporting to the sampler does not touch the memory.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        let alloc = |layout| unsafe { MiMalloc.alloc(layout) };
        if is_sampled() { alloc_told(layout, alloc) } else { alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
        let alloc = |layout| unsafe { MiMalloc.alloc_zeroed(layout) };
        if is_sampled() { alloc_told(layout, alloc) } else { alloc(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { if is_sampled() { dealloc_told(at, layout) } else { MiMalloc.dealloc(at, layout) } }
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: guaranteed by the caller.
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
    // Before another thread may get the same block.
    freed(at);
    // SAFETY: guaranteed by the caller.
    unsafe { MiMalloc.dealloc(at, layout) }
}

/// # Safety
/// As of [`GlobalAlloc::realloc`].
#[cold]
#[inline(never)]
unsafe fn realloc_told(at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    freed(at);
    // SAFETY: guaranteed by the caller.
    let moved = unsafe { MiMalloc.realloc(at, layout, size) };
    // The caller guarantees that the size is valid for a layout.
    allocated(moved, Layout::from_size_align(size, layout.align()).unwrap_or(layout));
    moved
}

/// A page of the allocator: blocks of one size that one thread hands out (`mi_heap_area_t`).
#[repr(C)]
struct Area {
    /// The first block.
    blocks: *mut u8,
    reserved: usize,
    /// Bytes of blocks that have been handed out or may be next.
    committed: usize,
    /// Number of blocks that are not free.
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
    // The only function here that is not public.
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

/// From here on pages that become free return to the system at once. Otherwise they do so only when
/// their thread later asks for memory, which a thread that waits after a large piece of work may
/// never do. It costs the committer a fault per page, a fifth of its time. With a delay of 10 or
/// 100 ms, the peak was 49 or 65 MiB instead of 33 while a gigabyte arrived for a receiver that
/// does not read.
pub fn keep_no_free_pages() {
    // SAFETY: an index of the library's own table, and a permitted value.
    unsafe { mi_option_set(PURGE_DELAY, 0) }
}

/// Memory that the allocator may write to without asking the kernel, bytes: what is in use, and
/// what it retains. Parts that were never written have no page in the kernel.
pub fn committed_memory() -> u64 {
    let mut told = [0_usize; 8];
    let [elapsed, user, system, rss, peak_rss, commit, peak_commit, faults] = &mut told;
    // SAFETY: each pointer is written once and points to a place of its own.
    unsafe { mi_process_info(elapsed, user, system, rss, peak_rss, commit, peak_commit, faults) }
    *commit as u64
}

/// How often a thread returns free blocks of pages that are in use. Each costs a system call, and
/// faults when it is used again.
const HOLES_EVERY: Duration = Duration::from_secs(1);

/// Sizes of free blocks that are returned. For a smaller block, the kernel page that holds its link
/// to the next free block is the larger part; each larger block has a page of its own. No page has
/// more than 64 of these.
const HOLES: RangeInclusive<usize> = 12 << 10..=512 << 10;

thread_local! {
    /// When this thread last returned free blocks of pages that are in use.
    static HOLES_GIVEN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Takes back what other threads have freed of this thread's memory, and returns what is then free
/// to the system: pages whose blocks are all free, and large blocks of others. Without the latter,
/// one live block retains up to 4 MiB per thread and size class. Pages that were full belong to no
/// thread until a block of theirs is needed, and are not covered.
pub fn give_back_memory() {
    // SAFETY: takes no arguments, and concerns only this thread's memory.
    unsafe { mi_collect(false) }
    let now = Instant::now();
    if HOLES_GIVEN.get().is_none_or(|given| now.duration_since(given) >= HOLES_EVERY) {
        HOLES_GIVEN.set(Some(now));
        let mut page = rustix::param::page_size();
        // SAFETY: visits this thread's pages, from which no other thread takes blocks meanwhile,
        // and `give_back_holes` allocates nothing.
        unsafe { mi_theap_visit_blocks(mi_theap_get_default(), false, give_back_holes, (&raw mut page).cast()) };
    }
}

/// Returns the free blocks of a page to the system, except the beginning of each, where the
/// allocator stores the link to the next.
///
/// # Safety
/// For [`mi_theap_visit_blocks`], with a page of this thread, and the size of a kernel page in
/// bytes.
unsafe extern "C" fn give_back_holes(
    _: *const c_void,
    area: *const Area,
    _: *mut c_void,
    _: usize,
    page: *mut c_void,
) -> bool {
    // SAFETY: guaranteed by the caller.
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
    // SAFETY: the page is the area's, and `note_block` gets the argument it expects. Blocks that
    // other threads free from here on count as used.
    unsafe { _mi_theap_area_visit_blocks(area, area.page, note_block, (&raw mut used).cast()) };
    for number in (0..blocks).filter(|number| used & 1 << number == 0) {
        let block = area.blocks as usize + number * size;
        let (from, until) = ((block + size_of::<usize>()).next_multiple_of(page), (block + size) / page * page);
        if from < until {
            // SAFETY: all of it is within a free block, of which only the beginning is ever read:
            // the rest may become zeros.
            unsafe { libc::madvise(from as *mut c_void, until - from, libc::MADV_DONTNEED) };
        }
    }
    true
}

/// Marks a block as not free.
///
/// # Safety
/// For [`_mi_theap_area_visit_blocks`], with a page of at most 64 blocks and a `u64` as their bit
/// set.
unsafe extern "C" fn note_block(
    _: *const c_void,
    area: *const Area,
    block: *mut c_void,
    _: usize,
    used: *mut c_void,
) -> bool {
    // SAFETY: guaranteed by the caller.
    let (area, used) = unsafe { (&*area, &mut *used.cast::<u64>()) };
    *used |= 1 << ((block as usize - area.blocks as usize) / area.full_block_size);
    true
}

//! The allocator's two orders. It is not the network's; it stands here because unsafe code stands in this room only.

use std::ffi::{c_int, c_long};

// Linked for its functions; the program sets it as the allocator.
use mimalloc as _;

unsafe extern "C" {
    fn mi_collect(force: bool);
    fn mi_option_set(option: c_int, value: c_long);
}

/// `mi_option_purge_delay`: milliseconds for which free pages stay with the process.
const PURGE_DELAY: c_int = 15;

/// Value of [`PURGE_DELAY`]: what one thread frees another may take again under load, without a fault for each page (a
/// fifth of the committer's time, with none). When nothing happens, threads that [`give_back_memory`] every few seconds
/// find it.
const KEEP_FREE_MS: c_long = 100;

/// From here on pages that are free for a moment go back to the system.
pub fn keep_no_free_pages() {
    // SAFETY: a number of the library's own table, and a value that it allows.
    unsafe { mi_option_set(PURGE_DELAY, KEEP_FREE_MS) }
}

/// Takes back what other threads have freed of this thread's memory, and gives back the pages that are free then.
pub fn give_back_memory() {
    // SAFETY: takes nothing, and concerns this thread's memory only.
    unsafe { mi_collect(false) }
}

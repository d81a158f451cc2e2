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

/// From here on pages that become free go back to the system at once. Otherwise they do only when their thread asks for
/// memory again later, which a thread that has done a large piece of work and waits for the next may never do. It costs the
/// committer a fault for each page, a fifth of its time; kept for 10 or 100 ms, they took 49 or 65 MiB at the most instead
/// of 33 while a gigabyte came for a receiver that does not read.
pub fn keep_no_free_pages() {
    // SAFETY: a number of the library's own table, and a value that it allows.
    unsafe { mi_option_set(PURGE_DELAY, 0) }
}

/// Takes back what other threads have freed of this thread's memory, and gives back the pages that are free then.
pub fn give_back_memory() {
    // SAFETY: takes nothing, and concerns this thread's memory only.
    unsafe { mi_collect(false) }
}

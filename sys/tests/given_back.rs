//! What threads have freed goes back to the kernel, also where it lies beside what lives on.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use throng_sys::{Allocator, give_back_memory, keep_no_free_pages};

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Bytes of all blocks of a size: less than what the allocator takes at once for larger ones.
const ALL_BYTES: usize = 3 << 20;

/// One of so many lives on: at least one on each page of the allocator's.
const KEPT: usize = 16;

/// Bytes of memory that stand behind these addresses (the kernel's `Documentation/admin-guide/mm/pagemap.rst`).
fn resident(places: &[Range<usize>]) -> usize {
    const PRESENT: u64 = 1 << 63;
    let (map, page) = (File::open("/proc/self/pagemap").expect("a map"), rustix::param::page_size());
    let is_there = |number: usize| {
        let mut entry = [0; 8];
        map.read_exact_at(&mut entry, number as u64 * 8).expect("an entry");
        u64::from_ne_bytes(entry) & PRESENT != 0
    };
    // The whole pages of each.
    let pages = places.iter().flat_map(|place| place.start.div_ceil(page)..place.end / page);
    pages.filter(|number| is_there(*number)).count() * page
}

/// Blocks of one size, as a busy thread leaves them: most are free, in its own memory, and some freed by another thread. Tells
/// where the free ones are, and which are not.
fn leave(size: usize) -> (Vec<Range<usize>>, Vec<Vec<u8>>) {
    let blocks: Vec<Vec<u8>> = (0..ALL_BYTES / size).map(|n| vec![n as u8; size]).collect();
    let (mut free, mut kept, mut elsewhere) = (Vec::new(), Vec::new(), Vec::new());
    for (n, block) in blocks.into_iter().enumerate() {
        let start = block.as_ptr() as usize;
        match n % KEPT {
            0 => kept.push(block),
            at => {
                free.push(start..start + size);
                if at % 2 == 0 {
                    elsewhere.push(block);
                }
            }
        }
    }
    std::thread::spawn(move || drop(elsewhere)).join().expect("it ends");
    (free, kept)
}

#[test]
fn what_is_free_beside_blocks_that_live_goes_back() {
    keep_no_free_pages();
    for size in [12 << 10, 20 << 10, 50_000, 200 << 10, 500 << 10] {
        // On a thread of its own, as memory is given back at most once a second by each.
        let left = std::thread::spawn(move || {
            let (free, kept) = leave(size);
            let before = free.iter().map(Range::len).sum::<usize>();
            give_back_memory();
            let after = resident(&free);
            for (n, block) in kept.iter().enumerate() {
                assert!(block.iter().all(|byte| *byte == (n * KEPT) as u8), "block {n} of {size} is not what it was");
            }
            // What was given back is taken again, as any other memory.
            let again: Vec<Vec<u8>> = (0..free.len()).map(|n| vec![n as u8; size]).collect();
            assert!(again.iter().enumerate().all(|(n, block)| block.iter().all(|byte| *byte == n as u8)));
            (before, after)
        });
        let (before, after) = left.join().expect("it ends");
        // The allocator writes where the next free block is to the beginning of each.
        assert!(after * 2 < before, "blocks of {size}: of {before} bytes that are free {after} stay");
    }
}

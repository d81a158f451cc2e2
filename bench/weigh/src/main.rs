//! The server as it is, with an allocator that counts: how many blocks of which size live.
//!
//! Resident memory moves in pages and keeps what was freed; what the program itself holds moves in bytes. This binary is
//! `throng` over mimalloc with a count in between, and writes the counts to the file that `THRONG_WEIGH` names, four times
//! a second:
//!
//! ```text
//! SIZE BLOCKS BYTES     one line for each class of requested sizes, SIZE its upper bound
//! end
//! ```
//!
//! `accept memory` reads it. It is not for use: each allocation pays for two shared counters.

use std::alloc::{GlobalAlloc, Layout};
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use mimalloc::MiMalloc;

/// Sizes up to here have classes of 8 bytes, larger ones of a power of two.
const FINE_BYTES_MAX: usize = 1024;
const FINE: usize = FINE_BYTES_MAX / 8;
const CLASSES: usize = FINE + 1 + usize::BITS as usize;

/// Blocks and bytes that live in each class.
static BLOCKS: [AtomicI64; CLASSES] = [const { AtomicI64::new(0) }; CLASSES];
static BYTES: [AtomicI64; CLASSES] = [const { AtomicI64::new(0) }; CLASSES];

fn class(size: usize) -> usize {
    if size <= FINE_BYTES_MAX { size.div_ceil(8) } else { FINE + size.next_power_of_two().trailing_zeros() as usize }
}

/// Upper bound of a class, bytes.
fn bound(class: usize) -> u64 {
    if class <= FINE { 8 * class as u64 } else { 1 << (class - FINE) }
}

fn count(size: usize, blocks: i64) {
    BLOCKS[class(size)].fetch_add(blocks, Relaxed);
    BYTES[class(size)].fetch_add(blocks * size as i64, Relaxed);
}

struct Counted;

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { MiMalloc.alloc(layout) };
        count(layout.size(), i64::from(!block.is_null()));
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let block = unsafe { MiMalloc.alloc_zeroed(layout) };
        count(layout.size(), i64::from(!block.is_null()));
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let moved = unsafe { MiMalloc.realloc(block, layout, size) };
        if !moved.is_null() {
            count(layout.size(), -1);
            count(size, 1);
        }
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

fn tell(file: &File, text: &mut String) -> std::io::Result<()> {
    text.clear();
    for class in 0..CLASSES {
        let (blocks, bytes) = (BLOCKS[class].load(Relaxed), BYTES[class].load(Relaxed));
        if blocks != 0 {
            let _ = writeln!(text, "{} {blocks} {bytes}", bound(class));
        }
    }
    text.push_str("end\n");
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)
}

fn main() -> ExitCode {
    if let Some(path) = std::env::var_os("THRONG_WEIGH") {
        let file = File::create(path).expect("the file for the counts can be made");
        std::thread::spawn(move || {
            let mut text = String::with_capacity(16 << 10);
            while tell(&file, &mut text).is_ok() {
                std::thread::sleep(Duration::from_millis(250));
            }
        });
    }
    throng::cli::main(&throng::serve::Throng)
}

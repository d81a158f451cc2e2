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

#![forbid(unsafe_code)]

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::time::Duration;

use throng_sys::testing::Weighing;

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

fn tell(file: &File, text: &mut String) -> std::io::Result<()> {
    text.clear();
    Weighing::each_class(|bound, blocks, bytes| {
        if blocks != 0 {
            let _ = writeln!(text, "{bound} {blocks} {bytes}");
        }
    });
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

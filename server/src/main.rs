//! The binary `throng`: the command line over the server's modules.

#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: throng_sys::Allocator = throng_sys::Allocator;

fn main() -> ExitCode {
    throng::cli::main(&throng::serve::Throng)
}

//! The binary `throng`: the command line over the server's rooms.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: throng::driver::Allocator = throng::driver::Allocator;

fn main() -> ExitCode {
    throng::cli::main(&throng::serve::Throng)
}

//! The binary `throng`: the command line over the server's rooms.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    throng::cli::main(&throng::serve::Throng)
}

//! `accept`: the promises of one host, each tried by a command.
//!
//! Every command starts the server itself, as a process in a temporary folder on free loopback ports, talks to it only
//! over sockets, measures it by `/proc` and ends it by its process id. It prints its figures as JSON and one line for
//! people; it fails when a target is missed.
#![forbid(unsafe_code)]

mod account;
mod channels;
mod client;
mod cpu;
mod eventing;
mod fit;
mod full_disk;
mod kept;
mod kill9;
mod memory;
mod recorder;
mod report;
mod rooms;
mod server;
mod slots;
mod swarm;
mod tails;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Tries what the server promises, each by a command")]
struct Cli {
    /// The server's program.
    #[arg(long, global = true, default_value = "target/dist/throng")]
    throng: PathBuf,
    /// Where to keep the figures as JSON.
    #[arg(long, global = true)]
    out: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kill the server under load, again and again; what was acknowledged arrives exactly once.
    Kill9(kill9::Options),
    /// Fill the disk under the server, and make room again.
    FullDisk(full_disk::Options),
    /// Compare the server's CPU a message with the raw relay's.
    Cpu(cpu::Options),
    /// Weigh subscribers of channels, compare an item for them with bare sends, count durable publications, and try
    /// what those see who drop and return.
    Channels(Box<channels::Options>),
    /// Compare the cost of an item for interested contacts with bare sends.
    Eventing(eventing::Options),
    /// Compare a message's cost with and without the activity recorder.
    Recorder(recorder::Options),
    /// Weigh idle sessions.
    Memory(memory::Options),
    /// Compare a message to a large room with bare sends, count entries and messages to small rooms, and weigh occupants.
    Rooms(rooms::Options),
    /// Measure cost and latency of durable messages at part load.
    Tails(tails::Options),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match &cli.command {
        Command::Kill9(options) => kill9::run(&cli.throng, options),
        Command::FullDisk(options) => full_disk::run(&cli.throng, options),
        Command::Cpu(options) => cpu::run(&cli.throng, options),
        Command::Channels(options) => channels::run(&cli.throng, options),
        Command::Eventing(options) => eventing::run(&cli.throng, options),
        Command::Recorder(options) => recorder::run(&cli.throng, options),
        Command::Memory(options) => memory::run(&cli.throng, options),
        Command::Rooms(options) => rooms::run(&cli.throng, options),
        Command::Tails(options) => tails::run(&cli.throng, options),
    };
    match outcome.and_then(|outcome| outcome.tell(cli.out.as_deref())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("accept: {error}");
            ExitCode::FAILURE
        }
    }
}

//! `raw`: what relaying a message costs with nothing around it, what sending one to many, what accepting a connection.
//!
//! Connections are paired in the order in which they come; what one sends, its partner is sent, with one epoll, one read
//! and one write a message. The generator keeps a window of messages in flight on each pair, one way, one write a message;
//! the server is a process of its own, whose CPU time is taken from `/proc/PID/schedstat` at both ends of the measured time.
#![forbid(unsafe_code)]

mod fan;
mod floor;
mod late;
mod load;
mod report;

use clap::{Args, Parser, Subcommand};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Parser)]
#[command(about = "The floor: what relaying a message costs with nothing around it")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Relay between pairs of connections until killed; prints the address it listens at.
    RelayServer {
        /// Where to listen.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Put load on a relay that runs.
    RelayLoad {
        /// Where it listens.
        #[arg(long)]
        addr: SocketAddr,
        #[command(flatten)]
        window: Window,
        /// Its process, to tell its CPU time.
        #[arg(long)]
        server_pid: Option<u32>,
    },
    /// Both: the relay in a child process under load; medians of the runs as JSON.
    Relay {
        #[command(flatten)]
        window: Window,
        /// Runs to take the median of.
        #[arg(long, default_value_t = 5)]
        runs: usize,
    },
    /// Send what one connection says to all others, or only accept connections, until killed; prints its address.
    #[command(hide = true)]
    FanServer {
        /// Only accept.
        #[arg(long)]
        accept: bool,
        /// Channels to which the others are dealt out; what is said goes to one of these, in turn.
        #[arg(long, default_value_t = 1)]
        channels: usize,
    },
    /// One stanza to many receivers: CPU a bare send.
    FanOut {
        /// Connections that are sent stanzas.
        #[arg(long, default_value_t = 100)]
        receivers: usize,
        /// Channels over which they are spread, each with as many; a stanza goes to one of these, in turn.
        #[arg(long, default_value_t = 1)]
        channels: usize,
        /// Stanzas a second, one after the other.
        #[arg(long, default_value_t = 50.0)]
        rate: f64,
        /// Bytes of a stanza.
        #[arg(long, default_value_t = 90)]
        bytes: usize,
        /// Measured time, seconds.
        #[arg(long, default_value_t = 4.0)]
        seconds: f64,
    },
    /// Connections that are accepted and nothing else: CPU a connection.
    Accept {
        /// How many.
        #[arg(long, default_value_t = 10_000)]
        connections: usize,
    },
    /// A relay that syncs each message to a file before it passes it on, at a rate: latency from when each was due.
    Durable(late::Late),
    /// The relay of `durable`, until killed; prints its address.
    #[command(hide = true)]
    DurableServer {
        /// Folder for the file.
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// How much load.
#[derive(Clone, Copy, Debug, Args)]
struct Window {
    /// Pairs of connections.
    #[arg(long, default_value_t = 1000)]
    pairs: usize,
    /// Messages in flight on each pair.
    #[arg(long, default_value_t = 1)]
    in_flight: usize,
    /// Bytes of a message.
    #[arg(long, default_value_t = 180)]
    bytes: usize,
    /// Measured time, seconds, after a warm-up of one second.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
}

fn main() -> io::Result<()> {
    match Cli::parse().command {
        Command::RelayServer { listen } => floor::serve(listen, floor::Work::Relay),
        Command::RelayLoad { addr, window, server_pid } => {
            println!("{}", serde_json::to_string_pretty(&load::run(addr, window, server_pid)?)?);
            Ok(())
        }
        Command::FanServer { accept, channels } => {
            let work = if accept { floor::Work::Accept } else { floor::Work::FanOut(channels) };
            floor::serve(SocketAddr::from(([127, 0, 0, 1], 0)), work)
        }
        Command::FanOut { receivers, channels, rate, bytes, seconds } => {
            fan::fan_out(receivers, channels, rate, bytes, seconds)
        }
        Command::Accept { connections } => fan::accept(connections),
        Command::Relay { window, runs } => report::print_median(window, runs),
        Command::Durable(late) => late::run(&late),
        Command::DurableServer { dir } => late::serve(dir.as_deref()),
    }
}

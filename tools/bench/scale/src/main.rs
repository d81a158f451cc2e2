//! `scale`: very many sessions on one machine, both ends of each.
//!
//! One command that raises the kernel's limits, makes the accounts, starts the server with as many tables of
//! descriptors as the limit on them needs, brings up the sessions with `throng load`, holds them while some chat and presence changes, samples
//! both programs and the kernel once a second, judges the budgets, and sets the limits back.
#![forbid(unsafe_code)]

mod against;
mod judge;
mod limits;
mod page;
mod proc;
mod run;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;

/// Bring up very many sessions on this machine, hold them, and judge what it takes.
#[derive(Parser, Clone, Debug)]
pub(crate) struct Options {
    /// Sessions to bring up.
    #[arg(long, default_value_t = 100_000)]
    sessions: u64,
    /// Over TLS from the first byte.
    #[arg(long)]
    tls: bool,
    /// How to log in: plain or scram-sha-256. Accounts are imported with SCRAM keys of one salt, so that the generator
    /// derives them once; PLAIN makes the server derive them for each account that it has not seen.
    #[arg(long, default_value = "scram-sha-256")]
    auth: String,
    /// How to come to a session: sasl (RFC 6120), sasl2 (XEP-0388 with XEP-0386), or fast: the same, and by a token when returning
    /// (XEP-0484).
    #[arg(long, default_value = "sasl", value_parser = ["sasl", "sasl2", "fast"])]
    login: String,
    /// With sasl2 or fast: resume the session after a reset (XEP-0198).
    #[arg(long)]
    resume: bool,
    /// Send what needs no answer without waiting for one (XEP-0305).
    #[arg(long)]
    pipelined: bool,
    /// Bytes of each session's presence, which nobody else has; 0: the shortest one, the same for all.
    #[arg(long, default_value_t = 0)]
    presence_bytes: u64,
    /// Logins under way at once.
    #[arg(long, default_value_t = 2_000)]
    under_way_max: u64,
    /// Pairs that chat; none: a hundredth of the sessions.
    #[arg(long)]
    pairs: Option<u64>,
    /// Messages a second in all (open loop); 0: each pair has one in flight, always.
    #[arg(long, default_value_t = 2_000.0)]
    rate: f64,
    /// Presence changes a second.
    #[arg(long, default_value_t = 200.0)]
    presence_per_s: f64,
    /// Seconds to hold the sessions.
    #[arg(long, default_value_t = 60)]
    hold_s: u64,
    /// Longest ramp, in seconds.
    #[arg(long, default_value_t = 240)]
    ramp_s_max: u64,
    /// Share of the sessions whose connection is reset 10 seconds into the hold, and that come back.
    #[arg(long, default_value_t = 0.0)]
    storm_share: f64,
    /// Those come back at random times within so many seconds, as clients do (RFC 6120 3.3 has 0 to 60 seconds).
    #[arg(long, default_value_t = 20.0)]
    storm_spread_s: f64,
    /// Shards of the server, each with as many tables of descriptors as its sessions need.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    shards: u64,
    /// Worker threads of the generator, in all; likewise.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=1_024))]
    workers: u64,
    /// Processes of the generator.
    #[arg(long, default_value_t = 1)]
    processes: u64,
    /// Folder for accounts, store and logs.
    #[arg(long, default_value = "target/scale")]
    folder: PathBuf,
    /// Keep the accounts for the next run.
    #[arg(long)]
    keep: bool,
    /// End the run when the machine has less memory left than this, in MiB: free memory and the page cache.
    #[arg(long, default_value_t = 2_048)]
    memory_left_min: u64,
    /// The program.
    #[arg(long, default_value = "target/dist/throng")]
    throng: PathBuf,
    /// Another build of the server, to be compared by what its logins cost. Both take turns, with the generator of the first.
    #[arg(long)]
    against: Option<PathBuf>,
    /// With --against: how often each build runs.
    #[arg(long, default_value_t = 3, requires = "against", value_parser = clap::value_parser!(u16).range(1..=99))]
    runs: u16,
    /// With --against: the most that a login may cost, times that of the other build.
    #[arg(long, default_value_t = 1.0, requires = "against")]
    times_max: f64,
    /// Where to keep the figures as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Where to write the page with plots.
    #[arg(long)]
    report: Option<PathBuf>,
}

impl Options {
    /// The server's program.
    fn server(&self) -> &Path {
        self.against.as_deref().unwrap_or(&self.throng)
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, stop.clone()) {
            eprintln!("scale: {error}");
            return ExitCode::FAILURE;
        }
    }
    let limits = limits::Limits::raise(options.sessions);
    let stopped = || stop.load(Ordering::Relaxed);
    let met = match options.against.clone() {
        Some(other) => against::compare(&options, other, &stopped),
        None => run::run(&options, &stopped).and_then(|measured| tell(&options, &measured)),
    };
    drop(limits);
    match met {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scale: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tell(options: &Options, measured: &run::Measured) -> std::io::Result<bool> {
    let judged = judge::judge(options, measured);
    for line in &judged.lines {
        println!("{line}");
    }
    if let Some(path) = &options.out {
        std::fs::write(path, judge::text(&judged.value))?;
    }
    if let Some(path) = &options.report {
        std::fs::write(path, page::page(&judged.value))?;
    }
    Ok(judged.met)
}

//! `throng ctl profile`: profiles of a running server.

mod counters;
mod stacks;
mod waits;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};

use super::accounts::ask_failure;
use super::{Failure, Io};
use crate::admin::client::Client;
use crate::admin::protocol::{Ask, Done};
use crate::profile::{self, HZ_MAX, Plan, Progress, SECONDS_MAX, STEP_BYTES, Told};

/// Interval at which the progress of a profile is polled.
const ASK_EVERY: Duration = Duration::from_millis(250);

const CPU: &str = "\
A flame graph: each box is a function, as wide as its share of CPU time including its callees; \
the threads (shard-0, throng-commit, ...) are at the bottom. Open it in a browser: click to zoom, \
Ctrl-F to search.

Examples:
  throng ctl profile cpu --seconds 30 --out cpu.svg
  throng ctl profile cpu --seconds 10 --collapsed | sort -k2 -n -r | head
  throng ctl profile cpu --json";

const ALLOC: &str = "\
A flame graph of memory: each box is a function, as wide as the bytes allocated by it and its \
callees; with --kept only bytes not freed by the end, which shows why a server grows. Bytes are \
estimated from samples.

Examples:
  throng ctl profile alloc --seconds 30 --out alloc.svg
  throng ctl profile alloc --seconds 60 --kept --collapsed | sort -k2 -n -r | head";

const COUNTERS: &str = "\
Cycles, instructions, cache and branch misses, context switches and faults of each thread, by \
perf_event_open(2). Counters that this machine lacks or does not allow are named.

Examples:
  throng ctl profile counters --seconds 10
  throng ctl profile counters --json";

/// The commands; `rows` adds the flags that locate the server.
pub fn command(rows: impl Fn(Command) -> Command) -> Command {
    let seconds = || {
        Arg::new("seconds")
            .long("seconds")
            .value_name("N")
            .value_parser(value_parser!(u64).range(1..=SECONDS_MAX))
            .default_value("10")
            .help("Duration")
    };
    Command::new("profile")
        .about("Profile the running server, without a restart")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            rows(Command::new("cpu"))
                .about("Where its threads spend CPU time, as a flame graph")
                .after_help(CPU)
                .arg(seconds())
                .arg(
                    Arg::new("hz")
                        .long("hz")
                        .value_name("N")
                        .value_parser(value_parser!(u32).range(1..=i64::from(HZ_MAX)))
                        .default_value("99")
                        .help("Samples per second of CPU time of each thread"),
                )
                .args(drawn("throng-cpu.svg")),
        )
        .subcommand(
            rows(Command::new("alloc"))
                .about("Where memory is allocated, and not freed, as a flame graph")
                .after_help(ALLOC)
                .arg(seconds())
                .arg(
                    Arg::new("step")
                        .long("step-bytes")
                        .value_name("N")
                        .value_parser(value_parser!(u64).range(STEP_BYTES))
                        .default_value("65536")
                        .help("Allocated bytes per sample"),
                )
                .arg(Arg::new("kept").long("kept").action(ArgAction::SetTrue).help("Only memory not freed by the end"))
                .args(drawn("throng-alloc.svg")),
        )
        .subcommand(
            rows(Command::new("counters"))
                .about("Hardware counters of its threads: cycles, instructions, misses")
                .after_help(COUNTERS)
                .arg(seconds()),
        )
        .subcommand(waits::command(rows(Command::new("wait")), seconds()))
}

/// Flags of a profile that is drawn as a picture.
fn drawn(out: &'static str) -> [Arg; 2] {
    [
        Arg::new("out")
            .long("out")
            .value_name("FILE.svg")
            .value_parser(value_parser!(PathBuf))
            .default_value(out)
            .help("File to write the flame graph to"),
        Arg::new("collapsed")
            .long("collapsed")
            .action(ArgAction::SetTrue)
            .help("Print one line per stack instead, for other tools"),
    ]
}

/// Runs `throng ctl profile NAME`.
///
/// # Errors
/// What the server answers; the picture cannot be written.
pub fn run(client: &mut Client, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("cpu", matches)) => stacks::cpu(client, matches, io),
        Some(("alloc", matches)) => stacks::alloc(client, matches, io),
        Some(("wait", matches)) => waits::run(client, matches, io),
        Some(("counters", matches)) => counters::run(client, matches, io),
        _ => unreachable!("clap knows these commands only"),
    }
}

fn seconds(matches: &ArgMatches) -> u64 {
    *matches.get_one("seconds").expect("it has a default")
}

fn ask(client: &mut Client, asked: profile::Ask) -> Result<Told, Failure> {
    match client.ask(Ask::Profile(asked), drop).map_err(ask_failure)? {
        Done::Profile(told) => Ok(told),
        other => Err(Failure::failed(format!("unexpected answer: {other:?}"))),
    }
}

/// Begins a profile and waits for its end, reporting the progress.
fn wait(client: &mut Client, plan: Plan, seconds: u64, io: &mut Io) -> Result<Progress, Failure> {
    ask(client, profile::Ask::Begin(plan))?;
    let mut told = 0;
    loop {
        std::thread::sleep(ASK_EVERY);
        let Told::Progress(progress) = ask(client, profile::Ask::Progress {})? else {
            return Err(Failure::failed("unexpected answer"));
        };
        let now = progress.elapsed_ms / 1_000;
        // A terminal shows every second, a log every tenth.
        if now.min(seconds) > told && (io.terminal || now % 10 == 0) && !progress.done {
            told = now;
            let samples = if progress.samples > 0 { format!(", {} samples", progress.samples) } else { String::new() };
            io.tell(format!("{now} of {seconds} s{samples}"));
        }
        if progress.done {
            return Ok(progress);
        }
    }
}

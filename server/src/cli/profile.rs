//! `throng ctl profile`: profiles of a running server.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::json;

use super::accounts::ask_failure;
use super::{Exit, Failure, Io};
use crate::admin::client::Client;
use crate::admin::protocol::{Ask, Done};
use crate::profile::cpu::{Code, Stack};
use crate::profile::fold::{self, Named};
use crate::profile::symbols::Symbols;
use crate::profile::{self, HZ_MAX, Plan, Progress, SECONDS_MAX, Told};

/// How often it is asked how far a profile is.
const ASK_EVERY: Duration = Duration::from_millis(250);

const CPU: &str = "\
A flame graph: each box is a function, as wide as the share of CPU time spent in it and in what it calls; at the bottom \
stand the threads (shard-0, throng-commit, ...). Open it in a browser: a click zooms, Ctrl-F searches.

Examples:
  throng ctl profile cpu --seconds 30 --out cpu.svg
  throng ctl profile cpu --seconds 10 --collapsed | sort -k2 -n -r | head
  throng ctl profile cpu --json";

/// The commands; `rows` adds the flags that find the server.
pub fn command(rows: impl Fn(Command) -> Command) -> Command {
    let seconds = || {
        Arg::new("seconds")
            .long("seconds")
            .value_name("N")
            .value_parser(value_parser!(u64).range(1..=SECONDS_MAX))
            .default_value("10")
            .help("How long")
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
                        .help("Samples a second of CPU time of each thread"),
                )
                .arg(
                    Arg::new("out")
                        .long("out")
                        .value_name("FILE.svg")
                        .value_parser(value_parser!(PathBuf))
                        .default_value("throng-cpu.svg")
                        .help("The picture"),
                )
                .arg(
                    Arg::new("collapsed")
                        .long("collapsed")
                        .action(ArgAction::SetTrue)
                        .help("Print a line a stack instead, for other tools"),
                ),
        )
}

/// Runs `throng ctl profile NAME`.
///
/// # Errors
/// What the server answers; the picture cannot be written.
pub fn run(client: &mut Client, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    match matches.subcommand() {
        Some(("cpu", matches)) => cpu(client, matches, io),
        _ => unreachable!("clap knows these commands only"),
    }
}

fn seconds(matches: &ArgMatches) -> u64 {
    *matches.get_one("seconds").expect("it has a default")
}

fn ask(client: &mut Client, asked: profile::Ask) -> Result<Told, Failure> {
    match client.ask(Ask::Profile(asked), drop).map_err(ask_failure)? {
        Done::Profile(told) => Ok(told),
        other => Err(Failure::failed(format!("an answer of another sort: {other:?}"))),
    }
}

/// Begins a profile and waits for its end, telling how far it is.
fn wait(client: &mut Client, plan: Plan, seconds: u64, io: &mut Io) -> Result<Progress, Failure> {
    ask(client, profile::Ask::Begin(plan))?;
    let mut told = 0;
    loop {
        std::thread::sleep(ASK_EVERY);
        let Told::Progress(progress) = ask(client, profile::Ask::Progress {})? else {
            return Err(Failure::failed("an answer of another sort"));
        };
        let now = progress.elapsed_ms / 1_000;
        // A terminal sees each second, a log every tenth.
        if now.min(seconds) > told && (io.terminal || now % 10 == 0) && !progress.done {
            told = now;
            io.tell(format!("{now} of {seconds} s, {} samples", progress.samples));
        }
        if progress.done {
            return Ok(progress);
        }
    }
}

fn cpu(client: &mut Client, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    let Done::Status(status) = client.ask(Ask::Status {}, drop).map_err(ask_failure)? else {
        return Err(Failure::failed("an answer of another sort"));
    };
    let (seconds, hz) = (seconds(matches), *matches.get_one::<u32>("hz").expect("it has a default"));
    let out: &PathBuf = matches.get_one("out").expect("it has a default");
    // Better now than after the time has passed.
    let drawn = !io.json && !matches.get_flag("collapsed");
    let file = drawn.then(|| create(out)).transpose()?;
    let progress = wait(client, Plan::Cpu { seconds, hz }, seconds, io)?;
    let (code, stacks) = fetch(client)?;
    let mut symbols = Symbols::new(status.pid, code);
    if !symbols.knows_program() {
        io.tell(
            "the server's program cannot be read, so its functions have numbers: run this as the server's user or root",
        );
    }
    let named: Vec<Named> = stacks.into_iter().map(|stack| name(stack, &mut symbols)).collect();
    if progress.dropped > 0 {
        io.tell(format!("{} samples more were lost for want of room: take fewer a second with --hz", progress.dropped));
    }
    if io.json {
        io.say_json(&json!({
            "seconds": seconds, "hz": hz, "samples": progress.samples, "dropped": progress.dropped, "stacks": named,
        }));
        return Ok(());
    }
    let Some(file) = file else {
        fold::folded(&named).into_iter().for_each(|line| io.say(line));
        return Ok(());
    };
    if named.is_empty() {
        let _ = std::fs::remove_file(out);
        return Err(Failure::failed("no thread used enough CPU time for a sample: the server is idle"));
    }
    let title = format!("throng {} ({}), CPU time by thread", status.version, status.domain);
    let subtitle = format!("{seconds} s, {hz} samples a second of CPU time, {} samples", progress.samples);
    fold::draw(&named, &title, &subtitle, BufWriter::new(file)).map_err(|error| written(out, &error))?;
    io.say(format!("{}: {} samples of {seconds} seconds", out.display(), progress.samples));
    Ok(())
}

fn create(out: &Path) -> Result<File, Failure> {
    File::create(out).map_err(|error| written(out, &error))
}

fn written(out: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Failed, format!("{}: {error}", out.display()))
}

fn fetch(client: &mut Client) -> Result<(Vec<Code>, Vec<Stack>), Failure> {
    let (mut code, mut stacks, mut from) = (Vec::new(), Vec::new(), 0);
    loop {
        let Told::Stacks(page) = ask(client, profile::Ask::Stacks { from })? else {
            return Err(Failure::failed("an answer of another sort"));
        };
        code.extend(page.code);
        stacks.extend(page.stacks);
        match page.next {
            Some(next) => from = next,
            None => return Ok((code, stacks)),
        }
    }
}

fn name(stack: Stack, symbols: &mut Symbols) -> Named {
    let mut frames: Vec<String> = stack.frames.iter().flat_map(|frame| symbols.names(*frame).to_vec()).collect();
    // What std does on the way to a thread's own work says nothing.
    if let Some(at) = frames.iter().rposition(|frame| frame.contains("__rust_begin_short_backtrace")) {
        frames.drain(..=at);
    }
    Named { thread: stack.thread, frames, count: stack.count }
}

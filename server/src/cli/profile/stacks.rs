//! Profiles made of stacks: of CPU time and of memory.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use indicatif::BinaryBytes;
use serde_json::{Value, json};

use super::{ask, seconds, wait};
use crate::admin::client::Client;
use crate::admin::protocol::{Ask, Done};
use crate::cli::accounts::ask_failure;
use crate::cli::{Exit, Failure, Io};
use crate::profile::fold::{self, Named};
use crate::profile::stacks::Stack;
use crate::profile::symbols::Symbols;
use crate::profile::unwind::Code;
use crate::profile::{self, Plan, Progress, Told};

/// Frames at which the program ends and its allocator begins: frames further in carry no
/// information.
const ALLOCATOR: [&str; 4] =
    ["__rust_alloc", "__rust_realloc", "throng_sys::allocator::", "throng_sys::sampler::heap::"];

/// The result, with symbol names.
struct Profile {
    progress: Progress,
    stacks: Vec<Named>,
}

/// How to report a profile.
struct Telling<'a> {
    /// The subject of the picture, for its title.
    what: &'a str,
    /// The unit of the widths.
    unit: &'a str,
    /// How the profile was taken.
    how: String,
    /// The text for a profile without stacks.
    nothing: &'a str,
    /// The advice for lost samples.
    lost: &'a str,
    /// Additional fields of the JSON.
    facts: Value,
}

/// Runs `throng ctl profile cpu`.
pub(super) fn cpu(client: &mut Client, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    let (seconds, hz) = (seconds(matches), *matches.get_one::<u32>("hz").expect("it has a default"));
    let telling = Telling {
        what: "CPU time by thread",
        unit: "samples",
        how: format!("{seconds} s, {hz} samples per second of CPU time"),
        nothing: "no thread used enough CPU time for a sample: the server is idle",
        lost: "lower --hz",
        facts: json!({"seconds": seconds, "hz": hz}),
    };
    profile(client, matches, io, Plan::Cpu { seconds, hz }, telling, |_| {})
}

/// Runs `throng ctl profile alloc`.
pub(super) fn alloc(client: &mut Client, matches: &ArgMatches, io: &mut Io) -> Result<(), Failure> {
    let (seconds, step) = (seconds(matches), *matches.get_one::<u64>("step").expect("it has a default"));
    let kept = matches.get_flag("kept");
    let telling = Telling {
        what: if kept { "memory kept, by thread" } else { "memory allocated, by thread" },
        unit: "bytes",
        how: format!("{seconds} s, a sample every {}", BinaryBytes(step)),
        nothing: "no allocation was sampled: the server is idle, or --step-bytes is too large",
        lost: "raise --step-bytes",
        facts: json!({"seconds": seconds, "step_bytes": step}),
    };
    profile(client, matches, io, Plan::Alloc { seconds, step }, telling, |profile| {
        for stack in &mut profile.stacks {
            let end = stack.frames.iter().position(|frame| ALLOCATOR.iter().any(|name| frame.contains(name)));
            stack.frames.truncate(end.unwrap_or(stack.frames.len()));
        }
        if kept {
            profile.stacks.retain(|stack| stack.kept > 0);
            profile.stacks.iter_mut().for_each(|stack| stack.count = stack.kept);
        }
    })
}

fn profile(
    client: &mut Client,
    matches: &ArgMatches,
    io: &mut Io,
    plan: Plan,
    telling: Telling<'_>,
    shape: impl FnOnce(&mut Profile),
) -> Result<(), Failure> {
    let Done::Status(status) = client.ask(Ask::Status {}, drop).map_err(ask_failure)? else {
        return Err(Failure::failed("unexpected answer"));
    };
    let out: &PathBuf = matches.get_one("out").expect("it has a default");
    // Fail now rather than after the time has passed.
    let drawn = !io.json && !matches.get_flag("collapsed");
    let file = drawn.then(|| create(out)).transpose()?;
    let progress = wait(client, plan, seconds(matches), io)?;
    let (code, stacks) = fetch(client)?;
    let mut symbols = Symbols::new(status.pid, code);
    if !symbols.knows_program() {
        io.tell(
            "cannot read the server's executable, so functions are shown as addresses; run this as \
             the server's user or as root",
        );
    }
    let stacks = stacks.into_iter().map(|stack| name(stack, &mut symbols)).collect();
    let mut profile = Profile { progress, stacks };
    shape(&mut profile);
    let Profile { progress, stacks } = profile;
    if progress.dropped > 0 {
        io.tell(format!(
            "{} further samples were lost because the buffer was full: {}",
            progress.dropped, telling.lost
        ));
    }
    if io.json {
        let mut said = telling.facts;
        said["samples"] = progress.samples.into();
        said["dropped"] = progress.dropped.into();
        said["stacks"] = json!(stacks);
        io.say_json(&said);
        return Ok(());
    }
    let Some(file) = file else {
        fold::folded(&stacks).into_iter().for_each(|line| io.say(line));
        return Ok(());
    };
    if stacks.is_empty() {
        let _ = std::fs::remove_file(out);
        return Err(Failure::failed(telling.nothing));
    }
    let title = format!("throng {} ({}), {}", status.version, status.domain, telling.what);
    let subtitle = format!("{}, {} samples", telling.how, progress.samples);
    fold::draw(&stacks, telling.unit, &title, &subtitle, BufWriter::new(file)).map_err(|error| written(out, &error))?;
    io.say(format!("{}: {} samples: {}", out.display(), progress.samples, telling.how));
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
        let Told::Stacks(page) = ask(client, profile::Ask::Found { from })? else {
            return Err(Failure::failed("unexpected answer"));
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
    // std's frames below a thread's own work carry no information.
    if let Some(at) = frames.iter().rposition(|frame| frame.contains("__rust_begin_short_backtrace")) {
        frames.drain(..=at);
    }
    Named { thread: stack.thread, frames, count: stack.count, kept: stack.kept }
}

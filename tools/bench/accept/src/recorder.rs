//! What recording costs a message: one server under one load, whose recorder is held and let go in turns.
//!
//! Two servers differ by more than the recorder could cost, and so do two seconds far from each other. So there is one, and its
//! thread `recorder` alone is stopped (ptrace) in every other window, in the order with, without, without, with; neighbours
//! are compared, and the middle one of their ratios counts. CPU is that of all threads, the recorder's own included, but for the
//! two that write and merge tables: these work for seconds and rest for seconds, whatever else is done.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::cpu::{Load, Window, import};
use crate::report::{Outcome, median, spread};
use crate::server::{Folder, Plan, Server};

/// What a message costs with the recorder is within this part of what it costs without.
const WITHIN: f64 = 0.02;

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Pairs of windows of each set-up, one with the recorder and one without; archived, where a disk's syncs make windows differ
    /// by a tenth, four times as many.
    #[arg(long, default_value_t = 40)]
    rounds: usize,
    /// Measured time of each window, seconds: whole ones have as many samples each.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Shards of the server.
    #[arg(long, default_value_t = 2)]
    shards: u16,
}

/// Driver, whether messages are archived, and how many pairs with how many messages in flight.
const SETUPS: [(&str, bool, Window); 3] = [
    ("uring", false, Window { pairs: 1000, in_flight: 1 }),
    ("epoll", false, Window { pairs: 1000, in_flight: 1 }),
    ("uring", true, Window { pairs: 1000, in_flight: 1 }),
];

/// Threads whose work comes in bursts longer than a window.
const BURSTS: [&str; 2] = ["throng-flush", "throng-merge"];

/// Runs everything.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    let (mut results, mut words, mut met) = (Vec::new(), Vec::new(), true);
    for (driver, archived, window) in SETUPS {
        let name = format!("{driver} {}", if archived { "archived" } else { "live" });
        let name = format!("{name}, {} x {}", window.pairs, window.in_flight);
        let folder = Folder::new("recorder")?;
        let plan = Plan::new(throng, &folder.path().join("data")).driver(driver).shards(options.shards);
        let plan = plan.flag(&format!("--archive={archived}"));
        import(&plan, window)?;
        let rounds = options.rounds.max(1) * if archived { 4 } else { 1 };
        let (with, without) = windows(&plan.start()?, window, rounds, options.seconds)?;
        let (ratio, value) = judge(&name, &with, &without);
        eprintln!("{name}: {ratio:.4} x");
        met &= (ratio - 1.0).abs() <= WITHIN;
        words.push(format!("{name}: {ratio:.3} x"));
        results.push(value);
    }
    let line = format!("CPU a message with the recorder by without, within {WITHIN} of 1: {}", words.join("; "));
    let value = json!({
        "what": "server CPU a message, all threads but those that write and merge tables, while the recorder's thread runs and while it is held, in turns",
        "within": WITHIN, "shards": options.shards, "seconds_a_window": options.seconds, "results": results, "met": met,
    });
    Ok(Outcome { name: "recorder", line, met, value })
}

/// A thread of a server that stands still until this is dropped.
struct Held(Pid);

impl Held {
    fn new(thread: Pid) -> io::Result<Held> {
        ptrace::seize(thread, ptrace::Options::empty())?;
        ptrace::interrupt(thread)?;
        waitpid(thread, Some(WaitPidFlag::__WALL))?;
        Ok(Held(thread))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A thread that is gone meanwhile needs no letting go.
        let _ = ptrace::detach(self.0, None);
    }
}

/// A window's figures, microseconds a message.
struct Figures {
    all_us: f64,
    recorder_us: f64,
    rate: f64,
}

/// All windows of a set-up: with the recorder, and without.
fn windows(server: &Server, window: Window, rounds: usize, seconds: f64) -> io::Result<(Vec<Figures>, Vec<Figures>)> {
    let mut load = Load::new(server, window)?;
    let thread = server.thread("recorder")?.ok_or_else(|| io::Error::other("the server has no thread `recorder`"))?;
    let thread = Pid::from_raw(thread);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    load.until(Instant::now() + Duration::from_secs(2))?;
    for round in 0..rounds {
        let mut pair = [None, None];
        for recorder in [round % 2 == 0, round % 2 != 0] {
            let held = if recorder { None } else { Some(Held::new(thread)?) };
            pair[usize::from(recorder)] = measure(server, &mut load, seconds)?;
            drop(held);
        }
        // A disk that stood still for a whole window has told nothing of the recorder.
        if let [Some(alone), Some(recorded)] = pair {
            without.push(alone);
            with.push(recorded);
        }
    }
    if with.is_empty() {
        return Err(io::Error::other("no message came through"));
    }
    Ok((with, without))
}

/// None if no message came through.
fn measure(server: &Server, load: &mut Load, seconds: f64) -> io::Result<Option<Figures>> {
    let sums = || -> io::Result<(u64, u64)> {
        let all = server.cpu()?;
        let of = |wanted: &dyn Fn(&str) -> bool| all.iter().filter(|(name, _)| wanted(name)).map(|(_, ns)| ns).sum();
        Ok((of(&|name| !BURSTS.contains(&name)), of(&|name| name == "recorder")))
    };
    let (start, before) = (Instant::now(), sums()?);
    let messages = load.until(start + Duration::from_secs_f64(seconds))?;
    let (took, after) = (start.elapsed().as_secs_f64(), sums()?);
    if messages == 0 {
        return Ok(None);
    }
    let us = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1000.0 / messages as f64;
    let (all_us, recorder_us) = (us(after.0, before.0), us(after.1, before.1));
    Ok(Some(Figures { all_us, recorder_us, rate: messages as f64 / took }))
}

/// The middle ratio of the rounds, and all figures.
fn judge(name: &str, with: &[Figures], without: &[Figures]) -> (f64, Value) {
    let mut ratios: Vec<f64> = with.iter().zip(without).map(|(with, without)| with.all_us / without.all_us).collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = median(ratios.clone());
    // Ranks between which the true middle lies in 95 of 100 cases (sign test, normal approximation).
    let (half, reach) = (ratios.len() as f64 / 2.0, (ratios.len() as f64).sqrt() * 0.98);
    let at = |rank: f64| ratios[(rank.max(0.0) as usize).min(ratios.len() - 1)];
    let three = |n: f64| (n * 1000.0).round() / 1000.0;
    let value = json!({
        "setup": name,
        "ratio": three(ratio),
        "ratio_95_of_100": [three(at((half - reach).floor())), three(at((half + reach).ceil()))],
        "cpu_us_with": spread(with.iter().map(|figures| figures.all_us)),
        "cpu_us_without": spread(without.iter().map(|figures| figures.all_us)),
        "of_this_the_recorders_thread_us": three(median(with.iter().map(|figures| figures.recorder_us).collect())),
        "messages_per_s": spread(with.iter().map(|figures| figures.rate)),
    });
    (ratio, value)
}

//! Runs ranges of seeds through the simulated world, on all cores.
//!
//! ```text
//! cargo run --release -p throng-sim -- --seeds 0..2000 [--plant FAULT] [--letters direct|encoded|lossy]
//! ```
//!
//! Prints a line for each seed that fails, with the command that replays it, and exits with 1 if
//! there was one. `--plant` injects a fault that the checks must find: it then exits with 1 if no
//! seed failed. `--letters` puts the same between the shards of all seeds, instead of what each seed
//! has there: nothing, an encoding, or an encoding and a network that loses and repeats.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a program that tells how long it took has a clock; the engine has none")]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use throng_sim::workload;
use throng_sim::world::{Crossing, Plant};

/// A fifth of the time of a run is spent on short-lived allocations.
#[global_allocator]
static ALLOCATOR: throng_sys::Allocator = throng_sys::Allocator;

/// The command that replays a seed has the same assertions.
const BUILD: &str = if cfg!(debug_assertions) { "" } else { "--release " };

struct Options {
    seeds: Range<u64>,
    plant: Option<(Plant, String)>,
    letters: Option<(Crossing, String)>,
    threads: usize,
    keep_going: bool,
    trace: bool,
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { seeds: 0..2000, plant: None, letters: None, threads: 2, keep_going: false, trace: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} wants a value"));
        match arg.as_str() {
            "--seeds" => {
                let text = value()?;
                let (from, to) = text.split_once("..").unwrap_or((&text, ""));
                let from: u64 = from.parse().map_err(|_| "seeds are written N or N..M")?;
                let to =
                    if to.is_empty() { from + 1 } else { to.parse().map_err(|_| "seeds are written N or N..M")? };
                options.seeds = from..to;
            }
            "--plant" => {
                let name = value()?;
                let plant = Plant::named(&name).ok_or(format!("no such fault: {name}"))?;
                options.plant = Some((plant, name));
            }
            "--letters" => {
                let name = value()?;
                let crossing = Crossing::named(&name).ok_or("letters are direct, encoded or lossy")?;
                options.letters = Some((crossing, name));
            }
            "--threads" => options.threads = value()?.parse().map_err(|_| "threads is a number")?,
            "--trace" => options.trace = true,
            "--keep-going" => options.keep_going = true,
            other => return Err(format!("no such option: {other}")),
        }
    }
    Ok(options)
}

fn play(seed: u64, options: &Options) -> Result<workload::Summary, workload::Failure> {
    let mut run = workload::Run::new(seed, options.plant.as_ref().map(|(plant, _)| *plant));
    run.trace = options.trace;
    if let Some((crossing, _)) = &options.letters {
        run.set_crossing(*crossing);
    }
    run.run()
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut suffix = options.plant.as_ref().map_or(String::new(), |(_, name)| format!(" --plant {name}"));
    if let Some((_, name)) = &options.letters {
        suffix.push_str(&format!(" --letters {name}"));
    }
    let (next, done, failed) = (AtomicU64::new(options.seeds.start), AtomicU64::new(0), AtomicU64::new(0));
    let (steps, sent, delivered) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (crashes, resumed) = (AtomicU64::new(0), AtomicU64::new(0));
    let (letters, bytes, moves) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (lost, repeats, renewals) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let total = options.seeds.end.saturating_sub(options.seeds.start);
    #[allow(clippy::disallowed_methods, reason = "the progress of a program, not the time of a shard")]
    let start = Instant::now();
    std::panic::set_hook(Box::new(|info| eprintln!("{info}")));
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let enough = failed.load(Ordering::Relaxed) > 0 && !options.keep_going;
                    if seed >= options.seeds.end || enough {
                        return;
                    }
                    match catch_unwind(AssertUnwindSafe(|| play(seed, &options))) {
                        Ok(Ok(summary)) => {
                            for (sum, n) in [
                                (&steps, summary.steps),
                                (&sent, summary.sent),
                                (&delivered, summary.delivered),
                                (&crashes, summary.crashes),
                                (&resumed, summary.resumed),
                                (&letters, summary.crossed.letters),
                                (&bytes, summary.crossed.bytes),
                                (&moves, summary.crossed.connections),
                                (&lost, summary.crossed.lost),
                                (&repeats, summary.crossed.repeats),
                                (&renewals, summary.crossed.renewals),
                            ] {
                                sum.fetch_add(n, Ordering::Relaxed);
                            }
                        }
                        failure => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            let what = match failure {
                                Ok(Err(failure)) => format!("step {}: {}", failure.step, failure.what),
                                _ => "panic".to_owned(),
                            };
                            println!("seed {seed} fails at {what}");
                            println!("  replay: cargo run {BUILD}-p throng-sim -- --seeds {seed}{suffix}");
                        }
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    if done.is_multiple_of(1000) {
                        let rate = done as f64 / start.elapsed().as_secs_f64();
                        eprintln!(
                            "{done} of {total} seeds, {rate:.0} a second, {} failed",
                            failed.load(Ordering::Relaxed)
                        );
                    }
                }
            });
        }
    });
    let (done, failed) = (done.into_inner(), failed.into_inner());
    println!(
        "{done} seeds in {:.1} s: {failed} failed; {} events, {} messages sent, {} delivered, {} crashes, {} resumptions",
        start.elapsed().as_secs_f64(),
        steps.into_inner(),
        sent.into_inner(),
        delivered.into_inner(),
        crashes.into_inner(),
        resumed.into_inner(),
    );
    println!(
        "{} letters and {} connections encoded, {} bytes; {} frames lost, {} repeats recognised, {} renewals",
        letters.into_inner(),
        moves.into_inner(),
        bytes.into_inner(),
        lost.into_inner(),
        repeats.into_inner(),
        renewals.into_inner(),
    );
    ExitCode::from(u8::from((failed > 0) != options.plant.is_some()))
}

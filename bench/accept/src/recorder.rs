//! What recording costs a message: the server with and without its recorder, in turns, in one run.
//!
//! Neighbours in time are compared: each round has both, in an order that changes, and the middle one of the rounds' ratios counts,
//! so that what else the host does falls on both alike. CPU is that of all threads, the recorder's own included.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::cpu::{Run, Window, one};
use crate::report::{Outcome, median, spread};
use crate::server::Plan;

/// The most that a message may cost with the recorder, by what it costs without.
const RATIO_MAX: f64 = 1.02;

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Rounds of each set-up.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Measured time of each run, seconds, after one second of warm-up.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Shards of the server.
    #[arg(long, default_value_t = 2)]
    shards: u16,
}

/// Driver, whether messages are archived, and how many pairs with how many messages in flight.
const SETUPS: [(&str, bool, Window); 3] = [
    ("uring", false, Window { pairs: 1000, in_flight: 1 }),
    ("epoll", false, Window { pairs: 1000, in_flight: 1 }),
    ("uring", true, Window { pairs: 100, in_flight: 50 }),
];

/// Runs everything.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    let (mut results, mut words, mut met) = (Vec::new(), Vec::new(), true);
    for (driver, archived, window) in SETUPS {
        let name = format!("{driver} {}", if archived { "archived" } else { "live" });
        let name = format!("{name}, {} x {}", window.pairs, window.in_flight);
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for round in 0..options.rounds.max(1) {
            for recorder in [round % 2 == 0, round % 2 != 0] {
                let plan = |data: &Path| {
                    let plan = Plan::new(throng, data).driver(driver).shards(options.shards);
                    plan.flag(&format!("--archive={archived}")).flag(&format!("--recorder={recorder}"))
                };
                let run = one(&plan, window, options.seconds)?;
                eprintln!("{name}: recorder {recorder}: {:.3} us a message at {:.0}/s", run.cpu_us, run.rate);
                if recorder { &mut with } else { &mut without }.push(run);
            }
        }
        let (ratio, value) = judge(&name, &with, &without);
        met &= ratio <= RATIO_MAX;
        words.push(format!("{name}: {ratio:.3} x"));
        results.push(value);
    }
    let line = format!("CPU a message with the recorder by without, at most {RATIO_MAX} x: {}", words.join("; "));
    let value = json!({
        "what": "server CPU a message, all threads, with the recorder and without, in turns",
        "ratio_max": RATIO_MAX, "shards": options.shards, "seconds_a_run": options.seconds, "results": results, "met": met,
    });
    Ok(Outcome { name: "recorder", line, met, value })
}

/// The middle ratio of the rounds, and all figures.
fn judge(name: &str, with: &[Run], without: &[Run]) -> (f64, Value) {
    let mut ratios: Vec<f64> = with.iter().zip(without).map(|(with, without)| with.cpu_us / without.cpu_us).collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = median(ratios.clone());
    let three = |n: f64| (n * 1000.0).round() / 1000.0;
    let own = |run: &Run| run.threads.get("recorder").copied().unwrap_or(0.0);
    let value = json!({
        "setup": name,
        "ratio": three(ratio),
        "middle_half_of_ratios": [three(ratios[ratios.len() / 4]), three(ratios[ratios.len() * 3 / 4])],
        "cpu_us_with": spread(with.iter().map(|run| run.cpu_us)),
        "cpu_us_without": spread(without.iter().map(|run| run.cpu_us)),
        "of_this_the_recorders_thread_us": three(median(with.iter().map(own).collect())),
        "messages_per_s": spread(with.iter().map(|run| run.rate)),
    });
    (ratio, value)
}

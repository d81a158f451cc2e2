//! `throng bench`: how far the shards of this server scale, by the two benchmarks of "Erlang and
//! Scalability" (J. H. Nyström, 2009), with users in place of processes.
//!
//! The server runs within this process, with all its threads, rings, gates and its store; only the
//! network is replaced by a crowd in memory. This module must never know how a server is assembled:
//! that is behind [`Host`].

mod crowd;
mod split;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::driver::{self, Driver};
use crowd::{Crowd, Signals};
use split::Spent;

/// The domain of the users.
pub const DOMAIN: &str = "bench";
/// Password of all users.
pub const PASSWORD: &str = "bench";

/// Longest wait until all users are logged in, or until all have their acknowledgements.
const PATIENCE: Duration = Duration::from_secs(300);

/// What the users do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Game {
    /// Each writes to every other user in turn and waits for each acknowledgement before it
    /// continues.
    Chatty,
    /// Each writes to all others at once, and waits for all acknowledgements.
    #[value(name = "bigbang")]
    BigBang,
}

/// What to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Plan {
    /// Who writes to whom, and when
    #[arg(value_enum)]
    pub game: Game,
    /// Users; each sends a message to each other one
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=20_000))]
    pub users: u32,
    /// Numbers of shards to compare; the first is what the others are held against
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4], value_parser = clap::value_parser!(u16).range(1..=256))]
    pub shards: Vec<u16>,
    /// Runs of each, in turn; the median is told
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Archive messages and make them durable, on a store in a temporary folder
    #[arg(long)]
    pub archive: bool,
}

/// Creates the network of a shard, on the shard's thread.
pub type Network = Arc<dyn Fn(usize) -> std::io::Result<driver::Choice> + Send + Sync>;

/// What to do while a server runs; receives a function that wakes all shards.
pub type During<'a> = dyn FnMut(&dyn Fn()) -> Result<(), String> + 'a;

/// Runs a server for a while.
pub trait Host {
    /// Starts a server with this number of shards, this network and these users, calls `during`,
    /// and stops the server.
    ///
    /// # Errors
    /// Why it could not run, and the error of `during`.
    fn with_server(&self, plan: &Plan, shards: u16, network: Network, during: &mut During<'_>) -> Result<(), String>;
}

/// One run.
#[derive(Clone, Debug)]
struct Run {
    seconds: f64,
    spent: Vec<Spent>,
}

/// The localparts of the users.
pub fn users(plan: &Plan) -> impl Iterator<Item = String> {
    (0..plan.users).map(crowd::name)
}

/// Runs the plan; `say` receives one line per run. Returns the result as data, with the table as
/// `table`.
///
/// # Errors
/// A server does not run, a user's stream ends, or acknowledgements are missing.
pub fn run(plan: &Plan, host: &dyn Host, say: &mut dyn FnMut(&str)) -> Result<Value, String> {
    let mut results: Vec<Vec<Run>> = vec![Vec::new(); plan.shards.len()];
    for number in 1..=plan.runs {
        for (&shards, runs) in plan.shards.iter().zip(&mut results) {
            let run = one(plan, shards, host)?;
            say(&format!("run {number} of {}, {shards} shards: {} messages/s", plan.runs, rate(plan, &run)));
            runs.push(run);
        }
    }
    Ok(report(plan, results))
}

/// Messages of one run, acknowledgements included.
fn messages(plan: &Plan) -> u64 {
    2 * u64::from(plan.users) * u64::from(plan.users - 1)
}

fn rate(plan: &Plan, run: &Run) -> f64 {
    (messages(plan) as f64 / run.seconds).round()
}

fn one(plan: &Plan, shards: u16, host: &dyn Host) -> Result<Run, String> {
    let signals = Arc::new(Signals::new());
    let (game, total, told) = (plan.game, plan.users, signals.clone());
    let network: Network = Arc::new(move |index| {
        // For sleeping and waking; it has no connections.
        let inner = driver::choose(driver::Preference::Auto, &driver::Settings { slots: 16, ..Default::default() })?;
        let crowd = Crowd::new(inner.driver, index as u16, shards, total, game, told.clone());
        Ok(driver::Choice { driver: Box::new(crowd) as Box<dyn Driver>, fallback: None })
    });
    let mut result = None;
    host.with_server(plan, shards, network, &mut |wake| {
        until(&signals, || signals.ready.load(Ordering::Acquire) == total, "the users to log in")?;
        let (before, started) = (split::of_shards()?, Instant::now());
        signals.start.store(true, Ordering::Release);
        wake();
        until(&signals, || signals.done.load(Ordering::Acquire) == total, "the acknowledgements")?;
        let seconds = started.elapsed().as_secs_f64();
        let spent = split::of_shards()?.into_iter().zip(before).map(|(after, before)| after.since(before)).collect();
        result = Some(Run { seconds, spent });
        Ok(())
    })?;
    result.ok_or_else(|| "nothing was measured".to_owned())
}

fn until(signals: &Signals, is: impl Fn() -> bool, what: &str) -> Result<(), String> {
    let end = Instant::now() + PATIENCE;
    while !is() {
        if signals.broken.load(Ordering::Acquire) {
            return Err(format!("a stream has ended while this waited for {what}"));
        }
        if Instant::now() > end {
            return Err(format!("waited for {what} for {} s", PATIENCE.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The run with the median time.
fn median(mut runs: Vec<Run>) -> Run {
    runs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    runs.swap_remove(runs.len() / 2)
}

fn report(plan: &Plan, results: Vec<Vec<Run>>) -> Value {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let rates: Vec<Vec<f64>> = results.iter().map(|runs| runs.iter().map(|run| rate(plan, run)).collect()).collect();
    let medians: Vec<Run> = results.into_iter().map(median).collect();
    let first = medians.first().map_or(1.0, |run| run.seconds);
    let rows: Vec<Value> = (plan.shards.iter().zip(medians).zip(rates))
        .map(|((shards, run), rates)| {
            let part = |time: Duration| (time.as_secs_f64() / run.seconds * 1000.0).round() / 1000.0;
            let threads: Vec<Value> = (run.spent.iter())
                .map(|spent| {
                    let awake = spent.running + spent.in_system_calls + spent.waiting_for_a_core;
                    let idle = Duration::from_secs_f64(run.seconds).saturating_sub(awake);
                    json!({
                        "running": part(spent.running),
                        "in_system_calls": part(spent.in_system_calls),
                        "waiting_for_a_core": part(spent.waiting_for_a_core),
                        "idle": part(idle),
                    })
                })
                .collect();
            json!({
                "shards": shards,
                "seconds": (run.seconds * 1e6).round() / 1e6,
                "messages_per_s": rate(plan, &run),
                "messages_per_s_of_all_runs": rates,
                "speed_up": (first / run.seconds * 100.0).round() / 100.0,
                "shares_of_time": threads,
            })
        })
        .collect();
    json!({
        "program": "bench",
        "game": if plan.game == Game::Chatty { "chatty" } else { "bigbang" },
        "users": plan.users,
        "messages": messages(plan),
        "archive": plan.archive,
        "cores": cores,
        "runs": plan.runs,
        "results": rows,
    })
}

/// A result as text.
pub fn table(result: &Value) -> String {
    let mut text = format!(
        "{} users, {} messages with their acknowledgements{}, {} cores, median of {}\n\n",
        result["users"],
        result["messages"],
        if result["archive"] == true { ", archived and durable" } else { "" },
        result["cores"],
        result["runs"]
    );
    text +=
        "shards   messages/s   speed-up   of each shard's time: running / system calls / waiting for a core / idle\n";
    for row in result["results"].as_array().into_iter().flatten() {
        let percent = |thread: &Value, what: &str| (thread[what].as_f64().unwrap_or(0.0) * 100.0).round();
        let threads = row["shares_of_time"].as_array().into_iter().flatten().map(|thread| {
            let parts = ["running", "in_system_calls", "waiting_for_a_core", "idle"].map(|what| percent(thread, what));
            format!("{}/{}/{}/{} %", parts[0], parts[1], parts[2], parts[3])
        });
        text += &format!(
            "{:>6}   {:>10}   {:>8}   {}\n",
            row["shards"].as_u64().unwrap_or(0),
            row["messages_per_s"].as_f64().unwrap_or(0.0),
            row["speed_up"].as_f64().unwrap_or(0.0),
            threads.collect::<Vec<_>>().join("  ")
        );
    }
    text
}

//! CPU and latency of a message that is archived and durable, at rates that leave the server room, against the raw relay's.
//!
//! The load is an open loop (`throng load --in-flight 0`): messages are due at random times, and latency counts from when each
//! was due. The relay (`raw durable`, one epoll) runs at the same rates, once with nothing written and once with a sync before
//! it passes messages on. Programs take turns at each rate, so that what else the host does falls on all alike. CPU is that of
//! all threads of a server, user and system, while messages are sent. At the end comes a closed loop, whose first ten seconds
//! are compared with all of it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::report::Outcome;
use crate::server::{Folder, Plan, Server};

/// At most so many times the CPU of the relay that writes nothing, at the same rate.
const TIMES_THE_RELAY: f64 = 3.0;

/// p99.9 is at most so many times the bound of p99.
const P999_TIMES: f64 = 5.0;

/// The closed loop keeps at least this part of its first ten seconds.
const KEPT: f64 = 0.7;

/// Pairs of sessions.
const PAIRS: u32 = 100;

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Rates, messages a second.
    #[arg(long, value_delimiter = ',', default_value = "2000,10000,20000,40000")]
    rates: Vec<u32>,
    /// Measured time at each rate, seconds.
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
    /// Rounds of everything but the closed loop.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Another build of the server, which takes turns with this one and is judged by nothing.
    #[arg(long)]
    before: Option<PathBuf>,
    /// The relay's program.
    #[arg(long, default_value = "target/dist/raw")]
    raw: PathBuf,
    /// Only the server: no ratios are judged.
    #[arg(long)]
    without_relay: bool,
    /// Time of the closed loop, seconds; 0 for none.
    #[arg(long, default_value_t = 60.0)]
    closed_seconds: f64,
    /// Messages under way in each pair of the closed loop.
    #[arg(long, default_value_t = 50)]
    in_flight: u32,
}

/// The bound of the 99th percentile at a rate, ms.
fn p99_ms_max(rate: u32) -> f64 {
    match rate {
        0..=10_000 => 5.0,
        10_001..=20_000 => 10.0,
        _ => 20.0,
    }
}

/// One program at one rate.
struct Run {
    rate: u32,
    program: &'static str,
    figures: Value,
}

/// Runs everything.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    let mut programs = vec![("throng", throng.to_owned())];
    programs.extend(options.before.clone().map(|before| ("before", before)));
    let mut runs: Vec<Run> = Vec::new();
    for _ in 0..options.rounds.max(1) {
        for &rate in &options.rates {
            if !options.without_relay {
                for (program, durable) in [("relay", false), ("relay, durable", true)] {
                    runs.push(told(Run { rate, program, figures: relay(options, rate, durable)? }));
                }
            }
            for (program, path) in programs.iter().rev() {
                let load = ["--in-flight=0".to_owned(), format!("--rate={rate}")];
                let (result, threads) = one(path, throng, &load, options.seconds)?;
                runs.push(told(Run { rate, program, figures: figures(&result, threads) }));
            }
        }
    }
    let mut judged: Vec<(bool, String)> = options.rates.iter().flat_map(|&rate| judge(rate, &runs)).collect();
    let mut closed = Vec::new();
    if options.closed_seconds > 0.0 {
        for (program, path) in programs.iter().rev() {
            let load = [format!("--in-flight={}", options.in_flight)];
            let (result, threads) = one(path, throng, &load, options.closed_seconds)?;
            let (first, whole) = (received(&result, 10.0), received(&result, f64::MAX));
            let (kept, words) =
                (whole / first, format!("{program}: {first:.0}/s in the first ten seconds, {whole:.0}/s in all"));
            eprintln!("{words}");
            if *program == "throng" {
                judged
                    .push((kept >= KEPT, format!("closed loop: {kept:.2} of the first ten seconds, at least {KEPT}")));
            }
            let figures = figures(&result, threads);
            let by_second: Vec<&Value> = seconds(&result).map(|second| &second["received_per_s"]).collect();
            closed.push(json!({ "program": program, "first_ten_s_per_s": first.round(), "all_per_s": whole.round(),
                "kept": two(kept), "figures": figures, "received_per_s_by_second": by_second }));
        }
    }
    let met = judged.iter().all(|(met, _)| *met);
    let words: Vec<String> =
        judged.iter().map(|(met, words)| format!("{words}: {}", if *met { "met" } else { "NOT met" })).collect();
    let rows: Vec<Value> =
        runs.iter().map(|run| json!({ "rate": run.rate, "program": run.program, "figures": run.figures })).collect();
    let value = json!({
        "what": "180-byte messages on 100 pairs, archived and durable; open loop, latency from when each was due; then a closed loop",
        "seconds_a_rate": options.seconds, "closed_in_flight": options.in_flight, "closed_seconds": options.closed_seconds,
        "judged": words, "runs": rows, "closed": closed, "met": met,
    });
    Ok(Outcome { name: "tails", line: words.join("; "), met, value })
}

fn told(run: Run) -> Run {
    eprintln!("{}/s {}: {}", run.rate, run.program, run.figures);
    run
}

fn two(n: f64) -> f64 {
    (n * 100.0).round() / 100.0
}

/// The relay at a rate.
fn relay(options: &Options, rate: u32, durable: bool) -> io::Result<Value> {
    let folder = Folder::new("tails-relay")?;
    let mut command = Command::new(&options.raw);
    command.args(["durable", "--pairs", &PAIRS.to_string(), "--rate", &rate.to_string()]);
    // It drifts less than the server and is bounded in memory: a part of the time is enough.
    command.args(["--seconds", &(options.seconds / 4.0).clamp(1.0, 15.0).to_string()]);
    if durable {
        command.arg("--dir").arg(folder.path());
    }
    let done = command.stdin(Stdio::null()).output()?;
    let result: Value = serde_json::from_slice(&done.stdout)?;
    Ok(json!({
        "cpu_us": two(result["server_cpu_us_per_message"].as_f64().unwrap_or(f64::NAN)),
        "latency_ms": result["latency_ms"], "sent_late_ms": result["sent_late_ms"],
    }))
}

/// One run of a server under a load: the load's result, and CPU by thread while it ran, ns.
fn one(path: &Path, generator: &Path, load: &[String], seconds: f64) -> io::Result<(Value, BTreeMap<String, u64>)> {
    let folder = Folder::new("tails")?;
    let plan = Plan::new(path, &folder.path().join("data")).flag("--open-registration");
    let plan = plan.flag("--registrations-hourly-max=1000000");
    let mut server = plan.start()?;
    let before = cpu(&server)?;
    let done = Command::new(generator)
        .args(["load", "--to", &server.plain.to_string(), "--register", "--server-pid", &server.id().to_string()])
        .args(["--sessions", &(2 * PAIRS).to_string(), "--pairs", &PAIRS.to_string(), "--hold-s", &seconds.to_string()])
        .args(load)
        .stdin(Stdio::null())
        .output()?;
    if !server.runs() {
        return Err(io::Error::other("the server has ended"));
    }
    let mut threads = cpu(&server)?;
    for (name, ns) in before {
        *threads.entry(name).or_default() -= ns;
    }
    let result = serde_json::from_slice(&done.stdout)
        .map_err(|_| io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()))?;
    Ok((result, threads))
}

fn cpu(server: &Server) -> io::Result<BTreeMap<String, u64>> {
    let mut threads = BTreeMap::new();
    for (name, ns) in server.cpu()? {
        *threads.entry(name).or_default() += ns;
    }
    Ok(threads)
}

/// What is kept of a load's result.
fn figures(result: &Value, threads: BTreeMap<String, u64>) -> Value {
    let messages = result["messages"]["received"].as_f64().unwrap_or(f64::NAN);
    let threads = threads.into_iter().map(|(name, ns)| (name, two(ns as f64 / 1e3 / messages)));
    let threads: BTreeMap<String, f64> = threads.filter(|(_, us)| *us >= 0.05).collect();
    let worst = seconds(result).filter_map(|second| second["p99_ms"].as_f64()).fold(0.0, f64::max);
    json!({
        "cpu_us": result["server"]["cpu_us_per_message"], "received_per_s": result["messages"]["received_per_s"],
        "latency_ms": result["messages"]["latency_ms"], "p99_ms_of_the_worst_second": worst,
        "sent_late_ms": result["generator"]["sent_late_ms"], "faults": faults(result),
        "cpu_us_by_thread_with_logins": threads, "resident_bytes_max": result["server"]["resident_bytes_max"],
    })
}

/// Messages that did not come as they were sent.
fn faults(result: &Value) -> u64 {
    let kinds = ["lost", "unsure", "duplicates", "reordered", "corrupted"];
    kinds.iter().filter_map(|kind| result["messages"][kind].as_u64()).sum()
}

/// The seconds in which messages were sent.
fn seconds(result: &Value) -> impl Iterator<Item = &Value> {
    result["seconds"].as_array().into_iter().flatten().filter(|second| second["phase"] == "hold")
}

/// Messages received a second in the first so many seconds.
fn received(result: &Value, most: f64) -> f64 {
    let all: Vec<f64> = seconds(result).filter_map(|second| second["received_per_s"].as_f64()).collect();
    let all = &all[..all.len().min(most as usize)];
    all.iter().sum::<f64>() / all.len() as f64
}

/// Whether this build keeps to the bounds at a rate, by the middle one of its rounds.
fn judge(rate: u32, runs: &[Run]) -> Vec<(bool, String)> {
    let of = |program: &'static str, pointer: &'static str| -> Vec<f64> {
        let runs = runs.iter().filter(|run| run.rate == rate && run.program == program);
        runs.filter_map(|run| run.figures.pointer(pointer)?.as_f64()).collect()
    };
    let median = |program, pointer| crate::report::median(of(program, pointer));
    let (p99, p999) = (median("throng", "/latency_ms/p99"), median("throng", "/latency_ms/p999"));
    let (most, cpu, relay) = (p99_ms_max(rate), median("throng", "/cpu_us"), median("relay", "/cpu_us"));
    let mut judged = vec![
        (p99 <= most, format!("{rate}/s: p99 {p99:.2} ms, at most {most}")),
        (p999 <= most * P999_TIMES, format!("p99.9 {p999:.1} ms, at most {}", most * P999_TIMES)),
    ];
    if relay.is_finite() {
        let times = cpu / relay;
        let words = format!("{cpu:.1} us, {times:.2} x the relay's {relay:.1}, at most {TIMES_THE_RELAY} x");
        judged.push((times <= TIMES_THE_RELAY, words));
    }
    judged
}

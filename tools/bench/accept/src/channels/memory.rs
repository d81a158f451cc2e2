//! Memory of a subscriber that waits: how the server's memory grows with subscribers of channels on which nothing is published.
//!
//! As `accept memory` does it: a line through some counts, of what is resident, and in a run of its own of what lives by the
//! allocator's count less what is the store's. Before the first count as many subscribers have come and gone.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Channels, Judged, Load, flags};
use crate::fit;
use crate::memory::{STORE, census};
use crate::report::{median, spread};
use crate::server::{Memory, Server};

/// What a subscriber may cost, bytes of user space.
const BYTES_MOST: f64 = 512.0;
/// Looks half a second apart that have to agree.
const LOOKS: usize = 10;
/// Time in which counts are reached, and memory stands still: so long, and a millisecond for each subscriber, of which four
/// thousand at most come in a second.
const PATIENCE: Duration = Duration::from_secs(60);

fn patience(subscribers: u32) -> Duration {
    PATIENCE + Duration::from_millis(subscribers.into())
}

/// How far looks that agree may be apart, bytes. Of many subscribers some are always sent a sign of life: two bytes for each are
/// little beside what each takes.
fn looks_within(subscribers: u32) -> u64 {
    (16 << 10).max(u64::from(subscribers) * 2)
}

/// What to weigh.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Counts of subscribers to weigh at.
    #[arg(long, value_delimiter = ',', default_value = "5000,7500,10000,12500,15000")]
    at: Vec<u32>,
    /// Channels over which they are spread.
    #[arg(long, default_value_t = 100)]
    weighed_channels: u32,
    /// Runs of each way for resident memory.
    #[arg(long, default_value_t = 1)]
    memory_runs: usize,
    /// Seconds to wait at least before memory is looked at.
    #[arg(long, default_value_t = 14)]
    settle: u64,
    /// The server whose allocator counts; without it there, only resident memory is weighed.
    #[arg(long, default_value = "target/dist/throng-weighed")]
    weighed: PathBuf,
}

impl Options {
    /// The highest count.
    pub(super) fn most(&self) -> u32 {
        self.at.iter().copied().max().unwrap_or_default()
    }
}

/// What was seen at one count.
struct Point {
    subscribers: u32,
    memory: Memory,
    settled: bool,
    /// Bytes that live and are not the store's, where that is counted.
    live: Option<i64>,
}

pub(super) fn run(throng: &Path, options: &super::Options) -> io::Result<Judged> {
    let own = &options.memory;
    if own.at.len() < 2 || !own.at.is_sorted_by(|a, b| a < b) {
        return Err(io::Error::other("--at takes two counts or more, each larger than the one before"));
    }
    let (mut rows, mut words, mut met) = (Vec::new(), Vec::new(), true);
    for by in &options.by {
        let (mut slopes, mut runs) = (Vec::new(), Vec::new());
        for _ in 0..own.memory_runs.max(1) {
            let points = one(throng, throng, options, by)?;
            let slope = line(&points, |point| point.memory.anonymous as f64);
            met &= points.iter().all(|point| point.settled);
            runs.push(json!({
                "subscribers": points.iter().map(|point| point.subscribers).collect::<Vec<_>>(),
                "anonymous_bytes": points.iter().map(|point| point.memory.anonymous).collect::<Vec<_>>(),
                "bytes_a_subscriber": slope.round(),
                "settled": points.iter().all(|point| point.settled),
            }));
            slopes.push(slope);
        }
        let resident = median(slopes.clone());
        let live = match own.weighed.exists() {
            true => Some(line(&one(throng, &own.weighed, options, by)?, |point| point.live.unwrap_or_default() as f64)),
            false => None,
        };
        // `max` passes over a figure that is not there.
        met &= resident > 0.0 && resident.max(live.unwrap_or(f64::NAN)) <= BYTES_MOST;
        let live_word = live.map_or("-".into(), |live| format!("{live:.0}"));
        eprintln!("{by}: {resident:.0} bytes a subscriber resident, {live_word} live");
        words.push(format!("{by} {resident:.0} resident, {live_word} live"));
        rows.push(json!({
            "by": by, "resident_bytes_a_subscriber": spread(slopes.into_iter()), "live_bytes_a_subscriber": live.map(f64::round),
            "runs": runs,
        }));
    }
    let sentence = format!("bytes a waiting subscriber, at most {BYTES_MOST}: {}", words.join(", "));
    let value = json!({
        "what": "growth of the server's anonymous resident memory, and of the bytes its allocator has handed out, with \
                 subscribers that wait for items of channels", "target_bytes": BYTES_MOST, "channels": own.weighed_channels,
        "ways": Value::Array(rows), "met": met,
    });
    Ok(Judged { met, sentence, value })
}

fn line(points: &[Point], figure: impl Fn(&Point) -> f64) -> f64 {
    fit::line(&points.iter().map(|point| (f64::from(point.subscribers), figure(point))).collect::<Vec<_>>()).slope
}

/// Starts a server, warms it and weighs it at each count.
fn one(throng: &Path, program: &Path, options: &super::Options, by: &str) -> io::Result<Vec<Point>> {
    let own = &options.memory;
    let channels = Channels::new(program, options)?;
    let counts = channels.folder.path().join("counts");
    let server = channels.plan.clone().env("THRONG_WEIGH", &counts).start()?;
    let subscribe = |count: u32, hold_s: f64| {
        let flags = flags(&[
            ("subscribers", count.to_string()),
            ("publishers", "0".into()),
            ("channels", own.weighed_channels.to_string()),
            ("by", by.into()),
            ("wait-s", "300".into()),
            ("ramp-per-s", "4000".into()),
            ("hold-s", hold_s.to_string()),
            // All loads have the same: an address has some 28,000 ports, and finding one of the last ones takes long.
            ("sources", (own.most() / 3_000 + 1).to_string()),
            ("total-s-max", "100000".into()),
        ]);
        channels.load(throng, &format!("weighed-{count}.json"), &flags)
    };
    subscribe(own.at[0], 2.0)?.result()?;
    wait_for(&channels, 0)?;
    let (mut loads, mut points): (Vec<Load>, Vec<Point>) = (Vec::new(), Vec::new());
    let mut before = 0;
    for &subscribers in &own.at {
        loads.push(subscribe(subscribers - before, 100_000.0)?);
        before = subscribers;
        wait_for(&channels, subscribers)?;
        let (memory, settled) = settle(&server, own.settle, subscribers)?;
        let live: i64 = census(&counts)?.values().map(|(_, bytes)| bytes).sum();
        let status = channels.plan.status()?;
        let store: i64 = STORE.iter().filter_map(|part| status["memory"][part].as_i64()).sum();
        points.push(Point { subscribers, memory, settled, live: (live > 0).then_some(live - store) });
    }
    match server.panics().first() {
        Some(panic) => Err(io::Error::other(format!("the server panicked: {panic}"))),
        None => Ok(points),
    }
}

/// Waits until the server has as many connections, with nothing to send.
fn wait_for(channels: &Channels, subscribers: u32) -> io::Result<()> {
    let end = Instant::now() + patience(subscribers);
    loop {
        let status = channels.plan.status()?;
        let now = [status["connections"].as_u64(), status["counters"]["outbound_bytes"].as_u64()];
        if now == [Some(u64::from(subscribers)), Some(0)] {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(io::Error::other(format!("connections and bytes to send are {now:?}, not {subscribers}")));
        }
        std::thread::sleep(Duration::from_millis(250));
    }
}

/// Memory once it stands still, and whether it does.
fn settle(server: &Server, settle_s: u64, subscribers: u32) -> io::Result<(Memory, bool)> {
    let (start, mut looks) = (Instant::now(), Vec::new());
    loop {
        std::thread::sleep(Duration::from_millis(500));
        if start.elapsed() < Duration::from_secs(settle_s) {
            continue;
        }
        let memory = server.memory()?;
        looks.push(memory.anonymous);
        let last = &looks[looks.len().saturating_sub(LOOKS)..];
        let apart = last.iter().max().unwrap_or(&0) - last.iter().min().unwrap_or(&0);
        let settled = last.len() == LOOKS && apart <= looks_within(subscribers);
        if settled || start.elapsed() > patience(subscribers) {
            return Ok((memory, settled));
        }
    }
}

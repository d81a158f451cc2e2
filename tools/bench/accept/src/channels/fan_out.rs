//! CPU of the server for an item that many are told, against as many bare sends in the same run (`raw fan-out`, as `accept
//! eventing` has it): all on one channel, on some, and each on a channel of its own.
//!
//! With a channel for each subscriber, each delivery is a publication as well, with its commit; and by long poll, a request. Both are
//! told and not judged. Meanwhile a few subscribers of other channels are told of items: they must not wait for the many.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::{Channels, Judged, figure, flags, two};
use crate::report::{median, spread};

/// What a delivery may cost, times a bare send.
const MOST: f64 = 1.3;
/// What the p99 of other channels may be meanwhile, ms.
const OTHERS_MS_MOST: f64 = 20.0;
/// Connections begun a second.
const RAMP_PER_S: u32 = 4_000;
/// Receivers of the bare sends at most: their program has a descriptor for each.
const BARE_MOST: u32 = 15_000;
/// Items a second at most.
const ITEMS_MOST: f64 = 2_000.0;

/// What to compare.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Subscribers that are told.
    #[arg(long, default_value_t = 10_000)]
    subscribers: u32,
    /// Channels over which they are spread; 0 for one each.
    #[arg(long, value_delimiter = ',', default_value = "1,100,0")]
    channels: Vec<u32>,
    /// Deliveries per second; with many channels fewer, since at most 2,000 items are published per second.
    #[arg(long, default_value_t = 20_000.0)]
    deliveries: f64,
    /// Seconds of each run.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Runs of each.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Bytes of an item's content.
    #[arg(long, default_value_t = 100)]
    bytes: u32,
    /// Keep the items in memory, so that nobody waits for the disk.
    #[arg(long)]
    in_memory: bool,
    /// The program of the bare sends.
    #[arg(long, default_value = "target/dist/raw")]
    raw: PathBuf,
}

impl Options {
    /// Subscribers that are told.
    pub(super) fn subscribers(&self) -> u32 {
        self.subscribers
    }
}

pub(super) fn run(throng: &Path, options: &super::Options) -> io::Result<Judged> {
    let own = &options.fan_out;
    let (mut rows, mut words, mut met) = (Vec::new(), Vec::new(), true);
    for by in &options.by {
        for &channels in &own.channels {
            let channels = if channels == 0 { own.subscribers } else { channels.min(own.subscribers) };
            let (mut cost, mut floor, mut latency) = (Vec::new(), Vec::new(), Vec::new());
            let (mut answer, mut others, mut commits) = (Vec::new(), Vec::new(), Vec::new());
            let mut each_bytes = 0.0;
            for number in 0..own.runs.max(1) {
                let Told { result, beside, longest_commit_ms } = told(throng, options, by, channels, number)?;
                each_bytes = figure(&result, "/deliveries/bytes_each")?;
                cost.push(figure(&result, "/server/cpu_us_per_delivery")?);
                latency.push(figure(&result, "/deliveries/latency_ms/p99")?);
                answer.push(figure(&result, "/publications/answer_ms/p99")?);
                others.push(figure(&beside, "/deliveries/latency_ms/p99")?);
                commits.push(longest_commit_ms);
                floor.push(bare(own, channels, each_bytes as usize)?);
            }
            let times = median(cost.clone()) / median(floor.clone());
            let is_judged = channels < own.subscribers && by != "poll";
            let others_ms = median(others.clone());
            met &= (!is_judged || times <= MOST) && others_ms <= OTHERS_MS_MOST;
            let word = if is_judged { "" } else { " (not judged)" };
            eprintln!(
                "{by}, {channels} channels: {times:.2} x as many bare sends of {each_bytes:.0} bytes{word}; other channels {others_ms:.1} ms"
            );
            words.push(format!("{by} on {channels}: {times:.2}{word}, others {others_ms:.1} ms"));
            rows.push(json!({
                "by": by, "channels": channels, "cpu_us": spread(cost.into_iter()), "bare_send_us": spread(floor.into_iter()),
                "bytes_each": each_bytes.round(), "latency_ms_p99": spread(latency.into_iter()),
                "answer_ms_p99": spread(answer.into_iter()), "others_latency_ms_p99": spread(others.into_iter()),
                "longest_commit_ms": spread(commits.into_iter()),
                "times_bare_sends": two(times), "judged": is_judged,
            }));
        }
    }
    let sentence = format!(
        "CPU of an item for {} subscribers, times bare sends, at most {MOST}, and p99 of other channels, at most {OTHERS_MS_MOST} ms: {}",
        own.subscribers,
        words.join(", ")
    );
    let value = json!({
        "what": "server CPU, user and system, of an item for each subscriber, and of a bare send",
        "subscribers": own.subscribers, "in_memory": own.in_memory, "target_times": MOST, "target_others_ms": OTHERS_MS_MOST, "rows": Value::Array(rows), "met": met,
    });
    Ok(Judged { met, sentence, value })
}

/// A run in which items are told.
struct Told {
    result: Value,
    /// What came of the others beside it.
    beside: Value,
    longest_commit_ms: f64,
}

fn told(throng: &Path, options: &super::Options, by: &str, channels: u32, number: usize) -> io::Result<Told> {
    let own = &options.fan_out;
    let mut server = Channels::new(throng, options)?;
    if own.in_memory {
        server.plan.flags.push("--notify-memory=load.".into());
    }
    let runs = server.plan.start()?;
    let each = f64::from(own.subscribers) / f64::from(channels);
    let rate = (own.deliveries / each).min(ITEMS_MOST);
    let flags = flags(&[
        ("subscribers", own.subscribers.to_string()),
        ("publishers", channels.min(20).to_string()),
        ("channels", channels.to_string()),
        ("by", by.into()),
        ("rate", rate.to_string()),
        ("payload-bytes", own.bytes.to_string()),
        ("ramp-per-s", RAMP_PER_S.to_string()),
        ("hold-s", own.seconds.to_string()),
        ("drain-s", "30".into()),
    ]);
    let until_s = f64::from(own.subscribers) / f64::from(RAMP_PER_S) + own.seconds;
    let few = super::flags(&[
        ("prefix", "load.other.".into()),
        ("subscribers", "100".into()),
        ("publishers", "10".into()),
        ("channels", "10".into()),
        ("by", by.into()),
        ("rate", "50".into()),
        ("hold-s", until_s.to_string()),
    ]);
    let others = server.load(throng, "others.json", &few)?;
    let result = server.load(throng, "told.json", &flags)?.result()?;
    let beside = others.result()?;
    drop(runs);
    let longest_commit_ms = super::longest_commit_ms(throng, &server.folder)?;
    let others_ms = figure(&beside, "/deliveries/latency_ms/p99")?;
    if others_ms > OTHERS_MS_MOST {
        let why = format!(
            "{by}, {channels} channels, run {}: other channels {others_ms:.1} ms, the longest commit {longest_commit_ms:.0} ms",
            number + 1
        );
        super::keep_recordings(&server.folder, &format!("fan-out-{by}-{channels}-{number}"), &why)?;
    }
    Ok(Told { result, beside, longest_commit_ms })
}

/// CPU of a bare send, microseconds. As many receivers at once as a channel has subscribers, and as many in all as its program can have.
fn bare(own: &Options, channels: u32, bytes: usize) -> io::Result<f64> {
    let each = (own.subscribers / channels).clamp(1, BARE_MOST);
    let channels = (BARE_MOST / each).min(channels);
    let rate = (own.deliveries / f64::from(each)).min(ITEMS_MOST);
    let done = Command::new(&own.raw)
        .args(["fan-out", "--receivers", &(channels * each).to_string(), "--channels", &channels.to_string()])
        .args(["--rate", &rate.to_string(), "--bytes", &bytes.to_string(), "--seconds", &own.seconds.to_string()])
        .output()?;
    if !done.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned()));
    }
    figure(&serde_json::from_slice(&done.stdout)?, "/server_cpu_us_per_delivery")
}

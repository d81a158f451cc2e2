//! CPU of the server a message, against the raw relay's in the same run.
//!
//! The relay (`tools/bench/raw`: epoll, one read, one write) and the server in its set-ups take turns, so that what else the
//! host does falls on all alike; medians are compared. A message is a stanza of 180 bytes as its sender writes it; the
//! generator answers each arrival with the next, one write a message, as the relay's does. CPU is that of all threads of
//! the server's process, user and system, by `/proc/PID/task/*/schedstat`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use serde_json::{Value, json};

use crate::client::Login;
use crate::report::{Outcome, median, spread};
use crate::server::{Folder, Plan, Server};
use crate::swarm::Swarm;

/// Bytes of a message.
const BYTES: usize = 180;

/// What a set-up may cost.
#[derive(Clone, Copy, Debug)]
enum Budget {
    /// At most so many times the raw relay in the same window.
    TimesTheRelay(f64),
    /// At most so many microseconds.
    Us(f64),
}

impl Budget {
    /// Of a live message, or one that is archived and durable on both sides, with so many in flight on each pair.
    fn of(archived: bool, in_flight: usize) -> Budget {
        match (archived, in_flight > 1) {
            (false, false) => Budget::TimesTheRelay(1.6),
            (true, false) => Budget::TimesTheRelay(2.5),
            // Reads and writes carry many.
            (false, true) => Budget::Us(2.5),
            (true, true) => Budget::Us(5.0),
        }
    }

    /// Whether so much is within it, and a sentence that says so.
    fn judge(self, cpu_us: f64, times: f64) -> (bool, String) {
        let verdict = |met: bool| if met { "met" } else { "NOT met" };
        match self {
            Budget::TimesTheRelay(most) => {
                (times <= most, format!("{times:.2} x the relay, at most {most} x: {}", verdict(times <= most)))
            }
            Budget::Us(most) => {
                (cpu_us <= most, format!("{cpu_us:.2} us, at most {most} us: {}", verdict(cpu_us <= most)))
            }
        }
    }
}

/// What to do.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs of each set-up.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Measured time of each run, seconds, after one second of warm-up.
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// The relay's program.
    #[arg(long, default_value = "target/dist/raw")]
    raw: PathBuf,
    /// Only the set-ups whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Without the second window, 100 pairs with 50 in flight.
    #[arg(long)]
    brief: bool,
    /// Shards of the server.
    #[arg(long, default_value_t = 2)]
    shards: u16,
}

/// Pairs, and messages that each keeps on the way.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) pairs: usize,
    pub(crate) in_flight: usize,
}

/// One run's figures.
pub(crate) struct Run {
    pub(crate) cpu_us: f64,
    pub(crate) rate: f64,
    /// CPU a message by thread name, microseconds.
    pub(crate) threads: BTreeMap<String, f64>,
}

/// Runs everything.
pub(crate) fn run(throng: &Path, options: &Options) -> io::Result<Outcome> {
    let mut windows = vec![Window { pairs: 1000, in_flight: 1 }];
    if !options.brief {
        windows.push(Window { pairs: 100, in_flight: 50 });
    }
    let mut results = Vec::new();
    let mut judged = Vec::new();
    for window in windows {
        judged.extend(compare(throng, options, window, &mut results)?);
    }
    if judged.is_empty() {
        return Err(io::Error::other(format!("--only {}: no set-up has this in its name", options.only)));
    }
    let met = judged.iter().all(|(met, _)| *met);
    judged.iter().for_each(|(_, sentence)| eprintln!("{sentence}"));
    let words: Vec<&str> = judged.iter().map(|(_, sentence)| sentence.as_str()).collect();
    let line = format!("CPU a message; {}", words.join("; "));
    let value = json!({
        "what": "server CPU a message, user and system, 180-byte messages one way in each pair, no stream management",
        "judged": words,
        "shards": options.shards,
        "seconds_a_run": options.seconds,
        "results": results,
        "met": met,
    });
    Ok(Outcome { name: "cpu", line, met, value })
}

/// All set-ups at one window, in turns. Returns whether each is within its budget, and a sentence that says so.
fn compare(
    throng: &Path,
    options: &Options,
    window: Window,
    results: &mut Vec<Value>,
) -> io::Result<Vec<(bool, String)>> {
    let setups: Vec<(String, &str, bool)> = [("uring", false), ("epoll", false), ("uring", true), ("epoll", true)]
        .into_iter()
        .map(|(driver, archive)| (format!("{driver} {}", if archive { "archived" } else { "live" }), driver, archive))
        .filter(|(name, ..)| name.contains(&options.only))
        .collect();
    let mut relay = Vec::new();
    let mut runs: Vec<Vec<Run>> = setups.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.runs.max(1) {
        relay.push(raw_relay(&options.raw, window, options.seconds)?);
        for ((name, driver, archive), runs) in setups.iter().zip(&mut runs) {
            let plan = |data: &Path| {
                let plan = Plan::new(throng, data).driver(driver).shards(options.shards);
                plan.flag(if *archive { "--archive=true" } else { "--archive=false" })
            };
            let run = one(&plan, window, options.seconds)?;
            eprintln!(
                "{} x {}: {name}: {:.2} us a message at {:.0}/s; relay {:.2} us; {:.2?}",
                window.pairs,
                window.in_flight,
                run.cpu_us,
                run.rate,
                relay.last().expect("just put").0,
                run.threads
            );
            runs.push(run);
        }
    }
    let floor = median(relay.iter().map(|(cpu, _)| *cpu).collect());
    let mut judged = Vec::new();
    let two = |n: f64| (n * 100.0).round() / 100.0;
    results.push(json!({
        "setup": "raw relay", "pairs": window.pairs, "in_flight": window.in_flight,
        "cpu_us": spread(relay.iter().map(|(cpu, _)| *cpu)), "messages_per_s": spread(relay.iter().map(|(_, rate)| *rate)),
    }));
    for ((name, _, archived), runs) in setups.iter().zip(&runs) {
        let cpu_us = median(runs.iter().map(|run| run.cpu_us).collect());
        let times = cpu_us / floor;
        let (met, sentence) = Budget::of(*archived, window.in_flight).judge(cpu_us, times);
        let mut threads: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for (thread, us) in runs.iter().flat_map(|run| &run.threads) {
            threads.entry(thread).or_default().push(*us);
        }
        let threads: BTreeMap<&str, f64> = threads.into_iter().map(|(name, us)| (name, two(median(us)))).collect();
        results.push(json!({
            "setup": name, "pairs": window.pairs, "in_flight": window.in_flight,
            "cpu_us": spread(runs.iter().map(|run| run.cpu_us)), "messages_per_s": spread(runs.iter().map(|run| run.rate)),
            "times_the_relay": two(times), "cpu_us_by_thread": threads, "judged": sentence, "met": met,
        }));
        judged.push((met, format!("{name}, {} x {}: {sentence}", window.pairs, window.in_flight)));
    }
    Ok(judged)
}

/// The floor, by its own program. Returns CPU a message in microseconds and messages a second.
fn raw_relay(raw: &Path, window: Window, seconds: f64) -> io::Result<(f64, f64)> {
    let done = std::process::Command::new(raw)
        .args(["relay", "--runs", "1", "--bytes", &BYTES.to_string(), "--seconds", &seconds.to_string()])
        .args(["--pairs", &window.pairs.to_string(), "--in-flight", &window.in_flight.to_string()])
        .output()?;
    let figures: Value = serde_json::from_slice(&done.stdout)?;
    let figure = |key: &str| figures[key].as_f64().ok_or(io::ErrorKind::InvalidData);
    Ok((figure("server_cpu_us_per_message")?, figure("messages_per_s")?))
}

/// Makes the accounts of all pairs.
pub(crate) fn import(plan: &Plan, window: Window) -> io::Result<()> {
    plan.import((0..window.pairs).flat_map(|i| [format!("from{i:04}"), format!("to{i:04}")]))
}

/// One run of the server.
pub(crate) fn one(plan: &dyn Fn(&Path) -> Plan, window: Window, seconds: f64) -> io::Result<Run> {
    let folder = Folder::new("cpu")?;
    let plan = plan(&folder.path().join("data"));
    import(&plan, window)?;
    let server = plan.start()?;
    let mut load = Load::new(&server, window)?;
    load.until(Instant::now() + Duration::from_secs(1))?;
    let (start, before) = (Instant::now(), server.cpu()?);
    let messages = load.until(start + Duration::from_secs_f64(seconds))?;
    let (took, after) = (start.elapsed().as_secs_f64(), server.cpu()?);
    if messages == 0 {
        return Err(io::Error::other("no message came through"));
    }
    let mut threads: BTreeMap<String, f64> = BTreeMap::new();
    for (name, ns) in after {
        *threads.entry(name).or_default() += ns as f64;
    }
    for (name, ns) in before {
        *threads.entry(name).or_default() -= ns as f64;
    }
    threads.values_mut().for_each(|ns| *ns /= 1000.0 * messages as f64);
    threads.retain(|_, us| *us >= 0.005);
    let cpu_us = threads.values().sum();
    Ok(Run { cpu_us, rate: messages as f64 / took, threads })
}

struct Pair {
    from: TcpStream,
    to: TcpStream,
    message: Vec<u8>,
    /// End of what came, where an end tag may have been cut.
    tail: Vec<u8>,
}

/// The generator.
pub(crate) struct Load {
    poll: std::os::fd::OwnedFd,
    pairs: Vec<Pair>,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

const END: &[u8] = b"</message>";

/// Counts ends of messages in what came, which follows `tail`; the new tail is kept.
fn arrived(tail: &mut Vec<u8>, bytes: &[u8]) -> usize {
    let mut count = 0;
    let mut rest = bytes;
    if !tail.is_empty() {
        tail.extend_from_slice(&bytes[..bytes.len().min(END.len() - 1)]);
        count += usize::from(tail.starts_with(END));
        tail.clear();
    }
    while let Some(at) = rest.iter().position(|&byte| byte == b'<') {
        rest = &rest[at..];
        if rest.starts_with(END) {
            count += 1;
            rest = &rest[END.len()..];
        } else if rest.len() < END.len() && END.starts_with(rest) {
            tail.extend_from_slice(rest);
            break;
        } else {
            rest = &rest[1..];
        }
    }
    count
}

impl Load {
    /// All pairs, logged in, with their first messages on the way.
    pub(crate) fn new(server: &Server, window: Window) -> io::Result<Load> {
        let mut swarm = Swarm::new()?;
        let login = |name: String, available| Login {
            name,
            resource: "r".into(),
            managed: false,
            available,
            ..Login::default()
        };
        let logins =
            (0..window.pairs).flat_map(|i| [login(format!("from{i:04}"), false), login(format!("to{i:04}"), true)]);
        swarm.log_in(server.plain, logins.collect(), 100)?;
        // Presence of the last ones is on its way.
        let end = Instant::now() + Duration::from_millis(500);
        while Instant::now() < end {
            swarm.turn(Duration::from_millis(50), &mut |_, _| {})?;
        }
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut pairs = Vec::with_capacity(window.pairs);
        let mut streams = swarm.into_streams().into_iter();
        while let (Some(from), Some(to)) = (streams.next(), streams.next()) {
            let index = pairs.len();
            from.set_nonblocking(false)?;
            epoll::add(&poll, &to, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
            let head = format!("<message to='to{index:04}@localhost' type='chat'><body>");
            let foot = "</body></message>";
            let body = "m".repeat(BYTES - head.len() - foot.len());
            pairs.push(Pair { from, to, message: format!("{head}{body}{foot}").into(), tail: Vec::new() });
        }
        for _ in 0..window.in_flight {
            for pair in &mut pairs {
                pair.from.write_all(&pair.message)?;
            }
        }
        Ok(Load { poll, pairs, events: Vec::with_capacity(256), buffer: vec![0; 64 << 10] })
    }

    /// Answers each message that arrives with the next, and counts them.
    pub(crate) fn until(&mut self, end: Instant) -> io::Result<u64> {
        let mut messages = 0;
        while Instant::now() < end {
            let timeout = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            match epoll::wait(&self.poll, spare_capacity(&mut self.events), Some(&timeout)) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            for event in self.events.drain(..) {
                let pair = &mut self.pairs[event.data.u64() as usize];
                let count = pair.to.read(&mut self.buffer)?;
                if count == 0 {
                    return Err(io::Error::other("the server has closed a connection"));
                }
                let whole = arrived(&mut pair.tail, &self.buffer[..count]);
                messages += whole as u64;
                for _ in 0..whole {
                    pair.from.write_all(&pair.message)?;
                }
            }
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, END, arrived};

    #[test]
    fn budgets_are_those_of_the_design() {
        let budgets = [
            (false, 1, 10.0, 1.6, true),
            (false, 1, 10.0, 1.61, false),
            (true, 1, 10.0, 2.5, true),
            (true, 1, 10.0, 2.51, false),
            (false, 50, 2.5, 9.0, true),
            (false, 50, 2.6, 0.1, false),
            (true, 50, 5.0, 9.0, true),
            (true, 50, 5.1, 0.1, false),
        ];
        for (archived, in_flight, cpu_us, times, wanted) in budgets {
            let (met, sentence) = Budget::of(archived, in_flight).judge(cpu_us, times);
            assert_eq!(met, wanted, "{archived} {in_flight}: {sentence}");
            assert_eq!(sentence.contains("NOT met"), !wanted);
        }
    }

    #[test]
    fn ends_are_counted_however_they_are_cut() {
        let text = b"<message><body>a</body></message><message><body>b</body></message>";
        for cut in 0..=text.len() {
            for second in cut..=text.len() {
                let mut tail = Vec::new();
                let parts = [&text[..cut], &text[cut..second], &text[second..]];
                let count: usize =
                    parts.iter().filter(|part| !part.is_empty()).map(|part| arrived(&mut tail, part)).sum();
                // A part shorter than an end tag may hide two cuts in one tag, which sockets do not do.
                if parts.iter().all(|part| part.is_empty() || part.len() >= END.len()) {
                    assert_eq!(count, 2, "{cut} {second}");
                }
            }
        }
    }
}

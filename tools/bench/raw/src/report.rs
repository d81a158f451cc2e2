//! Runs server and load, takes medians, writes them down.

use crate::load::{self, Outcome};
use crate::{Relay, Window};
use serde::Serialize;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server in a process of its own, ended with this value.
pub(crate) struct Server(Child);

impl Server {
    /// This program again, with these arguments, and the address that it prints.
    pub(crate) fn start(arguments: &[&str]) -> io::Result<(Server, SocketAddr)> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut server = Server(command.args(arguments).stdout(Stdio::piped()).spawn()?);
        let out = server.0.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        let addr = line.trim().parse().map_err(|_| io::Error::other("the server has not started"))?;
        Ok((server, addr))
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn one(relay: Relay, window: Window) -> io::Result<Outcome> {
    let (server, addr) = Server::start(&["relay-server", "--driver", relay.name()])?;
    load::run(addr, window, Some(server.id()))
}

/// Medians of several runs.
#[derive(Debug, Serialize)]
struct Median {
    relay: &'static str,
    pairs: usize,
    in_flight: usize,
    message_bytes: usize,
    runs: usize,
    #[serde(flatten)]
    outcome: Outcome,
    server_cpu_us_least: f64,
    server_cpu_us_most: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_cpu_times_floor: Option<f64>,
}

fn median(relay: Relay, window: Window, outcomes: &[Outcome]) -> Median {
    let of = |part: fn(&Outcome) -> f64| {
        let mut all: Vec<f64> = outcomes.iter().map(part).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let middle = |all: Vec<f64>| (all[all.len() / 2] * 100.0).round() / 100.0;
    let cpu = of(|outcome| outcome.server_cpu_us_per_message);
    Median {
        relay: relay.name(),
        pairs: window.pairs,
        in_flight: window.in_flight,
        message_bytes: window.bytes,
        runs: outcomes.len(),
        server_cpu_us_least: (cpu[0] * 100.0).round() / 100.0,
        server_cpu_us_most: (cpu[cpu.len() - 1] * 100.0).round() / 100.0,
        outcome: Outcome {
            messages_per_s: middle(of(|outcome| outcome.messages_per_s)).round(),
            server_cpu_us_per_message: middle(cpu),
            generator_cpu_us_per_message: middle(of(|outcome| outcome.generator_cpu_us_per_message)),
        },
        server_cpu_times_floor: None,
    }
}

/// Medians of one relay under one load.
pub(crate) fn print_median(relay: Relay, window: Window, runs: usize) -> io::Result<()> {
    let outcomes = (0..runs.max(1)).map(|_| one(relay, window)).collect::<io::Result<Vec<_>>>()?;
    println!("{}", serde_json::to_string_pretty(&median(relay, window, &outcomes))?);
    Ok(())
}

#[derive(Serialize)]
struct Comparison {
    command: String,
    kernel: String,
    cores: usize,
    what: &'static str,
    results: Vec<Median>,
}

/// All three, a run of each in turn, so that what else the host does falls on all alike.
pub(crate) fn compare(runs: usize, seconds: f64, out: Option<PathBuf>) -> io::Result<()> {
    const RELAYS: [Relay; 3] = [Relay::Floor, Relay::Epoll, Relay::Uring];
    let mut results = Vec::new();
    for (pairs, in_flight) in [(1000, 1), (100, 50)] {
        let window = Window { pairs, in_flight, bytes: 180, seconds };
        let mut outcomes: [Vec<Outcome>; 3] = Default::default();
        for _ in 0..runs.max(1) {
            for (relay, outcomes) in RELAYS.iter().zip(&mut outcomes) {
                outcomes.push(one(*relay, window)?);
            }
        }
        let mut medians: Vec<Median> =
            RELAYS.iter().zip(&outcomes).map(|(relay, outcomes)| median(*relay, window, outcomes)).collect();
        let floor = medians[0].outcome.server_cpu_us_per_message;
        for entry in &mut medians[1..] {
            entry.server_cpu_times_floor =
                Some((entry.outcome.server_cpu_us_per_message / floor * 100.0).round() / 100.0);
        }
        results.append(&mut medians);
    }
    let comparison = Comparison {
        command: format!("raw compare --runs {runs} --seconds {seconds}"),
        kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        cores: std::thread::available_parallelism()?.get(),
        what: "relay of 180-byte messages one way in each pair, one write a message; medians; server CPU is user and system \
               time of the server's process, generator on the same host",
        results,
    };
    let text = serde_json::to_string_pretty(&comparison)?;
    match out {
        Some(path) => std::fs::write(path, text + "\n"),
        None => {
            println!("{text}");
            Ok(())
        }
    }
}

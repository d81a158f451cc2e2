//! Runs server and load, and takes medians.

use crate::Window;
use crate::load::{self, Outcome};
use serde::Serialize;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
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

fn one(window: Window) -> io::Result<Outcome> {
    let (server, addr) = Server::start(&["relay-server"])?;
    load::run(addr, window, Some(server.id()))
}

/// Medians of several runs.
#[derive(Debug, Serialize)]
struct Median {
    pairs: usize,
    in_flight: usize,
    message_bytes: usize,
    runs: usize,
    #[serde(flatten)]
    outcome: Outcome,
    server_cpu_us_least: f64,
    server_cpu_us_most: f64,
}

fn median(window: Window, outcomes: &[Outcome]) -> Median {
    let of = |part: fn(&Outcome) -> f64| {
        let mut all: Vec<f64> = outcomes.iter().map(part).collect();
        all.sort_by(f64::total_cmp);
        all
    };
    let middle = |all: Vec<f64>| (all[all.len() / 2] * 100.0).round() / 100.0;
    let cpu = of(|outcome| outcome.server_cpu_us_per_message);
    Median {
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
    }
}

/// Medians of the relay under one load.
pub(crate) fn print_median(window: Window, runs: usize) -> io::Result<()> {
    let outcomes = (0..runs.max(1)).map(|_| one(window)).collect::<io::Result<Vec<_>>>()?;
    println!("{}", serde_json::to_string_pretty(&median(window, &outcomes))?);
    Ok(())
}

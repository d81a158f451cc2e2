//! Stops a server: all shards in parallel, within a time limit.

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::Server;
use crate::cli::Failure;
use crate::driver::Peer;
use crate::thread::{Report, Stage};

/// Interval at which the end of a round is checked.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The outcome of a stop.
pub(super) enum Stopped {
    /// Everything ended; this many connections did not close in time and were cut off.
    Whole {
        /// Number of connections cut off.
        cut: u64,
    },
    /// Something did not end; a sentence says what. Threads may still be running.
    Cut(String),
}

/// Ends all streams, waits for their last output, for letters between shards and for the store.
/// Streams have `grace` to close; the whole takes no longer than `grace` and `hard`, except for
/// closing a store with nothing left to write.
pub(super) fn stop(server: Server, grace: Duration, hard: Duration) -> Result<Stopped, Failure> {
    let Server { threads, readers, committer, store, ending, peers, back_ends, pushing, .. } = server;
    let began = Instant::now();
    let end = began + grace + hard;
    let wake = || peers.iter().for_each(Peer::wake);
    ending.go_on(Stage::Closing);
    wake();
    let (mut cut, mut before) = (0, None);
    loop {
        ending.begin_round();
        wake();
        let reports = loop {
            let reports = ending.reports();
            let now = Instant::now();
            if now >= began + grace && ending.stage() == Stage::Closing {
                cut = reports.iter().map(|(_, report)| report.connections).sum();
                ending.go_on(Stage::Cutting);
                wake();
            }
            if now >= end {
                // Dropping them would wait for them.
                std::mem::forget((readers, committer, store));
                return Ok(Stopped::Cut(left(&reports, now - began)));
            }
            if reports.iter().all(|(reported, _)| *reported) {
                break reports;
            }
            std::thread::sleep(LOOK_EVERY);
        };
        let quiet = reports.iter().all(|(_, report)| report.quiet);
        let sum = |of: fn(&Report) -> u64| reports.iter().map(|(_, report)| of(report)).sum::<u64>();
        if quiet && before == Some(sum(|report| report.sent)) {
            break;
        }
        before = quiet.then(|| sum(|report| report.received));
        std::thread::sleep(LOOK_EVERY);
    }
    ending.go_on(Stage::Over);
    wake();
    while !threads.iter().all(JoinHandle::is_finished) {
        let now = Instant::now();
        if now >= end {
            std::mem::forget((readers, committer, store));
            return Ok(Stopped::Cut(left(&ending.reports(), now - began)));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let mut failed = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => failed = Some(error.to_string()),
            Err(_) => failed = Some("a shard's thread panicked".to_owned()),
        }
    }
    drop(back_ends);
    drop(pushing);
    drop(readers);
    committer.stop();
    store.close();
    failed.map_or(Ok(Stopped::Whole { cut }), |why| Err(Failure::failed(why)))
}

/// What is left at the hard limit, in a sentence.
fn left(reports: &[(bool, Report)], after: Duration) -> String {
    let silent: Vec<String> = (0..)
        .zip(reports)
        .filter(|(_, (reported, _))| !reported)
        .map(|(shard, _): (usize, _)| shard.to_string())
        .collect();
    let sum = |of: fn(&Report) -> u64| reports.iter().map(|(_, report)| of(report)).sum::<u64>();
    let (connections, commits) = (sum(|report| report.connections), sum(|report| report.commits));
    let letters = sum(|report| report.sent).saturating_sub(sum(|report| report.received));
    let mut parts = Vec::new();
    if !silent.is_empty() {
        parts.push(format!("shards that do not respond: {}", silent.join(", ")));
    }
    for (count, what) in [
        (commits, "turns whose writes the disk has not taken"),
        (letters, "batches of letters between shards"),
        (connections, "connections"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    if parts.is_empty() {
        parts.push("reads of the store or logins".to_owned());
    }
    let seconds = after.as_secs();
    format!(
        "shutdown timed out after {seconds} s (shutdown_grace_seconds and shutdown_hard_seconds); \
         unfinished: {}. Nothing acknowledged is lost",
        parts.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named() {
        let none = Report::default();
        let some = Report { sent: 5, received: 2, connections: 7, commits: 1, ..none };
        let text = left(&[(true, some), (false, none)], Duration::from_secs(20));
        for part in ["after 20 s", "do not respond: 1;", "1 turns", "3 batches", "7 connections"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}

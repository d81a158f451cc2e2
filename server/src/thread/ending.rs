//! The shutdown of all shards' threads, in common stages: no shard waits for another one's, and a
//! stalled shard is recognised by its silence.
//!
//! ```text
//! Serving ──> Closing ───────────────> Cutting ────────────────────> Over
//!             listeners close,         remaining connections         threads end
//!             streams are ended        are reset
//!             `────── letters, commits and reads are carried out ──'
//! ```
//!
//! The shards are quiet when none of them has work left *and* no letter is in flight between them.
//! Each shard reports once per round, at the end of a turn that began after the round did. Suppose
//! that all were quiet in two rounds. If as many letters had been taken out of the rings by the end
//! of the first round as had been put in by the end of the second, then none was in flight in
//! between (F. Mattern, "Algorithms for distributed termination detection", 1987: four counters).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The stage of the shutdown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Stage {
    /// It has not begun.
    Serving,
    /// New connections are refused, and all streams have been ended.
    Closing,
    /// Connections that did not close are reset.
    Cutting,
    /// Threads end.
    Over,
}

/// A shard's remaining work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Whether there is none.
    pub quiet: bool,
    /// Envelopes that it has sent to other shards, including those that wait for room.
    pub sent: u64,
    /// Envelopes that it has taken from other shards.
    pub received: u64,
    /// Open connections.
    pub connections: u64,
    /// Batches of writes that are not durable yet.
    pub commits: u64,
}

/// The shutdown of all threads.
#[derive(Debug)]
pub struct Ending {
    stage: AtomicU8,
    round: AtomicU64,
    /// By shard: the last round in which it reported, and its report.
    reports: Vec<Mutex<(u64, Report)>>,
}

impl Ending {
    /// The state for this number of shards.
    pub fn new(shards: usize) -> Ending {
        let reports = (0..shards).map(|_| Mutex::default()).collect();
        Ending { stage: AtomicU8::new(Stage::Serving as u8), round: AtomicU64::new(0), reports }
    }

    /// The stage: one load per turn.
    #[inline]
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Serving,
            1 => Stage::Closing,
            2 => Stage::Cutting,
            _ => Stage::Over,
        }
    }

    /// Advances to this stage, never back. The caller must wake the threads.
    pub fn go_on(&self, to: Stage) {
        self.stage.fetch_max(to as u8, Ordering::AcqRel);
    }

    /// Begins a round; the caller must wake the threads.
    pub fn begin_round(&self) {
        self.round.fetch_add(1, Ordering::AcqRel);
    }

    /// The current round.
    pub fn round(&self) -> u64 {
        self.round.load(Ordering::Acquire)
    }

    fn own(&self, shard: usize) -> MutexGuard<'_, (u64, Report)> {
        self.reports[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a shard's report at the end of a turn that began in this round. Only its first
    /// report of a round counts.
    pub fn report(&self, shard: usize, round: u64, report: Report) {
        let mut own = self.own(shard);
        if own.0 < round {
            *own = (round, report);
        }
    }

    /// The last report of each shard, and whether it belongs to the current round.
    pub fn reports(&self) -> Vec<(bool, Report)> {
        let round = self.round();
        (0..self.reports.len()).map(|shard| *self.own(shard)).map(|(of, report)| (of == round, report)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_goes_on_only_and_a_round_has_one_report_of_each_shard() {
        let ending = Ending::new(2);
        ending.go_on(Stage::Cutting);
        ending.go_on(Stage::Closing);
        assert_eq!(ending.stage(), Stage::Cutting);
        ending.begin_round();
        let quiet = Report { quiet: true, ..Report::default() };
        ending.report(1, ending.round(), quiet);
        ending.report(1, ending.round(), Report::default());
        assert_eq!(ending.reports(), [(false, Report::default()), (true, quiet)]);
        ending.begin_round();
        assert_eq!(ending.reports()[1], (false, quiet), "which is of the round before");
    }
}

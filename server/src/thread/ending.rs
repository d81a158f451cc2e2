//! The end of all shards' threads, which is one for all of them: no shard waits for another's, and a shard that stands still is
//! seen by its silence.
//!
//! ```text
//! Serving ──> Closing ───────────────> Cutting ────────────────────> Over
//!             listeners close,         what is still connected       threads end
//!             streams are ended        is cut off
//!             `────── letters, commits and reads are carried out ──'
//! ```
//!
//! Shards are quiet when none of them has anything left *and* no letter is on its way between them. Each shard reports once a
//! round, at the end of a turn that began after the round did. If all were quiet in two rounds, and as many letters had been taken
//! out of the rings by the end of the first as had been put in by the end of the second, then none was on its way in between
//! (F. Mattern, "Algorithms for distributed termination detection", 1987: four counters).

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How far the end has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Stage {
    /// It has not begun.
    Serving,
    /// Nobody is accepted any more, and all streams have been ended.
    Closing,
    /// Connections that did not close are cut off.
    Cutting,
    /// Threads end.
    Over,
}

/// What a shard still has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Nothing.
    pub quiet: bool,
    /// Envelopes that it has sent to other shards, such as wait for room included.
    pub sent: u64,
    /// Envelopes that it has taken from other shards.
    pub received: u64,
    /// Open connections.
    pub connections: u64,
    /// Batches of writes that are not durable.
    pub commits: u64,
}

/// The end of all threads.
#[derive(Debug)]
pub struct Ending {
    stage: AtomicU8,
    round: AtomicU64,
    /// By shard: the round that it has reported in last, and what.
    reports: Vec<Mutex<(u64, Report)>>,
}

impl Ending {
    /// For so many shards.
    pub fn new(shards: usize) -> Ending {
        let reports = (0..shards).map(|_| Mutex::default()).collect();
        Ending { stage: AtomicU8::new(Stage::Serving as u8), round: AtomicU64::new(0), reports }
    }

    /// How far it has come: one load a turn.
    #[inline]
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Serving,
            1 => Stage::Closing,
            2 => Stage::Cutting,
            _ => Stage::Over,
        }
    }

    /// Goes on to this stage, never back. Threads have to be woken.
    pub fn go_on(&self, to: Stage) {
        self.stage.fetch_max(to as u8, Ordering::AcqRel);
    }

    /// Begins a round; threads have to be woken.
    pub fn begin_round(&self) {
        self.round.fetch_add(1, Ordering::AcqRel);
    }

    /// The round that is under way.
    pub fn round(&self) -> u64 {
        self.round.load(Ordering::Acquire)
    }

    fn own(&self, shard: usize) -> MutexGuard<'_, (u64, Report)> {
        self.reports[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A shard says what it has at the end of a turn that began in this round. Its first report of a round counts.
    pub fn report(&self, shard: usize, round: u64, report: Report) {
        let mut own = self.own(shard);
        if own.0 < round {
            *own = (round, report);
        }
    }

    /// What each shard has reported last, and whether that was in the round under way.
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

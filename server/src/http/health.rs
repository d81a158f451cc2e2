//! Liveness: whether the loop of each shard turns. A turn that does not end is detected by its
//! count, which stops growing.

use std::time::{Duration, Instant};

use super::Telemetry;
use crate::waits::{Mutex, Place};

/// A loop without a turn for this long is stuck: it never sleeps longer than a quarter of a second.
pub(super) const STUCK_AFTER: Duration = Duration::from_secs(5);

/// The number of turns of each shard, and when it last changed.
pub(super) struct Turns {
    seen: Mutex<Vec<(u64, Instant)>>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { seen: Mutex::new(Place::LockTurns, Vec::new()) }
    }
}

impl Turns {
    /// Checks the counts, once per second.
    pub(super) fn look(&self, telemetry: &dyn Telemetry, now: Instant) {
        let turns = |numbers: &Vec<super::Number>| numbers.iter().find(|n| n.name == "turns").map_or(0, |n| n.value);
        let current: Vec<u64> = telemetry.shards().iter().map(turns).collect();
        let mut seen = self.seen.lock();
        seen.resize(current.len(), (u64::MAX, now));
        for ((before, since), turns) in seen.iter_mut().zip(current) {
            if *before != turns {
                (*before, *since) = (turns, now);
            }
        }
    }

    /// Shards that do not turn, and for how long.
    pub(super) fn stuck(&self, now: Instant) -> Vec<(usize, Duration)> {
        let seen = self.seen.lock();
        let idle = seen.iter().enumerate().map(|(shard, (_, since))| (shard, now.duration_since(*since)));
        idle.filter(|(_, idle)| *idle >= STUCK_AFTER).collect()
    }
}

//! How long a group gathers before it is synced.
//!
//! A sync costs the committer some 70 microseconds of CPU whatever its size, and each wake-up of
//! the shards after it costs them some more. While batches arrive often, a group therefore waits
//! for further ones: at most [`GATHER_MAX`], at most [`SYNCS`] times as long as a sync takes, and
//! only while some arrive. A lone batch does not wait, and neither does a group that is already
//! large. So a client that waits for each answer is hardly slowed down.

use std::time::Duration;

/// Maximum time that a group gathers.
pub(super) const GATHER_MAX: Duration = Duration::from_millis(1);

/// The same as a multiple of a sync's duration: where syncs are cheap, waiting gains little.
const SYNCS: u32 = 8;

/// Number of rows at which the cost of a sync per row is negligible.
pub(super) const ENOUGH: usize = 64;

/// Time between two checks for new batches. A check costs a third of a sync.
const LOOK: Duration = Duration::from_micros(500);

/// After this many consecutive checks that found more, batches arrive steadily, and the next groups
/// check only at their end.
const STEADY: u32 = 8;

/// Mean time between two batches from which on a group does not wait.
const RARE: Duration = Duration::from_micros(500);

/// Maximum gap that counts for the mean, so that the first batches after a pause are soon
/// recognised as frequent.
const GAP_MAX: Duration = Duration::from_millis(2);

/// Weight of a new value in the means: one part in this many.
const PARTS: u32 = 8;

/// The committer's statistics of batch arrivals and sync durations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    /// Recent mean time between two batches.
    gap: Duration,
    /// Recent mean time of a sync.
    sync: Duration,
    /// Groups so far.
    groups: u32,
    /// Consecutive checks that found more.
    steady: u32,
}

impl Gathering {
    /// The state before any batch.
    pub(super) fn start() -> Gathering {
        Gathering { gap: GAP_MAX, sync: Duration::ZERO, groups: 0, steady: 0 }
    }

    /// Records a group of this many batches, the time since the previous one ended, and how long
    /// its commit took.
    pub(super) fn committed(&mut self, batches: usize, after: Duration, took: Duration) {
        let batches = u32::try_from(batches).unwrap_or(u32::MAX).max(1);
        self.gap = mean(self.gap, after.min(GAP_MAX) / batches);
        self.sync = mean(self.sync, took.min(GATHER_MAX));
        self.groups = self.groups.wrapping_add(1);
    }

    /// How long a group of this many rows, which has gathered for a time, waits before the next
    /// check; `None` if it is large enough or waiting gains nothing. `more` tells whether something
    /// arrived since the last check.
    pub(super) fn pause(&mut self, rows: usize, gathered: Duration, more: bool) -> Option<Duration> {
        if !gathered.is_zero() {
            self.steady = if more { self.steady.saturating_add(1) } else { 0 };
        }
        if !more || rows == 0 || rows >= ENOUGH || self.gap >= RARE {
            return None;
        }
        let rest = GATHER_MAX.min(self.sync * SYNCS).saturating_sub(gathered);
        // Some groups check twice even so, to notice when no more arrive.
        let look = if self.steady >= STEADY && !self.groups.is_multiple_of(STEADY) { GATHER_MAX } else { LOOK };
        (rest > LOOK / 8).then(|| rest.min(look))
    }
}

fn mean(before: Duration, new: Duration) -> Duration {
    (before * (PARTS - 1) + new) / PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_micros(200);
    const US: Duration = Duration::from_micros(1);

    /// The statistics after this many groups of this many batches, each this long after the
    /// previous one.
    fn after(groups: usize, batches: usize, every: Duration, took: Duration) -> Gathering {
        let mut gathering = Gathering::start();
        (0..groups).for_each(|_| gathering.committed(batches, every, took));
        gathering
    }

    /// How many rows share a sync, and how long they gather, if one is present and further ones
    /// arrive at this interval.
    fn gathers(gathering: &mut Gathering, every: Duration) -> (usize, Duration) {
        let (mut gathered, mut rows, mut more) = (Duration::ZERO, 1, true);
        while let Some(pause) = gathering.pause(rows, gathered, more) {
            gathered += pause;
            let come = 1 + (gathered.as_nanos() / every.as_nanos()) as usize;
            more = come > rows;
            rows = come;
        }
        (rows, gathered)
    }

    #[test]
    fn a_batch_that_comes_alone_waits_for_nobody() {
        assert_eq!(gathers(&mut Gathering::start(), GAP_MAX), (1, Duration::ZERO));
        assert_eq!(gathers(&mut after(1000, 1, GATHER_MAX, SYNC), GAP_MAX), (1, Duration::ZERO));
    }

    #[test]
    fn batches_that_come_often_share_a_sync() {
        // 2,000, 10,000 and 40,000 messages per second, with two rows each.
        for (every_us, least, most) in [(250, 5, GATHER_MAX), (50, 21, GATHER_MAX), (12, 41, LOOK * 2)] {
            let (rows, gathered) = gathers(&mut after(50, 1, US * every_us, SYNC), US * every_us);
            assert!(rows >= least && gathered <= most, "{rows} in {gathered:?}");
        }
    }

    #[test]
    fn a_burst_after_a_rest_is_seen_within_some_groups() {
        let mut gathering = after(100, 1, Duration::from_secs(1), SYNC);
        let groups = (1..100).find(|_| {
            gathering.committed(1, US * 100, SYNC);
            gathering.pause(1, Duration::ZERO, true).is_some()
        });
        assert!(groups.is_some_and(|groups| groups < 20), "{groups:?}");
    }

    #[test]
    fn nobody_waits_for_those_who_wait_for_this_group() {
        let mut closed = after(50, 8, US * 400, SYNC);
        // Enough rows are present already.
        assert_eq!(closed.pause(ENOUGH, Duration::ZERO, true), None);
        // After a check that found nothing there is no other.
        assert_eq!(gathers(&mut closed, Duration::from_secs(1)), (1, LOOK));
    }

    #[test]
    fn groups_look_once_while_batches_come_all_the_time() {
        let mut gathering = after(50, 20, GATHER_MAX, SYNC);
        let first_look = |every: Duration, gathering: &mut Gathering| {
            gathering.committed(20, GATHER_MAX, SYNC);
            let first = gathering.pause(1, Duration::ZERO, true);
            gathers(gathering, every);
            first
        };
        let looks: Vec<_> = (0..40).map(|_| first_look(US * 50, &mut gathering)).collect();
        assert_eq!(looks[0], Some(LOOK));
        assert!(looks[24..].iter().filter(|look| **look == Some(GATHER_MAX)).count() >= 14, "{looks:?}");
        // They stop, and the full time is waited a few times at most.
        let looks: Vec<_> = (0..10).map(|_| first_look(Duration::from_secs(1), &mut gathering)).collect();
        assert_eq!(looks[9], Some(LOOK), "{looks:?}");
    }

    #[test]
    fn where_syncs_are_cheap_nobody_waits_long() {
        assert_eq!(gathers(&mut after(100, 1, US * 50, US * 5), US * 50), (1, Duration::ZERO));
        assert!(gathers(&mut after(100, 1, US * 50, US * 20), US * 50).1 <= US * 160);
        // However long one sync took.
        assert_eq!(gathers(&mut after(100, 1, US * 50, Duration::from_secs(1)), US * 50).1, GATHER_MAX);
    }
}

//! How long a group gathers before it is synced.
//!
//! A sync costs the committer some 70 microseconds of CPU whatever it carries, and each waking of the shards behind it costs
//! them some more. While batches come often, a group therefore waits for further ones: at most [`GATHER_MAX`], at most
//! [`SYNCS`] times as long as a sync takes, and only as long as some come. A batch that comes alone waits for nobody, and
//! neither does a group that is large already, so that a loop which waits for its answers is hardly slowed down.

use std::time::Duration;

/// Longest time that a group gathers.
pub(super) const GATHER_MAX: Duration = Duration::from_millis(1);

/// The same as a multiple of what a sync takes: where syncs are cheap, little is gained by waiting.
const SYNCS: u32 = 8;

/// Rows among which a sync costs each next to nothing.
pub(super) const ENOUGH: usize = 64;

/// Time between two looks at what has come. A look costs a third of what a sync does.
const LOOK: Duration = Duration::from_micros(500);

/// So many looks in a row that found more mean that batches come all the time, and the next groups look only at their end.
const STEADY: u32 = 8;

/// Mean time between two batches from which on a group does not wait.
const RARE: Duration = Duration::from_micros(500);

/// Longest gap that counts for the mean, so that the first batches after a rest are soon seen to come often.
const GAP_MAX: Duration = Duration::from_millis(2);

/// Weight of a new value in the means: one part of so many.
const PARTS: u32 = 8;

/// What the committer knows of how batches come and of how long syncs take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gathering {
    /// Mean time between two batches, lately.
    gap: Duration,
    /// Mean time of a sync, lately.
    sync: Duration,
    /// Groups so far.
    groups: u32,
    /// Looks in a row that found more.
    steady: u32,
}

impl Gathering {
    /// Nothing has come yet.
    pub(super) fn start() -> Gathering {
        Gathering { gap: GAP_MAX, sync: Duration::ZERO, groups: 0, steady: 0 }
    }

    /// Notes a group of so many batches, how long after the one before it ended, and how long its commit took.
    pub(super) fn committed(&mut self, batches: usize, after: Duration, took: Duration) {
        let batches = u32::try_from(batches).unwrap_or(u32::MAX).max(1);
        self.gap = mean(self.gap, after.min(GAP_MAX) / batches);
        self.sync = mean(self.sync, took.min(GATHER_MAX));
        self.groups = self.groups.wrapping_add(1);
    }

    /// How long a group of so many rows, which has gathered for a time, waits before the next look; not at all if there is
    /// enough of it or if it gains nothing. `more` says whether some of it has come since the last look.
    pub(super) fn pause(&mut self, rows: usize, gathered: Duration, more: bool) -> Option<Duration> {
        if !gathered.is_zero() {
            self.steady = if more { self.steady.saturating_add(1) } else { 0 };
        }
        if !more || rows == 0 || rows >= ENOUGH || self.gap >= RARE {
            return None;
        }
        let rest = GATHER_MAX.min(self.sync * SYNCS).saturating_sub(gathered);
        // Some groups look twice all the same, so that it shows when no more come.
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

    /// What is known after so many groups of so many batches, each so long after the one before.
    fn after(groups: usize, batches: usize, every: Duration, took: Duration) -> Gathering {
        let mut gathering = Gathering::start();
        (0..groups).for_each(|_| gathering.committed(batches, every, took));
        gathering
    }

    /// How many rows share a sync, and how long they gather, if one is there and further ones come at this distance.
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
        // 2,000, 10,000 and 40,000 messages a second, with two rows each.
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
        // Enough rows are there already.
        assert_eq!(closed.pause(ENOUGH, Duration::ZERO, true), None);
        // After a look at which nothing had come there is none.
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
        // They stop, and are waited for in full a few times at most.
        let looks: Vec<_> = (0..10).map(|_| first_look(Duration::from_secs(1), &mut gathering)).collect();
        assert_eq!(looks[9], Some(LOOK), "{looks:?}");
    }

    #[test]
    fn where_syncs_are_cheap_nobody_waits_long() {
        assert_eq!(gathers(&mut after(100, 1, US * 50, US * 5), US * 50), (1, Duration::ZERO));
        assert!(gathers(&mut after(100, 1, US * 50, US * 20), US * 50).1 <= US * 160);
        // However long one sync has taken.
        assert_eq!(gathers(&mut after(100, 1, US * 50, Duration::from_secs(1)), US * 50).1, GATHER_MAX);
    }
}

//! The age of the oldest element of a queue, without a timestamp per element: from the number of
//! arrivals and the length.
//!
//! In a first-in, first-out queue, the waiting elements are the last that arrived. So the oldest
//! one arrived when the number of arrivals first exceeded the current number of departures. That
//! moment is looked up in the history of counts.

use std::collections::VecDeque;

/// Most counts stored per queue. Beyond this, every second one is dropped: an age is then exact to
/// about a 64th of itself, however old, and to the second at first.
const REMEMBERED_MAX: usize = 128;

/// The history of one queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Age {
    /// Milliseconds, and the number of arrivals by then; for an empty queue only the last entry.
    /// Bounded by [`REMEMBERED_MAX`].
    counts: VecDeque<(u64, u64)>,
}

impl Age {
    /// The age of the oldest element in milliseconds, after `came` arrivals in all of which the
    /// last `length` wait.
    pub(super) fn first_out(&mut self, now_ms: u64, came: u64, length: u64) -> u64 {
        let gone = came.saturating_sub(length);
        self.remember(now_ms, came);
        // The front is then the last count before the oldest arrived, if that was recorded.
        while self.counts.get(1).is_some_and(|(_, came)| *came <= gone) {
            self.counts.pop_front();
        }
        let Some(&(before_ms, before)) = self.counts.front() else { return 0 };
        let came_ms = match self.counts.get(1) {
            Some(&(after_ms, after)) if before <= gone && after > before => {
                let part = (gone + 1 - before) as f64 / (after - before) as f64;
                before_ms + ((after_ms - before_ms) as f64 * part.min(1.0)) as u64
            }
            _ => before_ms,
        };
        if length == 0 { 0 } else { now_ms.saturating_sub(came_ms) }
    }

    /// An upper bound for the age of any element in milliseconds, for a queue of unknown order: the
    /// time since it was empty.
    pub(super) fn since_empty(&mut self, now_ms: u64, length: u64) -> u64 {
        if length == 0 || self.counts.is_empty() {
            self.counts.clear();
            self.counts.push_back((now_ms, 0));
        }
        self.counts.front().map_or(0, |(empty_ms, _)| now_ms.saturating_sub(*empty_ms))
    }

    fn remember(&mut self, now_ms: u64, came: u64) {
        if self.counts.len() == REMEMBERED_MAX {
            let mut at = 0;
            // The first stays: all later arrivals are newer than it.
            self.counts.retain(|_| {
                at += 1;
                at % 2 == 1
            });
        }
        self.counts.push_back((now_ms, came));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_as_old_as_the_count_that_it_came_with() {
        let mut age = Age::default();
        // Ten arrive per second, and all leave at once.
        for second in 0..5 {
            assert_eq!(age.first_out(second * 1_000, second * 10, 0), 0);
        }
        // From now on none leaves: the oldest arrived in the first second after that.
        for second in 5..60 {
            let oldest_ms = age.first_out(second * 1_000, second * 10, (second - 4) * 10);
            assert_eq!(oldest_ms, second * 1_000 - 4_100, "{second}");
        }
        // Half of it leaves.
        assert_eq!(age.first_out(60_000, 600, 280), 60_000 - 32_100);
        assert_eq!(age.first_out(61_000, 610, 0), 0);
        assert_eq!(age.counts.len(), 1, "nothing is remembered of an empty queue");
    }

    #[test]
    fn an_hour_is_told_to_a_part_of_it_and_takes_no_more_memory() {
        let mut age = Age::default();
        age.first_out(0, 0, 0);
        for second in 1..=3_600 {
            let (now_ms, came) = (second * 1_000, second * 10);
            // Ten per second, evenly: whichever counts remain, the first of ten arrived after a
            // tenth of a second.
            assert_eq!(age.first_out(now_ms, came, came), now_ms - 100, "{second}");
            assert!(age.counts.len() <= REMEMBERED_MAX);
        }
    }

    #[test]
    fn what_was_there_before_is_at_least_as_old_as_the_first_look() {
        let mut age = Age::default();
        assert_eq!(age.first_out(10_000, 50, 20), 0);
        assert_eq!(age.first_out(13_000, 60, 25), 3_000);
        assert_eq!(age.first_out(14_000, 60, 5), 2_200, "five of the ten that came between the looks are gone");
    }

    #[test]
    fn where_anything_may_go_first_none_is_older_than_the_queue_was_empty() {
        let mut age = Age::default();
        let told = [(0, 0), (1_000, 3), (2_000, 1), (3_000, 0), (4_000, 0), (5_000, 9)];
        let ages = told.map(|(now_ms, length)| age.since_empty(now_ms, length));
        assert_eq!(ages, [0, 1_000, 2_000, 0, 0, 1_000]);
    }
}

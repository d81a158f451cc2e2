//! The rate of commits while merges fall behind: each commit is followed by a pause in proportion
//! to its bytes. Heavy writers are slowed down, and no commit waits for a whole merge.
//!
//! The first level may grow long if the device has space for merging all of it. A merge of more
//! tables writes less per table, so a level that grows under load lets merges keep up.

use std::time::{Duration, Instant};

/// Limits of the runs of the first level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// The number at which commits slow down.
    pub(super) slow: usize,
    /// The number at which commits stop.
    pub(super) most: usize,
}

/// With space for the largest merges.
pub(super) const WIDE: Limits = Limits { slow: 96, most: 128 };

/// With less space.
pub(super) const NARROW: Limits = Limits { slow: 28, most: 36 };

/// Committed bytes per second at the point where commits begin to slow down.
const PACE_BYTES_S: f64 = (64 << 20) as f64;

/// The fraction of it that remains just before they stop.
const LEAST_PART: f64 = 0.1;

/// Maximum pause after a commit, seconds.
const PAUSE_S_MAX: f64 = 0.1;

/// The pace of one store's commits.
pub(super) struct Pace {
    /// The earliest time of the next commit.
    next: Option<Instant>,
}

impl Pace {
    pub(super) fn start() -> Pace {
        Pace { next: None }
    }

    /// Records a commit at a rate, if there is one.
    pub(super) fn committed(&mut self, bytes: usize, bytes_s: Option<f64>) {
        self.next = bytes_s.map(|bytes_s| Instant::now() + pause(bytes, bytes_s));
    }

    /// Time to wait before the next commit.
    pub(super) fn due(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }
}

/// Permitted bytes per second while the first level has this many runs; `None` if there is no
/// limit.
pub(super) fn bytes_s(runs: usize, limits: Limits) -> Option<f64> {
    let over = runs.checked_sub(limits.slow)?;
    let part = over as f64 / (limits.most - limits.slow) as f64;
    Some(PACE_BYTES_S * LEAST_PART.powf(part.min(1.0)))
}

fn pause(bytes: usize, bytes_s: f64) -> Duration {
    Duration::from_secs_f64((bytes as f64 / bytes_s).min(PAUSE_S_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_slow_down_in_proportion_to_their_bytes_and_to_how_far_merges_are_behind() {
        for limits in [NARROW, WIDE] {
            let mut pace = Pace::start();
            assert_eq!(bytes_s(limits.slow - 1, limits), None);
            pace.committed(1 << 20, None);
            assert_eq!(pace.due(), Duration::ZERO);
            pace.committed(1 << 20, bytes_s(limits.slow, limits));
            assert!(pace.due() > Duration::from_millis(5));
            assert_eq!(bytes_s(limits.slow, limits), Some(PACE_BYTES_S));
            assert!(bytes_s(limits.slow + 1, limits) < bytes_s(limits.slow, limits));
            let least = bytes_s(limits.most, limits).unwrap();
            assert_eq!(bytes_s(limits.most + 9, limits), Some(least));
            assert_eq!(pause(1 << 20, PACE_BYTES_S), Duration::from_secs_f64(1.0 / 64.0));
            assert_eq!(pause(1 << 30, least), Duration::from_secs_f64(PAUSE_S_MAX));
        }
    }
}

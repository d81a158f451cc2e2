//! How fast commits may come while merges fall behind: each commit is followed by a pause in proportion to its bytes, so
//! that who writes much is slowed down, and nobody ever waits for a whole merge.
//!
//! The first level may become long where the device has the space for merging all of it: a merge that begins with more
//! tables writes less for each, so a level that grows while rows come fast is what lets merges keep up with them.

use std::time::{Duration, Instant};

/// How many runs the first level may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Limits {
    /// From so many on commits slow down.
    pub(super) slow: usize,
    /// With so many commits wait.
    pub(super) most: usize,
}

/// With space for merges that are as large as they become.
pub(super) const WIDE: Limits = Limits { slow: 96, most: 128 };

/// With less.
pub(super) const NARROW: Limits = Limits { slow: 28, most: 36 };

/// Bytes a second that may be committed where commits begin to slow down.
const PACE_BYTES_S: f64 = (64 << 20) as f64;

/// What is left of it just before they wait.
const LEAST_PART: f64 = 0.1;

/// Longest pause after a commit, seconds.
const PAUSE_S_MAX: f64 = 0.1;

/// The pace of one store's commits.
pub(super) struct Pace {
    /// Not before this is the next commit.
    next: Option<Instant>,
}

impl Pace {
    pub(super) fn start() -> Pace {
        Pace { next: None }
    }

    /// Notes a commit at a rate, if there is one.
    pub(super) fn committed(&mut self, bytes: usize, bytes_s: Option<f64>) {
        self.next = bytes_s.map(|bytes_s| Instant::now() + pause(bytes, bytes_s));
    }

    /// Time to wait before the next commit.
    pub(super) fn due(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }
}

/// Bytes a second that may be committed while the first level has so many runs; `None` if any number may.
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

//! How fast commits may come while merges fall behind: each commit is followed by a pause in proportion to its bytes, so
//! that who writes much is slowed down, and nobody ever waits for a whole merge.

use std::time::{Duration, Instant};

/// Runs of the first level above which commits wait.
pub(super) const FIRST_LEVEL_MAX: usize = 36;

/// Runs of the first level from which on commits slow down.
pub(super) const FIRST_LEVEL_SLOW: usize = 28;

/// Bytes a second that may be committed with [`FIRST_LEVEL_SLOW`] runs in the first level.
const PACE_BYTES_S: f64 = (64 << 20) as f64;

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

    /// Notes a commit while the first level has so many runs.
    pub(super) fn committed(&mut self, bytes: usize, runs: usize) {
        self.next = (runs >= FIRST_LEVEL_SLOW).then(|| Instant::now() + pause(bytes, runs));
    }

    /// Time to wait before the next commit.
    pub(super) fn due(&self) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(Instant::now()))
    }
}

/// Pause after a commit: each run more takes a quarter of the rate.
fn pause(bytes: usize, runs: usize) -> Duration {
    let over = runs.saturating_sub(FIRST_LEVEL_SLOW).min(FIRST_LEVEL_MAX - FIRST_LEVEL_SLOW);
    let rate = PACE_BYTES_S * 0.75_f64.powi(over as i32);
    Duration::from_secs_f64((bytes as f64 / rate).min(PAUSE_S_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_slow_down_in_proportion_to_their_bytes_and_to_how_far_merges_are_behind() {
        let mut pace = Pace::start();
        pace.committed(1 << 20, FIRST_LEVEL_SLOW - 1);
        assert_eq!(pace.due(), Duration::ZERO);
        pace.committed(1 << 20, FIRST_LEVEL_SLOW);
        assert!(pace.due() > Duration::from_millis(5));
        assert_eq!(pause(1 << 20, FIRST_LEVEL_SLOW), Duration::from_secs_f64(1.0 / 64.0));
        assert!(pause(1 << 20, FIRST_LEVEL_SLOW + 1) > pause(1 << 20, FIRST_LEVEL_SLOW));
        assert_eq!(pause(1 << 30, FIRST_LEVEL_MAX), Duration::from_secs_f64(PAUSE_S_MAX));
    }
}

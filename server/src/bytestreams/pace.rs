//! Rate limit of one user's streams.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Burst permitted after a pause, as a time.
const BURST_US: u64 = 250_000;

/// The combined rate of one user's streams.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: u64,
    begun: Instant,
    /// When everything charged has passed, microseconds since `begun`.
    until_us: AtomicU64,
}

impl Pace {
    /// A limit of this many bytes per second; 0 is no limit.
    pub(super) fn new(bytes_per_second: u64) -> Pace {
        Pace { bytes_per_second, begun: Instant::now(), until_us: AtomicU64::new(0) }
    }

    /// Charges bytes; returns how long they must wait.
    pub(super) fn charge(&self, bytes: usize) -> Duration {
        self.charge_at(bytes as u64, self.now_us())
    }

    /// Whether everything charged has passed.
    pub(super) fn is_at_rest(&self) -> bool {
        self.until_us.load(Ordering::Relaxed) <= self.now_us()
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn charge_at(&self, bytes: u64, now_us: u64) -> Duration {
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let cost_us = bytes.saturating_mul(1_000_000) / self.bytes_per_second;
        // One thread charges: a plain load and store suffice.
        let until_us = self.until_us.load(Ordering::Relaxed).max(now_us) + cost_us;
        self.until_us.store(until_us, Ordering::Relaxed);
        Duration::from_micros((until_us - now_us).saturating_sub(BURST_US))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_bytes_wait_for_their_time() {
        let pace = Pace::new(1_000_000);
        let charge = |bytes, now_ms: u64| pace.charge_at(bytes, now_ms * 1_000).as_millis();
        assert_eq!(charge(250_000, 0), 0, "a burst");
        assert_eq!(charge(100_000, 0), 100);
        assert_eq!(charge(100_000, 100), 100, "as fast as it may");
        assert_eq!(charge(250_000, 10_000), 0, "after a rest");
        assert_eq!(charge(1, 10_000), 0);
        assert_eq!(charge(1_000_000, 10_000), 1_000);
    }

    #[test]
    fn without_a_limit_nothing_waits() {
        let pace = Pace::new(0);
        assert_eq!(pace.charge_at(u64::MAX, 0), Duration::ZERO);
        assert!(pace.is_at_rest());
    }
}

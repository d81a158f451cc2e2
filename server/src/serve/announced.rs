//! What announcements have to know of those before: their numbers, and the one that the store keeps.

use std::sync::atomic::{AtomicU64, Ordering};

use throng_engine::store::Found;
use throng_engine::store::announcement::{self, Kept};

use super::Rows;
use crate::cli::Failure;

/// What announcements have to know of those before.
pub(super) struct Announcing {
    /// The highest number that was given.
    number: AtomicU64,
}

impl Announcing {
    /// With the number of the announcement that the store has.
    pub(super) fn new(number: u64) -> Announcing {
        Announcing { number: AtomicU64::new(number) }
    }

    /// The next number: higher than any before, also before a restart, unless the clock went back by more than it was down and nothing
    /// is kept.
    pub(super) fn next(&self, now_us: u64) -> u64 {
        let after = |number: u64| Some(now_us.max(number + 1));
        let before = self.number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or_default();
        now_us.max(before + 1)
    }
}

/// The announcement that the store keeps, if it keeps one.
pub(super) fn stored(engine: &Rows) -> Result<Option<Kept>, Failure> {
    match engine.read(&announcement::query()).map_err(super::disk_failure)? {
        Found::Value(row) => Ok(row.and_then(|row| Kept::decode(&row))),
        Found::Rows { .. } | Found::Damaged => unreachable!("an engine answers a get with a value or an error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_increase_whatever_the_clock_says() {
        let announcing = Announcing::new(100);
        let numbers: Vec<u64> = [50, 50, 200, 150].into_iter().map(|now_us| announcing.next(now_us)).collect();
        assert_eq!(numbers, [101, 102, 200, 201]);
    }
}

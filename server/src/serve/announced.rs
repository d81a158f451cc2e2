//! The numbers of announcements, and the stored one.

use std::sync::atomic::{AtomicU64, Ordering};

use throng_engine::store::Found;
use throng_engine::store::announcement::{self, Kept};

use super::Rows;
use crate::cli::Failure;

/// State shared by successive announcements.
pub(super) struct Announcing {
    /// The highest number given.
    number: AtomicU64,
}

impl Announcing {
    /// Begins with the number of the stored announcement.
    pub(super) fn new(number: u64) -> Announcing {
        Announcing { number: AtomicU64::new(number) }
    }

    /// The next number: higher than all before it, also across a restart, unless the clock went
    /// back by more than the downtime and no announcement is stored.
    pub(super) fn next(&self, now_us: u64) -> u64 {
        let after = |number: u64| Some(now_us.max(number + 1));
        let before = self.number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).unwrap_or_default();
        now_us.max(before + 1)
    }
}

/// The stored announcement, if any.
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

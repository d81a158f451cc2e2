//! Times as a histogram of three significant digits, in microseconds, and as pairs to travel in.

use hdrhistogram::Histogram;

/// Longest time told apart, one hour; longer ones count as this.
const US_MAX: u64 = 3_600_000_000;

/// A histogram of times.
#[derive(Clone, Debug)]
pub(crate) struct Times(Histogram<u64>);

impl Times {
    /// Nothing recorded; about 190 KB.
    pub(crate) fn new() -> Times {
        Times(Histogram::new_with_bounds(1, US_MAX, 3).expect("these bounds are allowed"))
    }

    /// Records one time.
    pub(crate) fn record(&mut self, us: u64) {
        self.0.saturating_record(us.max(1));
    }

    /// Takes what was recorded, as pairs of a time and how often.
    pub(crate) fn take(&mut self) -> Vec<(u64, u64)> {
        let pairs = self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect();
        if !self.0.is_empty() {
            self.0.reset();
        }
        pairs
    }

    /// Adds what another has taken.
    pub(crate) fn add(&mut self, pairs: &[(u64, u64)]) {
        for (us, count) in pairs {
            self.0.saturating_record_n(*us, *count);
        }
    }

    /// How many are recorded.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share of all does not exceed, in milliseconds; none of nothing.
    pub(crate) fn quantile_ms(&self, share: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(share) as f64 / 1000.0)
    }

    /// Mean, in milliseconds; none of nothing.
    pub(crate) fn mean_ms(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| (self.0.mean() / 1000.0 * 1000.0).round() / 1000.0)
    }

    /// The longest, in milliseconds; none of nothing.
    pub(crate) fn max_ms(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64 / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_travels_is_what_was_recorded() {
        let (mut near, mut far) = (Times::new(), Times::new());
        (1..=1000).for_each(|us| near.record(us));
        near.record(u64::MAX);
        near.record(0);
        far.add(&near.take());
        assert_eq!((near.count(), far.count()), (0, 1002));
        assert_eq!(far.quantile_ms(0.5), Some(0.5));
        assert!(far.max_ms().is_some_and(|ms| (3_599_000.0..3_604_000.0).contains(&ms)));
        assert_eq!(near.quantile_ms(0.5), None);
    }
}

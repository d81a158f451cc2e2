//! Random choices by a seed, and times of events that come at random (a Poisson process).

/// SplitMix64 (Steele et al., OOPSLA 2014): small, fast, good enough to choose by.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// At least 0 and less than 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed with this mean.
    pub(crate) fn about(&mut self, mean: f64) -> f64 {
        -(1.0 - self.share()).ln() * mean
    }
}

/// Events at random times, so many a second on average, also while the rate changes. An event's time does not depend on
/// whether anybody was in time for the one before: who comes late finds all that are due, each with its own time.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// Up to here time has been looked at.
    seen_ns: u64,
    /// How many events' worth of time is left until the next one: exponentially distributed with mean 1, whatever the rate.
    left: f64,
    per_s: f64,
    random: Random,
}

impl Arrivals {
    /// The first event comes after `start_ns`.
    pub(crate) fn new(start_ns: u64, seed: u64) -> Arrivals {
        let mut random = Random::new(seed);
        Arrivals { seen_ns: start_ns, left: random.about(1.0), per_s: 0.0, random }
    }

    /// The time of the next event that is due, if since the last look the rate was this; called until there is none.
    pub(crate) fn due(&mut self, now_ns: u64, per_s: f64) -> Option<u64> {
        self.per_s = per_s;
        let passed = now_ns.saturating_sub(self.seen_ns) as f64 / 1e9 * per_s;
        if passed < self.left || per_s <= 0.0 {
            self.left -= passed.max(0.0);
            self.seen_ns = self.seen_ns.max(now_ns);
            return None;
        }
        self.seen_ns = self.next_ns();
        self.left = self.random.about(1.0);
        Some(self.seen_ns)
    }

    /// When the next event is if the rate stays; never, if it is 0.
    pub(crate) fn next_ns(&self) -> u64 {
        self.seen_ns.saturating_add((self.left * 1e9 / self.per_s) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_come_as_the_rate_says_and_none_is_forgotten_by_who_is_late() {
        let mut arrivals = Arrivals::new(0, 7);
        // Nobody looks for ten seconds: all of them are due, at their own times.
        let mut times = Vec::new();
        while let Some(at) = arrivals.due(10_000_000_000, 1000.0) {
            times.push(at);
        }
        assert!((9_600..10_400).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted() && *times.last().expect("some") <= 10_000_000_000);
        assert_eq!(arrivals.due(10_000_000_000, 0.0), None);
    }

    #[test]
    fn a_rate_that_rises_is_followed_at_once() {
        for seed in 0..20 {
            let mut arrivals = Arrivals::new(0, seed);
            // A rate that would make hours pass until the next event must not keep a higher one waiting.
            assert_eq!(arrivals.due(1_000_000, 0.0001), None);
            let count = (0..1000).filter(|ms| arrivals.due(1_000_000 + ms * 1_000_000, 500.0).is_some()).count();
            assert!((250..600).contains(&count), "{count}");
        }
    }

    #[test]
    fn choices_stay_below_their_bound_and_reach_all() {
        let mut random = Random::new(1);
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[random.below(5) as usize] += 1);
        assert!(seen.iter().all(|count| *count > 120), "{seen:?}");
    }
}

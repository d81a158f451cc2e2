//! A circuit breaker for an external service that has failed too often: requests are then refused
//! at once, instead of each waiting for its timeout. Used for external authentication and for
//! pushes.

use std::time::{Duration, Instant};

/// Consecutive failures that open the breaker; any answer resets the count.
pub(crate) const FAILURES_MAX: u32 = 5;

/// How long requests are refused: initially and at most. The time doubles with each failed trial.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A trial without a result for this long is abandoned.
const TRIAL_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Instant },
    Trial { since: Instant },
}

/// Counts failures. Time is an argument.
#[derive(Debug)]
pub(crate) struct Breaker {
    state: State,
    wait: Duration,
}

impl Default for Breaker {
    fn default() -> Breaker {
        Breaker { state: State::Closed { failures: 0 }, wait: WAIT_MIN }
    }
}

impl Breaker {
    /// Whether a request may be sent now. When the time is over, one trial may, and its result
    /// decides.
    pub(crate) fn may_ask(&mut self, now: Instant) -> bool {
        let may = self.would_ask(now);
        if may && !matches!(self.state, State::Closed { .. }) {
            self.state = State::Trial { since: now };
        }
        may
    }

    /// The same, without starting a trial.
    pub(crate) fn would_ask(&self, now: Instant) -> bool {
        match self.state {
            State::Closed { .. } => true,
            State::Open { until } => now >= until,
            State::Trial { since } => now.duration_since(since) >= TRIAL_MAX,
        }
    }

    /// Whether a request that has waited may still be sent.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// A permitted request was not sent. If it was the trial, the next one becomes the trial.
    pub(crate) fn unasked(&mut self, now: Instant) {
        if let State::Trial { .. } = self.state {
            self.state = State::Open { until: now };
        }
    }

    /// Records an answer. Returns whether the service was down before.
    pub(crate) fn answered(&mut self) -> bool {
        let was_down = !matches!(self.state, State::Closed { .. });
        *self = Breaker::default();
        was_down
    }

    /// Records a failure. Returns whether the service is down from now on, and was not before.
    pub(crate) fn failed(&mut self, now: Instant) -> bool {
        match self.state {
            State::Closed { failures } if failures + 1 < FAILURES_MAX => {
                self.state = State::Closed { failures: failures + 1 };
                false
            }
            State::Closed { .. } => {
                self.state = State::Open { until: now + self.wait };
                true
            }
            State::Trial { .. } => {
                self.wait = (self.wait * 2).min(WAIT_MAX);
                self.state = State::Open { until: now + self.wait };
                false
            }
            State::Open { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_by_one_trial() {
        let (mut breaker, start) = (Breaker::default(), Instant::now());
        for _ in 0..3 {
            (1..FAILURES_MAX).for_each(|_| assert!(!breaker.failed(start)));
            assert!(!breaker.answered() && breaker.may_ask(start), "an answer in between");
        }
        (1..FAILURES_MAX).for_each(|_| assert!(!breaker.failed(start)));
        assert!(breaker.failed(start), "told once");
        assert!(!breaker.failed(start) && breaker.is_open() && !breaker.may_ask(start));
        let mut now = start;
        for wait_s in [1, 2, 4, 8, 16, 30, 30] {
            assert!(!breaker.may_ask(now + Duration::from_secs(wait_s) - Duration::from_millis(1)), "{wait_s} s");
            now += Duration::from_secs(wait_s);
            assert!(breaker.may_ask(now) && !breaker.may_ask(now), "one trial");
            assert!(!breaker.is_open() && !breaker.failed(now));
        }
        now += WAIT_MAX;
        assert!(breaker.may_ask(now) && breaker.answered() && breaker.may_ask(now));
        // A trial that is lost or never sent is not the last one.
        (0..FAILURES_MAX).for_each(|_| {
            breaker.failed(now);
        });
        now += WAIT_MIN;
        assert!(breaker.would_ask(now) && breaker.would_ask(now), "nothing is asked by that");
        assert!(breaker.may_ask(now) && !breaker.may_ask(now + WAIT_MAX) && breaker.may_ask(now + TRIAL_MAX));
        breaker.unasked(now);
        assert!(breaker.may_ask(now) && !breaker.may_ask(now));
    }
}

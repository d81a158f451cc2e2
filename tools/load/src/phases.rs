//! Which phase a run is in, and how hard it works in it. No clock, no socket: times and totals are arguments.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::scenario::Scenario;

/// A run goes through these in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Clients log in.
    Ramp = 0,
    /// Sessions are held, messages sent.
    Hold = 1,
    /// Nothing more is sent; what is under way comes.
    Drain = 2,
    /// Streams are closed.
    Close = 3,
    /// Whatever is left is dropped.
    Over = 4,
}

impl Phase {
    /// The phase of a number, as it travels between threads.
    pub(crate) fn of(number: u8) -> Phase {
        [Phase::Ramp, Phase::Hold, Phase::Drain, Phase::Close].get(number as usize).copied().unwrap_or(Phase::Over)
    }
}

/// How far all workers are, together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Totals {
    /// Clients whose session stood at least once.
    pub(crate) arrived: u64,
    /// Clients that have given up.
    pub(crate) hopeless: u64,
    /// Messages sent.
    pub(crate) sent: u64,
    /// Messages that have not come.
    pub(crate) outstanding: u64,
    /// Workers that may have begun a message since they told the above.
    pub(crate) sending: u64,
    /// Connections that are not closed.
    pub(crate) open: u64,
    /// Workers that have ended.
    pub(crate) over: u64,
}

/// What bounds the phases of a run.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(crate) struct Bounds {
    /// Clients that are to arrive.
    pub(crate) clients: u32,
    /// Longest ramp, in seconds.
    pub(crate) ramp_s_max: f64,
    /// The hold, in seconds.
    pub(crate) hold_s: f64,
    /// Messages with which the hold ends before its time; 0 for any number.
    pub(crate) messages_max: u64,
    /// Longest drain, in seconds.
    pub(crate) drain_s: f64,
    /// When the drain begins at the latest, in seconds since the run's start.
    pub(crate) total_s_max: f64,
}

impl Bounds {
    /// Those of a scenario.
    pub(crate) fn of(scenario: &Scenario) -> Bounds {
        let Scenario { ramp_s_max, hold_s, messages_max, drain_s, total_s_max, .. } = *scenario;
        Bounds { clients: scenario.sessions, ramp_s_max, hold_s, messages_max, drain_s, total_s_max }
    }
}

/// How long closing the streams may take.
pub(crate) const CLOSE_MAX: Duration = Duration::from_secs(15);

/// Decides when a phase ends.
#[derive(Debug)]
pub(crate) struct Director {
    phase: Phase,
    since: Duration,
    stopped: bool,
}

impl Director {
    /// A run begins with its ramp.
    pub(crate) fn new() -> Director {
        Director { phase: Phase::Ramp, since: Duration::ZERO, stopped: false }
    }

    /// The phase at `now`, counted from the run's start. `stop` counts the wishes to end: the first ends cleanly, a second
    /// at once.
    pub(crate) fn step(&mut self, bounds: &Bounds, now: Duration, totals: &Totals, stop: u32) -> Phase {
        let seconds = |s: f64| Duration::from_secs_f64(s);
        let lasted = now.saturating_sub(self.since);
        let hurry = now >= seconds(bounds.total_s_max) || stop > 0;
        let next = match self.phase {
            _ if stop > 1 => Some(Phase::Over),
            Phase::Ramp | Phase::Hold if hurry && !self.stopped => Some(Phase::Drain),
            Phase::Ramp => {
                let complete = totals.arrived + totals.hopeless >= u64::from(bounds.clients);
                (complete || lasted >= seconds(bounds.ramp_s_max)).then_some(Phase::Hold)
            }
            Phase::Hold => {
                let enough = bounds.messages_max > 0 && totals.sent >= bounds.messages_max;
                (enough || lasted >= seconds(bounds.hold_s)).then_some(Phase::Drain)
            }
            Phase::Drain => {
                let all_came = totals.sending == 0 && totals.outstanding == 0;
                (all_came || lasted >= seconds(bounds.drain_s)).then_some(Phase::Close)
            }
            Phase::Close => (totals.open == 0 || lasted >= CLOSE_MAX).then_some(Phase::Over),
            Phase::Over => None,
        };
        if let Some(next) = next {
            self.stopped |= hurry;
            (self.phase, self.since) = (next, now);
        }
        self.phase
    }
}

/// How many times the usual rate the pairs of the spike's region send, `at_s` into the hold: within the first second it
/// rises to the whole factor.
pub(crate) fn spike(scenario: &Scenario, at_s: f64) -> f64 {
    let since = at_s - scenario.spike_at_s;
    if since < 0.0 || since >= scenario.spike_s {
        return 1.0;
    }
    1.0 + (scenario.spike_factor - 1.0) * since.min(1.0)
}

/// The part of `all` that worker `index` of `count` has, and what those before it have.
pub(crate) fn part(all: u32, index: u32, count: u32) -> (u32, u32) {
    let end = |index: u32| (u64::from(all) * u64::from(index) / u64::from(count)) as u32;
    (end(index), end(index + 1) - end(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn phases_follow_each_other_as_the_totals_allow() {
        let scenario = Scenario { sessions: 10, hold_s: 5.0, drain_s: 3.0, ..Scenario::default() };
        let bounds = Bounds::of(&scenario);
        let mut director = Director::new();
        let mut totals = Totals { arrived: 9, open: 10, outstanding: 1, ..Totals::default() };
        assert_eq!(director.step(&bounds, at(1), &totals, 0), Phase::Ramp);
        totals.hopeless = 1;
        assert_eq!(director.step(&bounds, at(2), &totals, 0), Phase::Hold);
        assert_eq!(director.step(&bounds, at(6), &totals, 0), Phase::Hold);
        assert_eq!(director.step(&bounds, at(7), &totals, 0), Phase::Drain);
        assert_eq!(director.step(&bounds, at(9), &totals, 0), Phase::Drain);
        // A worker that has not told of its last messages may have some under way.
        (totals.outstanding, totals.sending) = (0, 1);
        assert_eq!(director.step(&bounds, at(9), &totals, 0), Phase::Drain);
        totals.sending = 0;
        assert_eq!(director.step(&bounds, at(9), &totals, 0), Phase::Close);
        totals.open = 0;
        assert_eq!(director.step(&bounds, at(9), &totals, 0), Phase::Over);
    }

    #[test]
    fn bounds_and_signals_end_any_phase() {
        let scenario = Scenario { ramp_s_max: 4.0, total_s_max: 20.0, messages_max: 7, ..Scenario::default() };
        let bounds = Bounds::of(&scenario);
        let totals = Totals { outstanding: 1, open: 1, ..Totals::default() };
        let mut director = Director::new();
        assert_eq!(director.step(&bounds, at(4), &totals, 0), Phase::Hold, "the ramp is bounded");
        assert_eq!(director.step(&bounds, at(5), &Totals { sent: 7, ..totals }, 0), Phase::Drain, "so are messages");
        let mut director = Director::new();
        assert_eq!(director.step(&bounds, at(20), &totals, 0), Phase::Drain, "and the whole");
        let mut director = Director::new();
        assert_eq!(director.step(&bounds, at(1), &totals, 1), Phase::Drain, "a signal ends cleanly");
        assert_eq!(director.step(&bounds, at(1), &totals, 1), Phase::Drain);
        assert_eq!(director.step(&bounds, at(6), &totals, 1), Phase::Close);
        assert_eq!(director.step(&bounds, at(7), &totals, 2), Phase::Over, "a second one at once");
    }

    #[test]
    fn a_spike_rises_within_a_second_and_ends() {
        let scenario = Scenario { spike_at_s: 10.0, spike_s: 5.0, spike_factor: 11.0, ..Scenario::default() };
        let factors = [9.9, 10.0, 10.5, 11.0, 14.9, 15.0].map(|at| spike(&scenario, at));
        assert_eq!(factors, [1.0, 1.0, 6.0, 11.0, 11.0, 1.0]);
    }

    #[test]
    fn parts_are_the_whole() {
        for (all, count) in [(10, 3), (2, 4), (1_000_003, 7)] {
            let mut next = 0;
            for index in 0..count {
                let (first, size) = part(all, index, count);
                assert_eq!(first, next);
                next += size;
            }
            assert_eq!(next, all);
        }
    }
}

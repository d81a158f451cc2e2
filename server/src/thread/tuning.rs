//! Run-time settings of a shard's thread. Each thread has its own copy, which is replaced by a
//! request ([`super::Ask`]): nothing is shared on a message's path.

use std::time::Duration;

use crate::driver;

/// The settings of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// The driver's settings.
    pub network: driver::Tuning,
    /// For this long after the last event the network is polled without sleeping.
    pub busy_poll: Duration,
    /// While sleeps are short: the longest time by which a sleep defers events, to handle more in
    /// one turn.
    pub gather: Duration,
    /// Envelopes taken from each other shard per turn.
    pub letters_a_turn: usize,
    /// Answers of the store taken per turn. Most belong to logins, which must not lengthen the
    /// turns of established sessions.
    pub answers_a_turn: usize,
    /// Longest sleep: periodic sweeps run even without events.
    pub sleep_max: Duration,
    /// Sleep while something waits for room elsewhere.
    pub sleep_congested: Duration,
    /// How often memory is given back.
    pub tidy_every: Duration,
    /// Bytes that may wait in the gate queue before reading from clients stops.
    pub gate_bytes_max: usize,
    /// Bytes of writes that may wait for the store before reading from clients stops.
    pub queue_bytes_max: u64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            network: driver::Tuning::default(),
            busy_poll: Duration::ZERO,
            gather: Duration::ZERO,
            letters_a_turn: 64,
            answers_a_turn: 64,
            sleep_max: Duration::from_millis(250),
            sleep_congested: Duration::from_micros(200),
            tidy_every: Duration::from_secs(5),
            gate_bytes_max: 32 << 20,
            queue_bytes_max: 8 << 20,
        }
    }
}

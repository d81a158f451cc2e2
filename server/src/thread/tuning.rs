//! What an operator may turn of a shard's thread. Each thread has its own copy, and gets another with a question
//! ([`super::Ask`]): nothing is shared on the way of a message.

use std::time::Duration;

use crate::driver;

/// What a thread goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// What the driver goes by.
    pub network: driver::Tuning,
    /// So long after the last event the network is looked at without sleeping.
    pub busy_poll: Duration,
    /// While sleeps are short: so long at the most a sleep puts off what comes, to take more in one turn.
    pub gather: Duration,
    /// Envelopes taken from each other shard in one turn.
    pub letters_a_turn: usize,
    /// Answers of the store taken in one turn: most are of logins, which must not make turns long for those who are there.
    pub answers_a_turn: usize,
    /// Longest sleep: sweeps go on when nothing happens.
    pub sleep_max: Duration,
    /// Sleep while something waits for room elsewhere.
    pub sleep_congested: Duration,
    /// How often memory is given back.
    pub tidy_every: Duration,
    /// Bytes that may wait in the gate queue before clients are no longer read from.
    pub gate_bytes_max: usize,
    /// Bytes of writes that may wait for the store before clients are no longer read from.
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

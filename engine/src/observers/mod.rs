//! What an operator looks at for a while: one user's stanzas ([`trace`]), and the sessions with most of them ([`busiest`]).
//!
//! A shard has none of it while nobody looks, and what has not been asked about for some seconds goes by itself. Everything
//! here is bounded; what does not fit is counted and left out, and no stanza waits for it. This module sees stanzas and sessions
//! by number, and must never know what is done about them.

pub mod busiest;
pub mod trace;

use busiest::Busiest;
use trace::Trace;

/// Most traces of a shard at once.
pub const TRACES_MAX: usize = 4;

/// All that operators look at in a shard.
#[derive(Debug, Default)]
pub struct Observers {
    /// At most [`TRACES_MAX`].
    pub traces: Vec<Trace>,
    /// While somebody asks.
    pub busiest: Option<Busiest>,
}

impl Observers {
    /// Ends what nobody has asked about for too long; false if nothing is left.
    pub fn keep(&mut self, now_ms: u64) -> bool {
        self.traces.retain(|trace| !trace.is_abandoned(now_ms));
        self.busiest.take_if(|busiest| busiest.is_over(now_ms));
        !self.traces.is_empty() || self.busiest.is_some()
    }

    /// Whether someone traces a session or address of this user.
    pub fn traces_user(&self, account: &str) -> bool {
        self.traces.iter().any(|trace| trace.is_of(account))
    }
}

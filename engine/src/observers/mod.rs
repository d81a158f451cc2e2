//! What an operator observes for a limited time: one user's stanzas ([`trace`]), and the sessions
//! with the most stanzas ([`busiest`]).
//!
//! A shard has none of this state while no operator observes, and drops it some seconds after the
//! last query. Everything here is bounded: whatever exceeds the bound is counted and omitted, and
//! no stanza waits for it. This module sees stanzas, and sessions by number. It must never know how
//! they are processed.

pub mod busiest;
pub mod trace;

use busiest::Busiest;
use trace::Trace;

/// Maximum number of traces per shard.
pub const TRACES_MAX: usize = 4;

/// All observations of a shard.
#[derive(Debug, Default)]
pub struct Observers {
    /// At most [`TRACES_MAX`].
    pub traces: Vec<Trace>,
    /// The count in progress, while it is being queried.
    pub busiest: Option<Busiest>,
}

impl Observers {
    /// Drops observations that have not been queried for too long. Returns false if none is left.
    pub fn keep(&mut self, now_ms: u64) -> bool {
        self.traces.retain(|trace| !trace.is_abandoned(now_ms));
        self.busiest.take_if(|busiest| busiest.is_over(now_ms));
        !self.traces.is_empty() || self.busiest.is_some()
    }

    /// Whether a session or address of this user is traced.
    pub fn traces_user(&self, account: &str) -> bool {
        self.traces.iter().any(|trace| trace.is_of(account))
    }
}

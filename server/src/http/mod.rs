//! The operator's HTTP: the dashboard, what was recorded, numbers for Prometheus, whether the server lives and takes clients.
//!
//! ```text
//! serve (listeners, connections, bounds) -> guard (who may ask) ─┬─> page (the dashboard's files)
//!                                                                 ├─> history, wrong -> the recorder
//!                                                                 ├─> standing -> waits
//!                                                                 └─> metrics, health -> dyn Telemetry
//! ```
//!
//! One thread of its own, which sleeps when nobody asks. This module reads and never commands: that is the control
//! socket's.

mod guard;
mod health;
mod history;
mod metrics;
mod page;
pub(crate) mod patience;
mod process;
mod serve;
mod standing;
#[cfg(test)]
mod tests;
mod wrong;

pub use guard::{Guard, TokenFault};
pub use history::History;
pub use serve::HttpServer;

use std::sync::Arc;

use throng_engine::counters::Latencies;

use crate::admin::{Busiest, Fault, Status};
use crate::record::owners::Owed;

/// A number of one shard.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Its name, in snake case, as in `throng ctl status --all`.
    pub name: &'static str,
    /// Whether it only grows.
    pub counts: bool,
    /// A sentence.
    pub help: &'static str,
    /// The value now.
    pub value: u64,
}

/// Numbers of which there is a set for each of some.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// What they are of: `shard`.
    pub of: &'static str,
    /// What tells one set from another; none if there is one only.
    pub by: Option<&'static str>,
    /// The sets, all with the same numbers in the same order.
    pub sets: Vec<(String, Vec<Number>)>,
}

/// How long something takes, of which there is a set for each of some.
#[derive(Clone, Debug)]
pub struct Delay {
    /// What it is of: `login`.
    pub of: &'static str,
    /// What tells one set from another; none if there is one only.
    pub by: Option<&'static str>,
    /// A sentence.
    pub help: &'static str,
    /// The sets, microseconds each.
    pub sets: Vec<(String, Arc<Latencies>)>,
}

/// What can be seen of a running server. Reading disturbs no shard.
pub trait Telemetry: Send + Sync {
    /// The state now.
    fn status(&self) -> Status;

    /// The numbers of each shard, in the same order for all of them.
    fn shards(&self) -> Vec<Vec<Number>>;

    /// The numbers of other threads.
    fn works(&self) -> Vec<Numbers>;

    /// How long messages, logins, publications and the store's work take.
    fn delays(&self) -> Vec<Delay>;

    /// Connections and users for whom much waits, with their owners.
    fn owed(&self) -> Arc<Vec<Owed>>;

    /// The busiest sessions, so many at most. Waits for an answer of each shard, which counts while it is asked; those that stand still
    /// (`stuck`) are not asked.
    ///
    /// # Errors
    /// They cannot be asked.
    fn busiest(&self, most: usize, stuck: &[usize]) -> Result<Busiest, Fault>;
}

//! The operator's HTTP interface: the dashboard, recorded data, metrics for Prometheus, liveness
//! and readiness.
//!
//! ```text
//! serve (listeners, connections, bounds) -> guard ─┬─> page (the dashboard's files)
//!                                                  ├─> history, wrong -> the recorder
//!                                                  ├─> standing -> waits
//!                                                  └─> metrics, health -> dyn Telemetry
//! ```
//!
//! It runs on one thread of its own, which sleeps between requests. This module is read-only:
//! commands belong to the control socket.

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
    /// Whether it is a counter, which only grows.
    pub counts: bool,
    /// Its description, in one sentence.
    pub help: &'static str,
    /// The value now.
    pub value: u64,
}

/// Sets of numbers, one set per instance of something.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// The kind of instance: `shard`.
    pub of: &'static str,
    /// The label that distinguishes the sets; `None` if there is only one.
    pub by: Option<&'static str>,
    /// The sets, all with the same numbers in the same order.
    pub sets: Vec<(String, Vec<Number>)>,
}

/// Latencies of an operation, one set per instance.
#[derive(Clone, Debug)]
pub struct Delay {
    /// The operation: `login`.
    pub of: &'static str,
    /// The label that distinguishes the sets; `None` if there is only one.
    pub by: Option<&'static str>,
    /// Its description, in one sentence.
    pub help: &'static str,
    /// The sets, microseconds each.
    pub sets: Vec<(String, Arc<Latencies>)>,
}

/// The observable state of a running server. Reading does not disturb any shard.
pub trait Telemetry: Send + Sync {
    /// The current state.
    fn status(&self) -> Status;

    /// The numbers of each shard, in the same order for all of them.
    fn shards(&self) -> Vec<Vec<Number>>;

    /// The numbers of other threads.
    fn works(&self) -> Vec<Numbers>;

    /// Latencies of messages, logins, publications and the store's work.
    fn delays(&self) -> Vec<Delay>;

    /// Connections and users with large backlogs, with their owners.
    fn owed(&self) -> Arc<Vec<Owed>>;

    /// The busiest sessions, at most `most`. Waits for an answer of each shard, which counts as
    /// long as it is queried; the shards in `stuck` are not queried.
    ///
    /// # Errors
    /// The shards cannot be queried.
    fn busiest(&self, most: usize, stuck: &[usize]) -> Result<Busiest, Fault>;
}

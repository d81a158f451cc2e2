//! The operator's HTTP: the dashboard, what was recorded, numbers for Prometheus, whether the server lives and takes clients.
//!
//! ```text
//! serve (listeners, connections, bounds) -> guard (who may ask) ─┬─> page (the dashboard's files)
//!                                                                 ├─> history, wrong -> the recorder
//!                                                                 └─> metrics, health -> dyn Watched
//! ```
//!
//! One thread of its own, which sleeps when nobody asks. The room reads numbers and never commands: that is the control socket's.

mod guard;
mod health;
mod history;
mod metrics;
mod page;
mod serve;
#[cfg(test)]
mod tests;
mod wrong;

pub use guard::{Guard, TokenFault};
pub use history::History;
pub use serve::HttpServer;

use crate::admin::Status;

/// A number of one shard.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// Its name, in snake case, as in `throng ctl status`.
    pub name: &'static str,
    /// Whether it only grows.
    pub counts: bool,
    /// A sentence.
    pub help: &'static str,
    /// The value now.
    pub value: u64,
}

/// What can be seen of a running server. Reading disturbs no shard.
pub trait Watched: Send + Sync {
    /// The state now.
    fn status(&self) -> Status;

    /// The numbers of each shard, in the same order for all of them.
    fn shards(&self) -> Vec<Vec<Number>>;
}

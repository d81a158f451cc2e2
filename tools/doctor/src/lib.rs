//! `throng doctor`: whether this host can hold a number of connections, what is insufficient, and
//! the remedies.
//!
//! ```text
//! Plan (so many connections, which driver) ─┐
//! Host (/proc, /sys; a folder in tests) ────┴─> check/* ─> Vec<Finding> ─> report (text, JSON)
//!                                                             └─ Change ─> apply (reversible)
//! Plan ─> front (nginx, HAProxy, Caddy)
//! ```
//!
//! A check reads and judges; only `apply` writes. Nothing in this crate depends on the server: its
//! requirements are in [`Plan`] and in the figures of [`need`].
#![forbid(unsafe_code)]

mod apply;
mod check;
mod cli;
mod finding;
mod front;
mod host;
pub mod need;
mod plan;
mod report;

pub use cli::{Failure, command, run};
pub use finding::{Change, Finding, State};
pub use host::Host;
pub use plan::{Driver, Plan};

/// Runs all checks, in the order of the report.
pub fn examine(host: &Host, plan: &Plan) -> Vec<Finding> {
    check::all(host, plan)
}

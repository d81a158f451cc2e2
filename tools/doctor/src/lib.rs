//! `throng doctor`: whether this host holds so many connections, what of it does not, and how that is mended.
//!
//! ```text
//! Plan (so many connections, which driver) ─┐
//! Host (/proc, /sys; a folder in tests) ────┴─> check/* ─> Vec<Finding> ─> report (text, JSON)
//!                                                             └─ Change ─> apply (sets, and says how to undo it)
//! Plan ─> front (nginx, HAProxy, Caddy)
//! ```
//!
//! A check reads and judges; only `apply` writes. Nothing here knows the server: what it needs of a host is in [`Plan`] and in
//! the figures of [`need`].
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

/// Everything that is checked, in the order in which it is told.
pub fn examine(host: &Host, plan: &Plan) -> Vec<Finding> {
    check::all(host, plan)
}

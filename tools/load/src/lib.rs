//! Synthetic users in great number against any XMPP server, and what they measured: `throng load`.
//!
//! ```text
//! cli -> scenario (one table of keys)
//!     -> control ──phase──> workers (threads, or threads of other processes)
//!            ^                 │ swarm: client (pure), sasl, delivery, wheel, random
//!            └────samples──────┘ driver: io_uring or epoll
//!     -> progress (seconds, the whole) -> report (JSON), html
//! ```
//!
//! Streams go over TCP as clients write them. `framing` takes them apart for `websocket` and `bosh`, which are pure; `web` reads HTTP.
//!
//! `throng load channels` has `channels` in the place of `swarm`, with keys and a report of its own.
//!
//! The crate knows XMPP by `throng_engine::wire` alone and never the server: what it measures it sees over sockets, and in
//! `/proc`.

#![forbid(unsafe_code)]

mod accounts;
mod bosh;
mod channels;
mod cli;
mod client;
mod control;
mod delivery;
mod desk;
mod driver;
mod figures;
mod framing;
mod histogram;
pub mod html;
mod keys;
mod phases;
mod proc;
mod progress;
mod random;
mod report;
mod sasl;
mod scenario;
mod swarm;
mod web;
mod websocket;
mod wheel;

pub use cli::{command, run};
pub use client::{Account, Client, Login, News, Profile, Security, Tools, refusal};
pub use desk::{Failure, Outcome};
pub use sasl::{Mechanism, keys};

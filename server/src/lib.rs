//! The modules of the Throng server: everything that uses sockets, files, threads or the clock,
//! around the pure shards of `throng-engine`.

#![forbid(unsafe_code)]

pub mod acme;
pub mod admin;
pub mod audit;
pub mod backup;
pub mod bench;
mod breaker;
pub mod bytestreams;
pub mod cli;
mod client;
pub mod clock;
pub mod config;
pub mod disk;
pub mod driver;
pub mod end;
pub mod entropy;
pub mod events;
pub mod extauth;
pub mod http;
pub mod jobs;
pub mod letters;
pub mod links;
pub mod log;
pub mod orders;
#[cfg(debug_assertions)]
pub mod plant;
pub mod port;
pub mod portable;
pub mod profile;
pub mod record;
mod runtime;
pub mod serve;
pub mod service;
pub mod thread;
pub mod tls;
pub mod top;
pub mod upload;
pub mod waits;
pub mod waking;
pub mod webpush;

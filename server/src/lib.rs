//! The Throng server: sockets, threads, disk and operators around the pure engine.

pub mod admin;
pub mod cli;
pub mod config;
pub mod log;

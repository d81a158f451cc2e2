//! What is told of a server before it runs: where it listens and keeps data, its accounts, and how it keeps their passwords.

use std::net::SocketAddr;
use std::path::PathBuf;

/// How a server keeps passwords.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stored {
    /// As they are: PLAIN costs a comparison.
    Clear,
    /// For SCRAM-SHA-1.
    Hashed,
}

/// A server's addresses and folders.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// For streams that begin in the clear.
    pub(crate) plain: SocketAddr,
    /// For direct TLS.
    pub(crate) tls: SocketAddr,
    /// Certificate, configuration and log.
    pub(crate) folder: PathBuf,
    /// Data.
    pub(crate) data: PathBuf,
}

/// Accounts with this prefix and a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Prefix.
    pub(crate) prefix: &'static str,
    /// How many.
    pub(crate) count: u32,
    /// Each subscribes to so many that follow it.
    pub(crate) contacts: u32,
}

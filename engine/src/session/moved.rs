//! What goes along when a connection moves to its user's home shard.

use std::net::IpAddr;

use super::facts::ListenerKind;
use super::sasl::Authenticated;

/// State of a connection between the two shards: authenticated, its stream not yet restarted (RFC 6120 6.4.6).
#[derive(Debug)]
pub struct Moved {
    /// Whose it is, proven.
    pub owner: Authenticated,
    /// What its listener said.
    pub listener: ListenerKind,
    /// The other end.
    pub peer: IpAddr,
    /// The stream is encrypted.
    pub secured: bool,
    /// Second (monotonic) when it was accepted: the time to bind a resource runs on.
    pub accepted_s: u32,
    /// Bytes received and not yet looked at; at most one read.
    pub leftover: Vec<u8>,
}

//! The proxy of bytestreams (XEP-0065): two clients that cannot reach each other connect here by SOCKS5 (RFC 1928) and name one
//! stream, the requester activates it, and from then on the bytes of each go to the other.
//!
//! ```text
//!  clients --> serve (listeners, handshake by socks) --> table (who waits, who has how much)
//!  shards  --> port  (activations) ------------------------^  └─> relay (two sockets, paced by pace)
//! ```
//!
//! One thread; nothing here is on the way of a stanza. Who wants a stream the shards say: they know the requester, and this module
//! only knows connections by the hash that they have named. It reads and writes nothing but these sockets.

mod pace;
mod port;
mod race;
mod relay;
mod serve;
mod socks;
mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use port::{ActivationPort, Activations, ports};
pub use serve::StreamServer;

use throng_engine::counter_table;

/// Time for a handshake.
pub const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time from a handshake to the activation: both parties have to connect meanwhile, perhaps after they have tried other ways.
pub const ACTIVATION: Duration = Duration::from_secs(60);
/// Bytes that a connection may send before its activation, which are dropped (XEP-0065 10.1).
const EARLY_BYTES_MAX: usize = 64 << 10;
/// What is asked of the kernel for what it has received for the proxy, or is to send for it, for each connection and direction; it
/// takes twice that. With it a connection has 256 KiB on its way: 5 MB/s at a round trip of 50 ms.
const SOCKET_BYTES: usize = 256 << 10;

/// What the proxy lets be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections that are not relayed yet; for one more, one of them gives way.
    pub waiting_max: usize,
    /// Of one address (IPv6: /64); 0 is no limit.
    pub per_address_max: usize,
    /// Streams that are relayed at once.
    pub streams_max: usize,
    /// Those that one user has activated.
    pub per_user_max: usize,
    /// Bytes a second of all streams that one user has activated, both ways; 0 is no limit.
    pub user_bytes_per_second: u64,
    /// Longest time without a byte.
    pub idle: Duration,
    /// Time for a handshake.
    pub handshake: Duration,
    /// Time from a handshake to the activation.
    pub activation: Duration,
}

counter_table! {
    /// The numbers of bytestreams. The proxy's thread is their one writer.
    StreamCounters:
    connections Count "Connections of any kind.";
    connections_refused Count "Of these, those refused because their address had as many as it may.";
    connections_displaced Count "Connections that gave way to later ones before they were relayed.";
    handshakes_failed Count "Connections that were no SOCKS5, or asked for something else, or took too long.";
    early_bytes Count "Bytes dropped that came before the activation.";
    streams Count "Streams that were activated.";
    streams_refused Count "Activations refused, for whatever reason.";
    streams_full Count "Of these, those for which there was no room.";
    streams_idle Count "Streams ended because no byte moved.";
    stream_bytes Count "Bytes relayed, both ways.";
    waiting Gauge "Connections that are not relayed yet.";
    relayed Gauge "Streams that are relayed.";
}

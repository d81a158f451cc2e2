//! The bytestreams proxy (XEP-0065). Two clients that cannot reach each other connect to it over
//! SOCKS5 (RFC 1928) and name one stream. The requester activates it, and from then on the bytes of
//! each are relayed to the other.
//!
//! ```text
//!  clients --> serve (listeners, handshake by socks) --> table (waiting connections, streams, users)
//!  shards  --> port  (activations) ------------------------^  └─> relay (two sockets, paced by pace)
//! ```
//!
//! One thread; nothing in this module is on a stanza's path. The shards know the requesters; this
//! module knows connections only by the hash that they have named. It reads and writes only these
//! sockets.

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
/// Time from a handshake to the activation: both parties must connect in it, perhaps after trying
/// other ways.
pub const ACTIVATION: Duration = Duration::from_secs(60);
/// Bytes that a connection may send before its activation, which are dropped (XEP-0065 10.1).
const EARLY_BYTES_MAX: usize = 64 << 10;
/// Socket buffer size requested per connection and direction; the kernel doubles it. It allows a
/// connection 256 KiB in flight: 5 MB/s at a round trip of 50 ms.
const SOCKET_BYTES: usize = 256 << 10;

/// The limits of the proxy.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of connections that are not relayed yet; a further one displaces an existing
    /// one.
    pub waiting_max: usize,
    /// Maximum of these per address (IPv6: /64); 0 is no limit.
    pub per_address_max: usize,
    /// Maximum number of relayed streams.
    pub streams_max: usize,
    /// Maximum number of streams activated by one user.
    pub per_user_max: usize,
    /// Maximum bytes per second of all streams activated by one user, both ways; 0 is no limit.
    pub user_bytes_per_second: u64,
    /// Maximum time without a byte.
    pub idle: Duration,
    /// Time for a handshake.
    pub handshake: Duration,
    /// Time from a handshake to the activation.
    pub activation: Duration,
}

counter_table! {
    /// Counters of bytestreams. The proxy's thread is their only writer.
    StreamCounters:
    connections Count "Connections of any kind.";
    connections_refused Count "Of these, those refused because their address had reached its limit.";
    connections_displaced Count "Connections closed in favour of later ones before they were relayed.";
    handshakes_failed Count "Connections that did not speak SOCKS5, requested something else, or took too long.";
    early_bytes Count "Bytes dropped because they arrived before activation.";
    streams Count "Streams activated.";
    streams_refused Count "Activations refused, for any reason.";
    streams_full Count "Of these, those refused for lack of room.";
    streams_idle Count "Streams ended because no bytes were transferred.";
    stream_bytes Count "Bytes relayed, in both directions.";
    waiting Gauge "Connections not relayed yet.";
    relayed Gauge "Streams being relayed.";
}

//! Requirements for a number of connections. Each figure states its source.

/// Descriptors reserved for the rest of the server: its store keeps 256 tables open, and it has
/// listeners, rings and logs.
pub const DESCRIPTORS_ASIDE: u64 = 512;
/// Most sockets in one io_uring table.
pub const TABLE_SLOTS_MAX: u64 = 19_900;
/// Tables beyond which a shard polls too many rings per turn: each takes some 0.4 MB and a poll.
pub const TABLES_MAX: u64 = 64;
/// Files reserved for other programs of the host.
pub const FILES_ASIDE: u64 = 65_536;
/// Kernel memory of the server's end of an idle connection, bytes: half of the 8.4 KB that a pair
/// of sockets takes (docs/scale.md).
pub const KERNEL_BYTES: u64 = 4_300;
/// The server's own memory of an idle session, bytes, plain: its budget.
pub const SESSION_BYTES: u64 = 512;
/// The same over TLS 1.3.
pub const SESSION_TLS_BYTES: u64 = 1_024;
/// The server's memory without sessions: store, journal, stacks.
pub const SERVER_BYTES: u64 = 512 << 20;
/// One entry of the connection-tracking table, bytes (`nf_conntrack` in /proc/slabinfo: 256 to 320
/// by kernel).
pub const TRACKED_BYTES: u64 = 304;
/// One bucket of its hash, bytes.
pub const BUCKET_BYTES: u64 = 8;

/// Connections that may arrive within one second in which the server does not accept: of a storm
/// spread over 50 s. At most the kernel's maximum.
pub fn backlog(connections: u64) -> u64 {
    (connections / 50).clamp(4_096, 65_535)
}

/// Pages of socket buffers: one connection in twenty busy at once, with 16 KiB each way.
pub fn tcp_pages(connections: u64) -> u64 {
    connections / 20 * 8
}

/// Connections that may be closed at once with bytes that the peer has not acknowledged; beyond the
/// kernel's limit they are reset, and the last output is lost.
pub fn orphans(connections: u64) -> u64 {
    (connections / 8).max(16_384)
}

/// Entries of the connection-tracking table: one each, and a quarter more for those that are
/// closing.
pub fn tracked(connections: u64) -> u64 {
    (connections + connections / 4).max(65_536)
}

/// Buckets of its hash, so that a look-up meets at most four entries.
pub fn tracking_buckets(connections: u64) -> u64 {
    (tracked(connections) / 4).next_power_of_two()
}

/// Memory in bytes, kernel and server.
pub fn memory(connections: u64, tls: bool) -> u64 {
    let session = if tls { SESSION_TLS_BYTES } else { SESSION_BYTES };
    connections * (KERNEL_BYTES + session) + SERVER_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_connections_need_what_the_measured_run_took() {
        assert_eq!((backlog(1_000_000), backlog(1_000), backlog(100_000_000)), (20_000, 4_096, 65_535));
        assert_eq!((tcp_pages(1_000_000), orphans(1_000_000)), (400_000, 125_000));
        assert_eq!((tracked(1_000_000), tracking_buckets(1_000_000)), (1_250_000, 524_288));
        // Half of 9,014 bytes per session with both ends, and the fixed part.
        let each = (memory(1_000_000, false) - SERVER_BYTES) / 1_000_000;
        assert!((4_500..5_000).contains(&each), "{each}");
    }
}

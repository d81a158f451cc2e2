//! Identifiers within one process: connections, sessions, shards, and the home of an address.
//!
//! They are plain numbers with a type each, so that they cannot be mixed up. Nothing here knows
//! what they refer to.

mod border;
mod domain;
mod map;

use std::fmt;
use std::net::IpAddr;

pub use border::{Border, Crosses};
pub use domain::{ActorKind, DomainId, Domains, OUTSIDE_DOMAINS_MAX, Service};
pub use map::PartitionMap;

/// One connection of one shard: a slot of the driver's table and the slot's generation, which
/// distinguishes it from earlier connections in the same slot when an event is late.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub struct ConnId {
    /// Index in the driver's table of connections, dense from zero.
    pub slot: u32,
    /// Number of connections that the slot has held.
    pub generation: u32,
}

/// The bit of a slot that marks a connection without a socket, unknown to the driver. A BOSH
/// session has one (XEP-0124).
pub const NO_SOCKET: u32 = 1 << 31;

impl ConnId {
    /// Whether the connection has a socket, so that the driver knows it.
    pub fn has_socket(self) -> bool {
        self.slot & NO_SOCKET == 0
    }
}

/// One shard, which is one thread; numbered from zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ShardId(pub u16);

impl ShardId {
    /// The number as an index.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The remote end of a connection, as limits count it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
pub struct Peer {
    /// Its IP address.
    pub address: IpAddr,
    /// A keyed hash of its address (for IPv6, of its /64), equal at all shards of the process.
    pub key: u64,
}

/// One session (a bound resource, RFC 6120 7) at its user's home shard: a slot and its generation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub struct SessionId {
    /// Index in the shard's table of sessions.
    pub slot: u32,
    /// Number of sessions that the slot has held.
    pub generation: u32,
}

/// A page's registration for pushes, at any channel: part of the hash of its push service address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, serde::Serialize, serde::Deserialize)]
pub struct PushId(pub [u8; 16]);

/// A position in the one sequence of commits of a process. An output that carries a gate must not
/// leave the process before all commits up to it are durable; zero waits for nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Gate(pub u64);

/// The time of a turn, an argument of every step: the engine has no clock of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Now {
    /// Milliseconds on a monotonic clock since the process started.
    pub mono_ms: u64,
    /// Microseconds since the Unix epoch, UTC: for time stamps. It can step back, or far ahead,
    /// when the host's clock is set.
    pub wall_us: u64,
    /// The time for everything that expires by age: [`Now::wall_us`], or less while the wall clock
    /// is in doubt ([`crate::clock`]).
    pub expiry_us: u64,
}

impl Now {
    /// A time whose wall clock is not in doubt.
    pub const fn new(mono_ms: u64, wall_us: u64) -> Now {
        Now { mono_ms, wall_us, expiry_us: wall_us }
    }

    /// Advances the wall clock by this many microseconds, without doubt.
    pub const fn pass_wall(&mut self, us: u64) {
        self.wall_us += us;
        self.expiry_us += us;
    }

    /// The time of day.
    pub const fn wall(self) -> Wall {
        Wall { wall_us: self.wall_us, expiry_us: self.expiry_us }
    }

    /// Whole seconds on the monotonic clock: the coarse time stamp of idle sessions.
    pub fn mono_s(self) -> u32 {
        u32::try_from(self.mono_ms / 1000).unwrap_or(u32::MAX)
    }
}

/// The time of day of a turn: what of [`Now`] means the same in another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Wall {
    /// See [`Now::wall_us`].
    pub wall_us: u64,
    /// See [`Now::expiry_us`].
    pub expiry_us: u64,
}

/// Number of partitions that all bare JIDs hash to.
pub const PARTITIONS: u16 = 4096;

/// The partition of a bare JID (or of a bare domain). It is stable across versions and hosts,
/// because it determines where data is stored. FNV-1a over the bytes, finished with an avalanche
/// step so that the low bits depend on all of them.
pub fn partition(bare: impl AsRef<[u8]>) -> u16 {
    place(bare.as_ref()).0
}

/// The partition of a bare JID, and eight further bits of its hash, which distinguish it from most
/// others of the partition.
pub fn place(bare: &[u8]) -> (u16, u8) {
    let h = hash(bare);
    ((h % u64::from(PARTITIONS)) as u16, (h / u64::from(PARTITIONS)) as u8)
}

/// A hash of an address, stable across versions and hosts. It is not keyed: an attacker can find
/// collisions.
pub fn hash(bare: &[u8]) -> u64 {
    let mut h: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in bare {
        h = (h ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^ (h >> 33)
}

/// How a session's queues identify a message until it is received: its number in the log, with flag
/// bits for its state there. 0 is a stanza that waits nowhere.
pub mod mark {
    /// It is in no log: if no session receives it, it is stored there under its number.
    pub const UNLOGGED: u64 = 1 << 63;
    /// Several sessions hold it, and it is in no log.
    pub const SHARED: u64 = 1 << 62;
    /// It has a row of its own.
    pub const APART: u64 = 1 << 61;
    /// A copy of a message; nothing waits for it.
    pub const COPY: u64 = 1 << 60;
    /// A roster push; nothing waits for it.
    pub const PUSH: u64 = 1 << 59;

    /// The number, without the flag bits.
    pub fn number(mark: u64) -> u64 {
        mark & !(UNLOGGED | SHARED | APART | COPY | PUSH)
    }

    /// Whether the cursor waits for it.
    pub fn holds_cursor(mark: u64) -> bool {
        mark != 0 && mark & (APART | COPY | PUSH) == 0
    }
}

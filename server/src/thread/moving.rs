//! Connections on their way between threads: a socket goes by the drivers, its state by letter, and either may come first.

use std::collections::HashMap;

use throng_engine::id::{ConnId, ShardId};
use throng_engine::session::moved::Moved;

use crate::letters::MovedLink;

/// Bits of a key that count departures; the shard's number is above them.
const KEY_BITS: u32 = 40;

/// The connections that one thread sends away or waits for. Others cost nothing.
#[derive(Default)]
pub(super) struct Moving {
    /// Those that have not got their other half. Each gets it: a state is sent once its socket has gone over.
    halves: HashMap<u64, Half>,
    /// Sockets that have arrived and wait for their state, and their keys.
    waiting: HashMap<ConnId, u64>,
    /// Connections that the driver is to move, and their states: until they have gone, have to stay, or have ended.
    departing: HashMap<ConnId, Box<Moved>>,
    /// What leaving connections have sent since their shard let go of them, as it came from the socket.
    leaving: HashMap<ConnId, Vec<u8>>,
    departures: u64,
}

/// A socket that has come before its state, or the other way round.
enum Half {
    Socket {
        conn: ConnId,
        early: Early,
    },
    State(Box<MovedLink>),
    /// The connection has ended: its state is to be dropped when it comes.
    Gone,
}

/// What has happened on a connection before its state was there.
#[derive(Default)]
pub(super) struct Early {
    /// As they came from the socket.
    pub(super) bytes: Vec<u8>,
    /// The peer has ended its direction behind them.
    pub(super) ended: bool,
}

impl Moving {
    /// The driver is to move a connection of this shard. Returns what both ends know it by.
    pub(super) fn depart(&mut self, shard: ShardId, conn: ConnId, moved: Box<Moved>) -> u64 {
        self.departures += 1;
        self.departing.insert(conn, moved);
        (u64::from(shard.0) << KEY_BITS) | (self.departures & ((1 << KEY_BITS) - 1))
    }

    /// Keeps what a connection sends that the shard has let go of.
    pub(super) fn hold(&mut self, conn: ConnId, bytes: &[u8]) {
        self.leaving.entry(conn).or_default().extend_from_slice(bytes);
    }

    /// The driver has moved a connection, or has failed to. Returns its state, unless it has ended, and what it has sent.
    pub(super) fn take(&mut self, conn: ConnId) -> Option<(Box<Moved>, Vec<u8>)> {
        let bytes = self.leaving.remove(&conn).unwrap_or_default();
        Some((self.departing.remove(&conn)?, bytes))
    }

    /// A socket has arrived. Returns its state if that is here; otherwise the socket waits.
    pub(super) fn socket(&mut self, key: u64, conn: ConnId) -> Option<Box<MovedLink>> {
        if let Some(Half::State(link)) = self.halves.remove(&key) {
            return Some(link);
        }
        self.halves.insert(key, Half::Socket { conn, early: Early::default() });
        self.waiting.insert(conn, key);
        None
    }

    /// A state has arrived. Returns it with its socket if that is here; otherwise it waits, or is dropped with a connection that
    /// has ended.
    pub(super) fn state(&mut self, link: Box<MovedLink>) -> Option<(Box<MovedLink>, ConnId, Early)> {
        match self.halves.remove(&link.key) {
            Some(Half::Socket { conn, early }) => {
                self.waiting.remove(&conn);
                Some((link, conn, early))
            }
            Some(Half::Gone) => None,
            Some(Half::State(_)) | None => {
                self.halves.insert(link.key, Half::State(link));
                None
            }
        }
    }

    /// What has happened so far on a connection that waits for its state.
    pub(super) fn early(&mut self, conn: ConnId) -> Option<&mut Early> {
        match self.halves.get_mut(self.waiting.get(&conn)?)? {
            Half::Socket { early, .. } => Some(early),
            Half::State(_) | Half::Gone => None,
        }
    }

    /// A connection has ended. Returns whether the shard had it: otherwise it still waited for its state.
    pub(super) fn closed(&mut self, conn: ConnId) -> bool {
        self.leaving.remove(&conn);
        self.departing.remove(&conn);
        let Some(key) = self.waiting.remove(&conn) else { return true };
        self.halves.insert(key, Half::Gone);
        false
    }

    /// Sockets that wait for their state.
    pub(super) fn waiting(&self) -> impl Iterator<Item = ConnId> {
        self.waiting.keys().copied()
    }

    /// Whether any is on its way.
    pub(super) fn is_empty(&self) -> bool {
        self.halves.is_empty() && self.departing.is_empty()
    }

    /// How many it keeps: halves, sockets that wait, connections that depart, and those of them that have sent something.
    #[cfg(test)]
    pub(super) fn kept(&self) -> [usize; 4] {
        [self.halves.len(), self.waiting.len(), self.departing.len(), self.leaving.len()]
    }
}

//! Connections that move between threads: the drivers transfer the socket, a letter carries the
//! state, and either may arrive first.

use std::collections::HashMap;

use throng_engine::id::{ConnId, ShardId};
use throng_engine::session::moved::Moved;

use crate::letters::MovedLink;

/// Bits of a key that count departures; the shard's number is above them.
const KEY_BITS: u32 = 40;

/// The connections that one thread sends or expects. Others cost nothing.
#[derive(Default)]
pub(super) struct Moving {
    /// Connections whose other half is missing. It always arrives: a state is sent once its socket
    /// has been transferred.
    halves: HashMap<u64, Half>,
    /// Sockets that have arrived and wait for their state, with their keys.
    waiting: HashMap<ConnId, u64>,
    /// Connections that the driver is to move, and their states: until they have left, failed to
    /// leave, or ended.
    departing: HashMap<ConnId, Box<Moved>>,
    /// Raw bytes that departing connections have received since their shard gave them up.
    leaving: HashMap<ConnId, Vec<u8>>,
    departures: u64,
}

/// A socket that arrived before its state, or the reverse.
enum Half {
    Socket {
        conn: ConnId,
        early: Early,
    },
    State(Box<MovedLink>),
    /// The connection has ended: its state is dropped when it arrives.
    Gone,
}

/// Events of a connection before its state arrived.
#[derive(Default)]
pub(super) struct Early {
    /// The bytes, as received from the socket.
    pub(super) bytes: Vec<u8>,
    /// Whether the peer closed its direction after them.
    pub(super) ended: bool,
}

impl Moving {
    /// Registers a connection of this shard that the driver is to move. Returns the key by which
    /// both threads know it.
    pub(super) fn depart(&mut self, shard: ShardId, conn: ConnId, moved: Box<Moved>) -> u64 {
        self.departures += 1;
        self.departing.insert(conn, moved);
        (u64::from(shard.0) << KEY_BITS) | (self.departures & ((1 << KEY_BITS) - 1))
    }

    /// Keeps received bytes of a connection that the shard has given up.
    pub(super) fn hold(&mut self, conn: ConnId, bytes: &[u8]) {
        self.leaving.entry(conn).or_default().extend_from_slice(bytes);
    }

    /// Handles a finished or failed move. Returns the connection's state, unless it has ended, and
    /// its received bytes.
    pub(super) fn take(&mut self, conn: ConnId) -> Option<(Box<Moved>, Vec<u8>)> {
        let bytes = self.leaving.remove(&conn).unwrap_or_default();
        Some((self.departing.remove(&conn)?, bytes))
    }

    /// Handles a socket that has arrived. Returns its state if that is present; otherwise the
    /// socket waits.
    pub(super) fn socket(&mut self, key: u64, conn: ConnId) -> Option<Box<MovedLink>> {
        if let Some(Half::State(link)) = self.halves.remove(&key) {
            return Some(link);
        }
        self.halves.insert(key, Half::Socket { conn, early: Early::default() });
        self.waiting.insert(conn, key);
        None
    }

    /// Handles a state that has arrived. Returns it with its socket if that is present; otherwise
    /// it waits, or is dropped with a connection that has ended.
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

    /// The events so far of a connection that waits for its state.
    pub(super) fn early(&mut self, conn: ConnId) -> Option<&mut Early> {
        match self.halves.get_mut(self.waiting.get(&conn)?)? {
            Half::Socket { early, .. } => Some(early),
            Half::State(_) | Half::Gone => None,
        }
    }

    /// Handles the end of a connection. Returns whether the shard had it; otherwise it was still
    /// waiting for its state.
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

    /// Whether no connection is moving.
    pub(super) fn is_empty(&self) -> bool {
        self.halves.is_empty() && self.departing.is_empty()
    }

    /// Sizes of its tables: halves, waiting sockets, departing connections, and those of them with
    /// received bytes.
    #[cfg(test)]
    pub(super) fn kept(&self) -> [usize; 4] {
        [self.halves.len(), self.waiting.len(), self.departing.len(), self.leaving.len()]
    }
}

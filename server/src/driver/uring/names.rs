//! Who is at the other end: asked for when somebody wants to know, and kept nowhere.

use super::Uring;
use super::kernel::Kernel;
use crate::driver::ConnId;
use std::net::SocketAddr;
use throng_ring::sys::{NAME_BYTES_BY_FAMILY, Name};
use throng_ring::{Op, Word};

/// Addresses asked for at a time.
pub(super) const NAMES: usize = 64;

impl<K: Kernel> Uring<K> {
    /// The peers of up to [`NAMES`] connections. The kernel answers while the questions are submitted; what else has been
    /// completed meanwhile waits for the next turn.
    pub(super) fn names_of(&mut self, conns: &[ConnId]) -> Vec<Option<SocketAddr>> {
        let mut found = vec![None; conns.len()];
        let mut rooms: Box<[Name; NAMES]> = Box::new([Name::default(); NAMES]);
        for length in NAME_BYTES_BY_FAMILY {
            let mut asked = 0;
            for (room, conn) in conns.iter().enumerate().take(NAMES) {
                // What closes a slot is submitted behind this: the answer is of the connection that is there now.
                let Some(slot) = self.open(*conn).filter(|_| found[room].is_none()) else { continue };
                asked += 1;
                let name = &raw mut rooms[room];
                // SAFETY: the rooms are kept until all questions of this round are answered, or for ever.
                unsafe { self.ring.peer_name(slot, name, length, Word::new(Op::PeerName, slot, room as u32)) };
            }
            while asked > 0 {
                // Not seen but for the first time: the answers are there when the call returns.
                if self.ring.poll().is_err() {
                    std::mem::forget(rooms);
                    return found;
                }
                let mut done = Vec::new();
                self.ring.collect(&mut done);
                let (names, others): (Vec<_>, Vec<_>) =
                    done.into_iter().partition(|entry| entry.word.op() == Op::PeerName);
                self.ring.put_back(others);
                for entry in names {
                    asked -= 1;
                    let room = entry.word.low() as usize;
                    found[room] = rooms[room].address().filter(|_| entry.result >= 0);
                }
            }
        }
        found
    }
}

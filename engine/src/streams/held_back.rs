//! Sessions that are not read from because their account sends faster than it may. Here is only when each is to be looked at again;
//! how fast accounts send is known above (`actors/pace.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::SessionId;
use crate::session::conn::Pause;
use crate::streams::Streams;

/// When to look at whom: slot and generation of a session. One for each time that a connection was held back and has not been looked at.
#[derive(Debug, Default)]
pub(in crate::streams) struct HeldBack(BinaryHeap<Reverse<(u64, u32, u32)>>);

impl Streams {
    /// A session's connection is not read from until so many milliseconds have passed. Returns whether it was held back for no such
    /// reason before.
    pub(crate) fn hold_back(&mut self, id: SessionId, left_ms: u64) -> bool {
        let Some(conn) = self.halves.conn(id) else { return false };
        if self.conns.get(conn).is_none_or(|conn| conn.is_paused(Pause::Pace)) {
            return false;
        }
        self.pause(conn, Pause::Pace);
        self.look_later(id, left_ms);
        true
    }

    /// A session that was due is to be looked at again.
    pub(crate) fn look_later(&mut self, id: SessionId, left_ms: u64) {
        let due_ms = self.kernel.now.mono_ms + left_ms;
        self.held_back.0.push(Reverse((due_ms, id.slot, id.generation)));
    }

    /// The next session that is due to be looked at.
    pub(crate) fn next_held_back(&mut self) -> Option<SessionId> {
        let Reverse((due_ms, slot, generation)) = *self.held_back.0.peek()?;
        if due_ms > self.kernel.now.mono_ms {
            return None;
        }
        self.held_back.0.pop();
        Some(SessionId { slot, generation })
    }

    /// Sessions that are held back, and some that have been.
    pub(crate) fn held_back(&self) -> Vec<SessionId> {
        self.held_back
            .0
            .iter()
            .map(|Reverse((_, slot, generation))| SessionId { slot: *slot, generation: *generation })
            .collect()
    }

    /// A session's connection is read from again, with what has come of it already.
    pub(crate) fn let_go_on(&mut self, id: SessionId) {
        if let Some(conn) = self.halves.conn(id) {
            self.go_on(conn, Pause::Pace, false);
        }
    }
}

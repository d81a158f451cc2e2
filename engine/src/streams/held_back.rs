//! Sessions that are not read from because their account exceeds its rate. This module has only the
//! times at which to check each again. The rates are measured above (`actors/pace.rs`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::SessionId;
use crate::session::conn::Pause;
use crate::streams::Streams;

/// Times at which sessions are checked, by slot and generation. One entry for each connection that
/// was held back and has not been checked yet.
#[derive(Debug, Default)]
pub(in crate::streams) struct HeldBack(BinaryHeap<Reverse<(u64, u32, u32)>>);

impl Streams {
    /// Stops reading from a session's connection for `left_ms` milliseconds. Returns whether it was
    /// not held back for this reason before.
    pub(crate) fn hold_back(&mut self, id: SessionId, left_ms: u64) -> bool {
        let Some(conn) = self.halves.conn(id) else { return false };
        if self.conns.get(conn).is_none_or(|conn| conn.is_paused(Pause::Pace)) {
            return false;
        }
        self.pause(conn, Pause::Pace);
        self.look_later(id, left_ms);
        true
    }

    /// Schedules another check of a session that was due.
    pub(crate) fn look_later(&mut self, id: SessionId, left_ms: u64) {
        let due_ms = self.kernel.now.mono_ms + left_ms;
        self.held_back.0.push(Reverse((due_ms, id.slot, id.generation)));
    }

    /// Returns the next session that is due for a check.
    pub(crate) fn next_held_back(&mut self) -> Option<SessionId> {
        let Reverse((due_ms, slot, generation)) = *self.held_back.0.peek()?;
        if due_ms > self.kernel.now.mono_ms {
            return None;
        }
        self.held_back.0.pop();
        Some(SessionId { slot, generation })
    }

    /// Sessions that are held back, and some that no longer are.
    pub(crate) fn held_back(&self) -> Vec<SessionId> {
        self.held_back
            .0
            .iter()
            .map(|Reverse((_, slot, generation))| SessionId { slot: *slot, generation: *generation })
            .collect()
    }

    /// Resumes reading from a session's connection, and processes its buffered input.
    pub(crate) fn let_go_on(&mut self, id: SessionId) {
        if let Some(conn) = self.halves.conn(id) {
            self.go_on(conn, Pause::Pace, false);
        }
    }
}

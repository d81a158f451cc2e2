//! Internal figures for tests: the maximum of each bounded quantity. Changes nothing.

use crate::session::conn::{Conn, ConnState, Stage};
use crate::shard::Shard;

/// The current maximum of each bounded quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Output pending for one connection, bytes.
    pub outbound_bytes: usize,
    /// Output pending for all connections, including those that are closing or moving, bytes.
    pub outbound_bytes_all: usize,
    /// Unacknowledged output of one session, bytes.
    pub unacked_bytes: usize,
    /// Unacknowledged output of one session, stanzas.
    pub unacked: usize,
    /// Stanzas of one session that are not yet safe.
    pub under_way: usize,
    /// Work that waits for one user's account.
    pub parked: usize,
    /// Steps that wait for one user's roster.
    pub roster_waits: usize,
    /// Sessions of one user that are not at the head of its log.
    pub behind: usize,
    /// Users in memory.
    pub users: usize,
    /// Outstanding answers.
    pub pending: usize,
    /// Interned presences.
    pub presences: usize,
    /// Connections per phase: opening, securing, authenticating, authenticated, bound, closing,
    /// departing.
    pub phases: [u64; 7],
}

impl Shard {
    /// Examines all connections, sessions and users: for tests.
    #[doc(hidden)]
    pub fn inspect(&self) -> Inspection {
        let (users, presences) = (self.actors.users.len(), self.contacts.presence_table.len());
        let mut seen = Inspection { pending: self.cx.kernel.pending.len(), users, presences, ..Inspection::default() };
        for conn in self.cx.conns.all() {
            let phase = match conn.state() {
                ConnState::Free => continue,
                ConnState::Opening(opening) => match opening.stage() {
                    Stage::ExpectHeader | Stage::ExpectChoice | Stage::ExpectComponent => 0,
                    Stage::ExpectHandshake => 1,
                    Stage::ExpectRestart(_) | Stage::ExpectInline(_) | Stage::ExpectBind(_) => 3,
                    _ => 2,
                },
                ConnState::Bound(_) | ConnState::Component(_) => 4,
                ConnState::Closing { .. } => 5,
                ConnState::Departing => 6,
            };
            seen.phases[phase] += 1;
        }
        let waits = |conn: &Conn| conn.outbound.as_ref().map_or(0, |o| o.bytes());
        seen.outbound_bytes_all = self.cx.conns.all().map(waits).sum();
        let open = |c: &&Conn| !matches!(c.state(), ConnState::Closing { .. } | ConnState::Departing);
        for conn in self.cx.conns.all().filter(open) {
            seen.outbound_bytes = seen.outbound_bytes.max(waits(conn));
        }
        for id in (0..self.actors.sessions.slots()).filter_map(|slot| self.actors.sessions.id(slot)) {
            let Some((bytes, stanzas, under_way)) = self.cx.unacknowledged(id) else { continue };
            seen.unacked_bytes = seen.unacked_bytes.max(bytes);
            seen.unacked = seen.unacked.max(stanzas);
            seen.under_way = seen.under_way.max(under_way);
        }
        for state in (0..self.actors.users.slots()).filter_map(|user| self.actors.users.get(user).state.as_ref()) {
            seen.parked = seen.parked.max(state.parked.len());
            seen.roster_waits = seen.roster_waits.max(state.roster_waits.len());
            seen.behind = seen.behind.max(state.log.as_ref().map_or(0, |log| log.behind.len()));
        }
        seen
    }
}

//! A look into a shard for tests: the largest of each thing that is bounded. It changes nothing.

use crate::session::conn::{Conn, ConnState, Stage};
use crate::shard::Shard;

/// The largest of each bounded thing at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// Output that waits for one connection, bytes.
    pub outbound_bytes: usize,
    /// The same of all connections together, also of those that are closing or leaving.
    pub outbound_bytes_all: usize,
    /// What one session has not acknowledged, bytes.
    pub unacked_bytes: usize,
    /// What one session has not acknowledged, stanzas.
    pub unacked: usize,
    /// Stanzas of one session that are not yet in safe hands.
    pub under_way: usize,
    /// What waits for one user's account.
    pub parked: usize,
    /// What waits for one user's roster.
    pub roster_waits: usize,
    /// Sessions of one user that are not at the head of its log.
    pub behind: usize,
    /// Users that something is known of.
    pub users: usize,
    /// Answers that are waited for.
    pub pending: usize,
    /// Presences that are kept, each once.
    pub presences: usize,
    /// Connections in each phase, one by one: opening, securing, authenticating, authenticated, bound, closing, departing.
    pub phases: [u64; 7],
}

impl Shard {
    /// Looks at all connections, sessions and users: for tests.
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

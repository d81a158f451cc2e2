//! What may be asked about the stream half of a session: how much waits, how long it has been so, and what has been counted. None of
//! it changes anything.

use crate::id::{ConnId, SessionId};
use crate::limits::{ARCHIVE_PAGE_BYTES_MAX, ARCHIVE_PAGE_MAX};
use crate::session::sm::{Managed, TOKEN_BYTES};
use crate::streams::Streams;
use crate::streams::half::Up;
use crate::streams::output::Carries;

/// What a session may leave unacknowledged before messages stay in its user's log, when all together leave too much, bytes.
const UNACKED_CROWDED_BYTES: usize = 4_096;

/// How the stream half of a session stands, as an operator sees it.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Its connection, or none while it waits to be resumed.
    pub(crate) conn: Option<ConnId>,
    /// Second (monotonic) since which that is so.
    pub(crate) since_s: u32,
    /// Second when something last came from it, or since which it has no connection.
    pub(crate) last_s: u32,
    /// Stanzas that stream management has counted outwards, if it does.
    pub(crate) sent: Option<u32>,
    /// Stanzas under way to other homes.
    pub(crate) in_flight: u16,
    /// Bytes that wait for its connection, or are under way to it.
    pub(crate) outbound_bytes: usize,
}

impl Streams {
    /// How a session stands, if it is there.
    pub(crate) fn standing(&self, id: SessionId) -> Option<Standing> {
        let half = self.halves.get(id)?;
        let conn = half.conn();
        Some(Standing {
            conn,
            since_s: half.since_s,
            last_s: conn.map_or(half.since_s, |conn| self.conns.last_s(conn)),
            sent: half.managed.as_ref().map(|managed| managed.sent()),
            in_flight: half.in_flight,
            outbound_bytes: self.unread_bytes(id),
        })
    }

    /// The connection of a session, if it has one.
    pub(crate) fn conn_of(&self, id: SessionId) -> Option<ConnId> {
        self.halves.conn(id)
    }

    /// Whether a session is there and waits to be resumed.
    pub(crate) fn is_detached(&self, id: SessionId) -> bool {
        self.halves.get(id).is_some_and(|half| half.conn().is_none())
    }

    /// Whether a session has waited for too long to be resumed.
    pub(crate) fn is_expired(&self, id: SessionId) -> bool {
        let Some(half) = self.halves.get(id).filter(|half| half.conn().is_none()) else { return false };
        let resume_s = half.managed.as_ref().map_or(0, |managed| managed.resume_s);
        let late_s = half.managed.as_ref().map_or(0, |managed| managed.late_s);
        self.kernel.now.mono_s().saturating_sub(half.since_s).saturating_add(late_s) > resume_s
    }

    /// Seconds for which a session has had no connection, those before this process included.
    pub(crate) fn waited_s(&self, id: SessionId) -> u32 {
        let Some(half) = self.halves.get(id) else { return 0 };
        let late_s = half.managed.as_ref().map_or(0, |managed| managed.late_s);
        self.kernel.now.mono_s().saturating_sub(half.since_s).saturating_add(late_s)
    }

    /// Whether a session is counted by stream management.
    pub(crate) fn is_managed(&self, id: SessionId) -> bool {
        self.halves.managed(id).is_some()
    }

    /// Whether a session may be resumed by who has this token.
    pub(crate) fn may_resume(&self, id: SessionId, token: &[u8; TOKEN_BYTES]) -> bool {
        self.halves
            .managed(id)
            .is_some_and(|managed| managed.resume_s > 0 && !managed.is_dormant() && managed.token == *token)
    }

    /// Messages of its user's log that a session's client has been sent and has not acknowledged.
    pub(crate) fn unreceived(&self, id: SessionId) -> usize {
        self.halves.managed(id).map_or(0, |managed| managed.unacked().filter(|unacked| unacked.may_wait()).count())
    }

    /// Memory of a session's stream management, bytes.
    pub(crate) fn managed_bytes(&self, id: SessionId) -> usize {
        self.halves.managed(id).map_or(0, Managed::memory_bytes)
    }

    /// Memory of all stream halves, by the room of their table, bytes.
    pub(crate) fn halves_bytes(&self) -> usize {
        self.halves.memory_bytes()
    }

    /// What a managed session leaves unacknowledged, bytes and stanzas, and how many of its own stanzas are under way.
    pub(crate) fn unacknowledged(&self, id: SessionId) -> Option<(usize, usize, usize)> {
        let managed = self.halves.managed(id)?;
        Some((managed.unacked_bytes(), managed.unacked_len(), managed.under_way()))
    }

    /// Bytes that wait for a session's connection, or are under way to it.
    pub(crate) fn unread_bytes(&self, id: SessionId) -> usize {
        self.halves.conn(id).map_or(0, |conn| self.conns.outbound_bytes(conn))
    }

    /// Whether a session has so much unread or unacknowledged that it gets nothing more from others.
    pub(crate) fn is_full(&self, id: SessionId) -> bool {
        let most = self.kernel.settings.outbound_bytes_max;
        let Some(half) = self.halves.get(id) else { return true };
        let unacked = half.managed.as_ref().map_or(0, |managed| managed.unacked_bytes());
        unacked > most || half.conn().is_some_and(|conn| self.conns.outbound_bytes(conn) > most)
    }

    /// Whether a session has too much to take already. What is for it waits in the log, if it may.
    pub(crate) fn is_busy(&self, id: SessionId) -> bool {
        let (soft, most) = (self.kernel.settings.outbound_bytes_soft, self.kernel.settings.unacked_max);
        let Some(half) = self.halves.get(id) else { return true };
        // What waits for it in the log comes first, and nobody knows yet from where on.
        if half.managed.as_ref().is_some_and(|managed| managed.is_dormant()) {
            return true;
        }
        // Where all together leave too much, nobody leaves much.
        let all = self.kernel.settings.unacked_bytes_max / u64::from(self.kernel.settings.shards().max(1));
        let crowded = all > 0 && self.unacked_bytes as u64 > all;
        let soft = if crowded { soft.min(UNACKED_CROWDED_BYTES) } else { soft };
        let unacked = half.managed.as_ref().is_some_and(|m| m.unacked_len() >= most || m.unacked_bytes() > soft);
        unacked || half.conn().is_some_and(|conn| self.is_heavy(conn))
    }

    /// Bytes of a page of an answer: it leaves as much again of what a session may leave unread and unacknowledged.
    pub(crate) fn page_room(&self) -> usize {
        ARCHIVE_PAGE_BYTES_MAX
            .min(self.kernel.settings.outbound_bytes_soft / 2)
            .min(self.kernel.settings.outbound_bytes_max / 2)
    }

    /// Whether a session has room for a page of an answer, beside what it leaves unread and unacknowledged: none of it is to make a
    /// message wait.
    pub(crate) fn has_room(&self, id: SessionId) -> bool {
        let (soft, most) = (self.kernel.settings.outbound_bytes_soft, self.kernel.settings.unacked_max);
        let Some(half) = self.halves.get(id).filter(|_| !self.is_busy(id)) else { return false };
        let unread = half.conn().map_or(0, |conn| self.conns.outbound_bytes(conn));
        let (len, bytes) = half.managed.as_ref().map_or((0, 0), |m| (m.unacked_len(), m.unacked_bytes()));
        unread.max(bytes) + self.page_room() <= soft && len + ARCHIVE_PAGE_MAX.min(most / 2) <= most
    }

    /// A session waits until it has room.
    pub(crate) fn await_room(&mut self, id: SessionId) {
        self.awaiting_room.insert(id);
    }

    /// What waited for a session has become less: if it waits for room, and has it now, that is told upwards.
    pub(crate) fn lightened(&mut self, id: SessionId) {
        if !self.awaiting_room.is_empty() && self.awaiting_room.contains(&id) && self.has_room(id) {
            self.awaiting_room.remove(&id);
            self.up.push_back(Up::Lighter(id));
        }
    }

    /// The same of the session that a connection carries messages for.
    pub(crate) fn conn_lightened(&mut self, id: ConnId) {
        if !self.awaiting_room.is_empty()
            && let Carries::Session(session) = self.carries_for(id)
        {
            self.lightened(session);
        }
    }

    /// Whether a session has asked on and on and acknowledged nothing: as much as others may fill is there for answers alone.
    pub(crate) fn acknowledges_nothing(&self, id: SessionId) -> bool {
        let most = 2 * self.kernel.settings.outbound_bytes_max;
        self.halves.managed(id).is_some_and(|managed| managed.unacked_bytes() > most && managed.unacked_len() > 1)
    }

    /// The number of the first message that a session holds and the cursor of its user's log waits for.
    pub(crate) fn first_held(&mut self, id: SessionId) -> Option<u64> {
        let half = self.halves.get(id)?;
        let managed = half.managed.as_ref().and_then(|managed| managed.first_held());
        let conn = half.conn().and_then(|conn| self.conns.get(conn));
        let sent = conn.and_then(|conn| conn.outbound.as_ref()).and_then(|outbound| outbound.first_held());
        managed.into_iter().chain(sent).min()
    }
}

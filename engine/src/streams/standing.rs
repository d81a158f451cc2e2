//! Queries about the stream half of a session: how much output is pending, for how long, and what
//! has been counted. None of them changes state.

use crate::id::{ConnId, SessionId};
use crate::limits::{ARCHIVE_PAGE_BYTES_MAX, ARCHIVE_PAGE_MAX};
use crate::session::sm::{Managed, TOKEN_BYTES};
use crate::streams::Streams;
use crate::streams::half::Up;
use crate::streams::output::Carries;

/// Bytes that a session may leave unacknowledged before messages stay in its user's log, while all
/// sessions together leave too much.
const UNACKED_CROWDED_BYTES: usize = 4_096;

/// The state of a session's stream half, as shown to an operator.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Its connection, or `None` while it waits to be resumed.
    pub(crate) conn: Option<ConnId>,
    /// Second (monotonic) at which it got its connection, or lost it.
    pub(crate) since_s: u32,
    /// Second of its last input, or at which it lost its connection.
    pub(crate) last_s: u32,
    /// Stanzas that stream management has counted outbound, if enabled.
    pub(crate) sent: Option<u32>,
    /// Stanzas in flight to other homes.
    pub(crate) in_flight: u16,
    /// Bytes pending for its connection, or in flight to it.
    pub(crate) outbound_bytes: usize,
}

impl Streams {
    /// Returns the state of a session, if it exists.
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

    pub(crate) fn conn_of(&self, id: SessionId) -> Option<ConnId> {
        self.halves.conn(id)
    }

    /// Whether a session exists and waits to be resumed.
    pub(crate) fn is_detached(&self, id: SessionId) -> bool {
        self.halves.get(id).is_some_and(|half| half.conn().is_none())
    }

    /// Whether the time in which a session may be resumed has passed.
    pub(crate) fn is_expired(&self, id: SessionId) -> bool {
        let Some(half) = self.halves.get(id).filter(|half| half.conn().is_none()) else { return false };
        let resume_s = half.managed.as_ref().map_or(0, |managed| managed.resume_s);
        let late_s = half.managed.as_ref().map_or(0, |managed| managed.late_s);
        self.kernel.now.mono_s().saturating_sub(half.since_s).saturating_add(late_s) > resume_s
    }

    /// Seconds for which a session has had no connection, including those before this process
    /// began.
    pub(crate) fn waited_s(&self, id: SessionId) -> u32 {
        let Some(half) = self.halves.get(id) else { return 0 };
        let late_s = half.managed.as_ref().map_or(0, |managed| managed.late_s);
        self.kernel.now.mono_s().saturating_sub(half.since_s).saturating_add(late_s)
    }

    /// Whether a session has stream management.
    pub(crate) fn is_managed(&self, id: SessionId) -> bool {
        self.halves.managed(id).is_some()
    }

    /// Whether this token permits a session to be resumed.
    pub(crate) fn may_resume(&self, id: SessionId, token: &[u8; TOKEN_BYTES]) -> bool {
        self.halves
            .managed(id)
            .is_some_and(|managed| managed.resume_s > 0 && !managed.is_dormant() && managed.token == *token)
    }

    /// Number of log messages that were sent to a session's client and not acknowledged.
    pub(crate) fn unreceived(&self, id: SessionId) -> usize {
        self.halves.managed(id).map_or(0, |managed| managed.unacked().filter(|unacked| unacked.may_wait()).count())
    }

    /// Memory of a session's stream management, bytes.
    pub(crate) fn managed_bytes(&self, id: SessionId) -> usize {
        self.halves.managed(id).map_or(0, Managed::memory_bytes)
    }

    /// Memory of all stream halves by the capacity of their table, bytes.
    pub(crate) fn halves_bytes(&self) -> usize {
        self.halves.memory_bytes()
    }

    /// Bytes and stanzas that a managed session leaves unacknowledged, and how many of its own
    /// stanzas are in flight.
    pub(crate) fn unacknowledged(&self, id: SessionId) -> Option<(usize, usize, usize)> {
        let managed = self.halves.managed(id)?;
        Some((managed.unacked_bytes(), managed.unacked_len(), managed.under_way()))
    }

    /// Bytes pending for a session's connection, or in flight to it.
    pub(crate) fn unread_bytes(&self, id: SessionId) -> usize {
        self.halves.conn(id).map_or(0, |conn| self.conns.outbound_bytes(conn))
    }

    /// Whether a session's unread or unacknowledged output is so large that it receives nothing
    /// more from others.
    pub(crate) fn is_full(&self, id: SessionId) -> bool {
        let most = self.kernel.settings.outbound_bytes_max;
        let Some(half) = self.halves.get(id) else { return true };
        let unacked = half.managed.as_ref().map_or(0, |managed| managed.unacked_bytes());
        unacked > most || half.conn().is_some_and(|conn| self.conns.outbound_bytes(conn) > most)
    }

    /// Whether a session has too much output pending. Messages for it then wait in the log, if they
    /// may.
    pub(crate) fn is_busy(&self, id: SessionId) -> bool {
        let (soft, most) = (self.kernel.settings.outbound_bytes_soft, self.kernel.settings.unacked_max);
        let Some(half) = self.halves.get(id) else { return true };
        // Its messages in the log come first, and their starting point is not known yet.
        if half.managed.as_ref().is_some_and(|managed| managed.is_dormant()) {
            return true;
        }
        // While all sessions together leave too much, each may leave only a little.
        let all = self.kernel.settings.unacked_bytes_max / u64::from(self.kernel.settings.shards().max(1));
        let crowded = all > 0 && self.unacked_bytes as u64 > all;
        let soft = if crowded { soft.min(UNACKED_CROWDED_BYTES) } else { soft };
        let unacked = half.managed.as_ref().is_some_and(|m| m.unacked_len() >= most || m.unacked_bytes() > soft);
        unacked || half.conn().is_some_and(|conn| self.is_heavy(conn))
    }

    /// Bytes of one page of an answer: half of what a session may leave unread and unacknowledged.
    pub(crate) fn page_room(&self) -> usize {
        ARCHIVE_PAGE_BYTES_MAX
            .min(self.kernel.settings.outbound_bytes_soft / 2)
            .min(self.kernel.settings.outbound_bytes_max / 2)
    }

    /// Whether a session has room for a page of an answer beside its unread and unacknowledged
    /// output. A page must not make a message wait.
    pub(crate) fn has_room(&self, id: SessionId) -> bool {
        let (soft, most) = (self.kernel.settings.outbound_bytes_soft, self.kernel.settings.unacked_max);
        let Some(half) = self.halves.get(id).filter(|_| !self.is_busy(id)) else { return false };
        let unread = half.conn().map_or(0, |conn| self.conns.outbound_bytes(conn));
        let (len, bytes) = half.managed.as_ref().map_or((0, 0), |m| (m.unacked_len(), m.unacked_bytes()));
        unread.max(bytes) + self.page_room() <= soft && len + ARCHIVE_PAGE_MAX.min(most / 2) <= most
    }

    /// Registers a session to be reported when it has room.
    pub(crate) fn await_room(&mut self, id: SessionId) {
        self.awaiting_room.insert(id);
    }

    /// A session's pending output has shrunk. If it waits for room and has room now, that is
    /// reported upwards.
    pub(crate) fn lightened(&mut self, id: SessionId) {
        if !self.awaiting_room.is_empty() && self.awaiting_room.contains(&id) && self.has_room(id) {
            self.awaiting_room.remove(&id);
            self.up.push_back(Up::Lighter(id));
        }
    }

    /// Does the same for the session whose messages a connection carries.
    pub(crate) fn conn_lightened(&mut self, id: ConnId) {
        if !self.awaiting_room.is_empty()
            && let Carries::Session(session) = self.carries_for(id)
        {
            self.lightened(session);
        }
    }

    /// Whether a session keeps sending requests and acknowledges nothing. A reserve as large as the
    /// limit for others' stanzas is available to answers alone.
    pub(crate) fn acknowledges_nothing(&self, id: SessionId) -> bool {
        let most = 2 * self.kernel.settings.outbound_bytes_max;
        self.halves.managed(id).is_some_and(|managed| managed.unacked_bytes() > most && managed.unacked_len() > 1)
    }

    /// The number of the first message that a session holds and that its user's cursor waits for.
    pub(crate) fn first_held(&mut self, id: SessionId) -> Option<u64> {
        let half = self.halves.get(id)?;
        let managed = half.managed.as_ref().and_then(|managed| managed.first_held());
        let conn = half.conn().and_then(|conn| self.conns.get(conn));
        let sent = conn.and_then(|conn| conn.outbound.as_ref()).and_then(|outbound| outbound.first_held());
        managed.into_iter().chain(sent).min()
    }
}

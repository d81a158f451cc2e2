//! Everything that depends on time alone. There is no timer object a connection: slots are looked at in turn, all of them
//! once a period, a share of them each turn.

use crate::id::{ConnId, SessionId};
use crate::session::conn::{ConnState, NONE, Stage};
use crate::shard::Shard;
use crate::shard::stream::Ending;
use crate::wire::error::StreamCondition;

/// Every slot is looked at once in this time, milliseconds. Time-outs are late by this much at the most.
const PERIOD_MS: u64 = 2_000;
/// Rows of mailboxes that have moved are written this often, milliseconds.
const ROWS_MS: u64 = 1_000;
/// Mailboxes that have moved are written when there are this many.
const ROWS_MOST: usize = 4_096;

/// Where the sweep stands.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    last_ms: u64,
    rows_ms: u64,
    conn: u32,
    session: u32,
    user: u32,
    /// Users whose mailbox row may have changed.
    moved: Vec<u32>,
}

impl Sweeper {
    /// A user's mailbox has moved: its row is written with the next round.
    pub(crate) fn touch_mailbox(&mut self, user: u32) {
        if self.moved.last() != Some(&user) {
            self.moved.push(user);
        }
    }
}

/// Slots due after `elapsed_ms`, of `slots` in all.
fn share(slots: u32, elapsed_ms: u64) -> u32 {
    let due = u64::from(slots) * elapsed_ms.min(PERIOD_MS) / PERIOD_MS;
    u32::try_from(due).unwrap_or(slots).min(slots)
}

impl Shard {
    /// One turn's share of the sweep.
    pub(super) fn sweep(&mut self) {
        self.write_moved_rows();
        let elapsed = self.now.mono_ms.saturating_sub(self.sweeper.last_ms);
        // At least one slot of each kind a sweep, and no sweep more often than a hundredth of the period.
        if elapsed < PERIOD_MS / 100 {
            return;
        }
        self.sweeper.last_ms = self.now.mono_ms;
        for _ in 0..share(self.conns.slots(), elapsed).max(1).min(self.conns.slots()) {
            self.sweeper.conn = (self.sweeper.conn + 1) % self.conns.slots();
            self.sweep_conn(self.conns.id(self.sweeper.conn));
        }
        for _ in 0..share(self.sessions.slots(), elapsed).max(1).min(self.sessions.slots()) {
            self.sweeper.session = (self.sweeper.session + 1) % self.sessions.slots();
            if let Some(id) = self.sessions.id(self.sweeper.session) {
                self.sweep_session(id);
            }
        }
        for _ in 0..share(self.users.slots(), elapsed).max(1).min(self.users.slots()) {
            self.sweeper.user = (self.sweeper.user + 1) % self.users.slots();
            self.sweep_user(self.sweeper.user);
        }
    }

    fn sweep_conn(&mut self, id: ConnId) {
        let now_s = self.now.mono_s();
        let (preauth, idle, stall) =
            (self.settings.preauth_s_max, self.settings.idle_s_max, self.settings.send_stall_s_max);
        let Some(conn) = self.conns.get(id) else { return };
        let stalled =
            conn.outbound.as_ref().is_some_and(|o| o.is_sending() && now_s.saturating_sub(o.since_s()) > stall);
        let quiet = now_s.saturating_sub(conn.last_s);
        match &conn.state {
            ConnState::Opening(opening) if now_s.saturating_sub(opening.accepted_s) > preauth => {
                let handshake = matches!(opening.stage, Stage::ExpectHandshake);
                let text = Some("no resource was bound in time");
                self.fail_stream(id, StreamCondition::ConnectionTimeout, text);
                debug_assert!(!handshake || self.session_of(id).is_none());
            }
            // A peer that takes nothing: what it has not acknowledged waits for it.
            ConnState::Bound(_) if stalled => self.close(id, Ending::Cut),
            ConnState::Bound(session) if idle > 0 && quiet > idle => {
                let session = *session;
                if quiet > idle.saturating_mul(2) {
                    self.drop_connection(id);
                } else if !conn.pinged {
                    conn.pinged = true;
                    self.ping(id, session);
                }
            }
            _ => {}
        }
    }

    /// The peer is not there: the stream ends with an error, the session may be resumed.
    fn drop_connection(&mut self, id: ConnId) {
        let mut out = Vec::new();
        crate::wire::error::write_stream_error(&mut out, StreamCondition::ConnectionTimeout, None, None);
        out.extend_from_slice(b"</stream:stream>");
        self.send_bytes(id, &out);
        self.close(id, Ending::Unheard);
    }

    /// Asks an idle peer whether it is there: with stream management by `<r/>`, otherwise by a ping (XEP-0199 4.1).
    fn ping(&mut self, conn: ConnId, session: SessionId) {
        if self.sessions.get(session).is_some_and(|s| s.managed.is_some()) {
            return self.send_bytes(conn, b"<r xmlns='urn:xmpp:sm:3'/>");
        }
        let (full, id) = (self.full_jid(session), self.random_name());
        let domain = &self.settings.domain;
        let mut out = Vec::with_capacity(160);
        out.extend_from_slice(b"<iq type='get'");
        for (name, value) in [("from", &**domain), ("to", &full), ("id", &id)] {
            crate::wire::text::write_attribute(&mut out, name, value);
        }
        out.extend_from_slice(b"><ping xmlns='urn:xmpp:ping'/></iq>");
        self.send_stanza(session, &out);
    }

    fn sweep_session(&mut self, id: SessionId) {
        let now_s = self.now.mono_s();
        let Some(session) = self.sessions.get(id) else { return };
        let resume_s = session.managed.as_ref().map_or(0, |m| m.resume_s);
        if session.conn.is_none() && now_s.saturating_sub(session.since_s) > resume_s {
            self.counters.expired.one();
            self.end_session(id, Vec::new());
        }
    }

    fn sweep_user(&mut self, user: u32) {
        let (now_s, cache_s) = (self.now.mono_s(), self.settings.cache_s);
        let crowded = self.users.len() > self.settings.cached_users_max;
        let entry = self.users.get_mut(user);
        let idle = entry.state.as_ref().is_some_and(|s| {
            s.is_settled() && (now_s.saturating_sub(s.used_s) > cache_s || (crowded && s.used_s < now_s))
        });
        if idle {
            // A user with sessions that is not live has a mailbox that matters as long as they are there.
            if entry.live || entry.first == NONE {
                entry.state = None;
            } else if let Some(state) = entry.state.as_mut() {
                state.roster = None;
            }
        }
        if self.users.get(user).state.is_none() {
            self.users.forget_if_idle(user);
        }
    }

    fn write_moved_rows(&mut self) {
        let due = self.now.mono_ms.saturating_sub(self.sweeper.rows_ms) >= ROWS_MS;
        if self.sweeper.moved.is_empty() || !(due || self.sweeper.moved.len() >= ROWS_MOST) {
            return;
        }
        self.sweeper.rows_ms = self.now.mono_ms;
        for user in std::mem::take(&mut self.sweeper.moved) {
            if !self.users.get(user).local.is_empty() {
                self.write_row(user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PERIOD_MS, share};

    #[test]
    fn all_slots_are_due_once_a_period() {
        assert_eq!(share(1000, PERIOD_MS), 1000);
        assert_eq!(share(1000, PERIOD_MS / 10), 100);
        assert_eq!(share(1000, u64::MAX / 2000), 1000);
        assert_eq!(share(0, PERIOD_MS), 0);
    }
}

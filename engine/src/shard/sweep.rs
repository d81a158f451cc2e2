//! Everything that depends on time alone. There is no timer object per connection. Slots are
//! checked in rotation, a share of them each turn, and each kind as often as its shortest time-out
//! requires, because checking a million idle slots has a cost, too.

use crate::extension;
use crate::id::{ConnId, NO_SOCKET, SessionId};
use crate::limits::{BOSH_ANSWER_S_MAX, COMPONENT_WAIT_MS};
use crate::router::users::RosterStep;
use crate::session::conn::{ConnState, NONE, Stage};
use crate::shard::Shard;
use crate::streams::ended::Ended;
use crate::wire::error::StreamCondition;

/// Number of checks of a slot within the shortest time-out of its kind. None is late by more than
/// an eighth of it, or by [`sweep_s_max`](crate::settings::Settings::sweep_s_max), which is
/// sufficient for longer ones.
const LOOKS: u64 = 8;
/// Minimum time between two rounds of a kind, milliseconds.
const PERIOD_MS_MIN: u64 = 100;
/// Minimum time between two steps, milliseconds: a busy shard has thousands of turns per second,
/// and nothing here is due to the millisecond.
const STEP_MS: u64 = 20;
/// Time of one round over all BOSH sessions, milliseconds: their requests wait for whole seconds.
const BOSH_MS: u64 = 1_000;
/// Interval of reports of memory, milliseconds.
const MEMORY_MS: u64 = 1_000;

/// The progress of the sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    /// Time of the last step.
    last_ms: u64,
    memory_ms: u64,
    /// Finds the age of the oldest send in flight, seconds.
    conns: Round,
    /// Finds how many requests BOSH sessions keep waiting.
    bosh: Round,
    /// Bytes that they hold: in this round so far, and in the last one.
    bosh_bytes: (u64, u64),
    /// Finds the memory of stream management, bytes.
    sessions: Round,
    /// Finds the memory of users' loaded state, bytes.
    users: Round,
}

/// The round over the slots of one kind.
#[derive(Debug, Default)]
struct Round {
    /// The slot that was checked last.
    at: u32,
    /// The results of this round so far, and of the last one.
    found: u64,
    told: u64,
}

impl Round {
    /// The next of `slots` slots.
    fn next(&mut self, slots: u32) -> u32 {
        self.at = (self.at + 1) % slots;
        if self.at == 0 {
            self.told = std::mem::take(&mut self.found);
        }
        self.at
    }
}

/// Number of slots to check in a step after `elapsed_ms`, if all `slots` are checked once per
/// `period_ms`: at least one.
fn share(elapsed_ms: u64, slots: u32, period_ms: u64) -> u32 {
    let share = u64::from(slots) * elapsed_ms.min(period_ms) / period_ms;
    u32::try_from(share).unwrap_or(slots).max(1).min(slots)
}

/// Interval between checks of slots with these time-outs, within `seconds_max` seconds; 0 is no
/// time-out.
fn period_ms(timeouts_s: &[u32], seconds_max: u32) -> u64 {
    let most_ms = u64::from(seconds_max.max(1)) * 1_000;
    let shortest = timeouts_s.iter().filter(|s| **s > 0).min();
    shortest.map_or(most_ms, |s| (u64::from(*s) * 1_000 / LOOKS).clamp(PERIOD_MS_MIN, most_ms))
}

impl Shard {
    /// Does one turn's share of the sweep.
    pub(super) fn sweep(&mut self) {
        // These depend on more than time.
        self.cx.sweep_work();
        self.actors.sweep_paces(&mut self.cx);
        self.contacts.sweep_lasts(&mut self.cx, &mut self.actors);
        self.contacts.sweep_catch_ups(&mut self.cx, &mut self.actors);
        self.contacts.sweep_interests(&mut self.cx, &mut self.actors);
        self.channels.sweep_listeners(&mut self.cx);
        self.go_on_casting();
        self.sweep_web_pushes();
        self.channels.sweep_occupants(&mut self.cx);
        self.channels.sweep_occupancy(&mut self.cx);
        self.logs.write_moved_rows(&mut self.cx, &mut self.actors);
        let now_ms = self.cx.kernel.now.mono_ms;
        let elapsed_ms = now_ms.saturating_sub(self.sweeper.last_ms);
        if elapsed_ms >= STEP_MS {
            self.sweeper.last_ms = now_ms;
            self.sweep_step(elapsed_ms);
        }
    }

    /// Does a step of the sweep, `elapsed_ms` after the last one.
    #[inline(never)]
    fn sweep_step(&mut self, elapsed_ms: u64) {
        self.contacts.go_on_announcing(&mut self.cx, &mut self.actors);
        self.contacts.go_on_renewing(&mut self.cx, &mut self.actors);
        self.accounts.tell_administrators(&mut self.cx);
        self.accounts.sweep_reports(&mut self.cx);
        self.sweep_pushes();
        self.components.sweep_components(&mut self.cx, &mut self.actors);
        self.rooms.sweep(&mut self.cx);
        self.channels.sweep_watchers(&mut self.cx);
        self.channels.renew_listeners(&mut self.cx);
        self.channels.tally_listeners(&self.cx);
        self.write_restless_sessions();
        self.tell_memory();
        if self.actors.observers.is_some() {
            self.actors.sweep_observers(&mut self.cx);
        }
        let settings = &self.cx.kernel.settings;
        let often = |timeouts_s: &[u32]| period_ms(timeouts_s, settings.sweep_s_max);
        let conns_ms = often(&[settings.preauth_s_max, settings.idle_s_max, settings.send_stall_s_max]);
        let (sessions_ms, users_ms) = (often(&[settings.resume_s_max]), often(&[settings.cache_s]));
        for _ in 0..share(elapsed_ms, self.cx.conns.slots(), conns_ms) {
            let slot = self.sweeper.conns.next(self.cx.conns.slots());
            self.sweep_conn(self.cx.conns.id(slot));
        }
        for _ in 0..share(elapsed_ms, self.cx.conns.others(), BOSH_MS) {
            let slot = self.sweeper.bosh.next(self.cx.conns.others());
            let id = self.cx.conns.id(slot | NO_SOCKET);
            self.sweep_conn(id);
            self.sweep_bosh(id);
            let (waiting, bytes) = self.bosh_keeps(id);
            self.sweeper.bosh.found += waiting;
            self.sweeper.bosh_bytes.0 += bytes;
            if self.sweeper.bosh.at + 1 >= self.cx.conns.others() {
                self.sweeper.bosh_bytes = (0, self.sweeper.bosh_bytes.0);
            }
        }
        let now_s = self.cx.kernel.now.mono_s();
        self.cx.bosh.forget_forwards(now_s);
        for _ in 0..share(elapsed_ms, self.actors.sessions.slots(), sessions_ms) {
            let slot = self.sweeper.sessions.next(self.actors.sessions.slots());
            if let Some(id) = self.actors.sessions.id(slot) {
                self.sweep_session(id);
            }
            if slot == 0 {
                self.last_of_rooms.next_round();
            }
        }
        for _ in 0..share(elapsed_ms, self.actors.users.slots(), users_ms) {
            let slot = self.sweeper.users.next(self.actors.users.slots());
            self.sweep_user(slot);
        }
    }

    fn sweep_conn(&mut self, id: ConnId) {
        let now_s = self.cx.kernel.now.mono_s();
        let (preauth, idle, stall) = (
            self.cx.kernel.settings.preauth_s_max,
            self.cx.kernel.settings.idle_s_max,
            self.cx.kernel.settings.send_stall_s_max,
        );
        let held_s = self.cx.held_s;
        // The slot is free.
        let Some(conn) = self.cx.conns.get(id) else { return };
        // Senders wait for stanzas that a component has not taken, if they request acknowledgements
        // (XEP-0198 4).
        let stall = match conn.state() {
            ConnState::Component(_) => stall.min((COMPONENT_WAIT_MS / 1_000) as u32),
            _ => stall,
        };
        let stalled = conn
            .outbound
            .as_ref()
            .is_some_and(|o| o.is_sending() && now_s.saturating_sub(o.since_s()) > stall && o.since_s() < held_s);
        let quiet = now_s.saturating_sub(conn.last_s);
        if let Some(outbound) = conn.outbound.as_ref().filter(|o| o.is_sending()) {
            let age_s = u64::from(now_s.saturating_sub(outbound.since_s()));
            self.sweeper.conns.found = self.sweeper.conns.found.max(age_s);
        }
        if matches!(conn.state(), ConnState::Opening(_)) && self.channels.is_listener(id) {
            if stalled {
                return self.cx.cut(id, Ended::Unread);
            }
            self.channels.sweep_listener(&mut self.cx, id);
            return;
        }
        let conn = self.cx.conns.heard(id);
        match conn.state() {
            // The request's session limits its waiting time, unless no shard has received the
            // request, or the answer is lost.
            ConnState::Opening(opening) if opening.awaited().is_some() => {
                let waited_s = opening.awaited().map_or(0, |asked| now_s.saturating_sub(asked.since_s));
                let text = Some("the request was not answered in time").filter(|_| waited_s > BOSH_ANSWER_S_MAX);
                if text.is_some() {
                    self.cx.fail_stream_with(id, Ended::Server, StreamCondition::ConnectionTimeout, text, None);
                }
            }
            ConnState::Opening(opening) if now_s.saturating_sub(opening.accepted_s) > preauth => {
                let handshake = matches!(opening.stage(), Stage::ExpectHandshake);
                let text = Some("no resource was bound in time");
                self.cx.fail_stream(id, StreamCondition::ConnectionTimeout, text);
                debug_assert!(!handshake || self.cx.session_of(id).is_none());
            }
            // The peer reads nothing: its unacknowledged stanzas wait for it.
            ConnState::Bound(_) | ConnState::Component(_) if stalled => self.cx.cut(id, Ended::Unread),
            // Silence cannot be detected on a connection that is not read from.
            ConnState::Bound(session) if idle > 0 && quiet > idle && !conn.is_unread() => {
                let session = *session;
                if quiet > idle.saturating_mul(2) {
                    self.cx.drop_connection(id);
                } else if !conn.pinged {
                    conn.pinged = true;
                    self.ping(id, session);
                }
            }
            ConnState::Component(_) if idle > 0 && quiet > idle && !conn.is_unread() => {
                if quiet > idle.saturating_mul(2) {
                    self.cx.drop_connection(id);
                } else if !std::mem::replace(&mut conn.pinged, true) {
                    self.components.ping_component(&mut self.cx, id);
                }
            }
            _ => {}
        }
    }

    /// Asks an idle peer for a sign of life: with stream management by `<r/>`, otherwise by an
    /// extension's request (XEP-0199 4.1).
    fn ping(&mut self, conn: ConnId, session: SessionId) {
        if self.cx.is_managed(session) {
            return self.cx.send_bytes(conn, b"<r xmlns='urn:xmpp:sm:3'/>");
        }
        for (place, ask) in extension::asks_idle() {
            self.actors.ask_client(&mut self.cx, session, place, &ask);
        }
    }

    fn sweep_session(&mut self, id: SessionId) {
        let session = self.actors.sessions.heard(id);
        self.last_of_rooms.used_by(session.directed());
        let extra = session.extra.as_ref().map_or(0, |extra| extra.memory_bytes());
        self.sweeper.sessions.found += (self.cx.managed_bytes(id) + extra) as u64;
        if self.cx.is_expired(id) {
            self.cx.kernel.counters.expired.one();
            return self.end_session(id, Vec::new(), None);
        }
        self.cx.rest(id);
        self.cx.forget_paid(id);
        let session = self.actors.sessions.heard(id);
        let (user, missed) = (session.user, session.extra.as_ref().is_some_and(|extra| extra.missed.is_some()));
        let behind = session.extra.as_ref().is_some_and(|extra| !extra.behind.is_empty());
        if missed && !self.cx.is_busy(id) {
            self.contacts.roster_step(&mut self.cx, &mut self.actors, user, RosterStep::Catch { session: id });
        }
        if behind && !self.cx.is_busy(id) {
            self.catch_up_in_rooms(id);
        }
    }

    fn sweep_user(&mut self, user: u32) {
        self.contacts.ask_later(&mut self.cx, &mut self.actors, user);
        let (now_s, cache_s) = (self.cx.kernel.now.mono_s(), self.cx.kernel.settings.cache_s);
        let crowded = self.actors.users.len() > self.cx.kernel.settings.cached_users_max;
        let unused = |used_s: u32| now_s.saturating_sub(used_s) > cache_s || (crowded && used_s < now_s);
        let entry = self.actors.users.get_mut(user);
        let live = entry.live;
        if let Some(state) = entry.state.as_mut() {
            if unused(state.roster_used_s) {
                state.drop_roster();
            }
            self.sweeper.users.found += state.memory_bytes() as u64;
        }
        let idle = entry.state.as_ref().is_some_and(|s| s.is_settled(live) && unused(s.used_s));
        // The log of a user at its head would be rebuilt from the sessions' positions, which may
        // differ. Extensions' notes about a user are not read again while the user has a session.
        let now_us = self.cx.kernel.now.mono_ms * 1_000;
        let owes = self.actors.users.get(user).state.as_ref().is_some_and(|state| state.quota.owes(now_us));
        let noted = self.actors.notes_stay(user) && self.actors.users.get(user).first != NONE;
        let kept = noted || owes || (live && idle && self.logs.holds_messages(&mut self.cx, &mut self.actors, user));
        if idle && !kept {
            self.actors.users.get_mut(user).state = None;
        }
        if self.actors.users.get(user).state.is_none() && !self.actors.has_spent(&mut self.cx, user) {
            self.actors.users.forget_if_idle(user);
        }
    }

    /// Reports the memory of tables, and the results of the last rounds.
    fn tell_memory(&mut self) {
        if self.cx.kernel.now.mono_ms.saturating_sub(self.sweeper.memory_ms) < MEMORY_MS {
            return;
        }
        self.sweeper.memory_ms = self.cx.kernel.now.mono_ms;
        let (c, sweeper) = (&self.cx.kernel.counters, &self.sweeper);
        c.outbound_oldest_s.set(sweeper.conns.told.max(sweeper.conns.found));
        c.mem_connections_bytes.set(self.cx.conns.memory_bytes() as u64);
        let halves = self.actors.sessions.memory_bytes() + self.cx.halves_bytes();
        c.mem_sessions_bytes.set(halves as u64 + sweeper.sessions.told);
        let interests = self.contacts.interests.memory_bytes() as u64;
        c.bosh_waiting.set(sweeper.bosh.told);
        c.bosh_bytes.set(sweeper.bosh_bytes.1);
        let (pushes_pending, pushes_bytes) = self.pushes_held();
        c.pushes_pending.set(pushes_pending);
        c.notify_push_under_way.set(self.channels.web_pushes.under_way() as u64);
        let others =
            interests + pushes_bytes as u64 + (self.channels.channels_bytes() + self.known_nodes_bytes()) as u64;
        c.mem_users_bytes.set(self.actors.users.memory_bytes() as u64 + sweeper.users.told + others);
        let pool: usize = self.cx.outbound_pool.iter().map(|outbound| outbound.memory_bytes()).sum();
        c.mem_outbound_bytes.set((self.cx.outbound_bytes + pool) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::{PERIOD_MS_MIN, Round, STEP_MS, period_ms, share};

    const PERIOD_MS_MAX: u64 = 8_000;

    #[test]
    fn all_slots_are_looked_at_once_a_period_however_long_a_step_is() {
        for (slots, step_ms) in [(1, 20), (7, 33), (1000, 21), (1000, 5_000), (100_000, 20), (100_000, 7_000)] {
            let (mut round, mut seen) = (Round::default(), vec![0; slots as usize]);
            // A step's fraction of a slot is not carried over: a round may take that much longer.
            for _ in 0..=2 * PERIOD_MS_MAX / step_ms {
                for _ in 0..share(step_ms, slots, PERIOD_MS_MAX) {
                    seen[round.next(slots) as usize] += 1;
                }
            }
            assert!(seen.iter().all(|looks| *looks >= 1), "{slots} slots, a step each {step_ms} ms");
        }
        assert_eq!(share(STEP_MS, 0, PERIOD_MS_MAX), 0);
        assert_eq!(share(STEP_MS, 1, PERIOD_MS_MAX), 1, "a single one in each step");
        assert_eq!(share(u64::MAX, 1000, PERIOD_MS_MAX), 1000, "once, not more often");
    }

    #[test]
    fn the_shortest_time_out_says_how_often() {
        assert_eq!(period_ms(&[30, 600, 60], 8), 3_750);
        assert_eq!(period_ms(&[30, 0, 60], 8), 3_750, "0 is none");
        assert_eq!(period_ms(&[1, 600], 8), 125);
        assert_eq!(period_ms(&[300], 8), PERIOD_MS_MAX);
        assert_eq!(period_ms(&[0], 8), PERIOD_MS_MAX);
        assert_eq!(period_ms(&[300], 2), 2_000, "the operator wants it sooner");
        assert_eq!(period_ms(&[300], 60), 37_500, "or cheaper");
        const { assert!(PERIOD_MS_MIN > STEP_MS) };
    }
}

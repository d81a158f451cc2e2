//! What happens to sessions besides messages: presence, leaving and returning, flapping networks, storms, receivers that
//! stop reading.

use super::{AT_ONCE, Command, State, World};
use crate::random::Arrivals;

/// Clients of a storm that are looked at in one turn: those who stay are served meanwhile.
const RESETS_PER_TURN: u32 = 256;

/// The times of what happens.
#[derive(Debug)]
pub(super) struct Disturbances {
    presence: Arrivals,
    offline: Arrivals,
    flap: Arrivals,
    /// Clients that the storm has passed over; none before it begins.
    stormed: u32,
    /// Receivers that do not read: the first so many.
    stalled: u32,
}

impl Disturbances {
    /// Whether there has been a storm.
    pub(super) fn has_stormed(&self) -> bool {
        self.stormed > 0
    }

    pub(super) fn new(seed: u64) -> Disturbances {
        let arrivals = |number| Arrivals::new(0, seed.wrapping_add(number));
        Disturbances { presence: arrivals(0), offline: arrivals(1), flap: arrivals(2), stormed: 0, stalled: 0 }
    }
}

impl World {
    pub(super) fn begin_disturbances(&mut self) {
        let (now, seed) = (self.now_ns, self.random.next());
        let arrivals = |number| Arrivals::new(now, seed.wrapping_add(number));
        let stalled = (f64::from(self.plan.pairs) * self.plan.scenario.stall_share).round() as u32;
        self.disturbances =
            Disturbances { presence: arrivals(0), offline: arrivals(1), flap: arrivals(2), stormed: 0, stalled };
        for pair in 0..stalled {
            if self.conn(pair * 2 + 1).state == State::Up {
                self.command(pair * 2 + 1, Command::Pause);
            }
        }
    }

    /// Does what is due.
    pub(super) fn disturb(&mut self) {
        let (scenario, share, now) = (self.plan.scenario.clone(), self.share(), self.now_ns);
        while self.disturbances.presence.due(now, scenario.presence_per_s * share).is_some() {
            let client = self.random.below(self.plan.clients);
            self.change_presence(client);
        }
        while self.disturbances.offline.due(now, scenario.offline_per_s * share).is_some() {
            let client = self.random.below(self.plan.clients);
            self.leave(client, scenario.offline_s);
        }
        while self.disturbances.flap.due(now, scenario.flap_per_s * share).is_some() {
            let client = self.random.below(self.plan.clients);
            // A network that comes back at once is still no storm.
            self.reset(client, scenario.flap_s.max(0.02));
        }
        let hold_s = (now - self.hold_ns) as f64 / 1e9;
        if scenario.storm_share > 0.0 && hold_s >= scenario.storm_at_s {
            let first = self.disturbances.stormed;
            self.disturbances.stormed = (first + RESETS_PER_TURN).min(self.plan.clients);
            for client in first..self.disturbances.stormed {
                if self.random.share() < scenario.storm_share {
                    let away_s = self.random.share() * scenario.storm_spread_s;
                    self.conn(client).flags |= AT_ONCE;
                    self.reset(client, away_s);
                }
            }
        }
        if self.disturbances.stalled > 0 && scenario.stall_s > 0.0 && hold_s >= scenario.stall_s {
            self.end_stalls();
        }
    }

    /// Receivers read again.
    pub(super) fn end_stalls(&mut self) {
        for pair in 0..std::mem::take(&mut self.disturbances.stalled) {
            if matches!(self.conn(pair * 2 + 1).state, State::Login | State::Up | State::Leaving) {
                self.command(pair * 2 + 1, Command::Resume);
            }
        }
    }

    fn change_presence(&mut self, client: u32) {
        let away = self.random.below(2) == 0;
        let conn = self.conn(client);
        if conn.state == State::Up {
            let presence: &[u8] = if away { b"<presence><show>away</show></presence>" } else { b"<presence/>" };
            conn.output.extend_from_slice(presence);
            self.tally.counters.presence_sent += 1;
            self.mark(client);
        }
    }

    /// Subscribes to the next so many users (RFC 6121 3.1.1).
    pub(super) fn befriend(&mut self, client: u32) {
        let (contacts, all) = (self.plan.scenario.contacts, self.plan.scenario.sessions);
        if contacts == 0 || !self.plan.scenario.subscribe {
            return;
        }
        let own = self.plan.first + client;
        for distance in 1..=contacts {
            let contact = ((u64::from(own) + u64::from(distance)) % u64::from(all)) as u32;
            let out = &mut self.conns[client as usize].output;
            out.extend_from_slice(b"<presence type='subscribe' to='");
            self.plan.accounts.write_name(contact, out);
            out.push(b'@');
            out.extend_from_slice(self.plan.profile.domain.as_bytes());
            out.extend_from_slice(b"'/>");
        }
        self.mark(client);
    }
}

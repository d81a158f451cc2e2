//! Messages between the two clients of a pair: closed loop, open loop, and the account of arrivals.

use std::time::Duration;

use super::{State, World, until};
use crate::delivery::{Arrival, Book, Stamp};
use crate::phases::{Phase, spike};
use crate::random::{Arrivals, Random};
use crate::wheel::{TICK_MS, Tick};

/// A window of the closed loop in which nothing has come for so long is opened again.
const GIVE_UP_TICKS: Tick = 5_000 / TICK_MS;

/// A sender that has so much unsent is not given more by the open loop.
const UNSENT_MAX: usize = 1 << 20;

/// One pair.
#[derive(Debug, Default)]
pub(super) struct Pair {
    book: Book,
    /// Messages below this number are not waited for by the closed loop.
    floor: u32,
    /// When something came, or a window was opened.
    moved: Tick,
    /// A connection of it has broken.
    broke: bool,
    /// Of those that have not come by their number, so many came corrupted.
    corrupted: u64,
}

/// The times of the open loop.
#[derive(Debug)]
pub(super) struct Chat {
    base: Arrivals,
    spike: Arrivals,
    random: Random,
    /// Messages this worker has sent.
    sent: u64,
    /// When windows are looked after next.
    look_at: Tick,
}

impl Chat {
    pub(super) fn new(seed: u64) -> Chat {
        Chat {
            base: Arrivals::new(0, seed),
            spike: Arrivals::new(0, seed.wrapping_add(1)),
            random: Random::new(seed.wrapping_add(2)),
            sent: 0,
            look_at: 0,
        }
    }
}

impl World {
    /// How much of all messages this worker's pairs send.
    fn pair_share(&self) -> f64 {
        f64::from(self.plan.pairs) / f64::from(self.plan.scenario.pairs.max(1))
    }

    /// Whether this worker has sent its part of the most messages.
    fn is_enough(&self) -> bool {
        let most = u128::from(self.plan.scenario.messages_max);
        let below = |pair: u32| most * u128::from(pair) / u128::from(self.plan.scenario.pairs.max(1));
        let own = below(self.plan.first_pair + self.plan.pairs) - below(self.plan.first_pair);
        most > 0 && u128::from(self.chat.sent) >= own
    }

    /// The hold begins.
    pub(super) fn begin_chat(&mut self) {
        self.chat.base = Arrivals::new(self.now_ns, self.random.next());
        self.chat.spike = Arrivals::new(self.now_ns, self.random.next());
        for pair in 0..self.plan.pairs {
            self.top_up(pair);
        }
    }

    /// Sends what the open loop has due, and looks after windows that do not move.
    pub(super) fn chat(&mut self) {
        if self.plan.pairs == 0 {
            return;
        }
        let scenario = self.plan.scenario.clone();
        let rate = scenario.rate * self.pair_share();
        if rate > 0.0 {
            while let Some(at_ns) = self.chat.base.due(self.now_ns, rate) {
                let pair = self.chat.random.below(self.plan.pairs);
                self.send_due(pair, at_ns);
            }
            let region = ((f64::from(self.plan.pairs) * scenario.spike_share).ceil() as u32).min(self.plan.pairs);
            let hold_s = (self.now_ns - self.hold_ns) as f64 / 1e9;
            let more = (spike(&scenario, hold_s) - 1.0) * rate * f64::from(region) / f64::from(self.plan.pairs);
            while let Some(at_ns) = self.chat.spike.due(self.now_ns, more) {
                let pair = self.chat.random.below(region.max(1));
                self.send_due(pair, at_ns);
            }
        }
        if scenario.in_flight > 0 && self.tick() >= self.chat.look_at {
            self.chat.look_at = self.tick() + 1_000 / TICK_MS;
            for pair in 0..self.plan.pairs {
                self.look_after(pair);
            }
        }
    }

    /// Until the open loop has its next message.
    pub(super) fn next_message_in(&self) -> Duration {
        if self.plan.scenario.rate == 0.0 || self.plan.pairs == 0 {
            return Duration::MAX;
        }
        until(&self.chat.base, self.now_ns).min(until(&self.chat.spike, self.now_ns))
    }

    /// A message of the open loop, whose time was `at_ns`.
    fn send_due(&mut self, pair: u32, at_ns: u64) {
        if self.is_enough() {
            return;
        }
        let sender = &self.conns[pair as usize * 2];
        if sender.state != State::Up || sender.output.len() > UNSENT_MAX {
            self.tally.counters.not_sent += 1;
            return;
        }
        self.tally.sent_late.record((self.now_ns - at_ns) / 1000);
        self.send_message(pair, at_ns);
    }

    fn send_message(&mut self, pair: u32, at_ns: u64) {
        let sender = pair * 2;
        let number = self.pairs[pair as usize].book.number();
        let stamp = Stamp { run: self.plan.run, pair: self.plan.first_pair + pair, number, sent_ns: at_ns };
        let out = &mut self.conns[sender as usize].output;
        let start = out.len();
        out.extend_from_slice(b"<message to='");
        self.plan.accounts.write_name(self.plan.first + sender + 1, out);
        out.push(b'@');
        out.extend_from_slice(self.plan.profile.domain.as_bytes());
        out.extend_from_slice(b"' type='chat'><body>");
        const END: &[u8] = b"</body></message>";
        stamp.write(out, start + (self.plan.scenario.message_bytes as usize).saturating_sub(END.len()));
        out.extend_from_slice(END);
        self.chat.sent += 1;
        self.tally.counters.sent += 1;
        self.gauges.outstanding += 1;
        self.mark(sender);
    }

    /// Fills the window of the closed loop.
    fn top_up(&mut self, pair: u32) {
        if self.phase != Phase::Hold || self.conns[pair as usize * 2].state != State::Up {
            return;
        }
        loop {
            let Pair { book, floor, .. } = &self.pairs[pair as usize];
            let under_way = book.sent().saturating_sub(book.next().max(*floor));
            if under_way >= self.plan.scenario.in_flight || self.is_enough() {
                return;
            }
            self.send_message(pair, self.now_ns);
        }
    }

    /// Opens the window again if nothing has come for long.
    fn look_after(&mut self, index: u32) {
        let now = self.tick();
        let pair = &mut self.pairs[index as usize];
        let waits = pair.book.sent() > pair.book.next().max(pair.floor);
        if waits && now.saturating_sub(pair.moved) > GIVE_UP_TICKS {
            pair.floor = pair.book.sent();
            pair.moved = now;
            self.tally.counters.given_up += 1;
            self.top_up(index);
        }
    }

    /// Fills the window once a session of the pair is established, provided that the sender is
    /// online.
    pub(super) fn pair_stands(&mut self, client: u32) {
        if client / 2 < self.plan.pairs {
            self.pairs[client as usize / 2].moved = self.tick();
            self.top_up(client / 2);
        }
    }

    /// A connection broke: what is under way in its pair may be lost, and is not waited for.
    pub(super) fn pair_broke(&mut self, client: u32) {
        if client / 2 < self.plan.pairs {
            let pair = &mut self.pairs[client as usize / 2];
            pair.book.broke();
            pair.broke = true;
            pair.floor = pair.book.sent();
        }
    }

    /// A message of this run has come to a client.
    pub(super) fn message_came(&mut self, client: u32, stamp: Stamp, delayed: bool) {
        let now = self.tick();
        let index = stamp.pair.wrapping_sub(self.plan.first_pair);
        let counters = &mut self.tally.counters;
        let Some(pair) = self.pairs.get_mut(index as usize).filter(|_| index * 2 + 1 == client) else {
            counters.unknown += 1;
            return;
        };
        let arrival = pair.book.arrived(stamp.number);
        match arrival {
            Arrival::Unknown => counters.unknown += 1,
            Arrival::Duplicate => counters.duplicates += 1,
            Arrival::InOrder | Arrival::Reordered => {
                counters.received += 1;
                counters.reordered += u64::from(arrival == Arrival::Reordered);
                counters.delayed += u64::from(delayed);
                pair.moved = now;
                self.gauges.outstanding -= 1;
                let took_us = self.now_ns.saturating_sub(stamp.sent_ns) / 1000;
                self.tally.latency.record(took_us);
                let most_us = self.plan.scenario.late_ms * 1000.0;
                counters.late += u64::from(most_us > 0.0 && took_us as f64 > most_us);
                if self.disturbances.has_stormed() && !pair.broke {
                    self.tally.stayed.record(took_us);
                }
                if self.plan.scenario.in_flight > 0 {
                    self.top_up(index);
                }
            }
        }
    }

    /// A message of this program has come to a client with another body than it was sent with:
    /// which one it was is not known, but that it is not lost.
    pub(super) fn corrupted_came(&mut self, client: u32) {
        self.tally.counters.corrupted += 1;
        let pair = self.pairs.get_mut(client as usize / 2).filter(|_| client % 2 == 1);
        if let Some(pair) = pair.filter(|pair| pair.book.outstanding() > pair.corrupted) {
            pair.corrupted += 1;
            self.gauges.outstanding -= 1;
        }
    }

    /// Excludes messages to clients that have not returned: they could not be received.
    pub(super) fn give_up_on_the_absent(&mut self) {
        for pair in 0..self.plan.pairs {
            if self.conns[pair as usize * 2 + 1].state != State::Up {
                self.pairs[pair as usize].book.broke();
            }
        }
    }

    /// At the very end: what has not come is lost.
    pub(super) fn settle_accounts(&mut self) {
        for pair in &self.pairs {
            let missing = pair.book.missing();
            let known = missing.lost.min(pair.corrupted);
            self.tally.counters.lost += missing.lost - known;
            self.tally.counters.unsure += missing.unsure.saturating_sub(pair.corrupted - known);
        }
    }
}

//! The life cycle of a connection: connecting, up, broken, reconnecting.

use super::{
    ARRIVED, ASKED, AT_ONCE, Command, NEVER, SENDING, STREAMS, State, World,
    wire::{self, Fault, Head},
};
use crate::phases::Phase;
use crate::wheel::Tick;

/// Longest wait before another try, in seconds.
const BACKOFF_S_MAX: f64 = 8.0;

/// Connections closed in one turn at the end.
const CLOSES_PER_TURN: u32 = 1024;

/// What is kept of the sentence of a refusal.
const SENTENCE_BYTES_MAX: usize = 300;

impl World {
    /// Begins as many connections as the ramp's rate permits: returning clients first, then new
    /// ones.
    pub(super) fn begin_some(&mut self) {
        let scenario = &self.plan.scenario;
        let share = f64::from(self.clients()) / f64::from(scenario.clients());
        let per_s = scenario.ramp_per_s * share;
        let most = match scenario.under_way_max {
            0 => u64::MAX,
            most => ((f64::from(most) * share) as u64).max(1),
        };
        let passed_s = (self.now_ns - self.permits_at_ns) as f64 / 1e9;
        self.permits_at_ns = self.now_ns;
        self.permits = (self.permits + passed_s * per_s).min((per_s / 20.0).max(1.0));
        while self.permits >= 1.0 && self.beginning < most {
            let client = match self.returning.pop_front() {
                Some(client) => client,
                None if self.next < self.clients() && self.phase <= Phase::Hold && self.may_begin(self.next) => {
                    self.next += 1;
                    self.next - 1
                }
                None => return,
            };
            self.permits -= 1.0;
            if self.conn(client).state == State::Away {
                self.begin(client);
            }
        }
    }

    pub(super) fn begin(&mut self, client: u32) {
        let due = self.tick_in(self.plan.scenario.connect_s_max);
        let now_ms = self.now_ms();
        let conn = self.conn(client);
        conn.state = State::Begins;
        conn.since_ms = now_ms;
        conn.back = NEVER;
        conn.flags &= ARRIVED;
        self.beginning += 1;
        self.gauges.open += 1;
        self.set_timer(client, due);
        self.commands.push(Command::Connect(client));
    }

    pub(super) fn set_timer(&mut self, client: u32, due: Tick) {
        let due = self.wheel.set(client, due);
        self.conn(client).timer = due;
    }

    pub(super) fn timed_out(&mut self, client: u32) {
        let at_once = self.conn(client).has(AT_ONCE) || self.is_publisher(client);
        let state = self.conn(client).state;
        match state {
            State::Away if self.phase > Phase::Drain => {}
            State::Away if at_once => self.begin(client),
            State::Away => self.returning.push_back(client),
            State::Begins => self.broke(client, "connection: not up in time", None),
            State::Up if self.is_publisher(client) => {
                if self.conn(client).has(ASKED) {
                    self.broke(client, "publication: no answer in time", None);
                }
            }
            State::Up => self.watch(client),
            State::Closing => {}
        }
    }

    pub(super) fn connected(&mut self, client: u32) {
        if self.conn(client).state != State::Begins {
            return;
        }
        self.tally.counters.connects += 1;
        if self.is_publisher(client) { self.publisher_connected(client) } else { self.subscriber_connected(client) }
    }

    /// Marks the connection as up.
    pub(super) fn stands(&mut self, client: u32) {
        let now_ms = self.now_ms();
        let conn = self.conn(client);
        if conn.state != State::Begins {
            return;
        }
        let took_ms = now_ms.saturating_sub(conn.since_ms);
        (conn.state, conn.timer, conn.since_ms) = (State::Up, NEVER, now_ms);
        self.beginning -= 1;
        self.tally.begins.record(u64::from(took_ms) * 1000);
        self.tally.counters.logins += 1;
        self.gauges.up += 1;
        self.commands.push(Command::Favour(client));
    }

    /// It has done what it came for at least once.
    pub(super) fn arrives(&mut self, client: u32) {
        let conn = self.conn(client);
        conn.failures = 0;
        if !conn.has(ARRIVED) {
            conn.flags |= ARRIVED;
            self.gauges.arrived += 1;
        }
    }

    pub(super) fn received(&mut self, client: u32, bytes: &[u8]) {
        self.tally.counters.bytes_in += bytes.len() as u64;
        let now_ms = self.now_ms();
        if self.conn(client).state == State::Up {
            self.conn(client).since_ms = now_ms;
        }
        let mut held = self.partials.remove(&client);
        let all = match &mut held {
            Some(held) => {
                held.extend_from_slice(bytes);
                &held[..]
            }
            None => bytes,
        };
        let mut at = 0;
        while at < all.len() && matches!(self.conn(client).state, State::Begins | State::Up) {
            match self.step(client, &all[at..]) {
                Ok(0) => break,
                Ok(used) => at += used,
                Err(fault) => return self.broke(client, fault, None),
            }
        }
        if !matches!(self.conn(client).state, State::Begins | State::Up) || at == all.len() {
            return held.map_or((), |held| self.give_back(held));
        }
        let rest = match held {
            Some(mut held) => {
                held.drain(..at);
                held
            }
            None => {
                let mut rest = self.pool.pop().unwrap_or_default();
                rest.extend_from_slice(&bytes[at..]);
                rest
            }
        };
        self.partials.insert(client, rest);
    }

    /// Takes the next whole thing off what came, and says how many bytes it has; 0 if there is
    /// none.
    fn step(&mut self, client: u32, bytes: &[u8]) -> Result<usize, Fault> {
        if self.is_publisher(client) { self.publisher_step(client, bytes) } else { self.subscriber_step(client, bytes) }
    }

    /// Handles a refused request: a permanent failure ends the run, others are retried.
    pub(super) fn refused(&mut self, client: u32, what: &str, head: &Head<'_>, body: &[u8]) {
        if matches!(head.status, 400 | 401 | 403 | 404 | 405 | 413 | 414 | 426 | 501) {
            let body = &body[..body.len().min(SENTENCE_BYTES_MAX)];
            let sentence = String::from_utf8_lossy(body).trim().replace('\n', " ");
            self.broken.get_or_insert(format!("{what} is refused with {}: {sentence}", head.status));
        }
        let kind = format!("{what}: {}", head.status);
        self.broke(client, &kind, head.retry_after_s);
    }

    /// Counts an unexpected failure, and retries after at least `wait_s`.
    pub(super) fn broke(&mut self, client: u32, kind: &str, wait_s: Option<u32>) {
        let conn = self.conn(client);
        if !matches!(conn.state, State::Begins | State::Up) {
            return;
        }
        let was_up = conn.state == State::Up;
        conn.failures = conn.failures.saturating_add(1);
        let most_s = 2f64.powi(i32::from(conn.failures.min(10)) - 1).min(BACKOFF_S_MAX);
        let wait_s = f64::from(wait_s.unwrap_or(0)) + most_s * (0.5 + self.random.share() / 2.0);
        self.tally.counters.error(kind, 1);
        self.tally.counters.broken += u64::from(was_up);
        let back = self.tick_in(wait_s);
        self.close(client, back);
    }

    /// The server ends a connection as it may: the next one begins at once.
    pub(super) fn again(&mut self, client: u32) {
        let back = self.tick();
        self.close(client, back);
        self.conn(client).flags |= AT_ONCE;
    }

    /// The end of the peer's direction, or an error.
    pub(super) fn ended(&mut self, client: u32, errno: Option<i32>) {
        // An idle connection may be closed by the server: the next item to be published makes
        // another.
        if self.is_publisher(client) && self.conn(client).state == State::Up && !self.conn(client).has(ASKED) {
            return self.close(client, NEVER);
        }
        let kind = match errno {
            None => "connection: closed by the server".into(),
            Some(errno) => format!("connection: {}", std::io::Error::from_raw_os_error(errno).kind()),
        };
        self.broke(client, &kind, None);
    }

    /// The connection is reset, and made again at this time.
    pub(super) fn close(&mut self, client: u32, back: Tick) {
        let conn = self.conn(client);
        let before = conn.state;
        (conn.state, conn.timer, conn.back) = (State::Closing, NEVER, back);
        conn.flags &= ARRIVED;
        self.beginning -= u64::from(before == State::Begins);
        self.gauges.up -= u64::from(before == State::Up);
        for kept in [self.partials.remove(&client), self.outputs.remove(&client)].into_iter().flatten() {
            self.give_back(kept);
        }
        // With a reset, no port rests afterwards: what was to be received has been.
        self.commands.push(Command::Close { client, abort: true });
    }

    pub(super) fn closed(&mut self, client: u32) {
        self.gauges.open -= 1;
        let conn = self.conn(client);
        conn.state = State::Away;
        conn.flags &= !(SENDING | STREAMS | ASKED);
        let (back, at_once) = (conn.back, conn.has(AT_ONCE));
        if self.phase > Phase::Drain {
            return;
        }
        match back {
            NEVER if self.is_publisher(client) => self.publish(client),
            NEVER => {}
            _ if at_once => self.begin(client),
            _ => self.set_timer(client, back),
        }
    }

    /// At the end: closes some of the connections that are open; `next` counts down over all.
    pub(super) fn close_some(&mut self) {
        let mut closed = 0;
        while self.next > 0 && closed < CLOSES_PER_TURN {
            self.next -= 1;
            let client = self.next;
            if matches!(self.conn(client).state, State::Begins | State::Up) {
                self.close(client, NEVER);
                closed += 1;
            }
        }
    }

    /// The body of an answer that is refused, which may say nothing of its length; none if it is
    /// not whole.
    pub(super) fn refusal<'a>(bytes: &'a [u8], head: &Head<'a>) -> Option<&'a [u8]> {
        let length = head.length.unwrap_or(0).min(wire::WHOLE_BYTES_MAX);
        bytes.get(head.bytes..head.bytes + length)
    }
}

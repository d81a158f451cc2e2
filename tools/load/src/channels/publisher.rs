//! Publishers: items with numbers on each of their channels, one publication at a time, repeated with its key until it is
//! answered.
//!
//! A channel has one publisher, so its items have an order. The first item of a channel in a run has the number 0 and counts
//! for nobody: its answer says where the run begins.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::{ASKED, FAIR_NS, NEVER, State, World, scenario::Scenario, wire, wire::Fault};
use crate::delivery::Stamp;
use crate::phases::Phase;

/// Publications of a publisher that wait for the one before; further ones are counted as not sent.
const WAITING_MAX: usize = 1024;

/// A publication that has no answer yet.
#[derive(Clone, Copy, Debug)]
struct Pending {
    channel: u32,
    /// The number of its first item.
    first: u32,
    items: u32,
    /// When it was to be sent, since the run's start.
    due_ns: u64,
    is_sent: bool,
}

/// One connection's channels, and what it publishes there.
#[derive(Debug)]
pub(super) struct Publisher {
    /// Its channels: the first one, and how far apart they are.
    first: u32,
    apart: u32,
    /// The last number on each.
    numbers: Vec<u32>,
    /// How many of them have their first item.
    made: usize,
    /// Closed loop: whose turn it is.
    turn: usize,
    pending: Option<Pending>,
    /// Which channel, and when; at most [`WAITING_MAX`].
    waiting: VecDeque<(u32, u64)>,
}

impl Publisher {
    /// One of all publishers, by its number.
    pub(super) fn new(scenario: &Scenario, number: u32) -> Publisher {
        let apart = scenario.publishers;
        let channels = (scenario.channels - number).div_ceil(apart);
        Publisher {
            first: number,
            apart,
            numbers: vec![0; channels as usize],
            made: 0,
            turn: 0,
            pending: None,
            waiting: VecDeque::new(),
        }
    }

    fn channel(&self, index: usize) -> u32 {
        self.first + index as u32 * self.apart
    }

    /// Gives the items of the next publication their numbers.
    fn number(&mut self, index: usize, items: u32, due_ns: u64) -> Pending {
        let first = self.numbers[index] + 1;
        self.numbers[index] += items;
        Pending { channel: self.channel(index), first, items, due_ns, is_sent: false }
    }
}

impl World {
    /// How much of all that is published this worker publishes.
    fn publishing_share(&self) -> f64 {
        f64::from(self.plan.publishers.1) / f64::from(self.plan.scenario.publishers.max(1))
    }

    pub(super) fn begin_publishing(&mut self) {
        let (now_ns, seeds) = (self.now_ns, [self.random.next(), self.random.next()]);
        (self.arrivals, self.flaps) =
            (crate::random::Arrivals::new(now_ns, seeds[0]), crate::random::Arrivals::new(now_ns, seeds[1]));
        if self.plan.scenario.rate == 0.0 {
            (0..self.plan.publishers.1).for_each(|client| self.publish(client));
        }
    }

    /// What has not been sent by now is not sent.
    pub(super) fn end_publishing(&mut self) {
        let confirmed = self.plan.shared.channels.iter().map(|channel| channel.confirmed.load(Ordering::Acquire));
        self.judges = Some((self.now_ns + FAIR_NS, confirmed.collect()));
        for publisher in &mut self.publishers {
            let batch = u64::from(self.plan.scenario.batch);
            self.tally.counters.not_sent += batch * publisher.waiting.len() as u64;
            publisher.waiting.clear();
            let pending = publisher.pending.take_if(|pending| !pending.is_sent && pending.first > 0);
            self.tally.counters.not_sent += pending.map_or(0, |pending| u64::from(pending.items));
        }
    }

    /// Open loop: hands what is due to its publishers.
    pub(super) fn publish_due(&mut self) {
        let scenario = &self.plan.scenario;
        let (rate, batch) = (scenario.rate / f64::from(scenario.batch), u64::from(scenario.batch));
        let per_s = rate * self.publishing_share();
        if self.publishers.is_empty() {
            return;
        }
        while let Some(due_ns) = self.arrivals.due(self.now_ns, per_s) {
            let client = self.random.below(self.plan.publishers.1);
            let channels = self.publishers[client as usize].numbers.len() as u32;
            let index = self.random.below(channels);
            let publisher = &mut self.publishers[client as usize];
            if publisher.waiting.len() < WAITING_MAX {
                publisher.waiting.push_back((index, due_ns));
                self.publish(client);
            } else {
                self.tally.counters.not_sent += batch;
            }
        }
    }

    pub(super) fn publisher_connected(&mut self, client: u32) {
        self.stands(client);
        self.publish(client);
    }

    /// Publishes what is next, unless something is under way; makes a connection if there is none.
    pub(super) fn publish(&mut self, client: u32) {
        let (scenario, now_ns) = (self.plan.scenario.clone(), self.now_ns);
        let publisher = &mut self.publishers[client as usize];
        if publisher.pending.is_none() {
            let holds = self.phase == Phase::Hold;
            publisher.pending = if publisher.made < publisher.numbers.len() {
                let channel = publisher.channel(publisher.made);
                (self.phase <= Phase::Hold).then_some(Pending {
                    channel,
                    first: 0,
                    items: 1,
                    due_ns: now_ns,
                    is_sent: false,
                })
            } else if let Some((index, due_ns)) = publisher.waiting.pop_front().filter(|_| holds) {
                Some(publisher.number(index as usize, scenario.batch, due_ns))
            } else if holds && scenario.rate == 0.0 {
                publisher.turn = (publisher.turn + 1) % publisher.numbers.len();
                Some(publisher.number(publisher.turn, scenario.batch, now_ns))
            } else {
                None
            };
        }
        if publisher.pending.is_none() {
            return;
        }
        let conn = &self.conns[client as usize];
        match conn.state {
            State::Up if !conn.has(ASKED) => self.send_publication(client),
            State::Away if conn.back == NEVER && self.phase > Phase::Ramp => self.begin(client),
            _ => {}
        }
    }

    fn send_publication(&mut self, client: u32) {
        let (scenario, shared) = (self.plan.scenario.clone(), self.plan.shared.clone());
        let authorization = self.plan.authorization.clone();
        let now_ns = self.now_ns;
        let Some(pending) = self.publishers[client as usize].pending.as_mut() else { return };
        let is_first = !std::mem::replace(&mut pending.is_sent, true);
        let pending = *pending;
        let channel = &shared.channels[pending.channel as usize];
        if is_first && pending.first > 0 {
            channel.sent.store(pending.first + pending.items - 1, Ordering::Release);
            self.tally.counters.sent += u64::from(pending.items);
            if scenario.rate > 0.0 {
                self.tally.sent_late.record(now_ns.saturating_sub(pending.due_ns) / 1000);
            }
        }
        let is_batch = scenario.batch > 1 && pending.first > 0;
        let mut body = self.pool.pop().unwrap_or_default();
        for number in pending.first..pending.first + pending.items {
            let stamp = Stamp { run: shared.run, pair: pending.channel, number, sent_ns: pending.due_ns };
            let (end, quotes) = (body.len() + scenario.payload_bytes as usize, usize::from(is_batch));
            body.extend_from_slice(&b"\""[..quotes]);
            stamp.write(&mut body, end.saturating_sub(quotes));
            body.extend_from_slice(&b"\"\n"[..2 * quotes]);
        }
        let head = format!(
            "POST /n/{}{} HTTP/1.1\r\nHost: {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             Idempotency-Key: {}-{}-{}\r\n{authorization}\r\n",
            scenario.prefix,
            pending.channel,
            scenario.to,
            if is_batch { "application/x-ndjson" } else { "text/plain" },
            body.len(),
            shared.run,
            pending.channel,
            pending.first,
        );
        let out = self.output(client);
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&body);
        self.give_back(body);
        self.conn(client).flags |= ASKED;
        let due = self.tick_in(scenario.connect_s_max);
        self.set_timer(client, due);
    }

    pub(super) fn publisher_step(&mut self, client: u32, bytes: &[u8]) -> Result<usize, Fault> {
        if !self.conn(client).has(ASKED) {
            // A server that has waited too long for the next request says so (408).
            self.close(client, NEVER);
            return Ok(0);
        }
        let Some((head, body)) = wire::answer(bytes)? else { return Ok(0) };
        let used = head.bytes + body.len();
        if head.status != 200 {
            self.refused(client, "a publication", &head, body);
            return Ok(used);
        }
        let answer: wire::Published<'_> = wire::json(body).ok_or("publication: an answer that cannot be read")?;
        let Some(pending) = self.publishers[client as usize].pending else { return Ok(used) };
        let mut numbers = answer.id.iter().chain(&answer.ids).map(|number| number.parse::<u64>());
        let (Some(Ok(first)), count) = (numbers.next(), answer.ids.len().max(1)) else {
            return Err("publication: an answer that cannot be read");
        };
        if count != pending.items as usize {
            return Err("publication: an answer with another number of items");
        }
        self.tally.counters.repeated += u64::from(answer.repeated);
        self.published(client, pending, first);
        if head.closes {
            self.again(client)
        } else {
            self.publish(client)
        }
        Ok(used)
    }

    fn published(&mut self, client: u32, pending: Pending, number: u64) {
        let channel = &self.plan.shared.channels[pending.channel as usize];
        let publisher = &mut self.publishers[client as usize];
        publisher.pending = None;
        self.confirmed_ns = self.now_ns;
        if pending.first == 0 {
            channel.base.store(number.saturating_add(1), Ordering::Release);
            publisher.made += 1;
        } else {
            channel.confirmed.store(pending.first + pending.items - 1, Ordering::Release);
            self.tally.counters.confirmed += u64::from(pending.items);
            self.tally.answers.record(self.now_ns.saturating_sub(pending.due_ns) / 1000);
        }
        let conn = &mut self.conns[client as usize];
        conn.flags &= !ASKED;
        conn.timer = NEVER;
        if publisher.made == publisher.numbers.len() {
            self.arrives(client);
        }
        self.conn(client).failures = 0;
    }

    /// Publications without an answer; and one more for a moment after the last answer, since others do not know yet what it
    /// has confirmed.
    pub(super) fn unanswered(&self) -> u64 {
        const MOMENT_NS: u64 = 600_000_000;
        let recent = self.confirmed_ns > 0 && self.now_ns < self.confirmed_ns + MOMENT_NS;
        let pending = self.publishers.iter().filter(|publisher| publisher.pending.is_some()).count();
        pending as u64 + u64::from(recent)
    }
}

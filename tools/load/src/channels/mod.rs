//! Subscribers of channels at `/n/` in great number, and publishers: `throng load channels`.
//!
//! ```text
//! command -> scenario
//!         -> control ──phase──> workers (threads)
//!                ^                 │ World: connections, publishers, subscribers (wire, place)
//!                └────samples──────┘ driver: io_uring or epoll
//!         -> report
//! ```
//!
//! [`World`] is pure: events, the time and the phase go in; commands and bytes come out. An idle
//! subscriber costs a [`Conn`], a [`Place`] for each of its channels and its driver's slot, and
//! nothing on the heap. Workers share what they know of each channel: which items are published,
//! and which are confirmed.

mod command;
mod connection;
mod place;
mod publisher;
mod report;
mod scenario;
mod subscriber;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use command::{command, run};

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::driver::{self, Driver, Event};
use crate::figures::{Counters, Gauges, Sample};
use crate::histogram::Times;
use crate::phases::Phase;
use crate::random::{Arrivals, Random};
use crate::wheel::{TICK_MS, Tick, Wheel};
use place::Place;
use publisher::Publisher;
use scenario::{By, Scenario};

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// Time in which an item that is confirmed at the end of the hold comes to all who are served.
const FAIR_NS: u64 = 1_000_000_000;

/// Never.
const NEVER: Tick = Tick::MAX;

/// Emptied buffers kept for the next sends, and how large one may be.
const POOL_MAX: usize = 256;
const POOL_BYTES_MAX: usize = 128 << 10;

/// The state of a channel that all workers share.
#[derive(Debug, Default)]
struct Channel {
    /// The server's number of the item before the run's first, plus one; 0 while unknown.
    base: AtomicU64,
    /// The highest number that was published.
    sent: AtomicU32,
    /// The highest number of which the publication was answered.
    confirmed: AtomicU32,
}

/// How evenly subscribers are served: of the items confirmed by the end of the hold, the part that
/// each has received shortly afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fairness {
    /// Subscribers of channels with items.
    subscribers: u64,
    /// Items that they got.
    received: u64,
    /// Items that one of them got at least.
    received_min: u64,
    /// The part of the items of its channels that each got, added up.
    shares: f64,
    /// The smallest of these parts.
    share_min: f64,
}

impl Default for Fairness {
    fn default() -> Fairness {
        Fairness { subscribers: 0, received: 0, received_min: u64::MAX, shares: 0.0, share_min: 1.0 }
    }
}

impl Fairness {
    /// One more subscriber.
    fn count(&mut self, received: u64, of: u64) {
        let share = received as f64 / of as f64;
        self.subscribers += 1;
        self.received += received;
        self.received_min = self.received_min.min(received);
        self.shares += share;
        self.share_min = self.share_min.min(share);
    }

    fn add(&mut self, other: &Fairness) {
        self.subscribers += other.subscribers;
        self.received += other.received;
        self.received_min = self.received_min.min(other.received_min);
        self.shares += other.shares;
        self.share_min = self.share_min.min(other.share_min);
    }
}

/// What all workers share.
#[derive(Debug)]
struct Shared {
    start: Instant,
    /// The run's own number.
    run: u32,
    channels: Vec<Channel>,
    fairness: Mutex<Fairness>,
}

/// What a worker is to do.
#[derive(Clone, Debug)]
struct Plan {
    /// Its number.
    worker: u32,
    scenario: Arc<Scenario>,
    shared: Arc<Shared>,
    /// Header lines of publishers beside the usual ones.
    authorization: Arc<str>,
    /// Its publishers: the first one's number among all, and how many.
    publishers: (u32, u32),
    /// Its subscribers, likewise.
    subscribers: (u32, u32),
    driver: driver::Kind,
    sockets: driver::Settings,
    /// Memory of the process before its first client, in bytes, for the one worker that tells how
    /// it has grown.
    memory_before: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No connection; its timer, or the queue of those who return, begins the next.
    Away,
    /// Connecting, or waiting for the head of the answer.
    Begins,
    /// The subscriber waits for items; the publisher may publish.
    Up,
    /// The driver closes.
    Closing,
}

/// It has been up.
const ARRIVED: u8 = 1;
/// A send is in flight.
const SENDING: u8 = 1 << 1;
/// What comes are events or frames.
const STREAMS: u8 = 1 << 2;
/// A publication waits for its answer.
const ASKED: u8 = 1 << 3;
/// It comes back past the queue.
const AT_ONCE: u8 = 1 << 4;

/// A connection: of a publisher, or of a subscriber.
struct Conn {
    /// When it began to connect, or when something came last, in milliseconds since the start.
    since_ms: u32,
    /// What the wheel's entry has to say to be meant.
    timer: Tick,
    /// When it connects again after the close, or [`NEVER`].
    back: Tick,
    state: State,
    flags: u8,
    /// Failures in a row.
    failures: u8,
    by: By,
}

const _: () =
    assert!(size_of::<Conn>() <= 16, "an idle subscriber costs this much, 16 bytes a channel and the driver's 8");

impl Conn {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// What the driver is asked for, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Command {
    Connect(u32),
    Close { client: u32, abort: bool },
    Favour(u32),
}

/// What has been counted since the last sample.
struct Tally {
    counters: Counters,
    latency: Times,
    begins: Times,
    answers: Times,
    sent_late: Times,
}

/// See the module. Its clients are the publishers, and behind them the subscribers.
struct World {
    plan: Plan,
    conns: Vec<Conn>,
    /// Of each subscriber as many as it has channels.
    places: Vec<Place>,
    publishers: Vec<Publisher>,
    wheel: Wheel,
    due: Vec<(u32, Tick)>,
    /// What has come of something that is not whole; only of those of which something has.
    partials: HashMap<u32, Vec<u8>>,
    /// What is to be sent.
    outputs: HashMap<u32, Vec<u8>>,
    /// Clients with output; some perhaps twice.
    dirty: Vec<u32>,
    pool: Vec<Vec<u8>>,
    commands: Vec<Command>,
    /// Subscribers whose time to return has come; bounded by the subscribers.
    returning: VecDeque<u32>,
    /// Connections that may begin, by the ramp's rate.
    permits: f64,
    permits_at_ns: u64,
    /// Clients in [`State::Begins`].
    beginning: u64,
    /// The next client that has never been begun.
    next: u32,
    tally: Tally,
    gauges: Gauges,
    phase: Phase,
    now_ns: u64,
    /// When a publication was answered last.
    confirmed_ns: u64,
    is_settled: bool,
    random: Random,
    arrivals: Arrivals,
    /// When it is judged how evenly subscribers are served, and what of each channel had been
    /// confirmed at the end of the hold.
    judges: Option<(u64, Vec<u32>)>,
    flaps: Arrivals,
    /// Why nothing can go on.
    broken: Option<String>,
}

impl World {
    fn new(plan: Plan) -> World {
        let scenario = &plan.scenario;
        let mut random = Random::new(scenario.seed ^ u64::from(plan.worker) << 32);
        let conn = |by| Conn { since_ms: 0, timer: NEVER, back: NEVER, state: State::Away, flags: 0, failures: 0, by };
        let ways = |n: u32| scenario.by.way(Random::new(scenario.seed ^ u64::from(plan.subscribers.0 + n)).next());
        let mut conns = Vec::with_capacity((plan.publishers.1 + plan.subscribers.1) as usize);
        conns.extend((0..plan.publishers.1).map(|_| conn(By::Poll)));
        conns.extend((0..plan.subscribers.1).map(|n| conn(ways(n))));
        World {
            conns,
            places: vec![Place::default(); (plan.subscribers.1 * scenario.channels_each) as usize],
            publishers: (0..plan.publishers.1).map(|n| Publisher::new(scenario, plan.publishers.0 + n)).collect(),
            wheel: Wheel::new(),
            due: Vec::new(),
            partials: HashMap::new(),
            outputs: HashMap::new(),
            dirty: Vec::new(),
            pool: Vec::new(),
            commands: Vec::new(),
            returning: VecDeque::new(),
            permits: 0.0,
            permits_at_ns: 0,
            beginning: 0,
            next: 0,
            tally: Tally {
                counters: Counters::default(),
                latency: Times::new(),
                begins: Times::new(),
                answers: Times::new(),
                sent_late: Times::new(),
            },
            gauges: Gauges::default(),
            phase: Phase::Ramp,
            now_ns: 0,
            confirmed_ns: 0,
            is_settled: false,
            arrivals: Arrivals::new(0, random.next()),
            judges: None,
            flaps: Arrivals::new(0, random.next()),
            random,
            broken: None,
            plan,
        }
    }

    fn tick(&self) -> Tick {
        (self.now_ns / 1_000_000) as Tick / TICK_MS
    }

    /// The tick in so many seconds.
    fn tick_in(&self, seconds: f64) -> Tick {
        self.tick().saturating_add((seconds * 1000.0 / f64::from(TICK_MS)).ceil() as Tick).min(NEVER - 1)
    }

    fn now_ms(&self) -> u32 {
        (self.now_ns / 1_000_000) as u32
    }

    fn conn(&mut self, client: u32) -> &mut Conn {
        &mut self.conns[client as usize]
    }

    fn is_publisher(&self, client: u32) -> bool {
        client < self.plan.publishers.1
    }

    fn clients(&self) -> u32 {
        self.conns.len() as u32
    }

    /// Time and phase go on.
    fn advance(&mut self, now_ns: u64, phase: Phase) {
        self.now_ns = now_ns;
        if phase != self.phase {
            self.phase = phase;
            match phase {
                Phase::Hold => self.begin_publishing(),
                Phase::Drain => self.end_publishing(),
                _ => {}
            }
            if phase >= Phase::Close {
                self.judge_fairness(u64::MAX);
                self.settle();
                self.next = self.clients();
            }
        }
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(self.tick(), &mut due);
        for (client, tick) in due.drain(..) {
            if self.conn(client).timer == tick {
                self.conn(client).timer = NEVER;
                self.timed_out(client);
            }
        }
        self.due = due;
        self.judge_fairness(now_ns);
        match phase {
            Phase::Ramp | Phase::Drain => self.begin_some(),
            Phase::Hold => {
                self.begin_some();
                self.flap();
                self.publish_due();
            }
            Phase::Close | Phase::Over => self.close_some(),
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Connected(client) => self.connected(client),
            Event::Received(client, bytes) => self.received(client, bytes),
            Event::Sent(client, buffer) => {
                self.conn(client).flags &= !SENDING;
                self.give_back(buffer);
                if self.outputs.contains_key(&client) {
                    self.dirty.push(client);
                }
            }
            Event::Ended(client, errno) => self.ended(client, errno),
            Event::Closed(client) => self.closed(client),
        }
    }

    /// Carries out what was decided.
    fn flush(&mut self, driver: &mut dyn Driver) {
        for command in std::mem::take(&mut self.commands) {
            match command {
                Command::Connect(client) => {
                    let number = self.plan.publishers.0 + self.plan.subscribers.0 + client;
                    driver.connect(client, number as usize);
                }
                Command::Close { client, abort } => driver.close(client, abort),
                Command::Favour(client) => driver.favour(client),
            }
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for client in dirty.drain(..) {
            let conn = &mut self.conns[client as usize];
            if !matches!(conn.state, State::Begins | State::Up) || conn.has(SENDING) {
                continue;
            }
            let Some(bytes) = self.outputs.remove(&client) else { continue };
            conn.flags |= SENDING;
            self.tally.counters.bytes_out += bytes.len() as u64;
            driver.send(client, bytes);
        }
        self.dirty = dirty;
    }

    /// Where a client writes what it sends next.
    fn output(&mut self, client: u32) -> &mut Vec<u8> {
        self.dirty.push(client);
        let pool = &mut self.pool;
        self.outputs.entry(client).or_insert_with(|| pool.pop().unwrap_or_default())
    }

    fn give_back(&mut self, mut buffer: Vec<u8>) {
        if self.pool.len() < POOL_MAX && (1..=POOL_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.pool.push(buffer);
        }
    }

    /// How long there is nothing to do.
    fn idle(&self) -> Duration {
        let tick = Duration::from_millis(u64::from(TICK_MS));
        match self.phase {
            Phase::Hold => Duration::from_nanos(self.arrivals.next_ns().saturating_sub(self.now_ns)).min(tick),
            _ => tick,
        }
    }

    fn sample(&mut self) -> Sample {
        let drains = self.phase >= Phase::Drain;
        if drains {
            self.gauges.outstanding = self.outstanding();
        }
        Sample {
            worker: self.plan.worker,
            counters: std::mem::take(&mut self.tally.counters),
            gauges: Gauges { drains: u64::from(drains), ..self.gauges },
            latency: self.tally.latency.take(),
            logins: self.tally.begins.take(),
            answers: self.tally.answers.take(),
            sent_late: self.tally.sent_late.take(),
            ..Sample::default()
        }
    }
}

/// Runs a worker until the phase is over or all of its clients are gone. Samples go to `tell`
/// several times a second; the last one says so.
fn work(plan: Plan, phase: &AtomicU8, tell: &mut dyn FnMut(Sample)) {
    let worker = plan.worker;
    if let Err(why) = work_on(plan, phase, tell) {
        tell(Sample { worker, over: true, broken: Some(why), ..Sample::default() });
    }
}

fn work_on(plan: Plan, phase: &AtomicU8, tell: &mut dyn FnMut(Sample)) -> Result<(), String> {
    let (memory_before, start) = (plan.memory_before, plan.shared.start);
    let failed = |error: io::Error| error.to_string();
    let mut driver = driver::open(plan.driver, &plan.sockets).map_err(failed)?;
    let mut world = World::new(plan);
    let (mut sampled, mut cpu_us) = (Instant::now(), crate::proc::thread_cpu_us());
    loop {
        let now_ns = start.elapsed().as_nanos() as u64;
        world.advance(now_ns, Phase::of(phase.load(Ordering::Acquire)));
        world.flush(&mut *driver);
        if let Some(why) = world.broken.take() {
            return Err(why);
        }
        let over = world.phase == Phase::Over || world.phase == Phase::Close && world.gauges.open == 0;
        if over || sampled.elapsed() >= SAMPLE_EVERY {
            sampled = Instant::now();
            if let Some(before) = memory_before.filter(|_| world.phase == Phase::Hold && world.gauges.grown_bytes == 0)
            {
                world.gauges.grown_bytes = crate::proc::own_memory_bytes().saturating_sub(before);
            }
            let used = crate::proc::thread_cpu_us();
            let sample = Sample { cpu_us: used.saturating_sub(cpu_us), over, ..world.sample() };
            cpu_us = used;
            tell(sample);
            if over {
                return Ok(());
            }
        }
        driver
            .wait(world.idle(), &mut |event| {
                // Times count to when the bytes were read, not to when this turn began.
                world.now_ns = start.elapsed().as_nanos() as u64;
                world.event(event);
            })
            .map_err(failed)?;
        world.flush(&mut *driver);
    }
}

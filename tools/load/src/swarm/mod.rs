//! One worker: many clients on one thread and one driver.
//!
//! ```text
//! driver.wait ──events──> World (clients, pairs, times) ──commands, output──> driver
//! ```
//!
//! [`World`] is pure but for TLS and SASL: events, the time and the phase go in; commands and bytes come out. So that very
//! many idle clients fit, one costs a [`Conn`], its driver's slot and nothing on the heap.

mod asking;
mod disturb;
mod life;
mod pairs;
mod rooms;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant, SystemTime};

use throng_engine::wire::Scanner;
use throng_tls::client::{Terms, TlsClient};

use crate::accounts::Accounts;
use crate::client::{Client, Profile};
use crate::driver::{self, Driver, Event};
use crate::figures::{Counters, Gauges, Sample};
use crate::framing::Target;
use crate::histogram::Times;
use crate::phases::Phase;
use crate::random::{Arrivals, Random};
use crate::scenario::{Scenario, Transport};
use crate::websocket::WebSocket;
use crate::wheel::{TICK_MS, Tick, Wheel};

/// Between two samples.
pub(crate) const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// Never.
const NEVER: Tick = Tick::MAX;

/// Emptied buffers kept for the next sends.
const POOL_MAX: usize = 256;

/// What a worker is to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Its number.
    pub(crate) worker: u32,
    /// Of all workers.
    pub(crate) scenario: Arc<Scenario>,
    /// Who they are.
    pub(crate) accounts: Arc<Accounts>,
    /// Of all clients.
    pub(crate) profile: Profile,
    /// TLS, if there is any.
    pub(crate) tls: Option<Terms>,
    /// Number of its first account.
    pub(crate) first: u32,
    /// Its clients.
    pub(crate) clients: u32,
    /// Its pairs: of its clients the first two are the first one, and so on.
    pub(crate) pairs: u32,
    /// Number of its first pair.
    pub(crate) first_pair: u32,
    /// The run's own number.
    pub(crate) run: u32,
    /// Which driver.
    pub(crate) driver: driver::Kind,
    /// Its sockets.
    pub(crate) sockets: driver::Settings,
    /// Where it is asked for a WebSocket or BOSH.
    pub(crate) target: Target,
    /// Memory of the process before its first client, in bytes, for the one worker that tells how it has grown.
    pub(crate) memory_before: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// No connection; its timer, or the queue of those who return, begins the next.
    Away,
    /// Connecting or logging in.
    Login,
    /// The session stands.
    Up,
    /// The stream is closed on this side.
    Leaving,
    /// The driver closes.
    Closing,
}

/// Has had a session.
const ARRIVED: u8 = 1;
/// A send is in flight.
const SENDING: u8 = 1 << 1;
/// In the list of those with output.
const DIRTY: u8 = 1 << 2;
/// Stays only shortly.
const SHORT: u8 = 1 << 3;
/// Has given up.
const HOPELESS: u8 = 1 << 4;
/// Comes back when its time has come, past the queue.
const AT_ONCE: u8 = 1 << 5;

struct Conn {
    client: Client,
    /// What is to be said, before TLS.
    output: Vec<u8>,
    tls: Option<Box<TlsClient>>,
    /// When it began to connect, in milliseconds since the start.
    began_ms: u32,
    /// What the wheel's entry has to say to be meant.
    timer: Tick,
    /// When it connects again after the close, or [`NEVER`].
    back: Tick,
    state: State,
    flags: u8,
    /// Failures in a row.
    failures: u8,
}

const _: () = assert!(size_of::<Conn>() <= 96, "an idle client costs this much, and eight bytes of the driver's");
const _: () = assert!(size_of::<TlsClient>() <= 248, "over TLS an idle client costs this much more");

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
    Pause(u32),
    Resume(u32),
    Favour(u32),
}

/// What has been counted since the last sample.
struct Tally {
    counters: Counters,
    latency: Times,
    /// Of the latency, what came after a storm to pairs that it has spared.
    stayed: Times,
    logins: Times,
    /// How long after its time each message of the open loop was sent.
    sent_late: Times,
}

/// See the module.
struct World {
    plan: Plan,
    conns: Vec<Conn>,
    /// Of each client, where WebSockets carry the streams; otherwise empty.
    sockets: Vec<WebSocket>,
    /// Of each client, where BOSH carries them; otherwise empty.
    talks: Vec<asking::Talk>,
    /// For what is around what clients hear.
    outer: Scanner,
    pairs: Vec<pairs::Pair>,
    wheel: Wheel,
    due: Vec<(u32, Tick)>,
    scanner: Scanner,
    plaintext: Vec<u8>,
    /// What was read of a client over TLS, to be decrypted where it lies.
    records: Vec<u8>,
    pool: Vec<Vec<u8>>,
    /// Clients with output; at most once each.
    dirty: Vec<u32>,
    commands: Vec<Command>,
    /// Clients whose time to return has come; bounded by the clients.
    returning: VecDeque<u32>,
    /// Logins that may begin, by the ramp's rate.
    permits: f64,
    permits_at_ns: u64,
    /// Clients in [`State::Login`].
    logging_in: u64,
    /// The next client that has never been begun.
    next: u32,
    tally: Tally,
    gauges: Gauges,
    phase: Phase,
    /// When the hold began.
    hold_ns: u64,
    now_ns: u64,
    random: Random,
    chat: pairs::Chat,
    rooms: rooms::Rooms,
    /// When this worker began, in nanoseconds since 1970.
    epoch_ns: u64,
    disturbances: disturb::Disturbances,
}

impl World {
    fn new(plan: Plan) -> World {
        let mut random = Random::new(plan.scenario.seed ^ u64::from(plan.worker) << 32);
        let mut conns = Vec::with_capacity(plan.clients as usize);
        for _ in 0..plan.clients {
            let short = random.share() < plan.scenario.short_share;
            conns.push(Conn {
                client: Client::default(),
                output: Vec::new(),
                tls: None,
                began_ms: 0,
                timer: NEVER,
                back: NEVER,
                state: State::Away,
                flags: if short { SHORT } else { 0 },
                failures: 0,
            });
        }
        let of_each = |transport| if plan.scenario.transport == transport { plan.clients as usize } else { 0 };
        World {
            conns,
            sockets: (0..of_each(Transport::WebSocket)).map(|_| WebSocket::default()).collect(),
            talks: (0..of_each(Transport::Bosh)).map(|_| asking::Talk::default()).collect(),
            outer: Scanner::new(),
            pairs: (0..plan.pairs).map(|_| pairs::Pair::default()).collect(),
            wheel: Wheel::new(),
            due: Vec::new(),
            scanner: Scanner::new(),
            plaintext: Vec::new(),
            records: Vec::new(),
            pool: Vec::new(),
            dirty: Vec::new(),
            commands: Vec::new(),
            returning: VecDeque::new(),
            permits: 0.0,
            permits_at_ns: 0,
            logging_in: 0,
            next: 0,
            tally: Tally {
                counters: Counters::default(),
                latency: Times::new(),
                stayed: Times::new(),
                logins: Times::new(),
                sent_late: Times::new(),
            },
            gauges: Gauges::default(),
            phase: Phase::Ramp,
            hold_ns: 0,
            now_ns: 0,
            chat: pairs::Chat::new(random.next()),
            rooms: rooms::Rooms::new(&plan.scenario, plan.first, plan.clients, random.next()),
            epoch_ns: 0,
            disturbances: disturb::Disturbances::new(random.next()),
            random,
            plan,
        }
    }

    fn conn(&mut self, client: u32) -> &mut Conn {
        &mut self.conns[client as usize]
    }

    fn tick(&self) -> Tick {
        (self.now_ns / 1_000_000) as Tick / TICK_MS
    }

    /// The tick in so many seconds.
    fn tick_in(&self, seconds: f64) -> Tick {
        self.tick().saturating_add((seconds * 1000.0 / f64::from(TICK_MS)).ceil() as Tick).min(NEVER - 1)
    }

    fn set_timer(&mut self, client: u32, due: Tick) {
        let due = self.wheel.set(client, due);
        self.conn(client).timer = due;
    }

    fn mark(&mut self, client: u32) {
        let conn = self.conn(client);
        if !conn.has(DIRTY) {
            conn.flags |= DIRTY;
            self.dirty.push(client);
        }
    }

    /// How much of the whole this worker's clients are.
    fn share(&self) -> f64 {
        f64::from(self.plan.clients) / f64::from(self.plan.scenario.sessions)
    }

    /// Time and phase go on.
    fn advance(&mut self, now_ns: u64, phase: Phase) {
        self.now_ns = now_ns;
        if phase != self.phase {
            self.phase = phase;
            match phase {
                Phase::Hold => {
                    self.hold_ns = now_ns;
                    self.begin_chat();
                    self.begin_rooms();
                    self.begin_disturbances();
                }
                Phase::Drain => self.end_stalls(),
                Phase::Close => self.give_up_on_the_absent(),
                _ => {}
            }
        }
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(self.tick(), &mut due);
        for (client, tick) in due.drain(..) {
            if client >= self.plan.clients {
                self.talk_due(client - self.plan.clients, tick);
            } else if self.conn(client).timer == tick {
                self.conn(client).timer = NEVER;
                self.timed_out(client);
            }
        }
        self.due = due;
        match phase {
            Phase::Ramp => {
                self.begin_some();
                self.enter_again();
            }
            Phase::Hold => {
                self.begin_some();
                self.disturb();
                self.chat();
                if self.has_rooms() {
                    self.enter_again();
                    self.talk_in_rooms();
                }
            }
            // What waits for those who are away comes when they return.
            Phase::Drain => self.begin_some(),
            Phase::Close | Phase::Over => self.close_some(),
        }
    }

    fn event(&mut self, event: Event<'_>) {
        if self.asks() {
            return self.asking_event(event);
        }
        match event {
            Event::Connected(client) => self.connected(client),
            Event::Received(client, bytes) => self.received(client, bytes),
            Event::Sent(client, buffer) => {
                self.conn(client).flags &= !SENDING;
                self.give_back(buffer);
                let raw = self.sockets.get(client as usize).is_some_and(WebSocket::has_raw);
                let conn = self.conn(client);
                if raw || !conn.output.is_empty() || conn.tls.as_ref().is_some_and(|tls| tls.wants_send()) {
                    self.mark(client);
                }
            }
            Event::Ended(client, errno) => self.ended(client, errno),
            Event::Closed(client) => self.closed(client),
        }
    }

    fn give_back(&mut self, buffer: Vec<u8>) {
        if self.pool.len() < POOL_MAX && buffer.capacity() <= 64 << 10 {
            self.pool.push(buffer);
        }
    }

    /// Asks the driver for something that concerns all that a client reads.
    fn command(&mut self, client: u32, command: fn(u32) -> Command) {
        if self.asks() { self.command_lines(client, command) } else { self.commands.push(command(client)) }
    }

    /// Carries out what was decided.
    fn flush(&mut self, driver: &mut dyn Driver) {
        for command in std::mem::take(&mut self.commands) {
            match command {
                Command::Connect(client) => driver.connect(client, (self.plan.first + client) as usize),
                Command::Close { client, abort } => driver.close(client, abort),
                Command::Pause(client) => driver.pause(client),
                Command::Resume(client) => driver.resume(client),
                Command::Favour(client) => driver.favour(client),
            }
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for client in dirty.drain(..) {
            let conn = self.conn(client);
            conn.flags &= !DIRTY;
            if conn.has(SENDING) || !matches!(conn.state, State::Login | State::Up | State::Leaving) {
                continue;
            }
            if self.asks() {
                self.ask(client, driver)
            } else {
                self.say(client, driver)
            }
            // An idle client keeps no buffer.
            let output = &mut self.conns[client as usize].output;
            if output.is_empty() && output.capacity() > 0 {
                let buffer = std::mem::take(output);
                self.give_back(buffer);
            }
        }
        self.dirty = dirty;
    }

    /// Sends what a client has to say on its one connection.
    fn say(&mut self, client: u32, driver: &mut dyn Driver) {
        let conn = &mut self.conns[client as usize];
        let mut framed = None;
        if let Some(socket) = self.sockets.get_mut(client as usize) {
            let mut out = self.pool.pop().unwrap_or_default();
            socket.take(&self.plan.target, &mut conn.output, &mut self.scanner, &mut out);
            framed = Some(out);
        }
        let bytes = match conn.tls.as_mut() {
            None => framed.unwrap_or_else(|| std::mem::replace(&mut conn.output, self.pool.pop().unwrap_or_default())),
            Some(tls) => {
                let mut records = self.pool.pop().unwrap_or_default();
                // What is wrong with it shows on receiving.
                let _ = tls.send(framed.as_mut().unwrap_or(&mut conn.output), &mut records);
                // Before the end of the handshake it is left as it is.
                if let Some(rest) = framed.filter(|rest| !rest.is_empty()) {
                    self.sockets[client as usize].put_back(&rest);
                }
                records
            }
        };
        if !bytes.is_empty() {
            self.tally.counters.bytes_out += bytes.len() as u64;
            self.conn(client).flags |= SENDING;
            driver.send(client, bytes);
        }
    }

    /// How long there is nothing to do.
    fn idle(&self) -> Duration {
        let tick = Duration::from_millis(u64::from(TICK_MS));
        match self.phase {
            Phase::Hold => self.next_message_in().min(self.next_in_rooms_in()).min(tick),
            _ => tick,
        }
    }

    fn sample(&mut self) -> Sample {
        Sample {
            worker: self.plan.worker,
            counters: std::mem::take(&mut self.tally.counters),
            gauges: Gauges { drains: u64::from(self.phase >= Phase::Drain), ..self.gauges },
            latency: self.tally.latency.take(),
            stayed: self.tally.stayed.take(),
            logins: self.tally.logins.take(),
            sent_late: self.tally.sent_late.take(),
            ..Sample::default()
        }
    }
}

/// Runs a worker until the phase is over or all of its clients are gone. Samples go to `tell` several times a second; the
/// last one says so.
pub(crate) fn run(plan: Plan, phase: &AtomicU8, tell: &mut dyn FnMut(Sample)) {
    let worker = plan.worker;
    if let Err(error) = work(plan, phase, tell) {
        tell(Sample { worker, over: true, broken: Some(error.to_string()), ..Sample::default() });
    }
}

fn work(plan: Plan, phase: &AtomicU8, tell: &mut dyn FnMut(Sample)) -> io::Result<()> {
    let memory_before = plan.memory_before;
    let mut driver = driver::open(plan.driver, &plan.sockets)?;
    let mut world = World::new(plan);
    let start = Instant::now();
    world.epoch_ns =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let (mut sampled, mut cpu_us) = (start, crate::proc::thread_cpu_us());
    loop {
        let now_ns = start.elapsed().as_nanos() as u64;
        world.advance(now_ns, Phase::of(phase.load(Ordering::Acquire)));
        world.flush(&mut *driver);
        let over = world.phase == Phase::Over || world.phase == Phase::Close && world.gauges.open == 0;
        if over || sampled.elapsed() >= SAMPLE_EVERY {
            sampled = Instant::now();
            if over {
                world.settle_accounts();
            }
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
        driver.wait(world.idle(), &mut |event| {
            // Latency counts to when the bytes were read, not to when this turn began.
            world.now_ns = start.elapsed().as_nanos() as u64;
            world.event(event);
        })?;
        world.flush(&mut *driver);
    }
}

/// When a schedule says nothing.
fn until(arrivals: &Arrivals, now_ns: u64) -> Duration {
    Duration::from_nanos(arrivals.next_ns().saturating_sub(now_ns))
}

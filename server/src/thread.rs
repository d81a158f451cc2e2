//! One shard's thread: wait, handle, flush.
//!
//! ```text
//! driver events, letters, answers of the store, finished jobs, commands
//!        └──> shard.handle(now, input, &mut output) ... EndOfTurn
//!                 writes ──> committer (one ticket a turn)      letters ──> rings, at once, with the gate
//!                 sends, closes, moves, reads, replies ──> gate queue ──> out, once durable
//! ```
//!
//! This module knows the order of a turn and nothing of what is said.

mod clients;
mod ending;
mod front;
mod tuning;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use throng_engine::gate::GateQueue;
use throng_engine::id::{ConnId, Gate, Now, ShardId};
use throng_engine::io::{
    BacklogRow, ClientCertificate, Command, Effect, Input, ListenerKind, Lost, Output, Reply, StorageState, TlsFacts,
};
use throng_engine::session::moved::Moved;
use throng_engine::shard::Shard;
use throng_engine::store::Table;

use crate::bytestreams::ActivationPort;
use crate::disk::{self, ReadPort, ReadRequest, Submitter};
use crate::driver::{Cause, Close, Driver, Event, Peer};
use crate::extauth::{AskPort, Said, What};
use crate::jobs::JobPort;
use crate::letters::{Envelope, LetterRings, MovedLink};
use crate::links::Links;
use crate::orders::OrderPort;
use crate::tls::{ClientNames, TlsConnection, TlsEntries};
use crate::waits::{self, Place};
use crate::webpush::PushPort;
use clients::streams;
pub use clients::{Client, Stream};
pub use ending::{Ending, Report, Stage};
use front::{Fronted, Head};
pub use tuning::Tuning;

/// Sleep while letters wait for room in another shard's ring and nothing is received any more.
const SLEEP_LETTERS_KEPT: Duration = Duration::from_millis(1);
/// Sleep while jobs wait for room in the queue that all shards share, so that no answer of the own may be on its way.
const SLEEP_JOBS_KEPT: Duration = Duration::from_millis(5);
/// Least time between two lines of the log that say that accepting stands still, milliseconds.
const PAUSE_TOLD_EVERY_MS: u64 = 10_000;
/// Connections of which what is needed next is fetched together: as much as the processor's nearest memory holds with what else is needed.
const FETCHED_AT_ONCE: usize = 64;

/// A listener, as those who come in by it are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entrance {
    /// For the shard.
    pub kind: ListenerKind,
    /// Each connection begins with a header of the PROXY protocol.
    pub proxied: bool,
    /// Components connect here (XEP-0114), and no clients.
    pub component: bool,
    /// Connections begin with HTTP.
    pub http: bool,
}

/// An operator's question to one shard.
pub struct Ask {
    /// The question.
    pub command: Command,
    /// What the thread itself goes by from now on, if that is to change.
    pub tuning: Option<Tuning>,
    /// Where the answer goes.
    pub reply: SyncSender<Answer>,
}

/// The answer to an [`Ask`].
pub struct Answer {
    /// The shard's.
    pub reply: Reply,
    /// Of each row of [`Reply::Sessions`], [`Reply::Backlogs`] and [`Reply::Components`], what only the thread knows.
    pub streams: Vec<Stream>,
}

/// What a thread is started with.
pub struct Parts {
    /// The shard.
    pub shard: Shard,
    /// Its network.
    pub driver: Box<dyn Driver>,
    /// Way into the store.
    pub submitter: Submitter,
    /// Questions to the store.
    pub reads: ReadPort,
    /// Long work.
    pub jobs: JobPort,
    /// To whoever keeps users elsewhere.
    pub outside: AskPort,
    /// Orders of administrators.
    pub orders: OrderPort,
    /// Bytestreams that users begin.
    pub activations: ActivationPort,
    /// To push services.
    pub pushes: PushPort,
    /// Letters.
    pub letters: LetterRings,
    /// All shards' drivers, by shard.
    pub peers: Vec<Peer>,
    /// What each listener's connections are, by tag.
    pub listeners: Vec<Entrance>,
    /// TLS of connections by STARTTLS and of direct ones.
    pub tls: Option<TlsEntries>,
    /// Operator's questions.
    pub asks: Receiver<Ask>,
    /// What it goes by until it is told otherwise.
    pub tuning: Tuning,
    /// The process's clock.
    pub clock: Clock,
    /// How far the end of all threads has come.
    pub ending: Arc<Ending>,
}

/// Time for shards: monotonic since the process started, and the wall's.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Starts now.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// The time.
    pub fn now(&self) -> Now {
        self.at(Instant::now())
    }

    /// The time, of which the monotonic part is known: a moment ago.
    fn at(&self, now: Instant) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono_ms: now.duration_since(self.0).as_millis() as u64, wall_us: wall.as_micros() as u64 }
    }
}

/// A connection that has come before its state, or the other way round. Each gets its other half: a state is sent once its
/// socket has gone over.
enum Half {
    Conn {
        conn: ConnId,
        early: Early,
    },
    State(Box<MovedLink>),
    /// The connection has ended: its state is to be dropped when it comes.
    Gone,
}

/// What has happened on a connection before its state was there.
#[derive(Default)]
struct Early {
    bytes: Vec<u8>,
    /// The peer has ended its direction behind them.
    ended: bool,
}

/// One thread.
pub struct Thread {
    p: Parts,
    links: Links,
    out: Output,
    gate: GateQueue,
    halves: HashMap<u64, Half>,
    /// Connections that have arrived and wait for their state, and their keys.
    waiting_conns: HashMap<ConnId, u64>,
    /// Connections that the driver is to move, and their states: until they have gone, have to stay, or have ended.
    departing: HashMap<ConnId, Box<Moved>>,
    /// What leaving connections have sent since their shard let go of them, as it came from the socket.
    leaving: HashMap<ConnId, Vec<u8>>,
    /// Connections whose sends are done, while these are told. Empty between events.
    sent: Vec<ConnId>,
    /// When it was last logged that accepting stands still.
    pause_told_ms: Option<u64>,
    departures: u64,
    fronted: Fronted,
    /// Bounded by the users with something to read, one or two each.
    reads_kept: VecDeque<ReadRequest>,
    replies: HashMap<u64, SyncSender<Answer>>,
    asked: u64,
    /// Empty between two waits; its memory, as large as the events of one, is used again until memory is given back.
    orders: Vec<Order>,
    storage: StorageState,
    tidied: Instant,
    /// When the last turn ended.
    turned: Instant,
    /// How long it has slept in all.
    slept: Duration,
    /// When the network had something last; kept only while there is [`Tuning::busy_poll`].
    busy: Option<Instant>,
    /// More letters wait in the rings than one turn takes.
    letters_left: bool,
    /// So do answers of the store.
    answers_left: bool,
    /// How far it has followed [`Parts::ending`].
    stage: Stage,
    /// Connections that it has cut off at the end; bounded by the slots.
    cut: HashSet<ConnId>,
}

impl Thread {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Thread {
        let tuning = parts.tuning;
        let mut thread = Thread {
            p: parts,
            links: Links::default(),
            out: Output::default(),
            gate: GateQueue::default(),
            halves: HashMap::new(),
            waiting_conns: HashMap::new(),
            departing: HashMap::new(),
            leaving: HashMap::new(),
            sent: Vec::new(),
            pause_told_ms: None,
            fronted: Fronted::default(),
            departures: 0,
            reads_kept: VecDeque::new(),
            replies: HashMap::new(),
            asked: 0,
            orders: Vec::new(),
            storage: StorageState::Ok,
            tidied: Instant::now(),
            turned: Instant::now(),
            slept: Duration::ZERO,
            busy: None,
            letters_left: false,
            answers_left: false,
            stage: Stage::Serving,
            cut: HashSet::new(),
        };
        thread.tune(tuning);
        thread.tell_memory();
        thread
    }

    /// Runs until all threads end.
    ///
    /// # Errors
    /// When the driver itself breaks.
    pub fn run(mut self) -> std::io::Result<()> {
        loop {
            self.turn()?;
            if self.stage == Stage::Over {
                return Ok(());
            }
        }
    }

    fn turn(&mut self) -> std::io::Result<()> {
        waits::turned();
        #[cfg(debug_assertions)]
        {
            crate::plant::in_turn(self.shard_id().index());
            crate::plant::driver(self.shard_id().index())?;
        }
        let round = self.p.ending.round();
        // At the end clients are not read from anyway, and their connections must be able to go.
        let congested = self.is_congested() && self.stage == Stage::Serving;
        if congested {
            let _at = waits::at(Place::Congested);
            std::thread::sleep(self.p.tuning.sleep_congested);
            self.slept_until(Instant::now());
        }
        self.network(!congested)?;
        let now = self.p.clock.now();
        for conn in self.links.take_worn() {
            self.p.shard.handle(now, Input::Worn { conn }, &mut self.out);
        }
        self.letters(now);
        self.answers(now);
        self.commands(now);
        let stage = self.p.ending.stage();
        if stage != Stage::Serving {
            self.follow_the_end(stage, now);
        }
        if let Some(news) = self.gate.news(now.mono_s(), self.p.submitter.durable()) {
            self.p.shard.handle(now, news, &mut self.out);
        }
        self.end_turn(now);
        self.release(now);
        if stage != Stage::Serving {
            self.report(round);
        }
        let now = Instant::now();
        self.links.end_patience(&mut *self.p.driver, now);
        // A sum costs a third of a difference.
        if now >= self.tidied + self.p.tuning.tidy_every {
            self.tidied = now;
            self.orders = Vec::new();
            crate::audit::tell_left_out();
            throng_sys::give_back_memory();
            self.tell_memory();
        }
        self.turned = now;
        Ok(())
    }

    /// The thread has slept since its last turn.
    fn slept_until(&mut self, now: Instant) {
        let slept = now.duration_since(self.turned);
        self.slept += slept;
        let gather = self.p.tuning.gather;
        self.p.driver.gather(if slept < 2 * gather { gather } else { Duration::ZERO });
        let counters = self.p.shard.counters();
        counters.sleeps.one();
        counters.sleep_us.set(self.slept.as_micros() as u64);
    }

    fn tell_memory(&self) {
        let counters = self.p.shard.counters();
        counters.mem_network_bytes.set((self.p.driver.memory_bytes() + self.links.memory_bytes()) as u64);
        counters.mem_letters_bytes.set(self.p.letters.memory_bytes() as u64);
    }

    fn shard_id(&self) -> ShardId {
        self.p.shard.id()
    }

    /// Whether so much waits elsewhere that clients must not be read from.
    fn is_congested(&mut self) -> bool {
        let peers = &self.p.peers;
        let kept = self.p.letters.push_on(|to| peers[to.index()].wake());
        kept || self.p.submitter.is_full() || self.gate.bytes() > self.p.tuning.gate_bytes_max
    }

    /// Does what the end wants of a shard, each thing once.
    fn follow_the_end(&mut self, stage: Stage, now: Now) {
        if self.stage == Stage::Serving {
            self.p.driver.close_listeners();
            // Nobody waits for the answer.
            self.p.shard.handle(now, Input::Command { token: 0, command: Command::Shutdown }, &mut self.out);
        }
        self.stage = stage;
        if stage == Stage::Cutting && self.p.driver.connections() > 0 {
            let waiting = self.waiting_conns.keys().copied();
            for conn in self.links.open_connections().chain(waiting).collect::<Vec<_>>() {
                if self.cut.insert(conn) {
                    self.p.driver.close(conn, Close::Now);
                }
            }
        }
    }

    /// Says what is left of the shard's, if that was asked for before this turn began.
    fn report(&self, round: u64) {
        let p = &self.p;
        let counters = p.shard.counters();
        let (connections, commits) = (u64::from(p.driver.connections()), p.submitter.queued_batches());
        // A move whose other half has been cut off does not come to its end.
        let moving = !self.halves.is_empty() || !self.departing.is_empty();
        let waiting = counters.reads_pending.get() + counters.jobs_pending.get();
        let report = Report {
            quiet: connections == 0
                && commits == 0
                && waiting == 0
                && self.gate.is_empty()
                && self.reads_kept.is_empty()
                && p.letters.kept() == 0
                && !p.letters.has_letters()
                && !p.shard.has_more_to_do()
                && !self.gate.let_go(p.submitter.durable())
                && (!moving || self.stage == Stage::Cutting),
            sent: p.letters.sent(),
            received: p.letters.received(),
            connections,
            commits,
        };
        p.ending.report(self.shard_id().index(), round, report);
    }

    /// Time until the thread must look again by itself.
    fn patience(&self) -> Duration {
        // Reads that are kept need no look: the port has as many outstanding as it may, and each answer wakes the thread.
        // Letters that have come since the rings were looked at have woken this thread's driver.
        let busy = self.p.shard.has_more_to_do() || self.letters_left || self.answers_left || self.links.has_worn();
        let busy = busy || self.gate.let_go(self.p.submitter.durable());
        // Asked last, so that the committer knows of the sleeper before it sleeps.
        let gated = self.gate.front().is_some_and(|gate| self.p.submitter.wake_at(gate));
        match self.p.jobs.kept() {
            _ if busy || gated => Duration::ZERO,
            // While it serves, it naps instead of sleeping as long as there are any.
            _ if self.p.letters.kept() > 0 => SLEEP_LETTERS_KEPT,
            0 => self.p.tuning.sleep_max,
            _ => SLEEP_JOBS_KEPT.min(self.p.tuning.sleep_max),
        }
    }

    /// Whether the network had something so lately that the thread does not sleep.
    fn is_awake(&mut self) -> bool {
        let lately = self.busy.is_some_and(|busy| busy.elapsed() < self.p.tuning.busy_poll);
        if !lately {
            self.busy = None;
        }
        lately
    }

    /// Handles what happened in the network; with `receives`, waits for it. Without, clients are not read from, but what was sent
    /// to them goes on: a peer must not seem to take nothing because its server cannot take more in.
    fn network(&mut self, receives: bool) -> std::io::Result<()> {
        let timeout = if !receives || self.is_awake() { Duration::ZERO } else { self.patience() };
        let mut events = Events { orders: std::mem::take(&mut self.orders), ..Events::default() };
        let Thread { p, links, out, halves, waiting_conns, departing, leaving, pause_told_ms, fronted, .. } = self;
        let Parts { driver, shard, clock, listeners, tls, .. } = p;
        let busy_poll = !p.tuning.busy_poll.is_zero();
        let (mut now, mut awake, mut handled) = (None, None, 0);
        // Orders to the driver cannot be given while it hands over events: they are noted and carried out after.
        let on_event = &mut |event: Event<'_>| {
            match event {
                // The one time of both: what the sleep was for is handled now.
                Event::Slept => return awake = Some(Instant::now()),
                Event::Woken => {
                    handled += 1;
                    return shard.counters().wakes.one();
                }
                _ => handled += 1,
            }
            let now = *now.get_or_insert_with(|| awake.map_or_else(|| clock.now(), |awake| clock.at(awake)));
            let hands = &mut Hands {
                shard,
                links,
                out,
                halves,
                waiting_conns,
                departing,
                leaving,
                pause_told_ms,
                listeners,
                fronted,
                tls,
                now,
            };
            events.handle(hands, event);
        };
        if receives { driver.wait(Some(timeout), on_event) } else { driver.finish(on_event) }?;
        shard.counters().events.add(handled);
        if let Some(awake) = awake {
            self.slept_until(awake);
        }
        if busy_poll && handled > 0 {
            self.busy = Some(Instant::now());
        }
        if let Some(now) = now.filter(|_| !events.orders.is_empty()) {
            // One time for all, that of the events: a clock read for each send would cost more than the rest of its way back.
            self.carry_out_all(&mut events.orders, now);
        }
        self.orders = events.orders;
        Ok(())
    }

    fn carry_out_all(&mut self, orders: &mut Vec<Order>, now: Now) {
        let mut sent = std::mem::take(&mut self.sent);
        sent.extend(orders.iter().filter_map(|order| if let Order::Sent(conn) = order { Some(*conn) } else { None }));
        let mut done = 0;
        for order in orders.drain(..) {
            if let Order::Sent(_) = order {
                if done % FETCHED_AT_ONCE == 0 {
                    let next = &sent[done..sent.len().min(done + FETCHED_AT_ONCE)];
                    self.links.fetch(next.iter().copied());
                    self.p.shard.fetch(next);
                }
                done += 1;
            }
            self.carry_out(order, now);
        }
        sent.clear();
        self.sent = sent;
    }

    fn carry_out(&mut self, order: Order, now: Now) {
        let driver = &mut *self.p.driver;
        match order {
            Order::Raw(conn, bytes) => self.links.raw(driver, conn, bytes, false),
            Order::Close(conn) => self.links.close(driver, conn, Vec::new(), false),
            Order::CloseRaw(conn, bytes) => self.links.close_raw(driver, conn, bytes),
            Order::Abort(conn) => driver.close(conn, Close::Now),
            Order::Pause(conn) => driver.pause(conn),
            Order::Sent(conn) => {
                let after = self.links.sent(driver, conn);
                if after.sent {
                    self.p.shard.handle(now, Input::Sent { conn }, &mut self.out);
                }
                if let Some((to, moved)) = after.depart {
                    self.depart(conn, to, moved);
                }
            }
            Order::Arrive(link, conn, early) => self.arrive(*link, conn, early, now),
            Order::Left(link) => self.left(link),
        }
    }

    // Moving connections.

    fn depart(&mut self, conn: ConnId, to: ShardId, moved: Box<Moved>) {
        self.departures += 1;
        let key = (u64::from(self.shard_id().0) << 40) | (self.departures & ((1 << 40) - 1));
        self.departing.insert(conn, moved);
        // The destination is found again by its home when the socket has gone.
        self.p.driver.depart(conn, &self.p.peers[to.index()], key);
    }

    /// The socket has gone: its state follows.
    fn left(&mut self, mut link: Box<MovedLink>) {
        link.after = self.gate.gate();
        let to = self.p.shard.home(link.moved.home());
        self.p.letters.send(to, Envelope::Moved(link));
        self.p.peers[to.index()].wake();
    }

    /// Socket and state are both here.
    fn arrive(&mut self, link: MovedLink, conn: ConnId, early: Early, now: Now) {
        let mut bytes = link.bytes;
        bytes.extend_from_slice(&early.bytes);
        self.gate.rests_on(link.after);
        self.waiting_conns.remove(&conn);
        self.links.open(conn, link.tls);
        self.fronted.arrived(conn, link.client);
        self.p.shard.handle(now, Input::Arrived { conn, moved: link.moved }, &mut self.out);
        if !bytes.is_empty() || early.ended {
            let mut events = Events::default();
            let Thread { p, links, out, halves, waiting_conns, departing, leaving, pause_told_ms, fronted, .. } = self;
            let Parts { shard, listeners, tls, .. } = p;
            let mut hands = Hands {
                shard,
                links,
                out,
                halves,
                waiting_conns,
                departing,
                leaving,
                pause_told_ms,
                listeners,
                fronted,
                tls,
                now,
            };
            if !bytes.is_empty() {
                events.handle(&mut hands, Event::Received { conn, bytes: &mut bytes });
            }
            if early.ended {
                events.handle(&mut hands, Event::Failed { conn, cause: Cause::PeerClosed });
            }
            for order in events.orders {
                self.carry_out(order, now);
            }
        }
        self.p.driver.resume(conn);
    }

    // The rest of a turn.

    fn letters(&mut self, now: Now) {
        let mut arrived = Vec::new();
        let Thread { p, out, gate, halves, .. } = self;
        let Parts { letters, shard, tuning, .. } = p;
        let left = letters.receive(tuning.letters_a_turn, |envelope| match envelope {
            Envelope::Batch(batch) => {
                gate.rests_on(batch.after);
                shard.handle(now, Input::Letters(&batch), out);
            }
            Envelope::Moved(link) => match halves.remove(&link.key) {
                Some(Half::Conn { conn, early }) => arrived.push((link, conn, early)),
                Some(Half::Gone) => {}
                Some(Half::State(_)) | None => {
                    halves.insert(link.key, Half::State(link));
                }
            },
        });
        self.letters_left = left;
        for (link, conn, early) in arrived {
            self.arrive(*link, conn, early, now);
        }
    }

    fn answers(&mut self, now: Now) {
        let mut answers = 0;
        let most = self.p.tuning.answers_a_turn;
        while answers < most
            && let Some(answer) = self.p.reads.poll()
        {
            let input = Input::Found { token: answer.token, found: answer.found };
            self.p.shard.handle(now, input, &mut self.out);
            answers += 1;
        }
        self.answers_left = answers == most;
        while let Some(request) = self.reads_kept.pop_front() {
            if let Err(request) = self.p.reads.submit(request) {
                self.reads_kept.push_front(request);
                break;
            }
        }
        while let Some((token, done)) = self.p.jobs.poll() {
            self.p.shard.handle(now, Input::Done { token, done }, &mut self.out);
        }
        self.p.jobs.push_on();
        while let Some((token, said)) = self.p.outside.poll() {
            let input = match said {
                Said::User(verdict) => Input::Told { token, verdict },
                Said::Channels(decision) => Input::Decided { token, decision },
            };
            self.p.shard.handle(now, input, &mut self.out);
        }
        while let Some((token, outcome)) = self.p.orders.poll() {
            self.p.shard.handle(now, Input::Ordered { token, outcome }, &mut self.out);
        }
        while let Some((token, outcome)) = self.p.pushes.poll() {
            self.p.shard.handle(now, Input::Pushed { token, outcome }, &mut self.out);
        }
        while let Some((token, activated)) = self.p.activations.poll() {
            self.p.shard.handle(now, Input::Activated { token, activated }, &mut self.out);
        }
        let storage = match self.p.submitter.state() {
            disk::StorageState::Ok => StorageState::Ok,
            disk::StorageState::Full => StorageState::Full,
        };
        if storage != self.storage {
            self.storage = storage;
            self.p.shard.handle(now, Input::Storage(storage), &mut self.out);
        }
    }

    fn commands(&mut self, now: Now) {
        while let Ok(Ask { command, tuning, reply }) = self.p.asks.try_recv() {
            if let Some(tuning) = tuning {
                self.tune(tuning);
            }
            self.asked += 1;
            self.replies.insert(self.asked, reply);
            self.p.shard.handle(now, Input::Command { token: self.asked, command }, &mut self.out);
        }
    }

    fn tune(&mut self, tuning: Tuning) {
        self.p.driver.tune(&tuning.network);
        self.p.submitter.tune(tuning.queue_bytes_max);
        self.p.tuning = tuning;
    }

    /// Ends the turn: writes go to the committer, letters to the rings, the rest behind the gate.
    fn end_turn(&mut self, now: Now) {
        self.p.shard.handle(now, Input::EndOfTurn, &mut self.out);
        if !self.out.writes.is_empty() {
            let spare = self.p.submitter.spare(&self.out.writes);
            let batch = std::mem::replace(&mut self.out.writes, spare);
            let accounts = batch.concerns(Table::Accounts);
            let ticket = self.p.submitter.submit(batch);
            self.p.shard.counters().commits.one();
            self.gate.wrote(ticket, accounts);
        }
        let mut effects = std::mem::take(&mut self.out.effects);
        let mut gated = 0;
        for effect in effects.drain(..) {
            match effect {
                Effect::Letters { to, mut batch } => {
                    batch.after = self.gate.gate();
                    self.p.letters.send(to, Envelope::Batch(batch));
                    self.p.peers[to.index()].wake();
                }
                Effect::Job { token, job } => self.p.jobs.submit(token, job),
                Effect::Ask { token, question } => self.p.outside.submit(token, What::User(question)),
                Effect::Inquire { token, inquiry } => self.p.outside.submit(token, What::Channels(inquiry)),
                Effect::Pause { conn } => {
                    self.gate.paused(conn);
                    self.p.driver.pause(conn);
                }
                Effect::Favour { conn } => self.p.driver.favour(conn),
                Effect::Resume { conn, durable: false } => self.p.driver.resume(conn),
                other => {
                    gated += 1;
                    self.gate.push(other, now.mono_s());
                }
            }
        }
        self.out.effects = effects;
        let counters = self.p.shard.counters();
        counters.gated.add(gated);
        counters.commits_waiting.set(self.p.submitter.queued_batches());
        counters.gate_waiting.set(self.gate.len() as u64);
        counters.gate_bytes.set(self.gate.bytes() as u64);
        counters.letters_kept.set(self.p.letters.kept() as u64);
        counters.reads_kept.set(self.reads_kept.len() as u64);
        counters.jobs_kept.set(self.p.jobs.kept() as u64);
    }

    /// Lets out what is durable.
    fn release(&mut self, now: Now) {
        let durable = self.p.submitter.durable();
        let mut fetched = 0;
        while let Some((since_s, effect)) = self.gate.pop(durable) {
            if fetched == 0 {
                fetched = FETCHED_AT_ONCE;
                self.links.fetch(self.gate.next_sends(FETCHED_AT_ONCE));
            }
            fetched -= 1;
            let driver = &mut *self.p.driver;
            match effect {
                Effect::Send { conn, bytes, .. } => {
                    if since_s != now.mono_s() {
                        // The peer has time to take it from now on.
                        self.p.shard.handle(now, Input::Progressed { conn }, &mut self.out);
                    }
                    self.links.send(driver, conn, bytes);
                }
                Effect::StartTls { conn, last, .. } => match &self.p.tls {
                    Some(tls) => self.links.start_tls(driver, conn, last, &tls.starttls),
                    None => driver.close(conn, Close::Now),
                },
                Effect::Close { conn, last, abort, .. } => self.links.close(driver, conn, last, abort),
                Effect::Depart { conn, to, moved, last } => {
                    if let Some((to, moved)) = self.links.depart(driver, conn, last, to, moved) {
                        self.depart(conn, to, moved);
                    }
                }
                Effect::Read { token, queries } => {
                    // What it rests on is durable, so the read sees it.
                    let request = ReadRequest { token, after: durable, queries };
                    if !self.reads_kept.is_empty() {
                        self.reads_kept.push_back(request);
                    } else if let Err(request) = self.p.reads.submit(request) {
                        self.reads_kept.push_back(request);
                    }
                }
                Effect::Reply { token, reply, .. } => {
                    if let Some(sender) = self.replies.remove(&token) {
                        let streams = match &reply {
                            Reply::Sessions { rows, .. } => {
                                let conns = rows.iter().map(|row| row.conn);
                                streams(driver, &mut self.links, &self.fronted, &self.p.shard, conns)
                            }
                            Reply::Backlogs { rows, .. } => {
                                let conns = rows.iter().map(BacklogRow::conn);
                                streams(driver, &mut self.links, &self.fronted, &self.p.shard, conns)
                            }
                            Reply::Components(rows) => {
                                let conns = rows.iter().map(|row| Some(row.conn));
                                streams(driver, &mut self.links, &self.fronted, &self.p.shard, conns)
                            }
                            _ => Vec::new(),
                        };
                        // Whoever asked may have given up.
                        let _ = sender.try_send(Answer { reply, streams });
                    }
                }
                Effect::Note(note) => {
                    let peer = note.conn.and_then(|conn| {
                        let known =
                            streams(driver, &mut self.links, &self.fronted, &self.p.shard, std::iter::once(Some(conn)));
                        known.first()?.peer
                    });
                    crate::audit::tell(&note, peer.map(|peer| peer.ip()));
                }
                Effect::Order { token, order } => self.p.orders.submit(token, order),
                Effect::Activate { token, activation } => self.p.activations.submit(token, activation),
                Effect::Push { token, push } => self.p.pushes.submit(token, push),
                Effect::Resume { conn, .. } => driver.resume(conn),
                Effect::Letters { .. }
                | Effect::Job { .. }
                | Effect::Ask { .. }
                | Effect::Inquire { .. }
                | Effect::Pause { .. }
                | Effect::Favour { .. } => {
                    unreachable!("these do not wait at the gate");
                }
            }
        }
    }
}

/// What a driver's event leads to, carried out after the driver has handed over all events.
enum Order {
    Raw(ConnId, Vec<u8>),
    Close(ConnId),
    CloseRaw(ConnId, Vec<u8>),
    Abort(ConnId),
    Pause(ConnId),
    Sent(ConnId),
    Arrive(Box<MovedLink>, ConnId, Early),
    Left(Box<MovedLink>),
}

/// What an event may touch.
struct Hands<'a> {
    shard: &'a mut Shard,
    links: &'a mut Links,
    out: &'a mut Output,
    halves: &'a mut HashMap<u64, Half>,
    waiting_conns: &'a mut HashMap<ConnId, u64>,
    departing: &'a mut HashMap<ConnId, Box<Moved>>,
    leaving: &'a mut HashMap<ConnId, Vec<u8>>,
    pause_told_ms: &'a mut Option<u64>,
    listeners: &'a [Entrance],
    fronted: &'a mut Fronted,
    tls: &'a Option<TlsEntries>,
    now: Now,
}

/// Orders of one wait.
#[derive(Default)]
struct Events {
    orders: Vec<Order>,
    /// An [`Order::Arrive`] is among them: most waits have none, and nobody need look for it.
    arriving: bool,
}

impl Events {
    fn order(&mut self, order: Order) {
        self.arriving |= matches!(order, Order::Arrive(..));
        self.orders.push(order);
    }

    fn handle(&mut self, h: &mut Hands<'_>, event: Event<'_>) {
        match event {
            Event::Accepted { conn, tag, peer } => {
                let listener = h.listeners[usize::from(tag.0)];
                let tls = match (listener.kind.direct_tls, h.tls) {
                    (true, Some(tls)) if listener.http => Some(Box::new(TlsConnection::accept(&tls.web))),
                    (true, Some(tls)) => Some(Box::new(TlsConnection::accept(&tls.direct))),
                    _ => None,
                };
                h.links.open(conn, tls);
                if listener.proxied {
                    h.fronted.expect(conn);
                }
                tracing::trace!(%peer, slot = conn.slot, "connection accepted");
                let (kind, peer) = (listener.kind, peer.ip());
                let input = match (listener.component, listener.http) {
                    (true, _) => Input::AcceptedComponent { conn, peer },
                    (_, true) => Input::AcceptedHttp { conn, listener: kind, peer },
                    _ => Input::Accepted { conn, listener: kind, peer },
                };
                h.shard.handle(h.now, input, h.out);
            }
            Event::Received { conn, bytes } => self.received(h, conn, bytes),
            Event::Sent { conn, buffer: _ } => self.order(Order::Sent(conn)),
            Event::Progressed { conn } => h.shard.handle(h.now, Input::Progressed { conn }, h.out),
            Event::Failed { conn, cause: Cause::PeerClosed } => match self.early(h, conn) {
                // The session that it is of has to be there to be ended.
                Some(early) => early.ended = true,
                // The peer has ended its direction: XMPP has no use for the other one.
                None => self.lose(h, conn, Lost::Finished, Order::Close(conn)),
            },
            Event::Failed { conn, cause: _ } => self.lose(h, conn, Lost::Broken, Order::Abort(conn)),
            Event::Closed { conn } => {
                tracing::trace!(slot = conn.slot, "connection closed");
                h.links.closed(conn);
                h.fronted.closed(conn);
                h.leaving.remove(&conn);
                // It was closed before it could go.
                h.departing.remove(&conn);
                if let Some(key) = h.waiting_conns.remove(&conn) {
                    h.halves.insert(key, Half::Gone);
                    return;
                }
                h.shard.handle(h.now, Input::Closed { conn }, h.out);
            }
            Event::Arrived { key, conn } => match h.halves.remove(&key) {
                Some(Half::State(link)) => self.order(Order::Arrive(link, conn, Early::default())),
                _ => {
                    // No byte is looked at before the state is there.
                    h.halves.insert(key, Half::Conn { conn, early: Early::default() });
                    h.waiting_conns.insert(conn, key);
                    self.order(Order::Pause(conn));
                }
            },
            Event::Departed { conn, key } => {
                // At once, not as an order: the next event may be a newcomer in the same slot.
                let (tls, client) = (h.links.closed(conn), h.fronted.closed(conn));
                let bytes = h.leaving.remove(&conn).unwrap_or_default();
                h.shard.handle(h.now, Input::Closed { conn }, h.out);
                if let Some(moved) = h.departing.remove(&conn) {
                    let link = MovedLink { key, after: Gate::default(), moved, tls, client, bytes };
                    self.order(Order::Left(Box::new(link)));
                }
            }
            Event::DepartureFailed { conn, key: _, error } => {
                tracing::warn!(%error, "a connection could not move to its home");
                let Some(moved) = h.departing.remove(&conn) else { return };
                h.shard.handle(h.now, Input::Stayed { conn, moved }, h.out);
                if let Some(mut bytes) = h.leaving.remove(&conn) {
                    self.plain_or_tls(h, conn, &mut bytes);
                }
            }
            Event::AcceptPaused { tag, cause } => {
                // It may come and go with every few connections.
                let now_ms = h.now.mono_ms;
                if h.pause_told_ms.is_none_or(|told_ms| now_ms >= told_ms + PAUSE_TOLD_EVERY_MS) {
                    *h.pause_told_ms = Some(now_ms);
                    tracing::warn!(listener = tag.0, ?cause, "accepting connections is paused");
                }
            }
            Event::Woken | Event::Slept => {}
        }
    }

    /// The connection is to end, for a reason that only this side of the shard knows.
    fn lose(&mut self, h: &mut Hands<'_>, conn: ConnId, how: Lost, order: Order) {
        h.shard.handle(h.now, Input::Lost { conn, how }, h.out);
        self.order(order);
    }

    /// Of a connection whose state is not there yet, or not looked at, what has happened so far.
    fn early<'a>(&'a mut self, h: &'a mut Hands<'_>, conn: ConnId) -> Option<&'a mut Early> {
        if let Some(key) = h.waiting_conns.get(&conn)
            && let Some(Half::Conn { early, .. }) = h.halves.get_mut(key)
        {
            return Some(early);
        }
        // A connection that arrives in this very wait has its order ahead of what it brings.
        let mut orders = self.orders.iter_mut().filter(|_| self.arriving);
        orders.find_map(|order| match order {
            Order::Arrive(_, arriving, early) if *arriving == conn => Some(early),
            _ => None,
        })
    }

    fn received(&mut self, h: &mut Hands<'_>, conn: ConnId, bytes: &mut [u8]) {
        if let Some(early) = self.early(h, conn) {
            return early.bytes.extend_from_slice(bytes);
        }
        // The shard has let go of it and its new home has not got it yet: its reading is paused, so this is at most what
        // was under way then. TLS is taken off over there, in order.
        if h.shard.is_departing(conn) {
            return h.leaving.entry(conn).or_default().extend_from_slice(bytes);
        }
        match h.fronted.received(conn, bytes) {
            Head::No => self.plain_or_tls(h, conn, bytes),
            Head::Partial => {}
            Head::Whole { client, mut rest } => {
                if let Some(client) = client {
                    h.shard.handle(h.now, Input::Client { conn, peer: client.ip() }, h.out);
                }
                if !rest.is_empty() {
                    self.plain_or_tls(h, conn, &mut rest);
                }
            }
            Head::Wrong => {
                tracing::debug!("a connection for proxies did not begin as the PROXY protocol has it");
                self.lose(h, conn, Lost::Misled, Order::Abort(conn));
            }
        }
    }

    fn plain_or_tls(&mut self, h: &mut Hands<'_>, conn: ConnId, bytes: &mut [u8]) {
        let mut plaintext = h.links.scratch();
        let Some(tls) = h.links.tls(conn) else {
            h.links.give_back(plaintext);
            return h.shard.handle(h.now, Input::Received { conn, bytes }, h.out);
        };
        let mut to_send = Vec::new();
        let result = tls.receive(bytes, &mut plaintext, &mut to_send);
        if let Ok(received) = &result
            && let Some(info) = &received.handshake_done
        {
            let tls = TlsFacts {
                exporter: info.tls_exporter,
                server_end_point: info.server_end_point.clone().unwrap_or_default(),
                certificate: info.client.as_ref().map(named),
            };
            h.shard.handle(h.now, Input::Secured { conn, tls: Box::new(tls) }, h.out);
        }
        if !plaintext.is_empty() {
            h.shard.handle(h.now, Input::Received { conn, bytes: &plaintext }, h.out);
        }
        h.links.give_back(plaintext);
        match result {
            Ok(received) => {
                if !to_send.is_empty() {
                    self.order(Order::Raw(conn, to_send));
                }
                if received.peer_closed {
                    self.lose(h, conn, Lost::Finished, Order::Close(conn));
                }
            }
            Err(fault) => {
                tracing::debug!(?fault, "TLS ended a connection");
                self.lose(h, conn, Lost::Tls, Order::CloseRaw(conn, to_send));
            }
        }
    }
}

/// Whose certificate a client has shown, as the engine takes it.
fn named(names: &ClientNames) -> ClientCertificate {
    let boxed = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
    ClientCertificate { addresses: boxed(&names.addresses), mapped: boxed(&names.mapped) }
}

#[cfg(test)]
mod tests;

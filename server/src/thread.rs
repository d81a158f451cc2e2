//! The thread of one shard: wait, handle, flush.
//!
//! ```text
//! driver events, letters, answers of the store, finished jobs, commands
//!        └──> shard.handle(now, input, &mut output) ... EndOfTurn
//!                 writes ──> committer (one ticket per turn)    letters ──> rings, at once, with the gate
//!                 sends, closes, moves, reads, replies ──> gate queue ──> out, once durable
//! ```
//!
//! This module knows the order of a turn; it does not know what stanzas mean.

mod accepting;
mod clients;
mod ending;
mod events;
mod front;
mod moving;
mod timings;
mod tuning;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use throng_engine::gate::GateQueue;
use throng_engine::id::{ConnId, Gate, Now, ShardId};
use throng_engine::io::{BacklogRow, Command, Effect, Input, Output, Reply, StorageState};
use throng_engine::session::moved::Moved;
use throng_engine::shard::Shard;
use throng_engine::store::Table;

use crate::bytestreams::ActivationPort;
use crate::clock::Clock;
use crate::disk::{self, ReadPort, ReadRequest, Submitter};
use crate::driver::{Cause, Close, Driver, Event, Peer};
use crate::extauth::{AskPort, Said, What};
use crate::jobs::JobPort;
use crate::letters::{Envelope, LetterRings, MovedLink};
use crate::links::Links;
use crate::orders::OrderPort;
use crate::tls::TlsEntries;
use crate::waits::{self, Place};
use crate::webpush::PushPort;
use accepting::Accepting;
pub use accepting::PAUSED_SLOTS;
use clients::streams;
pub use clients::{Client, Stream};
pub use ending::{Ending, Report, Stage};
pub use events::Entrance;
use events::{Events, Hands, Order};
use front::Fronted;
use moving::{Early, Moving};
pub use timings::Timings;
use timings::Watch;
pub use tuning::Tuning;

/// Sleep while letters wait for room in another shard's ring and nothing more is received.
const SLEEP_LETTERS_KEPT: Duration = Duration::from_millis(1);
/// Sleep while jobs wait for room in the queue that all shards share, when no answer for this shard
/// may be pending.
const SLEEP_JOBS_KEPT: Duration = Duration::from_millis(5);
/// Number of connections prefetched together: as many as fit into the processor's first-level cache
/// with the other data of a turn.
const FETCHED_AT_ONCE: usize = 64;

/// An operator's request to one shard.
pub struct Ask {
    /// The command.
    pub command: Command,
    /// The new settings of the thread itself, if they change.
    pub tuning: Option<Tuning>,
    /// The channel for the answer.
    pub reply: SyncSender<Answer>,
}

/// The answer to an [`Ask`].
pub struct Answer {
    /// The shard's reply.
    pub reply: Reply,
    /// For each row of [`Reply::Sessions`], [`Reply::Backlogs`] and [`Reply::Components`], what
    /// only the thread knows.
    pub streams: Vec<Stream>,
}

/// The parts that a thread is started with.
pub struct Parts {
    /// The shard.
    pub shard: Shard,
    /// Its network driver.
    pub driver: Box<dyn Driver>,
    /// Hands writes to the store.
    pub submitter: Submitter,
    /// Hands reads to the store.
    pub reads: ReadPort,
    /// Hands out long-running work.
    pub jobs: JobPort,
    /// Asks external back ends about users.
    pub outside: AskPort,
    /// Hands out administrators' orders.
    pub orders: OrderPort,
    /// Activates bytestreams that users begin.
    pub activations: ActivationPort,
    /// Hands pushes to push services.
    pub pushes: PushPort,
    /// Its ends of the letter rings.
    pub letters: LetterRings,
    /// All shards' drivers, by shard.
    pub peers: Vec<Peer>,
    /// The kind of each listener's connections, by tag.
    pub listeners: Vec<Entrance>,
    /// TLS for STARTTLS and for direct TLS.
    pub tls: Option<TlsEntries>,
    /// Advice for an operator who needs room for more connections.
    pub more_room: Arc<str>,
    /// Requests of operators.
    pub asks: Receiver<Ask>,
    /// The initial settings.
    pub tuning: Tuning,
    /// The process's clock.
    pub clock: Clock,
    /// Progress of the shutdown of all threads.
    pub ending: Arc<Ending>,
    /// Latency histograms.
    pub timings: Arc<Timings>,
}

/// A shard's thread.
pub struct Thread {
    p: Parts,
    links: Links,
    out: Output,
    gate: GateQueue,
    watch: Watch,
    moving: Moving,
    /// Connections whose finished sends are being reported to the shard. Empty between events.
    sent: Vec<ConnId>,
    accepting: Accepting,
    fronted: Fronted,
    /// Reads that wait for the port. Bounded by the users with something to read, one or two each.
    reads_kept: VecDeque<ReadRequest>,
    replies: HashMap<u64, SyncSender<Answer>>,
    asked: u64,
    /// Empty between two waits. Its memory, as large as one wait's events, is reused until memory
    /// is given back.
    orders: Vec<Order>,
    storage: StorageState,
    tidied: Instant,
    /// When the last turn ended.
    turned: Instant,
    /// Total time slept.
    slept: Duration,
    /// When the network last had an event; maintained only while [`Tuning::busy_poll`] is set.
    busy: Option<Instant>,
    /// Whether more letters wait in the rings than one turn takes.
    letters_left: bool,
    /// The same for answers of the store.
    answers_left: bool,
    /// The stage of [`Parts::ending`] that this thread has reached.
    stage: Stage,
    /// Connections that were reset at shutdown; bounded by the slots.
    cut: HashSet<ConnId>,
}

impl Thread {
    /// Creates the thread's state from its parts.
    pub fn new(parts: Parts) -> Thread {
        let (tuning, accepting) = (parts.tuning, Accepting::new(parts.more_room.clone()));
        let mut thread = Thread {
            watch: Watch::new(parts.timings.clone()),
            p: parts,
            links: Links::default(),
            out: Output::default(),
            gate: GateQueue::default(),
            moving: Moving::default(),
            sent: Vec::new(),
            accepting,
            fronted: Fronted::default(),
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
        thread.p.shard.counters().connections_max.set(thread.p.driver.connections_max().into());
        thread
    }

    /// Runs until all threads end.
    ///
    /// # Errors
    /// If the driver itself breaks.
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
        // During shutdown clients are not read from anyway, and their connections must be able to
        // close.
        let congested = self.is_congested() && self.stage == Stage::Serving;
        if congested {
            let _at = waits::at(Place::Congested);
            std::thread::sleep(self.p.tuning.sleep_congested);
            self.slept_until(Instant::now());
        }
        let first = self.network(!congested)?;
        let at = Instant::now();
        let (now, began) = (self.p.clock.at(at), first.unwrap_or(at));
        if self.accepting.is_paused() {
            let (shard, resting) = (&self.p.shard, self.p.driver.resting());
            self.accepting.look(shard.id(), resting, shard.counters(), now.mono_ms);
        }
        for conn in self.links.take_worn() {
            self.p.shard.handle(now, Input::Worn { conn }, &mut self.out);
        }
        self.watch.came(self.p.shard.counters(), began);
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
        self.end_turn(now, began);
        let durable = self.release(now);
        if stage != Stage::Serving {
            self.report(round);
        }
        let now = Instant::now();
        self.watch.left(durable, now);
        self.links.end_patience(&mut *self.p.driver, now);
        // Adding to an instant costs a third of subtracting two.
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

    /// Accounts for a sleep that ended now.
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

    /// Whether so much work waits elsewhere that clients must not be read from.
    fn is_congested(&mut self) -> bool {
        let peers = &self.p.peers;
        let kept = self.p.letters.push_on(|to| peers[to.index()].wake());
        kept || self.p.submitter.is_full() || self.gate.bytes() > self.p.tuning.gate_bytes_max
    }

    /// Carries out the steps of the shutdown stage, each once.
    fn follow_the_end(&mut self, stage: Stage, now: Now) {
        if self.stage == Stage::Serving {
            self.p.driver.close_listeners();
            // The answer is not needed.
            self.p.shard.handle(now, Input::Command { token: 0, command: Command::Shutdown }, &mut self.out);
        }
        self.stage = stage;
        if stage == Stage::Cutting && self.p.driver.connections() > 0 {
            for conn in self.links.open_connections().chain(self.moving.waiting()).collect::<Vec<_>>() {
                if self.cut.insert(conn) {
                    self.p.driver.close(conn, Close::Now);
                }
            }
        }
    }

    /// Reports the shard's remaining work, if the round began before this turn.
    fn report(&self, round: u64) {
        let p = &self.p;
        let counters = p.shard.counters();
        let (connections, commits) = (u64::from(p.driver.connections()), p.submitter.queued_batches());
        // A move whose other half has been reset never completes.
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
                && (self.moving.is_empty() || self.stage == Stage::Cutting),
            sent: p.letters.sent(),
            received: p.letters.received(),
            connections,
            commits,
        };
        p.ending.report(self.shard_id().index(), round, report);
    }

    /// Time until the thread must look again on its own.
    fn patience(&self) -> Duration {
        // Pending reads need no look: the port has as many outstanding as permitted, and each
        // answer wakes the thread. Letters that arrived after the rings were checked have woken
        // this thread's driver.
        let busy = self.p.shard.has_more_to_do() || self.letters_left || self.answers_left || self.links.has_worn();
        let busy = busy || self.gate.let_go(self.p.submitter.durable());
        // Asked last, so that the committer knows that this thread waits before it sleeps.
        let gated = self.gate.front().is_some_and(|gate| self.p.submitter.wake_at(gate));
        match self.p.jobs.kept() {
            _ if busy || gated => Duration::ZERO,
            // While it serves, it naps instead of sleeping as long as there are any.
            _ if self.p.letters.kept() > 0 => SLEEP_LETTERS_KEPT,
            0 => self.p.tuning.sleep_max,
            _ => SLEEP_JOBS_KEPT.min(self.p.tuning.sleep_max),
        }
    }

    /// Whether the network had an event so recently that the thread does not sleep.
    fn is_awake(&mut self) -> bool {
        let lately = self.busy.is_some_and(|busy| busy.elapsed() < self.p.tuning.busy_poll);
        if !lately {
            self.busy = None;
        }
        lately
    }

    /// The driver, and the state that its event handlers may touch.
    fn driver_and_hands(&mut self, now: Now) -> (&mut dyn Driver, Hands<'_>) {
        let Thread { p, links, out, moving, accepting, fronted, .. } = self;
        let Parts { driver, shard, listeners, tls, .. } = p;
        (&mut **driver, Hands { shard, links, out, moving, accepting, listeners, fronted, tls, now })
    }

    /// Handles network events; with `receives`, waits for them. Without it, clients are not read
    /// from, but sends to them continue: a peer must not appear stalled because its server is busy.
    /// Returns when the first event was handled, if there was one.
    fn network(&mut self, receives: bool) -> std::io::Result<Option<Instant>> {
        let timeout = if !receives || self.is_awake() { Duration::ZERO } else { self.patience() };
        let mut events = Events::reusing(std::mem::take(&mut self.orders));
        let (clock, busy_poll) = (self.p.clock, !self.p.tuning.busy_poll.is_zero());
        // All events get the time of the first.
        let (driver, mut hands) = self.driver_and_hands(Now::default());
        let (mut first, mut now, mut awake, mut handled) = (None, None, None, 0);
        // Orders must not be given to the driver while it delivers events: they are collected and
        // carried out afterwards.
        let on_event = &mut |event: Event<'_>| {
            match event {
                // The one clock reading for both: the events that ended the sleep are handled now.
                Event::Slept => return awake = Some(Instant::now()),
                Event::Woken => {
                    handled += 1;
                    return hands.shard.counters().wakes.one();
                }
                _ => handled += 1,
            }
            hands.now = *now.get_or_insert_with(|| clock.at(*first.insert(awake.unwrap_or_else(Instant::now))));
            events.handle(&mut hands, event);
        };
        if receives { driver.wait(Some(timeout), on_event) } else { driver.finish(on_event) }?;
        self.p.shard.counters().events.add(handled);
        if let Some(awake) = awake {
            self.slept_until(awake);
        }
        if busy_poll && handled > 0 {
            self.busy = Some(Instant::now());
        }
        if let Some(now) = now.filter(|_| !events.orders.is_empty()) {
            // One time for all events: reading the clock per send would cost more than the rest of
            // its return path.
            self.carry_out_all(&mut events.orders, now);
        }
        self.orders = events.orders;
        Ok(first)
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
        let key = self.moving.depart(self.shard_id(), conn, moved);
        // The destination is looked up again by the user's home when the socket has left.
        self.p.driver.depart(conn, &self.p.peers[to.index()], key);
    }

    /// The socket has left: sends its state after it.
    fn left(&mut self, mut link: Box<MovedLink>) {
        link.after = self.gate.gate();
        let to = self.p.shard.home(link.moved.home());
        self.p.letters.send(to, Envelope::Moved(link));
        self.p.peers[to.index()].wake();
    }

    /// Takes over a connection whose socket and state have both arrived.
    fn arrive(&mut self, link: MovedLink, conn: ConnId, early: Early, now: Now) {
        let mut bytes = link.bytes;
        bytes.extend_from_slice(&early.bytes);
        self.gate.rests_on(link.after);
        self.links.open(conn, link.tls);
        self.fronted.arrived(conn, link.client);
        self.p.shard.handle(now, Input::Arrived { conn, moved: link.moved }, &mut self.out);
        if !bytes.is_empty() || early.ended {
            let mut events = Events::default();
            let (_, mut hands) = self.driver_and_hands(now);
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
        let Thread { p, out, gate, moving, watch, .. } = self;
        let Parts { letters, shard, tuning, .. } = p;
        let left = letters.receive(tuning.letters_a_turn, |envelope| match envelope {
            Envelope::Batch(batch, since) => {
                gate.rests_on(batch.after);
                shard.handle(now, Input::Letters(&batch), out);
                watch.came(shard.counters(), since);
            }
            Envelope::Moved(link) => arrived.extend(moving.state(link)),
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

    /// Ends the turn that began at `began`: writes go to the committer, letters to the rings, the
    /// rest behind the gate.
    fn end_turn(&mut self, now: Now, began: Instant) {
        self.p.shard.handle(now, Input::EndOfTurn, &mut self.out);
        self.watch.came(self.p.shard.counters(), began);
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
                    self.p.letters.send(to, Envelope::Batch(batch, began));
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
        self.watch.turn_ended(self.gate.gate());
        let counters = self.p.shard.counters();
        counters.gated.add(gated);
        counters.commits_waiting.set(self.p.submitter.queued_batches());
        counters.gate_waiting.set(self.gate.len() as u64);
        counters.gate_bytes.set(self.gate.bytes() as u64);
        counters.letters_kept.set(self.p.letters.kept() as u64);
        counters.reads_kept.set(self.reads_kept.len() as u64);
        counters.jobs_kept.set(self.p.jobs.kept() as u64);
    }

    /// Releases what is durable; returns the gate up to which it is.
    fn release(&mut self, now: Now) -> Gate {
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
                        // The peer's time to take the data starts now.
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
                    // The writes it depends on are durable, so the read sees them.
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
                        // The requester may have given up.
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
                Effect::Timed { what, since_us } => self.watch.took(what, since_us),
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
        durable
    }
}

#[cfg(test)]
mod tests;

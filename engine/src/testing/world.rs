//! The simulated world: shards, clock, network and store on one thread, moved by one seed.
//!
//! It carries out effects as the server's threads do: a turn's writes get one ticket of the one sequence of commits,
//! mail leaves at once and carries its sender's gate, and everything else waits in the same [`GateQueue`] until the
//! commit that it rests on is durable. What a run of it shows is therefore the engine's own order of things; only times,
//! splits and losses are drawn.

use std::cell::RefCell;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use crate::counters::Counters;
use crate::gate::GateQueue;
use crate::id::{ConnId, Gate, Now, ShardId};
use crate::io::{Command, Effect, Input, Job, JobDone, ListenerKind, Output, Reply, StorageState, TlsFacts};
use crate::mail::MailBatch;
use crate::session::moved::Moved;
use crate::settings::Settings;
use crate::shard::{ID_FLOOR_PREFIX, Shard};
use crate::store::account::Credentials;
use crate::store::{Query, Table};
use crate::testing::disk::Disk;
use crate::testing::net::{ClientEnd, Socket, SocketId, Then};
use crate::testing::random::Random;

/// How long things take and how bytes are split. Times are in microseconds.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Longest time from an event to the turn that handles it.
    pub turn_us: u64,
    /// Longest way of bytes through the network.
    pub net_us: u64,
    /// Bytes that come in one read at the most; 0 for all that are there.
    pub read_bytes: usize,
    /// Bytes that the kernel keeps of what is sent to one client.
    pub kernel_bytes: usize,
    /// Longest way of mail between shards.
    pub mail_us: u64,
    /// Longest time to make a group of commits durable.
    pub commit_us: u64,
    /// Longest time to answer a read of the store.
    pub read_us: u64,
    /// Longest time of a job.
    pub job_us: u64,
    /// Longest time until the server learns that a client is gone.
    pub detect_us: u64,
}

impl Default for Pace {
    /// A quiet machine: nothing is split, nothing takes long.
    fn default() -> Pace {
        Pace {
            turn_us: 100,
            net_us: 200,
            read_bytes: 0,
            kernel_bytes: 1 << 20,
            mail_us: 50,
            commit_us: 300,
            read_us: 200,
            job_us: 3_000,
            detect_us: 1_000,
        }
    }
}

/// A fault put in by hand, to see that the checks catch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// What a turn sends leaves before its writes are durable.
    AckBeforeCommit,
    /// One batch of mail in two hundred vanishes.
    LostBatch,
    /// The first stanza that follows `<resumed/>` goes out twice.
    DoubleDelivery,
}

/// What a step led to at a client.
#[derive(Debug)]
pub enum Occurrence {
    /// Something inside of the server.
    Inside,
    /// The client gets bytes.
    Bytes(SocketId, Vec<u8>),
    /// The server has closed the connection.
    Ended(SocketId),
    /// A timer has run out.
    Timer(u64),
    /// An operator's command is answered.
    Replied(u64, Reply),
    /// The turn of a shard has ended.
    Turn(ShardId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Turn(u16),
    Tick,
    Accept(usize),
    Up(usize),
    Down(usize),
    Flush(usize),
    Detect(usize),
    Patience(usize),
    Commit,
    Mail(u16, u16),
    Answer(u16),
    JobDone(u16),
    Timer(u64),
}

/// What waits for a shard's next turn.
#[derive(Debug)]
enum Feed {
    Accepted(ConnId, ListenerKind, IpAddr),
    Secured(ConnId),
    Received(ConnId, Vec<u8>),
    Sent(ConnId),
    Closed(ConnId),
    Arrived(ConnId, Box<Moved>),
    Mail(MailBatch),
    Found(u64, Vec<Query>),
    Done(u64, JobDone),
    Storage(StorageState),
    Command(u64, Command),
}

#[derive(Debug)]
enum Envelope {
    Batch(MailBatch),
    Moved { socket: usize, after: Gate, moved: Box<Moved> },
}

#[derive(Debug)]
struct Thread {
    shard: Shard,
    gate: GateQueue,
    inbox: Vec<Feed>,
    turn_due: bool,
    /// Generation and socket of each slot.
    slots: Vec<(u32, Option<usize>)>,
    free: Vec<u32>,
    /// Sockets of connections that are gone.
    was: BTreeMap<ConnId, usize>,
    reads: VecDeque<(u64, Vec<Query>)>,
    jobs: VecDeque<(u64, Job)>,
    /// Reads that must not see too little although the gate is ignored.
    early_reads: VecDeque<(Gate, u64, Vec<Query>)>,
}

/// The password of every account.
pub const PASSWORD: &str = "r0m30myr0m30";
const SALT: &[u8] = b"0123456789abcdef";
const ITERATIONS: u32 = crate::limits::SCRAM_ITERATIONS_MIN;
/// Wall clock at the start, microseconds since the epoch: 2026-01-01T00:00:00Z.
const EPOCH_US: u64 = 1_767_225_600_000_000;
/// Idle shards take a turn this often.
const TICK_US: u64 = 250_000;
/// Time that a closing connection has to take its last words.
const LAST_WORDS_US: u64 = 10_000_000;

/// The world. Two verbs: [`World::step`] moves it, everything else is something that a client or an operator does.
#[derive(Debug)]
pub struct World {
    /// How long things take.
    pub pace: Pace,
    /// The fault put in by hand.
    pub plant: Option<Plant>,
    /// What the server's side of a listener promises.
    pub listener: ListenerKind,
    /// The store.
    pub disk: Disk,
    /// Bytes that were with the kernel, or on their way to it, for clients that will never get them.
    pub lost: Vec<(SocketId, Vec<u8>)>,
    /// Commits stand still.
    pub commits_stopped: bool,
    settings: Settings,
    random: Random,
    now_us: u64,
    started_us: u64,
    threads: Vec<Thread>,
    sockets: Vec<Socket>,
    mail: BTreeMap<(u16, u16), (u64, VecDeque<Envelope>)>,
    events: BinaryHeap<std::cmp::Reverse<(u64, u64, u32, Event)>>,
    events_made: u64,
    epoch: u32,
    commit_due: bool,
    storage: StorageState,
    out: Output,
    replied: VecDeque<(u64, Reply)>,
    steps: u64,
}

/// The row of an account with [`PASSWORD`].
fn credentials() -> &'static [u8] {
    static ROW: OnceLock<Vec<u8>> = OnceLock::new();
    ROW.get_or_init(|| {
        let made =
            Credentials::derive(PASSWORD, ITERATIONS, SALT, EPOCH_US).expect("the password and salt are in bounds");
        let mut row = Vec::new();
        made.encode(&mut row);
        row
    })
}

/// Password, salt, iterations.
type Given = (String, Vec<u8>, u32);

/// Does a job; what was derived once is known from then on, for derivation is slow on purpose and the same everywhere.
fn run_job(job: Job) -> JobDone {
    thread_local! {
        static KNOWN: RefCell<BTreeMap<Given, crate::session::sasl::Derived>> = const { RefCell::new(BTreeMap::new()) };
    }
    let Job::CheckPassword(derive) = job else { return job.run() };
    let (password, salt, iterations) = derive.inputs();
    let given = (password.to_owned(), salt.to_vec(), iterations);
    KNOWN.with_borrow_mut(|known| {
        if let Some(derived) = known.get(&given) {
            return JobDone::Checked(derived.clone());
        }
        let derived = derive.run();
        if known.len() < 4096 {
            known.insert(given, derived.clone());
        }
        JobDone::Checked(derived)
    })
}

impl World {
    /// A world with accounts and running shards. `settings.id_floor` and the keys are overwritten.
    pub fn new(seed: u64, mut settings: Settings, pace: Pace, accounts: &[&str]) -> World {
        settings.scram_iterations = ITERATIONS;
        let mut disk = Disk::default();
        for local in accounts {
            disk.put(Table::Accounts, &format!("{local}@{}", settings.domain), b"", credentials());
        }
        let mut world = World {
            pace,
            plant: None,
            listener: ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false },
            disk,
            lost: Vec::new(),
            commits_stopped: false,
            settings,
            random: Random::new(seed),
            now_us: 0,
            started_us: 0,
            threads: Vec::new(),
            sockets: Vec::new(),
            mail: BTreeMap::new(),
            events: BinaryHeap::new(),
            events_made: 0,
            epoch: 0,
            commit_due: false,
            storage: StorageState::Ok,
            out: Output::default(),
            replied: VecDeque::new(),
            steps: 0,
        };
        world.start();
        world
    }

    /// The settings that the shards run with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Simulated time, microseconds since the world began.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Events so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// A shard, to look at.
    pub fn shard(&self, id: ShardId) -> &Shard {
        &self.threads[id.index()].shard
    }

    /// Effects and bytes that wait for commits at a shard.
    pub fn gate(&self, id: ShardId) -> (usize, usize) {
        let gate = &self.threads[id.index()].gate;
        (gate.len(), gate.bytes())
    }

    /// The shards' numbers.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.settings.shards).map(ShardId)
    }

    /// Starts a process over what is durable.
    fn start(&mut self) {
        self.started_us = self.now_us;
        self.settings.process_key = self.random.seed32();
        self.settings.decoy_key = [7; 32];
        self.settings.id_floor = self.id_floor();
        let settings = Arc::new(self.settings.clone());
        self.threads = self
            .shards()
            .map(|id| Thread {
                shard: Shard::new(id, settings.clone(), Arc::new(Counters::default()), self.random.seed32()),
                gate: GateQueue::default(),
                inbox: Vec::new(),
                turn_due: false,
                slots: Vec::new(),
                free: Vec::new(),
                was: BTreeMap::new(),
                reads: VecDeque::new(),
                jobs: VecDeque::new(),
                early_reads: VecDeque::new(),
            })
            .collect();
        self.at(TICK_US, Event::Tick);
    }

    fn id_floor(&self) -> u64 {
        let rows = self.disk.partition(Table::Meta, "");
        let floors = rows.filter(|(sort, _)| sort.starts_with(ID_FLOOR_PREFIX.as_bytes()));
        floors.filter_map(|(_, value)| Some(u64::from_be_bytes(value.try_into().ok()?))).max().unwrap_or(0)
    }

    // What clients and operators do.

    /// A client connects.
    pub fn connect(&mut self) -> SocketId {
        let shard = ShardId(self.random.below(u64::from(self.settings.shards)) as u16);
        self.sockets.push(Socket::new(shard));
        let index = self.sockets.len() - 1;
        self.after(self.pace.net_us, Event::Accept(index));
        SocketId(index)
    }

    /// A client writes.
    pub fn write(&mut self, socket: SocketId, bytes: &[u8]) {
        let s = &mut self.sockets[socket.0];
        if s.over || s.client != ClientEnd::Open {
            return;
        }
        s.up.extend(bytes);
        self.kick_up(socket.0);
    }

    /// A client closes its direction once what it wrote is through.
    pub fn finish(&mut self, socket: SocketId) {
        let s = &mut self.sockets[socket.0];
        if s.client == ClientEnd::Open {
            s.client = ClientEnd::Finished;
            self.kick_up(socket.0);
        }
    }

    /// A client vanishes: of what it wrote a beginning comes through, of what it was to get nothing.
    pub fn abort(&mut self, socket: SocketId) {
        let keep = self.random.index(self.sockets[socket.0].up.len() + 1);
        let s = &mut self.sockets[socket.0];
        if s.client == ClientEnd::Gone {
            return;
        }
        s.client = ClientEnd::Gone;
        s.up.truncate(keep);
        s.stalled = false;
        let lost: Vec<u8> = s.down.drain(..).collect();
        if !lost.is_empty() {
            self.lost.push((socket, lost));
        }
        self.after(self.pace.detect_us, Event::Detect(socket.0));
        self.kick_flush(socket.0);
    }

    /// A client stops reading, or goes on.
    pub fn stall(&mut self, socket: SocketId, stalled: bool) {
        self.sockets[socket.0].stalled = stalled;
        self.kick_down(socket.0);
        self.kick_flush(socket.0);
    }

    /// Notes of a connection that whoever had it will not know what got lost.
    pub fn mark(&mut self, socket: SocketId) {
        self.sockets[socket.0].marked = true;
    }

    /// Whether that was noted.
    pub fn is_marked(&self, socket: SocketId) -> bool {
        self.sockets[socket.0].marked
    }

    /// A timer; it comes back as [`Occurrence::Timer`].
    pub fn timer(&mut self, after_us: u64, token: u64) {
        self.at(after_us, Event::Timer(token));
    }

    /// An operator's command to a shard.
    pub fn command(&mut self, shard: ShardId, token: u64, command: Command) {
        self.feed(shard, Feed::Command(token, command));
    }

    /// The store is full, or has room again.
    pub fn storage(&mut self, state: StorageState) {
        self.storage = state;
        for shard in self.shards() {
            self.feed(shard, Feed::Storage(state));
        }
        self.kick_commit();
    }

    /// Commits stand still, or go on.
    pub fn stop_commits(&mut self, stopped: bool) {
        self.commits_stopped = stopped;
        self.kick_commit();
    }

    /// The process dies and a new one starts over what is durable. All connections are gone.
    pub fn crash(&mut self) {
        self.disk.crash(&mut self.random);
        self.epoch += 1;
        self.commit_due = false;
        self.storage = StorageState::Ok;
        self.commits_stopped = false;
        self.mail.clear();
        self.replied.clear();
        for index in 0..self.sockets.len() {
            if !self.sockets[index].over {
                self.cut(index);
            }
        }
        self.start();
    }

    // The machine.

    fn at(&mut self, after_us: u64, event: Event) {
        self.events_made += 1;
        let due = self.now_us + after_us;
        self.events.push(std::cmp::Reverse((due, self.events_made, self.epoch, event)));
    }

    fn after(&mut self, most_us: u64, event: Event) {
        let delay = self.random.below(most_us + 1);
        self.at(delay, event);
    }

    /// Moves the world by one event. There is always one: shards tick.
    pub fn step(&mut self) -> Occurrence {
        if let Some((token, reply)) = self.replied.pop_front() {
            return Occurrence::Replied(token, reply);
        }
        let Some(std::cmp::Reverse((due, _, epoch, event))) = self.events.pop() else { return Occurrence::Inside };
        self.steps += 1;
        self.now_us = due;
        // Of an earlier process only its clients' ends are left.
        let outlives = matches!(event, Event::Timer(_) | Event::Down(_));
        if epoch != self.epoch && !outlives {
            return Occurrence::Inside;
        }
        match event {
            Event::Turn(shard) => return self.turn(ShardId(shard)),
            Event::Tick => {
                for shard in self.shards() {
                    self.kick_turn(shard);
                }
                self.at(TICK_US, Event::Tick);
            }
            Event::Accept(index) => self.accept(index),
            Event::Up(index) => self.up(index),
            Event::Down(index) => return self.down(index),
            Event::Flush(index) => self.flush(index),
            Event::Detect(index) => self.detect(index),
            Event::Patience(index) => {
                if self.sockets[index].then.is_some() {
                    self.close_now(index);
                }
            }
            Event::Commit => self.commit(),
            Event::Mail(from, to) => self.deliver_mail(from, to),
            Event::Answer(shard) => {
                if let Some((token, queries)) = self.threads[usize::from(shard)].reads.pop_front() {
                    self.feed(ShardId(shard), Feed::Found(token, queries));
                }
            }
            Event::JobDone(shard) => {
                if let Some((token, job)) = self.threads[usize::from(shard)].jobs.pop_front() {
                    self.feed(ShardId(shard), Feed::Done(token, run_job(job)));
                }
            }
            Event::Timer(token) => return Occurrence::Timer(token),
        }
        Occurrence::Inside
    }

    fn feed(&mut self, shard: ShardId, feed: Feed) {
        self.threads[shard.index()].inbox.push(feed);
        self.kick_turn(shard);
    }

    fn kick_turn(&mut self, shard: ShardId) {
        if !std::mem::replace(&mut self.threads[shard.index()].turn_due, true) {
            self.after(self.pace.turn_us, Event::Turn(shard.0));
        }
    }

    fn now(&self) -> Now {
        Now { mono_ms: (self.now_us - self.started_us) / 1000, wall_us: EPOCH_US + self.now_us }
    }

    /// One turn of a shard: what has come, the end of the turn, and what follows from it.
    fn turn(&mut self, shard: ShardId) -> Occurrence {
        let now = self.now();
        let mut out = std::mem::take(&mut self.out);
        let thread = &mut self.threads[shard.index()];
        thread.turn_due = false;
        for feed in std::mem::take(&mut thread.inbox) {
            let input = match &feed {
                Feed::Accepted(conn, listener, peer) => {
                    Input::Accepted { conn: *conn, listener: *listener, peer: *peer }
                }
                Feed::Received(conn, bytes) => Input::Received { conn: *conn, bytes },
                Feed::Sent(conn) => Input::Sent { conn: *conn },
                Feed::Closed(conn) => Input::Closed { conn: *conn },
                Feed::Mail(batch) => {
                    thread.gate.rests_on(batch.after);
                    Input::Mail(batch)
                }
                Feed::Storage(state) => Input::Storage(*state),
                Feed::Secured(conn) => {
                    let tls = TlsFacts { exporter: Some([3; 32]), server_end_point: vec![4; 32] };
                    Input::Secured { conn: *conn, tls: Box::new(tls) }
                }
                Feed::Found(token, queries) => {
                    Input::Found { token: *token, found: queries.iter().map(|q| self.disk.read(q)).collect() }
                }
                Feed::Arrived(..) | Feed::Done(..) | Feed::Command(..) => match feed {
                    Feed::Arrived(conn, moved) => Input::Arrived { conn, moved },
                    Feed::Done(token, done) => Input::Done { token, done },
                    Feed::Command(token, command) => Input::Command { token, command },
                    _ => unreachable!("the three above"),
                },
            };
            thread.shard.handle(now, input, &mut out);
        }
        thread.shard.handle(now, Input::EndOfTurn, &mut out);
        if !out.writes.is_empty() {
            let ticket = self.disk.submit(std::mem::take(&mut out.writes));
            self.threads[shard.index()].gate.rests_on(ticket);
            self.kick_commit();
        }
        for effect in out.effects.drain(..) {
            self.effect(shard, effect);
        }
        self.out = out;
        self.release(shard);
        if self.threads[shard.index()].shard.has_own_mail() {
            self.kick_turn(shard);
        }
        Occurrence::Turn(shard)
    }

    /// What does not wait at the gate is done, the rest queues there.
    fn effect(&mut self, shard: ShardId, effect: Effect) {
        match effect {
            Effect::Mail { to, mut batch } => {
                batch.after = self.threads[shard.index()].gate.gate();
                if self.plant == Some(Plant::LostBatch) && self.random.chance(5) {
                    return;
                }
                self.post(shard, to, Envelope::Batch(batch));
            }
            Effect::Job { token, job } => {
                self.threads[shard.index()].jobs.push_back((token, job));
                self.after(self.pace.job_us, Event::JobDone(shard.0));
            }
            Effect::Pause { conn } => {
                if let Some(index) = self.socket_of(shard, conn) {
                    self.sockets[index].paused = true;
                }
            }
            Effect::Resume { conn } => {
                if let Some(index) = self.socket_of(shard, conn) {
                    self.sockets[index].paused = false;
                    self.kick_up(index);
                }
            }
            other => self.threads[shard.index()].gate.push(other),
        }
    }

    fn post(&mut self, from: ShardId, to: ShardId, envelope: Envelope) {
        let wish = self.now_us + self.random.below(self.pace.mail_us + 1);
        let (last, queue) = self.mail.entry((from.0, to.0)).or_default();
        let due = wish.max(*last);
        *last = due;
        queue.push_back(envelope);
        self.at(due - self.now_us, Event::Mail(from.0, to.0));
    }

    fn deliver_mail(&mut self, from: u16, to: u16) {
        let Some(envelope) = self.mail.get_mut(&(from, to)).and_then(|(_, queue)| queue.pop_front()) else { return };
        match envelope {
            Envelope::Batch(batch) => self.feed(ShardId(to), Feed::Mail(batch)),
            Envelope::Moved { socket, after, moved } => {
                self.threads[usize::from(to)].gate.rests_on(after);
                let conn = self.take_slot(socket, ShardId(to));
                self.feed(ShardId(to), Feed::Arrived(conn, moved));
                self.kick_up(socket);
                if self.sockets[socket].client == ClientEnd::Gone {
                    self.after(self.pace.detect_us, Event::Detect(socket));
                }
            }
        }
    }

    /// Lets out what is durable.
    fn release(&mut self, shard: ShardId) {
        let durable = self.disk.durable();
        let early = self.plant == Some(Plant::AckBeforeCommit);
        while let Some((gate, token, queries)) = self.threads[shard.index()].early_reads.pop_front() {
            if gate > durable {
                self.threads[shard.index()].early_reads.push_front((gate, token, queries));
                break;
            }
            self.ask(shard, token, queries);
        }
        let open = if early { Gate(u64::MAX) } else { durable };
        while let Some(effect) = self.threads[shard.index()].gate.pop(open) {
            match effect {
                Effect::Send { conn, bytes } => self.send(shard, conn, bytes, true, None),
                Effect::StartTls { conn, last } => self.send(shard, conn, last, false, Some(Then::Secure)),
                Effect::Close { conn, abort: true, .. } => {
                    if let Some(index) = self.socket_of(shard, conn) {
                        self.close_now(index);
                    }
                }
                Effect::Close { conn, last, abort: false } => {
                    if let Some(index) = self.socket_of(shard, conn) {
                        self.at(LAST_WORDS_US, Event::Patience(index));
                    }
                    self.send(shard, conn, last, false, Some(Then::Close));
                }
                Effect::Depart { conn, to, moved, last } => {
                    self.send(shard, conn, last, false, Some(Then::Depart { to, moved }));
                }
                Effect::Read { token, queries } => {
                    let gate = self.threads[shard.index()].gate.gate();
                    if early && gate > durable {
                        self.threads[shard.index()].early_reads.push_back((gate, token, queries));
                    } else {
                        self.ask(shard, token, queries);
                    }
                }
                Effect::Reply { token, reply } => self.replied.push_back((token, reply)),
                Effect::Mail { .. } | Effect::Job { .. } | Effect::Pause { .. } | Effect::Resume { .. } => {
                    unreachable!("these do not wait at the gate");
                }
            }
        }
    }

    fn ask(&mut self, shard: ShardId, token: u64, queries: Vec<Query>) {
        self.threads[shard.index()].reads.push_back((token, queries));
        self.after(self.pace.read_us, Event::Answer(shard.0));
    }

    fn kick_commit(&mut self) {
        if !self.commit_due && !self.commits_stopped && self.disk.waiting() > 0 {
            self.commit_due = true;
            self.after(self.pace.commit_us, Event::Commit);
        }
    }

    /// A group of commits becomes durable.
    fn commit(&mut self) {
        self.commit_due = false;
        if self.commits_stopped {
            return;
        }
        let waiting = self.disk.waiting();
        let group = if self.random.chance(500) { waiting } else { 1 + self.random.index(waiting.max(1)) };
        self.disk.commit(group);
        for shard in self.shards() {
            self.release(shard);
        }
        self.kick_commit();
    }

    // The network.

    fn socket_of(&self, shard: ShardId, conn: ConnId) -> Option<usize> {
        let (generation, socket) = *self.threads[shard.index()].slots.get(conn.slot as usize)?;
        socket.filter(|_| generation == conn.generation)
    }

    fn take_slot(&mut self, index: usize, shard: ShardId) -> ConnId {
        let thread = &mut self.threads[shard.index()];
        let slot = thread.free.pop().unwrap_or_else(|| {
            thread.slots.push((0, None));
            (thread.slots.len() - 1) as u32
        });
        let entry = &mut thread.slots[slot as usize];
        *entry = (entry.0.wrapping_add(1), Some(index));
        let conn = ConnId { slot, generation: entry.0 };
        let socket = &mut self.sockets[index];
        (socket.shard, socket.conn, socket.paused) = (shard, Some(conn), false);
        conn
    }

    /// The connection is gone from its shard.
    fn free_slot(&mut self, index: usize) {
        let socket = &mut self.sockets[index];
        let Some(conn) = socket.conn.take() else { return };
        let shard = socket.shard;
        let thread = &mut self.threads[shard.index()];
        thread.slots[conn.slot as usize].1 = None;
        thread.was.insert(conn, index);
        thread.free.push(conn.slot);
        self.feed(shard, Feed::Closed(conn));
    }

    fn accept(&mut self, index: usize) {
        if self.sockets[index].over {
            return;
        }
        let shard = self.sockets[index].shard;
        let conn = self.take_slot(index, shard);
        let peer = IpAddr::from([127, 0, (index >> 8) as u8, index as u8]);
        self.feed(shard, Feed::Accepted(conn, self.listener, peer));
        self.kick_up(index);
    }

    fn kick_up(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        let something = !s.up.is_empty() || s.client == ClientEnd::Finished;
        if something && !s.up_due && !s.paused && s.conn.is_some() {
            s.up_due = true;
            self.after(self.pace.net_us, Event::Up(index));
        }
    }

    /// Bytes come to the server.
    fn up(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        s.up_due = false;
        let Some(conn) = s.conn.filter(|_| !s.paused) else { return };
        if s.up.is_empty() {
            // The peer has ended its direction: the server's end closes once all is sent.
            if s.client == ClientEnd::Finished && s.then.is_none() {
                self.send_to(index, Vec::new(), false, Some(Then::Close));
            }
            return;
        }
        let most = match self.pace.read_bytes {
            0 => s.up.len(),
            most => 1 + self.random.index(most),
        };
        let n = most.min(s.up.len());
        let bytes: Vec<u8> = s.up.drain(..n).collect();
        let shard = s.shard;
        self.feed(shard, Feed::Received(conn, bytes));
        self.kick_up(index);
    }

    fn kick_down(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        let something = !s.down.is_empty() || s.over;
        if something && !s.down_due && !s.stalled && s.client != ClientEnd::Gone {
            s.down_due = true;
            self.after(self.pace.net_us, Event::Down(index));
        }
    }

    /// Bytes, or the end, come to the client.
    fn down(&mut self, index: usize) -> Occurrence {
        let s = &mut self.sockets[index];
        s.down_due = false;
        if s.client == ClientEnd::Gone || s.stalled {
            return Occurrence::Inside;
        }
        if s.down.is_empty() {
            if !s.over {
                return Occurrence::Inside;
            }
            s.client = ClientEnd::Gone;
            return Occurrence::Ended(SocketId(index));
        }
        let most = match self.pace.read_bytes {
            0 => s.down.len(),
            most => 1 + self.random.index(most),
        };
        let n = most.min(s.down.len());
        let bytes = s.down.drain(..n).collect();
        self.kick_down(index);
        self.kick_flush(index);
        Occurrence::Bytes(SocketId(index), bytes)
    }

    fn send(&mut self, shard: ShardId, conn: ConnId, mut bytes: Vec<u8>, owes: bool, then: Option<Then>) {
        let Some(index) = self.socket_of(shard, conn) else {
            // The connection went while this waited for its commit.
            let was = self.threads[shard.index()].was.get(&conn);
            if let Some(&was) = was {
                self.lost.push((SocketId(was), bytes));
            }
            return;
        };
        if self.plant == Some(Plant::DoubleDelivery) {
            double_after_resumed(&mut bytes);
        }
        self.send_to(index, bytes, owes, then);
    }

    fn send_to(&mut self, index: usize, bytes: Vec<u8>, owes: bool, then: Option<Then>) {
        let s = &mut self.sockets[index];
        s.send(bytes, owes);
        if then.is_some() {
            s.then = then;
        }
        if s.in_flight {
            self.kick_flush(index);
        } else {
            self.then(index);
        }
    }

    fn kick_flush(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        let full = if s.client == ClientEnd::Gone { s.swallowed } else { s.down.len() } >= self.pace.kernel_bytes;
        if s.in_flight && !s.flush_due && !full && !s.over {
            s.flush_due = true;
            let most = self.pace.net_us / 4;
            self.after(most, Event::Flush(index));
        }
    }

    /// A part of the send in flight goes to the kernel.
    fn flush(&mut self, index: usize) {
        let s = &mut self.sockets[index];
        s.flush_due = false;
        if !s.in_flight || s.over {
            return;
        }
        let held = if s.client == ClientEnd::Gone { s.swallowed } else { s.down.len() };
        let room = self.pace.kernel_bytes.saturating_sub(held);
        let lost = s.to_kernel(room);
        if !lost.is_empty() {
            self.lost.push((SocketId(index), lost));
        }
        let s = &mut self.sockets[index];
        if s.sending.is_empty() {
            let (owed, conn, shard) = (s.sent(), s.conn, s.shard);
            if let (true, Some(conn)) = (owed, conn) {
                self.feed(shard, Feed::Sent(conn));
            }
            if !self.sockets[index].in_flight {
                self.then(index);
            }
        }
        self.kick_down(index);
        self.kick_flush(index);
    }

    /// All is with the kernel: what was to follow does.
    fn then(&mut self, index: usize) {
        match self.sockets[index].then.take() {
            Some(Then::Close) => {
                self.free_slot(index);
                self.sockets[index].over = true;
                self.kick_down(index);
            }
            Some(Then::Depart { to, moved }) => {
                let shard = self.sockets[index].shard;
                self.free_slot(index);
                let after = self.threads[shard.index()].gate.gate();
                self.post(shard, to, Envelope::Moved { socket: index, after, moved });
            }
            Some(Then::Secure) => {
                let (shard, conn) = (self.sockets[index].shard, self.sockets[index].conn);
                if let Some(conn) = conn {
                    self.feed(shard, Feed::Secured(conn));
                }
            }
            None => {}
        }
    }

    /// The server learns that the client is gone.
    fn detect(&mut self, index: usize) {
        if !self.sockets[index].over && self.sockets[index].conn.is_some() {
            self.close_now(index);
        }
    }

    /// The server closes at once.
    fn close_now(&mut self, index: usize) {
        self.free_slot(index);
        self.cut(index);
    }

    /// The server's end is gone at once: of what was on its way a beginning still gets through.
    fn cut(&mut self, index: usize) {
        let keep = self.random.index(self.sockets[index].down.len() + 1);
        let s = &mut self.sockets[index];
        s.over = true;
        s.conn = None;
        s.then = None;
        s.up.clear();
        let lost = s.take_undelivered();
        if s.client != ClientEnd::Gone {
            s.down.extend(&lost[..keep.min(lost.len())]);
        }
        s.in_flight = false;
        if !lost.is_empty() {
            // What gets through is counted as lost, too: it excuses more than it must, and only of this connection.
            self.lost.push((SocketId(index), lost));
        }
        self.kick_down(index);
    }
}

/// Puts the first stanza behind `<resumed/>` in twice.
fn double_after_resumed(bytes: &mut Vec<u8>) {
    let Some(at) = memchr::memmem::find(bytes, b"<resumed ") else { return };
    let Some(start) = memchr::memmem::find(&bytes[at..], b"<message ").map(|n| at + n) else { return };
    let Some(end) = memchr::memmem::find(&bytes[start..], b"</message>").map(|n| start + n + 10) else { return };
    let again = bytes[start..end].to_vec();
    bytes.splice(end..end, again);
}

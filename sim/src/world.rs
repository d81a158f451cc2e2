//! The simulated world: shards, clock, network and store on one thread, driven by one seed.
//!
//! It carries out effects as the server's threads do: a turn's writes get one ticket in the single
//! sequence of commits, letters leave at once and carry their sender's gate, and everything else
//! waits in the same [`GateQueue`] until the commit that it depends on is durable. A run therefore
//! shows the engine's own order of events; only times, splits and losses are random.

mod connections;
mod crossing;
mod machine;
mod plant;

use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use throng_engine::clock::{Guard, expiry_us};
use throng_engine::counters::Counters;
use throng_engine::gate::GateQueue;
use throng_engine::id::{Now, ShardId};
use throng_engine::io::{Command, ListenerKind, Output, Reply, StorageState};
use throng_engine::settings::Settings;
use throng_engine::shard::{NUMBER_FLOOR_PREFIX, Shard};
use throng_engine::store::Table;
use throng_engine::store::account::{Credentials, Incarnation};
use throng_engine::store::ids::Ids;

use self::crossing::Borders;
pub use self::crossing::{Crossed, Crossing, Network};
use self::machine::{Envelope, Feed, Thread, run_job};
pub use self::plant::Plant;
use crate::disk::Disk;
use crate::net::{ClientEnd, Socket, SocketId};
use crate::random::Random;

/// Latencies, and the splitting of bytes. Times are in microseconds.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Longest time from an event to the turn that handles it.
    pub turn_us: u64,
    /// Longest network latency.
    pub net_us: u64,
    /// Most bytes per read; 0 for all available ones.
    pub read_bytes: usize,
    /// Capacity of the kernel's send buffer per client, bytes.
    pub kernel_bytes: usize,
    /// Longest latency of letters between shards, microseconds.
    pub letters_us: u64,
    /// Longest time to make a group of commits durable.
    pub commit_us: u64,
    /// Longest time to answer a read of the store.
    pub read_us: u64,
    /// Longest duration of a job.
    pub job_us: u64,
    /// Longest response time of the service that decides about requests for channels.
    pub inquiry_us: u64,
    /// Longest time until the server detects that a client has vanished.
    pub detect_us: u64,
}

impl Default for Pace {
    /// A quiet machine: no splitting, no latency.
    fn default() -> Pace {
        Pace {
            turn_us: 100,
            net_us: 200,
            read_bytes: 0,
            kernel_bytes: 1 << 20,
            letters_us: 50,
            commit_us: 300,
            read_us: 200,
            job_us: 3_000,
            inquiry_us: 20_000,
            detect_us: 1_000,
        }
    }
}

/// The consequence of a step for a client.
#[derive(Debug)]
pub enum Occurrence {
    /// Only an internal event of the server.
    Inside,
    /// A client receives bytes.
    Bytes(SocketId, Vec<u8>),
    /// The server has closed the connection.
    Ended(SocketId),
    /// A timer has expired.
    Timer(u64),
    /// An operator's command was answered.
    Replied(u64, Reply),
    /// The turn of a shard has ended.
    Turn(ShardId),
    /// A link between two shards was renewed, so letters may be lost: the process is to start again
    /// on its durable state.
    Renewed,
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
    Letters(u16, u16),
    Frame(u64),
    Link(u16, u16),
    Answer(u16),
    JobDone(u16),
    Decided(u16),
    Timer(u64),
}

/// The service that decides about requests for channels. It allows all requests except for channels
/// whose names mark them as closed, and returns the requester's name (`X-Name`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Service {
    /// Validity of a permission in seconds; `None` for a single use.
    pub seconds: Option<u32>,
    /// Unanswered requests per thousand.
    pub failing: u32,
}

/// The password of every account.
pub const PASSWORD: &str = "r0m30myr0m30";
const SALT: &[u8] = b"0123456789abcdef";
const ITERATIONS: u32 = throng_engine::limits::SCRAM_ITERATIONS_MIN;
/// Wall clock at the start, microseconds since the epoch: 2026-01-01T00:00:00Z.
const EPOCH_US: u64 = 1_767_225_600_000_000;
/// Idle shards take a turn this often.
const TICK_US: u64 = 250_000;

/// The world. [`World::step`] advances it; all other methods are actions of clients or operators.
#[derive(Debug)]
pub struct World {
    /// The latencies.
    pub pace: Pace,
    /// The injected fault.
    pub plant: Option<Plant>,
    /// The properties of the server's listener.
    pub listener: ListenerKind,
    /// Whether connections begin with HTTP (RFC 9112).
    pub http: bool,
    /// The service that decides about requests for channels.
    pub service: Service,
    /// The address of all clients; with `None`, each has its own.
    pub peer: Option<IpAddr>,
    /// The store.
    pub disk: Disk,
    /// Data in the kernel, or on the way to it, that its clients will never receive.
    pub lost: Vec<(SocketId, Vec<u8>)>,
    /// Whether commits stall.
    pub commits_stopped: bool,
    settings: Settings,
    random: Random,
    now_us: u64,
    started_us: u64,
    /// How far the host's wall clock is ahead of the world's, microseconds.
    ahead_us: i64,
    guard: Guard,
    threads: Vec<Thread>,
    sockets: Vec<Socket>,
    /// Sockets of components.
    components: BTreeSet<usize>,
    letters: BTreeMap<(u16, u16), (u64, VecDeque<Envelope>)>,
    borders: Borders,
    events: BinaryHeap<std::cmp::Reverse<(u64, u64, u32, Event)>>,
    events_made: u64,
    epoch: u32,
    commit_due: bool,
    storage: StorageState,
    out: Output,
    replied: VecDeque<(u64, Reply)>,
    /// Notes of shards for the log.
    pub notes: Vec<throng_engine::io::Note>,
    /// Pushes that push services have received.
    pub pushes: Vec<throng_engine::io::WebPush>,
    steps: u64,
}

/// The incarnation of all accounts.
fn incarnation() -> Incarnation {
    Incarnation::drawn(0x1f3a_55c7_09be_d264)
}

/// The message ids of all accounts.
pub fn ids() -> Ids {
    Ids::of(incarnation())
}

/// The row of an account with [`PASSWORD`].
fn credentials() -> &'static [u8] {
    static ROW: OnceLock<Vec<u8>> = OnceLock::new();
    ROW.get_or_init(|| {
        let made =
            Credentials::derive(PASSWORD, ITERATIONS, SALT, EPOCH_US).expect("the password and salt are in bounds");
        let made = made.of(incarnation());
        let mut row = Vec::new();
        made.encode(&mut row);
        row
    })
}

impl World {
    /// A world with accounts, given by bare JID or by localpart at the main domain, and running
    /// shards. `settings.number_floor` and the keys are overwritten.
    pub fn new(seed: u64, mut settings: Settings, pace: Pace, accounts: &[&str]) -> World {
        settings.scram_iterations = ITERATIONS;
        let mut disk = Disk::default();
        for account in accounts {
            let bare = match account.contains('@') {
                true => (*account).to_owned(),
                false => format!("{account}@{}", settings.domains.main()),
            };
            disk.put(Table::Accounts, &bare, b"", credentials());
        }
        let mut world = World {
            pace,
            plant: None,
            listener: ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false },
            http: false,
            service: Service::default(),
            peer: None,
            disk,
            lost: Vec::new(),
            commits_stopped: false,
            settings,
            random: Random::new(seed),
            now_us: 0,
            started_us: 0,
            ahead_us: 0,
            guard: Guard::new(0, EPOCH_US, None).0,
            threads: Vec::new(),
            sockets: Vec::new(),
            components: BTreeSet::new(),
            letters: BTreeMap::new(),
            borders: Borders::default(),
            events: BinaryHeap::new(),
            events_made: 0,
            epoch: 0,
            commit_due: false,
            storage: StorageState::Ok,
            out: Output::default(),
            replied: VecDeque::new(),
            notes: Vec::new(),
            pushes: Vec::new(),
            steps: 0,
        };
        world.start();
        world
    }

    /// The settings of the shards.
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

    /// A shard, for inspection.
    pub fn shard(&self, id: ShardId) -> &Shard {
        &self.threads[id.index()].shard
    }

    /// The home shard of a bare JID.
    pub fn home(&self, bare: &str) -> ShardId {
        self.settings.partitions.home(bare)
    }

    /// Number of effects and bytes that wait for commits at a shard.
    pub fn gate(&self, id: ShardId) -> (usize, usize) {
        let gate = &self.threads[id.index()].gate;
        (gate.len(), gate.bytes())
    }

    /// The shards' numbers.
    pub fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.settings.shards()).map(ShardId)
    }

    /// Starts a process on the durable state.
    fn start(&mut self) {
        let mark = self.guard.mark(self.now_us - self.started_us);
        self.started_us = self.now_us;
        self.guard = Guard::new(0, self.wall_us(), Some(mark)).0;
        self.settings.process_key = self.random.seed32();
        self.settings.decoy_key = [7; 32];
        self.settings.number_floor = self.number_floor();
        self.settings.restores = self.disk.has_rows(Table::Sessions);
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
                inquiries: VecDeque::new(),
                early_reads: VecDeque::new(),
            })
            .collect();
        self.at(TICK_US, Event::Tick);
    }

    fn number_floor(&self) -> u64 {
        let rows = self.disk.rows_of(Table::Meta, "");
        let floors = rows.filter(|(sort, _)| sort.starts_with(NUMBER_FLOOR_PREFIX.as_bytes()));
        floors.filter_map(|(_, value)| Some(u64::from_be_bytes(value.try_into().ok()?))).max().unwrap_or(0)
    }

    // Actions of clients and operators.

    /// A client connects.
    pub fn connect(&mut self) -> SocketId {
        let shard = ShardId(self.random.below(u64::from(self.settings.shards())) as u16);
        self.sockets.push(Socket::new(shard));
        let index = self.sockets.len() - 1;
        self.after(self.pace.net_us, Event::Accept(index));
        SocketId(index)
    }

    /// Connects a component (XEP-0114); from then on it is handled like a client.
    pub fn connect_component(&mut self) -> SocketId {
        let socket = self.connect();
        self.components.insert(socket.0);
        socket
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

    /// A client closes its direction after its last output.
    pub fn finish(&mut self, socket: SocketId) {
        let s = &mut self.sockets[socket.0];
        if s.client == ClientEnd::Open {
            s.client = ClientEnd::Finished;
            self.kick_up(socket.0);
        }
    }

    /// A client vanishes: a prefix of its output arrives, and it receives nothing further.
    pub fn abort(&mut self, socket: SocketId) {
        let keep = self.random.index(self.sockets[socket.0].up.len() + 1);
        let s = &mut self.sockets[socket.0];
        if s.client == ClientEnd::Gone {
            return;
        }
        s.client = ClientEnd::Gone;
        s.up.truncate(keep);
        s.stalled = false;
        let lost = Vec::from(std::mem::take(&mut s.down));
        if !lost.is_empty() {
            self.lost.push((socket, lost));
        }
        self.after(self.pace.detect_us, Event::Detect(socket.0));
        self.kick_flush(socket.0);
    }

    /// A client stops reading, or continues.
    pub fn stall(&mut self, socket: SocketId, stalled: bool) {
        self.sockets[socket.0].stalled = stalled;
        self.kick_down(socket.0);
        self.kick_flush(socket.0);
    }

    /// Marks a connection whose owner will not know what was lost.
    pub fn mark(&mut self, socket: SocketId) {
        self.sockets[socket.0].marked = true;
    }

    /// Whether a connection is marked.
    pub fn is_marked(&self, socket: SocketId) -> bool {
        self.sockets[socket.0].marked
    }

    /// Sets a timer, which expires as [`Occurrence::Timer`].
    pub fn timer(&mut self, after_us: u64, token: u64) {
        self.at(after_us, Event::Timer(token));
    }

    /// Sends an operator's command to a shard.
    pub fn command(&mut self, shard: ShardId, token: u64, command: Command) {
        self.feed(shard, Feed::Command(token, command));
    }

    /// Makes the store full, or gives it space again.
    pub fn storage(&mut self, state: StorageState) {
        self.storage = state;
        for shard in self.shards() {
            self.feed(shard, Feed::Storage(state));
        }
        self.kick_commit();
    }

    /// Makes commits stall, or continue.
    pub fn stop_commits(&mut self, stopped: bool) {
        self.commits_stopped = stopped;
        self.kick_commit();
    }

    /// Kills the process and starts a new one on the durable state. All connections are lost.
    pub fn crash(&mut self) {
        self.disk.crash(&mut self.random);
        self.epoch += 1;
        self.commit_due = false;
        self.storage = StorageState::Ok;
        self.commits_stopped = false;
        self.letters.clear();
        self.borders.clear();
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

    /// Advances the world by one event. There is always one, because shards tick.
    pub fn step(&mut self) -> Occurrence {
        if let Some((token, reply)) = self.replied.pop_front() {
            return Occurrence::Replied(token, reply);
        }
        if std::mem::take(&mut self.borders.renewed) {
            return Occurrence::Renewed;
        }
        let Some(std::cmp::Reverse((due, _, epoch, event))) = self.events.pop() else { return Occurrence::Inside };
        self.steps += 1;
        self.now_us = due;
        // Of an earlier process only the clients' ends survive.
        let outlives = matches!(event, Event::Timer(_) | Event::Down(_));
        if epoch != self.epoch && !outlives {
            return Occurrence::Inside;
        }
        match event {
            Event::Turn(shard) => return self.turn(ShardId(shard)),
            Event::Tick => {
                self.guard.look(self.now_us - self.started_us, self.wall_us());
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
            Event::Letters(from, to) => self.deliver_letters(from, to),
            Event::Frame(id) => self.frame(id),
            Event::Link(own, peer) => self.look_at_link(own, peer),
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
            Event::Decided(shard) => {
                if let Some((token, decision)) = self.threads[usize::from(shard)].inquiries.pop_front() {
                    self.feed(ShardId(shard), Feed::Decided(token, decision));
                }
            }
            Event::Timer(token) => return Occurrence::Timer(token),
        }
        Occurrence::Inside
    }

    fn now(&self) -> Now {
        let (mono_us, wall_us) = (self.now_us - self.started_us, self.wall_us());
        Now { mono_ms: mono_us / 1000, wall_us, expiry_us: expiry_us(mono_us, wall_us, self.guard.expected_us()) }
    }

    fn wall_us(&self) -> u64 {
        (EPOCH_US + self.now_us).saturating_add_signed(self.ahead_us)
    }

    /// Sets the host's wall clock ahead of the world's, or behind it. The process sees this like
    /// any jump.
    pub fn set_clock(&mut self, ahead_us: i64) {
        self.ahead_us = ahead_us;
    }

    /// The operator confirms the wall clock.
    pub fn confirm_clock(&mut self) {
        self.guard.confirm(self.now_us - self.started_us, self.wall_us());
    }
}

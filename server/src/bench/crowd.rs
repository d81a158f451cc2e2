//! The users of a shard, as a driver. They use byte streams in memory instead of sockets, so that
//! the shard's thread does all of its normal work and the kernel's TCP is not measured.
//!
//! Each user connects to its home shard and logs in as any client does. From the start signal on,
//! it writes to every other user and waits for the acknowledgement, which the other user sends as a
//! message.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use throng_engine::id::{ConnId, PartitionMap, ShardId};
use throng_engine::wire::Scanner;
use throng_load::{Account, Client, News, Profile, Tools};

use super::{DOMAIN, Game, PASSWORD};
use crate::driver::{Close, Driver, Event, Kind, ListenerTag, Peer, Tuning};

/// Most connections begun in one wait.
const NEWCOMERS: usize = 32;
/// Most users that send in one wait.
const USERS_A_WAIT: usize = 256;
/// Bytes of messages that a user prepares at once.
const READY_BYTES: usize = 4 << 10;

/// State shared by the shard threads and the measuring thread.
#[derive(Debug)]
pub(super) struct Signals {
    /// All users are logged in: start writing.
    pub(super) start: AtomicBool,
    /// Number of users with a session.
    pub(super) ready: AtomicU32,
    /// Number of users that have received all acknowledgements.
    pub(super) done: AtomicU32,
    /// Whether any user's stream has ended.
    pub(super) broken: AtomicBool,
}

impl Signals {
    pub(super) fn new() -> Signals {
        Signals {
            start: AtomicBool::new(false),
            ready: AtomicU32::new(0),
            done: AtomicU32::new(0),
            broken: AtomicBool::new(false),
        }
    }
}

/// One user.
struct User {
    number: u32,
    client: Client,
    /// Output that the server has not read.
    says: Vec<u8>,
    /// Number of users written to.
    asked: u32,
    /// Number of acknowledgements received.
    heard: u32,
    /// Whether the user is in the queue of users with output.
    queued: bool,
    /// Whether the server has stopped reading from it.
    paused: bool,
}

/// The users of one shard.
pub(super) struct Crowd {
    /// Used for sleeping and waking only; has no connections.
    inner: Box<dyn Driver>,
    game: Game,
    total: u32,
    signals: Arc<Signals>,
    profile: Profile,
    scanner: Scanner,
    users: Vec<User>,
    /// Number of users that have connected.
    begun: usize,
    connected: u32,
    started: bool,
    /// Users with output, each at most once.
    speaking: VecDeque<u32>,
    sent: Vec<(ConnId, Vec<u8>)>,
    closed: Vec<ConnId>,
}

/// Localpart of a user.
pub(super) fn name(number: u32) -> String {
    format!("u{number}")
}

impl Crowd {
    /// The users, out of `total`, whose home is this shard.
    pub(super) fn new(
        inner: Box<dyn Driver>,
        shard: u16,
        shards: u16,
        total: u32,
        game: Game,
        signals: Arc<Signals>,
    ) -> Crowd {
        let partitions = PartitionMap::spread(shards);
        let at_home = |&number: &u32| partitions.home(&format!("{}@{DOMAIN}", name(number))) == ShardId(shard);
        let user = |number| User {
            number,
            client: Client::default(),
            says: Vec::new(),
            asked: 0,
            heard: 0,
            queued: false,
            paused: false,
        };
        Crowd {
            inner,
            game,
            total,
            signals,
            profile: Profile::plain(DOMAIN),
            scanner: Scanner::new(),
            users: (0..total).filter(at_home).map(user).collect(),
            begun: 0,
            connected: 0,
            started: false,
            speaking: VecDeque::new(),
            sent: Vec::new(),
            closed: Vec::new(),
        }
    }

    fn conn(index: usize) -> ConnId {
        ConnId { slot: index as u32, generation: 0 }
    }

    fn queue(&mut self, index: usize) {
        let user = &mut self.users[index];
        if !user.queued && !user.paused {
            user.queued = true;
            self.speaking.push_back(index as u32);
        }
    }

    /// Lets the user write to as many others as the game allows at once.
    fn ask(&mut self, index: usize) {
        let others = self.total - 1;
        let user = &mut self.users[index];
        let may = |user: &User| match self.game {
            Game::Chatty => user.asked == user.heard,
            Game::BigBang => user.says.len() < READY_BYTES,
        };
        while user.asked < others && may(user) {
            user.asked += 1;
            let to = (user.number + user.asked) % self.total;
            say(&mut user.says, to, format_args!("?{}", user.number));
        }
    }

    /// Passes the server's output to a user.
    fn hear(&mut self, index: usize, bytes: &[u8]) {
        let Crowd { users, profile, scanner, signals, total, .. } = self;
        let User { number, client, says, heard, .. } = &mut users[index];
        let account = || Account { name: name(*number), password: PASSWORD.into() };
        let (mut answers, mut over) = (Vec::new(), false);
        let mut news = |news: News<'_>| match news {
            News::Ready => {
                signals.ready.fetch_add(1, Ordering::AcqRel);
            }
            News::Message { body, .. } => match body.strip_prefix('?').and_then(|number| number.parse().ok()) {
                Some(asker) => say(&mut answers, asker, format_args!("!")),
                None => {
                    *heard += 1;
                    if *heard == *total - 1 {
                        signals.done.fetch_add(1, Ordering::AcqRel);
                    }
                }
            },
            News::Failed { .. } | News::End | News::MessageError(_) => over = true,
            News::Presence | News::StartTls => {}
        };
        client.handle(&mut Tools { scanner, profile, account: &account }, bytes, says, &mut news);
        says.append(&mut answers);
        if over {
            signals.broken.store(true, Ordering::Release);
        }
        self.speak(index);
    }

    /// Writes what the game allows by now, and passes the output on.
    fn speak(&mut self, index: usize) {
        if self.started {
            self.ask(index);
        }
        if !self.users[index].says.is_empty() {
            self.queue(index);
        }
    }
}

fn say(out: &mut Vec<u8>, to: u32, body: std::fmt::Arguments<'_>) {
    let _ = write!(out, "<message to='{}@{DOMAIN}' type='chat'><body>{body}</body></message>", name(to));
}

impl Driver for Crowd {
    fn gather(&mut self, _: Duration) {}

    fn kind(&self) -> Kind {
        self.inner.kind()
    }

    /// Only the crowd connects.
    fn listen(&mut self, _listener: TcpListener, _tag: ListenerTag) -> io::Result<()> {
        Ok(())
    }

    fn close_listeners(&mut self) {
        self.inner.close_listeners();
    }

    /// Users read everything at once.
    fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        for (conn, buffer) in std::mem::take(&mut self.sent) {
            on_event(Event::Sent { conn, buffer });
        }
        self.inner.finish(&mut |_| {})
    }

    fn wait(&mut self, timeout: Option<Duration>, on_event: &mut dyn FnMut(Event<'_>)) -> io::Result<()> {
        let mut idle = true;
        for index in self.begun..self.users.len().min(self.begun + NEWCOMERS) {
            idle = false;
            let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
            on_event(Event::Accepted { conn: Crowd::conn(index), tag: ListenerTag(0), peer });
            let User { client, says, .. } = &mut self.users[index];
            client.open(&self.profile, false, says);
            self.begun += 1;
            self.connected += 1;
            self.queue(index);
        }
        if !self.started && self.signals.start.load(Ordering::Acquire) {
            self.started = true;
            for index in 0..self.users.len() {
                self.speak(index);
            }
        }
        for (conn, buffer) in std::mem::take(&mut self.sent) {
            idle = false;
            on_event(Event::Sent { conn, buffer });
        }
        // As many as a driver for sockets returns at once: a turn with all users would outgrow the
        // core's cache, and one shard would then look slower than half the work on each of two.
        for _ in 0..self.speaking.len().min(USERS_A_WAIT) {
            let Some(index) = self.speaking.pop_front() else { break };
            let index = index as usize;
            self.users[index].queued = false;
            if self.users[index].paused || self.users[index].says.is_empty() {
                continue;
            }
            idle = false;
            let mut said = std::mem::take(&mut self.users[index].says);
            on_event(Event::Received { conn: Crowd::conn(index), bytes: &mut said });
            said.clear();
            self.users[index].says = said;
            self.speak(index);
        }
        for conn in std::mem::take(&mut self.closed) {
            idle = false;
            on_event(Event::Closed { conn });
        }
        idle &= self.speaking.is_empty();
        self.inner.wait(if idle { timeout } else { Some(Duration::ZERO) }, on_event)
    }

    fn memory_bytes(&self) -> usize {
        self.inner.memory_bytes()
    }

    fn send(&mut self, conn: ConnId, bytes: Vec<u8>) {
        self.hear(conn.slot as usize, &bytes);
        let mut buffer = bytes;
        buffer.clear();
        self.sent.push((conn, buffer));
    }

    fn pause(&mut self, conn: ConnId) {
        self.users[conn.slot as usize].paused = true;
    }

    fn favour(&mut self, _: ConnId) {}

    fn resume(&mut self, conn: ConnId) {
        let index = conn.slot as usize;
        self.users[index].paused = false;
        self.queue(index);
    }

    fn close(&mut self, conn: ConnId, _how: Close) {
        self.closed.push(conn);
        self.connected -= 1;
    }

    fn depart(&mut self, _conn: ConnId, _to: &Peer, _key: u64) {
        unreachable!("everybody connects at home");
    }

    fn peer_addresses(&mut self, conns: &[ConnId]) -> Vec<Option<SocketAddr>> {
        vec![None; conns.len()]
    }

    fn peer(&self) -> Peer {
        self.inner.peer()
    }

    fn connections(&self) -> u32 {
        self.connected
    }

    fn tune(&mut self, tuning: &Tuning) {
        self.inner.tune(tuning);
    }
}

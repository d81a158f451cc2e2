//! A random run: users with clients that chat, change their rosters, connect, disconnect and
//! vanish, in a world with faults; then a calm period in which all users come online, and the final
//! checks.

mod archives;
mod balance;
mod block;
mod clients;
mod draw;
mod talk;

use std::collections::BTreeMap;
use std::ops::Range;

use throng_engine::io::{Command, LogCommand, ObserverCommand, StorageState};
use throng_engine::session::pace::Allowance;

pub use self::draw::Faults;
use crate::checks::Ledger;
use crate::client::{Client, numbers};
use crate::net::SocketId;
use crate::random::Random;
use crate::world::{Crossed, Crossing, Network, Occurrence, Pace, Plant, World};

/// The results of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Events of the world.
    pub steps: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages delivered, over all sessions.
    pub delivered: u64,
    /// Crashes.
    pub crashes: u64,
    /// Resumptions.
    pub resumed: u64,
    /// What has crossed borders between shards.
    pub crossed: Crossed,
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Event of the world at which it was detected.
    pub step: u64,
    /// The failure.
    pub what: String,
}

const ORPHAN: u64 = 1 << 32;
const FATE: u64 = 1 << 33;
const MEND: u64 = 1 << 34;
/// Distinguishes the draws for links from those of a seed's run.
const LINKING: u64 = 0x006c_696e_6b69_6e67;
/// Shards are inspected every this many turns.
const INSPECT_TURNS: u64 = 8;

/// A session that receives messages to the bare JID.
#[derive(Clone, Copy, Debug, Default)]
struct Follows {
    /// Whether it was unavailable for them at some time.
    barred: bool,
    /// The number of the first message received since it accepts them.
    since: Option<u64>,
    /// The number of the last one.
    last: u64,
}

/// One run.
#[derive(Debug)]
pub struct Run {
    /// Whether to print the clients' input and output.
    pub trace: bool,
    world: World,
    random: Random,
    /// Draws for retention.
    aging: Random,
    /// Draws for retractions.
    retracting: Random,
    /// Draws for links between shards.
    linking: Random,
    /// Links that are given up, in thousandths of the moments.
    broken: u32,
    faults: Faults,
    clients: Vec<Client>,
    /// Number of the session of each client.
    sessions: Vec<u64>,
    sessions_made: u64,
    /// For each client, the first message that must reach its session in order. None if the session
    /// stops accepting messages to the bare JID in between: messages that already wait for it then
    /// keep waiting.
    ordered_from: Vec<u64>,
    /// For each client, the first message sent after its session was bound.
    first: Vec<u64>,
    /// The progress of clients' sessions in their users' logs.
    follows: Vec<Follows>,
    owners: BTreeMap<SocketId, usize>,
    users: Vec<String>,
    ledger: Ledger,
    /// Data that clients without stream management did not receive, with the part that they
    /// received of the first message in it.
    lost: BTreeMap<SocketId, Vec<u8>>,
    calm: bool,
    end_us: u64,
    turns: u64,
    summary: Summary,
    /// Number of roster answers in the final comparison.
    compared: usize,
    comparing: bool,
    /// Messages that one account may put into logs during one process; 0 for no limit.
    quota: u64,
    /// Bytes of these; 0 for no limit.
    quota_bytes: u64,
    /// A user whose clients stay offline in the calm period.
    away: Option<usize>,
    /// Messages sent between two users while one had blocked the other.
    blocked: Range<u64>,
    /// Whether messages may be refused, so that one whose sender has disconnected may vanish
    /// unnoticed.
    refusals: bool,
}

/// Items that each user publishes in the calm period.
const ITEMS: [&str; 3] = ["a", "b", "a"];

/// Users of two domains, some with the same localpart: they share nothing else.
const USERS: [&str; 5] =
    ["romeo@localhost", "juliet@localhost", "romeo@capulet.lit", "nurse@localhost", "juliet@capulet.lit"];

impl Run {
    /// The run of a seed.
    pub fn new(seed: u64, plant: Option<Plant>) -> Run {
        let mut random = Random::new(seed);
        let shards = random.range(2, 5) as u16;
        let faults = Faults::draw(&mut random);
        let mut settings = draw::settings(&mut random, shards);
        // Separate, so that the rest of a seed's run does not depend on it.
        let mut aging = Random::new(!seed);
        if settings.archive && aging.chance(500) {
            settings.retention_s = aging.range(1, 4);
        }
        let mut quotas = Random::new(seed.rotate_left(32));
        let quota = if quotas.chance(150) { quotas.range(3, 60) } else { 0 };
        let quota_bytes = if quotas.chance(150) { quotas.range(500, 10_000) } else { 0 };
        let twice = |of| if plant == Some(of) { 2 } else { 1 };
        settings.log_messages_day = twice(Plant::Quota) * quota;
        settings.log_bytes_day = twice(Plant::QuotaBytes) * quota_bytes;
        // Rate-limited messages arrive later.
        let mut rates = Random::new(seed.rotate_left(48));
        let a_second = if rates.chance(150) { rates.range(10, 40) as u32 } else { 0 };
        settings.paces.ordinary = Allowance { a_second, burst: a_second.max(1) };
        let mut pace = draw::pace(&mut random);
        if random.chance(300) {
            pace.read_bytes = random.range(1, 200) as usize;
        }
        if random.chance(300) {
            pace.kernel_bytes = random.range(200, 5_000) as usize;
        }
        let users: Vec<String> =
            USERS[..random.range(2, USERS.len() as u64) as usize].iter().map(|user| (*user).to_owned()).collect();
        let single = faults.is_calm() && random.chance(500);
        let mut clients = Vec::new();
        for (index, user) in users.iter().enumerate() {
            let count = if single || random.chance(400) { 1 } else { random.range(2, 3) };
            for n in 0..count {
                clients.push(Client::new(index, user, &format!("r{n}"), random.chance(700)));
            }
        }
        let refusals = faults.full > 0
            || settings.waiting_messages_max < 100
            || settings.outbound_bytes_max < 1 << 20
            || quota > 0
            || quota_bytes > 0;
        let names: Vec<&str> = users.iter().map(String::as_str).collect();
        let mut world = World::new(random.next(), settings, pace, &names);
        world.plant = plant;
        let mut linking = Random::new(seed ^ LINKING);
        let (crossing, network, broken) = draw::crossing(&mut linking, &faults, plant);
        world.set_crossing(crossing, network);
        let end_us = random.range(3_000, 10_000) * 1_000;
        for index in 0..clients.len() {
            world.timer(random.below(1_000_000), index as u64);
        }
        world.timer(random.below(1_000_000), FATE);
        Run {
            trace: false,
            world,
            aging,
            retracting: Random::new(seed.rotate_left(16)),
            linking,
            broken,
            faults,
            sessions: vec![0; clients.len()],
            ordered_from: vec![0; clients.len()],
            first: vec![0; clients.len()],
            follows: vec![Follows::default(); clients.len()],
            clients,
            sessions_made: 0,
            owners: BTreeMap::new(),
            users,
            ledger: Ledger::new(single && !refusals),
            lost: BTreeMap::new(),
            calm: false,
            end_us,
            turns: 0,
            summary: Summary::default(),
            compared: 0,
            comparing: false,
            quota,
            quota_bytes,
            away: None,
            blocked: 0..0,
            refusals,
            random,
        }
    }

    /// Puts this between the shards, instead of what the seed would have there.
    pub fn set_crossing(&mut self, crossing: Crossing) {
        let network = draw::network(&mut self.linking);
        self.world.set_crossing(crossing, if crossing == Crossing::Lossy { network } else { Network::default() });
    }

    /// Runs until the end.
    ///
    /// # Errors
    /// The first failure.
    pub fn run(mut self) -> Result<Summary, Failure> {
        let result = self.play();
        self.summary.steps = self.world.steps();
        self.summary.crossed = self.world.crossed();
        self.summary.sent = self.ledger.sent.len() as u64;
        self.summary.delivered = self.ledger.deliveries;
        result.map(|()| self.summary).map_err(|what| Failure { step: self.world.steps(), what })
    }

    fn play(&mut self) -> Result<(), String> {
        self.until(self.end_us)?;
        self.calm_down();
        // Long enough for every session that is not resumed to expire.
        self.until(self.world.now_us() + 14_000_000)?;
        self.appear();
        self.settle(6_000_000)?;
        self.converse()?;
        self.block()?;
        self.publish()?;
        self.comparing = true;
        for client in self.clients.iter_mut() {
            client.get_roster();
            client.ask();
        }
        self.flush_all();
        self.settle(6_000_000)?;
        self.look();
        self.settle(6_000_000)?;
        self.clients.iter_mut().for_each(Client::ask);
        self.flush_all();
        self.settle(1_000_000)?;
        self.balance()
    }

    /// Each client queries its user's archive, in either direction, some only for messages with one
    /// user.
    fn look(&mut self) {
        if !self.world.settings().archive {
            return;
        }
        for index in 0..self.clients.len() {
            let with = index.is_multiple_of(3).then(|| self.users[index % self.users.len()].clone());
            self.clients[index].look(index.is_multiple_of(2), [100, 7, 30][index % 3], with);
        }
        self.flush_all();
    }

    fn until(&mut self, end_us: u64) -> Result<(), String> {
        while self.world.now_us() < end_us {
            let occurrence = self.world.step();
            self.happened(occurrence)?;
            if !self.world.lost.is_empty() {
                self.note_lost();
            }
        }
        Ok(())
    }

    /// Waits for this time until the clients' output has been processed, and longer if the send
    /// rate of accounts is limited.
    fn settle(&mut self, us: u64) -> Result<(), String> {
        let times = if self.world.settings().paces.ordinary.a_second == 0 { 1 } else { 10 };
        self.until(self.world.now_us() + us * times)
    }

    fn happened(&mut self, occurrence: Occurrence) -> Result<(), String> {
        match occurrence {
            Occurrence::Bytes(socket, bytes) => {
                let Some(&index) = self.owners.get(&socket) else { return Ok(()) };
                self.say(index, "<", &bytes);
                self.clients[index].bytes(&bytes);
                self.news(index)?;
                self.flush(index);
            }
            Occurrence::Ended(socket) => {
                let Some(index) = self.owners.remove(&socket) else { return Ok(()) };
                self.gone(index);
            }
            Occurrence::Timer(ORPHAN..FATE) => {}
            Occurrence::Timer(FATE) => self.fate(),
            Occurrence::Timer(MEND) => self.mend(),
            Occurrence::Timer(token) if token > MEND => self.world.abort(SocketId((token - MEND) as usize)),
            Occurrence::Timer(index) => self.act(index as usize),
            Occurrence::Turn(shard) => {
                self.turns += 1;
                if self.turns.is_multiple_of(INSPECT_TURNS) {
                    self.inspect(shard)?;
                }
            }
            // What was under way is lost, as it is in a crash.
            Occurrence::Renewed => self.crash(),
            Occurrence::Inside | Occurrence::Replied(..) => {}
        }
        Ok(())
    }

    fn tell(&self, what: &str) {
        if self.trace {
            println!("{:>9} {what}", self.world.now_us());
        }
    }

    /// Records that a client has lost its connection.
    fn gone(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let without = client.management.as_ref().is_none_or(|m| m.previd.is_empty());
        let socket = client.socket;
        let rest = client.disconnected();
        if let Some(socket) = socket.filter(|_| without) {
            // Later data may still be in transit to the kernel.
            let all = self.lost.entry(socket).or_insert(rest);
            self.ledger.excuse(&numbers(all));
        }
    }

    /// Records data that the server believes to be delivered.
    fn note_lost(&mut self) {
        for (socket, bytes) in std::mem::take(&mut self.world.lost) {
            let managed = |c: &Client| c.management.as_ref().is_some_and(|m| !m.previd.is_empty());
            let begun = match self.owners.get(&socket) {
                Some(&index) if managed(&self.clients[index]) => continue,
                Some(&index) => self.clients[index].rest(),
                // A client without stream management has abandoned the connection: `let_go` left
                // the mark.
                None if self.world.is_marked(socket) => &[],
                None => continue,
            };
            // Data arrives in pieces, and a message may span two.
            let all = self.lost.entry(socket).or_insert_with(|| begun.to_vec());
            all.extend_from_slice(&bytes);
            self.ledger.excuse(&numbers(all));
        }
    }

    /// Prints traffic, for the analysis of a failing seed.
    fn say(&self, index: usize, way: &str, bytes: &[u8]) {
        if self.trace {
            let text = String::from_utf8_lossy(bytes);
            println!("{:>9} {} {way} {text}", self.world.now_us(), self.clients[index].full());
        }
    }

    // Injects faults into the world.

    fn fate(&mut self) {
        if self.calm {
            return;
        }
        let next = self.random.range(100_000, 1_000_000);
        self.world.timer(next, FATE);
        self.retain();
        self.observe();
        if self.linking.chance(self.broken) {
            self.tell("a link breaks");
            self.world.break_link();
        }
        let while_us = self.random.range(10_000, 1_500_000);
        let faults = self.faults.clone();
        if self.random.chance(faults.crash) {
            self.crash();
        }
        if self.random.chance(faults.full) {
            self.world.storage(StorageState::Full);
            let stopped = self.random.chance(500);
            self.world.stop_commits(stopped);
            self.world.timer(while_us, MEND);
        } else if self.random.chance(faults.stop) {
            self.world.stop_commits(true);
            self.world.timer(while_us, MEND);
        }
    }

    /// One step of the sweep over archives.
    fn retain(&mut self) {
        if self.world.settings().retention_s == 0 {
            return;
        }
        let user = &self.users[self.aging.below(self.users.len() as u64) as usize];
        let home = self.world.home(user);
        let users = vec![user.as_str().into()];
        self.world.command(home, 0, Command::Log(LogCommand::Retain { users }));
    }

    /// An operator's queries: they must have no effect.
    fn observe(&mut self) {
        let user = &self.users[self.aging.below(self.users.len() as u64) as usize];
        let (home, jid) = (self.world.home(user), user.as_str().into());
        let id = self.aging.below(8);
        self.world.command(home, 0, Command::Observer(ObserverCommand::Fetch { id }));
        self.world.command(
            home,
            0,
            Command::Observer(ObserverCommand::Trace { id, jid, bodies: id.is_multiple_of(2), ms: 20_000 }),
        );
        self.world.command(home, 0, Command::Observer(ObserverCommand::Busiest { most: 10 }));
    }

    fn crash(&mut self) {
        self.tell("crash");
        self.summary.crashes += 1;
        // Messages that were not stored are lost; no promise was made for them.
        if !self.world.settings().archive {
            self.ledger.sent.iter_mut().for_each(|s| s.volatile = true);
        }
        self.ledger.sent.iter_mut().filter(|sent| !sent.kept && !sent.acked).for_each(|sent| sent.again = true);
        self.clients.iter_mut().for_each(Client::server_died);
        self.world.crash();
    }

    fn mend(&mut self) {
        // A process with a failing disk is more likely to die.
        if self.faults.crash > 0 && self.random.chance(400) {
            self.crash();
        }
        self.world.stop_commits(false);
        self.world.storage(StorageState::Ok);
    }

    /// Ends all faults.
    fn calm_down(&mut self) {
        self.calm = true;
        self.faults = Faults::default();
        self.mend();
        self.world.pace = Pace::default();
        self.world.set_network(Network::default());
        for index in 0..self.clients.len() {
            self.clients[index].prompt = true;
            self.clients[index].answer();
            if let Some(socket) = self.clients[index].socket {
                self.world.stall(socket, false);
            }
        }
        self.flush_all();
    }

    /// One client of each user publishes a few items, with time in between: a notification is
    /// dropped for sessions that have not read the previous one.
    fn publish(&mut self) -> Result<(), String> {
        self.publish_at_service()?;
        for (user, item) in (0..self.users.len()).flat_map(|user| ITEMS.map(|item| (user, item))) {
            if let Some(index) = self.clients.iter().position(|client| client.user == user) {
                self.clients[index].publish(item);
                self.flush(index);
            }
            self.until(self.world.now_us() + 300_000)?;
        }
        Ok(())
    }

    /// The first user creates a node of the service, all others subscribe to it, and the first one
    /// publishes the same items there.
    fn publish_at_service(&mut self) -> Result<(), String> {
        let first = |clients: &[Client], user| clients.iter().position(|client| client.user == user);
        for user in 0..self.users.len() {
            if let Some(index) = first(&self.clients, user) {
                let inside = match user {
                    0 => "<create node='sim'/>".to_owned(),
                    _ => format!("<subscribe node='sim' jid='{}'/>", self.users[user]),
                };
                self.clients[index].at_service(&inside);
                self.flush(index);
            }
            self.until(self.world.now_us() + 300_000)?;
        }
        for item in ITEMS {
            if let Some(index) = first(&self.clients, 0) {
                let item = format!("<publish node='sim'><item id='{item}'><x xmlns='y'/></item></publish>");
                self.clients[index].at_service(&item);
                self.flush(index);
            }
            self.until(self.world.now_us() + 300_000)?;
        }
        Ok(())
    }

    /// All clients become available with the same priority, so that all receive all messages.
    fn appear(&mut self) {
        for client in self.clients.iter_mut() {
            client.enable_carbons();
            client.show_interest();
        }
        self.flush_all();
    }
}

/// Runs a seed; a panic of the engine is a failure, too.
///
/// # Errors
/// The first failure.
pub fn run(seed: u64, plant: Option<Plant>) -> Result<Summary, Failure> {
    Run::new(seed, plant).run()
}

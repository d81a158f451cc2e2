//! A random run: users with clients that chat, change their rosters, come, go and vanish, on a world with faults; then
//! a calm in which everybody comes online, and the balance.

use std::collections::BTreeMap;

use crate::io::StorageState;
use crate::settings::{BareDelivery, Settings};
use crate::store::Table;
use crate::store::archive::{Entry, MailboxRow};
use crate::store::roster::ItemView;
use crate::testing::checks::{Ledger, Sent};
use crate::testing::client::{Client, News, Phase, numbers};
use crate::testing::net::SocketId;
use crate::testing::random::Random;
use crate::testing::world::{Occurrence, Pace, Plant, World};

/// Faults of a run, each in thousandths of the actions or moments at which it may happen.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// A client vanishes, at one of its actions.
    pub abort: u32,
    /// A client stops reading, at one of its actions.
    pub stall: u32,
    /// A client leaves requests for acknowledgement unanswered for a while.
    pub lazy: u32,
    /// A client resumes on a second connection while the first still stands.
    pub duplicate: u32,
    /// The process dies, at one of the moments (one to ten a second).
    pub crash: u32,
    /// The disk is full for a while, at one of the moments.
    pub full: u32,
    /// Commits stand still for a while, at one of the moments.
    pub stop: u32,
}

impl Faults {
    /// Whether nothing goes wrong at all.
    pub fn is_calm(&self) -> bool {
        [self.abort, self.stall, self.lazy, self.duplicate, self.crash, self.full, self.stop].iter().all(|&f| f == 0)
    }

    /// The faults of a seed: one in six has none, and each fault is in about half of the others.
    pub fn draw(random: &mut Random) -> Faults {
        if random.chance(160) {
            return Faults::default();
        }
        let mut some = |most: u64| if random.chance(500) { 1 + random.below(most) as u32 } else { 0 };
        Faults {
            abort: some(60),
            stall: some(30),
            lazy: some(100),
            duplicate: some(40),
            crash: some(150),
            full: some(60),
            stop: some(150),
        }
    }
}

/// What a run did.
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
}

/// Why a run failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Event of the world at which it was noticed.
    pub step: u64,
    /// What is wrong.
    pub what: String,
}

const ORPHAN: u64 = 1 << 32;
const FATE: u64 = 1 << 33;
const MEND: u64 = 1 << 34;
/// Shards are looked into every so many turns.
const INSPECT_TURNS: u64 = 8;

/// One run.
#[derive(Debug)]
pub struct Run {
    /// Print what clients send and get.
    pub trace: bool,
    world: World,
    random: Random,
    faults: Faults,
    clients: Vec<Client>,
    /// Number of the session of each client.
    sessions: Vec<u64>,
    sessions_made: u64,
    /// For each client the first message that must come to its session in order. None where the session stops taking
    /// messages for the bare JID in between: what has begun to wait for it then goes on waiting.
    ordered_from: Vec<u64>,
    /// For each client the first message that was sent after its session was bound.
    first: Vec<u64>,
    owners: BTreeMap<SocketId, usize>,
    users: Vec<String>,
    ledger: Ledger,
    calm: bool,
    end_us: u64,
    turns: u64,
    summary: Summary,
    /// Roster answers of the final look.
    compared: usize,
    comparing: bool,
    /// Messages may be refused, so that one whose sender is gone may vanish unheard.
    refusals: bool,
}

fn settings(random: &mut Random, shards: u16) -> Settings {
    let mut s = Settings::new("localhost", shards, [0; 32], 0);
    s.archive = random.chance(700);
    s.resume_s_max = random.range(1, 8) as u32;
    s.idle_s_max = if random.chance(300) { random.range(2, 6) as u32 } else { 600 };
    s.send_stall_s_max = random.range(2, 10) as u32;
    s.cache_s = random.range(0, 3) as u32;
    s.throttle.account_burst = 0;
    s.throttle.address_burst = 0;
    if random.chance(300) {
        s.bare_delivery = BareDelivery::MostAvailable;
    }
    if random.chance(400) {
        s.unacked_max = random.range(1, 12) as usize;
        s.outbound_bytes_soft = random.range(300, 4_000) as usize;
        s.in_flight_max = random.range(1, 8) as u16;
    }
    if random.chance(150) {
        s.outbound_bytes_max = random.range(12_000, 40_000) as usize;
        s.outbound_bytes_soft = s.outbound_bytes_soft.min(s.outbound_bytes_max / 4);
    }
    if random.chance(150) {
        s.mailbox_messages_max = random.range(3, 20) as u32;
    }
    s
}

fn pace(random: &mut Random) -> Pace {
    if random.chance(200) {
        return Pace::default();
    }
    let mut up_to = |most: u64| 1 + random.below(most);
    Pace {
        turn_us: up_to(2_000),
        net_us: up_to(30_000),
        read_bytes: 0,
        kernel_bytes: 1 << 20,
        mail_us: up_to(5_000),
        commit_us: if up_to(3) == 1 { up_to(300_000) } else { up_to(20_000) },
        read_us: up_to(20_000),
        job_us: up_to(50_000),
        detect_us: up_to(4_000_000),
    }
}

impl Run {
    /// The run of a seed.
    pub fn new(seed: u64, plant: Option<Plant>) -> Run {
        let mut random = Random::new(seed);
        let shards = random.range(2, 5) as u16;
        let faults = Faults::draw(&mut random);
        let settings = settings(&mut random, shards);
        let mut pace = pace(&mut random);
        if random.chance(300) {
            pace.read_bytes = random.range(1, 200) as usize;
        }
        if random.chance(300) {
            pace.kernel_bytes = random.range(200, 5_000) as usize;
        }
        let users: Vec<String> = ["romeo", "juliet", "nurse", "benvolio", "tybalt"][..random.range(2, 5) as usize]
            .iter()
            .map(|u| (*u).to_owned())
            .collect();
        let single = faults.is_calm() && random.chance(500);
        let mut clients = Vec::new();
        for (index, user) in users.iter().enumerate() {
            let count = if single || random.chance(400) { 1 } else { random.range(2, 3) };
            for n in 0..count {
                clients.push(Client::new(index, user, &format!("r{n}"), random.chance(700)));
            }
        }
        let refusals = faults.full > 0 || settings.mailbox_messages_max < 100 || settings.outbound_bytes_max < 1 << 20;
        let names: Vec<&str> = users.iter().map(String::as_str).collect();
        let mut world = World::new(random.next(), settings, pace, &names);
        world.plant = plant;
        let end_us = random.range(3_000, 10_000) * 1_000;
        for index in 0..clients.len() {
            world.timer(random.below(1_000_000), index as u64);
        }
        world.timer(random.below(1_000_000), FATE);
        Run {
            trace: false,
            world,
            faults,
            sessions: vec![0; clients.len()],
            ordered_from: vec![0; clients.len()],
            first: vec![0; clients.len()],
            clients,
            sessions_made: 0,
            owners: BTreeMap::new(),
            users,
            ledger: Ledger::new(single && !refusals),
            calm: false,
            end_us,
            turns: 0,
            summary: Summary::default(),
            compared: 0,
            comparing: false,
            refusals,
            random,
        }
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn run(mut self) -> Result<Summary, Failure> {
        let result = self.play();
        self.summary.steps = self.world.steps();
        self.summary.sent = self.ledger.sent.len() as u64;
        self.summary.delivered = self.ledger.deliveries;
        result.map(|()| self.summary).map_err(|what| Failure { step: self.world.steps(), what })
    }

    fn play(&mut self) -> Result<(), String> {
        self.until(self.end_us)?;
        self.calm_down();
        // Long enough for every session that nobody resumes to run out.
        self.until(self.world.now_us() + 14_000_000)?;
        self.appear();
        self.until(self.world.now_us() + 6_000_000)?;
        self.comparing = true;
        for client in self.clients.iter_mut() {
            client.get_roster();
            client.ask();
        }
        self.flush_all();
        self.until(self.world.now_us() + 6_000_000)?;
        self.balance()
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
            Occurrence::Inside | Occurrence::Replied(..) => {}
        }
        Ok(())
    }

    fn tell(&self, what: &str) {
        if self.trace {
            println!("{:>9} {what}", self.world.now_us());
        }
    }

    /// The connection of a client is gone, seen from the client.
    fn gone(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let without = client.management.as_ref().is_none_or(|m| m.previd.is_empty());
        let rest = client.disconnected();
        if without {
            self.ledger.excuse(&numbers(&rest));
        }
    }

    /// Bytes that the server believes to be with clients.
    fn note_lost(&mut self) {
        for (socket, mut bytes) in std::mem::take(&mut self.world.lost) {
            let managed = |c: &Client| c.management.as_ref().is_some_and(|m| !m.previd.is_empty());
            match self.owners.get(&socket) {
                Some(&index) if managed(&self.clients[index]) => continue,
                Some(&index) => {
                    let mut whole = self.clients[index].rest().to_vec();
                    whole.append(&mut bytes);
                    self.ledger.excuse(&numbers(&whole));
                }
                // A client without stream management has let go of the connection: `let_go` left the mark.
                None if self.world.is_marked(socket) => self.ledger.excuse(&numbers(&bytes)),
                None => {}
            }
        }
    }

    /// For a look at a seed that fails.
    fn say(&self, index: usize, way: &str, bytes: &[u8]) {
        if self.trace {
            let text = String::from_utf8_lossy(bytes);
            println!("{:>9} {} {way} {text}", self.world.now_us(), self.clients[index].full());
        }
    }

    // What clients do.

    fn flush(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if let Some(socket) = client.socket
            && !client.out.is_empty()
        {
            let bytes = std::mem::take(&mut client.out);
            self.say(index, ">", &bytes);
            self.world.write(socket, &bytes);
        }
    }

    fn flush_all(&mut self) {
        for index in 0..self.clients.len() {
            self.flush(index);
        }
    }

    fn connect(&mut self, index: usize) {
        let socket = self.world.connect();
        self.owners.insert(socket, index);
        self.clients[index].connected(socket);
        self.flush(index);
    }

    /// A client turns away from its connection; it stands for a while or is closed at once.
    fn let_go(&mut self, index: usize, linger: bool) {
        let Some(socket) = self.clients[index].socket else { return };
        let managed = self.clients[index].management.as_ref().is_some_and(|m| !m.previd.is_empty());
        if !managed {
            self.world.mark(socket);
        }
        if linger && managed {
            let later = self.random.range(1_000, 3_000_000);
            self.world.timer(later, MEND + socket.0 as u64);
            self.world.stall(socket, false);
        } else {
            self.world.abort(socket);
            self.note_lost();
        }
        self.owners.remove(&socket);
        self.gone(index);
    }

    /// One of a client's moments.
    fn act(&mut self, index: usize) {
        let next = if self.calm { 300_000 } else { self.random.range(5_000, 250_000) };
        self.world.timer(next, index as u64);
        match self.clients[index].phase {
            Phase::Offline if self.calm || self.random.chance(300) => return self.connect(index),
            Phase::Online if !self.calm => {}
            Phase::Opening | Phase::Resuming | Phase::Binding if self.random.chance(self.faults.abort) => {
                return self.let_go(index, true);
            }
            _ => return,
        }
        let faults = self.faults.clone();
        if self.random.chance(faults.abort) {
            let linger = self.random.chance(500);
            return self.let_go(index, linger);
        }
        if self.random.chance(faults.duplicate)
            && self.clients[index].management.as_ref().is_some_and(|m| !m.previd.is_empty())
        {
            self.let_go(index, true);
            return self.connect(index);
        }
        if self.random.chance(faults.stall)
            && let Some(socket) = self.clients[index].socket
        {
            self.world.stall(socket, true);
        } else if self.random.chance(300)
            && let Some(socket) = self.clients[index].socket
        {
            self.world.stall(socket, false);
        }
        if self.random.chance(faults.lazy) {
            self.clients[index].prompt ^= true;
        }
        if self.clients[index].management.as_ref().is_some_and(|m| m.owes) && self.random.chance(300) {
            self.clients[index].answer();
        }
        self.say_something(index);
        self.flush(index);
    }

    fn say_something(&mut self, index: usize) {
        let what = self.random.below(100);
        let client = &self.clients[index];
        let contact = self.random.index(self.users.len());
        let jid = format!("{}@localhost", self.users[contact]);
        match what {
            0..50 => {
                let burst = if self.random.chance(50) { self.random.range(2, 20) } else { 1 };
                for _ in 0..burst {
                    self.send_message(index);
                }
                if self.random.chance(500) {
                    self.clients[index].ask();
                }
            }
            50..58 => {
                let priority = if self.random.chance(100) { -1 } else { self.random.below(3) as i8 };
                if priority < 0 {
                    self.ordered_from[index] = u64::MAX;
                }
                self.clients[index].show(priority);
            }
            58..60 if client.available => {
                self.ordered_from[index] = u64::MAX;
                self.clients[index].available = false;
                self.clients[index].seen.clear();
                self.clients[index].stanza("<presence type='unavailable'/>".into(), None);
            }
            60..66 if contact != client.user => {
                let (id, name) = (self.clients[index].next_id(), self.random.below(5));
                let set = format!(
                    "<iq type='set' id='s{id}'><query xmlns='jabber:iq:roster'><item jid='{jid}' name='n{name}'/></query></iq>"
                );
                self.clients[index].stanza(set, None);
            }
            66..69 if contact != client.user => {
                let id = self.clients[index].next_id();
                let set = format!(
                    "<iq type='set' id='d{id}'><query xmlns='jabber:iq:roster'><item jid='{jid}' subscription='remove'/></query></iq>"
                );
                self.clients[index].stanza(set, None);
            }
            69..88 if contact != client.user => {
                let kind = match self.random.below(10) {
                    0..4 => "subscribe",
                    4..8 => "subscribed",
                    8 => "unsubscribe",
                    _ => "unsubscribed",
                };
                self.clients[index].stanza(format!("<presence to='{jid}' type='{kind}'/>"), None);
            }
            88..90 if self.clients[index].roster.is_none() => self.clients[index].get_roster(),
            90..95 => self.clients[index].ask(),
            95..98 => self.clients[index].leave(),
            _ => {}
        }
    }

    fn send_message(&mut self, index: usize) {
        let to_user = self.random.index(self.users.len());
        let bare = format!("{}@localhost", self.users[to_user]);
        let number = self.ledger.sent.len() as u64;
        let (kind, kept, to) = match self.random.below(20) {
            0 => ("headline", false, bare),
            1..4 => ("normal", true, bare),
            4..9 => {
                let others: Vec<&Client> = self.clients.iter().filter(|c| c.user == to_user).collect();
                let full = others[self.random.index(others.len())].full();
                ("chat", true, full)
            }
            _ => ("chat", true, bare),
        };
        let padding =
            if self.random.chance(50) { "x".repeat(self.random.below(3_000) as usize) } else { String::new() };
        let xml = format!("<message to='{to}' type='{kind}' id='m{number}'><body>#{number}#{padding}</body></message>");
        let client = &mut self.clients[index];
        self.ledger.sent.push(Sent {
            client: index,
            session: self.sessions[index],
            from: format!("{}@localhost", client.local),
            to_user,
            to,
            kept,
            acked: false,
            refused: false,
            delivered: false,
            excused: false,
            volatile: false,
        });
        client.stanza(xml, Some(number));
    }

    fn news(&mut self, index: usize) -> Result<(), String> {
        for news in std::mem::take(&mut self.clients[index].news) {
            match news {
                News::Message(message) => {
                    let user = self.clients[index].user;
                    // What was sent to a full JID before its session was there waits until the session is available, and
                    // what is sent to it then does not.
                    let exact = message.to.contains('/');
                    let from = self.ordered_from[index].max(if exact { self.first[index] } else { 0 });
                    self.ledger.received(user, self.sessions[index], &message, from)?;
                }
                News::Refused(number) => self.ledger.sent[number as usize].refused = true,
                News::Acked(numbers) => self.ledger.acked(&numbers),
                News::Bound => {
                    self.sessions_made += 1;
                    self.sessions[index] = self.sessions_made;
                    self.first[index] = self.ledger.sent.len() as u64;
                    let user = self.clients[index].user;
                    let alone = self.clients.iter().filter(|c| c.user == user).count() == 1;
                    self.ordered_from[index] = match (alone, self.ledger.strict) {
                        (_, true) => 0,
                        (true, false) => self.ledger.sent.len() as u64,
                        (false, false) => u64::MAX,
                    };
                    if self.calm || self.random.chance(800) {
                        self.clients[index].get_roster();
                        self.clients[index].show(0);
                    }
                }
                News::Resumed => self.summary.resumed += 1,
                News::NotResumed => {}
                News::Asked(from) => {
                    if !self.calm && self.random.chance(700) {
                        self.clients[index].stanza(format!("<presence to='{from}' type='subscribed'/>"), None);
                    }
                }
                News::Roster(known) => self.compare_roster(index, known.as_ref())?,
                News::Wrong(what) => return Err(what),
            }
        }
        Ok(())
    }

    /// Roster pushes leave a client with what the store has (RFC 6121 2.1.6).
    fn compare_roster(&mut self, index: usize, known: Option<&BTreeMap<String, String>>) -> Result<(), String> {
        if !self.comparing {
            return Ok(());
        }
        self.compared += 1;
        let client = &self.clients[index];
        match (known, &client.roster) {
            (Some(known), Some(now)) if known != now => {
                Err(format!("{} was told of roster {known:?}, but it is {now:?}", client.full()))
            }
            _ => Ok(()),
        }
    }

    // What befalls the world.

    fn fate(&mut self) {
        if self.calm {
            return;
        }
        let next = self.random.range(100_000, 1_000_000);
        self.world.timer(next, FATE);
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

    fn crash(&mut self) {
        self.tell("crash");
        self.summary.crashes += 1;
        // What stood in no store is gone; it had not to be promised.
        if !self.world.settings().archive {
            self.ledger.sent.iter_mut().for_each(|s| s.volatile = true);
        }
        self.world.crash();
    }

    fn mend(&mut self) {
        // A process with a sick disk is more likely to die than another.
        if self.faults.crash > 0 && self.random.chance(400) {
            self.crash();
        }
        self.world.stop_commits(false);
        self.world.storage(StorageState::Ok);
    }

    /// From here on nothing goes wrong any more.
    fn calm_down(&mut self) {
        self.calm = true;
        self.faults = Faults::default();
        self.mend();
        self.world.pace = Pace::default();
        for index in 0..self.clients.len() {
            self.clients[index].prompt = true;
            self.clients[index].answer();
            if let Some(socket) = self.clients[index].socket {
                self.world.stall(socket, false);
            }
        }
        self.flush_all();
    }

    /// All are available with the same priority, so that all get what there is.
    fn appear(&mut self) {
        for client in self.clients.iter_mut() {
            client.show(0);
        }
        self.flush_all();
    }

    // What must hold.

    /// Every bound of a shard (`limits`, `settings`).
    fn inspect(&self, shard: crate::id::ShardId) -> Result<(), String> {
        let (settings, seen) = (self.world.settings(), self.world.shard(shard).inspect());
        let page = 200 << 10;
        let bounds = [
            ("outbound bytes", seen.outbound_bytes, settings.outbound_bytes_max),
            ("unacknowledged bytes", seen.unacked_bytes, settings.outbound_bytes_max + page),
            ("stanzas parked", seen.parked, crate::limits::PARKED_STANZAS_MAX),
            ("roster steps waiting", seen.roster_waits, crate::limits::PARKED_STANZAS_MAX + 64),
            ("effects at the gate", self.world.gate(shard).0, 20_000),
        ];
        for (what, is, most) in bounds {
            if is > most {
                return Err(format!("{what} on shard {shard}: {is} of {most}"));
            }
        }
        Ok(())
    }

    fn balance(&self) -> Result<(), String> {
        for client in &self.clients {
            if client.phase != Phase::Online {
                return Err(format!("{} is {:?} at the end", client.full(), client.phase));
            }
            if let Some(m) = client.management.as_ref().filter(|m| !m.unacked.is_empty()) {
                return Err(format!(
                    "{} waits for {} acknowledgements: {}",
                    client.full(),
                    m.unacked.len(),
                    String::from_utf8_lossy(&m.unacked[0].0)
                ));
            }
        }
        if self.compared < self.clients.len() {
            return Err(format!("{} of {} rosters came", self.compared, self.clients.len()));
        }
        self.check_messages()?;
        self.check_archive()?;
        self.check_rosters()?;
        self.check_presence()?;
        self.check_mailboxes()
    }

    fn check_messages(&self) -> Result<(), String> {
        let missing = self.ledger.missing();
        // Where messages may be refused, the news of it may have met a sender who was gone.
        let unheard = |n: &u64| {
            self.refusals
                && self.sessions[self.ledger.sent[*n as usize].client] != self.ledger.sent[*n as usize].session
        };
        let missing: Vec<u64> = missing.into_iter().filter(|n| !unheard(n)).collect();
        match missing.first() {
            None => Ok(()),
            Some(&n) => {
                let s = &self.ledger.sent[n as usize];
                Err(format!("acknowledged messages are lost: {missing:?}; the first went from {} to {}", s.from, s.to))
            }
        }
    }

    /// What was acknowledged stands in the archive of its receiver, once, and in that of its sender.
    fn check_archive(&self) -> Result<(), String> {
        if !self.world.settings().archive {
            return Ok(());
        }
        let mut kept = [BTreeMap::new(), BTreeMap::new()];
        for (index, user) in self.users.iter().enumerate() {
            for (_, row) in self.world.disk.partition(Table::Archive, &format!("{user}@localhost")) {
                let entry = Entry::decode(row).ok_or("an archive row cannot be read")?;
                if let Some(&n) = numbers(entry.xml).first() {
                    *kept[usize::from(entry.incoming)].entry((index, n)).or_insert(0) += 1;
                }
            }
        }
        for (n, s) in self.ledger.sent.iter().enumerate() {
            let unheard = self.refusals && self.sessions[s.client] != s.session;
            let times = |way: usize, user: usize| kept[way].get(&(user, n as u64)).copied().unwrap_or(0);
            let (sent, received) = (times(0, self.clients[s.client].user), times(1, s.to_user));
            if received > 1 || sent > 1 {
                return Err(format!(
                    "message {n} stands {received} times in its receiver's archive, {sent} in its sender's"
                ));
            }
            if s.kept && s.acked && !s.refused && !unheard && (sent, received) != (1, 1) {
                return Err(format!(
                    "message {n} is acknowledged and lost from an archive: {sent} sent, {received} received"
                ));
            }
        }
        Ok(())
    }

    /// A contact's `from` is the user's `to` (RFC 6121 3, Appendix A).
    fn check_rosters(&self) -> Result<(), String> {
        let mut states = BTreeMap::new();
        for (index, user) in self.users.iter().enumerate() {
            let bare = format!("{user}@localhost");
            for (contact, row) in self.world.disk.partition(Table::Roster, &bare).filter(|(sort, _)| !sort.is_empty()) {
                let item = ItemView::decode(row).ok_or("a roster row cannot be read")?;
                let state =
                    crate::feature::subscription::State::from_number(item.state).ok_or("a roster row has no state")?;
                states.insert((index, String::from_utf8_lossy(contact).into_owned()), state);
            }
        }
        let state = |user: usize, contact: usize| {
            let found = states.get(&(user, format!("{}@localhost", self.users[contact])));
            found.map_or((false, false), |s| (s.to(), s.from()))
        };
        for user in 0..self.users.len() {
            for contact in (0..self.users.len()).filter(|&c| c != user) {
                let (to, from) = (state(user, contact).0, state(contact, user).1);
                if to != from {
                    let (u, c) = (&self.users[user], &self.users[contact]);
                    return Err(format!("{u} has to={to} for {c}, who has from={from} for {u}"));
                }
            }
        }
        Ok(())
    }

    /// Everyone sees exactly the resources of contacts and of the own account that are available (RFC 6121 4).
    fn check_presence(&self) -> Result<(), String> {
        for client in &self.clients {
            let sees = |jid: &str| {
                let roster = client.roster.as_ref();
                roster.and_then(|r| r.get(jid)).is_some_and(|s| s.starts_with("to") || s.starts_with("both"))
            };
            let wanted: BTreeMap<String, ()> = self
                .clients
                .iter()
                .filter(|other| other.user == client.user || sees(&format!("{}@localhost", other.local)))
                .map(|other| (other.full(), ()))
                .collect();
            if wanted != client.seen {
                let (wanted, seen): (Vec<_>, Vec<_>) = (wanted.keys().collect(), client.seen.keys().collect());
                return Err(format!("{} sees {seen:?}, but there are {wanted:?}", client.full()));
            }
        }
        Ok(())
    }

    /// All is delivered: the figures say so, no row is left behind, and without archive no message either.
    fn check_mailboxes(&self) -> Result<(), String> {
        for user in &self.users {
            let bare = format!("{user}@localhost");
            let mut row = MailboxRow::default();
            for (sort, value) in self.world.disk.partition(Table::Mailbox, &bare) {
                if !sort.is_empty() {
                    let id = crate::store::archive::id_of(sort).unwrap_or(0);
                    return Err(format!("{bare} has a returned row left, of {id}"));
                }
                row = MailboxRow::decode(value).ok_or("a mailbox row cannot be read")?;
            }
            if (row.count, row.bytes) != (0, 0) {
                return Err(format!(
                    "{bare} has all messages, but the mailbox counts {} of {} bytes",
                    row.count, row.bytes
                ));
            }
            let newest = self
                .world
                .disk
                .partition(Table::Archive, &bare)
                .filter(|(_, v)| Entry::decode(v).is_some_and(|e| e.incoming && e.waits));
            if let Some((sort, _)) = newest.last() {
                let id = crate::store::archive::id_of(sort).unwrap_or(0);
                if id > row.cursor {
                    return Err(format!(
                        "{bare} has all messages, but the cursor stands at {} before {id}",
                        row.cursor
                    ));
                }
                if !self.world.settings().archive {
                    return Err(format!("{bare} keeps a delivered message without archive"));
                }
            }
        }
        Ok(())
    }
}

/// Runs a seed; a panic of the engine is a failure, too.
///
/// # Errors
/// The first thing that is wrong.
pub fn run(seed: u64, plant: Option<Plant>) -> Result<Summary, Failure> {
    Run::new(seed, plant).run()
}

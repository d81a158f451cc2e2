//! A room in the simulated world: three shards, occupants that come and go, stall, vanish and
//! resume. All occupants see one order of messages (XEP-0045 7.4). An occupant that stays gets each
//! message that was acknowledged to its sender and not refused, once, however slowly it reads.

use std::collections::{BTreeMap, BTreeSet};

use throng_engine::settings::Settings;
use throng_engine::store::archive::live_entries;
use throng_engine::store::{Row, Table};
use throng_sim::client::{Client, News, Phase, numbers};
use throng_sim::net::SocketId;
use throng_sim::random::Random;
use throng_sim::world::{Crossing, Network, Occurrence, Pace, World};

/// The first one never leaves the room.
const USERS: [&str; 4] = ["nurse", "romeo", "juliet", "tybalt"];
const ROOM: &str = "cave@conference.localhost";
/// Simulated time between two actions, microseconds.
const STEP_US: u64 = 20_000;

struct Play {
    world: World,
    random: Random,
    clients: Vec<Client>,
    stalled: BTreeSet<usize>,
    /// Whether each user has entered in its present session.
    inside: BTreeSet<usize>,
    sent: u64,
    acked: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    /// Numbers of live messages in their order, by user.
    heard: BTreeMap<usize, Vec<u64>>,
}

impl Play {
    fn new(seed: u64, crossing: Crossing) -> Play {
        let mut settings = Settings::new("localhost", 3, [0; 32], 0);
        settings.serve_rooms("conference.localhost");
        settings.resume_s_max = 600;
        settings.unacked_max = 5;
        settings.outbound_bytes_soft = 3_000;
        let pace = Pace { read_bytes: 700, kernel_bytes: 2_000, ..Pace::default() };
        let mut world = World::new(seed, settings, pace, &USERS);
        world.set_crossing(crossing, Network { lost: 50, twice: 50 });
        let clients =
            (0..).zip(USERS).map(|(at, user)| Client::new(at, &format!("{user}@localhost"), "r", true)).collect();
        Play {
            world,
            random: Random::new(seed ^ 0x5eed),
            clients,
            stalled: BTreeSet::new(),
            inside: BTreeSet::new(),
            sent: 0,
            acked: BTreeSet::new(),
            refused: BTreeSet::new(),
            heard: BTreeMap::new(),
        }
    }

    /// Runs everything for this long.
    fn run(&mut self, us: u64) {
        self.world.timer(us, 7);
        loop {
            match self.world.step() {
                Occurrence::Timer(7) => return,
                Occurrence::Bytes(socket, bytes) => self.bytes(socket, &bytes),
                Occurrence::Ended(socket) => self.ended(socket),
                _ => {}
            }
        }
    }

    fn client_of(&self, socket: SocketId) -> Option<usize> {
        self.clients.iter().position(|client| client.socket == Some(socket))
    }

    fn bytes(&mut self, socket: SocketId, bytes: &[u8]) {
        let Some(at) = self.client_of(socket) else { return };
        self.clients[at].bytes(bytes);
        for news in std::mem::take(&mut self.clients[at].news) {
            match news {
                News::Acked(all) => self.acked.extend(all),
                News::Refused(number) => drop(self.refused.insert(number)),
                News::Message(received) if received.from == ROOM => {
                    assert!(!received.delayed, "no history was requested");
                    self.heard.entry(at).or_default().push(received.number);
                }
                News::Bound => drop(self.inside.remove(&at)),
                News::Wrong(what) => panic!("{what}"),
                _ => {}
            }
        }
        self.flush(at);
    }

    fn flush(&mut self, at: usize) {
        let out = std::mem::take(&mut self.clients[at].out);
        if let Some(socket) = self.clients[at].socket.filter(|_| !out.is_empty()) {
            self.world.write(socket, &out);
        }
    }

    fn ended(&mut self, socket: SocketId) {
        if let Some(at) = self.client_of(socket) {
            self.clients[at].disconnected();
            self.stalled.remove(&at);
        }
    }

    fn connect(&mut self, at: usize) {
        let socket = self.world.connect();
        self.clients[at].connected(socket);
        self.flush(at);
    }

    fn is_online(&self, at: usize) -> bool {
        self.clients[at].phase == Phase::Online && self.clients[at].management.is_some()
    }

    fn say(&mut self, at: usize) {
        let number = self.sent;
        self.sent += 1;
        let filler = "x".repeat(self.random.index(900));
        let xml =
            format!("<message to='{ROOM}' type='groupchat' id='m{number}'><body>#{number}#{filler}</body></message>");
        self.clients[at].stanza(xml, Some(number));
        self.clients[at].ask();
        self.flush(at);
    }

    fn enter(&mut self, at: usize) {
        let nick = USERS[at];
        self.inside.insert(at);
        let x = "<x xmlns='http://jabber.org/protocol/muc'><history maxstanzas='0'/></x>";
        self.clients[at].stanza(format!("<presence to='{ROOM}/{nick}'>{x}</presence>"), None);
        if at == 0 {
            let form = "<x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_persistentroom'><value>1</value></field></x>";
            let query = format!("<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>");
            self.clients[at].stanza(format!("<iq type='set' id='own' to='{ROOM}'>{query}</iq>"), None);
        }
        self.flush(at);
    }

    fn stall(&mut self, at: usize, on: bool) {
        let Some(socket) = self.clients[at].socket else { return };
        self.world.stall(socket, on);
        if on {
            self.stalled.insert(at)
        } else {
            self.stalled.remove(&at)
        };
    }

    /// One random action. A session whose stanza was lost cannot be resumed: after renewals, the one
    /// who stays keeps the connection.
    fn act(&mut self, trouble: Trouble) {
        let at = self.random.index(self.clients.len());
        match self.random.below(100) {
            0..=5 => {
                let on = !self.stalled.contains(&at);
                self.stall(at, on);
            }
            6..=9 if at != 0 || trouble != Trouble::Renewals => {
                if let Some(socket) = self.clients[at].socket {
                    self.world.abort(socket);
                    self.clients[at].disconnected();
                    self.stalled.remove(&at);
                }
            }
            10..=13 if at != 0 && self.is_online(at) && self.inside.contains(&at) => {
                self.inside.remove(&at);
                self.clients[at].stanza(format!("<presence type='unavailable' to='{ROOM}/x'/>"), None);
                self.flush(at);
            }
            14..=35 if self.clients[at].socket.is_none() => self.connect(at),
            14..=40 if self.is_online(at) && !self.inside.contains(&at) => self.enter(at),
            41.. if self.is_online(at) => self.say(at),
            _ => {}
        }
    }

    /// All are connected and take their output until nothing waits any more.
    fn settle(&mut self) {
        for _ in 0..90 {
            for at in 0..self.clients.len() {
                self.stall(at, false);
                match self.clients[at].socket {
                    None => self.connect(at),
                    Some(_) if self.is_online(at) => {
                        self.clients[at].answer();
                        self.clients[at].ask();
                        self.flush(at);
                    }
                    Some(_) => {}
                }
            }
            self.run(1_000_000);
        }
    }

    /// The numbers of the messages in the archive of the room.
    fn archived(&self) -> BTreeSet<u64> {
        let rows = self.world.disk.rows_of(Table::Archive, ROOM);
        let rows: Vec<Row> = rows.map(|(sort, value)| Row { sort: sort.into(), value: value.into() }).collect();
        let entries = live_entries(&rows).expect("whole rows");
        entries.iter().flat_map(|(_, entry)| numbers(entry.xml)).collect()
    }

    /// Checks the order and completeness of what each one has received.
    fn check(&self, seed: u64) {
        let all = &self.heard[&0];
        let places: BTreeMap<u64, usize> = all.iter().enumerate().map(|(place, number)| (*number, place)).collect();
        assert_eq!(places.len(), all.len(), "seed {seed}: the one who stays got something twice: {all:?}");
        for number in self.acked.difference(&self.refused) {
            assert!(
                places.contains_key(number),
                "seed {seed}: {number} was acknowledged, and the one who stays missed it"
            );
        }
        for (at, heard) in &self.heard {
            let order: Vec<Option<&usize>> = heard.iter().map(|number| places.get(number)).collect();
            assert!(order.iter().all(Option::is_some), "seed {seed}: {} got what others did not", USERS[*at]);
            assert!(order.is_sorted_by(|a, b| a < b), "seed {seed}: {} saw another order: {heard:?}", USERS[*at]);
        }
    }

    /// Checks that all stanzas were counted.
    fn check_counts(&self, seed: u64) {
        for client in &self.clients {
            let left = client.management.as_ref().map_or(0, |management| management.unacked.len());
            assert_eq!((client.phase, left), (Phase::Online, 0), "seed {seed}: {} waits for ever", client.bare);
        }
    }
}

/// What goes wrong from time to time.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    Nothing,
    /// The process dies.
    Crashes,
    /// The links between shards carry nothing for a while, and are then renewed.
    Renewals,
}

fn played(seed: u64, crossing: Crossing, trouble: Trouble) -> Play {
    let mut play = Play::new(seed, crossing);
    (0..USERS.len()).for_each(|at| play.connect(at));
    play.run(2_000_000);
    play.enter(0);
    play.run(1_000_000);
    for _ in 0..500 {
        if trouble != Trouble::Nothing && play.random.chance(6) {
            match trouble {
                Trouble::Nothing => {}
                Trouble::Crashes => play.world.crash(),
                Trouble::Renewals => {
                    play.world.set_network(Network { lost: 1_000, twice: 0 });
                    (0..USERS.len())
                        .filter(|at| play.is_online(*at))
                        .collect::<Vec<_>>()
                        .into_iter()
                        .for_each(|at| play.say(at));
                    play.run(200_000);
                    play.world.break_links();
                    play.world.set_network(Network { lost: 50, twice: 50 });
                }
            }
        }
        play.act(trouble);
        let us = play.random.below(STEP_US);
        play.run(us + 1);
    }
    play.settle();
    play
}

fn play(seed: u64, crossing: Crossing) -> (usize, u64) {
    let play = played(seed, crossing, Trouble::Nothing);
    play.check(seed);
    play.check_counts(seed);
    let behind = play.world.shards().map(|shard| play.world.shard(shard).counters().room_behind.get()).sum();
    (play.heard.values().map(Vec::len).sum(), behind)
}

#[test]
fn all_see_one_order_and_who_stays_misses_nothing() {
    let (mut heard, mut behind) = (0, 0);
    for seed in 0..24 {
        let crossing = [Crossing::Direct, Crossing::Encoded, Crossing::Lossy][seed as usize % 3];
        let (some, fell) = play(seed, crossing);
        (heard, behind) = (heard + some, behind + fell);
    }
    assert!(heard > 3_000 && behind > 50, "{heard} messages, {behind} times behind");
}

/// Letters that a renewed link has lost do not come again: sessions in the room read what they have
/// missed in its archive, in order and once.
#[test]
fn what_a_renewed_link_has_lost_is_read_in_the_archive() {
    let (mut heard, mut behind) = (0, 0);
    for seed in 200..216 {
        let play = played(seed, Crossing::Lossy, Trouble::Renewals);
        play.check(seed);
        behind += play.world.shards().map(|shard| play.world.shard(shard).counters().room_behind.get()).sum::<u64>();
        heard += play.heard.values().map(Vec::len).sum::<usize>();
    }
    assert!(heard > 500 && behind > 16, "{heard} messages, {behind} times behind");
}

/// What was acknowledged is in the archive, though the process dies again and again; and who resumes
/// is in the room (XEP-0198 5): the message of one who is not there would be refused.
#[test]
fn what_was_acknowledged_is_archived_when_the_process_dies() {
    let (mut acked, mut lasting) = (0, 0);
    for seed in 100..116 {
        let play = played(seed, Crossing::Direct, Trouble::Crashes);
        let archived = play.archived();
        let missing: Vec<&u64> =
            play.acked.difference(&play.refused).filter(|number| !archived.contains(number)).collect();
        assert!(missing.is_empty(), "seed {seed}: acknowledged, and in no archive: {missing:?}");
        acked += play.acked.len();
        lasting += play.heard.get(&0).map_or(0, Vec::len);
    }
    assert!(acked > 1_000 && lasting > 500, "{acked} acknowledged, {lasting} heard by the one who stays");
}

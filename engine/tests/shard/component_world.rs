//! A component in the simulated world: three shards, clients that come and go and resume, a
//! component that stalls, vanishes and comes back, and a process that dies. Everything that the
//! server acknowledged to a sender has reached the component, was returned with an error, or was
//! with the network when the component vanished (XEP-0198 4). It arrives in order and once, except
//! for data in flight when the process died: a component acknowledges nothing, so that may arrive
//! once more.

use std::collections::{BTreeMap, BTreeSet};

use sha1::Digest as _;
use throng_engine::extension::service::SharedSecret;
use throng_engine::settings::Settings;
use throng_sim::client::{Client, News, Phase, numbers};
use throng_sim::net::SocketId;
use throng_sim::random::Random;
use throng_sim::world::{Occurrence, Pace, World};
use throng_sim::xml::{Item, Reader};

const SECRET: &str = "an excellent secret";
const USERS: [&str; 3] = ["romeo", "juliet", "nurse"];
/// Simulated time between two actions, microseconds.
const STEP_US: u64 = 20_000;

/// The component as seen from outside the server.
#[derive(Default)]
struct Component {
    socket: Option<SocketId>,
    /// All its sockets so far.
    sockets: Vec<SocketId>,
    reader: Reader,
    seated: bool,
    stalled: bool,
    /// Number of crashes of the server before its connection was opened.
    process: u32,
    /// Messages from each user in order of arrival, with the process that sent them.
    heard: BTreeMap<String, Vec<(u32, u64)>>,
}

struct Play {
    world: World,
    random: Random,
    clients: Vec<Client>,
    component: Component,
    sent: u64,
    acked: BTreeSet<u64>,
    refused: BTreeSet<u64>,
    /// Answers of the component that users have received.
    answered: BTreeSet<u64>,
    seats: u32,
    crashes: u32,
    /// Data that was with the network and did not reach the component, by connection; preceded by
    /// the received part of a stanza.
    lost: BTreeMap<SocketId, Vec<u8>>,
}

impl Play {
    fn new(seed: u64) -> Play {
        let mut settings = Settings::new("localhost", 3, [0; 32], 0);
        settings.serve_component("echo.localhost", SharedSecret(SECRET.into()));
        settings.component_queue_bytes_max = 1 << 20;
        settings.resume_s_max = 120;
        let pace = Pace { read_bytes: 700, kernel_bytes: 2_000, ..Pace::default() };
        let world = World::new(seed, settings, pace, &USERS);
        let clients =
            (0..).zip(USERS).map(|(at, user)| Client::new(at, &format!("{user}@localhost"), "r", true)).collect();
        Play {
            world,
            random: Random::new(seed ^ 0x5eed),
            clients,
            component: Component::default(),
            sent: 0,
            acked: BTreeSet::new(),
            refused: BTreeSet::new(),
            answered: BTreeSet::new(),
            seats: 0,
            crashes: 0,
            lost: BTreeMap::new(),
        }
    }

    /// Runs everything for this long.
    fn run(&mut self, us: u64) {
        self.world.timer(us, 7);
        loop {
            let occurrence = self.world.step();
            self.note_lost();
            match occurrence {
                Occurrence::Timer(7) => return,
                Occurrence::Bytes(socket, bytes) => self.bytes(socket, &bytes),
                Occurrence::Ended(socket) => self.ended(socket),
                _ => {}
            }
        }
    }

    fn note_lost(&mut self) {
        for (socket, bytes) in std::mem::take(&mut self.world.lost) {
            let begun = if self.component.socket == Some(socket) { self.component.reader.rest() } else { b"" };
            // Data arrives in pieces, and a message may be split across two.
            self.lost.entry(socket).or_insert_with(|| begun.to_vec()).extend_from_slice(&bytes);
        }
    }

    fn bytes(&mut self, socket: SocketId, bytes: &[u8]) {
        if self.component.sockets.contains(&socket) {
            // It ignores data on an abandoned connection.
            if self.component.socket == Some(socket) {
                self.component.reader.push(bytes);
                self.component_reads(socket);
            }
            return;
        }
        if let Some(at) = self.clients.iter().position(|client| client.socket == Some(socket)) {
            self.clients[at].bytes(bytes);
            self.news(at);
            self.flush(at);
        }
    }

    fn flush(&mut self, at: usize) {
        let out = std::mem::take(&mut self.clients[at].out);
        if let Some(socket) = self.clients[at].socket.filter(|_| !out.is_empty()) {
            self.world.write(socket, &out);
        }
    }

    fn news(&mut self, at: usize) {
        for news in std::mem::take(&mut self.clients[at].news) {
            match news {
                News::Acked(all) => self.acked.extend(all),
                News::Refused(number) => drop(self.refused.insert(number)),
                News::Message(received) => drop(self.answered.insert(received.number)),
                News::Wrong(what) => panic!("{what}"),
                News::Bound => {
                    self.clients[at].out.extend_from_slice(b"");
                }
                _ => {}
            }
        }
    }

    fn ended(&mut self, socket: SocketId) {
        if self.component.socket == Some(socket) {
            self.lost.entry(socket).or_insert_with(|| self.component.reader.rest().to_vec());
            self.component = Component {
                sockets: std::mem::take(&mut self.component.sockets),
                heard: std::mem::take(&mut self.component.heard),
                ..Component::default()
            };
        } else if let Some(client) = self.clients.iter_mut().find(|client| client.socket == Some(socket)) {
            client.disconnected();
        }
    }

    fn component_reads(&mut self, socket: SocketId) {
        while let Some(item) = self.component.reader.next().expect("the server speaks XML") {
            match item {
                Item::Header(node) => {
                    let id = node.attribute("id").expect("an id");
                    let digest = sha1::Sha1::digest([id, SECRET].concat());
                    let proof: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                    self.world.write(socket, format!("<handshake>{proof}</handshake>").as_bytes());
                }
                Item::End => self.world.write(socket, b"</stream:stream>"),
                Item::Element(node) if node.name == "handshake" => {
                    self.component.seated = true;
                    self.seats += 1;
                }
                Item::Element(node) if node.name == "message" && node.attribute("type") == Some("chat") => {
                    let from = node.attribute("from").expect("a sender").to_owned();
                    let number = node.child("body").and_then(|body| numbers(body.text.as_bytes()).first().copied());
                    let Some(number) = number else { continue };
                    let user = from.split('@').next().unwrap_or_default().to_owned();
                    let process = self.component.process;
                    self.component.heard.entry(user).or_default().push((process, number));
                    // Every third message is answered, and the answer waits if it has to.
                    if number % 3 == 0 {
                        let bare = from.split('/').next().unwrap_or_default();
                        let answer = format!(
                            "<message from='x@echo.localhost' to='{bare}' type='chat'><body>#{number}#</body></message>"
                        );
                        self.world.write(socket, answer.as_bytes());
                    }
                }
                Item::Element(_) => {}
            }
        }
    }

    fn connect_component(&mut self) {
        let socket = self.world.connect_component();
        self.component.socket = Some(socket);
        self.component.sockets.push(socket);
        self.component.process = self.crashes;
        let header = "<stream:stream xmlns='jabber:component:accept' xmlns:stream='http://etherx.jabber.org/streams' to='echo.localhost'>";
        self.world.write(socket, header.as_bytes());
    }

    fn connect(&mut self, at: usize) {
        let socket = self.world.connect();
        self.clients[at].connected(socket);
        self.flush(at);
    }

    fn say(&mut self, at: usize) {
        let number = self.sent;
        self.sent += 1;
        let filler = "x".repeat(self.random.index(3_000));
        let xml = format!(
            "<message to='x@echo.localhost/r' type='chat' id='m{number}'><body>#{number}#{filler}</body></message>"
        );
        self.clients[at].stanza(xml, Some(number));
        self.clients[at].ask();
        self.flush(at);
    }

    /// One random action.
    fn act(&mut self, crashes: bool) {
        let at = self.random.index(self.clients.len());
        match self.random.below(100) {
            0 if crashes => {
                self.world.crash();
                self.crashes += 1;
            }
            1 => {
                if let Some(socket) = self.component.socket {
                    // It vanishes.
                    self.ended(socket);
                    self.world.abort(socket);
                }
            }
            2 => {
                if let Some(socket) = self.component.socket.filter(|_| self.component.seated) {
                    self.world.write(socket, b"</stream:stream>");
                }
            }
            3..=9 => {
                if let Some(socket) = self.component.socket {
                    self.component.stalled = !self.component.stalled;
                    self.world.stall(socket, self.component.stalled);
                }
            }
            10..=13 => {
                if let Some(socket) = self.clients[at].socket {
                    self.world.abort(socket);
                    self.clients[at].disconnected();
                }
            }
            14..=25 if self.component.socket.is_none() => self.connect_component(),
            26..=35 if self.clients[at].socket.is_none() => self.connect(at),
            _ if self.clients[at].phase == Phase::Online && self.clients[at].management.is_some() => self.say(at),
            _ => {}
        }
    }

    /// All are connected and take their output until nothing waits any more.
    fn settle(&mut self) {
        for _ in 0..60 {
            if let Some(socket) = self.component.socket {
                self.component.stalled = false;
                self.world.stall(socket, false);
            } else {
                self.connect_component();
            }
            for at in 0..self.clients.len() {
                match self.clients[at].socket {
                    None => self.connect(at),
                    Some(_) if self.clients[at].phase == Phase::Online => {
                        if !self.clients[at].available {
                            self.clients[at].show(0);
                        }
                        self.clients[at].ask();
                        self.flush(at);
                    }
                    Some(_) => {}
                }
            }
            self.run(1_000_000);
        }
    }

    fn check(&self, seed: u64) {
        let heard: BTreeSet<u64> = self.component.heard.values().flatten().map(|(_, number)| *number).collect();
        let of_component = |(socket, _): &(&SocketId, &Vec<u8>)| self.component.sockets.contains(socket);
        let lost: BTreeSet<u64> = self.lost.iter().filter(of_component).flat_map(|(_, bytes)| numbers(bytes)).collect();
        for number in &self.acked {
            let known = heard.contains(number) || self.refused.contains(number) || lost.contains(number);
            assert!(known, "seed {seed}: message {number} was acknowledged, and is nowhere");
        }
        for (user, all) in &self.component.heard {
            assert!(
                all.is_sorted_by(|a, b| a < b),
                "seed {seed}: of {user} out of order or twice by one process: {all:?}"
            );
        }
        for client in &self.clients {
            let left = client.management.as_ref().map_or(0, |management| management.unacked.len());
            assert_eq!((client.phase, left), (Phase::Online, 0), "seed {seed}: {} waits for ever", client.bare);
        }
    }
}

fn play(seed: u64, crashes: bool) -> Play {
    let mut play = Play::new(seed);
    play.connect_component();
    (0..USERS.len()).for_each(|at| play.connect(at));
    play.run(2_000_000);
    for _ in 0..600 {
        play.act(crashes);
        let us = play.random.below(STEP_US);
        play.run(us + 1);
    }
    play.settle();
    play.check(seed);
    play
}

#[test]
fn what_was_acknowledged_has_arrived_or_come_back_or_was_with_the_network() {
    let mut all = (0, 0, 0, 0);
    for seed in 0..12 {
        let play = play(seed, false);
        let heard: usize = play.component.heard.values().map(Vec::len).sum();
        all = (all.0 + play.sent, all.1 + heard as u64, all.2 + play.refused.len() as u64, all.3 + play.answered.len());
        assert!(play.seats > 1, "seed {seed}: it came back");
    }
    let (sent, heard, refused, answered) = all;
    assert!(sent > 1_000 && heard > sent / 4 && refused > 0 && answered > 100, "{all:?}");
}

#[test]
fn the_same_holds_when_the_process_dies() {
    for seed in 100..112 {
        play(seed, true);
    }
}

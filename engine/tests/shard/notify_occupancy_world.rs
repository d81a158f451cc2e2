//! Subscribers of channels (`/n/`), on several shards in a world with delays, losses and crashes:
//! in the end all reports show who is present, and a query returns the same.

use std::collections::{BTreeMap, BTreeSet};

use throng_engine::limits::NOTIFY_RENEW_S;
use throng_sim::net::SocketId;
use throng_sim::world::{Occurrence, Pace, Plant, World};

use crate::notify_occupancy::{may, telling};
use crate::notify_world::{KEY, first_frame, settings, upgrade};

/// Start of the world, seconds since the Unix epoch.
const NOW_S: u64 = 1_767_225_600;
const CHANNEL: &str = "own.a";

/// A subscriber that wants to know the others.
#[derive(Debug)]
struct Hearer {
    socket: SocketId,
    by_socket: bool,
    heard: Vec<u8>,
    read: usize,
    subscribers: u64,
    names: BTreeSet<String>,
    /// The time of arrival of each message, microseconds.
    told_us: Vec<u64>,
    more: bool,
}

struct Stage {
    world: World,
    hearers: Vec<Hearer>,
    /// Others, by their names.
    others: BTreeMap<String, Vec<SocketId>>,
    asked: Option<(SocketId, String)>,
}

fn strings(text: &str, name: &str) -> Vec<String> {
    let list = text.split(&format!("\"{name}\":[")).nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    list.split(',').map(|name| name.trim_matches('"').to_owned()).filter(|name| !name.is_empty()).collect()
}

fn names(text: &str) -> BTreeSet<String> {
    text.split("{\"name\":\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

fn number(text: &str) -> u64 {
    let rest = text.split("\"subscribers\":").nth(1).expect("a number");
    rest.split(',').next().and_then(|number| number.parse().ok()).expect("a number")
}

impl Stage {
    fn new(seed: u64, shards: u16) -> Stage {
        let pace = Pace { read_bytes: [0, 100, 4_096][seed as usize % 3], ..Pace::default() };
        let mut world = World::new(seed, settings(shards, telling()), pace, &[]);
        world.http = true;
        Stage { world, hearers: Vec::new(), others: BTreeMap::new(), asked: None }
    }

    fn fields(&self, name: &str) -> String {
        may(NOW_S, &format!(",\"sub\":\"{name}\",\"presence\":[\"own.*\"]"))
    }

    fn hears(&mut self, by_socket: bool) {
        let socket = self.world.connect();
        self.subscribe(socket, by_socket, &format!("hearer{}", self.hearers.len()), "?occupancy=1");
        let (heard, told_us) = (Vec::new(), Vec::new());
        let hearer =
            Hearer { socket, by_socket, heard, read: 0, subscribers: 0, names: BTreeSet::new(), told_us, more: false };
        self.hearers.push(hearer);
    }

    fn subscribe(&mut self, socket: SocketId, by_socket: bool, name: &str, query: &str) {
        let fields = self.fields(name);
        let ask = match by_socket {
            true => upgrade(&format!("{CHANNEL}{query}"), &format!("{KEY}{fields}")),
            false => format!(
                "GET /n/{CHANNEL}{query} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{fields}\r\n"
            ),
        };
        self.world.write(socket, ask.as_bytes());
    }

    fn joins(&mut self, name: &str) {
        let socket = self.world.connect();
        self.subscribe(socket, false, name, "");
        self.others.entry(name.to_owned()).or_default().push(socket);
    }

    fn leaves(&mut self, name: &str) {
        let Some(socket) = self.others.get_mut(name).and_then(Vec::pop) else { return };
        self.world.finish(socket);
    }

    fn step(&mut self) {
        match self.world.step() {
            Occurrence::Bytes(socket, bytes) => {
                let now_us = self.world.now_us();
                if let Some(hearer) = self.hearers.iter_mut().find(|hearer| hearer.socket == socket) {
                    hearer.heard.extend_from_slice(&bytes);
                    hearer.take(now_us);
                } else if let Some((_, text)) = self.asked.as_mut().filter(|(asks, _)| *asks == socket) {
                    *text += std::str::from_utf8(&bytes).unwrap();
                }
            }
            Occurrence::Ended(_) | Occurrence::Inside => {}
            _ => {}
        }
    }

    fn run(&mut self, ms: u64) {
        let until = self.world.now_us() + ms * 1_000;
        while self.world.now_us() < until {
            self.step();
        }
    }

    /// The answer to a query.
    fn asks(&mut self) -> String {
        let socket = self.world.connect();
        let fields = self.fields("asks");
        let ask = format!("GET /n/{CHANNEL}?occupancy HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
        self.world.write(socket, ask.as_bytes());
        self.asked = Some((socket, String::new()));
        for _ in 0..100 {
            self.run(200);
            let text = self.asked.as_ref().map(|(_, text)| text.clone()).unwrap_or_default();
            // A letter was lost: the client repeats the query.
            if text.ends_with("}\n") || text.contains(" 503 ") {
                self.world.finish(socket);
                let text = text.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
                return if text.starts_with('{') { text } else { self.asks() };
            }
        }
        panic!("no answer");
    }

    /// All reports show who is present, and a query returns the same.
    fn expect(&mut self, seed: u64) {
        let mut there: BTreeSet<String> = (0..self.hearers.len()).map(|number| format!("hearer{number}")).collect();
        let others = self.others.iter().filter(|(_, sockets)| !sockets.is_empty());
        there.extend(others.map(|(name, _)| name.clone()));
        let subscribers = self.hearers.len() + self.others.values().map(Vec::len).sum::<usize>();
        let asked = self.asks();
        assert_eq!((names(&asked), number(&asked)), (there.clone(), subscribers as u64), "seed {seed}: {asked}");
        for (at, hearer) in self.hearers.iter().enumerate() {
            assert!(!hearer.more, "seed {seed}, {at}");
            assert_eq!((&hearer.names, hearer.subscribers), (&there, subscribers as u64), "seed {seed}, {at}");
        }
    }
}

impl Hearer {
    fn take(&mut self, now_us: u64) {
        let heard = std::mem::take(&mut self.heard);
        if self.read == 0 {
            let head = heard.windows(4).position(|at| at == b"\r\n\r\n");
            self.read = head.map_or(0, |end| end + 4);
        }
        while self.read > 0 {
            let rest = &heard[self.read..];
            let (text, length) = match self.by_socket {
                true => match first_frame(rest).filter(|_| !rest.is_empty()) {
                    Some(message) => message,
                    None => break,
                },
                false => match rest.windows(2).position(|at| at == b"\n\n") {
                    Some(end) => (String::from_utf8(rest[..end].to_vec()).unwrap(), end + 2),
                    None => break,
                },
            };
            self.read += length;
            if text.contains("\"subscribers\"") {
                self.told(&text, now_us);
            }
        }
        self.heard = heard;
    }

    fn told(&mut self, text: &str, now_us: u64) {
        self.subscribers = number(text);
        self.told_us.push(now_us);
        if text.contains("\"who\"") {
            self.names = names(text);
            self.more = text.contains("\"more\":true");
            return;
        }
        self.names.extend(strings(text, "joined"));
        strings(text, "left").iter().for_each(|name| {
            self.names.remove(name);
        });
    }

    /// The maximum number of messages in one second.
    fn most(&self) -> usize {
        let within = |from: &u64| self.told_us.iter().filter(|at| (*from..from + 1_000_000).contains(at)).count();
        self.told_us.iter().map(within).max().unwrap_or_default()
    }
}

/// Named subscribers come and go at random shards.
fn traffic(stage: &mut Stage, seed: u64, rounds: u64) {
    for round in 0..rounds {
        let name = format!("name{}", (seed * 7 + round * 5) % 11);
        match (seed + round * 3) % 5 {
            0 | 1 => stage.leaves(&name),
            _ => stage.joins(&name),
        }
        stage.run((seed * 31 + round * 17) % 700);
    }
}

#[test]
fn all_shards_know_who_subscribes_at_any() {
    for seed in 0..8 {
        let mut stage = Stage::new(seed, 1 + (seed % 4) as u16);
        (0..5).for_each(|number| stage.hears(number % 2 == 0));
        traffic(&mut stage, seed, 40);
        // Some subscribe to reports later.
        (0..2).for_each(|number| stage.hears(number % 2 == 0));
        traffic(&mut stage, seed, 10);
        stage.run(4_000);
        stage.expect(seed);
        for hearer in &stage.hearers {
            // The network may join two, and the first one is the answer to the request.
            assert!(hearer.most() <= 3, "seed {seed}: {:?}", hearer.told_us);
            assert!(hearer.told_us.len() > 3, "seed {seed}");
        }
    }
}

#[test]
fn lost_letters_matter_until_the_next_round() {
    for seed in 0..8 {
        let mut stage = Stage::new(100 + seed, 3);
        (0..5).for_each(|number| stage.hears(number % 2 == 0));
        stage.run(5_000);
        stage.world.plant = Some(Plant::LostBatch);
        for _ in 0..4 {
            traffic(&mut stage, seed, 40);
        }
        let names: Vec<_> = stage.others.keys().cloned().collect();
        for name in names {
            while !stage.others[&name].is_empty() {
                stage.leaves(&name);
            }
        }
        stage.world.plant = None;
        // Reports from each shard, and then the home's answer.
        stage.run(2 * u64::from(NOTIFY_RENEW_S) * 1_000 + 5_000);
        stage.expect(seed);
    }
}

#[test]
fn a_crash_leaves_nobody_behind() {
    for seed in 0..6 {
        let mut stage = Stage::new(200 + seed, 3);
        (0..4).for_each(|number| stage.hears(number % 2 == 0));
        traffic(&mut stage, seed, 20);
        stage.world.crash();
        stage.run(1_000);
        stage.hearers.clear();
        stage.others.clear();
        // All were disconnected; some return.
        (0..3).for_each(|number| stage.hears(number % 2 == 1));
        traffic(&mut stage, seed + 1, 10);
        stage.run(4_000);
        stage.expect(seed);
    }
}

//! Sessions whose requests arrive at any shard: the stream half is at one shard and moves;
//! connections break and are replaced.

use throng_engine::settings::Settings;
use throng_sim::net::SocketId;
use throng_sim::world::{Occurrence, Pace, World};

use super::desk::{Answer, BIND, PRESENCE, RID, answers, body, plain, request};

/// A client with two connections and one request at a time on each, like a browser.
struct Peer {
    user: &'static str,
    sid: String,
    rid: u64,
    sockets: [SocketId; 2],
    /// The open request on each: number and bytes.
    open: [Option<(u64, Vec<u8>)>; 2],
    heard: [Vec<u8>; 2],
    /// Answers that arrived before an earlier one.
    early: Vec<(u64, Answer)>,
    next: u64,
    wants: Vec<(String, String)>,
    inbox: Vec<String>,
    /// Set once `type='terminate'` has arrived.
    ended: Option<String>,
}

impl Peer {
    fn new(world: &mut World, user: &'static str) -> Peer {
        let sockets = [world.connect(), world.connect()];
        let mut peer = Peer {
            user,
            sid: String::new(),
            rid: RID,
            sockets,
            open: [None, None],
            heard: [Vec::new(), Vec::new()],
            early: Vec::new(),
            next: RID,
            wants: Vec::new(),
            inbox: Vec::new(),
            ended: None,
        };
        let first = body(&format!("rid='{RID}' to='localhost' ver='1.6' wait='30' hold='1'"), "");
        peer.put(world, 0, RID, request(&first));
        peer
    }

    fn put(&mut self, world: &mut World, at: usize, rid: u64, bytes: Vec<u8>) {
        world.write(self.sockets[at], &bytes);
        self.open[at] = Some((rid, bytes));
        self.heard[at].clear();
    }

    fn say(&mut self, world: &mut World, attributes: &str, content: &str) {
        self.wants.push((attributes.into(), content.into()));
        self.go_on(world);
    }

    /// Sends pending stanzas, or else keeps one request open.
    fn go_on(&mut self, world: &mut World) {
        // Not too far ahead of the first unanswered one: the window of 14.2.
        while !self.sid.is_empty() && self.ended.is_none() && self.rid < self.next + 1 {
            let idle = self.open.iter().all(Option::is_none);
            let Some(at) = self.open.iter().position(Option::is_none).filter(|_| idle || !self.wants.is_empty()) else {
                return;
            };
            let (attributes, content) = if self.wants.is_empty() { Default::default() } else { self.wants.remove(0) };
            self.rid += 1;
            let next = body(&format!("sid='{}' rid='{}' {attributes}", self.sid, self.rid), &content);
            self.put(world, at, self.rid, request(&next));
        }
    }

    /// Sends the request of a broken connection again on another one.
    fn again(&mut self, world: &mut World, at: usize) {
        self.sockets[at] = world.connect();
        self.heard[at].clear();
        if let Some((_, bytes)) = &self.open[at] {
            world.write(self.sockets[at], bytes);
        }
    }

    fn hears(&mut self, world: &mut World, socket: SocketId, bytes: &[u8]) {
        let Some(at) = self.sockets.iter().position(|own| *own == socket) else { return };
        self.heard[at].extend_from_slice(bytes);
        let text = String::from_utf8_lossy(&self.heard[at]);
        let Some((head, rest)) = text.split_once("\r\n\r\n") else { return };
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap().parse().unwrap();
        if rest.len() < length {
            return;
        }
        assert_eq!(rest.len(), length, "one answer for a request: {text}");
        let answer = answers(&self.heard[at]).remove(0);
        self.heard[at].clear();
        if answer.status == 408 {
            // The server closed an unused connection without having seen the request in flight.
            return;
        }
        assert_eq!(answer.status, 200, "{answer:?}");
        // A request that was repeated before the server noticed its broken connection: the answer
        // is elsewhere.
        let Some((rid, bytes)) = self.open[at].take() else { panic!("nothing was asked: {answer:?}") };
        if answer.attr("type").as_deref() == Some("error") {
            // The earlier connection's copy arrived later and would get the answer (17.4).
            return self.put(world, at, rid, bytes);
        }
        self.early.push((rid, answer));
        while let Some(found) = self.early.iter().position(|(rid, _)| *rid == self.next) {
            let (_, answer) = self.early.swap_remove(found);
            self.next += 1;
            if self.sid.is_empty() {
                self.sid = answer.attr("sid").expect("a session");
            }
            self.ended = answer.condition().or(self.ended.take());
            self.inbox.extend(answer.xml().children().map(String::from));
        }
        self.go_on(world);
    }

    fn has(&self, text: &str) -> bool {
        self.inbox.iter().any(|xml| xml.contains(text))
    }
}

/// Runs the world until this condition holds.
fn until(world: &mut World, peers: &mut [Peer], mut so: impl FnMut(&[Peer], u64) -> bool, what: &str) {
    let end = world.now_us() + 300_000_000;
    while !so(peers, world.now_us()) {
        assert!(
            world.now_us() < end,
            "waited for {what}: {:?}",
            peers
                .iter()
                .map(|peer| (peer.inbox.last(), &peer.ended, peer.rid, peer.next, &peer.wants, &peer.open))
                .collect::<Vec<_>>()
        );
        match world.step() {
            Occurrence::Bytes(socket, bytes) => {
                peers.iter_mut().for_each(|peer| peer.hears(world, socket, &bytes));
            }
            Occurrence::Ended(socket) => {
                for peer in &mut *peers {
                    if let Some(at) = peer.sockets.iter().position(|own| *own == socket) {
                        peer.again(world, at);
                    }
                }
            }
            _ => {}
        }
    }
}

fn world(seed: u64, shards: u16) -> World {
    let pace = Pace { read_bytes: [7, 100, 4_096][seed as usize % 3], letters_us: 5_000, ..Pace::default() };
    let mut world = World::new(seed, Settings::new("localhost", shards, [0; 32], 0), pace, &["romeo", "juliet"]);
    world.http = true;
    world
}

/// Both users are available.
fn both(world: &mut World) -> [Peer; 2] {
    let mut peers = ["romeo", "juliet"].map(|user| Peer::new(world, user));
    until(world, &mut peers, |peers, _| peers.iter().all(|peer| peer.has("mechanisms")), "features");
    for peer in &mut peers {
        let login = plain(peer.user);
        peer.say(world, "", &login);
    }
    until(world, &mut peers, |peers, _| peers.iter().all(|peer| peer.has("<success")), "a login");
    peers.iter_mut().for_each(|peer| peer.say(world, "to='localhost' xmpp:restart='true'", ""));
    until(world, &mut peers, |peers, _| peers.iter().all(|peer| peer.has("xmpp-bind")), "features behind it");
    for peer in &mut peers {
        peer.say(world, "", BIND);
        peer.say(world, "", PRESENCE);
    }
    until(world, &mut peers, |peers, _| peers.iter().all(|peer| peer.has("<presence")), "presence");
    peers
}

fn message(to: &str, text: &str) -> String {
    super::desk::message(to, text)
}

#[test]
fn xep0124_14_2_requests_come_at_any_shard_and_their_answers_go_back_there() {
    let mut relayed = 0;
    for seed in 0..16 {
        let mut world = world(seed, 1 + seed as u16 % 4);
        let mut peers = both(&mut world);
        for round in 0..20 {
            for (from, to) in [(0, "juliet"), (1, "romeo")] {
                peers[from].say(&mut world, "", &message(to, &format!("to {to} {round}.")));
            }
        }
        let done = |peers: &[Peer], _: u64| peers[0].has("to romeo 19.") && peers[1].has("to juliet 19.");
        until(&mut world, &mut peers, done, "all messages");
        for peer in &peers {
            let got: Vec<_> =
                peer.inbox.iter().filter_map(|xml| xml.split_once(&format!("to {} ", peer.user))).collect();
            let numbers: Vec<_> =
                got.iter().map(|(_, rest)| rest.split_once('.').unwrap().0.parse::<u32>().unwrap()).collect();
            assert!(numbers.iter().copied().eq(0..20), "each once, in order: {numbers:?}");
        }
        let counters =
            |world: &World| world.shards().map(|id| world.shard(id).counters().bosh_relayed.get()).sum::<u64>();
        relayed += counters(&world);
        if world.settings().shards() == 1 {
            assert_eq!(counters(&world), 0);
        }
        for peer in &mut peers {
            peer.say(&mut world, "type='terminate'", "");
        }
        until(&mut world, &mut peers, |peers, _| peers.iter().all(|peer| peer.ended.is_some()), "the end");
        assert_eq!(world.shards().map(|id| world.shard(id).counters().bosh_sessions.get()).sum::<u64>(), 0);
    }
    assert!(relayed > 100, "{relayed}");
}

#[test]
fn xep0124_14_3_connections_that_break_at_any_moment_lose_and_double_nothing() {
    for seed in 0..24 {
        let mut world = world(seed, 1 + seed as u16 % 3);
        let mut peers = both(&mut world);
        for round in 0..30 {
            for (from, to) in [(0, "juliet"), (1, "romeo")] {
                peers[from].say(&mut world, "", &message(to, &format!("to {to} {round}.")));
            }
            // A few steps, and one connection breaks.
            let mut steps = (seed + round) % 17 * 9;
            until(&mut world, &mut peers, |_, _| steps.checked_sub(1).map(|left| steps = left).is_none(), "some steps");
            if round % 3 == 0 {
                let at = (seed + round) as usize;
                let (which, at) = (at / 2 % 2, at % 2);
                world.abort(peers[which].sockets[at]);
                // Data in flight may still arrive: before the client retries, but not after it has
                // continued.
                let broken_us = world.now_us();
                until(&mut world, &mut peers, |_, now_us| now_us > broken_us + 300_000, "some time");
                peers[which].again(&mut world, at);
            }
        }
        let done = |peers: &[Peer], _: u64| peers[0].has("to romeo 29.") && peers[1].has("to juliet 29.");
        until(&mut world, &mut peers, done, "all messages");
        for peer in &peers {
            let got: Vec<_> =
                peer.inbox.iter().filter_map(|xml| xml.split_once(&format!("to {} ", peer.user))).collect();
            let numbers: Vec<_> =
                got.iter().map(|(_, rest)| rest.split_once('.').unwrap().0.parse::<u32>().unwrap()).collect();
            assert!(numbers.iter().copied().eq(0..30), "seed {seed}: each once, in order: {numbers:?}");
            assert_eq!(peer.ended, None);
        }
    }
}

/// After a crash no shard knows the session; its client logs in again and gets the waiting
/// messages.
#[test]
fn a_crash_ends_sessions_and_loses_no_message() {
    for seed in 0..8 {
        let mut world = world(seed, 1 + seed as u16 % 3);
        let mut peers = both(&mut world);
        peers[0].say(&mut world, "", &message("juliet", "before the crash"));
        until(&mut world, &mut peers, |peers, _| peers[1].has("before the crash"), "the message");
        world.crash();
        world.http = true;
        for peer in &mut peers {
            peer.again(&mut world, 0);
            peer.again(&mut world, 1);
        }
        until(&mut world, &mut peers, |peers, _| peers.iter().all(|peer| peer.ended.is_some()), "the end");
        assert!(peers.iter().all(|peer| peer.ended.as_deref() == Some("item-not-found")));
        both(&mut world);
    }
}

//! What the worst input costs under each limit: one shard, straight, and hostile input of one kind after the other.
//!
//! `cargo run --profile dist -p throng-engine --example worst -- [--kind PART-OF-A-NAME] [--bytes N]... [--times N] [--search]`
//!
//! It prints a line of JSON for each kind and size: bytes, and nanoseconds per byte. `tools/bench/worst` counts the instructions
//! of the same and holds them against the kinds' bounds. All that the shard does for a kind's bytes, and nothing else,
//! happens in `measured`; `case_done` stands between one case and the next. With `--search` it looks for the code
//! points that make each part of an address dearest.

#![allow(clippy::disallowed_methods, reason = "a measuring program has a clock; the engine has none")]

#[path = "worst_kinds.rs"]
mod kinds;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kinds::{KINDS, Kind, When};
use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Effect, Input, ListenerKind, Output};
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_engine::store::account::Credentials;
use throng_engine::wire::jid;
use throng_sim::disk::Disk;
use throng_sim::host::moved;

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";

/// A shard and what surrounds it.
struct Scene {
    shard: Shard,
    disk: Disk,
    now: Now,
    out: Output,
    /// Connections so far.
    conns: u32,
    /// Time spent in `measured`.
    spent: Duration,
    /// What the connection under test was sent.
    said: Vec<u8>,
    /// Whether it was closed.
    closed: bool,
}

/// The only way into the shard that is counted.
#[inline(never)]
fn measured(shard: &mut Shard, now: Now, input: Input<'_>, out: &mut Output) {
    shard.handle(now, input, out);
}

/// Callgrind writes down what it has counted when this ends.
#[inline(never)]
fn case_done(case: usize) -> usize {
    black_box(case)
}

impl Scene {
    fn new() -> Scene {
        let settings =
            Settings { archive: false, scram_iterations: 4_096, ..Settings::new("localhost", 1, [0; 32], 0) };
        let shard = Shard::new(ShardId(0), Arc::new(settings), Arc::new(Counters::default()), [0; 32]);
        let now = Now::new(1_000, 1_000_000);
        let mut disk = Disk::default();
        let (credentials, mut row) =
            (Credentials::derive("pencil", 4_096, &[0; 16], 0).expect("a password"), Vec::new());
        credentials.encode(&mut row);
        for local in ["romeo", "juliet"] {
            disk.put(Table::Accounts, &format!("{local}@localhost"), b"", &row);
        }
        let (out, said) = (Output::default(), Vec::new());
        Scene { shard, disk, now, out, conns: 0, spent: Duration::ZERO, said, closed: false }
    }

    fn handle(&mut self, input: Input<'_>, measure: bool) {
        if !measure {
            return self.shard.handle(self.now, input, &mut self.out);
        }
        let began = Instant::now();
        measured(&mut self.shard, self.now, input, &mut self.out);
        self.spent += began.elapsed();
    }

    /// Turns until nothing follows. What goes to `conn` is kept; keys are not derived: that is a job's work.
    fn settle(&mut self, conn: ConnId, measure: bool) {
        loop {
            self.handle(Input::EndOfTurn, measure);
            self.now.pass_wall(100);
            self.now.mono_ms = self.now.wall_us / 1_000;
            self.disk.submit(std::mem::take(&mut self.out.writes));
            self.disk.commit(1);
            let mut busy = self.shard.has_more_to_do();
            for effect in std::mem::take(&mut self.out.effects) {
                busy = true;
                match effect {
                    Effect::Send { conn: to, bytes, .. } => {
                        if to == conn {
                            self.said.extend_from_slice(&bytes);
                        }
                        self.handle(Input::Sent { conn: to }, measure);
                    }
                    Effect::Close { conn: of, last, .. } => {
                        if of == conn {
                            self.said.extend_from_slice(&last);
                            self.closed = true;
                        }
                        self.handle(Input::Closed { conn: of }, measure);
                    }
                    Effect::Read { token, queries } => {
                        let found = queries.iter().map(|query| self.disk.read(query)).collect();
                        self.handle(Input::Found { token, found }, measure);
                    }
                    _ => {}
                }
            }
            if !busy {
                return;
            }
        }
    }

    /// Bytes of a client, in reads of `read` bytes with a turn each.
    fn say(&mut self, conn: ConnId, text: &[u8], read: usize, measure: bool) {
        for bytes in text.chunks(read) {
            if self.closed {
                return;
            }
            self.handle(Input::Received { conn, bytes }, measure);
            self.settle(conn, measure);
        }
    }

    fn next_conn(&mut self) -> ConnId {
        self.conns += 1;
        (self.said, self.closed) = (Vec::new(), false);
        ConnId { slot: self.conns - 1, generation: 1 }
    }

    /// A connection that has not authenticated, each from an address of its own.
    fn accept(&mut self) -> ConnId {
        let conn = self.next_conn();
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: true };
        let [.., a, b] = conn.slot.to_be_bytes();
        self.handle(Input::Accepted { conn, listener, peer: [10, 0, a, b].into() }, false);
        conn
    }

    /// The session of a user who has authenticated elsewhere.
    fn log_in(&mut self, local: &str) -> ConnId {
        let conn = self.next_conn();
        self.handle(Input::Arrived { conn, moved: moved(&format!("{local}@localhost")) }, false);
        self.say(conn, HEADER.as_bytes(), usize::MAX, false);
        let bind =
            "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>r</resource></bind></iq>";
        self.say(conn, bind.as_bytes(), usize::MAX, false);
        self.say(conn, b"<presence/>", usize::MAX, false);
        conn
    }

    /// All of a case; how many bytes were sent.
    fn case(&mut self, kind: &Kind, bytes: usize) -> usize {
        let texts = (kind.texts)(bytes);
        let mut session = None;
        for text in &texts {
            let conn = match kind.when {
                When::Session => *session.get_or_insert_with(|| self.log_in("romeo")),
                When::Header => self.accept(),
                When::Choice(before) => {
                    let conn = self.accept();
                    self.say(conn, HEADER.as_bytes(), usize::MAX, false);
                    self.say(conn, before.as_bytes(), usize::MAX, false);
                    conn
                }
            };
            assert!(!self.closed, "{}: {}", kind.name, String::from_utf8_lossy(&self.said));
            self.say(conn, text.as_bytes(), kind.read, true);
            if matches!(kind.when, When::Session) {
                assert!(!self.closed, "{} ends the stream: {}", kind.name, tail(&self.said));
            }
        }
        texts.iter().map(String::len).sum()
    }
}

fn tail(said: &[u8]) -> String {
    String::from_utf8_lossy(&said[said.len().saturating_sub(400)..]).into_owned()
}

/// The code points that make a part of an address dearest, each as a part full of it.
fn search() {
    type Normalise = fn(&str) -> bool;
    let parts: [(&str, Normalise); 3] = [
        ("localpart", |text| jid::normalise_local(text).is_ok()),
        ("domainpart", |text| jid::normalise_domain(text).is_ok()),
        ("resourcepart", |text| jid::normalise_resource(text).is_ok()),
    ];
    for (part, normalise) in parts {
        let mut dearest: Vec<(f64, u32, bool)> = Vec::new();
        for c in (0x20..0x3_2000).chain(0xe_0100..0xe_01f0).filter_map(char::from_u32) {
            let text = c.to_string().repeat(1_023 / c.len_utf8());
            let time = || {
                let began = Instant::now();
                let taken = black_box(normalise(black_box(&text)));
                (began.elapsed().as_nanos() as f64 / text.len() as f64, taken)
            };
            let (ns, taken) = time();
            // Looked at again only if it might be among the dearest: most of a single look's noise goes one way.
            if dearest.len() < 10 || ns > dearest[9].0 {
                dearest.push((ns.min(time().0).min(time().0), u32::from(c), taken));
                dearest.sort_by(|a, b| b.0.total_cmp(&a.0));
                dearest.truncate(10);
            }
        }
        for (ns, c, taken) in dearest {
            println!("{part:12} U+{c:04X} {ns:8.1} ns per byte, {}", if taken { "taken" } else { "refused" });
        }
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let values =
        |name: &str| -> Vec<&String> { args.windows(2).filter(|pair| pair[0] == name).map(|pair| &pair[1]).collect() };
    if args.iter().any(|arg| arg == "--search") {
        return search();
    }
    let number = |text: &String| -> usize { text.parse().expect("a number behind the option") };
    let mut sizes: Vec<usize> = values("--bytes").into_iter().map(number).collect();
    if sizes.is_empty() {
        sizes = vec![16_000, 32_000];
    }
    let times = values("--times").first().map_or(1, |text| number(text));
    let wanted = values("--kind");
    let mut cases = 0;
    for kind in KINDS.iter().filter(|kind| wanted.iter().all(|part| kind.name.contains(part.as_str()))) {
        for &size in &sizes {
            let mut best = Duration::MAX;
            let mut sent = 0;
            for _ in 0..times {
                let mut scene = Scene::new();
                scene.log_in("juliet");
                sent = scene.case(kind, size);
                best = best.min(scene.spent);
            }
            cases = case_done(cases + 1);
            println!(
                "{{\"kind\": \"{}\", \"size\": {size}, \"bytes\": {sent}, \"most\": {}, \"ns_per_byte\": {:.2}}}",
                kind.name,
                kind.most,
                best.as_nanos() as f64 / sent as f64
            );
        }
    }
    assert!(cases > 0, "no kind has that in its name");
}

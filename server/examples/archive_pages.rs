//! What pages of a large archive cost (XEP-0313): one user's, with messages of so many peers, over the real store. Queries go through
//! a shard; the store is read on the same thread, and no socket is between them.
//!
//!     cargo run --release -p throng --example archive_pages FOLDER [MESSAGES] [PEERS] [PAGES]
//!
//! A folder that has an archive already is used as it is, so that a second run after the system's cache was dropped shows cold reads.

#![allow(clippy::disallowed_methods, reason = "a program that tells how long it took has a clock; the engine has none")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use throng::disk::{Engine, FolderLock, Options, Store};
use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Effect, Input, ListenerKind, Output};
use throng_engine::session::moved::Moved;
use throng_engine::session::sasl::Authenticated;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::account::Incarnation;
use throng_engine::store::archive::{Entry, seek};
use throng_engine::store::{Batch, Found, Table};

const USER: &str = "juliet@localhost";
/// Distance between the numbers of two entries: other users have those between.
const STEP: u64 = 10;
/// Milliseconds between two entries.
const EVERY_MS: u64 = 30_000;
const FIRST_MS: u64 = 1_700_000_000_000;

struct Scene {
    engine: Arc<dyn Engine>,
    shard: Shard,
    conn: ConnId,
    now: Now,
    out: Output,
    reads: usize,
}

impl Scene {
    fn new(engine: Arc<dyn Engine>) -> Scene {
        let settings = Settings::new("localhost", 1, [0; 32], 1 << 40);
        let shard = Shard::new(ShardId(0), Arc::new(settings), Arc::new(Counters::default()), [0; 32]);
        let conn = ConnId { slot: 0, generation: 1 };
        let now = Now { mono_ms: 1_000, wall_us: 1_800_000_000_000_000 };
        let mut scene = Scene { engine, shard, conn, now, out: Output::default(), reads: 0 };
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        let owner = Authenticated::vouched_for(USER, Incarnation::UNNUMBERED);
        let peer = [127, 0, 0, 1].into();
        let moved = Moved { owner, listener, peer, secured: false, accepted_s: 1, leftover: Vec::new(), stream: None };
        scene.turn(Input::Arrived { conn, moved: Box::new(moved) });
        scene.say("<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>");
        scene.say("<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>");
        scene
    }

    fn say(&mut self, text: &str) -> String {
        self.turn(Input::Received { conn: self.conn, bytes: text.as_bytes() })
    }

    fn turn(&mut self, input: Input<'_>) -> String {
        self.shard.handle(self.now, input, &mut self.out);
        let mut said = Vec::new();
        loop {
            self.shard.handle(self.now, Input::EndOfTurn, &mut self.out);
            if !self.out.writes.is_empty() {
                let writes = std::mem::take(&mut self.out.writes);
                self.engine.commit(&[writes]).expect("a commit");
            }
            let effects = std::mem::take(&mut self.out.effects);
            if effects.is_empty() && !self.shard.has_own_letters() {
                return String::from_utf8(said).expect("text");
            }
            for effect in effects {
                match effect {
                    Effect::Read { token, queries } => {
                        self.reads += queries.len();
                        let found = queries.iter().map(|query| self.engine.read(query).expect("rows")).collect();
                        self.shard.handle(self.now, Input::Found { token, found }, &mut self.out);
                    }
                    Effect::Send { conn, bytes, .. } => {
                        said.extend_from_slice(&bytes);
                        self.shard.handle(self.now, Input::Sent { conn }, &mut self.out);
                    }
                    _ => {}
                }
            }
        }
    }
}

fn fill(engine: &dyn Engine, messages: u64, peers: u64) {
    // An account to which nobody can log in: the connection below has done so elsewhere.
    let mut account = Batch::new();
    account.put(Table::Accounts, USER.as_bytes(), b"", &[]);
    engine.commit(&[account]).expect("a commit");
    let there = engine.read(&seek(USER, messages * STEP)).expect("a read");
    if matches!(there, Found::Rows { rows, .. } if !rows.is_empty()) {
        return;
    }
    let mut batch = Batch::new();
    for n in 1..=messages {
        let peer = format!("user{:05}@localhost/phone", mix(n) % peers);
        let xml = format!(
            "<message from='{peer}' to='{USER}' type='chat' id='{n}'><body>{}</body></message>",
            "m".repeat(100)
        );
        let time_ms = FIRST_MS + n * EVERY_MS;
        let entry = Entry { incoming: true, waits: false, time_ms, peer: &peer, xml: xml.as_bytes(), trail: b"" };
        entry.put(&mut batch, USER, n * STEP);
        // Each message has come in a turn of its own.
        batch.delete(Table::Roster, USER.as_bytes(), b"nobody@localhost");
        if n.is_multiple_of(1_000) {
            engine.commit(&[std::mem::take(&mut batch)]).expect("a commit");
        }
    }
    engine.commit(&[batch]).expect("a commit");
}

fn mix(n: u64) -> u64 {
    (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n >> 7).rotate_left(29) >> 16
}

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().expect("a folder");
    let mut number = |default: u64| args.next().map_or(default, |text| text.parse().expect("a number"));
    let (messages, peers, pages) = (number(1_000_000), number(1_000), number(1_000));
    let lock = FolderLock::take(Path::new(&folder), "archive_pages").expect("the folder's lock");
    let store = Store::open(&lock, &Options::default()).expect("a store");
    let began = Instant::now();
    fill(&*store.engine(), messages, peers);
    println!("{messages} messages of {peers} peers: {:.1} s", began.elapsed().as_secs_f64());
    let mut scene = Scene::new(store.engine());
    let form = |fields: &str| {
        format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field>{fields}</x>"
        )
    };
    let field = |name: &str, value: &str| format!("<field var='{name}'><value>{value}</value></field>");
    let at = |n: u64| (mix(n + 99) % messages + 1) * STEP;
    let with = |n: u64| form(&field("with", &format!("user{:05}@localhost", mix(n + 7) % peers)));
    type Ask<'a> = Box<dyn Fn(u64) -> String + 'a>;
    let kinds: Vec<(&str, u64, Ask<'_>)> = vec![
        (
            "the last page",
            pages,
            Box::new(|_| "<set xmlns='http://jabber.org/protocol/rsm'><max>50</max><before/></set>".into()),
        ),
        (
            "forwards, from anywhere",
            pages,
            Box::new(|n| {
                format!("<set xmlns='http://jabber.org/protocol/rsm'><max>50</max><after>{}</after></set>", at(n))
            }),
        ),
        (
            "back, from anywhere",
            pages,
            Box::new(|n| {
                format!("<set xmlns='http://jabber.org/protocol/rsm'><max>50</max><before>{}</before></set>", at(n))
            }),
        ),
        (
            "from any time",
            pages,
            Box::new(|n| {
                let mut stamp = Vec::new();
                let time_us = (FIRST_MS + mix(n) % messages * EVERY_MS) * 1_000;
                throng_engine::extension::datetime::write(
                    &mut stamp,
                    time_us,
                    throng_engine::extension::datetime::Precision::Millis,
                );
                format!(
                    "{}<set xmlns='http://jabber.org/protocol/rsm'><max>50</max></set>",
                    form(&field("start", &String::from_utf8_lossy(&stamp)))
                )
            }),
        ),
        (
            "with a peer, the first time",
            1,
            Box::new(|n| {
                format!("{}<set xmlns='http://jabber.org/protocol/rsm'><max>50</max><before/></set>", with(n))
            }),
        ),
        (
            "with a peer, the last page",
            pages,
            Box::new(|n| {
                format!("{}<set xmlns='http://jabber.org/protocol/rsm'><max>50</max><before/></set>", with(n))
            }),
        ),
        (
            "with a peer, from anywhere",
            pages,
            Box::new(|n| {
                format!(
                    "{}<set xmlns='http://jabber.org/protocol/rsm'><max>50</max><after>{}</after></set>",
                    with(n),
                    at(n)
                )
            }),
        ),
        ("with nobody", pages / 10, Box::new(|n| form(&field("with", &format!("nobody{n}@localhost"))))),
    ];
    println!("{:30} {:>7} {:>9} {:>9} {:>9} {:>7}", "page", "pages", "p50 ms", "p99 ms", "max ms", "reads");
    for (name, pages, ask) in &kinds {
        scene.reads = 0;
        let mut took: Vec<Duration> = Vec::new();
        for n in 0..*pages {
            let query = format!("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'>{}</query></iq>", ask(n));
            // A user's work is paid for with time: it passes.
            scene.now.mono_ms += 60_000;
            let began = Instant::now();
            let said = scene.say(&query);
            took.push(began.elapsed());
            assert!(said.contains("<fin "), "{said}");
        }
        took.sort();
        let ms = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)].as_secs_f64() * 1e3;
        let reads = scene.reads as f64 / took.len() as f64;
        println!("{name:30} {pages:>7} {:>9.3} {:>9.3} {:>9.3} {reads:>7.1}", ms(50), ms(99), ms(100));
    }
}

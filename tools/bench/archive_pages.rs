//! What pages of a large archive cost (XEP-0313): one user's, with messages of so many peers, over the real store. Queries go through
//! a shard; the store is read on the same thread, and no socket is between them.
//!
//!     cargo run --profile dist -p throng --example archive_pages FOLDER [MESSAGES] [PEERS] [PAGES] [COLD] [SECONDS]
//!
//! Three tables in one run. *Warm*: so many pages of each kind, one after another. *Cold*: before each of `COLD` pages the store is opened
//! anew, which is not counted, and when it has come to rest its files are put out of the system's cache (`dd iflag=nocache`). *Load*: for `SECONDS`
//! twice, one thread archives 20,000 messages a second for both sides in commits of 10 ms, the second time while another one asks for
//! pages without a pause. A folder that has an archive already is used as it is.

#![allow(clippy::disallowed_methods, reason = "a program that tells how long it took has a clock; the engine has none")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use throng::disk::{Engine, FolderLock, Options, Store};
use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Effect, Input, Output};
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::archive::{Entry, seek};
use throng_engine::store::{Batch, Found, Table};
use throng_sim::host::moved;

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
    /// The longest time that one answer of the store has kept the shard, and the store one read.
    longest: [Duration; 2],
}

impl Scene {
    fn new(engine: Arc<dyn Engine>) -> Scene {
        let settings = Settings::new("localhost", 1, [0; 32], 1 << 40);
        let shard = Shard::new(ShardId(0), Arc::new(settings), Arc::new(Counters::default()), [0; 32]);
        let conn = ConnId { slot: 0, generation: 1 };
        let now = Now::new(1_000, 1_800_000_000_000_000);
        let mut scene =
            Scene { engine, shard, conn, now, out: Output::default(), reads: 0, longest: Default::default() };
        scene.turn(Input::Arrived { conn, moved: moved(USER) });
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
            if effects.is_empty() && !self.shard.has_more_to_do() {
                return String::from_utf8(said).expect("text");
            }
            for effect in effects {
                match effect {
                    Effect::Read { token, queries } => {
                        self.reads += queries.len();
                        let began = Instant::now();
                        let found = queries.iter().map(|query| self.engine.read(query).expect("rows")).collect();
                        let read = began.elapsed();
                        self.shard.handle(self.now, Input::Found { token, found }, &mut self.out);
                        let kept = began.elapsed() - read;
                        self.longest = [self.longest[0].max(kept), self.longest[1].max(read)];
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
        // Half of them are the user's own.
        let incoming = mix(n + 5).is_multiple_of(2);
        let (from, to) = if incoming { (&*peer, USER) } else { (USER, &*peer) };
        let xml =
            format!("<message from='{from}' to='{to}' type='chat' id='{n}'><body>{}</body></message>", "m".repeat(100));
        let time_ms = FIRST_MS + n * EVERY_MS;
        let entry = Entry { incoming, waits: false, time_ms, peer: &peer, xml: xml.as_bytes(), trail: b"" };
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

/// A page is asked for, by a number that says which.
type Ask<'a> = Box<dyn Fn(u64) -> String + 'a>;

struct Kind<'a> {
    name: &'static str,
    /// Only the first time costs what it costs.
    once: bool,
    ask: Ask<'a>,
}

fn page(fields: &str, set: &str) -> String {
    let form = |fields: &str| {
        format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>urn:xmpp:mam:2</value></field>{fields}</x>"
        )
    };
    let form = if fields.is_empty() { String::new() } else { form(fields) };
    let set = format!("<set xmlns='http://jabber.org/protocol/rsm'><max>50</max>{set}</set>");
    format!("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'>{form}{set}</query></iq>")
}

fn field(name: &str, value: &str) -> String {
    format!("<field var='{name}'><value>{value}</value></field>")
}

fn kinds<'a>(messages: u64, peers: u64) -> Vec<Kind<'a>> {
    let at = move |n: u64| (mix(n + 99) % messages + 1) * STEP;
    let with = move |n: u64| field("with", &format!("user{:05}@localhost", mix(n + 7) % peers));
    let time = move |n: u64| {
        use throng_engine::extension::datetime::{Precision, text};
        text((FIRST_MS + mix(n) % messages * EVERY_MS) * 1_000, Precision::Millis)
    };
    let kind = |name, ask: Ask<'a>| Kind { name, once: false, ask };
    vec![
        kind("the last page", Box::new(|_| page("", "<before/>"))),
        kind("forwards, from anywhere", Box::new(move |n| page("", &format!("<after>{}</after>", at(n))))),
        kind("back, from anywhere", Box::new(move |n| page("", &format!("<before>{}</before>", at(n))))),
        kind("from any time", Box::new(move |n| page(&field("start", &time(n)), ""))),
        kind("back, from any time", Box::new(move |n| page(&field("end", &time(n)), "<before/>"))),
        Kind { once: true, ..kind("with a peer, the first time", Box::new(move |n| page(&with(n), "<before/>"))) },
        kind("with a peer, the last page", Box::new(move |n| page(&with(n), "<before/>"))),
        kind("with a peer, forwards", Box::new(move |n| page(&with(n), &format!("<after>{}</after>", at(n))))),
        kind("with a peer, back", Box::new(move |n| page(&with(n), &format!("<before>{}</before>", at(n))))),
        kind("with nobody", Box::new(|n| page(&field("with", &format!("nobody{n}@localhost")), ""))),
        kind("metadata", Box::new(|_| "<iq type='get' id='q'><metadata xmlns='urn:xmpp:mam:2'/></iq>".into())),
    ]
}

/// Asks, and says how long it took.
fn ask(scene: &mut Scene, query: &str) -> Duration {
    // A user's work is paid for with time: it passes.
    scene.now.mono_ms += 60_000;
    let began = Instant::now();
    let said = scene.say(query);
    let took = began.elapsed();
    // A message to go back from need not be one with the peer.
    assert!(said.contains("<fin ") || said.contains("<metadata ") || said.contains("item-not-found"), "{said}");
    took
}

fn heading(title: &str) {
    println!("{title:30} {:>7} {:>9} {:>9} {:>9} {:>7}", "pages", "p50 ms", "p99 ms", "max ms", "reads");
}

fn tell(name: &str, mut took: Vec<Duration>, reads: usize) {
    took.sort();
    let ms = |part: usize| took[(took.len() * part / 100).min(took.len() - 1)].as_secs_f64() * 1e3;
    let (pages, reads) = (took.len(), reads as f64 / took.len() as f64);
    println!("{name:30} {pages:>7} {:>9.3} {:>9.3} {:>9.3} {reads:>7.1}", ms(50), ms(99), ms(100));
}

/// Puts the files of a folder out of the system's cache.
fn put_out(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()) {
        if entry.is_dir() {
            put_out(&entry);
            continue;
        }
        let dd = std::process::Command::new("dd")
            .arg(format!("if={}", entry.display()))
            .args(["iflag=nocache", "count=0", "status=none"])
            .status();
        assert!(dd.is_ok_and(|status| status.success()), "dd of coreutils is needed for cold reads");
    }
}

fn open(folder: &Path) -> (FolderLock, Store) {
    let lock = FolderLock::take(folder, "archive_pages").expect("the folder's lock");
    let store = Store::open(&lock, &Options::default()).expect("a store");
    (lock, store)
}

fn cold(folder: &Path, messages: u64, peers: u64, pages: u64) {
    heading("cold");
    for kind in kinds(messages, peers).iter().filter(|kind| !kind.once) {
        let (mut took, mut reads) = (Vec::new(), 0);
        for n in 0..pages {
            let (_lock, store) = open(folder);
            // Behind an opening tables are read for their filters.
            std::thread::sleep(Duration::from_millis(500));
            put_out(folder);
            let mut scene = Scene::new(store.engine());
            let before = scene.reads;
            // What opening it has read is no matter; other numbers than those that were warm.
            took.push(ask(&mut scene, &(kind.ask)(n + 1_000_000)));
            reads += scene.reads - before;
        }
        tell(kind.name, took, reads);
    }
}

/// Archives 20,000 messages a second, for sender and receiver, and says how long commits took.
fn archive(engine: &dyn Engine, round: u64, seconds: u64) -> Vec<Duration> {
    const EVERY: Duration = Duration::from_millis(10);
    let (began, mut took) = (Instant::now(), Vec::new());
    for turn in 0..seconds * 100 {
        let mut batch = Batch::new();
        for n in 0..200 {
            let number = (round << 40) + turn * 200 + n + 1;
            let of = |side: u64| format!("other{:05}@localhost", mix(number * 2 + side) % 50_000);
            let (from, to) = (of(0), of(1));
            let xml = format!(
                "<message from='{from}/a' to='{to}' type='chat' id='{n}'><body>{}</body></message>",
                "m".repeat(100)
            );
            for (user, peer, incoming) in [(&from, &to, false), (&to, &from, true)] {
                let entry =
                    Entry { incoming, waits: false, time_ms: FIRST_MS + number, peer, xml: xml.as_bytes(), trail: b"" };
                entry.put(&mut batch, user, number);
            }
        }
        let due = EVERY * turn as u32;
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let asked = Instant::now();
        engine.commit(&[batch]).expect("a commit");
        // A commit that is late makes those behind it late.
        took.push(asked.elapsed().max(began.elapsed().saturating_sub(due)));
    }
    took
}

fn load(scene: &mut Scene, messages: u64, peers: u64, seconds: u64) {
    let engine = scene.engine.clone();
    heading("commits of 10 ms of messages");
    tell("alone", archive(&*engine, 1, seconds), 0);
    let kinds = kinds(messages, peers);
    let mut pages = 0u64;
    let began = Instant::now();
    let took = std::thread::scope(|scope| {
        let archiving = scope.spawn(|| archive(&*engine, 2, seconds));
        while !archiving.is_finished() {
            let kind = &kinds[pages as usize % kinds.len()];
            if !kind.once {
                ask(scene, &(kind.ask)(pages));
            }
            pages += 1;
        }
        archiving.join().expect("no panic")
    });
    tell("with pages on a second thread", took, 0);
    println!("pages a second, one thread     {:.0}", pages as f64 / began.elapsed().as_secs_f64());
}

fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().expect("a folder");
    let folder = Path::new(&folder);
    let mut number = |default: u64| args.next().map_or(default, |text| text.parse().expect("a number"));
    let (messages, peers, pages) = (number(1_000_000), number(1_000), number(1_000));
    let (cold_pages, seconds) = (number(30), number(10));
    {
        let (_lock, store) = open(folder);
        let began = Instant::now();
        fill(&*store.engine(), messages, peers);
        println!("{messages} messages of {peers} peers: {:.1} s", began.elapsed().as_secs_f64());
        let mut scene = Scene::new(store.engine());
        heading("warm");
        for kind in &kinds(messages, peers) {
            let before = scene.reads;
            scene.longest = Default::default();
            let pages = if kind.once { 1 } else { pages };
            let took: Vec<Duration> = (0..pages).map(|n| ask(&mut scene, &(kind.ask)(n))).collect();
            tell(kind.name, took, scene.reads - before);
            if kind.once {
                let [kept, read] = scene.longest.map(|longest| longest.as_secs_f64() * 1e3);
                println!(
                    "  the longest that it held others up: {kept:.3} ms the shard, {read:.3} ms the reading thread"
                );
            }
        }
        load(&mut scene, messages, peers, seconds);
    }
    cold(folder, messages, peers, cold_pages);
}

//! What `tools/bench/instructions` counts the engine's instructions on: one shard, straight, and messages of 180 bytes between pairs.
//!
//! `cargo run --profile dist -p throng-engine --example instructions -- [--messages N] [--a-turn K] [--archive] [--managed] [--resumable]
//! [--full] [--second delivered|received|sent]`
//!
//! K senders write one message each in a turn, and the next turn says that all was sent. With `--managed` each sender asks for
//! an acknowledgement behind its message, and each receiver gives the one that it is asked for; with `--resumable` their sessions may be
//! resumed, so that they are stored. With `--full` messages are for the full JID of the receiver. With `--second` there is a second device,
//! which gets each message as well: the receiver's, by the bare JID (`delivered`) or as a carbon copy of what is for the full one
//! (`received`), or the sender's, as a carbon copy (`sent`). All that the shard does for
//! these messages, and nothing else, happens in `measured`; nothing in here depends on chance or time.

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Effect, Input, Output};
use throng_engine::session::pace::{Allowance, BURST_MAX};
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_sim::disk::Disk;
use throng_sim::host::moved;

/// Bytes of a message as its sender writes it.
const BYTES: usize = 180;
/// Pairs, of which those of a turn come round.
const PAIRS: usize = 1_000;
/// Simulated time between two turns, microseconds.
const TURN_US: u64 = 100;

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";

/// A shard and what surrounds it.
struct Scene {
    shard: Shard,
    disk: Disk,
    now: Now,
    out: Output,
    /// Connections whose send is under way.
    sent: Vec<ConnId>,
    /// Acknowledgements that the server has asked for, one a connection.
    asked: Vec<ConnId>,
    /// Bytes that went to clients.
    said: Vec<u8>,
}

/// The only way into the shard that is counted.
#[inline(never)]
fn measured(shard: &mut Shard, now: Now, input: Input<'_>, out: &mut Output) {
    shard.handle(now, input, out);
}

impl Scene {
    fn new(archive: bool) -> Scene {
        let mut settings = Settings { archive, ..Settings::new("localhost", 1, [0; 32], 0) };
        // What is measured has what each stanza costs of its account's rate, and nobody reaches it.
        settings.paces.ordinary = Allowance { a_second: BURST_MAX, burst: BURST_MAX };
        let shard = Shard::new(ShardId(0), Arc::new(settings), Arc::new(Counters::default()), [0; 32]);
        let now = Now::new(1_000, 1_000_000);
        let (sent, asked, said) = (Vec::new(), Vec::new(), Vec::new());
        Scene { shard, disk: Disk::default(), now, out: Output::default(), sent, asked, said }
    }

    /// Ends a turn, carries out what it led to, and turns on for the store's answers.
    fn end(&mut self, measure: bool) {
        loop {
            let end = if measure { measured } else { Shard::handle };
            end(&mut self.shard, self.now, Input::EndOfTurn, &mut self.out);
            self.now.pass_wall(TURN_US);
            self.now.mono_ms = self.now.wall_us / 1_000;
            if measure {
                // The host gives the memory of a batch back, and nobody reads these rows.
                self.out.writes.clear();
            } else {
                self.disk.submit(std::mem::take(&mut self.out.writes));
                self.disk.commit(1);
            }
            let mut answers = Vec::new();
            for effect in self.out.effects.drain(..) {
                match effect {
                    Effect::Send { conn, bytes, .. } => {
                        self.sent.push(conn);
                        if bytes.ends_with(b"<r xmlns='urn:xmpp:sm:3'/>") {
                            self.asked.push(conn);
                        }
                        self.said.extend_from_slice(&bytes);
                    }
                    Effect::Read { token, queries } => {
                        answers.push((token, queries.iter().map(|query| self.disk.read(query)).collect()));
                    }
                    Effect::Favour { .. } => {}
                    // While a login waits for its account.
                    Effect::Pause { .. } | Effect::Resume { .. } if !measure => {}
                    other => panic!("{other:?} is not expected of plain messages"),
                }
            }
            if answers.is_empty() {
                return;
            }
            for (token, found) in answers {
                self.shard.handle(self.now, Input::Found { token, found }, &mut self.out);
            }
        }
    }

    /// Says that all was sent.
    fn take(&mut self, measure: bool) {
        let handle = if measure { measured } else { Shard::handle };
        for conn in self.sent.drain(..) {
            handle(&mut self.shard, self.now, Input::Sent { conn }, &mut self.out);
        }
    }

    /// Bytes of a client in a turn of their own, before anything is measured.
    fn say(&mut self, conn: ConnId, text: &str) {
        self.shard.handle(self.now, Input::Received { conn, bytes: text.as_bytes() }, &mut self.out);
        self.end(false);
        self.take(false);
        self.end(false);
    }

    /// Logs a user in, who has authenticated elsewhere; then the session says the rest.
    fn log_in(&mut self, slot: usize, local: &str, resource: &str, says: &[&str]) {
        let conn = ConnId { slot: slot as u32, generation: 1 };
        self.disk.put(Table::Accounts, &format!("{local}@localhost"), b"", b"");
        self.shard.handle(
            self.now,
            Input::Arrived { conn, moved: moved(&format!("{local}@localhost")) },
            &mut self.out,
        );
        self.say(conn, HEADER);
        self.say(
            conn,
            &format!(
                "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>{resource}</resource></bind></iq>"
            ),
        );
        for text in says {
            self.say(conn, text);
        }
    }
}

/// Whose second device there is, and how it gets the messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Second {
    Nobodys,
    Delivered,
    Received,
    Sent,
}

impl Second {
    fn read(word: Option<&str>, full: bool) -> Second {
        match (word, full) {
            (None, _) => Second::Nobodys,
            (Some("delivered"), false) => Second::Delivered,
            (Some("received"), true) => Second::Received,
            (Some("sent"), _) => Second::Sent,
            _ => panic!("--second delivered, --full --second received, or --second sent"),
        }
    }

    /// Ends of messages that clients are sent for each message: a copy has another one in it.
    fn ends(self) -> usize {
        match self {
            Second::Nobodys => 1,
            Second::Delivered => 2,
            Second::Received | Second::Sent => 3,
        }
    }
}

const AVAILABLE: &str = "<presence/>";
const CARBONS: &str = "<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>";

fn message(to: usize, full: bool, managed: bool) -> Vec<u8> {
    let resource = if full { "/r" } else { "" };
    let (head, foot) = (format!("<message to='to{to:04}@localhost{resource}' type='chat'><body>"), "</body></message>");
    let body = "m".repeat(BYTES - head.len() - foot.len());
    let ask = if managed { "<r xmlns='urn:xmpp:sm:3'/>" } else { "" };
    [&head, &body, foot, ask].concat().into()
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let has = |name: &str| args.iter().any(|arg| arg == name);
    let number = |name: &str, default: usize| {
        let at = args.iter().position(|arg| arg == name);
        at.map_or(default, |at| args.get(at + 1).and_then(|n| n.parse().ok()).expect("a number behind the option"))
    };
    let (messages, a_turn, managed) = (number("--messages", 20_000), number("--a-turn", 1), has("--managed"));
    assert!((1..=PAIRS).contains(&a_turn), "1 to {PAIRS} messages a turn");
    let full = has("--full");
    let word = args.iter().position(|arg| arg == "--second").and_then(|at| args.get(at + 1));
    let second = Second::read(word.map(String::as_str), full);
    let mut scene = Scene::new(has("--archive"));
    let enable = match has("--resumable") {
        true => "<enable xmlns='urn:xmpp:sm:3' resume='true'/>",
        false => "<enable xmlns='urn:xmpp:sm:3'/>",
    };
    let (sender, receiver): (&[&str], &[&str]) =
        if managed { (&[enable], &[enable, AVAILABLE]) } else { (&[], &[AVAILABLE]) };
    for pair in 0..PAIRS {
        let (from, to) = (format!("from{pair:04}"), format!("to{pair:04}"));
        scene.log_in(2 * pair, &from, "r", sender);
        scene.log_in(2 * pair + 1, &to, "r", receiver);
        // Behind those of all pairs.
        let slot = 2 * PAIRS + pair;
        match second {
            Second::Nobodys => {}
            Second::Delivered => scene.log_in(slot, &to, "second", &[AVAILABLE]),
            Second::Received => scene.log_in(slot, &to, "second", &[CARBONS, AVAILABLE]),
            Second::Sent => scene.log_in(slot, &from, "second", &[CARBONS, AVAILABLE]),
        }
    }
    // What is written of logins is written before anything is measured.
    for _ in 0..10 {
        scene.now.pass_wall(1_000_000);
        scene.end(false);
    }
    let texts: Vec<Vec<u8>> = (0..PAIRS).map(|pair| message(pair, full, managed)).collect();
    // Each pair once before, so that what is made with the first message is there.
    let (mut sent, mut ends, mut acknowledged, mut h) = (0, 0, 0, vec![0_u32; PAIRS]);
    for turn in 0..(PAIRS + messages).div_ceil(a_turn) {
        let measure = turn * a_turn >= PAIRS;
        let handle = if measure { measured } else { Shard::handle };
        for pair in (turn * a_turn..(turn + 1) * a_turn).map(|message| message % PAIRS) {
            let conn = ConnId { slot: 2 * pair as u32, generation: 1 };
            handle(&mut scene.shard, scene.now, Input::Received { conn, bytes: &texts[pair] }, &mut scene.out);
        }
        scene.said.clear();
        scene.end(measure);
        if measure {
            sent += a_turn;
            ends += scene.said.windows(10).filter(|window| window == b"</message>").count();
        }
        scene.take(measure);
        acknowledged += scene.asked.len();
        for conn in std::mem::take(&mut scene.asked) {
            let count = &mut h[conn.slot as usize / 2];
            *count += 1;
            let answer = format!("<a xmlns='urn:xmpp:sm:3' h='{count}'/>");
            handle(&mut scene.shard, scene.now, Input::Received { conn, bytes: answer.as_bytes() }, &mut scene.out);
        }
        scene.end(measure);
    }
    assert!(sent >= messages && ends == sent * second.ends(), "{ends} ends of {sent} messages have come");
    assert_eq!(acknowledged > 0, managed, "who counts is asked, and who does not is not");
    println!("{{ \"messages\": {sent} }}");
}

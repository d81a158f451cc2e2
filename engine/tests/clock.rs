//! Order and time are two things: a clock that jumps changes no order and falsifies neither stamps nor ages.

use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::{ConnId, Now, ShardId};
use throng_engine::io::{Command, Effect, Input, ListenerKind, Output};
use throng_engine::session::conn::Owner;
use throng_engine::session::moved::Moved;
use throng_engine::settings::Settings;
use throng_engine::shard::Shard;
use throng_engine::store::Table;
use throng_engine::store::account::Incarnation;
use throng_engine::store::archive::entries;
use throng_engine::testing::disk::Disk;

const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
const BIND: &str = "<iq type='set' id='1'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
/// 2026-01-01T00:00:00Z, seconds.
const THEN_S: u64 = 1_767_225_600;
const YEAR_S: u64 = 365 * 86_400;

/// One shard over a disk, at a time that the test says.
struct Bench {
    shard: Shard,
    disk: Disk,
    wall_s: u64,
    commits: u64,
    said: String,
}

impl Bench {
    fn new(disk: Disk, number_floor: u64) -> Bench {
        let mut settings = Settings::new("localhost", 1, [0; 32], number_floor);
        settings.retention_s = YEAR_S;
        let shard = Shard::new(ShardId(0), Arc::new(settings), Arc::new(Counters::default()), [0; 32]);
        Bench { shard, disk, wall_s: THEN_S, commits: 0, said: String::new() }
    }

    fn handle(&mut self, input: Input<'_>) {
        let now = Now { mono_ms: 1_000, wall_us: self.wall_s * 1_000_000 };
        let mut out = Output::default();
        self.shard.handle(now, input, &mut out);
        loop {
            self.shard.handle(now, Input::EndOfTurn, &mut out);
            self.commits += 1;
            self.disk.submit(std::mem::take(&mut out.writes));
            self.disk.commit(1);
            let mut answers = Vec::new();
            for effect in out.effects.drain(..) {
                match effect {
                    Effect::Read { token, queries } => {
                        let found = queries.iter().map(|query| self.disk.read(query)).collect();
                        answers.push(Input::Found { token, found });
                    }
                    Effect::Send { conn, bytes, .. } => {
                        self.said.push_str(&String::from_utf8_lossy(&bytes));
                        answers.push(Input::Sent { conn });
                    }
                    _ => {}
                }
            }
            if answers.is_empty() {
                return;
            }
            answers.into_iter().for_each(|answer| self.shard.handle(now, answer, &mut out));
        }
    }

    fn log_in(&mut self, slot: u32, local: &str) -> ConnId {
        let conn = ConnId { slot, generation: 1 };
        let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
        let owner = Owner { local: local.into(), incarnation: Incarnation::UNNUMBERED };
        let peer = [127, 0, 0, 1].into();
        let moved = Moved { owner, listener, peer, secured: false, accepted_s: 1, leftover: Vec::new() };
        self.handle(Input::Arrived { conn, moved: Box::new(moved) });
        self.say(conn, HEADER);
        self.say(conn, BIND);
        conn
    }

    fn say(&mut self, conn: ConnId, text: &str) {
        self.handle(Input::Received { conn, bytes: text.as_bytes() });
    }
}

fn disk() -> Disk {
    let mut disk = Disk::default();
    for user in ["romeo@localhost", "juliet@localhost"] {
        disk.put(Table::Accounts, user, b"", b"");
    }
    disk
}

/// One jump forward raised all stamps from then on, also after restarts.
#[test]
fn a_jump_of_the_clock_is_over_when_it_is_over() {
    let mut bench = Bench::new(disk(), 0);
    let romeo = bench.log_in(0, "romeo");
    for (n, wall_s) in [(1, THEN_S), (2, THEN_S + 10 * YEAR_S), (3, THEN_S + 1)] {
        bench.wall_s = wall_s;
        bench.say(romeo, &format!("<message to='juliet@localhost' type='chat'><body>{n}</body></message>"));
    }
    // The next process.
    let mut bench = Bench::new(bench.disk, 1 << 20);
    bench.wall_s = THEN_S + 60;
    let romeo = bench.log_in(0, "romeo");
    bench.say(romeo, "<message to='juliet@localhost' type='chat'><body>4</body></message>");
    bench.wall_s = THEN_S + 120;
    bench.said.clear();
    let juliet = bench.log_in(1, "juliet");
    bench.say(juliet, "<presence/>");
    let at = |sign: &str| bench.said.find(sign).unwrap_or_else(|| panic!("no {sign}: {}", bench.said));
    let order = ["<body>1<", "2026-01-01T00:00:00.000Z", "<body>2<", "2035-", "<body>3<", "2026-01-01T00:00:01.000Z"];
    let order: Vec<usize> =
        order.iter().chain(&["<body>4<", "2026-01-01T00:01:00.000Z"]).map(|sign| at(sign)).collect();
    assert!(order.is_sorted(), "{order:?}: {}", bench.said);
}

/// Messages go by their age; those that came while the clock was wrong stay until they look old enough, and keep no others.
/// Users who only send, whose cursor nobody moves, were never trimmed.
#[test]
fn archives_are_trimmed_by_age_also_of_those_who_only_send() {
    let mut bench = Bench::new(disk(), 0);
    let romeo = bench.log_in(0, "romeo");
    for (n, wall_s) in [(1, THEN_S), (2, THEN_S + 1), (3, THEN_S + YEAR_S)] {
        bench.wall_s = wall_s;
        bench.say(romeo, &format!("<message to='juliet@localhost' type='chat'><body>{n}</body></message>"));
    }
    bench.wall_s = THEN_S + YEAR_S + 60;
    for user in ["romeo@localhost", "juliet@localhost"] {
        bench.handle(Input::Command { token: 1, command: Command::Retain { users: vec![user.into()] } });
    }
    let kept = |user: &str| {
        let rows = bench.disk.partition(Table::Archive, user);
        rows.map(|(sort, row)| entries(sort, row).expect("whole").len()).sum::<usize>()
    };
    assert_eq!((kept("romeo@localhost"), kept("juliet@localhost")), (1, 3), "what waits for Juliet stays");
}

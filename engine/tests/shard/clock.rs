//! Order does not depend on time: a clock that jumps changes no order and falsifies neither
//! timestamps nor ages.

use throng_engine::id::Now;
use throng_engine::io::{Command, Input, LogCommand};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::archive::entries;
use throng_sim::disk::Disk;
use throng_sim::host::{Host, said};

/// 2026-01-01T00:00:00Z in seconds.
const THEN_S: u64 = 1_767_225_600;
const YEAR_S: u64 = 365 * 86_400;

/// A process with the store of an earlier one.
fn process(disk: Disk, number_floor: u64) -> Host {
    let mut settings = Settings::new("localhost", 1, [0; 32], number_floor);
    settings.retention_s = YEAR_S;
    let mut host = Host::new(settings);
    host.disk = disk;
    for user in ["romeo", "juliet"] {
        host.account(user);
    }
    host.now = at(THEN_S);
    host
}

/// This wall clock time, while the monotonic clock stands still.
fn at(wall_s: u64) -> Now {
    Now::new(1_000, wall_s * 1_000_000)
}

/// Once, a jump forward raised all later timestamps, also after restarts.
#[test]
fn a_jump_of_the_clock_is_over_when_it_is_over() {
    let mut host = process(Disk::default(), 0);
    let (romeo, _) = host.bind(0, "romeo");
    for (n, wall_s) in [(1, THEN_S), (2, THEN_S + 10 * YEAR_S), (3, THEN_S + 1)] {
        host.now = at(wall_s);
        host.say(romeo, &format!("<message to='juliet@localhost' type='chat'><body>{n}</body></message>"));
    }
    // The next process.
    let mut host = process(host.disk, 1 << 20);
    host.now = at(THEN_S + 60);
    let (romeo, _) = host.bind(0, "romeo");
    host.say(romeo, "<message to='juliet@localhost' type='chat'><body>4</body></message>");
    host.now = at(THEN_S + 120);
    let (juliet, _) = host.bind(1, "juliet");
    let told = said(&host.say(juliet, "<presence/>"));
    let at = |sign: &str| told.find(sign).unwrap_or_else(|| panic!("no {sign}: {told}"));
    let order = ["<body>1<", "2026-01-01T00:00:00.000Z", "<body>2<", "2035-", "<body>3<", "2026-01-01T00:00:01.000Z"];
    let order: Vec<usize> =
        order.iter().chain(&["<body>4<", "2026-01-01T00:01:00.000Z"]).map(|sign| at(sign)).collect();
    assert!(order.is_sorted(), "{order:?}: {told}");
}

/// Messages expire by age; those that arrived while the clock was wrong stay until they look old
/// enough, and do not retain others. Users who only send, whose cursor never moves, were never
/// trimmed once.
#[test]
fn archives_are_trimmed_by_age_also_of_those_who_only_send() {
    let mut host = process(Disk::default(), 0);
    let (romeo, _) = host.bind(0, "romeo");
    for (n, wall_s) in [(1, THEN_S), (2, THEN_S + 1), (3, THEN_S + YEAR_S)] {
        host.now = at(wall_s);
        host.say(romeo, &format!("<message to='juliet@localhost' type='chat'><body>{n}</body></message>"));
    }
    host.now = at(THEN_S + YEAR_S + 60);
    for user in ["romeo@localhost", "juliet@localhost"] {
        host.turn(Input::Command { token: 1, command: Command::Log(LogCommand::Retain { users: vec![user.into()] }) });
    }
    let kept = |user: &str| {
        let rows = host.disk.rows_of(Table::Archive, user);
        rows.map(|(sort, row)| entries(sort, row).expect("whole").len()).sum::<usize>()
    };
    assert_eq!((kept("romeo@localhost"), kept("juliet@localhost")), (1, 3), "what waits for Juliet stays");
}

/// The bodies in a user's archive.
fn kept(host: &Host, user: &str) -> Vec<u64> {
    let rows = host.disk.rows_of(Table::Archive, user);
    rows.flat_map(|(sort, row)| entries(sort, row).expect("whole")).map(|(_, entry)| entry.time_ms / 1_000).collect()
}

fn retain(host: &mut Host, user: &str) {
    host.turn(Input::Command { token: 1, command: Command::Log(LogCommand::Retain { users: vec![user.into()] }) });
}

/// Messages written while the clock was ahead once retained all later ones until their own
/// timestamps were old. Their age is that of the next message, also if there are more of them than
/// one read returns.
#[test]
fn stamps_of_the_future_keep_nothing_that_came_later() {
    let mut host = process(Disk::default(), 0);
    let (romeo, _) = host.bind(0, "romeo");
    let say = |host: &mut Host, wall_s: u64| {
        host.now = at(wall_s);
        host.say(romeo, "<message to='juliet@localhost' type='chat'><body>b</body></message>");
    };
    say(&mut host, THEN_S);
    (0..100).for_each(|n| say(&mut host, THEN_S + 10 * YEAR_S + n));
    say(&mut host, THEN_S + 60);
    say(&mut host, THEN_S + YEAR_S);
    host.now = at(THEN_S + YEAR_S + 30);
    retain(&mut host, "romeo@localhost");
    assert_eq!(kept(&host, "romeo@localhost").len(), 102, "only the first is old for certain");
    host.now = at(THEN_S + YEAR_S + 90);
    retain(&mut host, "romeo@localhost");
    assert_eq!(kept(&host, "romeo@localhost"), [THEN_S + YEAR_S]);
}

/// A clock that is ahead removes nothing: expiry uses the time that has certainly passed.
#[test]
fn a_clock_in_doubt_makes_no_message_old() {
    let mut host = process(Disk::default(), 0);
    let (romeo, _) = host.bind(0, "romeo");
    host.say(romeo, "<message to='juliet@localhost' type='chat'><body>b</body></message>");
    let ahead_us = (THEN_S + 2 * YEAR_S) * 1_000_000;
    host.now = Now::new(1_000, ahead_us);
    host.expiry_us = Some((THEN_S + 60) * 1_000_000);
    retain(&mut host, "romeo@localhost");
    assert_eq!(kept(&host, "romeo@localhost"), [THEN_S]);
    host.expiry_us = None;
    retain(&mut host, "romeo@localhost");
    assert!(kept(&host, "romeo@localhost").is_empty());
}

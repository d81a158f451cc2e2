//! Announcements: to many sessions, a few per turn, and once to users who log in later.

use std::sync::Arc;

use throng_engine::id::ConnId;
use throng_engine::io::{AnnouncementCommand, Command, Effect, Input, Reply, StorageState};
use throng_engine::limits::{ANNOUNCE_SESSIONS_MS, ANNOUNCE_STEP_MS, ANNOUNCEMENTS_MAX};
use throng_engine::settings::Settings;
use throng_engine::store::announcement::Kept;
use throng_sim::host::{BIND, Host, reply, said};

fn host() -> Host {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.sessions_per_user_max = 1_000;
    Host::new(settings)
}

fn announce(host: &mut Host, text: &str, number: u64) -> Option<Reply> {
    reply(host.turn(Input::Command {
        token: 1,
        command: Command::Announcement(AnnouncementCommand::Begin { text: text.into(), number }),
    }))
}

fn keep(host: &mut Host, kept: Option<Kept>) {
    let command = Command::Announcement(AnnouncementCommand::Keep { kept: kept.map(Arc::new), write: true });
    let effects = host.turn(Input::Command { token: 1, command });
    let durable = effects.iter().any(|effect| matches!(effect, Effect::Reply { durable: true, .. }));
    assert!(durable && reply(effects) == Some(Reply::Done(0)));
}

fn progress(host: &mut Host) -> (u64, u32) {
    match reply(host.turn(Input::Command { token: 1, command: Command::Announcement(AnnouncementCommand::Progress) })) {
        Some(Reply::Announced { told, under_way }) => (told, under_way),
        other => panic!("{other:?}"),
    }
}

/// Lets this many milliseconds pass; returns what is sent.
fn pass(host: &mut Host, ms: u64) -> String {
    host.now.mono_ms += ms;
    host.now.pass_wall(ms * 1_000);
    said(&host.turn(Input::Storage(StorageState::Ok)))
}

fn kept(number: u64, until_us: u64) -> Kept {
    Kept { number, at_us: 1_000_000, until_us, text: "for later &".into() }
}

/// Every session gets the announcement once, and no turn sends more than a few, however much later
/// it is than the one before.
#[test]
fn many_sessions_are_told_a_few_a_turn() {
    const SESSIONS: usize = 5_000;
    let mut host = host();
    for n in 0..SESSIONS / 500 {
        host.account(&format!("user{n}"));
    }
    for slot in 0..SESSIONS as u32 {
        host.bind(slot, &format!("user{}", slot as usize / 500));
    }
    assert_eq!(announce(&mut host, "hello", 0), Some(Reply::Done(0)));
    assert_eq!(progress(&mut host), (0, 1), "no time has passed");
    let a_turn = (ANNOUNCE_STEP_MS * ANNOUNCE_SESSIONS_MS) as usize;
    let (mut told, mut turns) = (0, 0);
    while progress(&mut host).1 > 0 {
        let count = pass(&mut host, 10_000).matches("<body>hello</body>").count();
        assert!(count <= a_turn, "{count} sessions in one turn");
        told += count;
        turns += 1;
    }
    assert_eq!((told, progress(&mut host).0), (SESSIONS, SESSIONS as u64));
    assert!(turns > SESSIONS / a_turn);
    assert_eq!(pass(&mut host, 10_000).matches("hello").count(), 0);
}

/// A long text is sent to fewer sessions per turn: bytes fill memory.
#[test]
fn a_long_text_is_told_to_fewer() {
    let mut host = host();
    host.account("romeo");
    (0..900).for_each(|slot| drop(host.bind(slot, "romeo")));
    let text = "x".repeat(8_000);
    announce(&mut host, &text, 0);
    let bytes = pass(&mut host, 10_000).len();
    assert!((1_000_000..1_800_000).contains(&bytes), "{bytes} bytes in one turn");
}

#[test]
fn announcements_are_told_in_their_order_and_few_may_be_under_way() {
    let mut host = host();
    host.account("romeo");
    host.bind(0, "romeo");
    for n in 0..ANNOUNCEMENTS_MAX {
        assert_eq!(announce(&mut host, &format!("no {n};"), 0), Some(Reply::Done(0)));
    }
    assert_eq!(announce(&mut host, "one more", 0), Some(Reply::Busy));
    let text: String = (0..10).map(|_| pass(&mut host, 50)).collect();
    let bodies: Vec<&str> = text.split("<body>").skip(1).filter_map(|rest| rest.split(';').next()).collect();
    assert_eq!(bodies, ["no 0", "no 1", "no 2", "no 3"]);
}

/// A session that waits to be resumed gets the announcement when it is (XEP-0198 5): a phone is
/// rarely connected.
#[test]
fn a_session_that_waits_to_be_resumed_is_told_then_xep0198_5() {
    let mut host = host();
    host.account("romeo");
    let (conn, _) = host.bind(0, "romeo");
    let enabled = said(&host.ask(conn, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>"));
    let id = enabled.split(" id='").nth(1).and_then(|rest| rest.split('\'').next()).expect("an id").to_owned();
    host.turn(Input::Closed { conn });
    announce(&mut host, "hello", 0);
    assert_eq!(pass(&mut host, 50), "");
    assert_eq!(pass(&mut host, 50), "");
    assert_eq!(progress(&mut host), (1, 0));
    let (conn, _) = host.arrive(1, "romeo");
    let resumed = said(&host.ask(conn, &format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='0'/>")));
    assert!(resumed.contains("<body>hello</body>"), "{resumed}");
}

/// A user who logs in later gets it once, on one session, with the time of the announcement
/// (XEP-0203); also after a restart.
#[test]
fn who_logs_in_later_is_told_once_and_for_good() {
    let mut host = host();
    host.account("romeo");
    host.account("juliet");
    let (romeo, _) = host.bind(0, "romeo");
    host.ask(romeo, "<presence/>");
    keep(&mut host, Some(kept(7, u64::MAX)));
    announce(&mut host, "for later &", 7);
    assert!(pass(&mut host, 50).contains("<body>for later &amp;</body></message>"));
    pass(&mut host, 50);
    let (second, _) = host.bind(1, "romeo");
    assert!(!said(&host.ask(second, "<presence/>")).contains("for later"), "has been told already");

    let (juliet, _) = host.bind(2, "juliet");
    let told = said(&host.ask(juliet, "<presence/>"));
    assert!(told.contains("for later &amp;</body><delay xmlns='urn:xmpp:delay'"), "{told}");
    assert!(told.contains("stamp='1970-01-01T00:00:01.000Z'"), "{told}");
    for again in ["<presence><status>x</status></presence>", "<presence type='unavailable'/>", "<presence/>"] {
        assert!(!said(&host.ask(juliet, again)).contains("for later"));
    }

    // The store has it, and who has received it.
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.kept = Some(Arc::new(kept(7, u64::MAX)));
    let mut again = Host::new(settings);
    again.disk = host.disk;
    again.account("nurse");
    for (slot, user, told) in [(0, "juliet", false), (1, "romeo", false), (2, "nurse", true)] {
        let (conn, _) = again.bind(slot, user);
        assert_eq!(said(&again.ask(conn, "<presence/>")).contains("for later"), told, "{user}");
    }
    keep(&mut again, Some(kept(8, 2_000_000)));
    let (conn, _) = again.bind(3, "juliet");
    assert!(said(&again.ask(conn, "<presence/>")).contains("for later"), "a new one");
    (again.now.wall_us, again.now.expiry_us) = (2_000_000, 2_000_000);
    let (conn, _) = again.bind(4, "nurse");
    assert!(!said(&again.ask(conn, "<presence/>")).contains("for later"), "its time is over");
    keep(&mut again, None);
}

#[test]
fn on_a_full_disk_nothing_is_kept() {
    let mut host = host();
    host.turn(Input::Storage(StorageState::Full));
    let command =
        Command::Announcement(AnnouncementCommand::Keep { kept: Some(Arc::new(kept(1, u64::MAX))), write: true });
    assert_eq!(reply(host.turn(Input::Command { token: 1, command })), Some(Reply::StoreFull));
}

/// Two sessions become available at once: one of them gets it.
#[test]
fn of_two_sessions_at_once_one_is_told() {
    let mut host = host();
    host.account("romeo");
    keep(&mut host, Some(kept(7, u64::MAX)));
    let conns: Vec<ConnId> = (0..2).map(|slot| host.arrive(slot, "romeo").0).collect();
    conns.iter().for_each(|conn| drop(host.ask(*conn, BIND)));
    let told: String = conns.iter().map(|conn| said(&host.ask(*conn, "<presence/>"))).collect();
    assert_eq!(told.matches("for later").count(), 1);
}

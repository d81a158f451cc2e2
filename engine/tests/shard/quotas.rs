//! What one account, one address, or all sessions together may use up: refused or put off, with words that say when to go on.

use throng_engine::id::ConnId;
use throng_engine::io::{Command, Effect, Input, ListenerKind, Reply, Whom};
use throng_engine::settings::Settings;
use throng_engine::wire::limit::Limit;
use throng_sim::host::{HEADER, Host, reply, said};

fn host(change: impl FnOnce(&mut Settings)) -> Host {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    change(&mut settings);
    let mut host = Host::new(settings);
    for local in ["romeo", "juliet"] {
        host.account(local);
    }
    host
}

fn message(n: usize, body: &str) -> String {
    format!("<message to='juliet@localhost' type='chat' id='{n}'><body>{body}</body></message>")
}

/// RFC 6120 8.3.3.18: beyond a day's worth of messages the sender is told when to go on, and may then. Nothing is counted that is
/// stored nowhere.
#[test]
fn an_account_puts_so_many_messages_into_logs_in_a_day() {
    let mut host = host(|settings| settings.log_messages_day = 24);
    let (conn, _) = host.bind(0, "romeo");
    let send = |host: &mut Host, n: usize| said(&host.say(conn, &message(n, "a")));
    for n in 0..24 {
        assert!(!send(&mut host, n).contains("error"), "{n}");
    }
    let refused = send(&mut host, 24);
    assert!(refused.contains("<resource-constraint") && refused.contains("as much as it may in a day"), "{refused}");
    assert!(refused.contains("try again in 3600 seconds"), "{refused}");
    let state =
        "<message to='juliet@localhost' type='chat'><gone xmlns='http://jabber.org/protocol/chatstates'/></message>";
    assert!(!said(&host.say(conn, state)).contains("error"));
    host.now.mono_ms += 3_600_000;
    assert!(!send(&mut host, 25).contains("error"), "after an hour one more");
    assert!(send(&mut host, 26).contains("<resource-constraint"));
    // The operator sees who is held, and lets go.
    let limits = reply(host.turn(Input::Command { token: 1, command: Command::Limits }));
    let Some(Reply::Limits(rows)) = limits else { panic!("{limits:?}") };
    assert!(rows.iter().any(|row| row.limit == Limit::LogQuota && row.who == "romeo@localhost" && row.refused == 2));
    let whom = Whom::Account("romeo@localhost".into());
    host.turn(Input::Command { token: 2, command: Command::Release { whom } });
    assert!(!send(&mut host, 27).contains("error"));
}

/// A session that ends and comes again, and another one of the same user, do not begin anew.
#[test]
fn an_account_puts_so_many_bytes_into_logs_in_a_day_by_whatever_session() {
    let mut host = host(|settings| settings.log_bytes_day = 10_000);
    let mut refused = 0;
    for slot in 0..10 {
        let (conn, _) = host.bind(slot, "romeo");
        refused += usize::from(said(&host.say(conn, &message(0, &"x".repeat(1_900)))).contains("<resource-constraint"));
        host.turn(Input::Closed { conn });
        // Long enough for what is known of users who are away to be forgotten.
        for _ in 0..10 {
            host.now.mono_ms += 10_000;
            host.turn(Input::EndOfTurn);
        }
    }
    assert_eq!(refused, 5);
}

/// Where all sessions together leave too much unacknowledged (XEP-0198), messages wait in the log for whoever leaves some.
#[test]
fn sessions_together_leave_so_much_unacknowledged() {
    let sent = |limit: u64| {
        let mut host = host(|settings| settings.unacked_bytes_max = limit);
        let (conn, _) = host.bind(0, "romeo");
        let (juliet, _) = host.bind(1, "juliet");
        host.say(juliet, "<presence/><enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        let all: String = (0..60).map(|n| said(&host.say(conn, &message(n, &"x".repeat(800))))).collect();
        all.matches("<body>").count()
    };
    assert_eq!(sent(0), 60, "no limit");
    assert_eq!(sent(1 << 30), 60, "far from it");
    let few = sent(20_000);
    assert!((20..30).contains(&few), "{few}");
}

/// Connections of one address that have not logged in are bounded; those that have are not counted.
#[test]
fn an_address_has_so_many_connections_that_have_not_logged_in() {
    let mut host = host(|settings| settings.opening_per_address_max = 10);
    let listener = ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: false };
    let connect = |host: &mut Host, slot: u32, peer: [u8; 4]| {
        let conn = ConnId { slot, generation: 1 };
        host.turn(Input::Accepted { conn, listener, peer: peer.into() });
        said(&host.say(conn, HEADER))
    };
    for slot in 0..10 {
        assert!(connect(&mut host, slot, [192, 0, 2, 1]).contains("<stream:features>"), "{slot}");
    }
    host.prompt = true;
    let conn = ConnId { slot: 10, generation: 1 };
    let refused = said(&host.turn(Input::Accepted { conn, listener, peer: [192, 0, 2, 1].into() }));
    assert!(refused.contains("<resource-constraint") && refused.contains("have not logged in"), "{refused}");
    assert!(connect(&mut host, 11, [192, 0, 2, 2]).contains("<stream:features>"), "another address");
    host.turn(Input::Closed { conn: ConnId { slot: 3, generation: 1 } });
    assert!(connect(&mut host, 12, [192, 0, 2, 1]).contains("<stream:features>"), "one has gone");
}

/// Whoever pipelines requests that read and write much is not read from for a while; all of them are answered at last. Each small
/// change of 512 KB of private XML (XEP-0049) reads all of it.
#[test]
fn requests_that_are_dear_wait_for_whoever_makes_them() {
    let mut host = host(|_| {});
    let (conn, _) = host.bind(0, "romeo");
    let set = |n: usize, text: &str| {
        format!(
            "<iq type='set' id='{n}'><query xmlns='jabber:iq:private'><a{n} xmlns='b:{n}'>{text}</a{n}></query></iq>"
        )
    };
    for n in 0..2 {
        host.say(conn, &set(n, &"x".repeat(200_000)));
    }
    let all: String = (0..200).map(|n| set(2 + n % 2, "y")).collect();
    let effects = host.say(conn, &all);
    let answered = said(&effects).matches("type='result'").count();
    assert!((5..60).contains(&answered), "{answered} at once");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Pause { .. })), "not read from meanwhile");
    let mut answers = answered;
    for _ in 0..400 {
        host.now.mono_ms += 1_000;
        answers += said(&host.turn(Input::EndOfTurn)).matches("type='result'").count();
    }
    assert_eq!(answers, 200, "none is lost");
}

/// A session that is not read from any more is not worth leaving: the next one of its user begins with what it owes.
#[test]
fn who_logs_in_anew_owes_what_the_session_before_owed() {
    let mut host = host(|_| {});
    let set = |n: usize, text: &str| {
        format!(
            "<iq type='set' id='{n}'><query xmlns='jabber:iq:private'><a{n} xmlns='b:{n}'>{text}</a{n}></query></iq>"
        )
    };
    let (conn, _) = host.bind(0, "romeo");
    for n in 0..2 {
        host.say(conn, &set(n, &"x".repeat(200_000)));
    }
    let all: String = (0..200).map(|n| set(2 + n % 2, "y")).collect();
    let mut answered = Vec::new();
    for slot in 1..=20 {
        let (conn, effects) = host.bind(slot, "romeo");
        assert!(said(&effects).contains("<jid>romeo@localhost/"), "the login itself is not held up");
        answered.push(said(&host.say(conn, &all)).matches("type='result'").count());
        host.turn(Input::Closed { conn });
    }
    assert!((5..60).contains(&answered[0]), "{answered:?}");
    // What was charged for reads and did not come is given back.
    assert!(answered[1..].iter().sum::<usize>() < answered[0], "{answered:?}");
    // Others pay their own, and time pays this off.
    let (juliet, _) = host.bind(30, "juliet");
    assert!(said(&host.say(juliet, &set(9, "y"))).contains("type='result'"));
    for _ in 0..20 {
        host.now.mono_ms += 1_000;
        host.turn(Input::EndOfTurn);
    }
    let (conn, _) = host.bind(40, "romeo");
    assert_eq!(said(&host.say(conn, &set(9, "y"))).matches("type='result'").count(), 1);
    // The operator lets go of it.
    said(&host.say(conn, &all));
    host.turn(Input::Closed { conn });
    host.turn(Input::Command { token: 1, command: Command::Release { whom: Whom::Account("romeo@localhost".into()) } });
    let (conn, _) = host.bind(41, "romeo");
    assert!(said(&host.say(conn, &all)).matches("type='result'").count() >= 5);
}

/// RFC 6121 3.1.2: requests that nobody answered are asked again when a resource comes, of many only some at each time. 60 bytes set
/// off 4,000 rows.
#[test]
fn a_presence_asks_so_many_contacts_again() {
    let mut host = host(|_| {});
    let (conn, _) = host.bind(0, "romeo");
    for n in 0..300 {
        host.account(&format!("user{n}"));
        host.say(conn, &format!("<presence to='user{n}@localhost' type='subscribe'/>"));
        host.now.mono_ms += 1_000;
    }
    let before = host.shard.counters().writes.get();
    host.say(conn, "<presence/>");
    let rows = host.shard.counters().writes.get() - before;
    assert!((100..330).contains(&rows), "{rows}");
}

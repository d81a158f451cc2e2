//! Quotas of one account, one address, or all sessions together: requests are refused or deferred,
//! and the error says when to continue.

use throng_engine::id::{ConnId, SessionId, ShardId};
use throng_engine::io::{Command, Effect, Input, LimitCommand, ListenerKind, Reply, SessionCommand, Whom};
use throng_engine::letters::{Letter, Letters, UserLetter};
use throng_engine::limits::{PRIVATE_ELEMENTS_MAX, WORK_BYTES_PER_S};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::wire::limit::Limit;
use throng_sim::host::{BIND, HEADER, Host, reply, said};

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

/// RFC 6120 8.3.3.18: beyond a day's quota of messages the sender is told when to continue, and may
/// then. Only stored messages count.
#[test]
fn an_account_puts_so_many_messages_into_logs_in_a_day() {
    let mut host = host(|settings| settings.log_messages_day = 24);
    let (conn, _) = host.bind(0, "romeo");
    let send = |host: &mut Host, n: usize| said(&host.say(conn, &message(n, "a")));
    for n in 0..24 {
        assert!(!send(&mut host, n).contains("error"), "{n}");
    }
    let refused = send(&mut host, 24);
    assert!(refused.contains("<resource-constraint") && refused.contains("its daily limit of messages"), "{refused}");
    assert!(refused.contains("try again in 3600 seconds"), "{refused}");
    let state =
        "<message to='juliet@localhost' type='chat'><gone xmlns='http://jabber.org/protocol/chatstates'/></message>";
    assert!(!said(&host.say(conn, state)).contains("error"));
    host.now.mono_ms += 3_600_000;
    assert!(!send(&mut host, 25).contains("error"), "after an hour one more");
    assert!(send(&mut host, 26).contains("<resource-constraint"));
    // The operator sees the limited account and releases it.
    let limits = reply(host.turn(Input::Command { token: 1, command: Command::Limit(LimitCommand::List) }));
    let Some(Reply::Limits(rows)) = limits else { panic!("{limits:?}") };
    assert!(rows.iter().any(|row| row.limit == Limit::LogQuota && row.who == "romeo@localhost" && row.refused == 2));
    let whom = Whom::Account("romeo@localhost".into());
    host.turn(Input::Command { token: 2, command: Command::Limit(LimitCommand::Release { whom }) });
    assert!(!send(&mut host, 27).contains("error"));
}

/// A session that ends and returns, and another one of the same user, do not start anew.
#[test]
fn an_account_puts_so_many_bytes_into_logs_in_a_day_by_whatever_session() {
    let mut host = host(|settings| settings.log_bytes_day = 10_000);
    let mut refused = 0;
    for slot in 0..10 {
        let (conn, _) = host.bind(slot, "romeo");
        refused += usize::from(said(&host.say(conn, &message(0, &"x".repeat(1_900)))).contains("<resource-constraint"));
        host.turn(Input::Closed { conn });
        // Long enough for the state of absent users to be dropped.
        for _ in 0..10 {
            host.now.mono_ms += 10_000;
            host.turn(Input::EndOfTurn);
        }
    }
    assert_eq!(refused, 5);
}

/// If all sessions together have too much unacknowledged output (XEP-0198), messages wait in the
/// log until some is acknowledged.
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

/// Connections of one address before login are limited; those after login do not count.
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

/// An operator sees their sources: addresses with the most first, a /64 of IPv6 as one, and none
/// that has logged in.
#[test]
fn connections_that_have_not_logged_in_are_listed_by_address() {
    let mut host = host(|settings| settings.opening_per_address_max = 0);
    host.bind(0, "romeo");
    let listener = ListenerKind { direct_tls: false, starttls: true, plain_auth: true, registration: false };
    let from = ["192.0.2.1", "2001:db8::1", "192.0.2.1", "2001:db8::2", "192.0.2.1", "192.0.2.9"];
    for (slot, peer) in (1..).zip(from) {
        let conn = ConnId { slot, generation: 1 };
        host.turn(Input::Accepted { conn, listener, peer: peer.parse().expect("an address") });
    }
    let mut listed = |most| {
        let Some(Reply::Openings(rows)) =
            reply(host.turn(Input::Command { token: 1, command: Command::Session(SessionCommand::Openings { most }) }))
        else {
            panic!("no rows")
        };
        rows.into_iter().map(|(address, count)| (address.to_string(), count)).collect::<Vec<_>>()
    };
    let rows =
        [("192.0.2.1", 3), ("2001:db8::", 2), ("192.0.2.9", 1)].map(|(address, count)| (address.to_owned(), count));
    assert_eq!(listed(10), rows);
    assert_eq!(listed(2), rows[..2]);
}

/// A change of private XML (XEP-0049).
fn set(n: usize, text: &str) -> String {
    format!("<iq type='set' id='{n}'><query xmlns='jabber:iq:private'><a{n} xmlns='b:{n}'>{text}</a{n}></query></iq>")
}

/// A user with 400 KB of private XML, which each small change reads completely, and 100 such
/// changes.
fn dear(host: &mut Host, slot: u32, local: &str) -> String {
    let (conn, _) = host.bind(slot, local);
    for n in 0..2 {
        host.say(conn, &set(n, &"x".repeat(200_000)));
    }
    host.say(conn, "</stream:stream>");
    pass(host, 60);
    (0..100).map(|n| set(2 + n % 2, "y")).collect()
}

/// Lets this many seconds pass.
fn pass(host: &mut Host, seconds: u64) -> Vec<Effect> {
    let turns = (0..seconds).flat_map(|_| {
        host.now.mono_ms += 1_000;
        host.turn(Input::EndOfTurn)
    });
    turns.collect()
}

fn results(effects: &[Effect]) -> usize {
    said(effects).matches("type='result'").count()
}

/// A client that pipelines requests with many reads and writes is not read from for a while; all of
/// them are answered in the end. Each small change of 512 KB of private XML (XEP-0049) reads all of
/// it.
#[test]
fn requests_that_are_dear_wait_for_whoever_makes_them() {
    let mut host = host(|_| {});
    let (conn, _) = host.bind(0, "romeo");
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

/// Leaving a paused session gains nothing: the user's next one inherits the debt.
#[test]
fn who_logs_in_anew_owes_what_the_session_before_owed() {
    let mut host = host(|_| {});
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
    // A charge for reads that did not happen is refunded.
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
    // The operator releases it.
    said(&host.say(conn, &all));
    host.turn(Input::Closed { conn });
    host.turn(Input::Command {
        token: 1,
        command: Command::Limit(LimitCommand::Release { whom: Whom::Account("romeo@localhost".into()) }),
    });
    let (conn, _) = host.bind(41, "romeo");
    assert!(said(&host.say(conn, &all)).matches("type='result'").count() >= 5);
}

/// However and however often sessions end, a user gets no more done per time than with one session
/// that stays. A session with too much debt is not read from, so its client cannot end it.
#[test]
fn no_way_of_ending_a_session_sheds_what_it_owes() {
    const SECONDS: u32 = 120;
    type Way = (&'static str, fn(&mut Host, ConnId));
    let ways: [Way; 4] = [
        ("it stays", |_, _| {}),
        ("the connection goes", |host, conn| drop(host.turn(Input::Closed { conn }))),
        ("the next one takes its name", |_, _| {}),
        ("the operator ends it", |host, _| {
            let jid = "romeo@localhost".into();
            host.turn(Input::Command {
                token: 9,
                command: Command::Session(SessionCommand::Kick { jid, reason: None }),
            });
        }),
    ];
    let bind = |host: &mut Host, slot: u32| {
        let (conn, _) = host.arrive(slot, "romeo");
        let bound = host.ask(conn, &BIND.replace("'/>", "'><resource>r</resource></bind>"));
        assert!(said(&bound).contains("<jid>romeo@localhost/r</jid>"), "the login itself is not held up");
        conn
    };
    let mut done = Vec::new();
    for (name, end) in ways {
        let mut host = host(|_| {});
        let all = dear(&mut host, 0, "romeo");
        let (mut conn, mut answered) = (bind(&mut host, 1), 0);
        for slot in 2..2 + SECONDS {
            answered += results(&host.say(conn, &all));
            answered += results(&pass(&mut host, 1));
            if name != "it stays" {
                end(&mut host, conn);
                conn = bind(&mut host, slot);
                assert_eq!(host.shard.counters().sessions.get(), 1);
            }
        }
        done.push((name, answered));
    }
    let most = done[0].1 + done[0].1 / 10;
    assert!(done[0].1 > 100 && done.iter().all(|(_, answered)| *answered <= most), "{done:?}");
}

/// Another shard's charge for a request may arrive after the session has ended: then the user owes
/// it until it is paid off.
#[test]
fn what_is_charged_to_a_session_that_has_ended_is_owed_by_the_next_one() {
    let mut host = Host::new(Settings::new("localhost", 2, [0; 32], 0));
    host.account("juliet");
    let all = dear(&mut host, 0, "juliet");
    let (conn, _) = host.bind(1, "juliet");
    host.turn(Input::Closed { conn });
    let mut batch = Letters::new(ShardId(1));
    let session = SessionId { slot: 0, generation: 1 };
    for _ in 0..4 {
        let user = batch.name("juliet@localhost");
        batch.push(Letter::User(UserLetter::Charge { session, user, work: 8 * WORK_BYTES_PER_S }));
    }
    host.turn(Input::Letters(&batch));
    let (conn, _) = host.bind(2, "juliet");
    assert_eq!(results(&host.say(conn, &all)), 0, "32 seconds are owed");
    assert_eq!(results(&pass(&mut host, 24)), 0);
    assert!(results(&pass(&mut host, 8)) > 0, "half of what may be owed is left");
}

/// Users' debts take memory once per user, however often they return, and none once paid off.
#[test]
fn what_users_owe_is_forgotten_when_it_is_paid_off() {
    const USERS: u32 = 200;
    // Nothing else retains absent users.
    let mut host = host(|settings| settings.cache_s = 1);
    let names: Vec<String> = (0..USERS).map(|n| format!("user{n}")).collect();
    names.iter().for_each(|name| host.account(name));
    let asked: String = (0..100).map(|n| set(2 + n % 2, "y")).collect();
    let memory = |host: &mut Host| {
        pass(host, 4);
        let counters = host.shard.counters();
        (counters.users_loaded.get(), counters.mem_users_bytes.get())
    };
    let nobody = memory(&mut host);
    for round in 0..4 {
        for (slot, name) in (1..).zip(&names) {
            let (conn, _) = host.bind(slot + round * USERS, name);
            host.say(conn, &[set(0, &"x".repeat(200_000)), set(1, &"x".repeat(200_000)), asked.clone()].concat());
            host.turn(Input::Closed { conn });
        }
        let (users, bytes) = memory(&mut host);
        assert_eq!(users, u64::from(USERS), "round {round}: each of them owes, and is there once");
        assert!((bytes - nobody.1) / users < 600, "round {round}: {bytes} bytes of {users} users");
    }
    pass(&mut host, 60);
    let (users, bytes) = memory(&mut host);
    assert_eq!(users, 0, "paid off");
    // The capacity of the tables remains: a chunk of users, and one of their rates.
    assert!((bytes - nobody.1) / u64::from(USERS) < 120, "{bytes} bytes are left of {nobody:?}");
}

/// RFC 6121 3.1.2: unanswered requests are sent again when a resource becomes available, a limited
/// number each time. Once, 60 bytes triggered 4,000 rows.
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

/// XEP-0049: concurrent changes are each checked against the writes of those before.
#[test]
fn private_xml_that_comes_at_once_is_counted_together() {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    host.account("romeo");
    let (conn, _) = host.bind(0, "romeo");
    let each = PRIVATE_ELEMENTS_MAX / 2;
    let changes = (0..4).map(|n| {
        let elements: String = (0..each).map(|of| format!("<a xmlns='b:{n}:{of}'>y</a>")).collect();
        format!("<iq type='set' id='{n}'><query xmlns='jabber:iq:private'>{elements}</query></iq>")
    });
    let changes: String = changes.collect();
    let mut effects = host.say(conn, &changes);
    effects.extend(pass(&mut host, 60));
    let said = said(&effects);
    assert_eq!((said.matches("type='result'").count(), said.matches("<policy-violation").count()), (2, 2), "{said}");
    assert_eq!(host.disk.rows_of(Table::Private, "romeo@localhost").count(), PRIVATE_ELEMENTS_MAX);
}

/// XEP-0441 2.2: of concurrent changes to preferences the last one wins, whatever they depend on.
#[test]
fn the_last_of_several_preferences_holds_xep0441_2_2() {
    let mut host = Host::new(Settings::new("localhost", 1, [0; 32], 0));
    host.account("romeo");
    let (conn, _) = host.bind(0, "romeo");
    let prefs = |default: &str| {
        format!(
            "<iq type='set' id='{default}'><prefs xmlns='urn:xmpp:mam:2' default='{default}'><always/><never/></prefs></iq>"
        )
    };
    host.say(conn, &(prefs("roster") + &prefs("never")));
    let now = said(&host.ask(conn, "<iq type='get' id='g'><prefs xmlns='urn:xmpp:mam:2'/></iq>"));
    assert!(now.contains("default='never'"), "{now}");
}

//! How fast one account may send, over all its sessions: faster input is read later, and nothing is
//! refused or lost.

use throng_engine::id::ConnId;
use throng_engine::io::{BacklogRow, Command, Effect, Input, LimitCommand, LogCommand, Reply, Whom};
use throng_engine::session::pace::{Allowance, Allowances};
use throng_engine::settings::Settings;
use throng_engine::wire::limit::Limit;
use throng_sim::host::{Host, reply, said};

fn host(change: impl FnOnce(&mut Settings)) -> Host {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.paces = Allowances::USUAL;
    change(&mut settings);
    let mut host = Host::new(settings);
    for local in ["romeo", "juliet", "nurse"] {
        host.account(local);
    }
    host
}

/// This many messages to Juliet.
fn messages(count: usize) -> String {
    (0..count)
        .map(|n| format!("<message to='juliet@localhost' type='chat' id='{n}'><body>a</body></message>"))
        .collect()
}

fn pass(host: &mut Host, ms: u64) -> Vec<Effect> {
    let turns = (0..ms.div_ceil(100)).flat_map(|_| {
        host.now.mono_ms += 100;
        host.turn(Input::Held { since_s: None, many: false })
    });
    turns.collect()
}

fn taken(host: &Host) -> u64 {
    host.shard.counters().messages_in.get()
}

fn held_back(host: &mut Host) -> Vec<BacklogRow> {
    let backlogs = Command::Log(LogCommand::Backlogs { from_slot: 0, bytes_min: 1, most: 10 });
    let Some(Reply::Backlogs { rows, .. }) = reply(host.turn(Input::Command { token: 1, command: backlogs })) else {
        panic!("an answer to another question");
    };
    rows.into_iter().filter(|row| matches!(row, BacklogRow::HeldBack { .. })).collect()
}

/// By default 200 stanzas at once and 20 per second, over all sessions; others keep sending, and
/// nothing is lost.
#[test]
fn an_account_sends_a_burst_and_then_its_rate_over_all_its_sessions() {
    let mut host = host(|_| {});
    let (first, _) = host.bind(0, "romeo");
    let (second, _) = host.bind(1, "romeo");
    let (nurse, _) = host.bind(2, "nurse");
    let (juliet, _) = host.bind(3, "juliet");
    host.ask(juliet, "<presence/>");
    let mut effects = host.say(first, &messages(150));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::Pause { .. })), "no person gets so far");
    effects.extend(host.say(second, &messages(150)));
    assert_eq!(taken(&host), 201, "the one that is over is the last");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Pause { conn } if *conn == second)));
    effects.extend(host.say(first, &messages(100)));
    assert_eq!(taken(&host), 202, "the other session has one more, and waits then");
    assert_eq!(said(&effects).matches("<body>").count(), 202);
    host.say(nurse, &messages(100));
    assert_eq!(taken(&host), 302, "others are not held back");
    let rows = held_back(&mut host);
    assert!(matches!(&rows[..], [BacklogRow::HeldBack { jid, times: 2, .. }] if jid == "romeo@localhost"), "{rows:?}");
    let mut before = taken(&host);
    for second in 0..6 {
        effects.extend(pass(&mut host, 1_000));
        let now = taken(&host);
        assert!((15..=26).contains(&(now - before)), "second {second}: {}", now - before);
        before = now;
    }
    effects.extend(pass(&mut host, 5_000));
    assert_eq!(taken(&host), 500);
    assert_eq!(said(&effects).matches("<body>").count(), 400, "those of romeo, all of them");
    pass(&mut host, 7_000);
    assert_eq!(held_back(&mut host), [], "it is over");
    assert!(host.shard.counters().pace_paused.get() > 2);
    // After a pause the whole burst is available again.
    pass(&mut host, 10_000);
    host.say(first, &messages(200));
    assert_eq!((taken(&host), held_back(&mut host)), (700, vec![]));
}

/// Long stanzas are charged for their bytes, and stanzas of all kinds count.
#[test]
fn bytes_and_other_stanzas_count() {
    let mut host = host(|_| {});
    let (romeo, _) = host.bind(0, "romeo");
    let long = format!("<message to='juliet@localhost' type='chat'><body>{}</body></message>", "x".repeat(100_000));
    host.say(romeo, &long.repeat(20));
    assert_eq!(taken(&host), 9, "25 each, and the one that is over");
    let (nurse, _) = host.bind(1, "nurse");
    let counted = |host: &Host| host.shard.counters().iqs_in.get() + host.shard.counters().presences_in.get();
    let before = counted(&host);
    host.say(nurse, &"<presence/><iq type='get' id='1'><ping xmlns='urn:xmpp:ping'/></iq>".repeat(200));
    assert_eq!(counted(&host) - before, 201);
}

/// No way of disconnecting gives an account more than its rate: neither new sessions nor a resumed
/// one (XEP-0198 5).
#[test]
fn who_comes_again_has_sent_what_it_has_sent() {
    let mut host = host(|settings| settings.cache_s = 1);
    let (conn, _) = host.bind(0, "romeo");
    host.say(conn, &messages(300));
    host.turn(Input::Closed { conn });
    let before = taken(&host);
    assert_eq!(before, 201);
    for slot in 1..=20 {
        let (conn, effects) = host.bind(slot, "romeo");
        assert!(said(&effects).contains("<jid>romeo@localhost/"), "the login itself is not held up");
        host.say(conn, &messages(50));
        host.turn(Input::Closed { conn });
        // Long enough for absent users to be checked, and for two stanzas.
        pass(&mut host, 100);
    }
    assert!(taken(&host) - before <= 45, "{}", taken(&host) - before);
    pass(&mut host, 60_000);
    assert_eq!(host.shard.counters().users_loaded.get(), 0, "it is forgotten when nothing counts any more");
    // The same with a resumed session.
    let (conn, _) = host.bind(30, "romeo");
    let enabled = said(&host.ask(conn, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>"));
    let id = enabled.split_once(" id='").expect("it may be resumed").1.split('\'').next().unwrap().to_owned();
    let before = taken(&host);
    host.say(conn, &messages(300));
    assert_eq!(taken(&host) - before, 201);
    host.turn(Input::Closed { conn });
    let (conn, _) = host.arrive(31, "romeo");
    let resumed = host.ask(conn, &format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>{}", messages(50)));
    assert!(said(&resumed).contains("<resumed "), "{}", said(&resumed));
    assert!(taken(&host) - before <= 202, "{}", taken(&host) - before);
    pass(&mut host, 10_000);
    assert_eq!(taken(&host) - before, 251);
}

/// Administrators and accounts named by the operator may send more; 0 means no limit; the operator
/// can release an account.
#[test]
fn the_operator_says_who_may_send_more() {
    let few = |a_second, burst| Allowance { a_second, burst };
    let mut host = host(|settings| {
        settings.paces = Allowances { ordinary: few(2, 10), busy: few(20, 100) };
        settings.admins = ["nurse@localhost".into()].into();
        settings.busy_accounts = ["romeo@localhost".into()].into();
    });
    let sends = |host: &mut Host, slot: u32, local: &str| {
        let (conn, _) = host.bind(slot, local);
        let before = taken(host);
        host.say(conn, &messages(200));
        (conn, taken(host) - before)
    };
    assert_eq!(sends(&mut host, 0, "romeo").1, 101);
    assert_eq!(sends(&mut host, 1, "nurse").1, 101);
    let (conn, taken_of_juliet) = sends(&mut host, 2, "juliet");
    assert_eq!(taken_of_juliet, 11);
    let limits = reply(host.turn(Input::Command { token: 1, command: Command::Limit(LimitCommand::List) }));
    let Some(Reply::Limits(rows)) = limits else { panic!("{limits:?}") };
    assert!(rows.iter().any(|row| row.limit == Limit::Stanzas && row.who == "juliet@localhost"), "{rows:?}");
    let before = taken(&host);
    let whom = Whom::Account("juliet@localhost".into());
    let effects = host.turn(Input::Command { token: 2, command: Command::Limit(LimitCommand::Release { whom }) });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Resume { conn: of, .. } if *of == conn)));
    assert_eq!(taken(&host) - before, 11);
    host.turn(Input::Command { token: 3, command: Command::Limit(LimitCommand::Release { whom: Whom::All }) });
    assert!(taken(&host) - before > 11 + 2 * 90);
}

#[test]
fn without_a_rate_nobody_is_held_back() {
    let mut host = host(|settings| settings.paces.ordinary.a_second = 0);
    let (conn, _) = host.bind(0, "romeo");
    host.say(conn, &messages(5_000));
    assert_eq!((taken(&host), held_back(&mut host)), (5_000, vec![]));
}

/// The lower bits of the clock in the sessions' timestamps wrap after 49 days, and half of them
/// after 25. A session that is new or was idle owes nothing then.
#[test]
fn sessions_of_a_server_that_has_run_for_weeks_owe_nothing() {
    const DAY_MS: u64 = 86_400_000;
    let roster = "<iq type='set' id='r'><query xmlns='jabber:iq:roster'><item jid='juliet@localhost'/></query></iq>";
    for days in [26, 30, 38, 45, 49] {
        let mut host = host(|settings| settings.idle_s_max = 0);
        let rested = host.bind(0, "romeo").0;
        for _ in 0..days {
            host.now.mono_ms += DAY_MS;
            pass(&mut host, 10_000);
        }
        let fresh = host.bind(1, "romeo").0;
        let answered = |host: &mut Host, conn: ConnId| {
            let ping = "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>";
            said(&host.say(conn, &[roster, roster, ping].concat())).matches("type='result'").count()
        };
        assert_eq!([answered(&mut host, fresh), answered(&mut host, rested)], [3, 3], "after {days} days");
        assert_eq!(host.shard.counters().work_paused.get(), 0, "after {days} days");
    }
}

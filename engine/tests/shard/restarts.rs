//! Sessions that are resumed after a restart of the server (XEP-0198 5), whether it crashed or was
//! stopped.

use throng_engine::counters::Counters;
use throng_engine::extension::subscription::State;
use throng_engine::io::{AccountCommand, Command, LogCommand, SessionCommand};
use throng_engine::settings::Settings;
use throng_engine::store::Table;
use throng_engine::store::roster::{ItemView, Version};
use throng_sim::script::{Player, Script};
use throng_sim::stage::{Acted, Stage};
use throng_sim::world::{PASSWORD, Pace};

const NOT_FOUND: &str =
    "<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";
const ROMEO: &str = "romeo@localhost";
const JULIET: &str = "juliet@localhost";
const CLIENTS: &str = "clients: romeo=romeo/orchard juliet=juliet/balcony nurse=juliet/chamber\n";
/// Juliet is available, and her session is stored.
const BEGIN: &str = "
romeo connects
juliet connects
juliet enables
juliet sends: <presence><show>away</show><priority>3</priority></presence>
juliet receives: <presence from='juliet@localhost/balcony' to='juliet@localhost'><show>away</show><priority>3</priority></presence>
time passes: 3000 ms
";

fn stage(shards: u16, script: &Script) -> Stage {
    let settings = Settings::new("localhost", shards, [0; 32], 0);
    Stage::new(7, settings, Pace::default(), script)
}

/// Plays a script on worlds with one shard and with three; returns the last.
fn play(text: &str) -> Stage {
    let script = Script::parse(&format!("{CLIENTS}{BEGIN}{text}")).expect("a script");
    let mut last = None;
    for shards in [1, 3] {
        let mut stage = stage(shards, &script);
        if let Err(error) = script.play(&mut stage, "localhost", PASSWORD) {
            panic!("{shards} shards: {error}");
        }
        last = Some(stage);
    }
    last.expect("played")
}

fn sum(stage: &Stage, of: impl Fn(&Counters) -> u64) -> u64 {
    stage.world.shards().map(|shard| of(stage.world.shard(shard).counters())).sum()
}

fn said(text: &str, number: usize) -> String {
    format!(
        "juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>{text}{number}</body></message>\n"
    )
}

fn says(text: &str, number: usize) -> String {
    format!("romeo sends: <message to='juliet@localhost' type='chat'><body>{text}{number}</body></message>\n")
}

/// Her unacknowledged stanzas arrive once, in order, with those sent before she returned.
#[test]
fn a_connected_session_goes_on_after_the_server_died_xep0198_5() {
    let before: String = (0..5).map(|n| says("before", n)).collect();
    let heard: String = (0..3).map(|n| said("before", n)).collect();
    let rest: String = (3..5).map(|n| said_late("before", n)).collect();
    let stage = play(&format!(
        "{before}{heard}time passes: 100 ms\nthe server dies\nromeo connects\n{}{}juliet resumes\n{rest}{}{}juliet receives nothing\n",
        says("meanwhile", 1),
        "time passes: 1500 ms\n",
        said_late("meanwhile", 1),
        [says("after", 1), said("after", 1)].concat(),
    ));
    assert_eq!(sum(&stage, |c| c.resumed_restored.get()), 1);
    assert_eq!(sum(&stage, |c| c.sessions_dormant.get()), 0);
}

/// The same with a delay stamp if enough time has passed to require one.
fn said_late(text: &str, number: usize) -> String {
    format!(
        "juliet receives: <message from='romeo@localhost/orchard' to='juliet@localhost' type='chat'><body>{text}{number}</body>\
         <delay xmlns='urn:xmpp:delay' from='localhost' stamp='{{any}}'/></message>\n"
    )
}

#[test]
fn a_detached_session_goes_on_after_the_server_died_xep0198_5() {
    play(&format!(
        "{}{}juliet aborts\ntime passes: 100 ms\n{}the server dies\njuliet resumes\n{}juliet receives nothing\n",
        says("a", 1),
        said("a", 1),
        [says("a", 2), "time passes: 1100 ms\n".to_owned()].concat(),
        said_late("a", 2),
    ));
}

#[test]
fn sessions_go_on_after_the_server_was_stopped_xep0198_5() {
    play(&format!(
        "{}the server restarts\njuliet resumes\n{}juliet receives nothing\n",
        [says("a", 1), "time passes: 1100 ms\n".to_owned()].concat(),
        said_late("a", 1),
    ));
}

/// Stanzas that are in no log count, too, once the client was told so.
#[test]
fn the_count_is_never_less_than_what_was_acknowledged_xep0198_4() {
    play(
        "juliet sends: <iq type='get' id='1' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>
juliet receives: <iq type='result' id='1' from='localhost' to='juliet@localhost/balcony'/>
juliet sends: <message to='romeo@localhost' type='chat'><body>1</body></message>
juliet sends: <presence><show>dnd</show></presence><r xmlns='urn:xmpp:sm:3'/>
juliet receives in any order: <presence from='juliet@localhost/balcony' to='juliet@localhost'><show>dnd</show></presence><a xmlns='urn:xmpp:sm:3' h='4'/>
juliet sends: <message to='romeo@localhost' type='chat'><body>2</body></message><message to='romeo@localhost' type='chat'><body>3</body></message>
time passes: 100 ms
the server dies
juliet logs in
juliet sends: <resume xmlns='urn:xmpp:sm:3' previd='{previd}' h='3'/>
juliet receives: <resumed xmlns='urn:xmpp:sm:3' h='6' previd='{any}'/>
romeo connects
romeo sends: <presence/>
romeo receives: <presence from='romeo@localhost/orchard' to='romeo@localhost'/>
romeo receives: <message from='juliet@localhost/balcony' to='romeo@localhost' type='chat'><body>1</body><delay xmlns='urn:xmpp:delay' from='localhost' stamp='{any}'/></message>
romeo receives: <message from='juliet@localhost/balcony' to='romeo@localhost' type='chat'><body>2</body><delay xmlns='urn:xmpp:delay' from='localhost' stamp='{any}'/></message>
romeo receives: <message from='juliet@localhost/balcony' to='romeo@localhost' type='chat'><body>3</body><delay xmlns='urn:xmpp:delay' from='localhost' stamp='{any}'/></message>
romeo receives nothing
",
    );
}

/// Nobody else can use or guess it, and it belongs to one incarnation of its account.
#[test]
fn only_whose_it_is_resumes_a_session_xep0198_5() {
    play(&format!(
        "the server dies
romeo logs in
romeo sends: <resume xmlns='urn:xmpp:sm:3' previd='00000000000000000000000000000000' h='0'/>
romeo receives: {NOT_FOUND}
juliet logs in
juliet sends: <resume xmlns='urn:xmpp:sm:3' previd='00000000000000000000000000000000' h='0'/>
juliet receives: {NOT_FOUND}
juliet resumes
juliet receives nothing
"
    ));
}

/// A session that has ended has no rows.
#[test]
fn a_session_that_ended_is_not_resumed_xep0198_5() {
    let stage = play(&format!(
        "juliet disconnects
time passes: 100 ms
the server dies
juliet logs in
juliet sends: <resume xmlns='urn:xmpp:sm:3' previd='{{previd}}' h='1'/>
juliet receives: {NOT_FOUND}
"
    ));
    assert_eq!(stage.world.disk.rows_of(Table::Sessions, "juliet@localhost").count(), 0);
}

/// Time counts across restarts.
#[test]
fn an_expired_session_is_not_resumed_xep0198_5() {
    play(&format!(
        "juliet aborts
time passes: 200000 ms
the server dies
time passes: 101000 ms
juliet logs in
juliet sends: <resume xmlns='urn:xmpp:sm:3' previd='{{previd}}' h='1'/>
juliet receives: {NOT_FOUND}
"
    ));
}

/// It may be resumed again after another restart, with the same state in between.
#[test]
fn a_session_outlives_several_restarts_xep0198_5() {
    let round = |n: usize| {
        format!(
            "{}{}time passes: 50 ms\nthe server dies\njuliet resumes\njuliet receives nothing\nromeo connects\n",
            says("round", n),
            said("round", n)
        )
    };
    let rounds: String = (0..4).map(round).collect();
    let stage = play(&rounds);
    assert_eq!(sum(&stage, |c| c.expired.get()), 0);
}

/// While it waits, it belongs to its user: other devices see it, and messages to it wait for it
/// (RFC 6121 8.5.3.1).
#[test]
fn a_session_that_waits_is_seen_and_gets_what_is_for_it() {
    play(
        "the server dies
nurse connects
nurse sends: <presence/>
nurse receives in any order: <presence from='juliet@localhost/chamber' to='juliet@localhost'/><presence from='juliet@localhost/balcony' to='juliet@localhost/chamber'><show>away</show><priority>3</priority></presence>
romeo connects
romeo sends: <message to='juliet@localhost/balcony' type='chat'><body>1</body></message>
time passes: 1500 ms
nurse receives nothing
juliet resumes
juliet receives in any order: <presence from='juliet@localhost/chamber' to='juliet@localhost'/><presence from='juliet@localhost/chamber' to='juliet@localhost/balcony'/><message from='romeo@localhost/orchard' to='juliet@localhost/balcony' type='chat'><body>1</body><delay xmlns='urn:xmpp:delay' from='localhost' stamp='{any}'/></message>
juliet receives nothing
",
    );
}

/// At the limit of a user's sessions, the one that has waited longest is dropped.
#[test]
fn a_session_that_waits_makes_room_for_another_one() {
    let text = format!(
        "{CLIENTS}{BEGIN}juliet aborts\ntime passes: 100 ms\nnurse connects\nnurse sends: <presence/>\nnurse ignores what comes\njuliet logs in\njuliet sends: <resume xmlns='urn:xmpp:sm:3' previd='{{previd}}' h='1'/>\njuliet receives: {NOT_FOUND}\n"
    );
    let script = Script::parse(&text).expect("a script");
    let settings = Settings { sessions_per_user_max: 1, ..Settings::new("localhost", 1, [0; 32], 0) };
    let mut stage = Stage::new(7, settings, Pace::default(), &script);
    script.play(&mut stage, "localhost", PASSWORD).expect("played");
}

/// A login writes one row, a second or two later; a quiet session writes no more.
#[test]
fn a_quiet_session_writes_one_row() {
    let script = Script::parse(&format!("{CLIENTS}{BEGIN}time passes: 60000 ms\n")).expect("a script");
    let mut stage = stage(1, &script);
    script.play(&mut stage, "localhost", PASSWORD).expect("played");
    assert_eq!(sum(&stage, |c| c.session_rows.get()), 1);
    assert_eq!(stage.world.disk.rows_of(Table::Sessions, "juliet@localhost").count(), 1);
    assert_eq!(stage.world.disk.rows_of(Table::Sessions, "romeo@localhost").count(), 0, "not managed");
}

/// A message that is logged and acknowledged on both sides writes no row of a session.
#[test]
fn messages_write_no_rows_of_sessions() {
    let all: String = (0..20)
        .map(|n| {
            [
                "juliet sends: <message to='romeo@localhost' type='chat'><body>x</body></message><r xmlns='urn:xmpp:sm:3'/>\n".to_owned(),
                format!("juliet receives: <a xmlns='urn:xmpp:sm:3' h='{}'/>\n", n + 2),
                says("a", n),
                said("a", n),
                format!("juliet sends: <a xmlns='urn:xmpp:sm:3' h='{}'/>\n", n + 2),
            ]
            .concat()
        })
        .collect();
    let stage = play(&all);
    assert_eq!(sum(&stage, |c| c.session_rows.get()), 1);
}

/// Sessions are removed with the account, and with its password.
#[test]
fn a_removed_account_and_a_changed_password_leave_nothing_to_resume() {
    for command in [
        Command::Account(AccountCommand::Delete { account: "juliet@localhost".into() }),
        Command::Session(SessionCommand::Kick { jid: "juliet@localhost".into(), reason: None }),
    ] {
        let script = Script::parse(&format!("{CLIENTS}{BEGIN}juliet aborts\ntime passes: 100 ms\n")).expect("a script");
        let mut stage = stage(1, &script);
        script.play(&mut stage, "localhost", PASSWORD).expect("played");
        assert!(stage.world.disk.rows_of(Table::Sessions, "juliet@localhost").count() > 0);
        let home = stage.world.home("juliet@localhost");
        stage.world.command(home, 1, command);
        stage.pass(500);
        assert_eq!(stage.world.disk.rows_of(Table::Sessions, "juliet@localhost").count(), 0);
    }
}

/// Plays a script on worlds that keep messages for ten seconds, with an action where one
/// millisecond passes. Returns the last.
fn play_acted(text: &str, act: fn(&mut Stage)) -> Stage {
    let script = Script::parse(&format!("{CLIENTS}{BEGIN}{text}")).expect("a script");
    let mut last = None;
    for shards in [1, 3] {
        let settings = Settings { retention_s: 10, ..Settings::new("localhost", shards, [0; 32], 0) };
        let pass = |stage: &mut Stage, ms: u64| {
            if ms == 1 {
                act(stage);
            }
            stage.pass(ms.max(100));
        };
        let mut acted = Acted { stage: Stage::new(7, settings, Pace::default(), &script), pass: Box::new(pass) };
        if let Err(error) = script.play(&mut acted, "localhost", PASSWORD) {
            panic!("{shards} shards: {error}");
        }
        last = Some(acted.stage);
    }
    last.expect("played")
}

/// Juliet's old messages are dropped.
fn drop_old(stage: &mut Stage) {
    stage.world.command(stage.world.home(JULIET), 1, Command::Log(LogCommand::Retain { users: vec![JULIET.into()] }));
}

/// A session's position is only in its user's log until its counts are written. If that part of the
/// log may have been dropped because of its age, the client binds anew: it would get a count that
/// is too low, and its repeated stanzas would arrive twice.
#[test]
fn a_session_whose_log_was_dropped_is_not_resumed_xep0198_5() {
    let sends = "juliet sends: <message to='romeo@localhost' type='chat'><body>1</body></message>
time passes: 50 ms
the server dies
";
    let refused = format!(
        "time passes: 11000 ms\ntime passes: 1 ms\njuliet logs in\njuliet sends: <resume xmlns='urn:xmpp:sm:3' previd='{{previd}}' h='1'/>\njuliet receives: {NOT_FOUND}\n"
    );
    play_acted(&[sends, &refused].concat(), drop_old);
    // A session that is old enough and still present records its counts.
    play_acted(&[sends, "time passes: 9000 ms\ntime passes: 1 ms\njuliet resumes\n"].concat(), drop_old);
}

/// A connected session depends on none of the dropped messages.
#[test]
fn a_session_outlives_what_is_dropped_meanwhile_xep0198_5() {
    let stage = play_acted(
        "juliet sends: <message to='romeo@localhost' type='chat'><body>1</body></message><r xmlns='urn:xmpp:sm:3'/>
juliet receives: <a xmlns='urn:xmpp:sm:3' h='2'/>
time passes: 11000 ms
time passes: 1 ms
the server dies
juliet resumes
juliet receives nothing
juliet disconnects
time passes: 100 ms
time passes: 1 ms
",
        drop_old,
    );
    let rows = stage.world.disk.rows_of(Table::Sessions, JULIET);
    let kinds: Vec<u8> = rows.filter_map(|(sort, _)| sort.get(16).copied()).collect();
    assert_eq!(kinds, [b'T'], "nothing was dropped since");
}

/// A crash may have lost a request or its answer. A client that resumes sends no initial presence,
/// which would send the request again (RFC 6121 3.1.2).
#[test]
fn a_request_is_sent_again_when_a_session_goes_on_rfc6121_3_1_2() {
    let stage = play_acted("time passes: 1 ms\nthe server dies\njuliet resumes\ntime passes: 500 ms\n", |stage| {
        let asks =
            ItemView { listed: true, state: State::NonePendingOut as u8, ver: 9, asked: 8, ..ItemView::default() };
        let grants = ItemView { listed: true, state: State::From as u8, ver: 9, seen: 8, ..ItemView::default() };
        for (owner, contact, item) in [(JULIET, ROMEO, asks), (ROMEO, JULIET, grants)] {
            let mut row = Vec::new();
            item.encode(&mut row);
            stage.world.disk.put(Table::Roster, owner, contact.as_bytes(), &row);
            stage.world.disk.put(Table::Roster, owner, b"", &Version { current: 9, ..Version::default() }.encode());
        }
    });
    let mut rows = stage.world.disk.rows_of(Table::Roster, JULIET);
    let (_, row) = rows.find(|(contact, _)| *contact == ROMEO.as_bytes()).expect("she asked");
    assert_eq!(ItemView::decode(row).map(|item| item.state), Some(State::To as u8), "answered again");
}

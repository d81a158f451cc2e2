//! Failed logins and registrations are counted for the whole host, whichever shards the connections come in by.

use base64::Engine as _;
use throng_engine::limits::JOBS_UNDER_WAY_MAX;
use throng_engine::settings::Settings;
use throng_engine::testing::script::{Heard, Patience, Player, Script};
use throng_engine::testing::stage::Stage;
use throng_engine::testing::world::{PASSWORD, Pace};

const HEADER: &[u8] =
    b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
const FAILURES_MAX: u32 = 5;

/// What the server says to one connection that says this, until `end` has come.
fn said(stage: &mut Stage, client: &str, bytes: &[u8], end: &str) -> String {
    stage.send(client, bytes).expect("a connection");
    let mut all = String::new();
    while !all.contains(end) {
        match stage.hear(client, Patience::Long) {
            Ok(Heard::Bytes(bytes)) => all += &String::from_utf8_lossy(&bytes),
            other => panic!("{other:?} after {all}"),
        }
    }
    all
}

fn stage(shards: u16, set: impl FnOnce(&mut Settings)) -> Stage {
    let script = Script::parse("clients: romeo=romeo/orchard juliet=juliet/balcony tybalt=tybalt/street\n").unwrap();
    let mut settings = Settings::new("localhost", shards, [0; 32], 0);
    set(&mut settings);
    let mut stage = Stage::new(7, settings, Pace::default(), &script);
    stage.world.peer = Some([192, 0, 2, 1].into());
    stage
}

/// Logs in with PLAIN on a connection of its own; whether it was let in, was wrong, or was not tried.
fn log_in(stage: &mut Stage, number: u32, user: &str, password: &str) -> &'static str {
    let client = format!("c{number}");
    stage.open(&client).expect("a connection");
    said(stage, &client, HEADER, "</stream:features>");
    let plain = base64::engine::general_purpose::STANDARD.encode(format!("\0{user}\0{password}"));
    let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
    stage.send(&client, auth.as_bytes()).expect("a connection");
    let mut all = String::new();
    loop {
        for (sign, outcome) in
            [("<success", "in"), ("<not-authorized/>", "wrong"), ("<temporary-auth-failure/>", "not tried")]
        {
            if all.contains(sign) {
                stage.abort(&client);
                return outcome;
            }
        }
        match stage.hear(&client, Patience::Long) {
            Ok(Heard::Bytes(bytes)) => all += &String::from_utf8_lossy(&bytes),
            other => panic!("{other:?} after {all}"),
        }
    }
}

/// RFC 6120 6.4.5, 13.9.2.
#[test]
fn an_address_has_its_failures_once_however_many_shards_there_are() {
    for shards in [1, 2, 7] {
        let mut stage = stage(shards, |s| {
            s.throttle.address_burst = FAILURES_MAX;
            s.throttle.address_refill_ms = 100_000;
        });
        assert_eq!(log_in(&mut stage, 0, "romeo", PASSWORD), "in");
        // Different accounts, also one that is not there.
        let users = ["romeo", "juliet", "tybalt", "nobody"];
        for number in 1..=FAILURES_MAX {
            assert_eq!(log_in(&mut stage, number, users[number as usize % 4], "wrong"), "wrong", "{shards} shards");
        }
        for number in 10..20 {
            assert_eq!(log_in(&mut stage, number, users[number as usize % 4], "wrong"), "not tried", "{shards} shards");
            assert_eq!(log_in(&mut stage, 10 + number, "romeo", PASSWORD), "not tried", "{shards} shards");
        }
        // Time gives attempts back; what was refused meanwhile has cost no more than the bucket holds.
        stage.pass(u64::from(FAILURES_MAX) * 100_000);
        assert_eq!(log_in(&mut stage, 99, "romeo", PASSWORD), "in");
    }
}

#[test]
fn an_account_has_its_failures_once_however_many_shards_there_are() {
    for shards in [1, 2, 7] {
        let mut stage = stage(shards, |s| {
            s.throttle.account_burst = FAILURES_MAX;
            s.throttle.account_refill_ms = 100_000;
            s.throttle.address_burst = 0;
        });
        for number in 0..FAILURES_MAX {
            assert_eq!(log_in(&mut stage, number, "romeo", "wrong"), "wrong", "{shards} shards");
        }
        for number in 10..20 {
            assert_eq!(log_in(&mut stage, number, "romeo", PASSWORD), "not tried", "{shards} shards");
            assert_eq!(log_in(&mut stage, 10 + number, "juliet", PASSWORD), "in", "another account is as before");
        }
    }
}

/// A login that was refused has taken nothing from the account, and gives nothing back when it is broken off: that would
/// wear the account's penalty away.
#[test]
fn a_login_broken_off_gives_back_only_what_was_taken() {
    let mut stage = stage(3, |s| {
        s.throttle.account_burst = FAILURES_MAX;
        s.throttle.account_refill_ms = 100_000;
        s.throttle.address_burst = 0;
    });
    for number in 0..FAILURES_MAX {
        assert_eq!(log_in(&mut stage, number, "romeo", "wrong"), "wrong");
    }
    for number in 10..30 {
        let client = format!("c{number}");
        stage.open(&client).expect("a connection");
        said(&mut stage, &client, HEADER, "</stream:features>");
        // A SCRAM login begins and is gone at once.
        let first = base64::engine::general_purpose::STANDARD.encode("n,,n=romeo,r=0123456789abcdef");
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-256'>{first}</auth>");
        stage.send(&client, auth.as_bytes()).expect("a connection");
        stage.abort(&client);
        stage.pass(100);
    }
    assert_eq!(log_in(&mut stage, 99, "romeo", PASSWORD), "not tried");
}

/// RFC 6120 6.5.11: a login that takes too long is begun again by the client. In a storm the server must then not work for
/// those who have gone, or it never gets to those who have come.
#[test]
fn passwords_of_connections_that_have_gone_are_not_checked() {
    let script = Script::parse("clients: romeo=romeo/orchard\n").unwrap();
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.throttle.account_burst = 1_000;
    let mut stage = Stage::new(7, settings, Pace { job_us: 2_000_000, ..Pace::default() }, &script);
    for number in 0..200 {
        let client = format!("gone{number}");
        stage.open(&client).expect("a connection");
        said(&mut stage, &client, HEADER, "</stream:features>");
    }
    for number in 0..200 {
        let plain = base64::engine::general_purpose::STANDARD.encode(format!("\0nobody{number}\0wrong"));
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
        stage.send(&format!("gone{number}"), auth.as_bytes()).expect("a connection");
    }
    stage.pass(500);
    (0..200).for_each(|number| stage.abort(&format!("gone{number}")));
    stage.pass(500);
    assert_eq!(log_in(&mut stage, 0, "romeo", PASSWORD), "in");
    stage.pass(60_000);
    let jobs: u64 = stage.world.shards().map(|id| stage.world.shard(id).counters().jobs.get()).sum();
    // Those that were under way, and some whose end the shard had not heard of when there was room for more.
    let most = 3 * JOBS_UNDER_WAY_MAX as u64;
    assert!(jobs <= most, "{jobs} passwords were checked, one was waited for");
}

/// A password that was right is known at the account's home: whichever shard the next connection comes in by, no keys are
/// derived for it (RFC 4616 takes PBKDF2 only for what was not shown before). A wrong one is derived each time.
#[test]
fn a_password_is_checked_once_however_many_shards_there_are() {
    for shards in [1, 2, 7] {
        let mut stage = stage(shards, |_| {});
        let jobs =
            |stage: &Stage| -> u64 { stage.world.shards().map(|id| stage.world.shard(id).counters().jobs.get()).sum() };
        for number in 0..12 {
            assert_eq!(log_in(&mut stage, number, "romeo", PASSWORD), "in");
            stage.pass(100);
            assert_eq!(jobs(&stage), 1, "login {number} of {shards} shards");
        }
        assert_eq!(log_in(&mut stage, 100, "romeo", "wrong"), "wrong");
        assert_eq!(log_in(&mut stage, 101, "juliet", PASSWORD), "in");
        assert_eq!(jobs(&stage), 3, "a wrong password, and another account's");
        stage.pass(100);
        assert_eq!(log_in(&mut stage, 102, "romeo", PASSWORD), "in");
        assert_eq!(jobs(&stage), 3, "a wrong one does not push out the right one");
    }
}

/// XEP-0077 6.
#[test]
fn an_address_registers_so_many_accounts_however_many_shards_there_are() {
    for shards in [1, 2, 7] {
        let mut stage = stage(shards, |s| {
            s.facts.registration = true;
            s.registration_throttle.address_burst = FAILURES_MAX;
            s.registration_throttle.address_refill_ms = 1_000_000;
        });
        stage.world.listener.registration = true;
        for number in 0..3 * FAILURES_MAX {
            let client = format!("c{number}");
            stage.open(&client).expect("a connection");
            said(&mut stage, &client, HEADER, "</stream:features>");
            let ask = format!(
                "<iq type='set' id='r'><query xmlns='jabber:iq:register'><username>new{number}</username>\
                 <password>pencil</password></query></iq>"
            );
            let answer = said(&mut stage, &client, ask.as_bytes(), "<iq");
            let good = answer.contains("type='result'");
            assert_eq!(good, number < FAILURES_MAX, "{shards} shards, account {number}: {answer}");
            assert!(good || answer.contains("<resource-constraint"), "{answer}");
            stage.abort(&client);
        }
    }
}

//! Failed logins and registrations are counted for the whole host, whichever shards accept the
//! connections.

use base64::Engine as _;
use throng_engine::limits::JOBS_UNDER_WAY_MAX;
use throng_engine::settings::Settings;
use throng_sim::script::{Heard, Patience, Player, Script};
use throng_sim::stage::Stage;
use throng_sim::world::{PASSWORD, Pace};

const HEADER: &[u8] =
    b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";
const FAILURES_MAX: u32 = 5;

/// The server's output to one connection that sends this, until `end` has arrived.
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

/// Logs in with PLAIN on a connection of its own; returns whether it succeeded, was wrong, or was
/// not tried.
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
        // Different accounts, also one that does not exist.
        let users = ["romeo", "juliet", "tybalt", "nobody"];
        for number in 1..=FAILURES_MAX {
            assert_eq!(log_in(&mut stage, number, users[number as usize % 4], "wrong"), "wrong", "{shards} shards");
        }
        for number in 10..20 {
            assert_eq!(
                log_in(&mut stage, number, ["juliet", "nobody"][number as usize % 2], "wrong"),
                "not tried",
                "{shards} shards"
            );
            assert_eq!(log_in(&mut stage, 10 + number, "juliet", PASSWORD), "not tried", "{shards} shards");
        }
        // Attempts are restored with time; those refused meanwhile have cost no more than the
        // bucket holds.
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

/// How a login ends without a proof.
#[derive(Clone, Copy, Debug)]
enum BrokenOff {
    Cut,
    Aborted,
    Replaced,
    TimedOut,
}

/// RFC 6120 6.4.2, 6.4.4: however a login is aborted, it costs its address and its pair one
/// attempt.
#[test]
fn a_login_that_is_broken_off_is_charged_however_it_ends() {
    for how in [BrokenOff::Cut, BrokenOff::Aborted, BrokenOff::Replaced, BrokenOff::TimedOut] {
        for shards in [1, 3] {
            let mut stage = stage(shards, |s| {
                s.throttle.address_burst = FAILURES_MAX;
                s.throttle.address_refill_ms = 1_000_000;
                s.preauth_s_max = 5;
                s.sweep_s_max = 1;
            });
            for number in 0..FAILURES_MAX {
                half_open(&mut stage, number, 1, ["romeo", "juliet"][number as usize % 2]);
                let client = format!("h{number}");
                match how {
                    BrokenOff::Cut => stage.abort(&client),
                    BrokenOff::Aborted => {
                        said(&mut stage, &client, b"<abort xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>", "<aborted");
                        stage.abort(&client);
                    }
                    // The second one is malformed and not charged to an account; both are charged
                    // to the address.
                    BrokenOff::Replaced => {
                        let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'/>";
                        said(&mut stage, &client, auth.as_bytes(), "<challenge");
                        stage.abort(&client);
                    }
                    BrokenOff::TimedOut => stage.pass(8_000),
                }
                stage.pass(100);
            }
            assert_eq!(log_in(&mut stage, 99, "tybalt", PASSWORD), "not tried", "{how:?}, {shards} shards");
            stage.world.peer = Some([192, 0, 2, 2].into());
            assert_eq!(log_in(&mut stage, 100, "tybalt", PASSWORD), "in", "{how:?}, {shards} shards");
        }
    }
}

/// Late clients in a storm of logins must not lock out others behind their address: the server's
/// own slowness is not charged to it.
#[test]
fn a_login_given_up_because_the_server_is_slow_is_not_charged_to_its_address() {
    let script = Script::parse("clients: romeo=romeo/orchard juliet=juliet/balcony\n").unwrap();
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.throttle.address_burst = 2;
    let mut stage = Stage::new(7, settings, Pace { job_us: 60_000_000, ..Pace::default() }, &script);
    for number in 0..4 {
        let client = format!("c{number}");
        stage.open(&client).expect("a connection");
        said(&mut stage, &client, HEADER, "</stream:features>");
        let plain = base64::engine::general_purpose::STANDARD.encode("\0juliet\0wrong");
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
        stage.send(&client, auth.as_bytes()).expect("a connection");
        stage.pass(3_000);
        stage.abort(&client);
        stage.pass(100);
    }
    half_open(&mut stage, 0, 1, "romeo");
    assert!(stage.world.shards().all(|id| stage.world.shard(id).counters().logins_failed.get() == 0));
}

/// RFC 6120 6.5.11: the client restarts a login that takes too long. In a storm the server must
/// then not work for disconnected clients, or it never reaches the present ones.
#[test]
fn passwords_of_connections_that_have_gone_are_not_checked() {
    let script = Script::parse("clients: romeo=romeo/orchard\n").unwrap();
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.throttle.address_burst = 0;
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
    // Those in progress, and some whose end the shard had not learned when there was room for more.
    let most = 3 * JOBS_UNDER_WAY_MAX as u64;
    assert!(jobs <= most, "{jobs} passwords were checked, one was waited for");
}

/// The account's home caches a correct password: whichever shard accepts the next connection, no
/// keys are derived for it (RFC 4616 needs PBKDF2 only for a password not presented before). A
/// wrong one is derived each time.
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

/// Starts SCRAM logins that are never finished, each on a connection of its own, and leaves them
/// open.
fn half_open(stage: &mut Stage, first: u32, count: u32, user: &str) {
    for number in first..first + count {
        let client = format!("h{number}");
        stage.open(&client).expect("a connection");
        said(stage, &client, HEADER, "</stream:features>");
        let message = base64::engine::general_purpose::STANDARD.encode(format!("n,,n={user},r=0123456789abcdef"));
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-256'>{message}</auth>");
        said(stage, &client, auth.as_bytes(), "</");
    }
}

/// RFC 6120 6.4.4, 13.9.4: unfinished logins lock out their own address and nobody else.
#[test]
fn half_open_logins_of_one_address_do_not_lock_an_account_out() {
    for shards in [1, 2, 7] {
        let mut stage = stage(shards, |_| {});
        stage.world.peer = Some([198, 51, 100, 66].into());
        half_open(&mut stage, 0, 30, "romeo");
        assert_eq!(log_in(&mut stage, 0, "romeo", PASSWORD), "not tried", "the address has had its attempts");
        stage.world.peer = Some([192, 0, 2, 1].into());
        assert_eq!(log_in(&mut stage, 1, "romeo", PASSWORD), "in", "{shards} shards");
    }
}

/// RFC 6120 13.9.2: many users may share one address. Guessing blocks the address, and with it
/// users who have never logged in from it, but not its other users; and gives no more attempts at
/// their accounts than at others.
#[test]
fn who_exhausts_a_shared_address_does_not_hold_its_other_users() {
    for shards in [1, 2, 7] {
        let mut stage = stage(shards, |s| {
            s.throttle.address_burst = FAILURES_MAX;
            s.throttle.address_refill_ms = 100_000;
            s.throttle.pair_burst = 3;
            s.throttle.pair_refill_ms = 1_000_000;
        });
        assert_eq!(log_in(&mut stage, 0, "romeo", PASSWORD), "in");
        for number in 1..=FAILURES_MAX {
            log_in(&mut stage, number, &format!("guess{number}"), "wrong");
        }
        assert_eq!(log_in(&mut stage, 10, "juliet", PASSWORD), "not tried", "{shards} shards");
        for number in 11..16 {
            assert_eq!(log_in(&mut stage, number, "romeo", PASSWORD), "in", "{shards} shards");
        }
        let outcomes: Vec<_> = (20..26).map(|number| log_in(&mut stage, number, "romeo", "wrong")).collect();
        assert_eq!(outcomes, ["wrong", "wrong", "wrong", "not tried", "not tried", "not tried"], "{shards} shards");
    }
}

/// RFC 6120 13.9.2: many addresses that guess at one account share a limited number of attempts,
/// and addresses from which its owner logged in lately are not affected.
#[test]
fn an_account_under_attack_from_many_addresses_is_open_to_its_owner() {
    for shards in [1, 2, 7] {
        let mut stage = stage(shards, |s| {
            s.throttle.pair_burst = 2;
            s.throttle.account_burst = 7;
            s.throttle.account_refill_ms = 100_000;
        });
        assert_eq!(log_in(&mut stage, 0, "romeo", PASSWORD), "in");
        let mut wrong = 0;
        for number in 0..20 {
            stage.world.peer = Some([198, 51, 100, number].into());
            for _ in 0..3 {
                wrong += u32::from(log_in(&mut stage, 1_000 + u32::from(number), "romeo", "wrong") == "wrong");
            }
        }
        assert_eq!(wrong, 7, "{shards} shards");
        stage.world.peer = Some([203, 0, 113, 5].into());
        assert_eq!(log_in(&mut stage, 1, "romeo", PASSWORD), "not tried", "a stranger waits");
        assert_eq!(log_in(&mut stage, 2, "juliet", PASSWORD), "in", "another account is as before");
        stage.world.peer = Some([192, 0, 2, 1].into());
        for number in 10..20 {
            assert_eq!(log_in(&mut stage, number, "romeo", PASSWORD), "in", "{shards} shards");
        }
    }
}

/// RFC 6120 6.5.11: the refusal names the limit and when to retry, in the same words for an unused
/// name; and a client that retries then is let in, however often it tried meanwhile.
#[test]
fn a_refused_login_says_by_which_limit_and_when_to_try_again() {
    let mut texts = Vec::new();
    for user in ["romeo", "nobody"] {
        let mut stage = stage(2, |s| {
            s.throttle.pair_burst = 2;
            s.throttle.pair_refill_ms = 100_000;
        });
        half_open(&mut stage, 0, 2, user);
        let client = "c0";
        stage.open(client).expect("a connection");
        said(&mut stage, client, HEADER, "</stream:features>");
        let message = base64::engine::general_purpose::STANDARD.encode(format!("n,,n={user},r=0123456789abcdef"));
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-256'>{message}</auth>");
        texts.push(said(&mut stage, client, auth.as_bytes(), "</failure>"));
        (0..10).for_each(|number| {
            assert_eq!(log_in(&mut stage, number, "romeo", PASSWORD), if user == "romeo" { "not tried" } else { "in" })
        });
        stage.pass(100_000);
        assert_eq!(log_in(&mut stage, 99, "romeo", PASSWORD), "in");
    }
    assert!(
        texts[0].contains(">too many failed logins to this account from this address; try again in 100 seconds<"),
        "{}",
        texts[0]
    );
    assert_eq!(texts[0], texts[1]);
}

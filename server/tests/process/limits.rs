//! Limits on a running server: who is blocked, who is not, what clients are told, and how an
//! operator releases them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::support::{Client, PASSWORD, Server, good};

const HEADER: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams'>";

fn answer(client: &mut Client, mechanism: &str, message: &str) -> String {
    client.ask(HEADER, "</stream:features>");
    let message = STANDARD.encode(message);
    let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='{mechanism}'>{message}</auth>");
    client.send(&auth);
    client.hear(">")
}

/// Whether a login with the right password succeeds; the error if not.
fn log_in(server: &Server, from: [u8; 4], user: &str) -> Result<(), String> {
    let mut client = Client::connect_from(from, &server.plain);
    let said = answer(&mut client, "PLAIN", &format!("\0{user}\0{PASSWORD}"));
    if said.starts_with("<success") { Ok(()) } else { Err(client.hear("</failure>")) }
}

fn list(server: &Server) -> serde_json::Value {
    let output = server.ctl(&["limits", "list", "--json"]);
    good(&output);
    let rows = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    rows.map(|row| serde_json::from_slice::<serde_json::Value>(row).expect("JSON")).collect()
}

fn release(server: &Server, whom: &[&str]) -> String {
    let output = server.ctl(&[&["limits", "release"], whom].concat());
    good(&output);
    String::from_utf8(output.stdout).expect("text")
}

/// RFC 6120 6.4.4, 6.5.11, 13.9.4: unfinished logins from one address block that address, and the
/// error says until when; the operator sees it and releases it. The account is open to all others.
#[test]
fn half_open_logins_hold_their_own_address_until_the_operator_lets_go() {
    let server = Server::start_with(&[]);
    server.add(&["romeo"]);
    let attacker = [127, 0, 0, 66];
    let mut open = Vec::new();
    for _ in 0..30 {
        let mut client = Client::connect_from(attacker, &server.plain);
        answer(&mut client, "SCRAM-SHA-256", "n,,n=romeo,r=0123456789abcdef");
        open.push(client);
    }
    assert_eq!(log_in(&server, [127, 0, 0, 1], "romeo"), Ok(()), "another address");
    let told = log_in(&server, attacker, "romeo").expect_err("held");
    assert!(told.contains("too many failed logins to this account from this address; try again in "), "{told}");
    assert!(told.contains("<temporary-auth-failure/>"), "{told}");
    let held = list(&server);
    let row = &held[0];
    assert_eq!((&row["limit"], &row["who"]), (&"pair-logins".into(), &"127.0.0.66 romeo@localhost".into()), "{held}");
    assert!(row["until_s"].as_u64() > row["since_s"].as_u64() && row["refused"].as_u64() >= Some(11), "{held}");
    let table = String::from_utf8(server.ctl(&["limits", "list"]).stdout).expect("text");
    assert!(table.contains("127.0.0.66 romeo@localhost"), "{table}");
    assert_eq!(release(&server, &["127.0.0.66"]), "1 let go\n");
    assert_eq!(list(&server), serde_json::json!([]));
    assert_eq!(log_in(&server, attacker, "romeo"), Ok(()));
    // By account, and all at once.
    for whom in [&["--account", "romeo@localhost"][..], &["--all"]] {
        for _ in 0..30 {
            let mut client = Client::connect_from(attacker, &server.plain);
            answer(&mut client, "SCRAM-SHA-256", "n,,n=romeo,r=0123456789abcdef");
            open.push(client);
        }
        assert!(log_in(&server, attacker, "romeo").is_err());
        assert_eq!(release(&server, whom), "1 let go\n");
        assert_eq!(log_in(&server, attacker, "romeo"), Ok(()), "{whom:?}");
    }
}

/// XEP-0077 6: raising a limit releases those it blocked, whose errors named the limit.
#[test]
fn a_raised_limit_on_registrations_lets_go_of_those_it_held() {
    let server = Server::start_with(&[]);
    good(&server.ctl(&["knob", "set", "registrations_hourly_max", "2"]));
    let register = |name: &str| {
        let mut client = Client::connect(&server.plain);
        client.ask(HEADER, "</stream:features>");
        let fields = format!("<username>{name}</username><password>{PASSWORD}</password>");
        client.ask(&format!("<iq type='set' id='r'><query xmlns='jabber:iq:register'>{fields}</query></iq>"), ">");
        client.send("<presence/>");
        client.rest()
    };
    let refused = |said: &str| said.contains("<resource-constraint");
    assert!(!refused(&register("one")) && !refused(&register("two")));
    let said = register("three");
    assert!(refused(&said), "{said}");
    assert!(said.contains("too many accounts were registered from this address; try again in 1"), "{said}");
    assert_eq!(list(&server)[0]["limit"], "registrations");
    good(&server.ctl(&["knob", "set", "registrations_hourly_max", "1000000"]));
    assert_eq!(list(&server), serde_json::json!([]));
    assert!(!refused(&register("three")));
}

/// RFC 6120 7.6.2.1, 8.3.2: the error of a limit without memory names it, and the operator sees who
/// was refused.
#[test]
fn a_refusal_by_what_is_full_names_the_limit_and_is_listed() {
    let server = Server::start_with(&["--sessions-per-user-max", "1"]);
    server.add(&["romeo"]);
    let _first = server.client("romeo", "orchard");
    let mut second = Client::connect(&server.plain);
    answer(&mut second, "PLAIN", &format!("\0romeo\0{PASSWORD}"));
    second.ask(HEADER, "</stream:features>");
    let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
    let said = second.ask(bind, "</iq>");
    assert!(said.contains("reached the limit of sessions; try again when one of them has ended"), "{said}");
    let row = &list(&server)[0];
    assert_eq!((&row["limit"], &row["who"]), (&"sessions-per-user".into(), &"romeo@localhost".into()));
    assert!(row["until_s"].is_null());
}

/// Account events and operators' actions are in the log, one event per line, in the form that
/// docs/log.md describes.
#[test]
fn what_happened_is_in_the_log() {
    let server = Server::start_with(&["--log-level", "debug"]);
    server.add(&["romeo"]);
    let mut client = Client::connect(&server.plain);
    answer(&mut client, "PLAIN", "\0ro\u{441}\u{2028}meo\0wrong");
    let mut client = Client::connect(&server.plain);
    answer(&mut client, "PLAIN", "\0nobody\0wrong");
    let mut client = Client::connect_from([127, 0, 0, 9], &server.plain);
    answer(&mut client, "SCRAM-SHA-256", "n,,n=romeo,r=0123456789abcdef");
    drop(client);
    let mut client = server.client("romeo", "orchard");
    let fields = "<username>romeo</username><password>new</password>";
    client.ask(&format!("<iq type='set' id='p'><query xmlns='jabber:iq:register'>{fields}</query></iq>"), "id='p'");
    good(&server.ctl(&["say", "--all", "hello\nINFO forged"]));
    good(&server.ctl(&["kick", "romeo@localhost"]));
    let _ = server.ctl(&["kick", "nobody\n INFO forged"]);
    good(&server.ctl(&["reload"]));
    let uid = rustix::process::getuid().as_raw();
    let wanted = [
        " INFO login failed peer=127.0.0.1 account=\"nobody@localhost\" mechanism=\"PLAIN\" reason=\"not-authorized\"\n".to_owned(),
        " INFO login failed peer=127.0.0.9 account=\"romeo@localhost\" mechanism=\"SCRAM-SHA-256\" reason=\"broken-off\"\n".to_owned(),
        "DEBUG login peer=127.0.0.1 account=\"romeo@localhost\" mechanism=\"PLAIN\"\n".to_owned(),
        " INFO password changed peer=127.0.0.1 account=\"romeo@localhost\"\n".to_owned(),
        " order=\"account add\" of=\"romeo@localhost\" result=\"done\" text=\"1 of 1\"\n".to_owned(),
        " order=\"say\" of=\"all\" result=\"done\" text=\"1\"\n".to_owned(),
        " order=\"kick\" of=\"romeo@localhost\" result=\"done\" text=\"1\"\n".to_owned(),
        " order=\"kick\" of=\"nobody\\n INFO forged\" result=\"failed\" text=".to_owned(),
        " order=\"reload\" of=\"\" result=\"done\" text=\"\"\n".to_owned(),
        format!(" INFO order uid={uid} pid="),
    ];
    crate::support::until("the log", || {
        wanted.iter().all(|line| server.log().contains(line)) || {
            let log = server.log();
            eprintln!("missing: {:?}", wanted.iter().filter(|line| !log.contains(*line)).collect::<Vec<_>>());
            false
        }
    });
    assert!(server.log().lines().all(|line| !line.trim_start().starts_with("INFO forged")), "{}", server.log());
}

/// Failed logins cannot fill a disk: lines of each kind are limited, and the log says how many were
/// left out.
#[test]
fn failed_logins_are_logged_up_to_a_bound() {
    let server = Server::start_with(&["--auth-attempts-max", "20", "--login-failures-per-address-max", "200000"]);
    let mut client = Client::connect(&server.plain);
    client.ask(HEADER, "</stream:features>");
    let mut failed = 0;
    while failed < 3_000 {
        // Not a mechanism of this server: quick to refuse.
        let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='X'/>";
        client.send(&auth.repeat(19));
        (0..19).for_each(|_| drop(client.hear("</failure>")));
        failed += 19;
        client = Client::connect(&server.plain);
        client.ask(HEADER, "</stream:features>");
    }
    crate::support::until("a word on what was left out", || {
        server.log().contains("lines left out kind=\"login failed\" count=")
    });
    let lines = server.log().matches("login failed peer=").count();
    assert!((2_000..2_950).contains(&lines), "{lines}");
}

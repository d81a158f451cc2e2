//! What an operator sees and does, with the program itself, while clients are connected, in the
//! clear and over TLS, on both drivers.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Client, Host, LONG, PASSWORD, Server, good, has_uring, throng, until};

/// Also with a TLS listener.
fn start(host: &mut Host, driver: &str) {
    host.start(&["--c2s-tls", "127.0.0.1:0", "--shards", "3", "--driver", driver]);
}

impl Host {
    fn sessions(&self, arguments: &[&str]) -> Vec<Value> {
        let said = self.good(&[&["ctl", "sessions", "--json"], arguments].concat());
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// A client whose kernel buffers are small when it does not read.
    fn tight_client(&self, user: &str) -> Client {
        Client::connect_with_little_room(&self.plain).log_in(user, PASSWORD, "r")
    }

    fn client_tls(&self, user: &str) -> Client {
        let certificate = self.data().join("tls/cert.pem");
        Client::connect_tls(&self.direct, &certificate).log_in(user, PASSWORD, "r")
    }

    /// The one session of a JID.
    fn session(&self, jid: &str) -> Value {
        let rows = self.sessions(&[jid]);
        assert_eq!(rows.len(), 1, "{rows:?}");
        rows.into_iter().next().expect("one row")
    }
}

impl Client {
    /// The roster, by a request with this id.
    fn roster(&mut self, id: &str) -> String {
        self.ask(&format!("<iq type='get' id='{id}'><query xmlns='jabber:iq:roster'/></iq>"), &format!("id='{id}'"));
        self.hear("</iq>")
    }
}

fn sessions_are_listed_as_they_are(driver: &str) {
    let mut host = Host::new(&["romeo", "juliet", "tybalt"]);
    start(&mut host, driver);
    let (mut romeo, mut juliet) = (host.tight_client("romeo"), host.client_tls("juliet"));
    let mut tybalt = host.tight_client("tybalt");
    tybalt.ask("<enable xmlns='urn:xmpp:sm:3' resume='true'/>", "<enabled");
    juliet.ask("<presence><priority>7</priority></presence>", "</presence>");
    std::thread::sleep(Duration::from_millis(2_100));
    romeo.ask("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
    let row = host.session("juliet@localhost");
    assert_eq!(row["jid"], "juliet@localhost/r");
    assert_eq!(row["address"], juliet.address());
    assert_eq!((&row["tls"], &row["priority"], &row["resumable"]), (&"TLSv1.3".into(), &7.into(), &false.into()));
    assert!((1..60).contains(&row["age_s"].as_u64().expect("seconds")), "{row}");
    assert_eq!(row["outbound_bytes"], 0);
    let row = host.session("romeo@localhost/r");
    assert_eq!(row["address"], romeo.address());
    assert!(row["tls"].is_null() && row["priority"].is_null(), "{row}");
    assert!(row["idle_s"].as_u64() < row["age_s"].as_u64(), "just heard, and older than that: {row}");
    // The table shows the same.
    let table = host.good(&["ctl", "sessions"]);
    for wanted in [romeo.address(), juliet.address(), "TLSv1.3".into()] {
        assert!(table.contains(&wanted), "{wanted} in {table}");
    }
    // A session that has lost its connection waits to be resumed; its age shows since when.
    drop(tybalt);
    let end = Instant::now() + LONG;
    let row = loop {
        let row = host.session("tybalt@localhost");
        if row["resumable"] == true {
            break row;
        }
        assert!(Instant::now() < end, "{row}");
    };
    assert!(row["address"].is_null() && row["tls"].is_null() && row["age_s"].as_u64() < Some(2), "{row}");
    // Output that a client does not read waits.
    let text = "x".repeat(8_000);
    let mut waits = 0;
    for _ in 0..2_000 {
        host.good(&["ctl", "say", &text, "--to", "romeo@localhost"]);
        waits = host.session("romeo@localhost")["outbound_bytes"].as_u64().expect("bytes");
        if waits > 0 {
            break;
        }
    }
    assert!(waits >= 8_000, "{waits}");
    assert_eq!(host.sessions(&[]).len(), 3);
    host.stop();
}

/// RFC 6120 4.9.2: a stream error may describe the event in `<text/>`.
fn who_is_ended_is_told_why(driver: &str) {
    let mut host = Host::new(&["romeo", "juliet"]);
    start(&mut host, driver);
    let (mut romeo, mut juliet) = (host.tight_client("romeo"), host.client_tls("juliet"));
    assert_eq!(host.good(&["ctl", "kick", "romeo@localhost", "--reason", "update < now"]), "1 session ended\n");
    assert_eq!(host.good(&["ctl", "kick", "juliet@localhost/r"]), "1 session ended\n");
    let error = |text: &str| {
        format!(
            "<stream:error><policy-violation xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>\
             <text xmlns='urn:ietf:params:xml:ns:xmpp-streams' xml:lang='en'>{text}</text></stream:error></stream:stream>"
        )
    };
    assert_eq!(romeo.rest(), error("update &lt; now"));
    assert_eq!(juliet.rest(), error("ended by the operator"));
    host.stop();
}

#[test]
fn who_is_ended_is_told_why_on_epoll() {
    who_is_ended_is_told_why("epoll");
}

#[test]
fn who_is_ended_is_told_why_on_io_uring() {
    if has_uring() {
        who_is_ended_is_told_why("uring");
    }
}

#[test]
fn sessions_are_listed_as_they_are_on_epoll() {
    sessions_are_listed_as_they_are("epoll");
}

#[test]
fn sessions_are_listed_as_they_are_on_io_uring() {
    if has_uring() {
        sessions_are_listed_as_they_are("uring");
    }
}

/// RFC 6121 3.2, 3.3: a removed user is a contact in nobody's roster, however the account was
/// removed.
#[test]
fn contacts_of_a_removed_account_see_it_leave_also_when_no_server_runs() {
    let mut host = Host::new(&["juliet", "romeo", "tybalt", "nurse"]);
    start(&mut host, "epoll");
    let mut juliet = host.tight_client("juliet");
    juliet.roster("r");
    juliet.ask("<presence/>", "/>");
    for user in ["romeo", "tybalt"] {
        let mut other = host.tight_client(user);
        other.send("<presence to='juliet@localhost' type='subscribe'/>");
        juliet.hear("type='subscribe'");
        juliet.ask(&format!("<presence to='{user}@localhost' type='subscribed'/>"), "subscription='from'");
        juliet.ask(&format!("<presence to='{user}@localhost' type='subscribe'/>"), "ask='subscribe'");
        // Approved, or pre-approved if the request has not arrived yet (3.4).
        other.send("<presence to='juliet@localhost' type='subscribed'/>");
        juliet.hear("subscription='both'");
    }
    // The nurse has not answered yet.
    juliet.ask("<presence to='nurse@localhost' type='subscribe'/>", "ask='subscribe'");
    let before = juliet.roster("v");
    assert_eq!(before.matches("subscription='both'").count(), 2, "{before}");
    let version = |said: &str| -> String {
        let at = said.rfind(" ver='").expect("a version") + " ver='".len();
        said[at..].split('\'').next().expect("it ends").to_owned()
    };
    // One account is removed by the server, the others offline.
    host.good(&["user", "del", "tybalt", "--yes"]);
    juliet.hear("jid='tybalt@localhost' subscription='none'");
    host.stop();
    host.good(&["user", "del", "romeo", "--yes"]);
    host.good(&["user", "del", "nurse", "--yes"]);
    assert!(!host.run(&["user", "del", "romeo", "--yes"]).status.success(), "it is gone");
    host.good(&["store", "check"]);
    start(&mut host, "epoll");
    let mut juliet = host.tight_client("juliet");
    let after = juliet.roster("v");
    for gone in ["tybalt", "romeo", "nurse"] {
        assert!(after.contains(&format!("jid='{gone}@localhost' subscription='none'/>")), "{gone} in {after}");
    }
    // A client with an older version receives the changes (RFC 6121 2.6.3).
    let since = version(&before);
    assert_ne!(version(&after), since, "{before} {after}");
    juliet.send(&format!("<iq type='get' id='w'><query xmlns='jabber:iq:roster' ver='{since}'/></iq>"));
    let told = juliet.ask("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
    for gone in ["tybalt", "romeo", "nurse"] {
        assert!(told.contains(&format!("jid='{gone}@localhost' subscription='none'/>")), "{gone} in {told}");
    }
    host.stop();
}

/// Reads a setting until it has this value.
fn knob_becomes(host: &Host, key: &str, value: &str) {
    let end = Instant::now() + LONG;
    loop {
        let said: Value = serde_json::from_str(&host.good(&["ctl", "knob", "get", key, "--json"])).expect("JSON");
        if said["value"] == value {
            return;
        }
        assert!(Instant::now() < end, "{said}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Existing connections are affected, too: a silent client is pinged (XEP-0199 4.1).
fn a_knob_is_felt_by_who_is_connected(driver: &str) {
    let mut host = Host::new(&["romeo", "juliet"]);
    start(&mut host, driver);
    let (mut romeo, mut juliet) = (host.tight_client("romeo"), host.client_tls("juliet"));
    for (key, value) in [
        ("turn_events_max", "8"),
        ("turn_others_max", "1"),
        ("turn_letters_max", "1"),
        ("turn_answers_max", "1"),
        ("gate_bytes_max", "1MiB"),
        ("busy_poll_microseconds", "2000"),
        ("receive_buffer_bytes", "64KiB"),
    ] {
        assert!(host.good(&["ctl", "knob", "set", key, value]).starts_with(&format!("{key}: ")));
    }
    for n in 0..50 {
        romeo.send(&format!("<message to='juliet@localhost/r' type='chat'><body>{n}.</body></message>"));
    }
    juliet.hear("<body>49.</body>");
    host.good(&["ctl", "knob", "set", "idle_timeout_seconds", "1", "--for", "1h"]);
    assert!(romeo.hear("<ping ").contains("<iq type='get'"));
    host.good(&["ctl", "knob", "reset", "--all"]);
    host.stop();
}

#[test]
fn a_knob_is_felt_by_who_is_connected_on_epoll() {
    a_knob_is_felt_by_who_is_connected("epoll");
}

#[test]
fn a_knob_is_felt_by_who_is_connected_on_io_uring() {
    if has_uring() {
        a_knob_is_felt_by_who_is_connected("uring");
    }
}

#[test]
fn a_knob_takes_effect_goes_back_by_itself_outlives_a_reload_and_leaves_a_trace() {
    for driver in ["auto", "epoll"] {
        let mut host = Host::new(&[]);
        start(&mut host, driver);
        let log = || host.log();
        assert!(
            host.good(&["ctl", "knob", "set", "log_level", "debug", "--for", "1"])
                .starts_with("log_level: info -> debug, until")
        );
        knob_becomes(&host, "log_level", "info");
        assert!(
            log().contains("a knob was turned by=\"control socket\" knob=\"log_level\" from=info to=debug until_s="),
            "{}",
            log()
        );
        assert!(
            log().contains("a knob was turned by=\"time is over\" knob=\"log_level\" from=debug to=info"),
            "{}",
            log()
        );

        // A setting changed at run time takes precedence over the file, and the reload says so;
        // others are read.
        assert_eq!(
            host.good(&["ctl", "knob", "set", "shutdown_grace_seconds", "3"]),
            "shutdown_grace_seconds: 10s -> 3s\n"
        );
        let file = "shutdown_grace_seconds = 7\nlog_level = \"warn\"\nshards = 2\n";
        std::fs::write(host.data().join("throng.toml"), file).expect("a file");
        let told = "took effect: log_level\nremains as set at run time: shutdown_grace_seconds\n";
        assert_eq!(host.good(&["ctl", "reload"]), told, "shards are a flag");
        assert_eq!(host.good(&["ctl", "reload"]), "remains as set at run time: shutdown_grace_seconds\n");
        assert_eq!(host.good(&["ctl", "knob", "reset", "--all"]), "shutdown_grace_seconds: 3s -> 7s\n");

        let refused = host.run(&["ctl", "knob", "set", "shards", "2"]);
        assert_eq!(refused.status.code(), Some(2));
        let status: Value = serde_json::from_str(&host.good(&["ctl", "status", "--json"])).expect("JSON");
        let turned = |event: &Value| {
            let knob = &event["what"]["knob"];
            let word = |value: &Value| value.as_str().expect("text").to_owned();
            (word(&event["by"]), word(&knob["key"]), word(&knob["from"]), word(&knob["to"]))
        };
        let events: Vec<_> = status["events"].as_array().expect("a list").iter().map(turned).collect();
        let expected = [
            ("control socket", "log_level", "info", "debug"),
            ("time is over", "log_level", "debug", "info"),
            ("control socket", "shutdown_grace_seconds", "10s", "3s"),
            ("reload", "log_level", "info", "warn"),
            ("control socket", "shutdown_grace_seconds", "3s", "7s"),
        ];
        let owned = |(by, key, from, to): (&str, &str, &str, &str)| (by.into(), key.into(), from.into(), to.into());
        assert_eq!(events, expected.map(owned), "{driver}");
        host.stop();
    }
}

/// Output for a client that does not read: an urgent announcement overtakes it, and a flush drops
/// it.
fn a_backlog_is_overtaken_and_flushed(driver: &str) {
    let mut host = Host::new(&["romeo"]);
    start(&mut host, driver);
    let mut romeo = host.tight_client("romeo");
    let waits = |host: &Host| host.session("romeo@localhost")["outbound_bytes"].as_u64().expect("bytes");
    let fill = |host: &Host| {
        let text = "x".repeat(8_000);
        let full = (0..2_000).any(|_| {
            host.good(&["ctl", "say", &text, "--to", "romeo@localhost"]);
            waits(host) > 16_000
        });
        assert!(full, "everything is read");
    };
    fill(&host);
    host.good(&["ctl", "say", "the last", "--to", "romeo@localhost"]);
    assert_eq!(host.good(&["ctl", "say", "the urgent one", "--urgent", "--all"]), "1 session told\n");
    let before = romeo.hear("the urgent one</body></message>");
    assert!(!before.contains("the last"), "it was overtaken");
    assert!(romeo.hear("the last</body></message>").contains("xxx"), "with more");

    fill(&host);
    assert_eq!(host.good(&["ctl", "queue", "flush", "romeo@localhost"]), "1 connection cut\n");
    assert_eq!(host.run(&["ctl", "queue", "flush", "romeo@localhost"]).status.code(), Some(5));
    assert_eq!(host.sessions(&[]).len(), 0, "without stream management there is nothing to resume");
    romeo.rest();
    assert!(
        host.good(&["ctl", "housekeeping", "pause", "--for", "1h"]).starts_with("housekeeping: true -> false, until ")
    );
    assert!(host.good(&["ctl", "status"]).contains("set          housekeeping = false, until "));
    assert_eq!(host.good(&["ctl", "housekeeping", "resume"]), "housekeeping: false -> true\n");
    assert_eq!(host.good(&["ctl", "waiting", "flush", "romeo@localhost", "--yes"]), "0 messages dropped\n");
    assert_eq!(host.run(&["ctl", "waiting", "flush", "nobody@localhost", "--yes"]).status.code(), Some(5));
    let back = host.tight_client("romeo");
    assert_eq!(
        host.run(&["ctl", "waiting", "flush", "romeo@localhost", "--yes"]).status.code(),
        Some(1),
        "romeo is there"
    );
    drop(back);
    let list = host.good(&["ctl", "knob", "list"]);
    assert!(list.contains("queue flush: romeo@localhost, 1 (control socket)"), "{list}");
    assert!(list.contains("say --urgent: all, 1 (control socket)"), "{list}");
    host.stop();
}

#[test]
fn a_backlog_is_overtaken_and_flushed_on_epoll() {
    a_backlog_is_overtaken_and_flushed("epoll");
}

#[test]
fn a_backlog_is_overtaken_and_flushed_on_io_uring() {
    if has_uring() {
        a_backlog_is_overtaken_and_flushed("uring");
    }
}

/// A reload by SIGHUP has nobody to answer to: the log describes the error in one line, and so does
/// the status until a reload succeeds.
#[test]
fn a_hangup_that_reloads_nothing_is_one_line_of_the_log_and_stays_in_the_status() {
    let server = Server::start_with(&["--admin-http", "127.0.0.1:0"]);
    let hang_up = || {
        let process = rustix::process::Pid::from_child(&server.child);
        rustix::process::kill_process(process, rustix::process::Signal::HUP).expect("it runs");
    };
    // Commands read the same file and refuse it: the status is requested by HTTP, as they do.
    let status = || server.get("/api/now");
    let file = format!("{}/throng.toml", server.folder());
    std::fs::write(&file, "log_level = \"loud\"\nshutdown_grace_seconds = -3\n").expect("a file");
    hang_up();
    until("the log says so", || server.log().contains("not reloaded"));
    let log = server.log();
    let line = log.lines().find(|line| line.contains("not reloaded")).expect("a line");
    assert!(line.contains("log_level cannot be `loud`") && line.contains("shutdown_grace_seconds cannot be"), "{log}");
    assert!(status().contains("\"text\":\"was not reloaded: "), "{}", status());
    assert!(server.get("/ready").contains("the configuration was not reloaded"), "{}", server.get("/ready"));
    std::fs::write(&file, "").expect("a file");
    hang_up();
    until("the next is good", || status().contains("\"not_reloaded\":null"));
}

/// `throng sar --data` reads the server's own folder like `--from`.
#[test]
fn what_a_server_records_is_found_by_its_data_folder() {
    let server = Server::start_with(&[]);
    let recorded = |flag: &str, folder: &str| {
        let output = throng(&["sar", flag, folder, "--list", "--json"]);
        good(&output);
        String::from_utf8(output.stdout).expect("text")
    };
    let folder = server.folder();
    until("a recording", || throng(&["sar", "--data", &folder, "--list"]).status.success());
    let listed = recorded("--data", &folder);
    assert!(listed.contains("outbound_bytes"), "{listed}");
    assert_eq!(listed, recorded("--from", &format!("{folder}/recorder")));
    assert_eq!(throng(&["sar", "--data", &folder, "--from", "x"]).status.code(), Some(2));
}

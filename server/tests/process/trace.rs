//! `throng ctl trace` against `throng serve`, as processes, on both drivers.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Server, good, has_uring, throng, until};

/// Must not be visible in a stanza.
const SECRET: &str = "it-is-the-east-and-juliet-is-the-sun";

/// A trace in progress.
struct Trace {
    child: Child,
    out: BufReader<ChildStdout>,
    lines: Vec<Value>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Trace {
    /// Started, according to the server's events.
    fn begin(server: &Server, jid: &str, further: &[&str]) -> Trace {
        let before = events(server, "begins").len();
        let mut child = server
            .command(&["ctl", "trace", "--jid", jid, "--json"])
            .args(further)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        until("a trace begins", || events(server, "begins").len() > before);
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Trace { child, out, lines: Vec::new() }
    }

    /// Reads up to a line that matches.
    fn hear(&mut self, like: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).expect("text") > 0, "no such line: {:?}", self.lines);
            let value: Value = serde_json::from_str(&line).expect("JSON");
            self.lines.push(value.clone());
            if like(&value) {
                return value;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process");
        kill_process(pid, signal).expect("it is there");
    }

    /// Ends it like Ctrl-C; returns all lines, and the other output.
    fn end(mut self) -> (Vec<Value>, String) {
        self.signal(Signal::INT);
        self.hear(|line| line["ended"].is_object());
        let mut said = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
        assert!(self.child.wait().expect("it ends").success(), "{said}");
        (std::mem::take(&mut self.lines), said)
    }
}

/// Lines of the events with these words about a trace.
fn events(server: &Server, what: &str) -> Vec<String> {
    let list = String::from_utf8(server.ctl(&["knob", "list"]).stdout).expect("text");
    let of_traces = list.lines().filter(|line| line.contains("a trace of ") && line.contains(what));
    of_traces.map(str::to_owned).collect()
}

fn shows_withholds_and_tells(driver: &str) {
    let server = Server::start_with(&["--driver", driver, "--admin-http", "off"]);
    server.add(&["romeo", "juliet"]);
    let (mut romeo, mut juliet) = (server.client("romeo", "orchard"), server.client("juliet", "balcony"));
    juliet.ask("<enable xmlns='urn:xmpp:sm:3' resume='true'/>", "<enabled");
    juliet.ask("<presence/>", "<presence");
    let mut trace = Trace::begin(&server, "juliet@localhost", &["--seconds", "60"]);
    let mut whole = Trace::begin(&server, "romeo@localhost/orchard", &["--seconds", "60", "--bodies"]);
    romeo.send(&format!(
        "<message to='juliet@localhost' type='chat' id='m1'><body>{SECRET}</body><x xmlns='urn:{SECRET}' a='{SECRET}'/></message>"
    ));
    juliet.hear(SECRET);
    let got = trace.hear(|line| line["id"] == "m1");
    assert_eq!((&got["way"], &got["fate"]), (&"out".into(), &"queued".into()), "{got}");
    assert_eq!(got["session"], "juliet@localhost/balcony");
    assert_eq!(got["from"], "romeo@localhost/orchard");
    assert_eq!(got["payload"], serde_json::json!(["body", "other", "stanza-id"]));
    let after = trace.hear(|line| line["of"] == got["n"] && line["fate"] == "sent");
    assert!(after["after_us"].is_u64(), "{after}");
    juliet.send("<a xmlns='urn:xmpp:sm:3' h='2'/>");
    trace.hear(|line| line["of"] == got["n"] && line["fate"] == "acknowledged");
    // The client's answers are visible as well, and refused stanzas.
    juliet.ask("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
    assert_eq!(trace.hear(|line| line["id"] == "p" && line["way"] == "in")["fate"], "taken");
    juliet.send(&format!("<message to='x@elsewhere.example' id='e'><body>{SECRET}</body></message>"));
    let refused = trace.hear(|line| line["id"] == "e" && line["way"] == "in");
    assert_eq!((&refused["fate"], &refused["condition"]), (&"refused".into(), &"remote-server-not-found".into()));
    let sent = whole.hear(|line| line["id"] == "m1");
    assert!(sent["xml"].as_str().is_some_and(|xml| xml.contains(SECRET)), "{sent}");

    let (lines, said) = trace.end();
    assert!(!format!("{lines:?}{said}").contains(SECRET), "{lines:?}");
    whole.end();
    // Whose trace, with bodies or not, and from where: in the log, the events and the recording; no
    // content of stanzas.
    let begun = events(&server, "begins");
    assert!(begun[0].ends_with("a trace of juliet@localhost begins (control socket)"), "{begun:?}");
    assert!(begun[1].ends_with("a trace of romeo@localhost/orchard begins, with bodies (control socket)"), "{begun:?}");
    let ended = events(&server, "has ended");
    assert!(ended[0].contains("a trace of juliet@localhost has ended, "), "{ended:?}");
    let log = server.log();
    assert!(
        log.contains("a trace of a user's stanzas begins by=\"control socket\" jid=juliet@localhost bodies=false"),
        "{log}"
    );
    assert!(log.contains("a trace of a user's stanzas has ended by=\"control socket\" jid=juliet@localhost"), "{log}");
    let status = server.ctl(&["status", "--json"]);
    let status = String::from_utf8(status.stdout).expect("text");
    assert!(!log.contains(SECRET) && !status.contains(SECRET));
    let recorder = format!("{}/recorder", server.folder());
    until("four marks", || {
        let told = throng(&["sar", "--from", &recorder, "--json", "cpu"]);
        let told = String::from_utf8(told.stdout).expect("text");
        let marks = told.lines().filter(|line| line.contains("\"mark\":\"trace\"")).count();
        assert!(!told.contains(SECRET));
        marks == 4
    });
}

#[test]
fn a_trace_shows_withholds_and_is_told_on_epoll() {
    shows_withholds_and_tells("epoll");
}

#[test]
fn a_trace_shows_withholds_and_is_told_on_io_uring() {
    if has_uring() {
        shows_withholds_and_tells("uring");
    }
}

#[test]
fn bad_addresses_and_times_are_refused_and_the_server_lives_on() {
    let server = Server::start_with(&["--admin-http", "off"]);
    let long = format!("{}@localhost", "x".repeat(2_000));
    let wrong = [
        "",
        "@",
        "@localhost",
        "a@b@c",
        "juliet@elsewhere.example",
        "localhost/x",
        "a\u{1b}[2J@localhost",
        "juliet@localhost/\u{7}",
        &long,
    ];
    for jid in wrong {
        let refused = server.ctl(&["trace", "--jid", jid, "--seconds", "1"]);
        assert_eq!(refused.status.code(), Some(2), "{jid:?}: {refused:?}");
        assert!(!refused.stderr.contains(&0x1b) && !refused.stderr.contains(&7), "{refused:?}");
    }
    for seconds in ["0", "-1", "3601", "x"] {
        assert_eq!(server.ctl(&["trace", "--jid", "juliet", "--seconds", seconds]).status.code(), Some(2));
    }
    // An absent user may come; a similar name matches nobody.
    let quiet = server.ctl(&["trace", "--jid", "Nobody@LocalHost", "--seconds", "1"]);
    good(&quiet);
    let said = String::from_utf8_lossy(&quiet.stderr).into_owned();
    assert!(said.contains("nobody@localhost for 1 s, 0 sessions now") && said.ends_with("0 stanzas\n"), "{said}");
    let most: Vec<Trace> = (0..4).map(|_| Trace::begin(&server, "juliet", &["--seconds", "60"])).collect();
    let fifth = server.ctl(&["trace", "--jid", "juliet", "--seconds", "1"]);
    assert_eq!(fifth.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&fifth.stderr).contains("the limit of 4 traces is reached"), "{fifth:?}");
    most.into_iter().for_each(|trace| drop(trace.end()));
    good(&server.ctl(&["status"]));
}

#[test]
fn a_flood_is_counted_every_message_arrives_and_an_abandoned_trace_ends() {
    let server = Server::start_with(&["--admin-http", "off"]);
    server.add(&["romeo", "juliet"]);
    let (mut romeo, mut juliet) = (server.client("romeo", "orchard"), server.client("juliet", "balcony"));
    juliet.ask("<presence/>", "<presence");
    let trace = Trace::begin(&server, "juliet@localhost/balcony", &["--seconds", "60"]);
    // Nobody fetches for a while.
    trace.signal(Signal::STOP);
    let most = 6_000;
    for n in 0..most {
        romeo.send(&format!("<message to='juliet@localhost/balcony' id='m{n}'><body>{n}.</body></message>"));
    }
    let heard = juliet.hear(&format!("<body>{}.</body>", most - 1));
    let bodies: Vec<&str> = heard.split("<body>").skip(1).filter_map(|rest| rest.split('.').next()).collect();
    assert!(bodies.iter().map(|n| n.parse::<usize>().expect("a number")).eq(0..most), "{} arrived", bodies.len());
    trace.signal(Signal::CONT);
    let (lines, said) = trace.end();
    let ended = &lines.last().expect("an end")["ended"];
    // Some of them waited in the log first, and are visible there, too.
    assert!(ended["stanzas"].as_u64().is_some_and(|seen| (most..=2 * most).contains(&(seen as usize))), "{ended}");
    assert!(ended["dropped"].as_u64().is_some_and(|dropped| dropped >= (most - 4_096) as u64), "{ended}");
    assert!(said.contains("lines skipped"), "{said}");

    let mut trace = Trace::begin(&server, "romeo@localhost", &["--seconds", "600"]);
    trace.child.kill().expect("it runs");
    let began = Instant::now();
    until("an end", || events(&server, "a trace of romeo@localhost has ended").len() == 1);
    assert!(began.elapsed() > Duration::from_secs(5), "it may be fetched from for ten seconds");
    assert!(server.log().contains("abandoned=true"));
}

//! Requests over a socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use throng_recorder::recorder::{Recorder, Sampler};

use super::health::{STUCK_AFTER, Turns};
use super::{Delay, Guard, History, HttpServer, Number, Numbers, Telemetry};
use crate::admin::{Busiest, BusySession, Fault, Status};
use crate::record::owners::Owed;

#[derive(Default)]
struct Told {
    turns: AtomicU64,
    full: AtomicBool,
    unrecorded: AtomicBool,
    lost: AtomicU64,
}

impl Telemetry for Told {
    fn status(&self) -> Status {
        Status {
            version: "1.2.3".into(),
            driver: "epoll".into(),
            shards: 2,
            storage_full: self.full.load(Ordering::Relaxed),
            storage_lacks_bytes: u64::from(self.full.load(Ordering::Relaxed)) * 12_345,
            unrecorded: self.unrecorded.load(Ordering::Relaxed).then(|| "a panic: of a test".into()),
            log_lines_lost: self.lost.load(Ordering::Relaxed),
            memory: [("users".to_owned(), 4096)].into(),
            ..Status::default()
        }
    }

    fn shards(&self) -> Vec<Vec<Number>> {
        let turns = self.turns.load(Ordering::Relaxed);
        let numbers = |turns| {
            vec![
                Number { name: "turns", counts: true, help: "Turns of the shard's loop.", value: turns },
                Number { name: "connections", counts: false, help: "Connections held.", value: 7 },
            ]
        };
        vec![numbers(turns), numbers(0)]
    }

    fn works(&self) -> Vec<Numbers> {
        let number = |name| Number { name, counts: true, help: "Some.", value: 5 };
        let both = ["0", "1"].map(|thread| (thread.to_owned(), vec![number("requests")]));
        vec![
            Numbers { of: "store", by: None, sets: vec![(String::new(), vec![number("commits")])] },
            Numbers { of: "reads", by: Some("thread"), sets: both.into() },
        ]
    }

    fn delays(&self) -> Vec<Delay> {
        vec![Delay { of: "commit", by: None, help: "A commit.", sets: vec![(String::new(), Arc::default())] }]
    }

    fn owed(&self) -> Arc<Vec<Owed>> {
        let peer = Some("192.0.2.7:7".to_owned());
        let deaf =
            Owed::Connection { shard: 1, jid: "a@x/1".into(), peer, bytes: 70 << 10, sent_bytes: 0, stalled_s: 9 };
        Arc::new(if self.full.load(Ordering::Relaxed) { vec![deaf] } else { Vec::new() })
    }

    fn busiest(&self, most: usize, _: &[usize]) -> Result<Busiest, Fault> {
        let session = BusySession { jid: "romeo@localhost/orchard".into(), ..BusySession::default() };
        Ok(Busiest { counted: true, sessions: vec![session; most] })
    }
}

fn serve(guard: Guard) -> (Arc<Told>, HttpServer) {
    serve_with(guard, None)
}

fn serve_with(guard: Guard, history: Option<History>) -> (Arc<Told>, HttpServer) {
    let told = Arc::new(Told::default());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = HttpServer::start(vec![(listener, guard)], told.clone(), history).expect("it starts");
    (told, server)
}

/// A loopback guard with a token.
fn local() -> Guard {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).expect("a file");
    Guard::local(&file).expect("a token")
}

const TOKEN: &str = "correct-horse-battery";

/// Header fields of a local request with the token.
fn known() -> String {
    format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n")
}

/// Status, head and body of an answer.
fn ask(to: SocketAddr, path: &str, headers: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(to).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
    write!(stream, "GET {path} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").expect("it takes a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

#[test]
fn numbers_are_told_by_shard_in_the_format_that_is_asked_for() {
    let (told, server) = serve(local());
    told.turns.store(42, Ordering::Relaxed);
    let open = "Host: localhost\r\nAccept: application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1\r\n";
    for (headers, kind, own) in [
        ("Host: localhost\r\n", "text/plain; version=0.0.4", "# TYPE throng_shard_turns_total counter"),
        (open, "application/openmetrics-text; version=1.0.0", "# TYPE throng_shard_turns counter"),
    ] {
        let (status, head, body) = ask(server.addresses()[0], "/metrics", headers);
        assert_eq!(status, 200);
        assert!(head.contains(&format!("content-type: {kind}")) && head.contains("vary: accept"), "{head}");
        for line in [
            own,
            "throng_shard_turns_total{shard=\"0\"} 42",
            "throng_shard_connections{shard=\"1\"} 7",
            "throng_shards 2",
            "throng_store_commits_total 5",
            "throng_reads_requests_total{thread=\"1\"} 5",
            "throng_memory_bytes{part=\"users\"} 4096",
            "throng_commit_seconds_bucket{le=\"+Inf\"} 0",
            "throng_build_info{version=\"1.2.3\",driver=\"epoll\",domain=\"\"} 1",
        ] {
            assert!(body.lines().any(|told| told == line), "{line} is not in:\n{body}");
        }
        assert_eq!(body.ends_with("# EOF\n"), headers == open);
    }
}

#[test]
fn names_of_other_machines_are_refused_on_loopback() {
    let (_told, server) = serve(local());
    for host in ["Host: evil.example\r\n", ""] {
        let (status, ..) = ask(server.addresses()[0], "/metrics", host);
        assert_eq!(status, 403, "{host}");
    }
    let (status, ..) = ask(server.addresses()[0], "/nothing", "Host: localhost\r\n");
    assert_eq!(status, 404);
}

/// Neither another user of this machine nor a page in the operator's browser has the token.
#[test]
fn on_loopback_what_tells_of_users_needs_the_token_and_pages_of_others_get_nothing() {
    let (told, server) = serve(local());
    let to = server.addresses()[0];
    told.full.store(true, Ordering::Relaxed);
    for path in ["/api/now", "/api/busiest", "/api/schema", "/api/series", "/api/recording", "/api/recording/recent"] {
        let (status, _, body) = ask(to, path, "Host: localhost\r\n");
        assert_eq!(status, 401, "{path}: {body}");
        assert!(!body.contains('@'), "{body}");
    }
    for (path, names) in [("/api/now", "\"what\":\"a@x/1\""), ("/api/busiest?most=2", "romeo@localhost/orchard")] {
        let (status, _, body) = ask(to, path, &known());
        assert!(status == 200 && body.contains(names), "{path}: {status} {body}");
    }
    for path in ["/", "/uplot.js", "/metrics", "/health"] {
        assert_eq!(ask(to, path, "Host: localhost\r\n").0, 200, "{path} tells nothing of users");
    }
    // RFC 6454 7.3: the request comes from a foreign page, even if it has the token.
    for origin in ["https://evil.example", "http://localhost:1", "null"] {
        for path in ["/api/now", "/metrics"] {
            assert_eq!(ask(to, path, &format!("{}Origin: {origin}\r\n", known())).0, 403, "{origin}");
        }
    }
    assert_eq!(ask(to, "/api/now", &format!("{}Origin: http://localhost\r\n", known())).0, 200);
    let rebound = format!("Host: evil.example\r\nAuthorization: Bearer {TOKEN}\r\n");
    assert_eq!(ask(to, "/api/now", &rebound).0, 403, "a name of another's that points here");
}

#[test]
fn who_has_the_token_may_ask_and_anybody_whether_it_lives() {
    let file = std::env::temp_dir().join(format!("throng-http-token-{}", std::process::id()));
    std::fs::write(&file, "correct-horse-battery\n").expect("a file");
    let (_told, server) = serve(Guard::token(&file).expect("a token"));
    std::fs::remove_file(&file).expect("it is there");
    let to = server.addresses()[0];
    let (status, head, _) = ask(to, "/metrics", "Host: x\r\nAuthorization: Bearer wrong-horse-battery\r\n");
    assert!(status == 401 && head.contains("www-authenticate: bearer"), "RFC 6750 3: {head}");
    let (status, ..) = ask(to, "/metrics", "Host: x\r\nAuthorization: Bearer correct-horse-battery\r\n");
    assert_eq!(status, 200);
    assert_eq!((ask(to, "/health", "Host: x\r\n").0, ask(to, "/ready", "Host: x\r\n").0), (200, 200));
}

/// A query over months of seconds occupies a core for long; current faults must be reported
/// meanwhile.
#[test]
fn a_long_look_into_what_was_recorded_does_not_hold_up_what_is_wrong_now() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("0000000001-20261122T020335Z.rec");
    // Opening the FIFO blocks until a writer opens it: the query lasts as long as the test needs.
    let fifo = std::process::Command::new("mkfifo").arg(&file).status();
    assert!(fifo.is_ok_and(|status| status.success()));
    let recent = Recorder::new(Sampler::new(Default::default(), Vec::new()), 1 << 16, None).handle();
    let history = History { recent, folder: folder.path().into() };
    let (_told, server) = serve_with(local(), Some(history));
    let to = server.addresses()[0];
    let long = std::thread::spawn(move || ask(to, "/api/recording/1", &known()).0);
    // Opens once the query does: the query is in progress, and remains so.
    let writer = std::fs::OpenOptions::new().write(true).open(&file).expect("a reader");
    let (status, _, body) = ask(to, "/api/now", &known());
    assert!(status == 200 && body.contains("\"wrong\""), "{body}");
    assert!(!long.is_finished(), "the long question is not answered before its file ends");
    drop(writer);
    long.join().expect("an answer, if only that this is no recording");
}

/// A dashboard opened while the server starts fills up.
#[test]
fn before_the_first_sample_there_are_no_points() {
    let folder = tempfile::tempdir().expect("a folder");
    let recent = Recorder::new(Sampler::new(Default::default(), Vec::new()), 1 << 16, None).handle();
    let (_told, server) = serve_with(local(), Some(History { recent, folder: folder.path().into() }));
    let (status, _, body) = ask(server.addresses()[0], "/api/series?pick=cpu.user", &known());
    assert!(status == 200 && body.contains("\"times\":[]"), "{status} {body}");
}

#[test]
fn a_full_disk_takes_no_clients() {
    let (told, server) = serve(local());
    let to = server.addresses()[0];
    assert_eq!(ask(to, "/ready", "Host: localhost\r\n").0, 200);
    told.full.store(true, Ordering::Relaxed);
    let (status, _, body) = ask(to, "/ready", "Host: localhost\r\n");
    assert!(
        status == 503 && body.contains("disk is full: new messages are refused until 12345 more bytes are free"),
        "{body}"
    );
    assert_eq!(ask(to, "/health", "Host: localhost\r\n").0, 200, "it lives nevertheless");
}

/// Neither is a reason to route clients elsewhere. Both are reported to observers that do not read
/// the log.
#[test]
fn a_failed_recorder_and_lost_lines_are_told_outside_of_the_log() {
    let (told, server) = serve(local());
    let to = server.addresses()[0];
    let metrics = || ask(to, "/metrics", "Host: localhost\r\n").2;
    let has = |text: &str, line: &str| text.lines().any(|told| told == line);
    let before = metrics();
    assert!(has(&before, "throng_recorder_failed 0") && has(&before, "throng_log_lines_lost_total 0"), "{before}");
    assert!(ask(to, "/api/now", &known()).2.contains("\"wrong\":[]"));
    told.unrecorded.store(true, Ordering::Relaxed);
    told.lost.store(7, Ordering::Relaxed);
    let after = metrics();
    assert!(has(&after, "throng_recorder_failed 1") && has(&after, "throng_log_lines_lost_total 7"), "{after}");
    let (status, _, ready) = ask(to, "/ready", "Host: localhost\r\n");
    assert!(status == 200 && ready.contains("\"degraded\":[\"the activity recorder has failed"));
    let (_, _, now) = ask(to, "/api/now", &known());
    for says in ["has failed (a panic: of a test)", "has lost 7 lines", "\"log_lines_lost\":7"] {
        assert!(now.contains(says), "{now}");
    }
}

#[test]
fn a_shard_that_does_not_turn_is_named() {
    let (told, turns, start) = (Told::default(), Turns::default(), Instant::now());
    turns.look(&told, start);
    told.turns.store(1, Ordering::Relaxed);
    turns.look(&told, start + STUCK_AFTER);
    let stuck = turns.stuck(start + STUCK_AFTER);
    assert_eq!(stuck, [(1, STUCK_AFTER)], "the other one has turned");
}

#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    let (_told, server) = serve(local());
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(server.addresses()[0]).expect("a connection")).collect();
    // They would have kept their places for 15 seconds, the timeout for a head.
    let asked = Instant::now();
    let (status, ..) = ask(server.addresses()[0], "/ready", "Host: localhost\r\n");
    assert!(status == 200 && asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    drop(silent);
}

/// A connection with a small buffer that requests the largest file and reads nothing.
fn deaf(to: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(2_048).expect("an option");
    socket.connect(&to.into()).expect("a connection");
    let mut stream = TcpStream::from(socket);
    let request = "GET /uplot.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // Enough requests that no kernel buffer holds all answers.
    for _ in 0..100 {
        stream.write_all(request.as_bytes()).expect("it takes a request");
    }
    stream
}

#[test]
fn slow_readers_keep_nobody_out_and_are_cut_off() {
    let (_told, server) = serve(local());
    let to = server.addresses()[0];
    // A connection with the token stays open.
    let mut known_one = TcpStream::connect(to).expect("a connection");
    known_one.set_read_timeout(Some(Duration::from_secs(60))).expect("a time-out");
    let ask_again = |stream: &mut TcpStream| {
        write!(stream, "GET /api/busiest?most=1 HTTP/1.1\r\n{}\r\n", known()).expect("it takes a request");
        let mut bytes = [0; 4_096];
        let count = stream.read(&mut bytes).expect("an answer");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    assert!(ask_again(&mut known_one).starts_with("HTTP/1.1 200"));
    let mut slow: Vec<_> = (0..64).map(|_| deaf(to)).collect();
    for path in ["/health", "/ready", "/metrics", "/api/busiest"] {
        let asked = Instant::now();
        let (status, ..) = ask(to, path, &known());
        assert!(status == 200 && asked.elapsed() < Duration::from_secs(10), "{path}: {:?}", asked.elapsed());
    }
    assert!(ask_again(&mut known_one).starts_with("HTTP/1.1 200"));
    // Within the timeout for slow readers, all of them are closed.
    let end = Instant::now() + Duration::from_secs(60);
    let is_cut = |stream: &mut TcpStream| {
        // A socket error means a reset.
        stream.take_error().is_ok_and(|error| error.is_some()) || stream.write(b"\r\n").is_err()
    };
    while !slow.is_empty() {
        slow.retain_mut(|stream| !is_cut(stream));
        assert!(Instant::now() < end, "{} still have their places", slow.len());
        std::thread::sleep(Duration::from_millis(100));
    }
}

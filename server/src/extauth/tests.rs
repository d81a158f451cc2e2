//! Real processes and a real HTTP server, which answer, hang, die, and answer invalidly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use tempfile::TempDir;
use throng_engine::counters::Counted;

use super::*;
use crate::client::authorities;

const DOMAIN: &str = "a.example";
/// Nothing takes this long but what never ends.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time limit where every question is answered, however busy the machine is.
const LIMIT: Duration = PATIENCE;
/// The time limit where an answer is to be late. On a busy machine, right answers may be late too:
/// see `Desk::is_right_in_the_end`.
const HURRY: Duration = Duration::from_secs(1);

struct Woken(Sender<()>);

impl Wake for Woken {
    fn wake(&self) {
        let _ = self.0.send(());
    }
}

/// One shard's port to one back end.
struct Desk {
    port: AskPort,
    back_ends: BackEnds,
    woken: Receiver<()>,
    next: u64,
}

impl Desk {
    fn new(by: By, lines: usize, waiting_max: usize) -> Desk {
        Desk::of(Of::Users(DOMAIN.into()), by, lines, waiting_max, LIMIT)
    }

    fn hurried(by: By, lines: usize, waiting_max: usize) -> Desk {
        Desk::of(Of::Users(DOMAIN.into()), by, lines, waiting_max, HURRY)
    }

    fn of(of: Of, by: By, lines: usize, waiting_max: usize, limit: Duration) -> Desk {
        let (wake, woken) = std::sync::mpsc::channel();
        let back_end = BackEnd { of, by, lines, waiting_max, limit };
        let (mut ports, back_ends) = start(vec![back_end], &[Arc::new(Woken(wake))]).expect("a thread");
        Desk { port: ports.remove(0), back_ends, woken, next: 0 }
    }

    fn submit(&mut self, user: &str, password: Option<&str>) -> u64 {
        self.next += 1;
        let question = Question::of(&format!("{user}@{DOMAIN}"), password);
        self.port.submit(self.next, What::User(Box::new(question)));
        self.next
    }

    /// Waits for this many answers; returns them by token.
    fn answers(&mut self, count: usize) -> HashMap<u64, Verdict> {
        let mut answers = HashMap::new();
        while answers.len() < count {
            self.woken.recv_timeout(2 * PATIENCE).expect("an answer");
            answers.extend(self.polled());
        }
        answers
    }

    /// The available answers.
    fn polled(&mut self) -> HashMap<u64, Verdict> {
        let verdict = |said| match said {
            Said::User(verdict) => verdict,
            Said::Channels(_) => panic!("nothing was asked about channels"),
        };
        std::iter::from_fn(|| self.port.poll()).map(|(token, said)| (token, verdict(said))).collect()
    }

    fn ask(&mut self, user: &str, password: Option<&str>) -> Verdict {
        let token = self.submit(user, password);
        self.answers(1)[&token]
    }

    fn is_right(&mut self, password: &str) -> Verdict {
        self.ask("romeo", Some(password))
    }

    /// Asks until the answer is yes.
    fn is_right_in_the_end(&mut self, password: &str) {
        let end = Instant::now() + PATIENCE;
        while self.is_right(password) != Verdict::Yes {
            assert!(Instant::now() < end, "it is never right");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn counted(&self, name: &str) -> u64 {
        let rows = self.back_ends.standings()[0].counters().list();
        rows.iter().find(|row| row.0 == name).map_or(0, |row| row.3)
    }
}

/// A Python program that reads requests; `body` has the request as `q` and answers with `say`.
fn script(folder: &TempDir, body: &str) -> By {
    let path = folder.path().join("check");
    let log = folder.path().join("pids");
    let text = format!(
        "#!/usr/bin/env python3\n\
         import os, struct, sys, time\n\
         open({log:?}, 'a').write(str(os.getpid()) + '\\n')\n\
         def say(yes): sys.stdout.buffer.write(struct.pack('>HH', 2, yes)); sys.stdout.buffer.flush()\n\
         while True:\n\
         \x20   head = sys.stdin.buffer.read(2)\n\
         \x20   if len(head) < 2: break\n\
         \x20   q = sys.stdin.buffer.read(struct.unpack('>H', head)[0]).decode().split(':', 3)\n\
         {body}\n"
    );
    std::fs::write(&path, text).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("changed");
    By::Program(Program { path, arguments: Vec::new() })
}

fn pids(folder: &TempDir) -> Vec<i32> {
    let text = std::fs::read_to_string(folder.path().join("pids")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Whether a killed process disappears soon, and has been waited for.
fn goes(pid: i32) -> bool {
    let end = Instant::now() + PATIENCE;
    while !is_gone(pid) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    is_gone(pid)
}

fn is_gone(pid: i32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

const WORKS: &str = "    if q[3:] == ['hang']: time.sleep(3600)
    if q[3:] == ['die']: sys.exit(1)
    if q[3:] == ['text']: print('yes'); sys.stdout.flush(); continue
    if q[3:] == ['half']: sys.stdout.buffer.write(b'\\0\\2'); sys.stdout.buffer.flush(); sys.exit(0)
    if q[3:] == ['two']: say(1); say(1); continue
    if q[3:] == ['last']: say(1); sys.exit(0)
    say(q[0] == 'isuser' and q[1:] == ['romeo', 'a.example'] or q[0] == 'auth' and q[1:] == ['romeo', 'a.example', 'pen:cil'])";

#[test]
fn a_program_is_asked_in_the_words_that_scripts_know() {
    let folder = folder();
    let mut desk = Desk::new(script(&folder, WORKS), 1, 10);
    assert_eq!(desk.is_right("pen:cil"), Verdict::Yes);
    assert_eq!(desk.is_right("pencil"), Verdict::No);
    assert_eq!(desk.ask("juliet", Some("pen:cil")), Verdict::No);
    assert_eq!((desk.ask("romeo", None), desk.ask("juliet", None)), (Verdict::Yes, Verdict::No));
    let counted = ["questions", "yes", "no", "started", "late", "wrong"].map(|name| desk.counted(name));
    assert_eq!((counted, pids(&folder).len()), ([5, 2, 3, 1, 0, 0], 1), "one process answers all");
    // It has its three pipes, and besides what the test runner leaves open in all processes no
    // socket and no file of this one.
    let pid = pids(&folder)[0];
    let links = |pid: &str| {
        let held = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("it runs").flatten();
        held.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect::<Vec<_>>()
    };
    let parents: String = std::os::unix::process::parent_id().to_string();
    let (held, left_open) = (links(&pid.to_string()), links(&parents));
    let own: Vec<_> = held.iter().filter(|link| !left_open.contains(link)).collect();
    assert!(own.len() == 3 && own.iter().all(|link| link.to_string_lossy().starts_with("pipe:")), "{held:?}");
    drop(desk);
    assert!(goes(pid), "it goes with the server");
}

#[test]
fn a_process_that_hangs_dies_or_says_something_else_is_replaced() {
    for (wrong, verdict, limit) in [
        ("hang", Unknown::Late, HURRY),
        ("die", Unknown::Wrong, LIMIT),
        ("text", Unknown::Wrong, LIMIT),
        ("half", Unknown::Wrong, LIMIT),
    ] {
        let folder = folder();
        let mut desk = Desk::of(Of::Users(DOMAIN.into()), script(&folder, WORKS), 1, 10, limit);
        desk.is_right_in_the_end("pen:cil");
        assert_eq!(desk.is_right(wrong), Verdict::Unknown(verdict), "{wrong}");
        desk.is_right_in_the_end("pen:cil");
        let (last, before) = pids(&folder).split_last().map(|(last, before)| (*last, before.to_vec())).expect("some");
        assert!(!is_gone(last) && !before.is_empty() && before.into_iter().all(goes), "{wrong}: one process is left");
    }
}

/// A surplus answer must not be taken for that of the next request.
#[test]
fn a_process_that_answers_twice_lets_nobody_in() {
    let folder = folder();
    let mut desk = Desk::new(script(&folder, WORKS), 1, 10);
    // Its second answer arrives with the first, or is found before the next request.
    let first = desk.is_right("two");
    assert!(matches!(first, Verdict::Yes | Verdict::Unknown(Unknown::Wrong)), "{first:?}");
    std::thread::sleep(Duration::from_millis(200));
    let next = desk.is_right("wrong");
    assert_ne!(next, Verdict::Yes);
    assert_eq!(desk.is_right("wrong"), Verdict::No);
}

/// Scripts that end after some requests, or when idle, are restarted without any visible effect.
#[test]
fn a_process_that_had_ended_is_started_again() {
    let folder = folder();
    let mut desk = Desk::new(script(&folder, WORKS), 1, 10);
    for _ in 0..4 {
        assert_eq!(desk.is_right("last"), Verdict::Yes);
        while pids(&folder).last().is_some_and(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.contains(") Z ") && !stat.is_empty()
        }) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    assert_eq!((desk.counted("wrong"), pids(&folder).len()), (0, 4));
}

/// Child processes of a killed process are killed with it.
#[test]
fn a_wrapper_is_killed_with_what_it_has_started() {
    let folder = folder();
    let By::Program(inner) = script(&folder, "    time.sleep(3600)") else { unreachable!() };
    let path = folder.path().join("wrapper");
    std::fs::write(&path, format!("#!/bin/sh\n{}\nexit 1\n", inner.path.display())).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("changed");
    let mut desk = Desk::hurried(By::Program(Program { path, arguments: Vec::new() }), 1, 10);
    // Once or more: on a busy machine, it may not have started in time.
    while pids(&folder).is_empty() {
        let verdict = desk.is_right("x");
        assert!(matches!(verdict, Verdict::Unknown(Unknown::Late | Unknown::Down)), "{verdict:?}");
    }
    let pid = pids(&folder)[0];
    // The process that adopts orphans here may not have waited for it.
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let end = Instant::now() + PATIENCE;
    while !stat().is_empty() && !stat().contains(") Z ") {
        assert!(Instant::now() < end, "{}", stat());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_waits_is_bounded_and_has_an_answer_in_bounded_time() {
    let folder = folder();
    let mut desk = Desk::hurried(script(&folder, WORKS), 2, 20);
    // Two requests hang once the lines have taken them, twenty wait; all others are refused at once.
    for _ in 0..2 {
        desk.submit("romeo", Some("hang"));
    }
    for _ in 0..500 {
        desk.submit("romeo", Some("pen:cil"));
    }
    let refused = desk.polled();
    assert!((480..=482).contains(&refused.len()), "{}", refused.len());
    assert!(refused.values().all(|verdict| *verdict == Verdict::Unknown(Unknown::Busy)));
    let answers = desk.answers(502 - refused.len());
    assert!(answers.values().all(|verdict| *verdict != Verdict::No), "{answers:?}");
    desk.is_right_in_the_end("pen:cil");
}

/// After a long time without answers, requests are suspended for a while, and one trial finds that
/// it answers again.
#[test]
fn a_back_end_that_is_down_costs_nobody_time() {
    let folder = folder();
    let broken = folder.path().join("broken");
    std::fs::write(&broken, "").expect("written");
    let body = format!("    if os.path.exists({broken:?}): sys.exit(1)\n    say(1)");
    let mut desk = Desk::new(script(&folder, &body), 4, 50);
    let end = Instant::now() + PATIENCE;
    while !desk.back_ends.standings()[0].is_down() {
        assert_ne!(desk.is_right("x"), Verdict::Yes);
        assert!(Instant::now() < end, "never down");
    }
    for _ in 0..1_000 {
        desk.submit("romeo", Some("x"));
    }
    let refused = desk.polled().into_values().filter(|told| *told == Verdict::Unknown(Unknown::Down)).count();
    assert!(refused >= 998, "{refused}");
    std::fs::remove_file(&broken).expect("removed");
    desk.is_right_in_the_end("x");
    assert!(!desk.back_ends.standings()[0].is_down());
    // A missing program counts as down.
    let nowhere = By::Program(Program { path: folder.path().join("nowhere"), arguments: Vec::new() });
    assert_eq!(Desk::new(nowhere, 1, 10).is_right("x"), Verdict::Unknown(Unknown::Down));
    // For a domain without a back end no request is sent.
    desk.port.submit(0, What::User(Box::new(Question::of("romeo@b.example", None))));
    assert_eq!(desk.polled(), HashMap::from([(0, Verdict::Unknown(Unknown::Down))]));
}

/// The server's environment contains options, including secrets.
#[test]
fn a_program_sees_nothing_of_the_servers_options() {
    let folder = folder();
    let body = "    say(not any(name.startswith('THRONG_') for name in os.environ) and 'PATH' in os.environ)";
    // All tests of this process may see it; it affects none.
    let own = std::env::vars().any(|(name, _)| name.starts_with("THRONG_")) || std::env::var_os("PATH").is_some();
    assert!(own);
    assert_eq!(Desk::new(script(&folder, body), 1, 10).is_right("x"), Verdict::Yes);
}

// HTTP.

/// Responds to each request with the result of `answer` for its path and body: raw bytes of the
/// response. Counts connections.
fn serve(answer: impl Fn(&str, &str) -> Vec<u8> + Send + Sync + 'static) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let (connections, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
    let counted = connections.clone();
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(socket.try_clone().expect("another"));
                let mut socket = socket;
                loop {
                    let (mut first, mut length) = (String::new(), 0);
                    if reader.read_line(&mut first).unwrap_or(0) == 0 {
                        return;
                    }
                    let mut head = first.clone();
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line).unwrap_or(0) == 0 {
                            return;
                        }
                        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap_or(0);
                        }
                        head += &line;
                        if line == "\r\n" {
                            break;
                        }
                    }
                    let mut body = vec![0; length];
                    if reader.read_exact(&mut body).is_err() {
                        return;
                    }
                    let out = answer(&head, &String::from_utf8_lossy(&body));
                    if out.is_empty() || socket.write_all(&out).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, connections)
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn at(address: SocketAddr, token: Option<&str>) -> By {
    let no_tls = || -> Result<_, String> { Err("no TLS here".into()) };
    let service = Service::new(&format!("http://{address}/xmpp"), no_tls, token.map(str::to_owned));
    By::Http(Box::new(service.expect("a URL")))
}

#[test]
fn a_web_service_is_asked_by_post_on_a_connection_that_is_kept() {
    let (address, connections) = serve(|head, body| {
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        let lower = head.to_ascii_lowercase();
        assert!(lower.contains("content-type: application/json") && lower.contains("host: 127.0.0.1:"), "{head}");
        assert!(lower.contains("authorization: bearer sesame, open now"), "{head}");
        assert!(!head.contains("pencil"), "no password stands in a URL: {head}");
        let path = head.split(' ').nth(1).unwrap_or_default();
        ok(match (head.split(' ').next(), path) {
            (Some("POST"), "/xmpp/check_password") => {
                let right = serde_json::json!({ "user": "romeo", "server": DOMAIN, "pass": "pen\"cil" });
                if body == right { "true" } else { "false" }
            }
            (Some("POST"), "/xmpp/user_exists") => {
                let there = serde_json::json!({ "user": "romeo", "server": DOMAIN });
                if body == there { " true\n" } else { "false" }
            }
            _ => "what?",
        })
    });
    let mut desk = Desk::new(at(address, Some("sesame, open now")), 1, 10);
    assert_eq!((desk.is_right("pen\"cil"), desk.is_right("pencil")), (Verdict::Yes, Verdict::No));
    assert_eq!((desk.ask("romeo", None), desk.ask("juliet", None)), (Verdict::Yes, Verdict::No));
    assert_eq!(connections.load(Ordering::SeqCst), 1, "kept alive");
}

/// Only 200 with true or false is an answer about a user.
#[test]
fn whatever_else_a_web_service_says_is_no_answer() {
    let redirect = "HTTP/1.1 302 Found\r\nLocation: /xmpp/yes\r\nContent-Length: 0\r\n\r\n";
    let long = ok(&"true".repeat(1_000));
    for (name, out) in [
        ("redirect", redirect.as_bytes().to_vec()),
        ("404", b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nfalse".to_vec()),
        ("401", b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n".to_vec()),
        ("500", b"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\ntrue".to_vec()),
        ("page", ok("<html>true</html>")),
        ("empty", ok("")),
        ("long", long),
        ("garbage", b"\x16\x03\x01 hello\r\n\r\n".to_vec()),
        ("closes", Vec::new()),
        ("cut short", b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\nConnection: close\r\n\r\ntrue".to_vec()),
    ] {
        let is_cut = name == "cut short";
        let (address, _) =
            serve(move |head, _| if head.starts_with("POST /xmpp/yes") { ok("true") } else { out.clone() });
        let (limit, wanted) = if is_cut { (HURRY, Unknown::Late) } else { (LIMIT, Unknown::Wrong) };
        let mut desk = Desk::of(Of::Users(DOMAIN.into()), at(address, None), 1, 10, limit);
        let verdict = desk.is_right("x");
        assert_eq!(verdict, Verdict::Unknown(wanted), "{name}");
    }
    // A slow service, and an unreachable one.
    let (address, _) = serve(|_, body| {
        if body.contains("slow") {
            std::thread::sleep(2 * PATIENCE);
        }
        ok("true")
    });
    let mut desk = Desk::hurried(at(address, None), 1, 10);
    assert_eq!(desk.is_right("slow"), Verdict::Unknown(Unknown::Late));
    // On another connection.
    desk.is_right_in_the_end("x");
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port");
    assert_eq!(Desk::new(at(nobody, None), 1, 10).is_right("x"), Verdict::Unknown(Unknown::Down));
}

/// Requests about channels go to the configured URL, next to external users, and each has its own
/// breaker.
#[test]
fn a_web_service_decides_about_channels_and_users_are_nobodys_matter_there() {
    use throng_engine::web::access::Act;
    use throng_engine::web::inquiry::Sent;
    let (address, _) = serve(|head, body| {
        assert!(head.starts_with("POST /ask?of=channels HTTP/1.1\r\n"), "{head}");
        let question: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        match question["channels"][0].as_str() {
            Some("good") => ok(r#"{"allow":true,"name":"romeo","seconds":60}"#),
            Some("bad") => ok(r#"{"allow":false}"#),
            Some("slow") => {
                std::thread::sleep(2 * PATIENCE);
                ok(r#"{"allow":true}"#)
            }
            Some("endless") => ok(&" ".repeat(1 << 20)),
            _ => ok("true"),
        }
    });
    let no_tls = || -> Result<_, String> { Err("no TLS here".into()) };
    let service = Service::new(&format!("http://{address}/ask?of=channels"), no_tls, None).expect("a URL");
    let desk = |limit| Desk::of(Of::Channels, By::Http(Box::new(service.clone())), 2, 10, limit);
    let decided = |desk: &mut Desk, channel: &str| {
        let inquiry = Inquiry {
            act: Act::Subscribe,
            deletes: false,
            occupancy: false,
            channels: vec![channel.into()],
            address: [192, 0, 2, 1].into(),
            sent: Sent::default(),
        };
        desk.port.submit(7, What::Channels(Box::new(inquiry)));
        loop {
            desk.woken.recv_timeout(2 * PATIENCE).expect("an answer");
            match desk.port.poll() {
                Some((7, Said::Channels(decision))) => return decision,
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        }
    };
    let mut patient = desk(LIMIT);
    let allowed = Decision::Allowed { name: Some("romeo".into()), seconds: Some(60) };
    assert_eq!(decided(&mut patient, "good"), allowed);
    assert_eq!(decided(&mut patient, "bad"), Decision::Denied);
    for wrong in ["endless", "other"] {
        assert_eq!(decided(&mut patient, wrong), Decision::Unknown, "{wrong}");
        assert_eq!(decided(&mut patient, "bad"), Decision::Denied, "it goes on");
    }
    assert_eq!(patient.ask("romeo", Some("x")), Verdict::Unknown(Unknown::Down), "nobody keeps users");
    let counted = ["questions", "yes", "no", "late", "wrong"].map(|name| patient.counted(name));
    assert_eq!(counted, [6, 1, 3, 0, 2]);
    let mut hurried = desk(HURRY);
    assert_eq!(decided(&mut hurried, "slow"), Decision::Unknown);
    assert_eq!(hurried.counted("late"), 1);
    while decided(&mut hurried, "bad") != Decision::Denied {}
}

/// A service that closes the connection after each answer gets the next request on a new one.
#[test]
fn a_connection_that_was_closed_is_opened_again() {
    let (address, connections) =
        serve(|_, _| b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\ntrue".to_vec());
    let mut desk = Desk::new(at(address, None), 1, 10);
    (0..3).for_each(|_| assert_eq!(desk.is_right("x"), Verdict::Yes));
    assert_eq!((connections.load(Ordering::SeqCst), desk.counted("wrong")), (3, 0));
}

/// HTTPS with a certificate of the operator's own authority; one of another authority is refused.
#[test]
fn https_is_checked_by_the_authorities_that_are_given() {
    use rcgen::{CertificateParams, KeyPair};
    let folder = folder();
    let own = || {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("names");
        (params.self_signed(&key).expect("a certificate"), key)
    };
    let ((certificate, key), (stranger, _)) = (own(), own());
    let write = |name: &str, pem: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, pem).expect("written");
        path
    };
    let (good, bad) = (write("good.pem", certificate.pem()), write("bad.pem", stranger.pem()));
    let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config =
        builder.expect("versions").with_no_client_auth().with_single_cert(vec![certificate.der().clone()], key);
    let config = Arc::new(config.expect("they fit"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let session = rustls::ServerConnection::new(config.clone()).expect("a session");
            let mut stream = rustls::StreamOwned::new(session, socket);
            let mut seen = [0; 4096];
            if stream.read(&mut seen).is_ok_and(|read| read > 0) {
                let _ = stream.write_all(&ok("true"));
                let _ = stream.flush();
            }
        }
    });
    let by = |file: &std::path::Path| {
        let service = Service::new(&format!("https://localhost:{port}"), || authorities(Some(file)), None);
        By::Http(Box::new(service.expect("a URL")))
    };
    assert_eq!(Desk::new(by(&good), 1, 10).is_right("x"), Verdict::Yes);
    assert_eq!(Desk::new(by(&bad), 1, 10).is_right("x"), Verdict::Unknown(Unknown::Down));
    assert!(authorities(Some(&folder.path().join("none.pem"))).is_err());
}

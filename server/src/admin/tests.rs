//! The control socket with well-behaved and misbehaving clients.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::client::{AskError, Client, Remote};
use super::protocol::{Ask, Done, LINE_BYTES_MAX, Part};
use super::socket::{AdminServer, Patience};
use super::*;
use crate::cli::tests::Memory;
use crate::log::Secret;

/// For what has to happen, however busy the machine is.
const LONG: Duration = Duration::from_secs(60);

struct Bench {
    _folder: tempfile::TempDir,
    path: PathBuf,
    server: Option<AdminServer>,
}

fn hurried() -> Patience {
    let millis = Duration::from_millis;
    Patience { line: millis(200), write: millis(200), idle: millis(400), clients_max: 4 }
}

fn bench(patience: Patience) -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("throng.sock");
    let server = AdminServer::start(&path, Arc::new(Memory::default()), patience).expect("a socket");
    Bench { _folder: folder, path, server: Some(server) }
}

impl Bench {
    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).expect("connected");
        stream.set_read_timeout(Some(LONG)).expect("a time-out");
        stream
    }

    fn works(&self) {
        let done = Client::connect(&self.path).expect("connected").ask(Ask::Status {}, drop).expect("answered");
        assert!(matches!(done, Done::Status(_)));
    }
}

fn line(stream: &UnixStream) -> String {
    let mut text = String::new();
    BufReader::new(stream).read_line(&mut text).expect("a line");
    text
}

/// Waits until the server closes.
fn closed(mut stream: &UnixStream) {
    if let Err(error) = stream.read_to_end(&mut Vec::new()) {
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "closed in time");
    }
}

#[test]
fn the_socket_is_for_its_owner_only_and_goes_with_the_server() {
    let mut bench = bench(Patience::default());
    assert_eq!(std::fs::metadata(&bench.path).expect("there").mode() & 0o777, 0o600);
    let error = AdminServer::start(&bench.path, Arc::new(Memory::default()), hurried()).expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    bench.works();
    drop(bench.server.take());
    assert!(!bench.path.exists());
    assert_eq!(std::fs::read_dir(bench.path.parent().unwrap()).unwrap().count(), 0, "nothing is left behind");
    assert!(matches!(Client::connect(&bench.path), Err(AskError::NotRunning(_))));
}

#[test]
fn a_socket_left_by_a_killed_server_is_replaced_and_another_file_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("throng.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
    assert!(matches!(Client::connect(&path), Err(AskError::NotRunning(_))), "nobody listens on it");
    drop(AdminServer::start(&path, Arc::new(Memory::default()), hurried()).expect("replaced"));
    std::fs::write(&path, "precious").expect("written");
    assert!(AdminServer::start(&path, Arc::new(Memory::default()), hurried()).is_err());
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "precious");
}

#[test]
fn what_a_process_of_this_id_left_while_it_bound_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let left = folder.path().join(format!(".throng-{}", std::process::id()));
    std::fs::create_dir(&left).expect("a folder");
    let socket = std::os::unix::net::UnixListener::bind(left.join("s")).expect("a socket");
    drop(socket);
    let path = folder.path().join("control");
    drop(AdminServer::start(&path, Arc::new(Memory::default()), hurried()).expect("a socket"));
    assert!(!left.exists());
}

#[test]
fn a_path_longer_than_a_socket_address_works() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&deep).expect("made");
    let path = deep.join("throng.sock");
    let _server = AdminServer::start(&path, Arc::new(Memory::default()), Patience::default()).expect("a socket");
    assert!(Client::connect(&path).expect("connected").ask(Ask::Status {}, drop).is_ok());
}

#[test]
fn garbage_is_answered_and_the_client_goes_on() {
    let bench = bench(Patience::default());
    let mut stream = bench.raw();
    for garbage in
        [&b"not json\n"[..], b"\xff\xfe\x00\n", b"\n", b"[]\n", b"{\"v\":1,\"id\":3,\"ask\":{\"format\":{}}}\n"]
    {
        stream.write_all(garbage).expect("sent");
        let answer = line(&stream);
        assert!(answer.contains("\"fault\":{\"kind\":\"invalid\""), "{answer}");
    }
    stream.write_all(b"{\"v\":2,\"id\":9,\"ask\":{\"status\":{}}}\n").expect("sent");
    assert!(line(&stream).starts_with("{\"v\":1,\"id\":9,\"fault\""));
    stream.write_all(b"{\"v\":1,\"id\":4,\"ask\":{\"status\":{}}}\n").expect("sent");
    assert!(line(&stream).starts_with("{\"v\":1,\"id\":4,\"done\":{\"status\""));
}

#[test]
fn deeply_nested_json_is_garbage_and_not_a_stack_overflow() {
    let bench = bench(Patience::default());
    let mut stream = bench.raw();
    stream.write_all(("[".repeat(LINE_BYTES_MAX / 2) + "\n").as_bytes()).expect("sent");
    assert!(line(&stream).contains("invalid"));
}

#[test]
fn a_line_over_its_bound_ends_the_client_with_a_reason() {
    let bench = bench(Patience::default());
    let stream = bench.raw();
    let mut writing = stream.try_clone().expect("cloned");
    let writer = std::thread::spawn(move || {
        // The server closes before all of it is sent.
        let _ = writing.write_all(&vec![b'x'; 4 * LINE_BYTES_MAX]);
    });
    assert!(line(&stream).contains("a line is at most 1048576 bytes"));
    closed(&stream);
    writer.join().expect("ended");
    bench.works();
}

#[test]
fn slow_clients_are_closed_and_disturb_nobody() {
    // Whoever waited for the client that reads nothing would wait for longer than this test.
    let patient = bench(Patience { write: Duration::from_secs(3_600), ..Patience::default() });
    let _deaf = deaf(&patient);
    (0..10).for_each(|_| patient.works());
    let bench = bench(Patience { clients_max: 16, ..hurried() });
    let mut half = bench.raw();
    half.write_all(b"{\"v\":1,").expect("sent");
    let silent = bench.raw();
    let mut deaf = deaf(&bench);
    closed(&half);
    closed(&silent);
    // Its next request cannot be sent: the server has closed.
    soon("a client that never reads is closed", || deaf.write_all(b"{}\n").is_err());
    bench.works();
}

/// Asks for listings and never reads: 50 x 1,200 sessions are more than the socket's buffer takes.
fn deaf(bench: &Bench) -> UnixStream {
    let mut deaf = bench.raw();
    for id in 0..50 {
        let ask = format!("{{\"v\":1,\"id\":{id},\"ask\":{{\"sessions\":{{\"of\":null}}}}}}\n");
        deaf.write_all(ask.as_bytes()).expect("sent");
    }
    deaf
}

/// Waits for a condition.
fn soon(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !is() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_trickled_line_is_late_however_often_a_byte_comes() {
    let bench = bench(hurried());
    let mut stream = bench.raw();
    soon("slowloris is closed", || stream.write_all(b" ").is_err());
}

#[test]
fn clients_beyond_the_limit_are_told_so() {
    let bench = bench(Patience { idle: Duration::from_secs(60), ..hurried() });
    let held: Vec<UnixStream> = (0..4).map(|_| bench.raw()).collect();
    let mut error = None;
    soon("one is refused", || {
        error = Client::connect(&bench.path).ok().and_then(|mut client| client.ask(Ask::Status {}, drop).err());
        error.is_some()
    });
    match error {
        Some(AskError::Fault(fault)) => assert_eq!(fault.kind, FaultKind::Busy),
        // The reason may be lost if the request crosses the close.
        Some(AskError::Broken(_)) => {}
        other => panic!("{other:?}"),
    }
    drop(held);
    soon("there is room again", || {
        Client::connect(&bench.path).is_ok_and(|mut client| client.ask(Ask::Status {}, drop).is_ok())
    });
}

#[test]
fn a_listing_comes_in_parts_and_requests_may_be_sent_ahead() {
    let bench = bench(Patience::default());
    let mut client = Client::connect(&bench.path).expect("connected");
    let mut sizes = Vec::new();
    let done = client.ask(Ask::Sessions { of: None }, |Part::Sessions(rows)| sizes.push(rows.len())).expect("answered");
    assert_eq!((done, sizes), (Done::Count(1_200), vec![500, 500, 200]));
    let mut stream = bench.raw();
    let ahead: String = (1..=20).map(|id| format!("{{\"v\":1,\"id\":{id},\"ask\":{{\"domain\":{{}}}}}}\n")).collect();
    stream.write_all(ahead.as_bytes()).expect("sent");
    // Requests sent before the end of input are answered, too.
    stream.shutdown(std::net::Shutdown::Write).expect("shut");
    let ids: Vec<String> = BufReader::new(&stream).lines().map(|line| line.expect("a line")).collect();
    assert_eq!(ids.len(), 20);
    assert!(ids.iter().zip(1..).all(|(line, id)| line.starts_with(&format!("{{\"v\":1,\"id\":{id},\"done\""))));
}

#[test]
fn bounds_of_requests_are_kept_on_both_sides() {
    let bench = bench(Patience::default());
    let mut client = Client::connect(&bench.path).expect("connected");
    let text = "x".repeat(SAY_BYTES_MAX + 1);
    assert!(matches!(client.ask(Ask::Say { text, to: Audience::All, urgent: false }, drop), Err(AskError::Fault(_))));
    let kick = Ask::Kick { jid: "a@b".into(), reason: Some("x".repeat(REASON_BYTES_MAX + 1)) };
    assert!(matches!(client.ask(kick, drop), Err(AskError::Fault(_))));
    let to = Audience::These(vec!["a@b".into(); SAY_JIDS_MAX + 1]);
    assert!(matches!(client.ask(Ask::Say { text: "x".into(), to, urgent: false }, drop), Err(AskError::Fault(_))));
    // A batch too long for one line, or too large for one request, is split.
    let keys = ScramKeys::derive(&Secret::new("x"), 4_096, &[1; 16]).expect("good");
    let name = |n: usize| format!("{n}{}@localhost", "n".repeat(1_000));
    let batch: Vec<NewAccount> = (0..2_500).map(|n| NewAccount { user: name(n), keys: keys.clone() }).collect();
    let outcomes = Remote::new(client).put(batch, Existing::Refuse).expect("written");
    assert_eq!(outcomes.len(), 2_500);
    assert!(outcomes.iter().all(|outcome| *outcome == Put::Added));
}

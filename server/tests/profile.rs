//! `throng ctl profile` against `throng serve` under load, as processes, on both drivers.

mod support;

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Server, THRONG, good, read, throng};

fn folder(server: &Server) -> String {
    server.data.path().join("data").to_str().expect("a plain path").to_owned()
}

/// A load that takes some seconds, and where its result goes.
fn load(server: &Server) -> (Child, std::path::PathBuf) {
    let out = server.data.path().join("load.json");
    let flags =
        ["load", "--to", &server.plain, "--sessions", "50", "--pairs", "20", "--hold-s", "8", "--quiet", "--out"];
    let load = Command::new(THRONG).args(flags).arg(&out).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    (load.expect("throng load starts"), out)
}

fn profile(server: &Server, further: &[&str]) -> std::process::Output {
    throng(&[&["ctl", "profile", "cpu", "--data", &folder(server)], further].concat())
}

/// Samples by thread of folded stacks.
fn by_thread(folded: &str) -> BTreeMap<String, u64> {
    let mut threads = BTreeMap::new();
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a stack and a count");
        let thread = stack.split(';').next().expect("a thread");
        *threads.entry(thread.to_owned()).or_default() += count.parse::<u64>().expect("a count");
    }
    threads
}

/// A thousand signals a second of CPU time meet every system call of both drivers, of the committer and of the readers: those of
/// them that the kernel does not begin again (signal(7): `epoll_wait`, waits of io_uring) must pass as if none had come.
fn signals_break_nothing_and_name_who_works(driver: &str) {
    let server = Server::start_with(&["--driver", driver]);
    let (mut load, result) = load(&server);
    let output = profile(&server, &["--seconds", "4", "--hz", "1000", "--collapsed"]);
    good(&output);
    let folded = String::from_utf8(output.stdout).expect("text");
    assert!(load.wait().expect("it ends").success(), "{}", read(&result));
    let result: Value = serde_json::from_str(&read(&result)).expect("a result");
    assert_eq!((&result["good"], &result["sessions"]["arrived"]), (&true.into(), &50.into()), "{result}");
    assert_eq!(result["messages"]["sent"], result["messages"]["received"], "{result}");

    let threads = by_thread(&folded);
    assert!(
        threads.get("shard-0").is_some_and(|n| *n > 20) && threads.contains_key("shard-1"),
        "{threads:?}\n{folded}"
    );
    assert!(threads.contains_key("throng-commit"), "{threads:?}");
    assert!(!threads.contains_key("profile"), "the sampler leaves itself out");
    let shards: Vec<&str> = folded.lines().filter(|line| line.starts_with("shard-")).collect();
    let turn = |line: &str| line.contains("throng::thread::Thread") || line.contains("(src/thread.rs)");
    let rooted = shards.iter().filter(|line| turn(line)).count();
    assert!(rooted * 10 > shards.len() * 8, "{rooted} of {} stacks reach the shard's turn\n{folded}", shards.len());
    assert!(folded.contains("throng_engine::shard"), "{folded}");
}

#[test]
fn signals_break_nothing_and_name_who_works_on_epoll() {
    signals_break_nothing_and_name_who_works("epoll");
}

#[test]
fn signals_break_nothing_and_name_who_works_on_io_uring() {
    let data = tempfile::tempdir().expect("a folder");
    let folder = data.path().to_str().expect("a plain path");
    let none = ["serve", "--data", folder, "--c2s", "192.0.2.1:1", "--c2s-tls", "off", "--driver", "uring"];
    let said = String::from_utf8_lossy(&throng(&none).stderr).into_owned();
    if said.contains("io_uring") {
        println!("not tested: {said}");
        return;
    }
    signals_break_nothing_and_name_who_works("uring");
}

#[test]
fn a_picture_shows_threads_and_one_profile_runs_at_a_time() {
    let server = Server::start_with(&[]);
    let svg = server.data.path().join("cpu.svg");
    let (mut load, _) = load(&server);
    let first = Command::new(THRONG)
        .args(["ctl", "profile", "cpu", "--data", &folder(&server), "--seconds", "3", "--hz", "500", "--out"])
        .arg(&svg)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(1_000));
    let second = profile(&server, &["--seconds", "1", "--json"]);
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(String::from_utf8_lossy(&second.stderr).contains("another profile is under way"), "{second:?}");
    good(&first.wait_with_output().expect("it ends"));
    let picture = read(&svg);
    assert!(picture.starts_with("<?xml") && picture.contains("<svg") && picture.contains("shard-0"), "{picture:.300}");
    assert!(picture.contains("throng_engine::shard"), "it names functions");
    assert!(load.wait().expect("it ends").success());

    // The first is fetched, so there is room for another; an idle server is said to be so.
    let third = profile(&server, &["--seconds", "1", "--json"]);
    good(&third);
    let answer: Value = serde_json::from_slice(&third.stdout).expect("JSON");
    assert!(answer["samples"].as_u64().is_some_and(|n| n < 50) && answer["stacks"].is_array(), "{answer}");
    assert_eq!(profile(&server, &["--seconds", "0"]).status.code(), Some(2));
    assert_eq!(profile(&server, &["--seconds", "301"]).status.code(), Some(2));
}

//! `throng ctl profile` against `throng serve` under load, as processes, on both drivers.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::{Server, THRONG, good, has_uring, read, until};

/// A load that lasts some seconds, and the file of its result.
fn load(server: &Server, further: &[&str]) -> (Child, std::path::PathBuf) {
    let out = server.data.path().join("load.json");
    let flags =
        ["load", "--to", &server.plain, "--sessions", "50", "--pairs", "20", "--hold-s", "12", "--quiet", "--out"];
    let mut load = Command::new(THRONG);
    load.args(flags).arg(&out).args(further).stdin(Stdio::null()).stdout(Stdio::null());
    (load.spawn().expect("throng load starts"), out)
}

/// The same, with logins at any time.
fn coming_and_going(server: &Server) -> (Child, std::path::PathBuf) {
    load(server, &["--short-share", "0.2", "--short-up-s", "1", "--short-away-s", "1"])
}

/// The same with completed logins and messages in flight, so that the server works in each second.
fn flow(server: &Server) -> (Child, std::path::PathBuf) {
    let load = load(server, &[]);
    until("messages flow", || {
        let status: Value = serde_json::from_slice(&server.ctl(&["status", "--json"]).stdout).expect("JSON");
        status["counters"]["messages_in"].as_u64().is_some_and(|messages| messages > 100)
    });
    load
}

fn profile_of(what: &str, server: &Server, further: &[&str]) -> std::process::Output {
    server.ctl(&[&["profile", what], further].concat())
}

fn profile(server: &Server, further: &[&str]) -> std::process::Output {
    profile_of("cpu", server, further)
}

/// Samples per thread, from folded stacks.
fn by_thread(folded: &str) -> BTreeMap<String, u64> {
    let mut threads = BTreeMap::new();
    for line in folded.lines() {
        let (stack, count) = line.rsplit_once(' ').expect("a stack and a count");
        let thread = stack.split(';').next().expect("a thread");
        *threads.entry(thread.to_owned()).or_default() += count.parse::<u64>().expect("a count");
    }
    threads
}

/// A thousand signals per second of CPU time hit every system call of both drivers, of the
/// committer and of the readers. Those that the kernel does not restart (signal(7): `epoll_wait`,
/// waits of io_uring) must behave as if there had been no signal.
fn signals_break_nothing_and_name_who_works(driver: &str) {
    let server = Server::start_with(&["--driver", driver]);
    let (mut load, result) = flow(&server);
    let output = profile(&server, &["--seconds", "8", "--hz", "1000", "--collapsed"]);
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

/// Logins allocate memory that lives as long as they do, and memory that is freed at once.
fn memory_is_told_by_who_asked_for_it(driver: &str) {
    let server = Server::start_with(&["--driver", driver]);
    let (mut load, result) = coming_and_going(&server);
    let output = profile_of("alloc", &server, &["--seconds", "4", "--step-bytes", "4096", "--json"]);
    good(&output);
    assert!(load.wait().expect("it ends").success(), "{}", read(&result));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let stacks = answer["stacks"].as_array().expect("stacks");
    let sum = |of: &str| stacks.iter().map(|stack| stack[of].as_u64().unwrap_or(0)).sum::<u64>();
    let (count, kept) = (sum("count"), sum("kept"));
    assert!(count > 1 << 20 && kept > 0 && kept < count, "{count} and of that {kept}");
    let of_shards = |stack: &&Value| stack["thread"].as_str().is_some_and(|name| name.starts_with("shard-"));
    let shards: Vec<&Value> = stacks.iter().filter(of_shards).collect();
    let text = serde_json::to_string(&shards).expect("JSON");
    assert!(text.contains("throng_engine::shard"), "{text:.2000}");
    assert!(
        !text.contains("sampler::heap") && !text.contains("__rust_alloc"),
        "the allocator's own frames are left out"
    );
    assert!(!stacks.iter().any(|stack| stack["thread"] == "profile"), "the sampler leaves itself out");
}

#[test]
fn memory_is_told_by_who_asked_for_it_on_epoll() {
    memory_is_told_by_who_asked_for_it("epoll");
}

#[test]
fn memory_is_told_by_who_asked_for_it_on_io_uring() {
    if has_uring() {
        memory_is_told_by_who_asked_for_it("uring");
    }
}

#[test]
fn memory_is_drawn_and_a_wrong_step_is_refused() {
    let server = Server::start_with(&[]);
    let svg = server.data.path().join("alloc.svg");
    let (mut load, _) = coming_and_going(&server);
    let out = ["--seconds", "3", "--step-bytes", "8192", "--kept", "--out", svg.to_str().expect("a plain path")];
    good(&profile_of("alloc", &server, &out));
    assert!(load.wait().expect("it ends").success());
    let picture = read(&svg);
    assert!(picture.contains("<svg") && picture.contains("memory kept, by thread"), "{picture:.300}");
    assert!(picture.contains("bytes"), "{picture:.300}");
    for wrong in ["0", "1023", "2000000000"] {
        assert_eq!(profile_of("alloc", &server, &["--step-bytes", wrong]).status.code(), Some(2), "{wrong}");
    }
}

/// Wherever it runs: available events are counted per thread, and unavailable ones are named with a
/// reason.
#[test]
fn what_the_processor_counts_is_told_or_why_it_is_not() {
    let server = Server::start_with(&[]);
    let (mut load, _) = load(&server, &[]);
    let output = profile_of("counters", &server, &["--seconds", "2", "--json"]);
    good(&output);
    assert!(load.wait().expect("it ends").success());
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (threads, missing) = (&answer["threads"], answer["missing"].as_object().expect("reasons"));
    for event in ["task-clock", "context-switches", "page-faults", "cycles", "instructions", "cache-misses", "branches"]
    {
        let counted = threads["shard-0"][event].as_u64();
        match missing.get(event).and_then(Value::as_str) {
            Some(why) => assert!(counted.is_none() && why.len() > 20, "{event}: {why}, {counted:?}"),
            None => assert!(counted.is_some(), "{event}: {answer}"),
        }
    }
    if !missing.contains_key("task-clock") {
        let nanoseconds = threads["shard-0"]["task-clock"].as_u64().expect("counted");
        assert!((1_000_000..2_500_000_000).contains(&nanoseconds), "{nanoseconds}");
    }
    let table = profile_of("counters", &server, &["--seconds", "1"]);
    good(&table);
    assert!(String::from_utf8_lossy(&table.stdout).starts_with("THREAD"), "{table:?}");
    let said = String::from_utf8_lossy(&table.stderr).into_owned();
    assert_eq!(said.contains("not counted: "), !missing.is_empty(), "{said}");
}

#[test]
fn signals_break_nothing_and_name_who_works_on_epoll() {
    signals_break_nothing_and_name_who_works("epoll");
}

#[test]
fn signals_break_nothing_and_name_who_works_on_io_uring() {
    if has_uring() {
        signals_break_nothing_and_name_who_works("uring");
    }
}

#[test]
fn a_picture_shows_threads_and_one_profile_runs_at_a_time() {
    let server = Server::start_with(&[]);
    let svg = server.data.path().join("cpu.svg");
    let (mut load, _) = flow(&server);
    let first = server
        .command(&["ctl", "profile", "cpu", "--seconds", "3", "--hz", "500"])
        .arg("--out")
        .arg(&svg)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    until("the first has begun", || server.task("profile").is_some());
    let second = profile(&server, &["--seconds", "1", "--json"]);
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert!(String::from_utf8_lossy(&second.stderr).contains("another profile is running"), "{second:?}");
    good(&first.wait_with_output().expect("it ends"));
    let picture = read(&svg);
    assert!(picture.starts_with("<?xml") && picture.contains("<svg") && picture.contains("shard-0"), "{picture:.300}");
    assert!(picture.contains("throng_engine::shard"), "it names functions");
    assert!(load.wait().expect("it ends").success());

    // The first result is fetched, so there is room for another; an idle server is reported as
    // idle.
    let third = profile(&server, &["--seconds", "1", "--json"]);
    if third.status.success() {
        let answer: Value = serde_json::from_slice(&third.stdout).expect("JSON");
        assert!(answer["samples"].as_u64().is_some_and(|n| n < 50) && answer["stacks"].is_array(), "{answer}");
    } else {
        assert!(String::from_utf8_lossy(&third.stderr).contains("the server is idle"), "{third:?}");
    }
    assert_eq!(profile(&server, &["--seconds", "0"]).status.code(), Some(2));
    assert_eq!(profile(&server, &["--seconds", "301"]).status.code(), Some(2));
}

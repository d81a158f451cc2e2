//! Planted stalls, in the program itself: a shard that sleeps, a store with slow syncs, a client
//! that stops reading, a lock that is held. Each must be named by the backlog watch in the log and
//! as a mark of the recording, by the dashboard's panel, and by `throng ctl profile wait`
//! (docs/profiles.md, docs/recorder.md, docs/dashboard.md), within 20 seconds on an idle machine.
//!
//! The server plants the stalls in `PLANTED_STALLS`, in builds with debug assertions only.
#![cfg(debug_assertions)]

use std::io::{ErrorKind, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Client, PASSWORD, Server, has_uring};

/// Time limit on a busy machine.
const LONG: Duration = Duration::from_secs(80);

/// Killed when dropped.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with these stalls planted. `None` if this host does not have the driver.
fn planted(driver: &str, stalls: &str) -> Option<Server> {
    let has = driver != "uring" || has_uring();
    let flags = ["--driver", driver, "--admin-http", "127.0.0.1:0"];
    has.then(|| Server::start_planted(tempfile::tempdir().expect("a folder"), stalls, &flags))
}

/// A client whose kernel buffers are small when it does not read.
fn client(server: &Server, user: &str) -> Client {
    server.add(&[user]);
    let mut client = Client::connect_with_little_room(&server.plain).log_in(user, PASSWORD, "r");
    client.ask("<presence/>", "<presence");
    client
}

impl Server {
    /// The response of the operator's HTTP interface.
    fn told(&self, path: &str) -> Value {
        let body = self.get(path);
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// `throng ctl profile wait` over a second.
    fn profile(&self) -> Value {
        let output = self.ctl(&["profile", "wait", "--seconds", "1", "--json"]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

impl Client {
    /// Sends as much as the server accepts at once; false if it accepts nothing now.
    fn send_if_taken(&mut self, xml: &str) -> bool {
        self.socket.set_nonblocking(true).expect("a mode");
        let mut rest = xml.as_bytes();
        let mut begun = false;
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(count) => (rest, begun) = (&rest[count..], true),
                Err(error) if error.kind() == ErrorKind::WouldBlock && !begun => return false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{error}"),
            }
        }
        true
    }
}

/// The places that have to name a stall, and how to recognise it there.
struct Named<'a> {
    /// Words in one line of the log.
    log: &'a [&'a str],
    /// Words in one of the dashboard's sentences.
    panel: &'a [&'a str],
    /// The text of a mark.
    mark: &'a str,
    /// Whether the profile's answer names it.
    profile: &'a dyn Fn(&Value) -> bool,
}

fn has_all(text: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| text.contains(part))
}

/// Waits until all have named it; `meanwhile` is called repeatedly.
fn named(host: &Server, planted: Instant, by: &Named<'_>, mut meanwhile: impl FnMut()) {
    let mut when: [Option<Duration>; 4] = [None; 4];
    let mut last = [Value::Null, Value::Null];
    while when.contains(&None) {
        meanwhile();
        let log = host.log();
        let panel = host.told("/api/now");
        let said = |wrong: &Value| {
            format!("{} {}", wrong["what"].as_str().unwrap_or(""), wrong["text"].as_str().unwrap_or(""))
        };
        let marks = host.told("/api/series?pick=cpu.user");
        let seen = [
            log.lines().any(|line| line.contains("backlog") && has_all(line, by.log)),
            panel["wrong"].as_array().expect("a list").iter().any(|wrong| has_all(&said(wrong), by.panel)),
            marks["marks"].as_array().into_iter().flatten().any(|mark| {
                mark["kind"] == "backlog" && mark["text"].as_str().is_some_and(|text| text.contains(by.mark))
            }),
            when[3].is_some() || {
                last[1] = host.profile();
                (by.profile)(&last[1])
            },
        ];
        last[0] = panel["wrong"].clone();
        for (when, seen) in when.iter_mut().zip(seen) {
            if seen && when.is_none() {
                *when = Some(planted.elapsed());
            }
        }
        assert!(
            planted.elapsed() < LONG,
            "log, panel, mark, profile: {when:?}\npanel: {}\nprofile: {}\nlog: {log}",
            last[0],
            last[1]
        );
    }
    let seconds = when.map(|when| when.map_or(0.0, |when| when.as_secs_f64()));
    println!(
        "{:?}: log {:.1} s, panel {:.1} s, mark {:.1} s, profile {:.1} s",
        by.log, seconds[0], seconds[1], seconds[2], seconds[3]
    );
}

/// Whether one of the profile's sentences about stalls matches.
fn stuck(profile: &Value, what: &str, text: &str) -> bool {
    let said = |stuck: &Value| stuck["what"] == what && stuck["text"].as_str().is_some_and(|said| said.contains(text));
    profile["stuck"].as_array().expect("a list").iter().any(said)
}

fn a_sleeping_shard_is_named(driver: &str) {
    let Some(host) = planted(driver, "sleep-shard=1:100s@3s") else { return };
    let planted = Instant::now() + Duration::from_secs(3);
    std::thread::sleep(Duration::from_secs(3));
    let by = Named {
        log: &["queue=\"turns\"", "owner=shard-1", "sleeps"],
        panel: &[
            "shard 1 has made no progress for",
            "all of its users wait",
            "shard-1 has been at no known place",
            "sleeps",
        ],
        mark: "shard-1 has been at no known place",
        profile: &|profile| stuck(profile, "shard-1", "at no known place"),
    };
    named(&host, planted, &by, || {});
    let healthy = host.told("/api/now");
    let others = healthy["wrong"].as_array().expect("a list").iter().filter(|wrong| wrong["what"] == "shard 0").count();
    assert_eq!(others, 0, "the other one turns: {healthy}");
}

#[test]
fn a_sleeping_shard_is_named_on_epoll() {
    a_sleeping_shard_is_named("epoll");
}

#[test]
fn a_sleeping_shard_is_named_on_io_uring() {
    a_sleeping_shard_is_named("uring");
}

/// Stops a thread as a tracer does, until this is dropped: a process with a traced thread cannot be
/// waited for.
struct Tracer {
    until: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    fn start(tid: i32) -> std::io::Result<Tracer> {
        let (until, ended) = sync_channel::<()>(0);
        let (traced_in, traced) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            traced_in.send(throng_sys::testing::stop_thread(tid)).expect("waited for");
            // When a tracer exits, its traced threads continue.
            let _ = ended.recv();
        });
        traced.recv().expect("an answer")?;
        Ok(Tracer { until: Some(until), thread: Some(thread) })
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        drop(self.until.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends");
        }
    }
}

/// If a shard stalls outside any known place, the kernel shows the reason: here it is traced.
#[test]
fn a_shard_that_a_tracer_has_stopped_is_named_so() {
    let host = planted("epoll", "").expect("epoll is everywhere");
    let task = host.task("shard-0").expect("it runs");
    let tid = task.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
    let _tracer = match Tracer::start(tid) {
        Ok(tracer) => tracer,
        Err(error) => return println!("not tested, nothing may be traced here: {error}"),
    };
    // It is stopped within `network`, where it may spend at most a quarter of a second.
    let by = Named {
        log: &["owner=shard-0", "stopped by a tracer"],
        panel: &["shard 0 has made no progress for", "stopped by a tracer"],
        mark: "stopped by a tracer",
        profile: &|profile| stuck(profile, "shard-0", "stopped by a tracer"),
    };
    named(&host, Instant::now(), &by, || {});
}

#[test]
fn slow_syncs_are_named() {
    let host = planted("auto", "sync-ms=200").expect("there is a driver");
    let mut romeo = client(&host, "romeo");
    host.add(&["juliet"]);
    let planted = Instant::now();
    let by = Named {
        log: &["queue=\"store\"", "owner=throng-commit", "a sync of the journal takes 2"],
        panel: &["disk takes 2", "ms per journal sync"],
        mark: "a sync of the journal takes 2",
        profile: &|profile| {
            let rows = profile["rows"].as_array().expect("a list");
            rows.iter().any(|row| {
                row["thread"] == "throng-commit"
                    && row["place"] == "journal sync"
                    && row["sort"] == "sync"
                    && row["mean_us"].as_f64().is_some_and(|mean| mean >= 200_000.0)
            })
        },
    };
    named(&host, planted, &by, || {
        // Messages to Juliet are archived, and so wait for a sync.
        for _ in 0..10 {
            romeo.send_if_taken("<message type='chat' to='juliet@localhost'><body>hello</body></message>");
            std::thread::sleep(Duration::from_millis(30));
        }
    });
}

/// Sends until nothing more is accepted for Juliet: the kernel buffers some megabytes first.
/// Returns since when.
fn fill(host: &Server, romeo: &mut Client, message: &str) -> Instant {
    let end = Instant::now() + LONG;
    let (mut before, mut since, mut looks) = (None, Instant::now(), 0);
    while looks < 3 {
        (0..50).for_each(|_| _ = romeo.send_if_taken(message));
        std::thread::sleep(Duration::from_millis(200));
        let output = host.ctl(&["sessions", "juliet@localhost", "--json"]);
        let row: Value = serde_json::from_slice(&output.stdout).expect("one session");
        let waits = row["outbound_bytes"].as_u64().filter(|bytes| *bytes > 64 << 10);
        match waits.is_some() && waits == before {
            true => looks += 1,
            false => (looks, since) = (0, Instant::now()),
        }
        before = waits;
        assert!(Instant::now() < end, "all is taken: {row}");
    }
    since
}

fn a_client_that_does_not_read_is_named(driver: &str) {
    let Some(host) = planted(driver, "") else { return };
    let (mut romeo, juliet) = (client(&host, "romeo"), client(&host, "juliet"));
    let message = format!("<message type='chat' to='juliet@localhost'><body>{}</body></message>", "x".repeat(8_000));
    let planted = fill(&host, &mut romeo, &message);
    let peer = juliet.address();
    let by = Named {
        log: &["queue=\"connection\"", "owner=juliet@localhost/r", &peer, "drained_10_s=never", "has read nothing for"],
        panel: &["juliet@localhost/r does not read", "KiB wait for it", &peer],
        mark: "connection of juliet@localhost/r",
        // No thread of the server waits for it: the shards are idle.
        profile: &|profile| {
            let rows = profile["rows"].as_array().expect("a list");
            let rests = |row: &Value| row["thread"] == "shard-0" && row["place"] == "network" && row["sort"] == "rest";
            rows.iter().any(rests) && stuck(profile, "juliet@localhost/r", "does not read")
        },
    };
    named(&host, planted, &by, || {});
    let log = host.log();
    let waiting =
        |line: &str| has_all(line, &["backlog", "queue=\"waiting\"", "owner=juliet@localhost ", "unit=\"messages\""]);
    romeo.send_if_taken(&message);
    assert!(log.lines().any(waiting), "what she does not take waits in her log: {log}");
}

#[test]
fn a_client_that_does_not_read_is_named_on_epoll() {
    a_client_that_does_not_read_is_named("epoll");
}

#[test]
fn a_client_that_does_not_read_is_named_on_io_uring() {
    a_client_that_does_not_read_is_named("uring");
}

#[test]
fn a_lock_that_is_held_is_named_with_its_holder_and_who_waits() {
    let host = planted("auto", "hold-lock=knobs:100s@3s").expect("there is a driver");
    let planted = Instant::now() + Duration::from_secs(3);
    std::thread::sleep(Duration::from_millis(3_500));
    // One of the control socket's own threads waits for it: the others answer all the same.
    let mut set = host.command(&["ctl", "knob", "set", "log_level", "debug"]);
    let set = set.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _waits = Kill(set.expect("throng runs"));
    let by = Named {
        log: &["queue=\"lock knobs\"", "owner=plant", "unit=\"threads\"", "; waiting for up to "],
        panel: &["lock knobs has been held by `plant` for", "`admin`"],
        mark: "lock knobs has been held by `plant`",
        profile: &|profile| {
            stuck(profile, "lock knobs", "has been held by `plant`")
                && stuck(profile, "admin", "`lock knobs` is held by `plant`")
        },
    };
    named(&host, planted, &by, || {});
    let listed = host.ctl(&["knob", "list"]);
    assert!(listed.status.success(), "who only looks waits for nobody: {listed:?}");
}

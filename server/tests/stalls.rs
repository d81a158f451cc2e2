//! Stalls planted by hand, on the program itself: a shard that sleeps, a store with slow syncs, a client that stops reading, a lock
//! that is held. Each is to be named by the backlog watch in the log and as a mark of the recording, by the dashboard's panel, and by
//! `throng ctl profile wait` (docs/profiles.md, docs/recorder.md, docs/dashboard.md), within 20 seconds on a machine that is not busy.
//!
//! The server plants what `PLANTED_STALLS` says, which only builds with debug assertions know.
#![cfg(debug_assertions)]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::Value;

const THRONG: &str = env!("CARGO_BIN_EXE_throng");
const PASSWORD: &str = "pencil";
/// As long as it may take on a machine that has other things to do.
const LONG: Duration = Duration::from_secs(80);

/// Ended when dropped.
struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        // Not for ever: a process with a thread that somebody traces does not end.
        let end = Instant::now() + LONG;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A server with what is planted.
struct Host {
    // The process first, then its folder.
    child: Kill,
    plain: SocketAddr,
    http: SocketAddr,
    folder: tempfile::TempDir,
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

impl Host {
    /// None if this host has not the driver.
    fn start(driver: &str, plant: &str) -> Option<Host> {
        let folder = tempfile::tempdir().expect("a folder");
        for user in ["romeo", "juliet"] {
            let added = Command::new(THRONG)
                .args(["user", "add", user, "--password", PASSWORD, "--data"])
                .arg(folder.path())
                .output()
                .expect("throng runs");
            assert!(added.status.success(), "{added:?}");
        }
        let out = folder.path().join("out");
        let log = std::fs::File::create(&out).expect("a file");
        let child = Command::new(THRONG)
            .args(["serve", "--c2s", "127.0.0.1:0", "--c2s-tls", "off", "--plain-auth", "--shards", "2"])
            .args(["--admin-http", "127.0.0.1:0", "--driver", driver, "--data"])
            .arg(folder.path())
            .env("PLANTED_STALLS", plant)
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("throng starts");
        let mut child = Kill(child);
        let end = Instant::now() + LONG;
        loop {
            let said = read(&out);
            let address = |of: &str| {
                let line = said.lines().find(|line| line.contains(of))?;
                line.split(|c: char| c.is_whitespace() || c == '=').find_map(|word| word.parse().ok())
            };
            if let (true, Some(plain), Some(http)) =
                (said.contains("Next:"), address("STARTTLS"), address("operator's HTTP is served"))
            {
                return Some(Host { child, plain, http, folder });
            }
            if child.0.try_wait().expect("a child").is_some() && driver == "uring" && said.contains("io_uring") {
                println!("not tested: {said}");
                return None;
            }
            assert!(Instant::now() < end, "throng did not start: {said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ctl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(THRONG);
        command.arg("ctl").args(arguments).arg("--data").arg(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// What the operator's HTTP answers.
    fn get(&self, path: &str) -> Value {
        let mut stream = TcpStream::connect(self.http).expect("a connection");
        stream.set_read_timeout(Some(LONG)).expect("a time-out");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// `throng ctl profile wait` over a second.
    fn profile(&self) -> Value {
        let output = self.ctl(&["profile", "wait", "--seconds", "1", "--json"]).output().expect("throng runs");
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

/// A client, bound, of which little is kept when it does not read.
struct Client {
    stream: TcpStream,
    said: String,
}

impl Client {
    fn bound(host: &Host, user: &str) -> Client {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        socket.set_recv_buffer_size(4_096).expect("a size");
        socket.connect(&host.plain.into()).expect("a connection");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LONG)).expect("a time-out");
        let mut client = Client { stream, said: String::new() };
        let header = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams'>";
        let plain = base64::engine::general_purpose::STANDARD.encode(format!("\0{user}\0{PASSWORD}"));
        client.ask(header, "</stream:features>");
        let auth = format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>");
        client.ask(&auth, "<success");
        client.ask(header, "</stream:features>");
        let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
                    <resource>r</resource></bind></iq>";
        client.ask(bind, "</iq>");
        client.ask("<presence/>", "<presence");
        client
    }

    fn ask(&mut self, xml: &str, until: &str) {
        self.stream.write_all(xml.as_bytes()).expect("sent");
        let mut buffer = [0; 4096];
        while !self.said.contains(until) {
            let count = self.stream.read(&mut buffer).unwrap_or_else(|error| panic!("{error}; said: {}", self.said));
            assert!(count > 0, "the connection ended before {until}: {}", self.said);
            self.said += &String::from_utf8_lossy(&buffer[..count]);
        }
        self.said.clear();
    }

    /// Sends as much as the server takes at once; false if it takes nothing now.
    fn send_if_taken(&mut self, xml: &str) -> bool {
        self.stream.set_nonblocking(true).expect("a mode");
        let mut rest = xml.as_bytes();
        let mut begun = false;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(count) => (rest, begun) = (&rest[count..], true),
                Err(error) if error.kind() == ErrorKind::WouldBlock && !begun => return false,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{error}"),
            }
        }
        true
    }
}

/// Who has to name a stall, and how it is seen that it does.
struct Named<'a> {
    /// In a line of the log.
    log: &'a [&'a str],
    /// In one of the dashboard's sentences.
    panel: &'a [&'a str],
    /// In the text of a mark.
    mark: &'a str,
    /// The profile's answer says it.
    profile: &'a dyn Fn(&Value) -> bool,
}

fn has_all(text: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| text.contains(part))
}

/// Waits until all have named it; `meanwhile` is called again and again.
fn named(host: &Host, planted: Instant, by: &Named<'_>, mut meanwhile: impl FnMut()) {
    let mut when: [Option<Duration>; 4] = [None; 4];
    let mut last = [Value::Null, Value::Null];
    while when.contains(&None) {
        meanwhile();
        let log = read(&host.folder.path().join("out"));
        let panel = host.get("/api/now");
        let said = |wrong: &Value| {
            format!("{} {}", wrong["what"].as_str().unwrap_or(""), wrong["text"].as_str().unwrap_or(""))
        };
        let marks = host.get("/api/series?pick=cpu.user");
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

/// One of the profile's sentences about what stands still.
fn stuck(profile: &Value, what: &str, text: &str) -> bool {
    let said = |stuck: &Value| stuck["what"] == what && stuck["text"].as_str().is_some_and(|said| said.contains(text));
    profile["stuck"].as_array().expect("a list").iter().any(said)
}

fn a_sleeping_shard_is_named(driver: &str) {
    let Some(host) = Host::start(driver, "sleep-shard=1:100s@3s") else { return };
    let planted = Instant::now() + Duration::from_secs(3);
    std::thread::sleep(Duration::from_secs(3));
    let by = Named {
        log: &["queue=\"turns\"", "owner=shard-1", "sleeps"],
        panel: &["shard 1 has not turned for", "all of its users wait", "shard-1 has been at no known place", "sleeps"],
        mark: "shard-1 has been at no known place",
        profile: &|profile| stuck(profile, "shard-1", "at no known place"),
    };
    named(&host, planted, &by, || {});
    let healthy = host.get("/api/now");
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

/// Has a thread stopped, as a tracer has, until this is dropped: a process with a traced thread cannot be waited for.
struct Tracer {
    until: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tracer {
    fn start(tid: libc::pid_t) -> std::io::Result<Tracer> {
        let (until, ended) = sync_channel::<()>(0);
        let (traced_in, traced) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            let done = [libc::PTRACE_SEIZE, libc::PTRACE_INTERRUPT].into_iter().all(|request| {
                // SAFETY: neither request reads or writes memory of this process.
                unsafe { libc::ptrace(request, tid, 0, 0) == 0 }
            });
            let result = if done { Ok(()) } else { Err(std::io::Error::last_os_error()) };
            traced_in.send(result).expect("waited for");
            // The end of a tracer lets go of all that it traces.
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

/// Of a shard that stands outside of any place the kernel says why: here somebody traces it.
#[test]
fn a_shard_that_a_tracer_has_stopped_is_named_so() {
    let host = Host::start("epoll", "").expect("epoll is everywhere");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", host.child.0.id())).expect("threads");
    let mut tasks = tasks.map(|task| task.expect("a thread").path());
    let task = tasks.find(|task| read(&task.join("comm")).trim() == "shard-0").expect("it runs");
    let tid = task.file_name().and_then(|name| name.to_str()?.parse().ok()).expect("a number");
    let _tracer = match Tracer::start(tid) {
        Ok(tracer) => tracer,
        Err(error) => return println!("not tested, nothing may be traced here: {error}"),
    };
    // It is stopped within `network`, where it is to be for a quarter of a second at most.
    let by = Named {
        log: &["owner=shard-0", "stopped by a tracer"],
        panel: &["shard 0 has not turned for", "stopped by a tracer"],
        mark: "stopped by a tracer",
        profile: &|profile| stuck(profile, "shard-0", "stopped by a tracer"),
    };
    named(&host, Instant::now(), &by, || {});
}

#[test]
fn slow_syncs_are_named() {
    let host = Host::start("auto", "sync-ms=200").expect("there is a driver");
    let mut romeo = Client::bound(&host, "romeo");
    let planted = Instant::now();
    let by = Named {
        log: &["queue=\"store\"", "owner=throng-commit", "a sync of the journal takes 2"],
        panel: &["disk takes 2", "ms for a sync of the journal"],
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
        // What juliet gets is archived, and so waits for a sync.
        for _ in 0..10 {
            romeo.send_if_taken("<message type='chat' to='juliet@localhost'><body>hello</body></message>");
            std::thread::sleep(Duration::from_millis(30));
        }
    });
}

/// Sends until nothing more is taken for juliet: the kernel takes some megabytes first. Since when that is so.
fn fill(host: &Host, romeo: &mut Client, message: &str) -> Instant {
    let end = Instant::now() + LONG;
    let (mut before, mut since, mut looks) = (None, Instant::now(), 0);
    while looks < 3 {
        (0..50).for_each(|_| _ = romeo.send_if_taken(message));
        std::thread::sleep(Duration::from_millis(200));
        let output = host.ctl(&["sessions", "juliet@localhost", "--json"]).output().expect("throng runs");
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
    let Some(host) = Host::start(driver, "") else { return };
    let (mut romeo, juliet) = (Client::bound(&host, "romeo"), Client::bound(&host, "juliet"));
    let message = format!("<message type='chat' to='juliet@localhost'><body>{}</body></message>", "x".repeat(8_000));
    let planted = fill(&host, &mut romeo, &message);
    let peer = juliet.stream.local_addr().expect("an address").to_string();
    let by = Named {
        log: &[
            "queue=\"connection\"",
            "owner=juliet@localhost/r",
            &peer,
            "drained_10_s=never",
            "has taken nothing for",
        ],
        panel: &["juliet@localhost/r does not read", "KiB wait for it", &peer],
        mark: "connection of juliet@localhost/r",
        // No thread of the server waits for it: the shards rest.
        profile: &|profile| {
            let rows = profile["rows"].as_array().expect("a list");
            let rests = |row: &Value| row["thread"] == "shard-0" && row["place"] == "network" && row["sort"] == "rest";
            rows.iter().any(rests) && stuck(profile, "juliet@localhost/r", "does not read")
        },
    };
    named(&host, planted, &by, || {});
    let log = read(&host.folder.path().join("out"));
    let mailbox =
        |line: &str| has_all(line, &["backlog", "queue=\"mailbox\"", "owner=juliet@localhost ", "unit=\"messages\""]);
    romeo.send_if_taken(&message);
    assert!(log.lines().any(mailbox), "what she does not take waits in her mailbox: {log}");
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
    let host = Host::start("auto", "hold-lock=knobs:100s@3s").expect("there is a driver");
    let planted = Instant::now() + Duration::from_secs(3);
    std::thread::sleep(Duration::from_millis(3_500));
    // One of the control socket's own threads waits for it: others answer nevertheless.
    let set = host.ctl(&["knob", "set", "log_level", "debug"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _waits = Kill(set.expect("throng runs"));
    let by = Named {
        log: &["queue=\"lock knobs\"", "owner=plant", "unit=\"threads\"", "it has kept waiting: "],
        panel: &["lock knobs has been held by `plant` for", "`admin`"],
        mark: "lock knobs has been held by `plant`",
        profile: &|profile| {
            stuck(profile, "lock knobs", "has been held by `plant`")
                && stuck(profile, "admin", "`lock knobs` is held by `plant`")
        },
    };
    named(&host, planted, &by, || {});
    let listed = host.ctl(&["knob", "list"]).output().expect("throng runs");
    assert!(listed.status.success(), "who only looks waits for nobody: {listed:?}");
}

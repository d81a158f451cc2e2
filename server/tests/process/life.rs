//! How a server's process ends, and what does not end it: panics in each kind of its threads, stops
//! during a storm of connections, with a full disk and with a hanging shard, and logs that nobody
//! reads.
//!
//! Faults are planted with `PLANTED_STALLS` (`throng::plant`), in builds with debug assertions
//! only.
#![cfg(debug_assertions)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{Client, PASSWORD, THRONG, has_uring, read, until};

/// Limit of the wait for an exit on a busy machine; exits that must not happen do not happen within
/// it.
const WAIT: Duration = Duration::from_secs(60);

/// Time limits of a stop that is to be cut short.
const HASTE: [&str; 4] = ["--shutdown-grace-seconds", "1", "--shutdown-hard-seconds", "2"];
/// Time limits of a stop that is not.
const GRACE: [&str; 4] = ["--shutdown-grace-seconds", "4", "--shutdown-hard-seconds", "50"];

/// A server's process and its folder. Killed when dropped.
struct Life {
    child: Child,
    data: tempfile::TempDir,
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The drivers available on this machine.
fn drivers() -> Vec<&'static str> {
    if has_uring() { vec!["uring", "epoll"] } else { vec!["epoll"] }
}

fn serve(data: &Path, driver: &str, planted: &str, flags: &[&str]) -> Command {
    let mut command = Command::new(THRONG);
    command.args(["serve", "--data"]).arg(data.join("data")).args(["--c2s", "127.0.0.1:0", "--c2s-tls", "off"]);
    command.args(["--plain-auth", "--shards", "2", "--driver", driver, "--admin-http", "127.0.0.1:0"]).args(flags);
    command.envs((!planted.is_empty()).then_some(("PLANTED_STALLS", planted))).stdin(Stdio::null());
    command
}

impl Life {
    /// Does not wait until it serves.
    fn begin(data: tempfile::TempDir, driver: &str, planted: &str, flags: &[&str]) -> Life {
        let log = std::fs::File::create(data.path().join("out")).expect("a file");
        let mut command = serve(data.path(), driver, planted, flags);
        let child = command.stdout(log.try_clone().expect("a file")).stderr(log).spawn().expect("throng starts");
        Life { child, data }
    }

    /// Waits until it serves.
    fn start(driver: &str, planted: &str, flags: &[&str]) -> Life {
        Life::start_in(tempfile::tempdir().expect("a folder"), driver, planted, flags)
    }

    fn start_in(data: tempfile::TempDir, driver: &str, planted: &str, flags: &[&str]) -> Life {
        let mut life = Life::begin(data, driver, planted, flags);
        life.serves();
        life
    }

    fn serves(&mut self) {
        until("a server that serves", || {
            assert!(matches!(self.child.try_wait(), Ok(None)), "it does not start: {}", self.log());
            self.log().contains("Next:")
        });
    }

    fn log(&self) -> String {
        read(&self.data.path().join("out"))
    }

    fn last_line(&self) -> String {
        self.log().lines().last().unwrap_or_default().to_owned()
    }

    /// The address for clients.
    fn address(&self) -> String {
        let log = self.log();
        let line = log.lines().find(|line| line.ends_with("STARTTLS")).unwrap_or_else(|| panic!("no address in {log}"));
        line.split_whitespace().next().expect("an address").to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(THRONG);
        command.args(arguments).arg("--data").arg(self.data.path().join("data")).stdin(Stdio::null());
        command.output().expect("throng runs")
    }

    fn add(&self, user: &str) {
        let output = self.command(&["user", "add", user, "--password", PASSWORD]);
        assert!(output.status.success(), "{output:?}");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// The exit code, once it has exited.
    fn end(&mut self) -> i32 {
        let mut code = None;
        until("the server's end", || {
            code = self.child.try_wait().expect("a child").map(|status| status.code());
            code.is_some()
        });
        let code = code.flatten();
        code.unwrap_or_else(|| panic!("it ended by a signal: {}", self.log()))
    }

    /// The whole response of the operator's HTTP interface, including its head.
    fn get(&self, path: &str) -> String {
        let log = self.log();
        let line = log.lines().find(|line| line.contains("the operator's HTTP is served")).expect("an address");
        let address = line.split("address=").nth(1).expect("an address").trim();
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(WAIT)).expect("a time-out");
        let token = std::fs::read_to_string(self.data.path().join("data/http.token")).expect("a token");
        let head = format!("Host: localhost\r\nAuthorization: Bearer {}\r\nConnection: close", token.trim());
        write!(stream, "GET {path} HTTP/1.1\r\n{head}\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    fn is_alive(&mut self) {
        assert!(matches!(self.child.try_wait(), Ok(None)), "it has ended: {}", self.log());
        let output = self.command(&["ctl", "status"]);
        assert!(output.status.success(), "{output:?}");
    }
}

/// Starts a login that needs a key derivation.
fn log_in(life: &Life) {
    let mut client = Client::connect(&life.address());
    client.ask(
        "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
        "</stream:features>",
    );
    // "\0romeo\0pencil"
    client.send("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AHJvbWVvAHBlbmNpbA==</auth>");
}

fn add_account(life: &Life) {
    life.command(&["user", "add", "romeo", "--password", PASSWORD]);
}

/// Makes a thread reach the place where it is to panic.
type Provoke = fn(&Life);

/// A panic in a thread on which others depend ends the process, with a last message that names
/// thread and place, and with the corresponding exit code.
#[test]
fn a_panic_in_a_thread_that_others_rest_on_ends_the_process() {
    let nothing: Provoke = |_| {};
    let ctl: Provoke = |life| drop(life.command(&["ctl", "status"]));
    let hang_up: Provoke = |life| life.signal("-HUP");
    let kinds: [(&str, &str, Provoke); 13] = [
        ("shard-1", "shard-1", nothing),
        ("throng-commit", "throng-commit", add_account),
        ("throng-read", "throng-read-", add_account),
        ("throng-job", "throng-job", log_in),
        ("throng-flush", "throng-flush", nothing),
        ("throng-merge", "throng-merge", nothing),
        ("throng-free", "throng-free", nothing),
        ("http", "http", nothing),
        ("retention", "retention", nothing),
        ("admin", "admin", ctl),
        ("signals", "signals", hang_up),
        ("main", "main", hang_up),
        ("log", "log", hang_up),
    ];
    for driver in drivers() {
        // All at once: most of the time is spent waiting.
        let begun = kinds.map(|(place, thread, provoke)| {
            // The table's threads reach the place only when they start.
            let at_once = ["throng-flush", "throng-merge", "throng-free"].contains(&place);
            let planted = format!("panic={place}@{}s", if at_once { 0 } else { 2 });
            (
                Life::begin(tempfile::tempdir().expect("a folder"), driver, &planted, &[]),
                place,
                thread,
                provoke,
                at_once,
            )
        });
        for (mut life, place, thread, provoke, at_once) in begun {
            if !at_once {
                until("a server that serves, or has ended", || {
                    life.log().contains("Next:") || !matches!(life.child.try_wait(), Ok(None))
                });
                std::thread::sleep(Duration::from_secs(2));
                if place == "throng-job" {
                    life.add("romeo");
                }
                provoke(&life);
            }
            assert_eq!(life.end(), 70, "{driver}, {place}: {}", life.log());
            let log = life.log();
            // Other threads may still log something while the process exits.
            let last = log.lines().find(|line| line.contains("code 70")).unwrap_or_default();
            let said = [
                format!("the thread {thread}"),
                format!("planted in {place}"),
                "panicked at server".into(),
                "code 70".into(),
            ];
            assert!(said.iter().all(|said| last.contains(said)), "{driver}, {place}: {log}");
        }
    }
}

/// A panic that affects one request, or only an observer, is logged and survived.
#[test]
fn a_panic_that_concerns_one_asker_ends_only_that() {
    for (place, fails) in [
        (
            "recorder",
            (|life: &Life| {
                until("/ready tells of it", || life.get("/ready").contains("the activity recorder has failed"));
                life.get("/metrics").contains("throng_recorder_failed 1")
            }) as fn(&Life) -> bool,
        ),
        ("watch", |_| true),
        ("http request", |life| life.get("/health").starts_with("HTTP/1.1 500")),
        ("http work", |life| life.get("/api/schema").contains("see the log")),
        ("admin request", |life| {
            let output = life.command(&["ctl", "status"]);
            !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("the request has failed")
        }),
        ("backup", |life| {
            let to = life.data.path().join("backup");
            !life.command(&["store", "backup", to.to_str().expect("a path")]).status.success()
        }),
        ("profile", |life| !life.command(&["ctl", "profile", "wait", "--seconds", "1"]).status.success()),
    ] {
        let mut life = Life::start("epoll", &format!("panic={place}@0s"), &[]);
        assert!(fails(&life), "{place}: {}", life.log());
        until("a word in the log", || life.log().contains(&format!("planted in {place}")));
        life.is_alive();
        assert!(!fails(&life) || ["recorder", "watch"].contains(&place), "{place}: the next one is served");
        life.signal("-TERM");
        assert_eq!(life.end(), 0, "{place}: {}", life.log());
    }
}

#[test]
fn a_shard_whose_network_fails_ends_the_process() {
    for driver in drivers() {
        let mut life = Life::begin(tempfile::tempdir().expect("a folder"), driver, "fail-driver=1@1s", &[]);
        assert_eq!(life.end(), 70, "{}", life.log());
        assert!(life.last_line().contains("the network of shard-1 has failed: planted"), "{}", life.log());
    }
}

/// Clients that reconnect repeatedly, some as soon as their connection ends, some without closing
/// it, until dropped.
struct Storm {
    over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Storm {
    fn of(address: &str, clients: usize) -> Storm {
        let over = Arc::new(AtomicBool::new(false));
        let come_again = |number: usize, over: Arc<AtomicBool>, address: String| {
            let mut kept = std::collections::VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
                let Ok(mut stream) = TcpStream::connect(&address) else { continue };
                let _ = stream.write_all(b"<stream:stream to='localhost' version='1.0' ");
                if number.is_multiple_of(2) {
                    kept.push_back(stream);
                    kept.drain(..kept.len().saturating_sub(40));
                    std::thread::sleep(Duration::from_millis(100));
                } else {
                    std::thread::sleep(Duration::from_millis(20));
                    drop(stream);
                }
            }
        };
        let thread = |number| {
            let (over, address) = (over.clone(), address.to_owned());
            std::thread::spawn(move || come_again(number, over, address))
        };
        let threads = (0..clients).map(thread).collect();
        Storm { over, threads }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Romeo sends messages to Juliet, who is absent, and requests an acknowledgement after each
/// (XEP-0198 4) until the stream ends; returns how many were confirmed.
fn talk(address: &str, sent: Arc<AtomicBool>) -> usize {
    let mut romeo = Client::connect(address).log_in("romeo", PASSWORD, "r");
    romeo.ask("<enable xmlns='urn:xmpp:sm:3'/>", "<enabled");
    let mut heard = String::new();
    for n in 0..100_000 {
        let message = format!("<message to='juliet@localhost' type='chat' id='m{n}'><body>{n}</body></message>");
        let asked = romeo.socket.write_all(format!("{message}<r xmlns='urn:xmpp:sm:3'/>").as_bytes());
        let mut buffer = [0; 4_096];
        match asked.and_then(|()| romeo.socket.read(&mut buffer)) {
            Ok(count @ 1..) => heard += &String::from_utf8_lossy(&buffer[..count]),
            Ok(0) | Err(_) => break,
        }
        if heard.contains("</stream:stream>") {
            break;
        }
        sent.store(n >= 20, Ordering::Relaxed);
    }
    let counts = heard.split("h='").skip(1).filter_map(|rest| rest.split('\'').next()?.parse::<usize>().ok());
    counts.max().unwrap_or(0)
}

/// A stop completes while clients reconnect as fast as they can, and everything confirmed before is
/// there afterwards.
#[test]
fn a_stop_under_a_storm_of_connections_is_graceful_and_loses_nothing_confirmed() {
    for driver in drivers() {
        let mut life = Life::start(driver, "", &GRACE);
        ["romeo", "juliet"].iter().for_each(|user| life.add(user));
        let address = life.address();
        let storm = Storm::of(&address, 16);
        let sent = Arc::new(AtomicBool::new(false));
        let talking = std::thread::spawn({
            let (address, sent) = (address.clone(), sent.clone());
            move || talk(&address, sent)
        });
        until("some messages", || sent.load(Ordering::Relaxed));
        life.signal("-TERM");
        assert_eq!(life.end(), 0, "{driver}: {}", life.log());
        assert!(life.last_line().contains("stopped: "), "{}", life.log());
        drop(storm);
        let confirmed = talking.join().expect("romeo");
        assert!(confirmed > 10, "{confirmed}");

        let data = std::mem::replace(&mut life.data, tempfile::tempdir().expect("a folder"));
        drop(life);
        let life = Life::start_in(data, driver, "", &[]);
        let mut juliet = Client::connect(&life.address()).log_in("juliet", PASSWORD, "r");
        juliet.send("<presence/>");
        // The last confirmed message has arrived; Romeo sent one at a time.
        juliet.hear(&format!("<body>{}</body>", confirmed - 1));
    }
}

/// A peer that opens a socket now and then does not delay a stop.
#[test]
fn a_listener_is_closed_when_the_stop_begins() {
    for driver in drivers() {
        // The disk delays the stop.
        let mut life =
            Life::start(driver, "stop-disk=6s@2s", &["--shutdown-grace-seconds", "1", "--shutdown-hard-seconds", "60"]);
        std::thread::sleep(Duration::from_secs(2));
        let address = life.address();
        let mut add = Command::new(THRONG);
        add.args(["user", "add", "romeo", "--password", PASSWORD, "--data"]).arg(life.data.path().join("data"));
        let mut add = add.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("throng runs");
        std::thread::sleep(Duration::from_millis(500));
        life.signal("-TERM");
        until("a closed listener", || TcpStream::connect(&address).is_err());
        assert_eq!(life.end(), 0, "{}", life.log());
        let _ = add.wait();
    }
}

/// On a full disk a stop waits for at most its time limit, and reports that: by its code and its
/// last line.
#[test]
fn a_stop_on_a_full_disk_is_cut_off_in_time() {
    for driver in drivers() {
        let mut life = Life::start(driver, "full-disk=600s@4s", &HASTE);
        life.add("romeo");
        life.add("juliet");
        let mut romeo = Client::connect(&life.address()).log_in("romeo", PASSWORD, "r");
        std::thread::sleep(Duration::from_secs(4));
        romeo.send("<message to='juliet@localhost' type='chat'><body>of which nobody was told</body></message>");
        until("a full disk", || life.log().contains("the disk is full"));
        let began = Instant::now();
        life.signal("-TERM");
        assert_eq!(life.end(), 7, "{driver}: {}", life.log());
        assert!(
            life.last_line().contains("shutdown timed out after 3 s")
                && life.last_line().contains("the disk has not taken"),
            "{}",
            life.log()
        );
        assert!(began.elapsed() >= Duration::from_secs(3));
        // Everything acknowledged is there.
        let users = life.command(&["user", "list"]);
        assert!(String::from_utf8_lossy(&users.stdout).contains("romeo"), "{users:?}");
    }
}

/// A hanging shard delays the others for at most the time limit, and is named.
#[test]
fn a_stop_with_a_shard_that_hangs_is_cut_off_in_time() {
    for driver in drivers() {
        let mut life = Life::start(driver, "sleep-shard=1:600s@1s", &HASTE);
        std::thread::sleep(Duration::from_secs(2));
        life.signal("-TERM");
        assert_eq!(life.end(), 7, "{driver}: {}", life.log());
        assert!(life.last_line().contains("shards that do not respond: 1"), "{}", life.log());
    }
}

/// A second signal ends the process at once, and not with the code of a graceful stop.
#[test]
fn a_second_signal_ends_it_at_once() {
    let mut life = Life::start("epoll", "sleep-shard=1:600s@1s", &["--shutdown-grace-seconds", "600"]);
    std::thread::sleep(Duration::from_secs(2));
    life.signal("-TERM");
    until("the stop", || life.log().contains("stopping"));
    life.signal("-INT");
    assert_eq!(life.end(), 7);
    assert!(life.last_line().contains("second signal"), "{}", life.log());
}

/// A stop is processed behind any number of other requests, also when one of them blocks the
/// serving thread.
#[test]
fn a_stop_is_heard_behind_many_other_wishes() {
    let mut life = Life::start("epoll", "hold-lock=turning:5s@1s", &GRACE);
    std::thread::sleep(Duration::from_millis(1_500));
    for _ in 0..40 {
        life.signal("-HUP");
        std::thread::sleep(Duration::from_millis(10));
    }
    life.signal("-TERM");
    assert_eq!(life.end(), 0, "{}", life.log());
}

/// A pipe that is full until somebody reads.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::NONBLOCK).expect("a mode");
    while writer.write(&[b'\n'; 4_096]).is_ok() {}
    while writer.write(b"\n").is_ok() {}
    rustix::fs::fcntl_setfl(&writer, rustix::fs::OFlags::empty()).expect("a mode");
    (reader, writer)
}

/// A log that nobody reads blocks nothing, and a panic after it still ends the process.
#[test]
fn a_log_that_nobody_reads_holds_nobody_up() {
    for (planted, code) in [("", 0), ("panic=shard-0@4s", 70)] {
        let data = tempfile::tempdir().expect("a folder");
        let (unread, log) = full_pipe();
        let mut command = serve(data.path(), "epoll", planted, &GRACE);
        let child = command.stdout(log.try_clone().expect("a pipe")).stderr(log).spawn().expect("throng starts");
        drop(command);
        let mut life = Life { child, data };
        until("a server", || life.command(&["ctl", "status"]).status.success());
        if code == 0 {
            life.signal("-HUP");
            assert!(life.command(&["ctl", "knob", "set", "log_level", "debug"]).status.success());
            life.signal("-TERM");
        }
        assert_eq!(life.end(), code);
        drop(unread);
    }
}

/// Neither a full disk under its log nor a closed reader ends a server.
#[test]
fn standard_streams_that_fail_end_nobody() {
    for closed in [false, true] {
        let data = tempfile::tempdir().expect("a folder");
        let mut command = serve(data.path(), "epoll", "", &GRACE);
        if closed {
            let (reader, pipe) = std::io::pipe().expect("a pipe");
            drop(reader);
            command.stdout(pipe.try_clone().expect("a pipe")).stderr(pipe);
        } else {
            let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
            command.stdout(full()).stderr(full());
        }
        let child = command.spawn().expect("throng starts");
        let mut life = Life { child, data };
        until("a server", || life.command(&["ctl", "status"]).status.success());
        std::thread::sleep(Duration::from_millis(500));
        life.is_alive();
        life.signal("-TERM");
        assert_eq!(life.end(), 0);
    }
}

/// A client that has opened its stream and not authenticated.
fn stranger(life: &Life) -> Client {
    let mut client = Client::connect(&life.address());
    client.ask(
        "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
        "</stream:features>",
    );
    client
}

/// While the disk stalls, nothing is promised as durable, and everything that is no promise still
/// gets through: operators, refused logins, TLS, stream errors and closes (ARCHITECTURE.md, "Order
/// of effects").
#[test]
fn a_disk_that_stands_still_silences_nobody() {
    for driver in drivers() {
        let life = Life::start(driver, "stop-disk=600s@10s", &["--open-registration", "--scram-iterations", "4096"]);
        ["romeo", "juliet", "tybalt"].iter().for_each(|user| life.add(user));
        let log_in = |user: &str| Client::connect(&life.address()).log_in(user, PASSWORD, "r");
        let (mut romeo, mut juliet) = (log_in("romeo"), log_in("juliet"));
        juliet.ask("<enable xmlns='urn:xmpp:sm:3'/>", "<enabled");
        std::thread::sleep(Duration::from_secs(10));
        // Both shards have writes that are not durable.
        for user in 0..16 {
            juliet.send(&format!("<message to='u{user}@localhost' type='chat'><body>hi</body></message>"));
        }
        juliet.send("<message to='tybalt@localhost' type='chat'><body>hi</body></message><r xmlns='urn:xmpp:sm:3'/>");
        std::thread::sleep(Duration::from_millis(500));

        for asked in
            [&["ctl", "status"][..], &["ctl", "sessions"], &["ctl", "knob", "set", "idle_timeout_seconds", "600"]]
        {
            let output = life.command(asked);
            assert!(output.status.success(), "{driver}: {output:?}");
        }
        let output = life.command(&["ctl", "kick", "romeo@localhost"]);
        assert!(output.status.success(), "{driver}: {output:?}");
        assert!(romeo.rest().contains("<policy-violation"), "the kick is heard");

        // "\0romeo\0wrong"
        let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AHJvbWVvAHdyb25n</auth>";
        stranger(&life).ask(auth, "<not-authorized");
        stranger(&life).ask("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>", "<proceed");
        stranger(&life).ask("</wrong>", "</stream:stream>");

        let mut newcomer = stranger(&life);
        let account = "<username>nurse</username><password>secret</password>";
        newcomer.send(&format!("<iq type='set' id='r'><query xmlns='jabber:iq:register'>{account}</query></iq>"));
        for (client, promise) in [(&mut newcomer, "an account"), (&mut juliet, "an acknowledgement")] {
            client.socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a time-out");
            let heard = client.socket.read(&mut [0; 4_096]);
            assert!(heard.is_err(), "{driver}: {promise} was promised that is not durable");
        }
    }
}

/// A client to which nothing can be sent because the disk stalls, or because the limit of pending
/// writes is reached, is not mistaken for a peer that takes nothing (`send_timeout_seconds`): the
/// session continues when the disk does.
#[test]
fn a_disk_that_stands_still_ends_no_session() {
    for driver in drivers() {
        for queue in ["8MiB", "64KiB"] {
            let flags = ["--send-timeout-seconds", "1", "--store-queue-bytes-max", queue];
            let life = Life::start(driver, "stop-disk=6s@6s", &flags);
            ["romeo", "juliet"].iter().for_each(|user| life.add(user));
            let log_in = |user: &str| Client::connect(&life.address()).log_in(user, PASSWORD, "r");
            let (mut romeo, mut juliet) = (log_in("romeo"), log_in("juliet"));
            juliet.ask("<presence/>", "<presence");
            std::thread::sleep(Duration::from_secs(6));
            let body = "b".repeat(60_000);
            for number in 0..3 {
                romeo.send(&format!(
                    "<message to='juliet@localhost' type='chat' id='m{number}'><body>{body}</body></message>"
                ));
            }
            juliet.send("<iq type='get' id='p'><query xmlns='jabber:iq:roster'/></iq>");
            juliet.hear("id='m2'");
            romeo.ask("<iq type='get' id='p'><query xmlns='jabber:iq:roster'/></iq>", "</iq>");
        }
    }
}

/// A client that takes its output, however slowly, stays connected (`send_timeout_seconds`); one
/// that takes too little is disconnected.
#[test]
fn a_slow_reader_stays_as_long_as_it_takes_enough() {
    const MESSAGES: usize = 30;
    for driver in drivers() {
        // Sixty long messages at once are more than an account may send.
        let flags = ["--send-timeout-seconds", "2", "--account-stanzas-per-second", "0"];
        let life = Life::start(driver, "", &flags);
        ["romeo", "juliet", "nurse"].iter().for_each(|user| life.add(user));
        let mut romeo = Client::connect(&life.address()).log_in("romeo", PASSWORD, "r");
        let [mut enough, mut little] = ["juliet", "nurse"].map(|user| {
            let mut client = Client::connect_with_little_room(&life.address()).log_in(user, PASSWORD, "r");
            client.ask("<presence/>", "<presence");
            client
        });
        let body = "b".repeat(50_000);
        for number in 0..MESSAGES {
            for user in ["juliet", "nurse"] {
                let to = format!("to='{user}@localhost' id='m{number}.'");
                romeo.send(&format!("<message {to} type='chat'><body>{body}</body></message>"));
            }
        }
        romeo.ask("<iq type='get' id='p'><query xmlns='jabber:iq:roster'/></iq>", "</iq>");
        // Progress is noticed after 64 KiB at the latest: 96 KiB per second are enough, and 4 KiB
        // are not.
        let (mut piece, mut ended) = ([0; 24 << 10], None);
        for quarter in 0..40 {
            std::thread::sleep(Duration::from_millis(250));
            enough.socket.read_exact(&mut piece).unwrap_or_else(|error| panic!("{driver}: {error}"));
            if ended.is_none() && !matches!(little.socket.read(&mut piece[..1 << 10]), Ok(1..)) {
                ended = Some(quarter);
            }
        }
        assert!(ended.is_some_and(|quarter| quarter >= 4), "{driver}: {ended:?}");
        enough.hear(&format!("id='m{}.'", MESSAGES - 1));
        enough.ask("<iq type='get' id='p'><query xmlns='jabber:iq:roster'/></iq>", "id='p'");
    }
}

/// systemd accepts the shipped unit.
#[test]
fn the_unit_is_valid() {
    let unit = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../contrib/systemd/throng.service"))
        .expect("a file");
    for line in ["Type=notify", "Restart=on-failure", "NoNewPrivileges=yes", "ProtectSystem=strict"] {
        assert!(unit.lines().any(|own| own == line), "{line}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("throng.service");
    std::fs::write(&path, unit.replace("/usr/local/bin/throng", "/bin/true")).expect("a file");
    match Command::new("systemd-analyze").arg("verify").arg(&path).output() {
        Ok(output) => assert!(output.status.success() && output.stderr.is_empty(), "{output:?}"),
        Err(error) => return println!("not tested: systemd-analyze: {error}"),
    }
    // The figure of docs/service.md, in tenths.
    let security = ["security", "--offline=true", "--threshold=15"];
    let output = Command::new("systemd-analyze").args(security).arg(&path).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

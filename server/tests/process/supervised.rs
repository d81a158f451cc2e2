//! A server under a service manager, whose part a test plays: a datagram socket for its reports
//! (sd_notify(3)), sockets that are open before the start (sd_listen_fds(3)), and standard error as
//! the journal (systemd.exec(5)).

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Client, LONG, PASSWORD, THRONG, get_from, good, read, until};

/// The manager's end of a server, which is killed when dropped.
struct Supervised {
    child: Child,
    reports: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Supervised {
    /// Starts a server with sockets, whose descriptors begin at 3, and further arguments and
    /// variables.
    fn start(sockets: [Option<&TcpListener>; 2], flags: &[&str], variables: &[(&str, &str)]) -> Supervised {
        let folder = tempfile::tempdir().expect("a folder");
        let reports = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        reports.set_read_timeout(Some(LONG)).expect("a time-out");
        let child = begin(folder.path(), sockets, flags, variables);
        Supervised { child, reports, folder }
    }

    /// The next report.
    fn report(&self) -> String {
        let mut buffer = [0; 4_096];
        let count = self.reports.recv(&mut buffer).unwrap_or_else(|error| panic!("{error}: {}", self.log()));
        String::from_utf8(buffer[..count].to_vec()).expect("text")
    }

    /// The next report with this state, and those before it.
    fn report_with(&self, state: &str) -> (String, Vec<String>) {
        let (mut before, mut found) = (Vec::new(), None);
        until("a report", || {
            let report = self.report();
            match report.lines().any(|line| line.starts_with(state)) {
                true => found = Some(report),
                false => before.push(report),
            }
            found.is_some()
        });
        (found.expect("a report"), before)
    }

    fn log(&self) -> String {
        read(&self.folder.path().join("log"))
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill runs").success());
    }

    /// The exit code.
    fn end(&mut self) -> Option<i32> {
        let mut status = None;
        until("the server's end", || {
            status = self.child.try_wait().expect("a child");
            status.is_some()
        });
        status.and_then(|status| status.code())
    }

    /// Kills it and starts it again in the same folder.
    fn again(&mut self, sockets: [Option<&TcpListener>; 2], flags: &[&str]) {
        self.child = begin(self.folder.path(), sockets, flags, &[]);
    }
}

/// The shell gives the descriptors their numbers, and names the process that they are for.
fn begin(folder: &Path, sockets: [Option<&TcpListener>; 2], flags: &[&str], variables: &[(&str, &str)]) -> Child {
    let count = sockets.iter().flatten().count();
    let script = match count {
        0 => "exec \"$@\" </dev/null",
        _ => "exec 3<&0 4<&1 </dev/null >/dev/null; LISTEN_PID=$$ exec \"$@\"",
    };
    let descriptor = |socket: Option<&TcpListener>| match socket {
        Some(socket) => Stdio::from(OwnedFd::from(socket.try_clone().expect("a copy"))),
        None => Stdio::null(),
    };
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", THRONG, "serve", "--shards", "2", "--c2s-tls", "off", "--plain-auth"]);
    command.arg("--data").arg(folder.join("data")).args(flags);
    command.env("NOTIFY_SOCKET", folder.join("notify")).env("LISTEN_FDS", count.to_string());
    command.envs(variables.iter().copied());
    let log = std::fs::File::options().create(true).append(true).open(folder.join("log")).expect("a file");
    let [first, second] = sockets.map(descriptor);
    command.stdin(first).stdout(second).stderr(log).spawn().expect("sh runs")
}

fn command(folder: &Path, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(THRONG);
    command.args(arguments).arg("--data").arg(folder.join("data")).stdin(Stdio::null());
    command.output().expect("throng runs")
}

/// The start is reported once clients can connect, a reload when it begins and when it has ended,
/// also one that fails, and a stop when it begins with the longest time that it takes.
#[test]
fn a_start_a_reload_and_a_stop_are_reported() {
    let mut server = Supervised::start([None, None], &["--c2s", "127.0.0.1:0"], &[]);
    let pid = server.child.id();
    let (ready, before) = server.report_with("READY=1");
    let status = command(server.folder.path(), &["ctl", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).expect("JSON");
    let address = status["listeners"][0]["address"].as_str().expect("an address");
    TcpStream::connect(address).expect("clients can connect");
    assert!(before.iter().all(|report| report.contains("EXTEND_TIMEOUT_USEC=")), "{before:?}");
    assert!(before.iter().any(|report| report.contains("STATUS=opening the store")), "{before:?}");
    let ready: Vec<&str> = ready.lines().collect();
    let state = ["READY=1", &format!("MAINPID={pid}"), "STATUS=localhost: 0 sessions, 0 connections"];
    assert_eq!(ready, state);

    let file = server.folder.path().join("data/throng.toml");
    let mut last = 0;
    for (text, said, by_signal) in [
        ("backlog = 300", "STATUS=reloaded", true),
        ("backlog = 400", "STATUS=reloaded", false),
        ("backlog = 0", "STATUS=not reloaded: ", true),
    ] {
        std::fs::write(&file, text).expect("a file");
        if by_signal {
            server.signal("-HUP");
        } else {
            good(&command(server.folder.path(), &["ctl", "reload"]));
        }
        let (reloading, _) = server.report_with("RELOADING=1");
        let since = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).expect("a time");
        let since: u64 = since.parse().expect("a number");
        assert!(since > last, "{since} is not after {last}");
        last = since;
        let (ready, _) = server.report_with("READY=1");
        assert!(ready.contains(said), "{ready}");
    }

    server.signal("-TERM");
    let (stopping, _) = server.report_with("STOPPING=1");
    // Ten seconds each for streams and for the rest, and five for what is neither.
    assert!(stopping.lines().any(|line| line == "EXTEND_TIMEOUT_USEC=25000000"), "{stopping}");
    assert_eq!(server.end(), Some(0), "{}", server.log());
}

/// Signs of life come while all shards turn, and no more when one of them does not.
#[cfg(debug_assertions)]
#[test]
fn the_watchdog_is_fed_while_all_shards_turn() {
    let stall = [("WATCHDOG_USEC", "1200000"), ("PLANTED_STALLS", "sleep-shard=1:600s@3s")];
    let server = Supervised::start([None, None], &["--c2s", "127.0.0.1:0"], &stall);
    server.report_with("READY=1");
    server.report_with("WATCHDOG=1");
    server.report_with("WATCHDOG=1");
    let stuck = |status: &str| status.contains("shard 1 has made no progress for");
    until("a shard that does not turn", || stuck(&server.report_with("STATUS=").0));
    let quiet: Vec<String> = (0..4).map(|_| server.report()).collect();
    assert!(quiet.iter().all(|report| stuck(report)), "{quiet:?}");
}

/// Sockets are taken over for the addresses that options name, by all shards; connections that are
/// made while no server runs wait for the next one.
#[test]
fn a_restart_with_sockets_of_the_manager_refuses_nobody() {
    let socket = || TcpListener::bind("127.0.0.1:0").expect("a socket");
    let (c2s, admin) = (socket(), socket());
    let [address, http] = [&c2s, &admin].map(|socket| socket.local_addr().expect("an address").to_string());
    let flags = ["--c2s", &address, "--admin-http", &http];
    let names = [("LISTEN_FDNAMES", "c2s:throng.socket")];
    let mut server = Supervised::start([Some(&c2s), Some(&admin)], &flags, &names);
    server.report_with("READY=1");
    good(&command(server.folder.path(), &["user", "add", "romeo", "--password", PASSWORD]));
    drop(Client::connect(&address).log_in("romeo", PASSWORD, "r"));
    TcpStream::connect(&http).expect("the dashboard is at its socket");
    // An idle shard takes a connection while the other is busy: not each time.
    let token = read(&server.folder.path().join("data/http.token"));
    until("connections of both shards", || {
        drop((0..20).map(|_| Client::connect(&address).log_in("romeo", PASSWORD, "r")).collect::<Vec<_>>());
        let metrics = get_from(&http, token.trim(), "/metrics");
        let accepted = |shard: u8| {
            let name = format!("throng_shard_accepted_total{{shard=\"{shard}\"}} ");
            metrics
                .lines()
                .find_map(|line| line.strip_prefix(&name))
                .expect("a counter")
                .parse::<u64>()
                .expect("a number")
        };
        accepted(0) > 0 && accepted(1) > 0
    });
    server.signal("-TERM");
    assert_eq!(server.end(), Some(0), "{}", server.log());

    let waits = Client::connect(&address);
    server.again([Some(&c2s), Some(&admin)], &flags);
    waits.log_in("romeo", PASSWORD, "r");
}

/// Also the listeners that answer an authority's checks, usually at port 80, for which a service needs
/// a capability otherwise.
#[test]
fn a_socket_of_the_manager_answers_the_checks_of_an_authority() {
    let socket = || TcpListener::bind("127.0.0.1:0").expect("a socket");
    let (c2s, acme) = (socket(), socket());
    let [address, http] = [&c2s, &acme].map(|socket| socket.local_addr().expect("an address").to_string());
    // Nobody is there: only the listener matters.
    let directory = ["--acme", "you@example.test", "--acme-directory", "https://127.0.0.1:1/dir"];
    let flags =
        [&["--c2s", &*address, "--acme-http", &http, "--virtual-hosts", "example.test"], &directory[..]].concat();
    let server = Supervised::start([Some(&c2s), Some(&acme)], &flags, &[("LISTEN_FDNAMES", "c2s:acme_http")]);
    server.report_with("READY=1");
    let mut stream = TcpStream::connect(&http).expect("a connection");
    stream.write_all(b"GET /.well-known/acme-challenge/x HTTP/1.0\r\nHost: a\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.contains(" 404 "), "{answer}");
}

/// A socket that no option names would take connections that nobody serves.
#[test]
fn a_socket_for_no_option_is_refused() {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = socket.local_addr().expect("an address").to_string();
    for (flags, name, said) in [
        (["--c2s", "127.0.0.1:0"], "c2s", "which no option names"),
        (["--c2s", &address], "http", "is an address of c2s"),
    ] {
        let mut server = Supervised::start([Some(&socket), None], &flags, &[("LISTEN_FDNAMES", name)]);
        assert_eq!(server.end(), Some(2), "{}", server.log());
        assert!(server.log().contains(said), "{}", server.log());
    }
}

/// The journal has the time of each line, and reads its priority from a prefix (sd-daemon(3)).
#[test]
fn lines_for_the_journal_have_priorities_and_no_time() {
    for (is_journal, format, first) in
        [(true, "human", "<6>INFO "), (true, "json", "<6>{\"timestamp\":"), (false, "human", "20")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let reports = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        reports.set_read_timeout(Some(LONG)).expect("a time-out");
        let log = folder.path().join("log");
        let of = std::fs::File::create(&log).and_then(|file| file.metadata()).expect("a file");
        let stream = format!("{}:{}", of.dev(), if is_journal { of.ino() } else { of.ino() + 1 });
        let flags = ["--c2s", "127.0.0.1:0", "--log-format", format];
        let child = begin(folder.path(), [None, None], &flags, &[("JOURNAL_STREAM", &stream)]);
        let mut server = Supervised { child, reports, folder };
        server.report_with("READY=1");
        std::fs::write(server.folder.path().join("data/throng.toml"), "backlog = 0").expect("a file");
        server.signal("-HUP");
        until("a line of an error", || server.log().contains("not reloaded"));
        server.signal("-TERM");
        assert_eq!(server.end(), Some(0));
        let log = server.log();
        let is_first = |line: &str| line.starts_with(first) || is_journal && ["<3>", "<4>"].contains(&&line[..3]);
        assert!(log.lines().all(is_first) && log.lines().any(|line| line.starts_with(first)), "{log}");
        assert_eq!(log.contains("<3>"), is_journal, "{log}");
    }
}

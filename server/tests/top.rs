//! `throng top` against `throng serve` under a skewed load, as processes, on both drivers; and on a terminal, with keys.

mod support;
#[path = "support/uring.rs"]
mod uring;

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Server, THRONG, good, throng};
use crate::uring::has_uring;

const LONG: Duration = Duration::from_secs(60);

fn folder(server: &Server) -> String {
    server.data.path().join("data").to_str().expect("a plain path").to_owned()
}

fn top(server: &Server, further: &[&str]) -> std::process::Output {
    throng(&[&["top", "--data", &folder(server)], further].concat())
}

/// Three users who send to themselves: one much, one some, one little.
struct Load(Vec<Child>);

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Load {
    fn start(server: &Server) -> Load {
        let talk = |(user, every_ms): (&str, u64)| {
            good(&throng(&["user", "add", user, "--password", "pencil", "--data", &folder(server)]));
            Command::new("python3")
                .args(["-c", TALK, &server.plain, user, "pencil", &every_ms.to_string()])
                .stdin(Stdio::null())
                .spawn()
                .expect("python runs")
        };
        Load([("much", 5), ("some", 50), ("little", 500)].map(talk).into())
    }
}

/// Sends a message to itself every so many milliseconds, and reads what comes.
const TALK: &str = r#"
import base64, socket, sys, threading, time
address, user, password, every = sys.argv[1:]
host, port = address.rsplit(":", 1)
s = socket.create_connection((host, int(port)))
said = b""
def hear(what):
    global said
    while what not in said:
        said += s.recv(65536) or sys.exit("closed: " + said.decode())
    said = said[said.index(what) + len(what):]
header = b"<stream:stream to='localhost' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
plain = base64.b64encode(b"\0" + user.encode() + b"\0" + password.encode())
s.sendall(header); hear(b"</stream:features>")
s.sendall(b"<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>" + plain + b"</auth>"); hear(b"<success")
s.sendall(header); hear(b"</stream:features>")
s.sendall(b"<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>r</resource></bind></iq>"); hear(b"</iq>")
def drain():
    while s.recv(65536):
        pass
threading.Thread(target=drain, daemon=True).start()
while True:
    s.sendall(b"<message to='" + user.encode() + b"@localhost/r'><body>" + b"x" * 100 + b"</body></message>")
    time.sleep(int(every) / 1000)
"#;

fn object(output: &std::process::Output) -> Value {
    good(output);
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn names_who_is_busiest(driver: &str) {
    let server = Server::start_with(&["--driver", driver, "--admin-http", "127.0.0.1:0"]);
    let _load = Load::start(&server);
    let end = Instant::now() + LONG;
    let told = loop {
        let told = object(&top(&server, &["--once", "--json"]));
        let busiest = told["busiest"].as_array().map_or(0, Vec::len);
        let logged_in = told["second"]["shards"].as_array().is_some_and(|shards| {
            shards.iter().map(|shard| shard["sessions"].as_f64().unwrap_or(0.0)).sum::<f64>() >= 3.0
        });
        if busiest >= 3 && logged_in {
            break told;
        }
        assert!(Instant::now() < end, "{told}");
    };
    let busiest = told["busiest"].as_array().expect("a list");
    let rate = |at: usize| busiest[at]["stanzas_in"].as_f64().expect("a rate");
    let orders = busiest.iter().map(|session| session["jid"].as_str().expect("a JID")).collect::<Vec<_>>();
    assert_eq!(orders, ["much@localhost/r", "some@localhost/r", "little@localhost/r"], "{told}");
    // 200, 20 and 2 a second are what was asked for; a machine with much to do has fewer, in this order.
    assert!(rate(0) > 3.0 * rate(1) && rate(1) > 3.0 * rate(2) && rate(2) > 0.0, "{busiest:?}");
    let (first, to_itself) = (&busiest[0], busiest[0]["stanzas_out"].as_f64().expect("a rate"));
    assert!((to_itself / rate(0) - 1.0).abs() < 0.3, "{first}");
    assert!(first["bytes_in"].as_f64().is_some_and(|bytes| bytes > 150.0 * rate(0)), "{first}");
    let sums = |field: &str| -> f64 {
        let shards = told["second"]["shards"].as_array().expect("shards");
        shards.iter().filter_map(|shard| shard[field].as_f64()).sum()
    };
    assert!(sums("stanzas_in") > 50.0 && sums("turns") > 1.0, "{told}");
    assert_eq!((&told["domain"], &told["connections"]), (&"localhost".into(), &3.into()), "{told}");

    let text = top(&server, &["--once", "--width", "80", "--height", "24"]);
    good(&text);
    let text = String::from_utf8(text.stdout).expect("text");
    let row = text.lines().find(|line| line.starts_with(orders[0])).unwrap_or_else(|| panic!("{text}"));
    assert!(row.split_whitespace().count() == 7 && text.contains("SHARD  CPU%"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80) && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn the_busiest_are_named_on_epoll() {
    names_who_is_busiest("epoll");
}

#[test]
fn the_busiest_are_named_on_io_uring() {
    if has_uring() {
        names_who_is_busiest("uring");
    }
}

/// A shell on a terminal of 80x24, with what it has shown.
struct Screen {
    child: Child,
    keys: ChildStdin,
    bytes: Receiver<Vec<u8>>,
    shown: String,
    /// What the terminal has: `throng top` writes only the cells that change, so a word may come in pieces.
    terminal: vt100::Parser,
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Screen {
    fn start(command: &str) -> Screen {
        let shell = format!("stty rows 24 cols 80; {command}; echo ENDED WITH $?; stty -a");
        let mut child = Command::new("script")
            .args(["-qefc", &shell, "/dev/null"])
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("script (util-linux) runs");
        let (keys, mut out) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (bytes_in, bytes) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                if bytes_in.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Screen { child, keys, bytes, shown: String::new(), terminal: vt100::Parser::default() }
    }

    /// Takes what comes next.
    fn read(&mut self, end: Instant, awaited: &dyn std::fmt::Debug) {
        match self.bytes.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(bytes) => {
                self.terminal.process(&bytes);
                self.shown += &String::from_utf8_lossy(&bytes);
            }
            Err(_) => panic!("{awaited:?} does not come: {:?}\n{}", self.shown, self.terminal.screen().contents()),
        }
    }

    /// Reads on until this comes, from where the last one was.
    fn wait(&mut self, what: &str) {
        let end = Instant::now() + LONG;
        while !self.shown.contains(what) {
            self.read(end, &what);
        }
        let at = self.shown.find(what).expect("it is there") + what.len();
        self.shown.drain(..at);
    }

    /// Reads on until one of these stands on the screen.
    fn stands(&mut self, what: &[&str]) {
        let end = Instant::now() + LONG;
        while !what.iter().any(|what| self.terminal.screen().contents().contains(what)) {
            self.read(end, &what);
        }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("it takes keys");
    }

    /// The terminal is as it was: what was on it is back, the cursor, lines and echo are on.
    fn is_restored(&mut self, code: i32) {
        self.wait("\u{1b}[?1049l");
        self.wait(&format!("ENDED WITH {code}"));
        self.wait(" icanon");
        self.wait(" echo ");
    }
}

#[test]
fn a_terminal_shows_takes_keys_and_is_given_back() {
    let server = Server::start_with(&["--admin-http", "127.0.0.1:0"]);
    let command = format!("{THRONG} top --data {}", folder(&server));
    let mut screen = Screen::start(&command);
    screen.wait("\u{1b}[?1049h");
    screen.stands(&["SHARD"]);
    screen.press("3");
    screen.stands(&["LENGTH"]);
    screen.press("?");
    screen.stands(&["KEYS"]);
    screen.press("\u{1b}");
    screen.press("s");
    screen.wait("bytes");
    screen.press("p");
    screen.stands(&["PAUSED"]);
    screen.press("q");
    screen.is_restored(0);

    // Ctrl-C is a key here; colours are there, and not when they are not wanted.
    let mut screen = Screen::start(&format!("{command} --no-color"));
    screen.stands(&["SHARD"]);
    screen.press("\u{3}");
    screen.is_restored(0);

    // A signal from elsewhere.
    let pid = server.data.path().join("pid");
    let shell = format!("sh -c 'echo $$ > {}; exec {command}'", pid.display());
    let mut screen = Screen::start(&shell);
    screen.stands(&["SHARD"]);
    let pid = std::fs::read_to_string(&pid).expect("a number");
    good(&Command::new("kill").args(["-TERM", pid.trim()]).output().expect("kill runs"));
    screen.is_restored(0);
}

/// The process that wrote its number there.
fn pid_in(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).expect("a number").trim().to_owned()
}

fn is_gone_within_seconds(pid: &str) {
    let end = Instant::now() + Duration::from_secs(30);
    // One that has ended and is not waited for yet is a zombie.
    let lives = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while lives() {
        if Instant::now() > end {
            let _ = Command::new("kill").args(["-KILL", pid]).status();
            panic!("process {pid} lives on");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// When its terminal goes it ends, by itself: its parent, who held the other side, is killed and tells it nothing. Signals end it
/// whatever it waits for, here a server that takes connections and never answers.
#[test]
fn it_ends_with_its_terminal_and_with_a_signal() {
    let server = Server::start_with(&["--admin-http", "127.0.0.1:0"]);
    let pid = server.data.path().join("pid");
    let exec = |further: &str| format!("setsid -w sh -c 'echo $$ > {}; exec {THRONG} top {further}'", pid.display());
    // In a session of its own no SIGHUP comes: only the terminal's end tells.
    let mut screen = Screen::start(&exec(&format!("--data {}", folder(&server))));
    screen.wait("SHARD");
    let process = pid_in(&pid);
    drop(screen);
    is_gone_within_seconds(&process);

    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let from = format!("http://{}", silent.local_addr().expect("an address"));
    for signal in ["-TERM", "-INT", "-HUP"] {
        let mut waits = Command::new(THRONG).args(["top", "--once", "--from", &from]).spawn().expect("throng runs");
        let _held = silent.accept().expect("it asks");
        good(&Command::new("kill").args([signal, &waits.id().to_string()]).output().expect("kill runs"));
        is_gone_within_seconds(&waits.id().to_string());
        let _ = waits.wait();
    }
}

#[test]
fn a_server_that_goes_away_is_told() {
    let mut server = Server::start_with(&["--admin-http", "127.0.0.1:0"]);
    let mut screen = Screen::start(&format!("{THRONG} top --data {}", folder(&server)));
    screen.wait("SHARD");
    server.child.kill().expect("it runs");
    server.child.wait().expect("it ends");
    screen.stands(&["the server has gone away", "connection refused"]);
    screen.press("q");
    screen.is_restored(0);
    // Nobody is there: a word, and no screen.
    let output = top(&server, &["--once"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let output = throng(&["top", "--once", "--from", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("connection refused"), "{output:?}");
    let output = throng(&["top", "--from", "http://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(2), "not on a terminal: {output:?}");
}

#[test]
fn without_its_http_a_server_cannot_be_watched() {
    let server = Server::start_with(&["--admin-http", "off"]);
    let output = top(&server, &["--once"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("admin_http"), "{output:?}");
}

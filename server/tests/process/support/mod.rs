//! A server as a process, its clients, and the program's commands.
#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

mod client;
mod host;
mod uring;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) use client::Client;
pub(crate) use host::Host;
pub(crate) use uring::has_uring;

pub(crate) const THRONG: &str = env!("CARGO_BIN_EXE_throng");
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// The password of accounts created by [`Server::add`].
pub(crate) const PASSWORD: &str = "pencil";

/// A server with fifty accounts, killed when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) plain: String,
    pub(crate) direct: String,
    pub(crate) data: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// A server with further flags.
    pub(crate) fn start_with(further: &[&str]) -> Server {
        Server::start_in(tempfile::tempdir().expect("a folder"), further)
    }

    /// The same in a folder with existing files; the server's own folder is `data` in it.
    pub(crate) fn start_in(data: tempfile::TempDir, further: &[&str]) -> Server {
        Server::start_planted(data, "", further)
    }

    /// The same with stalls planted (`throng::plant`).
    pub(crate) fn start_planted(data: tempfile::TempDir, stalls: &str, further: &[&str]) -> Server {
        let folder = data.path().join("data");
        let csv = data.path().join("users.csv");
        let csv = csv.to_str().expect("a plain path");
        let folder = folder.to_str().expect("a plain path");
        good(&throng(&["load", "--write-accounts", csv, "--sessions", "50"]));
        // An existing configuration names the domain.
        let domain: &[&str] =
            if data.path().join("data/throng.toml").exists() { &[] } else { &["--domain", "localhost"] };
        good(&throng(&[&["user", "import", csv, "--data", folder], domain].concat()));
        let log = std::fs::File::create(data.path().join("out")).expect("a file");
        let child = Command::new(THRONG)
            .args(["serve", "--data", folder, "--c2s", "127.0.0.1:0", "--c2s-tls", "127.0.0.1:0", "--plain-auth"])
            .args(["--shards", "2", "--open-registration", "--registrations-hourly-max", "1000"])
            // Synthetic users send faster than people do.
            .args(["--account-stanzas-per-second", "0"])
            .args(further)
            .envs((!stalls.is_empty()).then_some(("PLANTED_STALLS", stalls)))
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("throng starts");
        let mut server = Server { child, plain: String::new(), direct: String::new(), data };
        let end = Instant::now() + LONG;
        while server.plain.is_empty() || server.direct.is_empty() {
            assert!(Instant::now() < end && matches!(server.child.try_wait(), Ok(None)), "the server does not start");
            std::thread::sleep(Duration::from_millis(10));
            let out = read(&server.data.path().join("out"));
            if out.contains("Next:") {
                (server.plain, server.direct) = announced(&out);
            }
        }
        server
    }

    /// Its data folder.
    pub(crate) fn folder(&self) -> String {
        self.data.path().join("data").to_str().expect("a plain path").to_owned()
    }

    /// The folder in `/proc` of a thread with this name, if there is one.
    pub(crate) fn task(&self, name: &str) -> Option<PathBuf> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("threads");
        let mut tasks = tasks.filter_map(|task| Some(task.ok()?.path()));
        tasks.find(|task| read(&task.join("comm")).trim() == name)
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        read(&self.data.path().join("out"))
    }

    /// A command on its data folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(THRONG);
        command.args(arguments).args(["--data", &self.folder()]).stdin(Stdio::null());
        command
    }

    /// `throng ctl`.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> Output {
        self.command(&[&["ctl"], arguments].concat()).output().expect("throng runs")
    }

    /// Creates accounts.
    pub(crate) fn add(&self, users: &[&str]) {
        for user in users {
            good(&self.command(&["user", "add", user, "--password", PASSWORD]).output().expect("throng runs"));
        }
    }

    /// A client of one of these accounts.
    pub(crate) fn client(&self, user: &str, resource: &str) -> Client {
        Client::connect(&self.plain).log_in(user, PASSWORD, resource)
    }

    /// The address of the operator's HTTP interface, from the log.
    pub(crate) fn http(&self) -> String {
        http_of(|| self.log())
    }

    /// The file of the token for the operator's HTTP interface, and the token.
    pub(crate) fn token(&self) -> (String, String) {
        let file = format!("{}/http.token", self.folder());
        let token = read(Path::new(&file)).trim().to_owned();
        (file, token)
    }

    /// The response of the operator's HTTP interface.
    pub(crate) fn get(&self, path: &str) -> String {
        get_from(&self.http(), &self.token().1, path)
    }
}

/// The address of the operator's HTTP interface, from the log.
fn http_of(log: impl Fn() -> String) -> String {
    let mut found = None;
    until("the operator's HTTP", || {
        let log = log();
        let line = log.lines().find(|line| line.contains("the operator's HTTP is served"));
        found = line.and_then(|line| line.split("address=").nth(1)).map(|rest| rest.trim().to_owned());
        found.is_some()
    });
    found.expect("just found")
}

/// The response of the operator's HTTP interface at this address.
pub(crate) fn get_from(address: &str, token: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(WAIT)).expect("a time-out");
    let head = format!("Host: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n");
    write!(stream, "GET {path} HTTP/1.1\r\n{head}").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer.split_once("\r\n\r\n").expect("a head and a body").1.to_owned()
}

/// The addresses that a server has announced: for streams in the clear, and for direct TLS.
fn announced(said: &str) -> (String, String) {
    let address = |kind: &str| {
        let words = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let mut of_kind = words.filter(|words| words.len() == 2 && words[1] == kind);
        of_kind.next_back().map_or_else(String::new, |words| words[0].to_owned())
    };
    (address("STARTTLS"), address("TLS"))
}

/// Limit of a wait on a busy machine.
const WAIT: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + WAIT;
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within {WAIT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

pub(crate) fn throng(arguments: &[&str]) -> Output {
    Command::new(THRONG).args(arguments).stdin(Stdio::null()).output().expect("throng runs")
}

pub(crate) fn good(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

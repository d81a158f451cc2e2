//! A wrong wall clock destroys nothing: a real server starts 31 days ahead, and its clock is
//! corrected later.
//!
//! The fault is planted (`throng::plant`), in builds with debug assertions only.
#![cfg(debug_assertions)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::support::{Client, PASSWORD, THRONG, good, has_uring, read, until};

/// Longer than the lifetime of files.
const AHEAD_S: &str = "2678400";

/// A server's process on a folder that outlives it. Killed when dropped.
struct Process {
    child: Child,
    folder: PathBuf,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sets the wall clock of processes on this folder ahead by this many seconds.
fn set_clock(folder: &Path, ahead_s: &str) {
    let (file, unfinished) = (folder.join("wall"), folder.join("wall.unfinished"));
    std::fs::write(&unfinished, ahead_s).expect("written");
    std::fs::rename(unfinished, file).expect("renamed");
}

impl Process {
    fn start(folder: &Path, driver: &str) -> Process {
        let log = std::fs::File::create(folder.join("out")).expect("a file");
        let planted = format!("wall={}", folder.join("wall").display());
        let mut command = Command::new(THRONG);
        command.args(["serve", "--data"]).arg(folder.join("data")).args(["--c2s", "127.0.0.1:0", "--c2s-tls", "off"]);
        command.args(["--plain-auth", "--shards", "2", "--driver", driver, "--admin-http", "127.0.0.1:0"]);
        command.args(["--upload-proxied", "127.0.0.1:0", "--upload-url", "https://localhost/"]);
        command.env("PLANTED_STALLS", planted).stdin(Stdio::null());
        let child = command.stdout(log.try_clone().expect("a file")).stderr(log).spawn().expect("throng starts");
        let mut process = Process { child, folder: folder.into() };
        until("a server that serves", || {
            assert!(matches!(process.child.try_wait(), Ok(None)), "it does not start: {}", process.log());
            process.log().contains("serving")
        });
        process
    }

    fn log(&self) -> String {
        read(&self.folder.join("out"))
    }

    fn stop(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        until("the server's end", || self.child.try_wait().expect("a child").is_some());
    }

    fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(THRONG);
        command.args(arguments).arg("--data").arg(self.folder.join("data")).stdin(Stdio::null());
        command.output().expect("throng runs")
    }

    /// The address in the log line with these words.
    fn address(&self, words: &str) -> String {
        let log = self.log();
        let line = log.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("no {words} in {log}"));
        let rest = line.split("address=").nth(1).expect("an address");
        rest.split_whitespace().next().expect("an address").to_owned()
    }

    /// The whole response to a request, including its head.
    fn asked(&self, address: &str, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("a connection");
        write!(stream, "{request}").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    /// The response of the operator's HTTP interface.
    fn get(&self, path: &str) -> Value {
        let token = read(&self.folder.join("data/http.token"));
        let head = format!("Host: localhost\r\nAuthorization: Bearer {}\r\nConnection: close", token.trim());
        let address = self.address("the operator's HTTP is served");
        let answer = self.asked(&address, &format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n"));
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Uploads a file; returns its path at the server. Uploads are accepted once all existing files
    /// have been scanned.
    fn upload(&self) -> String {
        let streams = self.log().lines().find(|line| line.ends_with("STARTTLS")).expect("an address").to_owned();
        let streams = streams.split_whitespace().next().expect("an address");
        let mut romeo = Client::connect(streams).log_in("romeo", PASSWORD, "orchard");
        let mut path = None;
        until("a file that is taken", || {
            let slot = romeo.ask(
                "<iq type='get' id='u' to='upload.localhost'><request xmlns='urn:xmpp:http:upload:0' filename='a.txt' \
                 size='5'/></iq>",
                "</iq>",
            );
            let between = |from: &str, to: &str| Some(slot.split_once(from)?.1.split_once(to)?.0.to_owned());
            let put = between("<put url='https://localhost", "'").unwrap_or_else(|| panic!("no slot: {slot}"));
            let token = between("Bearer ", "<").expect("a token");
            let head =
                format!("Host: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 5\r\nConnection: close");
            let answer =
                self.asked(&self.address("files are taken"), &format!("PUT {put} HTTP/1.1\r\n{head}\r\n\r\nhello"));
            path = answer.starts_with("HTTP/1.1 201").then_some(put);
            path.is_some()
        });
        path.expect("just taken")
    }

    fn download(&self, path: &str) -> String {
        self.asked(
            &self.address("files are taken"),
            &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
        )
    }

    /// Whether the uploaded file is on the disk.
    fn has(&self, path: &str) -> bool {
        let id = path.trim_start_matches('/').split('/').next().expect("an id");
        self.folder.join("data/upload").join(&id[..2]).join(id).exists()
    }

    fn status(&self) -> Value {
        let output = self.command(&["ctl", "status", "--json"]);
        good(&output);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn is_in_doubt(&self) -> bool {
        !self.status()["clock"].is_null()
    }

    /// Milliseconds between the last time shown in the dashboard and now, by the server's clock.
    fn shown_ago_ms(&self) -> i64 {
        let series = self.get("/api/series?pick=cpu.user");
        let last = series["times"].as_array().and_then(|times| times.last()).and_then(Value::as_i64);
        last.map_or(i64::MAX, |last| series["now"].as_i64().expect("a time") - last)
    }
}

/// The drivers available on this machine.
fn drivers() -> Vec<&'static str> {
    if has_uring() { vec!["uring", "epoll"] } else { vec!["epoll"] }
}

#[test]
fn a_server_that_starts_31_days_ahead_loses_no_file_and_goes_on_when_its_clock_is_right() {
    for driver in drivers() {
        let folder = tempfile::tempdir().expect("a folder");
        set_clock(folder.path(), "0");
        let process = Process::start(folder.path(), driver);
        good(&process.command(&["user", "add", "romeo", "--password", PASSWORD]));
        let first = process.upload();
        assert!(!process.is_in_doubt(), "{}", process.log());
        process.stop();

        // The whole folder is scanned before a file is accepted.
        set_clock(folder.path(), AHEAD_S);
        let process = Process::start(folder.path(), driver);
        let second = process.upload();
        assert!(process.has(&first) && process.has(&second), "{driver}: {}", process.log());
        let status = process.status();
        let ahead_s = status["clock"]["ahead_s"].as_i64().expect("in doubt");
        assert!((2_678_400..2_679_000).contains(&ahead_s), "{status}");
        assert!(status["clock"]["left_s"].as_u64().is_some_and(|left_s| left_s <= 7 * 86_400), "{status}");
        let warnings = process.get("/ready")["warnings"].to_string();
        assert!(warnings.contains("s ahead of the expected time"), "{warnings}");
        let said = String::from_utf8_lossy(&process.command(&["ctl", "status"]).stdout).into_owned();
        assert!(said.contains("throng ctl clock confirm"), "{said}");
        until("seconds that are shown", || process.shown_ago_ms() < 5_000);

        // The clock is corrected: it is no longer in doubt, and the dashboard continues.
        set_clock(folder.path(), "0");
        until("a clock that is believed", || !process.is_in_doubt());
        assert!(process.log().contains("close to the expected time again"), "{}", process.log());
        until("seconds that are shown", || process.shown_ago_ms() < 5_000);
        assert!(process.download(&first).starts_with("HTTP/1.1 200"), "{driver}");
        assert!(!process.get("/ready")["warnings"].to_string().contains("wall clock"));
        let output = process.command(&["ctl", "clock", "confirm"]);
        assert!(!output.status.success(), "there is nothing to confirm: {output:?}");

        // It jumps while the server runs, and the operator confirms it: then old data expires.
        set_clock(folder.path(), AHEAD_S);
        until("a clock in doubt", || process.is_in_doubt());
        good(&process.command(&["ctl", "clock", "confirm"]));
        assert!(!process.is_in_doubt());
        process.stop();
        let process = Process::start(folder.path(), driver);
        process.upload();
        assert!(!process.has(&first), "what is old by a clock that was confirmed goes");
        assert!(process.has(&second), "it came later");
    }
}

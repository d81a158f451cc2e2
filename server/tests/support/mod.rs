//! A server as a process, and the program's commands, for tests that run `throng load` against `throng serve`.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) const THRONG: &str = env!("CARGO_BIN_EXE_throng");
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A server with fifty accounts, ended when dropped.
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

    /// The same in a folder with something in it; the server's own is `data` in it.
    pub(crate) fn start_in(data: tempfile::TempDir, further: &[&str]) -> Server {
        let folder = data.path().join("data");
        let csv = data.path().join("users.csv");
        let csv = csv.to_str().expect("a plain path");
        let folder = folder.to_str().expect("a plain path");
        good(&throng(&["load", "--write-accounts", csv, "--sessions", "50"]));
        good(&throng(&["user", "import", csv, "--data", folder]));
        let log = std::fs::File::create(data.path().join("out")).expect("a file");
        let child = Command::new(THRONG)
            .args(["serve", "--data", folder, "--c2s", "127.0.0.1:0", "--c2s-tls", "127.0.0.1:0", "--plain-auth"])
            .args(["--shards", "2", "--open-registration", "--registrations-hourly-max", "1000"])
            .args(further)
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
            if !out.contains("Next:") {
                continue;
            }
            for line in out.lines() {
                match line.split_whitespace().collect::<Vec<_>>()[..] {
                    [address, "STARTTLS"] => server.plain = address.to_owned(),
                    [address, "TLS"] => server.direct = address.to_owned(),
                    _ => {}
                }
            }
        }
        server
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

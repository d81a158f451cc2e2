//! A data folder that outlives the servers on it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use super::{Client, PASSWORD, THRONG, announced, get_from, good, http_of, read, until};

/// A data folder, and its server while one runs; killed when dropped.
pub(crate) struct Host {
    folder: tempfile::TempDir,
    child: Option<Child>,
    /// The address for streams in the clear; empty before the first start.
    pub(crate) plain: String,
    /// The address for TLS, if a flag enables it.
    pub(crate) direct: String,
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Host {
    /// A host with accounts, whose password is [`PASSWORD`].
    pub(crate) fn new(accounts: &[&str]) -> Host {
        let host = Host::on(tempfile::tempdir().expect("a folder"));
        for account in accounts {
            host.good(&["user", "add", account, "--password", PASSWORD, "--domain", "localhost"]);
        }
        host
    }

    /// A host on an existing folder.
    pub(crate) fn on(folder: tempfile::TempDir) -> Host {
        Host { folder, child: None, plain: String::new(), direct: String::new() }
    }

    pub(crate) fn data(&self) -> &Path {
        self.folder.path()
    }

    /// The output and log of the last server.
    pub(crate) fn log(&self) -> String {
        read(&self.data().join("out"))
    }

    /// Runs a command on the folder.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Command::new(THRONG).args(arguments).arg("--data").arg(self.data()).output().expect("throng runs")
    }

    /// The output of a command that must succeed.
    pub(crate) fn good(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        good(&output);
        String::from_utf8(output.stdout).expect("text")
    }

    /// Starts a server with further flags, and waits until it serves.
    pub(crate) fn start(&mut self, further: &[&str]) {
        let log = std::fs::File::create(self.data().join("out")).expect("a file");
        let child = Command::new(THRONG)
            .args(["serve", "--c2s", "127.0.0.1:0", "--plain-auth", "--data"])
            .arg(self.data())
            .args(further)
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("throng starts");
        self.child = Some(child);
        until("a server that serves", || self.log().contains("Next:"));
        (self.plain, self.direct) = announced(&self.log());
    }

    /// Stops the server like an operator.
    pub(crate) fn stop(&mut self) {
        self.good(&["ctl", "shutdown"]);
        self.ends();
    }

    /// Waits until the server has exited by itself, gracefully.
    pub(crate) fn ends(&mut self) {
        let status = self.child.take().expect("a server").wait().expect("a child");
        assert!(status.success(), "{}", self.log());
    }

    /// Kills the server like `kill -9`.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("a server");
        child.kill().expect("killed");
        child.wait().expect("a child");
    }

    /// The response of the operator's HTTP interface.
    pub(crate) fn get(&self, path: &str) -> String {
        let token = read(&self.data().join("http.token"));
        get_from(&http_of(|| self.log()), token.trim(), path)
    }

    /// A client of one of the accounts.
    pub(crate) fn client(&self, user: &str) -> Client {
        Client::connect(&self.plain).log_in(user, PASSWORD, "r")
    }
}

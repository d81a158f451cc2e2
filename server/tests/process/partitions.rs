//! Partitions on the program itself: their homes when the number of shards changes.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::support::{Client, PASSWORD, THRONG, good, read, until};

/// A data folder, and the server on it while one runs.
struct Host {
    folder: tempfile::TempDir,
    child: Option<Child>,
    address: String,
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
    fn new(accounts: &[&str]) -> Host {
        let host = Host { folder: tempfile::tempdir().expect("a folder"), child: None, address: String::new() };
        for account in accounts {
            good(&host.run(&["user", "add", account, "--password", PASSWORD, "--domain", "localhost"]));
        }
        host
    }

    fn data(&self) -> &Path {
        self.folder.path()
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(THRONG).args(arguments).arg("--data").arg(self.data()).output().expect("throng runs")
    }

    fn log(&self) -> String {
        read(&self.data().join("out"))
    }

    fn start(&mut self, shards: &str) {
        let log = std::fs::File::create(self.data().join("out")).expect("a file");
        let child = Command::new(THRONG)
            .args(["serve", "--c2s", "127.0.0.1:0", "--c2s-tls", "off", "--plain-auth", "--shards", shards, "--data"])
            .arg(self.data())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .expect("throng starts");
        self.child = Some(child);
        until("a server that serves", || self.log().contains("Next:"));
        let log = self.log();
        let line = log.lines().find(|line| line.ends_with("STARTTLS")).expect("an address");
        self.address = line.split_whitespace().next().expect("an address").to_owned();
    }

    fn stop(&mut self) {
        good(&self.run(&["ctl", "shutdown"]));
        let status = self.child.take().expect("a server").wait().expect("a child");
        assert!(status.success());
    }

    fn client(&self, user: &str) -> Client {
        Client::connect(&self.address).log_in(user, PASSWORD, "r")
    }
}

/// What waits for users, and the order of what they are sent, survives each change of their homes.
#[test]
fn the_number_of_shards_may_change_between_starts() {
    let users: Vec<String> = (0..12).map(|n| format!("user{n}")).collect();
    let mut host = Host::new(&users.iter().map(String::as_str).collect::<Vec<_>>());
    let changes = [
        ("2", None),
        ("3", Some("shards=3 before=2 epoch=2 moved=1365")),
        ("3", None),
        ("1", Some("shards=1 before=3 epoch=3 moved=2730")),
        ("4", Some("shards=4 before=1 epoch=4 moved=3072")),
    ];
    for (round, (shards, spread)) in changes.into_iter().enumerate() {
        host.start(shards);
        let log = host.log();
        let told = log.lines().find(|line| line.contains("spread over the shards anew"));
        assert_eq!(told.is_some(), spread.is_some(), "{log}");
        assert!(spread.is_none_or(|spread| told.is_some_and(|told| told.contains(spread))), "{log}");
        // Nobody else is there: all of it waits.
        let mut sender = host.client("user0");
        for user in &users[1..] {
            for word in ["first", "last"] {
                let id = format!("{round}{user}{word}");
                sender.send(&format!("<message to='{user}@localhost' id='{id}'><body>{word}{round}</body></message>"));
            }
        }
        sender.ask("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
        if round % 2 == 0 {
            host.stop();
            continue;
        }
        for user in &users[1..] {
            let mut receiver = host.client(user);
            receiver.send("<presence/>");
            for earlier in [round - 1, round] {
                for word in ["first", "last"] {
                    receiver.hear(&format!("<body>{word}{earlier}</body>"));
                }
            }
            receiver.ask("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>", "id='p'");
        }
        host.stop();
    }
    good(&host.run(&["store", "check"]));
}

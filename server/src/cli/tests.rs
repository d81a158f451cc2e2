//! Command lines run in memory: a program without a server, captured streams, and a server
//! implemented as a table.

use std::io::Cursor;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::admin::socket::{AdminServer, Patience};
use crate::admin::{Existing, NewAccount, NewInvite, ScramKeys};

mod administrators;
mod memory;
mod moving;
mod rooms;

pub(crate) use memory::Memory;

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A data folder, a program, and the output of its commands.
struct Bench {
    folder: tempfile::TempDir,
    memory: Memory,
    terminal: bool,
    input: String,
}

struct Went {
    exit: Exit,
    out: String,
    err: String,
}

impl Bench {
    fn new() -> Bench {
        // The mode that the program creates, independent of the umask set by an earlier test in
        // this process.
        let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let folder = tempfile::Builder::new().permissions(owner_only).tempdir().expect("a folder");
        Bench { folder, memory: Memory::default(), terminal: false, input: String::new() }
    }

    fn data(&self) -> &str {
        self.folder.path().to_str().expect("a name")
    }

    /// Runs `throng` with the words of `line`.
    fn run(&self, line: &str) -> Went {
        let (out, err) = (Kept::default(), Kept::default());
        let mut io = Io {
            out: Box::new(out.clone()),
            err: Box::new(err.clone()),
            input: Some(Box::new(Cursor::new(self.input.clone().into_bytes()))),
            out_terminal: false,
            terminal: self.terminal,
            colours: false,
            ask_secret: |_| Ok(Secret::new("asked")),
            json: false,
            is_process: false,
        };
        let environment = Environment::from([("THRONG_DATA".to_owned(), self.data().to_owned())]);
        let words = std::iter::once("throng").chain(line.split_whitespace()).map(OsString::from);
        let exit = run(words, &environment, &mut io, &self.memory);
        let text = |kept: Kept| String::from_utf8(kept.0.lock().unwrap().clone()).expect("text");
        Went { exit, out: text(out), err: text(err) }
    }

    fn serve(&self) -> (FolderLock, AdminServer) {
        let path = self.folder.path();
        let lock = FolderLock::take(path, "serve").expect("free");
        let control = Arc::new(self.memory.clone());
        (lock, AdminServer::start(&path.join("throng.sock"), control, Patience::default()).expect("a socket"))
    }

    fn calls(&self) -> Vec<String> {
        self.memory.calls.lock().unwrap().clone()
    }
}

#[test]
fn every_flag_of_the_table_is_taken_and_beats_the_environment() {
    let bench = Bench::new();
    for row in crate::config::TABLE {
        // Some options are only valid with others.
        if matches!(row.key, "data" | "admin_socket" | "tls_certificate" | "tls_key") {
            continue;
        }
        let value = match row.key {
            "c2s" | "c2s_tls" => "127.0.0.1:1,127.0.0.1:2",
            _ => row.default,
        };
        let went = bench.run(&format!("config print --{}={value}", row.flag()));
        assert_eq!(went.exit, Exit::Done, "{}: {}", row.key, went.err);
        let line = went.out.lines().find(|line| line.starts_with(&format!("{} = ", row.key))).expect(row.key);
        assert!(line.ends_with(&format!("# flag --{}", row.flag())), "{line}");
        let line = went.out.lines().find(|line| line.starts_with("data = ")).expect("data");
        assert!(line.ends_with("# environment THRONG_DATA"), "{line}");
    }
}

#[test]
fn the_forms_that_scripts_rely_on_parse() {
    let bench = Bench::new();
    let line = format!(
        "serve --data {} --domain example.org --c2s 127.0.0.1:0 --c2s 127.0.0.2:5222 --c2s-tls 127.0.0.1:0 --shards 2 \
         --driver epoll --plain-auth --open-registration",
        bench.data()
    );
    let went = bench.run(&line);
    assert_eq!((went.exit, went.err.as_str()), (Exit::Done, ""));
    assert_eq!(bench.calls(), ["serve example.org"]);
    let went = bench.run("serve --c2s 0.0.0.0:5222 --plain-auth");
    assert_eq!(went.exit, Exit::Usage);
    assert!(went.err.contains("plain_auth: refused: 0.0.0.0:5222 is not loopback"), "{}", went.err);
    assert_eq!(bench.run("serve --c2s 0.0.0.0:5222 --plain-auth --i-know").exit, Exit::Done);
    std::fs::write(bench.folder.path().join("u.csv"), "romeo,x\n").unwrap();
    let went = bench.run(&format!("user import {0}/u.csv --data {0} --domain localhost", bench.data()));
    assert_eq!((went.exit, bench.memory.count()), (Exit::Done, 1), "{}", went.err);
}

#[test]
fn help_teaches_and_wrong_words_are_usage() {
    let bench = Bench::new();
    for line in
        ["--help", "serve --help", "user import --help", "invite --help", "ctl --help", "config --help", "store --help"]
    {
        let went = bench.run(line);
        assert!(went.exit == Exit::Done && went.out.contains("Examples:") && went.err.is_empty(), "{line}");
    }
    let (short, long) = (bench.run("serve -h").out, bench.run("serve --help").out);
    assert!(short.contains("--c2s-tls") && !short.contains("--backlog"), "{short}");
    assert!(long.contains("--backlog") && long.contains("THRONG_BACKLOG"), "{long}");
    assert!(bench.run("--help").out.contains("Exit codes:"));
    for line in ["", "sarve", "serve --shard-count 2", "user add", "ctl say hello", "user import f --existing no"] {
        let went = bench.run(line);
        assert!(went.exit == Exit::Usage && !went.err.is_empty(), "{line}: {}", went.err);
    }
}

#[test]
fn configuration_is_printed_checked_and_explained() {
    let bench = Bench::new();
    std::fs::write(bench.folder.path().join("throng.toml"), "shards = 3\n").unwrap();
    let went = bench.run("config print --json");
    let value: serde_json::Value = serde_json::from_str(&went.out).expect("JSON");
    assert_eq!(value["shards"]["value"], "3");
    assert!(value["shards"]["source"].as_str().expect("text").ends_with("throng.toml:1"));
    assert!(bench.run("config check").out.starts_with("good: "));
    let went = bench.run("config explain stanza-bytes-max");
    assert!(went.out.contains("allowed       10000 to 16MiB"), "{}", went.out);
    let went = bench.run("config explain stanza_byte_max");
    assert!(went.exit == Exit::Usage && went.err.contains("did you mean `stanza_bytes_max`?"));
    std::fs::write(bench.folder.path().join("throng.toml"), "shards = -3\n").unwrap();
    let went = bench.run("config check --json");
    let error: serde_json::Value = serde_json::from_str(&went.err).expect("JSON");
    assert_eq!((went.exit, &error["exit"]), (Exit::Usage, &2.into()));
    assert!(error["error"].as_str().expect("text").contains("throng.toml:1: shards cannot be `-3`"));
    // Options in conflict, with the remedy; the check and the server report the same.
    std::fs::write(bench.folder.path().join("throng.toml"), "outbound_bytes_soft = \"2MiB\"\n").unwrap();
    for command in ["config check", "serve"] {
        let went = bench.run(command);
        assert_eq!(went.exit, Exit::Usage, "{command}");
        let wanted = "outbound_bytes_soft: 2097152 bytes must be less than outbound_bytes_max, 2097152 bytes: lower";
        assert!(went.err.contains(wanted), "{command}: {}", went.err);
    }
}

/// The values are most needed when something is wrong: they are printed first, then the problems.
#[test]
fn values_that_do_not_go_together_are_printed_all_the_same() {
    let bench = Bench::new();
    let went = bench.run("config print --registration open --http 127.0.0.1:25280");
    assert_eq!(went.exit, Exit::Usage);
    assert!(went.out.contains("\nhttp = [\"127.0.0.1:25280\"]") && went.out.contains("# flag --http"), "{}", went.out);
    assert!(went.err.contains("a proxy may forward strangers to 127.0.0.1:25280"), "{}", went.err);
    let went = bench.run("config print --json --shards none");
    let value: serde_json::Value = serde_json::from_str(&went.out).expect("JSON");
    assert_eq!((went.exit, &value["shards"]["value"]), (Exit::Usage, &"auto".into()));
    assert!(went.err.contains("shards cannot be `none`"), "{}", went.err);
}

#[test]
fn extensions_are_switched_off_by_name() {
    let bench = Bench::new();
    let went = bench.run("config print --without csi --without carbons,last");
    assert!(went.out.contains("without = [\"last\", \"carbons\", \"csi\"]"), "{}{}", went.out, went.err);
    assert!(bench.run("config print").out.contains("without = []"));
    assert_eq!(bench.run("serve --without csi,carbons").exit, Exit::Done);
    for command in ["config check", "serve"] {
        let went = bench.run(&format!("{command} --without csi,carbns"));
        assert_eq!(went.exit, Exit::Usage, "{command}");
        let known = throng_engine::extension::OPTIONAL.join(", ");
        let wanted =
            format!("flag --without: without cannot be `csi,carbns`; allowed: any of {known}, separated by commas");
        assert!(went.err.contains(&wanted), "{command}: {}", went.err);
    }
}

#[test]
fn users_are_managed_in_a_store_at_rest() {
    let mut bench = Bench::new();
    users(&mut bench);
    assert!(bench.calls().iter().all(|call| call == "open") && !bench.calls().is_empty());
}

#[test]
fn users_are_managed_through_a_running_server_in_the_same_words() {
    let mut bench = Bench::new();
    let serving = bench.serve();
    users(&mut bench);
    assert!(bench.calls().is_empty(), "the store was opened beside its server");
    drop(serving);
}

fn users(bench: &mut Bench) {
    assert_eq!(bench.run("user add romeo --password pencil").out, "added romeo@localhost\n");
    let again = bench.run("user add romeo@localhost --password pencil");
    assert_eq!((again.exit, again.err.as_str()), (Exit::NotThere, "throng: account already exists: romeo@localhost\n"));
    bench.input = "from stdin\r\nmore\n".into();
    assert_eq!(bench.run("user passwd romeo --password-stdin").out, "changed romeo@localhost\n");
    let salt = *bench.memory.keys("romeo").credentials(0).anchor().salt().first_chunk::<16>().expect("16 bytes");
    let expected = ScramKeys::derive(&Secret::new("from stdin"), 10_000, &salt);
    assert_eq!(Ok(bench.memory.keys("romeo")), expected);
    assert_eq!(bench.run("user passwd nobody --password x").exit, Exit::NotThere);
    assert_eq!(bench.run("user add romeo@elsewhere --password x").exit, Exit::Usage);
    assert_eq!(bench.run("user add x --password x --domain elsewhere").exit, Exit::Usage);
    assert_eq!(bench.run("user add juliet").exit, Exit::Usage, "no terminal to ask on");
    bench.terminal = true;
    assert_eq!(bench.run("user add juliet --json").out, "{\"done\":\"added\",\"jid\":\"juliet@localhost\"}\n");
    assert_eq!(bench.run("user list").out, "juliet@localhost\nromeo@localhost\n");
    bench.input = "no\n".into();
    assert_eq!(bench.run("user del juliet").exit, Exit::Failed, "asked, and the answer was no");
    bench.input = "yes\n".into();
    assert_eq!(bench.run("user del juliet").out, "removed juliet@localhost\n");
    bench.terminal = false;
    assert_eq!(bench.run("user del juliet").exit, Exit::NotThere);
    bench.input = (0..1_500).map(|n| format!("u{n:04},{}\n", bench.memory.keys("romeo").reveal())).collect();
    let went = bench.run("user import - --json --existing error");
    let value: serde_json::Value = serde_json::from_str(&went.out).expect("JSON");
    assert_eq!((went.exit, &value["added"], &value["failed"]), (Exit::Done, &1_500.into(), &0.into()), "{}", went.err);
    assert_eq!(bench.run("user list").out.lines().count(), 1_501);
    bench.input = "bad\ngood,x\n".into();
    let went = bench.run("user import - --keep-going");
    assert_eq!(went.exit, Exit::Partly);
    assert!(went.err.contains("found 1 fields") && went.out.starts_with("1 added, 0 updated, 0 skipped, 1 failed"));
}

#[test]
fn people_are_invited_in_the_same_words_at_rest_and_at_a_running_server() {
    for running in [false, true] {
        let bench = Bench::new();
        let serving = running.then(|| bench.serve());
        let went = bench.run("invite");
        assert_eq!(
            (went.exit, went.out.as_str()),
            (Exit::Done, "xmpp:localhost?register;preauth=abc\n"),
            "{}",
            went.err
        );
        assert!(went.err.contains("throng invite revoke 01234567"), "{}", went.err);
        let went = bench.run("invite --user juliet --contact romeo@localhost --expires 12h --json");
        let value: serde_json::Value = serde_json::from_str(&went.out).expect("JSON");
        assert_eq!(value["uri"], "xmpp:localhost?register;preauth=abc");
        assert_eq!(bench.run("invite --uses 200 --at other.example").exit, Exit::Done);
        let asked = bench.memory.calls.lock().unwrap().clone();
        let made = |user: Option<&str>, contact: Option<&str>, domain: Option<&str>, uses, life_s| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            let (user, inviter, domain, befriends) = (own(user), own(contact), own(domain), contact.is_some());
            format!("invite {:?}", NewInvite { user, inviter, befriends, domain, uses, life_s, most: 0 })
        };
        for call in [
            made(None, None, None, 1, None),
            made(Some("juliet@localhost"), Some("romeo@localhost"), None, 1, Some(43_200)),
            made(None, None, Some("other.example"), 200, None),
        ] {
            assert!(asked.contains(&call), "{call} in {asked:?}");
        }
        for wrong in [
            "invite --uses 0",
            "invite --uses 2 --user juliet",
            "invite --expires 367d",
            "invite --user @localhost",
            "invite revoke",
            "invite --at x --contact romeo",
        ] {
            let went = bench.run(wrong);
            assert!(went.exit == Exit::Usage && !went.err.is_empty(), "{wrong}: {}", went.err);
        }
        let listed = bench.run("invite list").out;
        assert_eq!(listed.lines().count(), 3, "open ones below a heading: {listed}");
        assert_eq!(bench.run("invite list --all --json").out.lines().count(), 3);
        let went = bench.run("invite revoke aaa");
        assert!(went.exit == Exit::Usage && went.err.contains("aaa matches 2 invitations"), "{}", went.err);
        assert_eq!(bench.run("invite revoke ccc").exit, Exit::NotThere);
        let went = bench.run("invite revoke AAAB");
        assert_eq!(went.out, format!("revoked {}\n", "aaab".repeat(8)), "{}", went.err);
        let calls = bench.memory.calls.lock().unwrap().clone();
        assert!(calls.contains(&format!("revoke localhost {}", "aaab".repeat(8))), "{calls:?}");
        drop(serving);
    }
}

#[test]
fn accounts_that_wait_are_listed_approved_and_rejected() {
    for running in [false, true] {
        let mut bench = Bench::new();
        let serving = running.then(|| bench.serve());
        assert!(bench.run("user pending").out.contains("juliet@localhost"));
        let listed: serde_json::Value = serde_json::from_str(&bench.run("user pending --json").out).expect("JSON");
        assert_eq!((&listed["user"], &listed["address"]), (&"juliet@localhost".into(), &"192.0.2.1".into()));
        assert_eq!(bench.run("user approve juliet").out, "approved juliet@localhost\n");
        assert_eq!(bench.run("user approve ghost").exit, Exit::NotThere);
        bench.terminal = true;
        bench.input = "no\n".into();
        assert_eq!(bench.run("user reject juliet").exit, Exit::Failed, "asked, and the answer was no");
        assert_eq!(bench.run("user reject juliet --yes").out, "rejected juliet@localhost\n");
        drop(serving);
    }
}

#[test]
fn accounts_are_suspended_resumed_and_shown() {
    for running in [false, true] {
        let bench = Bench::new();
        let serving = running.then(|| bench.serve());
        assert_eq!(bench.run("user suspend juliet").out, "suspended juliet@localhost; 2 of its sessions ended\n");
        assert_eq!(bench.run("user resume juliet").out, "resumed juliet@localhost\n");
        assert_eq!(bench.run("user suspend ghost").exit, Exit::NotThere);
        let calls = bench.memory.calls.lock().unwrap().clone();
        let asked = ["suspend juliet@localhost true", "suspend juliet@localhost false"];
        assert!(asked.iter().all(|call| calls.contains(&(*call).to_owned())), "{calls:?}");
        let out = bench.run("user show juliet").out;
        for line in [
            "standing   suspended\n",
            "last seen  now\n",
            "juliet@localhost/orchard  192.0.2.1:5",
            "archive    at least 3072 KiB in 12 rows\n",
            "limits     account-stanzas (juliet@localhost), refused 7 times since",
        ] {
            assert!(out.contains(line), "{line}: {out}");
        }
        let shown: serde_json::Value = serde_json::from_str(&bench.run("user show juliet --json").out).expect("JSON");
        assert_eq!((&shown["standing"], &shown["stored"][0]["more"]), (&"suspended".into(), &true.into()));
        drop(serving);
    }
}

#[test]
fn partitions_are_counted_exported_and_imported() {
    let bench = Bench::new();
    let went = bench.run("store partitions");
    let lines: Vec<Vec<&str>> = went.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[1..4],
        [vec!["17", "1", "1", "3", "300"], vec!["4095", "-", "0", "4", "400"], vec!["together", "1", "7", "700"]]
    );
    assert!(went.out.ends_with("4096 partitions over 2 shards, map of epoch 2\n"), "{}", went.out);
    let value: serde_json::Value = serde_json::from_str(&bench.run("store partitions --json").out).expect("JSON");
    assert_eq!((&value["epoch"], &value["rows"], &value["partitions"][0]["users"]), (&2.into(), &7.into(), &1.into()));
    assert_eq!(value["partitions"].as_array().map(Vec::len), Some(2), "those without rows are left out");
    let value: serde_json::Value =
        serde_json::from_str(&bench.run("store partitions --json --partition 0-16").out).expect("JSON");
    assert_eq!((&value["partitions"][0]["rows"], &value["rows"]), (&0.into(), &0.into()), "unless they are asked for");

    assert_eq!(bench.run("store export x.export").exit, Exit::Usage, "which?");
    let went = bench.run("store export --partition 9000 x.export");
    assert!(went.exit == Exit::Usage && went.err.contains("from 0 to 4095"), "{}", went.err);
    let went = bench.run("store export --partition 16-18 --partition 2 --partition 17 x.export");
    assert_eq!(went.out, "rows                         7\nexport: good\n");
    assert_eq!(bench.run("store import").exit, Exit::Usage);
    assert_eq!(bench.run("store import x.export --abandon").exit, Exit::Usage);
    for arguments in ["x.export", "x.export --replace", "--abandon"] {
        assert_eq!(bench.run(&format!("store import {arguments}")).out, "import: good\n");
    }
    assert_eq!(
        bench.calls(),
        [
            "export [2, 16, 17, 18] x.export",
            "File { from: \"x.export\", replace: false }",
            "File { from: \"x.export\", replace: true }",
            "Abandon",
        ]
    );
    let _lock = FolderLock::take(bench.folder.path(), "serve").expect("free");
    for (command, help) in [
        ("partitions", "throng store backup DIR"),
        ("export --partition 1 x", "--data DIR"),
        ("import x", "stop it first"),
    ] {
        let went = bench.run(&format!("store {command}"));
        assert!(went.exit == Exit::InUse && went.err.contains(help), "{command}: {}", went.err);
    }
}

#[test]
fn a_store_is_migrated() {
    let bench = Bench::new();
    let went = bench.run("store migrate");
    assert_eq!(
        (went.out.as_str(), went.err.as_str()),
        ("the store has format 5\nmigrate: good\n", "changing the store\n")
    );
    let _lock = FolderLock::take(bench.folder.path(), "serve").expect("free");
    let went = bench.run("store migrate");
    assert!(went.exit == Exit::InUse && went.err.contains("stop it first"), "{}", went.err);
}

#[test]
fn a_folder_held_by_something_without_a_socket_is_not_touched() {
    let bench = Bench::new();
    let _lock = FolderLock::take(bench.folder.path(), "restore").expect("free");
    let went = bench.run("serve");
    assert_eq!(went.exit, Exit::InUse);
    assert!(went.err.contains(&format!("in use by another throng (restore {})", std::process::id())), "{}", went.err);
    assert_eq!(bench.run("store check").exit, Exit::InUse);
    assert_eq!(bench.run("store backup /nowhere").exit, Exit::InUse);
    assert!(bench.calls().is_empty());
}

#[test]
fn ctl_says_how_to_start_a_server_when_there_is_none() {
    let bench = Bench::new();
    let went = bench.run("ctl status");
    assert_eq!(went.exit, Exit::NoServer);
    assert!(went.err.contains("start one with `throng serve`"), "{}", went.err);
}

#[test]
fn ctl_commands_reach_a_running_server() {
    let bench = Bench::new();
    let (lock, server) = bench.serve();
    let status = bench.run("ctl status");
    assert!(status.out.contains("throng 9.9") && status.out.contains("127.0.0.1:5222 (STARTTLS)"), "{}", status.out);
    assert!(!status.out.contains("messages_in") && bench.run("ctl status --all").out.contains("  messages_in  "));
    let value: serde_json::Value = serde_json::from_str(&bench.run("ctl status --json").out).expect("JSON");
    assert_eq!((&value["domain"], &value["counters"]["messages_in"]), (&"localhost".into(), &12.into()));
    assert_eq!(bench.run("ctl sessions --json").out.lines().count(), 1_200);
    let table = bench.run("ctl sessions u0@localhost").out;
    assert!(table.starts_with("SESSION ") && table.contains("u0@localhost/r") && table.lines().count() == 2, "{table}");
    assert_eq!(bench.run("ctl kick romeo@localhost --reason update").out, "2 sessions ended\n");
    assert_eq!(bench.run("ctl kick ghost@localhost").exit, Exit::NotThere);
    assert_eq!(bench.run("ctl say --all noon --json").out, "{\"done\":\"said\",\"told\":3}\n");
    assert_eq!(bench.run("ctl say --to a@b --to c@d noon").exit, Exit::Done);
    let reloaded = "took effect: tls_certificate\nneeds a restart: shards\nremains as set at run \
                    time: log_level\n";
    assert_eq!(bench.run("ctl reload").out, reloaded);
    assert_eq!(bench.run("ctl shutdown --grace 7 --no-wait").exit, Exit::Done);
    assert_eq!(bench.run("ctl shutdown --after 2m").out, "stops in 2m00s\n");
    assert_eq!(bench.run("ctl shutdown --after 5 --json").out, "{\"done\":\"planned\",\"stops_in_s\":5}\n");
    assert_eq!(bench.run("ctl shutdown --cancel").out, "shutdown cancelled\n");
    for line in ["ctl shutdown --after 25h", "ctl shutdown --after 0", "ctl shutdown --cancel --after 5"] {
        assert_eq!(bench.run(line).exit, Exit::Usage, "{line}");
    }
    let calls = bench.calls();
    assert_eq!(
        calls,
        [
            "kick romeo@localhost Some(\"update\")",
            "kick ghost@localhost None",
            "say noon All",
            "say noon These([\"a@b\", \"c@d\"])",
            "shutdown Some(7s)",
            "shutdown None in 120s",
            "shutdown None in 5s",
            "shutdown cancel"
        ]
    );
    let stop = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        drop(server);
        drop(lock);
    });
    assert_eq!(bench.run("ctl shutdown").exit, Exit::Done, "waits until the socket is gone");
    stop.join().expect("stopped");
    assert!(!bench.folder.path().join("throng.sock").exists());
}

#[test]
fn knobs_are_listed_shown_set_and_reset() {
    let bench = Bench::new();
    let _serving = bench.serve();
    let list = bench.run(&format!("ctl knob list --data {}", bench.data())).out;
    let lines: Vec<&str> = list.lines().collect();
    assert!(
        lines[0].starts_with("KNOB ") && lines[1].ends_with(" set at run time, until 2023-11-14T22:13:20Z"),
        "{list}"
    );
    assert!(lines[2].ends_with(" set at run time"), "{list}");
    assert_eq!(lines[3], "2023-11-14T22:13:20Z log_level: info -> debug (control socket)");
    let listed = bench.run("ctl knob list --json").out;
    let first: serde_json::Value = serde_json::from_str(listed.lines().next().expect("a row")).expect("JSON");
    assert_eq!(first["key"], "log_level");
    assert!(bench.run("ctl knob get log-level").out.starts_with("log_level = debug\n"));
    assert_eq!(bench.run("ctl knob get shards").exit, Exit::Usage);
    let went = bench.run("ctl knob set log_level debug --for 10m");
    assert_eq!(went.out, "log_level: info -> debug, until 2023-11-14T22:23:20Z\n");
    assert_eq!(bench.run("ctl knob set log_level debug").out, "log_level: info -> debug\n");
    for wrong in ["ctl knob set log_level", "ctl knob set log_level x --for 0", "ctl knob set log_level x --for 31d"] {
        assert_eq!(bench.run(wrong).exit, Exit::Usage, "{wrong}");
    }
    assert_eq!(bench.run("ctl knob reset").exit, Exit::Usage);
    assert_eq!(bench.run("ctl knob reset --all").out, "nothing changed\n");
    assert_eq!(bench.run("ctl knob reset log_level").exit, Exit::Done);
    let calls =
        ["set log_level debug Some(600s)", "set log_level debug None", "reset None", "reset Some(\"log_level\")"];
    assert_eq!(bench.calls(), calls);
    assert!(bench.run("ctl status").out.contains("\nset          log_level = debug\n"));
    assert_eq!(bench.run("ctl housekeeping pause --for 1h").exit, Exit::Done);
    assert_eq!(bench.run("ctl housekeeping resume").exit, Exit::Done);
    assert_eq!(bench.run("ctl queue flush romeo@localhost").out, "2 connections cut\n");
    assert_eq!(bench.run("ctl waiting flush romeo@localhost").exit, Exit::Usage, "nobody can be asked");
    assert_eq!(bench.run("ctl waiting flush romeo@localhost --yes").out, "7 messages dropped\n");
    let listed = bench.run("ctl limits list").out;
    assert!(listed.contains("pair-logins") && listed.ends_with("and 3 more\n"), "{listed}");
    assert_eq!(bench.run("ctl limits release --address 2001:db8::7").out, "4 let go\n");
    assert_eq!(bench.run("ctl limits release --account romeo --json").out, "{\"done\":\"released\",\"released\":4}\n");
    for (who, whom) in [("192.0.2.7", "Address(192.0.2.7)"), ("romeo@localhost", "Account(\"romeo@localhost\")")] {
        assert_eq!(bench.run(&format!("ctl limits release {who}")).out, "4 let go\n");
        assert!(bench.calls().last().is_some_and(|call| call.contains(whom)), "{:?}", bench.calls());
    }
    let openings = bench.run("ctl connections").out;
    let rows: Vec<Vec<&str>> = openings.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [["ADDRESS", "CONNECTIONS"], ["192.0.2.7", "12"], ["2001:db8::/64", "1"]], "{openings}");
    let first = bench.run("ctl connections --json").out.lines().next().map(str::to_owned);
    assert_eq!(first.as_deref(), Some("{\"address\":\"192.0.2.7\",\"connections\":12}"));
    assert_eq!(bench.run("ctl limits release").exit, Exit::Usage, "nobody is named");
    assert_eq!(bench.run("ctl limits release romeo --all").exit, Exit::Usage);
    assert_eq!(bench.run("ctl limits release --all --account romeo").exit, Exit::Usage);
    assert_eq!(bench.run("ctl say --all --urgent now").exit, Exit::Done);
    let calls = [
        "set housekeeping false Some(3600s)",
        "set housekeeping true None",
        "flush romeo@localhost",
        "empty romeo@localhost",
        "release Address(2001:db8::7)",
        "release Account(\"romeo\")",
        "release Address(192.0.2.7)",
        "release Account(\"romeo@localhost\")",
        "say now All urgent",
    ];
    assert_eq!(bench.calls()[4..], calls);
}

#[test]
fn stores_are_checked_copied_and_restored() {
    let bench = Bench::new();
    let went = bench.run("store check");
    assert_eq!(went.exit, Exit::Failed);
    assert!(went.out.contains("a row without an owner") && went.err.contains("reading accounts"), "{}", went.out);
    assert_eq!(bench.run("store backup /backups/today").exit, Exit::Done);
    assert_eq!(bench.run("store restore /backups/today").exit, Exit::Done);
    let went = bench.run("store backup verify /backups/today");
    assert!(went.exit == Exit::Done && went.out.ends_with("backup verify: good\n"), "{}{}", went.out, went.err);
    let went = bench.run("store backup verify /backups/rotten");
    assert_eq!(went.exit, Exit::Failed);
    assert!(went.out.contains("wrong: store/tree/tables/0 at byte 7\n"), "{}", went.out);
    assert!(went.err.contains("store salvage --data /backups/rotten --into DIR"), "{}", went.err);
    let went = bench.run("store backup verify /backups/rotten --json");
    let value: serde_json::Value = serde_json::from_str(&went.out).expect("JSON");
    assert_eq!((&value["done"], &value["counts"]["files"]), (&"backup verify".into(), &5.into()));
    assert!(value["wrong"].is_array() && value["damage"].is_array() && value["notes"].is_array(), "{value}");
    assert_eq!(bench.run("store backup verify").exit, Exit::Usage);
    assert_eq!(bench.run("store backup").exit, Exit::Usage);
    let went = bench.run("store drill --from file:///live --scratch /var/tmp --age-max 30 --json");
    assert!(went.exit == Exit::Done && went.out.contains("\"age_s\":30"), "{}{}", went.out, went.err);
    let went = bench.run("store drill --from file:///live --scratch /var/tmp --age-max 29");
    assert!(went.exit == Exit::Failed && went.out.contains("30 s old, more than 29"), "{}{}", went.out, went.err);
    assert_eq!(bench.run("store restore --from file:///live --at 2023-11-14T22:13:20.5Z").exit, Exit::Done);
    for wrong in
        ["drill", "restore --at 2023-11-14T22:13:20Z", "restore /a --from file:///b", "restore --from u --at x"]
    {
        assert_eq!(bench.run(&format!("store {wrong}")).exit, Exit::Usage, "{wrong}");
    }
    let drilled = ["drill file:///live /var/tmp"; 2];
    let verified = ["verify /backups/today", "verify /backups/rotten", "verify /backups/rotten"];
    assert_eq!(
        bench.calls(),
        [
            &["copy /backups/today", "restore /backups/today"],
            &verified[..],
            &drilled,
            &["restore file:///live Some(1700000000500)"]
        ]
        .concat()
    );
    let _serving = bench.serve();
    let went = bench.run("store backup /backups/live --json");
    assert_eq!(went.out, "{\"counts\":{\"rows\":5},\"done\":\"backup\",\"wrong\":[]}\n", "{}", went.err);
    assert_eq!(bench.calls().last().map(String::as_str), Some("backup /backups/live"));
}

/// `throng ctl announce` waits until all sessions have been sent the announcement.
#[test]
fn announcements_are_made_and_withdrawn() {
    let bench = Bench::new();
    let _serving = bench.serve();
    assert_eq!(
        bench.run("ctl announce noon --later --for 2h --json").out,
        "{\"done\":\"announced\",\"kept\":true,\"told\":20}\n"
    );
    assert_eq!(bench.run("ctl announce --withdraw --json").out, "{\"done\":\"withdrawn\"}\n");
    let calls = bench.calls();
    assert_eq!(calls.iter().filter(|call| *call == "announced").count(), 3);
    assert!(calls.contains(&"announce noon true Some(7200s)".to_owned()) && calls.contains(&"withdraw".to_owned()));
    for line in ["ctl announce", "ctl announce a --for 2h", "ctl announce a --only-later", "ctl announce a --withdraw"]
    {
        assert_eq!(bench.run(line).exit, Exit::Usage, "{line}");
    }
    assert_eq!(bench.run("ctl announce a --later --for 367d").exit, Exit::Usage);
}

/// Puts a file into the upload folder in the server's layout.
fn uploaded(bench: &Bench, id: &str, owner: &str, came_s: u64) {
    let about = serde_json::json!({
        "owner": owner, "account": "0000000000000007", "name": "a b.jpg", "content_type": "image/jpeg", "size": 3,
        "came_s": came_s, "expires_s": u64::MAX,
    });
    let about = about.to_string();
    let length = u32::try_from(about.len()).expect("short").to_be_bytes();
    let folder = bench.folder.path().join("upload").join(&id[..2]);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join(id), [b"THRNGUP1", &length[..], about.as_bytes(), b"abc"].concat()).expect("written");
}

#[test]
fn uploaded_files_are_listed_and_purged_by_what_is_asked_for() {
    let bench = Bench::new();
    assert_eq!(bench.run("upload list").out.lines().count(), 1, "a heading alone");
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later").as_secs();
    let ids = ["00", "7f", "ff"].map(|begin| format!("{begin}{}", "0".repeat(30)));
    uploaded(&bench, &ids[0], "romeo@localhost", now_s);
    uploaded(&bench, &ids[1], "romeo@localhost", now_s - 3 * 86_400);
    uploaded(&bench, &ids[2], "juliet@localhost", now_s);
    std::fs::write(bench.folder.path().join("upload/00").join(format!("00{}", "1".repeat(30))), b"")
        .expect("a damaged one");
    let listed = bench.run("upload list");
    assert_eq!((listed.exit, listed.out.lines().count()), (Exit::Done, 5), "{}", listed.out);
    assert!(listed.out.contains("a b.jpg") && listed.out.contains("damaged"), "{}", listed.out);
    let listed = bench.run("upload list --user romeo --json");
    assert_eq!(listed.out.lines().count(), 2, "{}", listed.out);
    assert!(listed.out.contains(&format!("\"file\":\"{}\"", ids[0])), "{}", listed.out);

    let refused = bench.run("upload purge");
    assert!(refused.exit == Exit::Usage && refused.err.contains("--all"), "{}", refused.err);
    assert_eq!(bench.run("upload purge --all --user romeo").exit, Exit::Usage);
    let gone = bench.run("upload purge --file ../../throng.toml");
    assert_eq!((gone.exit, &*gone.out), (Exit::NotThere, "removed 0 files, 0 B\n"));
    assert!(bench.run("upload purge --user romeo --older-than 2").out.starts_with("removed 1 file,"));
    assert!(bench.run(&format!("upload purge --file {}", ids[2])).out.starts_with("removed 1 file,"));
    assert_eq!(bench.run("upload list").out.lines().count(), 3);
    assert!(bench.run("upload purge --all --json").out.contains("\"files\":2"));
    assert_eq!(bench.run("upload list").out.lines().count(), 1);
}

#[test]
fn somebody_at_a_terminal_is_asked_before_files_are_purged() {
    let mut bench = Bench::new();
    uploaded(&bench, &"a".repeat(32), "romeo@localhost", 0);
    (bench.terminal, bench.input) = (true, "no\n".into());
    assert_eq!(bench.run("upload purge --all").exit, Exit::Failed);
    assert!(bench.run("upload purge --all --yes").out.starts_with("removed 1 file,"));
}

/// docs/promise.md: a former name is a flag that help does not show, and a key of `config explain`.
#[test]
fn a_former_name_of_an_option_works_on_the_command_line() {
    let bench = Bench::new();
    let went = bench.run("config print --accept-queue 301");
    assert_eq!(went.exit, Exit::Done, "{}", went.err);
    assert!(went.out.lines().any(|line| line.starts_with("backlog = 301 ")), "{}", went.out);
    assert!(
        went.err.starts_with("warning: flag --accept-queue: `accept_queue` is now called `backlog`"),
        "{}",
        went.err
    );
    assert!(bench.run("config explain accept_queue").out.starts_with("backlog\n"));
    let help = bench.run("serve --help").out;
    assert!(help.contains("--backlog") && !help.contains("--accept-queue"));
}

/// docs/promise.md: what a report of a fault and an upgrade need to know of a build.
#[test]
fn the_version_names_formats_build_and_drivers() {
    let bench = Bench::new();
    let short = format!("throng {}\n", env!("CARGO_PKG_VERSION"));
    for line in ["version", "--version", "-V"] {
        assert_eq!(bench.run(line).out, short, "{line}");
    }
    let long = bench.run("version --verbose").out;
    assert!(long.starts_with(&short), "{long}");
    for line in ["--version --verbose", "--verbose --version"] {
        assert_eq!(bench.run(line).out, long, "{line}");
    }
    // The commands that are run without data take no option of a server.
    assert_eq!(bench.run("--verbose user list").exit, Exit::Usage);

    let json = bench.run("version --verbose --json").out;
    assert_eq!(bench.run("--version --verbose --json").out, json);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let numbers = ["store_format", "store_format_oldest", "codec_format", "codec_format_oldest"];
    assert_eq!(
        numbers.map(|name| value[name].as_u64()),
        [crate::disk::format::FORMAT_VERSION, crate::disk::format::FORMAT_OLDEST, 1, 1].map(|n| Some(u64::from(n)))
    );
    // The test's own build: of this workspace, so the lock file was there.
    assert!(text("compiler").starts_with("rustc 1."), "{json}");
    assert!(text("target").contains("linux"), "{json}");
    assert!(["dev", "release", "dist"].contains(&&*text("build_profile")), "{json}");
    assert!(text("tls_library").starts_with("rustls 0.") && text("tls_cryptography").starts_with("ring 0."), "{json}");
    assert_eq!(value["drivers"]["epoll"]["available"], true);
    let uring = &value["drivers"]["io_uring"];
    assert_ne!(uring["available"] == true, uring["reason"].is_string(), "{json}");
    for shown in ["compiler", "target", "build_profile", "tls_library", "kernel"] {
        assert!(long.contains(&text(shown)), "{shown}: {long}");
    }
}

/// docs/json.md: answers are one object per line, a command that changes something reports what it
/// did, and an error is an object, too.
#[test]
fn answers_in_json_are_one_object_a_line() {
    let mut bench = Bench::new();
    let serving = bench.serve();
    assert_eq!(bench.run("user add romeo --password pencil").exit, Exit::Done);
    bench.input = "a,x\n".into();
    let reading = [
        "version",
        "version --verbose",
        "config print",
        "config check",
        "config explain",
        "config explain c2s",
        "user list",
        "user pending",
        "user show romeo",
        "invite list --all",
        "report list",
        "ctl status",
        "ctl status --all",
        "ctl sessions",
        "ctl components",
        "ctl connections",
        "ctl limits list",
        "ctl knob list",
        "ctl knob get log_level",
    ];
    let doing = [
        "user add juliet --password x",
        "user passwd romeo --password y",
        "user del juliet --yes",
        "user import - --existing skip",
        "user approve juliet",
        "user suspend romeo",
        "user resume romeo",
        "invite",
        "invite revoke AAAB",
        "report dismiss --all",
        "ctl kick romeo@localhost",
        "ctl say --all noon",
        "ctl announce noon --later",
        "ctl announce --withdraw",
        "ctl queue flush romeo@localhost",
        "ctl waiting flush romeo@localhost --yes",
        "ctl limits release --all",
        "ctl knob set log_level debug",
        "ctl knob reset log_level",
        "ctl reload",
        "ctl shutdown --after 5",
        "ctl shutdown --cancel",
        "ctl shutdown --no-wait",
        "store backup /backups/live",
    ];
    let wrong = ["user del nobody --yes", "ctl kick", "ctl knob get shards", "what", "ctl limits release"];
    for line in reading.iter().chain(&doing) {
        let went = bench.run(&format!("{line} --json"));
        assert_eq!(went.exit, Exit::Done, "{line}: {}", went.err);
        assert!(!went.out.is_empty(), "{line} says nothing");
        for answer in went.out.lines() {
            let value: serde_json::Value = serde_json::from_str(answer).unwrap_or_else(|_| panic!("{line}: {answer}"));
            let object = value.as_object().unwrap_or_else(|| panic!("{line}: {answer}"));
            assert_eq!(
                doing.contains(line),
                object.get("done").is_some_and(|done| done.is_string()),
                "{line}: {answer}"
            );
            let snake = |name: &String| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            assert!(object.keys().all(snake), "{line}: {answer}");
        }
    }
    for line in wrong {
        let went = bench.run(&format!("{line} --json"));
        let last = went.err.lines().last().unwrap_or_default();
        let error: serde_json::Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{line}: {}", went.err));
        assert!(error["error"].as_str().is_some_and(|text| !text.is_empty()), "{line}: {last}");
        assert_eq!(error["exit"], went.exit as u8, "{line}: {last}");
    }
    drop(serving);
}

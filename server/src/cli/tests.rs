//! Command lines run in memory: a program without a server, streams that are kept, a server that is a table.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::admin::socket::{AdminServer, Patience};
use crate::admin::trace;
use crate::admin::{
    AccountRow, Announced, ApplicantRow, Audience, BackupState, ComponentRow, Control, Existing, Held, HeldRow,
    InviteRow, Invited, KnobChange, KnobRow, Listening, NewAccount, NewInvite, Page, Put, Release, Reloaded, ScramKeys,
    SessionRow, Status,
};
use crate::events::{Event, What};

mod moving;

/// Accounts, and a server, in memory.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    pub(super) accounts: Arc<Mutex<BTreeMap<String, ScramKeys>>>,
    pub(super) calls: Arc<Mutex<Vec<String>>>,
    /// After this many accounts every put fails.
    pub(super) fails_after: Option<usize>,
    /// Of this process.
    pub(super) profiles: Arc<crate::profile::Profiles>,
}

impl Memory {
    pub(super) fn keys(&self, user: &str) -> ScramKeys {
        self.accounts.lock().unwrap()[&format!("{user}@localhost")].clone()
    }

    pub(super) fn count(&self) -> usize {
        self.accounts.lock().unwrap().len()
    }

    fn note(&self, call: impl Into<String>) {
        self.calls.lock().unwrap().push(call.into());
    }
}

impl Accounts for Memory {
    fn domain(&self) -> Result<String, Fault> {
        Ok("localhost".into())
    }

    fn put(&self, batch: Vec<NewAccount>, existing: Existing) -> Result<Vec<Put>, Fault> {
        let mut accounts = self.accounts.lock().unwrap();
        if self.fails_after.is_some_and(|most| accounts.len() >= most) {
            return Err(Fault::new(FaultKind::Internal, "the disk is on fire"));
        }
        let put = |NewAccount { user, keys }| {
            if !user.ends_with("@localhost") {
                return Put::Invalid("elsewhere is not served here".into());
            }
            if user.contains(' ') {
                return Put::Invalid("a space is not allowed in a localpart (RFC 7622 3.3)".into());
            }
            match (accounts.contains_key(&user), existing) {
                (true, Existing::Refuse) => return Put::Exists,
                (true, Existing::Skip) => return Put::Skipped,
                (false, Existing::Require) => return Put::Missing,
                _ => {}
            }
            match accounts.insert(user, keys) {
                Some(_) => Put::Updated,
                None => Put::Added,
            }
        };
        Ok(batch.into_iter().map(put).collect())
    }

    fn delete(&self, user: &str) -> Result<(), Fault> {
        let gone = self.accounts.lock().unwrap().remove(user);
        gone.map(drop).ok_or_else(|| Fault::new(FaultKind::NotFound, format!("there is no {user}")))
    }

    fn list(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault> {
        let accounts = self.accounts.lock().unwrap();
        let users = accounts.keys().filter(|user| after.is_none_or(|after| user.as_str() > after));
        let rows: Vec<AccountRow> = users.take(limit).map(|user| AccountRow { user: user.clone() }).collect();
        let next = (rows.len() == limit).then(|| rows[limit - 1].user.clone());
        Ok(Page { rows, next })
    }

    fn invite(&self, new: &NewInvite) -> Result<Invited, Fault> {
        self.note(format!("invite {new:?}"));
        let uri = "xmpp:localhost?register;preauth=abc".into();
        Ok(Invited { uri, id: "0123456789abcdef0123456789abcdef".into(), until_s: u64::MAX, ..Invited::default() })
    }

    /// Three, of which two begin alike, in two pages.
    fn invitations(&self, after: Option<&str>, _: usize) -> Result<Page<InviteRow>, Fault> {
        let row = |id: &str, state: &str| InviteRow {
            id: id.repeat(8),
            actor: "localhost".into(),
            state: state.into(),
            registers: true,
            until_s: u64::MAX,
            ..InviteRow::default()
        };
        Ok(match after {
            None => Page { rows: vec![row("aaab", "open"), row("aaac", "open")], next: Some("more".into()) },
            Some(_) => Page { rows: vec![row("bbbb", "used")], next: None },
        })
    }

    fn revoke(&self, actor: &str, id: &str) -> Result<(), Fault> {
        self.note(format!("revoke {actor} {id}"));
        Ok(())
    }

    fn applicants(&self) -> Result<Vec<ApplicantRow>, Fault> {
        Ok(vec![ApplicantRow { user: "juliet@localhost".into(), since_s: 0, address: "192.0.2.1".into() }])
    }

    fn decide(&self, user: &str, approve: bool) -> Result<(), Fault> {
        self.note(format!("decide {user} {approve}"));
        match user {
            "ghost@localhost" => Err(Fault::new(FaultKind::NotFound, "ghost@localhost does not wait")),
            _ => Ok(()),
        }
    }
}

impl Control for Memory {
    fn status(&self) -> Status {
        let listeners = vec![Listening {
            address: "127.0.0.1:5222".into(),
            direct_tls: false,
            proxied: false,
            component: false,
            http: false,
        }];
        let counters = BTreeMap::from([("messages_in".to_owned(), 12)]);
        let key = || "log_level".to_owned();
        let what = What::Knob { key: key(), from: "info".into(), to: "debug".into(), until_s: None };
        let events = vec![Event { number: 1, at_s: 1_700_000_000, by: "control socket".into(), what }];
        let knobs_set = vec![KnobRow { key: key(), value: "debug".into(), ..KnobRow::default() }];
        let (version, domain) = ("9.9".into(), "localhost".into());
        Status { version, domain, listeners, counters, knobs_set, events, ..Status::default() }
    }

    /// 1,200 sessions, numbered.
    fn sessions(&self, of: Option<&str>, after: Option<&str>, limit: usize) -> Result<Page<SessionRow>, Fault> {
        let from = after.map_or(0, |after| after.parse().expect("ours"));
        let all = if of.is_some() { 1 } else { 1_200 };
        let to = all.min(from + limit);
        let row = |at| SessionRow { jid: format!("u{at}@localhost/r"), ..SessionRow::default() };
        Ok(Page { rows: (from..to).map(row).collect(), next: (to < all).then(|| to.to_string()) })
    }

    fn kick(&self, jid: &str, reason: Option<&str>) -> Result<u64, Fault> {
        self.note(format!("kick {jid} {reason:?}"));
        match jid {
            "ghost@localhost" => Err(Fault::new(FaultKind::NotFound, "ghost@localhost has no session")),
            _ => Ok(2),
        }
    }

    fn say(&self, text: &str, to: &Audience, urgent: bool) -> Result<u64, Fault> {
        self.note(format!("say {text} {to:?}{}", if urgent { " urgent" } else { "" }));
        Ok(3)
    }

    fn announce(&self, text: &str, online: bool, later: Option<Duration>) -> Result<(), Fault> {
        self.note(format!("announce {text} {online} {later:?}"));
        Ok(())
    }

    fn components(&self) -> Result<Vec<ComponentRow>, Fault> {
        let row = |domain: &str| ComponentRow { domain: domain.into(), ..ComponentRow::default() };
        let echo = ComponentRow {
            connected: true,
            address: Some("127.0.0.1:40000".into()),
            stanzas_in: 12,
            waiting: 3,
            ..row("echo.localhost")
        };
        Ok(vec![echo, row("irc.localhost")])
    }

    /// Over with the second look after it has begun.
    fn announced(&self) -> Result<Announced, Fault> {
        let looks = self.calls.lock().unwrap().iter().filter(|call| *call == "announced").count() as u64;
        self.note("announced");
        Ok(Announced { told: 10 * looks, done: looks > 1 })
    }

    fn withdraw_announcement(&self) -> Result<(), Fault> {
        self.note("withdraw");
        Ok(())
    }

    fn limits(&self) -> Result<Held, Fault> {
        let row = HeldRow {
            limit: "pair-logins".into(),
            who: "192.0.2.7 romeo@localhost".into(),
            since_s: 1_700_000_000,
            until_s: Some(1_700_000_060),
            refused: 12,
        };
        Ok(Held { rows: vec![row], more: 3 })
    }

    fn release(&self, whom: &Release) -> Result<u64, Fault> {
        self.note(format!("release {whom:?}"));
        Ok(4)
    }

    fn flush_waiting(&self, jid: &str) -> Result<u64, Fault> {
        self.note(format!("empty {jid}"));
        Ok(7)
    }

    fn flush_queue(&self, jid: &str) -> Result<u64, Fault> {
        self.note(format!("flush {jid}"));
        Ok(2)
    }

    /// One page, then the end.
    fn trace(&self, ask: trace::Ask) -> Result<trace::Told, Fault> {
        self.note(format!("{ask:?}"));
        Ok(match ask {
            trace::Ask::Begin { jid, .. } => trace::Told::Begun { trace: 7, jid, sessions: 1 },
            trace::Ask::Fetch { .. } => trace::Told::Page(trace::Page { over: true, ..trace::Page::default() }),
            trace::Ask::End { .. } => trace::Told::Ended {},
        })
    }

    fn shutdown(&self, grace: Option<Duration>) -> Result<(), Fault> {
        self.note(format!("shutdown {grace:?}"));
        Ok(())
    }

    fn reload(&self) -> Result<Reloaded, Fault> {
        let overridden = vec!["log_level".into()];
        Ok(Reloaded { applied: vec!["tls_certificate".into()], waiting: vec!["shards".into()], overridden })
    }

    fn knobs(&self) -> Vec<KnobRow> {
        let row = |key: &str, until_s| KnobRow {
            key: key.into(),
            value: "debug".into(),
            source: "set at run time".into(),
            until_s,
            ..KnobRow::default()
        };
        vec![row("log_level", Some(1_700_000_000)), row("shutdown_grace_seconds", None)]
    }

    fn set_knob(&self, key: &str, value: &str, lasting: Option<Duration>) -> Result<Vec<KnobChange>, Fault> {
        self.note(format!("set {key} {value} {lasting:?}"));
        let (from, until_s) = ("info".into(), lasting.map(|lasting| 1_700_000_000 + lasting.as_secs()));
        Ok(vec![KnobChange { key: key.into(), from, to: value.into(), until_s }])
    }

    fn reset_knobs(&self, key: Option<&str>) -> Result<Vec<KnobChange>, Fault> {
        self.note(format!("reset {key:?}"));
        Ok(Vec::new())
    }

    fn profile(&self, ask: crate::profile::Ask) -> Result<crate::profile::Told, Fault> {
        self.profiles.answer(ask).map_err(|refused| Fault::new(FaultKind::Busy, format!("{refused:?}")))
    }

    fn backup(&self, to: &str) -> Result<BackupState, Fault> {
        self.note(format!("backup {to}"));
        Ok(BackupState { rows: 5, done: self.calls.lock().unwrap().len() > 1 })
    }
}

impl Program for Memory {
    fn serve(&self, loaded: Loaded, _: LogHandle, _: FolderLock) -> Result<(), Failure> {
        self.note(format!("serve {}", loaded.config.domain));
        Ok(())
    }

    fn accounts(&self, _: &Config, _: &FolderLock, _: Access, _: Option<&str>) -> Result<Box<dyn Accounts>, Failure> {
        self.note("open");
        Ok(Box::new(self.clone()))
    }

    fn check(&self, _: &Config, _: &FolderLock, say: Say<'_>) -> Result<StoreReport, Failure> {
        say("reading accounts");
        let (counts, wrong) = (vec![("accounts".into(), 4)], vec!["a row without an owner".into()]);
        Ok(StoreReport { counts, wrong, ..StoreReport::default() })
    }

    fn backup(&self, _: &Config, _: &FolderLock, to: &Path, _: Say<'_>) -> Result<StoreReport, Failure> {
        self.note(format!("copy {}", to.display()));
        Ok(StoreReport::default())
    }

    fn verify(&self, from: &Path, _: Say<'_>) -> Result<StoreReport, Failure> {
        self.note(format!("verify {}", from.display()));
        let wrong = if from.ends_with("rotten") { vec!["store/tree/tables/0 at byte 7".into()] } else { Vec::new() };
        Ok(StoreReport { counts: vec![("files".into(), 5)], wrong, ..StoreReport::default() })
    }

    fn salvage(&self, _: &Config, _: &FolderLock, into: &Path, _: Say<'_>) -> Result<StoreReport, Failure> {
        self.note(format!("salvage {}", into.display()));
        Ok(StoreReport::default())
    }

    fn restore(&self, _: &FolderLock, from: &Path, _: Say<'_>) -> Result<StoreReport, Failure> {
        self.note(format!("restore {}", from.display()));
        Ok(StoreReport::default())
    }

    fn partitions(&self, _: &Config, _: &FolderLock, _: Say<'_>) -> Result<Partitions, Failure> {
        let count =
            |partition, rows| PartitionCount { partition, rows, bytes: rows * 100, ..PartitionCount::default() };
        let owned = PartitionCount { shard: Some(1), users: 1, ..count(17, 3) };
        Ok(Partitions { epoch: Some(2), shards: Some(2), counts: vec![count(0, 0), owned, count(4095, 4)] })
    }

    fn export(&self, _: &Config, _: &FolderLock, which: &[u16], to: &Path, _: Say<'_>) -> Result<StoreReport, Failure> {
        self.note(format!("export {which:?} {}", to.display()));
        Ok(StoreReport { counts: vec![("rows".into(), 7)], ..StoreReport::default() })
    }

    fn import(&self, _: &Config, _: &FolderLock, import: Import<'_>, _: Say<'_>) -> Result<StoreReport, Failure> {
        self.note(format!("{import:?}"));
        Ok(StoreReport::default())
    }

    fn leave(&self, _: &Config, _: &FolderLock, leave: &Leave<'_>, _: Say<'_>) -> Result<Summary, Failure> {
        self.note(format!("{leave:?}"));
        let mut summary = Summary::default();
        summary.users = 2;
        Ok(summary)
    }

    fn arrive(
        &self,
        _: &Config,
        lock: Option<&FolderLock>,
        arrive: &Arrive<'_>,
        _: Say<'_>,
    ) -> Result<(Summary, Result<(), Failure>), Failure> {
        self.note(format!("{arrive:?} {}", if lock.is_some() { "locked" } else { "not locked" }));
        let end = if arrive.from.ends_with("cut.xml") { Err(Failure::failed("cut.xml:7: it ends")) } else { Ok(()) };
        let mut summary = Summary::default();
        (summary.users, summary.left) = (3, u64::from(arrive.from.ends_with("odd.xml")));
        Ok((summary, end))
    }

    fn migrate(&self, _: &Config, _: &FolderLock, say: Say<'_>) -> Result<StoreReport, Failure> {
        say("changing the store");
        Ok(StoreReport { notes: vec!["the store has format 5".into()], ..StoreReport::default() })
    }

    fn certificate(&self, _: &Config) -> Result<Option<crate::tls::Standing>, Failure> {
        Ok(None)
    }

    fn bench(&self, _plan: &crate::bench::Plan, _say: Say<'_>) -> Result<serde_json::Value, Failure> {
        Err(Failure::failed("there is no server in memory"))
    }
}

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

/// A data folder, a program, and how its commands went.
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
        // As the program makes it: whether an earlier test has set the mask of this process changes nothing.
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
        // Some options only go with others.
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
    assert!(went.err.contains("plain_auth: refused on 0.0.0.0:5222"), "{}", went.err);
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
    // Options that do not go together, for the check and for the server alike, with what to do about them.
    std::fs::write(bench.folder.path().join("throng.toml"), "outbound_bytes_soft = \"2MiB\"\n").unwrap();
    for command in ["config check", "serve"] {
        let went = bench.run(command);
        assert_eq!(went.exit, Exit::Usage, "{command}");
        let wanted = "outbound_bytes_soft: 2097152 bytes must be less than outbound_bytes_max, 2097152 bytes: lower";
        assert!(went.err.contains(wanted), "{command}: {}", went.err);
    }
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
    assert_eq!((again.exit, again.err.as_str()), (Exit::NotThere, "throng: romeo@localhost is there already\n"));
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
    assert!(went.err.contains("line 1: 1 fields") && went.out.starts_with("1 added, 0 updated, 0 skipped, 1 failed"));
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
        assert!(went.exit == Exit::Usage && went.err.contains("2 invitations begin with aaa"), "{}", went.err);
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
fn partitions_are_counted_exported_and_imported() {
    let bench = Bench::new();
    let went = bench.run("store partitions");
    let lines: Vec<Vec<&str>> = went.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[1..4],
        [vec!["17", "1", "1", "3", "300"], vec!["4095", "-", "0", "4", "400"], vec!["together", "1", "7", "700"]]
    );
    assert!(went.out.ends_with("4096 partitions over 2 shards, by the map of epoch 2\n"), "{}", went.out);
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
    let value: serde_json::Value = serde_json::from_str(&bench.run("ctl status --json").out).expect("JSON");
    assert_eq!((&value["domain"], &value["counters"]["messages_in"]), (&"localhost".into(), &12.into()));
    assert_eq!(bench.run("ctl sessions --json").out.lines().count(), 1_200);
    let table = bench.run("ctl sessions u0@localhost").out;
    assert!(table.starts_with("SESSION ") && table.contains("u0@localhost/r") && table.lines().count() == 2, "{table}");
    assert_eq!(bench.run("ctl kick romeo@localhost --reason update").out, "2 sessions ended\n");
    assert_eq!(bench.run("ctl kick ghost@localhost").exit, Exit::NotThere);
    assert_eq!(bench.run("ctl say --all noon --json").out, "{\"told\":3}\n");
    assert_eq!(bench.run("ctl say --to a@b --to c@d noon").exit, Exit::Done);
    let reloaded = "took effect: tls_certificate\nwaits for a restart: shards\nstays as set at run time: log_level\n";
    assert_eq!(bench.run("ctl reload").out, reloaded);
    assert_eq!(bench.run("ctl shutdown --grace 7 --no-wait").exit, Exit::Done);
    let calls = bench.calls();
    assert_eq!(
        calls,
        [
            "kick romeo@localhost Some(\"update\")",
            "kick ghost@localhost None",
            "say noon All",
            "say noon These([\"a@b\", \"c@d\"])",
            "shutdown Some(7s)"
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
    let value: serde_json::Value = serde_json::from_str(&bench.run("ctl knob list --json").out).expect("JSON");
    assert_eq!((&value["knobs"][0]["key"], &value["events"][0]["number"]), (&"log_level".into(), &1.into()));
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
    assert!(bench.run("ctl status").out.contains("\nset         log_level = debug\n"));
    assert_eq!(bench.run("ctl housekeeping pause --for 1h").exit, Exit::Done);
    assert_eq!(bench.run("ctl housekeeping resume").exit, Exit::Done);
    assert_eq!(bench.run("ctl queue flush romeo@localhost").out, "2 connections cut\n");
    assert_eq!(bench.run("ctl waiting flush romeo@localhost").exit, Exit::Usage, "nobody can be asked");
    assert_eq!(bench.run("ctl waiting flush romeo@localhost --yes").out, "7 messages dropped\n");
    let listed = bench.run("ctl limits list").out;
    assert!(listed.contains("pair-logins") && listed.ends_with("and 3 more\n"), "{listed}");
    assert_eq!(bench.run("ctl limits release --address 2001:db8::7").out, "4 let go\n");
    assert_eq!(bench.run("ctl limits release --account romeo --json").out, "{\"released\":4}\n");
    assert_eq!(bench.run("ctl limits release").exit, Exit::Usage, "nobody is named");
    assert_eq!(bench.run("ctl limits release --all --account romeo").exit, Exit::Usage);
    assert_eq!(bench.run("ctl say --all --urgent now").exit, Exit::Done);
    let calls = [
        "set housekeeping false Some(3600s)",
        "set housekeeping true None",
        "flush romeo@localhost",
        "empty romeo@localhost",
        "release Address(2001:db8::7)",
        "release Account(\"romeo\")",
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
    let verified = ["verify /backups/today", "verify /backups/rotten", "verify /backups/rotten"];
    assert_eq!(bench.calls(), [&["copy /backups/today", "restore /backups/today"], &verified[..]].concat());
    let _serving = bench.serve();
    let went = bench.run("store backup /backups/live --json");
    assert_eq!(went.out, "{\"counts\":{\"rows\":5},\"done\":\"backup\",\"wrong\":[]}\n", "{}", went.err);
    assert_eq!(bench.calls().last().map(String::as_str), Some("backup /backups/live"));
}

/// `throng ctl announce` waits until all have been told.
#[test]
fn announcements_are_made_and_withdrawn() {
    let bench = Bench::new();
    let _serving = bench.serve();
    assert_eq!(bench.run("ctl announce noon --later --for 2h --json").out, "{\"kept\":true,\"told\":20}\n");
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

/// Administrators who are users are served by the same code.
#[test]
fn orders_of_administrators_are_requests_of_operators_xep0133() {
    use throng_engine::orders::{Order, Outcome, Wanted, Why};
    use throng_engine::store::account::Credentials;
    let memory = Memory::default();
    let order = |what: Wanted| {
        let order = Order { by: "romeo@localhost/r".into(), what };
        crate::admin::users::carry_out(&memory, &order)
    };
    let credentials = Box::new(Credentials::derive("s3cret", 4_096, &[7; 16], 0).expect("keys"));
    let put = |create| Wanted::Put { account: "paris@localhost".into(), credentials: credentials.clone(), create };
    let why = |outcome: Outcome| match outcome {
        Outcome::Refused { why, .. } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(order(put(false))), Why::NotFound);
    assert_eq!(order(put(true)), Outcome::Done);
    assert_eq!(why(order(put(true))), Why::Exists);
    assert_eq!(order(put(false)), Outcome::Done);
    assert_eq!(memory.keys("paris").credentials(0), credentials.clone().made_at(0));
    assert_eq!(order(Wanted::CountRegistered), Outcome::Count(1));
    assert_eq!(order(Wanted::CountOnline), Outcome::Count(0));
    let Outcome::Users { jids, next } = order(Wanted::ListOnline { after: Some("1190".into()), most: 5 }) else {
        panic!("no list");
    };
    assert_eq!((jids.first().map(String::as_str), next.as_deref()), (Some("u1190@localhost"), Some("1195")));
    let Outcome::Sessions(sessions) = order(Wanted::Sessions("u0@localhost".into())) else { panic!("no sessions") };
    assert_eq!(sessions[0].resource, "r");
    // Of one address its fault is told, of several those that failed.
    assert_eq!(why(order(Wanted::Delete(vec!["ghost@localhost".into()]))), Why::NotFound);
    let some = Wanted::Delete(vec!["ghost@localhost".into(), "paris@localhost".into()]);
    assert_eq!(order(some), Outcome::Partly(vec!["ghost@localhost: there is no ghost@localhost".into()]));
    assert_eq!(order(Wanted::End(vec!["romeo@localhost".into(), "juliet@localhost/r".into()])), Outcome::Done);
    let Outcome::Invited { uri, .. } = order(Wanted::Invite { local: Some("juliet".into()), befriends: true }) else {
        panic!("no invitation");
    };
    assert_eq!(uri, "xmpp:localhost?register;preauth=abc");
    let Outcome::Applicants { jids } = order(Wanted::ListApplicants) else { panic!("no list") };
    assert_eq!(jids, ["juliet@localhost"]);
    let decide = |approve| Wanted::Decide { accounts: vec!["juliet@localhost".into()], approve };
    assert_eq!((order(decide(true)), order(decide(false))), (Outcome::Done, Outcome::Done));
    for what in [Wanted::Announce("a".into()), Wanted::SetMotd("b".into()), Wanted::DeleteMotd] {
        assert_eq!(order(what), Outcome::Done);
    }
    let calls = memory.calls.lock().expect("whole").clone();
    let asked = calls.iter().find(|call| call.starts_with("invite ")).expect("it was asked for");
    assert!(
        asked.contains("user: Some(\"juliet@localhost\"), inviter: Some(\"romeo@localhost\"), befriends: true"),
        "{asked}"
    );
    assert!(calls.contains(&"decide juliet@localhost true".to_owned()));
    let expected = ["kick romeo@localhost None", "kick juliet@localhost/r None", "announce a true None"];
    assert!(expected.iter().all(|call| calls.contains(&(*call).to_owned())), "{calls:?}");
    assert!(calls.contains(&"announce b true Some(2592000s)".to_owned()) && calls.contains(&"withdraw".to_owned()));
}

/// Puts a file into the folder of uploads, as the server leaves it.
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
    assert_eq!((gone.exit, &*gone.out), (Exit::NotThere, "removed 0 files, 0 bytes\n"));
    assert!(bench.run("upload purge --user romeo --older-than 2").out.starts_with("removed 1 files"));
    assert!(bench.run(&format!("upload purge --file {}", ids[2])).out.starts_with("removed 1 files"));
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
    assert!(bench.run("upload purge --all --yes").out.starts_with("removed 1 files"));
}

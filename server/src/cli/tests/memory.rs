//! A server implemented as a table, and a program that uses it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::*;
use crate::admin::rooms::{RoomField, RoomRow, RoomShown, Rooms};
use crate::admin::trace;
use crate::admin::{
    AccountRow, AccountSeen, AccountShown, AccountStanding, Announced, ApplicantRow, Audience, BY_SOCKET, BackupState,
    ComponentRow, Control, Held, HeldRow, InviteRow, Invited, KnobChange, KnobRow, Listening, OpeningRow, Page, Put,
    Release, Reloaded, ReportRow, SessionRow, Status, StoredShown,
};
use crate::events::{Event, What};

/// Accounts, and a server, in memory.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    pub(in crate::cli) accounts: Arc<Mutex<BTreeMap<String, ScramKeys>>>,
    pub(in crate::cli) calls: Arc<Mutex<Vec<String>>>,
    /// Number of accounts after which every put fails.
    pub(in crate::cli) fails_after: Option<usize>,
    /// The profiles of this process.
    pub(in crate::cli) profiles: Arc<crate::profile::Profiles>,
}

impl Memory {
    pub(in crate::cli) fn keys(&self, user: &str) -> ScramKeys {
        self.accounts.lock().unwrap()[&format!("{user}@localhost")].clone()
    }

    pub(in crate::cli) fn count(&self) -> usize {
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

    fn suspend(&self, user: &str, suspended: bool) -> Result<u64, Fault> {
        self.note(format!("suspend {user} {suspended}"));
        match user {
            "ghost@localhost" => Err(Fault::new(FaultKind::NotFound, "no such account: ghost@localhost")),
            _ => Ok(2),
        }
    }

    fn show(&self, user: &str) -> Result<AccountShown, Fault> {
        let (jid, limit) = (format!("{user}/orchard"), "account-stanzas".to_owned());
        let session = SessionRow { jid, address: Some("192.0.2.1:5".into()), ..SessionRow::default() };
        let held = HeldRow { limit, who: user.into(), since_s: 0, until_s: None, refused: 7 };
        let archive = StoredShown { what: "archive".into(), rows: 12, bytes: 3 << 20, more: true };
        Ok(AccountShown {
            user: user.into(),
            standing: AccountStanding::Suspended,
            created_s: Some(0),
            last_seen_s: None,
            sessions: vec![session],
            stored: vec![archive],
            held: vec![held],
        })
    }

    /// Three rows in two pages; two ids have a common prefix.
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

    /// Three rows in two pages; two ids have a common prefix.
    fn reports(&self, after: Option<&str>, _: usize) -> Result<Page<ReportRow>, Fault> {
        let row = |id: &str, at_s, by: &str, jid: &str| ReportRow {
            id: id.repeat(4),
            domain: "localhost".into(),
            at_s,
            by: by.into(),
            jid: jid.into(),
            reason: "urn:xmpp:reporting:spam".into(),
            text: "it's \u{9b}31m\n\"spam\"".into(),
            messages: vec!["1".into(), "2".into()],
        };
        Ok(match after {
            None => {
                let rows = vec![
                    row("aaab", 3, "juliet@localhost", "one@evil.example/x"),
                    row("aaac", 1, "romeo@localhost", "two@evil.example"),
                ];
                Page { rows, next: Some("more".into()) }
            }
            Some(_) => Page { rows: vec![row("bbbb", 2, "juliet@localhost", "evil.example")], next: None },
        })
    }

    fn dismiss(&self, ids: &[String]) -> Result<u64, Fault> {
        self.note(format!("dismiss {}", ids.join(" ")));
        Ok(ids.len() as u64)
    }
}

impl Rooms for Memory {
    /// Three rooms in two pages.
    fn rooms(&self, after: Option<&str>, _: usize) -> Result<Page<RoomRow>, Fault> {
        let row = |jid: &str, occupants| RoomRow {
            jid: format!("{jid}@conference.localhost"),
            name: "a \u{9b}31m name".into(),
            occupants,
            members: 7,
            ..RoomRow::default()
        };
        Ok(match after {
            None => Page { rows: vec![row("cave", Some(3)), row("hall", Some(0))], next: Some("hall".into()) },
            Some(_) => {
                Page { rows: vec![RoomRow { persistent: true, hidden: true, ..row("attic", None) }], next: None }
            }
        })
    }

    fn room(&self, room: &str) -> Result<RoomShown, Fault> {
        let field = |name: &str, value: &str| RoomField {
            name: name.into(),
            label: "A label".into(),
            values: vec![value.into()],
            options: vec!["1".into(), "0".into()],
        };
        match room {
            "ghost" => Err(Fault::new(FaultKind::NotFound, "there is no room ghost")),
            _ => Ok(RoomShown { config: vec![field("membersonly", "1")], closed_s: Some(600), ..RoomShown::default() }),
        }
    }

    fn configure_room(&self, room: &str, fields: &[(String, Vec<String>)]) -> Result<(), Fault> {
        self.note(format!("configure {room} {fields:?}"));
        Ok(())
    }

    fn destroy_room(&self, room: &str, reason: Option<&str>, alternate: Option<&str>) -> Result<(), Fault> {
        self.note(format!("destroy {room} {reason:?} {alternate:?}"));
        Ok(())
    }

    fn close_room(&self, room: &str, seconds: u32) -> Result<(), Fault> {
        self.note(format!("close {room} {seconds}"));
        Ok(())
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

    /// 1,200 numbered sessions; every fifth is idle, and every second of those is resumable.
    fn sessions(&self, of: Option<&str>, after: Option<&str>, limit: usize) -> Result<Page<SessionRow>, Fault> {
        let from = after.map_or(0, |after| after.parse().expect("ours"));
        let all = if of.is_some() { 1 } else { 1_200 };
        let to = all.min(from + limit);
        let idle_s = |at: usize| if at.is_multiple_of(5) { 300 } else { 299 };
        let row = |at: usize| SessionRow {
            jid: format!("u{at}@localhost/r"),
            idle_s: idle_s(at),
            resumable: at % 10 == 5,
            ..SessionRow::default()
        };
        Ok(Page { rows: (from..to).map(row).collect(), next: (to < all).then(|| to.to_string()) })
    }

    fn kick(&self, jid: &str, reason: Option<&str>) -> Result<u64, Fault> {
        self.note(format!("kick {jid} {reason:?}"));
        match jid {
            "ghost@localhost" => Err(Fault::new(FaultKind::NotFound, "ghost@localhost has no session")),
            _ => Ok(2),
        }
    }

    fn say(&self, _: &str, text: &str, to: &Audience, urgent: bool) -> Result<u64, Fault> {
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

    /// Complete at the second query.
    fn announced(&self) -> Result<Announced, Fault> {
        let looks = self.calls.lock().unwrap().iter().filter(|call| *call == "announced").count() as u64;
        self.note("announced");
        Ok(Announced { told: 10 * looks, done: looks > 1 })
    }

    /// Accounts whose names begin with a p.
    fn suspended(&self, after: Option<&str>, limit: usize) -> Result<Page<AccountRow>, Fault> {
        let mut page = self.list(after, limit)?;
        page.rows.retain(|row| row.user.starts_with('p'));
        Ok(page)
    }

    fn edit_announcement(&self, text: &str) -> Result<(), Fault> {
        self.note(format!("edit {text}"));
        Ok(())
    }

    fn account_seen(&self, user: &str) -> Result<AccountSeen, Fault> {
        match self.accounts.lock().unwrap().contains_key(user) {
            true => Ok(AccountSeen { contacts: 2, roster: b"<query/>".to_vec(), last_seen_s: Some(1_700_000_000) }),
            false => Err(Fault::new(FaultKind::NotFound, format!("there is no {user}"))),
        }
    }

    fn withdraw_announcement(&self) -> Result<(), Fault> {
        self.note("withdraw");
        Ok(())
    }

    fn openings(&self) -> Result<Vec<OpeningRow>, Fault> {
        let row = |address: &str, connections| OpeningRow { address: address.into(), connections };
        Ok(vec![row("192.0.2.7", 12), row("2001:db8::", 1)])
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

    fn release(&self, _: &str, whom: &Release) -> Result<u64, Fault> {
        self.note(format!("release {whom:?}"));
        Ok(4)
    }

    fn flush_waiting(&self, _: &str, jid: &str) -> Result<u64, Fault> {
        self.note(format!("empty {jid}"));
        Ok(7)
    }

    fn flush_queue(&self, _: &str, jid: &str) -> Result<u64, Fault> {
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

    fn confirm_clock(&self, _: &str) -> Result<i64, Fault> {
        Ok(0)
    }

    fn cancel_shutdown(&self) -> Result<(), Fault> {
        self.note("shutdown cancel");
        Ok(())
    }

    fn shutdown(&self, grace: Option<Duration>, after: Option<Duration>) -> Result<(), Fault> {
        self.note(format!("shutdown {grace:?}{}", after.map_or_else(String::new, |after| format!(" in {after:?}"))));
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

    fn set_knob(&self, by: &str, key: &str, value: &str, lasting: Option<Duration>) -> Result<Vec<KnobChange>, Fault> {
        let by = if by == BY_SOCKET { String::new() } else { format!(" by {by}") };
        self.note(format!("set {key} {value} {lasting:?}{by}"));
        let (from, until_s) = ("info".into(), lasting.map(|lasting| 1_700_000_000 + lasting.as_secs()));
        Ok(vec![KnobChange { key: key.into(), from, to: value.into(), until_s }])
    }

    fn reset_knobs(&self, _: &str, key: Option<&str>) -> Result<Vec<KnobChange>, Fault> {
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

    fn restore_point(&self, _: &Config, _: &FolderLock, from: &Point, _: Say<'_>) -> Result<StoreReport, Failure> {
        self.note(format!("restore {} {:?}", from.url, from.at_ms));
        Ok(StoreReport::default())
    }

    fn drill(&self, _: &Config, from: &Point, scratch: &Path, _: Say<'_>) -> Result<StoreReport, Failure> {
        self.note(format!("drill {} {}", from.url, scratch.display()));
        Ok(StoreReport { counts: vec![("age_s".into(), 30)], ..StoreReport::default() })
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

    fn leave_rooms(
        &self,
        _: &Config,
        _: &FolderLock,
        to: &Path,
        only: &[String],
        _: Say<'_>,
    ) -> Result<Summary, Failure> {
        self.note(format!("export rooms {} {only:?}", to.display()));
        let mut summary = Summary::default();
        summary.rooms = 2;
        Ok(summary)
    }

    fn arrive_rooms(
        &self,
        _: &Config,
        _: &FolderLock,
        from: &Path,
        dry_run: bool,
        _: Say<'_>,
    ) -> Result<(Summary, Result<(), Failure>), Failure> {
        self.note(format!("import rooms {} {dry_run}", from.display()));
        let mut summary = Summary::default();
        (summary.rooms, summary.left) = (3, u64::from(from.ends_with("odd.xml")));
        Ok((summary, Ok(())))
    }

    fn migrate(&self, _: &Config, _: &FolderLock, say: Say<'_>) -> Result<StoreReport, Failure> {
        say("changing the store");
        Ok(StoreReport { notes: vec!["the store has format 5".into()], ..StoreReport::default() })
    }

    fn look(&self, _: &Config) -> Checked {
        Checked::default()
    }

    fn bench(&self, _plan: &crate::bench::Plan, _say: Say<'_>) -> Result<serde_json::Value, Failure> {
        Err(Failure::failed("there is no server in memory"))
    }
}

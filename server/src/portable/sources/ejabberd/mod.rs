//! Reads what ejabberd has in its tables: dumps of its database in SQL, of MySQL's and PostgreSQL's
//! and both schemas, and `ejabberdctl dump` of Mnesia.
//!
//! ```text
//! rows, terms -> facts -> sorted by node -> sorted by user -> parts
//!                         (what names only  (bounded memory,
//!                         a node or list)    see `sorted`)
//! ```
//!
//! `facts` reads rows and terms, `give` turns facts into parts. A fact is a [`Record`] whose key begins with host and user. Rows of SQL and terms of Mnesia become
//! the same facts, so what they mean is decided once.

mod facts;
mod give;

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use give::Giving;

use super::sorted::{RUN_BYTES, Record, Sorted, Sorter};
use crate::portable::Wrong;
use crate::portable::parts::{At, ELEMENT_BYTES_MAX, Part, Source, TOKEN_BYTES_MAX};
use throng_dumps::erlang;
use throng_dumps::sql::Dump;

/// What a fact is about: the first byte behind host and user. In this order they are imported.
const KEYS: u8 = 0;
const CONTACT: u8 = 1;
const CARD: u8 = 2;
const PRIVATE: u8 = 3;
const PRIVACY: u8 = 4;
const NODE: u8 = 5;
const WAITING: u8 = 6;
const ARCHIVED: u8 = 7;

/// Facts of users come before those of rooms.
const OF_USER: u8 = 0;
const OF_ROOM: u8 = 1;

/// Bytes of a dump that are read before progress is reported.
const STEP_BYTES: u64 = 4 << 20;

/// Tables with nothing to move.
const NOTHING: [&str; 26] = [
    "bosh",
    "caps_features",
    "carboncopy",
    "last",
    "last_activity",
    "mqtt_pub",
    "muc_online_room",
    "muc_online_users",
    "oauth_client",
    "oauth_token",
    "proxy65",
    "pubsub_index",
    "pubsub_last_item",
    "pubsub_subscription_opt",
    "reg_users_counter",
    "roster_version",
    "route",
    "s2s",
    "schema",
    "schema_version",
    "session",
    "session_counter",
    "sm",
    "sqlite_sequence",
    "temporarily_blocked",
    "vcard_search",
];

enum Input {
    Sql(Dump<File>),
    Mnesia(erlang::Reader<File>),
}

impl Input {
    fn bytes(&self) -> u64 {
        match self {
            Input::Sql(dump) => dump.bytes(),
            Input::Mnesia(terms) => terms.bytes(),
        }
    }

    fn line(&self) -> u64 {
        match self {
            Input::Sql(dump) => dump.line(),
            Input::Mnesia(terms) => terms.line(),
        }
    }
}

enum Stage {
    Reading(Input),
    Giving(Sorted),
    Done,
}

/// A dump.
pub(super) struct Tables {
    path: PathBuf,
    /// The host of rows that name none.
    host: String,
    stage: Stage,
    facts: Sorter,
    /// Facts that name a node or a privacy list, not a user.
    parted: Sorter,
    unknown: BTreeSet<String>,
    /// At most those of one fact, and what it ends; each with its line.
    parts: VecDeque<(u64, Part)>,
    /// The line of the part that was taken last.
    given: u64,
    line: u64,
    bytes: u64,
    giving: Giving,
}

fn failed(error: &io::Error) -> Wrong {
    Wrong::File(format!("the rows cannot be sorted: {error}"))
}

/// The key of a user's fact.
fn key(host: &[u8], user: &[u8], about: u8, more: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![OF_USER];
    key.extend_from_slice(host);
    key.push(0);
    key.extend_from_slice(user);
    key.extend_from_slice(&[0, about]);
    more.iter().for_each(|part| key.extend_from_slice(part));
    key
}

fn utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

impl Tables {
    /// Opens a dump. Rows of the schema without hosts belong to `host`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn open(path: &Path, is_sql: bool, host: &str) -> Result<Tables, Wrong> {
        let file = File::open(path).map_err(|error| Wrong::File(format!("{}: {error}", path.display())))?;
        let input = match is_sql {
            true => Input::Sql(Dump::new(file, |table| facts::TABLES.contains(&table))),
            false => Input::Mnesia(erlang::Reader::new(file)),
        };
        Ok(Tables {
            path: path.to_owned(),
            host: host.to_owned(),
            stage: Stage::Reading(input),
            facts: Sorter::new(RUN_BYTES),
            parted: Sorter::new(RUN_BYTES),
            unknown: BTreeSet::new(),
            parts: VecDeque::new(),
            given: 1,
            line: 1,
            bytes: 0,
            giving: Giving::default(),
        })
    }

    fn part(&mut self, part: Part) {
        self.parts.push_back((self.line, part));
    }

    fn skip(&mut self, what: &'static str, why: impl Into<String>) {
        self.part(Part::Skipped(what, why.into()));
    }

    /// Whether a fact can be kept. A larger one is none that is imported.
    fn is_small(&mut self, key: &[u8], fields: &[Vec<u8>]) -> bool {
        let is_small = key.len() <= TOKEN_BYTES_MAX && fields.iter().all(|field| field.len() <= ELEMENT_BYTES_MAX);
        if !is_small {
            self.skip("row", "it has a name of more than 64 KiB, or another value of more than 4 MiB");
        }
        is_small
    }

    /// Adds a user's fact.
    fn fact(&mut self, host: &[u8], user: &[u8], about: u8, more: &[&[u8]], fields: Vec<Vec<u8>>) -> Result<(), Wrong> {
        if host.contains(&0) || user.contains(&0) || user.is_empty() {
            self.skip("row", "it names no user");
            return Ok(());
        }
        self.add_fact(key(host, user, about, more), fields)
    }

    fn add_fact(&mut self, key: Vec<u8>, fields: Vec<Vec<u8>>) -> Result<(), Wrong> {
        if !self.is_small(&key, &fields) {
            return Ok(());
        }
        self.facts.add(Record { key, line: self.line, fields }).map_err(|error| failed(&error))
    }

    /// Adds a fact of a node (`n`) or a privacy list (`l`), of which only the number is known.
    fn part_of(&mut self, kind: u8, id: &[u8], about: u8, more: &[u8], fields: Vec<Vec<u8>>) -> Result<(), Wrong> {
        let mut key = vec![kind];
        key.extend_from_slice(id);
        key.extend_from_slice(&[0, about]);
        key.extend_from_slice(more);
        if !self.is_small(&key, &fields) {
            return Ok(());
        }
        self.parted.add(Record { key, line: self.line, fields }).map_err(|error| failed(&error))
    }

    fn unknown(&mut self, table: &str) {
        let is_new = !NOTHING.contains(&table) && self.unknown.len() < 100 && self.unknown.insert(table.to_owned());
        if is_new {
            let more = if table.starts_with("prosody") { ": move it to files with prosody-migrator first" } else { "" };
            self.skip("table", format!("{table} is not imported{more}"));
        }
    }

    /// Reads more of the dump; false at its end.
    fn read(&mut self) -> Result<bool, Wrong> {
        let Stage::Reading(mut input) = std::mem::replace(&mut self.stage, Stage::Done) else { return Ok(false) };
        let until = input.bytes() + STEP_BYTES;
        let wrong = |path: &Path, line: u64, why: String| {
            Wrong::File(crate::portable::summary::shown(&format!("{}:{line}: {why}", path.display())))
        };
        // A note is reported with its line.
        while input.bytes() < until && self.parts.is_empty() {
            let more = match &mut input {
                Input::Sql(dump) => match dump.read_row().map_err(|why| wrong(&self.path, dump.line(), why))? {
                    Some(row) => {
                        self.line = dump.line();
                        self.row(&row)?;
                        true
                    }
                    None => false,
                },
                Input::Mnesia(terms) => match terms.read_term().map_err(|why| wrong(&self.path, terms.line(), why))? {
                    Some(term) => {
                        self.line = terms.line();
                        self.term(&term)?;
                        true
                    }
                    None => false,
                },
            };
            self.bytes = input.bytes();
            if !more {
                return Ok(false);
            }
        }
        self.line = input.line();
        self.stage = Stage::Reading(input);
        Ok(true)
    }

    /// Gives the facts of nodes and lists to their users, and sorts all.
    fn sort(&mut self) -> Result<(), Wrong> {
        let parted = std::mem::replace(&mut self.parted, Sorter::new(RUN_BYTES));
        let mut parted = parted.sorted().map_err(|error| failed(&error))?;
        let mut current: Option<Owned> = None;
        while let Some(record) = parted.next().map_err(|error| failed(&error))? {
            self.line = record.line;
            // Behind the number: a zero, and what it is about.
            let Some(end) = record.key.iter().position(|byte| *byte == 0) else { continue };
            let (id, rest) = record.key.split_at(end);
            let (Some(about), more) = (rest.get(1), rest.get(2..).unwrap_or_default()) else { continue };
            let mut fields = record.fields.into_iter();
            if *about == 0 {
                let mut next = || fields.next().unwrap_or_default();
                current = Some(Owned { id: id.to_vec(), host: next(), user: next(), name: next() });
            }
            let owned = current.as_ref().filter(|owned| owned.id == id);
            let Some(Owned { host, user, name, .. }) = owned.cloned() else { continue };
            let kind = if id.first() == Some(&b'n') { NODE } else { PRIVACY };
            let key: [&[u8]; 4] = [&name, &[0], &[*about], more];
            let fields = std::iter::once(name.clone()).chain(fields).collect();
            self.fact(&host, &user, kind, &key, fields)?;
        }
        let facts = std::mem::replace(&mut self.facts, Sorter::new(RUN_BYTES));
        self.stage = Stage::Giving(facts.sorted().map_err(|error| failed(&error))?);
        Ok(())
    }
}

/// A node or a privacy list.
#[derive(Clone)]
struct Owned {
    id: Vec<u8>,
    host: Vec<u8>,
    user: Vec<u8>,
    name: Vec<u8>,
}

impl Source for Tables {
    fn next(&mut self) -> Result<Option<Part>, Wrong> {
        loop {
            if let Some((line, part)) = self.parts.pop_front() {
                self.given = line;
                return Ok(Some(part));
            }
            match &self.stage {
                Stage::Reading(_) => {
                    if !self.read()? {
                        self.sort()?;
                    }
                    self.part(Part::Progress);
                }
                Stage::Giving(_) => self.give()?,
                Stage::Done => return Ok(None),
            }
        }
    }

    fn at(&self) -> At {
        At { file: self.path.clone(), line: self.given }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What an item of a privacy list may be about (XEP-0016 2.1).
const MATCHES: [&str; 4] = ["iq", "message", "presence-in", "presence-out"];

/// The bare JID of `{User, Host, Resource}` or `{jid, User, Host, Resource, ...}`, with its resource.
fn jid(term: &erlang::Term) -> Vec<u8> {
    let parts = match term.tuple() {
        [name, rest @ ..] if name.atom() == "jid" => rest,
        all => all,
    };
    let part = |at: usize| parts.get(at).and_then(erlang::Term::bytes).unwrap_or_default();
    let (user, host, resource) = (part(0), part(1), part(2));
    let mut jid = user;
    if !jid.is_empty() {
        jid.push(b'@');
    }
    jid.extend(host);
    if !resource.is_empty() {
        jid.push(b'/');
        jid.extend(resource);
    }
    jid
}

//! Reads the data folder of Prosody as it is (`storage = "internal"`): a folder for each host, in it
//! one for each store, in it a file for each user.
//!
//! Names of hosts, stores and users are percent-encoded. A decoded name is never used for a path, and
//! links are not followed, so a folder cannot lead elsewhere. One table, or one item of a list, is in
//! memory at a time. A file that is not as Prosody writes it is left out and reported: it is one
//! user's. An error of the system ends the import.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File, OpenOptions, ReadDir};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use throng_engine::portable::Container;
use throng_engine::wire::text::{escape_into, write_attribute};

use super::{forms, xml};
use crate::portable::parts::{At, Part, Source};
use crate::portable::{Wrong, from_hex, percent_decoded};
use throng_dumps::lua::{Key, Reader, Table, Value};

/// Stores that are read for each user, and those with nothing to move.
const STORES: [&str; 8] = ["accounts", "archive", "blocklist", "offline", "pep", "private", "roster", "vcard"];
const NOTHING: [&str; 6] = ["archive_cleanup", "cron", "muc_log_cleanup", "offline_cleanup", "pubsub_cleanup", "state"];

/// The fields of a node that mean the same here, with their names in the form.
const NODE_FIELDS: [(&str, &str); 8] = [
    ("title", "title"),
    ("description", "description"),
    ("payload_type", "type"),
    ("max_items", "max_items"),
    ("persist_items", "persist_items"),
    ("access_model", "access_model"),
    ("publish_model", "publish_model"),
    ("send_last_published_item", "send_last_published_item"),
];

/// A host: its name, its folder, and the stores that it has.
struct Host {
    name: String,
    path: PathBuf,
    stores: BTreeSet<String>,
    has_rooms: bool,
}

/// A list that is read item by item.
struct List {
    kind: Kind,
    path: PathBuf,
}

enum Kind {
    Offline,
    Archive,
    Node(String),
}

/// The folder.
pub(super) struct Folder {
    /// At most one for each folder.
    waiting: VecDeque<Host>,
    host: Option<Host>,
    /// The files of its users, or of its rooms.
    entries: Option<ReadDir>,
    /// At most those of one user's tables, which are bounded ([`throng_dumps::lua::VALUES_MAX`]), each
    /// with its position.
    parts: VecDeque<(At, Part)>,
    /// At most two, and one for each node of a user.
    lists: VecDeque<List>,
    open: Option<(List, Reader<File>)>,
    in_user: bool,
    /// The position that is read.
    at: At,
    /// That of the part that was taken last.
    given: At,
    bytes: u64,
}

fn folders(path: &Path) -> io::Result<(Vec<String>, Vec<String>)> {
    let (mut found, mut links) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        match entry.file_type()? {
            kind if kind.is_dir() => found.push(name),
            kind if kind.is_symlink() => links.push(name),
            _ => {}
        }
    }
    found.sort_unstable();
    Ok((found, links))
}

/// Whether a folder is Prosody's: a folder in it has a store of accounts or of rooms.
pub(super) fn is_folder(path: &Path) -> bool {
    let hosts = folders(path).map(|(found, _)| found).unwrap_or_default();
    hosts.iter().any(|host| ["accounts", "config"].iter().any(|store| path.join(host).join(store).is_dir()))
}

impl Folder {
    /// Opens the folder.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn open(root: &Path) -> Result<Folder, Wrong> {
        let wrong = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| Wrong::File(format!("{}: {error}", path.display()))
        };
        let at = At { file: root.to_owned(), line: 0 };
        let mut parts = Vec::new();
        let link = |name: &str| Part::Skipped("folder", format!("{name} is a link: links are not followed"));
        let (names, links) = folders(root).map_err(wrong(root))?;
        parts.extend(links.iter().map(|name| link(name)));
        let mut hosts = Vec::new();
        for encoded in names {
            let path = root.join(&encoded);
            let Some(name) = decoded(&encoded) else {
                parts.push(Part::Skipped("folder", format!("{encoded} is the name of no host")));
                continue;
            };
            let (stores, links) = folders(&path).map_err(wrong(&path))?;
            parts.extend(links.iter().map(|store| link(&format!("{encoded}/{store}"))));
            let stores: BTreeSet<String> = stores.into_iter().collect();
            let (has_users, has_rooms) = (stores.contains("accounts"), stores.contains("config"));
            if !has_users && stores.contains("roster") {
                let why =
                    "it has rosters, but no accounts: its passwords are elsewhere (LDAP, SQL); users are left out";
                parts.push(Part::Skipped("host", format!("{name}: {why}")));
            }
            for store in &stores {
                let is_known = STORES.contains(&&**store) || NOTHING.contains(&&**store) || store.starts_with("pep_");
                let of_rooms = has_rooms && !has_users && store == "config";
                if (has_users || has_rooms) && !is_known && !of_rooms {
                    let why =
                        if store == "muc_log" { "archives of rooms are not imported" } else { "it is not imported" };
                    parts.push(Part::Skipped("store", format!("{store} of {name}: {why}")));
                }
            }
            if has_users || has_rooms {
                hosts.push(Host { name, path, stores, has_rooms: !has_users });
            }
        }
        // Rooms last: what they say of users belongs to accounts that exist.
        hosts.sort_by_key(|host| host.has_rooms);
        Ok(Folder {
            waiting: hosts.into(),
            host: None,
            entries: None,
            parts: parts.into_iter().map(|part| (at.clone(), part)).collect(),
            lists: VecDeque::new(),
            open: None,
            in_user: false,
            given: at.clone(),
            at,
            bytes: 0,
        })
    }

    fn skip(&mut self, what: &'static str, why: String) {
        self.part(Part::Skipped(what, why));
    }

    /// Reports a file that is left out. An import that is repeated skips its user, who exists by then.
    fn skip_file(&mut self, store: &str, why: &str) {
        self.skip("file", format!("{store}: {why}; once it is repaired, import with `--existing replace`"));
    }

    fn part(&mut self, part: Part) {
        self.parts.push_back((self.at.clone(), part));
    }

    /// Adds an element of the user or room.
    fn element(&mut self, what: &'static str, container: Option<Container>, node: Option<&str>, text: &[u8]) {
        match xml::element(text, forms::NS_CLIENT) {
            Ok(element) => {
                self.part(Part::Element { container, node: node.map(str::to_owned), element });
            }
            Err(why) => self.skip(what, why),
        }
    }

    /// Reads a file with one table; `None` if there is none, or if it is skipped.
    ///
    /// # Errors
    /// The system's.
    fn table(&mut self, store: &str, path: PathBuf) -> Result<Option<Table>, Wrong> {
        self.at = At { file: path, line: 1 };
        let Some(file) = self.open_at(store)? else { return Ok(None) };
        let mut reader = Reader::new(file);
        let table = reader.whole();
        self.bytes += reader.bytes();
        self.at.line = reader.line();
        match table {
            Ok(table) => return Ok(Some(table)),
            Err(why) if reader.has_failed() => return Err(self.failed(&why)),
            Err(why) => self.skip_file(store, &why),
        }
        Ok(None)
    }

    /// Opens the file of the current position; `None` if there is none, or if it is skipped.
    ///
    /// # Errors
    /// The system's.
    fn open_at(&mut self, store: &str) -> Result<Option<File>, Wrong> {
        match opened(&self.at.file).map_err(|error| self.failed(&error))? {
            Opened::File(file) => return Ok(Some(file)),
            Opened::Nothing => {}
            Opened::Skipped(why) => self.skip_file(store, why),
        }
        Ok(None)
    }

    /// An error of the system at the current position. The rest of the user would be lost: it ends the
    /// import.
    fn failed(&self, why: &dyn std::fmt::Display) -> Wrong {
        Wrong::File(format!("{}: {why}", self.at.file.display()))
    }

    /// Begins the next host, or the next file of the current one; false at the end.
    fn more(&mut self) -> Result<bool, Wrong> {
        let Some(host) = &self.host else {
            let Some(host) = self.waiting.pop_front() else { return Ok(false) };
            let path = host.path.join(if host.has_rooms { "config" } else { "accounts" });
            self.entries =
                Some(fs::read_dir(&path).map_err(|error| Wrong::File(format!("{}: {error}", path.display())))?);
            self.at = At { file: path, line: 0 };
            self.part(Part::Host(host.name.clone()));
            self.host = Some(host);
            return Ok(true);
        };
        let has_rooms = host.has_rooms;
        let Some(entry) = self.entries.as_mut().and_then(Iterator::next) else {
            (self.host, self.entries) = (None, None);
            return Ok(true);
        };
        let entry = entry.map_err(|error| Wrong::File(format!("{}: {error}", self.at.file.display())))?;
        let (path, name) = (entry.path(), entry.file_name());
        let Some(encoded) = name.to_str().and_then(|name| name.strip_suffix(".dat")) else { return Ok(true) };
        self.at = At { file: path.clone(), line: 1 };
        let Some(name) = decoded(encoded) else {
            self.skip("user", format!("{encoded:?} is the name of no user"));
            return Ok(true);
        };
        match has_rooms {
            true => self.room(&name, path)?,
            false => self.user(encoded, name, path)?,
        }
        Ok(true)
    }

    fn user(&mut self, encoded: &str, name: String, path: PathBuf) -> Result<(), Wrong> {
        // Without it, everything else is kept: the account gets a new password.
        let mut account = self.table("accounts", path)?.unwrap_or_default();
        let is_disabled = account.flag("disabled") == Some(true);
        if is_disabled {
            self.skip("credentials", "the account is disabled: it is imported without credentials".into());
            account = Table::default();
        }
        let keys = credentials(&account);
        let password = account.text("password").filter(|_| keys.is_none()).map(str::to_owned);
        self.part(Part::User { name, password });
        self.in_user = true;
        match keys {
            Some(Ok(keys)) => self.element("credentials", None, None, &keys),
            Some(Err(why)) => self.skip("credentials", why),
            None => {}
        }
        let host = self.host.as_ref().expect("the user's");
        let dat =
            |store: &str| host.stores.contains(store).then(|| host.path.join(store).join(format!("{encoded}.dat")));
        let list =
            |store: &str| host.stores.contains(store).then(|| host.path.join(store).join(format!("{encoded}.list")));
        let (roster, vcard, private) = (dat("roster"), dat("vcard"), dat("private"));
        let (blocked, nodes) = (dat("blocklist"), dat("pep"));
        let lists = [(Kind::Offline, list("offline")), (Kind::Archive, list("archive"))];
        self.lists.extend(lists.into_iter().filter_map(|(kind, path)| Some(List { kind, path: path? })));
        if let Some(table) = self.own_table("roster", roster)? {
            self.roster(&table);
        }
        if let Some(table) = self.own_table("vcard", vcard)? {
            self.stanza("vCard", None, &table);
        }
        if let Some(table) = self.own_table("private", private)? {
            let elements = table.named.iter().map(|(_, value)| value);
            elements.filter_map(Value::as_table).for_each(|element| {
                self.stanza("private element", Some(Container::Private), element);
            });
        }
        if let Some(table) = self.own_table("blocklist", blocked)? {
            let jids: Vec<&str> = table.texts().map(|(jid, _)| jid).collect();
            if !jids.is_empty() {
                self.element("privacy list", None, None, &forms::blocked(jids.into_iter()));
            }
        }
        if let Some(table) = self.own_table("pep", nodes)? {
            table.texts().for_each(|(name, node)| self.node(encoded, name, node));
        }
        Ok(())
    }

    /// The table of a store that the host may not have.
    fn own_table(&mut self, store: &str, path: Option<PathBuf>) -> Result<Option<Table>, Wrong> {
        path.map_or(Ok(None), |path| self.table(store, path))
    }

    fn stanza(&mut self, what: &'static str, container: Option<Container>, table: &Table) {
        let mut text = Vec::new();
        match write(&mut text, table, &[]) {
            Ok(()) => self.element(what, container, None, &text),
            Err(why) => self.skip(what, why.into()),
        }
    }

    fn roster(&mut self, table: &Table) {
        for (jid, contact) in table.texts() {
            let Some(contact) = contact.as_table() else { continue };
            if jid == "pending" {
                // Prosody up to 0.9.
                self.requests(contact);
                continue;
            }
            let groups = contact.table("groups");
            let contact = forms::Contact {
                jid,
                name: contact.text("name").unwrap_or_default(),
                subscription: contact.text("subscription").unwrap_or("none"),
                asked: contact.text("ask") == Some("subscribe"),
                approved: contact.flag("approved") == Some(true),
                groups: groups.into_iter().flat_map(Table::texts).map(|(group, _)| group).collect(),
            };
            self.element("contact", Some(Container::Roster), None, &contact.write());
        }
        let own = table.named.iter().find(|(key, _)| *key == Key::Bool(false));
        if let Some(pending) = own.and_then(|(_, value)| value.as_table()).and_then(|own| own.table("pending")) {
            self.requests(pending);
        }
    }

    fn requests(&mut self, pending: &Table) {
        for (jid, stanza) in pending.texts() {
            let mut children = Vec::new();
            let written = stanza.as_table().map_or(Ok(()), |stanza| inside(&mut children, stanza));
            match written {
                Ok(()) => self.element("request", None, None, &forms::request(jid, &children)),
                Err(why) => self.skip("request", why.into()),
            }
        }
    }

    fn node(&mut self, encoded: &str, name: &str, node: &Value) {
        let empty = Table::default();
        let node = node.as_table().unwrap_or(&empty);
        let config = node.table("config").unwrap_or(&empty);
        let mut fields: Vec<(String, Vec<String>)> = Vec::new();
        for (field, value) in config.texts() {
            match NODE_FIELDS.iter().find(|(own, _)| *own == field) {
                Some((_, form)) => fields.extend(word(value).map(|value| ((*form).to_owned(), vec![value]))),
                None => self.skip("node", format!("{field} is not supported")),
            }
        }
        // Prosody's own default.
        if config.get("max_items").is_none() {
            fields.push(("max_items".into(), vec!["1".into()]));
        }
        self.element("node", Some(Container::Owner), None, &forms::configure(name, &fields));
        if let Some(all) = node.table("affiliations").filter(|all| !all.named.is_empty()) {
            let all: Vec<_> = all.texts().filter_map(|(jid, is)| Some((jid, is.as_text()?))).collect();
            self.element("node", Some(Container::Owner), None, &forms::affiliates(name, false, &all));
        }
        if let Some(all) = node.table("subscribers").filter(|all| !all.named.is_empty()) {
            let all: Vec<_> = all.texts().map(|(jid, _)| (jid, "subscribed")).collect();
            self.element("node", Some(Container::Owner), None, &forms::affiliates(name, true, &all));
        }
        let host = self.host.as_ref().expect("the user's");
        let store = store_encoded(&format!("pep_{name}"));
        if host.stores.contains(&store) {
            let path = host.path.join(store).join(format!("{encoded}.list"));
            self.lists.push_back(List { kind: Kind::Node(name.to_owned()), path });
        }
    }

    fn room(&mut self, name: &str, path: PathBuf) -> Result<(), Wrong> {
        let Some(table) = self.table("config", path)? else { return Ok(()) };
        let empty = Table::default();
        let data = table.table("_data").unwrap_or(&empty);
        if data.flag("persistent") != Some(true) {
            self.skip("room", "a room that is not persistent is not imported".into());
            return Ok(());
        }
        self.part(Part::Room { name: name.to_owned(), created: None });
        self.element("room", None, None, &forms::room_config(&room_fields(data)));
        if let Some(subject) = data.text("subject").filter(|subject| !subject.is_empty()) {
            let from = data.text("subject_from").unwrap_or_default();
            let nick = from.split_once('/').map_or(from, |(_, nick)| nick);
            let at_s = data.number("subject_time").filter(|at_s| *at_s > 0.0).map(|at_s| at_s as u64);
            self.element("room", None, None, &forms::subject(subject, nick, at_s));
        }
        // Prosody up to 0.10 has them in a table of their own.
        let affiliations = table.table("_affiliations").unwrap_or(&table);
        let more = table.table("_affiliation_data").unwrap_or(&empty);
        for (jid, is) in affiliations.texts() {
            let (Some(is), false) = (is.as_text(), jid.starts_with('_') || jid == "jid") else { continue };
            let more = more.table(jid).unwrap_or(&empty);
            let (nick, reason) = (more.text("reserved_nickname"), more.text("reason").unwrap_or_default());
            self.element("room", None, None, &forms::standing(jid, is, nick, reason));
        }
        self.part(Part::RoomEnd);
        Ok(())
    }

    /// Reads an item of the open list; false at its end.
    fn listed(&mut self) -> Result<bool, Wrong> {
        let Some((list, mut reader)) = self.open.take() else { return Ok(false) };
        let before = reader.bytes();
        let item = reader.item();
        self.bytes += reader.bytes() - before;
        self.at = At { file: list.path.clone(), line: reader.line() };
        let what = list.kind.name();
        match item {
            Ok(None) => return Ok(false),
            Err(why) if reader.has_failed() => return Err(self.failed(&why)),
            Err(why) => {
                self.skip_file(list.kind.store(), &format!("{why}; the rest of the file is skipped"));
                return Ok(false);
            }
            Ok(Some(item)) => {
                let host = self.host.as_ref().map(|host| &*host.name).unwrap_or_default();
                match list.kind.write(&item, host) {
                    Err(why) => self.skip(what, why.into()),
                    Ok(text) => {
                        let (container, node) = match &list.kind {
                            Kind::Offline => (Container::Waiting, None),
                            Kind::Archive => (Container::Archive, None),
                            Kind::Node(node) => (Container::Nodes, Some(&**node)),
                        };
                        self.element(what, Some(container), node, &text);
                    }
                }
            }
        }
        self.open = Some((list, reader));
        Ok(true)
    }
}

impl Source for Folder {
    fn next(&mut self) -> Result<Option<Part>, Wrong> {
        loop {
            if let Some((at, part)) = self.parts.pop_front() {
                self.given = at;
                return Ok(Some(part));
            }
            if self.listed()? {
                continue;
            }
            if let Some(list) = self.lists.pop_front() {
                self.at = At { file: list.path.clone(), line: 1 };
                self.open = self.open_at(list.kind.store())?.map(|file| (list, Reader::new(file)));
            } else if std::mem::take(&mut self.in_user) {
                self.part(Part::UserEnd);
            } else if !self.more()? {
                return Ok(None);
            }
        }
    }

    fn at(&self) -> At {
        self.given.clone()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Kind::Offline => "waiting message",
            Kind::Archive => "archived message",
            Kind::Node(_) => "item",
        }
    }

    fn store(&self) -> &'static str {
        match self {
            Kind::Offline => "offline",
            Kind::Archive => "archive",
            Kind::Node(_) => "pep",
        }
    }

    /// The element of XEP-0227 for an item. Prosody adds the time to the stanza's attributes.
    fn write(&self, item: &Table, host: &str) -> Result<Vec<u8>, &'static str> {
        let when_us = item.number("when").filter(|when| *when > 0.0).map(|when| (when * 1e6) as u64);
        let when_us = when_us.ok_or("it has no time");
        let mut text = Vec::new();
        write(&mut text, item, &["stamp", "stamp_legacy"])?;
        Ok(match self {
            Kind::Node(_) => forms::item(item.text("key").unwrap_or_default(), &text),
            Kind::Archive => forms::result(item.text("key").unwrap_or_default(), when_us?, &text),
            Kind::Offline => {
                let delay = forms::delay_of(host, when_us?);
                match text.strip_suffix(b"</message>") {
                    Some(begun) => [begun, &delay, b"</message>"].concat(),
                    None => return Err("it is no message with content"),
                }
            }
        })
    }
}

/// What is at a path.
enum Opened {
    File(File),
    Nothing,
    Skipped(&'static str),
}

/// Opens a regular file.
///
/// # Errors
/// The system's.
fn opened(path: &Path) -> io::Result<Opened> {
    match path.symlink_metadata() {
        // A name that is too long for a file is that of none.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename) => {
            return Ok(Opened::Nothing);
        }
        Err(error) => return Err(error),
        Ok(found) if found.is_symlink() => return Ok(Opened::Skipped("it is a link: links are not followed")),
        // Opening a pipe would block until it has a writer.
        Ok(found) if !found.is_file() => return Ok(Opened::Skipped("it is no file")),
        Ok(_) => {}
    }
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path).map(Opened::File)
}

/// The keys of an account; `None` if it has none.
fn credentials(account: &Table) -> Option<Result<Vec<u8>, String>> {
    let stored = account.text("stored_key")?;
    let read = || {
        let (stored, server) = (from_hex(stored)?, from_hex(account.text("server_key")?)?);
        let hash = match stored.len() {
            20 => "SHA-1",
            32 => "SHA-256",
            64 => "SHA-512",
            _ => return None,
        };
        let salt = match account.get("salt")? {
            Value::Text(salt) => forms::base64(salt),
            _ => return None,
        };
        let iterations = account.number("iteration_count")?.to_string();
        Some(forms::keys(hash, [&forms::base64(&stored), &forms::base64(&server), &salt], &iterations))
    };
    Some(read().ok_or_else(|| "stored_key, server_key, salt or iteration_count is not as Prosody writes it".into()))
}

/// The fields of a room's form.
fn room_fields(data: &Table) -> Vec<(&'static str, Vec<String>)> {
    let flag = |name: &str| data.flag(name).unwrap_or(false);
    let bit = |is: bool| vec![String::from(if is { "1" } else { "0" })];
    let text = |name: &str| data.text(name).unwrap_or_default().to_owned();
    let mut fields = vec![
        ("roomname", vec![text("name")]),
        ("roomdesc", vec![text("description")]),
        ("lang", vec![text("language")]),
        ("publicroom", bit(!flag("hidden"))),
        ("membersonly", bit(flag("members_only"))),
        ("moderatedroom", bit(flag("moderated"))),
        ("changesubject", bit(flag("changesubject"))),
        ("allowinvites", bit(flag("allow_member_invites"))),
        ("whois", vec![data.text("whois").unwrap_or("moderators").to_owned()]),
    ];
    if let Some(password) = data.text("password").filter(|password| !password.is_empty()) {
        fields.push(("passwordprotectedroom", bit(true)));
        fields.push(("roomsecret", vec![password.to_owned()]));
    }
    if let Some(archives) = data.flag("archiving") {
        fields.push(("enablelogging", bit(archives)));
    }
    if let Some(length) = data.number("history_length") {
        let most = throng_engine::limits::ROOM_HISTORY_MAX as f64;
        fields.push(("maxhistoryfetch", vec![length.clamp(0.0, most).trunc().to_string()]));
    }
    if let Some(roles) = data.table("presence_broadcast") {
        let roles = roles.texts().filter(|(_, is)| **is == Value::Bool(true));
        fields.push(("presencebroadcast", roles.map(|(role, _)| role.to_owned()).collect()));
    }
    fields
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::Text(_) => value.as_text().map(str::to_owned),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Nil | Value::Table(_) => None,
    }
}

/// Appends a stanza as XML, without some attributes of its root. Elements without a namespace have
/// that of their parents. Names are checked when the XML is read.
fn write(out: &mut Vec<u8>, element: &Table, without: &[&str]) -> Result<(), &'static str> {
    let name = element.text("name").ok_or("it is no element")?;
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    let attributes = element.table("attr").into_iter().flat_map(Table::texts);
    for (number, (key, value)) in attributes.enumerate() {
        let Some(value) = word(value).filter(|_| !without.contains(&key) && !key.starts_with("xmlns:")) else {
            continue;
        };
        match key.split_once('\u{1}') {
            Some((namespace, key)) => {
                write_attribute(out, &format!("xmlns:a{number}"), namespace);
                write_attribute(out, &format!("a{number}:{key}"), &value);
            }
            None => write_attribute(out, key, &value),
        }
    }
    out.push(b'>');
    inside(out, element)?;
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
    Ok(())
}

/// Appends the content of a stanza.
fn inside(out: &mut Vec<u8>, element: &Table) -> Result<(), &'static str> {
    for child in &element.list {
        match child {
            Value::Table(child) => write(out, child, &[])?,
            Value::Text(text) => escape_into(out, std::str::from_utf8(text).map_err(|_| "a text is not UTF-8")?),
            _ => return Err("a child is neither element nor text"),
        }
    }
    Ok(())
}

/// The text of a percent-encoded name; `None` if it is none.
fn decoded(name: &str) -> Option<String> {
    percent_decoded(name).filter(|name| !name.is_empty())
}

/// The name of a store's folder.
fn store_encoded(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}

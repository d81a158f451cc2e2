//! The export of a user: the rows of an account, read in pages, as a `<user/>` element.

use std::collections::BTreeMap;

use super::{Counts, NS, NS_ARCHIVE, NS_NODES, NS_OWNER, NS_PRIVATE, NS_ROSTER, Word};
use super::{keys, message, nodes, records, roster};
use crate::extension::mam::Tombstone;
use crate::extension::pubsub::node::{Affiliates, Directory};
use crate::extension::{blocking, vcard};
use crate::id::{Domains, Now};
use crate::limits::{NODE_BYTES_MAX, NODE_PAGE_ITEMS_MAX};
use crate::store::account::{Credentials, Incarnation, Standing};
use crate::store::archive::{self, Entry, live_entries, seek};
use crate::store::ids::Ids;
use crate::store::nodes::{Item, Span};
use crate::store::retractions::{self, Retraction};
use crate::store::waiting::{self, Apart, Cursor, Transient};
use crate::store::{Found, Query, Row, Table, nodes as node_rows, private, roster as roster_rows};
use crate::wire::jid::local_of;
use crate::wire::text::write_attribute;

/// Bytes that are collected before they are passed to the output.
const PORTION_BYTES: usize = 64 << 10;

/// Maximum number of rows, and of their bytes, per read.
const ROWS_MAX: u32 = 512;
const BYTES_MAX: u32 = 1 << 20;

/// How the keys of a password are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    /// Not at all: the export is handed over.
    Omitted,
    /// As XEP-0227 4.3 has them.
    Once,
    /// In base64 twice, with their salts, as ejabberd writes and reads them.
    Twice,
}

/// Which parts of an account are exported, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Portion {
    /// Whether to include the archive.
    pub archive: bool,
    /// How the keys of the password are written.
    pub keys: Keys,
    /// Whether the element declares its namespace, because it begins a file.
    pub begins: bool,
    /// The current time, microseconds since the Unix epoch.
    pub now_us: u64,
}

/// The result of exporting an account.
#[derive(Debug, Default)]
pub struct Departed {
    /// What was written.
    pub counts: Counts,
    /// Warnings about what was omitted.
    pub words: Vec<Word>,
}

/// Writes the `<user/>` element of an account on a server with these domains. `user` is a bare JID
/// and `record` its row. `read` answers queries to the store, `out` takes the text in pieces.
///
/// # Errors
/// Those of `read` and `out`.
pub fn export<E>(
    user: &str,
    domains: &Domains,
    record: &[u8],
    portion: Portion,
    read: &mut dyn FnMut(&Query) -> Result<Found, E>,
    out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<Departed, E> {
    let ids = Ids::of(Incarnation::of_record(record));
    let mut departure =
        Departure { user, ids, domains, portion, read, out, text: Vec::new(), departed: Departed::default() };
    departure.begin(record);
    departure.waiting()?;
    let requests = departure.roster()?;
    departure.private()?;
    departure.records()?;
    departure.text.extend_from_slice(&requests);
    departure.nodes()?;
    if portion.archive {
        departure.archive()?;
    }
    departure.text.extend_from_slice(b"</user>\n");
    departure.flush(0)?;
    Ok(departure.departed)
}

struct Departure<'a, E> {
    user: &'a str,
    /// The ids of its messages.
    ids: Ids,
    domains: &'a Domains,
    portion: Portion,
    read: &'a mut dyn FnMut(&Query) -> Result<Found, E>,
    out: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
    text: Vec<u8>,
    departed: Departed,
}

impl<E> Departure<'_, E> {
    fn flush(&mut self, bytes: usize) -> Result<(), E> {
        if self.text.len() > bytes {
            (self.out)(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    fn word(&mut self, what: &'static str, why: &str) {
        self.departed.words.push(Word::new(what, why));
    }

    fn open(&mut self, name: &str, namespace: &str) {
        self.text.push(b'<');
        self.text.extend_from_slice(name.as_bytes());
        if !namespace.is_empty() {
            write_attribute(&mut self.text, "xmlns", namespace);
        }
        self.text.push(b'>');
    }

    fn close(&mut self, name: &str) {
        self.text.extend_from_slice(format!("</{name}>\n").as_bytes());
    }

    /// One row; `None` if it cannot be read, which adds a warning.
    fn value(&mut self, query: &Query, what: &'static str) -> Result<Option<Box<[u8]>>, E> {
        Ok(match (self.read)(query)? {
            Found::Value(row) => row,
            Found::Rows { .. } | Found::Damaged => {
                self.word(what, "its row is damaged: `throng store check` shows where");
                None
            }
        })
    }

    fn rows(&mut self, query: &Query, what: &'static str) -> Result<(Vec<Row>, bool), E> {
        Ok(match (self.read)(query)? {
            Found::Rows { rows, more } => {
                let more = more && !rows.is_empty();
                (rows, more)
            }
            Found::Value(_) | Found::Damaged => {
                self.word(what, "rows are damaged: `throng store check` shows where");
                (Vec::new(), false)
            }
        })
    }

    fn begin(&mut self, record: &[u8]) {
        self.text.extend_from_slice(b"<user");
        if self.portion.begins {
            write_attribute(&mut self.text, "xmlns", NS);
        }
        write_attribute(&mut self.text, "name", local_of(self.user));
        self.text.extend_from_slice(b">\n");
        if self.portion.keys == Keys::Omitted {
            return;
        }
        match Credentials::decode(record) {
            // The importing server does not know about suspended accounts, and would let the user
            // in.
            Ok(credentials) if credentials.standing() != Standing::InUse => {
                self.word("credentials", "the account is disabled: it is exported without credentials");
            }
            Ok(credentials) => keys::write(&mut self.text, &credentials, self.portion.keys == Keys::Twice),
            Err(_) => self.word("credentials", "the account's row is damaged: it is exported without credentials"),
        }
    }

    /// Writes the waiting messages (XEP-0227 4.5).
    fn waiting(&mut self) -> Result<(), E> {
        const WHAT: &str = "waiting message";
        let cursor = Query::Get { table: Table::Waiting, actor: self.user.as_bytes().into(), sort: Box::default() };
        let cursor = self.value(&cursor, WHAT)?.and_then(|row| Cursor::decode(&row)).unwrap_or_default();
        // By number: the XML, the id in the archive, the time of arrival. Bounded by what may wait.
        let mut all: BTreeMap<u64, (Vec<u8>, Option<u64>, u64)> = BTreeMap::new();
        for apart in [false, true] {
            let mut after = if apart { 0 } else { cursor.number };
            loop {
                let query = if apart { waiting::aparts } else { waiting::transients };
                let (rows, more) = self.rows(&query(self.user, after, ROWS_MAX, BYTES_MAX), WHAT)?;
                for row in &rows {
                    let Some(number) = waiting::number_of(&row.sort) else { continue };
                    after = number;
                    let read = match apart {
                        false => Transient::decode(&row.value).map(|read| (read.of, read.entry)),
                        true => Apart::decode(&row.value).map(|read| (None, read.entry)),
                    };
                    match read {
                        Some((of, entry)) => drop(all.insert(number, (entry.xml.to_vec(), of, entry.time_ms))),
                        None => self.word(WHAT, "its row is damaged"),
                    }
                }
                if !more {
                    break;
                }
            }
        }
        self.each_archived(cursor.number.saturating_add(1), &mut |_, number, entry| {
            if entry.waits {
                all.insert(number, (entry.xml.to_vec(), Some(number), entry.time_ms));
            }
            Ok(())
        })?;
        if all.is_empty() {
            return Ok(());
        }
        self.open("offline-messages", "");
        self.departed.counts.waiting += all.len() as u64;
        for (xml, id, time_ms) in all.into_values() {
            let id = id.map(|number| self.ids.text(number));
            message::write_waiting(&mut self.text, self.user, &xml, id, time_ms);
            self.text.push(b'\n');
            self.flush(PORTION_BYTES)?;
        }
        self.close("offline-messages");
        Ok(())
    }

    /// Calls a function for each valid archive entry, from this number on.
    fn each_archived(
        &mut self,
        from: u64,
        visit: &mut dyn FnMut(&mut Self, u64, &Entry<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut start: Box<[u8]> = from.to_be_bytes().into();
        // The row that voids an entry precedes the row with the entry.
        let mut kept: Vec<Row> = Vec::new();
        loop {
            let query = Query::Range {
                table: Table::Archive,
                actor: self.user.as_bytes().into(),
                from: start,
                until: None,
                reverse: false,
                rows_max: ROWS_MAX,
                bytes_max: BYTES_MAX,
            };
            let (rows, more) = self.rows(&query, "archived message")?;
            start = rows.last().map_or(Box::default(), |row| [&*row.sort, &[0]].concat().into());
            kept.extend(rows);
            let holds = |row: &Row| !archive::is_void(&row.value);
            let ready = if more { kept.iter().rposition(holds).map_or(0, |at| at + 1) } else { kept.len() };
            let rest = kept.split_off(ready);
            let page = std::mem::replace(&mut kept, rest);
            match archive::live_entries(&page) {
                Some(entries) => {
                    for (number, entry) in entries.iter().filter(|(number, _)| *number >= from) {
                        visit(self, *number, entry)?;
                    }
                }
                None => {
                    self.word("archived message", "its row is damaged: the others in the row are not exported either")
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Writes the roster (XEP-0227 4.4); returns the requests of 4.9.
    fn roster(&mut self) -> Result<Vec<u8>, E> {
        let (rows, more) = self.rows(&roster_rows::query(self.user), "contact")?;
        if more {
            self.word("contact", "the roster exceeds its limit: the rest is not exported");
        }
        let (mut requests, mut open) = (Vec::new(), false);
        for row in rows.iter().filter(|row| !row.sort.is_empty()) {
            let read = std::str::from_utf8(&row.sort).ok().zip(roster_rows::ItemView::decode(&row.value));
            let Some((contact, item)) = read else {
                self.word("contact", "its row is damaged");
                continue;
            };
            if item.listed {
                if !std::mem::replace(&mut open, true) {
                    self.open("query", NS_ROSTER);
                }
                self.departed.counts.contacts += 1;
                roster::write_item(&mut self.text, contact, &item);
                self.flush(PORTION_BYTES)?;
            }
            if roster::write_request(&mut requests, self.user, contact, &item) {
                self.departed.counts.requests += 1;
                requests.push(b'\n');
            }
        }
        if open {
            self.close("query");
        }
        Ok(requests)
    }

    /// Writes the private XML (XEP-0227 4.6).
    fn private(&mut self) -> Result<(), E> {
        let (rows, more) = self.rows(&private::all(self.user), "private element")?;
        if more {
            self.word("private element", "there are more than a user may have: the rest is not exported");
        }
        if rows.is_empty() {
            return Ok(());
        }
        self.open("query", NS_PRIVATE);
        for row in &rows {
            self.departed.counts.private += 1;
            self.text.extend_from_slice(&row.value);
            self.flush(PORTION_BYTES)?;
        }
        self.close("query");
        Ok(())
    }

    /// Writes the vCard and the block list (XEP-0227 4.7, 4.8).
    fn records(&mut self) -> Result<(), E> {
        if let Some(row) = self.value(&vcard::query(self.user), "vCard")? {
            match vcard::in_row(&row) {
                Some(card) => {
                    self.departed.counts.vcards += 1;
                    self.text.extend_from_slice(card);
                    self.text.push(b'\n');
                }
                None => self.word("vCard", "its row is damaged"),
            }
        }
        if let Some(row) = self.value(&blocking::query(self.user), "privacy list")? {
            match blocking::of_row(&row) {
                Some(jids) => {
                    let jids: Vec<&str> = jids.collect();
                    self.departed.counts.blocked += jids.len() as u64;
                    records::write_blocked(&mut self.text, &jids);
                    self.text.push(b'\n');
                }
                None => self.word("privacy list", "its row is damaged"),
            }
        }
        self.flush(PORTION_BYTES)
    }

    /// Writes the nodes (XEP-0227 4.10).
    fn nodes(&mut self) -> Result<(), E> {
        let row = self.value(&node_rows::directory(self.user), "node")?;
        let Some(directory) = Directory::decode(row.as_deref()) else {
            self.word("node", "the directory's row is damaged: no node is exported");
            return Ok(());
        };
        if directory.nodes().is_empty() {
            return Ok(());
        }
        self.open("pubsub", NS_OWNER);
        for node in directory.nodes() {
            let row = match node.listed {
                true => self.value(&node_rows::affiliates(self.user, &node.name), "node")?,
                false => None,
            };
            let affiliates = Affiliates::decode(row.as_deref()).unwrap_or_else(|| {
                self.word("node", "the row with its affiliations is damaged");
                Affiliates::default()
            });
            self.departed.counts.nodes += 1;
            nodes::write_owner(&mut self.text, node, &affiliates);
            self.text.push(b'\n');
            self.flush(PORTION_BYTES)?;
        }
        self.close("pubsub");
        self.open("pubsub", NS_NODES);
        for node in directory.nodes() {
            self.text.extend_from_slice(b"<items");
            write_attribute(&mut self.text, "node", &node.name);
            self.text.push(b'>');
            let gone_us = node.config.gone_before_us(Now::new(0, self.portion.now_us).wall());
            let mut span = Span::all(NODE_PAGE_ITEMS_MAX, NODE_BYTES_MAX as u32);
            loop {
                let (rows, more) = self.rows(&node_rows::items(self.user, &node.name, span), "item")?;
                for row in &rows {
                    span.after = node_rows::number_of(&row.sort).unwrap_or(u64::MAX - 1);
                    match Item::decode(&row.value) {
                        Some(item) if item.at_us < gone_us => {}
                        Some(item) => {
                            self.departed.counts.items += 1;
                            nodes::write_item(&mut self.text, &item);
                        }
                        None => self.word("item", "its row is damaged"),
                    }
                    self.flush(PORTION_BYTES)?;
                }
                if !more {
                    break;
                }
            }
            self.close("items");
        }
        self.close("pubsub");
        Ok(())
    }

    /// Writes the archive (XEP-0227 4.11). A message that its sender has retracted is written as
    /// clients see it (XEP-0424).
    fn archive(&mut self) -> Result<(), E> {
        let (any, _) = self.rows(&retractions::first(self.user, 1), "archived message")?;
        let mut open = false;
        self.each_archived(0, &mut |departure, number, entry| {
            if !std::mem::replace(&mut open, true) {
                departure.open("archive", NS_ARCHIVE);
            }
            let shown = if any.is_empty() { None } else { departure.retracted(number, entry)? };
            let xml = shown.as_deref().unwrap_or(entry.xml);
            let (incoming, time_ms) = (entry.incoming, entry.time_ms);
            let id = departure.ids.text(number);
            message::write_result(&mut departure.text, departure.user, xml, id, incoming, time_ms);
            departure.text.push(b'\n');
            departure.departed.counts.archived += 1;
            departure.flush(PORTION_BYTES)
        })?;
        if open {
            self.close("archive");
        }
        Ok(())
    }

    /// The replacement for a retracted message.
    fn retracted(&mut self, number: u64, entry: &Entry<'_>) -> Result<Option<Vec<u8>>, E> {
        let Some(tombstone) = Tombstone::of(self.domains, number, entry) else { return Ok(None) };
        let (rows, _) = self.rows(&tombstone.key.query(self.user), "archived message")?;
        for retraction in rows.iter().filter_map(|row| Retraction::decode(&row.value)) {
            if retraction.number > number && self.is_archived(retraction.number)? {
                return Ok(Some(tombstone.write(&retraction)));
            }
        }
        Ok(None)
    }

    /// Whether an entry is valid in the archive: it may have been refused.
    fn is_archived(&mut self, number: u64) -> Result<bool, E> {
        let (rows, _) = self.rows(&seek(self.user, number), "archived message")?;
        Ok(live_entries(&rows).is_some_and(|all| all.iter().any(|(other, _)| *other == number)))
    }
}

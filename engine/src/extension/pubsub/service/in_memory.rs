//! Items in memory only, as data: for some channels the rows of items are here and not in the
//! store, in the same form, so that a query for rows gets the same results.
//!
//! The store has the directory of such a node *at rest*: without items, and with a number of the
//! last publication that is ahead of the real one. So it is written once per many publications, and
//! numbers continue after it when the items in memory are lost: after the process ends, or because
//! others needed the room. A client that returns with an older number learns that items are
//! missing.
//!
//! A node may take half of the room. If it would take more, its oldest items are dropped, as when
//! it reaches its limit of items.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use super::super::keep::{self, Oldest};
use super::super::node::Directory;
use super::halves::Halves;
use crate::limits::IN_MEMORY_SLACK;
use crate::store::nodes::{self as rows, Place, RowKind, Span};
use crate::store::{Batch, Found, OpView, Query, Row, Table};

/// How far the store's directory is ahead: it is written once per this many publications.
const AHEAD: u64 = 1_024;

/// Approximate size of a row in addition to its key and value, in bytes.
const ROW_BYTES: usize = 64;

/// The rows of one node.
#[derive(Debug, Default)]
struct Rows {
    directory: Box<[u8]>,
    /// The directory in the store.
    at_rest: Box<[u8]>,
    /// Its number of the last publication.
    ahead: u64,
    items: BTreeMap<Box<[u8]>, Box<[u8]>>,
    items_bytes: usize,
    /// Whether the last write had to drop the oldest items.
    trimmed: bool,
}

impl Rows {
    fn put(&mut self, sort: &[u8], value: &[u8]) {
        self.delete(sort);
        self.items_bytes += sort.len() + value.len() + ROW_BYTES;
        self.items.insert(sort.into(), value.into());
    }

    fn delete(&mut self, sort: &[u8]) {
        if let Some(value) = self.items.remove(sort) {
            self.items_bytes -= sort.len() + value.len() + ROW_BYTES;
        }
    }

    fn delete_range(&mut self, from: &[u8], until: &[u8]) {
        let gone: Vec<_> = self.items.keys().filter(|sort| (from..until).contains(&&***sort)).cloned().collect();
        gone.iter().for_each(|sort| self.delete(sort));
    }

    /// Replaces the directory. Returns the new one for the store, if that changes.
    fn direct(&mut self, row: &[u8]) -> Option<&[u8]> {
        self.directory = row.into();
        let last = Directory::decode(Some(row))?.last;
        if last > self.ahead {
            self.ahead = last + AHEAD;
        }
        let at_rest = at_rest(row, self.ahead)?;
        (at_rest != self.at_rest).then(|| {
            self.at_rest = at_rest;
            &*self.at_rest
        })
    }

    /// Drops the oldest items until the rest takes at most this many bytes, and adds the changes
    /// for the store. Returns the number of dropped items.
    fn trim(&mut self, actor: &str, most: usize, store: &mut Batch) -> usize {
        let Some(mut directory) = Directory::decode(Some(&self.directory)) else { return 0 };
        let node = super::node_of(actor);
        let Some(entry) = directory.get_mut(node) else { return 0 };
        let (mut gone, first) = (0, rows::items(actor, node, Span::all(1, 1)));
        while self.bytes() > most {
            let Found::Rows { rows: found, .. } = self.find(&first) else { break };
            let Some(oldest) = found.first().and_then(Oldest::of) else { break };
            let mut batch = Batch::default();
            keep::remove(entry, &mut batch, actor, &oldest.id, Place { number: oldest.number, bytes: oldest.bytes });
            for op in batch.iter() {
                if let OpView::Delete { sort, .. } = op {
                    self.delete(sort);
                }
            }
            gone += 1;
        }
        if let Some(row) = self.direct(&directory.encode()) {
            rows::put_directory(store, actor, row);
        }
        gone
    }

    /// Number of items, each with two rows.
    fn len(&self) -> usize {
        self.items.len() / 2
    }

    fn find(&self, query: &Query) -> Found {
        let (from, until, reverse, rows_max, bytes_max) = match query {
            Query::Get { table, sort, .. } => {
                let is_directory = RowKind::of(*table, sort) == RowKind::Directory;
                let directory = is_directory.then_some(&self.directory).filter(|row| !row.is_empty());
                return Found::Value(directory.or_else(|| self.items.get(sort)).cloned());
            }
            Query::Range { from, until, reverse, rows_max, bytes_max, .. } => {
                (from, until, *reverse, *rows_max as usize, *bytes_max as usize)
            }
        };
        let until = until.as_deref().map_or(Unbounded, Excluded);
        if matches!(until, Excluded(until) if **from >= *until) {
            return Found::Rows { rows: Vec::new(), more: false };
        }
        let mut range = self.items.range::<[u8], _>((Included(&**from), until));
        let mut next = || if reverse { range.next_back() } else { range.next() };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some((sort, value)) = next() {
            if rows.len() >= rows_max || (!rows.is_empty() && bytes >= bytes_max) {
                return Found::Rows { rows, more: true };
            }
            bytes += value.len();
            rows.push(Row { sort: sort.clone(), value: value.clone() });
        }
        Found::Rows { rows, more: false }
    }

    fn bytes(&self) -> usize {
        size_of::<Rows>() + self.directory.len() + self.at_rest.len() + self.items_bytes
    }
}

/// A directory without items and with this number of the last publication.
fn at_rest(row: &[u8], last: u64) -> Option<Box<[u8]>> {
    let mut directory = Directory::decode(Some(row))?;
    directory.rest(last);
    Some(directory.encode().into())
}

/// The stored directory of a node whose items are not in memory: it has none.
fn read_back(found: Found) -> Found {
    let Found::Value(Some(row)) = &found else { return found };
    match Directory::decode(Some(row)).and_then(|directory| at_rest(row, directory.last)) {
        Some(row) => Found::Value(Some(row)),
        None => found,
    }
}

/// How a query is answered.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Ask {
    /// From here, once all others are answered; by the second value, which the store has, if the
    /// rows here are gone by then.
    Here(Query, Found),
    /// From the store, which is read for the directory; from here if this directory has arrived
    /// meanwhile.
    Directory(Query),
    /// From the store.
    Store,
}

impl Ask {
    /// Whether the store has to be read.
    pub fn asks_store(&self) -> bool {
        !matches!(self, Ask::Here(..))
    }
}

/// The part of a batch for the store, and the actors whose rows made room for it.
#[derive(Debug, Default)]
pub struct Left {
    /// For the store.
    pub batch: Batch,
    /// Actors whose rows have all been dropped.
    pub gone: Vec<Box<str>>,
    /// Number of dropped items.
    pub items: usize,
}

/// The rows of all nodes of this home whose items are in memory only.
#[derive(Debug, Default)]
pub struct InMemory(Halves<Rows>);

impl InMemory {
    /// Memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Whether it has rows of a node.
    pub fn has(&self, actor: &str) -> bool {
        self.0.get(actor).is_some()
    }

    /// Whether the last write kept all items of a node that it claimed to keep. Otherwise the
    /// writer's view of the oldest items is wrong.
    pub fn is_as_written(&self, actor: &str) -> bool {
        self.0.get(actor).is_some_and(|rows| !rows.trimmed)
    }

    /// How a query about such a node is answered.
    pub fn ask(&self, query: Query) -> Ask {
        let (Query::Get { actor, sort, .. } | Query::Range { actor, from: sort, .. }) = &query;
        match (RowKind::of(query.table(), sort), self.rows(actor)) {
            (RowKind::Item, _) => {
                let nothing = Rows::default().find(&query);
                Ask::Here(query, nothing)
            }
            (RowKind::Directory, Some(rows)) => Ask::Here(query, Found::Value(Some(rows.at_rest.clone()))),
            (RowKind::Directory, None) => Ask::Directory(query),
            (RowKind::Other, _) => Ask::Store,
        }
    }

    /// All results in the order of their queries, including the store's.
    pub fn answers(&self, asked: Vec<Ask>, from_store: Vec<Found>) -> Vec<Found> {
        let mut from_store = from_store.into_iter();
        let mut next = || from_store.next().unwrap_or(Found::Damaged);
        let answer = |asked| match asked {
            // Others may have pushed it out meanwhile: then numbers continue after the store's.
            Ask::Here(query, at_rest) => self.find(&query).unwrap_or(at_rest),
            // The store's directory may be ahead of publications made meanwhile.
            Ask::Directory(query) => {
                let found = next();
                self.find(&query).unwrap_or_else(|| read_back(found))
            }
            Ask::Store => next(),
        };
        asked.into_iter().map(answer).collect()
    }

    fn find(&self, query: &Query) -> Option<Found> {
        let (Query::Get { actor, sort, .. } | Query::Range { actor, from: sort, .. }) = query;
        let rows = self.rows(actor)?;
        (RowKind::of(query.table(), sort) != RowKind::Other).then(|| rows.find(query))
    }

    fn rows(&self, actor: &[u8]) -> Option<&Rows> {
        self.0.get(std::str::from_utf8(actor).ok()?)
    }

    /// Writes the part of a batch about nodes selected by `is_here`; all together take at most
    /// `most` bytes.
    pub fn write(&mut self, batch: &Batch, is_here: impl Fn(&str) -> bool, most: usize) -> Left {
        let mut left = Left::default();
        let mut open: Option<(&str, Rows)> = None;
        for op in batch.iter() {
            let actor = std::str::from_utf8(op.actor()).ok().filter(|actor| is_here(actor));
            if open.as_ref().map(|(actor, _)| *actor) != actor {
                self.close(open.take(), most, &mut left);
                open = actor.map(|actor| (actor, self.0.take(actor).unwrap_or_default()));
            }
            let rest = &mut left.batch;
            let Some((_, rows)) = &mut open else {
                rest.add(op);
                continue;
            };
            match op {
                OpView::Put { table, actor, sort, value } => match RowKind::of(table, sort) {
                    RowKind::Item => rows.put(sort, value),
                    RowKind::Directory => {
                        rows.direct(value).into_iter().for_each(|row| rest.put(table, actor, sort, &[row]));
                    }
                    RowKind::Other => rest.add(op),
                },
                OpView::Delete { table, sort, .. } => match RowKind::of(table, sort) {
                    RowKind::Item => rows.delete(sort),
                    RowKind::Directory => {
                        *rows = Rows::default();
                        rest.add(op);
                    }
                    RowKind::Other => rest.add(op),
                },
                // A node whose items were not always in memory may have some in the store.
                OpView::DeleteRange { table, from, until, .. } => {
                    if table == Table::Nodes {
                        rows.delete_range(from, until);
                    }
                    rest.add(op);
                }
                OpView::DeleteActor { table, .. } => {
                    if table == Table::Nodes {
                        *rows = Rows::default();
                    }
                    rest.add(op);
                }
            }
        }
        self.close(open, most, &mut left);
        left
    }

    fn close(&mut self, open: Option<(&str, Rows)>, most: usize, left: &mut Left) {
        // Without a directory the node does not exist.
        let Some((actor, mut rows)) = open.filter(|(_, rows)| !rows.directory.is_empty()) else { return };
        let (own, half) = (actor.len(), most / 2);
        let mut trimmed = 0;
        if rows.bytes() + own > half {
            // Slack, so that not every publication has to make room.
            trimmed = rows.trim(actor, (half - half / IN_MEMORY_SLACK).saturating_sub(own), &mut left.batch);
        }
        rows.trimmed = trimmed > 0;
        let bytes = rows.bytes() + own;
        let gone = self.0.put(actor, rows, bytes, most);
        left.items += trimmed + gone.iter().map(|(_, rows)| rows.len()).sum::<usize>();
        left.gone.extend(gone.into_iter().map(|(actor, _)| actor));
    }
}

//! What each table of the first level holds of whom, so that a read costs no look into a table that has nothing of its
//! actor: most of what is read at a login is not there, and there may be many tables in which it is not.
//!
//! A Bloom filter a table, of the flat keys' parts that name table and actor, 10 bits each; it stays in memory and is
//! made while the table is written. It is not on the disk: for tables that an opening finds it is made afterwards, from
//! what they hold, and until then they are looked into. Tables behind the first level have none: they do not overlap, so
//! that a read looks into one of each level.

use std::collections::BTreeMap;
use std::sync::Arc;

use lsm_tree::TableId;
use lsm_tree::table::filter::standard_bloom::{Builder, StandardBloomFilterReader};
use throng_engine::store::key;

use crate::waits::{Place, RwLock};

/// Bits for each actor of a table: one look of a hundred is in vain.
const BITS: f32 = 10.0;

/// The part of a flat key that all rows of its actor have.
fn prefix(key: &[u8]) -> Option<&[u8]> {
    key::decode(key).map(|(_, _, sort)| &key[..key.len() - sort.len()])
}

/// The actors of a table that is being written, whose keys come in order.
#[derive(Default)]
pub(super) struct Actors {
    hashes: Vec<u64>,
    last: Vec<u8>,
}

impl Actors {
    pub(super) fn add(&mut self, key: &[u8]) {
        let Some(prefix) = prefix(key) else { return };
        if self.last != prefix || self.hashes.is_empty() {
            self.hashes.push(Builder::get_hash(prefix));
            self.last.clear();
            self.last.extend_from_slice(prefix);
        }
    }

    fn filter(&self) -> Filter {
        let mut builder = Builder::with_bpk(self.hashes.len().max(1), BITS);
        self.hashes.iter().for_each(|hash| builder.set_with_hash(*hash));
        Filter(builder.build().into())
    }
}

/// A filter as `lsm_tree` writes it.
#[derive(Clone)]
struct Filter(Arc<[u8]>);

impl Filter {
    fn may_hold(&self, hash: u64) -> bool {
        StandardBloomFilterReader::new(&self.0).map_or(true, |filter| filter.contains_hash(hash))
    }
}

/// The filters of the tables that have one.
pub(super) struct Filters(RwLock<BTreeMap<TableId, Option<Filter>>>);

impl Default for Filters {
    fn default() -> Filters {
        Filters(RwLock::new(Place::LockFilters, BTreeMap::new()))
    }
}

impl Filters {
    /// These tables hold nothing of other actors; of all if there are `None`, because they could not be read.
    pub(super) fn set(&self, tables: impl IntoIterator<Item = TableId>, actors: Option<&Actors>) {
        let filter = actors.map(Actors::filter);
        let mut filters = self.0.write();
        filters.extend(tables.into_iter().map(|table| (table, filter.clone())));
    }

    /// Forgets all tables but those that `stay`.
    pub(super) fn keep(&self, stay: impl Fn(TableId) -> bool) {
        self.0.write().retain(|table, _| stay(*table));
    }

    /// Memory of all filters, bytes.
    pub(super) fn bytes(&self) -> u64 {
        let filters = self.0.read();
        filters.values().flatten().map(|filter| filter.0.len() as u64).sum()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }

    pub(super) fn has(&self, table: TableId) -> bool {
        self.0.read().contains_key(&table)
    }

    /// Whether a table may hold rows of the actor that `key` is of: a flat key, or what all keys of an actor begin with. Of no actor are
    /// the store's own rows, which may be in any table.
    pub(super) fn looker<'a>(&'a self, key: &[u8]) -> impl Fn(TableId) -> bool + use<'a> {
        let hash = prefix(key).map(Builder::get_hash);
        let filters = self.0.read();
        move |table| {
            let filter = filters.get(&table).and_then(Option::as_ref);
            hash.zip(filter).is_none_or(|(hash, filter)| filter.may_hold(hash))
        }
    }
}

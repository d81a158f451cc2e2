//! In-memory filters of the actors in each table of the first level, so that a read skips tables
//! without rows of its actor. Most rows that a login looks up do not exist, and there may be many
//! tables to search.
//!
//! There is one Bloom filter per table, over the prefixes of flat keys with table and actor, 10
//! bits each. It is built while the table is written, and is not stored: for existing tables it is
//! built after an opening from their content, and until then those tables are searched. Tables
//! below the first level have none: they do not overlap, so a read looks into one per level.

use std::collections::BTreeMap;
use std::sync::Arc;

use lsm_tree::TableId;
use lsm_tree::table::filter::standard_bloom::{Builder, StandardBloomFilterReader};
use throng_engine::store::key;

use crate::waits::{Place, RwLock};

/// Bits per actor of a table: one lookup in a hundred is a false positive.
const BITS: f32 = 10.0;

/// The prefix of a flat key that all rows of its actor share.
fn prefix(key: &[u8]) -> Option<&[u8]> {
    key::decode(key).map(|(_, _, sort)| &key[..key.len() - sort.len()])
}

/// The actors of a table that is being written; keys arrive in order.
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

/// A filter in `lsm_tree`'s encoding.
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
    /// Declares that these tables hold rows of no other actors; `None`: of any, because they could
    /// not be read.
    pub(super) fn set(&self, tables: impl IntoIterator<Item = TableId>, actors: Option<&Actors>) {
        let filter = actors.map(Actors::filter);
        let mut filters = self.0.write();
        filters.extend(tables.into_iter().map(|table| (table, filter.clone())));
    }

    /// Removes the filters of tables for which `stay` is false.
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

    /// Returns whether a given table may hold rows of the actor of `key`: a flat key, or the prefix
    /// of all keys of an actor. The store's own rows belong to no actor and may be in any table.
    pub(super) fn looker<'a>(&'a self, key: &[u8]) -> impl Fn(TableId) -> bool + use<'a> {
        let hash = prefix(key).map(Builder::get_hash);
        let filters = self.0.read();
        move |table| {
            let filter = filters.get(&table).and_then(Option::as_ref);
            hash.zip(filter).is_none_or(|(hash, filter)| filter.may_hold(hash))
        }
    }
}

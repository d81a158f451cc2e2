//! The memory table: what has been committed and is not in tables yet.
//!
//! It is the content of the journal's segment in memory, with an index: a hash from table and name
//! to the actor, and per actor its rows in the order of their sort keys, only the newest version of
//! each. A put costs one lookup and, since most keys arrive in order, one comparison. Actors are
//! sorted only when they become a table. Memory is allocated in few large pieces, which are reused
//! for the next memory table.

use hashbrown::HashTable;
use lsm_tree::Slice;
use smallvec::SmallVec;
use throng_engine::store::{OpView, Table, key};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::group::{self, Placed};
use super::memory::delete_bounds;
use super::ranges::Ranges;
use crate::waits::{Place, ReadGuard, RwLock};

/// Bytes of an actor and its index entry, without its rows.
const ACTOR_BYTES: usize = 80;

/// Bytes of a row's entry.
const ROW_BYTES: usize = size_of::<Row>();

/// Actors whose rows are prefetched together when they become a table.
const FETCHED: usize = 16;

/// Rows prefetched per actor; the core prefetches the following ones itself.
const FETCHED_ROWS: usize = 4;

/// Bytes prefetched per row.
const FETCHED_BYTES: usize = 512;

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Value length that marks a removed row.
const GONE: u32 = u32::MAX;

/// One memory table. One thread writes it, any number of threads read it meanwhile.
#[derive(Debug)]
pub(super) struct Memtable {
    /// Number of its segment of the journal; rows with a higher number are newer.
    pub(super) number: u64,
    /// Sequence number of its first group.
    pub(super) first: u64,
    rows: RwLock<Rows>,
}

/// The content of a memory table.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// Groups as they were written.
    bytes: Vec<u8>,
    actors: Vec<Actor>,
    /// Numbers of actors by table and name.
    index: HashTable<u32>,
    /// Other removed keys: rows of older memory tables and of tables. Rows of this one are newer
    /// than its ranges.
    ranges: Ranges,
    rows: usize,
    /// Prevents chosen hash collisions.
    seed: u64,
}

#[derive(Clone, Debug)]
struct Actor {
    hash: u64,
    at: u32,
    length: u16,
    table: Table,
    rows: SmallVec<[Row; 2]>,
}

/// A row, by the offset of its sort key; the value follows.
#[derive(Clone, Copy, Debug)]
struct Row {
    at: u32,
    value: u32,
    sort: u16,
}

/// A memory table's knowledge of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Known<T> {
    /// It exists.
    Value(T),
    /// It has been removed, whatever older sources contain.
    Gone,
    /// Unknown: older sources decide.
    Nothing,
}

impl Memtable {
    /// An empty one for the segment `number`, whose groups begin with `first`, reusing the memory
    /// of `rows`.
    pub(super) fn new(number: u64, first: u64, rows: Rows) -> Memtable {
        Memtable { number, first, rows: RwLock::new(Place::LockRows, rows) }
    }

    /// Adds a group; `false` if these bytes are not a group, after which it must not be used any
    /// more.
    #[must_use]
    pub(super) fn apply(&self, group: &[u8]) -> bool {
        self.rows.write().apply(group)
    }

    /// Locks the rows for reading, briefly: the writer waits meanwhile.
    pub(super) fn read(&self) -> ReadGuard<'_, Rows> {
        self.rows.read()
    }

    /// Gives unused memory back.
    pub(super) fn shrink(&self) {
        self.rows.write().bytes.shrink_to_fit();
    }

    /// Its rows alone.
    pub(super) fn into_rows(self) -> Rows {
        self.rows.into_inner()
    }

    /// The memory of one that is no longer used, emptied.
    pub(super) fn into_spare(self) -> Rows {
        let mut rows = self.rows.into_inner();
        rows.bytes.clear();
        rows.actors.clear();
        rows.index.clear();
        rows.ranges.clear();
        rows.rows = 0;
        rows
    }
}

impl Rows {
    /// Empty, with room for `bytes` of groups. Names are hashed with `seed`.
    pub(super) fn with_capacity(bytes: usize, seed: u64) -> Rows {
        Rows { bytes: Vec::with_capacity(bytes), seed, ..Rows::default() }
    }

    /// Empty, as [`Rows::with_capacity`], for the next memory table of a store.
    pub(super) fn sibling(&self, bytes: usize) -> Rows {
        Rows::with_capacity(bytes, self.seed)
    }

    /// Whether nothing has been written.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Memory in use, bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.actors.len() * ACTOR_BYTES + self.rows * ROW_BYTES + self.ranges.bytes()
    }

    /// Memory that an empty one keeps for reuse, bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        let tables = self.actors.capacity() * size_of::<Actor>() + self.index.allocation_size();
        self.bytes.capacity() + tables
    }

    /// Ranges whose older rows are removed.
    pub(super) fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    fn apply(&mut self, group: &[u8]) -> bool {
        let base = self.bytes.len();
        self.bytes.extend_from_slice(group);
        for placed in group::operations(group) {
            let Some(Placed { op, at }) = placed else { return false };
            let at = base + at.start;
            match op {
                OpView::Put { table, actor, sort, value } => {
                    let value = u32::try_from(value.len()).expect("a value has a u32 as length");
                    self.put(table, actor, at, sort, value);
                }
                OpView::Delete { table, actor, sort } => self.put(table, actor, at, sort, GONE),
                OpView::DeleteRange { table, actor, from, until } => {
                    self.remove(table, actor, from, Some(until));
                }
                OpView::DeleteActor { table, actor } => self.remove(table, actor, b"", None),
            }
            if let Some((from, until)) = delete_bounds(&op) {
                self.ranges.add(from, until);
            }
        }
        true
    }

    /// Inserts a row; its actor is at offset `at`, followed by the sort key.
    fn put(&mut self, table: Table, name: &[u8], at: usize, sort: &[u8], value: u32) {
        let actor = self.actor(table, name, at);
        let row = Row { at: small(at + name.len()), value, sort: sort.len() as u16 };
        let rows = &mut self.actors[actor].rows;
        let key = |row: &Row| &self.bytes[row.at as usize..][..usize::from(row.sort)];
        match rows.last().map(|last| key(last).cmp(sort)) {
            None | Some(std::cmp::Ordering::Less) => rows.push(row),
            Some(std::cmp::Ordering::Equal) => {
                *rows.last_mut().expect("just seen") = row;
                return;
            }
            Some(std::cmp::Ordering::Greater) => match rows.binary_search_by(|row| key(row).cmp(sort)) {
                Ok(found) => {
                    rows[found] = row;
                    return;
                }
                Err(place) => rows.insert(place, row),
            },
        }
        self.rows += 1;
    }

    /// Removes this table's own rows of a range.
    fn remove(&mut self, table: Table, name: &[u8], from: &[u8], until: Option<&[u8]>) {
        let Some(at) = self.find(table, name) else { return };
        let (first, last) = self.span(at, from, until);
        self.actors[at].rows.drain(first..last);
        self.rows -= last - first;
    }

    /// The rows of an actor in `from..until`, as indices.
    fn span(&self, actor: usize, from: &[u8], until: Option<&[u8]>) -> (usize, usize) {
        let rows = &self.actors[actor].rows;
        let first = rows.partition_point(|row| self.sort(row) < from);
        let last = until.map_or(rows.len(), |until| rows.partition_point(|row| self.sort(row) < until));
        (first, last.max(first))
    }

    fn sort(&self, row: &Row) -> &[u8] {
        &self.bytes[row.at as usize..][..usize::from(row.sort)]
    }

    fn value(&self, row: &Row) -> Option<&[u8]> {
        let start = row.at as usize + usize::from(row.sort);
        (row.value != GONE).then(|| &self.bytes[start..start + row.value as usize])
    }

    fn name(&self, actor: &Actor) -> &[u8] {
        &self.bytes[actor.at as usize..][..usize::from(actor.length)]
    }

    fn hash(&self, table: Table, name: &[u8]) -> u64 {
        xxh3_64_with_seed(name, self.seed ^ table as u64)
    }

    fn find(&self, table: Table, name: &[u8]) -> Option<usize> {
        let same = |at: &u32| {
            let actor = &self.actors[*at as usize];
            actor.table == table && self.name(actor) == name
        };
        self.index.find(self.hash(table, name), same).map(|at| *at as usize)
    }

    /// Number of an actor; a new one's name is at offset `at`.
    fn actor(&mut self, table: Table, name: &[u8], at: usize) -> usize {
        if let Some(found) = self.find(table, name) {
            return found;
        }
        let (hash, number) = (self.hash(table, name), self.actors.len());
        self.actors.push(Actor { hash, at: small(at), length: name.len() as u16, table, rows: SmallVec::new() });
        self.index.insert_unique(hash, small(number), |at| self.actors[*at as usize].hash);
        number
    }

    /// Looks one row up.
    pub(super) fn get(&self, table: Table, name: &[u8], sort: &[u8]) -> Known<&[u8]> {
        let found = self.find(table, name).and_then(|at| {
            let rows = &self.actors[at].rows;
            rows.binary_search_by(|row| self.sort(row).cmp(sort)).ok().map(|found| &rows[found])
        });
        match found {
            Some(row) => self.value(row).map_or(Known::Gone, Known::Value),
            None if !self.ranges.is_empty() && self.ranges.holds(&super::memory::flat(table, name, sort)) => {
                Known::Gone
            }
            None => Known::Nothing,
        }
    }

    /// Sort keys and values of an actor in `from..until`, in order; no value for a removed row.
    pub(super) fn range<'a>(
        &'a self,
        table: Table,
        name: &[u8],
        from: &[u8],
        until: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let found = self.find(table, name).map(|at| (at, self.span(at, from, until)));
        let rows = found.map_or(&[][..], |(at, (first, last))| &self.actors[at].rows[first..last]);
        rows.iter().map(|row| (self.sort(row), self.value(row)))
    }

    /// Actors of a table that have a row, in no order.
    pub(super) fn names(&self, table: Table) -> impl Iterator<Item = &[u8]> {
        let of_table = self.actors.iter().filter(move |actor| actor.table == table);
        of_table.filter(|actor| !actor.rows.is_empty()).map(|actor| self.name(actor))
    }

    /// Numbers of the actors in the order of their flat keys, for [`Rows::flat`].
    pub(super) fn order(&self) -> Vec<u32> {
        self.order_of(|_| true)
    }

    /// The same for actors that may have rows in these ranges.
    pub(super) fn order_within(&self, wanted: &Ranges) -> Vec<u32> {
        self.order_of(|prefix| {
            let end = [&prefix[..prefix.len() - 1], &[1]].concat();
            wanted.holds(prefix) || wanted.within(prefix, &end).next().is_some()
        })
    }

    /// The same for actors whose flat key prefix is wanted.
    fn order_of(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<u32> {
        let mut prefixes = Vec::new();
        let mut order: Vec<([u8; 8], u32, u32)> = Vec::with_capacity(self.actors.len());
        for (number, actor) in self.actors.iter().enumerate() {
            let start = prefixes.len();
            key::encode(&mut prefixes, actor.table, self.name(actor), b"");
            if !wanted(&prefixes[start..]) {
                prefixes.truncate(start);
                continue;
            }
            // Most differ in table, partition and the name's first bytes.
            let mut first = [0; 8];
            let length = (prefixes.len() - start).min(8);
            first[..length].copy_from_slice(&prefixes[start..start + length]);
            order.push((first, small(start), small(number)));
        }
        // A prefix ends in a NUL, which no name contains: none is the prefix of another.
        let rest = |at: u32| &prefixes[at as usize..];
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| rest(a.1).cmp(rest(b.1))));
        order.into_iter().map(|(_, _, number)| number).collect()
    }

    /// Prefetches rows of some actors. They were written far from each other: accessed one by one,
    /// each would stall. These reads are independent, so the core executes many at once.
    fn fetch(&self, few: &[u32]) {
        let rows = few.iter().flat_map(|number| self.actors[*number as usize].rows.iter().take(FETCHED_ROWS));
        let lines = rows.flat_map(|row| self.bytes[row.at as usize..].iter().take(FETCHED_BYTES).step_by(LINE_BYTES));
        std::hint::black_box(lines.fold(0, |all, byte| all ^ byte));
    }

    /// All rows in the order of their flat keys, given by `order`; no value for a removed row.
    pub(super) fn flat<'a>(&'a self, order: &'a [u32]) -> impl Iterator<Item = (Slice, Option<&'a [u8]>)> {
        let few = order.chunks(FETCHED).inspect(|few| self.fetch(few)).flatten();
        few.flat_map(move |number| {
            let actor = &self.actors[*number as usize];
            let mut key = Vec::new();
            key::encode(&mut key, actor.table, self.name(actor), b"");
            let prefix = key.len();
            actor.rows.iter().map(move |row| {
                key.truncate(prefix);
                key.extend_from_slice(self.sort(row));
                (Slice::from(&key[..]), self.value(row))
            })
        })
    }
}

/// Offsets and numbers stay below 4 GiB: a memory table is at most a buffer and a group.
fn small(number: usize) -> u32 {
    u32::try_from(number).expect("a memory table stays below 4 GiB")
}

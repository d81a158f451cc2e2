//! Writes and reads as data: a [`Batch`] holds the writes of one turn, a [`Query`] is one read.

use super::Table;

/// The writes of one turn, in order, applied atomically. One growing buffer holds all keys and
/// values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
    ops: Vec<Entry>,
    /// Tables of the operations, one bit each.
    tables: u16,
    /// Expected final size in bytes.
    expects: usize,
}

/// Maximum memory reserved in advance, bytes.
const EXPECTS_MAX: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Put,
    Delete,
    DeleteRange,
    DeleteActor,
}

/// Lengths of the parts of one operation; they are consecutive in `bytes`, from `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    kind: Kind,
    table: Table,
    start: u32,
    actor: u16,
    sort: u16,
    value: u32,
}

/// A view of one operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum OpView<'a> {
    /// Writes a row, replacing an earlier one with the same key.
    Put {
        /// The table.
        table: Table,
        /// The actor.
        actor: &'a [u8],
        /// The sort key.
        sort: &'a [u8],
        /// The row's bytes.
        value: &'a [u8],
    },
    /// Removes a row; no error if there is none.
    Delete {
        /// The table.
        table: Table,
        /// The actor.
        actor: &'a [u8],
        /// The sort key.
        sort: &'a [u8],
    },
    /// Removes the rows of one actor with `from <= sort key < until`.
    DeleteRange {
        /// The table.
        table: Table,
        /// The actor.
        actor: &'a [u8],
        /// The first sort key to remove.
        from: &'a [u8],
        /// The first sort key to keep.
        until: &'a [u8],
    },
    /// Removes all rows of one actor in one table.
    DeleteActor {
        /// The table.
        table: Table,
        /// The actor.
        actor: &'a [u8],
    },
}

fn bit(table: Table) -> u16 {
    1 << table as u16
}

impl<'a> OpView<'a> {
    /// The actor of the operation.
    pub fn actor(&self) -> &'a [u8] {
        match *self {
            OpView::Put { actor, .. }
            | OpView::Delete { actor, .. }
            | OpView::DeleteRange { actor, .. }
            | OpView::DeleteActor { actor, .. } => actor,
        }
    }
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// An empty batch that is expected to grow to the size of `other`. It allocates once, with its
    /// first operation.
    pub fn like(other: &Batch) -> Batch {
        Batch { expects: other.bytes.len().min(EXPECTS_MAX), ..Batch::default() }
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Bytes of the keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Empties the batch but keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ops.clear();
        self.tables = 0;
    }

    /// Whether an operation concerns this table.
    pub fn concerns(&self, table: Table) -> bool {
        self.tables & bit(table) != 0
    }

    /// Writes a row. The value may be given in several pieces, so that nothing is copied twice.
    pub fn put(&mut self, table: Table, actor: &[u8], sort: &[u8], value: &[&[u8]]) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(self.expects);
        }
        let start = self.bytes.len();
        self.bytes.extend_from_slice(actor);
        self.bytes.extend_from_slice(sort);
        for piece in value {
            self.bytes.extend_from_slice(piece);
        }
        let value = self.bytes.len() - start - actor.len() - sort.len();
        self.push(Kind::Put, table, start, actor.len(), sort.len(), value);
    }

    /// The last operation.
    pub fn last(&self) -> Option<OpView<'_>> {
        self.ops.last().map(|op| self.view(op))
    }

    /// Appends to the value of the last operation, which must be a put, and replaces its sort key
    /// with another one of the same length.
    pub fn extend_last(&mut self, sort: &[u8], value: &[&[u8]]) {
        let op = self.ops.last_mut().filter(|op| op.kind == Kind::Put).expect("the last operation is a put");
        let sort_start = op.start as usize + usize::from(op.actor);
        self.bytes[sort_start..sort_start + usize::from(op.sort)].copy_from_slice(sort);
        let before = self.bytes.len();
        for piece in value {
            self.bytes.extend_from_slice(piece);
        }
        op.value += u32::try_from(self.bytes.len() - before).expect("a value stays below 4 GiB");
    }

    /// Removes a row.
    pub fn delete(&mut self, table: Table, actor: &[u8], sort: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(actor);
        self.bytes.extend_from_slice(sort);
        self.push(Kind::Delete, table, start, actor.len(), sort.len(), 0);
    }

    /// Removes the rows of one actor with `from <= sort key < until`.
    pub fn delete_range(&mut self, table: Table, actor: &[u8], from: &[u8], until: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(actor);
        self.bytes.extend_from_slice(from);
        self.bytes.extend_from_slice(until);
        self.push(Kind::DeleteRange, table, start, actor.len(), from.len(), until.len());
    }

    /// Removes all rows of one actor of one table.
    pub fn delete_actor(&mut self, table: Table, actor: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(actor);
        self.push(Kind::DeleteActor, table, start, actor.len(), 0, 0);
    }

    /// Adds an operation of another batch.
    pub fn add(&mut self, op: OpView<'_>) {
        match op {
            OpView::Put { table, actor, sort, value } => self.put(table, actor, sort, &[value]),
            OpView::Delete { table, actor, sort } => self.delete(table, actor, sort),
            OpView::DeleteRange { table, actor, from, until } => self.delete_range(table, actor, from, until),
            OpView::DeleteActor { table, actor } => self.delete_actor(table, actor),
        }
    }

    /// Appends the operations of another batch.
    pub fn append(&mut self, other: &Batch) {
        self.tables |= other.tables;
        let shift = u32::try_from(self.bytes.len()).expect("a batch stays below 4 GiB");
        self.bytes.extend_from_slice(&other.bytes);
        self.ops.extend(other.ops.iter().map(|op| Entry { start: op.start + shift, ..*op }));
    }

    fn push(&mut self, kind: Kind, table: Table, start: usize, actor: usize, sort: usize, value: usize) {
        self.tables |= bit(table);
        // The turn's limits keep a batch far below 4 GiB, and the constants of `key` keep keys
        // below 64 KiB.
        self.ops.push(Entry {
            kind,
            table,
            start: u32::try_from(start).expect("a batch stays below 4 GiB"),
            actor: u16::try_from(actor).expect("an actor stays below 64 KiB"),
            sort: u16::try_from(sort).expect("a sort key stays below 64 KiB"),
            value: u32::try_from(value).expect("a value stays below 4 GiB"),
        });
    }

    /// The operations in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = OpView<'_>> {
        self.ops.iter().map(|op| self.view(op))
    }

    fn view(&self, op: &Entry) -> OpView<'_> {
        let (actor, rest) = self.bytes[op.start as usize..].split_at(usize::from(op.actor));
        let (sort, rest) = rest.split_at(usize::from(op.sort));
        let value = &rest[..op.value as usize];
        let table = op.table;
        match op.kind {
            Kind::Put => OpView::Put { table, actor, sort, value },
            Kind::Delete => OpView::Delete { table, actor, sort },
            Kind::DeleteRange => OpView::DeleteRange { table, actor, from: sort, until: value },
            Kind::DeleteActor => OpView::DeleteActor { table, actor },
        }
    }
}

impl serde::Serialize for Batch {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

impl<'de> serde::Deserialize<'de> for Batch {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Batch, D::Error> {
        let mut batch = Batch::new();
        for op in Vec::<OpView<'_>>::deserialize(from)? {
            let sort = match op {
                OpView::Put { sort, .. } | OpView::Delete { sort, .. } | OpView::DeleteRange { from: sort, .. } => sort,
                OpView::DeleteActor { .. } => &[],
            };
            if op.actor().len().max(sort.len()) > usize::from(u16::MAX) {
                return Err(serde::de::Error::custom("a key has 64 KiB or more"));
            }
            batch.add(op);
        }
        Ok(batch)
    }
}

/// A query to the store. It sees every write that the same shard has requested before it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Query {
    /// One row.
    Get {
        /// The table.
        table: Table,
        /// The actor.
        actor: Box<[u8]>,
        /// The sort key.
        sort: Box<[u8]>,
    },
    /// Rows of one actor with `from <= sort key < until`, in order.
    Range {
        /// The table.
        table: Table,
        /// The actor.
        actor: Box<[u8]>,
        /// The first sort key of the range.
        from: Box<[u8]>,
        /// The first sort key after the range; `None` for the actor's last row.
        until: Option<Box<[u8]>>,
        /// Whether to read from the last row backwards.
        reverse: bool,
        /// Maximum number of rows to return.
        rows_max: u32,
        /// Stop after the row that reaches this many bytes of values (at least one row is
        /// returned).
        bytes_max: u32,
    },
}

/// A row of a range.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Row {
    /// The sort key.
    pub sort: Box<[u8]>,
    /// The row's bytes.
    pub value: Box<[u8]>,
}

impl Query {
    /// The table that it reads.
    pub fn table(&self) -> Table {
        match self {
            Query::Get { table, .. } | Query::Range { table, .. } => *table,
        }
    }
}

/// The answer to one [`Query`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Found {
    /// The answer to `Get`: the row's bytes, if it exists.
    Value(Option<Box<[u8]>>),
    /// The answer to `Range`: the rows in the requested order.
    Rows {
        /// The rows.
        rows: Vec<Row>,
        /// Whether the range has more rows than the limits permit.
        more: bool,
    },
    /// The stored data is damaged and cannot be read. It must be treated neither as absent nor as
    /// free to overwrite.
    Damaged,
}

impl Found {
    /// Bytes of the rows.
    pub fn bytes(&self) -> usize {
        match self {
            Found::Value(value) => value.as_ref().map_or(0, |value| value.len()),
            Found::Rows { rows, .. } => rows.iter().map(|row| row.sort.len() + row.value.len()).sum(),
            Found::Damaged => 0,
        }
    }

    /// The row's bytes, if this answers a `Get` and the row exists.
    pub fn value(self) -> Option<Box<[u8]>> {
        match self {
            Found::Value(value) => value,
            Found::Rows { .. } | Found::Damaged => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_reads_back_as_written() {
        let mut batch = Batch::new();
        batch.put(Table::Archive, b"a@x", b"1", &[b"he", b"llo"]);
        batch.delete(Table::Waiting, b"a@x", b"");
        batch.delete_range(Table::Archive, b"a@x", b"0", b"9");
        let mut more = Batch::new();
        more.delete_actor(Table::Roster, b"a@x");
        batch.append(&more);
        batch.put(Table::Waiting, b"b@x", b"01", &[b"long"]);
        batch.extend_last(b"02", &[b"", b"er"]);
        assert_eq!(batch.last(), batch.iter().last());
        let ops: Vec<_> = batch.iter().collect();
        assert_eq!(
            ops,
            [
                OpView::Put { table: Table::Archive, actor: b"a@x", sort: b"1", value: b"hello" },
                OpView::Delete { table: Table::Waiting, actor: b"a@x", sort: b"" },
                OpView::DeleteRange { table: Table::Archive, actor: b"a@x", from: b"0", until: b"9" },
                OpView::DeleteActor { table: Table::Roster, actor: b"a@x" },
                OpView::Put { table: Table::Waiting, actor: b"b@x", sort: b"02", value: b"longer" },
            ]
        );
    }
}

//! Rows of the nodes' table: what an actor publishes (XEP-0060), in the order of publication.
//!
//! Sort keys begin with a byte for the kind of row. A node's name is followed by NUL, which neither
//! a name nor an id can contain (XML 1.0 2.2).
//!
//! ```text
//! 0                                the directory: all nodes of the actor, with their configuration
//! 1 | node                         affiliations with the node and subscriptions to it
//! 2 | node | NUL | number          an item, by its number (u64 big endian), which grows with
//!                                  each publication of the actor
//! 3 | node | NUL | id              the number and size of the item with this id, and the
//!                                  publisher's key of the publication
//! ```
//!
//! A node of a service with a domain of its own is an actor: `service/node`. It has the rows above,
//! of one node, except the second kind. Each subscriber or affiliate has a row of its own instead,
//! because there may be very many:
//!
//! ```text
//! 4 | bare JID                     the subscription and affiliation of one JID
//! 5 | bare JID                     marks a JID as affiliated, to list affiliates alone
//! ```
//!
//! Users have a row for each node that knows them, and the service one for each public node. They
//! are derived from the node's own rows:
//!
//! ```text
//! 6 | service/node                 a node that the user has created, subscribed to, or is about to
//! 7 | service/node                 a node with which others have affiliated the user
//! 8 | node                         at the service: a public node, with its title
//! ```
//!
//! A node of a service has rows for the pages that receive its items by web push:
//!
//! ```text
//! 9 | id                           a registration, by 16 bytes of its push address's hash
//! 10                               the number of registrations
//! 10 | network                     the number for one address: its 4 bytes, or the first 8 of IPv6
//! ```

use super::{Batch, OpView, Query, Table};
use crate::id::PushId;
use crate::limits::{NODE_DIRECTORY_BYTES_MAX, NODE_ITEM_ROW_BYTES_MAX};

pub(super) const DIRECTORY: u8 = 0;
pub(super) const AFFILIATES: u8 = 1;
pub(super) const ITEM: u8 = 2;
pub(super) const ID: u8 = 3;
const FORMAT: u8 = 1;
const FORMAT_EXPIRES: u8 = 2;
const FORMAT_OWNED: u8 = 3;
const FORMAT_KEYED: u8 = 4;
/// Format of the place of an item whose publication has a key besides the id.
const FORMAT_BY: u8 = 2;
/// Format of the row of a subscriber that has missed items.
const FORMAT_BEHIND: u8 = 2;
/// Prefix of the ids of items that each replace the previous item with the same key.
const KEY: &str = "key-";
pub(super) const MEMBER: u8 = 4;
pub(super) const AFFILIATED: u8 = 5;
pub(super) const OWN: u8 = 6;
pub(super) const GIVEN: u8 = 7;
pub(super) const SHOWN: u8 = 8;
pub(super) const PUSH: u8 = 9;
pub(super) const PUSHES: u8 = 10;
/// Beside the account's record, and after all others, where a login finds it.
pub(super) const MISSED: u8 = b'~';
const END: u8 = 11;

/// What a row contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKind {
    /// The row is the directory.
    Directory,
    /// The row is an item, or the place of one.
    Item,
    /// The row is something else, perhaps of another table.
    Other,
}

impl RowKind {
    /// The kind of a row, by its key.
    pub fn of(table: Table, sort: &[u8]) -> RowKind {
        match sort {
            [DIRECTORY] if table == Table::Nodes => RowKind::Directory,
            [ITEM | ID, ..] if table == Table::Nodes => RowKind::Item,
            _ => RowKind::Other,
        }
    }
}

fn sort(kind: u8, node: &str, rest: &[u8]) -> Box<[u8]> {
    [&[kind], node.as_bytes(), &[0], rest].concat().into()
}

/// The upper bound of the keys of a node's items or ids.
fn end(kind: u8, node: &str) -> Box<[u8]> {
    [&[kind], node.as_bytes(), &[1]].concat().into()
}

fn get(actor: &str, sort: Box<[u8]>) -> Query {
    Query::Get { table: Table::Nodes, actor: actor.as_bytes().into(), sort }
}

/// The query for the directory.
pub fn directory(actor: &str) -> Query {
    get(actor, Box::new([DIRECTORY]))
}

/// Writes the directory, or removes it if it is empty.
pub fn put_directory(batch: &mut Batch, actor: &str, row: &[u8]) {
    match row.is_empty() {
        true => batch.delete(Table::Nodes, actor.as_bytes(), &[DIRECTORY]),
        false => batch.put(Table::Nodes, actor.as_bytes(), &[DIRECTORY], &[row]),
    }
}

/// The directories that these writes contain.
pub fn directory_in(batch: &Batch) -> impl Iterator<Item = &[u8]> {
    batch.iter().filter_map(|op| match op {
        OpView::Put { table: Table::Nodes, sort: [DIRECTORY], value, .. } => Some(value),
        _ => None,
    })
}

/// The query for the affiliations with a node and the subscriptions to it.
pub fn affiliates(actor: &str, node: &str) -> Query {
    get(actor, [&[AFFILIATES], node.as_bytes()].concat().into())
}

/// The same query for all nodes. [`affiliates_node`] reads the answer's sort keys.
pub fn all_affiliates(actor: &str, rows_max: u32) -> Query {
    Query::Range {
        table: Table::Nodes,
        actor: actor.as_bytes().into(),
        from: Box::new([AFFILIATES]),
        until: Some(Box::new([ITEM])),
        reverse: false,
        rows_max,
        bytes_max: 16 * NODE_DIRECTORY_BYTES_MAX as u32,
    }
}

/// The node of a row of [`all_affiliates`].
pub fn affiliates_node(sort: &[u8]) -> Option<&str> {
    std::str::from_utf8(sort.strip_prefix(&[AFFILIATES])?).ok()
}

/// Writes the affiliations with a node and the subscriptions to it, or removes the row if it is
/// empty.
pub fn put_affiliates(batch: &mut Batch, actor: &str, node: &str, row: &[u8]) {
    let sort = [&[AFFILIATES], node.as_bytes()].concat();
    match row.is_empty() {
        true => batch.delete(Table::Nodes, actor.as_bytes(), &sort),
        false => batch.put(Table::Nodes, actor.as_bytes(), &sort, &[row]),
    }
}

/// The query for the affiliation and subscription of a JID at a node of a service.
pub fn member(actor: &str, bare: &str) -> Query {
    get(actor, key(MEMBER, bare))
}

fn key(kind: u8, name: &str) -> Box<[u8]> {
    [&[kind], name.as_bytes()].concat().into()
}

/// The name in the key of a row that has one: a bare JID, or a node.
pub fn named(sort: &[u8]) -> Option<&str> {
    std::str::from_utf8(sort.get(1..)?).ok()
}

/// Rows with a name, ordered by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// Subscribers and affiliates of a node.
    Members,
    /// Affiliates of a node.
    Affiliated,
    /// Nodes that a user has created or subscribed to.
    Own,
    /// Nodes with which others have affiliated a user.
    Given,
    /// Public nodes of a service.
    Shown,
    /// Nodes of which a user has missed items; in the table of accounts, where a login sees whether
    /// there are any.
    Missed,
}

impl Named {
    fn kind(self) -> u8 {
        match self {
            Named::Members => MEMBER,
            Named::Affiliated => AFFILIATED,
            Named::Own => OWN,
            Named::Given => GIVEN,
            Named::Shown => SHOWN,
            Named::Missed => MISSED,
        }
    }

    fn table(self) -> Table {
        if self == Named::Missed { Table::Accounts } else { Table::Nodes }
    }

    /// The query for the rows of an actor after a name; for all rows if the name is empty.
    pub fn after(self, actor: &str, name: &str, rows_max: u32, bytes_max: u32) -> Query {
        let behind = if name.is_empty() { "" } else { "\0" };
        self.from_name(actor, &[name, behind].concat(), rows_max, bytes_max)
    }

    /// The query for the rows of an actor from a name on.
    pub fn from_name(self, actor: &str, name: &str, rows_max: u32, bytes_max: u32) -> Query {
        let (from, until) = (key(self.kind(), name), Some(Box::from([self.kind() + 1])));
        Query::Range {
            table: self.table(),
            actor: actor.as_bytes().into(),
            from,
            until,
            reverse: false,
            rows_max,
            bytes_max,
        }
    }

    /// Writes a row, or removes it if it is empty.
    pub fn put(self, batch: &mut Batch, actor: &str, name: &str, row: &[u8]) {
        match row.is_empty() {
            true => batch.delete(self.table(), actor.as_bytes(), &key(self.kind(), name)),
            false => batch.put(self.table(), actor.as_bytes(), &key(self.kind(), name), &[row]),
        }
    }

    /// Writes a row that says no more than its name.
    pub fn note(self, batch: &mut Batch, actor: &str, name: &str) {
        self.put(batch, actor, name, &[FORMAT]);
    }

    /// Removes all rows of an actor.
    pub fn delete_all(self, batch: &mut Batch, actor: &str) {
        batch.delete_range(self.table(), actor.as_bytes(), &[self.kind()], &[self.kind() + 1]);
    }
}

/// Removes what an account has published, but not the rows for nodes of services that know it.
pub fn delete_published(batch: &mut Batch, actor: &str) {
    batch.delete_range(Table::Nodes, actor.as_bytes(), &[DIRECTORY], &[OWN]);
    batch.delete_range(Table::Nodes, actor.as_bytes(), &[SHOWN], &[END]);
}

/// The query for a push registration.
pub fn push(actor: &str, id: PushId) -> Query {
    get(actor, [&[PUSH][..], &id.0].concat().into())
}

/// The query for the registrations after one, or for the first ones if `after` is `None`.
pub fn pushes(actor: &str, after: Option<PushId>, rows_max: u32, bytes_max: u32) -> Query {
    let from: Box<[u8]> = match after {
        None => Box::new([PUSH]),
        Some(id) => [&[PUSH][..], &id.0, &[0]].concat().into(),
    };
    let (actor, until) = (actor.as_bytes().into(), Some(Box::from([PUSHES])));
    Query::Range { table: Table::Nodes, actor, from, until, reverse: false, rows_max, bytes_max }
}

/// The registration's id in a row of [`pushes`].
pub fn push_id(sort: &[u8]) -> Option<PushId> {
    Some(PushId(sort.strip_prefix(&[PUSH])?.try_into().ok()?))
}

/// Writes a registration, or removes it if it is empty.
pub fn put_push(batch: &mut Batch, actor: &str, id: PushId, row: &[u8]) {
    let sort = [&[PUSH][..], &id.0].concat();
    match row.is_empty() {
        true => batch.delete(Table::Nodes, actor.as_bytes(), &sort),
        false => batch.put(Table::Nodes, actor.as_bytes(), &sort, &[row]),
    }
}

/// The query for the number of registrations from an address, or of all registrations if it is
/// empty.
pub fn push_count(actor: &str, network: &[u8]) -> Query {
    get(actor, [&[PUSHES], network].concat().into())
}

/// Reads the answer to [`push_count`].
pub fn read_push_count(row: Option<&[u8]>) -> Option<u32> {
    match row {
        None => Some(0),
        Some(row) => Some(u32::from_be_bytes(row.strip_prefix(&[FORMAT])?.try_into().ok()?)),
    }
}

/// Writes the number of registrations.
pub fn put_push_count(batch: &mut Batch, actor: &str, network: &[u8], count: u32) {
    let sort = [&[PUSHES], network].concat();
    match count {
        0 => batch.delete(Table::Nodes, actor.as_bytes(), &sort),
        _ => batch.put(Table::Nodes, actor.as_bytes(), &sort, &[&[FORMAT], &count.to_be_bytes()]),
    }
}

/// Removes all registrations of a node.
pub fn delete_pushes(batch: &mut Batch, actor: &str) {
    batch.delete_range(Table::Nodes, actor.as_bytes(), &[PUSH], &[END]);
}

/// The query for an item by its number.
pub fn item(actor: &str, node: &str, number: u64) -> Query {
    get(actor, sort(ITEM, node, &number.to_be_bytes()))
}

/// The range of items that a query asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Span {
    /// Items after this number.
    pub after: u64,
    /// Items before this number.
    pub before: u64,
    /// Whether to read from the last item backwards.
    pub reverse: bool,
    /// Maximum number of items.
    pub rows_max: u32,
    /// Stop after the item that reaches this many bytes.
    pub bytes_max: u32,
}

impl Span {
    /// All items of a node, within these bounds.
    pub const fn all(rows_max: u32, bytes_max: u32) -> Span {
        Span { after: 0, before: u64::MAX, reverse: false, rows_max, bytes_max }
    }

    /// The item that was published last.
    pub const LAST: Span = Span { reverse: true, ..Span::all(1, NODE_ITEM_ROW_BYTES_MAX as u32) };
}

/// The query for items of a node, in the order of publication.
pub fn items(actor: &str, node: &str, span: Span) -> Query {
    Query::Range {
        table: Table::Nodes,
        actor: actor.as_bytes().into(),
        from: sort(ITEM, node, &span.after.saturating_add(1).to_be_bytes()),
        until: Some(sort(ITEM, node, &span.before.to_be_bytes())),
        reverse: span.reverse,
        rows_max: span.rows_max,
        bytes_max: span.bytes_max,
    }
}

/// The query for the places of a node's items, in the order of their ids.
pub fn ids(actor: &str, node: &str, rows_max: u32) -> Query {
    Query::Range {
        table: Table::Nodes,
        actor: actor.as_bytes().into(),
        from: sort(ID, node, b""),
        until: Some(end(ID, node)),
        reverse: false,
        rows_max,
        bytes_max: u32::MAX,
    }
}

/// The id of the item in a row of [`ids`].
pub fn id_of(sort: &[u8]) -> Option<&[u8]> {
    let at = sort.iter().position(|byte| *byte == 0)?;
    sort.get(at + 1..)
}

/// The number of the item in a row of [`items`].
pub fn number_of(sort: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*sort.split_last_chunk::<8>()?.1))
}

/// The query for the place of the item with this id.
pub fn place(actor: &str, node: &str, id: &str) -> Query {
    get(actor, sort(ID, node, id.as_bytes()))
}

/// The number of an item, and the bytes it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The item's number.
    pub number: u64,
    /// The bytes it counts for.
    pub bytes: u32,
}

impl Place {
    /// Reads a row; `None` if its format is unknown.
    pub fn decode(row: &[u8]) -> Option<Place> {
        let (format, rest) = row.split_first()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (bytes, by) = rest.split_first_chunk::<4>()?;
        let place = Place { number: u64::from_be_bytes(*number), bytes: u32::from_be_bytes(*bytes) };
        match *format {
            FORMAT if by.is_empty() => Some(place),
            FORMAT_BY => std::str::from_utf8(by).ok().map(|_| place),
            _ => None,
        }
    }

    /// The publisher's key of the publication, in a row that [`Place::decode`] reads; empty if it
    /// has none.
    pub fn by(row: &[u8]) -> &str {
        row.get(13..).and_then(|by| std::str::from_utf8(by).ok()).unwrap_or_default()
    }
}

/// One published item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// When it was published, microseconds since the Unix epoch.
    pub at_us: u64,
    /// The item's id.
    pub id: &'a str,
    /// The payload, one element.
    pub payload: &'a [u8],
}

impl<'a> Item<'a> {
    /// Reads a row; `None` if its format is unknown.
    pub fn decode(row: &'a [u8]) -> Option<Item<'a>> {
        let (&FORMAT, rest) = row.split_first()? else { return None };
        let (at_us, rest) = rest.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (id, payload) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
        Some(Item { at_us: u64::from_be_bytes(*at_us), id: std::str::from_utf8(id).ok()?, payload })
    }

    /// The bytes it counts for: its two rows, and the store's overhead for each.
    pub fn bytes(&self) -> u32 {
        (self.payload.len() + 2 * self.id.len()) as u32 + 64
    }

    /// The key by which it replaces the previous item, if it has one.
    pub fn key(&self) -> Option<&'a str> {
        key_of(self.id)
    }

    /// Writes the rows of an item.
    pub fn put(&self, batch: &mut Batch, actor: &str, node: &str, number: u64) {
        self.put_by(batch, actor, node, number, "");
    }

    /// The same, with the publisher's key of the publication.
    pub fn put_by(&self, batch: &mut Batch, actor: &str, node: &str, number: u64, by: &str) {
        let len = u16::try_from(self.id.len()).expect("an id is bounded").to_be_bytes();
        let row: [&[u8]; 5] = [&[FORMAT], &self.at_us.to_be_bytes(), &len, self.id.as_bytes(), self.payload];
        batch.put(Table::Nodes, actor.as_bytes(), &sort(ITEM, node, &number.to_be_bytes()), &row);
        let format = if by.is_empty() { FORMAT } else { FORMAT_BY };
        let row: [&[u8]; 4] = [&[format], &number.to_be_bytes(), &self.bytes().to_be_bytes(), by.as_bytes()];
        batch.put(Table::Nodes, actor.as_bytes(), &sort(ID, node, self.id.as_bytes()), &row);
    }
}

/// The key of an item with this id, if it has one.
pub fn key_of(id: &str) -> Option<&str> {
    id.strip_prefix(KEY).filter(|key| !key.is_empty())
}

/// The id of the item with this key.
pub fn keyed(key: &str) -> String {
    format!("{KEY}{key}")
}

/// Removes an item.
pub fn delete_item(batch: &mut Batch, actor: &str, node: &str, id: &str, number: u64) {
    batch.delete(Table::Nodes, actor.as_bytes(), &sort(ITEM, node, &number.to_be_bytes()));
    batch.delete(Table::Nodes, actor.as_bytes(), &sort(ID, node, id.as_bytes()));
}

/// Removes all items of a node.
pub fn delete_items(batch: &mut Batch, actor: &str, node: &str) {
    for kind in [ITEM, ID] {
        batch.delete_range(Table::Nodes, actor.as_bytes(), &sort(kind, node, b""), &end(kind, node));
    }
}

/// Whether a row of the table is well-formed.
pub fn is_whole(sort: &[u8], value: &[u8]) -> bool {
    match sort.first() {
        Some(&ITEM) => Item::decode(value).is_some(),
        Some(&ID) => Place::decode(value).is_some(),
        // A directory that contains a node whose items expire has the second format.
        Some(&DIRECTORY) => matches!(value.first(), Some(&(FORMAT | FORMAT_EXPIRES | FORMAT_OWNED | FORMAT_KEYED))),
        Some(&(AFFILIATES | AFFILIATED | OWN | GIVEN | SHOWN | PUSH)) => value.first() == Some(&FORMAT),
        // A subscriber that has missed items has the second format.
        Some(&MEMBER) => matches!(value.first(), Some(&(FORMAT | FORMAT_BEHIND))),
        Some(&PUSHES) => read_push_count(Some(value)).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;

    #[test]
    fn rows_read_back_and_numbers_order_them() {
        let item = Item { at_us: 7, id: "a\u{e9}", payload: b"<x xmlns='y'/>" };
        let mut batch = Batch::new();
        item.put(&mut batch, "a@x", "n", 258);
        let rows: Vec<_> = batch.iter().collect();
        let [OpView::Put { sort, value, .. }, OpView::Put { value: place, .. }] = rows[..] else { panic!("two rows") };
        assert_eq!((Item::decode(value), number_of(sort)), (Some(item), Some(258)));
        assert_eq!(Place::decode(place), Some(Place { number: 258, bytes: item.bytes() }));
        assert!(is_whole(sort, value) && !is_whole(sort, b"") && !is_whole(b"", value));
        let Query::Range { from, until, .. } = items("a@x", "n", Span::LAST) else { panic!("a range") };
        assert!(*from <= *sort && *sort < *until.unwrap());
        assert!(Item::decode(&value[..9]).is_none() && Place::decode(&place[..9]).is_none());
        assert_eq!((Place::by(place), item.key()), ("", None));
    }

    #[test]
    fn an_item_with_a_key_says_by_what_it_was_published() {
        let id = keyed("a-b");
        let item = Item { at_us: 7, id: &id, payload: b"" };
        assert_eq!((item.key(), key_of("key-"), key_of("k-a-b")), (Some("a-b"), None, None));
        let mut batch = Batch::new();
        item.put_by(&mut batch, "a@x", "n", 3, "mine");
        let Some(OpView::Put { sort, value, .. }) = batch.iter().nth(1) else { panic!("two rows") };
        assert_eq!((Place::decode(value).map(|place| place.number), Place::by(value)), (Some(3), "mine"));
        assert!(is_whole(sort, value) && !is_whole(sort, &value[..12]) && !is_whole(sort, &[value, b"\xff"].concat()));
    }

    #[test]
    fn rows_of_a_node_are_apart_from_those_of_one_with_a_longer_name() {
        let mut batch = Batch::new();
        delete_items(&mut batch, "a@x", "n");
        for op in batch.iter() {
            let OpView::DeleteRange { from, until, .. } = op else { panic!("a range") };
            let kind = from[0];
            assert!((from..until).contains(&&*sort(kind, "n", b"\xff\xff")));
            assert!(!(from..until).contains(&&*sort(kind, "n\u{1}", b"")));
            assert!(!(from..until).contains(&&*sort(kind, "nn", b"")));
        }
    }
}

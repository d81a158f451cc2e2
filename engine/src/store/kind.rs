//! All kinds of rows: the kind of a row follows from its table and its sort key.
//!
//! The list of kinds, and how each is encoded, is the format of a store. **Adding a kind, or
//! encoding one differently, makes a new format** (`FORMAT_VERSION` of the server); otherwise an
//! earlier program would take such a store for its own. `throng store check` and imports refuse a
//! row of no known kind, and a test compares the rows written for each kind with a reference store.

use super::{
    Table, account, announcement, archive, floors, invitation, nodes, peers, private, record, report, retractions,
    room, room_extra, sessions, waiting,
};

/// Prefix of the sort keys of rows that record up to which number a shard may have assigned entry
/// numbers.
pub const NUMBER_FLOOR_PREFIX: &str = "number-floor/";

/// A kind of rows.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The table of its rows.
    pub table: Table,
    /// A description of its rows.
    pub name: &'static str,
    /// Whether its rows exist only while an operation is in progress: a store at rest has none.
    pub passes: bool,
    sort: Sort,
}

/// The sort keys of a kind.
#[derive(Clone, Copy, Debug)]
enum Sort {
    /// Exactly this sort key.
    Is(&'static [u8]),
    /// The server's own record of a user, under this name.
    Own(&'static str),
    /// All sort keys with this prefix.
    Begins(&'static [u8]),
    /// All sort keys with this byte at this offset, either as the last byte or followed by a
    /// number.
    Has(u8, usize),
    /// All sort keys of this length.
    Long(usize),
    /// Non-empty text that does not begin with NUL.
    Text,
}

impl Sort {
    fn fits(self, sort: &[u8]) -> bool {
        match self {
            Sort::Is(key) => sort == key,
            Sort::Own(name) => sort.strip_prefix(private::OWN) == Some(name.as_bytes()),
            Sort::Begins(beginning) => sort.starts_with(beginning),
            Sort::Has(byte, at) => sort.get(at) == Some(&byte),
            Sort::Long(len) => sort.len() == len,
            Sort::Text => sort.first().is_some_and(|first| *first != 0),
        }
    }
}

const fn kind(table: Table, name: &'static str, sort: Sort) -> Kind {
    Kind { table, name, passes: false, sort }
}

const fn passing(table: Table, name: &'static str, sort: Sort) -> Kind {
    Kind { passes: true, ..kind(table, name, sort) }
}

/// All kinds. No sort key matches two kinds of one table.
pub const KINDS: &[Kind] = &[
    // Rows that the server writes about the store itself.
    kind(Table::Meta, "format", Sort::Is(b"format")),
    kind(Table::Meta, "main domain", Sort::Is(b"domain")),
    kind(Table::Meta, "secret of made up salts", Sort::Is(b"decoy-key")),
    kind(Table::Meta, "secret of uploads", Sort::Is(b"upload-key")),
    kind(Table::Meta, "partition map", Sort::Is(b"partition-map")),
    passing(Table::Meta, "progress of a migration", Sort::Is(b"migration")),
    passing(Table::Meta, "partitions that are imported", Sort::Is(b"import")),
    passing(Table::Meta, "account that arrives", Sort::Is(b"portable/arriving")),
    kind(Table::Meta, "floor of numbers", Sort::Begins(NUMBER_FLOOR_PREFIX.as_bytes())),
    kind(Table::Meta, "hash functions of all accounts", Sort::Is(account::COMPLETE_KEY)),
    kind(Table::Meta, "announcement", Sort::Is(announcement::KEY)),
    kind(Table::Meta, "floor of publications", Sort::Begins(floors::PREFIX)),
    kind(Table::Accounts, "account", Sort::Is(b"")),
    kind(Table::Accounts, "blocked addresses", Sort::Is(record::BLOCKING.as_bytes())),
    kind(Table::Accounts, "preferences of the archive", Sort::Is(record::MAM.as_bytes())),
    kind(Table::Accounts, "photo", Sort::Is(record::PHOTO.as_bytes())),
    kind(Table::Accounts, "push registrations", Sort::Is(record::PUSH.as_bytes())),
    kind(Table::Accounts, "node of which the user has missed items", Sort::Begins(&[nodes::MISSED])),
    kind(Table::Roster, "version of a roster", Sort::Is(b"")),
    kind(Table::Roster, "item of a roster", Sort::Text),
    kind(Table::Archive, "entries", Sort::Long(archive::ENTRIES_KEY_BYTES)),
    kind(Table::Archive, "void entry", Sort::Long(archive::VOID_KEY_BYTES)),
    kind(Table::Waiting, "cursor", Sort::Is(b"")),
    kind(Table::Waiting, "transient entry", Sort::Begins(&[waiting::TRANSIENT])),
    kind(Table::Waiting, "message for one session", Sort::Begins(&[waiting::APART])),
    kind(Table::Private, "element", Sort::Text),
    kind(Table::Private, "last logout", Sort::Is(private::LAST)),
    kind(Table::Private, "announcement seen", Sort::Own("announcement")),
    kind(Table::Private, "bookmarks in one", Sort::Own("bookmarks")),
    kind(Table::Private, "tokens", Sort::Own("fast")),
    kind(Table::Private, "uploads", Sort::Own("upload")),
    kind(Table::Private, "vCard", Sort::Own("vcard")),
    kind(Table::Private, "directory of peers", Sort::Is(peers::DIRECTORY)),
    kind(Table::Private, "part of the index by peer", Sort::Begins(peers::PART)),
    kind(Table::Private, "retraction", Sort::Begins(retractions::PREFIX)),
    kind(Table::Nodes, "directory of nodes", Sort::Is(&[nodes::DIRECTORY])),
    kind(Table::Nodes, "lists of a node", Sort::Begins(&[nodes::AFFILIATES])),
    kind(Table::Nodes, "item", Sort::Begins(&[nodes::ITEM])),
    kind(Table::Nodes, "place of an item", Sort::Begins(&[nodes::ID])),
    kind(Table::Nodes, "member", Sort::Begins(&[nodes::MEMBER])),
    kind(Table::Nodes, "affiliated member", Sort::Begins(&[nodes::AFFILIATED])),
    kind(Table::Nodes, "own node", Sort::Begins(&[nodes::OWN])),
    kind(Table::Nodes, "given node", Sort::Begins(&[nodes::GIVEN])),
    kind(Table::Nodes, "shown node", Sort::Begins(&[nodes::SHOWN])),
    kind(Table::Nodes, "push registration", Sort::Begins(&[nodes::PUSH])),
    kind(Table::Nodes, "count of push registrations", Sort::Begins(&[nodes::PUSHES])),
    kind(Table::Sessions, "session", Sort::Has(sessions::STATE, sessions::KEY_BYTES)),
    kind(Table::Sessions, "counts of a session", Sort::Has(sessions::COUNTS, sessions::KEY_BYTES)),
    kind(Table::Sessions, "push for a session", Sort::Has(sessions::PUSH, sessions::KEY_BYTES)),
    kind(Table::Sessions, "end of what was dropped", Sort::Has(sessions::DROPPED, sessions::KEY_BYTES)),
    kind(Table::Invitations, "invitation", Sort::Begins(&[invitation::INVITATION])),
    kind(Table::Invitations, "applicant", Sort::Begins(&[invitation::WAITING])),
    kind(Table::Reports, "report", Sort::Long(report::KEY_BYTES)),
    kind(Table::Rooms, "room", Sort::Is(&[room::RECORD])),
    kind(Table::Rooms, "standing in a room", Sort::Begins(&[room::STANDING])),
    kind(Table::Rooms, "mark of an affiliation", Sort::Begins(&[room::MARK])),
    kind(Table::Rooms, "session in a room", Sort::Begins(&[room::SEAT])),
    kind(Table::Rooms, "reserved nick", Sort::Begins(&[room::NICK])),
    kind(Table::Rooms, "listed room", Sort::Begins(&[room::LISTED])),
    kind(Table::Rooms, "room that knows a user", Sort::Begins(&[room::KNOWN])),
    kind(Table::Rooms, "absent member to be woken", Sort::Begins(&[room::ALERT])),
    kind(Table::Rooms, "request to register with a room", Sort::Begins(&[room::REQUEST])),
    kind(Table::Rooms, "hats of a room", Sort::Is(&[room_extra::HATS])),
    kind(Table::Rooms, "hashes of a room's images", Sort::Is(&[room_extra::HASHES])),
    kind(Table::Rooms, "vCard of a room", Sort::Is(&[room_extra::CARD])),
];

/// The kind of a row; `None` if this program does not know it.
pub fn of(table: Table, sort: &[u8]) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.table == table && kind.sort.fits(sort))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(sort: Sort) -> Vec<Vec<u8>> {
        match sort {
            Sort::Is(key) => vec![key.to_vec()],
            Sort::Own(name) => vec![private::own_key(name).into()],
            Sort::Begins(beginning) => vec![[beginning, b"x"].concat(), [beginning, &[0; 16]].concat()],
            Sort::Has(byte, at) => {
                vec![[&vec![0; at][..], &[byte]].concat(), [&vec![byte; at + 1][..], &[0; 4]].concat()]
            }
            Sort::Long(len) => vec![vec![0; len], vec![0xff; len]],
            Sort::Text => vec![b"a@x".to_vec(), b"urn:x\0y".to_vec()],
        }
    }

    #[test]
    fn each_row_is_of_one_kind() {
        for kind in KINDS {
            for key in keys(kind.sort) {
                let fits: Vec<&str> = KINDS
                    .iter()
                    .filter(|other| other.table == kind.table && other.sort.fits(&key))
                    .map(|other| other.name)
                    .collect();
                assert_eq!(fits, [kind.name], "{}", key.escape_ascii());
                assert_eq!(of(kind.table, &key).map(|kind| kind.name), Some(kind.name));
            }
        }
        for table in Table::ALL {
            assert!(KINDS.iter().any(|kind| kind.table == table), "{table:?} has rows");
        }
        for (table, sort) in [
            (Table::Meta, &b"formats"[..]),
            (Table::Accounts, b"x"),
            (Table::Private, b""),
            (Table::Private, b"\0extension/blocking"),
            (Table::Private, b"\0extension/vcards"),
            (Table::Nodes, &[nodes::PUSHES + 1]),
            (Table::Sessions, b"S"),
            (Table::Waiting, b"X1234567"),
            (Table::Archive, b"1234567"),
        ] {
            assert!(of(table, sort).is_none(), "{table:?} {}", sort.escape_ascii());
        }
    }
}

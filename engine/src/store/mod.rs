//! Durable state: tables, keys, and the operations that a shard asks its host to carry out.
//!
//! The model is `(table, actor, sort key) -> bytes`: put, get, ordered range in either direction,
//! delete range, and one batch of writes per turn. This module only builds requests and reads
//! answers. It never touches a disk, and does not know which engine stores the rows.

pub mod account;
pub mod announcement;
pub mod archive;
pub mod floors;
pub mod hash;
pub mod ids;
pub mod invitation;
pub mod key;
pub mod keys;
pub mod kind;
pub mod log;
pub mod nodes;
pub mod op;
pub mod password;
pub mod peers;
pub mod private;
pub mod record;
pub mod report;
pub mod retractions;
pub mod room;
pub mod room_extra;
pub mod roster;
pub mod sessions;
pub mod token;
pub mod waiting;

pub use op::{Batch, Found, OpView, Query, Row};

/// The tables. The number is part of the stored key: never reuse one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, serde::Serialize, serde::Deserialize)]
#[repr(u8)]
pub enum Table {
    /// Facts of the store itself, such as its format; they belong to no actor ([`key::NOBODY`]).
    Meta = 0,
    /// The credentials of a user, with an empty sort key, and what is read with them; see
    /// [`record`].
    Accounts = 1,
    /// Roster items of a user; the sort key is the contact's bare JID. The row with an empty sort
    /// key is the roster's version.
    Roster = 2,
    /// Permanent entries of a user's log, in order; see [`archive`].
    Archive = 3,
    /// How far the user's log is delivered, and entries that are deleted on delivery; see
    /// [`waiting`].
    Waiting = 4,
    /// Private XML (XEP-0049); the sort key is the element's namespace and name.
    Private = 5,
    /// What actors publish (XEP-0060); see [`nodes`].
    Nodes = 6,
    /// Sessions that may be resumed after a restart; see [`sessions`].
    Sessions = 7,
    /// Invitations, and accounts that wait for approval; see [`invitation`].
    Invitations = 8,
    /// Reports from users to the operator; see [`report`].
    Reports = 9,
    /// Rooms, and the directory of their service; see [`room`].
    Rooms = 10,
}

impl Table {
    /// All tables, in the order of their numbers.
    pub const ALL: [Table; 11] = [
        Table::Meta,
        Table::Accounts,
        Table::Roster,
        Table::Archive,
        Table::Waiting,
        Table::Private,
        Table::Nodes,
        Table::Sessions,
        Table::Invitations,
        Table::Reports,
        Table::Rooms,
    ];

    /// The table with this stored number.
    pub fn from_number(number: u8) -> Option<Table> {
        Table::ALL.get(usize::from(number)).copied()
    }
}

//! The retracted messages of a user's archive (XEP-0424): rows of [`Table::Private`] that clients
//! do not see, one for each retraction in the archive.
//!
//! The sort key is the prefix, a hash, and the retraction's number. The hash covers the sender of
//! the message, the recipient, and its `id`. The row is therefore written without looking up the
//! message, and found with it. A retraction that was refused, or that expires from the archive long
//! before its message arrives, does not displace another one. The value has the number, the time
//! and the `id` of the retraction. The reader decides which row applies to an archived message: the
//! message must precede the retraction, and the retraction must still exist.
//!
//! Rows for received messages once had no number in their keys, and held only the latest
//! retraction. They are read like the others.

use super::hash::HashKind;
use super::{Batch, Query, Row, Table};

pub(super) const PREFIX: &[u8] = b"\0retract/";
/// The upper bound of all keys.
const END: &[u8] = b"\0retract0";
const FORMAT: u8 = 1;
/// Hashed before an address whose resources belong to different people. For other addresses this
/// byte is whether the message was received.
const ADDRESS: u8 = 2;
/// Hashed before the id of an occupant, after the room's address.
const OCCUPANT: u8 = 3;

/// Number of retractions that are examined per message, the latest ones. If that many later ones
/// were refused, an earlier one has no effect.
pub const LATEST: usize = 4;

/// Identifies a retracted message. It is a cryptographic hash, because other users choose the ids
/// of their messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Key([u8; 16]);

impl Key {
    /// The key of a message that the user has received from a peer, or sent to one, by the peer's
    /// bare JID and the message's `id`.
    pub fn of(incoming: bool, peer: &str, id: &str) -> Key {
        Key::hashed(u8::from(incoming), peer, id)
    }

    /// The key of a message that the user has received from exactly this address: a full JID, or a
    /// bare JID that is a different entity from its resources, such as a room.
    pub fn of_address(peer: &str, id: &str) -> Key {
        Key::hashed(ADDRESS, peer, id)
    }

    /// The key of a message that an occupant of a room has sent, by the room's bare JID and the
    /// occupant's id (XEP-0421), which stays the same under another nick.
    pub fn of_occupant(room: &str, occupant: &str, id: &str) -> Key {
        Key::hashed(OCCUPANT, &format!("{room}/{occupant}"), id)
    }

    fn hashed(kind: u8, peer: &str, id: &str) -> Key {
        let hash = HashKind::Sha256.digest(&[&[kind], peer.as_bytes(), &[0], id.as_bytes()]);
        let mut key = Key([0; 16]);
        key.0.copy_from_slice(&hash.as_bytes()[..16]);
        key
    }

    /// The sort key of the row of a retraction with this number.
    fn sort(&self, number: u64) -> Vec<u8> {
        [PREFIX, &self.0, &number.to_be_bytes()].concat()
    }

    /// The prefix of the sort keys of its rows, which is also the whole key of an early row.
    fn begins(&self) -> Vec<u8> {
        [PREFIX, &self.0].concat()
    }

    /// The query for the latest retractions, the last one first.
    pub fn query(&self, user: &str) -> Query {
        Query::Range {
            table: Table::Private,
            actor: user.as_bytes().into(),
            from: self.begins().into(),
            until: Some([PREFIX, &self.0, &[u8::MAX; size_of::<u64>() + 1]].concat().into()),
            reverse: true,
            rows_max: LATEST as u32,
            bytes_max: LATEST as u32 * 1_024,
        }
    }

    /// Whether a row of [`first`] belongs to this message.
    pub fn is_of(&self, row: &Row) -> bool {
        row.sort.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with(&self.0))
    }

    /// Removes the row of the retraction with this number.
    pub fn delete(&self, batch: &mut Batch, user: &str, number: u64) {
        batch.delete(Table::Private, user.as_bytes(), &self.sort(number));
        batch.delete(Table::Private, user.as_bytes(), &self.begins());
    }
}

/// The query for the first rows, at most `rows_max`: all of them for most users.
pub fn first(user: &str, rows_max: u32) -> Query {
    Query::Range {
        table: Table::Private,
        actor: user.as_bytes().into(),
        from: PREFIX.into(),
        until: Some(END.into()),
        reverse: false,
        rows_max,
        bytes_max: rows_max * 1_024,
    }
}

/// One retraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retraction<'a> {
    /// Its number in the archive.
    pub number: u64,
    /// When it arrived, milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// Its `id`.
    pub id: &'a str,
}

impl<'a> Retraction<'a> {
    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, user: &str, key: &Key) {
        let value: [&[u8]; 4] =
            [&[FORMAT], &self.number.to_be_bytes(), &self.time_ms.to_be_bytes(), self.id.as_bytes()];
        batch.put(Table::Private, user.as_bytes(), &key.sort(self.number), &value);
    }

    /// Reads a row; `None` if its format is unknown.
    pub fn decode(row: &'a [u8]) -> Option<Retraction<'a>> {
        let (number, rest) = row.strip_prefix(&[FORMAT])?.split_first_chunk::<8>()?;
        let (time_ms, id) = rest.split_first_chunk::<8>()?;
        Some(Retraction {
            number: u64::from_be_bytes(*number),
            time_ms: u64::from_be_bytes(*time_ms),
            id: std::str::from_utf8(id).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;

    #[test]
    fn rows_read_back_and_are_among_the_first() {
        let (key, other) = (Key::of(true, "a@x", "1"), Key::of(false, "a@x", "1"));
        assert_ne!(key, other, "who has sent it");
        assert_ne!(Key::of(true, "a@x", "1"), Key::of(true, "a@x1", ""), "where the address ends");
        assert_ne!(Key::of(true, "a@x", "1"), Key::of_address("a@x", "1"), "one of many at the address");
        let (mut batch, retraction) = (Batch::new(), Retraction { number: 7, time_ms: 9, id: "r\u{e9}" });
        retraction.put(&mut batch, "u@x", &key);
        let Some(OpView::Put { sort, value, .. }) = batch.iter().next() else { panic!("a row") };
        let row = Row { sort: sort.into(), value: value.into() };
        assert!(key.is_of(&row) && !other.is_of(&row));
        assert_eq!(Retraction::decode(&row.value), Some(retraction));
        (0..17).for_each(|cut| assert_eq!(Retraction::decode(&row.value[..cut]), None));
        let Query::Range { from, until, .. } = first("u@x", 64) else { panic!("a range") };
        assert!(*from <= *row.sort && *row.sort < *until.unwrap());
    }
}

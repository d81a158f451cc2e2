//! Messages that wait for a user's sessions: [`Table::Waiting`]. Its rows, by the first byte of
//! their sort keys:
//!
//! - none: the user's *cursor* ([`Cursor`]);
//! - `T` and a number: a log entry that is deleted on delivery ([`Transient`]), because the archive
//!   stores none or the sender wants none stored (XEP-0334 4.1), or an entry that is delivered
//!   again;
//! - `W` and a number: a message for the session of its full JID alone, sent while the user had
//!   other sessions ([`Apart`]). The cursor, which follows the foremost session, does not cover it.

use super::archive::{self, Entry};
use super::{Batch, Found, Query, Table};
use crate::id::SessionId;

/// Version byte of the rows.
const VERSION: u8 = 2;

pub(super) const TRANSIENT: u8 = b'T';
pub(super) const APART: u8 = b'W';

/// How far a user's log is delivered, and how much waits after that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Every entry up to this number has been received by a session, or is set apart.
    pub number: u64,
    /// Number of waiting messages; may be slightly low after a crash.
    pub count: u32,
    /// Bytes of the waiting messages.
    pub bytes: u64,
}

impl Cursor {
    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, user: &str) {
        let mut value = [0u8; 21];
        value[0] = VERSION;
        value[1..9].copy_from_slice(&self.number.to_le_bytes());
        value[9..13].copy_from_slice(&self.count.to_le_bytes());
        value[13..21].copy_from_slice(&self.bytes.to_le_bytes());
        batch.put(Table::Waiting, user.as_bytes(), &[], &[&value]);
    }

    /// Reads the row; `None` if it is damaged or has a later version.
    pub fn decode(value: &[u8]) -> Option<Cursor> {
        let value: &[u8; 21] = value.try_into().ok()?;
        if value[0] != VERSION {
            return None;
        }
        Some(Cursor {
            number: u64::from_le_bytes(value[1..9].try_into().ok()?),
            count: u32::from_le_bytes(value[9..13].try_into().ok()?),
            bytes: u64::from_le_bytes(value[13..21].try_into().ok()?),
        })
    }
}

/// The beginning of a user's log as a login reads it: the cursor, and whether the log is empty
/// after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// The row of the cursor, if there is one.
    pub cursor: Option<Box<[u8]>>,
    /// Whether there is no entry after the cursor, none that is transient, and no message that is
    /// set apart.
    pub is_empty: bool,
}

impl Rest {
    /// The queries: the first row of the user in [`Table::Waiting`], with whether there are more, and
    /// the last one in [`Table::Archive`].
    pub fn queries(user: &str) -> [Query; 2] {
        [(Table::Waiting, false), (Table::Archive, true)].map(|(table, reverse)| Query::Range {
            table,
            actor: user.as_bytes().into(),
            from: Box::default(),
            until: None,
            reverse,
            rows_max: 1,
            bytes_max: 1,
        })
    }

    /// Reads the answers. A log of which a row cannot be read is not empty.
    pub fn of(first: Found, last: Option<Found>) -> Rest {
        let Found::Rows { rows, more } = first else { return Rest::default() };
        let alone = !more && rows.iter().all(|row| row.sort.is_empty());
        let cursor = rows.into_iter().next().filter(|row| row.sort.is_empty()).map(|row| row.value);
        let received = match &cursor {
            Some(cursor) => Cursor::decode(cursor).map(|cursor| cursor.number),
            None => Some(0),
        };
        let is_empty = alone
            && match (last, received) {
                (Some(Found::Rows { rows, .. }), Some(received)) => {
                    rows.iter().all(|row| archive::number_of(&row.sort).is_some_and(|last| last <= received))
                }
                _ => false,
            };
        Rest { cursor, is_empty }
    }
}

/// A log entry that is deleted on delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transient<'a> {
    /// Its earlier number (XEP-0359), if it had one before this.
    pub of: Option<u64>,
    /// The message.
    pub entry: Entry<'a>,
}

impl<'a> Transient<'a> {
    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, user: &str, number: u64) {
        let Transient { of, entry } = self;
        let of = of.unwrap_or(0).to_le_bytes();
        let head = entry.head(0);
        let value: [&[u8]; 7] =
            [&[VERSION], &of, &head, entry.peer.as_bytes(), entry.xml, entry.trail_len(), entry.trail];
        batch.put(Table::Waiting, user.as_bytes(), &key(TRANSIENT, number), &value);
    }

    /// Reads the row; `None` if it is damaged or has a later version.
    pub fn decode(value: &'a [u8]) -> Option<Transient<'a>> {
        let (of, rest) = value.strip_prefix(&[VERSION])?.split_first_chunk::<8>()?;
        let of = u64::from_le_bytes(*of);
        match Entry::decode(rest)? {
            (entry, 0, []) => Some(Transient { of: (of != 0).then_some(of), entry }),
            _ => None,
        }
    }

    /// Removes all entries up to a number.
    pub fn delete_up_to(batch: &mut Batch, user: &str, number: u64) {
        let until = key(TRANSIENT, number.saturating_add(1));
        batch.delete_range(Table::Waiting, user.as_bytes(), &[TRANSIENT], &until);
    }
}

/// A message for one session alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart<'a> {
    /// The session.
    pub holder: Holder,
    /// The message.
    pub entry: Entry<'a>,
}

/// A session, distinguished from all others, including those of other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Drawn by the shard when it starts.
    pub life: u64,
    /// The session.
    pub session: SessionId,
}

/// Upper half of the life for a session that is stored and outlives its process.
const STORED: u64 = 0xffff_ffff << 32;

impl Holder {
    /// A stored session, by its name in logs.
    pub fn of_tag(tag: u32) -> Holder {
        Holder { life: STORED | u64::from(tag), session: SessionId { slot: 0, generation: 0 } }
    }
}

/// Bytes of a holder in a row.
const HOLDER_BYTES: usize = 16;

impl<'a> Apart<'a> {
    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, user: &str, number: u64) {
        let Apart { holder: Holder { life, session }, entry } = self;
        let mut holder = [0; HOLDER_BYTES];
        holder[..8].copy_from_slice(&life.to_le_bytes());
        holder[8..12].copy_from_slice(&session.slot.to_le_bytes());
        holder[12..].copy_from_slice(&session.generation.to_le_bytes());
        let head = entry.head(0);
        let value: [&[u8]; 7] =
            [&[VERSION], &holder, &head, entry.peer.as_bytes(), entry.xml, entry.trail_len(), entry.trail];
        batch.put(Table::Waiting, user.as_bytes(), &key(APART, number), &value);
    }

    /// Reads the row; `None` if it is damaged or has a later version.
    pub fn decode(value: &'a [u8]) -> Option<Apart<'a>> {
        let (holder, rest) = value.strip_prefix(&[VERSION])?.split_first_chunk::<HOLDER_BYTES>()?;
        let word = |at: usize| Some(u32::from_le_bytes(holder[at..at + 4].try_into().ok()?));
        let session = SessionId { slot: word(8)?, generation: word(12)? };
        let life = u64::from_le_bytes(holder[..8].try_into().ok()?);
        match Entry::decode(rest)? {
            (entry, 0, []) => Some(Apart { holder: Holder { life, session }, entry }),
            _ => None,
        }
    }

    /// Removes the row: the message has been received, or waits for other sessions.
    pub fn delete(batch: &mut Batch, user: &str, number: u64) {
        batch.delete(Table::Waiting, user.as_bytes(), &key(APART, number));
    }
}

fn key(kind: u8, number: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// The number of a row of either kind.
pub fn number_of(sort: &[u8]) -> Option<u64> {
    let (&(TRANSIENT | APART), number) = sort.split_first()? else { return None };
    Some(u64::from_be_bytes(number.try_into().ok()?))
}

/// Whether a row of this table can be read by this version.
pub fn is_whole(sort: &[u8], value: &[u8]) -> bool {
    match sort.first() {
        None => Cursor::decode(value).is_some(),
        Some(&TRANSIENT) => number_of(sort).is_some() && Transient::decode(value).is_some(),
        Some(&APART) => number_of(sort).is_some() && Apart::decode(value).is_some(),
        Some(_) => false,
    }
}

/// The query for transient entries of a user after a number.
pub fn transients(user: &str, after: u64, rows_max: u32, bytes_max: u32) -> Query {
    range(user, TRANSIENT, after, rows_max, bytes_max)
}

/// The query for messages that are set apart, after a number.
pub fn aparts(user: &str, after: u64, rows_max: u32, bytes_max: u32) -> Query {
    range(user, APART, after, rows_max, bytes_max)
}

fn range(user: &str, kind: u8, after: u64, rows_max: u32, bytes_max: u32) -> Query {
    Query::Range {
        table: Table::Waiting,
        actor: user.as_bytes().into(),
        from: key(kind, after.saturating_add(1)).into(),
        until: Some(Box::new([kind + 1])),
        reverse: false,
        rows_max,
        bytes_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;

    const ENTRY: Entry<'_> =
        Entry { incoming: true, waits: true, time_ms: 99, peer: "romeo@x/o", xml: b"<message></message>", trail: b"" };

    fn puts(batch: &Batch) -> Vec<(Vec<u8>, Vec<u8>)> {
        let put = |op| match op {
            OpView::Put { sort, value, .. } => (sort.to_vec(), value.to_vec()),
            _ => panic!("only puts"),
        };
        batch.iter().map(put).collect()
    }

    #[test]
    fn rows_read_back_and_nothing_else_does() {
        let mut batch = Batch::new();
        let cursor = Cursor { number: 5, count: 6, bytes: 7 };
        let transient = Transient { of: Some(3), entry: ENTRY };
        let holder = Holder { life: u64::MAX - 1, session: SessionId { slot: 7, generation: 9 } };
        let apart = Apart { holder, entry: ENTRY };
        cursor.put(&mut batch, "juliet@x");
        transient.put(&mut batch, "juliet@x", 77);
        apart.put(&mut batch, "juliet@x", 78);
        let rows = puts(&batch);
        assert_eq!(Cursor::decode(&rows[0].1), Some(cursor));
        assert_eq!(Transient::decode(&rows[1].1), Some(transient));
        assert_eq!(Apart::decode(&rows[2].1), Some(apart));
        assert_eq!((number_of(&rows[1].0), number_of(&rows[2].0)), (Some(77), Some(78)));
        for (sort, value) in &rows {
            assert!(is_whole(sort, value));
            for cut in 0..value.len() {
                assert!(!is_whole(sort, &value[..cut]), "cut short");
            }
        }
        assert!(!is_whole(b"X1234567", &rows[1].1) && !is_whole(b"T123", &rows[1].1));
    }

    #[test]
    fn a_log_is_empty_if_nothing_is_after_its_cursor() {
        let row = |sort: &[u8], value: &[u8]| super::super::Row { sort: sort.into(), value: value.into() };
        let found = |rows, more| Found::Rows { rows, more };
        let mut batch = Batch::new();
        Cursor { number: 5, count: 0, bytes: 0 }.put(&mut batch, "juliet@x");
        let cursor = puts(&batch)[0].1.clone();
        let first = |more| found(vec![row(b"", &cursor)], more);
        let last = |number: u64| Some(found(vec![row(&number.to_be_bytes(), b"")], true));
        let nothing = || found(Vec::new(), false);
        assert_eq!(Rest::of(nothing(), Some(nothing())), Rest { cursor: None, is_empty: true });
        let known = |is_empty| Rest { cursor: Some(cursor.clone().into()), is_empty };
        assert_eq!(Rest::of(first(false), Some(nothing())), known(true));
        assert_eq!(Rest::of(first(false), last(5)), known(true), "received");
        assert_eq!(Rest::of(first(false), last(6)), known(false));
        assert_eq!(Rest::of(first(true), last(5)), known(false), "a row behind the cursor's");
        assert_eq!(Rest::of(first(false), Some(Found::Damaged)), known(false));
        assert!(!Rest::of(nothing(), last(1)).is_empty, "without a cursor nothing was received");
        assert!(!Rest::of(found(vec![row(&key(APART, 3), b"")], false), Some(nothing())).is_empty);
        assert!(!Rest::of(found(vec![row(b"", b"?")], false), Some(nothing())).is_empty, "an unreadable cursor");
    }

    #[test]
    fn ranges_hold_their_kind_alone() {
        let Query::Range { from, until, .. } = transients("juliet@x", 76, 1, 1) else { panic!("a range") };
        assert!(from[..] == key(TRANSIENT, 77) && until.unwrap()[..] < key(APART, 0)[..]);
        let Query::Range { from, until, .. } = aparts("juliet@x", u64::MAX, 1, 1) else { panic!("a range") };
        assert!(from[..] == key(APART, u64::MAX) && key(APART, u64::MAX)[..] < until.unwrap()[..]);
    }
}

//! Roster rows: one per contact (sort key: the contact's bare JID), and one for the roster's
//! version (empty sort key).
//!
//! The encoding is compact and versioned. Rows are not trusted when read: a malformed row is
//! `None`, never a panic. `extension::subscription` defines what the fields mean for subscriptions.
//!
//! Item: format (1 byte), flags (1), state (1); then varints: the roster version of the last
//! change, the numbers `asked` and `seen`, and the number of the unconfirmed change if a flag says
//! that there is one; then name, groups (preceded by their count) and the pending request, each as
//! length and bytes.

use super::{Batch, Query, Table};
use crate::limits::{ROSTER_BYTES_MAX, ROSTER_ITEMS_MAX, ROSTER_PENDING_MAX};

const FORMAT: u8 = 1;
/// Format of a version row with histories; earlier rows have [`FORMAT`].
const FORMAT_OF_HISTORIES: u8 = 2;
/// Bytes of such a row.
const VERSION_BYTES: usize = 1 + 6 * 8;
const FLAG_LISTED: u8 = 1;
const FLAG_APPROVED: u8 = 2;
const FLAG_LEFT: u8 = 4;
const FLAG_ENDED: u8 = 8;

/// One contact's row. It borrows from the bytes, so that reading a flag copies nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ItemView<'a> {
    /// Whether the roster shows it. If not, the row only records that the contact has asked (RFC
    /// 6121 A.1), or what its home has not confirmed.
    pub listed: bool,
    /// Pre-approval (RFC 6121 3.4).
    pub approved: bool,
    /// Number of the subscription state (`extension::subscription::State`).
    pub state: u8,
    /// The roster's version at the item's last visible change (RFC 6121 2.6).
    pub ver: u64,
    /// Number of the user's latest `subscribe`; 0 if there was none.
    pub asked: u64,
    /// Number of the contact's latest `subscribe`; 0 if there was none or it had no number.
    pub seen: u64,
    /// Changes sent to the contact's home and not confirmed by it.
    pub unconfirmed: Unconfirmed,
    /// The handle (RFC 6121 2.1.2.4); empty if there is none.
    pub name: &'a str,
    /// The groups as stored; see [`ItemView::groups`].
    pub groups: Groups<'a>,
    /// The contact's unanswered `subscribe` stanza for delivery at login (RFC 6121 3.1.3); empty if
    /// there is none.
    pub pending: &'a [u8],
}

/// The ends of subscriptions that the contact's home has not confirmed: a crash may have lost them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unconfirmed {
    /// The number of the latest change, which the confirmation carries; 0 if there is none.
    pub number: u64,
    /// `unsubscribe`: the user's own subscription or request has ended.
    pub left: bool,
    /// `unsubscribed`: the contact's subscription has ended.
    pub ended: bool,
}

impl Unconfirmed {
    /// Whether nothing is unconfirmed.
    pub fn is_empty(self) -> bool {
        !self.left && !self.ended
    }

    /// The same with the number `new` if there is one, and without a number if nothing is
    /// unconfirmed.
    #[must_use]
    pub fn numbered(self, new: Option<u64>) -> Unconfirmed {
        Unconfirmed { number: if self.is_empty() { 0 } else { new.unwrap_or(self.number) }, ..self }
    }
}

/// The groups of an item, still encoded and checked to be well-formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Groups<'a>(&'a [u8]);

impl<'a> Groups<'a> {
    /// The groups' names in the client's order.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let bytes = take_bytes(&mut rest)?;
            std::str::from_utf8(bytes).ok()
        })
    }

    /// Appends the encoded form of `names` to `out`, for [`Groups::from_encoded`].
    pub fn encode<S: AsRef<str>>(names: &[S], out: &mut Vec<u8>) {
        for name in names {
            put_bytes(out, name.as_ref().as_bytes());
        }
    }

    /// Takes the output of [`Groups::encode`]; `None` for anything else.
    pub fn from_encoded(bytes: &'a [u8]) -> Option<Groups<'a>> {
        let mut rest = bytes;
        while !rest.is_empty() {
            std::str::from_utf8(take_bytes(&mut rest)?).ok()?;
        }
        Some(Groups(bytes))
    }
}

impl<'a> ItemView<'a> {
    /// Appends the row's bytes to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let flags = [
            (self.listed, FLAG_LISTED),
            (self.approved, FLAG_APPROVED),
            (self.unconfirmed.left, FLAG_LEFT),
            (self.unconfirmed.ended, FLAG_ENDED),
        ];
        let flags = flags.into_iter().filter(|(is, _)| *is).fold(0, |all, (_, flag)| all | flag);
        out.extend_from_slice(&[FORMAT, flags, self.state]);
        for number in [self.ver, self.asked, self.seen] {
            put_varint(out, number);
        }
        if !self.unconfirmed.is_empty() {
            put_varint(out, self.unconfirmed.number);
        }
        put_bytes(out, self.name.as_bytes());
        put_bytes(out, self.groups.0);
        put_bytes(out, self.pending);
    }

    /// Reads only the state of a row, for scans over all contacts; `None` if the format is unknown.
    pub fn decode_state(bytes: &[u8]) -> Option<u8> {
        let &[FORMAT, _, state] = bytes.first_chunk::<3>()? else {
            return None;
        };
        Some(state)
    }

    /// Reads a row; `None` if its format is unknown.
    pub fn decode(bytes: &'a [u8]) -> Option<ItemView<'a>> {
        let (&[FORMAT, flags, state], mut rest) = bytes.split_first_chunk::<3>()? else {
            return None;
        };
        let item = ItemView {
            listed: flags & FLAG_LISTED != 0,
            approved: flags & FLAG_APPROVED != 0,
            state,
            ver: take_varint(&mut rest)?,
            asked: take_varint(&mut rest)?,
            seen: take_varint(&mut rest)?,
            unconfirmed: Unconfirmed {
                number: if flags & (FLAG_LEFT | FLAG_ENDED) == 0 { 0 } else { take_varint(&mut rest)? },
                left: flags & FLAG_LEFT != 0,
                ended: flags & FLAG_ENDED != 0,
            },
            name: std::str::from_utf8(take_bytes(&mut rest)?).ok()?,
            groups: Groups::from_encoded(take_bytes(&mut rest)?)?,
            pending: take_bytes(&mut rest)?,
        };
        rest.is_empty().then_some(item)
    }
}

/// The roster's version row.
///
/// A number alone does not identify a roster. After a backup is restored, or the account is removed
/// and created again, the same numbers count other changes. A version is therefore a number in a
/// *history*, which has a random name. Each life of the server begins a new history with its first
/// change, and records up to which version the previous history is part of its past.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// Increases from 1 with each change and each request; never restarts while the account exists.
    pub current: u64,
    /// The version at the last removal of an item: a client with an older version needs the whole
    /// roster.
    pub removal: u64,
    /// The name of the history; 0 for none: a roster without changes or one written by an earlier
    /// version.
    pub history: u64,
    /// The life of the server that began it.
    pub life: u64,
    /// The previous history, and its last version that is also part of this history's past.
    pub before: (u64, u64),
}

/// The name that a life of the server gives to the history of a roster that it changes for the
/// first time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Life {
    /// The life of the server.
    pub life: u64,
    /// A unique name for a history, not 0.
    pub history: u64,
}

impl Default for Version {
    fn default() -> Version {
        Version { current: 1, removal: 0, history: 0, life: 0, before: (0, 0) }
    }
}

impl Version {
    /// Raises the number, in the history of this life.
    pub fn raise(&mut self, current: u64, now: Life) {
        if self.history == 0 || self.life != now.life {
            self.before = (self.history, self.current);
            (self.history, self.life) = (now.history, now.life);
        }
        self.current = current;
    }

    /// A version of this history in the form that clients see (RFC 6121 2.6.1).
    pub fn text(&self, number: u64) -> String {
        match self.history {
            0 => number.to_string(),
            history => format!("{number}.{history:x}"),
        }
    }

    /// The number of a version that a client sends; `None` if this roster never had it.
    pub fn known(&self, text: &str) -> Option<u64> {
        let (number, history) = match text.split_once('.') {
            Some((number, history)) => (number, u64::from_str_radix(history, 16).ok().filter(|history| *history != 0)?),
            None => (text, 0),
        };
        let until = if history == self.history {
            self.current
        } else if history == self.before.0 {
            self.before.1
        } else {
            return None;
        };
        number.parse().ok().filter(|number| *number <= until)
    }

    /// Encodes the row.
    pub fn encode(self) -> [u8; VERSION_BYTES] {
        let mut out = [FORMAT_OF_HISTORIES; VERSION_BYTES];
        let Version { current, removal, history, life, before: (before, until) } = self;
        for (place, number) in out[1..].chunks_exact_mut(8).zip([current, removal, history, life, before, until]) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        out
    }

    /// Reads the row; `None` if its format is unknown.
    pub fn decode(bytes: &[u8]) -> Option<Version> {
        let (format, rest) = bytes.split_first()?;
        let (numbers, []) = rest.as_chunks::<8>() else { return None };
        let number = |at: usize| numbers.get(at).map_or(0, |number| u64::from_be_bytes(*number));
        match (*format, numbers.len()) {
            (FORMAT, 2) | (FORMAT_OF_HISTORIES, 6) => Some(Version {
                current: number(0),
                removal: number(1),
                history: number(2),
                life: number(3),
                before: (number(4), number(5)),
            }),
            _ => None,
        }
    }
}

/// The query for a user's whole roster, the version row first.
pub fn query(owner: &str) -> Query {
    Query::Range {
        table: Table::Roster,
        actor: owner.as_bytes().into(),
        from: Box::default(),
        until: None,
        reverse: false,
        rows_max: (ROSTER_ITEMS_MAX + ROSTER_PENDING_MAX + 1) as u32,
        bytes_max: 2 * ROSTER_BYTES_MAX as u32,
    }
}

/// Writes an item's row.
pub fn put(batch: &mut Batch, owner: &str, contact: &str, record: &[u8]) {
    batch.put(Table::Roster, owner.as_bytes(), contact.as_bytes(), &[record]);
}

/// Removes an item's row.
pub fn delete(batch: &mut Batch, owner: &str, contact: &str) {
    batch.delete(Table::Roster, owner.as_bytes(), contact.as_bytes());
}

/// Writes the version row.
pub fn put_version(batch: &mut Batch, owner: &str, version: Version) {
    batch.put(Table::Roster, owner.as_bytes(), b"", &[&version.encode()]);
}

fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take_varint(rest)?).ok()?;
    let (bytes, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_item_reads_back_as_written(
            flags in any::<[bool; 4]>(), state in 0u8..9, numbers in any::<[u64; 4]>(), name in ".{0,40}",
            groups in prop::collection::vec(".{1,20}", 0..5), pending in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut encoded = Vec::new();
            Groups::encode(&groups, &mut encoded);
            let number = if flags[2] || flags[3] { numbers[3] } else { 0 };
            let item = ItemView {
                listed: flags[0], approved: flags[1], state, ver: numbers[0], asked: numbers[1], seen: numbers[2],
                unconfirmed: Unconfirmed { number, left: flags[2], ended: flags[3] }, name: &name, groups: Groups::from_encoded(&encoded).unwrap(), pending: &pending,
            };
            let mut row = Vec::new();
            item.encode(&mut row);
            prop_assert_eq!(ItemView::decode(&row), Some(item));
            prop_assert_eq!(ItemView::decode_state(&row), Some(state));
            prop_assert_eq!(item.groups.iter().collect::<Vec<_>>(), groups);
            // A truncated row is rejected, whatever is missing.
            for len in 0..row.len() {
                prop_assert_eq!(ItemView::decode(&row[..len]), None);
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut row = vec![FORMAT, 1, 1];
            row.extend(bytes);
            if let Some(item) = ItemView::decode(&row) {
                item.groups.iter().for_each(drop);
            }
        }
    }

    #[test]
    fn a_version_reads_back_and_other_formats_do_not() {
        let version = Version { current: 7, removal: 3, history: 9, life: 11, before: (8, 5) };
        assert_eq!(Version::decode(&version.encode()), Some(version));
        assert_eq!(Version::decode(&version.encode()[..17]), None);
        assert_eq!(Version::decode(&version.encode()[..48]), None);
        // A row of an earlier version of the server.
        let early = [&[FORMAT][..], &7_u64.to_be_bytes(), &3_u64.to_be_bytes()].concat();
        assert_eq!(Version::decode(&early), Some(Version { current: 7, removal: 3, ..Version::default() }));
        assert_eq!(Version::decode(&[3; VERSION_BYTES]), None);
        assert_eq!(Version::decode(&[2; 17]), None);
        assert_eq!(Version::decode(b""), None);
    }

    /// RFC 6121 2.6: a version identifies one content, even after a backup is restored or the
    /// account is created again.
    #[test]
    fn a_version_is_known_in_its_own_history_alone() {
        let life = |life, history| Life { life, history };
        let mut version = Version::default();
        assert_eq!((version.text(1).as_str(), version.known("1"), version.known("2")), ("1", Some(1), None));
        (2..=5).for_each(|number| version.raise(number, life(1, 0xa)));
        let backup = version;
        assert_eq!((version.text(5).as_str(), version.known("5.a")), ("5.a", Some(5)));
        assert_eq!((version.known("1"), version.known("2")), (Some(1), None), "it had no name before its first change");
        (6..=9).for_each(|number| version.raise(number, life(1, 0xb)));
        assert_eq!(version.known("9.a"), Some(9), "the same life goes on in its history");
        version.raise(10, life(2, 0xc));
        assert_eq!((version.known("10.c"), version.known("9.a"), version.known("10.a")), (Some(10), Some(9), None));
        // After the backup is restored, no later version is known, whatever the numbers reach.
        let mut restored = backup;
        assert_eq!((restored.known("5.a"), restored.known("9.a"), restored.known("10.c")), (Some(5), None, None));
        (6..=12).for_each(|number| restored.raise(number, life(3, 0xd)));
        assert_eq!((restored.known("5.a"), restored.known("9.a"), restored.known("10.c")), (Some(5), None, None));
        // The account is created again, in the same life.
        let mut anew = Version::default();
        (2..=12).for_each(|number| anew.raise(number, life(3, 0xe)));
        assert_eq!((anew.known("12.d"), anew.known("5"), anew.known("12.e")), (None, None, Some(12)));
        // A row that an earlier version of the server wrote.
        let mut early = Version { current: 7, ..Version::default() };
        early.raise(8, life(4, 0xf));
        assert_eq!((early.known("7"), early.known("8"), early.known("8.f")), (Some(7), None, Some(8)));
        for none in ["", ".", "7.", ".f", "8.0", "-1.f", "8.g", "8.f.f", "99.f", "18446744073709551616.f"] {
            assert_eq!(early.known(none), None, "{none}");
        }
    }

    #[test]
    fn a_plain_item_is_small() {
        let mut encoded = Vec::new();
        Groups::encode(&["Friends"], &mut encoded);
        let groups = Groups::from_encoded(&encoded).unwrap();
        let item =
            ItemView { listed: true, state: 8, ver: 300, asked: 12, name: "Romeo", groups, ..ItemView::default() };
        let mut row = Vec::new();
        item.encode(&mut row);
        assert_eq!(row.len(), 23);
    }
}

//! The permanent entries of a user's log: [`Table::Archive`].
//!
//! Entries are ordered by number. Numbers carry no time: the clock may jump, the order may not. A
//! number is the message's stanza-id (XEP-0359). Entries that wait for the user's sessions and are
//! not archived are in [`waiting`](super::waiting). Both are one log, which [`log`](super::log)
//! accounts for.
//!
//! Consecutive entries of one user that are written in one turn share a row. Rows are inserted,
//! written to tables and merged one by one, and many small ones cost more than their bytes.

use super::{Batch, Found, OpView, Query, Row, Table};

/// Version byte of a row.
const VERSION: u8 = 2;
const INCOMING: u8 = 1;
const WAITS: u8 = 2;
/// Flag: a trail follows the stanza.
const TRAILED: u8 = 4;

/// Version byte of a row that marks an entry as void, because it was refused after it had been
/// written.
const VOID: u8 = 0x80;

/// Last byte of the sort key of a row of entries. The key begins with the number of the last entry,
/// so the first row after a number is the one that may hold the next entry.
const SHARED: u8 = 1;

/// Length of the sort key of a row of entries, and of a row that voids an entry.
pub(super) const ENTRIES_KEY_BYTES: usize = 9;
pub(super) const VOID_KEY_BYTES: usize = 8;

/// A row of this size takes no further entries.
const ROW_BYTES_MAX: usize = 8 << 10;

/// Bytes of an entry before the peer: flags, distance to the previous number, time, lengths of peer
/// and stanza.
const HEAD_BYTES: usize = 17;

/// One entry of a log: a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Whether the user received the message, rather than sent it.
    pub incoming: bool,
    /// Whether every session that takes messages for the bare JID receives it.
    pub waits: bool,
    /// When it arrived, milliseconds since the Unix epoch, below 2^48.
    pub time_ms: u64,
    /// The other party's JID.
    pub peer: &'a str,
    /// The stanza with `from` and `to`, without stanza-id.
    pub xml: &'a [u8],
    /// References to sessions that may be resumed ([`Trail`](super::sessions::Trail)), at most 255
    /// bytes.
    pub trail: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Writes the entry for a user. It shares the row of the previous operation if that wrote an
    /// entry of the same user. The number must be above all other numbers of the user.
    pub fn put(&self, batch: &mut Batch, user: &str, number: u64) {
        match Self::shared_row(batch, user, number) {
            Some(distance) => {
                let head = self.head(distance);
                let value: [&[u8]; 5] = [&head, self.peer.as_bytes(), self.xml, self.trail_len(), self.trail];
                batch.extend_last(&row_key(number), &value);
            }
            None => {
                let head = self.head(0);
                let value: [&[u8]; 6] =
                    [&[VERSION], &head, self.peer.as_bytes(), self.xml, self.trail_len(), self.trail];
                batch.put(Table::Archive, user.as_bytes(), &row_key(number), &value);
            }
        }
    }

    /// The distance to the last entry of the row that this entry can be added to.
    fn shared_row(batch: &Batch, user: &str, number: u64) -> Option<u32> {
        match batch.last()? {
            OpView::Put { table: Table::Archive, actor, sort, value }
                if actor == user.as_bytes() && value.first() == Some(&VERSION) && value.len() < ROW_BYTES_MAX =>
            {
                u32::try_from(number.checked_sub(number_of(sort)?)?).ok()
            }
            _ => None,
        }
    }

    /// The length prefix of the trail; empty if there is no trail.
    pub(super) fn trail_len(&self) -> &'static [u8] {
        match self.trail.len() {
            0 => &[],
            len => std::slice::from_ref(&LENGTHS[len]),
        }
    }

    /// The bytes of the entry before peer and stanza.
    pub(super) fn head(&self, distance: u32) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[0] = if self.incoming { INCOMING } else { 0 } | if self.waits { WAITS } else { 0 };
        head[0] |= if self.trail.is_empty() { 0 } else { TRAILED };
        head[1..5].copy_from_slice(&distance.to_le_bytes());
        head[5..11].copy_from_slice(&self.time_ms.to_le_bytes()[..6]);
        // A JID has at most 3,071 bytes (RFC 7622 3.1), a stanza at most what the limits allow.
        head[11..13].copy_from_slice(&(self.peer.len() as u16).to_le_bytes());
        head[13..].copy_from_slice(&(self.xml.len() as u32).to_le_bytes());
        head
    }

    /// Reads the first entry of `row`. Also returns its distance to the previous number, and the
    /// rest.
    pub(super) fn decode(row: &'a [u8]) -> Option<(Entry<'a>, u32, &'a [u8])> {
        let (head, rest) = row.split_first_chunk::<HEAD_BYTES>()?;
        let peer_len = u16::from_le_bytes(head[11..13].try_into().ok()?);
        let xml_len = u32::from_le_bytes(head[13..].try_into().ok()?);
        let (peer, rest) = rest.split_at_checked(usize::from(peer_len))?;
        let (xml, rest) = rest.split_at_checked(xml_len as usize)?;
        let (trail, rest) = match head[0] & TRAILED {
            0 => rest.split_at(0),
            _ => rest.split_first().and_then(|(len, rest)| rest.split_at_checked(usize::from(*len)))?,
        };
        let (incoming, waits) = (head[0] & INCOMING != 0, head[0] & WAITS != 0);
        let mut time = [0; 8];
        time[..6].copy_from_slice(&head[5..11]);
        let time_ms = u64::from_le_bytes(time);
        let entry = Entry { incoming, waits, time_ms, peer: std::str::from_utf8(peer).ok()?, xml, trail };
        Some((entry, u32::from_le_bytes(head[1..5].try_into().ok()?), rest))
    }
}

/// All possible length prefixes of a trail.
static LENGTHS: [u8; 256] = {
    let mut all = [0; 256];
    let mut at = 0;
    while at < 256 {
        all[at] = at as u8;
        at += 1;
    }
    all
};

/// The sort key of a row whose last entry has this number.
fn row_key(number: u64) -> [u8; ENTRIES_KEY_BYTES] {
    let mut key = [SHARED; ENTRIES_KEY_BYTES];
    key[..VOID_KEY_BYTES].copy_from_slice(&number.to_be_bytes());
    key
}

/// Voids an entry that the user has sent. The row sorts before the one with the entry, so a reader
/// in order meets it first.
pub fn put_void(batch: &mut Batch, user: &str, number: u64) {
    batch.put(Table::Archive, user.as_bytes(), &number.to_be_bytes(), &[&[VOID]]);
}

/// Whether a row voids the entry with the number of its key.
pub fn is_void(value: &[u8]) -> bool {
    value == [VOID]
}

/// The entries of an archive row with their numbers, in order; empty for a row that voids an entry.
/// Returns `None` if the row is damaged or has a later version.
pub fn entries<'a>(sort: &[u8], value: &'a [u8]) -> Option<Vec<(u64, Entry<'a>)>> {
    let last = number_of(sort)?;
    if is_void(value) {
        return Some(Vec::new());
    }
    let (&VERSION, mut rest) = value.split_first()? else { return None };
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (entry, distance, behind) = Entry::decode(rest)?;
        entries.push((u64::from(distance), entry));
        rest = behind;
    }
    // The key has the last number, and each entry the distance to the previous one, so numbers are
    // computed from back to front.
    let mut number = last;
    for (distance, _) in entries.iter_mut().rev() {
        number = number.checked_sub(std::mem::replace(distance, number))?;
    }
    (!entries.is_empty()).then_some(entries)
}

/// The entries of consecutive archive rows, without those that are void. Returns `None` if one of
/// the rows is damaged or has a later version.
pub fn live_entries<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Option<Vec<(u64, Entry<'a>)>> {
    let (mut void, mut all) = (Vec::new(), Vec::new());
    for Row { sort, value } in rows {
        match is_void(value) {
            true => void.push(number_of(sort)?),
            false => all.extend(entries(sort, value)?),
        }
    }
    // Rows are in the order of their numbers.
    all.retain(|(number, _)| void.binary_search(number).is_err());
    Some(all)
}

/// Maximum number of voiding rows directly before the row with the entries they refer to.
const VOID_ROWS_MAX: u32 = 256;

/// The query for the row that holds the entry with this number, or else the next entry. It also
/// returns the rows that void entries in it, from this number on.
pub fn seek(user: &str, number: u64) -> Query {
    Query::Range {
        table: Table::Archive,
        actor: user.as_bytes().into(),
        from: number.to_be_bytes().as_slice().into(),
        until: None,
        reverse: false,
        rows_max: VOID_ROWS_MAX,
        // A voiding row has a value of one byte, so the first row with entries is the last one
        // returned.
        bytes_max: VOID_ROWS_MAX,
    }
}

/// The query for the row whose last entry has this number. A lookup by key costs a tenth of a seek.
/// Most rows have one entry; [`seek`] finds those in which other entries follow this one.
pub fn ending(user: &str, number: u64) -> Query {
    Query::Get { table: Table::Archive, actor: user.as_bytes().into(), sort: row_key(number).into() }
}

/// The entry in this answer to [`ending`]; `None` if no row ends with it.
///
/// # Errors
///
/// If the row cannot be read.
pub fn last_entry(number: u64, found: &Found) -> Result<Option<Entry<'_>>, Unreadable> {
    let Found::Value(row) = found else { return Err(Unreadable) };
    let Some(row) = row else { return Ok(None) };
    let all = entries(&row_key(number), row).ok_or(Unreadable)?;
    Ok(all.into_iter().next_back().map(|(_, entry)| entry))
}

/// The query for the row that voids an entry. Only entries that the user has sent can be void.
pub fn refused(user: &str, number: u64) -> Query {
    Query::Get { table: Table::Archive, actor: user.as_bytes().into(), sort: number.to_be_bytes().as_slice().into() }
}

/// Whether the answer to [`refused`] voids the entry.
///
/// # Errors
///
/// If the row cannot be read.
pub fn was_refused(found: &Found) -> Result<bool, Unreadable> {
    match found {
        Found::Value(None) => Ok(false),
        Found::Value(Some(row)) if is_void(row) => Ok(true),
        _ => Err(Unreadable),
    }
}

/// A row is damaged or has a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// The number in a sort key of the archive: that of the last entry if the row has several.
pub fn number_of(sort: &[u8]) -> Option<u64> {
    let (number, rest) = sort.split_first_chunk()?;
    matches!(rest, [] | [SHARED]).then(|| u64::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn puts(batch: &Batch) -> Vec<(Vec<u8>, Vec<u8>)> {
        let put = |op| match op {
            OpView::Put { sort, value, .. } => (sort.to_vec(), value.to_vec()),
            _ => panic!("only puts"),
        };
        batch.iter().map(put).collect()
    }

    const ENTRY: Entry<'_> = Entry {
        incoming: true,
        waits: true,
        time_ms: 1_767_225_600_123,
        peer: "romeo@x/o",
        xml: b"<message></message>",
        trail: b"trail",
    };

    #[test]
    fn records_read_back() {
        let mut batch = Batch::new();
        ENTRY.put(&mut batch, "juliet@x", 77);
        let rows = puts(&batch);
        let (sort, value) = &rows[0];
        assert_eq!(entries(sort, value), Some(vec![(77, ENTRY)]));
        for cut in 0..value.len() {
            assert_eq!(entries(sort, &value[..cut]), None, "cut short");
        }
    }

    #[test]
    fn what_a_user_gets_at_once_shares_a_row() {
        let mut batch = Batch::new();
        let sent = Entry {
            incoming: false,
            waits: false,
            time_ms: 5,
            peer: "nurse@x",
            xml: b"<message><body/></message>",
            trail: b"",
        };
        ENTRY.put(&mut batch, "juliet@x", 77);
        sent.put(&mut batch, "juliet@x", 78);
        ENTRY.put(&mut batch, "juliet@x", 4_000_000_000);
        ENTRY.put(&mut batch, "romeo@x", 4_000_000_001);
        ENTRY.put(&mut batch, "juliet@x", 4_000_000_002);
        ENTRY.put(&mut batch, "juliet@x", u64::MAX);
        let rows = puts(&batch);
        let read: Vec<_> = rows.iter().map(|(sort, value)| entries(sort, value).unwrap()).collect();
        assert_eq!(read[0], [(77, ENTRY), (78, sent), (4_000_000_000, ENTRY)]);
        assert_eq!(read[1], [(4_000_000_001, ENTRY)], "another user's");
        assert_eq!(read[2], [(4_000_000_002, ENTRY)], "not just behind");
        assert_eq!(read[3], [(u64::MAX, ENTRY)], "too far");
        assert_eq!(number_of(&rows[0].0), Some(4_000_000_000), "the key has the last number");
    }

    #[test]
    fn what_makes_an_entry_void_stands_before_it_and_is_shared_with_none() {
        let mut batch = Batch::new();
        ENTRY.put(&mut batch, "juliet@x", 77);
        ENTRY.put(&mut batch, "juliet@x", 78);
        put_void(&mut batch, "juliet@x", 78);
        ENTRY.put(&mut batch, "juliet@x", 79);
        let mut rows = puts(&batch);
        rows.sort();
        assert_eq!(rows.len(), 3);
        assert!(is_void(&rows[0].1) && number_of(&rows[0].0) == Some(78));
        assert_eq!(entries(&rows[0].0, &rows[0].1), Some(Vec::new()));
        assert_eq!(entries(&rows[1].0, &rows[1].1).unwrap().len(), 2);
        assert_eq!(entries(&rows[2].0, &rows[2].1), Some(vec![(79, ENTRY)]));
    }

    #[test]
    fn what_is_void_is_not_among_those_that_live() {
        let mut batch = Batch::new();
        (70..75).for_each(|number| ENTRY.put(&mut batch, "juliet@x", number));
        put_void(&mut batch, "juliet@x", 71);
        put_void(&mut batch, "juliet@x", 74);
        let mut rows: Vec<Row> =
            puts(&batch).into_iter().map(|(sort, value)| Row { sort: sort.into(), value: value.into() }).collect();
        rows.sort_by(|a, b| a.sort.cmp(&b.sort));
        let numbers = |rows: &[Row]| live_entries(rows).map(|all| all.iter().map(|(n, _)| *n).collect::<Vec<_>>());
        assert_eq!(numbers(&rows), Some(vec![70, 72, 73]));
        rows[2].value = Box::new([9]);
        assert_eq!(numbers(&rows), None, "a row that cannot be read is not passed over");
    }

    #[test]
    fn a_row_is_found_by_its_last_entry_and_by_no_other() {
        let mut batch = Batch::new();
        (70..75).for_each(|number| ENTRY.put(&mut batch, "juliet@x", number));
        put_void(&mut batch, "juliet@x", 74);
        let rows = puts(&batch);
        let answer = |query: &Query| match query {
            Query::Get { sort, .. } => {
                Found::Value(rows.iter().find(|(key, _)| **key == **sort).map(|(_, value)| value.as_slice().into()))
            }
            Query::Range { .. } => panic!("a get"),
        };
        let found = |number| answer(&ending("juliet@x", number));
        assert_eq!(last_entry(73, &found(73)), Ok(None), "it is not the last one of its row");
        assert_eq!(last_entry(74, &found(74)), Ok(Some(ENTRY)));
        assert_eq!(last_entry(74, &Found::Value(Some([9].into()))), Err(Unreadable));
        assert_eq!(last_entry(74, &Found::Damaged), Err(Unreadable));
        assert_eq!(was_refused(&answer(&refused("juliet@x", 74))), Ok(true));
        assert_eq!(was_refused(&answer(&refused("juliet@x", 73))), Ok(false));
        assert_eq!(was_refused(&found(74)), Err(Unreadable), "it is another row");
        assert_eq!(was_refused(&Found::Damaged), Err(Unreadable));
    }

    #[test]
    fn rows_do_not_grow_for_ever() {
        let (mut batch, xml) = (Batch::new(), [b'x'; 1000]);
        (0..100).for_each(|number| Entry { xml: &xml, ..ENTRY }.put(&mut batch, "juliet@x", number));
        let rows = puts(&batch);
        assert!(rows.len() > 10 && rows.iter().all(|(_, value)| value.len() < ROW_BYTES_MAX + 1100));
        let numbers: Vec<u64> = rows.iter().flat_map(|(s, v)| entries(s, v).unwrap()).map(|(n, _)| n).collect();
        assert!(numbers.iter().copied().eq(0..100));
    }
}

//! Records of the archive and of the mailbox, which is a part of it.
//!
//! The archive is the one durable copy of a message, ordered by id. An id is the microsecond at which it was given out,
//! raised where needed so that ids strictly increase; it is the message's stanza-id (XEP-0359). What waits to be
//! delivered are the entries behind the user's delivered-cursor that carry the mailbox mark, and the few *returned*
//! entries, each with a row of its own, that lie before it.
//!
//! Messages of one user that are written one behind the other in a turn share a row: rows are sorted in, written to tables
//! and merged one by one, and many small ones cost more than their bytes. Where messages may have to go one by one, each
//! has a row of its own; the sort key tells the two apart.

use super::{Batch, OpView, Table};

/// Version byte of both records.
const VERSION: u8 = 1;
const INCOMING: u8 = 1;
const WAITS: u8 = 2;

/// Last byte of the sort key of a row that may hold several entries. The key begins with the id of the last one: so the
/// first row behind an id is the one that may hold the next entry.
const SHARED: u8 = 1;

/// No entry is added to a row of so many bytes.
const ROW_BYTES_MAX: usize = 8 << 10;

/// Bytes of an entry before the peer: flags, distance to the id before, lengths of peer and stanza.
const HEAD_BYTES: usize = 11;

/// One archived message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Received by the user, or sent by the user.
    pub incoming: bool,
    /// Is part of the mailbox while it lies behind the delivered-cursor.
    pub waits: bool,
    /// The other party's JID.
    pub peer: &'a str,
    /// The stanza with `from` and `to`, without stanza-id.
    pub xml: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Asks for the entry to be written for a user, in one row with what is written just before if that is an entry of the
    /// same user. The id is above all that the user has.
    pub fn put(&self, batch: &mut Batch, user: &str, id: u64) {
        match Self::shared_row(batch, user, id) {
            Some(distance) => {
                batch.extend_last(&shared_key(id), &[&self.head(distance), self.peer.as_bytes(), self.xml]);
            }
            None => self.put_row(batch, user, &shared_key(id)),
        }
    }

    /// Asks for the entry to be written in a row of its own: it may be deleted by its id, and come in the place of an
    /// earlier id.
    pub fn put_alone(&self, batch: &mut Batch, user: &str, id: u64) {
        self.put_row(batch, user, &id.to_be_bytes());
    }

    fn put_row(&self, batch: &mut Batch, user: &str, sort: &[u8]) {
        batch.put(Table::Archive, user.as_bytes(), sort, &[&[VERSION], &self.head(0), self.peer.as_bytes(), self.xml]);
    }

    /// The distance to the last entry of the row that this one can be added to.
    fn shared_row(batch: &Batch, user: &str, id: u64) -> Option<u32> {
        match batch.last()? {
            OpView::Put { table: Table::Archive, partition, sort, value }
                if partition == user.as_bytes() && sort.len() == shared_key(0).len() && value.len() < ROW_BYTES_MAX =>
            {
                u32::try_from(id.checked_sub(id_of(sort)?)?).ok()
            }
            _ => None,
        }
    }

    fn head(&self, distance: u32) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[0] = if self.incoming { INCOMING } else { 0 } | if self.waits { WAITS } else { 0 };
        head[1..5].copy_from_slice(&distance.to_le_bytes());
        // A JID has at most 3,071 bytes (RFC 7622 3.1), a stanza at most what the limits allow.
        head[5..7].copy_from_slice(&(self.peer.len() as u16).to_le_bytes());
        head[7..].copy_from_slice(&(self.xml.len() as u32).to_le_bytes());
        head
    }

    /// Reads the entry that `row` begins with; also its distance to the id before, and the rest.
    fn decode(row: &'a [u8]) -> Option<(Entry<'a>, u32, &'a [u8])> {
        let (head, rest) = row.split_first_chunk::<HEAD_BYTES>()?;
        let peer_len = u16::from_le_bytes(head[5..7].try_into().ok()?);
        let xml_len = u32::from_le_bytes(head[7..].try_into().ok()?);
        let (peer, rest) = rest.split_at_checked(usize::from(peer_len))?;
        let (xml, rest) = rest.split_at_checked(xml_len as usize)?;
        let (incoming, waits) = (head[0] & INCOMING != 0, head[0] & WAITS != 0);
        let entry = Entry { incoming, waits, peer: std::str::from_utf8(peer).ok()?, xml };
        Some((entry, u32::from_le_bytes(head[1..5].try_into().ok()?), rest))
    }
}

fn shared_key(id: u64) -> [u8; 9] {
    let mut key = [SHARED; 9];
    key[..8].copy_from_slice(&id.to_be_bytes());
    key
}

/// The entries of a row of the archive with their ids, in order; `None` if it is damaged or of a later version.
pub fn entries<'a>(sort: &[u8], value: &'a [u8]) -> Option<Vec<(u64, Entry<'a>)>> {
    let (&VERSION, mut rest) = value.split_first()? else { return None };
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let (entry, distance, behind) = Entry::decode(rest)?;
        entries.push((u64::from(distance), entry));
        rest = behind;
    }
    // The key has the last id, each entry the distance to the one before: they are told from back to front.
    let mut id = id_of(sort)?;
    for (distance, _) in entries.iter_mut().rev() {
        id = id.checked_sub(std::mem::replace(distance, id))?;
    }
    (!entries.is_empty()).then_some(entries)
}

/// The row of a mailbox: how far it is delivered, and what waits behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxRow {
    /// All entries up to this id are delivered, but for the returned ones.
    pub cursor: u64,
    /// Messages that wait.
    pub count: u32,
    /// Bytes of these.
    pub bytes: u64,
}

impl MailboxRow {
    /// Asks for the row to be written.
    pub fn put(&self, batch: &mut Batch, user: &str) {
        let mut value = [0u8; 21];
        value[0] = VERSION;
        value[1..9].copy_from_slice(&self.cursor.to_le_bytes());
        value[9..13].copy_from_slice(&self.count.to_le_bytes());
        value[13..21].copy_from_slice(&self.bytes.to_le_bytes());
        batch.put(Table::Mailbox, user.as_bytes(), &[], &[&value]);
    }

    /// Reads the row back; `None` if it is damaged or of a later version.
    pub fn decode(value: &[u8]) -> Option<MailboxRow> {
        let value: &[u8; 21] = value.try_into().ok()?;
        if value[0] != VERSION {
            return None;
        }
        Some(MailboxRow {
            cursor: u64::from_le_bytes(value[1..9].try_into().ok()?),
            count: u32::from_le_bytes(value[9..13].try_into().ok()?),
            bytes: u64::from_le_bytes(value[13..21].try_into().ok()?),
        })
    }
}

/// Marks an entry as returned: it waits although it lies before the cursor or lacks the mailbox mark.
pub fn put_returned(batch: &mut Batch, user: &str, id: u64) {
    batch.put(Table::Mailbox, user.as_bytes(), &id.to_be_bytes(), &[]);
}

/// The returned entry is delivered.
pub fn delete_returned(batch: &mut Batch, user: &str, id: u64) {
    batch.delete(Table::Mailbox, user.as_bytes(), &id.to_be_bytes());
}

/// The id in a sort key of the archive, of the last entry if there are several, or of a returned row.
pub fn id_of(sort: &[u8]) -> Option<u64> {
    let (id, rest) = sort.split_first_chunk()?;
    matches!(rest, [] | [SHARED]).then(|| u64::from_be_bytes(*id))
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

    const ENTRY: Entry<'_> = Entry { incoming: true, waits: true, peer: "romeo@x/o", xml: b"<message></message>" };

    #[test]
    fn records_read_back() {
        let mut batch = Batch::new();
        ENTRY.put(&mut batch, "juliet@x", 77);
        let row = MailboxRow { cursor: 5, count: 6, bytes: 7 };
        row.put(&mut batch, "juliet@x");
        let rows = puts(&batch);
        let (sort, value) = &rows[0];
        assert_eq!(entries(sort, value), Some(vec![(77, ENTRY)]));
        assert_eq!(MailboxRow::decode(&rows[1].1), Some(row));
        for cut in 0..value.len() {
            assert_eq!(entries(sort, &value[..cut]), None, "cut short");
        }
        assert_eq!(MailboxRow::decode(&rows[1].1[1..]), None);
    }

    #[test]
    fn what_a_user_gets_at_once_shares_a_row() {
        let mut batch = Batch::new();
        let sent = Entry { incoming: false, waits: false, peer: "nurse@x", xml: b"<message><body/></message>" };
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
        assert_eq!(id_of(&rows[0].0), Some(4_000_000_000), "the key has the last id");
    }

    #[test]
    fn a_row_that_may_go_by_itself_is_shared_with_none() {
        let mut batch = Batch::new();
        ENTRY.put(&mut batch, "juliet@x", 77);
        ENTRY.put_alone(&mut batch, "juliet@x", 78);
        ENTRY.put(&mut batch, "juliet@x", 79);
        batch.delete(Table::Archive, b"juliet@x", &77u64.to_be_bytes());
        let keys: Vec<_> =
            batch.iter().take(3).map(|op| matches!(op, OpView::Put { sort, .. } if sort.len() == 8)).collect();
        assert_eq!(keys, [false, true, false]);
    }

    #[test]
    fn rows_do_not_grow_for_ever() {
        let (mut batch, xml) = (Batch::new(), [b'x'; 1000]);
        (0..100).for_each(|id| Entry { xml: &xml, ..ENTRY }.put(&mut batch, "juliet@x", id));
        let rows = puts(&batch);
        assert!(rows.len() > 10 && rows.iter().all(|(_, value)| value.len() < ROW_BYTES_MAX + 1100));
        let ids: Vec<u64> = rows.iter().flat_map(|(s, v)| entries(s, v).unwrap()).map(|(id, _)| id).collect();
        assert!(ids.iter().copied().eq(0..100));
    }
}

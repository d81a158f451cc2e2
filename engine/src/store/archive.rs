//! Records of the archive and of the mailbox, which is a part of it.
//!
//! The archive is the one durable copy of a message, ordered by id. An id is the microsecond at which it was given out,
//! raised where needed so that ids strictly increase; it is the message's stanza-id (XEP-0359). What waits to be
//! delivered are the entries behind the user's delivered-cursor that carry the mailbox mark, and the few *returned*
//! entries, each with a row of its own, that lie before it.

use super::{Batch, Table};

/// Version byte of both records.
const VERSION: u8 = 1;
const INCOMING: u8 = 1;
const WAITS: u8 = 2;

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
    /// Asks for the entry to be written for a user.
    pub fn put(&self, batch: &mut Batch, user: &str, id: u64) {
        let flags = if self.incoming { INCOMING } else { 0 } | if self.waits { WAITS } else { 0 };
        let peer_len = (self.peer.len() as u16).to_le_bytes();
        let head = [VERSION, flags, peer_len[0], peer_len[1]];
        batch.put(Table::Archive, user.as_bytes(), &id.to_be_bytes(), &[&head, self.peer.as_bytes(), self.xml]);
    }

    /// Reads an entry back; `None` if it is damaged or of a later version.
    pub fn decode(value: &'a [u8]) -> Option<Entry<'a>> {
        let (head, rest) = value.split_first_chunk::<4>()?;
        if head[0] != VERSION {
            return None;
        }
        let peer_len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (peer, xml) = rest.split_at_checked(peer_len)?;
        Some(Entry {
            incoming: head[1] & INCOMING != 0,
            waits: head[1] & WAITS != 0,
            peer: std::str::from_utf8(peer).ok()?,
            xml,
        })
    }
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

/// The id in a sort key of the archive or of a returned row.
pub fn id_of(sort: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(sort.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;

    #[test]
    fn records_read_back() {
        let mut batch = Batch::new();
        let entry = Entry { incoming: true, waits: true, peer: "romeo@x/o", xml: b"<message></message>" };
        entry.put(&mut batch, "juliet@x", 77);
        let row = MailboxRow { cursor: 5, count: 6, bytes: 7 };
        row.put(&mut batch, "juliet@x");
        let values: Vec<Vec<u8>> = batch
            .iter()
            .map(|op| match op {
                OpView::Put { value, .. } => value.to_vec(),
                _ => panic!("only puts"),
            })
            .collect();
        assert_eq!(Entry::decode(&values[0]), Some(entry));
        assert_eq!(MailboxRow::decode(&values[1]), Some(row));
        assert_eq!(Entry::decode(&values[0][..6]), None, "cut short");
        assert_eq!(MailboxRow::decode(&values[1][1..]), None);
    }
}

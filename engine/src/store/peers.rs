//! An index of a user's archive by peer, built lazily by requests for the messages with one peer:
//! rows of [`Table::Private`] that clients do not see.
//!
//! The archive is divided into *segments* of [`SEGMENT_ENTRIES`] entries, of which the last is
//! open. A segment has [`PARTS`] rows, its *parts*; each lists the entries of those peers whose
//! hash falls into it. A [`Directory`] lists the segments and records up to which number the
//! archive is indexed. Later entries are examined one by one.
//!
//! Sort keys are the prefix and the number of a segment's last entry, so that retention removes one
//! range of them; the open segment sorts last. An entry that a part lists may no longer exist.

use super::{Batch, Query, Table};
use crate::id;

pub(super) const DIRECTORY: &[u8] = b"\0peers";
pub(super) const PART: &[u8] = b"\0peers/";
const FORMAT: u8 = 1;

/// Rows per segment.
pub const PARTS: usize = 16;

/// Entries per segment: one of its parts lists about 256, in 2 KiB.
pub const SEGMENT_ENTRIES: u32 = 4_096;

/// Takes the place of the last number in the key of the open segment.
pub const OPEN: u64 = u64::MAX;

/// How the index identifies a peer: its part, and its hash within the part. Other peers may share
/// both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The part.
    pub part: u8,
    hash: u32,
}

impl Peer {
    /// The peer with this bare JID.
    pub fn of(bare: &str) -> Peer {
        let hash = id::hash(bare.as_bytes());
        Peer { part: (hash >> 32) as u8 % PARTS as u8, hash: hash as u32 }
    }
}

/// The list of segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Directory {
    /// All entries up to this number are indexed.
    pub until: u64,
    /// Number of entries in the open segment.
    pub open: u32,
    /// Numbers of the last entries of the closed segments, in order.
    pub closed: Vec<u64>,
}

impl Directory {
    /// The query for the directory.
    pub fn query(user: &str) -> Query {
        Query::Get { table: Table::Private, actor: user.as_bytes().into(), sort: DIRECTORY.into() }
    }

    /// Writes the row.
    pub fn put(&self, batch: &mut Batch, user: &str) {
        let closed: Vec<u8> = self.closed.iter().flat_map(|last| last.to_le_bytes()).collect();
        let head: [&[u8]; 4] = [&[FORMAT], &self.until.to_le_bytes(), &self.open.to_le_bytes(), &closed];
        batch.put(Table::Private, user.as_bytes(), DIRECTORY, &head);
    }

    /// Reads the row; `None` if its format is unknown.
    pub fn decode(row: &[u8]) -> Option<Directory> {
        let (until, rest) = row.strip_prefix(&[FORMAT])?.split_first_chunk::<8>()?;
        let (open, rest) = rest.split_first_chunk::<4>()?;
        let (closed, []) = rest.as_chunks::<8>() else { return None };
        Some(Directory {
            until: u64::from_le_bytes(*until),
            open: u32::from_le_bytes(*open),
            closed: closed.iter().map(|last| u64::from_le_bytes(*last)).collect(),
        })
    }
}

/// A part of a segment: its row as stored.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Part {
    row: Vec<u8>,
    last: u64,
}

/// Bytes of a part's row before its list: version, and the number up to which the segment goes.
const HEAD_BYTES: usize = 9;

impl Default for Part {
    fn default() -> Part {
        Part { row: [&[FORMAT][..], &[0; 8]].concat(), last: 0 }
    }
}

impl Part {
    /// Adds an entry of a peer, with a number above all previous ones.
    pub fn add(&mut self, peer: Peer, number: u64) {
        self.row.extend_from_slice(&peer.hash.to_le_bytes());
        let mut distance = number - self.last;
        while distance >= 0x80 {
            self.row.push(distance as u8 | 0x80);
            distance >>= 7;
        }
        self.row.push(distance as u8);
        self.last = number;
    }

    /// Whether it lists nothing.
    pub fn is_empty(&self) -> bool {
        self.row.len() == HEAD_BYTES
    }

    /// Writes the row of the segment whose last entry has the number `key`, or of the open one. The
    /// segment goes up to `until`.
    pub fn put(&self, batch: &mut Batch, user: &str, part: usize, key: u64, until: u64) {
        let value: [&[u8]; 3] = [&[FORMAT], &until.to_le_bytes(), &self.row[HEAD_BYTES..]];
        batch.put(Table::Private, user.as_bytes(), &part_key(key, part as u8), &value);
    }

    /// Reads a row, and up to which number its segment goes. `None` if it is damaged or has another
    /// format.
    pub fn decode(row: &[u8]) -> Option<(Part, u64)> {
        let until = u64::from_le_bytes(*row.strip_prefix(&[FORMAT])?.first_chunk()?);
        let mut last = 0;
        each_named(row, |_, number| last = number)?;
        Some((Part { row: row.to_vec(), last }, until))
    }
}

/// The numbers that a part's row lists for a peer, in order; `None` if it is damaged or has another
/// format.
pub fn numbers(row: &[u8], peer: Peer) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    each_named(row, |hash, number| {
        if hash == peer.hash {
            all.push(number);
        }
    })?;
    Some(all)
}

/// Calls `name` with each hash and number in a part's row.
fn each_named(row: &[u8], mut name: impl FnMut(u32, u64)) -> Option<()> {
    let mut rest = row.strip_prefix(&[FORMAT])?.get(HEAD_BYTES - 1..)?;
    let mut number = 0u64;
    while !rest.is_empty() {
        let (hash, behind) = rest.split_first_chunk::<4>()?;
        let (distance, behind) = distance(behind)?;
        number = number.checked_add(distance)?;
        name(u32::from_le_bytes(*hash), number);
        rest = behind;
    }
    Some(())
}

/// Reads a varint distance, seven bits per byte with the lowest first. Also returns the rest.
#[inline]
fn distance(bytes: &[u8]) -> Option<(u64, &[u8])> {
    // Nearly all distances fit one byte.
    if let [low, rest @ ..] = bytes
        && *low < 0x80
    {
        return Some((u64::from(*low), rest));
    }
    let mut distance = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * at);
        // The tenth byte contributes only the highest bit.
        if shifted >> (7 * at) != bits {
            return None;
        }
        distance |= shifted;
        if *byte < 0x80 {
            return Some((distance, &bytes[at + 1..]));
        }
    }
    None
}

fn part_key(key: u64, part: u8) -> Vec<u8> {
    [PART, &key.to_be_bytes(), &[part]].concat()
}

/// The query for a part of a segment.
pub fn part(user: &str, key: u64, part: u8) -> Query {
    Query::Get { table: Table::Private, actor: user.as_bytes().into(), sort: part_key(key, part).into() }
}

/// Removes segments whose entries all have numbers below this.
pub fn delete_below(batch: &mut Batch, user: &str, number: u64) {
    batch.delete_range(Table::Private, user.as_bytes(), &part_key(0, 0), &part_key(number, 0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::OpView;

    fn value(batch: &Batch) -> Vec<u8> {
        let Some(OpView::Put { value, .. }) = batch.iter().last() else { panic!("a row") };
        value.to_vec()
    }

    #[test]
    fn a_directory_reads_back() {
        let directory = Directory { until: 77, open: 3, closed: vec![5, u64::MAX - 1] };
        let mut batch = Batch::new();
        directory.put(&mut batch, "a@x");
        let row = value(&batch);
        assert_eq!(Directory::decode(&row), Some(directory));
        assert!(Directory::decode(&row[..row.len() - 1]).is_none() && Directory::decode(&[9; 13]).is_none());
    }

    #[test]
    fn a_part_names_what_was_added() {
        let peers = ["romeo@x", "nurse@x"].map(Peer::of);
        let mut part = Part::default();
        assert!(part.is_empty());
        for (at, number) in [(0, 1), (1, 2), (0, 300), (0, 1 << 40), (1, u64::MAX - 1)] {
            part.add(peers[at], number);
        }
        let mut batch = Batch::new();
        part.put(&mut batch, "a@x", 3, OPEN, 99);
        let row = value(&batch);
        assert_eq!(numbers(&row, peers[0]), Some(vec![1, 300, 1 << 40]));
        assert_eq!(numbers(&row, peers[1]), Some(vec![2, u64::MAX - 1]));
        assert_eq!(numbers(&row, Peer::of("nobody@x")), Some(vec![]));
        let (mut read, until) = Part::decode(&row).expect("a part");
        assert_eq!(until, 99);
        read.add(peers[0], u64::MAX);
        read.put(&mut batch, "a@x", 3, OPEN, 100);
        assert_eq!(numbers(&value(&batch), peers[0]), Some(vec![1, 300, 1 << 40, u64::MAX]), "it goes on");
        assert!(Part::decode(&row[..row.len() - 1]).is_none() && Part::decode(b"").is_none());
    }

    #[test]
    fn retention_removes_segments_that_have_gone_and_no_others() {
        let mut batch = Batch::new();
        delete_below(&mut batch, "a@x", 100);
        let Some(OpView::DeleteRange { from, until, .. }) = batch.iter().next() else { panic!("a range") };
        let goes = |key: &[u8]| from <= key && key < until;
        assert!(goes(&part_key(99, 15)) && goes(&part_key(0, 0)));
        assert!(!goes(&part_key(100, 0)) && !goes(&part_key(OPEN, 0)) && !goes(DIRECTORY));
    }
}

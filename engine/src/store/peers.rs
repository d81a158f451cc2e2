//! An index of a user's archive by peer, made lazily by whoever asks for the messages with one: rows of [`Table::Private`] that
//! clients do not see.
//!
//! The archive is cut into *segments* of [`SEGMENT_ENTRIES`] entries, the last one of which is open. A segment has [`PARTS`] rows,
//! its *parts*, each with the entries of those peers whose hash falls into it. A [`Directory`] names the segments and says up to
//! where the archive is indexed. Entries behind that are looked at one by one.
//!
//! Sort keys are the prefix and the number of a segment's last entry, so that retention removes one range of them; the open segment
//! stands last. What a part names need not be there any more.

use super::{Batch, Query, Table};
use crate::id;

pub(super) const DIRECTORY: &[u8] = b"\0peers";
pub(super) const PART: &[u8] = b"\0peers/";
const FORMAT: u8 = 1;

/// Rows of a segment.
pub const PARTS: usize = 16;

/// Entries of a segment: a part of it names some 256, in 2 KiB.
pub const SEGMENT_ENTRIES: u32 = 4_096;

/// Stands in the key of the open segment in the place of its last number.
pub const OPEN: u64 = u64::MAX;

/// What a peer is known by in the index: which part it is in, and its hash there. Others may share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The part.
    pub part: u8,
    hash: u32,
}

impl Peer {
    /// A peer's, by its bare JID.
    pub fn of(bare: &str) -> Peer {
        let hash = id::hash(bare.as_bytes());
        Peer { part: (hash >> 32) as u8 % PARTS as u8, hash: hash as u32 }
    }
}

/// Which segments there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// All entries up to this number are indexed.
    pub until: u64,
    /// Entries in the open segment.
    pub open: u32,
    /// Numbers of the last entries of the others, in their order.
    pub closed: Vec<u64>,
}

impl Directory {
    /// The question for it.
    pub fn query(user: &str) -> Query {
        Query::Get { table: Table::Private, actor: user.as_bytes().into(), sort: DIRECTORY.into() }
    }

    /// Asks for the row to be written.
    pub fn put(&self, batch: &mut Batch, user: &str) {
        let closed: Vec<u8> = self.closed.iter().flat_map(|last| last.to_le_bytes()).collect();
        let head: [&[u8]; 4] = [&[FORMAT], &self.until.to_le_bytes(), &self.open.to_le_bytes(), &closed];
        batch.put(Table::Private, user.as_bytes(), DIRECTORY, &head);
    }

    /// Reads the row; `None` if it is not one of a known form.
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

/// A part of a segment: its row as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    row: Vec<u8>,
    last: u64,
}

/// Bytes of a part's row before what it names: form, and up to where the segment goes.
const HEAD_BYTES: usize = 9;

impl Default for Part {
    fn default() -> Part {
        Part { row: [&[FORMAT][..], &[0; 8]].concat(), last: 0 }
    }
}

impl Part {
    /// Adds an entry of a peer, with a number above those before.
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

    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.row.len() == HEAD_BYTES
    }

    /// Asks for the row to be written: of the segment whose last entry has the number `key`, or of the open one; it goes up to
    /// `until`.
    pub fn put(&self, batch: &mut Batch, user: &str, part: usize, key: u64, until: u64) {
        let value: [&[u8]; 3] = [&[FORMAT], &until.to_le_bytes(), &self.row[HEAD_BYTES..]];
        batch.put(Table::Private, user.as_bytes(), &part_key(key, part as u8), &value);
    }

    /// Reads a row; also up to where its segment goes. `None` if it is damaged or of another form.
    pub fn decode(row: &[u8]) -> Option<(Part, u64)> {
        let until = u64::from_le_bytes(*row.strip_prefix(&[FORMAT])?.first_chunk()?);
        let mut last = 0;
        each_named(row, |_, number| last = number)?;
        Some((Part { row: row.to_vec(), last }, until))
    }
}

/// The numbers that a part's row names for a peer, in order; `None` if it is damaged or of another form.
pub fn numbers(row: &[u8], peer: Peer) -> Option<Vec<u64>> {
    let mut all = Vec::new();
    each_named(row, |hash, number| {
        if hash == peer.hash {
            all.push(number);
        }
    })?;
    Some(all)
}

/// Goes through what a part's row names: hashes and numbers.
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

/// Reads a distance, seven bits a byte with the lowest first; also what is behind it.
#[inline]
fn distance(bytes: &[u8]) -> Option<(u64, &[u8])> {
    // Nearly all of them are short.
    if let [low, rest @ ..] = bytes
        && *low < 0x80
    {
        return Some((u64::from(*low), rest));
    }
    let mut distance = 0u64;
    for (at, byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * at);
        // The tenth byte has the highest bit alone.
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

/// The question for a part of a segment.
pub fn part(user: &str, key: u64, part: u8) -> Query {
    Query::Get { table: Table::Private, actor: user.as_bytes().into(), sort: part_key(key, part).into() }
}

/// Asks for segments to go whose entries have all numbers below this.
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

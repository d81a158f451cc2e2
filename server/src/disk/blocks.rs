//! Reads one table file block by block, past any damage: an unreadable block is a hole, not an end.
//!
//! ```text
//! data blocks in key order, index blocks, top-level index, filter, facts about the table,
//! places of all these
//! ```
//!
//! Every block has a checksum of its head and one of its content. Where blocks begin is taken from
//! the index, as far as it can be read, and otherwise from the head of the previous block. It is
//! never guessed from content, because messages contain bytes that strangers choose, and must never
//! be decoded as rows. `lsm_tree` decodes what has been verified.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::iter::Peekable;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use lsm_tree::coding::Decode;
use lsm_tree::table::block::{BlockType, Header};
use lsm_tree::table::{Block, DataBlock, IndexBlock};
use lsm_tree::{CompressionType, InternalValue, SeqNo, Slice};

use super::listing::{Section, section, sections};

/// Maximum bytes at the end of a file that hold the places of its sections.
const TAIL_BYTES: u64 = 4096;

/// Maximum bytes of a block: a row's value stays far below.
const BLOCK_BYTES_MAX: usize = 64 << 20;

/// A part of a table that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hole {
    /// The file.
    pub(super) file: PathBuf,
    /// Where the part begins, bytes.
    pub(super) at: u64,
    /// Its length, bytes.
    pub(super) bytes: u64,
    /// Its rows follow this key; `None`: they may be the first of the table.
    pub(super) after: Option<Vec<u8>>,
    /// No row of it follows this key; `None`: they may be the last of the table.
    pub(super) last: Option<Vec<u8>>,
    /// The reason, in a few words.
    pub(super) what: String,
}

impl Hole {
    /// A file of which nothing can be read.
    pub(super) fn of_file(file: &Path, what: &str) -> Hole {
        Hole { file: file.to_owned(), at: 0, bytes: 0, after: None, last: None, what: what.to_owned() }
    }
}

/// Collects holes while rows are read.
#[derive(Clone, Debug, Default)]
pub(super) struct Holes(Rc<RefCell<Vec<Hole>>>);

impl Holes {
    pub(super) fn add(&self, hole: Hole) {
        self.0.borrow_mut().push(hole);
    }

    /// The holes found since the last call.
    pub(super) fn take(&self) -> Vec<Hole> {
        self.0.take()
    }
}

/// An expected block: its place, and its last key if the index names it.
struct Expected {
    at: Range<u64>,
    last: Option<Slice>,
}

/// A file of a table.
pub(super) struct TableFile {
    path: PathBuf,
    file: File,
    length: u64,
    /// The file's sections, if their places can be read.
    parts: Option<Vec<Section>>,
}

impl TableFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Why it cannot be read at all.
    pub(super) fn open(path: &Path) -> io::Result<TableFile> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let mut table = TableFile { path: path.to_owned(), file, length, parts: None };
        let from = length.saturating_sub(TAIL_BYTES);
        table.parts = sections(&table.bytes(from..length)?, usize::try_from(from).unwrap_or(usize::MAX));
        Ok(table)
    }

    /// The unreadable structure because of which the file cannot be opened as a table; `None` if
    /// all of it can be read.
    pub(super) fn disorder(&self) -> Option<&'static str> {
        if self.parts.is_none() {
            Some("its footer cannot be read")
        } else if self.part(b"meta", BlockType::Meta).is_none() {
            Some("its metadata, near the end, cannot be read")
        } else if self.part(b"tli", BlockType::Index).is_none() {
            Some("the beginning of its index cannot be read")
        } else {
            None
        }
    }

    fn place(&self, name: &[u8]) -> Option<Range<u64>> {
        section(self.parts.as_ref()?, name).map(|at| at.start as u64..at.end as u64)
    }

    fn part(&self, name: &[u8], kind: BlockType) -> Option<Block> {
        self.block(self.place(name)?).ok().filter(|block| block.header.block_type == kind)
    }

    fn fact(&self, name: &[u8]) -> Option<Slice> {
        let facts = DataBlock::new(self.part(b"meta", BlockType::Meta)?);
        facts.point_read(name, SeqNo::MAX).map(|fact| fact.value)
    }

    /// Its first key, if the table's facts can be read.
    pub(super) fn first_key(&self) -> Option<Slice> {
        self.fact(b"key#min")
    }

    /// Its last key, if the table's facts can be read.
    pub(super) fn last_key(&self) -> Option<Slice> {
        self.fact(b"key#max")
    }

    /// The highest sequence number of its rows, if the table's facts can be read.
    pub(super) fn newest(&self) -> Option<SeqNo> {
        self.fact(b"seqno#max").and_then(|number| Some(u64::from_le_bytes((*number).try_into().ok()?)))
    }

    /// Data blocks that the index names, in order: by the top-level index, or by one index block
    /// after the other.
    fn indexed(&self) -> Vec<Expected> {
        let top = self.part(b"tli", BlockType::Index).map(handles);
        let Some(parts) = self.place(b"index") else { return top.unwrap_or_default() };
        let places = top.map_or_else(|| self.chain(parts), |top| top.into_iter().map(|part| part.at).collect());
        let blocks = places.into_iter().filter_map(|at| self.block(at).ok());
        blocks.filter(|block| block.header.block_type == BlockType::Index).flat_map(handles).collect()
    }

    /// Places of the data blocks.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> Vec<Range<u64>> {
        self.indexed().into_iter().map(|block| block.at).collect()
    }

    /// Places of consecutive blocks.
    fn chain(&self, within: Range<u64>) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        let mut at = within.start;
        while at < within.end
            && let Ok(header) = self.header(at)
        {
            found.push(at..at + whole_bytes(&header));
            at += whole_bytes(&header);
        }
        found
    }

    /// Its rows from a key on, in key order, skipping holes, which are recorded.
    pub(super) fn rows(self, from: &[u8], holes: Holes) -> impl Iterator<Item = InternalValue> + use<> {
        let from = from.to_vec();
        let indexed = self.indexed();
        let passed = indexed.iter().take_while(|block| block.last.as_ref().is_some_and(|last| **last < *from)).last();
        let end = self.place(b"index").or_else(|| self.place(b"tli")).map(|at| at.start);
        let mut walk = Walk {
            at: passed.map_or(0, |block| block.at.end),
            last: passed.and_then(|block| block.last.clone()),
            indexed: indexed.into_iter().peekable(),
            end,
            table: self,
            open: None,
            holes,
        };
        let blocks = std::iter::from_fn(move || walk.next_block());
        blocks.flatten().filter(move |row| *row.key.user_key >= *from)
    }

    fn bytes(&self, at: Range<u64>) -> io::Result<Vec<u8>> {
        let length = usize::try_from(at.end - at.start).unwrap_or(usize::MAX);
        if length > BLOCK_BYTES_MAX || at.end > self.length {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before it"));
        }
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at.start)?;
        Ok(bytes)
    }

    fn header(&self, at: u64) -> Result<Header, String> {
        let bytes = self.bytes(at..at + Header::serialized_len() as u64).map_err(|error| error.to_string())?;
        Header::decode_from(&mut &bytes[..]).map_err(|_| "the header of a block is damaged".to_owned())
    }

    /// Reads and verifies the block at a place.
    fn block(&self, at: Range<u64>) -> Result<Block, String> {
        let header = self.header(at.start)?;
        if at.start + whole_bytes(&header) != at.end {
            return Err("a block has the wrong length".into());
        }
        let bytes = self.bytes(at).map_err(|error| error.to_string())?;
        Block::from_reader(&mut &bytes[..], CompressionType::None).map_err(|_| "a block is damaged".to_owned())
    }
}

/// Iterates over the data blocks.
struct Walk {
    table: TableFile,
    indexed: Peekable<std::vec::IntoIter<Expected>>,
    at: u64,
    /// The end of the data blocks, if known.
    end: Option<u64>,
    /// The last key passed.
    last: Option<Slice>,
    /// A hole whose end is not known yet.
    open: Option<Hole>,
    holes: Holes,
}

impl Walk {
    /// The rows of the next readable block.
    fn next_block(&mut self) -> Option<Vec<InternalValue>> {
        loop {
            while self.indexed.next_if(|block| block.at.start < self.at).is_some() {}
            let end = self.end.unwrap_or(self.table.length);
            let Some(expected) = self.next_place(end) else {
                self.close(None);
                return None;
            };
            let place = expected.at.clone();
            let read = self.table.block(place.clone()).and_then(|block| match block.header.block_type {
                BlockType::Data => Ok(block),
                _ => Err("a block of rows has the wrong type".to_owned()),
            });
            self.at = place.end;
            match read {
                Ok(block) => {
                    let rows = rows(block);
                    self.close(rows.first().map(|row| &*row.key.user_key));
                    self.last = rows.last().map(|row| row.key.user_key.clone()).or(self.last.take());
                    return Some(rows);
                }
                Err(what) => {
                    self.hole(place, expected.last.as_ref(), what);
                    self.last = expected.last.or(self.last.take());
                }
            }
        }
    }

    /// The expected place of the next block; records an unreadable range before it.
    fn next_place(&mut self, end: u64) -> Option<Expected> {
        while self.at < end {
            let known = self.indexed.peek().map_or(end, |block| block.at.start);
            if known == self.at
                && let Some(block) = self.indexed.next()
            {
                return Some(block);
            }
            // Only its own head describes this block.
            match self.table.header(self.at) {
                Ok(header) if header.block_type == BlockType::Data && self.at + whole_bytes(&header) <= known => {
                    return Some(Expected { at: self.at..self.at + whole_bytes(&header), last: None });
                }
                Ok(header) if header.block_type != BlockType::Data && self.end.is_none() => return None,
                Ok(_) => self.hole(self.at..known, None, "a block has the wrong length".into()),
                Err(what) => self.hole(self.at..known, None, what),
            }
            self.at = known;
        }
        if self.end.take().is_none() && self.at == self.table.length {
            // There may have been rows up to the missing index.
            self.at += 1;
            self.hole(self.table.length..self.table.length, None, "the file ends before its rows do".into());
        }
        None
    }

    fn hole(&mut self, at: Range<u64>, last: Option<&Slice>, what: String) {
        self.close(None);
        let after = self.last.as_ref().map(|key| key.to_vec());
        let (file, bytes) = (self.table.path.clone(), at.end - at.start);
        self.open = Some(Hole { file, at: at.start, bytes, after, last: last.map(|key| key.to_vec()), what });
    }

    /// Ends a hole, before rows from `next` on.
    fn close(&mut self, next: Option<&[u8]>) {
        if let Some(mut hole) = self.open.take() {
            hole.last = hole.last.or_else(|| next.map(<[u8]>::to_vec));
            self.holes.add(hole);
        }
    }
}

/// Bytes of a block including its head.
fn whole_bytes(header: &Header) -> u64 {
    Header::serialized_len() as u64 + u64::from(header.data_length)
}

/// The places that an index block names.
fn handles(block: Block) -> Vec<Expected> {
    let index = IndexBlock::new(block);
    let bytes = index.as_slice();
    let named = index.iter().map(|item| {
        let prefix = item.prefix.as_ref().map_or(&[][..], |at| &bytes[at.0..at.1]);
        let last = [prefix, &bytes[item.end_key.0..item.end_key.1]].concat();
        Expected { at: item.offset.0..item.offset.0 + u64::from(item.size), last: Some(last.into()) }
    });
    named.collect()
}

/// The rows of a block.
fn rows(block: Block) -> Vec<InternalValue> {
    let block = DataBlock::new(block);
    let bytes = block.as_slice();
    let row = |item: lsm_tree::table::data_block::DataBlockParsedItem| {
        let prefix = item.prefix.as_ref().map_or(&[][..], |at| &bytes[at.0..at.1]);
        let key = [prefix, &bytes[item.key.0..item.key.1]].concat();
        let value = item.value.as_ref().map_or(&[][..], |at| &bytes[at.0..at.1]);
        InternalValue::from_components(key, value, item.seqno, item.value_type)
    };
    block.iter().map(row).collect()
}

//! The rows of whole partitions in one file or stream, for another store: the format, and its
//! writer and reader.
//!
//! ```text
//! head     "THRONGPX", version u32, format of the rows u32, bytes of the label u32, the label,
//!          checksum u64
//! record   kind u8, bytes u32, content, checksum u64
//! ...
//! ```
//!
//! All integers are little endian. The partitions follow in the order of their numbers. Each has a
//! record that begins it (its number, u16), any number of records with rows (`group`: puts only),
//! and one that ends it (number of its rows, u64). The last record has the number of partitions
//! (u32). A checksum is XXH3 with the previous checksum as seed: so no record can be missing,
//! repeated, or taken from another file. The label is the caller's: it identifies the rows' owners.

use std::io::{self, Read, Write};
use std::path::Path;

use throng_engine::id::{PARTITIONS, partition};
use throng_engine::store::{Batch, OpView, Table, key};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::check::ValueCheck;
use super::format::FORMAT_VERSION;
use super::{DiskError, Engine, KeyRange, Visit, group};

const MAGIC: &[u8; 8] = b"THRONGPX";

/// Version of the format.
const VERSION: u32 = 1;

/// Bytes of the head before the label, and of a record before its content.
const HEAD_BYTES: usize = 20;
const RECORD_HEAD_BYTES: usize = 5;

/// Maximum bytes of a label.
const LABEL_BYTES_MAX: usize = 4096;

/// Bytes of rows at which a record ends.
const ROWS_BYTES: usize = 1 << 20;

const BEGIN: u8 = 1;
const ROWS: u8 = 2;
const END: u8 = 3;
const LAST: u8 = 4;

/// The content of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The caller's label: whose rows they are.
    pub label: String,
    /// Numbers of the partitions, in order.
    pub partitions: Vec<u16>,
    /// Rows.
    pub rows: u64,
    /// Bytes of actors, sort keys and values.
    pub bytes: u64,
    /// The last checksum, which identifies the export.
    pub(super) checksum: u64,
}

/// The ranges of flat keys that hold all rows of a partition, one per table. The store's own rows
/// are in none.
pub fn partition_ranges(partition: u16) -> Vec<KeyRange> {
    let tables = Table::ALL.into_iter().filter(|table| *table != Table::Meta);
    tables.map(|table| key::partition_range(table, partition)).collect()
}

/// Writes the rows of these partitions, each as of one moment, to `out`. Their numbers must be in
/// order. `progress` is given the rows so far.
///
/// # Errors
/// Those of reading the store, before the export is marked complete; those of `out`, under its
/// `name`.
pub fn export(
    engine: &dyn Engine,
    label: &str,
    partitions: &[u16],
    (name, out): (&Path, &mut dyn Write),
    progress: &mut dyn FnMut(u64),
) -> Result<Contents, DiskError> {
    assert!(label.len() <= LABEL_BYTES_MAX, "a label is a domain");
    assert!(partitions.is_sorted_by(|a, b| a < b), "each partition once, in order");
    let mut head = MAGIC.to_vec();
    for number in [VERSION, FORMAT_VERSION, label.len() as u32] {
        head.extend_from_slice(&number.to_le_bytes());
    }
    head.extend_from_slice(label.as_bytes());
    let seed = xxh3_64_with_seed(&head, 0);
    head.extend_from_slice(&seed.to_le_bytes());
    out.write_all(&head).map_err(DiskError::at(name))?;
    let mut found = Contents { label: label.to_owned(), partitions: partitions.to_vec(), ..Contents::default() };
    let mut records = Writer { out, seed, buffer: Vec::new() };
    for partition in partitions {
        records
            .write(BEGIN, |record| record.extend_from_slice(&partition.to_le_bytes()))
            .map_err(DiskError::at(name))?;
        let (mut rows, mut batch, mut failed) = (0_u64, Batch::new(), None);
        engine.scan_within(&partition_ranges(*partition), &mut |key, value| {
            let (table, actor, sort) = key::decode(key).expect("a row within a table");
            batch.put(table, actor, sort, &[value]);
            rows += 1;
            if (found.rows + rows).is_multiple_of(4096) {
                progress(found.rows + rows);
            }
            if batch.bytes() < ROWS_BYTES {
                return Visit::Continue(());
            }
            failed = records.rows(&mut batch, &mut found.bytes).err();
            if failed.is_some() { Visit::Break(()) } else { Visit::Continue(()) }
        })?;
        let done = failed.map_or(Ok(()), Err).and_then(|()| records.rows(&mut batch, &mut found.bytes));
        let done = done.and_then(|()| records.write(END, |record| record.extend_from_slice(&rows.to_le_bytes())));
        done.map_err(DiskError::at(name))?;
        found.rows += rows;
    }
    let count = (partitions.len() as u32).to_le_bytes();
    records.write(LAST, |record| record.extend_from_slice(&count)).map_err(DiskError::at(name))?;
    found.checksum = records.seed;
    progress(found.rows);
    Ok(found)
}

/// Writes records after a head.
struct Writer<'a> {
    out: &'a mut dyn Write,
    /// The checksum that seeds the next record's.
    seed: u64,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn rows(&mut self, batch: &mut Batch, bytes: &mut u64) -> io::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        *bytes += batch.bytes() as u64;
        self.write(ROWS, |record| group::encode(record, batch))?;
        batch.clear();
        Ok(())
    }

    fn write(&mut self, kind: u8, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.buffer.clear();
        self.buffer.extend_from_slice(&[kind, 0, 0, 0, 0]);
        fill(&mut self.buffer);
        let bytes = u32::try_from(self.buffer.len() - RECORD_HEAD_BYTES).expect("a record stays below 4 GiB");
        self.buffer[1..RECORD_HEAD_BYTES].copy_from_slice(&bytes.to_le_bytes());
        self.seed = xxh3_64_with_seed(&self.buffer, self.seed);
        self.buffer.extend_from_slice(&self.seed.to_le_bytes());
        self.out.write_all(&self.buffer)
    }
}

/// One part of an export.
#[derive(Debug)]
pub(super) enum Part {
    /// A partition begins.
    Begin,
    /// Rows of the partition that has begun.
    Rows(Batch),
    /// The partition is complete.
    End,
}

/// Reads an export, and trusts only what its checksums and numbers confirm.
pub(super) struct Reader<'a> {
    name: &'a Path,
    from: &'a mut dyn Read,
    /// The checksum that seeds the next record's.
    seed: u64,
    /// What has been read so far.
    found: Contents,
    /// Rows so far of the partition being read.
    begun: Option<u64>,
}

impl<'a> Reader<'a> {
    /// Reads the head.
    ///
    /// # Errors
    /// [`DiskError::BadExport`]; the file system's.
    pub(super) fn open(name: &'a Path, from: &'a mut dyn Read) -> Result<Reader<'a>, DiskError> {
        let mut reader = Reader { name, from, seed: 0, found: Contents::default(), begun: None };
        let mut head = reader.take(HEAD_BYTES)?;
        let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let (version, format, length) = (number(8), number(12), number(16) as usize);
        if !head.starts_with(MAGIC) {
            return Err(reader.bad("it has no export header"));
        }
        if version != VERSION {
            return Err(reader.bad(&format!("it has version {version}, and this program supports version {VERSION}")));
        }
        if format != FORMAT_VERSION {
            let what = format!(
                "its rows have format {format}, and this program uses format {FORMAT_VERSION}: \
                 export them with a version of that format"
            );
            return Err(reader.bad(&what));
        }
        if length > LABEL_BYTES_MAX {
            return Err(reader.bad("its header is damaged"));
        }
        head.extend(reader.take(length)?);
        let checksum = reader.take(8)?;
        let seed = xxh3_64_with_seed(&head, 0);
        if checksum != seed.to_le_bytes() {
            return Err(reader.bad("its header is damaged"));
        }
        reader.found.label =
            String::from_utf8(head.split_off(HEAD_BYTES)).map_err(|_| reader.bad("its label is not text"))?;
        reader.seed = seed;
        Ok(reader)
    }

    /// The next part; `None` after the last.
    ///
    /// # Errors
    /// As [`Reader::open`].
    pub(super) fn next(&mut self) -> Result<Option<Part>, DiskError> {
        let head = self.take(RECORD_HEAD_BYTES)?;
        let length = u32::from_le_bytes(head[1..].try_into().expect("4 bytes")) as usize;
        let record = [head, self.take(length)?].concat();
        let checksum = self.take(8)?;
        self.seed = xxh3_64_with_seed(&record, self.seed);
        if checksum != self.seed.to_le_bytes() {
            return Err(self.bad("part of it is damaged, missing or foreign"));
        }
        let (kind, held) = (record[0], &record[RECORD_HEAD_BYTES..]);
        match (kind, self.begun) {
            (BEGIN, None) => self.begin(held).map(Some),
            (ROWS, Some(rows)) => self.rows(rows, held).map(Some),
            (END, Some(rows)) if held == rows.to_le_bytes() => {
                self.begun = None;
                Ok(Some(Part::End))
            }
            (LAST, None) if held == (self.found.partitions.len() as u32).to_le_bytes() => {
                let mut more = [0];
                self.found.checksum = self.seed;
                match self.from.read(&mut more).map_err(DiskError::at(self.name))? {
                    0 => Ok(None),
                    _ => Err(self.bad("data follows its end")),
                }
            }
            _ => Err(self.bad("its parts are not consecutive")),
        }
    }

    /// What has been read.
    pub(super) fn found(&self) -> &Contents {
        &self.found
    }

    fn begin(&mut self, held: &[u8]) -> Result<Part, DiskError> {
        let number = held.try_into().map(u16::from_le_bytes).ok().filter(|number| *number < PARTITIONS);
        let number = number.ok_or_else(|| self.bad("a partition has no number"))?;
        if self.found.partitions.last().is_some_and(|last| *last >= number) {
            return Err(self.bad("its partitions are not in order"));
        }
        self.found.partitions.push(number);
        self.begun = Some(0);
        Ok(Part::Begin)
    }

    fn rows(&mut self, before: u64, held: &[u8]) -> Result<Part, DiskError> {
        let own = self.found.partitions.last().copied();
        let mut batch = Batch::new();
        for placed in group::operations(held) {
            match placed.map(|placed| placed.op) {
                Some(OpView::Put { table, actor, sort, value })
                    if table != Table::Meta && !actor.is_empty() && Some(partition(actor)) == own =>
                {
                    batch.put(table, actor, sort, &[value]);
                }
                _ => return Err(self.bad("it contains data that is not a row of its partition")),
            }
        }
        self.begun = Some(before + batch.len() as u64);
        self.found.rows += batch.len() as u64;
        self.found.bytes += batch.bytes() as u64;
        Ok(Part::Rows(batch))
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>, DiskError> {
        let mut bytes = Vec::new();
        // Memory grows only with bytes actually read: a length may be damaged.
        self.from.take(length as u64).read_to_end(&mut bytes).map_err(DiskError::at(self.name))?;
        if bytes.len() < length { Err(self.bad("it is truncated")) } else { Ok(bytes) }
    }

    fn bad(&self, what: &str) -> DiskError {
        DiskError::BadExport(format!("{} is not a complete export of partitions: {what}", self.name.display()))
    }
}

/// Reads an export to its end, and checks the content of each row. `progress` is given the rows so
/// far.
///
/// # Errors
/// [`DiskError::BadExport`]; the file system's.
pub fn verify(
    name: &Path,
    from: &mut dyn Read,
    value: ValueCheck<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Contents, DiskError> {
    let mut reader = Reader::open(name, from)?;
    while let Some(part) = reader.next()? {
        let Part::Rows(batch) = part else { continue };
        for op in batch.iter() {
            let OpView::Put { table, actor, sort, value: row } = op else { unreachable!("only rows are read") };
            if let Err(what) = value(table, actor, sort, row) {
                return Err(reader.bad(&format!("{}: {what}", String::from_utf8_lossy(actor))));
            }
        }
        progress(reader.found().rows);
    }
    Ok(reader.found)
}

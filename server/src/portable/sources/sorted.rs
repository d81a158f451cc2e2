//! Sorts records of any number in a bounded amount of memory. Dumps list table by table; an import
//! goes user by user.
//!
//! Records fill a run in memory, which is sorted and appended to a temporary file once it is large.
//! The runs are merged at the end, a bounded number at a time, with one record in memory. A dump that
//! fits in one run uses no file. The files, at most two, are in `TMPDIR`, else in `/var/tmp`; they have
//! mode 0600 and no name, so they end with the process.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a run in memory.
pub(super) const RUN_BYTES: usize = 32 << 20;

/// Bytes that are read at once of each run.
const READ_BYTES: usize = 64 << 10;

/// Most runs that are merged at once.
const RUNS_MAX: usize = 64;

/// A record: its key, the line that it comes from, and its fields. Records with the same key stay in
/// the order in which they were added.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Record {
    pub(super) key: Vec<u8>,
    pub(super) line: u64,
    pub(super) fields: Vec<Vec<u8>>,
}

impl Record {
    fn bytes(&self) -> usize {
        self.fields.iter().map(|field| field.len() + 32).sum::<usize>() + self.key.len() + 96
    }

    fn write(&self, out: &mut impl Write) -> io::Result<u64> {
        let mut bytes = 12;
        out.write_all(&self.line.to_le_bytes())?;
        out.write_all(&(self.fields.len() as u32).to_le_bytes())?;
        for part in std::iter::once(&self.key).chain(&self.fields) {
            out.write_all(&(part.len() as u32).to_le_bytes())?;
            out.write_all(part)?;
            bytes += 4 + part.len() as u64;
        }
        Ok(bytes)
    }
}

/// Takes records.
pub(super) struct Sorter {
    run_bytes: usize,
    run: Vec<Record>,
    bytes: usize,
    file: Option<Arc<File>>,
    /// Where each run ends in the file.
    ends: Vec<u64>,
}

impl Sorter {
    /// A sorter with so many bytes of a run in memory.
    pub(super) fn new(run_bytes: usize) -> Sorter {
        Sorter { run_bytes, run: Vec::new(), bytes: 0, file: None, ends: Vec::new() }
    }

    /// Adds a record.
    pub(super) fn add(&mut self, record: Record) -> io::Result<()> {
        self.bytes += record.bytes();
        self.run.push(record);
        if self.bytes < self.run_bytes { Ok(()) } else { self.spill() }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.run.sort_by(|one, other| one.key.cmp(&other.key));
        if self.file.is_none() {
            self.file = Some(Arc::new(unnamed()?));
        }
        let mut end = self.ends.last().copied().unwrap_or(0);
        // Runs are only appended.
        let mut out = BufWriter::with_capacity(1 << 20, &**self.file.as_ref().expect("just made"));
        for record in self.run.drain(..) {
            end += record.write(&mut out)?;
        }
        out.flush()?;
        self.ends.push(end);
        self.bytes = 0;
        Ok(())
    }

    /// All records in the order of their keys.
    pub(super) fn sorted(mut self) -> io::Result<Sorted> {
        while self.ends.len() > RUNS_MAX {
            self.merge()?;
        }
        self.run.sort_by(|one, other| one.key.cmp(&other.key));
        Sorted::of(self.runs(), self.run)
    }

    /// Readers of the runs in the file.
    fn runs(&self) -> Vec<Run> {
        let Some(file) = &self.file else { return Vec::new() };
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(start, end)| Run::new(file.clone(), *start, *end)).collect()
    }

    /// Merges the runs, [`RUNS_MAX`] at a time, into another file.
    fn merge(&mut self) -> io::Result<()> {
        let into = Arc::new(unnamed()?);
        let (mut out, mut end, mut ends) = (BufWriter::with_capacity(1 << 20, &*into), 0, Vec::new());
        let mut runs = self.runs().into_iter();
        while runs.len() > 0 {
            let mut sorted = Sorted::of(runs.by_ref().take(RUNS_MAX).collect(), Vec::new())?;
            while let Some(record) = sorted.next()? {
                end += record.write(&mut out)?;
            }
            ends.push(end);
        }
        out.flush()?;
        drop(out);
        (self.file, self.ends) = (Some(into), ends);
        Ok(())
    }
}

/// A file that nobody can open.
fn unnamed() -> io::Result<File> {
    let folder = std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
    for number in 0..1_000 {
        let path = folder.join(format!("throng-import-{}-{number}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io::Error::other(format!("{}: {error}; set TMPDIR", path.display()))),
            Ok(file) => return remove_file(&path).map(|()| file),
        }
    }
    Err(io::Error::other(format!("{} is full of files of imports; remove them", folder.display())))
}

/// A part of a file.
struct Section {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Section {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(into.len());
        let read = self.file.read_at(&mut into[..most], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A run in a file, or the last one, which is in memory. Of the former only the key of the next record
/// is in memory.
enum Run {
    File { reader: BufReader<Section>, line: u64, fields: u32 },
    Memory(std::vec::IntoIter<Record>, Record),
}

impl Run {
    fn new(file: Arc<File>, at: u64, end: u64) -> Run {
        Run::File { reader: BufReader::with_capacity(READ_BYTES, Section { file, at, end }), line: 0, fields: 0 }
    }

    /// The key of the next record; `None` at the end.
    fn key(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self {
            Run::Memory(rest, next) => Ok(rest.next().map(|mut record| {
                let key = std::mem::take(&mut record.key);
                *next = record;
                key
            })),
            Run::File { reader, line, fields } => {
                if reader.fill_buf()?.is_empty() {
                    return Ok(None);
                }
                let mut bytes = [0; 8];
                reader.read_exact(&mut bytes)?;
                *line = u64::from_le_bytes(bytes);
                *fields = number(reader)?;
                part(reader).map(Some)
            }
        }
    }

    /// The record with that key.
    fn record(&mut self, key: Vec<u8>) -> io::Result<Record> {
        match self {
            Run::Memory(_, next) => Ok(Record { key, ..std::mem::take(next) }),
            Run::File { reader, line, fields } => {
                let fields = (0..*fields).map(|_| part(reader)).collect::<io::Result<_>>()?;
                Ok(Record { key, line: *line, fields })
            }
        }
    }
}

fn number(reader: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    reader.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn part(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut part = vec![0; number(reader)? as usize];
    reader.read_exact(&mut part)?;
    Ok(part)
}

/// Records in order.
pub(super) struct Sorted {
    runs: Vec<Run>,
    /// The key of the next record of each run.
    heap: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
}

impl Sorted {
    /// Merges runs with a last one, which is sorted.
    fn of(mut runs: Vec<Run>, last: Vec<Record>) -> io::Result<Sorted> {
        runs.push(Run::Memory(last.into_iter(), Record::default()));
        let mut sorted = Sorted { heap: BinaryHeap::with_capacity(runs.len()), runs };
        (0..sorted.runs.len()).try_for_each(|run| sorted.refill(run))?;
        Ok(sorted)
    }

    fn refill(&mut self, run: usize) -> io::Result<()> {
        let key = self.runs[run].key()?;
        self.heap.extend(key.map(|key| Reverse((key, run))));
        Ok(())
    }

    /// The next record.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        let Some(Reverse((key, run))) = self.heap.pop() else { return Ok(None) };
        let record = self.runs[run].record(key)?;
        self.refill(run)?;
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sorted_over_runs_and_keep_their_order() {
        // A byte: a run for each record, which are more than are merged at once.
        for run_bytes in [1, 700, 20_000, RUN_BYTES] {
            let mut sorter = Sorter::new(run_bytes);
            let mut all = Vec::new();
            for number in 0..500_u64 {
                let key = format!("{:03}", number.wrapping_mul(7_919) % 37).into_bytes();
                let fields = (0..number % 4).map(|field| vec![field as u8; (number * field) as usize]).collect();
                let record = Record { key, line: number, fields };
                all.push(record.clone());
                sorter.add(record).expect("taken");
            }
            all.sort_by(|one, other| one.key.cmp(&other.key));
            assert_eq!(sorter.file.is_some(), run_bytes < RUN_BYTES);
            let mut sorted = sorter.sorted().expect("sorted");
            // With the last one, which is in memory.
            assert!(sorted.runs.len() <= RUNS_MAX + 1);
            assert_eq!(sorted.runs.len() > 1, run_bytes < RUN_BYTES);
            for record in all {
                assert_eq!(sorted.next().expect("read"), Some(record));
            }
            assert_eq!(sorted.next().expect("read"), None);
        }
    }
}

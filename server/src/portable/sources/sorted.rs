//! Sorts records of any number in a bounded amount of memory. Dumps list table by table; an import
//! goes user by user.
//!
//! Records fill a run in memory, which is sorted and appended to a temporary file once it is large.
//! The runs are merged at the end. A dump that fits in one run uses no file. The file is in `TMPDIR`,
//! else in `/var/tmp`; it has mode 0600 and no name, so it ends with the process.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{File, OpenOptions, remove_file};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

/// Bytes of a run in memory.
pub(super) const RUN_BYTES: usize = 32 << 20;

/// Bytes that are read at once of each run.
const READ_BYTES: usize = 64 << 10;

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
    file: Option<File>,
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
            self.file = Some(unnamed()?);
        }
        let mut end = self.ends.last().copied().unwrap_or(0);
        // Runs are only appended.
        let mut out = BufWriter::with_capacity(1 << 20, self.file.as_ref().expect("just made"));
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
        let mut starts = 0;
        let mut runs: Vec<Run> = Vec::new();
        for end in &self.ends {
            runs.push(Run { at: starts, end: *end, buffer: Vec::new(), taken: 0 });
            starts = *end;
        }
        self.run.sort_by(|one, other| one.key.cmp(&other.key));
        let mut sorted = Sorted { file: self.file, runs, rest: self.run.into_iter(), heap: BinaryHeap::new() };
        (0..=sorted.runs.len()).try_for_each(|run| sorted.refill(run))?;
        Ok(sorted)
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

struct Run {
    at: u64,
    end: u64,
    buffer: Vec<u8>,
    taken: usize,
}

impl Run {
    fn take(&mut self, file: &File, bytes: usize) -> io::Result<Vec<u8>> {
        if self.buffer.len() - self.taken < bytes {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let had = self.buffer.len();
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let more = left.min(READ_BYTES.max(bytes - had));
            self.buffer.resize(had + more, 0);
            file.read_exact_at(&mut self.buffer[had..], self.at)?;
            self.at += more as u64;
        }
        let taken = self.buffer.get(self.taken..self.taken + bytes).ok_or(io::ErrorKind::UnexpectedEof)?.to_vec();
        self.taken += bytes;
        Ok(taken)
    }

    fn number(&mut self, file: &File) -> io::Result<usize> {
        let bytes = self.take(file, 4)?;
        Ok(u32::from_le_bytes(bytes.try_into().expect("four")) as usize)
    }

    fn next(&mut self, file: &File) -> io::Result<Option<Record>> {
        if self.at == self.end && self.taken == self.buffer.len() {
            return Ok(None);
        }
        let line = u64::from_le_bytes(self.take(file, 8)?.try_into().expect("eight"));
        let fields = self.number(file)?;
        let mut part = || -> io::Result<Vec<u8>> {
            let bytes = self.number(file)?;
            self.take(file, bytes)
        };
        let key = part()?;
        let fields = (0..fields).map(|_| part()).collect::<io::Result<_>>()?;
        Ok(Some(Record { key, line, fields }))
    }
}

/// Records in order.
pub(super) struct Sorted {
    file: Option<File>,
    runs: Vec<Run>,
    /// The last run, which is in memory.
    rest: std::vec::IntoIter<Record>,
    /// The next record of each run.
    heap: BinaryHeap<Reverse<Next>>,
}

struct Next(Record, usize);

impl Ord for Next {
    fn cmp(&self, other: &Next) -> std::cmp::Ordering {
        (&self.0.key, self.1).cmp(&(&other.0.key, other.1))
    }
}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Next) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next {
    fn eq(&self, other: &Next) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Next {}

impl Sorted {
    fn refill(&mut self, run: usize) -> io::Result<()> {
        let next = match (self.runs.get_mut(run), &self.file) {
            (Some(run), Some(file)) => run.next(file)?,
            _ => self.rest.next(),
        };
        self.heap.extend(next.map(|record| Reverse(Next(record, run))));
        Ok(())
    }

    /// The next record.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        let Some(Reverse(Next(record, run))) = self.heap.pop() else { return Ok(None) };
        self.refill(run)?;
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_sorted_over_runs_and_keep_their_order() {
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
            let mut sorted = sorter.sorted().expect("sorted");
            assert_eq!(sorted.file.is_some(), run_bytes < RUN_BYTES);
            for record in all {
                assert_eq!(sorted.next().expect("read"), Some(record));
            }
            assert_eq!(sorted.next().expect("read"), None);
        }
    }
}

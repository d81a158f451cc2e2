//! The journal: every group is appended to its newest segment and synced before it is acknowledged.
//!
//! A segment holds the groups of one memory table. When the memory table has been written to
//! tables, its segment is retired: its file is kept as a spare and becomes the next segment,
//! because overwriting allocated blocks makes a sync a third cheaper than growing the file. So the
//! journal has a few files of a buffer's size, and an opening reads no more than these.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use throng_engine::store::Batch;

use super::group;
use super::segment::{self, GROUP_HEAD_BYTES, HEAD_BYTES, Head};
use super::{DiskError, Finding};
use crate::entropy::Entropy;
use crate::waits::{self, Place};

/// A file for reuse.
pub(super) const SPARE: &str = "spare";
/// The future next segment.
const NEXT: &str = "next";
const ENDING: &str = "journal";

/// The end of the journal, where groups are appended.
#[derive(Debug)]
pub(super) struct Journal {
    dir: PathBuf,
    random: fn() -> io::Result<u64>,
    file: File,
    head: Head,
    /// The offset of the next group.
    end: u64,
    /// Its sequence number.
    next: u64,
    /// The group being written.
    buffer: Vec<u8>,
}

/// What is already in tables, and not needed in the journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct InTables {
    /// Number of the newest segment whose rows are all in tables; zero if there is none.
    pub(super) newest: u64,
    /// Sequence number of the first group after it. `None` if the tables were written by a program
    /// that did not record it.
    pub(super) next_group: Option<u64>,
}

/// What precedes a segment that is needed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Before {
    /// Tables, up to the rows of the segment with this number.
    Tables(u64),
    /// The segment with this number.
    Segment(u64),
}

/// The error for a segment whose groups do not follow what precedes it: the missing or wrong file,
/// and why.
pub(super) fn gap(dir: &Path, before: Before, due: u64, head: Head) -> Option<Finding> {
    let (Before::Tables(number) | Before::Segment(number)) = before;
    let groups = || format!("acknowledged groups {due} to {}", head.first - 1);
    let (number, missing, what) = match before {
        _ if head.first == due => return None,
        _ if head.first < due => (head.number, false, format!("it begins with group {} instead of {due}", head.first)),
        _ if head.number > number + 1 => (number + 1, true, format!("it is missing, with the {}", groups())),
        Before::Segment(_) => (number, false, format!("it ends before the {}", groups())),
        Before::Tables(_) => (head.number, false, format!("nothing holds the {} before it", groups())),
    };
    Some(Finding { missing, ..Finding::new(path(dir, number), &format!("{what}; {ADVICE}")) })
}

/// Advice for an operator about missing groups.
pub(super) const ADVICE: &str = "if this copy was made while the server was running, use `throng store backup` instead";

/// A segment that has been read back.
#[derive(Debug)]
pub(super) struct Replayed {
    /// Its number.
    pub(super) number: u64,
    bytes: Vec<u8>,
    segment: segment::Segment,
}

impl Replayed {
    /// Sequence number of its first group.
    pub(super) fn first(&self) -> u64 {
        self.segment.head.first
    }

    /// The groups in order, as [`Journal::append`] wrote them.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[u8]> {
        self.segment.groups.iter().map(|at| &self.bytes[at.clone()])
    }
}

impl Journal {
    /// Opens the journal in a folder, or creates it. Segments whose rows are in tables are retired;
    /// the others are passed to `replay` in order. The last of them is continued.
    ///
    /// # Errors
    /// [`DiskError::Corrupt`] if an acknowledged group is missing or unreadable; nothing is changed
    /// then. Otherwise the file system's, and those of `replay`.
    pub(super) fn open(
        dir: &Path,
        tables: InTables,
        random: fn() -> io::Result<u64>,
        replay: &mut dyn FnMut(Replayed) -> Result<(), DiskError>,
    ) -> Result<Journal, DiskError> {
        fs::create_dir_all(dir).map_err(DiskError::at(dir))?;
        let numbers = numbers(dir)?;
        let mut newest = None;
        // Groups are numbered from 1 on by every program.
        let mut next = tables.next_group.or((tables.newest == 0).then_some(1));
        let (done, needed) = numbers.split_at(numbers.partition_point(|number| *number <= tables.newest));
        let mut empty = Vec::new();
        for &number in needed {
            let path = path(dir, number);
            let bytes = fs::read(&path).map_err(DiskError::at(&path))?;
            let corrupt = |at: usize, what: &str| {
                DiskError::Corrupt(format!("the journal {} is broken at byte {at}: {what}", path.display()))
            };
            let found = segment::read(&bytes, number).map_err(|damage| corrupt(damage.at, damage.what))?;
            let Some(segment) = found else {
                // Programs that record no number in tables also named segments before their heads
                // were durable.
                if tables.next_group.is_some() {
                    return Err(corrupt(0, &format!("its header is missing; {ADVICE}")));
                }
                empty.push(number);
                continue;
            };
            let before =
                newest.map_or(Before::Tables(tables.newest), |(head, ..): (Head, _, _)| Before::Segment(head.number));
            if let Some(gap) = next.and_then(|due| gap(dir, before, due, segment.head)) {
                return Err(DiskError::Corrupt(gap.to_string()));
            }
            next = Some(segment.next());
            newest = Some((segment.head, segment.end as u64, segment.torn));
            replay(Replayed { number, bytes, segment })?;
        }
        if let (None, Some(due)) = (newest, tables.next_group) {
            return Err(DiskError::Corrupt(format!(
                "acknowledged groups from {due} on are missing: {} should follow the groups in \
                 tables; {ADVICE}",
                path(dir, tables.newest + 1).display()
            )));
        }
        for &number in done.iter().chain(&empty) {
            retire(dir, number)?;
        }
        let in_tables = tables.newest;
        let next = next.unwrap_or(1);
        let last = numbers.last().copied().unwrap_or(0).max(in_tables);
        match newest {
            Some((head, end, torn)) if head.number == last => {
                let path = path(dir, last);
                let file = OpenOptions::new().write(true).open(&path).map_err(DiskError::at(&path))?;
                if torn {
                    tracing::warn!(at = end, "the journal ends with a group that was never acknowledged; skipping it");
                    file.set_len(end).map_err(DiskError::at(&path))?;
                }
                // The last group may only be in the kernel's memory: it is visible from now on, and
                // must not be lost.
                file.sync_all().map_err(DiskError::at(&path))?;
                let dir = dir.to_owned();
                Ok(Journal { dir, random, file, head, end, next, buffer: Vec::new() })
            }
            _ => {
                // A new number, so that its content is identifiable.
                let (file, head) = begin(dir, last + 1, next, random)?;
                let (dir, end) = (dir.to_owned(), HEAD_BYTES as u64);
                Ok(Journal { dir, random, file, head, end, next, buffer: Vec::new() })
            }
        }
    }

    /// Creates the journal of a store whose tables hold memory table `newest` and no group of any
    /// journal.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn create(dir: &Path, newest: u64, random: fn() -> io::Result<u64>) -> Result<(), DiskError> {
        fs::create_dir_all(dir).map_err(DiskError::at(dir))?;
        begin(dir, newest + 1, 1, random).map(drop)
    }

    /// Number of the segment being written.
    pub(super) fn number(&self) -> u64 {
        self.head.number
    }

    /// Sequence number of the next group.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Sequence number of the first group of the segment being written.
    pub(super) fn first(&self) -> u64 {
        self.head.first
    }

    /// Writes the batches as one group and syncs it.
    ///
    /// # Errors
    /// [`DiskError::OutOfSpace`] if there was no space: nothing has changed, and the call may be
    /// repeated. Otherwise the file system's, after which the journal must not be written to any
    /// more.
    pub(super) fn append(&mut self, batches: &[Batch]) -> Result<(), DiskError> {
        self.buffer.clear();
        // An earlier group may have been much larger than most.
        self.buffer.shrink_to(BUFFER_BYTES_MAX);
        self.buffer.resize(GROUP_HEAD_BYTES, 0);
        for batch in batches {
            group::encode(&mut self.buffer, batch);
        }
        segment::seal(&mut self.buffer, self.head.salt, self.next);
        let written = write(&self.file, &self.buffer, self.end).and_then(|()| sync(&self.file));
        if let Err(error) = written {
            // A partial group is worthless; without it, its space is available to the next attempt.
            let _ = self.file.set_len(self.end);
            return Err(DiskError::at(&path(&self.dir, self.head.number))(error));
        }
        self.end += self.buffer.len() as u64;
        self.next += 1;
        Ok(())
    }

    /// Operations (`group`) of the group that was appended last, without a pause since.
    pub(super) fn last(&self) -> &[u8] {
        &self.buffer[GROUP_HEAD_BYTES..]
    }

    /// Begins the next segment. The previous one is complete: [`retire`] it when its rows are in
    /// tables.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub(super) fn rotate(&mut self) -> Result<(), DiskError> {
        let (file, head) = begin(&self.dir, self.head.number + 1, self.next, self.random)?;
        (self.file, self.head, self.end) = (file, head, HEAD_BYTES as u64);
        Ok(())
    }

    /// Gives memory back.
    pub(super) fn rest(&mut self) {
        self.buffer = Vec::new();
    }
}

/// An unpredictable number.
///
/// # Errors
/// The system's.
pub(super) fn random() -> io::Result<u64> {
    Ok(u64::from_le_bytes(Entropy::open()?.fresh()?))
}

fn write(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    let _at = waits::at(Place::JournalWrite);
    file.write_all_at(bytes, at)
}

fn sync(file: &File) -> io::Result<()> {
    let _at = waits::at(Place::JournalSync);
    #[cfg(debug_assertions)]
    crate::plant::before_sync();
    file.sync_data()
}

/// Maximum memory kept from one group to the next, bytes.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Creates a segment. Head and name are durable on return, the head before the name: a segment with
/// a name and without a head has lost it.
fn begin(dir: &Path, number: u64, first: u64, random: fn() -> io::Result<u64>) -> Result<(File, Head), DiskError> {
    let path = path(dir, number);
    let head = Head { number, salt: random().map_err(DiskError::at(&path))?, first };
    let make = || -> io::Result<File> {
        // Under a unique name: another thread may retire a segment meanwhile, which replaces the
        // spare one.
        let next = dir.join(NEXT);
        match fs::rename(dir.join(SPARE), &next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&next)?;
        file.write_all_at(&head.encode(), 0)?;
        let _at = waits::at(Place::SegmentSync);
        file.sync_data()?;
        fs::rename(&next, &path)?;
        File::open(dir)?.sync_all()?;
        Ok(file)
    };
    Ok((make().map_err(DiskError::at(&path))?, head))
}

/// Removes a segment whose rows are in tables; its file becomes the spare. The removal of its name
/// is durable on return.
///
/// # Errors
/// The file system's.
pub(super) fn retire(dir: &Path, number: u64) -> Result<(), DiskError> {
    let path = path(dir, number);
    fs::rename(&path, dir.join(SPARE)).map_err(DiskError::at(&path))?;
    let _at = waits::at(Place::SegmentSync);
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(DiskError::at(dir))
}

/// Bytes of all files.
///
/// # Errors
/// The file system's.
pub(super) fn disk_bytes(dir: &Path) -> Result<u64, DiskError> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(DiskError::at(dir))? {
        // A file that was renamed meanwhile is counted the next time.
        bytes += entry.and_then(|entry| entry.metadata()).map_or(0, |file| file.len());
    }
    Ok(bytes)
}

pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}.{ENDING}"))
}

/// Numbers of the segments, in order.
pub(super) fn numbers(dir: &Path) -> Result<Vec<u64>, DiskError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(DiskError::at(dir))? {
        let path = entry.map_err(DiskError::at(dir))?.path();
        if path.extension().is_some_and(|end| end == ENDING) {
            found.extend(path.file_stem().and_then(|name| name.to_str()?.parse::<u64>().ok()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

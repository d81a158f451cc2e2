//! The journal, as a continuous backup reads it: which groups are durable, which ones are still
//! needed, and their operations.
//!
//! A segment whose rows are in tables is normally reused. While a backup still needs some of its
//! groups, it is kept under another name instead (`NUMBER.kept`), until `Shipping::shipped` has
//! passed it. The committer's thread only publishes a number; everything else is done by the
//! thread of the backup and by the one that writes tables.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::journal::{self, SPARE};
use super::segment::{GROUP_HEAD_BYTES, HEAD_BYTES, Head, group_at};
use super::{DiskError, group};

/// Ending of the name of a segment that is only needed by the backup.
const KEPT: &str = "kept";

/// How far the journal is durable, and how far it is in the backup. Groups are named by their
/// sequence numbers.
#[derive(Debug)]
pub struct Shipping {
    /// The group after the last durable one. Written by the committer's thread only.
    synced: AtomicU64,
    /// The group after the last one in the backup. Written by the backup's thread only.
    shipped: AtomicU64,
}

impl Shipping {
    /// For an engine that will be opened with it: everything is needed until the backup says
    /// otherwise.
    pub fn new() -> Arc<Shipping> {
        Arc::new(Shipping { synced: AtomicU64::new(0), shipped: AtomicU64::new(0) })
    }

    /// The group after the last durable one.
    pub fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }

    /// All groups before this one are durable. Called before readers of the store see their rows.
    pub(super) fn set_synced(&self, next: u64) {
        self.synced.store(next, Ordering::Release);
    }

    /// Groups before this one are not needed any more.
    pub fn set_shipped(&self, next: u64) {
        self.shipped.store(next, Ordering::Release);
    }

    /// Whether the backup needs a segment that ends before the group `end`.
    pub fn needs(&self, end: u64) -> bool {
        self.shipped.load(Ordering::Acquire) < end
    }
}

/// Keeps a segment whose rows are in tables. Its new name is durable on return.
///
/// # Errors
/// The file system's.
pub(super) fn keep(dir: &Path, number: u64) -> Result<(), DiskError> {
    let path = journal::path(dir, number);
    fs::rename(&path, kept(dir, number)).map_err(DiskError::at(&path))?;
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(DiskError::at(dir))
}

/// Before the journal is opened: keeps the segments up to `newest`, whose rows are in tables.
///
/// # Errors
/// The file system's.
pub(super) fn keep_all(dir: &Path, newest: u64) -> Result<(), DiskError> {
    if dir.exists() {
        for number in journal::numbers(dir)?.into_iter().filter(|number| *number <= newest) {
            keep(dir, number)?;
        }
    }
    Ok(())
}

fn kept(dir: &Path, number: u64) -> PathBuf {
    journal::path(dir, number).with_extension(KEPT)
}

/// Numbers and sizes of the kept segments, in order.
fn all_kept(dir: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(KEPT)?.strip_suffix('.')?.parse().ok());
        if let (Some(number), Ok(about)) = (number, entry.metadata()) {
            found.push((number, about.len()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Bytes of the segments that are kept for the backup alone.
///
/// # Errors
/// The file system's.
pub fn kept_bytes(dir: &Path) -> io::Result<u64> {
    Ok(all_kept(dir)?.into_iter().map(|(_, bytes)| bytes).sum())
}

/// Removes all kept segments: the backup has to begin anew.
///
/// # Errors
/// The file system's.
pub fn drop_kept(dir: &Path) -> io::Result<()> {
    all_kept(dir)?.into_iter().try_for_each(|(number, _)| fs::remove_file(kept(dir, number)))
}

/// Gives back the kept segments that end before the group `shipped`. One of them becomes the spare
/// file if there is none, since overwriting is cheaper than growing a file.
///
/// # Errors
/// The file system's.
pub fn release_kept(dir: &Path, shipped: u64) -> io::Result<()> {
    let numbers: Vec<u64> = all_kept(dir)?.into_iter().map(|(number, _)| number).collect();
    for (at, &number) in numbers.iter().enumerate() {
        // A segment ends where the next one begins.
        let next = numbers.get(at + 1).copied().unwrap_or(number + 1);
        let Some((_, head)) = open(dir, next)? else { break };
        if next != number + 1 || head.first > shipped {
            break;
        }
        let (from, spare) = (kept(dir, number), dir.join(SPARE));
        if spare.exists() { fs::remove_file(from)? } else { fs::rename(from, spare)? }
    }
    Ok(())
}

/// Opens a segment under either of its names; `None` if it is gone.
fn open(dir: &Path, number: u64) -> io::Result<Option<(File, Head)>> {
    // It may be renamed between the two attempts, but only once, and to the second name.
    for path in [journal::path(dir, number), kept(dir, number)] {
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let mut head = [0; HEAD_BYTES];
        match file.read_exact_at(&mut head, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let head = Head::decode(&head).filter(|head| head.number == number);
        return Ok(head.map(|head| (file, head)));
    }
    Ok(None)
}

/// Consecutive groups of the journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Groups {
    /// Each group: bytes of its operations (u32, little endian), and the operations (`group`).
    pub bytes: Vec<u8>,
    /// The group after the last of them.
    pub end: u64,
}

/// Reads the journal from a group on.
#[derive(Debug)]
pub struct Tail {
    dir: PathBuf,
    file: File,
    head: Head,
    /// The offset of the next group, and its number.
    at: u64,
    next: u64,
    /// The checksum of the group before it, if it was read.
    last: Option<u64>,
}

impl Tail {
    /// Begins at the group `next`, which is durable or will be the next one; `None` if its segment
    /// is gone.
    ///
    /// # Errors
    /// The file system's; [`ErrorKind::InvalidData`] if the groups before it cannot be read.
    pub fn open(dir: &Path, next: u64) -> io::Result<Option<Tail>> {
        let kept = all_kept(dir)?.into_iter().map(|(number, _)| number);
        let mut numbers: Vec<u64> = journal::numbers(dir).map_err(io::Error::other)?.into_iter().chain(kept).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut begins = None;
        for number in numbers.into_iter().rev() {
            let Some((file, head)) = open(dir, number)? else { continue };
            if head.first > next {
                continue;
            }
            let at_its_begin = head.first == next;
            let mut tail =
                Tail { dir: dir.to_owned(), file, head, at: HEAD_BYTES as u64, next: head.first, last: None };
            while tail.next < next {
                let Some((bytes, checksum)) = tail.group()? else { return Ok(begins) };
                tail.at += (GROUP_HEAD_BYTES + bytes) as u64;
                tail.next += 1;
                tail.last = Some(checksum);
            }
            if !at_its_begin {
                return Ok(Some(tail));
            }
            // The segment before it has the group before `next`, if it is there.
            begins = Some(tail);
        }
        Ok(begins)
    }

    /// The group that is read next.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The checksum of the group before it, if that is on the disk. It also depends on the salt of
    /// its segment, so that histories that have parted differ in it.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Bytes of the next group's operations, and its checksum; `None` if it is not in this segment.
    fn group(&self) -> io::Result<Option<(usize, u64)>> {
        let mut head = [0; GROUP_HEAD_BYTES];
        match self.file.read_exact_at(&mut head, self.at) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let number = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let bytes = u32::from_le_bytes(head[16..].try_into().expect("four bytes"));
        Ok((number(8) ^ self.head.salt == self.next).then(|| (bytes as usize, number(0))))
    }

    /// Reads groups before `until`, all of which are durable: at least one, and then up to
    /// `bytes_max`. `None` if the segment is gone.
    ///
    /// # Errors
    /// As [`Tail::open`].
    pub fn read(&mut self, until: u64, bytes_max: usize) -> io::Result<Option<Groups>> {
        let mut groups = Groups { bytes: Vec::new(), end: self.next };
        let mut buffer = Vec::new();
        while self.next < until {
            let Some((bytes, checksum)) = self.group()? else {
                let Some((file, head)) = open(&self.dir, self.head.number + 1)? else { return Ok(None) };
                if head.first != self.next {
                    return Err(damaged(self.next));
                }
                (self.file, self.head, self.at) = (file, head, HEAD_BYTES as u64);
                continue;
            };
            if !groups.bytes.is_empty() && groups.bytes.len() + bytes > bytes_max {
                break;
            }
            buffer.resize(GROUP_HEAD_BYTES + bytes, 0);
            self.file.read_exact_at(&mut buffer, self.at)?;
            if group_at(&buffer, 0, self.head.salt, self.next).is_none() {
                return Err(damaged(self.next));
            }
            groups.bytes.extend_from_slice(&(bytes as u32).to_le_bytes());
            groups.bytes.extend_from_slice(&buffer[GROUP_HEAD_BYTES..]);
            self.at += buffer.len() as u64;
            self.next += 1;
            self.last = Some(checksum);
            groups.end = self.next;
        }
        Ok(Some(groups))
    }
}

fn damaged(number: u64) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("group {number} of the journal cannot be read"))
}

/// The operations of each group in [`Groups::bytes`]; a final `None` if the bytes are not groups.
pub fn operations(mut bytes: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let sound = |(group, _): &(&[u8], &[u8])| group::operations(group).all(|placed| placed.is_some());
        let found = bytes.split_first_chunk::<4>();
        let found = found.and_then(|(length, rest)| rest.split_at_checked(u32::from_le_bytes(*length) as usize));
        let found = found.filter(sound);
        bytes = found.map_or(&[][..], |(_, rest)| rest);
        Some(found.map(|(group, _)| group))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::lsm::LsmEngine;
    use crate::disk::testing::{put, small, wait_until};
    use crate::disk::{Engine as _, Options};
    use throng_engine::store::Table;

    fn all(tail: &mut Tail, until: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while tail.next() < until {
            bytes.extend(tail.read(until, 1000).expect("read").expect("it is there").bytes);
        }
        bytes
    }

    /// Segments outlive their memory tables until they are shipped, and no longer. A store that is
    /// opened again keeps what it found.
    #[test]
    fn segments_are_kept_until_they_are_shipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = folder.path().join("journal");
        let shipping = Shipping::new();
        let options = || Options { shipping: Some(shipping.clone()), ..small() };
        let engine = LsmEngine::open(folder.path(), &options()).expect("it opens");
        let first = shipping.synced();
        let write = |engine: &LsmEngine, n: u32| {
            engine.commit(&[put(Table::Accounts, &format!("user{n}"), b"", &[7; 1000])]).expect("there is room");
        };
        let mut written = 0;
        while kept_bytes(&dir).expect("read") < 100_000 {
            write(&engine, written);
            written += 1;
        }
        assert_eq!(shipping.synced(), first + u64::from(written));
        drop(engine);
        let engine = LsmEngine::open(folder.path(), &options()).expect("it opens");
        write(&engine, written);
        written += 1;
        let end = first + u64::from(written);
        assert_eq!(shipping.synced(), end);
        let mut tail = Tail::open(&dir, first).expect("read").expect("it is there");
        let bytes = all(&mut tail, end);
        let groups: Vec<_> = operations(&bytes).map(|group| group.expect("whole")).collect();
        assert_eq!(groups.len(), written as usize);
        for (n, group) in groups.iter().enumerate() {
            let name = format!("user{n}");
            assert!(group.windows(name.len()).any(|part| part == name.as_bytes()), "{n}");
        }
        let mut later = Tail::open(&dir, end - 3).expect("read").expect("it is there");
        assert!(later.last().is_some());
        assert_eq!(Tail::open(&dir, end).expect("read").expect("it is there").last(), tail.last());
        assert!(bytes.ends_with(&all(&mut later, end)));
        assert_eq!(operations(&bytes[..bytes.len() - 1]).filter(Option::is_none).count(), 1);

        shipping.set_shipped(end);
        release_kept(&dir, end).expect("released");
        assert_eq!(kept_bytes(&dir).expect("read"), 0);
        assert!(dir.join(SPARE).exists());
        assert!(Tail::open(&dir, first).expect("read").is_none(), "it is gone, and not taken for another");
        // What is shipped at once is reused as without a backup.
        let flushes = || engine.counters().counters.flushes.get();
        let before = flushes();
        while flushes() < before + 2 {
            write(&engine, written);
            written += 1;
            shipping.set_shipped(shipping.synced());
        }
        engine.rest();
        wait_until("no segment is kept", || kept_bytes(&dir).is_ok_and(|bytes| bytes == 0));
        drop(engine);

        shipping.set_shipped(0);
        let engine = LsmEngine::open(folder.path(), &options()).expect("it opens");
        while kept_bytes(&dir).expect("read") == 0 {
            write(&engine, written);
            written += 1;
        }
        drop(engine);
        LsmEngine::open(folder.path(), &small()).expect("it opens");
        assert_eq!(kept_bytes(&dir).expect("read"), 0, "without a backup none is kept");
    }
}

//! The ring of files: a folder that never exceeds its bound.
//!
//! ```text
//! FOLDER/lock                               held by the one process that writes
//! FOLDER/0000000012-20261122T020335Z.rec    number, when it was begun (UTC)
//! FOLDER/0000000007-20261122T020335Z.thin   what will take the place of file 7, while that is thinned
//! ```
//!
//! A file is only appended to, with one write per sample, and each process begins a new one; the
//! oldest files are removed when a new one would exceed the bound. If the writer is killed, written
//! data remains; at most the last record is truncated.
//!
//! While the ring holds less than a day, an old file is replaced by a thinned one of the same
//! seconds (`thin`) before room is needed. The thinned file is written under a name that is not a
//! recording's, counts towards the bound, and is renamed over the old one once it is complete and
//! durable: at any time one of the two exists. Leftovers of a killed writer are removed at the next
//! start. If it cannot be written, the oldest file is removed instead.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::record::MAGIC_THINNED;

/// The extension of a file.
const ENDING: &str = "rec";

/// The extension of a file being thinned.
const ENDING_THINNED: &str = "thin";

/// Seconds that a ring should hold, with thinning if necessary.
const HELD_S: i64 = 24 * 60 * 60;

/// Bytes after which a file being thinned is synced.
const SYNC_BYTES: u64 = 256 << 10;

/// Most files: a process that restarts repeatedly does not fill the folder with file heads.
const FILES_MAX: usize = 1024;

/// Minimum number of files in a ring, so that the oldest one is a small part of it.
const PARTS: u64 = 16;

/// Smallest bound of a ring.
pub const BYTES_MIN: u64 = 4 << 20;

/// A file of a ring.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Part {
    /// Its number; numbers increase with time.
    pub number: u64,
    /// When it was begun, in seconds since 1970 (UTC).
    pub begun_s: i64,
    /// Its path.
    pub path: PathBuf,
}

impl Part {
    /// From the path of a file, if its name has the right form.
    pub fn of(path: PathBuf) -> Option<Part> {
        let name = path.file_name()?.to_str()?;
        let (number, time) = name.strip_suffix(ENDING)?.strip_suffix('.')?.split_once('-')?;
        let number = number.parse().ok()?;
        let begun = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", time).ok()?;
        let begun_s = begun.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second();
        Some(Part { number, begun_s, path })
    }

    fn new(folder: &Path, number: u64, wall_ms: u64) -> Part {
        let begun_s = (wall_ms / 1000) as i64;
        let time = jiff::Timestamp::from_second(begun_s).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let path = folder.join(format!("{number:010}-{}.{ENDING}", time.strftime("%Y%m%dT%H%M%SZ")));
        Part { number, begun_s, path }
    }
}

/// The files of a folder, the oldest first.
///
/// # Errors
/// The folder cannot be read.
pub fn parts(folder: &Path) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    for entry in folder.read_dir()? {
        parts.extend(Part::of(entry?.path()));
    }
    parts.sort();
    Ok(parts)
}

/// The progress of thinning a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Thinned {
    No,
    /// It is thinned, or cannot be.
    Done,
}

/// Whether a file has the second version.
fn is_thinned(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(MAGIC_THINNED.len() as u64).read_to_end(&mut head)?;
    Ok(head == MAGIC_THINNED)
}

/// A file being thinned.
#[derive(Debug)]
struct Thinning {
    number: u64,
    path: PathBuf,
    file: File,
    bytes: u64,
    synced: u64,
}

/// A ring being written.
#[derive(Debug)]
pub struct Ring {
    folder: PathBuf,
    bytes_max: u64,
    /// All files with their sizes, the current one last.
    parts: Vec<(Part, u64, Thinned)>,
    thinning: Option<Thinning>,
    file: Option<File>,
    number: u64,
    tightened: Option<u32>,
    /// Held while the ring is open.
    _lock: File,
}

impl Ring {
    /// Opens a folder for writing, and creates it if missing; its files are those of earlier
    /// processes. Removes the access of others than its owner, unless the folder belongs to another
    /// user.
    ///
    /// # Errors
    /// It cannot be created or read, or another process writes to it (`WouldBlock`).
    pub fn open(folder: &Path, bytes_max: u64) -> io::Result<Ring> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let mode = folder.metadata()?.mode() & 0o7777;
        let tightened = mode & 0o077 != 0 && std::fs::set_permissions(folder, Permissions::from_mode(0o700)).is_ok();
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::new(io::ErrorKind::WouldBlock, "another recorder writes there"),
            TryLockError::Error(error) => error,
        })?;
        let mut sized = Vec::new();
        for part in parts(folder)? {
            let bytes = part.path.metadata()?.len();
            // A file that cannot be read cannot be thinned.
            let thinned = if is_thinned(&part.path).unwrap_or(true) { Thinned::Done } else { Thinned::No };
            sized.push((part, bytes, thinned));
        }
        remove_left_over(folder)?;
        let number = sized.last().map_or(0, |(part, ..)| part.number);
        Ok(Ring {
            folder: folder.into(),
            bytes_max: bytes_max.max(BYTES_MIN),
            parts: sized,
            thinning: None,
            file: None,
            number,
            tightened: tightened.then_some(mode),
            _lock: lock,
        })
    }

    /// The mode of the folder before the access of others was removed, if they had any.
    pub fn tightened(&self) -> Option<u32> {
        self.tightened
    }

    /// The bound for all files, bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Size of all files, the one being thinned included.
    pub fn bytes(&self) -> u64 {
        let thinning = self.thinning.as_ref().map_or(0, |thinning| thinning.bytes);
        self.parts.iter().map(|(_, bytes, _)| bytes).sum::<u64>() + thinning
    }

    /// Whether the next segment needs a new file.
    pub fn is_full(&self) -> bool {
        let size = self.parts.last().map_or(0, |(_, bytes, _)| *bytes);
        self.file.is_none() || size >= self.bytes_max / PARTS
    }

    /// Begins a file with its head.
    ///
    /// # Errors
    /// It cannot be created; existing files stay.
    pub fn begin(&mut self, wall_ms: u64, head: &[u8]) -> io::Result<()> {
        self.end();
        let number = self.number + 1;
        let part = Part::new(&self.folder, number, wall_ms);
        self.make_room(head.len() as u64, FILES_MAX - 1)?;
        let file = OpenOptions::new().create_new(true).append(true).open(&part.path)?;
        self.number = number;
        self.parts.push((part, 0, Thinned::No));
        self.file = Some(file);
        let written = self.append(head);
        if written.is_err() {
            // A file without a head is useless; the next attempt creates another.
            self.file = None;
            if let Some((part, ..)) = self.parts.pop() {
                let _ = std::fs::remove_file(part.path);
            }
        }
        written?;
        File::open(&self.folder)?.sync_all()
    }

    /// Appends bytes to the current file, all or none.
    ///
    /// # Errors
    /// There is no room, or the disk fails. If the write cannot be undone, the file is left with
    /// its last record truncated.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.make_room(bytes.len() as u64, FILES_MAX)?;
        let (Some(file), Some((_, size, _))) = (&mut self.file, self.parts.last_mut()) else {
            return Err(io::Error::other("no file was begun"));
        };
        if let Err(error) = file.write_all(bytes) {
            if file.set_len(*size).is_err() {
                *size = file.metadata().map_or(*size, |meta| meta.len());
                self.file = None;
            }
            // Recording takes precedence over thinning.
            if self.thinning.is_some() {
                self.give_up_thinning();
                return self.append(bytes);
            }
            return Err(error);
        }
        *size += bytes.len() as u64;
        Ok(())
    }

    /// Syncs written data.
    pub fn sync(&self) {
        // If this fails, a power loss destroys more; there is no other consequence.
        if let Some(file) = &self.file {
            let _ = file.sync_data();
        }
    }

    /// Ends the current file.
    pub fn end(&mut self) {
        self.sync();
        self.file = None;
    }

    /// Removes the oldest files until there is room for this many more bytes, and at most this many
    /// files.
    fn make_room(&mut self, more: u64, files_max: usize) -> io::Result<()> {
        let written = usize::from(self.file.is_some());
        while self.parts.len() > written && (self.bytes() + more > self.bytes_max || self.parts.len() > files_max) {
            self.remove_oldest()?;
        }
        if self.bytes() + more > self.bytes_max {
            return Err(io::Error::other("a second of samples is too large for the bound of the ring"));
        }
        Ok(())
    }

    fn remove_oldest(&mut self) -> io::Result<()> {
        let oldest = &self.parts[0].0;
        if self.thinning.as_ref().is_some_and(|thinning| thinning.number == oldest.number) {
            self.give_up_thinning();
        }
        match std::fs::remove_file(&self.parts[0].0.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => drop(self.parts.remove(0)),
        }
        Ok(())
    }

    /// Begins to thin a file if room will be needed soon, the ring will hold less than a day once
    /// the oldest file is removed, and there is a file not yet thinned: the oldest of these, read
    /// from its first byte.
    ///
    /// # Errors
    /// It cannot be read, or the new file cannot be created.
    pub fn begin_thinning(&mut self, wall_ms: u64) -> io::Result<Option<File>> {
        let ended = self.parts.len() - usize::from(self.file.is_some());
        let Some(at) = self.parts[..ended].iter().position(|(.., thinned)| *thinned == Thinned::No) else {
            return Ok(None);
        };
        // As much room as its own size: while it is read at two samples per tick, half of that is
        // recorded, and the thinned file takes less than the rest.
        let wanted = self.parts[at].1.max(self.bytes_max / PARTS);
        let now_s = (wall_ms / 1000) as i64;
        loop {
            let room = self.bytes_max.saturating_sub(self.bytes());
            let [oldest, next, ..] = &self.parts[..] else { return Ok(None) };
            if room >= wanted || self.thinning.is_some() {
                return Ok(None);
            }
            let left_s = now_s.saturating_sub(next.0.begun_s);
            if oldest.2 == Thinned::No {
                // It is removed when the room is used up, at the current rate.
                let held_s = now_s.saturating_sub(oldest.0.begun_s).max(0) as u64;
                let until_s = (u128::from(room) * u128::from(held_s) / u128::from(self.bytes().max(1))) as i64;
                if left_s.saturating_add(until_s) >= HELD_S {
                    return Ok(None);
                }
                break;
            }
            if left_s < HELD_S {
                break;
            }
            self.remove_oldest()?;
        }
        let Some(at) = self.parts.iter().position(|(.., thinned)| *thinned == Thinned::No) else { return Ok(None) };
        let part = &self.parts[at].0;
        let (source, path) = (File::open(&part.path)?, part.path.with_extension(ENDING_THINNED));
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        self.thinning = Some(Thinning { number: part.number, path, file, bytes: 0, synced: 0 });
        Ok(Some(source))
    }

    /// Whether a file is being thinned; this ends if that file is removed.
    pub fn is_thinning(&self) -> bool {
        self.thinning.is_some()
    }

    /// Appends to the thinned file.
    ///
    /// # Errors
    /// There is no room, or the disk fails: thinning is given up.
    pub fn append_thinned(&mut self, bytes: &[u8]) -> io::Result<()> {
        let appended = self.make_room(bytes.len() as u64, FILES_MAX).and_then(|()| {
            let thinning = self.thinning.as_mut().ok_or_else(|| io::Error::other("the file had to go"))?;
            thinning.file.write_all(bytes)?;
            thinning.bytes += bytes.len() as u64;
            if thinning.bytes - thinning.synced >= SYNC_BYTES {
                thinning.synced = thinning.bytes;
                thinning.file.sync_data()?;
            }
            Ok(())
        });
        if appended.is_err() {
            self.give_up_thinning();
        }
        appended
    }

    /// Replaces the file by the thinned one, if that is smaller by at least a quarter. Returns
    /// whether it was.
    ///
    /// # Errors
    /// The rename failed: thinning is given up.
    pub fn end_thinning(&mut self) -> io::Result<bool> {
        let Some(thinning) = &self.thinning else { return Ok(false) };
        let part = self.parts.iter_mut().find(|(part, ..)| part.number == thinning.number);
        let (part, bytes, _) = part.expect("a file that goes takes its thinning with it");
        if thinning.bytes > *bytes / 4 * 3 {
            self.leave_unthinned();
            return Ok(false);
        }
        // After a power loss, one of the two exists and is complete.
        let put = thinning.file.sync_data().and_then(|()| std::fs::rename(&thinning.path, &part.path));
        if let Err(error) = put {
            self.give_up_thinning();
            return Err(error);
        }
        *bytes = thinning.bytes;
        self.done();
        self.thinning = None;
        Ok(true)
    }

    /// Leaves the current file unthinned for good.
    pub fn leave_unthinned(&mut self) {
        self.done();
        self.give_up_thinning();
    }

    fn done(&mut self) {
        let Some(number) = self.thinning.as_ref().map(|thinning| thinning.number) else { return };
        if let Some((.., thinned)) = self.parts.iter_mut().find(|(part, ..)| part.number == number) {
            *thinned = Thinned::Done;
        }
    }

    /// Leaves the current file unthinned for now.
    pub fn give_up_thinning(&mut self) {
        if let Some(thinning) = self.thinning.take() {
            // Leftovers are removed at the next start.
            let _ = std::fs::remove_file(thinning.path);
        }
    }
}

/// Removes the thinned file that a killed process has left.
fn remove_left_over(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let is_left = path.extension().is_some_and(|ending| ending == ENDING_THINNED);
        if is_left && Part::of(path.with_extension(ENDING)).is_some() {
            // If this fails, the recorder cannot write either, and reports that.
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}

//! The ring of files: a folder that never takes more than its bound.
//!
//! ```text
//! FOLDER/lock                               held by the one process that writes
//! FOLDER/0000000012-20261122T020335Z.rec    number, when it was begun (UTC)
//! ```
//!
//! A file is only ever appended to, by one write a sample, and begun anew by each process; the oldest go when a new one
//! would be too much. So whatever kills the writer, what was written stands, and the last record may be cut off.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The ending of a file's name.
const ENDING: &str = "rec";

/// Files at most: a process that is started over and over does not fill the folder with heads.
const FILES_MAX: usize = 1024;

/// A ring has at least so many files, so that the oldest one is a small part of it.
const PARTS: u64 = 16;

/// The least that a ring may be bounded to.
pub const BYTES_MIN: u64 = 4 << 20;

/// A file of a ring.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Part {
    /// Its number; they grow with time.
    pub number: u64,
    /// When it was begun, in seconds since 1970 (UTC).
    pub begun_s: i64,
    /// Where it is.
    pub path: PathBuf,
}

impl Part {
    /// From a file's path, if it is named like one.
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

/// A ring that is written.
#[derive(Debug)]
pub struct Ring {
    folder: PathBuf,
    bytes_max: u64,
    /// All files with their sizes, the one that is written last.
    parts: Vec<(Part, u64)>,
    file: Option<File>,
    number: u64,
    /// Held as long as it is open.
    _lock: File,
}

impl Ring {
    /// Opens a folder for writing, made if missing; the files in it are those of earlier processes.
    ///
    /// # Errors
    /// It cannot be made or read, or another process writes there (`WouldBlock`).
    pub fn open(folder: &Path, bytes_max: u64) -> io::Result<Ring> {
        std::fs::create_dir_all(folder)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock"))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::Error::new(io::ErrorKind::WouldBlock, "another recorder writes there"),
            TryLockError::Error(error) => error,
        })?;
        let mut sized = Vec::new();
        for part in parts(folder)? {
            let bytes = part.path.metadata()?.len();
            sized.push((part, bytes));
        }
        let number = sized.last().map_or(0, |(part, _)| part.number);
        Ok(Ring {
            folder: folder.into(),
            bytes_max: bytes_max.max(BYTES_MIN),
            parts: sized,
            file: None,
            number,
            _lock: lock,
        })
    }

    /// Bytes that all files may have.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Whether the next segment belongs into a new file.
    pub fn is_full(&self) -> bool {
        let size = self.parts.last().map_or(0, |(_, bytes)| *bytes);
        self.file.is_none() || size >= self.bytes_max / PARTS
    }

    /// Begins a file with its head.
    ///
    /// # Errors
    /// It cannot be made; what there was stays.
    pub fn begin(&mut self, wall_ms: u64, head: &[u8]) -> io::Result<()> {
        self.end();
        let number = self.number + 1;
        let part = Part::new(&self.folder, number, wall_ms);
        self.make_room(head.len() as u64, FILES_MAX - 1)?;
        let file = OpenOptions::new().create_new(true).append(true).open(&part.path)?;
        self.number = number;
        self.parts.push((part, 0));
        self.file = Some(file);
        let written = self.append(head);
        if written.is_err() {
            // A file without a head is of no use; the next attempt makes another.
            self.file = None;
            if let Some((part, _)) = self.parts.pop() {
                let _ = std::fs::remove_file(part.path);
            }
        }
        written?;
        File::open(&self.folder)?.sync_all()
    }

    /// Appends bytes to the file that was begun, all of them or none.
    ///
    /// # Errors
    /// There is no room, or the disk fails. If what went wrong cannot be taken back, the file is left as it is, its last
    /// record cut off.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.make_room(bytes.len() as u64, FILES_MAX)?;
        let (Some(file), Some((_, size))) = (&mut self.file, self.parts.last_mut()) else {
            return Err(io::Error::other("no file was begun"));
        };
        if let Err(error) = file.write_all(bytes) {
            if file.set_len(*size).is_err() {
                *size = file.metadata().map_or(*size, |meta| meta.len());
                self.file = None;
            }
            return Err(error);
        }
        *size += bytes.len() as u64;
        Ok(())
    }

    /// Puts what was written onto the disk.
    pub fn sync(&self) {
        // Where that fails, power loss takes more: nothing else hangs on it.
        if let Some(file) = &self.file {
            let _ = file.sync_data();
        }
    }

    /// Ends the file that is written.
    pub fn end(&mut self) {
        self.sync();
        self.file = None;
    }

    /// Removes the oldest files until there is room for more bytes, and at most so many files.
    fn make_room(&mut self, more: u64, files_max: usize) -> io::Result<()> {
        let written = usize::from(self.file.is_some());
        while self.parts.len() > written && (self.bytes() + more > self.bytes_max || self.parts.len() > files_max) {
            match std::fs::remove_file(&self.parts[0].0.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => drop(self.parts.remove(0)),
            }
        }
        if self.bytes() + more > self.bytes_max {
            return Err(io::Error::other("a second of samples is too large for the bound of the ring"));
        }
        Ok(())
    }
}

//! The location of a recording's files: a local folder, or a server (`remote`).

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Failure;
use crate::ring::{self, Part};

/// Largest size of a file: larger ones do not belong to a ring.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;

/// The part of a file that contains the schema.
const HEAD_BYTES: u64 = 1 << 20;

/// The result of reading further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Had {
    /// Read the available data, possibly none.
    More,
    /// Nothing read: the file was replaced by a thinned one of the same seconds, which must be read
    /// from its first byte.
    Replaced,
}

/// Files of a recording, read as they grow.
pub trait Place {
    /// Its name.
    fn name(&self) -> String;

    /// Its files, the oldest first.
    ///
    /// # Errors
    /// They cannot be listed.
    fn parts(&self) -> Result<Vec<Part>, Failure>;

    /// Appends the part of a file after its first `known` bytes. A file removed by the ring has
    /// none.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, part: &Part, known: u64, into: &mut Vec<u8>) -> Result<Had, Failure>;

    /// The beginning of a file, as much as its schema needs and is available.
    fn head(&self, part: &Part) -> Option<Vec<u8>>;

    /// Whether files may be added.
    fn grows(&self) -> bool {
        true
    }

    /// Whether there is one endless file, whose consumed part need not be kept.
    fn is_stream(&self) -> bool {
        false
    }

    /// The interval at which a follower reads.
    fn look_every(&self) -> Duration {
        Duration::from_millis(200)
    }
}

/// A folder, or one file.
pub(super) struct Folder {
    path: PathBuf,
    /// The current file: an open file stays the same when a thinned one replaces it.
    open: RefCell<Option<(PathBuf, File)>>,
}

impl Folder {
    pub(super) fn new(path: PathBuf) -> Folder {
        Folder { path, open: RefCell::default() }
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

impl Place for Folder {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn parts(&self) -> Result<Vec<Part>, Failure> {
        let meta = self.path.metadata().map_err(|error| failed(&self.path, &error))?;
        if meta.is_dir() {
            return ring::parts(&self.path).map_err(|error| failed(&self.path, &error));
        }
        Ok(vec![Part { number: 0, begun_s: 0, path: self.path.clone() }])
    }

    fn read(&self, part: &Part, known: u64, into: &mut Vec<u8>) -> Result<Had, Failure> {
        let mut open = self.open.borrow_mut();
        let mut read = || -> io::Result<()> {
            let file = match &mut *open {
                Some((path, file)) if *path == part.path && known > 0 => file,
                open => &mut open.insert((part.path.clone(), File::open(&part.path)?)).1,
            };
            file.seek(io::SeekFrom::Start(known))?;
            file.take(FILE_BYTES_MAX.saturating_sub(known)).read_to_end(into)?;
            Ok(())
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.grows() => Ok(Had::More),
            read => read.map(|()| Had::More).map_err(|error| failed(&part.path, &error)),
        }
    }

    fn head(&self, part: &Part) -> Option<Vec<u8>> {
        let mut head = Vec::new();
        File::open(&part.path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head)).ok()?;
        Some(head)
    }

    fn grows(&self) -> bool {
        self.path.is_dir()
    }
}

//! Where the files of a recording are: a folder here, or one behind a server's port (`remote`).

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Failure;
use crate::ring::{self, Part};

/// Bytes of a file at most: larger ones are none of a ring.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 30;

/// Bytes in which a file's schema stands.
const HEAD_BYTES: u64 = 1 << 20;

/// What became of a wish to read on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Had {
    /// What there was behind what is known, nothing perhaps.
    More,
    /// Nothing: another file is there now, thinned, of the same seconds. It has to be read from its first byte on.
    Replaced,
}

/// Files of a recording, read as they grow.
pub trait Place {
    /// What it is called.
    fn name(&self) -> String;

    /// Its files, the oldest first.
    ///
    /// # Errors
    /// They cannot be listed.
    fn parts(&self) -> Result<Vec<Part>, Failure>;

    /// Appends what a file has behind its first `known` bytes. One that the ring has gone over meanwhile has no more.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, part: &Part, known: u64, into: &mut Vec<u8>) -> Result<Had, Failure>;

    /// The beginning of a file, as much as is needed for its schema and can be had.
    fn head(&self, part: &Part) -> Option<Vec<u8>>;

    /// Whether files may come.
    fn grows(&self) -> bool {
        true
    }

    /// Whether there is one file without an end, of which nothing needs to be kept that was read.
    fn is_stream(&self) -> bool {
        false
    }

    /// A follower looks for more so often.
    fn look_every(&self) -> Duration {
        Duration::from_millis(200)
    }
}

/// A folder, or one file.
pub(super) struct Folder {
    path: PathBuf,
    /// The file that is read: it stays the same when a thinner one takes its place.
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

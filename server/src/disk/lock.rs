//! The lock on a data folder: one process at a time writes a store.
//!
//! It is an advisory lock of the system on `throng.lock` (not the file's existence), so it is
//! released with the process, however that ends. The file names the holder, for messages only.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::private::{self, Unsafe};

/// Name of the file in the folder.
pub(super) const NAME: &str = "throng.lock";

/// Holds the lock on a data folder until dropped.
#[derive(Debug)]
pub struct FolderLock {
    folder: PathBuf,
    tightened: Option<String>,
    /// The previous holder, if it did not release the folder properly.
    cut_off: Option<String>,
    file: Option<File>,
    /// Whether the file names this holder, until the folder is released.
    is_written: bool,
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Informational, as above: a name that is still in the file marks an interrupted holder.
        if let Some(file) = self.file.as_ref().filter(|_| self.is_written) {
            let _ = file.set_len(0);
        }
    }
}

/// Why a data folder could not be locked.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it, described in its own words, such as `serve 1234`.
    Held(String),
    /// Users other than its owner could read or replace its content; a sentence.
    Unsafe(String),
    /// The folder or the file cannot be created or opened.
    Io(io::Error),
}

impl From<Unsafe> for LockError {
    fn from(found: Unsafe) -> LockError {
        match found {
            Unsafe::Others(text) => LockError::Unsafe(text),
            Unsafe::Io(error) => LockError::Io(error),
        }
    }
}

impl FolderLock {
    /// Creates the folder (mode 0700) if missing, removes other users' access to it, and locks it.
    /// `holder` is one word for what this process does.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn take(folder: &Path, holder: &str) -> Result<FolderLock, LockError> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(LockError::Io)?;
        let tightened = private::keep(folder)?;
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).mode(0o600).open(folder.join(NAME));
        let mut file = opened.map_err(LockError::Io)?;
        held_by(&mut file)?;
        let before = written(&mut file);
        // Informational: a failure to write it is ignored.
        let start = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
        let _ = start.and_then(|_| writeln!(file, "{holder} {}", std::process::id()));
        let cut_off = Some(before).filter(|before| !before.is_empty());
        Ok(FolderLock { folder: folder.to_owned(), tightened, cut_off, file: Some(file), is_written: true })
    }

    /// A sentence for the operator, if other users had access to the folder until now.
    pub fn tightened(&self) -> Option<&str> {
        self.tightened.as_deref()
    }

    /// The previous holder, such as `serve 1234`, if it ended without releasing the folder: it was
    /// killed, or the machine went down.
    pub fn cut_off(&self) -> Option<&str> {
        self.cut_off.as_deref()
    }

    /// Takes the existing lock of a folder, and changes nothing: neither the folder nor the lock is
    /// created, nor is the holder recorded. A folder without one, such as a backup, is in use by no
    /// process.
    ///
    /// # Errors
    /// [`LockError`].
    pub fn take_there(folder: &Path) -> Result<FolderLock, LockError> {
        let file = match File::open(folder.join(NAME)) {
            Ok(mut file) => {
                held_by(&mut file)?;
                Some(file)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(LockError::Io(error)),
        };
        Ok(FolderLock { folder: folder.to_owned(), tightened: None, cut_off: None, file, is_written: false })
    }

    /// The locked folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The holder's description of itself.
fn written(file: &mut File) -> String {
    let mut who = String::new();
    let _ = file.take(64).read_to_string(&mut who);
    who.trim().to_owned()
}

/// Takes the lock on a file, or reports its holder.
fn held_by(file: &mut File) -> Result<(), LockError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(LockError::Held(written(file))),
        Err(TryLockError::Error(error)) => Err(LockError::Io(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_second_taker_is_told_who_holds_it_and_the_lock_goes_with_its_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("made");
        let lock = FolderLock::take(&path, "serve").expect("free");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        match FolderLock::take(&path, "import") {
            Err(LockError::Held(who)) => assert_eq!(who, format!("serve {}", std::process::id())),
            other => panic!("{other:?}"),
        }
        drop(lock);
        assert!(FolderLock::take(&path, "import").is_ok());
    }

    #[test]
    fn who_was_cut_off_is_known_to_the_next_holder_and_who_gave_the_folder_back_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let take = || FolderLock::take(folder.path(), "serve").expect("free");
        assert_eq!(take().cut_off(), None, "a new folder");
        assert_eq!(take().cut_off(), None, "it was given back");
        // As left by a killed process; a longer line than the next holder's.
        std::fs::write(folder.path().join(NAME), "partitions 4194304\n").unwrap();
        drop(FolderLock::take_there(folder.path()).expect("free"));
        assert_eq!(take().cut_off(), Some("partitions 4194304"));
        assert_eq!(take().cut_off(), None);
        let held = take();
        assert_eq!(
            std::fs::read_to_string(folder.path().join(NAME)).unwrap(),
            format!("serve {}\n", std::process::id())
        );
        drop(held);
    }
}

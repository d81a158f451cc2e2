//! The data folder: its format, and the engine in it. Access by one process at a time is ensured by
//! `lock`.
//!
//! ```text
//! DIR/throng.lock   locked by the process that uses the folder
//! DIR/reserve       keeps space for commits in flight when the disk is full
//! DIR/store/version  the mark: "throng" and the format's number
//! DIR/store/journal/ the latest commits
//! DIR/store/tree/    tables
//! DIR/store/unfinished  only while the store is being created
//! ```
//!
//! Formats are described in `format`, and changed to this program's in `migrate`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use throng_engine::store::{Found, Query, Table};

use super::format::{self, FORMAT_VERSION, FORMATS, Formats};
use super::lsm::LsmEngine;
use super::migrate::{self, Progress};
use super::space::{sync_dir, sync_name};
use super::{DiskError, Engine, FolderLock, Options};

/// Sort key of the row in [`Table::Meta`] that names the partitions of an import in progress, u16
/// little endian each.
pub(super) const IMPORT_KEY: &[u8] = b"import";

/// Name of the file that exists in the engine's folder while a store is being created.
const UNFINISHED: &str = "unfinished";

/// Name of the file that exists in a folder while a backup is restored into it.
pub(super) const RESTORING: &str = "restore.unfinished";

/// An open data folder, for as long as its lock is held.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    engine: Arc<LsmEngine>,
}

impl Store {
    /// Opens the store in a folder that the caller has locked, and keeps locked until the store is
    /// closed. Creates it if there is none, and recovers what was acknowledged.
    ///
    /// # Errors
    /// [`DiskError::Newer`], [`DiskError::Older`], [`DiskError::NotMigrated`],
    /// [`DiskError::Importing`], [`DiskError::Corrupt`], or the file system's.
    pub fn open(lock: &FolderLock, options: &Options) -> Result<Store, DiskError> {
        Store::open_to_import(lock, options)?.without_import()
    }

    /// The same for a store that must exist: none is created.
    ///
    /// # Errors
    /// As [`Store::open`], and [`DiskError::NoStore`].
    pub fn open_there(lock: &FolderLock, options: &Options) -> Result<Store, DiskError> {
        Store::must_be_there(lock)?;
        Store::open(lock, options)
    }

    /// The same as [`Store::open`] for an import of partitions: an earlier import may have been
    /// interrupted.
    ///
    /// # Errors
    /// As [`Store::open`], without [`DiskError::Importing`].
    pub fn open_to_import(lock: &FolderLock, options: &Options) -> Result<Store, DiskError> {
        let (store, found) = Store::of_any_format(lock, options, &FORMATS)?;
        match found {
            FORMAT_VERSION => Ok(store),
            found => Err(DiskError::NotMigrated { folder: engine_folder(lock.folder()), found, known: FORMAT_VERSION }),
        }
    }

    /// The same as [`Store::open`], but migrates a store of an earlier released format to this
    /// one's, in place. `tell` is given the progress. An interrupted migration is resumed.
    ///
    /// # Errors
    /// As [`Store::open`], without [`DiskError::NotMigrated`]; [`DiskError::OutOfSpace`].
    pub fn migrate(lock: &FolderLock, options: &Options, tell: &mut dyn FnMut(&Progress)) -> Result<Store, DiskError> {
        Store::migrate_to(lock, options, &FORMATS, tell)
    }

    /// The same to the last of these formats.
    pub(super) fn migrate_to(
        lock: &FolderLock,
        options: &Options,
        formats: &Formats,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Store, DiskError> {
        let (store, found) = Store::of_any_format(lock, options, formats)?;
        if found < formats.known {
            migrate::run(&*store.engine, &engine_folder(lock.folder()), found, formats, tell)?;
        }
        store.without_import()
    }

    /// Opens a store of any of these formats, or creates one of the last; also returns the format
    /// of its rows.
    pub(super) fn of_any_format(
        lock: &FolderLock,
        options: &Options,
        formats: &Formats,
    ) -> Result<(Store, u32), DiskError> {
        let folder = lock.folder();
        refuse_unfinished(folder)?;
        let dir = engine_folder(folder);
        let mut marked = format::marked(&dir, formats)?;
        // A store with rows and no mark has the format that its rows state.
        let fresh = !dir.join("tree").exists() && !dir.join("journal").exists();
        if marked.is_none() && fresh {
            begin(&dir)?;
            format::mark(&dir, formats.known)?;
            marked = Some(formats.known);
        }
        let begun = dir.join(UNFINISHED).exists();
        if !begun {
            refuse_incomplete(&dir)?;
        }
        let engine = LsmEngine::open(&dir, options)?;
        // Not only for a new store: a process may have been killed after creating the folders,
        // before this sync.
        sync_dir(folder)?;
        sync_name(folder)?;
        let found = format::of_rows(&engine, &dir, formats)?;
        // While its rows have an earlier format, the migration writes the mark.
        if found == formats.known && marked != Some(found) {
            format::mark(&dir, found)?;
        }
        if begun {
            finish(&dir)?;
        }
        Ok((Store { folder: folder.to_owned(), engine: Arc::new(engine) }, found))
    }

    /// Returns itself, if no import into it was interrupted.
    fn without_import(self) -> Result<Store, DiskError> {
        match unfinished_import(&*self.engine)? {
            none if none.is_empty() => Ok(self),
            partitions => Err(DiskError::Importing(partitions)),
        }
    }

    /// Checks that a locked folder contains a store.
    ///
    /// # Errors
    /// [`DiskError::NoStore`]; the file system's.
    pub fn must_be_there(lock: &FolderLock) -> Result<(), DiskError> {
        match engine_folder(lock.folder()).try_exists().map_err(DiskError::at(lock.folder()))? {
            true => Ok(()),
            false => Err(DiskError::NoStore(lock.folder().to_owned())),
        }
    }

    /// Whether a locked folder contains a store.
    pub fn is_there(lock: &FolderLock) -> bool {
        engine_folder(lock.folder()).exists()
    }

    /// Number of commits read back from the journal at opening.
    pub fn replayed(&self) -> u64 {
        self.engine.replayed()
    }

    /// The engine.
    pub fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Closes the engine. If another reference to it exists, the engine closes when that is
    /// dropped.
    pub fn close(self) {
        drop(self);
    }
}

/// The journal of a data folder's store: its newest file has the time of the last commit.
pub fn journal_folder(folder: &Path) -> PathBuf {
    engine_folder(folder).join("journal")
}

/// The folder of the engine's files.
pub(crate) fn engine_folder(folder: &Path) -> PathBuf {
    folder.join("store")
}

/// Marks the store in the engine's folder, which is created if missing, as being created. Until
/// [`finish`] nothing has been acknowledged in it, and parts of it may be missing. Durable on
/// return.
///
/// # Errors
/// The file system's.
pub(super) fn begin(dir: &Path) -> Result<(), DiskError> {
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        File::create(dir.join(UNFINISHED))?.sync_all()?;
        File::open(dir)?.sync_all()
    };
    write().map_err(DiskError::at(dir))
}

/// Marks all parts of a store as present. Durable on return.
///
/// # Errors
/// The file system's.
pub(super) fn finish(dir: &Path) -> Result<(), DiskError> {
    let unfinished = dir.join(UNFINISHED);
    // The names of the parts must be durable before the marker is removed.
    let sync = || File::open(dir)?.sync_all();
    let finish = || sync().and_then(|()| fs::remove_file(&unfinished)).and_then(|()| sync());
    finish().map_err(DiskError::at(&unfinished))
}

/// A store with a missing part must not be taken for a new one.
fn refuse_incomplete(dir: &Path) -> Result<(), DiskError> {
    for part in ["tree", "tree/current", "tree/tables", "journal"] {
        let part = dir.join(part);
        if !part.try_exists().map_err(DiskError::at(&part))? {
            return Err(DiskError::Lacks(part));
        }
    }
    Ok(())
}

/// A folder with an interrupted restore must not be taken for a store.
pub(super) fn refuse_unfinished(folder: &Path) -> Result<(), DiskError> {
    if folder.join(RESTORING).exists() {
        return Err(DiskError::Corrupt(format!(
            "a restore into {} was interrupted: empty the folder and restore again",
            folder.display()
        )));
    }
    Ok(())
}

/// The partitions of an import that was started and not completed.
///
/// # Errors
/// Those of the engine.
pub(super) fn unfinished_import(engine: &dyn Engine) -> Result<Vec<u16>, DiskError> {
    let query = Query::Get { table: Table::Meta, actor: Box::default(), sort: IMPORT_KEY.into() };
    let Found::Value(row) = engine.read(&query)? else { unreachable!("a get finds a value") };
    let numbers = row.iter().flat_map(|row| row.chunks_exact(2));
    Ok(numbers.map(|number| u16::from_le_bytes([number[0], number[1]])).collect())
}

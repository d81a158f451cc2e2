//! The data folder: which format it has, and the engine in it. Who may use it is the lock's to say.
//!
//! ```text
//! DIR/throng.lock   locked by the process that uses the folder
//! DIR/reserve       keeps space for commits in flight when the disk is full
//! DIR/store/journal/ what was committed last
//! DIR/store/tree/    tables
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;

use throng_engine::store::{Batch, Found, Query, Table};

use super::lsm::LsmEngine;
use super::{DiskError, Engine, FolderLock, Options};

/// Version of what the rows mean; written when the folder is made, and raised by whoever changes the meaning.
pub const FORMAT_VERSION: u32 = 3;

/// Sort key of the row in [`Table::Meta`] that holds the version, u32 big endian.
pub const FORMAT_KEY: &[u8] = b"format";

/// Name of the file that stands in a folder while a backup is restored into it.
pub(super) const RESTORING: &str = "restore.unfinished";

/// An open data folder, for as long as its lock is held.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    engine: Arc<LsmEngine>,
}

impl Store {
    /// Opens the store in a folder that the caller holds, and goes on holding until the store is closed; makes it if
    /// there is none, and recovers what was acknowledged.
    ///
    /// # Errors
    /// [`DiskError::Newer`], [`DiskError::Older`], [`DiskError::Corrupt`], or the file system's.
    pub fn open(lock: &FolderLock, options: &Options) -> Result<Store, DiskError> {
        let folder = lock.folder();
        refuse_unfinished(folder)?;
        refuse_older(folder)?;
        let engine = LsmEngine::open(&engine_folder(folder), options)?;
        check_format(&engine)?;
        Ok(Store { folder: folder.to_owned(), engine: Arc::new(engine) })
    }

    /// The engine.
    pub fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Closes the engine; fails to do so only if somebody still holds it, and then leaves it to them.
    pub fn close(self) {
        drop(self);
    }
}

/// Where the engine's files are.
pub(crate) fn engine_folder(folder: &Path) -> PathBuf {
    folder.join("store")
}

/// A folder in which a restore was interrupted must not be taken for a store.
fn refuse_unfinished(folder: &Path) -> Result<(), DiskError> {
    if folder.join(RESTORING).exists() {
        return Err(DiskError::Corrupt(format!(
            "a restore into {} was interrupted: empty the folder and restore again",
            folder.display()
        )));
    }
    Ok(())
}

/// Up to format 2 the rows stood in another form, which is not read any more.
fn refuse_older(folder: &Path) -> Result<(), DiskError> {
    match engine_folder(folder).join("keyspaces").exists() {
        true => Err(DiskError::Older { found: 2, known: FORMAT_VERSION }),
        false => Ok(()),
    }
}

/// Reads the format version, writes it into a new store, refuses what is of another.
fn check_format(engine: &dyn Engine) -> Result<(), DiskError> {
    let query = Query::Get { table: Table::Meta, partition: Box::default(), sort: FORMAT_KEY.into() };
    let Found::Value(row) = engine.read(&query)? else { unreachable!("a get finds a value") };
    let Some(row) = row else {
        let mut empty = true;
        engine.scan(&mut |_, _| {
            empty = false;
            super::Visit::Break(())
        })?;
        if !empty {
            return Err(DiskError::Corrupt("rows without a format version".into()));
        }
        let mut batch = Batch::new();
        batch.put(Table::Meta, b"", FORMAT_KEY, &[&FORMAT_VERSION.to_be_bytes()]);
        return engine.commit(&[batch]);
    };
    let found = <[u8; 4]>::try_from(&row[..]).map(u32::from_be_bytes);
    match found {
        Ok(FORMAT_VERSION) => Ok(()),
        Ok(found) if found > FORMAT_VERSION => Err(DiskError::Newer { found, known: FORMAT_VERSION }),
        Ok(found) => Err(DiskError::Older { found, known: FORMAT_VERSION }),
        Err(_) => Err(DiskError::Corrupt("the format version cannot be read".into())),
    }
}

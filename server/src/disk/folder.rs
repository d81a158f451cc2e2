//! The data folder: who may use it, which format it has, and the engine in it.
//!
//! ```text
//! DIR/throng.lock   locked by the process that uses the folder; holds its id
//! DIR/reserve       keeps space for commits in flight when the disk is full
//! DIR/store/        the engine's files
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use throng_engine::store::{Batch, Found, Query, Table};

use super::fjall::FjallEngine;
use super::{DiskError, Engine, Options};

/// Version of what the rows mean; written when the folder is made, and raised by whoever changes the meaning.
pub const FORMAT_VERSION: u32 = 1;

/// Sort key of the row in [`Table::Meta`] that holds the version, u32 big endian.
pub const FORMAT_KEY: &[u8] = b"format";

/// Name of the file that stands in a folder while a backup is restored into it.
pub(super) const RESTORING: &str = "restore.unfinished";

/// An open data folder. Nobody else can open it until this is dropped.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    engine: Arc<FjallEngine>,
    lock: Lock,
}

impl Store {
    /// Opens the folder, makes it if there is none, and recovers what was acknowledged.
    ///
    /// # Errors
    /// [`DiskError::Locked`], [`DiskError::Newer`], [`DiskError::Corrupt`], or the file system's.
    pub fn open(folder: &Path, options: &Options) -> Result<Store, DiskError> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(DiskError::at(folder))?;
        let lock = Lock::take(folder)?;
        refuse_unfinished(folder)?;
        let engine = FjallEngine::open(&engine_folder(folder), options)?;
        check_format(&engine)?;
        Ok(Store { folder: folder.to_owned(), engine: Arc::new(engine), lock })
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
        let Store { engine, lock, .. } = self;
        drop(engine);
        drop(lock);
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

/// Reads the format version, writes it into a new store, refuses what is newer.
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
        _ => Err(DiskError::Corrupt("the format version cannot be read".into())),
    }
}

/// The folder's lock: gone with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub(crate) fn take(folder: &Path) -> Result<Lock, DiskError> {
        let path = folder.join("store.lock");
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path);
        let mut file = open.map_err(DiskError::at(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                // Who it is only helps the reader of the message.
                let _ = file.read_to_string(&mut pid);
                return Err(DiskError::Locked { folder: folder.to_owned(), pid: pid.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(DiskError::at(&path)(error)),
        }
        // On a full disk the id may not fit; the lock holds all the same.
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Lock { _file: file })
    }
}

//! The data folder: which format it has, and the engine in it. Who may use it is the lock's to say.
//!
//! ```text
//! DIR/throng.lock   locked by the process that uses the folder
//! DIR/reserve       keeps space for commits in flight when the disk is full
//! DIR/store/version  the mark: "throng" and the format's number
//! DIR/store/journal/ what was committed last
//! DIR/store/tree/    tables
//! DIR/store/unfinished  only while the store is being made
//! ```
//!
//! The mark stands before anything else is made and is read before anything else is looked at, so that no program takes
//! a folder of another format for an empty one. Up to format 2 the engine of those days kept a mark of its own in this very
//! file and refuses any other, which keeps programs of that time out. **Whoever makes a new format** writes its number here,
//! wherever its rows are, and in the row of [`FORMAT_KEY`] as long as this engine can read it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use throng_engine::store::{Batch, Found, Query, Table};

use super::lsm::LsmEngine;
use super::space::{sync_dir, sync_name};
use super::{DiskError, Engine, FolderLock, Options};

/// Version of what the rows mean; written when the folder is made, and raised by whoever changes the meaning.
pub const FORMAT_VERSION: u32 = 5;

/// Sort key of the row in [`Table::Meta`] that holds the version, u32 big endian.
pub const FORMAT_KEY: &[u8] = b"format";

/// Name of the mark in the engine's folder.
const MARK: &str = "version";

/// Name of the file that stands in the engine's folder while a store is being made.
const UNFINISHED: &str = "unfinished";

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
        let dir = engine_folder(folder);
        let marked = is_marked(&dir)?;
        // Of a store that has rows and no mark, the rows say which format it is.
        let fresh = !dir.join("tree").exists() && !dir.join("journal").exists();
        if !marked && fresh {
            begin(&dir)?;
            mark(&dir)?;
        }
        let begun = dir.join(UNFINISHED).exists();
        if !begun {
            refuse_incomplete(&dir)?;
        }
        let engine = LsmEngine::open(&dir, options)?;
        // Not of a fresh store only: whoever made the folders may have been killed before this.
        sync_dir(folder)?;
        sync_name(folder)?;
        check_format(&engine, &dir)?;
        if !marked && !fresh {
            mark(&dir)?;
        }
        if begun {
            finish(&dir)?;
        }
        Ok(Store { folder: folder.to_owned(), engine: Arc::new(engine) })
    }

    /// The same for a store that has to be there: none is made.
    ///
    /// # Errors
    /// As [`Store::open`], and [`DiskError::NoStore`].
    pub fn open_there(lock: &FolderLock, options: &Options) -> Result<Store, DiskError> {
        match engine_folder(lock.folder()).try_exists().map_err(DiskError::at(lock.folder()))? {
            true => Store::open(lock, options),
            false => Err(DiskError::NoStore(lock.folder().to_owned())),
        }
    }

    /// Whether there is a store in a folder that is held.
    pub fn is_there(lock: &FolderLock) -> bool {
        engine_folder(lock.folder()).exists()
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

/// Says that a store is being made in the engine's folder, which is made if it is missing: until [`finish`] nothing has been
/// acknowledged in it, and parts of it may be missing. Durable on return.
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

/// Says that all parts of a store are there from now on. Durable on return.
///
/// # Errors
/// The file system's.
pub(super) fn finish(dir: &Path) -> Result<(), DiskError> {
    let unfinished = dir.join(UNFINISHED);
    // The names of the parts go to the disk before the word that they may be missing.
    let sync = || File::open(dir)?.sync_all();
    let finish = || sync().and_then(|()| fs::remove_file(&unfinished)).and_then(|()| sync());
    finish().map_err(DiskError::at(&unfinished))
}

/// A store of which a part is missing must not be taken for a new one.
fn refuse_incomplete(dir: &Path) -> Result<(), DiskError> {
    for part in ["tree", "tree/current", "tree/tables", "journal"] {
        let part = dir.join(part);
        if !part.try_exists().map_err(DiskError::at(&part))? {
            return Err(DiskError::Lacks(part));
        }
    }
    Ok(())
}

/// A folder in which a restore was interrupted must not be taken for a store.
pub(super) fn refuse_unfinished(folder: &Path) -> Result<(), DiskError> {
    if folder.join(RESTORING).exists() {
        return Err(DiskError::Corrupt(format!(
            "a restore into {} was interrupted: empty the folder and restore again",
            folder.display()
        )));
    }
    Ok(())
}

/// Whether the engine's folder bears the mark of this format; refuses that of another.
pub(super) fn is_marked(dir: &Path) -> Result<bool, DiskError> {
    let path = dir.join(MARK);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(DiskError::at(&path)(error)),
    };
    let number = str::from_utf8(&text).ok().and_then(|text| text.strip_prefix("throng ")?.trim_end().parse().ok());
    match number {
        Some(FORMAT_VERSION) => Ok(true),
        Some(found) => Err(other_format(dir, found)),
        None if text.starts_with(b"FJL") => Err(other_format(dir, 2)),
        None => Err(DiskError::Corrupt(format!("the format version in {} cannot be read", path.display()))),
    }
}

/// Writes the mark of this format into the engine's folder, which is made if it is missing; durable on return.
///
/// # Errors
/// The file system's.
pub(super) fn mark(dir: &Path) -> Result<(), DiskError> {
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        // Under another name first: half a mark would be taken for damage.
        let unfinished = dir.join("version.unfinished");
        let mut file = File::create(&unfinished)?;
        writeln!(file, "throng {FORMAT_VERSION}")?;
        file.sync_all()?;
        fs::rename(&unfinished, dir.join(MARK))?;
        File::open(dir)?.sync_all()
    };
    write().map_err(DiskError::at(dir))
}

/// Why a store of another format than this program's is not opened.
fn other_format(dir: &Path, found: u32) -> DiskError {
    let (folder, known) = (dir.to_owned(), FORMAT_VERSION);
    if found > known { DiskError::Newer { folder, found, known } } else { DiskError::Older { folder, found, known } }
}

/// Where the row with the version stood up to format 4, when keys began with table and name.
const FORMAT_FLAT_KEY_4: &[u8] = b"\0\0format";

/// Reads the format version, writes it into a new store, refuses what is of another.
fn check_format(engine: &dyn Engine, dir: &Path) -> Result<(), DiskError> {
    let query = Query::Get { table: Table::Meta, actor: Box::default(), sort: FORMAT_KEY.into() };
    let Found::Value(row) = engine.read(&query)? else { unreachable!("a get finds a value") };
    let Some(row) = row else {
        let (mut empty, mut earlier) = (true, None);
        engine.scan(&mut |key, value| {
            empty = false;
            if key == FORMAT_FLAT_KEY_4 {
                earlier = value.try_into().ok().map(u32::from_be_bytes);
            }
            if key < FORMAT_FLAT_KEY_4 { super::Visit::Continue(()) } else { super::Visit::Break(()) }
        })?;
        match earlier {
            Some(found) => return Err(other_format(dir, found)),
            None if !empty => return Err(DiskError::Corrupt("rows without a format version".into())),
            None => {}
        }
        let mut batch = Batch::new();
        batch.put(Table::Meta, b"", FORMAT_KEY, &[&FORMAT_VERSION.to_be_bytes()]);
        return engine.commit(&[batch]);
    };
    let found = <[u8; 4]>::try_from(&row[..]).map(u32::from_be_bytes);
    match found {
        Ok(FORMAT_VERSION) => Ok(()),
        Ok(found) => Err(other_format(dir, found)),
        Err(_) => Err(DiskError::Corrupt("the format version cannot be read".into())),
    }
}

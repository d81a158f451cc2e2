//! Online backup of the store into a folder. Verifying and restoring one is done in `restore`.
//!
//! A backup is a data folder without lock and reserve: `store/` with freshly written tables of one
//! consistent view, and `backup.complete`, which is written last. Without that file, a folder is
//! not a backup.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::folder::engine_folder;
use super::format::{FORMAT_VERSION, mark};
use super::merge::MergeSpace;
use super::space::{sync_dir, sync_name};
use super::tables::Tables;
use super::{DiskError, Engine, Options, private};

pub(super) const COMPLETE: &str = "backup.complete";

/// Writes a consistent copy of a live store into an empty (or new) folder while commits continue.
/// Then reads it once to verify its checksums and the number of rows. `progress` is given the rows
/// written so far. Returns the number of rows.
///
/// # Errors
/// [`DiskError::NotEmpty`]; the file system's; [`DiskError::NoBackup`] if the copy does not read
/// back.
pub fn backup(engine: &dyn Engine, to: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
    fs::create_dir_all(to).map_err(DiskError::at(to))?;
    refuse_full(to, &[])?;
    // If the folder belongs to another user, its mode is left as it is; the files in it are private
    // regardless.
    let _ = private::keep(to);
    let store = engine_folder(to);
    let rows = engine.copy_to(&store, progress)?;
    let found = count_rows(&store)?;
    if found != rows {
        return Err(DiskError::NoBackup(format!("the copy holds {found} rows instead of {rows}")));
    }
    mark(&store, FORMAT_VERSION)?;
    sync_tree(to)?;
    write_synced(&to.join(COMPLETE), complete(rows).as_bytes())?;
    sync_dir(to)?;
    sync_name(to)?;
    Ok(rows)
}

/// The content of the file that is written last.
pub(super) fn complete(rows: u64) -> String {
    format!("{rows} rows\n")
}

/// Reads all rows of a copy, verifying their checksums, in this thread alone: an engine that failed
/// would end the process, and with it the server whose store was copied.
pub(super) fn count_rows(store: &Path) -> Result<u64, DiskError> {
    let options = Options::default();
    let space = MergeSpace::new(store.to_owned(), options.free_bytes, 0);
    let tables = Tables::open(&store.join("tree"), 4 << 20, options.table_bytes, &space)?;
    let count = tables.range(&[], &[u8::MAX]).try_fold(0, |count, row| row.map(|_| count + 1));
    count.map_err(|error| match error {
        // The copy is damaged, not the store, which needs no repair.
        DiskError::Unreadable(what) => DiskError::NoBackup(format!("the copy cannot be read back: {what}")),
        other => other,
    })
}

/// Checks that the folder contains only files with one of the names `but`.
pub(super) fn refuse_full(folder: &Path, but: &[&str]) -> Result<(), DiskError> {
    let stays = |path: &PathBuf| path.file_name().is_some_and(|name| but.iter().any(|stays| name == *stays));
    match entries(folder)?.into_iter().find(|path| !stays(path)) {
        None => Ok(()),
        Some(first) => Err(DiskError::NotEmpty(first)),
    }
}

pub(super) fn entries(dir: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let found: Result<Vec<_>, _> =
        fs::read_dir(dir).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    found.map_err(DiskError::at(dir))
}

/// Syncs all files and folders of a tree.
pub(super) fn sync_tree(dir: &Path) -> Result<(), DiskError> {
    for path in entries(dir)? {
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            File::open(&path).and_then(|file| file.sync_all()).map_err(DiskError::at(&path))?;
        }
    }
    sync_dir(dir)
}

pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(DiskError::at(path))
}

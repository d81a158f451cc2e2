//! Copies of the store: online backup into a folder, and restore from it into an empty data folder.
//!
//! A backup is a data folder without lock and reserve: `store/` with freshly written tables of one consistent view, and
//! `backup.complete`, which is written last. Without that file a backup is not one.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::folder::{RESTORING, engine_folder, mark};
use super::lsm::LsmEngine;
use super::space::sync_dir;
use super::{DiskError, Engine, FolderLock, Options, lock, private};

const COMPLETE: &str = "backup.complete";

/// Writes a consistent copy of a live store into an empty (or new) folder while commits go on, and opens it once to
/// verify the number of rows. `progress` gets the rows written so far. Returns the number of rows.
///
/// # Errors
/// [`DiskError::NotEmpty`]; the file system's; [`DiskError::Corrupt`] if the copy does not read back.
pub fn backup(engine: &dyn Engine, to: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
    fs::create_dir_all(to).map_err(DiskError::at(to))?;
    refuse_full(to, "")?;
    // A folder of another user stays as it is: what is put into it is private all the same.
    let _ = private::keep(to);
    let store = engine_folder(to);
    let rows = engine.copy_to(&store, progress)?;
    let copy = LsmEngine::open(&store, &Options { cache_bytes: 4 << 20, ..Options::default() })?;
    let mut found = 0;
    copy.scan(&mut |_, _| {
        found += 1;
        super::Visit::Continue(())
    })?;
    drop(copy);
    if found != rows {
        return Err(DiskError::Corrupt(format!("the copy holds {found} rows instead of {rows}")));
    }
    mark(&store)?;
    sync_tree(to)?;
    write_synced(&to.join(COMPLETE), format!("{rows} rows\n").as_bytes())?;
    sync_dir(to)?;
    Ok(rows)
}

/// Copies a finished backup into the data folder that is held, empty but for its lock. `progress` gets the bytes copied so far.
///
/// # Errors
/// [`DiskError::NotEmpty`] if the data folder holds anything else; [`DiskError::Corrupt`] if the backup was never finished;
/// the file system's.
pub fn restore(from: &Path, held: &FolderLock, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
    if !from.join(COMPLETE).is_file() {
        return Err(DiskError::Corrupt(format!("{} is not a finished backup", from.display())));
    }
    let folder = held.folder();
    refuse_full(folder, lock::NAME)?;
    write_synced(&folder.join(RESTORING), b"")?;
    let mut bytes = 0;
    copy_tree(&engine_folder(from), &engine_folder(folder), &mut bytes, progress)?;
    sync_tree(folder)?;
    let unfinished = folder.join(RESTORING);
    fs::remove_file(&unfinished).map_err(DiskError::at(&unfinished))?;
    sync_dir(folder)?;
    Ok(bytes)
}

/// Makes sure that nothing is in the folder but what has the name `but`.
fn refuse_full(folder: &Path, but: &str) -> Result<(), DiskError> {
    match entries(folder)?.iter().all(|path| path.file_name().is_some_and(|name| name == but)) {
        true => Ok(()),
        false => Err(DiskError::NotEmpty(folder.to_owned())),
    }
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let found: Result<Vec<_>, _> =
        fs::read_dir(dir).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    found.map_err(DiskError::at(dir))
}

fn copy_tree(from: &Path, to: &Path, bytes: &mut u64, progress: &mut dyn FnMut(u64)) -> Result<(), DiskError> {
    fs::create_dir_all(to).map_err(DiskError::at(to))?;
    for path in entries(from)? {
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_tree(&path, &target, bytes, progress)?;
        } else {
            // Not `fs::copy`, which would copy the mode: a backup may have been open to others.
            let copied = File::open(&path).and_then(|mut file| std::io::copy(&mut file, &mut File::create(&target)?));
            *bytes += copied.map_err(DiskError::at(&target))?;
            progress(*bytes);
        }
    }
    Ok(())
}

/// Syncs all files and folders of a tree.
fn sync_tree(dir: &Path) -> Result<(), DiskError> {
    for path in entries(dir)? {
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            File::open(&path).and_then(|file| file.sync_all()).map_err(DiskError::at(&path))?;
        }
    }
    sync_dir(dir)
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), DiskError> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(DiskError::at(path))
}

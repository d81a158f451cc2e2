//! Copies of the store: online backup into a folder, and restore from it into an empty data folder.
//!
//! A backup is a data folder without lock and reserve: `store/` with freshly written tables of one consistent view, and
//! `backup.complete`, which is written last. Without that file a backup is not one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::folder::{RESTORING, engine_folder, mark};
use super::merge::MergeSpace;
use super::space::{sync_dir, sync_name};
use super::tables::Tables;
use super::{DiskError, Engine, FolderLock, Options, lock, private};

pub(super) const COMPLETE: &str = "backup.complete";

/// What may be in a data folder before a store is restored into it: what says how the server is to run.
const STAYING: [&str; 3] = [lock::NAME, "throng.toml", "tls"];

/// Writes a consistent copy of a live store into an empty (or new) folder while commits go on, and reads it once to
/// verify its checksums and the number of rows. `progress` gets the rows written so far. Returns the number of rows.
///
/// # Errors
/// [`DiskError::NotEmpty`]; the file system's; [`DiskError::NoBackup`] if the copy does not read back.
pub fn backup(engine: &dyn Engine, to: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
    fs::create_dir_all(to).map_err(DiskError::at(to))?;
    refuse_full(to, &[])?;
    // A folder of another user stays as it is: what is put into it is private all the same.
    let _ = private::keep(to);
    let store = engine_folder(to);
    let rows = engine.copy_to(&store, progress)?;
    let found = count_rows(&store)?;
    if found != rows {
        return Err(DiskError::NoBackup(format!("the copy holds {found} rows instead of {rows}")));
    }
    mark(&store)?;
    sync_tree(to)?;
    write_synced(&to.join(COMPLETE), complete(rows).as_bytes())?;
    sync_dir(to)?;
    sync_name(to)?;
    Ok(rows)
}

/// What the file that is written last says.
pub(super) fn complete(rows: u64) -> String {
    format!("{rows} rows\n")
}

/// Copies a finished backup into the data folder that is held and has no store yet. Returns the bytes copied; `progress` gets
/// those so far.
///
/// # Errors
/// [`DiskError::NoBackup`]; [`DiskError::NotEmpty`] if the data folder holds more than its lock, `throng.toml` and `tls`; the file
/// system's.
pub fn restore(from: &Path, held: &FolderLock, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
    refuse_unfinished(from)?;
    let folder = held.folder();
    refuse_full(folder, &STAYING)?;
    write_synced(&folder.join(RESTORING), b"")?;
    let mut bytes = 0;
    copy_tree(&engine_folder(from), &engine_folder(folder), &mut bytes, progress)?;
    sync_tree(folder)?;
    let unfinished = folder.join(RESTORING);
    fs::remove_file(&unfinished).map_err(DiskError::at(&unfinished))?;
    sync_dir(folder)?;
    sync_name(folder)?;
    Ok(bytes)
}

/// Reads all rows of a copy, with their checksums. By this thread alone: an engine that failed would end the process, and with
/// it the server whose store this is a copy of.
pub(super) fn count_rows(store: &Path) -> Result<u64, DiskError> {
    let options = Options::default();
    let space = MergeSpace::new(store.to_owned(), options.free_bytes, 0);
    let tables = Tables::open(&store.join("tree"), 4 << 20, options.table_bytes, &space)?;
    let count = tables.range(&[], &[u8::MAX]).try_fold(0, |count, row| row.map(|_| count + 1));
    count.map_err(|error| match error {
        // It is the copy that is damaged, and nothing is to be done about the store.
        DiskError::Unreadable(what) => DiskError::NoBackup(format!("the copy cannot be read back: {what}")),
        other => other,
    })
}

/// Makes sure that nothing is in the folder but what has one of the names `but`.
fn refuse_full(folder: &Path, but: &[&str]) -> Result<(), DiskError> {
    let stays = |path: &PathBuf| path.file_name().is_some_and(|name| but.iter().any(|stays| name == *stays));
    match entries(folder)?.into_iter().find(|path| !stays(path)) {
        None => Ok(()),
        Some(first) => Err(DiskError::NotEmpty(first)),
    }
}

/// Makes sure that the folder is a backup that was finished.
fn refuse_unfinished(from: &Path) -> Result<(), DiskError> {
    let lacks = |what: &str| Err(DiskError::NoBackup(format!("{} is no backup: {what}", from.display())));
    match fs::metadata(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return lacks("there is no such folder"),
        Err(error) => return Err(DiskError::at(from)(error)),
        Ok(found) if !found.is_dir() => return lacks("it is no folder"),
        Ok(_) => {}
    }
    if !engine_folder(from).is_dir() {
        return lacks("it has no folder `store`");
    }
    match from.join(COMPLETE).is_file() {
        true => Ok(()),
        false => lacks("it has no file `backup.complete`, which is written when a backup is finished"),
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

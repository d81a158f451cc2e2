//! Verifies a backup (`backup`), and restores a store from it.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use throng_engine::store::{Batch, OpView};

use super::backup::{COMPLETE, entries, refuse_full, sync_tree, write_synced};
use super::check::{self, Report, ValueCheck};
use super::folder::{RESTORING, engine_folder};
use super::format::{self, FORMAT_VERSION, FORMATS};
use super::lsm::LsmEngine;
use super::space::{sync_dir, sync_name};
use super::{DiskError, Engine, Finding, FolderLock, LockError, Options, copy, group, lock};

/// Changes a new store before it can be opened by anything else.
pub type Finish<'a> = &'a dyn Fn(&(dyn Engine + 'static)) -> Result<(), DiskError>;

/// Files that may exist in a data folder before a restore: configuration of the server.
const STAYING: [&str; 3] = [lock::NAME, "throng.toml", "tls"];

/// Reads every byte of a complete backup and changes nothing; `progress` is given the rows seen so
/// far.
///
/// # Errors
/// [`DiskError::NoBackup`] if it is not one; otherwise as [`check::check`].
pub fn verify(from: &Path, value: ValueCheck<'_>, progress: &mut dyn FnMut(u64)) -> Result<Report, DiskError> {
    refuse_unfinished(from)?;
    check::check(&held(from)?, value, progress)
}

/// A backup has no lock file; a data folder in use by a server has one.
fn held(from: &Path) -> Result<FolderLock, DiskError> {
    FolderLock::take_there(from).map_err(|error| match error {
        LockError::Io(error) => DiskError::at(from)(error),
        LockError::Held(who) => {
            DiskError::NoBackup(format!("{} is not a backup: it is in use ({who})", from.display()))
        }
        LockError::Unsafe(what) => DiskError::NoBackup(format!("{} cannot be used: {what}", from.display())),
    })
}

/// When a complete backup was made, by the clock of that time.
///
/// # Errors
/// [`DiskError::NoBackup`] if it is not one; the file system's.
pub fn made(from: &Path) -> Result<SystemTime, DiskError> {
    refuse_unfinished(from)?;
    let complete = from.join(COMPLETE);
    fs::metadata(&complete).and_then(|found| found.modified()).map_err(DiskError::at(&complete))
}

/// Copies a complete, undamaged backup into the locked data folder, which must have no store yet.
/// `finish` changes the new store before it can be opened by anything else. Returns the bytes
/// copied; `progress` is given those so far.
///
/// # Errors
/// [`DiskError::NoBackup`] if it is not one, or is damaged, [`DiskError::Newer`] and
/// [`DiskError::Older`], in which case nothing is copied. [`DiskError::NotEmpty`] if the data
/// folder holds more than its lock, `throng.toml` and `tls`; the file system's.
pub fn restore(
    from: &Path,
    into: &FolderLock,
    finish: Option<Finish<'_>>,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, DiskError> {
    refuse_unfinished(from)?;
    format::marked(&engine_folder(from), &FORMATS)?;
    let folder = into.folder();
    refuse_full(folder, &STAYING)?;
    let found = check::check(&held(from)?, &|_, _, _, _| Ok(()), &mut |_| {})?;
    if let Some(first) = found.findings.iter().map(Finding::to_string).chain(found.first_problems).next() {
        return Err(DiskError::NoBackup(format!(
            "the backup is damaged, and nothing was restored: {first}; `throng store backup verify \
             {0}` lists all damage, `throng store salvage --data {0} --into DIR` recovers intact \
             rows",
            from.display()
        )));
    }
    write_synced(&folder.join(RESTORING), b"")?;
    let mut bytes = 0;
    copy_tree(&engine_folder(from), &engine_folder(folder), &mut bytes, progress)?;
    sync_tree(folder)?;
    if let Some(finish) = finish {
        finish(&LsmEngine::open(&engine_folder(folder), &Options::default())?)?;
        sync_tree(folder)?;
    }
    let unfinished = folder.join(RESTORING);
    fs::remove_file(&unfinished).map_err(DiskError::at(&unfinished))?;
    sync_dir(folder)?;
    sync_name(folder)?;
    Ok(bytes)
}

/// A row's flat key and its value.
pub type Row = (Vec<u8>, Vec<u8>);

/// Rows and groups of the journal from which a store is made anew.
pub trait Pieces {
    /// The next row, in the order of the keys.
    ///
    /// # Errors
    /// It cannot be read.
    fn row(&mut self) -> Result<Option<Row>, DiskError>;

    /// After all rows: the operations (`group`) of the next group.
    ///
    /// # Errors
    /// It cannot be read.
    fn group(&mut self) -> Result<Option<Vec<u8>>, DiskError>;
}

/// Creates the store of the locked data folder, which must have none yet, from rows and the groups
/// that follow them. `finish` as in [`restore`]. Returns the number of rows and of groups.
///
/// # Errors
/// [`DiskError::NotEmpty`], [`DiskError::NoBackup`]; those of the pieces; the file system's.
pub fn rebuild(
    pieces: &mut dyn Pieces,
    into: &FolderLock,
    finish: Finish<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<(u64, u64), DiskError> {
    let folder = into.folder();
    refuse_full(folder, &STAYING)?;
    write_synced(&folder.join(RESTORING), b"")?;
    let store = engine_folder(folder);
    fs::create_dir_all(&store).map_err(DiskError::at(&store))?;
    let rows = std::iter::from_fn(|| pieces.row().transpose());
    let rows = copy::write_store(&store, rows.map(|row| row.map(|(key, value)| (key.into(), value.into()))), progress)?;
    format::mark(&store, FORMAT_VERSION)?;
    let engine = LsmEngine::open(&store, &Options::default())?;
    let (mut groups, mut batch) = (0, Batch::new());
    loop {
        let group = pieces.group()?;
        if let Some(group) = &group {
            groups += 1;
            for placed in group::operations(group) {
                let placed = placed.ok_or_else(|| DiskError::NoBackup("a group has no operations".into()))?;
                match placed.op {
                    OpView::Put { table, actor, sort, value } => batch.put(table, actor, sort, &[value]),
                    OpView::Delete { table, actor, sort } => batch.delete(table, actor, sort),
                    OpView::DeleteRange { table, actor, from, until } => batch.delete_range(table, actor, from, until),
                    OpView::DeleteActor { table, actor } => batch.delete_actor(table, actor),
                }
            }
        }
        if batch.bytes() >= REBUILT_BYTES || (group.is_none() && !batch.is_empty()) {
            engine.commit(std::slice::from_ref(&batch))?;
            batch.clear();
        }
        if group.is_none() {
            break;
        }
    }
    finish(&engine)?;
    drop(engine);
    sync_tree(folder)?;
    let unfinished = folder.join(RESTORING);
    fs::remove_file(&unfinished).map_err(DiskError::at(&unfinished))?;
    sync_dir(folder)?;
    sync_name(folder)?;
    Ok((rows, groups))
}

/// Bytes of groups per commit of a store that is made anew.
const REBUILT_BYTES: usize = 4 << 20;

/// Checks that the folder is a complete backup.
fn refuse_unfinished(from: &Path) -> Result<(), DiskError> {
    let lacks = |what: &str| Err(DiskError::NoBackup(format!("{} is not a backup: {what}", from.display())));
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

fn copy_tree(from: &Path, to: &Path, bytes: &mut u64, progress: &mut dyn FnMut(u64)) -> Result<(), DiskError> {
    fs::create_dir_all(to).map_err(DiskError::at(to))?;
    for path in entries(from)? {
        let target = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy_tree(&path, &target, bytes, progress)?;
        } else {
            // Not `fs::copy`, which would copy the mode: the backup may have been readable by
            // others.
            let copied = File::open(&path).and_then(|mut file| std::io::copy(&mut file, &mut File::create(&target)?));
            *bytes += copied.map_err(DiskError::at(&target))?;
            progress(*bytes);
        }
    }
    Ok(())
}

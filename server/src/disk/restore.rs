//! What is done with a backup (`backup`): it is verified, and a store is made from it again.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::backup::{COMPLETE, entries, refuse_full, sync_tree, write_synced};
use super::check::{self, Report, ValueCheck};
use super::folder::{RESTORING, engine_folder};
use super::format::{self, FORMATS};
use super::lsm::LsmEngine;
use super::space::{sync_dir, sync_name};
use super::{DiskError, Engine, Finding, FolderLock, LockError, Options, lock};

/// Changes a new store before anybody else can open it.
pub type Finish<'a> = &'a dyn Fn(&(dyn Engine + 'static)) -> Result<(), DiskError>;

/// What may be in a data folder before a store is restored into it: what says how the server is to run.
const STAYING: [&str; 3] = [lock::NAME, "throng.toml", "tls"];

/// Reads every byte of a finished backup and changes nothing; `progress` gets the rows seen so far.
///
/// # Errors
/// [`DiskError::NoBackup`] for what is none; otherwise as [`check::check`].
pub fn verify(from: &Path, value: ValueCheck<'_>, progress: &mut dyn FnMut(u64)) -> Result<Report, DiskError> {
    refuse_unfinished(from)?;
    check::check(&held(from)?, value, progress)
}

/// A backup has no lock of its own; a data folder that a server runs on is none.
fn held(from: &Path) -> Result<FolderLock, DiskError> {
    FolderLock::take_there(from).map_err(|error| match error {
        LockError::Io(error) => DiskError::at(from)(error),
        LockError::Held(who) => DiskError::NoBackup(format!("{} is no backup: it is in use ({who})", from.display())),
        LockError::Unsafe(what) => DiskError::NoBackup(format!("{} cannot be used: {what}", from.display())),
    })
}

/// When a finished backup was made, by the clock of that time.
///
/// # Errors
/// [`DiskError::NoBackup`] for what is none; the file system's.
pub fn made(from: &Path) -> Result<SystemTime, DiskError> {
    refuse_unfinished(from)?;
    let complete = from.join(COMPLETE);
    fs::metadata(&complete).and_then(|found| found.modified()).map_err(DiskError::at(&complete))
}

/// Copies a finished backup, in which every byte is as it was written, into the data folder that is held and has no store yet.
/// `finish` changes the new store before anybody else can open it. Returns the bytes copied; `progress` gets those so far.
///
/// # Errors
/// [`DiskError::NoBackup`] for what is none, or is damaged, [`DiskError::Newer`] and [`DiskError::Older`]: nothing is copied then. [`DiskError::NotEmpty`] if the data folder holds more than its
/// lock, `throng.toml` and `tls`; the file system's.
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
            "the backup is damaged, and nothing was restored: {first}; `throng store backup verify {0}` names all that is \
             damaged, `throng store salvage --data {0} --into DIR` brings out what is whole",
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

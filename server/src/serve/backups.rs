//! The backup of a running server: one at a time, on a thread of its own, polled until it ends.
//!
//! However that thread ends, the next backup may begin: an error or a panic only affects its own
//! backup.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::admin::{BackupState, Fault, FaultKind};
use crate::disk::DiskError;
use crate::end;
use crate::waits::{self, Mutex, Place};

/// The backup in progress, or finished and not yet reported.
pub(super) struct Backups(Mutex<Option<Backup>>);

struct Backup {
    to: PathBuf,
    progress: Arc<Mutex<Progress>>,
}

/// Number of rows so far, and the result once it has ended.
#[derive(Default)]
struct Progress {
    rows: u64,
    ended: Option<Result<u64, String>>,
}

impl Backups {
    pub(super) fn new() -> Backups {
        Backups(Mutex::new(Place::LockBackup, None))
    }

    /// Begins a backup into a folder with `work`, which receives a callback for the number of rows
    /// so far and returns the total; or reports the progress of the one into this folder. An end is
    /// reported once.
    ///
    /// # Errors
    /// `Busy` while one into another folder is in progress; `Internal` with the failure of this
    /// one.
    pub(super) fn ask(
        &self,
        to: &Path,
        work: impl FnOnce(&mut dyn FnMut(u64)) -> Result<u64, DiskError> + Send + 'static,
    ) -> Result<BackupState, Fault> {
        let internal = |text: String| Fault::new(FaultKind::Internal, text);
        let mut slot = self.0.lock();
        if let Some(backup) = slot.as_ref() {
            let mut progress = backup.progress.lock();
            let rows = progress.rows;
            if backup.to == to {
                let Some(result) = progress.ended.take() else { return Ok(BackupState { rows, done: false }) };
                drop(progress);
                *slot = None;
                return result.map(|rows| BackupState { rows, done: true }).map_err(internal);
            }
            // The client of a finished backup may never poll again.
            if progress.ended.is_none() {
                let text = format!("a backup into {} is under way, {rows} rows so far", backup.to.display());
                return Err(Fault::new(FaultKind::Busy, text));
            }
        }
        let progress = Arc::new(Mutex::new(Place::LockBackup, Progress::default()));
        let (own, folder) = (progress.clone(), to.to_owned());
        let work = move || {
            let done = end::survive(|| {
                #[cfg(debug_assertions)]
                crate::plant::pass("backup");
                work(&mut |rows| own.lock().rows = rows)
            });
            let result = done.and_then(|result| result.map_err(|error| in_words(&error, &folder)));
            if let Err(said) = &result {
                tracing::error!("a backup has failed: {said}");
            }
            own.lock().ended = Some(result);
        };
        waits::spawn("backup", work).map_err(|e| internal(e.to_string()))?;
        *slot = Some(Backup { to: to.to_owned(), progress });
        Ok(BackupState::default())
    }
}

/// The text of a backup's error. The server's user writes the backup, not the requesting user: if
/// permission is missing, the text names the server's user.
fn in_words(error: &DiskError, to: &Path) -> String {
    let DiskError::Io { source, .. } = error else { return error.to_string() };
    let uid = rustix::process::geteuid().as_raw();
    let user = user_name(uid);
    match source.kind() {
        ErrorKind::PermissionDenied => {
            // The existing part of the path, below which nothing could be created.
            let there = to.ancestors().find_map(|path| Some((path, path.metadata().ok()?)));
            let whose = there.map_or_else(String::new, |(path, meta)| {
                let (owner, mode) = (user_name(meta.uid()), meta.mode() & 0o7777);
                format!(": {} is {owner}'s, mode {mode:04o}", path.display())
            });
            format!(
                "{error}. The server writes the backup as user {user}, who cannot write \
                 there{whose}; create a folder owned by {user} and name one below it"
            )
        }
        ErrorKind::ReadOnlyFilesystem => format!(
            "{error}. The server writes the backup as user {user}, for which this is read-only; below systemd with \
             ProtectSystem= it takes a line ReadWritePaths= with the folder, or a folder below the data folder's parent"
        ),
        _ => error.to_string(),
    }
}

/// A user's name from the local list, with its id; the id alone if it is not listed.
fn user_name(uid: u32) -> String {
    let list = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = list.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| uid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn end(backups: &Backups, to: &str) -> Result<BackupState, Fault> {
        let began = Instant::now();
        loop {
            match backups.ask(Path::new(to), |_| panic!("one is under way")) {
                Ok(state) if !state.done => assert!(began.elapsed() < Duration::from_secs(30), "it never ends"),
                ended => return ended,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_backup_that_panics_fails_alone_and_the_next_one_may_begin() {
        let backups = Backups::new();
        let begun = backups.ask(Path::new("/a"), |progress| {
            progress(7);
            panic!("planted: the copy cannot be read")
        });
        assert!(begun.is_ok_and(|state| !state.done));
        let fault = end(&backups, "/a").expect_err("it failed");
        assert!(fault.text.contains("planted: the copy cannot be read"), "{fault:?}");
        assert!(backups.ask(Path::new("/b"), |_| Ok(5)).is_ok());
        assert_eq!(end(&backups, "/b").unwrap().rows, 5);
    }

    #[test]
    fn a_folder_that_the_server_may_not_write_is_said_with_the_servers_user() {
        let folder = tempfile::tempdir().expect("a folder");
        let denied = || DiskError::at(folder.path())(ErrorKind::PermissionDenied.into());
        let said = in_words(&denied(), &folder.path().join("today/backup"));
        let (user, mode) = (user_name(rustix::process::geteuid().as_raw()), "mode 0700");
        let whose = format!("{} is {user}'s, {mode}", folder.path().display());
        for part in ["permission denied", &format!("as user {user}, who cannot write there"), &whose] {
            assert!(said.contains(part), "{part} in {said}");
        }
        let read_only = DiskError::at(folder.path())(ErrorKind::ReadOnlyFilesystem.into());
        assert!(in_words(&read_only, folder.path()).contains("ReadWritePaths="));
        assert_eq!(user_name(0), "root");
        assert_eq!(user_name(4_000_000_001), "4000000001");
    }

    #[test]
    fn a_failure_is_told_once_and_an_end_that_nobody_asks_for_is_in_nobodys_way() {
        let backups = Backups::new();
        backups.ask(Path::new("/a"), |_| Err(DiskError::Corrupt("a block".into()))).unwrap();
        assert!(end(&backups, "/a").unwrap_err().text.contains("a block"));
        let (sender, go) = std::sync::mpsc::sync_channel::<()>(0);
        backups.ask(Path::new("/a"), move |_| Ok(go.recv().map_or(0, |()| 3))).unwrap();
        let busy = backups.ask(Path::new("/b"), |_| Ok(1)).unwrap_err();
        assert_eq!(busy.kind, FaultKind::Busy);
        sender.send(()).unwrap();
        let began = Instant::now();
        while backups.ask(Path::new("/b"), |_| Ok(1)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(30), "the other has ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(end(&backups, "/b").unwrap().rows, 1);
    }
}

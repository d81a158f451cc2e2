//! Who may read a data folder: its owner, nobody else.
//!
//! What the program makes is private by its umask (`cli::main`). This is about a folder that was there before: a copy that was unpacked,
//! a mount point, one that an operator made.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::process::geteuid;

/// What a data folder has that is the program's. Other files in it are the operator's, who may mean their modes.
const OWN: [&str; 8] =
    ["store", "recorder", "tls", "throng.lock", "reserve", "http.token", "push.key", "backup.complete"];

/// Bits of a mode that let others than the owner in.
const OTHERS: u32 = 0o077;

/// Why a folder cannot hold what only its owner may read.
#[derive(Debug)]
pub(super) enum Unsafe {
    /// In words.
    Others(String),
    /// It cannot be looked at or changed.
    Io(io::Error),
}

impl From<io::Error> for Unsafe {
    fn from(error: io::Error) -> Unsafe {
        Unsafe::Io(error)
    }
}

/// Makes sure that nobody but this process's user can enter the folder. Returns what was changed, in words.
///
/// # Errors
/// The folder is another user's, or reached by a link that another user could change; or the file system's.
pub(super) fn keep(folder: &Path) -> Result<Option<String>, Unsafe> {
    let us = geteuid().as_raw();
    let shown = folder.display();
    let link = fs::symlink_metadata(folder)?;
    if link.is_symlink() && link.uid() != us && link.uid() != 0 {
        let text = format!("{shown} is a symbolic link of user {}, who could lead it elsewhere", link.uid());
        return Err(Unsafe::Others(text));
    }
    // What is looked at and what is changed is one folder, whatever happens to the name.
    let open = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(folder)?;
    let found = open.metadata()?;
    if found.uid() != us {
        let text = format!(
            "{shown} belongs to user {} and this is user {us}: run throng as its owner, or give it away \
             (chown -R {us} {shown})",
            found.uid()
        );
        return Err(Unsafe::Others(text));
    }
    let before = found.mode() & 0o7777;
    if before & OTHERS == 0 {
        return Ok(None);
    }
    open.set_permissions(Permissions::from_mode(0o700))?;
    for name in OWN {
        tighten(&folder.join(name))?;
    }
    Ok(Some(format!("{shown} was open to other users (mode {before:04o}): it is 0700 now, and what is in it 0600")))
}

/// Takes a file, or a folder with all that is in it, from others. Links are left alone, and so is what is not there.
fn tighten(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.is_dir() && !found.is_file() {
        return Ok(());
    }
    if found.mode() & OTHERS != 0 {
        let open = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path);
        open.and_then(|open: File| open.set_permissions(Permissions::from_mode(found.mode() & 0o700)))?;
    }
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            tighten(&entry?.path())?;
        }
    }
    Ok(())
}

//! Access to a data folder: only its owner may read it.
//!
//! Files that the program creates are private by its umask (`cli::main`). This module handles
//! existing folders: an unpacked copy, a mount point, one created by an operator.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::process::geteuid;

/// The program's own entries of a data folder. Other files belong to the operator, whose modes may
/// be intentional.
const OWN: [&str; 11] = [
    "store",
    "recorder",
    "tls",
    "acme",
    "upload",
    "throng.lock",
    "clock",
    "reserve",
    "http.token",
    "push.key",
    "backup.complete",
];

/// Mode bits that grant access to others than the owner.
const OTHERS: u32 = 0o077;

/// Why a folder cannot hold private data.
#[derive(Debug)]
pub(super) enum Unsafe {
    /// A description.
    Others(String),
    /// It cannot be inspected or changed.
    Io(io::Error),
}

impl From<io::Error> for Unsafe {
    fn from(error: io::Error) -> Unsafe {
        Unsafe::Io(error)
    }
}

/// Ensures that only this process's user can enter the folder. Returns a description of what was
/// changed.
///
/// # Errors
/// The folder belongs to another user, or is reached by a link that another user could change; or
/// the file system's.
pub(super) fn keep(folder: &Path) -> Result<Option<String>, Unsafe> {
    let us = geteuid().as_raw();
    let shown = folder.display();
    let link = fs::symlink_metadata(folder)?;
    if link.is_symlink() && link.uid() != us && link.uid() != 0 {
        let text = format!("{shown} is a symbolic link owned by user {}, who could redirect it", link.uid());
        return Err(Unsafe::Others(text));
    }
    // The same folder is inspected and changed, whatever happens to its name.
    let open = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(folder)?;
    let found = open.metadata()?;
    if found.uid() != us {
        let text = format!(
            "{shown} belongs to user {}, but throng runs as user {us}: run it as the owner, or \
             change the owner (chown -R {us} {shown})",
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
    Ok(Some(format!(
        "{shown} was accessible to other users (mode {before:04o}); changed to 0700, and its files \
         to 0600"
    )))
}

/// Removes others' access to a file, or to a folder with all its content. Links and missing files
/// are ignored.
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

//! Commands of root on the data folder of another user run as that user: root neither follows what
//! that user could have put there, nor leaves files that the server cannot read.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use super::Failure;

/// Begins this process anew as the owner of `folder`, if it runs as root and the owner is another
/// user. Supplementary groups are dropped.
///
/// # Errors
/// The program cannot be run as that user.
pub(super) fn run_as_owner(folder: &Path) -> Result<(), Failure> {
    // Links and missing folders are judged when the folder is locked.
    let Ok(found) = std::fs::symlink_metadata(folder) else { return Ok(()) };
    if !rustix::process::geteuid().is_root() || !found.is_dir() || found.uid() == 0 {
        return Ok(());
    }
    let mut command = Command::new("/proc/self/exe");
    let error = command.args(std::env::args_os().skip(1)).uid(found.uid()).gid(found.gid()).exec();
    let (uid, folder) = (found.uid(), folder.display());
    Err(Failure::failed(format!("cannot run as user {uid}, who owns {folder}: {error}")))
}

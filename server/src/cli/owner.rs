//! Commands of root on the data folder of another user run as that user: root neither follows what
//! that user could have put there, nor leaves files that the server cannot read.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use throng_sys::calls::groups_of;

use super::Failure;

/// Begins this process anew as the owner of `folder`, if it runs as root and the owner is another
/// user. It has that user's groups, so that it may read what the server may read.
///
/// # Errors
/// The program cannot be run as that user.
pub(super) fn run_as_owner(folder: &Path) -> Result<(), Failure> {
    // A missing folder is judged when it is locked.
    let (Ok(link), Ok(found)) = (std::fs::symlink_metadata(folder), std::fs::metadata(folder)) else { return Ok(()) };
    let is_root = rustix::process::geteuid().is_root();
    // A link of somebody else could lead to the folder of a third user: it is refused there as well.
    let is_trusted = link.uid() == 0 || link.uid() == found.uid();
    if !is_root || !found.is_dir() || !is_trusted || found.uid() == 0 {
        return Ok(());
    }
    let error = become_user(found.uid(), found.gid())
        .map_or_else(|error| error, |()| Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).exec());
    let (uid, folder) = (found.uid(), folder.display());
    Err(Failure::failed(format!("cannot run as user {uid}, who owns {folder}: {error}")))
}

/// Gives this thread another user, for good.
fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    let groups: Vec<Gid> = groups_of(uid, gid)?.into_iter().map(Gid::from_raw).collect();
    set_thread_groups(&groups)?;
    set_thread_gid(Gid::from_raw(gid))?;
    Ok(set_thread_uid(Uid::from_raw(uid))?)
}

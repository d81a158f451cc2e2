//! A server within another command: on a temporary folder of its own, over a given network.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;

use throng_engine::id::Domains;

use super::addresses::Addresses;
use super::invites::Inviting;
use super::stop::{Stopped, stop};
use super::{Process, Throng, accounts, open, settings, start};
use crate::admin::{Accounts, Existing, NewAccount, ScramKeys};
use crate::bench::{DOMAIN, During, Host, Network, PASSWORD, Plan, users};
use crate::cli::Failure;
use crate::cli::accounts::lock_failure;
use crate::config::{Environment, Flags, Loaded, LogFormat, LogLevel, load};
use crate::disk::FolderLock;
use crate::entropy::Entropy;
use crate::log::{self, Secret};
use crate::service::Sockets;

/// Iterations of the users' keys: the minimum, because these keys never leave the process.
const ITERATIONS: u32 = throng_engine::limits::SCRAM_ITERATIONS_MIN;

/// Attempts to find a free name.
const NAMES_MAX: usize = 16;

/// A folder that is removed with its content.
struct Folder(PathBuf);

impl Folder {
    /// Creates a folder with an unpredictable name below the system's temporary folder: other users
    /// may write there, and an existing folder would be theirs.
    fn new() -> std::io::Result<Folder> {
        let mut entropy = Entropy::open()?;
        let mut taken = None;
        for _ in 0..NAMES_MAX {
            let name = u64::from_le_bytes(entropy.fresh()?);
            let path = std::env::temp_dir().join(format!("throng-bench-{name:016x}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => taken = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(taken.expect("each name was taken"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The options of such a server; environment and files are ignored.
fn options(folder: &Folder, plan: &Plan, shards: u16) -> Result<Loaded, String> {
    let given = [
        ("data", folder.0.display().to_string()),
        ("domain", DOMAIN.to_owned()),
        ("c2s", "127.0.0.1:0".to_owned()),
        ("c2s_tls", "off".to_owned()),
        ("plain_auth", "true".to_owned()),
        ("archive", plan.archive.to_string()),
        ("shards", shards.to_string()),
    ];
    let flags: Flags = given.into_iter().map(|(key, value)| (key, vec![value])).collect();
    load(&flags, &Environment::new(), None).map_err(|problems| problems.to_string())
}

fn text(failure: Failure) -> String {
    failure.text
}

impl Host for Throng {
    fn with_server(&self, plan: &Plan, shards: u16, network: Network, during: &mut During<'_>) -> Result<(), String> {
        let folder = Folder::new().map_err(|error| error.to_string())?;
        let loaded = options(&folder, plan, shards)?;
        let lock = FolderLock::take(&folder.0, "bench").map_err(|error| text(lock_failure(&loaded.config, error)))?;
        let store = open(&loaded.config, &lock).map_err(text)?;
        settings::claim_domain(&*store.engine(), DOMAIN).map_err(text)?;
        // All users have one password and one salt, so that their keys are derived once.
        let keys = ScramKeys::derive(&Secret::new(PASSWORD.to_owned()), ITERATIONS, &[7; 16])?;
        let made = users(plan).map(|user| NewAccount { user, keys: keys.clone() }).collect();
        let at_rest = accounts::AtRest::new(store.engine(), Domains::of_users(DOMAIN), Inviting::of(&loaded.config));
        at_rest.put(made, Existing::Update).map_err(|fault| fault.to_string())?;
        let log = log::start(LogLevel::Error, LogFormat::Human).map_err(|error| error.to_string())?;
        let addresses = Addresses::of(&loaded, Sockets::default()).map_err(text)?;
        let process = Process { wishes: Arc::default(), log, manager: Arc::default(), addresses };
        let (server, running) =
            start(&loaded, store, None, &process, &network, settings::Given::default()).map_err(text)?;
        let peers = server.peers.clone();
        let result = during(&|| peers.iter().for_each(crate::driver::Peer::wake));
        running.begin_stop();
        let (grace, hard) = (loaded.config.shutdown_grace_seconds, loaded.config.shutdown_hard_seconds);
        let stopped = match stop(server, grace, hard).map_err(text) {
            Ok(Stopped::Whole { .. }) => Ok(()),
            Ok(Stopped::Cut(left)) => Err(left),
            Err(error) => Err(error),
        };
        result.and(stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_folder_is_new_its_name_not_to_be_guessed_and_its_owners_alone() {
        let (one, other) = (Folder::new().expect("a folder"), Folder::new().expect("another"));
        assert_ne!(one.0, other.0);
        assert!(!one.0.to_string_lossy().ends_with(&format!("-{}", std::process::id())));
        assert_eq!(std::fs::metadata(&one.0).expect("it is there").mode() & 0o777, 0o700);
        let path = one.0.clone();
        drop(one);
        assert!(!path.exists());
    }
}

//! Access to the accounts, in the store at rest or through the running server; and passwords on
//! their way to keys.
//!
//! The lock of the folder decides which of the two is used. The system holds that lock for as long
//! as its holder lives, so a store is never opened twice.

use std::path::Path;
use std::time::{Duration, Instant};

use throng_engine::limits::PASSWORD_BYTES_MAX;
use throng_engine::wire::jid::Jid;

use super::{Access, Exit, Failure, Io, Program};
use crate::admin::Accounts;
use crate::admin::client::{AskError, Client, Remote};
use crate::config::{Config, Loaded, SYSTEM_FILE, Source, read_domain};
use crate::disk::{FolderLock, LockError};

/// Longest wait for a holder of the lock without a control socket: a starting server, or another
/// command.
const HOLDER_WAIT: Duration = Duration::from_secs(5);

/// Accounts and their backing: the store closes before its lock is released.
pub struct Opened {
    /// The accounts.
    pub accounts: Box<dyn Accounts>,
    /// The domain of names without one.
    pub domain: String,
    /// Whether a running server serves them.
    pub running: bool,
    _lock: Option<FolderLock>,
}

#[cfg(test)]
impl Opened {
    /// Accounts created by a test.
    pub(super) fn at_rest(accounts: Box<dyn Accounts>, domain: &str) -> Opened {
        Opened { accounts, domain: domain.into(), running: false, _lock: None }
    }
}

/// Opens the accounts. `doing` is written into the lock. `user` is the subject of the command, if
/// it is one user: `romeo@example.org` gives the domain of a new store, if nothing else does.
///
/// # Errors
/// `InUse`, `NoServer` (no permission), `Usage` (another domain, or none for a new store), and the
/// errors of the store.
pub fn open(
    loaded: &Loaded,
    doing: &str,
    user: Option<&str>,
    program: &dyn Program,
    io: &mut Io,
) -> Result<Opened, Failure> {
    let config = &loaded.config;
    let configured = (*loaded.source("domain") != Source::Default).then(|| config.domain.clone());
    let is_main = |domain: &String| !config.virtual_hosts.iter().any(|other| other.0 == *domain);
    let of_user =
        || user.and_then(|user| user.split_once('@')).and_then(|(_, domain)| read_domain(domain)).filter(is_main);
    let access = match doing {
        "list" | "show" => Access::Read,
        "passwd" | "del" | "suspend" | "resume" | "approve" | "reject" | "invite" | "revoke" | "dismiss" | "room" => {
            Access::Change
        }
        _ => Access::Make,
    };
    let end = Instant::now() + HOLDER_WAIT;
    let is_new = access == Access::Make && !config.data.exists();
    let (accounts, lock): (Box<dyn Accounts>, _) = loop {
        let taken = match access {
            Access::Read => FolderLock::take_there(&config.data),
            Access::Change if !config.data.is_dir() => return Err(no_folder(config)),
            Access::Change | Access::Make => FolderLock::take(&config.data, doing),
        };
        match taken {
            Ok(lock) => {
                tell_tightened(&lock, io);
                let domain = match access {
                    Access::Make => configured.clone().or_else(of_user),
                    Access::Read | Access::Change => configured.clone(),
                };
                break (program.accounts(config, &lock, access, domain.as_deref())?, Some(lock));
            }
            Err(LockError::Held(who)) => match Client::connect(&config.admin_socket_path()) {
                Ok(client) => break (Box::new(Remote::new(client)), None),
                Err(AskError::NotRunning(_)) if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
                Err(AskError::NotRunning(_)) => return Err(lock_failure(config, LockError::Held(who))),
                Err(error) => return Err(ask_failure(error)),
            },
            Err(error) => return Err(lock_failure(config, error)),
        }
    };
    if is_new {
        io.tell(format!("new data folder: {}", config.data.display()));
    }
    let domain = accounts.domain()?;
    if configured.is_some_and(|configured| configured != domain) {
        let text = format!("the accounts in {} belong to {domain}, not to {}", config.data.display(), config.domain);
        return Err(Failure::new(Exit::Usage, text));
    }
    Ok(Opened { accounts, domain, running: lock.is_none(), _lock: lock })
}

/// The bare JID that `localpart` or `localpart@domain` denotes. An invalid one is returned as
/// given: the accounts report the reason.
///
/// # Errors
/// There is no localpart.
pub fn bare(user: &str, main: &str) -> Result<String, String> {
    let jid = match user.split_once('@') {
        Some(("", _)) => return Err("the localpart is empty".into()),
        Some(_) => user.to_owned(),
        None if user.is_empty() => return Err("the localpart is empty".into()),
        None => format!("{user}@{main}"),
    };
    Ok(Jid::parse(&jid).map_or(jid, |jid| jid.as_str().to_owned()))
}

/// Refuses a password that is empty or longer than [`PASSWORD_BYTES_MAX`].
///
/// # Errors
/// Which of the two applies.
pub fn password_fits(password: &str) -> Result<(), String> {
    match password.len() {
        0 => Err("the password is empty".into()),
        bytes if bytes > PASSWORD_BYTES_MAX => {
            Err(format!("the password is too long: the limit is {PASSWORD_BYTES_MAX} bytes"))
        }
        _ => Ok(()),
    }
}

/// Reports that a data folder was accessible to other users until it was locked.
pub fn tell_tightened(lock: &FolderLock, io: &mut Io) {
    if let Some(word) = lock.tightened() {
        io.tell(format!("the data folder {word}"));
    }
}

/// The failure for a lock that could not be acquired.
pub fn lock_failure(config: &Config, error: LockError) -> Failure {
    let folder = config.data.display();
    match error {
        LockError::Held(who) if who.is_empty() => {
            Failure::new(Exit::InUse, format!("the data folder {folder} is in use by another process"))
        }
        LockError::Held(who) => {
            Failure::new(Exit::InUse, format!("the data folder {folder} is in use by another throng ({who})"))
        }
        LockError::Unsafe(text) => Failure::failed(format!("the data folder {text}")),
        LockError::Io(error) => Failure::failed(format!("the data folder {folder} cannot be used: {error}")),
    }
}

/// The same, with a hint for the case that a server holds the lock.
pub fn in_use(config: &Config, error: LockError, hint: &str) -> Failure {
    let held = matches!(error, LockError::Held(_));
    let failure = lock_failure(config, error);
    if held { Failure::new(failure.exit, format!("{}: {hint}", failure.text)) } else { failure }
}

/// The failure for a missing data folder, where none is created.
pub fn no_folder(config: &Config) -> Failure {
    Failure::failed(format!("no such data folder: {}", config.data.display()))
}

/// The failure for a server that did not answer.
pub fn ask_failure(error: AskError) -> Failure {
    match error {
        AskError::Fault(fault) => fault.into(),
        AskError::NotRunning(_) | AskError::Denied(_) => Failure::new(Exit::NoServer, error.to_string()),
        AskError::Broken(_) => Failure::failed(error),
    }
}

/// The flags that point another command to the same data folder; empty for the default folder, and
/// for that of the host's configuration.
pub fn place_flags(loaded: &Loaded) -> String {
    if loaded.file.as_deref() == Some(Path::new(SYSTEM_FILE)) {
        return String::new();
    }
    match loaded.source("data") {
        Source::Default => String::new(),
        _ => format!(" --data {}", loaded.config.data.display()),
    }
}

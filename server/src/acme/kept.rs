//! The folder of an authority: `@account.json`, and for each name `NAME.pem` (the key, then the
//! chain) and `NAME.json` (the outcome of the last order).
//!
//! A key and its certificate are one file, so that no crash can leave one without the other. Files
//! have mode 0600 in folders of mode 0700, and are replaced as a whole.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use instant_acme::AccountCredentials;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::tls::{CertificateError, CertificateSource, Certificates, Issued, private_folder, write_whole};

/// The name of the folder in the data folder.
const FOLDER: &str = "acme";

/// The folder of an authority, by the address of its directory: what another one has signed, such
/// as a staging server, is never used in its place.
pub fn folder(data: &Path, directory: &str) -> PathBuf {
    let address = directory.strip_prefix("https://").unwrap_or(directory);
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    data.join(FOLDER).join(address.trim_start_matches('.').chars().map(plain).collect::<String>())
}

/// The file of a name, in ASCII, in the folder of an authority.
pub fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.pem"))
}

/// An account, as stored.
#[derive(Deserialize)]
pub(super) struct Kept {
    pub(super) contact: String,
    pub(super) credentials: AccountCredentials,
}

/// The same, to be stored.
#[derive(Serialize)]
struct Keeping<'a> {
    contact: &'a str,
    credentials: &'a AccountCredentials,
}

/// The outcome of a name's orders. It is stored, so that a server that is restarted again and again
/// does not exceed the authority's limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Attempts {
    /// When the last certificate came, in seconds since 1970; 0 if none did.
    pub(super) obtained_s: i64,
    /// Number of failures since then.
    pub(super) failed: u32,
    /// The earliest time of the next order, in seconds since 1970.
    pub(super) not_before_s: i64,
    /// Why the last one failed.
    pub(super) fault: Option<String>,
}

/// The folder.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn open(folder: &Path) -> Result<Folder, String> {
        private_folder(folder).map_err(|error| error.to_string())?;
        let folder = Folder(folder.to_owned());
        // Its earlier name, which is also that of the file of a domain `account`.
        let before = folder.0.join("account.json");
        if !folder.account_file().exists() && read::<Kept>(&before).is_ok_and(|kept| kept.is_some()) {
            fs::rename(&before, folder.account_file()).map_err(|error| format!("{}: {error}", before.display()))?;
        }
        Ok(folder)
    }

    /// No domain has an `@` in its name.
    fn account_file(&self) -> PathBuf {
        self.0.join("@account.json")
    }

    /// The account; `None` if there is none yet. One that cannot be read is not replaced silently.
    pub(super) fn account(&self) -> Result<Option<Kept>, String> {
        read(&self.account_file())
    }

    pub(super) fn keep_account(&self, contact: &str, credentials: &AccountCredentials) -> Result<(), String> {
        write(&self.account_file(), &Keeping { contact, credentials })
    }

    /// The same account with another contact.
    pub(super) fn keep_contact(&self, contact: &str) -> Result<(), String> {
        let Some(Kept { credentials, .. }) = self.account()? else { return Ok(()) };
        self.keep_account(contact, &credentials)
    }

    pub(super) fn forget_account(&self) {
        // If it stays, the next attempt fails like this one.
        let _ = fs::remove_file(self.account_file());
    }

    /// The certificate of a name; `None` if there is none that a server could load.
    pub(super) fn issued(&self, name: &str) -> Option<Issued> {
        Certificates::issued(&source(&file(&self.0, name))).ok()
    }

    /// Puts a new certificate in place of the one before, if it can be used.
    pub(super) fn keep(&self, name: &str, pem: &str) -> Result<Issued, String> {
        let (file, new) = (file(&self.0, name), self.0.join(format!("{name}.new")));
        write_whole(&new, pem.as_bytes()).map_err(|error| error.to_string())?;
        let issued = Certificates::issued(&source(&new)).map_err(|error| error.to_string())?;
        let replace = || {
            fs::rename(&new, &file)?;
            fs::File::open(&self.0)?.sync_all()
        };
        replace().map_err(|error| CertificateError::Write(file.clone(), error).to_string())?;
        Ok(issued)
    }

    /// The outcome of a name's orders so far. What cannot be read is forgotten: it only delays.
    pub(super) fn attempts(&self, name: &str) -> Attempts {
        read(&self.attempts_file(name)).ok().flatten().unwrap_or_default()
    }

    pub(super) fn keep_attempts(&self, name: &str, attempts: &Attempts) -> Result<(), String> {
        write(&self.attempts_file(name), attempts)
    }

    fn attempts_file(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.json"))
    }
}

fn source(file: &Path) -> CertificateSource {
    CertificateSource { names: Vec::new(), chain: file.to_owned(), key: file.to_owned(), made_here: false }
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<Option<T>, String> {
    let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", file.display());
    match fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(&error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(&error)),
    }
}

fn write(file: &Path, what: &impl Serialize) -> Result<(), String> {
    let bytes = serde_json::to_vec(what).map_err(|error| error.to_string())?;
    write_whole(file, &bytes).map_err(|error| error.to_string())
}

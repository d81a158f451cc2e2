//! What a data folder remembers of its backup: `backup.json`, the identity of the store and the
//! place where it continues. It is lost without harm: the next backup begins with a full piece.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::random;

const NAME: &str = "backup.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// Identity of the store, whichever folder it is in.
    pub(super) store: String,
    /// The generation that this folder continues.
    #[serde(default)]
    pub(super) generation: Option<String>,
    /// The place that has it.
    #[serde(default)]
    pub(super) url: String,
    /// Format of its rows.
    #[serde(default)]
    pub(super) format: u32,
    /// The first group of a piece of the journal that is in the backup, and the group after its
    /// last one.
    #[serde(default)]
    pub(super) first: u64,
    #[serde(default)]
    pub(super) end: u64,
}

impl State {
    /// Of a folder; new if there is none or it cannot be read.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn read(folder: &Path) -> Result<State, String> {
        match fs::read(folder.join(NAME)) {
            Ok(bytes) => serde_json::from_slice(&bytes).or_else(|_| State::new()),
            Err(error) if error.kind() == ErrorKind::NotFound => State::new(),
            Err(error) => Err(format!("{}: {error}", folder.join(NAME).display())),
        }
    }

    fn new() -> Result<State, String> {
        Ok(State { store: random()?, generation: None, url: String::new(), format: 0, first: 0, end: 0 })
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let (path, unfinished) = (folder.join(NAME), folder.join("backup.unfinished"));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(unfinished, path)
    }
}

/// Makes a restored folder continue the backup of the store with this identity.
///
/// # Errors
/// The file system's.
pub fn adopt(folder: &Path, store: &str) -> Result<(), String> {
    let state = State { store: store.to_owned(), ..State::new()? };
    state.write(folder).map_err(|error| format!("{}: {error}", folder.join(NAME).display()))
}

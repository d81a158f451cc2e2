//! Errors of the store, by what the caller can do about them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error of the store.
#[derive(Debug)]
pub enum DiskError {
    /// No space on the device (or the quota is exhausted): nothing was promised, and the call may
    /// be repeated later.
    OutOfSpace(String),
    /// The store was written by a newer version.
    Newer {
        /// The store's folder.
        folder: PathBuf,
        /// Format version found.
        found: u32,
        /// Newest format version known here.
        known: u32,
    },
    /// The store was written by a version before the first release, in a form that is no longer
    /// supported.
    Older {
        /// The store's folder.
        folder: PathBuf,
        /// Format version found.
        found: u32,
        /// The supported format version.
        known: u32,
    },
    /// The rows have an earlier format, which can be migrated to this program's.
    NotMigrated {
        /// The store's folder.
        folder: PathBuf,
        /// Format version found.
        found: u32,
        /// The supported format version.
        known: u32,
    },
    /// An import of these partitions was interrupted: some of their rows may be missing.
    Importing(Vec<u16>),
    /// A partition to be imported already has rows.
    Occupied {
        /// The partition.
        partition: u16,
        /// An actor that has rows in it.
        actor: String,
    },
    /// The file to import is not a complete export.
    BadExport(String),
    /// A folder that must be empty contains this.
    NotEmpty(PathBuf),
    /// The folder to restore or verify is not a complete backup.
    NoBackup(String),
    /// A part of the store is missing.
    Lacks(PathBuf),
    /// A folder that must contain a store has none.
    NoStore(PathBuf),
    /// A checksum does not match, or a structure cannot be read.
    Corrupt(String),
    /// A row cannot be read because its file is damaged; all others can.
    Unreadable(String),
    /// The file system failed; never retried, because after a failed sync the content of the disk
    /// is unknown.
    Io {
        /// The failed operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl DiskError {
    /// Classifies a system error: out of space, or final.
    pub fn from_io(what: impl Into<String>, source: io::Error) -> DiskError {
        let what = what.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                DiskError::OutOfSpace(format!("{what}: {source}"))
            }
            _ => DiskError::Io { what, source },
        }
    }

    /// The same, with the path in the message.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> DiskError {
        move |source| DiskError::from_io(path.display().to_string(), source)
    }

    /// Whether the call may be repeated when there is space again.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, DiskError::OutOfSpace(_))
    }
}

/// Advice about a store with damaged or missing parts.
const HELP: &str = "`throng store check` lists all damage, `throng store salvage` recovers intact \
                    rows, and `throng store restore` restores a backup";

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::OutOfSpace(what) => write!(f, "no space left for the store: {what}"),
            DiskError::Newer { folder, found, known } => write!(
                f,
                "the store in {} has format {found}, and this program supports formats up to \
                 {known}; nothing was changed. Use the version that wrote it, or a newer one",
                folder.display()
            ),
            DiskError::Older { folder, found, known } => write!(
                f,
                "the store in {} has format {found}, which was never released, and this program \
                 reads format {known}; nothing was changed. Start with an empty data folder \
                 (--data DIR), or use the version that wrote it",
                folder.display()
            ),
            DiskError::NotMigrated { folder, found, known } => write!(
                f,
                "the store in {} has format {found}, and this program uses format {known}. `throng \
                 store migrate` upgrades it in place, and so does starting the server; make a \
                 backup first to be able to go back",
                folder.display()
            ),
            DiskError::Importing(partitions) => write!(
                f,
                "an import into the store was interrupted, and rows of {} may be missing: repeat \
                 the same import (`throng store import FILE`), or delete its rows (`throng store \
                 import --abandon`)",
                named(partitions)
            ),
            DiskError::Occupied { partition, actor } => {
                write!(
                    f,
                    "partition {partition} of the store already has rows, for example of {actor}; \
                     nothing was changed. --replace deletes existing rows of the imported \
                     partitions"
                )
            }
            DiskError::BadExport(what) => f.write_str(what),
            DiskError::NotEmpty(path) => {
                write!(
                    f,
                    "the folder is not empty: it contains {}; use an empty folder, or move it away",
                    path.display()
                )
            }
            DiskError::NoBackup(what) => f.write_str(what),
            DiskError::Lacks(path) => write!(
                f,
                "the store is incomplete: {} is missing, and nothing was changed. If the store was \
                 copied, copy that file as well, as a user who can read it; otherwise {HELP}",
                path.display()
            ),
            DiskError::NoStore(path) => write!(f, "no store in {}", path.display()),
            DiskError::Corrupt(what) => write!(f, "the store is damaged: {what}; {HELP}"),
            DiskError::Unreadable(what) => write!(f, "part of the store cannot be read: {what}; {HELP}"),
            DiskError::Io { what, source } => write!(f, "the file system failed: {what}: {source}"),
        }
    }
}

/// The first few partitions, and how many more there are.
fn named(partitions: &[u16]) -> String {
    let first: Vec<String> = partitions.iter().take(5).map(u16::to_string).collect();
    let more = partitions.len() - first.len();
    let word = if partitions.len() == 1 { "partition" } else { "partitions" };
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{word} {}{more}", first.join(", "))
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DiskError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<lsm_tree::Error> for DiskError {
    fn from(error: lsm_tree::Error) -> DiskError {
        match error {
            lsm_tree::Error::Io(source) => DiskError::from_io("tables", source),
            other => DiskError::Corrupt(other.to_string()),
        }
    }
}

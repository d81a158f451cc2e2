//! Accounts moved between servers by files of the Portable Import/Export Format (XEP-0227): the
//! files, and the store.
//!
//! `read` reads files element by element and trusts nothing in them; the engine interprets the
//! elements (`throng_engine::portable`). `import`(fn@import) and `export`(fn@export) move data
//! between files and a store at rest.

mod export;
mod import;
mod parts;
mod read;
pub mod rooms;
mod sources;
mod summary;
mod write;

#[cfg(test)]
mod rooms_tests;
#[cfg(test)]
mod tests;

pub use export::{Export, Layout, export};
pub use import::{Import, abandon, import};
pub use sources::{Format, recognise};
pub use summary::{Note, Summary};

/// Why files cannot be read or written: the fault, its place, and the remedy.
#[derive(Debug)]
pub enum Wrong {
    /// A file.
    File(String),
    /// The store.
    Store(crate::disk::DiskError),
}

impl From<crate::disk::DiskError> for Wrong {
    fn from(error: crate::disk::DiskError) -> Wrong {
        Wrong::Store(error)
    }
}

/// What an import does with an account that exists already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// The account is left alone, so that an interrupted import can be repeated.
    Skip,
    /// All its data is removed first.
    Replace,
    /// The import ends.
    Refuse,
}

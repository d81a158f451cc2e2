//! Accounts moved from and to other servers by files of the Portable Import/Export Format (XEP-0227): the files, and the store.
//!
//! `read` reads files element by element and believes nothing of them; what an element means is the engine's to say
//! (`throng_engine::portable`). `import`(fn@import) and `export`(fn@export) go between files and a store that no server uses.

mod export;
mod import;
mod read;
mod summary;
mod write;

#[cfg(test)]
mod tests;

pub use export::{Export, Layout, export};
pub use import::{Import, abandon, import};
pub use summary::{Note, Summary};

/// Why files cannot be read or written: what is wrong, where, and what to do.
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

/// Whether an import goes on after an account that is there already, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// It is left alone: so an import that was interrupted is made again.
    Skip,
    /// All that it has is removed first.
    Replace,
    /// The import ends.
    Refuse,
}

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

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// A percent-encoded text (RFC 3986 2.1); `None` if an escape is none, or if it is not UTF-8. The crate
/// of that name leaves wrong escapes as they are.
fn percent_decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        out.extend(from_hex(digits)?);
        out.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(out).ok()
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

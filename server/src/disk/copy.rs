//! Writes a store anew from its rows alone: shared by backup and salvage.

use std::path::Path;

use super::journal::{Journal, random};
use super::merge::MergeSpace;
use super::space::sync_dir;
use super::tables::Tables;
use super::view::Row;
use super::{DiskError, Options};

/// Number of the memory table that all rows of a copy are attributed to.
const COPY: u64 = 1;

/// Writes rows in order as a separate store into an engine's folder: tables, and the journal that
/// follows them. `progress` is given the rows written so far; returns their number.
///
/// # Errors
/// The file system's; those of `rows`.
pub(super) fn write_store(
    dir: &Path,
    rows: impl Iterator<Item = Row>,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, DiskError> {
    let options = Options::default();
    let space = MergeSpace::new(dir.to_owned(), options.free_bytes, 0);
    let tables = Tables::open(&dir.join("tree"), 1 << 20, options.table_bytes, &space)?;
    let mut count = 0;
    let counted = rows.map(|row| {
        count += 1;
        if count % 4096 == 0 {
            progress(count);
        }
        row.map(|(key, value)| (key, Some(value)))
    });
    tables.write(COPY, 1, counted)?;
    Journal::create(&dir.join("journal"), COPY, random)?;
    sync_dir(dir)?;
    progress(count);
    Ok(count)
}

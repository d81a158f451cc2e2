//! Tables that cannot be opened although none of their rows is lost: what says where the rows are is damaged.
//!
//! The end of a table's file has the places of its parts, facts about the table and the beginning of its index. Blocks of
//! rows are found without these, one behind the other (`blocks`). If every one is whole, up to where the rows end, the table
//! is written anew from its rows, and a list that names the new file in its place replaces the list, in one step. Rows keep
//! their sequence numbers, and marks of removed rows are rows like any other: nothing that was removed comes back by it. If
//! a row is lost as well, nothing is changed and the store is refused, as it is for whatever else it lacks.

use std::fs;
use std::path::{Path, PathBuf};

use lsm_tree::TableId;
use lsm_tree::config::BloomConstructionPolicy;
use lsm_tree::table::Writer;

use super::DiskError;
use super::blocks::{Holes, TableFile};
use super::listing::{Listing, Replaced, table_files};
use super::worker::give_way;

/// Bytes of a block of rows.
pub(super) const BLOCK_BYTES: u32 = 8 << 10;

/// Bits of a table's filter for each key.
pub(super) const FILTER_BITS: f32 = 8.0;

/// Writes the tables of a folder anew that cannot be opened and have all their rows.
///
/// # Errors
/// [`DiskError::Corrupt`] with the file if rows of such a table cannot be read: nothing is changed then. The file system's.
pub(super) fn mend(dir: &Path) -> Result<(), DiskError> {
    if !Listing::is_there(dir)? {
        return Ok(());
    }
    let listing = Listing::read(dir)?;
    if !listing.missing()?.is_empty() {
        // Nothing is changed in a store that is refused.
        return Ok(());
    }
    let mut mended = Vec::new();
    let done = find(dir, &listing, &mut mended).and_then(|()| match mended.is_empty() {
        true => Ok(()),
        false => listing.replace(&mended),
    });
    if done.is_err() {
        // What was begun is no part of the store yet, or its list would count.
        for new in &mended {
            let _ = fs::remove_file(listing.path(new.by));
        }
    }
    done
}

/// Looks at each table of the list, and writes those anew that cannot be opened.
fn find(dir: &Path, listing: &Listing, mended: &mut Vec<Replaced>) -> Result<(), DiskError> {
    for table in listing.tables() {
        let path = listing.path(table.id);
        let file = TableFile::open(&path).map_err(DiskError::at(&path))?;
        let Some(disorder) = file.disorder() else { continue };
        let by = match mended.last() {
            Some(last) => last.by + 1,
            None => unused(dir, listing)?,
        };
        mended.push(Replaced { table: table.id, by, checksum: 0 });
        let Some(checksum) = written_anew(file, listing.path(by), by)? else {
            return Err(DiskError::Corrupt(format!("{}: {disorder}, and not all of its rows", path.display())));
        };
        mended.last_mut().expect("just pushed").checksum = checksum;
        tracing::warn!(file = %path.display(), by = %listing.path(by).display(),
            "a table is damaged: {disorder}. All its rows are whole, and were written anew: nothing is lost");
    }
    Ok(())
}

/// A number that no table has or had.
fn unused(dir: &Path, listing: &Listing) -> Result<TableId, DiskError> {
    let of_file = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse().ok());
    let files = table_files(dir)?;
    let taken = files.iter().filter_map(of_file).chain(listing.tables().map(|table| table.id));
    Ok(taken.max().map_or(0, |highest: TableId| highest + 1))
}

/// Writes all rows of a table as the table `id`; its checksum. `None` if a row cannot be read: what was written is to go then.
fn written_anew(table: TableFile, to: PathBuf, id: TableId) -> Result<Option<u128>, DiskError> {
    let holes = Holes::default();
    let mut writer = Writer::new(to, id, 0)?
        .use_partitioned_index()
        .use_data_block_size(BLOCK_BYTES)
        .use_bloom_policy(BloomConstructionPolicy::BitsPerKey(FILTER_BITS));
    let mut count = 0;
    for row in table.rows(&[], holes.clone()) {
        give_way(&mut count);
        writer.write(row)?;
    }
    if !holes.take().is_empty() {
        return Ok(None);
    }
    Ok(writer.finish()?.map(|(_, checksum)| checksum.into_u128()))
}

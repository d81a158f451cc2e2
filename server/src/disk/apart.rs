//! Quarantines damaged tables while the store is open. Their intact rows are rewritten (`mend`),
//! the store continues with the new list, and merges resume.
//!
//! `lsm_tree` cannot replace its list while open: the tree is reopened with the new list, and takes
//! the place of the previous one. During this time no tables are written (a second at most; commits
//! continue in memory), and no merge removes a file that an earlier read may still need. A full
//! scan, as for a backup, may take minutes: the replacement is retried later instead. If a table
//! cannot be quarantined, it stays in place, and no table is merged, as before.

use std::path::Path;
use std::sync::Arc;

use lsm_tree::AbstractTree;

use super::DiskError;
use super::blocks::TableFile;
use super::listing::Listing;
use super::lost::{Facts, LostRanges};
use super::mend::Mending;
use super::tables::Tables;

/// Quarantines the tables that were found damaged. Returns whether there were any and it succeeded.
///
/// # Errors
/// If it is unknown which list of tables is current: nothing may be written then.
pub(super) fn put_apart(tables: &Tables) -> Result<bool, DiskError> {
    tables.damages().take_fresh();
    let _one = tables.putting_apart.lock();
    let files = tables.damages().pending_files();
    if files.is_empty() {
        return Ok(false);
    }
    let done = try_to(tables, &files);
    match done {
        Err(error) if !tables.is_torn() => {
            tracing::warn!(%error, "a damaged table could not be quarantined; retrying; compaction \
                                    is paused until then");
            Ok(false)
        }
        done => done,
    }
}

fn try_to(tables: &Tables, files: &[Arc<Path>]) -> Result<bool, DiskError> {
    let mut mending = Mending::of(&tables.dir);
    let done = written(tables, files, &mut mending).and_then(|ready| match ready {
        true => replaced(tables, files, &mending),
        false => Ok(false),
    });
    if !matches!(done, Ok(true)) && !tables.is_torn() {
        mending.give_up();
    }
    done
}

/// Rewrites the tables; `false` if there is no space.
fn written(tables: &Tables, files: &[Arc<Path>], mending: &mut Mending) -> Result<bool, DiskError> {
    // Prevents the removal of new tables that are in no list yet.
    let _writing = tables.writing.read();
    let opened = tables.opened();
    let version = opened.tree.current_version();
    let mut bytes = 0;
    let mut damaged = Vec::new();
    for table in version.iter_tables() {
        let file = TableFile::open(&table.path).map_err(DiskError::at(&table.path))?;
        // The new list is opened: tables that could not be opened are rewritten with the others.
        if files.iter().any(|path| **path == **table.path) || file.disorder().is_some() {
            bytes += table.metadata.file_size;
            damaged.push((table, file));
        }
    }
    if !tables.space.has_room(bytes) {
        tracing::warn!(bytes, "no space to quarantine a damaged table");
        return Ok(false);
    }
    for (table, file) in damaged {
        let facts = Facts {
            first: Some(table.metadata.key_range.min().to_vec()),
            last: Some(table.metadata.key_range.max().to_vec()),
            newest: table.get_highest_seqno(),
            rows: Some(table.metadata.item_count),
        };
        mending.table(table.id(), file, facts, opened.tree.get_next_table_id())?;
    }
    mending.record(opened.lost.all(), opened.tree.get_next_table_id(), tables.newest())?;
    Ok(true)
}

/// Makes the new tables current; `false` if that has to wait.
fn replaced(tables: &Tables, files: &[Arc<Path>], mending: &Mending) -> Result<bool, DiskError> {
    if mending.is_empty() {
        // None of them is a table of the store any more.
        tables.damages().settle(files);
        return Ok(true);
    }
    // A full scan would lose files that only older lists name.
    let Some(_alone) = tables.scanning.try_write() else { return Ok(false) };
    let _nobody_writes = tables.writing.write();
    let listing = Listing::read(&tables.dir)?;
    if !mending.still_holds(&listing) {
        return Err(DiskError::from_io("tables", std::io::Error::other("they were merged meanwhile")));
    }
    let lost = [tables.opened().lost.all(), mending.lost()].concat();
    tables.replace_list(|| mending.replace(&listing), LostRanges::new(lost))?;
    tables.damages().settle(files);
    mending.tell();
    Ok(true)
}

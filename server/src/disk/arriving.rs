//! Syncs tables piece by piece while they are written.
//!
//! `lsm_tree` syncs a table once, when it is complete. Until then the kernel has no reason to
//! write, so the device gets up to 64 MB at once, and the journal's syncs waited up to 60 ms for
//! that. With one sync per piece they wait for a single piece.

use std::fs::File;
use std::path::PathBuf;

use lsm_tree::TableId;

use super::listing::{TABLES, last_number};

/// Bytes of rows between two syncs.
const PIECE_BYTES: usize = 1 << 20;

/// Numbers after the last file that are probed for further ones. A file without rows is removed,
/// and two threads draw numbers, but more than a few consecutive numbers never stay unused.
const GAP_MAX: TableId = 16;

/// Tracks the tables written into a folder from a given moment on.
///
/// The folder is listed once; after that files are found by their numbers, which only grow. A check
/// costs [`GAP_MAX`] system calls for missing files and a few per file being written, however many
/// tables the store has.
#[derive(Debug)]
pub(super) struct Arriving {
    tree: PathBuf,
    /// The lowest file number not seen yet; `None` if the folder could not be listed.
    next: Option<TableId>,
    /// Files that had grown at the last check, with their lengths in bytes.
    growing: Vec<(TableId, u64)>,
    /// Bytes of rows written since then.
    bytes: usize,
}

impl Arriving {
    /// Tracks the tables of `tree` that are written from now on.
    pub(super) fn begin(tree: PathBuf) -> Arriving {
        let next = last_number(&tree).ok().map(|last| last.map_or(0, |last| last + 1));
        Arriving { tree, next, growing: Vec::new(), bytes: 0 }
    }

    /// Records that a row of this many bytes is being written. Failures to sync are ignored: the
    /// writer syncs at the end.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes < PIECE_BYTES {
            return;
        }
        self.bytes = 0;
        let Some(next) = self.next else { return };
        let path = |table: TableId| self.tree.join(TABLES).join(table.to_string());
        // A file that has not grown is complete, or another thread's, which syncs it.
        let grown = |(table, old): (TableId, Option<u64>)| {
            let file = File::open(path(table)).ok()?;
            let size = file.metadata().ok()?.len();
            if old == Some(size) {
                return None;
            }
            let _ = file.sync_data();
            Some((table, size))
        };
        let known = self.growing.iter().map(|(table, size)| (*table, Some(*size)));
        let mut growing: Vec<_> = known.filter_map(grown).collect();
        let (mut next, mut table) = (next, next);
        while table < next + GAP_MAX {
            if let Some(new) = grown((table, None)) {
                growing.push(new);
                next = table + 1;
            }
            table += 1;
        }
        self.growing = growing;
        self.next = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(tables: impl IntoIterator<Item = TableId>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join(TABLES)).unwrap();
        tables.into_iter().for_each(|table| write(&folder, table, 6));
        folder
    }

    fn write(folder: &tempfile::TempDir, table: TableId, bytes: usize) {
        std::fs::write(folder.path().join(TABLES).join(table.to_string()), vec![7; bytes]).unwrap();
    }

    #[test]
    fn only_new_files_are_synced_and_only_while_they_grow() {
        let folder = folder([1]);
        let mut arriving = Arriving::begin(folder.path().to_owned());
        write(&folder, 2, 5);
        arriving.wrote(PIECE_BYTES - 1);
        assert!(arriving.growing.is_empty(), "less than a piece");
        arriving.wrote(1);
        write(&folder, 2, 13);
        write(&folder, 4, 7);
        assert_eq!(arriving.growing, [(2, 5)]);
        arriving.wrote(PIECE_BYTES);
        assert_eq!(arriving.growing, [(2, 13), (4, 7)]);
        write(&folder, 4, 8);
        arriving.wrote(PIECE_BYTES);
        assert_eq!((arriving.growing, arriving.next), (vec![(4, 8)], Some(5)));
    }

    /// The cost of a check depends on what is being written, not on what exists.
    #[test]
    fn tables_that_were_there_before_cost_a_look_nothing() {
        let folder = folder(0..500);
        let mut arriving = Arriving::begin(folder.path().to_owned());
        for table in 500..600 {
            write(&folder, table, 5);
            arriving.wrote(PIECE_BYTES);
            assert_eq!((&arriving.growing[..], arriving.next), (&[(table, 5)][..], Some(table + 1)));
        }
    }

    #[test]
    fn a_folder_that_cannot_be_listed_is_left_alone() {
        let mut arriving = Arriving::begin("/nowhere".into());
        arriving.wrote(PIECE_BYTES);
        assert_eq!((arriving.next, arriving.growing.len()), (None, 0));
    }
}

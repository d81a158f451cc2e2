//! Tables that are being written, put on the device a piece at a time.
//!
//! `lsm_tree` syncs a table once, when all of it is written. The kernel has had no reason to write before, so that the device gets
//! up to 64 MB at once, and the journal's syncs waited for that up to 60 ms. With a sync a piece they wait for one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;

/// Bytes of rows between two syncs.
const PIECE_BYTES: usize = 1 << 20;

/// What somebody writes into a folder of tables.
#[derive(Debug)]
pub(super) struct Arriving {
    folder: PathBuf,
    /// Files that were there before.
    old: BTreeSet<OsString>,
    /// How long each of the others was when it was last synced, bytes.
    synced: BTreeMap<OsString, u64>,
    /// Bytes of rows since.
    bytes: usize,
}

impl Arriving {
    /// From now on.
    pub(super) fn begin(folder: PathBuf) -> Arriving {
        let mut arriving = Arriving { folder, old: BTreeSet::new(), synced: BTreeMap::new(), bytes: 0 };
        arriving.old = arriving.names().collect();
        arriving
    }

    /// A row of so many bytes is being written. What cannot be synced here is synced at the end, by who writes it.
    pub(super) fn wrote(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes < PIECE_BYTES {
            return;
        }
        self.bytes = 0;
        for name in self.names().filter(|name| !self.old.contains(name)).collect::<Vec<_>>() {
            let Ok(file) = File::open(self.folder.join(&name)) else { continue };
            let Ok(size) = file.metadata().map(|file| file.len()) else { continue };
            if self.synced.insert(name, size) != Some(size) {
                let _ = file.sync_data();
            }
        }
    }

    fn names(&self) -> impl Iterator<Item = OsString> + use<> {
        self.folder.read_dir().into_iter().flatten().flatten().map(|entry| entry.file_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_new_files_are_synced_and_only_when_they_have_grown() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("1"), b"before").unwrap();
        let mut arriving = Arriving::begin(folder.path().to_owned());
        std::fs::write(at("2"), b"first").unwrap();
        arriving.wrote(PIECE_BYTES - 1);
        assert!(arriving.synced.is_empty(), "less than a piece");
        arriving.wrote(1);
        std::fs::write(at("2"), b"first, second").unwrap();
        std::fs::write(at("3"), b"another").unwrap();
        assert_eq!(arriving.synced, BTreeMap::from([("2".into(), 5)]));
        arriving.wrote(PIECE_BYTES);
        assert_eq!(arriving.synced, BTreeMap::from([("2".into(), 13), ("3".into(), 7)]));
    }
}

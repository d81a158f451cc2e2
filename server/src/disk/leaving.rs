//! Returns the space of removed table files to the file system piece by piece.
//!
//! ```text
//! listed: held open ──not in the next list──> last reader finished ──no name left──>
//!     a piece, a sync, a pause, ... ──> empty
//! ```
//!
//! A file system that informs its device of free blocks (ext4 and others, mounted with `discard`)
//! does so once the removal is committed. The device takes a millisecond per megabyte and does
//! nothing else meanwhile. A merge that removed five files of 50 MB thus delayed the journal's
//! syncs by a fifth of a second. In pieces, a sync waits for one of them at most.
//!
//! A file is truncated when it has no name and is open nowhere else: `lsm_tree` removes it when the
//! tree's last reader has finished, and a program that copies the folder may still be reading it. A
//! file with a second name is left alone.
//!
//! Only part of the process's descriptors may be used for this ([`held_descriptors`]). A store with
//! more tables than that holds those that are merged next, level by level; the others are removed
//! as a whole.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use lsm_tree::TableId;
use throng_sys::calls::{descriptor_limit, is_open_elsewhere};

use crate::waits::{self, Place};

/// Bytes returned at once: a few milliseconds of the device's time.
const PIECE_BYTES: u64 = 2 << 20;

/// Time between two pieces: 100 MB/s, more than merges remove.
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of files held open, however many descriptors there are.
const HELD_MAX: u64 = 512;

/// The fraction of a process's descriptors that these files may take.
const HELD_PART: u64 = 32;

/// Free space beyond the accepting limit at which pieces are affordable, bytes.
const ROOM_BYTES: u64 = 1 << 30;

/// Maximum number of descriptors for tables that will be removed, in a process limited to `limit`:
/// 32 of 1,024, and 512 of 16,384 or more.
pub fn held_descriptors(limit: u64) -> u64 {
    (limit / HELD_PART).min(HELD_MAX)
}

/// The same for this process.
fn own_held_descriptors() -> usize {
    held_descriptors(descriptor_limit()) as usize
}

/// The removed and soon to be removed files. Belongs to one thread.
#[derive(Debug)]
pub(super) struct Leaving {
    folder: PathBuf,
    /// How many of them may be open.
    open_max: fn() -> usize,
    /// The list that was last followed.
    list: Option<u64>,
    /// Files that it names, as many as may be open.
    held: HashMap<TableId, File>,
    /// Files that it no longer names, and that had a name or a reader at the last check.
    left: Vec<(TableId, File)>,
    /// Files without either.
    going: Vec<File>,
}

impl Leaving {
    /// Manages a folder of tables.
    pub(super) fn new(folder: PathBuf) -> Leaving {
        let (held, left, going) = (HashMap::new(), Vec::new(), Vec::new());
        Leaving { folder, open_max: own_held_descriptors, list: None, held, left, going }
    }

    /// Follows the list, returns one piece if there is one, and waits until the next is due.
    /// Returns whether there is more to return. Everything is returned at once if `has_room` is
    /// false for that many bytes.
    ///
    /// `list` is the number of the list of tables, and `tables` what it names, ordered by when they
    /// will be merged.
    pub(super) fn step(
        &mut self,
        list: u64,
        tables: impl FnOnce() -> Vec<TableId>,
        has_room: impl FnOnce(u64) -> bool,
    ) -> bool {
        self.look(list, tables);
        if self.going.is_empty() {
            return false;
        }
        let more = self.give_back(has_room);
        let _at = waits::at(Place::Freeing);
        std::thread::sleep(PAUSE);
        more
    }

    /// Finds files whose name is gone, and opens those that a new list names. Costs a call or two
    /// per file that was merged and is still read, and nothing else until the list changes.
    fn look(&mut self, list: u64, tables: impl FnOnce() -> Vec<TableId>) {
        if self.list.replace(list) != Some(list) {
            self.follow(&tables());
        }
        let nameless = |file: &File| file.metadata().is_ok_and(|file| file.nlink() == 0);
        let gone = self.left.extract_if(.., |(_, file)| nameless(file) && !is_open_elsewhere(file.as_fd()));
        self.going.extend(gone.map(|(_, file)| file));
        // A file with only another name has been quarantined, or was linked by an operator: it
        // stays.
        self.left.retain(|(table, file)| self.folder.join(table.to_string()).exists() || nameless(file));
    }

    /// Opens the first tables of a list, as many as permitted. A file that cannot be opened is
    /// removed as usual.
    fn follow(&mut self, tables: &[TableId]) {
        let named: HashSet<TableId> = tables.iter().copied().collect();
        self.left.extend(self.held.extract_if(|table, _| !named.contains(table)));
        let room = (self.open_max)().saturating_sub(self.left.len() + self.going.len());
        let wanted: HashSet<TableId> = tables.iter().copied().take(room).collect();
        self.held.retain(|table, _| wanted.contains(table));
        for table in wanted {
            if !self.held.contains_key(&table)
                && let Ok(file) = OpenOptions::new().write(true).open(self.folder.join(table.to_string()))
            {
                self.held.insert(table, file);
            }
        }
    }

    /// Returns a piece of one file, or all files entirely if space is short; whether there is more.
    fn give_back(&mut self, has_room: impl FnOnce(u64) -> bool) -> bool {
        let Some(file) = self.going.last() else { return false };
        if !has_room(ROOM_BYTES) {
            self.going.clear();
            return false;
        }
        match file.metadata().map(|file| file.size()) {
            Ok(bytes) if bytes > PIECE_BYTES => {
                // Without the sync the pieces would be returned together later.
                let shortened = file.set_len(bytes - PIECE_BYTES).and_then(|()| file.sync_all());
                if shortened.is_err() {
                    self.going.pop();
                }
            }
            _ => drop(self.going.pop()),
        }
        !self.going.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::Read;

    use super::*;

    /// Tables of 5 MB, and their manager.
    fn folder(tables: &[TableId], open_max: fn() -> usize) -> (tempfile::TempDir, Leaving) {
        let folder = tempfile::tempdir().unwrap();
        for table in tables {
            std::fs::write(folder.path().join(table.to_string()), vec![7; 5 << 20]).unwrap();
        }
        let leaving = Leaving { open_max, ..Leaving::new(folder.path().to_owned()) };
        (folder, leaving)
    }

    fn remove(folder: &tempfile::TempDir, table: TableId) {
        std::fs::remove_file(folder.path().join(table.to_string())).unwrap();
    }

    #[test]
    fn files_without_a_name_are_shortened_and_others_stay() {
        let (folder, mut leaving) = folder(&[1, 2, 3], || 9);
        let at = |name: &str| folder.path().join(name);
        std::fs::hard_link(at("2"), at("copy")).unwrap();
        leaving.look(1, || vec![1, 2, 3]);
        leaving.look(2, || vec![3]);
        assert!(!leaving.give_back(|_| true), "all have a name: the tree reads them still");
        let mut copier = File::open(at("1")).unwrap();
        remove(&folder, 1);
        remove(&folder, 2);
        leaving.look(2, || panic!("the same list"));
        assert!(!leaving.give_back(|_| true), "somebody copies it");
        let mut copy = Vec::new();
        assert_eq!(copier.read_to_end(&mut copy).unwrap(), 5 << 20);
        drop(copier);
        leaving.look(2, || panic!("the same list"));
        let size = |leaving: &Leaving| leaving.going[0].metadata().unwrap().size();
        assert!(leaving.give_back(|_| true) && size(&leaving) == 3 << 20);
        assert!(leaving.give_back(|_| true) && size(&leaving) == 1 << 20);
        assert!(!leaving.give_back(|_| true), "what is left is less than a piece");
        assert!(leaving.left.is_empty(), "and a file with another name is let go");
        for name in ["copy", "3"] {
            assert_eq!(std::fs::read(at(name)).unwrap(), vec![7; 5 << 20]);
        }
    }

    #[test]
    fn without_space_all_goes_at_once() {
        let (folder, mut leaving) = folder(&[1, 2], || 9);
        leaving.look(1, || vec![1, 2]);
        leaving.look(2, Vec::new);
        remove(&folder, 1);
        remove(&folder, 2);
        leaving.look(2, Vec::new);
        assert_eq!(leaving.going.len(), 2);
        assert!(!leaving.give_back(|bytes| bytes < ROOM_BYTES));
        assert!(leaving.going.is_empty() && leaving.held.is_empty());
    }

    /// With more tables than may be open, the first ones of the list are open, and those being
    /// removed count among them.
    #[test]
    fn no_more_files_are_open_than_may_be() {
        let (folder, mut leaving) = folder(&[1, 2, 3, 4, 5], || 3);
        let open = |leaving: &Leaving| leaving.held.len() + leaving.left.len() + leaving.going.len();
        let held = |leaving: &Leaving| leaving.held.keys().copied().collect::<BTreeSet<_>>();
        leaving.look(1, || vec![5, 4, 1, 2, 3]);
        assert_eq!(held(&leaving), BTreeSet::from([1, 4, 5]));
        for list in [1, 1, 1] {
            leaving.look(list, || panic!("nothing is listed or opened until the list is another"));
        }
        // A merge of the first two: they are removed, and the rest has the one free place.
        leaving.look(2, || vec![1, 2, 3]);
        assert_eq!((held(&leaving), open(&leaving)), (BTreeSet::from([1]), 3));
        remove(&folder, 5);
        remove(&folder, 4);
        leaving.look(2, || panic!("the same list"));
        assert_eq!((leaving.going.len(), open(&leaving)), (2, 3));
        while leaving.give_back(|_| true) {}
        leaving.look(3, || vec![1, 2, 3]);
        assert_eq!(held(&leaving), BTreeSet::from([1, 2, 3]));
    }

    #[test]
    fn most_descriptors_are_left_to_others() {
        assert_eq!([64, 1_024, 20_000, u64::MAX].map(held_descriptors), [2, 32, 512, 512]);
        assert!(own_held_descriptors() <= HELD_MAX as usize);
    }
}

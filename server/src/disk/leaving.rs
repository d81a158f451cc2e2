//! Files of tables that merges have removed, given back to the file system a piece at a time.
//!
//! ```text
//! tree/tables: N held open ──its last reader has gone, N is removed──> no name left ──a piece, a sync, a pause──> nothing left
//! ```
//!
//! A file system that tells its device which blocks are free (ext4 and others, mounted with `discard`) does so once the removal
//! is committed. The device takes a millisecond for a megabyte and does nothing else meanwhile, so that a merge that removed five
//! files of 50 MB kept the journal's syncs waiting for a fifth of a second. In pieces, no sync waits for more than one of them.
//!
//! A file is shortened when it has no name and no reader of the tree's is left: `lsm_tree` removes it when the last one has gone. One
//! that somebody has given a second name stays as it is.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::waits::{self, Place};

/// Bytes that are given back at once: a few milliseconds of a device's time.
const PIECE_BYTES: u64 = 2 << 20;

/// Time between two pieces: 100 MB/s, more than merges remove.
const PAUSE: Duration = Duration::from_millis(20);

/// Files that are held open at most. The rest is removed as a whole.
const HELD_MAX: usize = 512;

/// Free space beside what lets messages be accepted with which there is time for pieces, bytes.
const ROOM_BYTES: u64 = 1 << 30;

/// The files. One thread's.
#[derive(Debug)]
pub(super) struct Leaving {
    folder: PathBuf,
    /// Those that had a name when they were last looked at.
    held: HashMap<OsString, File>,
    /// Those without a name.
    going: Vec<File>,
}

impl Leaving {
    /// Those of a folder of tables.
    pub(super) fn new(folder: PathBuf) -> Leaving {
        Leaving { folder, held: HashMap::new(), going: Vec::new() }
    }

    /// Gives a piece back and waits until it is time for the next one, or looks which files have come and gone; whether there is more
    /// to give back. It all goes at once where there is no room for so many bytes besides.
    pub(super) fn step(&mut self, has_room: impl FnOnce(u64) -> bool) -> bool {
        if self.going.is_empty() {
            self.look();
            return !self.going.is_empty();
        }
        let more = self.give_back(has_room);
        let _at = waits::at(Place::Freeing);
        std::thread::sleep(PAUSE);
        more
    }

    /// Takes hold of files that have come, and finds those whose name has gone. What cannot be opened goes as it does without this.
    fn look(&mut self) {
        let gone = self.held.extract_if(|_, file| file.metadata().is_ok_and(|file| file.nlink() == 0));
        self.going.extend(gone.map(|(_, file)| file));
        let Ok(files) = self.folder.read_dir() else { return };
        for entry in files.flatten() {
            let name = entry.file_name();
            if self.held.len() >= HELD_MAX || self.held.contains_key(&name) {
                continue;
            }
            if let Ok(file) = OpenOptions::new().write(true).open(entry.path()) {
                self.held.insert(name, file);
            }
        }
    }

    /// Gives a piece of one file back, or all files whole if space is short; whether there is more to give back.
    fn give_back(&mut self, has_room: impl FnOnce(u64) -> bool) -> bool {
        let Some(file) = self.going.last() else { return false };
        if !has_room(ROOM_BYTES) {
            self.going.clear();
            return false;
        }
        match file.metadata().map(|file| file.size()) {
            Ok(bytes) if bytes > PIECE_BYTES => {
                // Only with the sync is the piece given back now, and not with the next ones.
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
    use super::*;

    #[test]
    fn files_without_a_name_are_shortened_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let bytes = vec![7; 5 << 20];
        for name in ["1", "2", "3"] {
            std::fs::write(at(name), &bytes).unwrap();
        }
        std::fs::hard_link(at("2"), folder.path().join("copy")).unwrap();
        let mut leaving = Leaving::new(folder.path().to_owned());
        leaving.look();
        assert!(!leaving.give_back(|_| true), "all have a name");
        let reader = File::open(at("1")).unwrap();
        std::fs::remove_file(at("1")).unwrap();
        std::fs::remove_file(at("2")).unwrap();
        leaving.look();
        let size = || reader.metadata().unwrap().size();
        assert!(leaving.give_back(|_| true) && size() == 3 << 20);
        assert!(leaving.give_back(|_| true) && size() == 1 << 20);
        assert!(!leaving.give_back(|_| true), "what is left is less than a piece");
        leaving.look();
        assert!(!leaving.give_back(|_| true));
        for name in ["copy", "3"] {
            assert_eq!(std::fs::read(at(name)).unwrap(), bytes);
        }
        // Another file of the same name is another file.
        std::fs::write(at("1"), &bytes).unwrap();
        leaving.look();
        std::fs::remove_file(at("1")).unwrap();
        leaving.look();
        assert!(leaving.give_back(|_| true), "it was held");
    }

    #[test]
    fn without_space_all_goes_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut leaving = Leaving::new(folder.path().to_owned());
        for name in ["1", "2"] {
            std::fs::write(folder.path().join(name), vec![7; 5 << 20]).unwrap();
        }
        leaving.look();
        for name in ["1", "2"] {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
        leaving.look();
        assert!(!leaving.give_back(|bytes| bytes < ROOM_BYTES));
        assert!(leaving.going.is_empty() && leaving.held.is_empty());
    }
}

//! What a power cut may leave of a folder: everything synced, and any part of the rest.
//!
//! This follows POSIX rather than a particular file system. A file's name is durable when its
//! folder has been synced, regardless of syncs of the file. Any sectors of unsynced writes may
//! exist. Each creation, rename and removal since the folder's last sync is durable or not,
//! independently. A rename is never half done.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use super::Random;
use super::trace::{Inode, Op};

/// The unit that a device writes atomically.
const SECTOR: usize = 512;

#[derive(Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl Change {
    fn apply(&self, data: &mut Vec<u8>) {
        match self {
            Change::Truncate(length) => data.resize(*length, 0),
            Change::Write { at, bytes } => {
                let end = at + bytes.len();
                if data.len() < end {
                    data.resize(end, 0);
                }
                data[*at..end].copy_from_slice(bytes);
            }
        }
    }

    /// Applies the sectors selected by `there`, and the length.
    fn apply_part(&self, data: &mut Vec<u8>, there: &mut dyn FnMut() -> bool) {
        let Change::Write { at, bytes } = self else {
            if there() {
                self.apply(data);
            }
            return;
        };
        let mut from = 0;
        while from < bytes.len() {
            let until = bytes.len().min(from + SECTOR - (at + from) % SECTOR);
            if there() {
                Change::Write { at: at + from, bytes: bytes[from..until].to_vec() }.apply(data);
            }
            from = until;
        }
    }
}

#[derive(Default)]
struct File {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(usize, Change)>,
}

/// A name's target: a file, or a folder.
type Node = Option<Inode>;

#[derive(Clone)]
enum NameChange {
    Add(PathBuf, Node),
    Move(PathBuf, PathBuf, Node),
    Remove(PathBuf),
}

type Names = BTreeMap<PathBuf, Node>;

impl NameChange {
    fn folder(&self) -> &Path {
        let (NameChange::Add(path, _) | NameChange::Move(path, ..) | NameChange::Remove(path)) = self;
        path.parent().expect("the root has no change of its own")
    }

    fn apply(&self, names: &mut Names) {
        match self {
            NameChange::Add(path, node) => _ = names.insert(path.clone(), *node),
            NameChange::Remove(path) => _ = names.remove(path),
            NameChange::Move(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

/// How much of the unsynced changes exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// As after `kill -9`.
    All,
    Nothing,
    /// What was done before some moment.
    Before,
    /// Any part.
    Some,
}

/// Files by their paths.
pub(super) type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// The folder during its changes.
#[derive(Default)]
pub(super) struct Disk {
    files: HashMap<Inode, File>,
    live: Names,
    durable: Names,
    pending: Vec<(usize, NameChange)>,
}

impl Disk {
    pub(super) fn apply(&mut self, number: usize, op: &Op) {
        match op {
            Op::Create { path, inode } => self.rename(number, NameChange::Add(path.clone(), Some(*inode))),
            Op::MakeDir { path } => self.rename(number, NameChange::Add(path.clone(), None)),
            Op::Remove { path } => self.rename(number, NameChange::Remove(path.clone())),
            Op::Rename { from, to } => {
                let node = self.live[from];
                self.rename(number, NameChange::Move(from.clone(), to.clone(), node));
            }
            Op::Write { inode, at, bytes } => {
                self.change(*inode, number, Change::Write { at: *at as usize, bytes: bytes.clone() });
            }
            Op::Truncate { inode, length } => self.change(*inode, number, Change::Truncate(*length as usize)),
            Op::Sync { inode, since } => {
                let file = self.files.entry(*inode).or_default();
                let synced = file.pending.iter().take_while(|(at, _)| at < since).count();
                file.pending.drain(..synced).for_each(|(_, change)| change.apply(&mut file.durable));
            }
            Op::SyncDir { path, since } => {
                let durable = &mut self.durable;
                self.pending.retain(|(at, change)| {
                    let synced = at < since && change.folder() == path;
                    if synced {
                        change.apply(durable);
                    }
                    !synced
                });
            }
            Op::Said(_) => {}
        }
    }

    fn rename(&mut self, number: usize, change: NameChange) {
        change.apply(&mut self.live);
        self.pending.push((number, change));
    }

    fn change(&mut self, inode: Inode, number: usize, change: Change) {
        let file = self.files.entry(inode).or_default();
        change.apply(&mut file.live);
        file.pending.push((number, change));
    }

    /// The names and file contents after a cut before operation `now`.
    pub(super) fn after_cut(&self, now: usize, names: Left, data: Left, random: &mut Random) -> Tree {
        let oldest = self.pending.first().map_or(now, |(at, _)| *at);
        let before = oldest + random.below(now - oldest + 1);
        let mut there = self.durable.clone();
        for (at, change) in &self.pending {
            let is = match names {
                Left::All => true,
                Left::Nothing => false,
                Left::Before => *at < before,
                Left::Some => random.below(2) == 0,
            };
            if is {
                change.apply(&mut there);
            }
        }
        let mut tree = Tree::new();
        for (path, node) in there {
            // In order: a folder precedes its content, and the content of a missing folder is
            // missing.
            let parent = path.parent().expect("below the root");
            if parent.as_os_str().is_empty() || tree.contains_key(parent) {
                tree.insert(path, node.map(|inode| self.content(inode, now, data, random)));
            }
        }
        tree
    }

    fn content(&self, inode: Inode, now: usize, left: Left, random: &mut Random) -> Vec<u8> {
        let Some(file) = self.files.get(&inode) else { return Vec::new() };
        if left == Left::All {
            return file.live.clone();
        }
        let oldest = file.pending.first().map_or(now, |(at, _)| *at);
        let before = oldest + random.below(now - oldest + 1);
        let mut data = file.durable.clone();
        for (at, change) in &file.pending {
            match left {
                Left::Before if *at < before => change.apply(&mut data),
                Left::Some => {
                    // Sometimes all of it, sometimes little.
                    let quarters = random.below(5);
                    change.apply_part(&mut data, &mut || random.below(4) < quarters);
                }
                _ => {}
            }
        }
        data
    }

    /// Names in a folder, as a directory listing sees them now.
    pub(super) fn listed(&self, folder: &Path) -> Vec<(PathBuf, bool)> {
        let inside = self.live.iter().filter(|(path, _)| path.parent() == Some(folder));
        inside.map(|(path, node)| (path.clone(), node.is_none())).collect()
    }

    /// The present content of a file, if it still exists.
    pub(super) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let inode = (*self.live.get(path)?)?;
        Some(self.files.get(&inode).map_or(Vec::new(), |file| file.live.clone()))
    }
}

/// Writes a tree into a folder, emptied first.
pub(super) fn lay(tree: &Tree, dir: &Path) {
    if dir.exists() {
        fs::remove_dir_all(dir).unwrap();
    }
    fs::create_dir_all(dir).unwrap();
    for (path, content) in tree {
        match content {
            None => fs::create_dir(dir.join(path)).unwrap(),
            Some(bytes) => fs::write(dir.join(path), bytes).unwrap(),
        }
    }
}

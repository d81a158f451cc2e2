//! Damaged tables are written anew from the rows of them that are whole, and a list that names the new files in their place
//! replaces the list, in one step.
//!
//! A table's rows stand in blocks, which are found by its index, or without it one behind the other (`blocks`). Rows keep their
//! sequence numbers, and marks of removed rows are rows like any other: nothing that was removed comes back by it. Where a
//! block cannot be read, the range of keys that it had is noted in a row of the store's own (`lost`), in a table that the same
//! list names first, and the damaged file is kept in a folder of its own. The order of the steps:
//!
//! 1. the new tables are written, and are durable; no list names them, so the next opening clears them away;
//! 2. the damaged files get a second name in the folder for those that are put apart;
//! 3. the list is replaced: from here on the new tables count, and the ranges that are lost;
//! 4. the damaged files lose their first name, or the next opening takes it from them.
//!
//! A process that ends between them has either the store as it was, and does all of it again, or the new one.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lsm_tree::config::BloomConstructionPolicy;
use lsm_tree::table::Writer;
use lsm_tree::{InternalValue, SeqNo, TableId, ValueType};

use super::DiskError;
use super::blocks::{Holes, TableFile};
use super::listing::{Listing, New, Replaced, TABLES, table_files};
use super::lost::{Facts, Lost, OWN};
use super::space::sync_dir;
use super::worker::give_way;

/// Bytes of a block of rows.
pub(super) const BLOCK_BYTES: u32 = 8 << 10;

/// Rows of a block of which the first has its whole key and the others what is different in theirs: a look for one goes over these
/// one by one, and so does the begin of a range, in each block.
pub(super) const RESTART_ROWS: u8 = 4;

/// Bits of a table's filter for each key.
pub(super) const FILTER_BITS: f32 = 8.0;

/// Folder beside the tables for damaged files that have been put apart.
pub(super) const APART: &str = "quarantine";

/// The folder of the files that have been put apart, of the tables in `dir`.
pub(super) fn apart_folder(dir: &Path) -> PathBuf {
    dir.join(APART)
}

/// Whether files have been put apart.
pub(super) fn has_put_apart(dir: &Path) -> bool {
    fs::read_dir(apart_folder(dir)).is_ok_and(|mut files| files.next().is_some())
}

/// Tables that are being written anew, until a list names them.
pub(super) struct Mending {
    /// Where the list of tables is.
    dir: PathBuf,
    replaced: Vec<Replaced>,
    /// Files of which rows are lost, and their names in the folder for those.
    apart: Vec<(PathBuf, String)>,
    lost: Vec<Lost>,
    /// Rows of the store's own may be lost.
    own_lost: bool,
    /// The table with the record of what is lost.
    record: Option<New>,
    /// Files that were begun.
    begun: Vec<PathBuf>,
}

impl Mending {
    pub(super) fn of(dir: &Path) -> Mending {
        let (replaced, apart, lost, begun) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Mending { dir: dir.to_owned(), replaced, apart, lost, own_lost: false, record: None, begun }
    }

    fn path(&self, table: TableId) -> PathBuf {
        self.dir.join(TABLES).join(table.to_string())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replaced.is_empty()
    }

    /// What is lost.
    pub(super) fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Writes what is whole of a table as the table `by`. What is known of it is completed by what it says itself.
    ///
    /// # Errors
    /// [`DiskError::Corrupt`] if it is not known which keys are lost; the file system's.
    pub(super) fn table(
        &mut self,
        table: TableId,
        file: TableFile,
        facts: Facts,
        by: TableId,
    ) -> Result<(), DiskError> {
        let path = self.path(table);
        let name = self.free_name(&path, table).map_err(DiskError::at(&path))?;
        let said = |fact: Option<lsm_tree::Slice>| fact.map(|key| key.to_vec());
        let facts = Facts {
            first: facts.first.or_else(|| said(file.first_key())),
            last: facts.last.or_else(|| said(file.last_key())),
            newest: file.newest().unwrap_or(0).max(facts.newest),
            rows: facts.rows,
        };
        let (to, holes, known) = (self.path(by), Holes::default(), self.lost.len());
        let corrupt = |what: &str| DiskError::Corrupt(format!("{}: {what}", path.display()));
        self.begun.push(to.clone());
        let (mut writer, mut count, mut rows) = (writer(to.clone(), by)?, 0, 0);
        let mut own_lost = false;
        let mut note = |before: Option<&[u8]>| -> Result<(), DiskError> {
            for hole in holes.take() {
                own_lost |= hole.last.as_ref().or(facts.last.as_ref()).is_none_or(|last| last.first() == Some(&OWN));
                let Some(mut lost) = Lost::of(&hole, &name, &facts).map_err(corrupt)? else { continue };
                if before.is_some_and(|row| hole.last.as_deref() == Some(row)) {
                    // That is the first row behind the hole.
                    lost.until.pop();
                }
                match self.lost[known..].last_mut().filter(|last| last.until >= lost.from) {
                    Some(last) => {
                        last.bytes += lost.bytes;
                        last.until = lost.until.max(std::mem::take(&mut last.until));
                    }
                    None => self.lost.push(lost),
                }
            }
            Ok(())
        };
        for row in file.rows(&[], holes.clone()) {
            note(Some(&row.key.user_key))?;
            give_way(&mut count);
            rows += 1;
            writer.write(row)?;
        }
        note(None)?;
        let lost = self.lost.len() > known;
        if !lost && !own_lost && facts.rows.is_some_and(|due| due != rows) {
            return Err(corrupt("rows are missing between blocks that are whole"));
        }
        let by = self.finished(writer, by)?;
        self.replaced.push(Replaced { table, by });
        self.own_lost |= own_lost;
        if lost {
            self.apart.push((path, name));
        }
        Ok(())
    }

    /// Ends the table that was begun last; `None` if it has no row, and then there is no file.
    fn finished(&mut self, writer: Writer, id: TableId) -> Result<Option<New>, DiskError> {
        let finished = writer.finish()?;
        if finished.is_none() {
            self.begun.pop();
        }
        Ok(finished.map(|(_, checksum)| New { id, checksum: checksum.into_u128() }))
    }

    /// Whether rows of the store's own may be lost, and with them the record of what had been lost before.
    pub(super) fn lacks_own(&self) -> bool {
        self.own_lost
    }

    /// A name that the file has, or can get, in the folder for those that are put apart.
    fn free_name(&self, path: &Path, table: TableId) -> io::Result<String> {
        let inode = fs::metadata(path)?.ino();
        let folder = apart_folder(&self.dir);
        let names = (0_u32..).map(|n| if n == 0 { table.to_string() } else { format!("{table}.{n}") });
        let is_free = |name: &String| match fs::metadata(folder.join(name)) {
            Ok(there) => there.ino() == inode,
            Err(_) => true,
        };
        Ok(names.into_iter().find(is_free).expect("there is always another number"))
    }

    /// Writes the record of what is lost, and of `known`, as the table `by`, with the sequence number `number`. Without
    /// anything that is lost it writes nothing.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn record(&mut self, known: &[Lost], by: TableId, number: SeqNo) -> Result<(), DiskError> {
        if self.lost.is_empty() && !self.own_lost {
            return Ok(());
        }
        let mut rows: Vec<_> = self.lost.iter().chain(known).map(Lost::encode).collect();
        rows.sort();
        rows.dedup_by(|a, b| a.0 == b.0);
        let to = self.path(by);
        self.begun.push(to.clone());
        let mut writer = writer(to, by)?;
        for (key, value) in rows {
            writer.write(InternalValue::from_components(key, value, number, ValueType::Value))?;
        }
        self.record = self.finished(writer, by)?;
        Ok(())
    }

    /// Makes the new tables count, and all others of the list that counts. The damaged ones are no part of the store from then
    /// on.
    ///
    /// # Errors
    /// The file system's: the old list counts then, or the new one does.
    pub(super) fn replace(&self, listing: &Listing) -> Result<(), DiskError> {
        let folder = apart_folder(&self.dir);
        let mut unnamed = Vec::new();
        if !self.apart.is_empty() {
            fs::create_dir_all(&folder).map_err(DiskError::at(&folder))?;
            for (path, name) in &self.apart {
                let to = folder.join(name);
                if !to.exists() && fs::hard_link(path, &to).is_err() {
                    unnamed.push((path, to));
                }
            }
            sync_dir(&folder)?;
            sync_dir(&self.dir)?;
        }
        listing.replace(&self.replaced, self.record)?;
        // Not every file system has second names: a process that ends here leaves nothing to look at, and no row is lost by it.
        for (path, to) in unnamed {
            if let Err(error) = fs::rename(path, &to) {
                tracing::warn!(file = %path.display(), %error, "a damaged table could not be kept");
            }
        }
        Ok(())
    }

    /// Whether all files that were written are still there, and all tables that they stand for are listed still.
    pub(super) fn still_holds(&self, listing: &Listing) -> bool {
        let listed = |id: TableId| listing.tables().any(|table| table.id == id);
        self.replaced.iter().all(|replaced| listed(replaced.table)) && self.begun.iter().all(|path| path.exists())
    }

    /// Removes what was written: it is no part of the store.
    pub(super) fn give_up(&self) {
        for path in &self.begun {
            let _ = fs::remove_file(path);
        }
    }

    /// Says in the log what was done.
    pub(super) fn tell(&self) {
        for replaced in &self.replaced {
            let file = self.path(replaced.table);
            match self.apart.iter().find(|(path, _)| *path == file) {
                None => tracing::warn!(file = %file.display(),
                    "a table was damaged: all its rows are whole, and were written anew: nothing is lost"),
                Some((_, name)) => {
                    let lost: Vec<_> = self.lost.iter().filter(|lost| lost.file == *name).collect();
                    let bytes: u64 = lost.iter().map(|lost| lost.bytes).sum();
                    tracing::error!(file = %file.display(), parts = lost.len(), bytes,
                        "a damaged table was put apart as {APART}/{name}: rows of it are lost, who asks for one gets an \
                         error, all others are served, and tables are merged; `throng store check` names the users \
                         concerned");
                }
            }
        }
    }
}

/// Mends the tables of a folder that cannot be opened, before it is.
///
/// # Errors
/// [`DiskError::Corrupt`] with the file if it cannot be known which rows of it are lost: nothing is changed then. The file
/// system's.
pub(super) fn mend(dir: &Path) -> Result<(), DiskError> {
    if !Listing::is_there(dir)? {
        return Ok(());
    }
    let listing = Listing::read(dir)?;
    if !listing.missing()?.is_empty() {
        // Nothing is changed in a store that is refused.
        return Ok(());
    }
    let mut mending = Mending::of(dir);
    let done = find(dir, &listing, &mut mending).and_then(|()| match mending.is_empty() {
        true => Ok(()),
        false => mending.replace(&listing),
    });
    match &done {
        // What was begun is no part of the store yet, or its list would count.
        Err(_) => mending.give_up(),
        Ok(()) => mending.tell(),
    }
    done
}

/// Looks at each table of the list, and writes those anew that cannot be opened.
fn find(dir: &Path, listing: &Listing, mending: &mut Mending) -> Result<(), DiskError> {
    let mut next = unused(dir, listing)?;
    for run in &listing.runs {
        for (at, table) in run.iter().enumerate() {
            let path = listing.path(table.id);
            let file = TableFile::open(&path).map_err(DiskError::at(&path))?;
            let Some(disorder) = file.disorder() else { continue };
            let corrupt = |what: &str| DiskError::Corrupt(format!("{}: {disorder}, and {what}", path.display()));
            // Keys of a run's tables do not overlap.
            let beside = |at: Option<usize>, key: fn(&TableFile) -> Option<lsm_tree::Slice>| {
                let beside = TableFile::open(&listing.path(run.get(at?)?.id)).ok()?;
                key(&beside).map(|key| key.to_vec())
            };
            let mut facts = Facts {
                first: file
                    .first_key()
                    .map(|key| key.to_vec())
                    .or_else(|| beside(at.checked_sub(1), TableFile::last_key)),
                last: file
                    .last_key()
                    .map(|key| key.to_vec())
                    .or_else(|| beside(at.checked_add(1), TableFile::first_key)),
                ..Facts::default()
            };
            if file.newest().is_none() {
                // No memory table that became a table has a higher number.
                facts.newest =
                    listing.tables().filter_map(|other| newest_of(&listing.path(other.id))).max().unwrap_or(0);
            }
            mending.table(table.id, file, facts, next).map_err(|error| match error {
                DiskError::Corrupt(what) => corrupt(&format!("not all of its rows: {what}")),
                other => other,
            })?;
            if mending.lacks_own() && has_put_apart(dir) {
                return Err(corrupt("with it the record of the rows that had been lost before"));
            }
            next += 1;
        }
    }
    let number = mending.lost().iter().map(|lost| lost.newest).max().unwrap_or(0);
    mending.record(&[], next, number)
}

/// The highest sequence number of a file's rows that can be read.
fn newest_of(path: &Path) -> Option<SeqNo> {
    let file = TableFile::open(path).ok()?;
    let said = file.newest();
    said.or_else(|| file.rows(&[], Holes::default()).map(|row| row.key.seqno).max())
}

/// A number that no table has or had.
fn unused(dir: &Path, listing: &Listing) -> Result<TableId, DiskError> {
    let of_file = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse().ok());
    let files = table_files(dir)?;
    let taken = files.iter().filter_map(of_file).chain(listing.tables().map(|table| table.id));
    Ok(taken.max().map_or(0, |highest: TableId| highest + 1))
}

fn writer(to: PathBuf, id: TableId) -> Result<Writer, DiskError> {
    let policy = BloomConstructionPolicy::BitsPerKey(FILTER_BITS);
    let writer = Writer::new(to, id, 0)?
        .use_partitioned_index()
        .use_data_block_size(BLOCK_BYTES)
        .use_data_block_restart_interval(RESTART_ROWS);
    Ok(writer.use_bloom_policy(policy))
}

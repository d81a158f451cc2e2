//! Rewrites damaged tables from their intact rows, and replaces the list by one that names the new
//! files, in one step.
//!
//! A table's rows are in blocks, which are found by its index, or without it one after the other
//! (`blocks`). Rows keep their sequence numbers, and tombstones are rows like any other: no removed
//! row comes back. If a block cannot be read, its key range is recorded in a row of the store's own
//! (`lost`), in a table that the same list names first, and the damaged file is kept in a separate
//! folder. The steps:
//!
//! 1. the new tables are written and synced; no list names them, so the next opening removes them;
//! 2. the damaged files get a second name in the quarantine folder;
//! 3. the list is replaced: from here on the new tables count, and the lost ranges;
//! 4. the damaged files lose their first name, now or at the next opening.
//!
//! A process that ends between them has either the store as it was, and repeats all steps, or the
//! new one.

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

/// Bytes of a data block.
pub(super) const BLOCK_BYTES: u32 = 8 << 10;

/// Rows per restart interval of a block: the first has its full key and the others the differing
/// part. A lookup scans an interval linearly, and so does the start of a range in each block.
pub(super) const RESTART_ROWS: u8 = 4;

/// Bits of a table's filter for each key.
pub(super) const FILTER_BITS: f32 = 8.0;

/// Folder beside the tables for quarantined files.
pub(super) const APART: &str = "quarantine";

/// The quarantine folder of the tables in `dir`.
pub(super) fn apart_folder(dir: &Path) -> PathBuf {
    dir.join(APART)
}

/// Whether files have been quarantined.
pub(super) fn has_put_apart(dir: &Path) -> bool {
    fs::read_dir(apart_folder(dir)).is_ok_and(|mut files| files.next().is_some())
}

/// Tables being rewritten, until a list names them.
pub(super) struct Mending {
    /// The folder of the list of tables.
    dir: PathBuf,
    replaced: Vec<Replaced>,
    /// Files with lost rows, and their names in quarantine.
    apart: Vec<(PathBuf, String)>,
    lost: Vec<Lost>,
    /// Whether rows of the store's own may be lost.
    own_lost: bool,
    /// The table with the record of lost ranges.
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

    /// The lost ranges.
    pub(super) fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Writes the intact rows of a table as the table `by`. Its own facts complete the known ones.
    ///
    /// # Errors
    /// [`DiskError::Corrupt`] if it is unknown which keys are lost; the file system's.
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
                    // That is the first row after the hole.
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

    /// Finishes the table begun last; `None` if it has no row, and then no file.
    fn finished(&mut self, writer: Writer, id: TableId) -> Result<Option<New>, DiskError> {
        let finished = writer.finish()?;
        if finished.is_none() {
            self.begun.pop();
        }
        Ok(finished.map(|(_, checksum)| New { id, checksum: checksum.into_u128() }))
    }

    /// Whether rows of the store's own may be lost, and with them the record of earlier losses.
    pub(super) fn lacks_own(&self) -> bool {
        self.own_lost
    }

    /// A name in quarantine that the file has, or can get.
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

    /// Writes the record of the new lost ranges and of `known`, as the table `by`, with the
    /// sequence number `number`. If there are none, it writes nothing.
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

    /// Makes the new tables current, together with all others of the current list. From then on the
    /// damaged ones are no longer part of the store.
    ///
    /// # Errors
    /// The file system's: either the old list or the new one is current.
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
        // Not every file system supports hard links. If the process ends here, the damaged file is
        // not kept for inspection, but no row is lost.
        for (path, to) in unnamed {
            if let Err(error) = fs::rename(path, &to) {
                tracing::warn!(file = %path.display(), %error, "a damaged table could not be preserved");
            }
        }
        Ok(())
    }

    /// Whether all new files still exist, and all tables that they replace are still listed.
    pub(super) fn still_holds(&self, listing: &Listing) -> bool {
        let listed = |id: TableId| listing.tables().any(|table| table.id == id);
        self.replaced.iter().all(|replaced| listed(replaced.table)) && self.begun.iter().all(|path| path.exists())
    }

    /// Removes the new files: they are not part of the store.
    pub(super) fn give_up(&self) {
        for path in &self.begun {
            let _ = fs::remove_file(path);
        }
    }

    /// Logs what was done.
    pub(super) fn tell(&self) {
        for replaced in &self.replaced {
            let file = self.path(replaced.table);
            match self.apart.iter().find(|(path, _)| *path == file) {
                None => tracing::warn!(file = %file.display(),
                    "a table was damaged: all its rows are intact and were rewritten; nothing is \
                     lost"),
                Some((_, name)) => {
                    let lost: Vec<_> = self.lost.iter().filter(|lost| lost.file == *name).collect();
                    let bytes: u64 = lost.iter().map(|lost| lost.bytes).sum();
                    tracing::error!(file = %file.display(), parts = lost.len(), bytes,
                        "a damaged table was quarantined as {APART}/{name}: some of its rows are \
                         lost and reads of them fail; other rows are served, and compaction \
                         continues; `throng store check` names the affected users");
                }
            }
        }
    }
}

/// Mends the tables of a folder that cannot be opened, before it is opened.
///
/// # Errors
/// [`DiskError::Corrupt`] with the file if it is unknown which of its rows are lost: nothing is
/// changed then. The file system's.
pub(super) fn mend(dir: &Path) -> Result<(), DiskError> {
    if !Listing::is_there(dir)? {
        return Ok(());
    }
    let listing = Listing::read(dir)?;
    if !listing.missing()?.is_empty() {
        // A store that is refused is not changed.
        return Ok(());
    }
    let mut mending = Mending::of(dir);
    let done = find(dir, &listing, &mut mending).and_then(|()| match mending.is_empty() {
        true => Ok(()),
        false => mending.replace(&listing),
    });
    match &done {
        // The new files are not part of the store yet, or the list would be current.
        Err(_) => mending.give_up(),
        Ok(()) => mending.tell(),
    }
    done
}

/// Checks each listed table, and rewrites those that cannot be opened.
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

/// The highest sequence number of a file's readable rows.
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

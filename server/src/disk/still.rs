//! A store at rest, opened read-only: nothing is created, changed or removed in its folder,
//! whatever its state.
//!
//! The list, the tables and the journal are read as they are; replay, merging and cleanup of an
//! opening do not happen. Each damaged or missing part is reported as a [`Finding`], and intact
//! parts are still read. As an [`Engine`] it is strict: a query gets an error instead of the rows
//! next to a hole.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lsm_tree::{InternalValue, SeqNo, Slice};
use throng_engine::store::{Batch, Found, Query, Table, key};

use super::blocks::{Hole, Holes, TableFile};
use super::finding::{Finding, of_hole};
use super::folder::{engine_folder, refuse_unfinished};
use super::format::{self, FORMAT_KEY, FORMAT_VERSION, FORMATS};
use super::journal::Before;
use super::listing::{Listing, TABLES, table_files};
use super::lost::{LOST_END, LOST_PREFIX, Lost, OWN};
use super::memory::{actor_end, answer, flat};
use super::memtable::{Memtable, Rows};
use super::mend::apart_folder;
use super::pieces::pieces;
use super::tables::{NEXT_GROUP_KEY, next_group_of};
use super::{
    DiskError, Engine, Figures, FolderLock, KeyRange, Memory, Seen, StoreCounters, Visit, copy, journal, view,
};

/// A store that is not changed.
#[derive(Debug)]
pub struct Still {
    dir: PathBuf,
    listing: Option<Listing>,
    /// Table files, run by run.
    runs: Vec<Vec<PathBuf>>,
    /// What the journal holds beyond the tables, newest first, each with its order.
    layers: Vec<(Rows, Vec<u32>)>,
    findings: Vec<Finding>,
    /// Lost ranges of quarantined tables, in order.
    lost: Vec<Lost>,
    seen: Seen<StoreCounters>,
}

impl Still {
    /// Opens the store in a locked folder, if it is sound as far as an opening can tell.
    ///
    /// # Errors
    /// As [`super::Store::open`], and [`DiskError::NoStore`].
    pub fn open(lock: &FolderLock) -> Result<Still, DiskError> {
        let still = Still::open_damaged(lock)?;
        match still.findings.iter().find(|finding| !finding.may_be_torn) {
            Some(Finding { missing: true, file, .. }) => return Err(DiskError::Lacks(file.clone())),
            Some(finding) => return Err(DiskError::Corrupt(finding.to_string())),
            None => {}
        }
        match still.format() {
            Some(found) if found < FORMAT_VERSION => {
                Err(DiskError::NotMigrated { folder: still.dir, found, known: FORMAT_VERSION })
            }
            _ => Ok(still),
        }
    }

    /// Opens whatever exists; [`Still::findings`] reports what is damaged or missing.
    ///
    /// # Errors
    /// [`DiskError::NoStore`], another format, an interrupted restore; the file system's.
    pub(super) fn open_damaged(lock: &FolderLock) -> Result<Still, DiskError> {
        refuse_unfinished(lock.folder())?;
        let dir = engine_folder(lock.folder());
        if !dir.try_exists().map_err(DiskError::at(&dir))? {
            return Err(DiskError::NoStore(lock.folder().to_owned()));
        }
        let (runs, layers, seen) = (Vec::new(), Vec::new(), Seen::default());
        let mut still = Still { dir, listing: None, runs, layers, findings: Vec::new(), lost: Vec::new(), seen };
        let mut other_format = None;
        match format::marked(&still.dir, &FORMATS) {
            Ok(Some(_)) => {}
            Err(error @ (DiskError::Newer { .. } | DiskError::Older { .. })) => other_format = Some(error),
            Ok(None) => still.findings.push(Finding::missing(still.dir.join("version"))),
            Err(DiskError::Corrupt(_)) => {
                still.findings.push(Finding::new(still.dir.join("version"), "the format version cannot be read"));
            }
            Err(other) => return Err(other),
        }
        let found = still.find_tables().and_then(|()| still.read_journal());
        still.lost = still.read_lost();
        match other_format {
            None => found?,
            // The mark itself may be damaged.
            Some(error) if found.is_err() || !still.has_known_format() => return Err(error),
            Some(error) => still
                .findings
                .push(Finding::new(still.dir.join("version"), &format!("{error}; its rows are of this one"))),
        }
        Ok(still)
    }

    /// Damaged or missing parts, as far as the opening has found.
    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The list of tables, if it can be read.
    pub(super) fn listing(&self) -> Option<&Listing> {
        self.listing.as_ref()
    }

    /// Number of files of the store, and their bytes.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn size(&self) -> Result<(u64, u64), DiskError> {
        let (mut files, mut bytes, mut folders) = (0, 0, vec![self.dir.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(DiskError::at(&folder))? {
                let entry = entry.map_err(DiskError::at(&folder))?;
                let found = entry.metadata().map_err(DiskError::at(&entry.path()))?;
                if found.is_dir() {
                    folders.push(entry.path());
                } else {
                    (files, bytes) = (files + 1, bytes + found.len());
                }
            }
        }
        Ok((files, bytes))
    }

    /// Table files that are read.
    pub(super) fn table_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.runs.iter().flatten()
    }

    /// The format in its row, if it can be read.
    pub(super) fn format(&self) -> Option<u32> {
        let wanted = flat(Table::Meta, b"", FORMAT_KEY);
        let (key, value) = self.rows(&wanted, &Holes::default()).next()?.ok()?;
        if *key == *wanted { value[..].try_into().ok().map(u32::from_be_bytes) } else { None }
    }

    /// Whether the row has a format that this program knows.
    fn has_known_format(&self) -> bool {
        self.format().is_some_and(|found| FORMATS.refuse(&self.dir, found).is_ok())
    }

    fn find_tables(&mut self) -> Result<(), DiskError> {
        let tree = self.dir.join("tree");
        let listing = match Listing::read(&tree) {
            Ok(listing) => Some(listing),
            Err(DiskError::Lacks(path)) => {
                self.findings.push(Finding::missing(path));
                Listing::newest_readable(&tree)
            }
            Err(DiskError::Corrupt(what)) => {
                self.findings.push(Finding::new(tree.join("current"), &what));
                Listing::newest_readable(&tree)
            }
            Err(other) => return Err(other),
        };
        // An unverified list is trusted only if it names exactly the existing files.
        let verified = self.findings.is_empty();
        let believed = |listing: &Listing| -> Result<bool, DiskError> {
            Ok(verified
                || (listing.missing()?.is_empty() && listing.orphans()?.is_empty() && listing.names_each_once()))
        };
        let listing = match listing {
            Some(listing) if believed(&listing)? => Some(listing),
            _ => None,
        };
        if let Some(listing) = listing {
            self.runs =
                listing.runs.iter().map(|run| run.iter().map(|table| listing.path(table.id)).collect()).collect();
            for path in listing.missing()? {
                self.runs.iter_mut().for_each(|run| run.retain(|other| *other != path));
                self.findings.push(Finding::missing(path));
            }
            self.listing = Some(listing);
            return Ok(());
        }
        // Each file is a run of its own: of rows with one key the newest is known by its number.
        self.runs = match table_files(&tree) {
            Ok(files) => files.into_iter().map(|path| vec![path]).collect(),
            Err(_) => {
                self.findings.push(Finding::missing(tree.join(TABLES)));
                Vec::new()
            }
        };
        if !self.runs.is_empty() {
            let what = "no list of tables can be read: all files are treated as tables, so deleted \
                        rows may reappear";
            self.findings.push(Finding::new(tree.join(TABLES), what));
        }
        Ok(())
    }

    /// Sequence number of the first group after the memory table `newest`, if its tables state it
    /// and can be read.
    fn next_group(&self, newest: SeqNo) -> Option<u64> {
        let word = |path: &PathBuf| {
            let rows = TableFile::open(path).ok()?.rows(NEXT_GROUP_KEY, Holes::default());
            rows.filter_map(|row| next_group_of(&row.value, newest)).last()
        };
        self.table_files().find_map(word)
    }

    /// The store's own record of lost ranges, as far as it can be read.
    fn read_lost(&self) -> Vec<Lost> {
        let rows = self.in_tables(LOST_PREFIX, &Holes::default());
        let own = rows.map_while(Result::ok).take_while(|(key, _)| **key < *LOST_END);
        let mut lost: Vec<Lost> = own.filter_map(|(key, value)| Lost::decode(&key, &value)).collect();
        lost.sort_by(|a, b| a.from.cmp(&b.from));
        lost
    }

    /// The highest number of a memory table in tables: later segments of the journal are needed.
    fn newest_in_tables(&self) -> SeqNo {
        let newest = |path: &PathBuf| {
            let table = TableFile::open(path).ok()?;
            let known = table.newest();
            known.or_else(|| table.rows(&[], Holes::default()).map(|row| row.key.seqno).max())
        };
        self.table_files().filter_map(newest).max().unwrap_or(0)
    }

    fn read_journal(&mut self) -> Result<(), DiskError> {
        let dir = self.dir.join("journal");
        if !dir.try_exists().map_err(DiskError::at(&dir))? {
            self.findings.push(Finding::missing(dir));
            return Ok(());
        }
        let seed = journal::random().map_err(DiskError::at(&dir))?;
        let in_tables = self.newest_in_tables();
        let behind_tables = self.next_group(in_tables);
        // Groups are numbered from 1 on.
        let mut expected = behind_tables.or((in_tables == 0).then_some(1));
        let mut before = Before::Tables(in_tables);
        let needed: Vec<u64> = journal::numbers(&dir)?.into_iter().filter(|number| *number > in_tables).collect();
        if let (Some(due), true) = (behind_tables, needed.is_empty()) {
            let what = format!("it is missing, with the acknowledged groups from {due} on; {}", journal::ADVICE);
            let file = journal::path(&dir, in_tables + 1);
            self.findings.push(Finding { missing: true, ..Finding::new(file, &what) });
        }
        for number in needed {
            let path = journal::path(&dir, number);
            let bytes = match fs::read(&path) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.findings.push(Finding::new(path, &error.to_string()));
                    continue;
                }
            };
            let found = pieces(&bytes, number, expected);
            let gap = expected.zip(found.head).and_then(|(due, head)| journal::gap(&dir, before, due, head));
            self.findings.extend(gap);
            if found.head.is_some() {
                before = Before::Segment(number);
            }
            expected = found.next;
            if found.unwritten && behind_tables.is_some() {
                // Only programs that record no number in tables named segments before their heads
                // were durable.
                let what = format!("its header and all of its groups are missing; {}", journal::ADVICE);
                self.findings.push(Finding::at(&path, 0, bytes.len() as u64, &what));
            }
            let memtable = Memtable::new(number, expected.unwrap_or(0), Rows::with_capacity(bytes.len(), seed));
            for at in found.groups {
                let start = at.start;
                if !memtable.apply(&bytes[at]) {
                    self.findings.push(Finding::at(&path, start as u64, 0, "a group holds no operations"));
                }
            }
            self.findings.extend(found.lost.into_iter().map(|lost| Finding::of_journal(&path, lost)));
            let rows = memtable.into_rows();
            let order = rows.order();
            self.layers.insert(0, (rows, order));
        }
        Ok(())
    }

    /// Rows of tables from a flat key on in order, the newest version of each key. Unreadable parts
    /// on the way are recorded.
    fn in_tables(&self, from: &[u8], holes: &Holes) -> impl Iterator<Item = view::Row> + use<'_> {
        let runs = self.runs.iter().map(|run| {
            let (own, holes) = (from.to_vec(), holes.clone());
            let tables = run.iter().flat_map(move |path| -> Box<dyn Iterator<Item = InternalValue>> {
                match TableFile::open(path) {
                    Ok(table) if table.last_key().is_some_and(|last| *last < *own) => Box::new(std::iter::empty()),
                    Ok(table) => Box::new(table.rows(&own, holes.clone())),
                    Err(error) => {
                        holes.add(Hole::of_file(path, &error.to_string()));
                        Box::new(std::iter::empty())
                    }
                }
            });
            Box::new(tables) as Source<'_>
        });
        Newest::of(runs.collect())
    }

    /// Rows from a flat key on in order, the newest version of each key. Unreadable parts and known
    /// losses on the way are recorded before the first row after them.
    pub(super) fn rows(&self, from: &[u8], holes: &Holes) -> impl Iterator<Item = view::Row> + use<'_> {
        let layers = self.layers.iter().map(|(rows, order)| (rows, order.as_slice())).collect::<Vec<_>>();
        let from = from.to_vec();
        // The last rows of tables are the store's own.
        let tables =
            self.in_tables(&from, holes).take_while(|row| row.as_ref().map_or(true, |(key, _)| **key < [OWN][..]));
        let all = view::all(layers.into_iter(), tables);
        let (holes, folder) = (holes.clone(), apart_folder(&self.dir.join("tree")));
        let lost: Vec<&Lost> = self.lost.iter().filter(|lost| *lost.until > *from).collect();
        let mut lost = lost.into_iter().peekable();
        let mut rows = all.filter(move |row| row.as_ref().map_or(true, |(key, _)| **key >= *from));
        std::iter::from_fn(move || {
            let row = rows.next();
            let passed =
                |lost: &&Lost| row.as_ref().is_none_or(|row| row.as_ref().is_ok_and(|(key, _)| **key >= *lost.from));
            while let Some(passed) = lost.next_if(passed) {
                holes.add(passed.hole(&folder));
            }
            row
        })
    }

    /// Passes rows from a key on to `visit`, and ends with an error before any row that may not be
    /// the last version written.
    fn visit(&self, from: &[u8], visit: &mut dyn FnMut(&[u8], &[u8]) -> Visit) -> Result<(), DiskError> {
        let holes = Holes::default();
        let whole = || holes.take().first().map_or(Ok(()), |hole| Err(DiskError::Corrupt(of_hole(hole).to_string())));
        for row in self.rows(from, &holes) {
            let (key, value) = row?;
            whole()?;
            if visit(&key, &value).is_break() {
                return Ok(());
            }
        }
        whole()
    }
}

/// Rows in order.
type Source<'a> = Box<dyn Iterator<Item = InternalValue> + 'a>;

/// The newest version of each key, from ordered runs.
struct Newest<'a> {
    runs: Vec<Source<'a>>,
    next: BinaryHeap<Reverse<(Slice, Reverse<SeqNo>, usize)>>,
    rows: Vec<Option<InternalValue>>,
}

impl<'a> Newest<'a> {
    fn of(runs: Vec<Source<'a>>) -> Newest<'a> {
        let mut all = Newest { next: BinaryHeap::new(), rows: runs.iter().map(|_| None).collect(), runs };
        (0..all.runs.len()).for_each(|run| all.pull(run));
        all
    }

    fn pull(&mut self, run: usize) {
        if let Some(row) = self.runs[run].next() {
            self.next.push(Reverse((row.key.user_key.clone(), Reverse(row.key.seqno), run)));
            self.rows[run] = Some(row);
        }
    }
}

impl Iterator for Newest<'_> {
    type Item = view::Row;

    fn next(&mut self) -> Option<view::Row> {
        loop {
            let Reverse((key, _, run)) = self.next.pop()?;
            let newest = self.rows[run].take().expect("its key stands in the heap");
            self.pull(run);
            while let Some(Reverse((_, _, run))) = self.next.peek().filter(|Reverse((other, ..))| *other == key) {
                let run = *run;
                self.next.pop();
                self.pull(run);
            }
            if !newest.key.value_type.is_tombstone() {
                return Some(Ok((key, newest.value)));
            }
        }
    }
}

impl Engine for Still {
    fn commit(&self, _: &[Batch]) -> Result<(), DiskError> {
        Err(DiskError::from_io("the store is open for reading only", io::ErrorKind::ReadOnlyFilesystem.into()))
    }

    fn read(&self, query: &Query) -> Result<Found, DiskError> {
        answer(
            query,
            |wanted| {
                let mut found = None;
                self.visit(wanted, &mut |key, value| {
                    found = (key == wanted).then(|| value.into());
                    Visit::Break(())
                })?;
                Ok(found)
            },
            |from, until, reverse, found| {
                let mut rows = Vec::new();
                self.visit(from, &mut |key, value| {
                    if key >= until {
                        return Visit::Break(());
                    }
                    rows.push((key.to_vec(), value.to_vec()));
                    Visit::Continue(())
                })?;
                if reverse {
                    rows.reverse();
                }
                let _ = rows.iter().try_for_each(|(key, value)| found.take(key, value));
                Ok(())
            },
        )
    }

    fn for_each_actor(
        &self,
        table: Table,
        after: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8]) -> Visit,
    ) -> Result<(), DiskError> {
        let from = after.map_or_else(|| vec![table as u8], |after| actor_end(table, after));
        let mut last: Option<Vec<u8>> = None;
        self.visit(&from, &mut |row, _| match key::decode(row) {
            Some((of, actor, _)) if of == table => {
                if last.as_deref() == Some(actor) {
                    return Visit::Continue(());
                }
                last = Some(actor.to_vec());
                visit(actor)
            }
            _ => Visit::Break(()),
        })
    }

    fn scan_within(&self, ranges: &[KeyRange], visit: &mut dyn FnMut(&[u8], &[u8]) -> Visit) -> Result<(), DiskError> {
        let mut enough = false;
        for range in ranges {
            self.visit(&range.start, &mut |key, value| {
                if key >= range.end.as_slice() {
                    return Visit::Break(());
                }
                let visited = visit(key, value);
                enough = visited.is_break();
                visited
            })?;
            if enough {
                break;
            }
        }
        Ok(())
    }

    fn copy_to(&self, dir: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64, DiskError> {
        let holes = Holes::default();
        let rows = self.rows(&[], &holes).map(|row| match holes.take().first() {
            Some(hole) => Err(DiskError::Corrupt(of_hole(hole).to_string())),
            None => row,
        });
        let copied = copy::write_store(dir, rows, progress)?;
        holes.take().first().map_or(Ok(copied), |hole| Err(DiskError::Corrupt(of_hole(hole).to_string())))
    }

    fn counters(&self) -> &Seen<StoreCounters> {
        &self.seen
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }

    fn figures(&self) -> Result<Figures, DiskError> {
        Ok(Figures::default())
    }

    fn compact(&self) -> Result<(), DiskError> {
        self.commit(&[])
    }
}

//! The list of tables on disk, read and verified without opening anything: the tables of the store,
//! and the checksum of each file.
//!
//! `lsm_tree` maintains it: `tree/current` names a list and holds its checksum, `tree/vN` is the
//! list, `tree/tables/` has the tables. Both kinds of file are archives of sections, with the
//! places of the sections at the end. All data is verified before use, so that damage is an error
//! with the name of a file, never a panic of a library.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use lsm_tree::TableId;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::DiskError;

/// Names the current list.
const CURRENT: &str = "current";

/// Folder of the tables, beside the list.
pub(super) const TABLES: &str = "tables";

/// Bytes of a table's entry in the list: number, kind of checksum, checksum, offset of its sequence
/// numbers.
const ENTRY_BYTES: usize = 8 + 1 + 16 + 8;

/// Bytes at the end of an archive: mark, version, kind of checksum, checksum and place of the
/// sections' places.
const TRAILER_BYTES: usize = 4 + 1 + 1 + 16 + 8 + 8;

/// The tables of a store.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Number of the list.
    pub(super) number: u64,
    /// Runs of tables whose keys do not overlap, level after level.
    pub(super) runs: Vec<Vec<Listed>>,
    /// Number of runs of each level.
    levels: Vec<usize>,
    dir: PathBuf,
}

/// A table of the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    pub(super) id: TableId,
    /// Of the whole file.
    checksum: u128,
    /// Its position in its section of the list.
    at: usize,
}

/// A table file that no list names yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct New {
    pub(super) id: TableId,
    /// Of the whole file.
    pub(super) checksum: u128,
}

/// A table that is replaced by another file with the same rows; or by none, if no row of it is
/// left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replaced {
    pub(super) table: TableId,
    pub(super) by: Option<New>,
}

impl Listing {
    /// Reads the list of the tables in `dir`.
    ///
    /// # Errors
    /// [`DiskError::Lacks`] if it is missing, [`DiskError::Corrupt`] if it differs from what was
    /// written; the file system's.
    pub(super) fn read(dir: &Path) -> Result<Listing, DiskError> {
        let current = dir.join(CURRENT);
        let named = read_whole(&current)?;
        let corrupt = |path: &Path, what: &str| DiskError::Corrupt(format!("{}: {what}", path.display()));
        let (number, checksum) = match <[u8; 25]>::try_from(&named[..]) {
            Ok(named) if named[24] == 0 => (u64_at(&named, 0), u128_at(&named, 8)),
            _ => return Err(corrupt(&current, "it does not name a list of tables")),
        };
        let (number, checksum) = number.zip(checksum).expect("they are within 25 bytes");
        let path = dir.join(format!("v{number}"));
        let bytes = match read_whole(&path) {
            // The number may be damaged.
            Err(DiskError::Lacks(path)) => return Err(corrupt(&current, &format!("{} is missing", path.display()))),
            other => other?,
        };
        if xxh3_128(&bytes) != checksum {
            return Err(corrupt(&path, "the list of tables is damaged"));
        }
        let found = sections(&bytes, 0).and_then(|all| runs(bytes.get(section(&all, b"tables")?)?));
        let (levels, runs) = found.ok_or_else(|| corrupt(&path, "the list of tables cannot be read"))?;
        Ok(Listing { number, runs, levels, dir: dir.to_owned() })
    }

    /// Whether a folder has a list.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn is_there(dir: &Path) -> Result<bool, DiskError> {
        let current = dir.join(CURRENT);
        current.try_exists().map_err(DiskError::at(&current))
    }

    /// Makes a new list current: this one with some tables replaced, and `added`, if any, before
    /// all others. Durable on return; the tables that it names must already be.
    ///
    /// # Errors
    /// The file system's: either this list or the new one is current.
    pub(super) fn replace(&self, tables: &[Replaced], added: Option<New>) -> Result<(), DiskError> {
        let old = self.dir.join(format!("v{}", self.number));
        let bytes = self.changed(&read_whole(&old)?, tables, added);
        let bytes = bytes.ok_or_else(|| DiskError::Corrupt(format!("{} has changed", old.display())))?;
        let number = self.number + 1;
        let named = [&number.to_le_bytes()[..], &xxh3_128(&bytes).to_le_bytes(), &[0]].concat();
        let write = |path: &Path, bytes: &[u8]| -> io::Result<()> {
            let mut file = File::create(path)?;
            io::Write::write_all(&mut file, bytes)?;
            file.sync_all()
        };
        let sync = |dir: &Path| File::open(dir).and_then(|dir| dir.sync_all());
        let change = || -> io::Result<()> {
            sync(&self.dir.join(TABLES))?;
            write(&self.dir.join(format!("v{number}")), &bytes)?;
            sync(&self.dir)?;
            let unfinished = self.dir.join("current.unfinished");
            write(&unfinished, &named)?;
            fs::rename(&unfinished, self.dir.join(CURRENT))?;
            sync(&self.dir)
        };
        change().map_err(DiskError::at(&self.dir))
    }

    /// The bytes of such a list; `None` if `bytes` are not those of this one.
    fn changed(&self, bytes: &[u8], tables: &[Replaced], added: Option<New>) -> Option<Vec<u8>> {
        let all = sections(bytes, 0)?;
        let old = bytes.get(section(&all, b"tables")?)?;
        // Number, kind of checksum, checksum, and an ingestion's offset to sequence numbers: zero
        // here.
        let encoded =
            |new: New, tail: &[u8]| [&new.id.to_le_bytes(), &[0][..], &new.checksum.to_le_bytes(), tail].concat();
        let mut runs = self.runs.iter();
        let mut section = vec![u8::try_from(self.levels.len()).ok()?];
        for (level, count) in self.levels.iter().enumerate() {
            let mut level_runs = Vec::new();
            level_runs.extend(added.filter(|_| level == 0).map(|new| vec![encoded(new, &[0; 8])]));
            for run in runs.by_ref().take(*count) {
                let mut kept = Vec::new();
                for table in run {
                    let entry = old.get(table.at..table.at + ENTRY_BYTES)?;
                    match tables.iter().find(|replaced| replaced.table == table.id) {
                        None => kept.push(entry.to_vec()),
                        Some(replaced) => kept.extend(replaced.by.map(|new| encoded(new, &entry[ENTRY_BYTES - 8..]))),
                    }
                }
                level_runs.extend((!kept.is_empty()).then_some(kept));
            }
            section.push(u8::try_from(level_runs.len()).ok()?);
            for run in level_runs {
                section.extend(u32::try_from(run.len()).ok()?.to_le_bytes());
                section.extend(run.concat());
            }
        }
        with_section(bytes, b"tables", &section)
    }

    /// The newest readable list, if it is unknown which one is current.
    pub(super) fn newest_readable(dir: &Path) -> Option<Listing> {
        let files = fs::read_dir(dir).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut numbers: Vec<u64> = files.filter_map(|name| name.strip_prefix('v')?.parse().ok()).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.into_iter().find_map(|number| {
            let bytes = fs::read(dir.join(format!("v{number}"))).ok()?;
            let all = sections(&bytes, 0)?;
            let (levels, runs) = runs(bytes.get(section(&all, b"tables")?)?)?;
            Some(Listing { number, runs, levels, dir: dir.to_owned() })
        })
    }

    /// All tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = Listed> {
        self.runs.iter().flatten().copied()
    }

    /// Runs of the first level.
    #[cfg(test)]
    pub(super) fn first_level_runs(&self) -> usize {
        self.levels.first().copied().unwrap_or(0)
    }

    /// Whether no table is listed twice.
    pub(super) fn names_each_once(&self) -> bool {
        let mut numbers: Vec<TableId> = self.tables().map(|table| table.id).collect();
        numbers.sort_unstable();
        numbers.windows(2).all(|pair| pair[0] != pair[1])
    }

    /// The file of a table.
    pub(super) fn path(&self, id: TableId) -> PathBuf {
        self.dir.join(TABLES).join(id.to_string())
    }

    /// Listed tables that are missing.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn missing(&self) -> Result<Vec<PathBuf>, DiskError> {
        let mut missing = Vec::new();
        for table in self.tables() {
            let path = self.path(table.id);
            if !path.try_exists().map_err(DiskError::at(&path))? {
                missing.push(path);
            }
        }
        Ok(missing)
    }

    /// Files beside the tables that the list does not name.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn orphans(&self) -> Result<Vec<PathBuf>, DiskError> {
        let dir = self.dir.join(TABLES);
        let mut orphans = Vec::new();
        for entry in fs::read_dir(&dir).map_err(DiskError::at(&dir))? {
            let path = entry.map_err(DiskError::at(&dir))?.path();
            let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            if !self.tables().any(|table| Some(table.id) == id) {
                orphans.push(path);
            }
        }
        orphans.sort();
        Ok(orphans)
    }
}

impl Listed {
    /// Whether the file matches its checksum; `None` if it cannot be read to its end.
    pub(super) fn is_as_written(&self, path: &Path) -> Option<bool> {
        let mut file = File::open(path).ok()?;
        let mut sum = Checksum(Xxh3Default::new());
        io::copy(&mut file, &mut sum).ok()?;
        Some(sum.0.digest128() == self.checksum)
    }
}

/// The files of all tables in a folder, listed or not, in the order of their numbers.
///
/// # Errors
/// The file system's.
pub(super) fn table_files(dir: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let mut found = numbered(dir)?;
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The highest number of a table file in a folder, listed or not.
///
/// # Errors
/// The file system's.
pub(super) fn last_number(dir: &Path) -> Result<Option<TableId>, DiskError> {
    Ok(numbered(dir)?.into_iter().map(|(id, _)| id).max())
}

fn numbered(dir: &Path) -> Result<Vec<(TableId, PathBuf)>, DiskError> {
    let dir = dir.join(TABLES);
    let mut found: Vec<(TableId, PathBuf)> = Vec::new();
    for entry in fs::read_dir(&dir).map_err(DiskError::at(&dir))? {
        let path = entry.map_err(DiskError::at(&dir))?.path();
        found.extend(path.file_name().and_then(|name| name.to_str()?.parse().ok()).map(|id| (id, path.clone())));
    }
    Ok(found)
}

struct Checksum(Xxh3Default);

impl io::Write for Checksum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A section of an archive: its name, and its place in the file.
pub(super) type Section = (Vec<u8>, Range<usize>);

/// The sections of an archive, of which `tail` is the end and begins at byte `from` of the file.
/// `None` if the table of their places is damaged, or does not begin within the tail.
pub(super) fn sections(tail: &[u8], from: usize) -> Option<Vec<Section>> {
    let end = tail.len().checked_sub(TRAILER_BYTES)?;
    let trailer = &tail[end..];
    let sound = trailer.starts_with(b"SFA!") && trailer[4..6] == [1, 0];
    let begin = usize::try_from(u64_at(trailer, 22)?).ok()?.checked_sub(from)?;
    let places = tail[..end].get(begin..).filter(|_| sound)?;
    let length = usize::try_from(u64_at(trailer, 30)?).ok()?;
    if xxh3_128(places) != u128_at(trailer, 6)? || length != places.len() {
        return None;
    }
    let (count, mut rest) = places.strip_prefix(b"TOC!")?.split_first_chunk::<4>()?;
    let mut found = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (at, length) = (u64_at(rest, 0)?, u64_at(rest, 8)?);
        let name_length = usize::from(u16::from_le_bytes(rest.get(16..18)?.try_into().ok()?));
        let name = rest.get(18..18 + name_length)?.to_vec();
        rest = &rest[18 + name_length..];
        let at = usize::try_from(at).ok()?;
        found.push((name, at..at.checked_add(usize::try_from(length).ok()?)?));
    }
    found.iter().all(|(_, at)| at.end <= from + begin).then_some(found)
}

/// The place of the section with this name.
pub(super) fn section(all: &[Section], name: &[u8]) -> Option<Range<usize>> {
    all.iter().find(|(other, _)| other == name).map(|(_, at)| at.clone())
}

/// The archive with one section's content replaced; `None` if `bytes` are not an archive with such
/// a section.
fn with_section(bytes: &[u8], name: &[u8], content: &[u8]) -> Option<Vec<u8>> {
    let mut all = sections(bytes, 0)?;
    let old = section(&all, name)?;
    let end = bytes.len().checked_sub(TRAILER_BYTES)?;
    let places = usize::try_from(u64_at(&bytes[end..], 22)?).ok()?;
    let moved = |at: usize| if at >= old.end { at - old.len() + content.len() } else { at };
    let mut changed = [&bytes[..old.start], content, bytes.get(old.end..places)?].concat();
    for (other, at) in &mut all {
        *at = if other.as_slice() == name {
            old.start..old.start + content.len()
        } else {
            moved(at.start)..moved(at.end)
        };
    }
    let mut toc = [b"TOC!", &u32::try_from(all.len()).ok()?.to_le_bytes()[..]].concat();
    for (name, at) in &all {
        toc.extend((at.start as u64).to_le_bytes());
        toc.extend((at.len() as u64).to_le_bytes());
        toc.extend(u16::try_from(name.len()).ok()?.to_le_bytes());
        toc.extend_from_slice(name);
    }
    let begin = changed.len() as u64;
    changed.extend_from_slice(&toc);
    changed.extend_from_slice(&bytes[end..end + 6]);
    changed.extend(xxh3_128(&toc).to_le_bytes());
    changed.extend(begin.to_le_bytes());
    changed.extend((toc.len() as u64).to_le_bytes());
    Some(changed)
}

/// Parses the section with the tables: the number of runs per level, and the runs.
fn runs(bytes: &[u8]) -> Option<(Vec<usize>, Vec<Vec<Listed>>)> {
    let mut rest = bytes;
    let mut take = |length: usize| -> Option<(usize, &[u8])> {
        let at = bytes.len() - rest.len();
        let (taken, left) = rest.split_at_checked(length)?;
        rest = left;
        Some((at, taken))
    };
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    for _ in 0..take(1)?.1[0] {
        let count = take(1)?.1[0];
        levels.push(usize::from(count));
        for _ in 0..count {
            let count = u32::from_le_bytes(take(4)?.1.try_into().ok()?);
            let mut run = Vec::new();
            for _ in 0..count {
                let (at, table) = take(ENTRY_BYTES)?;
                run.push(Listed { id: u64_at(table, 0)?, checksum: u128_at(table, 9)?, at });
            }
            found.push(run);
        }
    }
    Some((levels, found))
}

/// A file that must exist.
fn read_whole(path: &Path) -> Result<Vec<u8>, DiskError> {
    fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DiskError::Lacks(path.to_owned()),
        _ => DiskError::at(path)(error),
    })
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn u128_at(bytes: &[u8], at: usize) -> Option<u128> {
    Some(u128::from_le_bytes(bytes.get(at..at + 16)?.try_into().ok()?))
}

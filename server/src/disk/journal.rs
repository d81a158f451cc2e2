//! What a power cut may leave of the journals, told from damage, before the engine reads them; and what of them the
//! engine need not read again.
//!
//! Each group is synced before the next one begins, so at most the last group of the newest journal can be torn; it was
//! never acknowledged and is cut off. fjall cuts a journal at the first entry that it cannot read, whatever follows: a
//! flipped bit would silently take acknowledged groups with it. So here every journal is read first: if a whole group
//! stands behind a broken one, acknowledged data is damaged, nothing is cut, and the store is not opened.
//!
//! fjall begins a new journal only past 64 MB and reads a journal from its beginning, row by row, those that have long
//! been in tables too. Their groups are passed here at the speed of their checksum and left out, so that the time of an
//! opening follows what was not yet in tables.
//!
//! Journal format of fjall 3: start (1, count u32, sequence u64), items (2, type u8, compression u8, keyspace u64, key
//! length u16, value length u32, stored length u32, key, value), clears (4, keyspace u64), end (3, XXH3 of all items
//! u64, "FJL\x03"); little endian. Files are preallocated, so zeros may follow the last group.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::DiskError;

const TRAILER: &[u8] = b"FJL\x03";

/// Bytes read at once; more if a group is longer.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of groups in tables for which it is worth writing a journal anew without them.
const TRIM_BYTES_MIN: u64 = 2 << 20;

/// What has been done to the journals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Bytes of a torn last group that were cut off.
    pub cut: u64,
    /// Bytes of groups left out because all their rows are in tables.
    pub trimmed: u64,
}

/// What is in tables: rows of this keyspace up to this sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTables {
    /// Number of the keyspace.
    pub keyspace: u64,
    /// Its highest sequence number in a table. Rows leave memory in the order of these numbers.
    pub sequence: u64,
}

/// Reads the journals in `dir`, cuts the newest one behind its last whole group, and leaves out what is in tables. No
/// journals, nothing to do.
///
/// # Errors
/// [`DiskError::Corrupt`] if whole groups follow a broken one; otherwise the file system's.
pub fn prepare(dir: &Path, in_tables: Option<InTables>) -> Result<Prepared, DiskError> {
    let journals = journals(dir)?;
    let (mut prepared, mut extents) = (Prepared::default(), Vec::new());
    for (at, path) in journals.iter().enumerate() {
        let extent = read(path, in_tables, at + 1 == journals.len())?;
        if extent.torn > 0 {
            let file = OpenOptions::new().write(true).open(path).map_err(DiskError::at(path))?;
            file.set_len(extent.whole).map_err(DiskError::at(path))?;
            file.sync_all().map_err(DiskError::at(path))?;
            prepared.cut = extent.torn;
        }
        extents.push(extent);
    }
    // Only now, when all of them are known to be sound.
    for (path, extent) in journals.iter().zip(extents).filter(|(_, extent)| extent.in_tables >= TRIM_BYTES_MIN) {
        match trim(dir, path, &extent) {
            Ok(()) => prepared.trimmed += extent.in_tables,
            // It only takes longer then: a full disk must not keep a store from being opened.
            Err(error) => tracing::warn!(%error, path = %path.display(), "the journal is read from its beginning"),
        }
    }
    Ok(prepared)
}

/// Where the groups of a journal end.
struct Extent {
    /// End of the groups at its beginning whose rows are all in tables.
    in_tables: u64,
    /// End of the last whole group.
    whole: u64,
    /// Bytes of the torn group behind it.
    torn: u64,
}

fn read(path: &Path, in_tables: Option<InTables>, newest: bool) -> Result<Extent, DiskError> {
    let mut journal = Pieces::open(path).map_err(DiskError::at(path))?;
    let mut extent = Extent { in_tables: 0, whole: 0, torn: 0 };
    while let Some(group) = journal.group().map_err(DiskError::at(path))? {
        let known = in_tables.is_some_and(|known| group.is_in(known));
        if known && extent.in_tables == extent.whole {
            extent.in_tables += group.length as u64;
        }
        extent.whole += group.length as u64;
    }
    if journal.only_zeros_follow().map_err(DiskError::at(path))? {
        return Ok(extent);
    }
    let rest = journal.all_from(extent.whole).map_err(DiskError::at(path))?;
    if !newest || (1..rest.len()).any(|at| rest[at] == 1 && Group::read(&rest[at..]).is_some()) {
        return Err(DiskError::Corrupt(format!(
            "the journal {} is broken at byte {}, and acknowledged data follows",
            path.display(),
            extent.whole
        )));
    }
    extent.torn = rest.len() as u64;
    Ok(extent)
}

/// Puts a journal without its first groups in the place of the one with them.
fn trim(dir: &Path, path: &Path, extent: &Extent) -> io::Result<()> {
    // The engine passes files of other names than its own.
    let part = path.with_extension("part");
    let result = copy(path, &part, extent).and_then(|()| fs::rename(&part, path));
    if result.is_err() {
        let _ = fs::remove_file(&part);
    }
    result.and_then(|()| File::open(dir)?.sync_all())
}

fn copy(from: &Path, to: &Path, extent: &Extent) -> io::Result<()> {
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    from.seek(SeekFrom::Start(extent.in_tables))?;
    io::copy(&mut from.take(extent.whole - extent.in_tables), &mut to)?;
    to.sync_all()
}

/// The journals in the order of their numbers.
fn journals(dir: &Path) -> Result<Vec<PathBuf>, DiskError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(DiskError::at(dir))?,
    };
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    for entry in entries {
        let path = entry.map_err(DiskError::at(dir))?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jnl")?.parse().ok());
        found.extend(number.map(|number| (number, path)));
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// A journal read from front to back, with no more of it in memory than its longest group.
struct Pieces {
    file: File,
    piece: Vec<u8>,
    /// Bytes of the piece that have been passed.
    used: usize,
    ended: bool,
}

impl Pieces {
    fn open(path: &Path) -> io::Result<Pieces> {
        Ok(Pieces { file: File::open(path)?, piece: Vec::new(), used: 0, ended: false })
    }

    /// The next group; `None` when what follows is none.
    fn group(&mut self) -> io::Result<Option<Group>> {
        loop {
            let rest = &self.piece[self.used..];
            if let Some(group) = Group::read(rest) {
                self.used += group.length;
                return Ok(Some(group));
            }
            if self.ended || rest.first().is_some_and(|tag| *tag != 1) {
                return Ok(None);
            }
            self.more()?;
        }
    }

    /// Whether there are only zeros, or nothing, to the end; passes them.
    fn only_zeros_follow(&mut self) -> io::Result<bool> {
        while self.piece[self.used..].iter().all(|byte| *byte == 0) {
            if self.ended {
                return Ok(true);
            }
            self.used = self.piece.len();
            self.more()?;
        }
        Ok(false)
    }

    fn all_from(&mut self, at: u64) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_to_end(&mut rest)?;
        Ok(rest)
    }

    /// Reads on; what has been passed goes. Each time in vain it takes twice as much.
    fn more(&mut self) -> io::Result<()> {
        self.piece.drain(..self.used);
        self.used = 0;
        let wanted = PIECE_BYTES.max(self.piece.len()) as u64;
        self.ended = self.file.by_ref().take(wanted).read_to_end(&mut self.piece)? == 0;
        Ok(())
    }
}

/// A whole group.
struct Group {
    length: usize,
    sequence: u64,
    /// The keyspace of all its items, if they are of one and there are no clears.
    keyspace: Option<u64>,
}

impl Group {
    /// The group that `bytes` begins with; `None` if that is not a whole and valid one.
    fn read(bytes: &[u8]) -> Option<Group> {
        let mut rest = Rest(bytes);
        if rest.u8()? != 1 {
            return None;
        }
        let count = rest.u32()?;
        let sequence = rest.u64()?;
        let items = rest.0;
        let (mut keyspace, mut mixed) = (None, false);
        for _ in 0..count {
            match rest.u8()? {
                2 => {
                    rest.take(2)?;
                    let of = rest.u64()?;
                    mixed |= *keyspace.get_or_insert(of) != of;
                    let key = usize::from(rest.u16()?);
                    rest.take(4)?;
                    let value = rest.u32()? as usize;
                    rest.take(key)?;
                    rest.take(value)?;
                }
                4 => {
                    rest.take(8)?;
                    mixed = true;
                }
                _ => return None,
            }
        }
        let items = &items[..items.len() - rest.0.len()];
        if rest.u8()? != 3 {
            return None;
        }
        let checksum = rest.u64()?;
        let whole = rest.take(4)? == TRAILER && checksum == xxhash_rust::xxh3::xxh3_64(items);
        let keyspace = keyspace.filter(|_| !mixed);
        whole.then(|| Group { length: bytes.len() - rest.0.len(), sequence, keyspace })
    }

    fn is_in(&self, known: InTables) -> bool {
        self.keyspace == Some(known.keyspace) && self.sequence <= known.sequence
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }
}

//! Which format a store has, and which formats this program opens.
//!
//! The format says what rows mean. It stands in a row of the store ([`FORMAT_KEY`]) and in a mark beside it (`DIR/store/version`:
//! "throng" and the number). The mark is read before anything else is looked at, so that no program takes a folder of another
//! format for an empty one. Up to format 2 the engine of those days kept a mark of its own in this very file and refuses any
//! other, which keeps programs of that time out.
//!
//! A new format is due when there is a kind of row more ([`kind`](throng_engine::store::kind)), or rows of a kind are written in another
//! way: a program of before must not take such a store for one of its own.
//!
//! **Whoever makes a new format** raises [`FORMAT_VERSION`], adds a `Step` to `STEPS`, and keeps a folder of it beside those before
//! under `server/tests/data` (see `server/tests/process/formats.rs`). `migrate` takes the steps. While it does, the mark says the new format
//! already, which keeps older programs out, and the row still says the old one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use throng_engine::store::{Batch, Found, Query, Table};

use super::{DiskError, Engine, Visit};

/// The format that this program writes.
pub const FORMAT_VERSION: u32 = 8;

/// The formats that this program opens. Those before were never released.
pub(super) const FORMATS: Formats = Formats { oldest: 5, known: FORMAT_VERSION, steps: STEPS, chunk_bytes: 1 << 20 };

/// How a store gets from each format to the next.
///
/// Format 6 has kinds of rows that format 5 had not at first (nodes, sessions, invitations, several records of users), entries with
/// trails, and accounts with keys of any hash functions. A store of format 5 may have some of them already, if a program between
/// the two wrote it. All rows of format 5 are rows of format 6 as they are, so only the mark and the row with the format change.
///
/// Format 7 has a kind of row more, the end of what was dropped of a log, and keys of retractions that format 6 did not write. Those that
/// it did write are read as they are.
///
/// In format 8 the row with a roster's version also names the history in which it counts, the record of an account says whether the
/// account is suspended, and retractions in archives of users may be keyed by full JIDs. A kind of row more has the floors of the numbers of
/// publications. Rows of format 7 are read as they are, and a roster's row is written anew with its next change.
const STEPS: &[Step] = &[no_row_changes(5), no_row_changes(6), no_row_changes(7)];

const fn no_row_changes(from: u32) -> Step {
    Step { from, to: from + 1, what: "no row changes", tables: &[], change: |_, _| Err("no row changes".into()) }
}

const _: () = assert!(FORMATS.are_linked(), "one step leads from each format to the next");

/// Sort key of the row in [`Table::Meta`] that holds the format, u32 big endian.
pub const FORMAT_KEY: &[u8] = b"format";

/// Name of the mark in the engine's folder.
const MARK: &str = "version";

/// A change of what rows mean.
#[derive(Debug)]
pub(super) struct Step {
    /// The format that it begins with.
    pub(super) from: u32,
    /// The format that it leads to, which is the next one.
    pub(super) to: u32,
    /// What it does, for the log.
    pub(super) what: &'static str,
    /// The tables whose rows are looked at, in this order.
    pub(super) tables: &'static [Table],
    /// What becomes of a row. It is called for each row of these tables, once for each that is there when its turn comes, and
    /// may write that row or rows of tables whose turn has been or never comes.
    pub(super) change: fn(&StoredRow<'_>, &mut Batch) -> Result<(), String>,
}

/// A row as it is stored.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "no step looks at rows yet"))]
pub(super) struct StoredRow<'a> {
    pub(super) table: Table,
    pub(super) actor: &'a [u8],
    pub(super) sort: &'a [u8],
    pub(super) value: &'a [u8],
}

/// Formats that are opened, and the way from the oldest to the one that is written.
#[derive(Debug)]
pub(super) struct Formats {
    pub(super) oldest: u32,
    pub(super) known: u32,
    pub(super) steps: &'static [Step],
    /// Bytes of rows that are looked at before what was changed is committed.
    pub(super) chunk_bytes: usize,
}

impl Formats {
    /// Whether one step leads from each of them to the next.
    pub(super) const fn are_linked(&self) -> bool {
        let mut at = 0;
        while at < self.steps.len() {
            let step = &self.steps[at];
            if step.from != self.oldest + at as u32 || step.to != step.from + 1 {
                return false;
            }
            at += 1;
        }
        self.oldest + self.steps.len() as u32 == self.known
    }

    /// Why a store of a format is not opened; `Ok` if it is.
    pub(super) fn refuse(&self, dir: &Path, found: u32) -> Result<(), DiskError> {
        let (folder, known) = (dir.to_owned(), self.known);
        match found {
            _ if found > known => Err(DiskError::Newer { folder, found, known }),
            _ if found < self.oldest => Err(DiskError::Older { folder, found, known }),
            _ => Ok(()),
        }
    }
}

/// The format that the engine's folder is marked with, if it is; refuses one that is not opened.
pub(super) fn marked(dir: &Path, formats: &Formats) -> Result<Option<u32>, DiskError> {
    let path = dir.join(MARK);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(DiskError::at(&path)(error)),
    };
    let number = str::from_utf8(&text).ok().and_then(|text| text.strip_prefix("throng ")?.trim_end().parse().ok());
    let found = match number {
        Some(found) => found,
        None if text.starts_with(b"FJL") => 2,
        None => {
            return Err(DiskError::Corrupt(format!("the format version in {} cannot be read", path.display())));
        }
    };
    formats.refuse(dir, found).map(|()| Some(found))
}

/// Marks the engine's folder, which is made if it is missing, with a format; durable on return.
///
/// # Errors
/// The file system's.
pub(super) fn mark(dir: &Path, format: u32) -> Result<(), DiskError> {
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        // Under another name first: half a mark would be taken for damage.
        let unfinished = dir.join("version.unfinished");
        let mut file = File::create(&unfinished)?;
        writeln!(file, "throng {format}")?;
        file.sync_all()?;
        fs::rename(&unfinished, dir.join(MARK))?;
        File::open(dir)?.sync_all()
    };
    write().map_err(DiskError::at(dir))
}

/// Asks for the row with the format to be written.
pub(super) fn put(batch: &mut Batch, format: u32) {
    batch.put(Table::Meta, b"", FORMAT_KEY, &[&format.to_be_bytes()]);
}

/// Where the row stood up to format 4, when keys began with table and name.
const FORMAT_FLAT_KEY_4: &[u8] = b"\0\0format";

/// The format of the rows; it is written into a store without any. Refuses one that is not opened.
pub(super) fn of_rows(engine: &dyn Engine, dir: &Path, formats: &Formats) -> Result<u32, DiskError> {
    let query = Query::Get { table: Table::Meta, actor: Box::default(), sort: FORMAT_KEY.into() };
    let Found::Value(row) = engine.read(&query)? else { unreachable!("a get finds a value") };
    if let Some(row) = row {
        let unread = |_| DiskError::Corrupt("the format version cannot be read".into());
        let found = <[u8; 4]>::try_from(&row[..]).map(u32::from_be_bytes).map_err(unread)?;
        return formats.refuse(dir, found).map(|()| found);
    }
    let (mut empty, mut earlier) = (true, None);
    engine.scan(&mut |key, value| {
        empty = false;
        if key == FORMAT_FLAT_KEY_4 {
            earlier = value.try_into().ok().map(u32::from_be_bytes);
        }
        if key < FORMAT_FLAT_KEY_4 { Visit::Continue(()) } else { Visit::Break(()) }
    })?;
    if let Some(earlier) = earlier {
        formats.refuse(dir, earlier)?;
    }
    if !empty {
        return Err(DiskError::Corrupt("rows without a format version".into()));
    }
    let mut batch = Batch::new();
    put(&mut batch, formats.known);
    engine.commit(&[batch]).map(|()| formats.known)
}

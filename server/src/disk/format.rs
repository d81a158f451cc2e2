//! The format of a store, and the formats that this program opens.
//!
//! The format defines the meaning of rows. It is stored in a row of the store ([`FORMAT_KEY`]) and
//! in a mark beside it (`DIR/store/version`: "throng" and the number). The mark is read first, so
//! that no program takes a folder of another format for an empty one. Up to format 2 the engine of
//! that time kept its own mark in this same file and refuses any other, which keeps those programs
//! out.
//!
//! A new format is required when a kind of row is added ([`kind`](throng_engine::store::kind)), or
//! the encoding of a kind changes: an earlier program must not take such a store for one of its
//! own.
//!
//! **To add a format**, raise [`FORMAT_VERSION`], add a `Step` to `STEPS`, and add a folder of it
//! to those under `server/tests/data` (see `server/tests/process/formats.rs`). `migrate` runs the
//! steps. Meanwhile the mark already states the new format, which keeps older programs out, and the
//! row still states the old one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use throng_engine::store::{Batch, Found, Query, Table, private, record};

use super::{DiskError, Engine, Visit};

/// The format that this program writes.
pub const FORMAT_VERSION: u32 = 8;

/// The oldest format that this program migrates. Earlier ones were never released.
pub const FORMAT_OLDEST: u32 = 5;

/// The formats that this program opens.
pub(super) const FORMATS: Formats =
    Formats { oldest: FORMAT_OLDEST, known: FORMAT_VERSION, steps: STEPS, chunk_bytes: 1 << 20 };

/// The steps from each format to the next.
///
/// Format 6 has kinds of rows that format 5 did not have at first (nodes, sessions, invitations,
/// several records of users), entries with trails, and accounts with keys of any hash functions. A
/// store of format 5 may already have some of them, if a program between the two wrote it. All rows
/// of format 5 are valid rows of format 6, so only the mark and the row with the format change.
///
/// Format 7 adds a kind of row, the end of what was dropped of a log, and keys of retractions that
/// format 6 did not write. Those that it did write are read unchanged.
///
/// In format 8 the row with a roster's version also names the history in which it counts, the
/// record of an account states whether the account is suspended, and retractions in archives of
/// users may be keyed by full JIDs. A new kind of row has the floors of the numbers of
/// publications. These rows of format 7 are read unchanged, and a roster's row is rewritten with
/// its next change. The records that are read whenever an account is are in the table of accounts;
/// format 7 had them among the private rows.
const STEPS: &[Step] = &[
    no_row_changes(5),
    no_row_changes(6),
    Step { from: 7, to: 8, what: "records of users", tables: &[Table::Private], change: beside_the_account },
];

/// Moves a record that is read with the account beside it.
fn beside_the_account(row: &StoredRow<'_>, batch: &mut Batch) -> Result<(), String> {
    if let Some(name) = record::NAMES.into_iter().find(|name| *row.sort == *private::own_key(name)) {
        let account = str::from_utf8(row.actor).map_err(|_| "an account's name is no text".to_owned())?;
        batch.delete(Table::Private, row.actor, row.sort);
        record::put(batch, account, name, row.value);
    }
    Ok(())
}

const fn no_row_changes(from: u32) -> Step {
    Step { from, to: from + 1, what: "no row changes", tables: &[], change: |_, _| Err("no row changes".into()) }
}

const _: () = assert!(FORMATS.are_linked(), "one step leads from each format to the next");

/// Sort key of the row in [`Table::Meta`] that holds the format, u32 big endian.
pub const FORMAT_KEY: &[u8] = b"format";

/// Name of the mark in the engine's folder.
const MARK: &str = "version";

/// A change of the meaning of rows.
#[derive(Debug)]
pub(super) struct Step {
    /// The format that it starts from.
    pub(super) from: u32,
    /// The format that it leads to, which is the next one.
    pub(super) to: u32,
    /// A description, for the log.
    pub(super) what: &'static str,
    /// The tables whose rows are visited, in this order.
    pub(super) tables: &'static [Table],
    /// The change of a row. Called once for each row of these tables that exists when its turn
    /// comes. May write that row, or rows of tables that have been completed or are not visited.
    pub(super) change: fn(&StoredRow<'_>, &mut Batch) -> Result<(), String>,
}

/// A row as it is stored.
#[derive(Debug)]
#[cfg_attr(not(test), expect(dead_code, reason = "steps so far look at rows of one table"))]
pub(super) struct StoredRow<'a> {
    pub(super) table: Table,
    pub(super) actor: &'a [u8],
    pub(super) sort: &'a [u8],
    pub(super) value: &'a [u8],
}

/// The formats that are opened, and the steps from the oldest to the current one.
#[derive(Debug)]
pub(super) struct Formats {
    pub(super) oldest: u32,
    pub(super) known: u32,
    pub(super) steps: &'static [Step],
    /// Bytes of rows visited between two commits.
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

    /// The error for a store whose format is not opened; `Ok` if it is.
    pub(super) fn refuse(&self, dir: &Path, found: u32) -> Result<(), DiskError> {
        let (folder, known) = (dir.to_owned(), self.known);
        match found {
            _ if found > known => Err(DiskError::Newer { folder, found, known }),
            _ if found < self.oldest => Err(DiskError::Older { folder, found, known }),
            _ => Ok(()),
        }
    }
}

/// The format in the mark of the engine's folder, if there is one; refuses one that is not opened.
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

/// Writes the mark of a format into the engine's folder, which is created if missing; durable on
/// return.
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

/// Adds the row with the format to a batch.
pub(super) fn put(batch: &mut Batch, format: u32) {
    batch.put(Table::Meta, b"", FORMAT_KEY, &[&format.to_be_bytes()]);
}

/// The row's key up to format 4, when keys began with table and name.
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

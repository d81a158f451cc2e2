//! Table files that no list names: those the store left itself, and those it must keep.
//!
//! A process that is interrupted leaves unfinished tables, and tables that were already merged. The
//! next opening removes these. Other unlisted files, because the list is an older one or was copied
//! alone, may be the only copy of rows: they are moved aside and kept. So each opening records
//! (`tree/opened`) which list it found and which number its next table gets; only what that opening
//! itself can have left is removed by the next one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lsm_tree::TableId;

use super::DiskError;
use super::listing::{Listing, table_files};

/// Name of the record.
const NOTE: &str = "opened";

/// Folder beside the tables for unlisted ones.
const ASIDE: &str = "unlisted";

/// What an opening finds beside the tables.
pub(super) struct Leftovers {
    dir: PathBuf,
    listed: Vec<TableId>,
}

/// The record of the previous opening.
#[derive(Default)]
struct Note {
    /// Number of the list that it found.
    list: u64,
    /// Number of its first table.
    next: TableId,
    /// Tables of that list.
    listed: Vec<TableId>,
}

impl Leftovers {
    /// Checks a folder of tables before it is opened, and moves aside what must not be removed.
    ///
    /// # Errors
    /// [`DiskError::Lacks`] and [`DiskError::Corrupt`] if a listed table is missing; the file
    /// system's.
    pub(super) fn find(dir: &Path) -> Result<Leftovers, DiskError> {
        let mut found = Leftovers { dir: dir.to_owned(), listed: Vec::new() };
        if !Listing::is_there(dir)? {
            // A new folder; if it is not new, it contains tables.
            return match table_files(dir).is_ok_and(|files| !files.is_empty()) {
                true => Err(DiskError::Lacks(dir.join("current"))),
                false => Ok(found),
            };
        }
        let listing = Listing::read(dir)?;
        if let Some(path) = listing.missing()?.into_iter().next() {
            return Err(DiskError::Lacks(path));
        }
        found.listed = listing.tables().map(|table| table.id).collect();
        let note = found.note()?;
        let own = |id: TableId| {
            note.as_ref()
                .is_some_and(|note| listing.number >= note.list && (id >= note.next || note.listed.contains(&id)))
        };
        for path in listing.orphans()? {
            let id = path.file_name().and_then(|name| name.to_str()?.parse().ok());
            if !id.is_some_and(own) {
                found.move_aside(&path)?;
            }
        }
        Ok(found)
    }

    fn move_aside(&self, path: &Path) -> Result<(), DiskError> {
        let aside = self.dir.join(ASIDE);
        fs::create_dir_all(&aside).map_err(DiskError::at(&aside))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let free = (0..).map(|n| aside.join(if n == 0 { name.clone() } else { format!("{name}.{n}") }));
        let to = free.into_iter().find(|to| !to.exists()).expect("there is always another number");
        tracing::warn!(file = %path.display(), to = %to.display(), "file moved aside: it is in no list of tables");
        fs::rename(path, &to).map_err(DiskError::at(path))
    }

    /// Records the opening: list `list`, in which the next table gets the number `next`.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn remember(&self, list: u64, next: TableId) -> Result<(), DiskError> {
        let listed: Vec<String> = self.listed.iter().map(TableId::to_string).collect();
        let text = format!("list {list}\nnext {next}\ntables {}\n", listed.join(" "));
        let write = || -> io::Result<()> {
            let unfinished = self.dir.join("opened.unfinished");
            let mut file = File::create(&unfinished)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&unfinished, self.dir.join(NOTE))?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(DiskError::at(&self.dir.join(NOTE)))
    }

    /// The record of the previous opening; if it is unreadable, it is empty, and nothing is
    /// removed.
    fn note(&self) -> Result<Option<Note>, DiskError> {
        let path = self.dir.join(NOTE);
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(DiskError::at(&path)(error)),
        };
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let number = |name: &str| line(name)?.trim().parse().ok();
        let tables = line("tables").map(|tables| tables.split_whitespace().filter_map(|id| id.parse().ok()).collect());
        Ok(number("list").zip(number("next")).zip(tables).map(|((list, next), listed)| Note { list, next, listed }))
    }
}

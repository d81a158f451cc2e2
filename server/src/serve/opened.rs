//! The contents of the data folder at a start, from which an operator sees at once whether it is
//! the intended one.

use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use throng_engine::store::{Table, key};

use super::Rows;
use crate::cli::serve::{Count, Opened};
use crate::disk::{self, FolderLock, Store, Visit};

/// Longest time spent counting rows of one kind: a start does not wait for a large store.
const COUNTING: Duration = Duration::from_millis(100);

/// The state of the folder before its store is opened or created.
pub(super) struct Before {
    is_new: bool,
    last_written_s: Option<u64>,
}

/// Reads the state of a folder whose store is not open yet.
pub(super) fn before(lock: &FolderLock) -> Before {
    Before { is_new: !Store::is_there(lock), last_written_s: last_written_s(lock.folder()) }
}

/// When the newest file of the journal was written, in seconds since 1970.
fn last_written_s(folder: &Path) -> Option<u64> {
    let files = std::fs::read_dir(disk::journal_folder(folder)).ok()?;
    let written = files.filter_map(|file| file.ok()?.metadata().ok()?.modified().ok());
    Some(written.max()?.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

/// Adds the contents of the open store.
pub(super) fn look(before: Before, lock: &FolderLock, store: &Store) -> Opened {
    let engine = store.engine();
    Opened {
        is_new: before.is_new,
        accounts: count(&*engine, Table::Accounts),
        messages: count(&*engine, Table::Archive),
        last_written_s: before.last_written_s,
        cut_off: lock.cut_off().map(str::to_owned),
        replayed: store.replayed(),
    }
}

/// Counts rows for a limited time.
fn count(engine: &Rows, table: Table) -> Count {
    let (end, mut count) = (Instant::now() + COUNTING, Count::default());
    let (from, until) = (vec![table as u8], vec![table as u8 + 1]);
    let scanned = engine.scan_within(&[from..until], &mut |row, _| {
        // Beside an account are records of extensions.
        let counts = table != Table::Accounts || key::decode(row).is_some_and(|(.., sort)| sort.is_empty());
        count.rows += u64::from(counts);
        count.is_more = Instant::now() > end;
        if count.is_more { Visit::Break(()) } else { Visit::Continue(()) }
    });
    // Damage is reported elsewhere.
    count.is_more |= scanned.is_err();
    count
}

//! `store salvage`: recovers all intact rows of a damaged store into a new one, and reports what is
//! lost.
//!
//! The source is only read. A row is intact if its block's or its group's checksum matches; of rows
//! with one key the newest intact one counts. If a block of a table is lost, rows of other tables
//! in its key range may be older than the lost ones (and removed rows may reappear): they are
//! recovered, and counted.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use throng_engine::store::Batch;
use throng_engine::store::Table;

use super::blocks::Holes;
use super::check::name_users;
use super::finding::of_hole;
use super::folder::engine_folder;
use super::format::{self, FORMAT_KEY, FORMAT_VERSION, FORMATS};
use super::memory::flat;
use super::migrate::{MIGRATION_KEY, State};
use super::restore::Finish;
use super::{DiskError, Engine, Finding, FolderLock, LockError, Options, Still, Store, copy, folder};

/// The result of a salvage.
#[derive(Debug, Default)]
pub struct Salvaged {
    /// Rows in the new store.
    pub rows: u64,
    /// Of these, rows that may be outdated or may have been removed.
    pub doubtful: u64,
    /// What is damaged, missing or lost.
    pub lost: Vec<Finding>,
}

/// Recovers the intact rows of a locked folder's store into the new folder `into`, whose store
/// `finish` changes. `progress` is given the rows so far.
///
/// # Errors
/// [`DiskError::NotEmpty`] for a folder that is not empty; [`DiskError::NoStore`], another format;
/// the file system's. An incomplete `into` is not a store then.
pub fn salvage(
    from: &FolderLock,
    into: &Path,
    options: &Options,
    finish: Option<Finish<'_>>,
    progress: &mut dyn FnMut(u64),
) -> Result<Salvaged, DiskError> {
    let still = Still::open_damaged(from)?;
    let occupied = |error: LockError| match error {
        LockError::Io(error) => DiskError::at(into)(error),
        LockError::Unsafe(what) => DiskError::from_io(&what, std::io::ErrorKind::PermissionDenied.into()),
        LockError::Held(_) => DiskError::NotEmpty(into.to_owned()),
    };
    if fs::read_dir(into).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(DiskError::NotEmpty(into.to_owned()));
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(into).map_err(DiskError::at(into))?;
    let lock = FolderLock::take(into, "salvage").map_err(occupied)?;
    let mut salvaged = Salvaged { lost: still.findings().to_vec(), ..Salvaged::default() };
    let store = engine_folder(into);
    fs::DirBuilder::new().mode(0o700).create(&store).map_err(DiskError::at(&store))?;
    folder::begin(&store)?;
    let (holes, mut doubtful, mut lost) = (Holes::default(), 0, Vec::new());
    let [of_format, of_migration] = [FORMAT_KEY, MIGRATION_KEY].map(|sort| flat(Table::Meta, b"", sort));
    // Without the format's row, the rows have this format, unless a migration to it was in
    // progress.
    let (mut formatted, mut found) = (false, FORMAT_VERSION);
    let rows = still.rows(&[], &holes).inspect(|row| {
        lost.extend(holes.take().iter().map(of_hole));
        if let Ok((key, value)) = row {
            doubtful += u64::from(lost.iter().any(|hole: &Finding| hole.may_hold(key)));
            formatted |= **key == *of_format;
            if **key == *of_migration {
                found = State::decode(value).map_or(found, |state| state.from);
            }
        }
    });
    salvaged.rows = copy::write_store(&store, rows, progress)?;
    lost.extend(holes.take().iter().map(of_hole));
    (salvaged.doubtful, salvaged.lost) = (doubtful, [salvaged.lost, lost].concat());
    name_users(&still, &mut salvaged.lost)?;
    format::mark(&store, FORMAT_VERSION)?;
    let engine = super::lsm::LsmEngine::open(&store, options)?;
    if !formatted {
        let mut batch = Batch::new();
        format::put(&mut batch, found);
        engine.commit(&[batch])?;
        salvaged.rows += 1;
    }
    if let Some(finish) = finish {
        finish(&engine)?;
    }
    drop(engine);
    folder::finish(&store)?;
    // Also one damaged during a migration or an import, which continues in the new one.
    Store::of_any_format(&lock, options, &FORMATS)?.0.close();
    Ok(salvaged)
}

//! Imports the partitions of an export (`export`) into a store, each as a whole.
//!
//! During an import a row in [`Table::Meta`] names its partitions. It is written before anything is
//! changed, and removed with the last rows. A store with that row is not opened for anything else:
//! rows of these partitions may be missing.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use throng_engine::store::{Batch, Table, key};

use super::export::{Contents, Part, Reader, partition_ranges};
use super::folder::{IMPORT_KEY, Store, unfinished_import};
use super::{DiskError, Engine, Visit};

/// Bytes of removals per commit.
const REMOVED_BYTES: usize = 1 << 20;

/// Imports an export, which has just been verified (`export::verify`), into a store that was opened
/// for it. The store's own rows of these partitions are removed if requested, or if an earlier
/// import left them. `finish` adds to the last writes. `progress` is given the rows so far.
///
/// # Errors
/// [`DiskError::Occupied`] and [`DiskError::Importing`]: nothing has changed.
/// [`DiskError::BadExport`] if the file has changed; the file system's: then the import must be
/// repeated.
pub fn import(
    store: &Store,
    file: &Path,
    contents: &Contents,
    replace: bool,
    finish: &mut dyn FnMut(&mut Batch),
    progress: &mut dyn FnMut(u64),
) -> Result<(), DiskError> {
    let engine = &*store.engine();
    let unfinished = unfinished_import(engine)?;
    if unfinished.iter().any(|partition| !contents.partitions.contains(partition)) {
        return Err(DiskError::Importing(unfinished));
    }
    for partition in contents.partitions.iter().filter(|partition| !replace && !unfinished.contains(partition)) {
        if let Some(actor) = first_actor(engine, *partition)? {
            return Err(DiskError::Occupied { partition: *partition, actor });
        }
    }
    let mut begun = Batch::new();
    let numbers: Vec<u8> = contents.partitions.iter().flat_map(|partition| partition.to_le_bytes()).collect();
    begun.put(Table::Meta, b"", IMPORT_KEY, &[&numbers]);
    engine.commit(&[begun])?;
    for partition in &contents.partitions {
        remove(engine, *partition)?;
    }
    let mut opened = BufReader::new(File::open(file).map_err(DiskError::at(file))?);
    let mut reader = Reader::open(file, &mut opened)?;
    while let Some(part) = reader.next()? {
        if let Part::Rows(batch) = part {
            engine.commit(&[batch])?;
            progress(reader.found().rows);
        }
    }
    if reader.found() != contents {
        return Err(DiskError::BadExport(format!("{} has changed while it was read", file.display())));
    }
    let mut last = Batch::new();
    finish(&mut last);
    last.delete(Table::Meta, b"", IMPORT_KEY);
    engine.commit(&[last])
}

/// Removes the rows that an interrupted import left. Returns the partitions, which are now empty.
///
/// # Errors
/// Those of the engine; it must be repeated then.
pub fn abandon(store: &Store) -> Result<Vec<u16>, DiskError> {
    let engine = &*store.engine();
    let unfinished = unfinished_import(engine)?;
    if unfinished.is_empty() {
        return Ok(unfinished);
    }
    for partition in &unfinished {
        remove(engine, *partition)?;
    }
    let mut last = Batch::new();
    last.delete(Table::Meta, b"", IMPORT_KEY);
    engine.commit(&[last])?;
    Ok(unfinished)
}

/// An actor with rows in a partition.
fn first_actor(engine: &dyn Engine, partition: u16) -> Result<Option<String>, DiskError> {
    let mut found = None;
    engine.scan_within(&partition_ranges(partition), &mut |key, _| {
        found = key::decode(key).map(|(_, actor, _)| String::from_utf8_lossy(actor).into_owned());
        Visit::Break(())
    })?;
    Ok(found)
}

/// Removes all rows of a partition.
fn remove(engine: &dyn Engine, partition: u16) -> Result<(), DiskError> {
    loop {
        let (mut batch, mut last) = (Batch::new(), Vec::new());
        engine.scan_within(&partition_ranges(partition), &mut |key, _| {
            let (table, actor, sort) = key::decode(key).expect("a row within a table");
            let prefix = &key[..key.len() - sort.len()];
            if last != prefix {
                last = prefix.to_vec();
                batch.delete_actor(table, actor);
            }
            if batch.bytes() < REMOVED_BYTES { Visit::Continue(()) } else { Visit::Break(()) }
        })?;
        if batch.is_empty() {
            return Ok(());
        }
        engine.commit(&[batch])?;
    }
}

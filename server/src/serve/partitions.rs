//! Partitions of a store at rest: their contents, export to a file, and import from one.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use throng_engine::id::{PARTITIONS, partition};
use throng_engine::store::floors::Scope;
use throng_engine::store::waiting::{self, Cursor};
use throng_engine::store::{Batch, Table, archive, key, sessions};

use super::{Rows, disk_failure, hashes, settings};
use crate::cli::{Exit, Failure, PartitionCount, Partitions, StoreReport};
use crate::disk::{self, DiskError, Store, Visit, export, import};

/// Counts the contents of each partition.
///
/// # Errors
/// Those of reading the store.
pub(super) fn count(engine: &Rows, progress: &mut dyn FnMut(u64)) -> Result<Partitions, Failure> {
    let map = settings::stored_partition_map(engine)?;
    let mut counts: Vec<PartitionCount> = (0..PARTITIONS)
        .map(|partition| PartitionCount {
            partition,
            shard: map.as_ref().map(|map| map.owner(partition).0),
            ..PartitionCount::default()
        })
        .collect();
    let mut seen = 0_u64;
    let mut last: (Vec<u8>, u16) = (Vec::new(), 0);
    engine
        .scan(&mut |row, value| {
            // Rows about the store itself belong to no partition.
            let Some((table, actor, sort)) = key::decode(row).filter(|(table, ..)| *table != Table::Meta) else {
                return Visit::Continue(());
            };
            if last.0 != actor {
                last = (actor.to_vec(), partition(actor));
            }
            let count = &mut counts[usize::from(last.1)];
            count.users += u64::from(table == Table::Accounts && sort.is_empty());
            count.rows += 1;
            count.bytes += (row.len() + value.len()) as u64;
            seen += 1;
            if seen.is_multiple_of(8192) {
                progress(seen);
            }
            Visit::Continue(())
        })
        .map_err(disk_failure)?;
    let (epoch, shards) = map.map(|map| (map.epoch(), map.shards())).unzip();
    Ok(Partitions { epoch, shards, counts })
}

/// Writes the rows of these partitions to a new file.
///
/// # Errors
/// Those of reading the store, and of writing the file; then no file is left.
pub(super) fn export_to(
    engine: &Rows,
    partitions: &[u16],
    to: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<StoreReport, Failure> {
    if to.exists() {
        let text = format!("{} already exists: move it away, or name another file", to.display());
        return Err(Failure::failed(text));
    }
    let domain = settings::domain(engine)?.unwrap_or_default();
    // An incomplete export never has the final name.
    let mut unfinished = to.as_os_str().to_owned();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let at = |error| disk_failure(DiskError::at(&unfinished)(error));
    let written = File::create(&unfinished).map_err(at).and_then(|file| {
        let mut out = BufWriter::new(file);
        let found =
            export::export(engine, &domain, partitions, (&unfinished, &mut out), progress).map_err(disk_failure)?;
        out.flush().and_then(|()| out.get_ref().sync_all()).map_err(at)?;
        std::fs::rename(&unfinished, to).map_err(at)?;
        disk::space::sync_name(to).map_err(disk_failure)?;
        Ok(found)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written.map(reported)
}

/// Imports the partitions of a file into a store opened for it.
///
/// # Errors
/// The file is incomplete or of another domain, or a partition has rows already: then nothing has
/// changed. Those of the store.
pub(super) fn import_from(
    store: &Store,
    from: &Path,
    replace: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<StoreReport, Failure> {
    let engine = &*store.engine();
    let opened = File::open(from).map_err(|error| disk_failure(DiskError::at(from)(error)))?;
    let highest = Cell::new(0);
    let check = |table: Table, actor: &[u8], sort: &[u8], value: &[u8]| {
        highest.set(highest.get().max(number(table, sort, value).unwrap_or(0)));
        settings::check_value(table, actor, sort, value)
    };
    let contents = export::verify(from, &mut BufReader::new(opened), &check, &mut |_| {}).map_err(disk_failure)?;
    match settings::domain(engine)? {
        Some(own) if own != contents.label => {
            let text = format!(
                "{} contains partitions of the domain {}, but the store belongs to {own}; use \
                 another --data",
                from.display(),
                contents.label
            );
            return Err(Failure::new(Exit::Usage, text));
        }
        None if !contents.label.is_empty() => settings::claim_domain(engine, &contents.label)?,
        _ => {}
    }
    // New entries must get numbers above the imported ones: numbers define the order.
    let floor = settings::number_floor(engine)?.max(highest.get());
    // Both this server and the one that wrote the file may have published items since.
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (mut node_floors, scopes) = (Batch::new(), contents.partitions.iter().map(|number| Scope::Partition(*number)));
    settings::raise_node_floors(engine, scopes, unix_s, &mut node_floors).map_err(disk_failure)?;
    let mut finish = |batch: &mut Batch| {
        settings::put_number_floor(batch, floor);
        node_floors.iter().for_each(|op| batch.add(op));
        hashes::forget(batch);
    };
    import::import(store, from, &contents, replace, &mut finish, progress).map_err(disk_failure)?;
    Ok(reported(contents))
}

/// The highest entry number that a row mentions.
fn number(table: Table, sort: &[u8], value: &[u8]) -> Option<u64> {
    match table {
        Table::Archive => archive::number_of(sort),
        Table::Waiting if sort.is_empty() => Cursor::decode(value).map(|cursor| cursor.number),
        Table::Waiting => waiting::number_of(sort),
        Table::Sessions => sessions::number_of(sort, value),
        _ => None,
    }
}

fn reported(found: export::Contents) -> StoreReport {
    let counts = [("partitions", found.partitions.len() as u64), ("rows", found.rows), ("bytes", found.bytes)];
    StoreReport { counts: counts.map(|(name, count)| (name.to_owned(), count)).to_vec(), ..StoreReport::default() }
}

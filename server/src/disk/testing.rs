//! Helpers of this module's tests.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_engine::store::{Batch, Found, Query, Row, Table};

use super::format::{FORMAT_VERSION, Formats, Step, StoredRow};
use super::{DiskError, Engine, FolderLock, LockError, Options, Store, Wake};

/// Small buffers, so that tables are written and merged in a short test.
pub(crate) fn small() -> Options {
    Options {
        cache_bytes: 1 << 20,
        buffer_bytes: 128 << 10,
        reserve_bytes: 1 << 20,
        min_free_bytes: 1 << 20,
        space_interval: Duration::from_millis(100),
        ..Options::default()
    }
}

/// Opens the store in a test's own folder; nothing else opens it, so the lock need not be kept.
/// A time that only a hang takes, however busy the machine is.
pub(super) const LONG: Duration = Duration::from_secs(120);

pub(super) fn open(folder: &Path, options: &Options) -> Result<Store, DiskError> {
    Store::open(&taken(folder)?, options)
}

/// The lock of a test's own folder. The file system may refuse it.
pub(super) fn taken(folder: &Path) -> Result<FolderLock, DiskError> {
    patiently(|| FolderLock::take(folder, "test")).map_err(|error| match error {
        LockError::Io(error) => DiskError::at(folder)(error),
        other => panic!("{other:?}"),
    })
}

/// Takes a lock that only a process just forked by another test may hold: until its exec it has all
/// files of this one.
fn patiently(take: impl Fn() -> Result<FolderLock, LockError>) -> Result<FolderLock, LockError> {
    let start = Instant::now();
    loop {
        match take() {
            Err(LockError::Held(_)) if start.elapsed() < LONG => {
                std::thread::sleep(Duration::from_millis(1));
            }
            taken => return taken,
        }
    }
}

/// The same of a folder that exists.
pub(super) fn taken_there(folder: &Path) -> FolderLock {
    patiently(|| FolderLock::take_there(folder)).unwrap()
}

/// The result of checking a store at rest.
pub(super) fn checked(folder: &Path) -> super::check::Report {
    let lock = taken_there(folder);
    super::check::check(&lock, &|_, _, _, _| Ok(()), &mut |_| {}).unwrap()
}

pub(super) fn no_wakes(count: usize) -> Vec<Arc<dyn Wake>> {
    (0..count).map(|_| Arc::new(|| {}) as Arc<dyn Wake>).collect()
}

pub(super) fn panics() -> super::commit::Fatal {
    Arc::new(|error| panic!("{error}"))
}

pub(crate) fn put(table: Table, actor: &str, sort: &[u8], value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    batch.put(table, actor.as_bytes(), sort, &[value]);
    batch
}

pub(super) fn get(engine: &dyn Engine, table: Table, actor: &str, sort: &[u8]) -> Option<Vec<u8>> {
    let query = Query::Get { table, actor: actor.as_bytes().into(), sort: sort.into() };
    match engine.read(&query).unwrap() {
        Found::Value(value) => value.map(Vec::from),
        Found::Rows { .. } | Found::Damaged => panic!("a get finds a value"),
    }
}

pub(super) fn rows(engine: &dyn Engine, table: Table, actor: &str) -> Vec<Row> {
    let query = Query::Range {
        table,
        actor: actor.as_bytes().into(),
        from: Box::default(),
        until: None,
        reverse: false,
        rows_max: u32::MAX,
        bytes_max: u32::MAX,
    };
    match engine.read(&query).unwrap() {
        Found::Rows { rows, more } => {
            assert!(!more);
            rows
        }
        Found::Value(_) | Found::Damaged => panic!("a range finds rows"),
    }
}

/// Everything in a store.
pub(crate) fn all(engine: &dyn Engine) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    engine
        .scan(&mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            super::Visit::Continue(())
        })
        .unwrap();
    found
}

/// Waits until something holds; fails after [`LONG`].
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "waited {LONG:?} for: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The test step: archived rows get a new prefix; each roster item also a row of its own in another
/// table. Fails if it is applied twice.
pub(super) fn change(row: &StoredRow<'_>, batch: &mut Batch) -> Result<(), String> {
    if row.value.starts_with(b"new") {
        return Err("it has been changed already".into());
    }
    batch.put(row.table, row.actor, row.sort, &[b"new", row.value]);
    if row.table == Table::Roster {
        batch.put(Table::Private, row.actor, row.sort, &[row.value]);
    }
    Ok(())
}

/// The format after this program's.
pub(super) const NEXT: u32 = FORMAT_VERSION + 1;

/// The step to it.
pub(super) const TO_NEXT: Step =
    Step { from: FORMAT_VERSION, to: NEXT, what: "a beginning", tables: &[Table::Roster, Table::Archive], change };

/// The formats known to a program of that format.
pub(super) const FORMATS: Formats =
    Formats { oldest: FORMAT_VERSION, known: NEXT, steps: &[TO_NEXT], chunk_bytes: 1_000 };

/// Implements functions of an [`Engine`] by delegation to `self.inner`, for a store that overrides
/// only some.
macro_rules! as_inner {
    ($($name:ident),+) => {
        $($crate::disk::testing::as_inner!(@ $name);)+
        fn scan_within(
            &self,
            ranges: &[$crate::disk::KeyRange],
            visit: &mut dyn FnMut(&[u8], &[u8]) -> $crate::disk::Visit,
        ) -> Result<(), $crate::disk::DiskError> {
            self.inner.scan_within(ranges, visit)
        }
        fn copy_to(
            &self,
            dir: &std::path::Path,
            progress: &mut dyn FnMut(u64),
        ) -> Result<u64, $crate::disk::DiskError> {
            self.inner.copy_to(dir, progress)
        }
        fn counters(&self) -> &$crate::disk::Seen<$crate::disk::StoreCounters> {
            self.inner.counters()
        }
        fn memory(&self) -> $crate::disk::Memory {
            self.inner.memory()
        }
        fn figures(&self) -> Result<$crate::disk::Figures, $crate::disk::DiskError> {
            self.inner.figures()
        }
        fn compact(&self) -> Result<(), $crate::disk::DiskError> {
            self.inner.compact()
        }
    };
    (@ commit) => {
        fn commit(&self, batches: &[throng_engine::store::Batch]) -> Result<(), $crate::disk::DiskError> {
            self.inner.commit(batches)
        }
    };
    (@ read) => {
        fn read(
            &self,
            query: &throng_engine::store::Query,
        ) -> Result<throng_engine::store::Found, $crate::disk::DiskError> {
            self.inner.read(query)
        }
    };
    (@ for_each_actor) => {
        fn for_each_actor(
            &self,
            table: throng_engine::store::Table,
            after: Option<&[u8]>,
            visit: &mut dyn FnMut(&[u8]) -> $crate::disk::Visit,
        ) -> Result<(), $crate::disk::DiskError> {
            self.inner.for_each_actor(table, after, visit)
        }
    };
}
pub(crate) use as_inner;

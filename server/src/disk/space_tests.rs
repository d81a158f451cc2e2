//! The space that merges use, on devices with simulated free space, at a hundredth of the usual
//! sizes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use throng_engine::store::{Batch, Table};

use super::testing::{all, no_wakes, open, panics, small, wait_until};
use super::*;

/// A device, by the folder that it holds.
#[derive(Clone, Copy)]
struct Device {
    capacity: u64,
    /// The minimum free space ever observed.
    least_seen: u64,
}

static DEVICES: std::sync::Mutex<Option<HashMap<PathBuf, Device>>> = std::sync::Mutex::new(None);

/// Bytes of all files below a folder.
fn used(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => used(&entry.path()),
        Ok(data) => data.len(),
        // Removed since the folder was listed.
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

fn simulated(path: &Path) -> Result<u64, DiskError> {
    let mut devices = DEVICES.lock().unwrap();
    let devices = devices.get_or_insert_default();
    let (folder, device) = devices.iter_mut().find(|(folder, _)| path.starts_with(folder)).expect("a device");
    let free = device.capacity.saturating_sub(used(folder));
    device.least_seen = device.least_seen.min(free);
    Ok(free)
}

/// Sets the free space.
fn set_free(folder: &Path, free: u64) {
    let capacity = used(folder).saturating_add(free);
    let device = Device { capacity, least_seen: u64::MAX };
    DEVICES.lock().unwrap().get_or_insert_default().insert(folder.to_owned(), device);
}

fn least_seen(folder: &Path) -> u64 {
    DEVICES.lock().unwrap().as_ref().unwrap()[folder].least_seen
}

const LEAST: u64 = 64 << 10;

fn options() -> Options {
    Options {
        buffer_bytes: 64 << 10,
        table_bytes: 512 << 10,
        reserve_bytes: 0,
        min_free_bytes: LEAST,
        free_bytes: simulated,
        space_interval: Duration::from_millis(10),
        ..small()
    }
}

/// Twenty rows of a kilobyte each, of users in random order.
fn numbered(number: u64) -> Batch {
    let mut batch = Batch::new();
    for row in number * 20..(number + 1) * 20 {
        let user = format!("user{:08x}", (row as u32).wrapping_mul(0x9e37_79b9));
        batch.put(Table::Accounts, user.as_bytes(), b"", &[&[number as u8; 1000]]);
    }
    batch
}

/// A store with twelve megabytes on a device with plenty of room, its committer, and the number of
/// its state changes.
struct Running {
    dir: tempfile::TempDir,
    engine: Arc<dyn Engine>,
    committer: Committer,
    submitter: Submitter,
    changes: Arc<AtomicUsize>,
    batches: u64,
}

impl Running {
    fn start() -> Running {
        let dir = tempfile::tempdir().unwrap();
        set_free(dir.path(), 1 << 40);
        let engine = open(dir.path(), &options()).unwrap().engine();
        let changes = Arc::new(AtomicUsize::new(0));
        let counter = changes.clone();
        let wake: Arc<dyn Wake> = Arc::new(move || {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        let (committer, submitters) =
            Committer::start(engine.clone(), Some(dir.path().into()), 1, vec![wake], &options(), panics()).unwrap();
        let submitter = submitters.into_iter().next().unwrap();
        let mut running = Running { dir, engine, committer, submitter, changes, batches: 0 };
        running.write(600);
        running.wait_for_quiet();
        running
    }

    /// Waits until no table is being written: a partial result would count as used.
    fn wait_for_quiet(&self) {
        let counters = &self.engine.counters().counters;
        let mut quiet = 0;
        wait_until("no table is written", || {
            quiet = if counters.merging.get() + counters.flushing.get() == 0 { quiet + 1 } else { 0 };
            quiet > 100
        });
    }

    /// Writes batches one by one, or until the disk counts as full.
    fn write(&mut self, count: u64) {
        for _ in 0..count {
            if self.submitter.state() == StorageState::Full {
                return;
            }
            let gate = self.submitter.submit(numbered(self.batches));
            self.batches += 1;
            wait_until("durable", || self.submitter.durable() >= gate);
        }
    }

    fn set_free(&self, free: u64) {
        set_free(self.dir.path(), free);
    }

    /// The committer checks the space only when it has something to do.
    fn write_one_anyway(&mut self) {
        let gate = self.submitter.submit(numbered(0));
        wait_until("durable", || self.submitter.durable() >= gate);
    }

    fn end(self) {
        let Running { engine, committer, submitter, batches, .. } = self;
        drop(submitter);
        committer.stop();
        assert_eq!(all(&*engine).len() as u64, batches * 20 + 1);
    }
}

/// The amount of space that must be freed is reported exactly: less is too little, and that much is
/// enough, if no merge is due.
#[test]
fn a_full_disk_says_how_many_bytes_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    set_free(dir.path(), LEAST - 8_192);
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::default());
    let (committer, mut submitters) =
        Committer::start(engine, Some(dir.path().into()), 1, no_wakes(1), &options(), panics()).unwrap();
    let (submitter, tuner) = (&mut submitters[0], committer.tuner());
    let gate = submitter.submit(numbered(0));
    wait_until("durable", || submitter.durable() >= gate);
    wait_until("a full disk", || submitter.state() == StorageState::Full);
    // A quarter more than the limit.
    let accepting = LEAST + LEAST / 4;
    wait_until("what it lacks", || tuner.lacking_bytes() == accepting - (LEAST - 8_192));
    set_free(dir.path(), accepting - 4_096);
    wait_until("what it still lacks", || tuner.lacking_bytes() == 4_096);
    assert_eq!(submitter.state(), StorageState::Full);
    set_free(dir.path(), accepting);
    wait_until("room", || submitter.state() == StorageState::Ok);
    assert_eq!(tuner.lacking_bytes(), 0);
    committer.stop();
}

/// All of the first level and of the next would be thirteen megabytes; a new level between them
/// needs a third.
#[test]
fn a_store_with_room_for_small_merges_makes_small_merges_and_refuses_nobody() {
    let mut running = Running::start();
    running.set_free(9 << 20);
    running.write(170);
    wait_until("tables are merged", || !running.engine.is_starved());
    assert_eq!((running.submitter.state(), running.changes.load(Ordering::SeqCst)), (StorageState::Ok, 0));
    assert!(least_seen(running.dir.path()) >= LEAST, "{} bytes were left", least_seen(running.dir.path()));
    running.end();
}

#[test]
fn a_store_without_room_for_a_merge_refuses_once_and_accepts_once() {
    let mut running = Running::start();
    running.set_free(3 << 20);
    running.write(600);
    assert_eq!(running.submitter.state(), StorageState::Full);
    let merges = running.engine.counters().counters.merges.get();
    let free = simulated(running.dir.path()).unwrap();
    // Free space fluctuates a little, as others on the device write and remove: no merge is started
    // in vain, and the state does not flap.
    let mut least = u64::MAX;
    for part in (0..100).map(|n| n * 7 % 5) {
        least = least.min(least_seen(running.dir.path()));
        running.set_free(free - part * (16 << 10));
        if part == 0 {
            running.write_one_anyway();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let counters = &running.engine.counters().counters;
    assert_eq!((running.changes.load(Ordering::SeqCst), counters.merges.get()), (1, merges));
    assert!(least > free / 2, "a merge took space in vain: {least} bytes were free");
    running.set_free(40 << 20);
    wait_until("messages are accepted", || running.submitter.state() == StorageState::Ok);
    running.write(60);
    assert_eq!(running.changes.load(Ordering::SeqCst), 2);
    running.end();
}

#[test]
fn a_merge_that_found_no_space_begins_only_with_an_eighth_more() {
    let dir = tempfile::tempdir().unwrap();
    let space = merge::MergeSpace::new(dir.path().into(), simulated, 1000);
    let needed = 1250 + 8000;
    set_free(dir.path(), needed);
    assert!(space.room(8000).is_ok());
    set_free(dir.path(), needed - 1);
    let refused = space.room(8000).unwrap_err().to_string();
    // The requirement from now on: an eighth more than it would have needed.
    assert!(refused.contains("needs 10250 bytes of free space; 9249 are free"), "{refused}");
    for free in [needed, needed + 999] {
        set_free(dir.path(), free);
        assert!(space.room(8000).is_err() && !space.has_room(8000));
    }
    set_free(dir.path(), needed + 1000);
    assert!(space.room(8000).is_ok());
    set_free(dir.path(), needed);
    assert!(space.room(8000).is_ok());
    // Without a limit, merges are not restricted.
    space.tune(0, true);
    set_free(dir.path(), 0);
    assert!(space.room(8000).is_ok());
}

//! A full disk, on a small private file system (tmpfs; requires the right to mount).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use throng_engine::id::Gate;
use throng_engine::store::{Batch, Table};

use super::testing::{checked, get, no_wakes, open, panics, rows, small, wait_until};
use super::*;

/// Set in the process that has its own mounts.
const MARK: &str = "THRONG_TEST_SMALL_DISK";

/// A small mounted file system. The mount is visible only to the test's process and disappears with
/// it, however that ends.
struct Small {
    dir: tempfile::TempDir,
}

impl Small {
    /// Reruns the test `name` of this file in a process with its own mounts, and gives it a file
    /// system there; `None` in the first process, or if mounting is not permitted.
    fn mount(name: &str, megabytes: u64) -> Option<Small> {
        if std::env::var_os(MARK).is_none() {
            Small::in_a_process_of_its_own(name);
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let option = format!("size={megabytes}m");
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &option, "tmpfs"]).arg(dir.path()).output();
        assert!(done.is_ok_and(|output| output.status.success()), "a tmpfs can be mounted here");
        Some(Small { dir })
    }

    fn in_a_process_of_its_own(name: &str) {
        let unshare = || {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--fork", "--kill-child", "--"]);
            command
        };
        let folder = tempfile::tempdir().unwrap();
        let tried = unshare().args(["mount", "-t", "tmpfs", "tmpfs"]).arg(folder.path()).output();
        if !tried.is_ok_and(|output| output.status.success()) {
            return eprintln!("SKIPPED: mounting a small file system is not permitted here");
        }
        let child = unshare()
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", &format!("disk::full_tests::{name}"), "--nocapture"])
            .env(MARK, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout).into_owned() + &String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success() && text.contains("1 passed"), "{text}");
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Uses all space but `left` bytes; the store may be using some at the same time.
    fn fill(&self, left: u64) {
        let path = self.dir.path().join("filler");
        let file = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut piece = u64::MAX;
        while piece > 0 {
            let have = file.metadata().unwrap().len();
            piece = piece.min(space::free_bytes(self.dir.path()).unwrap().saturating_sub(left) & !4095);
            if piece > 0 && rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), have, piece).is_err() {
                piece /= 2;
            }
        }
    }

    fn empty(&self) {
        fs::remove_file(self.dir.path().join("filler")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.dir.path()).status();
    }
}

fn numbered(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Table::Archive, b"a@x", &number.to_be_bytes(), &[&[number as u8; 3000]]);
    batch.put(Table::Waiting, b"a@x", b"", &[&number.to_be_bytes()]);
    batch
}

/// Checks that exactly the batches below `count` exist, complete.
fn verify(dir: &Path, options: &Options, count: u64) {
    let store = open(dir, options).unwrap();
    let engine = store.engine();
    assert_eq!(get(&*engine, Table::Waiting, "a@x", b""), Some((count - 1).to_be_bytes().to_vec()));
    let found = rows(&*engine, Table::Archive, "a@x");
    assert_eq!(found.len() as u64, count);
    for (number, row) in found.iter().enumerate() {
        assert!(row.value.len() == 3000 && row.value.iter().all(|byte| *byte == number as u8), "row {number}");
    }
    drop((engine, store));
    assert!(checked(dir).is_sound());
}

fn wait_durable(submitter: &Submitter, gate: Gate) {
    wait_until("durable", || submitter.durable() >= gate);
}

#[test]
fn a_full_disk_refuses_new_messages_and_loses_nothing() {
    let Some(disk) = Small::mount("a_full_disk_refuses_new_messages_and_loses_nothing", 160) else { return };
    fs::write(disk.dir.path().join("others"), vec![1; 70 << 20]).unwrap();
    let options = Options { reserve_bytes: 8 << 20, min_free_bytes: 8 << 20, ..small() };
    let store = open(&disk.data(), &options).unwrap();
    let told = Arc::new(AtomicUsize::new(0));
    let counter = told.clone();
    let wake: Arc<dyn Wake> = Arc::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let (committer, mut submitters) =
        Committer::start(store.engine(), Some(disk.data()), 1, vec![wake], &options, panics()).unwrap();
    let submitter = &mut submitters[0];
    let mut number = 0;
    let mut write = |submitter: &mut Submitter, count: u64| {
        for _ in 0..count {
            let gate = submitter.submit(numbered(number));
            number += 1;
            wait_durable(submitter, gate);
        }
    };

    // Messages are accepted until free space is below the limit.
    while submitter.state() == StorageState::Ok {
        write(submitter, 50);
    }
    assert!(told.load(Ordering::SeqCst) > 0, "the shards are told");
    // What is in flight then succeeds: first in the remaining space, then, with none, in the
    // reserve.
    write(submitter, 100);
    // (Merged tables give some space back meanwhile, so it is taken again repeatedly.)
    for _ in 0..50 {
        disk.fill(0);
        write(submitter, 20);
        if !disk.data().join("reserve").exists() {
            break;
        }
    }
    assert!(!disk.data().join("reserve").exists(), "the reserve was used");
    assert_eq!(submitter.state(), StorageState::Full);

    // With no space left at all commits wait, and reads continue.
    disk.fill(0);
    let mut last = Gate(0);
    for _ in 0..20 {
        while !submitter.is_full() && submitter.durable() >= last {
            last = submitter.submit(numbered(number));
            number += 1;
            std::thread::sleep(Duration::from_millis(1));
        }
        disk.fill(0);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(submitter.durable() < last, "a commit waits for space");
    wait_until("a read", || {
        let query =
            throng_engine::store::Query::Get { table: Table::Waiting, actor: b"a@x"[..].into(), sort: Box::default() };
        store.engine().read(&query).is_ok()
    });

    // Space is available again: what waited is durable, the reserve is recreated, messages are
    // accepted.
    disk.empty();
    fs::remove_file(disk.dir.path().join("others")).unwrap();
    wait_durable(submitter, last);
    wait_until("the state", || submitter.state() == StorageState::Ok);
    assert!(disk.data().join("reserve").exists(), "the reserve is back");
    let gate = submitter.submit(numbered(number));
    wait_durable(submitter, gate);
    committer.stop();
    drop(submitters);
    drop(store);
    verify(&disk.data(), &options, number + 1);
}

#[test]
fn merging_tables_leaves_the_space_that_commits_need() {
    let Some(disk) = Small::mount("merging_tables_leaves_the_space_that_commits_need", 128) else { return };
    let options = Options { reserve_bytes: 4 << 20, min_free_bytes: 4 << 20, ..small() };
    let store = open(&disk.data(), &options).unwrap();
    let (committer, mut submitters) =
        Committer::start(store.engine(), Some(disk.data()), 1, no_wakes(1), &options, panics()).unwrap();
    let submitter = &mut submitters[0];
    let mut number = 0;
    while submitter.state() == StorageState::Ok {
        for _ in 0..50 {
            let gate = submitter.submit(numbered(number));
            number += 1;
            wait_durable(submitter, gate);
        }
    }
    // Writes are refused before the disk is full, and that state is stable: nothing is attempted in
    // vain, the reserve is not touched.
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(50));
        assert!(disk.data().join("reserve").exists());
        assert!(space::free_bytes(&disk.data()).unwrap() > 1 << 20);
    }
    committer.stop();
    drop(submitters);
    drop(store);
    verify(&disk.data(), &options, number);
}

#[test]
fn a_disk_that_fills_again_and_again_loses_nothing() {
    let Some(disk) = Small::mount("a_disk_that_fills_again_and_again_loses_nothing", 96) else { return };
    // Without a limit of free space the engine itself runs out of space, in the journal or in a
    // table.
    let options = Options { reserve_bytes: 0, min_free_bytes: 0, ..small() };
    let store = open(&disk.data(), &options).unwrap();
    let (committer, mut submitters) =
        Committer::start(store.engine(), Some(disk.data()), 1, no_wakes(1), &options, panics()).unwrap();
    let submitter = &mut submitters[0];
    let (mut number, mut full_rounds) = (0, 0);
    // How often it is full depends on the thread that writes tables, which yields to other load on
    // the machine.
    for round in 0..60_u64 {
        if round >= 12 && full_rounds >= 8 {
            break;
        }
        disk.fill((round % 5) * 70_000);
        let mut gate = Gate(0);
        let patience = Instant::now() + Duration::from_secs(5);
        for _ in 0..200 {
            // On a busy machine the committer takes its time: the disk must be full, not the queue.
            while submitter.is_full() && submitter.state() == StorageState::Ok && Instant::now() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
            if submitter.is_full() {
                break;
            }
            gate = submitter.submit(numbered(number));
            number += 1;
        }
        let waited = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            submitter.state() == StorageState::Full
        });
        full_rounds += usize::from(waited);
        disk.empty();
        wait_durable(submitter, gate);
    }
    assert!(full_rounds >= 8, "the disk was full in {full_rounds} rounds of 60 only");
    committer.stop();
    drop(submitters);
    drop(store);
    verify(&disk.data(), &options, number);
}

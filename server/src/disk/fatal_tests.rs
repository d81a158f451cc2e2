//! Errors other than a full disk: they end the process with a message, are never retried, and
//! nothing that they affect is acknowledged or answered.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use throng_engine::id::Gate;
use throng_engine::store::{Batch, Found, Query, Table};

use super::testing::{as_inner, no_wakes, open, put, small, wait_until};
use super::*;

/// The engine's call that the device fails, and from which one on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fails {
    Commit { after: usize },
    Read,
}

/// A store in memory on a device that breaks.
struct Breaking {
    inner: MemoryEngine,
    fails: Fails,
    commits: AtomicUsize,
}

impl Breaking {
    fn new(fails: Fails) -> Arc<Breaking> {
        Arc::new(Breaking { inner: MemoryEngine::default(), fails, commits: AtomicUsize::new(0) })
    }
}

fn input_output_error() -> DiskError {
    DiskError::from_io("journal", std::io::Error::from_raw_os_error(libc::EIO))
}

impl Engine for Breaking {
    fn commit(&self, batches: &[Batch]) -> Result<(), DiskError> {
        let before = self.commits.fetch_add(1, Ordering::SeqCst);
        match self.fails {
            Fails::Commit { after } if before >= after => Err(input_output_error()),
            _ => self.inner.commit(batches),
        }
    }
    fn read(&self, query: &Query) -> Result<Found, DiskError> {
        if self.fails == Fails::Read { Err(input_output_error()) } else { self.inner.read(query) }
    }
    as_inner!(for_each_actor);
}

/// What the operator is told, in place of the end of the process.
fn told() -> (commit::Fatal, mpsc::Receiver<String>) {
    let (sender, told) = mpsc::sync_channel(8);
    (Arc::new(move |error| sender.send(error.to_string()).unwrap()), told)
}

const SENTENCE: &str = "the file system failed: journal: Input/output error (os error 5)";

fn expect_sentence(told: &mpsc::Receiver<String>) {
    assert_eq!(told.recv_timeout(testing::LONG).expect("somebody is told"), SENTENCE);
    assert!(told.recv_timeout(Duration::from_millis(50)).is_err(), "told once");
}

fn numbered(number: u64) -> Batch {
    put(Table::Archive, "a@x", &number.to_be_bytes(), b"value")
}

#[test]
fn a_commit_that_fails_is_final_and_acknowledged_to_nobody() {
    let engine = Breaking::new(Fails::Commit { after: 1 });
    let (fatal, told) = told();
    let (_committer, mut submitters) =
        Committer::start(engine.clone(), None, 1, no_wakes(1), &Options::default(), fatal).unwrap();
    let submitter = &mut submitters[0];
    let first = submitter.submit(numbered(1));
    wait_until("the first commit", || submitter.durable() >= first);
    let second = submitter.submit(numbered(2));
    expect_sentence(&told);
    let third = submitter.submit(numbered(3));
    std::thread::sleep(Duration::from_millis(50));
    assert!(second < third && submitter.durable() == first, "durable up to {:?}", submitter.durable());
    assert_eq!(engine.commits.load(Ordering::SeqCst), 2, "a failed sync is not tried again");
}

#[test]
fn a_read_that_fails_is_final_and_answered_with_nothing() {
    let options = Options { read_threads: 1, ..Options::default() };
    let engine: Arc<dyn Engine> = Breaking::new(Fails::Read);
    let (fatal, told) = told();
    let sleepers = Readers::sleepers(&options);
    let wakes = no_wakes(1).into_iter().chain(sleepers.iter().map(|s| s.clone() as Arc<dyn Wake>)).collect();
    let (committer, _submitters) =
        Committer::start(engine.clone(), None, 1, wakes, &options, testing::panics()).unwrap();
    let (_readers, mut ports) = Readers::start(&engine, &committer, sleepers, 1, &options, &fatal).unwrap();
    let query = Query::Get { table: Table::Archive, actor: b"a@x"[..].into(), sort: b"1"[..].into() };
    assert!(ports[0].submit(ReadRequest { token: 7, after: Gate(0), queries: vec![query] }).is_ok());
    expect_sentence(&told);
    assert!(ports[0].poll().is_none());
}

/// Runs in a child process: commits until the file system accepts no more, which ends it. A file
/// size limit of 64 KiB, half a segment, stands for any device failure.
#[test]
#[ignore = "the child process of the test below"]
fn fatal_child() {
    let Ok(dir) = std::env::var("THRONG_FATAL_DIR") else { return };
    let store = open(Path::new(&dir), &small()).unwrap();
    let (_committer, mut submitters) =
        Committer::start(store.engine(), Some(dir.into()), 1, no_wakes(1), &small(), commit::stop_process()).unwrap();
    let limit = ["--fsize=65536", "--pid", &std::process::id().to_string()].map(str::to_owned);
    assert!(Command::new("prlimit").args(limit).status().unwrap().success());
    println!("begins");
    let start = Instant::now();
    for number in 0.. {
        assert!(start.elapsed() < Duration::from_secs(60), "the process goes on, with commits that wait");
        if submitters[0].is_full() {
            std::thread::sleep(Duration::from_millis(1));
        } else {
            submitters[0].submit(put(Table::Archive, "a@x", &u64::to_be_bytes(number), &[7; 3000]));
        }
    }
}

#[test]
fn an_error_of_the_file_system_ends_the_process_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    // Without the trap the kernel would end the process by a signal, instead of returning EFBIG.
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "disk::fatal_tests::fatal_child", "--ignored", "--nocapture"])
        .env("THRONG_FATAL_DIR", dir.path())
        .output()
        .unwrap();
    let (out, error) = (String::from_utf8_lossy(&child.stdout), String::from_utf8_lossy(&child.stderr));
    assert!(out.contains("begins"), "{out}{error}");
    assert_eq!(child.status.code(), Some(74), "{out}{error}");
    assert!(error.contains("throng: the store has failed: the file system failed: "), "{error}");
    assert!(error.contains("File too large"), "{error}");
}

//! A store at every moment of its life, as a power cut, a failing device or a copy would leave it.
//!
//! A process works on a store while `strace` records each of its system calls, including those of
//! `lsm_tree`. From these the folder's possible states after a cut before each call are generated
//! (`states`), and each is opened: exactly what was acknowledged exists, and at most what was in
//! progress besides. `THRONG_POWERCUT_CASES` sets the number of states.

mod migrate;
mod rot;
mod states;
mod trace;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use throng_engine::store::{Batch, Table};

use self::states::{Disk, Left, Tree, lay};
use self::trace::{CALLS, Op, Reader};
use super::testing::{get, open, rows, small};
use super::*;

/// Set in the traced process: its folder, and its work.
const WORK: &str = "THRONG_POWERCUT_WORK";

/// Number of batches whose rows exist at a time: each removes an older one's.
const KEPT: u64 = 20;

/// Calls of `write` by which the test harness announces a test.
const HARNESS_WRITES: usize = 3;

/// A seeded random generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

fn options() -> Options {
    Options { buffer_bytes: 12 << 10, min_free_bytes: 0, cache_bytes: 64 << 10, ..small() }
}

fn numbered(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Table::Archive, b"a@x", &number.to_be_bytes(), &[&vec![number as u8; (number * 211 % 900) as usize]]);
    batch.put(Table::Waiting, b"a@x", b"", &[&number.to_be_bytes()]);
    batch.delete_range(Table::Archive, b"a@x", &[0; 8], &number.saturating_sub(KEPT - 1).to_be_bytes());
    batch
}

/// The last existing batch; fails if it or an earlier one is incomplete.
fn last(engine: &dyn Engine) -> u64 {
    let last = get(engine, Table::Waiting, "a@x", b"").map_or(0, |row| u64::from_be_bytes(row.try_into().unwrap()));
    let found: Vec<u64> = rows(engine, Table::Archive, "a@x")
        .iter()
        .map(|row| {
            let number = u64::from_be_bytes(row.sort[..].try_into().unwrap());
            assert!(row.value.len() as u64 == number * 211 % 900 && row.value.iter().all(|b| *b == number as u8));
            number
        })
        .collect();
    let expected: Vec<u64> = (last.saturating_sub(KEPT - 1).max(1)..=last).collect();
    assert_eq!(found, expected, "at batch {last}");
    last
}

fn say(line: &str) {
    // Not captured, one system call, and not one that writes files here: it is never made to fail.
    rustix::io::writev(std::io::stdout(), &[std::io::IoSlice::new(line.as_bytes())]).unwrap();
}

/// Commits the next batches; retries on a full disk, as the committer does.
fn commit(
    engine: &dyn Engine,
    numbers: std::ops::RangeInclusive<u64>,
    batch: impl Fn(u64) -> Batch,
) -> Result<(), DiskError> {
    for number in numbers {
        say(&format!("begun {number}"));
        let batch = batch(number);
        while let Err(error) = engine.commit(std::slice::from_ref(&batch)) {
            if !error.is_out_of_space() {
                return Err(error);
            }
        }
        say(&format!("acked {number}"));
    }
    Ok(())
}

/// The life of a store: created, filled beyond several memory tables, merged, closed and reopened,
/// backed up.
fn work(root: &Path) -> Result<(), DiskError> {
    let data = root.join("data");
    let store = open(&data, &options())?;
    commit(&*store.engine(), 1..=60, numbered)?;
    store.engine().compact()?;
    commit(&*store.engine(), 61..=90, numbered)?;
    store.close();
    let store = open(&data, &options())?;
    commit(&*store.engine(), 91..=120, numbered)?;
    say("backup begun");
    let copied = backup::backup(&*store.engine(), &root.join("copy"), &mut |_| {});
    match copied {
        Err(error) if error.is_out_of_space() => {}
        copied => {
            copied?;
            say("backup done");
        }
    }
    commit(&*store.engine(), 121..=130, numbered)
}

/// A process's life, call by call.
struct Traced {
    status: ExitStatus,
    ops: Vec<Op>,
    /// Number of times each call was made: the maximum over threads, as `strace` counts them.
    calls: BTreeMap<String, usize>,
}

/// Reruns the test `name` of this file as the traced process; `None` if there is no `strace`.
fn traced(name: &str, root: &Path, more: &[&str]) -> Option<Traced> {
    fs::create_dir_all(root).unwrap();
    let file = root.with_extension("trace");
    let status = Command::new("strace")
        .args(["-f", "-xx", "-s", "10000000", "-e", &format!("trace={CALLS}"), "-o"])
        .arg(&file)
        .args(more)
        .arg("--")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("disk::powercut::{name}"), "--nocapture", "--test-threads=1"])
        .env(WORK, root)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let Ok(status) = status else {
        eprintln!("SKIPPED: there is no strace here");
        return None;
    };
    let trace = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    Some(Traced { status, ops: Reader::read(root, &trace), calls: trace::most_calls(&trace) })
}

/// A folder in memory if possible: states are written by the thousand.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// What had been reported before an operation.
#[derive(Clone, Copy, Default)]
struct Said {
    begun: u64,
    acked: u64,
    backup: bool,
}

impl Said {
    fn hear(&mut self, op: &Op) {
        let Op::Said(line) = op else { return };
        let number = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        match (line.split(' ').next(), number) {
            (Some("begun"), Some(number)) => self.begun = number,
            (Some("acked"), Some(number)) => self.acked = number,
            _ => self.backup |= line == "backup done",
        }
    }
}

/// Opens the store of a state; returns it and its last batch.
fn opened(dir: &Path) -> Result<(Store, u64), DiskError> {
    let store = open(dir, &options())?;
    let last = last(&*store.engine());
    Ok((store, last))
}

/// Checks a state after a crash: it opens, has what was acknowledged, and can be written.
fn check_crash(root: &Path, said: Said, goes_on: bool) {
    if root.join("data").exists() {
        let (store, last) = opened(&root.join("data")).expect("a crash leaves a store that opens");
        assert!(
            last >= said.acked && last <= said.begun,
            "{last} of {} acknowledged, {} begun",
            said.acked,
            said.begun
        );
        if goes_on {
            store.engine().commit(&[numbered(last + 1)]).unwrap();
            drop(store);
            assert_eq!(opened(&root.join("data")).expect("it opens again").1, last + 1);
        }
    } else {
        assert_eq!(said.acked, 0, "the data folder is gone");
    }
    let copy = root.join("copy");
    let restored = copy.exists().then(|| restored(&copy, &root.join("again")));
    match restored {
        Some(Ok(last)) => assert_eq!(last, 120),
        refused => assert!(!said.backup, "the backup was complete: {refused:?}"),
    }
}

/// The last batch in the store restored from a backup.
fn restored(copy: &Path, again: &Path) -> Result<u64, DiskError> {
    let lock = FolderLock::take(again, "test").unwrap();
    restore::restore(copy, &lock, None, &mut |_| {})?;
    drop(lock);
    Ok(opened(again).expect("a backup that is complete opens").1)
}

/// Number of states to try.
fn cases(least: usize) -> usize {
    std::env::var("THRONG_POWERCUT_CASES").map_or(least, |cases| cases.parse().expect("a number"))
}

/// Checks a state, given what had been reported before it, and sometimes whether it can be written.
type Check<'a> = &'a (dyn Fn(&Path, Said, bool) + std::panic::RefUnwindSafe);

/// Tries states of cuts before each operation; returns their number, and what was acknowledged at
/// the end.
///
/// # Errors
/// The first state that lacks something acknowledged, or that does not open.
fn try_cuts(ops: &[Op], cases: usize, check: Check<'_>) -> Result<(usize, u64), String> {
    let laid = scratch();
    let root = laid.path().join("root");
    let kinds = [Left::All, Left::Nothing, Left::Before, Left::Some];
    let is_moment = |now: usize| !matches!(ops.get(now), Some(Op::Said(_)));
    let each = cases.div_ceil((0..=ops.len()).filter(|now| is_moment(*now)).count());
    let mut random = Random(7);
    let (mut disk, mut said, mut tried) = (Disk::default(), Said::default(), 0);
    for now in 0..=ops.len() {
        let states = if is_moment(now) { each } else { 0 };
        for _ in 0..states {
            let (names, data) = (kinds[random.below(4)], kinds[random.below(4)]);
            let tree = disk.after_cut(now, names, data, &mut random);
            lay(&tree, &root);
            tried += 1;
            let goes_on = tried % 8 == 0;
            if std::panic::catch_unwind(|| check(&root, said, goes_on)).is_err() {
                return Err(format!(
                    "state {tried}, before operation {now} of {} ({:?}): names {names:?}, data {data:?}: {:?}",
                    ops.len(),
                    ops.get(now).map(brief),
                    tree.iter().map(|(path, data)| (path, data.as_ref().map(Vec::len))).collect::<Vec<_>>()
                ));
            }
        }
        if let Some(op) = ops.get(now) {
            disk.apply(now, op);
            said.hear(op);
        }
    }
    Ok((tried, said.acked))
}

#[test]
fn whatever_a_power_cut_leaves_has_what_was_acknowledged() {
    if let Some(root) = std::env::var_os(WORK) {
        return work(Path::new(&root)).unwrap();
    }
    let made = scratch();
    let name = "whatever_a_power_cut_leaves_has_what_was_acknowledged";
    let Some(Traced { status, ops, .. }) = traced(name, &made.path().join("root"), &[]) else { return };
    assert!(status.success());
    let (tried, acked) = try_cuts(&ops, cases(1_000), &check_crash).unwrap();
    assert_eq!(acked, 130);
    println!("{tried} states of {} operations", ops.len());
}

/// The test above would prove little if it accepted a store that syncs less.
#[test]
fn each_sync_that_is_left_out_is_missed() {
    if let Some(root) = std::env::var_os(WORK) {
        return work(Path::new(&root)).unwrap();
    }
    let made = scratch();
    let name = "each_sync_that_is_left_out_is_missed";
    let Some(Traced { ops, .. }) = traced(name, &made.path().join("root"), &[]) else { return };
    let without = |left_out: &dyn Fn(&Op) -> bool| -> Vec<Op> {
        // Replaced rather than removed, as operations are numbered.
        ops.iter().map(|op| if left_out(op) { Op::Said(String::new()) } else { op.clone() }).collect()
    };
    let lost = try_cuts(&without(&|op| matches!(op, Op::Sync { .. })), 1_000, &check_crash);
    assert!(lost.is_err(), "no file was synced, and nothing is lost");
    let tree = ["data/store", "data/store/journal", "data/store/tree", "data/store/tree/tables"];
    for folder in ["", "data", "copy"].into_iter().chain(tree) {
        let ops = without(&|op| matches!(op, Op::SyncDir { path, .. } if path == Path::new(folder)));
        let lost = try_cuts(&ops, 2_000, &check_crash);
        assert!(lost.is_err(), "the folder {folder:?} was not synced, and nothing is lost");
    }
}

fn brief(op: &Op) -> String {
    match op {
        Op::Write { inode, at, bytes } => format!("write {} bytes at {at} of file {inode}", bytes.len()),
        other => format!("{other:?}"),
    }
}

/// Copies the folder as `cp -r` would, while this many operations happen at each of its steps;
/// returns what had been reported at its end.
fn copied(ops: &[Op], begin: usize, random: &mut Random) -> (Tree, Said, Said) {
    let (mut disk, mut said, mut now) = (Disk::default(), Said::default(), 0);
    let mut go = |disk: &mut Disk, said: &mut Said, until: usize| {
        for op in &ops[now.min(until)..until] {
            disk.apply(now, op);
            said.hear(op);
            now += 1;
        }
    };
    go(&mut disk, &mut said, begin);
    let (at_begin, mut at, pace) = (said, begin, 1 + random.below(12));
    let mut tree = Tree::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let mut listed = disk.listed(&folder);
        if random.below(2) == 0 {
            listed.reverse();
        }
        for (path, is_folder) in listed {
            at = ops.len().min(at + random.below(pace + 1));
            go(&mut disk, &mut said, at);
            if is_folder {
                tree.insert(path.clone(), None);
                folders.push(path);
            } else if let Some(bytes) = disk.read(&path) {
                tree.insert(path, Some(bytes));
            }
        }
    }
    (tree, at_begin, said)
}

/// Whether an error names a file (not only a folder): a missing one if it says so, otherwise an
/// existing one.
fn names_the_file(text: &str, root: &Path) -> bool {
    let words = text.split_whitespace().map(|word| Path::new(word.trim_end_matches([',', ':', ';', '.'])));
    let missing = text.contains("missing");
    words.filter(|path| path.starts_with(root)).any(|path| if missing { !path.exists() } else { path.is_file() })
}

#[test]
fn a_copy_made_while_the_store_works_is_whole_or_refused() {
    if let Some(root) = std::env::var_os(WORK) {
        return work(Path::new(&root)).unwrap();
    }
    let (made, laid) = (scratch(), scratch());
    let name = "a_copy_made_while_the_store_works_is_whole_or_refused";
    let Some(Traced { status, ops, .. }) = traced(name, &made.path().join("root"), &[]) else { return };
    assert!(status.success());
    let root = laid.path().join("root");
    let mut random = Random(11);
    let (mut whole, mut refused, mut unnamed) = (0, BTreeMap::<String, usize>::new(), Vec::new());
    for number in 0..cases(600) / 2 {
        let begin = number * 7919 % ops.len();
        let (tree, at_begin, at_end) = copied(&ops, begin, &mut random);
        if !tree.keys().any(|path| path.starts_with("data/store")) {
            continue;
        }
        lay(&tree, &root);
        match std::panic::catch_unwind(|| opened(&root.join("data")).map(|(_, last)| last)) {
            Ok(Ok(last)) => {
                assert!(
                    last >= at_begin.acked && last <= at_end.begun,
                    "copy {number} from operation {begin} on: {last} is there, {} was acknowledged: {:?}",
                    at_begin.acked,
                    tree.keys().collect::<Vec<_>>()
                );
                whole += 1;
            }
            Ok(Err(error)) => {
                let text = error.to_string();
                unnamed
                    .extend((!names_the_file(&text, &root)).then(|| format!("copy {number} from {begin} on: {text}")));
                let words: Vec<&str> = text.split(' ').filter(|word| !word.contains(['/', '0', '1'])).take(9).collect();
                *refused.entry(words.join(" ")).or_default() += 1;
            }
            Err(_) => panic!("copy {number} from operation {begin} on: {:?}", tree.keys().collect::<Vec<_>>()),
        }
    }
    println!("{whole} whole, refused: {refused:#?}");
    assert!(
        unnamed.is_empty(),
        "{} refusals do not name the file that is missing or wrong, such as: {:#?}",
        unnamed.len(),
        &unnamed[..unnamed.len().min(5)]
    );
    assert!(whole > 0 && !refused.is_empty());
}

/// Each call that may fail fails once, with a final error and with a full disk.
#[test]
fn a_call_that_fails_costs_nothing_that_was_acknowledged() {
    if let Some(root) = std::env::var_os(WORK) {
        if let Err(error) = work(Path::new(&root)) {
            say(&format!("ended: {error}"));
            // Abruptly, as the server ends.
            std::process::exit(74);
        }
        // The harness has no output: its calls may fail as well.
        std::process::exit(0);
    }
    let kinds = ["fsync", "fdatasync", "pwrite64", "write", "rename", "ftruncate", "mkdir", "unlink"];
    fail_calls("a_call_that_fails_costs_nothing_that_was_acknowledged", &kinds, &check_crash);
}

/// Repeats a process's life; in each run one call of these kinds fails.
fn fail_calls(name: &str, kinds: &[&str], check: Check<'_>) {
    let made = scratch();
    let Some(Traced { calls, .. }) = traced(name, &made.path().join("root"), &[]) else { return };
    let runs: Vec<_> = kinds
        .iter()
        .flat_map(|call| (1..=calls.get(*call).copied().unwrap_or(0)).map(move |at| (*call, at)))
        // The harness's first writes announce the test; without the data folder there is no store.
        .filter(|(call, at)| *at > HARNESS_WRITES || *call != "write")
        .filter(|run| *run != ("mkdir", 1))
        .flat_map(|(call, at)| ["EIO", "ENOSPC"].map(|error| (call, at, error)))
        .collect();
    let wanted = cases(1_600) / 100;
    let mut ended = BTreeMap::<&str, [usize; 2]>::new();
    // Every call if there is time; otherwise some of each kind.
    for (call, at, error) in runs.iter().step_by((runs.len() / wanted).max(1)) {
        let root = made.path().join("injected");
        let inject = format!("inject={call}:error={error}:when={at}");
        let Some(Traced { status, ops, .. }) = traced(name, &root, &["-e", &inject]) else { return };
        let mut said = Said::default();
        ops.iter().for_each(|op| said.hear(op));
        assert!(matches!(status.code(), Some(0 | 74)), "{inject}: {status}");
        ended.entry(call).or_default()[usize::from(status.success())] += 1;
        if std::panic::catch_unwind(|| check(&root, said, true)).is_err() {
            panic!("{inject}: {:?} was said last", ops.iter().rev().find(|op| matches!(op, Op::Said(_))));
        }
        fs::remove_dir_all(&root).unwrap();
    }
    println!("runs that ended, and that went on: {ended:?}");
}

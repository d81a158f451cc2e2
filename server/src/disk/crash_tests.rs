//! `kill -9` at random moments while three shards commit, and journals torn at random offsets:
//! everything acknowledged is present, every batch is complete or absent, in the one order.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use throng_engine::id::Gate;
use throng_engine::store::{Batch, Table};

use super::testing::{all, checked, get, no_wakes, open, rows, small};
use super::*;

const SHARDS: usize = 3;
/// Rows that a batch writes.
const ROWS: u64 = 4;
/// A batch removes the rows of the one this many before it.
const KEPT: u64 = 40;

/// The batch with a number: its rows, a cursor that names it, and the removal of an older batch's
/// rows.
fn numbered(shard: usize, number: u64) -> Batch {
    let actor = format!("shard{shard}@x").into_bytes();
    let mut batch = Batch::new();
    for row in 0..ROWS {
        let value = vec![number as u8; (number as usize * 37 + row as usize * 101) % 600];
        batch.put(Table::Archive, &actor, &(number * ROWS + row).to_be_bytes(), &[&value]);
    }
    batch.put(Table::Waiting, &actor, b"", &[&number.to_be_bytes()]);
    if number >= KEPT {
        let (from, until) = ((number - KEPT) * ROWS, (number - KEPT + 1) * ROWS);
        batch.delete_range(Table::Archive, &actor, &from.to_be_bytes(), &until.to_be_bytes());
    }
    batch
}

/// Number of the last batch that a store holds of a shard; checks that it is complete and that none
/// is missing.
fn last_batch(engine: &dyn Engine, shard: usize) -> Option<u64> {
    let actor = format!("shard{shard}@x");
    let last = get(engine, Table::Waiting, &actor, b"").map(|row| u64::from_be_bytes(row.try_into().unwrap()));
    let expected: Vec<u64> = match last {
        Some(last) => ((last + 1).saturating_sub(KEPT) * ROWS..(last + 1) * ROWS).collect(),
        None => Vec::new(),
    };
    let found: Vec<u64> = rows(engine, Table::Archive, &actor)
        .iter()
        .map(|row| u64::from_be_bytes(row.sort[..].try_into().unwrap()))
        .collect();
    assert_eq!(found, expected, "shard {shard} at batch {last:?}");
    last
}

/// Runs in a child process, which its parent kills: commits and prints each acknowledged batch.
#[test]
#[ignore = "the child process of the crash test"]
fn crash_child() {
    let Ok(dir) = std::env::var("THRONG_CRASH_DIR") else { return };
    let lock = FolderLock::take(Path::new(&dir), "test").unwrap();
    let store = Store::open(&lock, &small()).unwrap();
    let engine = store.engine();
    let start: Vec<u64> = (0..SHARDS).map(|shard| last_batch(&*engine, shard).map_or(0, |last| last + 1)).collect();
    let (_committer, submitters) = Committer::start(
        engine,
        Some(dir.into()),
        SHARDS,
        no_wakes(SHARDS),
        &Options { min_free_bytes: 0, ..small() },
        commit::stop_process(),
    )
    .unwrap();
    std::thread::scope(|scope| {
        for (shard, mut submitter) in submitters.into_iter().enumerate() {
            let first = start[shard];
            scope.spawn(move || {
                let mut waiting = std::collections::VecDeque::<(u64, Gate)>::new();
                for number in first.. {
                    waiting.push_back((number, submitter.submit(numbered(shard, number))));
                    while waiting.len() > 10 || waiting.front().is_some_and(|(_, gate)| *gate <= submitter.durable()) {
                        if waiting.front().is_some_and(|(_, gate)| *gate > submitter.durable()) {
                            std::thread::yield_now();
                            continue;
                        }
                        let (number, _) = waiting.pop_front().unwrap();
                        // One write per line: a line is present entirely or not at all.
                        std::io::stdout().write_all(format!("\nacked {shard} {number}\n").as_bytes()).unwrap();
                    }
                }
            });
        }
    });
}

/// Runs the child for a while, with `first_ack` measured from its first acknowledgement, kills it,
/// and returns the last acknowledged batch of each shard.
fn run_and_kill(dir: &Path, first_ack: bool, after: Duration) -> HashMap<usize, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "disk::crash_tests::crash_child", "--ignored", "--nocapture"])
        .env("THRONG_CRASH_DIR", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (began, begun) = std::sync::mpsc::sync_channel(1);
    let reader = std::thread::spawn(move || {
        let mut acked = HashMap::new();
        for line in lines.map_while(Result::ok) {
            let mut words = line.split_whitespace();
            if words.next() == Some("acked")
                && let (Some(shard), Some(number)) = (words.next(), words.next())
            {
                acked.insert(shard.parse::<usize>().unwrap(), number.parse::<u64>().unwrap());
                let _ = began.try_send(());
            }
        }
        acked
    });
    if first_ack {
        begun.recv_timeout(testing::LONG).expect("something is acknowledged");
    }
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn what_was_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = u64::from(std::process::id()) * 2_654_435_761 + 1;
    let mut acked_rounds = 0;
    let mut known = HashMap::<usize, u64>::new();
    // On a busy machine a child may be killed before it has done anything: such rounds are
    // repeated.
    for round in 0..200 {
        if round >= 36 && acked_rounds >= 20 {
            break;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // A third of the rounds may be killed before anything exists, while the store opens.
        let acked = run_and_kill(dir.path(), round % 3 != 0, Duration::from_millis(20 + (random >> 33) % 180));
        acked_rounds += usize::from(!acked.is_empty());
        known.extend(acked);
        let store = open(dir.path(), &small()).unwrap();
        for (shard, acked) in &known {
            let last = last_batch(&*store.engine(), *shard);
            assert!(last >= Some(*acked), "round {round}, shard {shard}: {acked} was acknowledged, {last:?} is there");
        }
        drop(store);
        let report = checked(dir.path());
        assert!(report.is_sound(), "{:?}", report.findings);
    }
    assert!(acked_rounds >= 20, "in {acked_rounds} rounds only was anything acknowledged before the kill");
}

/// Runs in a child process: archives a million rows as messages arrive, continues until as many
/// rows as possible are only in memory, and ends as abruptly as by a kill.
#[test]
#[ignore = "the child process of the recovery test"]
fn million_child() {
    let Ok(dir) = std::env::var("THRONG_MILLION_DIR") else { return };
    let lock = FolderLock::take(Path::new(&dir), "test").unwrap();
    let options = Options::default();
    let store = Store::open(&lock, &options).unwrap();
    let engine = store.engine();
    let user = |number: u64| format!("user{:06}@chat.example.org", number.wrapping_mul(2_654_435_761) % 100_000);
    for group in 0..1_500_000_u64 / 64 {
        let batches: Vec<Batch> = (group * 64..(group + 1) * 64)
            .map(|id| {
                let mut batch = Batch::new();
                for user in [user(2 * id), user(2 * id + 1)] {
                    batch.put(Table::Archive, user.as_bytes(), &id.to_be_bytes(), &[&[7; 300]]);
                }
                batch.put(Table::Waiting, user(2 * id).as_bytes(), b"", &[&id.to_be_bytes()]);
                batch
            })
            .collect();
        engine.commit(&batches).unwrap();
        let figures = engine.figures().unwrap();
        let full = figures.buffer_bytes >= options.buffer_bytes * 19 / 10;
        if group * 128 >= 1_000_000 && full {
            break;
        }
    }
    eprintln!("ends with {:?}", engine.figures().unwrap());
    std::process::abort();
}

#[test]
#[ignore = "takes half a minute and 1 GB of disk; the figure stands in docs/decisions/0001-storage-engine.md"]
fn a_store_with_a_million_archived_rows_recovers_in_two_seconds() {
    let dir = tempfile::tempdir().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "disk::crash_tests::million_child", "--ignored", "--nocapture"])
        .env("THRONG_MILLION_DIR", dir.path())
        .status()
        .unwrap();
    assert!(!status.success(), "it ended abruptly");
    let start = std::time::Instant::now();
    let lock = FolderLock::take(dir.path(), "test").unwrap();
    let store = Store::open(&lock, &Options::default()).unwrap();
    let opened = start.elapsed();
    println!("opened after {opened:?}: {:?}", store.engine().figures().unwrap());
    drop(store);
    let report = checked(dir.path());
    assert!(report.is_sound());
    assert!(report.tables[Table::Archive as usize].rows >= 1_000_000);
    assert!(opened < Duration::from_secs(2), "{opened:?}");
}

/// A store with some groups only in its journal, and the journal's length after each of them.
fn journaled(dir: &Path) -> (std::path::PathBuf, Vec<u64>) {
    let engine = lsm::LsmEngine::open(dir, &Options { buffer_bytes: 8 << 20, ..small() }).unwrap();
    let path = dir.join("journal/0000000001.journal");
    let mut ends = Vec::new();
    for number in 0..30 {
        engine.commit(&[numbered(0, number), numbered(1, number)]).unwrap();
        ends.push(std::fs::metadata(&path).unwrap().len());
    }
    (path, ends)
}

#[test]
fn a_journal_cut_anywhere_gives_the_groups_before() {
    let made = tempfile::tempdir().unwrap();
    let dir = made.path().join("store");
    let (journal, ends) = journaled(&dir);
    let bytes = std::fs::read(&journal).unwrap();
    let last = *ends.last().unwrap();
    // Some offsets in every group, and every byte of the last one (which `segment` also tests
    // without an engine).
    let places = (ends[0]..last).step_by(1511).chain((ends[28]..last).step_by(17));
    for at in places {
        // Torn as by a power cut: nothing after `at`; or a page of zeros, followed by the rest.
        for hole in [false, true] {
            let group = ends.iter().position(|end| at < *end).unwrap();
            let mut torn = bytes.clone();
            torn.truncate(ends[group] as usize);
            if hole {
                let until = (at as usize + 512).min(torn.len());
                torn[at as usize..until].fill(0);
                torn.resize(1 << 20, 0);
            } else {
                torn.truncate(at as usize);
            }
            let whole = hole && torn.starts_with(&bytes[..ends[group] as usize]);
            let group = group as u64 + u64::from(whole);
            std::fs::write(&journal, &torn).unwrap();
            let options = Options { buffer_bytes: 8 << 20, ..small() };
            let engine = lsm::LsmEngine::open(&dir, &options).unwrap();
            let found = last_batch(&engine, 0);
            assert_eq!((found, found), (last_batch(&engine, 1), Some(group - 1)), "cut at {at}, hole {hole}");
            // It can be written again, and the new writes survive any number of openings.
            engine.commit(&[numbered(0, group), numbered(1, group)]).unwrap();
            drop(engine);
            for _ in 0..2 {
                let engine = lsm::LsmEngine::open(&dir, &options).unwrap();
                assert_eq!((last_batch(&engine, 0), last_batch(&engine, 1)), (Some(group), Some(group)));
            }
        }
    }
}

/// Copies a folder as a crash at this moment would leave it.
fn copied(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

/// The segments of a store's journal.
fn segments(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut paths: Vec<_> =
        std::fs::read_dir(dir.join("journal")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "journal"));
    paths.sort();
    paths
}

#[test]
fn a_segment_whose_rows_are_in_tables_is_passed_over_and_its_file_used_again() {
    let made = tempfile::tempdir().unwrap();
    let dir = made.path().join("store");
    let engine = lsm::LsmEngine::open(&dir, &small()).unwrap();
    for number in 0..10 {
        engine.commit(&[numbered(0, number), numbered(1, number)]).unwrap();
    }
    let old = made.path().join("old");
    copied(&dir.join("journal"), &old);
    engine.compact().unwrap();
    testing::wait_until("the segment goes", || segments(&dir).len() == 1);
    assert!(dir.join("journal/spare").exists());
    for number in 10..20 {
        engine.commit(&[numbered(0, number), numbered(1, number)]).unwrap();
    }
    drop(engine);
    // A crash between the registration of the table and the removal of its segment.
    std::fs::copy(old.join("0000000001.journal"), dir.join("journal/0000000001.journal")).unwrap();
    for _ in 0..2 {
        let engine = lsm::LsmEngine::open(&dir, &small()).unwrap();
        assert_eq!((last_batch(&engine, 0), last_batch(&engine, 1)), (Some(19), Some(19)));
        assert_eq!(segments(&dir).len(), 1);
    }
    // The file is reused, with its old content after the new groups.
    let engine = lsm::LsmEngine::open(&dir, &small()).unwrap();
    engine.compact().unwrap();
    for number in 20..23 {
        engine.commit(&[numbered(0, number), numbered(1, number)]).unwrap();
    }
    drop(engine);
    let engine = lsm::LsmEngine::open(&dir, &small()).unwrap();
    assert_eq!((last_batch(&engine, 0), last_batch(&engine, 1)), (Some(22), Some(22)));
}

#[test]
fn a_crash_while_a_segment_is_begun_loses_nothing_and_a_missing_segment_is_noticed() {
    let made = tempfile::tempdir().unwrap();
    let dir = made.path().join("store");
    // Rows of two segments, none in tables: their tables cannot be written.
    let engine = lsm::LsmEngine::open(&dir, &small()).unwrap();
    std::fs::remove_dir_all(dir.join("tree/tables")).unwrap();
    std::fs::write(dir.join("tree/tables"), b"").unwrap();
    let mut number = 0;
    while segments(&dir).len() < 2 {
        engine.commit(&[lasting(0, number), lasting(1, number)]).unwrap();
        number += 1;
    }
    let rows = all(&engine);
    drop(engine);
    std::fs::remove_file(dir.join("tree/tables")).unwrap();
    std::fs::create_dir(dir.join("tree/tables")).unwrap();
    let again = |change: &dyn Fn(&Path)| {
        let crashed = tempfile::tempdir().unwrap();
        let store = crashed.path().join("store");
        copied(&dir, &store);
        change(&store);
        lsm::LsmEngine::open(&store, &small()).map(|engine| all(&engine))
    };
    assert!(again(&|_| ()).unwrap() == rows);
    let third = |store: &Path| store.join("journal/0000000003.journal");
    let second = |store: &Path| store.join("journal/0000000002.journal");
    let first = |store: &Path| store.join("journal/0000000001.journal");
    // The next segment has a name, and is empty, or has what its file held before.
    assert!(again(&|store| std::fs::write(third(store), b"").unwrap()).unwrap() == rows);
    assert!(again(&|store| std::fs::write(third(store), [0; 8192]).unwrap()).unwrap() == rows);
    let used_before = |store: &Path| {
        std::fs::copy(first(store), third(store)).unwrap();
    };
    assert!(again(&used_before).unwrap() == rows);
    // Acknowledged groups are missing: the last one of a segment that is not the newest, or a whole
    // segment.
    let refused = again(&|store| {
        let bytes = std::fs::read(first(store)).unwrap();
        std::fs::write(first(store), &bytes[..bytes.len() - 1]).unwrap();
    });
    assert!(matches!(refused, Err(DiskError::Corrupt(_))), "{refused:?}");
    let refused = again(&|store| {
        std::fs::copy(first(store), third(store)).unwrap();
        std::fs::copy(second(store), first(store)).unwrap();
    });
    assert!(matches!(refused, Err(DiskError::Corrupt(_))), "{refused:?}");
}

/// As [`numbered`], with rows that stay.
fn lasting(shard: usize, number: u64) -> Batch {
    let actor = format!("shard{shard}@x").into_bytes();
    let mut batch = Batch::new();
    for row in number * ROWS..(number + 1) * ROWS {
        batch.put(Table::Archive, &actor, &row.to_be_bytes(), &[&[row as u8; 400]]);
    }
    batch.put(Table::Waiting, &actor, b"", &[&number.to_be_bytes()]);
    batch
}

#[test]
fn damage_before_the_last_group_is_refused() {
    let made = tempfile::tempdir().unwrap();
    let dir = made.path().join("store");
    let (journal, ends) = journaled(&dir);
    let mut bytes = std::fs::read(&journal).unwrap();
    let at = ends[3] as usize + 200;
    bytes[at] ^= 0x55;
    std::fs::write(&journal, &bytes).unwrap();
    let refused = lsm::LsmEngine::open(&dir, &small());
    assert!(matches!(refused, Err(DiskError::Corrupt(_))), "{refused:?}");
    assert_eq!(std::fs::read(&journal).unwrap(), bytes, "nothing was cut");
    bytes[at] ^= 0x55;
    std::fs::write(&journal, &bytes).unwrap();
    let engine = lsm::LsmEngine::open(&dir, &small()).unwrap();
    assert_eq!(last_batch(&engine, 0), Some(29));
    assert!(!all(&engine).is_empty());
}

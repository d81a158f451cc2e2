//! `kill -9` at random moments while three shards commit, and journals torn at random offsets: what was acknowledged is
//! there, every batch whole or not at all, in the one order.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use throng_engine::id::Gate;
use throng_engine::store::{Batch, Table};

use super::testing::{all, get, no_wakes, open, rows, small};
use super::*;

const SHARDS: usize = 3;
/// Rows that a batch writes.
const ROWS: u64 = 4;
/// A batch removes the rows of the one this many before it.
const KEPT: u64 = 40;

/// The batch with a number: its rows, a cursor that names it, and the end of an older batch's rows.
fn numbered(shard: usize, number: u64) -> Batch {
    let partition = format!("shard{shard}@x").into_bytes();
    let mut batch = Batch::new();
    for row in 0..ROWS {
        let value = vec![number as u8; (number as usize * 37 + row as usize * 101) % 600];
        batch.put(Table::Archive, &partition, &(number * ROWS + row).to_be_bytes(), &[&value]);
    }
    batch.put(Table::Mailbox, &partition, b"", &[&number.to_be_bytes()]);
    if number >= KEPT {
        let (from, until) = ((number - KEPT) * ROWS, (number - KEPT + 1) * ROWS);
        batch.delete_range(Table::Archive, &partition, &from.to_be_bytes(), &until.to_be_bytes());
    }
    batch
}

/// Number of the last batch that a store holds of a shard; checks that it is whole and that none is missing.
fn last_batch(engine: &dyn Engine, shard: usize) -> Option<u64> {
    let partition = format!("shard{shard}@x");
    let last = get(engine, Table::Mailbox, &partition, b"").map(|row| u64::from_be_bytes(row.try_into().unwrap()));
    let expected: Vec<u64> = match last {
        Some(last) => ((last + 1).saturating_sub(KEPT) * ROWS..(last + 1) * ROWS).collect(),
        None => Vec::new(),
    };
    let found: Vec<u64> = rows(engine, Table::Archive, &partition)
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
                        // One write a line: a line is there whole or not at all.
                        std::io::stdout().write_all(format!("\nacked {shard} {number}\n").as_bytes()).unwrap();
                    }
                }
            });
        }
    });
}

/// Runs the child for a while, with `first_ack` counted from its first acknowledgement on, kills it, and returns the
/// last acknowledged batch of each shard.
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
        begun.recv_timeout(Duration::from_secs(30)).expect("something is acknowledged");
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
    // On a busy machine a child may get to nothing before it is killed: such rounds are made up for.
    for round in 0..200 {
        if round >= 36 && acked_rounds >= 20 {
            break;
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // A third of the rounds may be killed before anything is there, while the store opens.
        let acked = run_and_kill(dir.path(), round % 3 != 0, Duration::from_millis(20 + (random >> 33) % 180));
        acked_rounds += usize::from(!acked.is_empty());
        known.extend(acked);
        let store = open(dir.path(), &small()).unwrap();
        for (shard, acked) in &known {
            let last = last_batch(&*store.engine(), *shard);
            assert!(last >= Some(*acked), "round {round}, shard {shard}: {acked} was acknowledged, {last:?} is there");
        }
        assert!(check::check(&*store.engine(), &|_, _, _, _| Ok(()), &mut |_| {}).unwrap().is_sound());
    }
    assert!(acked_rounds >= 20, "in {acked_rounds} rounds only was anything acknowledged before the kill");
}

/// Runs in a child process: archives a million rows as messages come, goes on until as many rows as can be are in memory
/// only and the journals are as long as they get, and ends as abruptly as a kill.
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
                batch.put(Table::Mailbox, user(2 * id).as_bytes(), b"", &[&id.to_be_bytes()]);
                batch
            })
            .collect();
        engine.commit(&batches).unwrap();
        let figures = engine.figures().unwrap();
        let full = figures.buffer_bytes >= options.buffer_bytes * 19 / 10 && figures.journal_bytes >= 100 << 20;
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
    let report = check::check(&*store.engine(), &|_, _, _, _| Ok(()), &mut |_| {}).unwrap();
    assert!(report.is_sound());
    assert!(report.tables[Table::Archive as usize].rows >= 1_000_000);
    assert!(opened < Duration::from_secs(2), "{opened:?}");
}

/// A store with some groups in its journal only, and how long the journal was after each of them.
fn journaled(dir: &Path) -> (std::path::PathBuf, Vec<u64>) {
    let engine = fjall::FjallEngine::open(dir, &Options { buffer_bytes: 8 << 20, ..small() }).unwrap();
    let path = dir.join("0.jnl");
    let mut ends = Vec::new();
    for number in 0..30 {
        engine.commit(&[numbered(0, number), numbered(1, number)]).unwrap();
        // The journal is preallocated: its content ends where the zeros begin.
        let bytes = std::fs::read(&path).unwrap();
        ends.push(bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1);
    }
    (path, ends)
}

#[test]
fn a_journal_cut_anywhere_gives_the_groups_before() {
    let made = tempfile::tempdir().unwrap();
    let (journal, ends) = journaled(&made.path().join("store"));
    let bytes = std::fs::read(&journal).unwrap();
    for at in (ends[0]..*ends.last().unwrap()).step_by(997) {
        // Torn as by a power cut: nothing behind `at`; or a page of zeros, and what stands behind it.
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
            std::fs::write(&journal, &torn).unwrap();
            let engine = fjall::FjallEngine::open(&made.path().join("store"), &small()).unwrap();
            let whole = last_batch(&engine, 0);
            assert_eq!((whole, whole), (last_batch(&engine, 1), Some(group as u64 - 1)), "cut at {at}, hole {hole}");
            // It can be written again, and what is written then stays.
            engine.commit(&[numbered(0, group as u64), numbered(1, group as u64)]).unwrap();
            engine.reopen().unwrap();
            assert_eq!(last_batch(&engine, 1), Some(group as u64));
        }
        std::fs::write(&journal, &bytes).unwrap();
    }
}

/// Length and content of the journals of a store.
fn journals(dir: &Path) -> Vec<u8> {
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "jnl"));
    paths.iter().flat_map(|path| std::fs::read(path).unwrap()).filter(|byte| *byte != 0).collect()
}

/// As [`numbered`], with rows that stay and that no compression makes smaller: tables grow with what is written.
fn lasting(shard: usize, number: u64) -> Batch {
    let partition = format!("shard{shard}@x").into_bytes();
    let mut batch = Batch::new();
    for row in number * ROWS..(number + 1) * ROWS {
        let mut word = row * 2 + shard as u64 + 1;
        let mut next = || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (word >> 56) as u8
        };
        let value: Vec<u8> = (0..400).map(|_| next()).collect();
        batch.put(Table::Archive, &partition, &row.to_be_bytes(), &[&value]);
    }
    batch.put(Table::Mailbox, &partition, b"", &[&number.to_be_bytes()]);
    batch
}

#[test]
fn what_is_in_tables_is_left_out_of_the_journal_and_nothing_else_is() {
    let made = tempfile::tempdir().unwrap();
    let dir = made.path().join("store");
    let options = Options { buffer_bytes: 1 << 20, ..small() };
    let engine = fjall::FjallEngine::open(&dir, &options).unwrap();
    let mut number = 0;
    while engine.figures().unwrap().table_bytes < 3 << 20 {
        let group: Vec<Batch> = (number..number + 20).flat_map(|n| [lasting(0, n), lasting(1, n)]).collect();
        engine.commit(&group).unwrap();
        number += 20;
    }
    let rows = all(&engine);
    // The end of an engine writes nothing that a crash would not have left, too.
    drop(engine);
    let crashed = made.path().join("crashed");
    let copied = Command::new("cp").arg("-a").arg(&dir).arg(&crashed).status().unwrap();
    assert!(copied.success());
    let before = journals(&crashed).len();
    let opened = fjall::FjallEngine::open(&crashed, &options).unwrap();
    assert!(journals(&crashed).len() + (2 << 20) < before, "{} of {before}", journals(&crashed).len());
    assert!(all(&opened) == rows, "the rows are others");
    // What is written afterwards stays, too.
    opened.commit(&[lasting(0, number), lasting(1, number)]).unwrap();
    let rows = all(&opened);
    drop(opened);
    let opened = fjall::FjallEngine::open(&crashed, &options).unwrap();
    assert!(all(&opened) == rows, "the rows are others");
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
    let refused = fjall::FjallEngine::open(&dir, &small());
    assert!(matches!(refused, Err(DiskError::Corrupt(_))), "{refused:?}");
    assert_eq!(std::fs::read(&journal).unwrap().len(), bytes.len(), "nothing was cut");
    bytes[at] ^= 0x55;
    std::fs::write(&journal, &bytes).unwrap();
    let engine = fjall::FjallEngine::open(&dir, &small()).unwrap();
    assert_eq!(last_batch(&engine, 0), Some(29));
    assert!(!all(&engine).is_empty());
}

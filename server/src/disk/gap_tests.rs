//! Journal and tables that do not match, as in copies of a live folder: missing acknowledged groups
//! are named, and nothing is opened without them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lsm_tree::{AbstractTree, Config, InternalValue, SeqNo, ValueType};
use throng_engine::store::{Batch, Table};

use super::lsm::LsmEngine;
use super::memory::flat;
use super::testing::{all, get, rows, small, wait_until};
use super::*;

/// A separate row, and one that names the last group.
fn numbered(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Table::Archive, b"a@x", &number.to_be_bytes(), &[&[number as u8; 1000]]);
    batch.put(Table::Waiting, b"a@x", b"", &[&number.to_be_bytes()]);
    batch
}

fn opened(dir: &Path) -> Result<LsmEngine, DiskError> {
    LsmEngine::open(dir, &small())
}

fn last(engine: &dyn Engine) -> Option<u64> {
    get(engine, Table::Waiting, "a@x", b"").map(|row| u64::from_be_bytes(row.try_into().unwrap()))
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("journal")).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "journal")).collect();
    paths.sort();
    paths
}

fn copied(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// The store's refusal, which includes advice.
fn refused(store: &Path) -> String {
    let error = opened(store).expect_err("acknowledged groups are missing");
    assert!(matches!(error, DiskError::Corrupt(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("throng store salvage") && text.contains("throng store restore"), "{text}");
    text
}

/// A store whose first ten groups are in tables and whose others are in two segments of the
/// journal; the number of groups, and a segment whose rows are all in tables.
fn two_needed(dir: &Path) -> (u64, PathBuf) {
    let engine = opened(dir).unwrap();
    for number in 1..=10 {
        engine.commit(&[numbered(number)]).unwrap();
    }
    let used = dir.with_file_name("used");
    fs::copy(&segments(dir)[0], &used).unwrap();
    engine.compact().unwrap();
    wait_until("the segment goes", || segments(dir).len() == 1);
    // No more tables can be written.
    let (tables, away) = (dir.join("tree/tables"), dir.join("tree/away"));
    fs::rename(&tables, &away).unwrap();
    fs::write(&tables, b"").unwrap();
    let mut number = 10;
    while segments(dir).len() < 2 {
        number += 1;
        engine.commit(&[numbered(number)]).unwrap();
    }
    drop(engine);
    fs::remove_file(&tables).unwrap();
    fs::rename(&away, &tables).unwrap();
    (number, used)
}

#[test]
fn a_first_needed_segment_that_is_missing_zeroed_or_used_again_is_named() {
    let made = tempfile::tempdir().unwrap();
    let dir = made.path().join("store");
    let (groups, used) = two_needed(&dir);
    let first = segments(&dir)[0].clone();
    let text = {
        let copy = made.path().join("missing");
        copied(&dir, &copy);
        fs::remove_file(copy.join(first.strip_prefix(&dir).unwrap())).unwrap();
        refused(&copy)
    };
    // Only the last group is in the second segment: it made the first one overflow.
    let expected = format!("0000000002.journal: it is missing, with the acknowledged groups 11 to {};", groups - 1);
    assert!(text.contains(&expected), "{text}");
    let length = fs::metadata(&first).unwrap().len() as usize;
    for (name, bytes) in [("zeroed", vec![0; length]), ("cut", Vec::new()), ("again", fs::read(used).unwrap())] {
        let copy = made.path().join(name);
        copied(&dir, &copy);
        fs::write(copy.join(first.strip_prefix(&dir).unwrap()), bytes).unwrap();
        let text = refused(&copy);
        assert!(text.contains("0000000002.journal"), "{name}: {text}");
    }
    // A refused store was not changed, and the complete one opens.
    assert_eq!(segments(&made.path().join("missing")).len(), 1);
    let engine = opened(&dir).unwrap();
    assert_eq!((last(&engine), all(&engine).len() as u64), (Some(groups), groups + 1));
}

/// What `rsync` does to a running server: `journal` is copied, then `tree`, and in between a memory
/// table has become a table.
#[test]
fn a_journal_copied_before_the_tables_is_refused() {
    let made = tempfile::tempdir().unwrap();
    let (dir, copy) = (made.path().join("store"), made.path().join("copy"));
    fs::create_dir(&copy).unwrap();
    let engine = opened(&dir).unwrap();
    for number in 1..=10 {
        engine.commit(&[numbered(number)]).unwrap();
    }
    copied(&dir.join("journal"), &copy.join("journal"));
    engine.commit(&[numbered(11)]).unwrap();
    engine.compact().unwrap();
    engine.commit(&[numbered(12)]).unwrap();
    copied(&dir.join("tree"), &copy.join("tree"));
    // Copied in the other order, it is the store as of one moment.
    let later = made.path().join("later");
    copied(&dir, &later);
    drop(engine);
    assert!(refused(&copy).contains("acknowledged groups from 12 on are missing"));
    assert_eq!(last(&opened(&later).unwrap()), Some(12));
    // The newest segment, and the only one that is needed.
    let only = segments(&dir).pop().unwrap();
    let length = fs::metadata(&only).unwrap().len() as usize;
    fs::write(&only, vec![0; length]).unwrap();
    refused(&dir);
    fs::remove_file(&only).unwrap();
    assert!(refused(&dir).contains("acknowledged groups from 12 on are missing"));
}

/// Copies by `cp` at any moment while rows are written, tables merged and removed ones truncated.
/// Either the store has what was acknowledged when the copy began, and everything before it, or it
/// is refused with the missing or wrong file.
#[test]
fn a_copy_made_by_cp_while_rows_are_written_is_whole_or_refused() {
    const COPIES: usize = 40;
    let made = tempfile::tempdir().unwrap();
    let (dir, copy) = (made.path().join("store"), made.path().join("copy"));
    // Tables of several pieces, so that removed ones are truncated.
    let options = || Options { buffer_bytes: 3 << 20, min_free_bytes: 0, ..small() };
    let wide = |number: u64| {
        let mut batch = numbered(number);
        batch.put(Table::Private, b"a@x", &(number % 8).to_be_bytes(), &[&vec![number as u8; 200_000]]);
        batch
    };
    let engine = LsmEngine::open(&dir, &options()).unwrap();
    let (acked, done) = (AtomicU64::new(0), AtomicBool::new(false));
    // The last group of a copy, its damage, and the groups of which it has rows.
    let look = || {
        let copied = LsmEngine::open(&copy, &options())?;
        let archived = rows(&copied, Table::Archive, "a@x").into_iter();
        let groups: Vec<u64> = archived.map(|row| u64::from_be_bytes(row.sort[..].try_into().unwrap())).collect();
        Ok::<_, DiskError>((last(&copied).unwrap_or(0), copied.damage(), groups))
    };
    let copies = std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in (1..).take_while(|_| !done.load(Ordering::Relaxed)) {
                engine.commit(&[wide(number)]).unwrap();
                acked.store(number, Ordering::Relaxed);
            }
        });
        let mut copies = Vec::new();
        for _ in 0..COPIES {
            let before = acked.load(Ordering::Relaxed);
            // It complains of files that disappear while it copies.
            let cp = std::process::Command::new("cp").arg("-a").args([&dir, &copy]).stderr(Stdio::null()).status();
            copies.push((before, cp.is_ok(), std::panic::catch_unwind(look)));
            let _ = fs::remove_dir_all(&copy);
        }
        done.store(true, Ordering::Relaxed);
        copies
    });
    let (mut whole, mut refused) = (0, 0);
    for (before, copied, looked) in copies {
        assert!(copied, "there is no cp");
        match looked.expect("no panic") {
            Ok((last, damage, groups)) => {
                assert!(last >= before && groups.into_iter().eq(1..=last), "{last} of {before}");
                assert_eq!(damage, <[String; 0]>::default());
                whole += 1;
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(copy.to_str().unwrap()), "no file is named: {text}");
                refused += 1;
            }
        }
    }
    println!("{whole} whole, {refused} refused, {} groups", acked.into_inner());
    assert!(engine.counters().counters.merges.get() > 0, "tables were merged meanwhile");
}

/// Makes the tables state no next group, as of memory table 1, as earlier programs wrote them; and
/// the journal's second segment has its name before its head was written.
fn as_before(dir: &Path) {
    let store = opened(dir).unwrap();
    store.commit(&[numbered(1)]).unwrap();
    drop(store);
    fs::remove_dir_all(dir.join("tree")).unwrap();
    let tree = Config::new(dir.join("tree"), Default::default(), Default::default()).open().unwrap();
    let row = |table, sort: &[u8], value: &[u8]| {
        Ok(InternalValue::from_components(flat(table, b"a@x", sort), value, 1, ValueType::Value))
    };
    let number = 1_u64.to_be_bytes();
    let mut rows = vec![row(Table::Archive, &number, &[1; 1000]), row(Table::Waiting, b"", &number)];
    rows.sort_by(|a: &lsm_tree::Result<InternalValue>, b| a.as_ref().unwrap().key.cmp(&b.as_ref().unwrap().key));
    let (tables, _) = tree.flush_to_tables(rows.into_iter()).unwrap().unwrap();
    tree.register_tables(&tables, None, None, &[], SeqNo::MAX).unwrap();
    let used = fs::read(&segments(dir)[0]).unwrap();
    fs::write(dir.join("journal/0000000002.journal"), used).unwrap();
}

#[test]
fn a_store_of_before_opens_and_says_from_its_next_table_on_which_group_follows() {
    let made = tempfile::tempdir().unwrap();
    let dir = made.path().join("store");
    as_before(&dir);
    for _ in 0..2 {
        let engine = opened(&dir).unwrap();
        assert_eq!((last(&engine), all(&engine).len()), (Some(1), 2));
    }
    let engine = opened(&dir).unwrap();
    engine.commit(&[numbered(2)]).unwrap();
    engine.compact().unwrap();
    engine.commit(&[numbered(3)]).unwrap();
    drop(engine);
    assert_eq!(last(&opened(&dir).unwrap()), Some(3));
    fs::remove_file(segments(&dir).pop().unwrap()).unwrap();
    assert!(refused(&dir).contains("are missing"));
}

#[test]
fn a_backup_has_the_journal_that_follows_its_tables() {
    let made = tempfile::tempdir().unwrap();
    let (dir, copy) = (made.path().join("store"), made.path().join("copy"));
    let engine = opened(&dir).unwrap();
    for number in 1..=300 {
        engine.commit(&[numbered(number)]).unwrap();
    }
    engine.copy_to(&copy, &mut |_| {}).unwrap();
    let before = all(&engine);
    drop(engine);
    let engine = opened(&copy).unwrap();
    assert!(all(&engine) == before);
    engine.commit(&[numbered(301)]).unwrap();
    drop(engine);
    assert_eq!(last(&opened(&copy).unwrap()), Some(301));
    fs::remove_dir_all(copy.join("journal")).unwrap();
    assert!(refused(&copy).contains("acknowledged groups from 1 on are missing"));
}

//! A table rots while the store is open and is quarantined; with a power cut or a failed system
//! call at any moment.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use throng_engine::store::{Batch, Found, Query, Table};

use super::super::blocks::TableFile;
use super::super::listing::table_files;
use super::super::testing::open;
use super::super::{DiskError, Engine};
use super::trace::Op;
use super::{Said, Traced, WORK, cases, commit, fail_calls, options, say, scratch, traced, try_cuts};

/// Rows of each user are adjacent, in an order in which they are never written.
fn user(number: u64) -> String {
    format!("user{}@x", number % 7)
}

fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 700]
}

fn read(engine: &dyn Engine, number: u64) -> Result<Option<Vec<u8>>, DiskError> {
    let (table, sort) = (Table::Archive, number.to_be_bytes());
    let found = engine.read(&Query::Get { table, actor: user(number).as_bytes().into(), sort: sort[..].into() })?;
    let Found::Value(found) = found else { panic!("a get finds a value") };
    Ok(found.map(Vec::from))
}

fn row(number: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(Table::Archive, user(number).as_bytes(), &number.to_be_bytes(), &[&value(number)]);
    batch
}

/// Prints which rows cannot be read.
fn say_lost(engine: &dyn Engine, until: u64) {
    for number in 1..=until {
        if matches!(read(engine, number), Err(DiskError::Unreadable(_))) {
            say(&format!("lost {number}"));
        }
    }
}

fn work(root: &Path) -> Result<(), DiskError> {
    let data = root.join("data");
    let store = open(&data, &options())?;
    let engine = store.engine();
    commit(&*engine, 1..=60, row)?;
    engine.compact()?;
    let tree = data.join("store/tree");
    let table = table_files(&tree)?.pop().expect("there is a table");
    let block = TableFile::open(&table).expect("it can be read").blocks()[2].clone();
    let spoil = || -> std::io::Result<()> {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&table)?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, block.start + 500)?;
        file.write_all_at(&[byte[0] ^ 1], block.start + 500)
    };
    spoil().map_err(DiskError::at(&table))?;
    say_lost(&*engine, 60);
    commit(&*engine, 61..=64, row)?;
    // It may be impossible if a call fails on the way.
    for _ in 0..500 {
        if !table.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    say_lost(&*engine, 64);
    commit(&*engine, 65..=90, row)?;
    engine.compact()?;
    drop(engine);
    store.close();
    let store = open(&data, &options())?;
    commit(&*store.engine(), 91..=100, row)?;
    say_lost(&*store.engine(), 100);
    Ok(())
}

/// Rows that could not be read at some time of a life.
fn lost(ops: &[Op]) -> BTreeSet<u64> {
    let number = |op: &Op| match op {
        Op::Said(line) => line.strip_prefix("lost ")?.parse().ok(),
        _ => None,
    };
    ops.iter().filter_map(number).collect()
}

/// Every acknowledged row exists; those of the lost block exist or are reported as damaged.
fn check(root: &Path, said: Said, goes_on: bool, lost: &BTreeSet<u64>) {
    if !root.join("data").exists() {
        return assert_eq!(said.acked, 0, "the data folder is gone");
    }
    for round in 0..if goes_on { 3 } else { 1 } {
        let store = open(&root.join("data"), &options()).expect("a crash leaves a store that opens");
        let engine = store.engine();
        for number in 1..=said.begun {
            match read(&*engine, number) {
                Ok(Some(found)) => assert!(found == value(number), "row {number}"),
                Ok(None) => assert!(number > said.acked, "row {number} of {} is missing, round {round}", said.acked),
                // A row not written yet may fall between lost ones.
                Err(DiskError::Unreadable(_)) => {
                    assert!(lost.contains(&number) || number > said.acked, "row {number}, round {round}");
                }
                Err(error) => panic!("row {number}: {error}"),
            }
        }
        if goes_on {
            engine.compact().expect("what is damaged is put apart");
        }
    }
}

#[test]
fn whatever_a_power_cut_leaves_of_a_table_being_put_apart_loses_nothing_else() {
    if let Some(root) = std::env::var_os(WORK) {
        return work(Path::new(&root)).unwrap();
    }
    let made = scratch();
    let name = "rot::whatever_a_power_cut_leaves_of_a_table_being_put_apart_loses_nothing_else";
    let Some(Traced { status, ops, .. }) = traced(name, &made.path().join("root"), &[]) else { return };
    assert!(status.success());
    let lost = lost(&ops);
    assert!((2..=20).contains(&lost.len()), "{lost:?}");
    let linked = |op: &Op| matches!(op, Op::Create { path, .. } if path.to_str().unwrap().contains("quarantine/"));
    assert!(ops.iter().any(linked), "it was put apart");
    let (tried, acked) =
        try_cuts(&ops, cases(1_000), &|root, said, goes_on| check(root, said, goes_on, &lost)).unwrap();
    assert_eq!(acked, 100);
    println!("{tried} states of {} operations, {} rows lost", ops.len(), lost.len());
}

#[test]
fn a_call_that_fails_while_a_table_is_put_apart_loses_nothing_else() {
    if let Some(root) = std::env::var_os(WORK) {
        if let Err(error) = work(Path::new(&root)) {
            say(&format!("ended: {error}"));
            std::process::exit(74);
        }
        std::process::exit(0);
    }
    let kinds = ["fsync", "fdatasync", "pwrite64", "write", "rename", "mkdir", "unlink", "linkat"];
    let name = "rot::a_call_that_fails_while_a_table_is_put_apart_loses_nothing_else";
    // From a separate life: the interrupted one may have ended before it could report the lost
    // rows.
    let made = scratch();
    let Some(Traced { ops, .. }) = traced(name, &made.path().join("root"), &[]) else { return };
    let lost = lost(&ops);
    fail_calls(name, &kinds, &|root, said, goes_on| check(root, said, goes_on, &lost));
}

//! A power cut or a failed system call at any moment of a migration.

use std::path::Path;

use super::super::testing::{FORMATS, NEXT, all, get, rows, taken};
use super::super::{DiskError, Engine, Store};
use super::trace::Op;
use super::{Said, Traced, WORK, cases, commit, fail_calls, options, say, scratch, traced, try_cuts};
use throng_engine::store::{Batch, Table};

/// Rows before the migration.
const ROWS: u64 = 60;

/// Rows after it.
const MORE: u64 = 66;

fn user(number: u64) -> String {
    format!("user{}@x", number % 7)
}

/// The row with a number, in the previous format.
fn value(number: u64) -> Vec<u8> {
    vec![number as u8; 150 + (number * 37 % 200) as usize]
}

/// Two rows of a user with this prefix: what the migration adds.
fn two_rows(beginning: &[u8]) -> impl Fn(u64) -> Batch {
    move |number| {
        let (mut batch, name) = (Batch::new(), user(number));
        batch.put(Table::Archive, name.as_bytes(), &number.to_be_bytes(), &[beginning, &value(number)]);
        batch.put(Table::Roster, name.as_bytes(), &number.to_be_bytes(), &[beginning, b"item"]);
        batch
    }
}

/// Creates a store of the previous format; migrates it, ending with the word that elsewhere ends a
/// backup; and adds rows of the new format.
fn work(root: &Path) -> Result<(), DiskError> {
    let data = root.join("data");
    let lock = taken(&data)?;
    let store = Store::open(&lock, &options())?;
    commit(&*store.engine(), 1..=40, two_rows(b""))?;
    store.engine().compact()?;
    commit(&*store.engine(), 41..=ROWS, two_rows(b""))?;
    store.close();
    let mut pieces = 0;
    let store = Store::migrate_to(&lock, &options(), &FORMATS, &mut |_| pieces += 1)?;
    assert!(pieces > 10, "{pieces}");
    say("backup done");
    commit(&*store.engine(), ROWS + 1..=MORE, two_rows(b"new"))?;
    store.close();
    commit(
        &*Store::migrate_to(&lock, &options(), &FORMATS, &mut |_| panic!("done"))?.engine(),
        MORE + 1..=MORE + 4,
        two_rows(b"new"),
    )
}

/// Whatever remains: the previous program finds its rows unchanged, or refuses the store; the new
/// program finds all of them, each changed once.
fn check(root: &Path, said: Said, goes_on: bool) {
    let data = root.join("data");
    if !data.join("store").exists() {
        return assert_eq!(said.acked, 0, "the data folder is gone");
    }
    let lock = taken(&data).unwrap();
    let whole = |engine: &dyn Engine, beginning: &[u8]| {
        for number in 1..=said.begun {
            let found = get(engine, Table::Archive, &user(number), &number.to_be_bytes());
            let item = get(engine, Table::Roster, &user(number), &number.to_be_bytes());
            assert_eq!(found.is_some(), item.is_some(), "row {number} by half");
            match found {
                Some(found) => {
                    assert!(found == [beginning, &value(number)].concat(), "row {number} is another");
                    assert_eq!(item, Some([beginning, b"item"].concat()), "row {number}");
                    if beginning == b"new" && number <= ROWS {
                        let own = get(engine, Table::Private, &user(number), &number.to_be_bytes());
                        assert_eq!(own, Some(b"item".to_vec()), "row {number}");
                    }
                }
                None => assert!(number > said.acked, "row {number} of {} is missing", said.acked),
            }
        }
    };
    match Store::open(&lock, &options()) {
        Ok(store) => {
            assert!(!said.backup, "the change was said to be done");
            whole(&*store.engine(), b"");
        }
        Err(DiskError::Newer { found: NEXT, .. }) => {}
        Err(error) => panic!("{error}"),
    }
    for round in 0..if goes_on { 2 } else { 1 } {
        let store = Store::migrate_to(&lock, &options(), &FORMATS, &mut |_| assert_eq!(round, 0, "it was done"));
        let store = store.expect("a change that was interrupted goes on");
        whole(&*store.engine(), b"new");
        assert!(rows(&*store.engine(), Table::Meta, "").iter().all(|row| *row.sort != *b"migration"));
        let archived = all(&*store.engine()).iter().filter(|(key, _)| key[0] == Table::Archive as u8).count() as u64;
        assert!((said.acked..=said.begun).contains(&archived), "{archived} rows");
    }
}

#[test]
fn whatever_a_power_cut_leaves_of_a_change_of_format_is_whole_before_or_after() {
    if let Some(root) = std::env::var_os(WORK) {
        return work(Path::new(&root)).unwrap();
    }
    let made = scratch();
    let name = "migrate::whatever_a_power_cut_leaves_of_a_change_of_format_is_whole_before_or_after";
    let Some(Traced { status, ops, .. }) = traced(name, &made.path().join("root"), &[]) else { return };
    assert!(status.success());
    // Cuts before the migration are tested elsewhere: only some of those are tried.
    let begun = ops.iter().position(|op| matches!(op, Op::Said(line) if *line == format!("acked {ROWS}"))).unwrap();
    let done = ops.iter().position(|op| matches!(op, Op::Said(line) if line == "backup done")).unwrap();
    assert!(done - begun > 50, "{} operations", done - begun);
    let (tried, acked) = try_cuts(&ops, cases(1_000), &check).unwrap();
    assert_eq!(acked, MORE + 4);
    println!("{tried} states of {} operations, {} of the change", ops.len(), done - begun);
}

#[test]
fn a_call_that_fails_during_a_change_of_format_costs_no_row() {
    if let Some(root) = std::env::var_os(WORK) {
        if let Err(error) = work(Path::new(&root)) {
            say(&format!("ended: {error}"));
            std::process::exit(74);
        }
        std::process::exit(0);
    }
    let kinds = ["fsync", "fdatasync", "pwrite64", "write", "rename", "mkdir", "unlink"];
    fail_calls("migrate::a_call_that_fails_during_a_change_of_format_costs_no_row", &kinds, &check);
}

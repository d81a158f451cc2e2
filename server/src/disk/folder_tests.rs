//! The data folder: format version, check, backup under load, restore.

use std::sync::atomic::{AtomicBool, Ordering};

use throng_engine::store::{Batch, Table};

use super::testing::{all, get, open, put, small};
use super::*;

#[test]
fn another_format_is_refused() {
    let with_version = |version: u32| {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), &small()).unwrap();
        let mut batch = Batch::new();
        batch.put(Table::Meta, b"", folder::FORMAT_KEY, &[&version.to_be_bytes()]);
        store.engine().commit(&[batch]).unwrap();
        drop(store);
        open(dir.path(), &small()).unwrap_err()
    };
    let refused = with_version(folder::FORMAT_VERSION + 1);
    assert!(matches!(refused, DiskError::Newer { found: 4, known: 3 }), "{refused}");
    let refused = with_version(folder::FORMAT_VERSION - 1);
    assert!(matches!(refused, DiskError::Older { found: 2, known: 3 }), "{refused}");

    // The form that rows had up to format 2.
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("store/keyspaces/1")).unwrap();
    std::fs::write(dir.path().join("store/0.jnl"), [0; 4096]).unwrap();
    let refused = open(dir.path(), &small()).unwrap_err();
    assert!(matches!(refused, DiskError::Older { found: 2, known: 3 }), "{refused}");
    assert!(!dir.path().join("store/journal").exists(), "nothing is made in it");
}

#[test]
fn check_counts_rows_and_finds_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &small()).unwrap();
    let engine = store.engine();
    let mut batch = Batch::new();
    for user in 0..100_u32 {
        for id in 0..20_u64 {
            batch.put(Table::Archive, format!("u{user}@x").as_bytes(), &id.to_be_bytes(), &[&[user as u8; 200]]);
        }
    }
    engine.commit(&[batch]).unwrap();
    engine.compact().unwrap();
    let mut progress = Vec::new();
    let check = |value: check::ValueCheck<'_>, progress: &mut Vec<u64>| {
        check::check(&*store.engine(), value, &mut |rows| progress.push(rows)).unwrap()
    };
    let report = check(&|_, _, _, _| Ok(()), &mut progress);
    assert!(report.is_sound());
    assert_eq!((report.rows(), progress.last()), (2001, Some(&2001)));
    let archive = report.tables[Table::Archive as usize];
    assert_eq!((archive.rows, archive.partitions, archive.value_bytes), (2000, 100, 400_000));

    // What a value means is the caller's business.
    let odd = |table, _: &[u8], sort: &[u8], _: &[u8]| {
        if table == Table::Archive && sort[7] == 3 { Err("a row that nobody can read".to_owned()) } else { Ok(()) }
    };
    let report = check(&odd, &mut progress);
    assert_eq!((report.problems, report.first_problems.len()), (100, 20));
    drop((engine, store));

    // A flipped bit in a table is found by its checksum.
    let tables = dir.path().join("store/tree/tables");
    let table = std::fs::read_dir(&tables).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&table).unwrap();
    let at = bytes.len() / 3;
    bytes[at] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    let store = open(dir.path(), &small()).unwrap();
    let report = check::check(&*store.engine(), &|_, _, _, _| Ok(()), &mut |_| {}).unwrap();
    assert!(!report.is_sound(), "the damage at {at} of {} was not found", bytes.len());
}

fn held(folder: &std::path::Path) -> FolderLock {
    FolderLock::take(folder, "test").unwrap()
}

/// Batch `number` writes two rows that must agree.
fn pair(number: u64) -> Batch {
    let mut batch = put(Table::Mailbox, "a@x", b"", &number.to_be_bytes());
    batch.put(Table::Mailbox, b"z@x", b"", &[&number.to_be_bytes()]);
    batch.put(Table::Archive, b"m@x", &number.to_be_bytes(), &[&[1; 300]]);
    batch
}

#[test]
fn a_backup_under_load_is_one_consistent_view_and_can_be_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy, again) = (dir.path().join("data"), dir.path().join("copy"), dir.path().join("again"));
    let store = open(&data, &small()).unwrap();
    let engine = store.engine();
    engine.commit(&(0..20_000).map(pair).collect::<Vec<_>>()).unwrap();
    let done = AtomicBool::new(false);
    let (rows, commits) = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut number = 20_000;
            while !done.load(Ordering::Relaxed) {
                engine.commit(&[pair(number)]).unwrap();
                number += 1;
            }
            number - 20_000
        });
        let rows = backup::backup(&*engine, &copy, &mut |_| {}).unwrap();
        done.store(true, Ordering::Relaxed);
        (rows, writer.join().unwrap())
    });
    assert!(commits > 10, "commits went on: {commits}");
    let refused = backup::backup(&*engine, &copy, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, DiskError::NotEmpty(_)));
    let refused = backup::restore(&copy, &held(&data), &mut |_| {}).unwrap_err();
    assert!(matches!(refused, DiskError::NotEmpty(_)));

    backup::restore(&copy, &held(&again), &mut |_| {}).unwrap();
    let restored = open(&again, &small()).unwrap();
    let restored = restored.engine();
    let last = get(&*restored, Table::Mailbox, "a@x", b"").unwrap();
    assert_eq!(get(&*restored, Table::Mailbox, "z@x", b""), Some(last.clone()), "no batch is there by half");
    let last = u64::from_be_bytes(last.try_into().unwrap());
    assert!(last >= 19_999);
    assert_eq!(all(&*restored).len() as u64, rows);
    assert_eq!(rows, last + 1 + 2 + 1, "all rows up to the view, two cursors, the format");
    restored.commit(&[pair(last + 1)]).unwrap();
}

#[test]
fn half_a_backup_and_half_a_restore_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (half, data) = (dir.path().join("half"), dir.path().join("data"));
    std::fs::create_dir_all(half.join("store")).unwrap();
    assert!(matches!(backup::restore(&half, &held(&data), &mut |_| {}), Err(DiskError::Corrupt(_))));
    assert!(!data.join("store").exists());
    std::fs::write(data.join("restore.unfinished"), b"").unwrap();
    assert!(matches!(open(&data, &small()), Err(DiskError::Corrupt(_))));
}

#[test]
fn a_bulk_load_is_durable_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), &small()).unwrap();
    let engine = store.engine();
    let mut loader = bulk::BulkLoader::new(&*engine);
    for user in 0..30_000 {
        loader.row(|batch| batch.put(Table::Accounts, format!("u{user}@x").as_bytes(), b"", &[&[3; 200]])).unwrap();
    }
    assert_eq!(loader.finish().unwrap(), 30_000);
    drop((engine, store));
    let store = open(dir.path(), &small()).unwrap();
    let mut users = 0;
    store
        .engine()
        .for_each_partition(Table::Accounts, None, &mut |_| {
            users += 1;
            Visit::Continue(())
        })
        .unwrap();
    assert_eq!(users, 30_000);
}

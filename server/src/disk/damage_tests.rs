//! A table rots under an open store: who asks for a row that cannot be read gets an error, all else goes on, and no merge
//! rewrites or drops what is damaged.

use std::sync::Arc;

use throng_engine::id::Gate;
use throng_engine::store::{Batch, Found, Query, Table};

use super::blocks::TableFile;
use super::testing::{checked, get, no_wakes, open, panics, put, small, wait_until};
use super::*;

fn user(number: u32) -> String {
    format!("user{number:03}@x")
}

fn archive(number: u32) -> Query {
    Query::Range {
        table: Table::Archive,
        partition: user(number).as_bytes().into(),
        from: Box::default(),
        until: None,
        reverse: number % 2 == 1,
        rows_max: u32::MAX,
        bytes_max: u32::MAX,
    }
}

#[test]
fn a_rotten_block_under_an_open_store_fails_its_own_reads_only() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { cache_bytes: 4096, read_threads: 1, ..small() };
    let store = open(dir.path(), &options).unwrap();
    let engine = store.engine();
    for id in 0..20_u64 {
        let mut batch = Batch::new();
        (0..100).for_each(|n| batch.put(Table::Archive, user(n).as_bytes(), &id.to_be_bytes(), &[&[n as u8; 200]]));
        (0..100).for_each(|n| batch.put(Table::Accounts, user(n).as_bytes(), b"", &[&[id as u8; 50]]));
        engine.commit(&[batch]).unwrap();
    }
    engine.compact().unwrap();
    let table = listing::table_files(&dir.path().join("store/tree")).unwrap().pop().unwrap();
    let blocks = TableFile::open(&table).unwrap().blocks();
    let mut bytes = std::fs::read(&table).unwrap();
    let at = &blocks[blocks.len() / 2];
    bytes[at.start as usize + 500] ^= 4;
    // In place: the file is open.
    use std::os::unix::fs::FileExt;
    std::fs::OpenOptions::new().write(true).open(&table).unwrap().write_all_at(&bytes, 0).unwrap();

    // The readers answer all, with an error to a few, and nothing ends.
    let sleepers = Readers::sleepers(&options);
    let wakes = no_wakes(1).into_iter().chain(sleepers.iter().map(|s| s.clone() as Arc<dyn Wake>)).collect();
    let (committer, mut submitters) = Committer::start(engine.clone(), None, 1, wakes, &options, panics()).unwrap();
    let (readers, mut ports) = Readers::start(&engine, &committer, sleepers, 1, &options, &panics()).unwrap();
    let queries = (0..100).map(archive).collect();
    assert!(ports[0].submit(ReadRequest { token: 1, after: Gate(0), queries }).is_ok());
    let mut answer = None;
    wait_until("an answer", || {
        answer = ports[0].poll();
        answer.is_some()
    });
    let found = answer.unwrap().found;
    let damaged: Vec<u32> = (0..100).filter(|n| matches!(found[*n as usize], Found::Damaged)).collect();
    assert!((1..=6).contains(&damaged.len()), "{damaged:?}");
    let whole = |found: &Found| matches!(found, Found::Rows { rows, more: false } if rows.len() == 20);
    assert_eq!(found.iter().filter(|found| whole(found)).count(), 100 - damaged.len());
    assert_eq!(readers.counters()[0].counters.unreadable.get(), damaged.len() as u64);
    let named = engine.damage();
    assert!(named.len() == 1 && named[0].contains(table.to_str().unwrap()), "{named:?}");

    // Commits go on, tables are written, and the damaged one stays as it is, also when its rows are removed.
    let rotten = std::fs::read(&table).unwrap();
    let mut gone = Batch::new();
    gone.delete_partition(Table::Archive, user(damaged[0]).as_bytes());
    gone.delete_partition(Table::Archive, user((damaged[0] + 50) % 100).as_bytes());
    submitters[0].submit(gone);
    for number in 0..600_u32 {
        let gate = submitters[0].submit(put(Table::Private, &user(number % 7), &number.to_be_bytes(), &[9; 3000]));
        wait_until("a commit", || submitters[0].durable() >= gate);
    }
    wait_until("tables are written", || engine.counters().counters.flushes.get() > 6);
    assert!(matches!(engine.read(&archive(damaged[0])), Err(DiskError::Unreadable(_))));
    assert!(matches!(engine.read(&archive((damaged[0] + 50) % 100)), Ok(Found::Rows { rows, .. }) if rows.is_empty()));
    assert_eq!(get(&*engine, Table::Accounts, &user(damaged[0]), b""), Some(vec![19; 50]));
    assert!(engine.compact().is_err());
    assert!(std::fs::read(&table).unwrap() == rotten, "the damaged table was changed");
    assert_eq!(engine.counters().counters.damaged.get(), 1);
    drop((ports, readers, submitters, committer, engine, store));
    let report = checked(dir.path());
    let users: Vec<String> = report.findings.iter().flat_map(|found| found.users.iter().cloned()).collect();
    assert!(damaged.iter().all(|n| users.contains(&user(*n))), "{users:?} for {damaged:?}");
}

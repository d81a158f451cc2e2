//! A table rots under an open store: reads of unreadable rows return an error, now and after a
//! restart, and everything else continues, including merges.

use std::sync::Arc;

use throng_engine::id::Gate;
use throng_engine::store::{Batch, Found, Query, Table};

use super::blocks::TableFile;
use super::testing::{checked, get, no_wakes, open, panics, put, rows, small, taken_there, wait_until};
use super::*;

fn user(number: u32) -> String {
    format!("user{number:03}@x")
}

fn archive(number: u32) -> Query {
    Query::Range {
        table: Table::Archive,
        actor: user(number).as_bytes().into(),
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

    // The readers answer all requests, some with an error, and nothing ends.
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
    // Counted after the answer.
    let unreadable = || readers.counters()[0].counters.unreadable.get();
    wait_until("they are counted", || unreadable() > 0);
    assert_eq!(unreadable(), damaged.len() as u64);
    // In its original place, or where it was moved meanwhile.
    let (named, file) = (engine.damage(), format!("/{}:", table.file_name().unwrap().to_str().unwrap()));
    assert!(named.len() == 1 && named[0].contains(&file), "{named:?}");

    // Commits continue, tables are written and merged, and lost rows stay lost, even when rows next
    // to them are removed.
    let mut gone = Batch::new();
    gone.delete_actor(Table::Archive, user(damaged[0]).as_bytes());
    gone.delete_actor(Table::Archive, user((damaged[0] + 50) % 100).as_bytes());
    submitters[0].submit(gone);
    for number in 0..600_u32 {
        let gate = submitters[0].submit(put(Table::Private, &user(number % 7), &number.to_be_bytes(), &[9; 3000]));
        wait_until("a commit", || submitters[0].durable() >= gate);
    }
    wait_until("tables are written", || engine.counters().counters.flushes.get() > 6);
    assert!(matches!(engine.read(&archive(damaged[0])), Err(DiskError::Unreadable(_))));
    assert!(matches!(engine.read(&archive((damaged[0] + 50) % 100)), Ok(Found::Rows { rows, .. }) if rows.is_empty()));
    assert_eq!(get(&*engine, Table::Accounts, &user(damaged[0]), b""), Some(vec![19; 50]));
    engine.compact().unwrap();
    assert!(matches!(engine.read(&archive(damaged[0])), Err(DiskError::Unreadable(_))));
    assert_eq!(engine.counters().counters.damaged.get(), 1);
    drop((ports, readers, submitters, committer, engine, store));
    let report = checked(dir.path());
    let users: Vec<String> = report.findings.iter().flat_map(|found| found.users.iter().cloned()).collect();
    assert!(damaged.iter().all(|n| users.contains(&user(*n))), "{users:?} for {damaged:?}");
}

/// A store whose rows are all in tables, with a bit flipped in the middle of the largest one.
/// `damaged` lists what is lost.
struct Rotten {
    dir: tempfile::TempDir,
    options: Options,
    store: Option<Store>,
    table: std::path::PathBuf,
}

const USERS: u32 = 100;

impl Rotten {
    fn new() -> Rotten {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { cache_bytes: 4096, ..small() };
        let store = open(dir.path(), &options).unwrap();
        for id in 0..20_u64 {
            let mut batch = Batch::new();
            for n in 0..USERS {
                batch.put(Table::Archive, user(n).as_bytes(), &id.to_be_bytes(), &[&[n as u8; 200]]);
                batch.put(Table::Accounts, user(n).as_bytes(), b"", &[&[id as u8; 50]]);
            }
            store.engine().commit(&[batch]).unwrap();
        }
        store.engine().compact().unwrap();
        let table = listing::table_files(&dir.path().join("store/tree")).unwrap().pop().unwrap();
        let rotten = Rotten { dir, options, store: Some(store), table };
        let blocks = TableFile::open(&rotten.table).unwrap().blocks();
        rotten.spoil(blocks[blocks.len() / 2].start + 500);
        rotten
    }

    /// Flips a bit in place: the file is open.
    fn spoil(&self, at: u64) {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&self.table).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.store.as_ref().unwrap().engine()
    }

    fn reopen(&mut self) {
        drop(self.store.take());
        self.store = Some(open(self.dir.path(), &self.options).unwrap());
    }

    /// Users whose archive cannot be read; the archives of all others and all accounts are intact.
    fn damaged(&self) -> Vec<u32> {
        let engine = self.engine();
        let of = |n: u32| match engine.read(&archive(n)) {
            Ok(Found::Rows { rows, .. }) => {
                assert!(rows.len() == 20 && rows.iter().all(|row| *row.value == [n as u8; 200]), "user {n}");
                false
            }
            Err(DiskError::Unreadable(_)) => true,
            other => panic!("user {n}: {other:?}"),
        };
        let damaged = (0..USERS).filter(|n| of(*n)).collect();
        (0..USERS).for_each(|n| assert_eq!(get(&*engine, Table::Accounts, &user(n), b""), Some(vec![19; 50])));
        damaged
    }

    /// Writes enough to require several merges.
    fn write(&self) {
        for number in 0..1_500_u32 {
            let name = user(number.wrapping_mul(0x9e37_79b9) % 997);
            self.engine().commit(&[put(Table::Private, &name, &number.to_be_bytes(), &[9; 3000])]).unwrap();
        }
    }

    /// Tables of the first level.
    fn first_level(&self) -> usize {
        let listing = listing::Listing::read(&self.dir.path().join("store/tree")).unwrap();
        listing.first_level_runs()
    }

    fn apart(&self) -> Vec<std::path::PathBuf> {
        let files = std::fs::read_dir(self.dir.path().join("store/tree/quarantine"));
        files.map_or(Vec::new(), |files| files.map(|file| file.unwrap().path()).collect())
    }
}

/// A regression test: once a table was known to be damaged, no table was merged any more. The first
/// level grew to 200 tables, and the store accepted nothing.
#[test]
fn a_damaged_table_is_put_apart_and_all_others_are_merged() {
    let mut rotten = Rotten::new();
    let bytes = std::fs::read(&rotten.table).unwrap();
    let damaged = rotten.damaged();
    assert!((1..=6).contains(&damaged.len()), "{damaged:?}");
    wait_until("it is put apart", || !rotten.apart().is_empty());
    assert!(std::fs::read(&rotten.apart()[0]).unwrap() == bytes, "it is kept as it was");
    wait_until("nothing is left of it", || !rotten.table.exists());
    assert_eq!(rotten.damaged(), damaged);
    let merges = rotten.engine().counters().counters.merges.get();
    rotten.write();
    wait_until("the first level is merged", || {
        rotten.engine().counters().counters.merges.get() > merges && rotten.first_level() < 30
    });
    assert_eq!(rotten.damaged(), damaged);
    for round in ["merged around", "opened again", "and merged again"] {
        match round {
            "opened again" => rotten.reopen(),
            _ => rotten.engine().compact().unwrap(),
        }
        assert_eq!(rotten.damaged(), damaged, "{round}");
        let named = rotten.engine().damage();
        let file = rotten.apart()[0].to_str().unwrap().to_owned();
        assert!(named.len() == 1 && named[0].contains(&file), "{round}: {named:?}");
        rotten.engine().commit(&[put(Table::Private, "a@x", b"", b"x")]).unwrap();
        assert_eq!(rotten.engine().counters().counters.damaged.get(), 1, "{round}");
    }
    drop(rotten.store.take());
    let report = checked(rotten.dir.path());
    let users: Vec<String> = report.findings.iter().flat_map(|found| found.users.iter().cloned()).collect();
    assert!(!report.is_sound() && damaged.iter().all(|n| users.contains(&user(*n))), "{users:?} for {damaged:?}");
    assert!(report.unlisted.is_empty() && report.problems == 0, "{report:?}");
}

/// Rows written after the damage are newer than the lost ones and are found. Tombstones count as
/// much, and a range is still reported as damaged.
#[test]
fn what_is_written_over_a_lost_row_is_found() {
    let mut rotten = Rotten::new();
    let damaged = rotten.damaged();
    // Not the last of them: only some of its rows may be lost.
    let user = user(damaged[1]);
    let ids = || (0..20_u64).map(|id| id.to_be_bytes());
    let asked = |engine: &dyn Engine, id: &[u8]| {
        let query = Query::Get { table: Table::Archive, actor: user.as_bytes().into(), sort: id.into() };
        engine.read(&query)
    };
    let lost: Vec<_> = ids().filter(|id| asked(&*rotten.engine(), id).is_err()).collect();
    assert!(lost.len() >= 2, "{lost:?}");
    wait_until("it is put apart", || !rotten.apart().is_empty());
    rotten.engine().commit(&[put(Table::Archive, &user, &lost[0], b"new")]).unwrap();
    for round in ["in memory", "in a table", "opened again"] {
        match round {
            "in memory" => {}
            "in a table" => rotten.engine().compact().unwrap(),
            _ => rotten.reopen(),
        }
        let engine = rotten.engine();
        assert_eq!(get(&*engine, Table::Archive, &user, &lost[0]), Some(b"new".to_vec()), "{round}");
        for id in &lost[1..] {
            assert!(matches!(asked(&*engine, id), Err(DiskError::Unreadable(_))), "{round}: {id:?} is not missing");
        }
        assert!(matches!(engine.read(&archive(damaged[1])), Err(DiskError::Unreadable(_))), "{round}");
    }
    let mut gone = Batch::new();
    gone.delete(Table::Archive, user.as_bytes(), &lost[1]);
    rotten.engine().commit(&[gone]).unwrap();
    assert_eq!(get(&*rotten.engine(), Table::Archive, &user, &lost[1]), None, "removed after the damage");
    // An iteration over all actors still visits those with lost rows, and reports that there may be
    // others.
    let mut seen = 0;
    let visited = rotten.engine().for_each_actor(Table::Archive, None, &mut |_| {
        seen += 1;
        Visit::Continue(())
    });
    assert!(matches!(visited, Err(DiskError::Unreadable(_))) && seen + damaged.len() as u32 >= USERS, "{seen}");
}

/// A table with several holes, possibly with the record of older ones, rots again and again: no
/// known loss is forgotten.
#[test]
fn what_is_lost_adds_up() {
    let mut rotten = Rotten::new();
    let mut damaged = rotten.damaged();
    for round in 1..=4 {
        wait_until("it is put apart", || rotten.apart().len() == round);
        rotten.engine().compact().unwrap();
        rotten.table = listing::table_files(&rotten.dir.path().join("store/tree")).unwrap().pop().unwrap();
        let blocks = TableFile::open(&rotten.table).unwrap().blocks();
        // Finally the last block, which holds the store's own rows.
        rotten.spoil(blocks[if round == 4 { blocks.len() - 1 } else { blocks.len() / 2 + round * 3 }].start + 300);
        if round == 4 {
            rotten.engine().compact().unwrap();
        }
        let now = rotten.damaged();
        assert!(damaged.iter().all(|n| now.contains(n)) && now.len() <= damaged.len() + 6, "{damaged:?}, {now:?}");
        damaged = now;
        if round % 2 == 0 {
            rotten.reopen();
            assert_eq!(rotten.damaged(), damaged, "round {round}");
        }
    }
    let apart = rotten.apart().len();
    drop(rotten.store.take());
    let report = checked(rotten.dir.path());
    assert!(report.findings.len() >= apart, "{:?}", report.findings);
    // Intact rows are recovered, and each affected user is named.
    let into = rotten.dir.path().join("into");
    let lock = taken_there(rotten.dir.path());
    let salvaged = salvage::salvage(&lock, &into, &small(), None, &mut |_| {}).unwrap();
    drop(lock);
    assert!(checked(&into).is_sound());
    let (store, whole) = (open(&into, &small()).unwrap(), |n: u32| !damaged.contains(&n));
    let engine = store.engine();
    assert!((0..USERS).filter(|n| whole(*n)).all(|n| rows(&*engine, Table::Archive, &user(n)).len() == 20));
    let named = |n: &u32| salvaged.lost.iter().any(|found| found.users.contains(&user(*n)));
    assert!(damaged.iter().all(named), "{damaged:?}: {:?}", salvaged.lost);
}

//! The data folder: format version, check, backup under load, restore.

use std::sync::atomic::{AtomicBool, Ordering};

use throng_engine::store::{Batch, Table};

use super::format::{FORMAT_VERSION, FORMATS};
use super::testing::{NEXT, all, checked, get, open, put, small, taken, taken_there};
use super::*;

#[test]
fn another_format_is_refused() {
    let with_version = |version: u32| {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path(), &small()).unwrap();
        let mut batch = Batch::new();
        batch.put(Table::Meta, b"", format::FORMAT_KEY, &[&version.to_be_bytes()]);
        store.engine().commit(&[batch]).unwrap();
        drop(store);
        open(dir.path(), &small()).unwrap_err()
    };
    let refused = with_version(NEXT);
    assert!(matches!(refused, DiskError::Newer { found: NEXT, known: FORMAT_VERSION, .. }), "{refused}");
    let refused = with_version(FORMATS.oldest - 1);
    assert!(matches!(refused, DiskError::Older { found: 4, known: FORMAT_VERSION, .. }), "{refused}");
}

/// Every file below a folder except the lock, with its content.
fn files(dir: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.push((path.clone(), Vec::new()));
            found.extend(files(&path));
        } else if path.file_name().unwrap() != "throng.lock" {
            found.push((path.clone(), std::fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_folder_of_another_format_is_not_taken_for_an_empty_one_and_nothing_is_made_in_it() {
    // Marks as a later program may leave them, with rows where this one does not look; those of
    // formats 4 and 3, and of up to format 2; and an unreadable one.
    let later = format!(
        "has format {NEXT}, and this program supports formats up to {FORMAT_VERSION}; nothing was \
         changed. Use the version that wrote it, or a newer one"
    );
    let next = format!("throng {NEXT}\n");
    let earlier = |number| {
        format!(
            "has format {number}, which was never released, and this program reads format \
             {FORMAT_VERSION}; nothing was changed. Start with an empty data folder (--data DIR), \
             or use the version that wrote it"
        )
    };
    for (mark, refusal) in [
        (next.as_bytes(), later),
        (b"throng 4\n", earlier(4)),
        (b"throng 3\n", earlier(3)),
        (b"FJL\x03", earlier(2)),
        (b"", "the format version ".to_owned()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("store/elsewhere")).unwrap();
        std::fs::write(dir.path().join("store/version"), mark).unwrap();
        std::fs::write(dir.path().join("store/elsewhere/rows"), [7; 4096]).unwrap();
        let before = files(dir.path());
        let lock = taken(dir.path()).unwrap();
        for refused in [Store::open(&lock, &small()).unwrap_err(), Still::open(&lock).unwrap_err()] {
            let refused = refused.to_string();
            let store = dir.path().join("store");
            assert!(refused.contains(&refusal) && refused.contains(store.to_str().unwrap()), "{refused}");
            assert!(files(dir.path()) == before, "nothing is made in it");
        }
    }
}

#[test]
fn every_store_bears_its_mark_that_programs_of_other_formats_refuse() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy, again) = (dir.path().join("data"), dir.path().join("copy"), dir.path().join("again"));
    let mark = |folder: &std::path::Path| std::fs::read_to_string(folder.join("store/version")).ok();
    // Not the three letters that the engine of format 2 expects in this file: it refuses any
    // others.
    let ours = Some(format!("throng {}\n", FORMAT_VERSION));
    let store = open(&data, &small()).unwrap();
    assert_eq!(mark(&data), ours);
    store.engine().commit(&[pair(1)]).unwrap();
    backup::backup(&*store.engine(), &copy, &mut |_| {}).unwrap();
    drop(store);
    restore::restore(&copy, &held(&again), None, &mut |_| {}).unwrap();
    assert_eq!((mark(&copy), mark(&again)), (ours.clone(), ours.clone()));
    // A store from before the mark existed gets one, and keeps its rows; one with rows of another
    // format does not.
    std::fs::remove_file(data.join("store/version")).unwrap();
    let store = open(&data, &small()).unwrap();
    assert_eq!(mark(&data), ours);
    assert_eq!(get(&*store.engine(), Table::Waiting, "a@x", b""), Some(1_u64.to_be_bytes().to_vec()));
    let mut batch = Batch::new();
    batch.put(Table::Meta, b"", format::FORMAT_KEY, &[&NEXT.to_be_bytes()]);
    store.engine().commit(&[batch]).unwrap();
    drop(store);
    std::fs::remove_file(data.join("store/version")).unwrap();
    assert!(matches!(open(&data, &small()), Err(DiskError::Newer { found: NEXT, known: FORMAT_VERSION, .. })));
    assert_eq!(mark(&data), None);
}

/// Rows of format 4 without a mark: keys were the table and the name.
#[test]
fn rows_of_an_earlier_format_are_not_taken_for_damaged_ones() {
    let dir = tempfile::tempdir().unwrap();
    let rows = [("\0\0decoy-key", &b"secret"[..]), ("\0\0format", &[0, 0, 0, 4]), ("\u{1}a@x\0", b"keys")];
    let rows = rows.map(|(key, value)| Ok((key.as_bytes().into(), value.into())));
    copy::write_store(&dir.path().join("store"), rows.into_iter(), &mut |_| {}).unwrap();
    let refused = open(dir.path(), &small()).unwrap_err();
    assert!(matches!(refused, DiskError::Older { found: 4, known: FORMAT_VERSION, .. }), "{refused}");
    assert!(!dir.path().join("store/version").exists());
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
    drop((engine, store));
    let mut progress = Vec::new();
    let check = |value: check::ValueCheck<'_>, progress: &mut Vec<u64>| {
        let lock = taken_there(dir.path());
        check::check(&lock, value, &mut |rows| progress.push(rows)).unwrap()
    };
    let report = check(&|_, _, _, _| Ok(()), &mut progress);
    assert!(report.is_sound());
    assert_eq!((report.rows(), progress.last()), (2001, Some(&2001)));
    let archive = report.tables[Table::Archive as usize];
    assert_eq!((archive.rows, archive.actors, archive.value_bytes), (2000, 100, 400_000));

    // The meaning of a value is the caller's concern.
    let odd = |table, _: &[u8], sort: &[u8], _: &[u8]| {
        if table == Table::Archive && sort[7] == 3 { Err("a row that nobody can read".to_owned()) } else { Ok(()) }
    };
    let report = check(&odd, &mut progress);
    assert_eq!((report.problems, report.first_problems.len()), (100, 20));

    // Two flipped bits in a table: the file, both places and the users are named, and the scan
    // continues to the end.
    let table = listing::table_files(&dir.path().join("store/tree")).unwrap().pop().unwrap();
    let mut bytes = std::fs::read(&table).unwrap();
    let (third, half) = (bytes.len() / 3, bytes.len() / 2);
    bytes[third] ^= 1;
    bytes[half] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    let report = check(&|_, _, _, _| Ok(()), &mut progress);
    let holes: Vec<_> = report.findings.iter().filter(|finding| finding.file == table).collect();
    assert_eq!((holes.len(), report.findings.len()), (2, 2), "{:?}", report.findings);
    for (hole, at) in holes.into_iter().zip([third, half]) {
        let begin = hole.at.unwrap();
        assert!((begin..begin + hole.bytes).contains(&(at as u64)), "{hole:?}");
        assert!(!hole.users.is_empty() && hole.users.len() < 10, "{hole:?}");
    }
    assert!(report.rows() > 1_900, "{}", report.rows());
}

#[test]
fn a_store_that_lacks_a_part_is_refused_by_all_and_nothing_is_made_or_removed() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = open(&data, &small()).unwrap();
    store.engine().commit(&(0..3_000).map(pair).collect::<Vec<_>>()).unwrap();
    store.engine().compact().unwrap();
    store.engine().commit(&[pair(3_000)]).unwrap();
    drop(store);
    let list = listing::Listing::read(&data.join("store/tree")).unwrap();
    let table = list.path(list.tables().next().unwrap().id);
    let table = table.strip_prefix(&data).unwrap().to_str().unwrap().to_owned();
    let vn = format!("store/tree/v{}", list.number);
    for part in ["store/tree/current", "store/tree", "store/tree/tables", "store/journal", &vn, &table] {
        let copy = dir.path().join("copy");
        assert!(std::process::Command::new("cp").arg("-a").args([&data, &copy]).status().unwrap().success());
        let missing = copy.join(part);
        if missing.is_dir() { std::fs::remove_dir_all(&missing) } else { std::fs::remove_file(&missing) }.unwrap();
        let before = files(&copy);
        for _ in 0..2 {
            let refused = open(&copy, &small()).unwrap_err().to_string();
            assert!(refused.contains("is missing") && refused.contains(part), "without {part}: {refused}");
            assert!(refused.contains("throng store salvage"), "{refused}");
            let refused = Still::open(&taken_there(&copy)).unwrap_err().to_string();
            assert!(refused.contains("is missing"), "without {part}: {refused}");
            let report = checked(&copy);
            assert!(!report.is_sound(), "without {part}");
            assert!(report.findings.iter().any(|found| found.to_string().contains("missing")), "{:?}", report.findings);
        }
        assert!(files(&copy) == before, "without {part} something was made or removed");
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

#[test]
fn what_only_reads_makes_nothing_where_there_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let lock = taken_there(dir.path());
    assert!(matches!(Still::open(&lock), Err(DiskError::NoStore(_))));
    assert!(matches!(check::check(&lock, &|_, _, _, _| Ok(()), &mut |_| {}), Err(DiskError::NoStore(_))));
    assert!(matches!(Store::open_there(&lock, &small()), Err(DiskError::NoStore(_))));
    let into = dir.path().join("into");
    assert!(matches!(salvage::salvage(&lock, &into, &small(), None, &mut |_| {}), Err(DiskError::NoStore(_))));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn tables_that_no_list_names_are_kept_unless_the_store_left_them_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (data, tables) = (dir.path().to_owned(), dir.path().join("store/tree/tables"));
    let store = open(&data, &small()).unwrap();
    store.engine().commit(&(0..500).map(pair).collect::<Vec<_>>()).unwrap();
    store.engine().compact().unwrap();
    drop(store);
    // One that this store was writing when it was killed, and one whose number it does not know.
    let list = listing::Listing::read(&data.join("store/tree")).unwrap();
    let whole = std::fs::read(list.path(list.tables().next().unwrap().id)).unwrap();
    std::fs::write(tables.join("900"), &whole[..whole.len() / 2]).unwrap();
    drop(open(&data, &small()).unwrap());
    assert!(!tables.join("900").exists(), "what was left unfinished goes");
    std::fs::write(tables.join("901"), &whole).unwrap();
    std::fs::remove_file(data.join("store/tree/opened")).unwrap();
    assert_eq!(checked(&data).unlisted, [tables.join("901")]);
    drop(open(&data, &small()).unwrap());
    assert_eq!(std::fs::read(data.join("store/tree/unlisted/901")).unwrap(), whole, "what it does not know stays");
}

fn held(folder: &std::path::Path) -> FolderLock {
    taken(folder).unwrap()
}

/// Batch `number` writes two rows that must agree.
fn pair(number: u64) -> Batch {
    let mut batch = put(Table::Waiting, "a@x", b"", &number.to_be_bytes());
    batch.put(Table::Waiting, b"z@x", b"", &[&number.to_be_bytes()]);
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
    let refused = restore::restore(&copy, &held(&data), None, &mut |_| {}).unwrap_err();
    assert!(matches!(refused, DiskError::NotEmpty(_)));

    restore::restore(&copy, &held(&again), None, &mut |_| {}).unwrap();
    let restored = open(&again, &small()).unwrap();
    let restored = restored.engine();
    let last = get(&*restored, Table::Waiting, "a@x", b"").unwrap();
    assert_eq!(get(&*restored, Table::Waiting, "z@x", b""), Some(last.clone()), "no batch is there by half");
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
    let refused = restore::restore(&half, &held(&data), None, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("is not a backup: it has no file `backup.complete`"), "{refused}");
    let refused =
        restore::restore(&dir.path().join("nowhere"), &held(&data), None, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.ends_with("nowhere is not a backup: there is no such folder"), "{refused}");
    assert!(!data.join("store").exists());
    std::fs::write(data.join("restore.unfinished"), b"").unwrap();
    assert!(matches!(open(&data, &small()), Err(DiskError::Corrupt(_))));
}

#[test]
fn a_restore_leaves_the_configuration_and_the_certificates_of_a_new_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy, again) = (dir.path().join("data"), dir.path().join("copy"), dir.path().join("again"));
    let store = open(&data, &small()).unwrap();
    store.engine().commit(&[pair(1)]).unwrap();
    backup::backup(&*store.engine(), &copy, &mut |_| {}).unwrap();
    std::fs::create_dir_all(again.join("tls")).unwrap();
    std::fs::write(again.join("throng.toml"), "domain = \"x\"\n").unwrap();
    std::fs::write(again.join("store"), b"").unwrap();
    let refused = restore::restore(&copy, &held(&again), None, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("it contains ") && refused.contains("again/store"), "{refused}");
    std::fs::remove_file(again.join("store")).unwrap();
    let bytes = restore::restore(&copy, &held(&again), None, &mut |_| {}).unwrap();
    assert!(bytes > 300, "{bytes} bytes");
    assert!(again.join("throng.toml").exists() && open(&again, &small()).is_ok());
}

#[test]
fn a_copy_that_cannot_be_read_back_fails_its_backup_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (data, copy) = (dir.path().join("data"), dir.path().join("copy"));
    let store = open(&data, &small()).unwrap();
    store.engine().commit(&(0..200).map(pair).collect::<Vec<_>>()).unwrap();
    store.engine().copy_to(&copy.join("store"), &mut |_| {}).unwrap();
    assert_eq!(backup::count_rows(&copy.join("store")).unwrap(), 203);
    let table = std::fs::read_dir(copy.join("store/tree/tables")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[5000] ^= 1;
    std::fs::write(&table, &bytes).unwrap();
    // A separate engine would have ended this process from its merging thread.
    assert!(matches!(backup::count_rows(&copy.join("store")), Err(DiskError::NoBackup(_))));
    store.engine().commit(&[pair(200)]).unwrap();
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
        .for_each_actor(Table::Accounts, None, &mut |_| {
            users += 1;
            Visit::Continue(())
        })
        .unwrap();
    assert_eq!(users, 30_000);
}

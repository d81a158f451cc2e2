//! Exporting partitions from one store and importing them into another: all their rows and nothing
//! else, also when the file is damaged or the import ends early.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use throng_engine::id::partition;
use throng_engine::store::{Batch, Table, key};

use super::testing::{all, get, open, put, small, taken};
use super::*;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn sound(_: Table, _: &[u8], _: &[u8], _: &[u8]) -> Result<(), String> {
    Ok(())
}

/// A store of `users` with rows in every table: on disk, in memory, and removed.
fn filled(folder: &Path, users: std::ops::Range<u32>) -> Store {
    let store = open(folder, &small()).unwrap();
    let engine = store.engine();
    for user in users {
        let (name, mut batch) = (format!("user{user}@x"), Batch::new());
        batch.put(Table::Accounts, name.as_bytes(), b"", &[b"keys"]);
        batch.put(Table::Roster, name.as_bytes(), b"friend@x", &[b"item"]);
        batch.put(Table::Private, name.as_bytes(), b"notes", &[&[user as u8; 300]]);
        batch.put(Table::Waiting, name.as_bytes(), b"", &[b"cursor"]);
        for id in 0..4_u64 {
            batch.put(Table::Archive, name.as_bytes(), &id.to_be_bytes(), &[&user.to_be_bytes(), b"message"]);
        }
        engine.commit(&[batch]).unwrap();
        if user % 100 == 50 {
            engine.rest();
        }
        let mut gone = Batch::new();
        gone.delete_range(Table::Archive, name.as_bytes(), &[0; 8], &1_u64.to_be_bytes());
        engine.commit(&[gone]).unwrap();
    }
    store
}

/// Rows of some partitions, as found by a full scan.
fn of(engine: &dyn Engine, partitions: &[u16]) -> Rows {
    let own = |row: &(Vec<u8>, Vec<u8>)| {
        let (table, actor, _) = key::decode(&row.0).unwrap();
        table != Table::Meta && partitions.contains(&partition(actor))
    };
    all(engine).into_iter().filter(own).collect()
}

fn exported(engine: &dyn Engine, partitions: &[u16], to: &Path) -> export::Contents {
    let mut file = std::fs::File::create(to).unwrap();
    export::export(engine, "x", partitions, (to, &mut file), &mut |_| {}).unwrap()
}

fn verified(file: &Path) -> Result<export::Contents, DiskError> {
    export::verify(file, &mut std::fs::File::open(file).unwrap(), &sound, &mut |_| {})
}

fn imported(folder: &Path, file: &Path, replace: bool) -> Result<(), DiskError> {
    let store = Store::open_to_import(&taken(folder)?, &small())?;
    let contents = verified(file)?;
    let mut finish = |batch: &mut Batch| batch.put(Table::Meta, b"", b"note", &[b"done"]);
    import::import(&store, file, &contents, replace, &mut finish, &mut |_| {})
}

/// The partitions of the first users.
fn some() -> Vec<u16> {
    let some: BTreeSet<u16> = (0..5).map(|user| partition(format!("user{user}@x"))).chain([0, 4095]).collect();
    some.into_iter().collect()
}

#[test]
fn an_export_has_all_rows_of_its_partitions_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("part.export"));
    let store = filled(&data, 0..1_000);
    let engine = store.engine();
    let rows = of(&*engine, &some());
    assert!(rows.len() >= 35, "{}", rows.len());
    let contents = exported(&*engine, &some(), &file);
    assert_eq!((contents.rows, contents.label.as_str(), &contents.partitions), (rows.len() as u64, "x", &some()));
    assert_eq!(verified(&file).unwrap(), contents);
    // The store at rest yields the same, byte for byte.
    drop((engine, store));
    let still = Still::open(&taken(&data).unwrap()).unwrap();
    let again = dir.path().join("again.export");
    assert_eq!(exported(&still, &some(), &again), contents);
    assert!(std::fs::read(&file).unwrap() == std::fs::read(&again).unwrap());
    drop(still);

    // Into a new store; and into one with other rows, of which only those of these partitions are
    // removed.
    let (new, other) = (dir.path().join("new"), dir.path().join("other"));
    imported(&new, &file, false).unwrap();
    assert_eq!(of(&*open(&new, &small()).unwrap().engine(), &(0..4096).collect::<Vec<_>>()), rows);
    let before = filled(&other, 3..300);
    before.engine().commit(&[put(Table::Private, "user3@x", b"later", b"row")]).unwrap();
    let (all_before, own) = (all(&*before.engine()), of(&*before.engine(), &some()));
    assert!(own.len() > 14);
    drop(before);
    let refused = imported(&other, &file, false).unwrap_err().to_string();
    assert!(refused.contains("already has rows, for example of user") && refused.contains("--replace"), "{refused}");
    assert_eq!(all(&*open(&other, &small()).unwrap().engine()), all_before, "nothing was changed");
    imported(&other, &file, true).unwrap();
    let after = open(&other, &small()).unwrap();
    assert_eq!(of(&*after.engine(), &some()), rows);
    assert_eq!(get(&*after.engine(), Table::Meta, "", b"note"), Some(b"done".to_vec()));
    let others = |rows: &Rows| -> Rows {
        let meta = |row: &(Vec<u8>, Vec<u8>)| row.0[0] == Table::Meta as u8;
        rows.iter().filter(|row| !meta(row) && !own.contains(row)).cloned().collect()
    };
    let left: Rows = others(&all(&*after.engine())).into_iter().filter(|row| !rows.contains(row)).collect();
    assert_eq!(left, others(&all_before), "rows of other partitions are as they were");
}

/// Each bit of an export is covered by a checksum, and so is each possible truncation.
#[test]
fn a_damaged_export_is_refused_and_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file, broken) = (dir.path().join("data"), dir.path().join("part.export"), dir.path().join("broken"));
    let store = filled(&data, 0..20);
    let contents = exported(&*store.engine(), &some(), &file);
    drop(store);
    let whole = std::fs::read(&file).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&broken, bytes).unwrap();
        let error = verified(&broken).expect_err("it is not as it was written");
        assert!(matches!(&error, DiskError::BadExport(what) if what.contains("broken")), "{error}");
    };
    for at in (0..whole.len()).step_by(whole.len() / 300) {
        refused(&whole[..at]);
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes);
    }
    refused(&[&whole[..], b"x"].concat());
    refused(&[]);
    // Intact records of another export, and records in another order.
    let records = records(&whole);
    let exchanged = [&whole[..records[1].start], &whole[records[2].clone()], &whole[records[1].clone()]].concat();
    refused(&exchanged);
    let store = open(&data, &small()).unwrap();
    store.engine().commit(&[put(Table::Private, "user0@x", b"notes", &[9; 300])]).unwrap();
    exported(&*store.engine(), &some(), &broken);
    drop(store);
    let other = std::fs::read(&broken).unwrap();
    assert!(other.len() == whole.len() && other != whole);
    for record in &records {
        let mixed = [&whole[..record.start], &other[record.start..]].concat();
        if mixed != whole && mixed != other {
            refused(&mixed);
        }
    }
    // The meaning of a row is the caller's concern.
    let odd = |table: Table, _: &[u8], _: &[u8], _: &[u8]| match table {
        Table::Roster => Err("nobody can read it".to_owned()),
        _ => Ok(()),
    };
    let error = export::verify(&file, &mut std::fs::File::open(&file).unwrap(), &odd, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("@x: nobody can read it"), "{error}");
    // A file that has changed since it was verified.
    let store = Store::open_to_import(&taken(&dir.path().join("into")).unwrap(), &small()).unwrap();
    std::fs::write(&broken, &whole[..records[4].start]).unwrap();
    assert!(import::import(&store, &broken, &contents, false, &mut |_| {}, &mut |_| {}).is_err());
    drop(store);
    assert!(matches!(open(&dir.path().join("into"), &small()), Err(DiskError::Importing(_))));
}

/// Positions of the records of an export.
fn records(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut found) = (20 + number(16) + 8, Vec::new());
    while at < bytes.len() {
        let end = at + 5 + number(at + 1) + 8;
        found.push(at..end);
        at = end;
    }
    found
}

/// An engine's folder when an import ends after this many commits.
fn interrupted(dir: &Path, file: &Path, commits: usize) -> PathBuf {
    let data = dir.join(format!("after{commits}"));
    let store = filled(&data, 0..3);
    let contents = verified(file).unwrap();
    let left = std::cell::Cell::new(commits);
    // The last commit, and all before it, counted by their progress: a panic ends it abruptly.
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut finish = |_: &mut Batch| assert!(left.get() > 0, "ended");
        let mut progress = |_: u64| {
            assert!(left.get() > 0, "ended");
            left.set(left.get() - 1);
        };
        import::import(&store, file, &contents, true, &mut finish, &mut progress)
    }));
    assert!(ended.is_err(), "there are fewer commits than {commits}");
    data
}

#[test]
fn an_interrupted_import_is_made_again_or_abandoned_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file, less) = (dir.path().join("data"), dir.path().join("part.export"), dir.path().join("less.export"));
    let store = filled(&data, 0..500);
    let rows = of(&*store.engine(), &some());
    exported(&*store.engine(), &some(), &file);
    exported(&*store.engine(), &some()[1..], &less);
    drop(store);
    for commits in [0, 1, 4] {
        let data = interrupted(dir.path(), &file, commits);
        let refused = open(&data, &small()).unwrap_err();
        assert!(matches!(&refused, DiskError::Importing(partitions) if *partitions == some()), "{refused}");
        let refused = refused.to_string();
        assert!(
            refused.contains("rows of partitions 0, ") && refused.contains("and 2 more may be missing"),
            "{refused}"
        );
        assert!(refused.contains("throng store import FILE") && refused.contains("--abandon"), "{refused}");
        // Another file does not complete it.
        assert!(matches!(imported(&data, &less, true), Err(DiskError::Importing(_))));
        if commits == 4 {
            let store = Store::open_to_import(&taken(&data).unwrap(), &small()).unwrap();
            assert_eq!(import::abandon(&store).unwrap(), some());
            assert!(import::abandon(&store).unwrap().is_empty());
            drop(store);
            assert_eq!(of(&*open(&data, &small()).unwrap().engine(), &some()), []);
            continue;
        }
        // Without --replace: the existing rows are what the import itself left.
        imported(&data, &file, false).unwrap();
        assert_eq!(of(&*open(&data, &small()).unwrap().engine(), &some()), rows);
    }
}

#[test]
fn rows_of_another_format_are_not_taken_in() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("part.export"));
    exported(&*filled(&data, 0..2).engine(), &some(), &file);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[12] += 1;
    std::fs::write(&file, &bytes).unwrap();
    let refused = verified(&file).unwrap_err().to_string();
    let wanted = format!("its rows have format {}, and this program uses", format::FORMAT_VERSION + 1);
    assert!(refused.contains(&wanted), "{refused}");
    bytes[8] += 1;
    std::fs::write(&file, &bytes).unwrap();
    assert!(verified(&file).unwrap_err().to_string().contains("it has version 2"));
}

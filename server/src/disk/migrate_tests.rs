//! Migration with an artificial format: what it changes, where it resumes, and what it refuses.

use throng_engine::store::{Batch, Table};

use super::format::{FORMAT_KEY, FORMAT_VERSION, Formats, Step, StoredRow};
use super::migrate::{MIGRATION_KEY, Progress};
use super::testing::{FORMATS, NEXT, TO_NEXT, all, change, get, open, put, rows, small, taken};
use super::*;

/// A second one, which visits no row.
const TO_LATER: Step = Step { from: NEXT, to: NEXT + 1, what: "nothing", tables: &[], change };

const FURTHER: Formats =
    Formats { oldest: FORMAT_VERSION, known: NEXT + 1, steps: &[TO_NEXT, TO_LATER], chunk_bytes: 1_000 };

fn filled(folder: &std::path::Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let store = open(folder, &small()).unwrap();
    let engine = store.engine();
    for user in 0..200 {
        let name = format!("user{user}@x");
        let mut batch = put(Table::Archive, &name, b"1", &[1; 90]);
        batch.put(Table::Archive, name.as_bytes(), b"2", &[&[2; 90]]);
        batch.put(Table::Roster, name.as_bytes(), b"friend@x", &[b"item"]);
        batch.put(Table::Waiting, name.as_bytes(), b"", &[b"cursor"]);
        engine.commit(&[batch]).unwrap();
        if user == 100 {
            engine.compact().unwrap();
        }
    }
    all(&*engine)
}

/// The expected rows after the migration.
fn expected(before: &[(Vec<u8>, Vec<u8>)], format: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut after = Vec::new();
    for (key, value) in before {
        let (table, actor, sort) = throng_engine::store::key::decode(key).unwrap();
        if matches!(table, Table::Archive | Table::Roster) {
            after.push((key.clone(), [b"new", &value[..]].concat()));
        } else if sort == FORMAT_KEY {
            after.push((key.clone(), format.to_be_bytes().to_vec()));
        } else {
            after.push((key.clone(), value.clone()));
        }
        if table == Table::Roster {
            after.push((memory::flat(Table::Private, actor, sort), value.clone()));
        }
    }
    after.sort();
    after
}

#[test]
fn a_store_gets_to_the_next_format_in_place_and_says_how_far_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    let lock = taken(dir.path()).unwrap();
    let mut told: Vec<Progress> = Vec::new();
    let store = Store::migrate_to(&lock, &small(), &FURTHER, &mut |progress| told.push(*progress)).unwrap();
    assert_eq!(all(&*store.engine()), expected(&before, NEXT + 1));
    let mark = std::fs::read_to_string(dir.path().join("store/version")).unwrap();
    assert_eq!(mark, format!("throng {}\n", NEXT + 1));
    // Rows of 200 users in chunks of 1,000 bytes, from the beginning of the first table to the end
    // of the last.
    let first: Vec<&Progress> = told.iter().filter(|progress| progress.to == NEXT).collect();
    assert!(first.len() > 25, "{}", first.len());
    assert_eq!((first[0].rows, first[0].permille), (0, 0));
    assert_eq!((first[first.len() - 1].rows, first[first.len() - 1].permille), (600, 1000));
    assert!(first.is_sorted_by_key(|progress| (progress.permille, progress.rows)));
    assert!(first.iter().filter(|progress| (200..800).contains(&progress.permille)).count() > 10);
    assert!(told.iter().any(|progress| (progress.from, progress.what) == (NEXT, "nothing")));
    drop(store);
    // There is nothing left to do, and programs of the previous format refuse the store, as any
    // newer one.
    let store = Store::migrate_to(&lock, &small(), &FURTHER, &mut |_| panic!("it is done")).unwrap();
    drop(store);
    for refused in [Store::open(&lock, &small()).unwrap_err(), Still::open(&lock).unwrap_err()] {
        assert!(
            matches!(refused, DiskError::Newer { found, known: FORMAT_VERSION, .. } if found == NEXT + 1),
            "{refused}"
        );
    }
}

#[test]
fn whoever_does_not_migrate_leaves_an_earlier_format_alone_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    let lock = taken(dir.path()).unwrap();
    let (store, found) = Store::of_any_format(&lock, &small(), &FORMATS).unwrap();
    assert_eq!((found, all(&*store.engine())), (FORMAT_VERSION, before));
    drop(store);
    let error = DiskError::NotMigrated { folder: "/data/store".into(), found: 5, known: 6 }.to_string();
    assert!(
        error.contains("the store in /data/store has format 5") && error.contains("throng store migrate"),
        "{error}"
    );
    // A new store has the newest format at once.
    let new = dir.path().join("new");
    let (_, found) = Store::of_any_format(&taken(&new).unwrap(), &small(), &FORMATS).unwrap();
    assert_eq!(
        (found, std::fs::read_to_string(new.join("store/version")).unwrap()),
        (NEXT, format!("throng {NEXT}\n"))
    );
}

/// By the mark, or by the row if the mark is missing.
#[test]
fn a_program_of_the_format_before_keeps_away() {
    const BEFORE: u32 = FORMAT_VERSION - 1;
    const KNOWN: Formats = Formats { oldest: BEFORE, known: BEFORE, steps: &[], chunk_bytes: 1_000 };
    let wanted = format!(
        "has format {FORMAT_VERSION}, and this program supports formats up to {BEFORE}; nothing \
         was changed"
    );
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    let lock = taken(dir.path()).unwrap();
    for _ in 0..2 {
        let refused = Store::of_any_format(&lock, &small(), &KNOWN).unwrap_err().to_string();
        assert!(refused.contains(&wanted), "{refused}");
        assert_eq!(all(&*Store::open(&lock, &small()).unwrap().engine()), before);
        std::fs::remove_file(dir.path().join("store/version")).unwrap();
    }
}

/// A step that cannot read a row stops, and resumes with that row once it can.
#[test]
fn a_step_that_stops_goes_on_where_it_was() {
    fn stops(row: &StoredRow<'_>, batch: &mut Batch) -> Result<(), String> {
        if row.actor == b"user7@x" && row.sort == b"2" { Err("nobody can read it".into()) } else { change(row, batch) }
    }
    const STOPS: Formats = Formats { steps: &[Step { change: stops, ..TO_NEXT }], ..FORMATS };
    let dir = tempfile::tempdir().unwrap();
    let before = filled(dir.path());
    let lock = taken(dir.path()).unwrap();
    for _ in 0..2 {
        let refused = Store::migrate_to(&lock, &small(), &STOPS, &mut |_| {}).unwrap_err().to_string();
        let wanted = format!("from format {FORMAT_VERSION} to {NEXT}: Archive, user7@x: nobody can read it");
        assert!(refused.contains(&wanted), "{refused}");
    }
    // Neither the previous program nor a read-only one takes a half-migrated store for a complete
    // one.
    assert!(matches!(Store::open(&lock, &small()), Err(DiskError::Newer { found: NEXT, known: FORMAT_VERSION, .. })));
    let (store, found) = Store::of_any_format(&lock, &small(), &FORMATS).unwrap();
    assert_eq!(found, FORMAT_VERSION);
    assert!(get(&*store.engine(), Table::Meta, "", MIGRATION_KEY).is_some());
    drop(store);
    let mut told = Vec::new();
    let store = Store::migrate_to(&lock, &small(), &FORMATS, &mut |progress| told.push(progress.rows)).unwrap();
    assert!(told[0] > 200 && told.last() == Some(&600), "rosters are not looked at again: {told:?}");
    assert_eq!(all(&*store.engine()), expected(&before, NEXT));
}

#[test]
#[should_panic(expected = "a step writes rows that it looks at later")]
fn a_step_that_would_meet_its_own_rows_is_stopped() {
    fn ahead(row: &StoredRow<'_>, batch: &mut Batch) -> Result<(), String> {
        batch.put(row.table, row.actor, &[row.sort, b"more"].concat(), &[row.value]);
        Ok(())
    }
    const AHEAD: Formats = Formats { steps: &[Step { change: ahead, ..TO_NEXT }], ..FORMATS };
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let _ = Store::migrate_to(&taken(dir.path()).unwrap(), &small(), &AHEAD, &mut |_| {});
}

#[test]
fn formats_are_linked_by_one_step_each() {
    assert!(FORMATS.are_linked() && FURTHER.are_linked());
    assert!(!Formats { known: NEXT + 1, ..FORMATS }.are_linked(), "a step is missing");
    assert!(!Formats { known: NEXT + 1, steps: &[TO_NEXT, TO_NEXT], ..FORMATS }.are_linked(), "one twice");
    assert!(!Formats { steps: &[TO_LATER], ..FORMATS }.are_linked(), "another one");
    assert!(!Formats { steps: &[], ..FORMATS }.are_linked());
}

/// After earlier quarantine: lost rows cannot be migrated, and must not be taken for migrated.
#[test]
fn a_store_of_which_rows_are_lost_is_not_begun_with() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let store = open(dir.path(), &small()).unwrap();
    store.engine().compact().unwrap();
    let table = listing::table_files(&dir.path().join("store/tree")).unwrap().pop().unwrap();
    let block = blocks::TableFile::open(&table).unwrap().blocks()[2].clone();
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[block.start as usize + 100] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    let damaged = |user: u32| {
        let name = format!("user{user}@x");
        let query = throng_engine::store::Query::Get {
            table: Table::Archive,
            actor: name.as_bytes().into(),
            sort: b"1"[..].into(),
        };
        store.engine().read(&query).is_err()
    };
    assert!((0..200).filter(|user| damaged(*user)).count() > 0);
    testing::wait_until("the table is put apart", || !table.exists());
    drop(store);
    let refused = Store::migrate_to(&taken(dir.path()).unwrap(), &small(), &FORMATS, &mut |_| {}).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("rows are lost") && refused.contains("throng store salvage"), "{refused}");
    let mark = std::fs::read_to_string(dir.path().join("store/version")).unwrap();
    assert_eq!(mark, format!("throng {FORMAT_VERSION}\n"), "nothing was changed");
    let other = open(dir.path(), &small()).unwrap();
    assert!(!rows(&*other.engine(), Table::Waiting, "user1@x").is_empty(), "and the rest is served");
}

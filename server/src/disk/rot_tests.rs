//! Bit rot: a bit is turned, a file is cut or gone, in a store or a backup. Whatever it is: no panic; nobody says "good" or
//! hands out other rows than were written; no row is lost that was whole; and each loss is named.
//!
//! `THRONG_ROT_RUNS=10000 cargo test -p throng --lib disk::rot_tests` for more of them, `THRONG_ROT_SEED` for others.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use throng_engine::store::{Batch, Found, Query, Table, key};

use super::blocks::TableFile;
use super::listing::Listing;
use super::testing::{all, checked, open, small};
use super::*;

type RowMap = BTreeMap<Vec<u8>, Vec<u8>>;

/// A sound store, and what is in it.
struct Sound {
    folder: tempfile::TempDir,
    rows: RowMap,
    /// Rows of each block of each table: place in the file, and keys.
    blocks: Vec<(PathBuf, std::ops::Range<u64>)>,
    files: Vec<PathBuf>,
}

fn xorshift(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn files_of(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_of(&path, found) } else { found.push(path) }
    }
    found.sort();
}

fn name(user: u64) -> String {
    format!("user{user:03}@x")
}

/// Tables in two levels with tombstones among them, and some groups in the journal.
fn sound(of_backup: bool) -> Sound {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let options = Options { buffer_bytes: 48 << 10, ..small() };
    let store = open(&data, &options).unwrap();
    let engine = store.engine();
    let mut random = 88_172_645_463_325_252;
    let write = |from: u64, groups: u64, random: &mut u64| {
        for number in from..from + groups {
            let mut batch = Batch::new();
            for _ in 0..4 {
                let user = name(xorshift(random) % 40);
                let (id, bytes) = (xorshift(random) % 64, 60 + xorshift(random) % 300);
                batch.put(Table::Archive, user.as_bytes(), &id.to_be_bytes(), &[&vec![number as u8; bytes as usize]]);
                batch.put(Table::Accounts, user.as_bytes(), b"", &[&number.to_be_bytes(), &[7; 100]]);
            }
            if number % 5 == 0 {
                batch.delete(Table::Archive, name(number % 40).as_bytes(), &(number % 64).to_be_bytes());
            }
            engine.commit(&[batch]).unwrap();
        }
    };
    write(0, 150, &mut random);
    engine.compact().unwrap();
    engine.tune(&Tuning { group_bytes_max: 1 << 20, min_free_bytes: 0, merges: false });
    write(150, 120, &mut random);
    testing::wait_until("tables are written", || engine.figures().unwrap().buffer_bytes < 48 << 10);
    let rows = all(&*engine).into_iter().collect();
    let folder_of_files = match of_backup {
        true => {
            backup::backup(&*engine, &folder.path().join("backup"), &mut |_| {}).unwrap();
            drop((engine, store));
            fs::remove_dir_all(&data).unwrap();
            fs::rename(folder.path().join("backup"), &data).unwrap();
            data
        }
        false => {
            drop((engine, store));
            data
        }
    };
    let report = checked(&folder_of_files);
    assert!(report.is_sound(), "{:?}", report.findings);
    let mut files = Vec::new();
    files_of(&folder_of_files, &mut files);
    let listing = Listing::read(&folder_of_files.join("store/tree")).unwrap();
    assert!(of_backup || listing.tables().count() >= 3, "{listing:?}");
    let mut blocks = Vec::new();
    for table in listing.tables() {
        let path = listing.path(table.id);
        let places = TableFile::open(&path).unwrap().blocks();
        blocks.extend(places.into_iter().map(|at| (path.clone(), at)));
    }
    let relative = |path: &PathBuf| path.strip_prefix(&folder_of_files).unwrap().to_owned();
    let blocks = blocks.iter().map(|(path, at)| (relative(path), at.clone())).collect();
    let files = files.iter().map(relative).filter(|path| path != Path::new("throng.lock")).collect();
    Sound { folder, rows, blocks, files }
}

/// What is done to a file.
#[derive(Debug)]
enum Rot {
    Bit(u64, u8),
    Cut(u64),
    Gone,
}

fn rot(path: &Path, random: &mut u64) -> Option<Rot> {
    let mut bytes = fs::read(path).unwrap();
    let length = bytes.len() as u64;
    let rot = match xorshift(random) % 8 {
        0 => Rot::Gone,
        1 | 2 if length > 0 => Rot::Cut(xorshift(random) % length),
        _ if length > 0 => Rot::Bit(xorshift(random) % length, (xorshift(random) % 8) as u8),
        _ => return None,
    };
    match rot {
        Rot::Gone => fs::remove_file(path).unwrap(),
        Rot::Cut(at) => fs::write(path, &bytes[..at as usize]).unwrap(),
        Rot::Bit(at, bit) => {
            bytes[at as usize] ^= 1 << bit;
            fs::write(path, bytes).unwrap();
        }
    }
    Some(rot)
}

/// Every read of an open store gives what was written, or an error.
fn reads_right(engine: &dyn Engine, rows: &RowMap, case: &str) {
    for user in (0..40).map(name) {
        let get = Query::Get { table: Table::Accounts, partition: user.as_bytes().into(), sort: Box::default() };
        if let Ok(Found::Value(found)) = engine.read(&get) {
            let expected = rows.get(&memory::flat(Table::Accounts, user.as_bytes(), b""));
            assert_eq!(found.as_deref(), expected.map(Vec::as_slice), "{case}: the account of {user}");
        }
        let range = Query::Range {
            table: Table::Archive,
            partition: user.as_bytes().into(),
            from: Box::default(),
            until: None,
            reverse: user.ends_with("1@x"),
            rows_max: u32::MAX,
            bytes_max: u32::MAX,
        };
        if let Ok(Found::Rows { rows: found, .. }) = engine.read(&range) {
            let prefix = memory::flat(Table::Archive, user.as_bytes(), b"");
            let expected = rows.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix)).count();
            assert_eq!(found.len(), expected, "{case}: the archive of {user}");
            let flat = |row: &throng_engine::store::Row| memory::flat(Table::Archive, user.as_bytes(), &row.sort);
            assert!(found.iter().all(|row| rows.get(&flat(row)).is_some_and(|own| **own == *row.value)), "{case}");
        }
    }
}

fn one_case(sound: &Sound, seed: u64, opened: bool) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..8 {
        xorshift(&mut random);
    }
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for file in &sound.files {
        let to = data.join(file);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(sound.folder.path().join("data").join(file), to).unwrap();
    }
    let file = &sound.files[xorshift(&mut random) as usize % sound.files.len()];
    let Some(rot) = rot(&data.join(file), &mut random) else { return };
    let in_journal = file.extension().is_some_and(|end| end == "journal");
    if in_journal && !matches!(rot, Rot::Bit(..)) {
        // The journal's end may be anywhere: what is gone with it leaves no trace in a segment.
        return;
    }
    let case = format!("seed {seed}: {rot:?} in {}", file.display());
    let lock = FolderLock::take_there(&data).unwrap();
    // A check names the loss, or there is none.
    let report = match check::check(&lock, &|_, _, _, _| Ok(()), &mut |_| {}) {
        Ok(report) => report,
        Err(error) => panic!("{case}: {error}"),
    };
    let lost_of = |rows: &RowMap| {
        let lost = sound.rows.iter().filter(|(key, value)| rows.get(*key) != Some(value));
        lost.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    match Still::open(&lock) {
        Ok(still) => {
            let mut rows = RowMap::new();
            let scanned = still.scan(&mut |key, value| {
                rows.insert(key.to_vec(), value.to_vec());
                Visit::Continue(())
            });
            let torn = report.findings.iter().any(|found| found.may_be_torn);
            assert!(scanned.is_err() || rows == sound.rows || torn, "{case}: other rows without a word");
            assert!(!report.is_sound() || (scanned.is_ok() && rows == sound.rows), "{case}: it was called good");
        }
        Err(error) => assert!(!report.is_sound(), "{case}: called good, and refused: {error}"),
    }
    // What is whole is brought out, and each row that is not is named.
    let into = dir.path().join("into");
    let salvaged = salvage::salvage(&lock, &into, &small(), &mut |_| {}).unwrap_or_else(|e| panic!("{case}: {e}"));
    let brought: RowMap = all(&*open(&into, &small()).unwrap().engine()).into_iter().collect();
    assert_eq!(salvaged.rows, brought.len() as u64, "{case}");
    assert!(checked(&into).is_sound(), "{case}: the salvaged store is not good");
    let lost = lost_of(&brought);
    for key in &lost {
        let user = key::decode(key).map(|(_, user, _)| String::from_utf8_lossy(user).into_owned()).unwrap();
        let named = salvaged.lost.iter().any(|found| {
            found.missing
                || found.users.contains(&user)
                || found.may_hold(key)
                || (user.is_empty() && found.at.is_some())
        });
        assert!(named, "{case}: a row of {user} is lost, and not named: {:?}", salvaged.lost);
    }
    if !lost.is_empty() {
        assert!(!report.is_sound(), "{case}: {} rows are lost, and a check says good", lost.len());
    }
    // No more is lost than what the damage touched.
    let beside = |at: u64| sound.blocks.iter().filter(move |(path, place)| path == file && place.end > at);
    let touched = match rot {
        Rot::Bit(at, _) => beside(at).take_while(|(_, place)| place.start <= at).count(),
        Rot::Cut(at) => beside(at).count(),
        Rot::Gone => beside(0).count(),
    };
    let rows_max = if in_journal { 9 } else { touched * 120 };
    assert!(lost.len() <= rows_max, "{case}: {} rows lost", lost.len());
    // A server that starts on it serves what was written, or nothing at all.
    if opened && let Ok(store) = open(&data, &small()) {
        let torn = report.findings.iter().any(|found| found.may_be_torn);
        if !torn {
            reads_right(&*store.engine(), &sound.rows, &case);
        }
    }
}

fn runs(part: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let seed = number("THRONG_ROT_SEED").unwrap_or(1);
    seed..seed + number("THRONG_ROT_RUNS").unwrap_or(160) / part
}

#[test]
fn rot_in_a_store_is_named_and_takes_no_row_with_it_that_is_whole() {
    let sound = sound(false);
    for seed in runs(1) {
        one_case(&sound, seed, seed % 4 == 0);
    }
}

#[test]
fn rot_in_a_backup_is_named_and_takes_no_row_with_it_that_is_whole() {
    let sound = sound(true);
    for seed in runs(4) {
        one_case(&sound, seed, false);
    }
}

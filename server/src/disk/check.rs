//! `store check`: reads every byte of a store at rest, changes nothing, and reports what is
//! damaged, where, and which users are affected.

use std::fs;
use std::path::PathBuf;

use throng_engine::store::{Table, key};

use super::backup;
use super::blocks::{Hole, Holes, TableFile};
use super::finding::of_hole;
use super::format::FORMAT_VERSION;
use super::memory::flat;
use super::{DiskError, Finding, FolderLock, Still};

/// Problems listed in a report; further ones are only counted.
const PROBLEMS_MAX: usize = 20;

/// Rows between two calls of the progress callback.
const PROGRESS_ROWS: u64 = 8192;

/// Decodes the value of a row: `Err` describes in a few words what is wrong with it (never its
/// content).
pub type ValueCheck<'a> = &'a dyn Fn(Table, &[u8], &[u8], &[u8]) -> Result<(), String>;

/// The content of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableCount {
    /// The table.
    pub table: Table,
    /// Rows.
    pub rows: u64,
    /// Actors.
    pub actors: u64,
    /// Bytes of keys.
    pub key_bytes: u64,
    /// Bytes of values.
    pub value_bytes: u64,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// One per table, in the order of their numbers.
    pub tables: Vec<TableCount>,
    /// What is damaged or missing.
    pub findings: Vec<Finding>,
    /// Table files that no list names. They are left in place.
    pub unlisted: Vec<PathBuf>,
    /// The format of the rows if it is an earlier one: what they hold was not judged then.
    pub older: Option<u32>,
    /// Number of files in the folder.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Number of rows with a problem.
    pub problems: u64,
    /// The first problems, in words.
    pub first_problems: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems == 0 && self.findings.is_empty()
    }

    /// Number of rows in all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }

    fn problem(&mut self, what: String) {
        self.problems += 1;
        if self.first_problems.len() < PROBLEMS_MAX {
            self.first_problems.push(what);
        }
    }
}

/// Reads every byte of a store at rest, and changes nothing. `progress` is given the rows seen so
/// far. Of a store of an earlier format only the checksums are judged.
///
/// # Errors
/// Those that do not concern the store's content: no store, another format, the file system's.
pub fn check(lock: &FolderLock, value: ValueCheck<'_>, progress: &mut dyn FnMut(u64)) -> Result<Report, DiskError> {
    let still = Still::open_damaged(lock)?;
    let mut report = Report { tables: Table::ALL.map(empty_count).to_vec(), ..Report::default() };
    report.findings = still.findings().to_vec();
    (report.files, report.bytes) = still.size()?;
    report.older = still.format().filter(|format| *format < FORMAT_VERSION);
    check_files(&still, &mut report);
    let unjudged: ValueCheck<'_> = &|_, _, _, _| Ok(());
    let value = if report.older.is_some() { unjudged } else { value };
    check_rows(&still, value, &mut report, progress)?;
    name_users(&still, &mut report.findings)?;
    // A backup records its number of rows.
    let complete = lock.folder().join(backup::COMPLETE);
    if let Ok(said) = fs::read_to_string(&complete)
        && said != backup::complete(report.rows())
    {
        let what = format!("it does not say that there are {} rows", report.rows());
        report.findings.push(Finding::new(complete, &what));
    }
    Ok(report)
}

/// Compares the checksum of each table file, and finds the holes of files that differ.
fn check_files(still: &Still, report: &mut Report) {
    let Some(listing) = still.listing() else { return };
    for table in listing.tables() {
        let path = listing.path(table.id);
        if table.is_as_written(&path) == Some(true) || !still.table_files().any(|other| *other == path) {
            continue;
        }
        let holes = Holes::default();
        let disorder = match TableFile::open(&path) {
            Ok(file) => {
                let disorder = file.disorder();
                file.rows(&[], holes.clone()).for_each(drop);
                disorder
            }
            Err(error) => {
                holes.add(Hole::of_file(&path, &error.to_string()));
                None
            }
        };
        let holes = holes.take();
        let rest = match (disorder, holes.is_empty()) {
            (Some(disorder), _) => Some(disorder),
            (None, true) => Some("bytes outside its rows are damaged: no row is lost"),
            (None, false) => None,
        };
        report.findings.extend(rest.map(|what| Finding::new(path, what)));
        report.findings.extend(holes.iter().map(of_hole));
    }
    match listing.orphans() {
        Ok(orphans) => report.unlisted = orphans,
        Err(error) => report.problem(error.to_string()),
    }
}

/// Reads all rows.
fn check_rows(
    still: &Still,
    value: ValueCheck<'_>,
    report: &mut Report,
    progress: &mut dyn FnMut(u64),
) -> Result<(), DiskError> {
    let holes = Holes::default();
    let mut seen = 0;
    let mut last = Vec::new();
    for row in still.rows(&[], &holes) {
        let (flat, row) = row?;
        seen += 1;
        if seen % PROGRESS_ROWS == 0 {
            progress(seen);
        }
        if seen > 1 && last.as_slice() >= &*flat {
            report.problem(format!("row {seen} is out of order"));
        }
        let Some((table, actor, sort)) = key::decode(&flat) else {
            report.problem(format!("row {seen}: the key of {} bytes is not one of a known table", flat.len()));
            continue;
        };
        if !key::is_in_place(&flat) {
            let actor = String::from_utf8_lossy(actor);
            report.problem(format!("{table:?}, {actor}: the row is stored in another partition"));
        }
        let same = key::decode(&last).is_some_and(|(t, p, _)| t == table && p == actor);
        let count = &mut report.tables[table as usize];
        count.rows += 1;
        count.actors += u64::from(!same);
        count.key_bytes += flat.len() as u64;
        count.value_bytes += row.len() as u64;
        if let Err(what) = value(table, actor, sort, &row) {
            report.problem(format!("{table:?}, {}: {what}", String::from_utf8_lossy(actor)));
        }
        last.clear();
        last.extend_from_slice(&flat);
    }
    // Holes that only this pass has met: a file may have been intact a moment ago.
    let known = |hole: &Hole| report.findings.iter().any(|other| other.file == hole.file);
    let new: Vec<Finding> = holes.take().iter().filter(|hole| !known(hole)).map(of_hole).collect();
    report.findings.extend(new);
    progress(seen);
    Ok(())
}

/// Adds the users whose rows may have been in a hole to those at its ends: all accounts whose rows
/// would be in that range.
///
/// # Errors
/// The file system's.
pub(super) fn name_users(still: &Still, findings: &mut [Finding]) -> Result<(), DiskError> {
    if !findings.iter().any(Finding::is_wide) {
        return Ok(());
    }
    let until = vec![Table::Accounts as u8 + 1];
    for row in still.rows(&[Table::Accounts as u8], &Holes::default()) {
        let (key, _) = row?;
        if *key >= *until {
            break;
        }
        let Some((_, user, _)) = key::decode(&key).filter(|(.., sort)| sort.is_empty()) else { continue };
        for finding in findings.iter_mut().filter(|finding| finding.is_wide()) {
            if Table::ALL.iter().any(|table| finding.may_hold_of(&flat(*table, user, b""))) {
                finding.name(user);
            }
        }
    }
    Ok(())
}

fn empty_count(table: Table) -> TableCount {
    TableCount { table, rows: 0, actors: 0, key_bytes: 0, value_bytes: 0 }
}

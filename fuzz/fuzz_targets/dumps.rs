//! Dumps of other servers: whatever is in one, reading it ends, within its bounds; no split into reads
//! changes what is read.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use throng_dumps::{erlang, lua, sql};

/// Gives so many bytes per read.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = into.len().min(self.1);
        self.0.read(&mut into[..most])
    }
}

fn tables(from: impl Read) -> Vec<String> {
    let mut reader = lua::Reader::new(from);
    let mut all = Vec::new();
    while let Some(item) = reader.item().transpose() {
        all.push(format!("{item:?} {} {}", reader.line(), reader.bytes()));
        if item.is_err() {
            break;
        }
    }
    all
}

fn terms(from: impl Read) -> Vec<String> {
    let mut reader = erlang::Reader::new(from);
    let mut all = Vec::new();
    while let Some(term) = reader.read_term().transpose() {
        all.push(format!("{term:?} {} {}", reader.line(), reader.bytes()));
        if term.is_err() {
            break;
        }
    }
    all
}

fn rows(from: impl Read) -> Vec<String> {
    let mut dump = sql::Dump::new(from, |name| name != "sqlite_sequence");
    let mut all = Vec::new();
    while let Some(row) = dump.read_row().transpose() {
        if let Ok(row) = &row {
            assert!(row.table.columns.len() <= sql::COLUMNS_MAX);
            let bytes: usize = row.values.iter().flatten().map(Vec::len).sum();
            assert!(bytes <= sql::ROW_BYTES_MAX);
        }
        all.push(format!("{row:?} {} {}", dump.line(), dump.bytes()));
        if row.is_err() {
            break;
        }
    }
    all
}

fuzz_target!(|input: &[u8]| {
    let _ = lua::Reader::new(input).whole();
    assert_eq!(tables(input), tables(Slow(input, 1)));
    assert_eq!(terms(input), terms(Slow(input, 7)));
    assert_eq!(rows(input), rows(Slow(input, 3)));
});

//! Lines of an import file: CSV, bounded, each with its number.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cli::user::PASSWORD_BYTES_MAX;
use crate::log::Secret;

/// Longest record, in bytes: a quote that is never closed must not take the whole file into memory.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// Names of the first column that make the first line a header.
const HEADERS: [&str; 5] = ["localpart", "user", "username", "jid", "name"];

/// One record.
#[derive(Debug)]
pub(super) struct Line {
    /// Line of the file where it begins, from 1.
    pub(super) line: u64,
    /// Localpart and password, or why there are none.
    pub(super) fields: Result<(String, Secret), String>,
}

/// The records of a file, after its header.
pub(super) struct Lines {
    reader: csv::Reader<Bounded>,
    read: Arc<AtomicU64>,
    allowed: Arc<AtomicU64>,
    length: Option<u64>,
    first: bool,
    ended: bool,
}

/// Reads up to a mark that moves on with each record.
struct Bounded {
    inner: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
    allowed: Arc<AtomicU64>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read.load(Ordering::Relaxed);
        if read >= self.allowed.load(Ordering::Relaxed) {
            let text = format!("a record of over {RECORD_BYTES_MAX} bytes; is a quote not closed?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let count = self.inner.read(buffer)?;
        self.read.store(read + count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Lines {
    /// From a source whose length in bytes may be known.
    pub(super) fn new(inner: Box<dyn Read + Send>, length: Option<u64>) -> Lines {
        let (read, allowed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(RECORD_BYTES_MAX)));
        let bounded = Bounded { inner, read: Arc::clone(&read), allowed: Arc::clone(&allowed) };
        let reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(bounded);
        Lines { reader, read, allowed, length, first: true, ended: false }
    }

    /// Length of the source in bytes, when known.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Bytes read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn record(&mut self) -> Option<Line> {
        let mut record = csv::ByteRecord::new();
        let line = self.reader.position().line();
        match self.reader.read_byte_record(&mut record) {
            Ok(true) => {
                let line = record.position().map_or(line, csv::Position::line);
                let end = self.reader.position().byte();
                self.allowed.store(end + RECORD_BYTES_MAX, Ordering::Relaxed);
                Some(Line { line, fields: fields(&record) })
            }
            Ok(false) => None,
            Err(error) => {
                self.ended = true;
                let reason = match error.into_kind() {
                    csv::ErrorKind::Io(error) => format!("cannot be read: {error}"),
                    other => format!("cannot be read: {other:?}"),
                };
                Some(Line { line, fields: Err(reason) })
            }
        }
    }
}

impl Iterator for Lines {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        if self.ended {
            return None;
        }
        let line = self.record()?;
        let header = matches!(&line.fields, Ok((user, _)) if HEADERS.contains(&user.to_ascii_lowercase().as_str()));
        if std::mem::take(&mut self.first) && header {
            return self.record();
        }
        Some(line)
    }
}

fn fields(record: &csv::ByteRecord) -> Result<(String, Secret), String> {
    if record.len() != 2 {
        return Err(format!("{} fields, not localpart,password; quote what holds a comma", record.len()));
    }
    let text = |at: usize| std::str::from_utf8(&record[at]).map_err(|_| "not UTF-8".to_owned());
    let (user, secret) = (text(0)?.trim().trim_start_matches('\u{feff}'), text(1)?);
    if user.is_empty() {
        return Err("the localpart is empty".into());
    }
    match secret.len() {
        0 => Err("the password is empty".into()),
        bytes if bytes > PASSWORD_BYTES_MAX => Err(format!("a password has at most {PASSWORD_BYTES_MAX} bytes")),
        _ => Ok((user.to_owned(), Secret::new(secret))),
    }
}

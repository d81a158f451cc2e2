//! Lines of an import file: bounded CSV, each with its line number.
//!
//! A record is one line: a password cannot contain a line end (RFC 8265 4.2). A quote that is never
//! closed therefore spoils its own line and not the rest of the file.

use std::io::{BufRead, BufReader, Read};

use crate::cli::accounts::password_fits;
use crate::log::Secret;

/// Longest line, in bytes: the longest localpart and password, quoted, with room for keys.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// Names of the two columns. A first line is a header only if both fields are such names: an
/// account may be called `user`.
const FIRST_COLUMN: [&str; 5] = ["localpart", "user", "username", "jid", "name"];
const SECOND_COLUMN: [&str; 4] = ["password", "pass", "secret", "keys"];

/// Whether the first line is a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Header {
    /// It is a header if it names the columns.
    Guess,
    /// It is a header.
    Yes,
    /// It is an account.
    No,
}

/// One record.
#[derive(Debug)]
pub(super) struct Line {
    /// Line of the file, from 1.
    pub(super) line: u64,
    /// Localpart and password, or the error of the line.
    pub(super) fields: Result<(String, Secret), String>,
}

/// The records of a file, without empty lines.
pub(super) struct Lines {
    reader: BufReader<Box<dyn Read + Send>>,
    length: Option<u64>,
    bytes_read: u64,
    line: u64,
    ended: bool,
    /// The first record, if it was read ahead and is not a header.
    first: Option<Line>,
}

impl Lines {
    /// Reads from a source whose length in bytes may be known.
    pub(super) fn new(source: Box<dyn Read + Send>, length: Option<u64>) -> Lines {
        let reader = BufReader::with_capacity(64 << 10, source);
        Lines { reader, length, bytes_read: 0, line: 0, ended: false, first: None }
    }

    /// Length of the source in bytes, when known.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// Skips the first line if it is a header; returns a description of a skipped header.
    pub(super) fn pass_header(&mut self, header: Header) -> Option<String> {
        let first = self.next()?;
        let known = |(user, secret): &(String, Secret)| {
            let (user, secret) = (user.to_ascii_lowercase(), secret.reveal().trim().to_ascii_lowercase());
            let named = FIRST_COLUMN.contains(&&*user) && SECOND_COLUMN.contains(&&*secret);
            named.then(|| format!("`{user},{secret}`"))
        };
        let names = first.fields.as_ref().ok().and_then(known);
        let told = match header {
            Header::Yes => Some(names.unwrap_or_else(|| "as given by --header".to_owned())),
            Header::Guess if first.line == 1 => names,
            Header::Guess | Header::No => None,
        };
        if told.is_none() {
            self.first = Some(first);
        }
        told
    }

    /// Number of bytes read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The next line without its end; `None` at the end of the file.
    fn text(&mut self) -> Option<Result<Vec<u8>, String>> {
        let mut text = Vec::new();
        match (&mut self.reader).take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut text) {
            Ok(0) => return None,
            Ok(count) => self.bytes_read += count as u64,
            Err(error) => {
                self.ended = true;
                return Some(Err(format!("cannot be read: {error}")));
            }
        }
        if text.last() != Some(&b'\n') && text.len() as u64 > LINE_BYTES_MAX {
            self.ended = !self.skip_line();
            return Some(Err(format!("the line is longer than {LINE_BYTES_MAX} bytes")));
        }
        let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n')).map_or(0, |last| last + 1);
        text.truncate(end);
        Some(Ok(text))
    }

    /// Skips the rest of a line; returns false at the end of the file.
    fn skip_line(&mut self) -> bool {
        match self.reader.skip_until(b'\n') {
            Ok(count) => {
                self.bytes_read += count as u64;
                count > 0
            }
            Err(_) => false,
        }
    }
}

impl Iterator for Lines {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while !self.ended {
            self.line += 1;
            let text = self.text()?;
            if text.as_ref().is_ok_and(|text| text.iter().all(u8::is_ascii_whitespace)) {
                continue;
            }
            return Some(Line { line: self.line, fields: text.and_then(|text| fields(&text)) });
        }
        None
    }
}

fn fields(text: &[u8]) -> Result<(String, Secret), String> {
    let text = std::str::from_utf8(text).map_err(|_| "not UTF-8".to_owned())?;
    let text = text.trim_start_matches('\u{feff}');
    let quoted = text.starts_with('"') || text.contains(",\"");
    if quoted && text.matches('"').count() % 2 == 1 {
        return Err("unclosed quote; write a quote within quotes twice".into());
    }
    let mut options = csv::ReaderBuilder::new();
    options.has_headers(false).flexible(true).buffer_capacity(text.len().max(1));
    let mut record = csv::StringRecord::new();
    options.from_reader(text.as_bytes()).read_record(&mut record).map_err(|_| "not CSV".to_owned())?;
    if record.len() != 2 {
        return Err(format!(
            "expected localpart,password but found {} fields; quote fields that contain a comma",
            record.len()
        ));
    }
    let (user, secret) = (record[0].trim(), &record[1]);
    if user.is_empty() {
        return Err("the localpart is empty".into());
    }
    password_fits(secret)?;
    Ok((user.to_owned(), Secret::new(secret)))
}

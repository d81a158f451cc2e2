//! Fast reading of `/proc`: open descriptors, reused buffers, hand-written number parsing; no
//! allocation after the first read of a file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::schema::Field;
use crate::table::ABSENT;

/// A file that is read repeatedly from its beginning.
#[derive(Debug)]
pub(crate) struct Pseudo {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
}

impl Pseudo {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Pseudo {
        Pseudo { path: path.into(), file: None, buffer: Vec::new() }
    }

    /// Its current text; `None` if it does not exist.
    pub(crate) fn read(&mut self) -> Option<&[u8]> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let file = self.file.as_ref()?;
        let mut length = 0;
        loop {
            if self.buffer.len() - length < 2048 {
                self.buffer.resize((2 * self.buffer.len()).max(4096), 0);
            }
            match file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => return Some(&self.buffer[..length]),
                Ok(more) => length += more,
                Err(_) => {
                    self.file = None;
                    return None;
                }
            }
        }
    }
}

/// Lines of a text.
pub(crate) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

/// Words of a line.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// A decimal number at the front of a word, ended by any other byte; [`ABSENT`] if there is none.
pub(crate) fn number(word: &[u8]) -> u64 {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit());
    let value = digits.fold(None, |sum: Option<u64>, digit| {
        Some(sum.unwrap_or(0).wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    });
    value.unwrap_or(ABSENT)
}

/// A hexadecimal number.
pub(crate) fn hex(word: &[u8]) -> u64 {
    word.iter()
        .fold(0, |sum: u64, digit| sum.wrapping_mul(16).wrapping_add((*digit as char).to_digit(16).unwrap_or(0).into()))
}

/// The number at the front of the first word, or [`ABSENT`].
pub(crate) fn first(text: &[u8]) -> u64 {
    words(text).next().map_or(ABSENT, number)
}

/// Adds to a sum that may still be absent.
pub(crate) fn add(sum: &mut u64, more: u64) {
    if more != ABSENT {
        *sum = if *sum == ABSENT { more } else { sum.wrapping_add(more) };
    }
}

/// A source's table: fields with their keys in the kernel's file; a field that is not recorded has
/// none.
pub(crate) type Keyed = [(Field, &'static str)];

/// The fields of a source's table.
pub(crate) fn fields(table: &Keyed) -> Vec<Field> {
    table.iter().map(|(field, _)| field.clone()).collect()
}

/// The keys of its recorded fields: the index is the slot.
pub(crate) fn keys(table: &'static Keyed) -> Vec<&'static str> {
    table.iter().filter(|(field, _)| field.is_recorded()).map(|(_, key)| *key).collect()
}

/// Reads lines of `key number` or `key: number` in a stable order: found by key once, then by
/// position.
#[derive(Debug)]
pub(crate) struct Lines {
    keys: Vec<&'static str>,
    /// The slot of each line.
    slots: Vec<Option<u16>>,
}

impl Lines {
    pub(crate) fn new(keys: Vec<&'static str>) -> Lines {
        Lines { keys, slots: Vec::new() }
    }

    /// Writes numbers to the slots of their keys; the slot of a missing key is left unchanged.
    pub(crate) fn read(&mut self, text: &[u8], row: &mut [u64]) {
        if !self.by_place(text, row) {
            let Lines { keys, slots } = self;
            slots.clear();
            slots.extend(lines(text).map(|line| {
                let key = key(line);
                keys.iter().position(|wanted| !wanted.is_empty() && wanted.as_bytes() == key).map(|slot| slot as u16)
            }));
            self.by_place(text, row);
        }
    }

    fn by_place(&self, text: &[u8], row: &mut [u64]) -> bool {
        let mut count = 0;
        for (line, slot) in lines(text).zip(&self.slots) {
            count += 1;
            let Some(slot) = slot else { continue };
            let slot = usize::from(*slot);
            let wanted = self.keys[slot].as_bytes();
            let Some(rest) = line.strip_prefix(wanted).filter(|rest| matches!(rest.first(), Some(b' ' | b'\t' | b':')))
            else {
                return false;
            };
            row[slot] = first(rest.strip_prefix(b":").unwrap_or(rest));
        }
        count > 0 && count == self.slots.len()
    }
}

fn key(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t' | b':'));
    &line[..end.unwrap_or(line.len())]
}

/// Reads pairs of lines, one with names and one with numbers, each after the name of a protocol
/// (`/proc/net/snmp`).
#[derive(Debug)]
pub(crate) struct Pairs {
    /// The protocol with its colon, and the column name of each slot.
    protocol: &'static str,
    keys: Vec<&'static str>,
    names: Vec<u8>,
    /// Column and slot, by column.
    columns: Vec<(usize, usize)>,
}

impl Pairs {
    pub(crate) fn new(protocol: &'static str, keys: Vec<&'static str>) -> Pairs {
        Pairs { protocol, keys, names: Vec::new(), columns: Vec::new() }
    }

    /// Writes numbers to the slots of their columns; the slot of a missing column is left
    /// unchanged.
    pub(crate) fn read(&mut self, text: &[u8], row: &mut [u64]) {
        let mut of = lines(text).filter_map(|line| line.strip_prefix(self.protocol.as_bytes()));
        let (Some(names), Some(numbers)) = (of.next(), of.next()) else { return };
        if self.names != names {
            self.names.clear();
            self.names.extend_from_slice(names);
            self.columns.clear();
            for (column, name) in words(names).enumerate() {
                let slot = self.keys.iter().position(|key| key.as_bytes() == name);
                self.columns.extend(slot.map(|slot| (column, slot)));
            }
        }
        let mut wanted = self.columns.iter().peekable();
        for (column, word) in words(numbers).enumerate() {
            match wanted.peek() {
                Some((at, slot)) if *at == column => {
                    row[*slot] = number(word);
                    wanted.next();
                }
                Some(_) => {}
                None => break,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keyed_lines_are_found_again_when_they_move() {
        let mut lines = Lines::new(vec!["pgfault", "", "pswpin"]);
        let mut row = [ABSENT; 3];
        lines.read(b"pswpin 3\npgfaults_other 9\npgfault 70\n", &mut row);
        assert_eq!(row, [70, ABSENT, 3]);
        lines.read(b"pgfault 71\nnew 1\npswpin 4\n", &mut row);
        assert_eq!(row, [71, ABSENT, 4]);
        lines.read(b"new 1\npgfault: \t 72 kB\npswpin 4", &mut row);
        assert_eq!(row, [72, ABSENT, 4]);
        let mut row = [ABSENT; 3];
        lines.read(b"", &mut row);
        assert_eq!(row, [ABSENT; 3]);
    }

    #[test]
    fn pairs_are_found_by_the_names_of_columns() {
        let text = b"Ip: A B\nIp: 1 2\nTcp: In Out Max\nTcp: 7 8 -1\nTcpExt: In\nTcpExt: 9\n";
        let mut pairs = Pairs::new("Tcp:", vec!["Out", "Max", "In", "Missing"]);
        let mut row = [ABSENT; 4];
        pairs.read(text, &mut row);
        assert_eq!(row, [8, ABSENT, 7, ABSENT]);
        pairs.read(b"Tcp: Out\nTcp: 10\n", &mut row);
        assert_eq!(row[0], 10);
    }

    #[test]
    fn numbers_end_where_digits_do() {
        assert_eq!((number(b"12kB"), number(b"-1"), number(b""), hex(b"0000ff")), (12, ABSENT, ABSENT, 255));
        assert_eq!(first(b"  42 kB"), 42);
        let mut sum = ABSENT;
        add(&mut sum, ABSENT);
        assert_eq!(sum, ABSENT);
        add(&mut sum, 2);
        add(&mut sum, 3);
        assert_eq!(sum, 5);
    }

    #[test]
    fn a_file_is_read_anew_each_time_and_may_come_and_go() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let mut file = Pseudo::new(&path);
        assert_eq!(file.read(), None);
        std::fs::write(&path, "one").expect("written");
        assert_eq!(file.read(), Some(&b"one"[..]));
        let long = "x".repeat(100_000);
        std::fs::write(&path, &long).expect("written");
        assert_eq!(file.read().map(<[u8]>::len), Some(long.len()));
    }
}

//! Names and contents of a backup's objects.
//!
//! ```text
//! owner                                       who writes here (JSON, `owner`)
//! GENERATION/journal/FIRST-END-TIME           groups of the journal from FIRST up to END, excluded
//! GENERATION/rows/TIME/NUMBER                 a part of a full piece: rows in the order of their keys
//! GENERATION/full/TIME-FIRST                  a full piece is complete (JSON, `Full`)
//! files/DIGITS/NAME/NUMBER-COUNT              a part of a file that never changes
//! files/DIGITS/NAME/gone-TIME                 when the file was seen to have gone
//! settings/TIME                               configuration and certificates: paths and contents, as rows
//! ```
//!
//! A generation is an unbroken history of one store: its time and a random number. Times are
//! milliseconds since 1970, 13 digits; numbers of groups have 16 hexadecimal digits. So names sort
//! by age, and a listing shows what is there.
//!
//! A full piece is read while the store changes: its rows, followed by all groups from FIRST up to
//! at least `Full::end`, give the store as it was at a group's end. This holds because a group can
//! be applied again without another result.

use serde::{Deserialize, Serialize};

/// Number of a group of the journal.
pub(super) type Group = u64;

/// Bytes of a journal piece before its marks.
const HEAD_BYTES: usize = 12;
const MARK_BYTES: usize = 16;

/// Name of the record of the writer.
pub(super) const OWNER: &str = "owner";

/// Folder of configuration and certificates.
pub(super) const SETTINGS: &str = "settings";

/// All groups before `next` were durable at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) time_ms: u64,
    pub(super) next: Group,
}

/// A piece of the journal: what its name states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) first: Group,
    pub(super) end: Group,
    /// The time of its last mark.
    pub(super) time_ms: u64,
}

impl Piece {
    pub(super) fn name(&self, generation: &str) -> String {
        format!("{}/{:016x}-{:016x}-{:013}", journal(generation), self.first, self.end, self.time_ms)
    }

    pub(super) fn of_name(name: &str) -> Option<Piece> {
        let mut parts = name.rsplit('/').next()?.split('-');
        let mut group = || u64::from_str_radix(parts.next()?, 16).ok();
        let (first, end) = (group()?, group()?);
        let time_ms = parts.next()?.parse().ok()?;
        (first < end && parts.next().is_none()).then_some(Piece { first, end, time_ms })
    }
}

/// The folder of a generation's journal.
pub(super) fn journal(generation: &str) -> String {
    format!("{generation}/journal")
}

/// A name before those of all pieces that begin with this group or later.
pub(super) fn before_group(generation: &str, first: Group) -> String {
    format!("{}/{first:016x}", journal(generation))
}

/// The folder of a generation's complete full pieces.
pub(super) fn fulls(generation: &str) -> String {
    format!("{generation}/full")
}

/// The folder of the rows of all full pieces of a generation, and of one of them.
pub(super) fn all_rows(generation: &str) -> String {
    format!("{generation}/rows")
}

pub(super) fn rows_folder(generation: &str, begun_ms: u64) -> String {
    format!("{}/{begun_ms:013}", all_rows(generation))
}

pub(super) fn rows(generation: &str, begun_ms: u64, number: u64) -> String {
    format!("{}/{number:06}", rows_folder(generation, begun_ms))
}

/// The record of a complete full piece.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Full {
    /// Format of the rows.
    pub(super) format: u32,
    /// The store that it is of.
    pub(super) store: String,
    /// The first group that follows, and the one before which it gives no consistent store.
    pub(super) first: Group,
    pub(super) end: Group,
    /// When it was begun and when it was complete, milliseconds since 1970.
    pub(super) begun_ms: u64,
    pub(super) time_ms: u64,
    /// Objects, rows, and their bytes.
    pub(super) parts: u64,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Full {
    pub(super) fn name(&self, generation: &str) -> String {
        format!("{}/{:013}-{:016x}", fulls(generation), self.time_ms, self.first)
    }

    /// Time and first group by its name.
    pub(super) fn of_name(name: &str) -> Option<(u64, Group)> {
        let (time, first) = name.rsplit('/').next()?.split_once('-')?;
        Some((time.parse().ok()?, u64::from_str_radix(first, 16).ok()?))
    }
}

/// An object of a file that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileObject {
    /// One of so many parts.
    Part { number: u64, of: u64 },
    /// A note that it had gone from the folder.
    Gone { time_ms: u64 },
}

/// The folder of the files whose names begin with the two digits of this byte.
pub(super) fn files_folder(part: u8) -> String {
    format!("files/{part:02x}")
}

impl FileObject {
    pub(super) fn name(self, part: u8, file: &str) -> String {
        let folder = files_folder(part);
        match self {
            FileObject::Part { number, of } => format!("{folder}/{file}/{number:06}-{of:06}"),
            FileObject::Gone { time_ms } => format!("{folder}/{file}/gone-{time_ms:013}"),
        }
    }

    /// The file's name, and which of its objects this is.
    pub(super) fn of_name(name: &str) -> Option<(&str, FileObject)> {
        let mut parts = name.rsplit('/');
        let (begin, end) = parts.next()?.split_once('-')?;
        let end = end.parse().ok()?;
        let object = match begin {
            "gone" => FileObject::Gone { time_ms: end },
            number => FileObject::Part { number: number.parse().ok().filter(|number| *number < end)?, of: end },
        };
        Some((parts.next()?, object))
    }
}

pub(super) fn settings_name(time_ms: u64) -> String {
    format!("{SETTINGS}/{time_ms:013}")
}

pub(super) fn settings_time_ms(name: &str) -> Option<u64> {
    name.rsplit('/').next()?.parse().ok()
}

/// When a generation began, by its name.
pub(super) fn begun_ms(generation: &str) -> Option<u64> {
    generation.split_once('-')?.0.parse().ok()
}

/// The content of a journal piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Journal {
    /// The checksum of its last group in the store's journal.
    pub(super) last: u64,
    pub(super) marks: Vec<Mark>,
    /// The groups, as `disk::shipping::operations` reads them.
    pub(super) groups: Vec<u8>,
}

impl Journal {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.marks.len() * MARK_BYTES + self.groups.len());
        out.extend_from_slice(&self.last.to_le_bytes());
        out.extend_from_slice(&(self.marks.len() as u32).to_le_bytes());
        for mark in &self.marks {
            out.extend_from_slice(&mark.time_ms.to_le_bytes());
            out.extend_from_slice(&mark.next.to_le_bytes());
        }
        out.extend_from_slice(&self.groups);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Journal> {
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let count = u32::from_le_bytes(head[8..].try_into().ok()?) as usize;
        let (marks, groups) = rest.split_at_checked(count.checked_mul(MARK_BYTES)?)?;
        let mark = |bytes: &[u8]| Some(Mark { time_ms: number(bytes, 0)?, next: number(bytes, 8)? });
        let marks = marks.chunks_exact(MARK_BYTES).map(mark).collect::<Option<Vec<_>>>()?;
        Some(Journal { last: number(head, 0)?, marks, groups: groups.to_vec() })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A row's key and its value.
type Row<'a> = (&'a [u8], &'a [u8]);

/// Appends a row to a part of a full piece.
pub(super) fn put_row(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    for part in [key, value] {
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// The rows of a part, in order; a final `None` if the bytes are no rows.
pub(super) fn rows_of(mut bytes: &[u8]) -> impl Iterator<Item = Option<Row<'_>>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let found = split_row(bytes);
        bytes = found.map_or(&[][..], |(_, rest)| rest);
        Some(found.map(|(row, _)| row))
    })
}

fn split_row(bytes: &[u8]) -> Option<(Row<'_>, &[u8])> {
    let (key, rest) = bytes.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_first_chunk::<4>()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value) as usize)?;
    Some(((key, value), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_sort_by_age_and_state_what_is_there() {
        let piece = Piece { first: 9, end: 16, time_ms: 1_700_000_000_123 };
        let name = piece.name("g");
        assert_eq!(name, "g/journal/0000000000000009-0000000000000010-1700000000123");
        assert_eq!(Piece::of_name(&name), Some(piece));
        assert!(before_group("g", 9) < name && name < before_group("g", 10));
        for wrong in ["", "g/journal/9", "g/journal/9-9-1", "g/journal/9-10-x", "g/journal/9-10-1-1"] {
            assert_eq!(Piece::of_name(wrong), None, "{wrong}");
        }
        assert_eq!(Full::of_name("g/full/1700000000123-00000000000000ff"), Some((1_700_000_000_123, 255)));
        assert_eq!(begun_ms("1700000000123-00ff"), Some(1_700_000_000_123));
        for object in [FileObject::Part { number: 2, of: 3 }, FileObject::Gone { time_ms: 1_700_000_000_123 }] {
            let name = object.name(0xa7, "a7f0");
            assert!(name.starts_with("files/a7/a7f0/"), "{name}");
            assert_eq!(FileObject::of_name(&name), Some(("a7f0", object)));
        }
        for wrong in ["", "files/a7/a7f0/000003-000003", "files/a7/a7f0/gone-", "files/a7/a7f0/1", "0-1"] {
            assert_eq!(FileObject::of_name(wrong), None, "{wrong}");
        }
        assert_eq!(settings_time_ms(&settings_name(1_700_000_000_123)), Some(1_700_000_000_123));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_other_bytes_are_refused(
            rows in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..9), prop::collection::vec(any::<u8>(), 0..9)), 0..5),
            marks in prop::collection::vec((any::<u64>(), any::<u64>()), 0..5),
            groups in prop::collection::vec(any::<u8>(), 0..30),
            odd in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut bytes = Vec::new();
            rows.iter().for_each(|(key, value)| put_row(&mut bytes, key, value));
            let read: Vec<_> = rows_of(&bytes).map(|row| row.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect();
            prop_assert_eq!(read, rows.into_iter().map(Some).collect::<Vec<_>>());
            let marks = marks.into_iter().map(|(time_ms, next)| Mark { time_ms, next }).collect();
            let journal = Journal { last: 3, marks, groups };
            prop_assert_eq!(Journal::decode(&journal.encode()), Some(journal));
            let _ = (Journal::decode(&odd), rows_of(&odd).count());
        }
    }
}

//! The format of a recording: records with a checksum each, and points for recovery after damage.
//!
//! ```text
//! file:     MAGIC, then parts
//! part:     SYNC record(schema) | SYNC record(segment) | record(sample) | record(mark)
//! record:   kind (1 byte) | length of the content (LEB128) | content
//!           | CRC-32C of all of these (4 bytes, little-endian)
//! schema:   the schema as JSON; its checksum is its name
//! segment:  name of its schema (4)
//!           | for each module: count of rows, their names (length, bytes; LEB128) | first sample
//! sample:   the next sample, coded (see `codec`)
//! mark:     wall clock in ms (8) | length of the kind (1) | kind | text
//! ```
//!
//! A file of the second version is a thinned one. Its segments have an extension, and there are two
//! kinds of samples:
//!
//! ```text
//! stretch:  a segment, with before the first sample: count of thinned modules, their indices (LEB128);
//!           these have an additional last row: `all`
//! sample:   as above, with all rows
//! thinned:  the next sample without the rows of thinned modules, except `all`
//! ```
//!
//! A segment depends only on its schema, which every file of the recording contains. This module
//! handles bytes, not files.

use std::sync::Arc;

use crate::codec::Codec;
use crate::schema::Schema;
use crate::table::Shape;

/// The first bytes of a file; the last digits are the version of the format.
pub const MAGIC: &[u8; 16] = b"throng-record 1\n";

/// The first bytes of a thinned file.
pub const MAGIC_THINNED: &[u8; 16] = b"throng-record 2\n";

/// The part after the first bytes of a file, if they are those of a recording.
pub(crate) fn behind_magic(file: &[u8]) -> Option<&[u8]> {
    file.strip_prefix(MAGIC).or_else(|| file.strip_prefix(MAGIC_THINNED))
}

/// Precedes each schema and segment: the point where a reader resumes after damage.
pub(crate) const SYNC: &[u8; 8] = b"\xd3\x1eTHRONG";

/// Most bytes of content in a record.
pub(crate) const CONTENT_MAX: usize = 4 << 20;

/// The kind of a record; no kind equals the first byte of SYNC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum RecordKind {
    Schema = 1,
    Segment = 2,
    Sample = 3,
    Mark = 4,
    Stretch = 5,
    Thinned = 6,
}

impl RecordKind {
    fn of(byte: u8) -> Option<RecordKind> {
        use RecordKind::{Mark, Sample, Schema, Segment, Stretch, Thinned};
        [Schema, Segment, Sample, Mark, Stretch, Thinned].into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether a SYNC precedes it: a reader can resume there.
    fn is_synced(self) -> bool {
        matches!(self, RecordKind::Schema | RecordKind::Segment | RecordKind::Stretch)
    }
}

/// An event among the samples.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Milliseconds since 1970 (UTC).
    pub wall_ms: u64,
    /// One word: `start`, `stop`, `gap`, `knob`.
    pub kind: String,
    /// A sentence.
    pub text: String,
}

impl Mark {
    /// A mark; a kind longer than 255 bytes and a text longer than 64 KiB are cut.
    pub fn new(wall_ms: u64, kind: &str, text: &str) -> Mark {
        let cut = |text: &str, max: usize| {
            let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
            text[..end.unwrap_or(0)].to_owned()
        };
        Mark { wall_ms, kind: cut(kind, 255), text: cut(text, 1 << 16) }
    }
}

/// The name of a schema: the checksum of its bytes.
pub(crate) fn name_of(schema: &[u8]) -> u32 {
    crc32c::crc32c(schema)
}

fn leb128(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number of at most five bytes from the front.
fn take_leb128(bytes: &mut &[u8]) -> Option<usize> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.split_off_first()?;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn record(kind: RecordKind, content: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.push(kind as u8);
    leb128(content.len(), out);
    out.extend_from_slice(content);
    let sum = crc32c::crc32c(&out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Appends a record of any kind and content, with its checksum and, if required, the SYNC.
#[cfg(feature = "testing")]
pub fn sealed(kind: u8, content: &[u8], out: &mut Vec<u8>) {
    let Some(kind) = RecordKind::of(kind) else { return };
    if kind.is_synced() {
        out.extend_from_slice(SYNC);
    }
    record(kind, content, out);
}

/// Writes records; reuses its buffers.
#[derive(Default)]
pub struct Pen {
    codec: Codec,
    content: Vec<u8>,
}

impl Pen {
    /// Appends the beginning of a file.
    pub fn head(&mut self, schema: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(SYNC);
        record(RecordKind::Schema, schema, out);
    }

    /// Appends the beginning of a thinned file.
    pub fn head_thinned(&mut self, schema: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC_THINNED);
        out.extend_from_slice(SYNC);
        record(RecordKind::Schema, schema, out);
    }

    /// Appends a sample that stands alone and begins a segment.
    pub fn segment(&mut self, schema: u32, shape: &Shape, values: &[u64], out: &mut Vec<u8>) {
        self.begin(schema, shape);
        self.codec.begin(&shape.growing());
        self.codec.encode(values, &mut self.content);
        out.extend_from_slice(SYNC);
        record(RecordKind::Segment, &self.content, out);
    }

    /// Begins with the schema and the names of rows.
    fn begin(&mut self, schema: u32, shape: &Shape) {
        let content = &mut self.content;
        content.clear();
        content.extend_from_slice(&schema.to_le_bytes());
        for rows in shape.rows() {
            leb128(rows.len(), content);
            for name in rows {
                leb128(name.len(), content);
                content.extend_from_slice(name.as_bytes());
            }
        }
    }

    /// The same for a stretch in which some modules are thinned: `shape` is without their rows
    /// `all`, and `whole`, the shape of the values, with them.
    pub(crate) fn stretch(
        &mut self,
        schema: u32,
        (shape, modules): (&Shape, &[usize]),
        (whole, values): (&Shape, &[u64]),
        out: &mut Vec<u8>,
    ) {
        self.begin(schema, shape);
        leb128(modules.len(), &mut self.content);
        modules.iter().for_each(|module| leb128(*module, &mut self.content));
        self.codec.begin(&whole.growing());
        self.codec.encode(values, &mut self.content);
        out.extend_from_slice(SYNC);
        record(RecordKind::Stretch, &self.content, out);
    }

    /// Appends the next sample of the stretch, with the values of some slots only.
    pub(crate) fn thinned(&mut self, kept: &[usize], values: &[u64], out: &mut Vec<u8>) {
        self.content.clear();
        self.codec.encode_some(kept, values, &mut self.content);
        record(RecordKind::Thinned, &self.content, out);
    }

    /// Appends the next sample of the segment.
    pub fn sample(&mut self, values: &[u64], out: &mut Vec<u8>) {
        self.content.clear();
        self.codec.encode(values, &mut self.content);
        record(RecordKind::Sample, &self.content, out);
    }

    /// Appends a mark.
    pub fn mark(&mut self, mark: &Mark, out: &mut Vec<u8>) {
        self.content.clear();
        self.content.extend_from_slice(&mark.wall_ms.to_le_bytes());
        self.content.push(mark.kind.len() as u8);
        self.content.extend_from_slice(mark.kind.as_bytes());
        self.content.extend_from_slice(mark.text.as_bytes());
        record(RecordKind::Mark, &self.content, out);
    }
}

/// The record at the front of `bytes`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Front<'a> {
    /// A complete record, and its size with the SYNC before it.
    Record(RecordKind, &'a [u8], usize),
    /// Possibly the beginning of a record.
    Short,
    /// Not a record, or its checksum differs.
    Wrong,
}

/// Parses the front of bytes.
pub(crate) fn front(bytes: &[u8]) -> Front<'_> {
    let synced = bytes.strip_prefix(SYNC);
    if synced.is_none() && SYNC.starts_with(bytes) {
        return Front::Short;
    }
    let whole = synced.unwrap_or(bytes);
    let Some(kind) = whole.first() else { return Front::Short };
    let Some(kind) = RecordKind::of(*kind) else { return Front::Wrong };
    // A reader resumes without the preceding records only at a SYNC.
    if synced.is_some() != kind.is_synced() {
        return Front::Wrong;
    }
    let mut rest = &whole[1..];
    let Some(length) = take_leb128(&mut rest) else {
        return if rest.is_empty() && whole.len() < 6 { Front::Short } else { Front::Wrong };
    };
    if length > CONTENT_MAX {
        return Front::Wrong;
    }
    let Some((content, sum)) = rest.split_at_checked(length) else { return Front::Short };
    let Some(sum) = sum.first_chunk() else { return Front::Short };
    let summed = whole.len() - rest.len() + length;
    if crc32c::crc32c(&whole[..summed]) != u32::from_le_bytes(*sum) {
        return Front::Wrong;
    }
    Front::Record(kind, content, bytes.len() - whole.len() + summed + sum.len())
}

/// Number of bytes before the next SYNC, at least `least`.
pub(crate) fn next_sync(bytes: &[u8], least: usize) -> Option<usize> {
    let behind = bytes.get(least..)?;
    behind.windows(SYNC.len()).position(|window| window == SYNC).map(|at| at + least)
}

/// Whether a complete record exists somewhere after the front, so that this is not the end.
/// Searches no further than a few samples.
pub(crate) fn any_behind(bytes: &[u8]) -> bool {
    const LOOK: usize = 4 << 10;
    const LONG: usize = 16 << 10;
    let windows = (1..bytes.len().min(LOOK)).map(|at| &bytes[at..bytes.len().min(at + LONG)]);
    windows.into_iter().any(|window| matches!(front(window), Front::Record(..)))
}

/// The name of a segment's schema, and what stands behind it.
pub(crate) fn segment_schema(content: &[u8]) -> Option<(u32, &[u8])> {
    let (name, rest) = content.split_first_chunk()?;
    Some((u32::from_le_bytes(*name), rest))
}

/// The shape of a segment, and the first sample behind it.
///
/// # Errors
/// What does not fit.
pub(crate) fn segment_shape<'a>(schema: &Arc<Schema>, content: &'a [u8]) -> Result<(Shape, &'a [u8]), String> {
    let mut rest = content;
    let short = || "names are cut off".to_owned();
    let mut rows = Vec::with_capacity(schema.modules.len());
    for _ in &schema.modules {
        let count = take_leb128(&mut rest).filter(|count| *count <= rest.len()).ok_or_else(short)?;
        let mut names = Vec::with_capacity(count);
        for _ in 0..count {
            let length = take_leb128(&mut rest).ok_or_else(short)?;
            let name = rest.split_off(..length).ok_or_else(short)?;
            names.push(str::from_utf8(name).map_err(|error| error.to_string())?.to_owned());
        }
        rows.push(names);
    }
    Ok((Shape::new(schema.clone(), rows)?, rest))
}

/// What stands behind the names of a stretch: the places of the modules that are thinned, and the
/// first sample.
pub(crate) fn thinned_modules(content: &[u8]) -> Option<(Vec<usize>, &[u8])> {
    let mut rest = content;
    let count = take_leb128(&mut rest).filter(|count| *count <= rest.len())?;
    let modules: Vec<usize> = (0..count).map(|_| take_leb128(&mut rest)).collect::<Option<_>>()?;
    modules.is_sorted_by(|a, b| a < b).then_some((modules, rest))
}

/// A mark from its content.
pub(crate) fn mark(content: &[u8]) -> Option<Mark> {
    let (wall_ms, rest) = content.split_first_chunk()?;
    let (length, rest) = rest.split_first()?;
    let (kind, text) = rest.split_at_checked(usize::from(*length))?;
    let owned = |bytes| str::from_utf8(bytes).ok().map(str::to_owned);
    Some(Mark { wall_ms: u64::from_le_bytes(*wall_ms), kind: owned(kind)?, text: owned(text)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_cut_between_letters() {
        let long = Mark::new(1, &"é".repeat(200), &"é".repeat(1 << 16));
        assert_eq!((long.kind.len(), long.text.len()), (254, 1 << 16));
        let mut bytes = Vec::new();
        Pen::default().mark(&long, &mut bytes);
        let Front::Record(RecordKind::Mark, content, length) = front(&bytes) else { panic!("a mark") };
        assert_eq!((mark(content), length), (Some(long), bytes.len()));
    }
}

//! Decodes the bytes of a recording into samples and marks, and recovers after damage.
//!
//! A record whose checksum differs ends its segment: everything up to the next schema or segment is
//! skipped, and its size is reported. No input can cause more harm than that.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::codec::Codec;
use crate::record::{self, Front, MAGIC, MAGIC_THINNED, Mark, RecordKind};
use crate::schema::Schema;
use crate::table::{Sample, Shape};

/// An item of a recording, in order.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// A sample.
    Sample(Sample),
    /// An event.
    Mark(Mark),
    /// Bytes that could not be decoded.
    Damage(Damage),
}

/// Why bytes could not be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// The content of a record was changed.
    Changed,
    /// A record is truncated: the recorder was killed, the machine lost power, or the file was cut.
    CutOff,
    /// The file does not begin like a recording.
    NoRecording,
    /// The version of the format is unknown.
    OtherForm,
    /// The schema is damaged, and no other file has it.
    SchemaLost,
    /// A record is intact, but its content is invalid.
    Senseless,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Changed => "a record is not as it was written (its checksum differs)",
            Why::CutOff => "the last record is cut off (the recorder was killed there, or the file was cut)",
            Why::NoRecording => "this is not a recording",
            Why::OtherForm => {
                "the recording is of another form than this program knows; read it with the one that made it"
            }
            Why::SchemaLost => "the description of its fields is damaged, and no other file has it",
            Why::Senseless => "a record is whole but makes no sense; please report this",
        })
    }
}

/// Bytes that were skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Their offset in the file.
    pub offset: u64,
    /// Their number.
    pub bytes: u64,
    /// The reason.
    pub why: Why,
}

/// Decodes recordings; remembers the schemas read so far.
#[derive(Default)]
pub struct Decoder {
    schemas: BTreeMap<u32, Arc<Schema>>,
    shape: Option<Arc<Shape>>,
    /// In a thinned stretch, the shape of thinned samples, and their slots among those of whole
    /// ones.
    thin: Option<(Arc<Shape>, Vec<usize>)>,
    codec: Codec,
    /// Number of files begun.
    run: u32,
    /// Set after damage, until the next SYNC.
    lost: Option<Why>,
}

impl Decoder {
    /// Reads the schema from the beginning of a file, if it is there.
    pub fn learn(&mut self, head: &[u8]) -> Option<Arc<Schema>> {
        match record::front(record::behind_magic(head)?) {
            Front::Record(RecordKind::Schema, content, _) => self.schema(content),
            _ => None,
        }
    }

    fn schema(&mut self, content: &[u8]) -> Option<Arc<Schema>> {
        let name = record::name_of(content);
        if let Some(known) = self.schemas.get(&name) {
            return Some(known.clone());
        }
        let schema = Arc::new(Schema::from_bytes(content).ok()?);
        self.schemas.insert(name, schema.clone());
        Some(schema)
    }

    /// Prepares for another file.
    pub fn restart(&mut self) {
        (self.shape, self.thin, self.lost) = (None, None, None);
        self.run = self.run.wrapping_add(1);
    }

    /// The next item of a file whose whole content is in `bytes`, at offset `at`, which is
    /// advanced. `None` at the end. An incomplete record is damage if the file is `whole`, and
    /// otherwise left for later.
    pub fn next(&mut self, bytes: &[u8], at: &mut usize, whole: bool) -> Option<Item> {
        loop {
            let rest = &bytes[*at..];
            if rest.is_empty() {
                return None;
            }
            if let Some(why) = self.lost {
                let Some(item) = self.find(bytes, at, 0, why, whole) else { continue };
                return item;
            }
            if *at == 0 {
                if record::behind_magic(rest).is_some() {
                    *at = MAGIC.len();
                    continue;
                }
                let begins = MAGIC.starts_with(rest) || MAGIC_THINNED.starts_with(rest);
                if begins && !whole {
                    return None;
                }
                let form = MAGIC.iter().position(|byte| *byte == b' ').expect("a form") + 1;
                let why = match () {
                    () if begins => Why::CutOff,
                    () if rest.starts_with(&MAGIC[..form]) => Why::OtherForm,
                    () => Why::NoRecording,
                };
                return self.skip(bytes, at, why, whole);
            }
            let (kind, content, length) = match record::front(rest) {
                Front::Record(kind, content, length) => (kind, content, length),
                Front::Wrong => return self.skip(bytes, at, Why::Changed, whole),
                // A changed length may point beyond the end as well.
                Front::Short if record::next_sync(rest, 1).is_some() => {
                    return self.skip(bytes, at, Why::Changed, whole);
                }
                Front::Short if whole => {
                    let why = if record::any_behind(rest) { Why::Changed } else { Why::CutOff };
                    return self.skip(bytes, at, why, whole);
                }
                Front::Short => return None,
            };
            match self.record(kind, content) {
                Ok(item) => {
                    *at += length;
                    if item.is_some() {
                        return item;
                    }
                }
                Err(why) => return self.skip(bytes, at, why, whole),
            }
        }
    }

    fn skip(&mut self, bytes: &[u8], at: &mut usize, why: Why, whole: bool) -> Option<Item> {
        (self.shape, self.thin) = (None, None);
        self.find(bytes, at, 1, why, whole).flatten()
    }

    /// Advances to the next SYNC, at least `least` bytes ahead, or as far as there is none. Returns
    /// the skipped bytes as an item; nothing if the SYNC is at the current position.
    fn find(&mut self, bytes: &[u8], at: &mut usize, least: usize, why: Why, whole: bool) -> Option<Option<Item>> {
        let (offset, rest) = (*at, &bytes[*at..]);
        let (skipped, found) = match record::next_sync(rest, least) {
            Some(ahead) => (ahead, true),
            None if whole => (rest.len(), true),
            // Its beginning may be there already.
            None => ((rest.len() + 1).saturating_sub(record::SYNC.len()).max(least), false),
        };
        *at += skipped;
        self.lost = if found { None } else { Some(why) };
        let damage = Item::Damage(Damage { offset: offset as u64, bytes: skipped as u64, why });
        match (skipped, found) {
            (0, true) => None,
            (0, false) => Some(None),
            _ => Some(Some(damage)),
        }
    }

    fn record(&mut self, kind: RecordKind, content: &[u8]) -> Result<Option<Item>, Why> {
        let (shape, coded) = match kind {
            RecordKind::Schema => return self.schema(content).map(|_| None).ok_or(Why::Senseless),
            RecordKind::Mark => return record::mark(content).map(|mark| Some(Item::Mark(mark))).ok_or(Why::Senseless),
            RecordKind::Segment | RecordKind::Stretch => {
                let (name, rest) = record::segment_schema(content).ok_or(Why::Senseless)?;
                let schema = self.schemas.get(&name).ok_or(Why::SchemaLost)?;
                let (mut shape, mut coded) = record::segment_shape(schema, rest).map_err(|_| Why::Senseless)?;
                self.thin = None;
                if kind == RecordKind::Stretch {
                    let (modules, rest) = record::thinned_modules(coded).ok_or(Why::Senseless)?;
                    let (whole, thin) = shape.thinned(&modules, self.run).map_err(|_| Why::Senseless)?;
                    self.thin = Some((Arc::new(thin), whole.kept()));
                    (shape, coded) = (whole, rest);
                }
                self.codec.begin(&shape.growing());
                (self.shape.insert(Arc::new(shape)), coded)
            }
            RecordKind::Thinned => {
                let (shape, kept) = self.thin.as_ref().ok_or(Why::Senseless)?;
                let mut values = vec![0; shape.slots()];
                self.codec.decode_some(kept, content, &mut values);
                return Ok(Some(Item::Sample(Sample { shape: shape.clone(), values })));
            }
            RecordKind::Sample => (self.shape.as_mut().ok_or(Why::Senseless)?, content),
        };
        let mut values = vec![0; shape.slots()];
        self.codec.decode(coded, &mut values);
        Ok(Some(Item::Sample(Sample { shape: shape.clone(), values })))
    }
}

/// All items of a file that is no longer written.
pub fn items(bytes: &[u8]) -> Vec<Item> {
    let (mut decoder, mut at) = (Decoder::default(), 0);
    std::iter::from_fn(|| decoder.next(bytes, &mut at, true)).collect()
}

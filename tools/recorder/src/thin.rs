//! Thins old seconds: for modules with many rows that form a whole, keeps the total each second,
//! and each row in every tenth sample.
//!
//! ```text
//! file as recorded -> read -> Thinner -> file of the second version (`record`),
//!                                        a fifth of the size with 64 shards
//! ```
//!
//! All other modules keep every second, and marks stay. Counters are exact over the ten samples,
//! and the row `all` is exact in each. The first and the last sample of a file, and of a set of
//! rows, stay whole, so that the growth between files is known by row. The work is done in slices
//! of a few samples. This module reads an open file, and never knows the destination of its output.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use crate::read::{Decoder, Item};
use crate::record::{self, Mark, Pen};
use crate::schema::Schema;
use crate::table::{ALL, CLOCKS, Sample, Shape};
use crate::total::Total;

/// Modules with at most this many rows stay unchanged.
pub const ROWS_FULL_MAX: usize = 16;

/// Every one in this many samples stays whole.
pub const WHOLE_SAMPLES: u64 = 10;

/// Samples per segment: more than in recordings, because the first sample of a segment is large
/// compared to the others.
const SEGMENT_SAMPLES: u32 = 900;

/// Bytes read from a file at once.
const READ_BYTES: u64 = 64 << 10;

/// Modules whose rows can be left out, by their indices.
fn modules(shape: &Shape) -> Vec<usize> {
    let many = |at: &usize| {
        let rows = &shape.rows()[*at];
        let is_free = || rows.iter().all(|name| name != ALL);
        shape.schema().modules[*at].adds_up && rows.len() > ROWS_FULL_MAX && is_free()
    };
    (0..shape.rows().len()).filter(many).collect()
}

/// Whether thinning makes samples of this shape smaller.
pub fn thins(shape: &Shape) -> bool {
    !modules(shape).is_empty()
}

/// The stretch being written: one set of rows.
struct Stretch {
    modules: Vec<usize>,
    /// Slots of a whole sample that a thinned one has, too.
    kept: Vec<usize>,
    samples: u32,
    /// When the last whole sample was taken, in tens of samples.
    whole_at: u64,
}

/// Converts recorded items, in order, to the records of a thinned file.
#[derive(Default)]
pub struct Thinner {
    pen: Pen,
    schema: Option<(Arc<Schema>, u32)>,
    stretch: Option<Stretch>,
    /// The totals of modules that form a whole.
    totals: Vec<Total>,
    /// The last sample that was written.
    last: Option<Sample>,
    /// The next sample, which may be the last of the file, and the marks after it.
    held: Option<Sample>,
    marks: Vec<Mark>,
    values: Vec<u64>,
    samples: u64,
    thinned: u64,
}

impl Thinner {
    /// Takes an item, and appends completed output. Damage becomes a mark.
    ///
    /// # Errors
    /// It belongs to another recording than those before it.
    pub fn take(&mut self, item: Item, out: &mut Vec<u8>) -> io::Result<()> {
        match item {
            Item::Sample(sample) => return self.sample(sample, out),
            Item::Mark(mark) => self.marks.push(mark),
            Item::Damage(damage) => {
                let wall_ms = self.held.as_ref().map_or(0, Sample::wall_ms);
                let text = format!("{} bytes were lost before they were thinned: {}", damage.bytes, damage.why);
                self.marks.push(Mark::new(wall_ms, "damage", &text));
            }
        }
        Ok(())
    }

    /// Appends the rest.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.write_held(true, out);
    }

    /// Number of samples written, and of those without all rows.
    pub fn samples(&self) -> (u64, u64) {
        (self.samples, self.thinned)
    }

    fn sample(&mut self, sample: Sample, out: &mut Vec<u8>) -> io::Result<()> {
        let schema = sample.shape.schema();
        match &self.schema {
            Some((known, _)) if known == schema => {}
            Some(_) => return Err(io::Error::other("two recordings are in one file")),
            None => {
                let bytes = schema.to_bytes();
                self.pen.head_thinned(&bytes, out);
                self.schema = Some((schema.clone(), record::name_of(&bytes)));
                let wholes = (0..schema.modules.len()).filter(|at| schema.modules[*at].adds_up);
                self.totals = wholes.map(|at| Total::new(schema, at, 0)).collect();
                // Damage before the first sample.
                self.marks.iter_mut().for_each(|mark| mark.wall_ms = mark.wall_ms.max(sample.wall_ms()));
            }
        }
        let same = |held: &Sample| Arc::ptr_eq(&held.shape, &sample.shape) || held.shape.rows() == sample.shape.rows();
        self.write_held(!self.held.as_ref().is_some_and(same), out);
        self.held = Some(sample);
        Ok(())
    }

    /// Writes the held sample, which may be the last with its rows, and the marks after it.
    fn write_held(&mut self, is_last: bool, out: &mut Vec<u8>) {
        if let Some(sample) = self.held.take() {
            self.write(sample, is_last, out);
        }
        for mark in self.marks.drain(..) {
            self.pen.mark(&mark, out);
        }
    }

    fn write(&mut self, sample: Sample, is_last: bool, out: &mut Vec<u8>) {
        let Some((schema, name)) = &self.schema else { return };
        self.totals.iter_mut().for_each(|total| total.take(self.last.as_ref(), &sample));
        let whole_at = sample.wall_ms() / schema.origin.interval_ms.saturating_mul(WHOLE_SAMPLES).max(1);
        match self.stretch.take().filter(|stretch| stretch.samples < SEGMENT_SAMPLES) {
            Some(mut stretch) => {
                let is_whole = is_last || stretch.whole_at != whole_at || stretch.modules.is_empty();
                self.fill(&sample, &stretch.modules, is_whole);
                if is_whole {
                    self.pen.sample(&self.values, out);
                } else {
                    self.pen.thinned(&stretch.kept, &self.values, out);
                    self.thinned += 1;
                }
                (stretch.whole_at, stretch.samples) = (whole_at, stretch.samples + 1);
                self.stretch = Some(stretch).filter(|_| !is_last);
            }
            None => {
                let (name, shape, modules) = (*name, &sample.shape, modules(&sample.shape));
                // Without room for additional rows, nothing is thinned.
                let (modules, whole) = match shape.thinned(&modules, 0) {
                    Ok((whole, _)) => (modules, whole),
                    Err(_) => (Vec::new(), Shape::clone(shape)),
                };
                self.fill(&sample, &modules, true);
                self.pen.stretch(name, (shape, &modules), (&whole, &self.values), out);
                let stretch = Stretch { modules, kept: whole.kept(), samples: 1, whole_at };
                self.stretch = Some(stretch).filter(|_| !is_last);
            }
        }
        self.samples += 1;
        self.last = Some(sample);
    }

    /// The numbers of a sample with the rows `all`, and without the other rows of thinned modules
    /// if it is not whole.
    fn fill(&mut self, sample: &Sample, thinned: &[usize], is_whole: bool) {
        let (shape, values) = (&sample.shape, &mut self.values);
        values.clear();
        values.extend_from_slice(&sample.values[..CLOCKS]);
        for (module, rows) in shape.rows().iter().enumerate() {
            let is_thinned = thinned.contains(&module);
            if is_whole || !is_thinned {
                values.extend_from_slice(&sample.values[shape.row_at(module, 0)..shape.row_at(module, rows.len())]);
            }
            if is_thinned {
                let total = self.totals.iter().find(|total| total.module() == module);
                values.extend_from_slice(total.expect("it makes a whole").row());
            }
        }
    }
}

/// The thinning of one file, slice by slice.
pub struct Job {
    file: File,
    decoder: Decoder,
    /// The bytes read, and the number of them decoded.
    bytes: Vec<u8>,
    done: usize,
    whole: bool,
    thinner: Thinner,
    /// Output that was not yet taken.
    pub out: Vec<u8>,
}

impl Job {
    /// For a file that is no longer written.
    pub fn new(file: File) -> Job {
        let (decoder, thinner) = (Decoder::default(), Thinner::default());
        Job { file, decoder, bytes: Vec::new(), done: 0, whole: false, thinner, out: Vec::new() }
    }

    /// Continues by this many samples. Returns false at the end.
    ///
    /// # Errors
    /// The file cannot be read or thinned.
    pub fn step(&mut self, samples: u32) -> io::Result<bool> {
        let mut left = samples;
        while left > 0 {
            match self.decoder.next(&self.bytes, &mut self.done, self.whole) {
                Some(item) => {
                    left -= u32::from(matches!(item, Item::Sample(_)));
                    self.thinner.take(item, &mut self.out)?;
                }
                None if self.whole => {
                    self.thinner.finish(&mut self.out);
                    return Ok(false);
                }
                None => self.read()?,
            }
        }
        Ok(true)
    }

    fn read(&mut self) -> io::Result<()> {
        // All but one byte: the decoder takes the first byte of a file for its beginning.
        if self.done > 1 {
            self.bytes.drain(1..self.done);
            self.done = 1;
        }
        self.whole = self.file.by_ref().take(READ_BYTES).read_to_end(&mut self.bytes)? == 0;
        Ok(())
    }

    /// Number of samples written, and of those without all rows.
    pub fn samples(&self) -> (u64, u64) {
        self.thinner.samples()
    }
}

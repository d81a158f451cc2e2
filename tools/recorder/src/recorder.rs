//! Takes samples from sources, and passes them to the window in memory and to the ring of files.
//! Time is an argument.
//!
//! Failures of the ring never end a recording: it continues in memory, retries every ten seconds,
//! and adds a mark where seconds are missing. After each sample, a slice of an old file is thinned
//! if the ring needs it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::record::{self, Mark, Pen};
use crate::ring::Ring;
use crate::schema::{Origin, Schema};
use crate::table::{Sample, Shape, Source, Table};
use crate::thin::{self, Job};
use crate::window::{Place, Window};

/// Samples per segment: the most that damage can destroy.
pub const SEGMENT_SAMPLES: u32 = 180;

/// Interval, in samples, at which new rows are accepted and a failed ring is retried.
const SETTLE_SAMPLES: u64 = 10;

/// Samples thinned per tick: files are thinned when room is short, twice as fast as they grow.
const THIN_SAMPLES: u32 = 2;

/// A file without removable rows in this many samples is left unchanged.
const THIN_LOOK_SAMPLES: u64 = 64;

/// Ticks after which failed thinning is retried.
const THIN_AGAIN_TICKS: u64 = 600;

/// Sources and the rows that they fill.
pub struct Sampler {
    sources: Vec<(Box<dyn Source>, usize)>,
    tables: Vec<Table>,
    shape: Arc<Shape>,
    values: Vec<u64>,
    taken: u64,
}

impl Sampler {
    /// Uses these sources, in the order of their modules.
    ///
    /// # Panics
    /// Two modules have the same name, or fields contradict each other: a fault of a source.
    pub fn new(origin: Origin, sources: Vec<Box<dyn Source>>) -> Sampler {
        let (mut counted, mut modules) = (Vec::new(), Vec::new());
        for source in sources {
            let own = source.modules();
            counted.push((source, own.len()));
            modules.extend(own);
        }
        let tables: Vec<Table> = modules.iter().map(Table::new).collect();
        let schema = Schema { origin, modules };
        if let Err(wrong) = schema.check() {
            panic!("the sources give {wrong}");
        }
        let shape = Arc::new(shape(&Arc::new(schema), &tables));
        Sampler { sources: counted, tables, shape, values: Vec::new(), taken: 0 }
    }

    /// Samples all sources. Returns whether the shape has changed.
    pub fn sample(&mut self, wall_ms: u64, monotonic_us: u64) -> bool {
        let open = self.taken.is_multiple_of(SETTLE_SAMPLES) || self.taken < 2;
        self.taken += 1;
        let (mut first, mut changed) = (0, false);
        for (source, count) in &mut self.sources {
            let tables = &mut self.tables[first..first + *count];
            tables.iter_mut().for_each(|table| table.begin(open));
            source.sample(tables);
            first += *count;
        }
        self.values.clear();
        self.values.extend([wall_ms, monotonic_us]);
        for table in &mut self.tables {
            self.values.extend_from_slice(table.values());
            changed |= table.take_changed();
        }
        if changed {
            self.shape = Arc::new(shape(self.shape.schema(), &self.tables));
        }
        changed
    }

    /// The shape of the last sample.
    pub fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// The numbers of the last sample.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// A copy of the last sample.
    pub fn last(&self) -> Sample {
        Sample { shape: self.shape.clone(), values: self.values.clone() }
    }
}

fn shape(schema: &Arc<Schema>, tables: &[Table]) -> Shape {
    let rows = tables.iter().map(|table| table.names().to_vec()).collect();
    Shape::new(schema.clone(), rows).expect("bounded by the rows of each module")
}

/// Access to a running recorder for other threads.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Mutex<Window>>);

impl Handle {
    fn window(&self) -> MutexGuard<'_, Window> {
        // Every method leaves a window consistent after each statement.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event with the next sample.
    pub fn mark(&self, wall_ms: u64, kind: &str, text: &str) {
        self.window().mark(Mark::new(wall_ms, kind, text));
    }

    /// Memory used for the last minutes, bytes.
    pub fn memory_bytes(&self) -> usize {
        self.window().bytes()
    }

    /// The last minutes as a file, for [`crate::read::Decoder`].
    pub fn recent(&self) -> Vec<u8> {
        self.window().file()
    }

    /// The same from shortly before a moment on, in milliseconds since 1970 (UTC); `None` if that
    /// is no longer held.
    pub fn since(&self, since_ms: u64) -> Option<Vec<u8>> {
        self.window().since(since_ms)
    }

    /// The last minutes from shortly before a moment on, or all of them, and the position of their
    /// end, from which [`Handle::after`] continues. `None` while nothing was recorded.
    pub fn since_to_end(&self, since_ms: u64) -> Option<(Vec<u8>, Place)> {
        let window = self.window();
        Some((window.since(since_ms).unwrap_or_else(|| window.file()), window.end()?))
    }

    /// The data after a position, and the new end; `None` if the position is no longer held.
    pub fn after(&self, place: Place) -> Option<(Vec<u8>, Place)> {
        self.window().after(place)
    }
}

/// An event for an operator.
#[derive(Debug)]
pub enum Event {
    /// Samples are in memory only, for now.
    GapBegan(io::Error),
    /// Samples are written again; this many are missing.
    GapEnded(u64),
    /// The ring holds this many hours, less than a day, at full detail.
    Short {
        /// Number of hours.
        hours: f64,
        /// Whether older data is thinned, so that the ring holds more of it.
        thins: bool,
    },
}

/// Seconds that are missing in the ring.
struct Gap {
    since_ms: u64,
    samples: u64,
    why: String,
}

/// A recorder: [`Recorder::tick`] is called once per sample.
pub struct Recorder {
    sampler: Sampler,
    pen: Pen,
    head: Vec<u8>,
    schema: u32,
    in_segment: u32,
    ticks: u64,
    records: Vec<u8>,
    window: Handle,
    ring: Option<Ring>,
    gap: Option<Gap>,
    /// Size of the current segment in bytes; `None` once its rate was judged.
    judged: Option<u64>,
    /// The file being thinned.
    thinning: Option<Job>,
    /// The tick from which the next thinning may begin.
    thin_from: u64,
    /// The time that determines the age of files, in milliseconds since 1970 (UTC); the wall clock
    /// if unset.
    expiry_ms: Option<Box<dyn FnMut() -> u64 + Send>>,
}

impl Recorder {
    /// Records from a sampler, into a window of this size and a ring if given.
    pub fn new(sampler: Sampler, window_bytes_max: usize, ring: Option<Ring>) -> Recorder {
        let (mut pen, mut head) = (Pen::default(), Vec::new());
        let schema = sampler.shape().schema().to_bytes();
        pen.head(&schema, &mut head);
        let window = Handle(Arc::new(Mutex::new(Window::new(head.clone(), window_bytes_max))));
        let schema = record::name_of(&schema);
        let (in_segment, ticks, records) = (0, 0, Vec::new());
        Recorder {
            sampler,
            pen,
            head,
            schema,
            in_segment,
            ticks,
            records,
            window,
            ring,
            gap: None,
            judged: Some(0),
            thinning: None,
            thin_from: 0,
            expiry_ms: None,
        }
    }

    /// For readers during the recording.
    pub fn handle(&self) -> Handle {
        self.window.clone()
    }

    /// Makes the age of files depend on this time, in milliseconds since 1970 (UTC), instead of the
    /// wall clock.
    pub fn ages_by(&mut self, expiry_ms: impl FnMut() -> u64 + Send + 'static) {
        self.expiry_ms = Some(Box::new(expiry_ms));
    }

    /// Takes and stores a sample.
    pub fn tick(&mut self, wall_ms: u64, monotonic_us: u64) -> Option<Event> {
        let event = self.record(wall_ms, monotonic_us);
        let expiry_ms = self.expiry_ms.as_mut().map_or(wall_ms, |expiry_ms| expiry_ms());
        if let Err(error) = self.thin(expiry_ms) {
            // The oldest files are removed at full detail, as without thinning.
            self.window.mark(wall_ms, "thin", &format!("old seconds could not be thinned: {error}"));
            self.thin_from = self.ticks + THIN_AGAIN_TICKS;
            self.give_up_thinning();
        }
        event
    }

    fn record(&mut self, wall_ms: u64, monotonic_us: u64) -> Option<Event> {
        if self.ticks == 0 {
            let origin = &self.sampler.shape().schema().origin;
            let text =
                format!("{}, process {}, host {}, boot {}", origin.program, origin.pid, origin.host, origin.boot);
            self.window.mark(wall_ms, "start", &text);
        }
        let changed = self.sampler.sample(wall_ms, monotonic_us);
        let short = if self.in_segment >= SEGMENT_SAMPLES { self.judge() } else { None };
        let retries = self.gap.as_ref().is_some_and(|gap| gap.samples.is_multiple_of(SETTLE_SAMPLES));
        let begins = self.ticks == 0 || changed || retries || self.in_segment >= SEGMENT_SAMPLES;
        let writes = self.gap.is_none() || retries;
        self.ticks += 1;
        let ready = if begins && writes { self.next_file(wall_ms) } else { Ok(()) };

        self.records.clear();
        let mut window = self.window.window();
        if let Some(gap) = self.gap.as_ref().filter(|_| retries && ready.is_ok()) {
            let text = format!("{} samples were not written: {}", gap.samples, gap.why);
            self.pen.mark(&Mark::new(gap.since_ms, "gap", &text), &mut self.records);
        }
        while let Some(mark) = window.take_mark() {
            self.pen.mark(&mark, &mut self.records);
        }
        if begins {
            self.pen.segment(self.schema, self.sampler.shape(), self.sampler.values(), &mut self.records);
            self.in_segment = 0;
            self.judged = self.judged.map(|_| 0);
        } else {
            self.pen.sample(self.sampler.values(), &mut self.records);
        }
        self.in_segment += 1;
        self.judged = self.judged.map(|bytes| bytes + self.records.len() as u64);
        window.push(wall_ms, begins, &self.records);
        drop(window);

        let ring = self.ring.as_mut()?;
        let written = match writes {
            true => ready.and_then(|()| ring.append(&self.records)),
            false => Ok(()),
        };
        match (written, &mut self.gap) {
            (Ok(()), None) => short,
            (Ok(()), Some(gap)) if writes => {
                let samples = gap.samples;
                self.gap = None;
                Some(Event::GapEnded(samples))
            }
            (_, Some(gap)) => {
                gap.samples += 1;
                None
            }
            (Err(error), None) => {
                let text = format!("goes on in memory only: {error}");
                self.window.mark(wall_ms, "disk", &text);
                self.gap = Some(Gap { since_ms: wall_ms, samples: 1, why: error.to_string() });
                Some(Event::GapBegan(error))
            }
        }
    }

    /// Thins a slice of the current file, or begins one.
    fn thin(&mut self, wall_ms: u64) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let Some(job) = self.thinning.as_mut().filter(|_| ring.is_thinning()) else {
            let may_begin = self.gap.is_none() && self.ticks >= self.thin_from;
            self.thinning = if may_begin { ring.begin_thinning(wall_ms)?.map(Job::new) } else { None };
            return Ok(());
        };
        let Ok(goes_on) = job.step(THIN_SAMPLES) else {
            ring.leave_unthinned();
            return Ok(());
        };
        ring.append_thinned(&job.out)?;
        job.out.clear();
        // A file without removable rows is not read to its end.
        if let (THIN_LOOK_SAMPLES.., 0) = job.samples() {
            ring.leave_unthinned();
        }
        if !goes_on {
            ring.end_thinning()?;
        }
        Ok(())
    }

    fn give_up_thinning(&mut self) {
        self.thinning = None;
        if let Some(ring) = &mut self.ring {
            ring.give_up_thinning();
        }
    }

    /// After the first complete segment: the hours that the ring will hold, if less than a day.
    fn judge(&mut self) -> Option<Event> {
        let bytes = self.judged.take()?;
        let segments = self.ring.as_ref()?.bytes_max() as f64 / bytes.max(1) as f64;
        let interval_ms = self.sampler.shape().schema().origin.interval_ms as f64;
        let hours = segments * f64::from(SEGMENT_SAMPLES) * interval_ms / 3_600_000.0;
        let thins = thin::thins(self.sampler.shape());
        (hours < 24.0).then_some(Event::Short { hours, thins })
    }

    /// Before a segment: syncs written data, and begins another file if the current one is full.
    fn next_file(&mut self, wall_ms: u64) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        if ring.is_full() {
            return ring.begin(wall_ms, &self.head);
        }
        ring.sync();
        Ok(())
    }

    /// Records the end and syncs everything.
    pub fn stop(&mut self, wall_ms: u64) {
        self.give_up_thinning();
        let mut records = Vec::new();
        self.pen.mark(&Mark::new(wall_ms, "stop", "recording ended"), &mut records);
        if let (Some(ring), None) = (&mut self.ring, &self.gap) {
            // Only the final mark; its absence has the same meaning.
            let _ = ring.append(&records);
            ring.end();
        }
    }

    /// The ring, if there is one.
    pub fn ring(&self) -> Option<&Ring> {
        self.ring.as_ref()
    }

    /// The sampler.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }
}

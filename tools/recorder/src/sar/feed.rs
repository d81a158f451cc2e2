//! Sources of samples: files, followed or not, local or remote (`place`). The current host is in
//! `host`.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::Failure;
use super::place::{FILE_BYTES_MAX, Folder, Had, Place};
use crate::clock::Stop;
use crate::read::{Damage, Decoder, Item};
use crate::record::Mark;
use crate::ring::Part;
use crate::schema::Schema;
use crate::table::Sample;

/// An item from a feed.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// A sample.
    Sample(Sample),
    /// An event.
    Mark(Mark),
    /// Data of a file that could not be read.
    Damage(PathBuf, Damage),
    /// Nothing further for now: previous items may be shown.
    Waiting,
}

/// Yields samples in order of time.
pub trait Feed {
    /// The next item; `None` at the end.
    ///
    /// # Errors
    /// Nothing can be read any more.
    fn next(&mut self) -> Result<Option<Said>, Failure>;

    /// A schema of the coming samples, without consuming any.
    ///
    /// # Errors
    /// There is none.
    fn schema(&mut self) -> Result<Arc<Schema>, Failure>;
}

/// For a stream, consumed bytes are dropped when they reach this size.
const READ_BYTES_MAX: usize = 256 << 10;

/// The files of a folder, or one file, local or remote.
pub struct Files {
    place: Rc<dyn Place>,
    parts: Vec<Part>,
    /// The current file, its bytes, and the number of them decoded.
    at: usize,
    bytes: Vec<u8>,
    done: usize,
    decoder: Decoder,
    /// The schema of the first file that had one.
    schema: Option<Arc<Schema>>,
    /// Time of the last sample returned; older ones were returned before their file was replaced.
    told_ms: u64,
    again: bool,
    /// Whether the current file is complete.
    whole: bool,
    /// Whether `Waiting` was returned.
    waits: bool,
    /// Waits for more until this is set.
    stop: Option<Arc<Stop>>,
}

impl Files {
    /// The files of a folder from the one that contains `since_ms`, or one file; with `stop`, they
    /// are followed as they grow.
    ///
    /// # Errors
    /// There is no recording.
    pub fn open(from: &Path, since_ms: u64, stop: Option<Arc<Stop>>) -> Result<Files, Failure> {
        Files::at(Rc::new(Folder::new(from.into())), since_ms, stop)
    }

    /// The same for any place.
    ///
    /// # Errors
    /// There is no recording.
    pub fn at(place: Rc<dyn Place>, since_ms: u64, stop: Option<Arc<Stop>>) -> Result<Files, Failure> {
        let parts = place.parts()?;
        if parts.is_empty() {
            let name = place.name();
            return Err(Failure::Failed(format!(
                "{name}: no recording is there; make one with: throng sar record --folder {name}"
            )));
        }
        Files::of(place, parts, since_ms, stop)
    }

    fn of(place: Rc<dyn Place>, parts: Vec<Part>, since_ms: u64, stop: Option<Arc<Stop>>) -> Result<Files, Failure> {
        let begun = |part: &Part| u64::try_from(part.begun_s).unwrap_or(0) * 1000;
        let at = parts.iter().rposition(|part| begun(part) <= since_ms).unwrap_or(0);
        let mut files = Files {
            place,
            parts,
            at,
            bytes: Vec::new(),
            done: 0,
            decoder: Decoder::default(),
            schema: None,
            told_ms: 0,
            again: false,
            whole: stop.is_none(),
            waits: false,
            stop,
        };
        files.load()?;
        Ok(files)
    }

    /// The end of the recording: its last sample, or else the beginning of its first file.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn end_ms(&self) -> Result<u64, Failure> {
        for part in self.parts.iter().rev() {
            let mut last = Files::of(self.place.clone(), vec![part.clone()], 0, None)?;
            let mut end = None;
            while let Some(said) = last.next()? {
                if let Said::Sample(sample) = said {
                    end = Some(sample.wall_ms());
                }
            }
            if let Some(end) = end {
                return Ok(end);
            }
        }
        Err(Failure::Failed(format!("{}: no sample is in it", self.place.name())))
    }

    /// The files, the oldest first.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Reads new data of the current file; returns false if there is none. A removed file has none.
    fn load(&mut self) -> Result<bool, Failure> {
        if self.place.is_stream() && self.done > READ_BYTES_MAX {
            // All but one byte: the decoder takes the first byte of a file for its beginning.
            self.bytes.drain(1..self.done);
            self.done = 1;
        }
        let known = self.bytes.len();
        if (known as u64) < FILE_BYTES_MAX {
            let part = &self.parts[self.at];
            if self.place.read(part, known as u64, &mut self.bytes)? == Had::Replaced {
                if self.again {
                    return Err(Failure::Failed(format!("{}: it is another file each time", part.path.display())));
                }
                self.begin_part();
                self.again = true;
                return self.load();
            }
        }
        if known == 0 && !self.bytes.is_empty() {
            let mut found = self.decoder.learn(&self.bytes);
            if found.is_none() {
                // Its own schema is damaged; other files of the ring probably have it.
                found = self.learn_from_others();
            }
            self.schema = self.schema.take().or(found);
        }
        Ok(self.bytes.len() > known)
    }

    /// Learns the schemas at the beginning of all files; returns the last one.
    fn learn_from_others(&mut self) -> Option<Arc<Schema>> {
        let heads = self.parts.iter().filter_map(|part| self.place.head(part));
        heads.fold(None, |found, head| self.decoder.learn(&head).or(found))
    }

    /// Resets the state for the current file.
    fn begin_part(&mut self) {
        (self.done, self.again) = (0, false);
        self.bytes.clear();
        self.decoder.restart();
    }

    /// Whether there is a file after the current one. Takes up new files.
    fn has_next(&mut self) -> Result<bool, Failure> {
        if self.at + 1 == self.parts.len() && self.stop.is_some() && self.place.grows() && !self.place.is_stream() {
            let last = self.parts[self.at].number;
            let came = self.place.parts()?.into_iter().filter(|part| part.number > last);
            self.parts.extend(came);
        }
        Ok(self.at + 1 < self.parts.len())
    }
}

impl Feed for Files {
    fn next(&mut self) -> Result<Option<Said>, Failure> {
        loop {
            match self.decoder.next(&self.bytes, &mut self.done, self.whole) {
                Some(Item::Sample(sample)) if self.again && sample.wall_ms() <= self.told_ms => continue,
                Some(Item::Mark(mark)) if self.again && mark.wall_ms <= self.told_ms => continue,
                Some(Item::Sample(sample)) => {
                    (self.told_ms, self.again) = (sample.wall_ms(), false);
                    return Ok(Some(Said::Sample(sample)));
                }
                Some(Item::Mark(mark)) => return Ok(Some(Said::Mark(mark))),
                Some(Item::Damage(damage)) => return Ok(Some(Said::Damage(self.parts[self.at].path.clone(), damage))),
                None => {}
            }
            if self.whole {
                if self.at + 1 == self.parts.len() {
                    return Ok(None);
                }
                self.at += 1;
                self.whole = self.stop.is_none();
                self.begin_part();
                self.load()?;
                continue;
            }
            // If a file follows, this one is complete: checked before its last bytes are read.
            self.whole = self.has_next()?;
            if self.load()? || self.whole {
                self.waits = false;
            } else if !self.waits {
                self.waits = true;
                return Ok(Some(Said::Waiting));
            } else if self.stop.as_ref().is_none_or(|stop| stop.wait(self.place.look_every())) {
                return Ok(None);
            }
        }
    }

    fn schema(&mut self) -> Result<Arc<Schema>, Failure> {
        if self.schema.is_none() {
            // An empty file.
            self.schema = self.learn_from_others();
        }
        let path = self.parts[self.at].path.display();
        let lost = || Failure::Failed(format!("{path}: the description of its fields is not there, or damaged"));
        self.schema.clone().ok_or_else(lost)
    }
}

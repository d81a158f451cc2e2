//! Where samples come from: files, followed or not. This host now is `host`; a server's port will be another one.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Failure;
use crate::clock::Stop;
use crate::read::{Damage, Decoder, Item};
use crate::record::Mark;
use crate::ring::{self, Part};
use crate::schema::Schema;
use crate::table::Sample;

/// What a feed tells.
#[derive(Clone, PartialEq, Debug)]
pub enum Said {
    /// A moment.
    Sample(Sample),
    /// Something that happened.
    Mark(Mark),
    /// What could not be read of a file.
    Damage(PathBuf, Damage),
    /// For now there is nothing more: what was said so far may be shown.
    Waiting,
}

/// Gives samples in the order of time.
pub trait Feed {
    /// The next; none at the end.
    ///
    /// # Errors
    /// Nothing can be had any more.
    fn next(&mut self) -> Result<Option<Said>, Failure>;

    /// A schema of what it will give, without taking anything.
    ///
    /// # Errors
    /// There is none.
    fn schema(&mut self) -> Result<Arc<Schema>, Failure>;
}

/// A follower looks for more so often.
const LOOK: Duration = Duration::from_millis(200);

/// Bytes of a file at most: larger ones are none of a ring.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Bytes in which a file's schema stands.
const HEAD_BYTES: u64 = 1 << 20;

/// The files of a folder, or one file.
pub struct Files {
    from: PathBuf,
    parts: Vec<Part>,
    /// Which of them is read, what was read of it, and how far it was looked at.
    at: usize,
    bytes: Vec<u8>,
    done: usize,
    decoder: Decoder,
    /// Of the first file that had one.
    schema: Option<Arc<Schema>>,
    /// Nothing more will come to the file that is looked at.
    whole: bool,
    /// It was said that there is nothing more for now.
    waits: bool,
    /// Until then more is waited for.
    stop: Option<Arc<Stop>>,
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", path.display()))
}

impl Files {
    /// A folder's files from the one on in which `since_ms` is, or one file; with `stop` it goes on as they grow.
    ///
    /// # Errors
    /// There is no recording.
    pub fn open(from: &Path, since_ms: u64, stop: Option<Arc<Stop>>) -> Result<Files, Failure> {
        let parts = Files::list(from)?;
        if parts.is_empty() {
            let path = from.display();
            return Err(Failure::Failed(format!(
                "{path}: no recording is there; make one with: throng sar record --folder {path}"
            )));
        }
        let begun = |part: &Part| u64::try_from(part.begun_s).unwrap_or(0) * 1000;
        let at = parts.iter().rposition(|part| begun(part) <= since_ms).unwrap_or(0);
        let mut files = Files {
            from: from.into(),
            parts,
            at,
            bytes: Vec::new(),
            done: 0,
            decoder: Decoder::default(),
            schema: None,
            whole: stop.is_none(),
            waits: false,
            stop,
        };
        files.load()?;
        Ok(files)
    }

    fn list(from: &Path) -> Result<Vec<Part>, Failure> {
        let meta = from.metadata().map_err(|error| failed(from, &error))?;
        if meta.is_dir() {
            return ring::parts(from).map_err(|error| failed(from, &error));
        }
        Ok(vec![Part { number: 0, begun_s: 0, path: from.into() }])
    }

    /// How far the recording reaches: when the first file was begun, and the last sample of the last one.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn end_ms(&self) -> Result<u64, Failure> {
        for part in self.parts.iter().rev() {
            let mut last = Files::open(&part.path, 0, None)?;
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
        Err(Failure::Failed(format!("{}: no sample is in it", self.from.display())))
    }

    /// The files, the oldest first.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Reads what the file that is looked at has got since; false for nothing. One that was removed meanwhile has no more.
    fn load(&mut self) -> Result<bool, Failure> {
        let path = &self.parts[self.at].path;
        let known = self.bytes.len();
        let mut read = || -> io::Result<()> {
            let mut file = File::open(path)?;
            file.seek(io::SeekFrom::Start(known as u64))?;
            file.take(FILE_BYTES_MAX - known as u64).read_to_end(&mut self.bytes)?;
            Ok(())
        };
        match read() {
            // The ring has gone on over it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.from.is_dir() => return Ok(false),
            read => read.map_err(|error| failed(path, &error))?,
        }
        if known == 0 && !self.bytes.is_empty() {
            let mut found = self.decoder.learn(&self.bytes);
            if found.is_none() {
                // Its own description is damaged; others of the ring are likely to have it.
                for part in &self.parts {
                    let mut head = Vec::new();
                    let read = File::open(&part.path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
                    found = read.ok().and_then(|_| self.decoder.learn(&head)).or(found);
                }
            }
            self.schema = self.schema.take().or(found);
        }
        Ok(self.bytes.len() > known)
    }

    /// A file behind the one that is looked at. Files that came are taken up.
    fn has_next(&mut self) -> Result<bool, Failure> {
        if self.at + 1 == self.parts.len() && self.stop.is_some() && self.from.is_dir() {
            let last = self.parts[self.at].number;
            let came = Files::list(&self.from)?.into_iter().filter(|part| part.number > last);
            self.parts.extend(came);
        }
        Ok(self.at + 1 < self.parts.len())
    }
}

impl Feed for Files {
    fn next(&mut self) -> Result<Option<Said>, Failure> {
        loop {
            match self.decoder.next(&self.bytes, &mut self.done, self.whole) {
                Some(Item::Sample(sample)) => return Ok(Some(Said::Sample(sample))),
                Some(Item::Mark(mark)) => return Ok(Some(Said::Mark(mark))),
                Some(Item::Damage(damage)) => return Ok(Some(Said::Damage(self.parts[self.at].path.clone(), damage))),
                None => {}
            }
            if self.whole {
                if self.at + 1 == self.parts.len() {
                    return Ok(None);
                }
                self.at += 1;
                (self.done, self.whole) = (0, self.stop.is_none());
                self.bytes.clear();
                self.decoder.restart();
                self.load()?;
                continue;
            }
            // With a file behind it this one is whole: looked for before its last bytes are read.
            self.whole = self.has_next()?;
            if self.load()? || self.whole {
                self.waits = false;
            } else if !self.waits {
                self.waits = true;
                return Ok(Some(Said::Waiting));
            } else if self.stop.as_ref().is_none_or(|stop| stop.wait(LOOK)) {
                return Ok(None);
            }
        }
    }

    fn schema(&mut self) -> Result<Arc<Schema>, Failure> {
        let path = self.parts[self.at].path.display();
        let lost = || Failure::Failed(format!("{path}: the description of its fields is not there, or damaged"));
        self.schema.clone().ok_or_else(lost)
    }
}

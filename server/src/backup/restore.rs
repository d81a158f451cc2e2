//! Finds the pieces from which the store of some time is made anew, and reads them in order.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::bucket::Bucket;
use super::pieces::{Full, Group, Journal, Piece, begun_ms, fulls, journal, rows, rows_of};
use super::{files, settings};
use crate::disk::format::FORMAT_VERSION;
use crate::disk::restore::{Pieces, Row};
use crate::disk::{DiskError, shipping};

/// Attempts to read an object: a restore is often begun by hand, and long.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(1);

/// The pieces of a backup that give the store of some time. Reads them on the caller's thread.
#[derive(Debug)]
pub struct Restoring {
    runtime: tokio::runtime::Runtime,
    bucket: Bucket,
    generation: String,
    full: Full,
    /// The pieces of the journal still to be read, in order; at most those that the place lists.
    journal: VecDeque<(String, Piece)>,
    until_ms: u64,
    /// Parts of the full piece that were read.
    parts: u64,
    /// The rest of the last part: at most one part.
    rows: VecDeque<Row>,
    /// The rest of the last piece of the journal: at most one piece.
    groups: VecDeque<Vec<u8>>,
    next: Group,
    /// Whether the next group is too late.
    done: bool,
    time_ms: u64,
}

impl Restoring {
    /// Finds the pieces for the newest time, or for that of `at_ms`, milliseconds since 1970.
    ///
    /// # Errors
    /// Why there are none, with what to do.
    pub fn find(bucket: Bucket, at_ms: Option<u64>) -> Result<Restoring, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error: io::Error| error.to_string())?;
        let until_ms = at_ms.unwrap_or(u64::MAX);
        let (generation, full, journal) = runtime.block_on(plan(&bucket, until_ms))?;
        let (next, time_ms) = (full.first, full.time_ms);
        Ok(Restoring {
            runtime,
            bucket,
            generation,
            full,
            journal,
            until_ms,
            parts: 0,
            rows: VecDeque::new(),
            groups: VecDeque::new(),
            next,
            done: false,
            time_ms,
        })
    }

    /// Identity of the store.
    pub fn store(&self) -> &str {
        &self.full.store
    }

    /// The time of the last group that was read, milliseconds since 1970: all that was durable then
    /// has been read, except for what came within a tenth of a second.
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// Reads all uploaded files of that time; writes them to the folder `into` if it is given.
    ///
    /// # Errors
    /// They cannot be listed. A file that cannot be read is in `files::Read::wrong`.
    pub fn files(&self, into: Option<&Path>) -> Result<files::Read, String> {
        self.runtime.block_on(files::restore(&self.bucket, self.until_ms, into))
    }

    /// Reads the settings of that time; writes them to the data folder `into` if it is given.
    ///
    /// # Errors
    /// They cannot be read, or not written.
    pub fn settings(&self, into: Option<&Path>) -> Result<settings::Found, String> {
        self.runtime.block_on(settings::restore(&self.bucket, self.until_ms, into))
    }

    fn get(&self, name: &str) -> Result<Vec<u8>, DiskError> {
        let mut attempt = 1;
        loop {
            match self.runtime.block_on(self.bucket.get(name)) {
                Ok(Some(content)) => return Ok(content),
                Ok(None) => return Err(broken(name, "is missing")),
                Err(what) if attempt == ATTEMPTS => return Err(DiskError::NoBackup(what)),
                Err(_) => std::thread::sleep(PAUSE * attempt),
            }
            attempt += 1;
        }
    }

    /// Reads a piece of the journal, up to the time.
    fn read_journal(&mut self, name: &str, piece: Piece) -> Result<(), DiskError> {
        let content = self.get(name)?;
        let Journal { marks, groups, .. } = Journal::decode(&content).ok_or_else(|| broken(name, "is damaged"))?;
        let in_time = marks.iter().take_while(|mark| mark.time_ms <= self.until_ms).last();
        let all_in_time = marks.last().is_none_or(|last| last.time_ms <= self.until_ms);
        // The rows of a full piece need all groups up to its end.
        let end = if all_in_time { piece.end } else { in_time.map_or(0, |mark| mark.next).max(self.full.end) };
        self.time_ms = self.time_ms.max(in_time.map_or(0, |mark| mark.time_ms));
        self.done = end < piece.end;
        let mut number = piece.first;
        for group in shipping::operations(&groups) {
            let group = group.ok_or_else(|| broken(name, "is damaged"))?;
            if number == self.next && number < end {
                self.groups.push_back(group.to_vec());
                self.next += 1;
            }
            number += 1;
        }
        if number != piece.end {
            return Err(broken(name, "has another number of groups than its name states"));
        }
        Ok(())
    }
}

impl Pieces for Restoring {
    fn row(&mut self) -> Result<Option<Row>, DiskError> {
        while self.rows.is_empty() && self.parts < self.full.parts {
            let name = rows(&self.generation, self.full.begun_ms, self.parts);
            let content = self.get(&name)?;
            for row in rows_of(&content) {
                let (key, value) = row.ok_or_else(|| broken(&name, "is damaged"))?;
                self.rows.push_back((key.to_vec(), value.to_vec()));
            }
            self.parts += 1;
        }
        Ok(self.rows.pop_front())
    }

    fn group(&mut self) -> Result<Option<Vec<u8>>, DiskError> {
        while self.groups.is_empty() && !self.done {
            let Some((name, piece)) = self.journal.pop_front() else { break };
            self.read_journal(&name, piece)?;
        }
        Ok(self.groups.pop_front())
    }
}

fn broken(name: &str, what: &str) -> DiskError {
    DiskError::NoBackup(format!("{name} {what}: restore to an earlier time with --at"))
}

type Planned = (String, Full, VecDeque<(String, Piece)>);

/// The newest full piece before the time, with the journal that follows it.
async fn plan(bucket: &Bucket, until_ms: u64) -> Result<Planned, String> {
    let mut found = Vec::new();
    for generation in bucket.folders("").await? {
        if begun_ms(&generation).is_some() {
            for name in bucket.list(&fulls(&generation), None).await? {
                found.extend(Full::of_name(&name).map(|(time_ms, _)| (time_ms, generation.clone(), name)));
            }
        }
    }
    found.sort_unstable();
    let Some(earliest) = found.first().map(|(time_ms, ..)| *time_ms) else {
        return Err(format!("{} has no complete full piece of a backup", bucket.url()));
    };
    let before = found.into_iter().rfind(|(time_ms, ..)| *time_ms <= until_ms);
    let (_, generation, name) = before.ok_or_else(|| {
        format!("{} reaches back to {}: give --at that time or a later one", bucket.url(), super::shown(earliest))
    })?;
    let record = bucket.get(&name).await?.ok_or_else(|| format!("{name} is missing"))?;
    let full: Full = serde_json::from_slice(&record).map_err(|error| format!("{name} cannot be read: {error}"))?;
    if full.format != FORMAT_VERSION {
        return Err(format!(
            "the backup has format {} and this program {FORMAT_VERSION}: restore it with the version that wrote it, \
             and start this one then",
            full.format
        ));
    }
    let needed = |name: &str| Piece::of_name(name).is_some_and(|piece| piece.end > full.first);
    let listed = bucket.list_some(&journal(&generation), None, needed).await?;
    let mut pieces: Vec<_> = listed.into_iter().filter_map(|name| Some((Piece::of_name(&name)?, name))).collect();
    // Of two that begin with the same group, the longer one.
    pieces.sort_unstable_by_key(|(piece, _)| (piece.first, std::cmp::Reverse(piece.end)));
    let (mut next, mut journal) = (full.first, VecDeque::new());
    for (piece, name) in pieces {
        if piece.end <= next {
            continue;
        }
        if piece.first > next {
            return Err(format!(
                "the backup lacks groups {next} to {} of the journal, before {}: restore to an earlier time with --at",
                piece.first - 1,
                super::shown(piece.time_ms)
            ));
        }
        next = piece.end;
        journal.push_back((name, piece));
        if piece.time_ms > until_ms && next > full.end {
            break;
        }
    }
    match next >= full.end {
        true => Ok((generation, full, journal)),
        false => {
            Err(format!("the journal of the full piece {name} is incomplete: restore to an earlier time with --at"))
        }
    }
}

//! The last minutes in memory, in the format of a file, for live readers.

use std::collections::VecDeque;

use crate::record::Mark;

/// Most marks pending; the oldest are dropped.
const MARKS_MAX: usize = 1024;

/// A position in the window, for a reader that continues: a segment, by its beginning, and an
/// offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The beginning of the segment, in milliseconds since 1970 (UTC).
    pub begun_ms: u64,
    /// Offset in the segment, bytes.
    pub offset: usize,
}

/// The last segments.
#[derive(Debug)]
pub struct Window {
    head: Vec<u8>,
    bytes_max: usize,
    bytes: usize,
    /// The beginning of each, in milliseconds since 1970 (UTC). At most `bytes_max` bytes in total,
    /// except for the last one.
    segments: VecDeque<(u64, Vec<u8>)>,
    /// At most [`MARKS_MAX`].
    marks: VecDeque<Mark>,
}

impl Window {
    /// An empty window; `head` is the beginning of a file.
    pub fn new(head: Vec<u8>, bytes_max: usize) -> Window {
        Window { head, bytes_max, bytes: 0, segments: VecDeque::new(), marks: VecDeque::new() }
    }

    /// Appends records with this time; `begins` starts a new segment. The oldest segments are
    /// dropped.
    pub fn push(&mut self, wall_ms: u64, begins: bool, records: &[u8]) {
        if begins || self.segments.is_empty() {
            self.segments.push_back((wall_ms, Vec::new()));
        }
        self.bytes += records.len();
        self.segments.back_mut().expect("one is there").1.extend_from_slice(records);
        while self.bytes > self.bytes_max && self.segments.len() > 1 {
            self.bytes -= self.segments.pop_front().map_or(0, |(_, gone)| gone.len());
        }
    }

    /// The content as a file; see [`crate::read`].
    pub fn file(&self) -> Vec<u8> {
        let mut file = Vec::with_capacity(self.head.len() + self.bytes);
        file.extend_from_slice(&self.head);
        self.segments.iter().for_each(|(_, segment)| file.extend_from_slice(segment));
        file
    }

    /// The same from the last segment that begins before `since_ms`; `None` if all segments are
    /// later.
    pub fn since(&self, since_ms: u64) -> Option<Vec<u8>> {
        let first = self.segments.iter().rposition(|(begun_ms, _)| *begun_ms <= since_ms)?;
        let segments = self.segments.iter().skip(first).map(|(_, segment)| &segment[..]);
        Some(std::iter::once(&self.head[..]).chain(segments).flatten().copied().collect())
    }

    /// The data after a position, and the new end; `None` if the position is invalid or no longer
    /// held.
    pub fn after(&self, place: Place) -> Option<(Vec<u8>, Place)> {
        let first = self.segments.iter().rposition(|(begun_ms, _)| *begun_ms == place.begun_ms)?;
        let mut bytes = self.segments[first].1.get(place.offset..)?.to_vec();
        self.segments.iter().skip(first + 1).for_each(|(_, segment)| bytes.extend_from_slice(segment));
        Some((bytes, self.end()?))
    }

    /// The current end; `None` if the window is empty.
    pub fn end(&self) -> Option<Place> {
        self.segments.back().map(|(begun_ms, segment)| Place { begun_ms: *begun_ms, offset: segment.len() })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.bytes
    }

    /// Adds a mark, recorded with the next sample.
    pub fn mark(&mut self, mark: Mark) {
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// Takes the next pending mark.
    pub fn take_mark(&mut self) -> Option<Mark> {
        self.marks.pop_front()
    }
}

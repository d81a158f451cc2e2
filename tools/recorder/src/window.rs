//! The last minutes in memory, for those who look at the host now, in the form of a file.

use std::collections::VecDeque;

use crate::record::Mark;

/// Marks that wait to be recorded at most; the oldest go.
const MARKS_MAX: usize = 1024;

/// A place in what is held, for those who come again: a segment, by when it begins, and a byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// When the segment begins, in milliseconds since 1970 (UTC).
    pub begun_ms: u64,
    /// Bytes of the segment before it.
    pub offset: usize,
}

/// The last segments.
#[derive(Debug)]
pub struct Window {
    head: Vec<u8>,
    bytes_max: usize,
    bytes: usize,
    /// When each begins, in milliseconds since 1970 (UTC). At most `bytes_max` bytes in all, but for the last one.
    segments: VecDeque<(u64, Vec<u8>)>,
    /// At most [`MARKS_MAX`].
    marks: VecDeque<Mark>,
}

impl Window {
    /// An empty window; `head` is what a file begins with.
    pub fn new(head: Vec<u8>, bytes_max: usize) -> Window {
        Window { head, bytes_max, bytes: 0, segments: VecDeque::new(), marks: VecDeque::new() }
    }

    /// Appends records of this time, a segment's to a new one. The oldest segments go.
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

    /// What a file with all of it would hold; see [`crate::read`].
    pub fn file(&self) -> Vec<u8> {
        let mut file = Vec::with_capacity(self.head.len() + self.bytes);
        file.extend_from_slice(&self.head);
        self.segments.iter().for_each(|(_, segment)| file.extend_from_slice(segment));
        file
    }

    /// The same from the last segment on that begins before `since_ms`; none if all that is held is later.
    pub fn since(&self, since_ms: u64) -> Option<Vec<u8>> {
        let first = self.segments.iter().rposition(|(begun_ms, _)| *begun_ms <= since_ms)?;
        let segments = self.segments.iter().skip(first).map(|(_, segment)| &segment[..]);
        Some(std::iter::once(&self.head[..]).chain(segments).flatten().copied().collect())
    }

    /// What came behind a place, and where that ends; none if that place is not held any more, or is none.
    pub fn after(&self, place: Place) -> Option<(Vec<u8>, Place)> {
        let first = self.segments.iter().rposition(|(begun_ms, _)| *begun_ms == place.begun_ms)?;
        let mut bytes = self.segments[first].1.get(place.offset..)?.to_vec();
        self.segments.iter().skip(first + 1).for_each(|(_, segment)| bytes.extend_from_slice(segment));
        Some((bytes, self.end()?))
    }

    /// Where it ends for now; none while nothing is held.
    pub fn end(&self) -> Option<Place> {
        self.segments.back().map(|(begun_ms, segment)| Place { begun_ms: *begun_ms, offset: segment.len() })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.bytes
    }

    /// A mark, recorded with the next sample.
    pub fn mark(&mut self, mark: Mark) {
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// The next mark that waits.
    pub fn take_mark(&mut self) -> Option<Mark> {
        self.marks.pop_front()
    }
}

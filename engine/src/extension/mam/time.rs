//! Finds the number at which a time begins in an archive, by seeks, because numbers are ordered but
//! carry no time.
//!
//! Times of entries increase with their numbers unless the host's clock is set back. Without that,
//! the result is exact. After it, several numbers may be where the time begins, and one of them is
//! found. Each result is compared with its own time, so none is ever outside the requested range,
//! but a query by time may miss entries between these numbers. A query without a time, or by ids,
//! returns them all.

use crate::store::archive::{entries, is_void, seek};
use crate::store::{Found, Query, Row};

/// Number of entries read per round.
const PROBES: u64 = 3;

/// A range of numbers this small is scanned.
const NEAR: u64 = 128;

/// A round probes this fraction of the range (one part in this many) on either side of the expected
/// number.
const AROUND: u64 = 64;

/// After a round that leaves more than this fraction (one part in this many), the next one cuts the
/// range into equal parts.
const GOOD: u64 = 4;

/// The first number from which on entries have at least a given time.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Edge {
    /// Microseconds since the Unix epoch.
    time_us: u64,
    /// Entries before this number are earlier.
    pub(super) low: u64,
    /// Entries from this number on are not earlier.
    pub(super) high: u64,
    /// Number and time in milliseconds of an entry before the time and of one after it; times
    /// between them are assumed to increase evenly.
    known: [(u64, u64); 2],
    /// Whether the last round has left a large range.
    poor: bool,
}

impl Edge {
    /// It is in this range of numbers; `known` has the first and the last known entry of the range,
    /// with their times.
    pub(super) fn new(time_us: u64, low: u64, high: u64, known: [(u64, u64); 2]) -> Edge {
        Edge { time_us, low, high, known, poor: false }
    }

    /// Whether the remaining range is small.
    pub(super) fn is_near(&self) -> bool {
        self.high.saturating_sub(self.low) <= NEAR
    }

    /// The expected number, if times increase evenly with numbers.
    fn expected(&self) -> u64 {
        let [(first, first_ms), (last, last_ms)] = self.known;
        let (width, span_ms) = (last.saturating_sub(first), last_ms.saturating_sub(first_ms));
        let passed_ms = (self.time_us / 1_000).saturating_sub(first_ms).min(span_ms);
        let part = u128::from(width) * u128::from(passed_ms) / u128::from(span_ms.max(1));
        first.saturating_add(part as u64)
    }

    /// The numbers to probe in a round, in order: around the expected one, or three that cut the
    /// range into equal parts.
    fn places(&self) -> Vec<u64> {
        let (low, width) = (self.low, self.high.saturating_sub(self.low));
        if self.is_near() {
            return Vec::new();
        }
        let (inner_low, inner_high) = (low + 1, self.high - 1);
        let mut places: Vec<u64> = match self.poor {
            true => (1..=PROBES)
                .map(|part| low + (u128::from(width) * u128::from(part) / u128::from(PROBES + 1)) as u64)
                .collect(),
            false => {
                let (at, around) = (self.expected().clamp(inner_low, inner_high), (width / AROUND).max(NEAR / 4));
                [at.saturating_sub(around), at, at.saturating_add(around)]
                    .map(|at| at.clamp(inner_low, inner_high))
                    .into()
            }
        };
        places.dedup();
        places
    }

    /// The queries of a round.
    pub(super) fn queries(&self, user: &str) -> Vec<Query> {
        self.places().into_iter().map(|place| seek(user, place)).collect()
    }

    /// Continues with the results, and removes its own from the front of `answers`. `None` if a row
    /// is unreadable.
    pub(super) fn found(&mut self, answers: &mut &[Found]) -> Option<()> {
        let (places, width) = (self.places(), self.high.saturating_sub(self.low));
        let (own, rest) = answers.split_at_checked(places.len())?;
        *answers = rest;
        for (place, found) in places.into_iter().zip(own) {
            match first(found, place)? {
                Some((number, time_ms)) if time_ms.saturating_mul(1_000) < self.time_us => {
                    self.low = self.low.max(number + 1);
                    self.known[0] = (number, time_ms);
                }
                later => {
                    self.high = self.high.min(place);
                    if let Some((number, time_ms)) = later {
                        self.known[1] = (number, time_ms);
                    }
                    break;
                }
            }
        }
        self.high = self.high.max(self.low);
        self.poor = self.high - self.low > width / GOOD;
        Some(())
    }
}

/// Number and time in milliseconds of the first entry at or after a number, void or not, in the
/// result of a seek. `None` if a row is unreadable.
pub(super) fn first(found: &Found, number: u64) -> Option<Option<(u64, u64)>> {
    let Found::Rows { rows, .. } = found else { return None };
    let Some(row) = rows.iter().find(|row| !is_void(&row.value)) else { return Some(None) };
    let all = entries(&row.sort, &row.value)?;
    Some(all.iter().find(|(other, _)| *other >= number).map(|(other, entry)| (*other, entry.time_ms)))
}

/// The time of the last entry of a row in milliseconds; `None` if it is unreadable.
pub(super) fn last_time_ms(row: &Row) -> Option<u64> {
    entries(&row.sort, &row.value)?.last().map(|(_, entry)| entry.time_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Batch;
    use crate::store::OpView;
    use crate::store::archive::Entry;

    const STEP: u64 = 10;

    /// Number of rounds needed to find where a time begins among entries with these times, one
    /// every [`STEP`] numbers.
    fn rounds(times_ms: &[u64], time_ms: u64) -> usize {
        let number = |at: usize| (at as u64 + 1) * STEP;
        let answer = |query: &Query| {
            let Query::Range { from, .. } = query else { panic!("a seek") };
            let place = u64::from_be_bytes(*from.first_chunk().expect("a number"));
            let at = place.div_ceil(STEP).max(1) as usize - 1;
            let rows = times_ms.get(at).map(|time_ms| {
                let mut batch = Batch::new();
                let entry = Entry {
                    incoming: true,
                    waits: true,
                    time_ms: *time_ms,
                    peer: "b@x",
                    xml: b"<message/>",
                    trail: b"",
                };
                entry.put(&mut batch, "a@x", number(at));
                let Some(OpView::Put { sort, value, .. }) = batch.last() else { panic!("a row") };
                Row { sort: sort.into(), value: value.into() }
            });
            Found::Rows { rows: rows.into_iter().collect(), more: true }
        };
        let last = times_ms.len() - 1;
        let known = [(number(0), times_ms[0]), (number(last), times_ms[last])];
        let mut edge = Edge::new(time_ms * 1_000, number(0), number(last) + 1, known);
        let mut rounds = 0;
        while !edge.is_near() {
            let found: Vec<Found> = edge.queries("a@x").iter().map(answer).collect();
            assert!(!found.is_empty() && found.len() <= PROBES as usize);
            edge.found(&mut &found[..]).expect("whole rows");
            rounds += 1;
        }
        let first = times_ms.partition_point(|other| *other < time_ms);
        assert!(first > last || number(first) >= edge.low, "it is not before the range");
        assert!(first == 0 || number(first - 1) < edge.high, "nor behind it");
        rounds
    }

    #[test]
    fn a_time_is_found_in_few_rounds_where_messages_come_evenly() {
        let times: Vec<u64> = (0..1_000_000).map(|at| 1_700_000_000_000 + at * 30_000).collect();
        let most = (0..200).map(|n| rounds(&times, times[n * 4_999] + 1)).max();
        assert!(most <= Some(3), "{most:?}");
    }

    #[test]
    fn and_in_not_many_more_where_they_come_in_heaps() {
        // Ten years without messages in the middle, and a day's messages in one second at the end.
        let heap = |at: u64| match at {
            0..500_000 => at * 1_000,
            500_000..900_000 => 315_360_000_000 + at * 7,
            _ => 999_999_999_999 + at / 1_000,
        };
        let times: Vec<u64> = (0..1_000_000).map(heap).collect();
        let most = (0..200).map(|n| rounds(&times, times[n * 4_999] + 1)).max();
        assert!(most <= Some(20), "{most:?}");
        assert!(rounds(&times, 0) <= 20 && rounds(&times, u64::MAX / 2_000) <= 20);
    }
}

//! Where in an archive a time begins: by seeks, because numbers are in order and say nothing of time.
//!
//! Times of entries rise with their numbers unless the host's clock is set back. As long as it is not, what is found is exact. When
//! it was, entries lie between two places that both begin the time; one of the two is found. Results are held against their own
//! times, so that none is ever outside of what was asked for, but such entries may be missing from a query by time. A query without
//! a time, or by ids, has them all.

use crate::store::archive::{entries, is_void, seek};
use crate::store::{Found, Query};

/// Places that one round looks at. Each round leaves one part of so many and one.
const PROBES: u64 = 3;

/// A range of numbers so small that it is read through.
const NEAR: u64 = 128;

/// The first number from which on entries have at least a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// Microseconds since the Unix epoch.
    pub(super) time_us: u64,
    /// Entries before this one are earlier.
    pub(super) low: u64,
    /// Entries from this one on are not.
    pub(super) high: u64,
}

impl Edge {
    /// Whether it is known closely enough.
    pub(super) fn is_near(&self) -> bool {
        self.high.saturating_sub(self.low) <= NEAR
    }

    fn places(&self) -> impl Iterator<Item = u64> + use<> {
        let (low, width) = (self.low, self.high.saturating_sub(self.low));
        let probes = if self.is_near() { 0 } else { PROBES };
        (1..=probes).map(move |part| low + (u128::from(width) * u128::from(part) / u128::from(PROBES + 1)) as u64)
    }

    /// The questions of a round.
    pub(super) fn queries(&self, user: &str) -> Vec<Query> {
        self.places().map(|place| seek(user, place)).collect()
    }

    /// Goes on with the answers, of which it takes its own off the beginning. `None` if a row cannot be read.
    pub(super) fn found(&mut self, answers: &mut &[Found]) -> Option<()> {
        let places: Vec<u64> = self.places().collect();
        let (own, rest) = answers.split_at_checked(places.len())?;
        *answers = rest;
        for (place, found) in places.into_iter().zip(own) {
            match first(found, place)? {
                Some((number, time_ms)) if time_ms.saturating_mul(1_000) < self.time_us => {
                    self.low = self.low.max(number + 1);
                }
                _ => {
                    self.high = self.high.min(place);
                    break;
                }
            }
        }
        self.high = self.high.max(self.low);
        Some(())
    }
}

/// Number and time, in milliseconds, of the first entry from a number on that a seek has found, be it void or not. `None` if a row
/// cannot be read.
pub(super) fn first(found: &Found, number: u64) -> Option<Option<(u64, u64)>> {
    let Found::Rows { rows, .. } = found else { return None };
    let Some(row) = rows.iter().find(|row| !is_void(&row.value)) else { return Some(None) };
    let all = entries(&row.sort, &row.value)?;
    Some(all.iter().find(|(other, _)| *other >= number).map(|(other, entry)| (*other, entry.time_ms)))
}

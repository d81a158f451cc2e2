//! The sessions with the most stanzas and bytes, found with little memory: the Space-Saving
//! algorithm (Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements
//! in Data Streams", 2005).
//!
//! [`COUNTED`] sessions are counted. A session that is not among them replaces the one with the
//! least weight and inherits that weight. Every session with more than a [`COUNTED`]th of the total
//! is therefore counted. A session's figures cover the time since it was added: they may be too
//! small, never too large. Counting begins with the first query and ends [`LEASE_MS`] after the
//! last one.

use hashbrown::HashMap;

use crate::id::SessionId;

/// Number of sessions that are counted at once.
pub const COUNTED: usize = 256;
/// Counting ends this long after the last query, milliseconds.
pub const LEASE_MS: u64 = 5_000;
/// Length of a window in milliseconds; it extends to the next query.
pub const WINDOW_MS: u64 = 2_000;
/// Length of the first window in milliseconds, so that a single query gets a result soon.
pub const FIRST_WINDOW_MS: u64 = 400;
/// Number of bytes that weigh as much as a stanza.
const STANZA_BYTES: u64 = 512;

/// Hash state without entropy: keys are numbers that the shard itself assigns.
type Fixed = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// The counts of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The session.
    pub session: SessionId,
    /// The sort key: stanzas, and bytes in units of 512, including the inherited weight.
    pub weight: u64,
    /// Stanzas from its client.
    pub stanzas_in: u64,
    /// Stanzas to its client.
    pub stanzas_out: u64,
    /// Bytes of the stanzas from its client.
    pub bytes_in: u64,
    /// Bytes of the stanzas to its client.
    pub bytes_out: u64,
}

impl Counted {
    fn new(session: SessionId, weight: u64) -> Counted {
        Counted { session, weight, stanzas_in: 0, stanzas_out: 0, bytes_in: 0, bytes_out: 0 }
    }
}

/// A bounded number of sessions with their counts.
#[derive(Debug, Default)]
struct Sketch {
    /// At most [`COUNTED`].
    counted: Vec<Counted>,
    places: HashMap<SessionId, usize, Fixed>,
    /// A lower bound of all weights, ...
    least: u64,
    /// ... and any session with that weight is at or after this index.
    hand: usize,
}

impl Sketch {
    fn entry(&mut self, session: SessionId) -> &mut Counted {
        let place = match self.places.get(&session) {
            Some(place) => *place,
            None if self.counted.len() < COUNTED => {
                self.counted.push(Counted::new(session, 0));
                self.places.insert(session, self.counted.len() - 1);
                self.counted.len() - 1
            }
            None => {
                let place = self.least();
                self.places.remove(&self.counted[place].session);
                self.counted[place] = Counted::new(session, self.counted[place].weight);
                self.places.insert(session, place);
                place
            }
        };
        &mut self.counted[place]
    }

    /// The index with the least weight. Weights only grow, so one pass over the slots finds all
    /// that have the same weight: the next one is usually at or soon after `hand`.
    fn least(&mut self) -> usize {
        loop {
            if let Some(ahead) = self.counted[self.hand..].iter().position(|counted| counted.weight <= self.least) {
                self.hand += ahead;
                return self.hand;
            }
            self.hand = 0;
            self.least = self.counted.iter().map(|counted| counted.weight).min().unwrap_or(0);
        }
    }
}

/// A count in progress.
#[derive(Debug)]
pub struct Busiest {
    asked_ms: u64,
    began_ms: u64,
    sketch: Sketch,
    /// The last complete window, and its length.
    last: (u64, Vec<Counted>),
}

impl Busiest {
    /// Starts counting.
    pub fn new(now_ms: u64) -> Busiest {
        Busiest { asked_ms: now_ms, began_ms: now_ms, sketch: Sketch::default(), last: (0, Vec::new()) }
    }

    /// Whether the last query was too long ago.
    pub fn is_over(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.asked_ms) > LEASE_MS
    }

    /// Counts a stanza of this size from a session's client, or to it.
    pub fn count(&mut self, now_ms: u64, session: SessionId, from_client: bool, bytes: usize) {
        self.turn_over(now_ms);
        let (counted, bytes) = (self.sketch.entry(session), bytes as u64);
        counted.weight += 1 + bytes / STANZA_BYTES;
        let (stanzas, sum) = match from_client {
            true => (&mut counted.stanzas_in, &mut counted.bytes_in),
            false => (&mut counted.stanzas_out, &mut counted.bytes_out),
        };
        *stanzas += 1;
        *sum += bytes;
    }

    fn turn_over(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.began_ms);
        let window_ms = if self.last.0 == 0 { FIRST_WINDOW_MS } else { WINDOW_MS };
        if elapsed_ms >= window_ms {
            let mut counted = std::mem::take(&mut self.sketch).counted;
            counted.sort_by_key(|counted| std::cmp::Reverse(counted.weight));
            (self.last, self.began_ms) = ((elapsed_ms, counted), now_ms);
        }
    }

    /// The last complete window: its length in milliseconds, 0 if there is none, and the counted
    /// sessions, the busiest first.
    pub fn ask(&mut self, now_ms: u64) -> (u64, &[Counted]) {
        self.asked_ms = now_ms;
        self.turn_over(now_ms);
        (self.last.0, &self.last.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pseudorandom generator that a test can repeat (Knuth's MMIX).
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    fn id(slot: u64) -> SessionId {
        SessionId { slot: slot as u32, generation: 0 }
    }

    #[test]
    fn the_first_figures_are_there_soon_and_the_next_are_of_a_whole_window() {
        let mut busiest = Busiest::new(0);
        assert_eq!(busiest.ask(0).0, 0);
        busiest.count(100, id(7), true, 10);
        assert_eq!(busiest.ask(FIRST_WINDOW_MS - 1).0, 0);
        let (elapsed_ms, counted) = busiest.ask(FIRST_WINDOW_MS);
        assert_eq!((elapsed_ms, counted.len()), (FIRST_WINDOW_MS, 1));
        busiest.count(FIRST_WINDOW_MS + 1, id(8), true, 10);
        assert_eq!(busiest.ask(FIRST_WINDOW_MS + WINDOW_MS - 1).0, FIRST_WINDOW_MS, "still the first");
        assert_eq!(busiest.ask(FIRST_WINDOW_MS + WINDOW_MS).0, WINDOW_MS);
    }

    #[test]
    fn heavy_sessions_are_found_among_very_many() {
        let (mut busiest, mut state) = (Busiest::new(0), 7);
        let mut exact = [0_u64; 8];
        for _ in 0..400_000 {
            // Eight sessions have a third of the total, and 100,000 others the rest.
            let heavy = next(&mut state).is_multiple_of(3);
            let slot = if heavy { (next(&mut state) % 36).isqrt() } else { 100 + next(&mut state) % 100_000 };
            if let Some(count) = exact.get_mut(slot as usize) {
                *count += 1;
            }
            busiest.count(1, id(slot), true, 100);
        }
        let (elapsed_ms, counted) = busiest.ask(WINDOW_MS);
        assert_eq!((elapsed_ms, counted.len()), (WINDOW_MS, COUNTED));
        let heaviest: Vec<u32> = counted.iter().take(3).map(|c| c.session.slot).collect();
        assert_eq!(heaviest, [5, 4, 3]);
        for counted in counted.iter().filter(|c| c.session.slot < 8) {
            let exact = exact[counted.session.slot as usize];
            assert!(counted.stanzas_in <= exact, "never too large");
            assert!(counted.session.slot < 3 || counted.stanzas_in * 100 >= exact * 95, "{counted:?} of {exact}");
        }
    }

    #[test]
    fn few_sessions_are_counted_exactly_and_bytes_weigh_too() {
        let mut busiest = Busiest::new(0);
        for n in 0..COUNTED as u64 {
            (0..=n % 7).for_each(|_| busiest.count(5, id(n), false, 10));
        }
        busiest.count(5, id(3), true, 1 << 20);
        let (_, counted) = busiest.ask(WINDOW_MS + 1);
        let first = counted[0];
        assert_eq!((first.session, first.bytes_in, first.stanzas_in, first.stanzas_out), (id(3), 1 << 20, 1, 4));
        assert!(
            counted
                .iter()
                .all(|c| c.stanzas_out == u64::from(c.session.slot) % 7 + 1 && c.bytes_out == 10 * c.stanzas_out)
        );
        assert!(!busiest.is_over(WINDOW_MS + LEASE_MS) && busiest.is_over(WINDOW_MS + LEASE_MS + 2));
    }
}

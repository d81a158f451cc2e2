//! A subscriber's place in one channel, and what becomes of each item there: lost, doubled, out of order.
//!
//! A channel's items are numbered from 1 in the order they are published. So that very many subscribers fit, a place has 16
//! bytes. It knows which of the last [`WINDOW`] items are missing; one that is further behind and has not come is lost.

/// Items behind the last one of which it is known whether they have come.
pub(crate) const WINDOW: u32 = 31;

/// All of them.
const WHOLE: u64 = (1 << WINDOW) - 1;

/// The server has said that it does not keep items which are missing.
const GAP: u32 = 1 << 31;

/// See the module.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// From where to continue: the server's number of the last item.
    pub(crate) after: u64,
    /// The highest number that came.
    seen: u32,
    /// Bit n: the item n + 1 below the highest has not come; and [`GAP`].
    missing: u32,
}

/// What an arrival is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Behind all that came before.
    Next {
        /// Items that will not come any more, and nobody has said so.
        lost: u32,
        /// Items that the server has said it does not keep.
        gapped: u32,
    },
    /// Behind one with a higher number, for the first time.
    Reordered,
    /// It has come before.
    Duplicate,
}

impl Place {
    /// Behind the item that the server knows by this number, before the first one that counts.
    pub(crate) fn behind(after: u64) -> Place {
        Place { after, ..Place::default() }
    }

    /// Items are no longer kept behind this place.
    pub(crate) fn gap(&mut self) {
        self.missing |= GAP;
    }

    /// An item has come; numbers begin with 1.
    pub(crate) fn arrived(&mut self, number: u32) -> Arrival {
        if number <= self.seen {
            let below = self.seen - number;
            let bit = if (1..=WINDOW).contains(&below) { 1 << (below - 1) } else { 0 };
            if self.missing & bit == 0 {
                return Arrival::Duplicate;
            }
            self.missing &= !bit;
            return Arrival::Reordered;
        }
        let skipped = number - self.seen - 1;
        let gap = self.missing & GAP != 0;
        let window = u64::from(self.missing & !GAP);
        // By how much the window moves; what leaves it and has not come is lost.
        let (kept, lost) = match u64::from(skipped) + 1 {
            by @ 1..=32 => {
                let moved = window << by | if gap { 0 } else { (1 << (by - 1)) - 1 };
                ((moved & WHOLE) as u32, (moved >> WINDOW).count_ones())
            }
            _ if gap => (0, window.count_ones()),
            _ => (WHOLE as u32, window.count_ones() + skipped - WINDOW),
        };
        (self.seen, self.missing) = (number, kept);
        Arrival::Next { lost, gapped: if gap { skipped } else { 0 } }
    }

    /// The highest number that came.
    pub(crate) fn seen(&self) -> u32 {
        self.seen
    }

    /// Items up to the highest that have not come, and may yet.
    pub(crate) fn holes(&self) -> u32 {
        (self.missing & !GAP).count_ones()
    }

    /// Items that have not come of a channel in which this is the highest that was confirmed, and of those, the ones that a
    /// gap covers.
    pub(crate) fn outstanding(&self, confirmed: u32) -> (u32, u32) {
        let behind = confirmed.saturating_sub(self.seen);
        (self.holes() + behind, if self.missing & GAP == 0 { 0 } else { behind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeSet;

    const IN_ORDER: Arrival = Arrival::Next { lost: 0, gapped: 0 };

    #[test]
    fn what_comes_once_and_in_order_is_good() {
        let mut place = Place::behind(77);
        (1..=1000).for_each(|number| assert_eq!(place.arrived(number), IN_ORDER));
        assert_eq!((place.after, place.seen(), place.holes(), place.outstanding(1000)), (77, 1000, 0, (0, 0)));
        assert_eq!(place.outstanding(1003), (3, 0));
        assert_eq!(size_of::<Place>(), 16);
    }

    #[test]
    fn one_that_is_missing_doubled_or_late_is_known() {
        let mut place = Place::default();
        assert_eq!(place.arrived(1), IN_ORDER);
        assert_eq!(place.arrived(3), IN_ORDER, "not yet lost: it may be late");
        assert_eq!((place.holes(), place.outstanding(3)), (1, (1, 0)));
        assert_eq!(place.arrived(3), Arrival::Duplicate);
        assert_eq!(place.arrived(1), Arrival::Duplicate);
        assert_eq!(place.arrived(2), Arrival::Reordered);
        assert_eq!(place.arrived(2), Arrival::Duplicate);
        assert_eq!(place.holes(), 0);
        // Behind the window it is lost.
        assert_eq!(place.arrived(5), IN_ORDER);
        (6..=5 + 30).for_each(|number| assert_eq!(place.arrived(number), IN_ORDER));
        assert_eq!((place.holes(), place.arrived(36)), (1, Arrival::Next { lost: 1, gapped: 0 }));
        assert_eq!(place.holes(), 0);
        assert_eq!(place.arrived(4), Arrival::Duplicate, "too late to be told from one that has come");
    }

    #[test]
    fn what_the_server_says_it_does_not_keep_is_not_lost() {
        let mut place = Place::default();
        assert_eq!(place.arrived(1), IN_ORDER);
        place.gap();
        assert_eq!(place.outstanding(9), (8, 8));
        assert_eq!(place.arrived(7), Arrival::Next { lost: 0, gapped: 5 });
        assert_eq!((place.holes(), place.arrived(9)), (0, IN_ORDER));
        assert_eq!(place.holes(), 1, "a gap covers what is missing once");
        place.gap();
        assert_eq!(place.arrived(100), Arrival::Next { lost: 1, gapped: 90 }, "what was lost before it stays so");
    }

    /// Against sets, whatever comes.
    #[test]
    fn the_account_is_that_of_a_simple_one() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (mut place, mut lost, mut came, mut top) = (Place::default(), 0, BTreeSet::new(), 0u32);
            for _ in 0..500 {
                let number = match random.below(10) {
                    0 => top + 2 + random.below(3),
                    1 => top + 1 + random.below(80),
                    2 | 3 if top > 1 => top - random.below(top.min(30)),
                    _ => top + 1,
                };
                let wanted = if number > top {
                    top = number;
                    None
                } else if came.contains(&number) {
                    Some(Arrival::Duplicate)
                } else {
                    Some(Arrival::Reordered)
                };
                match place.arrived(number) {
                    Arrival::Next { lost: more, gapped: 0 } => {
                        assert_eq!(wanted, None, "seed {seed}");
                        lost += more;
                    }
                    other => assert_eq!(Some(other), wanted, "seed {seed}, {number} of {top}"),
                }
                came.insert(number);
                let missing = (1..=top).filter(|number| !came.contains(number)).count() as u32;
                assert_eq!(lost + place.holes(), missing, "seed {seed}");
            }
        }
    }
}

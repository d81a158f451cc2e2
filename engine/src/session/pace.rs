//! The rate limit of an account. Each stanza of its clients goes into a bucket, which drains at the
//! account's rate. While more than the burst is in it, none of the account's sessions is read from.

/// Bytes of a stanza that count as one more stanza, because long ones cost more to read, send and
/// store.
pub const STANZA_PIECE_BYTES: usize = 4_096;

/// What one account may send, over all its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Sustained rate in stanzas per second; 0 sets no limit.
    pub a_second: u32,
    /// Stanzas that may arrive at once: [`BURST_MAX`] at most.
    pub burst: u32,
}

/// Largest burst that a bucket can count.
pub const BURST_MAX: u32 = 1_000_000;

/// The allowances of ordinary accounts and of accounts that the operator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowances {
    /// The allowance of an ordinary account.
    pub ordinary: Allowance,
    /// The allowance of administrators and of accounts that the operator names.
    pub busy: Allowance,
}

impl Allowances {
    /// No limits.
    pub const NONE: Allowances = Allowances {
        ordinary: Allowance { a_second: 0, burst: BURST_MAX },
        busy: Allowance { a_second: 0, burst: BURST_MAX },
    };

    /// A rate that no person reaches, and 25 times as much for busy accounts.
    pub const USUAL: Allowances = Allowances {
        ordinary: Allowance { a_second: 20, burst: 200 },
        busy: Allowance { a_second: 500, burst: 5_000 },
    };
}

/// An account that was held back continues when stanzas of this time, milliseconds, or half a burst
/// if that is less, may arrive. Continuing after each stanza would cost as much as the stanza.
const GOES_ON_MS: u32 = 250;

/// Unit of a bucket's level: one stanza per second is one of these per millisecond.
const PARTS: u32 = 1_000;

/// Set in a level while the bucket drains as that of a busy account.
const BUSY: u32 = 1 << 31;

/// One account's bucket: 8 bytes per user in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// When it last drained, lower bits of milliseconds. An account that returns after 49 days may
    /// find it less drained than it should be, but never fuller than it was.
    drained_ms: u32,
    /// Its content, in [`PARTS`], with [`BUSY`].
    level: u32,
}

const _: () = assert!(size_of::<Pace>() == 8 && (BURST_MAX as u64) * (PARTS as u64) < BUSY as u64);

impl Pace {
    #[inline]
    fn allowance(self, may: &Allowances) -> Allowance {
        if self.level & BUSY == 0 { may.ordinary } else { may.busy }
    }

    fn parts(self) -> u32 {
        self.level & !BUSY
    }

    /// Drains the bucket by the time that has passed. An empty bucket is that of an ordinary
    /// account again, so that the operator's list is consulted anew.
    #[inline]
    fn drain(&mut self, now_ms: u32, may: Allowance) {
        let passed_ms = now_ms.wrapping_sub(self.drained_ms);
        let drained = u64::from(passed_ms) * u64::from(may.a_second);
        self.drained_ms = now_ms;
        self.level = if drained >= u64::from(self.parts()) { 0 } else { self.level - drained as u32 };
    }

    /// Adds a stanza of `bytes` bytes. Returns whether the account is within its allowance.
    #[inline]
    pub fn spend(&mut self, now_ms: u32, bytes: usize, may: &Allowances) -> bool {
        let allowance = self.allowance(may);
        if allowance.a_second == 0 {
            return true;
        }
        self.drain(now_ms, allowance);
        let cost = PARTS * (1 + (bytes / STANZA_PIECE_BYTES).min(BURST_MAX as usize) as u32);
        self.level = (self.level & BUSY) | self.parts().saturating_add(cost).min(BUSY - 1);
        self.parts() <= PARTS * allowance.burst
    }

    /// Sets whether the account has the busy allowance, until the bucket is empty.
    pub fn set_busy(&mut self, busy: bool) {
        self.level = self.parts() | if busy { BUSY } else { 0 };
    }

    /// Milliseconds until an account that exceeds its allowance is within it; 0 if it does not
    /// exceed it.
    pub fn held_ms(&mut self, now_ms: u32, may: &Allowances) -> u64 {
        let Allowance { a_second, burst } = self.allowance(may);
        if a_second == 0 || self.is_empty(now_ms, may) {
            return 0;
        }
        self.ms_above(PARTS * burst, a_second)
    }

    /// Milliseconds until an account that is held back continues; 0 if it may continue now.
    pub fn goes_on_ms(&mut self, now_ms: u32, may: &Allowances) -> u64 {
        let Allowance { a_second, burst } = self.allowance(may);
        if a_second == 0 || self.is_empty(now_ms, may) {
            return 0;
        }
        let room = (PARTS * burst / 2).min(a_second.saturating_mul(GOES_ON_MS));
        self.ms_above(PARTS * burst - room, a_second)
    }

    fn ms_above(self, level: u32, a_second: u32) -> u64 {
        u64::from(self.parts().saturating_sub(level)).div_ceil(u64::from(a_second))
    }

    /// Whether it is empty, and may be forgotten.
    pub fn is_empty(&mut self, now_ms: u32, may: &Allowances) -> bool {
        let allowance = self.allowance(may);
        if allowance.a_second == 0 {
            *self = Pace::default();
        } else {
            self.drain(now_ms, allowance);
        }
        self.parts() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAY: Allowances = Allowances::USUAL;

    /// Number of stanzas of this size that pass at once.
    fn pass(pace: &mut Pace, now_ms: u32, bytes: usize, may: &Allowances) -> usize {
        (0..100_000).take_while(|_| pace.spend(now_ms, bytes, may)).count()
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut pace = Pace::default();
        assert_eq!(pass(&mut pace, 7, 100, &MAY), 200);
        assert_eq!(pace.held_ms(7, &MAY), 50, "one is over");
        assert_eq!(pace.goes_on_ms(7, &MAY), 50 + 250, "then five may come");
        assert_eq!(pace.goes_on_ms(7 + 300, &MAY), 0);
        assert_eq!(pass(&mut pace, 7 + 300, 100, &MAY), 5);
        assert!(!pace.is_empty(10_000, &MAY));
        assert!(pace.is_empty(10_500, &MAY));
    }

    #[test]
    fn long_stanzas_count_for_their_bytes() {
        assert_eq!(pass(&mut Pace::default(), 0, STANZA_PIECE_BYTES - 1, &MAY), 200);
        assert_eq!(pass(&mut Pace::default(), 0, STANZA_PIECE_BYTES, &MAY), 100);
        assert_eq!(pass(&mut Pace::default(), 0, 262_144, &MAY), 3, "65 each");
        let mut pace = Pace::default();
        pace.spend(0, usize::MAX, &MAY);
        pace.spend(0, usize::MAX, &MAY);
        assert!(pace.held_ms(0, &MAY) < 2 * u64::from(BUSY), "it is full, and turns into nothing else");
    }

    #[test]
    fn a_busy_account_may_send_more_until_it_has_rested() {
        let mut pace = Pace::default();
        assert_eq!(pass(&mut pace, 0, 100, &MAY), 200);
        pace.set_busy(true);
        assert_eq!(pace.held_ms(0, &MAY), 0);
        assert_eq!(pass(&mut pace, 0, 100, &MAY), 5_000 - 201);
        assert_eq!(pace.held_ms(0, &MAY), 2);
        assert!(pace.is_empty(20_000, &MAY));
        assert_eq!(pass(&mut pace, 20_000, 100, &MAY), 200, "whether it is one is looked at again");
    }

    #[test]
    fn no_limit_and_a_clock_that_wraps_hold_nobody() {
        let none = Allowances { ordinary: Allowance { a_second: 0, burst: 1 }, ..MAY };
        assert_eq!(pass(&mut Pace::default(), 0, 100, &none), 100_000);
        let mut pace = Pace::default();
        assert_eq!(pass(&mut pace, u32::MAX - 99, 100, &MAY), 200);
        assert_eq!(pace.held_ms(u32::MAX - 99, &MAY), 50);
        assert_eq!(pace.goes_on_ms(200, &MAY), 0, "300 ms later");
        let mut full = pace;
        assert_eq!(full.held_ms(200, &none), 0, "the limit was lifted");
    }
}

//! Coarse timers of very many clients: a wheel of buckets, with eight bytes per entry and nothing
//! for a client without one.

/// Milliseconds of a tick.
pub(crate) const TICK_MS: u32 = 20;

/// Buckets; a time further off goes round once or more.
const BUCKETS: usize = 2048;

/// When something is due, in ticks since the start of the run.
pub(crate) type Tick = u32;

/// See the module. Entries cannot be cancelled: the receiver of an expired entry decides whether it
/// is still valid.
#[derive(Debug)]
pub(crate) struct Wheel {
    /// Bounded by what was asked for: one entry a client and change of its mind.
    buckets: Vec<Vec<(u32, Tick)>>,
    now: Tick,
}

impl Wheel {
    /// Nothing to come.
    pub(crate) fn new() -> Wheel {
        Wheel { buckets: vec![Vec::new(); BUCKETS], now: 0 }
    }

    /// Sets a client's time; one that has gone by comes with the next tick. Returns the tick that
    /// it will come with.
    pub(crate) fn set(&mut self, client: u32, due: Tick) -> Tick {
        let due = due.max(self.now + 1);
        self.buckets[due as usize % BUCKETS].push((client, due));
        due
    }

    /// Goes on to `now` and tells what has become due.
    pub(crate) fn advance(&mut self, now: Tick, due: &mut Vec<(u32, Tick)>) {
        while self.now < now {
            self.now += 1;
            let at = self.now;
            let bucket = &mut self.buckets[at as usize % BUCKETS];
            bucket.retain(|entry| {
                let comes = entry.1 == at;
                if comes {
                    due.push(*entry);
                }
                !comes
            });
            if bucket.is_empty() {
                *bucket = Vec::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_come_when_due_and_not_before_however_far() {
        let mut wheel = Wheel::new();
        let far = BUCKETS as Tick * 3 + 5;
        for (client, due) in [(1, 5), (2, 5), (3, far), (4, 0)] {
            wheel.set(client, due);
        }
        let mut due = Vec::new();
        wheel.advance(4, &mut due);
        assert_eq!(due, [(4, 1)], "a time gone by comes with the next tick");
        due.clear();
        wheel.advance(5, &mut due);
        assert_eq!(due, [(1, 5), (2, 5)]);
        due.clear();
        wheel.advance(far - 1, &mut due);
        assert!(due.is_empty());
        wheel.advance(far, &mut due);
        assert_eq!(due, [(3, far)]);
    }
}

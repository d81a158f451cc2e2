//! Waiting for more than one event, where there are more threads than cores.
//!
//! A thread that looks at each event alone pays for a switch, a system call or two and a look at all its queues each time;
//! with many threads on few cores that is more than the work itself. So a thread that has been busy for a while rests for a moment
//! before it looks again, however many events come meanwhile: its turns are bounded, and each has more to do. One that has
//! had time to wait looks at once, so that where little happens nothing is late.

use std::time::Duration;

/// Rest for each thread that a core has beyond the first, in microseconds.
const REST_US_A_THREAD: u64 = 100;

/// The longest rest that is chosen here, in microseconds.
const REST_US_MAX: u64 = 5_000;

/// So many short waits in a row make a busy thread: a message and what follows from it make fewer.
const BUSY: u8 = 8;

/// Completions that end a rest early.
pub(crate) const EVENTS: u32 = 32;

/// Decides for one thread when to rest.
#[derive(Clone, Copy, Debug)]
pub struct Gather {
    time: Duration,
    /// Waits in a row that were shorter than a rest.
    short: u8,
}

impl Gather {
    /// Rests of so long; none at all with zero.
    pub fn new(time: Duration) -> Gather {
        Gather { time, short: 0 }
    }

    /// How long each of `threads` should rest on `cores`: not at all as long as each can have its own.
    pub fn among(threads: u64, cores: u64) -> Duration {
        let beyond = threads.saturating_sub(cores).div_ceil(cores.max(1));
        Duration::from_micros((beyond * REST_US_A_THREAD).min(REST_US_MAX))
    }

    /// How long to rest now, of `timeout` at most; none if the thread is to wait for the next event right away.
    pub fn rest(&self, timeout: Option<Duration>) -> Option<Duration> {
        let time = timeout.map_or(self.time, |timeout| timeout.min(self.time));
        (self.short >= BUSY && !time.is_zero()).then_some(time)
    }

    /// A rest is over; whether anything has happened in it.
    pub fn rested(&mut self, any: bool) {
        if !any {
            self.short = 0;
        }
    }

    /// The thread has waited so long for the next event.
    pub fn waited(&mut self, time: Duration) {
        self.short = if time <= self.time { self.short.saturating_add(1) } else { 0 };
    }

    /// Whether it ever rests, so that it is worth looking at the clock.
    pub fn is_on(&self) -> bool {
        !self.time.is_zero()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_rests_who_has_a_core() {
        for (threads, cores, us) in [(1, 2, 0), (2, 2, 0), (3, 2, 100), (4, 2, 100), (54, 2, 2_600), (4_096, 2, 5_000)]
        {
            assert_eq!(Gather::among(threads, cores), Duration::from_micros(us), "{threads} on {cores}");
        }
        let mut gather = Gather::new(Duration::ZERO);
        (0..BUSY).for_each(|_| gather.waited(Duration::ZERO));
        assert!(!gather.is_on() && gather.rest(None).is_none());
    }

    #[test]
    fn only_who_is_busy_rests() {
        let ms = Duration::from_millis;
        let busy = |gather: &mut Gather| (0..BUSY).for_each(|_| gather.waited(Duration::from_micros(10)));
        let mut gather = Gather::new(ms(1));
        assert_eq!(gather.rest(None), None, "the first event is taken at once");
        busy(&mut gather);
        gather.waited(ms(5));
        assert_eq!(gather.rest(None), None, "and so is one that comes after a while");
        (1..BUSY).for_each(|_| gather.waited(Duration::from_micros(10)));
        assert_eq!(gather.rest(None), None, "a few in a row are a message's");
        busy(&mut gather);
        assert_eq!(gather.rest(None), Some(ms(1)));
        assert_eq!(gather.rest(Some(Duration::from_micros(300))), Some(Duration::from_micros(300)));
        assert_eq!(gather.rest(Some(Duration::ZERO)), None);
        gather.rested(true);
        assert_eq!(gather.rest(None), Some(ms(1)), "as long as something happens");
        gather.rested(false);
        assert_eq!(gather.rest(None), None);
    }
}

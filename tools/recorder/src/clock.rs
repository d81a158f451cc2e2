//! The only module of the crate that reads a clock or waits.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::recorder::{Event, Recorder};

/// How far the process assumes the wall clock to be ahead, in microseconds: for tests that set a
/// clock.
#[cfg(debug_assertions)]
static AHEAD_US: AtomicI64 = AtomicI64::new(0);

/// Sets the wall clock this many microseconds ahead of the host's. Only in builds with debug
/// assertions.
#[cfg(debug_assertions)]
pub fn plant_wall(ahead_us: i64) {
    AHEAD_US.store(ahead_us, Ordering::Relaxed);
}

/// Microseconds since 1970 (UTC).
pub fn wall_us() -> u64 {
    let wall_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64);
    #[cfg(debug_assertions)]
    let wall_us = wall_us.saturating_add_signed(AHEAD_US.load(Ordering::Relaxed));
    wall_us
}

/// Milliseconds since 1970 (UTC).
pub fn wall_ms() -> u64 {
    wall_us() / 1_000
}

/// The same in seconds.
pub fn wall_s() -> u64 {
    wall_us() / 1_000_000
}

/// Microseconds of the monotonic clock.
pub fn monotonic_us() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// A request to end, for a waiting thread.
#[derive(Debug, Default)]
pub struct Stop {
    wished: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn wished(&self) -> MutexGuard<'_, bool> {
        self.wished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests the end.
    pub fn set(&self) {
        *self.wished() = true;
        self.changed.notify_all();
    }

    /// Whether the end is requested.
    pub fn is_set(&self) -> bool {
        *self.wished()
    }

    /// Waits for this time, or until the end is requested. Returns whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.wished(), time, |wished| !*wished);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Moments at a regular interval; missed ones are left out.
#[derive(Debug)]
pub struct Pace {
    interval_us: u64,
    next_us: u64,
}

impl Pace {
    /// From now on, aligned with the second of the wall clock.
    pub fn new(interval: Duration) -> Pace {
        let interval_us = (interval.as_micros() as u64).max(1);
        let ahead = interval_us - wall_ms() * 1000 % interval_us;
        Pace { interval_us, next_us: monotonic_us() + ahead }
    }

    /// The first moment is now.
    pub fn at_once(interval: Duration) -> Pace {
        Pace { interval_us: (interval.as_micros() as u64).max(1), next_us: monotonic_us() }
    }

    /// Waits for the next moment. Returns false if the end is requested.
    pub fn wait(&mut self, stop: &Stop) -> bool {
        let now_us = monotonic_us();
        if now_us >= self.next_us {
            let late = (now_us - self.next_us) / self.interval_us + 1;
            self.next_us += if late > 1 { late * self.interval_us } else { 0 };
        }
        let wait = Duration::from_micros(self.next_us.saturating_sub(now_us));
        self.next_us += self.interval_us;
        !stop.wait(wait)
    }
}

/// Records until the end is requested; `told` receives events for an operator.
pub fn run(recorder: &mut Recorder, interval: Duration, stop: &Stop, told: &mut dyn FnMut(Event)) {
    let mut pace = Pace::new(interval);
    while pace.wait(stop) {
        if let Some(event) = recorder.tick(wall_ms(), monotonic_us()) {
            told(event);
        }
    }
    recorder.stop(wall_ms());
}

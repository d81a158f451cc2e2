//! The process's clocks, and the guard of the wall clock ([`throng_engine::clock`]) with its mark
//! on disk.
//!
//! All threads share one [`Clock`]. A separate thread checks once per second whether the wall clock
//! is plausible, and writes the mark once a minute and at shutdown, so that the next process knows
//! what time to expect. While the wall clock is ahead, [`expiry_us`] decides at each reading which
//! time counts: a jump ahead does no harm before the guard's next check.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use throng_engine::clock::{Guard, Mark, News, expiry_us};
use throng_engine::id::Now;
use throng_recorder::clock::wall_us;

use crate::waits::{self, Mutex, Place};

/// Time between two checks.
const EVERY: Duration = Duration::from_secs(1);
/// Checks between two marks: a mark left by a crash is not older.
const LOOKS_PER_MARK: u32 = 60;
/// The mark, in the data folder: the expected time, the wall clock's distance from it, and how long
/// that has been in doubt, in microseconds.
pub const FILE: &str = "clock";

/// The clock of all threads.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    /// The guard's value, for [`expiry_us`].
    expected_us: &'static AtomicI64,
}

impl Clock {
    /// Starts now, with a trusted wall clock. A process creates one; it leaks a little memory.
    pub fn start() -> Clock {
        let clock = Clock { started: Instant::now(), expected_us: Box::leak(Box::default()) };
        clock.expect(Guard::new(0, wall_us(), None).0.expected_us());
        clock
    }

    fn expect(&self, expected_us: i64) {
        self.expected_us.store(expected_us, Ordering::Relaxed);
    }

    fn mono_us(&self, now: Instant) -> u64 {
        now.duration_since(self.started).as_micros() as u64
    }

    /// The current time.
    pub fn now(&self) -> Now {
        self.at(Instant::now())
    }

    /// The time at a monotonic instant a moment ago.
    pub fn at(&self, now: Instant) -> Now {
        let (mono_us, wall_us) = (self.mono_us(now), wall_us());
        let expiry_us = expiry_us(mono_us, wall_us, self.expected_us.load(Ordering::Relaxed));
        Now { mono_ms: mono_us / 1_000, wall_us, expiry_us }
    }
}

/// The doubt about the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubt {
    /// Seconds that it is ahead of the expected time; negative if it is behind.
    pub ahead_s: i64,
    /// Seconds until it is trusted, if it stays consistent.
    pub left_s: u64,
}

/// The guard, its file, and its clock.
pub struct Watch {
    clock: Clock,
    guard: Mutex<Guard>,
    file: PathBuf,
}

impl Watch {
    /// Starts with the mark of an earlier process in the data folder.
    pub fn open(data: &Path) -> Watch {
        let (clock, file) = (Clock::start(), data.join(FILE));
        let (guard, news) = Guard::new(clock.mono_us(Instant::now()), wall_us(), read(&file));
        clock.expect(guard.expected_us());
        let watch = Watch { clock, guard: Mutex::new(Place::LockClock, guard), file };
        if let Some(news) = news {
            watch.report(news);
        }
        watch.write();
        watch
    }

    /// The clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The current time.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// Both times now, in microseconds.
    fn times(&self) -> (u64, u64) {
        (self.clock.mono_us(Instant::now()), wall_us())
    }

    fn look(&self) {
        let (mono_us, wall_us) = self.times();
        let mut guard = self.guard.lock();
        let news = guard.look(mono_us, wall_us);
        self.clock.expect(guard.expected_us());
        drop(guard);
        if let Some(news) = news {
            self.report(news);
            self.write();
        }
    }

    /// Confirms the wall clock for the operator. Returns the seconds that it was ahead, if it was
    /// in doubt.
    pub fn confirm(&self) -> Option<i64> {
        let (mono_us, wall_us) = self.times();
        let mut guard = self.guard.lock();
        guard.doubt()?;
        let was_us = guard.confirm(mono_us, wall_us)?;
        self.clock.expect(guard.expected_us());
        drop(guard);
        self.write();
        tracing::warn!(ahead_s = was_us / 1_000_000, "the operator has confirmed the clock: deletion by age continues");
        Some(was_us / 1_000_000)
    }

    /// The doubt about the wall clock, if there is one.
    pub fn doubt(&self) -> Option<Doubt> {
        let doubt = self.guard.lock().doubt()?;
        let left_us = doubt.left_us(self.clock.mono_us(Instant::now()));
        Some(Doubt { ahead_s: doubt.off_us / 1_000_000, left_s: left_us.div_ceil(1_000_000) })
    }

    fn report(&self, news: News) {
        match news {
            News::Jumped(us) => tracing::warn!(seconds = us / 1_000_000, "the wall clock was set"),
            News::Doubted(doubt) if doubt.off_us > 0 => {
                let left_s = doubt.left_us(self.clock.mono_us(Instant::now())) / 1_000_000;
                tracing::error!(
                    ahead_s = doubt.off_us / 1_000_000,
                    left_s,
                    "the wall clock is far ahead of the expected time: deletion by age is paused \
                     until the clock is corrected, has been steady for long enough, or is \
                     confirmed by `throng ctl clock confirm`"
                );
            }
            News::Doubted(doubt) => tracing::error!(
                behind_s = -(doubt.off_us / 1_000_000),
                "the wall clock is far behind the expected time: timestamps are wrong until it is \
                 corrected"
            ),
            News::Agrees => tracing::warn!("the wall clock is close to the expected time again"),
            News::Kept(us) => tracing::warn!(
                ahead_s = us / 1_000_000,
                "the wall clock has been steady for long enough and is trusted: deletion by age \
                 continues"
            ),
        }
    }

    /// Writes the mark. If that fails, an older one stays, which causes more doubt, not less.
    fn write(&self) {
        let mark = self.guard.lock().mark(self.clock.mono_us(Instant::now()));
        if let Err(error) = write(&self.file, mark) {
            tracing::warn!(%error, file = %self.file.display(), "the clock's state could not be saved");
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.write();
    }
}

/// Starts the thread that checks the clock.
///
/// # Errors
/// A thread cannot be created.
pub fn watch(watch: std::sync::Arc<Watch>) -> io::Result<waits::Repeated> {
    let mut looks = 0;
    waits::repeat("clock", EVERY, move || {
        #[cfg(debug_assertions)]
        crate::plant::set_wall();
        watch.look();
        looks = (looks + 1) % LOOKS_PER_MARK;
        if looks == 0 {
            watch.write();
        }
    })
}

/// The mark of an earlier process; `None` if it cannot be read.
fn read(file: &Path) -> Option<Mark> {
    let text = fs::read_to_string(file).ok()?;
    let mut numbers = text.split_whitespace();
    let mark = Mark {
        expected_us: numbers.next()?.parse().ok()?,
        off_us: numbers.next()?.parse().ok()?,
        doubted_us: numbers.next()?.parse().ok()?,
    };
    numbers.next().is_none().then_some(mark)
}

fn write(file: &Path, mark: Mark) -> io::Result<()> {
    let unfinished = file.with_extension("unfinished");
    let mut made = fs::File::create(&unfinished)?;
    writeln!(made, "{} {} {}", mark.expected_us, mark.off_us, mark.doubted_us)?;
    made.sync_data()?;
    fs::rename(&unfinished, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_reads_back_and_what_is_none_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        assert_eq!(read(&file), None);
        let mark = Mark { expected_us: 1_700_000_000_000_000, off_us: -7, doubted_us: 5 };
        write(&file, mark).expect("written");
        assert_eq!(read(&file), Some(mark));
        for torn in ["", "1", "1 2", "1 2 x", "1 2 3 4"] {
            fs::write(&file, torn).expect("written");
            assert_eq!(read(&file), None, "{torn}");
        }
    }

    #[test]
    fn a_mark_of_long_ago_is_doubted_until_the_operator_confirms() {
        let folder = tempfile::tempdir().expect("a folder");
        let month_us = 31 * 86_400_000_000;
        let then = Mark { expected_us: wall_us() - month_us, ..Mark::default() };
        write(&folder.path().join(FILE), then).expect("written");
        let watch = Watch::open(folder.path());
        let now = watch.clock().now();
        assert!(now.wall_us.abs_diff(now.expiry_us + month_us) < 60_000_000, "{now:?}");
        assert!(watch.doubt().is_some_and(|doubt| doubt.ahead_s.abs_diff(31 * 86_400) < 60));
        drop(watch);
        // The next process keeps the doubt.
        let watch = Watch::open(folder.path());
        assert!(watch.doubt().is_some());
        assert!(watch.confirm().is_some_and(|ahead_s| ahead_s.abs_diff(31 * 86_400) < 60));
        let now = watch.clock().now();
        assert_eq!((now.wall_us, watch.confirm()), (now.expiry_us, None));
        drop(watch);
        assert!(Watch::open(folder.path()).doubt().is_none());
    }
}

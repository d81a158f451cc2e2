//! The guard of the wall clock: a wrongly set clock must not destroy data.
//!
//! Everything that deletes by age uses [`Now::expiry_us`](crate::id::Now::expiry_us). That is the
//! wall clock's time, unless the clock is far ahead of the expected time. The expected time is what
//! the process has seen before, plus the time counted by its monotonic clock since then. At a start
//! it is the durable mark of the previous process. While the clock is in doubt, the expected time
//! is used. It advances with the monotonic clock, so nothing is deleted unless it is old by both.
//!
//! A doubt ends when the clock agrees again, when the operator confirms its time, or when the clock
//! has kept its time for as long as its offset, at most a week. A clock that is far behind needs no
//! delay, because nothing looks old by it. It is in doubt all the same, so that the correct time is
//! not doubted when it returns.
//!
//! Time stamps come from the wall clock, and a stamp in the future counts as now. Access control
//! uses the wall clock: expired grants, invitations and slots are not accepted. Login tokens are
//! the exception, because a client discards its token when it is reported as expired.

/// Maximum offset of the wall clock from the expected time without doubt: an hour, microseconds.
pub const DOUBT_US: u64 = 3_600_000_000;

/// Maximum duration of a doubt: a week, microseconds.
pub const DOUBT_US_MAX: u64 = 7 * 24 * 3_600_000_000;

/// Minimum jump that is reported: a minute, microseconds.
const JUMP_US: u64 = 60_000_000;

/// The state that the next process needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mark {
    /// The expected time, microseconds since the Unix epoch.
    pub expected_us: u64,
    /// Offset of the wall clock from the expected time while it is in doubt, microseconds, positive
    /// if it is ahead; otherwise 0.
    pub off_us: i64,
    /// Duration of the doubt so far, microseconds.
    pub doubted_us: u64,
}

/// A doubt about the wall clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doubt {
    /// Offset from the expected time when the doubt began, microseconds; positive if the clock was
    /// ahead.
    pub off_us: i64,
    /// When it began, microseconds of the monotonic clock; negative if in an earlier process.
    since_us: i64,
}

impl Doubt {
    /// How long the clock must keep its time until it is trusted: as long as its offset, at most
    /// [`DOUBT_US_MAX`].
    fn lasts_us(&self) -> u64 {
        self.off_us.unsigned_abs().min(DOUBT_US_MAX)
    }

    /// Microseconds until the clock is trusted, by the monotonic clock.
    pub fn left_us(&self, mono_us: u64) -> u64 {
        self.lasts_us().saturating_sub(self.doubted_us(mono_us))
    }

    fn doubted_us(&self, mono_us: u64) -> u64 {
        u64::try_from(signed(mono_us) - self.since_us).unwrap_or(0)
    }
}

/// The result of a check of the clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum News {
    /// The clock was set by this many microseconds, and is trusted.
    Jumped(i64),
    /// The clock is in doubt from now on.
    Doubted(Doubt),
    /// The clock is close to the expected time again.
    Agrees,
    /// The clock has kept its time for long enough, at this offset in microseconds from the
    /// expected time.
    Kept(i64),
}

/// Watches a wall clock with the help of a monotonic one.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The expected time minus the monotonic one.
    expected_us: i64,
    /// The wall clock's time minus the monotonic one, at the last check.
    last_us: i64,
    doubt: Option<Doubt>,
}

/// Times up to thousands of centuries fit.
fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX / 2)
}

/// The time for expiry, from both clocks and [`Guard::expected_us`].
#[inline]
pub fn expiry_us(mono_us: u64, wall_us: u64, expected_us: i64) -> u64 {
    let now_us = u64::try_from(signed(mono_us).saturating_add(expected_us)).unwrap_or(0);
    if wall_us > now_us.saturating_add(DOUBT_US) { now_us } else { wall_us }
}

impl Guard {
    /// Starts the guard with the mark of an earlier process. Without a mark the wall clock is
    /// trusted.
    pub fn new(mono_us: u64, wall_us: u64, mark: Option<Mark>) -> (Guard, Option<News>) {
        let at_us = signed(wall_us) - signed(mono_us);
        let mut guard = Guard { expected_us: at_us, last_us: at_us, doubt: None };
        let Some(mark) = mark else { return (guard, None) };
        guard.expected_us = signed(mark.expected_us) - signed(mono_us);
        if mark.off_us != 0 {
            guard.doubt = Some(Doubt { off_us: mark.off_us, since_us: signed(mono_us) - signed(mark.doubted_us) });
        }
        let news = guard.look(mono_us, wall_us);
        let still = guard.doubt.map(News::Doubted);
        (guard, news.or(still))
    }

    /// Checks both clocks. It must be called often: changes of the wall clock within [`DOUBT_US`]
    /// of one check are trusted at the next.
    pub fn look(&mut self, mono_us: u64, wall_us: u64) -> Option<News> {
        let at_us = signed(wall_us) - signed(mono_us);
        let jumped_us = at_us - std::mem::replace(&mut self.last_us, at_us);
        let off_us = at_us - self.expected_us;
        if off_us.unsigned_abs() <= DOUBT_US {
            self.expected_us = at_us;
            return match self.doubt.take() {
                Some(_) => Some(News::Agrees),
                None => (jumped_us.unsigned_abs() >= JUMP_US).then_some(News::Jumped(jumped_us)),
            };
        }
        match self.doubt {
            Some(doubt) if doubt.off_us.abs_diff(off_us) <= DOUBT_US => {
                let kept = doubt.left_us(mono_us) == 0;
                kept.then(|| {
                    self.confirm(mono_us, wall_us);
                    News::Kept(off_us)
                })
            }
            _ => {
                let doubt = Doubt { off_us, since_us: signed(mono_us) };
                self.doubt = Some(doubt);
                Some(News::Doubted(doubt))
            }
        }
    }

    /// Records the operator's confirmation that the wall clock is right. Returns its offset from
    /// the expected time if it was in doubt.
    pub fn confirm(&mut self, mono_us: u64, wall_us: u64) -> Option<i64> {
        let at_us = signed(wall_us) - signed(mono_us);
        (self.expected_us, self.last_us) = (at_us, at_us);
        self.doubt.take().map(|doubt| doubt.off_us)
    }

    /// The expected time minus the monotonic one, for [`expiry_us`].
    pub fn expected_us(&self) -> i64 {
        self.expected_us
    }

    /// The doubt, if the clock is in doubt.
    pub fn doubt(&self) -> Option<Doubt> {
        self.doubt
    }

    /// The state that the next process needs.
    pub fn mark(&self, mono_us: u64) -> Mark {
        let expected_us = u64::try_from(signed(mono_us) + self.expected_us).unwrap_or(0);
        match self.doubt {
            None => Mark { expected_us, ..Mark::default() },
            Some(doubt) => Mark { expected_us, off_us: doubt.off_us, doubted_us: doubt.doubted_us(mono_us) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const DAY: u64 = 86_400 * SECOND;
    /// In November 2023.
    const THEN: u64 = 1_700_000_000 * SECOND;

    fn guard() -> Guard {
        Guard::new(0, THEN, None).0
    }

    fn expiry(guard: &Guard, mono_us: u64, wall_us: u64) -> u64 {
        expiry_us(mono_us, wall_us, guard.expected_us())
    }

    #[test]
    fn a_clock_that_is_adjusted_is_followed_and_its_jumps_are_reported() {
        let mut guard = guard();
        assert_eq!(guard.look(SECOND, THEN + SECOND), None);
        assert_eq!(guard.look(2 * SECOND, THEN + 62 * SECOND), Some(News::Jumped(60 * SECOND as i64)));
        assert_eq!(guard.look(3 * SECOND, THEN - 3_000 * SECOND), Some(News::Jumped(-3_063 * SECOND as i64)));
        assert_eq!((expiry(&guard, 4 * SECOND, THEN), guard.doubt()), (THEN, None));
        // Clocks that drift apart by a second per day.
        guard.confirm(4 * SECOND, THEN + 4 * SECOND);
        for n in 1..10_000 {
            assert_eq!(guard.look(n * (DAY - SECOND), THEN + n * DAY), None);
        }
    }

    #[test]
    fn a_jump_ahead_makes_nothing_old_before_the_next_look_and_after_it() {
        let mut guard = guard();
        let ahead = THEN + 31 * DAY;
        assert_eq!(expiry(&guard, SECOND, ahead), THEN + SECOND, "nobody has looked yet");
        let Some(News::Doubted(doubt)) = guard.look(SECOND, ahead) else { panic!("believed") };
        assert_eq!((doubt.off_us, doubt.left_us(SECOND)), ((31 * DAY - SECOND) as i64, 7 * DAY));
        assert_eq!(guard.look(DAY, ahead + DAY), None);
        assert_eq!(expiry(&guard, DAY, ahead + DAY), THEN + DAY, "it goes on at the monotonic pace");
        assert_eq!(guard.look(DAY + SECOND, THEN + DAY), Some(News::Agrees));
        assert_eq!(expiry(&guard, DAY + SECOND, THEN + DAY), THEN + DAY);
    }

    #[test]
    fn a_time_that_is_kept_for_long_or_confirmed_is_believed() {
        for (off, lasts) in [(2 * 3_600 * SECOND, 2 * 3_600 * SECOND), (31 * DAY, 7 * DAY)] {
            let mut guard = guard();
            assert!(matches!(guard.look(0, THEN + off), Some(News::Doubted(_))));
            assert_eq!(guard.look(lasts - 1, THEN + off + lasts - 1), None);
            assert_eq!(guard.look(lasts, THEN + off + lasts), Some(News::Kept(off as i64)));
            assert_eq!(expiry(&guard, lasts, THEN + off + lasts), THEN + off + lasts);
        }
        let mut guard = guard();
        guard.look(0, THEN + 31 * DAY);
        assert_eq!(guard.confirm(SECOND, THEN + 31 * DAY), Some((31 * DAY) as i64));
        assert_eq!((expiry(&guard, SECOND, THEN + 31 * DAY), guard.doubt()), (THEN + 31 * DAY, None));
        assert_eq!(guard.confirm(SECOND, THEN + 31 * DAY), None, "there was no doubt");
    }

    #[test]
    fn a_restart_goes_on_where_the_last_process_was() {
        let mut before = guard();
        before.look(DAY, THEN + DAY);
        let mark = before.mark(DAY);
        assert_eq!(mark, Mark { expected_us: THEN + DAY, ..Mark::default() });
        // It was down for some minutes: the wall clock is trusted.
        let later = THEN + DAY + 600 * SECOND;
        let (guard, news) = Guard::new(5, later, Some(mark));
        assert_eq!((news, expiry(&guard, 5, later)), (None, later));
        // It boots 31 days ahead.
        let ahead = THEN + 32 * DAY;
        let (guard, news) = Guard::new(5, ahead, Some(mark));
        assert!(matches!(news, Some(News::Doubted(_))));
        assert_eq!(expiry(&guard, 5, ahead), THEN + DAY);
        // Another restart does not restart the doubt, and reports it again.
        let mark = guard.mark(6 * DAY + 5);
        assert_eq!((mark.expected_us, mark.doubted_us), (THEN + 7 * DAY, 6 * DAY));
        let (mut again, news) = Guard::new(5, ahead + 6 * DAY, Some(mark));
        assert_eq!(news, again.doubt().map(News::Doubted));
        assert_eq!(again.doubt().map(|doubt| doubt.left_us(5)), Some(DAY));
        assert!(matches!(again.look(DAY + 5, ahead + 7 * DAY), Some(News::Kept(_))));
    }

    #[test]
    fn a_clock_that_is_behind_ages_nothing_and_its_return_is_believed() {
        let mut guard = guard();
        let behind = THEN - 400 * DAY;
        assert!(matches!(guard.look(SECOND, behind), Some(News::Doubted(Doubt { off_us: ..0, .. }))));
        assert_eq!(expiry(&guard, SECOND, behind), behind);
        assert_eq!(guard.look(2 * SECOND, THEN + 2 * SECOND), Some(News::Agrees));
        // A host that boots in 1970 and is set soon.
        let (mut guard, news) = Guard::new(0, 0, Some(guard.mark(2 * SECOND)));
        assert!(matches!(news, Some(News::Doubted(_))));
        assert_eq!(guard.look(30 * SECOND, THEN + 60 * SECOND), Some(News::Agrees));
    }

    #[test]
    fn a_second_jump_is_doubted_anew() {
        let mut guard = guard();
        guard.look(0, THEN + 3 * DAY);
        assert_eq!(guard.look(2 * DAY, THEN + 5 * DAY), None);
        assert!(matches!(guard.look(2 * DAY, THEN + 40 * DAY), Some(News::Doubted(_))));
        assert_eq!(guard.look(4 * DAY, THEN + 42 * DAY), None);
    }
}

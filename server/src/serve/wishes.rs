//! Requests to the serving thread: from signals, the control socket and knobs. Each request is
//! stored once, so that none is lost, however many arrive.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::end;
use crate::waits::{self, Place};

/// Time allowed beyond the limits of a stop, for everything besides the shards.
const MARGIN: Duration = Duration::from_secs(5);

/// A request to the serving thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wanted {
    /// Stop, with this grace.
    Stop(Option<Duration>),
    /// Read certificates and knobs again.
    Reload,
    /// Recompute when the next knob reverts.
    Look,
}

#[derive(Default)]
struct Wished {
    stop: Option<Option<Duration>>,
    /// A scheduled stop, and its grace.
    later: Option<(Instant, Option<Duration>)>,
    reload: bool,
    look: bool,
}

/// All pending requests.
#[derive(Default)]
pub(super) struct Wishes {
    wished: Mutex<Wished>,
    changed: Condvar,
    /// The configured grace of a stop, milliseconds.
    grace_ms: AtomicU64,
    hard_ms: AtomicU64,
    /// Whether the store is closed: then nothing that is left counts as cut off.
    closed: AtomicBool,
}

impl Wishes {
    fn wished(&self) -> MutexGuard<'_, Wished> {
        self.wished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the default times of a stop.
    pub(super) fn set_times(&self, grace: Duration, hard: Duration) {
        self.grace_ms.store(grace.as_millis() as u64, Ordering::Relaxed);
        self.hard_ms.store(hard.as_millis() as u64, Ordering::Relaxed);
    }

    /// Time for streams to close.
    pub(super) fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms.load(Ordering::Relaxed))
    }

    /// Time for the rest after that.
    pub(super) fn hard(&self) -> Duration {
        Duration::from_millis(self.hard_ms.load(Ordering::Relaxed))
    }

    /// The longest time of a stop with this grace.
    pub(super) fn most(&self, grace: Duration) -> Duration {
        grace + self.hard() + MARGIN
    }

    /// Requests a stop, which ends in time even if the serving thread is blocked. Returns false if
    /// one is requested already.
    pub(super) fn stop(self: &Arc<Wishes>, grace: Option<Duration>) -> bool {
        let mut wished = self.wished();
        if wished.stop.is_some() {
            return false;
        }
        wished.stop = Some(grace);
        drop(wished);
        self.changed.notify_all();
        let (most, own) = (self.most(grace.unwrap_or_else(|| self.grace())), self.clone());
        if let Err(error) = waits::spawn("deadline", move || own.end_after(most)) {
            tracing::warn!(%error, "nothing bounds the time of the stop: there can be no thread");
        }
        true
    }

    /// Schedules a stop, in place of an earlier schedule. Returns false if a stop is requested
    /// already.
    pub(super) fn stop_in(&self, after: Duration, grace: Option<Duration>) -> bool {
        let mut wished = self.wished();
        if wished.stop.is_some() {
            return false;
        }
        wished.later = Some((Instant::now() + after, grace));
        drop(wished);
        // The waiting thread must recompute its deadline.
        self.look();
        true
    }

    /// Cancels a scheduled stop. Returns false if there is none.
    pub(super) fn stay(&self) -> bool {
        self.wished().later.take().is_some()
    }

    /// Time until the scheduled stop, if there is one.
    pub(super) fn stops_in(&self) -> Option<Duration> {
        self.wished().later.map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    /// Ends the process after this time, whatever it is doing.
    fn end_after(&self, most: Duration) {
        let _at = waits::at(Place::Interval);
        std::thread::sleep(most);
        if self.closed.load(Ordering::Acquire) {
            end::at_once(
                0,
                "stopped; somebody at the control socket or the operator's HTTP still waited for an answer",
            );
        }
        end::at_once(end::CUT, &format!("cut off: the stop had not come to its end after {} s", most.as_secs()));
    }

    /// Wishes a reload.
    pub(super) fn reload(&self) {
        self.wished().reload = true;
        self.changed.notify_all();
    }

    /// Requests that the deadlines of knobs are checked.
    pub(super) fn look(&self) {
        self.wished().look = true;
        self.changed.notify_all();
    }

    /// Records that the store is closed.
    pub(super) fn closed(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// The next request, with stops first; `None` after this time.
    pub(super) fn next(self: &Arc<Wishes>, patience: Option<Duration>) -> Option<Wanted> {
        let _at = waits::at(Place::Wishes);
        let patience = patience.into_iter().chain(self.stops_in()).min();
        let nothing = |wished: &mut Wished| wished.stop.is_none() && !wished.reload && !wished.look;
        let mut wished = match patience {
            Some(patience) => {
                let waited = self.changed.wait_timeout_while(self.wished(), patience, nothing);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait_while(self.wished(), nothing).unwrap_or_else(PoisonError::into_inner),
        };
        let due = wished.later.filter(|(at, _)| *at <= Instant::now()).map(|(_, grace)| grace);
        if let Some(grace) = due.filter(|_| wished.stop.is_none()) {
            wished.later = None;
            drop(wished);
            self.stop(grace);
            return Some(Wanted::Stop(grace));
        }
        if let Some(grace) = wished.stop {
            return Some(Wanted::Stop(grace));
        }
        if std::mem::take(&mut wished.reload) {
            return Some(Wanted::Reload);
        }
        std::mem::take(&mut wished.look).then_some(Wanted::Look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_lost_behind_no_number_of_other_wishes_and_goes_first() {
        let wishes = Arc::new(Wishes::default());
        wishes.set_times(Duration::from_secs(3_600), Duration::ZERO);
        for _ in 0..100 {
            wishes.look();
            wishes.reload();
        }
        assert!(wishes.stop(None));
        assert!(!wishes.stop(None), "once");
        assert_eq!(wishes.next(None), Some(Wanted::Stop(None)));
    }

    #[test]
    fn each_wish_is_heard_once() {
        let wishes = Arc::new(Wishes::default());
        wishes.look();
        wishes.look();
        wishes.reload();
        assert_eq!([wishes.next(None), wishes.next(None)], [Some(Wanted::Reload), Some(Wanted::Look)]);
        assert_eq!(wishes.next(Some(Duration::ZERO)), None);
    }

    #[test]
    fn a_stop_that_is_to_come_is_put_off_and_called_off() {
        let wishes = Arc::new(Wishes::default());
        wishes.set_times(Duration::from_secs(3_600), Duration::ZERO);
        // A stop ends the process when its time is over, but not while other tests run.
        let (soon, grace) = (Duration::from_millis(20), Some(Duration::from_secs(7_200)));
        assert!(!wishes.stay() && wishes.stop_in(soon, None) && wishes.stay());
        assert_eq!((wishes.stops_in(), wishes.next(Some(2 * soon))), (None, Some(Wanted::Look)));
        assert_eq!(wishes.next(Some(2 * soon)), None, "it was called off");
        assert!(wishes.stop_in(soon, None) && wishes.stop_in(Duration::from_secs(3_600), None), "put off");
        assert_eq!((wishes.next(None), wishes.next(Some(2 * soon))), (Some(Wanted::Look), None));
        assert!(wishes.stop_in(soon, grace));
        assert_eq!((wishes.next(None), wishes.next(None)), (Some(Wanted::Look), Some(Wanted::Stop(grace))));
        assert!(!wishes.stop_in(soon, None) && !wishes.stay(), "it stops");
    }
}

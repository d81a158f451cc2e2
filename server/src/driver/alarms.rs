//! What a driver does because time has passed: it ends connections that have lingered, and accepts again after a rest.

use super::{ACCEPT_RETRY, ConnId, LINGER_BYTES};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// One driver's.
#[derive(Default)]
pub(super) struct Alarms {
    /// In the order of their times, as all linger equally long. Bounded by the slots.
    lingering: VecDeque<(Instant, ConnId)>,
    /// Bytes thrown away of those of them that still send.
    thrown: HashMap<ConnId, usize>,
    retry_at: Option<Instant>,
}

impl Alarms {
    /// The connection is to be ended after this time.
    pub(super) fn linger(&mut self, conn: ConnId, time: Duration) {
        self.lingering.push_back((Instant::now() + time, conn));
    }

    /// Counts bytes of a lingering connection that were thrown away: whether it has had as many as it may.
    pub(super) fn throw_away(&mut self, conn: ConnId, bytes: usize) -> bool {
        let thrown = self.thrown.entry(conn).or_default();
        *thrown += bytes;
        *thrown > LINGER_BYTES
    }

    /// Connections whose time is not over, also such as have gone before.
    #[cfg(test)]
    pub(super) fn lingering(&self) -> usize {
        self.lingering.len() + self.thrown.len()
    }

    /// Accepting is to be tried again after a moment.
    pub(super) fn rest(&mut self) {
        self.retry_at = Some(Instant::now() + ACCEPT_RETRY);
    }

    /// The time, if anything waits for one: otherwise there is no need to look at a clock.
    pub(super) fn look(&self) -> Option<Instant> {
        (!self.lingering.is_empty() || self.retry_at.is_some()).then(Instant::now)
    }

    /// Whether the rest is over; told once.
    pub(super) fn rested(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|at| *at <= now).is_some()
    }

    /// The next connection that has lingered long enough. Forgets those that `lingers` no longer knows.
    pub(super) fn due(&mut self, now: Instant, lingers: impl Fn(ConnId) -> bool) -> Option<ConnId> {
        while let Some(&(until, conn)) = self.lingering.front() {
            let there = lingers(conn);
            if there && until > now {
                return None;
            }
            self.lingering.pop_front();
            self.thrown.remove(&conn);
            if there {
                return Some(conn);
            }
        }
        None
    }

    /// How long until the next, if there is one.
    pub(super) fn next(&self, now: Instant) -> Option<Duration> {
        let first = self.lingering.front().map(|(until, _)| *until);
        first.into_iter().chain(self.retry_at).min().map(|at| at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_due_once_and_in_time() {
        let mut alarms = Alarms::default();
        assert!(alarms.look().is_none(), "no clock is read for nothing");
        let conns: Vec<ConnId> = (0..4).map(|slot| ConnId { slot, generation: 0 }).collect();
        let linger = Duration::from_secs(3);
        conns.iter().for_each(|conn| alarms.linger(*conn, linger));
        alarms.rest();
        let now = alarms.look().unwrap();
        // The first has gone by itself: what comes next is told by the others.
        assert_eq!(alarms.due(now, |conn| conn != conns[0]), None);
        assert!(alarms.next(now).unwrap() <= ACCEPT_RETRY && !alarms.rested(now));
        assert!(alarms.rested(now + ACCEPT_RETRY) && !alarms.rested(now + ACCEPT_RETRY));
        assert!(alarms.next(now).unwrap() > ACCEPT_RETRY);
        let later = now + linger;
        let due: Vec<ConnId> = std::iter::from_fn(|| alarms.due(later, |conn| conn != conns[2])).collect();
        assert_eq!(due, [conns[1], conns[3]]);
        assert!(alarms.next(later).is_none() && alarms.look().is_none());
    }
}

//! Timed work of a driver: it ends connections that have lingered, and resumes accepting after a
//! rest.

use super::{ACCEPT_RETRY, ConnId, LINGER_BYTES};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

/// The alarms of one driver.
#[derive(Default)]
pub(super) struct Alarms {
    /// Ordered by deadline, as all connections linger equally long. Bounded by the slots.
    lingering: VecDeque<(Instant, ConnId)>,
    /// Bytes discarded from lingering connections whose peers still send.
    thrown: HashMap<ConnId, usize>,
    retry_at: Option<Instant>,
}

impl Alarms {
    /// Schedules the end of the connection after this time.
    pub(super) fn linger(&mut self, conn: ConnId, time: Duration) {
        self.lingering.push_back((Instant::now() + time, conn));
    }

    /// Counts discarded bytes of a lingering connection. Returns whether it has reached its limit.
    pub(super) fn throw_away(&mut self, conn: ConnId, bytes: usize) -> bool {
        let thrown = self.thrown.entry(conn).or_default();
        *thrown += bytes;
        *thrown > LINGER_BYTES
    }

    /// Number of connections whose time is not over, including ones that have already closed.
    #[cfg(test)]
    pub(super) fn lingering(&self) -> usize {
        self.lingering.len() + self.thrown.len()
    }

    /// Schedules another attempt to accept after a moment.
    pub(super) fn rest(&mut self) {
        self.retry_at = Some(Instant::now() + ACCEPT_RETRY);
    }

    /// The time, if any alarm is pending; otherwise the clock need not be read.
    pub(super) fn look(&self) -> Option<Instant> {
        (!self.lingering.is_empty() || self.retry_at.is_some()).then(Instant::now)
    }

    /// Whether the rest is over; reported once.
    pub(super) fn rested(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|at| *at <= now).is_some()
    }

    /// The next connection that has lingered long enough. Forgets those for which `lingers` is
    /// false.
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

    /// Time until the next alarm, if there is one.
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
        // The first has already closed: the others determine the next alarm.
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

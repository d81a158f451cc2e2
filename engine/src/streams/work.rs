//! Fair work. The work that a session causes beside messages is measured. A session that has caused
//! more than its share is not read from until the work is paid off, so a client that pipelines
//! expensive requests delays only itself.
//!
//! A session pays with time. Its debt is one timestamp: when all is paid off. The debt of a session
//! that ends passes to its user (`actors/debt.rs`).

use crate::id::SessionId;
use crate::limits::{WORK_AHEAD_MS, WORK_BYTES_PER_S, WORK_EACH};
use crate::session::conn::Pause;
use crate::store::Query;
use crate::streams::Streams;

/// Cost of a session's rows, letters and bytes together, in the unit of [`WORK_BYTES_PER_S`].
pub(crate) fn work(each: usize, bytes: usize) -> u64 {
    each as u64 * WORK_EACH + bytes as u64
}

/// The most that the answers to questions can cost.
pub(crate) fn most_work(queries: &[Query]) -> u64 {
    let bytes = queries.iter().map(|query| match query {
        Query::Get { .. } => 0,
        Query::Range { bytes_max, .. } => *bytes_max as usize,
    });
    work(queries.len(), bytes.sum())
}

/// The largest debt that a session can have, milliseconds. Below it, a timestamp can be
/// distinguished from one long past.
const OWED_MS_MAX: u32 = u32::MAX / 4;

/// The time that pays for work, milliseconds. No single request costs so much that this overflows.
pub(crate) fn time_ms(work: u64) -> u32 {
    (work * 1_000 / WORK_BYTES_PER_S).min(u64::from(u32::MAX / 8)) as u32
}

impl Streams {
    /// Work done so far in this turn, for [`charge_since`](crate::actors::Actors::charge_since).
    pub(crate) fn done_so_far(&self) -> u64 {
        let letters: usize = self.kernel.letters.iter().map(|batch| batch.len()).sum();
        work(letters + self.kernel.writes.len(), self.kernel.writes.bytes())
    }

    /// Charges a session for work.
    pub(crate) fn charged(&mut self, session: SessionId, work: u64) {
        let now_ms = self.kernel.now.mono_ms as u32;
        let Some(half) = self.halves.get_mut(session) else { return };
        let owes_ms = owes_ms(half.pays_until_ms, now_ms);
        let owes_ms = (owes_ms + time_ms(work)).min(OWED_MS_MAX);
        half.pays_until_ms = now_ms.wrapping_add(owes_ms);
        let Some(conn) = half.conn().filter(|_| owes_ms > WORK_AHEAD_MS) else { return };
        if !self.paying.contains(&session) {
            self.paying.push(session);
            self.kernel.counters.work_paused.one();
        }
        self.pause(conn, Pause::Work);
    }

    /// Remaining debt of a session, milliseconds.
    pub(crate) fn owed_ms(&self, session: SessionId) -> u32 {
        self.halves.get(session).map_or(0, |half| owes_ms(half.pays_until_ms, self.kernel.now.mono_ms as u32))
    }

    /// A session begins with a debt. If it is too large, the session is not read from yet.
    pub(crate) fn owe(&mut self, session: SessionId, owed_ms: u32) {
        let now_ms = self.kernel.now.mono_ms as u32;
        if let Some(half) = self.halves.get_mut(session) {
            half.pays_until_ms = now_ms.wrapping_add(owed_ms.min(OWED_MS_MAX));
        }
        self.charged(session, 0);
    }

    /// Whether a session has caused more than its share of work, and is not read from.
    pub(crate) fn owes_work(&self, session: SessionId) -> bool {
        self.owed_ms(session) > WORK_AHEAD_MS
    }

    /// Credits a session that was charged too much.
    pub(crate) fn given_back(&mut self, session: SessionId, work: u64) {
        let now_ms = self.kernel.now.mono_ms as u32;
        let Some(half) = self.halves.get_mut(session) else { return };
        let owes_ms = owes_ms(half.pays_until_ms, now_ms).saturating_sub(time_ms(work));
        half.pays_until_ms = now_ms.wrapping_add(owes_ms);
    }

    /// Advances the timestamp of a paid debt before the clock's lower bits wrap around to it (49
    /// days). Part of the sweep of sessions.
    pub(crate) fn forget_paid(&mut self, session: SessionId) {
        let now_ms = self.kernel.now.mono_ms as u32;
        if let Some(half) = self.halves.get_mut(session)
            && owes_ms(half.pays_until_ms, now_ms) == 0
        {
            half.pays_until_ms = now_ms;
        }
    }

    /// Resumes reading from sessions that have paid off half of their allowed debt. One turn's
    /// share of the sweep.
    pub(crate) fn sweep_work(&mut self) {
        if self.paying.is_empty() {
            return;
        }
        let now_ms = self.kernel.now.mono_ms as u32;
        let mut paying = std::mem::take(&mut self.paying);
        paying.retain(|&id| {
            let Some(half) = self.halves.get(id) else { return false };
            if owes_ms(half.pays_until_ms, now_ms) > WORK_AHEAD_MS / 2 {
                return true;
            }
            if let Some(conn) = half.conn() {
                self.go_on(conn, Pause::Work, false);
            }
            false
        });
        self.paying = paying;
    }
}

/// Remaining debt, milliseconds.
fn owes_ms(until_ms: u32, now_ms: u32) -> u32 {
    let left_ms = until_ms.wrapping_sub(now_ms);
    if left_ms > OWED_MS_MAX { 0 } else { left_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_says_what_is_owed_also_when_the_clock_wraps() {
        assert_eq!(owes_ms(5_000, 1_000), 4_000);
        assert_eq!(owes_ms(1_000, 5_000), 0, "paid off");
        assert_eq!(owes_ms(500, u32::MAX - 499), 1_000);
        assert_eq!(owes_ms(0, u32::MAX), 1);
    }
}

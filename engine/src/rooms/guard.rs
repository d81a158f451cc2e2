//! Protection of a room against many strangers at once: a rate of joins, and a time in which only
//! users with an affiliation may enter.

use crate::kernel::Kernel;
use crate::limits::{ROOM_JOINS_BURST_S, ROOM_REQUESTS_BURST, ROOM_REQUESTS_EVERY_S};
use crate::wire::error::StanzaCondition;
use crate::wire::limit::{Limit, Refusal};

/// The domain of a bare JID.
pub(super) fn domain_of(bare: &str) -> &str {
    bare.split_once('@').map_or(bare, |(_, domain)| domain)
}

/// What a room remembers of its strangers.
#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Monotonic second until which the room is closed.
    closed_until_s: u32,
    joins: Rate,
    /// Of requests to register, as far as admins are told of them.
    requests: Rate,
}

/// What has taken place at a permitted rate: the monotonic microsecond at which that would be over.
#[derive(Debug, Default)]
struct Rate(u64);

impl Rate {
    /// Whether one more may take place: one in so many microseconds, and those of the burst at once.
    fn admits(&mut self, now_us: u64, each_us: u64, burst_us: u64) -> bool {
        let next_us = self.0.max(now_us) + each_us;
        let admits = next_us <= now_us + burst_us;
        if admits {
            self.0 = next_us;
        }
        admits
    }
}

impl Guard {
    /// Closes the room for so many seconds; 0 opens it.
    pub(super) fn close(&mut self, now_s: u32, seconds: u32) {
        self.closed_until_s = now_s.saturating_add(seconds);
    }

    /// Seconds for which the room is still closed, if it is.
    pub(super) fn closed_s(&self, now_s: u32) -> Option<u32> {
        self.closed_until_s.checked_sub(now_s).filter(|left| *left > 0)
    }

    /// Whether the operator admits members only, for a time or always.
    pub(super) fn is_closed(&self, kernel: &Kernel) -> bool {
        kernel.settings.room_members_only || self.closed_s(kernel.now.mono_s()).is_some()
    }

    /// Whether one more may join at this rate per second; 0 for any. Those of the last
    /// [`ROOM_JOINS_BURST_S`] seconds may come at once.
    fn admits(&mut self, now_us: u64, per_s: u32) -> bool {
        per_s == 0 || self.joins.admits(now_us, 1_000_000 / u64::from(per_s), u64::from(ROOM_JOINS_BURST_S) * 1_000_000)
    }

    /// Whether the admins are told of one more request to register.
    pub(super) fn tells_admins(&mut self, kernel: &Kernel) -> bool {
        let each_us = u64::from(ROOM_REQUESTS_EVERY_S) * 1_000_000;
        self.requests.admits(kernel.now.mono_ms * 1_000, each_us, u64::from(ROOM_REQUESTS_BURST) * each_us)
    }

    /// Whether somebody may enter, as far as strangers are limited.
    ///
    /// # Errors
    /// `registration-required` while the room admits members only (XEP-0045 7.2.5),
    /// `resource-constraint` at the limit of joins.
    pub(super) fn may_enter(&mut self, kernel: &Kernel, is_stranger: bool) -> Result<(), Refusal> {
        if !is_stranger {
            return Ok(());
        }
        if self.is_closed(kernel) {
            return Err(StanzaCondition::RegistrationRequired.into());
        }
        match self.admits(kernel.now.mono_ms * 1_000, kernel.settings.room_joins_per_s) {
            true => Ok(()),
            false => Err(Limit::RoomJoins.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_have_a_rate_and_a_burst() {
        let mut guard = Guard::default();
        let burst = 20 * ROOM_JOINS_BURST_S as usize;
        let at = 1_000_000_000;
        assert_eq!((0..1_000).filter(|_| guard.admits(at, 20)).count(), burst);
        assert_eq!((0..1_000).filter(|_| guard.admits(at + 100_000, 20)).count(), 2, "two in a tenth of a second");
        assert_eq!((0..1_000).filter(|_| guard.admits(at + 3_600_000_000, 20)).count(), burst, "no more after an hour");
        assert_eq!((0..1_000).filter(|_| guard.admits(at, 0)).count(), 1_000, "no limit");
    }
}

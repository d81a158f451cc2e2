//! Whether a thread accepts connections, and what an operator is told when it does not.
//!
//! Accepting may pause and resume with every few connections. The counters record every pause; the
//! log is rate-limited.

use std::net::SocketAddr;
use std::sync::Arc;

use throng_engine::counters::Counters;
use throng_engine::id::ShardId;

use crate::driver::Exhausted;

/// Minimum time between two log lines about paused accepting, milliseconds.
const TOLD_EVERY_MS: u64 = 10_000;

/// A pause for lack of descriptors is over when none has been missing for this long, milliseconds:
/// accepting is retried ten times a second.
const CALM_MS: u64 = 1_000;

/// Value of the counter `accepting_paused` while there is no room for more connections.
pub const PAUSED_SLOTS: u64 = 1;
/// Its value while no descriptors or no memory is left.
const PAUSED_DESCRIPTORS: u64 = 2;

/// A thread's state of paused accepting.
pub(super) struct Accepting {
    /// Advice on how to make more room.
    remedy: Arc<str>,
    paused: Option<Paused>,
    told_ms: Option<u64>,
}

struct Paused {
    at: SocketAddr,
    cause: Exhausted,
    since_ms: u64,
    /// When accepting was last paused.
    last_ms: u64,
    is_told: bool,
}

impl Accepting {
    pub(super) fn new(remedy: Arc<str>) -> Accepting {
        Accepting { remedy, paused: None, told_ms: None }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Records that a listener has no room for waiting connections.
    pub(super) fn pause(&mut self, shard: ShardId, at: SocketAddr, cause: Exhausted, counters: &Counters, now_ms: u64) {
        if self.paused.is_none() {
            counters.accept_pauses.one();
        }
        counters.accepting_paused.set(match cause {
            Exhausted::Slots => PAUSED_SLOTS,
            Exhausted::Descriptors => PAUSED_DESCRIPTORS,
        });
        let before = self.paused.take();
        let (since_ms, is_told) = before.map_or((now_ms, false), |before| (before.since_ms, before.is_told));
        self.paused = Some(Paused { at, cause, since_ms, last_ms: now_ms, is_told });
        self.tell(shard, counters, now_ms);
    }

    /// Checks whether accepting has resumed. `resting` is why the driver does not accept now, if it
    /// does not.
    pub(super) fn look(&mut self, shard: ShardId, resting: Option<Exhausted>, counters: &Counters, now_ms: u64) {
        let Some(paused) = &mut self.paused else { return };
        if resting.is_some() {
            paused.last_ms = now_ms;
            return self.tell(shard, counters, now_ms);
        }
        if paused.cause == Exhausted::Descriptors && now_ms < paused.last_ms + CALM_MS {
            return;
        }
        counters.accepting_paused.set(0);
        if paused.is_told {
            let paused_ms = now_ms.saturating_sub(paused.since_ms);
            tracing::info!(address = %paused.at, shard = shard.index(), paused_ms, "connections are accepted again");
        }
        self.paused = None;
    }

    fn tell(&mut self, shard: ShardId, counters: &Counters, now_ms: u64) {
        let lately = self.told_ms.is_some_and(|told_ms| now_ms < told_ms + TOLD_EVERY_MS);
        let Some(paused) = self.paused.as_mut().filter(|paused| !paused.is_told && !lately) else { return };
        (paused.is_told, self.told_ms) = (true, Some(now_ms));
        let why = match paused.cause {
            Exhausted::Slots => format!("the shard has reached its limit of {}", counters.connections_max.get()),
            Exhausted::Descriptors => "the process or the host is out of descriptors or memory".to_owned(),
        };
        tracing::warn!(
            address = %paused.at,
            shard = shard.index(),
            "accepting connections is paused: {why}; clients wait in the kernel's queue until \
             connections close; {}",
            self.remedy
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_lasts_until_the_driver_accepts_again_and_one_for_descriptors_until_none_was_missing_for_a_second() {
        let (counters, at, shard) = (Counters::default(), SocketAddr::from(([127, 0, 0, 1], 5222)), ShardId(0));
        let mut accepting = Accepting::new("buy more".into());
        let paused = |accepting: &Accepting| (accepting.is_paused(), counters.accepting_paused.get());
        accepting.pause(shard, at, Exhausted::Slots, &counters, 1_000);
        accepting.pause(shard, at, Exhausted::Slots, &counters, 1_001);
        assert_eq!((paused(&accepting), counters.accept_pauses.get()), ((true, PAUSED_SLOTS), 1));
        accepting.look(shard, Some(Exhausted::Slots), &counters, 9_000);
        assert_eq!(paused(&accepting), (true, PAUSED_SLOTS));
        accepting.look(shard, None, &counters, 9_001);
        assert_eq!(paused(&accepting), (false, 0));
        // Retried every 100 ms, in vain: this is one pause, not one per attempt.
        for now_ms in (20_000..25_000).step_by(100) {
            accepting.pause(shard, at, Exhausted::Descriptors, &counters, now_ms);
            accepting.look(shard, None, &counters, now_ms + 50);
        }
        assert_eq!((paused(&accepting), counters.accept_pauses.get()), ((true, PAUSED_DESCRIPTORS), 2));
        accepting.look(shard, None, &counters, 24_900 + CALM_MS);
        assert_eq!(paused(&accepting), (false, 0));
    }

    #[test]
    fn a_pause_is_logged_once_in_ten_seconds_and_one_that_lasts_is_logged_in_the_end() {
        let (counters, at, shard) = (Counters::default(), SocketAddr::from(([127, 0, 0, 1], 5222)), ShardId(0));
        let mut accepting = Accepting::new("buy more".into());
        let told = |accepting: &Accepting| accepting.paused.as_ref().map(|paused| paused.is_told);
        accepting.pause(shard, at, Exhausted::Slots, &counters, 1_000);
        assert_eq!(told(&accepting), Some(true));
        accepting.look(shard, None, &counters, 1_100);
        accepting.pause(shard, at, Exhausted::Slots, &counters, 1_200);
        accepting.look(shard, Some(Exhausted::Slots), &counters, 1_300);
        assert_eq!(told(&accepting), Some(false));
        accepting.look(shard, Some(Exhausted::Slots), &counters, 1_000 + TOLD_EVERY_MS);
        assert_eq!(told(&accepting), Some(true));
    }
}

//! Daily quotas of an account: how much it may put into logs, its own and those of others. A
//! message over the quota is refused with the time of the next permitted one.
//!
//! Messages and bytes each have one timestamp: when all that was charged has expired. A full day's
//! quota may be used at once.

use crate::actors::Actors;
use crate::logs::Logs;
use crate::streams::Streams;
use crate::wire::limit::{Held, Limit};

/// A day, microseconds.
const DAY_US: u64 = 86_400_000_000;

impl Logs {
    /// Charges a message of this size that goes into logs for a user of this home. Returns `None`
    /// if it is within the quota.
    pub(crate) fn charge_log(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        user: u32,
        bytes: usize,
    ) -> Option<Held> {
        let (messages, most_bytes) = (cx.kernel.settings.log_messages_day, cx.kernel.settings.log_bytes_day);
        if messages == 0 && most_bytes == 0 {
            return None;
        }
        let (now_us, now_s) = (cx.kernel.now.mono_ms * 1_000, cx.kernel.now.mono_s());
        let quota = &mut actors.users.state(user, now_s).quota;
        let after = |until_us: u64, cost_us: u64| until_us.max(now_us) + cost_us;
        let by_messages = after(quota.messages_until_us, DAY_US.checked_div(messages).unwrap_or(0));
        let cost_us = u128::from(DAY_US) * bytes as u128 / u128::from(most_bytes.max(1));
        let by_bytes = after(quota.bytes_until_us, if most_bytes == 0 { 0 } else { cost_us as u64 });
        let over_us = by_messages.max(by_bytes).saturating_sub(now_us + DAY_US);
        if over_us > 0 {
            return Some(Held { limit: Limit::LogQuota, left_ms: Some(over_us.div_ceil(1_000)) });
        }
        (quota.messages_until_us, quota.bytes_until_us) = (by_messages, by_bytes);
        None
    }
}

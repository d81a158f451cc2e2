//! How many messages a room has per hour (XEP-0502), as an estimate from its recent history: it costs
//! nothing per message, and nothing is stored for it.

use crate::rooms::room::Room;

/// The field of the room's information.
pub(super) const FIELD: &str = "{urn:xmpp:muc-activity}message-activity";

const HOUR_MS: u64 = 3_600_000;
/// XEP-0502 4: older messages do not count.
const SPAN_MS: u64 = 24 * HOUR_MS;

/// Messages per hour, given the times of the recent ones in milliseconds, the oldest first. `has_older`
/// says that there are older ones.
fn per_hour(times_ms: &[u64], has_older: bool, now_ms: u64) -> f64 {
    let recent = times_ms.iter().filter(|time_ms| now_ms.saturating_sub(**time_ms) <= SPAN_MS).count();
    let known_ms = match times_ms.first() {
        // There may be more messages in the span than are known.
        Some(first_ms) if has_older => now_ms.saturating_sub(*first_ms).clamp(1, SPAN_MS),
        _ => SPAN_MS,
    };
    recent as f64 * HOUR_MS as f64 / known_ms as f64
}

impl Room {
    /// The estimate, for rooms that everybody may enter (XEP-0502 3.1, 8). Without an archive nothing
    /// is known of the time before the room came into memory.
    pub(super) fn messages_per_hour(&self, now_ms: u64) -> Option<String> {
        let config = &self.record.config;
        let is_open = config.persistent && config.public && !config.members_only && config.password.is_none();
        if !is_open || !config.archive {
            return None;
        }
        // XEP-0502 4: corrections do not count.
        let corrects = |xml: &[u8]| memchr::memmem::find(xml, b"urn:xmpp:message-correct:0").is_some();
        let times: Vec<u64> = self.history().filter(|past| !corrects(&past.xml)).map(|past| past.time_ms).collect();
        Some(format!("{:.2}", per_hour(&times, self.has_older, now_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_what_is_known() {
        let now_ms = 100 * HOUR_MS;
        assert!(per_hour(&[], false, now_ms) == 0.0);
        // All that there are: 12 in 24 hours.
        let all: Vec<u64> = (0..12).map(|n| now_ms - SPAN_MS + n * HOUR_MS).collect();
        assert!(per_hour(&all, false, now_ms) == 0.5);
        // The last 50 of more, one per minute.
        let last: Vec<u64> = (1..=50).rev().map(|n| now_ms - n * HOUR_MS / 60).collect();
        assert!((per_hour(&last, true, now_ms) - 60.0).abs() < 0.01);
        // Old ones do not count (XEP-0502 4).
        assert!(per_hour(&[now_ms - 73 * HOUR_MS], false, now_ms) == 0.0);
    }
}

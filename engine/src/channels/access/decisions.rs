//! Answers of the authorization service (`notify_ask_url`) about requests for channels, as data. A
//! permission is cached for as long as the service has stated, a denial for a few seconds.

use std::sync::Arc;

use crate::channels::access::halves::{Halves, Weighs};
use crate::limits::{NOTIFY_DECISIONS_BYTES_MAX, NOTIFY_DENIED_MS, NOTIFY_PERMIT_S_MAX};

/// A permission.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Permit {
    /// The name under which other subscribers see this one.
    pub(crate) name: Option<Arc<str>>,
    /// Expiry, in seconds (monotonic).
    pub(crate) until_s: u32,
}

#[derive(Clone, Debug)]
enum Kept {
    Allowed(Arc<Permit>),
    Denied { until_ms: u64 },
}

impl Weighs for Kept {
    fn bytes(&self) -> usize {
        match self {
            Kept::Allowed(permit) => size_of::<Permit>() + permit.name.as_ref().map_or(0, |name| name.len() + 16),
            Kept::Denied { .. } => size_of::<Kept>(),
        }
    }
}

/// A denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Denied;

/// The cached decisions of a shard.
#[derive(Debug)]
pub(crate) struct Decisions(Halves<Kept>);

impl Default for Decisions {
    fn default() -> Decisions {
        Decisions(Halves::new(NOTIFY_DECISIONS_BYTES_MAX))
    }
}

impl Decisions {
    /// Upper bound of the memory used, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    /// Returns the cached answer to an inquiry.
    pub(crate) fn find(&mut self, now_ms: u64, key: &[u8; 32]) -> Option<Result<Arc<Permit>, Denied>> {
        match self.0.find(key)? {
            Kept::Allowed(permit) if now_ms < u64::from(permit.until_s) * 1_000 => Some(Ok(permit)),
            Kept::Denied { until_ms } if now_ms < until_ms => Some(Err(Denied)),
            _ => None,
        }
    }

    /// Records a permission, which is valid for `seconds`. Without a duration it is valid for this
    /// request only and is not cached.
    pub(super) fn allowed(
        &mut self,
        now_s: u32,
        key: [u8; 32],
        name: Option<Arc<str>>,
        seconds: Option<u32>,
    ) -> Arc<Permit> {
        let until_s = now_s.saturating_add(seconds.unwrap_or(NOTIFY_PERMIT_S_MAX).clamp(1, NOTIFY_PERMIT_S_MAX));
        let permit = Arc::new(Permit { name, until_s });
        if seconds.is_some() {
            self.0.keep(key, Kept::Allowed(permit.clone()));
        }
        permit
    }

    /// Records a denial.
    pub(super) fn denied(&mut self, now_ms: u64, key: [u8; 32]) {
        self.0.keep(key, Kept::Denied { until_ms: now_ms + NOTIFY_DENIED_MS });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_counts_for_its_time() {
        let (mut all, key) = (Decisions::default(), [1; 32]);
        assert!(all.find(0, &key).is_none());
        all.denied(1_000, key);
        assert_eq!((all.find(5_999, &key), all.find(6_000, &key)), (Some(Err(Denied)), None));
        let permit = all.allowed(6, key, Some("romeo".into()), Some(10));
        assert_eq!((all.find(15_999, &key), all.find(16_000, &key)), (Some(Ok(permit)), None));
        // A permission without a duration is not cached and has the maximum validity.
        assert_eq!(all.allowed(20, [2; 32], None, None).until_s, 86_420);
        assert_eq!(all.find(20_000, &[2; 32]), None);
        assert_eq!(all.allowed(20, [3; 32], None, Some(u32::MAX)).until_s, 86_420);
        assert_eq!(all.allowed(20, [4; 32], None, Some(0)).until_s, 21);
    }
}

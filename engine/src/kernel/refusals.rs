//! Recent refusals by limits that keep no record themselves: operators list them and lift them.

use hashbrown::HashMap;

use crate::io::LimitRow;
use crate::kernel::Fixed;

use crate::wire::limit::Limit;

/// Maximum number of entries per limit; the least recently refused one is replaced.
const LISTED_MAX: usize = 32;

const LISTED_MS: u64 = 600_000;

/// The recent refusals by limits that keep no record themselves.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    seen: HashMap<(Limit, String), Seen, Fixed>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    since_ms: u64,
    last_ms: u64,
    refused: u64,
}

impl Refusals {
    pub(crate) fn note(&mut self, now_ms: u64, limit: Limit, who: String) {
        let key = (limit, who);
        if let Some(seen) = self.seen.get_mut(&key) {
            (seen.last_ms, seen.refused) = (now_ms, seen.refused + 1);
            return;
        }
        let own = self.seen.iter().filter(|((other, _), _)| *other == limit);
        if own.clone().count() >= LISTED_MAX
            && let Some(oldest) = own.min_by_key(|(_, seen)| seen.last_ms).map(|(key, _)| key.clone())
        {
            self.seen.remove(&oldest);
        }
        self.seen.insert(key, Seen { since_ms: now_ms, last_ms: now_ms, refused: 1 });
    }

    /// The refusals by a limit within the last `within_ms` milliseconds: the refused name, the time
    /// since the first refusal in milliseconds, and the number of refusals.
    pub(crate) fn lately(&self, now_ms: u64, limit: Limit, within_ms: u64) -> impl Iterator<Item = (&str, u64, u64)> {
        let lately = self
            .seen
            .iter()
            .filter(move |((other, _), seen)| *other == limit && now_ms.saturating_sub(seen.last_ms) <= within_ms);
        lately.map(move |((_, who), seen)| (who.as_str(), now_ms.saturating_sub(seen.since_ms), seen.refused))
    }

    /// The recent refusals, one row each.
    pub(crate) fn rows(&mut self, now_ms: u64) -> impl Iterator<Item = LimitRow> {
        self.seen.retain(|_, seen| now_ms.saturating_sub(seen.last_ms) < LISTED_MS);
        self.seen.iter().map(move |((limit, who), seen)| LimitRow {
            who: who.clone(),
            limit: *limit,
            since_ms: now_ms.saturating_sub(seen.since_ms),
            left_ms: None,
            refused: seen.refused,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_listed_of_each_limit_and_none_pushes_out_those_of_another() {
        let mut refusals = Refusals::default();
        refusals.note(1, Limit::Roster, "romeo@localhost".into());
        for n in 0..1_000 {
            refusals.note(n, Limit::WaitingMessages, format!("user{n}@localhost"));
            refusals.note(n, Limit::WaitingMessages, "juliet@localhost".into());
        }
        assert_eq!(refusals.seen.len(), 1 + LISTED_MAX);
        assert_eq!(refusals.seen[&(Limit::WaitingMessages, "juliet@localhost".into())].refused, 1_000);
        assert_eq!(refusals.seen[&(Limit::Roster, "romeo@localhost".into())].refused, 1);
    }
}

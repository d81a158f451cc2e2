//! Who is refused by which limit: for operators, who see it and let go.
//!
//! Limits that remember what was done (failed logins, registrations) know themselves whom they hold. Of the others, which hold
//! for as long as something is full, a bounded list says who ran into them lately.

use hashbrown::HashMap;

use crate::io::{LimitRow, Reply};
use crate::session::sasl::{Freed, Holding};
use crate::shard::Shard;
use crate::shard::stanza::local_of;
use crate::wire::limit::{Limit, Refusal};

/// Of each limit so many are listed; the one not refused for longest gives way.
const LISTED_MAX: usize = 32;
/// Nobody is listed for longer than this after the last refusal, milliseconds.
const LISTED_MS: u64 = 600_000;

/// Those who were refused lately by limits that remember nothing themselves.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    seen: HashMap<(Limit, String), Seen, super::Fixed>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    since_ms: u64,
    last_ms: u64,
    refused: u64,
}

impl Refusals {
    fn note(&mut self, now_ms: u64, limit: Limit, who: String) {
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
}

impl Shard {
    /// Notes who was refused, if it was by a limit that remembers nothing itself.
    pub(super) fn limited(&mut self, refusal: Refusal, who: impl FnOnce(&Shard) -> String) {
        if let Some(held) = refusal.held
            && held.left_ms.is_none()
        {
            let who = who(self);
            self.refusals.note(self.now.mono_ms, held.limit, who);
        }
    }

    /// Who is held by this shard's part of the limits.
    pub(super) fn list_limits(&mut self) -> Reply {
        let (now_ms, domain) = (self.now.mono_ms, self.settings.domain.clone());
        self.refusals.seen.retain(|_, seen| now_ms.saturating_sub(seen.last_ms) < LISTED_MS);
        let row = |(limit, holding): (Limit, Holding)| LimitRow {
            who: named(limit, &holding.who, &domain),
            limit,
            since_ms: now_ms.saturating_sub(holding.since_ms),
            left_ms: Some(holding.left_ms),
            refused: holding.refused,
        };
        let mut rows: Vec<_> = self.failed_logins.holdings(now_ms).map(row).collect();
        rows.extend(self.logins.holdings(now_ms).map(row));
        rows.extend(self.registrations.holdings(now_ms).map(row));
        rows.extend(self.refusals.seen.iter().map(|((limit, who), seen)| LimitRow {
            who: who.clone(),
            limit: *limit,
            since_ms: now_ms.saturating_sub(seen.since_ms),
            left_ms: None,
            refused: seen.refused,
        }));
        Reply::Limits(rows)
    }

    /// Lets go of an address, an account by its bare JID, or everybody.
    pub(super) fn release_limits(&mut self, whom: &crate::io::Whom) -> Reply {
        use crate::io::Whom;
        let now_ms = self.now.mono_ms;
        let freed = match whom {
            Whom::Address(address) => {
                let peer = self.failed_logins.peer(*address);
                let counted =
                    self.failed_logins.release(now_ms, Some(peer)) + self.registrations.release(now_ms, Some(peer));
                counted + self.logins.release(now_ms, Freed::Peer(peer))
            }
            Whom::Account(jid) => self.logins.release(now_ms, Freed::Account(local_of(jid))),
            Whom::All => {
                self.refusals = Refusals::default();
                let counted = self.failed_logins.release(now_ms, None) + self.registrations.release(now_ms, None);
                counted + self.logins.release(now_ms, Freed::All)
            }
        };
        Reply::Done(freed)
    }
}

/// Who it is, with accounts as JIDs.
fn named(limit: Limit, who: &str, domain: &str) -> String {
    match limit {
        Limit::PairLogins | Limit::AccountLogins | Limit::PasswordChanges => format!("{who}@{domain}"),
        _ => who.to_owned(),
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
            refusals.note(n, Limit::Mailbox, format!("user{n}@localhost"));
            refusals.note(n, Limit::Mailbox, "juliet@localhost".into());
        }
        assert_eq!(refusals.seen.len(), 1 + LISTED_MAX);
        assert_eq!(refusals.seen[&(Limit::Mailbox, "juliet@localhost".into())].refused, 1_000);
        assert_eq!(refusals.seen[&(Limit::Roster, "romeo@localhost".into())].refused, 1);
    }
}

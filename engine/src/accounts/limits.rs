//! Addresses and accounts that are held by a limit, for operators to list and release.
//!
//! Limits with a memory (failed logins, registrations) know what they hold. The others hold only
//! while something is full; for these, a bounded list has the most recent refusals.

use crate::accounts::Accounts;
use crate::actors::Actors;
use crate::io::{LimitRow, Reply};
use crate::kernel::refusals::Refusals;
use crate::router::users::Quota;
use crate::session::sasl::{Freed, Holding};
use crate::streams::Streams;
use crate::wire::limit::Limit;

impl Accounts {
    /// Lists what this shard's part of the limits holds.
    pub(crate) fn list_limits(&mut self, cx: &mut Streams) -> Reply {
        let now_ms = cx.kernel.now.mono_ms;
        let row = |(limit, holding): (Limit, Holding)| LimitRow {
            who: holding.who,
            limit,
            since_ms: now_ms.saturating_sub(holding.since_ms),
            left_ms: Some(holding.left_ms),
            refused: holding.refused,
        };
        let mut rows: Vec<_> = self.failed_logins.holdings(now_ms).map(row).collect();
        rows.extend(self.logins.holdings(now_ms).map(row));
        rows.extend(self.registrations.holdings(now_ms).map(row));
        rows.extend(cx.kernel.refusals.rows(now_ms));
        Reply::Limits(rows)
    }

    /// Releases an address, an account by its bare JID, or all.
    pub(crate) fn release_limits(&mut self, cx: &mut Streams, actors: &mut Actors, whom: &crate::io::Whom) -> Reply {
        use crate::io::Whom;
        let now_ms = cx.kernel.now.mono_ms;
        let freed = match whom {
            Whom::Address(address) => {
                let peer = self.failed_logins.peer(*address);
                let counted =
                    self.failed_logins.release(now_ms, Some(peer)) + self.registrations.release(now_ms, Some(peer));
                counted + self.logins.release(now_ms, Freed::Peer(peer))
            }
            Whom::Account(jid) => {
                let user = actors.users.find(jid);
                if let Some(user) = user {
                    actors.forgive_spent(cx, user);
                    if let Some(state) = actors.users.get_mut(user).state.as_mut() {
                        state.quota = Quota::default();
                    }
                }
                self.logins.release(now_ms, Freed::Account(jid))
            }
            Whom::All => {
                cx.kernel.refusals = Refusals::default();
                actors.forgive_all(cx);
                let counted = self.failed_logins.release(now_ms, None) + self.registrations.release(now_ms, None);
                counted + self.logins.release(now_ms, Freed::All)
            }
        };
        Reply::Done(freed)
    }
}

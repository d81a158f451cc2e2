//! Who is refused by which limit: for operators, who see it and let go.
//!
//! Limits that remember what was done (failed logins, registrations) know themselves whom they hold. Of the others, which hold
//! for as long as something is full, a bounded list says who ran into them lately.

use crate::accounts::Accounts;
use crate::actors::Actors;
use crate::io::{LimitRow, Reply};
use crate::kernel::refusals::Refusals;
use crate::router::users::Quota;
use crate::session::sasl::{Freed, Holding};
use crate::streams::Streams;
use crate::wire::limit::Limit;

impl Accounts {
    /// Who is held by this shard's part of the limits.
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

    /// Lets go of an address, an account by its bare JID, or everybody.
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

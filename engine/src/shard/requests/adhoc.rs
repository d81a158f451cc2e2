//! Commands of users (XEP-0050): their sessions, and the orders that they lead to, which the host carries out.

use crate::extension::Limit;
use crate::extension::adhoc::act::{Act, Wish};
use crate::extension::adhoc::{begun, canceled, completed};
use crate::io::Effect;
use crate::kernel::pending::{Asker, Elsewhere, Maker, OrderKeys, Ordering, Pending, Work};
use crate::limits::{ADHOC_ORDERS_MAX, INVITATIONS_USER_MAX, JOBS_WAITING_SPARE};
use crate::orders::{Order, Outcome, Wanted};
use crate::shard::Shard;
use crate::store::account::Credentials;
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::jid::bare_of;

/// Bytes of rows that are read to make an invitation, for who asks for it.
const INVITATION_CHARGE: usize = 4_096;

impl Shard {
    /// Carries out what follows from a request for a command.
    pub(super) fn adhoc(&mut self, asker: Asker, act: Act) {
        match act {
            Act::Begin { node, form } => {
                let (id, now_s) = (self.cx.kernel.random_name(), self.cx.kernel.now.mono_s());
                let from = asker.from.clone();
                match self.requests.adhoc.open(&id, &from, node, now_s) {
                    true => self.actors.answer(&mut self.cx, asker, Ok(&begun(node, &id, &form))),
                    false => self.actors.answer(&mut self.cx, asker, Err(Limit::Commands.into())),
                }
            }
            Act::Cancel { node, id } => {
                self.requests.adhoc.close(&id, &asker.from);
                self.actors.answer(&mut self.cx, asker, Ok(&canceled(node, &id)));
            }
            // It is made here, at the home of who asks for it.
            Act::Order { node, wish: Wish::Invite(new), .. } => {
                if let Some((session, _)) = asker.session {
                    self.cx.tell(session, Down::Charge(work(INVITATIONS_USER_MAX, INVITATION_CHARGE)));
                }
                let (actor, id) = (bare_of(&asker.from).to_owned(), self.cx.kernel.random_name().into());
                let maker = Maker::User(Ordering { asker, node, id });
                self.accounts.invitation_work(&mut self.cx, &mut self.actors, &actor, Work::Make { maker, new });
            }
            Act::Order { node, id, wish } => {
                // Each order under way holds a request; others wait with their forms open.
                if self.requests.orders_under_way >= ADHOC_ORDERS_MAX {
                    return self.actors.answer(&mut self.cx, asker, Err(Limit::Commands.into()));
                }
                let job = match &wish {
                    Wish::Password { .. } if self.cx.jobs_waiting.len() >= JOBS_WAITING_SPARE => {
                        return self.actors.answer(&mut self.cx, asker, Err(Limit::Passwords.into()));
                    }
                    Wish::Password { password, .. } => match self.accounts.derive_keys(&mut self.cx, password) {
                        Some(job) => Some(job),
                        None => return self.actors.answer(&mut self.cx, asker, Err(Limit::Credentials.into())),
                    },
                    Wish::Order(_) | Wish::Invite(_) => None,
                };
                let id = match id {
                    Some(id) => {
                        self.requests.adhoc.close(&id, &asker.from);
                        id
                    }
                    None => self.cx.kernel.random_name().into(),
                };
                let ordering = Ordering { asker, node, id };
                self.requests.orders_under_way += 1;
                match wish {
                    Wish::Order(what) => self.order(ordering, what),
                    Wish::Invite(_) => {}
                    Wish::Password { account, create, .. } => {
                        let keys = OrderKeys { ordering, account, create };
                        self.cx.job(Pending::Elsewhere(Elsewhere::OrderKeys(keys)), job.expect("a password has a job"));
                    }
                }
            }
        }
    }

    fn order(&mut self, ordering: Ordering, what: Wanted) {
        let order = Box::new(Order { by: ordering.asker.from.clone(), what });
        let token = self.cx.kernel.token(Pending::Elsewhere(Elsewhere::Order(ordering)));
        self.cx.kernel.effects.push(Effect::Order { token, order });
    }

    /// The keys of an account's password are there.
    pub(crate) fn order_keys(&mut self, waits: OrderKeys, keys: Option<Box<Credentials>>) {
        let OrderKeys { ordering, account, create } = waits;
        match keys {
            Some(credentials) => self.order(ordering, Wanted::Put { account, credentials, create }),
            None => {
                self.requests.orders_under_way -= 1;
                self.actors.answer(&mut self.cx, ordering.asker, Err(Limit::Credentials.into()));
            }
        }
    }

    /// The host has carried out an order, or not. Who gave it may be gone.
    pub(crate) fn ordered(&mut self, token: u64, outcome: &Outcome) {
        // A token is answered once: whoever answers again is not heard.
        let Some(Pending::Elsewhere(Elsewhere::Order(Ordering { asker, node, id }))) =
            self.cx.kernel.pending.remove(&token)
        else {
            return;
        };
        self.requests.orders_under_way -= 1;
        if !self.actors.asks_still(&asker) {
            return;
        }
        match completed(node, &id, outcome) {
            Ok(payload) => self.actors.answer(&mut self.cx, asker, Ok(&payload)),
            Err(refusal) => self.actors.answer(&mut self.cx, asker, Err(refusal)),
        }
    }

    /// Whether a user may invite to accounts, in the same way.
    pub(crate) fn is_inviter(&self, bare: &str) -> bool {
        self.cx.kernel.settings.inviters.iter().any(|inviter| **inviter == *bare)
    }

    /// Whether a user is an administrator: by the bare JID, of those that the operator names now.
    pub(crate) fn is_admin(&self, bare: &str) -> bool {
        self.cx.kernel.settings.admins.iter().any(|admin| **admin == *bare)
    }
}

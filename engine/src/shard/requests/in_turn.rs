//! Requests that change what they have read are carried out one after another for each account, so that none writes over what another one
//! has written meanwhile.

use std::collections::{BTreeMap, VecDeque};

use crate::extension::Pending;
use crate::kernel::pending::{Asker, FeatureRead, Held, InTurn};
use crate::limits::{NODE_WAITING_PER_USER_MAX, PARKED_STANZAS_MAX};
use crate::router::users::Known;
use crate::shard::Shard;
use crate::store::Query;
use crate::store::account::Incarnation;
use crate::streams::half::Down;
use crate::streams::work::most_work;
use crate::wire::jid::bare_of;
use crate::wire::limit::Limit;

/// A request that waits.
#[derive(Clone, Debug, PartialEq)]
struct Waits {
    asker: Asker,
    place: usize,
    queries: Vec<Query>,
    pending: Pending,
    /// What its session was charged for what the queries may bring.
    charged: u64,
}

/// Accounts for which a request is being carried out, with those behind it: of the own sessions and of others `PARKED_STANZAS_MAX` each at
/// the most.
#[derive(Debug, Default)]
pub(crate) struct Turns(BTreeMap<Box<str>, VecDeque<Waits>>);

impl Turns {
    /// Whether a request is being carried out for an account.
    pub(super) fn has(&self, account: &str) -> bool {
        self.0.contains_key(account)
    }
}

/// Whether an actor is a node of a service, or the service, and no account.
fn is_node(actor: &str) -> bool {
    actor.contains('/') || !actor.contains('@')
}

impl Shard {
    /// Reads now, or when those before it are done. Those of the account's own sessions, and of the server itself, go first.
    pub(super) fn in_turn(&mut self, account: &str, asker: Asker, place: usize, queries: Vec<Query>, pending: Pending) {
        let Some(waiting) = self.requests.turns.0.get(account) else {
            self.requests.turns.0.insert(account.into(), VecDeque::new());
            let charged = self.charge_for(&asker, &queries);
            return self.begin_turn(account.into(), Waits { asker, place, queries, pending, charged });
        };
        // The own ones stand before those of others, who cannot take their places.
        // At a node of a service all are others, but the server itself: it asks for a limited number
        // of subscribers at once.
        let node = is_node(account);
        let goes_first = |asker: &Asker| asker.is_nobody() || (!node && asker.session.is_some());
        let own = waiting.iter().take_while(|waits| goes_first(&waits.asker)).count();
        let (at, before) = match goes_first(&asker) {
            true => (own, own),
            false => (waiting.len(), waiting.len() - own),
        };
        // One user, or one network, cannot take the places of all others there, and all of them leave the operator's.
        let user = bare_of(&asker.from);
        let crowds =
            || waiting.iter().filter(|waits| bare_of(&waits.asker.from) == user).count() >= NODE_WAITING_PER_USER_MAX;
        let kept = if asker.is_operator() { 0 } else { NODE_WAITING_PER_USER_MAX };
        let is_full = match node {
            true => !asker.is_nobody() && (before + kept >= PARKED_STANZAS_MAX || crowds()),
            false => before >= PARKED_STANZAS_MAX,
        };
        if is_full {
            return self.actors.answer(&mut self.cx, asker, Err(Limit::Waiting.into()));
        }
        // It pays now: who has many that wait is not read from meanwhile.
        let charged = self.charge_for(&asker, &queries);
        if let Some(waiting) = self.requests.turns.0.get_mut(account) {
            waiting.insert(at, Waits { asker, place, queries, pending, charged });
        }
    }

    /// Reads what a feature wants to know.
    pub(super) fn read_for(&mut self, asker: Asker, place: usize, queries: Vec<Query>, pending: Pending, turn: InTurn) {
        let charged = self.charge_for(&asker, &queries);
        self.read_rows(
            FeatureRead { asker, place, pending, charged, turn, asked: Vec::new(), numbered: Vec::new() },
            queries,
        );
    }

    /// Whoever asks pays for what these may bring, and gets back what did not come.
    fn charge_for(&mut self, asker: &Asker, queries: &[Query]) -> u64 {
        let charged = most_work(queries);
        if let Some((session, _)) = asker.session {
            self.cx.tell(session, Down::Charge(charged));
        }
        charged
    }

    fn begin_turn(&mut self, account: Box<str>, next: Waits) {
        // A session ends with its account. For others, what is known of the account is kept until then.
        let looks = next.asker.session.is_none() && !is_node(&account);
        if looks {
            let (user, now_s) = (self.actors.users.find_or_insert(&account), self.cx.kernel.now.mono_s());
            self.actors.users.state(user, now_s).looks += 1;
        }
        let which = if is_node(&account) {
            // It may change what is known of it.
            self.requests.known_nodes.take(&account);
            None
        } else {
            self.which(&account)
        };
        let held = Held { which, account, looks };
        let Waits { asker, place, queries, pending, charged } = next;
        self.read_rows(
            FeatureRead { asker, place, pending, charged, turn: Some(held), asked: Vec::new(), numbered: Vec::new() },
            queries,
        );
    }

    fn which(&self, account: &str) -> Option<Incarnation> {
        let user = self.actors.users.find(account)?;
        match self.actors.users.get(user).state.as_ref()?.known {
            Known::Exists(which) => Some(which),
            Known::Missing | Known::Unknown => None,
        }
    }

    /// Whether the account whose turn it is was not removed meanwhile, nor made again.
    pub(super) fn has_its_account(&self, turn: &InTurn) -> bool {
        let Some(Held { account, which, .. }) = turn else { return true };
        if is_node(account) {
            return true;
        }
        let state = self.actors.users.find(account).and_then(|user| self.actors.users.get(user).state.as_ref());
        match (state.map_or(Known::Unknown, |state| state.known), which) {
            (Known::Missing, _) => false,
            (Known::Exists(now), Some(then)) => now == *then,
            _ => true,
        }
    }

    /// A request has come to an end: the next one goes on.
    pub(super) fn turn_over(&mut self, turn: InTurn) {
        // It was no request of the kind that has a turn.
        let Some(Held { account, looks, .. }) = turn else { return };
        if let Some(user) = self.actors.users.find(&account).filter(|_| looks) {
            let now_s = self.cx.kernel.now.mono_s();
            let state = self.actors.users.state(user, now_s);
            state.looks = state.looks.saturating_sub(1);
        }
        while let Some(next) = self.requests.turns.0.get_mut(&account).and_then(VecDeque::pop_front) {
            if next.asker.session.is_none() || self.actors.asks_still(&next.asker) {
                return self.begin_turn(account, next);
            }
        }
        self.requests.turns.0.remove(&account);
        if !is_node(&account) {
            self.actors.forget_no_one(&account);
        }
    }
}

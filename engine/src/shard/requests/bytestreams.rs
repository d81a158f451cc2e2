//! Bytestreams (XEP-0065 6.3.5) that users want to begin: the host's proxy is told, and says what came of it.

use std::collections::BTreeMap;

use crate::extension::Limit;
use crate::extension::bytestreams::{Activated, Activation, outcome};
use crate::io::Effect;
use crate::kernel::pending::{Asker, Elsewhere, Pending};
use crate::limits::{ACTIVATIONS_MAX, ACTIVATIONS_USER_MAX};
use crate::shard::Shard;

/// Activations that the host has not answered yet.
#[derive(Debug, Default)]
pub(super) struct Activations {
    /// By the bare JID of who asks; bounded by `ACTIVATIONS_MAX`.
    users: BTreeMap<Box<str>, usize>,
    under_way: usize,
}

impl Activations {
    /// Counts one more of a user, if there may be.
    fn begin(&mut self, user: &str) -> bool {
        let own = self.users.get(user).copied().unwrap_or(0);
        if own >= ACTIVATIONS_USER_MAX || self.under_way >= ACTIVATIONS_MAX {
            return false;
        }
        self.users.insert(user.into(), own + 1);
        self.under_way += 1;
        true
    }

    fn end(&mut self, user: &str) {
        if let Some(own) = self.users.get_mut(user) {
            *own -= 1;
            self.under_way -= 1;
            if *own == 0 {
                self.users.remove(user);
            }
        }
    }
}

impl Shard {
    /// Hands an activation to the host.
    pub(super) fn activate(&mut self, asker: Asker, activation: Activation) {
        if !self.requests.activations.begin(&activation.user) {
            return self.actors.answer(&mut self.cx, asker, Err(Limit::Bytestreams.into()));
        }
        let token = self.cx.kernel.token(Pending::Elsewhere(Elsewhere::Activation(asker, activation.user.clone())));
        self.cx.kernel.effects.push(Effect::Activate { token, activation: Box::new(activation) });
    }

    /// The host has answered one. Who asked may be gone.
    pub(crate) fn activated(&mut self, token: u64, activated: Activated) {
        // A token is answered once: whoever answers again is not heard.
        let Some(Pending::Elsewhere(Elsewhere::Activation(asker, user))) = self.cx.kernel.pending.remove(&token) else {
            return;
        };
        self.requests.activations.end(&user);
        if !self.actors.asks_still(&asker) {
            return;
        }
        match outcome(activated) {
            Ok(()) => self.actors.answer(&mut self.cx, asker, Ok(b"")),
            Err(refusal) => self.actors.answer(&mut self.cx, asker, Err(refusal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_leaves_room_for_others() {
        let mut activations = Activations::default();
        let begun = |activations: &mut Activations, user: &str, tries: usize| {
            (0..tries).filter(|_| activations.begin(user)).count()
        };
        assert_eq!(begun(&mut activations, "a@b", 10_000), ACTIVATIONS_USER_MAX);
        let others: usize = (0..ACTIVATIONS_MAX).map(|n| begun(&mut activations, &format!("{n}@b"), 2)).sum();
        assert_eq!(others + ACTIVATIONS_USER_MAX, ACTIVATIONS_MAX);
        activations.end("a@b");
        assert_eq!(begun(&mut activations, "last@b", 2), 1);
        activations.end("nobody@b");
        assert_eq!(activations.under_way, ACTIVATIONS_MAX);
    }
}

//! The link to another shard was renewed ([`crate::link`]): letters of either end may be lost.
//! `docs/decisions/0062-codec.md` lists what makes up for each kind of letter.

use crate::id::ShardId;
use crate::kernel::pending::{Elsewhere, Pending};
use crate::shard::Shard;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;

impl Shard {
    pub(super) fn link_renewed(&mut self, peer: ShardId) {
        self.contacts.link_renewed(&mut self.cx, &mut self.actors, peer);
        self.components.link_renewed(&mut self.cx, peer);
        self.rooms.link_renewed(&mut self.cx, peer);
        self.miss_messages_of_rooms(peer);
        self.unanswered(peer);
    }

    /// Answers requests that wait for this home, which may not have received the question. The client
    /// may ask again.
    fn unanswered(&mut self, home: ShardId) {
        let kernel = &self.cx.kernel;
        let waits_for_it = |pending: &Pending| match pending {
            Pending::Elsewhere(Elsewhere::Filed(asker)) => {
                bare_of(&asker.from).split_once('@').is_some_and(|(_, domain)| kernel.home(domain) == home)
            }
            Pending::Elsewhere(Elsewhere::Missed(gather)) => {
                gather.asked.rooms.iter().any(|room| kernel.home(room) == home)
            }
            _ => false,
        };
        let lost = kernel.pending.iter().filter(|(_, pending)| waits_for_it(pending)).map(|(token, _)| *token);
        let mut lost: Vec<u64> = lost.collect();
        lost.sort_unstable();
        for token in lost {
            match self.cx.kernel.pending.remove(&token) {
                Some(Pending::Elsewhere(Elsewhere::Filed(asker))) if self.actors.asks_still(&asker) => {
                    self.actors.answer(&mut self.cx, asker, Err(StanzaCondition::InternalServerError.into()));
                }
                Some(Pending::Elsewhere(Elsewhere::Missed(gather))) => self.rooms_not_counted(gather.asker),
                _ => {}
            }
        }
    }
}

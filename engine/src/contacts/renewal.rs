//! What presence and rosters do when the link to another shard was renewed: any letter between the
//! two may be lost, in either direction. Both ends do the same, so each makes up for what it sent,
//! and asks for what it may not have received.

use crate::actors::Actors;
use crate::contacts::Contacts;
use crate::extension::Way;
use crate::extension::roster::Roster;
use crate::id::ShardId;
use crate::letters::{PresenceNews, TELLS_GONE};
use crate::limits::RENEWED_AT_ONCE;
use crate::router::users::RosterStep;
use crate::streams::Streams;

/// A round over the users of this shard.
#[derive(Debug)]
pub(super) struct Round {
    /// The link's other end.
    peer: ShardId,
    /// The next user.
    next: u32,
}

impl Contacts {
    /// The link to this shard was renewed.
    pub(crate) fn link_renewed(&mut self, cx: &mut Streams, actors: &mut Actors, peer: ShardId) {
        // One round per peer at a time, from the beginning.
        self.rounds.retain(|round| round.peer != peer);
        self.rounds.push_back(Round { peer, next: 0 });
        self.looked_all(cx, actors, peer);
    }

    /// Goes on with a round: some users per step of the sweep, because their rosters may have to be
    /// read.
    pub(crate) fn go_on_renewing(&mut self, cx: &mut Streams, actors: &mut Actors) {
        let Some(round) = self.rounds.front_mut() else { return };
        let (peer, first) = (round.peer, round.next);
        round.next = first.saturating_add(RENEWED_AT_ONCE).min(actors.users.slots());
        let next = round.next;
        if next == actors.users.slots() {
            self.rounds.pop_front();
        }
        for user in first..next {
            if actors.users.sessions(&actors.sessions, user).any(|(_, session)| session.is_available()) {
                self.roster_step(cx, actors, user, RosterStep::Renewed { peer });
            }
        }
    }

    /// Sends the user's presence to contacts of a shard again, and probes them (RFC 6121 4.3): a
    /// contact that is unavailable says so. Requests and ends of subscriptions are repeated, too.
    pub(super) fn show_renewed(&mut self, cx: &mut Streams, actors: &mut Actors, user: u32, peer: ShardId) {
        self.ask_again(cx, actors, user, Some(peer));
        let presences = self.presences(actors, user);
        if presences.is_empty() {
            return;
        }
        let owner = actors.bare_of_user(user);
        let repeat = |cx: &mut Streams, actors: &mut Actors, roster: &mut Roster| {
            let there = |contact: &str| cx.kernel.home(contact) == peer;
            let shown = |contact: &str| actors.guards(cx, user, Way::Out, contact).is_none();
            let contacts: Vec<_> = roster.contacts().filter(|(contact, _)| there(contact) && shown(contact)).collect();
            for (full, xml) in &presences {
                let from = contacts.iter().filter(|(_, state)| state.from());
                let news = PresenceNews::Available { probe: None };
                cx.kernel.presence_to_all(full, xml, from.map(|(contact, _)| (*contact, news)));
            }
            let to = contacts.iter().filter(|(_, state)| state.to());
            let probe = |contact: &str| PresenceNews::Probe { number: roster.asked(contact) | TELLS_GONE };
            cx.kernel.presence_to_all(&owner, b"", to.map(|(contact, _)| (*contact, probe(contact))));
        };
        self.with_roster(cx, actors, user, repeat);
    }
}

//! Requests whose answers are paced ([`Step::Paced`]): of the sessions of one user one at a time, and when the session that asks
//! has room for the answer. So who asks for much waits alone, and an answer holds up no live message.

use std::collections::VecDeque;

use crate::extension::Step;
use crate::id::SessionId;
use crate::kernel::pending::Asker;
use crate::limits::PACED_WAITING_MAX;
use crate::shard::Shard;
use crate::streams::half::Up;
use crate::wire::error::StanzaCondition;
use crate::wire::jid::bare_of;
use crate::wire::limit::Limit;

/// The requests of a user's sessions that are answered in turn.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Whose request is under way.
    under_way: Option<SessionId>,
    /// Those that wait; bounded by `PACED_WAITING_MAX`.
    waiting: VecDeque<Waits>,
}

#[derive(Clone, Debug, PartialEq)]
struct Waits {
    session: SessionId,
    asker: Asker,
    place: usize,
    step: Step,
}

impl Shard {
    /// A request is to be answered in its turn.
    pub(super) fn paced(&mut self, mut asker: Asker, place: usize, step: Step) {
        if asker.session.is_none() {
            // The asker is elsewhere: its home paces nothing for it, but is charged for the answer.
            return self.do_step(asker, "", place, step);
        }
        let Some((session, seq)) = asker.session.filter(|(session, _)| self.actors.sessions.get(*session).is_some())
        else {
            return self.actors.answer(&mut self.cx, asker, Err(StanzaCondition::Forbidden.into()));
        };
        let paced = self.requests.paced.entry(bare_of(&asker.from).into()).or_default();
        if paced.waiting.len() >= PACED_WAITING_MAX {
            return self.actors.answer(&mut self.cx, asker, Err(Limit::ArchiveQueries.into()));
        }
        asker.paced = true;
        paced.waiting.push_back(Waits { session, asker, place, step });
        // It may wait for what the client acknowledges, which must not wait for it.
        self.actors.stanza_done(&mut self.cx, session, seq);
        self.cx.up.push_back(Up::Lighter(session));
    }

    /// The next request of the user of a session, if it is time: it is under way from now on.
    pub(crate) fn take_paced(&mut self, session: SessionId) -> Option<(Asker, usize, Step)> {
        let user = self.actors.bare_of_user(self.actors.sessions.get(session)?.user);
        let paced = self.requests.paced.get(&*user).filter(|paced| paced.under_way.is_none())?;
        let sessions: Vec<SessionId> = paced.waiting.iter().map(|waits| waits.session).collect();
        let Some(at) = sessions.iter().position(|session| self.cx.has_room(*session)) else {
            sessions.into_iter().for_each(|session| self.cx.await_room(session));
            return None;
        };
        let paced = self.requests.paced.get_mut(&*user)?;
        let Waits { session, asker, place, step } = paced.waiting.remove(at)?;
        paced.under_way = Some(session);
        Some((asker, place, step))
    }

    /// A request that had its turn is answered, or nobody waits for the answer any more.
    pub(super) fn paced_over(&mut self, user: &str, session: SessionId) {
        // Its session has ended, and another request of the user is under way.
        let Some(paced) = self.requests.paced.get_mut(user).filter(|paced| paced.under_way == Some(session)) else {
            return;
        };
        paced.under_way = None;
        self.next_paced(user);
    }

    /// A session has ended: it waits for nothing. A request under way is over when what it reads has come.
    pub(crate) fn forget_paced(&mut self, user: u32, session: SessionId) {
        // Nearly no session has asked for anything of the kind.
        if self.requests.paced.is_empty() {
            return;
        }
        let user = self.actors.bare_of_user(user);
        // Its user has not.
        let Some(paced) = self.requests.paced.get_mut(&*user) else { return };
        paced.waiting.retain(|waits| waits.session != session);
        self.next_paced(&user);
    }

    fn next_paced(&mut self, user: &str) {
        // It goes on when the request under way has ended.
        let Some(paced) = self.requests.paced.get(user).filter(|paced| paced.under_way.is_none()) else { return };
        match paced.waiting.front().map(|waits| waits.session) {
            Some(session) => self.cx.up.push_back(Up::Lighter(session)),
            None => drop(self.requests.paced.remove(user)),
        }
    }
}

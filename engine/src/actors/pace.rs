//! How fast accounts send: who sends faster than an account may is not read from for a while, with all sessions that go on sending.
//! Nothing is refused or lost. The client's network holds what it sends meanwhile.

use crate::actors::Actors;
use crate::id::SessionId;
use crate::session::conn::NONE;
use crate::wire::limit::Limit;

impl Actors {
    /// A stanza of so many bytes has come from a session's client.
    #[inline]
    pub(crate) fn spend(&mut self, session: SessionId, bytes: usize) {
        let user = self.sessions.slot(session.slot).user;
        let (now_ms, may) = (self.now.mono_ms as u32, self.settings.paces);
        if !self.users.pace_mut(user).spend(now_ms, bytes, &may) {
            self.overspent(session, user);
        }
    }

    /// That was more than an ordinary account may, or than a busy one, as which it has counted so far.
    #[cold]
    #[inline(never)]
    fn overspent(&mut self, session: SessionId, user: u32) {
        let bare = self.users.bare(user);
        let settings = &self.settings;
        let busy = settings.admins.iter().chain(&*settings.busy_accounts).any(|jid| **jid == *bare);
        self.users.pace_mut(user).set_busy(busy);
        self.hold_if_spent(session);
    }

    /// A session begins, is resumed, or goes on: if its account has sent more than it may, it is not read from yet.
    pub(crate) fn hold_if_spent(&mut self, session: SessionId) {
        // It has ended with what it has just sent.
        let Some(user) = self.sessions.get(session).map(|session| session.user) else { return };
        let (now_ms, may) = (self.now.mono_ms as u32, self.settings.paces);
        let pace = self.users.pace_mut(user);
        if pace.held_ms(now_ms, &may) == 0 {
            return;
        }
        let left_ms = pace.goes_on_ms(now_ms, &may);
        if self.hold_back(session, left_ms) {
            self.counters.pace_paused.one();
            let (now_ms, who) = (self.now.mono_ms, self.users.bare(user));
            self.refusals.note(now_ms, Limit::Stanzas, who);
        }
    }

    /// Reads again from sessions whose accounts may send again. A turn's part of the sweep.
    pub(crate) fn sweep_paces(&mut self) {
        while let Some(id) = self.next_held_back() {
            let Some(user) = self.sessions.get(id).map(|session| session.user) else { continue };
            let (now_ms, may) = (self.now.mono_ms as u32, self.settings.paces);
            match self.users.pace_mut(user).goes_on_ms(now_ms, &may) {
                0 => self.let_go_on(id),
                // Another session of the account has sent meanwhile.
                left_ms => self.look_later(id, left_ms),
            }
        }
    }

    /// Whether something counts still of what a user has sent, who is to be remembered so long.
    pub(crate) fn has_spent(&mut self, user: u32) -> bool {
        let (now_ms, may) = (self.now.mono_ms as u32, self.settings.paces);
        !self.users.pace_mut(user).is_empty(now_ms, &may)
    }

    /// Nothing counts any more of what those have sent who are held back.
    pub(crate) fn forgive_all(&mut self) {
        for id in self.held_back() {
            if let Some(user) = self.sessions.get(id).map(|session| session.user) {
                self.forgive_spent(user);
            }
        }
    }

    /// Nothing counts any more of what a user has sent.
    pub(crate) fn forgive_spent(&mut self, user: u32) {
        *self.users.pace_mut(user) = Default::default();
        let mut at = self.users.get(user).first;
        while at != NONE
            && let Some(id) = self.sessions.id(at)
        {
            at = self.sessions.slot(at).next;
            self.let_go_on(id);
        }
    }
}

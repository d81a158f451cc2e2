//! Rate limits of accounts. While an account exceeds its rate, those of its sessions that keep
//! sending are not read from. No stanza is refused or lost; meanwhile the client's network buffers
//! hold its output.

use crate::actors::Actors;
use crate::id::SessionId;
use crate::session::conn::NONE;
use crate::streams::Streams;
use crate::wire::limit::Limit;

impl Actors {
    /// A stanza of `bytes` bytes has arrived from a session's client.
    #[inline]
    pub(crate) fn spend(&mut self, cx: &mut Streams, session: SessionId, bytes: usize) {
        let user = self.sessions.slot(session.slot).user;
        let (now_ms, may) = (cx.kernel.now.mono_ms as u32, cx.kernel.settings.paces);
        if !self.users.pace_mut(user).spend(now_ms, bytes, &may) {
            self.overspent(cx, session, user);
        }
    }

    /// The account exceeds the rate of an ordinary account, or of a busy one if it counted as busy
    /// already.
    #[cold]
    #[inline(never)]
    fn overspent(&mut self, cx: &mut Streams, session: SessionId, user: u32) {
        let bare = self.users.bare(user);
        let settings = &cx.kernel.settings;
        let busy = settings.admins.iter().chain(&*settings.busy_accounts).any(|jid| **jid == *bare);
        self.users.pace_mut(user).set_busy(busy);
        self.hold_if_spent(cx, session);
    }

    /// A session begins, is resumed or continues. If its account exceeds its rate, the session is
    /// not read from yet.
    pub(crate) fn hold_if_spent(&mut self, cx: &mut Streams, session: SessionId) {
        // The session has ended with the input that it just sent.
        let Some(user) = self.sessions.get(session).map(|session| session.user) else { return };
        let (now_ms, may) = (cx.kernel.now.mono_ms as u32, cx.kernel.settings.paces);
        let pace = self.users.pace_mut(user);
        if pace.held_ms(now_ms, &may) == 0 {
            return;
        }
        let left_ms = pace.goes_on_ms(now_ms, &may);
        if cx.hold_back(session, left_ms) {
            cx.kernel.counters.pace_paused.one();
            let (now_ms, who) = (cx.kernel.now.mono_ms, self.users.bare(user));
            cx.kernel.refusals.note(now_ms, Limit::Stanzas, who);
        }
    }

    /// Resumes reading from sessions whose accounts are within their rate again. One turn's share
    /// of the sweep.
    pub(crate) fn sweep_paces(&mut self, cx: &mut Streams) {
        while let Some(id) = cx.next_held_back() {
            let Some(user) = self.sessions.get(id).map(|session| session.user) else { continue };
            let (now_ms, may) = (cx.kernel.now.mono_ms as u32, cx.kernel.settings.paces);
            match self.users.pace_mut(user).goes_on_ms(now_ms, &may) {
                0 => cx.let_go_on(id),
                // Another session of the account has sent in the meantime.
                left_ms => cx.look_later(id, left_ms),
            }
        }
    }

    /// Whether a user's rate still has a balance, for which the user must stay in memory.
    pub(crate) fn has_spent(&mut self, cx: &mut Streams, user: u32) -> bool {
        let (now_ms, may) = (cx.kernel.now.mono_ms as u32, cx.kernel.settings.paces);
        !self.users.pace_mut(user).is_empty(now_ms, &may)
    }

    /// Clears the rate balance of all accounts that are held back.
    pub(crate) fn forgive_all(&mut self, cx: &mut Streams) {
        for id in cx.held_back() {
            if let Some(user) = self.sessions.get(id).map(|session| session.user) {
                self.forgive_spent(cx, user);
            }
        }
    }

    /// Clears the rate balance of a user.
    pub(crate) fn forgive_spent(&mut self, cx: &mut Streams, user: u32) {
        *self.users.pace_mut(user) = Default::default();
        let mut at = self.users.get(user).first;
        while at != NONE
            && let Some(id) = self.sessions.id(at)
        {
            at = self.sessions.slot(at).next;
            cx.let_go_on(id);
        }
    }
}

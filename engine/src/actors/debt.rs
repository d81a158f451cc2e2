//! Debts of users for the work of sessions that have ended (see [`work`](crate::streams::work)).
//! The user's next sessions begin with the debt. A client therefore gains nothing by ending each
//! session when it is no longer read from and logging in again.
//!
//! The debt is one timestamp beside the user's quotas. It stays in memory until it has passed and
//! is never written. Debts of several sessions are not added up: the sessions would have paid them
//! off at the same time.

use crate::actors::Actors;
use crate::id::SessionId;
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::streams::work::time_ms;

impl Actors {
    /// A session of a user has ended with a debt of `owed_ms` milliseconds.
    pub(crate) fn keep_debt(&mut self, cx: &mut Streams, user: u32, owed_ms: u32) {
        if owed_ms == 0 {
            return;
        }
        let (now_ms, now_s) = (cx.kernel.now.mono_ms, cx.kernel.now.mono_s());
        let quota = &mut self.users.state(user, now_s).quota;
        quota.work_until_ms = quota.work_until_ms.max(now_ms + u64::from(owed_ms));
    }

    /// A session of a user begins with the debt of those before it.
    pub(crate) fn take_debt(&mut self, cx: &mut Streams, user: u32, session: SessionId) {
        let until_ms = self.users.get(user).state.as_ref().map_or(0, |state| state.quota.work_until_ms);
        let owed_ms = until_ms.saturating_sub(cx.kernel.now.mono_ms);
        if owed_ms > 0 {
            cx.owe(session, u32::try_from(owed_ms).unwrap_or(u32::MAX));
        }
    }

    /// A session of a user has caused work. If it has ended since, the next session pays for it.
    pub(crate) fn charge(&mut self, cx: &mut Streams, user: &str, session: SessionId, work: u64) {
        if self.sessions.get(session).is_some() {
            return cx.tell(session, Down::Charge(work));
        }
        let Some(user) = self.users.find(user) else { return };
        let (now_ms, now_s) = (cx.kernel.now.mono_ms, cx.kernel.now.mono_s());
        let quota = &mut self.users.state(user, now_s).quota;
        quota.work_until_ms = quota.work_until_ms.max(now_ms) + u64::from(time_ms(work));
    }
}

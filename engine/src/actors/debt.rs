//! What a user owes for work of sessions that have ended (see [`work`](crate::streams::work)). The next ones begin with it: who logs in
//! again and again, and ends each session when it is not read from any more, gets nothing by it.
//!
//! It is one stamp beside the user's quotas, which stays in memory until it has passed and is never written. Debts of several sessions
//! are not added up: each session that there may be would have paid its own off in the same time.

use crate::actors::Actors;
use crate::id::SessionId;
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::streams::work::time_ms;

impl Actors {
    /// A session of a user has ended, and owed this, milliseconds.
    pub(crate) fn keep_debt(&mut self, cx: &mut Streams, user: u32, owed_ms: u32) {
        if owed_ms == 0 {
            return;
        }
        let (now_ms, now_s) = (cx.kernel.now.mono_ms, cx.kernel.now.mono_s());
        let quota = &mut self.users.state(user, now_s).quota;
        quota.work_until_ms = quota.work_until_ms.max(now_ms + u64::from(owed_ms));
    }

    /// A session of a user begins with what those before it owe.
    pub(crate) fn take_debt(&mut self, cx: &mut Streams, user: u32, session: SessionId) {
        let until_ms = self.users.get(user).state.as_ref().map_or(0, |state| state.quota.work_until_ms);
        let owed_ms = until_ms.saturating_sub(cx.kernel.now.mono_ms);
        if owed_ms > 0 {
            cx.owe(session, u32::try_from(owed_ms).unwrap_or(u32::MAX));
        }
    }

    /// A session of a user has set off work; one that has ended since leaves it to the next one.
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

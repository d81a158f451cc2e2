//! Long-running work that is handed out: key derivations. The queue is bounded by the connections
//! that need them.

use crate::id::ConnId;
use crate::io::{Effect, Inquiry, Job, Question};
use crate::kernel::pending::{Elsewhere, Pending};
use crate::limits::{JOBS_UNDER_WAY_MAX, JOBS_WAITING_SPARE, NOTIFY_INQUIRIES_MAX, OUTSIDE_ASKS_MAX};
use crate::streams::Streams;

impl Streams {
    /// Hands out a job. Its result arrives at [`Shard::job_done`](crate::shard::Shard).
    pub(crate) fn job(&mut self, pending: Pending, job: Job) {
        if self.jobs_waiting.len() >= 2 * self.conns.held() + JOBS_WAITING_SPARE {
            let conns = &mut self.conns;
            self.jobs_waiting.retain(
                |(pending, _)| !matches!(pending, Pending::Elsewhere(Elsewhere::Keys(id)) if conns.get(*id).is_none()),
            );
        }
        self.jobs_waiting.push((pending, job));
        self.hand_out_jobs();
    }

    /// Asks the external back end on behalf of a connection. Returns false if too many questions
    /// are outstanding.
    pub(crate) fn ask_outside(&mut self, conn: ConnId, question: Question) -> bool {
        if self.asks_under_way >= OUTSIDE_ASKS_MAX {
            return false;
        }
        let token = self.kernel.token(Pending::Elsewhere(Elsewhere::Verdict(conn)));
        self.asks_under_way += 1;
        self.kernel.counters.outside_asks.one();
        self.kernel.effects.push(Effect::Ask { token, question: Box::new(question) });
        true
    }

    /// Asks the operator's back end about a request for channels. Returns the token of the answer,
    /// or `None` if too many questions are outstanding.
    pub(crate) fn inquire(&mut self, conn: ConnId, key: [u8; 32], inquiry: Inquiry) -> Option<u64> {
        if self.inquiries_under_way >= NOTIFY_INQUIRIES_MAX {
            return None;
        }
        let token = self.kernel.token(Pending::Elsewhere(Elsewhere::Inquiry(conn, Box::new(key))));
        self.inquiries_under_way += 1;
        self.kernel.counters.notify_asked.one();
        self.kernel.effects.push(Effect::Inquire { token, inquiry: Box::new(inquiry) });
        Some(token)
    }

    /// Hands out waiting jobs, the latest first. Drops those whose connection has closed.
    pub(crate) fn hand_out_jobs(&mut self) {
        while self.jobs_under_way < JOBS_UNDER_WAY_MAX
            && let Some((pending, job)) = self.jobs_waiting.pop()
        {
            if let Pending::Elsewhere(Elsewhere::Keys(conn)) = pending
                && self.conns.get(conn).is_none()
            {
                continue;
            }
            let token = self.kernel.token(pending);
            self.kernel.counters.jobs.one();
            self.jobs_under_way += 1;
            self.kernel.effects.push(Effect::Job { token, job });
        }
    }
}

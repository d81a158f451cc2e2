//! Reports to the operator (XEP-0377), at the home of who reports: a line of the log for each, and a letter to the home of the domain.

use crate::io::Happened;
use crate::kernel::pending::{Asker, Elsewhere, Pending};
use crate::letters::{ConnRef, Filing, Question};
use crate::shard::Shard;
use crate::store::report::Report;
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::jid::bare_of;

impl Shard {
    /// A request has reported somebody. It is answered when the home of its domain keeps that, or leaves it out: what has been answered is
    /// not lost with a crash.
    pub(super) fn report(&mut self, asker: Asker, reports: Vec<Report>) {
        let by: Box<str> = bare_of(&asker.from).into();
        if let Some((session, _)) = asker.session {
            let bytes = reports.iter().map(|report| report.bytes() + by.len()).sum();
            self.cx.tell(session, Down::Charge(work(reports.len(), bytes)));
        }
        for report in &reports {
            self.actors.note_change(&mut self.cx, Happened::Reported(Box::new(report.clone())), &by, &asker);
        }
        let domain = by.split_once('@').map_or("", |(_, domain)| domain).to_owned();
        let token = self.cx.kernel.token(Pending::Elsewhere(Elsewhere::Filed(asker)));
        // The answer comes by the token.
        let nobody = ConnRef::nobody(self.cx.kernel.id);
        self.cx.kernel.ask_home(nobody, &domain, Question::File(Box::new(Filing { by, reports, token })));
    }

    /// The reports of a request are kept, or left out.
    pub(crate) fn filed(&mut self, token: u64) {
        // Whoever asked is in the table until this comes.
        let Some(Pending::Elsewhere(Elsewhere::Filed(asker))) = self.cx.kernel.pending.remove(&token) else { return };
        if self.actors.asks_still(&asker) {
            self.actors.answer(&mut self.cx, asker, Ok(b""));
        }
    }
}

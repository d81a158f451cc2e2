//! Reports to the operator (XEP-0377), at the home of who reports: a line of the log for each, and a letter to the home of the domain.

use crate::io::Happened;
use crate::letters::{ConnRef, Filing, Question};
use crate::requests::Requests;
use crate::store::report::Report;
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::turn::pending::{Asker, Pending};
use crate::wire::jid::bare_of;

impl Requests {
    /// A request has reported somebody. It is answered when the home of its domain keeps that, or leaves it out: what has been answered is
    /// not lost with a crash.
    pub(super) fn report(&mut self, asker: Asker, reports: Vec<Report>) {
        let by: Box<str> = bare_of(&asker.from).into();
        if let Some((session, _)) = asker.session {
            let bytes = reports.iter().map(|report| report.bytes() + by.len()).sum();
            self.tell(session, Down::Charge(work(reports.len(), bytes)));
        }
        for report in &reports {
            self.note_change(Happened::Reported(Box::new(report.clone())), &by, &asker);
        }
        let domain = by.split_once('@').map_or("", |(_, domain)| domain).to_owned();
        let token = self.token(Pending::Filed(asker));
        // The answer comes by the token.
        let nobody = ConnRef::nobody(self.id);
        self.ask_home(nobody, &domain, Question::File(Box::new(Filing { by, reports, token })));
    }

    /// The reports of a request are kept, or left out.
    pub(crate) fn filed(&mut self, token: u64) {
        // Whoever asked is in the table until this comes.
        let Some(Pending::Filed(asker)) = self.pending.remove(&token) else { return };
        if self.asks_still(&asker) {
            self.answer(asker, Ok(b""));
        }
    }
}

//! Logins of users of an external back end: the question leaves the shard, and the answer decides.

use crate::id::ConnId;
use crate::io::{Happened, Question, Unknown, Verdict};
use crate::kernel::pending::{Elsewhere, Pending};
use crate::letters::{self, ConnRef};
use crate::session::conn::Stage;
use crate::session::sasl::outside::{Decided, ExpectAdmission, ExpectVerdict};
use crate::session::sasl::{Failure, PlainAttempt};
use crate::shard::Shard;
use crate::store::account::Credentials;
use crate::wire::limit::{Held, Limit};

impl Shard {
    /// The home has answered about an account for which a password was presented.
    pub(super) fn ask_about(&mut self, id: ConnId, attempt: PlainAttempt, row: Option<&[u8]>) {
        let found = row.and_then(|row| Credentials::decode(row).ok());
        if row.is_some() && found.is_none() {
            return self.auth_failed(id, Failure::UNREADABLE);
        }
        let (question, state) = attempt.asks_outside(found.as_ref());
        self.expect_verdict(id, question, state);
    }

    /// Asks the back end for a connection, which is not read from until the answer arrives.
    pub(super) fn expect_verdict(&mut self, id: ConnId, question: Question, state: ExpectVerdict) {
        self.cx.conns.set_stage(id, Stage::ExpectVerdict(Box::new(state)));
        if !self.cx.ask_outside(id, question) {
            self.verdict(id, Verdict::Unknown(Unknown::Busy));
        }
    }

    /// An answer has arrived, possibly for a connection that has closed.
    pub(crate) fn told(&mut self, token: u64, verdict: Verdict) {
        // A token is valid for one answer: a repeated answer is ignored.
        let Some(Pending::Elsewhere(Elsewhere::Verdict(id))) = self.cx.kernel.pending.remove(&token) else { return };
        self.cx.asks_under_way -= 1;
        self.verdict(id, verdict);
    }

    fn verdict(&mut self, id: ConnId, verdict: Verdict) {
        if !matches!(self.cx.opening(id).map(|opening| opening.stage()), Some(Stage::ExpectVerdict(_))) {
            return;
        }
        let Some(Stage::ExpectVerdict(state)) = self.cx.conns.set_stage(id, Stage::ExpectChoice) else {
            unreachable!("it was just looked at");
        };
        match state.verdict(verdict) {
            Decided::There(proof, message) => self.authenticated(id, proof, None, &message, b""),
            Decided::New(state) => self.ask_to_admit(id, state),
            Decided::Refused(failure) => self.auth_failed(id, failure),
            Decided::Gone(account) => {
                let nobody = ConnRef { shard: self.cx.kernel.id, conn: id };
                self.cx.kernel.ask_home(nobody, &account, letters::Question::Ousted);
                self.cx.kernel.note(Happened::Ousted, &account, None);
                self.auth_failed(id, Failure::NO_TOKEN);
            }
            Decided::Unknown(why) => self.undecided(id, why),
        }
    }

    /// There is no verdict: the client is to try again later (RFC 6120 6.5.11), and is sent the
    /// same error whatever the reason.
    fn undecided(&mut self, id: ConnId, why: Unknown) {
        self.cx.kernel.counters.outside_unknown.one();
        let attempt = self.cx.opening(id).and_then(|opening| opening.attempt.as_ref());
        if let Some((account, peer)) = attempt.map(|attempt| (attempt.account.clone(), attempt.peer)) {
            match why.was_asked() {
                true => self.cx.kernel.charge_address(peer),
                false => {
                    let conn = ConnRef { shard: self.cx.kernel.id, conn: id };
                    self.cx.kernel.ask_home(conn, &account, letters::Question::Untried { peer });
                }
            }
        }
        self.auth_held(id, Held::by(Limit::Outside));
    }

    /// Asks the home for the account of a user who logs in for the first time.
    pub(super) fn ask_to_admit(&mut self, id: ConnId, state: ExpectAdmission) {
        let account = Box::<str>::from(state.bare());
        self.cx.conns.set_stage(id, Stage::ExpectAdmission(Box::new(state)));
        let conn = ConnRef { shard: self.cx.kernel.id, conn: id };
        self.cx.kernel.ask_home(conn, &account, letters::Question::Admit);
    }

    /// The home has answered with the account.
    pub(super) fn admitted(&mut self, id: ConnId, state: ExpectAdmission, row: Option<&[u8]>) {
        let found = row.and_then(|row| Credentials::decode(row).ok());
        match state.admitted(found.as_ref()) {
            Ok(proof) => self.authenticated(id, proof, None, b"", b""),
            Err(failure) => self.auth_failed(id, failure),
        }
    }
}

//! Accounts that an administrator must approve, at the home of their domain: how many wait, for how
//! long, and which administrators are notified.
//!
//! A waiting account exists but cannot be used. Its name is taken, and its user is told the reason
//! at login.

use crate::accounts::Accounts;
use crate::actors::Actors;
use crate::letters::{Answer, Apply, ConnRef, Leave, Question};
use crate::limits::APPLICANTS_TOLD_S;
use crate::store::account::{Credentials, Incarnation, Standing};
use crate::store::invitation::{self as rows, Applicant};
use crate::store::{Found, Row};
use crate::streams::Streams;
use crate::wire::limit::{Held, Limit};
use rand_core::RngCore;

/// What a row records of a waiting account.
pub(super) enum Waits<'a> {
    /// It still waits, under this name.
    Still(&'a str),
    /// It has waited too long and is removed.
    TooLong,
}

impl Accounts {
    /// Lets an account wait for approval, if not too many do.
    pub(super) fn apply(&mut self, cx: &mut Streams, conn: ConnRef, domain: &str, apply: Apply, found: Vec<Found>) {
        let Apply { account, credentials, address, leave } = apply;
        let Some(Found::Rows { rows: all, .. }) = found.into_iter().next() else {
            return self.outcome(cx, conn, leave, &account, false, Answer::Unreadable);
        };
        let (now_s, mut waiting) = (self.wall_s(cx), 0);
        for row in &all {
            match self.applicant_in(cx, domain, row) {
                Some(Waits::TooLong) => {}
                Some(Waits::Still(name)) if *name == *account => {
                    return self.outcome(cx, conn, leave, &account, false, Answer::Taken);
                }
                Some(Waits::Still(_)) | None => waiting += 1,
            }
        }
        if waiting >= cx.kernel.settings.applicants_max {
            cx.kernel.limited(Limit::Applicants.into(), || domain.to_owned());
            return self.outcome(cx, conn, leave, &account, false, Answer::Held(Held::by(Limit::Applicants)));
        }
        let incarnation = match &leave {
            Some(leave) => leave.incarnation,
            None => Incarnation::drawn(cx.kernel.entropy.next_u64()),
        };
        let applicant = Applicant { incarnation, since_s: now_s, address: address.to_string().into() };
        applicant.put(&mut cx.kernel.writes, domain, &account);
        let inviter = leave.as_ref().map_or_else(|| "".into(), |leave| leave.inviter.clone());
        let gives_name = leave.as_ref().is_some_and(|leave| leave.gives_name);
        let leave = Leave { by: domain.into(), id: None, incarnation, inviter, gives_name, then: leave };
        cx.kernel.ask_home(conn, &account, Question::Register { credentials, leave: Some(Box::new(leave)) });
    }

    /// Reads a waiting account from its row and removes it if it has waited too long. `None` if the
    /// row is of another kind.
    pub(super) fn applicant_in<'a>(&mut self, cx: &mut Streams, domain: &str, row: &'a Row) -> Option<Waits<'a>> {
        let (name, applicant) = rows::applicant_of_sort(&row.sort).zip(Applicant::decode(&row.value))?;
        if applicant.since_s.saturating_add(cx.kernel.settings.applicants_s) > self.expiry_s(cx) {
            return Some(Waits::Still(name));
        }
        rows::delete_applicant(&mut cx.kernel.writes, domain, name);
        let nobody = self.nobody(cx);
        cx.kernel.ask_home(nobody, name, Question::Expired(applicant.incarnation));
        Some(Waits::TooLong)
    }

    /// An account that was to wait was created, or was not. The actor that gave leave for it is
    /// informed next.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn settle_applicant(
        &mut self,
        cx: &mut Streams,
        conn: ConnRef,
        domain: &str,
        leave: Leave,
        account: &str,
        made: bool,
        answer: Answer,
        found: Vec<Found>,
    ) {
        let row = found.into_iter().next().and_then(Found::value);
        let waits = row.as_deref().and_then(Applicant::decode);
        if waits.is_some_and(|waits| waits.incarnation == leave.incarnation) {
            match made {
                true => self.applicant_came(cx, domain, account),
                false => rows::delete_applicant(&mut cx.kernel.writes, domain, account),
            }
        }
        self.outcome(cx, conn, leave.then, account, made, answer);
    }

    fn applicant_came(&mut self, cx: &mut Streams, domain: &str, account: &str) {
        self.untold.note(domain, account);
        self.tell_administrators(cx);
    }

    /// Notifies administrators of waiting accounts, if there are any and the last notice is long
    /// enough ago.
    pub(crate) fn tell_administrators(&mut self, cx: &mut Streams) {
        let Some(news) = self.untold.due(cx.kernel.now.mono_s(), APPLICANTS_TOLD_S) else { return };
        let text = news.text(
            "accounts were registered and wait for approval",
            "Approve or reject them with your client's commands, or with throng user approve and reject.",
        );
        self.message_administrators(cx, &news.domain, "Accounts wait for approval", &text);
    }

    /// Approves a waiting account of this home. The domain removes its row.
    pub(crate) fn approve(
        &mut self,
        cx: &mut Streams,
        actors: &mut Actors,
        account: &str,
        mut credentials: Credentials,
    ) {
        credentials.set_standing(Standing::InUse);
        let incarnation = credentials.incarnation();
        self.put_account(cx, actors, account, credentials, incarnation);
        self.applicant_decided(cx, account);
    }

    /// An administrator has decided about an account of this home.
    pub(crate) fn applicant_decided(&mut self, cx: &mut Streams, account: &str) {
        let domain = account.split_once('@').map_or("", |(_, domain)| domain).to_owned();
        let nobody = self.nobody(cx);
        cx.kernel.ask_home(nobody, &domain, Question::Decided(account.into()));
    }
}

//! In-band registration before authentication (XEP-0077 3.1), and tokens presented for it (XEP-0445
//! 4).

use crate::extension;
use crate::extension::invite::names::Why;
use crate::extension::invite::{self, token};
use crate::extension::{AccountAction, Rule, Step, register};
use crate::id::ConnId;
use crate::io::Happened;
use crate::kernel::pending::{Elsewhere, Pending};
use crate::letters::{Answer, Apply, ConnRef, Question, Redeem};
use crate::limits::INVITATION_AGAIN_MAX;
use crate::session::conn::{Registering, Showing, Stage};
use crate::shard::Shard;
use crate::store::account::Credentials;
use crate::store::invitation::InvitationId;
use crate::streams::opening::is_private;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;
use crate::wire::written::write_error;
use crate::wire::{Element, jid};

impl Shard {
    pub(super) fn iq_before_login(&mut self, id: ConnId, iq: &Element<'_>) {
        let opening = self.cx.heard(id);
        let (open, private, domain) = (opening.listener.registration, is_private(opening), opening.domain);
        let outside = self.cx.kernel.settings.domains.is_outside(domain);
        let opening = self.cx.heard(id);
        let invited = opening.invited.is_some();
        let set = iq.kind().as_deref() == Some("set");
        let facts = extension::ServerFacts { registration: open, ..self.cx.kernel.facts.clone() };
        let local: fn(&str) -> Option<Box<str>> = |text| jid::normalise_local(text).ok().map(|local| local.into());
        let payload = iq.children().next().map(|c| c.bytes().to_vec()).unwrap_or_default();
        let token = invite::shown(&payload).filter(|_| set && invite::registers(&facts));
        if let Some(token) = token.filter(|_| !outside) {
            return self.token_shown_by(id, &token, private, iq.id().unwrap_or_default().into());
        }
        let step = register::before_authentication(&facts, private, invited, local, set, &payload);
        let registering =
            Registering { account: "".into(), password: "".into(), id: iq.id().unwrap_or_default().into() };
        match step {
            Some(_) if outside => self.registration_failed(id, &registering.id, Limit::KeptElsewhere),
            Some(Step::Result(payload)) => self.registration_result(id, &registering.id, &payload),
            Some(Step::Account(AccountAction::Create { local, password })) => {
                if crate::store::password::prepare(&password).is_err() {
                    return self.registration_failed(id, &registering.id, Limit::Credentials);
                }
                let account: Box<str> = [&*local, "@", self.cx.kernel.settings.domains.name(domain)].concat().into();
                if let Err(refusal) = self.may_be_named(id, &account) {
                    return self.registration_failed(id, &registering.id, refusal);
                }
                let registering = Registering { account, password: (&*password).into(), ..registering };
                let peer = self.accounts.heard_from(&mut self.cx, id);
                self.cx.conns.set_stage(id, Stage::ExpectRegistration(Box::new(registering)));
                self.cx.block(id);
                self.cx.kernel.ask_counting(id, peer, "", Question::MayRegister { peer });
            }
            Some(Step::Error(refusal)) => self.registration_failed(id, &registering.id, refusal),
            Some(_) | None => self.cx.fail_stream(id, StreamCondition::NotAuthorized, Some("authenticate first")),
        }
    }

    /// Whether a connection may register this name: a name that its invitation is for, or one that
    /// is not reserved.
    fn may_be_named(&mut self, id: ConnId, account: &str) -> Result<(), Refusal> {
        let invited = self.cx.opening(id).and_then(|opening| opening.invited.as_ref());
        if let Some(invited) = invited.filter(|invited| invited.is_named) {
            return if *invited.actor == *account { Ok(()) } else { Err(Limit::InvitedName.into()) };
        }
        // The account's home checks again. No key has been derived here yet.
        match self.cx.kernel.settings.withheld().why(account) {
            Some(Why::Rights) => Err(StanzaCondition::Conflict.into()),
            Some(Why::Reserved) => Err(Limit::ReservedName.into()),
            None => Ok(()),
        }
    }

    // Tokens (XEP-0445 4).

    /// A token is presented. The shard that counts the address is asked first, as for logins,
    /// because the token may be a guess.
    fn token_shown_by(&mut self, id: ConnId, token: &str, private: bool, iq: Box<str>) {
        if !private {
            return self.registration_failed(id, &iq, StanzaCondition::NotAuthorized);
        }
        let domains = self.cx.kernel.settings.domains.clone();
        let opening = self.cx.heard(id);
        opening.invited = None;
        let Some(actor) = token::actor(token, domains.name(opening.domain)) else {
            return self.not_invited(id, &iq);
        };
        let invitation = InvitationId::of(token);
        self.ask_for_invitation(id, Showing { actor: actor.into(), invitation, asked: 0, id: iq });
    }

    fn ask_for_invitation(&mut self, id: ConnId, showing: Showing) {
        let peer = self.accounts.heard_from(&mut self.cx, id);
        let (actor, invitation) = (showing.actor.clone(), showing.invitation);
        self.cx.conns.set_stage(id, Stage::ExpectInvitation(Box::new(showing)));
        self.cx.block(id);
        self.cx.kernel.ask_counting(id, peer, &actor, Question::MayShow { peer, id: invitation });
    }

    pub(super) fn invitation_answered(&mut self, id: ConnId, mut showing: Showing, answer: Answer) {
        match answer {
            Answer::Invited(invited) => {
                if let Some(opening) = self.cx.opening(id) {
                    opening.invited = Some(invited);
                }
                self.registration_result(id, &showing.id, b"");
            }
            Answer::Again if showing.asked < INVITATION_AGAIN_MAX => {
                showing.asked += 1;
                self.ask_for_invitation(id, showing);
            }
            Answer::NotInvited => self.not_invited(id, &showing.id),
            Answer::Held(held) => self.registration_failed(id, &showing.id, held),
            _ => self.registration_failed(id, &showing.id, StanzaCondition::InternalServerError),
        }
    }

    /// The address is charged as for a failed login, and repeated failures end the stream.
    fn not_invited(&mut self, id: ConnId, iq: &str) {
        if let Some(peer) = self.accounts.peer(&mut self.cx, id) {
            self.cx.kernel.charge_address(peer);
            self.cx.kernel.note(
                Happened::LoginFailed { mechanism: "invitation", reason: "item-not-found" },
                "",
                Some(peer.address),
            );
        }
        let most = self.cx.kernel.settings.auth_attempts_max;
        let opening = self.cx.heard(id);
        opening.attempts = opening.attempts.saturating_add(1);
        let over = opening.attempts >= most;
        self.registration_failed(id, iq, Limit::Invitation);
        if over {
            self.cx.fail_stream(id, StreamCondition::PolicyViolation, Some("too many invalid tokens"));
        }
    }

    /// The keys of a new account's password have been derived: asks the actor that decides about
    /// the account.
    pub(super) fn registration_keys(&mut self, id: ConnId, registering: Box<Registering>, keys: Box<Credentials>) {
        let (account, conn) = (registering.account.clone(), ConnRef { shard: self.cx.kernel.id, conn: id });
        let rule = self.cx.kernel.facts.rule;
        let opening = self.cx.heard(id);
        let (address, invited) = (opening.peer, opening.invited.clone());
        self.cx.conns.set_stage(id, Stage::ExpectRegistration(registering));
        if let Some(invited) = invited {
            let redeem = Redeem { id: invited.id, account, credentials: keys, address };
            return self.cx.kernel.ask_home(conn, &invited.actor, Question::Redeem(Box::new(redeem)));
        }
        if rule == Rule::Approval {
            let domain = account.split_once('@').map_or("", |(_, domain)| domain).to_owned();
            let apply = Apply { account, credentials: keys, address, leave: None };
            return self.cx.kernel.ask_home(conn, &domain, Question::Apply(Box::new(apply)));
        }
        self.cx.kernel.ask_home(conn, &account, Question::Register { credentials: keys, leave: None });
    }

    /// The address may register: the keys are derived, which takes long.
    pub(super) fn registration_goes_on(&mut self, id: ConnId, mut registering: Box<Registering>) {
        let password = std::mem::take(&mut registering.password);
        let Some(job) = self.accounts.derive_keys(&mut self.cx, &password) else {
            return self.registration_failed(id, &registering.id, Limit::Credentials);
        };
        self.cx.conns.set_stage(id, Stage::ExpectRegistration(registering));
        self.cx.job(Pending::Elsewhere(Elsewhere::Keys(id)), job);
    }

    pub(super) fn registration_answered(&mut self, id: ConnId, registering: &Registering, answer: &Answer) {
        match answer {
            Answer::Registered => {
                let address = self.cx.opening(id).map(|opening| opening.peer);
                self.cx.kernel.note(Happened::Registered, &registering.account, address);
                if let Some(opening) = self.cx.opening(id) {
                    opening.promised = true;
                    opening.invited = None;
                }
                self.registration_result(id, &registering.id, b"");
            }
            Answer::Taken => self.registration_failed(id, &registering.id, StanzaCondition::Conflict),
            Answer::Reserved => self.registration_failed(id, &registering.id, Limit::ReservedName),
            Answer::NotInvited => {
                if let Some(opening) = self.cx.opening(id) {
                    opening.invited = None;
                }
                self.registration_failed(id, &registering.id, Limit::Invitation);
            }
            Answer::StoreFull => self.registration_failed(id, &registering.id, Limit::Disk),
            Answer::Held(held) => self.registration_failed(id, &registering.id, *held),
            _ => self.registration_failed(id, &registering.id, StanzaCondition::InternalServerError),
        }
    }

    fn registration_result(&mut self, id: ConnId, iq: &str, payload: &[u8]) {
        let from = self.domain_asked(id);
        self.cx.send_with(id, |out| {
            let mut w = Writer::new(out);
            w.open("iq").attribute("type", "result").attribute("id", iq).attribute("from", &from).raw(payload).close();
        });
        self.cx.unblock(id);
    }

    pub(super) fn registration_failed(&mut self, id: ConnId, iq: &str, refusal: impl Into<Refusal>) {
        let (refusal, from) = (refusal.into(), self.domain_asked(id));
        self.cx.send_with(id, |out| write_error(out, "iq", Some(iq), Some(&from), None, refusal));
        self.cx.unblock(id);
    }

    /// The domain that answers before there is a session: clients expect it in answers (RFC 6120
    /// 8.1.2.1).
    fn domain_asked(&mut self, id: ConnId) -> Box<str> {
        let domain = self.cx.opening(id).map(|opening| opening.domain);
        domain.map_or_else(Default::default, |domain| self.cx.kernel.settings.domains.name(domain).into())
    }
}

//! In-band registration before authentication (XEP-0077 3.1).

use crate::extension;
use crate::extension::{AccountAction, Step, register};
use crate::id::ConnId;
use crate::io::Happened;
use crate::letters::{Answer, Question};
use crate::session::conn::{Registering, Stage};
use crate::shard::Shard;
use crate::streams::opening::is_private;
use crate::turn::pending::Pending;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;
use crate::wire::written::write_error;
use crate::wire::{Element, jid};

impl Shard {
    pub(super) fn iq_before_login(&mut self, id: ConnId, iq: &Element<'_>) {
        let opening = self.heard(id);
        let (open, private, domain) = (opening.listener.registration, is_private(opening), opening.domain);
        let set = iq.kind().as_deref() == Some("set");
        let facts = extension::ServerFacts { registration: open, ..self.facts.clone() };
        let local: fn(&str) -> Option<Box<str>> = |text| jid::normalise_local(text).ok().map(|local| local.into());
        let payload = iq.children().next().map(|c| c.bytes().to_vec()).unwrap_or_default();
        let step = register::before_authentication(&facts, private, local, set, &payload);
        let registering =
            Registering { account: "".into(), password: "".into(), id: iq.id().unwrap_or_default().into() };
        match step {
            Some(Step::Result(payload)) => self.registration_result(id, &registering, &payload),
            Some(Step::Account(AccountAction::Create { local, password })) => {
                if crate::store::password::prepare(&password).is_err() {
                    return self.registration_failed(id, &registering, Limit::Credentials);
                }
                let account: Box<str> = [&*local, "@", self.settings.domains.name(domain)].concat().into();
                // Whoever got the name of an administrator who has no account yet would be one.
                if self.is_admin(&account) {
                    return self.registration_failed(id, &registering, StanzaCondition::Conflict);
                }
                let registering = Registering { account, password: (&*password).into(), ..registering };
                let Some(peer) = self.peer(id) else { return };
                self.conns.set_stage(id, Stage::ExpectRegistration(Box::new(registering)));
                self.block(id);
                self.ask_counting(id, peer, "", Question::MayRegister { peer });
            }
            Some(Step::Error(refusal)) => self.registration_failed(id, &registering, refusal),
            Some(_) | None => self.fail_stream(id, StreamCondition::NotAuthorized, Some("authenticate first")),
        }
    }

    /// The address may register: keys are derived, which takes long.
    pub(super) fn registration_goes_on(&mut self, id: ConnId, mut registering: Box<Registering>) {
        let password = std::mem::take(&mut registering.password);
        let Some(job) = self.derive_keys(&password) else {
            return self.registration_failed(id, &registering, Limit::Credentials);
        };
        self.conns.set_stage(id, Stage::ExpectRegistration(registering));
        self.job(Pending::Keys(id), job);
    }

    pub(super) fn registration_answered(&mut self, id: ConnId, registering: &Registering, answer: &Answer) {
        match answer {
            Answer::Registered => {
                let address = self.opening(id).map(|opening| opening.peer);
                self.note(Happened::Registered, &registering.account, address);
                if let Some(opening) = self.opening(id) {
                    opening.promised = true;
                }
                self.registration_result(id, registering, b"");
            }
            Answer::Taken => self.registration_failed(id, registering, StanzaCondition::Conflict),
            Answer::StoreFull => self.registration_failed(id, registering, Limit::Disk),
            Answer::Held(held) => self.registration_failed(id, registering, *held),
            _ => self.registration_failed(id, registering, StanzaCondition::InternalServerError),
        }
    }

    fn registration_result(&mut self, id: ConnId, registering: &Registering, payload: &[u8]) {
        self.send_with(id, |out| {
            let mut w = Writer::new(out);
            w.open("iq").attribute("type", "result").attribute("id", &registering.id).raw(payload).close();
        });
        self.unblock(id);
    }

    pub(super) fn registration_failed(&mut self, id: ConnId, registering: &Registering, refusal: impl Into<Refusal>) {
        let refusal = refusal.into();
        self.send_with(id, |out| write_error(out, "iq", Some(&registering.id), None, None, refusal));
        self.unblock(id);
    }
}

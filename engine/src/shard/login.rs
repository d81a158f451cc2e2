//! From the first stream header to an authenticated user (RFC 6120 4.3, 5, 6, XEP-0388), and the
//! move to the user's home.

use crate::id::{ConnId, DomainId};
use crate::io::{Effect, Job, JobDone};
use crate::kernel::pending::{Elsewhere, Pending};
use crate::letters::{Answer, Gained, Question, Shows};
use crate::limits::{LANG_BYTES_MAX, PREAUTH_BYTES_MAX};
use crate::ns;
use crate::session::conn::{Attempt, Stage};
use crate::session::inline::Inline;
use crate::session::sasl;
use crate::session::sasl::outside::ExpectVerdict;
use crate::session::sasl::{Begun, Failure, Form, Mechanism, NONCE_BYTES, PlainStep, Terms};
use crate::shard::Shard;
use crate::shard::features::{allowed_for, bindings};
use crate::store::account::Credentials;
use crate::streams::ended::Ended;
use crate::streams::opening::{SERVER_LANG, SM_UNEXPECTED, is_private};
use crate::wire::error::{SaslCondition, StreamCondition};
use crate::wire::limit::Limit;
use crate::wire::stream::{Header, Response, Version, write_header};
use crate::wire::{Element, jid};

/// Whether a stream's language must be stored: it is a well-formed tag (RFC 5646 2.1) and not the
/// server's.
fn is_foreign(lang: &str) -> bool {
    let tag = !lang.is_empty() && lang.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    tag && lang.len() <= LANG_BYTES_MAX && !lang.eq_ignore_ascii_case(SERVER_LANG)
}

impl Shard {
    /// A stream header has arrived: answers with the server's header and the features of this
    /// stage.
    pub(super) fn stream_opened(&mut self, id: ConnId, header: &Header<'_>) {
        let stream_id = self.cx.kernel.random_name();
        let settings = self.cx.kernel.settings.clone();
        let domains = &settings.domains;
        let wanted = header
            .to
            .as_deref()
            .map_or(Some(DomainId::default()), |to| domains.find_users(&jid::normalise_domain(to).ok()?));
        let domain = wanted.unwrap_or_default();
        let mut out = Vec::with_capacity(1024);
        write_header(&mut out, &Response::answering(header, &stream_id, domains.name(domain), SERVER_LANG));
        let version = header.version.is_some_and(|v| v >= Version::XMPP_1_0);
        let from = header.from.as_deref().and_then(|from| jid::normalise(from).ok());
        let bytes_max = self.cx.kernel.settings.stanza_bytes_max;
        let conn = self.cx.conns.heard(id);
        conn.header_sent = true;
        let opening = conn.opening().expect("a stream begins before there is a session");
        // RFC 6120 6.4.6: the restarted stream is with the domain that the client has logged in to.
        let known = match opening.stage() {
            Stage::ExpectRestart(owner) => wanted.is_some() && owner.domain() == domains.name(domain),
            _ => wanted.is_some(),
        };
        opening.domain = domain;
        let lang = header.lang.as_deref().filter(|lang| is_foreign(lang)).map(Into::into);
        opening.introduce(lang, from.as_deref().map(jid::bare_of).filter(|from| from.contains('@')).map(Into::into));
        if known && version {
            out.extend_from_slice(b"<stream:features>");
            let next = match opening.stage() {
                Stage::ExpectRestart(owner) => {
                    out.extend_from_slice(&self.features.bind);
                    Stage::ExpectBind(owner.clone())
                }
                _ => {
                    self.features.write_choice(&mut out, opening, &settings, PREAUTH_BYTES_MAX.min(bytes_max));
                    Stage::ExpectChoice
                }
            };
            self.cx.conns.set_stage(id, next);
            out.extend_from_slice(b"</stream:features>");
        }
        self.cx.kernel.counters.streams_opened.one();
        self.cx.send_bytes(id, &out);
        if !known {
            self.cx.fail_stream(id, StreamCondition::HostUnknown, None);
        } else if !version {
            self.cx.fail_stream(id, StreamCondition::UnsupportedVersion, None);
        }
    }

    /// Handles a first-level element before a session is bound. `behind` is the input that follows
    /// it.
    pub(super) fn from_opening(&mut self, id: ConnId, element: &Element<'_>, behind: &[u8]) {
        let opening = self.cx.heard(id);
        let namespace = element.namespace();
        match opening.stage() {
            Stage::ExpectBind(owner) => {
                let owner = owner.clone();
                self.expect_bind(id, &owner, element);
            }
            Stage::ExpectSecret(_)
                if element.name() == "handshake" && matches!(namespace, ns::CLIENT | ns::COMPONENT) =>
            {
                self.components.handshake(&mut self.cx, id, element, behind);
            }
            Stage::ExpectTask(_) if namespace == ns::SASL2 => self.task(id, element),
            Stage::ExpectChoice if element.is("starttls", ns::TLS) => self.start_tls(id, behind),
            Stage::ExpectChoice if element.is("auth", ns::SASL) => self.auth(id, element),
            Stage::ExpectChoice if element.is("iq", ns::CLIENT) => {
                if self.cx.early_request(id) {
                    self.iq_before_login(id, element);
                }
            }
            Stage::ExpectChoice if element.is("authenticate", ns::SASL2) => self.authenticate(id, element),
            Stage::ExpectInitial(_) | Stage::ExpectProof(_) if namespace == opening.form().namespace() => {
                self.sasl_goes_on(id, element, behind);
            }
            // XEP-0198 3: not before authentication, but this does not end the stream.
            Stage::ExpectChoice if namespace == ns::SM && matches!(element.name(), "enable" | "resume") => {
                if self.cx.early_request(id) {
                    self.cx.send_bytes(id, SM_UNEXPECTED);
                }
            }
            // RFC 6120 4.9.3.12: any other element is too early.
            _ => self.cx.fail_stream(id, StreamCondition::NotAuthorized, Some("authenticate first")),
        }
    }

    /// Handles `<starttls/>` (RFC 6120 5.4.2.1). Input after it was sent in the clear and must not
    /// count as protected.
    fn start_tls(&mut self, id: ConnId, behind: &[u8]) {
        let opening = self.cx.heard(id);
        let durable = !opening.is_promised_nothing();
        if opening.secured || !opening.listener.starttls {
            self.cx.send_bytes(id, b"<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
            return self.cx.end_stream(id, Ended::Refused);
        }
        if !behind.is_empty() {
            return self.cx.fail_stream(id, StreamCondition::PolicyViolation, Some("wait for <proceed/>"));
        }
        self.cx.conns.set_stage(id, Stage::ExpectHandshake);
        self.cx.send_bytes(id, b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        let (_, last) = self.cx.take_last(id);
        self.cx.kernel.counters.bytes_out.add(last.len() as u64);
        self.cx.kernel.effects.push(Effect::StartTls { conn: id, last, durable });
    }

    // SASL (RFC 6120 6, XEP-0388 2).

    fn auth(&mut self, id: ConnId, element: &Element<'_>) {
        let mechanism = element.attribute("mechanism").unwrap_or_default().into_owned();
        let payload = element.text().into_owned();
        let begun = self.with_terms(id, |terms| sasl::begin(&mechanism, &payload, terms));
        self.auth_begun(id, begun);
    }

    /// Handles `<authenticate/>` (XEP-0388 2.4). Inlined requests wait until the client is
    /// authenticated.
    fn authenticate(&mut self, id: ConnId, element: &Element<'_>) {
        let mechanism = element.attribute("mechanism").unwrap_or_default().into_owned();
        let read = Inline::read(element, &self.cx.kernel.facts);
        let opening = self.cx.heard(id);
        let begun = match read {
            Ok((inline, initial)) => {
                let (fast, agent) = (inline.fast, inline.agent);
                opening.inline = Some(Box::new(inline));
                self.with_terms(id, |terms| sasl::begin_with(&mechanism, initial.as_deref(), terms, fast, agent))
            }
            Err(failure) => {
                opening.inline = Some(Box::default());
                Err(failure)
            }
        };
        self.auth_begun(id, begun);
    }

    /// Does a step of authentication under the terms of a connection.
    fn with_terms<T>(&mut self, id: ConnId, step: impl FnOnce(&Terms<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let domains = self.cx.kernel.settings.domains.clone();
        let gone = Failure::of(SaslCondition::TemporaryAuthFailure);
        let (allowed, tokens) = (self.features.allowed, self.cx.kernel.settings.outside_tokens);
        let opening = self.cx.opening(id).ok_or(gone)?;
        if !is_private(opening) {
            return Err(Failure::of(SaslCondition::EncryptionRequired));
        }
        let bindings = bindings(opening);
        let (domain, allowed) = (domains.name(opening.domain), allowed_for(opening, &domains, allowed, tokens));
        let certificate = opening.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
        step(&Terms { domain, secured: bindings.as_ref(), allowed, certificate })
    }

    fn auth_begun(&mut self, id: ConnId, begun: Result<Begun, Failure>) {
        let (stage, account, mechanism, shows) = match begun {
            Ok(Begun::Initial(expect)) => {
                self.cx.conns.set_stage(id, Stage::ExpectInitial(expect));
                let form = self.cx.heard(id).form();
                return self.cx.send_with(id, |out| form.write_challenge(out, b""));
            }
            Ok(Begun::Scram(expect)) => {
                let (account, mechanism) = (Box::<str>::from(expect.bare()), expect.mechanism());
                (Stage::ExpectScramAccount(Box::new(expect)), account, mechanism, Shows::Proof)
            }
            Ok(Begun::Plain(attempt)) => {
                let account = Box::<str>::from(attempt.bare());
                (Stage::ExpectPlainAccount(Box::new(attempt)), account, Mechanism::Plain, Shows::Password)
            }
            Ok(Begun::External(attempt)) => {
                let account = Box::<str>::from(attempt.bare());
                (Stage::ExpectExternalAccount(Box::new(attempt)), account, Mechanism::External, Shows::Proof)
            }
            Ok(Begun::Token(attempt)) => {
                let (account, mechanism) = (Box::<str>::from(attempt.bare()), attempt.mechanism());
                let shows = Shows::Token(Box::new(attempt.shown().clone()));
                (Stage::ExpectTokenAnswer(Box::new(attempt)), account, mechanism, shows)
            }
            Err(failure) => return self.auth_failed(id, failure),
        };
        let opening = self.cx.heard(id);
        // XEP-0388 2.4: the user who logs in must be the one named in the stream header.
        if opening.form() == Form::Sasl2 && opening.from().is_some_and(|from| *from != *account) {
            return self.auth_failed(id, Failure::of(SaslCondition::InvalidAuthzid));
        }
        let peer = self.accounts.heard_from(&mut self.cx, id);
        self.cx.conns.set_stage(id, stage);
        self.cx.block(id);
        self.cx.kernel.ask_counting(id, peer, &account, Question::MayLogIn { peer, shows });
        let (asked_ms, since_us) = (self.cx.kernel.now.mono_ms, self.cx.kernel.now.wall_us);
        let opening = self.cx.heard(id);
        opening.attempt = Some(Box::new(Attempt { account, peer, mechanism, asked_ms, since_us }));
    }

    fn sasl_goes_on(&mut self, id: ConnId, element: &Element<'_>, behind: &[u8]) {
        let form = self.cx.heard(id).form();
        let stage = self.cx.conns.set_stage(id, Stage::ExpectChoice).expect("it is heard");
        match (form, element.name()) {
            (_, "response") => {}
            (_, "abort") => return self.auth_failed(id, Failure::ABORTED),
            (Form::Sasl1, "auth") => return self.auth_begins_anew(id, element),
            (Form::Sasl1, _) => return self.auth_failed(id, Failure::of(SaslCondition::MalformedRequest)),
            // XEP-0388 2.5: nothing else is permitted; the connection ends at once.
            (Form::Sasl2, _) => {
                self.cx.conns.set_stage(id, stage);
                return self.cx.fail_stream(id, StreamCondition::NotAuthorized, Some("authentication is in progress"));
            }
        }
        // As for <initial-response/>, white space around it is ignored in the form whose examples
        // have some.
        let payload = if form == Form::Sasl2 { element.text().trim().to_owned() } else { element.text().into_owned() };
        match stage {
            Stage::ExpectInitial(expect) => {
                let begun = self.with_terms(id, |terms| expect.response(&payload, terms));
                self.auth_begun(id, begun);
            }
            Stage::ExpectProof(expect) => match expect.response(&payload) {
                Ok((proof, message)) => self.authenticated(id, proof, None, message.as_bytes(), behind),
                Err(failure) => self.auth_failed(id, failure),
            },
            _ => self.auth_failed(id, Failure::of(SaslCondition::MalformedRequest)),
        }
    }

    /// Another `<auth/>` discards the handshake in progress (RFC 6120 6.4.2). It costs as much as
    /// any unfinished login, and counts as an attempt, so that repetition is limited.
    fn auth_begins_anew(&mut self, id: ConnId, element: &Element<'_>) {
        if let Some(attempt) = self.cx.opening(id).and_then(|opening| opening.attempt.take()) {
            self.cx.kernel.charge_address(attempt.peer);
            self.cx.kernel.note_failure(&attempt, "replaced");
        }
        let most = self.cx.kernel.settings.auth_attempts_max;
        let opening = self.cx.heard(id);
        opening.attempts = opening.attempts.saturating_add(1);
        if opening.attempts >= most {
            return self.cx.fail_stream(id, StreamCondition::PolicyViolation, Some("too many logins were started"));
        }
        self.auth(id, element);
    }

    /// The home of an account, or the shard that counts an address, has answered.
    pub(super) fn answered(&mut self, id: ConnId, answer: Answer) {
        // The connection has closed in the meantime.
        let Some(stage) = self.cx.conns.set_stage(id, Stage::ExpectChoice) else { return };
        match (stage, answer) {
            (Stage::ExpectRegistration(registering), Answer::May) => self.registration_goes_on(id, registering),
            (Stage::ExpectRegistration(registering), answer) => self.registration_answered(id, &registering, &answer),
            (Stage::ExpectInvitation(showing), answer) => self.invitation_answered(id, *showing, answer),
            (Stage::ExpectScramAccount(expect), Answer::Credentials { row, .. }) => {
                let found = row.as_deref().and_then(|row| Credentials::decode(row).ok());
                let mut nonce = [0u8; NONCE_BYTES];
                rand_core::RngCore::fill_bytes(&mut self.cx.kernel.entropy, &mut nonce);
                let (state, message) = expect.account(found.as_ref(), &self.accounts.decoy, &nonce);
                self.cx.conns.set_stage(id, Stage::ExpectProof(Box::new(state)));
                let form = self.cx.opening(id).map_or(Form::Sasl1, |opening| opening.form());
                self.cx.send_with(id, |out| form.write_challenge(out, message.as_bytes()));
                self.cx.unblock(id);
            }
            (Stage::ExpectPlainAccount(attempt), Answer::Credentials { row, .. })
                if self.cx.kernel.settings.domains.keeps_outside(attempt.bare()) =>
            {
                self.ask_about(id, *attempt, row.as_deref());
            }
            (Stage::ExpectAdmission(state), Answer::Credentials { row, .. }) => {
                self.admitted(id, *state, row.as_deref())
            }
            (Stage::ExpectAdmission(state), Answer::Again) => match state.again() {
                Some(state) => self.ask_to_admit(id, state),
                None => self.auth_failed(id, Failure::of(SaslCondition::TemporaryAuthFailure)),
            },
            (Stage::ExpectPlainAccount(attempt), Answer::Credentials { row, seen, .. }) => {
                let found = row.as_deref().and_then(|row| Credentials::decode(row).ok());
                match attempt.account(found.as_ref(), seen.as_deref(), &self.accounts.decoy, &self.accounts.plain_cache)
                {
                    PlainStep::Done(proof, seen) => self.authenticated(id, proof, Some(seen), b"", b""),
                    PlainStep::Refused(failure) => self.auth_failed(id, failure),
                    PlainStep::Derive(job, state) => {
                        let (gains, iterations) =
                            (self.accounts.gains(&self.cx), self.cx.kernel.settings.scram_iterations);
                        let job = match &found {
                            Some(found) => job.gaining(found, gains, iterations),
                            None => job,
                        };
                        self.cx.conns.set_stage(id, Stage::ExpectPlainKeys(state));
                        self.cx.job(Pending::Elsewhere(Elsewhere::Keys(id)), Job::CheckPassword(job));
                    }
                }
            }
            (Stage::ExpectExternalAccount(attempt), Answer::Credentials { row, .. }) => {
                let found = row.as_deref().and_then(|row| Credentials::decode(row).ok());
                match attempt.account(found.as_ref()) {
                    Ok(proof) => self.authenticated(id, proof, None, b"", b""),
                    Err(failure) => self.auth_failed(id, failure),
                }
            }
            (Stage::ExpectTokenAnswer(attempt), Answer::Token(answer)) => match attempt.answered(*answer) {
                Ok((proof, message, due)) => {
                    let inline = self.cx.opening(id).and_then(|opening| opening.inline.as_mut());
                    if let Some(inline) = inline.filter(|inline| due && inline.token.is_none()) {
                        inline.token = proof.mechanism().token();
                    }
                    if self.cx.kernel.settings.domains.keeps_outside(proof.bare()) {
                        let (question, state) = ExpectVerdict::of_token(proof, message.as_bytes());
                        return self.expect_verdict(id, question, state);
                    }
                    self.authenticated(id, proof, None, message.as_bytes(), b"");
                }
                Err(failure) => self.auth_failed(id, failure),
            },
            (_, Answer::Held(held)) => self.auth_held(id, held),
            (_, Answer::Unreadable) => self.auth_failed(id, Failure::UNREADABLE),
            (_, _) => self.auth_failed(id, Failure::of(SaslCondition::TemporaryAuthFailure)),
        }
    }

    pub(super) fn keys_derived(&mut self, id: ConnId, done: JobDone) {
        // The connection has closed in the meantime.
        let Some(stage) = self.cx.conns.set_stage(id, Stage::ExpectChoice) else { return };
        match (stage, done) {
            (Stage::ExpectPlainKeys(state), JobDone::Checked(mut derived)) => {
                let sets = derived.take_gained();
                match state.verify(derived) {
                    Ok((proof, seen)) => {
                        if !sets.is_empty() {
                            self.cx.kernel.give_keys(proof.bare(), Gained { identity: proof.identity(), sets });
                        }
                        self.authenticated(id, proof, Some(seen), b"", b"");
                    }
                    Err(failure) => self.auth_failed(id, failure),
                }
            }
            (Stage::ExpectRegistration(registering), JobDone::Keys(keys)) => {
                let Some(credentials) = keys else {
                    return self.registration_failed(id, &registering.id, Limit::Credentials);
                };
                self.registration_keys(id, registering, credentials);
            }
            (stage, _) => {
                self.cx.conns.set_stage(id, stage);
            }
        }
    }
}

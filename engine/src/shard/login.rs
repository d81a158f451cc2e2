//! From the first stream header to an authenticated user (RFC 6120 4.3, 5, 6), and the move to the user's home.

use std::net::IpAddr;

use crate::feature::{self, AccountAction, Step, register};
use crate::id::{ConnId, Peer, ShardId};
use crate::io::{Effect, Happened, Job, JobDone, Note};
use crate::limits::{EARLY_REQUESTS_MAX, PREAUTH_BYTES_MAX};
use crate::mail::{Answer, ConnRef, Letter, Question};
use crate::ns;
use crate::session::conn::{Attempt, ConnState, Opening, Owner, Pause, Registering, Stage, StreamExpect};
use crate::session::moved::Moved;
use crate::session::sasl::{
    self, Authenticated, Begun, ChannelBindings, Failure, Mechanism, NONCE_BYTES, PlainStep, Refused, Terms,
};
use crate::shard::ended::Ended;
use crate::shard::stanza::write_error;
use crate::shard::{Pending, Shard};
use crate::store::account::Credentials;
use crate::store::hash::Tag;
use crate::wire::error::{SaslCondition, StanzaCondition, StreamCondition, write_sasl_failure};
use crate::wire::limit::{Held, Limit, Refusal};
use crate::wire::stream::{Header, Response, Version, write_header};
use crate::wire::text::Writer;
use crate::wire::{Element, jid};

/// State of a connection whose session has been resumed elsewhere: it is only waited for to close.
pub(super) fn replaced() -> Opening {
    let listener =
        crate::io::ListenerKind { direct_tls: false, starttls: false, plain_auth: false, registration: false };
    let mut opening = Opening::new(listener, IpAddr::from([0, 0, 0, 0]), 0, Stage::ExpectHeader);
    opening.blocked = true;
    opening
}

/// Language of what the server says, and of stanzas on its streams that do not say theirs (RFC 6120 4.7.4).
pub(super) const SERVER_LANG: &str = "en";

/// Longest language tag that is kept, in bytes (RFC 5646 4.4.1 asks for 35).
const LANG_BYTES_MAX: usize = 35;

/// Whether a stream's language has to be remembered: a tag by its form (RFC 5646 2.1) and not the server's.
fn is_foreign(lang: &str) -> bool {
    let tag = !lang.is_empty() && lang.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    tag && lang.len() <= LANG_BYTES_MAX && !lang.eq_ignore_ascii_case(SERVER_LANG)
}

/// Stream management where there can be none: too early, or twice (XEP-0198 3).
pub(super) const SM_UNEXPECTED: &[u8] =
    b"<failed xmlns='urn:xmpp:sm:3'><unexpected-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";

/// A login that has waited so long for the server, and is given up, is not held against its address, milliseconds: in a storm
/// of logins those who come late must not lock out those behind the same address.
const SERVER_SLOW_MS: u64 = 2_000;

/// Whether a connection may carry credentials.
pub(super) fn is_private(opening: &Opening) -> bool {
    opening.secured || opening.listener.plain_auth
}

impl Shard {
    /// A stream header has come: answers with the own one and the features of this stage.
    pub(super) fn stream_opened(&mut self, id: ConnId, header: &Header<'_>) {
        let stream_id = self.random_name();
        let Some(conn) = self.conns.get(id) else { return };
        conn.header_sent = true;
        let Some(opening) = conn.opening() else { return };
        self.counters.streams_opened.one();
        let mut out = Vec::with_capacity(1024);
        opening.lang = header.lang.as_deref().filter(|lang| is_foreign(lang)).map(Into::into);
        write_header(&mut out, &Response::answering(header, &stream_id, &self.settings.domain, SERVER_LANG));
        let known = header
            .to
            .as_deref()
            .is_none_or(|to| jid::normalise_domain(to).is_ok_and(|to| *to == *self.settings.domain));
        let version = header.version.is_some_and(|v| v >= Version::XMPP_1_0);
        if known && version {
            out.extend_from_slice(b"<stream:features>");
            let next = match opening.stage() {
                Stage::ExpectRestart(owner) => {
                    out.extend_from_slice(&self.bind_features);
                    Stage::ExpectBind(owner.clone())
                }
                _ => {
                    choice_features(&mut out, opening);
                    limits(&mut out, PREAUTH_BYTES_MAX.min(self.settings.stanza_bytes_max), 0);
                    Stage::ExpectChoice
                }
            };
            self.conns.set_stage(id, next);
            out.extend_from_slice(b"</stream:features>");
        }
        self.send_bytes(id, &out);
        if !known {
            self.fail_stream(id, StreamCondition::HostUnknown, None);
        } else if !version {
            self.fail_stream(id, StreamCondition::UnsupportedVersion, None);
        }
    }

    /// A first-level element before a session is bound. `behind` is what came with it.
    pub(super) fn from_opening(&mut self, id: ConnId, element: &Element<'_>, behind: &[u8]) {
        let Some(conn) = self.conns.get(id) else { return };
        let Some(opening) = conn.opening() else { return };
        let namespace = element.namespace();
        match opening.stage() {
            Stage::ExpectBind(owner) => {
                let owner = owner.clone();
                self.expect_bind(id, &owner, element);
            }
            Stage::ExpectChoice if element.is("starttls", ns::TLS) => self.start_tls(id, behind),
            Stage::ExpectChoice if element.is("auth", ns::SASL) => self.auth(id, element),
            Stage::ExpectChoice if element.is("iq", ns::CLIENT) => {
                if self.early_request(id) {
                    self.iq_before_login(id, element);
                }
            }
            Stage::ExpectInitial(_) | Stage::ExpectProof(_) if namespace == ns::SASL => {
                self.sasl_goes_on(id, element, behind);
            }
            // XEP-0198 3: not before authentication, and that is no reason to end the stream.
            Stage::ExpectChoice if namespace == ns::SM && matches!(element.name(), "enable" | "resume") => {
                if self.early_request(id) {
                    self.send_bytes(id, SM_UNEXPECTED);
                }
            }
            // RFC 6120 4.9.3.12: whatever it is, it is too early for it.
            _ => self.fail_stream(id, StreamCondition::NotAuthorized, Some("authenticate first")),
        }
    }

    /// Counts a request before there is a session, which is answered whatever the answer is: so it does not go on for
    /// ever. Returns whether it may be answered; if not, the stream has ended.
    pub(super) fn early_request(&mut self, id: ConnId) -> bool {
        let Some(opening) = self.opening(id) else { return false };
        opening.requests = opening.requests.saturating_add(1);
        let may = opening.requests <= EARLY_REQUESTS_MAX;
        if !may {
            let text = "too many requests before a resource is bound";
            self.fail_stream(id, StreamCondition::PolicyViolation, Some(text));
        }
        may
    }

    /// `<starttls/>` (RFC 6120 5.4.2.1). What came behind it was sent in the clear and must not count as protected.
    fn start_tls(&mut self, id: ConnId, behind: &[u8]) {
        let Some(opening) = self.opening(id) else { return };
        let durable = !opening.is_promised_nothing();
        if opening.secured || !opening.listener.starttls {
            self.send_bytes(id, b"<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
            return self.end_stream(id, Ended::Refused);
        }
        if !behind.is_empty() {
            return self.fail_stream(id, StreamCondition::PolicyViolation, Some("wait for <proceed/>"));
        }
        self.conns.set_stage(id, Stage::ExpectHandshake);
        self.send_bytes(id, b"<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>");
        let (_, last) = self.take_last(id);
        self.counters.bytes_out.add(last.len() as u64);
        self.effects.push(Effect::StartTls { conn: id, last, durable });
    }

    pub(super) fn opening(&mut self, id: ConnId) -> Option<&mut Opening> {
        self.conns.get(id)?.opening()
    }

    // SASL (RFC 6120 6).

    fn auth(&mut self, id: ConnId, element: &Element<'_>) {
        let mechanism = element.attribute("mechanism").unwrap_or_default().into_owned();
        let payload = element.text().into_owned();
        let begun = self.with_terms(id, |terms| sasl::begin(&mechanism, &payload, terms));
        self.auth_begun(id, begun);
    }

    /// Does a step of authentication under the terms of a connection.
    fn with_terms<T>(&mut self, id: ConnId, step: impl FnOnce(&Terms<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let domain = self.settings.domain.clone();
        let gone = Failure::of(SaslCondition::TemporaryAuthFailure);
        let opening = self.opening(id).ok_or(gone)?;
        if !is_private(opening) {
            return Err(Failure::of(SaslCondition::EncryptionRequired));
        }
        let bindings = bindings(opening);
        step(&Terms { domain: &domain, secured: bindings.as_ref(), plain_allowed: true })
    }

    fn auth_begun(&mut self, id: ConnId, begun: Result<Begun, Failure>) {
        let (stage, local, mechanism) = match begun {
            Ok(Begun::Initial(expect)) => {
                self.conns.set_stage(id, Stage::ExpectInitial(expect));
                return self.send_with(id, |out| sasl::write_challenge(out, b""));
            }
            Ok(Begun::Scram(expect)) => {
                let (local, mechanism) = (Box::<str>::from(expect.localpart()), expect.mechanism());
                (Stage::ExpectScramAccount(Box::new(expect)), local, mechanism)
            }
            Ok(Begun::Plain(attempt)) => {
                let local = Box::<str>::from(attempt.localpart());
                (Stage::ExpectPlainAccount(Box::new(attempt)), local, Mechanism::Plain)
            }
            Err(failure) => return self.auth_failed(id, failure),
        };
        let Some(peer) = self.peer(id) else { return };
        self.conns.set_stage(id, stage);
        self.block(id);
        let plain = mechanism == Mechanism::Plain;
        self.ask_counting(id, peer, &local, Question::MayLogIn { peer, plain });
        let asked_ms = self.now.mono_ms;
        let Some(opening) = self.opening(id) else { return };
        opening.attempt = Some(Box::new(Attempt { local, peer, mechanism, asked_ms }));
    }

    /// The other end of a connection that has no session yet.
    fn peer(&mut self, id: ConnId) -> Option<Peer> {
        let address = self.opening(id)?.peer;
        Some(self.failed_logins.peer(address))
    }

    /// The shard that counts failed logins and registrations of an address, for the whole host.
    fn counting(&self, peer: Peer) -> ShardId {
        ShardId((peer.key % u64::from(self.settings.shards.max(1))) as u16)
    }

    /// Asks the shard that counts for an address; [`Shard::answered`] goes on.
    fn ask_counting(&mut self, conn: ConnId, peer: Peer, local: &str, question: Question) {
        let conn = ConnRef { shard: self.id, conn };
        let counting = self.counting(peer);
        let mail = self.mail_to(counting);
        let local = mail.name(local);
        mail.push(Letter::Ask { conn, local, question });
    }

    /// Asks an account's home; [`Shard::answered`] goes on where the connection is.
    pub(super) fn ask_home(&mut self, conn: ConnRef, local: &str, question: Question) {
        let home = self.home(&self.bare(local));
        let mail = self.mail_to(home);
        let local = mail.name(local);
        mail.push(Letter::Ask { conn, local, question });
    }

    fn sasl_goes_on(&mut self, id: ConnId, element: &Element<'_>, behind: &[u8]) {
        let Some(stage) = self.conns.set_stage(id, Stage::ExpectChoice) else { return };
        if element.name() == "auth" {
            return self.auth_begins_anew(id, element);
        }
        if element.name() != "response" {
            let failure =
                if element.name() == "abort" { Failure::ABORTED } else { Failure::of(SaslCondition::MalformedRequest) };
            return self.auth_failed(id, failure);
        }
        let payload = element.text().into_owned();
        match stage {
            Stage::ExpectInitial(expect) => {
                let begun = self.with_terms(id, |terms| expect.response(&payload, terms));
                self.auth_begun(id, begun);
            }
            Stage::ExpectProof(expect) => match expect.response(&payload) {
                Ok((proof, message)) => self.authenticated(id, &proof, None, message.as_bytes(), behind),
                Err(failure) => self.auth_failed(id, failure),
            },
            _ => self.auth_failed(id, Failure::of(SaslCondition::MalformedRequest)),
        }
    }

    /// Another `<auth/>` discards the handshake under way (RFC 6120 6.4.2). It costs what any login costs that is begun and
    /// not finished, and counts as an attempt, so that it does not go on for ever.
    fn auth_begins_anew(&mut self, id: ConnId, element: &Element<'_>) {
        if let Some(attempt) = self.opening(id).and_then(|opening| opening.attempt.take()) {
            self.charge_address(attempt.peer);
            self.note_failure(&attempt, "replaced");
        }
        let most = self.settings.auth_attempts_max;
        let Some(opening) = self.opening(id) else { return };
        opening.attempts = opening.attempts.saturating_add(1);
        if opening.attempts >= most {
            return self.fail_stream(id, StreamCondition::PolicyViolation, Some("too many logins begun"));
        }
        self.auth(id, element);
    }

    /// The home of an account, or the shard that counts for an address, has answered.
    pub(super) fn answered(&mut self, id: ConnId, answer: Answer) {
        let Some(stage) = self.conns.set_stage(id, Stage::ExpectChoice) else { return };
        match (stage, answer) {
            (Stage::ExpectRegistration(registering), Answer::May) => self.registration_goes_on(id, registering),
            (Stage::ExpectRegistration(registering), answer) => self.registration_answered(id, &registering, &answer),
            (Stage::ExpectScramAccount(expect), Answer::Credentials { row, .. }) => {
                let found = row.as_deref().and_then(|row| Credentials::decode(row).ok());
                let mut nonce = [0u8; NONCE_BYTES];
                rand_core::RngCore::fill_bytes(&mut self.entropy, &mut nonce);
                let (state, message) = expect.account(found.as_ref(), &self.decoy, &nonce);
                self.conns.set_stage(id, Stage::ExpectProof(Box::new(state)));
                self.send_with(id, |out| sasl::write_challenge(out, message.as_bytes()));
                self.unblock(id);
            }
            (Stage::ExpectPlainAccount(attempt), Answer::Credentials { row, seen, .. }) => {
                let found = row.as_deref().and_then(|row| Credentials::decode(row).ok());
                match attempt.account(found.as_ref(), seen.as_deref(), &self.decoy, &self.plain_cache) {
                    PlainStep::Done(proof, seen) => self.authenticated(id, &proof, Some(seen), b"", b""),
                    PlainStep::Refused(failure) => self.auth_failed(id, failure),
                    PlainStep::Derive(job, state) => {
                        self.conns.set_stage(id, Stage::ExpectPlainKeys(Box::new(state)));
                        self.job(Pending::Keys(id), Job::CheckPassword(job));
                    }
                }
            }
            (_, Answer::Held(held)) => self.auth_held(id, held),
            (_, Answer::Unreadable) => self.auth_failed(id, Failure::UNREADABLE),
            (_, _) => self.auth_failed(id, Failure::of(SaslCondition::TemporaryAuthFailure)),
        }
    }

    pub(super) fn job_done(&mut self, token: u64, done: JobDone) {
        let pending = self.pending.remove(&token);
        self.levels.jobs -= usize::from(pending.is_some());
        match (pending, done) {
            (Some(Pending::Keys(id)), done) => self.keys_derived(id, done),
            (Some(Pending::SessionKeys(change)), JobDone::Keys(keys)) => self.password_derived(change, keys),
            _ => {}
        }
        self.hand_out_jobs();
    }

    fn keys_derived(&mut self, id: ConnId, done: JobDone) {
        let Some(stage) = self.conns.set_stage(id, Stage::ExpectChoice) else { return };
        match (stage, done) {
            (Stage::ExpectPlainKeys(state), JobDone::Checked(derived)) => match state.verify(derived) {
                Ok((proof, seen)) => self.authenticated(id, &proof, Some(seen), b"", b""),
                Err(failure) => self.auth_failed(id, failure),
            },
            (Stage::ExpectRegistration(registering), JobDone::Keys(keys)) => {
                let Some(credentials) = keys else {
                    return self.registration_failed(id, &registering, Limit::Credentials);
                };
                let local = registering.local.clone();
                self.conns.set_stage(id, Stage::ExpectRegistration(registering));
                let conn = ConnRef { shard: self.id, conn: id };
                self.ask_home(conn, &local, Question::Register { credentials });
            }
            (stage, _) => {
                self.conns.set_stage(id, stage);
            }
        }
    }

    /// The shard that counts for the address is told.
    fn auth_failed(&mut self, id: ConnId, failure: Failure) {
        if let Some(peer) = self.peer(id) {
            self.charge_address(peer);
            let reason = failure.condition.name();
            match self.opening(id).and_then(|opening| opening.attempt.take()) {
                Some(attempt) => self.note_failure(&attempt, reason),
                None => self.note(Happened::LoginFailed { mechanism: "", reason }, "", Some(peer.address)),
            }
        }
        self.auth_refused(id, |out| failure.write(out));
    }

    /// A limit stands against it (RFC 6120 6.5.11). Nothing was tried, so it is charged to nobody: what the peer is told of
    /// the time stays true however often it asks.
    fn auth_held(&mut self, id: ConnId, held: Held) {
        let text = held.to_string();
        if let Some(attempt) = self.opening(id).and_then(|opening| opening.attempt.take()) {
            let what = Happened::LoginRefused { mechanism: attempt.mechanism.name(), limit: held.limit };
            self.note(what, &attempt.local, Some(attempt.peer.address));
        }
        self.auth_refused(id, |out| write_sasl_failure(out, SaslCondition::TemporaryAuthFailure, Some(&text)));
    }

    /// Too many attempts end the stream (RFC 6120 6.4.5).
    fn auth_refused(&mut self, id: ConnId, failure: impl FnOnce(&mut Vec<u8>)) {
        self.counters.logins_failed.one();
        let most = self.settings.auth_attempts_max;
        self.conns.set_stage(id, Stage::ExpectChoice);
        let Some(opening) = self.opening(id) else { return };
        opening.attempt = None;
        opening.attempts = opening.attempts.saturating_add(1);
        let attempts = opening.attempts;
        self.send_with(id, failure);
        if attempts >= most {
            return self.fail_stream(id, StreamCondition::PolicyViolation, Some("too many failed logins"));
        }
        self.unblock(id);
    }

    fn charge_address(&mut self, peer: Peer) {
        let counting = self.counting(peer);
        self.mail_to(counting).push(Letter::LoginFailed { peer });
    }

    /// The account and its pair with the address get back what they were charged when a login began. The home remembers
    /// where from it was, and the password that was right.
    fn spare_account(&mut self, local: &str, peer: Peer, seen: Option<Tag>) {
        let home = self.home(&self.bare(local));
        let mail = self.mail_to(home);
        let local = mail.name(local);
        mail.push(Letter::LoginSpared { local, peer, seen: seen.map(Box::new) });
    }

    /// A connection has ended before authentication did: account and pair stay charged, and so is the address unless it was
    /// the server that took long.
    pub(super) fn login_broken_off(&mut self, state: &ConnState) {
        let ConnState::Opening(opening) = state else { return };
        let Some(attempt) = &opening.attempt else { return };
        let waits_for_peer = matches!(opening.stage(), Stage::ExpectProof(_));
        if waits_for_peer || self.now.mono_ms < attempt.asked_ms + SERVER_SLOW_MS {
            self.charge_address(attempt.peer);
            self.note_failure(attempt, "broken-off");
        }
    }

    fn note_failure(&mut self, attempt: &Attempt, reason: &'static str) {
        let what = Happened::LoginFailed { mechanism: attempt.mechanism.name(), reason };
        self.note(what, &attempt.local, Some(attempt.peer.address));
    }

    /// Notes for the log what has happened to an account, by a peer with this address. It leaves when what it rests on is
    /// durable.
    pub(super) fn note(&mut self, what: Happened, local: &str, peer: Option<IpAddr>) {
        let account = if local.is_empty() { Box::default() } else { self.bare(local).into() };
        self.effects.push(Effect::Note(Box::new(Note { what, account, peer, conn: None })));
    }

    /// A limit has refused somebody: noted if it begins to hold.
    pub(super) fn note_held(&mut self, refused: Refused, local: &str, peer: Peer) {
        if refused.begins {
            let (limit, left_ms) = (refused.held.limit, refused.held.left_ms.unwrap_or_default());
            self.note(Happened::Held { limit, left_ms }, local, Some(peer.address));
        }
    }

    /// The peer has proven who it is: the stream starts anew (RFC 6120 6.4.6), at the user's home.
    /// `seen` is what the account's home is to know its password by.
    fn authenticated(&mut self, id: ConnId, proof: &Authenticated, seen: Option<Tag>, message: &[u8], behind: &[u8]) {
        self.counters.logins.one();
        let local: Box<str> = proof.localpart().into();
        let owner = Owner { local: local.clone(), incarnation: proof.incarnation() };
        self.send_with(id, |out| sasl::write_success(out, message));
        let home = self.home(&self.bare(&local));
        if let Some(attempt) = self.opening(id).and_then(|opening| opening.attempt.take()) {
            self.spare_account(&local, attempt.peer, seen);
            if self.settings.note_logins {
                let what = Happened::LoggedIn { mechanism: proof.mechanism().name() };
                self.note(what, &local, Some(attempt.peer.address));
            }
        }
        let Some(conn) = self.conns.get(id) else { return };
        let Some(opening) = conn.opening() else { return };
        opening.tls = None;
        opening.attempts = 0;
        opening.requests = 0;
        conn.expect = StreamExpect::Opening;
        conn.header_sent = false;
        conn.scope = Default::default();
        if home == self.id {
            self.conns.set_stage(id, Stage::ExpectRestart(owner));
            return self.unblock(id);
        }
        let mut leftover = conn.partial.take().map(|p| p.bytes).unwrap_or_default();
        leftover.extend_from_slice(behind);
        let Some(opening) = conn.opening() else { return };
        let moved = Box::new(Moved {
            owner,
            listener: opening.listener,
            peer: opening.peer,
            secured: opening.secured,
            accepted_s: opening.accepted_s,
            leftover,
        });
        self.conns.set_state(id, ConnState::Departing);
        // What the peer sends from here on is for its new home to read.
        if self.conns.pause(id, Pause::Ending) {
            self.effects.push(Effect::Pause { conn: id });
        }
        let (_, last) = self.take_last(id);
        self.counters.bytes_out.add(last.len() as u64);
        self.effects.push(Effect::Depart { conn: id, to: home, moved, last });
    }

    /// A connection has come over: its user's home is here.
    pub(super) fn arrived(&mut self, id: ConnId, moved: Moved) {
        self.counters.arrived.one();
        let stage = Stage::ExpectRestart(moved.owner);
        let mut opening = Opening::new(moved.listener, moved.peer, moved.accepted_s, stage);
        opening.secured = moved.secured;
        self.conns.insert(id, opening, self.now.mono_s());
        if self.shutting_down {
            return self.fail_stream(id, StreamCondition::SystemShutdown, None);
        }
        if !moved.leftover.is_empty() {
            self.received(id, &moved.leftover);
        }
    }

    // In-band registration before authentication (XEP-0077 3.1).

    fn iq_before_login(&mut self, id: ConnId, iq: &Element<'_>) {
        let Some(opening) = self.opening(id) else { return };
        let (open, private) = (opening.listener.registration, is_private(opening));
        let set = iq.kind().as_deref() == Some("set");
        let facts = feature::ServerFacts { registration: open, ..self.facts.clone() };
        let local: fn(&str) -> Option<Box<str>> = |text| jid::normalise_local(text).ok().map(|local| local.into());
        let payload = iq.children().next().map(|c| c.bytes().to_vec()).unwrap_or_default();
        let step = register::before_authentication(&facts, private, local, set, &payload);
        let registering = Registering { local: "".into(), password: "".into(), id: iq.id().unwrap_or_default().into() };
        match step {
            Some(Step::Result(payload)) => self.registration_result(id, &registering, &payload),
            Some(Step::Account(AccountAction::Create { local, password })) => {
                if crate::store::password::prepare(&password).is_err() {
                    return self.registration_failed(id, &registering, Limit::Credentials);
                }
                let registering = Registering { local, password: (&*password).into(), ..registering };
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
    fn registration_goes_on(&mut self, id: ConnId, mut registering: Box<Registering>) {
        let password = std::mem::take(&mut registering.password);
        let Some(job) = self.derive_keys(&password) else {
            return self.registration_failed(id, &registering, Limit::Credentials);
        };
        self.conns.set_stage(id, Stage::ExpectRegistration(registering));
        self.job(Pending::Keys(id), job);
    }

    fn registration_answered(&mut self, id: ConnId, registering: &Registering, answer: &Answer) {
        match answer {
            Answer::Registered => {
                let address = self.opening(id).map(|opening| opening.peer);
                self.note(Happened::Registered, &registering.local, address);
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

    fn registration_failed(&mut self, id: ConnId, registering: &Registering, refusal: impl Into<Refusal>) {
        let refusal = refusal.into();
        self.send_with(id, |out| write_error(out, "iq", Some(&registering.id), None, None, refusal));
        self.unblock(id);
    }
}

fn bindings(opening: &Opening) -> Option<ChannelBindings> {
    opening.secured.then(|| match &opening.tls {
        Some(tls) => {
            let end_point = (!tls.server_end_point.is_empty()).then(|| tls.server_end_point.as_slice().into());
            ChannelBindings { exporter: tls.exporter, server_end_point: end_point }
        }
        None => ChannelBindings::default(),
    })
}

/// Features before authentication (RFC 6120 4.3.2, 5.3.1, 6.3.1, XEP-0077 8).
fn choice_features(out: &mut Vec<u8>, opening: &Opening) {
    if !opening.secured && opening.listener.starttls {
        out.extend_from_slice(b"<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'>");
        if !is_private(opening) {
            out.extend_from_slice(b"<required/>");
        }
        out.extend_from_slice(b"</starttls>");
    }
    if is_private(opening) {
        sasl::write_features(out, bindings(opening).as_ref(), true);
        if opening.listener.registration {
            out.extend_from_slice(register::STREAM_FEATURE);
        }
    }
}

/// Features after authentication: binding, stream management, what the features offer, and the stream's limits
/// (XEP-0478).
pub(super) fn bind_features(settings: &crate::settings::Settings) -> Vec<u8> {
    let mut out = b"<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/>".to_vec();
    feature::stream_features(&settings.facts, &mut out);
    limits(&mut out, settings.stanza_bytes_max, settings.idle_s_max);
    out
}

/// What the stream takes (XEP-0478): bytes of a first-level element, and seconds of silence, if these have a limit.
fn limits(out: &mut Vec<u8>, bytes_max: usize, idle_s_max: u32) {
    let (max, idle) = (bytes_max.to_string(), idle_s_max.to_string());
    let mut w = Writer::new(out);
    w.open("limits").attribute("xmlns", ns::STREAM_LIMITS).leaf("max-bytes", &max);
    if idle_s_max > 0 {
        w.leaf("idle-seconds", &idle);
    }
    w.close();
}

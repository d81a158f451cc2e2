//! The end of an authentication by any mechanism: refusal, or an authenticated user who moves to
//! the home.

use crate::id::ConnId;
use crate::io::{Effect, Happened, Timed};
use crate::session::conn::{Stage, StreamExpect};
use crate::session::moved::{Errand, Moved, MovedStream};
use crate::session::sasl;
use crate::session::sasl::{Authenticated, Failure, Form, Mechanism};
use crate::shard::Shard;
use crate::store::hash::{Hashes, Tag};
use crate::wire::error::{SaslCondition, StreamCondition};
use crate::wire::limit::Held;

impl Shard {
    /// Reports a failed authentication to the shard that counts the address.
    pub(super) fn auth_failed(&mut self, id: ConnId, failure: Failure) {
        if let Some(peer) = self.accounts.peer(&mut self.cx, id) {
            self.cx.kernel.charge_address(peer);
            let reason = failure.condition.name();
            match self.cx.opening(id).and_then(|opening| opening.attempt.take()) {
                Some(attempt) => self.cx.kernel.note_failure(&attempt, reason),
                None => self.cx.kernel.note(Happened::LoginFailed { mechanism: "", reason }, "", Some(peer.address)),
            }
        }
        self.auth_refused(id, failure.condition, failure.text);
    }

    /// A limit holds the login (RFC 6120 6.5.11). Nothing was tried, so it is not charged: the time
    /// that the peer is told remains valid however often it asks.
    pub(super) fn auth_held(&mut self, id: ConnId, held: Held) {
        let text = held.to_string();
        if let Some(attempt) = self.cx.opening(id).and_then(|opening| opening.attempt.take()) {
            let what = Happened::LoginRefused { mechanism: attempt.mechanism.name(), limit: held.limit };
            self.cx.kernel.note(what, &attempt.account, Some(attempt.peer.address));
        }
        self.auth_refused(id, SaslCondition::TemporaryAuthFailure, Some(&text));
    }

    /// Too many attempts end the stream (RFC 6120 6.4.5).
    fn auth_refused(&mut self, id: ConnId, condition: SaslCondition, text: Option<&str>) {
        self.cx.kernel.counters.logins_failed.one();
        let most = self.cx.kernel.settings.auth_attempts_max;
        self.cx.conns.set_stage(id, Stage::ExpectChoice);
        let opening = self.cx.heard(id);
        opening.attempt = None;
        opening.attempts = opening.attempts.saturating_add(1);
        let (attempts, form) = (opening.attempts, opening.form());
        // XEP-0388 2.6.2: inlined requests are not carried out.
        opening.inline = None;
        self.cx.send_with(id, |out| form.write_failure(out, condition, text));
        if attempts >= most {
            return self.cx.fail_stream(id, StreamCondition::PolicyViolation, Some("too many failed logins"));
        }
        self.cx.unblock(id);
    }

    /// The peer is authenticated. The stream restarts (RFC 6120 6.4.6) at the user's home.
    /// Alternatively, it continues there with the inlined requests, and success is reported with
    /// their results (XEP-0388 2.6.1). `seen` is the tag under which the account's home stores the
    /// password.
    pub(super) fn authenticated(
        &mut self,
        id: ConnId,
        proof: Authenticated,
        seen: Option<Tag>,
        message: &[u8],
        behind: &[u8],
    ) {
        self.cx.kernel.counters.logins.one();
        let account = proof.bare();
        let goes_on = self.cx.opening(id).is_some_and(|opening| opening.form() == Form::Sasl2);
        if !goes_on {
            self.cx.send_with(id, |out| sasl::write_success(out, message));
        }
        let home = self.cx.kernel.home(account);
        if let Some(attempt) = self.cx.opening(id).and_then(|opening| opening.attempt.take()) {
            self.cx.kernel.spare_account(account, attempt.peer, seen);
            self.cx.kernel.effects.push(Effect::Timed { what: Timed::Login, since_us: attempt.since_us });
            if self.cx.kernel.settings.note_logins {
                let what = Happened::LoggedIn { mechanism: proof.mechanism().name() };
                self.cx.kernel.note(what, account, Some(attempt.peer.address));
            }
        }
        let is_home = home == self.cx.kernel.id;
        let renews = proof.mechanism().token().is_none() || !self.cx.kernel.settings.domains.keeps_outside(account);
        let conn = self.cx.conns.heard(id);
        let opening = conn.opening().expect("who has just authenticated has no session");
        opening.tls = None;
        opening.forget_from();
        opening.attempts = 0;
        opening.requests = 0;
        match &mut opening.inline {
            Some(inline) => {
                inline.message = message.to_vec();
                // XEP-0480: a client that knows the password may provide keys of it. A token alone,
                // which may be stolen, must not set a password.
                if proof.mechanism().hash().is_none() {
                    inline.upgrades = Hashes::default();
                }
                // A token would outlive the certificate's expiry or revocation. A token that renews
                // itself would outlive a password changed in an external back end, which is not
                // reported to this server.
                if proof.mechanism() == Mechanism::External || !renews {
                    inline.token = None;
                }
            }
            None => {
                conn.expect = StreamExpect::Opening;
                conn.header_sent = false;
                conn.scope = Default::default();
            }
        }
        if is_home && goes_on {
            self.cx.conns.set_stage(id, Stage::ExpectInline(proof));
            self.cx.block(id);
            return self.inline_goes_on(id);
        }
        if is_home {
            self.cx.conns.set_stage(id, Stage::ExpectRestart(proof));
            return self.cx.unblock(id);
        }
        let named = self.cx.conns.client(id).is_some();
        let conn = self.cx.conns.heard(id);
        let (scope, transport) = (conn.scope.clone(), conn.transport());
        let mut leftover = conn.partial.take().map(|p| p.bytes).unwrap_or_default();
        leftover.extend_from_slice(behind);
        let opening = conn.opening().expect("who has just authenticated has no session");
        let moved = Box::new(Moved {
            errand: Errand::Login(proof),
            listener: opening.listener,
            peer: opening.peer,
            named,
            secured: opening.secured,
            accepted_s: opening.accepted_s,
            transport,
            leftover,
            stream: opening.inline.take().map(|inline| {
                Box::new(MovedStream { scope, lang: opening.take_lang(), domain: opening.domain, inline })
            }),
        });
        self.cx.departs(id, home, moved);
    }
}

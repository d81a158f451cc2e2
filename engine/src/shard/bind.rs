//! Resources: binding, enabling and resuming stream management, and replacing a session.

use crate::id::{ConnId, SessionId};
use crate::limits::BIND_RETRIES_MAX;
use crate::ns;
use crate::observers::trace::News;
use crate::router::users::Known;
use crate::session::conn::ConnState;
use crate::session::sasl::{Authenticated, SUSPENDED_TEXT};
use crate::session::sm::TOKEN_BYTES;
use crate::session::table::Session;
use crate::settings::ResourceConflict;
use crate::shard::Shard;
use crate::store::ids::Ids;
use crate::streams::ended::Ended;
use crate::streams::half::Takes;
use crate::streams::management::{SM_ITEM_NOT_FOUND, parse_previd};
use crate::streams::opening::SM_UNEXPECTED;
use crate::wire::error::{StanzaCondition, StreamCondition};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;
use crate::wire::written::write_error;
use crate::wire::{Element, jid};

impl Shard {
    /// Handles `<bind/>` or `<resume/>` from an authenticated client without a resource. The
    /// account must be the one that the client authenticated for: it may have been removed since,
    /// and another one created.
    pub(super) fn expect_bind(&mut self, conn: ConnId, owner: &Authenticated, element: &Element<'_>) {
        let previd = element.is("resume", ns::SM).then(|| element.attribute("previd").unwrap_or_default());
        let claims = element.is("iq", ns::CLIENT) || previd.is_some();
        match claims.then(|| self.is_still_there(conn, owner, previd.as_deref())) {
            Some(Some(true)) | None => {}
            Some(Some(false)) => return self.fail_claim(conn, owner),
            Some(None) => {
                // The element is processed again when that is known.
                if let Some(opening) = self.cx.opening(conn) {
                    opening.again = true;
                }
                return;
            }
        }
        let account = owner.bare();
        if element.is("iq", ns::CLIENT) {
            let request = element.child("bind", ns::BIND).filter(|_| element.kind().as_deref() == Some("set"));
            return match request {
                Some(bind) => {
                    let wanted = bind_resource(bind.cursor());
                    self.bind(conn, account, element, wanted);
                }
                // RFC 6120 7.1: nothing else is permitted before a resource is bound.
                None => self.cx.fail_stream(conn, StreamCondition::NotAuthorized, Some("bind a resource first")),
            };
        }
        if element.is("resume", ns::SM) {
            if self.cx.early_request(conn) {
                self.resume_asked(conn, account, element);
            }
            return;
        }
        if element.is("enable", ns::SM) {
            if self.cx.early_request(conn) {
                self.cx.send_bytes(conn, SM_UNEXPECTED);
            }
            return;
        }
        self.cx.fail_stream(conn, StreamCondition::NotAuthorized, Some("bind a resource first"));
    }

    fn bind(&mut self, conn: ConnId, account: &str, iq: &Element<'_>, wanted: Option<String>) {
        let resource = match wanted.as_deref().filter(|w| !w.is_empty()) {
            None => self.cx.kernel.random_name().into_boxed_str(),
            Some(wanted) => match jid::normalise_resource(wanted) {
                Ok(resource) => resource.into(),
                Err(_) => return self.refuse_bind(conn, iq, StanzaCondition::BadRequest),
            },
        };
        let user = self.actors.users.find_or_insert(account);
        let same = self
            .actors
            .users
            .sessions(&self.actors.sessions, user)
            .find(|(_, s)| s.resource == resource)
            .map(|(id, _)| id);
        match (same, self.cx.kernel.settings.resource_conflict) {
            (Some(_), ResourceConflict::RefuseNew) => return self.refuse_bind(conn, iq, StanzaCondition::Conflict),
            (Some(old), ResourceConflict::ReplaceOld) => self.replace_session(old),
            (None, _) => {}
        }
        let id = match self.begin_session(conn, account, resource) {
            Ok(id) => id,
            Err(limit) => return self.refuse_bind(conn, iq, limit),
        };
        let full = self.actors.full_jid(id);
        let request_id = iq.id();
        self.cx.send_with(conn, |out| {
            let mut w = Writer::new(out);
            w.open("iq").attribute("type", "result").attribute_if("id", request_id.as_deref());
            w.open("bind").attribute("xmlns", ns::BIND).leaf("jid", &full).close().close();
        });
        self.cx.hold_beginning(conn);
    }

    /// Begins a session of a user on a connection, under a resource that no other session of the
    /// user has.
    ///
    /// # Errors
    /// The user has too many sessions.
    pub(super) fn begin_session(
        &mut self,
        conn: ConnId,
        account: &str,
        resource: Box<str>,
    ) -> Result<SessionId, Limit> {
        // The end of an earlier session may have removed the user's entry, too.
        let user = self.actors.users.find_or_insert(account);
        self.make_room(user);
        let user = self.actors.users.find_or_insert(account);
        if self.actors.users.sessions(&self.actors.sessions, user).count()
            >= usize::from(self.cx.kernel.settings.sessions_per_user_max)
        {
            self.cx.kernel.limited(Limit::Sessions.into(), || account.to_owned());
            return Err(Limit::Sessions);
        }
        let Takes { privacy, lang } = Takes::of(self.cx.heard(conn));
        let mut session = Session::new(user, resource, privacy);
        session.takes(privacy, lang);
        session.ids = self.ids_of(user);
        let id = self.actors.insert_session(&mut self.cx, session, conn);
        self.actors.mark_woken(&mut self.cx, id);
        self.cx.conns.set_state(conn, ConnState::Bound(id));
        self.cx.favour(conn);
        self.actors.take_debt(&mut self.cx, user, id);
        self.actors.hold_if_spent(&mut self.cx, id);
        if self.actors.observers.is_some() {
            self.actors.tap_news(&mut self.cx, id, News::Bound);
        }
        // Presence follows next. With the roster in memory, all its consequences leave in one send
        // with the answers to the client's other requests.
        self.contacts.read_roster_ahead(&mut self.cx, &mut self.actors, user);
        Ok(id)
    }

    /// The form of a user's message ids: the account is known when a session begins.
    fn ids_of(&self, user: u32) -> Ids {
        match self.actors.users.get(user).state.as_ref().map(|state| state.known) {
            Some(Known::Exists(which)) => Ids::of(which),
            _ => Ids::PLAIN,
        }
    }

    /// If a user has the maximum number of sessions, ends the one that has waited longest for its
    /// client.
    fn make_room(&mut self, user: u32) {
        let sessions = self.actors.users.sessions(&self.actors.sessions, user);
        if sessions.count() < usize::from(self.cx.kernel.settings.sessions_per_user_max) {
            return;
        }
        let waiting = self
            .actors
            .users
            .sessions(&self.actors.sessions, user)
            .map(|(id, _)| id)
            .filter(|&id| self.cx.is_detached(id));
        if let Some(oldest) = waiting.max_by_key(|&id| self.cx.waited_s(id)) {
            self.end_session(oldest, Vec::new(), None);
        }
    }

    /// The client may request another resource, but a limited number of times (RFC 6120 7.7.3).
    fn refuse_bind(&mut self, conn: ConnId, iq: &Element<'_>, refusal: impl Into<Refusal>) {
        let (id, refusal) = (iq.id(), refusal.into());
        self.cx.send_with(conn, |out| write_error(out, "iq", id.as_deref(), None, None, refusal));
        let opening = self.cx.heard(conn);
        opening.attempts = opening.attempts.saturating_add(1);
        if opening.attempts > BIND_RETRIES_MAX {
            self.cx.fail_stream(conn, StreamCondition::PolicyViolation, Some("too many resources refused"));
        }
    }

    /// Ends a session whose resource is bound again (RFC 6120 7.7.2.2).
    pub(super) fn replace_session(&mut self, old: SessionId) {
        self.actors.end_session_with(
            &mut self.cx,
            old,
            Ended::Replaced,
            StreamCondition::Conflict,
            "the resource was bound again",
        );
        // The new session has the same full JID: contacts must see the old one become unavailable
        // first.
        self.carry_out_endings();
        // The session may have been about to lose its connection, and to wait.
        self.end_session(old, Vec::new(), None);
    }

    /// Handles `<resume/>` (XEP-0198 5).
    fn resume_asked(&mut self, conn: ConnId, account: &str, element: &Element<'_>) {
        let h = element.attribute("h").and_then(|h| h.parse::<u32>().ok());
        let previd = element.attribute("previd").unwrap_or_default();
        if !self.take_over(conn, account, h, &previd) {
            self.cx.send_bytes(conn, SM_ITEM_NOT_FOUND);
        }
    }

    /// Whether the account that a connection has authenticated for still exists. A client that
    /// resumes a session of that account needs no check, because the session would have ended with
    /// it. A phone that reconnects therefore causes no reads of its user's rows.
    pub(super) fn is_still_there(&mut self, conn: ConnId, owner: &Authenticated, previd: Option<&str>) -> Option<bool> {
        let session = previd.and_then(|previd| self.resumable(owner.bare(), &parse_previd(previd)?));
        let which = session.and_then(|id| self.cx.stored_as(id)).map(|(_, which, _)| which);
        let known = which == Some(u64::from_be_bytes(owner.incarnation().to_bytes()));
        // A session of an earlier process may have been on its way from the store when the account
        // was suspended.
        match known && !self.actors.is_suspended(owner.bare()) {
            true => Some(true),
            false => self.actors.is_there(&mut self.cx, conn, owner),
        }
    }

    /// The account that a connection has authenticated for no longer exists, or was suspended.
    pub(super) fn fail_claim(&mut self, conn: ConnId, owner: &Authenticated) {
        if !self.actors.is_suspended(owner.bare()) {
            return self.cx.fail_removed(conn);
        }
        let (condition, text) = (StreamCondition::PolicyViolation, Some(SUSPENDED_TEXT));
        self.cx.fail_stream_with(conn, Ended::Operator, condition, text, None);
    }

    /// The session of an account that has this token and may be resumed.
    fn resumable(&self, account: &str, token: &[u8; TOKEN_BYTES]) -> Option<SessionId> {
        let user = self.actors.users.find(account)?;
        self.actors
            .users
            .sessions(&self.actors.sessions, user)
            .map(|(id, _)| id)
            .find(|&id| self.cx.may_resume(id, token))
    }

    /// A connection takes over the session with this `previd` once none of its stanzas is in
    /// flight. Returns whether there is a session that it may take over.
    pub(super) fn take_over(&mut self, conn: ConnId, account: &str, h: Option<u32>, previd: &str) -> bool {
        let (Some(token), Some(h)) = (parse_previd(previd), h) else { return false };
        let Some(id) = self.resumable(account, &token) else { return self.take_over_stored(conn, account, h, token) };
        // The old connection may be dead without being detected: the new one takes over (XEP-0198
        // 5).
        if let Some(old) = self.cx.take_conn(id) {
            let unsent = self.cx.abandon(old);
            // Messages from before stream management was enabled are not counted. If they were
            // lost, the session cannot continue as if they had arrived.
            if unsent.iter().any(|unsent| unsent.id != 0) {
                self.end_session(id, unsent, None);
                return false;
            }
        }
        let acked = match self.cx.acknowledged(id, h) {
            Ok(acked) => acked,
            Err(fault) => {
                self.cx.handled_too_high(conn, fault);
                return true;
            }
        };
        let full = self.actors.full_jid(id);
        if let Some(inline) = self.cx.heard(conn).inline.as_mut() {
            inline.surround(&full);
        }
        let waits = self.cx.wait_to_resume(id, conn);
        if self.actors.observers.is_some() {
            self.actors.tap_acknowledged(&mut self.cx, id, h);
        }
        let user = self.actors.sessions.slot(id.slot).user;
        self.logs.messages_received(&mut self.cx, &mut self.actors, user, id, &acked);
        match waits {
            true => self.cx.block(conn),
            false => self.cx.resume_goes_on(id),
        }
        true
    }

    /// Handles `<r/>` and `<a/>` of a bound session (XEP-0198 4).
    pub(super) fn management(&mut self, conn: ConnId, id: SessionId, element: &Element<'_>) {
        let user = self.actors.sessions.heard(id).user;
        match element.name() {
            "enable" => {
                self.cx.enable_management(conn, id, element);
                self.begin_storing(id);
            }
            "r" if self.cx.peer_asks(id) => {}
            "a" if self.cx.is_managed(id) => {
                let Some(h) = element.attribute("h").and_then(|h| h.parse().ok()) else {
                    return self.cx.fail_stream(conn, StreamCondition::BadFormat, Some("<a/> without a number"));
                };
                match self.cx.acknowledged(id, h) {
                    Ok(acked) => {
                        if self.actors.observers.is_some() {
                            self.actors.tap_acknowledged(&mut self.cx, id, h);
                        }
                        self.logs.messages_received(&mut self.cx, &mut self.actors, user, id, &acked);
                        // Requests an acknowledgement for stanzas sent after the request that this
                        // answers. A session that is behind gets no further stanza that could
                        // include a request.
                        self.cx.touch(conn);
                    }
                    Err(fault) => self.cx.handled_too_high(conn, fault),
                }
            }
            _ => self.cx.send_bytes(conn, SM_UNEXPECTED),
        }
    }
}

/// The text of `<resource/>` in `<bind/>`.
fn bind_resource(cursor: crate::wire::Cursor<'_>) -> Option<String> {
    use crate::wire::Event;
    let mut inside = false;
    let mut text = String::new();
    for event in cursor {
        match event {
            Event::Start(start) if start.is("resource", ns::BIND) => inside = true,
            Event::Text(piece) if inside => text.push_str(&piece),
            Event::End if inside => return Some(text),
            _ => {}
        }
    }
    None
}

//! Stanzas to sessions that are in no log: presence, requests, answers, errors, and messages that
//! are not stored.

use crate::actors::Actors;
use crate::extension::GATES;
use crate::id::SessionId;
use crate::id::mark::COPY;
use crate::letters::{Kind, MessageClass};
use crate::router::users::Incoming;
use crate::store::sessions;
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::streams::half::Down;
use crate::streams::work::work;
use crate::wire::Element;
use crate::wire::error::StreamCondition;
use crate::wire::jid::{bare_of, resource_of};
use crate::wire::limit::Refusal;
use crate::wire::text::write_attribute;
use crate::wire::written::{Stanza, from_of_stanza, write_error, write_result};

impl Actors {
    /// Offers a session a stanza that is not stored: presence, an answer, or a request of another
    /// entity. Returns whether the session took it. A session with too much unread or
    /// unacknowledged output does not get it; it is sent current presence later. For messages see
    /// [`logs`](crate::logs::message).
    pub(crate) fn offer_stanza(&mut self, cx: &mut Streams, session: SessionId, xml: &[u8]) -> bool {
        let full = cx.is_full(session);
        if full {
            cx.kernel.counters.stanzas_dropped.one();
            if Stanza::written(xml) == Stanza::Presence
                && let Some(from) = from_of_stanza(xml)
                && let Some(session) = self.sessions.get_mut(session)
            {
                let missed = &mut session.extra.get_or_insert_default().missed;
                if missed.as_deref().is_none_or(|first| bare_of(&from) < first) {
                    *missed = Some(bare_of(&from).into());
                }
            }
        } else {
            self.send_stanza(cx, session, xml);
        }
        !full
    }

    /// Sends the answer to a session's own request. A session that keeps sending requests and
    /// acknowledges nothing ends: a reserve as large as the limit for others' stanzas is available
    /// to answers alone.
    pub(crate) fn reply(&mut self, cx: &mut Streams, session: SessionId, xml: &[u8]) {
        self.send_stanza(cx, session, xml);
        if cx.acknowledges_nothing(session) {
            self.end_unread(cx, session, "the client acknowledges nothing");
        }
    }

    fn end_unread(&mut self, cx: &mut Streams, session: SessionId, text: &str) {
        cx.kernel.counters.outbound_overflows.one();
        self.end_session_with(cx, session, Ended::Unread, StreamCondition::ResourceConstraint, text);
    }

    /// Sends a stanza to a session, counted for stream management, regardless of pending output.
    pub(crate) fn send_stanza(&mut self, cx: &mut Streams, session: SessionId, xml: &[u8]) {
        let gated = self.sessions.get(session).is_some_and(|session| session.marks & GATES != 0);
        if !gated || self.passes_gates(cx, session, xml, false) {
            self.send_past_gates(cx, session, xml);
        }
    }

    /// Sends a message of the server ahead of the output pending for the session's connection.
    /// Order is guaranteed only among stanzas of one sender (RFC 6120 10.1). The only overtaken
    /// stanzas that the server itself has sent are announcements.
    pub(crate) fn send_urgent(&mut self, cx: &mut Streams, session: SessionId, xml: &[u8]) {
        let Some(overtaken) = cx.write_urgent(session, xml) else { return };
        cx.kernel.counters.messages_out.one();
        if self.observers.is_some() {
            self.tap_goes_ahead(cx, session, xml, overtaken);
        }
    }

    /// Answers a session's stanza with an error and counts it as handled.
    pub(crate) fn refuse(
        &mut self,
        cx: &mut Streams,
        session: SessionId,
        seq: u32,
        element: &Element<'_>,
        refusal: impl Into<Refusal>,
    ) {
        let refusal = refusal.into();
        if refusal.held.is_some() {
            let full = self.full_jid(session);
            cx.kernel.limited(refusal, || full);
        }
        let is_error = element.kind().as_deref() == Some("error");
        let is_response = element.name() == "iq" && element.kind().as_deref() == Some("result");
        if !is_error && !is_response {
            // The error's sender is the stanza's addressee. A malformed address is repeated
            // unchanged (RFC 6120 8.3.3.8).
            let to = element.to();
            let id = element.id();
            let full = self.full_jid(session);
            let mut out = Vec::with_capacity(256);
            write_error(&mut out, element.name(), id.as_deref(), to.as_deref(), Some(&full), refusal);
            self.reply(cx, session, &out);
            // A client that resumes after a crash sees the stanza as handled, so its error must
            // arrive too.
            if element.name() == "message" {
                self.keep_push(cx, session, &out);
            }
        }
        if element.name() == "message" {
            cx.kernel.counters.messages_refused.one();
        }
        if self.observers.is_some() {
            self.tap_refused(session, refusal.condition);
        }
        self.stanza_done(cx, session, seq);
    }

    /// Delivers a stanza to the session of its full JID. Directed presence to a bare JID goes to
    /// all available sessions (RFC 6121 8.5.2.1.2). Returns whether a session took it.
    pub(crate) fn to_exact_session(&mut self, cx: &mut Streams, user: u32, stanza: Incoming<'_>) -> bool {
        let resource = resource_of(stanza.to);
        let bare_presence = resource.is_none() && matches!(stanza.kind, Kind::Directed { .. });
        let targets: Vec<_> = self
            .users
            .sessions(&self.sessions, user)
            .filter(|(_, s)| resource.map_or(bare_presence && s.is_available(), |r| *s.resource == *r))
            .map(|(id, _)| id)
            .collect();
        targets.into_iter().fold(false, |any, id| self.answer_to_session(cx, id, stanza) | any)
    }

    /// Delivers a stanza to a session. Stanzas from a server answer the session's own requests;
    /// stanzas from clients are subject to its limits. Returns whether the session took it.
    pub(crate) fn answer_to_session(&mut self, cx: &mut Streams, session: SessionId, stanza: Incoming<'_>) -> bool {
        let answer = match stanza.kind {
            Kind::Response | Kind::Message { class: MessageClass::Error, .. } => stanza.origin.is_none(),
            _ => false,
        };
        if answer {
            // The session pays for answers to its requests on arrival, because their size was not
            // known before.
            cx.tell(session, Down::Charge(work(0, stanza.xml.len())));
            self.reply(cx, session, stanza.xml);
            if matches!(stanza.kind, Kind::Message { .. }) {
                self.keep_push(cx, session, stanza.xml);
            }
            return true;
        }
        self.offer_stanza(cx, session, stanza.xml)
    }

    /// Sends an IQ result to a session of this home.
    pub(crate) fn iq_result(&mut self, cx: &mut Streams, session: SessionId, id: Option<&str>, payload: &[u8]) {
        if self.sessions.get(session).is_none() {
            return;
        }
        let full = self.full_jid(session);
        let mut out = Vec::with_capacity(payload.len() + 128);
        write_result(&mut out, id, None, &full, payload);
        self.reply(cx, session, &out);
    }

    /// Sends an IQ error to a session of this home.
    pub(crate) fn iq_error(
        &mut self,
        cx: &mut Streams,
        session: SessionId,
        id: Option<&str>,
        refusal: impl Into<Refusal>,
    ) {
        if self.sessions.get(session).is_none() {
            return;
        }
        let (full, refusal) = (self.full_jid(session), refusal.into());
        cx.kernel.limited(refusal, || full.clone());
        let mut out = Vec::with_capacity(256);
        write_error(&mut out, "iq", id, None, Some(&full), refusal);
        self.reply(cx, session, &out);
    }

    /// Sends a message to a session. `mark` is its number in the user's log, or 0.
    pub(crate) fn hand_bytes(&mut self, cx: &mut Streams, session: SessionId, mark: u64, xml: &[u8]) {
        let Some(state) = self.sessions.get(session) else { return };
        if state.marks & GATES != 0 && !self.passes_gates(cx, session, xml, mark != 0 && mark & COPY == 0) {
            return;
        }
        if self.observers.is_some() {
            self.tap_goes(cx, session, xml);
        }
        cx.kernel.counters.messages_out.one();
        cx.kernel.counters.messages_live.one();
        cx.tell(session, Down::Message(mark, xml));
    }

    /// Sends a session a message that is not stored. A session with too much pending output does
    /// not get it.
    pub(crate) fn hand_ephemeral(&mut self, cx: &mut Streams, session: SessionId, xml: &[u8]) {
        if cx.is_busy(session) {
            return cx.kernel.counters.stanzas_dropped.one();
        }
        self.hand_bytes(cx, session, 0, xml);
    }

    /// Sends an IQ of the server to all of a user's sessions that an extension has marked.
    pub(crate) fn push_to_marked(&mut self, cx: &mut Streams, user: u32, place: usize, payload: &[u8]) {
        let marked = self.users.sessions(&self.sessions, user).filter(|(_, s)| s.marks & 1 << place != 0);
        for session in marked.map(|(id, _)| id).collect::<Vec<_>>() {
            self.push_to(cx, session, payload);
        }
    }

    /// Retains a push, or an error that answers a message, for as long as it may have to be
    /// repeated.
    fn keep_push(&mut self, cx: &mut Streams, session: SessionId, push: &[u8]) {
        if let Some(number) = cx.pushed(session)
            && let Some((key, ..)) = cx.stored_as(session)
            && let Some(state) = self.sessions.get(session)
        {
            let bare = self.bare_of_user(state.user);
            sessions::put_push(&mut cx.kernel.writes, &bare, key, number, push);
        }
    }

    /// Sends a session an IQ of type `set` from the server, such as a roster push (RFC 6121 2.1.6).
    /// A push must not be skipped. A session that reads none of its pushes therefore ends, as one
    /// that reads no answers does.
    pub(crate) fn push_to(&mut self, cx: &mut Streams, session: SessionId, payload: &[u8]) {
        if self.sessions.get(session).is_none() {
            return;
        }
        let (full, id) = (self.full_jid(session), cx.kernel.random_name());
        let mut out = Vec::with_capacity(payload.len() + 128);
        out.extend_from_slice(b"<iq type='set'");
        write_attribute(&mut out, "id", &id);
        write_attribute(&mut out, "to", &full);
        out.push(b'>');
        out.extend_from_slice(payload);
        out.extend_from_slice(b"</iq>");
        self.reply(cx, session, &out);
        self.keep_push(cx, session, &out);
        if cx.unread_bytes(session) > 2 * cx.kernel.settings.outbound_bytes_max {
            self.end_unread(cx, session, "the client reads nothing");
        }
    }
}

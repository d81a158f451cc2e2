//! Marks and notes that extensions have set on sessions and users, and the hooks that depend on
//! them.

use crate::actors::Actors;
use crate::extension;
use crate::extension::{Ask, Capable, Going, Note, SessionChange, TABLE, WAKER, Way};
use crate::id::SessionId;
use crate::limits::ASKED_MAX;
use crate::observers::trace::News;
use crate::streams::Streams;
use crate::streams::half::Down;
use crate::streams::half::Takes;
use crate::wire::Element;
use crate::wire::jid::bare_of;
use crate::wire::limit::Refusal;
use crate::wire::text::write_attribute;
use crate::wire::written::{Stanza, read_back};

impl Actors {
    /// Whether extensions have notes about a user.
    pub(crate) fn has_notes(&self, user: u32) -> bool {
        self.users.get(user).state.as_ref().is_some_and(|state| !state.notes.is_empty())
    }

    /// Whether a user's notes must be retained for as long as the user has a session.
    pub(crate) fn notes_stay(&self, user: u32) -> bool {
        self.users.get(user).state.as_ref().is_some_and(|state| extension::stay(&state.notes))
    }

    /// A session of a user begins. It inherits its mark from the user's other sessions, or from the
    /// note.
    pub(crate) fn mark_woken(&mut self, cx: &mut Streams, id: SessionId) {
        let user = self.sessions.heard(id).user;
        let noted = self.users.get(user).state.as_ref().is_some_and(|state| state.notes.get(WAKER).is_some());
        if noted || self.users.sessions(&self.sessions, user).any(|(_, session)| session.marks & 1 << WAKER != 0) {
            self.mark(cx, id, WAKER, true);
        }
    }

    /// The reason to refuse a stanza between a user and another address, if there is one. Stanzas
    /// between a user's own sessions are never refused.
    pub(crate) fn guards(&self, cx: &Streams, user: u32, way: Way, other: &str) -> Option<Refusal> {
        let notes = self.users.get(user).state.as_ref().map(|state| &state.notes).filter(|notes| !notes.is_empty())?;
        let own = self.bare_of_user(user) == bare_of(other);
        extension::refuses(&cx.kernel.facts, notes, way, other).filter(|_| !own)
    }

    /// Whether a message between a user and another address may be archived, if the archive applies
    /// to it at all.
    #[inline]
    pub(crate) fn archives(&self, cx: &Streams, user: u32, other: &str) -> bool {
        !self.has_notes(user) || self.notes_archive(cx, user, other)
    }

    #[cold]
    fn notes_archive(&self, cx: &Streams, user: u32, other: &str) -> bool {
        let Some(state) = &self.users.get(user).state else { return true };
        extension::archives(&cx.kernel.facts, &state.notes, &self.bare_of_user(user), other)
    }

    /// Writes an extension's record of a user.
    pub(crate) fn put_record(&mut self, cx: &mut Streams, user: u32, place: usize, row: &[u8]) {
        let (bare, now_s) = (self.bare_of_user(user), cx.kernel.now.mono_s());
        let note = extension::write_record(place, &mut cx.kernel.writes, &bare, row);
        self.users.state(user, now_s).notes.put(place, note);
    }

    /// Sets or clears an extension's mark on a session.
    pub(crate) fn mark(&mut self, cx: &mut Streams, id: SessionId, place: usize, on: bool) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let user = session.user;
        match on {
            true => session.marks |= 1 << place,
            false => session.marks &= !(1 << place),
        }
        self.users.get_mut(user).marked |= on;
        cx.changed(id);
    }

    /// Lets a hook change its extension's note about a session.
    pub(crate) fn with_note<T>(
        &mut self,
        session: SessionId,
        place: usize,
        hook: impl FnOnce(&mut Option<Box<dyn Note>>) -> T,
    ) -> Option<T> {
        let state = self.sessions.get_mut(session)?;
        let mut note = state.extra.as_mut().and_then(|extra| extra.notes.take(place));
        let result = hook(&mut note);
        if note.is_some() {
            state.extra.get_or_insert_default().notes.put(place, note);
        }
        state.trim();
        Some(result)
    }

    /// Carries out the change that a hook requests for a session.
    pub(crate) fn change_session(&mut self, cx: &mut Streams, session: SessionId, place: usize, change: SessionChange) {
        if let Some(on) = change.mark {
            self.mark(cx, session, place, on);
        }
        for stanza in change.send {
            self.send_past_gates(cx, session, &stanza);
        }
        for ask in change.ask {
            self.ask_client(cx, session, place, &ask);
        }
    }

    /// Sends a request from the server to a client. The answer arrives at
    /// [`Actors::client_answered`].
    pub(crate) fn ask_client(&mut self, cx: &mut Streams, session: SessionId, place: usize, ask: &Ask) {
        if self.sessions.get(session).is_none() {
            return;
        }
        let (full, id) = (self.full_jid(session), cx.kernel.random_name());
        let mut out = Vec::with_capacity(ask.payload.len() + 160);
        out.extend_from_slice(if ask.set { b"<iq type='set'" } else { b"<iq type='get'" });
        let domain = self.users.domain(self.sessions.slot(session.slot).user);
        [("from", domain), ("to", &full), ("id", &id)]
            .iter()
            .for_each(|(name, value)| write_attribute(&mut out, name, value));
        out.push(b'>');
        out.extend_from_slice(&ask.payload);
        out.extend_from_slice(b"</iq>");
        let asked = &mut self.sessions.heard(session).extra.get_or_insert_default().asked;
        if asked.len() >= ASKED_MAX {
            asked.remove(0);
        }
        asked.push((place as u8, id.into()));
        cx.kernel.counters.asks_sent.one();
        // This does not release stanzas held back by gates: order is guaranteed only among stanzas
        // of one sender (RFC 6120 10.1).
        self.send_past_gates(cx, session, &out);
    }

    /// A client answers a request of the server. Answers without a request are ignored. Returns the
    /// client's features, if the request was for those.
    pub(crate) fn client_answered(
        &mut self,
        cx: &mut Streams,
        session: SessionId,
        answer: &Element<'_>,
    ) -> Option<Option<Capable>> {
        let id = answer.id().unwrap_or_default();
        let state = self.sessions.heard(session);
        let asked = state.extra.as_mut().map(|extra| &mut extra.asked)?;
        let at = asked.iter().position(|(_, asked)| **asked == *id)?;
        let place = usize::from(asked.remove(at).0);
        cx.kernel.counters.asks_answered.one();
        let asks = TABLE[place].asks.as_ref()?;
        let mut change = self.with_note(session, place, |note| (asks.answered)(note, answer))?;
        let capable = change.capable.take();
        self.change_session(cx, session, place, change);
        asks.capable.is_some().then_some(capable)
    }

    /// A session has a new connection (XEP-0198 5).
    pub(crate) fn resumed(&mut self, cx: &mut Streams, session: SessionId, takes: Takes, again: u32) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        state.takes(takes.privacy, takes.lang);
        self.hold_if_spent(cx, session);
        if self.observers.is_some() {
            self.tap_news(cx, session, News::Resumed(again));
        }
        let marks = self.sessions.get(session).map_or(0, |session| session.marks) & extension::GATES;
        for place in extension::places(marks) {
            if let Some(gate) = &TABLE[place].gate
                && let Some(change) = self.with_note(session, place, gate.resumed)
            {
                self.change_session(cx, session, place, change);
            }
        }
    }

    /// Whether a stanza is sent to a session now, according to the gates of the extensions that
    /// have marked the session.
    #[cold]
    pub(crate) fn passes_gates(&mut self, cx: &mut Streams, session: SessionId, xml: &[u8], logged: bool) -> bool {
        let marks = self.sessions.get(session).map_or(0, |session| session.marks) & extension::GATES;
        let passes = read_back(xml, |element| self.passes_all(cx, session, marks, element, logged));
        passes.unwrap_or(true)
    }

    fn passes_all(
        &mut self,
        cx: &mut Streams,
        session: SessionId,
        marks: u32,
        element: &Element<'_>,
        logged: bool,
    ) -> bool {
        for place in extension::places(marks) {
            let Some(gate) = &TABLE[place].gate else { continue };
            match self.with_note(session, place, |note| (gate.pass)(note, element, logged)) {
                Some(Going::Goes) | None => {}
                Some(Going::After(first)) => first.iter().for_each(|stanza| self.send_past_gates(cx, session, stanza)),
                Some(Going::Kept) => {
                    debug_assert!(!logged, "a message of a log is not to be kept back");
                    return logged;
                }
            }
        }
        true
    }

    /// Sends a stanza to a session, counted for stream management, regardless of pending output and
    /// of gates.
    pub(crate) fn send_past_gates(&mut self, cx: &mut Streams, session: SessionId, xml: &[u8]) {
        if self.observers.is_some() {
            self.tap_goes(cx, session, xml);
        }
        if self.sessions.get(session).is_none() {
            return;
        }
        let c = &cx.kernel.counters;
        Stanza::written(xml).of(&c.messages_out, &c.presences_out, &c.iqs_out).one();
        cx.tell(session, Down::Stanza(xml));
    }
}

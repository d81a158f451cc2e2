//! What extensions have marked and noted of sessions and users, and the hooks that rest on it.

use crate::actors::Actors;
use crate::extension;
use crate::extension::{Going, Note, SessionChange, TABLE, Way};
use crate::id::SessionId;
use crate::streams::half::Down;
use crate::streams::half::Takes;
use crate::watch::trace::News;
use crate::wire::Element;
use crate::wire::jid::bare_of;
use crate::wire::limit::Refusal;
use crate::wire::written::{Stanza, read_back};

impl Actors {
    /// Whether anything is noted of a user.
    pub(crate) fn has_notes(&self, user: u32) -> bool {
        self.users.get(user).state.as_ref().is_some_and(|state| !state.notes.is_empty())
    }

    /// Why a stanza between a user and another address is refused, if it is. Nothing is between a user's own sessions.
    pub(crate) fn guards(&self, user: u32, way: Way, other: &str) -> Option<Refusal> {
        let notes = self.users.get(user).state.as_ref().map(|state| &state.notes).filter(|notes| !notes.is_empty())?;
        let own = self.bare_of_user(user) == bare_of(other);
        extension::refuses(&self.facts, notes, way, other).filter(|_| !own)
    }

    /// Sets or clears an extension's mark on a session.
    pub(crate) fn mark(&mut self, session: SessionId, place: usize, on: bool) {
        let Some(session) = self.sessions.get_mut(session) else { return };
        let user = session.user;
        match on {
            true => session.marks |= 1 << place,
            false => session.marks &= !(1 << place),
        }
        self.users.get_mut(user).marked |= on;
    }

    /// Lets a hook change the note that its extension has of a session.
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

    /// Carries out what a hook of an extension wants changed of a session.
    pub(crate) fn change_session(&mut self, session: SessionId, place: usize, change: SessionChange) {
        if let Some(on) = change.mark {
            self.mark(session, place, on);
        }
        for stanza in change.send {
            self.send_past_gates(session, &stanza);
        }
    }

    /// A session has another connection (XEP-0198 5).
    pub(crate) fn resumed(&mut self, session: SessionId, takes: Takes, again: u32) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        state.takes(takes.privacy, takes.lang);
        if self.watch.is_some() {
            self.watch_news(session, News::Resumed(again));
        }
        let marks = self.sessions.get(session).map_or(0, |session| session.marks) & extension::GATES;
        for place in extension::places(marks) {
            if let Some(gate) = &TABLE[place].gate
                && let Some(change) = self.with_note(session, place, gate.resumed)
            {
                self.change_session(session, place, change);
            }
        }
    }

    /// Whether a stanza goes to a session now, by the gates of the extensions whose mark the session has.
    #[cold]
    pub(crate) fn passes_gates(&mut self, session: SessionId, xml: &[u8], logged: bool) -> bool {
        let marks = self.sessions.get(session).map_or(0, |session| session.marks) & extension::GATES;
        let passes = read_back(xml, |element| self.passes_all(session, marks, element, logged));
        passes.unwrap_or(true)
    }

    fn passes_all(&mut self, session: SessionId, marks: u32, element: &Element<'_>, logged: bool) -> bool {
        for place in extension::places(marks) {
            let Some(gate) = &TABLE[place].gate else { continue };
            match self.with_note(session, place, |note| (gate.pass)(note, element, logged)) {
                Some(Going::Goes) | None => {}
                Some(Going::After(first)) => first.iter().for_each(|stanza| self.send_past_gates(session, stanza)),
                Some(Going::Kept) => {
                    debug_assert!(!logged, "a message of a log is not to be kept back");
                    return logged;
                }
            }
        }
        true
    }

    /// Sends a stanza to a session, counted for stream management, whatever waits for it already, and whatever
    /// extensions would do with it.
    pub(crate) fn send_past_gates(&mut self, session: SessionId, xml: &[u8]) {
        if self.watch.is_some() {
            self.watch_goes(session, xml);
        }
        let c = &self.counters;
        Stanza::written(xml).of(&c.messages_out, &c.presences_out, &c.iqs_out).one();
        self.tell(session, Down::Stanza(xml));
    }
}

//! Stanzas of a session until they are in safe hands (XEP-0198 4), and how much of them may be under way.

use std::borrow::Cow;

use crate::actors::Actors;
use crate::id::{ActorKind, SessionId};
use crate::io::Effect;
use crate::mail::Origin;
use crate::session::conn::Pause;
use crate::wire::jid;
use crate::wire::jid::JidRef;

/// Where a stanza is addressed to, as the sender's server sees it.
pub(crate) enum Address<'a> {
    /// No `to`, or the own bare JID.
    Own,
    /// A domain that is served: the server.
    Server,
    /// A user of a domain that is served, bare or full.
    User(JidRef<'a>),
    /// Anywhere else.
    Remote,
    /// Not a JID.
    Malformed,
}

impl Actors {
    pub(crate) fn is_own_address(&self, full: &str, from: &str) -> bool {
        from == full
            || jid::normalise(from)
                .is_ok_and(|from| *from == *full || full.strip_prefix(&*from).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Reads the `to` of a stanza. `scratch` holds the normalised text.
    pub(crate) fn address<'a>(&self, full: &str, to: Option<&'a str>, scratch: &'a mut Cow<'a, str>) -> Address<'a> {
        let Some(to) = to else { return Address::Own };
        *scratch = match jid::normalise(to) {
            Ok(to) => to,
            Err(_) => return Address::Malformed,
        };
        let to = JidRef::from_normalised(scratch);
        let Some(domain) = self.settings.domains.find(to.domain()) else { return Address::Remote };
        match to.local() {
            None => Address::Server,
            Some(_) if to.is_bare() && full.strip_prefix(to.as_str()).is_some_and(|r| r.starts_with('/')) => {
                Address::Own
            }
            Some(_) => match self.settings.domains.kind(domain) {
                ActorKind::Users => Address::User(to),
            },
        }
    }

    /// The stanza with this number is in safe hands.
    pub(crate) fn stanza_done(&mut self, session: SessionId, seq: u32) {
        if self.watch.is_some() {
            self.watch_safe(session, seq);
        }
        if let Some(managed) = self.sessions.get_mut(session).and_then(|s| s.managed.as_mut()) {
            managed.done(seq);
            if managed.under_way() == 0 && managed.waiting.is_some() {
                return self.resume_goes_on(session);
            }
            self.answer_management(session);
        }
    }

    /// A stanza leaves for another home: it counts as under way until it is confirmed, and a session with too many, or
    /// with too many bytes of them not yet durable, is not read from meanwhile.
    pub(crate) fn sent_off(&mut self, session: SessionId, seq: u32, bytes: usize) -> Option<Origin> {
        let (most, most_bytes) = (self.settings.in_flight_max, self.settings.in_flight_bytes_max);
        let state = self.sessions.get_mut(session)?;
        state.in_flight = state.in_flight.saturating_add(1);
        state.unsettle(bytes);
        if (state.in_flight >= most || state.is_unsettled(most_bytes))
            && let Some(id) = state.conn
            && self.conns.pause(id, Pause::InFlight)
        {
            self.effects.push(Effect::Pause { conn: id });
        }
        Some(Origin { shard: self.id, session, seq, entry: 0 })
    }

    /// A stanza has led to writes at the session's own home: who has made many of them is not read from until they are durable, as
    /// [`Actors::sent_off`] does for those elsewhere.
    pub(crate) fn wrote(&mut self, session: SessionId, bytes: usize) {
        let most_bytes = self.settings.in_flight_bytes_max;
        let Some(state) = self.sessions.get_mut(session) else { return };
        state.unsettle(bytes);
        let Some(id) = state.conn.filter(|_| state.is_unsettled(most_bytes)) else { return };
        // With stanzas under way, the last of them that is confirmed lets it go on.
        let goes_on = state.in_flight == 0;
        if goes_on {
            state.settle();
        }
        if self.conns.pause(id, Pause::InFlight) {
            self.effects.push(Effect::Pause { conn: id });
        }
        if goes_on && self.conns.resume(id, Pause::InFlight) {
            self.effects.push(Effect::Resume { conn: id, durable: true });
        }
    }

    /// A stanza that was under way is confirmed. One who has sent much is read from again only when all of it is
    /// confirmed and durable: so what waits for the disk is bounded a session, and who floods waits for it alone.
    pub(crate) fn confirmed(&mut self, session: SessionId, seq: u32) {
        let (most, most_bytes) = (self.settings.in_flight_max, self.settings.in_flight_bytes_max);
        let Some(state) = self.sessions.get_mut(session) else { return };
        state.in_flight = state.in_flight.saturating_sub(1);
        let durable = state.is_unsettled(most_bytes);
        if state.in_flight <= if durable { 0 } else { most / 2 } {
            if durable {
                state.settle();
            }
            if let Some(id) = state.conn
                && self.conns.resume(id, Pause::InFlight)
            {
                self.effects.push(Effect::Resume { conn: id, durable });
            }
        }
        self.stanza_done(session, seq);
    }
}

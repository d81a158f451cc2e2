//! What a bound session sends: checks, the count of what is under way, and where each stanza goes.

use std::borrow::Cow;

use crate::feature::offline::{Keep, keep};
use crate::id::{ConnId, SessionId, ShardId};
use crate::io::{Effect, StorageState};
use crate::mail::{Kind, Letter, MessageClass, Origin};
use crate::ns;
use crate::session::conn::Pause;
use crate::shard::Shard;
use crate::shard::ended::Ended;
use crate::store::archive::Entry;
use crate::wire::error::{StanzaCondition, StreamCondition, write_stanza_error};
use crate::wire::jid::{self, JidRef};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::write_attribute;
use crate::wire::{Element, Splice, splice};

/// Writes an error stanza (RFC 6120 8.3). `from` and `to` as it goes out.
pub(super) fn write_error(
    out: &mut Vec<u8>,
    name: &str,
    id: Option<&str>,
    from: Option<&str>,
    to: Option<&str>,
    refusal: impl Into<Refusal>,
) {
    let refusal = refusal.into();
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b" type='error'");
    for (attribute, value) in [("id", id), ("from", from), ("to", to)] {
        if let Some(value) = value {
            write_attribute(out, attribute, value);
        }
    }
    out.push(b'>');
    write_stanza_error(out, refusal.condition, refusal.text().as_deref());
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

/// The three kinds (RFC 6120 8.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stanza {
    Message,
    Presence,
    Iq,
}

impl Stanza {
    /// That of one of these.
    fn of<T>(self, message: T, presence: T, iq: T) -> T {
        match self {
            Stanza::Message => message,
            Stanza::Presence => presence,
            Stanza::Iq => iq,
        }
    }

    /// The kind of a stanza that this server wrote: their names differ in the first letter.
    fn written(xml: &[u8]) -> Stanza {
        match xml.get(1) {
            Some(b'm') => Stanza::Message,
            Some(b'p') => Stanza::Presence,
            _ => Stanza::Iq,
        }
    }
}

/// Where a stanza is addressed to, as the sender's server sees it.
pub(super) enum Address<'a> {
    /// No `to`, or the own bare JID.
    Own,
    /// The server.
    Server,
    /// A user of the served domain, bare or full.
    User(JidRef<'a>),
    /// Anywhere else.
    Remote,
    /// Not a JID.
    Malformed,
}

impl Shard {
    /// One first-level element of a bound session's stream.
    pub(super) fn from_session(&mut self, conn: ConnId, session: SessionId, element: &Element<'_>) {
        let namespace = element.namespace();
        if namespace == ns::SM {
            return self.management(conn, session, element);
        }
        // RFC 6120 4.8.3: the content of another kind of stream.
        if namespace == ns::SERVER {
            return self.fail_stream(conn, StreamCondition::InvalidNamespace, None);
        }
        let stanza = match element.name() {
            "message" if namespace == ns::CLIENT => Stanza::Message,
            "presence" if namespace == ns::CLIENT => Stanza::Presence,
            "iq" if namespace == ns::CLIENT => Stanza::Iq,
            _ => return self.fail_stream(conn, StreamCondition::UnsupportedStanzaType, None),
        };
        stanza.of(&self.counters.messages_in, &self.counters.presences_in, &self.counters.iqs_in).one();
        let full = self.full_jid(session);
        if let Some(from) = element.from()
            && !self.is_own_address(&full, &from)
        {
            return self.fail_stream(conn, StreamCondition::InvalidFrom, None);
        }
        let Some(state) = self.sessions.get_mut(session) else { return };
        let seq = state.managed.as_mut().map_or(0, |m| m.receive());
        let in_flight = state.in_flight;
        if self.watch.is_some() {
            self.watch_came(session, element);
        }
        let written = self.writes.bytes();
        match stanza {
            Stanza::Message => self.from_session_message(session, seq, &full, element),
            Stanza::Presence => self.from_session_presence(session, seq, &full, element),
            Stanza::Iq => self.from_session_iq(session, seq, &full, element),
        }
        // What a message writes counts where it is sent off.
        if stanza != Stanza::Message && self.writes.bytes() > written {
            self.wrote(session, element.bytes().len().max(self.writes.bytes() - written));
        }
        if self.watch.is_some() {
            self.watch_taken(session, seq, in_flight);
        }
    }

    fn is_own_address(&self, full: &str, from: &str) -> bool {
        from == full
            || jid::normalise(from)
                .is_ok_and(|from| *from == *full || full.strip_prefix(&*from).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Reads the `to` of a stanza. `scratch` holds the normalised text.
    pub(super) fn address<'a>(&self, full: &str, to: Option<&'a str>, scratch: &'a mut Cow<'a, str>) -> Address<'a> {
        let Some(to) = to else { return Address::Own };
        *scratch = match jid::normalise(to) {
            Ok(to) => to,
            Err(_) => return Address::Malformed,
        };
        let to = JidRef::from_normalised(scratch);
        if to.domain() != &*self.settings.domain {
            return Address::Remote;
        }
        match to.local() {
            None => Address::Server,
            Some(_) if to.is_bare() && full.strip_prefix(to.as_str()).is_some_and(|r| r.starts_with('/')) => {
                Address::Own
            }
            Some(_) => Address::User(to),
        }
    }

    /// The stanza with this number is in safe hands.
    pub(super) fn stanza_done(&mut self, session: SessionId, seq: u32) {
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
    pub(super) fn sent_off(&mut self, session: SessionId, seq: u32, bytes: usize) -> Option<Origin> {
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
    /// [`Shard::sent_off`] does for those elsewhere.
    fn wrote(&mut self, session: SessionId, bytes: usize) {
        let most_bytes = self.settings.in_flight_bytes_max;
        let Some(state) = self.sessions.get_mut(session) else { return };
        state.unsettle(bytes);
        let Some(id) = state.conn.filter(|_| state.is_unsettled(most_bytes)) else { return };
        if self.conns.pause(id, Pause::InFlight) {
            self.effects.push(Effect::Pause { conn: id });
        }
        // With stanzas under way, the last of them that is confirmed lets it go on.
        if state.in_flight == 0 {
            state.settle();
            if self.conns.resume(id, Pause::InFlight) {
                self.effects.push(Effect::Resume { conn: id, durable: true });
            }
        }
    }

    /// A stanza that was under way is confirmed. One who has sent much is read from again only when all of it is
    /// confirmed and durable: so what waits for the disk is bounded a session, and who floods waits for it alone.
    pub(super) fn confirmed(&mut self, session: SessionId, seq: u32) {
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

    /// Answers a session's stanza with an error and counts it as handled.
    pub(super) fn refuse(&mut self, session: SessionId, seq: u32, element: &Element<'_>, refusal: impl Into<Refusal>) {
        let refusal = refusal.into();
        self.limited(refusal, |shard| shard.full_jid(session));
        let is_error = element.kind().as_deref() == Some("error");
        let is_response = element.name() == "iq" && element.kind().as_deref() == Some("result");
        if !is_error && !is_response {
            // The error comes from whom the stanza was for; a malformed address is repeated as it was (RFC 6120 8.3.3.8).
            let to = element.to();
            let id = element.id();
            let full = self.full_jid(session);
            let mut out = Vec::with_capacity(256);
            write_error(&mut out, element.name(), id.as_deref(), to.as_deref(), Some(&full), refusal);
            self.reply(session, &out);
        }
        if element.name() == "message" {
            self.counters.messages_refused.one();
        }
        if self.watch.is_some() {
            self.watch_refused(session, refusal.condition);
        }
        self.stanza_done(session, seq);
    }

    /// Sends a session what others have for it and what waits nowhere: presence, answers, requests. Returns whether it took it;
    /// who leaves too much unread or unacknowledged does without. For messages see [`message`](super::message).
    pub(super) fn offer_stanza(&mut self, session: SessionId, xml: &[u8]) -> bool {
        let full = self.is_full(session);
        if full {
            self.counters.stanzas_dropped.one();
        } else {
            self.send_stanza(session, xml);
        }
        !full
    }

    /// Whether a session has so much unread or unacknowledged that it gets nothing more from others.
    fn is_full(&self, session: SessionId) -> bool {
        let most = self.settings.outbound_bytes_max;
        let Some(state) = self.sessions.get(session) else { return true };
        let unacked = state.managed.as_ref().map_or(0, |managed| managed.unacked_bytes());
        unacked > most || state.conn.is_some_and(|conn| self.conns.outbound_bytes(conn) > most)
    }

    /// Sends the answer to a session's own request. One that asks on and on and acknowledges nothing ends: as much as others may
    /// fill is there for answers alone.
    pub(super) fn reply(&mut self, session: SessionId, xml: &[u8]) {
        self.send_stanza(session, xml);
        let most = 2 * self.settings.outbound_bytes_max;
        let managed = self.sessions.get(session).and_then(|session| session.managed.as_ref());
        if managed.is_some_and(|managed| managed.unacked_bytes() > most && managed.unacked_len() > 1) {
            self.counters.outbound_overflows.one();
            self.end_session_with(
                session,
                Ended::Unread,
                StreamCondition::ResourceConstraint,
                "nothing is acknowledged",
            );
        }
    }

    /// Sends a stanza to a session, counted for stream management, whatever waits for it already.
    pub(super) fn send_stanza(&mut self, session: SessionId, xml: &[u8]) {
        if self.watch.is_some() {
            self.watch_goes(session, xml);
        }
        let Some(state) = self.sessions.get_mut(session) else { return };
        let c = &self.counters;
        Stanza::written(xml).of(&c.messages_out, &c.presences_out, &c.iqs_out).one();
        match (state.conn, state.managed.is_some()) {
            (_, true) => self.send_managed(session, 0, xml),
            (Some(conn), false) => self.send_bytes(conn, xml),
            (None, false) => {}
        }
    }

    /// Sends to a managed session and keeps a copy until it is acknowledged. `mark` is what the user's log knows it by, or 0.
    pub(super) fn send_managed(&mut self, session: SessionId, mark: u64, xml: &[u8]) {
        let Some(state) = self.sessions.get_mut(session) else { return };
        let conn = state.conn;
        let Some(managed) = state.managed.as_mut() else { return };
        managed.send(xml, mark);
        if let Some(conn) = conn {
            self.send_bytes(conn, xml);
            self.count_stanza(conn);
        }
    }

    /// Sends a message of the server's own ahead of what waits for the session's connection. Order is promised to stanzas of one
    /// sender (RFC 6120 10.1), and the server has sent none of those that are overtaken but its announcements.
    pub(super) fn send_urgent(&mut self, session: SessionId, xml: &[u8]) {
        let Some(conn) = self.sessions.get(session).and_then(|s| s.conn) else { return };
        self.counters.messages_out.one();
        let overtaken = self.send_first(conn, xml);
        if self.watch.is_some() {
            self.watch_goes_ahead(session, xml, overtaken);
        }
        if let Some(managed) = self.sessions.get_mut(session).and_then(|s| s.managed.as_mut()) {
            managed.send_ahead(xml, 0, overtaken);
        }
    }

    fn from_session_message(&mut self, session: SessionId, seq: u32, full: &str, element: &Element<'_>) {
        let class = match element.kind().as_deref() {
            Some("chat") => MessageClass::Chat,
            Some("groupchat") => MessageClass::Groupchat,
            Some("headline") => MessageClass::Headline,
            Some("error") => MessageClass::Error,
            _ => MessageClass::Normal,
        };
        let own_bare = bare_of(full);
        let (to, mut scratch) = (element.to(), Cow::Borrowed(""));
        let to = match self.address(full, to.as_deref(), &mut scratch) {
            Address::Own => JidRef::from_normalised(own_bare),
            Address::User(to) => to,
            Address::Server => return self.refuse(session, seq, element, StanzaCondition::ServiceUnavailable),
            Address::Remote => return self.refuse(session, seq, element, StanzaCondition::RemoteServerNotFound),
            Address::Malformed => return self.refuse(session, seq, element, StanzaCondition::JidMalformed),
        };
        let kept = match class {
            MessageClass::Normal | MessageClass::Chat => {
                let children = element.children().map(|c| (c.namespace(), c.name()));
                keep(element.kind().as_deref().unwrap_or_default(), children)
            }
            MessageClass::Headline | MessageClass::Groupchat | MessageClass::Error => Keep::Nothing,
        };
        if kept != Keep::Nothing && self.storage == StorageState::Full {
            return self.refuse(session, seq, element, Limit::Disk);
        }
        let home = self.home(to.bare().as_str());
        let logged = kept == Keep::Archive && self.settings.archive;
        let entry = if logged { self.next_number() } else { 0 };
        let origin = self.sent_off(session, seq, element.bytes().len()).map(|origin| Origin { entry, ..origin });
        // A stanza-id by the receiver can only come from the receiver's server (XEP-0359 3).
        let forged = forged_stanza_ids(element, to.bare().as_str());
        let lang = self.lang(session);
        let mail = self.mail_to(home);
        let xml = mail.write_with(|out| {
            let to = Some(Some(to.as_str()));
            let how = Splice { from: Some(full), to, lang: lang.as_deref(), drop: &forged, ..Splice::default() };
            splice(out, element, &how);
        });
        let (from, to_span) = (mail.name(full), mail.name(to.as_str()));
        mail.push(Letter::Stanza { kind: Kind::Message { class, keep: kept }, origin, from, to: to_span, xml });
        if logged {
            let (xml, time_ms) = (self.mail[home.index()].bytes(xml), self.now.wall_us / 1_000);
            let sent = Entry { incoming: false, waits: false, time_ms, peer: to.as_str(), xml };
            sent.put(&mut self.writes, own_bare, entry);
        }
    }

    /// The language that a session's stanzas inherit from their stream, if it has to be said (RFC 6120 8.1.5).
    pub(super) fn lang(&self, session: SessionId) -> Option<Box<str>> {
        self.sessions.get(session)?.lang.as_deref().cloned()
    }

    /// Puts a stanza for a user's home into this turn's mail.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn post(
        &mut self,
        home: ShardId,
        kind: Kind,
        origin: Option<Origin>,
        from: &str,
        to: &str,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let mail = self.mail_to(home);
        let xml = mail.write_with(write);
        let (from, to) = (mail.name(from), mail.name(to));
        mail.push(Letter::Stanza { kind, origin, from, to, xml });
    }

    /// Sends an error stanza to whom a stanza of this domain came from.
    pub(super) fn send_error_letter(&mut self, name: &str, id: Option<&str>, from: &str, to: &str, refusal: Refusal) {
        let kind = match name {
            "message" => Kind::Message { class: MessageClass::Error, keep: Keep::Nothing },
            "iq" => Kind::Response,
            _ => Kind::Directed { unavailable: false },
        };
        let home = self.home(bare_of(to));
        self.post(home, kind, None, from, to, |out| write_error(out, name, id, Some(from), Some(to), refusal));
    }
}

/// The bare part of a normalised JID.
pub(super) fn bare_of(jid: &str) -> &str {
    jid.split_once('/').map_or(jid, |(bare, _)| bare)
}

/// The localpart of a normalised JID of the served domain.
pub(super) fn local_of(jid: &str) -> &str {
    jid.split_once('@').map_or("", |(local, _)| local)
}

fn forged_stanza_ids(element: &Element<'_>, by: &str) -> Vec<std::ops::Range<usize>> {
    let claims = |c: &crate::wire::Child<'_>| {
        c.is("stanza-id", ns::STANZA_ID) && c.attribute("by").is_some_and(|b| jid::normalise(&b).is_ok_and(|b| b == by))
    };
    element.children().filter(claims).map(|c| c.range()).collect()
}

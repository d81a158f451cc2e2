//! Resources: binding, stream management's enable and resume, and the end of a session, however it comes.

use std::fmt::Write as _;

use rand_core::RngCore;

use crate::id::{ConnId, SessionId};
use crate::io::Effect;
use crate::limits::BIND_RETRIES_MAX;
use crate::ns;
use crate::outbound::Unsent;
use crate::router::users::RosterStep;
use crate::session::conn::{Conn, ConnState, Opening, Owner};
use crate::session::sm::{Managed, TOKEN_BYTES};
use crate::session::table::{Privacy, Session};
use crate::settings::ResourceConflict;
use crate::shard::Shard;
use crate::shard::ended::Ended;
use crate::shard::login::SM_UNEXPECTED;
use crate::watch::trace::News;
use crate::wire::error::{AppCondition, StanzaCondition, StreamCondition};
use crate::wire::limit::{Limit, Refusal};
use crate::wire::text::Writer;
use crate::wire::{Element, jid};

/// A `previd` (XEP-0198 5): the session's slot and generation, and its secret.
fn write_previd(id: SessionId, token: &[u8; TOKEN_BYTES]) -> String {
    let mut text = format!("{:x}-{:x}-", id.slot, id.generation);
    for byte in token {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn parse_previd(text: &str) -> Option<(SessionId, [u8; TOKEN_BYTES])> {
    let mut parts = text.split('-');
    let slot = u32::from_str_radix(parts.next()?, 16).ok()?;
    let generation = u32::from_str_radix(parts.next()?, 16).ok()?;
    let hex = parts.next().filter(|h| h.len() == 2 * TOKEN_BYTES && h.is_ascii())?;
    let mut token = [0u8; TOKEN_BYTES];
    for (byte, pair) in token.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    parts.next().is_none().then_some((SessionId { slot, generation }, token))
}

impl Shard {
    /// 20 digits that cannot be guessed.
    pub(super) fn random_name(&mut self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut bytes = [0u8; 10];
        self.entropy.fill_bytes(&mut bytes);
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
    }

    /// What an authenticated client without a resource sends: `<bind/>` or `<resume/>`.
    /// The account has to be there as it was when the client authenticated: it may have been removed since, and another made.
    pub(super) fn expect_bind(&mut self, conn: ConnId, owner: &Owner, element: &Element<'_>) {
        let claims = element.is("iq", ns::CLIENT) || element.is("resume", ns::SM);
        match claims.then(|| self.is_there(conn, owner)) {
            Some(Some(true)) | None => {}
            Some(Some(false)) => return self.fail_removed(conn),
            Some(None) => return,
        }
        let local = &*owner.local;
        if element.is("iq", ns::CLIENT) {
            let request = element.child("bind", ns::BIND).filter(|_| element.kind().as_deref() == Some("set"));
            return match request {
                Some(bind) => {
                    let wanted = bind_resource(bind.cursor());
                    self.bind(conn, local, element, wanted);
                }
                // RFC 6120 7.1: nothing else is allowed before a resource is bound.
                None => self.fail_stream(conn, StreamCondition::NotAuthorized, Some("bind a resource first")),
            };
        }
        if element.is("resume", ns::SM) {
            if self.early_request(conn) {
                self.resume(conn, local, element);
            }
            return;
        }
        if element.is("enable", ns::SM) {
            if self.early_request(conn) {
                self.send_bytes(conn, SM_UNEXPECTED);
            }
            return;
        }
        self.fail_stream(conn, StreamCondition::NotAuthorized, Some("bind a resource first"));
    }

    fn bind(&mut self, conn: ConnId, local: &str, iq: &Element<'_>, wanted: Option<String>) {
        let resource = match wanted.as_deref().filter(|w| !w.is_empty()) {
            None => self.random_name().into_boxed_str(),
            Some(wanted) => match jid::normalise_resource(wanted) {
                Ok(resource) => resource.into(),
                Err(_) => return self.refuse_bind(conn, iq, StanzaCondition::BadRequest),
            },
        };
        let user = self.users.find_or_insert(local);
        let same = self.users.sessions(&self.sessions, user).find(|(_, s)| s.resource == resource).map(|(id, _)| id);
        match (same, self.settings.resource_conflict) {
            (Some(_), ResourceConflict::RefuseNew) => return self.refuse_bind(conn, iq, StanzaCondition::Conflict),
            (Some(old), ResourceConflict::ReplaceOld) => self.replace_session(old),
            (None, _) => {}
        }
        // The end of the old session may have been the end of the user's entry, too.
        let user = self.users.find_or_insert(local);
        if self.users.sessions(&self.sessions, user).count() >= usize::from(self.settings.sessions_per_user_max) {
            let bare = self.bare(local);
            self.limited(Limit::Sessions.into(), |_| bare);
            return self.refuse_bind(conn, iq, Limit::Sessions);
        }
        let now_s = self.now.mono_s();
        let Some(slot) = self.conns.get(conn) else { return };
        let Some(opening) = slot.opening() else { return };
        let mut session = Session::new(user, resource, conn, privacy(opening));
        take_over(&mut session, opening, now_s);
        let id = self.sessions.insert(session);
        self.users.link(&mut self.sessions, id);
        self.conns.set_state(conn, ConnState::Bound(id));
        self.effects.push(Effect::Favour { conn });
        if self.watch.is_some() {
            self.watch_news(id, News::Bound);
        }
        // Presence comes next, and then all that it leads to leaves as one send, with the answers to what came with it.
        self.read_roster_ahead(user);
        let full = self.full_jid(id);
        let request_id = iq.id();
        self.send_with(conn, |out| {
            let mut w = Writer::new(out);
            w.open("iq").attribute("type", "result").attribute_if("id", request_id.as_deref());
            w.open("bind").attribute("xmlns", ns::BIND).leaf("jid", &full).close().close();
        });
        self.hold_beginning(conn);
    }

    /// The client may ask for another resource, but not for ever (RFC 6120 7.7.3).
    fn refuse_bind(&mut self, conn: ConnId, iq: &Element<'_>, refusal: impl Into<Refusal>) {
        let (id, refusal) = (iq.id(), refusal.into());
        self.send_with(conn, |out| super::stanza::write_error(out, "iq", id.as_deref(), None, None, refusal));
        let Some(slot) = self.conns.get(conn) else { return };
        let Some(opening) = slot.opening() else { return };
        opening.attempts = opening.attempts.saturating_add(1);
        if opening.attempts > BIND_RETRIES_MAX {
            self.fail_stream(conn, StreamCondition::PolicyViolation, Some("too many resources refused"));
        }
    }

    /// Ends a session because its resource is bound anew (RFC 6120 7.7.2.2).
    fn replace_session(&mut self, old: SessionId) {
        self.end_session_with(old, Ended::Replaced, StreamCondition::Conflict, "the resource was bound again");
        // The new one has the same name: contacts are to hear of its coming after they have heard of the other's going.
        self.carry_out_endings();
        // It may have been about to lose its connection, and to wait.
        self.end_session(old, Vec::new(), None);
    }

    /// The full JID of a session.
    pub(super) fn full_jid(&self, id: SessionId) -> String {
        let session = self.sessions.slot(id.slot);
        let local = &self.users.get(session.user).local;
        [local, "@", &*self.settings.domain, "/", &*session.resource].concat()
    }

    /// `<enable/>` (XEP-0198 3).
    pub(super) fn enable_management(&mut self, conn: ConnId, id: SessionId, element: &Element<'_>) {
        let resume = matches!(element.attribute("resume").as_deref(), Some("true" | "1"));
        let wanted = element.attribute("max").and_then(|m| m.parse::<u32>().ok());
        let longest = self.settings.resume_s_max;
        let resume_s = if resume { wanted.filter(|&w| w > 0).unwrap_or(longest).min(longest) } else { 0 };
        let mut token = [0u8; TOKEN_BYTES];
        self.entropy.fill_bytes(&mut token);
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.managed.is_some() {
            return self.send_bytes(conn, SM_UNEXPECTED);
        }
        session.managed = Some(Box::new(Managed::new(token, resume_s)));
        let previd = write_previd(id, &token);
        self.send_with(conn, |out| {
            let mut w = Writer::new(out);
            w.open("enabled").attribute("xmlns", ns::SM);
            if resume_s > 0 {
                w.attribute("resume", "true").attribute("id", &previd).attribute("max", &resume_s.to_string());
            }
            w.close();
        });
        self.hold_beginning(conn);
    }

    /// `<resume/>` (XEP-0198 5).
    fn resume(&mut self, conn: ConnId, local: &str, element: &Element<'_>) {
        let h = element.attribute("h").and_then(|h| h.parse::<u32>().ok());
        let previd = element.attribute("previd").unwrap_or_default();
        let found = parse_previd(&previd).and_then(|(id, token)| {
            let session = self.sessions.get(id)?;
            let managed = session.managed.as_ref()?;
            let own = &*self.users.get(session.user).local == local;
            (own && managed.resume_s > 0 && managed.token == token).then_some(id)
        });
        let (Some(id), Some(h)) = (found, h) else {
            return self.send_bytes(conn, SM_ITEM_NOT_FOUND);
        };
        // The old connection may not know yet that it is dead: the new one takes over (XEP-0198 5).
        if let Some(old) = self.sessions.set_conn(id, None) {
            let unsent = self.abandon(old);
            // Messages from before stream management was enabled are in no count: the session cannot go on as if they had come.
            if unsent.iter().any(|unsent| unsent.id != 0) {
                self.end_session(id, unsent, None);
                return self.not_resumed(conn);
            }
        }
        let now_s = self.now.mono_s();
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.since_s = now_s;
        let user = session.user;
        let Some(managed) = session.managed.as_mut() else { return };
        let acked = match managed.acknowledge(h) {
            Ok(acked) => acked,
            Err(fault) => return self.handled_too_high(conn, fault),
        };
        let under_way = managed.under_way() > 0;
        if let Some(earlier) = managed.waiting.replace(conn) {
            self.fail_stream(earlier, StreamCondition::Conflict, Some("the session was resumed elsewhere"));
        }
        if self.watch.is_some() {
            self.watch_acknowledged(id, h);
        }
        self.messages_received(user, id, &acked);
        if under_way {
            // The client sends again what <resumed/> does not count. What is under way has to be counted first, or it
            // would be sent a second time and both counts would part.
            return self.block(conn);
        }
        self.resume_goes_on(id);
    }

    /// All that had come from the session is in safe hands: the connection that waits for it takes over.
    pub(super) fn resume_goes_on(&mut self, id: SessionId) {
        let Some(managed) = self.sessions.get_mut(id).and_then(|s| s.managed.as_mut()) else { return };
        let Some(conn) = managed.waiting.take() else { return };
        // It may have gone while it waited; then the session waits on.
        if !matches!(self.conns.get(conn).map(|c| c.state()), Some(ConnState::Opening(_))) {
            return;
        }
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(managed) = session.managed.as_mut() else { return };
        managed.resumed();
        let handled = managed.handled();
        let previd = write_previd(id, &managed.token);
        let resend: Vec<u8> = managed.unacked().flat_map(|u| u.xml.iter().copied()).collect();
        let again = managed.unacked_len() as u32;
        self.sessions.set_conn(id, Some(conn));
        self.counters.resumed.one();
        if self.watch.is_some() {
            self.watch_news(id, News::Resumed(again));
        }
        self.send_with(conn, |out| {
            let mut w = Writer::new(out);
            w.open("resumed").attribute("xmlns", ns::SM).attribute("h", &handled.to_string());
            w.attribute("previd", &previd).close();
            out.extend_from_slice(&resend);
        });
        self.hold_beginning(conn);
        let now_s = self.now.mono_s();
        if let (Some(opening), Some(session)) =
            (self.conns.get(conn).and_then(Conn::opening), self.sessions.get_mut(id))
        {
            take_over(session, opening, now_s);
        }
        if self.conns.set_state(conn, ConnState::Bound(id)).is_some() {
            self.effects.push(Effect::Favour { conn });
        }
        self.unblock(conn);
    }

    /// Ends a connection whose session goes on with another one.
    fn abandon(&mut self, old: ConnId) -> Vec<Unsent> {
        let mut unsent = Vec::new();
        if let Some(outbound) = self.conns.get(old).and_then(|conn| conn.outbound.as_mut()) {
            // The rest is in the session's unacknowledged queue, which the new connection gets.
            let before = outbound.bytes();
            unsent = outbound.take_unsent();
            self.levels.outbound_bytes -= before - outbound.bytes();
        }
        self.conns.set_state(old, ConnState::Opening(Box::new(super::login::replaced())));
        self.fail_stream(old, StreamCondition::Conflict, Some("the session was resumed elsewhere"));
        unsent
    }

    /// The peer acknowledged more than was sent (XEP-0198 4).
    pub(super) fn handled_too_high(&mut self, conn: ConnId, fault: crate::session::sm::HandledTooHigh) {
        let app = AppCondition::HandledCountTooHigh { h: fault.h, send_count: fault.sent };
        self.fail_stream_with(conn, Ended::Protocol, StreamCondition::UndefinedCondition, None, Some(app));
    }

    /// A connection that wanted to resume a session may bind a resource instead (XEP-0198 5).
    pub(super) fn not_resumed(&mut self, conn: ConnId) {
        self.send_bytes(conn, SM_ITEM_NOT_FOUND);
        self.unblock(conn);
    }

    /// Takes a session out of all lists, with its full JID.
    pub(super) fn take_session(&mut self, id: SessionId) -> Option<(String, Session)> {
        self.sessions.get(id)?;
        if self.watch.is_some() {
            self.watch_news(id, News::Ended);
        }
        let full = self.full_jid(id);
        self.users.unlink(&mut self.sessions, id);
        let presence = self.sessions.set_presence(id, None);
        let mut session = self.sessions.remove(id)?;
        session.presence = presence;
        Some((full, session))
    }

    /// Those who knew that a session was there hear that it has gone.
    pub(super) fn session_gone(&mut self, user: u32, full: &str, session: &mut Session) {
        let directed = session.directed.take().map(|directed| *directed).unwrap_or_default();
        match session.presence.take() {
            Some(presence) => {
                self.presence_table.release(presence);
                self.note_logout(user, "");
                let xml = PRESENCE_GONE.into();
                let step = RosterStep::Withdraw { session: None, full: full.into(), xml, directed };
                self.roster_step(user, step);
            }
            None => self.withdraw_directed(full, PRESENCE_GONE, &directed),
        }
    }

    /// `<r/>` and `<a/>` of a bound session (XEP-0198 4).
    pub(super) fn management(&mut self, conn: ConnId, id: SessionId, element: &Element<'_>) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let user = session.user;
        let managed = session.managed.as_mut();
        match (element.name(), managed) {
            ("enable", _) => self.enable_management(conn, id, element),
            ("r", Some(managed)) => {
                managed.peer_asks();
                self.answer_management(id);
            }
            ("a", Some(managed)) => {
                let Some(h) = element.attribute("h").and_then(|h| h.parse().ok()) else {
                    return self.fail_stream(conn, StreamCondition::BadFormat, Some("<a/> without a number"));
                };
                match managed.acknowledge(h) {
                    Ok(acked) => {
                        if self.watch.is_some() {
                            self.watch_acknowledged(id, h);
                        }
                        self.messages_received(user, id, &acked);
                        // What was sent behind the request that this answers is asked for now: a session that is behind
                        // gets nothing more that a request could go with.
                        self.touch(conn);
                    }
                    Err(fault) => self.handled_too_high(conn, fault),
                }
            }
            _ => self.send_bytes(conn, SM_UNEXPECTED),
        }
    }

    /// Sends the `<a/>` that the peer waits for, if it is time.
    pub(super) fn answer_management(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(conn) = session.conn else { return };
        if let Some(h) = session.managed.as_mut().and_then(|m| m.poll_answer()) {
            self.send_bytes(conn, format!("<a xmlns='{}' h='{h}'/>", ns::SM).as_bytes());
        }
    }

    /// A stanza of an ended session that was no message: a request gets the error that it would have got without the
    /// session (XEP-0198 4, RFC 6121 8.5.3.2.3), which tells nothing of who was there (RFC 6120 8.3.3.13).
    pub(super) fn bounce_unreceived(&mut self, xml: &[u8]) {
        let mut scanner = crate::wire::Scanner::new();
        let scope = crate::wire::StreamScope::Usual;
        if xml.is_empty() || scanner.scan(&scope, crate::wire::Expect::Content, usize::MAX, xml).is_err() {
            return;
        }
        let element = scanner.element(&scope, xml);
        let (Some(from), Some(to)) = (element.from(), element.to()) else { return };
        if element.name() == "iq" && matches!(element.kind().as_deref(), Some("get" | "set")) {
            let id = element.id();
            self.send_error_letter("iq", id.as_deref(), &to, &from, StanzaCondition::ServiceUnavailable.into());
        }
    }
}

/// Unavailable presence without payload, unaddressed.
pub(super) const PRESENCE_GONE: &[u8] = b"<presence type='unavailable'/>";

const SM_ITEM_NOT_FOUND: &[u8] =
    b"<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";

fn privacy(opening: &Opening) -> Privacy {
    match opening.secured {
        true => Privacy::Encrypted,
        false if super::login::is_private(opening) => Privacy::Trusted,
        false => Privacy::Open,
    }
}

/// What a session takes from the stream that is now its own.
fn take_over(session: &mut Session, opening: &mut Opening, now_s: u32) {
    session.since_s = now_s;
    session.privacy = privacy(opening);
    session.lang = opening.lang.take().map(Box::new);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previd_reads_back_xep0198_3() {
        let id = SessionId { slot: 77, generation: 3 };
        let token = [0xab; TOKEN_BYTES];
        assert_eq!(parse_previd(&write_previd(id, &token)), Some((id, token)));
        for bad in ["", "1", "1-2", "1-2-abc", "x-y-z", &format!("{}-1", write_previd(id, &token))] {
            assert_eq!(parse_previd(bad), None, "{bad}");
        }
    }
}

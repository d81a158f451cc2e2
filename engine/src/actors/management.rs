//! Stream management of a session (XEP-0198): enable, resume, and acknowledgements; and the turn's output.

use std::fmt::Write as _;

use rand_core::RngCore;

use crate::actors::Actors;
use crate::id::{ConnId, SessionId};
use crate::io::Effect;
use crate::ns;
use crate::session::conn::{Conn, ConnState, Opening};
use crate::session::sm::{Managed, TOKEN_BYTES};
use crate::session::table::{Privacy, Session};
use crate::streams::opening::{SM_UNEXPECTED, is_private};
use crate::watch::trace::News;
use crate::wire::Element;
use crate::wire::text::Writer;

pub(crate) const SM_ITEM_NOT_FOUND: &[u8] =
    b"<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";

/// A `previd` (XEP-0198 5): the session's slot and generation, and its secret.
fn write_previd(id: SessionId, token: &[u8; TOKEN_BYTES]) -> String {
    let mut text = format!("{:x}-{:x}-", id.slot, id.generation);
    for byte in token {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

pub(crate) fn parse_previd(text: &str) -> Option<(SessionId, [u8; TOKEN_BYTES])> {
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

impl Actors {
    /// `<enable/>` (XEP-0198 3).
    pub(crate) fn enable_management(&mut self, conn: ConnId, id: SessionId, element: &Element<'_>) {
        let resume = matches!(element.attribute("resume").as_deref(), Some("true" | "1"));
        let wanted = element.attribute("max").and_then(|m| m.parse::<u32>().ok());
        let longest = self.settings.resume_s_max;
        let resume_s = if resume { wanted.filter(|&w| w > 0).unwrap_or(longest).min(longest) } else { 0 };
        let mut token = [0u8; TOKEN_BYTES];
        self.entropy.fill_bytes(&mut token);
        let session = self.sessions.heard(id);
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

    /// All that had come from the session is in safe hands: the connection that waits for it takes over.
    pub(crate) fn resume_goes_on(&mut self, id: SessionId) {
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
        let Actors { streams, sessions, .. } = self;
        if let (Some(opening), Some(session)) = (streams.conns.get(conn).and_then(Conn::opening), sessions.get_mut(id))
        {
            take_over(session, opening, now_s);
        }
        if self.conns.set_state(conn, ConnState::Bound(id)).is_some() {
            self.effects.push(Effect::Favour { conn });
        }
        self.resumed(id);
        self.unblock(conn);
    }

    /// Sends the `<a/>` that the peer waits for, if it is time.
    pub(crate) fn answer_management(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let Some(conn) = session.conn else { return };
        if let Some(h) = session.managed.as_mut().and_then(|m| m.poll_answer()) {
            self.send_bytes(conn, format!("<a xmlns='{}' h='{h}'/>", ns::SM).as_bytes());
        }
    }

    /// A connection that wanted to resume a session may bind a resource instead (XEP-0198 5).
    pub(crate) fn not_resumed(&mut self, conn: ConnId) {
        self.send_bytes(conn, SM_ITEM_NOT_FOUND);
        self.unblock(conn);
    }

    /// Whether a managed session has something to ask an acknowledgement for, and asks with this turn's output.
    fn request_acks(&mut self) {
        for index in 0..self.dirty.len() {
            let id = self.conns.id(self.dirty[index]);
            let Some(session) = self.session_of(id) else { continue };
            let managed = self.sessions.get_mut(session).and_then(|s| s.managed.as_mut());
            if managed.is_some_and(|m| m.poll_request()) {
                self.send_bytes(id, b"<r xmlns='urn:xmpp:sm:3'/>");
            }
        }
    }

    pub(crate) fn flush_one(&mut self, id: ConnId) {
        let now_s = self.now.mono_s();
        let Some(conn) = self.conns.get(id) else { return };
        if let Some(bytes) = conn.outbound.as_mut().and_then(|o| o.take(now_s)) {
            let durable = !matches!(conn.state(), ConnState::Opening(o) if o.is_promised_nothing());
            self.counters.bytes_out.add(bytes.len() as u64);
            self.effects.push(Effect::Send { conn: id, bytes, durable });
            if self.watch.is_some() {
                self.watch_sending(id);
            }
        }
    }

    /// One send a connection a turn.
    pub(crate) fn flush_outbound(&mut self) {
        self.request_acks();
        let mut dirty = std::mem::take(&mut self.dirty);
        for slot in dirty.drain(..) {
            let id = self.conns.id(slot);
            let Some(conn) = self.conns.slot(slot) else { continue };
            conn.dirty = false;
            self.flush_one(id);
        }
        self.dirty = dirty;
    }
}

pub(crate) fn privacy(opening: &Opening) -> Privacy {
    match opening.secured {
        true => Privacy::Encrypted,
        false if is_private(opening) => Privacy::Trusted,
        false => Privacy::Open,
    }
}

/// What a session takes from the stream that is now its own.
pub(crate) fn take_over(session: &mut Session, opening: &mut Opening, now_s: u32) {
    session.since_s = now_s;
    session.privacy = privacy(opening);
    let lang = opening.lang.take();
    if lang.is_some() || session.extra.is_some() {
        session.extra.get_or_insert_default().lang = lang;
        session.trim();
    }
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

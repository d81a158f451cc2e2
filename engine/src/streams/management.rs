//! Stream management of a session (XEP-0198): enable, resume and acknowledgements. Also the output
//! of a turn.
//!
//! An inbound stanza counts as handled only when it is safe: durable, or delivered (XEP-0198 4).

use std::fmt::Write as _;

use rand_core::RngCore;

use crate::id::{ConnId, SessionId};
use crate::io::Effect;
use crate::ns;
use crate::session::conn::ConnState;
use crate::session::inline::Enable;
use crate::session::sm::{Managed, Rows, TOKEN_BYTES};
use crate::store::sessions::Key;
use crate::streams::Streams;
use crate::streams::half::{Takes, Up};
use crate::streams::opening::SM_UNEXPECTED;
use crate::web::framed::framed;
use crate::wire::Element;
use crate::wire::error::StreamCondition;
use crate::wire::text::Writer;

pub(crate) const SM_ITEM_NOT_FOUND: &[u8] =
    b"<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>";

/// Writes a `previd` (XEP-0198 5): the secret of a session. It belongs to the session's account for
/// as long as the session may be resumed, across restarts.
fn write_previd(token: &[u8; TOKEN_BYTES]) -> String {
    let mut text = String::with_capacity(2 * TOKEN_BYTES);
    for byte in token {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

pub(crate) fn parse_previd(text: &str) -> Option<[u8; TOKEN_BYTES]> {
    let hex = text.as_bytes();
    if hex.len() != 2 * TOKEN_BYTES || !hex.iter().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut token = [0u8; TOKEN_BYTES];
    for (byte, pair) in token.iter_mut().zip(hex.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(token)
}

impl Streams {
    /// Handles `<enable/>` (XEP-0198 3).
    pub(crate) fn enable_management(&mut self, conn: ConnId, id: SessionId, element: &Element<'_>) {
        let enabled = self.manage(id, Enable::read(|name| element.attribute(name)));
        self.send_bytes(conn, enabled.as_deref().unwrap_or(SM_UNEXPECTED));
        self.hold_beginning(conn);
    }

    /// Starts counting the stanzas of a session and returns `<enabled/>`, or `None` if they were
    /// counted already.
    pub(crate) fn manage(&mut self, id: SessionId, enable: Enable) -> Option<Vec<u8>> {
        let longest = self.kernel.settings.resume_s_max;
        let resume_s =
            if enable.resume { enable.max.filter(|&max| max > 0).unwrap_or(longest).min(longest) } else { 0 };
        let mut token = [0u8; TOKEN_BYTES];
        self.kernel.entropy.fill_bytes(&mut token);
        let stored = resume_s > 0 && self.kernel.settings.archive;
        let half = self.halves.get_mut(id).filter(|half| half.managed.is_none())?;
        let mut managed = Managed::new(token, resume_s);
        if stored {
            managed.tag = Key::of(&token).tag();
        }
        half.managed = Some(Box::new(managed));
        self.rows_due(id, Rows::Soon);
        let mut out = Vec::with_capacity(128);
        let mut w = Writer::new(&mut out);
        w.open("enabled").attribute("xmlns", ns::SM);
        if resume_s > 0 {
            let previd = write_previd(&token);
            w.attribute("resume", "true").attribute("id", &previd).attribute("max", &resume_s.to_string());
        }
        w.close();
        Some(out)
    }

    /// A connection asks to resume a session. Returns whether it must wait because earlier stanzas
    /// of the client are still in flight. The client repeats every stanza that `<resumed/>` does
    /// not count. Stanzas in flight must therefore be counted first; otherwise they would be sent
    /// twice and the counts of both sides would diverge.
    pub(crate) fn wait_to_resume(&mut self, id: SessionId, conn: ConnId) -> bool {
        let Some(managed) = self.halves.managed_mut(id) else { return false };
        let under_way = managed.under_way() > 0;
        if let Some(earlier) = managed.waiting.replace(conn) {
            self.fail_stream(earlier, StreamCondition::Conflict, Some("the session was resumed elsewhere"));
        }
        under_way
    }

    /// All stanzas received from the session are safe: the connection that waits to resume it takes
    /// over.
    pub(crate) fn resume_goes_on(&mut self, id: SessionId) {
        let now_s = self.kernel.now.mono_s();
        let Some(half) = self.halves.get_mut(id) else { return };
        let Some(managed) = half.managed.as_mut() else { return };
        let Some(conn) = managed.waiting.take() else { return };
        // The connection may have closed while it waited; the session then keeps waiting.
        let Some(opening) = self.conns.get(conn).and_then(|conn| conn.opening()) else { return };
        let takes = Takes::of(opening);
        let (before, behind) = opening.inline.take().map(|inline| inline.around).unwrap_or_default();
        managed.resumed();
        half.since_s = now_s;
        let handled = managed.handled();
        let previd = write_previd(&managed.token);
        let resend: Vec<u8> = managed.unacked().flat_map(|u| u.xml.iter().copied()).collect();
        let again = managed.unacked_len() as u32;
        self.halves.set_conn(id, Some(conn));
        self.kernel.counters.resumed.one();
        self.rows_due(id, Rows::Counts);
        self.send_with(conn, |out| {
            out.extend_from_slice(&before);
            let mut w = Writer::new(out);
            w.open("resumed").attribute("xmlns", ns::SM).attribute("h", &handled.to_string());
            w.attribute("previd", &previd).close();
            out.extend_from_slice(&behind);
            out.extend_from_slice(&resend);
        });
        self.hold_beginning(conn);
        if self.conns.set_state(conn, ConnState::Bound(id)).is_some() {
            self.favour(conn);
        }
        self.up.push_back(Up::Resumed { session: id, takes, again });
        self.unblock(conn);
    }

    /// The stanza with this inbound number is safe.
    pub(crate) fn safe(&mut self, id: SessionId, seq: u32) {
        let Some(managed) = self.halves.managed_mut(id) else { return };
        managed.done(seq);
        if managed.under_way() == 0 && managed.waiting.is_some() {
            return self.resume_goes_on(id);
        }
        self.answer_management(id);
    }

    /// Handles `<r/>` (XEP-0198 4), which is answered when all earlier stanzas are safe. Returns
    /// whether the session has stream management.
    pub(crate) fn peer_asks(&mut self, id: SessionId) -> bool {
        let Some(managed) = self.halves.managed_mut(id) else { return false };
        managed.peer_asks();
        self.answer_management(id);
        true
    }

    /// Sends the `<a/>` that the peer waits for, if it is due.
    fn answer_management(&mut self, id: SessionId) {
        let Some(half) = self.halves.get_mut(id) else { return };
        let Some(conn) = half.conn() else { return };
        if let Some(h) = half.managed.as_mut().and_then(|m| m.poll_answer()) {
            // A count that was sent must be reproducible after a crash.
            if half.managed.as_ref().is_some_and(|m| m.is_unproved()) {
                self.rows_due(id, Rows::Counts);
            }
            self.send_bytes(conn, format!("<a xmlns='{}' h='{h}'/>", ns::SM).as_bytes());
        }
    }

    /// A connection that failed to resume a session may bind a resource instead (XEP-0198 5).
    pub(crate) fn not_resumed(&mut self, conn: ConnId) {
        if let Some(inline) = self.opening(conn).and_then(|opening| opening.inline.as_mut()) {
            inline.not_resumed = true;
            return self.up.push_back(Up::Inline(conn));
        }
        self.send_bytes(conn, SM_ITEM_NOT_FOUND);
        self.unblock(conn);
    }

    /// Requests acknowledgements with this turn's output from managed sessions that need one.
    fn request_acks(&mut self) {
        for index in 0..self.dirty.len() {
            self.request_ack(self.conns.id(self.dirty[index]));
        }
    }

    /// Requests an acknowledgement from the session behind one connection.
    pub(in crate::streams) fn request_ack(&mut self, id: ConnId) {
        let Some(session) = self.session_of(id) else { return };
        let managed = self.halves.managed_mut(session);
        if managed.is_some_and(|m| m.poll_request()) {
            self.send_bytes(id, b"<r xmlns='urn:xmpp:sm:3'/>");
        }
    }

    /// Starts a send of a connection's pending output, unless one is in flight. Returns whether it
    /// did.
    pub(crate) fn flush(&mut self, id: ConnId) -> bool {
        let now_s = self.kernel.now.mono_s();
        // A connection without a socket sends only when it is asked.
        let Some(conn) = self.conns.get(id).filter(|_| id.has_socket()) else { return false };
        let Some(bytes) = conn.outbound.as_mut().and_then(|o| o.take(now_s)) else { return false };
        let bytes = if conn.transport().is_framed() { framed(&bytes) } else { bytes };
        let durable = !matches!(conn.state(), ConnState::Opening(o) if o.is_promised_nothing());
        self.kernel.counters.bytes_out.add(bytes.len() as u64);
        self.kernel.effects.push(Effect::Send { conn: id, bytes, durable });
        true
    }

    /// Ends a turn: starts one send for each connection with pending output, and passes each to
    /// `named`.
    pub(crate) fn flush_all(&mut self, mut named: impl FnMut(ConnId)) {
        self.request_acks();
        let mut dirty = std::mem::take(&mut self.dirty);
        for slot in dirty.drain(..) {
            let id = self.conns.id(slot);
            let Some(conn) = self.conns.slot(slot) else { continue };
            conn.dirty = false;
            if self.flush(id) {
                named(id);
            }
        }
        self.dirty = dirty;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn previd_reads_back_xep0198_3() {
        let token = [0xab; TOKEN_BYTES];
        assert_eq!(parse_previd(&write_previd(&token)), Some(token));
        for bad in ["", "1", "1-2-abc", "0-0-00000000000000000000000000000000", "+f+f+f+f+f+f+f+f+f+f+f+f+f+f+f+f"] {
            assert_eq!(parse_previd(bad), None, "{bad}");
        }
    }
}

//! Bytes of one connection to items, and output to bytes: the outbound buffer and its bounds.

use std::net::IpAddr;

use crate::id::ConnId;
use crate::io::{Effect, ListenerKind, TlsFacts};
use crate::limits;
use crate::session::conn::{Conn, ConnState, NONE, Opening, Partial, Pause, Stage, StreamExpect};
use crate::shard::Shard;
use crate::shard::ended::Ended;
use crate::shard::login::SERVER_LANG;
use crate::wire::error::StreamCondition;
use crate::wire::{Element, Progress, stream};

/// Outbound buffers kept for reuse.
const OUTBOUND_POOL_MAX: usize = 1024;

impl Shard {
    pub(super) fn accepted(&mut self, id: ConnId, listener: ListenerKind, peer: IpAddr) {
        self.counters.accepted.one();
        let (now_s, stage) =
            (self.now.mono_s(), if listener.direct_tls { Stage::ExpectHandshake } else { Stage::ExpectHeader });
        self.conns.insert(id, Opening::new(listener, peer, now_s, stage), now_s);
        if self.shutting_down {
            self.fail_stream(id, StreamCondition::SystemShutdown, None);
        }
    }

    /// Whose the connection is: attempts to log in count for this address.
    pub(super) fn client(&mut self, id: ConnId, peer: IpAddr) {
        if let Some(opening) = self.conns.get(id).and_then(Conn::opening) {
            opening.peer = peer;
        }
    }

    pub(super) fn secured(&mut self, id: ConnId, tls: Box<TlsFacts>) {
        let Some(conn) = self.conns.get(id) else { return };
        conn.expect = StreamExpect::Opening;
        conn.header_sent = false;
        conn.partial = None;
        if let Some(opening) = conn.opening() {
            opening.secured = true;
            opening.tls = Some(tls);
            self.conns.set_stage(id, Stage::ExpectHeader);
        }
    }

    /// Bytes came: takes item after item off them and keeps what is left of an unfinished one.
    pub(super) fn received(&mut self, id: ConnId, input: &[u8]) {
        self.counters.bytes_in.add(input.len() as u64);
        let now_s = self.now.mono_s();
        let Some(conn) = self.conns.get(id) else { return };
        if conn.ending || matches!(conn.state(), ConnState::Closing { .. } | ConnState::Departing) {
            return;
        }
        conn.last_s = now_s;
        conn.pinged = false;
        let Some(partial) = conn.partial.take() else {
            let scanner = std::mem::take(&mut self.scanner);
            let (scanner, used) = self.scan_items(id, scanner, input);
            self.keep_rest(id, scanner, input, used);
            return;
        };
        let Partial { mut bytes, scanner } = *partial;
        bytes.extend_from_slice(input);
        let (scanner, used) = self.scan_items(id, scanner, &bytes);
        if used == 0 {
            if let Some(conn) = self.conns.get(id).filter(|c| !matches!(c.state(), ConnState::Closing { .. })) {
                conn.partial = Some(Box::new(Partial { bytes, scanner }));
            }
        } else {
            self.keep_rest(id, scanner, &bytes, used);
        }
    }

    fn keep_rest(&mut self, id: ConnId, scanner: crate::wire::Scanner, bytes: &[u8], used: usize) {
        let rest = &bytes[used..];
        match self.conns.get(id) {
            Some(conn)
                if !rest.is_empty() && !matches!(conn.state(), ConnState::Closing { .. } | ConnState::Departing) =>
            {
                conn.partial = Some(Box::new(Partial { bytes: rest.to_vec(), scanner }));
            }
            _ => {
                self.scanner = scanner;
                self.scanner.reset();
            }
        }
    }

    /// Whether nothing of the connection is looked at: it is to end, what it asked for waits to be taken by it, or an answer
    /// from elsewhere decides what comes next.
    fn is_blocked(conn: &Conn) -> bool {
        conn.ending
            || conn.is_paused(Pause::Output)
            || match conn.state() {
                ConnState::Opening(opening) => opening.blocked,
                ConnState::Bound(_) => false,
                _ => true,
            }
    }

    fn scan_items(
        &mut self,
        id: ConnId,
        mut scanner: crate::wire::Scanner,
        bytes: &[u8],
    ) -> (crate::wire::Scanner, usize) {
        let mut at = 0;
        while at < bytes.len() {
            let stanza_max = self.settings.stanza_bytes_max;
            let Some(conn) = self.conns.get(id).filter(|c| !Self::is_blocked(c)) else { break };
            let scope = conn.scope.clone();
            let expect = conn.expect;
            let max = match (expect, conn.state()) {
                (StreamExpect::Opening | StreamExpect::Header, _) => limits::wire::MAX_HEADER_BYTES,
                (StreamExpect::Content, ConnState::Opening(_)) => limits::PREAUTH_BYTES_MAX.min(stanza_max),
                (StreamExpect::Content, _) => stanza_max,
            };
            match scanner.scan(&scope, expect.into(), max, &bytes[at..]) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Whitespace { consumed }) => {
                    // An XML declaration can only be the very first (XML 1.0 2.8).
                    if expect == StreamExpect::Opening {
                        conn.expect = StreamExpect::Header;
                    }
                    at += consumed;
                }
                Ok(Progress::Declaration { consumed }) => {
                    conn.expect = StreamExpect::Header;
                    at += consumed;
                }
                Ok(Progress::StreamEnd { .. }) => {
                    self.end_stream(id, Ended::Client);
                    return (scanner, bytes.len());
                }
                Ok(Progress::Header { consumed }) => {
                    let item = &bytes[at..at + consumed];
                    self.header(id, &scanner.element(&crate::wire::StreamScope::None, item));
                    at += consumed;
                }
                Ok(Progress::Element { consumed }) => {
                    let item = &bytes[at..at + consumed];
                    at += consumed;
                    self.element(id, &scanner.element(&scope, item), &bytes[at..]);
                    if matches!(self.conns.get(id), Some(c) if matches!(c.state(), ConnState::Departing)) {
                        return (scanner, bytes.len());
                    }
                    if let Some(opening) = self.opening(id)
                        && std::mem::take(&mut opening.again)
                    {
                        at -= consumed;
                    }
                    // Many requests fit into one read, and each is answered: who does not take the answers waits with the rest.
                    if self.is_heavy(id) && self.conns.pause(id, Pause::Output) {
                        self.effects.push(Effect::Pause { conn: id });
                    }
                }
                Err(fault) => {
                    let condition =
                        StreamCondition::from_name(fault.condition()).unwrap_or(StreamCondition::NotWellFormed);
                    self.fail_stream(id, condition, Some(fault.describe()));
                    return (scanner, bytes.len());
                }
            }
            scanner.reset();
        }
        (scanner, at)
    }

    fn header(&mut self, id: ConnId, element: &Element<'_>) {
        let Some(conn) = self.conns.get(id) else { return };
        let header = match stream::read_header(element) {
            Ok(header) => header,
            Err(fault) => {
                let condition = StreamCondition::from_name(fault.condition()).unwrap_or(StreamCondition::BadFormat);
                // RFC 6120 4.9.1.2: the error stands inside of a stream that answers the peer's header as it was.
                conn.header_sent = true;
                let (stream_id, peer) = (self.random_name(), element.from());
                let (to, version) = (peer.as_deref().map(stream::bare), Some(stream::Version::XMPP_1_0));
                let from = self.settings.domain.clone();
                let answer = stream::Response { id: &stream_id, from: &from, to, version, lang: SERVER_LANG };
                self.send_with(id, |out| stream::write_header(out, &answer));
                return self.fail_stream(id, condition, fault.text());
            }
        };
        conn.scope = crate::wire::StreamScope::of_header(element);
        conn.expect = StreamExpect::Content;
        self.stream_opened(id, &header);
    }

    fn element(&mut self, id: ConnId, element: &Element<'_>, behind: &[u8]) {
        let Some(conn) = self.conns.get(id) else { return };
        match *conn.state() {
            ConnState::Bound(session) => self.from_session(id, session, element),
            ConnState::Opening(_) => self.from_opening(id, element, behind),
            ConnState::Free | ConnState::Closing { .. } | ConnState::Departing => {}
        }
    }

    /// Goes on with what was kept while the connection was blocked.
    pub(super) fn unblock(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        if let Some(opening) = conn.opening() {
            opening.blocked = false;
        }
        let left = conn.partial.is_some();
        if self.conns.resume(id, Pause::Answer) {
            self.effects.push(Effect::Resume { conn: id, durable: false });
        }
        if left {
            self.received(id, b"");
        }
    }

    /// Goes on with what was kept while a connection did not take what it had asked for.
    fn drained(&mut self, id: ConnId) {
        if self.is_heavy(id) {
            return;
        }
        let Some(conn) = self.conns.get(id).filter(|conn| conn.is_paused(Pause::Output)) else { return };
        let left = conn.partial.is_some();
        if self.conns.resume(id, Pause::Output) {
            self.effects.push(Effect::Resume { conn: id, durable: true });
        }
        if left {
            self.received(id, b"");
        }
    }

    /// Looks at nothing more from the connection until [`Shard::unblock`].
    pub(super) fn block(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        if let Some(opening) = conn.opening() {
            opening.blocked = true;
        }
        if self.conns.pause(id, Pause::Answer) {
            self.effects.push(Effect::Pause { conn: id });
        }
    }

    // Output.

    /// Appends bytes to what goes to a connection.
    pub(super) fn send_bytes(&mut self, id: ConnId, bytes: &[u8]) {
        self.send_with(id, |out| out.extend_from_slice(bytes));
    }

    /// Looks at a connection when the turn ends: whether there is something to send, or an acknowledgement to ask for.
    pub(super) fn touch(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.get(id).filter(|conn| !conn.dirty) {
            conn.dirty = true;
            self.dirty.push(id.slot);
        }
    }

    /// Appends what `fill` writes to what goes to a connection.
    pub(super) fn send_with(&mut self, id: ConnId, fill: impl FnOnce(&mut Vec<u8>)) {
        self.touch(id);
        let Some(conn) = self.conns.get(id) else { return };
        let pool = &mut self.outbound_pool;
        let outbound = conn.outbound.get_or_insert_with(|| pool.pop().unwrap_or_default());
        let before = outbound.buffer().len();
        fill(outbound.buffer());
        self.levels.outbound_bytes += outbound.buffer().len() - before;
    }

    /// Nothing urgent goes ahead of what waits for the connection now.
    pub(super) fn hold_beginning(&mut self, id: ConnId) {
        if let Some(outbound) = self.conns.get(id).and_then(|c| c.outbound.as_mut()) {
            outbound.hold();
        }
    }

    /// Notes that what was appended last is a stanza that stream management counts.
    pub(super) fn count_stanza(&mut self, id: ConnId) {
        if let Some(outbound) = self.conns.get(id).and_then(|c| c.outbound.as_mut()) {
            outbound.count();
        }
    }

    /// Puts a stanza ahead of what waits for a connection; how many counted stanzas it has overtaken.
    pub(super) fn send_first(&mut self, id: ConnId, xml: &[u8]) -> usize {
        self.send_with(id, |_| {});
        let Some(outbound) = self.conns.get(id).and_then(|c| c.outbound.as_mut()) else { return 0 };
        self.levels.outbound_bytes += xml.len();
        outbound.put_first(xml)
    }

    /// Sends a message and keeps book of it until it is with the kernel.
    pub(super) fn send_message(&mut self, id: ConnId, archive_id: u64, xml: &[u8]) {
        self.send_bytes(id, xml);
        if let Some(outbound) = self.conns.get(id).and_then(|c| c.outbound.as_mut()) {
            outbound.note(archive_id, xml.len());
        }
    }

    /// Whether more waits for the connection than it should have unread.
    pub(super) fn is_heavy(&self, id: ConnId) -> bool {
        self.conns.outbound_bytes(id) > self.settings.outbound_bytes_soft
    }

    fn flush_one(&mut self, id: ConnId) {
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
    pub(super) fn flush_outbound(&mut self) {
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

    /// The peer, which had nothing to take before or has taken part of it, has its time again.
    pub(super) fn progressed(&mut self, id: ConnId) {
        let now_s = self.now.mono_s();
        if let Some(outbound) = self.conns.get(id).and_then(|conn| conn.outbound.as_mut()) {
            outbound.progressed(now_s);
        }
    }

    pub(super) fn sent(&mut self, id: ConnId) {
        if self.watch.is_some() {
            self.watch_sent(id);
        }
        let Some(conn) = self.conns.get(id) else { return };
        let Some(outbound) = conn.outbound.as_mut() else { return };
        let before = outbound.bytes();
        let was_behind = before > self.settings.outbound_bytes_soft;
        let mut ids = std::mem::take(&mut self.sent_ids);
        ids.extend(outbound.sent());
        self.levels.outbound_bytes -= before - outbound.bytes();
        let all_sent = outbound.is_empty();
        // Most sends carry no message and hold nothing up: then nobody's log is looked for.
        let (user, session) = match *conn.state() {
            _ if ids.is_empty() && !was_behind => (NONE, None),
            ConnState::Bound(session) => (self.sessions.get(session).map_or(NONE, |s| s.user), Some(session)),
            ConnState::Closing { user } => (user, None),
            _ => (NONE, None),
        };
        if all_sent {
            if let Some(outbound) = conn.outbound.take() {
                self.recycle(outbound);
            }
        } else {
            self.flush_one(id);
        }
        if user != NONE {
            self.messages_sent(user, session, &ids);
        }
        ids.clear();
        self.sent_ids = ids;
        if was_behind {
            self.drained(id);
        }
    }

    pub(super) fn recycle(&mut self, mut outbound: Box<crate::outbound::Outbound>) {
        if self.outbound_pool.len() < OUTBOUND_POOL_MAX {
            outbound.recycle();
            self.outbound_pool.push(outbound);
        }
    }
}

//! Bytes of one connection to items, and output to bytes: stream errors, closing, the outbound buffer and its bounds.

use std::net::IpAddr;

use crate::id::ConnId;
use crate::io::{Effect, ListenerKind, Lost, TlsFacts};
use crate::limits;
use crate::outbound::{Backlog, Unsent};
use crate::session::conn::{Conn, ConnState, NONE, Opening, Partial, Stage, StreamExpect};
use crate::shard::Shard;
use crate::shard::ended::Ended;
use crate::shard::login::SERVER_LANG;
use crate::wire::error::{AppCondition, StreamCondition};
use crate::wire::{Element, Progress, stream};

/// Outbound buffers kept for reuse.
const OUTBOUND_POOL_MAX: usize = 1024;

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The stream has ended without an error. The session ends, too; what is under way to the peer is not lost, unless the
    /// connection is gone before it is sent.
    Agreed,
    /// With last words that the peer may read. The session ends.
    Broken,
    /// With last words for a peer that may not be there. The session may be resumed.
    Unheard,
    /// At once. The session may be resumed.
    Cut,
}

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
        if matches!(conn.state(), ConnState::Closing { .. } | ConnState::Departing) {
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

    /// Whether the connection may be read from: not while an answer from elsewhere decides what comes next.
    fn is_blocked(conn: &Conn) -> bool {
        match conn.state() {
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
                    // Many requests fit into one read, and each is answered: not only the end of a turn looks at the bound.
                    if self.backlog(id) == Backlog::TooMuch {
                        self.overflowed(id);
                        return (scanner, bytes.len());
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
        if self.conns.set_paused(id, false) {
            self.effects.push(Effect::Resume { conn: id, durable: false });
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
        if self.conns.set_paused(id, true) {
            self.effects.push(Effect::Pause { conn: id });
        }
    }

    /// Ends the stream without an error and closes the connection once all is sent: also when the peer has ended its own
    /// (RFC 6120 4.4).
    pub(super) fn end_stream(&mut self, id: ConnId, why: Ended) {
        let Some(conn) = self.conns.get(id) else { return };
        if conn.header_sent {
            self.send_bytes(id, b"</stream:stream>");
        }
        self.close(id, Ending::Agreed, why);
    }

    /// Ends the stream with an error (RFC 6120 4.9), for the reason that its condition stands for.
    /// It may be told before the writes of its turn are durable: that it ends is no promise.
    pub(super) fn fail_stream(&mut self, id: ConnId, condition: StreamCondition, text: Option<&str>) {
        self.fail_stream_with(id, Ended::of(condition), condition, text, None);
    }

    /// Ends the stream with an error, for a reason of its own, or one that carries an application's condition (RFC 6120
    /// 4.9.4).
    pub(super) fn fail_stream_with(
        &mut self,
        id: ConnId,
        why: Ended,
        condition: StreamCondition,
        text: Option<&str>,
        app: Option<AppCondition<'_>>,
    ) {
        let Some(conn) = self.conns.get(id) else { return };
        if matches!(conn.state(), ConnState::Closing { .. } | ConnState::Departing) {
            return;
        }
        self.end_by_error(id, why, condition, text, app, false);
    }

    /// Ends the stream because the user's account is removed, which is told only when it is durable.
    pub(super) fn fail_removed(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get(id) else { return };
        if matches!(conn.state(), ConnState::Closing { .. } | ConnState::Departing) {
            return;
        }
        let text = Some("the account was removed");
        self.end_by_error(id, Ended::Operator, StreamCondition::NotAuthorized, text, None, true);
    }

    /// A departing connection has nowhere to go: the host is full (RFC 6120 4.9.3.17).
    pub(super) fn stayed(&mut self, id: ConnId) {
        if matches!(self.conns.get(id), Some(conn) if matches!(conn.state(), ConnState::Departing)) {
            let condition = StreamCondition::ResourceConstraint;
            self.end_by_error(id, Ended::Server, condition, Some("no room for this session"), None, true);
        }
    }

    fn end_by_error(
        &mut self,
        id: ConnId,
        why: Ended,
        condition: StreamCondition,
        text: Option<&str>,
        app: Option<AppCondition<'_>>,
        durable: bool,
    ) {
        let Some(conn) = self.conns.get(id) else { return };
        // Behind anything else that it is to be told the last words wait, too.
        let silent = conn.outbound.as_ref().is_none_or(|outbound| outbound.bytes() == 0);
        self.counters.streams_closed_by_error.one();
        let mut out = Vec::with_capacity(256);
        // Before its header, the receiving entity sends one first (RFC 6120 4.9.1.2). During a TLS handshake there is no
        // stream to say anything on.
        let handshake = matches!(conn.state(), ConnState::Opening(o) if matches!(o.stage(), Stage::ExpectHandshake));
        if !handshake {
            if !conn.header_sent {
                conn.header_sent = true;
                let stream_id = self.random_name();
                let (from, version) = (&*self.settings.domain, Some(stream::Version::XMPP_1_0));
                let response = stream::Response { id: &stream_id, from, to: None, version, lang: SERVER_LANG };
                stream::write_header(&mut out, &response);
            }
            crate::wire::error::write_stream_error(&mut out, condition, text, app);
            out.extend_from_slice(b"</stream:stream>");
            self.send_bytes(id, &out);
        }
        let ending = if handshake { Ending::Cut } else { Ending::Broken };
        self.close_when(id, ending, why, durable || !silent);
    }

    /// Closes the connection. A session behind it ends, or waits to be resumed.
    pub(super) fn close(&mut self, id: ConnId, ending: Ending, why: Ended) {
        self.close_when(id, ending, why, true);
    }

    /// The same; with `durable` not before all is durable that the turn rests on, unless nothing of that was ever promised here.
    fn close_when(&mut self, id: ConnId, ending: Ending, why: Ended, durable: bool) {
        let session = self.session_of(id).filter(|_| ending == Ending::Agreed);
        let user = session.and_then(|s| self.sessions.get(s)).map_or(NONE, |s| s.user);
        let Some(conn) = self.conns.get(id) else { return };
        if matches!(conn.state(), ConnState::Closing { .. }) {
            return;
        }
        conn.partial = None;
        let abort = ending == Ending::Cut;
        // Who does not read its last words need not be read from meanwhile, only to throw it away.
        let reads_slowly = !abort && conn.outbound.as_ref().is_some_and(|o| o.is_sending());
        let Some(was) = self.conns.set_state(id, ConnState::Closing { user }) else { return };
        self.count_ended(why);
        if reads_slowly && self.conns.set_paused(id, true) {
            self.effects.push(Effect::Pause { conn: id });
        }
        let Some(conn) = self.conns.get(id) else { return };
        let under_way = conn.outbound.as_mut().filter(|_| user == NONE).map(|o| o.take_sending());
        let (waiting, mut last) = self.take_last(id);
        let unsent = under_way.into_iter().flatten().chain(waiting).collect();
        if abort {
            last = Vec::new();
        }
        self.counters.bytes_out.add(last.len() as u64);
        // Of one that is cut off nothing is waited for.
        let durable = durable && !abort && !matches!(&was, ConnState::Opening(o) if o.is_promised_nothing());
        self.effects.push(Effect::Close { conn: id, last, abort, durable });
        self.login_broken_off(&was);
        if let ConnState::Bound(session) = was {
            self.connection_lost(session, unsent, matches!(ending, Ending::Unheard | Ending::Cut));
        }
    }

    /// Takes what is still to be sent, for effects that carry a connection's last words in its present form, and the messages
    /// that are not among them.
    pub(super) fn take_last(&mut self, id: ConnId) -> (Vec<Unsent>, Vec<u8>) {
        let outbound = self.conns.get(id).and_then(|conn| conn.outbound.as_mut());
        let Some(outbound) = outbound else { return Default::default() };
        let before = outbound.bytes();
        let (unsent, last) = outbound.take_last();
        self.levels.outbound_bytes -= before - outbound.bytes();
        (unsent, last)
    }

    /// The driver says why the connection ends, before it does.
    pub(super) fn lost(&mut self, id: ConnId, how: Lost) {
        if let Some(conn) = self.conns.get(id) {
            conn.lost.get_or_insert(how);
        }
    }

    pub(super) fn closed(&mut self, id: ConnId) {
        let Some((mut conn, state)) = self.conns.remove(id) else { return };
        match state {
            ConnState::Departing => self.counters.departed.one(),
            ConnState::Closing { .. } => {}
            _ => self.count_ended(Ended::by(conn.lost)),
        }
        let mut unsent = Vec::new();
        if let Some(mut outbound) = conn.outbound.take() {
            self.levels.outbound_bytes -= outbound.bytes();
            unsent = outbound.take_unsent();
            self.recycle(outbound);
        }
        self.login_broken_off(&state);
        match state {
            ConnState::Bound(session) => self.connection_lost(session, unsent, true),
            ConnState::Closing { user } if user != NONE => self.messages_came_back(user, unsent),
            _ => {}
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

    /// How much waits for the connection.
    pub(super) fn backlog(&mut self, id: ConnId) -> Backlog {
        let (soft, max) = (self.settings.outbound_bytes_soft, self.settings.outbound_bytes_max);
        let outbound = self.conns.get(id).and_then(|c| c.outbound.as_ref());
        outbound.map_or(Backlog::Light, |o| o.backlog(soft, max))
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
            if self.backlog(id) == Backlog::TooMuch {
                self.overflowed(id);
            }
        }
        // An overflow has ended streams, whose last words may have made connections dirty meanwhile.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
    }

    /// More waits for the connection than may.
    fn overflowed(&mut self, id: ConnId) {
        self.counters.outbound_overflows.one();
        self.fail_stream(id, StreamCondition::ResourceConstraint, Some("the connection is not read from"));
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
        let was_behind = outbound.backlog(self.settings.outbound_bytes_soft, usize::MAX) != Backlog::Light;
        let mut ids = std::mem::take(&mut self.sent_ids);
        ids.extend(outbound.sent());
        self.levels.outbound_bytes -= before - outbound.bytes();
        let all_sent = outbound.is_empty();
        // Most sends carry no message and hold nothing up: then nobody's mailbox is looked for.
        let user = match *conn.state() {
            _ if ids.is_empty() && !was_behind => NONE,
            ConnState::Bound(session) => self.sessions.get(session).map_or(NONE, |s| s.user),
            ConnState::Closing { user } => user,
            _ => NONE,
        };
        if all_sent {
            if let Some(outbound) = conn.outbound.take() {
                self.recycle(outbound);
            }
        } else {
            self.flush_one(id);
        }
        if user != NONE {
            self.messages_sent(user, &ids);
        }
        ids.clear();
        self.sent_ids = ids;
    }

    fn recycle(&mut self, mut outbound: Box<crate::outbound::Outbound>) {
        if self.outbound_pool.len() < OUTBOUND_POOL_MAX {
            outbound.recycle();
            self.outbound_pool.push(outbound);
        }
    }
}

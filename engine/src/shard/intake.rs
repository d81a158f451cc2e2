//! From the bytes of a connection to items, and from each item to its module.

use crate::id::ConnId;
use crate::session::conn::{ConnState, Opening, Partial, Stage, StreamExpect};
use crate::session::moved::{Errand, Moved};
use crate::shard::Shard;
use crate::streams::ended::Ended;
use crate::streams::opening::SERVER_LANG;
use crate::web::Transport;
use crate::wire::error::StreamCondition;
use crate::wire::jid::bare_of;
use crate::wire::{Element, Progress, Scanner, stream};

impl Shard {
    /// Bytes have arrived: takes items from them and buffers an incomplete one.
    pub(crate) fn received(&mut self, id: ConnId, input: &[u8]) {
        self.cx.kernel.counters.bytes_in.add(input.len() as u64);
        let now_s = self.cx.kernel.now.mono_s();
        // The connection has closed, and the thread does not know it yet.
        let Some(conn) = self.cx.conns.get(id) else { return };
        if conn.ending || matches!(conn.state(), ConnState::Closing { .. } | ConnState::Departing) {
            return;
        }
        conn.last_s = now_s;
        conn.pinged = false;
        if matches!(conn.state(), ConnState::Component(_)) {
            self.components.component_heard(id);
        }
        let conn = self.cx.conns.heard(id);
        if conn.transport() == Transport::Bosh {
            return self.bosh_feed(id);
        }
        if conn.transport() != Transport::Stream {
            return self.received_http(id, input);
        }
        let Some(mut partial) = conn.partial.take() else {
            let mut scanner = std::mem::take(&mut self.scanner);
            let used = self.scan_items(id, &mut scanner, input);
            self.keep_rest(id, scanner, input, used);
            return;
        };
        partial.bytes.extend_from_slice(input);
        let used = self.scan_items(id, &mut partial.scanner, &partial.bytes);
        if used == 0 {
            if let Some(conn) = self.cx.conns.get(id).filter(|c| !matches!(c.state(), ConnState::Closing { .. })) {
                // Reuses the buffer: a client that sends one byte at a time causes no allocation
                // for each.
                conn.partial = Some(partial);
            }
        } else {
            let Partial { bytes, scanner, .. } = *partial;
            self.keep_rest(id, scanner, &bytes, used);
        }
    }

    fn keep_rest(&mut self, id: ConnId, scanner: Scanner, bytes: &[u8], used: usize) {
        let rest = &bytes[used..];
        match self.cx.conns.get(id) {
            Some(conn)
                if !rest.is_empty() && !matches!(conn.state(), ConnState::Closing { .. } | ConnState::Departing) =>
            {
                conn.partial = Some(Box::new(Partial { bytes: rest.to_vec(), scanner, begun: None }));
            }
            _ => {
                self.scanner = scanner;
                self.scanner.reset();
            }
        }
    }

    /// Takes complete items from the bytes. Returns how many bytes they had.
    fn scan_items(&mut self, id: ConnId, scanner: &mut Scanner, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let stanza_max = self.cx.kernel.settings.stanza_bytes_max;
            let Some(conn) = self.cx.conns.get(id).filter(|c| !Self::is_blocked(c)) else { break };
            let scope = conn.scope.clone();
            let expect = conn.expect;
            let max = Self::item_bytes_max(conn, stanza_max);
            match scanner.scan(&scope, expect.into(), max, &bytes[at..]) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Whitespace { consumed }) => {
                    // An XML declaration is permitted only at the very beginning (XML 1.0 2.8).
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
                    self.cx.end_stream(id, Ended::Client);
                    return bytes.len();
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
                    if matches!(self.cx.conns.get(id), Some(c) if matches!(c.state(), ConnState::Departing)) {
                        return bytes.len();
                    }
                    if let Some(opening) = self.cx.opening(id)
                        && std::mem::take(&mut opening.again)
                    {
                        at -= consumed;
                    }
                    self.cx.wait_if_heavy(id);
                }
                Err(fault) => {
                    let condition =
                        StreamCondition::from_name(fault.condition()).unwrap_or(StreamCondition::NotWellFormed);
                    self.cx.fail_stream(id, condition, Some(fault.describe()));
                    return bytes.len();
                }
            }
            scanner.reset();
        }
        at
    }

    pub(crate) fn header(&mut self, id: ConnId, element: &Element<'_>) {
        if self.components.is_for_component(&mut self.cx, id) {
            return self.components.component_header(&mut self.cx, id, element);
        }
        let conn = self.cx.conns.heard(id);
        let header = match stream::read_header(element) {
            Ok(header) => header,
            Err(fault) => {
                let condition = StreamCondition::from_name(fault.condition()).unwrap_or(StreamCondition::BadFormat);
                // RFC 6120 4.9.1.2: the error is inside a stream that answers the peer's header as
                // it was.
                conn.header_sent = true;
                let (stream_id, peer) = (self.cx.kernel.random_name(), element.from());
                let (to, version) = (peer.as_deref().map(bare_of), Some(stream::Version::XMPP_1_0));
                let domains = self.cx.kernel.settings.domains.clone();
                let answer = stream::Response { id: &stream_id, from: domains.main(), to, version, lang: SERVER_LANG };
                self.cx.send_with(id, |out| stream::write_header(out, &answer));
                return self.cx.fail_stream(id, condition, fault.text());
            }
        };
        conn.scope = crate::wire::StreamScope::of_header(element);
        conn.expect = StreamExpect::Content;
        self.stream_opened(id, &header);
    }

    /// A connection has arrived at the home of its user or channel.
    pub(crate) fn arrived(&mut self, id: ConnId, mut moved: Moved) {
        self.cx.kernel.counters.arrived.one();
        if moved.is_component() {
            self.components.component_arrived(&mut self.cx, id, &mut moved);
            return self.received(id, &moved.leftover);
        }
        let stage = match moved.errand {
            Errand::Channel(follower) => {
                let mut opening = Opening::new(moved.listener, moved.peer, moved.accepted_s, Stage::ExpectHeader);
                opening.secured = moved.secured;
                return self.follower_arrived(id, *follower, opening, moved.named, moved.leftover);
            }
            Errand::Login(owner) if moved.stream.is_some() => Stage::ExpectInline(owner),
            Errand::Login(owner) => Stage::ExpectRestart(owner),
        };
        let mut opening = Opening::new(moved.listener, moved.peer, moved.accepted_s, stage);
        opening.secured = moved.secured;
        let transport = moved.transport;
        let (now_s, goes_on) = (self.cx.kernel.now.mono_s(), moved.stream.is_some());
        let mut scope = None;
        if let Some(stream) = moved.stream {
            opening.introduce(stream.lang, None);
            (opening.domain, opening.inline) = (stream.domain, Some(stream.inline));
            scope = Some(stream.scope);
        }
        self.cx.conns.insert(id, opening, now_s);
        self.cx.conns.set_transport(id, transport);
        if moved.named {
            self.cx.conns.name_client(id, moved.peer, None);
        }
        if let Some(conn) = self.cx.conns.get(id)
            && let Some(scope) = scope
        {
            (conn.scope, conn.expect, conn.header_sent) = (scope, StreamExpect::Content, true);
        }
        if self.cx.kernel.shutting_down {
            return self.cx.fail_stream(id, StreamCondition::SystemShutdown, None);
        }
        if goes_on {
            self.cx.block(id);
        }
        if !moved.leftover.is_empty() {
            self.received(id, &moved.leftover);
        }
        if goes_on {
            self.inline_goes_on(id);
        }
    }
}

//! XML streams in WebSocket messages (RFC 7395): from frames to messages, and from each message to
//! its module.

use crate::id::ConnId;
use crate::limits::WEBSOCKET_MEMORY_BYTES;
use crate::session::conn::StreamExpect;
use crate::shard::Shard;
use crate::streams::ended::Ended;
use crate::streams::ending::{ConnEnding, Ending};
use crate::web::frame::{self, Assembly, Code, Event, FrameFault};
use crate::web::open::{self, FRAMING};
use crate::web::{Begun, Step, Transport};
use crate::wire::error::StreamCondition;
use crate::wire::{Element, Expect, Progress, StreamScope};

impl Shard {
    /// Reads up to the end of one message or control frame.
    pub(super) fn websocket_step(&mut self, id: ConnId, input: &[u8], begun: &mut Option<Begun>) -> Step {
        let stanza_max = self.cx.kernel.settings.stanza_bytes_max;
        let Some(conn) = self.cx.conns.get(id) else { return Step { used: input.len(), goes_on: false } };
        let bytes_max = Self::item_bytes_max(conn, stanza_max);
        let mut message = match begun.take() {
            Some(Begun::Message(message)) => *message,
            _ => Assembly::with(std::mem::take(&mut self.cx.message)),
        };
        let (used, event) = match message.read(input, bytes_max) {
            Ok(read) => read,
            Err(fault) => {
                self.websocket_fails(id, fault);
                return Step { used: input.len(), goes_on: false };
            }
        };
        let goes_on = event != Event::More;
        match event {
            Event::More | Event::Pong => {}
            Event::Ping(content) => self.cx.send_with(id, |out| frame::write_pong(out, &content)),
            Event::Close(code) => self.websocket_closed(id, code),
            Event::Message => {
                self.websocket_message(id, message.bytes(), &input[used..]);
                match self.cx.opening(id).is_some_and(|opening| std::mem::take(&mut opening.again)) {
                    true => message.again(),
                    false => message.clear(),
                }
            }
        }
        self.cx.wait_if_heavy(id);
        if !message.is_idle() {
            *begun = Some(Begun::Message(Box::new(message)));
        } else {
            let memory = message.into_memory();
            if memory.capacity() <= WEBSOCKET_MEMORY_BYTES {
                self.cx.message = memory;
            }
        }
        Step { used, goes_on }
    }

    /// A message has one first-level element (RFC 7395 3.3.3). `behind` is the input that follows
    /// it.
    fn websocket_message(&mut self, id: ConnId, message: &[u8], behind: &[u8]) {
        if simdutf8::basic::from_utf8(message).is_err() {
            return self.websocket_fails(id, FrameFault { code: Code::NotUtf8, text: "a message is not valid UTF-8" });
        }
        // Other transports permit white space to keep a connection alive. It is unnecessary here
        // (RFC 7395 3.8), but harmless.
        let item = message.trim_ascii();
        if item.is_empty() {
            return;
        }
        let mut scanner = std::mem::take(&mut self.scanner);
        match scanner.scan(&StreamScope::None, Expect::Content, usize::MAX, item) {
            Ok(Progress::Element { consumed }) if consumed == item.len() => {
                self.websocket_element(id, &scanner.element(&StreamScope::None, item), behind);
            }
            Ok(_) => {
                let text = "a message must contain exactly one complete element";
                self.cx.fail_stream(id, StreamCondition::BadFormat, Some(text));
            }
            Err(fault) => {
                let condition = StreamCondition::from_name(fault.condition()).unwrap_or(StreamCondition::NotWellFormed);
                self.cx.fail_stream(id, condition, Some(fault.describe()));
            }
        }
        scanner.reset();
        self.scanner = scanner;
    }

    fn websocket_element(&mut self, id: ConnId, element: &Element<'_>, behind: &[u8]) {
        let conn = self.cx.conns.heard(id);
        let opens = conn.expect != StreamExpect::Content;
        match (element.namespace() == FRAMING, element.name()) {
            (true, "open") if opens => {
                conn.expect = StreamExpect::Content;
                let header = open::read(element);
                self.stream_opened(id, &header);
            }
            // RFC 7395 3.6.
            (true, "close") => self.cx.end_stream(id, Ended::Client),
            (false, "open") if opens => {
                self.cx.fail_stream(id, StreamCondition::InvalidNamespace, Some("<open/> has the wrong namespace"));
            }
            (false, _) if !opens => self.element(id, element, behind),
            _ => self.cx.fail_stream(id, StreamCondition::BadFormat, Some("<open/> must be sent first, and only once")),
        }
    }

    /// The peer closes the WebSocket (RFC 6455 5.5.1) without having ended the stream: its session
    /// may be resumed (RFC 7395 3.6).
    fn websocket_closed(&mut self, id: ConnId, code: Option<u16>) {
        self.cx.send_with(id, |out| frame::write_close(out, code));
        self.websocket_leaves(id, Ending::Unheard, Ended::Client);
    }

    /// The input is not WebSocket frames, or has frames that are not permitted (RFC 6455 7.1.7).
    fn websocket_fails(&mut self, id: ConnId, fault: FrameFault) {
        self.cx.kernel.counters.streams_closed_by_error.one();
        self.cx.send_with(id, |out| frame::write_fault(out, fault));
        self.websocket_leaves(id, Ending::Broken, Ended::Protocol);
    }

    /// Writes the last frame, after which nothing may be sent.
    fn websocket_leaves(&mut self, id: ConnId, ending: Ending, why: Ended) {
        self.cx.conns.set_transport(id, Transport::Closed);
        self.cx.record(ConnEnding { conn: id, ending, why, error: Vec::new(), durable: true });
    }
}

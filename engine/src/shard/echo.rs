//! Echoes WebSocket messages, for test suites. Not included in releases.

use crate::id::ConnId;
use crate::shard::Shard;
use crate::streams::ended::Ended;
use crate::web::echo::MESSAGE_BYTES_MAX;
use crate::web::frame::{self, Assembly, Code, Event, FrameFault};
use crate::web::handshake::{self, Accept};
use crate::web::{Begun, Step, Transport};

impl Shard {
    /// A connection becomes an echoing WebSocket.
    pub(super) fn begin_echo(&mut self, id: ConnId, accept: &Accept) {
        self.cx.send_with(id, |out| handshake::write_accepted(out, accept, None));
        self.cx.conns.set_transport(id, Transport::Echo);
    }

    /// Reads up to the end of one message or control frame, as for XMPP.
    pub(super) fn echo_step(&mut self, id: ConnId, input: &[u8], begun: &mut Option<Begun>) -> Step {
        let over = Step { used: input.len(), goes_on: false };
        let mut message = match begun.take() {
            Some(Begun::Message(message)) => *message,
            _ => Assembly::of_any(),
        };
        let (used, event) = match message.read(input, MESSAGE_BYTES_MAX) {
            Ok(read) => read,
            Err(fault) => {
                self.echo_fails(id, fault);
                return over;
            }
        };
        let goes_on = event != Event::More;
        match event {
            Event::More | Event::Pong => {}
            Event::Ping(content) => self.cx.send_with(id, |out| frame::write_pong(out, &content)),
            Event::Close(code) => {
                self.cx.send_with(id, |out| frame::write_close(out, code));
                self.cx.end_stream(id, Ended::Client);
            }
            Event::Message if !message.is_binary() && simdutf8::basic::from_utf8(message.bytes()).is_err() => {
                self.echo_fails(id, FrameFault { code: Code::NotUtf8, text: "a message is not valid UTF-8" });
                return over;
            }
            Event::Message => {
                self.cx.send_with(id, |out| {
                    frame::write_head_of(out, message.is_binary(), message.bytes().len());
                    out.extend_from_slice(message.bytes());
                });
                message.clear();
            }
        }
        self.cx.wait_if_heavy(id);
        *begun = (!message.is_idle()).then(|| Begun::Message(Box::new(message)));
        Step { used, goes_on }
    }

    fn echo_fails(&mut self, id: ConnId, fault: FrameFault) {
        self.cx.send_with(id, |out| frame::write_fault(out, fault));
        self.cx.end_stream(id, Ended::Protocol);
    }
}

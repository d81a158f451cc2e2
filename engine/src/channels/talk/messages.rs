//! Input on a WebSocket of Centrifugo's protocol: messages, which are split into commands, one per
//! line.

use std::sync::Arc;

use crate::channels::Channels;
use crate::id::ConnId;
use crate::limits::{BOSH_LONG_BODIES_MAX, CENTRIFUGO_MESSAGE_BYTES_MAX, PREAUTH_BYTES_MAX, WEBSOCKET_MEMORY_BYTES};
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::web::dialect::centrifugo::talker::Stage;
use crate::web::dialect::centrifugo::{command, reply};
use crate::web::frame::{self, Assembly, Code, Event, FrameFault};
use crate::web::{Begun, Step};

impl Channels {
    /// Reads up to the end of one message or one control frame.
    pub(crate) fn talk_step(&mut self, cx: &mut Streams, id: ConnId, input: &[u8], begun: &mut Option<Begun>) -> Step {
        let over = Step { used: input.len(), goes_on: false };
        let Some(is_new) = self.talk_is_new(id) else { return over };
        let bytes_max = if is_new { PREAUTH_BYTES_MAX } else { CENTRIFUGO_MESSAGE_BYTES_MAX };
        let mut message = match begun.take() {
            Some(Begun::Message(message)) => *message,
            _ => Assembly::with(std::mem::take(&mut cx.message)),
        };
        let (used, event) = match message.read(input, bytes_max) {
            Ok(read) => read,
            Err(fault) => {
                self.talk_ends(cx, id, fault, Ended::Protocol);
                return over;
            }
        };
        if let Some(talker) = self.talker_mut(id) {
            talker.pinged &= event == Event::More;
        }
        let goes_on = event != Event::More;
        match event {
            Event::More => {
                // Only a limited number of connections that may not have presented a token can send
                // long messages at once.
                if message.bytes().len() > PREAUTH_BYTES_MAX && message.long.is_none() {
                    if Arc::strong_count(&cx.long_bodies) > BOSH_LONG_BODIES_MAX {
                        self.talk_ends(cx, id, reply::LATER, Ended::Server);
                        return over;
                    }
                    message.long = Some(cx.long_bodies.clone());
                }
            }
            Event::Pong => {}
            Event::Ping(content) => cx.send_with(id, |out| frame::write_pong(out, &content)),
            // RFC 6455 5.5.1.
            Event::Close(code) => {
                cx.send_with(id, |out| frame::write_close(out, code));
                self.talk_leaves(cx, id, Ended::Client);
            }
            Event::Message => {
                self.talk_message(cx, id, message.bytes());
                message.clear();
            }
        }
        cx.wait_if_heavy(id);
        if !message.is_idle() {
            *begun = Some(Begun::Message(Box::new(message)));
        } else {
            let memory = message.into_memory();
            if memory.capacity() <= WEBSOCKET_MEMORY_BYTES {
                cx.message = memory;
            }
        }
        Step { used, goes_on }
    }

    /// Whether a connection has yet to send its first command; `None` if the connection has ended.
    fn talk_is_new(&self, id: ConnId) -> Option<bool> {
        let talker = self.listeners.get(id)?.talker()?;
        Some(matches!(talker.stage, Stage::ExpectConnect))
    }

    fn talk_message(&mut self, cx: &mut Streams, id: ConnId, message: &[u8]) {
        let Ok(text) = simdutf8::basic::from_utf8(message) else {
            let fault = FrameFault { code: Code::NotUtf8, text: "a message is not valid UTF-8" };
            return self.talk_ends(cx, id, fault, Ended::Protocol);
        };
        let mut is_refused = false;
        for line in text.split('\n').map(str::trim).filter(|line| !line.is_empty()) {
            let Some(was_new) = self.talk_is_new(id) else { return };
            match command::read(line) {
                Some(command) if is_refused => self.talk_cancels(cx, id, &command),
                Some(command) => self.talk_command(cx, id, command),
                None => return self.talk_ends(cx, id, reply::BAD_COMMAND, Ended::Protocol),
            }
            // The client has been notified that its first command was refused. It sends the
            // commands after it again.
            is_refused |= was_new && self.talk_is_new(id) == Some(true);
        }
    }
}

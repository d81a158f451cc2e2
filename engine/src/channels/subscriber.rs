//! Input from subscribers on their WebSockets (RFC 6455): control frames only.

use crate::channels::Channels;
use crate::id::ConnId;
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::web::Step;
use crate::web::frame::{self, Event};

impl Channels {
    /// Reads one control frame. Clients do not publish over a WebSocket, so any other frame closes
    /// it.
    pub(crate) fn subscriber_step(&mut self, cx: &mut Streams, id: ConnId, input: &[u8]) -> Step {
        let (used, event) = match frame::read_control(input) {
            Ok(read) => read,
            Err(fault) => {
                self.socket_fails(cx, id, fault, Ended::Protocol);
                return Step { used: input.len(), goes_on: false };
            }
        };
        let goes_on = event != Event::More;
        match event {
            Event::More | Event::Message | Event::Pong => {}
            Event::Ping(content) => cx.send_with(id, |out| frame::write_pong(out, &content)),
            // RFC 6455 5.5.1.
            Event::Close(code) => {
                cx.send_with(id, |out| frame::write_close(out, code));
                self.socket_leaves(cx, id, Ended::Client);
            }
        }
        cx.wait_if_heavy(id);
        Step { used, goes_on }
    }
}

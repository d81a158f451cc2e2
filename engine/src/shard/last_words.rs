//! The last output of connections that are not plain streams.

use crate::id::ConnId;
use crate::shard::Shard;
use crate::streams::ended::Ended;
use crate::web::frame::{self, Code};
use crate::web::response::Response;
use crate::web::status::{Refusal, Status};

impl Shard {
    /// The last output of an HTTP connection that is not a WebSocket, if the server ends it for a
    /// reason.
    pub(super) fn http_ends(&mut self, id: ConnId, last: &mut Vec<u8>, for_a_reason: bool, why: Ended) {
        // After the beginning of an event stream, no answer can be sent.
        if !for_a_reason || self.channels.has_begun_answer(id) {
            return;
        }
        let refusal = match why {
            Ended::Timeout => Refusal::of(Status::RequestTimeout, "no request arrived in time"),
            _ => Refusal::of(Status::ServiceUnavailable, "not now"),
        };
        Response::from(refusal).write(last, None, self.cx.kernel.now.wall_us);
    }

    /// The server's last frame, after the end of a stream.
    pub(super) fn websocket_ends(&mut self, last: &mut Vec<u8>, why: Ended) {
        let code = if why == Ended::Shutdown { Code::GoingAway } else { Code::Normal };
        frame::write_close(last, Some(code.number()));
    }
}

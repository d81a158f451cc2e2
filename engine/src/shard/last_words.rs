//! The last words of connections that are no bare streams.

use crate::id::ConnId;
use crate::shard::Shard;
use crate::streams::ended::Ended;
use crate::web::frame::{self, Code};
use crate::web::response::Response;
use crate::web::status::{Refusal, Status};

impl Shard {
    /// The last words of a connection that is no WebSocket yet, if it ends for a reason of this side's.
    pub(super) fn http_ends(&mut self, id: ConnId, last: &mut Vec<u8>, for_a_reason: bool, why: Ended) {
        // Behind the beginning of a stream of events nothing can be said any more.
        if !for_a_reason || self.channels.has_begun_answer(id) {
            return;
        }
        let refusal = match why {
            Ended::Timeout => Refusal::of(Status::RequestTimeout, "no request has come in time"),
            _ => Refusal::of(Status::ServiceUnavailable, "not now"),
        };
        Response::from(refusal).write(last, None, self.cx.kernel.now.wall_us);
    }

    /// The last frame of this side, behind the end of a stream.
    pub(super) fn websocket_ends(&mut self, last: &mut Vec<u8>, why: Ended) {
        let code = if why == Ended::Shutdown { Code::GoingAway } else { Code::Normal };
        frame::write_close(last, Some(code.number()));
    }
}

//! A WebSocket echo for test suites that check frames (RFC 6455). It exists only in builds with
//! debug assertions, if enabled; a release does not contain it.

use super::handshake::accept;
use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;

/// The row of this path.
pub const ROW: Row = Row::of("/echo", &[Method::Get], Origins::Policy, handle);

/// Maximum length of a message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

fn handle(request: &Request<'_>, site: &Site<'_>) -> Answer {
    if !site.policy.echo {
        return Answer::Response(Response::text(Status::NotFound, "nothing is served at this path"));
    }
    match accept(request.head) {
        Ok(accept) => Answer::Echo { accept },
        Err(response) => Answer::Response(response),
    }
}

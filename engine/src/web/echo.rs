//! An echo of the messages of a WebSocket, for suites of tests that want one to try frames on (RFC 6455). It is in builds with debug
//! assertions, if that is wanted: a release has none of this.

use super::handshake::accept;
use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;

/// Its row.
pub const ROW: Row =
    Row { path: "/echo", methods: &[Method::Get], body_bytes_max: 0, origins: Origins::Policy, handle };

/// Longest message, bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

fn handle(request: &Request<'_>, site: &Site<'_>) -> Answer {
    if !site.policy.echo {
        return Answer::Response(Response::text(Status::NotFound, "there is nothing here"));
    }
    match accept(request.head) {
        Ok(accept) => Answer::Echo { accept },
        Err(response) => Answer::Response(response),
    }
}

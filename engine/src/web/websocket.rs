//! The WebSocket endpoint for XMPP (RFC 7395 3.1).

use super::handshake::accept;
use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;

/// The path of connections.
pub const PATH: &str = "/xmpp-websocket";

/// The row of this path.
pub const ROW: Row = Row::of(PATH, &[Method::Get], Origins::Policy, handle);

/// The subprotocol (RFC 7395 3.1).
pub const SUBPROTOCOL: &str = "xmpp";

fn handle(request: &Request<'_>, _: &Site<'_>) -> Answer {
    let speaks = request.head.list("sec-websocket-protocol").any(|protocol| protocol == SUBPROTOCOL);
    match accept(request.head) {
        Ok(accept) if speaks => Answer::WebSocket { accept },
        Ok(_) => {
            let text = "Sec-WebSocket-Protocol must name xmpp (RFC 7395 3.1)";
            Answer::Response(Response::text(Status::BadRequest, text).closing())
        }
        Err(response) => Answer::Response(response),
    }
}

//! The client protocol of Centrifugo (version 2, as JSON over WebSocket) on channels of
//! notifications, as data.
//!
//! A client sends commands, one per line; a message may contain several. Each command gets a reply.
//! Pushes report events in the channels that the client has subscribed to.
//!
//! - [`command`] parses commands. [`reply`] writes replies and pushes, and has the codes of errors
//!   and disconnects.
//! - [`publication`] writes items as publications, [`crowd`] the subscribers.

pub mod command;
pub mod crowd;
pub mod publication;
pub mod reply;

use super::handshake;
use super::head::Method;
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;

/// The path of connections.
pub const PATH: &str = "/connection/websocket";

/// The row of this path.
pub const ROW: Row = Row { path: PATH, methods: &[Method::Get], body_bytes_max: 0, origins: Origins::Policy, handle };

/// The subprotocol for JSON, which a client may name or omit.
pub const SUBPROTOCOL: &str = "centrifuge-json";

/// The subprotocol for Protobuf, which is not supported.
const PROTOBUF: &str = "centrifuge-protobuf";

fn handle(request: &Request<'_>, site: &Site<'_>) -> Answer {
    let (head, channels) = (request.head, &site.policy.channels);
    if !channels.any() || !channels.centrifugo {
        return Answer::Response(Response::text(Status::NotFound, "nothing is served at this path"));
    }
    let names = |wanted| head.list("sec-websocket-protocol").any(|protocol| protocol == wanted);
    let (names_json, names_protobuf) = (names(SUBPROTOCOL), names(PROTOBUF));
    let asks_protobuf = head.query.split('&').any(|pair| pair == "format=protobuf" || pair == "cf_protocol=protobuf");
    if asks_protobuf || (names_protobuf && !names_json) {
        let text = "only the JSON form of the protocol is supported";
        return Answer::Response(Response::text(Status::BadRequest, text).closing());
    }
    match handshake::accept(head) {
        Ok(accept) => Answer::Commands { accept, named: names_json },
        Err(response) => Answer::Response(response),
    }
}

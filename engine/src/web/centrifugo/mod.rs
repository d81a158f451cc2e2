//! The client protocol of Centrifugo (its second version, as JSON over WebSocket) on channels of notifications, as data.
//!
//! A client sends commands, each on a line of its own, of which several may be one message. It is answered by a reply to each, and told by
//! pushes what happens in the channels to which it has subscribed.
//!
//! - [`command`] reads what a client asks. [`reply`] writes what it is told, and knows the codes of errors and endings.
//! - [`publication`] writes items as publications, [`crowd`] who subscribes.

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

/// Where clients connect.
pub const PATH: &str = "/connection/websocket";

/// Its row.
pub const ROW: Row = Row { path: PATH, methods: &[Method::Get], body_bytes_max: 0, origins: Origins::Policy, handle };

/// The subprotocol of JSON, which a client may name or not.
pub const SUBPROTOCOL: &str = "centrifuge-json";

/// That of Protobuf.
const PROTOBUF: &str = "centrifuge-protobuf";

fn handle(request: &Request<'_>, site: &Site<'_>) -> Answer {
    let (head, channels) = (request.head, &site.policy.channels);
    if !channels.any() || !channels.centrifugo {
        return Answer::Response(Response::text(Status::NotFound, "there is nothing here"));
    }
    let names = |wanted| head.list("sec-websocket-protocol").any(|protocol| protocol == wanted);
    let (names_json, names_protobuf) = (names(SUBPROTOCOL), names(PROTOBUF));
    let asks_protobuf = head.query.split('&').any(|pair| pair == "format=protobuf" || pair == "cf_protocol=protobuf");
    if asks_protobuf || (names_protobuf && !names_json) {
        let text = "only the JSON form of the protocol is spoken here";
        return Answer::Response(Response::text(Status::BadRequest, text).closing());
    }
    match handshake::accept(head) {
        Ok(accept) => Answer::Commands { accept, named: names_json },
        Err(response) => Answer::Response(response),
    }
}

//! The client protocol of Centrifugo (version 2, as JSON over WebSocket) on channels of
//! notifications, as data.
//!
//! A client sends commands, one per line; a message may contain several. Each command gets a reply.
//! Pushes report events in the channels that the client has subscribed to.
//!
//! - [`command`] parses commands. [`reply`] writes replies and pushes, and has the codes of errors
//!   and disconnects.
//! - [`publication`] writes items as publications, [`crowd`] the subscribers. `talker` is the state
//!   of a connection.

pub mod command;
pub mod crowd;
pub mod publication;
pub mod reply;
pub(crate) mod talker;

use crate::web::handshake;
use crate::web::head::Method;
use crate::web::request::{Request, Site};
use crate::web::response::Response;
use crate::web::row::{Answer, Origins, Row};
use crate::web::status::Status;

/// The path of connections.
pub const PATH: &str = "/connection/websocket";

/// Its path.
pub const ROWS: &[Row] = &[Row::of(PATH, &[Method::Get], Origins::Policy, handle)];

/// A subscriber.
pub type Subscriber = Box<talker::Talker>;

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

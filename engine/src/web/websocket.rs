//! The opening handshake of a WebSocket (RFC 6455 4.2) for XMPP (RFC 7395 3.1).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha1::{Digest as _, Sha1};

use super::head::{Head, Method};
use super::request::{Request, Site};
use super::response::Response;
use super::row::{Answer, Origins, Row};
use super::status::Status;

/// Where clients connect.
pub const PATH: &str = "/xmpp-websocket";

/// Its row.
pub const ROW: Row = Row { path: PATH, methods: &[Method::Get], body_bytes_max: 0, origins: Origins::Policy, handle };

/// RFC 6455 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The subprotocol (RFC 7395 3.1).
const SUBPROTOCOL: &str = "xmpp";

fn handle(request: &Request<'_>, _: &Site<'_>) -> Answer {
    match accept(request.head) {
        Ok(accept) => Answer::WebSocket { accept },
        Err(response) => Answer::Response(response),
    }
}

/// Extensions that a client offers, such as `permessage-deflate`, are declined by not being named in the answer (RFC 6455 9.1).
fn accept(head: &Head<'_>) -> Result<String, Response> {
    let bad = |text| Err(Response::text(Status::BadRequest, text).closing());
    let asks = head.lists("upgrade", "websocket") && head.lists("connection", "upgrade");
    if !asks || head.method != Method::Get || !head.is_1_1 {
        return Err(other_protocol("this is the address of a WebSocket (RFC 6455)"));
    }
    if head.one("sec-websocket-version") != Some("13") {
        return Err(other_protocol("only version 13 of WebSocket is spoken here"));
    }
    let Some(key) = head.one("sec-websocket-key") else { return bad("there has to be one Sec-WebSocket-Key") };
    if BASE64.decode(key).map(|nonce| nonce.len()) != Ok(16) {
        return bad("Sec-WebSocket-Key has to be 16 bytes in Base64");
    }
    if !head.list("sec-websocket-protocol").any(|protocol| protocol == SUBPROTOCOL) {
        return bad("Sec-WebSocket-Protocol has to name xmpp (RFC 7395 3.1)");
    }
    Ok(BASE64.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize()))
}

/// RFC 9110 15.5.22, RFC 6455 4.4.
fn other_protocol(text: &'static str) -> Response {
    Response::text(Status::UpgradeRequired, text)
        .with("Upgrade", "websocket")
        .with("Connection", "Upgrade")
        .with("Sec-WebSocket-Version", "13")
}

/// Appends the answer with which the connection becomes a WebSocket.
pub fn write_accepted(out: &mut Vec<u8>, accept: &str) {
    for part in [
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ",
        accept,
        "\r\nSec-WebSocket-Protocol: ",
        SUBPROTOCOL,
        "\r\n\r\n",
    ] {
        out.extend_from_slice(part.as_bytes());
    }
}

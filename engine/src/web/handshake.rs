//! The opening handshake of a WebSocket (RFC 6455 4.2), for every subprotocol.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha1::{Digest as _, Sha1};

use super::head::{Head, Method};
use super::response::Response;
use super::status::Status;

/// RFC 6455 1.3.
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The value of `Sec-WebSocket-Accept`: a SHA-1 hash in Base64.
pub type Accept = [u8; 28];

/// Whether a request asks for a WebSocket, valid or not.
pub fn is_asked(head: &Head<'_>) -> bool {
    head.lists("upgrade", "websocket") && head.lists("connection", "upgrade")
}

/// Validates a client's opening handshake and returns the value for the response (RFC 6455 4.2.2).
/// Extensions such as `permessage-deflate` are declined by omitting them from the response (RFC
/// 6455 9.1).
///
/// # Errors
/// The response that reports what is invalid.
pub fn accept(head: &Head<'_>) -> Result<Accept, Response> {
    let bad = |text| Err(Response::text(Status::BadRequest, text).closing());
    if !is_asked(head) || head.method != Method::Get || !head.is_1_1 {
        return Err(other_protocol("this path is for WebSockets (RFC 6455)"));
    }
    if head.one("sec-websocket-version") != Some("13") {
        return Err(other_protocol("only version 13 of WebSocket is supported"));
    }
    let Some(key) = head.one("sec-websocket-key") else { return bad("there must be exactly one Sec-WebSocket-Key") };
    if BASE64.decode(key).map(|nonce| nonce.len()) != Ok(16) {
        return bad("Sec-WebSocket-Key must be 16 bytes in Base64");
    }
    let (mut accept, digest) = ([0; 28], Sha1::new().chain_update(key).chain_update(GUID).finalize());
    BASE64.encode_slice(digest, &mut accept).expect("20 bytes are 28 in Base64");
    Ok(accept)
}

/// RFC 9110 15.5.22, RFC 6455 4.4.
fn other_protocol(text: &'static str) -> Response {
    Response::text(Status::UpgradeRequired, text)
        .with("Upgrade", "websocket")
        .with("Connection", "Upgrade")
        .with("Sec-WebSocket-Version", "13")
}

/// Appends the response that switches the connection to WebSocket, with the selected subprotocol,
/// if any.
pub fn write_accepted(out: &mut Vec<u8>, accept: &Accept, subprotocol: Option<&str>) {
    const HEAD: &[u8] =
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ";
    [HEAD, accept].iter().for_each(|part| out.extend_from_slice(part));
    if let Some(subprotocol) = subprotocol {
        [b"\r\nSec-WebSocket-Protocol: ", subprotocol.as_bytes()].iter().for_each(|part| out.extend_from_slice(part));
    }
    out.extend_from_slice(b"\r\n\r\n");
}

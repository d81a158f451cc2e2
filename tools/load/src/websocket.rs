//! XMPP over a WebSocket (RFC 7395), one client's side: the handshake, and the messages that its stream is carried in.
//!
//! What the client says goes in by [`WebSocket::take`], what came by [`WebSocket::step`]. It must never know a socket or TLS.

use throng_engine::wire::Scanner;
use throng_engine::wire::text::escape_value_into;

use crate::framing::{Piece, Target, length_alone, piece, write_alone};
use crate::web::{self, Frame, NONCE, PROOF, not_http};

const FRAMING: &str = "urn:ietf:params:xml:ns:xmpp-framing";

/// The code of a normal end (RFC 6455 7.4.1).
const NORMAL: [u8; 2] = 1000u16.to_be_bytes();

/// What a step has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard<'a> {
    /// Nothing that concerns the stream.
    Nothing,
    /// The handshake is done: what waits may be sent.
    Open,
    /// The server's stream begins.
    Header,
    /// An element.
    Element(&'a [u8]),
    /// The server's stream ends.
    End,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct WebSocket {
    /// To be sent as it is, ahead of the stream.
    raw: Vec<u8>,
    /// What came and is not whole.
    pub(crate) partial: Vec<u8>,
    /// The handshake is done.
    open: bool,
    /// This side has closed the stream.
    closes: bool,
}

impl WebSocket {
    /// Asks for the WebSocket (RFC 7395 3.1).
    pub(crate) fn begin(target: &Target) -> WebSocket {
        let Target { host, path, .. } = target;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {NONCE}\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n"
        );
        WebSocket { raw: request.into_bytes(), ..WebSocket::default() }
    }

    /// Whether there is something to send though the stream says nothing.
    pub(crate) fn has_raw(&self) -> bool {
        !self.raw.is_empty()
    }

    /// What could not be sent yet goes first the next time.
    pub(crate) fn put_back(&mut self, rest: &[u8]) {
        self.raw.splice(..0, rest.iter().copied());
    }

    /// Appends to `out` what may be sent now: of `stream` all, once the handshake is done.
    pub(crate) fn take(&mut self, target: &Target, stream: &mut Vec<u8>, scanner: &mut Scanner, out: &mut Vec<u8>) {
        out.append(&mut self.raw);
        self.raw = Vec::new();
        if !self.open {
            return;
        }
        let mut at = 0;
        while let Some((piece, used)) = piece(&stream[at..], scanner) {
            match piece {
                Piece::Header => {
                    let mut open = format!("<open xmlns='{FRAMING}' to='").into_bytes();
                    escape_value_into(&mut open, &target.domain);
                    open.extend_from_slice(b"' version='1.0'/>");
                    web::write_text_head(out, open.len());
                    out.append(&mut open);
                }
                Piece::Element(element) => {
                    web::write_text_head(out, length_alone(element));
                    write_alone(out, element);
                }
                Piece::End => {
                    let close = format!("<close xmlns='{FRAMING}'/>");
                    web::write_text_head(out, close.len());
                    out.extend_from_slice(close.as_bytes());
                    self.closes = true;
                }
            }
            at += used;
        }
        stream.clear();
    }

    /// Reads what comes first of `bytes`, and how many of them that is; none if it is not whole.
    ///
    /// # Errors
    /// It is none of a server's, as a kind of error.
    pub(crate) fn step<'a>(&mut self, target: &Target, bytes: &'a [u8]) -> Result<Option<(Heard<'a>, usize)>, String> {
        if !self.open {
            let Some(head) = web::head(bytes).map_err(not_http)? else { return Ok(None) };
            if head.status != 101 {
                let path = &target.path;
                return Err(format!(
                    "websocket: the server answers {} to GET {path}; see --path and --to",
                    head.status
                ));
            }
            if head.accept != Some(PROOF) {
                return Err("websocket: a handshake without a valid Sec-WebSocket-Accept".into());
            }
            if head.protocol != Some("xmpp") {
                return Err("websocket: the server does not speak xmpp there; see --path".into());
            }
            self.open = true;
            return Ok(Some((Heard::Open, head.bytes)));
        }
        let Some((frame, used)) = web::frame(bytes)? else { return Ok(None) };
        let heard = match frame {
            Frame::Text(text) if is(text, b"<open") => Heard::Header,
            Frame::Text(text) if is(text, b"<close") => {
                if self.closes {
                    // RFC 7395 3.6: both have closed the stream, and who began ends the WebSocket.
                    web::write_control(&mut self.raw, 8, &NORMAL);
                    Heard::Nothing
                } else {
                    Heard::End
                }
            }
            Frame::Text(text) => Heard::Element(text),
            Frame::Ping(content) => {
                web::write_control(&mut self.raw, 10, content);
                Heard::Nothing
            }
            Frame::Pong => Heard::Nothing,
            Frame::Close(_) => Heard::End,
        };
        Ok(Some((heard, used)))
    }
}

/// Whether an element has this name, which is written with its `<`.
fn is(text: &[u8], name: &[u8]) -> bool {
    text.strip_prefix(name)
        .and_then(|rest| rest.first())
        .is_some_and(|next| next.is_ascii_whitespace() || matches!(next, b'/' | b'>'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target { host: "a:80".into(), path: "/ws".into(), domain: "it's".into(), wait_s: 60 }
    }

    fn opened() -> WebSocket {
        let mut socket = WebSocket::begin(&target());
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {PROOF}\r\nSec-WebSocket-Protocol: xmpp\r\n\r\n"
        );
        let found = socket.step(&target(), answer.as_bytes());
        assert_eq!(found, Ok(Some((Heard::Open, answer.len()))));
        let mut out = Vec::new();
        socket.take(&target(), &mut Vec::new(), &mut Scanner::new(), &mut out);
        socket
    }

    fn taken(socket: &mut WebSocket, stream: &str) -> Vec<u8> {
        let (mut out, mut stream) = (Vec::new(), stream.as_bytes().to_vec());
        socket.take(&target(), &mut stream, &mut Scanner::new(), &mut out);
        out
    }

    /// Messages of a client, whose masks are 0.
    fn messages(mut bytes: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        while let [first, second, ..] = *bytes {
            assert_eq!((first, second & 0x80), (0x81, 0x80));
            let (length, start) = match second & 0x7f {
                126 => (usize::from(u16::from_be_bytes([bytes[2], bytes[3]])), 8),
                length => (usize::from(length), 6),
            };
            all.push(String::from_utf8_lossy(&bytes[start..start + length]).into_owned());
            bytes = &bytes[start + length..];
        }
        all
    }

    /// RFC 7395 3.1: the client asks for `xmpp`; RFC 6455 4.1: it sends nothing before the answer.
    #[test]
    fn nothing_of_the_stream_is_sent_before_the_handshake() {
        let mut socket = WebSocket::begin(&target());
        let (mut out, mut stream) = (Vec::new(), b"<presence/>".to_vec());
        socket.take(&target(), &mut stream, &mut Scanner::new(), &mut out);
        let text = String::from_utf8(out).expect("text");
        assert!(text.starts_with("GET /ws HTTP/1.1\r\nHost: a:80\r\n"), "{text}");
        assert!(text.contains("\r\nSec-WebSocket-Protocol: xmpp\r\n") && text.ends_with("\r\n\r\n"), "{text}");
        assert_eq!(stream, b"<presence/>");
    }

    /// RFC 7395 3.3, 3.4: a message is an element, and `<open/>` and `<close/>` stand for the header and the end.
    #[test]
    fn each_element_is_a_message() {
        let mut socket = opened();
        let long = format!("<message><body>{}</body></message>", "x".repeat(300));
        let header = "<?xml version='1.0'?><stream:stream to='it' version='1.0'>";
        let sent = messages(&taken(&mut socket, &[header, "<presence/>", &long, "</stream:stream>"].concat()));
        assert_eq!(sent[0], format!("<open xmlns='{FRAMING}' to='it&apos;s' version='1.0'/>"));
        assert_eq!(sent[1], "<presence xmlns='jabber:client'/>");
        assert_eq!((sent[2].len(), &sent[3]), (long.len() + 22, &format!("<close xmlns='{FRAMING}'/>")));
        // RFC 7395 3.6: the answer to that closes the WebSocket.
        let close = format!("<close xmlns='{FRAMING}'/>");
        let frame = [&[0x81, close.len() as u8], close.as_bytes()].concat();
        assert_eq!(socket.step(&target(), &frame), Ok(Some((Heard::Nothing, frame.len()))));
        assert_eq!(taken(&mut socket, ""), [0x88, 0x82, 0, 0, 0, 0, 3, 0xe8]);
        assert_eq!(socket.step(&target(), &[0x88, 0]), Ok(Some((Heard::End, 2))));
    }

    #[test]
    fn what_comes_is_heard_as_a_stream() {
        let mut socket = opened();
        let frame = |text: &str| [&[0x81, text.len() as u8], text.as_bytes()].concat();
        for (text, wanted) in [
            ("<open xmlns='x' id='1'/>", Heard::Header),
            ("<close/>", Heard::End),
            ("<opener/>", Heard::Element(b"<opener/>")),
        ] {
            let bytes = frame(text);
            for cut in 0..bytes.len() {
                assert_eq!(socket.step(&target(), &bytes[..cut]), Ok(None));
            }
            assert_eq!(socket.step(&target(), &bytes), Ok(Some((wanted, bytes.len()))));
        }
        assert_eq!(socket.step(&target(), &[0x89, 1, b'p']), Ok(Some((Heard::Nothing, 3))));
        assert!(socket.has_raw());
        assert_eq!(taken(&mut socket, ""), [0x8a, 0x81, 0, 0, 0, 0, b'p']);
    }

    #[test]
    fn a_server_that_has_no_websocket_there_is_named() {
        for (answer, said) in [
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "answers 404 to GET /ws; see --path"),
            ("HTTP/1.1 101 OK\r\n\r\n", "without a valid Sec-WebSocket-Accept"),
            ("HTTP/1.1 101 OK\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", "does not speak xmpp"),
        ] {
            let told = WebSocket::begin(&target()).step(&target(), answer.as_bytes()).expect_err("refused");
            assert!(told.contains(said), "{told}");
        }
    }
}

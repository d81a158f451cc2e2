//! Items as Nchan messages: only the content as published, in contrast to the JSON objects of
//! `/n/`.

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use crate::web::dialect::mercure::event;
use crate::web::frame;
use crate::web::item::Item;
use crate::web::response::Response;
use crate::web::status::Status;

/// Header fields of a message in a response, besides its position. A browser may navigate to a
/// message on the server's own origin: publishers must not be able to run scripts there.
const FIELDS: &[(&str, &str)] = &[("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", "sandbox")];

/// The request fields that responses with messages depend on (RFC 9110 12.5.5).
pub const VARY: (&str, &str) = ("Vary", "If-None-Match, If-Modified-Since");

/// The response fields that pages of other origins can read.
pub const EXPOSED: (&str, &str) = ("Access-Control-Expose-Headers", "Last-Modified, Etag, Content-Type");

/// A message to deliver.
#[derive(Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The second of publication, since 1970.
    pub time_s: u64,
    /// Its content type, valid in a header field; empty for none.
    kind: String,
    /// The type of its event.
    event: Option<String>,
    data: Cow<'a, [u8]>,
    /// The content is text.
    is_text: bool,
}

impl<'a> Message<'a> {
    /// Parses an item. Input that is malformed, which homes never write, results in a message
    /// without content.
    pub fn read(item: &'a [u8]) -> Message<'a> {
        let item = Item::read(item);
        let (kind, event) = event::parts(&item.kind);
        // By XMPP, any value may have been published.
        let fits = kind.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        Message {
            time_s: item.time_us() / 1_000_000,
            kind: if fits { kind } else { String::new() },
            event: event.map(Cow::into_owned),
            is_text: !item.base64,
            data: item.into_content(),
        }
    }

    /// Appends the message as an event (HTML 9.2.5).
    pub fn write_event(&self, out: &mut Vec<u8>, tag: &str) {
        if let Some(event) = &self.event {
            [&b"event: "[..], event.as_bytes(), b"\n"].iter().for_each(|part| out.extend_from_slice(part));
        }
        out.extend_from_slice(format!("id: {}:{tag}\n", self.time_s).as_bytes());
        // HTML 9.2.6 recognizes three line ends.
        let mut rest = Some(&*self.data);
        while let Some(data) = rest {
            let end = memchr::memchr2(b'\r', b'\n', data);
            let (line, behind) = data.split_at(end.unwrap_or(data.len()));
            rest = end.map(|_| behind.strip_prefix(b"\r\n").unwrap_or(&behind[1..]));
            [&b"data: "[..], line, b"\n"].iter().for_each(|part| out.extend_from_slice(part));
        }
        out.push(b'\n');
    }

    /// Appends the message as a WebSocket message, preceded by its position and type if `meta`.
    /// Content that is not text is sent as binary, since text has to be UTF-8 (RFC 6455 5.6).
    pub fn write_frame(&self, out: &mut Vec<u8>, tag: &str, meta: bool) {
        let mut head = String::new();
        if meta {
            head = format!("id: {}:{tag}\n", self.time_s);
            if !self.kind.is_empty() {
                head = format!("{head}content-type: {}\n", self.kind);
            }
            head.push('\n');
        }
        let binary = !self.is_text || self.kind.eq_ignore_ascii_case("application/octet-stream");
        frame::write_head_of(out, binary, head.len() + self.data.len());
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.data);
    }

    /// Converts the message to a response.
    pub fn into_response(self, tag: String) -> Response {
        let mut response = at(Response::empty(Status::Ok), self.time_s, tag);
        if !self.kind.is_empty() {
            response = response.with("Content-Type", self.kind);
        }
        response.fields.extend(FIELDS.iter().map(|(name, value)| (*name, Cow::Borrowed(*value))));
        Response { body: Cow::Owned(self.data.into_owned()), ..response }
    }
}

/// Adds the position to continue from to a response.
pub fn at(response: Response, time_s: u64, tag: String) -> Response {
    // The end of the year 9999, after which dates cannot be formatted.
    let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(time_s.min(253_402_300_799)));
    response.with("Last-Modified", date).with("Etag", tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: &str, data: &str, more: &str) -> Vec<u8> {
        let quote = |text: &str| serde_json::to_string(text).unwrap();
        let (kind, data) = (quote(kind), quote(data));
        let time = "2026-11-26T10:49:27.042Z";
        format!(
            "{{\"channel\":\"a\",\"id\":\"7\",\"item\":\"i\\\"\",\"time\":\"{time}\",\"type\":{kind}{more},\"data\":{data}}}"
        )
        .into_bytes()
    }

    fn event(kind: &str, data: &str) -> String {
        let (mut out, item) = (Vec::new(), item(kind, data, ""));
        Message::read(&item).write_event(&mut out, "7");
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn items_become_events() {
        assert_eq!(event("text/plain", "x"), "id: 1795690167:7\ndata: x\n\n");
        assert_eq!(event("", ""), "id: 1795690167:7\ndata: \n\n");
        let lines = "data: a\ndata: b\ndata: c\ndata: d\ndata: \ndata: \n\n";
        assert_eq!(event("x", "a\r\nb\nc\rd\n\n"), format!("id: 1795690167:7\n{lines}"));
        assert_eq!(event("text/plain; event=foo", "\u{e9}"), "event: foo\nid: 1795690167:7\ndata: \u{e9}\n\n");
        assert_eq!(event("x; event=a%0Adata: b", "x"), "id: 1795690167:7\ndata: x\n\n", "nothing is put in");
    }

    #[test]
    fn items_become_frames_and_answers() {
        let frame = |item: &[u8], meta| {
            let mut out = Vec::new();
            Message::read(item).write_frame(&mut out, "7", meta);
            (out[0], String::from_utf8_lossy(&out[2..]).into_owned())
        };
        let text = item("text/plain; event=foo", "x", "");
        let meta = "id: 1795690167:7\ncontent-type: text/plain\n\nx".to_owned();
        assert_eq!((frame(&text, false), frame(&text, true)), ((0x81, "x".into()), (0x81, meta)));
        assert_eq!(frame(&item("", "x", ""), true), (0x81, "id: 1795690167:7\n\nx".into()));
        assert_eq!(frame(&item("application/octet-stream", "x", ""), false), (0x82, "x".into()));
        assert_eq!(frame(&item("image/x", "AP8=", ",\"base64\":true"), false), (0x82, "\0\u{fffd}".into()));

        let binary = item("image/x; a=b; event=e; retry=5", "AP8=", ",\"base64\":true");
        let response = Message::read(&binary).into_response("7".into());
        let field = |name| response.fields.iter().find(|(own, _)| *own == name).map(|(_, value)| &**value);
        assert_eq!((field("Content-Type"), field("Etag")), (Some("image/x; a=b"), Some("7")));
        assert_eq!(field("Last-Modified"), Some("Thu, 26 Nov 2026 10:49:27 GMT"));
        assert_eq!(&*response.body, [0, 0xff]);
        let hostile = item("text/plain\r\nSet-Cookie: a=b", "x", "");
        assert!(
            Message::read(&hostile).into_response("7".into()).fields.iter().all(|(name, _)| *name != "Content-Type")
        );
        for broken in ["", "{", "[]", "{\"time\":\"x\",\"data\":1}"] {
            assert_eq!(Message::read(broken.as_bytes()).into_response("7".into()).body.len(), 0);
        }
    }
}

//! Responses (RFC 9112 4 and 6).

use std::borrow::Cow;
use std::time::{Duration, UNIX_EPOCH};

use super::head::Method;
use super::status::{Refusal, Status};

/// A response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: Status,
    /// Header fields besides those of every response.
    pub fields: Vec<(&'static str, Cow<'static, str>)>,
    /// The media type of the body.
    pub content_type: &'static str,
    /// The content.
    pub body: Cow<'static, [u8]>,
    /// The connection is closed afterwards.
    pub closes: bool,
}

impl Response {
    /// A response with a sentence for people.
    pub fn text(status: Status, text: &'static str) -> Response {
        let body = Cow::Owned(format!("{text}\n").into_bytes());
        Response { status, fields: Vec::new(), content_type: "text/plain; charset=utf-8", body, closes: false }
    }

    /// The response at a path at which nothing is served.
    pub fn nothing_here() -> Response {
        Response::text(Status::NotFound, "nothing is served at this path")
    }

    /// A response without a body.
    pub fn empty(status: Status) -> Response {
        Response { status, fields: Vec::new(), content_type: "", body: Cow::Borrowed(b""), closes: false }
    }

    /// A response with JSON.
    pub fn json(body: Vec<u8>) -> Response {
        Response { body: Cow::Owned(body), content_type: "application/json", ..Response::empty(Status::Ok) }
    }

    /// Adds a header field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'static, str>>) -> Response {
        self.fields.push((name, value.into()));
        self
    }

    /// Closes the connection after the response.
    #[must_use]
    pub fn closing(mut self) -> Response {
        self.closes = true;
        self
    }

    /// Appends the response to a request with this method, at a time in microseconds since 1970.
    pub fn write(&self, out: &mut Vec<u8>, method: Option<Method>, wall_us: u64) {
        self.write_head(out, wall_us, !matches!(self.status, Status::NoContent | Status::NotModified));
        if method != Some(Method::Head) {
            out.extend_from_slice(&self.body);
        }
    }

    /// Appends the head of a response whose body ends with the connection (RFC 9112 6.3).
    pub fn write_endless(&self, out: &mut Vec<u8>, wall_us: u64) {
        self.write_head(out, wall_us, false);
    }

    fn write_head(&self, out: &mut Vec<u8>, wall_us: u64, has_length: bool) {
        let mut line = |parts: &[&str]| {
            parts.iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
            out.extend_from_slice(b"\r\n");
        };
        line(&["HTTP/1.1 ", self.status.line()]);
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_micros(wall_us.min(DATE_US_MAX)));
        line(&["Date: ", &date]);
        for (name, value) in &self.fields {
            line(&[name, ": ", value]);
        }
        if has_length {
            line(&["Content-Length: ", &self.body.len().to_string()]);
        }
        if !self.content_type.is_empty() {
            line(&["Content-Type: ", self.content_type]);
            line(&["X-Content-Type-Options: nosniff"]);
        }
        if self.closes {
            line(&["Connection: close"]);
        }
        line(&[]);
    }
}

/// The end of the year 9999, after which dates cannot be formatted.
const DATE_US_MAX: u64 = 253_402_300_799_000_000;

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Response {
        Response::text(refusal.status, refusal.text).closing()
    }
}

//! The head of a request (RFC 9112 2 to 6): request line and header fields, and what they state
//! about the body.
//!
//! `httparse` parses it, once it is complete. Input that two HTTP parsers might interpret
//! differently is refused (RFC 9112 11.2): line ends other than CRLF, folded fields, white space
//! before a colon, two lengths, a length with chunks.

use httparse::{EMPTY_HEADER, Error, Status as Parsed};
use memchr::memchr_iter;

use super::status::{Refusal, Status};
use crate::limits::{HTTP_HEAD_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_TARGET_BYTES_MAX};

/// A method (RFC 9110 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// OPTIONS
    Options,
    /// PATCH, TRACE and CONNECT, which no path accepts
    Other,
}

impl Method {
    /// Parses a method, which is case-sensitive (RFC 9110 9.1).
    pub fn of(name: &str) -> Option<Method> {
        Some(match name {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            "OPTIONS" => Method::Options,
            "PATCH" | "TRACE" | "CONNECT" => Method::Other,
            _ => return None,
        })
    }

    /// The method's name.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Other => "",
        }
    }
}

/// The framing of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// No body: the next request follows.
    Nothing,
    /// A body of this many bytes, at least one.
    Length(u64),
    /// A body in chunks (RFC 9112 7.1).
    Chunked,
}

/// A parsed request head.
#[derive(Clone, Debug)]
pub struct Head<'a> {
    /// The request method.
    pub method: Method,
    /// The path as sent, neither decoded nor resolved. `*` for OPTIONS on the server as a whole.
    pub path: &'a str,
    /// The part after `?`, as sent; empty if there is none.
    pub query: &'a str,
    /// The host and port of the request, which HTTP/1.0 may omit.
    pub host: Option<&'a str>,
    /// The version is HTTP/1.1, not 1.0.
    pub is_1_1: bool,
    /// The framing of the body.
    pub content: Content,
    /// The client waits for `100 Continue` before it sends the body (RFC 9110 10.1.1).
    pub expects_continue: bool,
    /// The connection stays open afterwards (RFC 9112 9.3).
    pub keeps_alive: bool,
    /// Length of the head, in bytes.
    pub bytes: usize,
    fields: Vec<(&'a str, &'a str)>,
}

impl<'a> Head<'a> {
    /// The values of all fields with this name, in any case.
    pub fn all<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'a str> + 'b {
        self.fields.iter().filter(move |(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// The value of the only field with this name; `None` if there is none, or more than one.
    pub fn one(&self, name: &str) -> Option<&'a str> {
        let mut all = self.all(name);
        all.next().filter(|_| all.next().is_none())
    }

    /// The elements of a list (RFC 9110 5.6.1), over all fields with this name.
    pub fn list<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'a str> + 'b {
        self.all(name).flat_map(|value| value.split(',')).map(trimmed).filter(|element| !element.is_empty())
    }

    /// Whether a list contains this token, in any case.
    pub fn lists(&self, name: &str, token: &str) -> bool {
        self.list(name).any(|own| own.eq_ignore_ascii_case(token))
    }
}

/// Length of the empty lines before a request, which are ignored (RFC 9112 2.2), in bytes.
pub fn empty_lines(bytes: &[u8]) -> usize {
    bytes.chunks_exact(2).take_while(|pair| *pair == b"\r\n").count() * 2
}

/// Parses the head at the beginning of the input, of which the previous attempt saw `seen` bytes;
/// `None` if it is incomplete. Each byte is examined a bounded number of times, however small the
/// pieces of input are.
///
/// # Errors
/// What is malformed; the connection has to be closed.
pub fn read(bytes: &[u8], seen: usize) -> Result<Option<Head<'_>>, Refusal> {
    let Some(end) = end_of(bytes, seen)? else {
        if bytes.len() < HTTP_HEAD_BYTES_MAX {
            return Ok(None);
        }
        return Err(match memchr::memchr(b'\n', bytes) {
            Some(_) => Refusal::of(Status::HeaderFieldsTooLarge, "the header fields are too long"),
            None => Refusal::of(Status::UriTooLong, "the request line is too long"),
        });
    };
    if end > HTTP_HEAD_BYTES_MAX {
        return Err(Refusal::of(Status::HeaderFieldsTooLarge, "the header fields are too long"));
    }
    parse(&bytes[..end]).map(Some)
}

/// The end of the head, after its empty line.
fn end_of(bytes: &[u8], seen: usize) -> Result<Option<usize>, Refusal> {
    let from = seen.min(bytes.len());
    for at in memchr_iter(b'\n', &bytes[from..]).map(|at| from + at) {
        match bytes[..at].last() {
            Some(b'\r') if bytes[..at].ends_with(b"\r\n\r") => return Ok(Some(at + 1)),
            Some(b'\r') => {}
            // RFC 9112 2.2 allows a bare LF as a line end, but not every parser accepts it.
            _ => return Err(Refusal::bad("a line ends without a carriage return")),
        }
    }
    Ok(None)
}

fn parse(bytes: &[u8]) -> Result<Head<'_>, Refusal> {
    let mut fields = [EMPTY_HEADER; HTTP_HEADERS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(bytes) {
        Ok(Parsed::Complete(end)) if end == bytes.len() => {}
        Ok(_) => return Err(Refusal::bad("the head of the request is incomplete")),
        Err(Error::TooManyHeaders) => {
            return Err(Refusal::of(Status::HeaderFieldsTooLarge, "there are too many header fields"));
        }
        Err(Error::Version) => {
            return Err(Refusal::of(Status::VersionNotSupported, "this version of HTTP is not supported"));
        }
        Err(Error::HeaderName) => return Err(Refusal::bad("the name of a header field is malformed")),
        Err(Error::HeaderValue) => return Err(Refusal::bad("the value of a header field is malformed")),
        Err(_) => return Err(Refusal::bad("this is not an HTTP request")),
    }
    let (Some(method), Some(target), Some(minor)) = (request.method, request.path, request.version) else {
        return Err(Refusal::bad("this is not an HTTP request"));
    };
    let Some(method) = Method::of(method) else {
        return Err(Refusal::of(Status::NotImplemented, "the method is unknown"));
    };
    let mut all = Vec::with_capacity(request.headers.len());
    for field in &*request.headers {
        // Values may contain any bytes from 128 on (RFC 9110 5.5), none of which has a meaning
        // here.
        all.push((field.name, trimmed(std::str::from_utf8(field.value).unwrap_or_default())));
    }
    let mut head = Head {
        method,
        path: "",
        query: "",
        host: None,
        is_1_1: minor == 1,
        content: Content::Nothing,
        expects_continue: false,
        keeps_alive: false,
        bytes: bytes.len(),
        fields: all,
    };
    let authority = read_target(&mut head, target)?;
    head.host = read_host(&head, authority)?;
    head.content = read_content(&head)?;
    let expects = head.all("expect").next();
    head.expects_continue = match expects {
        None => false,
        Some(value) if value.eq_ignore_ascii_case("100-continue") => head.is_1_1,
        Some(_) => return Err(Refusal::of(Status::ExpectationFailed, "the expectation is unknown")),
    };
    // HTTP/1.0 connections persist only by an agreement that proxies may not know (RFC 9112 C.2.2).
    head.keeps_alive = head.is_1_1 && !head.lists("connection", "close");
    Ok(head)
}

/// Removes the white space that may surround field values (RFC 9110 5.6.3), and no other.
fn trimmed(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// RFC 9112 3.2: an absolute path; an absolute URI, whose host is returned; or `*`.
fn read_target<'a>(head: &mut Head<'a>, target: &'a str) -> Result<Option<&'a str>, Refusal> {
    if target.len() > HTTP_TARGET_BYTES_MAX {
        return Err(Refusal::of(Status::UriTooLong, "the request target is too long"));
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) || target.contains('#') {
        return Err(Refusal::bad("the request target has invalid characters"));
    }
    if target == "*" && head.method == Method::Options {
        head.path = target;
        return Ok(None);
    }
    let absolute = ["http://", "https://"].into_iter().find_map(|scheme| {
        let begins = target.get(..scheme.len()).is_some_and(|own| own.eq_ignore_ascii_case(scheme));
        begins.then(|| &target[scheme.len()..])
    });
    let (authority, path) = match absolute {
        Some(rest) => match rest.find(['/', '?']) {
            Some(at) if rest.as_bytes()[at] == b'/' => (Some(&rest[..at]), &rest[at..]),
            _ => return Err(Refusal::bad("the request target has no path")),
        },
        None if target.starts_with('/') => (None, target),
        None => return Err(Refusal::bad("the request target is not a path")),
    };
    (head.path, head.query) = path.split_once('?').unwrap_or((path, ""));
    Ok(authority)
}

/// RFC 9112 3.2: an HTTP/1.1 request has exactly one `Host`; the host of an absolute URI overrides
/// it.
fn read_host<'a>(head: &Head<'a>, authority: Option<&'a str>) -> Result<Option<&'a str>, Refusal> {
    let (host, fields) = (head.one("host"), head.all("host").count());
    if fields > 1 || (fields == 0 && head.is_1_1) {
        return Err(Refusal::bad("the request must have exactly one Host field"));
    }
    let named = authority.or(host);
    let fits = |host: &str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte));
    match named {
        Some(host) if !fits(host) => Err(Refusal::bad("the Host field is invalid")),
        named => Ok(named),
    }
}

/// RFC 9112 6.
fn read_content(head: &Head<'_>) -> Result<Content, Refusal> {
    let mut lengths = head.all("content-length");
    let length = lengths.next();
    if lengths.next().is_some() {
        return Err(Refusal::bad("the request has two lengths"));
    }
    let mut codings = head.all("transfer-encoding").peekable();
    if codings.peek().is_some() {
        if length.is_some() {
            return Err(Refusal::bad("the request has both a length and a transfer coding"));
        }
        if !head.is_1_1 {
            return Err(Refusal::bad("HTTP/1.0 has no transfer codings"));
        }
        let codings: Vec<&str> = codings.flat_map(|value| value.split(',')).map(trimmed).collect();
        let chunked = codings.iter().filter(|coding| coding.eq_ignore_ascii_case("chunked")).count();
        return match codings[..] {
            [_] if chunked == 1 => Ok(Content::Chunked),
            [.., last] if chunked == 1 && last.eq_ignore_ascii_case("chunked") => {
                Err(Refusal::of(Status::NotImplemented, "the transfer coding is unknown"))
            }
            [_] if chunked == 0 => Err(Refusal::of(Status::NotImplemented, "the transfer coding is unknown")),
            _ => Err(Refusal::bad("the last transfer coding must be chunked")),
        };
    }
    let Some(length) = length else { return Ok(Content::Nothing) };
    let digits = !length.is_empty() && length.len() <= 18 && length.bytes().all(|byte| byte.is_ascii_digit());
    match length.parse() {
        Ok(0) if digits => Ok(Content::Nothing),
        Ok(bytes) if digits => Ok(Content::Length(bytes)),
        _ => Err(Refusal::bad("the length is not a number")),
    }
}

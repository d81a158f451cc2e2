//! The `<body/>` of a request (XEP-0124 6, 7.1; XEP-0206).

use sha1::{Digest as _, Sha1};

use super::{Condition, HTTPBIND, Sid, XBOSH, hex};
use crate::limits::wire::MAX_HEADER_DECLARED_BYTES;
use crate::limits::{BOSH_BODY_BYTES_MAX, BOSH_CONTENT_BYTES_MAX};
use crate::wire::stream::Version;
use crate::wire::{Element, Expect, Progress, Scanner, StreamScope};

/// The highest request identifier, `rid` (XEP-0124 14.1).
pub const RID_MAX: u64 = (1 << 53) - 1;

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Wrapper {
    /// The session that it belongs to; `None` in the request that creates a session.
    pub sid: Option<Named>,
    /// Its request identifier.
    pub rid: u64,
    /// It terminates the session.
    pub terminates: bool,
    /// It restarts the stream (XEP-0206 5).
    pub restarts: bool,
    /// The key that proves that it belongs to the session.
    pub key: Option<Key>,
    /// The first key of a new sequence.
    pub newkey: Option<[u8; 20]>,
    /// The client has received the responses to all requests up to this one.
    pub ack: Option<u64>,
    /// The client will pause for this time, in seconds.
    pub pause_s: Option<u32>,
    /// It names one of several streams.
    pub names_stream: bool,
    /// The domain that the client connects to.
    pub to: Option<Box<str>>,
    /// The address that the client claims.
    pub from: Option<Box<str>>,
    /// The language of the stream.
    pub lang: Option<Box<str>>,
    /// Parameters of the request that creates a session.
    pub begins: Begins,
    /// The declarations that its content inherits.
    pub scope: StreamScope,
    /// Its content: complete elements, with white space between them.
    pub content: Vec<u8>,
}

/// Parameters of the request that creates a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Begins {
    /// The version of BOSH.
    pub ver: Option<Ver>,
    /// How long a request may wait, in seconds.
    pub wait_s: Option<u32>,
    /// How many requests may wait.
    pub hold: Option<u8>,
    /// The media type for responses.
    pub content_type: Option<Box<str>>,
    /// The version of XMPP (XEP-0206 3).
    pub version: Option<Version>,
}

/// The session that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Named {
    /// An identifier in the form of this server's, which may be a session's.
    Sid(Sid),
    /// An identifier that this server never issues.
    Nobody,
}

/// A version of BOSH: two numbers, compared numerically (XEP-0124 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Ver(pub u16, pub u16);

/// A key of a key sequence (XEP-0124 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Key {
    /// The key itself, decoded.
    pub own: [u8; 20],
    /// The hash of its digits as sent, which equals the key before it.
    pub hash: [u8; 20],
}

/// Parses a request. After an error, the session that it was for is unknown.
///
/// # Errors
/// The condition to report.
pub fn read(scanner: &mut Scanner, bytes: &[u8]) -> Result<Wrapper, Condition> {
    let read = scan(scanner, bytes.trim_ascii());
    scanner.reset();
    read
}

fn scan(scanner: &mut Scanner, bytes: &[u8]) -> Result<Wrapper, Condition> {
    let none = &StreamScope::None;
    // Some clients send an XML declaration (XML 1.0 2.8).
    let bytes = match scanner.scan(none, Expect::Opening, BOSH_BODY_BYTES_MAX, bytes) {
        Ok(Progress::Declaration { consumed }) => bytes[consumed..].trim_ascii(),
        _ => bytes,
    };
    scanner.reset();
    match scanner.scan(none, Expect::Content, BOSH_BODY_BYTES_MAX, bytes) {
        Ok(Progress::Element { consumed }) if consumed == bytes.len() => {
            wrapper(&scanner.element(none, bytes)).ok_or(Condition::BadRequest)
        }
        _ => Err(Condition::BadRequest),
    }
}

fn wrapper(element: &Element<'_>) -> Option<Wrapper> {
    if !element.is("body", HTTPBIND) || !holds_elements_only(element) || declared_bytes(element) > DECLARED_BYTES_MAX {
        return None;
    }
    let text = |name: &str| element.attribute(name);
    let number = |name: &str| match text(name) {
        None => Some(None),
        Some(value) => Some(Some(number(&value)?)),
    };
    let small = |name: &str| Some(number(name)?.map(|value| u32::try_from(value).unwrap_or(u32::MAX)));
    let xbosh = |name: &str| {
        let of = |prefix: &str| element.declarations().any(|(own, value)| own == prefix && value == XBOSH);
        let found = element.attributes().find(|own| own.name() == name && !own.prefix().is_empty() && of(own.prefix()));
        found.map(|own| own.value())
    };
    let content_type = match text("content") {
        None => None,
        Some(value) if is_content_type(&value) => Some(value.into()),
        Some(_) => return None,
    };
    let ver = match text("ver") {
        None => None,
        Some(value) => Some(ver(&value)?),
    };
    let newkey = match text("newkey") {
        None => None,
        Some(value) => Some(hex(&value)?),
    };
    Some(Wrapper {
        sid: text("sid").map(|sid| Sid::parse(&sid).map_or(Named::Nobody, Named::Sid)),
        rid: number("rid")?.filter(|rid| (1..=RID_MAX).contains(rid))?,
        terminates: element.kind().as_deref() == Some("terminate"),
        restarts: xbosh("restart").is_some_and(|value| matches!(&*value, "true" | "1")),
        // A malformed key is treated like any other wrong key.
        key: text("key").map(|key| Key { own: hex(&key).unwrap_or_default(), hash: hash(key.as_bytes()) }),
        newkey,
        ack: number("ack")?,
        pause_s: small("pause")?,
        names_stream: text("stream").is_some(),
        to: element.to().map(Into::into),
        from: element.from().map(Into::into),
        lang: element.lang().map(Into::into),
        begins: Begins {
            ver,
            wait_s: small("wait")?,
            hold: small("hold")?.map(|hold| u8::try_from(hold).unwrap_or(u8::MAX)),
            content_type,
            version: xbosh("version").map_or(Some(Version::XMPP_1_0), |version| Version::parse(&version)),
        },
        scope: StreamScope::of_wrapper(element, HTTPBIND),
        content: if element.children().len() == 0 { Vec::new() } else { element.inner().to_vec() },
    })
}

/// Limit on the declarations of `<body/>` that may be added to a copy of a stanza, in bytes: as for
/// a stream header, with the prefix of XEP-0206 besides.
const DECLARED_BYTES_MAX: usize = MAX_HEADER_DECLARED_BYTES;

fn declared_bytes(element: &Element<'_>) -> usize {
    let prefixed = element.declarations().filter(|(prefix, _)| !prefix.is_empty());
    prefixed.map(|(prefix, name)| " xmlns:=''".len() + prefix.len() + name.len()).sum()
}

/// XEP-0124 6 allows no text. White space between elements is tolerated as formatting.
fn holds_elements_only(element: &Element<'_>) -> bool {
    let bytes = element.bytes();
    let inner = element.inner();
    if inner.is_empty() {
        return true;
    }
    let (mut at, end) = match (element.children().next(), element.children().next_back()) {
        (Some(first), Some(last)) => (first.range().start, last.range().end),
        _ => return inner.trim_ascii().is_empty(),
    };
    let start = bytes.len() - inner.len() - closing_bytes(bytes);
    let behind = &bytes[end..start + inner.len()];
    let mut clean = bytes[start..at].trim_ascii().is_empty() && behind.trim_ascii().is_empty();
    for child in element.children() {
        clean &= bytes[at..child.range().start].trim_ascii().is_empty();
        at = child.range().end;
    }
    clean
}

/// Length of the end tag of an element with content, which is at the end of `bytes`.
fn closing_bytes(bytes: &[u8]) -> usize {
    bytes.len() - memchr::memrchr(b'<', bytes).unwrap_or_default()
}

fn number(text: &str) -> Option<u64> {
    let digits = (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn ver(text: &str) -> Option<Ver> {
    let Version { major, minor } = Version::parse(text)?;
    Some(Ver(major, minor))
}

/// Whether a media type is safe in a header field: input from a client must not inject further
/// fields.
fn is_content_type(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b" ;=/.+-_\"".contains(&byte);
    text.len() <= BOSH_CONTENT_BYTES_MAX
        && text.split_once('/').is_some_and(|(kind, _)| !kind.is_empty())
        && text.bytes().all(fits)
}

/// The hash function of key sequences (XEP-0124 15.3).
pub fn hash(bytes: &[u8]) -> [u8; 20] {
    Sha1::digest(bytes).into()
}

//! Stream headers: reading a peer's, writing the server's (RFC 6120 4.7, 4.8).
//!
//! It must never decide whether to accept a peer: hosts, versions to refuse and languages are the
//! session's concern.

use super::element::Element;
use super::jid::bare_of;
use super::ns;
use super::scope::StreamScope;
use super::text::write_attribute;
use crate::limits::wire::MAX_HEADER_DECLARED_BYTES;
use std::borrow::Cow;

/// Why a well-formed header does not open a client's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderFault {
    /// The element is `stream` without the prefix that its namespace requires (RFC 6120 4.9.3.2).
    BadNamespacePrefix,
    /// The element is not a `stream` (RFC 6120 4.9.3.1).
    NotStream,
    /// The stream or content namespace is a different one (RFC 6120 4.9.3.10).
    InvalidNamespace,
    /// The header declares more than may be repeated on each stanza (RFC 6120 4.9.3.14).
    DeclaresTooMuch,
}

impl HeaderFault {
    /// The stream error condition to answer with.
    pub fn condition(self) -> &'static str {
        match self {
            HeaderFault::BadNamespacePrefix => "bad-namespace-prefix",
            HeaderFault::NotStream => "bad-format",
            HeaderFault::InvalidNamespace => "invalid-namespace",
            HeaderFault::DeclaresTooMuch => "policy-violation",
        }
    }

    /// A sentence for the error's `<text/>`, if the condition is not specific enough.
    pub fn text(self) -> Option<&'static str> {
        match self {
            HeaderFault::DeclaresTooMuch => {
                Some("the stream header declares too many namespaces; declare them in the stanzas that use them")
            }
            _ => None,
        }
    }
}

/// The version of XMPP on a stream (RFC 6120 4.7.5). The two numbers are compared as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Version {
    /// The number before the dot.
    pub major: u16,
    /// The number after the dot.
    pub minor: u16,
}

impl Version {
    /// The version that this server speaks.
    pub const XMPP_1_0: Version = Version { major: 1, minor: 0 };
    /// The version implied by a header without one.
    pub const UNSTATED: Version = Version { major: 0, minor: 9 };

    /// Parses `major.minor`, ignoring leading zeros (RFC 6120 4.7.5). `None` if it is anything
    /// else.
    pub fn parse(text: &str) -> Option<Version> {
        let (major, minor) = text.split_once('.')?;
        let number = |digits: &str| {
            let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            all_digits.then(|| digits.parse().unwrap_or(u16::MAX))
        };
        Some(Version { major: number(major)?, minor: number(minor)? })
    }
}

/// The content of a peer's stream header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// The host that the peer addresses.
    pub to: Option<Cow<'a, str>>,
    /// The address that the peer claims.
    pub from: Option<Cow<'a, str>>,
    /// The version; `None` if it is not two numbers, which is answered with
    /// `<unsupported-version/>` (RFC 6120 4.9.3.25).
    pub version: Option<Version>,
    /// The default language of the stream's stanzas.
    pub lang: Option<Cow<'a, str>>,
}

impl StreamScope {
    /// The scope that a header opens. A component's content is treated as a client's content from
    /// then on.
    pub fn of_header(header: &Element<'_>) -> StreamScope {
        let mut default = Cow::Borrowed("");
        let mut prefixes: Vec<(Box<str>, Box<str>)> = Vec::new();
        for (prefix, name) in header.declarations() {
            match prefix {
                "" if name == ns::COMPONENT => default = Cow::Borrowed(ns::CLIENT),
                "" => default = name,
                "xml" => {}
                _ => prefixes.push((prefix.into(), name.into())),
            }
        }
        StreamScope::declared_by(header.qualified_name(), &default, prefixes)
    }

    /// The scope of an element around stanzas whose own namespace, `own`, is treated as a client's
    /// content (XEP-0206 2).
    pub fn of_wrapper(wrapper: &Element<'_>, own: &str) -> StreamScope {
        let mut default = Cow::Borrowed("");
        let mut prefixes: Vec<(Box<str>, Box<str>)> = Vec::new();
        for (prefix, name) in wrapper.declarations() {
            match prefix {
                "" if name == own => default = Cow::Borrowed(ns::CLIENT),
                "" => default = name,
                "xml" => {}
                _ => prefixes.push((prefix.into(), name.into())),
            }
        }
        let is_stream = |(prefix, name): &(Box<str>, Box<str>)| (&**prefix, &**name) == ("stream", ns::STREAM);
        if default == ns::CLIENT && prefixes.iter().all(is_stream) {
            return StreamScope::Usual;
        }
        StreamScope::declared_by(wrapper.qualified_name(), &default, prefixes)
    }
}

/// Reads a client's header.
pub fn read_header<'a>(header: &Element<'a>) -> Result<Header<'a>, HeaderFault> {
    read(header, leads_to_client_content)
}

/// Reads a component's header (XEP-0114 3).
pub fn read_component_header<'a>(header: &Element<'a>) -> Result<Header<'a>, HeaderFault> {
    read(header, |header| default_namespace(header) == ns::COMPONENT)
}

fn read<'a>(header: &Element<'a>, leads: impl Fn(&Element<'_>) -> bool) -> Result<Header<'a>, HeaderFault> {
    let is_stream = header.name() == "stream";
    if header.namespace() != ns::STREAM {
        let unprefixed = is_stream && header.prefix().is_empty();
        let stream_declared = header.declarations().any(|(prefix, name)| !prefix.is_empty() && name == ns::STREAM);
        return Err(if unprefixed && stream_declared {
            HeaderFault::BadNamespacePrefix
        } else {
            HeaderFault::InvalidNamespace
        });
    }
    if !is_stream {
        return Err(HeaderFault::NotStream);
    }
    if !leads(header) {
        return Err(HeaderFault::InvalidNamespace);
    }
    if declared_bytes(header) > MAX_HEADER_DECLARED_BYTES {
        return Err(HeaderFault::DeclaresTooMuch);
    }
    let version = match header.attribute("version") {
        Some(text) => Version::parse(&text),
        None => Some(Version::UNSTATED),
    };
    Ok(Header { to: header.to(), from: header.from(), version, lang: header.lang() })
}

/// Bytes that a stanza grows by if it uses everything that the header declares beyond the usual
/// declarations: its copy declares them itself.
fn declared_bytes(header: &Element<'_>) -> usize {
    let mut out = Vec::new();
    let all = header.declarations().filter(|(prefix, _)| !prefix.is_empty() && *prefix != "xml");
    for (prefix, name) in all.filter(|(prefix, name)| (*prefix, &**name) != ("stream", ns::STREAM)) {
        write_attribute(&mut out, "xmlns:", &name);
        out.extend_from_slice(prefix.as_bytes());
    }
    out.len()
}

/// Whether the content namespace is a client's, or each first-level element must declare it. In the
/// latter case the stream's own namespace is the default, or there is none (RFC 6120 4.8.2, 4.8.3).
fn leads_to_client_content(header: &Element<'_>) -> bool {
    matches!(&*default_namespace(header), ns::CLIENT | ns::STREAM | "")
}

fn default_namespace<'a>(header: &Element<'a>) -> Cow<'a, str> {
    header.declarations().find(|(prefix, _)| prefix.is_empty()).map_or(Cow::Borrowed(""), |(_, name)| name)
}

/// The server's answer to a header.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The host (RFC 6120 4.7.1).
    pub from: &'a str,
    /// The peer's bare JID, if its header had a `from` (RFC 6120 4.7.2).
    pub to: Option<&'a str>,
    /// The lower of both sides' versions; `None` for a peer that predates XMPP 1.0 (RFC 6120
    /// 4.7.5).
    pub version: Option<Version>,
    /// The stream's identifier: unique and unpredictable (RFC 6120 4.7.3).
    pub id: &'a str,
    /// The language of the server's texts (RFC 6120 4.7.4).
    pub lang: &'a str,
}

impl<'a> Response<'a> {
    /// The response of the host `from` to a peer's header.
    pub fn answering(header: &'a Header<'_>, id: &'a str, from: &'a str, lang: &'a str) -> Response<'a> {
        let lower = header.version.map_or(Version::XMPP_1_0, |version| version.min(Version::XMPP_1_0));
        let version = (lower != Version::UNSTATED).then_some(lower);
        Response { from, to: header.from.as_deref().map(bare_of), version, id, lang }
    }
}

/// Appends the XML declaration and the server's stream header.
pub fn write_header(out: &mut Vec<u8>, response: &Response<'_>) {
    out.extend_from_slice(b"<?xml version='1.0'?><stream:stream");
    write_attribute(out, "xmlns", ns::CLIENT);
    write_attribute(out, "xmlns:stream", ns::STREAM);
    write_attribute(out, "id", response.id);
    write_attribute(out, "from", response.from);
    if let Some(to) = response.to {
        write_attribute(out, "to", to);
    }
    if let Some(Version { major, minor }) = response.version {
        write_attribute(out, "version", &format!("{major}.{minor}"));
    }
    write_attribute(out, "xml:lang", response.lang);
    out.push(b'>');
}

/// Appends the server's stream header for a component (XEP-0114 3): from the component's own
/// domain, without a version.
pub fn write_component_header(out: &mut Vec<u8>, id: &str, from: &str) {
    out.extend_from_slice(b"<?xml version='1.0'?><stream:stream");
    write_attribute(out, "xmlns", ns::COMPONENT);
    write_attribute(out, "xmlns:stream", ns::STREAM);
    write_attribute(out, "id", id);
    write_attribute(out, "from", from);
    out.push(b'>');
}

/// The end tag of a stream.
pub const STREAM_END: &[u8] = b"</stream:stream>";

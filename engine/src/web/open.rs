//! `<open/>` and `<close/>`, which replace the header and the end of a stream (RFC 7395 3.3).

use crate::wire::Element;
use crate::wire::stream::{Header, Version};

/// The namespace of both elements.
pub const FRAMING: &str = "urn:ietf:params:xml:ns:xmpp-framing";

/// Parses `<open/>`, which has the attributes of a stream header (RFC 7395 3.3.2).
pub fn read<'a>(element: &Element<'a>) -> Header<'a> {
    let version = match element.attribute("version") {
        Some(text) => Version::parse(&text),
        None => Some(Version::UNSTATED),
    };
    Header { to: element.to(), from: element.from(), version, lang: element.lang() }
}

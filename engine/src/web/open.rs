//! `<open/>` and `<close/>`, which stand for the header and the end of a stream (RFC 7395 3.3).

use crate::wire::Element;
use crate::wire::stream::{Header, Version};

/// Their namespace.
pub const FRAMING: &str = "urn:ietf:params:xml:ns:xmpp-framing";

/// Reads `<open/>`: it says what a stream header says (RFC 7395 3.3.2).
pub fn read<'a>(element: &Element<'a>) -> Header<'a> {
    let version = match element.attribute("version") {
        Some(text) => Version::parse(&text),
        None => Some(Version::UNSTATED),
    };
    Header { to: element.to(), from: element.from(), version, lang: element.lang() }
}

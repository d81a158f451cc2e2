//! Elements as XML in the context of a given default namespace.

use minidom::{Element, Node};

use crate::limits::wire::MAX_STANZA_BYTES_DEFAULT;
use crate::wire::text::{escape_into, write_attribute};
use crate::wire::{Expect, Progress, Scanner, StreamScope};

const NS_XML: &str = "http://www.w3.org/XML/1998/namespace";

/// Appends an element where `inherited` is the default namespace. Prefixes are used for attributes
/// only.
pub(super) fn write(out: &mut Vec<u8>, element: &Element, inherited: &str) {
    write_with(out, element, inherited, &[], &|_| true);
}

/// The same with other values for some attributes, and without some children.
pub(super) fn write_with(
    out: &mut Vec<u8>,
    element: &Element,
    inherited: &str,
    others: &[(&str, &str)],
    stays: &dyn Fn(&Element) -> bool,
) {
    let own = element.ns();
    out.push(b'<');
    out.extend_from_slice(element.name().as_bytes());
    if own != inherited {
        write_attribute(out, "xmlns", &own);
    }
    for (number, ((space, name), value)) in element.attrs().iter().enumerate() {
        match space.as_str() {
            "" if others.iter().any(|(other, _)| *other == name.as_str()) => {}
            "" => write_attribute(out, name.as_str(), value),
            NS_XML => write_attribute(out, &format!("xml:{name}"), value),
            other => {
                write_attribute(out, &format!("xmlns:a{number}"), other);
                write_attribute(out, &format!("a{number}:{name}"), value);
            }
        }
    }
    others.iter().for_each(|(name, value)| write_attribute(out, name, value));
    if element.nodes().next().is_none() {
        out.extend_from_slice(b"/>");
        return;
    }
    out.push(b'>');
    for node in element.nodes() {
        match node {
            Node::Element(child) if !stays(child) => {}
            Node::Element(child) => write(out, child, &own),
            Node::Text(text) => escape_into(out, text),
        }
    }
    out.extend_from_slice(b"</");
    out.extend_from_slice(element.name().as_bytes());
    out.push(b'>');
}

/// A standalone element: it declares its namespace, even if that is empty.
pub(super) fn whole(element: &Element) -> Vec<u8> {
    /// A name that equals no namespace.
    const UNKNOWN: &str = "\0";
    let mut out = Vec::new();
    write(&mut out, element, UNKNOWN);
    out
}

/// Whether a stanza could have come from a client: the scanner will read the stored form again.
pub(super) fn is_stanza(xml: &[u8]) -> bool {
    let scanned = Scanner::new().scan(&StreamScope::Usual, Expect::Content, MAX_STANZA_BYTES_DEFAULT, xml);
    matches!(scanned, Ok(Progress::Element { consumed }) if consumed == xml.len())
}

//! Parsing a payload into a tree and writing text as XML, for everything except the path of a
//! message.

use crate::limits::{PAYLOAD_ELEMENT_BYTES, PAYLOAD_ELEMENTS_SPARE};
use minidom::Element;
use std::io::{self, BufRead, Read};

pub use crate::wire::text::{escape_into as escape, write_attribute as attribute};

/// Upper bound of the number of elements in a payload.
pub fn elements(payload: &[u8]) -> usize {
    let begins = |&at: &usize| payload.get(at + 1) != Some(&b'/');
    memchr::memchr_iter(b'<', payload).filter(begins).count()
}

/// Whether a payload has more elements than its length allows: this bounds the cost of a tree per
/// byte.
pub fn is_dense(payload: &[u8]) -> bool {
    elements(payload) > PAYLOAD_ELEMENTS_SPARE + payload.len() / PAYLOAD_ELEMENT_BYTES
}

/// Limit of the elements of a payload that are read into a tree: zero if they are too dense.
pub fn to_be_read(payload: &[u8]) -> usize {
    if is_dense(payload) { 0 } else { elements(payload) }
}

/// Reads one element: the complete XML of a stanza's child. If it declares no default namespace,
/// that is `jabber:client`, as in its stream (RFC 6120 4.8.3). `None` if it is not one well-formed
/// element.
pub fn parse(payload: &[u8]) -> Option<Element> {
    Element::from_reader_with_prefixes(Pieces(payload), "jabber:client".to_owned()).ok()
}

/// Bytes passed to the library at once. It takes long text in parts, and for each part it searches
/// all the input for the end of the text.
const PIECE: usize = 4_096;

/// The rest of a payload, read in pieces.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl BufRead for Pieces<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        Ok(&self.0[..self.0.len().min(PIECE)])
    }

    fn consume(&mut self, bytes: usize) {
        self.0.consume(bytes);
    }
}

/// Appends `<name>text</name>`.
pub fn text_element(out: &mut Vec<u8>, name: &str, text: &str) {
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
    escape(out, text);
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

/// The element as self-contained XML: it declares its own namespaces.
pub fn written(element: &Element) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    element.write_to(&mut out).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in "[\t\n\r -\u{d7ff}]{0,40}") {
            let mut out = b"<a".to_vec();
            attribute(&mut out, "b", &value);
            out.push(b'>');
            text_element(&mut out, "c", &value);
            out.extend_from_slice(b"</a>");
            let element = parse(&out).expect("well-formed");
            prop_assert_eq!(element.attr("b"), Some(value.as_str()));
            prop_assert_eq!(element.get_child("c", "jabber:client").expect("a child").text(), value);
        }
    }

    #[test]
    fn only_one_whole_element_is_read() {
        assert!(parse(b"<a><b></a>").is_none());
        assert!(parse(b"<a>").is_none());
        assert!(parse(b"").is_none());
        assert!(parse(b"<a xmlns='x'/>").is_some_and(|element| element.is("a", "x")));
        assert!(parse(b"<a/>").is_some_and(|element| element.is("a", "jabber:client")));
    }
}

//! Reading a payload into a tree and writing text into XML, for everything that is off the way of a message.

use minidom::Element;

pub use crate::wire::text::{escape_into as escape, write_attribute as attribute};

/// Reads one element: the complete XML of a stanza's child. Its default namespace is `jabber:client` where it declares
/// none, as in the stream that it came from (RFC 6120 4.8.3). `None` if it is not one well-formed element.
pub fn parse(payload: &[u8]) -> Option<Element> {
    Element::from_reader_with_prefixes(payload, "jabber:client".to_owned()).ok()
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

//! Parsing a payload into a tree and writing text as XML, for everything except the path of a
//! message.

use crate::limits::{PAYLOAD_ELEMENT_BYTES, PAYLOAD_ELEMENTS_SPARE};
use minidom::{Element, Node};
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

/// The same; `None` also if it has more elements than its length allows ([`is_dense`]).
pub fn parse_sparse(payload: &[u8]) -> Option<Element> {
    (!is_dense(payload)).then(|| parse(payload)).flatten()
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

/// The element as self-contained XML: it declares its own namespaces. Prefixes are kept.
///
/// The writer of the library panics on XML that is well-formed: on a prefix that is declared again
/// within its scope, and on a declaration of `xml` (Namespaces in XML 1.0, 3 and 6.1).
pub fn written(element: &Element) -> Vec<u8> {
    let mut out = Vec::new();
    write(element, &mut Vec::new(), &mut out);
    out
}

/// The namespace of the prefix `xml`, which needs no declaration.
const NS_XML: &str = "http://www.w3.org/XML/1998/namespace";
/// The namespace of the prefix `xmlns`, which must not be declared.
const NS_XMLNS: &str = "http://www.w3.org/2000/xmlns/";

/// A declaration of a namespace.
struct Declared {
    /// `None` for the default namespace.
    prefix: Option<Box<str>>,
    ns: String,
    /// Whether an inner element binds the prefix to another namespace.
    hidden: bool,
}

/// The namespace of a prefix; the default namespace for `None`.
fn meaning<'a>(scope: &'a [Declared], prefix: Option<&str>) -> Option<&'a str> {
    scope.iter().find(|one| !one.hidden && one.prefix.as_deref() == prefix).map(|one| one.ns.as_str())
}

/// A prefix for a namespace, declared outside of the element or by it.
fn prefix_for<'a>(scope: &'a [Declared], wanted: &str) -> Option<&'a str> {
    scope.iter().filter(|one| !one.hidden && one.ns == wanted).find_map(|one| one.prefix.as_deref())
}

/// Binds a prefix, for the rest of the scope.
fn bind(scope: &mut Vec<Declared>, prefix: Option<&str>, ns: &str) {
    if let Some(outer) = scope.iter_mut().find(|one| !one.hidden && one.prefix.as_deref() == prefix) {
        outer.hidden = true;
    }
    scope.push(Declared { prefix: prefix.map(Into::into), ns: ns.to_owned(), hidden: false });
}

/// Ends the scope of the declarations of an element.
fn unbind(scope: &mut Vec<Declared>, outside: usize) {
    for inner in scope.split_off(outside) {
        if let Some(outer) = scope.iter_mut().rev().find(|one| one.prefix == inner.prefix) {
            outer.hidden = false;
        }
    }
}

/// Declares a prefix that nothing in scope has.
fn declare(scope: &mut Vec<Declared>, ns: &str) -> String {
    let mut number = scope.len();
    loop {
        let prefix = format!("ns{number}");
        if meaning(scope, Some(&prefix)).is_none() {
            bind(scope, Some(&prefix), ns);
            return prefix;
        }
        number += 1;
    }
}

/// Appends an element; its declarations are in `scope` meanwhile.
fn write(element: &Element, scope: &mut Vec<Declared>, out: &mut Vec<u8>) {
    let outside = scope.len();
    for (prefix, ns) in element.prefixes.declared_prefixes() {
        let is_reserved = matches!(prefix.as_deref(), Some("xml" | "xmlns")) || [NS_XML, NS_XMLNS].contains(&&**ns);
        let is_known = meaning(scope, prefix.as_deref()) == Some(ns);
        if !is_reserved && !is_known && (prefix.is_none() || !ns.is_empty()) {
            bind(scope, prefix.as_deref(), ns);
        }
    }
    let ns = element.ns();
    let default = meaning(scope, None);
    let mut name = String::new();
    if default.unwrap_or_default() != ns {
        if let Some(prefix) = prefix_for(scope, &ns) {
            name = format!("{prefix}:");
        } else if scope[outside..].iter().any(|one| one.prefix.is_none()) && !ns.is_empty() {
            name = declare(scope, &ns) + ":";
        } else {
            bind(scope, None, &ns);
        }
    }
    name.push_str(element.name());
    let mut attributes = Vec::new();
    for ((ns, key), value) in element.attrs() {
        let prefix = match ns.as_str() {
            "" => String::new(),
            NS_XML => "xml:".to_owned(),
            ns => prefix_for(scope, ns).map(str::to_owned).unwrap_or_else(|| declare(scope, ns)) + ":",
        };
        attribute(&mut attributes, &(prefix + key), value);
    }
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    for Declared { prefix, ns, .. } in &scope[outside..] {
        match prefix {
            None => attribute(out, "xmlns", ns),
            Some(prefix) => attribute(out, &format!("xmlns:{prefix}"), ns),
        }
    }
    out.extend_from_slice(&attributes);
    let mut nodes = element.nodes().peekable();
    if nodes.peek().is_none() {
        out.extend_from_slice(b"/>");
    } else {
        out.push(b'>');
        for node in nodes {
            match node {
                Node::Element(child) => write(child, scope, out),
                Node::Text(text) => escape(out, text),
            }
        }
        out.extend_from_slice(b"</");
        out.extend_from_slice(name.as_bytes());
        out.push(b'>');
    }
    unbind(scope, outside);
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

    /// Name, namespace, attributes and children.
    fn content(element: &Element) -> String {
        let attributes: Vec<_> = element.attrs().iter().map(|((ns, key), value)| (ns.as_str(), key, value)).collect();
        let nodes = element.nodes().map(|node| match node {
            Node::Element(child) => content(child),
            Node::Text(text) => format!("{text:?}"),
        });
        format!("{}{:?}{attributes:?}[{}]", element.name(), element.ns(), nodes.collect::<Vec<_>>().join(","))
    }

    /// An element with declarations, prefixes and attributes that are often those of its parents.
    fn nested() -> impl Strategy<Value = String> {
        const DECLARED: [&str; 8] = [
            "",
            " xmlns='a'",
            " xmlns='b'",
            " xmlns:p='a'",
            " xmlns:p='b'",
            " xmlns:q='a' xmlns:p='a'",
            " xmlns=''",
            " xmlns:xml='http://www.w3.org/XML/1998/namespace'",
        ];
        const ATTRIBUTES: [&str; 5] = ["", " p:x='1'", " q:x='2' x='3'", " xml:lang='de'", " x='&apos;&#xa;&lt;'"];
        let part = (0..DECLARED.len(), 0..ATTRIBUTES.len(), prop::sample::select(&["", "p:", "q:"]));
        let leaf = part
            .clone()
            .prop_map(|(declared, has, prefix)| format!("<{prefix}e{}{}/>", DECLARED[declared], ATTRIBUTES[has]));
        leaf.prop_recursive(4, 12, 3, move |inside| {
            (part.clone(), prop::collection::vec(inside, 1..3)).prop_map(|((declared, has, prefix), inside)| {
                let [declared, has] = [DECLARED[declared], ATTRIBUTES[has]];
                format!("<{prefix}e{declared}{has}>t&amp;{}</{prefix}e>", inside.concat())
            })
        })
    }

    proptest! {
        /// Namespaces in XML 1.0, 6.1: an inner element may bind a prefix to another namespace.
        #[test]
        fn a_written_tree_is_the_tree(text in nested()) {
            let text = format!("<r xmlns='r' xmlns:p='p' xmlns:q='q'>{text}</r>");
            // Two attributes with one name are no XML.
            if let Some(element) = parse(text.as_bytes()) {
                let out = written(&element);
                let again = parse(&out).expect("well-formed");
                prop_assert_eq!(content(&again), content(&element));
                prop_assert_eq!(written(&again), out);
                // Alone, a child declares what its parents have declared.
                for child in element.children() {
                    let again = parse(&written(child)).expect("self-contained");
                    prop_assert_eq!(content(&again), content(child));
                }
            }
        }
    }

    /// Legal XML that the writer of the library does not take.
    #[test]
    fn prefixes_that_are_declared_again_are_written() {
        for text in [
            "<N xmlns='n' xmlns:p='urn:a'><p:x xmlns:p='urn:b'><p:y/></p:x><p:z/></N>",
            "<N xmlns='n' xmlns:p='urn:a'><x xmlns:p='urn:a'/></N>",
            "<N xmlns='n' xmlns:xml='http://www.w3.org/XML/1998/namespace' xml:lang='de'/>",
        ] {
            let element = parse(text.as_bytes()).expect("well-formed");
            let again = parse(&written(&element)).expect("well-formed");
            assert_eq!(content(&again), content(&element));
        }
        // Prefixes are not multiplied.
        let text = "<N xmlns='n' xmlns:p='urn:a'><p:a/><p:b p:c='d'/></N>";
        assert_eq!(written(&parse(text.as_bytes()).expect("well-formed")), text.as_bytes());
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

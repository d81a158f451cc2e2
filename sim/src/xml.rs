//! A client's parser of a stream: items as small trees.
//!
//! The engine's own scanner finds the items; it has separate tests. Speed does not matter in this
//! module.

use std::fmt;

use throng_engine::wire::{Element, Event, Expect, Progress, Scanner, StreamScope};

/// An element with its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Local name.
    pub name: String,
    /// Namespace name.
    pub namespace: String,
    /// Attributes without declarations; a prefixed one as `prefix:name`.
    pub attributes: Vec<(String, String)>,
    /// Child elements.
    pub children: Vec<Node>,
    /// Text directly inside, concatenated.
    pub text: String,
}

impl Node {
    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The first child of this local name.
    pub fn child(&self, name: &str) -> Option<&Node> {
        self.children.iter().find(|c| c.name == name)
    }

    /// Whether it has this name and namespace.
    pub fn is(&self, name: &str, namespace: &str) -> bool {
        self.name == name && self.namespace == namespace
    }

    fn of(element: &Element<'_>) -> Node {
        let mut open: Vec<Node> = vec![Node::default()];
        for event in element.cursor() {
            match event {
                Event::Start(start) => open.push(Node {
                    name: start.name().to_owned(),
                    namespace: start.namespace().into_owned(),
                    attributes: start
                        .attributes()
                        .map(|a| match a.prefix() {
                            "" => (a.name().to_owned(), a.value().into_owned()),
                            prefix => (format!("{prefix}:{}", a.name()), a.value().into_owned()),
                        })
                        .collect(),
                    ..Node::default()
                }),
                Event::Text(text) => open.last_mut().expect("the root stays").text.push_str(&text),
                Event::End => {
                    let node = open.pop().expect("every end has a start");
                    open.last_mut().expect("the root stays").children.push(node);
                }
            }
        }
        open.swap_remove(0).children.pop().unwrap_or_default()
    }

    /// Parses one element, as the content of a client's stream.
    ///
    /// # Errors
    /// A sentence that describes the fault.
    pub fn parse(xml: &str) -> Result<Node, String> {
        let mut scanner = Scanner::new();
        let scope = StreamScope::Usual;
        match scanner.scan(&scope, Expect::Content, usize::MAX, xml.as_bytes()) {
            Ok(Progress::Element { consumed }) if consumed == xml.len() => {
                Ok(Node::of(&scanner.element(&scope, xml.as_bytes())))
            }
            Ok(other) => Err(format!("one element is wanted, not {other:?}: {xml}")),
            Err(fault) => Err(format!("{}: {xml}", fault.describe())),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} xmlns='{}'", self.name, self.namespace)?;
        for (name, value) in &self.attributes {
            write!(f, " {name}='{value}'")?;
        }
        if self.children.is_empty() && self.text.is_empty() {
            return write!(f, "/>");
        }
        write!(f, ">{}", self.text)?;
        for child in &self.children {
            child.fmt(f)?;
        }
        write!(f, "</{}>", self.name)
    }
}

/// An item of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The stream header with its attributes.
    Header(Node),
    /// A first-level element.
    Element(Node),
    /// `</stream:stream>`.
    End,
}

/// Parses one connection.
#[derive(Debug, Default)]
pub struct Reader {
    bytes: Vec<u8>,
    scanner: Scanner,
    scope: StreamScope,
    inside: bool,
}

impl Reader {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Restarts the stream: a header is expected.
    pub fn restart(&mut self) {
        self.inside = false;
        self.scope = StreamScope::default();
    }

    /// Bytes of an incomplete item.
    pub fn rest(&self) -> &[u8] {
        &self.bytes
    }

    /// The next complete item.
    ///
    /// # Errors
    /// A sentence that describes the server's fault.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Item>, String> {
        while !self.bytes.is_empty() {
            let expect = if self.inside { Expect::Content } else { Expect::Opening };
            let scope = self.scope.clone();
            let progress = self.scanner.scan(&scope, expect, usize::MAX, &self.bytes);
            let (consumed, item) = match progress {
                Ok(Progress::Incomplete) => return Ok(None),
                Ok(Progress::Whitespace { consumed } | Progress::Declaration { consumed }) => (consumed, None),
                Ok(Progress::Header { consumed }) => {
                    let element = self.scanner.element(&StreamScope::None, &self.bytes[..consumed]);
                    let attributes =
                        element.attributes().map(|a| (a.name().to_owned(), a.value().into_owned())).collect();
                    self.scope = StreamScope::of_header(&element);
                    self.inside = true;
                    let node = Node { name: "stream".into(), attributes, ..Node::default() };
                    (consumed, Some(Item::Header(node)))
                }
                Ok(Progress::Element { consumed }) => {
                    let element = self.scanner.element(&scope, &self.bytes[..consumed]);
                    (consumed, Some(Item::Element(Node::of(&element))))
                }
                Ok(Progress::StreamEnd { consumed }) => (consumed, Some(Item::End)),
                Err(fault) => {
                    let text = String::from_utf8_lossy(&self.bytes).into_owned();
                    return Err(format!("the server has sent what cannot be read ({}): {text}", fault.describe()));
                }
            };
            self.scanner.reset();
            self.bytes.drain(..consumed);
            if item.is_some() {
                return Ok(item);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_read_in_any_split() {
        let stream = b"<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' id='x'>\
            <stream:features/> <message to='a@b'><body>h&amp;i</body></message></stream:stream>";
        for step in [1, 3, 1000] {
            let mut reader = Reader::default();
            let mut items = Vec::new();
            for chunk in stream.chunks(step) {
                reader.push(chunk);
                while let Some(item) = reader.next().unwrap() {
                    items.push(item);
                }
            }
            let [Item::Header(header), Item::Element(features), Item::Element(message), Item::End] = &items[..] else {
                panic!("{items:?}")
            };
            assert_eq!(header.attribute("id"), Some("x"));
            assert_eq!(features.namespace, "http://etherx.jabber.org/streams");
            assert_eq!(message.child("body").unwrap().text, "h&i");
        }
    }
}

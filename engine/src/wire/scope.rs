//! The declarations of a stream header, for the lifetime of the stream.

use super::ns;
use std::sync::Arc;

/// The declarations that a stanza inherits from its stream's header (RFC 6120 4.8). One word; the
/// usual header needs no heap.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum StreamScope {
    /// Nothing is declared: before the header, and where each stanza is a document (RFC 7395
    /// 3.3.3).
    None,
    /// `<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>`, as
    /// sent by nearly every client.
    #[default]
    Usual,
    /// Any other header. It is shared, because each item of the stream carries it.
    Declared(Arc<Declared>),
}

/// The declarations of an unusual header. Bounded by the size limit of a header
/// ([`MAX_HEADER_BYTES`](crate::limits::wire::MAX_HEADER_BYTES)).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Declared {
    default: Box<str>,
    prefixes: Box<[(Box<str>, Box<str>)]>,
    root: Box<str>,
}

const STREAM_PREFIX: (&str, &str) = ("stream", ns::STREAM);

impl StreamScope {
    /// The scope of a header with this element name, default namespace (empty for none) and other
    /// declarations.
    pub(crate) fn declared_by(root: &str, default: &str, prefixes: Vec<(Box<str>, Box<str>)>) -> StreamScope {
        let usual = default == ns::CLIENT
            && root == "stream:stream"
            && matches!(&prefixes[..], [(prefix, name)] if (&**prefix, &**name) == STREAM_PREFIX);
        if usual {
            return StreamScope::Usual;
        }
        StreamScope::Declared(Arc::new(Declared {
            default: default.into(),
            prefixes: prefixes.into(),
            root: root.into(),
        }))
    }

    /// The default namespace; empty for none.
    pub fn default_namespace(&self) -> &str {
        match self {
            StreamScope::None => "",
            StreamScope::Usual => ns::CLIENT,
            StreamScope::Declared(declared) => &declared.default,
        }
    }

    /// The namespace that a prefix is bound to.
    pub fn namespace_of(&self, prefix: &str) -> Option<&str> {
        self.find(prefix.as_bytes()).map(|index| self.declared(index).1)
    }

    /// Prefix and namespace of the declaration with this index.
    pub(super) fn declared(&self, index: u8) -> (&str, &str) {
        match self {
            StreamScope::Declared(declared) => {
                let (prefix, name) = &declared.prefixes[index as usize];
                (prefix, name)
            }
            _ => STREAM_PREFIX,
        }
    }

    /// The namespaces that prefixes are bound to, by index.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let count = match self {
            StreamScope::None => 0,
            StreamScope::Usual => 1,
            StreamScope::Declared(declared) => declared.prefixes.len() as u8,
        };
        (0..count).map(|index| self.declared(index).1)
    }

    /// The index of a prefix's declaration. A header declares it once: attributes are unique.
    pub(super) fn find(&self, prefix: &[u8]) -> Option<u8> {
        match self {
            StreamScope::None => None,
            StreamScope::Usual => (prefix == STREAM_PREFIX.0.as_bytes()).then_some(0),
            StreamScope::Declared(declared) => {
                let found = declared.prefixes.iter().position(|(known, _)| known.as_bytes() == prefix);
                found.map(|index| index as u8)
            }
        }
    }

    /// The name of the header's element, which the end of the stream must repeat.
    pub(super) fn root_name(&self) -> &str {
        match self {
            StreamScope::None => "",
            StreamScope::Usual => "stream:stream",
            StreamScope::Declared(declared) => &declared.root,
        }
    }
}

const _: () = assert!(size_of::<StreamScope>() <= 16);

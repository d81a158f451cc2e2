//! The positions of an item's parts: offsets from its first byte.
//!
//! It must never hold bytes: a span means nothing without the item it was taken from.

use super::ns;
use super::scope::StreamScope;
use super::text::valid;

/// The location of a namespace's name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NamespaceRef {
    /// The stream's default namespace.
    #[default]
    StreamDefault,
    /// A prefix that the stream header declared, by its index.
    Stream(u8),
    /// The value of an attribute of this item, which is the name verbatim.
    Declared { at: u32, length: u32 },
    /// The same, if the value has references or white space: a part of [`Layout::decoded`].
    Decoded { at: u32, length: u32 },
    /// The prefix `xml`.
    Xml,
}

impl NamespaceRef {
    /// The namespace's name. Nothing is decoded here, so the cost does not depend on the peer's
    /// notation.
    pub(super) fn resolve<'a>(self, scope: &'a StreamScope, decoded: &'a str, bytes: &'a [u8]) -> &'a str {
        match self {
            NamespaceRef::StreamDefault => scope.default_namespace(),
            NamespaceRef::Stream(index) => scope.declared(index).1,
            NamespaceRef::Declared { at, length } => valid(&bytes[at as usize..][..length as usize]),
            NamespaceRef::Decoded { at, length } => &decoded[at as usize..][..length as usize],
            NamespaceRef::Xml => ns::XML,
        }
    }

    /// The same as bytes, for comparison: avoids validating the name as UTF-8 again.
    pub(super) fn raw<'a>(self, scope: &'a StreamScope, decoded: &'a str, bytes: &'a [u8]) -> &'a [u8] {
        match self {
            NamespaceRef::Declared { at, length } => &bytes[at as usize..][..length as usize],
            _ => self.resolve(scope, decoded, bytes).as_bytes(),
        }
    }
}

/// An element's position in the item: offsets from the item's first byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    pub(super) start: u32,
    pub(super) tag_end: u32,
    pub(super) inner_end: u32,
    pub(super) end: u32,
    pub(super) name_length: u16,
    pub(super) local: u16,
    pub(super) namespace: NamespaceRef,
}

/// An attribute's position in the item. A namespace declaration is one, too.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AttributeSpan {
    pub(super) name: u32,
    pub(super) value: u32,
    pub(super) value_length: u32,
    pub(super) name_length: u16,
    pub(super) local: u16,
}

impl AttributeSpan {
    pub(super) fn name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.name as usize..][..self.name_length as usize]
    }

    pub(super) fn value<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.value as usize..][..self.value_length as usize]
    }

    /// Offset after the closing quote.
    pub(super) fn end(&self) -> usize {
        (self.value + self.value_length + 1) as usize
    }

    pub(super) fn prefix<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &self.name(bytes)[..(self.local as usize).saturating_sub(1)]
    }

    pub(super) fn declares(&self, bytes: &[u8]) -> bool {
        let name = self.name(bytes);
        name.starts_with(b"xmlns") && (name.len() == 5 || self.local == 6)
    }
}

/// Frequently used attributes of a stanza, by their index in [`Layout::known`].
pub(super) const TO: usize = 0;
pub(super) const FROM: usize = 1;
pub(super) const ID: usize = 2;
pub(super) const TYPE: usize = 3;
pub(super) const LANG: usize = 4;
const UNKNOWN: u8 = u8::MAX;

/// The result of scanning an item: all that a view of the item needs besides its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    /// The root's attributes, followed by those of the start tag that is being read.
    pub(super) attributes: Vec<AttributeSpan>,
    pub(super) root_attributes: usize,
    pub(super) root: Node,
    pub(super) children: Vec<Node>,
    /// Names of namespaces that were not written verbatim, decoded once at their declaration.
    pub(super) decoded: String,
    /// Indices into `attributes`.
    pub(super) known: [u8; 5],
    /// Whether any element is in the stream's default namespace.
    pub(super) uses_default: bool,
    /// The stream's prefixes in use, one bit each.
    pub(super) uses_prefixes: u64,
}

impl Layout {
    /// Resets the layout for a new item, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.attributes.clear();
        self.children.clear();
        self.decoded.clear();
        self.known = [UNKNOWN; 5];
        self.uses_default = false;
        self.uses_prefixes = 0;
    }
}

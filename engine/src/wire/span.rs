//! Where the parts of an item stand: offsets from its first byte.
//!
//! It must never hold bytes: a span means nothing without the item it was taken from.

use super::ns;
use super::scope::StreamScope;
use super::text::decode_value;
use std::borrow::Cow;

/// Where a namespace's name is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NamespaceRef {
    /// The stream's default namespace.
    #[default]
    StreamDefault,
    /// A prefix that the stream header declared, by its index.
    Stream(u8),
    /// The value of an attribute of this item.
    Declared { at: u32, length: u32 },
    /// The prefix `xml`.
    Xml,
}

impl NamespaceRef {
    pub(super) fn resolve<'a>(self, scope: &'a StreamScope, bytes: &'a [u8]) -> Cow<'a, str> {
        match self {
            NamespaceRef::StreamDefault => Cow::Borrowed(scope.default_namespace()),
            NamespaceRef::Stream(index) => Cow::Borrowed(scope.declared(index).1),
            NamespaceRef::Declared { at, length } => decode_value(&bytes[at as usize..][..length as usize]),
            NamespaceRef::Xml => Cow::Borrowed(ns::XML),
        }
    }
}

/// An element's place in the item: offsets from the item's first byte.
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

/// An attribute's place in the item. A declaration of a namespace is one, too.
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

    /// Offset behind the closing quote.
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

//! A view of one scanned item: names, attributes and direct children, all as slices of the bytes
//! that were read.
//!
//! It must never validate: the scanner has checked everything that it shows.

use super::attribute::{Attribute, RawAttributes};
use super::cursor::Cursor;
use super::scope::StreamScope;
use super::span::{AttributeSpan, FROM, ID, LANG, Layout, NamespaceRef, Node, TO, TYPE};
use super::text::{decode_content, decode_value, valid};
use std::borrow::Cow;
use std::ops::Range;

/// A complete element, or a stream header. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    layout: &'a Layout,
    scope: &'a StreamScope,
    bytes: &'a [u8],
}

impl<'a> Element<'a> {
    pub(super) fn new(layout: &'a Layout, scope: &'a StreamScope, bytes: &'a [u8]) -> Element<'a> {
        Element { layout, scope, bytes }
    }

    /// All bytes of the element, including its tags.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The declarations of the stream header around the element.
    pub fn scope(&self) -> &'a StreamScope {
        self.scope
    }

    /// The name as written: prefix, colon, local part.
    pub fn qualified_name(&self) -> &'a str {
        valid(self.raw_name())
    }

    /// The local part of the name.
    pub fn name(&self) -> &'a str {
        valid(&self.raw_name()[self.node().local as usize..])
    }

    /// The prefix of the name; empty for none.
    pub fn prefix(&self) -> &'a str {
        valid(&self.raw_name()[..(self.node().local as usize).saturating_sub(1)])
    }

    /// The name of the element's namespace; empty for none.
    pub fn namespace(&self) -> &'a str {
        self.node().namespace.resolve(self.scope, &self.layout.decoded, self.bytes)
    }

    /// Whether the element has this local name and namespace.
    pub fn is(&self, name: &str, namespace: &str) -> bool {
        let raw = self.node().namespace.raw(self.scope, &self.layout.decoded, self.bytes);
        &self.raw_name()[self.node().local as usize..] == name.as_bytes() && raw == namespace.as_bytes()
    }

    /// The value of `to`.
    pub fn to(&self) -> Option<Cow<'a, str>> {
        self.known(TO)
    }

    /// The value of `from`.
    pub fn from(&self) -> Option<Cow<'a, str>> {
        self.known(FROM)
    }

    /// The value of `id`.
    pub fn id(&self) -> Option<Cow<'a, str>> {
        self.known(ID)
    }

    /// The value of `type`.
    pub fn kind(&self) -> Option<Cow<'a, str>> {
        self.known(TYPE)
    }

    /// The value of `xml:lang`.
    pub fn lang(&self) -> Option<Cow<'a, str>> {
        self.known(LANG)
    }

    /// The value of the attribute with this name and no prefix.
    pub fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        let found = self.spans().iter().find(|span| span.name(self.bytes) == name.as_bytes())?;
        Some(decode_value(found.value(self.bytes)))
    }

    /// All attributes in document order, without namespace declarations.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        let bytes = self.bytes;
        let others = self.spans().iter().filter(move |span| !span.declares(bytes));
        others.map(move |span| Attribute::new(*span, bytes))
    }

    /// The namespaces that the element itself declares: prefix (empty for the default) and name.
    pub fn declarations(&self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> + use<'a> {
        let bytes = self.bytes;
        let declarations = self.spans().iter().filter(move |span| span.declares(bytes));
        declarations.map(move |span| {
            let prefix = span.name(bytes).get(6..).unwrap_or(&[]);
            (valid(prefix), decode_value(span.value(bytes)))
        })
    }

    /// The direct children in document order.
    pub fn children(&self) -> impl ExactSizeIterator<Item = Child<'a>> + DoubleEndedIterator + use<'a> {
        let element = *self;
        element.layout.children.iter().map(move |node| Child { element, node })
    }

    /// The first direct child with this local name and namespace.
    pub fn child(&self, name: &str, namespace: &str) -> Option<Child<'a>> {
        self.children().find(|child| child.is(name, namespace))
    }

    /// The bytes between the tags; empty for a header.
    pub fn inner(&self) -> &'a [u8] {
        &self.bytes[self.node().tag_end as usize..self.node().inner_end as usize]
    }

    /// The decoded text directly inside the element.
    pub fn text(&self) -> Cow<'a, str> {
        decode_content(self.inner())
    }

    /// Traverses the element, beginning with its own start tag.
    pub fn cursor(&self) -> Cursor<'a> {
        Cursor::new(self.bytes, self.scope)
    }

    pub(super) fn node(&self) -> &'a Node {
        &self.layout.root
    }

    pub(super) fn spans(&self) -> &'a [AttributeSpan] {
        &self.layout.attributes[..self.layout.root_attributes]
    }

    /// Whether any name in the element is in the stream's default namespace.
    pub(super) fn uses_default(&self) -> bool {
        self.layout.uses_default
    }

    /// The prefixes of the stream header that the element uses, with their namespaces.
    pub(super) fn used_prefixes(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let (scope, used) = (self.scope, self.layout.uses_prefixes);
        (0..64u8).filter(move |index| used >> index & 1 != 0).map(move |index| scope.declared(index))
    }

    pub(super) fn raw_name(&self) -> &'a [u8] {
        &self.bytes[1..][..self.node().name_length as usize]
    }

    fn known(&self, which: usize) -> Option<Cow<'a, str>> {
        let span = self.layout.attributes.get(self.layout.known[which] as usize)?;
        Some(decode_value(span.value(self.bytes)))
    }
}

/// A direct child of a scanned element.
#[derive(Clone, Copy, Debug)]
pub struct Child<'a> {
    element: Element<'a>,
    node: &'a Node,
}

impl<'a> Child<'a> {
    /// The local part of the name.
    pub fn name(&self) -> &'a str {
        valid(&self.raw_name()[self.node.local as usize..])
    }

    /// The name of the child's namespace; empty for none.
    pub fn namespace(&self) -> &'a str {
        self.node.namespace.resolve(self.element.scope, &self.element.layout.decoded, self.element.bytes)
    }

    /// Namespace and local name as bytes, for comparison: avoids validating them as UTF-8 again.
    pub fn raw(&self) -> (&'a [u8], &'a [u8]) {
        let Element { scope, layout, bytes } = self.element;
        (self.node.namespace.raw(scope, &layout.decoded, bytes), &self.raw_name()[self.node.local as usize..])
    }

    /// Whether the child has this local name and namespace.
    pub fn is(&self, name: &str, namespace: &str) -> bool {
        self.raw() == (namespace.as_bytes(), name.as_bytes())
    }

    /// The child's range in [`Element::bytes`], including its tags.
    pub fn range(&self) -> Range<usize> {
        self.node.start as usize..self.node.end as usize
    }

    /// The range of the child's content in [`Element::bytes`].
    pub fn inner_range(&self) -> Range<usize> {
        self.node.tag_end as usize..self.node.inner_end as usize
    }

    /// The child's bytes, including its tags. They may rely on declarations around them: see
    /// [`Child::is_self_contained`].
    pub fn bytes(&self) -> &'a [u8] {
        &self.element.bytes[self.range()]
    }

    /// Whether the child itself declares its default namespace, as nearly every extension does. If
    /// it also has no prefixed names, its bytes mean the same anywhere.
    pub fn is_self_contained(&self) -> bool {
        let span = |at: u32| self.range().contains(&(at as usize));
        self.node.local == 0 && matches!(self.node.namespace, NamespaceRef::Declared { at, .. } if span(at))
    }

    /// The bytes between the child's tags.
    pub fn inner(&self) -> &'a [u8] {
        &self.element.bytes[self.inner_range()]
    }

    /// The decoded text directly inside the child.
    pub fn text(&self) -> Cow<'a, str> {
        decode_content(self.inner())
    }

    /// The value of the attribute with this name and no prefix.
    pub fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        self.attributes().find(|a| a.prefix().is_empty() && a.name() == name).map(|a| a.value())
    }

    /// The `xml:lang` of the child itself.
    pub fn lang(&self) -> Option<Cow<'a, str>> {
        self.attributes().find(|a| a.prefix() == "xml" && a.name() == "lang").map(|a| a.value())
    }

    /// All attributes in document order, without namespace declarations.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        let behind_name = self.node.start as usize + 1 + self.node.name_length as usize;
        RawAttributes::new(self.element.bytes, behind_name).filter(|attribute| !attribute.declares())
    }

    /// Traverses the child, beginning with its own start tag.
    pub fn cursor(&self) -> Cursor<'a> {
        Cursor::of_child(self.element.bytes, self.element.scope, self.element.raw_name().len(), self.range())
    }

    fn raw_name(&self) -> &'a [u8] {
        &self.element.bytes[self.node.start as usize + 1..][..self.node.name_length as usize]
    }
}

//! A traversal of a scanned element, deeper than its direct children. It allocates nothing.
//!
//! It must never be given bytes that the scanner has not accepted: it relies on their grammar and
//! bounds.

use super::attribute::{Attribute, RawAttributes};
use super::chars;
use super::ns;
use super::scope::StreamScope;
use super::text::{decode_lines, decode_text, decode_value, tag_end, valid};
use crate::limits::wire::{MAX_DECLARATIONS, MAX_DEPTH};
use std::borrow::Cow;
use std::ops::Range;

/// One step of the traversal.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A start tag, or the first half of an empty element.
    Start(Start<'a>),
    /// A decoded run of text or CDATA section. Never empty; adjacent runs are separate events.
    Text(Cow<'a, str>),
    /// An end tag, or the second half of an empty element.
    End,
}

/// A start tag.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    bytes: &'a [u8],
    name: chars::Name,
    at: usize,
    namespace: Namespace<'a>,
}

/// The name of a namespace.
#[derive(Clone, Copy, Debug)]
enum Namespace<'a> {
    Known(&'a str),
    /// As written in an attribute of the element.
    Written(&'a [u8]),
}

impl<'a> Start<'a> {
    /// The local part of the name.
    pub fn name(&self) -> &'a str {
        valid(&self.bytes[self.at + self.name.local..self.name.end])
    }

    /// Whether the element has this local name and namespace.
    pub fn is(&self, name: &str, namespace: &str) -> bool {
        self.name() == name && self.namespace() == namespace
    }

    /// The name of the element's namespace; empty for none. It is decoded on each call, so call it
    /// once.
    pub fn namespace(&self) -> Cow<'a, str> {
        match self.namespace {
            Namespace::Known(name) => Cow::Borrowed(name),
            Namespace::Written(value) => decode_value(value),
        }
    }

    /// The value of the attribute with this name and no prefix.
    pub fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        self.attributes().find(|a| a.prefix().is_empty() && a.name() == name).map(|a| a.value())
    }

    /// All attributes in document order, without namespace declarations.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        RawAttributes::new(self.bytes, self.name.end).filter(|attribute| !attribute.declares())
    }
}

/// A declaration in scope, as offsets into the item.
#[derive(Clone, Copy, Debug, Default)]
struct Declaration {
    prefix: u32,
    prefix_length: u32,
    value: u32,
    value_length: u32,
}

/// Yields the events of a scanned element one by one, including the element's own tags.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    scope: &'a StreamScope,
    at: usize,
    end: usize,
    /// Whether the element just started is empty: its end comes next.
    empty: bool,
    declarations: [Declaration; MAX_DECLARATIONS],
    declared: usize,
    /// For each open element, the number of declarations in scope around it.
    open: [u8; MAX_DEPTH],
    depth: usize,
}

impl<'a> Cursor<'a> {
    /// Traverses a whole element.
    pub(super) fn new(bytes: &'a [u8], scope: &'a StreamScope) -> Cursor<'a> {
        Cursor {
            bytes,
            scope,
            at: 0,
            end: bytes.len(),
            empty: false,
            declarations: [Declaration::default(); MAX_DECLARATIONS],
            declared: 0,
            open: [0; MAX_DEPTH],
            depth: 0,
        }
    }

    /// Traverses the child at `range` of an element whose name has `name_length` bytes.
    pub(super) fn of_child(
        bytes: &'a [u8],
        scope: &'a StreamScope,
        name_length: usize,
        range: Range<usize>,
    ) -> Cursor<'a> {
        let mut cursor = Cursor::new(bytes, scope);
        cursor.declare(1 + name_length);
        cursor.at = range.start;
        cursor.end = range.end;
        cursor
    }

    /// Number of open elements around the next event, counted from the start of the traversal.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The offset in [`Element::bytes`](super::Element::bytes) of the next event.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Skips the rest of the innermost open element, including its end.
    pub fn skip_element(&mut self) {
        let around = self.depth.saturating_sub(1);
        while self.depth > around && self.next().is_some() {}
    }

    /// The text directly inside the element just started. Skips the rest of the element.
    pub fn take_text(&mut self) -> Cow<'a, str> {
        let mut text = Cow::Borrowed("");
        let inside = self.depth;
        while self.depth >= inside {
            match self.next() {
                Some(Event::Text(run)) if self.depth == inside && text.is_empty() => text = run,
                Some(Event::Text(run)) if self.depth == inside => text.to_mut().push_str(&run),
                Some(_) => {}
                None => break,
            }
        }
        text
    }

    fn declare(&mut self, behind_name: usize) {
        for attribute in RawAttributes::new(self.bytes, behind_name) {
            if attribute.declares() && self.declared < MAX_DECLARATIONS {
                let span = attribute.span();
                self.declarations[self.declared] = Declaration {
                    prefix: span.name + 6,
                    prefix_length: u32::from(span.name_length).saturating_sub(6),
                    value: span.value,
                    value_length: span.value_length,
                };
                self.declared += 1;
            }
        }
    }

    fn namespace(&self, prefix: &'a [u8]) -> Namespace<'a> {
        if prefix == b"xml" {
            return Namespace::Known(ns::XML);
        }
        let bytes = self.bytes;
        let slice = |at: u32, length: u32| &bytes[at as usize..][..length as usize];
        let mut inner = self.declarations[..self.declared].iter().rev();
        // Without a prefix the length is zero, and the offset is arbitrary.
        let found = inner.find(|d| {
            d.prefix_length as usize == prefix.len()
                && (prefix.is_empty() || slice(d.prefix, d.prefix_length) == prefix)
        });
        match found {
            Some(declared) => Namespace::Written(slice(declared.value, declared.value_length)),
            None if prefix.is_empty() => Namespace::Known(self.scope.default_namespace()),
            None => Namespace::Known(self.scope.namespace_of(valid(prefix)).unwrap_or("")),
        }
    }

    fn start(&mut self) -> Option<Event<'a>> {
        let at = self.at + 1;
        let name = chars::name(self.bytes, at).ok()??;
        *self.open.get_mut(self.depth)? = self.declared as u8;
        self.depth += 1;
        self.declare(name.end);
        let end = self.at + tag_end(&self.bytes[self.at..]);
        self.empty = self.bytes[end - 2] == b'/';
        self.at = end;
        let namespace = self.namespace(&self.bytes[at..at + name.local.saturating_sub(1)]);
        Some(Event::Start(Start { bytes: self.bytes, name, at, namespace }))
    }

    fn close(&mut self) -> Option<Event<'a>> {
        self.depth = self.depth.checked_sub(1)?;
        self.declared = self.open[self.depth] as usize;
        Some(Event::End)
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Event<'a>;

    fn next(&mut self) -> Option<Event<'a>> {
        loop {
            if std::mem::take(&mut self.empty) {
                return self.close();
            }
            let rest = self.bytes.get(self.at..self.end)?;
            match rest {
                [] => return None,
                [b'<', b'/', ..] => {
                    self.at += memchr::memchr(b'>', rest)? + 1;
                    return self.close();
                }
                [b'<', b'!', ..] => {
                    let section = &rest[9..];
                    let length = memchr::memmem::find(section, b"]]>")?;
                    self.at += 9 + length + 3;
                    if length > 0 {
                        return Some(Event::Text(decode_lines(&section[..length])));
                    }
                }
                [b'<', ..] => return self.start(),
                _ => {
                    let length = memchr::memchr(b'<', rest).unwrap_or(rest.len());
                    self.at += length;
                    return Some(Event::Text(decode_text(&rest[..length])));
                }
            }
        }
    }
}

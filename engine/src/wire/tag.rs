//! Start tags: attributes, namespaces and the way into an element. The scanner's other half.
//!
//! It must never read content: it begins behind a tag's name and ends behind its `>`.

use super::chars::{self, is_space, skip_space};
use super::fault::Fault;
use super::ns;
use super::scanner::{Declaration, Mode, Progress, Scanner, Step};
use super::scope::StreamScope;
use super::span::{AttributeSpan, FROM, ID, LANG, NamespaceRef, Node, TO, TYPE};
use super::text::decode_value;
use crate::limits::wire::{MAX_ATTRIBUTES, MAX_DECLARATIONS, MAX_NAMESPACE_BYTES};

impl Scanner {
    /// Keeps the place inside a start tag.
    fn pause(&mut self, mode: Mode, at: usize) -> Step {
        self.mode = mode;
        self.at = at;
        Step::Pause
    }

    /// Reads a start tag from behind its name, or from where it stood.
    pub(super) fn tag(&mut self, scope: &StreamScope, bytes: &[u8]) -> Result<Step, Fault> {
        let mut at = self.at;
        let mut mode = self.mode;
        loop {
            match mode {
                Mode::Equals | Mode::Quote => {
                    at = skip_space(bytes, at);
                    let Some(&byte) = bytes.get(at) else {
                        return Ok(self.pause(mode, at));
                    };
                    mode = match (mode, byte) {
                        (Mode::Equals, b'=') => Mode::Quote,
                        (Mode::Quote, b'"' | b'\'') => {
                            self.pending.quote = byte;
                            Mode::Value
                        }
                        _ => return Err(Fault::Syntax),
                    };
                    at += 1;
                }
                Mode::Value => {
                    let Some((end, classes)) = self.value(bytes, at) else {
                        self.searched = bytes.len();
                        return Ok(self.pause(mode, at));
                    };
                    self.searched = 0;
                    self.attribute(bytes, at, end, classes)?;
                    at = end + 1;
                    mode = Mode::Tag;
                }
                _ => {
                    at = skip_space(bytes, at);
                    let Some(&byte) = bytes.get(at) else {
                        return Ok(self.pause(Mode::Tag, at));
                    };
                    if byte == b'>' {
                        return self.opened(scope, bytes, at + 1, false);
                    }
                    if byte == b'/' {
                        return match bytes.get(at + 1) {
                            None => Ok(self.pause(Mode::Tag, at)),
                            Some(b'>') => self.opened(scope, bytes, at + 2, true),
                            Some(_) => Err(Fault::Syntax),
                        };
                    }
                    // White space has to stand before an attribute (XML 3.1); a quote or a name does else.
                    if !is_space(bytes[at - 1]) {
                        return Err(Fault::Syntax);
                    }
                    let Some(name) = chars::name(bytes, at)? else {
                        return Ok(self.pause(Mode::Tag, at));
                    };
                    self.pending.attribute.name = at as u32;
                    self.pending.attribute.name_length = (name.end - at) as u16;
                    self.pending.attribute.local = name.local as u16;
                    at = name.end;
                    mode = Mode::Equals;
                    if let Some([b'=', quote @ (b'"' | b'\'')]) = bytes.get(at..at + 2) {
                        self.pending.quote = *quote;
                        at += 2;
                        mode = Mode::Value;
                    }
                }
            }
        }
    }

    /// The end of the value that starts at `at` and the classes of its bytes.
    #[inline]
    fn value(&self, bytes: &[u8], at: usize) -> Option<(usize, u8)> {
        if self.searched <= at {
            return chars::find_end(bytes, at, self.pending.quote, true);
        }
        let found = memchr::memchr(self.pending.quote, &bytes[self.searched..])?;
        let end = self.searched + found;
        Some((end, chars::survey(&bytes[at..end])))
    }

    /// Where the attributes of the tag being read begin: the root's are kept.
    fn first_attribute(&self) -> usize {
        if self.open.is_empty() { 0 } else { self.layout.root_attributes }
    }

    /// Checks and keeps an attribute.
    fn attribute(&mut self, bytes: &[u8], at: usize, end: usize, classes: u8) -> Result<(), Fault> {
        if classes != 0 {
            let run = &bytes[at..end];
            chars::check_characters(run, classes)?;
            if classes & chars::LESS != 0 {
                return Err(Fault::LessThanInValue);
            }
            if classes & chars::REFERENCE != 0 {
                chars::check_references(run)?;
            }
        }
        let mut span = self.pending.attribute;
        span.value = at as u32;
        span.value_length = (end - at) as u32;
        let name = span.name(bytes);
        let first = self.first_attribute();
        let hash = name[0].wrapping_mul(7) ^ name[name.len() - 1] ^ (name.len() as u8).wrapping_mul(5);
        let bit = 1 << (hash % 64);
        if self.pending.seen & bit != 0 && self.layout.attributes[first..].iter().any(|other| other.name(bytes) == name)
        {
            return Err(Fault::DuplicateAttribute);
        }
        self.pending.seen |= bit;
        if self.layout.attributes.len() - first == MAX_ATTRIBUTES {
            return Err(Fault::TooManyAttributes);
        }
        if span.declares(bytes) {
            self.declare(bytes, span, classes & chars::REFERENCE != 0)?;
        } else if span.local != 0 {
            self.pending.prefixed = true;
        }
        if self.open.is_empty() {
            let known = match name {
                b"to" => TO,
                b"from" => FROM,
                b"id" => ID,
                b"type" => TYPE,
                b"xml:lang" => LANG,
                _ => usize::MAX,
            };
            if let Some(slot) = self.layout.known.get_mut(known) {
                *slot = self.layout.attributes.len() as u8;
            }
        }
        self.layout.attributes.push(span);
        Ok(())
    }

    /// Brings a namespace declaration into scope (Namespaces in XML 3).
    fn declare(&mut self, bytes: &[u8], span: AttributeSpan, referring: bool) -> Result<(), Fault> {
        let value = span.value(bytes);
        if value.len() > MAX_NAMESPACE_BYTES {
            return Err(Fault::NamespaceTooLong);
        }
        if self.declarations.len() == MAX_DECLARATIONS {
            return Err(Fault::TooManyDeclarations);
        }
        let prefix = if span.local == 0 { &[] } else { &span.name(bytes)[6..] };
        // Few names are written with references; the others are compared as they stand.
        let is = |name: &str| value == name.as_bytes() || referring && decode_value(value) == name;
        let allowed = match prefix {
            b"xmlns" => false,
            b"xml" => is(ns::XML),
            _ => !is(ns::XML) && !is(ns::XMLNS) && (prefix.is_empty() || !value.is_empty()),
        };
        if !allowed {
            return Err(Fault::ReservedNamespace);
        }
        if prefix.is_empty() {
            self.default = self.declarations.len() as u8;
        }
        self.declarations.push(Declaration {
            prefix: span.name + 6,
            prefix_length: prefix.len() as u16,
            value: span.value,
            value_length: span.value_length,
        });
        Ok(())
    }

    /// The namespace of a prefix in scope; the default namespace for none.
    #[inline]
    fn namespace(&mut self, scope: &StreamScope, bytes: &[u8], prefix: &[u8]) -> Result<NamespaceRef, Fault> {
        if !prefix.is_empty() {
            return self.namespace_of_prefix(scope, bytes, prefix);
        }
        match self.declarations.get(self.default as usize) {
            Some(declared) => Ok(NamespaceRef::Declared { at: declared.value, length: declared.value_length }),
            None => {
                self.layout.uses_default = true;
                Ok(NamespaceRef::StreamDefault)
            }
        }
    }

    fn namespace_of_prefix(&mut self, scope: &StreamScope, bytes: &[u8], prefix: &[u8]) -> Result<NamespaceRef, Fault> {
        let names_it =
            |declared: &&Declaration| bytes[declared.prefix as usize..][..declared.prefix_length as usize] == *prefix;
        if prefix == b"xml" {
            return Ok(NamespaceRef::Xml);
        }
        if prefix == b"xmlns" {
            return Err(Fault::ReservedNamespace);
        }
        if let Some(declared) = self.declarations.iter().rev().find(names_it) {
            return Ok(NamespaceRef::Declared { at: declared.value, length: declared.value_length });
        }
        let index = scope.find(prefix).ok_or(Fault::UnboundPrefix)?;
        self.layout.uses_prefixes |= 1 << index;
        Ok(NamespaceRef::Stream(index))
    }

    /// Finishes a start tag that ends before `end`: resolves its names and enters the element.
    pub(super) fn opened(&mut self, scope: &StreamScope, bytes: &[u8], end: usize, empty: bool) -> Result<Step, Fault> {
        let open = self.pending.open;
        let local = self.pending.local;
        let prefix = &bytes[open.name as usize..][..(local as usize).saturating_sub(1)];
        let namespace = self.namespace(scope, bytes, prefix)?;
        if self.pending.prefixed {
            self.resolve_attributes(scope, bytes)?;
        }
        let end_offset = end as u32;
        let node = Node {
            start: open.name - 1,
            tag_end: end_offset,
            inner_end: end_offset,
            end: end_offset,
            name_length: open.name_length,
            local,
            namespace,
        };
        let depth = self.open.len();
        if depth == 0 {
            self.layout.root = node;
            self.layout.root_attributes = self.layout.attributes.len();
            match (self.header, empty) {
                (true, true) => return Err(Fault::ClosedHeader),
                (true, false) => return Ok(Step::Done(Progress::Header { consumed: end })),
                (false, true) => return Ok(Step::Done(Progress::Element { consumed: end })),
                (false, false) => {}
            }
        } else {
            if depth == 1 {
                self.layout.children.push(node);
            }
            self.layout.attributes.truncate(self.layout.root_attributes);
        }
        if empty {
            self.declarations.truncate(open.declarations as usize);
            self.default = open.default;
        } else {
            self.open.push(open);
        }
        self.at = end;
        self.mode = Mode::Content;
        Ok(Step::Next)
    }

    /// Resolves the prefixes of attributes and compares their expanded names (Namespaces in XML 6.3).
    fn resolve_attributes(&mut self, scope: &StreamScope, bytes: &[u8]) -> Result<(), Fault> {
        let mut expanded = [(NamespaceRef::Xml, &[][..]); MAX_ATTRIBUTES];
        let mut count = 0;
        for index in self.first_attribute()..self.layout.attributes.len() {
            let span = self.layout.attributes[index];
            if span.local == 0 || span.declares(bytes) {
                continue;
            }
            let namespace = self.namespace_of_prefix(scope, bytes, span.prefix(bytes))?;
            let local = &span.name(bytes)[span.local as usize..];
            let same = |&(other, name): &(NamespaceRef, &[u8])| {
                name == local && (other == namespace || other.resolve(scope, bytes) == namespace.resolve(scope, bytes))
            };
            if expanded[..count].iter().any(same) {
                return Err(Fault::DuplicateAttribute);
            }
            expanded[count] = (namespace, local);
            count += 1;
        }
        Ok(())
    }
}

//! Start tags: attributes, namespaces and entering an element. The other half of the scanner.
//!
//! It must never read content: it begins after a tag's name and ends after its `>`.

use super::chars::{self, is_space, skip_space};
use super::fault::Fault;
use super::ns;
use super::scanner::{Declaration, Mode, NO_NUMBER, Progress, Scanner, Step};
use super::scope::StreamScope;
use super::span::{AttributeSpan, FROM, ID, LANG, NamespaceRef, Node, TO, TYPE};
use super::text::decode_value;
use crate::limits::wire::{MAX_ATTRIBUTES, MAX_DECLARATIONS, MAX_NAMESPACE_BYTES};

impl Scanner {
    /// Saves the position inside a start tag.
    fn pause(&mut self, mode: Mode, at: usize) -> Step {
        self.mode = mode;
        self.at = at;
        Step::Pause
    }

    /// Reads a start tag after its name, or resumes where it stopped.
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
                    // White space must precede an attribute (XML 3.1); otherwise a quote or a name
                    // does.
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

    /// The index of the current tag's first attribute: the root's are kept.
    fn first_attribute(&self) -> usize {
        if self.open.is_empty() { 0 } else { self.layout.root_attributes }
    }

    /// Checks and records an attribute.
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
        self.pending.suspect |= self.pending.seen & bit != 0;
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
        // Few names are written with references or white space. They are decoded here, once,
        // regardless of how many elements and attributes are in the namespace.
        let namespace = if referring || value.iter().any(|&byte| byte < b' ') {
            let at = self.layout.decoded.len();
            self.layout.decoded.push_str(&decode_value(value));
            NamespaceRef::Decoded { at: at as u32, length: (self.layout.decoded.len() - at) as u32 }
        } else {
            NamespaceRef::Declared { at: span.value, length: span.value_length }
        };
        let name = match namespace {
            NamespaceRef::Decoded { at, length } => &self.layout.decoded.as_bytes()[at as usize..][..length as usize],
            _ => value,
        };
        let (xml, xmlns) = (ns::XML.as_bytes(), ns::XMLNS.as_bytes());
        let allowed = match prefix {
            b"xmlns" => false,
            b"xml" => name == xml,
            _ => name != xml && name != xmlns && (prefix.is_empty() || !name.is_empty()),
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
            number: NO_NUMBER,
            key: key(prefix),
            namespace,
        });
        Ok(())
    }

    /// The namespace of a prefix in scope; the default namespace for an empty prefix.
    #[inline]
    fn namespace(&mut self, scope: &StreamScope, bytes: &[u8], prefix: &[u8]) -> Result<NamespaceRef, Fault> {
        if !prefix.is_empty() {
            return Ok(match self.binding(scope, bytes, prefix)? {
                Binding::Xml => NamespaceRef::Xml,
                Binding::Item(index) => self.declarations[index].namespace,
                Binding::Stream(index) => NamespaceRef::Stream(index),
            });
        }
        match self.declarations.get(self.default as usize) {
            Some(declared) => Ok(declared.namespace),
            None => {
                self.layout.uses_default = true;
                Ok(NamespaceRef::StreamDefault)
            }
        }
    }

    /// The binding of a prefix.
    fn binding(&mut self, scope: &StreamScope, bytes: &[u8], prefix: &[u8]) -> Result<Binding, Fault> {
        if prefix == b"xml" {
            return Ok(Binding::Xml);
        }
        if prefix == b"xmlns" {
            return Err(Fault::ReservedNamespace);
        }
        // Up to seven bytes the key equals the prefix; only longer prefixes with equal keys are
        // compared byte by byte.
        let key = key(prefix);
        let same = |declared: &Declaration| {
            declared.key == key
                && (prefix.len() <= KEY_BYTES
                    || bytes[declared.prefix as usize..][..declared.prefix_length as usize] == *prefix)
        };
        if let Some(index) = self.declarations.iter().rposition(same) {
            return Ok(Binding::Item(index));
        }
        let index = scope.find(prefix).ok_or(Fault::UnboundPrefix)?;
        self.layout.uses_prefixes |= 1 << index;
        Ok(Binding::Stream(index))
    }

    /// A number that two bindings in scope share if and only if they are to the same name.
    ///
    /// It is the position of the first declaration in scope with that name, the stream's before the
    /// item's. The declarations before another one stay in scope for as long as it does, so its
    /// number is computed once and kept.
    fn number(&mut self, scope: &StreamScope, bytes: &[u8], binding: Binding) -> u8 {
        let first_in_stream = |name: &[u8]| scope.names().position(|other| other.as_bytes() == name).map(|at| at as u8);
        match binding {
            // No other prefix is bound to that name: see `declare`.
            Binding::Xml => XML_NUMBER,
            Binding::Stream(index) => first_in_stream(scope.declared(index).1.as_bytes()).unwrap_or(index),
            Binding::Item(index) => {
                let declared = self.declarations[index];
                if declared.number != NO_NUMBER {
                    return declared.number;
                }
                let decoded = &self.layout.decoded;
                let name = declared.namespace.raw(scope, decoded, bytes);
                let same = |other: &Declaration| other.namespace.raw(scope, decoded, bytes) == name;
                let number = first_in_stream(name).unwrap_or_else(|| {
                    let first = self.declarations[..index].iter().position(same).unwrap_or(index);
                    MAX_DECLARATIONS as u8 + first as u8
                });
                self.declarations[index].number = number;
                number
            }
        }
    }

    /// Finishes a start tag that ends before `end`: resolves its names and enters the element.
    pub(super) fn opened(&mut self, scope: &StreamScope, bytes: &[u8], end: usize, empty: bool) -> Result<Step, Fault> {
        let open = self.pending.open;
        let local = self.pending.local;
        let prefix = &bytes[open.name as usize..][..(local as usize).saturating_sub(1)];
        let namespace = self.namespace(scope, bytes, prefix)?;
        if self.pending.suspect {
            self.compare_names(bytes)?;
        }
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

    /// Compares the names of all attributes of a tag as written (XML 3.1, "Unique Att Spec").
    #[cold]
    fn compare_names(&self, bytes: &[u8]) -> Result<(), Fault> {
        let mut names = [&[][..]; MAX_ATTRIBUTES];
        let spans = &self.layout.attributes[self.first_attribute()..];
        for (name, span) in names.iter_mut().zip(spans) {
            *name = span.name(bytes);
        }
        unique(&mut names[..spans.len()])
    }

    /// Resolves the prefixes of attributes and compares their expanded names (Namespaces in XML
    /// 6.3).
    fn resolve_attributes(&mut self, scope: &StreamScope, bytes: &[u8]) -> Result<(), Fault> {
        let mut bound = [(Binding::Xml, &[][..]); MAX_ATTRIBUTES];
        let mut count = 0;
        for index in self.first_attribute()..self.layout.attributes.len() {
            let span = self.layout.attributes[index];
            if span.local == 0 || span.declares(bytes) {
                continue;
            }
            let binding = self.binding(scope, bytes, span.prefix(bytes))?;
            bound[count] = (binding, &span.name(bytes)[span.local as usize..]);
            count += 1;
        }
        if count < 2 {
            return Ok(());
        }
        let mut expanded = [(0, &[][..]); MAX_ATTRIBUTES];
        for (expanded, &(binding, local)) in expanded.iter_mut().zip(&bound[..count]) {
            *expanded = (self.number(scope, bytes, binding), local);
        }
        unique(&mut expanded[..count])
    }
}

/// The binding of an attribute's or element's prefix.
#[derive(Clone, Copy)]
enum Binding {
    /// The prefix `xml`.
    Xml,
    /// A declaration in the item, by its index among those in scope.
    Item(usize),
    /// A declaration of the stream's header, by its index.
    Stream(u8),
}

/// The number of the namespace that the prefix `xml` is bound to.
const XML_NUMBER: u8 = u8::MAX - 1;
const _: () = assert!(2 * MAX_DECLARATIONS <= XML_NUMBER as usize);

/// Length of the longest prefix that fits its key completely.
const KEY_BYTES: usize = 7;

/// A word that differs between different prefixes of up to [`KEY_BYTES`], and nearly always between
/// longer ones: the length and the last bytes.
fn key(prefix: &[u8]) -> u64 {
    let last = &prefix[prefix.len().saturating_sub(KEY_BYTES)..];
    last.iter().fold(prefix.len() as u64, |key, &byte| key << 8 | u64::from(byte))
}

/// Rejects names if two are equal. It sorts them: the work grows with their total length and hardly
/// with their number, whatever they have in common.
fn unique<T: Ord>(names: &mut [T]) -> Result<(), Fault> {
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) { Err(Fault::DuplicateAttribute) } else { Ok(()) }
}

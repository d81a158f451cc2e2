//! The streaming scanner: finds the next item of a stream and checks it in one pass.
//!
//! It must never know what a stanza is for. It reads XML 1.0 (fifth edition) with Namespaces in XML 1.0, less what
//! RFC 6120 11.1 takes away, and bounds everything by [`limits::wire`](crate::limits::wire).
//!
//! The unit of work is the token: a name, an attribute's value, a run of text, an end tag. A token is judged when all
//! of it is there, and not before; until then the scanner remembers where the token starts and how far it has looked.
//! So what is reported depends on the bytes alone and never on how they were split into reads, and every byte is
//! looked at a bounded number of times however small the reads are.

use super::chars::{self, is_space, skip_space};
use super::element::Element;
use super::fault::Fault;
use super::ns;
use super::scope::StreamScope;
use super::text::decode_value;
use crate::limits::wire::{
    MAX_ATTRIBUTES, MAX_CHILDREN, MAX_DECLARATION_BYTES, MAX_DECLARATIONS, MAX_DEPTH,
    MAX_NAMESPACE_BYTES,
};
use std::borrow::Cow;

/// What may come next on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The very first byte of a stream: an XML declaration or what [`Expect::Header`] allows.
    Opening,
    /// The stream header.
    Header,
    /// Stanzas and the end of the stream.
    Content,
}

/// What a scan found. `consumed` counts the item's bytes from the start of the slice; the next item begins behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing whole yet: call again with the same bytes and more behind them.
    Incomplete,
    /// White space between stanzas (RFC 6120 4.6.1: keepalives). A longer run may come in pieces.
    Whitespace {
        /// Bytes of the item.
        consumed: usize,
    },
    /// The XML declaration.
    Declaration {
        /// Bytes of the item.
        consumed: usize,
    },
    /// The start tag of the stream.
    Header {
        /// Bytes of the item.
        consumed: usize,
    },
    /// A whole element: a stanza or what else a stream carries at its first level.
    Element {
        /// Bytes of the item.
        consumed: usize,
    },
    /// The end tag of the stream.
    StreamEnd {
        /// Bytes of the item.
        consumed: usize,
    },
}

/// Where the scanner stands inside an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Before an item.
    #[default]
    Idle,
    /// In the content of an open element; `at` is the start of a run of text or of a tag.
    Content,
    /// In a CDATA section; `at` is the start of its content.
    Cdata,
    /// In a start tag, behind its name or an attribute.
    Tag,
    /// Behind an attribute's name.
    Equals,
    /// Behind an attribute's `=`.
    Quote,
    /// In an attribute's value; `at` is its start.
    Value,
    /// In the end tag of the stream, behind its name.
    StreamEnd,
}

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
            NamespaceRef::Declared { at, length } => {
                decode_value(&bytes[at as usize..][..length as usize])
            }
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

/// An element that waits for its end tag, with what to go back to behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    name: u32,
    name_length: u16,
    declarations: u8,
    default: u8,
}

/// A namespace declaration in scope; an empty prefix is the default namespace.
#[derive(Clone, Copy, Debug)]
struct Declaration {
    prefix: u32,
    prefix_length: u16,
    value: u32,
    value_length: u32,
}

/// The start tag that is being read.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    open: Open,
    local: u16,
    /// One bit for each attribute name seen, by a small hash: most tags prove so that they have no duplicate.
    seen: u64,
    prefixed: bool,
    /// The attribute that is being read.
    attribute: AttributeSpan,
    quote: u8,
}

/// No default namespace declared inside the item.
const NO_DEFAULT: u8 = u8::MAX;

/// Attributes of a stanza that everyone asks for, by their place in [`Scanner::known`].
pub(super) const TO: usize = 0;
pub(super) const FROM: usize = 1;
pub(super) const ID: usize = 2;
pub(super) const TYPE: usize = 3;
pub(super) const LANG: usize = 4;
const UNKNOWN: u8 = u8::MAX;

/// Finds and checks the items of a stream, one after the other.
///
/// One scanner serves any number of streams as long as items come whole; its state belongs to one stream only from an
/// [`Progress::Incomplete`] to the end of that item, so a caller keeps a scanner a connection only in between.
/// Its memory is bounded by `limits::wire` and reused.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    mode: Mode,
    header: bool,
    failed: Option<Fault>,
    /// Start of the token that is not complete.
    at: usize,
    /// How far that token has been looked at; 0 for not yet.
    searched: usize,
    pending: Pending,
    /// Index of the default namespace in scope.
    default: u8,
    open: Vec<Open>,
    declarations: Vec<Declaration>,
    pub(super) attributes: Vec<AttributeSpan>,
    pub(super) children: Vec<Node>,
    pub(super) root: Node,
    pub(super) root_attributes: usize,
    pub(super) known: [u8; 5],
    /// Some element has the stream's default namespace.
    pub(super) uses_default: bool,
    /// The stream's prefixes in use, a bit each.
    pub(super) uses_prefixes: u64,
}

/// How a step of the scanner ended.
enum Step {
    /// More bytes are needed.
    Pause,
    /// The next token can be read.
    Next,
    /// The item is whole.
    Done(Progress),
}

impl Scanner {
    /// A scanner before its first item. Allocates with use only.
    pub fn new() -> Scanner {
        Scanner::default()
    }

    /// Forgets the item that was being read, as for a stream that starts anew.
    pub fn reset(&mut self) {
        self.mode = Mode::Idle;
        self.failed = None;
        self.at = 0;
        self.searched = 0;
    }

    /// Whether an item has been begun and not finished.
    pub fn in_item(&self) -> bool {
        self.mode != Mode::Idle
    }

    /// Scans the item that begins at the first byte of `bytes`, at most `max_bytes` long.
    ///
    /// After [`Progress::Incomplete`] it has to be called with the same bytes and more behind; it goes on where it
    /// stood. `scope` is what the stream header declared (ignored before the header). After a fault it gives the same
    /// fault until [`Scanner::reset`].
    pub fn scan(
        &mut self,
        scope: &StreamScope,
        expect: Expect,
        max_bytes: usize,
        bytes: &[u8],
    ) -> Result<Progress, Fault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        // Offsets have 32 bits. An item is cut at the limit, so a token behind it is never complete.
        let max_bytes = max_bytes.min(u32::MAX as usize - 1);
        let window = bytes.get(..max_bytes).unwrap_or(bytes);
        let result = match self.item(scope, expect, window) {
            Ok(Progress::Incomplete) if bytes.len() > max_bytes => Err(Fault::TooLarge),
            result => result,
        };
        match result {
            Ok(Progress::Incomplete) => {}
            Ok(_) => self.mode = Mode::Idle,
            Err(fault) => self.failed = Some(fault),
        }
        result
    }

    /// A view of the element or header that the last scan of `bytes` found.
    ///
    /// `scope` and `bytes` have to be those of that scan.
    pub fn element<'a>(&'a self, scope: &'a StreamScope, bytes: &'a [u8]) -> Element<'a> {
        let scope = if self.header {
            &StreamScope::None
        } else {
            scope
        };
        Element::new(self, scope, &bytes[..self.root.end as usize])
    }

    fn item(
        &mut self,
        scope: &StreamScope,
        expect: Expect,
        bytes: &[u8],
    ) -> Result<Progress, Fault> {
        if self.mode == Mode::Idle
            && let Some(progress) = self.begin(scope, expect, bytes)?
        {
            return Ok(progress);
        }
        if self.mode == Mode::StreamEnd {
            return self.stream_end(scope, bytes);
        }
        let scope = if self.header {
            &StreamScope::None
        } else {
            scope
        };
        loop {
            let step = match self.mode {
                Mode::Idle | Mode::Content | Mode::StreamEnd => self.content(bytes)?,
                Mode::Cdata => self.cdata(bytes)?,
                Mode::Tag | Mode::Equals | Mode::Quote | Mode::Value => self.tag(scope, bytes)?,
            };
            match step {
                Step::Pause => return Ok(Progress::Incomplete),
                Step::Next => {}
                Step::Done(progress) => return Ok(progress),
            }
        }
    }

    /// Begins an item: reads what is no element; none if an element begins.
    fn begin(
        &mut self,
        scope: &StreamScope,
        expect: Expect,
        bytes: &[u8],
    ) -> Result<Option<Progress>, Fault> {
        let Some(&first) = bytes.first() else {
            return Ok(Some(Progress::Incomplete));
        };
        if is_space(first) {
            return Ok(Some(Progress::Whitespace {
                consumed: skip_space(bytes, 1),
            }));
        }
        if first != b'<' {
            return Err(match (expect, first) {
                // No character of UTF-8 begins so, but the byte order marks of UTF-16 do.
                (_, 0xfe | 0xff) => Fault::UnsupportedEncoding,
                (Expect::Content, _) => Fault::StrayText,
                _ => Fault::NotXml,
            });
        }
        let Some(&second) = bytes.get(1) else {
            return Ok(Some(Progress::Incomplete));
        };
        match (expect, second) {
            (Expect::Opening, b'?') => return declaration(bytes).map(Some),
            (_, b'?') => return Err(Fault::ProcessingInstruction),
            (Expect::Content, b'/') => {
                self.searched = 0;
                return self.stream_end(scope, bytes).map(Some);
            }
            (_, b'!') => return outer_declaration(expect, bytes),
            _ => {}
        }
        self.header = expect != Expect::Content;
        self.at = 0;
        self.searched = 0;
        self.default = NO_DEFAULT;
        self.open.clear();
        self.declarations.clear();
        self.attributes.clear();
        self.children.clear();
        self.known = [UNKNOWN; 5];
        self.uses_default = false;
        self.uses_prefixes = 0;
        // The mode stays idle until the root's name is known: nothing has to be kept before.
        match self.start_tag(bytes)? {
            Step::Next => Ok(None),
            _ => Ok(Some(Progress::Incomplete)),
        }
    }

    fn stream_end(&mut self, scope: &StreamScope, bytes: &[u8]) -> Result<Progress, Fault> {
        let name = scope.root_name();
        if name.is_empty() {
            return Err(Fault::MismatchedTag);
        }
        if let Some(consumed) = end_tag(bytes, 0, &mut self.searched, name.as_bytes())? {
            return Ok(Progress::StreamEnd { consumed });
        }
        if self.searched > 0 {
            self.mode = Mode::StreamEnd;
        }
        Ok(Progress::Incomplete)
    }

    /// Reads the content of the innermost open element up to a start tag.
    fn content(&mut self, bytes: &[u8]) -> Result<Step, Fault> {
        loop {
            let Some(&first) = bytes.get(self.at) else {
                return Ok(Step::Pause);
            };
            if first != b'<' && !self.text(bytes)? {
                return Ok(Step::Pause);
            }
            match bytes.get(self.at + 1) {
                None => return Ok(Step::Pause),
                Some(b'/') => match self.close(bytes)? {
                    Step::Next => {}
                    step => return Ok(step),
                },
                Some(b'?') => return Err(Fault::ProcessingInstruction),
                Some(b'!') => return self.cdata_start(bytes),
                Some(_) => return self.start_tag(bytes),
            }
        }
    }

    /// Reads a run of text up to the next `<`; false if there is none yet.
    fn text(&mut self, bytes: &[u8]) -> Result<bool, Fault> {
        let found = if self.searched > self.at {
            let rest = &bytes[self.searched..];
            memchr::memchr(b'<', rest).map(|found| {
                let end = self.searched + found;
                (end, chars::survey(&bytes[self.at..end]))
            })
        } else {
            chars::find_end(bytes, self.at, b'<', false)
        };
        let Some((end, classes)) = found else {
            self.searched = bytes.len();
            return Ok(false);
        };
        if classes != 0 {
            let run = &bytes[self.at..end];
            chars::check_characters(run, classes)?;
            if classes & chars::BRACKET != 0 && memchr::memmem::find(run, b"]]>").is_some() {
                return Err(Fault::CdataEndInText);
            }
            if classes & chars::REFERENCE != 0 {
                chars::check_references(run)?;
            }
        }
        self.at = end;
        self.searched = 0;
        Ok(true)
    }

    fn cdata_start(&mut self, bytes: &[u8]) -> Result<Step, Fault> {
        const START: &[u8] = b"<![CDATA[";
        let rest = &bytes[self.at..];
        let there = rest.len().min(START.len());
        if rest[..there] != START[..there] {
            return Err(markup_declaration(rest[2]));
        }
        if there < START.len() {
            return Ok(Step::Pause);
        }
        self.at += START.len();
        self.searched = 0;
        self.mode = Mode::Cdata;
        Ok(Step::Next)
    }

    fn cdata(&mut self, bytes: &[u8]) -> Result<Step, Fault> {
        let from = self.searched.max(self.at);
        let Some(found) = memchr::memmem::find(&bytes[from..], b"]]>") else {
            // The last two bytes may belong to the end.
            self.searched = bytes.len().saturating_sub(2).max(self.at);
            return Ok(Step::Pause);
        };
        let run = &bytes[self.at..from + found];
        chars::check_characters(run, chars::survey(run))?;
        self.at = from + found + 3;
        self.searched = 0;
        self.mode = Mode::Content;
        Ok(Step::Next)
    }

    /// Reads an end tag and goes back to the element around it.
    fn close(&mut self, bytes: &[u8]) -> Result<Step, Fault> {
        let Some(&open) = self.open.last() else {
            return Err(Fault::MismatchedTag);
        };
        let name = &bytes[open.name as usize..][..open.name_length as usize];
        let Some(end) = end_tag(bytes, self.at, &mut self.searched, name)? else {
            return Ok(Step::Pause);
        };
        self.open.pop();
        self.declarations.truncate(open.declarations as usize);
        self.default = open.default;
        let inner_end = self.at as u32;
        self.at = end;
        self.searched = 0;
        match self.open.len() {
            0 => {
                self.root.inner_end = inner_end;
                self.root.end = end as u32;
                return Ok(Step::Done(Progress::Element { consumed: end }));
            }
            1 => {
                if let Some(child) = self.children.last_mut() {
                    child.inner_end = inner_end;
                    child.end = end as u32;
                }
            }
            _ => {}
        }
        Ok(Step::Next)
    }

    /// Reads `<` and the name behind it.
    fn start_tag(&mut self, bytes: &[u8]) -> Result<Step, Fault> {
        let start = self.at + 1;
        let Some(name) = chars::name(bytes, start)? else {
            return Ok(Step::Pause);
        };
        if self.open.len() == MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        if self.open.len() == 1 && self.children.len() == MAX_CHILDREN {
            return Err(Fault::TooManyChildren);
        }
        self.pending.open = Open {
            name: start as u32,
            name_length: (name.end - start) as u16,
            declarations: self.declarations.len() as u8,
            default: self.default,
        };
        self.pending.local = name.local as u16;
        self.pending.seen = 0;
        self.pending.prefixed = false;
        self.at = name.end;
        self.mode = Mode::Tag;
        Ok(Step::Next)
    }

    /// Keeps the place inside a start tag.
    fn pause(&mut self, mode: Mode, at: usize) -> Step {
        self.mode = mode;
        self.at = at;
        Step::Pause
    }

    /// Reads a start tag from behind its name, or from where it stood.
    fn tag(&mut self, scope: &StreamScope, bytes: &[u8]) -> Result<Step, Fault> {
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
        if self.open.is_empty() {
            0
        } else {
            self.root_attributes
        }
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
        let bit = 1
            << (name[0].wrapping_mul(7)
                ^ name[name.len() - 1]
                ^ (name.len() as u8).wrapping_mul(5))
                % 64;
        if self.pending.seen & bit != 0
            && self.attributes[first..]
                .iter()
                .any(|other| other.name(bytes) == name)
        {
            return Err(Fault::DuplicateAttribute);
        }
        self.pending.seen |= bit;
        if self.attributes.len() - first == MAX_ATTRIBUTES {
            return Err(Fault::TooManyAttributes);
        }
        if span.declares(bytes) {
            self.declare(bytes, span)?;
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
            if let Some(slot) = self.known.get_mut(known) {
                *slot = self.attributes.len() as u8;
            }
        }
        self.attributes.push(span);
        Ok(())
    }

    /// Brings a namespace declaration into scope (Namespaces in XML 3).
    fn declare(&mut self, bytes: &[u8], span: AttributeSpan) -> Result<(), Fault> {
        let value = span.value(bytes);
        if value.len() > MAX_NAMESPACE_BYTES {
            return Err(Fault::NamespaceTooLong);
        }
        if self.declarations.len() == MAX_DECLARATIONS {
            return Err(Fault::TooManyDeclarations);
        }
        let prefix = if span.local == 0 {
            &[]
        } else {
            &span.name(bytes)[6..]
        };
        let name = decode_value(value);
        let allowed = match prefix {
            b"xmlns" => false,
            b"xml" => name == ns::XML,
            _ => name != ns::XML && name != ns::XMLNS && (prefix.is_empty() || !name.is_empty()),
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
    fn namespace(
        &mut self,
        scope: &StreamScope,
        bytes: &[u8],
        prefix: &[u8],
    ) -> Result<NamespaceRef, Fault> {
        if !prefix.is_empty() {
            return self.namespace_of_prefix(scope, bytes, prefix);
        }
        match self.declarations.get(self.default as usize) {
            Some(declared) => Ok(NamespaceRef::Declared {
                at: declared.value,
                length: declared.value_length,
            }),
            None => {
                self.uses_default = true;
                Ok(NamespaceRef::StreamDefault)
            }
        }
    }

    fn namespace_of_prefix(
        &mut self,
        scope: &StreamScope,
        bytes: &[u8],
        prefix: &[u8],
    ) -> Result<NamespaceRef, Fault> {
        let names_it = |declared: &&Declaration| {
            bytes[declared.prefix as usize..][..declared.prefix_length as usize] == *prefix
        };
        if prefix == b"xml" {
            return Ok(NamespaceRef::Xml);
        }
        if prefix == b"xmlns" {
            return Err(Fault::ReservedNamespace);
        }
        if let Some(declared) = self.declarations.iter().rev().find(names_it) {
            return Ok(NamespaceRef::Declared {
                at: declared.value,
                length: declared.value_length,
            });
        }
        let index = scope.find(prefix).ok_or(Fault::UnboundPrefix)?;
        self.uses_prefixes |= 1 << index;
        Ok(NamespaceRef::Stream(index))
    }

    /// Finishes a start tag that ends before `end`: resolves its names and enters the element.
    fn opened(
        &mut self,
        scope: &StreamScope,
        bytes: &[u8],
        end: usize,
        empty: bool,
    ) -> Result<Step, Fault> {
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
            self.root = node;
            self.root_attributes = self.attributes.len();
            match (self.header, empty) {
                (true, true) => return Err(Fault::ClosedHeader),
                (true, false) => return Ok(Step::Done(Progress::Header { consumed: end })),
                (false, true) => return Ok(Step::Done(Progress::Element { consumed: end })),
                (false, false) => {}
            }
        } else {
            if depth == 1 {
                self.children.push(node);
            }
            self.attributes.truncate(self.root_attributes);
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
        for index in self.first_attribute()..self.attributes.len() {
            let span = self.attributes[index];
            if span.local == 0 || span.declares(bytes) {
                continue;
            }
            let namespace = self.namespace_of_prefix(scope, bytes, span.prefix(bytes))?;
            let local = &span.name(bytes)[span.local as usize..];
            let same = |&(other, name): &(NamespaceRef, &[u8])| {
                name == local
                    && (other == namespace
                        || other.resolve(scope, bytes) == namespace.resolve(scope, bytes))
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

/// Reads the end tag at `at`, which has to name `name`; the offset behind it, or none while it is not all there.
fn end_tag(
    bytes: &[u8],
    at: usize,
    searched: &mut usize,
    name: &[u8],
) -> Result<Option<usize>, Fault> {
    let rest = &bytes[at + 2..];
    let there = rest.len().min(name.len());
    if rest[..there] != name[..there] {
        return Err(Fault::MismatchedTag);
    }
    let end = at + 2 + name.len();
    if bytes.get(end) == Some(&b'>') {
        return Ok(Some(end + 1));
    }
    if bytes.len() <= end {
        return Ok(None);
    }
    let end = skip_space(bytes, end.max(*searched));
    match bytes.get(end) {
        None => {
            *searched = end;
            Ok(None)
        }
        Some(b'>') => Ok(Some(end + 1)),
        Some(_) => Err(Fault::MismatchedTag),
    }
}

/// What is wrong with `<!` and this byte behind it, where no CDATA section begins.
fn markup_declaration(byte: u8) -> Fault {
    match byte {
        b'-' => Fault::Comment,
        b'A'..=b'Z' => Fault::DocumentType,
        _ => Fault::Syntax,
    }
}

/// `<!` outside of stanzas: restricted, or text that is no white space.
fn outer_declaration(expect: Expect, bytes: &[u8]) -> Result<Option<Progress>, Fault> {
    match bytes.get(2) {
        None => Ok(Some(Progress::Incomplete)),
        Some(b'[') if expect == Expect::Content => Err(Fault::StrayText),
        Some(&byte) => Err(markup_declaration(byte)),
    }
}

/// Reads the XML declaration (XML 2.8, RFC 6120 11.4 and 11.5).
fn declaration(bytes: &[u8]) -> Result<Progress, Fault> {
    const START: &[u8] = b"<?xml";
    let there = bytes.len().min(START.len());
    if bytes[..there] != START[..there] {
        return Err(Fault::ProcessingInstruction);
    }
    match bytes.get(START.len()) {
        None => return Ok(Progress::Incomplete),
        Some(&byte) if !is_space(byte) => return Err(Fault::ProcessingInstruction),
        Some(_) => {}
    }
    let window = &bytes[..bytes.len().min(MAX_DECLARATION_BYTES)];
    let Some(end) = memchr::memmem::find(window, b"?>") else {
        return if bytes.len() > MAX_DECLARATION_BYTES {
            Err(Fault::TooLarge)
        } else {
            Ok(Progress::Incomplete)
        };
    };
    check_declaration(&window[START.len()..end])?;
    Ok(Progress::Declaration { consumed: end + 2 })
}

/// Checks what stands between `<?xml` and `?>`: version, encoding, standalone, in this order.
fn check_declaration(mut rest: &[u8]) -> Result<(), Fault> {
    let version = pseudo_attribute(&mut rest, b"version")?.ok_or(Fault::Syntax)?;
    // XML 2.8: a processor of 1.0 reads any 1.x as if it were 1.0.
    let minor = version.strip_prefix(b"1.").ok_or(Fault::Syntax)?;
    if minor.is_empty() || !minor.iter().all(u8::is_ascii_digit) {
        return Err(Fault::Syntax);
    }
    if let Some(encoding) = pseudo_attribute(&mut rest, b"encoding")? {
        if !encoding.first().is_some_and(u8::is_ascii_alphabetic) {
            return Err(Fault::Syntax);
        }
        if !encoding.eq_ignore_ascii_case(b"utf-8") {
            return Err(Fault::UnsupportedEncoding);
        }
    }
    if let Some(standalone) = pseudo_attribute(&mut rest, b"standalone")?
        && standalone != b"yes"
        && standalone != b"no"
    {
        return Err(Fault::Syntax);
    }
    if skip_space(rest, 0) == rest.len() {
        Ok(())
    } else {
        Err(Fault::Syntax)
    }
}

/// Takes ` name = 'value'` from the front; none if another name stands there.
fn pseudo_attribute<'a>(rest: &mut &'a [u8], name: &[u8]) -> Result<Option<&'a [u8]>, Fault> {
    let start = skip_space(rest, 0);
    if start == 0 || !rest[start..].starts_with(name) {
        return Ok(None);
    }
    let equals = skip_space(rest, start + name.len());
    if rest.get(equals) != Some(&b'=') {
        return Err(Fault::Syntax);
    }
    let at = skip_space(rest, equals + 1);
    let quote = *rest.get(at).ok_or(Fault::Syntax)?;
    if quote != b'"' && quote != b'\'' {
        return Err(Fault::Syntax);
    }
    let value = &rest[at + 1..];
    let end = memchr::memchr(quote, value).ok_or(Fault::Syntax)?;
    *rest = &value[end + 1..];
    Ok(Some(&value[..end]))
}

//! The streaming scanner: finds the next item of a stream and validates it in one pass.
//!
//! It must never know what a stanza is for. It reads XML 1.0 (fifth edition) with Namespaces in XML
//! 1.0, without the features that RFC 6120 11.1 excludes, and bounds everything by
//! [`limits::wire`](crate::limits::wire).
//!
//! The unit of work is the token: a name, an attribute's value, a run of text, an end tag. A token
//! is validated only when it is complete. Until then the scanner remembers where the token starts
//! and how far it has searched. The result therefore depends on the bytes alone, not on how they
//! were split into reads, and every byte is examined a bounded number of times however small the
//! reads are.

use super::chars::{self, is_space, skip_space};
use super::declaration::declaration;
use super::element::Element;
use super::fault::Fault;
use super::scope::StreamScope;
use super::span::{AttributeSpan, Layout, NamespaceRef};
use crate::limits::wire::{MAX_CHILDREN, MAX_DEPTH};

/// What the stream may contain next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The very first byte of a stream: an XML declaration or whatever [`Expect::Header`] allows.
    Opening,
    /// The stream header.
    Header,
    /// Stanzas and the end of the stream.
    Content,
}

/// The result of a scan. `consumed` counts the item's bytes from the start of the slice; the next
/// item begins after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No complete item yet: call again with the same bytes and more after them.
    Incomplete,
    /// White space between stanzas (RFC 6120 4.6.1: keepalives). A longer run may be split into
    /// several items.
    Whitespace {
        /// Length of the item in bytes.
        consumed: usize,
    },
    /// The XML declaration.
    Declaration {
        /// Length of the item in bytes.
        consumed: usize,
    },
    /// The start tag of the stream.
    Header {
        /// Length of the item in bytes.
        consumed: usize,
    },
    /// A complete element: a stanza or another first-level element of a stream.
    Element {
        /// Length of the item in bytes.
        consumed: usize,
    },
    /// The end tag of the stream.
    StreamEnd {
        /// Length of the item in bytes.
        consumed: usize,
    },
}

/// The scanner's position inside an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Before an item.
    #[default]
    Idle,
    /// In the content of an open element; `at` is the start of a run of text or of a tag.
    Content,
    /// In a CDATA section; `at` is the start of its content.
    Cdata,
    /// In a start tag, after its name or an attribute.
    Tag,
    /// After an attribute's name.
    Equals,
    /// After an attribute's `=`.
    Quote,
    /// In an attribute's value; `at` is its start.
    Value,
    /// In the end tag of the stream, after its name.
    StreamEnd,
}

/// An element that waits for its end tag, with the state to restore after it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    pub(super) name: u32,
    pub(super) name_length: u16,
    pub(super) declarations: u8,
    pub(super) default: u8,
}

/// A namespace declaration in scope; an empty prefix is the default namespace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declaration {
    pub(super) prefix: u32,
    pub(super) prefix_length: u16,
    /// The same for all declarations in scope that bind to the same name; [`NO_NUMBER`] until it is
    /// needed.
    pub(super) number: u8,
    /// Distinguishes most prefixes with one comparison: see [`key`](super::tag::key).
    pub(super) key: u64,
    pub(super) namespace: NamespaceRef,
}

/// The number of a declaration whose name has not been compared with the others yet.
pub(super) const NO_NUMBER: u8 = u8::MAX;

/// The start tag that is being read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pending {
    pub(super) open: Open,
    pub(super) local: u16,
    /// One bit per attribute name seen, by a small hash; it proves for most tags that there is no
    /// duplicate.
    pub(super) seen: u64,
    /// Whether two names have the same bit in `seen`: they are compared after the last attribute.
    pub(super) suspect: bool,
    pub(super) prefixed: bool,
    /// The attribute that is being read.
    pub(super) attribute: AttributeSpan,
    pub(super) quote: u8,
}

/// The index when no default namespace is declared inside the item.
const NO_DEFAULT: u8 = u8::MAX;

/// Finds and validates the items of a stream, one after the other.
///
/// One scanner serves any number of streams as long as items are complete. Its state belongs to one
/// stream only from an [`Progress::Incomplete`] to the end of that item, so a caller keeps a
/// scanner per connection only in between. Its memory is bounded by `limits::wire` and reused.
#[derive(Clone, Debug, Default)]
pub struct Scanner {
    pub(super) mode: Mode,
    pub(super) header: bool,
    pub(super) failed: Option<Fault>,
    /// Start of the incomplete token.
    pub(super) at: usize,
    /// How far that token has been searched; 0 for not yet.
    pub(super) searched: usize,
    pub(super) pending: Pending,
    /// Index of the default namespace in scope.
    pub(super) default: u8,
    pub(super) open: Vec<Open>,
    pub(super) declarations: Vec<Declaration>,
    /// The parts of the item found so far.
    pub(super) layout: Layout,
}

/// The result of a step of the scanner.
pub(super) enum Step {
    /// More bytes are needed.
    Pause,
    /// The next token can be read.
    Next,
    /// The item is complete.
    Done(Progress),
}

impl Scanner {
    /// A scanner before its first item. It does not allocate until it is used.
    pub fn new() -> Scanner {
        Scanner::default()
    }

    /// Discards the item in progress, as for a stream that restarts.
    pub fn reset(&mut self) {
        self.mode = Mode::Idle;
        self.failed = None;
        self.at = 0;
        self.searched = 0;
    }

    /// Whether an item has begun and is incomplete.
    pub fn in_item(&self) -> bool {
        self.mode != Mode::Idle
    }

    /// Scans the item that begins at the first byte of `bytes`, at most `max_bytes` long.
    ///
    /// After [`Progress::Incomplete`], call it with the same bytes and more after them; it resumes
    /// where it stopped. `scope` holds the declarations of the stream header (ignored before the
    /// header). After a fault it returns the same fault until [`Scanner::reset`].
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
        // Offsets have 32 bits. An item is cut at the limit, so a token beyond it is never
        // complete.
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
    /// `scope` and `bytes` must be those of that scan.
    pub fn element<'a>(&'a self, scope: &'a StreamScope, bytes: &'a [u8]) -> Element<'a> {
        let scope = if self.header { &StreamScope::None } else { scope };
        Element::new(&self.layout, scope, &bytes[..self.layout.root.end as usize])
    }

    fn item(&mut self, scope: &StreamScope, expect: Expect, bytes: &[u8]) -> Result<Progress, Fault> {
        if self.mode == Mode::Idle
            && let Some(progress) = self.begin(scope, expect, bytes)?
        {
            return Ok(progress);
        }
        if self.mode == Mode::StreamEnd {
            return self.stream_end(scope, bytes);
        }
        let scope = if self.header { &StreamScope::None } else { scope };
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

    /// Begins an item. Reads it if it is not an element; returns `None` if an element begins.
    fn begin(&mut self, scope: &StreamScope, expect: Expect, bytes: &[u8]) -> Result<Option<Progress>, Fault> {
        let Some(&first) = bytes.first() else {
            return Ok(Some(Progress::Incomplete));
        };
        if is_space(first) {
            return Ok(Some(Progress::Whitespace { consumed: skip_space(bytes, 1) }));
        }
        if first != b'<' {
            return Err(match (expect, first) {
                // No UTF-8 character begins with these bytes, but the byte order marks of UTF-16
                // do.
                (_, 0xfe | 0xff) => Fault::UnsupportedEncoding,
                (Expect::Content, _) => Fault::StrayText,
                _ => Fault::NotXml,
            });
        }
        let Some(&second) = bytes.get(1) else {
            return Ok(Some(Progress::Incomplete));
        };
        match (expect, second) {
            (Expect::Opening, b'?') => {
                let whole = |consumed| Progress::Declaration { consumed };
                return Ok(Some(declaration(bytes)?.map_or(Progress::Incomplete, whole)));
            }
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
        self.layout.clear();
        // The mode stays idle until the root's name is known: no state is needed before.
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
            // The last two bytes may belong to the terminator.
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

    /// Reads an end tag and returns to the parent element.
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
                self.layout.root.inner_end = inner_end;
                self.layout.root.end = end as u32;
                return Ok(Step::Done(Progress::Element { consumed: end }));
            }
            1 => {
                if let Some(child) = self.layout.children.last_mut() {
                    child.inner_end = inner_end;
                    child.end = end as u32;
                }
            }
            _ => {}
        }
        Ok(Step::Next)
    }

    /// Reads `<` and the name after it.
    fn start_tag(&mut self, bytes: &[u8]) -> Result<Step, Fault> {
        let start = self.at + 1;
        let Some(name) = chars::name(bytes, start)? else {
            return Ok(Step::Pause);
        };
        if self.open.len() == MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        if self.open.len() == 1 && self.layout.children.len() == MAX_CHILDREN {
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
        self.pending.suspect = false;
        self.pending.prefixed = false;
        self.at = name.end;
        self.mode = Mode::Tag;
        Ok(Step::Next)
    }
}

/// Reads the end tag at `at`, which must have the name `name`. Returns the offset after it, `None`
/// while it is incomplete.
fn end_tag(bytes: &[u8], at: usize, searched: &mut usize, name: &[u8]) -> Result<Option<usize>, Fault> {
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

/// The fault of `<!` followed by this byte, if no CDATA section begins there.
fn markup_declaration(byte: u8) -> Fault {
    match byte {
        b'-' => Fault::Comment,
        b'A'..=b'Z' => Fault::DocumentType,
        _ => Fault::Syntax,
    }
}

/// Handles `<!` outside stanzas: restricted XML, or text that is not white space.
fn outer_declaration(expect: Expect, bytes: &[u8]) -> Result<Option<Progress>, Fault> {
    match bytes.get(2) {
        None => Ok(Some(Progress::Incomplete)),
        Some(b'[') if expect == Expect::Content => Err(Fault::StrayText),
        Some(&byte) => Err(markup_declaration(byte)),
    }
}

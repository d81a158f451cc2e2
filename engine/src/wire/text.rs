//! XML text: decoding of scanned text, escaping and writing of output.

use super::chars::{is_char, reference};
use std::borrow::Cow;

/// Checked bytes as text. The scanner has checked every token of an item, and a token never ends
/// inside a character.
pub(super) fn valid(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the scanner checked these bytes")
}

/// The value of an attribute: references replaced and white space normalised (XML 3.3.3).
pub(super) fn decode_value(raw: &[u8]) -> Cow<'_, str> {
    if !raw.iter().any(|byte| matches!(byte, b'&' | b'\t' | b'\n' | b'\r')) {
        return Cow::Borrowed(valid(raw));
    }
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'&' | b'\t' | b'\n' | b'\r')) {
        out.push_str(valid(&rest[..at]));
        let special = rest[at];
        rest = &rest[at + 1..];
        if special == b'&' {
            rest = push_reference(&mut out, rest);
        } else {
            // A line end of two characters counts as one (XML 2.11).
            if special == b'\r' && rest.first() == Some(&b'\n') {
                rest = &rest[1..];
            }
            out.push(' ');
        }
    }
    out.push_str(valid(rest));
    Cow::Owned(out)
}

/// The text directly inside an element whose content is `inner`: references and line ends replaced,
/// CDATA sections unwrapped, child elements omitted.
pub(super) fn decode_content(inner: &[u8]) -> Cow<'_, str> {
    if memchr::memchr3(b'<', b'&', b'\r', inner).is_none() {
        return Cow::Borrowed(valid(inner));
    }
    let mut out = String::new();
    let mut rest = inner;
    let mut depth = 0usize;
    while !rest.is_empty() {
        if let Some(section) = rest.strip_prefix(b"<![CDATA[") {
            let end = memchr::memmem::find(section, b"]]>").unwrap_or(section.len());
            if depth == 0 {
                push_lines(&mut out, &section[..end]);
            }
            rest = section.get(end + 3..).unwrap_or(&[]);
        } else if rest[0] == b'<' {
            let end = tag_end(rest);
            if rest[1] == b'/' {
                depth = depth.saturating_sub(1);
            } else if rest[end - 2] != b'/' {
                depth += 1;
            }
            rest = &rest[end..];
        } else {
            let end = memchr::memchr(b'<', rest).unwrap_or(rest.len());
            if depth == 0 {
                push_text(&mut out, &rest[..end]);
            }
            rest = &rest[end..];
        }
    }
    Cow::Owned(out)
}

/// One run of text, without markup: references and line ends replaced.
pub(super) fn decode_text(raw: &[u8]) -> Cow<'_, str> {
    if memchr::memchr2(b'&', b'\r', raw).is_none() {
        return Cow::Borrowed(valid(raw));
    }
    let mut out = String::with_capacity(raw.len());
    push_text(&mut out, raw);
    Cow::Owned(out)
}

/// The content of a CDATA section: line ends replaced.
pub(super) fn decode_lines(raw: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\r', raw).is_none() {
        return Cow::Borrowed(valid(raw));
    }
    let mut out = String::with_capacity(raw.len());
    push_lines(&mut out, raw);
    Cow::Owned(out)
}

fn push_text(out: &mut String, mut rest: &[u8]) {
    while let Some(at) = memchr::memchr(b'&', rest) {
        push_lines(out, &rest[..at]);
        rest = push_reference(out, &rest[at + 1..]);
    }
    push_lines(out, rest);
}

/// Normalises line ends (XML 2.11): each CR LF and each CR becomes one LF.
fn push_lines(out: &mut String, mut rest: &[u8]) {
    while let Some(at) = memchr::memchr(b'\r', rest) {
        out.push_str(valid(&rest[..at]));
        out.push('\n');
        rest = &rest[at + 1..];
        rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    }
    out.push_str(valid(rest));
}

fn push_reference<'a>(out: &mut String, rest: &'a [u8]) -> &'a [u8] {
    match reference(rest) {
        Ok(Some((c, length))) => {
            out.push(c);
            &rest[length..]
        }
        // Not from a scanned item; kept verbatim.
        _ => {
            out.push('&');
            rest
        }
    }
}

/// Length of the scanned tag at the start of `bytes`, including its `>`.
pub(super) fn tag_end(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr3(b'>', b'"', b'\'', &bytes[at..]) {
        at += found + 1;
        match bytes[at - 1] {
            b'>' => return at,
            quote => match memchr::memchr(quote, &bytes[at..]) {
                Some(end) => at += end + 1,
                None => break,
            },
        }
    }
    bytes.len()
}

/// Appends `text` escaped for the content of an element. Characters that XML excludes become
/// U+FFFD.
pub fn escape_into(out: &mut Vec<u8>, text: &str) {
    escape(out, text, false);
}

/// Appends `text` escaped for an attribute value in either kind of quotes, so that decoding
/// restores it.
pub fn escape_value_into(out: &mut Vec<u8>, text: &str) {
    escape(out, text, true);
}

/// Whether a byte may have to be escaped.
static SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        // 0xEF begins what may be U+FFFE or U+FFFF.
        special[byte] = byte < 0x20 || matches!(byte as u8, b'&' | b'<' | b'>' | b'\'' | b'"' | 0xef);
        byte += 1;
    }
    special
};

fn escape(out: &mut Vec<u8>, text: &str, value: bool) {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| SPECIAL[usize::from(*byte)]) {
        out.extend_from_slice(bytes);
        return;
    }
    let mut copied = 0;
    for (at, c) in text.char_indices() {
        let replacement: &[u8] = match c {
            '&' => b"&amp;",
            '<' => b"&lt;",
            '>' => b"&gt;",
            '\'' if value => b"&apos;",
            '"' if value => b"&quot;",
            '\t' if value => b"&#9;",
            '\n' if value => b"&#10;",
            '\r' => b"&#13;",
            _ if !is_char(c as u32) => "\u{fffd}".as_bytes(),
            _ => continue,
        };
        out.extend_from_slice(&bytes[copied..at]);
        out.extend_from_slice(replacement);
        copied = at + c.len_utf8();
    }
    out.extend_from_slice(&bytes[copied..]);
}

/// Maximum number of open elements of a [`Writer`].
pub const WRITER_DEPTH: usize = 16;

/// Writes XML to the end of a buffer. Names come from the caller and are not checked; everything
/// else is escaped.
///
/// ```
/// let mut out = Vec::new();
/// let mut writer = throng_engine::wire::text::Writer::new(&mut out);
/// writer.open("iq").attribute("type", "result").attribute("id", "a&b");
/// writer.open("query").attribute("xmlns", "jabber:iq:version");
/// writer.leaf("name", "Throng").close().close();
/// assert_eq!(
///     out,
///     b"<iq type='result' id='a&amp;b'><query xmlns='jabber:iq:version'><name>Throng</name></query></iq>"
/// );
/// ```
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
    open: [&'o str; WRITER_DEPTH],
    depth: usize,
    in_tag: bool,
}

impl<'o> Writer<'o> {
    /// A writer that appends to `out`.
    pub fn new(out: &'o mut Vec<u8>) -> Writer<'o> {
        Writer { out, open: [""; WRITER_DEPTH], depth: 0, in_tag: false }
    }

    /// Opens an element.
    ///
    /// # Panics
    /// With more than [`WRITER_DEPTH`] open elements: the depth depends on the program, never on a
    /// peer.
    pub fn open(&mut self, name: &'o str) -> &mut Self {
        self.finish_tag();
        assert!(self.depth < WRITER_DEPTH, "elements written too deeply");
        self.open[self.depth] = name;
        self.depth += 1;
        self.out.push(b'<');
        self.out.extend_from_slice(name.as_bytes());
        self.in_tag = true;
        self
    }

    /// Adds an attribute to the element just opened.
    ///
    /// # Panics
    /// If content has been written since.
    pub fn attribute(&mut self, name: &str, value: &str) -> &mut Self {
        assert!(self.in_tag, "attribute outside of a start tag");
        write_attribute(self.out, name, value);
        self
    }

    /// Adds an attribute if there is a value.
    pub fn attribute_if(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.attribute(name, value),
            None => self,
        }
    }

    /// Adds text.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.finish_tag();
        escape_into(self.out, text);
        self
    }

    /// Adds complete XML that declares its own namespaces.
    pub fn raw(&mut self, xml: &[u8]) -> &mut Self {
        if !xml.is_empty() {
            self.finish_tag();
            self.out.extend_from_slice(xml);
        }
        self
    }

    /// Adds an empty element with its namespace.
    pub fn empty(&mut self, name: &'o str, namespace: &str) -> &mut Self {
        self.open(name).attribute("xmlns", namespace).close()
    }

    /// Adds an element with text only.
    pub fn leaf(&mut self, name: &'o str, text: &str) -> &mut Self {
        self.open(name).text(text).close()
    }

    /// Closes the innermost element; as an empty one if nothing was written into it.
    ///
    /// # Panics
    /// If no element is open.
    pub fn close(&mut self) -> &mut Self {
        assert!(self.depth > 0, "closed more elements than opened");
        self.depth -= 1;
        if self.in_tag {
            self.out.extend_from_slice(b"/>");
            self.in_tag = false;
        } else {
            self.out.extend_from_slice(b"</");
            self.out.extend_from_slice(self.open[self.depth].as_bytes());
            self.out.push(b'>');
        }
        self
    }

    fn finish_tag(&mut self) {
        if self.in_tag {
            self.out.push(b'>');
            self.in_tag = false;
        }
    }
}

/// Appends ` name='value'`.
pub fn write_attribute(out: &mut Vec<u8>, name: &str, value: &str) {
    write_attribute_of(out, name, &[value]);
}

/// The same with a value in parts.
pub fn write_attribute_of(out: &mut Vec<u8>, name: &str, value: &[&str]) {
    out.push(b' ');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"='");
    value.iter().for_each(|part| escape_value_into(out, part));
    out.push(b'\'');
}

//! Characters, names and references of XML 1.0 (fifth edition) over bytes.

use super::fault::Fault;
use crate::limits::wire::MAX_NAME_BYTES;

/// A byte below 0x20 that is not an XML character.
pub(super) const CONTROL: u8 = 1;
/// Part of a non-ASCII character: the UTF-8 of the run must be checked.
pub(super) const HIGH: u8 = 2;
/// `&`: the run contains references.
pub(super) const REFERENCE: u8 = 4;
/// `]`: the run may contain `]]>`.
pub(super) const BRACKET: u8 = 8;
/// `<`.
pub(super) const LESS: u8 = 16;
/// 0xEF: the run may contain U+FFFE or U+FFFF.
pub(super) const LAST_PLANE_ROW: u8 = 32;

const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b'\t' | b'\n' | b'\r' => 0,
            0..0x20 => CONTROL,
            b'&' => REFERENCE,
            b']' => BRACKET,
            b'<' => LESS,
            0xef => HIGH | LAST_PLANE_ROW,
            0x80.. => HIGH,
            _ => 0,
        };
        byte += 1;
    }
    class
};

const NAME_START: u8 = 1;
const NAME: u8 = 2;

const NAMES: [u8; 256] = {
    let mut names = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        names[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => NAME_START | NAME,
            b'0'..=b'9' | b'-' | b'.' => NAME,
            _ => 0,
        };
        byte += 1;
    }
    names
};

/// Bytes that are examined as one block, so that the compiler can use vector instructions.
const BLOCK: usize = 32;

/// Whether a block needs no closer examination: no markup, no reference, plain ASCII.
#[inline]
fn plain(block: &[u8; BLOCK], end: u8) -> bool {
    let mut special = 0u8;
    for &byte in block {
        special |= u8::from(byte >= 0x80)
            | u8::from(byte < 0x20) & u8::from(byte != b'\n')
            | u8::from(byte == b'&')
            | u8::from(byte == b']')
            | u8::from(byte == b'<')
            | u8::from(byte == end);
    }
    special == 0
}

/// Starting at `from`, returns the offset of the first `end` and the classes of all bytes before
/// it; `None` if there is no `end` yet.
///
/// `short` means that the run is expected to be shorter than a block: it is then read byte by byte
/// at first. A run that is long and not plain is read twice, by two loops that use vector
/// instructions.
// Always: both callers pass a constant `short`, and by default the compiler does not inline it in
// some builds.
#[inline(always)]
pub(super) fn find_end(bytes: &[u8], from: usize, end: u8, short: bool) -> Option<(usize, u8)> {
    let mut at = from;
    if !short {
        at += plain_blocks(bytes, from, end);
    }
    let stop = bytes.len().min(at + BLOCK);
    let mut classes = 0;
    for &byte in bytes.get(at..stop)? {
        if byte == end {
            return Some((at, classes));
        }
        classes |= CLASS[byte as usize];
        at += 1;
    }
    find_end_of_long(bytes, at, end, classes)
}

fn find_end_of_long(bytes: &[u8], from: usize, end: u8, classes: u8) -> Option<(usize, u8)> {
    let at = from + plain_blocks(bytes, from, end);
    let found = at + memchr::memchr(end, bytes.get(at..)?)?;
    Some((found, classes | survey(&bytes[at..found])))
}

/// Length of the plain blocks starting at `from`.
#[inline]
fn plain_blocks(bytes: &[u8], from: usize, end: u8) -> usize {
    let mut length = 0;
    while bytes.get(from + length..).and_then(<[u8]>::first_chunk).is_some_and(|block| plain(block, end)) {
        length += BLOCK;
    }
    length
}

/// The classes of all bytes of a run.
pub(super) fn survey(run: &[u8]) -> u8 {
    let (blocks, rest) = run.as_chunks::<BLOCK>();
    let mut classes = 0;
    for block in blocks {
        if !plain(block, b'<') {
            classes |= block.iter().fold(0, |sum, &byte| sum | CLASS[byte as usize]);
        }
    }
    rest.iter().fold(classes, |sum, &byte| sum | CLASS[byte as usize])
}

/// Checks the characters and the encoding of a run with these classes (XML 2.2).
#[inline]
pub(super) fn check_characters(run: &[u8], classes: u8) -> Result<(), Fault> {
    if classes & (CONTROL | HIGH) == 0 {
        return Ok(());
    }
    check_unusual(run, classes)
}

#[cold]
fn cold_invalid() -> Fault {
    Fault::InvalidUtf8
}

fn check_unusual(run: &[u8], classes: u8) -> Result<(), Fault> {
    if classes & CONTROL != 0 {
        return Err(Fault::IllegalCharacter);
    }
    if simdutf8::basic::from_utf8(run).is_err() {
        return Err(cold_invalid());
    }
    if classes & LAST_PLANE_ROW != 0 {
        let excluded = |at: usize| matches!(run.get(at + 1..at + 3), Some([0xbf, 0xbe | 0xbf]));
        if memchr::memchr_iter(0xef, run).any(excluded) {
            return Err(Fault::IllegalCharacter);
        }
    }
    Ok(())
}

/// Whether XML 2.2 allows this character.
pub(super) fn is_char(code: u32) -> bool {
    matches!(code, 0x9 | 0xa | 0xd | 0x20..=0xd7ff | 0xe000..=0xfffd | 0x1_0000..=0x10_ffff)
}

fn is_name_start(c: char) -> bool {
    matches!(c,
        '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}' | '\u{370}'..='\u{37d}'
        | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}'
        | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}'
        | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}')
        || c.is_ascii_alphabetic()
        || c == '_'
}

fn is_name(c: char) -> bool {
    is_name_start(c)
        || c.is_ascii_digit()
        || matches!(c, '-' | '.' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
}

/// White space of XML 2.3.
#[inline]
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// The offset of the first byte from `at` that is not white space.
#[inline]
pub(super) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|&byte| is_space(byte)) {
        at += 1;
    }
    at
}

/// A qualified name: its end, and the start of its local part (an offset into the name; 0 without a
/// prefix).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) end: usize,
    pub(super) local: usize,
}

/// Reads the qualified name at `from` (Namespaces in XML 4); `None` while it is incomplete.
///
/// An incomplete name is read again from its start. Names are bounded, so this stays linear.
#[inline]
pub(super) fn name(bytes: &[u8], from: usize) -> Result<Option<Name>, Fault> {
    let mut at = from;
    let stop = bytes.len().min(from + MAX_NAME_BYTES + 1);
    if let Some(&first) = bytes.get(at)
        && NAMES[first as usize] & NAME_START != 0
    {
        at += 1;
        while at < stop && NAMES[bytes[at] as usize] != 0 {
            at += 1;
        }
        if at < stop && bytes[at] < 0x80 && bytes[at] != b':' {
            return Ok(Some(Name { end: at, local: 0 }));
        }
    }
    unusual_name(bytes, from, stop)
}

/// Reads names with a prefix or with non-ASCII characters.
fn unusual_name(bytes: &[u8], from: usize, stop: usize) -> Result<Option<Name>, Fault> {
    let mut at = from;
    let mut local = 0;
    let mut start_of_part = true;
    while at < stop {
        let (c, length) = match character(&bytes[at..stop])? {
            Some(found) => found,
            None => break,
        };
        if c == ':' && !start_of_part && local == 0 {
            local = at + 1 - from;
            start_of_part = true;
        } else if start_of_part && is_name_start(c) {
            start_of_part = false;
        } else if start_of_part || c == ':' {
            return Err(Fault::Name);
        } else if !is_name(c) {
            if !c.is_ascii() {
                return Err(Fault::Name);
            }
            return Ok(Some(Name { end: at, local }));
        }
        at += length;
    }
    if stop == from + MAX_NAME_BYTES + 1 {
        return Err(Fault::NameTooLong);
    }
    Ok(None)
}

/// The character at the start of `bytes` and its length; `None` while it is incomplete.
fn character(bytes: &[u8]) -> Result<Option<(char, usize)>, Fault> {
    let Some(&first) = bytes.first() else {
        return Ok(None);
    };
    let length = match first {
        0..0x80 => return Ok(Some((first as char, 1))),
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return Err(Fault::InvalidUtf8),
    };
    match std::str::from_utf8(&bytes[..bytes.len().min(length)]) {
        Ok(text) => Ok(text.chars().next().map(|c| (c, length))),
        Err(error) if error.error_len().is_none() => Ok(None),
        Err(_) => Err(Fault::InvalidUtf8),
    }
}

/// Checks every reference of a run whose characters have been checked (XML 4.1, RFC 6120 11.1).
pub(super) fn check_references(run: &[u8]) -> Result<(), Fault> {
    let mut rest = run;
    while let Some(at) = memchr::memchr(b'&', rest) {
        rest = &rest[at + 1..];
        let Some((_, length)) = reference(rest)? else {
            return Err(Fault::MalformedReference);
        };
        rest = &rest[length..];
    }
    Ok(())
}

/// The character of the reference after an `&`, and the length of the reference with its `;`.
pub(super) fn reference(rest: &[u8]) -> Result<Option<(char, usize)>, Fault> {
    if rest.first() == Some(&b'#') {
        return character_reference(rest);
    }
    const PREDEFINED: [(&[u8], char); 5] =
        [(b"amp;", '&'), (b"lt;", '<'), (b"gt;", '>'), (b"quot;", '"'), (b"apos;", '\'')];
    for (name, c) in PREDEFINED {
        if rest.starts_with(name) {
            return Ok(Some((c, name.len())));
        }
    }
    match name(rest, 0) {
        Ok(Some(name)) if rest[name.end] == b';' => Err(Fault::EntityReference),
        Err(Fault::NameTooLong) => Err(Fault::NameTooLong),
        _ => Err(Fault::MalformedReference),
    }
}

fn character_reference(rest: &[u8]) -> Result<Option<(char, usize)>, Fault> {
    let (radix, digits) = if rest.get(1) == Some(&b'x') { (16, 2) } else { (10, 1) };
    let mut code = 0u32;
    let mut at = digits;
    while let Some(digit) = rest.get(at).and_then(|&byte| (byte as char).to_digit(radix)) {
        code = code.saturating_mul(radix).saturating_add(digit);
        at += 1;
    }
    if at == digits || rest.get(at) != Some(&b';') {
        return Err(Fault::MalformedReference);
    }
    match char::from_u32(code) {
        Some(c) if is_char(code) => Ok(Some((c, at + 1))),
        _ => Err(Fault::IllegalCharacter),
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, reference};

    /// XML 4.1: the digits of a character reference may have any number of leading zeros.
    #[test]
    fn a_character_reference_may_have_leading_zeros() {
        assert_eq!(reference(b"#0001111110;"), Ok(Some(('\u{10f446}', 12))));
        assert_eq!(reference(b"#x00010F446;"), Ok(Some(('\u{10f446}', 12))));
        assert_eq!(reference(b"#00000000001;"), Err(Fault::IllegalCharacter));
        assert_eq!(reference(b"#99999999999999999999;"), Err(Fault::IllegalCharacter));
    }
}

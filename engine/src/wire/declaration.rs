//! The XML declaration, the only part of a prolog that a stream may have.
//!
//! It must never look beyond its own `?>`.

use super::chars::{is_space, skip_space};
use super::fault::Fault;
use crate::limits::wire::MAX_DECLARATION_BYTES;

/// Reads the XML declaration (XML 2.8, RFC 6120 11.4 and 11.5). Returns its length in bytes, `None`
/// while it is incomplete.
pub(super) fn declaration(bytes: &[u8]) -> Result<Option<usize>, Fault> {
    const START: &[u8] = b"<?xml";
    let there = bytes.len().min(START.len());
    if bytes[..there] != START[..there] {
        return Err(Fault::ProcessingInstruction);
    }
    match bytes.get(START.len()) {
        None => return Ok(None),
        Some(&byte) if !is_space(byte) => return Err(Fault::ProcessingInstruction),
        Some(_) => {}
    }
    let window = &bytes[..bytes.len().min(MAX_DECLARATION_BYTES)];
    let Some(end) = memchr::memmem::find(window, b"?>") else {
        return if bytes.len() > MAX_DECLARATION_BYTES { Err(Fault::TooLarge) } else { Ok(None) };
    };
    check_declaration(&window[START.len()..end])?;
    Ok(Some(end + 2))
}

/// Checks the text between `<?xml` and `?>`: version, encoding, standalone, in this order.
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
    if skip_space(rest, 0) == rest.len() { Ok(()) } else { Err(Fault::Syntax) }
}

/// Removes ` name = 'value'` from the front; `None` if another name is there.
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

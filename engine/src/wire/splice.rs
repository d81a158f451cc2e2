//! Copies a scanned stanza with changed addresses, slice by slice.
//!
//! It must never look into the payload: what is not replaced is copied verbatim.

use super::element::Element;
use super::ns;
use super::text::{escape_value_into, write_attribute, write_attribute_of};
use std::ops::Range;

/// The changes to make in the copy. The default changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Splice<'a> {
    /// Whether to omit `from` and `to`, for a stanza that is stored or sent to many recipients and
    /// addressed by [`address`] later.
    pub unaddressed: bool,
    /// Sets `from`.
    pub from: Option<&'a str>,
    /// Sets or removes `to`.
    pub to: Option<Option<&'a str>>,
    /// Sets or removes `id`.
    pub id: Option<Option<&'a str>>,
    /// Sets `xml:lang` if the stanza has none (RFC 6120 8.1.5).
    pub lang: Option<&'a str>,
    /// Ranges of [`Element::bytes`] to omit, in order and disjoint: those of direct children.
    pub drop: &'a [Range<usize>],
    /// XML to add after the last child, one piece after the other. It declares its own namespaces.
    pub append: &'a [&'a [u8]],
    /// The default namespace at the destination of the copy: that of a client's stream, or of a
    /// wrapping element.
    pub within: &'a str,
}

impl Default for Splice<'_> {
    fn default() -> Self {
        Splice {
            unaddressed: false,
            from: None,
            to: None,
            id: None,
            lang: None,
            drop: &[],
            append: &[],
            within: ns::CLIENT,
        }
    }
}

/// Appends the stanza to `out` with the changes of `splice`.
///
/// Namespaces that the stanza inherited from its own stream are declared on the copy if they differ
/// in a client's stream, so that the copy has the same meaning there as the original.
pub fn splice(out: &mut Vec<u8>, element: &Element<'_>, splice: &Splice<'_>) {
    let bytes = element.bytes();
    let node = element.node();
    out.push(b'<');
    out.extend_from_slice(element.raw_name());
    write_attributes(out, element, splice);
    let tag_end = node.tag_end as usize;
    let empty = node.tag_end == node.end;
    if empty && splice.append.iter().all(|piece| piece.is_empty()) {
        out.extend_from_slice(b"/>");
        return;
    }
    out.push(b'>');
    let mut copied = tag_end;
    for left_out in splice.drop {
        if copied <= left_out.start && left_out.end <= node.inner_end as usize {
            out.extend_from_slice(&bytes[copied..left_out.start]);
            copied = left_out.end;
        }
    }
    out.extend_from_slice(&bytes[copied..node.inner_end as usize]);
    for piece in splice.append {
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(b"</");
    out.extend_from_slice(element.raw_name());
    out.push(b'>');
}

/// Writes the unchanged attributes verbatim, then those that are set.
fn write_attributes(out: &mut Vec<u8>, element: &Element<'_>, splice: &Splice<'_>) {
    let bytes = element.bytes();
    let mut default_declared = false;
    for span in element.spans() {
        let replaced = match span.name(bytes) {
            b"from" => splice.unaddressed || splice.from.is_some(),
            b"to" => splice.unaddressed || splice.to.is_some(),
            b"id" => splice.id.is_some(),
            name => {
                default_declared |= name == b"xmlns";
                false
            }
        };
        if !replaced {
            out.push(b' ');
            out.extend_from_slice(&bytes[span.name as usize..span.end()]);
        }
    }
    if let Some(from) = splice.from {
        write_attribute(out, "from", from);
    }
    if let Some(to) = splice.to.flatten() {
        write_attribute(out, "to", to);
    }
    if let Some(id) = splice.id.flatten() {
        write_attribute(out, "id", id);
    }
    if let Some(lang) = splice.lang
        && element.lang().is_none()
    {
        write_attribute(out, "xml:lang", lang);
    }
    let default = element.scope().default_namespace();
    if element.uses_default() && !default_declared && default != splice.within {
        write_attribute(out, "xmlns", default);
    }
    for (prefix, name) in element.used_prefixes() {
        if (prefix, name) != ("stream", ns::STREAM) {
            declare_prefix(out, element, prefix, name);
        }
    }
}

/// Declares a prefix of the stream's header on the copy. The root has no declaration of the same
/// prefix: it would cover the whole stanza, and nothing in it could refer to the header's.
fn declare_prefix(out: &mut Vec<u8>, element: &Element<'_>, prefix: &str, name: &str) {
    debug_assert!(element.declarations().all(|(own, _)| own != prefix));
    out.extend_from_slice(b" xmlns:");
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(b"='");
    escape_value_into(out, name);
    out.push(b'\'');
}

/// Appends a stanza that was stored unaddressed, with `from` and `to` inserted after its root's
/// name.
pub fn address(out: &mut Vec<u8>, unaddressed: &[u8], from: &str, to: &str) {
    address_to(out, unaddressed, from, &[to]);
}

/// The same with a `to` in parts, which need not be concatenated first.
pub fn address_to(out: &mut Vec<u8>, unaddressed: &[u8], from: &str, to: &[&str]) {
    let ends_name = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'>' | b'/');
    let name_end = unaddressed.iter().position(ends_name).unwrap_or(unaddressed.len());
    out.extend_from_slice(&unaddressed[..name_end]);
    write_attribute(out, "from", from);
    write_attribute_of(out, "to", to);
    out.extend_from_slice(&unaddressed[name_end..]);
}

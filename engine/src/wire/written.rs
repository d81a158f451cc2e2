//! Stanzas that this server writes: errors, results, and additions to other stanzas.

use crate::wire::error::{AppCondition, write_typed_stanza_error};
use crate::wire::limit::Refusal;
use crate::wire::text::write_attribute;
use crate::wire::{Element, Expect, Scanner, StreamScope, ns};

/// The three kinds of stanzas (RFC 6120 8.2).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stanza {
    Message,
    Presence,
    Iq,
}

impl Stanza {
    /// Selects the argument for this kind.
    pub(crate) fn of<T>(self, message: T, presence: T, iq: T) -> T {
        match self {
            Stanza::Message => message,
            Stanza::Presence => presence,
            Stanza::Iq => iq,
        }
    }

    /// The kind of a stanza that this server wrote: the names differ in their first letter after a
    /// prefix.
    pub(crate) fn written(xml: &[u8]) -> Stanza {
        let end = |b: &u8| b.is_ascii_whitespace() || matches!(b, b':' | b'/' | b'>');
        let local = match xml.iter().position(end) {
            Some(colon) if xml[colon] == b':' => colon + 1,
            _ => 1,
        };
        match xml.get(local) {
            Some(b'm') => Stanza::Message,
            Some(b'p') => Stanza::Presence,
            _ => Stanza::Iq,
        }
    }
}

/// Writes an error stanza (RFC 6120 8.3). `from` and `to` are those of the outgoing stanza.
pub(crate) fn write_error(
    out: &mut Vec<u8>,
    name: &str,
    id: Option<&str>,
    from: Option<&str>,
    to: Option<&str>,
    refusal: impl Into<Refusal>,
) {
    let refusal = refusal.into();
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b" type='error'");
    for (attribute, value) in [("id", id), ("from", from), ("to", to)] {
        if let Some(value) = value {
            write_attribute(out, attribute, value);
        }
    }
    out.push(b'>');
    let usual = refusal.held.map_or(refusal.condition.default_type(), |held| held.limit.kind());
    let kind = refusal.app.map_or(usual, |app| app.kind);
    let app = refusal.app.map(|app| AppCondition::Extension { name: app.name, xmlns: app.xmlns, detail: app.detail });
    write_typed_stanza_error(out, kind, refusal.condition, refusal.text().as_deref(), app);
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

/// Writes a result stanza (RFC 6120 8.2.3).
pub(crate) fn write_result(out: &mut Vec<u8>, id: Option<&str>, from: Option<&str>, to: &str, payload: &[u8]) {
    out.extend_from_slice(b"<iq type='result'");
    for (name, value) in [("id", id), ("from", from), ("to", Some(to))] {
        if let Some(value) = value {
            write_attribute(out, name, value);
        }
    }
    if payload.is_empty() {
        out.extend_from_slice(b"/>");
        return;
    }
    out.push(b'>');
    out.extend_from_slice(payload);
    out.extend_from_slice(b"</iq>");
}

/// Reads a stanza that this server wrote; `None` if it is not a stanza, which cannot happen.
pub(crate) fn read_back<T>(xml: &[u8], read: impl FnOnce(&Element<'_>) -> T) -> Option<T> {
    let (mut scanner, scope) = (Scanner::new(), StreamScope::Usual);
    let scanned = scanner.scan(&scope, Expect::Content, usize::MAX, xml);
    debug_assert!(xml.is_empty() || scanned.is_ok(), "what this server wrote cannot be read");
    scanned.is_ok().then(|| read(&scanner.element(&scope, xml)))
}

/// The `from` of a stanza that this server wrote.
pub(crate) fn from_of_stanza(xml: &[u8]) -> Option<String> {
    read_back(xml, |element| element.from().map(|from| from.into_owned())).flatten()
}

/// The `id` of a stanza that this server wrote. Only errors need it, so only they pay for the
/// search.
pub(crate) fn id_of_stanza(xml: &[u8]) -> Option<String> {
    read_back(xml, |element| element.id().map(|id| id.into_owned())).flatten()
}

/// Appends a complete stanza with the output of `extra` before its end tag; an empty one gets an
/// end tag.
pub(crate) fn insert_at_end(out: &mut Vec<u8>, xml: &[u8], extra: impl FnOnce(&mut Vec<u8>)) {
    let (name, rest) = split_at_name(xml);
    out.extend_from_slice(name);
    end_with(out, name, rest, extra);
}

/// Appends a stanza that this server wrote for a client's stream so that it means the same inside
/// another element. It keeps its namespace (XEP-0297 3.2), which its sender may have declared or
/// not, with or without a prefix.
pub(crate) fn write_forwarded(out: &mut Vec<u8>, xml: &[u8]) {
    let rest = forwarded_name(out, xml);
    out.extend_from_slice(rest);
}

/// The same, with the output of `extra` before its end tag.
pub(crate) fn write_forwarded_with(out: &mut Vec<u8>, xml: &[u8], extra: impl FnOnce(&mut Vec<u8>)) {
    let rest = forwarded_name(out, xml);
    end_with(out, split_at_name(xml).0, rest, extra);
}

/// Appends the name of a stanza that is to be forwarded, and its namespace. Returns the rest.
fn forwarded_name<'a>(out: &mut Vec<u8>, xml: &'a [u8]) -> &'a [u8] {
    let (name, rest) = split_at_name(xml);
    out.extend_from_slice(name);
    // Unprefixed names in it have this namespace, whatever the stanza's own is.
    if !declares(rest, b"xmlns") {
        write_attribute(out, "xmlns", ns::CLIENT);
    }
    rest
}

/// Splits a stanza after its `<` and name.
fn split_at_name(xml: &[u8]) -> (&[u8], &[u8]) {
    let end = xml.iter().position(|b| b.is_ascii_whitespace() || matches!(b, b'/' | b'>'));
    xml.split_at(end.unwrap_or(xml.len()))
}

/// Appends the part after the name of a stanza, with the output of `extra` before its end tag.
fn end_with(out: &mut Vec<u8>, name: &[u8], rest: &[u8], extra: impl FnOnce(&mut Vec<u8>)) {
    if let Some(attributes) = rest.strip_suffix(b"/>") {
        out.extend_from_slice(attributes);
        out.push(b'>');
        extra(out);
        out.extend_from_slice(b"</");
        out.extend_from_slice(name.strip_prefix(b"<").unwrap_or(name));
        out.push(b'>');
        return;
    }
    let end = memchr::memrchr(b'<', rest).unwrap_or(rest.len());
    out.extend_from_slice(&rest[..end]);
    extra(out);
    out.extend_from_slice(&rest[end..]);
}

/// Whether a start tag, after its name, has this declaration: `xmlns`, or one of a prefix.
pub(crate) fn declares(mut rest: &[u8], declaration: &[u8]) -> bool {
    while let Some(at) = memchr::memchr2(b'=', b'>', rest)
        && rest[at] == b'='
    {
        if rest[..at].trim_ascii() == declaration {
            return true;
        }
        let value = rest[at + 1..].trim_ascii_start();
        let Some((quote, value)) = value.split_first() else { return false };
        let Some(end) = memchr::memchr(*quote, value) else { return false };
        rest = &value[end + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::{Stanza, insert_at_end, write_forwarded, write_forwarded_with};

    #[test]
    fn the_kind_is_that_of_the_local_name() {
        for (xml, kind) in [
            ("<message/>", Stanza::Message),
            ("<presence>", Stanza::Presence),
            ("<iq a:b='c'/>", Stanza::Iq),
            ("<m:iq xmlns:m='jabber:client'/>", Stanza::Iq),
            ("<c:presence/>", Stanza::Presence),
        ] {
            assert!(Stanza::written(xml.as_bytes()) == kind, "{xml}");
        }
    }

    #[test]
    fn a_forwarded_stanza_keeps_its_namespace_xep_0297_3_2() {
        let forwarded = |xml: &str| {
            let mut out = Vec::new();
            write_forwarded(&mut out, xml.as_bytes());
            String::from_utf8(out).unwrap()
        };
        let inside = |xml: &str| format!("<forwarded xmlns='urn:xmpp:forward:0'>{}</forwarded>", forwarded(xml));
        for (xml, declared) in [
            ("<message/>", 1),
            ("<message><body>xmlns='a'</body></message>", 1),
            ("<message to='a@b'><body xmlns='c'>xmlns='a'</body></message>", 1),
            ("<message to='a@b' xmlns='jabber:client'><body/></message>", 0),
            ("<message\n xmlns = \"jabber:client\" to='a@b'/>", 0),
            ("<message id='> xmlns=\"a\" /' lang=\"'\"/>", 1),
            ("<message xmlns:c='jabber:client' to='a@b'/>", 1),
            ("<c:message xmlns:c='jabber:client'><body/></c:message>", 1),
            ("<c:message xmlns='urn:other' xmlns:c='jabber:client'><body/></c:message>", 0),
        ] {
            let without = forwarded(xml).replacen(" xmlns='jabber:client'", "", declared);
            assert_eq!(without, xml, "only the namespace is added, where there is none");
            let element: minidom::Element = inside(xml).parse().expect(xml);
            assert!(element.children().next().is_some_and(|message| message.is("message", "jabber:client")), "{xml}");
        }
    }

    #[test]
    fn extras_of_a_forwarded_stanza_go_where_they_go_without() {
        let extra = |out: &mut Vec<u8>| out.extend_from_slice(b"<x/>");
        for xml in ["<message/>", "<m:message xmlns:m='jabber:client' />", "<message a='/'><b/></message>", "<message>"]
        {
            let (mut inserted, mut expected, mut out) = (Vec::new(), Vec::new(), Vec::new());
            insert_at_end(&mut inserted, xml.as_bytes(), extra);
            write_forwarded(&mut expected, &inserted);
            write_forwarded_with(&mut out, xml.as_bytes(), extra);
            assert_eq!(String::from_utf8(out), String::from_utf8(expected), "{xml}");
        }
    }

    #[test]
    fn extras_go_before_the_end_tag() {
        let with_extra = |xml: &str| {
            let mut out = Vec::new();
            insert_at_end(&mut out, xml.as_bytes(), |out| out.extend_from_slice(b"<x/>"));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(with_extra("<message a='1'><b/></message>"), "<message a='1'><b/><x/></message>");
        assert_eq!(with_extra("<message a='1'/>"), "<message a='1'><x/></message>");
        assert_eq!(with_extra("<message/>"), "<message><x/></message>");
    }
}

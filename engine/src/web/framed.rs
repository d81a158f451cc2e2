//! Converts the output of a stream to WebSocket messages (RFC 7395 3.3). Each first-level element
//! is one message, and declares its namespaces itself.
//!
//! Streams write the same output for every transport; it is split into first-level elements here,
//! as it leaves. The elements were written by this server or validated on input, so only their ends
//! have to be found. Complete frames of this server may be between them, and the response to the
//! opening handshake before them: both pass unchanged.

use memchr::{memchr, memchr3, memmem};

use super::frame::write_head;
use super::open::FRAMING;
use crate::wire::ns;
use crate::wire::stream::STREAM_END;
use crate::wire::text::write_attribute;
use crate::wire::written::declares;

/// The beginning of this server's stream header (RFC 6120 4.7), after the XML declaration.
const HEADER: &[u8] = b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'";

/// Frames the output of a stream.
pub fn framed(stream: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(stream.len() + stream.len() / 8 + 64);
    let mut rest = stream;
    while let Some(first) = rest.first() {
        let length = match first {
            b'<' => element(&mut out, rest),
            // The head of a response.
            b'H' => pass(&mut out, rest, memmem::find(rest, b"\r\n\r\n").map_or(rest.len(), |end| end + 4)),
            // A control frame.
            0x80.. => pass(&mut out, rest, 2 + usize::from(rest.get(1).copied().unwrap_or_default())),
            // White space between stanzas has no meaning here (RFC 7395 3.8).
            _ => 1,
        };
        rest = &rest[length.min(rest.len())..];
    }
    out
}

fn pass(out: &mut Vec<u8>, rest: &[u8], length: usize) -> usize {
    out.extend_from_slice(&rest[..length.min(rest.len())]);
    length
}

/// Frames the first element, and returns its length.
fn element(out: &mut Vec<u8>, rest: &[u8]) -> usize {
    if rest.starts_with(b"<?") {
        return memchr(b'>', rest).map_or(rest.len(), |end| end + 1);
    }
    if rest.starts_with(STREAM_END) {
        message(out, &[b"<close xmlns='", FRAMING.as_bytes(), b"'/>"]);
        return STREAM_END.len();
    }
    if let Some(attributes) = rest.strip_prefix(HEADER) {
        let end = tag_end(attributes);
        let attributes = attributes[..end].strip_suffix(b">").unwrap_or(&attributes[..end]);
        message(out, &[b"<open xmlns='", FRAMING.as_bytes(), b"'", attributes, b"/>"]);
        return HEADER.len() + end;
    }
    let end = element_end(rest);
    let xml = &rest[..end];
    let name_end = xml.iter().position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>'));
    let (name, inside) = xml.split_at(name_end.unwrap_or(xml.len()));
    let mut declarations = Vec::new();
    if !name.starts_with(b"<stream:") && !declares(inside, b"xmlns") {
        write_attribute(&mut declarations, "xmlns", ns::CLIENT);
    }
    // Every client's stream declares this prefix, so the sender of the stanza may have used it.
    if memmem::find(xml, b"stream:").is_some() && !declares(inside, b"xmlns:stream") {
        write_attribute(&mut declarations, "xmlns:stream", ns::STREAM);
    }
    message(out, &[name, &declarations, inside]);
    end
}

fn message(out: &mut Vec<u8>, parts: &[&[u8]]) {
    write_head(out, parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// The end of a tag, after its `>`: attribute values may contain that character, too.
pub(super) fn tag_end(tag: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr3(b'>', b'\'', b'"', &tag[at..]) {
        let quote = tag[at + found];
        at += found + 1;
        if quote == b'>' {
            return at;
        }
        at += memchr(quote, &tag[at..]).map_or(tag.len() - at, |end| end + 1);
    }
    tag.len()
}

/// The end of the first element.
pub(super) fn element_end(xml: &[u8]) -> usize {
    const CDATA: &[u8] = b"<![CDATA[";
    let (mut at, mut depth) = (0, 0usize);
    while let Some(found) = memchr(b'<', &xml[at..]) {
        at += found;
        let tag = &xml[at..];
        if tag.starts_with(CDATA) {
            at += memmem::find(tag, b"]]>").map_or(tag.len(), |end| end + 3);
            continue;
        }
        let end = tag_end(tag);
        let closes = tag.get(1) == Some(&b'/');
        let empty = tag[..end].ends_with(b"/>");
        at += end;
        depth = match (closes, empty) {
            (true, _) => depth.saturating_sub(1),
            (false, true) => depth,
            (false, false) => depth + 1,
        };
        if depth == 0 {
            return at;
        }
    }
    xml.len()
}

#[cfg(test)]
mod tests {
    use super::framed;

    /// Splits the server's output into messages.
    fn messages(mut bytes: &[u8]) -> Vec<String> {
        let mut all = Vec::new();
        while let [first, short, rest @ ..] = bytes {
            assert_eq!(*first, 0x81, "a whole message of text, not masked (RFC 6455 5.1)");
            let (length, head) = match short {
                126 => (usize::from(u16::from_be_bytes(*rest.first_chunk().unwrap())), 2),
                127 => (u64::from_be_bytes(*rest.first_chunk().unwrap()) as usize, 8),
                short => (usize::from(*short), 0),
            };
            all.push(String::from_utf8(rest[head..head + length].to_vec()).unwrap());
            bytes = &rest[head + length..];
        }
        all
    }

    #[test]
    fn each_element_is_a_message_and_declares_its_namespace_rfc7395_3_3_3() {
        let stream = "<message to='a>b'><body>1 &gt; <![CDATA[</message>]]></body></message><r xmlns='urn:xmpp:sm:3'/> \
                      <iq\ttype=\"result\"/><presence xmlns = 'jabber:client'><x a=\"/>\"/></presence><presence></presence>";
        let expected = [
            "<message xmlns='jabber:client' to='a>b'><body>1 &gt; <![CDATA[</message>]]></body></message>",
            "<r xmlns='urn:xmpp:sm:3'/>",
            "<iq xmlns='jabber:client'\ttype=\"result\"/>",
            "<presence xmlns = 'jabber:client'><x a=\"/>\"/></presence>",
            "<presence xmlns='jabber:client'></presence>",
        ];
        assert_eq!(messages(&framed(stream.as_bytes())), expected);
    }

    #[test]
    fn header_and_end_are_open_and_close_rfc7395_3_3_2_and_features_declare_their_prefix() {
        let stream = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
                      xmlns:stream='http://etherx.jabber.org/streams' id='1&gt;' from='a.example' version='1.0' \
                      xml:lang='en'><stream:features><a xmlns='b'/></stream:features></stream:stream>";
        let expected = [
            "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' id='1&gt;' from='a.example' version='1.0' xml:lang='en'/>",
            "<stream:features xmlns:stream='http://etherx.jabber.org/streams'><a xmlns='b'/></stream:features>",
            "<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>",
        ];
        assert_eq!(messages(&framed(stream.as_bytes())), expected);
    }

    #[test]
    fn a_prefix_that_a_stanza_has_from_its_senders_stream_is_declared() {
        let used = framed(b"<message><stream:x/></message>");
        let expected =
            "<message xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'><stream:x/></message>";
        assert_eq!(messages(&used), [expected]);
        let own = "<message xmlns:stream='urn:own' xmlns='jabber:client'><stream:x/></message>";
        assert_eq!(messages(&framed(own.as_bytes())), [own]);
    }

    #[test]
    fn frames_and_the_first_answer_pass_as_they_are() {
        let mut stream = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n".to_vec();
        let head = stream.len();
        stream.extend_from_slice(b"\x8a\x02<a<r xmlns='urn:xmpp:sm:3'/>\x88\x02\x03\xe8");
        let out = framed(&stream);
        assert_eq!(out[..head], stream[..head]);
        assert_eq!(out[head..head + 4], *b"\x8a\x02<a");
        assert_eq!(out[out.len() - 4..], *b"\x88\x02\x03\xe8");
        assert_eq!(messages(&out[head + 4..out.len() - 4]), ["<r xmlns='urn:xmpp:sm:3'/>"]);
    }

    #[test]
    fn lengths_have_as_few_bytes_as_they_need_rfc6455_5_2() {
        for body in [0, 60, 100, 200, 65_000, 70_000] {
            let xml = format!("<message xmlns='jabber:client'><body>{}</body></message>", "x".repeat(body));
            let out = framed(xml.as_bytes());
            let head = match xml.len() {
                0..126 => 2,
                126..65_536 => 4,
                _ => 10,
            };
            assert_eq!(out.len(), head + xml.len());
            assert_eq!(messages(&out), [xml]);
        }
    }
}

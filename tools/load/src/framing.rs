//! What a client says on its stream, piece by piece, for carriers that are no stream (RFC 7395 3.3, XEP-0206 2).
//!
//! A [`Client`](crate::client::Client) writes the same bytes whatever carries them. Here, where they leave, the headers, the ends and
//! the elements are found, and elements are given the namespace that they have from the header.

use memchr::memmem;
use throng_engine::wire::{Expect, Progress, Scanner, StreamScope};

/// Bytes of an element at most.
pub(crate) const ELEMENT_BYTES_MAX: usize = 1 << 20;

/// The header of a server's stream, for clients whose carrier has none.
pub(crate) const HEADER: &[u8] =
    b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";

/// The end of a stream.
pub(crate) const END: &[u8] = b"</stream:stream>";

/// Where a server is asked, and for what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// `Host`.
    pub(crate) host: String,
    /// The path.
    pub(crate) path: String,
    /// The domain of the stream.
    pub(crate) domain: String,
    /// How long a request may wait, in seconds.
    pub(crate) wait_s: u32,
}

/// A piece of a client's stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece<'a> {
    /// The header, of the first stream or a later one.
    Header,
    /// A whole element.
    Element(&'a [u8]),
    /// The end.
    End,
}

/// The piece at the beginning, and its length; none if nothing is there. Clients write whole pieces.
pub(crate) fn piece<'a>(stream: &'a [u8], scanner: &mut Scanner) -> Option<(Piece<'a>, usize)> {
    const HEADER_END: &[u8] = b" version='1.0'>";
    if stream.is_empty() {
        return None;
    }
    if stream.starts_with(b"<?xml") {
        let end = memmem::find(stream, HEADER_END).map_or(stream.len(), |at| at + HEADER_END.len());
        return Some((Piece::Header, end));
    }
    if stream.starts_with(END) {
        return Some((Piece::End, END.len()));
    }
    match scanner.scan(&StreamScope::Usual, Expect::Content, ELEMENT_BYTES_MAX, stream) {
        Ok(Progress::Element { consumed }) => Some((Piece::Element(&stream[..consumed]), consumed)),
        // What is no element here is a fault of this program, which the server will name.
        _ => {
            scanner.reset();
            Some((Piece::Element(stream), stream.len()))
        }
    }
}

/// The start of an element up to where a declaration goes, and whether it needs one.
fn split(element: &[u8]) -> (usize, bool) {
    let of_client = [&b"<message"[..], b"<presence", b"<iq"].into_iter().find(|name| element.starts_with(name));
    (of_client.map_or(0, <[u8]>::len), of_client.is_some())
}

const OF_CLIENT: &[u8] = b" xmlns='jabber:client'";

/// Bytes of an element as [`write_alone`] writes it.
pub(crate) fn length_alone(element: &[u8]) -> usize {
    element.len() + if split(element).1 { OF_CLIENT.len() } else { 0 }
}

/// Appends an element so that it means the same without the header of the stream.
pub(crate) fn write_alone(out: &mut Vec<u8>, element: &[u8]) {
    let (at, needs) = split(element);
    out.extend_from_slice(&element[..at]);
    if needs {
        out.extend_from_slice(OF_CLIENT);
    }
    out.extend_from_slice(&element[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_comes_apart_at_its_first_level() {
        let header = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='s' to='a' version='1.0'>";
        let elements = [
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AA==</auth>",
            "<message to='a&gt;b'><body>&lt;x/&gt;</body><message/></message>",
            "<presence/>",
        ];
        let stream = [header, &elements.concat(), "</stream:stream>", header].concat();
        let (mut scanner, mut rest, mut found) = (Scanner::new(), stream.as_bytes(), Vec::new());
        while let Some((piece, used)) = piece(rest, &mut scanner) {
            found.push(piece);
            rest = &rest[used..];
        }
        let element = |at: usize| Piece::Element(elements[at].as_bytes());
        assert_eq!(found, [Piece::Header, element(0), element(1), element(2), Piece::End, Piece::Header]);
    }

    /// XEP-0206 4, RFC 7395 3.3.3: a stanza says itself that it is of `jabber:client`.
    #[test]
    fn stanzas_get_their_namespace_and_other_elements_have_theirs() {
        for (element, wanted) in [
            ("<presence/>", "<presence xmlns='jabber:client'/>"),
            ("<message to='a'><iq/></message>", "<message xmlns='jabber:client' to='a'><iq/></message>"),
            ("<a xmlns='urn:xmpp:sm:3' h='1'/>", "<a xmlns='urn:xmpp:sm:3' h='1'/>"),
        ] {
            let mut out = Vec::new();
            write_alone(&mut out, element.as_bytes());
            assert_eq!(String::from_utf8_lossy(&out), wanted);
            assert_eq!(length_alone(element.as_bytes()), wanted.len());
        }
    }
}

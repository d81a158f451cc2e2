//! The inputs: each with the stream error that answers it (RFC 6120 4.9.3).

/// One sort of input.
pub(super) struct Kind {
    /// Name in the results.
    pub(super) name: &'static str,
    /// The error that answers it; empty for a connection that may only be closed (a TLS listener has no stream to say
    /// anything on).
    pub(super) expect: &'static str,
    /// Where in the life of a stream it comes.
    pub(super) when: When,
    /// The bytes; the number is the connection's.
    pub(super) bytes: fn(usize) -> Vec<u8>,
    /// They come in two pieces, cut at a place that the number chooses.
    pub(super) split: bool,
}

/// Where in the life of a stream an input comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// At once.
    First,
    /// Behind a stream header.
    Opened,
    /// Behind login and binding.
    Bound,
    /// At once, on the listener for direct TLS.
    OnTls,
}

/// A stream header as clients send it.
pub(super) const HEADER: &str = "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
     xmlns:stream='http://etherx.jabber.org/streams' to='localhost' version='1.0'>";

const fn kind(name: &'static str, expect: &'static str, when: When, bytes: fn(usize) -> Vec<u8>) -> Kind {
    Kind { name, expect, when, bytes, split: false }
}

const fn split(name: &'static str, expect: &'static str, when: When, bytes: fn(usize) -> Vec<u8>) -> Kind {
    Kind { name, expect, when, bytes, split: true }
}

fn with(text: &str) -> Vec<u8> {
    text.into()
}

fn repeat(head: &str, middle: &str, times: usize) -> Vec<u8> {
    (head.to_owned() + &middle.repeat(times)).into()
}

fn attributes(head: &str, count: usize) -> Vec<u8> {
    (head.to_owned() + &(0..count).map(|i| format!(" a{i}='1'")).collect::<String>() + "/>").into()
}

fn not_utf8(number: usize) -> Vec<u8> {
    const BAD: [&[u8]; 6] =
        [b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xff\xfe", b"\xe2\x28\xa1", b"\x80\x80\x80"];
    let bad = BAD[number % BAD.len()];
    [b"<message><body>a\xc3\xa4", bad, b"b</body></message>"].concat()
}

fn noise(number: usize) -> Vec<u8> {
    let mut random = crate::report::Random::new(number as u64);
    // A first byte that cannot begin XML, white space, or a mark of another encoding.
    let mut bytes: Vec<u8> = (0..512).map(|_| random.next() as u8).collect();
    bytes[0] = 0x01;
    bytes
}

/// A ClientHello's first record, with nonsense inside.
fn tls_record(number: usize) -> Vec<u8> {
    [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), noise(number)].concat()
}

const DOCTYPE: &str = "<!DOCTYPE r [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'>]><r>&b;</r>";

/// All sorts.
pub(super) const KINDS: &[Kind] = &[
    kind("endless start tag as a header", "policy-violation", When::First, |_| {
        repeat("<stream:stream to='", "x", 40_000)
    }),
    kind("endless start tag", "policy-violation", When::Opened, |_| repeat("<message ", "x", 40_000)),
    kind("endless start tag, bound", "policy-violation", When::Bound, |_| repeat("<message a='", "x", 400_000)),
    kind("endless text", "policy-violation", When::Opened, |_| repeat("<message><body>", "text ", 8_000)),
    kind("endless text, bound", "policy-violation", When::Bound, |_| repeat("<message><body>", "text ", 80_000)),
    kind("a stanza over the limit", "policy-violation", When::Bound, |_| {
        repeat("<message to='romeo@localhost'><body>", "<b>0123456789</b>", 20_000)
    }),
    kind("depth 10,000", "policy-violation", When::Opened, |_| repeat("<message>", "<a>", 10_000)),
    kind("depth 10,000, bound", "policy-violation", When::Bound, |_| repeat("<message>", "<a>", 10_000)),
    kind("10,000 attributes", "policy-violation", When::Opened, |_| attributes("<message", 10_000)),
    kind("10,000 attributes, bound", "policy-violation", When::Bound, |_| attributes("<message", 10_000)),
    split("invalid UTF-8 in every split", "unsupported-encoding", When::Opened, not_utf8),
    split("invalid UTF-8 in every split, bound", "unsupported-encoding", When::Bound, not_utf8),
    kind("a document type with entities", "restricted-xml", When::First, |_| with(DOCTYPE)),
    kind("a document type inside", "restricted-xml", When::Opened, |_| with(DOCTYPE)),
    kind("an entity, bound", "restricted-xml", When::Bound, |_| with("<message><body>&lol;</body></message>")),
    kind("a processing instruction", "restricted-xml", When::Opened, |_| with("<?php system('id') ?>")),
    kind("an undeclared prefix", "not-well-formed", When::Opened, |_| with("<x:message/>")),
    kind("an undeclared prefix, bound", "not-well-formed", When::Bound, |_| with("<message><y:body/></message>")),
    kind("xml declared anew", "not-well-formed", When::Opened, |_| with("<message xmlns:xml='urn:other'/>")),
    kind("xmlns declared", "not-well-formed", When::Bound, |_| with("<message xmlns:xmlns='urn:other'/>")),
    kind("a header of another namespace", "invalid-namespace", When::First, |_| {
        with("<stream:stream xmlns='jabber:client' xmlns:stream='urn:wrong' to='localhost' version='1.0'>")
    }),
    kind("a stanza of another namespace", "invalid-namespace", When::Bound, |_| {
        with("<message xmlns='jabber:server'/>")
    }),
    kind("a stanza before authentication", "not-authorized", When::Opened, |_| {
        with("<message to='romeo@localhost'><body>psst</body></message>")
    }),
    kind("a second <auth/>", "unsupported-stanza-type", When::Bound, |_| {
        with("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGEAYg==</auth>")
    }),
    kind("a restart out of place", "restricted-xml", When::Bound, |_| with(HEADER)),
    kind("binary noise", "not-well-formed", When::First, noise),
    kind("TLS records as noise", "not-well-formed", When::First, tls_record),
    kind("noise to a TLS listener", "", When::OnTls, noise),
    kind("a broken handshake", "", When::OnTls, tls_record),
    kind("XML to a TLS listener", "", When::OnTls, |_| with(HEADER)),
];

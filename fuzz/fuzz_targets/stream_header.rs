//! Stream headers: reading any never panics, what is read is what an independent parser reads, and the server's own
//! header reads back whatever it carries.
#![no_main]

#[path = "../../engine/tests/wire/reference.rs"]
mod reference;

use libfuzzer_sys::fuzz_target;
use minidom::rxml;
use throng_engine::limits::wire::MAX_HEADER_BYTES;
use throng_engine::wire::stream::{Response, Version, read_header, write_header};
use throng_engine::wire::{Expect, Progress, Scanner, StreamScope};

/// Scans up to the header, gives its text.
fn header(scanner: &mut Scanner, mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut expect = Expect::Opening;
    loop {
        match scanner.scan(&StreamScope::None, expect, MAX_HEADER_BYTES, bytes).ok()? {
            Progress::Whitespace { consumed } | Progress::Declaration { consumed } => bytes = &bytes[consumed..],
            Progress::Header { consumed } => return Some(bytes[..consumed].to_vec()),
            _ => return None,
        }
        expect = Expect::Header;
    }
}

fn compare(tag: &[u8], scanner: &Scanner) {
    let element = scanner.element(&StreamScope::None, tag);
    let scope = StreamScope::of_header(&element);
    let mut reader = rxml::Reader::new(tag);
    let Ok(Some(rxml::Event::StartElement(_, (namespace, name), attributes))) = reader.read() else {
        // Declarations twice in one tag are the one thing it takes and Throng does not; the reverse has no exception.
        panic!("refused: {}", String::from_utf8_lossy(tag));
    };
    assert_eq!((element.name(), &*element.namespace()), (name.as_str(), namespace.as_str()));
    for attribute in element.attributes().filter(|a| a.prefix().is_empty()) {
        let theirs = attributes.get(&rxml::Namespace::NONE, attribute.name());
        assert_eq!(theirs.map(|value| &**value), Some(&*attribute.value()));
    }
    assert_eq!(scope.default_namespace() == "", element.declarations().all(|(p, n)| !p.is_empty() || n.is_empty()));
    if let Ok(read) = read_header(&element) {
        assert_eq!(read.to, element.attribute("to"));
        let version = element.attribute("version").map_or(Some(Version::UNSTATED), |text| Version::parse(&text));
        assert_eq!(read.version, version);
    }
}

fuzz_target!(|input: &[u8]| {
    let mut scanner = Scanner::new();
    if let Some(tag) = header(&mut scanner, &reference::without_returns(input))
        && !reference::is_beyond_the_other(&tag)
    {
        compare(&tag, &scanner);
    }
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if text.len() > 1_000 || text.chars().any(|c| c < ' ' || c == '\u{fffe}' || c == '\u{ffff}') {
        return;
    }
    let mut out = Vec::new();
    let version = Some(Version::XMPP_1_0);
    write_header(&mut out, &Response { from: text, to: Some(text), version, id: "i", lang: "en" });
    let mut scanner = Scanner::new();
    let tag = header(&mut scanner, &out);
    if let Some(tag) = tag {
        let element = scanner.element(&StreamScope::None, &tag);
        assert_eq!(element.to().as_deref(), Some(text));
        assert_eq!(StreamScope::of_header(&element), StreamScope::Usual);
    } else {
        // Escaped, the text may be six times as long.
        assert!(out.len() > MAX_HEADER_BYTES, "{text:?}");
    }
});

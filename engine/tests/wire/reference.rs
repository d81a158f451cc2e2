//! References for the scanner: an independent parser, and the scanner itself over other splits.
//! Shared with the fuzz targets.
#![allow(dead_code, unreachable_pub)]

use minidom::rxml;
use throng_engine::limits::wire::{MAX_HEADER_BYTES, MAX_STANZA_BYTES_DEFAULT};
use throng_engine::wire::{Element, Event, Expect, Fault, Progress, Scanner, Splice, StreamScope, splice};

/// The header that corresponds to the scope of a usual stream.
pub const HEADER: &str = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>";
const FOOTER: &str = "</stream:stream>";

/// A step through a document, in a form common to both parsers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flat {
    Start { namespace: String, name: String, attributes: Vec<(String, String)> },
    Text(String),
    End,
}

fn push_text(flat: &mut Vec<Flat>, text: &str) {
    match flat.last_mut() {
        Some(Flat::Text(before)) => before.push_str(text),
        _ if text.is_empty() => {}
        _ => flat.push(Flat::Text(text.to_owned())),
    }
}

/// A scanned element, step by step.
pub fn flatten(element: &Element<'_>) -> Vec<Flat> {
    let mut flat = Vec::new();
    for event in element.cursor() {
        match event {
            Event::Start(start) => {
                let mut attributes: Vec<_> =
                    start.attributes().map(|a| (a.name().to_owned(), a.value().into_owned())).collect();
                attributes.sort();
                let namespace = start.namespace().into_owned();
                flat.push(Flat::Start { namespace, name: start.name().to_owned(), attributes });
            }
            Event::Text(text) => push_text(&mut flat, &text),
            Event::End => flat.push(Flat::End),
        }
    }
    flat
}

/// The independent parser's result for these items in a stream with this header; `None` if it
/// refuses them.
pub fn reference(header: &str, items: &[u8]) -> Option<Vec<Flat>> {
    let document = [header.as_bytes(), items, FOOTER.as_bytes()].concat();
    let options = rxml::parser::Options { max_token_length: 1 << 20, ..Default::default() };
    let mut reader = rxml::Reader::with_options(&document[..], options);
    let mut flat = Vec::new();
    while let Some(event) = reader.read().ok()? {
        match event {
            rxml::Event::XmlDeclaration(..) => {}
            rxml::Event::StartElement(_, (namespace, name), attributes) => {
                let mut attributes: Vec<_> =
                    attributes.iter().map(|((_, name), value)| (name.to_string(), value.clone())).collect();
                attributes.sort();
                flat.push(Flat::Start { namespace: namespace.to_string(), name: name.to_string(), attributes });
            }
            rxml::Event::EndElement(_) => flat.push(Flat::End),
            rxml::Event::Text(_, text) => push_text(&mut flat, &text),
        }
    }
    flat.remove(0);
    flat.pop();
    Some(flat)
}

/// An item of a stream and its visible properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Whitespace(usize),
    Declaration(usize),
    Header(usize, Vec<(String, String)>),
    Element(usize, Vec<Flat>, Vec<(String, std::ops::Range<usize>, std::ops::Range<usize>)>),
    StreamEnd(usize),
}

/// The result for a stream: its items, and how it ended if it did.
pub type Outcome = (Vec<Item>, Option<Fault>);

/// Scans a stream whose bytes arrive up to each of `cuts` in turn, then whole.
pub fn scan(bytes: &[u8], opening: bool, max_bytes: usize, cuts: impl IntoIterator<Item = usize>) -> Outcome {
    let mut scanner = Scanner::new();
    let mut scope = StreamScope::Usual;
    let mut expect = if opening { Expect::Opening } else { Expect::Content };
    let mut items = Vec::new();
    let mut start = 0;
    for there in cuts.into_iter().filter(|&cut| cut <= bytes.len()).chain([bytes.len()]) {
        if there < start {
            continue;
        }
        loop {
            let rest = &bytes[start..there];
            let consumed = match scanner.scan(&scope, expect, max_bytes, rest) {
                Err(fault) => return (items, Some(fault)),
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Whitespace { consumed }) => {
                    match items.last_mut() {
                        Some(Item::Whitespace(before)) => *before += consumed,
                        _ => items.push(Item::Whitespace(consumed)),
                    }
                    consumed
                }
                Ok(Progress::Declaration { consumed }) => {
                    items.push(Item::Declaration(consumed));
                    consumed
                }
                Ok(Progress::Header { consumed }) => {
                    let header = scanner.element(&scope, rest);
                    let attributes = header.attributes().map(|a| (a.name().to_owned(), a.value().into_owned()));
                    items.push(Item::Header(consumed, attributes.collect()));
                    let declared = StreamScope::of_header(&header);
                    scope = declared;
                    consumed
                }
                Ok(Progress::Element { consumed }) => {
                    let element = scanner.element(&scope, rest);
                    assert_eq!(element.bytes().len(), consumed);
                    let children = element.children().map(|child| {
                        assert!(rest[child.range()].starts_with(b"<") && rest[child.range()].ends_with(b">"));
                        let _ = (child.text(), child.attribute("type"), child.is_self_contained());
                        (format!("{}{}", child.namespace(), child.name()), child.range(), child.inner_range())
                    });
                    let children = children.collect();
                    let _ =
                        (element.to(), element.from(), element.id(), element.kind(), element.lang(), element.text());
                    items.push(Item::Element(consumed, flatten(&element), children));
                    consumed
                }
                Ok(Progress::StreamEnd { consumed }) => {
                    items.push(Item::StreamEnd(consumed));
                    return (items, None);
                }
            };
            assert!(consumed > 0 && consumed <= rest.len().min(max_bytes));
            start += consumed;
            expect = match expect {
                Expect::Content => Expect::Content,
                _ if matches!(items.last(), Some(Item::Header(..))) => Expect::Content,
                _ => Expect::Header,
            };
        }
    }
    (items, None)
}

/// Scans the content of a usual stream with both parsers; returns the difference, if any.
pub fn disagreement(bytes: &[u8]) -> Option<String> {
    let bytes = &without_returns(bytes);
    let (items, fault) = scan(bytes, false, MAX_STANZA_BYTES_DEFAULT, []);
    let theirs = reference(HEADER, bytes);
    let mut complete = 0;
    let mut ours = Vec::new();
    for item in items {
        match item {
            Item::Whitespace(length) => complete += length,
            Item::Element(length, flat, _) => {
                complete += length;
                ours.extend(flat);
            }
            // Data after the end of a stream is ignored.
            _ => return None,
        }
    }
    if fault.is_some_and(|fault| stricter(fault, bytes)) || theirs.is_none() && is_beyond_the_other(bytes) {
        return None;
    }
    let accepted = fault.is_none() && complete == bytes.len();
    let theirs = theirs.map(without_outer_text);
    let same = if accepted { theirs.as_ref() == Some(&ours) } else { theirs.is_none() };
    (!same).then(|| format!("{fault:?} at {complete} of {}\n{ours:?}\n{theirs:?}", bytes.len()))
}

/// The same with each carriage return replaced by a line feed: the other parser refuses a lone one
/// in an attribute's value and keeps one after `]` in a CDATA section, against XML 2.11.
pub fn without_returns(bytes: &[u8]) -> Vec<u8> {
    let line_feed = |&byte: &u8| if byte == b'\r' { b'\n' } else { byte };
    bytes.iter().map(line_feed).collect()
}

/// Whether there is a character from U+FDF0 to U+FFFD: XML 2.3 has them in names, the other parser
/// does not.
pub fn has_omitted_name_character(bytes: &[u8]) -> bool {
    let omitted = |c: char| matches!(c, '\u{fdf0}'..='\u{fffd}');
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains(omitted))
}

/// Whether there is a reference with more than eight digits: XML 4.1 allows any number of leading
/// zeros, the other parser does not.
pub fn has_long_reference(bytes: &[u8]) -> bool {
    let digits = |run: &[u8]| run.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let long = |at: usize| digits(bytes[at + 2..].strip_prefix(b"x").unwrap_or(&bytes[at + 2..])) > 8;
    bytes.windows(2).enumerate().any(|(at, window)| window == b"&#" && long(at))
}

/// Input that Throng accepts and the other parser refuses.
pub fn is_beyond_the_other(bytes: &[u8]) -> bool {
    has_omitted_name_character(bytes) || has_long_reference(bytes)
}

/// Faults that the independent parser does not detect: Throng's limits, text between stanzas, and a
/// namespace declared twice in one tag, which XML 3.1 forbids and that parser accepts.
fn stricter(fault: Fault, bytes: &[u8]) -> bool {
    let declarations = bytes.windows(5).filter(|window| window == b"xmlns").count();
    fault.condition() == "policy-violation"
        || fault == Fault::StrayText
        || fault == Fault::DuplicateAttribute && declarations > 1
}

/// White space between stanzas is text to the other parser.
fn without_outer_text(flat: Vec<Flat>) -> Vec<Flat> {
    let mut depth = 0;
    let mut kept = Vec::new();
    for step in flat {
        match step {
            Flat::Start { .. } => depth += 1,
            Flat::End => depth -= 1,
            Flat::Text(_) if depth == 0 => continue,
            Flat::Text(_) => {}
        }
        kept.push(step);
    }
    kept
}

/// Splices every element of a stream with this header and scans the copies; panics if a copy has
/// another meaning.
pub fn check_splices(header: &str, bytes: &[u8], from: &str) {
    let mut scanner = Scanner::new();
    let progress = scanner.scan(&StreamScope::None, Expect::Header, MAX_HEADER_BYTES, header.as_bytes());
    if progress != Ok(Progress::Header { consumed: header.len() }) {
        return;
    }
    let scope = StreamScope::of_header(&scanner.element(&StreamScope::None, header.as_bytes()));
    let mut rest = bytes;
    loop {
        match scanner.scan(&scope, Expect::Content, MAX_STANZA_BYTES_DEFAULT, rest) {
            Ok(Progress::Element { consumed }) => {
                check_splice(&scanner.element(&scope, rest), from);
                rest = &rest[consumed..];
            }
            Ok(Progress::Whitespace { consumed }) => rest = &rest[consumed..],
            _ => return,
        }
    }
}

fn check_splice(element: &Element<'_>, from: &str) {
    // If its own attributes and declarations are near the limit, a copy with more of them exceeds
    // it.
    if element.attributes().count() + element.declarations().count() > 8 {
        return;
    }
    let mut before = flatten(element);
    let mut out = Vec::new();
    splice(&mut out, element, &Splice::default());
    let same = scan(&out, false, usize::MAX, []);
    match &same {
        (items, None) if matches!(&items[..], [Item::Element(_, flat, _)] if *flat == before) => {}
        _ => panic!("{}: {same:?}", String::from_utf8_lossy(&out)),
    }
    // Attributes with a prefix have the same local name in this comparison.
    if element.attributes().any(|a| !a.prefix().is_empty()) {
        return;
    }
    let stamp = Splice { from: Some(from), to: Some(Some("t")), id: Some(Some("i")), ..Splice::default() };
    out.clear();
    splice(&mut out, element, &stamp);
    let Flat::Start { attributes, .. } = &mut before[0] else { panic!("an element starts") };
    attributes.retain(|(name, _)| !["from", "to", "id"].contains(&&**name));
    let legal = |c: char| {
        if matches!(c, '\0'..' ' | '\u{fffe}' | '\u{ffff}') && !"\t\n\r".contains(c) { '\u{fffd}' } else { c }
    };
    let from = from.chars().map(legal).collect();
    attributes.extend([
        ("from".to_owned(), from),
        ("to".to_owned(), "t".to_owned()),
        ("id".to_owned(), "i".to_owned()),
    ]);
    attributes.sort();
    let changed = scan(&out, false, usize::MAX, []);
    match &changed {
        (items, None) if matches!(&items[..], [Item::Element(_, flat, _)] if *flat == before) => {}
        _ => panic!("{}: {changed:?}", String::from_utf8_lossy(&out)),
    }
}

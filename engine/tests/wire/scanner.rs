//! The scanner, clause by clause.

use throng_engine::limits::wire as limits;
use throng_engine::wire::{Element, Event, Expect, Fault, Progress, Scanner, StreamScope, ns};

use super::reference::{self, Item, scan};

const MAX: usize = limits::MAX_STANZA_BYTES_DEFAULT;

/// Scans one stanza of a usual stream and passes it to a function.
fn with<R>(stanza: &str, look: impl FnOnce(Element<'_>) -> R) -> R {
    let mut scanner = Scanner::new();
    let progress = scanner.scan(&StreamScope::Usual, Expect::Content, MAX, stanza.as_bytes());
    assert_eq!(progress, Ok(Progress::Element { consumed: stanza.len() }), "{stanza}");
    look(scanner.element(&StreamScope::Usual, stanza.as_bytes()))
}

/// The result for a stream's content, whole and byte by byte.
#[track_caller]
fn content(bytes: impl AsRef<[u8]>) -> Result<Vec<Item>, Fault> {
    outcome(bytes.as_ref(), false)
}

/// The same from a stream's first byte.
#[track_caller]
fn opening(bytes: impl AsRef<[u8]>) -> Result<Vec<Item>, Fault> {
    outcome(bytes.as_ref(), true)
}

#[track_caller]
fn outcome(bytes: &[u8], opening: bool) -> Result<Vec<Item>, Fault> {
    let whole = scan(bytes, opening, MAX, []);
    assert_eq!(whole, scan(bytes, opening, MAX, 0..bytes.len()), "byte by byte");
    match whole {
        (_, Some(fault)) => Err(fault),
        (items, None) => Ok(items),
    }
}

#[test]
fn a_stanza_shows_its_names_attributes_and_children() {
    let stanza = "<message to='juliet@example.com/balcony' from=\"romeo@example.net\" id='a1' type='chat' \
                  xml:lang='en'><body>Wherefore &lt;art&gt; thou?</body><x xmlns='jabber:x:oob' a='1'><url>u</url></x>\
                  <s:y xmlns:s='urn:s' s:b='2'/></message>";
    with(stanza, |message| {
        assert!(message.is("message", ns::CLIENT));
        assert_eq!(message.to().as_deref(), Some("juliet@example.com/balcony"));
        assert_eq!(message.from().as_deref(), Some("romeo@example.net"));
        assert_eq!(message.id().as_deref(), Some("a1"));
        assert_eq!(message.kind().as_deref(), Some("chat"));
        assert_eq!(message.lang().as_deref(), Some("en"));
        assert_eq!(message.attribute("id").as_deref(), Some("a1"));
        assert_eq!(message.attribute("lang"), None, "a prefixed attribute is another one");
        let names: Vec<_> = message.children().map(|c| (c.name(), c.namespace())).collect();
        assert_eq!(names, [("body", ns::CLIENT), ("x", "jabber:x:oob"), ("y", "urn:s")]);
        assert_eq!(message.child("body", ns::CLIENT).unwrap().text(), "Wherefore <art> thou?");
        let oob = message.child("x", "jabber:x:oob").unwrap();
        assert_eq!(oob.inner(), b"<url>u</url>");
        assert_eq!(oob.attribute("a").as_deref(), Some("1"));
        assert!(oob.is_self_contained());
        let prefixed = message.child("y", "urn:s").unwrap();
        assert_eq!(prefixed.inner(), b"");
        assert_eq!(prefixed.attribute("b"), None);
        assert!(!prefixed.is_self_contained());
        assert_eq!(message.bytes(), stanza.as_bytes());
    });
}

#[test]
fn rfc6120_4_6_1_white_space_between_stanzas_is_an_item() {
    let items = content(" \n<presence/>\t").unwrap();
    assert!(matches!(items[..], [Item::Whitespace(2), Item::Element(11, ..), Item::Whitespace(1)]), "{items:?}");
}

#[test]
fn rfc6120_4_4_the_end_tag_of_the_stream_ends_it() {
    assert_eq!(content("</stream:stream>"), Ok(vec![Item::StreamEnd(16)]));
    assert_eq!(content("</stream:stream \n>"), Ok(vec![Item::StreamEnd(18)]));
    assert_eq!(content("</stream>"), Err(Fault::MismatchedTag));
    assert_eq!(content("</stream:streams>"), Err(Fault::MismatchedTag));
}

#[test]
fn rfc6120_4_9_3_1_text_between_stanzas_is_bad_format() {
    assert_eq!(content("x"), Err(Fault::StrayText));
    assert_eq!(content("<a/>&amp;"), Err(Fault::StrayText));
    assert_eq!(content("<![CDATA[x]]>"), Err(Fault::StrayText));
    assert_eq!(Fault::StrayText.condition(), "bad-format");
}

#[test]
fn what_is_no_xml_fails_at_its_first_byte() {
    for noise in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01\x02", b"\x00", b"{\"a\":1}", b"\xef\xbb\xbf<"] {
        assert_eq!(opening(&noise[..1]), Err(Fault::NotXml), "{noise:?}");
        assert_eq!(opening(noise), Err(Fault::NotXml), "{noise:?}");
    }
    assert_eq!(Fault::NotXml.condition(), "not-well-formed");
}

#[test]
fn rfc6120_11_6_only_utf8() {
    assert_eq!(opening(b"\xff\xfe<\0"), Err(Fault::UnsupportedEncoding));
    assert_eq!(opening(b"\xfe\xff\0<"), Err(Fault::UnsupportedEncoding));
    assert_eq!(opening("<?xml version='1.0' encoding='ISO-8859-1'?>"), Err(Fault::UnsupportedEncoding));
    assert_eq!(opening("<?xml version='1.0' encoding='UTF-16'?>"), Err(Fault::UnsupportedEncoding));
    assert_eq!(opening("<?xml version=\"1.0\" encoding='utf-8'?>"), Ok(vec![Item::Declaration(38)]));
    assert_eq!(Fault::UnsupportedEncoding.condition(), "unsupported-encoding");
}

#[test]
fn rfc6120_4_9_3_22_broken_utf8_is_unsupported_encoding() {
    for broken in [&b"\xc3("[..], b"\xa0\xa1", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"\xf0\x90\x28\xbc"] {
        let text = [b"<a>", broken, b"</a>"].concat();
        assert_eq!(content(text), Err(Fault::InvalidUtf8));
        let value = [b"<a b='", broken, b"'/>"].concat();
        assert_eq!(content(value), Err(Fault::InvalidUtf8));
        let cdata = [b"<a><![CDATA[", broken, b"]]></a>"].concat();
        assert_eq!(content(cdata), Err(Fault::InvalidUtf8));
        let name = [b"<a", broken, b"/>"].concat();
        assert_eq!(content(name), Err(Fault::InvalidUtf8));
    }
    assert_eq!(Fault::InvalidUtf8.condition(), "unsupported-encoding");
}

#[test]
fn xml_2_8_the_declaration_is_the_very_first_or_nowhere() {
    let items = opening(format!("<?xml version='1.0'?>\n{}<a/>", reference::HEADER)).unwrap();
    assert!(matches!(items[..], [Item::Declaration(21), Item::Whitespace(1), Item::Header(..), Item::Element(..)]));
    assert_eq!(opening(" <?xml version='1.0'?>"), Err(Fault::ProcessingInstruction));
    assert_eq!(opening("<?xml version='1.0'?><?xml version='1.0'?>"), Err(Fault::ProcessingInstruction));
    assert_eq!(content("<?xml version='1.0'?>"), Err(Fault::ProcessingInstruction));
    assert_eq!(opening("<?xml-stylesheet?>"), Err(Fault::ProcessingInstruction));
    for bad in [
        "<?xml ?>",
        "<?xml encoding='utf-8'?>",
        "<?xml version='2.0'?>",
        "<?xml version='1.'?>",
        "<?xml version='1.0'encoding='utf-8'?>",
        "<?xml version='1.0' standalone='maybe'?>",
        "<?xml version='1.0' x='1'?>",
        "<?xml version=1.0?>",
        "<?xml version='1.0?>",
    ] {
        assert_eq!(opening(bad), Err(Fault::Syntax), "{bad}");
    }
    assert!(opening("<?xml version = '1.1' standalone=\"yes\" ?>").is_ok());
    assert_eq!(opening(format!("<?xml {}", " ".repeat(MAX))), Err(Fault::TooLarge));
}

#[test]
fn rfc6120_11_1_restricted_xml() {
    for (fault, inputs) in [
        (Fault::Comment, &["<!-- x -->", "<!-"][..]),
        (Fault::ProcessingInstruction, &["<?php ?>", "<?p"]),
        (Fault::DocumentType, &["<!DOCTYPE a [<!ENTITY b 'c'>]>", "<!D", "<!ENTITY"]),
    ] {
        for input in inputs {
            assert_eq!(content(input), Err(fault), "{input}");
            assert_eq!(opening(input), Err(fault), "{input}");
            assert_eq!(content(format!("<a>{input}")), Err(fault), "{input}");
        }
        assert_eq!(fault.condition(), "restricted-xml");
    }
    for reference in ["&nbsp;", "&é;", "&amp2;", "&AMP;"] {
        assert_eq!(content(format!("<a>{reference}</a>")), Err(Fault::EntityReference));
        assert_eq!(content(format!("<a b='{reference}'/>")), Err(Fault::EntityReference));
    }
    assert_eq!(Fault::EntityReference.condition(), "restricted-xml");
    with("<a>&amp;&lt;&gt;&apos;&quot;&#65;&#x1F600;&#x00000041;</a>", |a| assert_eq!(a.text(), "&<>'\"A\u{1f600}A"));
}

#[test]
fn xml_4_1_malformed_references() {
    for bad in ["&", "& ", "&;", "&#;", "&#x;", "&#X41;", "&#4a;", "&amp", "&#65", "&<b/>", "&1;"] {
        assert_eq!(content(format!("<a>{bad}</a>")), Err(Fault::MalformedReference), "{bad}");
    }
}

#[test]
fn xml_2_2_illegal_characters_as_they_are_and_by_reference() {
    for code in [0u32, 1, 8, 0xb, 0x1f, 0xfffe, 0xffff] {
        let c = char::from_u32(code).unwrap();
        assert_eq!(content(format!("<a>{c}</a>")), Err(Fault::IllegalCharacter), "{code:x}");
        assert_eq!(content(format!("<a b='{c}'/>")), Err(Fault::IllegalCharacter), "{code:x}");
        assert_eq!(content(format!("<a><![CDATA[{c}]]></a>")), Err(Fault::IllegalCharacter), "{code:x}");
        assert_eq!(content(format!("<a>&#{code};</a>")), Err(Fault::IllegalCharacter), "{code:x}");
    }
    for reference in ["&#xD800;", "&#xdfff;", "&#x110000;", "&#99999999999999;"] {
        assert_eq!(content(format!("<a b='{reference}'/>")), Err(Fault::IllegalCharacter), "{reference}");
    }
    for legal in ["\t", "\n", "\u{7f}", "\u{85}", "\u{fffd}", "\u{1fffe}", "\u{10ffff}", "&#9;", "&#xFFFD;"] {
        assert!(content(format!("<a>{legal}</a>")).is_ok(), "{legal:?}");
    }
}

#[test]
fn illegal_bytes_are_found_at_every_place_of_a_long_run() {
    for at in 0..150 {
        let mut stanza = format!("<a b='{}'>{}</a>", "v".repeat(150), "t".repeat(150)).into_bytes();
        stanza[6 + at] = 1;
        assert_eq!(content(&stanza), Err(Fault::IllegalCharacter));
        stanza[6 + at] = b'<';
        assert_eq!(content(&stanza), Err(Fault::LessThanInValue));
        stanza[6 + at] = b'v';
        stanza[158 + at] = 0xff;
        assert_eq!(content(&stanza), Err(Fault::InvalidUtf8));
    }
}

#[test]
fn xml_2_4_cdata_sections_and_their_end_in_text() {
    with("<a>x<![CDATA[<b>&amp;]]]>y<![CDATA[]]><c>z</c></a>", |a| assert_eq!(a.text(), "x<b>&amp;]y"));
    assert_eq!(content("<a>]]></a>"), Err(Fault::CdataEndInText));
    assert!(content("<a>]]&gt;]] ]></a>").is_ok());
    assert!(content("<a b=']]>'/>").is_ok());
    assert_eq!(content("<a><![cdata[x]]></a>"), Err(Fault::Syntax));
    assert_eq!(content("<a><![CDATA x]]></a>"), Err(Fault::Syntax));
}

#[test]
fn xml_2_11_and_3_3_3_line_ends_and_white_space_in_values() {
    let stanza = "<a b='1\r2\r\n3\t4\n5&#13;&#10;&#9;6'>x\ry\r\nz\n&#13;<![CDATA[]\r\n\r]]></a>";
    with(stanza, |a| {
        assert_eq!(a.attribute("b").unwrap(), "1 2 3 4 5\r\n\t6");
        assert_eq!(a.text(), "x\ny\nz\n\r]\n\n");
        let texts = a.cursor().filter_map(|event| match event {
            Event::Text(text) => Some(text.into_owned()),
            _ => None,
        });
        assert_eq!(texts.collect::<String>(), a.text());
    });
}

#[test]
fn xml_3_tags_match_and_have_the_right_form() {
    for (input, fault) in [
        ("<a></b>", Fault::MismatchedTag),
        ("<a></ab>", Fault::MismatchedTag),
        ("<ab></a>", Fault::MismatchedTag),
        ("<a></a b>", Fault::MismatchedTag),
        ("<a></ a>", Fault::MismatchedTag),
        ("<a><b></a></b>", Fault::MismatchedTag),
        ("<a b/>", Fault::Syntax),
        ("<a b=c/>", Fault::Syntax),
        ("<a b='1'c='2'/>", Fault::Syntax),
        ("<a b = = '1'/>", Fault::Syntax),
        ("<a / >", Fault::Syntax),
        ("<a b='<'/>", Fault::LessThanInValue),
        ("< a/>", Fault::Name),
        ("<1a/>", Fault::Name),
        ("<-a/>", Fault::Name),
        ("<a 1='x'/>", Fault::Name),
        ("<a\u{d7}/>", Fault::Name),
        ("<>", Fault::Name),
    ] {
        assert_eq!(content(input), Err(fault), "{input}");
        assert_eq!(fault.condition(), "not-well-formed");
    }
    for good in
        ["<a></a >", "<a\n\tb = '1'\r\n c=\"'>\"\n/>", "<é\u{300} ü='1'></é\u{300}>", "<_a-.0/>", "<\u{fdf0}\u{fffd}/>"]
    {
        assert!(content(good).is_ok(), "{good}");
    }
}

#[test]
fn xml_names_3_and_4_prefixes() {
    for (input, fault) in [
        ("<p:a/>", Fault::UnboundPrefix),
        ("<a p:b='1'/>", Fault::UnboundPrefix),
        ("<a><b xmlns:p='urn:p'/><p:c/></a>", Fault::UnboundPrefix),
        ("<a xmlns:p=''/>", Fault::ReservedNamespace),
        ("<a xmlns:xmlns='urn:x'/>", Fault::ReservedNamespace),
        ("<a xmlns:xml='urn:x'/>", Fault::ReservedNamespace),
        ("<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", Fault::ReservedNamespace),
        ("<a xmlns='http://www.w3.org/2000/xmlns/'/>", Fault::ReservedNamespace),
        ("<a xmlns:p='http://www.w3.org/2000/xmlns&#47;'/>", Fault::ReservedNamespace),
        ("<xmlns:a/>", Fault::ReservedNamespace),
        ("<a:b:c/>", Fault::Name),
        ("<:a/>", Fault::Name),
        ("<a:/>", Fault::Name),
        ("<stream:1/>", Fault::Name),
        ("<a stream:='1'/>", Fault::Name),
    ] {
        assert_eq!(content(input), Err(fault), "{input}");
        assert_eq!(fault.condition(), "not-well-formed");
    }
    for good in [
        "<stream:features/>",
        "<a xmlns:xml='http://www.w3.org/XML/1998/namespace' xml:lang='en'/>",
        "<p:a xmlns:p='urn:p' p:b='1' b='2'/>",
        "<a xmlns=''/>",
    ] {
        assert!(content(good).is_ok(), "{good}");
    }
}

#[test]
fn xml_names_6_2_defaults_apply_inside_and_end_with_their_element() {
    let stanza = "<a><b xmlns='urn:1'><c xmlns=''/></b><d/><p:e xmlns:p='urn:2' xmlns='urn:3'/></a>";
    with(stanza, |a| {
        let namespaces: Vec<_> = a.children().map(|c| c.namespace().to_owned()).collect();
        assert_eq!(namespaces, ["urn:1", ns::CLIENT, "urn:2"]);
    });
}

#[test]
fn xml_names_6_3_attributes_are_unique_by_expanded_name() {
    assert_eq!(content("<a b='1' b='2'/>"), Err(Fault::DuplicateAttribute));
    assert_eq!(content("<a xmlns='1' xmlns='1'/>"), Err(Fault::DuplicateAttribute));
    assert_eq!(content("<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>"), Err(Fault::DuplicateAttribute));
    assert_eq!(content("<a xmlns:p='u' xmlns:q='&#x75;' p:b='1' q:b='2'/>"), Err(Fault::DuplicateAttribute));
    assert_eq!(
        content("<a xmlns:s='http://etherx.jabber.org/streams' s:b='1' stream:b='2'/>"),
        Err(Fault::DuplicateAttribute)
    );
    assert!(content("<a xmlns:p='u' xmlns:q='v' p:b='1' q:b='2' b='3'/>").is_ok());
    let many: String = (0..limits::MAX_ATTRIBUTES).map(|i| format!(" a{i}='{i}'")).collect();
    assert!(content(format!("<a{many}/>")).is_ok());
    // Declared around the tag, in it, or in place of one around it.
    assert_eq!(content("<a xmlns:p='u'><b xmlns:q='u' p:x='' q:x=''/></a>"), Err(Fault::DuplicateAttribute));
    assert_eq!(
        content("<a xmlns:p='u'><b xmlns:q='v' xmlns:p='v' p:x='' q:x=''/></a>"),
        Err(Fault::DuplicateAttribute)
    );
    assert!(content("<a xmlns:p='u'><b xmlns:q='u' p:x='' q:y=''/><c xmlns:q='w' p:x='' q:x=''/></a>").is_ok());
    assert_eq!(
        content("<a xmlns:p='u'><b xmlns:q='w' p:x='' q:x=''/><c xmlns:q='u' p:x='' q:x=''/></a>"),
        Err(Fault::DuplicateAttribute)
    );
    // Prefixes that look the same at a glance: length and last bytes.
    let (one, two) = ("aprefixofsome", "bprefixofsome");
    assert!(content(format!("<a xmlns:{one}='u' xmlns:{two}='v' {one}:x='' {two}:x=''/>")).is_ok());
    assert_eq!(content(format!("<a xmlns:{one}='u' {one}:x='' {two}:x=''/>")), Err(Fault::UnboundPrefix));
    // White space in a name equals a reference to it (XML 3.3.3).
    assert!(content("<a xmlns:p='u\tv' xmlns:q='u&#9;v' p:x='' q:x=''/>").is_ok());
    assert_eq!(content("<a xmlns:p='u\tv' xmlns:q='u\nv' p:x='' q:x=''/>"), Err(Fault::DuplicateAttribute));
}

/// The names of all declarations are compared once, not for each pair of attributes of each tag.
#[allow(clippy::disallowed_methods, reason = "a test that tells minutes from a moment")]
#[test]
fn equal_names_of_declarations_cost_what_their_bytes_do() {
    let name = "n".repeat(245);
    let declarations: String = (0..61).map(|i| format!(" xmlns:p{i}='{name}&amp;{i}'")).collect();
    let attributes: String = (0..61).map(|i| format!(" p{i}:a=''")).collect();
    let tags = format!("<x{attributes}/>").repeat(327);
    let began = std::time::Instant::now();
    assert!(content(format!("<a{declarations}>{tags}</a>")).is_ok());
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

#[test]
fn bounds_hold_exactly() {
    let nested = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    assert!(content(nested(limits::MAX_DEPTH)).is_ok());
    assert_eq!(content(nested(limits::MAX_DEPTH + 1)), Err(Fault::TooDeep));
    assert_eq!(content("<a>".repeat(10_000)), Err(Fault::TooDeep));

    let attributes = |count: usize| (0..count).map(|i| format!(" a{i}=''")).collect::<String>();
    assert!(content(format!("<a><b{}/></a>", attributes(limits::MAX_ATTRIBUTES))).is_ok());
    assert_eq!(content(format!("<a><b{}", attributes(limits::MAX_ATTRIBUTES + 1))), Err(Fault::TooManyAttributes));

    let children = |count: usize| format!("<a>{}</a>", "<b/>".repeat(count));
    assert!(content(children(limits::MAX_CHILDREN)).is_ok());
    assert_eq!(content(children(limits::MAX_CHILDREN + 1)), Err(Fault::TooManyChildren));

    let named = |length: usize| format!("<{}/>", "n".repeat(length));
    assert!(content(named(limits::MAX_NAME_BYTES)).is_ok());
    assert_eq!(content(named(limits::MAX_NAME_BYTES + 1)), Err(Fault::NameTooLong));
    assert_eq!(content(format!("<{}", "é".repeat(limits::MAX_NAME_BYTES))), Err(Fault::NameTooLong));

    let namespace = |length: usize| format!("<a xmlns='{}'/>", "n".repeat(length));
    assert!(content(namespace(limits::MAX_NAMESPACE_BYTES)).is_ok());
    assert_eq!(content(namespace(limits::MAX_NAMESPACE_BYTES + 1)), Err(Fault::NamespaceTooLong));

    let half: String = (0..limits::MAX_DECLARATIONS / 2).map(|i| format!(" xmlns:a{i}='u'")).collect();
    assert!(content(format!("<a{half}><b{half}/><b{half}/></a>")).is_ok());
    assert_eq!(content(format!("<a{half}><b{half}><c xmlns='u'/></b></a>")), Err(Fault::TooManyDeclarations));
    for fault in [Fault::TooDeep, Fault::TooManyAttributes, Fault::TooManyChildren, Fault::NameTooLong] {
        assert_eq!(fault.condition(), "policy-violation");
    }
}

#[test]
fn rfc6120_4_9_3_14_an_item_over_the_limit_whatever_it_is_made_of() {
    let limit = 200;
    let exact = format!("<a>{}</a>", "x".repeat(limit - 7));
    assert_eq!(scan(exact.as_bytes(), false, limit, 0..limit).1, None);
    assert_eq!(scan(exact.as_bytes(), false, limit - 1, 0..limit).1, Some(Fault::TooLarge));
    assert_eq!(scan(exact.as_bytes(), false, limit - 1, []).1, Some(Fault::TooLarge));
    for endless in ["<a>text", "<a b='v", "<a ", "<a b", "<a><![CDATA[c", "<a></a ", "</stream:stream "] {
        let last = endless.chars().last().unwrap().to_string();
        let fill = if last == "b" { "=" } else { &last };
        let input = format!("{endless}{}", fill.repeat(limit));
        let fault = scan(input.as_bytes(), false, limit, []).1;
        assert_eq!(fault, scan(input.as_bytes(), false, limit, 0..input.len()).1);
        let expected = if last == "b" { Fault::Syntax } else { Fault::TooLarge };
        assert_eq!(fault, Some(expected), "{endless}");
        let at_limit = &input.as_bytes()[..limit];
        assert!(last == "b" || scan(at_limit, false, limit, []).1.is_none(), "{endless}");
    }
    assert_eq!(Fault::TooLarge.condition(), "policy-violation");
}

#[test]
fn a_header_is_whole_at_the_end_of_its_tag() {
    let header = reference::HEADER;
    let items = opening(format!("{header}<presence/>")).unwrap();
    assert!(matches!(items[..], [Item::Header(n, _), Item::Element(11, ..)] if n == header.len()), "{items:?}");
    assert_eq!(opening("<stream:stream>"), Err(Fault::UnboundPrefix));
    assert_eq!(opening("<stream:stream xmlns:stream='x'/>"), Err(Fault::ClosedHeader));
    assert_eq!(opening("</stream:stream>"), Err(Fault::Name));
}

#[test]
fn a_fault_stays_until_reset() {
    let mut scanner = Scanner::new();
    assert_eq!(scanner.scan(&StreamScope::Usual, Expect::Content, MAX, b"x"), Err(Fault::StrayText));
    assert_eq!(scanner.scan(&StreamScope::Usual, Expect::Content, MAX, b"<a/>"), Err(Fault::StrayText));
    scanner.reset();
    let progress = scanner.scan(&StreamScope::Usual, Expect::Content, MAX, b"<a/>");
    assert_eq!(progress, Ok(Progress::Element { consumed: 4 }));
}

#[test]
fn a_scanner_holds_state_inside_an_item_only() {
    let mut scanner = Scanner::new();
    assert_eq!(scanner.scan(&StreamScope::Usual, Expect::Content, MAX, b"<mess"), Ok(Progress::Incomplete));
    assert!(!scanner.in_item());
    assert_eq!(scanner.scan(&StreamScope::Usual, Expect::Content, MAX, b"<message>"), Ok(Progress::Incomplete));
    assert!(scanner.in_item());
    let whole = b"<message></message>";
    assert_eq!(scanner.scan(&StreamScope::Usual, Expect::Content, MAX, whole), Ok(Progress::Element { consumed: 19 }));
    assert!(!scanner.in_item());
}

#[test]
fn reads_of_one_byte_cost_time_in_proportion() {
    // 256 KB byte by byte: quadratic work would be 34 thousand million steps.
    for (before, fill) in [
        ("<a>", "x"),
        ("<a b='", "x"),
        ("<a ", " "),
        ("<a b ", " "),
        ("<a b= ", " "),
        ("<a><![CDATA[", "]"),
        ("<a></a ", " "),
        ("</stream:stream ", " "),
        ("<a>", "<b>]</b>"),
        ("<a>", "é"),
    ] {
        let input = format!("{before}{}", fill.repeat(MAX / fill.len()));
        let (_, fault) = scan(input.as_bytes(), false, MAX, 0..input.len());
        assert!(matches!(fault, Some(Fault::TooLarge | Fault::TooManyChildren)), "{before}{fill}: {fault:?}");
    }
}

#[test]
fn every_fault_has_a_condition_and_a_sentence() {
    for fault in Fault::ALL {
        let conditions =
            ["bad-format", "not-well-formed", "policy-violation", "restricted-xml", "unsupported-encoding"];
        assert!(conditions.contains(&fault.condition()));
        assert!(!fault.to_string().is_empty());
        assert_eq!(Fault::ALL.iter().filter(|&&other| other == fault).count(), 1);
    }
}

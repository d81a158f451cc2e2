//! Splicing, writing and stream headers.

use throng_engine::limits::wire::{MAX_HEADER_BYTES, MAX_STANZA_BYTES_DEFAULT as MAX};
use throng_engine::wire::stream::{Header, HeaderFault, Response, Version, read_header, write_header};
use throng_engine::wire::text::{Writer, escape_into, escape_value_into};
use throng_engine::wire::{Expect, Progress, Scanner, Splice, StreamScope, ns, splice};

use super::reference::{self, Flat, flatten, reference as reparse};

fn scope_of(header: &str) -> StreamScope {
    let mut scanner = Scanner::new();
    let progress = scanner.scan(&StreamScope::None, Expect::Header, MAX_HEADER_BYTES, header.as_bytes());
    assert_eq!(progress, Ok(Progress::Header { consumed: header.len() }));
    StreamScope::of_header(&scanner.element(&StreamScope::None, header.as_bytes()))
}

/// Splices a stanza from a stream with this scope.
fn spliced(scope: &StreamScope, stanza: &str, change: &Splice<'_>) -> String {
    let mut scanner = Scanner::new();
    let progress = scanner.scan(scope, Expect::Content, MAX, stanza.as_bytes());
    assert_eq!(progress, Ok(Progress::Element { consumed: stanza.len() }), "{stanza}");
    let mut out = b"before".to_vec();
    splice(&mut out, &scanner.element(scope, stanza.as_bytes()), change);
    String::from_utf8(out.split_off(6)).unwrap()
}

fn usual(stanza: &str, change: &Splice<'_>) -> String {
    spliced(&StreamScope::Usual, stanza, change)
}

#[test]
fn rfc6120_8_1_2_1_the_server_stamps_from() {
    let stamp = Splice { from: Some("a&b'@x/y<"), ..Splice::default() };
    assert_eq!(
        usual("<message  from=\"f\" to='t'\n><body>x</body></message >", &stamp),
        "<message to='t' from='a&amp;b&apos;@x/y&lt;'><body>x</body></message>"
    );
    assert_eq!(usual("<a/>", &stamp), "<a from='a&amp;b&apos;@x/y&lt;'/>");
}

#[test]
fn to_is_set_or_taken_away_and_nothing_else_is_touched() {
    let stanza = "<iq type=\"get\" to='t' id='1'><q xmlns='u' from='stays'/></iq>";
    assert_eq!(usual(stanza, &Splice::default()), stanza);
    let set = Splice { to: Some(Some("z")), id: Some(Some("2")), ..Splice::default() };
    assert_eq!(usual(stanza, &set), "<iq type=\"get\" to='z' id='2'><q xmlns='u' from='stays'/></iq>");
    let removed = Splice { to: Some(None), ..Splice::default() };
    assert_eq!(usual(stanza, &removed), "<iq type=\"get\" id='1'><q xmlns='u' from='stays'/></iq>");
    let unnamed = Splice { id: Some(None), ..Splice::default() };
    assert_eq!(usual(stanza, &unnamed), "<iq type=\"get\" to='t'><q xmlns='u' from='stays'/></iq>");
}

#[test]
fn rfc6121_4_4_2_a_stanza_for_many_loses_its_addresses_only() {
    let many = Splice { unaddressed: true, ..Splice::default() };
    assert_eq!(usual("<presence from='f' id='1' to='t' type='x'/>", &many), "<presence id='1' type='x'/>");
}

#[test]
fn rfc6120_8_1_5_the_streams_language_is_added_only_where_none_is() {
    let lang = Splice { lang: Some("en"), ..Splice::default() };
    assert_eq!(usual("<a/>", &lang), "<a xml:lang='en'/>");
    assert_eq!(usual("<a xml:lang='de'/>", &lang), "<a xml:lang='de'/>");
}

#[test]
fn children_are_left_out_and_added() {
    let stanza = "<m>1<a/>2<b>x</b>3</m>";
    let change =
        Splice { drop: &[2 + 2..8, 9..17], append: &[b"<y xmlns='u'/>", b"<z xmlns='u'/>"], ..Splice::default() };
    assert_eq!(usual(stanza, &change), "<m>123<y xmlns='u'/><z xmlns='u'/></m>");
    assert_eq!(usual("<m/>", &Splice { append: &[b"<y/>"], ..Splice::default() }), "<m><y/></m>");
    assert_eq!(usual("<m></m>", &Splice::default()), "<m></m>");
    assert_eq!(usual("<m/>", &Splice { append: &[b""], ..Splice::default() }), "<m/>");
}

#[test]
fn rfc6120_4_8_what_the_stream_declared_goes_with_the_stanza() {
    let header = "<s:stream xmlns:s='http://etherx.jabber.org/streams' xmlns='jabber:client' xmlns:p='urn:p&amp;q' \
                  xmlns:unused='urn:u'>";
    let scope = scope_of(header);
    let stanza = "<message><p:x s:a='1'/><stream xmlns:p='urn:own'><p:y/></stream></message>";
    let out = spliced(&scope, stanza, &Splice::default());
    assert_eq!(
        out,
        "<message xmlns:s='http://etherx.jabber.org/streams' xmlns:p='urn:p&amp;q'>\
         <p:x s:a='1'/><stream xmlns:p='urn:own'><p:y/></stream></message>"
    );
    let there = header.replace("<s:stream", "<stream:stream xmlns:stream='http://etherx.jabber.org/streams'");
    assert_eq!(reparse(reference::HEADER, out.as_bytes()), reparse(&there, stanza.as_bytes()));
}

#[test]
fn rfc6120_4_8_3_content_with_a_prefix_comes_out_right() {
    let scope = scope_of("<stream xmlns='http://etherx.jabber.org/streams' xmlns:c='jabber:client'>");
    let out = spliced(&scope, "<c:message><c:body>x</c:body></c:message>", &Splice::default());
    assert_eq!(out, "<c:message xmlns:c='jabber:client'><c:body>x</c:body></c:message>");
    let out = spliced(&scope, "<c:message><x/></c:message>", &Splice::default());
    assert_eq!(out, "<c:message xmlns='http://etherx.jabber.org/streams' xmlns:c='jabber:client'><x/></c:message>");
}

#[test]
fn a_stanza_put_into_a_wrapper_keeps_its_namespace() {
    let wrapped = Splice { within: "urn:xmpp:forward:0", ..Splice::default() };
    assert_eq!(usual("<message to='a'/>", &wrapped), "<message to='a' xmlns='jabber:client'/>");
    assert_eq!(usual("<message xmlns='jabber:client'/>", &wrapped), "<message xmlns='jabber:client'/>");
    assert_eq!(usual("<x xmlns='u'/>", &wrapped), "<x xmlns='u'/>");
    assert_eq!(spliced(&StreamScope::None, "<x/>", &Splice::default()), "<x xmlns=''/>");
    assert_eq!(spliced(&StreamScope::None, "<x xmlns='jabber:client'/>", &wrapped), "<x xmlns='jabber:client'/>");
}

#[test]
fn the_usual_header_costs_no_heap() {
    assert_eq!(scope_of(reference::HEADER), StreamScope::Usual);
    let swapped = "<stream:stream to='h' xmlns:stream=\"http://etherx.jabber.org/streams\" xmlns='jabber:client'>";
    assert_eq!(scope_of(swapped), StreamScope::Usual);
    assert_ne!(
        scope_of("<s:stream xmlns:s='http://etherx.jabber.org/streams' xmlns='jabber:client'>"),
        StreamScope::Usual
    );
}

fn header(text: &str) -> Result<Header<'static>, HeaderFault> {
    let mut scanner = Scanner::new();
    let progress = scanner.scan(&StreamScope::None, Expect::Header, MAX_HEADER_BYTES, text.as_bytes());
    assert_eq!(progress, Ok(Progress::Header { consumed: text.len() }), "{text}");
    let element = scanner.element(&StreamScope::None, text.as_bytes());
    let header = read_header(&element)?;
    let owned = |value: Option<std::borrow::Cow<'_, str>>| value.map(|value| value.into_owned().into());
    Ok(Header { to: owned(header.to), from: owned(header.from), version: header.version, lang: owned(header.lang) })
}

const NAMESPACES: &str = "xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'";

#[test]
fn rfc6120_4_7_header_attributes() {
    let read = header(&format!("<stream:stream {NAMESPACES} to='h' from='a@h' version='1.0' xml:lang='de'>")).unwrap();
    assert_eq!(read.to.as_deref(), Some("h"));
    assert_eq!(read.from.as_deref(), Some("a@h"));
    assert_eq!(read.version, Some(Version::XMPP_1_0));
    assert_eq!(read.lang.as_deref(), Some("de"));
}

#[test]
fn rfc6120_4_7_5_versions_are_compared_as_numbers() {
    let version = |attribute: &str| header(&format!("<stream:stream {NAMESPACES} {attribute}>")).unwrap().version;
    assert_eq!(version(""), Some(Version::UNSTATED));
    assert_eq!(version("version='1.0'"), version("version='01.00'"));
    assert!(version("version='1.10'") > version("version='1.9'"));
    assert!(version("version='99999999.0'") > version("version='2.0'"));
    for bad in ["1", "", "1.", ".0", "1.0.0", "a.b", "+1.0", "1,0"] {
        assert_eq!(version(&format!("version='{bad}'")), None, "{bad}");
    }
}

#[test]
fn rfc6120_4_9_3_10_wrong_namespaces() {
    for wrong in [
        "<stream:stream xmlns='jabber:client' xmlns:stream='http://wrong'>",
        "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams'>",
        "<stream xmlns='http://etherx.jabber.org/stream'>",
        "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing'>",
        "<stream>",
    ] {
        assert_eq!(header(wrong), Err(HeaderFault::InvalidNamespace), "{wrong}");
    }
    assert!(header("<stream xmlns='http://etherx.jabber.org/streams' xmlns:c='jabber:client'>").is_ok());
    // 4.8.2: the content namespace may be declared by each first-level element.
    assert!(header("<stream xmlns='http://etherx.jabber.org/streams'>").is_ok());
    assert!(header("<stream:stream xmlns:stream='http://etherx.jabber.org/streams'>").is_ok());
    assert!(header("<s:stream xmlns:s='http://etherx.jabber.org/streams' xmlns='jabber:client'>").is_ok());
    assert_eq!(HeaderFault::InvalidNamespace.condition(), "invalid-namespace");
}

#[test]
fn rfc6120_4_9_3_2_a_missing_prefix() {
    assert_eq!(header(&format!("<stream {NAMESPACES}>")), Err(HeaderFault::BadNamespacePrefix));
    assert_eq!(header(&format!("<stream:features {NAMESPACES}>")), Err(HeaderFault::NotStream));
    assert_eq!(HeaderFault::BadNamespacePrefix.condition(), "bad-namespace-prefix");
    assert_eq!(HeaderFault::NotStream.condition(), "bad-format");
}

#[test]
fn rfc6120_4_7_the_servers_header_reads_back() {
    let mut out = Vec::new();
    let version = Some(Version::XMPP_1_0);
    let id = "++TR84Sm6A3hnt3Q065SnAbbk3Y=";
    write_header(&mut out, &Response { from: "h", to: Some("a'b@h"), version, id, lang: "en" });
    let text = String::from_utf8(out).unwrap();
    let tag = text.strip_prefix("<?xml version='1.0'?>").unwrap();
    let read = header(tag).unwrap();
    assert_eq!(read.from.as_deref(), Some("h"));
    assert_eq!(read.to.as_deref(), Some("a'b@h"));
    assert_eq!(read.version, Some(Version::XMPP_1_0));
    assert_eq!(scope_of(tag), StreamScope::Usual);
}

#[test]
fn escaped_text_reads_back() {
    let all = "a\t\n\r\u{0}\u{fffe}&<>'\"]]>é\u{1f600}";
    let legal = "a\t\n\r\u{fffd}\u{fffd}&<>'\"]]>é\u{1f600}";
    let mut stanza = b"<m a='".to_vec();
    escape_value_into(&mut stanza, all);
    stanza.extend_from_slice(b"' b=\"");
    escape_value_into(&mut stanza, all);
    stanza.extend_from_slice(b"\">");
    escape_into(&mut stanza, all);
    stanza.extend_from_slice(b"</m>");
    let mut scanner = Scanner::new();
    scanner.scan(&StreamScope::Usual, Expect::Content, MAX, &stanza).unwrap();
    let element = scanner.element(&StreamScope::Usual, &stanza);
    assert_eq!(element.attribute("a").unwrap(), legal);
    assert_eq!(element.attribute("b").unwrap(), legal);
    assert_eq!(element.text(), legal);
}

#[test]
fn the_cursor_goes_deep_and_keeps_namespaces() {
    let stanza = "<iq xmlns:p='urn:root'><pubsub xmlns='urn:ps'><items node='n'><p:item/>t<![CDATA[<]]></items><x>1<y/>2</x>\
                  </pubsub><after/></iq>";
    let mut scanner = Scanner::new();
    scanner.scan(&StreamScope::Usual, Expect::Content, MAX, stanza.as_bytes()).unwrap();
    let iq = scanner.element(&StreamScope::Usual, stanza.as_bytes());
    let start = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    let starts: Vec<_> = flatten(&iq)
        .into_iter()
        .filter_map(|flat| match flat {
            Flat::Start { namespace, name, .. } => Some((namespace, name)),
            _ => None,
        })
        .collect();
    assert_eq!(
        starts,
        [
            start(ns::CLIENT, "iq"),
            start("urn:ps", "pubsub"),
            start("urn:ps", "items"),
            start("urn:root", "item"),
            start("urn:ps", "x"),
            start("urn:ps", "y"),
            start(ns::CLIENT, "after"),
        ]
    );
    let child = iq.child("pubsub", "urn:ps").unwrap();
    let mut cursor = child.cursor();
    assert_eq!(cursor.by_ref().count(), 14, "the child's own events only");
    let mut cursor = child.cursor();
    for name in ["pubsub", "items"] {
        let Some(throng_engine::wire::Event::Start(start)) = cursor.next() else { panic!() };
        assert!(start.is(name, "urn:ps"));
    }
    cursor.skip_element();
    let Some(throng_engine::wire::Event::Start(start)) = cursor.next() else { panic!() };
    assert_eq!(start.name(), "x");
    assert_eq!(cursor.take_text(), "12");
    assert_eq!(cursor.depth(), 1);
}

#[test]
fn the_writer_writes_what_the_scanner_accepts() {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("message").attribute_if("to", Some("a'b")).attribute_if("from", None);
    writer
        .leaf("body", "1 < 2")
        .empty("active", "http://jabber.org/protocol/chatstates")
        .raw(b"<raw xmlns='u'/>")
        .close();
    assert_eq!(
        String::from_utf8(out.clone()).unwrap(),
        "<message to='a&apos;b'><body>1 &lt; 2</body><active xmlns='http://jabber.org/protocol/chatstates'/>\
         <raw xmlns='u'/></message>"
    );
    assert!(reparse(reference::HEADER, &out).is_some());
}

#[test]
fn rfc6120_4_7_2_4_7_5_the_answer_names_the_peers_bare_jid_and_the_lower_version() {
    let answer = |attributes: &str| {
        let header = header(&format!("<stream:stream {NAMESPACES} {attributes}>")).unwrap();
        let answer = Response::answering(&header, "i", "h", "en");
        (answer.to.map(str::to_owned), answer.version)
    };
    assert_eq!(answer("version='1.0'"), (None, Some(Version::XMPP_1_0)));
    assert_eq!(answer("version='1.7' from='a@h'"), (Some("a@h".into()), Some(Version::XMPP_1_0)));
    assert_eq!(answer("version='11.0' from='a@h/r/s'"), (Some("a@h".into()), Some(Version::XMPP_1_0)));
    assert_eq!(answer("version='0.1'").1, Some(Version { major: 0, minor: 1 }));
    // 4.7.5, rule 4: no version means 0.9, and is answered with none.
    assert_eq!(answer("").1, None);
    let mut out = Vec::new();
    write_header(&mut out, &Response { from: "h", to: None, version: None, id: "i", lang: "en" });
    assert!(!String::from_utf8(out).unwrap().contains(" version='1.0' "));
}

/// RFC 6120 4.9.3.14: a copy of a stanza declares the namespaces that it uses from its stream's
/// header, so a header may declare few.
#[test]
fn what_a_header_declares_is_bounded() {
    let header = |count: usize| {
        let declared: String = (0..count).map(|n| format!(" xmlns:p{n}='urn:some:name:{n}'")).collect();
        format!("<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'{declared}>")
    };
    let read = |text: &str| {
        let mut scanner = Scanner::new();
        scanner.scan(&StreamScope::None, Expect::Header, MAX_HEADER_BYTES, text.as_bytes()).unwrap();
        read_header(&scanner.element(&StreamScope::None, text.as_bytes())).map(|_| ())
    };
    assert_eq!(read(&header(8)), Ok(()));
    assert_eq!(read(&header(10)), Err(HeaderFault::DeclaresTooMuch));
    // Apostrophes are written as references in each copy.
    let apostrophes = header(1).replace("='urn:some:name:0'", &format!("=\"{}\"", "'".repeat(50)));
    assert_eq!(read(&apostrophes), Err(HeaderFault::DeclaresTooMuch));
    assert_eq!(HeaderFault::DeclaresTooMuch.condition(), "policy-violation");
}

//! Parsing and writing of `<body/>`.

use super::read::{Named, RID_MAX, Ver, Wrapper, hash, read};
use super::wrapped::{Wrapped, wrapped};
use super::write::{Says, body, ends};
use super::{Condition, Sid};
use crate::id::ShardId;
use crate::wire::stream::Version;
use crate::wire::{Scanner, StreamScope};

fn wrapper(attributes: &str, content: &str) -> Result<Wrapper, Condition> {
    let text = format!("<body xmlns='http://jabber.org/protocol/httpbind' {attributes}>{content}</body>");
    read(&mut Scanner::new(), text.as_bytes())
}

#[test]
fn names_of_sessions_read_back_and_no_others() {
    let sid = Sid { shard: ShardId(0x0102), key: [0xab; 16] };
    assert_eq!(Sid::parse(&sid.text()), Some(sid));
    for bad in ["", "0102", &sid.text().to_uppercase(), &format!("{}0", sid.text()), &"+1".repeat(18), &"é".repeat(18)]
    {
        assert_eq!(Sid::parse(bad), None, "{bad}");
    }
}

#[test]
fn all_that_a_request_says_is_read_xep0124_7_1_xep0206_3() {
    let all = wrapper(
        "content='text/xml; charset=utf-8' from='user@example.com' hold='1' rid='1573741820' to='example.com' \
         route='xmpp:example.com:9999' ver='1.6' wait='60' ack='1' xml:lang='en' x:version='1.0' xmlns:x='urn:xmpp:xbosh'",
        "",
    )
    .unwrap();
    assert_eq!((all.sid, all.rid, all.ack), (None, 1_573_741_820, Some(1)));
    assert_eq!(all.to.as_deref().zip(all.from.as_deref()), Some(("example.com", "user@example.com")));
    assert_eq!((all.lang.as_deref(), all.begins.version), (Some("en"), Some(Version::XMPP_1_0)));
    assert_eq!((all.begins.ver, all.begins.wait_s, all.begins.hold), (Some(Ver(1, 6)), Some(60), Some(1)));
    assert_eq!(all.begins.content_type.as_deref(), Some("text/xml; charset=utf-8"));
    let next = wrapper(
        "sid='x' rid='9007199254740991' pause='60' type='terminate' stream='s' xmpp:restart='1' xmlns:xmpp='urn:xmpp:xbosh' \
         key='BFB06A6F113CD6FD3838AB9D300FDB4FE3DA2F7D' newkey='bfb06a6f113cd6fd3838ab9d300fdb4fe3da2f7d'",
        "<a/>",
    )
    .unwrap();
    assert_eq!((next.sid, next.rid, next.pause_s), (Some(Named::Nobody), RID_MAX, Some(60)));
    assert!(next.terminates && next.restarts && next.names_stream);
    let key = next.key.unwrap();
    assert_eq!((Some(key.own), key.hash), (next.newkey, hash(b"BFB06A6F113CD6FD3838AB9D300FDB4FE3DA2F7D")));
    assert_eq!(next.content, b"<a/>");
    // Only in its own namespace (XEP-0206 5).
    assert!(!wrapper("rid='1' restart='true'", "").unwrap().restarts);
    assert!(!wrapper("rid='1' y:restart='true' xmlns:y='urn:other'", "").unwrap().restarts);
}

#[test]
fn what_is_wrong_is_a_bad_request_xep0124_17_3() {
    for bad in ["", "rid=''", "rid='0'", "rid='1.5'", "rid='9007199254740992'", "rid='1' wait='x'", "rid='1' hold='-1'"]
    {
        assert_eq!(wrapper(bad, ""), Err(Condition::BadRequest), "{bad}");
    }
    // No header field can be injected.
    for bad in ["", "/", "html", "text/html&#13;&#10;Set-Cookie: a=b", "text/é", &"a/".repeat(60)] {
        assert_eq!(wrapper(&format!("rid='1' content='{bad}'"), ""), Err(Condition::BadRequest), "{bad}");
    }
    for bad in ["ver='1'", "ver='one.six'", "newkey='00'", "ack='-1'", "pause='soon'"] {
        assert_eq!(wrapper(&format!("rid='1' {bad}"), ""), Err(Condition::BadRequest), "{bad}");
    }
    for content in ["text", "<a/>text", "text<a/>", "<a/>text<b/>", "&#32;x", "<![CDATA[]]>x"] {
        assert_eq!(wrapper("rid='1'", content), Err(Condition::BadRequest), "{content}");
    }
    assert!(wrapper("rid='1'", " <a/>\n<b>text</b>\t").is_ok());
    let much = format!("rid='1' xmlns:a='{}' xmlns:b='{}'", "a".repeat(200), "b".repeat(200));
    assert_eq!(wrapper(&much, ""), Err(Condition::BadRequest), "each stanza would be so much longer");
}

#[test]
fn versions_are_numbers_xep0124_7_1() {
    assert!(Ver(1, 11) > Ver(1, 6) && Ver(2, 0) > Ver(1, 11));
}

#[test]
fn the_bodys_own_namespace_counts_as_a_clients_xep0206_2() {
    assert_eq!(wrapper("rid='1'", "<a/>").unwrap().scope, StreamScope::Usual);
    let stream = "rid='1' xmlns:stream='http://etherx.jabber.org/streams'";
    assert_eq!(wrapper(stream, "<a/>").unwrap().scope, StreamScope::Usual);
    let other = wrapper("rid='1' xmlns:o='urn:o'", "<a/>").unwrap().scope;
    assert_eq!((other.default_namespace(), other.namespace_of("o")), ("jabber:client", Some("urn:o")));
}

#[test]
fn what_a_stream_sends_stands_alone_in_a_body_xep0206_2() {
    let stream = b"<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' \
                   id='1&gt;'><stream:features><a xmlns='b'/></stream:features> <iq type='result'/><r xmlns='urn:xmpp:sm:3'/>\
                   <message><body>&lt;</body></message></stream:stream>";
    let Wrapped { bytes, uses_stream } = wrapped(stream);
    assert!(uses_stream);
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "<stream:features><a xmlns='b'/></stream:features><iq xmlns='jabber:client' type='result'/>\
         <r xmlns='urn:xmpp:sm:3'/><message xmlns='jabber:client'><body>&lt;</body></message>"
    );
    assert_eq!(wrapped(b" </stream:stream>"), Wrapped::default());
    let iq = wrapped(b"<iq/>");
    let xml: minidom::Element = String::from_utf8(body(&Says::default(), &iq)).unwrap().parse().unwrap();
    assert!(xml.get_child("iq", "jabber:client").is_some());
    let end = String::from_utf8(ends(Condition::PolicyViolation)).unwrap();
    assert_eq!(
        end,
        "<body xmlns='http://jabber.org/protocol/httpbind' type='terminate' condition='policy-violation'/>"
    );
}

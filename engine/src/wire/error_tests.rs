use minidom::Element;

use super::*;

/// Parses the output as a client would: inside an open stream.
fn parse(xml: &[u8]) -> Element {
    let xml = std::str::from_utf8(xml).unwrap();
    let stream = format!(
        "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>{xml}</stream:stream>"
    );
    let stream: Element = stream.parse().unwrap_or_else(|error| panic!("{xml}: {error}"));
    assert_eq!(stream.children().count(), 1, "{xml}");
    stream.children().next().unwrap().clone()
}

/// The names of RFC 6120 4.9.3, 8.3.3 and 6.5 in order, independent of the table under test.
const STREAM_NAMES: &str = "bad-format bad-namespace-prefix conflict connection-timeout host-gone host-unknown \
    improper-addressing internal-server-error invalid-from invalid-namespace invalid-xml not-authorized \
    not-well-formed policy-violation remote-connection-failed reset resource-constraint restricted-xml see-other-host \
    system-shutdown undefined-condition unsupported-encoding unsupported-feature unsupported-stanza-type \
    unsupported-version";
const STANZA_TYPES: &[(&str, &str)] = &[
    ("bad-request", "modify"),
    ("conflict", "cancel"),
    ("feature-not-implemented", "cancel"),
    ("forbidden", "auth"),
    ("gone", "cancel"),
    ("internal-server-error", "cancel"),
    ("item-not-found", "cancel"),
    ("jid-malformed", "modify"),
    ("not-acceptable", "modify"),
    ("not-allowed", "cancel"),
    ("not-authorized", "auth"),
    ("policy-violation", "modify"),
    ("recipient-unavailable", "wait"),
    ("redirect", "modify"),
    ("registration-required", "auth"),
    ("remote-server-not-found", "cancel"),
    ("remote-server-timeout", "wait"),
    ("resource-constraint", "wait"),
    ("service-unavailable", "cancel"),
    ("subscription-required", "auth"),
    ("undefined-condition", "cancel"),
    ("unexpected-request", "wait"),
];
const SASL_NAMES: &str = "aborted account-disabled credentials-expired encryption-required incorrect-encoding \
    invalid-authzid invalid-mechanism malformed-request mechanism-too-weak not-authorized temporary-auth-failure";

/// RFC 6120 4.9.2 and each clause of 4.9.3.
#[test]
fn rfc6120_4_9_3_every_stream_condition_parses() {
    let names: Vec<_> = StreamCondition::ALL.iter().map(|condition| condition.name()).collect();
    assert_eq!(names, STREAM_NAMES.split_whitespace().collect::<Vec<_>>());
    for &condition in StreamCondition::ALL {
        let mut out = Vec::new();
        write_stream_error(&mut out, condition, Some("a < b & \"c\" > d\u{0}"), None);
        let error = parse(&out);
        assert!(error.is("error", "http://etherx.jabber.org/streams"));
        assert!(error.get_child(condition.name(), NS_STREAMS).is_some(), "{condition}");
        let text = error.get_child("text", NS_STREAMS).unwrap();
        assert_eq!(text.text(), "a < b & \"c\" > d\u{fffd}");
        assert_eq!(StreamCondition::from_name(condition.name()), Some(condition));
    }
    assert_eq!(StreamCondition::from_name("no-such-thing"), None);
}

/// RFC 6120 8.3.2 and each clause of 8.3.3, with the type that the clause recommends.
#[test]
fn rfc6120_8_3_3_every_stanza_condition_has_its_usual_type() {
    let rows: Vec<_> = StanzaCondition::ALL.iter().map(|c| (c.name(), c.default_type().name())).collect();
    assert_eq!(rows, STANZA_TYPES);
    for &condition in StanzaCondition::ALL {
        let mut out = Vec::new();
        write_stanza_error(&mut out, condition, Some("why"));
        let error = parse(&out);
        assert!(error.is("error", "jabber:client"));
        assert_eq!(error.attr("type"), Some(condition.default_type().name()));
        assert!(error.get_child(condition.name(), NS_STANZAS).is_some(), "{condition}");
        assert_eq!(error.get_child("text", NS_STANZAS).unwrap().text(), "why");
    }
}

/// RFC 6120 6.4.5 and each clause of 6.5.
#[test]
fn rfc6120_6_5_every_sasl_condition_parses() {
    let names: Vec<_> = SaslCondition::ALL.iter().map(|condition| condition.name()).collect();
    assert_eq!(names, SASL_NAMES.split_whitespace().collect::<Vec<_>>());
    for &condition in SaslCondition::ALL {
        let mut out = Vec::new();
        write_sasl_failure(&mut out, condition, Some("why"));
        let failure = parse(&out);
        assert!(failure.is("failure", NS_SASL));
        assert!(failure.get_child(condition.name(), NS_SASL).is_some(), "{condition}");
        assert_eq!(failure.get_child("text", NS_SASL).unwrap().text(), "why");
    }
}

/// The examples of the RFC and of XEP-0198, without their line breaks.
#[test]
fn errors_are_written_as_the_examples_show() {
    let written = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        parse(&out);
        String::from_utf8(out).unwrap()
    };
    // RFC 6120 4.9.3.6.
    assert_eq!(
        written(&|out| write_stream_error(out, StreamCondition::HostUnknown, None, None)),
        "<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
    );
    // RFC 6120 4.9.4.
    let app =
        AppCondition::Extension { name: "escape-your-data", xmlns: "http://example.org/ns", detail: Detail::Nothing };
    assert_eq!(
        written(&|out| write_stream_error(out, StreamCondition::NotWellFormed, Some("Some text"), Some(app))),
        "<stream:error><not-well-formed xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>\
         <text xmlns='urn:ietf:params:xml:ns:xmpp-streams' xml:lang='en'>Some text</text>\
         <escape-your-data xmlns='http://example.org/ns'/></stream:error>"
    );
    // XEP-0198 4, "Connection Closed With Stream Error".
    let app = AppCondition::HandledCountTooHigh { h: 10, send_count: 8 };
    assert_eq!(
        written(&|out| write_stream_error(out, StreamCondition::UndefinedCondition, None, Some(app))),
        "<stream:error><undefined-condition xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>\
         <handled-count-too-high xmlns='urn:xmpp:sm:3' h='10' send-count='8'/></stream:error>"
    );
    // RFC 6120 6.5.2.
    assert_eq!(
        written(&|out| write_sasl_failure(out, SaslCondition::AccountDisabled, Some("Call 212-555-1212"))),
        "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><account-disabled/>\
         <text xml:lang='en'>Call 212-555-1212</text></failure>"
    );
}

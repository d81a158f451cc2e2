//! The proxy of bytestreams (XEP-0065) on its own domain, as a client sees it; the test is the
//! shard's host.

use std::sync::Arc;

use throng_engine::extension::bytestreams::{Activated, Activation, StreamHost, stream_hash};
use throng_engine::id::{ConnId, Service};
use throng_engine::io::{Effect, Input};
use throng_engine::limits::ACTIVATIONS_USER_MAX;
use throng_engine::settings::Settings;
use throng_sim::host::{BIND, Host, said};

/// A server with a proxy, and a session of Romeo's.
fn host() -> (Host, ConnId) {
    let mut settings = Settings::new("localhost", 1, [0; 32], 0);
    settings.serve_service("proxy.localhost", Service::Bytestreams);
    settings.facts.bytestreams = Some(Arc::new(StreamHost { host: "2001:db8::1".into(), port: 7_777 }));
    let mut host = Host::new(settings);
    host.account("romeo");
    host.account("juliet");
    let (conn, _) = host.arrive(0, "romeo");
    host.ask(conn, BIND);
    (host, conn)
}

fn iq(kind: &str, to: &str, inside: &str) -> String {
    format!("<iq type='{kind}' id='r' to='{to}'>{inside}</iq>")
}

fn disco(to: &str, what: &str) -> String {
    iq("get", to, &format!("<query xmlns='http://jabber.org/protocol/disco#{what}'/>"))
}

fn activate(sid: &str, target: &str) -> String {
    let query = format!(
        "<query xmlns='http://jabber.org/protocol/bytestreams' sid='{sid}'><activate>{target}</activate></query>"
    );
    iq("set", "proxy.localhost", &query)
}

const ADDRESS: &str = "<query xmlns='http://jabber.org/protocol/bytestreams'/>";

/// The activations in these effects, with their tokens.
fn activations(effects: &[Effect]) -> Vec<(u64, Activation)> {
    let of = |effect: &Effect| match effect {
        Effect::Activate { token, activation } => Some((*token, (**activation).clone())),
        _ => None,
    };
    effects.iter().filter_map(of).collect()
}

/// Romeo's full JID as reported by the server.
fn full(host: &mut Host, conn: ConnId) -> String {
    let answer = said(&host.ask(conn, &disco("", "info").replace(" to=''", "")));
    answer.split(" to='").nth(1).and_then(|rest| rest.split('\'').next()).expect("an address").to_owned()
}

#[test]
fn the_proxy_is_an_item_of_the_server_and_says_what_it_is_xep0065_4() {
    let (mut host, conn) = host();
    let items = said(&host.ask(conn, &disco("localhost", "items")));
    assert!(items.contains("<item jid='proxy.localhost' name='SOCKS5 Bytestreams'/>"), "{items}");
    let info = said(&host.ask(conn, &disco("proxy.localhost", "info")));
    for part in [
        "<identity category='proxy' type='bytestreams' name='SOCKS5 Bytestreams'/>",
        "<feature var='http://jabber.org/protocol/bytestreams'/>",
        "from='proxy.localhost'",
    ] {
        assert!(info.contains(part), "{part} in {info}");
    }
    assert!(!info.contains("bytestreams#udp"), "XEP-0065 8.1: {info}");
    let own = said(&host.ask(conn, &disco("localhost", "info")));
    assert!(!own.contains("bytestreams"), "the server itself relays nothing: {own}");
}

#[test]
fn the_address_is_told_to_users_xep0065_4() {
    let (mut host, conn) = host();
    let answer = said(&host.ask(conn, &iq("get", "proxy.localhost", ADDRESS)));
    let told = "<query xmlns='http://jabber.org/protocol/bytestreams'>\
                <streamhost jid='proxy.localhost' host='2001:db8::1' port='7777'/></query>";
    assert!(answer.contains("type='result'") && answer.contains(told), "{answer}");
    // Before version 1.8 of the XEP an id was sent with it.
    let with_id = ADDRESS.replace("/>", " sid='a'/>");
    assert!(said(&host.ask(conn, &iq("get", "proxy.localhost", &with_id))).contains("<streamhost "));
    for elsewhere in ["localhost", "romeo@localhost"] {
        let refused = said(&host.ask(conn, &iq("get", elsewhere, ADDRESS)));
        assert!(refused.contains("<service-unavailable"), "{elsewhere}: {refused}");
    }
    let nobody = said(&host.ask(conn, &iq("get", "romeo@proxy.localhost", ADDRESS)));
    assert!(nobody.contains("<item-not-found"), "{nobody}");
}

#[test]
fn a_stream_begins_when_the_host_has_begun_it_xep0065_6_3_5() {
    let (mut host, conn) = host();
    let requester = full(&mut host, conn);
    // RFC 7622: the target is normalised before it is hashed (XEP-0065 6.3.2).
    let effects = host.ask(conn, &activate("vxf9n471bn46", " Juliet@LOCALHOST/balcony "));
    assert_eq!(said(&effects), "", "no answer before there is one");
    let [(token, activation)] = &activations(&effects)[..] else { panic!("one activation: {effects:?}") };
    assert_eq!(&*activation.user, "romeo@localhost");
    assert_eq!(activation.stream, stream_hash("vxf9n471bn46", &requester, "juliet@localhost/balcony"));
    let answer = said(&host.turn(Input::Activated { token: *token, activated: Activated::Done }));
    assert!(answer.contains("type='result'") && answer.contains("from='proxy.localhost'"), "{answer}");
    assert!(!answer.contains("<query"), "XEP-0065 6.3.5: an empty result: {answer}");
    assert!(host.turn(Input::Activated { token: *token, activated: Activated::Done }).is_empty(), "answered once");
}

#[test]
fn what_cannot_begin_is_an_error_of_the_text_xep0065_6_3_5() {
    let (mut host, conn) = host();
    for (activated, error) in [
        (Activated::Unknown, "<error type='cancel'><item-not-found"),
        (Activated::Alone, "<error type='cancel'><not-allowed"),
        (Activated::TooMany, "<error type='wait'><resource-constraint"),
        (Activated::Failed, "<internal-server-error"),
    ] {
        let effects = host.ask(conn, &activate("s", "juliet@localhost/balcony"));
        let token = activations(&effects)[0].0;
        let answer = said(&host.turn(Input::Activated { token, activated }));
        assert!(answer.contains("type='error'") && answer.contains(error), "{activated:?}: {answer}");
    }
    for (bad, error) in [
        (activate("s", "juliet@localhost").replace(" sid='s'", ""), "<bad-request"),
        (activate("", "juliet@localhost"), "<bad-request"),
        (activate("s", "@"), "<jid-malformed"),
        (activate("s", ""), "<jid-malformed"),
        (activate("s", "a@b").replace("</query>", "<activate>c@d</activate></query>"), "<bad-request"),
        (iq("set", "proxy.localhost", &ADDRESS.replace("/>", " sid='s'/>")), "<bad-request"),
        (activate("s", "a@b").replace("<activate>", "<activate xmlns='x'>"), "<bad-request"),
        (activate("s", "a@b").replace(" sid=", " mode='udp' sid="), "<feature-not-implemented"),
    ] {
        let effects = host.ask(conn, &bad);
        assert!(activations(&effects).is_empty(), "{bad}");
        assert!(said(&effects).contains(error), "{bad}: {}", said(&effects));
    }
}

/// The requester is the sender of the request, whatever it claims: nobody activates another user's
/// stream.
#[test]
fn the_requester_is_who_asks_xep0065_6_3_5() {
    let (mut host, conn) = host();
    let (other, _) = host.arrive(1, "juliet");
    host.ask(other, BIND);
    let (romeo, juliet) = (full(&mut host, conn), full(&mut host, other));
    let effects = host.ask(other, &activate("s", "juliet@localhost/balcony"));
    let stream = activations(&effects)[0].1.stream;
    assert_eq!(stream, stream_hash("s", &juliet, "juliet@localhost/balcony"));
    assert_ne!(stream, stream_hash("s", &romeo, "juliet@localhost/balcony"));
}

#[test]
fn one_user_has_few_activations_under_way_and_a_session_that_has_gone_none() {
    let (mut host, conn) = host();
    let many = activate("s", "juliet@localhost/balcony").repeat(ACTIVATIONS_USER_MAX + 3);
    let effects = host.ask(conn, &many);
    let begun = activations(&effects);
    assert_eq!(begun.len(), ACTIVATIONS_USER_MAX);
    assert_eq!(said(&effects).matches("<resource-constraint").count(), 3, "{}", said(&effects));
    let (other, _) = host.arrive(1, "juliet");
    host.ask(other, BIND);
    assert_eq!(activations(&host.ask(other, &activate("s", "a@b"))).len(), 1, "another user");
    host.ask(conn, "</stream:stream>");
    for (token, _) in begun {
        let effects = host.turn(Input::Activated { token, activated: Activated::Done });
        assert_eq!(said(&effects), "", "nobody waits for it");
    }
    let (conn, _) = host.arrive(2, "romeo");
    host.ask(conn, BIND);
    assert_eq!(activations(&host.ask(conn, &many)).len(), ACTIVATIONS_USER_MAX, "there is room again");
}

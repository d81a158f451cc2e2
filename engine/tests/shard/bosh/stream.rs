//! The content of a `<body/>`, and that a session behaves like any other.

use throng_engine::io::{Effect, Input, ListenerKind, TlsFacts};
use throng_engine::web::policy::Policy;
use throng_sim::host::{HEADER, said};

use super::desk::{BIND, Desk, PRESENCE, body, message, plain, request};

const ENABLE: &str = "<enable xmlns='urn:xmpp:sm:3' resume='true'/>";

#[test]
fn xep0124_6_what_is_no_body_is_refused() {
    for bad in [
        "",
        "<body/>",
        "<body xmlns='jabber:client' rid='1' to='localhost'/>",
        "<other xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'>text</body>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'><a/>text<b/></body>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'><![CDATA[x]]></body>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'><!-- c --></body>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'><?pi x?></body>",
        "<!DOCTYPE body><body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='&own;'/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'/><body/>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'><a></body></a>",
        "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' to='localhost'><x:a/></body>",
    ] {
        let mut desk = Desk::new(|_| {});
        let conn = desk.connect();
        let answer = desk.ask(conn, bad);
        assert_eq!((answer.status, answer.condition().as_deref()), (200, Some("bad-request")), "{bad}");
        assert_eq!(desk.host.shard.counters().bosh_sessions.get(), 0);
    }
    let mut desk = Desk::new(|_| {});
    let conn = desk.connect();
    let mut broken = request(&body("rid='1' to='localhost'", ""));
    let at = broken.len() - 20;
    broken[at] = 0xff;
    assert_eq!(desk.send(conn, &broken)[0].1.condition().as_deref(), Some("bad-request"), "no UTF-8");
}

#[test]
fn xep0124_5_any_type_and_coding_of_a_post_and_no_other_method() {
    let mut desk = Desk::new(|_| {});
    let conn = desk.connect();
    let first = body("rid='1' to='localhost' ver='1.6' wait='60' hold='1'", "");
    let chunked = format!(
        "POST /http-bind HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{first}\r\n0\r\n\r\n",
        first.len()
    );
    assert!(desk.send(conn, chunked.as_bytes())[0].1.attr("sid").is_some());
    let pretty = format!("\u{20}\n<?xml version='1.0'?>\n{}\n", first.replace("></body>", ">\n  \n</body>"));
    assert!(desk.ask(conn, &pretty).attr("sid").is_some(), "white space is how people write XML");
    let answer = desk.send(conn, b"GET /http-bind HTTP/1.1\r\nHost: localhost\r\n\r\n").remove(0).1;
    assert_eq!((answer.status, answer.field("Allow")), (405, Some("POST, OPTIONS")));
}

#[test]
fn pages_of_allowed_origins_may_ask_and_read() {
    let origins = Some(Box::from([Box::from("https://chat.example")]));
    let mut desk = Desk::new(|settings| settings.web = Policy { origins, ..Policy::default() }.into());
    let conn = desk.connect();
    let from = |origin: &str, bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        text.replacen("\r\n", &format!("\r\nOrigin: {origin}\r\n"), 1).into_bytes()
    };
    let preflight = b"OPTIONS /http-bind HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: POST\r\n\r\n";
    let answer = desk.send(conn, &from("https://chat.example", preflight)).remove(0).1;
    assert_eq!(answer.field("Access-Control-Allow-Methods"), Some("POST, OPTIONS"));
    assert_eq!(answer.field("Access-Control-Allow-Origin"), Some("https://chat.example"));
    let first = request(&body("rid='1' to='localhost' ver='1.6' wait='1' hold='1'", ""));
    let answer = desk.send(conn, &from("https://chat.example", &first)).remove(0).1;
    assert_eq!(answer.field("Access-Control-Allow-Origin"), Some("https://chat.example"));
    // Also an answer that comes later.
    let waits = body(&format!("rid='2' sid='{}'", answer.attr("sid").unwrap()), "");
    assert_eq!(desk.send(conn, &from("https://chat.example", &request(&waits))), []);
    let later = desk.wait(2_500).remove(0).1;
    assert_eq!(later.field("Access-Control-Allow-Origin"), Some("https://chat.example"));
    let conn = desk.connect();
    assert_eq!(desk.send(conn, &from("https://evil.example", &first)).remove(0).1.status, 403);
    // Without a policy any origin is permitted.
    let mut desk = Desk::new(|_| {});
    let conn = desk.connect();
    assert_eq!(desk.send(conn, &first).remove(0).1.field("Access-Control-Allow-Origin"), Some("*"));
}

#[test]
fn xep0124_16_there_is_one_stream() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    // 16.3: a request for another stream gets the existing one.
    assert_eq!(client.send(&mut desk, "to='localhost' xml:lang='de'", ""), []);
    // 16.4: a stream name in an empty request is ignored; one with content addresses a stream that
    // does not exist.
    desk.wait(3_000);
    let all = client.second(&mut desk, "stream='second'", "");
    assert!(all.len() == 1 && all[0].1.is_empty(), "{all:?}");
    let all = client.send(&mut desk, "stream='second'", PRESENCE);
    assert_eq!(all[0].1.condition().as_deref(), Some("item-not-found"));
}

#[test]
fn xep0206_2_stanzas_may_stand_in_the_namespace_of_the_body() {
    let mut desk = Desk::new(|_| {});
    let juliet = desk.tcp("juliet");
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    client.say(&mut desk, &plain("romeo"));
    client.with(&mut desk, "to='localhost' xmpp:restart='1'", "");
    let bind = BIND.replace(" xmlns='jabber:client'", "");
    assert!(client.say(&mut desk, &bind).has("<jid>"));
    let bare = message("juliet", "plain").replace(" xmlns='jabber:client'", "");
    let prefixed = "<message to='juliet@localhost'><body>own</body><x:y/></message>";
    let all = client.next("xmlns:x='urn:own'", &format!("{bare}\n  {prefixed}\n"));
    let effects = desk.host.turn(Input::Received { conn: client.conns[0], bytes: &request(&all) });
    let heard: String = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { conn, bytes, .. } if *conn == juliet => Some(String::from_utf8(bytes.clone()).unwrap()),
            _ => None,
        })
        .collect();
    assert!(heard.contains("<body>plain</body>") && !heard.contains("httpbind"), "{heard}");
    assert!(heard.contains("xmlns:x='urn:own'") && heard.contains("<x:y/>"), "{heard}");
}

#[test]
fn xep0206_2_what_others_have_written_stays_what_it_was() {
    let mut desk = Desk::new(|_| {});
    let juliet = desk.tcp("juliet");
    let mut client = desk.usual("romeo");
    client.say(&mut desk, PRESENCE);
    client.parks(&mut desk);
    let odd = "<message to='romeo@localhost' type='chat'><body>&lt;/body&gt;<![CDATA[</body>]]></body><stream:x a='>'/></message>";
    let effects = desk.host.ask(juliet, odd);
    let answer = desk.host_hears(effects, juliet).remove(0).1;
    let xml = answer.xml();
    let got = xml.children().next().unwrap();
    assert!(got.is("message", "jabber:client"), "{answer:?}");
    assert_eq!(got.get_child("body", "jabber:client").unwrap().text(), "</body></body>");
    assert!(got.has_child("x", "http://etherx.jabber.org/streams"));
}

#[test]
fn xep0206_5_the_stream_starts_anew_behind_a_login_and_not_elsewhere() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    client.say(&mut desk, &plain("romeo"));
    // The content of the request is ignored.
    let answer = client.with(&mut desk, "to='localhost' xmpp:restart='true'", BIND);
    assert!(answer.has("xmpp-bind") && answer.has("xmlns:stream=") && !answer.has("<jid>"), "{answer:?}");
    client.say(&mut desk, BIND);
    let answer = client.with(&mut desk, "to='localhost' xmpp:restart='true'", "");
    assert_eq!(answer.condition().as_deref(), Some("remote-stream-error"));
    // A client that omits it gets an error.
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    client.say(&mut desk, &plain("romeo"));
    let answer = client.say(&mut desk, BIND);
    assert_eq!(answer.condition().as_deref(), Some("remote-stream-error"));
    assert!(answer.has("bad-format"), "{answer:?}");
}

#[test]
fn xep0206_6_errors_of_the_stream_are_told_with_what_came_before_them() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    let ping = "<iq xmlns='jabber:client' type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>";
    let answer = client.say(&mut desk, &format!("{ping}<message xmlns='urn:other'/>"));
    assert_eq!(answer.condition().as_deref(), Some("remote-stream-error"));
    let xml = answer.xml();
    let names: Vec<_> = xml.children().map(|child| child.name().to_owned()).collect();
    assert_eq!(names, ["iq", "error"], "{answer:?}");
    // An oversized stanza before a login, or later, is also a stream error.
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    let long = format!("<iq xmlns='jabber:client' type='set' id='1'><a xmlns='a'>{}</a></iq>", "x".repeat(20_000));
    assert!(client.say(&mut desk, &long).has("policy-violation"));
}

#[test]
fn what_a_stream_asks_elsewhere_holds_up_what_comes_behind_it_and_nothing_else() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    // Login, restart and resource, each in its own request, all in flight at once as far as the
    // window permits.
    let login = client.next("", &plain("romeo"));
    let restart = client.next("to='localhost' xmpp:restart='true'", "");
    assert_eq!(desk.send(client.conns[1], &request(&restart)), []);
    let all = desk.send(client.conns[0], &request(&login));
    let told: String = all.iter().map(|(_, answer)| answer.body.clone()).collect();
    assert!(told.contains("<success ") && told.contains("xmpp-bind"), "{told}");
}

#[test]
fn sasl_2_and_resources_in_one_request() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    let initial = plain("romeo");
    let initial = initial.split_once('>').unwrap().1.strip_suffix("</auth>").unwrap();
    let authenticate = format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'><initial-response>{initial}</initial-response>\
         <bind xmlns='urn:xmpp:bind:0'><enable xmlns='urn:xmpp:sm:3' resume='true'/>\
         <enable xmlns='urn:xmpp:carbons:2'/></bind></authenticate>"
    );
    let answer = client.say(&mut desk, &authenticate);
    assert!(answer.has("<success xmlns='urn:xmpp:sasl:2'") && answer.has("<enabled "), "{answer:?}");
    assert!(answer.has("authorization-identifier>romeo@localhost/"));
    let ping = "<iq xmlns='jabber:client' type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>";
    assert!(client.say(&mut desk, ping).has("id='p'"));
}

#[test]
fn xep0198_a_session_that_its_client_leaves_is_resumed_by_another_transport_and_back() {
    let mut desk = Desk::new(|_| {});
    let juliet = desk.tcp("juliet");
    let mut client = desk.usual("romeo");
    let enabled = client.say(&mut desk, ENABLE);
    let id = enabled.body.split_once(" id='").unwrap().1.split_once('\'').unwrap().0.to_owned();
    client.say(&mut desk, PRESENCE);
    client.parks(&mut desk);
    let effects = desk.host.ask(juliet, &message("romeo", "first"));
    assert!(desk.host_hears(effects, juliet)[0].1.has("first"));
    desk.wait(40_000);
    let counters = desk.host.shard.counters().clone();
    assert_eq!((counters.bosh_sessions.get(), counters.sessions_detached.get()), (0, 1));
    desk.host.ask(juliet, &message("romeo", "second"));
    let conn = throng_engine::id::ConnId { slot: 700, generation: 1 };
    let listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
    desk.host.turn(Input::Accepted { conn, listener, peer: [192, 0, 2, 1].into() });
    desk.host.ask(conn, &format!("{HEADER}{}", plain("romeo")));
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>");
    let heard = said(&desk.host.ask(conn, &format!("{HEADER}{resume}")));
    assert!(heard.contains("<resumed ") && heard.contains("first") && heard.contains("second"), "{heard}");
    // And back, while the stream still exists.
    let mut client = desk.session("ver='1.6' wait='60' hold='1'");
    client.say(&mut desk, &plain("romeo"));
    client.with(&mut desk, "to='localhost' xmpp:restart='true'", "");
    let body = client.next("", &resume);
    let effects = desk.host.turn(Input::Received { conn: client.conns[0], bytes: &request(&body) });
    assert!(said(&effects).contains("<conflict"), "the stream is told");
    let answer = desk.host_hears(effects.into_iter().filter(|e| !matches!(e, Effect::Close { .. })).collect(), conn);
    assert!(answer[0].1.has("<resumed ") && answer[0].1.has("second"), "{answer:?}");
}

#[test]
fn xep0198_a_session_that_is_taken_over_is_told_so() {
    let mut desk = Desk::new(|_| {});
    let mut client = desk.usual("romeo");
    let enabled = client.say(&mut desk, ENABLE);
    let id = enabled.body.split_once(" id='").unwrap().1.split_once('\'').unwrap().0.to_owned();
    client.parks(&mut desk);
    let mut other = desk.session("ver='1.6' wait='60' hold='1'");
    other.say(&mut desk, &plain("romeo"));
    other.with(&mut desk, "to='localhost' xmpp:restart='true'", "");
    let all = other.send(&mut desk, "", &format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>"));
    let told = all.iter().find(|(conn, _)| *conn == client.conns[0]).unwrap();
    assert_eq!(told.1.condition().as_deref(), Some("remote-stream-error"));
    assert!(told.1.has("<conflict"));
    assert!(all.iter().any(|(conn, answer)| *conn == other.conns[0] && answer.has("<resumed ")), "{all:?}");
}

#[test]
fn carbons_go_to_a_session_of_bosh_and_come_from_it() {
    const CARBONS: &str = "<iq xmlns='jabber:client' type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>";
    let mut desk = Desk::new(|_| {});
    let (mut one, mut two) = (desk.usual("romeo"), desk.usual("romeo"));
    for client in [&mut one, &mut two] {
        client.say(&mut desk, CARBONS);
        client.say(&mut desk, PRESENCE);
    }
    two.say(&mut desk, "<iq xmlns='jabber:client' type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
    two.send(&mut desk, "", "");
    let all = one.send(&mut desk, "", &message("juliet", "said elsewhere"));
    let copy = all.iter().find(|(conn, _)| *conn == two.conns[0]).unwrap();
    assert!(copy.1.has("<sent xmlns='urn:xmpp:carbons:2'") && copy.1.has("said elsewhere"), "{all:?}");
}

#[test]
fn xep0124_19_1_a_session_that_began_by_tls_goes_on_by_tls() {
    let mut desk = Desk::new(|_| {});
    desk.listener = ListenerKind { direct_tls: true, starttls: false, plain_auth: false, registration: false };
    let conn = desk.connect();
    let tls = || Box::new(TlsFacts { exporter: Some([3; 32]), server_end_point: vec![4; 32], certificate: None });
    desk.host.turn(Input::Secured { conn, tls: tls() });
    let created = desk.ask(conn, &body("rid='1' to='localhost' ver='1.6' wait='60' hold='1'", ""));
    assert!(created.has(">PLAIN<"), "{created:?}");
    let next = body(&format!("sid='{}' rid='2'", created.attr("sid").unwrap()), &plain("romeo"));
    desk.listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: true, registration: false };
    let clear = desk.connect();
    assert!(desk.send(clear, &request(&next)).is_empty() && desk.ended.contains(&clear), "it is closed without a word");
    assert!(desk.ask(conn, &next).has("<success "), "and the session is as it was");
    // Without TLS or a proxy in front, nobody can log in.
    desk.listener = ListenerKind { direct_tls: false, starttls: false, plain_auth: false, registration: false };
    let conn = desk.connect();
    let created = desk.ask(conn, &body("rid='1' to='localhost' ver='1.6' wait='60' hold='1'", ""));
    assert!(created.attr("sid").is_some() && !created.has("PLAIN"));
}

/// RFC 6120 8.1.5, XEP-0124 7.1: the language is the session's, unless the restart names another
/// one; a stanza with its own language keeps it.
#[test]
fn rfc6120_8_1_5_the_sessions_language_outlives_the_restart() {
    for (began, restart, is) in [
        ("it", "", Some("it")),
        ("it", "xml:lang='de'", Some("de")),
        ("en", "", None),
        ("x-a-tag-of-more-than-thirty-five-bytes", "", None),
    ] {
        let mut desk = Desk::new(|_| {});
        let juliet = desk.tcp("juliet");
        let mut client = desk.session_in(began, "ver='1.6' wait='60' hold='1'");
        client.say(&mut desk, &plain("romeo"));
        client.with(&mut desk, &format!("to='localhost' xmpp:restart='true' {restart}"), "");
        client.say(&mut desk, BIND);
        for (conn, own, lang) in [(client.conns[0], "", is), (client.conns[1], " xml:lang='fr'", Some("fr"))] {
            let sent = message("juliet", "ciao").replacen("<message", &format!("<message{own}"), 1);
            let all = client.next("", &sent);
            let effects = desk.host.turn(Input::Received { conn, bytes: &request(&all) });
            let to_juliet: Vec<Effect> = effects
                .into_iter()
                .filter(|effect| matches!(effect, Effect::Send { conn, .. } if *conn == juliet))
                .collect();
            let heard = said(&to_juliet);
            assert!(heard.contains("<body>ciao</body>"), "{heard}");
            let found = heard.split_once("xml:lang='").map(|(_, rest)| rest.split('\'').next().expect("a value"));
            assert_eq!(found, lang, "{began}, {restart}: {heard}");
        }
    }
}

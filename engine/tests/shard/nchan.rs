//! The protocol of Nchan on one shard: its subscribers and publishers, on the channels that others
//! read at `/n/`, by Mercure and by XMPP. The expected behaviour is that of Nchan 1.3.6;
//! `tests/clients/test_nchan.py` compares the two.

use std::sync::Arc;

use throng_engine::id::ConnId;
use throng_engine::io::{Effect, Input};
use throng_engine::limits::{NOTIFY_FORGET_S, NOTIFY_WAIT_S_MAX};
use throng_engine::web::policy::Channels;

use crate::issuer::{access, minute};
use crate::notify_world::{Desk, Heard, KEY, TOKEN, bytes_to, frames_to, open};

/// The second in which the tests begin, as in `Last-Modified`.
const NOW: &str = "Tue, 14 Nov 2023 22:13:20 GMT";

fn all() -> Channels {
    Channels { nchan: true, mercure: true, ..open() }
}

fn private() -> Channels {
    Channels {
        prefixes: Box::new(["news.".into()]),
        private: Box::new(["own.".into()]),
        publish_open: false,
        access: Some(Arc::new(access())),
        ..all()
    }
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

trait Nchan {
    fn asks(&mut self, conn: ConnId, request: &str, fields: &str) -> Heard;
    fn asked(&mut self, request: &str, fields: &str) -> Heard;
    fn sends_to(&mut self, channel: &str, fields: &str, body: &str) -> Heard;
    fn posts(&mut self, channel: &str, body: &str) -> Heard;
    fn hears(&mut self, conn: ConnId, channel: &str, body: &str) -> Heard;
    fn opens(&mut self, path: &str, fields: &str) -> (ConnId, Vec<String>);
}

impl Nchan for Desk {
    /// A request without a body, such as `GET /sub/a`.
    fn asks(&mut self, conn: ConnId, request: &str, fields: &str) -> Heard {
        self.says(conn, &format!("{request} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    }

    fn asked(&mut self, request: &str, fields: &str) -> Heard {
        let conn = self.connect();
        self.asks(conn, request, fields)
    }

    fn sends_to(&mut self, channel: &str, fields: &str, body: &str) -> Heard {
        self.asked(&format!("POST /pub/{channel}"), &format!("{fields}Content-Length: {}\r\n\r\n{body}", body.len()))
    }

    fn posts(&mut self, channel: &str, body: &str) -> Heard {
        self.sends_to(channel, "Content-Type: text/plain\r\n", body)
    }

    /// What a subscriber receives while a message is published.
    fn hears(&mut self, conn: ConnId, channel: &str, body: &str) -> Heard {
        let publisher = self.connect();
        let bytes = format!(
            "PUT /pub/{channel} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Heard::of(&self.host.turn(Input::Received { conn: publisher, bytes: bytes.as_bytes() }), conn)
    }

    /// A WebSocket and its first output, beginning with the head of the response.
    fn opens(&mut self, path: &str, fields: &str) -> (ConnId, Vec<String>) {
        let conn = self.connect();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{KEY}{fields}\r\n");
        let (said, ends) = self.sends(conn, request.as_bytes());
        assert!(!ends && said[0].starts_with("HTTP/1.1 101"), "{said:?}");
        (conn, said)
    }
}

fn place(heard: &Heard) -> (&str, &str, &str) {
    let field = |name| heard.field(name).unwrap_or_default();
    (field("Last-Modified"), field("Etag"), heard.body())
}

fn from(date: &str, tag: &str) -> String {
    format!("If-Modified-Since: {date}\r\nIf-None-Match: {tag}\r\n")
}

#[test]
fn publishers_are_told_of_the_channel() {
    let mut desk = Desk::new(all());
    assert_eq!((desk.asked("GET /pub/a", "").status(), desk.asked("GET /pub/a", "").body()), ("404", ""));
    let heard = desk.posts("a", "one");
    assert_eq!((heard.status(), heard.field("Content-Type")), ("202", Some("text/plain")));
    let told =
        "queued messages: 1\r\nlast requested: -1 sec. ago\r\nactive subscribers: 0\r\nlast message id: 1700000000:1";
    assert_eq!((heard.body(), desk.asked("GET /pub/a", "").body()), (told, told));

    let conn = desk.connect();
    assert_eq!(desk.asks(conn, "GET /sub/a", &from(NOW, "1")), Heard::default(), "it waits");
    desk.passes(3);
    let json = desk.asked("GET /pub/a", "Accept: application/json\r\n");
    assert_eq!(json.field("Content-Type"), Some("text/json"));
    let told = "{\"messages\": 1, \"requested\": 3, \"subscribers\": 1, \"last_message_id\": \"1700000000:1\" }";
    assert_eq!(json.body(), told);
    let heard = desk.sends_to("a", "Accept: text/xml\r\n", "two");
    assert_eq!((heard.status(), heard.field("Content-Type")), ("201", Some("text/xml")));
    assert!(heard.body().contains("  <messages>2</messages>\r\n") && heard.body().contains(">1700000003:2<"));
    assert!(desk.asked("GET /pub/a", "Accept: text/yaml\r\n").body().starts_with("---\r\nmessages: 2\r\n"));

    // The subscriber has its answer and does not return.
    desk.passes(2);
    assert!(desk.asked("GET /pub/a", "").body().contains("last requested: 5 sec. ago\r\nactive subscribers: 0\r\n"));
    desk.passes(2 * u64::from(NOTIFY_FORGET_S));
    assert!(desk.asked("GET /pub/a", "").body().contains("last requested: -1 sec. ago\r\n"), "it is forgotten");
    assert_eq!(desk.host.shard.counters().notify_channels.get(), 0);
    assert_eq!(desk.host.shard.counters().notify_published.get(), 2);

    // A subscriber waits for a channel that nobody has published at.
    let conn = desk.connect();
    desk.asks(conn, "GET /sub/new", "Accept: text/event-stream\r\n");
    let told = "queued messages: 0\r\nlast requested: 0 sec. ago\r\nactive subscribers: 1\r\nlast message id: 0:0";
    assert_eq!(desk.asked("GET /pub/new", "").body(), told);
    desk.host.turn(Input::Closed { conn });
    desk.passes(2);
    assert!(desk.asked("GET /pub/new", "").body().contains("active subscribers: 0\r\n"));
    desk.passes(2 * u64::from(NOTIFY_FORGET_S));
    assert_eq!(desk.asked("GET /pub/new", "").status(), "404");
}

#[test]
fn one_message_at_a_time_is_polled() {
    let mut desk = Desk::new(all());
    desk.posts("a", "one");
    desk.sends_to("a", "Content-Type: application/json\r\n", "{\"a\": \"\u{e9}\"}");
    desk.sends_to("a", "", "three");
    let heard = desk.asked("GET /sub/a", "");
    assert_eq!((heard.status(), place(&heard)), ("200", (NOW, "1", "one")));
    assert_eq!(heard.field("Vary"), Some("If-None-Match, If-Modified-Since"));
    assert_eq!((heard.field("Content-Type"), heard.field("Content-Length")), (Some("text/plain"), Some("3")));
    assert_eq!(heard.field("Access-Control-Expose-Headers"), Some("Last-Modified, Etag, Content-Type"));
    let heard = desk.asked("GET /sub/a", &from(NOW, "1"));
    assert_eq!(
        (place(&heard), heard.field("Content-Type")),
        ((NOW, "2", "{\"a\": \"\u{e9}\"}"), Some("application/json"))
    );
    let heard = desk.asked("GET /pubsub/a", &from(NOW, "W/\"2\""));
    assert_eq!((place(&heard), heard.field("Content-Type")), ((NOW, "3", "three"), None));

    // Its position can be given in other ways, too.
    for fields in ["Last-Event-ID: 1700000000:1\r\n", "Etag: 1700000000:1\r\n"] {
        assert_eq!(desk.asked("GET /sub/a", fields).field("Etag"), Some("2"), "{fields}");
    }
    let heard = desk.asked("GET /sub/a?x=1&last_event_id=1700000000%3A2", &from("garbage", "7"));
    assert_eq!(heard.field("Etag"), Some("3"));

    // At the head it waits: as long as it wants, and until there is a message.
    let conn = desk.connect();
    assert_eq!(desk.asks(conn, "GET /sub/a?wait=2", &from(NOW, "3")), Heard::default());
    let heard = desk.wait(conn, 7);
    assert_eq!((heard.status(), heard.field("Etag"), heard.field("Content-Length")), ("408", Some("3"), Some("0")));
    assert_eq!((heard.field("Last-Modified"), heard.ends), (None, false));
    assert_eq!(desk.asks(conn, "GET /sub/a", &from(NOW, "3")), Heard::default());
    assert_eq!(desk.wait(conn, u64::from(NOTIFY_WAIT_S_MAX) - 2), Heard::default());
    let heard = desk.hears(conn, "a", "four");
    assert_eq!((heard.status(), heard.field("Etag"), heard.body()), ("200", Some("4"), "four"));
    assert_eq!(desk.asks(conn, "GET /sub/none", ""), Heard::default());
    let heard = desk.wait(conn, u64::from(NOTIFY_WAIT_S_MAX) + 5);
    assert_eq!((heard.status(), heard.field("Etag")), ("408", None));
    let refused = [&desk.host.shard.counters().notify_subscribe_refused, &desk.host.shard.counters().http_refused];
    assert_eq!(refused.map(|counter| counter.get()), [0, 0], "the end of a wait is no refusal");
}

#[test]
fn who_polls_now_and_then_is_not_kept_waiting() {
    let mut desk = Desk::new(all());
    let heard = desk.asked("GET /poll/a", "");
    assert_eq!((heard.status(), heard.field("Etag"), heard.body()), ("304", None, ""));
    desk.posts("a", "one");
    assert_eq!(place(&desk.asked("GET /poll/a", "")), (NOW, "1", "one"));
    let heard = desk.asked("GET /poll/a", &from(NOW, "1"));
    assert_eq!((heard.status(), place(&heard)), ("304", (NOW, "1", "")));
    assert_eq!(heard.field("Vary"), Some("If-None-Match, If-Modified-Since"));
    desk.passes(2);
    assert!(desk.asked("GET /pub/a", "").body().contains("active subscribers: 0"));
}

#[test]
fn messages_are_events() {
    let mut desk = Desk::new(all());
    desk.posts("a", "one\ntwo");
    let conn = desk.connect();
    let heard = desk.asks(conn, "GET /sub/a", "Accept: text/event-stream\r\n");
    assert_eq!((heard.status(), heard.field("Content-Type")), ("200", Some("text/event-stream; charset=utf-8")));
    assert_eq!(heard.body(), ": hi\n\nid: 1700000000:1\ndata: one\ndata: two\n\n");
    assert_eq!(desk.hears(conn, "a", "three").text, "id: 1700000000:2\ndata: three\n\n");
    let publisher = desk.connect();
    let bytes = "POST /pub/a HTTP/1.1\r\nHost: x\r\nX-EventSource-Event: fo\u{f6}\r\nContent-Length: 1\r\n\r\n4";
    let effects = desk.host.turn(Input::Received { conn: publisher, bytes: bytes.as_bytes() });
    assert_eq!(Heard::of(&effects, conn).text, "event: fo\u{f6}\nid: 1700000000:3\ndata: 4\n\n");
    assert_eq!(desk.wait(conn, 20).text, ":\n\n", "it is there");
    let heard = desk.asked("GET /sub/a", "Accept: text/event-stream\r\nLast-Event-ID: 1700000000:2\r\n");
    assert_eq!(heard.body(), ": hi\n\nevent: fo\u{f6}\nid: 1700000000:3\ndata: 4\n\n");
    // Others receive the same, and their items arrive here.
    let follower =
        desk.says(publisher, "GET /.well-known/mercure?topic=a&lastEventID=earliest HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(follower.text.contains("event: fo\u{f6}\n") && follower.text.contains("data: three\n"));
    assert_eq!(desk.told(conn, "a", "Content-Type: x\r\n", "by /n/").text, "id: 1700000020:4\ndata: by /n/\n\n");
}

#[test]
fn messages_come_by_websocket() {
    let mut desk = Desk::new(all());
    desk.posts("a", "one");
    let (bare, said) = desk.opens("/sub/a", "Sec-WebSocket-Protocol: other\r\n");
    assert_eq!(said[1..], ["one"]);
    assert!(!said[0].contains("Sec-WebSocket-Protocol"));
    let (meta, said) = desk.opens("/pubsub/a?last_event_id=0:0", "Sec-WebSocket-Protocol: other, ws+meta.nchan\r\n");
    assert!(said[0].contains("\r\nSec-WebSocket-Protocol: ws+meta.nchan\r\n"));
    assert_eq!(said[1..], ["id: 1700000000:1\ncontent-type: text/plain\n\none"]);
    let publisher = desk.connect();
    let mut bytes = b"POST /pub/a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n".to_vec();
    bytes.extend([0xff, 0]);
    let effects = desk.host.turn(Input::Received { conn: publisher, bytes: &bytes });
    // Data that is not text is binary.
    assert_eq!(bytes_to(&effects, bare).0, [0x82, 2, 0xff, 0]);
    assert_eq!(bytes_to(&effects, meta).0, [&[0x82, 20][..], b"id: 1700000000:2\n\n", &[0xff, 0]].concat()[..]);
    assert_eq!(bytes_to(&desk.passes(20), bare).0, [0x89, 0], "a ping");
    let (said, ends) = desk.sends(bare, &[0x81, 0x81, 0, 0, 0, 0, b'x']);
    assert_eq!((said, ends), (vec!["close 1003".to_owned()], true), "nothing is published over it");
}

#[test]
fn of_several_channels_the_first_message_comes_first() {
    let mut desk = Desk::new(all());
    desk.posts("b", "b1");
    desk.passes(1);
    desk.posts("a", "a1");
    desk.posts("b", "b2");
    let mut seen = Vec::new();
    let mut fields = String::new();
    for _ in 0..3 {
        let heard = desk.asked("GET /sub/a,b", &fields);
        let (date, tag, body) = place(&heard);
        seen.push((tag.to_owned(), body.to_owned()));
        fields = from(date, tag);
    }
    let of = |tag: &str, body: &str| (tag.to_owned(), body.to_owned());
    assert_eq!(seen, [of("0,[1]", "b1"), of("[1],1", "a1"), of("1,[2]", "b2")]);
    let conn = desk.connect();
    assert_eq!(desk.asks(conn, "GET /sub/a,b", &fields), Heard::default());
    let heard = desk.hears(conn, "a", "a2");
    assert_eq!(place(&heard), ("Tue, 14 Nov 2023 22:13:21 GMT", "[2],2", "a2"));
    // The same by a stream.
    let conn = desk.connect();
    let heard = desk.asks(conn, "GET /sub/a,b?last_event_id=1700000001:[1],1", "Accept: text/event-stream\r\n");
    let mut events: Vec<_> = heard.body().split("\n\n").filter(|event| event.starts_with("id")).collect();
    events.sort_unstable();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(desk.hears(conn, "b", "b3").text, "id: 1700000001:2,[3]\ndata: b3\n\n");
    assert_eq!(desk.asked("GET /sub/a,b,a", "").status(), "400");
}

/// A subscriber comes from an Nchan server, whose tags differ: with a time alone, messages are
/// requested that are not older.
#[test]
fn a_time_is_a_place() {
    let mut desk = Desk::new(all());
    for number in 0..70 {
        desk.posts("a", &number.to_string());
    }
    desk.passes(10);
    assert_eq!(desk.asked("GET /poll/a?last_event_id=1700000005:0", "").status(), "304");
    let (conn, said) = desk.opens("/sub/a?last_event_id=1700000005:0", "");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(desk.messages(conn, "a", "new"), ["new"]);
    assert_eq!(place(&desk.asked("GET /sub/a,b?last_event_id=1700000005:-,-", "")).1, "[71],0");
    assert_eq!(desk.asked("GET /sub/a?last_event_id=1700000000:0", "").body(), "0");
}

#[test]
fn a_channel_is_deleted() {
    let mut desk = Desk::new(all());
    let operator = format!("{}Accept: application/json\r\n", bearer(TOKEN));
    let user = desk.user("romeo");
    desk.posts("a", "one");
    let conns = [(); 4].map(|()| desk.connect());
    let [poll, events, other, gone] = conns;
    desk.asks(poll, "GET /sub/a", &from(NOW, "1"));
    desk.asks(events, "GET /sub/a", "Accept: text/event-stream\r\n");
    desk.stream(other, "a", "");
    let (socket, _) = desk.opens("/sub/a", "");
    assert_eq!(desk.asks(gone, "DELETE /pub/a", "").status(), "401");
    let bytes = format!("DELETE /pub/a HTTP/1.1\r\nHost: x\r\n{operator}\r\n");
    let deleter = desk.connect();
    let effects = desk.host.turn(Input::Received { conn: deleter, bytes: bytes.as_bytes() });
    let heard = Heard::of(&effects, deleter);
    let told = "{\"messages\": 1, \"requested\": 0, \"subscribers\": 4, \"last_message_id\": \"1700000000:1\" }";
    assert_eq!((heard.status(), heard.body()), ("200", told));
    let heard = Heard::of(&effects, poll);
    assert_eq!((heard.status(), heard.field("Vary")), ("410", Some("If-None-Match, If-Modified-Since")));
    assert_eq!(heard.field("Etag"), Some("1"));
    assert_eq!(Heard::of(&effects, events), Heard { text: ":410: 410 Gone\n\n".into(), ends: true });
    assert_eq!(frames_to(&effects, socket), (vec!["close 1001".into()], true));
    assert_eq!(Heard::of(&effects, other), Heard::default(), "by another protocol nobody is sent away");
    // Its numbers continue, so a returning subscriber misses nothing.
    assert!(desk.asked("GET /pub/a", "").body().contains("queued messages: 0\r\n"));
    desk.posts("a", "two");
    assert_eq!(place(&desk.asked("GET /sub/a", &from(NOW, "1"))), (NOW, "2", "two"));
    assert_eq!(desk.asked("DELETE /pub/none", &operator).status(), "404");
    // Only the operator may delete a user's node.
    desk.makes(user, "romeos", &[("pubsub#access_model", "open"), ("pubsub#publish_model", "open")]);
    assert_eq!(desk.posts("romeos", "x").status(), "202");
    assert_eq!(desk.asked("DELETE /pubsub/romeos", &operator).status(), "200");
    assert_eq!(desk.asked("GET /poll/romeos", "").status(), "304");
}

#[test]
fn very_many_are_told_that_it_is_deleted_bit_by_bit() {
    let mut desk = Desk::new(all());
    let conns: Vec<_> = (0..2_500).map(|_| desk.connect()).collect();
    for conn in &conns {
        desk.asks(*conn, "GET /sub/a", "");
    }
    desk.host.prompt = false;
    let deleter = desk.connect();
    let bytes = format!("DELETE /pub/a HTTP/1.1\r\nHost: x\r\n{}\r\n", bearer(TOKEN));
    let mut effects = desk.host.turn(Input::Received { conn: deleter, bytes: bytes.as_bytes() });
    let told = |effects: &[Effect]| conns.iter().filter(|conn| Heard::of(effects, **conn).status() == "410").count();
    for _ in 0..10 {
        effects.extend(desk.host.turn(Input::EndOfTurn));
    }
    assert_eq!(told(&effects), 2_500);
    desk.passes(2);
    assert_eq!(desk.host.shard.counters().notify_waiting.get(), 0);
}

#[test]
fn tokens_say_who_may() {
    let mut desk = Desk::new(private());
    let token = |claims: &str| bearer(&minute(claims));
    let reader = token(",\"subscribe\":[\"own.*\"]");
    let writer = token(",\"publish\":[\"own.*\"]");
    let body = "Content-Length: 1\r\n\r\nx";
    assert_eq!(desk.asked("GET /sub/own.a", "").status(), "401");
    assert_eq!(desk.asked("GET /sub/own.a", &writer).status(), "403");
    assert_eq!(desk.asked("POST /pub/own.a", &format!("{reader}{body}")).status(), "403");
    assert_eq!(desk.asked("POST /pub/news.a", body).status(), "401");
    assert_eq!(desk.asked("POST /pub/own.a", &format!("{writer}{body}")).status(), "202");
    assert_eq!(desk.asked("GET /sub/own.a", &reader).body(), "x");
    assert_eq!(desk.asked("GET /pub/own.a", &reader).status(), "403", "publishers are told of the channel");
    assert_eq!(desk.asked("GET /pub/own.a", &writer).status(), "200");
    assert_eq!(desk.asked("DELETE /pub/own.a", &writer).status(), "200");
    // It ends with its token.
    let conn = desk.connect();
    desk.asks(conn, "GET /sub/own.a", &format!("{reader}Accept: text/event-stream\r\n"));
    let heard = desk.wait(conn, 70);
    assert!(heard.ends && heard.text.ends_with(":401: 401 Unauthorized\n\n"), "{heard:?}");
}

#[test]
fn wrong_requests_are_refused() {
    let mut desk = Desk::new(Channels { prefixes: Box::new(["a".into()]), ..all() });
    let many = format!("GET /sub/{}", (0..17).map(|at| format!("a{at}")).collect::<Vec<_>>().join(","));
    for (request, fields, status) in [
        ("GET /sub/", "", "400"),
        ("GET /sub/b", "", "404"),
        ("GET /sub/a,b", "", "404"),
        ("GET /sub/a,", "", "400"),
        ("GET /sub/a,a", "", "400"),
        ("GET /sub/a%FF", "", "400"),
        (many.as_str(), "", "400"),
        ("GET /sub/a?wait=x", "", "400"),
        ("GET /sub/a?last_event_id=5:1,2", "", "400"),
        ("GET /sub/a?last_event_id=5:x", "", "400"),
        ("GET /sub/a", "If-Modified-Since: Tue, 14 Nov 2023 22:13:20 GMT\r\n", "400"),
        ("GET /sub/a", "Sec-Fetch-Dest: script\r\n", "403"),
        ("GET /sub/a", "Sec-Fetch-Dest: serviceworker\r\n", "403"),
        ("POST /sub/a", "", "405"),
        ("DELETE /poll/a", "", "405"),
        ("POST /pub/a,a2", "Content-Length: 0\r\n", "400"),
        ("GET /pub/a,a2", "", "400"),
        ("POST /pub/a", "X-EventSource-Event: a\tb\r\nContent-Length: 0\r\n", "400"),
        ("POST /pub/a", "Content-Type: \u{e9}\r\nContent-Length: 0\r\n", "400"),
        ("POST /pub/a", "Idempotency-Key: a b\r\nContent-Length: 0\r\n", "400"),
        ("GET /sub/a", "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n", "400"),
        ("GET /sub/a", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n", "426"),
        ("HEAD /sub/a", "", "200"),
        ("HEAD /sub/a%7Bb%7D", "", "200"),
    ] {
        assert_eq!(desk.asked(request, fields).status(), status, "{request} {fields}");
    }
    let heard = desk.asked("POST /pub/a", "Content-Length: 32769\r\n");
    assert_eq!((heard.status(), heard.ends), ("413", true));
    // A name is the decoded path.
    assert_eq!(desk.posts("a%2Fb~", "x").status(), "202");
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a~2Fb~7E").data(), ["x"]);
    assert_eq!(desk.asked("GET /poll/a/b~", "").body(), "x");
    // A page may display a message as a document, and nothing in it is executed.
    let heard = desk.asked("GET /poll/a/b~", "Sec-Fetch-Dest: document\r\n");
    assert_eq!(
        (heard.field("Content-Security-Policy"), heard.field("X-Content-Type-Options")),
        (Some("sandbox"), Some("nosniff"))
    );

    let mut desk = Desk::new(open());
    for path in ["/sub/a", "/poll/a", "/pub/a", "/pubsub/a"] {
        assert_eq!(desk.asked(&format!("GET {path}"), "").status(), "404", "the option is off");
    }
}

#[test]
fn pages_of_other_origins_ask() {
    let mut desk = Desk::new(all());
    let fields = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
    let heard = desk.asked("OPTIONS /sub/a", fields);
    assert_eq!((heard.status(), heard.field("Access-Control-Allow-Origin")), ("204", Some("*")));
    assert!(heard.field("Access-Control-Allow-Headers").unwrap().starts_with("If-None-Match, If-Modified-Since, Etag"));
    let heard = desk.asked("OPTIONS /pub/a", fields);
    assert_eq!(heard.field("Access-Control-Allow-Methods"), Some("GET, POST, PUT, DELETE, HEAD, OPTIONS"));
    desk.posts("a", "x");
    assert_eq!(
        desk.asked("GET /sub/a", "Origin: https://a.example\r\n").field("Access-Control-Allow-Origin"),
        Some("*")
    );
}

/// What an issuer's token permits: deleting costs the same as publishing.
#[test]
fn deleting_counts_as_publishing() {
    let mut desk = Desk::new(Channels { publications_s: 1, ..private() });
    let writer = bearer(&minute(",\"publish\":[\"*\"]"));
    let deleted = (0..30).filter(|_| desk.asked("DELETE /pub/own.a", &writer).status() != "429").count();
    assert!((10..=11).contains(&deleted), "ten seconds' worth: {deleted}");
    let heard = desk.asked("DELETE /pub/own.a", &writer);
    assert!(heard.status() == "429" && heard.field("Retry-After").is_some());
    // A request for information is not charged, and waits like others: this many at once.
    assert!((0..30).all(|_| desk.asked("GET /pub/own.a", &writer).status() == "404"));
    let mut desk = Desk::new(Channels { waiting_max: 2, ..all() });
    let conns = [(); 3].map(|()| desk.connect());
    let answers = conns.map(|conn| desk.asks(conn, "GET /sub/a", "").status().to_owned());
    assert_eq!(answers, ["", "", "429"]);
}

/// A user's node follows its owner's configuration, also for publishers by this protocol.
#[test]
fn nodes_of_users_are_theirs() {
    let mut desk = Desk::new(private());
    let (admin, writer) = (desk.user("admin"), bearer(&minute(",\"publish\":[\"own.*\"]")));
    desk.makes(admin, "own.room", &[]);
    let body = "Content-Length: 1\r\n\r\nx";
    assert_eq!(desk.asked("POST /pub/own.room", &format!("{writer}{body}")).status(), "202");
    assert_eq!(desk.asked("GET /pub/own.room", &writer).status(), "200");
    assert_eq!(desk.asked("DELETE /pub/own.room", &writer).status(), "403", "it has an owner");
    assert_eq!(desk.asked("DELETE /pub/own.room", &bearer(TOKEN)).status(), "200");

    let mut desk = Desk::new(all());
    let romeo = desk.user("romeo");
    desk.makes(romeo, "his", &[("pubsub#access_model", "whitelist")]);
    assert_eq!(desk.asked("GET /pub/his", "").status(), "403");
    assert_eq!(desk.asked("GET /sub/his", "").status(), "403");
    assert_eq!(desk.posts("his", "x").status(), "403");
}

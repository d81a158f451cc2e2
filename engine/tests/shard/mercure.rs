//! The Mercure protocol on one shard: forms and events as its clients use them, on the channels
//! that others read at `/n/` and by XMPP.

use std::sync::Arc;

use throng_engine::id::ConnId;
use throng_engine::io::{Command, Input};
use throng_engine::limits::{MERCURE_FORM_BYTES_MAX, NOTIFY_BODY_BYTES_MAX};
use throng_engine::settings::Settings;
use throng_engine::web::access::Access;
use throng_engine::web::dialect::mercure::place;
use throng_engine::web::policy::{Channels, Policy};
use throng_sim::host::said as words;

use crate::issuer::{NOW_S, Signer, access, minute};
use crate::notify_world::{Desk, Heard, TOKEN, open, post, pubsub, settings};

const BOOK: &str = "https%3A%2F%2Fexample.com%2Fbooks%2F1";
/// The channel of this topic.
const CHANNEL: &str = "https:~2F~2Fexample.com~2Fbooks~2F1";

pub(super) fn all() -> Channels {
    Channels { mercure: true, ..open() }
}

/// Topics below `own.` and those of one site require a token.
pub(super) fn private() -> Channels {
    Channels {
        prefixes: Box::new(["news.".into()]),
        private: Box::new(["own.".into(), "https:".into()]),
        publish_open: false,
        access: Some(Arc::new(Access { mercure: true, ..access() })),
        ..all()
    }
}

pub(super) fn claim(publish: &str, subscribe: &str) -> String {
    minute(&format!(",\"mercure\":{{\"publish\":[{publish}],\"subscribe\":[{subscribe}],\"payload\":{{\"user\":1}}}}"))
}

pub(super) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

pub(super) fn id_of(channel: &str, number: u64) -> String {
    place::write((channel, number), std::iter::empty())
}

/// One event: its id, and its other lines.
pub(super) type Event = (String, String);

pub(super) fn form(fields: &str, body: &str) -> String {
    format!(
        "POST /.well-known/mercure HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n{fields}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

pub(super) trait Hub {
    fn hub(&mut self, conn: ConnId, query: &str, fields: &str) -> Heard;
    fn follows(&mut self, query: &str, fields: &str) -> Heard;
    fn update(&mut self, body: &str) -> Heard;
    fn update_with(&mut self, fields: &str, body: &str) -> Heard;
    fn hears(&mut self, conn: ConnId, body: &str) -> Heard;
}

impl Hub for Desk {
    fn hub(&mut self, conn: ConnId, query: &str, fields: &str) -> Heard {
        self.says(conn, &format!("GET /.well-known/mercure?{query} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    }

    fn follows(&mut self, query: &str, fields: &str) -> Heard {
        let conn = self.connect();
        self.hub(conn, query, fields)
    }

    fn update(&mut self, body: &str) -> Heard {
        self.update_with("", body)
    }

    fn update_with(&mut self, fields: &str, body: &str) -> Heard {
        let conn = self.connect();
        self.says(conn, &form(fields, body))
    }

    /// What a subscriber receives while an update is published.
    fn hears(&mut self, conn: ConnId, body: &str) -> Heard {
        let publisher = self.connect();
        Heard::of(&self.host.turn(Input::Received { conn: publisher, bytes: form("", body).as_bytes() }), conn)
    }
}

/// The events of an answer, or of later output; comments are skipped, and so are ids without data,
/// for which browsers report no event.
pub(super) fn events(heard: &Heard) -> Vec<Event> {
    let text = if heard.text.starts_with("HTTP") { heard.body() } else { &heard.text };
    let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with(':')).collect();
    let event = |event: &str| {
        let (id, rest) = event.strip_prefix("id: ")?.split_once('\n')?;
        Some((id.to_owned(), rest.to_owned()))
    };
    let reported = text.split_terminator("\n\n").filter(|text| text.contains('\n'));
    reported.map(|text| event(text).unwrap_or_else(|| panic!("no event: {text:?}"))).collect()
}

pub(super) fn data(heard: &Heard) -> Vec<String> {
    events(heard).into_iter().map(|(_, rest)| rest.strip_prefix("data: ").expect("data").to_owned()).collect()
}

#[test]
fn an_update_is_an_item_and_an_item_is_an_update() {
    let mut desk = Desk::new(all());
    let user = desk.user("romeo");
    let conn = desk.connect();
    let heard = desk.hub(conn, &format!("topic={BOOK}"), "Accept: text/event-stream\r\nCache-Control: no-cache\r\n");
    assert_eq!((heard.status(), heard.field("Content-Type"), heard.body()), ("200", Some("text/event-stream"), ""));
    assert_eq!((heard.field("Last-Event-ID"), heard.field("Cache-Control")), (None, Some("no-store")));
    let publisher = desk.connect();
    let body = format!("topic={BOOK}&data=%7B%22a%22%3A+%22b%26%22%7D&type=changed&retry=300&id=urn%3Auuid%3A1");
    let heard =
        Heard::of(&desk.host.turn(Input::Received { conn: publisher, bytes: form("", &body).as_bytes() }), conn);
    let lines = "event: changed\nretry: 300\ndata: {\"a\": \"b&\"}";
    assert_eq!(events(&heard), [(id_of(CHANNEL, 1), lines.to_owned())]);
    // The publisher's answer is its identifier and nothing else.
    let said = desk.update(&format!("topic={BOOK}&data=two%0D%0Alines"));
    assert_eq!((said.status(), said.body()), ("200", &*id_of(CHANNEL, 2)));
    assert!(said.field("Content-Type").unwrap().starts_with("text/plain"));
    // Others read the same channel by its name.
    let poll = desk.connect();
    let poll = desk.get(poll, CHANNEL);
    assert_eq!(poll.data(), ["{\\", "two\\r\\nlines"], "{}", poll.text);
    assert!(poll.text.contains("\"type\":\"text/plain; charset=utf-8; event=changed; retry=300\""), "{}", poll.text);
    let said = desk.host.ask(user, &pubsub(false, &format!("<items node='{CHANNEL}'/>")));
    assert!(words(&said).contains("event=changed") && words(&said).contains("b&amp;"), "{}", words(&said));
    // And an item published there is an update, with a type if one is given.
    let kind = "Content-Type: application/json; event=by-n\r\n";
    let other = desk.connect();
    let heard =
        Heard::of(&desk.host.turn(Input::Received { conn: other, bytes: post(CHANNEL, kind, "[1]").as_bytes() }), conn);
    assert_eq!(events(&heard), [(id_of(CHANNEL, 3), "event: by-n\ndata: [1]".to_owned())]);
    // An update need not have content.
    assert_eq!(events(&desk.hears(conn, &format!("topic={BOOK}"))), [(id_of(CHANNEL, 4), "data: ".to_owned())]);
    // A keep-alive is not an empty event.
    assert_eq!(desk.wait(conn, 20).text, ":\n");
}

/// Neither the order of topics matters, nor which topic's update a client continues from.
#[test]
fn a_subscriber_goes_on_behind_any_update() {
    let mut desk = Desk::new(all());
    let conn = desk.connect();
    assert_eq!(desk.hub(conn, "topic=a&topic=b&topic=c", "").status(), "200");
    let mut last = Vec::new();
    for number in 0..4 {
        for topic in ["a", "b", "c"] {
            let heard = desk.hears(conn, &format!("topic={topic}&data={topic}{number}"));
            let [(id, text)] = &events(&heard)[..] else { panic!("{}", heard.text) };
            assert_eq!(*text, format!("data: {topic}{number}"));
            assert!(id.starts_with(&id_of(topic, number + 1)), "{id}");
            last.push((id.clone(), format!("{topic}{number}")));
        }
    }
    for (at, (id, _)) in last.iter().enumerate() {
        let expected = |topics: &str| {
            let mut left: Vec<_> = last[at + 1..]
                .iter()
                .map(|(_, data)| data.clone())
                .filter(|data| topics.contains(&data[..1]))
                .collect();
            left.sort();
            left
        };
        for (query, topics) in
            [("topic=a&topic=b&topic=c", "abc"), ("topic=c&topic=a&topic=b", "abc"), ("topic=b", "b")]
        {
            for (query, field) in [
                (query.to_owned(), format!("Last-Event-ID: {id}\r\n")),
                (format!("{query}&lastEventID={id}"), String::new()),
            ] {
                let heard = desk.follows(&query, &field);
                let mut got = data(&heard);
                got.sort();
                assert_eq!(got, expected(topics), "{query} behind {id}");
                assert_eq!(heard.field("Last-Event-ID"), Some(&**id), "nothing is missing");
                let exposed = heard.field("Access-Control-Expose-Headers");
                assert_eq!(exposed, Some("Last-Event-ID"), "polyfills look at it");
            }
        }
    }
    // The header takes precedence, and an empty one is ignored.
    let newest = &last[11].0;
    let heard = desk.follows("topic=a&topic=b&topic=c&lastEventID=earliest", &format!("Last-Event-ID: {newest}\r\n"));
    assert_eq!((data(&heard).len(), heard.field("Last-Event-ID")), (0, Some(&**newest)));
    let heard = desk.follows("topic=a&lastEventID=earliest", "Last-Event-ID: \r\n");
    assert_eq!((data(&heard).len(), heard.field("Last-Event-ID")), (4, Some("earliest")));
}

#[test]
fn who_may_have_missed_something_is_told() {
    let five = || {
        let mut desk = Desk::new(Channels { items_max: 2, ..all() });
        for number in 0..5 {
            desk.update(&format!("topic=a&data=a{number}"));
            desk.update(&format!("topic=b&data=b{number}"));
        }
        desk
    };
    let heard = five().follows("topic=a&topic=b&lastEventID=earliest", "");
    assert_eq!((data(&heard).len(), heard.field("Last-Event-ID")), (4, Some("earliest")));
    for (id, topics, expected, said) in [
        (id_of("a", 3), "topic=a", 2, None),
        (id_of("a", 2), "topic=a", 2, Some("earliest")),
        (id_of("a", 99), "topic=a", 0, Some("earliest")),
        // The position for another topic is unknown, so that topic continues from now.
        (id_of("a", 4), "topic=a&topic=b", 1, Some("earliest")),
        (id_of("c", 4), "topic=a", 0, Some("earliest")),
        ("urn:uuid:5e94c686-2c0b-4f9b-958c-92ccc3bbb4eb".into(), "topic=a", 0, Some("earliest")),
        ("%0D%0AX: y".replace(' ', "+"), "topic=a", 0, Some("earliest")),
    ] {
        let mut desk = five();
        let conn = desk.connect();
        let heard = desk.hub(conn, &format!("{topics}&lastEventID={id}"), "");
        assert_eq!(heard.status(), "200");
        assert_eq!(heard.field("Last-Event-ID"), Some(said.unwrap_or(&id)), "{topics} behind {id}: {}", heard.text);
        let got = data(&heard);
        assert_eq!(got.len(), expected, "{topics} behind {id}: {got:?}");
        assert_eq!(events(&desk.hears(conn, "topic=a&data=next")).len(), 1, "and goes on with what comes");
    }
}

/// Items beyond the size of a home's answer arrive all the same, in order.
#[test]
fn a_long_history_comes_in_parts() {
    let mut desk = Desk::new(Channels { items_max: 150, ..all() });
    let long = "x".repeat(8_000);
    for number in 0..100 {
        for topic in ["a", "b"] {
            assert_eq!(desk.update(&format!("topic={topic}&data={topic}{number}.{long}")).status(), "200");
        }
    }
    let conn = desk.connect();
    let mut heard = desk.hub(conn, "topic=a&topic=b&lastEventID=earliest", "");
    assert_eq!(heard.field("Last-Event-ID"), Some("earliest"));
    let (mut got, mut rounds) = (data(&heard), 0);
    while got.len() < 200 && rounds < 200 {
        desk.host.now.mono_ms += 10;
        heard = Heard::of(&desk.host.turn(Input::Sent { conn }), conn);
        got.extend(data(&heard));
        rounds += 1;
    }
    for topic in ["a", "b"] {
        let of: Vec<_> =
            got.iter().filter(|data| data.starts_with(topic)).map(|data| data.split('.').next().unwrap()).collect();
        let expected: Vec<_> = (0..100).map(|number| format!("{topic}{number}")).collect();
        assert_eq!(of, expected);
    }
}

#[test]
fn what_is_no_subscription_is_refused() {
    let mut desk = Desk::new(Channels { prefixes: Box::new(["a".into(), "https:".into()]), ..all() });
    let many = |number: usize| (0..number).map(|at| format!("topic=a{at}")).collect::<Vec<_>>().join("&");
    for (query, status, why) in [
        ("", "400", "a topic is missing"),
        ("lastEventID=earliest", "400", "a topic is missing"),
        ("topic=", "400", "empty"),
        ("topic=*", "403", "notify_wildcards"),
        ("topic=https%3A%2F%2Fexample.com%2Fbooks%2F%7Bid%7D", "403", "notify_wildcards"),
        ("topic=b{id}", "403", "are offered"),
        ("match=b{id}", "403", "not offered"),
        ("topic=a{id", "400", "without its }"),
        ("topic=a{id*}", "400", "level 4"),
        ("matchURLPattern=a%3Aid", "400", "URL patterns"),
        ("topic=a&MATCHfoo=b", "400", "URL patterns"),
        ("topic=a%00", "400", "control"),
        ("topic=a%0D%0Ab", "400", "control"),
        ("topic=a%FF", "400", "UTF-8"),
        ("topic=b", "403", "not offered"),
        (&format!("topic={}", "a".repeat(129)), "400", "too long"),
        (&format!("topic=https:{}", "/".repeat(42)), "400", "too long"),
        (&many(17), "400", "the limit is 16"),
        (&many(200), "414", "too long"),
        (&many(1_000), "431", "too long"),
        (&format!("topic={}", "a".repeat(4_000)), "414", "too long"),
    ] {
        let heard = desk.follows(query, "");
        assert_eq!(heard.status(), status, "{query:.60}: {}", heard.text);
        assert!(heard.body().contains(why), "{query:.60}: {}", heard.text);
    }
    // The same topic twice counts once, under any name.
    for query in [&*many(16), "topic=a&topic=a&match=a&matchExact=a", &format!("topic={BOOK}&match={CHANNEL}")] {
        assert_eq!(desk.follows(query, "").status(), "200");
    }
    let conn = desk.connect();
    assert_eq!(desk.says(conn, "PUT /.well-known/mercure HTTP/1.1\r\nHost: localhost\r\n\r\n").status(), "405");
    let conn = desk.connect();
    let head = desk.says(conn, "HEAD /.well-known/mercure?topic=a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status(), head.body()), ("200", ""));
    let conn = desk.connect();
    let list = "GET /.well-known/mercure/subscriptions HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(desk.says(conn, list).status(), "404", "there is no list of subscriptions");
}

#[test]
fn what_is_no_update_is_refused() {
    let mut desk = Desk::new(Channels { prefixes: Box::new(["a".into(), "~2F".into(), "https:".into()]), ..all() });
    let thousand = (0..1_000).map(|at| format!("topic=a{at}")).collect::<Vec<_>>().join("&");
    let long = format!("topic=a&data={}", "x".repeat(NOTIFY_BODY_BYTES_MAX + 1));
    for (body, status, why) in [
        ("", "400", "a topic is missing"),
        ("data=x", "400", "a topic is missing"),
        ("topic=a&topic=ab&data=x", "400", "one topic"),
        (&*thousand, "400", "one topic"),
        ("topic=*&data=x", "400", "stands for all topics"),
        ("topic=b&data=x", "403", "not offered"),
        ("topic=a&data=x&data=y", "400", "once"),
        ("topic=a&id=1&id=2", "400", "once"),
        ("topic=a&private=on&data=x", "400", "notify_private"),
        ("topic=a&private", "400", "notify_private"),
        ("topic=a&id=%23x", "400", "an id"),
        ("topic=a&id=x%0Ay", "400", "an id"),
        ("topic=a&type=x%0Ddata%3A+y", "400", "type"),
        ("topic=a&retry=-1", "400", "retry"),
        ("topic=a&retry=99999999999", "400", "retry"),
        (&format!("topic=a&type={}", "t".repeat(100)), "400", "type is too long"),
        ("topic=a&data=%FF", "400", "UTF-8"),
        ("topic=%2F.well-known%2Fmercure%2Fsubscriptions%2Fa%2Fb", "403", "hub's own"),
        ("topic=https%3A%2F%2Fx%2F.well-known%2Fmercure", "403", "hub's own"),
        (&long, "413", "32 KiB"),
    ] {
        let heard = desk.update(body);
        assert_eq!(heard.status(), status, "{body:.60}: {}", heard.text);
        assert!(heard.body().contains(why), "{body:.60}: {}", heard.text);
    }
    for kind in ["Content-Type: application/json\r\n", "Content-Type: multipart/form-data; boundary=x\r\n", ""] {
        let conn = desk.connect();
        let ask =
            format!("POST /.well-known/mercure HTTP/1.1\r\nHost: localhost\r\n{kind}Content-Length: 7\r\n\r\ntopic=a");
        assert_eq!(desk.says(conn, &ask).status(), "400", "{kind}");
    }
    // Both lengths: a body that is announced as too long is refused before it arrives, in one piece
    // or in chunks.
    let head =
        "POST /.well-known/mercure HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let conn = desk.connect();
    let heard = desk.says(conn, &format!("{head}Content-Length: {}\r\n\r\n", MERCURE_FORM_BYTES_MAX + 1));
    assert_eq!((heard.status(), heard.ends), ("413", true));
    let conn = desk.connect();
    let heard =
        desk.says(conn, &format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", MERCURE_FORM_BYTES_MAX + 1));
    assert_eq!((heard.status(), heard.ends), ("413", true));
    let conn = desk.connect();
    let heard = desk.says(conn, &format!("{head}Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"));
    assert_eq!((heard.status(), heard.ends), ("400", true));
    // The longest permitted one is accepted and delivered.
    let longest = "%00".repeat(NOTIFY_BODY_BYTES_MAX);
    assert_eq!(desk.update(&format!("topic=a&data={longest}")).status(), "200");
    let heard = desk.follows("topic=a&lastEventID=earliest", "");
    assert_eq!(data(&heard), ["\0".repeat(NOTIFY_BODY_BYTES_MAX)]);
    // A key makes a repetition safe, as elsewhere.
    let key = "Idempotency-Key: k1\r\n";
    let (first, second) = (desk.update_with(key, "topic=ab&data=x"), desk.update_with(key, "topic=ab&data=x"));
    assert_eq!((first.body(), second.body()), (&*id_of("ab", 1), &*id_of("ab", 1)));
}

#[test]
fn it_is_off_unless_the_operator_wants_it() {
    let mut desk = Desk::new(open());
    assert_eq!((desk.follows("topic=a", "").status(), desk.update("topic=a&data=x").status()), ("404", "404"));
    // Claims for Mercure are ignored then.
    let token = claim("\"*\"", "\"*\"");
    let mut desk = Desk::new(Channels { mercure: false, access: Some(Arc::new(access())), ..private() });
    assert_eq!(desk.publish_with("own.a", &bearer(&token), "x").status(), "403");
    assert_eq!(desk.stream_of("own.a", &bearer(&token)).status(), "403");
}

impl Desk {
    fn turn_to(&mut self, settings: Settings) {
        self.host.turn(Input::Command { token: 1, command: Command::Turn(Arc::new(settings)) });
    }

    fn stream_of(&mut self, path: &str, fields: &str) -> Heard {
        let conn = self.connect();
        self.stream(conn, path, fields)
    }
}

#[test]
fn tokens_name_topics() {
    let mut desk = Desk::new(private());
    let token =
        claim(&format!("\"own.a\",\"{}\"", "https://example.com/books/1"), "\"own.a\",\"https://example.com/books/1\"");
    for (topic, status) in
        [("own.a", "200"), (BOOK, "200"), ("own.b", "403"), ("https%3A%2F%2Fexample.com%2Fbooks%2F2", "403")]
    {
        let body = format!("topic={topic}&data=secret&private=on");
        assert_eq!(desk.update_with(&bearer(&token), &body).status(), status, "{topic}");
        let query = format!("topic={topic}&lastEventID=earliest");
        let by_header = desk.follows(&query, &bearer(&token));
        assert_eq!(by_header.status(), status, "{topic}: {}", by_header.text);
        for name in ["authorization", "access_token"] {
            assert_eq!(desk.follows(&format!("{query}&{name}={token}"), "").text, by_header.text);
        }
        if status == "200" {
            assert_eq!(data(&by_header), ["secret"]);
        } else {
            assert!(by_header.field("WWW-Authenticate").unwrap().contains("insufficient_scope"));
        }
        assert_eq!(desk.follows(&query, "").status(), "401");
        assert_eq!(desk.update(&body).status(), "401");
    }
    // * is all topics, and only here; a longer string that begins with it is a name.
    assert_eq!(desk.update_with(&bearer(&claim("\"*\"", "")), "topic=own.x&data=x").status(), "200");
    assert_eq!(desk.follows("topic=own.x", &bearer(&claim("\"*\"", "\"own.*\""))).status(), "403");
    // An update of a private topic is private whatever it declares.
    assert_eq!(desk.follows("topic=own.x&topic=news.a", "").status(), "401");
    // The same token is valid for every protocol.
    assert_eq!(desk.stream_of("own.a?after=0", &bearer(&token)).data(), ["secret"]);
    assert_eq!(desk.follows("topic=own.q", &bearer(&minute(",\"subscribe\":[\"own.q\"]"))).status(), "200");
    // The operator's token publishes anywhere, from the header only.
    assert_eq!(desk.update_with(&bearer(TOKEN), "topic=own.z&data=x").status(), "200");
    let query = format!("POST /.well-known/mercure?authorization={} HTTP", TOKEN.replace(' ', "+"));
    let conn = desk.connect();
    let asked = form("", "topic=own.z&data=x").replace("POST /.well-known/mercure HTTP", &query);
    assert_eq!(desk.says(conn, &asked).status(), "401");
}

#[test]
fn what_no_issuer_has_signed_counts_nowhere() {
    let mut desk = Desk::new(private());
    let good = claim("\"*\"", "\"*\"");
    let claims = format!("\"exp\":{},\"mercure\":{{\"publish\":[\"*\"],\"subscribe\":[\"*\"]}}", NOW_S + 60);
    let unsigned = Signer::Hs256.sign("{\"alg\":\"none\"}", &format!("{{{claims}}}"));
    let bare = &unsigned[..=unsigned.rfind('.').unwrap()];
    let mercure = |own: &str| minute(&format!(",\"mercure\":{own}"));
    let many = (0..65).map(|at| format!("\"own.{at}\"")).collect::<Vec<_>>().join(",");
    for (token, why) in [
        (format!("{}A", &good[..good.len() - 1]), "signature"),
        (unsigned.clone(), "not HS256"),
        (bare.to_owned(), "not HS256"),
        ("x".into(), "three parts"),
        (Signer::Hs256.token(&claims.replace(&(NOW_S + 60).to_string(), &NOW_S.to_string())), "expired"),
        (Signer::Hs256.token(&claims[claims.find("\"mercure").unwrap()..]), "no expiry"),
        (mercure("{\"subscribe\":[\"https://example.com/{id:3}\"]}"), "level 4"),
        (mercure("{\"publish\":[\"https://example.com/{id\"]}"), "without its }"),
        (mercure("{\"subscribe\":[\"{a,b,c,d,e,f,g,h,i}\"]}"), "the limit is 8"),
        (mercure("{\"subscribe\":[1]}"), "not a string"),
        (mercure("{\"subscribe\":\"*\"}"), "lists of topics"),
        (mercure("{\"subscribe\":{\"a\":1}}"), "lists of topics"),
        (mercure(&format!("{{\"publish\":[{many}]}}")), "64"),
        (mercure("{\"publish\":[],\"publish\":[\"*\"]}"), "duplicate name"),
        (mercure("{\"subscribe\":true}"), "lists of topics"),
        (mercure("[]"), "mercure of the token must be an object"),
        (mercure("\"*\""), "mercure of the token must be an object"),
        (mercure("{\"subscribe\":[\"*\"]},\"sub\":17"), "sub of the token"),
        ("x".repeat(4_097), "4,096"),
    ] {
        for heard in [
            desk.follows("topic=own.a", &bearer(&token)),
            desk.follows("topic=own.a", &format!("Cookie: a=b; mercureAuthorization={token}\r\n")),
            desk.update_with(&bearer(&token), "topic=own.a&data=x"),
        ] {
            assert_eq!(heard.status(), "401", "{why}: {}", heard.text);
            assert!(heard.field("WWW-Authenticate").unwrap().contains("invalid_token"));
            assert!(heard.body().contains(why), "{why}: {}", heard.text);
        }
    }
    for empty in ["{}", "null", "{\"publish\":null}", "{\"publish\":[],\"subscribe\":[]}"] {
        assert_eq!(desk.follows("topic=own.a", &bearer(&mercure(empty))).status(), "403", "{empty}");
        assert_eq!(desk.update_with(&bearer(&mercure(empty)), "topic=own.a").status(), "403", "{empty}");
    }
}

/// A browser adds the cookie to the requests of any page: only the operator's pages may use it.
#[test]
fn a_cookie_counts_for_pages_of_the_operator() {
    let policy = |origins: Option<&[&str]>| Policy {
        origins: origins.map(|all| all.iter().map(|one| (*one).into()).collect()),
        channels: private(),
        ..Policy::default()
    };
    let token = claim("\"*\"", "\"*\"");
    for name in ["mercureAuthorization", "mercureAccessToken"] {
        let cookie = format!("Cookie: theme=dark; {name}={token}\r\n");
        for (origins, fields, reads, publishes) in [
            // Without an origin: a page of the server's own, or not a page. A publisher must be
            // known.
            (None, "", "200", "403"),
            (None, "Sec-Fetch-Site: same-origin\r\n", "200", "403"),
            (None, "Sec-Fetch-Site: cross-site\r\n", "403", "403"),
            (None, "Sec-Fetch-Site: same-site\r\n", "403", "403"),
            // Its own address, as the client sees it.
            (None, "Origin: http://localhost\r\n", "200", "200"),
            (None, "Origin: https://localhost\r\n", "200", "200"),
            (None, "Origin: https://localhost:8443\r\n", "403", "403"),
            (None, "Origin: ftp://localhost\r\n", "403", "403"),
            (None, "Origin: https://localhost.evil.example\r\n", "403", "403"),
            // Permitting requests from any page does not permit cookies for it.
            (None, "Origin: https://evil.example\r\n", "403", "403"),
            (None, "Origin: null\r\n", "403", "403"),
            (Some(&["https://app.example"][..]), "Origin: https://app.example\r\n", "200", "200"),
            (Some(&["https://app.example"][..]), "Origin: https://evil.example\r\n", "403", "403"),
            (
                Some(&["https://app.example"][..]),
                "Origin: https://app.example\r\nOrigin: https://evil.example\r\n",
                "403",
                "403",
            ),
        ] {
            let mut desk = Desk::new(private());
            let mut settings = settings(1, private());
            settings.web = policy(origins).into();
            desk.turn_to(settings);
            let fields = format!("{cookie}{fields}");
            let heard = desk.follows("topic=own.a", &fields);
            assert_eq!(heard.status(), reads, "{fields}: {}", heard.text);
            let credentials = heard.field("Access-Control-Allow-Credentials");
            assert_eq!(credentials.is_some(), origins.is_some() && reads == "200", "{}", heard.text);
            assert!(!(credentials.is_some() && heard.field("Access-Control-Allow-Origin") == Some("*")));
            let heard = desk.update_with(&fields, "topic=own.a&data=x");
            assert_eq!(heard.status(), publishes, "{fields}: {}", heard.text);
            // There are no cookies at `/n/`.
            assert!(["401", "403"].contains(&desk.stream_of("own.a", &fields).status()));
        }
    }
    // One token: the header takes precedence over the URL, and the URL over the cookie. Each way is
    // used at most once.
    let mut desk = Desk::new(private());
    let cookie = |token: &str| format!("Cookie: mercureAuthorization={token}\r\n");
    for (query, fields, status) in [
        (String::new(), bearer(&token) + &cookie("forged"), "200"),
        (String::new(), bearer("forged") + &cookie(&token), "401"),
        (format!("&authorization={token}"), cookie("forged"), "200"),
        ("&authorization=forged".into(), bearer(&token), "200"),
        ("&authorization=".into(), cookie(&token), "401"),
        (String::new(), bearer(&token) + &bearer(&token), "400"),
        (format!("&authorization={token}&access_token={token}"), String::new(), "400"),
        (String::new(), cookie(&token) + &cookie("other"), "400"),
        (String::new(), cookie(""), "401"),
        (String::new(), "Authorization: Basic eDp5\r\n".to_owned() + &cookie(&token), "401"),
    ] {
        assert_eq!(desk.follows(&format!("topic=own.a{query}"), &fields).status(), status, "{query} {fields}");
    }
}

#[test]
fn pages_of_other_origins_are_told_what_they_may() {
    let mut desk = Desk::new(all());
    let conn = desk.connect();
    let ask = "OPTIONS /.well-known/mercure HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n\
               Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: last-event-id\r\n\r\n";
    let heard = desk.says(conn, ask);
    assert_eq!((heard.status(), heard.field("Access-Control-Allow-Origin")), ("204", Some("*")));
    assert!(heard.field("Access-Control-Allow-Headers").unwrap().contains("Last-Event-ID"));
    assert_eq!(heard.field("Access-Control-Allow-Credentials"), None);
    assert_eq!(
        desk.follows("topic=a", "Origin: https://app.example\r\n").field("Access-Control-Allow-Origin"),
        Some("*")
    );
}

/// It ends with its token, as Mercure clients expect: with nothing but the end.
#[test]
fn a_subscription_ends_with_its_token() {
    let mut desk = Desk::new(private());
    let conn = desk.connect();
    assert_eq!(desk.hub(conn, "topic=own.a", &bearer(&claim("", "\"own.a\""))).status(), "200");
    let publisher = desk.connect();
    let bytes = form(&bearer(TOKEN), "topic=own.a&data=one");
    let heard = Heard::of(&desk.host.turn(Input::Received { conn: publisher, bytes: bytes.as_bytes() }), conn);
    assert_eq!(data(&heard), ["one"]);
    assert!(!desk.wait(conn, 55).ends);
    let heard = desk.wait(conn, 10);
    assert!(heard.ends && heard.text.trim_matches([':', '\n']).is_empty(), "{}", heard.text);
    assert_eq!(desk.host.shard.counters().notify_waiting.get(), 0);
}

/// The limits of an address apply to all protocols together.
#[test]
fn limits_are_those_of_channels() {
    let mut desk = Desk::new(Channels { publications_s: 10, waiting_max: 5, ..all() });
    let taken = (0..200).take_while(|_| desk.update("topic=a&data=x").status() == "200").count();
    assert!((98..=102).contains(&taken), "{taken} at once: ten seconds' worth");
    let refused = desk.update("topic=a&data=x");
    assert_eq!((refused.status(), refused.field("Retry-After")), ("429", Some("1")));
    assert_eq!(desk.publish("a", "x").status(), "429");
    let waiting = (0..10).filter(|_| desk.follows("topic=a", "").status() == "200").count();
    assert_eq!(waiting, 5);
}

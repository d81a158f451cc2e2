//! Channels whose access is decided by an external service (`/n/`), on one shard: the questions,
//! the effect of each answer or of none, and how many questions and waiting requests others can
//! cause.

use std::sync::Arc;

use serde_json::json;
use throng_engine::id::ConnId;
use throng_engine::io::{Decision, Effect, Input, Inquiry, Lost};
use throng_engine::limits::{
    NOTIFY_BATCH_BYTES_MAX, NOTIFY_HELD_BYTES_MAX, NOTIFY_HELD_BYTES_PER_ADDRESS_MAX, NOTIFY_HELD_S,
    NOTIFY_INQUIRIES_MAX,
};
use throng_engine::web::access::Act;
use throng_engine::web::policy::{Asks, Channels, Policy};
use throng_sim::host::said as words;

use crate::issuer::{access, minute};
use crate::notify_world::{Desk, Heard, KEY, TOKEN, frames_to, open, post, pubsub, settings, upgrade};

/// Channels that begin with `app.` are decided by the service, `news.` are open, `own.` require a
/// token.
fn channels() -> Channels {
    Channels {
        prefixes: Box::new(["news.".into()]),
        private: Box::new(["own.".into()]),
        occupancy: Box::new(["app.".into()]),
        asks: Asks {
            prefixes: Box::new(["app.".into()]),
            fields: Box::new(["cookie".into(), "authorization".into()]),
            questions_s: 0,
        },
        mercure: true,
        centrifugo: true,
        publish_open: false,
        ..open()
    }
}

fn yes() -> Decision {
    Decision::Allowed { name: None, seconds: None }
}

fn allowed(name: &str, seconds: u32) -> Decision {
    Decision::Allowed { name: (!name.is_empty()).then(|| name.into()), seconds: Some(seconds) }
}

fn get(path: &str, fields: &str) -> String {
    format!("GET /n/{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

fn asked(effects: Vec<Effect>) -> Option<(u64, Inquiry)> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Inquire { token, inquiry } => Some((token, *inquiry)),
        _ => None,
    })
}

impl Desk {
    /// A request is held and causes a question.
    fn holds(&mut self, conn: ConnId, text: &str) -> (u64, Inquiry) {
        let effects = self.host.turn(Input::Received { conn, bytes: text.as_bytes() });
        let heard = Heard::of(&effects, conn);
        assert_eq!(heard, Heard::default(), "nothing is told before it is decided");
        asked(effects).unwrap_or_else(|| panic!("nothing is asked of {text}"))
    }

    fn decides(&mut self, token: u64, decision: Decision) -> Vec<Effect> {
        self.host.turn(Input::Decided { token, decision })
    }

    /// The response to a request after this decision.
    fn decided(&mut self, conn: ConnId, text: &str, decision: Decision) -> Heard {
        let (token, _) = self.holds(conn, text);
        Heard::of(&self.decides(token, decision), conn)
    }

    fn gauge(&self, name: &str) -> u64 {
        let counters = self.host.shard.counters();
        match name {
            "asking" => counters.notify_asking.get(),
            "held" => counters.notify_held_bytes.get(),
            "waiting" => counters.notify_waiting.get(),
            _ => panic!("{name}"),
        }
    }
}

#[test]
fn a_request_is_done_when_it_is_allowed() {
    let mut desk = Desk::new(channels());
    let conn = desk.connect();
    let fields = "Cookie: session=1\r\nX-Other: 2\r\nOrigin: http://localhost\r\nContent-Type: text/plain\r\n";
    let (token, inquiry) = desk.holds(conn, &post("app.a", fields, "one"));
    assert_eq!((inquiry.operation(), &inquiry.channels[..]), ("publish", &["app.a".into()][..]));
    assert_eq!((inquiry.address, inquiry.occupancy), ([192, 0, 2, 1].into(), false));
    assert_eq!(inquiry.sent.origin.as_deref(), Some("http://localhost"));
    assert_eq!(inquiry.sent.fields, [("cookie".into(), "session=1".into())]);
    desk.passes(1);
    assert!(desk.gauge("held") > 0 && desk.gauge("asking") == 1);
    let heard = Heard::of(&desk.decides(token, yes()), conn);
    assert_eq!((heard.status(), heard.body()), ("200", "{\"channel\":\"app.a\",\"id\":\"1\",\"repeated\":false}\n"));
    // A batch, on the same connection.
    let batch = post("app.a", "Content-Type: application/x-ndjson\r\n", "2\n3\n");
    assert!(desk.decided(conn, &batch, yes()).body().contains("\"ids\":[\"2\",\"3\"]"));
    // A poll: stored items at once, and later ones.
    let heard = desk.decided(conn, &get("app.a?after=0", ""), yes());
    assert_eq!((heard.status(), heard.data()), ("200", vec!["one", "2", "3"]));
    assert_eq!(desk.decided(conn, &get("app.a?wait=55", ""), yes()), Heard::default());
    // Events.
    let events = desk.connect();
    let heard = desk.decided(events, &get("app.a,news.x", "Accept: text/event-stream\r\n"), yes());
    assert_eq!((heard.status(), heard.field("Content-Type")), ("200", Some("text/event-stream")));
    // A WebSocket.
    let socket = desk.connect();
    let (token, inquiry) = desk.holds(socket, &upgrade("app.a,news.x,app.b", KEY));
    let operation = inquiry.operation();
    assert_eq!(
        (operation, &inquiry.channels[..]),
        ("subscribe", &["app.a".into(), "app.b".into()][..]),
        "not of others"
    );
    let (said, _) = frames_to(&desk.decides(token, yes()), socket);
    assert!(said[0].starts_with("HTTP/1.1 101"), "{said:?}");
    // All are notified.
    let publisher = desk.connect();
    let (token, _) = desk.holds(publisher, &post("app.a", "Content-Type: text/plain\r\n", "four"));
    let effects = desk.decides(token, yes());
    assert_eq!(Heard::of(&effects, conn).data(), ["four"]);
    assert_eq!(Heard::of(&effects, events).data(), ["four"]);
    assert!(frames_to(&effects, socket).0[0].contains("\"data\":\"four\""));
    desk.passes(1);
    assert_eq!((desk.gauge("held"), desk.gauge("asking")), (0, 0));
    // Requests that need no permission cause no question.
    let other = desk.connect();
    assert_eq!(desk.get(other, "news.x").status(), "204");
}

#[test]
fn what_is_denied_or_not_known_is_not_done() {
    let mut desk = Desk::new(channels());
    let requests = [
        get("app.a?wait=55", ""),
        get("app.b", "Accept: text/event-stream\r\n"),
        upgrade("app.c", KEY),
        post("app.d", "", "x"),
        get("app.e?occupancy", ""),
    ];
    for (number, request) in requests.iter().enumerate() {
        let conn = desk.connect();
        let heard = desk.decided(conn, request, Decision::Unknown);
        assert_eq!((heard.status(), heard.field("Retry-After"), heard.ends), ("503", Some("5"), false), "{request}");
        // It is asked again, and a denial lasts for a while.
        let heard = desk.decided(conn, request, Decision::Denied);
        assert_eq!((heard.status(), heard.ends), ("403", false), "{request}");
        assert_eq!(desk.says(conn, request).status(), "403", "{request}");
        assert_eq!(desk.host.shard.counters().notify_ask_known.get(), number as u64 + 1);
        let other = desk.connect_from([192, 0, 2, 9]);
        desk.holds(other, request);
        desk.passes(6);
        desk.holds(conn, request);
    }
    assert_eq!(desk.host.shard.counters().notify_published.get(), 0);
    assert_eq!(desk.host.shard.counters().notify_publish_refused.get(), 3);
}

/// One answer per question, whatever else it contains: a response for a cancelled request never
/// reaches the next one.
#[test]
fn an_answer_that_comes_late_is_for_nobody() {
    let mut desk = Desk::new(channels());
    let conn = desk.connect();
    let (late, _) = desk.holds(conn, &get("app.a?wait=55", ""));
    let heard = desk.wait(conn, u64::from(NOTIFY_HELD_S) + 5);
    assert_eq!((heard.status(), heard.field("Retry-After")), ("503", Some("5")), "nobody has ever answered");
    let (token, _) = desk.holds(conn, &post("app.b", "", "x"));
    assert_eq!(Heard::of(&desk.decides(late, yes()), conn), Heard::default());
    assert_eq!(Heard::of(&desk.decides(token, Decision::Denied), conn).status(), "403");
    // A disconnected client publishes nothing and no longer costs anything.
    let conn = desk.connect();
    let (token, _) = desk.holds(conn, &post("app.c", "", &"x".repeat(30_000)));
    desk.passes(1);
    assert!(desk.gauge("held") > 30_000);
    desk.host.turn(Input::Lost { conn, how: Lost::Finished });
    desk.host.turn(Input::Closed { conn });
    desk.passes(1);
    assert_eq!((desk.gauge("held"), desk.gauge("asking"), desk.gauge("waiting")), (0, 1, 0));
    desk.decides(token, allowed("", 60));
    desk.decides(token, yes());
    assert_eq!((desk.host.shard.counters().notify_published.get(), desk.gauge("asking")), (0, 0));
    // Data after a held request is read when that is answered.
    let conn = desk.connect();
    let (token, _) = desk.holds(conn, &get("app.d", ""));
    assert_eq!(desk.says(conn, &get("news.x", "")), Heard::default());
    let heard = Heard::of(&desk.decides(token, Decision::Denied), conn);
    assert_eq!(heard.text.matches("HTTP/1.1 ").count(), 2, "{}", heard.text);
}

#[test]
fn a_token_that_is_shown_decides() {
    let mut desk = Desk::new(Channels { access: Some(Arc::new(access())), ..channels() });
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let good = bearer(&minute(",\"subscribe\":[\"app.a\",\"own.a\"],\"publish\":[\"app.a\"]"));
    let conn = desk.connect();
    assert_eq!(desk.says(conn, &get("app.a,own.a", &good)).status(), "204");
    assert_eq!(desk.says(conn, &get("app.b", &good)).status(), "403");
    assert_eq!(desk.says(conn, &get("app.a", &bearer("x"))).status(), "401");
    assert_eq!(desk.publish_with("app.a", &good, "x").status(), "200");
    assert_eq!(desk.publish_with("app.b", &bearer(TOKEN), "x").status(), "200", "the operator's");
    // No question is asked about a channel that requires a token.
    assert_eq!(desk.says(conn, &get("app.a,own.a", "")).status(), "401");
    assert_eq!(desk.publish("own.a", "x").status(), "401");
    assert_eq!(desk.host.shard.counters().notify_asked.get(), 0);
    desk.holds(conn, &get("app.a,news.a", ""));
    // Without keys a token belongs to the external service and is passed on: in the URL for clients
    // that cannot send it otherwise.
    let mut desk = Desk::new(channels());
    for request in [get("app.a", &bearer("opaque/1")), upgrade("app.a?access_token=opaque%2F1", KEY)] {
        let conn = desk.connect();
        let (_, inquiry) = desk.holds(conn, &request);
        assert_eq!(inquiry.sent.fields, [("authorization".into(), "Bearer opaque/1".into())]);
    }
}

/// RFC 6454: requests that foreign pages cause a browser to send carry no credentials.
#[test]
fn a_foreign_page_uses_nobodys_cookie() {
    let mut desk = Desk::new(channels());
    let cookie = "Cookie: session=1\r\n";
    for (request, passes) in [
        (post("app.a", &format!("{cookie}Origin: https://evil.example\r\n"), "x"), false),
        (upgrade("app.b", &format!("{KEY}{cookie}Origin: https://evil.example\r\n")), false),
        (upgrade("app.c", &format!("{KEY}{cookie}Origin: http://localhost\r\n")), true),
        (get("app.d", cookie), true),
    ] {
        let conn = desk.connect();
        let (_, inquiry) = desk.holds(conn, &request);
        assert_eq!(inquiry.sent.fields.iter().any(|(name, _)| **name == *"cookie"), passes, "{request}");
    }
    // Pages of the operator's other sites may do so and read the response.
    let mut settings = settings(1, channels());
    let origins = Some(["https://app.example".into()].into());
    settings.web = Policy { origins, channels: channels(), ..Policy::default() }.into();
    let mut desk = Desk::of(settings);
    let conn = desk.connect();
    let (token, inquiry) = desk.holds(conn, &get("app.a", &format!("{cookie}Origin: https://app.example\r\n")));
    assert_eq!(inquiry.sent.fields.len(), 1);
    let heard = Heard::of(&desk.decides(token, Decision::Denied), conn);
    assert_eq!(heard.field("Access-Control-Allow-Credentials"), Some("true"));
    assert_eq!(heard.field("Access-Control-Allow-Origin"), Some("https://app.example"));
    assert_eq!(desk.says(conn, &get("app.a", "Origin: https://evil.example\r\n")).status(), "403");
}

#[test]
fn what_is_allowed_ends_with_its_time_and_is_asked_again() {
    let mut desk = Desk::new(channels());
    let (events, socket, poll) = (desk.connect(), desk.connect(), desk.connect());
    let stream = get("app.a", "Accept: text/event-stream\r\n");
    assert_eq!(desk.decided(events, &stream, allowed("", 20)).status(), "200");
    // The same question is answered from the cache until the same time, also for others who present
    // the same.
    desk.passes(5);
    let handshake = upgrade("app.a", KEY);
    assert_eq!(desk.sends(socket, handshake.as_bytes()).0.len(), 2);
    assert_eq!(desk.says(poll, &get("app.a?wait=55", "")), Heard::default());
    assert_eq!(desk.host.shard.counters().notify_asked.get(), 1);
    desk.passes(9);
    let effects = desk.passes(12);
    let heard = Heard::of(&effects, events);
    assert!(heard.text.ends_with("event: expired\ndata: {}\n\n") && heard.ends, "{}", heard.text);
    let (said, ends) = frames_to(&effects, socket);
    assert_eq!((said.last().map(String::as_str), ends), (Some("close 1008"), true));
    let heard = Heard::of(&effects, poll);
    assert_eq!((heard.status(), heard.field("Next-After")), ("204", Some("0")));
    assert_eq!(desk.decided(poll, &get("app.a", ""), Decision::Unknown).status(), "503", "nothing is known any more");
    // A permission for a single use is asked for each time, and remains in effect.
    let events = desk.connect();
    assert_eq!(desk.decided(events, &get("app.b", "Accept: text/event-stream\r\n"), yes()).status(), "200");
    desk.holds(poll, &get("app.b", ""));
    let heard = desk.wait(events, 600);
    assert!(!heard.ends && !heard.text.contains("expired"));
}

#[test]
fn others_see_the_name_by_which_somebody_subscribes() {
    let mut desk = Desk::new(channels());
    let hears = desk.connect();
    let (token, inquiry) = desk.holds(hears, &get("app.a?occupancy=1", "Accept: text/event-stream\r\n"));
    assert_eq!((inquiry.operation(), inquiry.occupancy), ("subscribe", true));
    desk.decides(token, allowed("juliet", 600));
    let other = desk.connect_from([192, 0, 2, 2]);
    let (token, inquiry) = desk.holds(other, &get("app.a", "Accept: text/event-stream\r\n"));
    assert!(!inquiry.occupancy, "who may read need not be told who else does");
    desk.decides(token, allowed("romeo", 600));
    let heard = desk.wait(hears, 5);
    assert!(heard.text.contains("romeo"), "{}", heard.text);
    let asks = desk.connect();
    let (token, inquiry) = desk.holds(asks, &get("app.a?occupancy", ""));
    assert_eq!((inquiry.operation(), inquiry.act), ("presence", Act::Presence));
    let heard = Heard::of(&desk.decides(token, yes()), asks);
    assert!(heard.body().contains("\"subscribers\":2") && heard.body().contains("juliet"), "{}", heard.text);
}

#[test]
fn mercure_asks_the_same_and_centrifugo_needs_a_token() {
    let mut desk = Desk::new(Channels { access: Some(Arc::new(access())), ..channels() });
    let subscriber = desk.connect();
    let hub = "GET /.well-known/mercure?topic=app.a HTTP/1.1\r\nHost: localhost\r\nCookie: a=b\r\n\r\n";
    let (token, inquiry) = desk.holds(subscriber, hub);
    assert_eq!((inquiry.operation(), &inquiry.channels[..]), ("subscribe", &["app.a".into()][..]));
    assert_eq!(inquiry.sent.fields, [("cookie".into(), "a=b".into())]);
    assert_eq!(Heard::of(&desk.decides(token, allowed("", 60)), subscriber).status(), "200");
    let publisher = desk.connect();
    let form = "topic=app.a&data=x";
    let fields = format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", form.len());
    let update = format!("POST /.well-known/mercure HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{form}");
    let (token, _) = desk.holds(publisher, &update);
    let effects = desk.decides(token, yes());
    assert_eq!(Heard::of(&effects, publisher).status(), "200");
    assert!(Heard::of(&effects, subscriber).text.contains("data: x"));
    // Centrifugo's commands have no header fields of their own: there is no subject to ask about.
    let conn = desk.connect();
    let handshake = format!(
        "GET /connection/websocket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{KEY}\r\n"
    );
    desk.sends(conn, handshake.as_bytes());
    let command = |desk: &mut Desk, command: serde_json::Value| {
        let sent = throng_sim::frame::frame(0x81, command.to_string().as_bytes());
        desk.sends(conn, &sent).0.concat()
    };
    command(&mut desk, json!({"id": 1, "connect": {"token": minute(",\"subscribe\":[\"app.b\"]")}}));
    for refused in [json!({"subscribe": {"channel": "app.a"}}), json!({"publish": {"channel": "app.b", "data": {}}})] {
        let mut refused = refused;
        refused["id"] = json!(2);
        let said = command(&mut desk, refused);
        assert!(said.contains("\"code\":103"), "{said}");
    }
    let said = command(&mut desk, json!({"id": 3, "subscribe": {"channel": "app.b"}}));
    assert!(said.contains("\"subscribe\":{"), "{said}");
    assert_eq!(desk.host.shard.counters().notify_asked.get(), 2);
}

/// Nchan's protocol can delete channels. A permission to publish does not include that, unless the
/// service says so.
#[test]
fn a_yes_to_a_publication_deletes_nothing() {
    let mut desk = Desk::new(Channels { nchan: true, ..channels() });
    let conn = desk.connect();
    let request =
        |method: &str| format!("{method} /pub/app.a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let (token, inquiry) = desk.holds(conn, &post("app.a", "", "kept"));
    assert_eq!(inquiry.operation(), "publish");
    assert_eq!(Heard::of(&desk.decides(token, allowed("", 600)), conn).status(), "200");
    let (token, inquiry) = desk.holds(conn, &request("DELETE"));
    assert_eq!((inquiry.operation(), &inquiry.channels[..]), ("delete", &["app.a".into()][..]));
    assert_eq!(Heard::of(&desk.decides(token, Decision::Denied), conn).status(), "403");
    let heard = desk.decided(conn, &get("app.a?after=0", ""), yes());
    assert_eq!(heard.text.matches("\"id\":\"1\"").count(), 1, "{}", heard.text);
    desk.passes(6);
    assert_eq!(desk.decided(conn, &request("DELETE"), yes()).status(), "200");
    assert_eq!(desk.decided(conn, &get("app.a?after=0", ""), yes()).status(), "204");
}

/// Nodes of such channels are not accessible by XMPP.
#[test]
fn by_xmpp_nobody_reads_or_makes_such_a_channel() {
    let mut desk = Desk::new(channels());
    let publisher = desk.connect();
    assert_eq!(desk.decided(publisher, &post("app.a", "", "secret"), yes()).status(), "200");
    let romeo = desk.user("romeo");
    for inside in ["<items node='app.a'/>", "<subscriptions node='app.a'/>"] {
        let said = words(&desk.host.ask(romeo, &pubsub(false, inside)));
        assert!(!said.contains("secret"), "{said}");
    }
    let said = words(&desk.host.ask(romeo, &pubsub(false, "<items node='app.a'/>")));
    assert!(said.contains("type='error'"), "{said}");
    let said = words(&desk.host.ask(romeo, &pubsub(true, "<create node='app.b'/>")));
    assert!(said.contains("type='error'"), "{said}");
}

// Abuse.

#[test]
fn one_address_makes_so_many_questions_only() {
    let mut desk = Desk::new(Channels { asks: Asks { questions_s: 10, ..channels().asks }, ..channels() });
    let mut refused = None;
    for number in 0..200 {
        let conn = desk.connect();
        let effects = desk.host.turn(Input::Received { conn, bytes: get(&format!("app.{number}"), "").as_bytes() });
        let heard = Heard::of(&effects, conn);
        match asked(effects) {
            Some((token, _)) => drop(desk.decides(token, Decision::Denied)),
            None => {
                assert_eq!((heard.status(), heard.field("Retry-After")), ("429", Some("1")), "{}", heard.text);
                refused = refused.or(Some(number));
            }
        }
    }
    assert_eq!(refused, Some(101), "ten seconds' worth at once");
    assert_eq!(desk.host.shard.counters().notify_asked.get(), 101);
    // A known decision causes no question, and others are not held for it.
    let conn = desk.connect();
    assert_eq!(desk.says(conn, &get("app.100", "")).status(), "403");
    let other = desk.connect_from([192, 0, 2, 2]);
    desk.holds(other, &get("app.x", ""));
    desk.passes(1);
    for _ in 0..10 {
        let conn = desk.connect();
        desk.holds(conn, &get("app.y", ""));
    }
    assert_eq!(desk.publish("app.z", "x").status(), "429", "whatever is asked");
    // Tokens and channels that need no question keep working.
    assert_eq!(desk.get(conn, "news.x").status(), "204");
}

#[test]
fn what_is_held_is_bounded_by_address_and_in_all() {
    let mut desk = Desk::new(channels());
    let batch = "x".repeat(30_000) + "\n" + &"y".repeat(30_000) + "\n";
    let request = post("app.a", "Content-Type: application/x-ndjson\r\n", &batch);
    let mut held = Vec::new();
    let mut all = |desk: &mut Desk, address: [u8; 4]| {
        for count in 0.. {
            let conn = desk.connect_from(address);
            let effects = desk.host.turn(Input::Received { conn, bytes: request.as_bytes() });
            match (Heard::of(&effects, conn), asked(effects)) {
                (_, Some((token, _))) => held.push((conn, token)),
                (heard, None) => {
                    assert_eq!((heard.status(), heard.field("Retry-After")), ("503", Some("5")));
                    return count;
                }
            }
        }
        unreachable!("it ends")
    };
    let one = all(&mut desk, [192, 0, 2, 1]);
    assert!((10..=NOTIFY_HELD_BYTES_PER_ADDRESS_MAX / 60_000).contains(&one), "{one}");
    let mut total = one;
    for number in 2..100 {
        total += all(&mut desk, [192, 0, 2, number]);
    }
    desk.passes(1);
    let bytes = desk.gauge("held") as usize;
    assert!(
        (NOTIFY_HELD_BYTES_MAX - NOTIFY_BATCH_BYTES_MAX - 4_096..=NOTIFY_HELD_BYTES_MAX).contains(&bytes),
        "{bytes}"
    );
    assert_eq!(total, held.len());
    let mut published = 0;
    for (conn, token) in held {
        let heard = Heard::of(&desk.decides(token, yes()), conn);
        published += usize::from(heard.status() == "200");
    }
    desk.passes(1);
    assert_eq!((published, desk.gauge("held"), desk.gauge("waiting")), (total, 0, 0), "all that were held are done");
}

#[test]
fn questions_under_way_are_bounded() {
    let mut desk = Desk::new(channels());
    let mut tokens = Vec::new();
    for number in 0..NOTIFY_INQUIRIES_MAX {
        let [high, low] = (number as u16).to_be_bytes();
        let conn = desk.connect_from([10, 0, high, low]);
        tokens.push(desk.holds(conn, &get(&format!("app.{number}"), "")).0);
    }
    let conn = desk.connect_from([10, 1, 0, 0]);
    assert_eq!(desk.get(conn, "app.x").status(), "503");
    assert_eq!(desk.gauge("asking") as usize, NOTIFY_INQUIRIES_MAX);
    tokens.into_iter().for_each(|token| drop(desk.decides(token, Decision::Unknown)));
    assert_eq!(desk.gauge("asking"), 0);
    desk.holds(conn, &get("app.x", ""));
}

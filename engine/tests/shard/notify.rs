//! Notification channels (`/n/`) on one shard directly: publishing, long polling, server-sent
//! events, and XMPP on the other side.

use throng_engine::io::Input;
use throng_engine::limits::NOTIFY_BODY_BYTES_MAX;
use throng_engine::web::policy::{Channels, Policy};
use throng_sim::host::said as words;

use crate::notify_world::{Desk, Heard, TOKEN, open, pubsub, settings};

#[test]
fn what_is_published_is_read_from_any_place() {
    let mut desk = Desk::new(open());
    let conn = desk.connect();
    let nothing = desk.get(conn, "a");
    assert_eq!(
        (nothing.status(), nothing.field("Next-After")),
        ("204", Some("0")),
        "a channel that is not there is empty"
    );
    for (number, body) in ["one", "two \\\"2\\\"", "three"].into_iter().enumerate() {
        let said = desk.publish("a", &body.replace('\\', ""));
        assert_eq!(said.body(), format!("{{\"channel\":\"a\",\"id\":\"{}\",\"repeated\":false}}\n", number + 1));
        assert_eq!((said.status(), said.ends), ("200", false));
    }
    let all = desk.get(conn, "a");
    assert_eq!((all.status(), all.field("Content-Type")), ("200", Some("application/json")));
    let expected = "{\"items\":[{\"channel\":\"a\",\"id\":\"1\",\"item\":\"60a24181e4000-1\",\"time\":\"2023-11-14T22:13:20.000Z\",\"type\":\"text/plain\",\"data\":\"one\"},";
    assert!(all.body().starts_with(expected), "{}", all.body());
    assert!(
        all.body().contains("\"data\":\"two \\\"2\\\"\"") && all.body().ends_with("],\"gaps\":[],\"after\":\"3\"}\n")
    );
    assert_eq!(desk.get(conn, "a?after=2").data(), ["three"]);
    assert_eq!(desk.get(conn, "a?after=2&wait=55").data(), ["three"], "there is one already");
    assert_eq!(desk.get(conn, "a?after=3").status(), "204");
    assert_eq!(desk.get(conn, "b").status(), "204");
    // A client has a position from an earlier incarnation of the channel: it gets all items, and
    // that some are missing.
    let other = desk.get(conn, "a?after=77");
    assert!(other.data().is_empty() && other.body().contains("\"gaps\":[\"a\"],\"after\":\"3\""), "{}", other.body());
}

#[test]
fn a_long_poll_is_answered_by_the_next_item_or_at_the_end_of_its_time() {
    let mut desk = Desk::new(open());
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a?wait=20"), Heard::default());
    assert_eq!(desk.wait(conn, 10), Heard::default());
    let heard = desk.told(conn, "a", "", "news");
    assert_eq!(heard.data(), ["news"]);
    assert!(heard.body().contains("\"type\":\"application/octet-stream\"") && heard.body().contains("\"after\":\"1\""));
    // The same connection continues from where it was.
    assert_eq!(desk.get(conn, "a?after=1&wait=20"), Heard::default());
    assert_eq!(desk.wait(conn, 19), Heard::default());
    assert_eq!(desk.host.shard.counters().notify_waiting.get(), 1);
    let over = desk.wait(conn, 6);
    assert_eq!((over.status(), over.field("Next-After"), over.ends), ("204", Some("1"), false));
    desk.wait(conn, 1);
    let c = desk.host.shard.counters();
    assert_eq!((c.notify_waiting.get(), c.notify_published.get(), c.notify_told.get()), (0, 1, 1));
    // From now on, however many items are stored.
    assert_eq!(desk.get(conn, "a?wait=20"), Heard::default());
    let heard = desk.told(conn, "a", "", "more");
    assert_eq!(heard.data(), ["more"]);
}

#[test]
fn several_channels_in_one_request_each_from_its_place() {
    let mut desk = Desk::new(open());
    for (channel, body) in [("a", "a1"), ("b", "b1"), ("a", "a2"), ("c.d", "c1")] {
        desk.publish(channel, body);
    }
    let conn = desk.connect();
    let heard = desk.get(conn, "a,b,c.d?after=1,0,0");
    let mut data = heard.data();
    data.sort_unstable();
    assert_eq!(data, ["a2", "b1", "c1"]);
    assert!(heard.body().ends_with("\"after\":\"2,1,1\"}\n"), "{}", heard.body());
    assert_eq!(desk.get(conn, "a,b,c.d?after=2%2C1,1&wait=30"), Heard::default());
    let heard = desk.told(conn, "b", "", "b2");
    assert!(heard.data() == ["b2"] && heard.body().ends_with("\"after\":\"2,2,1\"}\n"), "{}", heard.body());
    let streams = desk.connect();
    let begun = desk.stream(streams, "a,b", "Last-Event-ID: 1,1\r\n");
    assert_eq!(begun.data(), ["a2", "b2"]);
    assert!(begun.body().starts_with("id: 1,1\n\nid: "), "{}", begun.body());
    assert!(begun.body().contains("id: 2,1\ndata: {") && begun.body().contains("id: 2,2\ndata: {"), "{}", begun.body());
}

#[test]
fn events_come_as_they_happen_and_go_on_where_they_were() {
    let mut desk = Desk::new(open());
    desk.publish("a", "one");
    let conn = desk.connect();
    let begun = desk.stream(conn, "a", "");
    assert_eq!((begun.status(), begun.field("Content-Type")), ("200", Some("text/event-stream")));
    assert_eq!((begun.field("Connection"), begun.field("Content-Length")), (Some("close"), None));
    assert_eq!((begun.body(), begun.ends), ("id: 1\n\n", false), "from now on, and where that is");
    let heard = desk.told(conn, "a", "", "t\nwo");
    assert!(heard.text.starts_with("id: 2\ndata: {\"channel\":\"a\",\"id\":\"2\",") && heard.text.ends_with("}\n\n"));
    assert_eq!(heard.data(), ["t\\nwo"]);
    // A keep-alive; bytes after the request are ignored.
    let beat = desk.wait(conn, 20);
    assert_eq!((&*beat.text, beat.ends), (":\n\n", false));
    assert_eq!(desk.get(conn, "a"), Heard::default());
    desk.host.turn(Input::Closed { conn });
    desk.publish("a", "three");
    let again = desk.connect();
    let heard = desk.stream(again, "a?after=0", "Last-Event-ID: 1\r\n");
    assert_eq!(heard.data(), ["t\\nwo", "three"], "the field counts more than the address");
    let heard = desk.connect();
    assert_eq!(desk.stream(heard, "a?after=2", "").data(), ["three"]);
    let heard = desk.connect();
    assert_eq!(desk.stream(heard, "a", "Last-Event-ID: 0\r\n").data().len(), 3);
}

#[test]
fn who_has_missed_what_is_not_kept_is_told() {
    let mut desk = Desk::new(Channels { items_max: 3, items_s: 100, ..open() });
    (1..=10).for_each(|number| drop(desk.publish("a", &number.to_string())));
    let conn = desk.connect();
    let heard = desk.get(conn, "a?after=5");
    assert_eq!(heard.data(), ["8", "9", "10"]);
    assert!(heard.body().contains("\"gaps\":[\"a\"],\"after\":\"10\""), "{}", heard.body());
    assert!(desk.get(conn, "a?after=7").body().contains("\"gaps\":[],"), "nothing is missing");
    assert!(desk.get(conn, "a").body().contains("\"gaps\":[],"), "who begins misses nothing");
    let streams = desk.connect();
    let heard = desk.stream(streams, "a?after=5", "");
    assert!(
        heard
            .body()
            .starts_with("id: 5\n\nid: 7\nevent: gap\ndata: {\"channel\":\"a\",\"after\":\"5\"}\n\nid: 8\ndata:")
    );
    // By age.
    desk.wait(conn, 101);
    let conn = desk.connect();
    let heard = desk.get(conn, "a?after=9");
    assert!(heard.data().is_empty() && heard.body().contains("\"gaps\":[\"a\"],\"after\":\"10\""), "{}", heard.body());
    assert_eq!(desk.get(conn, "a").status(), "204");
    assert_eq!(desk.host.shard.counters().notify_gaps.get(), 3);
}

#[test]
fn xmpp_and_http_see_the_same_items() {
    let mut desk = Desk::new(open());
    let romeo = desk.user("romeo");
    let made = words(&desk.host.ask(romeo, &pubsub(true, "<create node='a'/>")));
    assert!(made.contains("type='result'"), "{made}");
    let subscribe = pubsub(true, "<subscribe node='a' jid='romeo@localhost'/>");
    assert!(words(&desk.host.ask(romeo, &subscribe)).contains("subscription='subscribed'"));
    // The node accepts publications from its owner, and from clients with the token.
    assert_eq!(desk.publish("a", "no").status(), "403");
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a?wait=55"), Heard::default());
    let item = "<publish node='a'><item id='x'><json xmlns='urn:xmpp:json:0'>{\"n\": 1}</json></item></publish>";
    let heard = Heard::of(&desk.host.ask(romeo, &pubsub(true, item)), conn);
    assert_eq!(heard.status(), "200");
    assert!(
        heard.body().contains("\"item\":\"x\"")
            && heard.body().contains("\"type\":\"application/json\",\"data\":\"{\\\"n\\\": 1}\"")
    );
    let fields = format!("Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\n");
    let (other, effects) = desk.published("a", &fields, "{\"<\": 2}");
    let told = words(&effects);
    assert!(
        told.contains("<event xmlns='http://jabber.org/protocol/pubsub#event'><items node='a'><item id='"),
        "{told}"
    );
    assert!(told.contains("<json xmlns='urn:xmpp:json:0'>{\"&lt;\": 2}</json></item></items></event>"), "{told}");
    assert_eq!(Heard::of(&effects, other).status(), "200");
    // Items retrieved by XMPP are those retrieved by HTTP.
    let items = words(&desk.host.ask(romeo, &pubsub(false, "<items node='a'/>")));
    assert!(items.contains("{\"n\": 1}") && items.contains("{\"&lt;\": 2}"), "{items}");
    assert_eq!(desk.get(conn, "a").body().matches("\"id\":").count(), 2);
    // A channel created by HTTP is a node that users can discover and subscribe to.
    assert_eq!(desk.publish_with("made", "", "x").status(), "200");
    let subscribe = pubsub(true, "<subscribe node='made' jid='romeo@localhost'/>");
    assert!(words(&desk.host.ask(romeo, &subscribe)).contains("subscription='subscribed'"));
    let (_, effects) = desk.published("made", "", "y");
    assert!(words(&effects).contains("<data xmlns='urn:throng:notify:0' type='application/octet-stream'>y</data>"));
}

#[test]
fn a_node_that_is_not_open_to_everybody_is_no_channel() {
    let mut desk = Desk::new(open());
    let romeo = desk.user("romeo");
    desk.makes(romeo, "a", &[("pubsub#access_model", "whitelist")]);
    let conn = desk.connect();
    for path in ["a", "a?wait=9", "a?after=0"] {
        assert_eq!(desk.get(conn, path).status(), "403", "{path}");
    }
    let streams = desk.connect();
    assert_eq!(desk.stream(streams, "a", "").status(), "403");
    assert_eq!(desk.publish("a", "x").status(), "403");
}

#[test]
fn what_is_live_only_is_told_and_not_kept() {
    let mut desk = Desk::new(open());
    let romeo = desk.user("romeo");
    desk.makes(romeo, "a", &[("pubsub#persist_items", "0"), ("pubsub#publish_model", "open")]);
    let conn = desk.connect();
    assert_eq!(desk.stream(conn, "a", "").body(), "id: 0\n\n", "where it stands, and nothing else");
    let heard = desk.told(conn, "a", "", "now");
    assert_eq!(heard.data(), ["now"]);
    let late = desk.connect();
    assert!(desk.get(late, "a?after=0").status() == "204", "there is nothing to begin with");
    desk.publish("a", "again");
    let heard = desk.get(late, "a?after=1");
    assert!(heard.body().contains("\"items\":[],\"gaps\":[\"a\"],\"after\":\"2\""), "{}", heard.body());
    // It cannot recognise a key.
    assert_eq!(desk.publish_with("a", "Idempotency-Key: k\r\n", "x").status(), "400");
}

#[test]
fn a_key_that_comes_again_is_the_same_item() {
    let mut desk = Desk::new(Channels { items_max: 3, ..open() });
    let key = "Idempotency-Key: 8a2f-1\r\n";
    assert!(desk.publish_with("a", key, "one").body().contains("\"id\":\"1\",\"repeated\":false"));
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a?after=1&wait=55"), Heard::default());
    let (other, effects) = desk.published("a", key, "one");
    assert!(Heard::of(&effects, other).body().contains("\"id\":\"1\",\"repeated\":true"));
    assert_eq!(Heard::of(&effects, conn), Heard::default(), "nobody is told twice");
    assert!(desk.publish_with("b", key, "elsewhere").body().contains("\"repeated\":false"), "each channel has its own");
    // The window is that of the stored items.
    (0..3).for_each(|_| drop(desk.publish("a", "more")));
    assert!(desk.publish_with("a", key, "one").body().contains("\"id\":\"5\",\"repeated\":false"));
}

#[test]
fn what_may_not_be_is_refused_with_what_to_do() {
    let only_token = Channels { publish_open: false, prefixes: Box::new(["news.".into()]), ..open() };
    let mut desk = Desk::new(only_token.clone());
    let conn = desk.connect();
    let check = |heard: Heard, status: &str, text: &str| {
        assert_eq!(heard.status(), status, "{}", heard.text);
        assert!(heard.body().contains(text), "{}", heard.body());
    };
    check(desk.get(conn, "other"), "404", "options notify");
    check(desk.get(conn, "news.a,other"), "404", "options notify");
    for path in ["", "news.a/b", "news.%61", "news.a,news.a", "news.a,,news.b", "news.a,"] {
        assert_eq!(desk.get(conn, path).status(), "400", "{path}");
    }
    let many: Vec<_> = (0..17).map(|n| format!("news.{n}")).collect();
    check(desk.get(conn, &many.join(",")), "400", "the limit is 16");
    check(desk.get(conn, &format!("news.{}", "a".repeat(124))), "400", "1 to 128");
    for query in ["after=x", "after=1,2", "after=", "after=-1", "after=18446744073709551616", "wait=x", "wait=-1"] {
        assert_eq!(desk.get(conn, &format!("news.a?{query}")).status(), "400", "{query}");
    }
    let heard = desk.publish("news.a", "x");
    assert_eq!(heard.field("WWW-Authenticate"), Some("Bearer realm=\"channels\""), "{}", heard.text);
    check(heard, "401", "Authorization: Bearer");
    for wrong in
        ["Bearer wrong", "Bearer", "Basic YTpi", &format!("Bearer {TOKEN}x"), &format!("bearer {}", &TOKEN[1..])]
    {
        assert_eq!(desk.publish_with("news.a", &format!("Authorization: {wrong}\r\n"), "x").status(), "401", "{wrong}");
    }
    let right = format!("Authorization: bearer {TOKEN}\r\n");
    assert_eq!(desk.publish_with("news.a", &right, "x").status(), "200");
    check(desk.publish_with("news.a,news.b", &right, "x"), "400", "one channel");
    for fields in ["Idempotency-Key: \r\n", "Idempotency-Key: a b\r\n", "Idempotency-Key: a\r\nIdempotency-Key: a\r\n"]
    {
        assert_eq!(desk.publish_with("news.a", &(right.clone() + fields), "x").status(), "400", "{fields}");
    }
    let long = format!("{right}Idempotency-Key: {}\r\n", "a".repeat(65));
    check(desk.publish_with("news.a", &long, "x"), "400", "64 visible");
    assert_eq!(
        desk.publish_with("news.a", &format!("{right}Content-Type: {}\r\n", "a".repeat(129)), "x").status(),
        "400"
    );
    let largest = "x".repeat(NOTIFY_BODY_BYTES_MAX);
    assert_eq!(desk.publish_with("news.a", &right, &largest).status(), "200");
    check(desk.publish_with("news.a", &right, &(largest + "x")), "413", "too long");
    let heard = desk.says(conn, "PATCH /n/news.a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((heard.status(), heard.field("Allow")), ("405", Some("GET, POST, PUT, DELETE, HEAD, OPTIONS")));
    assert_eq!(desk.says(conn, "HEAD /n/news.a HTTP/1.1\r\nHost: localhost\r\n\r\n").status(), "200");
    // Nobody at all.
    let mut desk = Desk::new(Channels { token: None, ..only_token });
    check(desk.publish_with("news.a", &right, "x"), "403", "notify_token");
    // Off.
    let mut desk = Desk::new(Channels::default());
    let conn = desk.connect();
    check(desk.get(conn, "a"), "404", "nothing is served at this path");
    check(desk.publish("a", "x"), "404", "nothing is served at this path");
}

#[test]
fn pages_of_other_origins_read_what_they_may() {
    let mut desk = Desk::new(open());
    desk.publish("a", "x");
    let conn = desk.connect();
    let get = |path: &str| format!("GET /n/{path} HTTP/1.1\r\nHost: localhost\r\nOrigin: https://page.example\r\n\r\n");
    assert_eq!(desk.says(conn, &get("a")).field("Access-Control-Allow-Origin"), Some("*"));
    let preflight =
        get("a").replace("GET", "OPTIONS").replace("\r\n\r\n", "\r\nAccess-Control-Request-Method: POST\r\n\r\n");
    let heard = desk.says(conn, &preflight);
    let fields = "Content-Type, Authorization, Idempotency-Key, Item-Key, Item-Key-Member, Last-Event-ID";
    assert_eq!((heard.status(), heard.field("Access-Control-Allow-Headers")), ("204", Some(fields)));
    let only =
        Policy { origins: Some(Box::new(["https://page.example".into()])), channels: open(), ..Policy::default() };
    let mut one = settings(1, open());
    one.web = only.into();
    let mut desk = Desk::of(one);
    desk.publish("a", "x");
    let conn = desk.connect();
    let heard = desk.says(conn, &get("a"));
    assert_eq!(heard.field("Access-Control-Allow-Origin"), Some("https://page.example"));
    assert_eq!(desk.says(conn, &get("a").replace("page", "evil")).status(), "403");
}

/// However an XMPP client writes JSON, a page receives the same; other payloads are delivered as
/// XML.
#[test]
fn an_item_means_what_its_xml_means() {
    let mut desk = Desk::new(open());
    let romeo = desk.user("romeo");
    desk.makes(romeo, "a", &[]);
    let [json, xml] = ["application/json", "application/xml"];
    for (payload, kind, data) in [
        ("<json xmlns='urn:xmpp:json:0'>{\"a\":\"&lt;&amp;\"}</json>", json, "{\"a\":\"<&\"}"),
        ("<json xmlns='urn:xmpp:json:0'><![CDATA[[\"<b>\"]]]></json>", json, "[\"<b>\"]"),
        ("<j:json xmlns:j='urn:xmpp:json:0' xml:lang='en'>1</j:json>", json, "1"),
        ("<json xmlns='urn:xmpp:json:0'/>", json, ""),
        ("<data xmlns='urn:throng:notify:0'>x</data>", "application/octet-stream", "x"),
        ("<data xmlns='urn:throng:notify:0' type='text/x' encoding='base64'>aGk=</data>", "text/x", "hi"),
        ("<json xmlns='urn:xmpp:json:0'>1<b/></json>", xml, "<json"),
        ("<json xmlns='urn:other'>1</json>", xml, "<json"),
        ("<j:x xmlns:j='urn:j' j:k='1'><j:y/></j:x>", xml, "<"),
    ] {
        let conn = desk.connect();
        assert_eq!(desk.get(conn, "a?wait=55"), Heard::default());
        let item = format!("<publish node='a'><item>{payload}</item></publish>");
        let heard = Heard::of(&desk.host.ask(romeo, &pubsub(true, &item)), conn);
        let told: serde_json::Value = serde_json::from_str(heard.body()).expect(payload);
        let item = &told["items"][0];
        assert_eq!(item["type"], kind, "{payload}");
        let told = item["data"].as_str().expect(payload);
        assert!(if kind == xml { told.starts_with(data) } else { told == data }, "{payload}: {told}");
    }
}

#[test]
fn a_stop_ends_who_waits() {
    let mut desk = Desk::new(open());
    let (polls, streams) = (desk.connect(), desk.connect());
    desk.get(polls, "a?wait=55");
    desk.stream(streams, "a", "");
    let effects = desk.stops();
    let heard = Heard::of(&effects, polls);
    assert_eq!((heard.status(), heard.ends), ("503", true));
    assert_eq!(
        Heard::of(&effects, streams),
        Heard { text: String::new(), ends: true },
        "no response within a response"
    );
}

/// Publishers who may know it are told the number of subscribers, and the answer does not wait.
#[test]
fn a_publication_is_answered_with_how_many_subscribe_where_that_may_be_known() {
    let own = || ["own.".into()].into();
    for (occupancy, token, tells) in
        [(Box::default(), false, false), (Box::default(), true, true), (own(), false, true), (own(), true, true)]
    {
        let mut desk = Desk::new(Channels { occupancy, ..open() });
        let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
        let fields = if token { &*bearer } else { "" };
        let told = |desk: &mut Desk| {
            let heard = desk.publish_with("own.a", fields, "x");
            assert_eq!(heard.status(), "200", "{}", heard.text);
            heard.body().split_once("\"subscribers\":").map(|(_, rest)| rest.trim_end_matches(['}', '\n']).to_owned())
        };
        assert_eq!(told(&mut desk).as_deref(), tells.then_some("0"));
        let conns = [(); 3].map(|()| desk.connect());
        conns.iter().for_each(|conn| drop(desk.stream(*conn, "own.a", fields)));
        assert_eq!(told(&mut desk).as_deref(), tells.then_some("3"));
    }
}

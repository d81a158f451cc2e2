//! Subscriptions to prefixes (`/n/news.*`) on one shard: what arrives, from where a client
//! continues, and that nobody receives what it may not read.

use std::sync::Arc;

use throng_engine::io::Input;
use throng_engine::limits::{NOTIFY_FEED_ITEMS_MAX, NOTIFY_FORGET_S};
use throng_engine::web::policy::Channels;

use crate::issuer::{access, minute};
use crate::notify_world::{Desk, Heard, KEY, data, frames_to, open, pubsub, upgrade};

fn any() -> Channels {
    Channels { wildcards: Box::new(["".into()]), ..open() }
}

/// Channels that begin with `own.` require a token, all others are open.
fn mixed() -> Channels {
    Channels { private: Box::new(["own.".into()]), access: Some(Arc::new(access())), ..any() }
}

fn bearer(claims: &str) -> String {
    format!("Authorization: Bearer {}\r\n", minute(claims))
}

/// The position in an answer, or the last one in events.
fn after(text: &str) -> &str {
    let place =
        text.rsplit("\"after\":\"").next().filter(|_| text.contains("\"after\"")).and_then(|at| at.split('"').next());
    let id = || text.rsplit("id: ").next().and_then(|at| at.split('\n').next());
    place.or_else(id).expect("a place")
}

/// Publishes below `own.` with the operator's token.
fn publish_own(desk: &mut Desk, channel: &str, body: &str) {
    let shown = format!("Authorization: Bearer {}\r\n", crate::notify_world::TOKEN);
    assert_eq!(desk.publish_with(channel, &shown, body).status(), "200");
}

#[test]
fn items_of_all_channels_that_begin_so_come_by_each_way() {
    let mut desk = Desk::new(any());
    desk.publish("news.old", "before");
    let (socket, events, poll) = (desk.connect(), desk.connect(), desk.connect());
    let (said, _) = desk.sends(socket, upgrade("news.*", KEY).as_bytes());
    let begins = said[1].clone();
    assert!(begins.starts_with("{\"items\":[],\"gaps\":[],\"after\":\""), "the place comes first: {begins}");
    let began = desk.stream(events, "x,news.%2A,y", "");
    let place: Vec<_> = after(&began.text).split(',').collect();
    assert!(began.text.ends_with("\n\n") && place[0] == "0" && place[1] == after(&begins) && place[2] == "0");
    assert_eq!(desk.get(poll, "news.*?wait=55"), Heard::default());
    // Other names are not included, whatever they begin with.
    for other in ["news", "newsletter.a", "News.a", "x.news.a"] {
        assert_eq!(frames_to(&desk.published(other, "", "no").1, socket).0, Vec::<String>::new(), "{other}");
    }
    let (_, effects) = desk.published("news.new", "Content-Type: text/plain\r\n", "first");
    let [message] = &frames_to(&effects, socket).0[..] else { panic!("one message") };
    assert!(message.starts_with("{\"items\":[{\"channel\":\"news.new\",\"id\":\"1\",\"item\":\""), "{message}");
    let event = Heard::of(&effects, events);
    assert!(event.text.starts_with(&format!("id: 0,{},0\ndata: {{\"channel\":\"news.new\"", after(message))));
    let answer = Heard::of(&effects, poll);
    assert_eq!((answer.status(), answer.data(), after(answer.body())), ("200", vec!["first"], after(message)));
    // A client that also requests channels receives their items as before.
    let event = desk.told(events, "x", "", "of x");
    assert!(event.text.starts_with(&format!("id: 1,{},0\ndata: {{\"channel\":\"x\"", after(message))));
    // The same by XMPP.
    let user = desk.user("romeo");
    desk.makes(user, "news.xmpp", &[("pubsub#access_model", "open")]);
    let publish = pubsub(true, "<publish node='news.xmpp'><item><x xmlns='y'/></item></publish>");
    let effects = desk.host.turn(Input::Received { conn: user, bytes: publish.as_bytes() });
    assert!(frames_to(&effects, socket).0.concat().contains("\"channel\":\"news.xmpp\""));
    assert_eq!(desk.get(poll, &format!("news.*?after={}", after(message))).body().matches("\"channel\"").count(), 1);
}

#[test]
fn who_comes_back_goes_on_where_it_was() {
    let mut desk = Desk::new(any());
    let (conn, said) = desk.subscribe("p.*", KEY);
    desk.messages(conn, "p.a", "a1");
    let told = desk.messages(conn, "p.b", "b1").concat();
    let place = after(&told).to_owned();
    desk.host.turn(Input::Closed { conn });
    for (channel, body) in [("p.a", "a2"), ("p.c", "c1"), ("q.a", "no"), ("p.b", "b2")] {
        assert_eq!(desk.publish(channel, body).status(), "200");
    }
    let (conn, said_again) = desk.subscribe(&format!("p.*?after={place}"), KEY);
    assert_eq!(data(&said_again), ["a2", "c1", "b2"], "also of a channel that was made meanwhile");
    assert!(said_again.iter().all(|message| message.contains("\"gaps\":[]")));
    assert_eq!(data(&desk.messages(conn, "p.a", "a3")), ["a3"], "and from there to what is new");
    // In each way, from each position.
    let poll = desk.connect();
    let answer = desk.get(poll, &format!("p.*?after={}&wait=55", after(&said[0])));
    assert_eq!((answer.status(), answer.data()), ("200", vec!["a1", "b1", "a2", "c1", "b2", "a3"]));
    let answer = desk.get(poll, &format!("p.*?after={}&wait=0", after(answer.body())));
    assert_eq!((answer.status(), answer.field("Next-After").is_some()), ("204", true));
    let events = desk.connect();
    let heard = desk.stream(events, "p.*", &format!("Last-Event-ID: {place}\r\n"));
    assert_eq!(heard.data(), ["a2", "c1", "b2", "a3"]);
    assert!(!heard.text.contains("event: gap"));
}

#[test]
fn what_was_replaced_by_its_key_is_no_gap_and_what_is_not_kept_is_one() {
    let mut desk = Desk::new(Channels { items_max: 2, ..any() });
    let resumed = |desk: &mut Desk, place: &str| desk.subscribe(&format!("p.*?after={place}"), KEY).1;
    let (_, said) = desk.subscribe("p.*", KEY);
    let begin = after(&said[0]).to_owned();
    // The same key in two channels is two keys.
    for (channel, body) in [("p.a", "1"), ("p.b", "2"), ("p.a", "3"), ("p.b", "4")] {
        desk.publish_with(channel, "Item-Key: k\r\nContent-Type: text/plain\r\n", body);
    }
    let said = resumed(&mut desk, &begin);
    assert_eq!(data(&said), ["3", "4"]);
    assert!(said.iter().all(|message| message.contains("\"gaps\":[]")), "{said:?}");
    let place = after(said.last().unwrap()).to_owned();
    (0..3).for_each(|number| drop(desk.publish("p.c", &format!("c{number}"))));
    let said = resumed(&mut desk, &place);
    assert_eq!(data(&said), ["c1", "c2"]);
    assert!(said.concat().contains("\"gaps\":[\"p.*\"]"), "{said:?}");
    // A live channel stores nothing.
    let user = desk.user("romeo");
    let live = [("pubsub#access_model", "open"), ("pubsub#publish_model", "open"), ("pubsub#persist_items", "0")];
    desk.makes(user, "p.live", &live);
    let (conn, said) = desk.subscribe("p.*", KEY);
    assert_eq!(data(&desk.messages(conn, "p.live", "now")), ["now"]);
    let said = resumed(&mut desk, after(&said[0]));
    assert!(data(&said).is_empty() && said.concat().contains("\"gaps\":[\"p.*\"]"), "{said:?}");
}

#[test]
fn a_place_that_is_not_known_is_a_gap_and_it_goes_on_from_now() {
    let mut desk = Desk::new(any());
    let (conn, said) = desk.subscribe("p.*", KEY);
    let place = after(&said[0]).to_owned();
    desk.host.turn(Input::Closed { conn });
    // More items than a feed remembers.
    (0..NOTIFY_FEED_ITEMS_MAX + 5).for_each(|number| drop(desk.publish("p.a", &number.to_string())));
    let (_, said) = desk.subscribe(&format!("p.*?after={place}"), KEY);
    assert!(said.concat().contains("\"gaps\":[\"p.*\"]"));
    let now = after(said.last().unwrap()).to_owned();
    for unknown in ["0", "1", "zzzzzzzzzzzz", "1.1", &format!("{now}.{now}")] {
        let (conn, said) = desk.subscribe(&format!("p.*?after={unknown}"), KEY);
        assert!(said[1].contains("\"gaps\":[\"p.*\"]"), "{unknown}: {said:?}");
        desk.host.turn(Input::Closed { conn });
    }
    let events = desk.connect();
    let heard = desk.stream(events, "p.*", "Last-Event-ID: 1\r\n");
    assert!(heard.text.contains("event: gap\ndata: {\"channel\":\"p.*\"}\n\n"), "{}", heard.text);
    let poll = desk.connect();
    let answer = desk.get(poll, "p.*?after=0&wait=55");
    assert!(answer.status() == "200" && answer.body().contains("\"gaps\":[\"p.*\"]"), "{}", answer.text);
}

#[test]
fn a_feed_is_kept_for_who_comes_back_and_forgotten_some_time_later() {
    let mut desk = Desk::new(any());
    let (conn, said) = desk.subscribe("p.*", KEY);
    let place = after(&said[0]).to_owned();
    desk.host.turn(Input::Closed { conn });
    let idle = desk.connect();
    desk.wait(idle, u64::from(NOTIFY_FORGET_S) - 20);
    desk.publish("p.a", "meanwhile");
    let (conn, said) = desk.subscribe(&format!("p.*?after={place}"), KEY);
    assert_eq!(data(&said), ["meanwhile"]);
    let place = after(said.last().unwrap()).to_owned();
    desk.host.turn(Input::Closed { conn });
    desk.wait(idle, 3 * u64::from(NOTIFY_FORGET_S));
    desk.publish("p.a", "missed");
    let (conn, said) = desk.subscribe(&format!("p.*?after={place}"), KEY);
    assert!(data(&said).is_empty() && said.concat().contains("\"gaps\":[\"p.*\"]"), "{said:?}");
    assert_eq!(data(&desk.messages(conn, "p.a", "new")), ["new"]);
}

#[test]
fn what_is_wrong_with_a_prefix_is_refused() {
    let mut desk = Desk::new(Channels {
        prefixes: Box::new(["news.".into(), "p".into()]),
        wildcards: Box::new(["news.".into(), "x.".into()]),
        occupancy: Box::new(["".into()]),
        ..open()
    });
    let mut refused = |path: &str| {
        let conn = desk.connect();
        desk.stream(conn, path, "").status().to_owned()
    };
    for path in ["news.*", "news.it.*", "news.it-*", "news.a,news.it.*", "news.a.*,news.b.*"] {
        assert_eq!(refused(path), "200", "{path}");
    }
    for path in [
        "news*",
        "news.**",
        "news.*x",
        "*.news",
        "news.*.x",
        "news.a*",
        "news./*",
        "news.a.b.c.d.e.f.g.h.*",
        "news.*,news.*",
        "news.*,news.a",
        "news.a,news.*",
        "news.*,news.a.*",
        "news.a.*,news.*",
        "news.*?occupancy=1",
        "news.*?after=",
        "news.*?after=-1",
        "news.*?after=1,2",
        "news.*?after=1..2",
        "news.*?after=%00",
        "news.*?format=binary",
        "news.*?format=x",
        "news.a.*,news.b.*,news.c.*,news.d.*,news.e.*",
    ] {
        assert_eq!(refused(path), "400", "{path}");
    }
    assert_eq!(
        (refused("x.*"), refused("p.*"), refused("*"), refused("news.*,p.*")),
        ("404".into(), "403".into(), "403".into(), "403".into())
    );
    let conn = desk.connect();
    for (path, text) in [("news.*", "a prefix has no history"), ("p.*?wait=1", "notify_wildcards")] {
        assert!(desk.get(conn, path).body().contains(text), "{path}");
    }
    assert_eq!(desk.publish("news.*", "x").status(), "400");
}

#[test]
fn nobody_is_told_of_channels_that_it_may_not_read() {
    let mut desk = Desk::new(mixed());
    let user = desk.user("romeo");
    for (node, model) in [("p.white", "whitelist"), ("p.asks", "authorize")] {
        desk.makes(user, node, &[("pubsub#access_model", model), ("pubsub#publish_model", "open")]);
    }
    desk.makes(user, "p.no name", &[("pubsub#access_model", "open")]);
    let secret = |desk: &mut Desk| {
        let mut all = Vec::new();
        publish_own(desk, "own.a", "secret");
        for node in ["p.white", "p.asks", "p.no name"] {
            let item = format!("<publish node='{node}'><item><x xmlns='y'>secret</x></item></publish>");
            all.extend(desk.host.turn(Input::Received { conn: user, bytes: pubsub(true, &item).as_bytes() }));
        }
        all
    };
    let (all, _) = desk.subscribe("*", KEY);
    let (some, said) = desk.subscribe("p.*", KEY);
    let place = after(&said[0]).to_owned();
    let own = desk.connect();
    publish_own(&mut desk, "own.b", "secret");
    desk.get(own, "*?wait=55");
    let effects = secret(&mut desk);
    for conn in [all, some] {
        assert_eq!(frames_to(&effects, conn).0, Vec::<String>::new());
    }
    assert_eq!(data(&desk.messages(all, "p.a", "open")), ["open"]);
    // Nor after a position. Items that were open when published and no longer are cannot be read
    // either.
    desk.makes(user, "p.turns", &[("pubsub#access_model", "open")]);
    let item = "<publish node='p.turns'><item><x xmlns='y'>once open</x></item></publish>";
    assert!(!desk.host.ask(user, &pubsub(true, item)).is_empty());
    let closes = "<configure node='p.turns'><x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/pubsub#node_config</value></field><field var='pubsub#access_model'><value>whitelist</value></field></x></configure>";
    desk.host.ask(
        user,
        &pubsub(true, closes)
            .replace("http://jabber.org/protocol/pubsub'>", "http://jabber.org/protocol/pubsub#owner'>"),
    );
    let (_, said) = desk.subscribe(&format!("p.*?after={place}"), KEY);
    assert_eq!(data(&said), ["open"], "{said:?}");
    for path in ["*?after=0", "p.*?after=0"] {
        let (_, said) = desk.subscribe(path, KEY);
        assert!(!said.concat().contains("secret") && !said.concat().contains("once open"), "{said:?}");
    }
}

#[test]
fn a_token_has_to_grant_the_whole_prefix() {
    let mut desk = Desk::new(mixed());
    let ask = |desk: &mut Desk, path: &str, claims: &str| {
        let conn = desk.connect();
        let fields = if claims.is_empty() { String::new() } else { bearer(claims) };
        let status = desk.stream(conn, path, &fields).status().to_owned();
        (conn, status)
    };
    for claims in ["[\"own.x.*\"]", "[\"own.\"]", "[\"own.a\",\"p.*\"]", "[]", "[\"ow\"]", "[\"own.*.x\"]"] {
        let status = ask(&mut desk, "own.*", &format!(",\"subscribe\":{claims}")).1;
        assert!(["403", "401"].contains(&&*status), "{claims}: {status}");
    }
    assert_eq!(ask(&mut desk, "own.*", "").1, "401");
    assert_eq!(ask(&mut desk, "own.*", ",\"publish\":[\"own.*\"]").1, "403", "to publish is not to read");
    assert_eq!(ask(&mut desk, "own.*,p.*", "").1, "401");
    let mut told = Vec::new();
    for (path, claims) in [
        ("own.x.*", "own.*"),
        ("own.x.*", "*"),
        ("own.*", "own.*"),
        ("own.x.*", "own.x.*"),
        ("*", "*"),
        ("own.*,p.*", "own.*"),
    ] {
        let (conn, status) = ask(&mut desk, path, &format!(",\"subscribe\":[\"{claims}\"]"));
        assert_eq!(status, "200", "{path} by {claims}");
        told.push(conn);
    }
    // A token for less than the whole prefix counts as none if not all of it is private, and a
    // wrong one is invalid.
    let (part, status) = ask(&mut desk, "*", ",\"subscribe\":[\"own.*\"]");
    assert_eq!(status, "200");
    let conn = desk.connect();
    assert_eq!(desk.stream(conn, "*", "Authorization: Bearer nonsense\r\n").status(), "401");
    assert_eq!(
        desk.stream(conn, "p.*", "Authorization: Bearer nonsense\r\n").status(),
        "200",
        "nothing of it is private"
    );
    let shown = format!("Authorization: Bearer {}\r\n", crate::notify_world::TOKEN);
    let (_, effects) = desk.published("own.x.a", &shown, "secret");
    for conn in told {
        assert!(Heard::of(&effects, conn).text.contains("secret"));
    }
    assert_eq!(Heard::of(&effects, part).text, "");
    // It ends with its token.
    let ended = desk.wait(part, 70);
    assert!(ended.ends && ended.text.contains("event: expired"));
}

#[test]
fn who_waits_for_a_prefix_does_not_count_as_a_subscriber() {
    let mut desk = Desk::new(Channels { occupancy: Box::new(["".into()]), ..any() });
    let (stays, _) = desk.subscribe("p.a,q.*,p.b", KEY);
    desk.subscribe("p.*", KEY);
    desk.wait(stays, 3);
    let conn = desk.connect();
    for (channel, count) in [("p.a", 1), ("p.b", 1), ("q.a", 0)] {
        let said = desk.get(conn, &format!("{channel}?occupancy"));
        assert!(said.body().contains(&format!("\"subscribers\":{count},")), "{}", said.text);
    }
}

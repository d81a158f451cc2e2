//! Selectors of the Mercure protocol (draft 07, 4.1) on one shard: `*` and URI templates in
//! subscriptions and in tokens.

use throng_engine::id::ConnId;
use throng_engine::io::Input;
use throng_engine::limits::{NOTIFY_FEED_ITEMS_MAX, NOTIFY_PREFIXES_PER_ADDRESS_MAX, NOTIFY_REQUESTS_PER_PREFIX};
use throng_engine::web::policy::Channels;

use crate::mercure::{Hub, all, bearer, claim, data, events, id_of, private};
use crate::notify_world::{Desk, Heard, TOKEN, settings};

/// All topics may be selected.
fn any() -> Channels {
    Channels { wildcards: Box::new(["".into()]), ..all() }
}

/// The same, where topics below `own.` and those of one site require a token.
fn mixed() -> Channels {
    Channels { prefixes: Box::new(["".into()]), wildcards: Box::new(["".into()]), ..private() }
}

/// A topic encoded for a query.
fn encoded(topic: &str) -> String {
    topic.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The query of a request for these.
fn query(topics: &[&str]) -> String {
    topics.iter().map(|topic| format!("topic={}", encoded(topic))).collect::<Vec<_>>().join("&")
}

fn channel(topic: &str) -> String {
    throng_engine::web::access::topic::channel(topic).unwrap().into_owned()
}

trait Selecting {
    fn selects(&mut self, topics: &[&str], more: &str) -> (ConnId, Heard);
    fn tells(&mut self, conn: ConnId, topic: &str, content: &str) -> Vec<String>;
    fn secret(&mut self, topic: &str, content: &str);
}

impl Selecting for Desk {
    fn selects(&mut self, topics: &[&str], more: &str) -> (ConnId, Heard) {
        let conn = self.connect();
        let fields = if more.is_empty() || more.starts_with('A') {
            more.to_owned()
        } else {
            format!("Last-Event-ID: {more}\r\n")
        };
        let heard = self.hub(conn, &query(topics), &fields);
        (conn, heard)
    }

    /// The output to a subscriber for an update.
    fn tells(&mut self, conn: ConnId, topic: &str, content: &str) -> Vec<String> {
        data(&self.hears(conn, &format!("topic={}&data={content}", encoded(topic))))
    }

    /// The operator publishes.
    fn secret(&mut self, topic: &str, content: &str) {
        let body = format!("topic={}&data={content}", encoded(topic));
        assert_eq!(self.update_with(&bearer(TOKEN), &body).status(), "200");
    }
}

/// Draft 07, 4.1: exactly the matching updates arrive, once, with the identifier reported to the
/// publisher.
#[test]
fn a_subscriber_is_told_what_a_selector_means() {
    let mut desk = Desk::new(any());
    for (topics, told, untold) in [
        (&["*"][..], &["a", "https://example.com/books/1", "/x?y=1", "d\u{e9}j\u{e0}"][..], &[][..]),
        (
            &["https://example.com/books/{id}"],
            &["https://example.com/books/1", "https://example.com/books/", "https://example.com/books/{id}"],
            &["https://example.com/books/1/2", "https://example.com/books", "https://example.org/books/1", "a"],
        ),
        (&["/users/{user}{?page}"], &["/users/romeo?page=2", "/users/~romeo"], &["/users/romeo?x=2", "/users/a/b"]),
        (&["{+any}"], &["a", "/a/b?c=d", "https://example.com/"], &["a b", "d\u{e9}j\u{e0}"]),
        (&["news.{day}"], &["news.today", "news.~7E"], &["news", "news/today", "news.a@b"]),
        (&["~{user}"], &["~romeo"], &["~romeo/x", "romeo"]),
        // Several may be equivalent, or use the same feed.
        (&["/a/{x}", "/a/{x}/b", "/a/1", "/a/1/c"], &["/a/1", "/a/2", "/a/2/b", "/a/1/c"], &["/a/2/c", "/b/1"]),
        (&["*", "news.{x}", "a"], &["a", "news.a", "b"], &[]),
        (&["/a/{x}", "n.{x}", "b"], &["/a/1", "n.1", "b"], &["/b/1", "c"]),
    ] {
        let (conn, heard) = desk.selects(topics, "");
        assert_eq!((heard.status(), heard.body()), ("200", ""), "{topics:?}: {}", heard.text);
        for topic in told {
            assert_eq!(desk.tells(conn, topic, "x"), ["x"], "{topics:?} and {topic}");
        }
        for topic in untold {
            assert_eq!(desk.tells(conn, topic, "x"), Vec::<String>::new(), "{topics:?} and {topic}");
        }
    }
    // Its identifier begins with the one reported to the publisher.
    let (conn, _) = desk.selects(&["/n/{id}"], "");
    let heard = desk.hears(conn, &format!("topic={}&data=1&type=t", encoded("/n/1")));
    let [(id, lines)] = &events(&heard)[..] else { panic!("{}", heard.text) };
    assert!(id.starts_with(&format!("{}:", id_of(&channel("/n/1"), 1))) && lines == "event: t\ndata: 1");
    // Draft 08, 4: * is all topics with any matcher, and a template is one topic for an exact
    // matcher.
    let conn = desk.connect();
    assert_eq!(desk.hub(conn, &format!("match={}", encoded("/e/{id}")), "").status(), "200");
    assert_eq!(desk.tells(conn, "/e/1", "x"), Vec::<String>::new());
    assert_eq!(desk.tells(conn, "/e/{id}", "x"), ["x"]);
    let conn = desk.connect();
    assert_eq!(desk.hub(conn, "matchExact=*", "").status(), "200");
    assert_eq!(desk.tells(conn, "/e/1", "x"), ["x"]);
}

/// Draft 07, 7: after each update, the later matching ones once and in order; also those of topics
/// created meanwhile.
#[test]
fn who_comes_back_goes_on_where_it_was() {
    let mut desk = Desk::new(any());
    let topics = ["/p/{x}", "/q/{x}", "c"];
    let (conn, _) = desk.selects(&topics, "");
    let mut ids = Vec::new();
    for (number, topic) in ["/p/1", "c", "/q/1", "/p/2", "c", "/p/1"].into_iter().enumerate() {
        let heard = desk.hears(conn, &format!("topic={}&data={number}", encoded(topic)));
        ids.extend(events(&heard).into_iter().map(|(id, _)| id));
        assert_eq!(ids.len(), number + 1, "{}", heard.text);
    }
    desk.host.turn(Input::Closed { conn });
    for (topic, content) in [("/p/3", "6"), ("/p/3/x", "no"), ("/q/9", "7"), ("c", "8"), ("/r/1", "no")] {
        desk.update(&format!("topic={}&data={content}", encoded(topic)));
    }
    for (number, id) in ids.iter().enumerate() {
        for topics in [["/p/{x}", "/q/{x}", "c"], ["c", "/q/{x}", "/p/{x}"]] {
            let (conn, heard) = desk.selects(&topics, id);
            assert_eq!(heard.field("Last-Event-ID"), Some(&**id), "nothing is missing");
            let mut got = data(&heard);
            got.sort();
            let expected: Vec<_> = (number + 1..9).map(|number| number.to_string()).collect();
            assert_eq!(got, expected, "behind {number}");
            assert_eq!(desk.tells(conn, "/p/0/x", "no"), Vec::<String>::new());
            desk.host.turn(Input::Closed { conn });
        }
    }
    let (conn, heard) = desk.selects(&topics, &ids[5]);
    assert_eq!(data(&heard).len(), 3);
    assert_eq!(desk.tells(conn, "/p/1", "next"), ["next"], "and from there to what is new");
}

/// Channels have history, selectors do not: a selector starts with new updates, and reports that
/// there may have been earlier ones.
#[test]
fn what_is_not_known_is_said() {
    let mut desk = Desk::new(any());
    desk.update(&format!("topic={}&data=before", encoded("/p/1")));
    desk.update("topic=c&data=before");
    let (conn, heard) = desk.selects(&["/p/{x}", "c"], "earliest");
    assert_eq!((heard.field("Last-Event-ID"), data(&heard)), (Some("earliest"), vec!["before".to_owned()]));
    assert_eq!(desk.tells(conn, "/p/1", "next"), ["next"]);
    let heard = desk.hears(conn, &format!("topic={}&data=1", encoded("/p/1")));
    let id = events(&heard)[0].0.clone();
    let (feed, rest) = (id.rfind('*').unwrap(), id.split(':').next_back().unwrap());
    // An identifier of another request, of a feed that never existed, of another number of threads,
    // and of those with a token.
    for (topics, last) in [
        (&["*"][..], id.clone()),
        (&["/p/{x}"], "urn:uuid:5e94c686-2c0b-4f9b-958c-92ccc3bbb4eb".into()),
        (&["/p/{x}"], id_of(&channel("/p/1"), 3)),
        (&["/p/{x}"], format!("{}*1", &id[..feed])),
        (&["/p/{x}"], format!("{}*zzzzzzzzzzzz", &id[..feed])),
        (&["/p/{x}"], format!("{id}.1")),
        (&["/p/{x}"], format!("{}!{}", &id[..feed], &id[feed + 1..])),
        (&["/p/{x}"], format!("{id}:{rest}*")),
    ] {
        let (conn, heard) = desk.selects(topics, &last);
        assert_eq!(heard.field("Last-Event-ID"), Some("earliest"), "{last}: {}", heard.text);
        assert_eq!(desk.tells(conn, "/p/1", "on"), ["on"], "{last}: it goes on from now");
        desk.host.turn(Input::Closed { conn });
    }
    let (_, heard) = desk.selects(&["/p/{x}"], &id);
    assert_eq!(heard.field("Last-Event-ID"), Some(&*id));
    // More updates than a feed remembers, none of them requested.
    (0..NOTIFY_FEED_ITEMS_MAX + 5)
        .for_each(|number| drop(desk.update(&format!("topic={}&data={number}", encoded("/p/1/x")))));
    let (conn, heard) = desk.selects(&["/p/{x}"], &id);
    assert_eq!((heard.field("Last-Event-ID"), data(&heard).len()), (Some("earliest"), 0));
    assert_eq!(desk.tells(conn, "/p/1", "on"), ["on"]);
}

#[test]
fn what_is_wrong_with_a_selector_is_refused() {
    let mut desk = Desk::new(Channels {
        prefixes: Box::new(["https:".into(), "p".into(), "news.".into()]),
        wildcards: Box::new(["https:~2F~2Fexample.com~2Fbooks~2F".into(), "news.".into(), "x.".into()]),
        ..all()
    });
    for (topics, status, why) in [
        (&["https://example.com/books/{id}"][..], "200", ""),
        (&["https://example.com/books/a{id}", "news.{x}"], "200", ""),
        (&["https://example.com/books/{id}"; 16], "200", ""),
        (&["news.{a}", "news.{b}", "news.{c}", "news.{d}"], "200", ""),
        (&["news.{a}", "news.{b}", "news.{c}", "news.{d}", "news.{e}"], "400", "the limit is 4"),
        (&["https://example.com/{+path}"], "403", "notify_wildcards"),
        (&["https://example.com/books{/id}"], "403", "notify_wildcards"),
        (&["*"], "403", "notify_wildcards"),
        (&["{x}"], "403", "notify_wildcards"),
        (&["news.a", "p{x}"], "403", "notify_wildcards"),
        (&["x.{y}"], "403", "are offered"),
        (&["news.{x:3}"], "400", "level 4"),
        (&["news.{x*}"], "400", "level 4"),
        (&["news.{x"], "400", "without its }"),
        (&["news.}"], "400", "without its {"),
        (&["news.{=x}"], "400", "reserved operator"),
        (&["news.{}"], "400", "without a variable"),
        (&["news.\n{x}"], "400", "escaped"),
        (&["news.{a,b,c,d,e,f,g,h,i}"], "400", "the limit is 8"),
        (
            &[
                "news.{averyveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryveryverylongname}",
            ],
            "400",
            "too long",
        ),
    ] {
        let (conn, heard) = desk.selects(topics, "");
        assert_eq!(heard.status(), status, "{topics:?}: {}", heard.text);
        assert!(status == "200" || heard.body().contains(why), "{topics:?}: {}", heard.text);
        desk.host.turn(Input::Closed { conn });
    }
    assert_eq!(desk.update("topic=*&data=x").status(), "400");
    // Off unless the operator enables it.
    let mut desk = Desk::new(all());
    for topic in ["*", "{x}", "news.{x}"] {
        assert_eq!(desk.selects(&[topic], "").1.status(), "403");
    }
    assert_eq!(desk.update(&format!("topic={}&data=x", encoded("news.{x}"))).status(), "200", "it is a topic as well");
}

/// Draft 07, 6: private updates are sent to subscribers with a matching selector in their token;
/// others see nothing of them.
#[test]
fn nobody_is_told_of_topics_that_its_token_does_not_grant() {
    let mut desk = Desk::new(mixed());
    let one = |subscribe: &str| bearer(&claim("", subscribe));
    let follow = |desk: &mut Desk, topics: &[&str], fields: &str, status: &str| {
        let (conn, heard) = desk.selects(topics, fields);
        assert_eq!(heard.status(), status, "{topics:?} by {fields:.30}: {}", heard.text);
        conn
    };
    let open = follow(&mut desk, &["*"], "", "200");
    let every = follow(&mut desk, &["*"], &one("\"*\""), "200");
    let some = follow(&mut desk, &["*"], &one("\"https://example.com/users/1/{x}\",\"own.a\""), "200");
    let nothing = follow(&mut desk, &["*"], &one("\"news.{x}\""), "200");
    let narrow =
        follow(&mut desk, &["https://example.com/users/{u}/{x}"], &one("\"https://example.com/users/1{+x}\""), "200");
    let same =
        follow(&mut desk, &["https://example.com/users/{u}/{x}"], &one("\"https://example.com/users/{u}/{x}\""), "200");
    let listed =
        follow(&mut desk, &["https://example.com/users/{u}/{x}"], &one("\"https://example.com/users/1/a\""), "200");
    for (topic, told) in [
        ("https://example.com/users/1/a", &[every, some, narrow, same, listed][..]),
        ("https://example.com/users/1/b", &[every, some, narrow, same]),
        ("https://example.com/users/2/a", &[every, same]),
        ("https://example.com/users/1/a/b", &[every]),
        ("own.a", &[every, some]),
        ("own.b", &[every]),
        ("news.a", &[open, every, some, nothing]),
    ] {
        let publisher = desk.connect();
        let body = format!("topic={}&data=x", encoded(topic));
        let ask = crate::mercure::form(&bearer(TOKEN), &body);
        let effects = desk.host.turn(Input::Received { conn: publisher, bytes: ask.as_bytes() });
        for conn in [open, every, some, nothing, narrow, same, listed] {
            let heard = Heard::of(&effects, conn);
            assert_eq!(!heard.text.is_empty(), told.contains(&conn), "{topic}: {}", heard.text);
        }
    }
    // Where nothing can be permitted it is refused, as for one topic.
    let users = "https://example.com/users/{u}";
    for (topics, fields, status) in [
        (&[users][..], String::new(), "401"),
        (&[users], one("\"own.a\""), "403"),
        (&[users], one("\"https://example.com/books/{x}\""), "403"),
        (&[users], one(""), "403"),
        (&[users], one("\"{+all}\""), "200"),
        (&[users, "own.x"], one("\"{+all}\""), "200"),
        (&[users, "own.x"], one(&format!("\"{users}\"")), "403"),
        (&["*"], bearer("nonsense"), "401"),
        (&["news.{x}"], bearer("nonsense"), "200"),
    ] {
        follow(&mut desk, topics, &fields, status);
    }
    // Nor any of those read after a position.
    let (conn, _) = desk.selects(&["*"], &one("\"own.a\""));
    let heard = desk.hears(conn, "topic=none&data=x");
    assert!(heard.text.is_empty(), "nobody may publish without a token");
    desk.secret("own.a", "1");
    let mut settled = Desk::new(mixed());
    let fields = one("\"own.a\"");
    let (conn, _) = settled.selects(&["*"], &fields);
    let body = "topic=own.a&data=first";
    let publisher = settled.connect();
    let ask = crate::mercure::form(&bearer(TOKEN), body);
    let effects = settled.host.turn(Input::Received { conn: publisher, bytes: ask.as_bytes() });
    let id = events(&Heard::of(&effects, conn))[0].0.clone();
    for (topic, content) in [("own.b", "secret"), ("own.a", "mine"), ("news.a", "open"), ("https://a/", "secret")] {
        settled.secret(topic, content);
    }
    let heard = settled.follows(&query(&["*"]), &format!("{fields}Last-Event-ID: {id}\r\n"));
    assert_eq!((data(&heard), heard.field("Last-Event-ID")), (vec!["mine".to_owned(), "open".to_owned()], Some(&*id)));
    // A position among items that require a token reveals nothing about that of a client without
    // one.
    let heard = settled.follows(&query(&["*"]), &format!("Last-Event-ID: {id}\r\n"));
    assert_eq!((data(&heard).len(), heard.field("Last-Event-ID")), (0, Some("earliest")));
}

/// Draft 07, 6.1: a token may publish at topics that a selector of it matches.
#[test]
fn tokens_have_templates() {
    let mut desk = Desk::new(mixed());
    let token = claim("\"https://example.com/books/{id}\"", "\"own.{x}\",\"https://example.com/books/{id}/reviews\"");
    for (topic, publishes, reads) in [
        ("https://example.com/books/1", "200", "403"),
        ("https://example.com/books/{id}", "200", "403"),
        ("https://example.com/books/1/reviews", "403", "200"),
        ("https://example.com/books/1/2", "403", "403"),
        ("https://example.org/books/1", "403", "403"),
        ("own.a", "403", "200"),
        ("own.a/b", "403", "403"),
    ] {
        let body = format!("topic={}&data=x&private=on", encoded(topic));
        let topic_of = if topic.starts_with("own.a/") { "own.a~2Fb" } else { topic };
        assert_eq!(desk.update_with(&bearer(&token), &body).status(), publishes, "{topic}");
        // A single topic is requested exactly.
        let heard = desk.follows(&format!("match={}", encoded(topic_of)), &bearer(&token));
        assert_eq!(heard.status(), reads, "{topic}: {}", heard.text);
        // The same token is valid for every protocol.
        let conn = desk.connect();
        assert_eq!(desk.stream(conn, &channel(topic_of), &bearer(&token)).status(), reads, "{topic}");
    }
}

/// A subscription by a selector ends with its token, like others.
#[test]
fn a_subscription_ends_with_its_token() {
    let mut desk = Desk::new(mixed());
    let (conn, heard) = desk.selects(&["own.{x}"], &bearer(&claim("", "\"own.{x}\"")));
    assert_eq!((heard.status(), heard.ends), ("200", false));
    assert!(!desk.wait(conn, 50).ends && desk.wait(conn, 20).ends);
}

/// A selector counts like a prefix, and its feed lives no longer.
#[test]
fn an_address_has_so_many_selectors() {
    let mut desk = Desk::of(settings(1, Channels { waiting_max: 2 * NOTIFY_REQUESTS_PER_PREFIX as u32, ..any() }));
    let (first, heard) = desk.selects(&["/a/{x}", "/a/{x}/b"], "");
    assert_eq!(heard.status(), "200");
    assert_eq!(desk.selects(&["/b/{x}"], "").1.status(), "200");
    assert_eq!(desk.selects(&["/c/{x}"], "").1.status(), "429");
    desk.host.turn(Input::Closed { conn: first });
    assert_eq!(desk.selects(&["/c/{x}"], "").1.status(), "200");
    let mut desk = Desk::new(any());
    for number in 0..NOTIFY_PREFIXES_PER_ADDRESS_MAX {
        assert_eq!(desk.selects(&[&format!("/{number}/{{x}}")], "").1.status(), "200");
    }
    assert_eq!(desk.selects(&["/x/{x}"], "").1.status(), "429");
    // Others at the same feed do not count again.
    assert_eq!(desk.selects(&["/1/y{x}", "/1/z{x}"], "").1.status(), "200");
}

//! Centrifugo's client protocol on one shard: commands, replies and pushes on the channels that
//! others read at `/n/` and by XMPP.

use std::sync::Arc;

use serde_json::{Value, json};
use throng_engine::id::ConnId;
use throng_engine::io::{Command, Input};
use throng_engine::limits::{
    CENTRIFUGO_CHANNELS_MAX, CENTRIFUGO_MESSAGE_BYTES_MAX, CENTRIFUGO_PING_S, NOTIFY_BODY_BYTES_MAX,
    NOTIFY_PAGE_BYTES_MAX, NOTIFY_PAGE_ITEMS_MAX, PREAUTH_BYTES_MAX,
};
use throng_engine::web::access::Access;
use throng_engine::web::policy::Channels;
use throng_sim::frame::frame;

use crate::issuer::{NOW_S, Signer, access, minute};
use crate::notify_world::{ACCEPTED, Desk, KEY, first_frame, frames_to, open};

fn all() -> Channels {
    Channels { centrifugo: true, occupancy: Box::new(["".into()]), ..open() }
}

/// Channels below `own.`, and those that begin with `$`, require a token.
fn private() -> Channels {
    Channels {
        prefixes: Box::new(["news.".into()]),
        private: Box::new(["own.".into(), "~24".into()]),
        publish_open: false,
        access: Some(Arc::new(Access { centrifugo: true, ..access() })),
        ..all()
    }
}

fn upgrade(fields: &str) -> String {
    format!(
        "GET /connection/websocket HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{KEY}{fields}\r\n"
    )
}

/// The output of a connection: objects, and other data as text.
fn told(said: Vec<String>) -> Vec<Value> {
    said.into_iter().map(|said| serde_json::from_str(&said).unwrap_or(Value::String(said))).collect()
}

trait Talk {
    fn talks(&mut self, fields: &str) -> (ConnId, Vec<String>);
    fn connected(&mut self, token: &str) -> ConnId;
    fn send(&mut self, conn: ConnId, text: &str) -> (Vec<Value>, bool);
    fn ask(&mut self, conn: ConnId, command: Value) -> Value;
    fn pushed(&mut self, conn: ConnId, channel: &str, kind: &str, body: &str) -> Vec<Value>;
    fn hears(&mut self, conn: ConnId, seconds: u64) -> (Vec<Value>, bool);
}

impl Talk for Desk {
    fn talks(&mut self, fields: &str) -> (ConnId, Vec<String>) {
        let conn = self.connect();
        let (said, _) = self.sends(conn, upgrade(fields).as_bytes());
        (conn, said)
    }

    fn connected(&mut self, token: &str) -> ConnId {
        let (conn, said) = self.talks("");
        assert_eq!(said, [ACCEPTED]);
        let reply = self.ask(conn, json!({"id": 1, "connect": {"token": token, "name": "js"}}));
        assert!(reply["connect"]["client"].as_str().is_some_and(|client| client.len() == 20), "{reply}");
        conn
    }

    fn send(&mut self, conn: ConnId, text: &str) -> (Vec<Value>, bool) {
        let (said, ends) = self.sends(conn, &frame(0x81, text.as_bytes()));
        (told(said), ends)
    }

    /// Sends a command that has one reply.
    fn ask(&mut self, conn: ConnId, command: Value) -> Value {
        let (mut said, ends) = self.send(conn, &command.to_string());
        assert!(said.len() == 1 && !ends, "{command}: {said:?}");
        assert_eq!(said[0]["id"], command["id"]);
        said.remove(0)
    }

    fn pushed(&mut self, conn: ConnId, channel: &str, kind: &str, body: &str) -> Vec<Value> {
        let fields = format!("Content-Type: {kind}\r\n");
        told(frames_to(&self.published(channel, &fields, body).1, conn).0)
    }

    fn hears(&mut self, conn: ConnId, seconds: u64) -> (Vec<Value>, bool) {
        let (said, ends) = self.listens(conn, seconds);
        (told(said), ends)
    }
}

fn code(reply: &Value) -> u64 {
    reply["error"]["code"].as_u64().unwrap_or_else(|| panic!("no error: {reply}"))
}

fn offsets(publications: &Value) -> Vec<u64> {
    publications.as_array().map_or(vec![], |all| all.iter().map(|one| one["offset"].as_u64().unwrap()).collect())
}

fn subscribe(id: u32, channel: &str) -> Value {
    json!({"id": id, "subscribe": {"channel": channel}})
}

fn recover(id: u32, channel: &str, epoch: &str, offset: u64) -> Value {
    json!({"id": id, "subscribe": {"channel": channel, "recover": true, "epoch": epoch, "offset": offset}})
}

#[test]
fn a_handshake_is_answered_where_the_operator_wants_it() {
    let (_, said) = Desk::new(open()).talks("");
    assert!(said[0].starts_with("HTTP/1.1 404"), "it is off by default: {said:?}");
    let mut desk = Desk::new(all());
    let named = desk.talks("Sec-WebSocket-Protocol: centrifuge-json\r\n").1;
    assert!(named[0].starts_with("HTTP/1.1 101") && named[0].contains("Sec-WebSocket-Protocol: centrifuge-json\r\n"));
    let (_, said) = desk.talks("Sec-WebSocket-Protocol: centrifuge-protobuf\r\n");
    assert!(said[0].starts_with("HTTP/1.1 400"), "{said:?}");
    let conn = desk.connected("");
    let counters = desk.host.shard.counters();
    assert_eq!(counters.websockets.get(), 2);
    let (said, ends) = desk.sends(conn, &[frame(0x89, b"x"), frame(0x88, &1000_u16.to_be_bytes())].concat());
    assert_eq!((said, ends), (vec!["pong x".to_owned(), "close 1000".to_owned()], true));
}

#[test]
fn an_item_is_a_publication_and_a_publication_is_an_item() {
    let mut desk = Desk::new(all());
    let conn = desk.connected("");
    let reply = desk.ask(conn, subscribe(2, "chat/1"));
    let began = &reply["subscribe"];
    assert_eq!(
        (&began["recoverable"], &began["positioned"], &began["offset"]),
        (&json!(true), &json!(true), &json!(0))
    );
    assert_eq!((began["epoch"].as_str().map(str::len), &began["recovered"]), (Some(8), &Value::Null));
    // Items published by others, under the channel's name.
    let [push] = &desk.pushed(conn, "chat~2F1", "application/json", "{\"a\":\n[1]}")[..] else { panic!("one push") };
    assert_eq!(*push, json!({"push": {"channel": "chat/1", "pub": {"data": {"a": [1]}, "offset": 1}}}));
    let [push] = &desk.pushed(conn, "chat~2F1", "text/plain", "a\"b")[..] else { panic!("one push") };
    assert_eq!(push["push"]["pub"], json!({"data": "a\"b", "offset": 2, "tags": {"type": "text/plain"}}));
    // And items published here.
    let (said, _) =
        desk.send(conn, &json!({"id": 3, "publish": {"channel": "chat/1", "data": {"b": "c"}}}).to_string());
    assert!(said.contains(&json!({"id": 3, "publish": {}})) && said.len() == 2, "{said:?}");
    assert!(said.contains(&json!({"push": {"channel": "chat/1", "pub": {"data": {"b": "c"}, "offset": 3}}})));
    let poll = desk.connect();
    let poll = desk.get(poll, "chat~2F1?after=2");
    assert!(poll.text.contains("\"type\":\"application/json\",\"data\":\"{\\\"b\\\":\\\"c\\\"}\""), "{}", poll.text);
    assert_eq!(
        desk.ask(conn, json!({"id": 4, "unsubscribe": {"channel": "chat/1"}})),
        json!({"id": 4, "unsubscribe": {}})
    );
    assert!(desk.pushed(conn, "chat~2F1", "text/plain", "nobody").is_empty());
}

#[test]
fn commands_come_together_and_each_has_its_reply() {
    let mut desk = Desk::new(all());
    let (conn, _) = desk.talks("");
    let lines = [
        json!({"id": 1, "connect": {}}),
        subscribe(2, "a"),
        subscribe(3, "a"),
        subscribe(4, "b"),
        json!({"id": 5, "ping": {}}),
        json!({"id": 6, "rpc": {"method": "x"}}),
        json!({"send": {"data": 1}}),
        json!({"id": 7, "publish": {"channel": "b", "data": 1}}),
        json!({"id": 8, "subscribe": {"channel": "c", "tf": {"key": "x"}}}),
        json!({"id": 9, "subscribe": {"channel": "d", "type": 1}}),
        subscribe(10, ""),
        subscribe(11, "own#42"),
        subscribe(12, "$own"),
        subscribe(13, "~24own"),
    ];
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>() + "{}\n\n";
    let (said, ends) = desk.send(conn, &text);
    assert!(!ends);
    let of = |id: u32| said.iter().find(|said| said["id"] == json!(id)).unwrap_or_else(|| panic!("{id}: {said:?}"));
    assert_eq!(of(1)["connect"]["ping"], json!(CENTRIFUGO_PING_S));
    assert!(of(2)["subscribe"].is_object() && of(4)["subscribe"].is_object() && of(13)["subscribe"].is_object());
    assert_eq!((of(5)["ping"].clone(), of(7)["publish"].clone()), (json!({}), json!({})));
    for (id, expected) in [(3, 105), (6, 104), (8, 108), (9, 108), (10, 107), (11, 102), (12, 102)] {
        assert_eq!(code(of(id)), expected, "{id}");
    }
    assert_eq!(said.iter().filter(|said| said["push"]["pub"]["data"] == json!(1)).count(), 1);
}

/// Clients wait for the reply to each numbered command, and delay others for the channel meanwhile.
#[test]
fn every_command_with_a_number_has_a_reply() {
    let replies = |said: &[Value]| {
        let mut all: Vec<_> = said.iter().filter_map(|said| said["id"].as_u64()).collect();
        all.sort_unstable();
        all
    };
    let lines = |all: &[Value]| all.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
    let unsubscribe = |id: u32, channel: &str| json!({"id": id, "unsubscribe": {"channel": channel}});
    // A command that a later one cancels before the channel's home has answered.
    let mut desk = Desk::new(all());
    let conn = desk.connected("");
    let commands = [subscribe(2, "a"), unsubscribe(3, "a"), subscribe(4, "a"), unsubscribe(5, "a"), subscribe(6, "a")];
    let (said, ends) = desk.send(conn, &lines(&commands));
    assert_eq!((replies(&said), ends), (vec![2, 3, 4, 5, 6], false), "{said:?}");
    let of = |id: u32| said.iter().find(|said| said["id"] == json!(id)).unwrap();
    for id in [2, 4] {
        assert_eq!(of(id)["error"]["temporary"], json!(true), "who wants it again asks again");
    }
    assert!(of(6)["subscribe"].is_object());
    let pushed = desk.pushed(conn, "a", "application/json", "1");
    assert_eq!(pushed.len(), 1, "it subscribes once: {pushed:?}");
    // A command of a type unknown to this server.
    for command in [json!({"id": 7}), json!({"id": 8, "newer": {"a": 1}})] {
        assert_eq!(code(&desk.ask(conn, command)), 104);
    }
    // Commands that accompany a refused first one, which the client sends again.
    let mut desk = Desk::new(private());
    let (conn, _) = desk.talks("");
    let expired = Signer::Hs256.token(&format!("\"exp\":{}", NOW_S - 1));
    let commands = [
        json!({"id": 1, "connect": {"token": expired}}),
        subscribe(2, "news.x"),
        json!({"send": {}}),
        json!({"id": 3, "ping": {}}),
        json!({"id": 4, "publish": {"channel": "news.x", "data": 1}}),
    ];
    let (said, ends) = desk.send(conn, &lines(&commands));
    assert_eq!((replies(&said), ends), (vec![1, 2, 3, 4], false), "{said:?}");
    assert!(said[1..].iter().all(|said| said["error"]["temporary"] == json!(true)), "{said:?}");
    assert!(desk.ask(conn, json!({"id": 5, "connect": {}}))["connect"].is_object());
}

#[test]
fn what_is_no_command_ends_the_connection_with_its_code() {
    let mut desk = Desk::new(all());
    for (text, expected) in [
        ("x", 3501),
        ("", 0),
        ("{\"id\":1,\"connect\":{}}\n{\"id\":2,\"connect\":{}}", 3501),
        ("{\"id\":1,\"ping\":{}}", 3501),
        ("{}", 3501),
        ("{\"id\":1,\"connect\":{\"token\":7}}", 3501),
        ("{\"id\":1,\"connect\":{}}\n{\"ping\":{}}", 3501),
        ("{\"id\":1,\"connect\":{}}\n[]", 3501),
        ("{\"id\":1,\"connect\":{\"token\":\"x.y.z\"}}", 3500),
    ] {
        let (conn, _) = desk.talks("");
        let (said, ends) = desk.send(conn, text);
        let expected = (expected > 0).then(|| Value::String(format!("close {expected}")));
        assert_eq!(
            (said.last().filter(|said| said.is_string()), ends),
            (expected.as_ref(), expected.is_some()),
            "{text}"
        );
    }
    // Frames as usual (RFC 6455 7.4.1).
    for (bytes, expected) in
        [(frame(0x82, b"{}"), "close 1003"), (frame(0x81, b"\xff"), "close 1007"), (vec![0x81, 0], "close 1002")]
    {
        let conn = desk.connected("");
        assert_eq!(desk.sends(conn, &bytes), (vec![expected.to_owned()], true));
    }
    // Long messages: few bytes before the first command, and some more after it.
    let (conn, _) = desk.talks("");
    assert_eq!(desk.send(conn, &" ".repeat(PREAUTH_BYTES_MAX + 1)).0, ["close 1009"]);
    let conn = desk.connected("");
    assert_eq!(desk.send(conn, &" ".repeat(CENTRIFUGO_MESSAGE_BYTES_MAX)), (vec![], false));
    assert_eq!(desk.send(conn, &" ".repeat(CENTRIFUGO_MESSAGE_BYTES_MAX + 1)).0, ["close 1009"]);
}

/// Messages longer than the limit before a login count against the long-message limit.
#[test]
fn long_messages_that_do_not_end_keep_little() {
    let mut desk = Desk::new(all());
    let part = &frame(0x81, &[b' '; CENTRIFUGO_MESSAGE_BYTES_MAX])[..CENTRIFUGO_MESSAGE_BYTES_MAX - 1];
    let conns: Vec<_> = (0..200).map(|_| desk.connected("")).collect();
    let refused = conns.iter().filter(|conn| desk.sends(**conn, part) == (vec!["close 3011".to_owned()], true)).count();
    assert!((1..200).contains(&refused), "{refused} of 200");
    // Ending one makes room for the next.
    desk.host.turn(Input::Closed { conn: conns[0] });
    let conn = desk.connected("");
    assert_eq!(desk.sends(conn, part), (vec![], false));
}

#[test]
fn a_client_goes_on_behind_any_publication() {
    let mut desk = Desk::new(all());
    (0..200).for_each(|number| drop(desk.publish_with("a", "Content-Type: application/json\r\n", &number.to_string())));
    // 100 are kept.
    let conn = desk.connected("");
    let epoch = desk.ask(conn, subscribe(2, "a"))["subscribe"]["epoch"].as_str().unwrap().to_owned();
    for at in [100, 101, 150, 199, 200] {
        let conn = desk.connected("");
        let (said, _) = desk.send(conn, &recover(2, "a", &epoch, at).to_string());
        let mut got = Vec::new();
        let began = &said[0]["subscribe"];
        assert_eq!((&began["was_recovering"], &began["recovered"]), (&json!(true), &json!(true)), "{at}");
        got.extend(offsets(&began["publications"]));
        assert_eq!(began["offset"], json!(got.last().copied().unwrap_or(at)));
        for push in said[1..].iter().cloned().chain(desk.pushed_all(conn)) {
            assert_eq!(push["push"]["pub"]["data"], json!(push["push"]["pub"]["offset"].as_u64().unwrap() - 1));
            got.push(push["push"]["pub"]["offset"].as_u64().unwrap());
        }
        assert_eq!(got, (at + 1..=200).collect::<Vec<_>>(), "behind {at}");
    }
    // A client that has missed some is informed, and continues from now.
    for (epoch, at) in [(&*epoch, 0), (&epoch, 5), (&epoch, 99), (&epoch, 201), ("other", 150), ("other", 200)] {
        let conn = desk.connected("");
        let reply = desk.ask(conn, recover(2, "a", epoch, at));
        let began = &reply["subscribe"];
        assert_eq!((&began["was_recovering"], &began["recovered"]), (&json!(true), &json!(false)), "{epoch} {at}");
        assert_eq!((&began["offset"], &began["publications"]), (&json!(200), &Value::Null));
        desk.host.turn(Input::Closed { conn });
    }
    // A client that subscribed to an empty channel has missed its first items, or not.
    let conn = desk.connected("");
    desk.publish("new", "x");
    let other = desk.ask(conn, subscribe(3, "new"))["subscribe"]["epoch"].as_str().unwrap().to_owned();
    assert_ne!(other, epoch, "each channel has its own");
    let conn = desk.connected("");
    let began = desk.ask(conn, recover(2, "new", &other, 0));
    assert_eq!(
        (&began["subscribe"]["recovered"], offsets(&began["subscribe"]["publications"])),
        (&json!(true), vec![1])
    );
    let conn = desk.connected("");
    assert_eq!(desk.ask(conn, recover(2, "empty", "", 0))["subscribe"]["recovered"], json!(true));
}

trait Rest {
    fn pushed_all(&mut self, conn: ConnId) -> Vec<Value>;
}

impl Rest for Desk {
    /// The remaining pushes for a client that takes its output.
    fn pushed_all(&mut self, conn: ConnId) -> Vec<Value> {
        let mut all = Vec::new();
        for _ in 0..50 {
            all.extend(told(frames_to(&self.host.turn(Input::Sent { conn }), conn).0));
        }
        all
    }
}

#[test]
fn the_same_store_has_the_same_stream_after_a_restart() {
    let epoch = |desk: &mut Desk| {
        let conn = desk.connected("");
        desk.ask(conn, subscribe(2, "a"))["subscribe"]["epoch"].clone()
    };
    let first = epoch(&mut Desk::new(all()));
    assert_eq!(epoch(&mut Desk::new(all())), first);
    let mut settings = crate::notify_world::settings(1, all());
    settings.decoy_key = [7; 32];
    assert_ne!(epoch(&mut Desk::of(settings)), first, "of another store it is another one");
}

#[test]
fn history_is_read_forwards_and_backwards() {
    let mut desk = Desk::new(all());
    (0..150).for_each(|number| drop(desk.publish("a", &number.to_string())));
    let conn = desk.connected("");
    let mut id = 1;
    let mut history = |more: Value| {
        let mut wanted = json!({"channel": "a"});
        wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        id += 1;
        desk.ask(conn, json!({"id": id, "history": wanted}))
    };
    let page = u64::from(NOTIFY_PAGE_ITEMS_MAX);
    let reply = history(json!({}));
    let epoch = reply["history"]["epoch"].clone();
    assert_eq!((&reply["history"]["offset"], &reply["history"]["publications"]), (&json!(150), &json!([])));
    for (more, expected) in [
        (json!({"limit": 3}), (51..=53).collect::<Vec<u64>>()),
        (json!({"limit": -1}), (51..51 + page).collect()),
        (json!({"limit": 1_000_000}), (51..51 + page).collect()),
        (json!({"limit": 2, "reverse": true}), vec![150, 149]),
        (json!({"limit": 2, "reverse": true, "since": {"offset": 100, "epoch": epoch}}), vec![99, 98]),
        (json!({"limit": 9, "reverse": true, "since": {"offset": 53}}), vec![52, 51]),
        (json!({"limit": 2, "since": {"offset": 148, "epoch": epoch}}), vec![149, 150]),
        (json!({"limit": 2, "since": {"offset": 50}}), vec![51, 52]),
        (json!({"limit": 2, "since": {"offset": 150}}), vec![]),
    ] {
        let reply = history(more.clone());
        assert_eq!(offsets(&reply["history"]["publications"]), expected, "{more}: {reply}");
        assert_eq!((&reply["history"]["offset"], &reply["history"]["epoch"]), (&json!(150), &epoch));
    }
    for (more, expected) in [
        (json!({"limit": 2, "since": {"offset": 49}}), 112),
        (json!({"limit": 2, "since": {"offset": 0}}), 112),
        (json!({"limit": 2, "since": {"offset": 151}}), 112),
        (json!({"limit": 2, "since": {"offset": 149, "epoch": "other"}}), 112),
        (json!({"limit": 2, "reverse": true, "since": {"offset": 0}}), 107),
    ] {
        assert_eq!(code(&history(more.clone())), expected, "{more}");
    }
}

#[test]
fn tokens_grant_what_they_grant_elsewhere_and_nothing_more() {
    let mut desk = Desk::new(private());
    let romeo =
        minute(",\"sub\":\"romeo\",\"subscribe\":[\"own.a.*\"],\"publish\":[\"own.a.x\"],\"presence\":[\"own.a.*\"]");
    let conn = desk.connected(&romeo);
    let codes = |desk: &mut Desk, conn: ConnId, channel: &str| {
        let mut of = |command: Value| desk.ask(conn, command)["error"]["code"].as_u64().unwrap_or(0);
        let publication = json!({"id": 90, "publish": {"channel": channel, "data": 1}});
        let (subscribe, publish) = (of(subscribe(91, channel)), of(publication));
        let presence = of(json!({"id": 92, "presence": {"channel": channel}}));
        (subscribe, publish, presence, of(json!({"id": 93, "history": {"channel": channel, "limit": 1}})))
    };
    assert_eq!(codes(&mut desk, conn, "own.a.y"), (0, 103, 0, 0));
    assert_eq!(codes(&mut desk, conn, "own.b"), (103, 103, 103, 103));
    assert_eq!(codes(&mut desk, conn, "news.today"), (0, 103, 0, 0));
    assert_eq!(codes(&mut desk, conn, "other"), (102, 102, 102, 102));
    let nobody = desk.connected("");
    assert_eq!(codes(&mut desk, nobody, "own.a.y"), (103, 103, 103, 103));
    // A token for a channel, for a connected client.
    let sub = |sub: &str, channel: &str| minute(&format!(",\"sub\":\"{sub}\",\"channel\":\"{channel}\""));
    let by = |id: u32, channel: &str, token: &str| json!({"id": id, "subscribe": {"channel": channel, "token": token}});
    for (token, expected) in [
        (sub("juliet", "own.b"), 103),
        (sub("romeo", "own.c"), 103),
        (Signer::Hs256.token(&format!("\"exp\":{},\"sub\":\"romeo\",\"channel\":\"own.b\"", NOW_S - 1)), 109),
        (sub("romeo", "own.b") + "x", 103),
        ("x".into(), 103),
    ] {
        assert_eq!(code(&desk.ask(conn, by(3, "own.b", &token))), expected, "{token}");
    }
    let reply = desk.ask(conn, by(4, "own.b", &sub("romeo", "own.b")));
    assert_eq!((&reply["subscribe"]["expires"], &reply["subscribe"]["ttl"]), (&json!(true), &json!(50)), "{reply}");
    assert_eq!(codes(&mut desk, conn, "own.b"), (105, 103, 103, 0));
    let reply = desk.ask(conn, by(5, "$secret", &sub("romeo", "$secret")));
    assert!(reply["subscribe"].is_object(), "{reply}");
    // Such a token does not permit connecting, nor does an invalid one.
    for token in
        [sub("romeo", "own.b"), romeo + "x", "x".into(), minute(",\"channels\":7"), minute(",\"nbf\":99999999999")]
    {
        let (conn, _) = desk.talks("");
        let (said, ends) = desk.send(conn, &json!({"id": 1, "connect": {"token": token}}).to_string());
        assert_eq!((said, ends), (vec![json!("close 3500")], true));
    }
    let (conn, _) = desk.talks("");
    let expired = Signer::Hs256.token(&format!("\"exp\":{}", NOW_S - 1));
    let lines = format!("{}\n{}", json!({"id": 1, "connect": {"token": expired}}), subscribe(2, "news.x"));
    let (said, ends) = desk.send(conn, &lines);
    assert_eq!((said.len(), code(&said[0]), ends), (2, 109, false), "the client gets another one");
}

/// RFC 7519 4.1.2: a subject is a string. A string that cannot be a subscriber's name is invalid in
/// any other token, too.
#[test]
fn a_token_whose_subject_is_no_name_is_of_nobody() {
    let mut desk = Desk::new(private());
    let nobody = desk.connected("");
    let unnamed = desk.connected(&minute(""));
    let empty = desk.connected(&minute(",\"sub\":\"\""));
    let by = |id: u32, token: &str| json!({"id": id, "subscribe": {"channel": "own.b", "token": token}});
    let refresh = |token: &str| json!({"id": 5, "refresh": {"token": token}}).to_string();
    let long = format!("\"{}\"", "x".repeat(129));
    for subject in ["17", "-1.5", &long, "\"line\\nend\"", "\"\\u0000\"", "null", "false", "[\"a\"]", "{\"a\":1}"] {
        let token = minute(&format!(",\"sub\":{subject},\"channel\":\"own.b\""));
        for conn in [nobody, unnamed, empty] {
            assert_eq!(code(&desk.ask(conn, by(2, &token))), 103, "{subject}");
        }
        let own = minute(&format!(",\"sub\":{subject}"));
        let (conn, _) = desk.talks("");
        let (said, ends) = desk.send(conn, &json!({"id": 1, "connect": {"token": own}}).to_string());
        assert_eq!((said, ends), (vec![json!("close 3500")], true), "{subject}");
        // Nor does it extend a connection.
        let conn = desk.connected(&minute(""));
        assert_eq!(desk.send(conn, &refresh(&own)), (vec![json!("close 3500")], true), "{subject}");
    }
    // The token of an active subscription.
    let token = minute(",\"channel\":\"own.b\"");
    for conn in [nobody, unnamed, empty] {
        assert!(desk.ask(conn, by(3, &token))["subscribe"].is_object(), "none of them has a name");
        for subject in ["17", "\"romeo\""] {
            let other = minute(&format!(",\"sub\":{subject},\"channel\":\"own.b\""));
            let again = json!({"id": 4, "sub_refresh": {"channel": "own.b", "token": other}});
            assert_eq!(code(&desk.ask(conn, again)), 103, "{subject}");
        }
    }
}

/// Verifying a wrong signature is work; a client that presents too many has none verified for a
/// time.
#[test]
fn forged_tokens_are_looked_at_so_often_only() {
    let mut desk = Desk::new(private());
    let conn = desk.connected("");
    let forged = |number: u32| {
        let token = minute(&format!(",\"channel\":\"own.b\",\"jti\":\"{number}\""));
        let (signed, _) = token.rsplit_once('.').unwrap();
        format!("{signed}.{}", "A".repeat(43))
    };
    let codes: Vec<_> = (0..100)
        .map(|number| json!({"id": 2, "subscribe": {"channel": "own.b", "token": forged(number)}}))
        .map(|command| code(&desk.ask(conn, command)))
        .collect();
    let verified = codes.iter().filter(|code| **code == 103).count();
    assert!(verified < 60 && codes[99] == 111, "{codes:?}");
}

#[test]
fn tokens_end_and_are_renewed() {
    let mut desk = Desk::new(private());
    let token = |seconds: u64, more: &str| Signer::Hs256.token(&format!("\"exp\":{}{more}", NOW_S + seconds));
    let own = ",\"sub\":\"romeo\",\"subscribe\":[\"own.a\"]";
    let (conn, late) = (desk.connected(&token(20, own)), desk.connected(&token(20, own)));
    let sub = token(10, ",\"sub\":\"romeo\",\"channel\":\"own.b\"");
    assert!(desk.ask(conn, json!({"id": 2, "subscribe": {"channel": "own.b", "token": sub}}))["subscribe"].is_object());
    assert!(desk.ask(conn, subscribe(3, "own.a"))["subscribe"].is_object());
    let reply = desk.ask(conn, json!({"id": 4, "refresh": {"token": token(600, own)}}));
    assert_eq!((&reply["refresh"]["expires"], &reply["refresh"]["ttl"]), (&json!(true), &json!(590)));
    let (said, _) = desk.hears(conn, 16);
    let ended = json!({"push": {"channel": "own.b", "unsubscribe": {"code": 2501, "reason": "subscription expired"}}});
    assert_eq!(said, [ended]);
    assert!(desk.pushed(conn, "own.b", "text/plain", "x").is_empty());
    let effects = desk.passes(12);
    assert_eq!(told(frames_to(&effects, late).0).last(), Some(&json!("close 3005")));
    assert!(!frames_to(&effects, conn).1);
    // Subscriptions that the new one does not permit end; and it belongs to the same subject.
    let reply =
        desk.send(conn, &json!({"id": 5, "refresh": {"token": token(600, ",\"sub\":\"romeo\"")}}).to_string()).0;
    assert_eq!(reply[1]["push"]["unsubscribe"]["code"], json!(2000), "{reply:?}");
    let (said, ends) =
        desk.send(conn, &json!({"id": 6, "refresh": {"token": token(600, ",\"sub\":\"juliet\"")}}).to_string());
    assert_eq!((said, ends), (vec![json!("close 3500")], true));
    // The token of a subscription.
    let conn = desk.connected(&token(600, own));
    let sub = |seconds| token(seconds, ",\"sub\":\"romeo\",\"channel\":\"own.b\"");
    desk.ask(conn, json!({"id": 2, "subscribe": {"channel": "own.b", "token": sub(60)}}));
    let reply = desk.ask(conn, json!({"id": 3, "sub_refresh": {"channel": "own.b", "token": sub(600)}}));
    assert_eq!(reply["sub_refresh"]["expires"], json!(true), "{reply}");
    let wrong = json!({"id": 4, "sub_refresh": {"channel": "own.b", "token": token(600, ",\"sub\":\"romeo\",\"channel\":\"own.c\"")}});
    assert_eq!(code(&desk.ask(conn, wrong)), 103);
}

#[test]
fn the_server_subscribes_to_what_the_token_names() {
    let mut desk = Desk::new(private());
    let token = minute(",\"sub\":\"romeo\",\"channels\":[\"own.a\",\"other\"],\"subs\":{\"$b\":{}}");
    let bearer = minute(",\"publish\":[\"*\"]");
    let fields = format!("Content-Type: application/json\r\nAuthorization: Bearer {bearer}\r\n");
    (1..=3).for_each(|number| drop(desk.publish_with("own.a", &fields, &number.to_string())));
    let (conn, _) = desk.talks("");
    let reply = desk.ask(conn, json!({"id": 1, "connect": {"token": token}}));
    let subs = reply["connect"]["subs"].as_object().unwrap();
    assert_eq!(subs.keys().collect::<Vec<_>>(), ["$b", "own.a"], "what is not there is left out");
    assert_eq!(subs["own.a"]["offset"], json!(3));
    let epoch = subs["own.a"]["epoch"].clone();
    let conn_pushed = told(frames_to(&desk.published("own.a", &fields, "4").1, conn).0);
    assert_eq!(conn_pushed, [json!({"push": {"channel": "own.a", "pub": {"data": 4, "offset": 4}}})]);
    assert_eq!(code(&desk.ask(conn, subscribe(2, "own.a"))), 105);
    // A client that unsubscribes before the reply to its subscription still gets that reply.
    let (conn, _) = desk.talks("");
    let lines = [json!({"id": 1, "connect": {"token": token}}), json!({"id": 2, "unsubscribe": {"channel": "own.a"}})];
    let (said, _) = desk.send(conn, &lines.map(|line| line.to_string()).join("\n"));
    let replies: Vec<_> = said.iter().filter_map(|said| said["id"].as_u64()).collect();
    assert!(replies.contains(&1) && replies.contains(&2), "{said:?}");
    // It continues where it was.
    let (conn, _) = desk.talks("");
    let again = json!({"own.a": {"recover": true, "offset": 2, "epoch": epoch}});
    let reply = desk.ask(conn, json!({"id": 1, "connect": {"token": token, "subs": again}}));
    let sub = &reply["connect"]["subs"]["own.a"];
    assert_eq!((&sub["recovered"], offsets(&sub["publications"])), (&json!(true), vec![3, 4]), "{reply}");
}

#[test]
fn who_is_there_is_told_by_name() {
    let mut desk = Desk::new(private());
    let token = |name: &str, more: &str| minute(&format!(",\"sub\":\"{name}\",\"subscribe\":[\"own.a\"]{more}"));
    let romeo = desk.connected(&token("romeo", ",\"presence\":[\"own.a\"]"));
    let hears = |id: u32| json!({"id": id, "subscribe": {"channel": "own.a", "join_leave": true}});
    assert!(desk.ask(romeo, hears(2))["subscribe"].is_object());
    // A client that may not see presence does not receive it.
    let mute = desk.connected(&token("mute", ""));
    assert!(desk.ask(mute, hears(2))["subscribe"].is_object());
    assert_eq!(code(&desk.ask(mute, json!({"id": 3, "presence_stats": {"channel": "own.a"}}))), 103);
    desk.passes(5);
    let juliet = desk.connected(&token("juliet", ""));
    // At the next turn, or a second later.
    let while_says = |desk: &mut Desk, command: Value| {
        let bytes = frame(0x81, command.to_string().as_bytes());
        let mut effects = desk.host.turn(Input::Received { conn: juliet, bytes: &bytes });
        effects.extend(desk.passes(4));
        (told(frames_to(&effects, romeo).0), frames_to(&effects, mute).0)
    };
    let join =
        |what: &str| json!({"push": {"channel": "own.a", what: {"info": {"user": "juliet", "client": "juliet"}}}});
    assert_eq!(while_says(&mut desk, subscribe(2, "own.a")), (vec![join("join")], vec![]));
    let reply = desk.ask(romeo, json!({"id": 3, "presence": {"channel": "own.a"}}));
    let names: Vec<_> = reply["presence"]["presence"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["juliet", "mute", "romeo"]);
    let stats = desk.ask(romeo, json!({"id": 4, "presence_stats": {"channel": "own.a"}}));
    assert_eq!(stats["presence_stats"], json!({"num_clients": 3, "num_users": 3}));
    let parts = json!({"id": 3, "unsubscribe": {"channel": "own.a"}});
    assert_eq!(while_says(&mut desk, parts), (vec![join("leave")], vec![]));
    // Where the operator does not publish presence, nobody requests it.
    let mut desk = Desk::new(Channels { occupancy: Box::default(), ..all() });
    let conn = desk.connected("");
    assert_eq!(code(&desk.ask(conn, json!({"id": 2, "presence": {"channel": "a"}}))), 108);
}

#[test]
fn a_client_is_pinged_and_has_to_answer() {
    let mut desk = Desk::new(all());
    let (quiet, first) = (desk.connected(""), desk.talks("").0);
    let conn = desk.connected("");
    let period = u64::from(CENTRIFUGO_PING_S);
    for _ in 0..3 {
        let effects = desk.passes(period);
        let pings = told(frames_to(&effects, conn).0);
        assert!(pings.len() <= 1 && pings.iter().all(|ping| *ping == json!({})), "{pings:?}");
        let effects = desk.passes(6);
        assert_eq!(pings.len() + frames_to(&effects, conn).0.len(), 1);
        assert_eq!(desk.send(conn, "{}"), (vec![], false));
    }
    // The others have ended long ago: one did not answer, and one did not identify itself.
    assert!(desk.send(quiet, "{}").0.is_empty() && desk.send(first, "{}").0.is_empty());
    let quiet = desk.connected("");
    let effects = desk.passes(2 * period + 12);
    assert_eq!(frames_to(&effects, quiet), (vec!["{}".to_owned(), "close 3012".to_owned()], true));
    let (first, _) = desk.talks("");
    let effects = desk.passes(period + 6);
    assert_eq!(frames_to(&effects, first), (vec!["close 3502".to_owned()], true));
}

#[test]
fn a_server_that_stops_says_so() {
    let mut desk = Desk::new(all());
    let conn = desk.connected("");
    let said = desk.stops();
    assert_eq!(frames_to(&said, conn), (vec!["close 3001".to_owned()], true));
}

#[test]
fn a_connection_has_so_many_channels_and_questions() {
    let mut desk = Desk::new(all());
    let conn = desk.connected("");
    let lines: String = (0..CENTRIFUGO_CHANNELS_MAX + 5)
        .map(|at| format!("{}\n", subscribe(at as u32 + 2, &format!("c{at}"))))
        .collect();
    let (said, _) = desk.send(conn, &lines);
    let refused: Vec<_> = said.iter().filter(|said| said["error"]["code"] == json!(106)).collect();
    assert_eq!((said.len(), refused.len()), (CENTRIFUGO_CHANNELS_MAX + 5, 5));
    // Each of them is notified, and all of them count for the address.
    assert_eq!(desk.pushed(conn, "c127", "text/plain", "x").len(), 1);
    desk.host.turn(Input::Closed { conn });
    desk.passes(1);
    assert_eq!(desk.host.shard.counters().notify_waiting.get(), 0);
    let mut desk = Desk::new(Channels { waiting_max: 3, ..all() });
    let conn = desk.connected("");
    let (said, _) = desk.send(conn, &lines);
    let begun = said.iter().filter(|said| said["subscribe"].is_object()).count();
    assert_eq!(begun, 47, "one waits, and one more for each 16 channels");
    let (_, said) = desk.talks("");
    assert!(said[0].starts_with("HTTP/1.1 429"), "{said:?}");
    // Unsubscribing makes room for another subscription, again and again.
    for _ in 0..40 {
        assert!(desk.ask(conn, json!({"id": 900, "unsubscribe": {"channel": "c3"}}))["unsubscribe"].is_object());
        assert!(desk.ask(conn, subscribe(901, "c3"))["subscribe"].is_object());
    }
    desk.host.turn(Input::Closed { conn });
    let conns: Vec<_> = (0..3).map(|_| desk.connected("")).collect();
    assert_eq!(conns.len(), 3, "nothing is counted any more");
}

#[test]
fn publications_are_bounded() {
    let mut desk = Desk::new(Channels { publications_s: 20, ..all() });
    let conn = desk.connected("");
    let publish = |data: Value| json!({"id": 2, "publish": {"channel": "a", "data": data}});
    assert_eq!(code(&desk.ask(conn, publish(json!("x".repeat(NOTIFY_BODY_BYTES_MAX))))), 106);
    assert_eq!(code(&desk.ask(conn, json!({"id": 2, "publish": {"channel": "a"}}))), 107);
    let deep =
        format!("{{\"id\":2,\"publish\":{{\"channel\":\"a\",\"data\":{}{}}}}}", "[".repeat(1_000), "]".repeat(1_000));
    assert_eq!(code(&desk.send(conn, &deep).0[0]), 107);
    let lines: String = (0..600).map(|_| format!("{}\n", publish(json!(1)))).collect();
    let (said, _) = desk.send(conn, &lines);
    let done = said.iter().filter(|said| said["publish"].is_object()).count();
    assert!(said.len() == 600 && done <= 32, "{done} at once");
    let done: usize =
        (0..300).map(|_| desk.ask(conn, publish(json!(1)))).filter(|said| said["publish"].is_object()).count();
    assert!(done < 250, "{done}: its address is held");
}

/// Output that is not taken is not read from the store: a client that requests much and takes
/// nothing costs a page or two.
#[test]
fn who_takes_nothing_is_told_nothing_more() {
    let mut desk = Desk::new(all());
    let large = "x".repeat(30_000);
    (0..90).for_each(|_| drop(desk.publish("a", &large)));
    desk.host.prompt = false;
    let conn = desk.connect();
    let bytes = [upgrade("").into_bytes(), frame(0x81, b"{\"id\":1,\"connect\":{}}")].concat();
    desk.host.turn(Input::Received { conn, bytes: &bytes });
    let mut most = 0;
    for id in 0..300 {
        let history = json!({"id": id + 2, "history": {"channel": "a", "limit": -1}}).to_string();
        let bytes = [history, recover(id + 1_000, "a", "", 1).to_string()].join("\n");
        desk.host.turn(Input::Received { conn, bytes: &frame(0x81, bytes.as_bytes()) });
        most = most.max(desk.host.shard.counters().outbound_bytes.get());
    }
    assert!(most < 8 * u64::from(NOTIFY_PAGE_BYTES_MAX), "{most} bytes wait");
}

/// A slow client's subscription continues without a gap as long as the missing items are stored,
/// and starts anew when they are not.
#[test]
fn a_slow_client_has_every_publication_once_or_is_told_that_some_are_missing() {
    for (kept, whole) in [(150, true), (3, false)] {
        let mut desk = Desk::new(Channels { items_max: kept, ..all() });
        let conn = desk.connected("");
        desk.ask(conn, subscribe(2, "a"));
        desk.host.prompt = false;
        let (publisher, large) = (desk.connect(), "x".repeat(10_000));
        let mut bytes = Vec::new();
        let mut take =
            |effects: &[throng_engine::io::Effect]| bytes.extend(crate::notify_world::bytes_to(effects, conn).0);
        for number in 0..100 {
            let post = crate::notify_world::post("a", "", &format!("{number:03}{large}"));
            take(&desk.host.turn(Input::Received { conn: publisher, bytes: post.as_bytes() }));
            desk.host.turn(Input::Sent { conn: publisher });
        }
        (0..300).for_each(|_| take(&desk.host.sent(conn)));
        let (mut got, mut rest) = (Vec::new(), &bytes[..]);
        while let Some((said, length)) = first_frame(rest) {
            got.push(serde_json::from_str::<Value>(&said).unwrap());
            rest = &rest[length..];
        }
        let offsets: Vec<_> = got.iter().filter_map(|push| push["push"]["pub"]["offset"].as_u64()).collect();
        let ended = got.iter().position(|push| push["push"]["unsubscribe"]["code"] == json!(2500));
        assert_eq!(offsets, (1..=offsets.len() as u64).collect::<Vec<_>>(), "each once, in order");
        assert_eq!((offsets.len() == 100, ended.is_none()), (whole, whole), "{} came", offsets.len());
        assert!(whole || ended == Some(got.len() - 1), "nothing comes behind the end");
    }
}

#[test]
fn a_node_that_is_not_open_is_refused() {
    let mut desk = Desk::new(all());
    let romeo = desk.user("romeo");
    desk.makes(romeo, "shut", &[("pubsub#access_model", "whitelist")]);
    let conn = desk.connected("");
    assert_eq!(code(&desk.ask(conn, subscribe(2, "shut"))), 103);
    assert_eq!(code(&desk.ask(conn, json!({"id": 3, "publish": {"channel": "shut", "data": 1}}))), 103);
    assert_eq!(code(&desk.ask(conn, json!({"id": 4, "history": {"channel": "shut", "limit": 5}}))), 103);
    assert!(desk.ask(conn, subscribe(5, "a"))["subscribe"].is_object(), "and others go on");
    desk.host.turn(Input::Command { token: 1, command: Command::Shutdown });
}

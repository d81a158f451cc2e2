//! Web Push (RFC 8030) to closed pages, at `/n/` of one shard: who may register, who receives which
//! items, what ends a registration, and how much one address, one page and one push service can
//! cost the server.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use serde_json::Value;
use throng_engine::id::{ConnId, PushId};
use throng_engine::io::{Command, Effect, Input, PushOutcome, Reply, StorageState, WebPush};
use throng_engine::limits::{
    NODE_WAITING_PER_USER_MAX, NOTIFY_PUSH_BYTES_MAX, NOTIFY_PUSH_PATIENCE_MS, NOTIFY_PUSH_UNDER_WAY_MAX,
    PARKED_STANZAS_MAX,
};
use throng_engine::store::{Query, Table};
use throng_engine::web::access::Access;
use throng_engine::web::policy::Channels;
use throng_engine::web::push::Push;

use crate::issuer::{NOW_S, Signer, access};
use crate::notify_world::{Desk, Heard, TOKEN, open, post, pubsub, settings, upgrade};

const KEY: &str = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const DAY_S: u64 = 86_400;

pub(super) fn push() -> Push {
    Push {
        key: KEY.into(),
        services: Box::new(["push.example".into(), ".others.example".into()]),
        channel_max: 1_000,
        address_max: 400,
        hold_s: 60 * DAY_S,
        interval_ms: 10_000,
    }
}

fn channels() -> Channels {
    Channels { push: Some(Arc::new(push())), ..open() }
}

/// A browser's subscription.
pub(super) fn subscription(host: &str, number: u32) -> String {
    let keys = format!("{{\"p256dh\":\"{KEY}\",\"auth\":\"BTBZMqHH6r4Tts7J_aSIgg\"}}");
    format!("{{\"endpoint\":\"https://{host}/p/{number}\",\"expirationTime\":null,\"keys\":{keys}}}")
}

fn json(heard: &Heard) -> Value {
    serde_json::from_str(heard.body()).unwrap_or_else(|_| panic!("{}", heard.text))
}

/// A push, and the token under which its outcome is reported.
type Pushed = (u64, WebPush);

fn pushes(effects: Vec<Effect>) -> Vec<Pushed> {
    let pushed = |effect| if let Effect::Push { token, push } = effect { Some((token, *push)) } else { None };
    effects.into_iter().filter_map(pushed).collect()
}

fn content(push: &WebPush) -> Value {
    serde_json::from_slice(&push.content).expect("JSON")
}

impl Desk {
    fn put(&mut self, path: &str, fields: &str, body: &str) -> Heard {
        let conn = self.connect();
        self.put_from(conn, path, fields, body)
    }

    fn put_from(&mut self, conn: ConnId, path: &str, fields: &str, body: &str) -> Heard {
        let length = body.len();
        let head = format!("PUT /n/{path} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {length}\r\n\r\n");
        self.says(conn, &(head + body))
    }

    /// A page registers; returns the registration's id.
    fn registers(&mut self, channel: &str, number: u32) -> String {
        let heard = self.put(&format!("{channel}?push"), "", &subscription("push.example", number));
        assert_eq!(heard.status(), "200", "{}", heard.text);
        json(&heard)["push"].as_str().expect("an id").into()
    }

    fn unregisters(&mut self, path: &str) -> Heard {
        let conn = self.connect();
        self.says(conn, &format!("DELETE /n/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// Publishes an item; returns the immediate pushes.
    fn wakes(&mut self, channel: &str, fields: &str, body: &str) -> Vec<Pushed> {
        let fields = format!("Content-Type: text/plain\r\n{fields}");
        pushes(self.published(channel, &fields, body).1)
    }

    fn comes_of(&mut self, pushed: &[Pushed], outcome: PushOutcome) -> Vec<Pushed> {
        let all = pushed.iter().flat_map(|(token, _)| self.host.turn(Input::Pushed { token: *token, outcome }));
        pushes(all.collect())
    }

    fn counts(&self) -> [u64; 5] {
        let c = self.host.shard.counters();
        [
            &c.notify_push_registered,
            &c.notify_push_sent,
            &c.notify_push_failed,
            &c.notify_push_unsent,
            &c.notify_push_removed,
        ]
        .map(|counter| counter.get())
    }

    /// Number of rows with registrations and their counts.
    fn rows(&self, channel: &str) -> usize {
        let node = format!("pubsub.localhost/{channel}");
        self.host.disk.rows_of(Table::Nodes, &node).filter(|(sort, _)| matches!(sort.first(), Some(9 | 10))).count()
    }

    fn turn_channels_to(&mut self, channels: Channels) {
        self.host.turn(Input::Command { token: 1, command: Command::Turn(Arc::new(settings(1, channels))) });
    }
}

#[test]
fn a_page_that_has_registered_is_told_of_each_item_until_it_does_not_want_that_any_more() {
    let mut desk = Desk::new(channels());
    let conn = desk.connect();
    assert_eq!(json(&desk.get(conn, "?push-key")), serde_json::json!({ "key": KEY }), "RFC 8292 3.2");
    let heard = desk.put("a?push", "", &subscription("push.example", 1));
    let answer = json(&heard);
    let id = answer["push"].as_str().expect("an id").to_owned();
    assert_eq!((heard.status(), &answer["channel"]), ("200", &Value::from("a")));
    assert_eq!(answer["until"], "2024-01-13T22:13:20Z", "60 days later");
    let pushed = desk.wakes("a", "", "one");
    let [(_, push)] = &pushed[..] else { panic!("{pushed:?}") };
    assert_eq!((&*push.endpoint, push.service, push.auth[0]), ("https://push.example/p/1", 0, 5));
    assert_eq!((push.p256dh[0], &push.topic), (4, &None));
    let told = content(push);
    assert_eq!((&told["channel"], &told["id"], &told["data"]), (&"a".into(), &"1".into(), &"one".into()));
    assert_eq!(told.get("more"), None);
    desk.comes_of(&pushed, PushOutcome::Sent);
    // Registering again renews it.
    assert_eq!((desk.registers("a", 1), desk.rows("a")), (id.clone(), 3));
    assert_eq!(desk.unregisters(&format!("a?push={id}")).status(), "204");
    assert_eq!((desk.rows("a"), desk.unregisters(&format!("a?push={id}")).status()), (0, "204"));
    desk.passes(10);
    assert!(desk.wakes("a", "", "two").is_empty());
    assert_eq!(desk.counts(), [2, 1, 0, 0, 0]);
}

#[test]
fn of_what_comes_within_the_interval_the_last_item_is_told_at_its_end() {
    let mut desk = Desk::new(channels());
    desk.registers("a", 1);
    let first = desk.wakes("a", "", "one");
    desk.comes_of(&first, PushOutcome::Sent);
    for text in ["two", "three", "four"] {
        assert!(desk.wakes("a", "", text).is_empty());
    }
    let told = pushes(desk.passes(9));
    assert!(told.is_empty(), "{told:?}");
    let told = pushes(desk.passes(2));
    assert_eq!(told.len(), 1);
    let item = content(&told[0].1);
    assert_eq!((&item["data"], &item["id"], &item["more"]), (&"four".into(), &"4".into(), &2.into()));
    desk.comes_of(&told, PushOutcome::Sent);
    desk.passes(10);
    assert_eq!(desk.wakes("a", "", "five").len(), 1, "after that it is told at once again");
}

/// A way to listen on a connection.
type Way<'a> = &'a dyn Fn(&mut Desk, ConnId);

#[test]
fn a_page_that_listens_is_told_nothing() {
    let mut desk = Desk::new(channels());
    let (id, _) = (desk.registers("a", 1), desk.registers("a", 2));
    let ways: [Way<'_>; 3] = [
        &|desk, conn| drop(desk.stream(conn, &format!("a?push={id}"), "")),
        &|desk, conn| {
            let asks = upgrade(&format!("a?push={id}"), crate::notify_world::KEY);
            drop(desk.host.turn(Input::Received { conn, bytes: asks.as_bytes() }));
        },
        &|desk, conn| drop(desk.get(conn, &format!("a?wait=60&push={id}"))),
    ];
    for (at, listens) in ways.iter().enumerate() {
        let conn = desk.connect();
        listens(&mut desk, conn);
        let told = desk.wakes("a", "", "x");
        assert_eq!(
            told.iter().map(|(_, push)| &*push.endpoint).collect::<Vec<_>>(),
            ["https://push.example/p/2"],
            "{at}"
        );
        desk.comes_of(&told, PushOutcome::Sent);
        desk.passes(40);
        let told = desk.wakes("a", "", "x");
        // A poll was answered by the first item: an answered poll does not listen.
        assert_eq!(told.len(), if at == 2 { 2 } else { 1 }, "it is told so still");
        desk.comes_of(&told, PushOutcome::Sent);
        desk.host.turn(Input::Closed { conn });
        desk.passes(10);
        let told = desk.wakes("a", "", "x");
        assert_eq!(told.len(), 2, "it has been closed");
        desk.comes_of(&told, PushOutcome::Sent);
        desk.passes(10);
    }
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a?wait=1&push=x").status(), "400");
}

#[test]
fn an_item_with_a_key_has_a_topic_by_which_later_pushes_replace_it() {
    let mut desk = Desk::new(channels());
    desk.registers("a", 1);
    let mut topics = Vec::new();
    for (key, text) in [("ACME", "1"), ("ACME", "2"), ("OTHER", "3")] {
        let told = desk.wakes("a", &format!("Item-Key: {key}\r\n"), text);
        let topic = told[0].1.topic.clone().expect("a topic");
        assert!(
            topic.len() <= 32 && topic.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)),
            "RFC 8030 5.4"
        );
        assert_eq!(content(&told[0].1)["key"], key);
        topics.push(topic);
        desk.comes_of(&told, PushOutcome::Sent);
        desk.passes(10);
    }
    assert!(topics[0] == topics[1] && topics[1] != topics[2]);
}

/// RFC 8291 4: a push service need not accept more than 4,096 bytes.
#[test]
fn what_does_not_fit_into_a_push_is_read_from_the_channel() {
    let mut desk = Desk::new(channels());
    desk.registers("a", 1);
    let told = desk.wakes("a", "", &"x".repeat(3_800));
    assert!(told[0].1.content.len() <= NOTIFY_PUSH_BYTES_MAX);
    assert_eq!(content(&told[0].1)["data"].as_str().map(str::len), Some(3_800));
    desk.comes_of(&told, PushOutcome::Sent);
    desk.passes(10);
    let told = desk.wakes("a", "", &"x".repeat(32_000));
    assert_eq!(content(&told[0].1), serde_json::json!({ "channel": "a", "id": "2" }));
    // Also for an item published by XMPP with an id of maximum length.
    desk.comes_of(&told, PushOutcome::Sent);
    desk.passes(10);
    let admin = desk.user("admin");
    let id = "&quot;".repeat(900);
    let item = format!("<publish node='a'><item id='{id}'><x xmlns='y'/></item></publish>");
    let told = pushes(desk.host.ask(admin, &pubsub(true, &item)));
    assert_eq!(told.len(), 1);
    assert!(told[0].1.content.len() <= NOTIFY_PUSH_BYTES_MAX);
    assert_eq!(content(&told[0].1)["id"], "3");
}

/// RFC 8030 7.3.
#[test]
fn a_registration_ends_with_its_subscription_its_time_and_its_node() {
    let mut desk = Desk::new(channels());
    for number in 0..3 {
        desk.registers("a", number);
    }
    let told = desk.wakes("a", "", "x");
    assert_eq!(told.len(), 3);
    desk.comes_of(&told[..1], PushOutcome::Gone);
    desk.comes_of(&told[1..2], PushOutcome::Failed);
    desk.comes_of(&told[2..], PushOutcome::Sent);
    assert_eq!(desk.counts(), [3, 1, 1, 0, 1]);
    assert_eq!(desk.rows("a"), 4, "what has failed stays");
    // One has its own expiry and has already expired on arrival.
    let at = |ms: u64| subscription("push.example", 9).replace("null", &ms.to_string());
    let heard = desk.put("a?push", "", &at((NOW_S + 3_600) * 1_000));
    assert_eq!(json(&heard)["until"], "2023-11-14T23:13:20Z");
    assert_eq!(desk.put("a?push", "", &at(NOW_S * 1_000)).status(), "400");
    desk.host.now.pass_wall(3_600_000_000);
    desk.passes(10);
    let told = desk.wakes("a", "", "x");
    assert_eq!((told.len(), desk.rows("a")), (2, 4), "it has been removed");
    desk.host.now.pass_wall(61 * DAY_S * 1_000_000);
    desk.passes(10);
    assert_eq!((desk.wakes("a", "", "x").len(), desk.rows("a")), (0, 0));
    desk.registers("a", 1);
    let admin = desk.user("admin");
    let delete = "<iq type='set' id='q' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
                  <delete node='a'/></pubsub></iq>";
    desk.host.ask(admin, delete);
    assert_eq!(desk.rows("a"), 0);
}

#[test]
fn registrations_are_there_after_a_restart() {
    let mut desk = Desk::new(channels());
    desk.registers("a", 1);
    let mut desk = desk.restarts(channels());
    assert_eq!(desk.wakes("a", "", "x").len(), 1);
    assert!(desk.wakes("b", "", "x").is_empty());
    // Once no registrations are found they are not read again, until somebody registers.
    let reads = |desk: &mut Desk| {
        let (_, effects) = desk.published("b", "Content-Type: text/plain\r\n", "x");
        let of_pages = |query: &Query| matches!(query, Query::Range { from, .. } if from.first() == Some(&9));
        let reads = |effect: &&Effect| matches!(effect, Effect::Read { queries, .. } if queries.iter().any(of_pages));
        effects.iter().filter(reads).count()
    };
    desk.passes(20);
    let before = reads(&mut desk);
    desk.registers("b", 1);
    desk.passes(20);
    assert_eq!(reads(&mut desk), before + 1);
}

#[test]
fn there_are_no_pushes_unless_the_operator_wants_them() {
    let mut desk = Desk::new(open());
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "?push-key").status(), "404");
    assert_eq!(desk.put("a?push", "", &subscription("push.example", 1)).status(), "404");
    assert_eq!(desk.unregisters("a?push=AAAAAAAAAAAAAAAAAAAAAA").status(), "404");
    // Earlier registrations wait until push is enabled again, and do no harm.
    let mut desk = Desk::new(channels());
    let id = desk.registers("a", 1);
    let mut desk = desk.restarts(open());
    assert!(desk.wakes("a", "", "x").is_empty());
    let conn = desk.connect();
    assert_eq!(desk.get(conn, &format!("a?wait=0&after=0&push={id}")).status(), "200");
    let mut desk = desk.restarts(channels());
    assert_eq!(desk.wakes("a", "", "x").len(), 1);
    // Nor is a push service used that the operator has removed from the list.
    let services = Box::new([".others.example".into()]);
    let mut desk = desk.restarts(Channels { push: Some(Arc::new(Push { services, ..push() })), ..open() });
    assert!(desk.wakes("a", "", "x").is_empty());
    assert_eq!(desk.rows("a"), 3);
}

#[test]
fn what_is_no_registration_is_refused() {
    let mut desk = Desk::new(Channels { prefixes: Box::new(["a".into()]), ..channels() });
    let good = subscription("push.example", 1);
    for (path, body) in [
        ("a?push", ""),
        ("a?push", "[]"),
        ("a?push", &subscription("10.0.0.1", 1)),
        ("a?push", &subscription("push.example:8443", 1)),
        ("a?push", &subscription("push.example@evil.example", 1)),
        ("a?push", &good.replace("https", "http")),
        ("a?push", &good.replace("BTBZ", "")),
        ("a?push=x", &good),
        ("a", &good),
        ("a,ab?push", &good),
    ] {
        let heard = desk.put(path, "", body);
        assert_eq!(heard.status(), "400", "{path} {body}: {}", heard.text);
    }
    assert_eq!(desk.put("b?push", "", &good).status(), "404");
    assert_eq!(desk.put("a?push", "", &" ".repeat(5_000)).status(), "400");
    for path in ["a", "a?push", "a?push=x"] {
        assert_eq!(desk.unregisters(path).status(), "400", "{path}");
    }
    assert_eq!((desk.rows("a"), desk.counts()), (0, [0; 5]));
    // The disk is full.
    desk.host.turn(Input::Storage(StorageState::Full));
    assert_eq!(desk.put("a?push", "", &good).status(), "503");
}

fn claims(more: &str) -> String {
    let token =
        Signer::Hs256.token(&format!("\"exp\":{},\"jti\":\"one\",\"subscribe\":[\"own.*\"]{more}", NOW_S + 600));
    format!("Authorization: Bearer {token}\r\n")
}

fn private() -> Channels {
    Channels { private: Box::new(["own.".into()]), access: Some(Arc::new(access())), ..channels() }
}

#[test]
fn who_may_subscribe_may_register_for_as_long_as_the_token_says() {
    let mut desk = Desk::new(private());
    let good = subscription("push.example", 1);
    assert_eq!(desk.put("own.a?push", "", &good).status(), "401");
    let heard = desk.put("own.a?push", &claims(""), &good);
    assert_eq!(json(&heard)["until"], "2023-11-14T22:23:20Z", "as long as the token");
    let heard = desk.put("own.a?push", &claims(&format!(",\"push\":{}", NOW_S + DAY_S)), &good);
    assert_eq!(json(&heard)["until"], "2023-11-15T22:13:20Z", "or as it says");
    let heard = desk.put("own.a?push", &claims(",\"push\":\"x\""), &good);
    assert_eq!(heard.status(), "401", "{}", heard.text);
    assert_eq!(desk.put("own.a?push", &claims(",\"push\":1"), &good).status(), "400", "it is over");
    let heard = desk.put("own.a?push", &claims(",\"push\":99999999999"), &good);
    assert_eq!(json(&heard)["until"], "2024-01-13T22:13:20Z", "and never longer than others");
    let id = json(&heard)["push"].as_str().expect("an id").to_owned();
    let other = Signer::Hs256.token(&format!("\"exp\":{},\"subscribe\":[\"other.*\"]", NOW_S + 600));
    let heard = desk.put("own.a?push", &format!("Authorization: Bearer {other}\r\n"), &good);
    assert_eq!(heard.status(), "403");
    let publishes = format!("Authorization: Bearer {TOKEN}\r\n");
    let told = desk.wakes("own.a", &publishes, "x");
    assert_eq!(told.len(), 1);
    desk.comes_of(&told, PushOutcome::Sent);
    // The token has expired, the registration has not.
    desk.host.now.pass_wall(3_600_000_000);
    desk.passes(10);
    assert_eq!(desk.wakes("own.a", &publishes, "x").len(), 1);
    // The id suffices to end it without a token, and is required: it cannot be guessed.
    assert_eq!(desk.unregisters("own.a?push=AAAAAAAAAAAAAAAAAAAAAA").status(), "204");
    assert_eq!(desk.rows("own.a"), 3);
    assert_eq!(desk.unregisters(&format!("own.a?push={id}")).status(), "204");
    assert_eq!(desk.rows("own.a"), 0);
}

#[test]
fn a_token_that_is_taken_back_ends_what_was_registered_by_it() {
    let publishes = format!("Authorization: Bearer {TOKEN}\r\n");
    let hold = format!(",\"push\":{}", NOW_S + DAY_S);
    for (turned, left) in [
        (Channels { access: Some(Arc::new(Access { revoked: ["one".into()].into(), ..access() })), ..private() }, 0),
        (Channels { access: Some(Arc::new(Access { keys: Default::default(), ..access() })), ..private() }, 0),
        // Without the operator's keys nothing is pushed for now, and nothing is removed.
        (Channels { access: None, ..private() }, 3),
    ] {
        let mut desk = Desk::new(private());
        assert_eq!(desk.put("own.a?push", &claims(&hold), &subscription("push.example", 1)).status(), "200");
        desk.turn_channels_to(turned);
        assert!(desk.wakes("own.a", &publishes, "x").is_empty());
        assert_eq!(desk.rows("own.a"), left);
    }
    // Nor if the channel was closed, which takes a restart.
    let mut desk = Desk::new(private());
    assert_eq!(desk.put("own.a?push", &claims(&hold), &subscription("push.example", 1)).status(), "200");
    let mut desk = desk.restarts(Channels { private: Box::default(), prefixes: Box::default(), ..private() });
    assert!(desk.wakes("own.a", &publishes, "x").is_empty());
    assert_eq!(desk.rows("own.a"), 3);
    // A channel is no longer open: a page registered without a token is not notified.
    let mut desk = Desk::new(channels());
    desk.registers("own.a", 1);
    let mut desk = desk.restarts(private());
    assert!(desk.wakes("own.a", &publishes, "x").is_empty());
    assert_eq!(desk.rows("own.a"), 3);
}

#[test]
fn a_node_that_is_not_open_tells_nobody() {
    let mut desk = Desk::new(channels());
    let romeo = desk.user("romeo");
    desk.makes(romeo, "a", &[("pubsub#access_model", "whitelist")]);
    assert_eq!(desk.put("a?push", "", &subscription("push.example", 1)).status(), "403");
    desk.makes(romeo, "b", &[]);
    desk.registers("b", 1);
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>http://jabber.org/protocol/\
                pubsub#node_config</value></field><field var='pubsub#access_model'><value>whitelist</value></field></x>";
    let closes = format!(
        "<iq type='set' id='q' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
         <configure node='b'>{form}</configure></pubsub></iq>"
    );
    desk.host.ask(romeo, &closes);
    let told = pushes(desk.host.ask(romeo, &pubsub(true, "<publish node='b'><item><x xmlns='y'/></item></publish>")));
    assert!(told.is_empty());
}

#[test]
fn registrations_of_a_channel_and_of_an_address_are_bounded() {
    let few = Push { channel_max: 5, address_max: 3, ..push() };
    let mut desk = Desk::new(Channels { push: Some(Arc::new(few)), ..open() });
    let put = |desk: &mut Desk, address: [u8; 4], number: u32| {
        let conn = desk.connect_from(address);
        desk.put_from(conn, "a?push", "", &subscription("push.example", number)).status().to_owned()
    };
    let statuses: Vec<_> = (0..4).map(|number| put(&mut desk, [192, 0, 2, 1], number)).collect();
    assert_eq!(statuses, ["200", "200", "200", "429"]);
    let statuses: Vec<_> = (4..7).map(|number| put(&mut desk, [192, 0, 2, 2], number)).collect();
    assert_eq!(statuses, ["200", "200", "429"]);
    assert_eq!(put(&mut desk, [192, 0, 2, 9], 1), "200", "to renew one is no new one");
    let told = desk.wakes("a", "", "x");
    assert_eq!(told.len(), 5);
    desk.comes_of(&told, PushOutcome::Gone);
    assert_eq!(desk.rows("a"), 0, "all are given back");
    assert_eq!(put(&mut desk, [192, 0, 2, 1], 1), "200");
}

#[test]
fn an_address_registers_no_more_than_it_publishes_and_makes_few_channels() {
    let mut desk = Desk::new(Channels { publications_s: 20, ..channels() });
    let mut made = 0;
    while desk.put(&format!("a{made}?push"), "", &subscription("push.example", 1)).status() == "200" {
        made += 1;
    }
    assert_eq!(made, 11, "channels that nobody has published at count as made");
    let mut taken = 0;
    let heard = loop {
        let heard = desk.put("a0?push", "", &subscription("push.example", 1));
        if heard.status() != "200" || taken > 1_000 {
            break heard;
        }
        taken += 1;
    };
    assert!((150..250).contains(&taken), "{taken}");
    assert_eq!((heard.status(), heard.field("Retry-After")), ("429", Some("1")));
    assert_eq!(desk.unregisters("a0?push=AAAAAAAAAAAAAAAAAAAAAA").status(), "429");
}

#[test]
fn a_push_service_that_does_not_answer_holds_up_no_other_channel_and_is_given_up() {
    let mut desk = Desk::new(channels());
    for number in 0..350 {
        desk.registers("a", number);
    }
    let told = desk.wakes("a", "", "x");
    assert_eq!(told.len(), NOTIFY_PUSH_UNDER_WAY_MAX, "so many are under way");
    let heard = desk.put("b?push", "", &subscription("eu.others.example", 1));
    assert_eq!(heard.status(), "200");
    assert_eq!(desk.wakes("b", "", "x").len(), 1, "another service is asked");
    // As soon as some are accepted, the round continues.
    desk.comes_of(&told[..50], PushOutcome::Sent);
    let more = pushes(desk.passes(1));
    assert_eq!(more.len(), 50);
    assert!(more.iter().all(|(_, push)| told.iter().all(|(_, before)| before.endpoint != push.endpoint)));
    // And it ends.
    desk.passes(NOTIFY_PUSH_PATIENCE_MS / 1_000 + 1);
    assert_eq!(desk.counts()[3], 44);
    desk.comes_of(&told[50..], PushOutcome::Failed);
    desk.comes_of(&more, PushOutcome::Failed);
    assert_eq!(desk.wakes("a", "", "x").len(), NOTIFY_PUSH_UNDER_WAY_MAX);
}

#[test]
fn who_publishes_is_charged_for_those_who_are_woken() {
    let mut desk = Desk::new(Channels { publications_s: 20, ..channels() });
    for number in 0..160 {
        let conn = desk.connect_from([198, 51, 100, 1]);
        desk.put_from(conn, "a?push", "", &subscription("push.example", number));
        desk.passes(1);
    }
    // The number of registrations is known when the first round is over.
    let told = desk.wakes("a", "", "x");
    assert_eq!(told.len(), 160);
    desk.comes_of(&told, PushOutcome::Sent);
    desk.passes(20);
    let mut published = 0;
    while desk.publish("a", "x").status() == "200" {
        published += 1;
    }
    // Ten seconds' worth are permitted at once, and each counts as one. The first one begins a
    // round, and the next round delivers the second one: each of these counts as ten more.
    assert_eq!(published, 201 - 2 * 10);
}

/// An operator's sweep: nothing is published at these channels.
#[test]
fn registrations_at_silent_channels_end_by_the_sweep() {
    let mut desk = Desk::new(private());
    let ends = |desk: &mut Desk| {
        let nodes = ["own.a", "b", "c", "nobody"].map(|channel| format!("pubsub.localhost/{channel}").into());
        let command = Command::EndRegistrations { nodes: nodes.into() };
        let effects = desk.host.turn(Input::Command { token: 7, command });
        let reply = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply { token: 7, reply, .. } => Some(reply),
            _ => None,
        });
        reply.expect("it is answered")
    };
    let (hold, soon) = (format!(",\"push\":{}", NOW_S + DAY_S), ((NOW_S + 60) * 1_000).to_string());
    assert_eq!(desk.put("own.a?push", &claims(&hold), &subscription("push.example", 1)).status(), "200");
    for number in 0..150 {
        let brief = subscription("push.example", number).replace("null", &soon);
        assert_eq!(desk.put("b?push", "", &brief).status(), "200");
    }
    desk.registers("b", 200);
    desk.registers("c", 1);
    assert_eq!(ends(&mut desk), Reply::Done(0));
    assert_eq!(["own.a", "b", "c"].map(|channel| desk.rows(channel)), [3, 153, 3]);
    desk.host.now.pass_wall(61_000_000);
    desk.host.turn(Input::Storage(StorageState::Full));
    assert_eq!((ends(&mut desk), desk.rows("b")), (Reply::StoreFull, 153));
    desk.host.turn(Input::Storage(StorageState::Ok));
    assert_eq!(ends(&mut desk), Reply::Done(150));
    assert_eq!(["own.a", "b", "c"].map(|channel| desk.rows(channel)), [3, 3, 3], "the others hold still");
    // Registrations with a revoked token are also removed, and none that the operator has merely
    // closed.
    let closed = Channels { prefixes: Box::default(), access: None, push: None, ..private() };
    desk.turn_channels_to(closed);
    assert_eq!((ends(&mut desk), desk.rows("own.a")), (Reply::Done(0), 3));
    let access = Access { revoked: ["one".into()].into(), ..access() };
    desk.turn_channels_to(Channels { access: Some(Arc::new(access)), ..private() });
    assert_eq!((ends(&mut desk), desk.rows("own.a")), (Reply::Done(1), 0));
    desk.host.now.pass_wall(60 * DAY_S * 1_000_000);
    assert_eq!(ends(&mut desk), Reply::Done(2));
    assert_eq!(["own.a", "b", "c"].map(|channel| desk.rows(channel)), [0; 3]);
    assert_eq!((ends(&mut desk), desk.counts()[4]), (Reply::Done(0), 153));
}

/// Unreadable ones are neither removed nor retain the others.
#[test]
fn a_sweep_passes_what_it_cannot_read() {
    let mut desk = Desk::new(channels());
    let id = PushId::read(&desk.registers("a", 1)).expect("an id");
    desk.registers("a", 2);
    desk.host.disk.put(Table::Nodes, "pubsub.localhost/a", &[&[9][..], &id.0].concat(), b"\x09");
    desk.host.now.pass_wall(61 * DAY_S * 1_000_000);
    let command = Command::EndRegistrations { nodes: vec!["pubsub.localhost/a".into()] };
    desk.host.turn(Input::Command { token: 7, command });
    assert_eq!((desk.rows("a"), desk.counts()[4]), (3, 1));
}

#[test]
fn a_registration_that_cannot_be_read_tells_nobody() {
    let mut desk = Desk::new(channels());
    desk.registers("a", 1);
    let id = PushId::read(&desk.registers("a", 2)).expect("an id");
    desk.host.disk.put(Table::Nodes, "pubsub.localhost/a", &[&[9][..], &id.0].concat(), b"\x09");
    assert_eq!(desk.wakes("a", "", "x").len(), 1);
}

/// Waiting requests are counted by network (a /64 of IPv6), and none of them takes a place reserved
/// for the operator.
#[test]
fn registrations_leave_room_for_other_networks_and_for_the_operator() {
    let one: Vec<IpAddr> = (0..150).map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, n).into()).collect();
    let many = (0..15).flat_map(|net| (0..80).map(move |n| Ipv6Addr::new(0x2001, 0xdb8, 0, net, 0, 0, 0, n).into()));
    let many: Vec<IpAddr> = many.collect();
    let fit = [1 + NODE_WAITING_PER_USER_MAX, 1 + PARKED_STANZAS_MAX - NODE_WAITING_PER_USER_MAX];
    for (storm, fit) in [one, many].into_iter().zip(fit) {
        let is_full = storm.len() > PARKED_STANZAS_MAX;
        let push = Push { channel_max: 10_000, address_max: 10_000, ..push() };
        let mut desk = Desk::new(Channels { push: Some(Arc::new(push)), ..open() });
        let storm: Vec<ConnId> = storm.into_iter().map(|peer| desk.connect_by(peer)).collect();
        let (other, operator) = (desk.connect(), desk.connect());
        let register = |number: u32| {
            let body = subscription("push.example", number);
            format!("PUT /n/a?push HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        };
        for (number, conn) in (0..).zip(&storm) {
            desk.host.take(Input::Received { conn: *conn, bytes: register(number).as_bytes() });
        }
        desk.host.take(Input::Received { conn: other, bytes: register(9_999).as_bytes() });
        let publish = post("a", &format!("Authorization: Bearer {TOKEN}\r\n"), "x");
        desk.host.take(Input::Received { conn: operator, bytes: publish.as_bytes() });
        let effects = desk.host.turn(Input::EndOfTurn);
        let good = |conn: ConnId| Heard::of(&effects, conn).status().starts_with('2');
        assert_eq!(storm.iter().filter(|conn| good(**conn)).count(), fit);
        assert_eq!((good(other), good(operator)), (!is_full, true));
    }
}

//! Items with keys (`/n/`): only the last one of each key matters. It replaces the previous one, in
//! the history and for slow subscribers.

use throng_engine::io::Input;
use throng_engine::limits::{NOTIFY_BATCH_ITEMS_MAX, NOTIFY_KEY_BYTES_MAX};
use throng_engine::store::Table;
use throng_engine::web::policy::Channels;
use throng_sim::host::said as words;

use crate::notify_world::{Desk, Heard, data, open, post, pubsub};

const BATCH: &str = "Content-Type: application/x-ndjson\r\nItem-Key-Member: k\r\n";

fn with(key: &str) -> String {
    format!("Content-Type: text/plain\r\nItem-Key: {key}\r\n")
}

/// The stored items after a position: their data, and whether some are reported missing.
fn behind(desk: &mut Desk, after: u64) -> (Vec<String>, bool) {
    let conn = desk.connect();
    let heard = desk.get(conn, &format!("a?after={after}"));
    (heard.data().into_iter().map(Into::into).collect(), heard.text.contains("\"gaps\":[\"a\"]"))
}

fn rows(desk: &Desk) -> usize {
    desk.host.disk.rows_of(Table::Nodes, "pubsub.localhost/a").count()
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).into()).collect()
}

#[test]
fn the_last_item_of_a_key_is_kept_and_no_gap_is_told() {
    let mut desk = Desk::new(open());
    for (fields, body) in [(with("x"), "x1"), (with("y"), "y1"), (String::new(), "no key"), (with("x"), "x2")] {
        assert_eq!(desk.publish_with("a", &fields, body).status(), "200");
    }
    let conn = desk.connect();
    let heard = desk.get(conn, "a");
    assert!(heard.body().contains("\"id\":\"4\",\"item\":\"key-x\",\"key\":\"x\",\"time\""), "{}", heard.text);
    assert_eq!(heard.text.matches("\"key\"").count(), 2);
    // A late reader, one with the first item, and one with all but the last.
    for (after, expected) in [(0, &["y1", "no key", "x2"][..]), (1, &["y1", "no key", "x2"]), (3, &["x2"])] {
        assert_eq!(behind(&mut desk, after), (texts(expected), false), "{after}");
    }
    assert_eq!(rows(&desk), 7, "three items, their ids, and the directory");
    // A hundred more take no more room.
    (0..100).for_each(|_| drop(desk.publish_with("a", &with("y"), "y2")));
    assert_eq!((rows(&desk), behind(&mut desk, 2)), (7, (texts(&["no key", "x2", "y2"]), false)));
}

#[test]
fn what_was_lost_is_still_a_gap() {
    let mut desk = Desk::new(Channels { items_max: 3, items_s: 1_000, ..open() });
    (1..=3).for_each(|number| drop(desk.publish("a", &number.to_string())));
    for key in ["x", "y", "x"] {
        desk.publish_with("a", &with(key), key);
    }
    // 1 and 2 were pushed out, and the first x was replaced.
    assert_eq!(behind(&mut desk, 1), (texts(&["3", "y", "x"]), true));
    assert_eq!(behind(&mut desk, 2), (texts(&["3", "y", "x"]), false));
    // With more keys than stored items, the least recently published one is dropped.
    for key in ["v", "w"] {
        desk.publish_with("a", &with(key), key);
    }
    assert_eq!(
        (behind(&mut desk, 4), behind(&mut desk, 5)),
        ((texts(&["x", "v", "w"]), true), (texts(&["x", "v", "w"]), false))
    );
    assert_eq!(rows(&desk), 7);
    // Expired items are lost as well.
    let conn = desk.connect();
    desk.wait(conn, 1_001);
    desk.publish_with("a", &with("w"), "w2");
    assert_eq!((behind(&mut desk, 6), behind(&mut desk, 8)), ((texts(&["w2"]), true), (texts(&["w2"]), false)));
}

/// A subscriber that takes nothing for a while then receives the last of each key, each newer than
/// those it had, and nothing is missing.
#[test]
fn who_is_slow_has_the_last_of_each_key() {
    let mut desk = Desk::new(open());
    let slow = desk.connect();
    desk.stream(slow, "a", "");
    desk.host.prompt = false;
    let large = "x".repeat(10_000);
    let mut text = String::new();
    for number in 0..300 {
        // A connection carries a hundred requests.
        let publisher = desk.connect();
        let body = format!("{number:03}{large}");
        let fields = with(&format!("k{}", number % 5));
        let bytes = post("a", &fields, &body);
        let effects = desk.host.turn(Input::Received { conn: publisher, bytes: bytes.as_bytes() });
        text += &Heard::of(&effects, slow).text;
        desk.host.turn(Input::Sent { conn: publisher });
    }
    for _ in 0..100 {
        text += &Heard::of(&desk.host.sent(slow), slow).text;
    }
    assert_eq!(desk.host.shard.counters().notify_published.get(), 300);
    assert!(!text.contains("event: gap"), "300 items in a channel that keeps 100, and nothing is missing");
    let got = [text];
    let numbers: Vec<u32> = data(&got).iter().map(|data| data[..3].parse().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b) && numbers.ends_with(&[295, 296, 297, 298, 299]), "{numbers:?}");
    assert!(numbers.len() < 100, "{} were told to who takes none", numbers.len());
}

#[test]
fn keys_of_a_batch_stand_in_its_lines() {
    let mut desk = Desk::new(Channels { items_max: 5, ..open() });
    let conn = desk.connect();
    desk.stream(conn, "a", "");
    let body = "{\"k\":\"x\",\"v\":1}\n{\"k\":7}\n{\"v\":2,\"k\":\"x\"}";
    let heard = desk.told(conn, "a", BATCH, body);
    assert!(heard.text.matches("\"key\":\"x\"").count() >= 1 && heard.text.contains("\"key\":\"7\""), "{}", heard.text);
    assert_eq!((rows(&desk), behind(&mut desk, 1).1), (5, false), "what is not the last of its key is not kept");
    // More keys than are stored; and the last ones existed before.
    for _ in 0..2 {
        let many: String = (0..20).map(|key| format!("{{\"k\":{key}}}\n")).collect();
        assert_eq!(desk.publish_with("a", BATCH, &many).status(), "200");
        let many: String = (0..NOTIFY_BATCH_ITEMS_MAX).map(|line| format!("{{\"k\":{}}}\n", line % 3)).collect();
        assert_eq!(desk.publish_with("a", BATCH, &many).status(), "200");
        let conn = desk.connect();
        let heard = desk.get(conn, "a");
        let keys: Vec<_> = heard.text.split("\"key\":\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(keys, ["18", "19", "1", "2", "0"], "{}", heard.text);
        assert_eq!(rows(&desk), 11);
    }
}

#[test]
fn a_repetition_is_known_until_the_key_is_published_again() {
    let mut desk = Desk::new(open());
    let fields = |by: &str| format!("{}Idempotency-Key: {by}\r\n", with("x"));
    assert!(desk.publish_with("a", &fields("1"), "x1").body().contains("\"id\":\"1\",\"repeated\":false"));
    assert!(desk.publish_with("a", &fields("1"), "x1").body().contains("\"id\":\"1\",\"repeated\":true"));
    assert!(desk.publish_with("a", &fields("2"), "x2").body().contains("\"id\":\"2\",\"repeated\":false"));
    assert!(desk.publish_with("a", &fields("2"), "x2").body().contains("\"id\":\"2\",\"repeated\":true"));
    assert_eq!(behind(&mut desk, 0), (texts(&["x2"]), false));
    let batch = format!("{BATCH}Idempotency-Key: 3\r\n");
    for repeated in ["false", "true"] {
        let heard = desk.publish_with("a", &batch, "{\"k\":\"z\"}\n{\"k\":\"x\"}");
        assert!(heard.body().contains(&format!("\"ids\":[\"3\",\"4\"],\"repeated\":{repeated}")), "{}", heard.text);
    }
}

/// In XMPP it is the item with this id: one replaces the other, whoever publishes.
#[test]
fn by_xmpp_the_key_is_the_id() {
    let mut desk = Desk::new(open());
    desk.publish_with("a", &with("x"), "x1");
    let romeo = desk.user("romeo");
    let item = "<publish node='a'><item id='key-x'><data xmlns='urn:throng:notify:0' type='text/plain'>x2</data></item></publish>";
    let said = words(&desk.host.ask(romeo, &pubsub(true, item)));
    assert!(said.contains("type='result'"), "{said}");
    assert_eq!(behind(&mut desk, 0), (texts(&["x2"]), false));
    desk.publish_with("a", &with("x"), "x3");
    let said = words(&desk.host.ask(romeo, &pubsub(false, "<items node='a'/>")));
    assert!(said.matches("<item ").count() == 1 && said.contains("id='key-x'") && said.contains("x3"), "{said}");
    // A retracted item is lost: nothing has replaced it.
    let admin = desk.user("admin");
    let said = words(&desk.host.ask(admin, &pubsub(true, "<retract node='a'><item id='key-x'/></retract>")));
    assert!(said.contains("type='result'"), "{said}");
    assert!(behind(&mut desk, 2).1);
}

#[test]
fn what_cannot_be_a_key_is_refused() {
    let mut desk = Desk::new(open());
    let long = "x".repeat(NOTIFY_KEY_BYTES_MAX + 1);
    for fields in
        [with(&long), with("a b"), with("\u{e9}"), with("x") + "Item-Key: y\r\n", with("x") + "Item-Key-Member: k\r\n"]
    {
        assert_eq!(desk.publish_with("a", &fields, "x").status(), "400", "{fields}");
    }
    assert_eq!(desk.publish_with("a", "Item-Key-Member: k\r\n", "{\"k\":1}").status(), "400", "it is no batch");
    for line in ["1", "{}", "{\"k\":1.5}", "{\"k\":\"\"}", "{\"k\":1,\"k\":1}", "{\"k\":1"] {
        let heard = desk.publish_with("a", BATCH, &format!("{{\"k\":1}}\n{line}"));
        assert_eq!(heard.status(), "400", "{line}");
    }
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a").status(), "204", "nothing was published");
    assert_eq!(desk.publish_with("a", &with(&long[1..]), "x").status(), "200");
}

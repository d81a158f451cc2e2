//! Batches of items published at a channel (`/n/`) by one request: all or none, each a separate
//! item for everyone else.

use throng_engine::id::ConnId;
use throng_engine::io::{Effect, Input, Output};
use throng_engine::limits::{
    NOTIFY_BATCH_BYTES_MAX, NOTIFY_BATCH_ITEMS_MAX, NOTIFY_BODY_BYTES_MAX, NOTIFY_TOLD_AT_ONCE,
};
use throng_engine::store::Table;
use throng_engine::web::policy::Channels;
use throng_sim::host::{Host, said as words};

use crate::notify_world::{Desk, Heard, TOKEN, open, post, pubsub};

const BATCH: &str = "Content-Type: application/x-ndjson\r\n";

fn numbers(items: usize) -> String {
    (0..items).map(|number| format!("{number}\n")).collect()
}

#[test]
fn each_line_is_an_item_of_json() {
    let mut desk = Desk::new(open());
    desk.publish("a", "before");
    let (polls, streams) = (desk.connect(), desk.connect());
    assert_eq!(desk.get(polls, "a?after=1&wait=55"), Heard::default());
    desk.stream(streams, "a", "");
    let body = "{\"n\": 1}\r\n\n  \"<&\\n\"\n[3]";
    let (other, effects) = desk.published("a", BATCH, body);
    let answer = Heard::of(&effects, other);
    assert_eq!(answer.body(), "{\"channel\":\"a\",\"ids\":[\"2\",\"3\",\"4\"],\"repeated\":false}\n");
    let heard = Heard::of(&effects, streams);
    let ids: Vec<_> = heard.text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    assert_eq!(ids, ["2", "3", "4"], "{}", heard.text);
    assert!(Heard::of(&effects, polls).body().contains("\"id\":\"2\""), "a poll has the first at least");
    let conn = desk.connect();
    let heard = desk.get(conn, "a?after=1");
    assert_eq!(heard.text.matches("\"type\":\"application/json\"").count(), 3);
    for data in ["\"data\":\"{\\\"n\\\": 1}\"", "\"data\":\"\\\"<&\\\\n\\\"\"", "\"data\":\"[3]\""] {
        assert!(heard.body().contains(data), "{data}: {}", heard.body());
    }
    assert!(heard.body().contains("\"after\":\"4\""));
    assert_eq!(desk.host.shard.counters().notify_published.get(), 4);
    // Also a single line, and with parameters after the type.
    let one = desk.publish_with("a", "Content-Type: Application/X-NDJSON; charset=utf-8\r\n", "5\n");
    assert!(one.body().contains("\"ids\":[\"5\"]"), "{}", one.text);
}

#[test]
fn a_batch_that_comes_again_is_the_same_items() {
    let mut desk = Desk::new(Channels { items_max: 5, ..open() });
    let fields = format!("{BATCH}Idempotency-Key: 8a2f-1\r\n");
    assert!(
        desk.publish_with("a", &fields, &numbers(3)).body().contains("\"ids\":[\"1\",\"2\",\"3\"],\"repeated\":false")
    );
    let conn = desk.connect();
    desk.stream(conn, "a?after=3", "");
    let (other, effects) = desk.published("a", &fields, &numbers(3));
    assert!(Heard::of(&effects, other).body().contains("\"ids\":[\"1\",\"2\",\"3\"],\"repeated\":true"));
    assert_eq!(Heard::of(&effects, conn), Heard::default(), "nobody is told twice");
    // As long as its last item is stored.
    desk.publish_with("a", BATCH, &numbers(4));
    assert!(desk.publish_with("a", &fields, &numbers(3)).body().contains("\"repeated\":true"));
    desk.publish("a", "x");
    assert!(
        desk.publish_with("a", &fields, &numbers(3))
            .body()
            .contains("\"ids\":[\"9\",\"10\",\"11\"],\"repeated\":false")
    );
}

#[test]
fn subscribers_by_xmpp_are_told_of_each_in_order() {
    let mut desk = Desk::new(open());
    desk.publish("a", "before");
    let romeo = desk.user("romeo");
    let subscribe = pubsub(true, "<subscribe node='a' jid='romeo@localhost'/>");
    assert!(words(&desk.host.ask(romeo, &subscribe)).contains("subscription='subscribed'"));
    let told = desk.told(romeo, "a", BATCH, &numbers(3)).text;
    let places: Vec<_> = (0..3).map(|number| told.find(&format!(">{number}</json>")).expect("each is told")).collect();
    assert!(places.is_sorted() && told.matches("<message").count() == 3, "{told}");
}

#[test]
fn a_batch_pushes_out_what_is_too_much_its_own_items_too() {
    let mut desk = Desk::new(Channels { items_max: 5, ..open() });
    let rows = |desk: &Desk| desk.host.disk.rows_of(Table::Nodes, "pubsub.localhost/a").count();
    let kept = |desk: &mut Desk| {
        let conn = desk.connect();
        desk.get(conn, "a").text.split("\"id\":\"").skip(1).map(|id| id.split('"').next().unwrap().to_owned()).collect()
    };
    for (items, expected) in [(3, 1..=3), (4, 3..=7), (2, 5..=9), (5, 10..=14), (20, 30..=34), (1, 31..=35)] {
        desk.publish_with("a", BATCH, &numbers(items));
        let ids: Vec<String> = kept(&mut desk);
        assert_eq!(ids, expected.clone().map(|id| id.to_string()).collect::<Vec<_>>(), "{items}");
        assert_eq!(rows(&desk), 2 * expected.count() + 1, "items, their ids, and the directory");
    }
    // A listener receives all of them.
    let conn = desk.connect();
    desk.stream(conn, "a", "");
    let heard = desk.told(conn, "a", BATCH, &numbers(20));
    assert_eq!(heard.data().len(), 20, "{}", heard.text);
    assert!(!heard.text.contains("event: gap"));
    // Expired items are removed with it.
    let mut desk = Desk::new(Channels { items_max: 100, items_s: 10, ..open() });
    desk.publish_with("a", BATCH, &numbers(30));
    desk.wait(conn, 11);
    desk.publish_with("a", BATCH, &numbers(30));
    assert_eq!(rows(&desk), 61);
}

#[test]
fn what_is_too_much_is_refused_as_a_whole() {
    let mut desk = Desk::new(open());
    for body in ["", "\n\r\n \n"] {
        let heard = desk.publish_with("a", BATCH, body);
        assert!(heard.status() == "400" && heard.body().contains("one item per line"), "{}", heard.text);
    }
    let heard = desk.publish_with("a", BATCH, &numbers(NOTIFY_BATCH_ITEMS_MAX + 1));
    assert!(heard.status() == "413" && heard.body().contains("the limit is 64"), "{}", heard.text);
    let long = format!("1\n{}\n", "x".repeat(NOTIFY_BODY_BYTES_MAX + 1));
    let heard = desk.publish_with("a", BATCH, &long);
    assert!(heard.status() == "413" && heard.body().contains("32 KiB"), "{}", heard.text);
    let line = format!("{}\n", "x".repeat(NOTIFY_BODY_BYTES_MAX));
    assert_eq!(desk.publish_with("a", BATCH, &line.repeat(4)).status(), "413", "more than 64 KiB");
    let heard = desk.publish_with("a", "Content-Type: text/plain\r\n", &"x".repeat(NOTIFY_BODY_BYTES_MAX + 1));
    assert!(heard.status() == "413" && heard.body().contains("32 KiB"), "{}", heard.text);
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a").status(), "204", "nothing was published");
    let largest = format!("{}\n", "x".repeat(NOTIFY_BATCH_BYTES_MAX / 4 - 1)).repeat(4);
    assert_eq!(desk.publish_with("a", BATCH, &largest).status(), "200");
    assert_eq!(desk.publish_with("a", BATCH, &numbers(NOTIFY_BATCH_ITEMS_MAX)).status(), "200");
}

/// A batch does not circumvent the limits of an address: each of its items counts.
#[test]
fn each_item_of_a_batch_counts_for_its_address() {
    let mut desk = Desk::new(Channels { publications_s: 10, ..open() });
    let taken = (0..50).take_while(|_| desk.publish_with("a", BATCH, &numbers(20)).status() == "200").count();
    assert_eq!(taken, 6, "ten seconds' worth, and what the last one goes beyond");
    let refused = desk.publish("a", "x");
    assert_eq!((refused.status(), refused.field("Retry-After")), ("429", Some("2")), "{}", refused.text);
    let other = desk.connect_from([192, 0, 2, 2]);
    assert_eq!(desk.publish_from(other, "a", BATCH, &numbers(20)).status(), "200", "others may");
    let trusted = format!("{BATCH}Authorization: Bearer {TOKEN}\r\n");
    assert!((0..30).all(|_| desk.publish_with("a", &trusted, &numbers(20)).status() == "200"));
}

/// One commit, and the reads of a single publication, however many items it has.
#[test]
fn a_batch_is_one_commit() {
    let mut desk = Desk::new(open());
    desk.publish("a", "x");
    let counters = |desk: &Desk| (desk.host.shard.counters().reads.get(), desk.host.shard.counters().commits.get());
    let before = counters(&desk);
    desk.publish("a", "x");
    let one = counters(&desk);
    desk.publish_with("a", BATCH, &numbers(NOTIFY_BATCH_ITEMS_MAX));
    let many = counters(&desk);
    assert_eq!((many.0 - one.0, many.1 - one.1), (one.0 - before.0, one.1 - before.1));
}

/// In a crowd nobody has to read items that were published at once.
#[test]
fn a_crowd_has_a_batch_without_a_read() {
    let mut desk = Desk::new(open());
    let crowd: Vec<_> = (0..NOTIFY_TOLD_AT_ONCE * 2).map(|_| desk.connect()).collect();
    crowd.iter().for_each(|conn| drop(desk.stream(*conn, "a", "")));
    let before = desk.host.shard.counters().reads.get();
    desk.publish("b", "x");
    let one = desk.host.shard.counters().reads.get() - before;
    desk.publish_with("a", BATCH, &numbers(NOTIFY_BATCH_ITEMS_MAX));
    assert_eq!(desk.host.shard.counters().notify_told.get() as usize, crowd.len() * NOTIFY_BATCH_ITEMS_MAX);
    assert_eq!(desk.host.shard.counters().reads.get() - before, 2 * one, "as many as one item");
}

/// Runs one turn; returns how many connections other than the publisher received something. Store
/// queries are answered.
fn told_in_turn(host: &mut Host, out: &mut Output, publisher: ConnId) -> usize {
    host.shard.handle(host.now, Input::EndOfTurn, out);
    host.disk.apply(&out.writes);
    out.writes.clear();
    let mut told = 0;
    for effect in std::mem::take(&mut out.effects) {
        match effect {
            Effect::Read { token, queries } => {
                let found = queries.iter().map(|query| host.disk.read(query)).collect();
                host.shard.handle(host.now, Input::Found { token, found }, out);
            }
            Effect::Send { conn, .. } => {
                told += usize::from(conn != publisher);
                host.shard.handle(host.now, Input::Sent { conn }, out);
            }
            _ => {}
        }
    }
    told
}

/// A publisher elsewhere waits for a few of a crowd, not for all of it: a turn notifies some, and
/// the next one continues. While much output waits for a commit, fan-out pauses, since all of it
/// leaves at once.
#[test]
fn a_turn_tells_a_few_of_a_crowd_and_none_while_much_waits_for_a_commit() {
    let mut desk = Desk::new(open());
    let crowd: Vec<_> = (0..NOTIFY_TOLD_AT_ONCE * 5).map(|_| desk.connect()).collect();
    crowd.iter().for_each(|conn| drop(desk.stream(*conn, "a", "")));
    let publisher = desk.connect();
    let (host, mut out, mut turns) = (&mut desk.host, Output::default(), Vec::new());
    let request = post("a", "", "x");
    host.shard.handle(host.now, Input::Received { conn: publisher, bytes: request.as_bytes() }, &mut out);
    while turns.iter().sum::<usize>() < crowd.len() {
        turns.push(told_in_turn(host, &mut out, publisher));
        if turns.iter().filter(|told| **told > 0).count() == 2 {
            host.shard.handle(host.now, Input::Held { since_s: None, many: true }, &mut out);
            let before = turns.len();
            turns.extend((0..3).map(|_| told_in_turn(host, &mut out, publisher)));
            assert_eq!(turns[before..], [0; 3]);
            assert!(!host.shard.has_more_to_do(), "it sleeps until the commit wakes it");
            host.shard.handle(host.now, Input::Held { since_s: None, many: false }, &mut out);
            assert!(host.shard.has_more_to_do());
        }
        assert!(turns.len() < 100, "{turns:?}");
    }
    assert_eq!(turns.iter().sum::<usize>(), crowd.len());
    assert!(turns.iter().all(|told| *told <= 2 * NOTIFY_TOLD_AT_ONCE), "{turns:?}");
}

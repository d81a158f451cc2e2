//! Channels with items in memory: clients see the same as for other channels, and next to nothing
//! is written.

use std::fmt::Write as _;

use throng_engine::extension::pubsub::node::{Config, Directory};
use throng_engine::extension::pubsub::service::in_memory::InMemory;
use throng_engine::store::nodes::{self as rows, Item, Span};
use throng_engine::store::{Batch, Found, Table};
use throng_engine::web::policy::Channels;
use throng_sim::disk::Disk;
use throng_sim::host::said as words;
use throng_sim::random::Random;

use crate::notify_world::{Desk, TOKEN, data, open, pubsub};

fn in_memory() -> Channels {
    Channels { in_memory: ["".into()].into(), ..open() }
}

fn rows_on_disk(desk: &Desk) -> usize {
    desk.host.disk.rows_of(Table::Nodes, "pubsub.localhost/a").count()
}

fn writes(desk: &Desk) -> u64 {
    desk.host.shard.counters().writes.get()
}

/// The items of a poll after a number, and whether it reports missing ones.
fn behind(desk: &mut Desk, after: u64) -> (Vec<String>, bool) {
    let conn = desk.connect();
    let heard = desk.get(conn, &format!("a?after={after}&wait=0"));
    (heard.data().into_iter().map(str::to_owned).collect(), !heard.text.contains("\"gaps\":[]"))
}

/// Everything that publishers, subscribers of each kind, and an XMPP user receive from a channel.
fn script(channels: Channels) -> String {
    let mut desk = Desk::new(Channels { items_max: 5, nchan: true, wildcards: ["".into()].into(), ..channels });
    let mut told = String::new();
    let (user, stream, prefix) = (desk.user("juliet"), desk.connect(), desk.connect());
    let (key, batch) = ("Idempotency-Key: k\r\n", "Content-Type: application/x-ndjson\r\n");
    write!(told, "{:?}", desk.stream(stream, "a?after=0", "")).unwrap();
    write!(told, "{:?}", desk.stream(prefix, "*", "")).unwrap();
    for (fields, body) in
        [("", "1"), (key, "2"), (key, "2"), (batch, "3\n4\n5"), ("Item-Key: x\r\n", "6"), ("", "7"), (batch, "8\n9\n")]
    {
        let (publisher, effects) = desk.published("a", fields, body);
        for conn in [publisher, stream, prefix] {
            write!(told, "{:?}", crate::notify_world::Heard::of(&effects, conn)).unwrap();
        }
    }
    for path in ["a", "a?after=0", "a?after=3&wait=0", "a?after=7&wait=0", "a?after=99&wait=0", "*?after=1"] {
        let conn = desk.connect();
        write!(told, "{path} {:?}", desk.get(conn, path)).unwrap();
    }
    let mut by_xmpp = |desk: &mut Desk, set, inside: &str| told += &words(&desk.host.ask(user, &pubsub(set, inside)));
    by_xmpp(&mut desk, false, "<items node='a'/>");
    by_xmpp(&mut desk, true, "<subscribe node='a' jid='juliet@localhost'/>");
    by_xmpp(&mut desk, true, "<publish node='a'><item id='by XMPP'><x xmlns='y'/></item></publish>");
    by_xmpp(&mut desk, false, "<items node='a' max_items='2'/>");
    told += &desk.publish("a", "for all").text;
    let conn = desk.connect();
    let emptied =
        desk.says(conn, &format!("DELETE /pub/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"));
    write!(told, "{emptied:?} {:?} {:?}", behind(&mut desk, 2), desk.publish("a", "behind").text).unwrap();
    let conn = desk.connect();
    write!(told, "{:?}", desk.get(conn, "a")).unwrap();
    // Deleted and created again.
    let admin = desk.user("admin");
    let delete = "<iq type='set' id='d' to='pubsub.localhost'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>\
                  <delete node='a'/></pubsub></iq>";
    let deleted = words(&desk.host.ask(admin, delete));
    assert!(deleted.contains("type='result'"), "{deleted}");
    write!(told, "{:?} {:?} {:?}", behind(&mut desk, 0), desk.publish("a", "anew").text, behind(&mut desk, 0)).unwrap();
    told
}

#[test]
fn all_is_told_as_of_a_channel_that_keeps_its_items_on_disk() {
    let (memory, disk) = (script(in_memory()), script(open()));
    assert_eq!(memory, disk);
    assert!(
        memory.contains("behind") && memory.contains("by XMPP") && memory.contains("repeated\\\":true"),
        "{memory}"
    );
}

#[test]
fn of_a_thousand_publications_one_is_written() {
    let mut desk = Desk::new(in_memory());
    desk.publish("a", "0");
    assert_eq!(rows_on_disk(&desk), 1, "the directory");
    let (before, reads) = (writes(&desk), desk.host.shard.counters().reads.get());
    (1..=1_500).for_each(|number| assert_eq!(desk.publish("a", &number.to_string()).status(), "200"));
    assert_eq!((writes(&desk) - before, rows_on_disk(&desk)), (1, 1));
    assert_eq!(desk.host.shard.counters().reads.get(), reads);
    assert_eq!(behind(&mut desk, 1_499), (vec!["1499".into(), "1500".into()], false));
}

/// A client that returns after a restart learns that items are missing, and is not ahead of later
/// ones.
#[test]
fn after_a_restart_there_is_a_gap_and_numbers_go_on() {
    let mut desk = Desk::new(in_memory());
    (1..=3).for_each(|number| drop(desk.publish("a", &number.to_string())));
    let mut desk = desk.restarts(in_memory());
    assert_eq!(behind(&mut desk, 3), (vec![], true));
    let conn = desk.connect();
    let heard = desk.stream(conn, "a", "Last-Event-ID: 3\r\n");
    assert!(heard.text.contains("event: gap"), "{}", heard.text);
    let heard = desk.told(conn, "a", "Content-Type: text/plain\r\n", "4");
    assert_eq!(heard.data(), ["4"]);
    assert_eq!(behind(&mut desk, 3), (vec!["4".into()], true));
    let conn = desk.connect();
    let place = desk
        .get(conn, "a")
        .body()
        .rsplit("\"after\":\"")
        .next()
        .and_then(|rest| rest.split('"').next())
        .map(str::to_owned);
    let place: u64 = place.expect("a place").parse().expect("a number");
    assert!(place > 3);
    desk.publish("a", "5");
    assert_eq!(behind(&mut desk, place), (vec!["5".into()], false));
}

/// Others take the room: a waiting client receives each item, an absent one learns that some are
/// missing.
#[test]
fn who_takes_the_room_of_others_leaves_them_a_gap() {
    let mut desk = Desk::new(Channels { in_memory_bytes: 100_000, items_max: 10, ..in_memory() });
    let conn = desk.connect();
    desk.stream(conn, "a", "");
    let mut heard = Vec::new();
    for number in 0..20 {
        let told = desk.told(conn, "a", "Content-Type: text/plain\r\n", &number.to_string());
        heard.extend(data(&[told.text]).into_iter().map(str::to_owned));
        (0..20).for_each(|other| drop(desk.publish(&format!("b{other}"), &"x".repeat(4_000))));
        assert!(desk.host.shard.counters().mem_users_bytes.get() < 1_000_000);
    }
    assert_eq!(heard, (0..20).map(|number| number.to_string()).collect::<Vec<_>>());
    let (items, gap) = behind(&mut desk, 1);
    assert!(gap && items.len() < 10, "{items:?}");
}

/// If a channel alone would take more than half of the room, its oldest items are dropped.
/// Everything else is as usual: waiting clients lose nothing, keys replace, repetitions are
/// recognised, and numbers continue.
#[test]
fn of_a_channel_that_takes_half_of_the_room_the_oldest_items_go() {
    const BYTES: usize = 100_000;
    let mut desk = Desk::new(Channels { in_memory_bytes: BYTES, nchan: true, ..in_memory() });
    let (conn, large) = (desk.connect(), "x".repeat(3_000));
    desk.stream(conn, "a", "");
    let mut least = usize::MAX;
    for number in 1..=60_u64 {
        let fields = format!("Content-Type: text/plain\r\nIdempotency-Key: k{number}\r\n");
        let body = format!("{number} {large}");
        assert_eq!(desk.told(conn, "a", &fields, &body).data(), [&*body]);
        let again = desk.publish_with("a", &fields, &body);
        assert!(
            again.body().contains(&format!("\"id\":\"{number}\"")) && again.body().contains("true"),
            "{}",
            again.text
        );
        let (items, gap) = behind(&mut desk, 0);
        assert_eq!((&items.last(), gap), (&Some(&body), false), "the last one is there");
        let numbers: Vec<u64> = items.iter().map(|item| item.split(' ').next().unwrap().parse().unwrap()).collect();
        assert!(numbers.is_sorted() && numbers[0] + numbers.len() as u64 - 1 == number, "{numbers:?}");
        if number > 15 {
            least = least.min(items.len());
        }
        let gone = number - items.len() as u64;
        assert_eq!(desk.host.shard.counters().notify_memory_gone.get(), gone);
        assert!(number == 1 || behind(&mut desk, 1).1 == (gone > 1), "who has missed one is told so");
    }
    assert!((10..16).contains(&least), "{least}: nearly half of the room");
    // The node knows its stored items, so it can be emptied.
    let other = desk.connect();
    let fields = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n");
    let emptied = desk.says(other, &format!("DELETE /pub/a HTTP/1.1\r\n{fields}\r\n"));
    assert_eq!((emptied.status(), behind(&mut desk, 0).0), ("200", vec![]), "{}", emptied.text);
    // An item that replaces an earlier one by its key.
    for number in 0..40 {
        desk.publish_with(
            "k",
            &format!("Item-Key: x{}\r\nContent-Type: text/plain\r\n", number % 14),
            &format!("{number} {large}"),
        );
    }
    let reader = desk.connect();
    let heard = desk.get(reader, "k?after=0&wait=0");
    let last: Vec<_> = heard.data().iter().map(|item| item.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(last.last().map(String::as_str), Some("39"));
    assert!(last.len() >= 10 && heard.text.contains("\"gaps\":[]"), "{last:?}");
}

/// An item for which there is no room at all is delivered but not stored.
#[test]
fn what_is_too_much_for_all_is_not_kept() {
    let mut desk = Desk::new(Channels { in_memory_bytes: 4_000, ..in_memory() });
    let conn = desk.connect();
    desk.stream(conn, "a", "");
    let large = "x".repeat(3_000);
    for number in 0..10 {
        let heard = desk.told(conn, "a", "Content-Type: text/plain\r\n", &format!("{number} {large}"));
        assert_eq!(heard.data(), [format!("{number} {large}")]);
    }
    assert!(behind(&mut desk, 1).1);
}

/// A channel that was on disk before: its items there are no longer delivered, and are removed when
/// the channel is emptied.
#[test]
fn a_channel_that_was_on_disk_begins_anew() {
    let mut desk = Desk::new(Channels { nchan: true, ..open() });
    (1..=3).for_each(|number| drop(desk.publish("a", &number.to_string())));
    assert_eq!(rows_on_disk(&desk), 7);
    let mut desk = desk.restarts(Channels { nchan: true, ..in_memory() });
    assert_eq!(behind(&mut desk, 1), (vec![], true));
    desk.publish("a", "4");
    assert_eq!(behind(&mut desk, 3).0, ["4"]);
    let conn = desk.connect();
    desk.says(conn, &format!("DELETE /pub/a HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"));
    assert_eq!(rows_on_disk(&desk), 1);
}

/// For any writes and queries: the answers are those of a store that has all of it.
#[test]
fn rows_in_memory_are_those_that_a_store_would_have() {
    let (actor, node) = ("pubsub.localhost/a", "a");
    for seed in 0..200 {
        let (mut random, mut memory, mut disk) = (Random::new(seed), InMemory::default(), Disk::default());
        let (mut at_rest, mut directory) = (Disk::default(), Directory::default());
        directory.configure(node, Config { items_max: 10, ..Config::default() });
        for _ in 0..100 {
            let mut batch = Batch::new();
            let id = format!("id{}", random.below(8));
            match random.below(12) {
                0 => rows::delete_items(&mut batch, actor, node),
                1 => rows::delete_item(&mut batch, actor, node, &id, random.below(directory.last + 1)),
                2 => rows::put_affiliates(&mut batch, actor, node, b"somebody"),
                _ => {
                    directory.last += 1 + random.below(3);
                    let item = Item { at_us: 7, id: &id, payload: &vec![b'x'; random.index(300)] };
                    item.put(&mut batch, actor, node, directory.last);
                }
            }
            directory.put(&mut batch, actor).unwrap();
            disk.apply(&batch);
            let left = memory.write(&batch, |name| name == actor, 1 << 20);
            assert!(left.gone.is_empty());
            at_rest.apply(&left.batch);
            let mut number = || random.below(directory.last + 2);
            let span = Span {
                after: number(),
                before: number(),
                reverse: number() % 2 == 0,
                ..Span::all(number() as u32 % 5, 400)
            };
            let queries = [
                rows::directory(actor),
                rows::affiliates(actor, node),
                rows::items(actor, node, span),
                rows::items(actor, node, Span::LAST),
                rows::ids(actor, node, 5),
                rows::place(actor, node, &id),
                rows::item(actor, node, number()),
            ];
            let asked: Vec<_> = queries.iter().map(|query| memory.ask(query.clone())).collect();
            let for_store = queries.iter().zip(&asked).filter(|(_, ask)| ask.asks_store());
            let from_store = for_store.map(|(query, _)| at_rest.read(query)).collect();
            let expected: Vec<_> = queries.iter().map(|query| disk.read(query)).collect();
            assert_eq!(memory.answers(asked, from_store), expected, "seed {seed}, {span:?}");
        }
        // The store has the node at rest, and its number is ahead.
        let Found::Value(row) = at_rest.read(&rows::directory(actor)) else { panic!("a directory") };
        let there = Directory::decode(row.as_deref()).unwrap();
        assert!(there.last >= directory.last && there.get(node).unwrap().items == 0);
        assert!(at_rest.rows_of(Table::Nodes, actor).count() <= 2, "the directory, and who is affiliated");
    }
}

/// A request is in progress while others take the room: it continues with the store's data, so that
/// no number occurs that clients who have read the store meanwhile would take for an old one.
#[test]
fn what_was_pushed_out_meanwhile_is_what_the_store_has() {
    let (mut memory, mut at_rest) = (InMemory::default(), Disk::default());
    let mut publish = |memory: &mut InMemory, actor: &str, bytes| {
        let (mut batch, mut directory) = (Batch::new(), Directory::default());
        directory.configure("a", Config::default());
        directory.last = 3;
        Item { at_us: 7, id: "id", payload: &vec![b'x'; bytes] }.put(&mut batch, actor, "a", 3);
        directory.put(&mut batch, actor).unwrap();
        at_rest.apply(&memory.write(&batch, |_| true, 10_000).batch);
    };
    publish(&mut memory, "pubsub.localhost/a", 10);
    let queries = [rows::directory("pubsub.localhost/a"), rows::items("pubsub.localhost/a", "a", Span::LAST)];
    let asked = queries.iter().map(|query| memory.ask(query.clone())).collect();
    (0..4).for_each(|other| publish(&mut memory, &format!("pubsub.localhost/b{other}"), 4_000));
    assert!(!memory.has("pubsub.localhost/a"));
    let answers = memory.answers(asked, Vec::new());
    assert_eq!(answers, [at_rest.read(&queries[0]), Found::Rows { rows: Vec::new(), more: false }]);
    let Found::Value(row) = &answers[0] else { panic!("a directory") };
    assert!(Directory::decode(row.as_deref()).unwrap().last > 3);
}

//! How much memory, reads, writes and fan-out one address can cause at `/n/`: each limit, and that
//! others are not affected.

use throng_engine::io::{Effect, Input};
use throng_engine::limits::{
    HTTP_HEAD_BYTES_MAX, NOTIFY_BODY_BYTES_MAX, NOTIFY_CHANNELS_MAX, NOTIFY_FORGET_S, NOTIFY_PAGE_BYTES_MAX,
    NOTIFY_PAGE_ITEMS_MAX, NOTIFY_TOLD_AT_ONCE,
};
use throng_engine::web::policy::Channels;

use crate::notify_world::{Desk, Heard, TOKEN, data, open, post};

/// This many requests of one address may wait, for any channels; others are served.
#[test]
fn an_address_waits_so_often_and_others_do_not_notice() {
    let mut desk = Desk::new(Channels { waiting_max: 3, ..open() });
    let waiting: Vec<_> = (0..3).map(|_| desk.connect()).collect();
    desk.get(waiting[0], "a?wait=55");
    desk.get(waiting[1], "b,c,d?wait=55");
    desk.stream(waiting[2], "a", "");
    let one_more = desk.connect();
    for _ in 0..2 {
        let refused = desk.get(one_more, "a?wait=55");
        assert_eq!((refused.status(), refused.field("Retry-After")), ("429", Some("10")), "{}", refused.text);
        assert!(refused.body().contains("combine channels in one request"));
    }
    assert_eq!(desk.publish("a", "x").status(), "429", "publications wait, too");
    let other = desk.connect_from([192, 0, 2, 2]);
    assert_eq!(desk.get(other, "a?wait=55"), Heard::default());
    // Disconnecting makes room.
    desk.host.turn(Input::Closed { conn: waiting[2] });
    assert_eq!(desk.get(one_more, "b?wait=55"), Heard::default());
}

/// A publication charges its address for its effects; with the token, nobody.
#[test]
fn an_address_publishes_so_much_in_the_long_run() {
    let mut desk = Desk::new(Channels { publications_s: 10, ..open() });
    let taken = (0..200).take_while(|_| desk.publish("a", "x").status() == "200").count();
    assert!((98..=102).contains(&taken), "{taken} at once: ten seconds' worth");
    let refused = desk.publish("a", "x");
    assert_eq!((refused.status(), refused.field("Retry-After")), ("429", Some("1")), "{}", refused.text);
    let other = desk.connect_from([192, 0, 2, 2]);
    assert_eq!(desk.publish_from(other, "a", "", "x").status(), "200", "others may");
    let conn = desk.connect();
    desk.wait(conn, 10);
    let trusted = format!("Authorization: Bearer {}\r\n", TOKEN);
    assert!((0..300).all(|_| desk.publish_with("a", &trusted, "x").status() == "200"));
    desk.wait(conn, 10);
    let steady = (0..300).filter(|_| {
        desk.wait(conn, 1);
        (0..20).any(|_| desk.publish("a", "x").status() != "200")
    });
    let refused = steady.count();
    assert!(refused >= 285, "twenty a second are too many in the long run, and were in {refused} of 300 seconds");
}

/// Channels stay: an address may create some at once, and then one every ten seconds. With the
/// token there is no limit.
#[test]
fn an_address_makes_so_many_channels() {
    let mut desk = Desk::new(Channels { publications_s: 1_000, ..open() });
    let makes = |desk: &mut Desk, number: u32| desk.publish(&format!("c{number}"), "x");
    let made = (0..30).take_while(|number| makes(&mut desk, *number).status() == "200").count();
    assert_eq!(made, 11);
    let refused = makes(&mut desk, 50);
    assert!(refused.status() == "429" && refused.field("Retry-After") == Some("10"), "{}", refused.text);
    assert_eq!(makes(&mut desk, 0).status(), "200", "one that is there takes more");
    let other = desk.connect_from([192, 0, 2, 2]);
    assert_eq!(desk.publish_from(other, "d", "", "x").status(), "200", "others may");
    let trusted = format!("Authorization: Bearer {}\r\n", TOKEN);
    assert!((0..30).all(|number| desk.publish_with(&format!("t{number}"), &trusted, "x").status() == "200"));
    let conn = desk.connect();
    desk.wait(conn, 10);
    assert_eq!((makes(&mut desk, 60).status(), makes(&mut desk, 61).status()), ("200", "429"));
}

/// The publisher is charged for all who are notified: per sixteen of them one publication.
#[test]
fn who_publishes_to_many_pays_for_each() {
    let mut desk = Desk::new(Channels { publications_s: 10, ..open() });
    let first = desk.connect_from([192, 0, 2, 9]);
    assert_eq!(desk.publish_from(first, "a", "", "x").status(), "200");
    for number in 0..1_600_u32 {
        let conn = desk.connect_from([198, 51, 100, (number % 250) as u8]);
        assert_eq!(desk.get(conn, "a?wait=300"), Heard::default());
    }
    assert_eq!(desk.publish("a", "to all").status(), "200");
    assert_eq!(desk.host.shard.counters().notify_told.get(), 1_600);
    // A hundred publications are ten seconds, the maximum lead; and the one itself.
    let refused = desk.publish("a", "x");
    assert_eq!((refused.status(), refused.field("Retry-After")), ("429", Some("1")), "{}", refused.text);
    let conn = desk.connect();
    desk.wait(conn, 1);
    assert_eq!(desk.publish("a", "x").status(), "200");
}

/// Of a crowd this many are notified at once, and letters to the shard itself continue: other
/// connections get their turn in between. Each is notified once.
#[test]
fn a_crowd_is_told_in_shares() {
    let mut desk = Desk::new(open());
    let crowd = NOTIFY_TOLD_AT_ONCE * 2 + 100;
    let all: Vec<_> = (0..crowd).map(|_| desk.connect()).collect();
    for conn in &all {
        assert_eq!(desk.stream(*conn, "a", "").status(), "200");
    }
    let own = desk.host.shard.counters().letters_own.get();
    let other = desk.connect();
    let effects = desk.host.turn(Input::Received { conn: other, bytes: post("a", "", "one").as_bytes() });
    assert_eq!(desk.host.shard.counters().notify_told.get(), crowd as u64);
    let goes_on = desk.host.shard.counters().letters_own.get() - own;
    assert!(goes_on >= 2, "at least two letters to itself, to go on: {goes_on}");
    let mut told: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { conn, bytes, .. } if bytes.starts_with(b"id: 1\n") => Some(*conn),
            _ => None,
        })
        .collect();
    told.sort_unstable();
    assert_eq!(told, all, "each once");
    // The publisher's answer does not wait for it.
    let place = |wanted: &dyn Fn(&Effect) -> bool| effects.iter().position(wanted).expect("it is there");
    let answer = place(&|effect| matches!(effect, Effect::Send { conn, .. } if *conn == other));
    let last = place(&|effect| matches!(effect, Effect::Send { conn, .. } if conn == all.last().unwrap()));
    assert!(answer < last, "the answer is effect {answer}, the last of the crowd {last}");
}

/// Items that a slow subscriber does not take are not queued for it: it reads them when it does,
/// once and in order.
#[test]
fn a_slow_subscriber_costs_what_one_read_costs() {
    let mut desk = Desk::new(Channels { items_max: 150, ..open() });
    let slow = desk.connect();
    desk.stream(slow, "a", "");
    let got = String::from_utf8(desk.overwhelms(slow, 100)).expect("text");
    assert!(!got.contains("event: gap"));
    let got = [got];
    let numbers: Vec<usize> = data(&got).iter().map(|data| data[..3].parse().unwrap()).collect();
    assert_eq!(numbers, (0..100).collect::<Vec<_>>(), "each once, in order");
}

/// A subscriber that takes nothing at all is disconnected, as on other connections.
#[test]
fn who_takes_nothing_is_cut() {
    let mut desk = Desk::new(open());
    let slow = desk.connect();
    desk.host.prompt = false;
    desk.stream(slow, "a", "");
    let heard = desk.wait(slow, 80);
    assert!(heard.ends, "after send_stall_s_max");
    assert_eq!(desk.host.shard.counters().closed_unread.get(), 1);
    desk.host.turn(Input::Closed { conn: slow });
    desk.wait(slow, 1);
    assert_eq!(desk.host.shard.counters().notify_waiting.get(), 0);
}

/// A page has a limited number of items and bytes, for any number of channels.
#[test]
fn a_request_reads_a_page_whatever_it_asks_for() {
    let mut desk = Desk::new(Channels { items_max: 150, ..open() });
    let channels: Vec<_> = (0..NOTIFY_CHANNELS_MAX).map(|number| format!("c{number}")).collect();
    for channel in &channels {
        (0..100).for_each(|_| drop(desk.publish(channel, "x")));
    }
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "c0").data().len(), NOTIFY_PAGE_ITEMS_MAX as usize);
    assert_eq!(desk.get(conn, &channels.join(",")).data().len(), NOTIFY_PAGE_ITEMS_MAX as usize);
    let large = "x".repeat(NOTIFY_BODY_BYTES_MAX);
    (0..20).for_each(|_| drop(desk.publish("large", &large)));
    let heard = desk.get(conn, "large");
    assert!(heard.text.len() < (NOTIFY_PAGE_BYTES_MAX as usize) + 2 * NOTIFY_BODY_BYTES_MAX, "{}", heard.text.len());
    // One read per channel, and none in turn.
    let reads = desk.host.shard.counters().reads.get();
    desk.get(conn, &channels.join(","));
    assert_eq!(desk.host.shard.counters().reads.get() - reads, NOTIFY_CHANNELS_MAX as u64);
}

/// A publication writes a bounded multiple of its size, and removes expired or excess items.
#[test]
fn a_publication_writes_what_it_brings_and_a_channel_does_not_grow() {
    let mut desk = Desk::new(Channels { items_max: 10, ..open() });
    let written = |effects: &Desk| {
        effects
            .host
            .disk
            .rows_of(throng_engine::store::Table::Nodes, "pubsub.localhost/a")
            .map(|(_, value)| value.len())
            .sum::<usize>()
    };
    for body in ["x", &"&".repeat(NOTIFY_BODY_BYTES_MAX), &"x".repeat(NOTIFY_BODY_BYTES_MAX)] {
        (0..30).for_each(|_| drop(desk.publish("a", body)));
        let bytes = written(&desk);
        assert!(bytes <= 10 * (body.len() / 3 * 4 + 400) + 1_000, "{bytes} for ten items of {}", body.len());
    }
    let rows = desk.host.disk.rows_of(throng_engine::store::Table::Nodes, "pubsub.localhost/a").count();
    assert_eq!(rows, 21, "ten items, their ids, and the directory");
}

/// Data after a waiting request is not read beyond what has arrived.
#[test]
fn who_sends_on_while_it_waits_is_not_read() {
    let mut desk = Desk::new(open());
    let conn = desk.connect();
    desk.get(conn, "a?wait=55");
    let more = "GET /n/a?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let effects = desk.host.turn(Input::Received { conn, bytes: more.as_bytes() });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Pause { conn: of } if *of == conn)), "{effects:?}");
    let publisher = desk.connect();
    let effects = desk.host.turn(Input::Received { conn: publisher, bytes: post("a", "", "x").as_bytes() });
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Resume { conn: of, .. } if *of == conn)));
    let heard = Heard::of(&effects, conn);
    assert_eq!((heard.text.matches("HTTP/1.1 200").count(), heard.data()), (2, vec!["x", "x"]), "both are answered");
    // Nothing is buffered after a stream request, however much arrives.
    let streams = desk.connect();
    desk.stream(streams, "a", "");
    let before = desk.host.shard.counters().bytes_in.get();
    for _ in 0..100 {
        let effects = desk.host.turn(Input::Received { conn: streams, bytes: &[b'x'; HTTP_HEAD_BYTES_MAX] });
        assert!(effects.is_empty());
    }
    assert_eq!(desk.host.shard.counters().bytes_in.get() - before, 100 * HTTP_HEAD_BYTES_MAX as u64);
    desk.publish("a", "y");
    desk.host.turn(Input::Closed { conn: streams });
}

/// Nothing remains of clients that waited for channels, whatever the names.
#[test]
fn channels_that_nobody_waits_for_are_forgotten() {
    let mut desk = Desk::new(open());
    let watched = |desk: &Desk| desk.host.shard.counters().notify_channels.get();
    for number in 0..500 {
        let conn = desk.connect();
        desk.get(conn, &format!("c{number},d{number}?wait=5"));
        desk.host.turn(Input::Closed { conn });
    }
    let conn = desk.connect();
    desk.wait(conn, 2);
    assert_eq!(watched(&desk), 1_000);
    // An item without subscribers is sent to nobody, and the home learns that it need not report
    // any.
    desk.publish("c0", "x");
    desk.wait(conn, 2);
    assert_eq!(watched(&desk), 999);
    desk.wait(conn, 3 * u64::from(NOTIFY_FORGET_S));
    assert_eq!(watched(&desk), 0);
}

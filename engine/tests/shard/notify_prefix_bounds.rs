//! What subscriptions to prefixes can cost a shard: each limit.

use throng_engine::io::{Effect, Input};
use throng_engine::limits::{
    NOTIFY_FEEDS_PER_SHARD_MAX, NOTIFY_FORGET_S, NOTIFY_PREFIX_PARTS_MAX, NOTIFY_PREFIXES_PER_ADDRESS_MAX,
    NOTIFY_REQUESTS_PER_PREFIX,
};
use throng_engine::web::policy::Channels;

use crate::notify_world::{Desk, Heard, KEY, bytes_to, data, first_frame, frames, open, settings};

fn any() -> Channels {
    Channels { wildcards: Box::new(["".into()]), ..open() }
}

/// However often an address requests a prefix, it counts once; others are not delayed.
#[test]
fn an_address_waits_for_so_many_prefixes() {
    let mut desk = Desk::new(any());
    let mut waiting = Vec::new();
    for number in 0..NOTIFY_PREFIXES_PER_ADDRESS_MAX {
        for _ in 0..2 {
            let conn = desk.connect();
            assert_eq!(desk.stream(conn, &format!("p{number}.*"), "").status(), "200");
            waiting.push(conn);
        }
    }
    let one_more = desk.connect();
    let refused = desk.stream(one_more, "q.*", "");
    assert_eq!((refused.status(), refused.field("Retry-After")), ("429", Some("10")), "{}", refused.text);
    assert_eq!(desk.stream(one_more, "p0.*", "").status(), "200");
    let other = desk.connect_from([192, 0, 2, 2]);
    assert_eq!(desk.stream(other, "q.*", "").status(), "200");
    // Disconnecting makes room.
    waiting.drain(..2).for_each(|conn| drop(desk.host.turn(Input::Closed { conn })));
    let again = desk.connect();
    desk.host.turn(Input::Closed { conn: one_more });
    assert_eq!(desk.stream(again, "q.*", "").status(), "200");
    let memory = |desk: &mut Desk| {
        desk.passes(2);
        desk.host.shard.counters().mem_users_bytes.get()
    };
    let full = memory(&mut desk);
    waiting.into_iter().chain([other, again]).for_each(|conn| drop(desk.host.turn(Input::Closed { conn })));
    desk.passes(3 * u64::from(NOTIFY_FORGET_S));
    assert!(memory(&mut desk) < full);
    assert_eq!(desk.host.shard.counters().notify_channels.get(), 0);
}

/// A client requests one prefix after another: an unused one makes room.
#[test]
fn prefixes_that_were_asked_for_once_do_not_stay() {
    let mut desk = Desk::new(any());
    let memory = |desk: &mut Desk| {
        desk.passes(2);
        desk.host.shard.counters().mem_users_bytes.get()
    };
    let before = memory(&mut desk);
    for number in 0..3 * NOTIFY_FEEDS_PER_SHARD_MAX {
        let conn = desk.connect();
        assert_eq!(desk.get(conn, &format!("p{number}.*?after=0")).status(), "200");
        desk.host.turn(Input::Closed { conn });
        if number % 500 == 0 {
            desk.passes(1);
        }
    }
    let grown = memory(&mut desk).saturating_sub(before);
    assert!(grown < 1 << 20, "{grown} bytes");
    assert_eq!(desk.host.shard.counters().notify_channels.get(), 0, "homes hear soon that nobody waits");
}

/// A prefix covers very many items and has a position at each shard, so a request for some counts
/// as many.
#[test]
fn a_request_counts_by_its_places() {
    let mut desk = Desk::of(settings(32, Channels { waiting_max: 5, ..any() }));
    let status = |desk: &mut Desk, path: &str| {
        let conn = desk.connect();
        desk.get(conn, path).status().to_owned()
    };
    assert_eq!(status(&mut desk, "a.*,b.*,c.*,d.*,e?wait=55"), "", "65 requests' worth");
    assert_eq!(status(&mut desk, "a?wait=55"), "429");
    let mut desk = Desk::of(settings(64, any()));
    assert_eq!(status(&mut desk, "a.*,b.*,c.*?wait=55"), "400", "too many places");
    assert_eq!(
        (status(&mut desk, "a.*,b.*?wait=55"), status(&mut desk, "a.*?wait=55")),
        (String::new(), String::new())
    );
}

/// Whatever the subscriptions, an item causes one letter per matching prefix, and these are few.
#[test]
fn an_item_is_told_to_few_feeds() {
    let mut desk = Desk::new(any());
    let name = "a.".repeat(60);
    let mut conns = Vec::new();
    for parts in 0..=NOTIFY_PREFIX_PARTS_MAX {
        for _ in 0..3 {
            conns.push(desk.connect());
            assert_eq!(desk.stream(*conns.last().unwrap(), &format!("{}*", &name[..2 * parts]), "").status(), "200");
        }
    }
    // Prefixes that match nothing cost an item nothing.
    for number in 0..200 {
        let conn = desk.connect_from([10, 0, (number / 10) as u8, 1]);
        assert_eq!(desk.stream(conn, &format!("b{number}.*"), "").status(), "200");
    }
    let before = desk.host.shard.counters().notify_told.get();
    let (_, effects) = desk.published(&name, "", "x");
    assert_eq!(desk.host.shard.counters().notify_told.get() - before, 3 * (NOTIFY_PREFIX_PARTS_MAX as u64 + 1));
    assert!(conns.iter().all(|conn| Heard::of(&effects, *conn).data() == ["x"]));
    // With more, it is refused.
    let conn = desk.connect();
    assert_eq!(desk.stream(conn, &format!("{}*", &name[..2 * (NOTIFY_PREFIX_PARTS_MAX + 1)]), "").status(), "400");
}

/// The publisher is charged for clients waiting by prefix as for others.
#[test]
fn who_publishes_to_many_by_prefix_pays_for_each() {
    let mut desk = Desk::new(Channels { publications_s: 10, ..any() });
    for number in 0..3_200 {
        let conn = desk.connect_from([198, 51, 100, (number / 600) as u8]);
        assert_eq!(desk.get(conn, "p.*?wait=300"), Heard::default());
    }
    assert_eq!(desk.publish("p.a", "x").status(), "200");
    assert_eq!(desk.publish("p.a", "x").status(), "429", "two hundred publications' worth");
}

/// One address that waits for all channels makes publications more expensive, but does not stop
/// them.
#[test]
fn one_address_does_not_stop_publishers_by_a_prefix() {
    let mut desk = Desk::new(Channels { publications_s: Channels::default().publications_s, ..any() });
    let waits = |desk: &mut Desk| {
        let conn = desk.connect_from([198, 51, 100, 1]);
        desk.get(conn, "*?wait=300").status().is_empty()
    };
    let waiting = (0..1_000).filter(|_| waits(&mut desk)).count();
    assert_eq!(waiting, (Channels::default().waiting_max as usize).div_ceil(NOTIFY_REQUESTS_PER_PREFIX));
    for channel in ["a", "b", "c", "d"] {
        assert_eq!(desk.publish(channel, "x").status(), "200");
    }
}

/// A client that takes nothing costs as much as at one channel, and receives all stored items when
/// it reads again; a gap reports the others.
#[test]
fn a_slow_subscriber_costs_no_memory_and_misses_nothing_unsaid() {
    for format in ["", "?format=binary"] {
        let mut desk = Desk::new(any());
        let (slow, _) = desk.subscribe(&format!("*{format}"), KEY);
        let got = desk.overwhelms(slow, 100);
        let items = match format {
            "" => data(&frames(&got)).len(),
            _ => (0..)
                .scan(0, |at, _: u32| first_frame(&got[*at..]).map(|(said, length)| (*at += length, said).1))
                .count(),
        };
        assert_eq!(items, 100, "{format}");
    }
}

/// The server stops, and clients leave: nothing remains.
#[test]
fn a_stop_and_connections_that_vanish_leave_nothing() {
    let mut desk = Desk::new(any());
    let (gone, _) = desk.subscribe("p.*", KEY);
    let (stays, _) = desk.subscribe("p.*,q.*,x", KEY);
    desk.host.turn(Input::Closed { conn: gone });
    desk.publish("p.a", "x");
    let effects = desk.stops();
    assert!(effects.iter().any(|effect| matches!(effect, Effect::Close { conn, .. } if *conn == stays)));
    assert!(String::from_utf8_lossy(&bytes_to(&effects, stays).0).contains('\u{3}') || bytes_to(&effects, stays).1);
}

//! The operator's figures about channels match the actions of a script of clients exactly.

use throng_engine::io::Input;
use throng_engine::web::policy::Channels;

use crate::notify_world::{Desk, KEY, TOKEN, open};

/// The current figures with these names.
fn figures<const N: usize>(desk: &Desk, names: [&str; N]) -> [u64; N] {
    use throng_engine::counters::Counted as _;
    let list = desk.host.shard.counters().list();
    names.map(|name| list.iter().find(|row| row.0 == name).unwrap_or_else(|| panic!("no counter {name}")).3)
}

const WAITING: [&str; 5] = ["notify_waiting", "notify_polls", "notify_events", "notify_sockets", "notify_channels"];
const TOLD: [&str; 4] = ["notify_published", "notify_told", "notify_gaps", "notify_behind"];
const REFUSED: [&str; 3] = ["notify_publish_refused", "notify_subscribe_refused", "notify_ended"];

#[test]
fn who_waits_is_counted_by_the_way_in_which_they_do() {
    let mut desk = Desk::new(Channels { mercure: true, items_max: 3, ..open() });
    let polls = [desk.connect(), desk.connect()];
    polls.iter().for_each(|conn| drop(desk.get(*conn, "a?wait=55")));
    let events = desk.connect();
    desk.stream(events, "a,b", "");
    let mercure = desk.connect();
    desk.says(mercure, "GET /.well-known/mercure?topic=a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let sockets = [desk.subscribe("a", KEY).0, desk.subscribe("c", KEY).0, desk.subscribe("a", KEY).0];
    desk.passes(2);
    assert_eq!(figures(&desk, WAITING), [7, 2, 2, 3, 3]);

    // Each of the six at `a` receives the first item, and then the two polls are gone: four receive
    // the other three.
    for body in ["1", "2", "3", "4"] {
        assert_eq!(desk.publish("a", body).status(), "200");
    }
    assert_eq!(figures(&desk, TOLD), [4, 6 + 3 * 4, 0, 0]);
    desk.passes(2);
    assert_eq!(figures(&desk, WAITING), [5, 0, 2, 3, 3]);
    // A batch counts as its items; a repetition counts as none; nobody waits for it.
    let batch = "Content-Type: application/x-ndjson\r\nIdempotency-Key: k\r\n";
    (0..2).for_each(|_| assert_eq!(desk.publish_with("d", batch, "1\n2\n3\n").status(), "200"));
    assert_eq!(figures(&desk, TOLD), [7, 18, 0, 0]);
    // Three items of `a` are stored: a client without any misses the first.
    let late = desk.connect();
    assert_eq!(desk.get(late, "a?after=0").data().len(), 3);
    assert_eq!(figures(&desk, TOLD), [7, 21, 0, 0], "who asks for all that is kept misses nothing");
    assert_eq!(desk.publish("a", "5").status(), "200");
    assert_eq!(desk.get(late, "a?after=1").data().len(), 3);
    assert_eq!(figures(&desk, TOLD), [8, 21 + 4 + 3, 1, 0]);

    for conn in [events, mercure, late].into_iter().chain(sockets) {
        desk.host.turn(Input::Closed { conn });
    }
    desk.passes(300);
    assert_eq!(figures(&desk, WAITING), [0; 5], "nothing is left");
    assert_eq!(figures(&desk, REFUSED), [0; 3]);
}

#[test]
fn what_is_refused_is_counted_once_for_what_it_wanted() {
    let mut desk = Desk::new(Channels { prefixes: Box::new(["a".into()]), publish_open: false, ..open() });
    let token = format!("Authorization: Bearer {TOKEN}\r\n");
    let large = "x".repeat(40_000);
    // To publish: without the token, at no channel, with an invalid key, too much, and too much in
    // chunks.
    assert_eq!(desk.publish("a", "x").status(), "401");
    assert_eq!(desk.publish_with("b", &token, "x").status(), "404");
    assert_eq!(desk.publish_with("a", &format!("{token}Idempotency-Key: a b\r\n"), "x").status(), "400");
    assert_eq!(desk.publish_with("a", &token, &large).status(), "413");
    assert_eq!(desk.publish_with("a", &token, &large.repeat(2)).status(), "413");
    assert_eq!(figures(&desk, REFUSED), [5, 0, 0]);
    let chunked =
        format!("POST /n/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n11171\r\n{large}{large}");
    let conn = desk.connect();
    assert_eq!(desk.says(conn, &chunked).status(), "413");
    assert_eq!(figures(&desk, REFUSED), [6, 0, 0]);
    // To read: an invalid position, no channel, an old version of WebSocket, and occupancy where it
    // is not reported.
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a?after=x").status(), "400");
    assert_eq!(desk.get(conn, "b").status(), "404");
    assert_eq!(
        desk.get_with(conn, "a", "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 8\r\n").status(),
        "426"
    );
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a?occupancy").status(), "403");
    assert_eq!(figures(&desk, REFUSED), [6, 4, 0]);
    // A user's node that is not open refuses both, and its home reports that.
    let user = desk.user("romeo");
    desk.makes(user, "a-own", &[("pubsub#access_model", "whitelist")]);
    assert_eq!(desk.stream(conn, "a-own", "").status(), "403");
    assert_eq!(desk.publish_with("a-own", &token, "x").status(), "200", "the operator may");
    assert_eq!(figures(&desk, REFUSED), [6, 5, 0]);
    // Neither other paths nor other methods count.
    for path in ["/x", "/n", "/http-bind", "/.well-known/mercure.txt"] {
        let conn = desk.connect();
        assert!(desk.says(conn, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")).status().starts_with('4'));
    }
    let conn = desk.connect();
    assert_eq!(desk.says(conn, "PATCH /n/a HTTP/1.1\r\nHost: localhost\r\n\r\n").status(), "405");
    assert_eq!(figures(&desk, REFUSED), [6, 5, 0]);
    let refused = desk.host.shard.counters().http_refused.get();
    assert_eq!(refused, 6 + 5 + 5, "all of them are refused requests");
}

#[test]
fn one_that_takes_too_slowly_falls_behind_and_is_not_counted_for_each_item() {
    let mut desk = Desk::new(Channels { items_max: 150, ..open() });
    let slow = desk.connect();
    desk.stream(slow, "a", "");
    desk.overwhelms(slow, 100);
    let [published, told, gaps, behind] = figures(&desk, TOLD);
    assert_eq!((published, told, gaps), (100, 100, 0), "it gets all of them in the end");
    assert!((1..=20).contains(&behind), "{behind} times, of 100 items that it did not take at once");
}

//! Subscriptions to channels (`/n/`) over WebSocket (RFC 6455): the handshake, the output, and what
//! clients may send.

use throng_engine::io::{Effect, Input};
use throng_engine::limits::NOTIFY_HEARTBEAT_S;
use throng_engine::web::policy::{Channels, Policy};
use throng_sim::frame::frame;

use crate::notify_world::{ACCEPTED, Desk, KEY, bytes_to, data, frames, frames_to, open, place, settings, upgrade};

#[test]
fn a_handshake_is_answered_without_a_subprotocol_rfc6455_4_2_2() {
    let mut desk = Desk::new(open());
    for fields in ["", "Sec-WebSocket-Protocol: xmpp, other\r\n", "Sec-WebSocket-Extensions: permessage-deflate\r\n"] {
        let conn = desk.connect();
        let (said, ends) = desk.sends(conn, upgrade("a,b", &format!("{KEY}{fields}")).as_bytes());
        assert_eq!((said, ends), (vec![ACCEPTED.to_owned(), place("0,0")], false), "{fields}");
    }
    let conn = desk.connect();
    desk.wait(conn, 2);
    let counters = desk.host.shard.counters();
    assert_eq!((counters.notify_waiting.get(), counters.websockets.get()), (3, 3));
}

#[test]
fn what_is_wrong_with_a_handshake_is_refused_rfc6455_4_2_1() {
    let mut desk = Desk::new(Channels { prefixes: Box::new(["a".into()]), ..open() });
    let mut status = |request: String| {
        let conn = desk.connect();
        let (said, _) = desk.sends(conn, request.as_bytes());
        said.first().map_or("", |head| &head[9..12]).to_owned()
    };
    for (fields, expected) in [
        ("Sec-WebSocket-Version: 13\r\n", "400"),
        ("Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n", "400"),
        ("Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "426"),
        ("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", "426"),
    ] {
        assert_eq!(status(upgrade("a", fields)), expected, "{fields}");
    }
    for (path, expected) in
        [("b", "404"), ("a,b", "404"), ("", "400"), ("a,a", "400"), ("a?after=x", "400"), ("a?after=1,2", "400")]
    {
        assert_eq!(status(upgrade(path, KEY)), expected, "{path}");
    }
    assert_eq!(status(upgrade("a", KEY).replace("HTTP/1.1", "HTTP/1.0")), "426");
    // A request without an upgrade gets none (RFC 9110 7.8).
    assert_eq!(status(upgrade("a", KEY).replace("Connection: Upgrade\r\n", "")), "204");
    assert_eq!(status(upgrade("a", KEY).replace("Upgrade: websocket", "Upgrade: h2c")), "204");
    assert_eq!(status(upgrade("a", KEY)), "101");
}

#[test]
fn pages_of_other_origins_are_refused_rfc6455_10_2() {
    let policy =
        Policy { origins: Some(Box::new(["https://page.example".into()])), channels: open(), ..Policy::default() };
    let mut one = settings(1, open());
    one.web = policy.into();
    let mut desk = Desk::of(one);
    for (origin, expected) in [("https://page.example", "101"), ("https://evil.example", "403")] {
        let conn = desk.connect();
        let (said, _) = desk.sends(conn, upgrade("a", &format!("{KEY}Origin: {origin}\r\n")).as_bytes());
        assert_eq!(&said[0][9..12], expected, "{origin}");
    }
}

#[test]
fn items_come_as_messages_and_go_on_where_they_were() {
    let mut desk = Desk::new(open());
    desk.publish("a", "one");
    let (conn, said) = desk.subscribe("a", KEY);
    assert_eq!(said, [place("1")], "from now on, and where that is");
    let said = desk.messages(conn, "a", "t\nwo");
    let [message] = &said[..] else { panic!("one message: {said:?}") };
    let (begin, end) = ("{\"items\":[{\"channel\":\"a\",\"id\":\"2\",\"item\":\"", "}],\"gaps\":[],\"after\":\"2\"}");
    assert!(message.starts_with(begin) && message.ends_with(end), "{message}");
    assert_eq!(data(&said), ["t\\nwo"]);
    assert_eq!(desk.sends(conn, &frame(0x88, b"\x03\xe8")), (vec!["close 1000".to_owned()], true));
    desk.host.turn(Input::Closed { conn });
    desk.publish("a", "three");
    let (_, said) = desk.subscribe("a?after=1", KEY);
    assert_eq!((said.len(), data(&said)), (1, vec!["t\\nwo", "three"]), "what is there comes in one message");
    assert!(said[0].ends_with("\"after\":\"3\"}"));
    assert_eq!(data(&desk.subscribe("a?after=0", KEY).1).len(), 3);
    assert!(desk.subscribe("a?after=3", KEY).1.is_empty());
}

/// A client that loses its connection before the first item has missed nothing: it returns to the
/// position that it received at once.
#[test]
fn who_begins_now_is_told_where_that_is() {
    let mut desk = Desk::new(open());
    ["a", "a", "b"].iter().for_each(|channel| drop(desk.publish(channel, "old")));
    let (conn, said) = desk.subscribe("a,b", KEY);
    let [first] = &said[..] else { panic!("one message: {said:?}") };
    assert_eq!(*first, place("2,1"));
    desk.host.turn(Input::Closed { conn });
    ["a", "b"].iter().for_each(|channel| drop(desk.publish(channel, "new")));
    let after = first.split('"').nth_back(1).unwrap();
    let (_, said) = desk.subscribe(&format!("a,b?after={after}"), KEY);
    assert_eq!(data(&said), ["new", "new"]);
    assert!(said.iter().all(|message| message.contains("\"gaps\":[],")) && said[1].ends_with("\"after\":\"3,2\"}"));
    // A client that brings a position already knows it.
    assert!(desk.subscribe("a,b?after=3,2", KEY).1.is_empty());
}

#[test]
fn several_channels_have_a_place_each() {
    let mut desk = Desk::new(open());
    ["a", "a", "b"].iter().for_each(|channel| drop(desk.publish(channel, "old")));
    let (conn, said) = desk.subscribe("a,b,c", KEY);
    assert_eq!(said, [place("2,1,0")]);
    assert!(desk.messages(conn, "b", "x")[0].ends_with("\"after\":\"2,2,0\"}"));
    assert!(desk.messages(conn, "c", "y")[0].ends_with("\"after\":\"2,2,1\"}"));
    let (_, said) = desk.subscribe("c,b,a?after=0,1,2", KEY);
    assert_eq!(data(&said), ["y", "x"]);
    assert!(said.last().unwrap().ends_with("\"after\":\"1,2,2\"}"), "{said:?}");
}

#[test]
fn a_message_without_items_is_the_sign_of_life() {
    let mut desk = Desk::new(open());
    desk.publish("a", "one");
    let (conn, _) = desk.subscribe("a,b", KEY);
    let silence = u64::from(NOTIFY_HEARTBEAT_S);
    assert_eq!(desk.listens(conn, silence - 1), (vec![], false));
    assert_eq!(desk.listens(conn, 6), (vec![place("1,0")], false));
    // Only after silence.
    for _ in 0..4 {
        assert_eq!(desk.messages(conn, "b", "x").len(), 1);
        assert_eq!(desk.listens(conn, silence - 3), (vec![], false));
    }
    assert_eq!(desk.listens(conn, 8).0, [place("1,4")]);
}

#[test]
fn who_has_missed_what_is_not_kept_is_told() {
    let mut desk = Desk::new(Channels { items_max: 3, ..open() });
    (1..=10).for_each(|number| drop(desk.publish("a", &number.to_string())));
    desk.publish("b", "x");
    let (_, said) = desk.subscribe("b,a?after=0,5", KEY);
    assert_eq!(data(&said), ["x", "8", "9", "10"]);
    assert!(said[0].contains("\"gaps\":[],") && said[1].contains("\"gaps\":[\"a\"],\"after\":\"1,10\""), "{said:?}");
    let (_, said) = desk.subscribe("a?after=7", KEY);
    assert!(said[0].contains("\"gaps\":[],"), "nothing is missing");
}

#[test]
fn a_node_that_is_not_open_to_everybody_is_refused_before_and_behind_the_handshake_rfc6455_7_4_1() {
    let mut desk = Desk::new(open());
    let romeo = desk.user("romeo");
    desk.makes(romeo, "shut", &[("pubsub#access_model", "whitelist")]);
    let conn = desk.connect();
    let (said, _) = desk.sends(conn, upgrade("shut", KEY).as_bytes());
    assert!(said[0].starts_with("HTTP/1.1 403"), "{said:?}");
    let conn = desk.connect();
    let (said, ends) = desk.sends(conn, upgrade("a,shut?after=0,0", KEY).as_bytes());
    assert_eq!((said, ends), (vec![ACCEPTED.to_owned(), "close 1008".to_owned()], true));
    desk.host.turn(Input::Closed { conn });
    desk.wait(romeo, 2);
    assert_eq!(desk.host.shard.counters().notify_waiting.get(), 0);
}

#[test]
fn control_frames_are_answered_in_pieces_too_rfc6455_5_5() {
    let mut desk = Desk::new(open());
    // With the handshake, before it is answered.
    let conn = desk.connect();
    let early = [upgrade("a", KEY).as_bytes(), &frame(0x89, b"early")].concat();
    assert_eq!(desk.sends(conn, &early).0, [ACCEPTED, &place("0"), "pong early"]);
    let longest = [b'x'; 125];
    let bytes = [frame(0x89, b""), frame(0x8a, b"nobody asked"), frame(0x89, &longest), frame(0x88, b"")].concat();
    let mut said = Vec::new();
    for byte in &bytes[..bytes.len() - 1] {
        let (more, ends) = desk.sends(conn, &[*byte]);
        assert!(!ends);
        said.extend(more);
    }
    assert_eq!(said, ["pong ".to_owned(), format!("pong {}", "x".repeat(125))]);
    assert_eq!(desk.messages(conn, "a", "between").len(), 1);
    // RFC 6455 5.5.1: a close without a code is answered by one without a code.
    assert_eq!(desk.sends(conn, &bytes[bytes.len() - 1..]), (vec!["close 0".to_owned()], true));
    assert!(desk.messages(conn, "a", "behind").is_empty(), "nothing goes behind the last frame");
}

#[test]
fn nothing_is_published_over_it_rfc6455_7_4_1() {
    let mut desk = Desk::new(open());
    let unmasked = b"\x89\x00".to_vec();
    // Truncated frames: errors are reported before the frame is complete.
    let huge = [&[0x81, 0xff][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat();
    let huge_ping = [&[0x89, 0xfe][..], &200_u16.to_be_bytes(), &[0; 4]].concat();
    for (bytes, code) in [
        (frame(0x81, b"{\"items\":[]}"), 1003),
        (frame(0x81, b""), 1003),
        (frame(0x82, b"x"), 1003),
        (frame(0x01, b"a fragment"), 1003),
        (frame(0x80, b"the end of none"), 1003),
        (frame(0x81, &[b'x'; 100_000]), 1003),
        (huge, 1003),
        (unmasked, 1002),
        (huge_ping, 1002),
        (frame(0x09, b"a fragment"), 1002),
        (frame(0xc9, b"an unknown bit"), 1002),
        (frame(0x83, b"an unknown kind"), 1002),
        (frame(0x88, b"\x03"), 1002),
        (frame(0x88, b"\x03\xee"), 1002),
        (frame(0x88, b"\x03\xe8\xff"), 1007),
    ] {
        let (conn, _) = desk.subscribe("a", KEY);
        assert_eq!(desk.sends(conn, &bytes), (vec![format!("close {code}")], true), "{bytes:?}");
        assert_eq!(desk.sends(conn, &frame(0x89, b"behind")), (vec![], false), "nothing is read any more");
        desk.host.turn(Input::Closed { conn });
    }
    let conn = desk.connect();
    assert_eq!(desk.get(conn, "a").status(), "204", "nothing was published");
    desk.wait(conn, 2);
    let counters = desk.host.shard.counters();
    assert_eq!((counters.notify_waiting.get(), counters.websockets.get()), (0, 0));
}

/// Like events: items that a slow subscriber does not take are not queued for it.
#[test]
fn a_slow_subscriber_costs_what_one_read_costs() {
    let mut desk = Desk::new(Channels { items_max: 150, ..open() });
    let (slow, _) = desk.subscribe("a", KEY);
    let got = frames(&desk.overwhelms(slow, 90));
    assert!(got.iter().all(|message| message.contains("\"gaps\":[],")));
    let numbers: Vec<usize> = data(&got).iter().map(|data| data[..3].parse().unwrap()).collect();
    assert_eq!(numbers, (0..90).collect::<Vec<_>>(), "each once, in order");
}

/// A client that does not read the answers to its pings is not read from; and one that takes
/// nothing at all is disconnected.
#[test]
fn a_flood_of_pings_waits_with_who_sends_it() {
    let mut desk = Desk::new(open());
    let (conn, _) = desk.subscribe("a", KEY);
    desk.host.prompt = false;
    let pings = frame(0x89, &[b'x'; 125]).repeat(100);
    let is_paused = |effect: &Effect| matches!(effect, Effect::Pause { conn: of } if *of == conn);
    let (mut got, mut paused, mut sent) = (Vec::new(), false, 0);
    while !paused && sent < 10_000 {
        sent += 1;
        let effects = desk.host.turn(Input::Received { conn, bytes: &pings });
        paused = effects.iter().any(is_paused);
        got.extend(bytes_to(&effects, conn).0);
    }
    let waiting = desk.host.shard.counters().outbound_bytes.get();
    let soft = settings(1, open()).outbound_bytes_soft as u64;
    assert!(paused && waiting <= soft + 2 * 127, "{waiting} bytes wait");
    // Data received before the pause is kept, and answered when the client reads.
    let mut goes_on = false;
    for _ in 0..50 {
        let effects = desk.host.sent(conn);
        goes_on |= effects.iter().any(|effect| matches!(effect, Effect::Resume { conn: of, .. } if *of == conn));
        got.extend(bytes_to(&effects, conn).0);
    }
    let got = frames(&got);
    assert!(goes_on && got.len() == 100 * sent && got.iter().all(|pong| pong.starts_with("pong xx")), "{}", got.len());
    assert!(desk.listens(conn, 100).1, "it takes nothing, for send_stall_s_max");
    assert_eq!(desk.host.shard.counters().closed_unread.get(), 1);
}

#[test]
fn subscribers_count_for_their_address_and_a_stop_ends_them_rfc6455_7_4_1() {
    let mut desk = Desk::new(Channels { waiting_max: 2, ..open() });
    let (first, _) = desk.subscribe("a", KEY);
    let (second, _) = desk.subscribe("a,b", KEY);
    let third = desk.connect();
    let (said, _) = desk.sends(third, upgrade("a", KEY).as_bytes());
    assert!(said[0].starts_with("HTTP/1.1 429") && said[0].contains("Retry-After: 10"), "{said:?}");
    desk.host.turn(Input::Closed { conn: second });
    let (said, _) = desk.sends(third, upgrade("a", KEY).as_bytes());
    assert_eq!(said, [ACCEPTED, &place("0")]);
    let effects = desk.stops();
    for conn in [first, third] {
        assert_eq!(frames_to(&effects, conn), (vec!["close 1001".to_owned()], true));
    }
}

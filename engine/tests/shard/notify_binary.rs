//! Items as binary messages of a WebSocket (`format=binary`): content as published, and everything
//! else as text.

use throng_engine::id::ConnId;
use throng_engine::io::{Effect, Input};
use throng_sim::frame::frame;

use crate::notify_world::{Desk, KEY, bytes_to, frames, open, place};

/// A message as described in docs/notifications.md.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    channel: String,
    id: u64,
    time_ms: u64,
    key: String,
    kind: String,
    after: String,
    content: Vec<u8>,
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn read(bytes: &[u8]) -> Message {
    let (head, mut rest) = bytes.split_at(24);
    assert_eq!(head[0], 1, "the version");
    let mut text = |length: u64| {
        let (text, behind) = rest.split_at(length as usize);
        rest = behind;
        String::from_utf8(text.to_vec()).expect("UTF-8")
    };
    let after = text(number(&head[6..8]));
    let channel = text(u64::from(head[1]));
    let (key, kind) = (text(number(&head[2..4])), text(number(&head[4..6])));
    let [id, time_ms] = [8, 16].map(|at| number(&head[at..at + 8]));
    Message { channel, id, time_ms, key, kind, after, content: rest.to_vec() }
}

/// The binary messages in the output.
fn messages(effects: &[Effect], of: ConnId) -> Vec<Message> {
    let (bytes, _) = bytes_to(effects, of);
    let (mut all, mut rest) = (Vec::new(), &bytes[..]);
    if let Some(head) = rest.starts_with(b"HTTP").then(|| rest.windows(4).position(|at| at == b"\r\n\r\n").unwrap()) {
        rest = &rest[head + 4..];
    }
    while !rest.is_empty() {
        let (head, length) = match rest[1] {
            126 => (4, number(&rest[2..4])),
            127 => (10, number(&rest[2..10])),
            short => (2, u64::from(short)),
        };
        let (one, behind) = rest.split_at(head + length as usize);
        if one[0] == 0x82 {
            all.push(read(&one[head..]));
        }
        rest = behind;
    }
    all
}

#[test]
fn content_comes_as_it_was_published_rfc6455_5_6() {
    let mut desk = Desk::new(open());
    let (binary, said) = desk.subscribe("a,b?format=binary", KEY);
    let (text, _) = desk.subscribe("a,b?format=json", KEY);
    assert_eq!(said, [place("0,0")], "what is no item is text");
    let long = "\u{e9}<&\"'".repeat(4_000);
    let bodies = ["hello", "{\"a\":\"\\u2028\"}", "", "\u{0}\u{1}", &long];
    for (at, body) in bodies.into_iter().enumerate() {
        let fields = format!("Content-Type: text/x-{at}\r\nItem-Key: k{at}\r\n");
        let (_, effects) = desk.published("b", &fields, body);
        let expected = Message {
            channel: "b".into(),
            id: at as u64 + 1,
            time_ms: desk.host.now.wall_us / 1_000,
            key: format!("k{at}"),
            kind: format!("text/x-{at}"),
            after: format!("0,{}", at + 1),
            content: body.as_bytes().to_vec(),
        };
        assert_eq!(messages(&effects, binary), [expected]);
        assert!(messages(&effects, text).is_empty() && frames(&bytes_to(&effects, text).0).len() == 1);
    }
    // Bytes that are not text.
    let (publisher, bytes) = (desk.connect(), [0xff, 0xfe, 0, 0x80]);
    let head = format!("POST /n/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", bytes.len());
    let effects = desk.host.turn(Input::Received { conn: publisher, bytes: &[head.as_bytes(), &bytes].concat() });
    let told = messages(&effects, binary);
    assert_eq!(
        (&told[0].content[..], &*told[0].kind, &*told[0].after),
        (&bytes[..], "application/octet-stream", "1,5")
    );
    // Stored items arrive in the same form for a returning client.
    let conn = desk.connect();
    let asked = crate::notify_world::upgrade("a,b?after=0,4&format=binary", KEY);
    let effects = desk.host.turn(Input::Received { conn, bytes: asked.as_bytes() });
    let told: Vec<_> = messages(&effects, conn).into_iter().map(|one| (one.channel, one.id, one.content)).collect();
    assert_eq!(told, [("a".into(), 1, bytes.to_vec()), ("b".into(), 5, long.into_bytes())]);
}

#[test]
fn gaps_signs_of_life_and_the_end_are_as_by_text() {
    let mut desk = Desk::new(throng_engine::web::policy::Channels { items_max: 1, ..open() });
    (0..3).for_each(|number| drop(desk.publish("a", &number.to_string())));
    let conn = desk.connect();
    let asked = crate::notify_world::upgrade("a?after=1&format=binary", KEY);
    let effects = desk.host.turn(Input::Received { conn, bytes: asked.as_bytes() });
    let bytes = bytes_to(&effects, conn).0;
    let gap = b"\"gaps\":[\"a\"],\"after\":\"2\"}";
    assert!(bytes.windows(gap.len()).any(|at| at == gap), "{}", String::from_utf8_lossy(&bytes));
    let told = messages(&effects, conn);
    assert_eq!((told.len(), &*told[0].content, &*told[0].after), (1, &b"2"[..], "3"));
    let (said, _) = desk.listens(conn, 20);
    assert_eq!(said, [place("3")], "the sign of life");
    // It accepts no publications, binary or not.
    for message in [0x81, 0x82] {
        let (conn, _) = desk.subscribe("a?format=binary", KEY);
        assert_eq!(desk.sends(conn, &frame(message, b"x")), (vec!["close 1003".to_owned()], true));
    }
}

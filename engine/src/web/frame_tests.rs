//! Frames of clients, well-formed and malformed.

use throng_sim::frame::frame;

use super::frame::{Assembly, Code, Event, read_control};

/// Reads bytes in pieces of this length: messages as they are, other events by name.
fn heard(bytes: &[u8], pieces: usize, bytes_max: usize) -> Result<Vec<String>, Code> {
    let (mut message, mut all) = (Assembly::default(), Vec::new());
    let (mut at, mut end) = (0, 0);
    while end < bytes.len() {
        end = bytes.len().min(end + pieces);
        loop {
            let (used, event) = message.read(&bytes[at..end], bytes_max).map_err(|fault| fault.code)?;
            at += used;
            match event {
                Event::More => break,
                Event::Message => {
                    all.push(String::from_utf8_lossy(message.bytes()).into_owned());
                    message.clear();
                }
                Event::Ping(content) => all.push(format!("ping {}", String::from_utf8_lossy(content.bytes()))),
                Event::Pong => all.push("pong".into()),
                Event::Close(code) => all.push(format!("close {code:?}")),
            }
        }
        assert!(end - at < 14 + 125, "no more than a control frame is left unread");
    }
    assert!(message.is_idle() || all.is_empty() || at == bytes.len());
    Ok(all)
}

fn fails(bytes: &[u8]) -> Code {
    let whole = heard(bytes, bytes.len(), 100_000).expect_err("it is wrong");
    assert_eq!(heard(bytes, 1, 100_000).expect_err("it is wrong in pieces"), whole);
    whole
}

#[test]
fn messages_come_out_whole_with_control_frames_between_their_frames_rfc6455_5_4() {
    let bytes = [
        frame(0x81, b"<a/>"),
        frame(0x01, b"<b>"),
        frame(0x89, b"there?"),
        frame(0x00, "\u{20ac}".as_bytes().split_at(1).0),
        frame(0x8a, b""),
        frame(0x00, b""),
        frame(0x80, "\u{20ac}".as_bytes().split_at(1).1),
        frame(0x81, &[b'x'; 200]),
        frame(0x81, &[b'y'; 70_000]),
        frame(0x81, b""),
        frame(0x88, b"\x03\xe9bye"),
    ]
    .concat();
    let (long, longer) = ("x".repeat(200), "y".repeat(70_000));
    let expected = ["<a/>", "ping there?", "pong", "<b>\u{20ac}", &long, &longer, "", "close Some(1001)"];
    for pieces in [1, 2, 3, 7, 13, 64, 4_096, bytes.len()] {
        assert_eq!(heard(&bytes, pieces, 100_000).unwrap(), expected, "{pieces}");
    }
}

#[test]
fn what_a_client_must_not_send_ends_the_websocket_rfc6455_5() {
    let unmasked = [0x81, 4, b'<', b'a', b'/', b'>'];
    for (bad, code, why) in [
        (unmasked.to_vec(), Code::Protocol, "not masked (5.1)"),
        (frame(0xc1, b"a"), Code::Protocol, "RSV1, as permessage-deflate would have it, which was not agreed on (5.2)"),
        (frame(0xa1, b"a"), Code::Protocol, "RSV2"),
        (frame(0x91, b"a"), Code::Protocol, "RSV3"),
        (frame(0x83, b"a"), Code::Protocol, "a kind of data that there is not"),
        (frame(0x87, b"a"), Code::Protocol, "a kind of data that there is not"),
        (frame(0x8b, b"a"), Code::Protocol, "a kind of control that there is not"),
        (frame(0x8f, b"a"), Code::Protocol, "a kind of control that there is not"),
        (frame(0x80, b"a"), Code::Protocol, "nothing to go on with (5.4)"),
        ([frame(0x01, b"a"), frame(0x81, b"b")].concat(), Code::Protocol, "a message within a message (5.4)"),
        ([frame(0x01, b"a"), frame(0x82, b"b")].concat(), Code::Protocol, "a message within a message"),
        (frame(0x82, b"a"), Code::Unsupported, "binary (RFC 7395 3.2)"),
        (frame(0x09, b"a"), Code::Protocol, "a ping in pieces (5.5)"),
        (frame(0x89, &[b'a'; 126]), Code::Protocol, "a long ping (5.5)"),
        (frame(0x88, &[b'a'; 126]), Code::Protocol, "a long close"),
        (vec![0x81, 0xfe, 0, 125, 1, 2, 3, 4], Code::Protocol, "two bytes for a length of one (5.2)"),
        (vec![0x81, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4], Code::Protocol, "eight for one of two"),
        (vec![0x81, 0xff, 0x80, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4], Code::Protocol, "the first bit of eight"),
        (
            vec![0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4],
            Code::TooLong,
            "as long as can be",
        ),
        (frame(0x88, b"\x03"), Code::Protocol, "half a code (5.5.1)"),
        (frame(0x88, b"\x03\xe8\xff"), Code::NotUtf8, "a reason that is no text (5.5.1)"),
        (frame(0x88, b"\x03\xed"), Code::Protocol, "1005, which is never sent (7.4.1)"),
        (frame(0x88, b"\x03\xee"), Code::Protocol, "1006, which is never sent"),
        (frame(0x88, b"\x03\xf7"), Code::Protocol, "1015, which is never sent"),
        (frame(0x88, b"\x03\xe7"), Code::Protocol, "999 (7.4.2)"),
        (frame(0x88, b"\x07\xd0"), Code::Protocol, "2000, which is reserved"),
        (frame(0x88, b"\x13\x88"), Code::Protocol, "5000"),
    ] {
        assert_eq!(fails(&bad), code, "{why}");
    }
    for (good, code) in
        [(frame(0x88, b""), "None"), (frame(0x88, b"\x03\xe8"), "Some(1000)"), (frame(0x88, b"\x0f\xa0"), "Some(4000)")]
    {
        assert_eq!(heard(&good, 1, 10).unwrap(), [format!("close {code}")]);
    }
}

#[test]
fn a_message_is_bounded_before_its_bytes_come_rfc6455_10_4() {
    let mut message = Assembly::default();
    // The header alone.
    assert_eq!(message.read(&frame(0x81, &[b'x'; 101])[..6], 100).unwrap_err().code, Code::TooLong);
    let mut message = Assembly::default();
    let (used, event) = message.read(&frame(0x01, &[b'x'; 60]), 100).unwrap();
    assert_eq!((used, event), (66, Event::More));
    assert!(!message.is_idle());
    assert_eq!(message.read(&frame(0x00, &[b'x'; 41])[..6], 100).unwrap_err().code, Code::TooLong, "in pieces, too");
    assert_eq!(heard(&[frame(0x01, &[b'x'; 60]), frame(0x80, &[b'x'; 40])].concat(), 5, 100).unwrap()[0].len(), 100);
}

#[test]
fn a_message_that_is_looked_at_again_comes_again() {
    let mut message = Assembly::default();
    let bytes = [frame(0x81, b"<a/>"), frame(0x81, b"<b/>")].concat();
    let (used, event) = message.read(&bytes, 100).unwrap();
    assert_eq!(event, Event::Message);
    message.again();
    assert!(!message.is_idle());
    assert_eq!(message.read(&bytes[used..], 100).unwrap(), (0, Event::Message));
    assert_eq!(message.bytes(), b"<a/>");
    message.clear();
    message.read(&bytes[used..], 100).unwrap();
    assert_eq!(message.bytes(), b"<b/>");
}

#[test]
fn where_only_control_frames_are_taken_a_message_is_refused_at_its_head_rfc6455_5_4() {
    let ping = frame(0x89, b"there?");
    for cut in 0..ping.len() {
        assert_eq!(read_control(&ping[..cut]), Ok((0, Event::More)), "{cut}");
    }
    let (used, event) = read_control(&[&ping[..], b"behind"].concat()).expect("a ping");
    let Event::Ping(content) = event else { panic!("a ping") };
    assert_eq!((used, content.bytes()), (ping.len(), &b"there?"[..]));
    assert_eq!(read_control(&frame(0x8a, b"")), Ok((6, Event::Pong)));
    assert_eq!(read_control(&frame(0x88, b"\x03\xe8")), Ok((8, Event::Close(Some(1000)))));
    for (first, code) in [
        (0x00, Code::Unsupported),
        (0x80, Code::Unsupported),
        (0x81, Code::Unsupported),
        (0x02, Code::Unsupported),
        (0x83, Code::Protocol),
        (0x09, Code::Protocol),
        (0xa9, Code::Protocol),
    ] {
        let bytes = frame(first, &[b'x'; 70_000]);
        assert_eq!(read_control(&bytes[..14]).expect_err("it is wrong").code, code, "{first:#x}");
    }
}

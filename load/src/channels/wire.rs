//! What a server sends at `/n/`: heads of HTTP, server-sent events (HTML 9.2), frames of WebSockets (RFC 6455), and the JSON in them.
//!
//! Each function takes what has come so far and says how much of it is whole; the rest is kept by the caller until more comes.
//! This module must never know who asked, or why.

use std::borrow::Cow;

use serde::Deserialize;

/// Bytes of a head, of an event or of a message that are taken at most.
pub(crate) const WHOLE_BYTES_MAX: usize = 1 << 20;

/// Header fields of an answer that are looked at, at most.
const FIELDS_MAX: usize = 32;

/// Why an answer is given up; one kind of error each.
pub(crate) type Fault = &'static str;

/// The head of an answer (RFC 9112 4).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Head<'a> {
    /// The status code.
    pub(crate) status: u16,
    /// Bytes of the head.
    pub(crate) bytes: usize,
    /// Bytes of the body; none if it says nothing of them.
    pub(crate) length: Option<usize>,
    /// The connection ends with it.
    pub(crate) closes: bool,
    /// When to ask again, in seconds (RFC 9110 10.2.3).
    pub(crate) retry_after_s: Option<u32>,
    /// From where to continue, of an answer without items.
    pub(crate) next_after: Option<&'a str>,
    /// The proof of the opening handshake (RFC 6455 4.2.2).
    pub(crate) accept: Option<&'a str>,
    /// The type of the body.
    pub(crate) kind: Option<&'a str>,
}

/// Reads a head; none if it is not whole.
///
/// # Errors
/// It is no answer of HTTP/1.1, or of a form that is not taken here.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head<'_>>, Fault> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut read = httparse::Response::new(&mut fields);
    let used = match read.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) if bytes.len() < WHOLE_BYTES_MAX => return Ok(None),
        _ => return Err("http: the answer is none of HTTP/1.1"),
    };
    let mut head = Head { status: read.code.unwrap_or_default(), bytes: used, ..Head::default() };
    for field in read.headers.iter() {
        let value = std::str::from_utf8(field.value).unwrap_or_default().trim();
        let is = |name: &str| field.name.eq_ignore_ascii_case(name);
        if is("content-length") {
            let length = value.parse().ok().filter(|length| *length <= WHOLE_BYTES_MAX);
            head.length = Some(length.ok_or("http: a length that is not taken")?);
        } else if is("connection") {
            head.closes |= value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
        } else if is("retry-after") {
            head.retry_after_s = value.parse().ok();
        } else if is("next-after") {
            head.next_after = Some(value);
        } else if is("sec-websocket-accept") {
            head.accept = Some(value);
        } else if is("content-type") {
            head.kind = Some(value);
        } else if is("transfer-encoding") {
            return Err("http: a body in chunks, which is not taken");
        }
    }
    Ok(Some(head))
}

/// A whole answer: its head and its body.
pub(crate) type Answer<'a> = (Head<'a>, &'a [u8]);

/// Reads an answer whose body has a length (RFC 9112 6.3); none if it is not whole.
///
/// # Errors
/// As [`head`].
pub(crate) fn answer(bytes: &[u8]) -> Result<Option<Answer<'_>>, Fault> {
    let Some(head) = head(bytes)? else { return Ok(None) };
    let length = match head.status {
        204 | 304 => 0,
        _ => head.length.ok_or("http: a body without a length")?,
    };
    Ok(bytes[head.bytes..].get(..length).map(|body| (head, body)))
}

/// An event of a stream.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Event<'a> {
    /// From where to continue, if it says.
    pub(crate) id: Option<&'a str>,
    /// Its type; nothing for an item.
    pub(crate) name: &'a str,
    /// What it says.
    pub(crate) data: &'a str,
}

/// Reads the next event, which may be nothing but a comment, and how many bytes it has; none if it is not whole.
///
/// # Errors
/// It is no text, or its data has several lines, which no item has.
pub(crate) fn event(bytes: &[u8]) -> Result<Option<(Event<'_>, usize)>, Fault> {
    let mut event = Event::default();
    let mut at = 0;
    while let Some(end) = memchr::memchr(b'\n', &bytes[at..]).map(|end| at + end) {
        let line = std::str::from_utf8(&bytes[at..end]).map_err(|_| "events: no UTF-8")?;
        let line = line.strip_suffix('\r').unwrap_or(line);
        at = end + 1;
        if line.is_empty() {
            return Ok(Some((event, at)));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => event.id = Some(value),
            "event" => event.name = value,
            "data" if !event.data.is_empty() => return Err("events: data of several lines"),
            "data" => event.data = value,
            _ => {}
        }
    }
    if bytes.len() > WHOLE_BYTES_MAX { Err("events: one that does not end") } else { Ok(None) }
}

/// A frame of a server (RFC 6455 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Frame<'a> {
    /// A message.
    Text(&'a [u8]),
    /// To be answered with the same.
    Ping(&'a [u8]),
    /// Nothing to do.
    Pong,
    /// The end, with a code if it gives one.
    Close(Option<u16>),
}

/// Reads the next frame and how many bytes it has; none if it is not whole.
///
/// # Errors
/// It is none of a server, or of a form that is not taken here.
pub(crate) fn frame(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, Fault> {
    let [first, second, ..] = *bytes else { return Ok(None) };
    if second & 0x80 != 0 {
        return Err("websocket: a frame with a mask");
    }
    let of = |range: std::ops::Range<usize>| {
        bytes.get(range).map(|number| number.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte)))
    };
    let (length, start) = match second & 0x7f {
        126 => (of(2..4), 4),
        127 => (of(2..10), 10),
        length => (Some(u64::from(length)), 2),
    };
    let Some(length) = length else { return Ok(None) };
    if length > WHOLE_BYTES_MAX as u64 {
        return Err("websocket: a frame that is too long");
    }
    let end = start + length as usize;
    let frame = |content| match first {
        0x81 => Ok(Frame::Text(content)),
        0x88 => Ok(Frame::Close(content.first_chunk().map(|code| u16::from_be_bytes(*code)))),
        0x89 => Ok(Frame::Ping(content)),
        0x8a => Ok(Frame::Pong),
        0x01 | 0x00 | 0x80 => Err("websocket: a message in several frames, which is not taken"),
        _ => Err("websocket: a frame that no server of channels sends"),
    };
    match bytes.get(start..end) {
        None => Ok(None),
        Some(content) => Ok(Some((frame(content)?, end))),
    }
}

/// Appends a control frame of a client; its mask hides nothing from anybody, so it is 0 (RFC 6455 5.3 is about scripts).
pub(crate) fn write_control(out: &mut Vec<u8>, opcode: u8, content: &[u8]) {
    let content = &content[..content.len().min(125)];
    out.extend_from_slice(&[0x80 | opcode, 0x80 | content.len() as u8, 0, 0, 0, 0]);
    out.extend_from_slice(content);
}

/// An item as subscribers get it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct Item<'a> {
    /// Its channel.
    #[serde(borrow)]
    pub(crate) channel: Cow<'a, str>,
    /// The server's number of it.
    #[serde(borrow)]
    pub(crate) id: Cow<'a, str>,
    /// Its content; an item of others may have none that is text.
    #[serde(borrow, default)]
    pub(crate) data: Cow<'a, str>,
}

/// What a poll is answered, and what a message of a WebSocket says.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct Items<'a> {
    /// The items, in order.
    #[serde(borrow)]
    pub(crate) items: Vec<Item<'a>>,
    /// Channels of which items are no longer kept.
    #[serde(borrow)]
    pub(crate) gaps: Vec<Cow<'a, str>>,
    /// From where to continue.
    #[serde(borrow)]
    pub(crate) after: Cow<'a, str>,
}

/// What an event of a gap says.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct Gap<'a> {
    /// The channel.
    #[serde(borrow)]
    pub(crate) channel: Cow<'a, str>,
}

/// What a publication is answered.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct Published<'a> {
    /// The server's number, of an item.
    #[serde(borrow)]
    pub(crate) id: Option<Cow<'a, str>>,
    /// The server's numbers, of a batch.
    #[serde(borrow, default)]
    pub(crate) ids: Vec<Cow<'a, str>>,
    /// It was known already.
    pub(crate) repeated: bool,
}

/// Reads JSON of this form; none if it is not.
pub(crate) fn json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

/// The content of an item: as it is, or of a batch, the string that is its line.
pub(crate) fn content(data: &str) -> &str {
    data.strip_prefix('"').and_then(|data| data.strip_suffix('"')).unwrap_or(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: &str = r#"{"channel":"a","id":"7","item":"x","time":"t","type":"text/plain","data":"!1 \"x"}"#;

    /// Whatever the cut, a whole is read once and as it is.
    fn whole<T: PartialEq + std::fmt::Debug>(
        bytes: &[u8],
        read: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Fault>,
    ) -> T {
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Ok(None), "{cut} of {}", bytes.len());
        }
        let (found, used) = read(bytes).expect("no fault").expect("whole");
        assert_eq!(used, bytes.len());
        assert_eq!(read(&[bytes, b"more"].concat()).expect("no fault").expect("whole"), (found, used));
        read(bytes).expect("no fault").expect("whole").0
    }

    #[test]
    fn answers_are_read_however_they_are_cut() {
        let text =
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: application/json\r\nConnection: close\r\n\r\nabcde";
        let read = |bytes: &[u8]| {
            answer(bytes).map(|found| {
                found.map(|(head, body)| ((head.status, head.closes, body.to_vec()), head.bytes + body.len()))
            })
        };
        assert_eq!(whole(text.as_bytes(), read), (200, true, b"abcde".to_vec()));
        let text = "HTTP/1.1 204 No Content\r\nNext-After: 12,0\r\n\r\n";
        let (head, body) = answer(text.as_bytes()).expect("no fault").expect("whole");
        assert_eq!((head.status, head.next_after, head.closes, body), (204, Some("12,0"), false, &b""[..]));
        let text = "HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(answer(text.as_bytes()).expect("no fault").expect("whole").0.retry_after_s, Some(7));
    }

    #[test]
    fn what_is_no_answer_is_a_fault_and_not_kept() {
        for text in [
            "SSH-2.0-x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert!(answer(text.as_bytes()).is_err(), "{text}");
        }
        let endless = [b"HTTP/1.1 200 OK\r\nA: ".to_vec(), vec![b'a'; WHOLE_BYTES_MAX]].concat();
        assert!(head(&endless).is_err());
        assert!(event(&vec![b'a'; WHOLE_BYTES_MAX + 1]).is_err());
        assert!(frame(&[0x81, 127, 0, 0, 0, 0, 255, 0, 0, 0]).is_err());
    }

    #[test]
    fn events_are_read_however_they_are_cut() {
        let text = format!("id: 7\ndata: {ITEM}\n\n");
        let found = whole(text.as_bytes(), |bytes| {
            event(bytes)
                .map(|found| found.map(|(event, used)| ((event.id.map(str::to_owned), event.data.to_owned()), used)))
        });
        assert_eq!(found, (Some("7".into()), ITEM.into()));
        let comment = event(b":\n\nid: 3\n\n").expect("no fault").expect("whole");
        assert_eq!(comment, (Event::default(), 3));
        let (gap, _) = event(b"id: 5\r\nevent: gap\r\ndata: {}\r\n\r\n").expect("no fault").expect("whole");
        assert_eq!(gap, Event { id: Some("5"), name: "gap", data: "{}" });
        assert!(event(b"data: a\ndata: b\n\n").is_err());
    }

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let long = vec![b'x'; 70_000];
        for (length, head) in
            [(5, vec![0x81, 5]), (300, vec![0x81, 126, 1, 44]), (70_000, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70])]
        {
            let bytes = [&head, &long[..length]].concat();
            // Every cut of a short one; of a long one those in its head, and some behind.
            for cut in (0..bytes.len()).filter(|cut| *cut < 20 || cut % 9_999 == 0) {
                assert_eq!(frame(&bytes[..cut]), Ok(None));
            }
            assert_eq!(frame(&bytes), Ok(Some((Frame::Text(&long[..length]), bytes.len()))));
        }
        assert_eq!(frame(&[0x88, 2, 3, 0xf1]), Ok(Some((Frame::Close(Some(1009)), 4))));
        assert_eq!(frame(&[0x88, 0]), Ok(Some((Frame::Close(None), 2))));
        assert_eq!(frame(&[0x89, 1, b'p']), Ok(Some((Frame::Ping(b"p"), 3))));
        for wrong in [&[0x81, 0x85, 0, 0, 0, 0, 1, 2, 3, 4, 5][..], &[0x01, 0], &[0x82, 0], &[0xc1, 0]] {
            assert!(frame(wrong).is_err(), "{wrong:?}");
        }
        let mut out = Vec::new();
        write_control(&mut out, 10, b"p");
        assert_eq!(out, [0x8a, 0x81, 0, 0, 0, 0, b'p']);
    }

    #[test]
    fn json_of_items_is_read() {
        let item: Item<'_> = json(ITEM.as_bytes()).expect("an item");
        assert_eq!((&*item.channel, &*item.id, &*item.data), ("a", "7", "!1 \"x"));
        let text = format!("{{\"items\":[{ITEM}],\"gaps\":[\"b\"],\"after\":\"7,0\"}}\n");
        let items: Items<'_> = json(text.as_bytes()).expect("items");
        assert_eq!((items.items.len(), &*items.gaps[0], &*items.after), (1, "b", "7,0"));
        let one: Published<'_> = json(b"{\"channel\":\"a\",\"id\":\"9\",\"repeated\":true}").expect("an answer");
        assert_eq!((one.id.as_deref(), one.repeated), (Some("9"), true));
        let two: Published<'_> = json(b"{\"channel\":\"a\",\"ids\":[\"9\",\"10\"],\"repeated\":false}").expect("one");
        assert_eq!(two.ids, ["9", "10"]);
        assert_eq!(json::<Items<'_>>(b"{"), None);
        assert_eq!((content("\"!1 2\""), content("!1 2"), content("\"")), ("!1 2", "!1 2", "\""));
    }
}

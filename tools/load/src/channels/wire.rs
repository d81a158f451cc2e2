//! What a server sends at `/n/`: server-sent events (HTML 9.2), and JSON in them, in answers and in messages of WebSockets.
//! Answers and frames themselves are read by [`crate::web`].
//!
//! Each function takes what has come so far and says how much of it is whole; the rest is kept by the caller until more comes.
//! This module must never know who asked, or why.

use std::borrow::Cow;

use serde::Deserialize;

pub(crate) use crate::web::{Fault, Frame, Head, NONCE, PROOF, WHOLE_BYTES_MAX, answer, frame, head, write_control};

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
    if bytes.len() > WHOLE_BYTES_MAX { Err("events: an event that does not end") } else { Ok(None) }
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
    use crate::web::tests::whole;

    const ITEM: &str = r#"{"channel":"a","id":"7","item":"x","time":"t","type":"text/plain","data":"!1 \"x"}"#;

    #[test]
    fn an_event_that_does_not_end_is_not_kept() {
        assert!(event(&vec![b'a'; WHOLE_BYTES_MAX + 1]).is_err());
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

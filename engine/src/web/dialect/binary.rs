//! Items as binary WebSocket messages: a header of fixed length, names, and the content as
//! published.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0 | the version: 1 |
//! | 1 | length of the channel's name |
//! | 2 to 3, 4 to 5 | lengths of the item's key and of its content type; 0 for none |
//! | 6 to 7 | length of the position after the item |
//! | 8 to 15 | the item's number in its channel (`id`) |
//! | 16 to 23 | time of publication, in milliseconds since 1970 |
//! | from 24 | the position, channel, key, content type, and the content up to the end |
//!
//! Numbers are in network byte order, and names are UTF-8.

use crate::web::frame;
use crate::web::item::Item;

/// Length of the header, in bytes.
const HEAD_BYTES: usize = 24;

const VERSION: u8 = 1;

/// Where the header holds the length of the position.
const PLACE_AT: std::ops::Range<usize> = 6..8;

/// Converts an item from its text form to a binary message without its position.
pub(crate) fn of(told: &[u8]) -> Vec<u8> {
    let item = Item::read(told);
    // The home always sends a well-formed item.
    if item.id.is_empty() {
        return Vec::new();
    }
    // XMPP users can publish longer names than HTTP clients can.
    let fits = |text: &'_ str| u16::try_from(text.len()).is_ok();
    let key = Some(&*item.key).filter(|key| fits(key)).unwrap_or_default();
    let kind = Some(&*item.kind).filter(|kind| fits(kind)).unwrap_or("application/octet-stream");
    let channel = item.channel.as_bytes();
    let number: u64 = item.id.parse().unwrap_or_default();
    let time_ms = item.time_us() / 1_000;
    let mut out = Vec::with_capacity(HEAD_BYTES + channel.len() + key.len() + kind.len() + item.data.len());
    out.extend_from_slice(&[VERSION, channel.len() as u8]);
    [key.len(), kind.len(), 0].iter().for_each(|length| out.extend_from_slice(&(*length as u16).to_be_bytes()));
    [number, time_ms].iter().for_each(|number| out.extend_from_slice(&number.to_be_bytes()));
    [channel, key.as_bytes(), kind.as_bytes()].iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(&item.into_content());
    out
}

/// Appends a message that has the position after it.
pub(crate) fn write(out: &mut Vec<u8>, item: &[u8], place: &str) {
    // An item that could not be parsed has no message.
    let Some((head, rest)) = item.split_first_chunk::<HEAD_BYTES>() else { return };
    let mut head = *head;
    head[PLACE_AT].copy_from_slice(&(place.len() as u16).to_be_bytes());
    frame::write_head_of(out, true, item.len() + place.len());
    [&head[..], place.as_bytes(), rest].iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a message by the table above, as a client does.
    #[test]
    fn a_message_has_what_was_published() {
        let json = r#"{"channel":"a.b","id":"258","item":"key-\u00e9\"","key":"\u00e9\"","time":"1970-01-01T00:00:01.002Z","type":"image/x","base64":true,"data":"//4A"}"#;
        let mut out = Vec::new();
        write(&mut out, &of(json.as_bytes()), "7,258");
        let head = [0x82, 45, 1, 3, 0, 3, 0, 7, 0, 5, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 0xea];
        assert_eq!(out, [&head[..], b"7,258a.b", "\u{e9}\"".as_bytes(), b"image/x\xff\xfe\0"].concat());
        // Plain text is neither Base64 nor escaped.
        let json = r#"{"channel":"a","id":"1","item":"i","time":"2026-01-01T00:00:00.000Z","type":"text/plain","data":"a\n\"\u2028"}"#;
        let item = of(json.as_bytes());
        assert_eq!(item[HEAD_BYTES..], *"atext/plaina\n\"\u{2028}".as_bytes());
        // A node may be configured to store no content.
        let item = of(br#"{"channel":"a","id":"1","item":"i","time":"2026-01-01T00:00:00.000Z"}"#);
        assert_eq!((item.len(), item[4], item[5]), (HEAD_BYTES + 1, 0, 0));
        assert_eq!(of(b"{"), b"");
    }

    #[test]
    fn what_is_too_long_for_its_length_is_left_out() {
        let long = "x".repeat(70_000);
        let json = format!(
            r#"{{"channel":"a","id":"1","item":"i","key":"{long}","time":"2026-01-01T00:00:00.000Z","type":"{long}","data":""}}"#
        );
        assert_eq!(of(json.as_bytes())[HEAD_BYTES..], *b"aapplication/octet-stream");
    }
}

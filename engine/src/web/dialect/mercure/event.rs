//! Items as events of Mercure: only the content, in contrast to the JSON objects of `/n/`.
//!
//! Properties of an update (`type`, `retry`) are stored as parameters of the item's content type.
//! Clients of other protocols can read and set them there.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::web::item::Item;

/// Characters of an event type that need no escape.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// Maximum number of digits of `retry`, in milliseconds.
pub const RETRY_DIGITS_MAX: usize = 10;

/// The content type of an update. Values that cannot be part of it were refused before.
pub fn kind(event: Option<&str>, retry: Option<&str>) -> String {
    kind_of("text/plain; charset=utf-8", event, retry)
}

/// The same for content of another type.
pub fn kind_of(kind: &str, event: Option<&str>, retry: Option<&str>) -> String {
    let mut kind = kind.to_owned();
    if let Some(event) = event {
        kind = format!("{kind}; event={}", utf8_percent_encode(event, ESCAPED));
    }
    if let Some(retry) = retry {
        kind = format!("{kind}; retry={retry}");
    }
    kind
}

/// Whether this is a valid value of `retry`.
pub fn is_retry(text: &str) -> bool {
    (1..=RETRY_DIGITS_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether this is a valid event type: a single line without control characters.
pub fn is_type(text: &str) -> bool {
    !text.is_empty() && !text.chars().any(char::is_control)
}

/// A parameter of a content type that is a property of the update.
fn parameter<'a>(kind: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let mut all = kind.split(';').skip(1);
    all.find_map(|own| own.trim().strip_prefix(name)).map(|value| percent_decode_str(value).decode_utf8_lossy())
}

/// A content type without the properties of the update, and the event type.
pub fn parts(kind: &str) -> (String, Option<Cow<'_, str>>) {
    let mut own = kind.split(';');
    let mut bare = own.next().unwrap_or_default().to_owned();
    for parameter in own.filter(|own| ["event=", "retry="].iter().all(|name| !own.trim().starts_with(name))) {
        bare.push(';');
        bare.push_str(parameter);
    }
    (bare, parameter(kind, "event=").filter(|event| is_type(event)))
}

/// Appends an item, given as the home's line of JSON.
pub fn write(out: &mut Vec<u8>, id: &str, item: &[u8]) {
    let Item { kind, data, .. } = Item::read(item);
    let parameter = |name: &str| parameter(&kind, name);
    let mut line = |name: &str, value: &str| {
        [name, ": ", value, "\n"].iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    };
    line("id", id);
    // A publisher at `/n/` may have set any value.
    if let Some(event) = parameter("event=").filter(|event| is_type(event)) {
        line("event", &event);
    }
    if let Some(retry) = parameter("retry=").filter(|retry| is_retry(retry)) {
        line("retry", &retry);
    }
    // HTML 9.2.6 recognizes three line ends.
    for part in data.replace("\r\n", "\n").split(['\n', '\r']) {
        line("data", part);
    }
    out.push(b'\n');
}

/// The channel of an item, and the item's number there.
pub fn of(item: &[u8]) -> Option<(Cow<'_, str>, u64)> {
    let Item { channel, id, .. } = Item::read(item);
    Some((channel, id.parse().ok()?)).filter(|(channel, _)| !channel.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(item: &str) -> String {
        let mut out = Vec::new();
        write(&mut out, "urn:x", item.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn items_become_events() {
        let item = |kind: &str, data: &str| {
            let quote = |text: &str| serde_json::to_string(text).unwrap();
            let (kind, data) = (quote(kind), quote(data));
            event(&format!(
                "{{\"channel\":\"a\",\"id\":\"7\",\"item\":\"i\\\"\",\"time\":\"t\",\"type\":{kind},\"data\":{data}}}"
            ))
        };
        assert_eq!(item("text/plain", "x"), "id: urn:x\ndata: x\n\n");
        assert_eq!(item("text/plain", ""), "id: urn:x\ndata: \n\n");
        assert_eq!(item("x", "a\r\nb\nc\rd\n\n"), "id: urn:x\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \ndata: \n\n");
        assert_eq!(item("x", "\"\\\u{e9}\u{1}\u{2028}\\"), "id: urn:x\ndata: \"\\\u{e9}\u{1}\u{2028}\\\n\n");
        let kind = kind(Some("caf\u{e9}; retry=1"), Some("250"));
        assert_eq!(kind, "text/plain; charset=utf-8; event=caf%C3%A9%3B%20retry%3D1; retry=250");
        assert_eq!(item(&kind, "x"), "id: urn:x\nevent: caf\u{e9}; retry=1\nretry: 250\ndata: x\n\n");
    }

    #[test]
    fn an_item_says_where_it_is() {
        assert_eq!(of(b"{\"channel\":\"a.b\",\"id\":\"7\",\"item\":\"8\"}"), Some(("a.b".into(), 7)));
        for none in ["", "{}", "{\"channel\":\"a\"}", "{\"channel\":\"a\",\"id\":\"x\"}", "{\"id\":\"7\"}"] {
            assert_eq!(of(none.as_bytes()), None, "{none}");
        }
    }

    /// A publisher can inject neither lines nor identifiers.
    #[test]
    fn nothing_is_put_in() {
        for kind in [
            "x; event=a%0Adata: b",
            "x; event=a%0D",
            "x; event=",
            "x; retry=1%0A",
            "x; retry=99999999999",
            "x; event=%00",
        ] {
            let item = format!("{{\"channel\":\"a\",\"type\":\"{kind}\",\"data\":\"d\"}}");
            assert_eq!(event(&item), "id: urn:x\ndata: d\n\n", "{kind}");
        }
        assert_eq!(event("{\"type\":\"x\",\"base64\":true,\"data\":\"AA==\"}"), "id: urn:x\ndata: AA==\n\n");
        for broken in ["", "{", "{\"", "{\"data", "{\"data\":\"\\", "{\"data\":\"x\\\"", "{\"data\":1}", "{}", "[]"] {
            assert_eq!(event(broken), "id: urn:x\ndata: \n\n", "{broken}");
        }
    }
}

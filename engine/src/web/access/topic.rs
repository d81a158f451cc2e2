//! Topics of Mercure as names of channels: how the same channel is called there, at `/n/` and by XMPP.
//!
//! A topic that can be the name of a channel is that channel. Any other one, as an address, is escaped byte by byte like an address, but
//! with `~` for `%`: `https://a.example/b` is the channel `https:~2F~2Fa.example~2Fb`. So an escaped name is a topic as well, and means
//! what it was made of.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::limits::NOTIFY_NAME_BYTES_MAX;

/// What a name may not have, and `~`, which begins an escape.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b':').remove(b'@').remove(b'+');

/// Whether the name of a channel may have this byte.
pub fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:@+".contains(&byte)
}

/// The topic that stands for all.
pub const ALL: &str = "*";

/// The channel of a topic.
///
/// # Errors
/// Why there is none, as a sentence without a full stop.
pub fn channel(topic: &str) -> Result<Cow<'_, str>, &'static str> {
    if topic == ALL {
        return Err("* stands for all topics and is not a topic");
    }
    if topic.is_empty() || topic.chars().any(char::is_control) {
        return Err("a topic is empty, or has control characters");
    }
    let name = match topic.bytes().all(is_of_name) {
        true => Cow::Borrowed(topic),
        false => Cow::Owned(escaped(topic)),
    };
    match name.len() {
        0..=NOTIFY_NAME_BYTES_MAX => Ok(name),
        _ => Err("a topic is too long; as the name of a channel it may have 128 bytes"),
    }
}

/// A topic, or how one begins, as it stands in the name of a channel if the topic cannot be one.
pub(super) fn escaped(topic: &str) -> String {
    utf8_percent_encode(topic, ESCAPED).to_string().replace('%', "~")
}

/// The topic of a channel: what its name was made of. A name that was made of nothing else is its own.
pub fn of(channel: &str) -> Cow<'_, str> {
    if !channel.contains('~') {
        return Cow::Borrowed(channel);
    }
    let text = channel.replace('~', "%");
    let topic = percent_decode_str(&text).decode_utf8().ok();
    let topic = topic.filter(|topic| self::channel(topic).is_ok_and(|own| own == channel));
    topic.map_or(Cow::Borrowed(channel), |topic| Cow::Owned(topic.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_channels_and_channels_are_topics() {
        for (topic, name) in [
            ("news.today", "news.today"),
            ("~user", "~user"),
            ("urn:uuid:5e94c686-2c0b-4f9b-958c-92ccc3bbb4eb", "urn:uuid:5e94c686-2c0b-4f9b-958c-92ccc3bbb4eb"),
            ("https://example.com/books/1", "https:~2F~2Fexample.com~2Fbooks~2F1"),
            ("/users/~romeo?a=b&c=%20#d", "~2Fusers~2F~7Eromeo~3Fa~3Db~26c~3D~2520~23d"),
            ("d\u{e9}j\u{e0} vu", "d~C3~A9j~C3~A0~20vu"),
            ("a*", "a~2A"),
            ("https://a/{id}", "https:~2F~2Fa~2F~7Bid~7D"),
        ] {
            assert_eq!((channel(topic).as_deref(), &*of(name)), (Ok(name), topic));
            assert_eq!(channel(name).as_deref(), Ok(name), "an escaped name means the same");
        }
        let longest = "/".repeat(NOTIFY_NAME_BYTES_MAX / 3);
        assert!(channel(&longest).is_ok() && channel(&format!("{longest}/")).is_err());
        assert!(channel(&"a".repeat(128)).is_ok() && channel(&"a".repeat(129)).is_err());
        for none in ["", "*", "a\nb", "a\0", "a\u{7f}", "a\u{85}"] {
            assert!(channel(none).is_err(), "{none:?}");
        }
    }

    #[test]
    fn a_name_that_was_made_of_no_other_topic_is_its_own() {
        for name in ["~", "~2", "~2f", "~zz", "a~41", "~7Euser", "~FF~2F", "~2A", "~00~2F", "a~2Fb~"] {
            assert_eq!(of(name), name);
        }
    }

    /// Two topics have one channel only if one of them is the channel's name.
    #[test]
    fn escapes_read_back() {
        use percent_encoding::percent_decode_str;
        for topic in ["a/b", "a~b/c", "a%2Fb", "~7E/", "\u{10ffff}", "a b+c", "https://x/~2F"] {
            let name = channel(topic).unwrap().replace('~', "%");
            assert_eq!(percent_decode_str(&name).decode_utf8().unwrap(), topic);
        }
    }
}

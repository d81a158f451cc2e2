//! Identifiers of updates, which are positions in channels: a client that sends one back resumes
//! after it.
//!
//! An identifier consists of the update's channel and its number there. For a subscriber of several
//! topics, the positions in the others follow, each after a colon:
//! `urn:throng:update:CHANNEL.NUMBER:CHANNEL.NUMBER`. A single identifier thus describes the whole
//! position. A channel is represented by eight characters that are derived from its name. A
//! subscriber by selectors has positions in feeds of prefixes instead, each with one number per
//! home: `PREFIX*NUMBER.NUMBER`, in base 36, or with `!` for `*` if the feed includes private
//! channels.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;

use crate::limits::{NOTIFY_CHANNELS_MAX, NOTIFY_FEEDS_PER_REQUEST_MAX};

/// In place of an identifier: a request for all retained updates, or a notice that the position is
/// unknown (draft 07, 7).
pub const EARLIEST: &str = "earliest";

/// The beginning of every identifier.
const PREFIX: &str = "urn:throng:update:";

/// Length of a channel's key: six bytes of a hash in Base64url.
const KEY_BYTES: usize = 8;

/// The key of a channel's name: FNV-1a, truncated to 48 bits. Two channels can be made to have the
/// same key, but nothing is gained by that.
pub fn key(channel: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = channel.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    BASE64URL.encode(&(hash ^ (hash >> 48)).to_be_bytes()[2..])
}

/// A subscriber's position.
#[derive(Clone, Copy, Debug)]
pub enum Stand<'a> {
    /// After the update with this number in a channel.
    Channel(&'a str, u64),
    /// In the feed of a prefix with its `*`, with or without private channels: the number at its
    /// first home.
    Feed(&'a str, bool, u64),
    /// In the same feed, the number at the next home.
    Next(u64),
}

/// The identifier of an update with this number in a channel, for a subscriber with other
/// positions.
pub fn write<'a>((channel, number): (&str, u64), others: impl Iterator<Item = Stand<'a>>) -> String {
    let mut text = format!("{PREFIX}{}.{number}", key(channel));
    for stand in others {
        match stand {
            Stand::Channel(channel, number) => {
                let _ = write!(text, ":{}.{number}", key(channel));
            }
            Stand::Feed(prefix, all, number) => {
                let _ = write!(text, ":{}{}", key(prefix), if all { '!' } else { '*' });
                write_base36(&mut text, number);
            }
            Stand::Next(number) => {
                text.push('.');
                write_base36(&mut text, number);
            }
        }
    }
    text
}

/// Appends a number in base 36.
pub fn write_base36(out: &mut String, number: u64) {
    let digits = std::iter::successors(Some(number), |rest| Some(rest / 36).filter(|rest| *rest > 0));
    let digits: Vec<_> = digits.filter_map(|rest| char::from_digit((rest % 36) as u32, 36)).collect();
    out.extend(digits.iter().rev());
}

/// The position in a channel or a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Channel(u64),
    Feed(bool, Box<[u64]>),
}

/// The positions in an identifier, by the keys of channels and feeds.
#[derive(Debug, PartialEq, Eq)]
pub struct Places<'a>(Vec<(&'a str, At)>);

impl<'a> Places<'a> {
    /// Parses an identifier; `None` if it is not one of this server's.
    pub fn read(text: &'a str) -> Option<Places<'a>> {
        let is_of_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let place = |part: &'a str| {
            let (key, rest) = part.split_at_checked(KEY_BYTES).filter(|(key, _)| key.bytes().all(is_of_key))?;
            let feed = |all, numbers: &str| {
                let number = |number: &str| {
                    let fits = number.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase());
                    u64::from_str_radix(number, 36).ok().filter(|_| fits)
                };
                let numbers = numbers.split('.').take(NOTIFY_FEEDS_PER_REQUEST_MAX + 1).map(number);
                Some(At::Feed(all, numbers.collect::<Option<_>>()?))
            };
            let at = match rest.split_at_checked(1)? {
                (".", number) => {
                    let fits = number.bytes().all(|byte| byte.is_ascii_digit());
                    At::Channel(number.parse().ok().filter(|_| fits)?)
                }
                ("*", numbers) => feed(false, numbers)?,
                ("!", numbers) => feed(true, numbers)?,
                _ => return None,
            };
            Some((key, at))
        };
        let parts = text.strip_prefix(PREFIX)?.split(':');
        // The update of a feed, and all positions. With one more than that, it is not an identifier
        // of this server.
        let places: Vec<_> = parts.take(NOTIFY_CHANNELS_MAX + 2).map(place).collect::<Option<_>>()?;
        (places.len() <= NOTIFY_CHANNELS_MAX + 1).then_some(Places(places))
    }

    /// The position in the feed of a prefix with its `*`: whether the feed includes private
    /// channels, and one number per home.
    pub fn of_feed(&self, prefix: &str) -> Option<(bool, Box<[u64]>)> {
        let wanted = key(prefix);
        self.0.iter().find_map(|(key, at)| match at {
            At::Feed(all, numbers) if *key == wanted => Some((*all, numbers.clone())),
            _ => None,
        })
    }

    /// The position in a channel: the number of the last update received.
    pub fn of(&self, channel: &str) -> Option<u64> {
        let wanted = key(channel);
        self.0.iter().find_map(|(key, at)| match at {
            At::Channel(number) if *key == wanted => Some(*number),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_says_where_feeds_stand() {
        let stands = [
            Stand::Feed("news.*", false, 36),
            Stand::Next(0),
            Stand::Channel("b", 5),
            Stand::Feed("*", true, u64::MAX),
        ];
        let id = write(("news.a", 7), stands.into_iter());
        let expected = format!(":{}*10.0:{}.5:{}!3w5e11264sgsf", key("news.*"), key("b"), key("*"));
        assert!(id.ends_with(&expected) && id.starts_with(&write(("news.a", 7), std::iter::empty())), "{id}");
        let places = Places::read(&id).unwrap();
        assert_eq!(places.of_feed("news.*"), Some((false, [36, 0].into())));
        assert_eq!(places.of_feed("*"), Some((true, [u64::MAX].into())));
        assert_eq!(
            (places.of("b"), places.of("news.a"), places.of("*"), places.of_feed("b")),
            (Some(5), Some(7), None, None)
        );
        for none in ["*", "*1..2", "*A", "*+1", "*1.", "*zzzzzzzzzzzzzz", "!-1", "?1", "1"] {
            assert_eq!(Places::read(&format!("{PREFIX}{}{none}", key("a"))), None, "{none}");
        }
    }

    #[test]
    fn an_identifier_says_where_each_channel_stands() {
        let one = write(("a", 7), std::iter::empty());
        let all = write(("a", 7), [Stand::Channel("b", 0), Stand::Channel("https:~2F~2Fx", u64::MAX)].into_iter());
        assert!(all.starts_with(&one) && all.len() < 100, "it begins with what the publisher is told: {all}");
        let places = Places::read(&all).unwrap();
        let of = |channel| places.of(channel);
        assert_eq!((of("a"), of("b"), of("https:~2F~2Fx"), of("c")), (Some(7), Some(0), Some(u64::MAX), None));
        let many = (0..NOTIFY_CHANNELS_MAX).map(|_| format!("{}.1", key("a"))).collect::<Vec<_>>().join(":");
        assert!(Places::read(&format!("{PREFIX}{many}")).is_some());
        for none in [
            String::new(),
            PREFIX.into(),
            "earliest".into(),
            "urn:uuid:5e94c686-2c0b-4f9b-958c-92ccc3bbb4eb".into(),
            "#7".into(),
            format!("{one}:"),
            format!("{one}.1"),
            format!("{one}\n"),
            format!("{PREFIX}{}.", key("a")),
            format!("{PREFIX}{}.+1", key("a")),
            format!("{PREFIX}{}.18446744073709551616", key("a")),
            format!("{PREFIX}{}\r\n.1", &key("a")[2..]),
            format!("{PREFIX}{many}:{many}"),
        ] {
            assert_eq!(Places::read(&none), None, "{none:?}");
        }
    }

    #[test]
    fn keys_of_channels_differ() {
        let names = (0..100_000).map(|number| key(&format!("https:~2F~2Fexample.com~2Fbooks~2F{number}")));
        let all: std::collections::BTreeSet<_> = names.inspect(|key| assert_eq!(key.len(), KEY_BYTES)).collect();
        assert_eq!(all.len(), 100_000);
    }
}

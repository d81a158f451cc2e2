//! Identifiers of updates, which are places in channels: who gives one back goes on behind it.
//!
//! An update is called by its channel and its number there. A subscriber of several topics is told of where it stands in the others, too,
//! behind a colon each, so that one identifier says all of it: `urn:throng:update:CHANNEL.NUMBER:CHANNEL.NUMBER`. A channel stands there as
//! eight characters that are made of its name. Who subscribes by selectors stands at feeds of prefixes instead, at each with a number for each
//! home: `PREFIX*NUMBER.NUMBER`, in base 36, or with `!` for `*` if channels are among them that need a token.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;

use crate::limits::{NOTIFY_CHANNELS_MAX, NOTIFY_FEEDS_PER_REQUEST_MAX};

/// In the place of one: all that is kept is wanted, or nothing is known before what comes (draft 07, 7).
pub const EARLIEST: &str = "earliest";

/// What all begin with.
const PREFIX: &str = "urn:throng:update:";

/// Bytes of a channel's key, six of a hash in Base64url.
const KEY_BYTES: usize = 8;

/// What a channel is called by: FNV-1a, of which 48 bits are left. Somebody may make two channels of one key, and gains nothing by that.
pub fn key(channel: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = channel.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    BASE64URL.encode(&(hash ^ (hash >> 48)).to_be_bytes()[2..])
}

/// Where a subscriber stands.
#[derive(Clone, Copy, Debug)]
pub enum Stand<'a> {
    /// Behind the update of this number at a channel.
    Channel(&'a str, u64),
    /// At the feed of a prefix with its `*`, which has what needs a token or not: the number of its first home.
    Feed(&'a str, bool, u64),
    /// And of its next home.
    Next(u64),
}

/// The identifier of an update of this number at a channel, for one who stands there in others.
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

/// Appends a number in few characters.
pub fn write_base36(out: &mut String, number: u64) {
    let digits = std::iter::successors(Some(number), |rest| Some(rest / 36).filter(|rest| *rest > 0));
    let digits: Vec<_> = digits.filter_map(|rest| char::from_digit((rest % 36) as u32, 36)).collect();
    out.extend(digits.iter().rev());
}

/// The place in a channel or a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Channel(u64),
    Feed(bool, Box<[u64]>),
}

/// What an identifier says of channels and feeds, by their keys.
#[derive(Debug, PartialEq, Eq)]
pub struct Places<'a>(Vec<(&'a str, At)>);

impl<'a> Places<'a> {
    /// Reads one; `None`: it is none of this server's.
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
        // An update of a feed, and all places. One more than are read is none of ours.
        let places: Vec<_> = parts.take(NOTIFY_CHANNELS_MAX + 2).map(place).collect::<Option<_>>()?;
        (places.len() <= NOTIFY_CHANNELS_MAX + 1).then_some(Places(places))
    }

    /// Where a prefix with its `*` stood: whether with what needs a token, and one number for each home.
    pub fn of_feed(&self, prefix: &str) -> Option<(bool, Box<[u64]>)> {
        let wanted = key(prefix);
        self.0.iter().find_map(|(key, at)| match at {
            At::Feed(all, numbers) if *key == wanted => Some((*all, numbers.clone())),
            _ => None,
        })
    }

    /// The number of the last update of a channel that is known.
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

//! Identifiers of updates, which are places in channels: who gives one back goes on behind it.
//!
//! An update is called by its channel and its number there. A subscriber of several topics is told of where it stands in the others, too,
//! behind a colon each, so that one identifier says all of it: `urn:throng:update:CHANNEL.NUMBER:CHANNEL.NUMBER`. A channel stands there as
//! eight characters that are made of its name.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;

use crate::limits::NOTIFY_CHANNELS_MAX;

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

/// The identifier of an update of this number at a channel, for one who stands there in others.
pub fn write<'a>((channel, number): (&str, u64), others: impl Iterator<Item = (&'a str, u64)>) -> String {
    let mut text = format!("{PREFIX}{}.{number}", key(channel));
    for (channel, number) in others {
        let _ = write!(text, ":{}.{number}", key(channel));
    }
    text
}

/// What an identifier says of channels, by their keys.
#[derive(Debug, PartialEq, Eq)]
pub struct Places<'a>(Vec<(&'a str, u64)>);

impl<'a> Places<'a> {
    /// Reads one; `None`: it is none of this server's.
    pub fn read(text: &'a str) -> Option<Places<'a>> {
        let is_of_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let place = |part: &'a str| {
            let (key, number) = part.split_once('.')?;
            let fits = key.len() == KEY_BYTES
                && key.bytes().all(is_of_key)
                && number.bytes().all(|byte| byte.is_ascii_digit());
            Some((key, number.parse().ok().filter(|_| fits)?))
        };
        let parts = text.strip_prefix(PREFIX)?.split(':');
        // One more than are read is none of ours either.
        let places: Vec<_> = parts.take(NOTIFY_CHANNELS_MAX + 1).map(place).collect::<Option<_>>()?;
        (places.len() <= NOTIFY_CHANNELS_MAX).then_some(Places(places))
    }

    /// The number of the last update of a channel that is known.
    pub fn of(&self, channel: &str) -> Option<u64> {
        let wanted = key(channel);
        self.0.iter().find(|(key, _)| *key == wanted).map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_says_where_each_channel_stands() {
        let one = write(("a", 7), std::iter::empty());
        let all = write(("a", 7), [("b", 0), ("https:~2F~2Fx", u64::MAX)].into_iter());
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

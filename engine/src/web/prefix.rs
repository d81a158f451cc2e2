//! Prefixes of channels: `news.*` stands for all channels whose names begin with `news.`, including
//! those that are created later.
//!
//! A prefix is empty, or ends with a separator, which is any character of names except letters and
//! digits. A name therefore has few prefixes, which bounds the feeds of an item regardless of the
//! subscribers.

use super::access::topic::is_of_name;
use crate::limits::{NOTIFY_NAME_BYTES_MAX, NOTIFY_PREFIX_PARTS_MAX};

/// The suffix that marks a prefix; some clients percent-encode it (RFC 3986 2.1).
const ANY: [&str; 2] = ["*", "%2A"];

/// The prefix in a requested name; `None` if it is the name of a channel.
pub fn of(name: &str) -> Option<&str> {
    ANY.into_iter().find_map(|any| name.strip_suffix(any))
}

fn is_separator(byte: u8) -> bool {
    !byte.is_ascii_alphanumeric()
}

/// Whether a string is a valid prefix.
pub fn is_one(prefix: &str) -> bool {
    let parts = prefix.bytes().filter(|byte| is_separator(*byte)).count();
    prefix.bytes().last().is_none_or(is_separator)
        && prefix.len() < NOTIFY_NAME_BYTES_MAX
        && prefix.bytes().all(is_of_name)
        && parts <= NOTIFY_PREFIX_PARTS_MAX
}

/// The longest valid prefix at the beginning of `begin`.
pub fn within(begin: &str) -> &str {
    let ends = begin.bytes().take(NOTIFY_NAME_BYTES_MAX - 1).enumerate().filter(|(_, byte)| is_separator(*byte));
    &begin[..ends.take(NOTIFY_PREFIX_PARTS_MAX).last().map_or(0, |(at, _)| at + 1)]
}

/// All prefixes of a channel with a valid name: at most [`NOTIFY_PREFIX_PARTS_MAX`] and the empty
/// one.
pub fn all_of(channel: &str) -> impl Iterator<Item = &str> {
    let fits = (1..=NOTIFY_NAME_BYTES_MAX).contains(&channel.len()) && channel.bytes().all(is_of_name);
    let ends = channel.bytes().enumerate().filter(|(_, byte)| is_separator(*byte)).map(|(at, _)| at + 1);
    let ends = std::iter::once(0).chain(ends.take(NOTIFY_PREFIX_PARTS_MAX));
    ends.filter(move |_| fits).map(|end| &channel[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_behind_a_separator() {
        assert_eq!(
            (of("news.*"), of("*"), of("news.%2A"), of("news.")),
            (Some("news."), Some(""), Some("news."), None)
        );
        for good in ["", "news.", "a-b_", "x:", "a.b.c.d.e.f.g.h."] {
            assert!(is_one(good), "{good}");
        }
        for bad in ["news", "a.*", "a/", "a.b.c.d.e.f.g.h.i.", "\u{e9}.", &"x.".repeat(64)] {
            assert!(!is_one(bad), "{bad}");
        }
    }

    #[test]
    fn each_begin_has_a_prefix() {
        for (begin, prefix) in [
            ("", ""),
            ("news", ""),
            ("news.", "news."),
            ("news.it", "news."),
            ("https:~2F~2Fexample.com~2Fbooks~2F", "https:~2F~2Fexample.com~2Fbooks~"),
            ("a.b.c.d.e.f.g.h.i.", "a.b.c.d.e.f.g.h."),
        ] {
            assert_eq!(within(begin), prefix);
            assert!(is_one(prefix));
        }
        let long = format!("{}.", "a".repeat(NOTIFY_NAME_BYTES_MAX - 1));
        assert_eq!(within(&long), "");
    }

    #[test]
    fn a_channel_has_few_prefixes() {
        let all = |channel: &'static str| all_of(channel).collect::<Vec<_>>();
        assert_eq!(all("news.it-today"), ["", "news.", "news.it-"]);
        assert_eq!((all("a."), all("a"), all("")), (vec!["", "a."], vec![""], vec![]));
        assert!(all("a b").is_empty() && all("news.*").is_empty(), "a node that is no channel");
        let long = "a.".repeat(64);
        assert_eq!(all_of(&long).count(), NOTIFY_PREFIX_PARTS_MAX + 1);
        assert!(all_of(&long).all(is_one));
    }
}

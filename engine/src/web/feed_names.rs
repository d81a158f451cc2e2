//! Names of feeds. A *feed* consists of the items of all channels of one home whose names begin
//! with a prefix, in one order and with its own numbers. It is watched and read like a channel,
//! under a name that no node can have: `*3o/news.*` is the feed of `news.` at shard 3.

use crate::id::ShardId;
use crate::web::prefix;

/// The parts of a feed's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FeedName<'a> {
    /// The home of the channels.
    pub(crate) home: ShardId,
    /// Private channels are included.
    pub(crate) all: bool,
    /// The prefix of the channels' names.
    pub(crate) prefix: &'a str,
}

/// The channel of a node, or the prefix of a feed with its `*`.
pub(crate) fn channel_of(node: &str) -> &str {
    node.split_once('/').map_or("", |(_, channel)| channel)
}

/// Whether this is the name of a feed rather than a node.
pub(crate) fn is_feed(node: &str) -> bool {
    node.starts_with('*')
}

/// Whether both names are feeds of the same prefix.
pub(crate) fn is_same_prefix(one: &str, other: &str) -> bool {
    is_feed(one) && is_feed(other) && channel_of(one) == channel_of(other)
}

impl<'a> FeedName<'a> {
    /// Parses the name of a feed.
    pub(crate) fn read(node: &'a str) -> Option<FeedName<'a>> {
        let (whose, prefix) = node.strip_prefix('*')?.split_once('/')?;
        let (home, all) = match whose.strip_suffix('a') {
            Some(home) => (home, true),
            None => (whose.strip_suffix('o')?, false),
        };
        Some(FeedName { home: ShardId(home.parse().ok()?), all, prefix: prefix::of(prefix)? })
    }

    /// Formats the name.
    pub(crate) fn write(self) -> String {
        let FeedName { home, all, prefix } = self;
        format!("*{}{}/{prefix}*", home.0, if all { 'a' } else { 'o' })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_feeds_read_back_and_are_those_of_no_node() {
        for (home, all, prefix) in [(0, false, ""), (3, true, "news."), (999, false, "a-b_")] {
            let name = FeedName { home: ShardId(home), all, prefix };
            let written = name.write();
            assert_eq!(FeedName::read(&written), Some(name));
            assert_eq!(channel_of(&written), format!("{prefix}*"));
            assert!(is_feed(&written) && is_same_prefix(&written, &FeedName { home: ShardId(7), ..name }.write()));
        }
        for node in ["pubsub.localhost/news.*", "*", "*3/news.*", "*3o/news.", "*xo/news.*"] {
            assert_eq!(FeedName::read(node), None, "{node}");
        }
        assert!(!is_feed("pubsub.localhost/*3o/news.*") && !is_same_prefix("p/a.*", "p/a.*"));
    }
}

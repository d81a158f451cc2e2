//! What the home of channels knows of those who wait for them: which shards watch which channels, and the feeds of prefixes.

pub(crate) mod feed_names;
pub(crate) mod feeds;
pub(crate) mod watchers;

use crate::web::policy;

/// Whether a node is a channel for those who have a token.
pub(crate) fn is_private(policy: &policy::Channels, node: &str) -> bool {
    node.split_once('/').is_some_and(|(_, channel)| policy.is_private(channel))
}

//! The home's side of subscriptions: which shards watch which channels, and the feeds of prefixes.

pub(crate) mod feeds;
pub(crate) mod watchers;

use crate::web::policy;

/// Whether a token is required to read the channel of a node.
pub(crate) fn is_private(policy: &policy::Channels, node: &str) -> bool {
    node.split_once('/').is_some_and(|(_, channel)| policy.is_private(channel))
}

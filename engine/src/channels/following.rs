//! Rules for moving connections to the home of their channel, as data.
//!
//! For a channel with few subscribers, each item costs a letter and a thread wake-up for every
//! shard that has one of them. A connection that waits for a single channel therefore moves to its
//! home, as long as few connections wait there. The subscribers of a crowded channel stay on their
//! shards, so that all shards share the deliveries. A connection moves at most once.

use std::collections::BTreeMap;

use crate::channels::Channels;
use crate::channels::addresses::network;
use crate::id::{ConnId, Service, ShardId};
use crate::letters::{ChannelLetter, Letter};
use crate::limits::{NOTIFY_AT_HOME_MAX, NOTIFY_FOLLOWERS_AHEAD, NOTIFY_STAY_S, NOTIFY_STAYS_MAX};
use crate::session::moved::Follower;
use crate::streams::Streams;
use crate::web::dialect::asked::{Asked, Wish};
use crate::web::dialect::{Dialect as _, Way};
use crate::web::prefix;

/// The homes and channels that connections temporarily do not move to.
#[derive(Debug, Default)]
pub(super) struct Stays {
    /// Second (monotonic) until which a home accepts no connections, by shard.
    homes: Vec<u32>,
    /// The same for a crowded channel; bounded by [`NOTIFY_STAYS_MAX`].
    crowds: BTreeMap<Box<str>, u32>,
    /// How many connections have moved to a channel in this second; bounded by
    /// [`NOTIFY_STAYS_MAX`].
    gone: BTreeMap<Box<str>, u32>,
    second: u32,
}

impl Stays {
    /// Memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.crowds.len() + self.gone.len()) * (2 * size_of::<(Box<str>, u32)>() + 64)
    }

    /// Whether one more connection may move to a channel. If so, it is counted.
    fn may_go(&mut self, now_s: u32, home: ShardId, node: &str) -> bool {
        let stays = self.homes.get(home.index()).is_some_and(|until_s| now_s < *until_s);
        if stays || self.crowds.get(node).is_some_and(|until_s| now_s < *until_s) {
            return false;
        }
        if self.second != now_s {
            (self.second, self.gone) = (now_s, BTreeMap::new());
        }
        if self.gone.len() >= NOTIFY_STAYS_MAX && !self.gone.contains_key(node) {
            return false;
        }
        let gone = self.gone.entry(node.into()).or_default();
        *gone += 1;
        *gone <= NOTIFY_AT_HOME_MAX
    }

    /// Records that a home accepts no connections for a channel for a while, or for any channel if
    /// `node` is empty.
    fn stay(&mut self, now_s: u32, home: ShardId, node: &str) {
        let until_s = now_s + NOTIFY_STAY_S;
        if node.is_empty() {
            self.homes.resize(self.homes.len().max(home.index() + 1), 0);
            self.homes[home.index()] = until_s;
            return;
        }
        if self.crowds.len() >= NOTIFY_STAYS_MAX {
            self.crowds.retain(|_, until_s| now_s < *until_s);
        }
        if self.crowds.len() < NOTIFY_STAYS_MAX {
            self.crowds.insert(node.into(), until_s);
        }
    }
}

/// Whether a request waits long enough to justify moving its connection.
fn waits_long(keeps_alive: bool, wish: &Wish) -> bool {
    let streams = matches!(wish, Wish::Subscribe(own, _) if own.way() != Way::Poll);
    streams || (keeps_alive && wish.waits())
}

impl Channels {
    /// Returns the node of the channel to whose home the connection of a request should move. This
    /// is decided before the request is authorized.
    pub(crate) fn goes_to_channel(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        keeps_alive: bool,
        asked: &Asked,
    ) -> Option<Box<str>> {
        let [place] = &*asked.channels else { return None };
        let service = cx.kernel.settings.domains.service(Service::PubSub)?;
        if !waits_long(keeps_alive, &asked.wish) || prefix::of(&place.channel).is_some() {
            return None;
        }
        let node = format!("{service}/{}", place.channel);
        let (now, home) = (cx.kernel.now, cx.kernel.home(&node));
        let opening = cx.opening(id).filter(|opening| !opening.settled)?;
        let network = network(opening.peer);
        // The connections that stayed are a crowd, or the home has no room.
        if home == cx.kernel.id || self.listeners.watched(&node).is_some() {
            return None;
        }
        let waiting_max = cx.kernel.settings.web.channels.waiting_max;
        // A client that may not wait is refused on this shard.
        self.listeners.addresses.may_wait(now.mono_ms, network, waiting_max).ok()?;
        self.stays.may_go(now.mono_s(), home, &node).then(|| node.into())
    }

    /// How many requests wait on this shard.
    pub(crate) fn waiting(&self) -> u32 {
        u32::try_from(self.listeners.len()).unwrap_or(u32::MAX)
    }

    /// Handles a connection that has moved here, to the home of its channel. The shard that sent it
    /// is told to keep further connections if enough are here already, or if too many of its
    /// address are (`is_full`).
    pub(crate) fn follower_came(&mut self, cx: &mut Streams, follower: &Follower, is_full: bool) {
        let crowd = self.listeners.watched(&follower.node).map_or(0, |watched| watched.len()) + 1;
        let ahead = self.waiting() > follower.waiting.saturating_mul(2).saturating_add(NOTIFY_FOLLOWERS_AHEAD);
        let node = match is_full || ahead {
            true => "",
            false if crowd >= NOTIFY_AT_HOME_MAX => &follower.node,
            false => return,
        };
        let letters = cx.kernel.letters_to(follower.from);
        let node = letters.name(node);
        letters.push(Letter::Channel(ChannelLetter::Stay { node }));
    }

    /// A home refuses connections for a channel, or for any channel if `node` is empty.
    pub(crate) fn stay_for(&mut self, cx: &mut Streams, home: ShardId, node: &str) {
        let now_s = cx.kernel.now.mono_s();
        self.stays.stay(now_s, home, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_go_to_a_channel_and_none_where_a_home_says_so() {
        let (mut stays, home) = (Stays::default(), ShardId(1));
        let go = |stays: &mut Stays, now_s, node| (0..100).filter(|_| stays.may_go(now_s, home, node)).count();
        assert_eq!(go(&mut stays, 1, "a"), NOTIFY_AT_HOME_MAX as usize, "though no answer has come");
        assert_eq!(go(&mut stays, 2, "a"), NOTIFY_AT_HOME_MAX as usize);
        stays.stay(2, home, "a");
        assert_eq!((go(&mut stays, 3, "a"), go(&mut stays, 3, "b")), (0, NOTIFY_AT_HOME_MAX as usize));
        stays.stay(3, home, "");
        assert_eq!(go(&mut stays, 4, "b"), 0);
        assert!(stays.may_go(4, ShardId(0), "b"), "another home");
        assert!(stays.may_go(3 + NOTIFY_STAY_S, home, "b"));
    }

    #[test]
    fn what_is_known_of_channels_is_bounded() {
        let (mut stays, home) = (Stays::default(), ShardId(0));
        for number in 0..2 * NOTIFY_STAYS_MAX {
            stays.stay(1, home, &number.to_string());
            stays.may_go(1, home, &format!("n{number}"));
        }
        assert_eq!((stays.crowds.len(), stays.gone.len()), (NOTIFY_STAYS_MAX, NOTIFY_STAYS_MAX));
        stays.stay(1 + NOTIFY_STAY_S, home, "x");
        assert_eq!(stays.crowds.len(), 1);
    }
}

//! Feeds of this home. For each watched prefix they list the numbers of the latest items of all
//! channels whose names begin with it.
//!
//! A feed assigns consecutive numbers of its own to these items and records the channel and number
//! of each; the item itself stays with its channel. A client that reconnects, or that reads slowly,
//! therefore continues at its position in the feed as it does in a channel. A feed is created when
//! a shard first watches it, with a start number higher than any earlier feed of this prefix has
//! reached. A position of an earlier feed is thereby recognized. A feed that is no longer watched
//! is retained for a while.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::channels::Channels;
use crate::channels::home::is_private;
use crate::id::ShardId;
use crate::limits::{NOTIFY_FEED_ITEMS_ALL_MAX, NOTIFY_FEED_ITEMS_MAX, NOTIFY_FEEDS_PER_SHARD_MAX, NOTIFY_FORGET_S};
use crate::streams::Streams;
use crate::web::feed_names::FeedName;
use crate::web::feed_names::channel_of;
use crate::web::prefix;

/// An item, by its location.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) actor: Arc<str>,
    /// The item's number in its channel.
    pub(crate) number: u64,
    /// Approximate size, in bytes.
    bytes: u32,
}

/// The feed of one prefix.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The number of the last item, or the start number if there is none.
    pub(crate) last: u64,
    /// The latest items; at most [`NOTIFY_FEED_ITEMS_MAX`].
    known: VecDeque<Known>,
    /// Second (monotonic) when the feed was last known to be watched.
    watched_s: u32,
}

impl Feed {
    /// All items after this number are known.
    pub(crate) fn start(&self) -> u64 {
        self.last - self.known.len() as u64
    }

    /// The items after a known number, up to and including the one that reaches `bytes_max`.
    pub(crate) fn behind(&self, from: u64, items_max: usize, bytes_max: u32) -> impl Iterator<Item = &Known> {
        let (items, mut bytes) = (self.known.iter().skip((from - self.start()) as usize).take(items_max), 0);
        items.take_while(move |known| {
            let has_room = bytes < bytes_max;
            bytes += known.bytes;
            has_room
        })
    }

    /// Drops the oldest items until at most `most` are left. Returns how many were dropped.
    fn cut(&mut self, most: usize) -> usize {
        let over = self.known.len().saturating_sub(most);
        drop(self.known.drain(..over));
        over
    }
}

/// The feeds of one prefix: of its public channels, and of all.
type Both = [Option<Feed>; 2];

/// All feeds of a home.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    all: BTreeMap<Box<str>, Both>,
    /// The number of items in all feeds, and the number of feeds that have any.
    known: usize,
    busy: usize,
    /// No removed feed has reached a higher number.
    floor: u64,
    swept_s: u32,
    /// Second (monotonic) when all unwatched feeds were last removed to make room.
    cleared_s: u32,
}

impl Feeds {
    /// Memory used, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.all.len() * (size_of::<Both>() + 64) + self.known * (size_of::<Known>() + 32)
    }

    pub(crate) fn get(&self, prefix: &str, all: bool) -> Option<&Feed> {
        self.all.get(prefix)?[usize::from(all)].as_ref()
    }

    /// Opens a feed that a shard watches, if there is room among `most` prefixes. A new feed starts
    /// at the current time in microseconds, which no earlier feed has reached.
    fn open(
        &mut self,
        (prefix, all): (&str, bool),
        (now_us, now_s): (u64, u32),
        most: usize,
        is_watched: impl Fn(bool, &str) -> bool,
    ) -> bool {
        if !self.all.contains_key(prefix) {
            // A client that returns to one of the removed feeds gets a gap.
            if self.all.len() >= most && self.cleared_s != now_s {
                self.cleared_s = now_s;
                self.forget(now_s, 0, is_watched);
            }
            if self.all.len() >= most {
                return false;
            }
        }
        let last = now_us.max(self.floor + 1);
        let feed = || Feed { last, known: VecDeque::new(), watched_s: now_s };
        self.all.entry(prefix.into()).or_default()[usize::from(all)].get_or_insert_with(feed).watched_s = now_s;
        true
    }

    /// The maximum number of items per feed.
    fn share(&self) -> usize {
        NOTIFY_FEED_ITEMS_MAX.min(NOTIFY_FEED_ITEMS_ALL_MAX / self.busy.max(1))
    }

    /// Adds a published item to its feeds. For each of them, returns whether it includes private
    /// channels, the prefix, and the item's number there.
    fn take<'a>(&mut self, actor: &'a str, number: u64, bytes: u32, private: bool) -> Vec<(bool, &'a str, u64)> {
        let mut told = Vec::new();
        if self.all.is_empty() {
            return told;
        }
        let (share, name) = (self.share().max(1), std::cell::LazyCell::new(|| Arc::<str>::from(actor)));
        for prefix in prefix::all_of(channel_of(actor)) {
            let Some(both) = self.all.get_mut(prefix) else { continue };
            for (all, feed) in [false, true].into_iter().zip(both) {
                let Some(feed) = feed.as_mut().filter(|_| all || !private) else { continue };
                self.busy += usize::from(feed.known.is_empty());
                self.known -= feed.cut(share - 1);
                feed.known.push_back(Known { actor: Arc::clone(&name), number, bytes });
                (feed.last, self.known) = (feed.last + 1, self.known + 1);
                told.push((all, prefix, feed.last));
            }
        }
        told
    }

    /// Removes feeds that have not been watched for a long time, and items beyond each feed's
    /// share.
    pub(super) fn sweep(&mut self, now_s: u32, is_watched: impl Fn(bool, &str) -> bool) {
        if now_s < self.swept_s + NOTIFY_FORGET_S / 10 {
            return;
        }
        self.swept_s = now_s;
        self.forget(now_s, NOTIFY_FORGET_S, is_watched);
    }

    /// The same for feeds that have not been watched for `idle_s` seconds.
    fn forget(&mut self, now_s: u32, idle_s: u32, is_watched: impl Fn(bool, &str) -> bool) {
        let share = self.share();
        (self.known, self.busy) = (0, 0);
        let (mut floor, mut known, mut busy) = (self.floor, 0, 0);
        self.all.retain(|prefix, both| {
            for (all, slot) in [false, true].into_iter().zip(both.iter_mut()) {
                let Some(feed) = slot else { continue };
                if is_watched(all, prefix) {
                    feed.watched_s = now_s;
                } else if now_s.saturating_sub(feed.watched_s) >= idle_s {
                    floor = floor.max(feed.last);
                    *slot = None;
                    continue;
                }
                feed.cut(share);
                known += feed.known.len();
                busy += usize::from(!feed.known.is_empty());
            }
            both.iter().any(Option::is_some)
        });
        (self.floor, self.known, self.busy) = (floor, known, busy);
    }
}

impl Channels {
    /// Opens a feed of this home for a shard that watches it. Returns whether there is room for it.
    pub(crate) fn open_feed(&mut self, cx: &mut Streams, feed: FeedName<'_>) -> bool {
        let (now, home, watchers) = ((cx.kernel.now.wall_us, cx.kernel.now.mono_s()), cx.kernel.id, &self.watchers);
        let most = usize::from(cx.kernel.settings.shards()) * NOTIFY_FEEDS_PER_SHARD_MAX;
        let is_watched = |all, prefix: &str| watchers.has(&FeedName { home, all, prefix }.write());
        self.feeds.open((feed.prefix, feed.all), now, most, is_watched)
    }

    /// Adds an item that was published at a channel of this home to its feeds. Returns the name of
    /// each feed and the item's number there.
    pub(super) fn feed(&mut self, cx: &mut Streams, actor: &str, number: u64, bytes: u32) -> Vec<(String, u64)> {
        let policy = &cx.kernel.settings.web.channels;
        if !policy.is_there(channel_of(actor)) {
            return Vec::new();
        }
        let (home, private) = (cx.kernel.id, is_private(policy, actor));
        let told = self.feeds.take(actor, number, bytes, private);
        told.into_iter().map(|(all, prefix, number)| (FeedName { home, all, prefix }.write(), number)).collect()
    }

    /// The home of a channel or feed.
    pub(crate) fn source(&self, cx: &Streams, node: &str) -> ShardId {
        FeedName::read(node).map_or_else(|| cx.kernel.home(node), |feed| feed.home)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(feeds: &mut Feeds, prefix: &str, all: bool, now_s: u32) -> bool {
        feeds.open((prefix, all), (1_000, now_s), 100, |_, prefix| prefix.starts_with("w"))
    }

    fn feeds(all: &[(&str, bool)]) -> Feeds {
        let mut feeds = Feeds::default();
        all.iter().for_each(|(prefix, all)| assert!(open(&mut feeds, prefix, *all, 1)));
        feeds
    }

    #[test]
    fn an_item_is_in_each_feed_that_may_have_it() {
        let mut feeds = feeds(&[("", false), ("news.", false), ("news.", true), ("news.it.", true), ("x.", true)]);
        assert_eq!(
            feeds.take("pubsub.x/news.it.today", 7, 10, false),
            [(false, "", 1_001), (false, "news.", 1_001), (true, "news.", 1_001), (true, "news.it.", 1_001)]
        );
        assert_eq!(
            feeds.take("pubsub.x/news.it.today", 8, 10, true),
            [(true, "news.", 1_002), (true, "news.it.", 1_002)],
            "a channel that needs a token"
        );
        assert!(feeds.take("pubsub.x/news.it today", 1, 10, false).is_empty(), "no name of a channel");
        assert_eq!((feeds.known, feeds.busy), (6, 4));
    }

    #[test]
    fn what_feeds_know_is_bounded_and_shared_by_those_that_know_some() {
        let names: Vec<String> = (0..40).map(|number| format!("{number}.")).collect();
        let mut feeds = Feeds::default();
        names.iter().for_each(|name| assert!(open(&mut feeds, name, false, 1)));
        let fill = |feeds: &mut Feeds, name: &str, items: u64| {
            let actor = format!("pubsub.x/{name}a");
            (0..items).for_each(|number| drop(feeds.take(&actor, number, 1, false)));
        };
        fill(&mut feeds, "0.", 10_000);
        let first = feeds.get("0.", false).unwrap();
        assert_eq!((first.known.len(), first.last, first.start()), (4_096, 11_000, 11_000 - 4_096));
        names.iter().for_each(|name| fill(&mut feeds, name, 5_000));
        assert!(feeds.known <= 2 * NOTIFY_FEED_ITEMS_ALL_MAX, "{}", feeds.known);
        feeds.sweep(50, |_, _| true);
        assert_eq!((feeds.busy, feeds.get("0.", false).unwrap().known.len()), (40, NOTIFY_FEED_ITEMS_ALL_MAX / 40));
        assert!(feeds.known <= NOTIFY_FEED_ITEMS_ALL_MAX);
    }

    #[test]
    fn a_feed_stays_for_who_comes_back_and_then_begins_behind_where_it_was() {
        let mut feeds = feeds(&[("a.", false), ("b.", false)]);
        feeds.take("pubsub.x/a.b", 1, 1, false);
        for now_s in (12..=1 + NOTIFY_FORGET_S).step_by(12) {
            feeds.sweep(now_s, |_, prefix| prefix == "b.");
        }
        assert_eq!(feeds.all.len(), 2);
        feeds.sweep(200, |_, prefix| prefix == "b.");
        assert_eq!((feeds.all.len(), feeds.known, feeds.busy), (1, 0, 0));
        // The clock was set back meanwhile.
        assert!(feeds.open(("a.", false), (10, 201), 100, |_, _| true));
        assert_eq!(feeds.get("a.", false).unwrap().last, 1_002);
    }

    #[test]
    fn feeds_that_nobody_watches_make_room_for_others() {
        let mut feeds = Feeds::default();
        for number in 0..1_000 {
            assert!(open(&mut feeds, &format!("{number}."), false, 1 + number / 99));
        }
        assert!(feeds.all.len() <= 100);
        for number in 0..200 {
            open(&mut feeds, &format!("w{number}."), true, 20 + number);
        }
        assert_eq!((feeds.all.len(), open(&mut feeds, "x.", false, 300)), (100, false), "all are watched");
        assert!(feeds.all.keys().all(|prefix| prefix.starts_with('w')) && open(&mut feeds, "w7.", false, 300));
    }
}

//! Which shards watch which channels of this home, and the distribution of new items. Each watching
//! shard gets one letter per item, however many requests wait there.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use crate::channels::Channels;
use crate::channels::home::is_private;
use crate::channels::web_push::{Woken, told};
use crate::extension::pubsub::notice::News;
use crate::extension::pubsub::service::channel;
use crate::id::ShardId;
use crate::kernel::pending::Front;
use crate::letters::{ChannelLetter, Letter};
use crate::limits::{NOTIFY_FORGET_S, NOTIFY_WATCHED_MAX};
use crate::store::nodes::key_of;
use crate::streams::Streams;
use crate::web::feed_names::FeedName;

/// Approximate overhead of an item beyond its payload when it is delivered, in bytes.
const ITEM_BYTES: usize = 256;

/// A shard that watches a channel.
#[derive(Clone, Copy, Debug)]
struct Watcher {
    shard: ShardId,
    /// How many requests wait there, by its latest report.
    waiting: u32,
    /// Second (monotonic) of that report.
    since_s: u32,
}

#[derive(Debug, Default)]
struct Watched {
    /// At most one per shard.
    by: Vec<Watcher>,
    /// The number of the last item that was sent to them.
    told: u64,
    /// Second (monotonic) of the latest request by one of their subscribers. It is maintained only
    /// where publishers can query it.
    asked_s: Option<u32>,
}

/// The watched channels of this home.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    all: BTreeMap<Box<str>, Watched>,
    swept_ms: u64,
    swept: Option<Box<str>>,
    /// Channels to visit per second in the current sweep.
    share: usize,
}

impl Watchers {
    /// How many channels are watched.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether a channel is watched.
    pub(super) fn has(&self, node: &str) -> bool {
        self.all.contains_key(node)
    }

    /// Records how many requests wait for a channel on a shard; 0 ends the watch. Returns whether
    /// there is room for it.
    fn watch(&mut self, node: &str, shard: ShardId, waiting: u32, now_s: u32) -> bool {
        if !self.all.contains_key(node) {
            if waiting == 0 {
                return true;
            }
            if self.all.len() >= NOTIFY_WATCHED_MAX {
                return false;
            }
            self.all.insert(node.into(), Watched::default());
        }
        let Some(watched) = self.all.get_mut(node) else { return false };
        watched.by.retain(|watcher| watcher.shard != shard);
        let is_known = watched.asked_s.is_some_and(|asked_s| now_s < asked_s + NOTIFY_FORGET_S);
        if waiting > 0 {
            watched.by.push(Watcher { shard, waiting, since_s: now_s });
        } else if watched.by.is_empty() && !is_known {
            self.all.remove(node);
        }
        true
    }

    /// Records that a subscriber of a channel has asked for items.
    fn asked(&mut self, node: &str, now_s: u32) {
        if let Some(watched) = self.all.get_mut(node) {
            watched.asked_s = Some(now_s);
        }
    }

    /// The shards that watch a channel.
    pub(crate) fn shards(&self, node: &str) -> impl Iterator<Item = ShardId> {
        self.all.get(node).into_iter().flat_map(|watched| watched.by.iter().map(|watcher| watcher.shard))
    }

    /// How many requests wait for a channel, and the seconds since the last one asked, if that is
    /// known.
    pub(crate) fn crowd(&self, node: &str, now_s: u32) -> (u32, Option<u32>) {
        let Some(watched) = self.all.get(node) else { return (0, None) };
        let waiting = watched.by.iter().fold(0, |all: u32, watcher| all.saturating_add(watcher.waiting));
        (waiting, watched.asked_s.map(|asked_s| now_s.saturating_sub(asked_s)))
    }

    /// Removes the watches that were not renewed for a long time, for some of the channels per
    /// call.
    fn sweep(&mut self, now_ms: u64) {
        if now_ms < self.swept_ms + 1_000 || self.all.is_empty() {
            return;
        }
        self.swept_ms = now_ms;
        let share = self.all.len().div_ceil(NOTIFY_FORGET_S as usize).max(self.share);
        let from = self.swept.take().map_or(Unbounded, Excluded);
        let late_s = (now_ms / 1_000).saturating_sub(u64::from(NOTIFY_FORGET_S));
        let (mut last, mut gone, mut seen) = (None, Vec::new(), 0);
        for (node, watched) in self.all.range_mut::<Box<str>, _>((from, Unbounded)).take(share) {
            watched.by.retain(|watcher| u64::from(watcher.since_s) >= late_s);
            let is_known = watched.asked_s.is_some_and(|asked_s| u64::from(asked_s) >= late_s);
            if watched.by.is_empty() && !is_known {
                gone.push(node.clone());
            }
            (last, seen) = (Some(node.clone()), seen + 1);
        }
        self.swept = last.filter(|_| seen == share);
        // Removals do not prolong the sweep.
        self.share = if self.swept.is_some() { share } else { 0 };
        gone.iter().for_each(|node| drop(self.all.remove(node)));
    }
}

impl Channels {
    /// Records a shard's watch of a channel of this home. Returns whether there is room for it.
    pub(crate) fn watch(&mut self, cx: &mut Streams, node: &str, shard: ShardId, waiting: u32) -> bool {
        let now_s = cx.kernel.now.mono_s();
        self.watchers.watch(node, shard, waiting, now_s)
    }

    /// Records that a shard watches a channel of this home and that one of its subscribers asks for
    /// items. Returns whether there is room for it.
    pub(crate) fn watch_for(&mut self, cx: &mut Streams, node: &str, shard: ShardId, waiting: u32) -> bool {
        let fits = self.watch(cx, node, shard, waiting);
        if cx.kernel.settings.web.channels.counts_subscribers() {
            let now_s = cx.kernel.now.mono_s();
            self.watchers.asked(node, now_s);
        }
        fits
    }

    /// Handles the renewal of a shard's watch. If the shard has missed an item, it is notified that
    /// there is one.
    pub(crate) fn watches_still(&mut self, cx: &mut Streams, shard: ShardId, node: &str, heard: u64, waiting: u32) {
        self.watch(cx, node, shard, waiting);
        let told = match FeedName::read(node).filter(|feed| waiting > 0 && self.open_feed(cx, *feed)) {
            Some(feed) => self.feeds.get(feed.prefix, feed.all).map_or(0, |feed| feed.last),
            None => self.watchers.all.get(node).map_or(0, |watched| watched.told),
        };
        if waiting > 0 && told > heard {
            let letters = cx.kernel.letters_to(shard);
            let (node, key, item) = (letters.name(node), letters.name(""), letters.write(b""));
            letters.push(Letter::Channel(ChannelLetter::News { node, number: told, key, item }));
        }
    }

    /// Distributes an item that was published at this home, by HTTP or by XMPP.
    pub(crate) fn news(&mut self, cx: &mut Streams, news: &News, from: &str, front: Option<Front>) {
        // Every subscriber of a private channel has presented a token.
        if !news.open && !is_private(&cx.kernel.settings.web.channels, &news.actor) {
            return;
        }
        let (told, key) = (LazyCell::new(|| channel::told(news)), key_of(&news.id).unwrap_or_default());
        let mut waiting = self.tell_watchers(cx, &news.actor, news.number, key, &told);
        let feeds = self.feed(cx, &news.actor, news.number, (news.payload.len() + ITEM_BYTES) as u32);
        // Items of different channels do not replace each other.
        let key = if key.is_empty() { String::new() } else { format!("{} {key}", news.actor) };
        for (feed, number) in feeds {
            waiting = waiting.saturating_add(self.tell_watchers(cx, &feed, number, &key, &told));
        }
        waiting = waiting.saturating_add(self.wake_pages(cx, news));
        self.charge_front(cx, from, front, waiting);
    }

    /// Schedules pushes to the registered pages that are closed. Returns how many there are, as far
    /// as is known.
    fn wake_pages(&mut self, cx: &mut Streams, news: &News) -> u32 {
        let policy = &cx.kernel.settings.web.channels;
        let channel = news.actor.split_once('/').map_or("", |(_, channel)| channel);
        if policy.push.is_none() || !policy.is_there(channel) {
            return 0;
        }
        match self.web_pushes.news(cx.kernel.now.mono_ms, &news.actor, |more| told(news, more)) {
            Woken::Told(count) => return count,
            Woken::Nobody => {}
            Woken::Full => cx.kernel.counters.notify_push_unsent.one(),
        }
        0
    }

    /// Sends an item to the shards that watch a channel or feed. Returns how many requests wait
    /// there.
    fn tell_watchers<F: FnOnce() -> Vec<u8>>(
        &mut self,
        cx: &mut Streams,
        node: &str,
        number: u64,
        key: &str,
        told: &LazyCell<Vec<u8>, F>,
    ) -> u32 {
        let Some(watched) = self.watchers.all.get_mut(node) else { return 0 };
        watched.told = watched.told.max(number);
        let mut waiting: u32 = 0;
        let to = watched.by.iter().map(|watcher| (watcher.shard, watcher.waiting));
        cx.kernel.spread(to, |letters, there| {
            waiting = waiting.saturating_add(there);
            let (node, key, item) = (letters.name(node), letters.name(key), letters.write(told));
            Letter::Channel(ChannelLetter::News { node, number, key, item })
        });
        waiting
    }

    /// Charges the address that published by HTTP for all deliveries.
    pub(crate) fn charge_front(&mut self, cx: &mut Streams, from: &str, front: Option<Front>, told: u32) {
        let (Some(front), Ok(address)) = (front, from.parse()) else { return };
        if told > 0 {
            cx.kernel.letters_to(front.conn.shard).push(Letter::Channel(ChannelLetter::Charge { address, told }));
        }
    }

    /// Runs this turn's share of removing stale watches.
    pub(crate) fn sweep_watchers(&mut self, cx: &mut Streams) {
        self.watchers.sweep(cx.kernel.now.mono_ms);
        let (now_s, home) = (cx.kernel.now.mono_s(), cx.kernel.id);
        let watchers = &self.watchers;
        self.feeds.sweep(now_s, |all, prefix| watchers.has(&FeedName { home, all, prefix }.write()));
        cx.kernel.counters.notify_channels.set(self.watchers.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_say_that_it_watches_is_forgotten() {
        let mut watchers = Watchers::default();
        for node in 0..300 {
            assert!(watchers.watch(&node.to_string(), ShardId(1), 1, 0));
        }
        assert!(watchers.watch("0", ShardId(2), 1, 100) && watchers.watch("0", ShardId(2), 2, 200));
        assert_eq!(watchers.all["0"].by.len(), 2, "each shard once");
        for second in 121..=121 + u64::from(NOTIFY_FORGET_S) {
            watchers.sweep(second * 1_000);
        }
        assert_eq!((watchers.len(), watchers.all["0"].by.len()), (1, 1));
        assert!(watchers.watch("0", ShardId(2), 0, 300) && watchers.watch("x", ShardId(2), 0, 300));
        assert_eq!(watchers.len(), 0);
    }
}

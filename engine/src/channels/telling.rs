//! Delivery of new items to this shard's waiting requests, in batches.

use std::sync::Arc;

use crate::channels::Channels;
use crate::channels::listener::Kind;
use crate::id::{ConnId, ShardId};
use crate::letters::{ChannelLetter, Letter};
use crate::limits::NOTIFY_TOLD_AT_ONCE;
use crate::streams::Streams;
use crate::web::dialect::{Dialect as _, Telling, Way};

/// A batch of the requests that wait for a channel.
struct Round {
    node: Arc<str>,
    /// The number of the channel's last known item.
    heard: u64,
    /// The last delivery. Requests of a crowd are at the same position and get the same bytes.
    last: Option<Told>,
}

/// A delivery that can be repeated for other requests.
struct Told {
    /// The requests that it is for, by
    /// [`Listener::alike`](crate::channels::listener::Listener::alike).
    to: (Way, bool),
    /// The position before it.
    at: u64,
    /// The position after it.
    upto: u64,
    items: u64,
    bytes: Vec<u8>,
}

impl Channels {
    /// Handles a new item of a channel that local requests wait for, or the notice that an item was
    /// missed.
    pub(crate) fn channel_news(
        &mut self,
        cx: &mut Streams,
        home: ShardId,
        node: &str,
        number: u64,
        item: (&str, &[u8]),
    ) {
        match self.listeners.hear(node, number, item) {
            None => {
                let letters = cx.kernel.letters_to(home);
                let node = letters.name(node);
                letters.push(Letter::Channel(ChannelLetter::Watch { node, heard: 0, watchers: 0 }));
            }
            Some(true) if !self.listeners.going => self.go_on_telling(cx),
            Some(_) => {}
        }
    }

    /// Delivers to the next batch of requests. The next turn continues with the rest, so that other
    /// publishers and subscribers do not wait for a whole crowd.
    fn go_on_telling(&mut self, cx: &mut Streams) {
        if let Some((node, batch)) = self.listeners.next(NOTIFY_TOLD_AT_ONCE) {
            self.fetch(cx, &batch);
            let heard = self.listeners.watched(&node).map_or(0, |watched| watched.heard());
            let mut round = Round { node, heard, last: None };
            for id in &batch {
                self.tell_listener(cx, *id, &mut round);
            }
            self.listeners.told(round.node, batch.len() < NOTIFY_TOLD_AT_ONCE);
        }
        self.listeners.going = self.listeners.is_telling();
    }

    /// Prefetches the state of these requests for all of them at once, so that the cache misses
    /// overlap.
    pub(crate) fn fetch(&self, cx: &Streams, ids: &[ConnId]) {
        if ids.len() > 1 {
            cx.conns.fetch(ids);
            self.listeners.fetch(ids);
        }
    }

    /// Whether deliveries are left, so that another turn has to begin at once. While many effects
    /// await a commit, deliveries pause.
    pub(crate) fn is_telling(&self, cx: &Streams) -> bool {
        !cx.many_held && (self.listeners.going || self.listeners.occupants.is_telling())
    }

    /// Runs this turn's share of the remaining deliveries.
    pub(crate) fn sweep_listeners(&mut self, cx: &mut Streams) {
        if self.listeners.going && !cx.many_held {
            self.go_on_telling(cx);
        }
        self.listeners.tells_left = cx.kernel.settings.web.channels.counts_subscribers();
        self.tell_awake(cx);
    }

    /// Delivers the held items of a channel to a request.
    fn tell_listener(&mut self, cx: &mut Streams, id: ConnId, round: &mut Round) {
        let is_heavy = cx.is_heavy(id);
        let Some(listener) = self.listeners.get_mut(id) else { return };
        if listener.has_commands() {
            return self.tell_talker(cx, id, &round.node);
        }
        let Some(index) = listener.place_of(&round.node) else { return };
        let (polls, alike, follower) =
            (listener.way() == Some(Way::Poll), listener.alike(), listener.places[index].follower);
        let waits = (polls || listener.is_gathering()) && listener.is_asking();
        let at = follower.at;
        if !follower.is_at_head() || at >= round.heard || waits {
            return;
        }
        let same = |told: &&Told| !is_heavy && alike == Some(told.to) && at == told.at;
        if let Some(told) = round.last.as_ref().filter(same) {
            listener.places[index].follower.at = told.upto;
            cx.kernel.counters.notify_told.add(told.items);
            return self.send_told(cx, id, &told.bytes);
        }
        let takes = listener.is_placed() && (polls || !is_heavy);
        let Some((listener, watched)) = self.listeners.with_watched(id, index) else { return };
        let is_binary = listener.own().is_some_and(|own| own.is_binary());
        let Some(held) = watched.behind(at, is_binary).filter(|_| takes) else {
            return if polls { self.ask_home_of(cx, id, index) } else { self.catch_up(cx, id, false) };
        };
        let (mut items, mut upto, policy) = (0, at, &cx.kernel.settings.web.channels);
        if polls {
            // Only subscribers are told of items.
            let Kind::Items(own) = &mut listener.kind else { return };
            for (number, item) in held {
                upto = number;
                if own.take(index, number, item) {
                    break;
                }
            }
            // The position does not change while nothing is wanted.
            if own.has_answer() {
                listener.places[index].follower.at = upto;
                self.answer_poll(cx, id);
            }
            return;
        }
        let (Some(own), mut telling) = (listener.own(), Telling::default()) else { return };
        for (number, item) in held {
            upto = number;
            if listener.wants(policy, index, item) {
                items += 1;
                own.item(&mut telling, listener.position(index, number), item);
            }
        }
        own.finish(&mut telling, listener.position(index, upto));
        cx.kernel.counters.notify_told.add(items);
        listener.places[index].follower.at = upto;
        self.send_told(cx, id, &telling.out);
        if let Some(to) = alike {
            round.last = Some(Told { to, at, upto, items, bytes: telling.out });
        }
    }
}

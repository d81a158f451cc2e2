//! What is published at channels, told to those of this shard who wait for it, some at a time.

use std::sync::Arc;

use crate::channels::Channels;
use crate::channels::listener::Way;
use crate::channels::listener_words::Telling;
use crate::channels::places::{Gathered, Standing};
use crate::id::{ConnId, ShardId};
use crate::letters::{ChannelLetter, Letter};
use crate::limits::NOTIFY_TOLD_AT_ONCE;
use crate::streams::Streams;

/// Some of those who wait for a channel.
struct Round {
    node: Arc<str>,
    /// The number of the last item that it is known to have.
    heard: u64,
    /// What one of them was told. A crowd stands at one place, and is told the same.
    last: Option<Told>,
}

/// What was told.
struct Told {
    /// To whom, of those who are told alike.
    to: (Way, bool),
    /// Where it stood.
    at: u64,
    /// And where it stands.
    upto: u64,
    items: u64,
    bytes: Vec<u8>,
}

impl Channels {
    /// An item was published at a channel that somebody here waits for, or there is one that was not told of.
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

    /// Tells the next of those who are to be told. If more are, the next turn goes on: who publishes or subscribes elsewhere does not
    /// wait for all of them.
    fn go_on_telling(&mut self, cx: &mut Streams) {
        if let Some((node, batch)) = self.listeners.next(NOTIFY_TOLD_AT_ONCE) {
            self.fetch(cx, &batch);
            let heard = self.listeners.watched(&node).map_or(0, |watched| watched.heard);
            let mut round = Round { node, heard, last: None };
            for id in &batch {
                self.tell_listener(cx, *id, &mut round);
            }
            self.listeners.told(round.node, batch.len() < NOTIFY_TOLD_AT_ONCE);
        }
        self.listeners.going = self.listeners.is_telling();
    }

    /// What is kept of these is about to be needed: the processor fetches it for all of them at once, and not for one after the other.
    pub(crate) fn fetch(&self, cx: &Streams, ids: &[ConnId]) {
        if ids.len() > 1 {
            cx.conns.fetch(ids);
            self.listeners.fetch(ids);
        }
    }

    /// Whether some are left to be told of something, so that another turn is to begin at once. What waits for a commit leaves first.
    pub(crate) fn is_telling(&self, cx: &Streams) -> bool {
        !cx.many_held && (self.listeners.going || self.listeners.occupants.is_telling())
    }

    /// One turn's share of telling those who are left to be told.
    pub(crate) fn sweep_listeners(&mut self, cx: &mut Streams) {
        if self.listeners.going && !cx.many_held {
            self.go_on_telling(cx);
        }
        self.listeners.tells_left = cx.kernel.settings.web.channels.nchan;
        self.tell_awake(cx);
    }

    /// Tells one who waits for a channel of the items that are held.
    fn tell_listener(&mut self, cx: &mut Streams, id: ConnId, round: &mut Round) {
        let is_heavy = cx.is_heavy(id);
        let Some(listener) = self.listeners.get_mut(id) else { return };
        if listener.talker().is_some() {
            return self.tell_talker(cx, id, &round.node);
        }
        let Some(index) = listener.places.iter().position(|place| *place.node == *round.node) else { return };
        let (streams, alike, at) = (listener.kind.streams(), listener.alike(), listener.places[index].at);
        let waits = (!streams || listener.is_gathering()) && listener.is_asking();
        if listener.places[index].standing != Standing::Live || at >= round.heard || waits {
            return;
        }
        let same = |told: &&Told| !is_heavy && alike == Some(told.to) && at == told.at;
        if let Some(told) = round.last.as_ref().filter(same) {
            listener.places[index].at = told.upto;
            cx.kernel.counters.notify_told.add(told.items);
            return self.send_told(cx, id, &told.bytes);
        }
        if !streams && listener.nchan().is_some() {
            return self.tell_nchan(cx, id, index);
        }
        let Some(listener) = self.listeners.get(id) else { return };
        let held = self.listeners.watched(&round.node).and_then(|watched| watched.behind(at, listener.binary));
        let Some(held) = held.filter(|_| listener.is_placed() && !(streams && is_heavy)) else {
            if streams {
                return self.catch_up(cx, id, false);
            }
            return self.ask_home_of(cx, id, index);
        };
        let (mut telling, mut gathered) = (Telling::new(listener), Gathered::default());
        let (mut items, mut upto, policy) = (0, at, &cx.kernel.settings.web.channels);
        for (number, item) in held {
            upto = number;
            if !listener.wants(policy, index, item) {
                continue;
            }
            items += 1;
            match streams {
                true => telling.item(listener, index, number, item),
                false => gathered.push(item),
            }
        }
        let bytes = telling.finish(listener, index, upto);
        cx.kernel.counters.notify_told.add(items);
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.places[index].at = upto;
        }
        if !streams {
            return self.respond_poll(cx, id, &gathered);
        }
        self.send_told(cx, id, &bytes);
        if let Some(to) = alike {
            round.last = Some(Told { to, at, upto, items, bytes });
        }
    }
}

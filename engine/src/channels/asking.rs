//! What a shard says to the homes of channels for its connections: questions for what is behind their places, and that channels are
//! watched still.

use crate::channels::Channels;
use crate::channels::home::feed_names::is_feed;
use crate::channels::listener::{Kind, Listener};
use crate::channels::places::Standing;
use crate::id::ConnId;
use crate::letters::{ChannelLetter, ConnRef, Letter};
use crate::streams::Streams;

impl Channels {
    /// Asks the homes of all channels of a request that is not told of what comes.
    pub(super) fn ask_all(&mut self, cx: &mut Streams, id: ConnId) {
        let places = self.listeners.get(id).map_or(0, |listener| listener.places.len());
        for index in 0..places {
            let behind = |listener: &Listener| listener.places[index].standing == Standing::Behind;
            if self.listeners.get(id).is_some_and(behind) {
                self.ask_home_of(cx, id, index);
            }
        }
    }

    /// Asks the home of a channel for what is behind the place of a request.
    pub(super) fn ask_home_of(&mut self, cx: &mut Streams, id: ConnId, index: usize) {
        let share = self.listeners.get(id).map_or(1, Listener::share);
        self.ask_for_share(cx, id, index, share);
    }

    /// The same, for so much of a page: one that is shared by so many.
    pub(super) fn ask_for_share(&mut self, cx: &mut Streams, id: ConnId, index: usize, share: u8) {
        let (number, now_s, shard) = (self.listeners.number(), cx.kernel.now.mono_s(), cx.kernel.id);
        // It has been answered, or its client has gone: then its channels are watched no more.
        let Some((listener, watched)) = self.listeners.with_watched(id, index) else { return };
        listener.asked_s = now_s;
        let watchers = watched.len();
        let place = &mut listener.places[index];
        place.standing = Standing::asked(number);
        let (node, feed) = (place.node.clone(), is_feed(&place.node));
        let after = if place.known || feed { place.at } else { u64::MAX };
        // Of a prefix, all homes say first whether they know its place. A poll is answered all at once.
        let asks_place = feed && !place.known && !matches!(listener.kind, Kind::Poll(_));
        let share = if asks_place { 0 } else { share };
        let home = self.source(cx, &node);
        let letters = cx.kernel.letters_to(home);
        let node = letters.name(&node);
        let conn = ConnRef { shard, conn: id };
        letters.push(Letter::Channel(ChannelLetter::Read { conn, number, node, after, watchers, share }));
    }

    /// Whether a request has not been told of all that its channel is known to have.
    pub(super) fn has_missed(&self, id: ConnId, index: usize) -> bool {
        let Some(place) = self.listeners.get(id).map(|listener| &listener.places[index]) else { return false };
        place.at < self.listeners.watched(&place.node).map_or(0, |watched| watched.heard)
    }

    /// Homes are told again who listens here, a share of the channels at a time.
    pub(crate) fn renew_listeners(&mut self, cx: &mut Streams) {
        for (name, heard, watchers) in self.listeners.renewals(cx.kernel.now.mono_ms) {
            self.listeners.awake.renew(&name);
            let home = self.source(cx, &name);
            let letters = cx.kernel.letters_to(home);
            let node = letters.name(&name);
            letters.push(Letter::Channel(ChannelLetter::Watch { node, heard, watchers }));
        }
    }
}

//! Letters from a shard to the homes of channels on behalf of its connections: requests for the
//! items after a position, and renewals of watches.

use crate::channels::Channels;
use crate::channels::listener::Listener;
use crate::follow::Follower;
use crate::id::ConnId;
use crate::letters::{ChannelLetter, ConnRef, Letter};
use crate::streams::Streams;
use crate::web::dialect::Way;
use crate::web::feed_names::is_feed;

impl Channels {
    /// Asks the homes of all channels of a request that is not live there.
    pub(super) fn ask_all(&mut self, cx: &mut Streams, id: ConnId) {
        let places = self.listeners.get(id).map_or(0, |listener| listener.places.len());
        for index in 0..places {
            let behind = |listener: &Listener| listener.places[index].follower.is_behind();
            if self.listeners.get(id).is_some_and(behind) {
                self.ask_home_of(cx, id, index);
            }
        }
    }

    /// Asks the home of a channel for the items after the request's position.
    pub(super) fn ask_home_of(&mut self, cx: &mut Streams, id: ConnId, index: usize) {
        let share = self.listeners.get(id).map_or(1, Listener::share);
        self.ask_for_share(cx, id, index, share);
    }

    /// The same for one of `share` equal parts of a page.
    pub(super) fn ask_for_share(&mut self, cx: &mut Streams, id: ConnId, index: usize, share: u8) {
        let (number, now_s, shard) = (self.listeners.number(), cx.kernel.now.mono_s(), cx.kernel.id);
        // The request has been answered, or its client has disconnected: its channels are no longer
        // watched.
        let Some((listener, watched)) = self.listeners.with_watched(id, index) else { return };
        listener.asked_s = now_s;
        let watchers = watched.len();
        let polls = listener.way() == Some(Way::Poll);
        let place = &mut listener.places[index];
        place.follower.ask(number);
        let (node, feed) = (place.node.clone(), is_feed(&place.node));
        let Follower { at, known, .. } = place.follower;
        let after = if known || feed { at } else { u64::MAX };
        // All homes of a prefix first report whether they know the position. A poll asks for items
        // at once, because it gets a single answer.
        let asks_place = feed && !known && !polls;
        let share = if asks_place { 0 } else { share };
        let home = self.source(cx, &node);
        let letters = cx.kernel.letters_to(home);
        let node = letters.name(&node);
        let conn = ConnRef { shard, conn: id };
        letters.push(Letter::Channel(ChannelLetter::Read { conn, number, node, after, watchers, share }));
    }

    /// Whether the channel is known to have items that the request has not received.
    pub(super) fn has_missed(&self, id: ConnId, index: usize) -> bool {
        let Some(place) = self.listeners.get(id).map(|listener| &listener.places[index]) else { return false };
        place.follower.at < self.listeners.watched(&place.node).map_or(0, |watched| watched.heard())
    }

    /// Renews the watches of this shard at the homes, some of the channels per call.
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

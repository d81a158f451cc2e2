//! Requests of this shard's connections as subscribers of channels that report them: the reports to
//! the homes, and the notifications to subscribers.
//!
//! Changes are reported to a home at most once a second, and the complete state every half minute.
//! Letters may therefore be lost.

use crate::channels::Channels;
use crate::channels::occupancy::crowd::Said;
use crate::channels::occupancy::occupants::Told;
use crate::id::ConnId;
use crate::letters::{ChannelLetter, ConnRef, Letter};
use crate::limits::{NOTIFY_TOLD_AT_ONCE, NOTIFY_WHO_AT_ONCE};
use crate::streams::Streams;
use crate::web::dialect::Dialect as _;

impl Channels {
    /// Counts a waiting request as a subscriber of those of its channels that report their
    /// subscribers.
    pub(crate) fn occupy(&mut self, cx: &mut Streams, id: ConnId) {
        let settings = cx.kernel.settings.clone();
        if !settings.web.channels.occupancy.is_empty() {
            self.listeners.occupy(id, &settings.web.channels);
        }
    }

    /// Asks the home of a channel for its subscribers.
    pub(crate) fn ask_occupancy(&mut self, cx: &mut Streams, id: ConnId) {
        let (number, shard) = (self.listeners.number(), cx.kernel.id);
        let Some(listener) = self.listeners.get_mut(id) else { return };
        listener.places[0].follower.ask(number);
        let node = listener.places[0].node.clone();
        let home = cx.kernel.home(&node);
        let letters = cx.kernel.letters_to(home);
        let node = letters.name(&node);
        letters.push(Letter::Channel(ChannelLetter::Count { conn: ConnRef { shard, conn: id }, number, node }));
    }

    /// Handles a home's report of the subscribers of a channel.
    pub(crate) fn channel_occupied(&mut self, node: &str, said: Said<'_>) {
        self.listeners.occupants.take(node, said);
    }

    /// Sends the current state to a request that has missed notifications, if its connection can
    /// take it. Intermediate states are skipped.
    pub(crate) fn greet(&mut self, cx: &mut Streams, id: ConnId) {
        let hears = self.listeners.get(id).filter(|listener| listener.hears);
        let Some(listener) = hears.filter(|listener| listener.has_begun() && listener.is_placed()) else { return };
        // Only subscribers hear of others.
        let Some(own) = listener.own() else { return };
        if cx.is_heavy(id) {
            return;
        }
        let (mut out, mut nodes) = (Vec::new(), Vec::new());
        for (index, place) in listener.places.iter().enumerate() {
            if let Some(state) = self.listeners.occupants.missed(&place.node, id) {
                own.occupancy(&mut out, &listener.places, index, &state);
                nodes.push(place.node.clone());
            }
        }
        cx.kernel.counters.notify_occupancy_told.add(nodes.len() as u64);
        nodes.iter().for_each(|node| self.listeners.occupants.was_told(node, id));
        self.send_told(cx, id, &out);
    }

    /// Notifies the next batch of subscribers. The next turn continues with the rest.
    fn go_on_telling_who(&mut self, cx: &mut Streams) {
        if let Some(told) = self.listeners.occupants.next_told(NOTIFY_TOLD_AT_ONCE) {
            for (id, knows) in &told.batch {
                self.tell_who(cx, *id, *knows, &told);
            }
        }
    }

    /// Notifies a subscriber. One whose connection is congested gets the current state later.
    fn tell_who(&mut self, cx: &mut Streams, id: ConnId, knows: bool, told: &Told) {
        let Some(listener) = self.listeners.get(id) else { return };
        if !listener.has_begun() || !listener.is_placed() || cx.is_heavy(id) {
            return;
        }
        // The subscription has ended since.
        let (Some(own), Some(index)) = (listener.own(), listener.place_of(&told.node)) else { return };
        let mut out = Vec::new();
        own.occupancy(&mut out, &listener.places, index, if knows { &told.change } else { &told.state });
        cx.kernel.counters.notify_occupancy_told.one();
        self.listeners.occupants.was_told(&told.node, id);
        self.send_told(cx, id, &out);
    }

    /// Runs this turn's share of what is due: reports to homes, and notifications to subscribers.
    pub(crate) fn sweep_occupants(&mut self, cx: &mut Streams) {
        if self.listeners.occupants.is_telling() && !cx.many_held {
            self.go_on_telling_who(cx);
        }
        if self.listeners.occupants.is_empty() {
            return;
        }
        let now_ms = cx.kernel.now.mono_ms;
        for (network, count) in self.listeners.occupants.count_out(now_ms) {
            self.listeners.addresses.came_back(network, count);
        }
        for _ in 0..NOTIFY_WHO_AT_ONCE {
            let Some((node, report)) = self.listeners.occupants.next_due(now_ms) else { break };
            let Some(report) = report else { continue };
            let home = cx.kernel.home(&node);
            let letters = cx.kernel.letters_to(home);
            let (node, names) = (letters.name(&node), letters.write(&report.names));
            letters.push(Letter::Channel(ChannelLetter::Present {
                node,
                subscribers: report.subscribers,
                names,
                whole: report.whole,
                more: report.more,
                listens: report.listens,
            }));
        }
    }
}

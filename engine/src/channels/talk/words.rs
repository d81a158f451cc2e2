//! Output on connections of Centrifugo's protocol: publications, and the ends of subscriptions. The
//! positions of a connection's subscriptions are independent of each other.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ring::digest;

use crate::channels::Channels;
use crate::id::ConnId;
use crate::limits::CENTRIFUGO_RECOVERIES_MAX;
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::web::dialect::centrifugo::reply::{self, Error, Unsubscribed};
use crate::web::dialect::centrifugo::talker::Step;
use crate::web::dialect::places::Place;
use crate::web::dialect::{Dialect as _, Telling};
use crate::web::frame::{self, FrameFault};

/// The divisor of a page that a question for earlier publications asks for, because several may be
/// answered at once.
const SHARE: u8 = 2;

impl Channels {
    /// The epoch of a channel's offsets. A new store has a new epoch.
    pub(super) fn epoch_of(&self, cx: &Streams, node: &str) -> String {
        let mut hash = digest::Context::new(&digest::SHA256);
        [b"centrifugo epoch", &cx.kernel.settings.decoy_key[..], node.as_bytes()]
            .iter()
            .for_each(|part| hash.update(part));
        BASE64URL.encode(&hash.finish().as_ref()[..6])
    }

    /// Refuses a command.
    pub(super) fn talk_refuses(&mut self, cx: &mut Streams, id: ConnId, number: u32, error: Error) {
        cx.send_with(id, |out| reply::refusal(out, number, error));
    }

    /// Replies to a command with a result.
    pub(super) fn talk_replies(&mut self, cx: &mut Streams, id: ConnId, number: u32, name: &str, result: &[u8]) {
        cx.send_with(id, |out| reply::result(out, number, name, result));
    }

    /// Ends a connection for a reason of this side.
    pub(super) fn talk_ends(&mut self, cx: &mut Streams, id: ConnId, fault: FrameFault, why: Ended) {
        cx.send_with(id, |out| frame::write_fault(out, fault));
        self.talk_leaves(cx, id, why);
    }

    /// Ends a connection whose last frame is written: nothing follows it.
    pub(super) fn talk_leaves(&mut self, cx: &mut Streams, id: ConnId, why: Ended) {
        self.listeners.end(id);
        cx.end_stream(id, why);
    }

    /// Ends a subscription without the client's request.
    pub(super) fn talk_unsubscribes(&mut self, cx: &mut Streams, id: ConnId, index: usize, why: Unsubscribed) {
        let Some(listener) = self.listeners.get(id) else { return };
        let channel = listener.called(index).to_owned();
        self.talk_part(id, index);
        cx.send_with(id, |out| reply::unsubscribed(out, &channel, why));
    }

    /// Marks a subscription as behind if its channel is known to have items that it has not
    /// received.
    pub(super) fn talk_lags(&mut self, id: ConnId, index: usize) {
        let places = self.listeners.get(id).map_or(0, |listener| listener.places.len());
        let missed = index < places && self.has_missed(id, index);
        let Some(listener) = self.listeners.get_mut(id).filter(|_| missed) else { return };
        let begun = listener.talker().is_some_and(|talker| talker.subs[index].step == Step::Begun);
        let follower = &mut listener.places[index].follower;
        if begun && follower.is_at_head() {
            follower.fall_behind();
        }
    }

    /// The same for all subscriptions.
    pub(super) fn talk_all_lag(&mut self, id: ConnId) {
        let places = self.listeners.get(id).map_or(0, |listener| listener.places.len());
        (0..places).for_each(|index| self.talk_lags(id, index));
    }

    /// Asks homes for the items that a connection's subscriptions lack, if the connection can take
    /// them. Positions of channels are asked for in any case.
    pub(crate) fn talk_catches_up(&mut self, cx: &mut Streams, id: ConnId) {
        let (is_heavy, now_s) = (cx.is_heavy(id), cx.kernel.now.mono_s());
        let Some(listener) = self.listeners.get(id) else { return };
        let reads = |place: &&Place| place.follower.known && place.follower.is_asking();
        let mut reading = listener.places.iter().filter(reads).count();
        for index in 0..listener.places.len() {
            let Some(listener) = self.listeners.get_mut(id) else { return };
            let follower = listener.places[index].follower;
            let known = follower.known;
            let Some(talker) = listener.talker_mut().filter(|_| follower.is_behind()) else { continue };
            if talker.subs[index].step == Step::Gathered {
                continue;
            }
            if known && (is_heavy || reading >= CENTRIFUGO_RECOVERIES_MAX) {
                continue;
            }
            reading += usize::from(known);
            talker.questions = talker.questions.saturating_add(1);
            talker.subs[index].since_s = now_s;
            self.ask_for_share(cx, id, index, SHARE);
        }
    }

    /// Delivers the held items of a channel to a connection.
    pub(crate) fn tell_talker(&mut self, cx: &mut Streams, id: ConnId, node: &str) {
        let is_heavy = cx.is_heavy(id);
        let Some(listener) = self.listeners.get(id) else { return };
        let Some(index) = listener.place_of(node) else { return };
        let begun = listener.talker().is_some_and(|talker| talker.subs[index].step == Step::Begun);
        let follower = listener.places[index].follower;
        if !follower.is_at_head() || !begun || !self.has_missed(id, index) {
            return;
        }
        let at = follower.at;
        let (mut telling, mut told, mut last) = (Telling::default(), 0, at);
        let Some(own) = listener.own() else { return };
        if let Some(held) =
            self.listeners.watched(node).and_then(|watched| watched.behind(at, false)).filter(|_| !is_heavy)
        {
            for (number, item) in held {
                (last, told) = (number, told + 1);
                own.item(&mut telling, listener.position(index, number), item);
            }
        }
        if told == 0 {
            cx.kernel.counters.notify_behind.add(u64::from(is_heavy));
            self.talk_lags(id, index);
            return self.talk_catches_up(cx, id);
        }
        cx.kernel.counters.notify_told.add(told);
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.places[index].follower.at = last;
        }
        cx.send_bytes(id, &telling.out);
    }
}

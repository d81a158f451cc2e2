//! Answers of channels' homes to connections of Centrifugo's protocol, and timers: pings, and the
//! expiry of tokens.

use crate::channels::Channels;
use crate::channels::listener::{Kind, Listener};
use crate::extension::pubsub::service::channel::Published;
use crate::follow::{Follower, Page};
use crate::id::ConnId;
use crate::limits::{CENTRIFUGO_PING_S, NOTIFY_ANSWER_S};
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::web::dialect::centrifugo::reply::{self, Began, Error, Unsubscribed};
use crate::web::dialect::centrifugo::talker::{Stage, Step, Waiting, What};
use crate::web::dialect::centrifugo::{crowd, publication};
use crate::web::dialect::{Dialect as _, Subscriber, Telling};
use crate::wire::error::StanzaCondition;
use crate::wire::limit::{Limit, Refusal};

/// Maps a home's refusal to an error of the protocol.
fn error_of(refusal: Refusal) -> Error {
    match refusal.condition {
        StanzaCondition::Forbidden => reply::PERMISSION_DENIED,
        _ if refusal.held.is_some_and(|held| held.limit == Limit::Nodes) => reply::TOO_MANY_REQUESTS,
        _ => reply::INTERNAL,
    }
}

/// Items as publications, separated by commas.
fn publications(page: &Page<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, item) in &page.items {
        if !out.is_empty() {
            out.push(b',');
        }
        publication::write(&mut out, *number, item);
    }
    out
}

/// Whether publications after this one are missing on a page. A client that subscribed to an empty
/// channel has missed its first items.
fn misses(page: &Page<'_>, after: u64) -> bool {
    let next = page.items.first().map_or(page.upto.saturating_add(1), |(number, _)| *number);
    page.gap || (after == 0 && next > 1)
}

impl Channels {
    /// Handles the answer of a channel's home. Answers to commands that no longer wait are ignored.
    pub(crate) fn talk_answered(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        number: u32,
        refused: Option<Refusal>,
        body: &[u8],
    ) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let Some(talker) = listener.talker_mut() else { return };
        talker.questions = talker.questions.saturating_sub(1);
        if let Some(waiting) = talker.take_waiting(number) {
            return self.talk_done(cx, id, waiting, refused, body);
        }
        let asked = listener.places.iter().position(|place| place.follower.has_asked(number));
        let Some(index) = asked else { return };
        match (refused, Page::decode(body)) {
            (None, Some(page)) => {
                self.talk_page(cx, id, index, &page);
                self.talk_lags(id, index);
            }
            (refused, _) => self.talk_sub_refused(cx, id, index, refused.map_or(reply::INTERNAL, error_of)),
        }
        self.talk_catches_up(cx, id);
    }

    /// Completes a command that the home has carried out or refused.
    fn talk_done(&mut self, cx: &mut Streams, id: ConnId, waiting: Waiting, refused: Option<Refusal>, body: &[u8]) {
        let Waiting { id: number, what, .. } = waiting;
        if let Some(refusal) = refused {
            return self.talk_refuses(cx, id, number, error_of(refusal));
        }
        match what {
            What::Publish { since_us } => match Published::decode(body) {
                None => self.talk_refuses(cx, id, number, reply::INTERNAL),
                Some(published) => {
                    self.count_published(cx, id, published, since_us);
                    self.talk_replies(cx, id, number, "publish", b"{}");
                }
            },
            What::Presence => self.talk_replies(cx, id, number, "presence", &crowd::presence(body)),
            What::PresenceStats => self.talk_replies(cx, id, number, "presence_stats", &crowd::stats(body)),
            What::History { node, after } => match Page::decode(body) {
                None => self.talk_refuses(cx, id, number, reply::INTERNAL),
                Some(page) if after.is_some_and(|after| misses(&page, after)) => {
                    self.talk_refuses(cx, id, number, reply::UNRECOVERABLE);
                }
                Some(page) => {
                    let result = reply::history(&publications(&page), &self.epoch_of(cx, &node), page.last);
                    cx.kernel.counters.notify_told.add(page.items.len() as u64);
                    self.talk_replies(cx, id, number, "history", &result);
                }
            },
        }
    }

    /// Refuses or ends a subscription.
    fn talk_sub_refused(&mut self, cx: &mut Streams, id: ConnId, index: usize, error: Error) {
        let Some(listener) = self.listeners.get(id) else { return };
        let Some(step) = listener.talker().map(|talker| talker.subs[index].step) else { return };
        match step {
            Step::Asked { id: 0, .. } => {
                self.talk_part(id, index);
                self.talk_misses(cx, id);
            }
            Step::Asked { id: number, .. } => {
                self.talk_part(id, index);
                self.talk_refuses(cx, id, number, error);
            }
            Step::Begun if error.temporary => self.talk_unsubscribes(cx, id, index, Unsubscribed::Insufficient),
            Step::Begun | Step::Gathered => self.talk_unsubscribes(cx, id, index, Unsubscribed::Server),
        }
    }

    /// Handles the home's report of a channel's position and new items.
    fn talk_page(&mut self, cx: &mut Streams, id: ConnId, index: usize, page: &Page<'_>) {
        let is_heavy = cx.is_heavy(id);
        let now_s = cx.kernel.now.wall_us / 1_000_000;
        let Some((listener, watched)) = self.listeners.with_watched(id, index) else { return };
        watched.reach(page.last);
        let Follower { known: was_known, at, .. } = listener.places[index].follower;
        let Some(sub) = listener.talker().map(|talker| &talker.subs[index]) else { return };
        let (step, left_s) = (sub.step, sub.grant.as_ref().map(|grant| grant.expires_s().saturating_sub(now_s)));
        let channel = listener.called(index).to_owned();
        let gap = was_known && misses(page, at);
        let follower = &mut listener.places[index].follower;
        let Step::Asked { id: number, recovers } = step else {
            follower.fall_behind();
            if gap {
                cx.kernel.counters.notify_gaps.one();
                return self.talk_unsubscribes(cx, id, index, Unsubscribed::Insufficient);
            }
            // Items that the connection cannot take now are read again later.
            if is_heavy {
                return;
            }
            follower.read(page.upto, page.more);
            let (mut telling, Some(own)) = (Telling::default(), listener.own()) else { return };
            page.items
                .iter()
                .for_each(|(number, item)| own.item(&mut telling, listener.position(index, *number), item));
            cx.kernel.counters.notify_told.add(page.items.len() as u64);
            return cx.send_bytes(id, &telling.out);
        };
        let recovered = was_known && !gap;
        // After a gap, the subscription continues from the end of the channel: the remaining items
        // would appear to be complete.
        match recovered {
            true => follower.read(page.upto, page.more),
            false => *follower = Follower::at_head(page.last),
        }
        let (offset, node) = (follower.at, listener.places[index].node.clone());
        let came = if recovered { publications(page) } else { Vec::new() };
        let epoch = self.epoch_of(cx, &node);
        let began = Began { epoch: &epoch, offset, recovers, recovered, publications: &came, left_s }.write();
        cx.kernel.counters.notify_told.add(if recovered { page.items.len() as u64 } else { 0 });
        cx.kernel.counters.notify_gaps.add(u64::from(gap));
        let Some(talker) = self.talker_mut(id) else { return };
        talker.subs[index].step = if number > 0 { Step::Begun } else { Step::Gathered };
        if number > 0 {
            return self.talk_replies(cx, id, number, "subscribe", &began);
        }
        if let Stage::Connecting { subs, .. } = &mut talker.stage {
            subs.push((channel.into(), began));
        }
        self.talk_misses(cx, id);
    }

    /// Checks the timers of a connection.
    pub(crate) fn sweep_talker(&mut self, cx: &mut Streams, id: ConnId) {
        let now_s = cx.kernel.now.mono_s();
        let Some(listener) = self.listeners.get(id) else { return };
        if !self.is_granted(cx, listener) {
            let expired =
                listener.grant.as_ref().is_some_and(|grant| grant.expires_s() <= cx.kernel.now.wall_us / 1_000_000);
            let why = if expired { reply::EXPIRED } else { reply::INVALID_TOKEN };
            return self.talk_ends(cx, id, why, Ended::Server);
        }
        self.talk_holds(cx, id);
        let takes = cx.conns.outbound_bytes(id) == 0;
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let is_quiet = now_s.saturating_sub(listener.asked_s) >= NOTIFY_ANSWER_S;
        let is_due = now_s >= listener.until_s;
        if is_due {
            listener.until_s = now_s + CENTRIFUGO_PING_S;
        }
        let Listener { kind: Kind::Items(Subscriber::Centrifugo(talker)), places, .. } = listener else { return };
        let mut late = Vec::new();
        for (place, sub) in places.iter_mut().zip(&talker.subs) {
            let is_late = now_s.saturating_sub(sub.since_s) >= NOTIFY_ANSWER_S;
            if is_late && place.follower.is_asking() {
                place.follower.fall_behind();
                talker.questions = talker.questions.saturating_sub(1);
            }
        }
        talker.waiting.retain(|waiting| {
            let is_late = now_s.saturating_sub(waiting.since_s) >= NOTIFY_ANSWER_S;
            late.extend(is_late.then_some(waiting.id));
            !is_late
        });
        talker.questions = talker.questions.saturating_sub(late.len() as u16);
        if is_quiet {
            // Commands that were given up are no longer answered.
            talker.questions = talker.questions.min(talker.waiting.len() as u16);
        }
        let stage_is_first = matches!(talker.stage, Stage::ExpectConnect);
        let unanswered = is_due && takes && std::mem::replace(&mut talker.pinged, is_due && takes);
        for number in late {
            self.talk_refuses(cx, id, number, reply::INTERNAL);
        }
        if is_due && stage_is_first {
            return self.talk_ends(cx, id, reply::STALE, Ended::Timeout);
        }
        if unanswered {
            return self.talk_ends(cx, id, reply::NO_PONG, Ended::Timeout);
        }
        // A connection with pending output need not be pinged.
        if is_due && takes {
            cx.send_with(id, reply::ping);
        }
        self.talk_all_lag(id);
        self.talk_catches_up(cx, id);
    }
}

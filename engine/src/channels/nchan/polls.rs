//! Subscribers who poll by Nchan's protocol on this shard's connections, publishers who ask about channels by it, and channels that are
//! deleted by it.
//!
//! One who takes all messages is told like any other who does (`listening`). One who polls is answered one message: of several channels the
//! one that was published first, and it stands in the others where it stood.

use std::borrow::Cow;

use crate::channels::Channels;
use crate::channels::listener::{Kind, Listener};
use crate::channels::listener_words::told;
use crate::channels::nchan::Subscriber;
use crate::channels::places::Standing;
use crate::extension::pubsub::service::channel::Page;
use crate::extension::pubsub::service::info::Info;
use crate::id::{ConnId, ShardId};
use crate::letters::{ChannelLetter, ConnRef, Letter};
use crate::limits::NOTIFY_TOLD_AT_ONCE;
use crate::streams::Streams;
use crate::web::nchan::Way;
use crate::web::nchan::message::{EXPOSED, Message, VARY};
use crate::web::response::Response;
use crate::web::status::Status;

impl Channels {
    /// The home of a channel has answered one who polls.
    pub(crate) fn page_for_nchan(&mut self, cx: &mut Streams, id: ConnId, index: usize, page: &Page<'_>) {
        cx.kernel.counters.notify_gaps.add(u64::from(page.gap));
        // The client has gone meanwhile.
        let Some((listener, watched)) = self.listeners.with_watched(id, index) else { return };
        watched.heard = watched.heard.max(page.last);
        let begins_anew = listener.leaves_deleted(index, page);
        let place = &mut listener.places[index];
        // Nobody else is told pages by this.
        let Kind::Nchan(own) = &mut listener.kind else { return };
        place.standing = Standing::Live;
        own.is_answered(index, page.gap);
        if begins_anew {
            place.at = 0;
            if page.upto > 0 {
                return self.ask_home_of(cx, id, index);
            }
        }
        let mut items = page.items.iter().map(|(number, item)| (*number, &**item));
        match items.find(|(_, item)| own.wants(&Message::read(item))) {
            Some((number, item)) => {
                place.at = number - 1;
                own.offer(index, number, item);
            }
            None => {
                place.at = page.upto;
                if page.more {
                    return self.ask_home_of(cx, id, index);
                }
            }
        }
        self.settle_nchan(cx, id);
    }

    /// Messages are missing on the way of a WebSocket, which has no word for that. It ends, as others do whose client has to begin again. One
    /// that comes back is told what is kept: what is missing by then it knows to be missing.
    pub(crate) fn jumps_unheard(&mut self, id: ConnId, index: usize, page: &Page<'_>) -> bool {
        // The client has gone meanwhile, or waits by another protocol.
        let Some(Kind::Nchan(own)) = self.listeners.get_mut(id).map(|listener| &mut listener.kind) else {
            return false;
        };
        let is_first = own.is_answered(index, page.gap);
        page.gap && !is_first && matches!(own.way(), Way::Socket(..))
    }

    /// One who polls and waits for no home is answered, if there is something to answer; or waits for what comes.
    fn settle_nchan(&mut self, cx: &mut Streams, id: ConnId) {
        // Another home has not answered yet.
        let Some(listener) = self.listeners.get(id).filter(|listener| !listener.is_asking()) else { return };
        // Nobody else polls so.
        let Kind::Nchan(own) = &listener.kind else { return };
        if own.has_first() || listener.until_s <= cx.kernel.now.mono_s() {
            return self.nchan_is_over(cx, id);
        }
        // What was published while the home read has been told to others by now.
        for index in 0..self.listeners.get(id).map_or(0, |listener| listener.places.len()) {
            if self.has_missed(id, index) {
                self.ask_home_of(cx, id, index);
            }
        }
    }

    /// Messages have come of a channel for which one waits who polls.
    pub(crate) fn tell_nchan(&mut self, cx: &mut Streams, id: ConnId, index: usize) {
        // The client has gone since its channel was looked at.
        let Some(listener) = self.listeners.get(id) else { return };
        // Nobody else polls so.
        let (Kind::Nchan(own), place) = (&listener.kind, &listener.places[index]) else { return };
        let held = self.listeners.watched(&place.node).and_then(|watched| watched.behind(place.at, false));
        let wanted = |(_, item): &(u64, &[u8])| own.wants(&Message::read(item));
        let first = held.map(|mut held| held.find(wanted).map(|(number, item)| (number, Box::from(item))));
        let (number, item): (u64, Box<[u8]>) = match first {
            None => return self.ask_home_of(cx, id, index),
            Some(None) => return,
            Some(Some(first)) => first,
        };
        if let Some(Kind::Nchan(own)) = self.listeners.get_mut(id).map(|listener| &mut listener.kind) {
            own.offer(index, number, &item);
        }
        self.nchan_is_over(cx, id);
    }

    /// One who polls is answered what there is.
    pub(crate) fn nchan_is_over(&mut self, cx: &mut Streams, id: ConnId) {
        // It was answered before its time came.
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let is_asking = listener.is_asking();
        let tag = listener.tag(usize::MAX, 0);
        // Nobody else polls so.
        let Kind::Nchan(own) = &mut listener.kind else { return };
        let mut response = match own.take_first() {
            None if is_asking => {
                let text = "a channel has not answered in time; try again";
                let response = Response::text(Status::ServiceUnavailable, text).with("Retry-After", "1");
                return self.respond(cx, id, response);
            }
            None => own.nothing(&tag),
            Some((index, number, item)) => {
                let response = Message::read(&item).into_response(listener.tag(index, number));
                cx.kernel.counters.notify_told.one();
                response
            }
        };
        response.fields.extend([VARY, EXPOSED].map(|(name, value)| (name, Cow::Borrowed(value))));
        self.respond(cx, id, response);
    }

    /// A publisher asks what there is to tell of a channel, and that it be emptied, or not.
    pub(crate) fn ask_info(&mut self, cx: &mut Streams, id: ConnId, from: &str, deletes: bool) {
        let (number, shard) = (self.listeners.number(), cx.kernel.id);
        // It was refused.
        let Some(listener) = self.listeners.get_mut(id) else { return };
        listener.places[0].standing = Standing::asked(number);
        let (node, granted) = (listener.places[0].node.clone(), listener.grant.is_some() || listener.permit.is_some());
        let home = cx.kernel.home(&node);
        let letters = cx.kernel.letters_to(home);
        let (node, from) = (letters.name(&node), letters.name(from));
        let conn = ConnRef { shard, conn: id };
        letters.push(Letter::Channel(ChannelLetter::Info { conn, number, node, from, granted, deletes }));
    }

    /// The home has said it.
    pub(crate) fn info_came(&mut self, cx: &mut Streams, id: ConnId, body: &[u8]) {
        // The client has gone meanwhile.
        let Some(listener) = self.listeners.get(id) else { return };
        // Homes say this of nothing else.
        let Kind::Info(format) = listener.kind else { return };
        let response = match Info::decode(body) {
            Some(info) => told(info).asked(format),
            None => Response::text(Status::ServiceUnavailable, "the channel cannot be read; try again later"),
        };
        self.respond(cx, id, response);
    }

    /// A channel of this home was deleted: all who wait for it by this protocol are told.
    pub(crate) fn channel_deleted(&mut self, cx: &mut Streams, node: &str) {
        let shards: Vec<ShardId> = self.watchers.shards(node).collect();
        for shard in shards {
            let letters = cx.kernel.letters_to(shard);
            let node = letters.name(node);
            letters.push(Letter::Channel(ChannelLetter::Gone { node, behind: None }));
        }
    }

    /// A channel was deleted: the next of those who wait for it here are told, and it sends for itself if more are.
    pub(crate) fn channel_gone(&mut self, cx: &mut Streams, node: &str, behind: Option<ConnId>) {
        // All who waited here have gone.
        let Some(watched) = self.listeners.watched(node) else { return };
        let batch = watched.next_behind(behind, NOTIFY_TOLD_AT_ONCE);
        for id in &batch {
            let gone = self.listeners.get(*id).and_then(Listener::nchan).map(Subscriber::gone);
            if let Some(gone) = gone {
                self.respond(cx, *id, gone);
            }
        }
        if let Some(last) = batch.last().filter(|_| batch.len() == NOTIFY_TOLD_AT_ONCE) {
            let own = cx.kernel.id;
            let letters = cx.kernel.letters_to(own);
            let node = letters.name(node);
            letters.push(Letter::Channel(ChannelLetter::Gone { node, behind: Some(*last) }));
        }
    }
}

//! Requests by Nchan's protocol on this shard's connections: polling subscribers, publishers'
//! queries about channels, and the deletion of channels.
//!
//! Streaming subscribers are handled like those of other protocols (`listening`). A poll is
//! answered with one message, the earliest of all its channels. Its position in the other channels
//! does not change.

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
    /// Handles the answer of a channel's home to a poll.
    pub(crate) fn page_for_nchan(&mut self, cx: &mut Streams, id: ConnId, index: usize, page: &Page<'_>) {
        cx.kernel.counters.notify_gaps.add(u64::from(page.gap));
        // The client has disconnected meanwhile.
        let Some((listener, watched)) = self.listeners.with_watched(id, index) else { return };
        watched.heard = watched.heard.max(page.last);
        let begins_anew = listener.leaves_deleted(index, page);
        let place = &mut listener.places[index];
        // Only polls of Nchan's protocol are answered here.
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

    /// Whether messages are missing on a WebSocket, whose protocol cannot report a gap. The
    /// WebSocket is closed, as for any client that has to start again. After a reconnect, all
    /// retained messages are delivered: the client knows that earlier ones are missing.
    pub(crate) fn jumps_unheard(&mut self, id: ConnId, index: usize, page: &Page<'_>) -> bool {
        // The client has disconnected meanwhile, or uses another protocol.
        let Some(Kind::Nchan(own)) = self.listeners.get_mut(id).map(|listener| &mut listener.kind) else {
            return false;
        };
        let is_first = own.is_answered(index, page.gap);
        page.gap && !is_first && matches!(own.way(), Way::Socket(..))
    }

    /// Answers a poll that waits for no home if there is a message; otherwise it waits for new
    /// ones.
    fn settle_nchan(&mut self, cx: &mut Streams, id: ConnId) {
        // The answer of another home is outstanding.
        let Some(listener) = self.listeners.get(id).filter(|listener| !listener.is_asking()) else { return };
        // Only polls of Nchan's protocol are answered here.
        let Kind::Nchan(own) = &listener.kind else { return };
        if own.has_first() || listener.until_s <= cx.kernel.now.mono_s() {
            return self.nchan_is_over(cx, id);
        }
        // Items published while the home was reading have been delivered to other requests by now.
        for index in 0..self.listeners.get(id).map_or(0, |listener| listener.places.len()) {
            if self.has_missed(id, index) {
                self.ask_home_of(cx, id, index);
            }
        }
    }

    /// Handles new messages of a channel that a poll waits for.
    pub(crate) fn tell_nchan(&mut self, cx: &mut Streams, id: ConnId, index: usize) {
        // The client has disconnected since the channel was visited.
        let Some(listener) = self.listeners.get(id) else { return };
        // Only polls of Nchan's protocol are answered here.
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

    /// Answers a poll with what there is.
    pub(crate) fn nchan_is_over(&mut self, cx: &mut Streams, id: ConnId) {
        // The poll was answered before its time was over.
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let is_asking = listener.is_asking();
        let tag = listener.tag(usize::MAX, 0);
        // Only polls of Nchan's protocol are answered here.
        let Kind::Nchan(own) = &mut listener.kind else { return };
        let mut response = match own.take_first() {
            None if is_asking => {
                let text = "a channel did not answer in time; try again";
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

    /// Asks the home for a channel's information on behalf of a publisher. If `deletes`, the
    /// channel is emptied.
    pub(crate) fn ask_info(&mut self, cx: &mut Streams, id: ConnId, from: &str, deletes: bool) {
        let (number, shard) = (self.listeners.number(), cx.kernel.id);
        // The request was refused.
        let Some(listener) = self.listeners.get_mut(id) else { return };
        listener.places[0].standing = Standing::asked(number);
        let (node, granted) = (listener.places[0].node.clone(), listener.grant.is_some() || listener.permit.is_some());
        let home = cx.kernel.home(&node);
        let letters = cx.kernel.letters_to(home);
        let (node, from) = (letters.name(&node), letters.name(from));
        let conn = ConnRef { shard, conn: id };
        letters.push(Letter::Channel(ChannelLetter::Info { conn, number, node, from, granted, deletes }));
    }

    /// Handles the home's answer to a query for information.
    pub(crate) fn info_came(&mut self, cx: &mut Streams, id: ConnId, body: &[u8]) {
        // The client has disconnected meanwhile.
        let Some(listener) = self.listeners.get(id) else { return };
        // Only queries for information get this answer.
        let Kind::Info(format) = listener.kind else { return };
        let response = match Info::decode(body) {
            Some(info) => told(info).asked(format),
            None => Response::text(Status::ServiceUnavailable, "the channel cannot be read; try again later"),
        };
        self.respond(cx, id, response);
    }

    /// Notifies the subscribers by Nchan's protocol that a channel of this home was deleted.
    pub(crate) fn channel_deleted(&mut self, cx: &mut Streams, node: &str) {
        let shards: Vec<ShardId> = self.watchers.shards(node).collect();
        for shard in shards {
            let letters = cx.kernel.letters_to(shard);
            let node = letters.name(node);
            letters.push(Letter::Channel(ChannelLetter::Gone { node, behind: None }));
        }
    }

    /// Notifies the next batch of local subscribers that a channel was deleted. The shard sends
    /// itself a letter if more are left.
    pub(crate) fn channel_gone(&mut self, cx: &mut Streams, node: &str, behind: Option<ConnId>) {
        // All local subscribers have disconnected.
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

//! Questions of publishers about channels on this shard's connections, and the deletion of channels.

use crate::channels::Channels;
use crate::channels::listener::Kind;
use crate::channels::listener_words::told;
use crate::extension::pubsub::service::info::Info;
use crate::id::{ConnId, ShardId};
use crate::letters::{ChannelLetter, ConnRef, Letter};
use crate::limits::NOTIFY_TOLD_AT_ONCE;
use crate::streams::Streams;
use crate::web::dialect::Dialect as _;
use crate::web::response::Response;
use crate::web::status::Status;

impl Channels {
    /// Asks the home for a channel's information on behalf of a publisher. If `deletes`, the
    /// channel is emptied.
    pub(crate) fn ask_info(&mut self, cx: &mut Streams, id: ConnId, from: &str, deletes: bool) {
        let (number, shard) = (self.listeners.number(), cx.kernel.id);
        // The request was refused.
        let Some(listener) = self.listeners.get_mut(id) else { return };
        listener.places[0].follower.ask(number);
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
        let Kind::Info(publisher) = listener.kind else { return };
        let response = match Info::decode(body) {
            Some(info) => publisher.informed(&told(info)),
            None => Response::text(Status::ServiceUnavailable, "the channel cannot be read; try again later"),
        };
        self.respond(cx, id, response);
    }

    /// Notifies the shards of subscribers that a channel of this home was deleted.
    pub(crate) fn channel_deleted(&mut self, cx: &mut Streams, node: &str) {
        let shards: Vec<ShardId> = self.watchers.shards(node).collect();
        for shard in shards {
            let letters = cx.kernel.letters_to(shard);
            let node = letters.name(node);
            letters.push(Letter::Channel(ChannelLetter::Gone { node, behind: None }));
        }
    }

    /// Ends the next batch of local subscribers whose dialect reports that a channel was deleted. The
    /// shard sends itself a letter if more are left.
    pub(crate) fn channel_gone(&mut self, cx: &mut Streams, node: &str, behind: Option<ConnId>) {
        // All local subscribers have disconnected.
        let Some(watched) = self.listeners.watched(node) else { return };
        let batch = watched.next_behind(behind, NOTIFY_TOLD_AT_ONCE);
        for id in &batch {
            let gone = self.listeners.get(*id).and_then(|listener| listener.own()?.gone());
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

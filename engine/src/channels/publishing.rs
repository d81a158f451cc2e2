//! Publications of this shard's connections at channels: the letters to the channels' homes, and
//! the outcome.

use std::net::IpAddr;

use crate::channels::Channels;
use crate::channels::access::Admission;
use crate::channels::addresses::network;
use crate::channels::listener::Kind;
use crate::channels::listener_words::told;
use crate::extension::pubsub::service::channel::Published;
use crate::id::ConnId;
use crate::io::{Effect, Timed};
use crate::letters::{ChannelLetter, ConnRef, Letter};
use crate::limits::NOTIFY_TOLD_PER_PUBLICATION;
use crate::streams::Streams;
use crate::web::dialect::Outcome;
use crate::web::dialect::asked::Publication;
use crate::web::feed_names::channel_of;

impl Channels {
    /// Sends a publication to the home of its channel.
    pub(super) fn send_publication(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        publication: &Publication,
        admission: &Admission,
    ) {
        let number = self.listeners.number();
        let now_ms = cx.kernel.now.mono_ms;
        // The request was refused.
        let Some(listener) = self.listeners.get_mut(id) else { return };
        listener.places[0].follower.ask(number);
        let (node, network) = (listener.places[0].node.clone(), listener.network);
        let free = admission.trusted || cx.kernel.settings.web.channels.publications_s == 0;
        let makes = free || self.listeners.addresses.may_make(now_ms, network, cx.kernel.settings.each_channel_ms());
        let conn = ConnRef { shard: cx.kernel.id, conn: id };
        let home = cx.kernel.home(&node);
        let letters = cx.kernel.letters_to(home);
        let from = if admission.trusted { String::new() } else { network.to_string() };
        let granted = admission.is_granted();
        let (node, from) = (letters.name(&node), letters.name(&from));
        let key = letters.name(publication.key.as_deref().unwrap_or_default());
        let keys = letters.name(&publication.keys.join("\n"));
        let (kind, body) = (letters.name(&publication.kind), letters.write(&publication.body));
        let batch = publication.batch.is_some();
        letters.push(Letter::Channel(ChannelLetter::Publish {
            conn,
            number,
            node,
            from,
            kind,
            key,
            keys,
            body,
            makes,
            granted,
            batch,
        }));
    }

    /// Handles the outcome of a publication, as reported by the home.
    pub(super) fn published(&mut self, cx: &mut Streams, id: ConnId, published: Published) {
        // The client has disconnected meanwhile.
        let Some(listener) = self.listeners.get(id) else { return };
        // Only publications have this outcome.
        let Kind::Publish(publisher, since) = listener.kind else { return };
        let channel = channel_of(&listener.places[0].node);
        let policy = &cx.kernel.settings.web.channels;
        let outcome = Outcome {
            channel,
            number: published.number,
            batch: published.batch().map(Iterator::collect),
            repeated: published.repeated,
            // The number of subscribers is for the operator's programs, and for all clients where
            // everybody may query it.
            tells: listener.trusted || (policy.tells(channel) && !policy.is_private(channel)),
            info: told(published.info),
        };
        let response = publisher.published(&outcome);
        self.count_published(cx, id, published, since.us());
        self.respond(cx, id, response);
    }

    /// Charges an address for the deliveries of its publication.
    pub(crate) fn channel_charged(&mut self, cx: &mut Streams, address: IpAddr, told: u32) {
        let each = f64::from(told) / f64::from(NOTIFY_TOLD_PER_PUBLICATION);
        let cost = each * cx.kernel.settings.each_publication_ms();
        self.listeners.addresses.charge(cx.kernel.now.mono_ms, network(address), cost);
    }

    /// Counts a publication that the home has handled.
    pub(super) fn count_published(&mut self, cx: &mut Streams, id: ConnId, published: Published, since_us: u64) {
        // The client has disconnected meanwhile.
        let Some(listener) = self.listeners.get(id) else { return };
        if published.made && !listener.trusted && cx.kernel.settings.web.channels.publications_s > 0 {
            let (network, each_ms) = (listener.network, cx.kernel.settings.each_channel_ms());
            self.listeners.addresses.made(cx.kernel.now.mono_ms, network, each_ms);
        }
        let items = published.batch().map_or(1, |numbers| numbers.count() as u64);
        cx.kernel.counters.notify_published.add(if published.repeated { 0 } else { items });
        cx.kernel.effects.push(Effect::Timed { what: Timed::Publication, since_us });
    }
}

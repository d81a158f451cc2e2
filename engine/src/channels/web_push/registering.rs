//! Registration of pages for push messages (`PUT /n/NAME?push`) on this shard's connections, and
//! its removal: the questions to the channel's home, and the responses. Also the reports to homes
//! of which of these pages listen.

use std::net::IpAddr;
use std::sync::Arc;

use serde::Serialize;

use crate::channels::Channels;
use crate::channels::access::Admission;
use crate::channels::listener::{Kind, Wanted};
use crate::extension::datetime::{self, Precision};
use crate::extension::pubsub::service::registration::{By, Registration};
use crate::id::{ConnId, PushId};
use crate::letters::{ChannelLetter, ConnRef, Letter};
use crate::streams::Streams;
use crate::web::access::Grant;
use crate::web::dialect::asked::Wish;
use crate::web::feed_names::channel_of;
use crate::web::push::Subscription;
use crate::web::response::Response;
use crate::web::status::Status;
use crate::wire::json;

/// The bytes of an address as they are stored. For IPv6, the prefix that a provider assigns to one
/// customer.
fn network_bytes(network: IpAddr) -> Box<[u8]> {
    match network {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets()[..8].into(),
    }
}

impl Channels {
    /// Sends a page's authorized request to the home.
    pub(in crate::channels) fn send_push_wish(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        wish: Option<Wish>,
        admission: &Admission,
    ) {
        match wish {
            Some(Wish::Register(subscription)) => self.send_registration(cx, id, &subscription, admission),
            Some(Wish::Unregister(push)) => self.send_unregistration(cx, id, push),
            _ => {}
        }
    }

    /// Registers a page at a channel. It counts as a publication of its address.
    fn send_registration(&mut self, cx: &mut Streams, id: ConnId, subscription: &Subscription, admission: &Admission) {
        let policy = &cx.kernel.settings.web.channels;
        // The operator has turned pushes off meanwhile. The request ends when its time is over.
        let Some(hold_s) = policy.push.as_ref().map(|push| push.hold_s) else { return };
        let now_s = cx.kernel.now.wall_us / 1_000_000;
        let grant = admission.grant.as_deref();
        let permitted_s = admission.permit.as_ref().and_then(|_| admission.left_s(cx.kernel.now));
        let ends = [subscription.expires_s, grant.map(Grant::push_s), permitted_s.map(|left_s| now_s + left_s)];
        let until_s = ends.into_iter().flatten().fold(now_s + hold_s, u64::min);
        if until_s <= now_s {
            let text = "the subscription or the token's permission for pushes has already expired";
            return self.respond(cx, id, Response::text(Status::BadRequest, text));
        }
        let free = policy.publications_s == 0;
        let (now_ms, each_ms) = (cx.kernel.now.mono_ms, cx.kernel.settings.each_channel_ms());
        let wanted = Wanted::Registered(subscription.id(), until_s);
        // The request was refused.
        let Some((conn, number, node, network)) = self.expects(cx, id, wanted) else { return };
        let makes = free || self.listeners.addresses.may_make(now_ms, network, each_ms);
        let by = match grant.map(Grant::stands_by) {
            Some((key, name)) => By::Token(key, name.map(Into::into)),
            None if admission.permit.is_some() => By::Permit,
            None => By::Everybody,
        };
        let Subscription { endpoint, p256dh, auth, .. } = subscription.clone();
        let row = Registration { until_s, network: network_bytes(network), by, p256dh, auth, endpoint }.encode();
        let home = cx.kernel.home(&node);
        let letters = cx.kernel.letters_to(home);
        let (node, from, row) = (letters.name(&node), letters.name(&network.to_string()), letters.write(&row));
        letters.push(Letter::Channel(ChannelLetter::Register {
            conn,
            number,
            node,
            from,
            id: subscription.id(),
            row,
            makes,
        }));
    }

    /// Removes a page's registration at a channel. Possession of the registration's id is
    /// sufficient.
    fn send_unregistration(&mut self, cx: &mut Streams, id: ConnId, push: PushId) {
        // The request was refused.
        let Some((conn, number, node, network)) = self.expects(cx, id, Wanted::Unregistered) else { return };
        let home = cx.kernel.home(&node);
        let letters = cx.kernel.letters_to(home);
        let (node, from) = (letters.name(&node), letters.name(&network.to_string()));
        letters.push(Letter::Channel(ChannelLetter::Unregister { conn, number, node, from, id: push }));
    }

    /// Makes a request wait for its channel's home, unless its address has exceeded its rate.
    fn expects(&mut self, cx: &mut Streams, id: ConnId, wanted: Wanted) -> Option<(ConnRef, u32, Arc<str>, IpAddr)> {
        let (now_ms, each_ms) = (cx.kernel.now.mono_ms, cx.kernel.settings.each_publication_ms());
        let network = self.listeners.get(id)?.network;
        if cx.kernel.settings.web.channels.publications_s > 0
            && let Err(held) = self.listeners.addresses.may_publish(now_ms, network, each_ms)
        {
            self.respond(cx, id, held.into());
            return None;
        }
        let number = self.listeners.number();
        let listener = self.listeners.get_mut(id)?;
        listener.kind = Kind::Push(Some(Box::new(wanted)));
        listener.places[0].follower.ask(number);
        let node = listener.places[0].node.clone();
        Some((ConnRef { shard: cx.kernel.id, conn: id }, number, node, network))
    }

    /// Handles the answer of the home.
    pub(crate) fn push_answered(&mut self, cx: &mut Streams, id: ConnId, body: &[u8]) {
        // The client has disconnected meanwhile.
        let Some(listener) = self.listeners.get(id) else { return };
        let wanted = if let Kind::Push(Some(wanted)) = &listener.kind { **wanted } else { Wanted::Unregistered };
        let Wanted::Registered(push, until_s) = wanted else {
            return self.respond(cx, id, Response::empty(Status::NoContent));
        };
        let (network, channel) = (listener.network, channel_of(&listener.places[0].node));
        #[derive(Serialize)]
        struct Registered<'a> {
            channel: &'a str,
            push: &'a str,
            until: &'a str,
        }
        let until = datetime::text(until_s * 1_000_000, Precision::Seconds);
        let out = json::line(&Registered { channel, push: &push.text(), until: &until });
        if body == [1] && cx.kernel.settings.web.channels.publications_s > 0 {
            self.listeners.addresses.made(cx.kernel.now.mono_ms, network, cx.kernel.settings.each_channel_ms());
        }
        cx.kernel.counters.notify_push_registered.one();
        self.respond(cx, id, Response::json(out));
    }

    /// Records that a waiting request belongs to the page with this registration.
    pub(crate) fn page_listens(&mut self, id: ConnId, push: PushId) {
        // The request was refused.
        let Some(listener) = self.listeners.get(id) else { return };
        let nodes: Vec<_> = listener.nodes().cloned().collect();
        self.listeners.awake.begin(id, push, nodes.iter());
    }

    /// Notifies homes of pages that have begun to listen, and of those that have stopped.
    pub(crate) fn tell_awake(&mut self, cx: &mut Streams) {
        while let Some((node, id, listens)) = self.listeners.awake.next() {
            let home = cx.kernel.home(&node);
            let letters = cx.kernel.letters_to(home);
            let node = letters.name(&node);
            letters.push(Letter::Channel(ChannelLetter::Listens { node, id, listens }));
        }
    }
}

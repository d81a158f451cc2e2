//! Commands of Centrifugo's protocol: the effect of each, or the reason for its refusal. Answers of
//! channels' homes are handled later.
//!
//! This protocol grants no more than `/n/` does: `access` evaluates the tokens, and an address's
//! publications and subscriptions count against the same limits.

mod answers;
mod messages;
mod words;

use std::net::IpAddr;
use std::sync::Arc;

use crate::channels::Channels;
use crate::channels::access::Denied;
use crate::channels::addresses::network;
use crate::channels::listener::{Kind, Listener};
use crate::id::{ConnId, Service};
use crate::letters::{ChannelLetter, ConnRef, Letter};
use crate::limits::{
    CENTRIFUGO_CHANNELS_MAX, CENTRIFUGO_CHANNELS_PER_WAITING, CENTRIFUGO_HISTORIES_MAX, CENTRIFUGO_PING_S,
    CENTRIFUGO_WAITING_MAX, NOTIFY_BODY_BYTES_MAX, NOTIFY_PAGE_ITEMS_MAX,
};
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::web::access::{Act, Fault, Grant, topic};
use crate::web::dialect::Subscriber;
use crate::web::dialect::centrifugo::SUBPROTOCOL;
use crate::web::dialect::centrifugo::command::{Ask, Command, Connect, History, Named, Subscribe, is_json};
use crate::web::dialect::centrifugo::publication::JSON;
use crate::web::dialect::centrifugo::reply::{self, Error, Expiry, Unsubscribed};
use crate::web::dialect::centrifugo::talker::{Stage, Step, Sub, Talker, Waiting, What};
use crate::web::dialect::places::Place;
use crate::web::handshake::{self, Accept};
use crate::web::{Transport, response::Response};
use crate::wire::json;

/// Signs that mark a channel as private in Centrifugo. In Throng only the operator's configuration
/// makes a channel private.
const PERSONAL: [char; 2] = ['#', '$'];

/// Why a command is not carried out; `None` if it has ended the connection.
type Refused = Option<Error>;

impl Listener {
    /// The state of a connection with commands.
    pub(super) fn talker(&self) -> Option<&Talker> {
        if let Kind::Items(Subscriber::Centrifugo(talker)) = &self.kind { Some(talker) } else { None }
    }

    pub(super) fn talker_mut(&mut self) -> Option<&mut Talker> {
        if let Kind::Items(Subscriber::Centrifugo(talker)) = &mut self.kind { Some(talker) } else { None }
    }

    /// The client's name of one of its channels.
    pub(super) fn called(&self, index: usize) -> &str {
        self.talker().map_or("", |own| own.called(&self.places, index))
    }
}

impl Channels {
    fn talker_mut(&mut self, id: ConnId) -> Option<&mut Talker> {
        self.listeners.get_mut(id).and_then(Listener::talker_mut)
    }

    /// Switches a connection to this protocol.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn begin_talk(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        accept: &Accept,
        named: bool,
    ) -> Result<(), Response> {
        let (now_s, now_ms) = (cx.kernel.now.mono_s(), cx.kernel.now.mono_ms);
        let Some(opening) = cx.opening(id) else { return Ok(()) };
        // Output waits until what it reports is durable.
        opening.promised = true;
        opening.requests = 0;
        let network = network(opening.peer);
        let waiting_max = cx.kernel.settings.web.channels.waiting_max;
        self.listeners.addresses.may_wait(now_ms, network, waiting_max).map_err(Response::from)?;
        let name = cx.kernel.random_name();
        let kind = Kind::Items(Box::new(Talker::new(name)).into());
        let listener = Listener::new(kind, network, now_s, now_s + CENTRIFUGO_PING_S);
        self.listeners.begin(id, Listener { occupies: true, ..listener });
        cx.kernel.counters.http_requests.one();
        cx.send_with(id, |out| handshake::write_accepted(out, accept, named.then_some(SUBPROTOCOL)));
        cx.conns.set_transport(id, Transport::Commands);
        Ok(())
    }

    /// Handles a command.
    pub(super) fn talk_command(&mut self, cx: &mut Streams, id: ConnId, command: Command<'_>) {
        let Some(talker) = self.listeners.get(id).and_then(Listener::talker) else { return };
        let is_first = matches!(talker.stage, Stage::ExpectConnect);
        if is_first != matches!(command.ask, Ask::Connect(_)) {
            return self.talk_ends(cx, id, reply::BAD_COMMAND, Ended::Protocol);
        }
        let number = command.id;
        let done = match command.ask {
            // Its arrival alone proves liveness.
            Ask::Pong | Ask::Send => Ok(()),
            Ask::Connect(connect) => self.talk_connects(cx, id, number, &connect),
            Ask::Subscribe(subscribe) => self.talk_subscribes(cx, id, number, &subscribe),
            Ask::Unsubscribe(channel) => self.talk_parts(cx, id, number, &channel),
            Ask::Publish(channel, data) => self.talk_publishes(cx, id, number, &channel, data),
            Ask::Presence(channel) => self.talk_counts(cx, id, number, &channel, What::Presence),
            Ask::PresenceStats(channel) => self.talk_counts(cx, id, number, &channel, What::PresenceStats),
            Ask::History(history) => self.talk_looks_back(cx, id, number, &history),
            Ask::Ping => {
                self.talk_replies(cx, id, number, "ping", b"{}");
                Ok(())
            }
            Ask::Rpc | Ask::Unknown => Err(Some(reply::METHOD_NOT_FOUND)),
            Ask::Refresh(token) => self.talk_refreshes(cx, id, number, &token),
            Ask::SubRefresh(named) => self.talk_refreshes_sub(cx, id, number, &named),
        };
        if let Err(Some(error)) = done {
            self.talk_refuses(cx, id, number, error);
        }
    }

    /// Returns the grant of a token that a client presents on its connection.
    fn talk_shows(&mut self, cx: &mut Streams, id: ConnId, token: &str, wrong: Refused) -> Result<Arc<Grant>, Refused> {
        let (Some(listener), Some(access)) = (self.listeners.get(id), cx.kernel.settings.web.channels.access.clone())
        else {
            return Err(wrong);
        };
        let network = listener.network;
        self.verified(cx, network, &access, token).map_err(|denied| match denied {
            Denied::Fault(Fault::Expired) => Some(reply::TOKEN_EXPIRED),
            Denied::Fault(_) => wrong,
            Denied::Held(_) => Some(reply::TOO_MANY_REQUESTS),
        })
    }

    /// The same for the token of the connection. An invalid token ends the connection.
    fn talk_shows_own(&mut self, cx: &mut Streams, id: ConnId, token: &str) -> Result<Arc<Grant>, Refused> {
        // A token for a channel does not identify the client.
        let grant = self.talk_shows(cx, id, token, None).and_then(|grant| match grant.channel() {
            None => Ok(grant),
            Some(_) => Err(None),
        });
        if let Err(None) = grant {
            self.talk_ends(cx, id, reply::INVALID_TOKEN, Ended::Client);
        }
        grant
    }

    /// Remaining validity of a token, in seconds.
    fn left_s(&self, cx: &Streams, grant: Option<&Grant>) -> Option<u64> {
        grant.map(|grant| grant.expires_s().saturating_sub(cx.kernel.now.wall_us / 1_000_000))
    }

    fn talk_connects(&mut self, cx: &mut Streams, id: ConnId, number: u32, connect: &Connect) -> Result<(), Refused> {
        let grant = match &*connect.token {
            "" => None,
            token => Some(self.talk_shows_own(cx, id, token)?),
        };
        let Some(listener) = self.listeners.get_mut(id) else { return Ok(()) };
        listener.grant.clone_from(&grant);
        let channels = grant.as_ref().map(|grant| grant.channels().to_vec()).unwrap_or_default();
        if let Some(talker) = listener.talker_mut() {
            talker.stage = Stage::Connecting { id: number, subs: Vec::new(), left: 0 };
        }
        for name in channels {
            // Channels that the operator does not offer are omitted. Other servers treat unknown
            // channels in the same way.
            let again = connect.subs.get(&name).filter(|again| again.recover);
            let subscribe = Subscribe::to(name);
            let place = again.map(|again| (again.offset, &*again.epoch));
            if self.talk_joins(cx, id, 0, &subscribe, place, None).is_ok()
                && let Some(Talker { stage: Stage::Connecting { left, .. }, .. }) = self.talker_mut(id)
            {
                *left += 1;
            }
        }
        self.talk_connected(cx, id);
        self.talk_catches_up(cx, id);
        Ok(())
    }

    /// Refuses a command that arrived together with a refused first command.
    pub(super) fn talk_cancels(&mut self, cx: &mut Streams, id: ConnId, command: &Command<'_>) {
        if !matches!(command.ask, Ask::Pong | Ask::Send) {
            self.talk_refuses(cx, id, command.id, reply::CANCELLED);
        }
    }

    /// Answers the first command once all homes have reported the positions of the channels that
    /// the server subscribes the client to.
    pub(super) fn talk_connected(&mut self, cx: &mut Streams, id: ConnId) {
        let Some(listener) = self.listeners.get(id) else { return };
        let (Some(talker), left_s) = (listener.talker(), self.left_s(cx, listener.grant.as_deref())) else { return };
        let Stage::Connecting { id: number, subs, left: 0 } = &talker.stage else { return };
        let (number, name, version) = (*number, &talker.name, &cx.kernel.settings.facts.version);
        let mut result = json::bytes(&reply::Connected {
            client: name,
            version: &format!("Throng {version}"),
            ping: CENTRIFUGO_PING_S,
            pong: true,
            expiry: Expiry::of(left_s),
        });
        let mut all = b"{}".to_vec();
        subs.iter().for_each(|(channel, began)| json::add(&mut all, channel, &[began]));
        if !subs.is_empty() {
            json::add(&mut result, "subs", &[&all]);
        }
        let until_s = cx.kernel.now.mono_s() + CENTRIFUGO_PING_S;
        if let Some(listener) = self.listeners.get_mut(id) {
            listener.until_s = until_s;
            if let Some(talker) = listener.talker_mut() {
                talker.stage = Stage::Connected;
                talker.subs.iter_mut().filter(|sub| sub.step == Step::Gathered).for_each(|sub| sub.step = Step::Begun);
            }
        }
        self.talk_replies(cx, id, number, "connect", &result);
        // Items published since the homes reported the positions are fetched now.
        self.talk_all_lag(id);
        self.talk_catches_up(cx, id);
    }

    /// The channel that a client names, and its node.
    fn talk_names(&self, cx: &Streams, name: &str) -> Result<(Box<str>, String), Refused> {
        let policy = &cx.kernel.settings.web.channels;
        let channel = topic::channel(name).map_err(|_| Some(reply::BAD_REQUEST))?;
        // Clients of Centrifugo would take these channels to be private.
        let is_personal = name.starts_with(PERSONAL[1]) || name.contains(PERSONAL[0]);
        let service = cx.kernel.settings.domains.service(Service::PubSub).unwrap_or_default();
        if service.is_empty() || !policy.is_there(&channel) || (is_personal && !policy.is_private(&channel)) {
            return Err(Some(reply::UNKNOWN_CHANNEL));
        }
        Ok((channel.as_ref().into(), format!("{service}/{channel}")))
    }

    /// Checks whether the token of the connection or of its subscription allows an action at a
    /// channel. Returns whether a token grants it; otherwise the action is open to the public.
    fn talk_may(&self, cx: &Streams, id: ConnId, act: Act, channel: &str, node: &str) -> Result<bool, Refused> {
        let Some(listener) = self.listeners.get(id) else { return Err(None) };
        let sub = listener.place_of(node).and_then(|index| listener.talker()?.subs[index].grant.as_deref());
        match self.may_by(cx, [listener.grant.as_deref(), sub], act, channel) {
            (true, granted) => Ok(granted),
            (false, _) => Err(Some(reply::PERMISSION_DENIED)),
        }
    }

    fn talk_subscribes(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        number: u32,
        subscribe: &Subscribe,
    ) -> Result<(), Refused> {
        if subscribe.is_foreign() {
            return Err(Some(reply::NOT_AVAILABLE));
        }
        let grant = match &*subscribe.token {
            "" => None,
            token => Some(self.talk_shows_for(cx, id, &subscribe.channel, token)?),
        };
        let place = subscribe.recover.then_some((subscribe.offset, &*subscribe.epoch));
        self.talk_joins(cx, id, number, subscribe, place, grant)?;
        self.talk_catches_up(cx, id);
        Ok(())
    }

    /// Returns the grant of a subscription token, which must be for this channel and for the user
    /// of the connection.
    fn talk_shows_for(&mut self, cx: &mut Streams, id: ConnId, name: &str, token: &str) -> Result<Arc<Grant>, Refused> {
        let denied = Some(reply::PERMISSION_DENIED);
        let grant = self.talk_shows(cx, id, token, denied)?;
        let channel = topic::channel(name).map_err(|_| Some(reply::BAD_REQUEST))?;
        let own = self.listeners.get(id).and_then(|listener| listener.grant.as_ref());
        let is_own = own.and_then(|own| own.subject()) == grant.subject();
        match grant.channel().is_none_or(|for_one| for_one == channel) && is_own {
            true => Ok(grant),
            false => Err(denied),
        }
    }

    /// Starts a subscription. The reply has this `number`; `place` is the position to recover from.
    fn talk_joins(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        number: u32,
        subscribe: &Subscribe,
        place: Option<(u64, &str)>,
        grant: Option<Arc<Grant>>,
    ) -> Result<(), Refused> {
        let settings = cx.kernel.settings.clone();
        let policy = &settings.web.channels;
        let (channel, node) = self.talk_names(cx, &subscribe.channel)?;
        let Some(listener) = self.listeners.get(id) else { return Err(None) };
        let Some(talker) = listener.talker() else { return Err(None) };
        if listener.place_of(&node).is_some() {
            return Err(Some(reply::ALREADY_SUBSCRIBED));
        }
        let own = [listener.grant.as_deref(), grant.as_deref()];
        if !self.may_by(cx, own, Act::Subscribe, &channel).0 {
            return Err(Some(reply::PERMISSION_DENIED));
        }
        let count = listener.places.len();
        if count >= CENTRIFUGO_CHANNELS_MAX {
            return Err(Some(reply::LIMIT_EXCEEDED));
        }
        if !talker.may_ask() {
            return Err(Some(reply::TOO_MANY_REQUESTS));
        }
        // A client that may not know the subscribers is not notified of changes to them.
        let hears = subscribe.join_leave && policy.tells(&channel) && self.may_by(cx, own, Act::Presence, &channel).0;
        let (now_ms, network) = (cx.kernel.now.mono_ms, listener.network);
        if (count + 1).is_multiple_of(CENTRIFUGO_CHANNELS_PER_WAITING) {
            let may = self.listeners.addresses.may_wait(now_ms, network, policy.waiting_max);
            may.map_err(|_| Some(reply::TOO_MANY_REQUESTS))?;
        }
        let after = place.filter(|(_, epoch)| epoch.is_empty() || *epoch == self.epoch_of(cx, &node));
        let (node, at) = (self.listeners.name(&node), after.map_or(0, |(offset, _)| offset));
        let place_of = Place::at(node, at, after.is_some());
        let name = (*subscribe.channel != *channel).then(|| subscribe.channel.clone());
        let step = Step::Asked { id: number, recovers: place.is_some() };
        self.listeners.join(id, place_of, hears, policy);
        if let Some(talker) = self.talker_mut(id) {
            talker.subs.push(Sub { name, grant, step, since_s: 0 });
        }
        Ok(())
    }

    /// Removes a subscription.
    pub(super) fn talk_part(&mut self, id: ConnId, index: usize) {
        self.listeners.part(id, index);
        if let Some(talker) = self.talker_mut(id) {
            talker.subs.swap_remove(index);
        }
    }

    fn talk_parts(&mut self, cx: &mut Streams, id: ConnId, number: u32, name: &str) -> Result<(), Refused> {
        let (_, node) = self.talk_names(cx, name)?;
        let Some(listener) = self.listeners.get(id) else { return Err(None) };
        if let Some(index) = listener.place_of(&node) {
            let step = listener.talker().map(|talker| talker.subs[index].step);
            let called: Box<str> = listener.called(index).into();
            self.talk_part(id, index);
            match step {
                // The first command no longer waits for it.
                Some(Step::Asked { id: 0, .. }) => self.talk_misses(cx, id),
                Some(Step::Asked { id: asked, .. }) => self.talk_refuses(cx, id, asked, reply::CANCELLED),
                // The reply to the first command does not list it.
                Some(Step::Gathered) => {
                    if let Some(Talker { stage: Stage::Connecting { subs, .. }, .. }) = self.talker_mut(id) {
                        subs.retain(|(channel, _)| *channel != called);
                    }
                }
                Some(Step::Begun) | None => {}
            }
        }
        self.talk_replies(cx, id, number, "unsubscribe", b"{}");
        Ok(())
    }

    /// Records a command that waits for the home of a channel. Returns the number of the question.
    fn talk_waits(&mut self, cx: &mut Streams, id: ConnId, number: u32, what: What) -> Result<u32, Refused> {
        let (asked, since_s) = (self.listeners.number(), cx.kernel.now.mono_s());
        let Some(talker) = self.talker_mut(id) else { return Err(None) };
        let is_history = matches!(what, What::History { .. });
        if talker.waiting.len() >= CENTRIFUGO_WAITING_MAX
            || !talker.may_ask()
            || (is_history && talker.histories() >= CENTRIFUGO_HISTORIES_MAX)
        {
            return Err(Some(reply::TOO_MANY_REQUESTS));
        }
        talker.questions += 1;
        talker.waiting.push(Waiting { number: asked, id: number, what, since_s });
        Ok(asked)
    }

    fn talk_publishes(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        number: u32,
        name: &str,
        data: &str,
    ) -> Result<(), Refused> {
        let (channel, node) = self.talk_names(cx, name)?;
        let granted = self.talk_may(cx, id, Act::Publish, &channel, &node)?;
        if data.len() > NOTIFY_BODY_BYTES_MAX {
            return Err(Some(reply::LIMIT_EXCEEDED));
        }
        if !is_json(data) {
            return Err(Some(reply::BAD_REQUEST));
        }
        let Some(address) = cx.opening(id).map(|opening| opening.peer.to_canonical()) else { return Err(None) };
        let makes = self.talk_pays(cx, address)?;
        let wall_us = What::Publish { since_us: cx.kernel.now.wall_us };
        let asked = self.talk_waits(cx, id, number, wall_us)?;
        let conn = ConnRef { shard: cx.kernel.id, conn: id };
        let home = cx.kernel.home(&node);
        let letters = cx.kernel.letters_to(home);
        let (node, from, kind) = (letters.name(&node), letters.name(&network(address).to_string()), letters.name(JSON));
        let (key, keys, body) = (letters.name(""), letters.name(""), letters.write(data.as_bytes()));
        letters.push(Letter::Channel(ChannelLetter::Publish {
            conn,
            number: asked,
            node,
            from,
            kind,
            key,
            keys,
            body,
            makes,
            granted,
            batch: false,
        }));
        Ok(())
    }

    /// Charges an address with a publication. Returns whether it may create the channel.
    fn talk_pays(&mut self, cx: &mut Streams, address: IpAddr) -> Result<bool, Refused> {
        if cx.kernel.settings.web.channels.publications_s == 0 {
            return Ok(true);
        }
        let (now_ms, network) = (cx.kernel.now.mono_ms, network(address));
        let each_ms = cx.kernel.settings.each_publication_ms();
        let paid = self.listeners.addresses.may_publish(now_ms, network, each_ms);
        paid.map_err(|_| Some(reply::TOO_MANY_REQUESTS))?;
        Ok(self.listeners.addresses.may_make(now_ms, network, cx.kernel.settings.each_channel_ms()))
    }

    fn talk_counts(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        number: u32,
        name: &str,
        what: What,
    ) -> Result<(), Refused> {
        let (channel, node) = self.talk_names(cx, name)?;
        if !cx.kernel.settings.web.channels.tells(&channel) {
            return Err(Some(reply::NOT_AVAILABLE));
        }
        self.talk_may(cx, id, Act::Presence, &channel, &node)?;
        let asked = self.talk_waits(cx, id, number, what)?;
        let conn = ConnRef { shard: cx.kernel.id, conn: id };
        let home = cx.kernel.home(&node);
        let letters = cx.kernel.letters_to(home);
        let node = letters.name(&node);
        letters.push(Letter::Channel(ChannelLetter::Count { conn, number: asked, node }));
        Ok(())
    }

    fn talk_looks_back(&mut self, cx: &mut Streams, id: ConnId, number: u32, history: &History) -> Result<(), Refused> {
        let (channel, node) = self.talk_names(cx, &history.channel)?;
        self.talk_may(cx, id, Act::Subscribe, &channel, &node)?;
        let since = history.since.as_ref();
        if since.is_some_and(|since| !since.epoch.is_empty() && *since.epoch != *self.epoch_of(cx, &node)) {
            return Err(Some(reply::UNRECOVERABLE));
        }
        let offset = since.map(|since| since.offset);
        let (after, before) = match (history.reverse, offset) {
            (true, Some(0)) => return Err(Some(reply::BAD_REQUEST)),
            (true, before) => (0, before.unwrap_or(u64::MAX)),
            (false, after) => (after.unwrap_or_default(), 0),
        };
        let items =
            u32::try_from(history.limit).map_or(NOTIFY_PAGE_ITEMS_MAX, |limit| limit.min(NOTIFY_PAGE_ITEMS_MAX));
        let behind = offset.filter(|_| !history.reverse && items > 0);
        let what = What::History { node: self.listeners.name(&node), after: behind };
        let asked = self.talk_waits(cx, id, number, what)?;
        let conn = ConnRef { shard: cx.kernel.id, conn: id };
        let home = cx.kernel.home(&node);
        let letters = cx.kernel.letters_to(home);
        let node = letters.name(&node);
        letters.push(Letter::Channel(ChannelLetter::History { conn, number: asked, node, after, before, items }));
        Ok(())
    }

    fn talk_refreshes(&mut self, cx: &mut Streams, id: ConnId, number: u32, token: &str) -> Result<(), Refused> {
        let grant = self.talk_shows_own(cx, id, token)?;
        let Some(listener) = self.listeners.get_mut(id) else { return Ok(()) };
        // The identity that other clients see cannot change.
        if listener.grant.as_ref().and_then(|own| own.subject()) != grant.subject() {
            self.talk_ends(cx, id, reply::INVALID_TOKEN, Ended::Client);
            return Err(None);
        }
        listener.grant = Some(grant.clone());
        let name = listener.talker().map(|talker| talker.name.clone()).unwrap_or_default();
        let expiry = Expiry::of(self.left_s(cx, Some(&grant)));
        let result = json::bytes(&reply::Refreshed { client: Some(&name), expiry });
        self.talk_replies(cx, id, number, "refresh", &result);
        self.talk_holds(cx, id);
        Ok(())
    }

    fn talk_refreshes_sub(&mut self, cx: &mut Streams, id: ConnId, number: u32, named: &Named) -> Result<(), Refused> {
        let (channel, node) = self.talk_names(cx, &named.channel)?;
        let index = self.listeners.get(id).and_then(|listener| listener.place_of(&node));
        let Some(index) = index else { return Err(Some(reply::PERMISSION_DENIED)) };
        let grant = self.talk_shows_for(cx, id, &named.channel, &named.token)?;
        if !self.may_by(cx, [None, Some(&grant)], Act::Subscribe, &channel).0 {
            return Err(Some(reply::PERMISSION_DENIED));
        }
        let left_s = self.left_s(cx, Some(&grant));
        if let Some(talker) = self.talker_mut(id) {
            talker.subs[index].grant = Some(grant);
        }
        let result = json::bytes(&reply::Refreshed { client: None, expiry: Expiry::of(left_s) });
        self.talk_replies(cx, id, number, "sub_refresh", &result);
        Ok(())
    }

    /// Ends subscriptions that no valid token grants any more.
    pub(super) fn talk_holds(&mut self, cx: &mut Streams, id: ConnId) {
        let now_s = cx.kernel.now.wall_us / 1_000_000;
        let mut index = 0;
        while let Some(listener) = self.listeners.get(id).filter(|listener| index < listener.places.len()) {
            let Some(sub) = listener.talker().map(|talker| &talker.subs[index]) else { return };
            let channel = topic::channel(listener.called(index)).unwrap_or_default();
            let may = self.may_by(cx, [listener.grant.as_deref(), sub.grant.as_deref()], Act::Subscribe, &channel).0;
            let expired = sub.grant.as_ref().is_some_and(|grant| grant.expires_s() <= now_s);
            // Removal moves the last subscription here. One that has not begun is refused by the
            // reply to its command.
            match (may, sub.step) {
                (true, _) | (false, Step::Gathered) => index += 1,
                (false, Step::Asked { id: number, .. }) => {
                    self.talk_part(id, index);
                    if number > 0 {
                        self.talk_refuses(cx, id, number, reply::PERMISSION_DENIED);
                    } else {
                        self.talk_misses(cx, id);
                    }
                }
                (false, Step::Begun) => {
                    let why = if expired { Unsubscribed::Expired } else { Unsubscribed::Server };
                    self.talk_unsubscribes(cx, id, index, why);
                }
            }
        }
    }

    /// The first command no longer waits for a channel that the server cannot subscribe the client
    /// to.
    pub(super) fn talk_misses(&mut self, cx: &mut Streams, id: ConnId) {
        if let Some(Talker { stage: Stage::Connecting { left, .. }, .. }) = self.talker_mut(id) {
            *left = left.saturating_sub(1);
        }
        self.talk_connected(cx, id);
    }
}

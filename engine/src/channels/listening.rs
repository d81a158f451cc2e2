//! Requests for channels (`/n/`) on this shard's connections: from the request to letters to the
//! channels' homes, and from the homes' answers to responses and events. While a request waits, its
//! connection is read only to detect that the client has disconnected.
//!
//! Letters may be lost. A question without an answer is asked again. A publication without one is
//! reported to be in doubt.

use crate::channels::Channels;
use crate::channels::access::{self, Admission};
use crate::channels::addresses::network;
use crate::channels::listener::{Kind, Listener, Since};
use crate::extension::pubsub::service::channel::Published;
use crate::follow::{Follower, Page};
use crate::id::{ConnId, Service};
use crate::limits::{NOTIFY_ANSWER_S, NOTIFY_HEARTBEAT_S};
use crate::session::conn::Pause;
use crate::streams::Streams;
use crate::streams::ended::Ended;
use crate::web::dialect::asked::{Asked, Wish};
use crate::web::dialect::binary;
use crate::web::dialect::places::Place;
use crate::web::dialect::{Dialect as _, Telling, Way};
use crate::web::feed_names::is_feed;
use crate::web::response::Response;
use crate::web::status::Status;
use crate::wire::error::StanzaCondition;
use crate::wire::limit::Refusal;

/// Time limit for the home to confirm a publication, in seconds.
const PUBLISH_S: u32 = 30;

/// The response to a request whose channel's home has not answered in time.
fn late() -> Response {
    Response::text(Status::ServiceUnavailable, "a channel did not answer in time; try again").with("Retry-After", "1")
}

impl Channels {
    /// Starts to wait for a request's channels, or refuses the request.
    pub(super) fn begin_listening(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        keeps_alive: bool,
        asked: Asked,
        may: Result<Admission, Response>,
    ) {
        let settings = cx.kernel.settings.clone();
        let policy = &settings.web.channels;
        let (now_s, now_ms) = (cx.kernel.now.mono_s(), cx.kernel.now.mono_ms);
        let Some(address) = cx.opening(id).map(|opening| opening.peer.to_canonical()) else { return };
        let network = network(address);
        let may = may.and_then(|admission| self.may_follow(cx, network, &asked.channels).map(|()| admission));
        let (waits, selects, deletes) = (asked.wish.waits(), asked.wish.selects(), asked.wish.deletes());
        let push = asked.push;
        let mut registration = None;
        let admission = may.as_ref().cloned().unwrap_or_default();
        // The request ends when its credentials expire.
        let granted_s = admission.left_s(cx.kernel.now).unwrap_or(u64::MAX);
        let (kind, until_s, publication) = match asked.wish {
            Wish::Publish(publication) => (
                Kind::Publish(publication.answered, Since::at(cx.kernel.now.wall_us)),
                now_s + PUBLISH_S,
                Some(publication),
            ),
            Wish::Subscribe(own, wait_s) => {
                let wait_s = match own.way() {
                    Way::Poll => u64::from(wait_s).min(granted_s) as u32,
                    Way::Events | Way::Socket => NOTIFY_HEARTBEAT_S,
                };
                (Kind::Items(own), now_s + wait_s, None)
            }
            Wish::Occupancy => (Kind::Occupancy, now_s + NOTIFY_ANSWER_S, None),
            Wish::Register(_) | Wish::Unregister(_) => {
                registration = Some(asked.wish);
                (Kind::Push(None), now_s + PUBLISH_S, None)
            }
            Wish::Info(publisher, _) => (Kind::Info(publisher), now_s + NOTIFY_ANSWER_S, None),
        };
        let service = settings.domains.service(Service::PubSub).unwrap_or_default();
        let places = self.places_of(cx, service, &asked.channels, &admission, selects);
        let fields = self.listeners.fields(asked.fields);
        let listener = Listener {
            places,
            keeps_alive,
            trusted: admission.trusted,
            hears: asked.occupancy,
            grant: admission.grant.clone(),
            permit: admission.permit.clone(),
            fields,
            ..Listener::new(kind, network, now_s, until_s)
        };
        let free = admission.trusted || policy.publications_s == 0;
        let may = may.and_then(|_| {
            if deletes && !admission.trusted && !admission.is_granted() {
                return Err(access::needs_token());
            }
            let items = match &publication {
                Some(publication) => publication.batch.unwrap_or(1),
                None => usize::from(deletes),
            };
            if free || items == 0 {
                return Ok(());
            }
            let cost = items as f64 * settings.each_publication_ms();
            self.listeners.addresses.may_publish(now_ms, network, cost).map_err(Response::from)
        });
        self.listeners.begin(id, listener);
        if service.is_empty() {
            return self.respond(cx, id, Response::text(Status::NotFound, "nothing is served at this path"));
        }
        if let Err(refusal) = may {
            return self.respond(cx, id, refusal);
        }
        // The request waits as it is from here on.
        let Some(listener) = self.listeners.get(id) else { return };
        match (&listener.kind, publication) {
            (_, Some(publication)) => self.send_publication(cx, id, &publication, &admission),
            (Kind::Occupancy, _) => self.ask_occupancy(cx, id),
            (Kind::Push(_), _) => self.send_push_wish(cx, id, registration, &admission),
            (Kind::Info(_), _) => {
                let from = if admission.trusted { String::new() } else { network.to_string() };
                self.ask_info(cx, id, &from, deletes);
            }
            (kind, _) => {
                if waits && matches!(kind, Kind::Items(own) if own.occupies()) {
                    self.occupy(cx, id);
                    push.into_iter().for_each(|push| self.page_listens(id, push));
                }
                self.ask_all(cx, id);
            }
        }
    }

    /// Handles the answer of a channel's home. Answers to ended requests are ignored.
    pub(crate) fn channel_answered(
        &mut self,
        cx: &mut Streams,
        id: ConnId,
        number: u32,
        refused: Option<Refusal>,
        body: &[u8],
    ) {
        let Some(listener) = self.listeners.get(id) else { return };
        if listener.has_commands() {
            return self.talk_answered(cx, id, number, refused, body);
        }
        let asked = listener.places.iter().position(|place| place.follower.has_asked(number));
        let Some(index) = asked else { return };
        if let Some(refusal) = refused {
            return self.refused_by_home(cx, id, refusal);
        }
        let unreadable = || Refusal::from(StanzaCondition::InternalServerError);
        match &listener.kind {
            Kind::Publish(..) => match Published::decode(body) {
                Some(published) => self.published(cx, id, published),
                None => self.refused_by_home(cx, id, unreadable()),
            },
            Kind::Held(_) => {}
            Kind::Occupancy => self.respond(cx, id, Response::json(body.to_vec())),
            Kind::Info(_) => self.info_came(cx, id, body),
            Kind::Push(_) => self.push_answered(cx, id, body),
            Kind::Items(own) => match (Page::decode(body), own.way()) {
                (Some(page), Way::Poll) => self.page_for_poll(cx, id, index, &page),
                (Some(page), Way::Events | Way::Socket) => {
                    self.page_for_stream(cx, id, index, &page);
                    self.greet(cx, id);
                }
                (None, _) => self.refused_by_home(cx, id, unreadable()),
            },
        }
    }

    fn page_for_poll(&mut self, cx: &mut Streams, id: ConnId, index: usize, page: &Page<'_>) {
        // The client has disconnected meanwhile.
        let Some((listener, watched)) = self.listeners.with_watched(id, index) else { return };
        watched.reach(page.last);
        let begins_anew = listener.leaves_deleted(index, page);
        // Only subscribers read pages.
        let Listener { kind: Kind::Items(own), places, .. } = listener else { return };
        let place = &mut places[index];
        place.follower.read(page.upto, false);
        let known = std::mem::replace(&mut place.follower.known, true) || is_feed(&place.node);
        own.answered(index, known && page.gap);
        cx.kernel.counters.notify_gaps.add(u64::from(known && page.gap));
        if begins_anew {
            place.follower.at = 0;
        }
        // A poll that takes one item of a channel continues before it in case that another channel
        // has an earlier one.
        let mut items = page.items.iter().filter(|_| known && !begins_anew);
        let first = items.find(|(number, item)| own.take(index, *number, item));
        if let Some((number, _)) = first {
            place.follower.at = number - 1;
        }
        let goes_on = if begins_anew { page.upto > 0 } else { first.is_none() && page.more && own.takes_one() };
        match goes_on {
            true => self.ask_home_of(cx, id, index),
            false => self.settle_poll(cx, id),
        }
    }

    /// Answers a poll that waits for no home if there are items; otherwise it waits for new ones.
    fn settle_poll(&mut self, cx: &mut Streams, id: ConnId) {
        // The answer of another home is outstanding.
        let Some(listener) = self.listeners.get(id).filter(|listener| !listener.is_asking()) else { return };
        let has_answer = listener.own().is_some_and(|own| own.has_answer());
        if has_answer || listener.until_s <= cx.kernel.now.mono_s() {
            return self.answer_poll(cx, id);
        }
        // Items published while the home was reading have been delivered to other requests by now.
        for index in 0..listener.places.len() {
            if self.has_missed(id, index) {
                self.ask_home_of(cx, id, index);
            }
        }
    }

    /// Answers a poll with what there is.
    pub(super) fn answer_poll(&mut self, cx: &mut Streams, id: ConnId) {
        // The poll was answered before its time was over.
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let is_asking = listener.is_asking();
        // Only subscribers poll.
        let Listener { kind: Kind::Items(own), places, .. } = listener else { return };
        if is_asking && !own.has_answer() {
            return self.respond(cx, id, late());
        }
        let (response, count) = own.answer(places);
        cx.kernel.counters.notify_told.add(count);
        self.respond(cx, id, response);
    }

    fn page_for_stream(&mut self, cx: &mut Streams, id: ConnId, index: usize, page: &Page<'_>) {
        // The client has disconnected meanwhile.
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let begins_anew = listener.leaves_deleted(index, page);
        // Only subscribers read pages.
        let Kind::Items(own) = &mut listener.kind else { return };
        if let Some(fault) = own.answered(index, page.gap) {
            cx.kernel.counters.notify_gaps.one();
            return self.socket_fails(cx, id, fault, Ended::Server);
        }
        self.begin_stream(cx, id);
        let (is_heavy, settings) = (cx.is_heavy(id), cx.kernel.settings.clone());
        let Some((listener, watched)) = self.listeners.with_watched(id, index) else { return };
        watched.reach(page.last);
        let is_placed = listener.is_placed();
        let Listener { kind: Kind::Items(own), places, .. } = listener else { return };
        let follower = &mut places[index].follower;
        let gathers = own.is_gathering();
        own.gather(b"", page.gap);
        if !follower.known {
            *follower = Follower { gap: page.gap && !gathers, ..Follower::at_head(page.upto) };
            // Delivery starts once all positions are known, so that each event can state the
            // position in all channels.
            if listener.is_placed() {
                // A WebSocket begins with its position.
                self.begin_stream(cx, id);
                self.say_place(cx, id);
                self.say_missed(cx, id);
                self.catch_up(cx, id, false);
            }
            return;
        }
        follower.fall_behind();
        let takes = if gathers { !own.is_full() } else { !is_heavy };
        if !takes || !is_placed {
            return self.begin_stream(cx, id);
        }
        let Some(own) = listener.own() else { return };
        let mut telling = Telling::default();
        if page.gap {
            let number = if begins_anew { 0 } else { page.behind_gap() };
            own.gap(&mut telling, listener.position(index, number));
        }
        let policy = &settings.web.channels;
        for (number, item) in page.items.iter().filter(|(_, item)| listener.wants(policy, index, item)) {
            let position = listener.position(index, *number);
            match own.is_binary() {
                true => own.item(&mut telling, position, &binary::of(item)),
                false => own.item(&mut telling, position, item),
            }
        }
        let upto = if begins_anew { 0 } else { page.upto };
        own.finish(&mut telling, listener.position(index, upto));
        listener.places[index].follower.read(upto, page.more || upto < page.upto);
        if let Kind::Items(own) = &mut listener.kind {
            own.gather(&telling.out, false);
        }
        self.tally_page(cx, page);
        match gathers {
            true => self.begin_stream(cx, id),
            false => self.send_told(cx, id, &telling.out),
        }
        self.catch_up(cx, id, false);
    }

    /// Asks for the items that a stream has not received, if its connection can take more. A stream
    /// that `waits` does not ask for items that the current round of deliveries will bring.
    pub(super) fn catch_up(&mut self, cx: &mut Streams, id: ConnId, waits: bool) {
        let is_heavy = cx.is_heavy(id);
        let Some(listener) = self.listeners.get(id).filter(|listener| !listener.is_gathering()) else { return };
        let (is_placed, places) = (listener.is_placed(), listener.places.len());
        for index in 0..places {
            let missed = self.has_missed(id, index);
            let Some((listener, watched)) = self.listeners.with_watched(id, index) else { return };
            let follower = &mut listener.places[index].follower;
            let falls = missed && follower.is_at_head() && !(waits && watched.comes_round(follower.at));
            if falls {
                follower.fall_behind();
            }
            let wants = follower.is_behind() && (is_placed || !follower.known);
            cx.kernel.counters.notify_behind.add(u64::from(falls && is_heavy));
            if wants && !is_heavy {
                self.ask_home_of(cx, id, index);
            }
        }
    }

    /// Continues after a connection has drained its output.
    pub(crate) fn listener_sent(&mut self, cx: &mut Streams, id: ConnId) {
        match self.listeners.get(id) {
            Some(listener) if listener.has_commands() => self.talk_catches_up(cx, id),
            Some(listener) if listener.has_begun() => {
                // A request that is live receives what it lacks when the round reaches it.
                if listener.is_behind() {
                    self.catch_up(cx, id, true);
                }
                self.greet(cx, id);
            }
            _ => {}
        }
    }

    /// Handles input on a connection whose request waits. Returns whether the input is to be read.
    /// After a request for an event stream, none ever is. After another request, or before a
    /// WebSocket has begun, no more is read than has already arrived.
    pub(crate) fn heard_while_waiting(&mut self, cx: &mut Streams, id: ConnId) -> bool {
        match self.listeners.get(id) {
            None => true,
            Some(listener) if listener.way() == Some(Way::Events) => false,
            Some(listener) if listener.has_begun() => true,
            Some(_) => {
                cx.pause(id, Pause::Answer);
                true
            }
        }
    }

    /// Checks the deadlines of a waiting request. Returns whether there is one.
    pub(crate) fn sweep_listener(&mut self, cx: &mut Streams, id: ConnId) -> bool {
        let now_s = cx.kernel.now.mono_s();
        let Some(listener) = self.listeners.get_mut(id) else { return false };
        if listener.has_commands() {
            self.sweep_talker(cx, id);
            return true;
        }
        let lost = now_s.saturating_sub(listener.asked_s) >= NOTIFY_ANSWER_S;
        let is_over = now_s >= listener.until_s;
        let polls = listener.way() == Some(Way::Poll);
        // The wait of a poll is limited to the validity of its token. It is answered as at the end
        // of any wait.
        let exempt = matches!(listener.kind, Kind::Publish(..) | Kind::Push(_)) || (polls && is_over);
        if let Some(listener) = self.listeners.get(id).filter(|listener| !exempt && !self.is_granted(cx, listener)) {
            let last = listener.own().map_or(&b""[..], |own| own.expired());
            if !last.is_empty() {
                cx.send_bytes(id, last);
            }
            self.respond(cx, id, access::over(listener));
            return true;
        }
        let Some(listener) = self.listeners.get_mut(id) else { return false };
        match listener.kind {
            Kind::Publish(..) if is_over => {
                let text = "the outcome of the publication is unknown; repeat it with the same Idempotency-Key";
                self.respond(cx, id, Response::text(Status::ServiceUnavailable, text).with("Retry-After", "1"));
            }
            Kind::Occupancy | Kind::Info(_) | Kind::Push(_) if is_over => {
                let text = "the channel did not answer in time; try again";
                self.respond(cx, id, Response::text(Status::ServiceUnavailable, text).with("Retry-After", "1"));
            }
            Kind::Held(_) if is_over => self.respond(cx, id, access::unanswered()),
            Kind::Publish(..) | Kind::Occupancy | Kind::Info(_) | Kind::Push(_) | Kind::Held(_) => {}
            // A home that was just asked gets its time to answer.
            Kind::Items(_) if polls && is_over && (lost || !listener.is_asking()) => self.answer_poll(cx, id),
            Kind::Items(_) => {
                let beats = is_over && listener.has_begun();
                // A poll whose time is over waits only for its home.
                if is_over && !polls {
                    listener.until_s = now_s + NOTIFY_HEARTBEAT_S;
                }
                if lost {
                    let asked = |place: &&mut Place| place.follower.is_asking();
                    listener.places.iter_mut().filter(asked).for_each(|place| place.follower.fall_behind());
                    self.ask_all(cx, id);
                }
                // A connection with pending output needs no heartbeat.
                let quiet = |_: &&Listener| beats && cx.conns.outbound_bytes(id) == 0;
                let mut beat = Vec::new();
                if let Some((listener, own)) =
                    self.listeners.get(id).filter(quiet).and_then(|listener| Some((listener, listener.own()?)))
                {
                    own.beat(&mut beat, &listener.places);
                }
                self.send_told(cx, id, &beat);
            }
        }
        true
    }

    /// Ends the request of a closed connection.
    pub(crate) fn listener_gone(&mut self, id: ConnId) {
        self.listeners.end(id);
    }
}

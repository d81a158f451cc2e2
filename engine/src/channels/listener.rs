//! A request of this shard's connections that waits for channels, as data: its kind, its
//! credentials, and what its response needs.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use crate::channels::access::decisions::Permit;
use crate::channels::home::feed_names::{is_feed, is_same_prefix};
use crate::channels::nchan::Subscriber;
use crate::channels::occupancy::crowd::channel_of;
use crate::channels::occupancy::occupants::Occupant;
use crate::channels::places::{Gathered, Place, Places, Standing, prefixes};
use crate::channels::talk::talker::Talker;
use crate::extension::pubsub::service::channel::Page;
use crate::id::{ConnId, PushId};
use crate::limits::{NOTIFY_CHANNELS_MAX, NOTIFY_PAGE_ITEMS_MAX, NOTIFY_REQUESTS_PER_PREFIX};
use crate::web::access::{Act, Grant};
use crate::web::channel::{Answered, Asked};
use crate::web::handshake::Accept;
use crate::web::mercure::event;
use crate::web::mercure::first::First;
use crate::web::mercure::place::write_base36;
use crate::web::mercure::selector::Selectors;
use crate::web::nchan;
use crate::web::nchan::id::write_tag;
use crate::web::nchan::info::Format;
use crate::web::policy::Channels;
use crate::web::response::Response;

/// The header field with the time until the next attempt (RFC 9110 10.2.3).
const RETRY_AFTER: &str = "Retry-After";

/// What a request waits for.
#[derive(Debug)]
pub(super) enum Kind {
    /// A publication, with its time (microseconds, wall clock).
    Publish(Answered, u64),
    /// A long poll: the next items, or whatever has arrived when its time is over.
    Poll(Option<Box<Gathered>>),
    /// Server-sent events. `true` once the head of the response is sent.
    Stream(bool),
    /// Server-sent events of Mercure. The data is used to send the head of the response. Afterwards
    /// it is retained only if there are selectors.
    Updates(Option<Box<First>>),
    /// Items as WebSocket messages. The data is used to answer the opening handshake, and is `None`
    /// afterwards.
    Socket(Option<Box<Accept>>),
    /// A subscriber by Nchan's protocol.
    Nchan(Box<Subscriber>),
    /// A query for the subscribers of a channel.
    Occupancy,
    /// A page that registers for push messages or unregisters; `None` until it is authorized.
    Push(Option<Box<Wanted>>),
    /// A query for a channel's information by Nchan's protocol.
    Info(Format),
    /// A request that is held until the authorization service decides.
    Held(Box<Held>),
    /// A connection of Centrifugo's protocol, whose commands name the channels.
    Talk(Box<Talker>),
}

/// What a page expects from the home of its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Registered until this time, in seconds since 1970.
    Registered(PushId, u64),
    /// Unregistered.
    Unregistered,
}

/// A held request, which waits for no channel yet.
#[derive(Debug)]
pub(super) struct Held {
    /// The request, without the header fields of its response.
    pub(super) asked: Asked,
    /// The token of the inquiry.
    pub(super) token: u64,
    /// Memory used, in bytes.
    pub(super) bytes: usize,
}

/// How items are delivered to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Long polling.
    Poll,
    /// Server-sent events, of Mercure or not.
    Events,
    /// WebSocket, of Centrifugo's protocol or not.
    Socket,
}

impl Kind {
    /// How items are delivered; `None` if the request does not wait for items.
    pub(super) fn way(&self) -> Option<Way> {
        match self {
            Kind::Poll(_) => Some(Way::Poll),
            Kind::Stream(_) | Kind::Updates(_) => Some(Way::Events),
            Kind::Socket(_) | Kind::Talk(_) => Some(Way::Socket),
            Kind::Nchan(own) => Some(match own.way() {
                nchan::Way::Poll(_) | nchan::Way::Ask => Way::Poll,
                nchan::Way::Events => Way::Events,
                nchan::Way::Socket(..) => Way::Socket,
            }),
            Kind::Publish(..) | Kind::Occupancy | Kind::Info(_) | Kind::Held(_) | Kind::Push(_) => None,
        }
    }

    /// Whether items are delivered for as long as the connection is open.
    pub(super) fn streams(&self) -> bool {
        match self {
            Kind::Nchan(own) => own.streams(),
            kind => matches!(kind, Kind::Stream(_) | Kind::Updates(_) | Kind::Socket(_)),
        }
    }

    /// Whether that is so and the response has begun.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Kind::Nchan(own) => own.has_begun(),
            Kind::Updates(first) => first.as_ref().is_none_or(|first| first.begun),
            kind => matches!(kind, Kind::Stream(true) | Kind::Socket(None) | Kind::Talk(_)),
        }
    }

    /// The items gathered for a Mercure subscriber before its response begins.
    pub(super) fn first(&mut self) -> Option<&mut First> {
        match self {
            Kind::Updates(Some(first)) if !first.begun => Some(first),
            _ => None,
        }
    }

    /// The topics to deliver below prefixes; `None` for all.
    fn selectors(&self) -> Option<&Selectors> {
        match self {
            Kind::Updates(first) => first.as_ref().map(|first| &*first.selectors),
            _ => None,
        }
    }
}

/// A waiting request.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) kind: Kind,
    /// The positions in its channels; for a publication, the one channel.
    pub(super) places: Places,
    /// The network that it is accounted to.
    pub(super) network: IpAddr,
    /// The generation of its connection, which distinguishes it from an earlier connection in the
    /// same slot.
    pub(super) generation: u32,
    /// Second (monotonic) by which it must be answered. For a stream, when the next heartbeat is
    /// due.
    pub(super) until_s: u32,
    /// Second (monotonic) of the latest question to a home.
    pub(super) asked_s: u32,
    /// The connection stays open after the response.
    pub(super) keeps_alive: bool,
    /// It carries the operator's token.
    pub(super) trusted: bool,
    /// It is counted as a subscriber in channels that report their subscribers.
    pub(super) occupies: bool,
    /// It is notified about the other subscribers.
    pub(super) hears: bool,
    /// It receives items as binary messages.
    pub(super) binary: bool,
    /// The grant of the token that admits it.
    pub(super) grant: Option<Arc<Grant>>,
    /// The permission of the authorization service that admits it.
    pub(super) permit: Option<Arc<Permit>>,
    /// Header fields of the response.
    pub(super) fields: Fields,
}

const _: () = assert!(size_of::<Listener>() <= 112, "one who waits costs this much, with its place in one channel");

type Field = (&'static str, Cow<'static, str>);

/// Header fields of a response. Requests with equal fields share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(Option<Arc<Vec<Field>>>);

impl Fields {
    /// Creates fields, shared with `like` if they are equal.
    pub(super) fn of(fields: Vec<Field>, like: &Fields) -> Fields {
        match &like.0 {
            Some(same) if **same == fields => like.clone(),
            _ if fields.is_empty() => Fields::default(),
            _ => Fields(Some(Arc::new(fields))),
        }
    }

    pub(super) fn all(&self) -> &[Field] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl Listener {
    /// Whether the answer of a home is outstanding.
    pub(super) fn is_asking(&self) -> bool {
        self.places.iter().any(|place| matches!(place.standing, Standing::Asked(_)))
    }

    /// Whether some channel has items that the request has not received and that no home was asked
    /// for.
    pub(super) fn is_behind(&self) -> bool {
        self.places.iter().any(|place| place.standing == Standing::Behind)
    }

    /// A key under which requests at the same position of a channel receive identical bytes. `None`
    /// for requests that wait for several channels, or whose output differs per request.
    pub(super) fn alike(&self) -> Option<(Way, bool)> {
        match self.kind {
            Kind::Stream(true) | Kind::Socket(None) if self.places.len() == 1 => Some((self.kind.way()?, self.binary)),
            _ => None,
        }
    }

    /// The divisor of its share: a question asks for one of so many parts of a page.
    pub(super) fn share(&self) -> u8 {
        match &self.kind {
            // Exactly one item.
            Kind::Nchan(own) if own.takes_any() => NOTIFY_PAGE_ITEMS_MAX as u8,
            _ => u8::try_from(self.places.len()).unwrap_or(u8::MAX),
        }
    }

    /// Whether its position is known in every channel. The subscriptions of Centrifugo's protocol
    /// are independent of each other.
    pub(super) fn is_placed(&self) -> bool {
        matches!(self.kind, Kind::Talk(_)) || self.places.iter().all(|place| place.known)
    }

    /// The state of a Centrifugo connection.
    pub(super) fn talker(&self) -> Option<&Talker> {
        match &self.kind {
            Kind::Talk(talker) => Some(talker),
            _ => None,
        }
    }

    pub(super) fn talker_mut(&mut self) -> Option<&mut Talker> {
        match &mut self.kind {
            Kind::Talk(talker) => Some(talker),
            _ => None,
        }
    }

    /// Detects a position beyond the end of its channel, which means that the channel was deleted
    /// and created again. Moves the position to the new channel. Returns whether the whole new
    /// channel is to be delivered first, as Nchan's clients expect for an unknown identifier.
    pub(super) fn leaves_deleted(&mut self, index: usize, page: &Page<'_>) -> bool {
        let begins_anew = self.nchan().is_some();
        let place = &mut self.places[index];
        if !place.known || place.at <= page.last {
            return false;
        }
        place.at = page.upto;
        begins_anew
    }

    /// The tag of a message with this number at one of its positions.
    pub(super) fn tag(&self, index: usize, number: u64) -> String {
        let mut tag = String::new();
        write_tag(&mut tag, index, number, self.places.iter().map(|place| place.at));
        tag
    }

    /// The state of a subscriber by Nchan's protocol.
    pub(super) fn nchan(&self) -> Option<&Subscriber> {
        match &self.kind {
            Kind::Nchan(own) => Some(own),
            _ => None,
        }
    }

    /// The index of a channel among its positions.
    pub(super) fn place_of(&self, node: &str) -> Option<usize> {
        self.places.iter().position(|place| *place.node == *node)
    }

    /// Whether an item at one of its positions is to be delivered. Below prefixes, a request with
    /// selectors receives only items that match them and that it may read. Private items are only
    /// in the feeds of all channels. A request is placed there only with a token, which is checked
    /// here, or with a permission, which covers the whole prefix.
    pub(super) fn wants(&self, policy: &Channels, index: usize, item: &[u8]) -> bool {
        let Some(selectors) = self.kind.selectors().filter(|_| is_feed(&self.places[index].node)) else { return true };
        let Some((channel, _)) = event::of(item) else { return false };
        let granted = |grant: &Arc<Grant>| grant.covers(Act::Subscribe, &channel);
        selectors.cover(&channel) && (!policy.is_private(&channel) || self.grant.as_ref().is_none_or(granted))
    }

    /// The name by which the client knows the channel.
    pub(super) fn called(&self, index: usize) -> &str {
        let own = self.talker().and_then(|talker| talker.subs.get(index)?.name.as_deref());
        own.unwrap_or_else(|| channel_of(&self.places[index].node))
    }

    /// The nodes of its channels. A request for a prefix does not count as a subscriber of any
    /// channel.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.places.iter().map(|place| &place.node).filter(|node| !is_feed(node))
    }

    /// The number of requests that it counts as for its address, unless it uses Centrifugo's
    /// protocol. A request for a prefix receives all items below it, at the expense of the
    /// publishers.
    pub(super) fn weight(&self) -> usize {
        let channels = self.nodes().count().div_ceil(NOTIFY_CHANNELS_MAX);
        (channels + prefixes(&self.places).count() * NOTIFY_REQUESTS_PER_PREFIX).max(1)
    }

    /// What is counted of it in channels that report their subscribers.
    pub(super) fn occupant(&self, conn: ConnId) -> Occupant<'_> {
        let permitted = self.permit.as_ref().and_then(|permit| permit.name.as_ref());
        let name = self.grant.as_ref().and_then(|grant| grant.subject()).or(permitted);
        Occupant { conn, network: self.network, name }
    }

    /// Its position in all channels, from which the client can continue.
    pub(super) fn position(&self) -> String {
        self.position_with(usize::MAX, 0)
    }

    /// The same, with its position in one channel replaced by `number`.
    pub(super) fn position_with(&self, index: usize, number: u64) -> String {
        let (mut out, mut before) = (String::new(), None::<&Place>);
        for (at, place) in self.places.iter().enumerate() {
            let number = if at == index { number } else { place.at };
            match before.map(|before| is_same_prefix(&before.node, &place.node)) {
                None => {}
                Some(true) => out.push('.'),
                Some(false) => out.push(','),
            }
            match is_feed(&place.node) {
                true => write_base36(&mut out, number),
                false => out.push_str(&number.to_string()),
            }
            before = Some(place);
        }
        out
    }

    /// Adds its header fields to a response.
    pub(super) fn dressed(&self, response: Response) -> Response {
        let mut response = response.with("Cache-Control", "no-store");
        // Pages of other origins see only the fields that are listed here (Fetch 3.3.3).
        if response.fields.iter().any(|(name, _)| *name == RETRY_AFTER) {
            response = response.with("Access-Control-Expose-Headers", RETRY_AFTER);
        }
        response.fields.extend(self.fields.all().iter().cloned());
        response
    }
}

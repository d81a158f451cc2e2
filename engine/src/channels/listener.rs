//! A request of this shard's connections that waits for channels, as data: its kind, its
//! credentials, and what its response needs.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use crate::channels::access::decisions::Permit;
use crate::channels::occupancy::occupants::Occupant;
use crate::follow::Page;
use crate::id::{ConnId, PushId};
use crate::limits::{NOTIFY_CHANNELS_MAX, NOTIFY_PAGE_ITEMS_MAX, NOTIFY_REQUESTS_PER_PREFIX};
use crate::web::access::{Act, Grant};
use crate::web::dialect::asked::Asked;
use crate::web::dialect::mercure::event;
use crate::web::dialect::places::{Places, Position, are_known, is_asking, prefixes};
use crate::web::dialect::{Dialect as _, Publisher, Subscriber, Way};
use crate::web::feed_names::is_feed;
use crate::web::policy::Channels;
use crate::web::response::Response;

/// The header field with the time until the next attempt (RFC 9110 10.2.3).
const RETRY_AFTER: &str = "Retry-After";

/// What a request waits for.
#[derive(Debug)]
pub(super) enum Kind {
    /// Items, delivered in the words of a dialect.
    Items(Subscriber),
    /// The outcome of a publication.
    Publish(Publisher, Since),
    /// The subscribers of a channel.
    Occupancy,
    /// A channel's information.
    Info(Publisher),
    /// The registration of a page for push messages, or its end; `None` until it is authorized.
    Push(Option<Box<Wanted>>),
    /// The decision of the authorization service.
    Held(Box<Held>),
}

/// When a publication arrived, in microseconds (wall clock). It has no alignment, which keeps
/// [`Listener`] small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Since([u8; 8]);

impl Since {
    pub(super) fn at(wall_us: u64) -> Since {
        Since(wall_us.to_ne_bytes())
    }

    pub(super) fn us(self) -> u64 {
        u64::from_ne_bytes(self.0)
    }
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
    /// A request without channels and rights, to be completed.
    pub(super) fn new(kind: Kind, network: IpAddr, now_s: u32, until_s: u32) -> Listener {
        Listener {
            kind,
            places: Places::default(),
            network,
            generation: 0,
            until_s,
            asked_s: now_s,
            keeps_alive: true,
            trusted: false,
            occupies: false,
            hears: false,
            grant: None,
            permit: None,
            fields: Fields::default(),
        }
    }

    /// The subscriber, if it waits for items.
    pub(super) fn own(&self) -> Option<&Subscriber> {
        if let Kind::Items(own) = &self.kind { Some(own) } else { None }
    }

    /// How items are delivered; `None` if the request does not wait for items.
    pub(super) fn way(&self) -> Option<Way> {
        self.own().map(|own| own.way())
    }

    /// Whether the response has begun and continues with items.
    pub(super) fn has_begun(&self) -> bool {
        self.own().is_some_and(|own| own.has_begun())
    }

    /// Whether the client sends commands, which name its channels.
    pub(super) fn has_commands(&self) -> bool {
        self.own().is_some_and(|own| own.has_commands())
    }

    /// Whether delivery waits for the answers of all homes.
    pub(super) fn is_gathering(&self) -> bool {
        self.own().is_some_and(|own| own.is_gathering())
    }

    /// Whether the answer of a home is outstanding.
    pub(super) fn is_asking(&self) -> bool {
        is_asking(&self.places)
    }

    /// Whether some channel has items that the request has not received and that no home was asked
    /// for.
    pub(super) fn is_behind(&self) -> bool {
        self.places.iter().any(|place| place.follower.is_behind())
    }

    /// A key under which requests at the same position of a channel receive identical bytes. `None`
    /// for requests that wait for several channels, or whose output differs per request.
    pub(super) fn alike(&self) -> Option<(Way, bool)> {
        self.own()?.alike().filter(|_| self.places.len() == 1)
    }

    /// The divisor of its share: a question asks for one of so many parts of a page.
    pub(super) fn share(&self) -> u8 {
        match self.own().is_some_and(|own| own.takes_any()) {
            // Exactly one item.
            true => NOTIFY_PAGE_ITEMS_MAX as u8,
            false => u8::try_from(self.places.len()).unwrap_or(u8::MAX),
        }
    }

    /// Whether its position is known in every channel, if delivery depends on that.
    pub(super) fn is_placed(&self) -> bool {
        self.has_commands() || are_known(&self.places)
    }

    /// Its positions, with that in one channel replaced by `number`.
    pub(super) fn position(&self, index: usize, number: u64) -> Position<'_> {
        Position { places: &self.places, index, number }
    }

    /// Detects a position beyond the end of its channel, which means that the channel was deleted
    /// and created again. Moves the position to the new channel. Returns whether the whole new
    /// channel is to be delivered first.
    pub(super) fn leaves_deleted(&mut self, index: usize, page: &Page<'_>) -> bool {
        let begins_anew = self.own().is_some_and(|own| own.begins_anew());
        let follower = &mut self.places[index].follower;
        if !follower.known || follower.at <= page.last {
            return false;
        }
        follower.at = page.upto;
        begins_anew
    }

    /// The index of a channel among its positions.
    pub(super) fn place_of(&self, node: &str) -> Option<usize> {
        self.places.iter().position(|place| *place.node == *node)
    }

    /// Whether an item at one of its positions is to be delivered. Below prefixes, a selecting
    /// request receives only items that it covers and that it may read. Private items are only
    /// in the feeds of all channels. A request is placed there only with a token, which is checked
    /// here, or with a permission, which covers the whole prefix.
    pub(super) fn wants(&self, policy: &Channels, index: usize, item: &[u8]) -> bool {
        let selects = |own: &&Subscriber| own.selects() && is_feed(&self.places[index].node);
        let Some(own) = self.own().filter(selects) else { return true };
        let Some((channel, _)) = event::of(item) else { return false };
        let granted = |grant: &Arc<Grant>| grant.covers(Act::Subscribe, &channel);
        own.covers(&channel) && (!policy.is_private(&channel) || self.grant.as_ref().is_none_or(granted))
    }

    /// The nodes of its channels. A request for a prefix does not count as a subscriber of any
    /// channel.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.places.iter().map(|place| &place.node).filter(|node| !is_feed(node))
    }

    /// The number of requests that it counts as for its address. A request for a prefix receives all
    /// items below it, at the expense of the publishers. Channels that commands name are counted
    /// when they come.
    pub(super) fn weight(&self) -> usize {
        if self.has_commands() {
            return 1 + self.places.len() / NOTIFY_CHANNELS_MAX;
        }
        let channels = self.nodes().count().div_ceil(NOTIFY_CHANNELS_MAX);
        (channels + prefixes(&self.places).count() * NOTIFY_REQUESTS_PER_PREFIX).max(1)
    }

    /// What is counted of it in channels that report their subscribers.
    pub(super) fn occupant(&self, conn: ConnId) -> Occupant<'_> {
        let permitted = self.permit.as_ref().and_then(|permit| permit.name.as_ref());
        let name = self.grant.as_ref().and_then(|grant| grant.subject()).or(permitted);
        Occupant { conn, network: self.network, name }
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

//! One request of this shard's connections that waits for channels, as data: what for, by what right, and what its answer has besides.

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

/// The header field that says when to ask again (RFC 9110 10.2.3).
const RETRY_AFTER: &str = "Retry-After";

/// What a request is for.
#[derive(Debug)]
pub(super) enum Kind {
    /// An item is published, since this time (microseconds of the wall's clock).
    Publish(Answered, u64),
    /// The next items are wanted, if there are none at once, so many seconds later.
    Poll(Option<Box<Gathered>>),
    /// All are wanted, as events. The head of the answer was sent.
    Stream(bool),
    /// All are wanted, as events of Mercure. The head of the answer is to be sent with this, until it was. Then it stays for the selectors, if
    /// there are some.
    Updates(Option<Box<First>>),
    /// All are wanted, as messages of a WebSocket. Its opening handshake is to be answered with this, until it was.
    Socket(Option<Box<Accept>>),
    /// Messages are wanted, by Nchan's protocol.
    Nchan(Box<Subscriber>),
    /// Who subscribes is asked.
    Occupancy,
    /// A page registers for pushes, or does not want them any more; none before it is known whether it may.
    Push(Option<Box<Wanted>>),
    /// What there is to tell of the channel by Nchan's protocol is asked.
    Info(Format),
    /// It is held until others have said whether it may be done.
    Held(Box<Held>),
    /// Commands of Centrifugo's protocol come, which say for which channels.
    Talk(Box<Talker>),
}

/// What a page has asked for that waits for its channel's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// It is told until this second since 1970.
    Registered(PushId, u64),
    /// It is not told any more.
    Unregistered,
}

/// A request that is held: it waits for no channel yet.
#[derive(Debug)]
pub(super) struct Held {
    /// What is asked, without the fields of its answer.
    pub(super) asked: Asked,
    /// By this the answer is known.
    pub(super) token: u64,
    /// What it takes.
    pub(super) bytes: usize,
}

/// By which way somebody waits for items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// A long poll.
    Poll,
    /// A stream of events, of Mercure or not.
    Events,
    /// A WebSocket, of Centrifugo's protocol or not.
    Socket,
}

impl Kind {
    /// By which way it waits for items; none if it is for something else.
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

    /// Whether items go out as long as the connection is there.
    pub(super) fn streams(&self) -> bool {
        match self {
            Kind::Nchan(own) => own.streams(),
            kind => matches!(kind, Kind::Stream(_) | Kind::Updates(_) | Kind::Socket(_)),
        }
    }

    /// The same of one whose answer has begun.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Kind::Nchan(own) => own.has_begun(),
            Kind::Updates(first) => first.as_ref().is_none_or(|first| first.begun),
            kind => matches!(kind, Kind::Stream(true) | Kind::Socket(None) | Kind::Talk(_)),
        }
    }

    /// What is gathered for one by Mercure, until its answer has begun.
    pub(super) fn first(&mut self) -> Option<&mut First> {
        match self {
            Kind::Updates(Some(first)) if !first.begun => Some(first),
            _ => None,
        }
    }

    /// Which of the topics below prefixes are wanted; `None`: all.
    fn selectors(&self) -> Option<&Selectors> {
        match self {
            Kind::Updates(first) => first.as_ref().map(|first| &*first.selectors),
            _ => None,
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Listener {
    /// What for.
    pub(super) kind: Kind,
    /// Of which channels; of a publication the one.
    pub(super) places: Places,
    /// Whom it counts for.
    pub(super) network: IpAddr,
    /// The generation of its connection, by which it is told apart from one that had the slot before.
    pub(super) generation: u32,
    /// Second (monotonic) when it has an answer at the latest; of what streams, when it is sent a sign of life.
    pub(super) until_s: u32,
    /// Second (monotonic) when a home was asked last.
    pub(super) asked_s: u32,
    /// The connection stays when the request is answered.
    pub(super) keeps_alive: bool,
    /// It has shown the operator's token.
    pub(super) trusted: bool,
    /// It counts as a subscriber where that is told.
    pub(super) occupies: bool,
    /// It is told who the others are.
    pub(super) hears: bool,
    /// It wants items as binary messages.
    pub(super) binary: bool,
    /// What its token grants, by which it waits.
    pub(super) grant: Option<Arc<Grant>>,
    /// What others have allowed, by which it waits.
    pub(super) permit: Option<Arc<Permit>>,
    /// Header fields of the answer.
    pub(super) fields: Fields,
}

const _: () = assert!(size_of::<Listener>() <= 112, "one who waits costs this much, with its place in one channel");

/// A header field.
type Field = (&'static str, Cow<'static, str>);

/// Header fields of an answer: those that many requests have alike are there once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(Option<Arc<Vec<Field>>>);

impl Fields {
    /// These, or rather `like`, if they are the same.
    pub(super) fn of(fields: Vec<Field>, like: &Fields) -> Fields {
        match &like.0 {
            Some(same) if **same == fields => like.clone(),
            _ if fields.is_empty() => Fields::default(),
            _ => Fields(Some(Arc::new(fields))),
        }
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Field] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl Listener {
    /// Whether some home has not answered yet.
    pub(super) fn is_asking(&self) -> bool {
        self.places.iter().any(|place| matches!(place.standing, Standing::Asked(_)))
    }

    /// Whether it has not taken all that there is of some channel, and no home is asked for that.
    pub(super) fn is_behind(&self) -> bool {
        self.places.iter().any(|place| place.standing == Standing::Behind)
    }

    /// What it has in common with others who stand at the same place of a channel and are told the same there, to the byte; none of those
    /// who wait for more than that.
    pub(super) fn alike(&self) -> Option<(Way, bool)> {
        match self.kind {
            Kind::Stream(true) | Kind::Socket(None) if self.places.len() == 1 => Some((self.kind.way()?, self.binary)),
            _ => None,
        }
    }

    /// What it asks a home for is one of so many shares of a page.
    pub(super) fn share(&self) -> u8 {
        match &self.kind {
            // One item, and no more.
            Kind::Nchan(own) if own.takes_any() => NOTIFY_PAGE_ITEMS_MAX as u8,
            _ => u8::try_from(self.places.len()).unwrap_or(u8::MAX),
        }
    }

    /// Whether it is known of all channels where it stands. One of Centrifugo's protocol stands in each for itself.
    pub(super) fn is_placed(&self) -> bool {
        matches!(self.kind, Kind::Talk(_)) || self.places.iter().all(|place| place.known)
    }

    /// What it is beside that, if it is one of Centrifugo's protocol.
    pub(super) fn talker(&self) -> Option<&Talker> {
        match &self.kind {
            Kind::Talk(talker) => Some(talker),
            _ => None,
        }
    }

    /// The same, to change it.
    pub(super) fn talker_mut(&mut self) -> Option<&mut Talker> {
        match &mut self.kind {
            Kind::Talk(talker) => Some(talker),
            _ => None,
        }
    }

    /// A place that its channel has not come to is of a channel that was deleted since: from here on it is one of the new channel. Whether all
    /// of that is told first, as clients of Nchan expect where an identifier is not known.
    pub(super) fn leaves_deleted(&mut self, index: usize, page: &Page<'_>) -> bool {
        let begins_anew = self.nchan().is_some();
        let place = &mut self.places[index];
        if !place.known || place.at <= page.last {
            return false;
        }
        place.at = page.upto;
        begins_anew
    }

    /// The tag of a message of this number at one of its places.
    pub(super) fn tag(&self, index: usize, number: u64) -> String {
        let mut tag = String::new();
        write_tag(&mut tag, index, number, self.places.iter().map(|place| place.at));
        tag
    }

    /// What it is beside that, if it is one of Nchan's protocol.
    pub(super) fn nchan(&self) -> Option<&Subscriber> {
        match &self.kind {
            Kind::Nchan(own) => Some(own),
            _ => None,
        }
    }

    /// The place of a channel, if it waits for that.
    pub(super) fn place_of(&self, node: &str) -> Option<usize> {
        self.places.iter().position(|place| *place.node == *node)
    }

    /// Whether it is told of an item at one of its places. Of what is published below prefixes one who selects is told no more than it means and
    /// may read. What is not for everybody is in the feeds of all only: nobody stands there without a token, which is asked here, or a permit,
    /// which is for all below the prefix.
    pub(super) fn wants(&self, policy: &Channels, index: usize, item: &[u8]) -> bool {
        let Some(selectors) = self.kind.selectors().filter(|_| is_feed(&self.places[index].node)) else { return true };
        let Some((channel, _)) = event::of(item) else { return false };
        let granted = |grant: &Arc<Grant>| grant.covers(Act::Subscribe, &channel);
        selectors.cover(&channel) && (!policy.is_private(&channel) || self.grant.as_ref().is_none_or(granted))
    }

    /// How the client calls the channel of one of its places.
    pub(super) fn called(&self, index: usize) -> &str {
        let own = self.talker().and_then(|talker| talker.subs.get(index)?.name.as_deref());
        own.unwrap_or_else(|| channel_of(&self.places[index].node))
    }

    /// The nodes of its channels. Who waits for a prefix is no subscriber of any.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.places.iter().map(|place| &place.node).filter(|node| !is_feed(node))
    }

    /// As how many requests it counts for its address, unless it is one of Centrifugo's protocol. Who waits for a prefix is told, at the
    /// publishers' cost, of whatever is published below it.
    pub(super) fn weight(&self) -> usize {
        let channels = self.nodes().count().div_ceil(NOTIFY_CHANNELS_MAX);
        (channels + prefixes(&self.places).count() * NOTIFY_REQUESTS_PER_PREFIX).max(1)
    }

    /// What of it is counted, where that is told.
    pub(super) fn occupant(&self, conn: ConnId) -> Occupant<'_> {
        let permitted = self.permit.as_ref().and_then(|permit| permit.name.as_ref());
        let name = self.grant.as_ref().and_then(|grant| grant.subject()).or(permitted);
        Occupant { conn, network: self.network, name }
    }

    /// Where it stands in all channels: what it says to go on from there.
    pub(super) fn position(&self) -> String {
        self.position_with(usize::MAX, 0)
    }

    /// The same, if it stood here in one of them.
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

    /// The answer with the header fields of this one's.
    pub(super) fn dressed(&self, response: Response) -> Response {
        let mut response = response.with("Cache-Control", "no-store");
        // Pages of other origins are shown only what they are said to be shown (Fetch 3.3.3).
        if response.fields.iter().any(|(name, _)| *name == RETRY_AFTER) {
            response = response.with("Access-Control-Expose-Headers", RETRY_AFTER);
        }
        response.fields.extend(self.fields.all().iter().cloned());
        response
    }
}

//! A subscriber by Mercure: its events, and its topic selectors. Events are gathered before its
//! response begins, because the head of the response reports gaps.

use std::sync::Arc;

use super::event;
use super::place::{self, EARLIEST, Stand};
use super::selector::Selectors;
use crate::limits::NOTIFY_PAGE_BYTES_MAX;
use crate::web::dialect::places::{Place, Position, is_asking};
use crate::web::dialect::{Dialect, End, Head, Telling, Way};
use crate::web::feed_names::{FeedName, channel_of, is_feed, is_same_prefix};
use crate::web::status::Status;

/// A subscriber. The data is used to send the head of the response. Afterwards it is retained only
/// if there are selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber(Option<Box<First>>);

/// What a subscriber receives first, once all homes have answered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct First {
    /// The identifier of the update to resume after, if the client has sent one.
    id: Option<Box<str>>,
    /// The events gathered.
    out: Vec<u8>,
    /// The events have been sent; the value is retained for the selectors.
    begun: bool,
    /// The selectors that items below prefixes have to match.
    selectors: Arc<Selectors>,
}

impl Subscriber {
    /// A subscriber after this update, which is returned to it if nothing is missing, or to new
    /// items only. Below prefixes it receives those that match the selectors.
    pub fn behind(id: Option<Box<str>>, selectors: Selectors) -> Subscriber {
        Subscriber(Some(Box::new(First { id, out: Vec::new(), begun: false, selectors: Arc::new(selectors) })))
    }

    /// The items gathered before the response begins.
    fn first(&self) -> Option<&First> {
        self.0.as_deref().filter(|first| !first.begun)
    }
}

impl Dialect for Subscriber {
    fn way(&self) -> Way {
        Way::Events
    }

    fn has_begun(&self) -> bool {
        self.first().is_none()
    }

    fn occupies(&self) -> bool {
        false
    }

    fn selects(&self) -> bool {
        self.0.is_some()
    }

    fn covers(&self, channel: &str) -> bool {
        self.0.as_ref().is_none_or(|first| first.selectors.cover(channel))
    }

    fn is_gathering(&self) -> bool {
        self.first().is_some()
    }

    fn is_full(&self) -> bool {
        self.first().is_some_and(|first| first.out.len() >= NOTIFY_PAGE_BYTES_MAX as usize)
    }

    /// A gap invalidates the identifier of the update to resume after.
    fn gather(&mut self, told: &[u8], gap: bool) {
        let Some(first) = self.0.as_mut().filter(|first| !first.begun) else { return };
        first.out.extend_from_slice(told);
        if let Some(id) = first.id.as_mut().filter(|_| gap) {
            *id = EARLIEST.into();
        }
    }

    /// With the id of the update that it continues from, and the updates since.
    fn begin(&mut self, places: &[Place]) -> Option<Head> {
        let begins = |first: &&mut Box<First>| !first.begun && !is_asking(places);
        let first = self.0.as_mut().filter(begins)?;
        let (last, out) = (first.id.take(), std::mem::take(&mut first.out));
        first.begun = true;
        self.0.take_if(|first| first.selectors.is_empty());
        let mut fields = Vec::new();
        if let Some(id) = last {
            fields.push(("Last-Event-ID", id.into_string().into()));
            fields.push(("Access-Control-Expose-Headers", "Last-Event-ID".into()));
        }
        Some(Head::Events { content_type: "text/event-stream", fields, first: out })
    }

    /// Mercure has no such event, and some clients would take it for an update.
    fn gap(&self, telling: &mut Telling, _: Position<'_>) {
        telling.out.extend_from_slice(b": updates are missing here\n");
        telling.placeless = true;
    }

    fn item(&self, telling: &mut Telling, position: Position<'_>, item: &[u8]) {
        telling.placeless = false;
        let node = &position.place().node;
        let own = if is_feed(node) { event::of(item) } else { Some((channel_of(node).into(), position.number)) };
        // The home writes every item with both.
        let Some((channel, own)) = own else { return };
        event::write(&mut telling.out, &id(position, (&channel, own)), item);
    }

    /// The position after a gap is an id without data (HTML 9.2.6), if no event follows it. A feed
    /// recognizes an outdated position by itself.
    fn finish(&self, telling: &mut Telling, position: Position<'_>) {
        if !telling.placeless || is_feed(&position.place().node) {
            return;
        }
        let id = id(position, (channel_of(&position.place().node), position.number));
        telling.out.extend_from_slice(format!("id: {id}\n\n").as_bytes());
    }

    /// With an empty line after it, some clients take it for an update without content.
    fn beat(&self, out: &mut Vec<u8>, _: &[Place]) {
        out.extend_from_slice(b":\n");
    }

    fn end(&self, _: Status) -> Option<End> {
        self.has_begun().then(|| End::Events(Vec::new()))
    }

    fn memory_bytes(&self) -> usize {
        let bytes = |first: &First| {
            size_of::<First>() + first.id.as_ref().map_or(0, |id| id.len()) + first.selectors.memory_bytes()
        };
        self.0.as_deref().map_or(0, bytes)
    }
}

/// The identifier of an update at a channel, which encodes the subscriber's position in all
/// channels and feeds.
fn id(position: Position<'_>, (channel, own): (&str, u64)) -> String {
    let stand = |(at, (place, number)): (usize, (&'_ Place, u64))| match FeedName::read(&place.node) {
        None => Stand::Channel(channel_of(&position.places[at].node), number),
        Some(_) if at > 0 && is_same_prefix(&position.places[at - 1].node, &place.node) => Stand::Next(number),
        Some(feed) => Stand::Feed(channel_of(&position.places[at].node), feed.all, number),
    };
    // The update's own position is omitted, because its identifier already gives it.
    let is_other = |(at, (place, _)): &(usize, (&Place, u64))| *at != position.index || is_feed(&place.node);
    place::write((channel, own), position.numbers().enumerate().filter(is_other).map(stand))
}

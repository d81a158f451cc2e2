//! Requests of this shard's connections that wait for channels, as data: which channels, and the
//! position of each.
//!
//! A channel that requests wait for is *watched*. Its home sends each item to the shard once.
//! Requests at the head of the channel receive it from the few items that are held until all of
//! them have been served. Requests that are behind read from the home. A waiting request therefore
//! costs no more than its position.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::channels::addresses::Addresses;
use crate::channels::listener::{Fields, Kind, Listener};
use crate::channels::occupancy::occupants::Occupants;
use crate::channels::prefixes::Prefixes;
use crate::channels::watched::Watched;
use crate::channels::web_push::awake::Awake;
use crate::id::ConnId;
use crate::limits::{NOTIFY_CHANNELS_MAX, NOTIFY_EMPTY_MAX, NOTIFY_HELD_BYTES_MAX, NOTIFY_RENEW_S};
use crate::slots::Sparse;
use crate::web::dialect::Way;
use crate::web::dialect::centrifugo::talker;
use crate::web::dialect::places::Place;
use crate::web::feed_names::is_feed;
use crate::web::policy::Channels;

/// The waiting requests of a shard.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// By the slots of their connections.
    all: Sparse<Listener>,
    /// Header fields of the latest response that had any.
    fields: Fields,
    /// How many of these wait by each [`Way`].
    ways: [usize; 3],
    watched: BTreeMap<Arc<str>, Watched>,
    /// Channels with deliveries left; each is queued once, so at most as many as are watched.
    walks: VecDeque<Arc<str>>,
    /// Usage and limits per address.
    pub(super) addresses: Addresses,
    /// Prefixes that requests wait for.
    pub(super) prefixes: Prefixes,
    /// Subscribers of the channels that report them.
    pub(super) occupants: Occupants,
    /// Connections of pages that have registered for push messages.
    pub(super) awake: Awake,
    numbers: u32,
    /// The number of feed positions of all requests.
    feeds: usize,
    /// Connections whose clients send commands, and the number of their channels.
    commanded: (usize, usize),
    /// Bytes of held requests.
    held_bytes: usize,
    /// Deliveries are left for the next turn.
    pub(super) going: bool,
    renewed_ms: u64,
    renewed: Option<Arc<str>>,
    /// Channels to renew per second in the current round.
    share: usize,
    /// Homes are notified promptly when fewer requests wait for a channel; for feeds always.
    pub(super) tells_left: bool,
    /// Channels whose homes have not been notified yet.
    left: BTreeSet<Arc<str>>,
}

fn find(all: &Sparse<Listener>, id: ConnId) -> Option<&Listener> {
    all.get(id.slot).filter(|listener| listener.generation == id.generation)
}

fn find_mut(all: &mut Sparse<Listener>, id: ConnId) -> Option<&mut Listener> {
    all.get_mut(id.slot).filter(|listener| listener.generation == id.generation)
}

impl Listeners {
    /// Whether any request waits.
    pub(super) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// How many requests wait for items.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many of these use one kind of delivery.
    pub(super) fn by_way(&self, way: Way) -> usize {
        self.ways[way as usize]
    }

    /// Bytes of held requests.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Whether another `bytes` of an address may be held.
    pub(super) fn may_hold(&self, network: IpAddr, bytes: usize) -> bool {
        self.held_bytes + bytes <= NOTIFY_HELD_BYTES_MAX && self.addresses.may_hold(network, bytes)
    }

    /// Memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let watched = self.watched.len() * (size_of::<Watched>() + 64);
        let watches = 3 * size_of::<ConnId>();
        let place = size_of::<Place>() + watches;
        let (conns, channels) = self.commanded;
        let commanded = talker::memory_bytes(conns, channels) + channels * place;
        let places =
            self.all.len() * watches + self.feeds * place + commanded + self.prefixes.memory_bytes() + self.held_bytes;
        self.all.memory_bytes() + places + watched + self.addresses.memory_bytes()
    }

    /// A number that no recent question has used.
    pub(super) fn number(&mut self) -> u32 {
        self.numbers = self.numbers.wrapping_add(1);
        self.numbers
    }

    /// Creates the header fields of a response.
    pub(super) fn fields(&mut self, fields: Vec<(&'static str, Cow<'static, str>)>) -> Fields {
        let fields = Fields::of(fields, &self.fields);
        if fields != Fields::default() {
            self.fields = fields.clone();
        }
        fields
    }

    /// Prefetches the state of these requests, see [`Sparse::fetch`]: both ends of each.
    pub(super) fn fetch(&self, ids: &[ConnId]) {
        let read = |listener: &Listener| {
            listener.until_s ^ listener.places.first().map_or(0, |place| place.follower.at as u32)
        };
        self.all.fetch(ids.iter().map(|id| id.slot), read);
    }

    /// The request of a connection.
    pub(super) fn get(&self, id: ConnId) -> Option<&Listener> {
        find(&self.all, id)
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Listener> {
        find_mut(&mut self.all, id)
    }

    /// A request, and the watched channel of one of its positions.
    pub(super) fn with_watched(&mut self, id: ConnId, index: usize) -> Option<(&mut Listener, &mut Watched)> {
        let listener = find_mut(&mut self.all, id)?;
        let watched = self.watched.get_mut(&listener.places[index].node)?;
        Some((listener, watched))
    }

    /// A watched channel.
    pub(super) fn watched(&self, node: &str) -> Option<&Watched> {
        self.watched.get(node)
    }

    /// The name of a node, shared with the requests that wait for it if there are any.
    pub(super) fn name(&self, node: &str) -> Arc<str> {
        self.watched.get_key_value(node).map_or_else(|| node.into(), |(name, _)| name.clone())
    }

    /// Adds a waiting request.
    pub(super) fn begin(&mut self, id: ConnId, mut listener: Listener) {
        listener.generation = id.generation;
        (0..listener.weight()).for_each(|_| self.addresses.waits(listener.network));
        self.prefixes.begin(listener.network, &listener.places);
        self.feeds += listener.places.len() - listener.nodes().count();
        if let Kind::Held(held) = &listener.kind {
            self.held_bytes += held.bytes;
            self.addresses.holds(listener.network, held.bytes);
        }
        self.commanded.0 += usize::from(listener.has_commands());
        if let Some(way) = listener.way() {
            self.ways[way as usize] += 1;
            for place in listener.places.iter() {
                self.watched.entry(place.node.clone()).or_default().listeners.insert(id);
            }
        }
        let before = self.all.insert(id.slot, listener);
        debug_assert!(before.is_none() && id.has_socket(), "a request waits alone on its connection");
    }

    /// Counts a waiting request as a subscriber of the channels that report theirs.
    pub(super) fn occupy(&mut self, id: ConnId, policy: &Channels) {
        let Some(listener) = find_mut(&mut self.all, id) else { return };
        listener.occupies = true;
        let who = listener.occupant(id);
        self.occupants.arrive_at(listener.nodes(), policy, (who, listener.hears), &mut self.addresses);
    }

    /// Adds a channel that a command names. The client is notified about the other subscribers if it
    /// `hears`.
    pub(super) fn join(&mut self, id: ConnId, place: Place, hears: bool, policy: &Channels) {
        let Some(listener) = find_mut(&mut self.all, id) else { return };
        let node = place.node.clone();
        self.commanded.1 += 1;
        self.watched.entry(node.clone()).or_default().listeners.insert(id);
        let mut places = Vec::from(std::mem::take(&mut listener.places));
        places.push(place);
        listener.places = places.into();
        if listener.places.len().is_multiple_of(NOTIFY_CHANNELS_MAX) {
            self.addresses.waits(listener.network);
        }
        let (who, node) = (listener.occupant(id), std::iter::once(&node));
        self.occupants.arrive_at(node, policy, (who, hears), &mut self.addresses);
    }

    /// Removes a channel of a connection with commands. The last one takes its index.
    pub(super) fn part(&mut self, id: ConnId, index: usize) {
        let Some(listener) = find_mut(&mut self.all, id).filter(|listener| index < listener.places.len()) else {
            return;
        };
        let node = listener.places[index].node.clone();
        self.occupants.leave_all(std::iter::once(&node), listener.occupant(id), 0, &mut self.addresses);
        if listener.places.len().is_multiple_of(NOTIFY_CHANNELS_MAX) {
            self.addresses.waits_no_more(listener.network);
        }
        self.commanded.1 -= 1;
        let mut places = Vec::from(std::mem::take(&mut listener.places));
        places.swap_remove(index);
        listener.places = places.into();
        self.unwatch(id, &node);
    }

    /// Removes a request from a watched channel, and the channel if it was the last one.
    fn unwatch(&mut self, id: ConnId, node: &str) {
        let Some(watched) = self.watched.get_mut(node) else { return };
        watched.listeners.remove(&id);
        let is_empty = watched.listeners.is_empty();
        if (self.tells_left || is_feed(node)) && self.left.len() < NOTIFY_EMPTY_MAX {
            self.left.insert(self.name(node));
        }
        if is_empty {
            self.watched.remove(node);
        }
    }

    /// Drains the channels that lost waiting requests, with the last number known and the number of
    /// requests left.
    fn fewer(&mut self) -> Vec<(Arc<str>, u64, u32)> {
        let left = std::mem::take(&mut self.left).into_iter();
        let now = |node: &Arc<str>| self.watched.get(node).map_or((0, 0), |watched| (watched.heard(), watched.len()));
        left.map(|node| (now(&node), node)).map(|((heard, waiting), node)| (node, heard, waiting)).collect()
    }

    /// Ends an answered long poll. Its client is expected to poll again, if at most `away_max` of
    /// its address are expected.
    pub(super) fn end_expected(&mut self, id: ConnId, away_max: u32) -> Option<Listener> {
        let listener = self.take(id)?;
        if listener.occupies {
            self.occupants.leave_all(listener.nodes(), listener.occupant(id), away_max, &mut self.addresses);
        }
        Some(listener)
    }

    /// Ends a request whose client is not expected again.
    pub(super) fn end(&mut self, id: ConnId) -> Option<Listener> {
        self.end_expected(id, 0)
    }

    fn take(&mut self, id: ConnId) -> Option<Listener> {
        find(&self.all, id)?;
        let listener = self.all.remove(id.slot)?;
        if let Kind::Held(held) = &listener.kind {
            self.held_bytes -= held.bytes;
            self.addresses.holds_no_more(listener.network, held.bytes);
        }
        if listener.has_commands() {
            self.commanded = (self.commanded.0 - 1, self.commanded.1 - listener.places.len());
        }
        (0..listener.weight()).for_each(|_| self.addresses.waits_no_more(listener.network));
        self.prefixes.end(listener.network, &listener.places);
        self.feeds -= listener.places.len() - listener.nodes().count();
        if let Some(way) = listener.way() {
            self.ways[way as usize] -= 1;
        }
        listener.places.iter().for_each(|place| self.unwatch(id, &place.node));
        self.awake.end(id, listener.nodes());
        Some(listener)
    }

    /// Records an item of a channel. Returns `None` if no request waits for the channel, otherwise
    /// whether the item is new.
    pub(super) fn hear(&mut self, node: &str, number: u64, item: (&str, &[u8])) -> Option<bool> {
        let name = self.name(node);
        let watched = self.watched.get_mut(node)?;
        let news = watched.hear(number, item);
        if news {
            match watched.telling {
                Some(_) => watched.again = true,
                None => {
                    watched.telling = Some(None);
                    self.walks.push_back(name);
                }
            }
        }
        Some(news)
    }

    /// The next batch of at most `most` requests to serve, and their channel.
    pub(super) fn next(&mut self, most: usize) -> Option<(Arc<str>, Vec<ConnId>)> {
        loop {
            let node = self.walks.pop_front()?;
            let Some(watched) = self.watched.get_mut(&node) else { continue };
            let Some(last) = watched.telling else { continue };
            let batch = watched.next_behind(last, most);
            watched.telling = Some(batch.last().copied().or(last));
            return Some((node, batch));
        }
    }

    /// Records that a batch has been served. After the last one (`all`), the held items are
    /// dropped.
    pub(super) fn told(&mut self, node: Arc<str>, all: bool) {
        let Some(watched) = self.watched.get_mut(&node) else { return };
        if all && !std::mem::take(&mut watched.again) {
            watched.telling = None;
            return watched.forget_recent();
        }
        if all {
            watched.telling = Some(None);
        }
        self.walks.push_back(node);
    }

    /// Whether deliveries are left.
    pub(super) fn is_telling(&self) -> bool {
        !self.walks.is_empty()
    }

    /// The channels whose watches are due for renewal, with the last number known and the number of
    /// waiting requests.
    pub(super) fn renewals(&mut self, now_ms: u64) -> Vec<(Arc<str>, u64, u32)> {
        if now_ms < self.renewed_ms + 1_000 {
            return Vec::new();
        }
        self.renewed_ms = now_ms;
        let share = self.watched.len().div_ceil(NOTIFY_RENEW_S as usize).max(self.share);
        let from = self.renewed.take().map_or(Unbounded, Excluded);
        let due = self.watched.range::<Arc<str>, _>((from, Unbounded)).take(share);
        let mut due: Vec<_> = due.map(|(node, watched)| (node.clone(), watched.heard(), watched.len())).collect();
        self.renewed = due.last().filter(|_| due.len() == share).map(|(node, ..)| node.clone());
        // Removals do not prolong the round.
        self.share = if self.renewed.is_some() { share } else { 0 };
        due.extend(self.fewer());
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::Follower;
    use crate::web::dialect::places::Places;
    use crate::web::dialect::plain::Subscriber;

    fn conn(slot: u32) -> ConnId {
        ConnId { slot, generation: 1 }
    }

    fn listener(node: &str, kind: Kind) -> Listener {
        let place = Place { node: node.into(), follower: Follower::at_head(0) };
        Listener { places: Places::One(place), ..Listener::new(kind, [192, 0, 2, 1].into(), 0, 0) }
    }

    #[test]
    fn all_are_told_in_shares_also_when_more_comes_meanwhile() {
        let mut all = Listeners::default();
        (0..5).for_each(|slot| all.begin(conn(slot), listener("a", Kind::Items(Subscriber::Events(true).into()))));
        assert_eq!(all.hear("b", 1, ("", b"x")), None, "nobody waits for it");
        assert_eq!(all.hear("a", 1, ("", b"x")), Some(true));
        let (node, batch) = all.next(3).unwrap();
        assert_eq!(batch, [conn(0), conn(1), conn(2)]);
        all.told(node, false);
        assert_eq!(all.hear("a", 2, ("", b"x")), Some(true));
        let (node, batch) = all.next(3).unwrap();
        assert_eq!(batch, [conn(3), conn(4)]);
        all.told(node, true);
        assert!(all.is_telling(), "the first three have not got the second");
        let (node, batch) = all.next(9).unwrap();
        assert_eq!(batch.len(), 5);
        all.told(node, true);
        assert!(!all.is_telling() && all.watched("a").unwrap().behind(1, false).is_none(), "nothing is held");
        (0..5).for_each(|slot| drop(all.end(conn(slot))));
        assert!(all.watched.is_empty() && all.addresses.is_empty() && !all.any());
    }

    #[test]
    fn every_channel_is_renewed_in_time() {
        let mut all = Listeners::default();
        for slot in 0..100 {
            all.begin(conn(slot), listener(&slot.to_string(), Kind::Items(Subscriber::Events(true).into())));
        }
        let mut renewed = BTreeSet::new();
        for second in 1..=u64::from(NOTIFY_RENEW_S) {
            let due = all.renewals(second * 1_000);
            assert!(due.len() <= 4 && all.renewals(second * 1_000 + 1).is_empty());
            renewed.extend(due.into_iter().map(|(node, ..)| node));
        }
        assert_eq!(renewed.len(), 100);
    }
}

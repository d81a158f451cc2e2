//! This shard's subscribers of channels that report them, as data. It tracks which home is due for
//! a report; which subscribers are due for a notification of the total over all shards; and which
//! clients have just been answered a long poll and count until they have had time to poll again.
//!
//! A channel has a single time at which something is due. Arrivals before that time are only
//! counted: a crowd that arrives at once costs one letter to the home, and one message to each
//! notified subscriber.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::channels::addresses::Addresses;
use crate::channels::occupancy::crowd::{Crowd, Said, differing, write_names};
use crate::id::ConnId;
use crate::kernel::Fixed;
use crate::limits::{
    NOTIFY_AWAY_MAX, NOTIFY_AWAY_MS, NOTIFY_EMPTY_MAX, NOTIFY_RENEW_S, NOTIFY_WHO_AT_ONCE, NOTIFY_WHO_MS,
    NOTIFY_WHO_TOLD_PER_S,
};
use crate::web::feed_names::channel_of;
use crate::web::policy::Channels;

/// The properties of a subscriber that are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupant<'a> {
    pub(crate) conn: ConnId,
    /// Its network.
    pub(crate) network: IpAddr,
    /// The name in its token.
    pub(crate) name: Option<&'a Arc<str>>,
}

/// A client that was answered a long poll. It is recognized by these properties when it polls
/// again, on whichever connection.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Away {
    node: Arc<str>,
    network: IpAddr,
    name: Option<Arc<str>>,
}

/// A report to the home of a channel.
#[derive(Debug)]
pub(crate) struct Report {
    /// The number of local subscribers.
    pub(crate) subscribers: u32,
    /// Names with their numbers, encoded for a letter.
    pub(crate) names: Vec<u8>,
    /// The names are all local names, not only those whose number has changed.
    pub(crate) whole: bool,
    /// Some names are not in the list.
    pub(crate) more: bool,
    /// Some local subscribers are notified about the others.
    pub(crate) listens: bool,
}

/// A round of notifications to the subscribers of a channel.
#[derive(Debug)]
pub(super) struct Walk {
    /// Subscribers up to this one have been visited.
    last: Option<ConnId>,
    /// The changes, for subscribers that know the previous state.
    pub(crate) change: Arc<[u8]>,
    /// The complete state, for the others.
    pub(crate) state: Arc<[u8]>,
}

/// The subscribers of a channel at all shards, as reported by its home.
#[derive(Debug, Default)]
struct View {
    now: Crowd,
    /// The state that the latest round sends.
    told: Crowd,
    /// The number of the latest round; the first is 1.
    number: u32,
    /// When the next round may begin, in milliseconds (monotonic).
    next_ms: u64,
    changed: bool,
    walk: Option<Walk>,
}

/// A channel with local subscribers.
#[derive(Debug)]
struct Occupied {
    /// Subscribers are listed by the names in their tokens, because the channel is private.
    names: bool,
    own: Crowd,
    /// Connections whose names are not listed for lack of room.
    unlisted: u32,
    /// The state that was last reported to the home.
    reported: Crowd,
    changed: bool,
    /// When the next report may be sent, in milliseconds (monotonic).
    next_ms: u64,
    /// When the next complete report is due, in milliseconds (monotonic).
    whole_ms: u64,
    /// The subscribers to notify, with the number of the last round that each has received; 0 for
    /// none.
    hears: BTreeMap<ConnId, u32>,
    view: Option<Box<View>>,
    /// The time under which the channel is in the queue of due channels.
    due_ms: u64,
}

impl Occupied {
    fn is_due_ms(&self) -> u64 {
        let report = if self.changed { self.next_ms } else { self.whole_ms.max(self.next_ms) };
        let view = self.view.as_ref().filter(|view| view.changed && view.walk.is_none());
        view.map_or(report, |view| view.next_ms.min(report))
    }

    fn comes(&mut self, name: Option<&Arc<str>>) {
        self.unlisted += u32::from(!self.own.comes(name.filter(|_| self.names)));
        self.own.more = self.unlisted > 0;
        self.changed = true;
    }

    fn goes(&mut self, name: Option<&Arc<str>>) {
        let listed = self.own.goes(name.filter(|_| self.names));
        self.unlisted = self.unlisted.saturating_sub(u32::from(!listed));
        self.own.more = self.unlisted > 0;
        self.changed = true;
    }

    /// Returns the report to send to the home now, and whether it is the last one.
    fn report(&mut self, now_ms: u64) -> (Option<Report>, bool) {
        let whole = now_ms >= self.whole_ms;
        if now_ms < self.next_ms || !(whole || self.changed) {
            return (None, false);
        }
        let is_over = whole && self.own.subscribers == 0 && self.reported.subscribers == 0;
        let mut names = Vec::new();
        match whole {
            true => write_names(&mut names, self.own.names.iter().map(|(name, count)| (&**name, *count))),
            false => write_names(&mut names, differing(&self.own.names, &self.reported.names)),
        }
        let known = self.next_ms > 0;
        (self.changed, self.next_ms) = (false, now_ms + NOTIFY_WHO_MS);
        if whole {
            self.whole_ms = now_ms + u64::from(NOTIFY_RENEW_S) * 1_000;
        }
        self.reported.clone_from(&self.own);
        let Crowd { subscribers, more, .. } = self.own;
        let report = Report { subscribers, names, whole, more, listens: !self.hears.is_empty() };
        (Some(report).filter(|_| known || !is_over), is_over)
    }

    /// Begins the next round of notifications if the state has changed and the time has come.
    fn begin_walk(&mut self, now_ms: u64, channel: &str) -> bool {
        let Some(view) = self.view.as_mut().filter(|view| view.changed && view.walk.is_none()) else { return false };
        if now_ms < view.next_ms {
            return false;
        }
        let change = view.now.change(&view.told, channel).into();
        view.walk = Some(Walk { last: None, change, state: view.now.state(channel).into() });
        view.told.clone_from(&view.now);
        // Larger crowds are notified less often, however many changes there are.
        let each_ms = self.hears.len() as u64 * 1_000 / NOTIFY_WHO_TOLD_PER_S;
        (view.changed, view.next_ms) = (false, now_ms + each_ms.max(NOTIFY_WHO_MS));
        view.number += 1;
        true
    }
}

/// The next batch of a round.
#[derive(Debug)]
pub(crate) struct Told {
    /// The channel's node.
    pub(crate) node: Arc<str>,
    /// The subscribers, and whether each knows the previous state.
    pub(crate) batch: Vec<(ConnId, bool)>,
    /// See [`Walk`].
    pub(crate) change: Arc<[u8]>,
    /// See [`Walk`].
    pub(crate) state: Arc<[u8]>,
}

/// The channels of a shard that report their subscribers.
#[derive(Debug, Default)]
pub(crate) struct Occupants {
    channels: BTreeMap<Arc<str>, Occupied>,
    due: BTreeSet<(u64, Arc<str>)>,
    /// Clients that were answered recently, and those that were answered in the interval before.
    young: HashMap<Away, u32, Fixed>,
    old: HashMap<Away, u32, Fixed>,
    /// Clients that did not return, until all of them have been counted out.
    gone: Vec<(Away, u32)>,
    turned_ms: u64,
    /// Channels with notifications left: at most one round of each per second.
    walks: VecDeque<Arc<str>>,
}

impl Occupants {
    /// Memory used, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let away = (self.young.capacity() + self.old.capacity() + self.gone.capacity()) * size_of::<(Away, u32)>();
        self.channels.len() * (size_of::<Occupied>() + 128) + away
    }

    /// Whether no channel is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    fn change(&mut self, node: &str, change: impl FnOnce(&mut Occupied)) {
        let Some(node) = self.channels.get_key_value(node).map(|(node, _)| node.clone()) else { return };
        let Some(channel) = self.channels.get_mut(&node) else { return };
        change(channel);
        let due_ms = channel.is_due_ms();
        if due_ms != channel.due_ms {
            self.due.remove(&(channel.due_ms, node.clone()));
            channel.due_ms = due_ms;
            self.due.insert((due_ms, node));
        }
    }

    /// Adds a request as a subscriber of those of its channels that report their subscribers, and
    /// optionally subscribes it to notifications.
    pub(crate) fn arrive_at<'a>(
        &mut self,
        nodes: impl Iterator<Item = &'a Arc<str>>,
        policy: &Channels,
        (who, hears): (Occupant<'_>, bool),
        addresses: &mut Addresses,
    ) {
        for node in nodes.filter(|node| policy.tells(channel_of(node))) {
            if self.arrive(node, policy.is_private(channel_of(node)), who, hears) {
                addresses.came_back(who.network, 1);
            }
        }
    }

    /// Removes an ended request. Its client still counts until it has had time to poll again, if at
    /// most `away_max` of its address do so.
    pub(crate) fn leave_all<'a>(
        &mut self,
        nodes: impl Iterator<Item = &'a Arc<str>>,
        who: Occupant<'_>,
        away_max: u32,
        addresses: &mut Addresses,
    ) {
        for node in nodes {
            if !self.channels.contains_key(node) || !addresses.may_go_away(who.network, away_max) {
                self.leave(node, who);
            } else if self.stay(node, who) {
                addresses.went_away(who.network);
            }
        }
    }

    /// Adds a subscriber to a channel. Returns whether it has returned in time and was still
    /// counted.
    fn arrive(&mut self, node: &Arc<str>, names: bool, who: Occupant<'_>, hears: bool) -> bool {
        if !self.channels.contains_key(node) {
            let channel = Occupied {
                names,
                own: Crowd::default(),
                unlisted: 0,
                reported: Crowd::default(),
                changed: false,
                next_ms: 0,
                whole_ms: 0,
                hears: BTreeMap::new(),
                view: None,
                due_ms: 0,
            };
            self.channels.insert(node.clone(), channel);
            self.due.insert((0, node.clone()));
        }
        let is_back = self.is_back(node, who);
        self.change(node, |channel| {
            if !is_back {
                channel.comes(who.name);
            }
            if hears {
                if channel.hears.is_empty() {
                    // A complete report makes the home send the state, and tells it that there are
                    // subscribers to notify.
                    channel.whole_ms = 0;
                }
                channel.hears.insert(who.conn, 0);
            }
        });
        is_back
    }

    fn is_back(&mut self, node: &Arc<str>, who: Occupant<'_>) -> bool {
        if self.young.is_empty() && self.old.is_empty() {
            return false;
        }
        let away = Away { node: node.clone(), network: who.network, name: who.name.cloned() };
        // The most recent one first: clients that do not return then keep their own deadlines.
        for all in [&mut self.young, &mut self.old] {
            let Some(count) = all.get_mut(&away) else { continue };
            *count -= 1;
            if *count == 0 {
                all.remove(&away);
            }
            return true;
        }
        false
    }

    fn leave(&mut self, node: &str, who: Occupant<'_>) {
        self.change(node, |channel| {
            channel.goes(who.name);
            channel.hear_no_more(who.conn);
        });
    }

    /// Counts an answered client until it has had time to poll again. Without room for it, it is
    /// removed, and `false` is returned.
    fn stay(&mut self, node: &Arc<str>, who: Occupant<'_>) -> bool {
        if self.young.len() + self.old.len() + self.gone.len() >= NOTIFY_AWAY_MAX {
            self.leave(node, who);
            return false;
        }
        let away = Away { node: node.clone(), network: who.network, name: who.name.cloned() };
        *self.young.entry(away).or_default() += 1;
        true
    }

    /// Runs this turn's share of removing clients that did not return. Returns the network of each,
    /// and how often it was counted.
    pub(super) fn count_out(&mut self, now_ms: u64) -> Vec<(IpAddr, u32)> {
        if self.gone.is_empty() && now_ms >= self.turned_ms + NOTIFY_AWAY_MS {
            self.turned_ms = now_ms;
            let young = std::mem::take(&mut self.young);
            self.gone = std::mem::replace(&mut self.old, young).into_iter().collect();
        }
        let mut out = Vec::new();
        for _ in 0..self.gone.len().min(NOTIFY_WHO_AT_ONCE) {
            let Some((away, count)) = self.gone.pop() else { break };
            self.change(&away.node, |channel| (0..count).for_each(|_| channel.goes(away.name.as_ref())));
            out.push((away.network, count));
        }
        out
    }

    /// Returns a channel that is due, with the report for its home. Begins a round of notifications
    /// if one is due.
    pub(crate) fn next_due(&mut self, now_ms: u64) -> Option<(Arc<str>, Option<Report>)> {
        let due_ms = self.due.first()?.0;
        if due_ms > now_ms {
            return None;
        }
        let (_, node) = self.due.pop_first()?;
        let are_many = self.channels.len() > NOTIFY_EMPTY_MAX;
        let channel = self.channels.get_mut(&node)?;
        let (report, is_over) = channel.report(now_ms);
        // For a channel without subscribers the home is notified twice, unless there are too many
        // of these.
        let is_empty = channel.own.subscribers == 0 && !channel.changed;
        if is_over || (is_empty && are_many) {
            self.channels.remove(&node);
            return Some((node, report));
        }
        if channel.begin_walk(now_ms, channel_of(&node)) {
            self.walks.push_back(node.clone());
        }
        channel.due_ms = channel.is_due_ms();
        self.due.insert((channel.due_ms, node.clone()));
        Some((node, report))
    }

    /// Records the subscribers of a channel as reported by its home.
    pub(crate) fn take(&mut self, node: &str, said: Said<'_>) {
        self.change(node, |channel| {
            // There may be no subscribers left to notify.
            if channel.hears.is_empty() {
                return;
            }
            let view = channel.view.get_or_insert_default();
            view.now.take(said, true);
            view.changed = view.number == 0 || view.now != view.told;
        });
    }

    /// The next batch of at most `most` subscribers to notify.
    pub(super) fn next_told(&mut self, most: usize) -> Option<Told> {
        loop {
            let node = self.walks.pop_front()?;
            let Some(channel) = self.channels.get_mut(&node) else { continue };
            let Some(view) = &mut channel.view else { continue };
            let number = view.number;
            let Some(walk) = &mut view.walk else { continue };
            let from = walk.last.map_or(Unbounded, Excluded);
            let batch: Vec<_> = channel.hears.range((from, Unbounded)).take(most).map(|(id, at)| (*id, *at)).collect();
            let (change, state) = (walk.change.clone(), walk.state.clone());
            walk.last = batch.last().map(|(id, _)| *id).or(walk.last);
            let is_over = batch.len() < most;
            let told = batch.into_iter().filter(|(_, at)| *at != number);
            let batch = told.map(|(id, at)| (id, at > 0 && at + 1 == number)).collect();
            match is_over {
                true => self.change(&node, |channel| channel.end_walk()),
                false => self.walks.push_back(node.clone()),
            }
            return Some(Told { node, batch, change, state });
        }
    }

    /// Whether notifications are left.
    pub(crate) fn is_telling(&self) -> bool {
        !self.walks.is_empty()
    }

    /// Records that a subscriber has received the latest round.
    pub(super) fn was_told(&mut self, node: &str, id: ConnId) {
        let Some(channel) = self.channels.get_mut(node) else { return };
        let number = channel.view.as_ref().map_or(0, |view| view.number);
        if let Some(heard) = channel.hears.get_mut(&id) {
            *heard = number;
        }
    }

    /// The complete state, for a subscriber that has not received the latest round.
    pub(crate) fn missed(&self, node: &str, id: ConnId) -> Option<Vec<u8>> {
        let channel = self.channels.get(node)?;
        let (heard, view) = (*channel.hears.get(&id)?, channel.view.as_ref()?);
        // The round in progress may still reach the subscriber.
        let is_ahead = view.walk.as_ref().is_some_and(|walk| walk.last.is_none_or(|last| id > last));
        (heard != view.number && !is_ahead).then(|| view.told.state(channel_of(node)))
    }
}

impl Occupied {
    /// Unsubscribes a connection from notifications.
    fn hear_no_more(&mut self, id: ConnId) {
        if self.hears.remove(&id).is_some() && self.hears.is_empty() {
            self.view = None;
        }
    }

    fn end_walk(&mut self) {
        if let Some(view) = &mut self.view {
            view.walk = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(slot: u32) -> Occupant<'static> {
        Occupant { conn: ConnId { slot, generation: 1 }, network: [192, 0, 2, 1].into(), name: None }
    }

    /// The reports that are due at a time.
    fn reports(all: &mut Occupants, now_ms: u64) -> Vec<Report> {
        std::iter::from_fn(|| all.next_due(now_ms)).filter_map(|(_, report)| report).collect()
    }

    fn tell(all: &mut Occupants) -> usize {
        let mut told = 0;
        while let Some(batch) = all.next_told(1_000) {
            told += batch.batch.len();
            batch.batch.iter().for_each(|(id, _)| all.was_told("s/a", *id));
        }
        told
    }

    #[test]
    fn an_end_is_reported_twice_and_nothing_is_left() {
        let (mut all, node) = (Occupants::default(), Arc::from("s/a"));
        all.arrive(&node, false, who(1), false);
        let first = reports(&mut all, 1_000);
        assert!(first.len() == 1 && first[0].whole && first[0].subscribers == 1);
        all.leave(&node, who(1));
        assert!(reports(&mut all, 1_999).is_empty(), "no more than one in a second");
        let gone = reports(&mut all, 2_000);
        assert!(gone.len() == 1 && !gone[0].whole && gone[0].subscribers == 0);
        assert!(reports(&mut all, 30_999).is_empty() && !all.is_empty());
        let again = reports(&mut all, 31_000);
        assert!(again.len() == 1 && again[0].whole && again[0].subscribers == 0);
        assert!(all.is_empty() && all.due.is_empty());
        // A subscriber that leaves before it was reported is not reported at all.
        all.arrive(&node, false, who(1), true);
        all.leave(&node, who(1));
        assert!(reports(&mut all, 40_000).is_empty() && all.is_empty() && all.due.is_empty());
    }

    #[test]
    fn a_crowd_is_told_more_rarely() {
        let (mut all, node) = (Occupants::default(), Arc::from("s/a"));
        let crowd = 2 * NOTIFY_WHO_TOLD_PER_S as u32;
        for slot in 0..crowd {
            all.arrive(&node, false, who(slot), true);
        }
        assert_eq!(reports(&mut all, 1_000)[0].subscribers, crowd);
        let mut told = Vec::new();
        for now_ms in (1_000..10_000).step_by(250) {
            all.take(&node, Said { subscribers: now_ms as u32, names: b"", more: false });
            reports(&mut all, now_ms);
            let count = tell(&mut all);
            told.extend((count > 0).then_some((now_ms, count)));
        }
        let each: Vec<_> = (1_000..10_000).step_by(2_000).map(|now_ms| (now_ms, crowd as usize)).collect();
        assert_eq!(told, each);
    }
}

//! Who waits at this shard for channels that tell who subscribes to them, as data: which home is to be told of it and when, who is told by
//! which home what it is at all shards, and who has just been answered a long poll, and counts until it has had time to ask again.
//!
//! A channel has one time at which something is due. What comes before that costs nothing but to be counted: a crowd that comes at once is one
//! letter, and one message to each who is told.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use hashbrown::HashMap;

use crate::channels::addresses::Addresses;
use crate::channels::occupancy::crowd::{Crowd, Said, channel_of, differing, write_names};
use crate::id::ConnId;
use crate::kernel::Fixed;
use crate::limits::{
    NOTIFY_AWAY_MAX, NOTIFY_AWAY_MS, NOTIFY_EMPTY_MAX, NOTIFY_RENEW_S, NOTIFY_WHO_AT_ONCE, NOTIFY_WHO_MS,
    NOTIFY_WHO_TOLD_PER_S,
};
use crate::web::policy::Channels;

/// Who waits, for what is counted of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occupant<'a> {
    /// Its connection.
    pub(crate) conn: ConnId,
    /// Where it is from.
    pub(crate) network: IpAddr,
    /// The name in its token.
    pub(crate) name: Option<&'a Arc<str>>,
}

/// Who has been answered: by that it is known when it asks again, on whichever connection.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Away {
    node: Arc<str>,
    network: IpAddr,
    name: Option<Arc<str>>,
}

/// What the home of a channel is told.
#[derive(Debug)]
pub(crate) struct Report {
    /// How many are here.
    pub(crate) subscribers: u32,
    /// Names, for a letter.
    pub(crate) names: Vec<u8>,
    /// These are all that are here, and not just those that have changed.
    pub(crate) whole: bool,
    /// There are more names.
    pub(crate) more: bool,
    /// Some here are told who subscribes.
    pub(crate) listens: bool,
}

/// One telling of all who are told.
#[derive(Debug)]
pub(super) struct Walk {
    /// Those up to this one have been told.
    last: Option<ConnId>,
    /// What has changed, for who knows how it was.
    pub(crate) change: Arc<[u8]>,
    /// All of it, for others.
    pub(crate) state: Arc<[u8]>,
}

/// Who subscribes to a channel at all shards, by its home.
#[derive(Debug, Default)]
struct View {
    now: Crowd,
    /// By the last telling.
    told: Crowd,
    /// The number of that: the first is 1.
    number: u32,
    /// When there may be another one, milliseconds (monotonic).
    next_ms: u64,
    changed: bool,
    walk: Option<Walk>,
}

/// A channel for which somebody waits here.
#[derive(Debug)]
struct Occupied {
    /// Those with tokens are named: the channel is not open to everybody.
    names: bool,
    own: Crowd,
    /// Connections whose names found no room.
    unlisted: u32,
    /// What the home was told last.
    reported: Crowd,
    changed: bool,
    /// When it may be told again.
    next_ms: u64,
    /// When it is told everything again.
    whole_ms: u64,
    /// Those who are told who subscribes, with the number of the telling that they have heard last; 0 for none.
    hears: BTreeMap<ConnId, u32>,
    view: Option<Box<View>>,
    /// Where it is among what is due.
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

    /// What the home is to be told now, and whether that is all that there will be.
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

    /// The next telling begins, if there is something to be told.
    fn begin_walk(&mut self, now_ms: u64, channel: &str) -> bool {
        let Some(view) = self.view.as_mut().filter(|view| view.changed && view.walk.is_none()) else { return false };
        if now_ms < view.next_ms {
            return false;
        }
        let change = view.now.change(&view.told, channel).into();
        view.walk = Some(Walk { last: None, change, state: view.now.state(channel).into() });
        view.told.clone_from(&view.now);
        // A crowd is told more rarely, whoever comes and goes.
        let each_ms = self.hears.len() as u64 * 1_000 / NOTIFY_WHO_TOLD_PER_S;
        (view.changed, view.next_ms) = (false, now_ms + each_ms.max(NOTIFY_WHO_MS));
        view.number += 1;
        true
    }
}

/// What one telling is for those who are told next.
#[derive(Debug)]
pub(crate) struct Told {
    /// The channel's node.
    pub(crate) node: Arc<str>,
    /// Who, and whether it knows how it was.
    pub(crate) batch: Vec<(ConnId, bool)>,
    /// See [`Walk`].
    pub(crate) change: Arc<[u8]>,
    /// See [`Walk`].
    pub(crate) state: Arc<[u8]>,
}

/// All channels of a shard that tell who subscribes.
#[derive(Debug, Default)]
pub(crate) struct Occupants {
    channels: BTreeMap<Arc<str>, Occupied>,
    due: BTreeSet<(u64, Arc<str>)>,
    /// Those who have been answered lately, and those before them.
    young: HashMap<Away, u32, Fixed>,
    old: HashMap<Away, u32, Fixed>,
    /// Those who have not come back, until all have been counted out.
    gone: Vec<(Away, u32)>,
    turned_ms: u64,
    /// Channels of which some are left to be told: at most one telling of each in a second.
    walks: VecDeque<Arc<str>>,
}

impl Occupants {
    /// What they take, bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let away = (self.young.capacity() + self.old.capacity() + self.gone.capacity()) * size_of::<(Away, u32)>();
        self.channels.len() * (size_of::<Occupied>() + 128) + away
    }

    /// Whether there is nothing to be done, and nothing is known.
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

    /// Somebody waits for channels, and may want to know who the others are. It is there where that is told.
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

    /// Somebody waits for channels no more. It is expected again, if so many at most of its address are, or else is gone.
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

    /// Whether it has come back in time, so that it has been there.
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
                    // The home says how it is to who tells it everything, and that some are told.
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
        // The last one first: who does not come back at all has no other time than its own.
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

    /// Somebody was answered, and is there until it has had time to ask again. Whether there is room to know that: otherwise it is gone.
    fn stay(&mut self, node: &Arc<str>, who: Occupant<'_>) -> bool {
        if self.young.len() + self.old.len() + self.gone.len() >= NOTIFY_AWAY_MAX {
            self.leave(node, who);
            return false;
        }
        let away = Away { node: node.clone(), network: who.network, name: who.name.cloned() };
        *self.young.entry(away).or_default() += 1;
        true
    }

    /// One turn's share of counting out who has not come back: from where each was, and how often.
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

    /// A channel of which something is due, and what its home is to be told. A telling that was due has begun.
    pub(crate) fn next_due(&mut self, now_ms: u64) -> Option<(Arc<str>, Option<Report>)> {
        let due_ms = self.due.first()?.0;
        if due_ms > now_ms {
            return None;
        }
        let (_, node) = self.due.pop_first()?;
        let are_many = self.channels.len() > NOTIFY_EMPTY_MAX;
        let channel = self.channels.get_mut(&node)?;
        let (report, is_over) = channel.report(now_ms);
        // Where nobody is any more the home is told twice, as long as there are not too many of these.
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

    /// The home of a channel says who subscribes to it.
    pub(crate) fn take(&mut self, node: &str, said: Said<'_>) {
        self.change(node, |channel| {
            // Nobody may be told any more.
            if channel.hears.is_empty() {
                return;
            }
            let view = channel.view.get_or_insert_default();
            view.now.take(said, true);
            view.changed = view.number == 0 || view.now != view.told;
        });
    }

    /// The next that are told, `most` at once.
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

    /// Whether some are left to be told.
    pub(crate) fn is_telling(&self) -> bool {
        !self.walks.is_empty()
    }

    /// Somebody has been told what the last telling says.
    pub(super) fn was_told(&mut self, node: &str, id: ConnId) {
        let Some(channel) = self.channels.get_mut(node) else { return };
        let number = channel.view.as_ref().map_or(0, |view| view.number);
        if let Some(heard) = channel.hears.get_mut(&id) {
            *heard = number;
        }
    }

    /// What somebody is to be told who has not heard the last telling: all of it.
    pub(crate) fn missed(&self, node: &str, id: ConnId) -> Option<Vec<u8>> {
        let channel = self.channels.get(node)?;
        let (heard, view) = (*channel.hears.get(&id)?, channel.view.as_ref()?);
        // The telling that is under way may have it before it.
        let is_ahead = view.walk.as_ref().is_some_and(|walk| walk.last.is_none_or(|last| id > last));
        (heard != view.number && !is_ahead).then(|| view.told.state(channel_of(node)))
    }
}

impl Occupied {
    /// A connection is told nothing any more.
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

    /// Reports of a channel at a time.
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
        // Who is gone before anybody was told of it has not been there.
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

//! The subscribers of this home's channels, as reported by the shards: their sum, for queries and
//! for shards with subscribers that asked to be notified.
//!
//! A report is valid until the shard's next report, or until the shard has been silent for a long
//! time.

pub(crate) mod crowd;
pub(super) mod occupants;
mod occupying;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::channels::Channels;
use crate::channels::occupancy::crowd::{Crowd, Said, write_names};
use crate::id::ShardId;
use crate::letters::{ChannelLetter, ConnRef, Letter};
use crate::limits::{
    NOTIFY_FORGET_S, NOTIFY_RENEW_S, NOTIFY_WATCHED_MAX, NOTIFY_WHO_AT_ONCE, NOTIFY_WHO_MAX, NOTIFY_WHO_MS,
    NOTIFY_WHO_TOLD_MAX,
};
use crate::streams::Streams;
use crate::web::feed_names::channel_of;

/// The latest report of a shard.
#[derive(Debug)]
struct Report {
    shard: ShardId,
    crowd: Crowd,
    /// Some subscribers of the shard are notified about the others.
    listens: bool,
    /// When it was received, in milliseconds (monotonic).
    since_ms: u64,
}

/// A channel with subscribers.
#[derive(Debug, Default)]
struct Hall {
    /// At most one per shard.
    by: Vec<Report>,
    /// The state that was last sent to the shards.
    told: Crowd,
    changed: bool,
    /// When the shards may be notified again, in milliseconds (monotonic).
    next_ms: u64,
    /// When the channel is next visited, in milliseconds (monotonic).
    due_ms: u64,
}

impl Hall {
    /// The sum of the reports, for subscribers: with all names or none.
    fn sum(&self) -> Crowd {
        let mut sum = Crowd::of(self.by.iter().map(|report| &report.crowd), NOTIFY_WHO_TOLD_MAX);
        if sum.more {
            sum.names.clear();
        }
        sum
    }

    fn take(&mut self, shard: ShardId, said: Said<'_>, whole: bool, listens: bool, now_ms: u64) {
        let at = self.by.iter().position(|report| report.shard == shard).unwrap_or_else(|| {
            self.by.push(Report { shard, crowd: Crowd::default(), listens, since_ms: now_ms });
            self.by.len() - 1
        });
        let report = &mut self.by[at];
        report.crowd.take(said, whole);
        (report.listens, report.since_ms) = (listens, now_ms);
        if said.subscribers == 0 {
            self.by.swap_remove(at);
        }
        self.changed = true;
    }

    /// Drops the reports of shards that have been silent for a long time.
    fn drop_silent(&mut self, now_ms: u64) {
        let before = self.by.len();
        self.by.retain(|report| now_ms <= report.since_ms + u64::from(NOTIFY_FORGET_S) * 1_000);
        self.changed |= self.by.len() != before;
    }

    /// The shards to notify now, and the state to send.
    fn tells(&mut self, now_ms: u64) -> (Vec<ShardId>, Crowd) {
        let listening: Vec<_> = self.by.iter().filter(|report| report.listens).map(|report| report.shard).collect();
        if listening.is_empty() || !self.changed || now_ms < self.next_ms {
            return (Vec::new(), Crowd::default());
        }
        self.changed = false;
        let sum = self.sum();
        if sum == self.told {
            return (Vec::new(), sum);
        }
        (self.told, self.next_ms) = (sum.clone(), now_ms + NOTIFY_WHO_MS);
        (listening, sum)
    }

    fn is_due_ms(&self, now_ms: u64) -> u64 {
        match self.changed && self.by.iter().any(|report| report.listens) {
            true => self.next_ms,
            false => now_ms + u64::from(NOTIFY_RENEW_S) * 1_000,
        }
    }
}

/// The occupied channels of a home.
#[derive(Debug, Default)]
pub(super) struct Occupancy {
    halls: BTreeMap<Arc<str>, Hall>,
    due: BTreeSet<(u64, Arc<str>)>,
}

impl Occupancy {
    /// Memory used, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.halls.len() * (size_of::<Hall>() + size_of::<Report>() + 128)
    }

    /// Records the report of a shard. Returns whether the channel is known from now on.
    fn take(
        &mut self,
        node: &str,
        shard: ShardId,
        said: Said<'_>,
        (whole, listens): (bool, bool),
        now_ms: u64,
    ) -> bool {
        if !self.halls.contains_key(node) {
            if said.subscribers == 0 || self.halls.len() >= NOTIFY_WATCHED_MAX {
                return false;
            }
            let node: Arc<str> = node.into();
            self.halls.insert(node.clone(), Hall::default());
            self.due.insert((0, node));
        }
        let Some(name) = self.halls.get_key_value(node).map(|(node, _)| node.clone()) else { return false };
        let Some(hall) = self.halls.get_mut(node) else { return false };
        hall.take(shard, said, whole, listens, now_ms);
        let due_ms = hall.is_due_ms(now_ms);
        if hall.by.is_empty() {
            self.due.remove(&(hall.due_ms, name.clone()));
            self.halls.remove(&name);
            return false;
        }
        // A channel that is due earlier need not be visited at the later time.
        if due_ms < hall.due_ms {
            self.due.remove(&(hall.due_ms, name.clone()));
            hall.due_ms = due_ms;
            self.due.insert((due_ms, name));
        }
        true
    }

    /// The next channel that is due, with the shards to notify and the state to send.
    fn next_due(&mut self, now_ms: u64) -> Option<(Arc<str>, Vec<ShardId>, Crowd)> {
        if self.due.first()?.0 > now_ms {
            return None;
        }
        let (_, node) = self.due.pop_first()?;
        let hall = self.halls.get_mut(&node)?;
        hall.drop_silent(now_ms);
        if hall.by.is_empty() {
            self.halls.remove(&node);
            return Some((node, Vec::new(), Crowd::default()));
        }
        let (listening, sum) = hall.tells(now_ms);
        hall.due_ms = hall.is_due_ms(now_ms);
        self.due.insert((hall.due_ms, node.clone()));
        Some((node, listening, sum))
    }
}

impl Channels {
    /// Handles a shard's report of its subscribers of a channel of this home.
    pub(crate) fn channel_present(
        &mut self,
        cx: &mut Streams,
        shard: ShardId,
        node: &str,
        said: Said<'_>,
        whole: bool,
        listens: bool,
    ) {
        let now_ms = cx.kernel.now.mono_ms;
        let known = self.occupancy.take(node, shard, said, (whole, listens), now_ms);
        if known && whole && listens {
            let sum = self.occupancy.halls.get(node).map(Hall::sum).unwrap_or_default();
            self.say_occupied(cx, shard, node, &sum);
        }
    }

    fn say_occupied(&mut self, cx: &mut Streams, shard: ShardId, node: &str, sum: &Crowd) {
        let letters = cx.kernel.letters_to(shard);
        let names = letters.write_with(|out| write_names(out, sum.names.iter().map(|(name, count)| (&**name, *count))));
        let node = letters.name(node);
        letters.push(Letter::Channel(ChannelLetter::Occupied {
            node,
            subscribers: sum.subscribers,
            names,
            more: sum.more,
        }));
    }

    /// Answers a connection that asks for the subscribers of a channel of this home.
    pub(crate) fn channel_count(&mut self, cx: &mut Streams, conn: ConnRef, number: u32, node: &str) {
        let hall = self.occupancy.halls.get(node);
        let by = hall.iter().flat_map(|hall| &hall.by).map(|report| &report.crowd);
        let mut state = Crowd::of(by, NOTIFY_WHO_MAX).state(channel_of(node));
        state.push(b'\n');
        let letters = cx.kernel.letters_to(conn.shard);
        let body = letters.write(&state);
        letters.push(Letter::Channel(ChannelLetter::Answer { conn: conn.conn, number, refused: None, body }));
    }

    /// Runs this turn's share of notifying shards, and of removing the reports of silent ones.
    pub(crate) fn sweep_occupancy(&mut self, cx: &mut Streams) {
        let now_ms = cx.kernel.now.mono_ms;
        for _ in 0..NOTIFY_WHO_AT_ONCE {
            let Some((node, listening, sum)) = self.occupancy.next_due(now_ms) else { break };
            listening.iter().for_each(|shard| self.say_occupied(cx, *shard, &node, &sum));
        }
    }
}

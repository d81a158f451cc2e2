//! Push messages of this home's channels, as data: for each channel the item, the progress of its
//! round, and the time of the next round. Also the open pages, which need no push message because
//! they listen.
//!
//! A round sends one item to the registrations of a channel. Items published during a round, or
//! before the interval is over, wait for the next round, which sends only the last of them. A
//! channel therefore holds at most two items in memory and causes at most one round per interval,
//! however much is published.

pub(super) mod awake;
mod registering;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use ring::digest;

use crate::extension::pubsub::notice::News;
use crate::extension::pubsub::service::channel;
use crate::id::{PushId, ShardId};
use crate::limits::{
    NOTIFY_FORGET_S, NOTIFY_PUSH_AGAIN_MS, NOTIFY_PUSH_BYTES_MAX, NOTIFY_PUSH_CHANNELS_MAX, NOTIFY_PUSH_LISTENING_MAX,
    NOTIFY_PUSH_PATIENCE_MS, NOTIFY_PUSH_ROUNDS_MAX, NOTIFY_PUSH_UNDER_WAY_MAX,
};
use crate::store::nodes::key_of;

/// The push message of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The content of the push.
    pub(crate) content: Arc<[u8]>,
    /// Its topic (RFC 8030 5.4).
    pub(crate) topic: Option<Arc<str>>,
}

/// Creates the push message of an item that follows `more` items without one. If its content does
/// not fit, pages read it from the channel.
pub(crate) fn told(news: &News, more: u32) -> Told {
    let with = |payload: bool| {
        let mut content = if payload { channel::told(news) } else { channel::told_without_content(news) };
        if more > 0 {
            content.pop();
            content.extend_from_slice(format!(",\"more\":{more}}}").as_bytes());
        }
        content
    };
    let whole = with(true);
    let content = if whole.len() <= NOTIFY_PUSH_BYTES_MAX { whole } else { with(false) };
    // The key is hidden from push services. They accept a topic of up to 32 characters of Base64url
    // (RFC 8030 5.4).
    let topic = key_of(&news.id).map(|key| {
        let hash = digest::digest(&digest::SHA256, format!("{}\n{key}", news.actor).as_bytes());
        BASE64URL.encode(&hash.as_ref()[..24]).into()
    });
    Told { content: content.into(), topic }
}

/// A round in progress.
#[derive(Debug)]
struct Round {
    told: Told,
    /// The registration that was visited last.
    after: Option<PushId>,
    /// How many registrations were found.
    found: u32,
    /// When a congested push service is given up, in milliseconds (monotonic).
    patient_until_ms: u64,
}

#[derive(Debug, Default)]
struct Channel {
    /// When the next round may begin, in milliseconds (monotonic).
    free_ms: u64,
    /// When the channel is next visited, if there is anything to do.
    due_ms: Option<u64>,
    /// The last item that is not part of a round, and the number of items before it that were
    /// skipped.
    next: Option<(Told, u32)>,
    round: Option<Round>,
    /// Registrations found in the last round; `None` if it is unknown whether there are any.
    count: Option<u32>,
    /// A page has registered since the round began.
    fresh: bool,
}

impl Channel {
    fn is_idle(&self) -> bool {
        self.next.is_none() && self.round.is_none()
    }
}

/// The consequence of an item for push messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The item will be sent. The number of pushes that its round is expected to cost, if the item
    /// starts a round; otherwise 0.
    Told(u32),
    /// There are no registrations.
    Nobody,
    /// Too many channels have push messages to send.
    Full,
}

/// The outcome for a registration in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A push message is sent.
    Told,
    /// Its push service is congested at present.
    Later,
    /// Its push service has been congested for too long.
    GivenUp,
}

/// The shards at which a page listens, with the second (monotonic) of the latest report of each.
type Heard = Vec<(ShardId, u32)>;

/// The push state of a home.
#[derive(Debug, Default)]
pub(crate) struct WebPushes {
    channels: BTreeMap<Arc<str>, Channel>,
    /// The number of channels with something to do.
    busy: usize,
    due: BTreeSet<(u64, Arc<str>)>,
    /// Pages that listen to a channel.
    listening: BTreeMap<Arc<str>, BTreeMap<PushId, Heard>>,
    pages: usize,
    /// Pushes in flight, by the entry in the operator's list of push services.
    under_way: Vec<usize>,
}

impl WebPushes {
    /// Memory used, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let channels = self.channels.len() * (size_of::<Channel>() + 128);
        channels + self.busy * 4_096 + self.pages * (size_of::<(PushId, Vec<(ShardId, u32)>)>() + 16)
    }

    /// Handles a published item. `told` creates its push message from the number of items skipped
    /// before it.
    pub(super) fn news(&mut self, now_ms: u64, node: &str, told: impl FnOnce(u32) -> Told) -> Woken {
        if !self.channels.contains_key(node) {
            if self.channels.len() >= NOTIFY_PUSH_CHANNELS_MAX {
                self.channels.retain(|_, channel| !channel.is_idle());
            }
            self.channels.insert(node.into(), Channel::default());
        }
        let Some((node, _)) = self.channels.get_key_value(node) else { return Woken::Full };
        let node = node.clone();
        let Some(channel) = self.channels.get_mut(&node) else { return Woken::Full };
        if channel.count == Some(0) {
            return Woken::Nobody;
        }
        if channel.is_idle() {
            if self.busy >= NOTIFY_PUSH_ROUNDS_MAX {
                return Woken::Full;
            }
            self.busy += 1;
        }
        let count = if channel.next.is_none() { channel.count.unwrap_or_default() } else { 0 };
        let more = channel.next.take().map_or(0, |(_, more)| more.saturating_add(1));
        channel.next = Some((told(more), more));
        let (free_ms, begins) = (channel.free_ms, channel.round.is_none() && channel.due_ms.is_none());
        if begins {
            self.set_due(&node, free_ms.max(now_ms));
        }
        Woken::Told(count)
    }

    /// Records a new registration. Reads that start from now on will find it.
    pub(crate) fn registered(&mut self, node: &str) {
        if let Some(channel) = self.channels.get_mut(node) {
            channel.count = channel.count.filter(|count| *count > 0);
            channel.fresh = true;
        }
    }

    fn set_due(&mut self, node: &Arc<str>, due_ms: u64) {
        // Only channels with something to do get a time, and these are not removed.
        let Some(channel) = self.channels.get_mut(node) else { return };
        if let Some(before) = channel.due_ms.replace(due_ms) {
            self.due.remove(&(before, node.clone()));
        }
        self.due.insert((due_ms, node.clone()));
    }

    /// The next channel whose registrations are due to be read.
    pub(crate) fn next_due(&mut self, now_ms: u64, interval_ms: u64) -> Option<Arc<str>> {
        if self.due.first()?.0 > now_ms {
            return None;
        }
        let (_, node) = self.due.pop_first()?;
        let channel = self.channels.get_mut(&node)?;
        channel.due_ms = None;
        if channel.round.is_none() {
            let (told, _) = channel.next.take()?;
            let patient_until_ms = now_ms + NOTIFY_PUSH_PATIENCE_MS;
            channel.round = Some(Round { told, after: None, found: 0, patient_until_ms });
            channel.free_ms = now_ms + interval_ms;
            channel.fresh = false;
        }
        Some(node)
    }

    /// The registration after which a round continues, and the message that it sends.
    pub(crate) fn round(&self, node: &str) -> Option<(Option<PushId>, Told)> {
        let round = self.channels.get(node)?.round.as_ref()?;
        Some((round.after, round.told.clone()))
    }

    /// Decides whether a registration of a round gets its push message, by the entry of its push
    /// service in the operator's list.
    pub(crate) fn begin(&mut self, now_ms: u64, node: &str, service: usize) -> Verdict {
        let Some(round) = self.channels.get_mut(node).and_then(|channel| channel.round.as_mut()) else {
            return Verdict::GivenUp;
        };
        if self.under_way.len() <= service {
            self.under_way.resize(service + 1, 0);
        }
        if self.under_way[service] < NOTIFY_PUSH_UNDER_WAY_MAX {
            self.under_way[service] += 1;
            round.patient_until_ms = now_ms + NOTIFY_PUSH_PATIENCE_MS;
            return Verdict::Told;
        }
        if now_ms < round.patient_until_ms { Verdict::Later } else { Verdict::GivenUp }
    }

    /// Records that a push is no longer in flight.
    pub(crate) fn ended(&mut self, service: usize) {
        if let Some(under_way) = self.under_way.get_mut(service) {
            *under_way = under_way.saturating_sub(1);
        }
    }

    /// The number of pushes in flight.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.iter().sum()
    }

    /// Records that a round has visited a registration.
    pub(crate) fn passed(&mut self, node: &str, id: PushId) {
        if let Some(round) = self.channels.get_mut(node).and_then(|channel| channel.round.as_mut()) {
            (round.after, round.found) = (Some(id), round.found.saturating_add(1));
        }
    }

    /// Postpones the rest of a round.
    pub(crate) fn put_off(&mut self, now_ms: u64, node: &Arc<str>) {
        self.set_due(node, now_ms + NOTIFY_PUSH_AGAIN_MS);
    }

    /// Ends a round. If it could read all registrations (`whole`), their number is known now.
    pub(crate) fn over(&mut self, now_ms: u64, node: &Arc<str>, whole: bool) {
        // A channel with a round is not removed.
        let Some(channel) = self.channels.get_mut(node) else { return };
        // A round ends once.
        let Some(round) = channel.round.take() else { return };
        channel.count = Some(round.found).filter(|found| whole && !(channel.fresh && *found == 0));
        if channel.count == Some(0) {
            channel.next = None;
        }
        if channel.is_idle() {
            self.busy -= 1;
            return;
        }
        let due_ms = channel.free_ms.max(now_ms);
        self.set_due(node, due_ms);
    }

    /// Records that a registered page listens at a shard since this second, or has stopped.
    pub(crate) fn listens(&mut self, node: &str, id: PushId, shard: ShardId, since_s: Option<u32>) {
        let known = self.listening.get(node).and_then(|pages| pages.get(&id)).is_some();
        let Some(since_s) = since_s else {
            // There was no room for the page.
            let Some(pages) = self.listening.get_mut(node) else { return };
            // There was no room for the page.
            let Some(at) = pages.get_mut(&id) else { return };
            at.retain(|(other, _)| *other != shard);
            if at.is_empty() {
                pages.remove(&id);
                self.pages -= 1;
            }
            if pages.is_empty() {
                self.listening.remove(node);
            }
            return;
        };
        if !known && self.pages >= NOTIFY_PUSH_LISTENING_MAX {
            self.forget(since_s);
        }
        // A page without room is sent push messages although it listens.
        if !known && self.pages >= NOTIFY_PUSH_LISTENING_MAX {
            return;
        }
        self.pages += usize::from(!known);
        let name = self.listening.get_key_value(node).map_or_else(|| node.into(), |(name, _)| name.clone());
        let at = self.listening.entry(name).or_default().entry(id).or_default();
        at.retain(|(other, _)| *other != shard);
        at.push((shard, since_s));
    }

    /// Removes pages whose reports are too old.
    fn forget(&mut self, now_s: u32) {
        self.listening.retain(|_, pages| {
            pages.retain(|_, at| at.iter().any(|(_, since_s)| now_s.saturating_sub(*since_s) < NOTIFY_FORGET_S));
            !pages.is_empty()
        });
        self.pages = self.listening.values().map(BTreeMap::len).sum();
    }

    /// Whether a page listens.
    pub(crate) fn is_listening(&self, now_s: u32, node: &str, id: PushId) -> bool {
        let at = self.listening.get(node).and_then(|pages| pages.get(&id));
        at.is_some_and(|at| at.iter().any(|(_, since_s)| now_s.saturating_sub(*since_s) < NOTIFY_FORGET_S))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Told {
        Told { content: text.as_bytes().into(), topic: None }
    }

    fn id(number: u8) -> PushId {
        PushId([number; 16])
    }

    #[test]
    fn a_channel_tells_the_last_item_once_in_an_interval() {
        let mut all = WebPushes::default();
        assert_eq!(all.news(1_000, "a", |_| told("1")), Woken::Told(0));
        let node = all.next_due(1_000, 500).unwrap();
        assert_eq!((&*node, all.round("a")), ("a", Some((None, told("1")))));
        // More items are published during the round.
        all.news(1_001, "a", |more| told(&format!("2, {more}")));
        all.news(1_002, "a", |more| told(&format!("3, {more}")));
        assert_eq!(all.next_due(9_000, 500), None, "one round at a time");
        assert_eq!(all.begin(1_003, "a", 2), Verdict::Told);
        all.passed("a", id(1));
        assert_eq!((all.round("a"), all.under_way()), (Some((Some(id(1)), told("1"))), 1));
        all.over(1_100, &node, true);
        assert_eq!(all.next_due(1_499, 500), None);
        assert_eq!(all.next_due(1_500, 500).as_deref(), Some("a"));
        assert_eq!(all.round("a"), Some((None, told("3, 1"))));
        all.over(1_500, &node, true);
        assert_eq!(all.busy, 0);
        // No registration was found: none are read again until a page registers.
        assert_eq!(all.news(9_000, "a", |_| told("4")), Woken::Nobody);
        all.registered("a");
        assert_eq!(all.news(9_000, "a", |_| told("5")), Woken::Told(0));
        // A page that registers while the registrations are read is not missed.
        all.next_due(9_000, 500);
        all.registered("a");
        all.over(9_000, &node, true);
        assert_eq!(all.news(9_001, "a", |_| told("6")), Woken::Told(0));
        all.ended(2);
        assert_eq!((all.under_way(), all.due.len()), (0, 1));
    }

    #[test]
    fn a_push_service_that_takes_nothing_is_given_up_in_a_while() {
        let mut all = WebPushes::default();
        all.news(0, "a", |_| told("1"));
        let node = all.next_due(0, 500).unwrap();
        assert!((0..NOTIFY_PUSH_UNDER_WAY_MAX).all(|_| all.begin(0, "a", 0) == Verdict::Told));
        assert_eq!(all.begin(1, "a", 0), Verdict::Later);
        all.put_off(1, &node);
        assert_eq!(all.next_due(99, 500), None);
        assert_eq!(all.next_due(101, 500).as_deref(), Some("a"));
        assert_eq!(all.begin(101, "a", 1), Verdict::Told, "another one goes on");
        assert_eq!(all.begin(101 + NOTIFY_PUSH_PATIENCE_MS - 1, "a", 0), Verdict::Later);
        assert_eq!(all.begin(101 + NOTIFY_PUSH_PATIENCE_MS, "a", 0), Verdict::GivenUp);
        all.ended(0);
        assert_eq!(all.begin(101 + NOTIFY_PUSH_PATIENCE_MS, "a", 0), Verdict::Told);
    }

    #[test]
    fn what_is_known_of_channels_and_pages_is_bounded() {
        let mut all = WebPushes::default();
        for channel in 0..NOTIFY_PUSH_ROUNDS_MAX {
            assert_eq!(all.news(0, &channel.to_string(), |_| told("x")), Woken::Told(0));
        }
        assert_eq!(all.news(0, "x", |_| told("x")), Woken::Full);
        assert_eq!(all.news(0, "1", |_| told("y")), Woken::Told(0), "what waits already may wait for more");
        for page in 0..NOTIFY_PUSH_LISTENING_MAX as u128 {
            all.listens("a", PushId(page.to_be_bytes()), ShardId(0), Some(1));
        }
        all.listens("b", id(9), ShardId(0), Some(2));
        assert!(!all.is_listening(2, "b", id(9)) && all.is_listening(2, "a", PushId([0; 16])));
        // The other pages have not been reported for a long time.
        all.listens("b", id(9), ShardId(0), Some(1 + NOTIFY_FORGET_S));
        assert!(all.is_listening(2, "b", id(9)) && all.pages == 1);
    }

    #[test]
    fn a_page_listens_until_no_shard_says_so() {
        let mut all = WebPushes::default();
        all.listens("a", id(1), ShardId(0), Some(1));
        all.listens("a", id(1), ShardId(1), Some(1));
        all.listens("a", id(1), ShardId(0), None);
        assert!(all.is_listening(1, "a", id(1)) && !all.is_listening(1, "b", id(1)));
        assert!(!all.is_listening(1 + NOTIFY_FORGET_S, "a", id(1)), "it may have been lost");
        all.listens("a", id(1), ShardId(1), None);
        all.listens("a", id(1), ShardId(1), None);
        assert!(!all.is_listening(1, "a", id(1)) && all.listening.is_empty() && all.pages == 0);
    }
}

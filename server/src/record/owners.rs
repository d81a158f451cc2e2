//! The backlog watch over objects with owners beyond a shard: connections and users with queued
//! messages, with their JIDs; locks with their holders; the store with its syncs; and threads that
//! do not leave a place, shards' loops included.
//!
//! A dedicated thread checks once per second. Shards are queried only while much output is queued
//! in their connections, and never while they stall. A query waits no longer than [`Owners`]
//! states, so that it does not delay the recorder's samples or the checks of `waits` for long.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use throng_engine::counters::Counters;
use throng_engine::limits::ROOM_WAITING_MAX;
use throng_recorder::clock::wall_ms;
use throng_recorder::recorder::Handle;

use super::queues::{Line, Queue};
use crate::end;
use crate::waits::{self, Look, Stuck};

/// Queued output of a connection that counts as a backlog, bytes: half of the amount that makes
/// messages stay in the log.
pub const OUTBOUND_BYTES_MIN: usize = 32 << 10;

/// Most rows of each kind requested from a shard.
pub const ROWS_A_SHARD: u32 = 10;

/// Seconds between two queries of connections.
const ASK_EVERY: u64 = 5;
/// Seconds between two reports.
const TELL_EVERY: u64 = 10;
/// Stanzas that wait for a room from which on its shard is queried.
const ROOM_STANDS: u64 = ROOM_WAITING_MAX as u64 / 10;
/// Number of checks, one second apart, with much queued output in a shard's connections before the
/// shard is queried for owners.
const HIGH_LOOKS: u32 = 3;
/// Seconds after which a stalled thread or lock, or a send in progress, is reported.
const STUCK_S: u64 = 5;
/// Once queries have taken this long in one check, no further shard is queried.
const ASK_MOST: Duration = Duration::from_secs(2);

/// A backlog and its owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Owed {
    /// The queued output of a connection.
    Connection {
        /// Its shard.
        shard: usize,
        /// Full JID.
        jid: String,
        /// The peer's address, if known.
        peer: Option<String>,
        /// Bytes queued.
        bytes: u64,
        /// Bytes sent since the queue was last empty.
        sent_bytes: u64,
        /// Seconds since the client last accepted data.
        stalled_s: u64,
    },
    /// Waiting messages in the process of being delivered.
    Waiting {
        /// Bare JID.
        jid: String,
        /// Number of waiting messages.
        messages: u64,
    },
    /// An account that exceeds its send rate.
    Account {
        /// Bare JID.
        jid: String,
        /// Number of times that it was paused.
        times: u64,
        /// Seconds since the first time.
        since_s: u64,
    },
    /// A room whose stanzas wait for the store.
    Room {
        /// Bare JID.
        jid: String,
        /// Number of stanzas.
        stanzas: u64,
    },
}

impl Owed {
    /// Describes a client that does not read, or reads slowly, in words that follow its JID; `None`
    /// for waiting messages.
    pub fn unread(&self) -> Option<String> {
        let Owed::Connection { shard, peer, bytes, stalled_s, .. } = self else { return None };
        let (kib, peer) = (bytes / 1_024, peer.as_deref().unwrap_or("from an unknown address"));
        Some(match *stalled_s >= STUCK_S {
            true => format!(
                "does not read: {kib} KiB wait for it in shard {shard}, and it ({peer}) has read \
                 nothing for {stalled_s} s"
            ),
            false => format!("reads slowly: {kib} KiB wait for it ({peer}) in shard {shard}"),
        })
    }

    /// Describes an account that exceeds its send rate, in words that follow its JID.
    pub fn busy(&self) -> Option<String> {
        let Owed::Account { times, since_s, .. } = self else { return None };
        Some(format!(
            "exceeds the rate of an account (account_stanzas_per_second) and is throttled: {times} \
             times in {since_s} s"
        ))
    }

    /// Describes a room with a long queue, in words that follow its JID.
    pub fn crowded(&self) -> Option<String> {
        let Owed::Room { stanzas, .. } = self else { return None };
        Some(match *stanzas >= ROOM_WAITING_MAX as u64 {
            true => format!("refuses stanzas: {stanzas} wait for the store, which is as many as may"),
            false => format!("is behind: {stanzas} stanzas wait for the store"),
        })
    }

    /// The owner.
    pub fn jid(&self) -> &str {
        match self {
            Owed::Connection { jid, .. }
            | Owed::Waiting { jid, .. }
            | Owed::Account { jid, .. }
            | Owed::Room { jid, .. } => jid,
        }
    }

    fn names(&self) -> (&'static str, &'static str) {
        match self {
            Owed::Connection { .. } => ("connection", "bytes"),
            Owed::Waiting { .. } => ("waiting", "messages"),
            Owed::Account { .. } => ("account", "pauses"),
            Owed::Room { .. } => ("room", "stanzas"),
        }
    }
}

/// Finds the owners of backlogs in a shard.
pub trait Owners: Send + Sync {
    /// The longest backlogs of each kind, at most [`ROWS_A_SHARD`]; `None` if the shard does not
    /// answer soon.
    fn longest(&self, shard: usize) -> Option<Vec<Owed>>;
}

/// A queue with an owner, over several checks.
struct Owned {
    queue: Queue,
    owed: Owed,
    at: Instant,
    looks: u64,
}

impl Owned {
    /// Whether the backlog has lasted for more than a moment.
    fn is_backlog(&self) -> bool {
        self.looks > 1 || matches!(self.owed, Owed::Connection { stalled_s, .. } if stalled_s >= STUCK_S)
    }

    fn look(&mut self, owed: Owed, now: Instant) {
        let seconds = now.duration_since(self.at).as_secs_f64();
        match owed {
            Owed::Connection { bytes, sent_bytes, .. } => self.queue.look(bytes, None, Some(sent_bytes), seconds),
            Owed::Waiting { messages, .. } => self.queue.look(messages, None, None, seconds),
            Owed::Account { times, .. } => self.queue.look(times, None, None, seconds),
            Owed::Room { stanzas, .. } => self.queue.look(stanzas, None, None, seconds),
        }
        (self.owed, self.at, self.looks) = (owed, now, self.looks + 1);
    }
}

/// Accounts of a shard that are paused because they exceed their send rate.
#[derive(Clone, Copy, Debug, Default)]
struct Pauses {
    /// The number of pauses at the last check.
    seen: u64,
    /// Whether the number grew in any check since the shard was last queried.
    grew: bool,
}

/// State kept from second to second.
struct Watching {
    counters: Vec<Arc<Counters>>,
    owners: Arc<dyn Owners>,
    marks: Option<Handle>,
    found: Arc<ArcSwap<Vec<Owed>>>,
    /// Number of consecutive checks with much queued output in connections, by shard.
    high: Vec<u32>,
    /// Pauses of accounts, by shard.
    pauses: Vec<Pauses>,
    owned: BTreeMap<(&'static str, String), Owned>,
    /// What waits for the store, over all shards.
    store: Queue,
    looked: Instant,
    /// Marked conditions that persist.
    marked: BTreeSet<String>,
    seconds: u64,
}

impl Watching {
    fn new(
        counters: &[Arc<Counters>],
        owners: Arc<dyn Owners>,
        marks: Option<Handle>,
        found: Arc<ArcSwap<Vec<Owed>>>,
    ) -> Watching {
        Watching {
            counters: counters.to_vec(),
            owners,
            marks,
            found,
            high: vec![0; counters.len()],
            pauses: vec![Pauses::default(); counters.len()],
            owned: BTreeMap::new(),
            store: Queue::default(),
            looked: Instant::now(),
            marked: BTreeSet::new(),
            seconds: 0,
        }
    }

    /// Checks, once per second.
    fn second(&mut self, look: &Look, now: Instant) {
        self.seconds += 1;
        for (counters, high) in self.counters.iter().zip(&mut self.high) {
            let much = counters.outbound_bytes.get() >= OUTBOUND_BYTES_MIN as u64;
            *high = if much { high.saturating_add(1) } else { 0 };
        }
        for (counters, pauses) in self.counters.iter().zip(&mut self.pauses) {
            let now = counters.pace_paused.get();
            pauses.grew |= now != std::mem::replace(&mut pauses.seen, now);
        }
        let sum = |of: fn(&Counters) -> u64| self.counters.iter().map(|counters| of(counters)).sum::<u64>();
        let (length, came) = (sum(|c| c.gate_waiting.get()), sum(|c| c.gated.get()));
        let seconds = now.duration_since(std::mem::replace(&mut self.looked, now)).as_secs_f64();
        self.store.look(length, Some(came), None, seconds);
        if self.seconds.is_multiple_of(ASK_EVERY) {
            self.ask(look, now);
        }
        if self.seconds.is_multiple_of(TELL_EVERY) {
            self.tell(look);
        }
    }

    /// Queries shards with much queued output or with paused accounts for the owners.
    fn ask(&mut self, look: &Look, now: Instant) {
        let mut before = std::mem::take(&mut self.owned);
        let began = Instant::now();
        for shard in 0..self.counters.len() {
            let held_back = std::mem::take(&mut self.pauses[shard].grew);
            let rooms_wait = self.counters[shard].room_waiting.get() >= ROOM_STANDS;
            if self.high[shard] < HIGH_LOOKS && !held_back && !rooms_wait {
                continue;
            }
            let stuck = look.thread(&format!("shard-{shard}")).is_some_and(waits::Standing::is_stuck);
            if stuck || began.elapsed() > ASK_MOST {
                continue;
            }
            for owed in self.owners.longest(shard).unwrap_or_default() {
                let key = (owed.names().0, owed.jid().to_owned());
                let new = || Owned { queue: Queue::default(), owed: owed.clone(), at: now, looks: 0 };
                let mut owned = before.remove(&key).filter(|owned| !is_other(&owned.owed, &owed)).unwrap_or_else(new);
                owned.look(owed, now);
                self.owned.insert(key, owned);
            }
        }
        let found = self.owned.values().filter(|owned| owned.is_backlog()).map(|owned| owned.owed.clone());
        self.found.store(Arc::new(found.collect()));
    }

    /// Logs one line for each backlog and each cause of one.
    fn tell(&mut self, look: &Look) {
        let mut now_so = BTreeSet::new();
        for owned in self.owned.values().filter(|owned| owned.is_backlog()) {
            let (queue, unit) = owned.owed.names();
            let (owner, more) = (owned.owed.jid(), owned.owed.unread().or(owned.owed.busy()).or(owned.owed.crowded()));
            Line { queue, owner, unit, of: &owned.queue, more: more.as_deref() }.tell();
            if !owned.queue.drains() {
                let text = match owned.owed.busy() {
                    Some(busy) => format!("{owner} {busy}"),
                    None => format!("{queue} of {owner}: {} {unit}, will not drain", owned.queue.length()),
                };
                now_so.insert((format!("{queue} {owner}"), text));
            }
        }
        if let Some(mean) = look.slow_sync() {
            let more = format!("a sync of the journal takes {} ms", mean.as_millis());
            Line { queue: "store", owner: "throng-commit", unit: "effects", of: &self.store, more: Some(&more) }.tell();
            now_so.insert(("store".to_owned(), format!("store: {more}")));
        }
        for stuck in waits::stuck(look).into_iter().filter(|stuck| stuck.seconds >= STUCK_S) {
            let Some((queue, owner)) = queue_and_owner(look, &stuck) else { continue };
            let Stuck { what, seconds, text, waiters, .. } = &stuck;
            tracing::warn!(queue, %owner, length = waiters, unit = "threads", seconds, more = text.as_str(), "backlog");
            now_so.insert((what.clone(), format!("{what} {text}")));
        }
        self.mark(now_so);
    }

    /// Marks conditions that are new since the last report.
    fn mark(&mut self, now_so: BTreeSet<(String, String)>) {
        if let Some(marks) = &self.marks {
            for (_, text) in now_so.iter().filter(|(what, _)| !self.marked.contains(what)) {
                marks.mark(wall_ms(), "backlog", text);
            }
        }
        self.marked = now_so.into_iter().map(|(what, _)| what).collect();
    }
}

/// Whether the current backlog differs from the previous one: another connection with the JID.
fn is_other(before: &Owed, now: &Owed) -> bool {
    match (before, now) {
        (Owed::Connection { sent_bytes: before, peer: old, .. }, Owed::Connection { sent_bytes, peer, .. }) => {
            sent_bytes < before || old != peer
        }
        _ => false,
    }
}

/// The queue delayed by a stall, and its owner. Threads waiting for a lock are part of the lock's
/// own line.
fn queue_and_owner<'a>(look: &Look, stuck: &'a Stuck) -> Option<(&'a str, &'a str)> {
    match look.thread(&stuck.what).map(|standing| standing.place) {
        None => Some((&stuck.what, stuck.holder.as_deref().unwrap_or("nobody"))),
        Some(None) => Some(("turns", &stuck.what)),
        Some(Some(place)) if place.sort() == waits::Sort::Lock => None,
        Some(Some(place)) => Some((place.name(), &stuck.what)),
    }
}

/// Starts the thread of the watch over these shards. It stores findings in `found`, and marks them
/// if there is a recorder.
///
/// # Errors
/// The thread cannot be created.
pub fn watch(
    counters: &[Arc<Counters>],
    owners: Arc<dyn Owners>,
    marks: Option<Handle>,
    found: Arc<ArcSwap<Vec<Owed>>>,
) -> io::Result<waits::Repeated> {
    let mut watching = Watching::new(counters, owners, marks, found);
    let mut broken = false;
    waits::repeat("watch", waits::LOOK_EVERY, move || {
        if broken {
            return;
        }
        // Clients do not depend on it: the server continues without it and reports that.
        let looked = end::survive(|| {
            #[cfg(debug_assertions)]
            crate::plant::pass("watch");
            watching.second(&waits::look(), Instant::now());
        });
        if let Err(said) = looked {
            broken = true;
            tracing::error!("the backlog watch has stopped until the server is restarted: {said}");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waits::{Place, Standing};
    use std::sync::atomic::{AtomicU64, Ordering};
    use throng_recorder::read::{Item, items};
    use throng_recorder::recorder::{Recorder, Sampler};

    /// Juliet reads nothing, and her backlog is larger at each query; her log is being delivered,
    /// too.
    #[derive(Default)]
    struct Juliet {
        asked: AtomicU64,
    }

    impl Owners for Juliet {
        fn longest(&self, shard: usize) -> Option<Vec<Owed>> {
            let asked = self.asked.fetch_add(1, Ordering::Relaxed) + 1;
            let peer = Some("192.0.2.1:7".to_owned());
            let (jid, bytes, stalled_s) = ("juliet@x/r".into(), 40_000 * asked, 3 * asked);
            let connection = Owed::Connection { shard, jid, peer, bytes, sent_bytes: 0, stalled_s };
            Some(vec![connection, Owed::Waiting { jid: "juliet@x".into(), messages: 100 * asked }])
        }
    }

    struct World {
        watching: Watching,
        juliet: Arc<Juliet>,
        recorder: Recorder,
        counters: Arc<Counters>,
        now: Instant,
    }

    impl World {
        fn new() -> World {
            let recorder = Recorder::new(Sampler::new(Default::default(), Vec::new()), 1 << 16, None);
            let (counters, juliet) = (Arc::new(Counters::default()), Arc::new(Juliet::default()));
            let marks = Some(recorder.handle());
            let watching = Watching::new(std::slice::from_ref(&counters), juliet.clone(), marks, Arc::default());
            World { watching, juliet, recorder, counters, now: Instant::now() }
        }

        fn seconds(&mut self, seconds: u64, look: &Look) {
            for _ in 0..seconds {
                self.now += Duration::from_secs(1);
                self.watching.second(look, self.now);
            }
        }

        fn asked(&self) -> u64 {
            self.juliet.asked.load(Ordering::Relaxed)
        }

        fn marks(&mut self) -> Vec<String> {
            self.recorder.tick(1_000, 1);
            let told = items(&self.recorder.handle().recent()).into_iter();
            told.filter_map(|item| match item {
                Item::Mark(mark) if mark.kind == "backlog" => Some(mark.text),
                _ => None,
            })
            .collect()
        }
    }

    fn shard(place: Option<Place>, seconds: u64) -> Look {
        let since = Duration::from_secs(seconds);
        let thread = Standing { thread: "shard-0".into(), tid: i32::MAX, place, since, turns: true, holds: Vec::new() };
        Look { threads: vec![thread], ..Look::default() }
    }

    #[test]
    fn owners_are_asked_for_while_much_waits_and_named_when_it_lasts() {
        let (mut world, turns) = (World::new(), shard(Some(Place::Network), 0));
        world.seconds(20, &turns);
        assert_eq!(world.asked(), 0, "nothing waits");
        world.counters.outbound_bytes.set(100_000);
        world.seconds(5, &turns);
        assert_eq!((world.asked(), world.watching.found.load().len()), (1, 0), "it may be a moment's");
        world.seconds(5, &turns);
        assert_eq!((world.asked(), world.watching.found.load().len()), (2, 2));
        let unread: Vec<_> = world.watching.found.load().iter().filter_map(Owed::unread).collect();
        let deaf = "does not read: 78 KiB wait for it in shard 0, and it (192.0.2.1:7) has read \
                    nothing for 6 s";
        assert_eq!(unread, [deaf]);
        let marked = [
            "connection of juliet@x/r: 80000 bytes, will not drain",
            "waiting of juliet@x: 200 messages, will not drain",
        ];
        assert_eq!(world.marks(), marked);
        world.seconds(10, &turns);
        assert_eq!(world.marks(), marked, "once, for as long as it is so");
        world.counters.outbound_bytes.set(0);
        world.seconds(10, &turns);
        assert!(world.watching.found.load().is_empty() && world.watching.marked.is_empty());
    }

    #[test]
    fn a_shard_that_stands_still_is_told_and_not_asked() {
        let (mut world, asleep) = (World::new(), shard(None, 7));
        world.counters.outbound_bytes.set(100_000);
        world.seconds(10, &asleep);
        assert_eq!(world.asked(), 0);
        assert_eq!(world.marks(), ["shard-0 has been at no known place for 7 s: it has ended"]);
    }

    #[test]
    fn slow_syncs_are_the_stores_backlog() {
        let mut world = World::new();
        let mut look = shard(Some(Place::Network), 0);
        (look.syncs.count, look.syncs.total) = (40, Duration::from_millis(40 * 30));
        world.seconds(10, &look);
        assert_eq!(world.marks(), [""; 0], "30 ms are not slow");
        look.syncs.total = Duration::from_millis(40 * 203);
        world.seconds(10, &look);
        assert_eq!(world.marks(), ["store: a sync of the journal takes 203 ms"]);
    }
}

//! A snapshot of all threads: the place of each, the locks it holds, and a lower bound of the time
//! since then.
//!
//! Threads record no times. A thread that is observed once per second with the same word has not
//! moved in between. A time is therefore a lower bound, too short by a second at most. Snapshots
//! need no lock that a stuck thread could hold.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, TryLockError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::count::{Count, tallies};
use super::place::{LOCKS, Place};
use super::slot::{Registered, threads};

/// How often the server takes a snapshot.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Snapshots over which syncs are averaged, about as many seconds.
const SYNC_LOOKS: usize = 10;

/// Syncs with this average time are slow: a good disk takes a tenth of it.
const SLOW_SYNC: Duration = Duration::from_millis(50);

/// A thread at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Its name.
    pub thread: Arc<str>,
    /// Its id in the kernel.
    pub tid: i32,
    /// Its place; `None` while it works, or sleeps outside any declared place.
    pub place: Option<Place>,
    /// How long it has been at that place, at least.
    pub since: Duration,
    /// Whether it is a thread that turns often, or is at a place.
    pub turns: bool,
    /// The locks that it holds, and for how long at least.
    pub holds: Vec<(Place, Duration)>,
}

impl Standing {
    /// Whether it has been stuck long enough to be reported.
    pub fn is_stuck(&self) -> bool {
        let patience_ms = self.place.map_or(if self.turns { 1_000 } else { u64::MAX }, Place::patience_ms);
        self.since >= Duration::from_millis(patience_ms)
    }
}

/// All threads at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// Ordered by start.
    pub threads: Vec<Standing>,
    /// Syncs of the journal that ended in about the last ten seconds.
    pub syncs: Count,
}

impl Look {
    /// The average time of the last syncs of the journal, if that is slow.
    pub fn slow_sync(&self) -> Option<Duration> {
        let count = u32::try_from(self.syncs.count).unwrap_or(u32::MAX);
        self.syncs.total.checked_div(count).filter(|mean| *mean >= SLOW_SYNC)
    }

    /// The thread with this name.
    pub fn thread(&self, name: &str) -> Option<&Standing> {
        self.threads.iter().find(|standing| &*standing.thread == name)
    }
}

/// The last observation of a thread.
struct Seen {
    at: (u64, Instant),
    held: [(u32, Instant); LOCKS],
}

impl Seen {
    fn new(now: Instant) -> Seen {
        Seen { at: (0, now), held: [(0, now); LOCKS] }
    }

    /// Observes the thread again.
    fn look(&mut self, thread: &Registered, now: Instant) -> Standing {
        fn since<W: PartialEq>(seen: &mut (W, Instant), word: W, now: Instant) -> Duration {
            if seen.0 != word {
                *seen = (word, now);
            }
            now.duration_since(seen.1)
        }
        let (word, place) = thread.slot.place();
        let stood = since(&mut self.at, word, now);
        let held = self.held.iter_mut().enumerate().filter_map(|(lock, seen)| {
            let (word, holds) = thread.slot.holds(lock);
            let held = since(seen, word, now);
            holds.then(|| (Place::ALL[lock], held))
        });
        let holds = held.collect();
        Standing { thread: thread.name.clone(), tid: thread.tid, place, since: stood, turns: thread.turns, holds }
    }
}

/// State between snapshots.
#[derive(Default)]
struct Looker {
    /// By the thread's id in the kernel.
    seen: HashMap<i32, Seen>,
    /// Syncs of all threads in snapshots a second apart; at most [`SYNC_LOOKS`].
    syncs: Vec<(Instant, Count)>,
}

impl Looker {
    fn look(&mut self, now: Instant) -> Look {
        let threads = threads();
        self.seen.retain(|tid, _| threads.iter().any(|thread| thread.tid == *tid));
        let look =
            |thread: &Registered| self.seen.entry(thread.tid).or_insert_with(|| Seen::new(now)).look(thread, now);
        let standing = threads.iter().map(look).collect();
        Look { threads: standing, syncs: self.syncs(now) }
    }

    fn syncs(&mut self, now: Instant) -> Count {
        let mut all = Count::default();
        tallies().iter().for_each(|tally| all.add(&tally.counts[Place::JournalSync as usize]));
        let first = self.syncs.first().map_or(all, |(_, count)| *count);
        if self.syncs.last().is_none_or(|(at, _)| now.duration_since(*at) >= LOOK_EVERY / 2) {
            if self.syncs.len() == SYNC_LOOKS {
                self.syncs.remove(0);
            }
            self.syncs.push((now, all));
        }
        all.since(&first)
    }
}

static LOOKER: LazyLock<Mutex<Looker>> = LazyLock::new(Mutex::default);
static LATEST: LazyLock<ArcSwap<Look>> = LazyLock::new(ArcSwap::default);

/// Takes a snapshot. If another thread is taking one, returns the previous snapshot.
pub fn look() -> Arc<Look> {
    let mut looker = match LOOKER.try_lock() {
        Ok(looker) => looker,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return LATEST.load_full(),
    };
    let look = Arc::new(looker.look(Instant::now()));
    LATEST.store(look.clone());
    look
}

//! A look at all threads: where each is, which locks it holds, and since when, as far as looks tell.
//!
//! Threads say no times. Who looks once a second and sees the same word again knows that the thread has stood there in between;
//! so a time here is a least, and too short by a second at the most. Looks need no lock of anybody who waits.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, TryLockError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::count::{Count, tallies};
use super::place::{LOCKS, Place};
use super::slot::{Registered, threads};

/// How often somebody in the server looks.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Looks over which syncs are told, about as many seconds.
const SYNC_LOOKS: usize = 10;

/// Syncs that take so long on average are slow: with a disk as it should be they take a tenth of it.
const SLOW_SYNC: Duration = Duration::from_millis(50);

/// A thread at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Its name.
    pub thread: Arc<str>,
    /// The kernel's number of it.
    pub tid: i32,
    /// Where it is; none while it works, or where it sleeps without having said so.
    pub place: Option<Place>,
    /// For how long it has not left it, at least.
    pub since: Duration,
    /// It is one that comes round often, or is at a place.
    pub turns: bool,
    /// Locks that it holds, and for how long at least.
    pub holds: Vec<(Place, Duration)>,
}

impl Standing {
    /// Whether it has stood so long that it is worth a word.
    pub fn is_stuck(&self) -> bool {
        let patience_ms = self.place.map_or(if self.turns { 1_000 } else { u64::MAX }, Place::patience_ms);
        self.since >= Duration::from_millis(patience_ms)
    }
}

/// All threads at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// In the order in which they began.
    pub threads: Vec<Standing>,
    /// Syncs of the journal that ended in the last ten seconds or so.
    pub syncs: Count,
}

impl Look {
    /// How long the last syncs of the journal took on average, if that is slow.
    pub fn slow_sync(&self) -> Option<Duration> {
        let count = u32::try_from(self.syncs.count).unwrap_or(u32::MAX);
        self.syncs.total.checked_div(count).filter(|mean| *mean >= SLOW_SYNC)
    }

    /// A thread by its name.
    pub fn thread(&self, name: &str) -> Option<&Standing> {
        self.threads.iter().find(|standing| &*standing.thread == name)
    }
}

/// What was seen of a thread.
struct Seen {
    at: (u64, Instant),
    held: [(u32, Instant); LOCKS],
}

impl Seen {
    fn new(now: Instant) -> Seen {
        Seen { at: (0, now), held: [(0, now); LOCKS] }
    }

    /// Looks once more.
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

/// What is remembered from look to look.
#[derive(Default)]
struct Looker {
    /// By the kernel's number of the thread.
    seen: HashMap<i32, Seen>,
    /// Syncs of all threads at looks a second apart; at most [`SYNC_LOOKS`].
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

/// Looks now. While somebody else does so, it is the look before.
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

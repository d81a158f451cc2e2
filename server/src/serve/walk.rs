//! A walk over the actors of a table, some at a time, in the order of the store: each is named to
//! its home shard. If the store cannot be read, the walk pauses, longer each time, and continues
//! from there.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use throng_engine::id::PartitionMap;
use throng_engine::store::Table;

use super::Rows;
use crate::disk::DiskError;

/// Initial pause if the store cannot be read; it doubles each time, up to a limit.
const REST_MIN: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_secs(60);

/// Number of attempts to pass a damaged part of a table. A table found damaged is meanwhile split,
/// which makes the data behind the damage readable; lost data stays lost.
const TRIES: u32 = 8;

/// The position of the walk.
pub(super) struct Walk {
    table: Table,
    /// Its subject for the log, in the plural.
    about: &'static str,
    /// The last actor that was named; `None` at the beginning.
    after: Option<Box<[u8]>>,
    /// Number of consecutive reads that returned only an error.
    failed: u32,
    /// When it continues after that.
    rests: Option<Instant>,
    /// Whether it has skipped lost or damaged data.
    passed: bool,
}

/// One step of the walk.
pub(super) struct Step {
    /// The actors found, by shard.
    pub(super) homes: Vec<Vec<Box<str>>>,
    /// Whether there may be further ones; otherwise the walk is at its beginning again.
    pub(super) more: bool,
    /// Whether some actors may have been skipped in this round, because they are lost or in a
    /// damaged part.
    pub(super) passed: bool,
}

impl Walk {
    pub(super) const fn over(table: Table, about: &'static str) -> Walk {
        Walk { table, about, after: None, failed: 0, rests: None, passed: false }
    }

    /// Names the next `most` actors to their home shards, as far as they are `wanted`, at most
    /// `at_once` of them in one call: keeps a shard's turn short. Returns false at the end of a
    /// round. An actor whose home did not answer is named again in the next round.
    pub(super) fn name(
        &mut self,
        (engine, partitions): (&Rows, &PartitionMap),
        (most, at_once): (usize, usize),
        wanted: fn(&str) -> bool,
        tell: &mut dyn FnMut(usize, Vec<Box<str>>),
    ) -> bool {
        let Step { homes, more, .. } = self.step(engine, partitions, most, Instant::now());
        for (shard, mut actors) in homes.into_iter().enumerate() {
            actors.retain(|actor| wanted(actor));
            actors.chunks(at_once).for_each(|actors| tell(shard, actors.to_vec()));
        }
        more
    }

    /// The next `most` actors; none during a pause. Actors whose data is lost completely are
    /// skipped and logged.
    pub(super) fn step(&mut self, engine: &Rows, partitions: &PartitionMap, most: usize, now: Instant) -> Step {
        let mut homes: Vec<Vec<Box<str>>> = vec![Vec::new(); usize::from(partitions.shards())];
        if self.rests.is_some_and(|until| now < until) {
            return Step { homes, more: true, passed: self.passed };
        }
        let mut found: Vec<Box<[u8]>> = Vec::new();
        let visited = engine.for_each_actor(self.table, self.after.as_deref(), &mut |actor| {
            found.push(actor.into());
            if found.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        for actor in found.iter().filter_map(|actor| std::str::from_utf8(actor).ok()) {
            homes[partitions.home(actor).index()].push(actor.into());
        }
        let all = found.len() >= most;
        let came = !found.is_empty();
        self.after = found.pop().or(self.after.take());
        let more = match visited {
            // With a full page, the lost data lies between the actors found.
            Err(error) if !(all && matches!(error, DiskError::Unreadable(_))) => self.cannot(came, &error, now),
            visited => {
                self.passed |= visited.is_err();
                if self.failed > 0 {
                    tracing::info!("checking {} again", self.about);
                }
                (self.failed, self.rests) = (0, None);
                all
            }
        };
        let passed = self.passed;
        if !more {
            (self.after, self.failed, self.rests, self.passed) = (None, 0, None, false);
        }
        Step { homes, more, passed }
    }

    /// Handles a failed read: whether it is tried again.
    fn cannot(&mut self, came: bool, error: &DiskError, now: Instant) -> bool {
        if came {
            self.failed = 0;
        }
        let rest = REST_MAX.min(REST_MIN * 2_u32.saturating_pow(self.failed));
        self.failed += 1;
        // Damage is permanent; a disk may recover, or have space again.
        if matches!(error, DiskError::Unreadable(_)) && self.failed >= TRIES {
            tracing::warn!(%error, "some {} may not have been looked at", self.about);
            self.passed = true;
            return false;
        }
        self.rests = Some(now + rest);
        if self.failed == 1 {
            tracing::warn!(%error, again_s = rest.as_secs(), "{} cannot be looked at; it is tried again", self.about);
        } else {
            tracing::debug!(%error, again_s = rest.as_secs(), "{} cannot be looked at", self.about);
        }
        true
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use throng_engine::store::Batch;

    use super::*;
    use crate::disk::testing::as_inner;
    use crate::disk::{Engine, MemoryEngine, Visit};

    /// A store in memory whose reads of actors fail, each after this many actors.
    #[derive(Default)]
    pub(crate) struct Flaky {
        pub(crate) inner: MemoryEngine,
        /// The failures of the next reads.
        pub(crate) fails: Mutex<Vec<(usize, DiskError)>>,
    }

    impl Engine for Flaky {
        fn for_each_actor(
            &self,
            table: Table,
            after: Option<&[u8]>,
            visit: &mut dyn FnMut(&[u8]) -> Visit,
        ) -> Result<(), DiskError> {
            let Some((mut left, error)) = self.fails.lock().expect("one thread").pop() else {
                return self.inner.for_each_actor(table, after, visit);
            };
            self.inner.for_each_actor(table, after, &mut |actor| match left {
                0 => ControlFlow::Break(()),
                _ => {
                    left -= 1;
                    visit(actor)
                }
            })?;
            Err(error)
        }
        as_inner!(commit, read);
    }

    pub(crate) fn broken() -> DiskError {
        DiskError::Io { what: "tables".into(), source: std::io::Error::from_raw_os_error(5) }
    }

    pub(crate) fn damaged() -> DiskError {
        DiskError::Unreadable("a block".into())
    }

    /// A store with this many users that have rows in a table.
    pub(crate) fn store(table: Table, users: usize) -> Flaky {
        let engine = Flaky::default();
        let mut writes = Batch::new();
        for n in 0..users {
            writes.put(table, format!("user{n:03}@localhost").as_bytes(), b"a", &[b"x"]);
        }
        engine.commit(&[writes]).expect("written");
        engine
    }

    /// The users that a walk names within this many seconds, one step each, and the second at which
    /// it ended.
    fn round(engine: &Flaky, walk: &mut Walk, seconds: u32) -> (BTreeSet<Box<str>>, Option<u32>) {
        let (partitions, begin, mut seen) = (PartitionMap::spread(2), Instant::now(), BTreeSet::new());
        let over = (0..seconds).find(|second| {
            let step = walk.step(engine, &partitions, 10, begin + Duration::from_secs(1) * *second);
            for user in step.homes.concat() {
                assert!(seen.insert(user), "nobody is named twice");
            }
            !step.more
        });
        (seen, over)
    }

    #[test]
    fn a_disk_that_fails_is_asked_again_less_and_less_often_until_it_answers() {
        let engine = store(Table::Archive, 35);
        let mut walk = Walk::over(Table::Archive, "archives");
        *engine.fails.lock().expect("one thread") = (0..12).map(|_| (0, broken())).collect();
        let (seen, over) = round(&engine, &mut walk, 1_000);
        assert_eq!(seen.len(), 35);
        // 1, 2, 4, 8, 16 and 32 seconds, and then a minute each time; and four steps.
        assert_eq!(over, Some(63 + 6 * 60 + 3));
        // In the middle of a step: the users found have been named, and are not named again.
        *engine.fails.lock().expect("one thread") = vec![(7, broken())];
        let (seen, over) = round(&engine, &mut walk, 1_000);
        assert_eq!((seen.len(), over), (35, Some(3)));
    }

    /// Data behind a damaged part of a table is found once the table is split. Permanent damage
    /// ends the round at last.
    #[test]
    fn what_is_behind_damage_is_looked_for_and_a_round_ends_all_the_same() {
        let engine = store(Table::Sessions, 25);
        let mut walk = Walk::over(Table::Sessions, "stored sessions");
        *engine.fails.lock().expect("one thread") = vec![(0, damaged()), (0, damaged()), (4, damaged())];
        let (seen, over) = round(&engine, &mut walk, 1_000);
        assert_eq!((seen.len(), over), (25, Some(9)));
        *engine.fails.lock().expect("one thread") = (0..100).map(|_| (0, damaged())).collect();
        let (seen, over) = round(&engine, &mut walk, 1_000);
        assert_eq!((seen.len(), over), (0, Some(123)));
        assert_eq!(engine.fails.lock().expect("one thread").len(), 92);
        // A full page, with something lost in between: no pause is needed.
        *engine.fails.lock().expect("one thread") = vec![(10, damaged()), (10, damaged())];
        let (seen, over) = round(&engine, &mut walk, 1_000);
        assert_eq!((seen.len(), over), (25, Some(2)));
    }
}

//! Restores sessions of the previous process: their users are named to their home shards, some at a
//! time, in the order of the store. The sessions of a user that is needed earlier are restored at
//! once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_engine::id::PartitionMap;
use throng_engine::io::{Command, SessionCommand};
use throng_engine::store::Table;

use super::Rows;
use super::control::Running;
use super::walk::{Step, Walk};
use crate::waits;

/// Interval between two steps.
const EVERY: Duration = Duration::from_millis(100);
/// Users per step: at this rate, a million users take a few minutes besides the normal work.
const USERS_A_STEP: usize = 500;
/// Users per command to a shard: keeps turns short.
const USERS_A_COMMAND: usize = 32;

/// Starts the thread that names them.
///
/// # Errors
/// The thread cannot be created.
pub(super) fn start(engine: Arc<Rows>, running: Arc<Running>) -> std::io::Result<waits::Repeated> {
    let (mut naming, mut over) = (Naming::new(running.partitions().shards()), false);
    waits::repeat("restoring", EVERY, move || {
        if over {
            return;
        }
        let mut ask = |shard, command| running.ask(shard, command).is_ok();
        over = !naming.step(&*engine, running.partitions(), USERS_A_STEP, Instant::now(), &mut ask);
    })
}

/// The progress.
struct Naming {
    walk: Walk,
    /// Shards that missed some of their users. They are never told that restoring is complete, and
    /// continue to look for the sessions of each user that is needed.
    unheard: Vec<bool>,
}

impl Naming {
    fn new(shards: u16) -> Naming {
        Naming { walk: Walk::over(Table::Sessions, "stored sessions"), unheard: vec![false; usize::from(shards)] }
    }

    /// Names the next `most` users to their home shards; returns false at the end.
    fn step(
        &mut self,
        engine: &Rows,
        partitions: &PartitionMap,
        most: usize,
        now: Instant,
        ask: &mut dyn FnMut(usize, Command) -> bool,
    ) -> bool {
        let Step { homes, more, passed } = self.walk.step(engine, partitions, most, now);
        for ((shard, users), unheard) in homes.iter().enumerate().zip(&mut self.unheard) {
            for users in users.chunks(USERS_A_COMMAND) {
                *unheard |=
                    !ask(shard, Command::Session(SessionCommand::Restore { users: users.to_vec(), last: false }));
            }
            if !more && !passed && !*unheard {
                ask(shard, Command::Session(SessionCommand::Restore { users: Vec::new(), last: true }));
            }
        }
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Engine as _;
    use crate::serve::meta::has_sessions;
    use crate::serve::walk::tests::{Flaky, broken};
    use std::collections::BTreeMap;
    use throng_engine::store::Batch;

    #[test]
    fn every_user_with_sessions_is_named_once_to_its_home_and_then_it_is_over() {
        let partitions = PartitionMap::spread(3);
        let engine = Flaky::default();
        assert!(!has_sessions(&engine).expect("read"));
        let mut writes = Batch::new();
        for n in 0..100u64 {
            for session in [b"a", b"b"] {
                writes.put(Table::Sessions, format!("user{n}@localhost").as_bytes(), session, &[b"x"]);
            }
        }
        writes.put(Table::Accounts, b"nobody@localhost", b"", &[b"x"]);
        engine.commit(&[writes]).expect("written");
        assert!(has_sessions(&engine).expect("read"));
        // A disk that does not answer for a while does not keep users away for ever.
        *engine.fails.lock().expect("one thread") = vec![(0, broken()), (7, broken()), (0, broken())];
        let mut now = Instant::now();
        let (mut naming, mut seen, mut ended) = (Naming::new(3), BTreeMap::<String, usize>::new(), Vec::new());
        loop {
            let mut ask = |shard: usize, command: Command| {
                let Command::Session(SessionCommand::Restore { users, last }) = command else {
                    panic!("another command")
                };
                for user in users {
                    assert_eq!(partitions.home(&user).index(), shard);
                    *seen.entry(user.into()).or_default() += 1;
                }
                ended.extend(last.then_some(shard));
                true
            };
            now += Duration::from_secs(10);
            if !naming.step(&engine, &partitions, 30, now, &mut ask) {
                break;
            }
        }
        assert_eq!((seen.len(), ended), (100, vec![0, 1, 2]));
        assert!(seen.values().all(|times| *times == 1));
    }

    /// A shard that missed users is not told that restoring is complete: such a user may have a
    /// session that is still unknown.
    #[test]
    fn a_shard_that_has_not_answered_is_not_told_that_these_were_all() {
        let (partitions, engine) = (PartitionMap::spread(2), Flaky::default());
        let mut writes = Batch::new();
        for n in 0..40u64 {
            writes.put(Table::Sessions, format!("user{n}@localhost").as_bytes(), b"a", &[b"x"]);
        }
        engine.commit(&[writes]).expect("written");
        let (mut naming, mut ended) = (Naming::new(2), Vec::new());
        let mut ask = |shard: usize, command: Command| {
            let Command::Session(SessionCommand::Restore { last, .. }) = command else { panic!("another command") };
            ended.extend(last.then_some(shard));
            shard != 1
        };
        while naming.step(&engine, &partitions, 10, Instant::now(), &mut ask) {}
        assert_eq!(ended, [0]);
    }
}

//! The slow sweep over all archives. Every second a few users, in the order of the store, are named
//! to their home shards, which drop what is too old. It queries one shard after another and waits
//! for each, so that it uses only its share.

use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_engine::id::PartitionMap;
use throng_engine::io::{Command, LogCommand, Reply};
use throng_engine::store::Table;

use super::Rows;
use super::control::Running;
use super::walk::Walk;
use crate::waits;

/// Interval between two steps.
const EVERY: Duration = Duration::from_secs(1);
/// Time between the end of a round over all users and the next round: retention is counted in days
/// and needs no more frequent checks.
const ROUND: Duration = Duration::from_secs(3_600);
/// Users per command to a shard.
const USERS_A_COMMAND: usize = 16;

/// The operator's current settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    /// Users examined per second.
    pub(super) users_per_second: usize,
    /// Days for which messages are kept.
    pub(super) days: u64,
}

/// Starts the thread of the sweep: it checks every second whether the sweep is enabled, and then
/// examines the configured number of users.
///
/// # Errors
/// The thread cannot be created.
pub(super) fn start(engine: Arc<Rows>, running: Arc<Running>) -> std::io::Result<waits::Repeated> {
    let mut walk = Walk::over(Table::Archive, "archives");
    let mut rounds = Rounds::default();
    waits::repeat("retention", EVERY, move || {
        #[cfg(debug_assertions)]
        crate::plant::pass("retention");
        let Some(wanted) = running.retention().filter(|wanted| rounds.is_due(wanted.days, Instant::now())) else {
            return;
        };
        let mut ask = |shard, command| running.ask(shard, command).ok();
        if !step(&*engine, running.partitions(), &mut walk, wanted.users_per_second, &mut ask) {
            rounds.ended(wanted.days, Instant::now());
        }
    })
}

/// The schedule of rounds.
#[derive(Default)]
struct Rounds {
    /// When the last one ended, and its number of days.
    ended: Option<(Instant, u64)>,
}

impl Rounds {
    /// Whether a round is in progress, or one may begin: after a while, or because the number of
    /// days has changed since the last.
    fn is_due(&mut self, days: u64, now: Instant) -> bool {
        self.ended.take_if(|(ended, of)| *of != days || now.duration_since(*ended) >= ROUND);
        self.ended.is_none()
    }

    fn ended(&mut self, days: u64, now: Instant) {
        self.ended = Some((now, days));
    }
}

/// Names the next `most` users to their home shards; returns false at the end of a round.
fn step(
    engine: &Rows,
    partitions: &PartitionMap,
    walk: &mut Walk,
    most: usize,
    ask: &mut dyn FnMut(usize, Command) -> Option<Reply>,
) -> bool {
    walk.name((engine, partitions), (most, USERS_A_COMMAND), |_| true, &mut |shard, users| {
        if let Some(Reply::Done(trimmed @ 1..)) = ask(shard, Command::Log(LogCommand::Retain { users })) {
            tracing::debug!(shard, trimmed, "removed old messages from archives");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Engine, MemoryEngine};
    use std::collections::BTreeMap;
    use throng_engine::store::Batch;

    #[test]
    fn a_round_begins_an_hour_after_the_last_or_when_other_days_are_wanted() {
        let (mut rounds, now) = (Rounds::default(), Instant::now());
        assert!(rounds.is_due(7, now));
        rounds.ended(7, now);
        assert!(!rounds.is_due(7, now + ROUND - EVERY));
        assert!(rounds.is_due(7, now + ROUND) && rounds.is_due(7, now + ROUND), "and goes on");
        rounds.ended(7, now);
        assert!(rounds.is_due(3, now + EVERY));
    }

    #[test]
    fn every_user_has_a_turn_at_its_home_a_few_at_a_time() {
        let partitions = PartitionMap::spread(3);
        let engine = MemoryEngine::default();
        let mut writes = Batch::new();
        for n in 0..100u64 {
            for id in [n, n + 1_000] {
                writes.put(Table::Archive, format!("user{n}@localhost").as_bytes(), &id.to_be_bytes(), &[b"x"]);
            }
        }
        writes.put(Table::Accounts, b"silent@localhost", b"", &[b"x"]);
        engine.commit(&[writes]).expect("written");
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let (mut walk, mut steps) = (Walk::over(Table::Archive, "archives"), 0);
        loop {
            let mut named = 0;
            let mut ask = |shard: usize, command: Command| {
                let Command::Log(LogCommand::Retain { users }) = command else { panic!("another command") };
                assert!(users.len() <= USERS_A_COMMAND);
                for user in users {
                    assert_eq!(partitions.home(&user).index(), shard);
                    named += 1;
                    *seen.entry(user.into()).or_default() += 1;
                }
                // The sweep continues even if a shard does not answer.
                (shard > 0).then_some(Reply::Done(1))
            };
            let more = step(&engine, &partitions, &mut walk, 30, &mut ask);
            assert!(named <= 30);
            steps += 1;
            if !more {
                break;
            }
        }
        assert_eq!(steps, 4);
        let next = walk.step(&engine, &partitions, 1, Instant::now());
        assert_eq!(next.homes.concat().len(), 1, "the next round begins at the beginning");
        assert_eq!(seen.len(), 100);
        assert!(seen.values().all(|times| *times == 1));
    }
}

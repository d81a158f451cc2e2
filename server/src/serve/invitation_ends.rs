//! The slow sweep over all invitations and accounts that wait for approval. Every second some
//! actors, in the order of the store, are named to their home shards, which remove what has
//! expired. This also frees names that were reserved by an invitation and never requested again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_engine::id::PartitionMap;
use throng_engine::io::{Command, InvitationCommand, Reply};
use throng_engine::store::Table;

use super::Rows;
use super::control::Running;
use super::walk::Walk;
use crate::waits;

/// Interval between two steps.
const EVERY: Duration = Duration::from_secs(1);
/// Time between the end of a round over all actors and the next round. Expired data is kept for an
/// hour anyway.
const ROUND: Duration = Duration::from_secs(3_600);
/// Actors per step.
const ACTORS_A_STEP: usize = 50;
/// Actors per command to a shard.
const ACTORS_A_COMMAND: usize = 16;

/// Starts the thread of the sweep.
///
/// # Errors
/// The thread cannot be created.
pub(super) fn start(engine: Arc<Rows>, running: Arc<Running>) -> std::io::Result<waits::Repeated> {
    let mut walk = Walk::over(Table::Invitations, "invitations");
    let mut ended: Option<Instant> = None;
    waits::repeat("invitation-ends", EVERY, move || {
        let rests = ended.is_some_and(|ended| ended.elapsed() < ROUND);
        if rests || !running.keeps_house() {
            return;
        }
        let mut ask = |shard, command| running.ask(shard, command).ok();
        let more = step(&*engine, running.partitions(), &mut walk, ACTORS_A_STEP, &mut ask);
        ended = (!more).then(Instant::now);
    })
}

/// Names the next `most` actors to their home shards; returns false at the end of a round.
fn step(
    engine: &Rows,
    partitions: &PartitionMap,
    walk: &mut Walk,
    most: usize,
    ask: &mut dyn FnMut(usize, Command) -> Option<Reply>,
) -> bool {
    walk.name((engine, partitions), (most, ACTORS_A_COMMAND), |_| true, &mut |shard, actors| {
        ask(shard, Command::Invitation(InvitationCommand::Sweep { actors }));
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Engine, MemoryEngine};
    use std::collections::BTreeSet;
    use throng_engine::store::Batch;

    #[test]
    fn every_actor_with_invitations_is_named_once_to_its_home_a_few_at_a_time() {
        let partitions = PartitionMap::spread(3);
        let engine = MemoryEngine::default();
        let mut writes = Batch::new();
        let actors = (0..100).map(|n| format!("user{n}@localhost")).chain(["localhost".to_owned()]);
        let actors: BTreeSet<String> = actors.collect();
        for actor in &actors {
            [b"a", b"b"].iter().for_each(|sort| writes.put(Table::Invitations, actor.as_bytes(), *sort, &[b"x"]));
        }
        writes.put(Table::Accounts, b"silent@localhost", b"", &[b"x"]);
        engine.commit(&[writes]).expect("written");
        let (mut walk, mut seen, mut steps) = (Walk::over(Table::Invitations, "invitations"), BTreeSet::new(), 0);
        loop {
            let mut ask = |shard: usize, command: Command| {
                let Command::Invitation(InvitationCommand::Sweep { actors }) = command else {
                    panic!("another command")
                };
                assert!((1..=ACTORS_A_COMMAND).contains(&actors.len()));
                for actor in actors {
                    assert_eq!(partitions.home(&actor).index(), shard);
                    assert!(seen.insert(String::from(actor)), "once");
                }
                // The sweep continues even if a shard does not answer.
                (shard > 0).then_some(Reply::Done(1))
            };
            steps += 1;
            if !step(&engine, &partitions, &mut walk, 40, &mut ask) {
                break;
            }
        }
        assert_eq!((seen, steps), (actors, 3));
    }
}

//! The slow sweep over all channels with push registrations. Every second some nodes, in the order
//! of the store, are named to their home shards, which remove what has expired. This also removes
//! registrations at channels without further publications.

use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_engine::id::PartitionMap;
use throng_engine::io::{Command, Reply};
use throng_engine::store::Table;

use super::Rows;
use super::control::Running;
use super::walk::Walk;
use crate::waits;

/// Interval between two steps.
const EVERY: Duration = Duration::from_secs(1);
/// Time between the end of a round over all nodes and the next round. Registrations are valid for
/// an hour at least, and most for weeks.
const ROUND: Duration = Duration::from_secs(3_600);
/// Actors per step; users with nodes of their own are among them, and skipped.
const ACTORS_A_STEP: usize = 200;
/// Nodes per command to a shard.
const NODES_A_COMMAND: usize = 32;

/// Starts the thread of the sweep.
///
/// # Errors
/// The thread cannot be created.
pub(super) fn start(engine: Arc<Rows>, running: Arc<Running>) -> std::io::Result<waits::Repeated> {
    let mut walk = Walk::over(Table::Nodes, "registrations for pushes");
    let mut ended: Option<Instant> = None;
    waits::repeat("push-ends", EVERY, move || {
        let rests = ended.is_some_and(|ended| ended.elapsed() < ROUND);
        if rests || !running.ends_registrations() {
            return;
        }
        let mut ask = |shard, command| running.ask(shard, command).ok();
        let more = step(&*engine, running.partitions(), &mut walk, ACTORS_A_STEP, &mut ask);
        ended = (!more).then(Instant::now);
    })
}

/// Names the nodes of services among the next `most` actors to their home shards; returns false at
/// the end of a round.
fn step(
    engine: &Rows,
    partitions: &PartitionMap,
    walk: &mut Walk,
    most: usize,
    ask: &mut dyn FnMut(usize, Command) -> Option<Reply>,
) -> bool {
    // The others are users and services.
    let is_node = |actor: &str| actor.contains('/');
    walk.name((engine, partitions), (most, NODES_A_COMMAND), is_node, &mut |shard, nodes| {
        if let Some(Reply::Done(ended @ 1..)) = ask(shard, Command::EndRegistrations { nodes }) {
            tracing::debug!(shard, ended, "registrations for pushes were over");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Engine, MemoryEngine};
    use std::collections::BTreeSet;
    use throng_engine::store::Batch;

    #[test]
    fn every_node_of_a_service_is_named_once_to_its_home_a_few_at_a_time() {
        let partitions = PartitionMap::spread(3);
        let engine = MemoryEngine::default();
        let mut writes = Batch::new();
        for n in 0..150u64 {
            for actor in [format!("pubsub.localhost/{n}"), format!("user{n}@localhost")] {
                writes.put(Table::Nodes, actor.as_bytes(), b"x", &[b"x"]);
            }
        }
        writes.put(Table::Nodes, b"pubsub.localhost", b"x", &[b"x"]);
        engine.commit(&[writes]).expect("written");
        let (mut walk, mut seen) = (Walk::over(Table::Nodes, "registrations for pushes"), BTreeSet::new());
        let mut steps = 0;
        loop {
            let mut ask = |shard: usize, command: Command| {
                let Command::EndRegistrations { nodes } = command else { panic!("another command") };
                assert!((1..=NODES_A_COMMAND).contains(&nodes.len()));
                for node in nodes {
                    assert_eq!(partitions.home(&node).index(), shard);
                    assert!(node.starts_with("pubsub.localhost/") && seen.insert(node), "once");
                }
                // The sweep continues even if a shard does not answer.
                (shard > 0).then_some(Reply::Done(1))
            };
            steps += 1;
            if !step(&engine, &partitions, &mut walk, 100, &mut ask) {
                break;
            }
        }
        assert_eq!((seen.len(), steps), (150, 4));
    }
}

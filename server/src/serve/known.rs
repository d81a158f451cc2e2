//! Figures of the server that can be read from other threads: for the recorder, and for metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use throng_engine::counters::{Counted, Counters, Latencies};
use throng_engine::id::ShardId;
use throng_sys::committed_memory;

use super::Rows;
use crate::disk::{ReadCounters, Seen};
use crate::http::Delay;
use crate::letters::Traffic;
use crate::record::memory::{FILES, Parts, RESERVED, RESIDENT, by_part, resident};
use crate::record::work::{Work, Worker};
use crate::record::{Inside, Lane};
use crate::thread::Timings;

/// Number of letters that is a backlog of one shard.
const LETTERS_BACKLOG: u64 = 2_000;

/// The figures of all modules. Cheap to clone.
#[derive(Clone)]
pub(super) struct Known {
    /// The counters of the shards.
    pub(super) counters: Vec<Arc<Counters>>,
    /// The latencies at the shards.
    pub(super) timings: Vec<Arc<Timings>>,
    /// The traffic of letters between shards.
    pub(super) traffic: Arc<Traffic>,
    /// The store, with its counters.
    pub(super) engine: Arc<Rows>,
    /// The counters of each reader thread.
    pub(super) reads: Vec<Seen<ReadCounters>>,
}

/// Memory of the process.
#[derive(Default)]
pub(super) struct Held {
    /// Resident memory.
    pub(super) resident_bytes: u64,
    /// Address space of the allocator.
    pub(super) reserved_bytes: u64,
    /// Resident memory by owner.
    pub(super) parts: BTreeMap<String, u64>,
}

fn worker<T: Counted + 'static>(name: String, counters: &Arc<T>, latencies: &Arc<Latencies>) -> Worker {
    Worker { name, counters: counters.clone(), latencies: latencies.clone() }
}

impl Known {
    /// Letters to each shard, by the numbers received and handled. Letters to itself never wait for
    /// another shard.
    fn letters(&self) -> Lane {
        let (traffic, counters) = (self.traffic.clone(), self.counters.clone());
        let counts = move |shard: usize| {
            // Read the handled ones first: a letter sent in between counts as waiting.
            let handled = counters[shard].letters_in.get();
            (traffic.to(ShardId(shard as u16)), handled)
        };
        Lane { name: "letters", unit: "letters", backlog: LETTERS_BACKLOG, counts: Box::new(counts) }
    }

    /// The work of the store's threads.
    pub(super) fn works(&self) -> Vec<Work> {
        let Seen { counters, latencies } = self.engine.counters();
        let reads = self.reads.iter().enumerate();
        vec![
            Work {
                module: "store",
                help: "The store: groups of commits, the journal, and the tables behind it.",
                piece: ("commit", "commits"),
                means: &[("sync", "syncs"), ("flush", "flushes"), ("merge", "merges")],
                workers: vec![worker(String::new(), counters, latencies)],
            },
            Work {
                module: "reads",
                help: "Threads that read from the store.",
                piece: ("read", "requests"),
                means: &[],
                workers: reads.map(|(at, seen)| worker(at.to_string(), &seen.counters, &seen.latencies)).collect(),
            },
        ]
    }

    /// Latencies.
    pub(super) fn delays(&self) -> Vec<Delay> {
        let shards = |of, help, pick: fn(&Arc<Timings>) -> Arc<Latencies>| {
            let sets = self.timings.iter().enumerate().map(|(shard, own)| (shard.to_string(), pick(own)));
            Delay { of, by: Some("shard"), help, sets: sets.collect() }
        };
        let store = vec![(String::new(), self.engine.counters().latencies.clone())];
        let readers = self.reads.iter().enumerate().map(|(at, seen)| (at.to_string(), seen.latencies.clone()));
        vec![
            shards(
                "message_delivery",
                "From reading a message to sending it to a connection of its receiver, its commit included; of messages for \
                 sessions that are connected, at the receiver's shard.",
                |own| own.messages.clone(),
            ),
            shards(
                "login",
                "From the first element of an authentication to the answer that it is good, with the client's own answers.",
                |own| own.logins.clone(),
            ),
            shards(
                "publication",
                "From a request to publish at a channel to the answer that it is done, its commit included.",
                |own| own.publications.clone(),
            ),
            Delay { of: "commit", by: None, help: "A commit of the store, its sync included.", sets: store },
            Delay { of: "read", by: Some("thread"), help: "A request to the store.", sets: readers.collect() },
        ]
    }

    /// Memory that does not belong to a shard.
    pub(super) fn memory(&self) -> Parts {
        let engine = self.engine.clone();
        Arc::new(move |tell: &mut dyn FnMut(&'static str, u64)| {
            let memory = engine.memory();
            tell("memtables", memory.memtables);
            tell("blocks", memory.blocks);
            tell("filters", memory.filters);
            tell(RESERVED, committed_memory());
            if let Some((all, files)) = resident() {
                tell(FILES, files);
                tell(RESIDENT, all);
            }
        })
    }

    /// The same by part, with that of the shards: the parts, and the figures that are not parts.
    pub(super) fn memory_by_part(&self) -> Held {
        let mut held = Held::default();
        by_part(&self.counters, &self.memory(), &mut |part, bytes| match part {
            RESIDENT => held.resident_bytes = bytes,
            RESERVED => held.reserved_bytes = bytes,
            part => drop(held.parts.insert(part.to_owned(), bytes)),
        });
        held
    }

    /// All of it, for the recorder.
    pub(super) fn for_recorder(&self) -> Inside {
        Inside {
            counters: self.counters.clone(),
            lanes: vec![self.letters()],
            works: self.works(),
            memory: self.memory(),
        }
    }
}

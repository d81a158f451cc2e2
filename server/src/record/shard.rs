//! What each shard counts of itself: the engine's table of counters, a row a shard.

use std::sync::Arc;

use throng_engine::counters::{Counted, Counters};
use throng_recorder::schema::{Field, Module};
use throng_recorder::table::{Source, Table};

use super::work::field;

/// Shards of a server at most; more are not recorded.
const SHARDS_MAX: u16 = 1024;

/// The counters of all shards.
#[derive(Debug)]
pub struct Shards {
    counters: Vec<Arc<Counters>>,
    /// The shards' numbers, as they are named.
    names: Vec<String>,
}

impl Shards {
    /// Of these shards, in their order.
    pub fn new(counters: Vec<Arc<Counters>>) -> Shards {
        let names = (0..counters.len()).map(|shard| shard.to_string()).collect();
        Shards { counters, names }
    }
}

impl Source for Shards {
    fn modules(&self) -> Vec<Module> {
        let mut fields: Vec<Field> = Counters::default().list().into_iter().map(field).collect();
        fields.push(Field::quotient("events_turn", "", ("events", "turns", 1), "Events of the network a turn."));
        vec![Module::single("shard", "What each shard counts of itself.", fields).by("shard", SHARDS_MAX)]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        for (name, counters) in self.names.iter().zip(&self.counters) {
            if let Some(row) = tables[0].row(name.as_bytes()) {
                counters.read(row);
            }
        }
    }
}

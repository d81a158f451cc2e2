//! What each shard counts of itself: the engine's table of counters, a row a shard.

use std::borrow::Cow;
use std::sync::Arc;

use throng_engine::counters::{CounterKind, Counters};
use throng_recorder::schema::{Field, Kind, Module};
use throng_recorder::table::{Source, Table};

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

/// A counter of the engine as a field: those that count bytes say so in their names.
fn field((name, kind, help, _): (&'static str, CounterKind, &'static str, u64)) -> Field {
    let bytes = name.contains("bytes");
    Field {
        name: Cow::Borrowed(name),
        unit: Cow::Borrowed(if bytes { "KiB" } else { "" }),
        kind: match kind {
            CounterKind::Count => Kind::Count,
            CounterKind::Gauge => Kind::Gauge,
        },
        per: if bytes { 1024 } else { 1 },
        width: 8,
        help: Cow::Borrowed(help),
    }
}

impl Source for Shards {
    fn modules(&self) -> Vec<Module> {
        let fields = Counters::default().list().into_iter().map(field).collect();
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

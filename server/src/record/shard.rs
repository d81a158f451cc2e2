//! The counters of each shard: the engine's table of counters, one row per shard.

use std::sync::Arc;
use std::time::Instant;

use throng_engine::counters::{Counted, Counters};
use throng_recorder::schema::{Field, Module};
use throng_recorder::table::{Source, Table};

use super::work::field;

/// Most recorded shards; further ones are not recorded.
const SHARDS_MAX: u16 = 1024;

/// The counters of all shards.
#[derive(Debug)]
pub struct Shards {
    counters: Vec<Arc<Counters>>,
    /// The names of the shards: their numbers.
    names: Vec<String>,
    /// For each shard, the last reported sleep time, microseconds.
    slept_us: Vec<u64>,
    /// The index of that column in a row.
    sleep_at: usize,
    sampled: Instant,
}

impl Shards {
    /// For these shards, in their order.
    pub fn new(counters: Vec<Arc<Counters>>) -> Shards {
        let names = (0..counters.len()).map(|shard| shard.to_string()).collect();
        let slept_us = counters.iter().map(|counters| counters.sleep_us.get()).collect();
        let sleep_at = Counters::default().list().iter().position(|(name, ..)| *name == "sleep_us");
        let sleep_at = sleep_at.expect("shards count how long they sleep");
        Shards { counters, names, slept_us, sleep_at, sampled: Instant::now() }
    }
}

/// The sleep time to report. A sleep is counted as a whole when it ends: if it exceeds the time
/// passed since `told`, the rest is reported with the next samples, so that no interval contains
/// more sleep than time.
fn told_us(told: u64, counted: u64, passed_us: u64) -> u64 {
    counted.min(told + passed_us)
}

impl Source for Shards {
    fn modules(&self) -> Vec<Module> {
        let mut fields: Vec<Field> = Counters::default().list().into_iter().map(field).collect();
        fields.push(Field::quotient("events_turn", "", ("events", "turns", 1), "Network events per turn."));
        vec![Module::single("shard", "The counters of each shard.", fields).by("shard", SHARDS_MAX).adds_up()]
    }

    fn sample(&mut self, tables: &mut [Table]) {
        let now = Instant::now();
        let passed_us = now.duration_since(std::mem::replace(&mut self.sampled, now)).as_micros() as u64;
        for ((name, counters), slept_us) in self.names.iter().zip(&self.counters).zip(&mut self.slept_us) {
            if let Some(row) = tables[0].row(name.as_bytes()) {
                counters.read(row);
                *slept_us = told_us(*slept_us, row[self.sleep_at], passed_us);
                row[self.sleep_at] = *slept_us;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_that_ends_late_fills_no_second_beyond_its_length() {
        // A thread that only sleeps, for 0.4 s each time: the counts are 0.8, 2.0, 2.8, 4.0 s.
        let counted = [800_000, 2_000_000, 2_800_000, 4_000_000, 4_800_000];
        let mut told = vec![0];
        for counted in counted {
            told.push(told_us(told[told.len() - 1], counted, 1_000_000));
        }
        assert_eq!(told, [0, 800_000, 1_800_000, 2_800_000, 3_800_000, 4_800_000]);
        assert_eq!(told_us(5_000_000, 5_000_000, 1_000_000), 5_000_000, "nothing is told that was not counted");
    }
}

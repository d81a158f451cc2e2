//! The simulated store: what is durable, what is on its way there, and what a crash leaves of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use throng_engine::id::Gate;
use throng_engine::store::{Batch, Found, OpView, Query, Row, Table, key};

use crate::random::Random;

/// Rows and commits under way.
#[derive(Debug, Default)]
pub struct Disk {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: VecDeque<(Gate, Batch)>,
    last: u64,
    durable: Gate,
    /// Partitions of tables that cannot be read.
    damaged: BTreeSet<Vec<u8>>,
}

fn flat(table: Table, partition: &[u8], sort: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(partition.len() + sort.len() + 2);
    key::encode(&mut out, table, partition, sort);
    out
}

/// First flat key behind a partition.
fn behind(table: Table, partition: &[u8]) -> Vec<u8> {
    let mut out = flat(table, partition, b"");
    *out.last_mut().expect("a flat key ends in NUL here") = 1;
    out
}

impl Disk {
    /// Takes a turn's writes; they are durable once [`Disk::durable`] has reached the ticket.
    pub fn submit(&mut self, batch: Batch) -> Gate {
        self.last += 1;
        self.pending.push_back((Gate(self.last), batch));
        Gate(self.last)
    }

    /// Up to here everything is durable, and known to be.
    pub fn durable(&self) -> Gate {
        self.durable
    }

    /// Batches that wait.
    pub fn waiting(&self) -> usize {
        self.pending.len()
    }

    /// Makes the next batches durable, in the order of their tickets.
    pub fn commit(&mut self, batches: usize) {
        for _ in 0..batches {
            let Some((ticket, batch)) = self.pending.pop_front() else { return };
            self.apply(&batch);
            self.durable = ticket;
        }
    }

    /// The process dies: of the batches under way a beginning may have become durable without anyone having heard, the
    /// rest is gone. Tickets start anew.
    pub fn crash(&mut self, random: &mut Random) {
        let whole = random.below(self.pending.len() as u64 + 1) as usize;
        let whole = if random.chance(500) { 0 } else { whole };
        for (_, batch) in std::mem::take(&mut self.pending).into_iter().take(whole) {
            self.apply(&batch);
        }
        self.last = 0;
        self.durable = Gate(0);
    }

    /// The same of one row: what is there before the world begins.
    pub fn put(&mut self, table: Table, partition: &str, sort: &[u8], value: &[u8]) {
        self.rows.insert(flat(table, partition.as_bytes(), sort), value.to_vec());
    }

    /// Durable rows of a partition.
    pub fn partition(&self, table: Table, partition: &str) -> impl Iterator<Item = (&[u8], &[u8])> {
        let range = flat(table, partition.as_bytes(), b"")..behind(table, partition.as_bytes());
        self.rows.range(range).filter_map(|(key, value)| Some((key::decode(key)?.2, value.as_slice())))
    }

    /// Makes a partition of a table unreadable, or readable again.
    pub fn damage(&mut self, table: Table, partition: &str, damaged: bool) {
        let prefix = flat(table, partition.as_bytes(), b"");
        if damaged {
            self.damaged.insert(prefix)
        } else {
            self.damaged.remove(&prefix)
        };
    }

    /// Answers from what is durable.
    pub fn read(&self, query: &Query) -> Found {
        let (Query::Get { table, partition, .. } | Query::Range { table, partition, .. }) = query;
        if self.damaged.contains(&flat(*table, partition, b"")) {
            return Found::Damaged;
        }
        match query {
            Query::Get { table, partition, sort } => {
                Found::Value(self.rows.get(&flat(*table, partition, sort)).map(|value| value.as_slice().into()))
            }
            Query::Range { table, partition, from, until, reverse, rows_max, bytes_max } => {
                let from = flat(*table, partition, from);
                let until = until.as_deref().map_or_else(|| behind(*table, partition), |u| flat(*table, partition, u));
                if from >= until {
                    return Found::Rows { rows: Vec::new(), more: false };
                }
                let range = self.rows.range(from..until);
                if *reverse {
                    collect(range.rev(), *rows_max, *bytes_max)
                } else {
                    collect(range, *rows_max, *bytes_max)
                }
            }
        }
    }

    /// Writes past the committer: durable at once.
    pub fn apply(&mut self, batch: &Batch) {
        for op in batch.iter() {
            match op {
                OpView::Put { table, partition, sort, value } => {
                    self.rows.insert(flat(table, partition, sort), value.to_vec());
                }
                OpView::Delete { table, partition, sort } => {
                    self.rows.remove(&flat(table, partition, sort));
                }
                OpView::DeleteRange { table, partition, from, until } => {
                    self.remove(flat(table, partition, from), flat(table, partition, until));
                }
                OpView::DeletePartition { table, partition } => {
                    self.remove(flat(table, partition, b""), behind(table, partition));
                }
            }
        }
    }

    fn remove(&mut self, from: Vec<u8>, until: Vec<u8>) {
        if from < until {
            let gone: Vec<_> = self.rows.range(from..until).map(|(key, _)| key.clone()).collect();
            for key in gone {
                self.rows.remove(&key);
            }
        }
    }
}

fn collect<'a>(range: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>, rows_max: u32, bytes_max: u32) -> Found {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for (key, value) in range {
        if rows.len() >= rows_max as usize || (!rows.is_empty() && bytes >= bytes_max as usize) {
            return Found::Rows { rows, more: true };
        }
        bytes += value.len();
        let sort = key::decode(key).map_or(&[][..], |(_, _, sort)| sort);
        rows.push(Row { sort: sort.into(), value: value.as_slice().into() });
    }
    Found::Rows { rows, more: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(sort: &[u8]) -> Batch {
        let mut batch = Batch::new();
        batch.put(Table::Archive, b"a@x", sort, &[b"v"]);
        batch
    }

    #[test]
    fn a_crash_keeps_a_beginning_of_what_was_under_way_and_all_that_was_durable() {
        for seed in 0..50 {
            let mut disk = Disk::default();
            for n in 0..6u8 {
                disk.submit(batch(&[n]));
            }
            disk.commit(2);
            assert_eq!(disk.durable(), Gate(2));
            disk.crash(&mut Random::new(seed));
            let left: Vec<u8> = disk.partition(Table::Archive, "a@x").map(|(sort, _)| sort[0]).collect();
            assert!(left.len() >= 2 && left.iter().copied().eq(0..left.len() as u8), "{left:?}");
        }
    }

    #[test]
    fn ranges_have_limits() {
        let mut disk = Disk::default();
        for n in 0..6u8 {
            disk.submit(batch(&[n]));
        }
        disk.commit(6);
        let query = Query::Range {
            table: Table::Archive,
            partition: b"a@x".as_slice().into(),
            from: [2].into(),
            until: None,
            reverse: true,
            rows_max: 3,
            bytes_max: 100,
        };
        let Found::Rows { rows, more } = disk.read(&query) else { panic!() };
        assert_eq!((rows.iter().map(|r| r.sort[0]).collect::<Vec<_>>(), more), (vec![5, 4, 3], true));
    }
}

//! The simulated store: durable rows, commits in progress, and what survives a crash.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use throng_engine::id::Gate;
use throng_engine::store::{Batch, Found, OpView, Query, Row, Table, key};

use crate::random::Random;

/// Rows and pending commits.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: VecDeque<(Gate, Batch)>,
    last: u64,
    durable: Gate,
    /// Actors whose rows in a table cannot be read.
    damaged: BTreeSet<Vec<u8>>,
}

fn flat(table: Table, actor: &[u8], sort: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(actor.len() + sort.len() + 2);
    key::encode(&mut out, table, actor, sort);
    out
}

/// First flat key after an actor.
fn behind(table: Table, actor: &[u8]) -> Vec<u8> {
    let mut out = flat(table, actor, b"");
    *out.last_mut().expect("a flat key ends in NUL here") = 1;
    out
}

impl Disk {
    /// Accepts a turn's writes; they are durable once [`Disk::durable`] has reached the ticket.
    pub fn submit(&mut self, batch: Batch) -> Gate {
        self.last += 1;
        self.pending.push_back((Gate(self.last), batch));
        Gate(self.last)
    }

    /// Everything up to this ticket is durable, and known to be.
    pub fn durable(&self) -> Gate {
        self.durable
    }

    /// Number of waiting batches.
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

    /// Kills the process: a prefix of the pending batches may have become durable unnoticed, the
    /// rest is lost. Tickets start anew.
    pub fn crash(&mut self, random: &mut Random) {
        let whole = random.below(self.pending.len() as u64 + 1) as usize;
        let whole = if random.chance(500) { 0 } else { whole };
        for (_, batch) in std::mem::take(&mut self.pending).into_iter().take(whole) {
            self.apply(&batch);
        }
        self.last = 0;
        self.durable = Gate(0);
    }

    /// Writes one row directly: state that exists before the world begins.
    pub fn put(&mut self, table: Table, actor: &str, sort: &[u8], value: &[u8]) {
        self.rows.insert(flat(table, actor.as_bytes(), sort), value.to_vec());
    }

    /// Durable rows of an actor.
    pub fn rows_of(&self, table: Table, actor: &str) -> impl Iterator<Item = (&[u8], &[u8])> {
        let range = flat(table, actor.as_bytes(), b"")..behind(table, actor.as_bytes());
        self.rows.range(range).filter_map(|(key, value)| Some((key::decode(key)?.2, value.as_slice())))
    }

    /// Whether a table has durable rows.
    pub fn has_rows(&self, table: Table) -> bool {
        self.rows.range(vec![table as u8]..vec![table as u8 + 1]).next().is_some()
    }

    /// Makes an actor's rows in a table unreadable, or readable again.
    pub fn damage(&mut self, table: Table, actor: &str, damaged: bool) {
        let prefix = flat(table, actor.as_bytes(), b"");
        if damaged {
            self.damaged.insert(prefix)
        } else {
            self.damaged.remove(&prefix)
        };
    }

    /// Answers a query from durable rows.
    pub fn read(&self, query: &Query) -> Found {
        let (Query::Get { table, actor, .. } | Query::Range { table, actor, .. }) = query;
        if self.damaged.contains(&flat(*table, actor, b"")) {
            return Found::Damaged;
        }
        match query {
            Query::Get { table, actor, sort } => {
                Found::Value(self.rows.get(&flat(*table, actor, sort)).map(|value| value.as_slice().into()))
            }
            Query::Range { table, actor, from, until, reverse, rows_max, bytes_max } => {
                let from = flat(*table, actor, from);
                let until = until.as_deref().map_or_else(|| behind(*table, actor), |u| flat(*table, actor, u));
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
                OpView::Put { table, actor, sort, value } => {
                    self.rows.insert(flat(table, actor, sort), value.to_vec());
                }
                OpView::Delete { table, actor, sort } => {
                    self.rows.remove(&flat(table, actor, sort));
                }
                OpView::DeleteRange { table, actor, from, until } => {
                    self.remove(flat(table, actor, from), flat(table, actor, until));
                }
                OpView::DeleteActor { table, actor } => {
                    self.remove(flat(table, actor, b""), behind(table, actor));
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
            let left: Vec<u8> = disk.rows_of(Table::Archive, "a@x").map(|(sort, _)| sort[0]).collect();
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
            actor: b"a@x".as_slice().into(),
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
